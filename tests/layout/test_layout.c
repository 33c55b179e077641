/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of src/layout: layouts, shards and the notations of others. Expected regions were worked out by
 * hand or by the frameworks' own rules; the property test compares with a walk over every element that
 * shares no code with the library.
 */
#include "unit/cm.h"

#include "layout/layout.h"

#define MOST 8

typedef struct box {
    uint64_t start[MOST], count[MOST], local[MOST];
} box;

static sft__layout_shard shard_of(box *b) {
    const sft__layout_shard s = {b->start, b->count, b->local};
    return s;
}

static sft__layout_mesh mesh_of(const uint64_t *axes, size_t count) {
    sft__layout_mesh m;
    sft_zero(&m, sizeof m);
    m.axes = axes;
    m.axis_count = count;
    return m;
}

/* The rank's only box. */
static box only(const sft_layout *layout, const uint64_t *shape, size_t dims, uint64_t rank) {
    box b;
    const sft__layout_shard s = shard_of(&b);
    uint64_t count = 99;
    sft_error err;
    memset(&b, 0, sizeof b);
    assert_int_equal(
        sft__layout_shard_count(&(sft__layout_local){layout, shape, dims, rank}, &count, &err),
        SFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(
        sft__layout_shard_at(&(sft__layout_local){layout, shape, dims, rank}, 0, &s, &err), SFT_OK);
    return b;
}

/* ---------------------------------------------------------------- splits */

static void dimensions_are_cut_as_torch_does(void **state) {
    (void)state;
    static const struct {
        sft__layout_split split;
        uint64_t n, parts;
        uint64_t bounds[11]; /* parts + 1 of them */
    } rows[] = {
        {SFT__SPLIT_CHUNK, 10, 4, {0, 3, 6, 9, 10}},
        {SFT__SPLIT_CHUNK, 5, 4, {0, 2, 4, 5, 5}},
        {SFT__SPLIT_CHUNK, 9, 8, {0, 2, 4, 6, 8, 9, 9, 9, 9}},
        {SFT__SPLIT_CHUNK, 0, 3, {0, 0, 0, 0}},
        {SFT__SPLIT_BALANCED, 10, 4, {0, 3, 6, 8, 10}},
        {SFT__SPLIT_BALANCED, 2, 3, {0, 1, 2, 2}},
        {SFT__SPLIT_EVEN, 12, 4, {0, 3, 6, 9, 12}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sft__layout_mesh mesh = mesh_of(&rows[i].parts, 1);
        const sft__layout_factor factor = {0, 0, 0, 0};
        sft__layout_cut cut;
        sft_layout *layout;
        sft_zero(&cut, sizeof cut);
        cut.factors = &factor;
        cut.factor_count = 1;
        cut.split = rows[i].split;
        assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_OK);
        for (uint64_t r = 0; r < rows[i].parts; r++) {
            uint64_t local;
            uint64_t count;
            assert_int_equal(sft_layout_local_shape(layout, &rows[i].n, 1, r, &local, NULL),
                             SFT_OK);
            assert_int_equal(local, rows[i].bounds[r + 1] - rows[i].bounds[r]);
            assert_int_equal(sft__layout_shard_count(&(sft__layout_local){layout, &rows[i].n, 1, r},
                                                     &count, NULL),
                             SFT_OK);
            assert_int_equal(count, local != 0);
            if (local != 0) {
                assert_int_equal(only(layout, &rows[i].n, 1, r).start[0], rows[i].bounds[r]);
            }
        }
        sft__layout_free(layout);
    }
}

static void sizes_by_hand(void **state) {
    (void)state;
    const uint64_t axis = 3;
    const uint64_t sizes[] = {5, 0, 2};
    const uint64_t n = 7;
    const uint64_t other = 8;
    const sft__layout_mesh mesh = mesh_of(&axis, 1);
    const sft__layout_factor factor = {0, 0, 0, 0};
    sft__layout_cut cut;
    sft_layout *layout;
    uint64_t local;
    sft_zero(&cut, sizeof cut);
    cut.factors = &factor;
    cut.factor_count = 1;
    cut.split = SFT__SPLIT_SIZES;
    cut.sizes = sizes;
    cut.size_count = 2;
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_ARG);
    assert_null(layout);
    cut.size_count = 3;
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_OK);
    assert_int_equal(only(layout, &n, 1, 2).start[0], 5);
    assert_int_equal(sft_layout_local_shape(layout, &n, 1, 1, &local, NULL), SFT_OK);
    assert_int_equal(local, 0);
    assert_int_equal(sft__layout_check(layout, &other, 1, NULL), SFT_E_SHAPE);
    sft__layout_free(layout);
}

