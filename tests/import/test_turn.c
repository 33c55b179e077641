/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * test_turn.c - panels of strided tensors: that they cover each element once, that they are as the
 * conversion wants them, and their bytes, against one element at a time.
 */
#include "unit/cm.h"

#include "import/convert/turn.h"
#include "import/core/import.h"

enum { RANK = 5, ROOM = 1 << 21, STRIP = 64 << 10 };

typedef struct made {
    sft_catalog *catalog;
    const sft_tensor *tensor;
    uint8_t *bytes; /* of the source */
    uint8_t *want;  /* packed */
    uint64_t elements;
    uint64_t shape[RANK];
    int64_t strides[RANK];
} made;

static uint32_t rnd_state = 12345;

static uint32_t rnd(uint32_t below) {
    rnd_state = rnd_state * 1664525u + 1013904223u;
    return (rnd_state >> 8) % below;
}

static const sft_dtype *dtype_of(uint32_t unit) {
    return unit == 1   ? sft_dtype_get(SFT_U8)
           : unit == 2 ? sft_dtype_get(SFT_BF16)
           : unit == 4 ? sft_dtype_get(SFT_F32)
           : unit == 8 ? sft_dtype_get(SFT_F64)
                       : sft__import_dtype(SFT__C128);
}

/* order[0] is the dimension with the longest stride. gap: elements between runs. repeat: the
 * dimension with stride 0, or RANK. */
static void make(made *m, uint32_t unit, uint32_t rank, const uint32_t *order, uint32_t gap,
                 uint32_t repeat) {
    sft_builder *builder;
    sft_source *source;
    sft_error err;
    const uint64_t offset = 3 * unit + (gap != 0);
    uint64_t stride = unit;

    m->elements = 1;
    for (uint32_t k = rank; k-- > 0;) {
        const uint32_t d = order[k];
        m->strides[d] = d == repeat ? 0 : (int64_t)stride;
        stride *= d == repeat ? 1 : m->shape[d];
        stride += k + 1 == rank ? (uint64_t)gap * unit : 0;
        m->elements *= m->shape[d];
    }
    const size_t size = (size_t)(offset + stride + unit);
    m->bytes = malloc(size);
    m->want = malloc((size_t)m->elements * unit);
    assert_non_null(m->bytes);
    assert_non_null(m->want);
    for (size_t i = 0; i < size; i++) {
        m->bytes[i] = (uint8_t)rnd(256);
    }
    for (uint64_t i = 0; i < m->elements; i++) {
        uint64_t rest = i;
        uint64_t at = offset;
        for (uint32_t d = rank; d-- > 0; rest /= m->shape[d]) {
            at += rest % m->shape[d] * (uint64_t)m->strides[d];
        }
        memcpy(m->want + i * unit, m->bytes + at, unit);
    }
    const sft_piece piece = {.offset = offset, .strides = m->strides};
    const sft_tensor t = {.name = "t",
                          .name_len = 1,
                          .dtype = dtype_of(unit),
                          .shape = m->shape,
                          .pieces = &piece,
                          .rank = rank,
                          .piece_count = 1};
    assert_int_equal(sft_builder_create(&builder, NULL, &err), SFT_OK);
    assert_int_equal(sft_source_open_memory(&source, m->bytes, size, NULL, &err), SFT_OK);
    assert_int_equal(sft_builder_add_source(builder, source, NULL, &err), SFT_OK);
    const sft_file file = {.path = "memory", .size = size, .data_bytes = size};
    assert_int_equal(sft_builder_add_file(builder, &file, NULL, &err), SFT_OK);
    assert_int_equal(sft_builder_add_tensor(builder, &t, &err), SFT_OK);
    assert_int_equal(sft_builder_finish(&m->catalog, builder, &err), SFT_OK);
    sft_builder_free(builder);
    m->tensor = sft_catalog_find(m->catalog, "t", 1);
}

static void unmake(made *m) {
    sft_catalog_close(m->catalog);
    free(m->bytes);
    free(m->want);
}

