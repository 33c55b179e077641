/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/below.h - files below a directory, by names that others chose: what is opened lies in the directory,
 * however links are exchanged meanwhile. below_posix.c, below_win.c.
 */
#ifndef SFT_FS_BELOW_H
#define SFT_FS_BELOW_H

#include "fs/file.h"

/* Which symbolic links the way to a file may have. Those of the Hugging Face cache (REPO/snapshots/...
 * -> REPO/blobs/...) are followed in any case. */
typedef enum sft__fs_links {
    SFT__FS_LINKS_INSIDE = 0, /* those that do not lead out of the directory */
    SFT__FS_LINKS_NONE,
    SFT__FS_LINKS_ANY /* wherever they lead: only for whoever made them is trusted */
} sft__fs_links;

typedef struct sft__fs_root {
    sft__fs_handle directory; /* open */
    const char *path;         /* what it is called; "" is the current one */
    sft__fs_links links;
} sft__fs_root;

/* Opens a regular file. name: a relative path without ".." and empty parts. SFT_E_PATH: a link that may
 * not be followed; SFT_E_NOT_REGULAR: devices and the like, which are looked at, not opened. *missing:
 * there is no such file; the status is SFT_E_SHARD_MISSING then. Windows: SFT_E_UNSUPPORTED for other
 * rules than SFT__FS_LINKS_INSIDE. */
sft_status sft__fs_open_below(const sft__fs_root *root, const char *name, sft__fs_handle *out,
                              sft__fs_stat *st, bool *missing, sft_error *err);

/* If `path` (resolved, absolute) lies in the Hugging Face cache -
 * .../models--ORG--NAME/snapshots/REVISION or below, also datasets-- and spaces-- - the length of
 * the repository's part of it, else 0. Either separator. Pure. */
size_t sft__fs_cache_root(const char *path);

#ifndef _WIN32
/* What sft__fs_open_below does where the kernel does not help: resolve, judge, walk without
 * links. */
sft_status sft__fs_open_below_resolved(const sft__fs_root *root, const char *name, int *out,
                                       bool *missing, sft_error *err);
#endif

#endif
