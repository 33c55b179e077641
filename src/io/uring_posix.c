/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/uring_posix.c - see uring.h. The raw system calls: the kernel's structures are declared here,
 * because the headers of build machines are often older than the kernels of those that run it.
 * Source: the kernel's Documentation and include/uapi/linux/io_uring.h (the ABI is stable).
 */
#ifndef _WIN32
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "base/memory/alloc.h"
#include "io/uring.h"
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#if defined(__linux__) && !defined(__alpha__)
enum {
    SYS_SETUP = 425,
    SYS_ENTER = 426,
    SINGLE_MMAP = 1, /* feature: both rings in one mapping (5.4) */
    RW_CUR_POS = 8,  /* feature that came with IORING_OP_READ (5.6) */
    OP_READ = 22,
    GET_EVENTS = 1
};
#define OFF_SQES ((off_t)0x10000000)

typedef struct uring_sqe {
    uint8_t opcode, flags;
    uint16_t ioprio;
    int32_t fd;
    uint64_t offset, address;
    uint32_t size, rw_flags;
    uint64_t user_data, pad[3];
} uring_sqe;

typedef struct uring_cqe {
    uint64_t user_data;
    int32_t result;
    uint32_t flags;
} uring_cqe;

typedef struct uring_params {
    uint32_t sq_entries, cq_entries, flags, thread_cpu, thread_idle, features, wq_fd, reserved[3];
    struct {
        uint32_t head, tail, mask, entries, flags, dropped, array, reserved;
        uint64_t address;
    } sq;
    struct {
        uint32_t head, tail, mask, entries, overflow, cqes, flags, reserved;
        uint64_t address;
    } cq;
} uring_params;

struct sft__io_uring {
    const sft_allocator *allocator;
    int fd;
    uint8_t *rings;
    size_t rings_size;
    uring_sqe *sqes;
    size_t sqes_size;
    uring_params p;
};

static _Atomic(uint32_t) *word_at(const sft__io_uring *u, uint32_t offset) {
    return (void *)(u->rings + offset); /* the kernel aligns them */
}

sft__io_uring *sft__io_uring_open(const sft_allocator *allocator) {
    sft__io_uring *u = sft__base_alloc_zero(allocator, sizeof *u);
    if (u == NULL) {
        return NULL;
    }
    u->allocator = allocator;
    u->fd = (int)syscall(SYS_SETUP, SFT__URING_DEPTH, &u->p);
    if (u->fd >= 0 && (u->p.features & SINGLE_MMAP) != 0 && (u->p.features & RW_CUR_POS) != 0) {
        const size_t sq = u->p.sq.array + u->p.sq_entries * sizeof(uint32_t);
        const size_t cq = u->p.cq.cqes + u->p.cq_entries * sizeof(uring_cqe);
        u->rings_size = sq > cq ? sq : cq;
        u->sqes_size = u->p.sq_entries * sizeof(uring_sqe);
        void *rings = mmap(NULL, u->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, 0);
        void *sqes = mmap(NULL, u->sqes_size, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, OFF_SQES);
        u->rings = rings != MAP_FAILED ? rings : NULL;
        u->sqes = sqes != MAP_FAILED ? sqes : NULL;
    }
    if (u->rings == NULL || u->sqes == NULL) {
        sft__io_uring_close(u);
        return NULL;
    }
    return u;
}

void sft__io_uring_close(sft__io_uring *u) {
    if (u == NULL) {
        return;
    }
    if (u->rings != NULL) {
        (void)munmap(u->rings, u->rings_size);
    }
    if (u->sqes != NULL) {
        (void)munmap(u->sqes, u->sqes_size);
    }
    if (u->fd >= 0) {
        (void)close(u->fd);
    }
    sft__base_free(u->allocator, u, sizeof *u);
}

static void uring_push(sft__io_uring *u, int fd, const sft_io_range *r, size_t index) {
    _Atomic(uint32_t) *tail = word_at(u, u->p.sq.tail);
    const uint32_t at = atomic_load_explicit(tail, memory_order_relaxed);
    const uint32_t slot = at & (u->p.sq_entries - 1);

    u->sqes[slot] = (uring_sqe){.opcode = OP_READ,
                                .fd = fd,
                                .offset = r->offset,
                                .address = (uint64_t)(uintptr_t)r->data,
                                .size = (uint32_t)r->size,
                                .user_data = index};
    atomic_store_explicit(word_at(u, u->p.sq.array + slot * (uint32_t)sizeof slot), slot,
                          memory_order_relaxed);
    atomic_store_explicit(tail, at + 1, memory_order_release);
}

/* Submits what is waiting, and waits for an answer. False: the ring is of no use any more. */
static bool uring_enter(sft__io_uring *u, uint32_t *waiting) {
    const long n = syscall(SYS_ENTER, u->fd, *waiting, 1, GET_EVENTS, NULL, 0);
    if (n > 0) {
        *waiting -= (uint32_t)n;
    }
    return n >= 0 || errno == EINTR || errno == EAGAIN || errno == EBUSY;
}

size_t sft__io_uring_read(sft__io_uring *u, int fd, const sft_io_range *ranges, size_t count,
                          bool (*done)(void *ctx, size_t index), void *ctx) {
    _Atomic(uint32_t) *head = word_at(u, u->p.cq.head);
    _Atomic(uint32_t) *tail = word_at(u, u->p.cq.tail);
    uint32_t waiting = (uint32_t)count;
    uint32_t came = 0; /* bit i: range i is whole */
    size_t open = count;
    size_t told = 0;
    bool going = true;

    for (size_t i = 0; i < count; i++) {
        uring_push(u, fd, &ranges[i], i);
    }
    while (open > 0) {
        uint32_t at = atomic_load_explicit(head, memory_order_relaxed);
        if (at == atomic_load_explicit(tail, memory_order_acquire)) {
            if (!uring_enter(u, &waiting) && open == waiting) {
                break; /* nothing is under way, and nothing more is taken */
            }
            continue;
        }
        const uring_cqe *c =
            (const void *)(u->rings + u->p.cq.cqes + (at & (u->p.cq_entries - 1)) * sizeof *c);
        const size_t i = (size_t)c->user_data;
        came |= c->result >= 0 && (size_t)c->result == ranges[i].size ? 1u << i : 0;
        atomic_store_explicit(head, at + 1, memory_order_release);
        open--;
        while (going && told < count && (came >> told & 1) != 0) {
            going = done(ctx, told);
            told += going;
        }
    }
    return told;
}
#else
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
#endif
#else
typedef int sft__io_uring_posix_empty;
#endif
