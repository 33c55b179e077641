/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of sources: files (read, mapped, lazily mapped), descriptors, memory, streams, the
 * user's own.
 */
#include "unit/cm.h"
#include "unit/counting.h"
#include "unit/folder.h"

#include "base/thread/thread.h"
#include "fs/below.h"
#include "io/source.h"
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#define INFO(...)  (&(sft_source_info){__VA_ARGS__})
#define BATCH(...) (&(sft_io_batch){__VA_ARGS__})
#define LOGGED(n)  BATCH(ranges, n, log_done, &log, NULL)
#define UNSEEN(n)  BATCH(ranges, n, NULL, NULL, NULL)

static char tmp[64];

static int setup(void **state) {
    (void)state;
    folder_make(tmp);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    folder_remove(tmp);
    return 0;
}

static uint8_t pattern(uint64_t i) {
    return (uint8_t)(i * 131 + (i >> 8));
}

static const char *pattern_file(const char *name, size_t size) {
    const char *path = in_folder(tmp, name);
    uint8_t *data = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        data[i] = pattern(i);
    }
    write_file(path, data, size);
    free(data);
    return path;
}

static void assert_pattern(const void *data, uint64_t offset, size_t size) {
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(((const uint8_t *)data)[i], pattern(offset + i));
    }
}

static void a_file_reads_the_same_whatever_the_access(void **state) {
    (void)state;
    const char *path = pattern_file("a", 10000);
    static const sft_access all[] = {SFT_ACCESS_AUTO, SFT_ACCESS_READ, SFT_ACCESS_MAP};
    for (size_t a = 0; a < 3; a++) {
        sft_source *s;
        sft_error err;
        uint8_t buf[10000];
        const void *lent;
        assert_int_equal(sft_source_open(&s, path, all[a], NULL, &err), SFT_OK);
        assert_int_equal(sft_source_size(s), 10000);
        assert_string_equal(sft_source_name(s), path);
        assert_int_equal(sft_source_flags(s), 0);
        assert_true(sft_source_descriptor(s) >= 0);
        assert_int_equal(sft_source_read(s, 0, buf, 10000, &err), SFT_OK);
        assert_pattern(buf, 0, 10000);
        assert_int_equal(sft_source_read(s, 9999, buf, 1, &err), SFT_OK);
        assert_pattern(buf, 9999, 1);
        assert_int_equal(sft_source_read(s, 10000, NULL, 0, &err), SFT_OK);
        const sft_status st = sft_source_borrow(s, 123, 5000, &lent, &err);
        if (all[a] == SFT_ACCESS_READ) {
            assert_int_equal(st, SFT_E_UNSUPPORTED);
            assert_null(lent);
        } else {
            assert_int_equal(st, SFT_OK);
            assert_pattern(lent, 123, 5000);
            assert_int_equal(sft_source_borrow(s, 10000, 0, &lent, &err), SFT_OK);
            assert_non_null(lent);
        }
        for (int advice = SFT_ADVICE_WILL_NEED; advice <= SFT_ADVICE_DONT_NEED; advice++) {
            sft_source_advise(s, 5, UINT64_MAX, (sft_advice)advice);
            sft_source_advise(s, UINT64_MAX, 5, (sft_advice)advice);
        }
        assert_int_equal(sft_source_read(s, 0, buf, 10000, &err), SFT_OK);
        assert_pattern(buf, 0, 10000);
        sft_source_close(s);
    }
}

static void ranges_outside_are_refused_before_the_vtable_sees_them(void **state) {
    (void)state;
    static const struct {
        uint64_t offset;
        size_t size;
    } bad[] = {{0, 101},
               {100, 1},
               {101, 0},
               {UINT64_MAX, 1},
               {UINT64_MAX, SIZE_MAX},
               {1, SIZE_MAX},
               {50, SIZE_MAX - 49},
               {101, 1}};
    uint8_t memory[100] = {0};
    uint8_t dst[4];
    const char *path = pattern_file("r", 100);
    for (int kind = 0; kind < 3; kind++) {
        sft_source *s;
        sft_error err;
        assert_int_equal(kind == 0   ? sft_source_open_memory(&s, memory, 100, NULL, &err)
                         : kind == 1 ? sft_source_open(&s, path, SFT_ACCESS_MAP, NULL, &err)
                                     : sft_source_open(&s, path, SFT_ACCESS_READ, NULL, &err),
                         SFT_OK);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            const void *lent;
            assert_int_equal(sft_source_read(s, bad[i].offset, dst, bad[i].size, &err),
                             SFT_E_TRUNCATED);
            assert_int_equal(err.offset, bad[i].offset);
            assert_int_equal(sft_source_borrow(s, bad[i].offset, bad[i].size, &lent, &err),
                             SFT_E_TRUNCATED);
            assert_null(lent);
        }
        assert_int_equal(sft_source_read(s, 0, NULL, 1, &err), SFT_E_ARG);
        sft_source_close(s);
    }
}

