/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of tensors in several pieces and of strided pieces, as readers of other formats make
 * them: slices, byte ranges, digests, plans, against one flat copy of the tensor.
 */
#include "unit/cm.h"

#include "unit/move_util.h"
#include <sft/digest.h>

enum { RANK = 4, PIECES = 16, SOURCES = 3 };

typedef struct model {
    const sft_dtype *dtype;
    uint64_t shape[RANK];
    uint32_t rank;
    uint64_t elements;
    uint8_t *flat; /* packed row-major */
    sft_piece pieces[PIECES];
    uint64_t start[PIECES][RANK];
    uint64_t count[PIECES][RANK];
    int64_t strides[PIECES][RANK];
    uint32_t piece_count;
    uint8_t *store[SOURCES];
    size_t used[SOURCES];
    own_source own[SOURCES];
    sft_catalog *catalog;
} model;

enum { STORE = 1 << 16 };

/* Lays the box out in a source, packed or with permuted and reversed dimensions and gaps. */
static void put_piece(model *m, uint32_t k) {
    sft_piece *p = &m->pieces[k];
    const uint64_t es = m->dtype->block_bytes;
    const bool packed = rnd_below(2) == 0;
    uint64_t span = es;
    uint64_t n = 1;
    uint64_t low = 0;
    bool used[RANK] = {false};
    p->source = (uint32_t)rnd_below(SOURCES);
    for (uint32_t i = 0; i < m->rank; i++) {
        uint32_t d = packed ? m->rank - 1 - i : (uint32_t)rnd_below(m->rank);
        while (used[d]) {
            d = (d + 1) % m->rank;
        }
        used[d] = true;
        const uint64_t stride = span + (packed ? 0 : rnd_below(3));
        m->strides[k][d] = (int64_t)stride;
        span += stride * (m->count[k][d] - 1);
        if (!packed && rnd_below(3) == 0) {
            m->strides[k][d] = -(int64_t)stride;
            low += stride * (m->count[k][d] - 1);
        }
        n *= m->count[k][d];
    }
    size_t *at = &m->used[p->source];
    assert_true(*at + span + 8 < STORE);
    *at += rnd_below(8);
    p->offset = *at + low;
    p->nbytes = span - low;
    p->start = m->start[k];
    p->count = m->count[k];
    p->strides = packed ? NULL : m->strides[k];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i;
        uint64_t flat = 0;
        uint64_t weight = 1;
        int64_t place = (int64_t)p->offset;
        for (uint32_t d = m->rank; d-- > 0;) {
            const uint64_t x = rest % m->count[k][d];
            rest /= m->count[k][d];
            flat += (m->start[k][d] + x) * weight;
            weight *= m->shape[d];
            place += (int64_t)x * m->strides[k][d];
        }
        memcpy(m->store[p->source] + place, m->flat + flat * es, (size_t)es);
    }
    *at += span;
}

/* Cuts the tensor into boxes: some box is halved again and again. */
static void cut_boxes(model *m) {
    const uint32_t want = (uint32_t)(1 + rnd_below(PIECES));
    m->piece_count = 1;
    memset(m->start, 0, sizeof m->start);
    memcpy(m->count[0], m->shape, sizeof m->shape);
    for (uint32_t tries = 0; m->piece_count < want && tries < 50 && m->rank > 0; tries++) {
        const uint32_t k = (uint32_t)rnd_below(m->piece_count);
        const uint32_t d = (uint32_t)rnd_below(m->rank);
        if (m->count[k][d] > 1) {
            const uint64_t at = 1 + rnd_below(m->count[k][d] - 1);
            const uint32_t b = m->piece_count++;
            memcpy(m->start[b], m->start[k], sizeof m->start[b]);
            memcpy(m->count[b], m->count[k], sizeof m->count[b]);
            m->start[b][d] += at;
            m->count[b][d] -= at;
            m->count[k][d] = at;
        }
    }
    for (uint32_t k = 0; k < m->piece_count; k++) {
        put_piece(m, k);
    }
}

