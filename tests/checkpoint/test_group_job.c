/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of jobs that a group does: several threads play the processes. What they write must be
 * what one process writes, byte by byte.
 */
#include "unit/folder.h"

#include "checkpoint/crowd.h"

#include "layout/layout.h"
#include <sft/checkpoint.h>
#include <sft/checkpoint_group.h>
#include <sft/extend.h>
#include <signal.h>
#include <sys/resource.h>

static char base[64];

/* ---------------------------------------------------------------- jobs */

enum { JOB_ROWS = 1201, JOB_COLUMNS = 2039, JOB_RANKS = 3 };

typedef struct job_task {
    sft_job *jobs[CROWD_MOST]; /* each rank's own */
    sft_catalog *wholes[CROWD_MOST];
    sft_catalog *parts[CROWD_MOST][JOB_RANKS];
    const char *folder;
    uint32_t flags;
    uint32_t fails; /* this rank has no job; UINT32_MAX: none */
    uint32_t cancels;
    uint64_t cancel_at;
    sft_job_result results[CROWD_MOST];
    sft_progress last;
} job_task;

static sft_status find_columns(void *ctx, const sft_tensor *t, uint64_t rank,
                               const sft_layout **layout, uint64_t *shape, size_t *dims,
                               sft_error *err) {
    sft_layout *const *const both = ctx;
    (void)rank;
    (void)err;
    (void)shape;
    (void)dims;
    *layout = t->name[0] == 'c' ? both[0] : t->name[0] == 'r' ? both[1] : NULL;
    return SFT_OK;
}

static void layouts_make(sft_layout *both[2]) {
    static const uint64_t axes[1] = {JOB_RANKS};
    sft__layout_factor factor;
    sft__layout_cut cuts[2];
    sft__layout_mesh mesh;
    sft_zero(&factor, sizeof factor);
    sft_zero(&mesh, sizeof mesh);
    mesh.axes = axes;
    mesh.axis_count = 1;
    for (size_t i = 0; i < 2; i++) {
        sft_zero(cuts, sizeof cuts);
        cuts[1 - i].factors = &factor;
        cuts[1 - i].factor_count = 1;
        cuts[1 - i].split = SFT__SPLIT_CHUNK;
        assert_int_equal(sft__layout_create(&both[i], &mesh, cuts, 2, NULL, NULL), SFT_OK);
    }
}

/* Every rank opens the files for itself. */
static void job_task_init(job_task *t, uint32_t ranks, const char *folder, const char *other) {
    sft_layout *both[2];
    sft_error err;
    memset(t, 0, sizeof *t);
    t->folder = folder;
    t->fails = UINT32_MAX;
    t->cancels = UINT32_MAX;
    layouts_make(both);
    for (uint32_t r = 0; r < ranks; r++) {
        sft_job_file files[JOB_RANKS];
        static const char *const names[JOB_RANKS] = {"a.safetensors", "b.safetensors",
                                                     "c.safetensors"};
        const char *const path =
            other != NULL && r == 1 ? other : in_folder(base, "job.safetensors");
        memset(files, 0, sizeof files);
        assert_int_equal(sft_catalog_open(&t->wholes[r], path, NULL, NULL), SFT_OK);
        for (size_t k = 0; k < JOB_RANKS; k++) {
            assert_int_equal(sft_checkpoint_part(&t->parts[r][k], t->wholes[r], k, find_columns,
                                                 both, NULL, NULL),
                             SFT_OK);
            files[k].name = names[k];
            files[k].catalog = t->parts[r][k];
        }
        if (sft_job_create(&t->jobs[r], files, JOB_RANKS, NULL, 0, NULL, &err) != SFT_OK) {
            fail_msg("%s", err.message);
        }
    }
    sft__layout_free(both[0]);
    sft__layout_free(both[1]);
}

static void job_task_reset(job_task *t, uint32_t ranks) {
    for (uint32_t r = 0; r < ranks; r++) {
        sft_job_free(t->jobs[r]);
        for (size_t k = 0; k < JOB_RANKS; k++) {
            sft_catalog_close(t->parts[r][k]);
        }
        sft_catalog_close(t->wholes[r]);
    }
}

typedef struct watching {
    job_task *task;
    uint32_t rank;
} watching;

static int watch(void *ctx, const sft_progress *now) {
    watching *const w = ctx;
    if (w->rank == 0) {
        w->task->last = *now;
    }
    return w->rank == w->task->cancels && now->bytes_done >= w->task->cancel_at;
}

