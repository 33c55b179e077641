/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/memory/pages_posix.c - see pages.h. Maps 2 MiB too much and gives the unaligned ends back.
 */
#ifndef _WIN32
#include "base/checked.h"
#include "base/memory/pages.h"
#include <sys/mman.h>

void *sft__base_pages_alloc(size_t size) {
    size_t span;
    if (!sft__base_add_size(size, 2 * SFT__HUGE_PAGE, &span)) {
        return NULL;
    }
    size = (size + SFT__HUGE_PAGE - 1) & ~(SFT__HUGE_PAGE - 1);
    span = size + SFT__HUGE_PAGE;
    uint8_t *base = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    const size_t head = (size_t)(0 - (uintptr_t)base) & (SFT__HUGE_PAGE - 1);
    const size_t tail = span - head - size;
    if (head != 0) {
        (void)munmap(base,
                     head); /* cannot fail on a range just mapped; if it does, only space is lost */
    }
    if (tail != 0) {
        (void)munmap(base + head + size, tail);
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(base + head, size, MADV_HUGEPAGE); /* a hint: refused where huge pages are off */
#endif
    return base + head;
}

void sft__base_pages_free(void *ptr, size_t size) {
    (void)munmap(ptr, (size + SFT__HUGE_PAGE - 1) & ~(SFT__HUGE_PAGE - 1));
}

void sft__base_pages_touch(void *ptr, size_t size) {
#if defined(__linux__)
    enum {
        PAGE = 4096,
        POPULATE_WRITE = 23 /* the kernel's number, since 5.14; headers may be older */
    };
    const size_t skew = (size_t)(0 - (uintptr_t)ptr) & (PAGE - 1);
    if (size >= skew + PAGE) { /* where pages are larger, it is refused */
        (void)madvise((uint8_t *)ptr + skew, (size - skew) & ~(size_t)(PAGE - 1), POPULATE_WRITE);
    }
#else
    (void)ptr, (void)size;
#endif
}
#else
typedef int sft__base_pages_posix_empty;
#endif
