/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/direct_posix.c - see direct_posix.h. Directly written are whole pages from aligned memory: the
 * caller's where it happens to be aligned, else a bounce buffer. No page is written both ways.
 * The buffer is of huge pages: a request to a device has room for so many pieces of memory, and of
 * scattered pages of 4 KiB that is a megabyte at a time, which took half as long again.
 */
#ifndef _WIN32
#include "fs/direct_posix.h"
#include "base/memory/pages.h"
#include "base/thread/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__linux__) && defined(O_DIRECT)
enum { BOUNCE = 4 << 20, MEMORY_ALIGN = 512 };

typedef struct bounce {
    struct bounce *next;
    uint8_t *at; /* BOUNCE bytes, aligned to more than any device asks for */
} bounce;

struct sft__fs_direct {
    const sft_allocator *allocator;
    int file;   /* through the cache; not ours */
    int direct; /* past it */
    size_t align;
    sft__base_mutex lock; /* of the rest */
    sft__base_cond turn;
    unsigned inside;  /* threads on their way here */
    unsigned writing; /* of them, those that the kernel has a filled buffer of */
    bounce *idle;
    bool closed;   /* the file system refused: the cache from here on */
    bool copy_all; /* it refused the caller's memory only */
};

sft__fs_direct *sft__fs_direct_open(int file, const sft_allocator *allocator) {
    const long page = sysconf(_SC_PAGESIZE);
    char path[40];
    sft__fs_direct *d = sft__base_alloc_zero(allocator, sizeof *d);

    if (d == NULL) {
        return NULL;
    }
    d->allocator = allocator;
    d->file = file;
    d->align = page > 4096 ? (size_t)page : 4096; /* at least every device's block */
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    d->direct = openat(AT_FDCWD, path, O_WRONLY | O_DIRECT | O_CLOEXEC);
    if (d->direct >= 0 && sft__base_mutex_init(&d->lock)) {
        if (sft__base_cond_init(&d->turn)) {
            return d;
        }
        sft__base_mutex_reset(&d->lock);
    }
    if (d->direct >= 0) {
        (void)close(d->direct); /* nothing was written */
    }
    sft__base_free(allocator, d, sizeof *d);
    return NULL;
}

static ssize_t write_some(int fd, const void *data, size_t size, uint64_t offset) {
    ssize_t n;
    do {
        n = pwrite(fd, data, size, (off_t)offset);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        errno = EIO;
        return -1;
    }
    return n;
}

/* Threads that wait for one disk come back together; then all of them fill buffers while it rests.
 * So half of them write while the others fill. */
static ssize_t write_in_turn(sft__fs_direct *d, const uint8_t *data, size_t size, uint64_t offset) {
    sft__base_mutex_lock(&d->lock);
    while (d->writing > 0 && d->writing >= d->inside / 2) {
        sft__base_cond_wait(&d->turn, &d->lock);
    }
    d->writing++;
    sft__base_mutex_unlock(&d->lock);
    const ssize_t n = write_some(d->direct, data, size, offset);
    const int cause = errno;
    sft__base_mutex_lock(&d->lock);
    d->writing--;
    sft__base_cond_broadcast(&d->turn);
    sft__base_mutex_unlock(&d->lock);
    errno = cause;
    return n;
}

/* A buffer for one thread; NULL: no memory, or this way is closed. */
static bounce *take_bounce(sft__fs_direct *d, bool *copy_all) {
    bounce *b = NULL;
    bool closed;

    sft__base_mutex_lock(&d->lock);
    closed = d->closed;
    d->inside++;
    *copy_all = d->copy_all;
    if (!closed && d->idle != NULL) {
        b = d->idle;
        d->idle = b->next;
    }
    sft__base_mutex_unlock(&d->lock);
    if (b == NULL && !closed) {
        b = sft__base_alloc_zero(d->allocator, sizeof *b);
        if (b != NULL) {
            b->at = sft__base_pages_alloc(BOUNCE);
        }
        if (b != NULL && b->at == NULL) {
            sft__base_free(d->allocator, b, sizeof *b);
            b = NULL;
        }
    }
    return b;
}

static void give_bounce(sft__fs_direct *d, bounce *b, bool closed, bool copy_all) {
    sft__base_mutex_lock(&d->lock);
    d->inside--;
    sft__base_cond_broadcast(&d->turn);
    if (b != NULL) {
        b->next = d->idle;
        d->idle = b;
    }
    d->closed = d->closed || closed;
    d->copy_all = d->copy_all || copy_all;
    sft__base_mutex_unlock(&d->lock);
}