static void run_job(crowd_member *m) {
    job_task *const t = m->ctx;
    watching w = {t, m->rank};
    sft_control control;
    sft_job_run_options o;
    SFT_INIT(&o);
    SFT_INIT(&control);
    SFT_INIT(&t->results[m->rank]);
    control.poll = watch;
    control.ctx = &w;
    o.durability = SFT_DURABLE_NONE;
    o.flags = t->flags;
    o.control = &control;
    if (m->rank == t->fails) {
        (void)sft_error_set(&m->err, SFT_E_IO, 5, "cannot open its source");
    }
    m->status = sft_job_run_group(m->rank == t->fails ? NULL : t->jobs[m->rank], t->folder, &o,
                                  &m->group, &t->results[m->rank], &m->err);
}

static void write_model(const char *path, uint32_t seed) {
    const uint64_t shape[2] = {JOB_ROWS, JOB_COLUMNS};
    const size_t size = (size_t)JOB_ROWS * JOB_COLUMNS * 2;
    uint8_t *const data = malloc(size);
    uint32_t state = seed;
    sft_save_tensor list[2];
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (uint8_t)(state >> 24);
    }
    memset(list, 0, sizeof list);
    for (size_t i = 0; i < 2; i++) {
        list[i].name = i == 0 ? "columns" : "rows";
        list[i].name_len = strlen(list[i].name);
        list[i].dtype = sft_dtype_get(SFT_BF16);
        list[i].shape = shape;
        list[i].rank = 2;
        list[i].data = data;
        list[i].nbytes = size;
    }
    assert_int_equal(sft_save(path, list, 2, NULL, 0, NULL, NULL), SFT_OK);
    free(data);
}

static void assert_same_bytes(const char *x, const char *y) {
    FILE *const a = fopen(x, "rb");
    FILE *const b = fopen(y, "rb");
    static char left[65536];
    static char right[65536];
    assert_non_null(a);
    assert_non_null(b);
    for (size_t n = 1; n > 0;) {
        n = fread(left, 1, sizeof left, a);
        assert_int_equal(fread(right, 1, sizeof right, b), n);
        assert_memory_equal(left, right, n);
    }
    (void)fclose(a);
    (void)fclose(b);
}

static void assert_same_folders(const char *x, const char *y) {
    static const char *const names[] = {"a.safetensors", "b.safetensors", "c.safetensors"};
    struct stat st;
    for (size_t i = 0; i < 3; i++) {
        char one[160];
        (void)snprintf(one, sizeof one, "%s/%s", x, names[i]);
        assert_same_bytes(one, in_folder(y, names[i]));
    }
    assert_int_not_equal(lstat(in_folder(y, ".sft-board"), &st), 0);
    assert_int_not_equal(lstat(in_folder(y, ".sft-journal-1-of-3"), &st), 0);
}

