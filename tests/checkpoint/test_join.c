/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of src/checkpoint: parts out of the whole, the whole out of parts, from any number of ranks to
 * any other. Values count the elements, so that a misplaced one is seen.
 */
#include "unit/cm.h"

#include "checkpoint/join_find.h"
#include "checkpoint/layouts/layout_set.h"
#include "unit/counting.h"
#include <sft/checkpoint.h>
#include <sft/extend.h>
#include <sft/read.h>
#include <sft/write.h>

enum { TENSORS = 8, MOST_RANKS = 8 };

/* A catalog over a file in memory. */
typedef struct memory_file {
    void *bytes;
    sft_catalog *catalog;
} memory_file;

static void drop(memory_file *f) {
    sft_catalog_close(f->catalog);
    free(f->bytes);
}

static memory_file save(const sft_save_tensor *tensors, size_t count, const char *key,
                        const char *value) {
    const sft_metadata_entry entries[] = {{"crc_num", 7, value, strlen(value)},
                                          {key, strlen(key), value, strlen(value)}};
    memory_file f;
    size_t size;
    assert_int_equal(sft_save_memory(NULL, 0, &size, tensors, count, entries, 2, NULL, NULL),
                     SFT_OK);
    f.bytes = malloc(size);
    assert_int_equal(sft_save_memory(f.bytes, size, &size, tensors, count, entries, 2, NULL, NULL),
                     SFT_OK);
    assert_int_equal(sft_catalog_open_memory(&f.catalog, f.bytes, size, NULL, NULL), SFT_OK);
    return f;
}

/* Reads every tensor of a catalog and writes them as a file of their own. */
static memory_file materialise(const sft_catalog *c, const char *value) {
    sft_save_tensor tensors[TENSORS];
    const size_t count = sft_catalog_count(c);
    memory_file f;
    memset(tensors, 0, sizeof tensors);
    assert_true(count <= TENSORS);
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        void *const data = malloc((size_t)t->nbytes + 1);
        sft_error err;
        if (sft_tensor_read(c, t, NULL, data, (size_t)t->nbytes, &err) != SFT_OK) {
            fail_msg("%s: %s", t->name, err.message);
        }
        tensors[i].name = t->name;
        tensors[i].name_len = t->name_len;
        tensors[i].dtype = t->dtype;
        tensors[i].shape = t->shape;
        tensors[i].rank = t->rank;
        tensors[i].data = data;
        tensors[i].nbytes = t->nbytes;
    }
    f = save(tensors, count, "format", value);
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)tensors[i].data);
    }
    return f;
}

static void assert_same(const sft_catalog *a, const sft_catalog *b) {
    assert_int_equal(sft_catalog_count(a), sft_catalog_count(b));
    for (size_t i = 0; i < sft_catalog_count(a); i++) {
        const sft_tensor *const t = sft_catalog_at(a, i);
        const sft_tensor *const u = sft_catalog_find(b, t->name, t->name_len);
        assert_non_null(u);
        assert_int_equal(t->dtype->id, u->dtype->id);
        assert_int_equal(t->rank, u->rank);
        assert_memory_equal(t->shape, u->shape, t->rank * sizeof *t->shape);
        char *const x = malloc((size_t)t->nbytes + 1);
        char *const y = malloc((size_t)t->nbytes + 1);
        assert_int_equal(sft_tensor_read(a, t, NULL, x, (size_t)t->nbytes, NULL), SFT_OK);
        assert_int_equal(sft_tensor_read(b, u, NULL, y, (size_t)t->nbytes, NULL), SFT_OK);
        assert_memory_equal(x, y, (size_t)t->nbytes);
        free(x);
        free(y);
    }
}

/* ---------------------------------------------------------------- a model */

static uint32_t numbers[16 * 12];
static const uint64_t shape_rows[] = {7, 5}, shape_columns[] = {3, 11}, shape_qkv[] = {12, 3},
                      shape_bias[] = {9}, shape_experts[] = {5, 2, 4}, shape_flat[] = {4, 13},
                      shape_nibbles[] = {8, 6};

