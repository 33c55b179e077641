/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of runs in which a training goes on from an older step, and of readers beside a writer: what is
 * refused, what a rewind removes, and that a step which is there is found.
 */
#include "checkpoint/run_home.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

static const uint64_t shape[1] = {64};

static sft_run *open_run(uint32_t flags, const sft_run_rules *rules) {
    sft_run_options o;
    sft_run *run;
    sft_error err;
    SFT_INIT(&o);
    o.rules = rules;
    o.durability = SFT_DURABLE_NONE;
    o.flags = flags;
    if (sft_run_open(&run, path, &o, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    return run;
}

static sft_status begin_step(sft_run *run, uint64_t step, uint32_t flags, sft_error *err) {
    static float values[64];
    sft_run_save *save;
    const sft_status status = sft_run_begin(&save, run, step, flags, err);
    if (status != SFT_OK) {
        return status;
    }
    for (size_t i = 0; i < 64; i++) {
        values[i] = (float)(step + i);
    }
    const sft_run_tensor t = floats("w", SFT_RUN_MODEL, shape, 1, values, sizeof values);
    assert_int_equal(sft_run_add_tensor(save, &t, NULL), SFT_OK);
    assert_int_equal(sft_run_add_metric(save, "loss", (double)step, NULL), SFT_OK);
    return sft_run_stage(save, NULL, err);
}

static sft_status save_step(sft_run *run, uint64_t step, uint32_t flags, sft_error *err) {
    const sft_status status = begin_step(run, step, flags, err);
    return status == SFT_OK ? sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, err) : status;
}

static const char *in_step(uint64_t step, const char *name) {
    static char names[8][96];
    static unsigned next;
    char *const text = names[next++ % 8];
    (void)snprintf(text, sizeof names[0], "step-%09llu/%s", (unsigned long long)step, name);
    return in_folder(path, text);
}

static bool is_there(uint64_t step) {
    return access(in_step(step, "manifest.json"), F_OK) == 0;
}

static void flip(const char *file) {
    FILE *const f = fopen(file, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -5, SEEK_END), 0);
    const int old = fgetc(f);
    assert_int_equal(fseek(f, -5, SEEK_END), 0);
    assert_int_equal(fputc(old ^ 0x10, f), old ^ 0x10);
    assert_int_equal(fclose(f), 0);
}

/* The newest step, by a resume; SFT_RUN_NONE: none. */
static uint64_t newest(sft_run *run) {
    sft_run_point *p;
    if (sft_run_resume(&p, run, NULL, NULL) != SFT_OK) {
        return SFT_RUN_NONE;
    }
    const uint64_t step = sft_run_point_step(p);
    sft_run_point_free(p);
    return step;
}

