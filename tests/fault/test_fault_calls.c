/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Every system call of every scenario fails in turn with each errno that fits, and moves fewer
 * bytes than it was asked to; the same once more on systems that lack something. Afterwards: files
 * as before or as after, no temporary name, no descriptor left open, and the status tells the
 * cause.
 */
#include "scenario.h"
#include "wrap.h"

typedef enum expectation {
    MAY, /* succeed by another way, or fail: whichever, completely */
    SUCCEEDS,
    FAILS
} expectation;

typedef struct fault {
    wrap_kind kind;
    int error;
    expectation expect;
} fault;

#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__, {                                                                             \
            WRAP_ERRNO, 0, MAY                                                                     \
        }                                                                                          \
    }
#define E(error, expect) {WRAP_ERRNO, error, expect}

static const struct {
    const char *name; /* without a 64 behind it */
    fault faults[16];
} table[] = {
    {"openat", LIST(E(EACCES, MAY), E(EMFILE, MAY), E(ENFILE, MAY), E(EROFS, MAY), E(ENOSPC, MAY),
                    E(EIO, MAY), E(ENOMEM, MAY), E(EDQUOT, MAY), E(EINTR, SUCCEEDS))},
    {"open", LIST(E(EACCES, MAY), E(EMFILE, FAILS), E(ENFILE, FAILS), E(EIO, FAILS),
                  E(ENOMEM, FAILS), E(EROFS, MAY), E(ETXTBSY, MAY), E(EINTR, SUCCEEDS))},
    {"openat2",
     LIST(E(EACCES, FAILS), E(EMFILE, FAILS), E(ENFILE, FAILS), E(EIO, FAILS), E(ENOMEM, FAILS),
          E(ELOOP, FAILS), E(EINTR, SUCCEEDS), E(EAGAIN, SUCCEEDS), E(ENOSYS, SUCCEEDS),
          E(EPERM, SUCCEEDS), E(EINVAL, SUCCEEDS), E(EXDEV, SUCCEEDS))},
    {"realpath", LIST(E(EACCES, FAILS), E(EIO, FAILS), E(ENOMEM, FAILS), E(ELOOP, FAILS))},
    /* beside an index that was named only what is missing from it is looked for */
    {"opendir", LIST(E(EACCES, MAY), E(EMFILE, MAY), E(ENFILE, MAY), E(ENOMEM, MAY))},
    {"readdir", LIST(E(EIO, MAY), E(ENOENT, MAY))},
    {"read", LIST(E(EIO, FAILS), E(EINTR, SUCCEEDS), E(EAGAIN, SUCCEEDS), {WRAP_ONE, 0, SUCCEEDS},
                  {WRAP_LESS, 0, SUCCEEDS}, {WRAP_NONE, 0, MAY})},
    {"fstat", LIST(E(EIO, FAILS), E(ENOMEM, FAILS))},
    {"stat", LIST(E(EIO, FAILS), E(EACCES, FAILS))},
    {"fstatat", LIST(E(EIO, MAY), E(EACCES, MAY), E(ENOMEM, MAY))},
    {"readlinkat", LIST(E(EIO, FAILS), E(EACCES, FAILS))},
    {"pread", LIST(E(EIO, FAILS), E(EINTR, SUCCEEDS), E(EAGAIN, FAILS), E(ESTALE, FAILS),
                   {WRAP_ONE, 0, SUCCEEDS}, {WRAP_LESS, 0, SUCCEEDS}, {WRAP_NONE, 0, FAILS})},
    {"pwrite", LIST(E(EIO, FAILS), E(EINVAL, MAY), E(ENOSPC, FAILS), E(EDQUOT, FAILS),
                    E(EFBIG, FAILS), E(EAGAIN, FAILS), E(EINTR, SUCCEEDS), {WRAP_ONE, 0, SUCCEEDS},
                    {WRAP_LESS, 0, SUCCEEDS}, {WRAP_NONE, 0, FAILS})},
    {"pwritev",
     LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EDQUOT, FAILS), E(EFBIG, FAILS), E(EINTR, SUCCEEDS),
          {WRAP_ONE, 0, SUCCEEDS}, {WRAP_LESS, 0, SUCCEEDS}, {WRAP_NONE, 0, FAILS})},
    {"write",
     LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EPIPE, FAILS), E(EAGAIN, SUCCEEDS), E(EINTR, SUCCEEDS),
          {WRAP_ONE, 0, SUCCEEDS}, {WRAP_LESS, 0, SUCCEEDS}, {WRAP_NONE, 0, FAILS})},
    {"writev",
     LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EPIPE, FAILS), E(EAGAIN, SUCCEEDS), E(EINTR, SUCCEEDS),
          {WRAP_ONE, 0, SUCCEEDS}, {WRAP_LESS, 0, SUCCEEDS}, {WRAP_NONE, 0, FAILS})},
    {"fallocate",
     LIST(E(ENOSPC, FAILS), E(EDQUOT, FAILS), E(EIO, FAILS), E(EFBIG, FAILS), E(EINTR, SUCCEEDS),
          E(EOPNOTSUPP, SUCCEEDS), E(EINVAL, SUCCEEDS), E(ENOSYS, SUCCEEDS))},
    {"ftruncate", LIST(E(EIO, FAILS), E(EFBIG, FAILS), E(EINTR, SUCCEEDS))},
    {"fsync",
     LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EDQUOT, FAILS), E(EINTR, FAILS), E(EROFS, FAILS))},
    {"renameat", LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EACCES, FAILS), E(EROFS, FAILS),
                      E(EXDEV, FAILS), E(EBUSY, FAILS), E(EDQUOT, FAILS))},
    {"renameat2", LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EXDEV, FAILS), E(EINVAL, SUCCEEDS),
                       E(ENOSYS, SUCCEEDS))},
    /* EPERM, EMLINK: no second names here; a new name does where the file has a temporary one */
    {"linkat", LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EDQUOT, FAILS), E(EPERM, MAY),
                    E(EROFS, FAILS), E(EMLINK, MAY), E(EEXIST, MAY))},
    {"unlinkat", LIST(E(EIO, MAY), E(EROFS, MAY))},
    {"fchmod", LIST(E(EPERM, FAILS), E(EIO, FAILS))},
    {"fchown", LIST(E(EPERM, SUCCEEDS), E(EIO, SUCCEEDS))},
    {"close", LIST(E(EIO, MAY), E(ENOSPC, MAY), E(EDQUOT, MAY), E(EINTR, MAY))},
    {"copy_file_range",
     LIST(E(EIO, FAILS), E(ENOSPC, FAILS), E(EDQUOT, FAILS), E(EINTR, SUCCEEDS), E(EXDEV, SUCCEEDS),
          E(EINVAL, SUCCEEDS), E(ENOSYS, SUCCEEDS), E(EOPNOTSUPP, SUCCEEDS), E(EPERM, SUCCEEDS),
          {WRAP_ONE, 0, SUCCEEDS}, {WRAP_LESS, 0, SUCCEEDS}, {WRAP_NONE, 0, SUCCEEDS})},
    {"ioctl",
     LIST(E(EOPNOTSUPP, SUCCEEDS), E(EXDEV, SUCCEEDS), E(EINVAL, SUCCEEDS), E(EIO, SUCCEEDS))},
    {"sync_file_range", LIST(E(EIO, SUCCEEDS), E(ENOSPC, SUCCEEDS))},
    {"getrlimit", LIST(E(EINVAL, SUCCEEDS))},
    {"fcntl", LIST(E(EINTR, MAY), E(EMFILE, MAY))},
    {"poll", LIST(E(EINTR, SUCCEEDS), E(ENOMEM, MAY))},
    {"mmap", LIST(E(ENOMEM, FAILS), E(ENODEV, FAILS), E(EACCES, FAILS), E(EAGAIN, FAILS))},
};