static memory_file model(void) {
    static const struct {
        const char *name;
        uint32_t dtype;
        const uint64_t *shape;
        uint32_t rank;
    } rows[TENSORS] = {
        {"rows", SFT_U32, shape_rows, 2},       {"columns", SFT_F32, shape_columns, 2},
        {"qkv", SFT_U32, shape_qkv, 2},         {"bias", SFT_I32, shape_bias, 1},
        {"experts", SFT_U32, shape_experts, 3}, {"flat", SFT_U32, shape_flat, 2},
        {"nibbles", SFT_F4, shape_nibbles, 2},  {"step", SFT_U32, NULL, 0}};
    sft_save_tensor tensors[TENSORS];
    memset(tensors, 0, sizeof tensors);
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        numbers[i] = i;
    }
    for (size_t i = 0; i < TENSORS; i++) {
        uint64_t n = 1;
        for (uint32_t d = 0; d < rows[i].rank; d++) {
            n *= rows[i].shape[d];
        }
        tensors[i].name = rows[i].name;
        tensors[i].name_len = strlen(rows[i].name);
        tensors[i].dtype = sft_dtype_get(rows[i].dtype);
        tensors[i].shape = rows[i].shape;
        tensors[i].rank = rows[i].rank;
        tensors[i].data = numbers;
        assert_int_equal(sft_dtype_bytes(tensors[i].dtype, n, &tensors[i].nbytes, NULL), SFT_OK);
    }
    return save(tensors, TENSORS, "format", "pt");
}

/* The layouts of the model on n ranks. */
typedef struct plan {
    sft_layout *list[TENSORS];
    uint64_t ranks;
} plan;

static sft_status find_in_plan(void *ctx, const sft_tensor *t, uint64_t rank,
                               const sft_layout **layout, uint64_t *shape, size_t *dims,
                               sft_error *err) {
    static const struct {
        const char *name;
        const uint64_t *shape;
        size_t dims;
    } rows[] = {{"rows", shape_rows, 2},       {"columns", shape_columns, 2},
                {"qkv", shape_qkv, 2},         {"bias", shape_bias, 1},
                {"experts", shape_experts, 3}, {"flat", shape_flat, 2},
                {"nibbles", shape_nibbles, 2}};
    const plan *const p = ctx;
    (void)rank;
    (void)err;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, t->name) == 0) {
            *layout = p->list[i];
            *dims = rows[i].dims;
            memcpy(shape, rows[i].shape, rows[i].dims * sizeof *shape);
        }
    }
    return SFT_OK;
}

/* step is not cut; two of every three numbers of ranks replicate the bias. */
static plan plan_for(uint64_t ranks) {
    const uint64_t blocks[] = {6, 3, 3};
    sft__layout_factor factor = {0, 0, 0, 0};
    sft__layout_cut cuts[3];
    sft__layout_mesh mesh;
    plan p;
    memset(&p, 0, sizeof p);
    p.ranks = ranks;
    sft_zero(&mesh, sizeof mesh);
    mesh.axes = &p.ranks;
    mesh.axis_count = 1;
    for (size_t i = 0; i < 7; i++) {
        static const size_t dims[] = {2, 2, 2, 1, 3, 2, 2};
        const size_t cut = i == 1 ? 1 : 0;
        sft_zero(cuts, sizeof cuts);
        sft_zero(&factor, sizeof factor);
        cuts[cut].factors = &factor;
        cuts[cut].factor_count = 1;
        cuts[cut].split = i == 4 ? SFT__SPLIT_BALANCED : SFT__SPLIT_CHUNK;
        if (i == 2) {
            cuts[0].blocks = blocks;
            cuts[0].block_count = 3;
        }
        if (i == 3 && ranks % 3 == 0) {
            factor.size = 3; /* so ranks / 3 of them hold the same */
        }
        const sft_status status =
            i == 5
                ? sft__layout_create_flat(&p.list[i], &mesh,
                                          &(sft__layout_cut){.factors = &factor, .factor_count = 1},
                                          3, NULL, NULL)
                : sft__layout_create(&p.list[i], &mesh, cuts, dims[i], NULL, NULL);
        assert_int_equal(status, SFT_OK);
    }
    return p;
}

static void drop_plan(plan *p) {
    for (size_t i = 0; i < TENSORS; i++) {
        sft__layout_free(p->list[i]);
    }
}

