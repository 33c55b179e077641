/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of plans: random sets of slices, casts and moves into memory, files, streams and
 * targets of one's own, compared with single reads; order, overlap, bounds, budgets, failing
 * memory.
 */
#include "unit/cm.h"

#include "unit/move_util.h"
#include <stdio.h>

enum { TENSORS = 6, RANK = 4 };

/* A catalog of six random tensors in memory; the caller frees *file. */
static uint8_t *set_file(size_t *size) {
    static const uint32_t types[TENSORS] = {SFT_F32, SFT_BF16, SFT_U8,
                                            SFT_F64, SFT_I16,  SFT_F8_E4M3};
    sft_save_tensor t[TENSORS];
    uint64_t shapes[TENSORS][RANK];
    char names[TENSORS][8];
    sft_error err;
    memset(t, 0, sizeof t);
    for (size_t i = 0; i < TENSORS; i++) {
        uint64_t n = sft_dtype_get(types[i])->block_bytes;
        (void)snprintf(names[i], sizeof names[i], "t%u", (unsigned)i);
        t[i].name = names[i];
        t[i].name_len = 2;
        t[i].dtype = sft_dtype_get(types[i]);
        t[i].rank = (uint32_t)(1 + rnd_below(RANK));
        t[i].shape = shapes[i];
        for (uint32_t d = 0; d < t[i].rank; d++) {
            shapes[i][d] = 1 + rnd_below(t[i].rank < 3 ? 60 : 9);
            n *= shapes[i][d];
        }
        uint8_t *data = malloc((size_t)n);
        assert_non_null(data);
        rnd_fill(data, (size_t)n);
        t[i].data = data;
        t[i].nbytes = n;
    }
    ok(sft_save_memory(NULL, 0, size, t, TENSORS, NULL, 0, NULL, &err), &err);
    uint8_t *file = malloc(*size);
    assert_non_null(file);
    ok(sft_save_memory(file, *size, size, t, TENSORS, NULL, 0, NULL, &err), &err);
    for (size_t i = 0; i < TENSORS; i++) {
        uint8_t *data;
        memcpy(&data, &t[i].data, sizeof data);
        free(data);
    }
    return file;
}

typedef struct want {
    sft_read_options o;
    sft_slice slices[RANK];
    int64_t strides[RANK];
    uint64_t offset; /* of element 0 in the target */
    uint64_t low;    /* below it */
    uint64_t size;   /* room in all */
} want;

/* A random reading of a tensor; sometimes with strides of its own. */
static void random_want(const sft_tensor *t, want *w) {
    static const int64_t steps[] = {1, 1, 1, -1, 2, -3};
    static const uint32_t casts[] = {SFT_F32, SFT_F16, SFT_U8, SFT_F64, SFT_C64};
    uint64_t shape[RANK];
    uint32_t rank;
    sft_error err;
    SFT_INIT(&w->o);
    w->o.slices = w->slices;
    w->o.slice_count = rnd_below(t->rank + 1);
    for (size_t i = 0; i < w->o.slice_count; i++) {
        const uint64_t a = rnd_below(t->shape[i]);
        memset(&w->slices[i], 0, sizeof w->slices[i]);
        w->slices[i].step = steps[rnd_below(6)];
        w->slices[i].start = rnd_below(3) == 0 ? (int64_t)a : SFT_OMIT;
        w->slices[i].stop = SFT_OMIT;
    }
    w->o.dtype = rnd_below(3) == 0 ? sft_dtype_get(casts[rnd_below(5)]) : NULL;
    ok(sft_tensor_result(t, &w->o, shape, &rank, &w->size, &err), &err);
    w->low = 0;
    if (rnd_below(3) == 0 && w->size > 0) {
        const sft_dtype *type = w->o.dtype != NULL ? w->o.dtype : t->dtype;
        uint64_t span = type->block_bytes;
        for (uint32_t d = 0; d < rank; d++) { /* Fortran order with gaps */
            const uint64_t stride = span + rnd_below(3);
            w->strides[d] = (int64_t)stride;
            span += stride * (shape[d] - 1);
            if (rnd_below(4) == 0) {
                w->strides[d] = -w->strides[d];
                w->low += stride * (shape[d] - 1);
            }
        }
        w->o.dst_strides = w->strides;
        w->size = span;
    }
}

