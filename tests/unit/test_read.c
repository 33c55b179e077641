/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of reading: random dtypes, shapes, slices, strides and sources against a reference
 * that takes one element at a time; byte order; arguments. test_read_ways.c has how bytes are
 * fetched.
 */
#include "unit/cm.h"

#include "move/read.h"
#include "unit/move_util.h"
#include <sft/load.h>
#include <sft/stream.h>

enum { RANK = 8 };

typedef struct trial {
    const sft_dtype *dtype;
    uint64_t shape[RANK];
    uint32_t rank;
    uint64_t elements;
    uint64_t nbytes;
    sft_slice slices[RANK + 1];
    size_t slice_count;
} trial;

static bool trial_shape(trial *t, const sft_dtype *dtype, uint64_t most) {
    sft_error err;
    t->dtype = dtype;
    t->rank = (uint32_t)rnd_below(RANK + 1);
    t->elements = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        t->shape[d] = rnd_below(20) == 0 ? 0 : 1 + rnd_below(t->rank < 3 ? 40 : 7);
        if (d + 1 == t->rank && rnd_below(2) == 0) {
            t->shape[d] *= dtype->block_elements;
        }
        t->elements *= t->shape[d];
    }
    return t->elements <= most && sft_dtype_bytes(dtype, t->elements, &t->nbytes, &err) == SFT_OK;
}

static int64_t trial_bound(uint64_t n) {
    return rnd_below(4) == 0 ? SFT_OMIT : (int64_t)rnd_below(2 * n + 4) - (int64_t)n - 2;
}

static void trial_slices(trial *t) {
    static const int64_t steps[] = {1, 1, 1, 1, -1, 2, 3, -2, 7, -5};
    t->slice_count = rnd_below(t->rank + 1);
    for (size_t i = 0; i < t->slice_count; i++) {
        sft_slice *s = &t->slices[i];
        const uint64_t n = t->shape[i];
        memset(s, 0, sizeof *s);
        s->start = trial_bound(n);
        s->stop = trial_bound(n);
        s->step = steps[rnd_below(10)];
        if (rnd_below(3) == 0) {
            s->start = s->stop = SFT_OMIT;
        }
        if (rnd_below(5) == 0 && n > 0) {
            s->kind = SFT_SLICE_INDEX;
            s->start = (int64_t)rnd_below(2 * n) - (int64_t)n;
        }
    }
}

/* Flat index in the tensor of element `k` of the result. */
static uint64_t flat_of(const trial *t, const sft_dim *dims, uint64_t k) {
    uint64_t flat = 0;
    uint64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        flat += (dims[d].start + (k % dims[d].count) * (uint64_t)dims[d].step) * stride;
        k /= dims[d].count;
        stride *= t->shape[d];
    }
    return flat;
}

/* Whether each packed block of the result comes from one whole block of the tensor. */
static bool blocks_whole(const trial *t, const sft_dim *dims, uint64_t elements) {
    const uint64_t e = t->dtype->block_elements;
    if (elements % e != 0) {
        return false;
    }
    for (uint64_t k = 0; k < elements; k += e) {
        const uint64_t first = flat_of(t, dims, k);
        for (uint64_t i = 0; i < e; i++) {
            if (first % e != 0 || flat_of(t, dims, k + i) != first + i) {
                return false;
            }
        }
    }
    return true;
}

