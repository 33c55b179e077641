/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/keep_posix.h - what a new file keeps of the one that it replaces: permission bits, owner,
 * access control list, extended attributes. The one home of this; sft_file_keep (<sft/extend.h>) is its
 * public face.
 */
#ifndef SFT_FS_KEEP_POSIX_H
#define SFT_FS_KEEP_POSIX_H

#include "base/error.h"
#include <sft/extend.h>

#ifndef _WIN32
#include <sys/stat.h>

/* file: the new one. old: the one replaced, open for reading; or -1, then only what `was` tells of it is
 * kept. mode: SFT_MODE_SET and the bits asked for, or 0: the old file's. name: for messages. */
sft_status sft__fs_keep(int file, int old, const struct stat *was, uint32_t mode, const char *name,
                        sft_error *err);
#endif

#endif