/* A target that only takes writes, into memory; with an allocator's eye on order. */
typedef struct own_target {
    uint8_t *data;
    uint64_t next;
    bool ordered;
    uint64_t writes;
} own_target;

static sft_status own_write(void *self, uint64_t offset, const void *data, size_t size,
                            sft_error *err) {
    own_target *t = self;
    if (t->ordered && offset != t->next) {
        return sft_error_set(err, SFT_E_STATE, 0, offset, NULL, 0, "byte %llu before %llu",
                             (unsigned long long)offset, (unsigned long long)t->next);
    }
    if (t->ordered) { /* others may be written by several threads */
        t->next = offset + size;
    }
    __atomic_add_fetch(&t->writes, 1, __ATOMIC_RELAXED);
    memcpy(t->data + offset, data, size);
    return SFT_OK;
}

static sft_target *own_target_open(own_target *t, uint8_t *data, uint64_t size, bool ordered) {
    sft_target_vtable v;
    sft_target *target;
    sft_error err;
    SFT_INIT(&v);
    v.write_at = own_write;
    memset(t, 0, sizeof *t);
    t->data = data;
    t->ordered = ordered;
    ok(sft_target_create(&target, &v, t, size, ordered ? SFT_TARGET_ORDERED : 0, "own", NULL, &err),
       &err);
    return target;
}

static void read_back(FILE *f, uint8_t *dst, size_t size) {
    rewind(f);
    assert_int_equal(fread(dst, 1, size, f), size);
}

/* One plan of many readings, into every kind of target, from every kind of source. */
static void random_plans(void **state) {
    (void)state;
    sft_error err;
    sft_pool *pool;
    rnd_state = 41;
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    for (int round = 0; round < 400; round++) {
        size_t size;
        uint8_t *file = set_file(&size);
        sft_catalog *catalog;
        own_source own;
        own_target out;
        sft_target *target;
        sft_plan *plan;
        sft_run_options run;
        sft_plan_cost cost;
        want wants[12];
        const size_t n = 1 + rnd_below(12);
        uint64_t total = 0;
        FILE *f = NULL;
        if (round % 4 == 0) {
            catalog = file_open(file, size, SFT_ACCESS_AUTO);
        } else if (round % 4 == 1) {
            catalog = own_open(&own, file, size, (uint32_t)(rnd_below(4)));
        } else {
            ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
        }
        for (size_t i = 0; i < n; i++) {
            random_want(sft_catalog_at(catalog, i % TENSORS), &wants[i]);
            wants[i].offset = total + wants[i].low;
            total += wants[i].size + rnd_below(5);
        }
        uint8_t *expected = malloc((size_t)total + 1);
        uint8_t *got = malloc((size_t)total + 1);
        assert_true(expected != NULL && got != NULL);
        memset(expected, 0xee, (size_t)total + 1);
        memset(got, 0xee, (size_t)total + 1);
        const int kind = (int)rnd_below(3);
        if (kind == 0) {
            ok(sft_target_open_memory(&target, got, (size_t)total, NULL, &err), &err);
        } else if (kind == 1) {
            target = own_target_open(&out, got, total, false);
        } else {
            f = fopen(tmp_path("bin"), "w+b");
            assert_non_null(f);
            assert_int_equal(fwrite(got, 1, (size_t)total + 1, f), (size_t)total + 1);
            assert_int_equal(fflush(f), 0);
            ok(sft_target_open_fd(&target, fileno(f), NULL, &err), &err);
        }
        ok(sft_plan_create(&plan, NULL, &err), &err);
        uint32_t index;
        ok(sft_plan_add_target(plan, target, &index, &err), &err);
        for (size_t i = n; i-- > 0;) {
            const sft_tensor *t = sft_catalog_at(catalog, i % TENSORS);
            ok(sft_plan_add_tensor(plan, catalog, t, &wants[i].o, index, wants[i].offset, &err),
               &err);
            ok(sft_tensor_read(catalog, t, &wants[i].o, expected + wants[i].offset,
                               (size_t)wants[i].size, &err),
               &err);
        }
        sft_plan_cost_get(plan, &cost);
        assert_int_equal(cost.moves, sft_plan_count(plan));
        assert_true(cost.runs >= cost.moves);
        assert_null(sft_plan_at(plan, sft_plan_count(plan)));
        SFT_INIT(&run);
        run.pool = rnd_below(2) == 0 ? pool : NULL;
        run.memory_bytes = rnd_below(2) == 0 ? 1 : 0;
        for (int again = 0; again < 2; again++) {
            ok(sft_plan_run(plan, &run, &err), &err);
            if (f != NULL) {
                read_back(f, got, (size_t)total + 1);
            }
            assert_memory_equal(got, expected, (size_t)total + 1);
        }
        sft_plan_free(plan);
        sft_target_close(target);
        if (f != NULL) {
            assert_int_equal(fclose(f), 0);
        }
        sft_catalog_close(catalog);
        free(expected);
        free(got);
        free(file);
    }
    sft_pool_free(pool);
}

