/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/keep.h - what a file keeps of the one that it replaces, for files that have a name already.
 * Read first: sft_file_keep in <sft/extend.h>.
 */
#ifndef SFT_FS_KEEP_H
#define SFT_FS_KEEP_H

#include "base/error.h"
#include "base/text/buf.h"
#include <sft/extend.h>

/* The file `path`, which is about to replace `old`, gets what that one has beside its bytes. */
sft_status sft__fs_keep_path(const char *path, const char *old, sft_error *err);
/* Appends the names of the file's extended attributes (an access control list is one), each with its NUL, one
 * more NUL behind the last; nothing if it has none, or the system knows none. */
void sft__fs_attribute_names(const char *path, sft__base_buf *out);

#endif