/* Each panel's elements lie in the bytes of its band, and bands follow each other in the source. */
static void check_bands(const made *m, const sft__import_panels *panels) {
    const sft_tensor *t = m->tensor;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t bands = 0;

    for (uint64_t i = 0; i < panels->all && panels->cut == SFT__CUT_MAPPED; i++) {
        const uint64_t before = begin;
        uint64_t size = 0;
        uint64_t first = t->pieces[0].offset;
        uint64_t last = first;
        sft__import_panel panel;
        if (sft__import_panel_begins_band(panels, t, i, &begin, &size)) {
            end = begin + size;
            assert_true(bands++ == 0 || begin > before || m->strides[panels->order[0]] == 0);
        }
        sft__import_panel_at(panels, t, i, &panel);
        for (uint32_t d = 0; d < t->rank; d++) {
            first += panel.start[d] * (uint64_t)m->strides[d];
            last += (panel.start[d] + panel.count[d] - 1) * (uint64_t)m->strides[d];
        }
        assert_true(first >= begin && last + t->dtype->block_bytes <= end);
    }
    assert_true(panels->cut != SFT__CUT_MAPPED || bands > 0 || panels->all == 0);
}

/* All panels, put together by their runs. */
static void check(const made *m, uint64_t capacity, sft__import_cut cut) {
    static uint8_t strip[STRIP];
    const uint32_t unit = m->tensor->dtype->block_bytes;
    uint8_t *out = malloc((size_t)capacity);
    uint8_t *got = malloc((size_t)m->elements * unit);
    uint8_t *times = calloc(1, (size_t)m->elements);
    uint64_t next = 0;
    sft__import_panels panels;
    sft__import_panel panel;
    sft_error err;

    assert_true(out != NULL && got != NULL && times != NULL);
    sft__import_panels_plan(&panels, m->tensor, capacity, cut);
    check_bands(m, &panels);
    for (uint64_t i = 0; i < panels.all; i++) {
        const sft__import_turn_room room = {out, strip, sizeof strip, cut == SFT__CUT_MAPPED};
        sft__import_panel_at(&panels, m->tensor, i, &panel);
        assert_true(panel.run * panel.runs * unit <= capacity);
        assert_int_equal(sft__import_panel_read(m->catalog, m->tensor, &panel, &room, &err),
                         SFT_OK);
        for (uint64_t k = 0; k < panel.runs; k++) {
            const uint64_t at = sft__import_panel_run_at(&panel, m->tensor, k);
            assert_true(at + panel.run <= m->elements);
            memcpy(got + at * unit, out + k * panel.run * unit, (size_t)panel.run * unit);
            for (uint64_t e = 0; e < panel.run; e++) {
                times[at + e]++;
            }
            if (cut == SFT__CUT_STRETCHES) {
                assert_int_equal(at, next);
                assert_int_equal(panel.runs, 1);
                next += panel.run;
            }
        }
    }
    for (uint64_t e = 0; e < m->elements; e++) {
        assert_int_equal(times[e], 1);
    }
    assert_memory_equal(got, m->want, (size_t)m->elements * unit);
    free(out);
    free(got);
    free(times);
}

static void panels_of_all_orders(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        const uint32_t unit = 1u << rnd(5);
        const uint32_t rank = rnd(RANK + 1);
        uint32_t order[RANK] = {0, 1, 2, 3, 4};
        made m;
        for (uint32_t d = 0; d < rank; d++) {
            const uint32_t other = d + rnd(rank - d);
            const uint32_t swap = order[d];
            order[d] = order[other];
            order[other] = swap;
            m.shape[d] = 1 + rnd(rank < 3 ? 400 : rank < 4 ? 40 : 12);
        }
        make(&m, unit, rank, order, rnd(2) * rnd(20), rank > 0 && rnd(4) == 0 ? rnd(rank) : RANK);
        check(&m, (uint64_t)unit * (1 + rnd(3000)), SFT__CUT_READ);
        check(&m, (uint64_t)unit * (1 + rnd(3000)), SFT__CUT_MAPPED);
        check(&m, (uint64_t)unit * (1 + rnd(3000)), SFT__CUT_STRETCHES);
        check(&m, ROOM, SFT__CUT_READ);
        check(&m, ROOM, SFT__CUT_MAPPED);
        unmake(&m);
    }
}