/* Tensors added in any order reach an ordered target, and leave a sequential source, upwards. */
static void order_is_kept(void **state) {
    (void)state;
    sft_error err;
    sft_pool *pool;
    rnd_state = 42;
    ok(sft_pool_create(&pool, 4, NULL, &err), &err);
    for (int round = 0; round < 60; round++) {
        size_t size;
        uint8_t *file = set_file(&size);
        own_source own;
        own_target out;
        sft_plan *plan;
        sft_run_options run;
        sft_catalog *catalog =
            own_open(&own, file, size, round % 2 == 0 ? SFT_SOURCE_SEQUENTIAL : 0);
        const uint64_t bytes = sft_catalog_file_at(catalog, 0)->data_bytes;
        const uint64_t data_offset = sft_catalog_file_at(catalog, 0)->data_offset;
        uint8_t *got = malloc((size_t)bytes + 1);
        assert_non_null(got);
        sft_target *target = own_target_open(&out, got, bytes, round % 3 != 0);
        ok(sft_plan_create(&plan, NULL, &err), &err);
        uint32_t index;
        ok(sft_plan_add_target(plan, target, &index, &err), &err);
        for (size_t k = 0; k < TENSORS; k++) {
            const sft_tensor *t = sft_catalog_at(catalog, (k * 5 + (size_t)round) % TENSORS);
            ok(sft_plan_add_tensor(plan, catalog, t, NULL, index, t->pieces[0].offset - data_offset,
                                   &err),
               &err);
        }
        SFT_INIT(&run);
        run.pool = pool;
        ok(sft_plan_run(plan, &run, &err), &err);
        assert_memory_equal(got, file + data_offset, (size_t)bytes);
        assert_false(own.went_back && round % 2 == 0);
        sft_plan_free(plan);
        sft_target_close(target);
        sft_catalog_close(catalog);
        free(got);
        free(file);
    }
    sft_pool_free(pool);
}

/* A matrix transposed by a move of one's own, through every kind of target, larger than the
 * buffers. */