static const fault *faults_of(const char *call) {
    size_t len = strlen(call);
    if (len > 2 && strcmp(call + len - 2, "64") == 0) {
        len -= 2;
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].name) == len && strncmp(table[i].name, call, len) == 0) {
            return table[i].faults;
        }
    }
    print_message("no faults known for %s\n", call);
    fail();
    return NULL;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

typedef struct world {
    snapshot before;
    snapshot after;
    snapshot first; /* without the sidecar */
    int descriptors;
} world;

static void world_make(world *w, const scenario *s, unsigned missing) {
    sft_error err;
    memset(w, 0, sizeof *w);
    s->prepare();
    snapshot_take(&w->before, false);
    sidecar old = sidecar_keep();
    wrap_arm(0, WRAP_ERRNO, 0, missing);
    const sft_status st = s->run(NULL, &err);
    (void)wrap_disarm();
    assert_int_equal(st, SFT_OK);
    snapshot_take(&w->after, false);
    if (s->two) {
        snapshot_between(&w->first, &old, false);
    }
    free(old.bytes);
    (void)scratch_list(1);
    w->descriptors = open_descriptors();
}

static void world_drop(world *w) {
    snapshot_drop(&w->before);
    snapshot_drop(&w->after);
    snapshot_drop(&w->first);
}

