/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * SIGKILL before and after every system call of every save and edit: the old files or the new ones
 * are there, bit for bit. A child does the work and stops at each system call for its tracer, which
 * kills it at the k-th stop, for all k.
 */
#include "scenario.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

typedef struct tally {
    size_t kills;
    size_t old;
    size_t changed;
    size_t litter;
} tally;

static void child(const scenario *s) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0) {
        _exit(100);
    }
    _exit(s->run(NULL, NULL) == SFT_OK ? 0 : 101);
}

/* Runs the scenario and kills it at stop k (from 1). false: it ended before. */
static bool kill_at(const scenario *s, size_t k) {
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child(s);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(
        ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
    for (size_t stop = 0;;) {
        int pass = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
        pass = pass == (SIGTRAP | 0x80) || pass == SIGSTOP ? 0 : pass;
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)pass), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return false;
        }
        assert_true(WIFSTOPPED(status));
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && ++stop == k) {
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            return true;
        }
    }
}

/* Where files without a name exist, a new file that is not finished leaves no trace. */
static bool unnamed_files(void) {
    const int fd = open(scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void kill_everywhere(const scenario *s, tally *t) {
    snapshot before;
    snapshot after;
    snapshot first; /* of two files */
    memset(&first, 0, sizeof first);
    s->prepare();
    snapshot_take(&before, true);
    sidecar old = sidecar_keep();
    assert_int_equal(s->run(NULL, NULL), SFT_OK);
    snapshot_take(&after, true);
    if (s->two) {
        snapshot_between(&first, &old, true);
    }
    free(old.bytes);
    (void)scratch_list(1);
    bool seen_new = false;
    for (size_t k = 1;; k++) {
        snapshot now;
        s->prepare();
        const bool killed = kill_at(s, k);
        snapshot_take(&now, true);
        const bool is_old = snapshot_equal(&now, &before);
        const bool is_new =
            snapshot_equal(&now, &after) || (s->two && snapshot_equal(&now, &first));
        assert_true(is_old || is_new);
        assert_false(seen_new && is_old); /* once it is there, it stays */
        if (s->unnamed && unnamed_files()) {
            assert_int_equal(now.temporary, 0);
        }
        seen_new = is_new;
        t->kills += killed ? 1 : 0;
        t->old += is_old ? 1 : 0;
        t->changed += is_new ? 1 : 0;
        t->litter += now.temporary != 0 ? 1 : 0;
        snapshot_drop(&now);
        (void)scratch_list(1);
        if (!killed) {
            assert_true(is_new);
            break;
        }
    }
    snapshot_drop(&before);
    snapshot_drop(&after);
    snapshot_drop(&first);
}

static void kills_leave_the_old_or_the_new(void **state) {
    (void)state;
    size_t kills = 0;
    for (size_t i = 0; i < scenario_count; i++) {
        const scenario *s = &scenarios[i];
        tally t = {0, 0, 0, 0};
        if (!s->writes || s->torn || strstr(s->name, "save into") != NULL) {
            continue;
        }
        kill_everywhere(s, &t);
        print_message("  %-42s %4zu kills: %4zu old, %3zu new, temporary name left %zu times\n",
                      s->name, t.kills, t.old, t.changed, t.litter);
        kills += t.kills;
    }
    print_message("  %zu kills\n", kills);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(kills_leave_the_old_or_the_new, scratch_clear),
    };
    return cmocka_run_group_tests_name("fault: kill", tests, scenarios_open, scenarios_close);
}
