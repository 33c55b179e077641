/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/below.h - the parts of opening below a folder that tests look at. See below_posix.c.
 */
#ifndef SFT_FS_BELOW_H
#define SFT_FS_BELOW_H

#include "fs/file.h"

/* If `path` (resolved, absolute) lies in the Hugging Face cache -
 * .../models--ORG--NAME/snapshots/REVISION or below, also datasets-- and spaces-- - the length of
 * the repository's part of it, else 0. Either separator. Pure. */
size_t sft__fs_cache_root(const char *path);

#ifndef _WIN32
/* What sft__fs_open_below does where the kernel does not help: resolve, judge, walk without
 * links. */
sft_status sft__fs_open_below_resolved(const char *folder_path, const char *name, int *out,
                                       bool *missing, sft_error *err);
#endif

#endif