/* Gives a sentence if something is wrong. */
static const char *judge(const scenario *s, const world *w, const fault *f, const char *call,
                         sft_status st, const sft_error *err) {
    snapshot now;
    snapshot_take(&now, strncmp(call, "unlinkat", 8) == 0);
    const bool old = snapshot_equal(&now, &w->before);
    const bool fresh = snapshot_equal(&now, &w->after);
    const bool half = s->two && snapshot_equal(&now, &w->first);
    snapshot_drop(&now);
    if (open_descriptors() != w->descriptors) {
        return "a descriptor was left open";
    }
    if (st == SFT_OK) {
        return f->expect == FAILS ? "success though the call failed"
               : !fresh           ? "success, but no new file"
                                  : NULL;
    }
    if (f->expect == SUCCEEDS) {
        return "failure though the call can be done without";
    }
    if (err->status != (int32_t)st || err->message[0] == '\0') {
        return "the error record is not filled";
    }
    if (f->kind == WRAP_ERRNO && err->sys != f->error && st != SFT_E_EXISTS) {
        return "the error record has another cause";
    }
    if (s->torn) {
        return NULL;
    }
    if (st == SFT_E_DURABILITY) {
        /* the old sidecar stays only if the new one is what failed */
        return fresh || (half && strstr(err->message, "digests") != NULL)
                   ? NULL
                   : "durability uncertain, but no new file";
    }
    return old ? NULL : "failure, but the old state is not intact";
}

static size_t fail_everything(const scenario *s, unsigned missing, size_t *calls) {
    world w;
    size_t runs = 0;
    *calls = 1;
    world_make(&w, s, missing);
    for (size_t k = 1; k <= *calls; k++) {
        const fault *f = NULL;
        do {
            sft_error err;
            memset(&err, 0, sizeof err);
            s->prepare();
            wrap_arm(f == NULL ? 0 : k, f == NULL ? WRAP_ERRNO : f->kind, f == NULL ? 0 : f->error,
                     missing);
            const sft_status st = s->run(NULL, &err);
            const size_t made = wrap_disarm();
            if (f == NULL) { /* a run without a fault: how many calls, and which is the k-th */
                assert_int_equal(st, SFT_OK);
                *calls = made;
                assert_true(made > 0 && made <= WRAP_LOG);
                f = faults_of(wrap_call(k));
            } else {
                const char *const call = wrap_call(k);
                const char *const wrong = judge(s, &w, f, call, st, &err);
                if (wrong != NULL) {
                    print_message("%s: call %zu %s, kind %d errno %d: %s (%s: %s)\n", s->name, k,
                                  call, (int)f->kind, f->error, wrong, sft_status_name(st),
                                  err.message);
                    fail();
                }
                runs++;
                f++;
            }
            (void)scratch_list(1);
        } while (f->kind != WRAP_ERRNO || f->error != 0);
    }
    world_drop(&w);
    return runs;
}

static void run_all(unsigned missing) {
    size_t runs = 0;
    for (size_t i = 0; i < scenario_count; i++) {
        const scenario *s = &scenarios[i];
        size_t calls;
        if (strcmp(s->name, "save into memory") == 0) {
            continue; /* makes no system call */
        }
        const size_t n = fail_everything(s, missing, &calls);
        if (missing == 0) {
            print_message("  %-42s %3zu calls, %4zu faults\n", s->name, calls, n);
        }
        runs += n;
    }
    print_message("  %zu runs with a failing system call\n", runs);
}

static void every_call_fails(void **state) {
    (void)state;
    run_all(0);
}

static void without_unnamed_files(void **state) {
    (void)state;
    run_all(WRAP_NO_TMPFILE);
}

static void without_proc(void **state) {
    (void)state;
    run_all(WRAP_NO_PROC | WRAP_NO_FALLOCATE);
}

static void without_newer_calls(void **state) {
    (void)state;
    run_all(WRAP_NO_TMPFILE | WRAP_NO_RENAMEAT2 | WRAP_NO_KERNEL_COPY | WRAP_NO_FALLOCATE |
            WRAP_NO_OPENAT2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_call_fails, scratch_clear),
        cmocka_unit_test_teardown(without_unnamed_files, scratch_clear),
        cmocka_unit_test_teardown(without_proc, scratch_clear),
        cmocka_unit_test_teardown(without_newer_calls, scratch_clear),
    };
    return cmocka_run_group_tests_name("fault: system calls", tests, scenarios_open_quick,
                                       scenarios_close);
}
