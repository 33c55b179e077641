/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of training runs (<sft/run.h>): what is saved comes back, what does not change is stored
 * once, and a step that is no good is passed over with the reason. The rules: test_run_rules.c. Faults:
 * tests/fault.
 */
#include "checkpoint/run_home.h"

#include <sft/load.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { ROWS = 40, COLUMNS = 33 };
#define BYTES (sizeof(float) * ROWS * COLUMNS)

/* A model of two parameters and their moments, filled from the step. */
typedef struct model {
    float weight[ROWS * COLUMNS];
    float frozen[ROWS * COLUMNS];
    float moment[ROWS * COLUMNS];
    float count;
    uint8_t rng[100];
} model;

static void fill(model *m, uint64_t step) {
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        m->weight[i] = (float)(step * 1000 + i);
        m->frozen[i] = (float)i / 3;
        m->moment[i] = (float)(step * i) / 7;
    }
    m->count = (float)step;
    for (size_t i = 0; i < sizeof m->rng; i++) {
        m->rng[i] = (uint8_t)(step + i);
    }
}

static const uint64_t shape[2] = {ROWS, COLUMNS};

static sft_run_tensor tensor(const char *name, uint32_t part, const void *data, size_t size) {
    return floats(name, part, shape, size == sizeof(float) ? 0 : 2, data, size);
}

static void tensors(sft_run_tensor list[4], const model *m) {
    list[0] = tensor("layer.weight", SFT_RUN_MODEL, m->weight, BYTES);
    list[1] = tensor("embed.weight", SFT_RUN_MODEL, m->frozen, BYTES);
    list[1].flags = SFT_RUN_FROZEN;
    list[2] = tensor("optimizer.exp_avg.layer.weight", SFT_RUN_OPTIMIZER, m->moment, BYTES);
    list[3] = tensor("optimizer.step.layer.weight", SFT_RUN_OPTIMIZER, &m->count, sizeof m->count);
}

static sft_run *open_run(const sft_run_rules *rules) {
    sft_run_options o;
    sft_run *run;
    sft_error err;
    SFT_INIT(&o);
    o.rules = rules;
    o.durability = SFT_DURABLE_NONE;
    if (sft_run_open(&run, path, &o, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    return run;
}

static void describe(sft_run_save *save, const model *m, uint64_t step) {
    sft_run_tensor list[4];
    tensors(list, m);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sft_run_add_tensor(save, &list[i], NULL), SFT_OK);
    }
    assert_int_equal(sft_run_add_f64(save, "lr", 0.1 / (double)(step + 1), NULL), SFT_OK);
    assert_int_equal(sft_run_add_i64(save, "epoch", (int64_t)step / 10, NULL), SFT_OK);
    assert_int_equal(sft_run_add_bool(save, "warm", step % 2 == 0, NULL), SFT_OK);
    assert_int_equal(sft_run_add_text(save, "name", "caf\xc3\xa9 \"x\"\n", 10, NULL), SFT_OK);
    assert_int_equal(sft_run_add_blob(save, "rng.torch", m->rng, sizeof m->rng, NULL), SFT_OK);
    assert_int_equal(sft_run_add_node(save, "loader", "{\"at\": [1, 2]}", 14, NULL), SFT_OK);
    assert_int_equal(sft_run_add_metric(save, "val_loss", 1.0 / (double)(step + 1), NULL), SFT_OK);
    assert_int_equal(sft_run_add_file(save, "config.json", "{}", 2, NULL), SFT_OK);
}

static sft_status save_step(sft_run *run, uint64_t step, uint32_t flags) {
    static model m;
    sft_run_save *save;
    uint64_t ticket = 0;
    const sft_status status = sft_run_begin(&save, run, step, flags, NULL);
    if (status != SFT_OK) {
        return status;
    }
    fill(&m, step);
    describe(save, &m, step);
    assert_int_equal(sft_run_stage(save, &ticket, NULL), SFT_OK);
    memset(&m, 0xff, sizeof m); /* the caller's memory may change from here on */
    return sft_run_wait(run, ticket, SFT_RUN_FOREVER, NULL);
}