/* Alone, for comparison. */
static void run_alone(void) {
    job_task t;
    sft_error err;
    char folder[128];
    (void)snprintf(folder, sizeof folder, "%s/alone", base);
    job_task_init(&t, 1, folder, NULL);
    if (sft_job_run(t.jobs[0], folder, NULL, NULL, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    job_task_reset(&t, 1);
}

static void one_job_by_any_number_is_the_same(void **state) {
    static const uint32_t sizes[] = {1, 2, 3, 8};
    char alone[128];
    (void)state;
    (void)snprintf(alone, sizeof alone, "%s/alone", base);
    for (size_t i = 0; i < 4; i++) {
        crowd_member members[CROWD_MOST];
        char folder[128];
        job_task t;
        (void)snprintf(folder, sizeof folder, "%s/group-%u", base, (unsigned)sizes[i]);
        job_task_init(&t, sizes[i], folder, NULL);
        t.flags = SFT_JOB_VERIFY;
        crowd_run(members, sizes[i], run_job, &t);
        assert_all_ok(members, sizes[i]);
        assert_same_folders(alone, folder);
        for (uint32_t r = 0; r < sizes[i]; r++) {
            assert_int_equal(t.results[r].bytes_written, 2 * 2 * JOB_ROWS * JOB_COLUMNS);
            assert_int_equal(t.results[r].bytes_kept, 0);
            assert_int_equal(t.results[r].published, 1);
        }
        assert_true(t.last.bytes_total >= 2 * 2 * JOB_ROWS * JOB_COLUMNS);
        assert_true(t.last.bytes_done <= t.last.bytes_total);
        job_task_reset(&t, sizes[i]);
    }
}

static void who_is_cancelled_cancels_all_and_others_go_on(void **state) {
    static const uint32_t sizes[] = {3, 2, 8};
    crowd_member members[CROWD_MOST];
    char folder[128];
    char alone[128];
    job_task t;
    (void)state;
    (void)snprintf(alone, sizeof alone, "%s/alone", base);
    (void)snprintf(folder, sizeof folder, "%s/cancelled", base);
    for (size_t i = 0; i < 3; i++) { /* by other numbers each time */
        job_task_init(&t, sizes[i], folder, NULL);
        t.cancels = i < 2 ? 1 : UINT32_MAX;
        t.cancel_at = 600000;
        crowd_run(members, sizes[i], run_job, &t);
        if (i < 2) {
            struct stat st;
            assert_all_fail(members, sizes[i], SFT_E_CANCELLED, "rank 1: cancelled");
            assert_int_not_equal(lstat(folder, &st), 0);
        } else {
            assert_all_ok(members, sizes[i]);
            assert_true(t.results[0].bytes_kept > 0);
            assert_int_equal(t.results[0].bytes_kept + t.results[0].bytes_written,
                             2 * 2 * JOB_ROWS * JOB_COLUMNS);
            assert_same_folders(alone, folder);
        }
        job_task_reset(&t, sizes[i]);
    }
}

static void a_group_goes_on_where_one_process_was(void **state) {
    crowd_member members[CROWD_MOST];
    char folder[128];
    char alone[128];
    job_task t;
    (void)state;
    (void)snprintf(alone, sizeof alone, "%s/alone", base);
    (void)snprintf(folder, sizeof folder, "%s/handed-on", base);
    job_task_init(&t, 1, folder, NULL);
    t.cancels = 0;
    t.cancel_at = 2000000;
    crowd_run(members, 1, run_job, &t);
    assert_int_equal(members[0].status, SFT_E_CANCELLED);
    job_task_reset(&t, 1);
    job_task_init(&t, 3, folder, NULL);
    t.cancels = 2;
    t.cancel_at = 500000;
    crowd_run(members, 3, run_job, &t);
    assert_all_fail(members, 3, SFT_E_CANCELLED, "rank 2: cancelled");
    job_task_reset(&t, 3);
    job_task_init(&t, 1, folder, NULL); /* and back */
    crowd_run(members, 1, run_job, &t);
    assert_all_ok(members, 1);
    assert_true(t.results[0].bytes_kept > 2000000);
    assert_same_folders(alone, folder);
    job_task_reset(&t, 1);
}

static void jobs_that_differ_are_told(void **state) {
    crowd_member members[CROWD_MOST];
    char folder[128];
    char other[128];
    job_task t;
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/different", base);
    (void)snprintf(other, sizeof other, "%s/other.safetensors", base);
    write_model(other, 99); /* the same shapes, written at another time */
    job_task_init(&t, 3, folder, other);
    crowd_run(members, 3, run_job, &t);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(members[i].status, SFT_E_MISMATCH);
        assert_non_null(strstr(members[i].err.message, "time of change"));
        assert_non_null(strstr(members[i].err.message, "rank 1"));
    }
    assert_absent(folder);
    job_task_reset(&t, 3);
    job_task_init(&t, 3, folder, NULL);
    t.fails = 2;
    crowd_run(members, 3, run_job, &t);
    assert_all_fail(members, 3, SFT_E_IO, "rank 2: cannot open its source");
    assert_absent(folder);
    t.fails = UINT32_MAX;
    t.flags = SFT_JOB_FINISH;
    crowd_run(members, 3, run_job, &t);
    assert_all_fail(members, 3, SFT_E_ARG, "no tasks");
    t.flags = 0;
    crowd_run(members, 3, run_job, &t);
    assert_all_ok(members, 3);
    crowd_run(members, 3, run_job, &t);
    assert_all_fail(members, 3, SFT_E_EXISTS, "is there already");
    t.flags = SFT_JOB_REPLACE;
    crowd_run(members, 3, run_job, &t);
    assert_all_ok(members, 3);
    job_task_reset(&t, 3);
}

static void no_room_for_files_fails_all(void **state) {
    crowd_member members[CROWD_MOST];
    struct rlimit old;
    struct rlimit small;
    char folder[128];
    job_task t;
    (void)state;
    (void)snprintf(folder, sizeof folder, "%s/small", base);
    job_task_init(&t, 3, folder, NULL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    small = old;
    small.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    crowd_run(members, 3, run_job, &t);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_all_fail(members, 3, SFT_E_IO, "rank 0: cannot make");
    assert_absent(folder); /* nothing was done, so nothing is kept */
    crowd_run(members, 3, run_job, &t);
    assert_all_ok(members, 3);
    job_task_reset(&t, 3);
}

/* ---------------------------------------------------------------- all */

static int begin(void **state) {
    char path[128];
    (void)state;
    folder_make(base);
    (void)snprintf(path, sizeof path, "%s/job.safetensors", base);
    write_model(path, 1);
    run_alone();
    return 0;
}

static int end(void **state) {
    (void)state;
    folder_remove(base);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_job_by_any_number_is_the_same),
        cmocka_unit_test(who_is_cancelled_cancels_all_and_others_go_on),
        cmocka_unit_test(a_group_goes_on_where_one_process_was),
        cmocka_unit_test(jobs_that_differ_are_told),
        cmocka_unit_test(no_room_for_files_fails_all),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
