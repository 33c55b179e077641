/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/test_stream.c - <sft/stream.h>: whatever is asked for, in whatever order and budget,
 * is what sft_tensor_read brings; the budget is kept; failures are those of one tensor. In this
 * build jobs are 64 KiB and direct reads begin at 128 KiB. test_stream_faults.c has what goes
 * wrong.
 */
#include "unit/counting.h"
#include "unit/files.h"
#include "unit/move_util.h"
#include "unit/stream_util.h"

#include <sft/sft.h>
#include <sys/mman.h>

/* ---------------------------------------------------------------- any plan, any budget */

enum { WANTS = 48, HELD = 6, ROOM = 4 << 20 };

typedef struct want {
    const sft_tensor *tensor;
    sft_read_options read;
    sft_slice slices[3];
    int64_t strides[3];
    uint8_t *dst;
    size_t dst_size;
    uint8_t *expected;
    size_t nbytes;
    uint64_t got; /* bytes handed out, UINT64_MAX: refused, as larger than the budget */
} want;

typedef struct held {
    sft_stream_item item;
    bool used;
} held;

typedef struct plan {
    sft_catalog *catalog;
    sft_stream_options options;
    want wants[WANTS];
    size_t count;
    size_t hold; /* items kept at most */
    held held[HELD];
} plan;

static unsigned long long compared, limited, parts, fulls;

/* A slice, a cast or other strides at random. */
static void shape_want(const sft_catalog *catalog, want *w) {
    const sft_tensor *t = w->tensor;
    uint64_t shape[3];
    uint32_t rank;
    uint64_t nbytes;
    sft_error err;
    SFT_INIT(&w->read);
    if (rnd_below(3) == 0) {
        w->read.slices = w->slices;
        w->read.slice_count = rnd_below(t->rank + 1);
        for (size_t d = 0; d < w->read.slice_count; d++) {
            const int64_t n = (int64_t)t->shape[d];
            w->slices[d] = (sft_slice){SFT_OMIT, SFT_OMIT, 1, SFT_SLICE_RANGE, 0};
            w->slices[d].start = rnd_below(2) ? (int64_t)rnd_below(t->shape[d] + 1) : SFT_OMIT;
            w->slices[d].step = rnd_below(3) ? 1 : rnd_below(2) ? 2 : -1;
            if (n > 0 && rnd_below(4) == 0) {
                w->slices[d] =
                    (sft_slice){(int64_t)rnd_below((uint64_t)n), 0, 1, SFT_SLICE_INDEX, 0};
            }
        }
    }
    if (rnd_below(6) == 0) {
        w->read.dtype = sft_dtype_find("F64", 3);
    }
    ok(sft_tensor_result(t, &w->read, shape, &rank, &nbytes, &err), &err);
    w->nbytes = (size_t)nbytes;
    w->dst_size = w->nbytes;
    if (rnd_below(4) == 0) {
        const size_t item = w->read.dtype != NULL ? 8 : t->dtype->block_bytes;
        w->dst = calloc(1, w->nbytes * 2 + 1);
        assert_non_null(w->dst);
        if (rnd_below(2) == 0 && nbytes > 0 && rank > 0) { /* every second place */
            size_t stride = item * 2;
            w->dst_size *= 2;
            for (uint32_t d = rank; d-- > 0;) {
                w->strides[d] = (int64_t)stride;
                stride *= (size_t)shape[d];
            }
            w->read.dst_strides = w->strides;
        }
    }
    w->expected = calloc(1, w->dst_size + 1);
    assert_non_null(w->expected);
    ok(sft_tensor_read(catalog, t, &w->read, w->expected, w->dst_size, &err), &err);
}

static void make_plan(plan *p, sft_pool *const pools[3]) {
    static const uint64_t budgets[] = {0,       8192,    10000,     12288,   20000, 30000,
                                       1 << 16, 1 << 18, 600 << 10, 1 << 20, ROOM};
    memset(p->wants, 0, sizeof p->wants);
    memset(p->held, 0, sizeof p->held);
    SFT_INIT(&p->options);
    p->count = rnd_below(WANTS + 1);
    p->hold = rnd_below(HELD + 1);
    p->options.memory_bytes = budgets[rnd_below(sizeof budgets / sizeof budgets[0])];
    p->options.pool = pools[rnd_below(3)];
    p->options.alignment = rnd_below(5) == 0 ? 256 : 0;
    p->options.order = (uint32_t)rnd_below(3);
    p->options.strategy =
        rnd_below(2) ? SFT_STRATEGY_DIRECT : (rnd_below(2) ? SFT_STRATEGY_READ : SFT_STRATEGY_AUTO);
    p->options.flags = SFT_STREAM_GO_ON | (rnd_below(2) ? SFT_STREAM_PARTS : 0);
    for (size_t i = 0; i < p->count; i++) {
        p->wants[i].tensor = sft_catalog_at(p->catalog, rnd_below(sft_catalog_count(p->catalog)));
        if (rnd_below(3) == 0) {
            shape_want(p->catalog, &p->wants[i]);
        } else {
            want *w = &p->wants[i];
            sft_error err;
            w->nbytes = w->dst_size = (size_t)w->tensor->nbytes;
            w->expected = malloc(w->nbytes + 1);
            assert_non_null(w->expected);
            ok(sft_tensor_read(p->catalog, w->tensor, NULL, w->expected, w->nbytes, &err), &err);
        }
    }
}