static void a_file_that_shrinks_is_an_error_never_a_signal(void **state) {
    (void)state;
    static const sft_access all[] = {SFT_ACCESS_AUTO, SFT_ACCESS_READ, SFT_ACCESS_MAP};
    for (size_t a = 0; a < 3; a++) {
        const char *path = pattern_file("shrink", 100000);
        uint8_t *buf = malloc(100000);
        sft_source *s;
        sft_error err;
        const void *lent;
        assert_int_equal(sft_source_open(&s, path, all[a], NULL, &err), SFT_OK);
        assert_int_equal(truncate(path, 5000), 0);
        assert_int_equal(sft_source_read(s, 0, buf, 100000, &err), SFT_E_TRUNCATED);
        assert_int_equal(err.offset, 5000);
        assert_non_null(strstr(err.message, "shrink"));
        assert_int_equal(sft_source_read(s, 60000, buf, 10, &err), SFT_E_TRUNCATED);
        assert_int_equal(sft_source_read(s, 0, buf, 5000, &err), SFT_OK);
        assert_pattern(buf, 0, 5000);
        if (all[a] == SFT_ACCESS_AUTO) { /* nothing was mapped yet: refused instead of lent */
            assert_int_equal(sft_source_borrow(s, 0, 10, &lent, &err), SFT_E_TRUNCATED);
            assert_int_equal(err.offset, 5000);
        }
        sft_source_close(s);
        free(buf);
    }
}

typedef struct shaker {
    int fd;
    _Atomic int stop;
} shaker;

static void shake(void *arg) {
    shaker *s = arg;
    while (!s->stop) {
        assert_int_equal(ftruncate(s->fd, 100), 0);
        assert_int_equal(ftruncate(s->fd, 100000), 0);
    }
}

/* Zeros come back where the file was cut: what matters is that only errors come, each with its
 * place. */
static void a_file_truncated_again_and_again(void **state) {
    (void)state;
    static const sft_access all[] = {SFT_ACCESS_AUTO, SFT_ACCESS_MAP};
    const char *path = pattern_file("shaken", 100000);
    uint8_t *buf = malloc(20000);
    size_t failures = 0;
    sft__base_thread thread;
    sft_source *s[2];
    shaker shaken = {open(path, O_RDWR), 0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sft_source_open(&s[i], path, all[i], NULL, NULL), SFT_OK);
    }
    assert_true(sft__base_thread_start(&thread, shake, &shaken));
    for (uint32_t i = 0; i < 100000; i++) {
        const uint64_t offset = i * 7919u % 80000u;
        const size_t size = 1 + i % 20000u;
        sft_error err;
        const sft_status st = sft_source_read(s[i % 2], offset, buf, size, &err);
        assert_true(st == SFT_OK || st == SFT_E_TRUNCATED);
        if (st != SFT_OK) {
            assert_true(err.offset >= offset && err.offset < offset + size);
            failures++;
        }
    }
    shaken.stop = 1;
    sft__base_thread_join(&thread);
    assert_true(failures > 0 && failures < 100000);
    for (int i = 0; i < 2; i++) {
        sft_source_close(s[i]);
    }
    (void)close(shaken.fd);
    free(buf);
}

