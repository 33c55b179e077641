/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/copy.h - bytes from one file to another file or stream, inside the kernel where it can: shared
 * blocks, copy_file_range, sendfile; else through a bounded buffer. copy_posix.c, copy_win.c.
 */
#ifndef SFT_FS_COPY_H
#define SFT_FS_COPY_H

#include "base/thread/meter.h"
#include "fs/stream.h"

typedef struct sft__fs_copy {
    sft__fs_handle src; /* a regular file */
    const char *src_name;
    uint64_t src_offset;
    sft__fs_handle dst;
    const char *dst_name;
    uint64_t dst_offset;
    const sft__fs_stream *stream; /* not NULL: goes there instead, at its position; dst is unused */
    uint64_t size;
    const sft_allocator *allocator; /* of the buffer, if one is needed */
    sft__base_meter *meter;         /* may be NULL */
} sft__fs_copy;

/* SFT_E_TRUNCATED if the source ends before. What the target holds after a failure is unspecified.
 */
sft_status sft__fs_copy_range(const sft__fs_copy *copy, sft_error *err);

/* Copies from a descriptor inside the kernel where that costs less than to read and to write. *moved: bytes
 * that were; fewer where this way is not open, or the source ends: no error, the rest is to be read and
 * written. On local disks only what could be shared instead of copied: the file system can, the positions
 * agree modulo 4096. */
sft_status sft__fs_copy_cheaply(sft__fs_handle file, const char *name, uint64_t offset, int fd,
                                uint64_t from, uint64_t size, uint64_t *moved, sft_error *err);

#endif
