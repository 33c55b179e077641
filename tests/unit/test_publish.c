/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of io/publish: what becomes visible, when, with which mode, through which link.
 */
#include "unit/files.h"

#include "fs/output/publish.h"
#include <grp.h>
#include <sys/wait.h>

static sft__fs_publish_options opts(uint32_t mode, bool new_only) {
    sft__fs_publish_options o = {NULL, SFT_DURABLE_FULL, mode, new_only, NULL};
    return o;
}

static sft_status put(const char *path, const char *text, uint32_t mode, bool new_only,
                      sft_error *err) {
    const sft__fs_publish_options o = opts(mode, new_only);
    const sft__fs_span parts[3] = {{text, strlen(text) / 2},
                                   {text, 0},
                                   {text + strlen(text) / 2, strlen(text) - strlen(text) / 2}};
    sft__fs_publish *p;
    sft_status st = sft__fs_publish_open(&p, path, &o, err);
    if (st == SFT_OK) {
        st = sft__fs_publish_reserve(p, strlen(text), err);
        if (st == SFT_OK) {
            st = sft__fs_publish_write(p, 0, parts, 3, err);
        }
        if (st == SFT_OK) {
            st = sft__fs_publish_commit(p, err);
        }
        sft__fs_publish_free(p);
    }
    return st;
}

static void new_file_follows_the_umask(void **state) {
    (void)state;
    static const mode_t masks[] = {0022, 0077, 0002, 0000, 0777};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        const mode_t before = umask(masks[i]);
        const char *path = in_scratch("new");
        assert_int_equal(put(path, "hello", 0, false, NULL), SFT_OK);
        umask(before);
        assert_int_equal(file_mode(path), 0666u & ~masks[i]);
        assert_int_equal(scratch_list(0), 1);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(put(in_scratch("asked"), "hello", 0640u | SFT_MODE_SET, false, NULL), SFT_OK);
    assert_int_equal(file_mode(in_scratch("asked")), 0640);
}

static void replacing_keeps_the_mode_and_hard_links_the_old_bytes(void **state) {
    (void)state;
    const char *path = in_scratch("old");
    file_put(path, "before", 6);
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(link(path, in_scratch("second")), 0);
    assert_int_equal(put(path, "after", 0, false, NULL), SFT_OK);
    assert_file(path, "after", 5);
    assert_int_equal(file_mode(path), 0604);
    assert_file(in_scratch("second"), "before", 6);
    assert_int_equal(scratch_list(0), 2);
}

/* Who may not give the new file to the old one's group gives his own group no more than everybody
 * has. Needs root to become somebody else. */
static void a_group_that_cannot_be_kept_loses_its_rights(void **state) {
    (void)state;
    static const mode_t modes[][2] = {{0640, 0600}, {0664, 0644}, {0606, 0606}, {0670, 0600}};
    if (geteuid() != 0) {
        return;
    }
    assert_int_equal(chmod(scratch, 0777), 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const char *path = in_scratch("shared");
        int status;
        file_put(path, "before", 6);
        assert_int_equal(chmod(path, modes[i][0]), 0);
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
                _exit(77); /* not even root may, here */
            }
            _exit(put(path, "after", 0, false, NULL) == SFT_OK ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) != 77) {
            assert_int_equal(WEXITSTATUS(status), 0);
            assert_file(path, "after", 5);
            assert_int_equal(file_mode(path), modes[i][1]);
        }
        assert_int_equal(unlink(path), 0);
    }
}

static void nothing_shows_before_commit(void **state) {
    (void)state;
    const sft__fs_publish_options o = opts(0, false);
    const sft__fs_span part = {"xyz", 3};
    sft__fs_publish *p;
    const char *path = in_scratch("f");
    file_put(path, "old", 3);
    assert_int_equal(sft__fs_publish_open(&p, path, &o, NULL), SFT_OK);
    assert_int_equal(sft__fs_publish_write(p, 0, &part, 1, NULL), SFT_OK);
    assert_file(path, "old", 3);
    sft__fs_publish_free(p);
    assert_file(path, "old", 3);
    assert_int_equal(scratch_list(0), 1);
}