/* Fused qkv of 4, 2 and 2 rows on two ranks; gate_up of 8 and 8 on four. */
static void blocks_are_cut_one_by_one(void **state) {
    (void)state;
    const uint64_t two = 2;
    const uint64_t four = 4;
    const uint64_t blocks[] = {4, 2, 2};
    const uint64_t shape[] = {8, 3};
    const uint64_t wide = 16;
    static const uint64_t expected[2][3][3] = {{{0, 2, 0}, {4, 1, 2}, {6, 1, 3}},
                                               {{2, 2, 0}, {5, 1, 2}, {7, 1, 3}}};
    const sft__layout_factor factor = {0, 0, 0, 0};
    sft__layout_mesh mesh = mesh_of(&two, 1);
    sft__layout_cut cuts[2];
    sft_layout *layout;
    uint64_t count;
    sft_zero(cuts, sizeof cuts);
    cuts[0].factors = &factor;
    cuts[0].factor_count = 1;
    cuts[0].blocks = blocks;
    cuts[0].block_count = 3;
    assert_int_equal(sft__layout_create(&layout, &mesh, cuts, 2, NULL, NULL), SFT_OK);
    for (uint64_t r = 0; r < 2; r++) {
        assert_int_equal(
            sft__layout_shard_count(&(sft__layout_local){layout, shape, 2, r}, &count, NULL),
            SFT_OK);
        assert_int_equal(count, 3);
        for (uint64_t i = 0; i < 3; i++) {
            box b;
            const sft__layout_shard s = shard_of(&b);
            assert_int_equal(
                sft__layout_shard_at(&(sft__layout_local){layout, shape, 2, r}, i, &s, NULL),
                SFT_OK);
            assert_int_equal(b.start[0], expected[r][i][0]);
            assert_int_equal(b.count[0], expected[r][i][1]);
            assert_int_equal(b.local[0], expected[r][i][2]);
            assert_int_equal(b.count[1], 3);
        }
    }
    sft__layout_free(layout);

    mesh = mesh_of(&four, 1);
    cuts[0].blocks = NULL;
    cuts[0].block_count = 0;
    cuts[0].block_parts = 2;
    assert_int_equal(sft__layout_create(&layout, &mesh, cuts, 1, NULL, NULL), SFT_OK);
    for (uint64_t r = 0; r < 4; r++) {
        box b;
        const sft__layout_shard s = shard_of(&b);
        assert_int_equal(
            sft__layout_shard_at(&(sft__layout_local){layout, &wide, 1, r}, 1, &s, NULL), SFT_OK);
        assert_int_equal(b.start[0], 8 + 2 * r);
        assert_int_equal(b.local[0], 2);
        assert_int_equal(
            sft__layout_shard_at(&(sft__layout_local){layout, &wide, 1, r}, 2, &s, NULL),
            SFT_E_RANGE);
    }
    sft__layout_free(layout);
}

/* ---------------------------------------------------------------- flat ranges and boxes */