static void assert_latest(const char *wanted) {
    char text[64] = "";
    FILE *const f = fopen(in_folder(path, "latest"), "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    (void)fclose(f);
    assert_string_equal(text, wanted);
}

/* ---------------------------------------------------------------- below the newest */

static void a_step_below_the_newest_is_refused(void **state) {
    sft_error err;
    (void)state;
    sft_run *const run = open_run(0, NULL);
    assert_int_equal(save_step(run, 10, 0, NULL), SFT_OK);
    assert_int_equal(begin_step(run, 20, 0, NULL), SFT_OK); /* perhaps still being written */
    assert_int_equal(save_step(run, 15, 0, &err), SFT_E_EXISTS);
    assert_non_null(strstr(err.message, "step 15 comes before step 20"));
    assert_non_null(strstr(err.message, "rewind"));
    assert_int_equal(save_step(run, 20, 0, &err), SFT_E_EXISTS);
    assert_false(is_there(15));
    assert_int_equal(save_step(run, 15, SFT_RUN_REPLACE, NULL), SFT_OK); /* as asked for */
    assert_int_equal(save_step(run, 25, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* What resume has passed over is no hindrance, and is saved anew; so is what a list has compared. */
static void a_damaged_newer_step_is_no_hindrance(void **state) {
    sft_run_rules rules;
    sft_run_list *list;
    (void)state;
    SFT_INIT(&rules);
    rules.keep_last = 2;
    for (int compared = 0; compared < 2; compared++) {
        sft_run *run = open_run(0, &rules);
        assert_int_equal(sft_run_rewind(run, SFT_RUN_NONE, NULL, NULL), SFT_OK);
        assert_int_equal(save_step(run, 10, 0, NULL), SFT_OK);
        assert_int_equal(save_step(run, 20, 0, NULL), SFT_OK);
        assert_int_equal(sft_run_close(run, NULL), SFT_OK);
        flip(in_step(20, "model.safetensors"));
        run = open_run(0, &rules);
        assert_int_equal(save_step(run, 15, 0, NULL), SFT_E_EXISTS);
        if (compared == 0) {
            assert_int_equal(newest(run), 10);
        } else {
            assert_int_equal(
                sft_run_list_make(&list, run, SFT_RUN_NONE, SFT_RUN_LIST_VERIFY, NULL, NULL),
                SFT_OK);
            sft_run_list_free(list);
        }
        assert_int_equal(save_step(run, 15, 0, NULL), SFT_OK);
        assert_true(is_there(10) && is_there(15));
        assert_int_equal(newest(run), 15);
        assert_int_equal(save_step(run, 20, 0, NULL), SFT_OK);
        assert_int_equal(newest(run), 20);
        assert_int_equal(save_step(run, 17, 0, NULL), SFT_E_EXISTS); /* it is whole again */
        assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    }
}

/* One that is being written is waited for, and then replaced. */
static void a_step_is_saved_twice(void **state) {
    (void)state;
    sft_run *const run = open_run(0, NULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(begin_step(run, 7, SFT_RUN_REPLACE, NULL), SFT_OK);
    }
    assert_int_equal(sft_run_wait(run, SFT_RUN_ALL, SFT_RUN_FOREVER, NULL), SFT_OK);
    assert_int_equal(newest(run), 7);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* A copy made by links, as backups are. */
static void a_copy_by_links_opens(void **state) {
    (void)state;
    sft_run *run = open_run(0, NULL);
    assert_int_equal(save_step(run, 1, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(link(in_folder(path, ".sft-run.lock"), in_folder(base, "other")), 0);
    run = open_run(0, NULL);
    assert_int_equal(save_step(run, 2, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* ---------------------------------------------------------------- rewind */

static void a_rewind_removes_what_is_above(void **state) {
    uint64_t removed = 9;
    sft_error err;
    (void)state;
    sft_run *run = open_run(0, NULL);
    for (uint64_t step = 10; step <= 50; step += 10) {
        assert_int_equal(save_step(run, step, 0, NULL), SFT_OK);
    }
    assert_int_equal(mkdir(in_folder(path, "step-000000060"), 0700), 0); /* incomplete */
    assert_int_equal(symlink("nowhere", in_folder(path, "step-000000070")), 0);
    flip(in_step(40, "model.safetensors"));
    assert_int_equal(sft_run_rewind(run, 25, &removed, &err), SFT_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "25"));
    assert_int_equal(removed, 0);
    assert_int_equal(sft_run_rewind(run, 30, &removed, NULL), SFT_OK);
    assert_int_equal(removed, 2);
    assert_true(is_there(10) && is_there(20) && is_there(30) && !is_there(40) && !is_there(50));
    assert_int_equal(access(in_step(60, ""), F_OK), 0);
    assert_latest("step-000000030\n");
    assert_int_equal(save_step(run, 35, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_rewind(run, 35, &removed, NULL), SFT_OK); /* nothing to do */
    assert_int_equal(removed, 0);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    run = open_run(0, NULL);
    assert_int_equal(newest(run), 35);
    assert_int_equal(sft_run_rewind(run, SFT_RUN_NONE, &removed, NULL), SFT_OK);
    assert_int_equal(removed, 4);
    assert_int_not_equal(access(in_folder(path, "latest"), F_OK), 0);
    assert_int_equal(newest(run), SFT_RUN_NONE);
    assert_int_equal(save_step(run, 1, 0, NULL), SFT_OK);
    assert_latest("step-000000001\n");
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    run = open_run(SFT_RUN_READ_ONLY, NULL);
    assert_int_equal(sft_run_rewind(run, 1, NULL, NULL), SFT_E_STATE);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* What training goes on from must be good: then alone what is newer can go. */
static void a_rewind_to_damage_is_refused(void **state) {
    uint64_t removed = 9;
    sft_error err;
    (void)state;
    sft_run *const run = open_run(0, NULL);
    for (uint64_t step = 10; step <= 40; step += 10) {
        assert_int_equal(save_step(run, step, 0, NULL), SFT_OK);
    }
    flip(in_step(20, "model.safetensors"));
    assert_int_equal(sft_run_rewind(run, 20, &removed, &err), SFT_E_MISMATCH);
    assert_non_null(
        strstr(err.message, "step 20 cannot be rewound to: model.safetensors is damaged"));
    assert_int_equal(removed, 0);
    assert_true(is_there(20) && is_there(30) && is_there(40));
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* A rewind that was decided on and killed, or failed: the steps above are for nobody, and go; what a failed
 * removal had left of them goes, too. */
static void a_rewind_is_ended(void **state) {
    uint64_t removed = 9;
    (void)state;
    sft_run *run = open_run(0, NULL);
    for (uint64_t step = 10; step <= 40; step += 10) {
        assert_int_equal(save_step(run, step, 0, NULL), SFT_OK);
    }
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    FILE *const mark = fopen(in_folder(path, ".step-000000020.sft-back"), "wb");
    assert_non_null(mark);
    (void)fclose(mark);
    run = open_run(SFT_RUN_READ_ONLY, NULL);
    assert_int_equal(newest(run), 20);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    run = open_run(0, NULL);
    assert_true(is_there(20) && !is_there(30) && !is_there(40));
    assert_latest("step-000000020\n");
    assert_int_equal(save_step(run, 30, 0, NULL), SFT_OK);
    assert_int_equal(rename(in_step(30, ""), in_folder(path, ".step-000000030.sft-gone")), 0);
    assert_int_equal(sft_run_rewind(run, 20, &removed, NULL), SFT_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(unlink(in_folder(path, "latest")), 0);
    assert_int_equal(sft_run_rewind(run, 20, &removed, NULL), SFT_OK);
    assert_latest("step-000000020\n"); /* which an earlier call may have failed to write */
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    (void)fclose(fopen(in_folder(path, ".latest.tmp.0123456789abcdef"), "wb"));
    run = open_run(0, NULL);
    assert_int_equal(newest(run), 20);
    assert_int_not_equal(access(in_folder(path, ".latest.tmp.0123456789abcdef"), F_OK), 0);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* ---------------------------------------------------------------- readers beside a writer */

/* Saves until it is killed: the same step anew, or newer ones of which only the last stays. */
static pid_t start_writer(bool replaces) {
    sft_run_rules rules;
    const pid_t child = fork();
    if (child == 0) {
        SFT_INIT(&rules);
        rules.keep_last = 1;
        sft_run *const run = open_run(0, &rules);
        for (uint64_t step = 2;; step += !replaces) {
            if (save_step(run, step, SFT_RUN_REPLACE, NULL) != SFT_OK) {
                _exit(1);
            }
        }
    }
    return child;
}

static void a_step_that_is_there_is_found(void **state) {
    (void)state;
    for (int replaces = 0; replaces < 2; replaces++) {
        sft_run *run = open_run(0, NULL);
        assert_int_equal(sft_run_rewind(run, SFT_RUN_NONE, NULL, NULL), SFT_OK);
        assert_int_equal(save_step(run, 2, 0, NULL), SFT_OK);
        assert_int_equal(sft_run_close(run, NULL), SFT_OK);
        const pid_t writer = start_writer(replaces != 0);
        for (int i = 0; i < 500; i++) {
            sft_run_point *p;
            sft_error err;
            run = open_run(SFT_RUN_READ_ONLY, NULL);
            if (sft_run_resume(&p, run, NULL, &err) != SFT_OK) {
                (void)kill(writer, SIGKILL);
                fail_msg("read %d: %s", i, err.message);
            }
            sft_run_point_free(p);
            assert_int_equal(sft_run_close(run, NULL), SFT_OK);
        }
        assert_int_equal(kill(writer, SIGKILL), 0);
        assert_int_equal(waitpid(writer, NULL, 0), writer);
    }
}

/* The only step lost its name, and then the writer was killed: no new run. A new one is one. */
static void a_step_without_a_name(void **state) {
    sft_run_point *p;
    sft_error err;
    (void)state;
    sft_run *run = open_run(0, NULL);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    run = open_run(SFT_RUN_READ_ONLY, NULL);
    assert_int_equal(sft_run_resume(&p, run, NULL, NULL), SFT_E_NOT_FOUND);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    run = open_run(0, NULL);
    assert_int_equal(save_step(run, 1, 0, NULL), SFT_OK);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    assert_int_equal(rename(in_step(1, ""), in_folder(path, ".step-000000001.sft-gone")), 0);
    run = open_run(SFT_RUN_READ_ONLY, NULL);
    assert_int_equal(sft_run_resume(&p, run, NULL, &err), SFT_E_STATE);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    run = open_run(0, NULL);
    assert_int_equal(newest(run), 1);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_step_below_the_newest_is_refused),
        IN_FOLDER(a_damaged_newer_step_is_no_hindrance),
        IN_FOLDER(a_rewind_removes_what_is_above),
        IN_FOLDER(a_rewind_to_damage_is_refused),
        IN_FOLDER(a_rewind_is_ended),
        IN_FOLDER(a_step_is_saved_twice),
        IN_FOLDER(a_copy_by_links_opens),
        IN_FOLDER(a_step_that_is_there_is_found),
        IN_FOLDER(a_step_without_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
