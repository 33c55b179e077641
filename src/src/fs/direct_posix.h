/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/direct_posix.h - writing past the page cache (O_DIRECT). A large file that must reach the disk
 * anyway gets there faster this way: nothing is copied into the cache, and fsync finds nothing left
 * to do. Only for publish_posix.c.
 */
#ifndef SFT_FS_DIRECT_POSIX_H
#define SFT_FS_DIRECT_POSIX_H

#ifndef _WIN32
#include "base/memory/alloc.h"
#include "base/sizes.h"
#include "fs/stream.h"

typedef struct sft__fs_direct sft__fs_direct;

/* A second way into the open file `file`. NULL where there is none: use the cache. */
sft__fs_direct *sft__fs_direct_open(int file, const sft_allocator *allocator);

/* What is not written yet of a vectored write. */
typedef struct sft__fs_span_walk {
    const sft__fs_span *parts; /* the first one is begun */
    size_t count;
    size_t begun;    /* bytes of it that are done */
    uint64_t left;   /* bytes of all */
    uint64_t offset; /* in the file, of the next byte */
} sft__fs_span_walk;

/* Writes as much of `p` as goes directly, moving it on; the odd bytes before the first block go
 * through the cache. What is left then (the odd bytes at the end, or everything if this way is
 * closed) is the caller's. 0, or -1 with errno. Any number of threads. */
int sft__fs_direct_write(sft__fs_direct *d, sft__fs_span_walk *p);

/* Frees it. 0, or -1 with errno if closing failed. NULL is fine. */
int sft__fs_direct_close(sft__fs_direct *d);
#endif

#endif