static void compare(const trial *t, const sft_catalog *catalog, const uint8_t *data) {
    const sft_tensor *tensor = sft_catalog_at(catalog, 0);
    const uint32_t bits = sft_dtype_bits(t->dtype);
    sft_dim dims[RANK];
    sft_read_options o;
    sft_error err;
    uint64_t elements = 1;
    uint64_t nbytes = 0;
    uint32_t rank;
    uint64_t shape[RANK];

    SFT_INIT(&o);
    o.slices = t->slices;
    o.slice_count = t->slice_count;
    o.flags = t->elements % 2 == 0 ? SFT_READ_BORROW : 0;
    ok(sft_slice_resolve(o.slices, o.slice_count, t->shape, t->rank, dims, &err), &err);
    for (uint32_t d = 0; d < t->rank; d++) {
        elements *= dims[d].count;
    }
    const sft_status status = sft_tensor_result(tensor, &o, shape, &rank, &nbytes, &err);
    if (!blocks_whole(t, dims, elements)) {
        uint8_t dst[8192]; /* holds every trial's result */
        assert_int_equal(status, SFT_E_SUBBYTE);
        assert_string_equal(err.tensor, "t");
        assert_int_equal(sft_tensor_read(catalog, tensor, &o, dst, sizeof dst, &err),
                         SFT_E_SUBBYTE);
        return;
    }
    ok(status, &err);
    assert_int_equal(nbytes, elements * bits / 8);
    uint8_t *want = calloc(1, (size_t)nbytes + 16);
    uint8_t *got = malloc((size_t)nbytes + 16);
    assert_true(want != NULL && got != NULL);
    memset(want + nbytes, 0xa5, 16);
    memset(got, 0xa5, (size_t)nbytes + 16);
    for (uint64_t k = 0; k < elements; k++) {
        put_bits(want, k * bits, bits, get_bits(data, flat_of(t, dims, k) * bits, bits));
    }
    if (nbytes > 0) {
        assert_int_equal(sft_tensor_read(catalog, tensor, &o, got, (size_t)nbytes - 1, &err),
                         SFT_E_ARG);
    }
    ok(sft_tensor_read(catalog, tensor, &o, got, (size_t)nbytes, &err), &err);
    assert_memory_equal(got, want, (size_t)nbytes + 16);
    free(want);
    free(got);
}

static void slices_equal_the_reference(void **state) {
    (void)state;
    sft_error err;
    rnd_state = 11;
    for (int round = 0; round < 6000; round++) {
        trial t;
        sft_catalog *catalog;
        own_source own;
        size_t size;
        const sft_dtype *dtype = sft_dtype_get((uint32_t)(1 + rnd_below(SFT_DTYPE_COUNT)));
        if (!trial_shape(&t, dtype, 6000)) {
            continue;
        }
        trial_slices(&t);
        uint8_t *file = one_tensor_file(t.dtype, t.shape, t.rank, t.nbytes, rnd_below(8), &size);
        if (round % 16 == 0) {
            catalog = file_open(file, size, round % 32 == 0 ? SFT_ACCESS_READ : SFT_ACCESS_MAP);
        } else if (round % 2 == 1) {
            catalog = own_open(&own, file, size, (uint32_t)(round / 4 % 4));
        } else {
            ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
        }
        compare(&t, catalog, file + size - t.nbytes);
        sft_catalog_close(catalog);
        free(file);
    }
}

