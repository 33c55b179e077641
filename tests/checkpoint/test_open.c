/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of opening checkpoints of many ranks: the C interface, its errors, and memory that
 * runs out at every call. What the folders mean is tested from outside, in
 * tests/checkpoint/spaces.py. POSIX only.
 */
#include "unit/cm.h"

#include "checkpoint/open/checkpoint.h"
#include "unit/counting.h"
#include "unit/folder.h"
#include "unit/older.h"
#include <sft/checkpoint_group.h>
#include <sft/dedupe.h>
#include <sft/names.h>
#include <sft/read.h>
#include <sft/write.h>
#include <stdio.h>

static char base[64];

static void put_text(const char *name, const char *text) {
    write_file(in_folder(base, name), text, strlen(text));
}

/* One U32 tensor and, where given, one metadata entry. */
static void put_tensor(const char *file, const char *name, const uint64_t *shape, uint32_t rank,
                       uint32_t first, const char *info) {
    const sft_metadata_entry entry = {"DCP_SHARDING_INFO", 17, info,
                                      info != NULL ? strlen(info) : 0};
    uint32_t values[64];
    uint8_t bytes[2048];
    sft_save_tensor t;
    size_t size;
    uint64_t n = 1;
    memset(&t, 0, sizeof t);
    for (uint32_t d = 0; d < rank; d++) {
        n *= shape[d];
    }
    for (uint32_t i = 0; i < 64; i++) {
        values[i] = first + i;
    }
    t.name = name;
    t.name_len = strlen(name);
    t.dtype = sft_dtype_get(SFT_U32);
    t.shape = shape;
    t.rank = rank;
    t.data = values;
    t.nbytes = n * 4;
    assert_int_equal(
        sft_save_memory(bytes, sizeof bytes, &size, &t, 1, &entry, info != NULL, NULL, NULL),
        SFT_OK);
    write_file(in_folder(base, file), bytes, size);
}

static const uint64_t half[] = {2, 3};

static int make_ranks(void **state) {
    (void)state;
    folder_make(base);
    assert_int_equal(mkdir(in_folder(base, "rank_0"), 0700), 0);
    assert_int_equal(mkdir(in_folder(base, "rank_1"), 0700), 0);
    put_tensor("rank_0/n-1_2.safetensors", "w", half, 2, 0, NULL);
    put_tensor("rank_1/n-1_2.safetensors", "w", half, 2, 6, NULL);
    put_text(
        "layout.json",
        "{\"format\": \"safetensors-layout\", \"version\": 1, \"mesh\": {\"axes\": {\"x\": 2}},"
        "\"tensors\": [{\"name\": \"w\", \"cuts\": [{\"by\": \"x\", \"split\": \"chunk\"}, "
        "null]}]}");
    return 0;
}

static int make_shards(void **state) {
    (void)state;
    folder_make(base);
    put_tensor("a.safetensors", "w", half, 2, 0, "{\"w\": {\"saved_offsets\": [0, 0]}}");
    put_tensor("b.safetensors", "w", half, 2, 6, "{\"w\": {\"saved_offsets\": [2, 0]}}");
    return 0;
}

static int make_mindformers(void **state) {
    (void)make_shards(state);
    put_text("metadata.json",
             "{\"state_dict_metadata\": {\"w\": {\"global_shape\": [4, 3], \"chunk\": ["
             "{\"global_offset\": [0, 0], \"local_shape\": [2, 3]},"
             "{\"global_offset\": [2, 0], \"local_shape\": [2, 3]}]}},"
             "\"storage_data\": {\"('w', (0, 0))\": [{\"file_name\": \"a.safetensors\", "
             "\"storage_rank\": 0}],"
             "\"('w', (2, 0))\": [{\"file_name\": \"b.safetensors\", \"storage_rank\": 1}]}}");
    return 0;
}

static int make_topology(void **state) {
    (void)make_shards(state);
    put_text("topology.json", "{\"tensors\": {\"w\": {\"shape\": [4, 3], \"chunks\": ["
                              "{\"offsets\": [0, 0], \"shape\": [2, 3], \"filename_index\": 0},"
                              "{\"offsets\": [2, 0], \"shape\": [2, 3], \"filename_index\": 1}]}},"
                              "\"filenames\": [\"a.safetensors\", \"b.safetensors\"]}");
    return 0;
}

