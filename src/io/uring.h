/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/uring.h - reads of which several are under way in one thread, by io_uring(7). Linux has it
 * since 5.6; containers often forbid it. Where it is not to be had, callers have another way.
 */
#ifndef SFT_IO_URING_H
#define SFT_IO_URING_H

#include "base/compiler.h"
#include <sft/source.h>

typedef struct sft__io_uring sft__io_uring;

enum { SFT__URING_DEPTH = 16 };

/* NULL: none is to be had. For one thread at a time. */
sft__io_uring *sft__io_uring_open(const sft_allocator *allocator);
void sft__io_uring_close(sft__io_uring *ring); /* NULL is fine */

/* At most SFT__URING_DEPTH ranges of a file, all at once; done is called for each in their order,
 * while those behind it are still under way. Stops calling after the first that did not come whole,
 * or for which done gives false; returns how many came. Nothing is under way when it returns. */
size_t sft__io_uring_read(sft__io_uring *ring, int fd, const sft_io_range *ranges, size_t count,
                          bool (*done)(void *ctx, size_t index), void *ctx);

#endif
