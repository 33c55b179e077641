/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of targets, streams and copies from file to file or stream: io/target, io/stream,
 * io/copy.
 */
#include "unit/files.h"

#include "base/thread.h"
#include "fs/copy.h"
#include "io/target.h"
#include <signal.h>
#include <sys/socket.h>

static void memory_target(void **state) {
    (void)state;
    char memory[8] = "........";
    sft_target *t;
    sft_error err;
    void *lent;
    assert_int_equal(sft_target_open_memory(&t, memory, sizeof memory, NULL, NULL), SFT_OK);
    assert_int_equal(sft_target_size(t), 8);
    assert_int_equal(sft_target_flags(t), 0);
    assert_int_equal(sft_target_descriptor(t), -1);
    assert_string_equal(sft_target_name(t), "memory");
    assert_int_equal(sft_target_write(t, 2, "abc", 3, NULL), SFT_OK);
    assert_int_equal(sft_target_write(t, 8, "", 0, NULL), SFT_OK);
    assert_memory_equal(memory, "..abc...", 8);
    assert_int_equal(sft_target_write(t, 6, "xyz", 3, &err), SFT_E_RANGE);
    assert_int_equal(err.offset, 6);
    assert_int_equal(sft_target_write(t, UINT64_MAX, "xyz", 3, &err), SFT_E_RANGE);
    assert_int_equal(sft_target_borrow(t, 4, 4, &lent, NULL), SFT_OK);
    assert_ptr_equal(lent, memory + 4);
    assert_int_equal(sft_target_borrow(t, 4, 5, &lent, NULL), SFT_E_RANGE);
    assert_null(lent);
    sft_target_close(t);
    sft_target_close(NULL);
}

typedef struct counts {
    int ok;
    int failed;
    sft_status last;
} counts;

static void count_done(void *ctx, size_t index, sft_status status, const sft_error *err) {
    counts *c = ctx;
    (void)index;
    c->ok += status == SFT_OK ? 1 : 0;
    c->failed += status != SFT_OK ? 1 : 0;
    c->last = status;
    assert_true((err == NULL) == (status == SFT_OK));
}

static int stop_at_second(void *ctx, const sft_progress *progress) {
    (void)progress;
    return ++*(int *)ctx == 2;
}

static void write_many_reports_every_range_once(void **state) {
    (void)state;
    char memory[8] = {0};
    char a[] = "aa", b[] = "bbb", c[] = "c";
    const sft_io_range good[] = {{0, a, 2}, {5, b, 3}, {3, c, 1}};
    const sft_io_range bad[] = {{0, a, 2}, {6, b, 3}, {3, c, 1}};
    counts n = {0, 0, SFT_OK};
    sft_target *t;
    sft_error err;
    assert_int_equal(sft_target_open_memory(&t, memory, sizeof memory, NULL, NULL), SFT_OK);
    assert_int_equal(sft_target_write_many(t, good, 3, count_done, &n, NULL, NULL), SFT_OK);
    assert_int_equal(n.ok, 3);
    assert_memory_equal(memory, "aa\0c\0bbb", 8);
    memset(&n, 0, sizeof n);
    assert_int_equal(sft_target_write_many(t, bad, 3, count_done, &n, NULL, &err), SFT_E_RANGE);
    assert_int_equal(n.ok, 1);
    assert_int_equal(n.failed, 2);
    assert_int_equal(err.status, SFT_E_RANGE);
    assert_int_equal(sft_target_write_many(t, bad, 3, NULL, NULL, NULL, NULL), SFT_E_RANGE);
    int polls = 0;
    sft_control control;
    SFT_INIT(&control);
    control.poll = stop_at_second;
    control.ctx = &polls;
    memset(&n, 0, sizeof n);
    assert_int_equal(sft_target_write_many(t, good, 3, count_done, &n, &control, &err),
                     SFT_E_CANCELLED);
    assert_int_equal(n.ok, 1);
    assert_int_equal(n.failed, 2);
    sft_target_close(t);
}

