/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pages_posix.c - mappings and anonymous pages on POSIX systems. Mappings are private and writable (a
 * write makes a copy of its page and never reaches the file) and reserve no swap: 100 GB map on a machine
 * of 16.
 */
#if !defined(_WIN32)
#include "core.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

#define HUGE_PAGE ((size_t)2 << 20)

void *core_pages_map(int fd, size_t size, int *shorter) {
    struct stat st;
    void *base;

    if (fstat(fd, &st) != 0) {
        return NULL;
    }
    if (st.st_size < 0 || (uint64_t)st.st_size < size) {
        *shorter = 1;
        return NULL;
    }
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

bool core_stamp_of(int fd, core_stamp *out) {
    struct stat st;

    out->known = fd >= 0 && fstat(fd, &st) == 0;
    if (out->known) {
        out->inode = (uint64_t)st.st_ino;
        out->size = (uint64_t)st.st_size;
#if defined(__APPLE__)
        out->mtime_ns = (int64_t)st.st_mtimespec.tv_sec * 1000000000 + st.st_mtimespec.tv_nsec;
#else
        out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
#endif
    }
    return out->known;
}

void core_pages_unmap(void *base, size_t size) {
    (void)munmap(base, size);
}

/* Pages start at a multiple of 2 MiB where there is room for one, or huge pages could not be used. Small ones,
 * all of which are about to be written, come at once: one by one each costs three times as much as its bytes. */
void *core_pages_new(size_t size) {
#if defined(MAP_POPULATE)
    int now = size < HUGE_PAGE ? MAP_POPULATE : 0;
#else
    int now = 0;
#endif
    size_t span = size + (size >= HUGE_PAGE ? HUGE_PAGE : 0);
    unsigned char *base, *start;

    if (span < size) {
        errno = ENOMEM;
        return NULL;
    }
    base = mmap(NULL, span, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | now, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    if (span == size) {
        return base;
    }
    start = (unsigned char *)(((uintptr_t)base + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    if (start > base) {
        (void)munmap(base, (size_t)(start - base));
    }
    {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        unsigned char *end = start + ((size + page - 1) & ~(page - 1));
        if (end < base + span) {
            (void)munmap(end, (size_t)(base + span - end));
        }
    }
    core_pages_huge(start, size);
    return start;
}

void core_pages_free(void *base, size_t size) {
    (void)munmap(base, size);
}

/* The system may take them when it needs memory. Asked for huge pages only: with small ones that costs as much as
 * it is worth to keep them. */
void core_pages_idle(void *base, size_t size) {
#if defined(MADV_FREE)
    if (size >= HUGE_PAGE) {
        (void)madvise(base, size, MADV_FREE);
    }
#else
    (void)base;
    (void)size;
#endif
}

void core_pages_huge(void *base, size_t size) {
#if defined(MADV_HUGEPAGE)
    uintptr_t from = ((uintptr_t)base + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t to = ((uintptr_t)base + size) & ~(uintptr_t)(HUGE_PAGE - 1);
    int saved = errno;

    if (size >= HUGE_PAGE && to > from) {
        (void)madvise((void *)from, (size_t)(to - from), MADV_HUGEPAGE);
    }
    errno = saved;
#else
    (void)base;
    (void)size;
#endif
}

long core_process(void) {
    return (long)getpid();
}
#else
typedef int core_pages_posix_unused;
#endif