static int make_complete(void **state) {
    static const uint64_t all[] = {4, 3};
    (void)state;
    folder_make(base);
    put_tensor("part0.safetensors", "w", all, 2, 0, NULL);
    put_text("param_name_map.json", "{\"w\": \"part0.safetensors\"}");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    folder_remove(base);
    return 0;
}

/* "w" is 4 x 3 and counts from 0, whatever the folder. */
static void check_whole(const sft_catalog *whole) {
    uint32_t values[12];
    assert_int_equal(sft_catalog_count(whole), 1);
    const sft_tensor *const t = sft_catalog_at(whole, 0);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 4);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(sft_tensor_read(whole, t, NULL, values, sizeof values, NULL), SFT_OK);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(values[i], i);
    }
}

/* One model, rank by rank and joined, or at the one door. */
static sft_status open_whole(sft_catalog **out, bool door, const sft_open_options *open,
                             uint32_t kind, sft_error *err) {
    sft_checkpoint_options options;
    sft_checkpoint *checkpoint;
    SFT_INIT(&options);
    *out = NULL;
    if (door) {
        const sft_opener_row row = {sft_checkpoint_opener(), &options};
        sft_door_options o;
        SFT_INIT(&o);
        o.open = open;
        o.rows = &row;
        o.row_count = 1;
        return sft_open(out, base, NULL, &o, err);
    }
    options.open = open;
    const sft_status status = sft_checkpoint_open(&checkpoint, base, &options, err);
    if (status != SFT_OK) {
        assert_null(checkpoint);
        return status;
    }
    assert_int_equal(sft_checkpoint_kind_of(checkpoint), kind);
    return sft_checkpoint_take_global(out, checkpoint, open, err);
}

/* Opens and joins with memory that runs out at the n-th call, for every n; and with all that it
 * wants. */
static void check_way(uint32_t kind, bool door) {
    uint32_t seen;
    assert_int_equal(sft_checkpoint_detect(base, &seen, NULL), SFT_OK);
    assert_int_equal(seen, kind);
    for (size_t n = 1;; n++) {
        sft_open_options open;
        sft_catalog *whole;
        sft_error err;
        counting c;
        counting_init(&c);
        c.fail_from = n;
        SFT_INIT(&open);
        open.allocator = &c.allocator;
        memset(&err, 0, sizeof err);
        const sft_status status = open_whole(&whole, door, &open, kind, &err);
        assert_int_equal(err.status, status);
        if (status == SFT_OK) {
            check_whole(whole);
            assert_int_equal(sft_checkpoint_kind_of(sft_checkpoint_of(whole)), kind);
        } else {
            assert_null(whole);
        }
        sft_catalog_close(whole);
        assert_all_given_back(&c);
        /* a listing that could not be kept in memory may also mean that nothing was seen */
        assert_true(status == SFT_OK || status == SFT_E_NOMEM || status == SFT_E_FORMAT ||
                    status == SFT_E_NOT_FOUND);
        if (status == SFT_OK && c.calls < n) {
            break;
        }
    }
}

static void check_folder(uint32_t kind) {
    check_way(kind, false);
    check_way(kind, true);
}

static void ranks(void **state) {
    (void)state;
    check_folder(SFT_CHECKPOINT_RANKS);
}

static void shards(void **state) {
    (void)state;
    check_folder(SFT_CHECKPOINT_DCP);
}

static void mindformers(void **state) {
    (void)state;
    check_folder(SFT_CHECKPOINT_MINDFORMERS);
}

static void topology(void **state) {
    (void)state;
    check_folder(SFT_CHECKPOINT_TOPOLOGY);
}

static void complete(void **state) {
    (void)state;
    check_folder(SFT_CHECKPOINT_COMPLETE);
}

/* The same for a resume point, and for comparing replicas. */
static void starved(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        sft_checkpoint_options options;
        sft_checkpoint *checkpoint;
        sft_open_options open;
        sft_resume *resume;
        sft_error err;
        counting c;
        counting_init(&c);
        c.fail_from = n;
        SFT_INIT(&open);
        SFT_INIT(&options);
        open.allocator = &c.allocator;
        options.open = &open;
        memset(&err, 0, sizeof err);
        sft_status status = sft_resume_find(&resume, base, &options, &err);
        assert_true(status == SFT_OK || (status == SFT_E_NOMEM && resume == NULL) ||
                    (status == SFT_E_FORMAT && resume == NULL));
        sft_resume_free(resume);
        assert_int_equal(c.blocks, 0);
        const int enough = c.calls < n;
        if (sft_checkpoint_open(&checkpoint, base, &options, NULL) == SFT_OK) {
            status = sft_checkpoint_verify(checkpoint, NULL, NULL, NULL);
            assert_true(status == SFT_OK || status == SFT_E_NOMEM);
            sft_checkpoint_close(checkpoint);
        }
        assert_all_given_back(&c);
        if (enough) {
            break;
        }
    }
}