static void only_regular_files_open(void **state) {
    (void)state;
    sft_source *s = (sft_source *)1;
    sft_error err;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fds[2];

    assert_int_equal(mkfifo(in_folder(tmp, "fifo"), 0600), 0);
    assert_int_equal(symlink("fifo", in_folder(tmp, "to_fifo")), 0);
    const int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", tmp);
    assert_int_equal(bind(sock, (const struct sockaddr *)&address, sizeof address), 0);
    const char *refused[] = {in_folder(tmp, "fifo"), in_folder(tmp, "to_fifo"), tmp, "/dev/zero",
                             in_folder(tmp, "socket")};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(sft_source_open(&s, refused[i], SFT_ACCESS_AUTO, NULL, &err),
                         SFT_E_NOT_REGULAR);
        assert_null(s);
        assert_non_null(strstr(err.message, refused[i]));
    }
    (void)close(sock);
    assert_int_equal(sft_source_open(&s, in_folder(tmp, "absent"), SFT_ACCESS_AUTO, NULL, &err),
                     SFT_E_IO);
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(sft_source_open(&s, "", SFT_ACCESS_AUTO, NULL, &err), SFT_E_IO);
    assert_int_equal(sft_source_open(&s, NULL, SFT_ACCESS_AUTO, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_source_open(&s, "x", (sft_access)9, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_source_open(NULL, "x", SFT_ACCESS_AUTO, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_source_open_fd(&s, -1, SFT_ACCESS_AUTO, NULL, &err), SFT_E_IO);
    assert_int_equal(err.sys, EBADF);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sft_source_open_fd(&s, fds[0], SFT_ACCESS_AUTO, NULL, &err),
                     SFT_E_NOT_REGULAR);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void a_descriptor_is_duplicated(void **state) {
    (void)state;
    sft_source *s;
    sft_error err;
    uint8_t buf[300];
    const int fd = open(pattern_file("fd", 300), O_RDONLY);
    assert_int_equal(lseek(fd, 17, SEEK_SET), 17);
    assert_int_equal(sft_source_open_fd(&s, fd, SFT_ACCESS_AUTO, NULL, &err), SFT_OK);
    assert_int_equal(sft_source_read(s, 0, buf, 300, &err), SFT_OK);
    assert_pattern(buf, 0, 300);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 17); /* the caller's position stays */
    assert_int_equal(close(fd), 0);
    assert_int_equal(sft_source_read(s, 200, buf, 100, &err), SFT_OK);
    assert_pattern(buf, 200, 100);
    sft_source_close(s);
}

static void empty_sources(void **state) {
    (void)state;
    const char *path = pattern_file("empty", 0);
    sft_error err;
    const void *lent;
    for (int i = 0; i < 3; i++) {
        sft_source *s;
        assert_int_equal(i == 0   ? sft_source_open(&s, path, SFT_ACCESS_MAP, NULL, &err)
                         : i == 1 ? sft_source_open(&s, path, SFT_ACCESS_AUTO, NULL, &err)
                                  : sft_source_open_memory(&s, NULL, 0, NULL, &err),
                         SFT_OK);
        assert_int_equal(sft_source_size(s), 0);
        assert_int_equal(sft_source_read(s, 0, NULL, 0, &err), SFT_OK);
        assert_int_equal(sft_source_borrow(s, 0, 0, &lent, &err), SFT_OK);
        assert_non_null(lent);
        assert_int_equal(sft_source_borrow(s, 0, 1, &lent, &err), SFT_E_TRUNCATED);
        sft_source_close(s);
    }
    sft_source_close(NULL);
}

static void beyond_four_gigabytes(void **state) {
    (void)state;
    const char *path = in_folder(tmp, "sparse");
    const uint64_t far_away = UINT64_C(5) << 30;
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    sft_source *s;
    sft_error err;
    uint8_t buf[16];
    const void *lent;
    assert_int_equal(ftruncate(fd, (off_t)far_away + 100), 0);
    assert_int_equal(pwrite(fd, "far", 3, (off_t)far_away), 3);
    assert_int_equal(pwrite(fd, "edge", 4, (off_t)(UINT64_C(1) << 32) - 2), 4);
    (void)close(fd);
    assert_int_equal(sft_source_open(&s, path, SFT_ACCESS_AUTO, NULL, &err), SFT_OK);
    assert_int_equal(sft_source_size(s), far_away + 100);
    assert_int_equal(sft_source_read(s, far_away, buf, 3, &err), SFT_OK);
    assert_memory_equal(buf, "far", 3);
    assert_int_equal(sft_source_read(s, (UINT64_C(1) << 32) - 3, buf, 6, &err), SFT_OK);
    assert_memory_equal(buf, "\0edge\0", 6);
    const sft_status st = sft_source_borrow(s, far_away, 3, &lent, &err);
    if (sizeof(size_t) >= 8) {
        assert_int_equal(st, SFT_OK);
        assert_memory_equal(lent, "far", 3);
    } else {
        assert_int_equal(st, SFT_E_UNSUPPORTED);
    }
    sft_source_close(s);
}

/* ---------------------------------------------------------------- streams */

typedef struct feed {
    int fd;
    size_t total;
    size_t chunk;
} feed;

static void feeder(void *arg) {
    feed *f = arg;
    uint8_t buf[5000];
    for (size_t at = 0; at < f->total;) {
        const size_t n = f->total - at < f->chunk ? f->total - at : f->chunk;
        for (size_t i = 0; i < n; i++) {
            buf[i] = pattern(at + i);
        }
        const ssize_t w = write(f->fd, buf, n);
        if (w <= 0) {
            break;
        }
        at += (size_t)w;
    }
    (void)close(f->fd);
}

static sft_status stream_of(size_t total, size_t chunk, uint64_t max, bool nonblocking,
                            sft_source **s, sft_error *err) {
    int fds[2];
    sft__base_thread t;
    assert_int_equal(pipe(fds), 0);
    if (nonblocking) {
        assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    }
    feed f = {fds[1], total, chunk};
    assert_true(sft__base_thread_start(&t, feeder, &f));
    const sft_status st = sft_source_open_stream(s, fds[0], max, NULL, err);
    (void)close(fds[0]);
    sft__base_thread_join(&t);
    return st;
}

static void a_stream_is_read_to_its_end(void **state) {
    (void)state;
    static const size_t totals[] = {0, 1, 4999, 65536, 65537, 300000};
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
            sft_source *s;
            sft_error err;
            const void *lent;
            const size_t n = totals[i];
            assert_int_equal(stream_of(n, 4999, n, nonblocking, &s, &err), SFT_OK);
            assert_int_equal(sft_source_size(s), n);
            assert_string_equal(sft_source_name(s), "stream");
            assert_int_equal(sft_source_borrow(s, 0, n, &lent, &err), SFT_OK);
            assert_pattern(lent, 0, n);
            sft_source_close(s);
            if (n > 1) { /* max 0 means the default */
                assert_int_equal(stream_of(n, 777, n - 1, nonblocking, &s, &err), SFT_E_LIMIT);
                assert_null(s);
                assert_int_equal(err.offset, n - 1);
            }
        }
    }
    sft_source *s;
    sft_error err;
    assert_int_equal(sft_source_open_stream(&s, -1, 0, NULL, &err), SFT_E_IO);
    assert_int_equal(err.sys, EBADF);
}

