/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of layout sets: each form that is read, what it says about tensors of given names,
 * shapes that are learnt from parts, our own form written from every other one and read back, and
 * texts that are refused.
 */
#include "unit/cm.h"

#include "checkpoint/join_find.h"
#include "checkpoint/layouts/layout_set.h"
#include "unit/counting.h"
#include <sft/layout_set.h>
#include <sft/write.h>

static sft_layout_set *parse(const char *text) {
    sft_layout_set *set;
    sft_error err;
    if (sft_layout_set_parse(&set, text, strlen(text), "test", NULL, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    return set;
}

static sft_tensor tensor(const char *name, const uint64_t *shape, uint32_t rank) {
    sft_tensor t;
    memset(&t, 0, sizeof t);
    t.name = name;
    t.name_len = strlen(name);
    t.dtype = sft_dtype_get(SFT_F32);
    t.shape = shape;
    t.rank = rank;
    return t;
}

/* What rank `rank` should hold of a whole tensor; returns the number of dimensions, -1: not cut,
 * -2: nothing. */
static int local_of(sft_layout_set *set, const char *name, const uint64_t *shape,
                    uint32_t rank_of_tensor, uint64_t rank, uint64_t *local) {
    const sft_tensor t = tensor(name, shape, rank_of_tensor);
    const sft_layout *layout;
    uint64_t full[SFT_LAYOUT_RANK];
    size_t dims = t.rank;
    sft_error err;
    if (sft_layout_set_find_global(set, &t, rank, &layout, full, &dims, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    if (layout == NULL) {
        return -1;
    }
    if (!sft_layout_holds(layout, rank)) {
        return -2;
    }
    assert_int_equal(sft_layout_local_shape(layout, shape, rank_of_tensor, rank, local, &err),
                     SFT_OK);
    return sft_layout_is_flat(layout) ? 1 : (int)rank_of_tensor;
}

static void assert_local(sft_layout_set *set, const char *name, uint64_t rows, uint64_t columns,
                         uint64_t rank, uint64_t local_rows, uint64_t local_columns) {
    const uint64_t shape[] = {rows, columns};
    uint64_t local[SFT_LAYOUT_RANK] = {0};
    const int dims = local_of(set, name, shape, 2, rank, local);
    if (dims != 2 || local[0] != local_rows || local[1] != local_columns) {
        fail_msg("%s on rank %d: %d dimensions, [%d, %d]", name, (int)rank, dims, (int)local[0],
                 (int)local[1]);
    }
}

static const char own[] =
    "{\"format\": \"safetensors-layout\", \"version\": 1,\n"
    " \"mesh\": {\"axes\": {\"dp\": 2, \"tp\": 4}},\n"
    " \"meshes\": {\"late\": {\"axes\": {\"tp\": 4}, \"first_rank\": 8},\n"
    "              \"odd\": {\"axes\": {\"x\": 3}, \"ranks\": [7, 1, 3]}},\n"
    " \"tensors\": [\n"
    "  {\"name\": \"special.q\", \"whole\": true},\n"
    "  {\"pattern\": \"*.q\", \"spec\": \"P('tp', None)\"},\n"
    "  {\"pattern\": \"*.o\", \"placements\": \"Replicate(), Shard(1)\"},\n"
    "  {\"module\": \"layers.*.up\", \"mesh\": \"late\", \"style\": \"colwise\"},\n"
    "  {\"name\": \"cut\", \"cuts\": [[\"dp\", {\"axis\": \"tp\", \"divisor\": 2, \"size\": 2}], "
    "null]},\n"
    "  {\"name\": \"chunk\", \"cuts\": [{\"by\": \"tp\", \"split\": \"chunk\"}, \"dp\"]},\n"
    "  {\"name\": \"sizes\", \"mesh\": \"odd\", \"cuts\": [{\"by\": \"x\", \"sizes\": [1, 2, 5]}, "
    "null]},\n"
    "  {\"name\": \"blocks\", \"cuts\": [{\"by\": \"dp\", \"blocks\": [4, 2, 2]}, null]},\n"
    "  {\"name\": \"twin\", \"cuts\": [\"tp\", null]},\n"
    "  {\"name\": \"twin\", \"mesh\": \"late\", \"cuts\": [null, \"tp\"]},\n"
    "  {\"name\": \"flat\", \"shape\": [3, 5], \"flat\": {\"by\": \"tp\", \"align\": 2}},\n"
    "  {\"name\": \"boxes\", \"boxes\": [{\"rank\": 0, \"start\": [0, 0], \"count\": [2, 4]},\n"
    "                                {\"rank\": 5, \"start\": [2, 0], \"count\": [1, 4]}]}\n"
    " ]}";

static void check_own(sft_layout_set *set) {
    const uint64_t shape[] = {3, 5};
    uint64_t local[SFT_LAYOUT_RANK];
    assert_int_equal(sft_layout_set_count(set), 12);
    assert_int_equal(sft_layout_set_ranks(set), 12);
    assert_int_equal(sft_layout_set_form(set), SFT_LAYOUT_FORM_OWN);
    assert_int_equal(local_of(set, "special.q", shape, 2, 0, local), -1);
    assert_int_equal(local_of(set, "unknown", shape, 2, 0, local), -1);
    assert_local(set, "a.b.q", 8, 4, 5, 2, 4);
    assert_local(set, "a.b.o", 8, 4, 5, 8, 1);
    assert_local(set, "model.layers.12.up.weight", 8, 4, 8, 2, 4);
    assert_int_equal(local_of(set, "model.layers.12.up.weight", shape, 2, 7, local), -2);
    assert_int_equal(local_of(set, "model.layers.x.up.weight", shape, 2, 8, local), -1);
    assert_local(set, "cut", 8, 4, 6, 2, 4);
    assert_local(set, "chunk", 10, 4, 3, 1, 2);
    assert_local(set, "chunk", 10, 4, 0, 3, 2);
    assert_local(set, "sizes", 8, 4, 3, 5, 4);
    assert_local(set, "sizes", 8, 4, 7, 1, 4);
    assert_local(set, "blocks", 8, 3, 7, 4, 3);
    assert_local(set, "twin", 8, 4, 1, 2, 4);
    assert_local(set, "twin", 8, 4, 9, 8, 1);
    assert_int_equal(local_of(set, "flat", shape, 2, 3, local), 1);
    assert_int_equal(local[0], 3); /* 15 in parts of 4: 4, 4, 4, 3 */
    assert_local(set, "boxes", 3, 4, 5, 1, 4);
    const uint64_t three[] = {3, 4};
    assert_int_equal(local_of(set, "boxes", three, 2, 1, local), -2);
}

/* Written in our own form and read again: the same text, the same answers. */
static sft_layout_set *rewritten(const sft_layout_set *set) {
    size_t size;
    size_t again;
    assert_int_equal(sft_layout_set_write(set, NULL, 0, &size, NULL), SFT_OK);
    char *const text = malloc(size + 1);
    assert_int_equal(sft_layout_set_write(set, text, size, &size, NULL), SFT_OK);
    text[size] = '\0';
    sft_layout_set *const copy = parse(text);
    assert_int_equal(sft_layout_set_write(copy, NULL, 0, &again, NULL), SFT_OK);
    assert_int_equal(again, size);
    char *const second = malloc(size + 1);
    assert_int_equal(sft_layout_set_write(copy, second, size, &again, NULL), SFT_OK);
    assert_memory_equal(second, text, size);
    free(second);
    free(text);
    return copy;
}

static void test_own_form(void **state) {
    (void)state;
    sft_layout_set *const set = parse(own);
    check_own(set);
    sft_layout_set *const copy = rewritten(set);
    check_own(copy);
    sft_layout_set_free(copy);
    sft_layout_set_free(set);
}

static void test_entries_for_people(void **state) {
    (void)state;
    sft_layout_set *const set = parse(own);
    static const char *const cuts[] = {
        "whole",        "P('tp', None)", "Replicate(), Shard(1)", "colwise", "dp*tp/2%2, -",
        "tp chunk, dp", "x by sizes, -", "dp in 3 blocks, -",     "tp, -",   "-, tp",
        "flat tp",      "boxes"};
    for (size_t i = 0; i < sft_layout_set_count(set); i++) {
        sft_layout_entry e;
        SFT_INIT(&e);
        assert_int_equal(sft_layout_set_at(set, i, &e, NULL), SFT_OK);
        assert_string_equal(e.cut, cuts[i]);
        assert_string_equal(e.mesh, i == 0 || i == 11  ? ""
                                    : i == 6           ? "x 3"
                                    : i == 3 || i == 9 ? "tp 4"
                                                       : "dp 2, tp 4");
        assert_int_equal(e.has_shape, i >= 10);
    }
    sft_layout_entry none;
    SFT_INIT(&none);
    assert_int_equal(sft_layout_set_at(set, 12, &none, NULL), SFT_E_RANGE);
    sft_layout_set_free(set);
}

/* ---------------------------------------------------------------- the forms of others */

static size_t unhex(const char *text, uint8_t *out) {
    size_t n = 0;
    for (; text[2 * n] != '\0'; n++) {
        unsigned v = 0;
        for (int k = 0; k < 2; k++) {
            const char c = text[2 * n + (size_t)k];
            v = v * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        out[n] = (uint8_t)v;
    }
    return n;
}

static const char golden[] = "0800121c0a0a4d61744d756c2d6f7030120e08001204080108011204080208011a240"
                             "a0177121f0a0408020802120d080008"
                             "ffffffffffffffffff011a0022002800300238021a220a0162121d0a0408020802120"
                             "b08ffffffffffffffffff011a002200"
                             "2800"
                             "30003800";

static void check_strategy(sft_layout_set *set) {
    const uint64_t b[] = {4};
    uint64_t local[SFT_LAYOUT_RANK];
    assert_int_equal(sft_layout_set_ranks(set), 4);
    assert_local(set, "w", 8, 4, 1, 2, 4);
    assert_int_equal(local_of(set, "b", b, 1, 3, local), 1);
    assert_int_equal(local[0], 4);
    const uint64_t part[] = {2, 4};
    const sft_tensor t = tensor("w", part, 2);
    const sft_layout *layout;
    uint64_t shape[SFT_LAYOUT_RANK];
    size_t dims = 2;
    assert_int_equal(sft__checkpoint_lset_find_part(set, &t, 2, &layout, shape, &dims, NULL),
                     SFT_OK);
    assert_non_null(layout);
    assert_int_equal(shape[0], 8);
    uint64_t start[2], count[2], at[2];
    const sft__layout_shard shard = {start, count, at};
    static const uint64_t rows[] = {0, 4, 2, 6}; /* not in the order of ranks */
    for (uint64_t r = 0; r < 4; r++) {
        assert_int_equal(
            sft__layout_shard_at(&(sft__layout_local){layout, shape, 2, r}, 0, &shard, NULL),
            SFT_OK);
        assert_int_equal(start[0], rows[r]);
    }
}

static void test_strategy(void **state) {
    uint8_t bytes[256];
    sft_layout_set *set;
    (void)state;
    const size_t size = unhex(golden, bytes);
    assert_int_equal(sft_layout_set_parse(&set, bytes, size, "s.ckpt", NULL, NULL), SFT_OK);
    assert_int_equal(sft_layout_set_form(set), SFT_LAYOUT_FORM_STRATEGY);
    check_strategy(set);
    sft_layout_set *const copy = rewritten(set);
    assert_int_equal(sft_layout_set_form(copy), SFT_LAYOUT_FORM_OWN);
    check_strategy(copy);
    sft_layout_set_free(copy);
    sft_layout_set_free(set);
}

/* Two stages, in JSON, and a parameter of both; nested maps, uneven rows, several optimizer axes.
 */
static void test_strategy_json(void **state) {
    static const char text[] =
        "{\"current_stage\":1,\"parallel_strategy_item\":{},\"parallel_layout_item\":{"
        "\"0-emb\":{\"dev_matrix\":[2,2],\"tensor_map\":[1,-1],\"tensor_shape\":[8,4],\"field\":0,"
        "\"opt_weight_shard_step\":0,\"opt_weight_shard_size\":0},"
        "\"1-emb\":{\"dev_matrix\":[2,2],\"tensor_map\":[-1,0],\"tensor_shape\":[8,4],\"field\":0,"
        "\"opt_weight_shard_step\":0,\"opt_weight_shard_size\":0},"
        "\"1-nested\":{\"dev_matrix\":[1,2,2],\"tensor_map\":[[1,0],-1],\"tensor_shape\":[8,4],"
        "\"field\":0,"
        "\"opt_weight_shard_step\":0,\"opt_weight_shard_size\":0},"
        "\"0-both\":{\"dev_matrix\":[2,2],\"tensor_map\":[-1,-1],\"tensor_shape\":[8,4],\"field\":"
        "0,"
        "\"opt_weight_shard_step\":1,\"opt_weight_shard_size\":4}}}";
    const uint64_t shape[] = {8, 4};
    uint64_t local[SFT_LAYOUT_RANK];
    (void)state;
    sft_layout_set *set = parse(text);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(sft_layout_set_ranks(set), 8);
        assert_local(set, "emb", 8, 4, 3, 4, 4);
        assert_local(set, "emb", 8, 4, 4, 8, 2);
        assert_local(set, "nested", 8, 4, 7, 2, 4);
        assert_local(set, "both", 8, 4, 2, 2, 4);
        assert_int_equal(local_of(set, "nested", shape, 2, 0, local), -2); /* of the other stage */
        assert_int_equal(local_of(set, "both", shape, 2, 5, local), -2);
        assert_int_equal(local_of(set, "step", shape, 2, 5, local), -1);
        sft_layout_set *const copy = rewritten(set);
        sft_layout_set_free(set);
        set = copy;
    }
    sft_layout_set_free(set);
}

static void test_topology(void **state) {
    static const char text[] =
        "{\"tensors\": {\"w\": {\"type\": \"Distributed\", \"shape\": [4, 6], \"dtype\": \"F32\", "
        "\"chunks\": ["
        "{\"offsets\": [0, 0], \"shape\": [4, 2], \"filename_index\": 0},"
        "{\"offsets\": [0, 2], \"shape\": [4, 4], \"filename_index\": 1}]},"
        "\"n\": {\"type\": \"Shared\", \"shape\": [6], \"dtype\": \"F32\", \"filename_indices\": "
        "[1]}},"
        "\"filenames\": [\"rank0.safetensors\", \"rank1.safetensors\"], \"world_size\": 2}";
    const uint64_t vector[] = {6};
    uint64_t local[SFT_LAYOUT_RANK];
    (void)state;
    sft_layout_set *set = parse(text);
    assert_int_equal(sft_layout_set_form(set), SFT_LAYOUT_FORM_TOPOLOGY);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(sft_layout_set_ranks(set), 2);
        assert_local(set, "w", 4, 6, 0, 4, 2);
        assert_local(set, "w", 4, 6, 1, 4, 4);
        assert_int_equal(local_of(set, "n", vector, 1, 0, local), -2);
        assert_int_equal(local_of(set, "n", vector, 1, 1, local), 1);
        sft_layout_set *const copy = rewritten(set);
        sft_layout_set_free(set);
        set = copy;
    }
    sft_layout_set_free(set);
}

static void test_plan(void **state) {
    static const char plan[] =
        "{\"layers.*.q_proj\": \"colwise\", \"layers.*.o_proj\": \"rowwise\","
        "\"layers.*.experts.gate_up_proj\": \"packed_rowwise\"}";
    const uint64_t vector[] = {8};
    uint64_t local[SFT_LAYOUT_RANK];
    sft_layout_set_options options;
    sft_layout_set *set;
    sft_error err;
    (void)state;
    assert_int_equal(sft_layout_set_parse(&set, plan, strlen(plan), "p", NULL, &err), SFT_E_ARG);
    SFT_INIT(&options);
    options.ranks = 4;
    assert_int_equal(sft_layout_set_parse(&set, plan, strlen(plan), "p", &options, &err), SFT_OK);
    for (int round = 0; round < 2; round++) {
        assert_local(set, "model.layers.3.q_proj.weight", 8, 4, 1, 2, 4);
        assert_local(set, "layers.30.o_proj.weight", 8, 4, 1, 8, 1);
        assert_int_equal(local_of(set, "layers.30.o_proj.bias", vector, 1, 1, local), 1);
        assert_int_equal(local[0], 8);
        assert_int_equal(local_of(set, "layers.30.q_proj.bias", vector, 1, 1, local), 1);
        assert_int_equal(local[0], 2);
        assert_local(set, "model.layers.0.experts.gate_up_proj", 6, 16, 3, 6, 4);
        assert_int_equal(local_of(set, "layers.3.q_proj_other.weight", vector, 1, 1, local), -1);
        sft_layout_set *const copy = rewritten(set);
        sft_layout_set_free(set);
        set = copy;
    }
    sft_layout_set_free(set);
    set = parse("{\"tp_plan\": {\"experts\": \"moe_tp_experts\", \"experts.down\": \"rowwise\"}, "
                "\"tp_size\": 2}");
    assert_local(set, "layers.0.experts.down", 8, 4, 1, 8, 2); /* the parameter before its module */
    assert_local(set, "layers.0.experts.up", 8, 4, 1, 8, 4);
    sft_layout_set_free(set);
    set = parse("{\"tp_plan\": {\"a\": \"colwise\"}, \"tp_size\": 2}");
    assert_local(set, "a.weight", 8, 4, 1, 4, 4);
    sft_layout_set_free(set);
}

/* ---------------------------------------------------------------- shapes that only all parts
 * together tell */

typedef struct rank_file {
    void *bytes;
    sft_catalog *catalog;
} rank_file;

static rank_file make_file(const char *name, uint64_t rows, uint64_t columns) {
    const uint64_t shape[] = {rows, columns};
    static const char zeros[4096];
    sft_save_tensor t;
    rank_file f;
    size_t size;
    memset(&t, 0, sizeof t);
    t.name = name;
    t.name_len = strlen(name);
    t.dtype = sft_dtype_get(SFT_F32);
    t.shape = shape;
    t.rank = 2;
    t.data = zeros;
    t.nbytes = rows * columns * 4;
    assert_int_equal(sft_save_memory(NULL, 0, &size, &t, 1, NULL, 0, NULL, NULL), SFT_OK);
    f.bytes = malloc(size);
    assert_int_equal(sft_save_memory(f.bytes, size, &size, &t, 1, NULL, 0, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_open_memory(&f.catalog, f.bytes, size, NULL, NULL), SFT_OK);
    return f;
}

static void test_learn(void **state) {
    static const uint64_t rows[] = {3, 3, 3, 1}, columns[] = {4, 3};
    rank_file files[8];
    sft_rank_part parts[8];
    const sft_layout *layout;
    uint64_t shape[SFT_LAYOUT_RANK];
    size_t dims = 2;
    sft_error err;
    (void)state;
    sft_layout_set *const set =
        parse("{\"format\": \"safetensors-layout\", \"version\": 1, \"mesh\": {\"axes\": {\"dp\": "
              "2, \"tp\": 4}},"
              "\"tensors\": [{\"pattern\": \"w*\", \"placements\": \"Shard(1), Shard(0)\"}]}");
    for (uint64_t r = 0; r < 8; r++) {
        files[r] = make_file("w", rows[r % 4], columns[r / 4]);
        parts[r].rank = r;
        parts[r].catalog = files[r].catalog;
    }
    const sft_tensor *const t = sft_catalog_at(files[1].catalog, 0);
    assert_int_equal(sft__checkpoint_lset_find_part(set, t, 1, &layout, shape, &dims, &err),
                     SFT_E_SHAPE);
    assert_int_equal(sft__checkpoint_lset_learn(set, parts, 3, &err),
                     SFT_OK); /* not enough: nothing learnt */
    assert_int_equal(sft__checkpoint_lset_find_part(set, t, 1, &layout, shape, &dims, &err),
                     SFT_E_SHAPE);
    assert_int_equal(sft__checkpoint_lset_learn(set, parts, 8, &err), SFT_OK);
    assert_int_equal(sft__checkpoint_lset_find_part(set, t, 1, &layout, shape, &dims, &err),
                     SFT_OK);
    assert_int_equal(shape[0], 10);
    assert_int_equal(shape[1], 7);
    sft_catalog *whole;
    assert_int_equal(join_find(&whole, parts, 8, sft__checkpoint_lset_find_part, set, NULL, &err),
                     SFT_OK);
    assert_int_equal(sft_catalog_at(whole, 0)->shape[0], 10);
    assert_int_equal(sft_catalog_at(whole, 0)->shape[1], 7);
    sft_catalog_close(whole);
    for (size_t r = 0; r < 8; r++) {
        sft_catalog_close(files[r].catalog);
        free(files[r].bytes);
    }
    sft_layout_set_free(set);
}

/* ---------------------------------------------------------------- what is refused */

#define OWN(rest)                                                                                  \
    "{\"format\":\"safetensors-layout\",\"version\":1,\"mesh\":{\"axes\":{\"x\":2}}," rest "}"

static void test_refused(void **state) {
    static const struct {
        const char *text;
        sft_status status;
    } rows[] = {
        {"", SFT_E_SCHEMA},
        {"{}", SFT_E_FORMAT},
        {"{\"a\": 1}", SFT_E_FORMAT},
        {"{\"a\": \"colwise\"", SFT_E_JSON},
        {"{\"tp_plan\": {\"a\": \"sideways\"}, \"tp_size\": 2}", SFT_E_NOT_FOUND},
        {"{\"tp_plan\": {\"a\": 3}, \"tp_size\": 2}", SFT_E_SCHEMA},
        {"{\"tp_plan\": {\"a\": \"colwise\"}, \"tp_size\": 4294967296}", SFT_E_SCHEMA},
        {"{\"format\": \"safetensors-layout\", \"version\": 2, \"tensors\": []}", SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\"}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"pattern\":\"b\",\"whole\":true}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"whole\":true,\"cuts\":[]}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"whole\":false}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"cuts\":[\"y\"]}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"cuts\":[\"x\",\"x\"]}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"cuts\":[{\"by\":\"x\",\"sizes\":[1]}]}]"),
         SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"cuts\":[{\"bye\":\"x\"}]}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"mesh\":\"y\",\"cuts\":[null]}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"spec\":\"P('y')\"}]"), SFT_E_NOT_FOUND},
        {OWN("\"tensors\":[{\"name\":\"a\",\"placements\":\"Partial()\"}]"), SFT_E_UNSUPPORTED},
        {OWN("\"tensors\":[{\"name\":\"a\",\"whole\":true},{\"name\":\"a\",\"whole\":true}]"),
         SFT_E_DUPLICATE},
        {OWN("\"tensors\":[{\"name\":\"a\",\"boxes\":[]}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"whole\":true,\"mesh\":\"\"}]"), SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"mesh\":\"\",\"boxes\":[{\"rank\":0,\"start\":[0],"
             "\"count\":[1]}]}]"),
         SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"boxes\":[{\"rank\":0,\"start\":[0],\"count\":[1,2]}]}"
             "]"),
         SFT_E_SCHEMA},
        {OWN("\"tensors\":[{\"name\":\"a\",\"boxes\":[{\"rank\":0,\"start\":[0],\"count\":[1]},"
             "{\"rank\":0,\"start\":[1],\"count\":[1]}]}]"),
         SFT_E_DUPLICATE},
        {OWN("\"tensors\":[],\"more\":1"), SFT_E_SCHEMA},
        {"{\"format\":\"safetensors-layout\",\"version\":1,\"mesh\":{\"axes\":{\"x\":1099511627776}"
         "},"
         "\"tensors\":[]}",
         SFT_E_SCHEMA},
        {"{\"format\":\"safetensors-layout\",\"version\":1,\"mesh\":{\"axes\":{\"x\":2},\"ranks\":["
         "1]},"
         "\"tensors\":[]}",
         SFT_E_SCHEMA},
        {"{\"format\":\"safetensors-layout\",\"version\":1,\"meshes\":{\"\":{\"axes\":{\"x\":2}}},"
         "\"tensors\":[]}",
         SFT_E_SCHEMA},
        {"{\"filenames\":[],\"tensors\":{\"a\":{\"shape\":[1],\"filename_indices\":[0]}}}",
         SFT_E_SCHEMA},
        {"{\"filenames\":[\"f\"],\"tensors\":{\"a\":{\"shape\":[1]}}}", SFT_E_SCHEMA},
        {"{\"filenames\":[\"f\"],\"tensors\":{\"a\":{\"shape\":[2],\"chunks\":[{\"offsets\":[0,0],"
         "\"shape\":[1],\"filename_index\":0}]}}}",
         SFT_E_SCHEMA},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft_layout_set *set;
        sft_error err;
        const sft_status status =
            sft_layout_set_parse(&set, rows[i].text, strlen(rows[i].text), "bad", NULL, &err);
        if (status != rows[i].status) {
            fail_msg("%s gives %s (%s)", rows[i].text, sft_status_name(status),
                     status != SFT_OK ? err.message : "");
        }
        assert_null(set);
    }
}