static void links_are_written_through(void **state) {
    (void)state;
    char target[2048];
    assert_int_equal(mkdir(in_scratch("real"), 0777), 0);
    assert_int_equal(symlink("real/file", in_scratch("rel")), 0);
    (void)snprintf(target, sizeof target, "%s", in_scratch("rel"));
    assert_int_equal(symlink(target, in_scratch("abs")), 0);
    /* dangling: the file that the link names comes to be */
    assert_int_equal(put(in_scratch("abs"), "one", 0, false, NULL), SFT_OK);
    assert_file(in_scratch("real/file"), "one", 3);
    assert_int_equal(put(in_scratch("abs"), "two!", 0, false, NULL), SFT_OK);
    assert_file(in_scratch("real/file"), "two!", 4);
    struct stat st;
    assert_int_equal(lstat(in_scratch("abs"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(in_scratch("rel"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(unlink(in_scratch("real/file")), 0);

    sft_error err;
    assert_int_equal(symlink("loop", in_scratch("loop")), 0);
    assert_int_equal(put(in_scratch("loop"), "x", 0, false, &err), SFT_E_IO);
    assert_int_equal(err.sys, ELOOP);
}

static void other_things_are_refused(void **state) {
    (void)state;
    sft_error err;
    char path[2048];
    assert_int_equal(mkdir(in_scratch("folder"), 0777), 0);
    assert_int_equal(mkfifo(in_scratch("fifo"), 0666), 0);
    assert_int_equal(put(in_scratch("folder"), "x", 0, false, &err), SFT_E_NOT_REGULAR);
    assert_int_equal(put(in_scratch("folder/"), "x", 0, false, &err), SFT_E_NOT_REGULAR);
    assert_int_equal(put(in_scratch("folder/.."), "x", 0, false, &err), SFT_E_NOT_REGULAR);
    assert_int_equal(put(in_scratch("fifo"), "x", 0, false, &err), SFT_E_NOT_REGULAR);
    assert_non_null(strstr(err.message, "FIFO"));
    assert_int_equal(put("/dev/zero", "x", 0, false, &err), SFT_E_NOT_REGULAR);
    assert_int_equal(put("", "x", 0, false, &err), SFT_E_PATH);
    assert_int_equal(put(in_scratch("missing/f"), "x", 0, false, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOENT);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fds[1]);
    assert_int_equal(put(path, "x", 0, false, &err), SFT_E_NOT_REGULAR);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(scratch_list(0), 2);
}

static void new_only_never_replaces(void **state) {
    (void)state;
    sft_error err;
    const char *path = in_scratch("n");
    assert_int_equal(put(path, "first", 0, true, &err), SFT_OK);
    assert_int_equal(put(path, "second", 0, true, &err), SFT_E_EXISTS);
    assert_file(path, "first", 5);
    /* it comes to be while we write */
    const sft__fs_publish_options o = opts(0, true);
    sft__fs_publish *p;
    assert_int_equal(sft__fs_publish_open(&p, in_scratch("late"), &o, &err), SFT_OK);
    file_put(in_scratch("late"), "theirs", 6);
    assert_int_equal(sft__fs_publish_commit(p, &err), SFT_E_EXISTS);
    sft__fs_publish_free(p);
    assert_file(in_scratch("late"), "theirs", 6);
    /* without the flag the late comer is replaced */
    const sft__fs_publish_options any = opts(0, false);
    assert_int_equal(sft__fs_publish_open(&p, in_scratch("later"), &any, &err), SFT_OK);
    file_put(in_scratch("later"), "theirs", 6);
    assert_int_equal(sft__fs_publish_commit(p, &err), SFT_OK);
    sft__fs_publish_free(p);
    assert_file(in_scratch("later"), "", 0);
    assert_int_equal(scratch_list(0), 3);
}

static void long_names_fit(void **state) {
    (void)state;
    char name[256];
    for (size_t len = 228; len <= 255; len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        memcpy(name + 230 - 2, "\xc3\xa9\xc3\xa9", len >= 232 ? 4 : 0);
        assert_int_equal(put(in_scratch(name), "a", 0, false, NULL), SFT_OK);
        assert_int_equal(put(in_scratch(name), "bb", 0, false, NULL),
                         SFT_OK); /* by a temporary name */
        assert_file(in_scratch(name), "bb", 2);
        assert_int_equal(scratch_list(1), 1);
    }
}

static void large_writes_out_of_order(void **state) {
    (void)state;
    /* large enough to go past the cache, written out of order */
    const sft__fs_publish_options o = opts(0, false);
    const size_t piece = (size_t)8 << 20;
    char *block = malloc(piece);
    assert_non_null(block);
    sft__fs_publish *p;
    assert_int_equal(sft__fs_publish_open(&p, in_scratch("big"), &o, NULL), SFT_OK);
    assert_int_equal(sft__fs_publish_reserve(p, 9 * (uint64_t)piece, NULL), SFT_OK);
    for (size_t i = 0; i < 9; i++) {
        const size_t at = (i * 4) % 9;
        memset(block, (int)at + 1, piece);
        const sft__fs_span part = {block, piece};
        assert_int_equal(sft__fs_publish_write(p, (uint64_t)at * piece, &part, 1, NULL), SFT_OK);
    }
    assert_int_equal(sft__fs_publish_commit(p, NULL), SFT_OK);
    sft__fs_publish_free(p);
    FILE *f = fopen(in_scratch("big"), "rb");
    assert_non_null(f);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(fread(block, 1, piece, f), piece);
        for (size_t k = 0; k < piece; k += 4093) {
            assert_int_equal(block[k], (int)i + 1);
        }
    }
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    free(block);
}

/* Every alignment of memory and file: odd ends through the cache, pages past it, the caller's
 * memory or copied. */
static void direct_writes_of_every_alignment(void **state) {
    (void)state;
    enum { FILE_SIZE = 5 << 20, BASE = 4096 };
    const sft__fs_publish_options o = opts(0, false);
    uint8_t *want = malloc(FILE_SIZE);
    uint8_t *memory = aligned_alloc(BASE, FILE_SIZE + 2 * BASE);
    uint32_t seed = 7;
    assert_true(want != NULL && memory != NULL);
    for (int round = 0; round < 30; round++) {
        sft__fs_publish *p;
        size_t at = 0;
        assert_int_equal(sft__fs_publish_open(&p, in_scratch("d"), &o, NULL), SFT_OK);
        assert_int_equal(sft__fs_publish_reserve(p, FILE_SIZE, NULL), SFT_OK);
        while (at < FILE_SIZE) {
            /* up to four parts, at addresses of several alignments */
            sft__fs_span parts[4];
            uint8_t *from = memory;
            const size_t begin = at;
            size_t count = 0;
            for (; count < 4 && at < FILE_SIZE; count++) {
                seed = seed * 1664525 + 1013904223;
                size_t size = (seed >> 8) % 400000;
                size = size < FILE_SIZE - at ? size : FILE_SIZE - at;
                size = seed % 7 == 0 ? 0 : size;
                from += seed % 3 == 0 ? (BASE - (size_t)(from - memory) % BASE) % BASE : seed % 5;
                if (from + size > memory + FILE_SIZE) {
                    break;
                }
                for (size_t i = 0; i < size; i++) {
                    from[i] = (uint8_t)(seed + i * 11 + (i >> 8));
                }
                memcpy(want + at, from, size);
                parts[count] = (sft__fs_span){from, size};
                from += size;
                at += size;
            }
            assert_int_equal(sft__fs_publish_write(p, begin, parts, count, NULL), SFT_OK);
        }
        assert_int_equal(sft__fs_publish_commit(p, NULL), SFT_OK);
        sft__fs_publish_free(p);
        assert_file(in_scratch("d"), want, FILE_SIZE);
    }
    free(memory);
    free(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(new_file_follows_the_umask, scratch_clear),
        cmocka_unit_test_teardown(replacing_keeps_the_mode_and_hard_links_the_old_bytes,
                                  scratch_clear),
        cmocka_unit_test_teardown(a_group_that_cannot_be_kept_loses_its_rights, scratch_clear),
        cmocka_unit_test_teardown(nothing_shows_before_commit, scratch_clear),
        cmocka_unit_test_teardown(links_are_written_through, scratch_clear),
        cmocka_unit_test_teardown(other_things_are_refused, scratch_clear),
        cmocka_unit_test_teardown(new_only_never_replaces, scratch_clear),
        cmocka_unit_test_teardown(long_names_fit, scratch_clear),
        cmocka_unit_test_teardown(direct_writes_of_every_alignment, scratch_clear),
        cmocka_unit_test_teardown(large_writes_out_of_order, scratch_clear),
    };
    return cmocka_run_group_tests_name("publish", tests, scratch_make, scratch_drop);
}