/* ---------------------------------------------------------------- the user's own */

typedef struct own {
    size_t reads;
    size_t closes;
    size_t fail_at; /* the read (from 1) that fails */
    bool silent;    /* fails without filling the record */
    uint32_t seen;  /* calls of the wrong kind */
} own;

static sft_status own_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    own *o = self;
    if (++o->reads == o->fail_at) {
        const sft_error why = {.status = SFT_E_HTTP, .sys = 503, .offset = offset};
        return o->silent ? SFT_E_HTTP : sft_error_from(err, SFT_E_HTTP, &why, "server is tired");
    }
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)dst)[i] = pattern(offset + i);
    }
    return SFT_OK;
}

static void own_close(void *self) {
    ((own *)self)->closes++;
}

enum { RANGES = 7 };
typedef struct batch_log {
    size_t calls[RANGES];
    sft_status status[RANGES];
    size_t with_record;
    size_t order[RANGES];
    size_t total;
} batch_log;

static void log_done(void *ctx, size_t index, sft_status status, const sft_error *err) {
    batch_log *l = ctx;
    assert_true(index < RANGES);
    l->calls[index]++;
    l->status[index] = status;
    l->order[l->total++ % RANGES] = index;
    if (status == SFT_OK) {
        assert_null(err);
    } else {
        assert_non_null(err);
        assert_int_equal(err->status, status);
        assert_true(err->message[0] != '\0');
    }
}

static int poll_until(void *ctx, const sft_progress *progress) {
    size_t *left = ctx;
    assert_int_equal(progress->bytes_total, 10 + 20 + 30 + 0 + 50 + 60 + 70);
    assert_true(progress->bytes_done <= progress->bytes_total);
    return (*left)-- == 0;
}

static void batches_call_done_once_per_range(void **state) {
    (void)state;
    const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = own_read, .close = own_close};
    uint8_t memory[RANGES][70];
    /* fail: which read fails; cancel: which poll cancels; bad: which range is outside */
    for (size_t fail = 0; fail <= RANGES; fail++) {
        for (size_t cancel = 0; cancel <= RANGES; cancel++) {
            for (size_t bad = 0; bad <= RANGES; bad++) {
                own o = {0};
                batch_log log;
                sft_io_range ranges[RANGES];
                sft_source *s;
                sft_error err;
                size_t polls = cancel == 0 ? SIZE_MAX : cancel - 1;
                sft_control control;
                SFT_INIT(&control);
                control.poll = poll_until;
                control.ctx = &polls;
                memset(&log, 0, sizeof log);
                for (size_t i = 0; i < RANGES; i++) {
                    ranges[i].offset = i * 100;
                    ranges[i].size = i == 3 ? 0 : 10 * (i + 1);
                    ranges[i].data = i == 3 ? NULL : memory[i];
                }
                if (bad != 0) {
                    ranges[bad - 1].offset = 1001;
                }
                o.fail_at = fail;
                o.silent = fail % 2 == 0;
                assert_int_equal(sft_source_create(&s, &vtable, &o,
                                                   INFO(1000, SFT_SOURCE_REMOTE, NULL, NULL), &err),
                                 SFT_OK);
                const sft_status st =
                    sft_source_read_many(s, BATCH(ranges, RANGES, log_done, &log, &control), &err);
                size_t failures = 0;
                for (size_t i = 0; i < RANGES; i++) {
                    assert_int_equal(log.calls[i], 1);
                    failures += log.status[i] != SFT_OK;
                    if (log.status[i] == SFT_OK) {
                        assert_pattern(ranges[i].data, ranges[i].offset, ranges[i].size);
                    }
                }
                assert_int_equal(st == SFT_OK, failures == 0);
                if (bad != 0) {
                    assert_int_equal(st, SFT_E_TRUNCATED);
                    assert_int_equal(o.reads, 0);
                    assert_int_equal(log.status[bad - 1], SFT_E_TRUNCATED);
                } else if (st == SFT_E_HTTP) {
                    assert_int_equal(o.reads, fail);
                    assert_int_equal(err.status, SFT_E_HTTP);
                } else if (cancel != 0) {
                    assert_int_equal(st, SFT_E_CANCELLED);
                } else {
                    assert_true(fail == 0 || fail == RANGES); /* six reads in all: one is empty */
                    assert_int_equal(o.reads, RANGES - 1);
                }
                sft_source_close(s);
                assert_int_equal(o.closes, 1);
            }
        }
    }
}