static void check_point(const sft_run_point *p, uint64_t step) {
    static model m;
    static model wanted;
    sft_run_tensor list[4];
    sft_error err;
    double lr = 0;
    int64_t epoch = -1;
    int warm = -1;
    const char *text;
    size_t len = 0;
    assert_int_equal(sft_run_point_step(p), step);
    fill(&wanted, step);
    memset(&m, 0, sizeof m);
    tensors(list, &m);
    if (sft_run_point_load(p, list, 4, 0, &err) != SFT_OK) {
        fail_msg("%s: %s", err.tensor, err.message);
    }
    assert_int_equal(sft_run_point_blob(p, "rng.torch", m.rng, sizeof m.rng, &len, NULL), SFT_OK);
    assert_int_equal(len, sizeof m.rng);
    assert_memory_equal(&m, &wanted, sizeof m);
    const double exact = 0.1 / (double)(step + 1);
    assert_int_equal(sft_run_point_f64(p, "lr", &lr, NULL), SFT_OK);
    assert_memory_equal(&lr, &exact, sizeof lr);
    assert_int_equal(sft_run_point_i64(p, "epoch", &epoch, NULL), SFT_OK);
    assert_int_equal(epoch, (int64_t)step / 10);
    assert_int_equal(sft_run_point_bool(p, "warm", &warm, NULL), SFT_OK);
    assert_int_equal(warm, step % 2 == 0);
    assert_int_equal(sft_run_point_text(p, "name", &text, &len, NULL), SFT_OK);
    assert_int_equal(len, 10);
    assert_memory_equal(text, "caf\xc3\xa9 \"x\"\n", 10);
    assert_int_equal(sft_run_point_node(p, "loader", &text, &len, NULL), SFT_OK);
    assert_int_equal(len, 14);
    assert_string_equal(sft_run_point_name(p, 0), "lr");
    assert_null(sft_run_point_name(p, 6));
    assert_int_equal(sft_run_point_metric(p, "val_loss", &lr, NULL), SFT_OK);
}

/* The step that would be resumed, or SFT_RUN_NONE; why: of the newest that was passed over. */
static uint64_t resumed(sft_run_check check, char why[400]) {
    sft_run_resume_options o;
    sft_run_point *p;
    sft_run *const run = open_run(NULL);
    uint64_t step = SFT_RUN_NONE;
    SFT_INIT(&o);
    o.check = check;
    const sft_status status = sft_run_resume(&p, run, &o, NULL);
    if (status == SFT_OK) {
        step = sft_run_point_step(p);
        if (check == SFT_RUN_CHECK_DIGESTS) {
            check_point(p, step);
        }
        sft_run_point_free(p);
    } else {
        assert_int_equal(status, SFT_E_NOT_FOUND);
    }
    const sft_run_step *const skipped = sft_run_skipped(run, 0);
    (void)snprintf(why, 400, "%s", skipped != NULL ? skipped->why : "");
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    return step;
}

static const char *in_step(uint64_t step, const char *name) {
    static char names[4][64];
    static unsigned next;
    char *const text = names[next++ % 4];
    (void)snprintf(text, sizeof names[0], "step-%09llu/%s", (unsigned long long)step, name);
    return in_folder(path, text);
}

/* ---------------------------------------------------------------- there and back */

static void round_trip(void **state) {
    char why[400];
    (void)state;
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), SFT_RUN_NONE);
    sft_run *const run = open_run(NULL);
    assert_int_equal(save_step(run, 100, 0), SFT_OK);
    assert_int_equal(save_step(run, 1000, 0), SFT_OK);
    assert_int_equal(save_step(run, 999, SFT_RUN_REPLACE), SFT_OK);
    assert_int_equal(save_step(run, 1000, 0), SFT_E_EXISTS);
    assert_int_equal(save_step(run, 1000, SFT_RUN_REPLACE), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 1000);
    assert_int_equal(resumed(SFT_RUN_CHECK_SIZES, why), 1000);
    assert_string_equal(why, "");
}

static void many_steps_at_once(void **state) {
    static model m;
    sft_run_options o;
    sft_run_progress progress;
    sft_run *run;
    sft_pool *pool;
    (void)state;
    assert_int_equal(sft_pool_create(&pool, 3, NULL, NULL), SFT_OK);
    SFT_INIT(&o);
    o.pool = pool;
    o.writers = pool;
    o.arenas = 2;
    o.sha256 = 1;
    o.reserve_bytes = 100000;
    assert_int_equal(sft_run_open(&run, path, &o, NULL), SFT_OK);
    sft_run_save *begun;
    assert_int_equal(sft_run_begin(&begun, run, 1, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_begin(&begun, run, 2, 0, NULL), SFT_E_STATE);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK); /* with a save that is begun */
    assert_int_equal(sft_run_open(&run, path, &o, NULL), SFT_OK);
    for (uint64_t step = 1; step <= 6; step++) {
        sft_run_save *save;
        assert_int_equal(sft_run_begin(&save, run, step, 0, NULL), SFT_OK);
        fill(&m, step);
        describe(save, &m, step);
        assert_int_equal(sft_run_stage(save, NULL, NULL), SFT_OK);
    }
    assert_int_equal(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, NULL), SFT_OK);
    SFT_INIT(&progress);
    assert_int_equal(sft_run_poll(run, &progress, NULL), SFT_OK);
    assert_int_equal(progress.pending, 0);
    assert_int_equal(progress.committed, 6);
    assert_true(progress.linked > 5 * BYTES);
    assert_int_equal(sft_run_wait(run, 7, 0, NULL), SFT_E_ARG);
    sft_run_point *p;
    assert_int_equal(sft_run_resume(&p, run, NULL, NULL), SFT_OK);
    check_point(p, 6);
    assert_int_equal(sft_run_point_next(p, "no good", NULL), SFT_OK);
    check_point(p, 5);
    assert_string_equal(sft_run_skipped(run, 0)->why, "no good");
    sft_run_point_free(p);
    assert_int_equal(save_step(run, 6, 0), SFT_OK); /* it was passed over */
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    sft_pool_free(pool);
}