static void rank_by_rank(void **state) {
    sft_checkpoint *checkpoint;
    sft_catalog *whole;
    const sft_layout *layout;
    uint64_t shape[SFT_LAYOUT_RANK];
    uint64_t compared;
    size_t count, dims;
    sft_error err;
    (void)state;
    assert_int_equal(sft_checkpoint_open(&checkpoint, base, NULL, &err), SFT_OK);
    const sft_rank_part *const parts = sft_checkpoint_ranks(checkpoint, &count);
    assert_int_equal(count, 2);
    assert_int_equal(parts[1].rank, 1);
    const sft_tensor *const t = sft_catalog_at(parts[1].catalog, 0);
    assert_int_equal(sft__checkpoint_find_part(checkpoint, t, 1, &layout, shape, &dims, &err),
                     SFT_OK);
    assert_int_equal(shape[0], 4);
    assert_true(strstr(sft_checkpoint_layout_path(checkpoint), "layout.json") != NULL);
    assert_int_equal(sft_checkpoint_join_ranks(&whole, checkpoint, NULL, &err), SFT_OK);
    check_whole(whole);
    sft_catalog_close(whole);
    assert_int_equal(sft_checkpoint_verify(checkpoint, NULL, &compared, &err), SFT_OK);
    assert_int_equal(compared, 0); /* nothing is there twice */
    sft_checkpoint_close(checkpoint);
    sft_resume *resume;
    assert_int_equal(sft_resume_find(&resume, base, NULL, &err), SFT_OK);
    assert_string_equal(sft_resume_chosen(resume)->name, "-1_2");
    assert_null(sft_resume_at(resume, 1));
    sft_resume_free(resume);
}

static void refused(void **state) {
    sft_checkpoint_options options;
    sft_checkpoint *checkpoint;
    sft_layout_set *set;
    uint32_t kind;
    sft_error err;
    (void)state;
    memset(&options, 0, sizeof options);
    assert_int_equal(sft_checkpoint_open(&checkpoint, base, &options, &err), SFT_E_ARG);
    assert_int_equal(sft_checkpoint_open(&checkpoint, in_folder(base, "rank_0"), NULL, &err),
                     SFT_E_FORMAT);
    assert_int_equal(sft_checkpoint_open(&checkpoint, in_folder(base, "absent"), NULL, &err),
                     SFT_E_FORMAT);
    assert_int_equal(sft_checkpoint_detect(in_folder(base, "layout.json"), &kind, NULL), SFT_OK);
    assert_int_equal(kind, SFT_CHECKPOINT_NONE);
    /* a mesh of more devices than anybody has: refused before memory is taken for each */
    static const char huge[] =
        "{\"format\": \"safetensors-layout\", \"version\": 1, \"mesh\": {\"axes\": {\"x\": "
        "1073741824}},"
        "\"tensors\": [{\"name\": \"w\", \"shape\": [1073741824, 3], \"cuts\": [\"x\", null]}]}";
    assert_int_equal(sft_layout_set_parse(&set, huge, strlen(huge), "huge", NULL, &err), SFT_OK);
    SFT_INIT(&options);
    options.layouts = set;
    assert_int_equal(sft_checkpoint_open(&checkpoint, base, &options, &err), SFT_OK);
    sft_catalog *whole;
    assert_int_equal(sft_checkpoint_take_global(&whole, checkpoint, NULL, &err), SFT_E_LIMIT);
    sft_layout_set_free(set);
    assert_int_equal(unlink(in_folder(base, "layout.json")), 0);
    assert_int_equal(sft_checkpoint_open(&checkpoint, base, NULL, &err), SFT_E_NOT_FOUND);
    put_text("layout.json", "{\"format\": \"safetensors-layout\"}");
    assert_int_equal(sft_checkpoint_open(&checkpoint, base, NULL, &err), SFT_E_SCHEMA);
    assert_string_equal(sft_checkpoint_kind_title(77),
                        sft_checkpoint_kind_title(SFT_CHECKPOINT_NONE));
    assert_string_equal(sft_checkpoint_kind_title(SFT_CHECKPOINT_RANKS),
                        "one directory for each rank");
}