static void check_and_release(plan *p, sft_stream *s, held *h) {
    const sft_stream_item *i = &h->item;
    const want *w = &p->wants[i->index];
    const size_t size = w->dst != NULL ? w->dst_size : i->size;
    if (size > 0 && memcmp(i->data, w->expected + i->offset, size) != 0) {
        fail_msg("tensor %s at %llu differs", w->tensor->name, (unsigned long long)i->offset);
    }
    if (i->run != NULL && i->size > 0) {
        memset(i->data, 0x5a, i->size); /* ours until now */
    }
    compared++;
    sft_stream_release(s, &h->item);
    assert_null(h->item.data);
    sft_stream_release(s, &h->item); /* harmless */
    h->used = false;
}

/* Releases one of the items held, if there is one. */
static bool release_any(plan *p, sft_stream *s) {
    const size_t first = rnd_below(HELD);
    for (size_t k = 0; k < HELD; k++) {
        held *h = &p->held[(first + k) % HELD];
        if (h->used) {
            check_and_release(p, s, h);
            return true;
        }
    }
    return false;
}

static void take_item(plan *p, sft_stream *s, const sft_stream_item *item) {
    want *w = &p->wants[item->index];
    size_t count = 0;
    held *free_one = NULL;
    assert_ptr_equal(item->tensor, w->tensor);
    assert_int_equal(item->nbytes, w->nbytes);
    assert_non_null(item->data);
    assert_true(item->offset + item->size <= w->nbytes);
    if (w->dst != NULL) {
        assert_ptr_equal(item->data, w->dst);
        assert_null(item->run);
    } else if (p->options.alignment != 0 && item->size > 0) {
        assert_int_equal((uintptr_t)item->data % p->options.alignment, 0);
    }
    if (p->options.order != SFT_STREAM_ANY) {
        assert_int_equal(item->offset, w->got);
    }
    if (item->size != w->nbytes) {
        assert_true((p->options.flags & SFT_STREAM_PARTS) != 0 && item->size > 0);
        parts++;
    }
    w->got += item->size + (w->nbytes == 0);
    for (size_t k = 0; k < HELD; k++) {
        count += p->held[k].used;
        free_one = p->held[k].used ? free_one : &p->held[k];
    }
    if (free_one == NULL || count >= p->hold) {
        held now = {*item, true};
        check_and_release(p, s, &now);
    } else {
        *free_one = (held){*item, true};
    }
}

static uint64_t place_of(const sft_tensor *t) {
    return ((uint64_t)t->pieces[0].source << 40) + t->pieces[0].offset;
}

static void run_plan(plan *p) {
    const uint64_t budget = p->options.memory_bytes;
    sft_stream_item item;
    sft_stream *s;
    sft_error err;
    uint64_t last = 0, peak;
    ok(sft_stream_create(&s, p->catalog, &p->options, &err), &err);
    for (size_t i = 0; i < p->count; i++) {
        const want *w = &p->wants[i];
        ok(sft_stream_add(s, w->tensor, w->read.struct_size != 0 ? &w->read : NULL, w->dst,
                          w->dst_size, &err),
           &err);
    }
    if (rnd_below(2)) {
        ok(sft_stream_start(s, &err), &err);
    }
    for (;;) {
        const sft_status status = sft_stream_next(s, &item, &err);
        const uint64_t used = sft_stream_memory(s, &peak);
        assert_true(used <= peak && (budget == 0 || peak <= budget));
        if (status == SFT_E_LIMIT && item.tensor == NULL) {
            fulls++;
            assert_true(release_any(p, s)); /* else nobody could go on */
            continue;
        }
        if (status == SFT_E_LIMIT) {
            want *w = &p->wants[item.index];
            assert_true(budget != 0 && w->nbytes + 8192 > budget && w->got == 0);
            assert_null(item.data);
            assert_true(err.tensor[0] != '\0');
            w->got = UINT64_MAX;
            limited++;
            continue;
        }
        ok(status, &err);
        if (item.tensor == NULL) {
            break;
        }
        if (p->options.order != SFT_STREAM_ANY) {
            const uint64_t at =
                p->options.order == SFT_STREAM_GIVEN ? item.index : place_of(item.tensor);
            assert_true(at >= last);
            last = at;
        }
        take_item(p, s, &item);
    }
    while (release_any(p, s)) {
    }
    assert_int_equal(sft_stream_memory(s, NULL), 0);
    ok(sft_stream_next(s, &item, &err), &err); /* still the end */
    assert_null(item.tensor);
    sft_stream_free(s);
    for (size_t i = 0; i < p->count; i++) {
        want *w = &p->wants[i];
        assert_true(w->got == UINT64_MAX || w->got == w->nbytes + (w->nbytes == 0));
        free(w->expected);
        free(w->dst);
    }
}

