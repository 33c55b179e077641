/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of src/layout/strategy*.c: MindSpore's strategy files and what they mean. The protobuf bytes
 * and the expected rows were computed by a separate program from the published rules.
 */
#include "unit/cm.h"

#include "layout/strategy.h"

/* Stage 0; operator MatMul-op0 ((1,1),(2,1)); w: mesh [2,2], map [0,-1], step 2, size 2; b: map [-1]. */
static const uint8_t golden[] = {
    0x08, 0x00, 0x12, 0x1c, 0x0a, 0x0a, 'M',  'a',  't',  'M',  'u',  'l',  '-',  'o',  'p',  '0',
    0x12, 0x0e, 0x08, 0x00, 0x12, 0x04, 0x08, 0x01, 0x08, 0x01, 0x12, 0x04, 0x08, 0x02, 0x08, 0x01,
    0x1a, 0x24, 0x0a, 0x01, 'w',  0x12, 0x1f, 0x0a, 0x04, 0x08, 0x02, 0x08, 0x02, 0x12, 0x0d, 0x08,
    0x00, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x1a, 0x00, 0x22, 0x00,
    0x28, 0x00, 0x30, 0x02, 0x38, 0x02, 0x1a, 0x22, 0x0a, 0x01, 'b',  0x12, 0x1d, 0x0a, 0x04, 0x08,
    0x02, 0x08, 0x02, 0x12, 0x0b, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
    0x1a, 0x00, 0x22, 0x00, 0x28, 0x00, 0x30, 0x03, 0x38, 0x00};

/* The same parameter w with packed numbers, an unknown field 15, and without fields 6 and 7. */
static const uint8_t packed[] = {0x1a, 0x1a, 0x7a, 0x01, 'x',  0x0a, 0x01, 'w',  0x12, 0x12,
                                 0x0a, 0x04, 0x0a, 0x02, 0x02, 0x02, 0x12, 0x08, 0x0a, 0x06,
                                 0x00, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x28, 0x00};