static sft_status at_door(sft_catalog **out, const char *path, const sft_checkpoint_options *o,
                          const sft_opener **taken_by, sft_error *err) {
    const sft_opener_row rows[] = {{sft_checkpoint_opener(), o}, {sft_catalog_opener(), NULL}};
    sft_door_options door;
    SFT_INIT(&door);
    door.rows = rows;
    door.row_count = 2;
    door.taken_by = taken_by;
    return sft_open(out, path, NULL, &door, err);
}

/* What is left to the openers behind, what is not, and a layout by its path. */
static void at_the_door(void **state) {
    const sft_opener *taken_by;
    sft_checkpoint_options o;
    sft_catalog *c;
    sft_error err;
    char moved[128];
    (void)state;
    SFT_INIT(&o);
    assert_int_equal(at_door(&c, base, NULL, &taken_by, &err), SFT_OK);
    assert_ptr_equal(taken_by, sft_checkpoint_opener());
    check_whole(c);
    sft_catalog_close(c);
    const char *rank = in_folder(base, "rank_0"); /* a plain directory */
    assert_int_equal(at_door(&c, rank, &o, &taken_by, &err), SFT_OK);
    assert_ptr_equal(taken_by, sft_catalog_opener());
    assert_null(sft_checkpoint_of(c));
    sft_catalog_close(c);
    o.flags = SFT_CHECKPOINT_NOTHING_ELSE;
    rank = in_folder(base, "rank_0");
    assert_int_equal(at_door(&c, rank, &o, &taken_by, &err), SFT_E_FORMAT);
    assert_ptr_equal(taken_by, sft_checkpoint_opener());
    o.flags = 0;
    o.step = "9_9"; /* a step is asked of checkpoints alone */
    assert_int_not_equal(at_door(&c, in_folder(base, "rank_0"), &o, &taken_by, &err), SFT_OK);
    assert_ptr_equal(taken_by, sft_checkpoint_opener());
    o.step = NULL;
    (void)snprintf(moved, sizeof moved, "%s", in_folder(base, "elsewhere.json"));
    assert_int_equal(rename(in_folder(base, "layout.json"), moved), 0);
    assert_int_equal(at_door(&c, base, &o, &taken_by, &err), SFT_E_NOT_FOUND);
    o.layout = moved;
    assert_int_equal(at_door(&c, base, &o, &taken_by, &err), SFT_OK);
    check_whole(c);
    sft_catalog_close(c);
    o.layout = "absent.json";
    assert_int_equal(at_door(&c, base, &o, &taken_by, &err), SFT_E_IO);
    assert_non_null(strstr(err.message, "absent.json: "));
}

static sft_status opening(const void *options, sft_error *err) {
    const sft_opener_row row = {sft_checkpoint_opener(), options};
    sft_door_options door;
    sft_catalog *c;
    SFT_INIT(&door);
    door.rows = &row;
    door.row_count = 1;
    const sft_status status = sft_open(&c, base, NULL, &door, err);
    sft_catalog_close(c);
    return status;
}

static void other_sizes(void **state) {
    (void)state;
    older_check(&(older_row)OLDER_ROW(sft_checkpoint_options, open, opening));
}

/* A map that names nothing is that of no model, though parts lie beside it. */
static void empty_map(void **state) {
    static const char *const maps[] = {"{}", "{\"weight_map\": {}}",
                                       "{\"metadata\": {\"total_size\": 48}, \"weight_map\": {}}"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sft_checkpoint *checkpoint;
        sft_error err;
        put_text("param_name_map.json", maps[i]);
        assert_int_equal(sft_checkpoint_open(&checkpoint, base, NULL, &err), SFT_E_SCHEMA);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(empty_map, make_complete, remove_folder),
        cmocka_unit_test_setup_teardown(ranks, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(at_the_door, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(other_sizes, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(shards, make_shards, remove_folder),
        cmocka_unit_test_setup_teardown(mindformers, make_mindformers, remove_folder),
        cmocka_unit_test_setup_teardown(topology, make_topology, remove_folder),
        cmocka_unit_test_setup_teardown(complete, make_complete, remove_folder),
        cmocka_unit_test_setup_teardown(starved, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(rank_by_rank, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(refused, make_ranks, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