/* Powers of two, where rows share lines of the cache; strips that are parts of a panel; more than
 * one panel in both directions. */
static void panels_of_large_planes(void **state) {
    (void)state;
    static const uint32_t order[2] = {1, 0};
    for (uint32_t unit = 1; unit <= 16; unit *= 2) {
        for (uint32_t k = 0; k < 4; k++) {
            made m;
            m.shape[0] = (k & 1 ? 1024 : 1001) / unit + 3 * (k & 1);
            m.shape[1] = k & 2 ? 2048 : 2111;
            make(&m, unit, 2, order, k == 3 ? 5 : 0, RANK);
            assert_true(sft__import_is_turned(m.tensor));
            check(&m, 1 << 20, SFT__CUT_READ);
            check(&m, 100000, SFT__CUT_READ);
            check(&m, 100000, SFT__CUT_MAPPED);
            check(&m, 200000, SFT__CUT_STRETCHES);
            unmake(&m);
        }
    }
}

static void runs_are_long_on_both_sides(void **state) {
    (void)state;
    enum { SIDE = 8192 };
    const uint64_t shape[2] = {SIDE, SIDE};
    const int64_t strides[2] = {4, 4 * SIDE};
    const sft_piece piece = {.strides = strides};
    const sft_tensor t = {
        .dtype = dtype_of(4), .shape = shape, .pieces = &piece, .rank = 2, .piece_count = 1};
    sft__import_panels panels;
    sft__import_panel panel;

    sft__import_panels_plan(&panels, &t, 20 << 20, SFT__CUT_READ);
    sft__import_panel_at(&panels, &t, 0, &panel);
    assert_int_equal(panel.count[1], SIDE); /* rows of 32 KiB are whole */
    assert_int_equal(panel.runs, 1);
    assert_true(panel.count[0] * 4 >= 2048 && panel.count[0] * panel.count[1] * 4 <= 20 << 20);
}

/* From a mapping only what is written must be in long runs: here half of a row, whose other half is
 * the second band. */
static void rows_are_long_when_mapped(void **state) {
    (void)state;
    enum { ROWS = 1024, COLUMNS = 80000 };
    const uint64_t shape[2] = {ROWS, COLUMNS};
    const int64_t strides[2] = {1, ROWS};
    const sft_piece piece = {.offset = 7, .strides = strides};
    const sft_tensor t = {
        .dtype = dtype_of(1), .shape = shape, .pieces = &piece, .rank = 2, .piece_count = 1};
    uint64_t offset;
    uint64_t size;
    sft__import_panels panels;

    sft__import_panels_plan(&panels, &t, 6 << 20, SFT__CUT_MAPPED);
    assert_int_equal(panels.across[1], 2);
    assert_true(panels.count[1] >= 40000 && panels.count[0] >= 128);
    for (uint64_t i = 0; i < panels.all; i++) {
        const bool begins = sft__import_panel_begins_band(&panels, &t, i, &offset, &size);
        assert_int_equal(begins, i == 0 || i == panels.across[0]);
        if (begins) {
            assert_int_equal(offset, 7 + (i == 0 ? 0 : panels.count[1] * ROWS));
            assert_int_equal(size, (i == 0 ? panels.count[1] : COLUMNS - panels.count[1]) * ROWS);
        }
    }
}

static void order_is_told(void **state) {
    (void)state;
    const uint64_t shape[3] = {4, 1, 6};
    static const struct {
        int64_t strides[3];
        bool turned;
    } cases[] = {{{48, 0, 4}, false}, {{4, 999, 16}, true},  {{100, 4, 8}, false},
                 {{0, 24, 4}, true},  {{24, 24, 24}, false}, {{4, 4, 8}, true}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const sft_piece piece = {.strides = cases[i].strides};
        const sft_tensor t = {
            .dtype = dtype_of(4), .shape = shape, .pieces = &piece, .rank = 3, .piece_count = 1};
        assert_int_equal(sft__import_is_turned(&t), cases[i].turned);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_of_all_orders), cmocka_unit_test(panels_of_large_planes),
        cmocka_unit_test(runs_are_long_on_both_sides), cmocka_unit_test(rows_are_long_when_mapped),
        cmocka_unit_test(order_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
