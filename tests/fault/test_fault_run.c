/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A step of a run is saved, with a file that is linked and an older step that is pruned behind it, while
 * every system call fails in turn, the process is killed before every one of them, and every allocation
 * fails. Afterwards: no step that was committed is lost, none that is chosen is torn, and whoever lacks
 * the new step was told so.
 */
#include "checkpoint/run_home.h"
#include "wrap.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/wait.h>

/* ---------------------------------------------------------------- calls that only this test catches */

#define CATCH(name, params, args)                                                                  \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params {                                                                     \
        int error;                                                                                 \
        if (wrap_hit(#name, &error)) {                                                             \
            errno = error;                                                                         \
            return -1;                                                                             \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }
CATCH(rename, (const char *from, const char *to), (from, to))
CATCH(mkdir, (const char *at, mode_t mode), (at, mode))
CATCH(unlink, (const char *at), (at))
CATCH(rmdir, (const char *at), (at))
CATCH(flock, (int fd, int how), (fd, how))
CATCH(lstat, (const char *at, struct stat *st), (at, st))
CATCH(lstat64, (const char *at, struct stat *st), (at, st))

/* ---------------------------------------------------------------- the run */

enum { SIZE = 3000 };
static uint64_t keep_last = 2;
static float weight[SIZE];
static float frozen[SIZE];

static void fill(uint64_t step) {
    for (size_t i = 0; i < SIZE; i++) {
        weight[i] = (float)(step * SIZE + i);
        frozen[i] = (float)i;
    }
}

static void describe(sft_run_tensor t[2]) {
    static const uint64_t shape[1] = {SIZE};
    for (size_t i = 0; i < 2; i++) {
        t[i] = floats(i == 0 ? "w" : "frozen", SFT_RUN_MODEL, shape, 1, i == 0 ? weight : frozen,
                      sizeof weight);
        t[i].flags = i == 0 ? 0 : SFT_RUN_FROZEN;
    }
}

/* The first failure that any call told. */
static sft_status save(const sft_allocator *a, uint64_t step, sft_error *err) {
    sft_run_rules rules;
    sft_run_options o;
    sft_run_tensor t[2];
    sft_run_save *s = NULL;
    sft_run *run;
    sft_error later;
    SFT_INIT(&rules);
    rules.keep_last = keep_last;
    SFT_INIT(&o);
    o.rules = &rules;
    o.allocator = a;
    sft_status status = sft_run_open(&run, path, &o, err);
    if (status != SFT_OK) {
        return status;
    }
    status = sft_run_begin(&s, run, step, 0, err);
    fill(step);
    describe(t);
    for (size_t i = 0; i < 2 && status == SFT_OK; i++) {
        status = sft_run_add_tensor(s, &t[i], err);
    }
    if (status == SFT_OK) {
        status = sft_run_add_f64(s, "lr", 0.1, err);
    }
    if (status == SFT_OK) {
        status = sft_run_add_blob(s, "rng", &step, sizeof step, err);
    }
    if (status == SFT_OK) {
        status = sft_run_stage(s, NULL, err);
    } else {
        sft_run_save_free(s);
    }
    memset(weight, 0xee, sizeof weight);
    const sft_status closed = sft_run_close(run, &later);
    if (status == SFT_OK && closed != SFT_OK) {
        *err = later;
        return closed;
    }
    return status;
}

static void prepare(void) {
    sft_error err;
    folder_remove(path);
    for (uint64_t step = 1; step <= 2; step++) {
        if (save(NULL, step, &err) != SFT_OK) {
            fail_msg("%s", err.message);
        }
    }
}

/* What the next process resumes from, every byte compared. */
static uint64_t resumed(void) {
    sft_run_tensor t[2];
    sft_run_options o;
    sft_run_point *p;
    sft_run *run;
    sft_error err;
    SFT_INIT(&o);
    if (sft_run_open(&run, path, &o, &err) != SFT_OK ||
        sft_run_resume(&p, run, NULL, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    const uint64_t step = sft_run_point_step(p);
    describe(t);
    if (sft_run_point_load(p, t, 2, 0, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < SIZE; i++) {
        assert_true(weight[i] == (float)(step * SIZE + i) && frozen[i] == (float)i);
    }
    sft_run_point_free(p);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    return step;
}

/* Both of the steps that the rules keep are whole. */
static void judge(uint64_t newest, const char *after) {
    sft_run_options o;
    sft_run_list *list;
    sft_run *run;
    size_t good = 0;
    SFT_INIT(&o);
    o.flags = SFT_RUN_READ_ONLY;
    assert_int_equal(sft_run_open(&run, path, &o, NULL), SFT_OK);
    assert_int_equal(sft_run_list_make(&list, run, SFT_RUN_NONE, SFT_RUN_LIST_VERIFY, NULL, NULL),
                     SFT_OK);
    for (size_t i = 0; i < sft_run_list_count(list); i++) {
        const sft_run_step *const s = sft_run_list_at(list, i);
        good += s->verified == 1 && (s->step == newest || s->step == newest - 1);
        assert_true(s->complete && s->verified == 1); /* nothing torn has the name of a step */
    }
    if (good != 2) {
        fail_msg("%zu good steps after %s; the newest is %d", good, after, (int)newest);
    }
    sft_run_list_free(list);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
}

/* In memory where it can be: many thousand saves, none of which has to outlive the machine. */
static int set_up_in_memory(void **state) {
    if (access("/dev/shm", W_OK) != 0) {
        return set_up(state);
    }
    (void)snprintf(base, sizeof base, "/dev/shm/sft-test-XXXXXX");
    assert_non_null(mkdtemp(base));
    (void)snprintf(path, sizeof path, "%s/run", base);
    return 0;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *const dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

/* ---------------------------------------------------------------- system calls */

static void every_call_fails(void **state) {
    static const struct {
        wrap_kind kind;
        int error;
    } faults[] = {{WRAP_ERRNO, EIO},
                  {WRAP_ERRNO, ENOSPC},
                  {WRAP_ERRNO, EROFS},
                  {WRAP_ERRNO, EINTR},
                  {WRAP_ONE, EIO}};
    size_t calls = 0;
    size_t told = 0;
    size_t old = 0;
    size_t runs = 0;
    (void)state;
    for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++) {
        for (size_t k = 0; k == 0 || k <= calls; k++) {
            sft_error err;
            memset(&err, 0, sizeof err);
            prepare();
            const int before = open_descriptors();
            wrap_arm(k, faults[f].kind, faults[f].error, 0);
            const sft_status status = save(NULL, 3, &err);
            const size_t made = wrap_disarm();
            calls = k == 0 ? made : calls;
            assert_int_equal(open_descriptors(), before);
            const char *const call = wrap_call(k);
            const uint64_t step = resumed();
            if (step != 3 && status == SFT_OK) {
                fail_msg("call %zu, %s: step 3 is not there, and nobody was told", k, call);
            }
            if (status != SFT_OK && err.message[0] == '\0') {
                fail_msg("call %zu, %s: no message", k, call);
            }
            assert_true(step == 2 || step == 3);
            judge(step, call);
            told += status != SFT_OK;
            old += step == 2;
            runs++;
        }
    }
    print_message("  %zu calls, %zu runs, %zu told a failure, %zu without the new step\n", calls,
                  runs, told, old);
    assert_true(calls > 60 && old > calls && told >= old);
}

static void every_moment_killed(void **state) {
    size_t kills = 0;
    size_t old = 0;
    bool seen = false;
    (void)state;
    for (size_t k = 1;; k++) {
        int status = 0;
        prepare();
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            sft_error err;
            wrap_arm(k, WRAP_KILL, 0, 0);
            _exit(save(NULL, 3, &err) == SFT_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        const uint64_t step = resumed();
        assert_true(step == 2 || step == 3);
        assert_false(seen && step == 2); /* once it is there, it stays */
        judge(step, "that");
        seen = step == 3;
        old += step == 2;
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        assert_true(WTERMSIG(status) == SIGKILL);
        kills++;
    }
    print_message("  %zu kills, %zu before the step was there\n", kills, old);
    assert_true(kills > 60 && old > 20 && old < kills);
}

/* ---------------------------------------------------------------- going back */

static void prepare_four(void) {
    sft_error err;
    folder_remove(path);
    keep_last = 9;
    for (uint64_t step = 1; step <= 4; step++) {
        if (save(NULL, step, &err) != SFT_OK) {
            fail_msg("%s", err.message);
        }
    }
    keep_last = 2;
}

/* The complete steps, a digit each. */
static uint64_t steps_there(uint32_t flags) {
    sft_run_options o;
    sft_run_list *list;
    sft_run *run;
    sft_error err;
    uint64_t all = 0;
    SFT_INIT(&o);
    o.flags = flags;
    if (sft_run_open(&run, path, &o, &err) != SFT_OK ||
        sft_run_list_make(&list, run, SFT_RUN_NONE, SFT_RUN_LIST_VERIFY, NULL, &err) != SFT_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < sft_run_list_count(list); i++) {
        assert_int_equal(sft_run_list_at(list, i)->verified, 1);
        all = all * 10 + sft_run_list_at(list, i)->step;
    }
    sft_run_list_free(list);
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    return all;
}

/* Nothing but steps, and `latest` is the newest. */
static void assert_tidy(uint64_t newest) {
    char text[64] = "";
    char wanted[64];
    struct dirent *e;
    FILE *const f = fopen(in_folder(path, "latest"), "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    (void)fclose(f);
    (void)snprintf(wanted, sizeof wanted, "step-%09d\n", (int)newest);
    assert_string_equal(text, wanted);
    DIR *const dir = opendir(path);
    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' && strlen(e->d_name) > 2) {
            assert_string_equal(e->d_name, ".sft-run.lock");
        }
    }
    closedir(dir);
}

/* Back to step 2, and step 3 of the new branch; error 0: killed. *saved: how that went. */
static sft_status go_back(int error, size_t k, size_t *calls, sft_status *saved) {
    sft_run_options o;
    sft_run_tensor t[2];
    sft_run_save *s = NULL;
    sft_run *run;
    SFT_INIT(&o);
    assert_int_equal(sft_run_open(&run, path, &o, NULL), SFT_OK);
    wrap_arm(k, error != 0 ? WRAP_ERRNO : WRAP_KILL, error, 0);
    const sft_status status = sft_run_rewind(run, 2, NULL, NULL);
    const size_t made = wrap_disarm();
    *calls = k == 0 ? made : *calls;
    *saved = sft_run_begin(&s, run, 3, 0, NULL);
    if (*saved == SFT_OK) {
        fill(3);
        describe(t);
        assert_int_equal(sft_run_add_tensor(s, &t[0], NULL), SFT_OK);
        assert_int_equal(sft_run_add_tensor(s, &t[1], NULL), SFT_OK);
        *saved = sft_run_stage(s, NULL, NULL);
    }
    assert_int_equal(sft_run_close(run, NULL), SFT_OK);
    return status;
}

/* One branch whole or the other: nobody saves below steps that come back. */
static void a_rewind_fails_anywhere(void **state) {
    static const int errors[] = {EIO, ENOSPC, EACCES, EMFILE};
    size_t old = 0;
    size_t runs = 0;
    (void)state;
    for (size_t f = 0; f < sizeof errors / sizeof errors[0]; f++) {
        size_t calls = 0;
        for (size_t k = 0; k <= calls; k++, runs++) {
            sft_status saved;
            prepare_four();
            const sft_status status = go_back(errors[f], k, &calls, &saved);
            const char *const call = wrap_call(k);
            const uint64_t there = steps_there(0);
            if (there != 1234 && there != 123 && there != 12) {
                fail_msg("call %zu, %s: %d", k, call, (int)there);
            }
            if ((status == SFT_OK || saved == SFT_OK) && there != 123) {
                fail_msg("call %zu, %s: rewind %d, save %d, and %d is there", k, call, (int)status,
                         (int)saved, (int)there);
            }
            assert_tidy(there % 10);
            old += there == 1234;
        }
    }
    print_message("  %zu runs, %zu with the old branch\n", runs, old);
    assert_true(old > 20 && old < runs);
}

static void a_rewind_is_killed_anywhere(void **state) {
    bool seen = false;
    size_t kills = 0;
    (void)state;
    for (size_t k = 1;; k++, kills++) {
        int status = 0;
        prepare_four();
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            sft_status saved;
            size_t calls;
            _exit(go_back(0, k, &calls, &saved) == SFT_OK && saved == SFT_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        const uint64_t there = steps_there(SFT_RUN_READ_ONLY);
        if (there != (seen ? 12u : 1234u)) {
            assert_false(seen);
            assert_int_equal(there, 12);
            seen = true;
        }
        assert_int_equal(steps_there(0), there);
        assert_tidy(there % 10);
    }
    print_message("  %zu kills\n", kills);
    assert_true(seen && kills > 20);
}

/* A step that lost its name when it was to be replaced: an open that cannot look at it says so, and removes
 * nothing. */
static void a_kept_step_cannot_be_looked_at(void **state) {
    static const int errors[] = {EIO, EMFILE, ENOMEM};
    size_t told = 0;
    (void)state;
    for (size_t f = 0; f < sizeof errors / sizeof errors[0]; f++) {
        size_t calls = 0;
        for (size_t k = 0; k <= calls; k++) {
            sft_run *run = NULL;
            sft_error err;
            prepare_four();
            assert_int_equal(rename(in_folder(path, "step-000000004"),
                                    in_folder(path, ".step-000000004.sft-gone")),
                             0);
            wrap_arm(k, WRAP_ERRNO, errors[f], 0);
            told += sft_run_open(&run, path, NULL, &err) != SFT_OK;
            assert_int_equal(sft_run_close(run, NULL), SFT_OK);
            calls = k == 0 ? wrap_disarm() : calls;
            (void)wrap_disarm();
            assert_int_equal(steps_there(0), 1234);
        }
    }
    assert_true(told > 10);
}

/* ---------------------------------------------------------------- memory */

typedef struct counter {
    size_t calls;
    size_t fail_at;
    size_t blocks;
} counter;

static void *counted_alloc(void *ctx, size_t size) {
    counter *const c = ctx;
    if (__atomic_add_fetch(&c->calls, 1, __ATOMIC_SEQ_CST) == c->fail_at) {
        return NULL;
    }
    (void)__atomic_add_fetch(&c->blocks, 1, __ATOMIC_SEQ_CST);
    return malloc(size);
}

static void counted_free(void *ctx, void *ptr, size_t size) {
    counter *const c = ctx;
    (void)size;
    (void)__atomic_sub_fetch(&c->blocks, 1, __ATOMIC_SEQ_CST);
    free(ptr);
}

static void *counted_resize(void *ctx, void *ptr, size_t old_size, size_t new_size) {
    counter *const c = ctx;
    (void)old_size;
    return __atomic_add_fetch(&c->calls, 1, __ATOMIC_SEQ_CST) == c->fail_at
               ? NULL
               : realloc(ptr, new_size);
}

static void every_allocation_fails(void **state) {
    size_t calls = 0;
    size_t old = 0;
    (void)state;
    for (size_t k = 0; k == 0 || k <= calls; k++) {
        counter c = {0, k, 0};
        const sft_allocator a = {counted_alloc, counted_resize, counted_free, &c};
        sft_error err;
        prepare();
        const sft_status status = save(&a, 3, &err);
        calls = k == 0 ? c.calls : calls;
        assert_int_equal(c.blocks, 0);
        const uint64_t step = resumed();
        if (step != 3 && status == SFT_OK) {
            fail_msg("allocation %zu: step 3 is not there, and nobody was told", k);
        }
        judge(step, "that");
        old += step == 2;
    }
    print_message("  %zu allocations, %zu without the new step\n", calls, old);
    assert_true(old > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_call_fails, set_up_in_memory, tear_down),
        cmocka_unit_test_setup_teardown(every_moment_killed, set_up_in_memory, tear_down),
        cmocka_unit_test_setup_teardown(a_rewind_fails_anywhere, set_up_in_memory, tear_down),
        cmocka_unit_test_setup_teardown(a_rewind_is_killed_anywhere, set_up_in_memory, tear_down),
        cmocka_unit_test_setup_teardown(a_kept_step_cannot_be_looked_at, set_up_in_memory,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_allocation_fails, set_up_in_memory, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
