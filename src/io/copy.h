/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/copy.h - bytes from one file to another file or stream, inside the kernel where it can: shared
 * blocks, copy_file_range, sendfile; else through a bounded buffer. copy_posix.c, copy_win.c.
 */
#ifndef SFT_IO_COPY_H
#define SFT_IO_COPY_H

#include "io/meter.h"
#include "io/stream.h"

typedef struct sft__copy {
    sft__handle src; /* a regular file */
    const char *src_name;
    uint64_t src_offset;
    sft__handle dst;
    const char *dst_name;
    uint64_t dst_offset;
    const sft__stream *stream; /* not NULL: goes there instead, at its position; dst is unused */
    uint64_t size;
    const sft_allocator *allocator; /* of the buffer, if one is needed */
    sft__meter *meter;              /* may be NULL */
} sft__copy;

/* SFT_E_TRUNCATED if the source ends before. What the target holds after a failure is unspecified.
 */
sft_status sft__copy_range(const sft__copy *copy, sft_error *err);

#endif