static void cut_up(const sft_catalog *whole, plan *p, memory_file *files) {
    for (uint64_t r = 0; r < p->ranks; r++) {
        sft_catalog *part;
        sft_error err;
        if (sft_checkpoint_part(&part, whole, r, find_in_plan, p, NULL, &err) != SFT_OK) {
            fail_msg("%s: %s", err.tensor, err.message);
        }
        files[r] = materialise(part, "pt");
        sft_catalog_close(part);
    }
}

static sft_catalog *put_together(plan *p, const memory_file *files) {
    sft_rank_part parts[MOST_RANKS];
    sft_catalog *whole;
    sft_error err;
    for (uint64_t r = 0; r < p->ranks; r++) {
        parts[r].catalog = files[r].catalog;
        parts[r].rank = r;
    }
    if (join_find(&whole, parts, (size_t)p->ranks, find_in_plan, p, NULL, &err) != SFT_OK) {
        fail_msg("%llu ranks: %s: %s", (unsigned long long)p->ranks, err.tensor, err.message);
    }
    return whole;
}

/* ---------------------------------------------------------------- */

static void parts_hold_what_chunk_gives(void **state) {
    (void)state;
    memory_file whole = model();
    plan p = plan_for(4);
    memory_file files[MOST_RANKS];
    cut_up(whole.catalog, &p, files);
    for (uint64_t r = 0; r < 4; r++) {
        const sft_tensor *const t = sft_catalog_find(files[r].catalog, "columns", 7);
        const uint64_t low = 3 * r;
        const uint64_t width = r < 3 ? 3 : 2; /* 11 columns in chunks of 3 */
        uint32_t got[9];
        assert_int_equal(t->shape[0], 3);
        assert_int_equal(t->shape[1], width);
        assert_int_equal(sft_tensor_read(files[r].catalog, t, NULL, got, sizeof got, NULL), SFT_OK);
        for (uint64_t i = 0; i < 3 * width; i++) {
            assert_int_equal(got[i], i / width * 11 + low + i % width);
        }
        /* q, k and v of 6, 3 and 3 rows in chunks of 2, 1 and 1 */
        const sft_tensor *const qkv = sft_catalog_find(files[r].catalog, "qkv", 3);
        uint32_t rows[12];
        assert_int_equal(qkv->shape[0], r < 3 ? 4 : 0);
        assert_int_equal(sft_tensor_read(files[r].catalog, qkv, NULL, rows, sizeof rows, NULL),
                         SFT_OK);
        if (r < 3) {
            assert_int_equal(rows[0], 3 * (2 * r));
            assert_int_equal(rows[6], 3 * (6 + r));
            assert_int_equal(rows[9], 3 * (9 + r));
        }
    }
    for (size_t r = 0; r < 4; r++) {
        drop(&files[r]);
    }
    drop_plan(&p);
    drop(&whole);
}

/* From n ranks to m and back, for all n and m up to 8: the same bytes, also where nothing divides. */
static void any_number_becomes_any_other(void **state) {
    (void)state;
    memory_file whole = model();
    int done = 0;
    for (uint64_t n = 1; n <= MOST_RANKS; n++) {
        plan from = plan_for(n);
        memory_file files[MOST_RANKS];
        cut_up(whole.catalog, &from, files);
        sft_catalog *const joined = put_together(&from, files);
        assert_same(whole.catalog, joined);
        assert_string_equal(sft_catalog_metadata_find(joined, 0, "format", 6, NULL), "pt");
        assert_null(sft_catalog_metadata_find(joined, 0, "crc_num", 7, NULL));
        for (uint64_t m = 1; m <= MOST_RANKS; m++) {
            plan to = plan_for(m);
            memory_file out[MOST_RANKS];
            cut_up(joined, &to, out);
            sft_catalog *const again = put_together(&to, out);
            assert_same(whole.catalog, again);
            for (uint64_t r = 0; r < n; r++) { /* and back */
                sft_catalog *part;
                assert_int_equal(
                    sft_checkpoint_part(&part, again, r, find_in_plan, &from, NULL, NULL), SFT_OK);
                assert_same(files[r].catalog, part);
                sft_catalog_close(part);
                done++;
            }
            sft_catalog_close(again);
            for (uint64_t r = 0; r < m; r++) {
                drop(&out[r]);
            }
            drop_plan(&to);
        }
        sft_catalog_close(joined);
        for (uint64_t r = 0; r < n; r++) {
            drop(&files[r]);
        }
        drop_plan(&from);
    }
    assert_int_equal(done, 36 * 8);
    drop(&whole);
}

