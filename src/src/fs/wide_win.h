/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/wide_win.h - UTF-8 paths in the form that Windows wants: UTF-16, absolute, and with the prefix
 * that lifts the limit of 260 characters. Only for the Windows implementations.
 */
#ifndef SFT_FS_WIDE_WIN_H
#define SFT_FS_WIDE_WIN_H

#ifdef _WIN32
#include "base/error.h"
#include "base/memory/alloc.h"
#include <wchar.h>

typedef struct sft__fs_wide {
    wchar_t *text; /* NUL-terminated, owned */
    size_t size;   /* bytes allocated */
    size_t len;    /* characters */
} sft__fs_wide;

/* \\?\C:\directory\name, \\?\UNC\server\share\name, or what names a device as it is. */
sft_status sft__fs_wide_path(sft__fs_wide *out, const char *path, const sft_allocator *allocator,
                             sft_error *err);
void sft__fs_wide_reset(sft__fs_wide *w, const sft_allocator *allocator);
/* Where an open handle (a HANDLE) really lies, with all links followed. name: for messages. */
sft_status sft__fs_wide_final(sft__fs_wide *out, void *handle, const char *name,
                              const sft_allocator *allocator, sft_error *err);
#endif

#endif