static void moves_of_ones_own(void **state) {
    (void)state;
    enum { ROWS = 700, COLUMNS = 500 };
    sft_error err;
    rnd_state = 43;
    uint8_t *from = malloc(ROWS * COLUMNS * 2);
    uint8_t *got = malloc(ROWS * COLUMNS * 4);
    assert_true(from != NULL && got != NULL);
    rnd_fill(from, ROWS * COLUMNS * 2);
    const uint64_t count[2] = {ROWS, COLUMNS};
    const int64_t src_stride[2] = {COLUMNS * 2, 2};
    const int64_t dst_copy[2] = {-2, ROWS * 2};
    const int64_t dst_wide[2] = {4, ROWS * 4};
    for (int kind = 0; kind < 3; kind++) {
        for (int convert = 0; convert < 3; convert++) {
            sft_source *source;
            sft_target *target;
            own_target out;
            sft_plan *plan;
            FILE *f = NULL;
            const size_t size = ROWS * COLUMNS * (convert == 1 ? 4 : 2);
            memset(got, 0, size);
            ok(sft_source_open_memory(&source, from, ROWS * COLUMNS * 2, NULL, &err), &err);
            if (kind == 0) {
                ok(sft_target_open_memory(&target, got, size, NULL, &err), &err);
            } else if (kind == 1) {
                target = own_target_open(&out, got, size, false);
            } else {
                f = fopen(tmp_path("bin"), "w+b");
                assert_non_null(f);
                ok(sft_target_open_fd(&target, fileno(f), NULL, &err), &err);
            }
            ok(sft_plan_create(&plan, NULL, &err), &err);
            sft_move m;
            memset(&m, 0, sizeof m);
            ok(sft_plan_add_source(plan, source, &m.source, &err), &err);
            ok(sft_plan_add_target(plan, target, &m.target, &err), &err);
            m.rank = 2;
            m.count = count;
            m.src_stride = src_stride;
            m.dst_stride = convert == 1 ? dst_wide : dst_copy;
            m.dst_offset = convert == 1 ? 0 : (ROWS - 1) * 2;
            m.src_block = 2;
            m.dst_block = convert == 1 ? 4 : 2;
            m.kernel = convert == 1   ? SFT_KERNEL_CONVERT
                       : convert == 2 ? SFT_KERNEL_SWAP
                                      : SFT_KERNEL_COPY;
            m.src_dtype = sft_dtype_get(SFT_U16);
            m.dst_dtype = convert == 1 ? sft_dtype_get(SFT_I32) : NULL;
            ok(sft_plan_add_move(plan, &m, &err), &err);
            assert_int_equal(sft_plan_at(plan, 0)->rank, 2);
            ok(sft_plan_run(plan, NULL, &err), &err);
            if (f != NULL) {
                read_back(f, got, size);
                assert_int_equal(fclose(f), 0);
            }
            for (size_t i = 0; i < ROWS; i++) {
                for (size_t j = 0; j < COLUMNS; j++) {
                    const uint8_t *s = from + (i * COLUMNS + j) * 2;
                    if (convert == 1) {
                        const uint8_t wide[4] = {s[0], s[1], 0, 0};
                        assert_memory_equal(got + (j * ROWS + i) * 4, wide, 4);
                    } else {
                        const uint8_t two[2] = {s[convert == 2], s[convert != 2]};
                        assert_memory_equal(got + (j * ROWS + ROWS - 1 - i) * 2, two, 2);
                    }
                }
            }
            sft_plan_free(plan);
            sft_target_close(target);
            sft_source_close(source);
        }
    }
    free(from);
    free(got);
}

