/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/half.h - marks of models that are half written. half.c: what they mean; half_posix.c, half_win.c: the
 * files.
 */
#ifndef SFT_FS_HALF_H
#define SFT_FS_HALF_H

#include "base/error.h"
#include <sft/extend.h>

/* A file of no bytes, which may be there already. durable: its entry reaches the disk. */
sft_status sft__fs_half_make(const char *path, bool durable, sft_error *err);
/* None is fine. */
sft_status sft__fs_half_remove(const char *path, sft_error *err);
bool sft__fs_half_is_mark(const char *name, size_t len);

#endif