static void a_batch_needs_no_callback(void **state) {
    (void)state;
    uint8_t from[50];
    uint8_t to[2][20];
    const sft_io_range ranges[] = {{30, to[0], 20}, {0, to[1], 20}};
    sft_source *s;
    sft_error err;
    for (size_t i = 0; i < 50; i++) {
        from[i] = pattern(i);
    }
    assert_int_equal(sft_source_open_memory(&s, from, 50, NULL, &err), SFT_OK);
    assert_int_equal(sft_source_read_many(s, UNSEEN(2), &err), SFT_OK);
    assert_pattern(to[0], 30, 20);
    assert_pattern(to[1], 0, 20);
    assert_int_equal(sft_source_read_many(s, BATCH(NULL, 0, NULL, NULL, NULL), NULL), SFT_OK);
    assert_int_equal(sft_source_read_many(s, BATCH(NULL, 1, NULL, NULL, NULL), NULL), SFT_E_ARG);
    sft_source_close(s);
}

static sft_status own_read_many(void *self, const sft_io_batch *batch, sft_error *err) {
    sft_status first = SFT_OK;
    ((own *)self)->seen++;
    assert_null(batch->control);
    for (size_t i = batch->count; i-- > 0;) { /* backwards: any order is allowed */
        const sft_io_range *r = &batch->ranges[i];
        sft_error e = {0};
        const sft_status st = own_read(self, r->offset, r->data, r->size, &e);
        batch->done(batch->done_ctx, i, st, st == SFT_OK ? NULL : &e);
        if (st != SFT_OK && first == SFT_OK) {
            first = st;
            *err = e; /* never NULL; as empty as its own if o->silent */
        }
    }
    return first;
}

static void batches_of_ones_own(void **state) {
    (void)state;
    const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = own_read, .read_many = own_read_many};
    uint8_t memory[3][10];
    sft_io_range ranges[3] = {{5, memory[0], 10}, {50, memory[1], 10}, {90, memory[2], 10}};
    own o = {0};
    batch_log log;
    sft_source *s;
    sft_error err;
    assert_int_equal(sft_source_create(&s, &vtable, &o, INFO(100, 0, "own", NULL), &err), SFT_OK);
    assert_int_equal(sft_source_read_many(s, UNSEEN(3), &err), SFT_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_pattern(memory[i], ranges[i].offset, 10);
    }
    memset(&log, 0, sizeof log);
    o.fail_at = o.reads + 2;
    assert_int_equal(sft_source_read_many(s, LOGGED(3), &err), SFT_E_HTTP);
    assert_int_equal(log.order[0], 2);
    assert_int_equal(log.status[1], SFT_E_HTTP);
    assert_int_equal(log.total, 3);
    assert_int_equal(o.seen, 2);
    o.fail_at = o.reads + 1;
    assert_int_equal(sft_source_read_many(s, UNSEEN(3), NULL), SFT_E_HTTP);
    o.fail_at = o.reads + 1;
    o.silent = true;
    err.status = SFT_OK;
    assert_int_equal(sft_source_read_many(s, UNSEEN(3), &err), SFT_E_HTTP);
    assert_int_equal(err.status, SFT_E_HTTP);
    assert_non_null(strstr(err.message, "own"));
    o.seen = 2;
    /* what is outside does not reach it */
    memset(&log, 0, sizeof log);
    ranges[1].offset = 91;
    assert_int_equal(sft_source_read_many(s, LOGGED(3), &err), SFT_E_TRUNCATED);
    ranges[1].offset = 50;
    ranges[1].data = NULL;
    assert_int_equal(sft_source_read_many(s, LOGGED(3), &err), SFT_E_ARG);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(log.calls[i], 2);
    }
    assert_int_equal(o.seen, 2);
    assert_int_equal(sft_source_read_many(s, LOGGED(0), &err), SFT_OK);
    assert_int_equal(o.seen, 2);
    sft_source_close(s);
}