static void flat_ranges_become_boxes(void **state) {
    (void)state;
    const uint64_t three = 3;
    const uint64_t shape[] = {4, 5};
    const sft__layout_mesh mesh = mesh_of(&three, 1);
    const sft__layout_factor factor = {0, 0, 0, 0};
    sft_layout *layout;
    uint64_t count;
    uint64_t local;
    box b;
    const sft__layout_shard s = shard_of(&b);
    assert_int_equal(sft__layout_create_flat(
                         &layout, &mesh, &(sft__layout_cut){.factors = &factor, .factor_count = 1},
                         4, NULL, NULL),
                     SFT_OK);
    assert_int_equal(sft_layout_is_flat(layout), 1);
    /* 20 elements in 3 parts of ceil(20 / 3) = 7, up to 8: [0, 8) [8, 16) [16, 20) */
    assert_int_equal(sft_layout_local_shape(layout, shape, 2, 2, &local, NULL), SFT_OK);
    assert_int_equal(local, 4);
    /* [8, 16): (1, 3:5), (2, 0:5), (3, 0:1) */
    assert_int_equal(
        sft__layout_shard_count(&(sft__layout_local){layout, shape, 2, 1}, &count, NULL), SFT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(sft__layout_shard_at(&(sft__layout_local){layout, shape, 2, 1}, 1, &s, NULL),
                     SFT_OK);
    assert_int_equal(b.start[0], 2);
    assert_int_equal(b.count[1], 5);
    assert_int_equal(b.local[0], 2);
    assert_int_equal(sft__layout_shard_at(&(sft__layout_local){layout, shape, 2, 1}, 2, &s, NULL),
                     SFT_OK);
    assert_int_equal(b.start[0], 3);
    assert_int_equal(b.count[1], 1);
    assert_int_equal(b.local[0], 7);
    sft__layout_free(layout);
}

static void explicit_boxes_have_replicas(void **state) {
    (void)state;
    const uint64_t ranks[] = {7, 3, 5};
    const uint64_t twice[] = {7, 3, 7};
    const uint64_t boxes[] = {0, 0, 2, 4, 2, 0, 2, 4, 0, 0, 2, 4}; /* rows 0:2, 2:4, 0:2 */
    const uint64_t shape[] = {4, 4};
    const uint64_t small[] = {3, 4};
    sft_layout *layout;
    sft_error err;
    uint64_t part[3];
    assert_int_equal(
        sft__layout_create_boxes(&layout, &(sft__layout_box_list){twice, boxes, 3, 2}, NULL, &err),
        SFT_E_DUPLICATE);
    assert_int_equal(
        sft__layout_create_boxes(&layout, &(sft__layout_box_list){ranks, boxes, 3, 2}, NULL, &err),
        SFT_OK);
    assert_int_equal(only(layout, shape, 2, 3).start[0], 2);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sft__layout_part(layout, ranks[i], &part[i], NULL), SFT_OK);
    }
    assert_int_equal(part[0], part[2]);
    assert_int_not_equal(part[0], part[1]);
    assert_int_equal(sft__layout_part_count(layout), 2);
    assert_int_equal(sft__layout_check(layout, small, 2, &err), SFT_E_SHAPE);
    assert_string_equal(err.message, "box of rank 3 ends at 2 + 2 in dimension 0 of size 3");
    assert_int_equal(sft_layout_holds(layout, 4), 0);
    sft__layout_free(layout);
}

/* ---------------------------------------------------------------- notations */