/* Cut off anywhere, a text is refused or means something; with no memory, it is refused. */
static void test_truncated_and_out_of_memory(void **state) {
    (void)state;
    for (size_t n = 0; n + 1 < sizeof own; n++) {
        sft_layout_set *set;
        assert_int_not_equal(sft_layout_set_parse(&set, own, n, "cut", NULL, NULL), SFT_OK);
    }
    for (size_t fail_at = 1;; fail_at++) {
        counting c;
        sft_layout_set_options options;
        sft_layout_set *set;
        counting_init(&c);
        c.fail_from = fail_at;
        c.fail_count = 1;
        SFT_INIT(&options);
        options.allocator = &c.allocator;
        const sft_status status =
            sft_layout_set_parse(&set, own, strlen(own), "own", &options, NULL);
        if (status == SFT_OK) {
            sft_layout_set_free(set);
        } else {
            assert_int_equal(status, SFT_E_NOMEM);
        }
        assert_int_equal(c.blocks, 0);
        assert_int_equal(c.bad_sizes, 0);
        if (status == SFT_OK) {
            break;
        }
    }
}

/* Numbers alone: nothing can be asked of tensors before a model is there, and whatever fails while one is
 * looked at leaves nothing behind. */
static void test_numbers(void **state) {
    static const char text[] = "dp=2,tp=2,pp=2,offset=0:0";
    static const char config[] = "{\"num_attention_heads\": 4, \"num_hidden_layers\": 2}";
    static const char name[] = "model.layers.1.self_attn.q_proj.weight";
    const uint64_t shape[] = {8, 4};
    uint64_t local[SFT_LAYOUT_RANK];
    rank_file model = make_file(name, 8, 4);
    const sft_tensor t = tensor(name, shape, 2);
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        const sft_layout *layout;
        uint64_t full[SFT_LAYOUT_RANK];
        size_t dims = 2, size;
        counting c;
        sft_layout_set_options options;
        sft_layout_set *set;
        counting_init(&c);
        c.fail_from = fail_at;
        c.fail_count = 1;
        SFT_INIT(&options);
        options.allocator = &c.allocator;
        sft_status status = sft_layout_set_parse(&set, text, strlen(text), "own", &options, NULL);
        if (status == SFT_OK) {
            assert_int_equal(sft_layout_set_form(set), SFT_LAYOUT_FORM_PARALLEL);
            assert_int_equal(sft_layout_set_ranks(set), 8);
            assert_int_equal(sft_layout_set_find_global(set, &t, 0, &layout, full, &dims, NULL),
                             SFT_E_ARG);
            assert_int_equal(sft_layout_set_write(set, NULL, 0, &size, NULL), SFT_E_ARG);
            status = sft_layout_set_bind(set, model.catalog, config, strlen(config), NULL);
        }
        if (status == SFT_OK) {
            assert_int_equal(local_of(set, name, shape, 2, 0, local), -2); /* another stage */
            assert_int_equal(local_of(set, name, shape, 2, 5, local), 2);
            assert_int_equal(local[0], 4);
            assert_int_equal(sft_layout_set_bind(set, model.catalog, config, strlen(config), NULL),
                             SFT_E_ARG);
        } else {
            assert_int_equal(status, SFT_E_NOMEM);
        }
        sft_layout_set_free(set);
        assert_int_equal(c.blocks, 0);
        assert_int_equal(c.bad_sizes, 0);
        if (status == SFT_OK) {
            break;
        }
    }
    sft_catalog_close(model.catalog);
    free(model.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_form),
        cmocka_unit_test(test_entries_for_people),
        cmocka_unit_test(test_strategy),
        cmocka_unit_test(test_strategy_json),
        cmocka_unit_test(test_topology),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_learn),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_truncated_and_out_of_memory),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