static sft_status must_not_run(void *self, uint64_t offset, size_t size, const void **data,
                               sft_error *err) {
    (void)offset, (void)size, (void)data, (void)err;
    ((own *)self)->seen++;
    return SFT_E_INTERNAL;
}

static void an_older_vtable_is_honoured(void **state) {
    (void)state;
    own o = {0};
    sft_source *s = NULL;
    sft_error err;
    uint8_t buf[4];
    const void *lent;
    sft_source_vtable vtable = {.struct_size = offsetof(sft_source_vtable, read_many),
                                .read_at = own_read,
                                .borrow = must_not_run,
                                .close = own_close};
    assert_int_equal(sft_source_create(&s, &vtable, &o, INFO(10, 7, "mine", NULL), &err), SFT_OK);
    assert_string_equal(sft_source_name(s), "mine");
    assert_int_equal(sft_source_flags(s), 7);
    assert_int_equal(sft_source_descriptor(s), -1);
    assert_int_equal(sft_source_read(s, 3, buf, 4, &err), SFT_OK);
    assert_int_equal(sft_source_borrow(s, 0, 4, &lent, &err), SFT_E_UNSUPPORTED);
    sft_source_advise(s, 0, 4, SFT_ADVICE_RANDOM);
    sft_source_close(s);
    assert_int_equal(o.closes, 0); /* behind the size it declared */
    assert_int_equal(o.seen, 0);

    vtable.struct_size = offsetof(sft_source_vtable, read_at);
    assert_int_equal(sft_source_create(&s, &vtable, &o, INFO(10, 0, NULL, NULL), &err), SFT_E_ARG);
    assert_null(s);
    vtable.struct_size = sizeof vtable;
    vtable.read_at = NULL;
    assert_int_equal(sft_source_create(&s, &vtable, &o, INFO(10, 0, NULL, NULL), &err), SFT_E_ARG);
    assert_int_equal(sft_source_create(&s, NULL, &o, INFO(10, 0, NULL, NULL), &err), SFT_E_ARG);
    assert_int_equal(o.closes, 0); /* a failed create leaves self with the caller */
}

static void a_silent_failure_gets_a_sentence(void **state) {
    (void)state;
    own o = {.fail_at = 1, .silent = true};
    sft_source *s;
    sft_error err;
    uint8_t buf[4];
    const sft_source_vtable vtable = {.struct_size = sizeof vtable, .read_at = own_read};
    assert_int_equal(sft_source_create(&s, &vtable, &o, INFO(10, 0, "mine", NULL), &err), SFT_OK);
    memset(&err, 0xee, sizeof err);
    assert_int_equal(sft_source_read(s, 2, buf, 4, &err), SFT_E_HTTP);
    assert_int_equal(err.status, SFT_E_HTTP);
    assert_int_equal(err.offset, 2);
    assert_non_null(strstr(err.message, "mine"));
    sft_source_close(s);
}

/* ---------------------------------------------------------------- memory and threads */

static sft_status open_kind(int kind, sft_source **s, const char *path, const sft_allocator *a) {
    static const uint8_t bytes[10] = {0};
    own o = {0};
    const sft_source_vtable vtable = {.struct_size = sizeof vtable, .read_at = own_read};
    int fds[2];
    sft_status st;
    switch (kind) {
    case 0:
        return sft_source_open(s, path, SFT_ACCESS_AUTO, a, NULL);
    case 1:
        return sft_source_open(s, path, SFT_ACCESS_MAP, a, NULL);
    case 2:
        return sft_source_open_memory(s, bytes, 10, a, NULL);
    case 3:
        return sft_source_create(s, &vtable, &o, INFO(10, 0, "x", a), NULL);
    default:
        assert_int_equal(pipe(fds), 0);
        assert_int_equal(write(fds[1], "12345", 5), 5);
        (void)close(fds[1]);
        st = sft_source_open_stream(s, fds[0], 0, a, NULL);
        (void)close(fds[0]);
        return st;
    }
}

static size_t open_descriptors(void) {
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    const char *path = pattern_file("alloc", 100);
    const size_t descriptors = open_descriptors();
    for (int kind = 0; kind < 5; kind++) {
        size_t failures = 0;
        for (size_t k = 1;; k++) {
            counting c;
            sft_source *s = (sft_source *)1;
            counting_init(&c);
            c.fail_from = k;
            const sft_status st = open_kind(kind, &s, path, &c.allocator);
            if (st == SFT_OK) {
                assert_true(c.calls < k);
                sft_source_close(s);
                assert_all_given_back(&c);
                break;
            }
            assert_int_equal(st, SFT_E_NOMEM);
            assert_null(s);
            assert_all_given_back(&c);
            failures++;
        }
        assert_true(failures >= 1);
        assert_int_equal(open_descriptors(), descriptors);
    }
}