/* Memory of exactly `size` bytes, a multiple of the page, before a page that may not be touched. */
static uint8_t *guarded(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *p = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + page, size, PROT_READ | PROT_WRITE), 0);
    return p + page;
}

static void unguard(uint8_t *p, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(munmap(p - page, size + 2 * page), 0);
}

static void test_any_plan(void **state) {
    static plan p;
    sft_pool *pools[3] = {NULL, NULL, NULL};
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pools[1], 2, NULL, &err), &err);
    ok(sft_pool_create(&pools[2], 4, NULL, &err), &err);
    for (unsigned model = 0; model < 40; model++) {
        make_model("model-1.safetensors", "a", 12, 1 << 10);
        make_model("model-2.safetensors", "b", 10, (size_t)1 << (10 + model % 8));
        make_model("model-3.safetensors", "c", 6, 100 << 10);
        ok(sft_catalog_open(&p.catalog, scratch, NULL, &err), &err);
        for (unsigned round = 0; round < 20; round++) {
            sft_arena *arena;
            uint8_t *memory = NULL;
            make_plan(&p, pools);
            const size_t budget = (size_t)p.options.memory_bytes & ~(size_t)4095;
            if (budget != 0) { /* not a byte outside the budget */
                memory = guarded(budget);
                ok(sft_arena_create_over(&arena, memory, budget, NULL, &err), &err);
                p.options.arena = arena;
            }
            run_plan(&p);
            if (budget != 0) {
                sft_arena_free(arena);
                unguard(memory, budget);
            }
        }
        sft_catalog_close(p.catalog);
    }
    assert_true(compared > 10000 && limited > 100 && parts > 1000 && fulls > 100);
    sft_pool_free(pools[1]);
    sft_pool_free(pools[2]);
}

/* ---------------------------------------------------------------- memory and reads */

/* Small neighbours are read together, and read ahead while somebody else works. */
static void test_coalesced(void **state) {
    sft_error err;
    size_t size;
    (void)state;
    make_model("m.safetensors", "t", 30, 1 << 10);
    uint8_t *data = (uint8_t *)file_get(in_scratch("m.safetensors"), &size);
    for (unsigned k = 0; k < 3; k++) {
        const uint32_t flags[] = {0, SFT_SOURCE_SEQUENTIAL, SFT_SOURCE_REMOTE};
        sft_stream_options o;
        sft_stream_item item;
        own_source own;
        sft_stream *s;
        sft_pool *pool;
        sft_catalog *c = own_open(&own, data, size, flags[k]);
        size_t count = 0;
        ok(sft_pool_create(&pool, 3, NULL, &err), &err);
        SFT_INIT(&o);
        o.pool = pool;
        ok(sft_stream_create(&s, c, &o, &err), &err);
        ok(sft_stream_add_all(s, &err), &err);
        ok(sft_stream_start(s, &err), &err);
        for (unsigned tries = 0; tries < 20000; tries++) { /* read without our doing */
            if (__atomic_load_n(&own.reads, __ATOMIC_RELAXED) > 0) {
                break;
            }
            (void)usleep(1000);
        }
        assert_int_equal(__atomic_load_n(&own.reads, __ATOMIC_RELAXED), 1);
        for (;;) {
            ok(sft_stream_next(s, &item, &err), &err);
            if (item.tensor == NULL) {
                break;
            }
            assert_memory_equal(item.data, data + item.tensor->pieces[0].offset, item.size);
            sft_stream_release(s, &item);
            count++;
        }
        assert_int_equal(count, sft_catalog_count(c));
        assert_int_equal(own.reads, 1);
        sft_stream_free(s);
        sft_catalog_close(c);
        sft_pool_free(pool);
    }
    free(data);
}

