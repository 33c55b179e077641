/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/counting.h - an allocator that counts what is held, checks the sizes that are given
 * back and fails on request. One thread at a time.
 */
#ifndef SFT_TESTS_COUNTING_H
#define SFT_TESTS_COUNTING_H

#include "unit/cm.h"
#include <sft/types.h>

typedef struct counting {
    sft_allocator allocator;
    size_t held; /* bytes */
    size_t blocks;
    size_t peak;
    size_t calls;     /* of alloc and resize */
    size_t fail_from; /* the call (counted from 1) that fails; 0: none */
    size_t fail_count;
    size_t bad_sizes; /* frees with another size than was asked for */
} counting;

/* Before each block lies its size. */
enum { COUNTING_HEAD = 16 };

static inline int counting_refuses(counting *c) {
    c->calls++;
    return c->fail_from != 0 && c->calls >= c->fail_from && c->calls < c->fail_from + c->fail_count;
}

static inline void *counting_alloc(void *ctx, size_t size) {
    counting *c = ctx;
    uint8_t *p;
    if (counting_refuses(c) || (p = malloc(size + COUNTING_HEAD)) == NULL) {
        return NULL;
    }
    memcpy(p, &size, sizeof size);
    memset(p + COUNTING_HEAD, 0xa5, size);
    c->held += size;
    c->blocks++;
    c->peak = c->held > c->peak ? c->held : c->peak;
    return p + COUNTING_HEAD;
}

static inline void counting_free(void *ctx, void *ptr, size_t size) {
    counting *c = ctx;
    uint8_t *p = (uint8_t *)ptr - COUNTING_HEAD;
    size_t asked;
    memcpy(&asked, p, sizeof asked);
    c->bad_sizes += asked != size;
    c->held -= asked;
    c->blocks--;
    free(p);
}

static inline void *counting_resize(void *ctx, void *ptr, size_t old_size, size_t new_size) {
    void *fresh = counting_alloc(ctx, new_size);
    if (fresh != NULL) {
        memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
        counting_free(ctx, ptr, old_size);
    }
    return fresh;
}

static inline void counting_init(counting *c) {
    memset(c, 0, sizeof *c);
    c->allocator.alloc = counting_alloc;
    c->allocator.resize = counting_resize;
    c->allocator.free = counting_free;
    c->allocator.ctx = c;
    c->fail_count = 1;
}

#define assert_all_given_back(c)                                                                   \
    do {                                                                                           \
        assert_int_equal((c)->held, 0);                                                            \
        assert_int_equal((c)->blocks, 0);                                                          \
        assert_int_equal((c)->bad_sizes, 0);                                                       \
    } while (0)

#endif