typedef struct sharer {
    const sft_source *source;
    const void *lent;
    unsigned seed;
} sharer;

static void share(void *arg) {
    sharer *w = arg;
    uint8_t buf[256];
    for (unsigned i = 0; i < 300; i++) {
        const uint64_t offset = (i * 7919u + w->seed * 104729u) % 90000u;
        const void *lent;
        assert_int_equal(sft_source_read(w->source, offset, buf, sizeof buf, NULL), SFT_OK);
        assert_pattern(buf, offset, sizeof buf);
        assert_int_equal(sft_source_borrow(w->source, offset, 100, &lent, NULL), SFT_OK);
        assert_pattern(lent, offset, 100);
        sft_source_advise(w->source, offset, 100, SFT_ADVICE_WILL_NEED);
    }
    assert_int_equal(sft_source_borrow(w->source, 0, 1, &w->lent, NULL), SFT_OK);
}

static void eight_threads_share_one_source(void **state) {
    (void)state;
    sft_source *s;
    sft__base_thread threads[8];
    sharer sharers[8];
    assert_int_equal(
        sft_source_open(&s, pattern_file("shared", 100000), SFT_ACCESS_AUTO, NULL, NULL), SFT_OK);
    for (unsigned i = 0; i < 8; i++) {
        sharers[i] = (sharer){s, NULL, i};
        assert_true(sft__base_thread_start(&threads[i], share, &sharers[i]));
    }
    for (unsigned i = 0; i < 8; i++) {
        sft__base_thread_join(&threads[i]);
        assert_ptr_equal(sharers[i].lent, sharers[0].lent); /* mapped once */
    }
    sft_source_close(s);
}

static void on_alarm(int sig) {
    (void)sig;
}

/* A timer interrupts reads and writes of a stream again and again: nothing may be lost. */
static void signals_lose_nothing(void **state) {
    (void)state;
    struct sigaction act = {.sa_handler = on_alarm};
    struct sigaction old;
    const struct timespec pause = {0, 2000000};
    int fds[2];
    sft_source *s;
    sft_error err;
    const void *lent;

    assert_int_equal(sigaction(SIGUSR1, &act, &old), 0); /* without SA_RESTART */
    assert_int_equal(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < 40; i++) {
            const uint8_t byte = pattern(i);
            (void)kill(getppid(), SIGUSR1);
            (void)nanosleep(&pause, NULL);
            if (write(fds[1], &byte, 1) != 1) {
                _exit(1);
            }
        }
        _exit(0);
    }
    (void)close(fds[1]);
    assert_int_equal(sft_source_open_stream(&s, fds[0], 0, NULL, &err), SFT_OK);
    (void)close(fds[0]);
    assert_int_equal(sft_source_size(s), 40);
    assert_int_equal(sft_source_borrow(s, 0, 40, &lent, &err), SFT_OK);
    assert_pattern(lent, 0, 40);
    sft_source_close(s);
    (void)sigaction(SIGUSR1, &old, NULL);
}

static void positioned_writes(void **state) {
    (void)state;
    const int fd = open(in_folder(tmp, "written"), O_RDWR | O_CREAT, 0600);
    uint8_t buf[8];
    sft_error err;
    assert_int_equal(sft__fs_write_at(fd, "w", 3, "hello", 5, &err), SFT_OK);
    assert_int_equal(sft__fs_read_at(fd, "w", 0, buf, 8, &err), SFT_OK);
    assert_memory_equal(buf, "\0\0\0hello", 8);
    assert_int_equal(sft__fs_write_at(fd, "w", UINT64_MAX - 2, "hello", 5, &err), SFT_E_ARG);
    assert_int_equal(sft__fs_read_at(fd, "w", (uint64_t)INT64_MAX, buf, 1, &err), SFT_E_ARG);
    (void)close(fd);
    assert_int_equal(sft__fs_write_at(fd, "w", 3, "hello", 5, &err), SFT_E_IO);
    assert_int_equal(err.sys, EBADF);
    assert_int_equal(err.offset, 3);
    assert_int_equal(sft__fs_read_at(fd, "w", 4, buf, 1, &err), SFT_E_IO);
    assert_int_equal(err.offset, 4);
}

typedef struct seen_names {
    size_t count;
    size_t stop_at;
    bool b;
} seen_names;