static void overlaps_and_bounds(void **state) {
    (void)state;
    uint8_t from[64] = {0};
    uint8_t to[64] = {0};
    sft_error err;
    sft_source *source;
    sft_target *target;
    sft_plan *plan;
    sft_move m;
    ok(sft_source_open_memory(&source, from, sizeof from, NULL, &err), &err);
    ok(sft_target_open_memory(&target, to, sizeof to, NULL, &err), &err);
    ok(sft_plan_create(&plan, NULL, &err), &err);
    memset(&m, 0, sizeof m);
    m.src_block = m.dst_block = 16;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_RANGE); /* no target yet */
    ok(sft_plan_add_target(plan, target, &m.target, &err), &err);
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_RANGE); /* no source */
    ok(sft_plan_add_source(plan, source, &m.source, &err), &err);
    m.src_offset = 49;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_RANGE);
    m.src_offset = UINT64_MAX - 3;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_RANGE);
    m.src_offset = 48;
    m.dst_offset = 49;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_RANGE);
    m.dst_offset = 16;
    m.dst_block = 8;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_ARG);
    m.dst_block = 16;
    m.kernel = 9;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_ARG);
    m.kernel = SFT_KERNEL_CONVERT;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_UNSUPPORTED);
    m.src_dtype = sft_dtype_get(SFT_F32);
    m.dst_dtype = sft_dtype_get(SFT_F16);
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_ARG); /* 4 and 8 elements */
    m.kernel = SFT_KERNEL_COPY;
    const uint64_t huge[2] = {UINT64_MAX, 2};
    const int64_t far[2] = {INT64_MIN, 1};
    m.rank = 2;
    m.count = huge;
    m.src_stride = m.dst_stride = far;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_OVERFLOW);
    m.rank = 64;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_ARG);
    m.rank = 1;
    const int64_t zero = 0;
    const uint64_t two = 2;
    m.count = &two;
    m.dst_stride = &zero;
    assert_int_equal(sft_plan_add_move(plan, &m, &err), SFT_E_OVERLAP);
    const uint64_t none = 0;
    m.count = &none;
    ok(sft_plan_add_move(plan, &m, &err), &err);
    assert_int_equal(sft_plan_count(plan), 0);
    ok(sft_plan_run(plan, NULL, &err), &err);
    m.rank = 0;
    ok(sft_plan_add_move(plan, &m, &err), &err);
    m.dst_offset = 32;
    m.src_offset = 0;
    ok(sft_plan_add_move(plan, &m, &err), &err);
    ok(sft_plan_run(plan, NULL, &err), &err);
    m.dst_offset = 31;
    m.src_block = m.dst_block = 1;
    ok(sft_plan_add_move(plan, &m, &err), &err);
    assert_int_equal(sft_plan_run(plan, NULL, &err), SFT_E_OVERLAP);
    assert_int_equal(err.offset, 31);
    assert_int_equal(sft_plan_add_move(NULL, &m, &err), SFT_E_ARG);
    assert_int_equal(sft_plan_run(NULL, NULL, &err), SFT_E_ARG);
    sft_plan_free(plan);
    sft_plan_free(NULL);
    sft_target_close(target);
    sft_source_close(source);
}

/* ---------------------------------------------------------------- failing and counting memory */

typedef struct counter {
    long left; /* allocations until the one that fails; negative: none does */
    size_t held;
    size_t peak;
} counter;

static void *counted_alloc(void *ctx, size_t size) {
    counter *c = ctx;
    if (__atomic_fetch_sub(&c->left, 1, __ATOMIC_RELAXED) == 0) {
        return NULL;
    }
    const size_t held = __atomic_add_fetch(&c->held, size, __ATOMIC_RELAXED);
    if (held > __atomic_load_n(&c->peak, __ATOMIC_RELAXED)) {
        __atomic_store_n(&c->peak, held, __ATOMIC_RELAXED);
    }
    return malloc(size);
}

static void counted_free(void *ctx, void *p, size_t size) {
    counter *c = ctx;
    if (p != NULL) {
        __atomic_sub_fetch(&c->held, size, __ATOMIC_RELAXED);
    }
    free(p);
}

static void *counted_resize(void *ctx, void *p, size_t old_size, size_t new_size) {
    void *q = counted_alloc(ctx, new_size);
    if (q != NULL) {
        if (p != NULL) {
            memcpy(q, p, old_size < new_size ? old_size : new_size);
        }
        counted_free(ctx, p, old_size);
    }
    return q;
}