static sft_ms_strategy *parse(const void *data, size_t size) {
    sft_ms_strategy *s = NULL;
    sft_error err;
    memset(&err, 0, sizeof err);
    if (sft__layout_ms_parse(&s, data, size, &(sft__layout_ms_options){"strategy", NULL, NULL},
                             &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    return s;
}

static sft_status status_of(const void *data, size_t size, sft_error *err) {
    sft_ms_strategy *s = NULL;
    const sft_status status = sft__layout_ms_parse(
        &s, data, size, &(sft__layout_ms_options){"strategy", NULL, NULL}, err);
    assert_true((status == SFT_OK) == (s != NULL));
    sft__layout_ms_free(s);
    return status;
}

static void protobuf_is_read(void **state) {
    (void)state;
    sft_ms_strategy *const s = parse(golden, sizeof golden);
    const sft__layout_ms_param *const w = sft__layout_ms_find(s, "w", 1, 0);
    const sft__layout_ms_param *const b = sft__layout_ms_at(s, 1);
    assert_int_equal(sft__layout_ms_form(s), SFT_MS_PROTOBUF);
    assert_int_equal(sft__layout_ms_count(s), 2);
    assert_int_equal(sft__layout_ms_stage(s), 0);
    assert_int_equal(sft__layout_ms_merged(s), 0);
    assert_non_null(w);
    assert_int_equal(w->axis_count, 2);
    assert_int_equal(w->dev_matrix[1], 2);
    assert_int_equal(w->dims, 2);
    assert_int_equal(w->map[0], 0);
    assert_int_equal(w->map_at[1], 1);
    assert_int_equal(w->map_at[2], 1);
    assert_int_equal(w->opt_shard_step, 2);
    assert_int_equal(w->opt_shard_size, 2);
    assert_null(w->shape);
    assert_string_equal(b->name, "b");
    assert_int_equal(b->opt_shard_step, 3);
    assert_int_equal(b->map_at[1], 0);
    assert_null(sft__layout_ms_find(s, "w", 1, 1));
    assert_null(sft__layout_ms_find(s, "c", 1, 0));
    sft__layout_ms_free(s);

    sft_ms_strategy *const p = parse(packed, sizeof packed);
    const sft__layout_ms_param *const q = sft__layout_ms_find(p, "w", 1, 0);
    assert_non_null(q);
    assert_int_equal(q->dims, 2);
    assert_int_equal(q->map_at[2], 1);
    assert_int_equal(q->opt_shard_size, 0);
    sft__layout_ms_free(p);
}

/* Cut anywhere: an error, or fewer parameters, never more. */
static void truncation_is_seen(void **state) {
    (void)state;
    sft_error err;
    size_t refused = 0;
    for (size_t n = 0; n < sizeof golden; n++) {
        uint8_t *const copy = malloc(n + 1);
        sft_ms_strategy *s;
        memcpy(copy, golden, n);
        if (sft__layout_ms_parse(&s, copy, n, &(sft__layout_ms_options){"cut", NULL, NULL}, &err) ==
            SFT_OK) {
            assert_int_equal(n, 70); /* between the two parameters */
            assert_int_equal(sft__layout_ms_count(s), 1);
            sft__layout_ms_free(s);
        } else {
            assert_null(s);
            refused++;
        }
        free(copy);
    }
    assert_int_equal(refused, sizeof golden - 1);
    assert_int_equal(status_of("", 0, &err), SFT_E_SCHEMA);
    assert_string_equal(err.message, "strategy file holds no parameter");
}

static void text_round_trips(void **state) {
    (void)state;
    sft_ms_strategy *const s = parse(golden, sizeof golden);
    char text[2048];
    size_t size;
    size_t again;
    char bytes[sizeof golden];
    assert_int_equal(sft__layout_ms_write(s, SFT_MS_PROTOBUF, NULL, 0, &size, NULL), SFT_OK);
    assert_int_equal(size, sizeof golden);
    assert_int_equal(sft__layout_ms_write(s, SFT_MS_PROTOBUF, bytes, sizeof bytes, &size, NULL),
                     SFT_OK);
    assert_memory_equal(bytes, golden, sizeof golden);
    assert_int_equal(sft__layout_ms_write(s, SFT_MS_JSON, text, sizeof text, &size, NULL), SFT_OK);
    text[size] = '\0';
    assert_string_equal(
        text, "{\"current_stage\":0,\"parallel_layout_item\":{"
              "\"w\":{\"dev_matrix\":[2,2],\"field\":0,\"opt_weight_shard_size\":2,"
              "\"opt_weight_shard_step\":2,\"tensor_map\":[0,-1]},"
              "\"b\":{\"dev_matrix\":[2,2],\"field\":0,\"opt_weight_shard_size\":0,"
              "\"opt_weight_shard_step\":3,\"tensor_map\":[-1]}},"
              "\"parallel_strategy_item\":{\"MatMul-op0\":{\"parallel_strategy\":[[1,1],[2,1]],"
              "\"stage\":0}}}");
    sft_ms_strategy *const j = parse(text, size);
    assert_int_equal(sft__layout_ms_form(j), SFT_MS_JSON);
    assert_int_equal(sft__layout_ms_write(j, SFT_MS_PROTOBUF, bytes, sizeof bytes, &again, NULL),
                     SFT_OK);
    assert_int_equal(again, sizeof golden);
    assert_memory_equal(bytes, golden, sizeof golden);
    sft__layout_ms_free(j);
    sft__layout_ms_free(s);
}

/* ---------------------------------------------------------------- layouts */

typedef struct region_case {
    const char *dev_matrix, *tensor_map;
    int step, size;
    size_t dims;
    uint64_t shape[2];
    uint64_t ranks;
    uint64_t rows[16], columns[16];
} region_case;

static const region_case regions[] = {
    {"[2,4]", "[1,-1]", 0, 0, 2, {32, 32}, 8, {0, 0, 0, 0, 16, 16, 16, 16}, {0}},
    {"[2,4]", "[0,-1]", 0, 0, 2, {8, 4}, 8, {0, 2, 4, 6, 0, 2, 4, 6}, {0}},
    {"[2,2]", "[1,0]", 0, 0, 2, {4, 4}, 4, {0, 0, 2, 2}, {0, 2, 0, 2}},
    {"[4,2,2]",
     "[2,0]",
     0,
     0,
     2,
     {8, 4},
     16,
     {0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6},
     {0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2}},
    {"[2,2]", "[0,-1]", 2, 2, 2, {8, 4}, 4, {0, 4, 2, 6}, {0}},
    {"[4,2]", "[0,-1]", 2, 2, 2, {8, 4}, 8, {0, 4, 2, 6, 0, 4, 2, 6}, {0}},
    {"[4,2]", "[0,-1]", 2, -1, 2, {16, 4}, 8, {0, 8, 2, 10, 4, 12, 6, 14}, {0}},
    {"[4,2]", "[-1,0]", 2, 4, 2, {8, 4}, 8, {0, 0, 2, 2, 4, 4, 6, 6}, {0, 2, 0, 2, 0, 2, 0, 2}},
    {"[2,2,2]", "[1,-1]", 1, 2, 2, {8, 2}, 8, {0, 2, 4, 6, 0, 2, 4, 6}, {0}},
    {"[4,2,2]",
     "[[2,1],0]",
     0,
     0,
     2,
     {8, 8},
     16,
     {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
     {0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4}},
};

static sft_ms_strategy *one_param(const char *dev_matrix, const char *tensor_map, int step,
                                  int size, const char *more) {
    char text[512];
    const int n =
        snprintf(text, sizeof text,
                 "{\"current_stage\": 0, \"parallel_layout_item\": {\"w\": {\"dev_matrix\": %s, "
                 "\"tensor_map\": %s, \"opt_weight_shard_step\": %d, "
                 "\"opt_weight_shard_size\": %d%s}}}",
                 dev_matrix, tensor_map, step, size, more);
    return parse(text, (size_t)n);
}

static void regions_are_where_mindspore_puts_them(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++) {
        const region_case *const c = &regions[i];
        sft_ms_strategy *const s = one_param(c->dev_matrix, c->tensor_map, c->step, c->size, "");
        const sft__layout_ms_param *const p = sft__layout_ms_at(s, 0);
        sft_layout *layout;
        uint64_t local[2];
        uint64_t full[2];
        assert_int_equal(sft__layout_ms_layout(&layout, p, NULL, NULL), SFT_OK);
        assert_int_equal(sft_layout_rank_count(layout), c->ranks);
        for (uint64_t r = 0; r < c->ranks; r++) {
            uint64_t start[2], count[2], at[2];
            const sft__layout_shard shard = {start, count, at};
            assert_int_equal(
                sft__layout_shard_at(&(sft__layout_local){layout, c->shape, 2, r}, 0, &shard, NULL),
                SFT_OK);
            if (start[0] != c->rows[r] || start[1] != c->columns[r]) {
                fail_msg("case %zu rank %llu: (%llu, %llu)", i, (unsigned long long)r,
                         (unsigned long long)start[0], (unsigned long long)start[1]);
            }
        }
        assert_int_equal(sft_layout_local_shape(layout, c->shape, 2, 0, local, NULL), SFT_OK);
        assert_int_equal(sft__layout_ms_full_shape(p, local, 2, full, NULL), SFT_OK);
        assert_memory_equal(full, c->shape, sizeof full);
        sft__layout_free(layout);
        sft__layout_ms_free(s);
    }
}

static void redundancy_follows_the_map(void **state) {
    (void)state;
    sft_ms_strategy *const s = one_param("[4,4]", "[0,-1]", 0, 0, "");
    sft_layout *layout;
    assert_int_equal(sft__layout_ms_layout(&layout, sft__layout_ms_at(s, 0), NULL, NULL), SFT_OK);
    assert_int_equal(sft__layout_part_count(layout), 4);
    for (uint64_t r = 0; r < 16; r++) {
        uint64_t part;
        assert_int_equal(sft__layout_part(layout, r, &part, NULL), SFT_OK);
        assert_int_equal(part, r % 4);
    }
    sft__layout_free(layout);
    sft__layout_ms_free(s);
}

static void what_no_mesh_has_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *dev_matrix, *tensor_map;
        int step, size;
        const char *more;
        sft_status status;
    } rows[] = {
        {"[2,2]", "[0,1]", 2, 2, "", SFT_E_SCHEMA},  /* no replicated axis */
        {"[2,2]", "[0,-1]", 1, 2, "", SFT_E_SCHEMA}, /* wrong step */
        {"[4,2]", "[0,-1]", 2, 3, "", SFT_E_SCHEMA}, /* not a product */
        {"[2,2]", "[0,0]", 0, 0, "", SFT_E_SCHEMA},  /* an axis used twice */
        {"[2,0]", "[0,-1]", 0, 0, "", SFT_E_SCHEMA},
        {"[2147483648,4]", "[0]", 0, 0, "", SFT_E_SCHEMA},
        {"[2,2]", "[0,-1]", 0, -2, "", SFT_E_SCHEMA},
        {"[2,2]", "[0,-1]", 0, -1, "", SFT_E_SCHEMA}, /* step 0 */
        {"[2,2]", "[0,-1]", 0, 0, ", \"field\": 3", SFT_E_UNSUPPORTED},
        {"[2,2]", "[0,-1]", 0, 0, ", \"param_split_shape\": [1,2,3]", SFT_E_SCHEMA},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft_ms_strategy *const s = one_param(rows[i].dev_matrix, rows[i].tensor_map, rows[i].step,
                                             rows[i].size, rows[i].more);
        sft_layout *layout;
        sft_error err;
        assert_int_equal(sft__layout_ms_layout(&layout, sft__layout_ms_at(s, 0), NULL, &err),
                         rows[i].status);
        assert_null(layout);
        assert_string_equal(err.tensor, "w");
        sft__layout_ms_free(s);
    }
}

