/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/probe_posix.c - see probe.h. Linux answers everything; other systems are asked for nothing but
 * size and time.
 */
#ifndef _WIN32
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fs/probe.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

bool sft__fs_stamp_fd(int fd, sft__fs_stamp *out) {
    struct stat s;
    if (fd < 0 || fstat(fd, &s) != 0) {
        return false;
    }
    out->size = (uint64_t)s.st_size;
#if defined(__APPLE__)
    out->mtime_ns = (int64_t)s.st_mtimespec.tv_sec * 1000000000 + (int64_t)s.st_mtimespec.tv_nsec;
#else
    out->mtime_ns = (int64_t)s.st_mtim.tv_sec * 1000000000 + (int64_t)s.st_mtim.tv_nsec;
#endif
    return true;
}

enum { VECTOR = 64 };

bool sft__fs_read_vector(int fd, const sft_io_range *ranges, size_t count) {
#if defined(__linux__)
    struct iovec v[VECTOR];
    size_t total = 0;
    ssize_t n;

    if (fd < 0 || count > VECTOR) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        v[i] = (struct iovec){ranges[i].data, ranges[i].size};
        total += ranges[i].size;
    }
    do {
        n = preadv(fd, v, (int)count, (off_t)ranges[0].offset);
    } while (n < 0 && errno == EINTR);
    return n >= 0 && (size_t)n == total;
#else
    (void)fd, (void)ranges, (void)count;
    return false;
#endif
}

#if defined(__linux__)
/* What a copy from file to file inside the kernel is worth: pages are copied there one by one, at half
 * the speed of reading and writing blocks that stay in the processor's cache. */
enum copy_worth {
    COPY_SLOW,
    COPY_BLOCKS, /* aligned blocks can be shared instead */
    COPY_SERVER  /* a server copies, and nothing crosses the network */
};

/* The one list of file systems. Numbers from statfs(2) and the kernel's magic.h. */
static const struct fs_row {
    uint32_t magic;
    uint8_t kind; /* sft__fs_kind */
    uint8_t copy; /* enum copy_worth */
    char name[9];
} fs_rows[] = {
    {0xEF53, SFT__FS_LOCAL, COPY_SLOW, "ext"},
    {0x58465342, SFT__FS_LOCAL, COPY_BLOCKS, "xfs"},
    {0x9123683E, SFT__FS_LOCAL, COPY_BLOCKS, "btrfs"},
    {0xF2F52010, SFT__FS_LOCAL, COPY_SLOW, "f2fs"},
    {0x2FC12FC1, SFT__FS_LOCAL, COPY_BLOCKS, "zfs"},
    {0x794C7630, SFT__FS_LOCAL, COPY_SLOW, "overlay"},
    {0xCA451A4E, SFT__FS_UNKNOWN, COPY_BLOCKS,
     "unknown"}, /* bcachefs: its reads were never measured */
    {0x7461636F, SFT__FS_UNKNOWN, COPY_BLOCKS, "unknown"}, /* ocfs2: the same */
    {0x01021994, SFT__FS_MEMORY, COPY_SLOW, "tmpfs"},
    {0x858458F6, SFT__FS_MEMORY, COPY_SLOW, "ramfs"},
    {0x958458F6, SFT__FS_MEMORY, COPY_SLOW, "hugetlb"},
    {0x6969, SFT__FS_NETWORK, COPY_SERVER, "nfs"},
    {0x0BD00BD0, SFT__FS_NETWORK, COPY_SLOW, "lustre"},
    {0xFF534D42, SFT__FS_NETWORK, COPY_SERVER, "cifs"},
    {0xFE534D42, SFT__FS_NETWORK, COPY_SERVER, "smb2"},
    {0x01021997, SFT__FS_NETWORK, COPY_SLOW, "9p"},
    {0x00C36400, SFT__FS_NETWORK, COPY_SERVER, "ceph"},
    {0x47504653, SFT__FS_NETWORK, COPY_SLOW, "gpfs"},
    {0x5346414F, SFT__FS_NETWORK, COPY_SERVER, "afs"},
    {0x65735546, SFT__FS_FUSE, COPY_SERVER, "fuse"},
};

static const struct fs_row *row_of(int fd) {
    struct statfs s;
    if (fstatfs(fd, &s) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof fs_rows / sizeof fs_rows[0]; i++) {
        if (fs_rows[i].magic == (uint32_t)s.f_type) {
            return &fs_rows[i];
        }
    }
    return NULL;
}

sft__fs_kind sft__fs_system(int fd, const char **name) {
    const struct fs_row *const row = row_of(fd);
    *name = row != NULL ? row->name : "unknown";
    return row != NULL ? (sft__fs_kind)row->kind : SFT__FS_UNKNOWN;
}