/* ---------------------------------------------------------------- stored once */

static ino_t inode(const char *file, nlink_t *links) {
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    *links = st.st_nlink;
    return st.st_ino;
}

static void frozen_files_are_linked(void **state) {
    static const char frozen[] = "model-00002-of-00002.safetensors";
    static const char trained[] = "model-00001-of-00002.safetensors";
    nlink_t links;
    char why[400];
    (void)state;
    sft_run *run = open_run(NULL);
    assert_int_equal(save_step(run, 1, 0), SFT_OK);
    assert_int_equal(save_step(run, 2, 0), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    run = open_run(NULL);
    assert_int_equal(save_step(run, 3, 0), SFT_OK);
    const ino_t first = inode(in_step(1, frozen), &links);
    assert_int_equal(links, 3);
    assert_true(inode(in_step(2, frozen), &links) == first);
    assert_true(inode(in_step(3, frozen), &links) == first);
    assert_true(inode(in_step(1, trained), &links) != inode(in_step(2, trained), &links));
    assert_int_equal(links, 1);
    /* each is complete by itself */
    assert_int_equal(unlink(in_step(1, frozen)), 0);
    assert_int_equal(unlink(in_step(2, frozen)), 0);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 3);
}

/* A file that is damaged is not handed on, even if its size and time are right. */
static void damage_is_not_linked(void **state) {
    static const char frozen[] = "model-00002-of-00002.safetensors";
    nlink_t links;
    (void)state;
    sft_run *const run = open_run(NULL);
    assert_int_equal(save_step(run, 1, 0), SFT_OK);
    const int fd = open(in_step(1, frozen), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "\x56", 1, 4096 + 100), 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(save_step(run, 2, 0), SFT_OK);
    (void)inode(in_step(2, frozen), &links);
    assert_int_equal(links, 1);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

static void shards_and_index(void **state) {
    sft_run_options o;
    sft_run *run;
    sft_catalog *c;
    char why[400];
    (void)state;
    SFT_INIT(&o);
    o.shard_bytes = 1000;
    o.durability = SFT_DURABLE_NONE;
    assert_int_equal(sft_run_open(&run, path, &o, NULL), SFT_OK);
    assert_int_equal(save_step(run, 5, 0), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(access(in_step(5, "optimizer.safetensors.index.json"), F_OK), 0);
    assert_int_equal(access(in_step(5, "optimizer-00002-of-00002.safetensors"), F_OK), 0);
    assert_int_equal(access(in_step(5, "state.safetensors"), F_OK), 0);
    assert_int_equal(access(in_step(5, "config.json"), F_OK), 0);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 5);
    /* the model is a plain Hugging Face directory */
    assert_int_equal(sft_catalog_open(&c, in_step(5, "model.safetensors.index.json"), NULL, NULL),
                     SFT_OK);
    assert_int_equal(sft_catalog_count(c), 2);
    sft_catalog_close(c);
}

/* ---------------------------------------------------------------- steps that are no good */

static void two_steps(void) {
    sft_run *const run = open_run(NULL);
    assert_int_equal(save_step(run, 1, 0), SFT_OK);
    assert_int_equal(save_step(run, 2, 0), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

static void passes_over(const char *words, sft_run_check check) {
    char why[400];
    assert_int_equal(resumed(check, why), 1);
    if (strstr(why, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", why, words);
    }
}

static void flip(const char *file, long at) {
    FILE *const f = fopen(file, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(c ^ 1, f), EOF);
    assert_int_equal(fclose(f), 0);
}

/* To prune is to keep something good, though nobody has resumed. */
static void prune_keeps_a_good_one(void **state) {
    sft_run_rules rules;
    char why[400];
    uint64_t removed = 9;
    (void)state;
    SFT_INIT(&rules);
    rules.keep_last = 1;
    sft_run *run = open_run(NULL);
    assert_int_equal(save_step(run, 0, 0), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    two_steps();
    flip(in_step(2, "optimizer.safetensors"), -5);
    run = open_run(&rules);
    assert_int_equal(sft_run_prune(run, &removed, NULL), SFT_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 1);
}

/* A damaged step of the right size, and steps that a resume went back behind, push out nothing good. */
static void the_last_good_one_stays(void **state) {
    sft_run_resume_options o;
    sft_run_rules rules;
    sft_run_point *p;
    char why[400];
    (void)state;
    SFT_INIT(&rules);
    rules.keep_last = 1;
    SFT_INIT(&o);
    two_steps();
    flip(in_step(2, "optimizer.safetensors"), -5);
    sft_run *run = open_run(&rules);
    assert_int_equal(save_step(run, 1, 0), SFT_E_EXISTS);
    assert_int_equal(sft_run_resume(&p, run, NULL, NULL), SFT_OK);
    assert_int_equal(sft_run_point_step(p), 1);
    sft_run_point_free(p);
    assert_int_equal(sft_run_prune(run, NULL, NULL), SFT_OK);
    assert_int_equal(access(in_step(1, "manifest.json"), F_OK), 0);
    assert_int_equal(save_step(run, 2, 0), SFT_OK); /* whole again, and counts */
    assert_int_not_equal(access(in_step(1, ""), F_OK), 0);
    assert_int_equal(save_step(run, 3, 0), SFT_OK);
    assert_int_equal(save_step(run, 2, 0), SFT_E_EXISTS);
    assert_int_equal(save_step(run, 2, SFT_RUN_REPLACE),
                     SFT_OK); /* older: the last that was saved */
    assert_int_equal(sft_run_prune(run, NULL, NULL), SFT_OK);
    assert_int_equal(access(in_step(2, "manifest.json"), F_OK), 0);
    assert_int_equal(access(in_step(3, "manifest.json"), F_OK), 0);
    assert_int_equal(save_step(run, 1, SFT_RUN_REPLACE), SFT_OK);
    assert_int_not_equal(access(in_step(2, ""), F_OK), 0);
    o.step = 1;
    o.exact = 1;
    assert_int_equal(sft_run_resume(&p, run, &o, NULL), SFT_OK);
    sft_run_point_free(p);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 3); /* it always takes the newest */
}

static void cut_files(void **state) {
    (void)state;
    two_steps();
    assert_int_equal(truncate(in_step(2, "optimizer.safetensors"), 5000), 0);
    passes_over("optimizer.safetensors has 5000 bytes", SFT_RUN_CHECK_SIZES);
    passes_over("optimizer.safetensors has 5000 bytes", SFT_RUN_CHECK_DIGESTS);
}

static void half_deleted(void **state) {
    (void)state;
    two_steps();
    assert_int_equal(unlink(in_step(2, "state.json")), 0);
    passes_over("state.json is missing", SFT_RUN_CHECK_SIZES);
    assert_int_equal(unlink(in_step(2, "manifest.json")), 0);
    passes_over("there is no manifest.json", SFT_RUN_CHECK_SIZES);
}

static void edited_files(void **state) {
    (void)state;
    two_steps();
    flip(in_step(2, "model-00001-of-00002.safetensors"), -5);
    passes_over("model-00001-of-00002.safetensors is damaged", SFT_RUN_CHECK_DIGESTS);
    flip(in_step(2, "model-00001-of-00002.safetensors"), -5);
    flip(in_step(2, "config.json"), 0);
    passes_over("config.json is damaged", SFT_RUN_CHECK_DIGESTS);
    flip(in_step(2, "state.json"), 0); /* no JSON any more */
    passes_over("state.json is damaged", SFT_RUN_CHECK_SIZES);
}

static void edited_manifests(void **state) {
    char why[400];
    (void)state;
    two_steps();
    for (long at = 0; at < 400; at += 7) { /* every part of it is covered */
        flip(in_step(2, "manifest.json"), at);
        assert_int_equal(resumed(SFT_RUN_CHECK_SIZES, why), 1);
        flip(in_step(2, "manifest.json"), at);
    }
    assert_int_equal(resumed(SFT_RUN_CHECK_SIZES, why), 2);
    for (long size = 0; size < 300; size += 11) {
        char name[4700];
        (void)snprintf(name, sizeof name, "%s", in_step(2, "manifest.json"));
        assert_int_equal(truncate(name, 300 - size), 0);
        assert_int_equal(resumed(SFT_RUN_CHECK_SIZES, why), 1);
    }
}

static void renamed_steps(void **state) {
    char why[400];
    (void)state;
    two_steps();
    assert_int_equal(rename(in_folder(path, "step-000000002"), in_folder(path, "step-000000007")),
                     0);
    passes_over("its manifest is that of step 2", SFT_RUN_CHECK_SIZES);
    assert_int_equal(rename(in_folder(path, "step-000000007"), in_folder(path, "step-7")), 0);
    assert_int_equal(resumed(SFT_RUN_CHECK_SIZES, why), 1);
    assert_string_equal(why, ""); /* no name of a step */
}

static void links_are_no_files_of_a_step(void **state) {
    (void)state;
    two_steps();
    assert_int_equal(rename(in_step(2, "state.json"), in_folder(base, "state.json")), 0);
    assert_int_equal(symlink("../../state.json", in_step(2, "state.json")), 0);
    passes_over("state.json is missing, or no file", SFT_RUN_CHECK_SIZES);
    assert_int_equal(symlink("step-000000001", in_folder(path, "step-000000003")), 0);
    passes_over("it is no directory of its own", SFT_RUN_CHECK_SIZES);
}

/* What lies behind a link is somebody else's, wherever the link stands. */
static void nothing_behind_a_link_is_removed(void **state) {
    static const char *const links[] = {"step-000000001", ".step-000000004.sft-part",
                                        ".step-000000004.sft-gone", "step-000000004"};
    sft_run_rules rules;
    sft_run_save *save;
    (void)state;
    two_steps();
    assert_int_equal(rename(in_step(1, ""), in_folder(base, "elsewhere")), 0);
    assert_int_equal(symlink("../elsewhere", in_folder(path, links[0])), 0);
    SFT_INIT(&rules);
    rules.keep_last = 1;
    sft_run *const run = open_run(&rules);
    assert_int_equal(save_step(run, 3, 0), SFT_OK);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(symlink("../elsewhere", in_folder(path, links[i])), 0);
    }
    assert_int_equal(sft_run_begin(&save, run, 4, 0, NULL), SFT_E_EXISTS);
    assert_int_equal(save_step(run, 4, SFT_RUN_REPLACE), SFT_OK);
    assert_int_equal(save_step(run, 5, 0), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(symlink("../elsewhere", in_folder(path, links[1])), 0);
    char why[400];
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 5);
    assert_int_equal(access(in_folder(base, "elsewhere/manifest.json"), F_OK), 0);
    assert_int_equal(access(in_folder(base, "elsewhere/state.json"), F_OK), 0);
    assert_int_equal(access(in_step(1, "manifest.json"), F_OK), 0); /* the link itself stays */
    assert_int_not_equal(access(in_step(4, ""), F_OK), 0);
    assert_int_not_equal(access(in_folder(path, links[1]), F_OK), 0);
}

static void steps_of_another_run(void **state) {
    char first[96];
    char why[400];
    (void)state;
    two_steps();
    (void)snprintf(first, sizeof first, "%s", path);
    (void)snprintf(path, sizeof path, "%s/other", base);
    sft_run *const run = open_run(NULL);
    assert_int_equal(save_step(run, 9, 0), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(rename(in_step(9, ""), in_folder(first, "step-000000009")), 0);
    (void)snprintf(path, sizeof path, "%s", first);
    assert_int_equal(resumed(SFT_RUN_CHECK_SIZES, why), 2);
    assert_non_null(strstr(why, "it is a step of another run"));
    sft_run_save *save;
    sft_run_point *point;
    sft_run *const again = open_run(NULL);
    assert_int_equal(sft_run_resume(&point, again, NULL, NULL), SFT_OK); /* passes it over */
    sft_run_point_free(point);
    assert_int_equal(sft_run_begin(&save, again, 9, 0, NULL), SFT_E_EXISTS); /* it is not ours */
    assert_int_equal(sft_run_close(again, NULL), SFT_OK);
    /* without run.json the newest complete step says which run it is */
    assert_int_equal(unlink(in_folder(path, "run.json")), 0);
    (void)resumed(SFT_RUN_CHECK_SIZES, why);
    assert_int_equal(access(in_folder(path, "run.json"), F_OK), 0);
}

static void another_model(void **state) {
    static model m;
    sft_run_tensor list[4];
    sft_run_point *p;
    sft_error err;
    const uint64_t other[2] = {COLUMNS, ROWS};
    (void)state;
    two_steps();
    sft_run *const run = open_run(NULL);
    assert_int_equal(sft_run_resume(&p, run, NULL, NULL), SFT_OK);
    tensors(list, &m);
    list[0].shape = other;
    assert_int_equal(sft_run_point_load(p, list, 4, 0, &err), SFT_E_SHAPE);
    assert_string_equal(err.tensor, "layer.weight");
    assert_non_null(strstr(err.message, "[40, 33]"));
    assert_non_null(strstr(err.message, "[33, 40]"));
    tensors(list, &m);
    list[3].name = "optimizer.step.layer.weigth";
    list[3].name_len = strlen(list[3].name);
    assert_int_equal(sft_run_point_load(p, list, 4, 0, &err), SFT_E_NOT_FOUND);
    assert_int_equal(sft_run_point_load(p, list, 4, SFT_GROUP_MISSING, &err), SFT_OK);
    static const uint64_t sizes[] = {0, 1, 100000};
    for (size_t i = 0; i < 3; i++) { /* what is not all of it is not loaded in silence */
        tensors(list, &m);
        list[0].nbytes = sizes[i];
        assert_int_equal(sft_run_point_load(p, list, 4, 0, &err), SFT_E_ARG);
    }
    tensors(list, &m);
    list[0].struct_size = 8;
    assert_int_equal(sft_run_point_load(p, list, 1, 0, &err), SFT_E_ARG);
    double number;
    int64_t integer;
    assert_int_equal(sft_run_point_f64(p, "epoch", &number, &err), SFT_E_MISMATCH);
    assert_int_equal(sft_run_point_i64(p, "lr", &integer, &err), SFT_E_MISMATCH);
    assert_int_equal(sft_run_point_f64(p, "none", &number, &err), SFT_E_NOT_FOUND);
    sft_run_point_free(p);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* With sizes alone the load finds the damage, and the next older step is taken. */
static void damage_found_while_loading(void **state) {
    static model m;
    sft_run_resume_options o;
    sft_run_tensor list[4];
    sft_run_point *p;
    sft_error err;
    (void)state;
    two_steps();
    flip(in_step(2, "optimizer.safetensors"), -9);
    sft_run *const run = open_run(NULL);
    SFT_INIT(&o);
    o.check = SFT_RUN_CHECK_SIZES;
    assert_int_equal(sft_run_resume(&p, run, &o, NULL), SFT_OK);
    assert_int_equal(sft_run_point_step(p), 2);
    tensors(list, &m);
    assert_int_equal(sft_run_point_load(p, list, 4, 0, &err), SFT_E_MISMATCH);
    assert_int_equal(sft_run_point_next(p, err.message, NULL), SFT_OK);
    check_point(p, 1);
    assert_int_equal(sft_run_point_next(p, "tried", NULL), SFT_E_NOT_FOUND);
    sft_run_point_free(p);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* ---------------------------------------------------------------- who may, and when it fails */

static void one_writer(void **state) {
    sft_run_options o;
    sft_run *other;
    sft_run_save *save;
    int status = 0;
    (void)state;
    sft_run *const run = open_run(NULL);
    assert_int_equal(save_step(run, 1, 0), SFT_OK);
    const pid_t child = fork();
    if (child == 0) {
        SFT_INIT(&o);
        _exit(sft_run_open(&other, path, &o, NULL) == SFT_E_STATE ? 7 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    SFT_INIT(&o);
    o.flags = SFT_RUN_READ_ONLY;
    assert_int_equal(sft_run_open(&other, path, &o, NULL), SFT_OK); /* who reads may */
    assert_int_equal(sft_run_begin(&save, other, 5, 0, NULL), SFT_E_STATE);
    assert_int_equal(sft_run_prune(other, NULL, NULL), SFT_E_STATE);
    assert_int_equal(sft_run_close(other, NULL), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* Training goes on; the next call says what happened, once; older steps are whole. */
static void failures_are_told_once(void **state) {
    sft_run_save *save;
    static model m;
    uint64_t ticket;
    sft_error err;
    char why[400];
    (void)state;
    sft_run *const run = open_run(NULL);
    assert_int_equal(save_step(run, 1, 0), SFT_OK);
    write_file(in_folder(path, ".step-000000002.sft-part"), "", 0); /* nothing can be made there */
    assert_int_equal(sft_run_begin(&save, run, 2, 0, NULL), SFT_OK);
    fill(&m, 2);
    describe(save, &m, 2);
    assert_int_equal(sft_run_stage(save, &ticket, NULL), SFT_OK);
    while (sft_run_poll(run, NULL, &err) == SFT_OK) {
    }
    assert_int_equal(err.status, SFT_E_IO);
    assert_int_equal(sft_run_poll(run, NULL, NULL), SFT_OK); /* once */
    assert_int_equal(sft_run_wait(run, ticket, SFT_RUN_FOREVER, NULL),
                     SFT_E_IO); /* of a ticket: always */
    assert_int_equal(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, NULL), SFT_OK);
    assert_int_equal(save_step(run, 3, 0), SFT_OK);
    assert_int_equal(sft_run_begin(&save, run, 2, SFT_RUN_REPLACE, NULL), SFT_OK);
    describe(save, &m, 2);
    assert_int_equal(sft_run_stage(save, NULL, NULL), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_E_IO); /* at the latest here */
    assert_int_equal(unlink(in_folder(path, ".step-000000002.sft-part")), 0);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 3);
}

static void the_directory_vanishes(void **state) {
    (void)state;
    sft_run *const run = open_run(NULL);
    assert_int_equal(save_step(run, 1, 0), SFT_OK);
    folder_remove(path);
    assert_int_not_equal(save_step(run, 2, 0), SFT_OK);
    (void)!sft_run_close(run, NULL);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void leftovers_go(void **state) {
    char why[400];
    (void)state;
    two_steps();
    assert_int_equal(mkdir(in_folder(path, ".step-000000003.sft-part"), 0700), 0);
    write_file(in_folder(path, ".step-000000003.sft-part/model.safetensors"), "x", 1);
    /* killed between the two renames of a replacement: the old one comes back */
    assert_int_equal(
        rename(in_folder(path, "step-000000002"), in_folder(path, ".step-000000002.sft-gone")), 0);
    /* killed while it was removed */
    assert_int_equal(mkdir(in_folder(path, ".step-000000004.sft-gone"), 0700), 0);
    write_file(in_folder(path, ".step-000000004.sft-gone/a"), "x", 1);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 2);
    assert_int_not_equal(access(in_folder(path, ".step-000000003.sft-part"), F_OK), 0);
    assert_int_not_equal(access(in_folder(path, ".step-000000004.sft-gone"), F_OK), 0);
}

static sft_status fill_from(void *ctx, uint64_t offset, void *dst, size_t size, sft_error *err) {
    if (ctx == NULL) {
        return sft_error_set(err, SFT_E_IO, 0, "no paper");
    }
    memcpy(dst, (const uint8_t *)ctx + offset, size);
    return SFT_OK;
}

static sft_status copy_from(void *ctx, void *dst, uint64_t address, size_t size, sft_error *err) {
    (void)err;
    ++*(int *)ctx;
    memcpy(dst, (const void *)(uintptr_t)address, size);
    return SFT_OK;
}

/* Functions and a device's memory. */
static void other_memory(void **state) {
    static model m;
    sft_run_options o;
    sft_copier copier;
    sft_run_tensor list[4];
    sft_run *run;
    sft_run_save *save;
    sft_error err;
    int copies = 0;
    char why[400];
    (void)state;
    SFT_INIT(&copier);
    copier.copy = copy_from;
    copier.ctx = &copies;
    SFT_INIT(&o);
    o.copier = &copier;
    assert_int_equal(sft_run_open(&run, path, &o, NULL), SFT_OK);
    assert_int_equal(sft_run_begin(&save, run, 8, 0, NULL), SFT_OK);
    fill(&m, 8);
    tensors(list, &m);
    list[1].fill = fill_from;
    assert_int_equal(sft_run_add_tensor(save, &list[1], NULL), SFT_E_ARG); /* both */
    list[1].data = NULL;
    assert_int_equal(sft_run_add_tensor(save, &list[1], NULL), SFT_OK);
    assert_int_equal(sft_run_stage(save, NULL, &err), SFT_E_IO);
    assert_string_equal(err.tensor, "embed.weight");
    assert_int_equal(sft_run_begin(&save, run, 8, 0, NULL), SFT_OK);
    describe(save, &m, 8);
    list[1].fill_ctx = m.frozen;
    list[1].name = "filled";
    list[1].name_len = 6;
    assert_int_equal(sft_run_add_tensor(save, &list[1], NULL), SFT_OK);
    list[2].data = NULL;
    list[2].address = (uint64_t)(uintptr_t)m.moment;
    list[2].name = "optimizer.x.y";
    list[2].name_len = strlen(list[2].name);
    assert_int_equal(sft_run_add_tensor(save, &list[2], NULL), SFT_OK);
    assert_int_equal(sft_run_stage(save, NULL, NULL), SFT_OK);
    assert_int_equal(copies, 1);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(resumed(SFT_RUN_CHECK_DIGESTS, why), 8);
}

static void what_is_refused(void **state) {
    static model m;
    sft_run_tensor list[4];
    sft_run_save *save;
    sft_error err;
    (void)state;
    sft_run *const run = open_run(NULL);
    assert_int_equal(sft_run_begin(&save, run, UINT64_C(1) << 53, 0, NULL), SFT_E_ARG);
    assert_int_equal(sft_run_begin(&save, run, 1, 0, NULL), SFT_OK);
    tensors(list, &m);
    list[0].nbytes--;
    assert_int_equal(sft_run_add_tensor(save, &list[0], NULL), SFT_E_ARG);
    list[2].part = SFT_RUN_STATE;
    assert_int_equal(sft_run_add_tensor(save, &list[2], NULL), SFT_E_ARG);
    assert_int_equal(sft_run_add_node(save, "n", "{\"a\": }", 7, NULL), SFT_E_JSON);
    assert_int_equal(sft_run_add_node(save, "n", "1 2", 3, NULL), SFT_E_JSON);
    assert_int_equal(sft_run_add_node(save, "n", "\"\xff\"", 3, NULL), SFT_E_JSON);
    assert_int_equal(sft_run_add_file(save, "manifest.json", "", 0, NULL), SFT_E_ARG);
    assert_int_equal(sft_run_add_file(save, "../x", "", 0, NULL), SFT_E_ARG);
    assert_int_equal(sft_run_add_file(save, ".hidden", "", 0, NULL), SFT_E_ARG);
    assert_int_equal(sft_run_add_file(save, "model.safetensors", "", 0, NULL), SFT_E_ARG);
    assert_int_equal(sft_run_add_text(save, "t", "\xff", 1, NULL), SFT_E_ARG);
    describe(save, &m, 1);
    describe(save, &m, 1);
    assert_int_equal(sft_run_stage(save, NULL, &err), SFT_E_DUPLICATE);
    assert_int_equal(sft_run_begin(&save, run, 1, 0, NULL), SFT_OK); /* the one before is freed */
    sft_run_save_free(save);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* What no reader would take is not staged: a name given twice, a state.json that is too long. */
static void what_could_not_be_read(void **state) {
    enum { SIZE = 100 * 1000 * 1000 };
    sft_run_save *save;
    sft_error err;
    (void)state;
    sft_run *const run = open_run(NULL);
    for (int what = 0; what < 4; what++) {
        assert_int_equal(sft_run_begin(&save, run, 1, 0, NULL), SFT_OK);
        for (int twice = 0; twice < 2; twice++) {
            assert_int_equal(what == 0   ? sft_run_add_f64(save, "a", 1, NULL)
                             : what == 1 ? sft_run_add_metric(save, "a", 1, NULL)
                             : what == 2 ? sft_run_add_file(save, "a", "1", 1, NULL)
                                         : sft_run_add_i64(save, "b", 1, NULL),
                             SFT_OK);
        }
        assert_int_equal(sft_run_stage(save, NULL, &err), SFT_E_DUPLICATE);
    }
    char *const text = calloc(1, SIZE);
    assert_non_null(text);
    memset(text, 'x', SIZE);
    assert_int_equal(sft_run_begin(&save, run, 1, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_add_text(save, "log", text, SIZE, NULL), SFT_OK);
    assert_int_equal(sft_run_stage(save, NULL, &err), SFT_E_LIMIT);
    free(text);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* A step of nothing but numbers. */
static void without_tensors(void **state) {
    sft_run_save *save;
    sft_run_point *p;
    int64_t value = 0;
    (void)state;
    sft_run *const run = open_run(NULL);
    assert_int_equal(sft_run_begin(&save, run, 0, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_add_i64(save, "least", INT64_MIN, NULL), SFT_OK);
    assert_int_equal(sft_run_add_i64(save, "most", INT64_MAX, NULL), SFT_OK);
    assert_int_equal(sft_run_stage(save, NULL, NULL), SFT_OK);
    assert_int_equal(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, NULL), SFT_OK);
    assert_int_equal(sft_run_resume(&p, run, NULL, NULL), SFT_OK);
    assert_int_equal(sft_run_point_i64(p, "least", &value, NULL), SFT_OK);
    assert_true(value == INT64_MIN);
    assert_int_equal(sft_run_point_i64(p, "most", &value, NULL), SFT_OK);
    assert_true(value == INT64_MAX);
    assert_int_equal(sft_catalog_count(sft_run_point_catalog(p)), 0);
    sft_run_point_free(p);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(round_trip),
        IN_FOLDER(many_steps_at_once),
        IN_FOLDER(frozen_files_are_linked),
        IN_FOLDER(damage_is_not_linked),
        IN_FOLDER(shards_and_index),
        IN_FOLDER(prune_keeps_a_good_one),
        IN_FOLDER(the_last_good_one_stays),
        IN_FOLDER(cut_files),
        IN_FOLDER(half_deleted),
        IN_FOLDER(edited_files),
        IN_FOLDER(edited_manifests),
        IN_FOLDER(renamed_steps),
        IN_FOLDER(links_are_no_files_of_a_step),
        IN_FOLDER(nothing_behind_a_link_is_removed),
        IN_FOLDER(steps_of_another_run),
        IN_FOLDER(another_model),
        IN_FOLDER(damage_found_while_loading),
        IN_FOLDER(one_writer),
        IN_FOLDER(failures_are_told_once),
        IN_FOLDER(the_directory_vanishes),
        IN_FOLDER(leftovers_go),
        IN_FOLDER(other_memory),
        IN_FOLDER(what_is_refused),
        IN_FOLDER(what_could_not_be_read),
        IN_FOLDER(without_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
