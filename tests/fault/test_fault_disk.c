/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A disk that is really full, and a limit on file sizes. The first needs the right to mount; where
 * there is none, the injected ENOSPC and EDQUOT of test_fault_calls.c stand for it, and this test
 * says so.
 */
#include "scenario.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const uint64_t half_mebi[] = {512 << 10};
static const uint64_t two_mebi[] = {2 << 20};

static sft_status save_bytes(const char *path, const uint64_t *shape, const uint8_t *bytes,
                             sft_error *err) {
    const sft_save_tensor t = {"t", 1, sft_dtype_get(SFT_U8), shape, 1, 0, bytes, shape[0]};
    return sft_save(path, &t, 1, NULL, 0, NULL, err);
}

static void a_full_disk(void **state) {
    (void)state;
    const char *where = in_scratch("disk");
    char path[300];
    uint8_t *bytes = calloc(1, (size_t)two_mebi[0]);
    sft_error err;
    size_t size;
    assert_non_null(bytes);
    assert_int_equal(mkdir(where, 0777), 0);
    if (mount("none", where, "tmpfs", 0, "size=1m") != 0) {
        print_message("  may not mount (%s): full disks are injected only\n", strerror(errno));
        free(bytes);
        return;
    }
    (void)snprintf(path, sizeof path, "%s/f", where);
    assert_int_equal(save_bytes(path, half_mebi, bytes, &err), SFT_OK);
    char *before = file_get(path, &size);
    assert_non_null(before);
    /* the second one does not fit beside the first, the third one not even alone */
    assert_int_equal(save_bytes(path, half_mebi, bytes, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOSPC);
    assert_int_equal(save_bytes(path, two_mebi, bytes, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOSPC);
    const sft_metadata_entry e = {"k", 1, "v", 1};
    sft_edit_options o;
    SFT_INIT(&o);
    o.flags = SFT_EDIT_NEW_FILE;
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, NULL, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOSPC);
    assert_file(path, before, size);
    free(before);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(path), -1);
    assert_int_equal(umount(where), 0); /* nothing is open there, and nothing else lies there */
    free(bytes);
}

/* A file size limit is an error and not the signal that the kernel would send: for a save, and for
 * an edit that needs a new file. */
static void a_limit_on_file_sizes(void **state) {
    (void)state;
    const char *old = in_scratch("old");
    const char *limited = in_scratch("limited");
    uint8_t *bytes = calloc(1, (size_t)two_mebi[0]);
    int status;
    assert_non_null(bytes);
    assert_int_equal(save_bytes(old, two_mebi, bytes, NULL), SFT_OK);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit limit = {1 << 20, 1 << 20};
        const sft_metadata_entry e = {"k", 1, "v", 1};
        sft_error saved;
        sft_error edited;
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            _exit(1);
        }
        if (save_bytes(limited, two_mebi, bytes, &saved) != SFT_E_IO || saved.sys != EFBIG) {
            _exit(2);
        }
        _exit(sft_edit_metadata(old, &e, 1, NULL, NULL, &edited) == SFT_E_IO && edited.sys == EFBIG
                  ? 0
                  : 3);
    }
    free(bytes);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(scratch_list(0), 1);
}

/* Permissions do not bind root: those are injected instead (EACCES, EROFS in test_fault_calls.c).
 */
static void a_folder_that_may_not_be_written(void **state) {
    (void)state;
    char path[300];
    sft_error err;
    uint8_t byte[1] = {0};
    static const uint64_t one[] = {1};
    assert_int_equal(mkdir(in_scratch("locked"), 0500), 0);
    (void)snprintf(path, sizeof path, "%s/locked/f", scratch);
    const sft_status st = save_bytes(path, one, byte, &err);
    if (geteuid() == 0) {
        assert_int_equal(st, SFT_OK);
        assert_int_equal(unlink(path), 0);
    } else {
        assert_int_equal(st, SFT_E_IO);
        assert_int_equal(err.sys, EACCES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_full_disk, scratch_clear),
        cmocka_unit_test_teardown(a_limit_on_file_sizes, scratch_clear),
        cmocka_unit_test_teardown(a_folder_that_may_not_be_written, scratch_clear),
    };
    return cmocka_run_group_tests_name("fault: disk", tests, scratch_make, scratch_drop);
}