bool sft__fs_copies_well(int fd, bool aligned) {
    const struct fs_row *const row = row_of(fd);
    return row != NULL && (row->copy == COPY_SERVER || (row->copy == COPY_BLOCKS && aligned));
}

enum {
    SAMPLES = 32, /* of a large file; one for each SAMPLE_EACH bytes of a small one, but no less */
    SAMPLES_LEAST = 4, /* than these */
    SAMPLE_EACH = 8 << 20,
    SAMPLE_BYTES = 256 << 10,
    TOUCHES = 8, /* fewer: one that misses starts a read-ahead */
    CACHESTAT = 451
};

/* cachestat(2), Linux 6.5: counts pages without looking at them. mincore would need a mapping, and
 * answers "yes" for files of others. */
static int cached_by_stat(int fd, uint64_t size) {
    const long page = sysconf(_SC_PAGESIZE);
    uint64_t cached = 0;
    uint64_t asked = 0;
    uint64_t samples = size / SAMPLE_EACH;

    samples = samples < SAMPLES ? samples : SAMPLES;
    samples = samples > SAMPLES_LEAST ? samples : SAMPLES_LEAST;
    for (uint64_t i = 0; i < samples; i++) {
        struct {
            uint64_t off, len;
        } range = {size / samples * i / SAMPLE_BYTES * SAMPLE_BYTES, SAMPLE_BYTES};
        uint64_t counts[5] = {0}; /* cached, dirty, writeback, evicted, recently evicted */
        if (range.len > size - range.off) {
            range.len = size - range.off;
        }
        if (range.len == 0 || page <= 0 || syscall(CACHESTAT, fd, &range, counts, 0) != 0) {
            return -1;
        }
        cached += counts[0];
        asked += (range.len + (uint64_t)page - 1) / (uint64_t)page;
    }
    return cached >= asked ? 100 : (int)(cached * 100 / asked);
}

int sft__fs_cached(int fd, uint64_t size) {
    int percent = cached_by_stat(fd, size);
#if defined(RWF_NOWAIT)
    for (uint64_t i = 0, there = 0; percent < 0 && i < TOUCHES; i++) {
        char byte;
        const struct iovec one = {&byte, 1};
        const ssize_t n = preadv2(fd, &one, 1, (off_t)(size / TOUCHES * i), RWF_NOWAIT);
        if (n < 0 && errno != EAGAIN) {
            break;
        }
        there += n > 0;
        percent = i + 1 == TOUCHES ? (int)(there * 100 / TOUCHES) : -1;
    }
#endif
    return percent;
}

int sft__fs_open_direct(int fd) {
#if defined(O_DIRECT)
    char path[40];
#if defined(STATX_DIOALIGN)
    struct statx s;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &s) == 0 &&
        (s.stx_mask & STATX_DIOALIGN) != 0 &&
        (s.stx_dio_offset_align == 0 || s.stx_dio_offset_align > SFT__FS_DIRECT_ALIGN ||
         s.stx_dio_mem_align > SFT__FS_DIRECT_ALIGN)) {
        return -1;
    }
#endif
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return openat(AT_FDCWD, path, O_RDONLY | O_DIRECT | O_CLOEXEC);
#else
    (void)fd;
    return -1;
#endif
}

void sft__fs_close_direct(int direct) {
    if (direct >= 0) {
        (void)close(direct); /* nothing was written */
    }
}

bool sft__fs_read_direct(int direct, uint64_t offset, void *dst, size_t size) {
    uint8_t *p = dst;
    while (size > 0) {
        const ssize_t n = pread(direct, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        /* An odd count comes from the end of the file, which must not be here, or from a fault:
         * going on would not be aligned. */
        if (n <= 0 || (size_t)n % SFT__FS_DIRECT_ALIGN != 0) {
            return false;
        }
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}
#else
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
#endif

bool sft__fs_map_populate(const void *map, size_t size) {
#if defined(MADV_POPULATE_READ)
    const long page = sysconf(_SC_PAGESIZE);
    const size_t skew = page > 0 ? (uintptr_t)map % (size_t)page : 0;
    void *begin;
    map = (const uint8_t *)map - skew;
    memcpy(&begin, &map, sizeof begin); /* only the type says const */
    while (madvise(begin, size + skew, MADV_POPULATE_READ) != 0) {
        if (errno != EINTR && errno != EAGAIN) {
            return errno == EINVAL || errno == ENOSYS || errno == EPERM; /* kernels before 5.14 */
        }
    }
#else
    (void)map, (void)size;
#endif
    return true;
}
#else
typedef int sft__fs_probe_posix_empty;
#endif