static int closed;
static sft_status own_write(void *self, uint64_t offset, const void *data, size_t size,
                            sft_error *err) {
    (void)err;
    memcpy((char *)self + offset, data, size);
    return SFT_OK;
}
static sft_status own_many(void *self, const sft_io_range *ranges, size_t count, sft_io_done done,
                           void *ctx, const sft_control *control, sft_error *err) {
    (void)control;
    for (size_t i = count; i-- > 0;) {
        done(ctx, i, own_write(self, ranges[i].offset, ranges[i].data, ranges[i].size, err), NULL);
    }
    return SFT_OK;
}
static void own_close(void *self) {
    (void)self;
    closed++;
}

static sft_status own_refusal(void *self, uint64_t offset, const void *data, size_t size,
                              sft_error *err) {
    (void)self;
    (void)offset;
    (void)data;
    (void)size;
    return err == NULL ? SFT_E_INTERNAL : SFT_E_IO; /* fails, and does not say why */
}

/* A user's function always gets a record; where it leaves it empty, the caller's is filled. */
static void users_own_failures(void **state) {
    (void)state;
    char text[] = "xy";
    counts n = {0, 0, SFT_OK};
    const sft_io_range one = {1, text, 2};
    sft_target_vtable v;
    sft_target *t;
    sft_error err;
    SFT_INIT(&v);
    v.write_at = own_refusal;
    assert_int_equal(sft_target_create(&t, NULL, NULL, 4, 0, NULL, NULL, NULL), SFT_E_ARG);
    assert_null(t);
    assert_int_equal(sft_target_create(NULL, &v, NULL, 4, 0, NULL, NULL, NULL), SFT_E_ARG);
    assert_int_equal(sft_target_create(&t, &v, NULL, 4, 0, "mine", NULL, NULL), SFT_OK);
    assert_int_equal(sft_target_write(t, 1, text, 2, NULL), SFT_E_IO);
    memset(&err, 0, sizeof err);
    assert_int_equal(sft_target_write(t, 1, text, 2, &err), SFT_E_IO);
    assert_int_equal(err.status, SFT_E_IO);
    assert_int_equal(err.offset, 1);
    assert_non_null(strstr(err.message, "mine"));
    memset(&err, 0, sizeof err);
    assert_int_equal(sft_target_write_many(t, &one, 1, count_done, &n, NULL, &err), SFT_E_IO);
    assert_int_equal(err.status, SFT_E_IO);
    sft_target_close(t);
}

static void users_own_target(void **state) {
    (void)state;
    char memory[4] = {0};
    char text[] = "xy";
    sft_target_vtable v;
    sft_target *t;
    void *lent = memory;
    counts n = {0, 0, SFT_OK};
    const sft_io_range one = {1, text, 2};
    const sft_io_range out = {3, text, 2};
    SFT_INIT(&v);
    assert_int_equal(sft_target_create(&t, &v, memory, 4, 0, NULL, NULL, NULL), SFT_E_ARG);
    assert_null(t);
    v.write_at = own_write;
    v.write_many = own_many;
    v.close = own_close;
    assert_int_equal(sft_target_create(&t, &v, memory, 4, SFT_TARGET_ORDERED, "mine", NULL, NULL),
                     SFT_OK);
    assert_string_equal(sft_target_name(t), "mine");
    assert_int_equal(sft_target_flags(t), SFT_TARGET_ORDERED);
    assert_int_equal(sft_target_write_many(t, &one, 1, count_done, &n, NULL, NULL), SFT_OK);
    assert_int_equal(n.ok, 1);
    assert_memory_equal(memory, "\0xy\0", 4);
    assert_int_equal(sft_target_write_many(t, &out, 1, count_done, &n, NULL, NULL), SFT_E_RANGE);
    assert_int_equal(n.failed, 1);
    assert_int_equal(sft_target_borrow(t, 0, 1, &lent, NULL), SFT_E_UNSUPPORTED);
    assert_null(lent);
    assert_int_equal(sft__target_copy(t, 0, 0, "x", 0, 1, NULL, NULL), SFT_E_UNSUPPORTED);
    sft_target_close(t);
    assert_int_equal(closed, 1);
    /* a table of an older caller ends after write_at */
    v.struct_size = offsetof(sft_target_vtable, write_many);
    assert_int_equal(sft_target_create(&t, &v, memory, 4, 0, NULL, NULL, NULL), SFT_OK);
    assert_int_equal(sft_target_write_many(t, &one, 1, count_done, &n, NULL, NULL), SFT_OK);
    sft_target_close(t);
    assert_int_equal(closed, 1);
}