/* Of two replicas either may be missing; of the last one the box is named. */
static void what_nobody_holds_is_named(void **state) {
    (void)state;
    const uint64_t axes[] = {2, 2};
    uint32_t data[24];
    sft__layout_mesh mesh;
    sft_save_tensor tensor;
    sft_catalog *part;
    sft_catalog *joined;
    sft_error err;
    plan p;
    memory_file files[4];
    sft_rank_part parts[4];
    for (uint32_t i = 0; i < 24; i++) {
        data[i] = i;
    }
    memset(&p, 0, sizeof p);
    sft_zero(&mesh, sizeof mesh);
    mesh.axes = axes;
    mesh.axis_count = 2;
    p.ranks = 4;
    assert_int_equal(
        sft__layout_parse_placements(&p.list[3], "Replicate(), Shard(0)", &mesh, 1, NULL, NULL),
        SFT_OK);
    memset(&tensor, 0, sizeof tensor);
    tensor.name = "bias";
    tensor.name_len = 4;
    tensor.dtype = sft_dtype_get(SFT_U32);
    tensor.shape = shape_bias;
    tensor.rank = 1;
    tensor.data = data;
    tensor.nbytes = 36;
    memory_file whole = save(&tensor, 1, "format", "pt");
    for (uint64_t r = 0; r < 4; r++) {
        assert_int_equal(sft_checkpoint_part(&part, whole.catalog, r, find_in_plan, &p, NULL, &err),
                         SFT_OK);
        files[r] = materialise(part, "pt");
        sft_catalog_close(part);
        parts[r].catalog = files[r].catalog;
        parts[r].rank = r;
    }
    /* ranks 0 and 2 hold 0:5, ranks 1 and 3 hold 5:9 */
    assert_int_equal(join_find(&joined, parts + 1, 2, find_in_plan, &p, NULL, &err), SFT_OK);
    assert_same(whole.catalog, joined);
    sft_catalog_close(joined);
    const sft_rank_part even[] = {parts[0], parts[2]};
    assert_int_equal(join_find(&joined, even, 2, find_in_plan, &p, NULL, &err), SFT_E_HOLE);
    assert_null(joined);
    assert_string_equal(err.tensor, "bias");
    assert_string_equal(err.message,
                        "no file holds the box [5:9], which is rank 1's (it has no file)");
    parts[3].rank = 0;
    assert_int_equal(join_find(&joined, parts, 4, find_in_plan, &p, NULL, &err), SFT_E_DUPLICATE);
    parts[3].rank = 2; /* rank 3's shape is not rank 2's */
    parts[2].rank = 3;
    assert_int_equal(join_find(&joined, parts, 4, find_in_plan, &p, NULL, &err), SFT_E_MISMATCH);
    assert_string_equal(err.message, "rank 3 has another shape than the layout gives it");
    for (size_t r = 0; r < 4; r++) {
        drop(&files[r]);
    }
    drop(&whole);
    drop_plan(&p);
}