static void build(model *m) {
    const sft_source_vtable vtable = {.struct_size = sizeof vtable, .read_at = own_read_at};
    sft_builder *b;
    sft_error err;
    sft_tensor t;
    sft_file file;
    uint32_t index;
    ok(sft_builder_create(&b, NULL, &err), &err);
    memset(&file, 0, sizeof file);
    file.path = "pieces";
    file.size = STORE;
    for (uint32_t s = 0; s < SOURCES; s++) {
        sft_source *source;
        if (s == 0) {
            ok(sft_source_open_memory(&source, m->store[s], STORE, NULL, &err), &err);
        } else {
            memset(&m->own[s], 0, sizeof m->own[s]);
            m->own[s].data = m->store[s];
            m->own[s].size = STORE;
            m->own[s].fail_from = UINT64_MAX;
            ok(sft_source_create(&source, &vtable, &m->own[s],
                                 &(sft_source_info){STORE, 0, "own", NULL}, &err),
               &err);
        }
        ok(sft_builder_add_source(b, source, &index, &err), &err);
        assert_int_equal(index, s);
    }
    ok(sft_builder_add_file(b, &file, &index, &err), &err);
    memset(&t, 0, sizeof t);
    t.name = "t";
    t.name_len = 1;
    t.dtype = m->dtype;
    t.shape = m->shape;
    t.rank = m->rank;
    t.pieces = m->pieces;
    t.piece_count = m->piece_count;
    ok(sft_builder_add_tensor(b, &t, &err), &err);
    ok(sft_builder_finish(&m->catalog, b, &err), &err);
    sft_builder_free(b);
}

static void make(model *m) {
    static const uint32_t types[] = {SFT_U8, SFT_F16, SFT_F32, SFT_C64};
    memset(m, 0, sizeof *m);
    m->dtype = sft_dtype_get(types[rnd_below(4)]);
    m->rank = (uint32_t)rnd_below(RANK + 1);
    m->elements = 1;
    for (uint32_t d = 0; d < m->rank; d++) {
        m->shape[d] = 1 + rnd_below(8);
        m->elements *= m->shape[d];
    }
    m->flat = malloc((size_t)(m->elements * m->dtype->block_bytes) + 1);
    assert_non_null(m->flat);
    rnd_fill(m->flat, (size_t)(m->elements * m->dtype->block_bytes));
    for (uint32_t s = 0; s < SOURCES; s++) {
        m->store[s] = malloc(STORE);
        assert_non_null(m->store[s]);
        memset(m->store[s], 0xcc, STORE);
    }
    cut_boxes(m);
    build(m);
}

static void drop(model *m) {
    sft_catalog_close(m->catalog);
    for (uint32_t s = 0; s < SOURCES; s++) {
        free(m->store[s]);
    }
    free(m->flat);
}

static void slices_of_pieces(void **state) {
    (void)state;
    sft_error err;
    rnd_state = 51;
    for (int round = 0; round < 1500; round++) {
        model m;
        make(&m);
        const sft_tensor *t = sft_catalog_at(m.catalog, 0);
        const uint64_t es = m.dtype->block_bytes;
        sft_slice slices[RANK];
        sft_dim dims[RANK];
        sft_read_options o;
        uint64_t nbytes;
        uint64_t n = 1;
        SFT_INIT(&o);
        o.slices = slices;
        o.slice_count = rnd_below(m.rank + 1);
        for (size_t i = 0; i < o.slice_count; i++) {
            memset(&slices[i], 0, sizeof slices[i]);
            slices[i].start = rnd_below(2) == 0 ? SFT_OMIT : (int64_t)rnd_below(m.shape[i]);
            slices[i].stop = rnd_below(2) == 0 ? SFT_OMIT : (int64_t)rnd_below(m.shape[i] + 1);
            slices[i].step = (int64_t)rnd_below(7) - 3;
            slices[i].step += slices[i].step == 0;
        }
        ok(sft_slice_resolve(slices, o.slice_count, m.shape, m.rank, dims, &err), &err);
        for (uint32_t d = 0; d < m.rank; d++) {
            n *= dims[d].count;
        }
        ok(sft_tensor_result(t, &o, NULL, NULL, &nbytes, &err), &err);
        assert_int_equal(nbytes, n * es);
        uint8_t *want = malloc((size_t)nbytes + 1);
        uint8_t *got = malloc((size_t)nbytes + 1);
        assert_true(want != NULL && got != NULL);
        for (uint64_t k = 0; k < n; k++) {
            uint64_t rest = k;
            uint64_t flat = 0;
            uint64_t weight = 1;
            for (uint32_t d = m.rank; d-- > 0;) {
                flat += (dims[d].start + rest % dims[d].count * (uint64_t)dims[d].step) * weight;
                rest /= dims[d].count;
                weight *= m.shape[d];
            }
            memcpy(want + k * es, m.flat + flat * es, (size_t)es);
        }
        memset(got, 0x11, (size_t)nbytes + 1);
        ok(sft_tensor_read(m.catalog, t, &o, got, (size_t)nbytes, &err), &err);
        assert_memory_equal(got, want, (size_t)nbytes);
        assert_int_equal(got[nbytes], 0x11);
        free(want);
        free(got);
        drop(&m);
    }
}