static void placements_are_read(void **state) {
    (void)state;
    const uint64_t axes[] = {2, 2};
    const uint64_t shape[] = {8, 4};
    const sft__layout_mesh mesh = mesh_of(axes, 2);
    /* start of dimension 0 and 1, size of dimension 0, by rank */
    static const struct {
        const char *text;
        uint64_t row[4], column[4];
        uint64_t rows;
    } cases[] = {
        {"[Shard(0), Shard(1)]", {0, 0, 4, 4}, {0, 2, 0, 2}, 4},
        {"(S(-1) , R)", {0, 0, 0, 0}, {0, 0, 2, 2}, 8},
        {"Shard(dim=0), Shard(dim=0)", {0, 2, 4, 6}, {0, 0, 0, 0}, 2},
        {"_StridedShard(dim=0, sf=2), Shard(0)", {0, 4, 2, 6}, {0, 0, 0, 0}, 2},
        {"Replicate(), Replicate()", {0, 0, 0, 0}, {0, 0, 0, 0}, 8},
    };
    static const struct {
        const char *text;
        sft_status status;
    } bad[] = {
        {"Shard(0)", SFT_E_ARG},
        {"Shard(0), Shard(2)", SFT_E_RANGE},
        {"Shard(0), Shard(99999999999)", SFT_E_ARG},
        {"Partial(), Shard(0)", SFT_E_UNSUPPORTED},
        {"Shard(0), Shard(1), Shard(0)", SFT_E_ARG},
        {"_StridedShard(dim=0, sf=3), Shard(0)", SFT_E_UNSUPPORTED},
        {"Shard(0), Spread(1)", SFT_E_ARG},
        {"[Shard(0), Shard(1)", SFT_E_ARG},
        {"", SFT_E_ARG},
    };
    sft_layout *layout;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sft__layout_parse_placements(&layout, cases[i].text, &mesh, 2, NULL, NULL),
                         SFT_OK);
        for (uint64_t r = 0; r < 4; r++) {
            const box b = only(layout, shape, 2, r);
            assert_int_equal(b.start[0], cases[i].row[r]);
            assert_int_equal(b.start[1], cases[i].column[r]);
            assert_int_equal(b.count[0], cases[i].rows);
        }
        sft__layout_free(layout);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sft__layout_parse_placements(&layout, bad[i].text, &mesh, 2, NULL, NULL),
                         bad[i].status);
        assert_null(layout);
    }
}

static void specs_are_read(void **state) {
    (void)state;
    const uint64_t axes[] = {4, 2};
    const char *const names[] = {"x", "y"};
    const uint64_t shape[] = {8, 8};
    const uint64_t odd[] = {8, 7};
    sft__layout_mesh mesh = mesh_of(axes, 2);
    static const struct {
        const char *text;
        sft_status status;
    } bad[] = {
        {"P('z')", SFT_E_NOT_FOUND}, {"P('x', 'x')", SFT_E_ARG}, {"P('x', None, 'y')", SFT_E_SHAPE},
        {"Q('x')", SFT_E_ARG},       {"P('x", SFT_E_ARG},        {"P(('x' 'y'))", SFT_E_ARG},
        {"P('x') 1", SFT_E_ARG},
    };
    sft_layout *layout;
    mesh.axis_names = names;
    assert_int_equal(
        sft__layout_parse_spec(&layout, "PartitionSpec(('y', 'x'),)", &mesh, 2, NULL, NULL),
        SFT_OK);
    /* rank = 2 x + y; row = (4 y + x) * 1 */
    for (uint64_t r = 0; r < 8; r++) {
        assert_int_equal(only(layout, shape, 2, r).start[0], 4 * (r % 2) + r / 2);
    }
    sft__layout_free(layout);
    assert_int_equal(sft__layout_parse_spec(&layout, "P(None, \"y\")", &mesh, 2, NULL, NULL),
                     SFT_OK);
    assert_int_equal(only(layout, shape, 2, 5).start[1], 4);
    assert_int_equal(sft__layout_check(layout, odd, 2, NULL), SFT_E_SHAPE);
    sft__layout_free(layout);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sft__layout_parse_spec(&layout, bad[i].text, &mesh, 2, NULL, NULL),
                         bad[i].status);
        assert_null(layout);
    }
}

static void styles_cut_what_transformers_cuts(void **state) {
    (void)state;
    const uint64_t two = 2;
    const uint64_t shape[] = {4, 6};
    const sft__layout_mesh mesh = mesh_of(&two, 1);
    static const struct {
        const char *style;
        size_t dims;
        uint64_t row, column; /* where rank 1 begins */
    } rows[] = {{"colwise", 2, 2, 0},          {"rowwise", 2, 0, 3},
                {"colwise", 1, 2, 0},          {"rowwise", 1, 0, 0},
                {"packed_rowwise", 2, 0, 2},   {"grouped_gemm", 2, 2, 0},
                {"sequence_parallel", 2, 0, 0}};
    sft_layout *layout;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        box b;
        const sft__layout_shard s = shard_of(&b);
        memset(&b, 0, sizeof b);
        assert_int_equal(
            sft__layout_from_style(&layout, &(sft__layout_style){rows[i].style, rows[i].dims == 1},
                                   &mesh, rows[i].dims, NULL, NULL),
            SFT_OK);
        assert_int_equal(
            sft__layout_shard_at(&(sft__layout_local){layout, shape, rows[i].dims, 1}, 0, &s, NULL),
            SFT_OK);
        assert_int_equal(b.start[0], rows[i].row);
        /* two blocks of three columns, chunks of two: the second rank begins at column 2 */
        assert_int_equal(b.start[1], rows[i].column);
        sft__layout_free(layout);
    }
    assert_int_equal(
        sft__layout_from_style(&layout, &(sft__layout_style){"sideways", 0}, &mesh, 2, NULL, NULL),
        SFT_E_NOT_FOUND);
}

