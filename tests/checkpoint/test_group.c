/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of groups: jobs, saves and loads by several threads that play the processes. What a
 * save wrote is read back through the catalog and compared with the elements' own numbers; what
 * every rank loads is compared element by element with the same.
 */
#include "unit/folder.h"

#include "checkpoint/crowd.h"

#include "layout/layout.h"
#include <sft/checkpoint.h>
#include <sft/checkpoint_group.h>
#include <sft/extend.h>
#include <sft/layout_set.h>
#include <stdbool.h>

static char base[64];

/* ---------------------------------------------------------------- a model: element i is i */

enum { TENSORS = 6, ROOM = 16 };

typedef struct row {
    const char *name;
    uint32_t dims;
    uint64_t shape[3];
    int cut; /* this dimension, in chunks; -1: whole on every rank */
} row;

static const row rows[TENSORS] = {
    {"rows", 2, {37, 19, 0}, 0}, {"columns", 2, {21, 53, 0}, 1}, {"deep", 3, {3, 10, 7}, 1},
    {"bias", 1, {29, 0, 0}, -1}, {"step", 0, {0, 0, 0}, -1},     {"empty", 2, {0, 4, 0}, -1},
};

static uint64_t volume(const uint64_t *shape, size_t dims) {
    uint64_t n = 1;
    for (size_t d = 0; d < dims; d++) {
        n *= shape[d];
    }
    return n;
}

/* torch.chunk's rule, written down again. */
static void chunk(uint64_t size, uint64_t parts, uint64_t k, uint64_t *start, uint64_t *count) {
    const uint64_t each = (size + parts - 1) / parts;
    *start = k * each < size ? k * each : size;
    *count = size - *start < each ? size - *start : each;
}

/* One rank's tensors, and memory for them. */
typedef struct holding {
    sft_group_tensor list[ROOM];
    uint64_t numbers[ROOM][9]; /* shape, start, count */
    uint32_t *data[ROOM];
    size_t count;
} holding;

static void fill_box(uint32_t *data, const uint64_t *shape, const uint64_t *start,
                     const uint64_t *count, size_t dims) {
    const uint64_t n = volume(count, dims);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i;
        uint64_t linear = 0;
        uint64_t stride = 1;
        for (size_t d = dims; d-- > 0;) {
            linear += (start[d] + rest % count[d]) * stride;
            rest /= count[d];
            stride *= shape[d];
        }
        data[i] = (uint32_t)linear;
    }
}

static void add_part(holding *h, const char *name, uint32_t dims, const uint64_t *shape,
                     const uint64_t *start, const uint64_t *count, bool fill) {
    sft_group_tensor *const t = &h->list[h->count];
    uint64_t *const numbers = h->numbers[h->count];
    const uint64_t n = volume(count, dims);
    for (size_t d = 0; d < dims; d++) {
        numbers[d] = shape[d];
        numbers[3 + d] = start[d];
        numbers[6 + d] = count[d];
    }
    h->data[h->count] = calloc((size_t)n + 1, 4);
    if (fill) {
        fill_box(h->data[h->count], shape, start, count, dims);
    }
    memset(t, 0, sizeof *t);
    t->name = name;
    t->name_len = strlen(name);
    t->dtype = sft_dtype_get(SFT_U32);
    t->shape = numbers;
    t->dims = dims;
    t->start = numbers + 3;
    t->count = numbers + 6;
    t->data = h->data[h->count];
    t->nbytes = 4 * n;
    h->count++;
}