static void rows_by_hand(void **state) {
    (void)state;
    sft_ms_strategy *const s = one_param(
        "[3]", "[0,-1]", 0, 0, ", \"param_split_shape\": [5,1,2], \"indices_offset\": [0,-5,6]");
    const sft__layout_ms_param *const p = sft__layout_ms_at(s, 0);
    const uint64_t local[] = {5, 4};
    uint64_t full[2];
    sft_layout *layout;
    assert_int_equal(p->split_offsets[1], -5);
    assert_int_equal(sft__layout_ms_full_shape(p, local, 2, full, NULL), SFT_OK);
    assert_int_equal(full[0], 8);
    assert_int_equal(sft__layout_ms_layout(&layout, p, NULL, NULL), SFT_OK);
    uint64_t start[2], count[2], at[2];
    const sft__layout_shard shard = {start, count, at};
    assert_int_equal(
        sft__layout_shard_at(&(sft__layout_local){layout, full, 2, 2}, 0, &shard, NULL), SFT_OK);
    assert_int_equal(start[0], 6);
    assert_int_equal(count[0], 2);
    sft__layout_free(layout);
    sft__layout_ms_free(s);
}

/* ---------------------------------------------------------------- pipelines */

static sft_ms_strategy *stage_of(int stage, const char *items) {
    char text[512];
    const int n =
        snprintf(text, sizeof text,
                 "{\"current_stage\": %d, \"parallel_strategy_item\": {\"op\": {\"stage\": %d, "
                 "\"parallel_strategy\": [[1,2]]}}, \"parallel_layout_item\": {%s}}",
                 stage, stage, items);
    return parse(text, (size_t)n);
}