static sft_status plan_with(counter *c, const sft_catalog *catalog, uint8_t *got, uint64_t total,
                            const want *wants, size_t n, const sft_run_options *run) {
    const sft_allocator a = {counted_alloc, counted_resize, counted_free, c};
    own_target out;
    sft_target *target = own_target_open(&out, got, total, false);
    sft_plan *plan;
    sft_error err;
    sft_status status = sft_plan_create(&plan, &a, &err);
    uint32_t index;
    if (status == SFT_OK) {
        status = sft_plan_add_target(plan, target, &index, &err);
        for (size_t i = 0; i < n && status == SFT_OK; i++) {
            status = sft_plan_add_tensor(plan, catalog, sft_catalog_at(catalog, i % TENSORS),
                                         &wants[i].o, index, wants[i].offset, &err);
        }
        if (status == SFT_OK) {
            status = sft_plan_run(plan, run, &err);
        }
    }
    sft_plan_free(plan);
    sft_target_close(target);
    assert_int_equal(c->held, 0);
    if (status != SFT_OK) {
        assert_int_equal(err.status, status);
    }
    return status;
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    sft_error err;
    sft_pool *pool;
    rnd_state = 44;
    ok(sft_pool_create(&pool, 2, NULL, &err), &err);
    for (int round = 0; round < 12; round++) {
        size_t size;
        own_source own;
        want wants[9];
        uint64_t total = 0;
        uint8_t *file = set_file(&size);
        sft_catalog *catalog = own_open(&own, file, size, 0);
        sft_run_options run;
        for (size_t i = 0; i < 9; i++) {
            random_want(sft_catalog_at(catalog, i % TENSORS), &wants[i]);
            wants[i].offset = total + wants[i].low;
            total += wants[i].size;
        }
        uint8_t *got = malloc((size_t)total + 1);
        assert_non_null(got);
        SFT_INIT(&run);
        run.pool = round % 2 == 0 ? pool : NULL;
        long k = 0;
        for (;; k++) {
            counter c = {k, 0, 0};
            const sft_status status = plan_with(&c, catalog, got, total, wants, 9, &run);
            if (status == SFT_OK) {
                break;
            }
            assert_int_equal(status, SFT_E_NOMEM);
            assert_true(k < 1000);
        }
        assert_true(k > 5);
        sft_catalog_close(catalog);
        free(got);
        free(file);
    }
    sft_pool_free(pool);
}

/* 40 MB through a target without memory, with a budget of 1 MB. */
static void memory_stays_within_the_budget(void **state) {
    (void)state;
    const uint64_t shape[2] = {5000, 2000};
    const sft_slice slices[2] = {{SFT_OMIT, SFT_OMIT, -1, SFT_SLICE_RANGE, 0},
                                 {1, SFT_OMIT, 2, SFT_SLICE_RANGE, 0}};
    size_t size;
    own_source own;
    want w;
    sft_run_options run;
    counter c = {-1, 0, 0};
    rnd_state = 45;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_F32), shape, 2, 40000000, 0, &size);
    sft_catalog *catalog = own_open(&own, file, size, 0);
    uint8_t *got = malloc(20000000);
    assert_non_null(got);
    memset(&w, 0, sizeof w);
    SFT_INIT(&w.o);
    memcpy(w.slices, slices, sizeof slices);
    w.o.slices = w.slices;
    w.o.slice_count = 2;
    SFT_INIT(&run);
    run.memory_bytes = 1 << 20;
    assert_int_equal(plan_with(&c, catalog, got, 20000000, &w, 1, &run), SFT_OK);
    assert_true(c.peak <= (1 << 20) + 65536);
    const uint8_t *data = file + size - 40000000;
    for (size_t i = 0; i < 5000; i++) {
        for (size_t j = 0; j < 1000; j++) {
            assert_memory_equal(got + (i * 1000 + j) * 4,
                                data + ((4999 - i) * 2000 + 2 * j + 1) * 4, 4);
        }
    }
    sft_catalog_close(catalog);
    free(got);
    free(file);
}

static int cancel_after(void *ctx, const sft_progress *p) {
    int *left = ctx;
    assert_true(p->bytes_done <= p->bytes_total);
    return (*left)-- <= 0;
}