/* dst_strides: a random order of dimensions, random gaps, random signs. */
static void strides_equal_the_reference(void **state) {
    (void)state;
    sft_error err;
    rnd_state = 12;
    for (int round = 0; round < 4000; round++) {
        trial t;
        sft_catalog *catalog;
        size_t size;
        const sft_dtype *dtype = sft_dtype_get((uint32_t)(1 + rnd_below(SFT_DTYPE_COUNT)));
        if (dtype->block_elements > 1 || !trial_shape(&t, dtype, 6000)) {
            continue;
        }
        trial_slices(&t);
        uint8_t *file = one_tensor_file(t.dtype, t.shape, t.rank, t.nbytes, rnd_below(8), &size);
        own_source own;
        if (round % 16 == 0) {
            catalog = file_open(file, size, SFT_ACCESS_AUTO);
        } else if (round % 2 == 1) {
            catalog = own_open(&own, file, size, (uint32_t)(round / 4 % 4));
        } else {
            ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
        }
        const sft_tensor *tensor = sft_catalog_at(catalog, 0);
        const uint8_t *data = file + size - t.nbytes;
        sft_read_options o;
        uint64_t shape[RANK];
        int64_t strides[RANK];
        sft_dim dims[RANK];
        uint32_t rank;
        uint64_t nbytes;
        SFT_INIT(&o);
        o.slices = t.slices;
        o.slice_count = t.slice_count;
        ok(sft_tensor_result(tensor, &o, shape, &rank, &nbytes, &err), &err);
        ok(sft_slice_resolve(o.slices, o.slice_count, t.shape, t.rank, dims, &err), &err);
        const uint64_t es = t.dtype->block_bytes;
        uint64_t span = es;
        bool used[RANK] = {false};
        for (uint32_t k = 0; k < rank; k++) { /* innermost of the destination first */
            uint32_t d = (uint32_t)rnd_below(rank);
            while (used[d]) {
                d = (d + 1) % rank;
            }
            used[d] = true;
            const uint64_t gap = rnd_below(3) == 0 ? rnd_below(20) : 0;
            const uint64_t stride = span + gap;
            strides[d] = rnd_below(3) == 0 ? -(int64_t)stride : (int64_t)stride;
            span = shape[d] > 0 ? stride * (shape[d] - 1) + span : span;
        }
        o.dst_strides = strides;
        uint64_t elements = nbytes / es;
        uint64_t low = 0;
        for (uint32_t d = 0; d < rank && elements > 0; d++) {
            low += strides[d] < 0 ? (shape[d] - 1) * (uint64_t)-strides[d] : 0;
        }
        uint8_t *want = malloc((size_t)span);
        uint8_t *got = malloc((size_t)span);
        assert_true(want != NULL && got != NULL);
        memset(want, 0x5a, (size_t)span);
        memset(got, 0x5a, (size_t)span);
        for (uint64_t k = 0; k < elements; k++) {
            uint64_t rest = k;
            int64_t at = (int64_t)low;
            for (uint32_t d = rank; d-- > 0;) {
                at += (int64_t)(rest % shape[d]) * strides[d];
                rest /= shape[d];
            }
            memcpy(want + at, data + flat_of(&t, dims, k) * es, (size_t)es);
        }
        if (elements > 0) {
            uint64_t reach =
                es; /* what the elements span: dimensions of one index have no part in it */
            for (uint32_t d = 0; d < rank; d++) {
                reach += (shape[d] - 1) * (uint64_t)(strides[d] < 0 ? -strides[d] : strides[d]);
            }
            assert_int_equal(
                sft_tensor_read(catalog, tensor, &o, got + low, (size_t)reach - 1, &err),
                SFT_E_ARG);
            ok(sft_tensor_read(catalog, tensor, &o, got + low, (size_t)reach, &err), &err);
        } else {
            ok(sft_tensor_read(catalog, tensor, &o, got, 0, &err), &err);
        }
        assert_memory_equal(got, want, (size_t)span);
        free(want);
        free(got);
        sft_catalog_close(catalog);
        free(file);
    }
}

/* The short way for one run of bytes against the long way: status, words, bytes and calls. */
static void runs_equal_the_long_way(void **state) {
    (void)state;
    static const int64_t odd[] = {SFT_OMIT, SFT_OMIT + 1, INT64_MAX, -1, 0, 1, 1000};
    uint64_t short_ones = 0;
    rnd_state = 17;
    for (int round = 0; round < 8000; round++) {
        trial t;
        size_t size;
        own_source own;
        sft_read_options o;
        uint8_t got[2][600 * 8 + 1];
        sft_error err[2];
        sft_status status[2];
        uint64_t reads[2];
        const sft_dtype *dtype = sft_dtype_get((uint32_t)(1 + rnd_below(SFT_DTYPE_COUNT)));
        if (!trial_shape(&t, dtype, 600)) {
            continue;
        }
        trial_slices(&t);
        for (size_t i = 0; i < t.slice_count; i++) { /* mostly runs; some items are wrong */
            sft_slice *s = &t.slices[i];
            s->step = rnd_below(8) == 0 ? s->step : 1;
            s->start = rnd_below(16) == 0 ? odd[rnd_below(7)] : s->start;
            s->stop = rnd_below(16) == 0 ? odd[rnd_below(7)] : s->stop;
            s->kind = rnd_below(30) == 0 ? SFT_SLICE_ELLIPSIS : s->kind;
            if (rnd_below(3) == 0 && s->kind == SFT_SLICE_RANGE) {
                s->start = (int64_t)rnd_below(t.shape[i] + 1);
                s->stop = s->start + 1;
            }
        }
        uint8_t *file = one_tensor_file(t.dtype, t.shape, t.rank, t.nbytes, rnd_below(8), &size);
        sft_catalog *catalog = own_open(&own, file, size, 0);
        own.fail_from = rnd_below(10) == 0 ? size - rnd_below(t.nbytes + 1) : UINT64_MAX;
        SFT_INIT(&o);
        o.slices = t.slices;
        o.slice_count = t.slice_count;
        o.dtype = rnd_below(4) == 0 ? dtype : NULL;
        o.flags = rnd_below(4) == 0 ? SFT_READ_HOST_ORDER : rnd_below(50) == 0 ? 64 : 0;
        const size_t room = rnd_below(10) == 0 ? (size_t)t.nbytes / 2 : sizeof got[0] - 1;
        memset(got, 0x5a, sizeof got);
        memset(err, 0, sizeof err);
        for (int way = 0; way < 2; way++) {
            const uint64_t before = own.reads;
            status[way] = way == 0 ? sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o,
                                                     got[0], room, &err[0])
                                   : sft__move_read_any(catalog, sft_catalog_at(catalog, 0), &o,
                                                        got[1], room, &err[1]);
            reads[way] = own.reads - before;
        }
        assert_int_equal(status[0], status[1]);
        assert_memory_equal(&err[0], &err[1], sizeof err[0]);
        assert_memory_equal(got[0], got[1], sizeof got[0]);
        assert_int_equal(reads[0], reads[1]);
        short_ones += status[0] == SFT_OK && reads[0] == 1 ? 1 : 0;
        sft_catalog_close(catalog);
        free(file);
    }
    assert_true(short_ones > 1200);
}

