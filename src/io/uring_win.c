/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/uring_win.c - see uring.h: there is none on Windows.
 */
#ifdef _WIN32
#include "io/uring.h"

sft__io_uring *sft__io_uring_open(const sft_allocator *allocator) {
    (void)allocator;
    return NULL;
}

void sft__io_uring_close(sft__io_uring *ring) {
    (void)ring;
}

size_t sft__io_uring_read(sft__io_uring *ring, int fd, const sft_io_range *ranges, size_t count,
                          bool (*done)(void *ctx, size_t index), void *ctx) {
    (void)ring, (void)fd, (void)ranges, (void)count, (void)done, (void)ctx;
    return 0;
}
#else
typedef int sft__io_uring_win_empty;
#endif