/* What reads in order only is read in order, by one at a time. */
static void test_sequential(void **state) {
    sft_error err;
    size_t size;
    (void)state;
    make_model("m.safetensors", "t", 30, 60 << 10);
    uint8_t *data = (uint8_t *)file_get(in_scratch("m.safetensors"), &size);
    for (unsigned k = 0; k < 20; k++) {
        sft_stream_options o;
        sft_stream_item item;
        own_source own;
        sft_stream *s;
        sft_pool *pool;
        sft_catalog *c = own_open(&own, data, size, SFT_SOURCE_SEQUENTIAL);
        ok(sft_pool_create(&pool, 4, NULL, &err), &err);
        SFT_INIT(&o);
        o.pool = pool;
        o.memory_bytes = 200 << 10;
        o.order = SFT_STREAM_ANY;
        ok(sft_stream_create(&s, c, &o, &err), &err);
        ok(sft_stream_add_all(s, &err), &err);
        do {
            ok(sft_stream_next(s, &item, &err), &err);
            sft_stream_release(s, &item);
        } while (item.tensor != NULL);
        assert_false(own.went_back);
        sft_stream_free(s);
        sft_catalog_close(c);
        sft_pool_free(pool);
    }
    free(data);
}

/* Who holds everything is told so; a release lets him go on, and with WAIT another thread's does.
 */
static void test_back_pressure(void **state) {
    sft_stream_item items[8], item;
    sft_stream_options o;
    sft_stream *s;
    sft_error err;
    uint64_t peak;
    (void)state;
    make_flat("m.safetensors", 8, 64 << 10);
    sft_catalog *c;
    ok(sft_catalog_open(&c, in_scratch("m.safetensors"), NULL, &err), &err);
    SFT_INIT(&o);
    o.alignment = 64; /* each in a block of its own */
    o.memory_bytes = 3 * (64 << 10);
    ok(sft_stream_create(&s, c, &o, &err), &err);
    ok(sft_stream_add_all(s, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        ok(sft_stream_next(s, &items[i], &err), &err);
    }
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(sft_stream_next(s, &item, &err), SFT_E_LIMIT);
        assert_null(item.tensor);
    }
    assert_int_equal(sft_stream_memory(s, &peak), 3 * (64 << 10));
    uint8_t *where = items[1].data;
    sft_stream_release(s, &items[1]);
    ok(sft_stream_next(s, &items[1], &err), &err);
    assert_ptr_equal(items[1].data, where);
    sft_stream_release(s, &items[0]);
    sft_stream_release(s, &items[2]);
    for (size_t i = 4; i < 8; i++) {
        ok(sft_stream_next(s, &item, &err), &err);
        assert_non_null(item.tensor);
        sft_stream_release(s, &item);
    }
    ok(sft_stream_next(s, &item, &err), &err);
    assert_null(item.tensor);
    (void)sft_stream_memory(s, &peak);
    assert_int_equal(peak, 3 * (64 << 10));
    sft_stream_free(s); /* with one item held */
    sft_catalog_close(c);
}

/* The default lets one item be held while the next is asked for, whatever their sizes. */
static void test_default_budget(void **state) {
    sft_stream_item old, item;
    sft_stream *s;
    sft_error err;
    (void)state;
    for (unsigned k = 0; k < 40; k++) {
        sft_stream_options o;
        sft_catalog *c;
        make_model("m.safetensors", "t", 25, 100 << 10);
        ok(sft_catalog_open(&c, in_scratch("m.safetensors"), NULL, &err), &err);
        uint64_t largest = 0;
        for (size_t i = 0; i < sft_catalog_count(c); i++) {
            const uint64_t n = sft_catalog_at(c, i)->nbytes;
            largest = n > largest ? n : largest;
        }
        SFT_INIT(&o);
        o.memory_bytes = k == 0 ? 0 : 3 * (largest + 8192);
        ok(sft_stream_create(&s, c, &o, &err), &err);
        ok(sft_stream_add_all(s, &err), &err);
        memset(&old, 0, sizeof old);
        do {
            ok(sft_stream_next(s, &item, &err), &err);
            sft_stream_release(s, &old);
            old = item;
        } while (item.tensor != NULL);
        sft_stream_free(s);
        sft_catalog_close(c);
    }
}

#define T(f) cmocka_unit_test_setup(f, scratch_clear)

int main(void) {
    const struct CMUnitTest tests[] = {T(test_any_plan), T(test_coalesced), T(test_sequential),
                                       T(test_back_pressure), T(test_default_budget)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_drop);
}