/* A cast while reading equals reading and then casting. */
static void casts_equal_read_then_convert(void **state) {
    (void)state;
    sft_error err;
    rnd_state = 13;
    for (int round = 0; round < 6000; round++) {
        trial t;
        sft_catalog *catalog;
        size_t size;
        uint64_t want_bytes;
        uint64_t nbytes;
        uint64_t plain_bytes;
        const sft_dtype *dtype = sft_dtype_get((uint32_t)(1 + rnd_below(SFT_DTYPE_COUNT)));
        const sft_dtype *to = sft_dtype_get((uint32_t)(1 + rnd_below(SFT_DTYPE_COUNT)));
        if (!trial_shape(&t, dtype, 6000)) {
            continue;
        }
        trial_slices(&t);
        uint8_t *file = one_tensor_file(t.dtype, t.shape, t.rank, t.nbytes, rnd_below(8), &size);
        own_source own;
        if (round % 16 == 0) {
            catalog = file_open(file, size, SFT_ACCESS_READ);
        } else if (round % 2 == 1) {
            catalog = own_open(&own, file, size, (uint32_t)(round / 4 % 4));
        } else {
            ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
        }
        const sft_tensor *tensor = sft_catalog_at(catalog, 0);
        sft_read_options o;
        SFT_INIT(&o);
        o.slices = t.slices;
        o.slice_count = t.slice_count;
        if (sft_tensor_result(tensor, &o, NULL, NULL, &plain_bytes, &err) == SFT_OK) {
            const uint64_t elements = plain_bytes / dtype->block_bytes * dtype->block_elements;
            uint8_t *plain = malloc((size_t)plain_bytes + 1);
            assert_non_null(plain);
            ok(sft_tensor_read(catalog, tensor, &o, plain, (size_t)plain_bytes, &err), &err);
            o.dtype = to;
            if (sft_tensor_result(tensor, &o, NULL, NULL, &nbytes, &err) == SFT_OK) {
                uint8_t *got = malloc((size_t)nbytes + 1);
                uint8_t *want = malloc((size_t)nbytes + 1);
                assert_true(got != NULL && want != NULL);
                ok(sft_dtype_bytes(to, elements, &want_bytes, &err), &err);
                assert_int_equal(nbytes, want_bytes);
                ok(sft_convert(want, plain, elements, &(sft_cast){to, dtype, 0}, &err), &err);
                ok(sft_tensor_read(catalog, tensor, &o, got, (size_t)nbytes, &err), &err);
                assert_memory_equal(got, want, (size_t)nbytes);
                free(got);
                free(want);
            } else {
                assert_int_equal(err.status, SFT_E_SUBBYTE);
                assert_true(to->block_elements > 1);
            }
            free(plain);
        }
        sft_catalog_close(catalog);
        free(file);
    }
}

