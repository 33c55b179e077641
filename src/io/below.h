/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/below.h - the parts of opening below a folder that tests look at. See below_posix.c.
 */
#ifndef SFT_IO_BELOW_H
#define SFT_IO_BELOW_H

#include "io/platform.h"

/* If `path` (resolved, absolute) lies in the Hugging Face cache -
 * .../models--ORG--NAME/snapshots/REVISION or below, also datasets-- and spaces-- - the length of
 * the repository's part of it, else 0. Either separator. Pure. */
size_t sft__cache_root(const char *path);

#ifndef _WIN32
/* What sft__file_open_below does where the kernel does not help: resolve, judge, walk without
 * links. */
sft_status sft__open_below_resolved(const char *folder_path, const char *name, int *out,
                                    bool *missing, sft_error *err);
#endif

#endif