static void fd_target_and_its_refusals(void **state) {
    (void)state;
    sft_target *t;
    int fds[2];
    int fd = open(in_scratch("f"), O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(sft_target_open_fd(&t, fd, NULL, NULL), SFT_OK);
    assert_int_equal(sft_target_descriptor(t), fd);
    assert_int_equal(sft_target_write(t, 3, "def", 3, NULL), SFT_OK);
    assert_int_equal(sft_target_write(t, 0, "abc", 3, NULL), SFT_OK);
    sft_target_close(t);
    assert_int_equal(close(fd), 0);
    assert_file(in_scratch("f"), "abcdef", 6);

    fd = open(in_scratch("f"), O_WRONLY | O_APPEND);
    assert_int_equal(sft_target_open_fd(&t, fd, NULL, NULL), SFT_E_ARG);
    close(fd);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sft_target_open_fd(&t, fds[1], NULL, NULL), SFT_E_NOT_REGULAR);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(sft_target_open_fd(&t, 9999, NULL, NULL), SFT_E_IO);
    assert_int_equal(sft_target_open_stream(&t, 9999, NULL, NULL), SFT_E_IO);
}

/* Reads everything from a descriptor, slowly at first. */
typedef struct reader {
    int fd;
    uint64_t sum;
    uint64_t bytes;
} reader;

static void read_all(void *arg) {
    reader *r = arg;
    static char buffer[65536];
    usleep(20000);
    for (;;) {
        const ssize_t n = read(r->fd, buffer, sizeof buffer);
        if (n <= 0) {
            break;
        }
        for (ssize_t i = 0; i < n; i++) {
            r->sum = r->sum * 31 + (uint8_t)buffer[i];
        }
        r->bytes += (uint64_t)n;
    }
}

static uint64_t sum_of(const char *data, size_t size, uint64_t sum) {
    for (size_t i = 0; i < size; i++) {
        sum = sum * 31 + (uint8_t)data[i];
    }
    return sum;
}

static void stream_through(int fds[2], bool non_blocking) {
    enum { SIZE = 300000 };
    char *data = malloc(SIZE);
    reader r = {fds[0], 0, 0};
    sft__thread thread;
    sft_target *t;
    sft_error err;
    assert_non_null(data);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)(i * 7 + i / 251);
    }
    file_put(in_scratch("src"), data, SIZE);
    const int src = open(in_scratch("src"), O_RDONLY);
    if (non_blocking) {
        assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    }
    assert_true(sft__thread_start(&thread, read_all, &r));
    assert_int_equal(sft_target_open_stream(&t, fds[1], NULL, NULL), SFT_OK);
    assert_int_equal(sft_target_flags(t), SFT_TARGET_ORDERED);
    assert_int_equal(sft_target_write(t, 0, data, SIZE, NULL), SFT_OK);
    assert_int_equal(sft_target_write(t, SIZE + 1, data, 1, &err), SFT_E_STATE);
    assert_int_equal(sft__target_copy(t, SIZE, src, "src", 1000, SIZE - 1000, NULL, NULL), SFT_OK);
    assert_int_equal(sft__target_copy(t, 0, src, "src", 0, 1, NULL, NULL), SFT_E_STATE);
    assert_int_equal(sft_target_write(t, 2 * SIZE - 1000, "end", 3, NULL), SFT_OK);
    sft_target_close(t);
    close(src);
    close(fds[1]);
    sft__thread_join(&thread);
    close(fds[0]);
    assert_int_equal(r.bytes, 2 * SIZE - 1000 + 3);
    assert_true(r.sum == sum_of("end", 3, sum_of(data + 1000, SIZE - 1000, sum_of(data, SIZE, 0))));
    free(data);
}

static void streams_of_each_kind(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        stream_through(fds, round == 1);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        stream_through(fds, round == 1);
    }
}