static sft_status see_name(void *ctx, const char *name, size_t len, sft_error *err) {
    seen_names *seen = ctx;
    assert_int_equal(strlen(name), len);
    seen->b = seen->b || strcmp(name, "b\nb") == 0;
    return ++seen->count == seen->stop_at ? sft__base_fail(err, SFT_E_LIMIT, "enough") : SFT_OK;
}

static void folders_and_facts(void **state) {
    (void)state;
    seen_names seen = {0};
    sft__fs_stat st;
    sft_error err;
    bool exists;
    assert_int_equal(mkdir(in_folder(tmp, "facts"), 0700), 0);
    write_file(in_folder(tmp, "facts/a"), "1234", 4);
    write_file(in_folder(tmp, "facts/b\nb"), "", 0);
    assert_int_equal(symlink("gone", in_folder(tmp, "facts/.c")), 0);
    assert_int_equal(sft__fs_list(in_folder(tmp, "facts"), see_name, &seen, &err), SFT_OK);
    assert_int_equal(seen.count, 3);
    assert_true(seen.b);
    seen = (seen_names){.stop_at = 2};
    assert_int_equal(sft__fs_list(in_folder(tmp, "facts"), see_name, &seen, &err), SFT_E_LIMIT);
    assert_int_equal(seen.count, 2);
    assert_int_equal(sft__fs_list(in_folder(tmp, "none"), see_name, &seen, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOENT);
    assert_int_equal(sft__fs_list(in_folder(tmp, "facts/a"), see_name, &seen, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOTDIR);

    assert_int_equal(sft__fs_stat_path(in_folder(tmp, "facts/a"), &exists, &st, &err), SFT_OK);
    assert_true(exists && st.regular && !st.directory);
    assert_int_equal(st.size, 4);
    assert_int_equal(sft__fs_stat_path(in_folder(tmp, "facts"), &exists, &st, &err), SFT_OK);
    assert_true(exists && !st.regular && st.directory);
    assert_int_equal(sft__fs_stat_path(in_folder(tmp, "facts/.c"), &exists, &st, &err), SFT_OK);
    assert_false(exists);
    assert_int_equal(sft__fs_stat_path(in_folder(tmp, "facts/a/b"), &exists, &st, &err), SFT_E_IO);
    assert_int_equal(err.sys, ENOTDIR);
    assert_string_equal(sft__fs_base_name("a/b/c"), "c");
    assert_string_equal(sft__fs_base_name("c"), "c");
    assert_string_equal(sft__fs_base_name("a/"), "");
}

static void cache_roots(void **state) {
    (void)state;
    static const struct {
        const char *path;
        size_t root;
    } cases[] = {
        {"/c/models--o--n/snapshots/abc", 15},
        {"/c/models--o--n/snapshots/abc/text_encoder", 15},
        {"/c/datasets--o--n/snapshots/abc", 17},
        {"/c/spaces--o--n/snapshots/abc", 15},
        {"C:\\c\\models--o--n\\snapshots\\abc", 17},
        {"/c/models--o--n/snapshots", 0},
        {"/c/models--o--n/snapshots/", 0},
        {"/c/models--/snapshots/abc", 0},
        {"/c/model--o--n/snapshots/abc", 0},
        {"/c/models--o--n/blobs/abc", 0},
        {"/c/models--o--n/x/snapshots/abc", 0},
        {"/snapshots/abc", 0},
        {"/models--a/snapshots/models--b/snapshots/c", 30},
        {"/", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sft__fs_cache_root(cases[i].path), cases[i].root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_reads_the_same_whatever_the_access),
        cmocka_unit_test(ranges_outside_are_refused_before_the_vtable_sees_them),
        cmocka_unit_test(a_file_that_shrinks_is_an_error_never_a_signal),
        cmocka_unit_test(a_file_truncated_again_and_again),
        cmocka_unit_test(only_regular_files_open),
        cmocka_unit_test(a_descriptor_is_duplicated),
        cmocka_unit_test(empty_sources),
        cmocka_unit_test(beyond_four_gigabytes),
        cmocka_unit_test(a_stream_is_read_to_its_end),
        cmocka_unit_test(batches_call_done_once_per_range),
        cmocka_unit_test(a_batch_needs_no_callback),
        cmocka_unit_test(batches_of_ones_own),
        cmocka_unit_test(an_older_vtable_is_honoured),
        cmocka_unit_test(a_silent_failure_gets_a_sentence),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(eight_threads_share_one_source),
        cmocka_unit_test(signals_lose_nothing),
        cmocka_unit_test(positioned_writes),
        cmocka_unit_test(folders_and_facts),
        cmocka_unit_test(cache_roots),
    };
    return cmocka_run_group_tests_name("source", tests, setup, teardown);
}