/* Explicit boxes must tile. */
static void boxes_must_tile(void **state) {
    (void)state;
    const uint64_t ranks[] = {0, 1};
    static const struct {
        uint64_t boxes[4]; /* start, count of two ranks */
        sft_status status;
    } rows[] = {{{0, 4, 4, 5}, SFT_OK},
                {{0, 4, 5, 4}, SFT_E_HOLE},
                {{0, 5, 4, 5}, SFT_E_OVERLAP},
                {{0, 9, 0, 9}, SFT_OK},
                {{0, 4, 4, 6}, SFT_E_SHAPE}};
    uint32_t data[9];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memory_file files[2];
        sft_rank_part parts[2];
        sft_catalog *joined;
        sft_error err;
        plan p;
        memset(&p, 0, sizeof p);
        assert_int_equal(
            sft__layout_create_boxes(
                &p.list[3], &(sft__layout_box_list){ranks, rows[i].boxes, 2, 1}, NULL, NULL),
            SFT_OK);
        for (uint64_t r = 0; r < 2; r++) {
            sft_save_tensor t;
            memset(&t, 0, sizeof t);
            for (uint32_t k = 0; k < 9; k++) {
                data[k] = (uint32_t)rows[i].boxes[2 * r] + k;
            }
            t.name = "bias";
            t.name_len = 4;
            t.dtype = sft_dtype_get(SFT_U32);
            t.shape = &rows[i].boxes[2 * r + 1];
            t.rank = 1;
            t.data = data;
            t.nbytes = 4 * t.shape[0];
            files[r] = save(&t, 1, "format", r == 0 ? "pt" : "np");
            parts[r].catalog = files[r].catalog;
            parts[r].rank = r;
        }
        assert_int_equal(join_find(&joined, parts, 2, find_in_plan, &p, NULL, &err),
                         rows[i].status);
        if (joined != NULL) {
            uint32_t got[9];
            assert_null(
                sft_catalog_metadata_find(joined, 0, "format", 6, NULL)); /* they disagree */
            assert_int_equal(
                sft_tensor_read(joined, sft_catalog_at(joined, 0), NULL, got, sizeof got, NULL),
                SFT_OK);
            for (uint32_t k = 0; k < 9; k++) {
                assert_int_equal(got[k], k);
            }
            sft_catalog_close(joined);
        } else {
            assert_string_equal(err.tensor, "bias");
        }
        drop(&files[0]);
        drop(&files[1]);
        drop_plan(&p);
    }
}

/* A strategy with optimizer sharding: ranks hold rows 0:2, 4:6, 2:4, 6:8, and the step whole. */
static void mindspore_ranks_are_joined(void **state) {
    (void)state;
    static const char text[] =
        "{\"current_stage\":0,\"parallel_layout_item\":{\"w\":{\"dev_matrix\":[2,2],"
        "\"tensor_map\":[0,-1],\"opt_weight_shard_step\":2,"
        "\"opt_weight_shard_size\":2}}}";
    static const uint64_t first_row[] = {0, 4, 2, 6};
    const uint64_t shape[] = {2, 4};
    const uint32_t step = 7;
    uint32_t data[8], got[32];
    sft_ms_strategy *strategy;
    sft__checkpoint_ms_layouts *layouts;
    memory_file files[4];
    sft_rank_part parts[4];
    sft_catalog *joined;
    sft_catalog *part;
    assert_int_equal(sft__layout_ms_parse(&strategy, text, sizeof text - 1,
                                          &(sft__layout_ms_options){"s", NULL, NULL}, NULL),
                     SFT_OK);
    assert_int_equal(sft__checkpoint_ms_layouts_create(&layouts, strategy, NULL, NULL), SFT_OK);
    for (uint64_t r = 0; r < 4; r++) {
        sft_save_tensor t[2];
        memset(t, 0, sizeof t);
        for (uint32_t k = 0; k < 8; k++) {
            data[k] = (uint32_t)first_row[r] * 4 + k;
        }
        t[0].name = "w";
        t[0].name_len = 1;
        t[0].dtype = sft_dtype_get(SFT_U32);
        t[0].shape = shape;
        t[0].rank = 2;
        t[0].data = data;
        t[0].nbytes = 32;
        t[1].name = "step";
        t[1].name_len = 4;
        t[1].dtype = sft_dtype_get(SFT_U32);
        t[1].data = &step;
        t[1].nbytes = 4;
        files[r] = save(t, 2, "format", "ms");
        parts[r].catalog = files[r].catalog;
        parts[r].rank = r;
    }
    assert_int_equal(
        join_find(&joined, parts, 4, sft__checkpoint_ms_layouts_find_part, layouts, NULL, NULL),
        SFT_OK);
    const sft_tensor *const w = sft_catalog_find(joined, "w", 1);
    assert_int_equal(w->shape[0], 8);
    assert_int_equal(w->piece_count, 4);
    assert_int_equal(sft_tensor_read(joined, w, NULL, got, sizeof got, NULL), SFT_OK);
    for (uint32_t k = 0; k < 32; k++) {
        assert_int_equal(got[k], k);
    }
    for (uint64_t r = 0; r < 4; r++) {
        assert_int_equal(sft_checkpoint_part(&part, joined, r,
                                             sft__checkpoint_ms_layouts_find_global, layouts, NULL,
                                             NULL),
                         SFT_OK);
        assert_same(files[r].catalog, part);
        sft_catalog_close(part);
    }
    sft_catalog_close(joined);
    for (size_t r = 0; r < 4; r++) {
        drop(&files[r]);
    }
    sft__checkpoint_ms_layouts_free(layouts);
    sft__layout_ms_free(strategy);
}