#define ITEM(name, map) "\"" name "\": {\"dev_matrix\": [2], \"tensor_map\": " map "}"

static void stages_are_merged(void **state) {
    (void)state;
    sft_ms_strategy *const s[] = {
        stage_of(1, ITEM("head", "[0]") "," ITEM("embed", "[0]")),
        stage_of(0, ITEM("a-b", "[-1,0]") "," ITEM("embed", "[0]")),
        stage_of(1, ITEM("embed", "[0]") "," ITEM("head", "[0]")), /* equal, in another order */
        stage_of(1, ITEM("head", "[-1]") "," ITEM("embed", "[0]")),
        stage_of(3, ITEM("head", "[0]")),
    };
    const sft_ms_strategy *list[] = {s[0], s[1], s[2]};
    sft_ms_strategy *merged;
    sft_ms_strategy *again;
    sft_error err;
    char text[1024];
    size_t size;
    uint64_t rank;
    sft_layout *layout;
    assert_int_equal(sft__layout_ms_merge(&merged, list, 3, NULL, &err), SFT_OK);
    assert_int_equal(sft__layout_ms_stages(merged), 2);
    assert_int_equal(sft__layout_ms_count(merged), 4);
    assert_non_null(sft__layout_ms_find(merged, "a-b", 3, 0));
    assert_null(sft__layout_ms_find(merged, "a-b", 3, 1));
    assert_non_null(sft__layout_ms_find(merged, "embed", 5, 1));
    assert_int_equal(sft__layout_ms_write(merged, SFT_MS_PROTOBUF, text, sizeof text, &size, NULL),
                     SFT_OK);
    again = parse(text, size);
    assert_int_equal(sft__layout_ms_merged(again), 1);
    assert_int_equal(sft__layout_ms_stages(again), 2);
    assert_int_equal(
        sft__layout_ms_layout(&layout, sft__layout_ms_find(again, "head", 4, 1), NULL, NULL),
        SFT_OK);
    assert_int_equal(sft_layout_rank_at(layout, 0, &rank, NULL), SFT_OK);
    assert_int_equal(rank, 2); /* the second stage begins behind the first one's two devices */
    sft__layout_free(layout);
    sft__layout_ms_free(again);
    list[0] = merged;
    assert_int_equal(sft__layout_ms_merge(&again, list, 1, NULL, &err), SFT_E_ARG);
    sft__layout_ms_free(merged);
    list[0] = s[0];
    list[2] = s[3];
    assert_int_equal(sft__layout_ms_merge(&merged, list, 3, NULL, &err), SFT_E_MISMATCH);
    assert_string_equal(err.tensor, "head");
    list[2] = s[4];
    assert_int_equal(sft__layout_ms_merge(&merged, list, 3, NULL, &err), SFT_E_NOT_FOUND);
    assert_string_equal(err.message, "no strategy of pipeline stage 2");
    for (size_t i = 0; i < sizeof s / sizeof s[0]; i++) {
        sft__layout_ms_free(s[i]);
    }
}

