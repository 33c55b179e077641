/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/copy_any.h - between copy.c and the systems' copy files. Both functions move c forward by what
 * was done.
 */
#ifndef SFT_FS_COPY_ANY_H
#define SFT_FS_COPY_ANY_H

#include "base/memory/alloc.h"
#include "fs/copy.h"

sft_status sft__fs_copy_bounce(sft__fs_copy *c, sft_error *err);
sft_status sft__fs_copy_advance(sft__fs_copy *c, uint64_t n, sft_error *err);

#endif
