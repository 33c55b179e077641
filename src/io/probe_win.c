/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/probe_win.c - see probe.h: sources have no descriptors on Windows, so nothing is asked.
 */
#ifdef _WIN32
#include "io/probe.h"

sft__fs sft__fd_system(int fd, const char **name) {
    (void)fd;
    *name = "unknown";
    return SFT__FS_UNKNOWN;
}

int sft__fd_cached(int fd, uint64_t size) {
    (void)fd, (void)size;
    return -1;
}

int sft__fd_open_direct(int fd) {
    (void)fd;
    return -1;
}

void sft__fd_close_direct(int direct) {
    (void)direct;
}

bool sft__fd_read_direct(int direct, uint64_t offset, void *dst, size_t size) {
    (void)direct, (void)offset, (void)dst, (void)size;
    return false;
}

bool sft__fd_read_vector(int fd, const sft_io_range *ranges, size_t count) {
    (void)fd, (void)ranges, (void)count;
    return false;
}

bool sft__fd_stamp(int fd, sft__stamp *out) {
    (void)fd, (void)out;
    return false;
}

bool sft__map_populate(const void *map, size_t size) {
    (void)map, (void)size;
    return true;
}
#else
typedef int sft__probe_win_empty;
#endif