static void a_closed_reader_is_an_error_and_no_signal(void **state) {
    (void)state;
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    const int src = open("/proc/self/exe", O_RDONLY);
    assert_true(src >= 0);
    for (int kind = 0; kind < 2; kind++) {
        int fds[2];
        sft_target *t;
        sft_error err;
        assert_int_equal(kind == 0 ? pipe(fds) : socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        close(fds[0]);
        assert_int_equal(sft_target_open_stream(&t, fds[1], NULL, NULL), SFT_OK);
        assert_int_equal(sft_target_write(t, 0, "x", 1, &err), SFT_E_IO);
        assert_int_equal(err.sys, EPIPE);
        assert_int_equal(sft__target_copy(t, 0, src, "exe", 0, 100, NULL, &err), SFT_E_IO);
        assert_int_equal(err.sys, EPIPE);
        sft_target_close(t);
        close(fds[1]);
    }
    close(src);
    sigset_t pending, blocked;
    assert_int_equal(sigpending(&pending), 0);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    assert_int_equal(sigismember(&blocked, SIGPIPE), 0);
}

static int poll_count(void *ctx, const sft_progress *progress) {
    int *n = ctx;
    assert_true(progress->bytes_done <= progress->bytes_total);
    return ++*n == 3;
}

static void copies_between_files(void **state) {
    (void)state;
    enum { SIZE = 3 * 4096 + 100 };
    char *data = malloc(SIZE);
    assert_non_null(data);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)(i * 11);
    }
    file_put(in_scratch("a"), data, SIZE);
    const int src = open(in_scratch("a"), O_RDONLY);
    static const struct {
        uint64_t from, to, size;
    } cases[] = {{0, 0, SIZE},     {0, 4096, SIZE}, {4096, 0, 8192},
                 {1, 0, SIZE - 1}, {5, 7, 11},      {0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sft__fs_copy c;
        memset(&c, 0, sizeof c);
        const int dst = open(in_scratch("b"), O_RDWR | O_CREAT | O_TRUNC, 0666);
        c.src = src;
        c.dst = dst;
        c.src_name = c.dst_name = "f";
        c.src_offset = cases[i].from;
        c.dst_offset = cases[i].to;
        c.size = cases[i].size;
        assert_int_equal(sft__fs_copy_range(&c, NULL), SFT_OK);
        char *back = malloc(SIZE + 1);
        assert_non_null(back);
        assert_int_equal(pread(dst, back, cases[i].size, (off_t)cases[i].to), cases[i].size);
        assert_memory_equal(back, data + cases[i].from, cases[i].size);
        free(back);
        c.size = SIZE + 1;
        sft_error err;
        assert_int_equal(sft__fs_copy_range(&c, &err), SFT_E_TRUNCATED);
        close(dst);
    }
    close(src);
    free(data);
}

static void copies_can_be_cancelled(void **state) {
    (void)state;
    const int src = open(in_scratch("sparse"), O_RDWR | O_CREAT, 0666);
    const int dst = open(in_scratch("dst"), O_RDWR | O_CREAT, 0666);
    int polls = 0;
    sft__meter meter;
    sft_control control;
    sft__fs_copy c;
    memset(&c, 0, sizeof c);
    SFT_INIT(&control);
    control.poll = poll_count;
    control.ctx = &polls;
    assert_int_equal(ftruncate(src, (off_t)(10 * SFT__METER_STEP)), 0);
    assert_int_equal(sft__meter_init(&meter, &control, 10 * SFT__METER_STEP, NULL), SFT_OK);
    c.src = src;
    c.dst = dst;
    c.src_name = c.dst_name = "f";
    c.src_offset = 1; /* no shared blocks: those are all at once */
    c.size = 10 * SFT__METER_STEP - 1;
    c.meter = &meter;
    assert_int_equal(sft__fs_copy_range(&c, NULL), SFT_E_CANCELLED);
    assert_int_equal(polls, 3);
    assert_int_equal(sft__meter_add(&meter, 0, NULL), SFT_E_CANCELLED);
    assert_int_equal(polls, 3);
    sft__meter_reset(&meter);
    close(src);
    close(dst);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_target),
        cmocka_unit_test(write_many_reports_every_range_once),
        cmocka_unit_test(users_own_failures),
        cmocka_unit_test(users_own_target),
        cmocka_unit_test_teardown(fd_target_and_its_refusals, scratch_clear),
        cmocka_unit_test_teardown(streams_of_each_kind, scratch_clear),
        cmocka_unit_test(a_closed_reader_is_an_error_and_no_signal),
        cmocka_unit_test_teardown(copies_between_files, scratch_clear),
        cmocka_unit_test_teardown(copies_can_be_cancelled, scratch_clear),
    };
    return cmocka_run_group_tests_name("target", tests, scratch_make, scratch_drop);
}
