/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/checkpoint/job_model.h - a small model of all kinds of cuts, its parts for any number of
 * ranks, the job that writes them, and what its files must be: made by sft_save. For test_job.c.
 */
#ifndef SFT_TESTS_JOB_MODEL_H
#define SFT_TESTS_JOB_MODEL_H

#include "checkpoint/join_find.h"
#include "layout/layout.h"
#include "unit/folder.h"
#include <sft/checkpoint.h>
#include <sft/job.h>
#include <sft/read.h>
#include <stdbool.h>

enum { MOST = 8, TENSORS = 8 };

static char base[64];

/* ---------------------------------------------------------------- a model and its cuts */

typedef struct row {
    const char *name;
    uint32_t dtype;
    uint32_t rank;
    uint64_t shape[4];
    int cut; /* -1: none; 0 to 3: this dimension; 10 * a + b: both, on a mesh of two axes */
} row;

static const row rows[TENSORS] = {
    {"rows", SFT_F32, 2, {131, 257, 0, 0}, 0},
    {"columns", SFT_BF16, 2, {700, 2011, 0, 0}, 1},
    {"grid", SFT_I16, 2, {97, 301, 0, 0}, 1 * 10 + 0 + 100},
    {"experts", SFT_U8, 3, {5, 33, 129, 0}, 2},
    {"middle", SFT_F32, 3, {3, 29, 64, 0}, 1},
    {"deep", SFT_F16, 4, {2, 3, 170, 130}, 3},
    {"long", SFT_U8, 2, {3, 1200000, 0, 0}, 1},
    {"step", SFT_I64, 0, {0, 0, 0, 0}, -1},
};

typedef struct cuts {
    sft_layout *list[TENSORS];
    uint64_t axes[2];
    uint64_t ranks;
} cuts;

static void cuts_init(cuts *c, uint64_t ranks) {
    memset(c, 0, sizeof *c);
    c->ranks = ranks;
    c->axes[0] = ranks % 2 == 0 ? 2 : ranks % 3 == 0 ? 3 : 1;
    c->axes[1] = ranks / c->axes[0];
    for (size_t i = 0; i < TENSORS; i++) {
        sft__layout_factor both[2];
        sft__layout_cut cut[4];
        sft__layout_mesh mesh;
        if (rows[i].cut < 0) {
            continue;
        }
        sft_zero(&mesh, sizeof mesh);
        sft_zero(cut, sizeof cut);
        sft_zero(both, sizeof both);
        mesh.axes = c->axes;
        mesh.axis_count = 2;
        both[1].axis = 1;
        if (rows[i].cut >= 100) {
            cut[0].factors = &both[0];
            cut[0].factor_count = 1;
            cut[1].factors = &both[1];
            cut[1].factor_count = 1;
            cut[0].split = SFT__SPLIT_CHUNK;
            cut[1].split = SFT__SPLIT_BALANCED;
        } else {
            cut[rows[i].cut].factors = both;
            cut[rows[i].cut].factor_count = 2;
            cut[rows[i].cut].split = SFT__SPLIT_CHUNK;
        }
        assert_int_equal(sft__layout_create(&c->list[i], &mesh, cut, rows[i].rank, NULL, NULL),
                         SFT_OK);
    }
}

static void cuts_reset(cuts *c) {
    for (size_t i = 0; i < TENSORS; i++) {
        sft__layout_free(c->list[i]);
    }
}

static sft_status find(void *ctx, const sft_tensor *t, uint64_t rank, const sft_layout **layout,
                       uint64_t *shape, size_t *dims, sft_error *err) {
    const cuts *const c = ctx;
    (void)rank;
    (void)err;
    for (size_t i = 0; i < TENSORS; i++) {
        if (strcmp(rows[i].name, t->name) == 0) {
            *layout = c->list[i];
            *dims = rows[i].rank;
            memcpy(shape, rows[i].shape, rows[i].rank * sizeof *shape);
        }
    }
    return SFT_OK;
}