static void byte_ranges_and_digests_of_pieces(void **state) {
    (void)state;
    sft_error err;
    rnd_state = 52;
    for (int round = 0; round < 400; round++) {
        model m;
        make(&m);
        const sft_tensor *t = sft_catalog_at(m.catalog, 0);
        const uint64_t total = m.elements * m.dtype->block_bytes;
        uint8_t *got = malloc((size_t)total + 1);
        uint8_t *room = malloc(SFT_READER_ROOM(total));
        sft_reader *reader;
        assert_non_null(got);
        assert_non_null(room);
        assert_int_equal(t->nbytes, total);
        ok(sft_reader_create(&reader, m.catalog, SFT_STRATEGY_AUTO, NULL, &err), &err);
        for (int i = 0; i < 30; i++) {
            const uint64_t at = rnd_below(total + 1);
            const uint64_t n = rnd_below(total - at + 1);
            memset(got, 0x33, (size_t)total + 1);
            ok(sft_tensor_read_bytes(m.catalog, t, at, got, (size_t)n, &err), &err);
            assert_memory_equal(got, m.flat + at, (size_t)n);
            assert_int_equal(got[n], 0x33);
            void *there = room;
            ok(sft_reader_read(reader, t, at, (size_t)n, &there, &err), &err);
            assert_memory_equal(there, m.flat + at, (size_t)n);
        }
        sft_reader_free(reader);
        free(room);
        uint32_t crc;
        ok(sft_tensor_digest(m.catalog, t, NULL, &crc, NULL, &err), &err);
        assert_int_equal(crc, sft_crc32c(0, m.flat, (size_t)total));
        const void *data;
        size_t size;
        const bool plain =
            m.piece_count == 1 && m.pieces[0].strides == NULL && m.pieces[0].source == 0;
        const sft_status status = sft_tensor_borrow(m.catalog, t, &data, &size, &err);
        assert_int_equal(status, plain ? SFT_OK : SFT_E_UNSUPPORTED);
        if (plain) {
            assert_memory_equal(data, m.flat, size);
        } else {
            assert_null(data);
        }
        free(got);
        drop(&m);
    }
}

/* A tensor whose pieces leave a hole cannot be read as a whole, but elsewhere. */
static void holes_are_errors(void **state) {
    (void)state;
    sft_error err;
    sft_builder *b;
    sft_source *source;
    sft_catalog *catalog;
    sft_tensor t;
    sft_file file;
    const uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint64_t shape = 10;
    const uint64_t start[2] = {0, 6};
    const uint64_t count[2] = {4, 4};
    sft_piece pieces[2];
    uint8_t got[10];
    sft_slice tail = {6, SFT_OMIT, 1, SFT_SLICE_RANGE, 0};
    memset(pieces, 0, sizeof pieces);
    for (size_t i = 0; i < 2; i++) {
        pieces[i].offset = 4 * i;
        pieces[i].nbytes = 4;
        pieces[i].start = &start[i];
        pieces[i].count = &count[i];
    }
    memset(&t, 0, sizeof t);
    t.name = "t";
    t.name_len = 1;
    t.dtype = sft_dtype_get(SFT_U8);
    t.shape = &shape;
    t.rank = 1;
    t.pieces = pieces;
    t.piece_count = 2;
    memset(&file, 0, sizeof file);
    file.path = "holes";
    ok(sft_builder_create(&b, NULL, &err), &err);
    ok(sft_source_open_memory(&source, data, sizeof data, NULL, &err), &err);
    ok(sft_builder_add_source(b, source, NULL, &err), &err);
    ok(sft_builder_add_file(b, &file, NULL, &err), &err);
    ok(sft_builder_add_tensor(b, &t, &err), &err);
    ok(sft_builder_finish(&catalog, b, &err), &err);
    const sft_tensor *tensor = sft_catalog_at(catalog, 0);
    sft_read_options o;
    SFT_INIT(&o);
    assert_int_equal(sft_tensor_read(catalog, tensor, &o, got, 10, &err), SFT_E_HOLE);
    assert_string_equal(err.tensor, "t");
    o.slices = &tail;
    o.slice_count = 1;
    ok(sft_tensor_read(catalog, tensor, &o, got, 4, &err), &err);
    assert_memory_equal(got, data + 4, 4);
    sft_catalog_close(catalog);
    sft_builder_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_pieces),
        cmocka_unit_test(byte_ranges_and_digests_of_pieces),
        cmocka_unit_test(holes_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