/* Tensors large enough for several jobs, spans, tiles and bounce buffers. */
static void large_reads_with_a_pool(void **state) {
    (void)state;
    sft_pool *pool;
    sft_error err;
    static const uint64_t shapes[][3] = {
        {3000, 1500, 1}, {1, 70000, 70}, {5, 3, 400000}, {40, 300, 450}};
    static const sft_slice all = {SFT_OMIT, SFT_OMIT, 1, SFT_SLICE_RANGE, 0};
    static const sft_slice back = {SFT_OMIT, SFT_OMIT, -1, SFT_SLICE_RANGE, 0};
    static const sft_slice two = {1, SFT_OMIT, 2, SFT_SLICE_RANGE, 0};
    static const sft_slice part = {1, -1, 1, SFT_SLICE_RANGE, 0};
    const sft_slice sets[][3] = {{all, all, all},  {all, part, all}, {back, back, back},
                                 {all, all, part}, {part, two, all}, {all, back, two}};
    rnd_state = 14;
    ok(sft_pool_create(&pool, 4, NULL, &err), &err);
    for (size_t s = 0; s < 4; s++) {
        const sft_dtype *dtype = sft_dtype_get(s == 1 ? SFT_U16 : SFT_F32);
        const uint64_t es = dtype->block_bytes;
        const uint64_t *n = shapes[s];
        size_t size;
        uint8_t *file = one_tensor_file(dtype, n, 3, n[0] * n[1] * n[2] * es, 3, &size);
        const uint8_t *data = file + size - n[0] * n[1] * n[2] * es;
        for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
            for (int way = 0; way < 3; way++) {
                sft_catalog *catalog;
                sft_dim d[3];
                sft_read_options o;
                uint64_t nbytes;
                if (way == 0) {
                    catalog = file_open(file, size, SFT_ACCESS_MAP);
                } else {
                    ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
                }
                SFT_INIT(&o);
                o.slices = sets[k];
                o.slice_count = 3;
                o.pool = way == 2 ? NULL : pool;
                const sft_tensor *t = sft_catalog_at(catalog, 0);
                ok(sft_tensor_result(t, &o, NULL, NULL, &nbytes, &err), &err);
                ok(sft_slice_resolve(o.slices, 3, n, 3, d, &err), &err);
                uint8_t *got = malloc((size_t)nbytes + 1);
                assert_non_null(got);
                ok(sft_tensor_read(catalog, t, &o, got, (size_t)nbytes, &err), &err);
                const uint8_t *g = got;
                for (uint64_t a = 0; a < d[0].count; a++) {
                    for (uint64_t b = 0; b < d[1].count; b++) {
                        const uint64_t i = d[0].start + a * (uint64_t)d[0].step;
                        const uint64_t j = d[1].start + b * (uint64_t)d[1].step;
                        const uint8_t *row = data + (i * n[1] + j) * n[2] * es;
                        for (uint64_t c = 0; c < d[2].count; c++, g += es) {
                            if (memcmp(g, row + (d[2].start + c * (uint64_t)d[2].step) * es, es) !=
                                0) {
                                fail_msg("shape %zu slice %zu way %d at %llu %llu %llu", s, k, way,
                                         (unsigned long long)a, (unsigned long long)b,
                                         (unsigned long long)c);
                            }
                        }
                    }
                }
                free(got);
                sft_catalog_close(catalog);
            }
        }
        free(file);
    }
    sft_pool_free(pool);
}

/* A transposing read (Fortran order) of every element size, with tiles. */
static void transposed_reads(void **state) {
    (void)state;
    static const uint32_t ids[] = {SFT_U8, SFT_F16, SFT_F32, SFT_F64};
    sft_error err;
    rnd_state = 15;
    for (size_t k = 0; k < 4; k++) {
        const sft_dtype *dtype = sft_dtype_get(ids[k]);
        const uint64_t es = dtype->block_bytes;
        const uint64_t shape[2] = {301, 203};
        const int64_t strides[2] = {(int64_t)es, (int64_t)(301 * es)};
        size_t size;
        uint8_t *file = one_tensor_file(dtype, shape, 2, 301 * 203 * es, 0, &size);
        const uint8_t *data = file + size - 301 * 203 * es;
        uint8_t *got = malloc(301 * 203 * es);
        assert_non_null(got);
        for (int way = 0; way < 2; way++) {
            sft_catalog *catalog;
            sft_read_options o;
            SFT_INIT(&o);
            o.dst_strides = strides;
            if (way == 0) {
                catalog = file_open(file, size, SFT_ACCESS_READ);
            } else {
                ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
            }
            memset(got, 0, 301 * 203 * es);
            ok(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o, got, 301 * 203 * es, &err),
               &err);
            for (uint64_t i = 0; i < 301; i++) {
                for (uint64_t j = 0; j < 203; j++) {
                    assert_memory_equal(got + (j * 301 + i) * es, data + (i * 203 + j) * es, es);
                }
            }
            sft_catalog_close(catalog);
        }
        free(got);
        free(file);
    }
}