static void advance(sft__fs_span_walk *p, uint64_t n) {
    p->offset += n;
    p->left -= n;
    while (n > 0) {
        const size_t room = p->parts[0].size - p->begun;
        if (n < room) {
            p->begun += (size_t)n;
            return;
        }
        n -= room;
        p->parts++;
        p->count--;
        p->begun = 0;
    }
}

/* Copies the next n bytes without moving on; n <= left. */
static void peek(const sft__fs_span_walk *p, uint8_t *dst, size_t n) {
    size_t begun = p->begun;
    for (size_t i = 0; n > 0; i++) {
        const size_t room = p->parts[i].size - begun;
        const size_t take = n < room ? n : room;
        if (take > 0) {
            memcpy(dst, (const uint8_t *)p->parts[i].data + begun, take);
        }
        dst += take;
        n -= take;
        begun = 0;
    }
}

/* The bytes up to the first whole page. */
static int write_head(sft__fs_direct *d, sft__fs_span_walk *p, bounce *b) {
    while (p->offset % d->align != 0 && p->left > 0) {
        const uint64_t odd = d->align - p->offset % d->align;
        const size_t size = (size_t)(odd < p->left ? odd : p->left);
        peek(p, b->at, size);
        const ssize_t n = write_some(d->file, b->at, size, p->offset);
        if (n < 0) {
            return -1;
        }
        advance(p, (uint64_t)n);
    }
    return 0;
}

/* Whole pages. *closed: refused. Ends early after a count that is no whole page. */
static int write_pages(sft__fs_direct *d, sft__fs_span_walk *p, bounce *b, bool *copy_all,
                       bool *closed) {
    while (p->left >= d->align && p->offset % d->align == 0) {
        const uint64_t pages = p->left - p->left % d->align;
        size_t size = pages < BOUNCE ? (size_t)pages : (size_t)BOUNCE;
        const uint8_t *data = b->at;
        if (p->begun == p->parts[0].size) {
            p->parts++;
            p->count--;
            p->begun = 0;
            continue;
        }
        const uint8_t *own = (const uint8_t *)p->parts[0].data + p->begun;
        const size_t contiguous = p->parts[0].size - p->begun;
        const bool straight =
            !*copy_all && (uintptr_t)own % MEMORY_ALIGN == 0 && contiguous >= d->align;
        if (straight) {
            data = own;
            size = contiguous < pages ? contiguous - contiguous % d->align : (size_t)pages;
        } else {
            peek(p, b->at, size);
        }
        const ssize_t n = straight ? write_some(d->direct, data, size, p->offset)
                                   : write_in_turn(d, data, size, p->offset);
        if (n < 0 && errno == EINVAL && straight) {
            *copy_all = true;
        } else if (n < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
            *closed = true;
            return 0;
        } else if (n < 0) {
            return -1;
        } else {
            advance(p, (uint64_t)n);
        }
    }
    return 0;
}

int sft__fs_direct_write(sft__fs_direct *d, sft__fs_span_walk *p) {
    bool copy_all;
    bool closed = false;
    int cause = 0;
    bounce *b = take_bounce(d, &copy_all);

    if (b == NULL) {
        give_bounce(d, NULL, false, false);
        return 0;
    }
    if (write_head(d, p, b) != 0 || write_pages(d, p, b, &copy_all, &closed) != 0) {
        cause = errno;
    }
    give_bounce(d, b, closed, copy_all);
    errno = cause;
    return cause == 0 ? 0 : -1;
}

int sft__fs_direct_close(sft__fs_direct *d) {
    int cause = 0;

    if (d == NULL) {
        return 0;
    }
    if (close(d->direct) != 0) {
        cause = errno;
    }
    while (d->idle != NULL) {
        bounce *next = d->idle->next;
        sft__base_pages_free(d->idle->at, BOUNCE);
        sft__base_free(d->allocator, d->idle, sizeof *d->idle);
        d->idle = next;
    }
    sft__base_cond_reset(&d->turn);
    sft__base_mutex_reset(&d->lock);
    sft__base_free(d->allocator, d, sizeof *d);
    errno = cause;
    return cause == 0 ? 0 : -1;
}
#else
sft__fs_direct *sft__fs_direct_open(int file, const sft_allocator *allocator) {
    (void)file;
    (void)allocator;
    return NULL;
}

int sft__fs_direct_write(sft__fs_direct *d, sft__fs_span_walk *p) {
    (void)d;
    (void)p;
    return 0;
}

int sft__fs_direct_close(sft__fs_direct *d) {
    (void)d;
    return 0;
}
#endif
#else
typedef int sft__fs_direct_posix_empty;
#endif