static void bad_text_has_a_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        sft_status status;
        const char *message;
    } rows[] = {
        {"{", SFT_E_JSON, "strategy: expected a key in quotes, found the end of the text"},
        {"{}", SFT_E_SCHEMA, "strategy: no parallel_layout_item"},
        {"{\"parallel_layout_item\": {}} x", SFT_E_JSON, "strategy: text behind the end"},
        {"{\"parallel_layout_item\": {\"w\": {}}}", SFT_E_SCHEMA,
         "strategy: parameter without a dev_matrix"},
        {"{\"parallel_layout_item\": {\"w\": {\"dev_matrix\": [2.5], \"tensor_map\": [0]}}}",
         SFT_E_SCHEMA, "strategy: expected an integer"},
        {"{\"parallel_layout_item\": {\"w\": {\"dev_matrix\": [2], \"tensor_map\": [1]}}}",
         SFT_E_SCHEMA, "strategy: tensor map names an axis that the device matrix lacks"},
        {"{\"parallel_layout_item\": {\"w\": 1, \"w\": 1}}", SFT_E_DUPLICATE,
         "strategy: key given twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft_error err;
        assert_int_equal(status_of(rows[i].text, strlen(rows[i].text), &err), rows[i].status);
        assert_string_equal(err.message, rows[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(protobuf_is_read),
        cmocka_unit_test(truncation_is_seen),
        cmocka_unit_test(text_round_trips),
        cmocka_unit_test(regions_are_where_mindspore_puts_them),
        cmocka_unit_test(redundancy_follows_the_map),
        cmocka_unit_test(what_no_mesh_has_is_refused),
        cmocka_unit_test(rows_by_hand),
        cmocka_unit_test(stages_are_merged),
        cmocka_unit_test(bad_text_has_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