/* SFT_READ_HOST_ORDER: numbers that the host understands, on any host. */
static void host_order(void **state) {
    (void)state;
    const uint64_t shape[2] = {37, 41};
    const uint16_t probe = 1;
    uint8_t first;
    sft_error err;
    memcpy(&first, &probe, 1);
    rnd_state = 19;
    for (uint32_t id = 1; id <= SFT_DTYPE_COUNT; id++) {
        const sft_dtype *dtype = sft_dtype_get(id);
        if (dtype->block_elements > 1) {
            continue;
        }
        const size_t es = dtype->block_bytes;
        const int64_t strides[2] = {(int64_t)es, (int64_t)(37 * es + 3)};
        const sft_slice slices[2] = {{SFT_OMIT, SFT_OMIT, -1, SFT_SLICE_RANGE, 0},
                                     {1, SFT_OMIT, 2, SFT_SLICE_RANGE, 0}};
        size_t size;
        uint8_t *file = one_tensor_file(dtype, shape, 2, 37 * 41 * es, 1, &size);
        sft_catalog *catalog = file_open(file, size, SFT_ACCESS_READ);
        for (int way = 0; way < 8; way++) {
            const sft_dtype *to = (way & 4) != 0 ? sft_dtype_get(SFT_F64) : dtype;
            uint8_t little[41 * 37 * 8 + 41 * 3];
            uint8_t host[sizeof little];
            sft_read_options o;
            SFT_INIT(&o);
            o.dtype = to;
            o.slices = slices;
            o.slice_count = (way & 1) != 0 ? 2 : 0;
            o.dst_strides = (way & 2) != 0 && to == dtype ? strides : NULL;
            memset(little, 0, sizeof little);
            memset(host, 0, sizeof host);
            const sft_tensor *t = sft_catalog_at(catalog, 0);
            ok(sft_tensor_read(catalog, t, &o, little, sizeof little, &err), &err);
            o.flags = SFT_READ_HOST_ORDER;
            ok(sft_tensor_read(catalog, t, &o, host, sizeof host, &err), &err);
            const size_t columns = (way & 1) != 0 ? 20 : 41;
            for (size_t k = 0; k < 37 * columns; k++) {
                const size_t at = o.dst_strides != NULL
                                      ? k / columns * es + k % columns * (37 * es + 3)
                                      : k * to->block_bytes;
                for (size_t b = 0; b < to->block_bytes; b++) {
                    const size_t a = to->alignment;
                    const size_t from = first == 1 ? b : b / a * a + a - 1 - b % a;
                    assert_int_equal(host[at + b], little[at + from]);
                }
            }
        }
        sft_catalog_close(catalog);
        free(file);
    }
}