/* ---------------------------------------------------------------- hostile meshes */

static void impossible_meshes_are_refused(void **state) {
    (void)state;
    const uint64_t huge[] = {UINT64_C(1) << 40, 2};
    const uint64_t wrap[] = {UINT64_C(1) << 32, UINT64_C(1) << 32, 3};
    const uint64_t zero[] = {2, 0};
    uint64_t many[40];
    const uint64_t fine[] = {4, 6};
    const sft__layout_factor twice[] = {{1, 0, 1, 2}, {1, 0, 1, 3}};
    const sft__layout_factor apart[] = {{1, 0, 2, 3}, {1, 0, 1, 2}};
    const sft__layout_factor beyond = {2, 0, 0, 0};
    const sft__layout_factor uneven = {1, 0, 1, 4};
    sft__layout_mesh mesh = mesh_of(huge, 2);
    sft__layout_cut cut;
    sft_layout *layout;
    sft_zero(&cut, sizeof cut);
    for (size_t i = 0; i < 40; i++) {
        many[i] = 1;
    }
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_OVERFLOW);
    mesh = mesh_of(wrap, 3);
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_OVERFLOW);
    mesh = mesh_of(zero, 2);
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_ARG);
    mesh = mesh_of(many, 40);
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_LIMIT);
    mesh = mesh_of(fine, 2);
    mesh.first_rank = UINT64_MAX - 5;
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_OVERFLOW);
    mesh.first_rank = 0;
    cut.factors = twice;
    cut.factor_count = 2;
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_ARG);
    cut.factors = &beyond;
    cut.factor_count = 1;
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_ARG);
    cut.factors = &uneven;
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_E_ARG);
    cut.factors = apart;
    cut.factor_count = 2;
    assert_int_equal(sft__layout_create(&layout, &mesh, &cut, 1, NULL, NULL), SFT_OK);
    assert_int_equal(sft__layout_part_count(layout), 6);
    sft__layout_free(layout);
}

/* ---------------------------------------------------------------- every element, once per part */

static uint64_t next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Marks the elements of every part: each must be hit once, and lie at its place in the rank's own tensor. */
static void check_cover(const sft_layout *layout, const uint64_t *shape, size_t dims) {
    uint64_t total = 1;
    uint8_t *hit;
    uint64_t parts_seen = 0;
    uint8_t *part_hit = calloc((size_t)sft__layout_part_count(layout), 1);
    for (size_t i = 0; i < dims; i++) {
        total *= shape[i];
    }
    hit = calloc((size_t)total + 1, 1);
    for (uint64_t d = 0; d < sft_layout_rank_count(layout); d++) {
        uint64_t rank, part, count, local[MOST], held = 0, size = 1;
        assert_int_equal(sft_layout_rank_at(layout, d, &rank, NULL), SFT_OK);
        assert_int_equal(sft__layout_part(layout, rank, &part, NULL), SFT_OK);
        assert_true(part < sft__layout_part_count(layout));
        assert_int_equal(sft_layout_local_shape(layout, shape, dims, rank, local, NULL), SFT_OK);
        assert_int_equal(
            sft__layout_shard_count(&(sft__layout_local){layout, shape, dims, rank}, &count, NULL),
            SFT_OK);
        for (uint64_t i = 0; i < count; i++) {
            box b;
            const sft__layout_shard s = shard_of(&b);
            uint64_t at[MOST] = {0};
            uint64_t n = 1;
            assert_int_equal(
                sft__layout_shard_at(&(sft__layout_local){layout, shape, dims, rank}, i, &s, NULL),
                SFT_OK);
            for (size_t k = 0; k < dims; k++) {
                n *= b.count[k];
                if (!sft_layout_is_flat(layout)) {
                    assert_true(b.local[k] + b.count[k] <= local[k]);
                }
            }
            for (uint64_t e = 0; e < n; e++) {
                uint64_t index = 0;
                for (size_t k = 0; k < dims; k++) {
                    index = index * shape[k] + b.start[k] + at[k];
                }
                assert_true(index < total);
                if (!part_hit[part]) {
                    assert_int_equal(hit[index], 0);
                    hit[index] = 1;
                }
                for (size_t k = dims; k-- > 0 && ++at[k] == b.count[k];) {
                    at[k] = 0;
                }
            }
            held += n;
        }
        for (size_t k = 0; k < (sft_layout_is_flat(layout) ? 1 : dims); k++) {
            size *= local[k];
        }
        assert_int_equal(held, size);
        parts_seen += !part_hit[part];
        part_hit[part] = 1;
    }
    assert_int_equal(parts_seen, sft__layout_part_count(layout));
    for (uint64_t i = 0; i < total; i++) {
        assert_int_equal(hit[i], 1);
    }
    free(hit);
    free(part_hit);
}