static void cancelling_and_failing_sources(void **state) {
    (void)state;
    sft_error err;
    size_t size;
    own_source own;
    sft_pool *pool;
    rnd_state = 46;
    uint8_t *file = set_file(&size);
    sft_catalog *catalog = own_open(&own, file, size, 0);
    uint8_t *got = malloc(size);
    assert_non_null(got);
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    for (int n = 0; n < 6; n++) {
        sft_target *target;
        sft_plan *plan;
        sft_run_options run;
        sft_control control;
        int left = n;
        uint64_t at = 0;
        SFT_INIT(&run);
        SFT_INIT(&control);
        control.poll = cancel_after;
        control.ctx = &left;
        run.control = &control;
        run.pool = n % 2 == 0 ? pool : NULL;
        ok(sft_target_open_memory(&target, got, size, NULL, &err), &err);
        ok(sft_plan_create(&plan, NULL, &err), &err);
        uint32_t index;
        ok(sft_plan_add_target(plan, target, &index, &err), &err);
        for (size_t i = 0; i < TENSORS; i++) {
            const sft_tensor *t = sft_catalog_at(catalog, i);
            ok(sft_plan_add_tensor(plan, catalog, t, NULL, index, at, &err), &err);
            at += t->nbytes;
        }
        assert_int_equal(sft_plan_run(plan, &run, &err), SFT_E_CANCELLED);
        left = 1000;
        ok(sft_plan_run(plan, &run, &err), &err);
        own.fail_from = sft_catalog_at(catalog, 3)->pieces[0].offset + 1;
        assert_int_equal(sft_plan_run(plan, &run, &err), SFT_E_TRUNCATED);
        if (run.pool == NULL) {
            assert_string_equal(err.tensor, sft_catalog_at(catalog, 3)->name);
        }
        own.fail_from = UINT64_MAX;
        ok(sft_plan_run(plan, &run, &err), &err);
        sft_plan_free(plan);
        sft_target_close(target);
    }
    sft_pool_free(pool);
    sft_catalog_close(catalog);
    free(got);
    free(file);
}

static sft_status plain_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    (void)err;
    memcpy(dst, (const uint8_t *)self + (size_t)offset, size);
    return SFT_OK;
}

/* Numbers are swapped in whole ones, however large the blocks are that they come in. */
static void swapping_large_foreign_blocks(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    const sft_dtype wide = {1000, SFT_KIND_UINT, 1, 128, 8, 0, "U1024"};
    sft_dtype odd = {1001, SFT_KIND_UINT, 1, 6, 3, 0, "U24x2"};
    uint8_t *from = malloc(BYTES);
    uint8_t *to = malloc(BYTES);
    sft_source_vtable vtable;
    sft_source *source;
    sft_target *target;
    sft_plan *plan;
    sft_error err;
    assert_non_null(from);
    assert_non_null(to);
    rnd_fill(from, BYTES);
    SFT_INIT(&vtable);
    vtable.read_at = plain_read;
    ok(sft_source_create(&source, &vtable, from, BYTES, 0, NULL, NULL, &err), &err);
    ok(sft_target_open_memory(&target, to, BYTES, NULL, &err), &err);
    ok(sft_plan_create(&plan, NULL, &err), &err);
    ok(sft_plan_add_source(plan, source, NULL, &err), &err);
    ok(sft_plan_add_target(plan, target, NULL, &err), &err);
    sft_move move = {.src_block = BYTES,
                     .dst_block = BYTES,
                     .src_dtype = &odd,
                     .dst_dtype = &odd,
                     .kernel = SFT_KERNEL_SWAP};
    move.src_block = move.dst_block = 6;
    assert_int_equal(sft_plan_add_move(plan, &move, &err), SFT_E_ARG);
    move.src_block = move.dst_block = BYTES;
    move.src_dtype = move.dst_dtype = &wide;
    ok(sft_plan_add_move(plan, &move, &err), &err);
    ok(sft_plan_run(plan, NULL, &err), &err);
    for (size_t i = 0; i < BYTES; i++) {
        assert_int_equal(to[i], from[i ^ 7]);
    }
    sft_plan_free(plan);
    sft_target_close(target);
    sft_source_close(source);
    free(from);
    free(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans),
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(moves_of_ones_own),
        cmocka_unit_test(overlaps_and_bounds),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(memory_stays_within_the_budget),
        cmocka_unit_test(cancelling_and_failing_sources),
        cmocka_unit_test(swapping_large_foreign_blocks),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(tmp_path("bin"));
    (void)remove(tmp_path("safetensors"));
    return failed;
}
