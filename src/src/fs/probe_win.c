/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/probe_win.c - see probe.h: sources have no descriptors on Windows, so nothing is asked.
 */
#ifdef _WIN32
#include "fs/probe.h"

sft__fs_kind sft__fs_system(int fd, const char **name) {
    (void)fd;
    *name = "unknown";
    return SFT__FS_UNKNOWN;
}

bool sft__fs_copies_well(int fd, bool aligned) {
    (void)fd, (void)aligned;
    return false;
}

int sft__fs_cached(int fd, uint64_t size) {
    (void)fd, (void)size;
    return -1;
}

int sft__fs_open_direct(int fd) {
    (void)fd;
    return -1;
}

void sft__fs_close_direct(int direct) {
    (void)direct;
}

bool sft__fs_read_direct(int direct, uint64_t offset, void *dst, size_t size) {
    (void)direct, (void)offset, (void)dst, (void)size;
    return false;
}

bool sft__fs_read_vector(int fd, const sft_io_range *ranges, size_t count) {
    (void)fd, (void)ranges, (void)count;
    return false;
}

bool sft__fs_stamp_fd(int fd, sft__fs_stamp *out) {
    (void)fd, (void)out;
    return false;
}

bool sft__fs_map_populate(const void *map, size_t size) {
    (void)map, (void)size;
    return true;
}
#else
typedef int sft__fs_probe_win_empty;
#endif