static void every_part_is_one_share(void **state) {
    (void)state;
    uint64_t seed = 20261121;
    int made = 0;
    for (int round = 0; round < 6000; round++) {
        uint64_t axes[4], shape[4], ranks[256], devices = 1;
        sft__layout_factor factors[4];
        sft__layout_cut cuts[4];
        const size_t axis_count = next(&seed) % 4;
        const size_t dims = 1 + next(&seed) % 3;
        size_t used = 0;
        sft__layout_mesh mesh = mesh_of(axes, axis_count);
        sft_layout *layout;
        for (size_t i = 0; i < axis_count; i++) {
            axes[i] = 1 + next(&seed) % 4;
            devices *= axes[i];
        }
        if (next(&seed) % 4 == 0) {
            for (uint64_t i = 0; i < devices; i++) {
                ranks[i] = 1000 - 7 * ((i + 3) % devices);
            }
            mesh.ranks = ranks;
        }
        sft_zero(cuts, sizeof cuts);
        sft_zero(factors, sizeof factors);
        for (size_t d = 0; d < dims; d++) {
            shape[d] = next(&seed) % 9;
            cuts[d].factors = factors + used;
            cuts[d].split = next(&seed) % 2 ? SFT__SPLIT_CHUNK : SFT__SPLIT_BALANCED;
            while (used < axis_count && next(&seed) % 2) {
                factors[used].axis = (uint32_t)(axis_count - 1 - used);
                used++;
                cuts[d].factor_count++;
            }
            if (next(&seed) % 5 == 0 && shape[d] % 2 == 0) {
                cuts[d].block_parts = 2;
            }
        }
        const sft_status status =
            next(&seed) % 5 == 0
                ? sft__layout_create_flat(
                      &layout, &mesh, &(sft__layout_cut){.factors = factors, .factor_count = used},
                      next(&seed) % 4, NULL, NULL)
                : sft__layout_create(&layout, &mesh, cuts, dims, NULL, NULL);
        assert_int_equal(status, SFT_OK);
        check_cover(layout, shape, dims);
        sft__layout_free(layout);
        made++;
    }
    assert_int_equal(made, 6000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dimensions_are_cut_as_torch_does),
        cmocka_unit_test(sizes_by_hand),
        cmocka_unit_test(blocks_are_cut_one_by_one),
        cmocka_unit_test(flat_ranges_become_boxes),
        cmocka_unit_test(explicit_boxes_have_replicas),
        cmocka_unit_test(placements_are_read),
        cmocka_unit_test(specs_are_read),
        cmocka_unit_test(styles_cut_what_transformers_cuts),
        cmocka_unit_test(impossible_meshes_are_refused),
        cmocka_unit_test(every_part_is_one_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