static void arguments_are_checked(void **state) {
    (void)state;
    const uint64_t shape[2] = {4, 6};
    sft_error err;
    sft_catalog *catalog;
    size_t size;
    uint8_t dst[256];
    const void *data;
    size_t n;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_F32), shape, 2, 96, 0, &size);
    ok(sft_catalog_open_memory(&catalog, file, size, NULL, &err), &err);
    const sft_tensor *t = sft_catalog_at(catalog, 0);
    sft_read_options o;
    SFT_INIT(&o);
    assert_int_equal(sft_tensor_read(NULL, t, &o, dst, 96, &err), SFT_E_ARG);
    assert_int_equal(sft_tensor_read(catalog, NULL, &o, dst, 96, &err), SFT_E_ARG);
    assert_int_equal(sft_tensor_read(catalog, t, &o, NULL, 96, &err), SFT_E_ARG);
    assert_int_equal(sft_tensor_read(catalog, t, &o, dst, 95, &err), SFT_E_ARG);
    ok(sft_tensor_read(catalog, t, NULL, dst, 96, &err), &err);
    o.flags = 64;
    assert_int_equal(sft_tensor_read(catalog, t, &o, dst, 96, &err), SFT_E_ARG);
    o.flags = 0;
    o.struct_size = 0;
    assert_int_equal(sft_tensor_read(catalog, t, &o, dst, 96, &err), SFT_E_ARG);
    SFT_INIT(&o);
    int64_t strides[2] = {0, 4};
    o.dst_strides = strides;
    assert_int_equal(sft_tensor_read(catalog, t, &o, dst, 96, &err), SFT_E_ARG);
    strides[0] = INT64_MAX;
    assert_int_equal(sft_tensor_read(catalog, t, &o, dst, 96, &err), SFT_E_OVERFLOW);
    strides[0] = INT64_MIN;
    assert_int_equal(sft_tensor_read(catalog, t, &o, dst, 96, &err), SFT_E_OVERFLOW);
    assert_int_equal(sft_tensor_read_bytes(catalog, t, 90, dst, 7, &err), SFT_E_RANGE);
    assert_int_equal(sft_tensor_read_bytes(catalog, t, UINT64_MAX, dst, 7, &err), SFT_E_RANGE);
    ok(sft_tensor_read_bytes(catalog, t, 90, dst, 6, &err), &err);
    assert_memory_equal(dst, file + size - 6, 6);
    ok(sft_tensor_read_bytes(catalog, t, 96, NULL, 0, &err), &err);
    ok(sft_tensor_borrow(catalog, t, &data, &n, &err), &err);
    assert_ptr_equal(data, file + size - 96);
    assert_int_equal(n, 96);
    assert_int_equal(sft_tensor_borrow(catalog, NULL, &data, &n, &err), SFT_E_ARG);
    assert_null(data);
    sft_catalog_close(catalog);
    free(file);
}

/* U8 of which the metadata say that it is blocks of a quantised type: read as it is, cast by nothing. */
static void blocks_are_no_numbers(void **state) {
    (void)state;
    static const char *const headers[] = {
        "{\"__metadata__\":{\"gguf.tensors\":\"{}\"},"
        "\"q\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        "{\"q\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
    };
    for (size_t k = 0; k < 2; k++) {
        const sft_status want = k == 0 ? SFT_E_UNSUPPORTED : SFT_OK;
        const size_t len = strlen(headers[k]);
        uint8_t file[256] = {0};
        sft_error err;
        sft_catalog *catalog;
        float dst[4];
        file[0] = (uint8_t)len;
        memcpy(file + 8, headers[k], len);
        memcpy(file + 8 + len, "\1\2\3\4", 4);
        ok(sft_catalog_open_memory(&catalog, file, 8 + len + 4, NULL, &err), &err);
        const sft_tensor *t = sft_catalog_at(catalog, 0);
        sft_read_options o;
        SFT_INIT(&o);
        ok(sft_tensor_read(catalog, t, &o, dst, sizeof dst, &err), &err);
        assert_memory_equal(dst, "\1\2\3\4", 4);
        o.dtype = sft_dtype_get(SFT_F32);
        assert_int_equal(sft_tensor_read(catalog, t, &o, dst, sizeof dst, &err), want);
        assert_int_equal(sft_catalog_can_cast(catalog, t, &err), want);
        sft_loaded *loaded;
        sft_load_options load;
        SFT_INIT(&load);
        load.dtypes = &o.dtype;
        size_t first = 0;
        load.select = &first;
        load.select_count = 1;
        assert_int_equal(sft_load(&loaded, catalog, &load, &err), want);
        if (want == SFT_OK) {
            sft_loaded_free(loaded);
        }
        sft_stream *stream;
        ok(sft_stream_create(&stream, catalog, NULL, &err), &err);
        assert_int_equal(sft_stream_add(stream, t, &o, NULL, 0, &err), want);
        sft_stream_free(stream);
        sft_catalog_close(catalog);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_equal_the_reference),
        cmocka_unit_test(runs_equal_the_long_way),
        cmocka_unit_test(strides_equal_the_reference),
        cmocka_unit_test(casts_equal_read_then_convert),
        cmocka_unit_test(large_reads_with_a_pool),
        cmocka_unit_test(transposed_reads),
        cmocka_unit_test(host_order),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(blocks_are_no_numbers),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(tmp_path("safetensors"));
    return failed;
}