static void save_model(const char *path) {
    static uint8_t data[4 << 20];
    sft_save_tensor tensors[TENSORS];
    const sft_metadata_entry entry = {"format", 6, "pt", 2};
    uint32_t state = 12345;
    for (size_t i = 0; i < sizeof data; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (uint8_t)(state >> 24);
    }
    memset(tensors, 0, sizeof tensors);
    for (size_t i = 0; i < TENSORS; i++) {
        tensors[i].name = rows[i].name;
        tensors[i].name_len = strlen(rows[i].name);
        tensors[i].dtype = sft_dtype_get(rows[i].dtype);
        tensors[i].shape = rows[i].shape;
        tensors[i].rank = rows[i].rank;
        tensors[i].data = data + i;
        uint64_t n = 1;
        for (uint32_t d = 0; d < rows[i].rank; d++) {
            n *= rows[i].shape[d];
        }
        assert_int_equal(sft_dtype_bytes(tensors[i].dtype, n, &tensors[i].nbytes, NULL), SFT_OK);
    }
    assert_int_equal(sft_save(path, tensors, TENSORS, &entry, 1, NULL, NULL), SFT_OK);
}

/* ---------------------------------------------------------------- what a file should be */

static void *expected(const sft_catalog *c, size_t *size) {
    const size_t count = sft_catalog_count(c);
    sft_save_tensor *const tensors = calloc(count + 1, sizeof *tensors);
    const sft_metadata_entry entry = {"format", 6, "pt", 2};
    for (size_t i = 0; i < count; i++) {
        const sft_tensor *const t = sft_catalog_at(c, i);
        void *const data = malloc((size_t)t->nbytes + 1);
        assert_int_equal(sft_tensor_read(c, t, NULL, data, (size_t)t->nbytes, NULL), SFT_OK);
        tensors[i].name = t->name;
        tensors[i].name_len = t->name_len;
        tensors[i].dtype = t->dtype;
        tensors[i].shape = t->shape;
        tensors[i].rank = t->rank;
        tensors[i].data = data;
        tensors[i].nbytes = t->nbytes;
    }
    assert_int_equal(sft_save_memory(NULL, 0, size, tensors, count, &entry, 1, NULL, NULL), SFT_OK);
    void *const bytes = malloc(*size);
    assert_int_equal(sft_save_memory(bytes, *size, size, tensors, count, &entry, 1, NULL, NULL),
                     SFT_OK);
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)tensors[i].data);
    }
    free(tensors);
    return bytes;
}

static void *slurp(const char *path, size_t *size) {
    FILE *const f = fopen(path, "rb");
    struct stat st;
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    *size = (size_t)st.st_size;
    void *const bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    (void)fclose(f);
    return bytes;
}

static void assert_file_is(const char *path, const sft_catalog *c) {
    size_t have;
    size_t want;
    void *const a = slurp(path, &have);
    void *const b = expected(c, &want);
    assert_int_equal(have, want);
    assert_memory_equal(a, b, want);
    free(a);
    free(b);
}

static void assert_equal_files(const char *x, const char *y) {
    size_t have;
    size_t want;
    void *const a = slurp(x, &have);
    void *const b = slurp(y, &want);
    assert_int_equal(have, want);
    assert_memory_equal(a, b, want);
    free(a);
    free(b);
}

/* ---------------------------------------------------------------- parts */

typedef struct parts {
    sft_catalog *list[MOST];
    sft_job_file files[MOST];
    char names[MOST][32];
    size_t count;
} parts;

static void parts_init(parts *p, const sft_catalog *whole, cuts *c) {
    memset(p, 0, sizeof *p);
    p->count = (size_t)c->ranks;
    for (size_t r = 0; r < p->count; r++) {
        sft_error err;
        if (sft_checkpoint_part(&p->list[r], whole, r, find, c, NULL, &err) != SFT_OK) {
            fail_msg("%s: %s", err.tensor, err.message);
        }
        (void)snprintf(p->names[r], sizeof p->names[r], "rank_%u/m.safetensors", (unsigned)r);
        p->files[r].name = p->names[r];
        p->files[r].catalog = p->list[r];
        p->files[r].flags = SFT_JOB_FILE_METADATA;
    }
}