/* Every allocation fails in turn: an error, and nothing left behind. */
static void memory_may_run_out(void **state) {
    (void)state;
    memory_file whole = model();
    plan p = plan_for(3);
    memory_file files[MOST_RANKS];
    sft_rank_part parts[MOST_RANKS];
    size_t failures = 0;
    cut_up(whole.catalog, &p, files);
    for (uint64_t r = 0; r < 3; r++) {
        parts[r].catalog = files[r].catalog;
        parts[r].rank = r;
    }
    for (int what = 0; what < 2; what++) {
        for (size_t n = 1;; n++) {
            counting c;
            sft_open_options options;
            sft_catalog *out;
            counting_init(&c);
            c.fail_from = n;
            SFT_INIT(&options);
            options.allocator = &c.allocator;
            const sft_status status =
                what == 0
                    ? join_find(&out, parts, 3, find_in_plan, &p, &options, NULL)
                    : sft_checkpoint_part(&out, whole.catalog, 1, find_in_plan, &p, &options, NULL);
            assert_true((status == SFT_OK) == (out != NULL));
            sft_catalog_close(out);
            assert_all_given_back(&c);
            if (c.calls < n) {
                assert_int_equal(status, SFT_OK);
                break;
            }
            failures += status == SFT_E_NOMEM;
        }
    }
    assert_true(failures > 20);
    for (size_t r = 0; r < 3; r++) {
        drop(&files[r]);
    }
    drop_plan(&p);
    drop(&whole);
}

/* Pieces in the order of their rows are told to be, others not; both are cut right (by all tests above). */
static void test_ascending(void **state) {
    static const uint64_t starts[3][3] = {{0, 2, 4}, {2, 0, 4}, {0, 4, 2}};
    static const uint64_t count[] = {2};
    static const uint64_t shape[] = {6};
    static const char data[6] = {1, 2, 3, 4, 5, 6};
    (void)state;
    for (size_t order = 0; order < 3; order++) {
        sft_piece pieces[3];
        sft_builder *builder;
        sft_source *source;
        sft_catalog *c;
        sft_tensor t;
        sft_file file;
        uint32_t index;
        memset(pieces, 0, sizeof pieces);
        memset(&t, 0, sizeof t);
        memset(&file, 0, sizeof file);
        assert_int_equal(sft_builder_create(&builder, NULL, NULL), SFT_OK);
        assert_int_equal(sft_source_open_memory(&source, data, sizeof data, NULL, NULL), SFT_OK);
        assert_int_equal(sft_builder_add_source(builder, source, &index, NULL), SFT_OK);
        file.path = "memory";
        file.size = sizeof data;
        assert_int_equal(sft_builder_add_file(builder, &file, &index, NULL), SFT_OK);
        for (size_t i = 0; i < 3; i++) {
            pieces[i].start = &starts[order][i];
            pieces[i].count = count;
            pieces[i].offset = starts[order][i];
        }
        t.name = "t";
        t.name_len = 1;
        t.dtype = sft_dtype_find("U8", 2);
        t.shape = shape;
        t.rank = 1;
        t.pieces = pieces;
        t.piece_count = 3;
        t.flags = 7; /* what the caller says does not count */
        assert_int_equal(sft_builder_add_tensor(builder, &t, NULL), SFT_OK);
        assert_int_equal(sft_builder_finish(&c, builder, NULL), SFT_OK);
        sft_builder_free(builder);
        assert_int_equal(sft_catalog_at(c, 0)->flags, order == 0 ? SFT_TENSOR_ASCENDING : 0);
        sft_catalog_close(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_hold_what_chunk_gives),
        cmocka_unit_test(any_number_becomes_any_other),
        cmocka_unit_test(what_nobody_holds_is_named),
        cmocka_unit_test(boxes_must_tile),
        cmocka_unit_test(mindspore_ranks_are_joined),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(test_ascending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