/* What rank `rank` of `ranks` holds; every second pair of ranks holds the same parts. */
static void holding_init(holding *h, uint32_t rank, uint32_t ranks, uint32_t replicas, bool fill) {
    static const uint64_t zeros[3] = {0, 0, 0};
    const uint32_t parts = ranks / replicas > 0 ? ranks / replicas : 1;
    memset(h, 0, sizeof *h);
    for (size_t i = 0; i < TENSORS; i++) {
        const row *const r = &rows[i];
        uint64_t start[3] = {0, 0, 0};
        uint64_t count[3] = {r->shape[0], r->shape[1], r->shape[2]};
        if (r->cut < 0) {
            add_part(h, r->name, r->dims, r->shape, zeros, r->shape, fill);
            continue;
        }
        chunk(r->shape[r->cut], parts, rank % parts, &start[r->cut], &count[r->cut]);
        add_part(h, r->name, r->dims, r->shape, start, count, fill);
    }
}

static void holding_reset(holding *h) {
    for (size_t i = 0; i < h->count; i++) {
        free(h->data[i]);
    }
}

static bool holding_is_right(const holding *h) {
    for (size_t i = 0; i < h->count; i++) {
        const sft_group_tensor *const t = &h->list[i];
        const uint64_t n = volume(t->count, t->dims);
        uint32_t *const want = calloc((size_t)n + 1, 4);
        fill_box(want, t->shape, t->start, t->count, t->dims);
        const bool same = memcmp(want, h->data[i], 4 * (size_t)n) == 0;
        free(want);
        if (!same) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------- save and load, by boxes */

typedef struct task {
    const char *path;
    uint32_t replicas;
    holding *holdings;
    sft_group_save_options save;
    sft_group_load_options load;
    sft_group_result results[CROWD_MOST];
} task;

static void results_init(task *t) {
    for (uint32_t i = 0; i < CROWD_MOST; i++) {
        SFT_INIT(&t->results[i]);
    }
}

static void task_init(task *t, const char *path, uint32_t ranks, uint32_t replicas, bool fill) {
    memset(t, 0, sizeof *t);
    t->path = path;
    t->replicas = replicas;
    t->holdings = calloc(ranks, sizeof *t->holdings);
    for (uint32_t i = 0; i < ranks; i++) {
        holding_init(&t->holdings[i], i, ranks, replicas, fill);
    }
    SFT_INIT(&t->save);
    SFT_INIT(&t->load);
    results_init(t);
    t->save.durability = SFT_DURABLE_NONE;
    t->save.digests = SFT_DIGEST_CRC32C;
}

static void task_reset(task *t, uint32_t ranks) {
    for (uint32_t i = 0; i < ranks; i++) {
        holding_reset(&t->holdings[i]);
    }
    free(t->holdings);
}

static void save_one(crowd_member *m) {
    task *const t = m->ctx;
    const holding *const h = &t->holdings[m->rank];
    m->status = sft_checkpoint_save_group(&m->group, t->path, h->list, h->count, &t->save,
                                          &t->results[m->rank], &m->err);
}

static void load_one(crowd_member *m) {
    task *const t = m->ctx;
    const holding *const h = &t->holdings[m->rank];
    m->status = sft_checkpoint_load_group(&m->group, t->path, h->list, h->count, &t->load,
                                          &t->results[m->rank], &m->err);
}

/* Through the ordinary way in, with its digests. */
static void assert_folder_is_whole(const char *path, uint32_t kind_wanted) {
    sft_checkpoint *c;
    sft_catalog *whole;
    sft_error err;
    uint32_t kind;
    assert_int_equal(sft_checkpoint_detect(path, &kind, NULL), SFT_OK);
    assert_int_equal(kind, kind_wanted);
    if (sft_checkpoint_open(&c, path, NULL, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    size_t count;
    const sft_rank_part *const parts = sft_checkpoint_ranks(c, &count);
    for (size_t i = 0; i < count; i++) {
        if (sft_catalog_count(parts[i].catalog) > 0) {
            assert_int_equal(sft_catalog_verify(parts[i].catalog, NULL, NULL, &err), SFT_OK);
        }
    }
    assert_int_equal(sft_checkpoint_take_global(&whole, c, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_count(whole), TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        const sft_tensor *const t = sft_catalog_find(whole, rows[i].name, strlen(rows[i].name));
        assert_non_null(t);
        const uint64_t n = volume(rows[i].shape, rows[i].dims);
        uint32_t *const data = calloc((size_t)n + 1, 4);
        assert_int_equal(t->nbytes, 4 * n);
        if (n > 0) {
            assert_int_equal(sft_tensor_read(whole, t, NULL, data, (size_t)t->nbytes, NULL),
                             SFT_OK);
        }
        for (uint64_t k = 0; k < n; k++) {
            assert_int_equal(data[k], k);
        }
        free(data);
    }
    sft_catalog_close(whole);
}

static void what_many_save_many_others_load(void **state) {
    static const uint32_t sizes[] = {1, 2, 3, 4, 8};
    (void)state;
    for (size_t a = 0; a < 5; a++) {
        for (uint32_t replicas = 1; replicas <= 2; replicas++) {
            crowd_member members[CROWD_MOST];
            char path[128];
            task t;
            const uint32_t n = sizes[a];
            uint64_t written = 0;
            (void)snprintf(path, sizeof path, "%s/boxes-%u-%u", base, (unsigned)n,
                           (unsigned)replicas);
            task_init(&t, path, n, replicas, true);
            crowd_run(members, n, save_one, &t);
            assert_all_ok(members, n);
            for (uint32_t i = 0; i < n; i++) {
                written += t.results[i].bytes;
                assert_int_equal(t.results[i].total_bytes, t.results[0].total_bytes);
            }
            /* every byte of the model once: replicas are not written twice */
            assert_int_equal(written, 4 * (37 * 19 + 21 * 53 + 3 * 10 * 7 + 29 + 1));
            task_reset(&t, n);
            assert_folder_is_whole(path, SFT_CHECKPOINT_TOPOLOGY);
            for (size_t b = 0; b < 5; b++) {
                const uint32_t m = sizes[b];
                task_init(&t, path, m, 1, false);
                crowd_run(members, m, load_one, &t);
                assert_all_ok(members, m);
                for (uint32_t i = 0; i < m; i++) {
                    assert_true(holding_is_right(&t.holdings[i]));
                }
                task_reset(&t, m);
            }
        }
    }
}

static void a_replica_is_written_by_the_one_with_least(void **state) {
    crowd_member members[CROWD_MOST];
    char path[128];
    task t;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/balance", base);
    task_init(&t, path, 4, 4, true); /* all four hold everything */
    crowd_run(members, 4, save_one, &t);
    assert_all_ok(members, 4);
    /* 4452, 2812, 840, 116, 4 and 0 bytes, the largest first, each to whom has least */
    uint64_t sorted[4] = {t.results[0].bytes, t.results[1].bytes, t.results[2].bytes,
                          t.results[3].bytes};
    assert_int_equal(sorted[0], 4 * 21 * 53);
    assert_int_equal(sorted[1], 4 * 37 * 19);
    assert_int_equal(sorted[2], 4 * 3 * 10 * 7);
    assert_int_equal(sorted[3], 4 * 29 + 4);
    task_reset(&t, 4);
}

static void one_process_may_hold_several_boxes(void **state) {
    static const uint64_t shape[2] = {6, 8};
    static const uint64_t left[2] = {6, 4};
    static const uint64_t top[2] = {2, 4};
    static const uint64_t bottom[2] = {4, 4};
    static const uint64_t zero[2] = {0, 0};
    static const uint64_t at_top[2] = {0, 4};
    static const uint64_t at_bottom[2] = {2, 4};
    crowd_member members[CROWD_MOST];
    char path[128];
    task t;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/several", base);
    for (int round = 0; round < 2; round++) { /* saved, then loaded */
        memset(&t, 0, sizeof t);
        t.path = path;
        t.holdings = calloc(2, sizeof *t.holdings);
        SFT_INIT(&t.save);
        SFT_INIT(&t.load);
        results_init(&t);
        add_part(&t.holdings[0], "w", 2, shape, zero, left, round == 0);
        add_part(&t.holdings[1], "w", 2, shape, at_top, top, round == 0);
        add_part(&t.holdings[1], "w", 2, shape, at_bottom, bottom, round == 0);
        crowd_run(members, 2, round == 0 ? save_one : load_one, &t);
        assert_all_ok(members, 2);
        assert_true(holding_is_right(&t.holdings[0]));
        assert_true(holding_is_right(&t.holdings[1]));
        if (round == 0) {
            assert_int_equal(t.results[0].total_files, 3);
        }
        task_reset(&t, 2);
    }
}

/* ---------------------------------------------------------------- what cannot be saved, or loaded */

static void break_nothing(holding *h) {
    (void)h;
}

static void break_hole(holding *h) { /* its part of "rows" is left out */
    free(h->data[0]);
    h->count--;
    memmove(h->list, h->list + 1, h->count * sizeof *h->list);
    memmove(h->data, h->data + 1, h->count * sizeof(uint32_t *));
}

static void break_shape(holding *h) {
    h->numbers[1][0]++;
}

static void break_dtype(holding *h) {
    h->list[3].dtype = sft_dtype_get(SFT_F32);
}

static void break_size(holding *h) {
    h->list[0].nbytes -= 4;
}

static void break_twice(holding *h) {
    h->list[4] = h->list[3];
}

static void break_reach(holding *h) {
    h->numbers[0][3] = 30;
}

static void break_overlap(holding *h) { /* one row more than its own: a row above it */
    uint64_t *const n = h->numbers[0];
    n[3]--;
    n[6]++;
    h->list[0].nbytes += 4 * 19;
    h->data[0] = realloc(h->data[0], (size_t)h->list[0].nbytes + 4);
    h->list[0].data = h->data[0];
}

static void what_is_wrong_is_told_by_all(void **state) {
    static const struct {
        void (*apply)(holding *h);
        sft_status status;
        const char *words;
    } cases[] = {
        {break_hole, SFT_E_HOLE, "no process holds some part of it"},
        {break_shape, SFT_E_MISMATCH, "rank 2: processes disagree about its dtype or shape"},
        {break_dtype, SFT_E_MISMATCH, "rank 2: processes disagree about its dtype or shape"},
        {break_size, SFT_E_ARG, "bytes of memory"},
        {break_twice, SFT_E_DUPLICATE, "twice"},
        {break_reach, SFT_E_RANGE, "reaches out of the tensor"},
        {break_overlap, SFT_E_OVERLAP, "overlap without being equal"},
        {break_nothing, SFT_OK, ""},
        {break_nothing, SFT_E_EXISTS, "is there already"},
    };
    char path[128];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/broken", base);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        crowd_member members[CROWD_MOST];
        task t;
        task_init(&t, path, 3, 1, true);
        cases[i].apply(&t.holdings[2]);
        crowd_run(members, 3, save_one, &t);
        if (cases[i].status == SFT_OK) {
            assert_all_ok(members, 3);
        } else {
            assert_all_fail(members, 3, cases[i].status, cases[i].words);
        }
        if (cases[i].status != SFT_OK && cases[i].status != SFT_E_EXISTS) {
            assert_absent(path);
        }
        task_reset(&t, 3);
    }
}

static void save_or_fail(crowd_member *m) {
    task *const t = m->ctx;
    const holding *const h = &t->holdings[m->rank];
    if (m->rank == 1) {
        (void)sft_error_set(&m->err, SFT_E_NOMEM, 0, "no graphics memory");
        m->status = sft_checkpoint_save_group(&m->group, t->path, NULL, SFT_GROUP_FAILED, &t->save,
                                              NULL, &m->err);
    } else {
        m->status = sft_checkpoint_save_group(&m->group, t->path, h->list, h->count, &t->save, NULL,
                                              &m->err);
    }
}

static void who_has_failed_before_fails_all(void **state) {
    crowd_member members[CROWD_MOST];
    char path[128];
    task t;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/failed", base);
    task_init(&t, path, 3, 1, true);
    crowd_run(members, 3, save_or_fail, &t);
    assert_all_fail(members, 3, SFT_E_NOMEM, "rank 1: no graphics memory");
    assert_absent(path);
    task_reset(&t, 3);
}

static void loads_say_what_is_not_there(void **state) {
    crowd_member members[CROWD_MOST];
    char path[128];
    task t;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/boxes-4-1", base);
    task_init(&t, path, 2, 1, false);
    t.holdings[1].list[3].name = "else";
    t.holdings[1].list[3].name_len = 4;
    crowd_run(members, 2, load_one, &t);
    assert_all_fail(members, 2, SFT_E_NOT_FOUND, "rank 1: is not in the checkpoint");
    assert_string_equal(members[0].err.tensor, "else");
    t.load.flags = SFT_GROUP_MISSING;
    crowd_run(members, 2, load_one, &t);
    assert_all_ok(members, 2);
    t.holdings[1].list[3].name = "bias";
    t.holdings[1].list[3].dtype = sft_dtype_get(SFT_I32);
    crowd_run(members, 2, load_one, &t);
    assert_all_fail(members, 2, SFT_E_MISMATCH, "is U32 in the checkpoint, and I32 is asked for");
    t.holdings[1].list[3].dtype = sft_dtype_get(SFT_U32);
    t.holdings[1].numbers[3][0]++;
    crowd_run(members, 2, load_one, &t);
    assert_all_fail(members, 2, SFT_E_SHAPE, "another shape");
    task_reset(&t, 2);
    (void)snprintf(path, sizeof path, "%s/nowhere", base);
    task_init(&t, path, 2, 1, false);
    crowd_run(members, 2, load_one, &t);
    assert_int_not_equal(members[0].status, SFT_OK);
    assert_int_equal(members[0].status, members[1].status);
    task_reset(&t, 2);
}

static void a_load_may_cast(void **state) {
    float data[29];
    const uint64_t shape[1] = {29};
    sft_group_tensor one;
    sft_group_load_options o;
    sft_group_result result;
    sft_error err;
    char path[128];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/boxes-3-1", base);
    memset(&one, 0, sizeof one);
    one.name = "bias";
    one.name_len = 4;
    one.dtype = sft_dtype_get(SFT_F32);
    one.shape = shape;
    one.dims = 1;
    one.data = data;
    one.nbytes = sizeof data;
    SFT_INIT(&o);
    SFT_INIT(&result);
    o.flags = SFT_GROUP_CAST;
    if (sft_checkpoint_load_group(NULL, path, &one, 1, &o, &result, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < 29; i++) {
        assert_true(data[i] == (float)i);
    }
    assert_int_equal(result.bytes, sizeof data);
    assert_int_equal(result.total_bytes, sizeof data);
}

/* ---------------------------------------------------------------- by layouts */

static const char layout_text[] =
    "{\"format\": \"safetensors-layout\", \"version\": 1,"
    " \"meshes\": {\"m\": {\"axes\": {\"dp\": 2, \"tp\": 2}}}, \"tensors\": ["
    "{\"name\": \"qkv\", \"mesh\": \"m\", \"cuts\": [{\"by\": [\"tp\"], \"split\": \"chunk\","
    " \"blocks\": [7, 4, 2]}, null], \"shape\": [13, 5]},"
    "{\"name\": \"flat\", \"mesh\": \"m\", \"flat\": {\"by\": [\"dp\", \"tp\"]}, \"shape\": [7, "
    "3]},"
    "{\"name\": \"up\", \"mesh\": \"m\", \"cuts\": [null, {\"by\": [\"tp\"], \"split\": \"chunk\","
    " \"blocks\": 2}], \"shape\": [4, 10]}]}";

typedef struct cut_one {
    const char *name;
    uint32_t dims;
    uint64_t shape[2];
} cut_one;

static const cut_one cut_tensors[] = {
    {"qkv", 2, {13, 5}}, {"flat", 2, {7, 3}}, {"up", 2, {4, 10}}, {"norm", 1, {3, 0}}};

static void parse_layouts(sft_layout_set **set) {
    sft_layout_set_options o;
    sft_error err;
    SFT_INIT(&o);
    if (sft_layout_set_parse(set, layout_text, sizeof layout_text - 1, "layout.json", &o, &err) !=
        SFT_OK) {
        fail_msg("%s", err.message);
    }
}

/* What a rank holds, element by element: from the boxes of the layout. */
static void fill_cut(sft_layout_set *set, uint32_t rank, const cut_one *c, uint32_t *data,
                     uint64_t *nbytes, bool fill) {
    uint64_t shape[SFT_LAYOUT_RANK];
    uint64_t local[SFT_LAYOUT_RANK];
    uint64_t start[SFT_LAYOUT_RANK];
    uint64_t count[SFT_LAYOUT_RANK];
    uint64_t at[SFT_LAYOUT_RANK];
    const sft__layout_shard shard = {start, count, at};
    const sft_layout *layout = NULL;
    size_t dims = c->dims;
    sft_tensor t;
    memset(&t, 0, sizeof t);
    t.name = c->name;
    t.name_len = strlen(c->name);
    t.shape = c->shape;
    t.rank = c->dims;
    assert_int_equal(sft_layout_set_find_global(set, &t, rank, &layout, shape, &dims, NULL),
                     SFT_OK);
    if (layout == NULL) {
        *nbytes = 4 * volume(c->shape, c->dims);
        for (uint64_t i = 0; i < *nbytes / 4 && fill; i++) {
            data[i] = (uint32_t)i;
        }
        return;
    }
    uint64_t shards;
    const bool flat = sft_layout_is_flat(layout) != 0;
    assert_int_equal(sft_layout_local_shape(layout, c->shape, c->dims, rank, local, NULL), SFT_OK);
    assert_int_equal(sft__layout_shard_count(&(sft__layout_local){layout, c->shape, c->dims, rank},
                                             &shards, NULL),
                     SFT_OK);
    *nbytes = 4 * volume(local, flat ? 1 : c->dims);
    for (uint64_t s = 0; s < shards && fill; s++) {
        assert_int_equal(sft__layout_shard_at(&(sft__layout_local){layout, c->shape, c->dims, rank},
                                              s, &shard, NULL),
                         SFT_OK);
        for (uint64_t i = 0; i < count[0]; i++) {
            for (uint64_t k = 0; k < count[1]; k++) {
                const uint64_t from = (start[0] + i) * c->shape[1] + start[1] + k;
                const uint64_t to =
                    flat ? at[0] + i * count[1] + k : (at[0] + i) * local[1] + at[1] + k;
                data[to] = (uint32_t)from;
            }
        }
    }
}

static void layouts_init(task *t, sft_layout_set *set, const char *path, bool fill) {
    memset(t, 0, sizeof *t);
    t->path = path;
    t->holdings = calloc(4, sizeof *t->holdings);
    SFT_INIT(&t->save);
    SFT_INIT(&t->load);
    results_init(t);
    t->save.durability = SFT_DURABLE_NONE;
    t->save.layouts = set;
    t->load.layouts = set;
    for (uint32_t r = 0; r < 4; r++) {
        holding *const h = &t->holdings[r];
        for (size_t i = 0; i < 4; i++) {
            sft_group_tensor *const g = &h->list[i];
            memset(g, 0, sizeof *g);
            h->data[i] = calloc(128, 4);
            g->name = cut_tensors[i].name;
            g->name_len = strlen(g->name);
            g->dtype = sft_dtype_get(SFT_U32);
            g->shape = cut_tensors[i].shape;
            g->dims = cut_tensors[i].dims;
            g->data = h->data[i];
            fill_cut(set, r, &cut_tensors[i], h->data[i], &g->nbytes, fill);
        }
        h->count = 4;
    }
}

static void layouts_with_blocks_and_flat_ranges(void **state) {
    crowd_member members[CROWD_MOST];
    sft_layout_set *set;
    sft_checkpoint *c;
    sft_catalog *whole;
    sft_error err;
    char path[128];
    task t;
    task want;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/layouts", base);
    parse_layouts(&set);
    layouts_init(&t, set, path, true);
    crowd_run(members, 4, save_one, &t);
    assert_all_ok(members, 4);
    /* each byte once, though dp holds most of it twice */
    assert_int_equal(t.results[0].bytes + t.results[1].bytes + t.results[2].bytes +
                         t.results[3].bytes,
                     4 * (65 + 21 + 40 + 3));
    task_reset(&t, 4);
    if (sft_checkpoint_open(&c, path, NULL, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    assert_int_equal(sft_checkpoint_kind_of(c), SFT_CHECKPOINT_RANKS);
    assert_int_equal(sft_checkpoint_take_global(&whole, c, NULL, NULL), SFT_OK);
    for (size_t i = 0; i < 4; i++) {
        uint32_t data[128];
        const sft_tensor *const x =
            sft_catalog_find(whole, cut_tensors[i].name, strlen(cut_tensors[i].name));
        assert_non_null(x);
        assert_int_equal(sft_tensor_read(whole, x, NULL, data, (size_t)x->nbytes, NULL), SFT_OK);
        for (uint32_t k = 0; k < x->nbytes / 4; k++) {
            assert_int_equal(data[k], k);
        }
    }
    sft_catalog_close(whole);
    layouts_init(&t, set, path, false);
    layouts_init(&want, set, path, true);
    crowd_run(members, 4, load_one, &t);
    assert_all_ok(members, 4);
    for (uint32_t r = 0; r < 4; r++) {
        for (size_t i = 0; i < 4; i++) {
            assert_memory_equal(t.holdings[r].data[i], want.holdings[r].data[i], 128 * 4);
        }
    }
    t.holdings[2].list[0].start = t.holdings[2].list[0].shape; /* a box as well */
    t.holdings[2].list[0].count = t.holdings[2].list[0].shape;
    crowd_run(members, 4, load_one, &t);
    assert_all_fail(members, 4, SFT_E_ARG, "rank 2: a box, and layouts");
    task_reset(&t, 4);
    task_reset(&want, 4);
    sft_layout_set_free(set);
}

static void groups_that_are_none(void **state) {
    sft_group g;
    sft_error err;
    (void)state;
    memset(&g, 0, sizeof g);
    assert_int_equal(sft_checkpoint_load_group(&g, base, NULL, 0, NULL, NULL, &err), SFT_E_ARG);
    SFT_INIT(&g);
    g.size = 2;
    g.rank = 2;
    assert_int_equal(sft_checkpoint_save_group(&g, base, NULL, 0, NULL, NULL, &err), SFT_E_ARG);
}

/* ---------------------------------------------------------------- all */

static int begin(void **state) {
    (void)state;
    folder_make(base);
    return 0;
}

static int end(void **state) {
    (void)state;
    folder_remove(base);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_many_save_many_others_load),
        cmocka_unit_test(a_replica_is_written_by_the_one_with_least),
        cmocka_unit_test(one_process_may_hold_several_boxes),
        cmocka_unit_test(what_is_wrong_is_told_by_all),
        cmocka_unit_test(who_has_failed_before_fails_all),
        cmocka_unit_test(loads_say_what_is_not_there),
        cmocka_unit_test(a_load_may_cast),
        cmocka_unit_test(layouts_with_blocks_and_flat_ranges),
        cmocka_unit_test(groups_that_are_none),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