static void parts_reset(parts *p) {
    for (size_t r = 0; r < p->count; r++) {
        sft_catalog_close(p->list[r]);
    }
}

static const sft_job_text text = {"index.json", "{}\n", 3};

static sft_job *make(const parts *p) {
    sft_job *job;
    sft_error err;
    if (sft_job_create(&job, p->files, p->count, &text, 1, NULL, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    return job;
}

static void run(const sft_job *job, const char *folder, const sft_pool *pool, uint32_t flags) {
    sft_job_run_options options;
    sft_job_result result;
    sft_error err;
    SFT_INIT(&options);
    SFT_INIT(&result);
    options.durability = SFT_DURABLE_NONE;
    options.pool = pool;
    options.flags = flags;
    if (sft_job_run(job, folder, &options, &result, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    assert_int_equal(result.published, 1);
}

/* The ranks' files as one catalog. */
typedef struct joined {
    sft_catalog *list[MOST];
    sft_catalog *whole;
    size_t count;
} joined;

static void joined_open(joined *j, const char *folder, cuts *c) {
    sft_rank_part given[MOST];
    sft_error err;
    j->count = (size_t)c->ranks;
    for (size_t r = 0; r < j->count; r++) {
        char name[32];
        (void)snprintf(name, sizeof name, "rank_%u/m.safetensors", (unsigned)r);
        assert_int_equal(sft_catalog_open(&j->list[r], in_folder(folder, name), NULL, NULL),
                         SFT_OK);
        given[r] = (sft_rank_part){j->list[r], r};
    }
    if (join_find(&j->whole, given, j->count, find, c, NULL, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
}

static void joined_close(joined *j) {
    sft_catalog_close(j->whole);
    for (size_t r = 0; r < j->count; r++) {
        sft_catalog_close(j->list[r]);
    }
}

/* A model cut for five ranks, ready to run. */
typedef struct scene {
    sft_catalog *whole;
    cuts c;
    parts p;
    sft_job *job;
    char target[128];
    char stage[128];
    char reference[128];
    uint64_t bytes; /* of tensors */
} scene;

static void scene_open(scene *s, uint64_t ranks) {
    assert_int_equal(sft_catalog_open(&s->whole, in_folder(base, "whole.safetensors"), NULL, NULL),
                     SFT_OK);
    cuts_init(&s->c, ranks);
    parts_init(&s->p, s->whole, &s->c);
    s->job = make(&s->p);
    (void)snprintf(s->target, sizeof s->target, "%s/target", base);
    (void)snprintf(s->stage, sizeof s->stage, "%s/.target.sft-part", base);
    (void)snprintf(s->reference, sizeof s->reference, "%s/reference%u", base, (unsigned)ranks);
    sft_job_cost cost;
    sft_job_total(s->job, &cost);
    s->bytes = cost.bytes - cost.header_bytes;
    run(s->job, s->reference, NULL, 0);
}

static void scene_close(scene *s) {
    sft_job_free(s->job);
    parts_reset(&s->p);
    cuts_reset(&s->c);
    sft_catalog_close(s->whole);
    folder_remove(s->reference);
    folder_remove(s->target);
    folder_remove(s->stage);
}

static bool is_there(const char *path) {
    return access(path, F_OK) == 0;
}

/* Everything is in place, and nothing else. */
static void assert_complete(const scene *s) {
    DIR *const d = opendir(s->target);
    size_t entries = 0;
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        entries += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    }
    (void)closedir(d);
    assert_int_equal(entries, s->p.count + 1);
    assert_false(is_there(s->stage));
    assert_equal_files(in_folder(s->target, text.name), in_folder(s->reference, text.name));
    for (size_t r = 0; r < s->p.count; r++) {
        assert_equal_files(in_folder(s->target, s->p.names[r]),
                           in_folder(s->reference, s->p.names[r]));
    }
}

static sft_status try_run(const scene *s, const sft_job_run_options *o, sft_job_result *result,
                          sft_error *err) {
    SFT_INIT(result);
    return sft_job_run(s->job, s->target, o, result, err);
}

#endif
