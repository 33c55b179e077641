/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/test_stream_faults.c - streams when something goes wrong: reads and allocations that
 * fail, files that shrink or change, callers that cancel, ask wrongly or hold too much. Read first:
 * test_stream.c.
 */
#include "unit/counting.h"
#include "unit/files.h"
#include "unit/move_util.h"
#include "unit/stream_util.h"

#include <pthread.h>
#include <sft/sft.h>
#include <sys/uio.h>

/* Reads of a file that touch bytes [bad_from, bad_to) fail, `bad_times` times. */
static uint64_t bad_from, bad_to;
static int bad_times;
static int refuse_direct;

ssize_t pread(int fd, void *buf, size_t size, off_t offset) {
    const uint64_t at = (uint64_t)offset;
    if (refuse_direct && (fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
        errno = EINVAL;
        return -1;
    }
    if (at < bad_to && at + size > bad_from &&
        __atomic_fetch_sub(&bad_times, 1, __ATOMIC_RELAXED) > 0) {
        errno = EIO;
        return -1;
    }
    const struct iovec one = {buf, size};
    return preadv(fd, &one, 1, offset);
}

static sft_catalog *open_at(const char *path) {
    sft_catalog *c;
    sft_error err;
    ok(sft_catalog_open(&c, path, NULL, &err), &err);
    return c;
}

static sft_stream *stream_all(const sft_catalog *c, const sft_stream_options *o) {
    sft_stream *s;
    sft_error err;
    ok(sft_stream_create(&s, c, o, &err), &err);
    ok(sft_stream_add_all(s, &err), &err);
    return s;
}

static void assert_item(const sft_catalog *c, const sft_stream_item *i) {
    sft_error err;
    uint8_t *want = malloc(i->size + 1);
    assert_non_null(want);
    ok(sft_tensor_read_bytes(c, i->tensor, i->offset, want, i->size, &err), &err);
    assert_memory_equal(i->data, want, i->size);
    free(want);
}

/* One tensor's bytes cannot be read: it is named, with the place; the others are whole. */
static void test_one_bad(void **state) {
    sft_pool *pools[2] = {NULL, NULL};
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pools[1], 3, NULL, &err), &err);
    for (unsigned k = 0; k < 48; k++) {
        sft_stream_options o;
        sft_stream_item item;
        make_flat("m.safetensors", 20, k & 4 ? 3000 : 70000);
        sft_catalog *c = open_at(in_scratch("m.safetensors"));
        const sft_tensor *bad = sft_catalog_at(c, 7);
        const bool go_on = (k & 2) != 0;
        size_t size;
        uint8_t *data = (uint8_t *)file_get(in_scratch("m.safetensors"), &size);
        size_t good = 0, failed = 0, ended = 0;
        SFT_INIT(&o);
        o.pool = pools[k & 1];
        o.flags = go_on ? SFT_STREAM_GO_ON : 0;
        o.order = k / 8 % 3;
        o.memory_bytes = k & 16 ? 300000 : 0;
        sft_stream *s = stream_all(c, &o);
        bad_from = bad->pieces[0].offset + 100;
        bad_to = bad_from + 1;
        bad_times = INT32_MAX;
        for (;;) {
            const sft_status status = sft_stream_next(s, &item, &err);
            if (status == SFT_OK && item.tensor == NULL) {
                break;
            }
            if (status == SFT_E_STATE) {
                ended++;
                break;
            }
            if (status != SFT_OK) {
                assert_int_equal(status, SFT_E_IO);
                assert_ptr_equal(item.tensor, bad);
                assert_string_equal(err.tensor, bad->name);
                assert_int_equal(err.sys, EIO);
                assert_null(item.data);
                failed++;
            } else {
                assert_memory_equal(item.data, data + item.tensor->pieces[0].offset, item.size);
                good++;
            }
            sft_stream_release(s, &item);
        }
        bad_times = 0;
        assert_int_equal(failed, 1);
        assert_int_equal(ended, !go_on);
        assert_true(go_on ? good == 19 : o.order == SFT_STREAM_ANY || good == 7);
        assert_true(!go_on || sft_stream_memory(s, NULL) == 0);
        sft_stream_free(s);
        free(data);
        sft_catalog_close(c);
    }
    sft_pool_free(pools[1]);
}

/* What fails once is read again, and nobody notices. */
static void test_once_bad(void **state) {
    sft_error err;
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        sft_stream_item item;
        sft_stream_options o;
        make_flat("m.safetensors", 20, k ? 3000 : 200000);
        sft_catalog *c = open_at(in_scratch("m.safetensors"));
        size_t good = 0;
        SFT_INIT(&o);
        o.strategy = SFT_STRATEGY_READ;
        sft_stream *s = stream_all(c, &o);
        bad_from = sft_catalog_at(c, 7)->pieces[0].offset + 100;
        bad_to = bad_from + 1;
        bad_times = 1;
        for (;; good++) {
            ok(sft_stream_next(s, &item, &err), &err);
            if (item.tensor == NULL) {
                break;
            }
            assert_item(c, &item);
            sft_stream_release(s, &item);
        }
        assert_int_equal(good, 20);
        assert_true(bad_times <= 0);
        sft_stream_free(s);
        sft_catalog_close(c);
    }
}

/* A file that ends early fails for the tensors that it cut, one that changed for all that come
 * after. */
static void test_files_move(void **state) {
    sft_error err;
    (void)state;
    for (unsigned k = 0; k < 8; k++) {
        sft_stream_options o;
        sft_stream_item item;
        sft_pool *pool = NULL;
        make_flat("m.safetensors", 10, 50000);
        const char *path = in_scratch("m.safetensors");
        sft_catalog *c = open_at(path);
        size_t good = 0, failed = 0;
        SFT_INIT(&o);
        o.flags = SFT_STREAM_GO_ON;
        o.strategy = k & 1 ? SFT_STRATEGY_DIRECT : SFT_STRATEGY_READ;
        if (k & 2) {
            ok(sft_pool_create(&pool, 2, NULL, &err), &err);
            o.pool = pool;
        }
        o.memory_bytes = 160000;
        sft_stream *s = stream_all(c, &o);
        ok(sft_stream_next(s, &item, &err), &err);
        sft_stream_release(s, &item);
        if (k & 4) {
            const struct timespec times[2] = {{1000, 0}, {2000, 0}};
            assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        } else {
            const uint64_t at = sft_catalog_at(c, 6)->pieces[0].offset + 10;
            assert_int_equal(truncate(path, (off_t)at), 0);
        }
        for (;;) {
            const sft_status status = sft_stream_next(s, &item, &err);
            if (status == SFT_OK && item.tensor == NULL) {
                break;
            }
            if (status == SFT_OK) {
                good++;
                assert_true(k & 4 || sft_catalog_index_of(c, item.tensor) < 6);
            } else {
                failed++;
                assert_true(status == SFT_E_CHANGED || (!(k & 4) && status == SFT_E_TRUNCATED));
                assert_string_equal(err.tensor, item.tensor->name);
            }
            sft_stream_release(s, &item);
        }
        assert_int_equal(good + failed, 9);
        assert_true(failed >= 4); /* the others may have been read before */
        sft_stream_free(s);
        sft_catalog_close(c);
        sft_pool_free(pool);
    }
}

typedef struct seen {
    uint64_t done;
    uint64_t total;
    uint64_t stop_at;
} seen;

static int on_poll(void *ctx, const sft_progress *p) {
    seen *s = ctx;
    assert_true(p->bytes_done >= s->done);
    s->done = p->bytes_done;
    s->total = p->bytes_total;
    return p->bytes_done >= s->stop_at;
}

static void test_control(void **state) {
    sft_pool *pools[2] = {NULL, NULL};
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pools[1], 3, NULL, &err), &err);
    make_flat("m.safetensors", 30, 50000);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    for (unsigned k = 0; k < 8; k++) {
        seen progress = {0, 0, k & 2 ? 400000 : UINT64_MAX};
        const sft_control control = {sizeof control, on_poll, &progress};
        sft_stream_options o;
        sft_stream_item item, kept;
        sft_status status;
        SFT_INIT(&o);
        o.control = &control;
        o.pool = pools[k & 1];
        o.memory_bytes = 300000;
        sft_stream *s = stream_all(c, &o);
        ok(sft_stream_next(s, &kept, &err), &err);
        do {
            status = sft_stream_next(s, &item, &err);
            assert_true(status == SFT_OK || item.tensor == NULL);
            if (k & 4 && item.index == 9) {
                sft_stream_cancel(s);
            }
            sft_stream_release(s, &item);
        } while (item.tensor != NULL);
        if (k & 6) {
            assert_int_equal(status, SFT_E_CANCELLED);
            assert_int_equal(err.status, SFT_E_CANCELLED);
            assert_int_equal(sft_stream_next(s, &item, &err), SFT_E_CANCELLED); /* for good */
        } else {
            ok(status, &err);
            assert_int_equal(progress.done, 30 * 50000); /* no gaps in such a file */
            assert_int_equal(progress.total, 30 * 50000);
        }
        assert_item(c, &kept); /* still there */
        sft_stream_release(s, &kept);
        sft_stream_free(s);
    }
    sft_catalog_close(c);
    sft_pool_free(pools[1]);
}

static void test_no_memory(void **state) {
    sft_error err;
    sft_slice row = {0, 5, 2, SFT_SLICE_RANGE, 0};
    (void)state;
    make_flat("m.safetensors", 40, 4 << 10);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    for (unsigned k = 0; k < 2; k++) {
        size_t at = 1;
        for (bool failed = true; failed; at++) {
            counting a;
            sft_stream_options o;
            sft_read_options read;
            sft_stream_item item;
            sft_stream *s;
            size_t count = 0;
            counting_init(&a);
            a.fail_from = at;
            SFT_INIT(&o);
            SFT_INIT(&read);
            read.slices = &row;
            read.slice_count = 1;
            o.allocator = &a.allocator;
            o.alignment = k * 64;
            sft_status status = sft_stream_create(&s, c, &o, &err);
            if (status == SFT_OK) {
                status = sft_stream_add_all(s, &err);
            }
            if (status == SFT_OK) {
                status = sft_stream_add(s, sft_catalog_at(c, 3), &read, NULL, 0, &err);
            }
            item.tensor = NULL;
            do {
                if (status == SFT_OK) {
                    status = sft_stream_next(s, &item, &err);
                    count++;
                    sft_stream_release(s, &item);
                }
            } while (status == SFT_OK && item.tensor != NULL);
            failed = status != SFT_OK;
            if (failed) {
                assert_int_equal(status, SFT_E_NOMEM);
                if (s != NULL && count > 0) { /* no start, no second one */
                    assert_int_equal(sft_stream_next(s, &item, &err), SFT_E_STATE);
                }
            } else {
                assert_int_equal(count, 42);
            }
            sft_stream_free(s);
            assert_all_given_back(&a);
        }
        assert_true(at > 8);
    }
    sft_catalog_close(c);
}

/* ---------------------------------------------------------------- threads that take and release */

typedef struct taker {
    sft_stream *stream;
    const sft_catalog *catalog;
    size_t taken;
} taker;

static void *take_some(void *arg) {
    taker *t = arg;
    sft_stream_item item;
    sft_error err;
    for (;;) {
        ok(sft_stream_next(t->stream, &item, &err), &err);
        if (item.tensor == NULL) {
            return NULL;
        }
        assert_item(t->catalog, &item);
        t->taken++;
        sft_stream_release(t->stream, &item);
    }
}

static void test_threads(void **state) {
    sft_pool *pools[2] = {NULL, NULL};
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pools[1], 3, NULL, &err), &err);
    make_flat("m.safetensors", 60, 50000);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    for (unsigned k = 0; k < 24; k++) {
        taker takers[4];
        pthread_t threads[4];
        sft_stream_options o;
        size_t sum = 0;
        SFT_INIT(&o);
        o.pool = pools[k & 1];
        o.flags = SFT_STREAM_WAIT;
        o.order = k % 3;
        o.memory_bytes = k & 4 ? 60000 : 300000; /* room for one */
        sft_stream *s = stream_all(c, &o);
        for (size_t i = 0; i < 4; i++) {
            takers[i] = (taker){s, c, 0};
            assert_int_equal(pthread_create(&threads[i], NULL, take_some, &takers[i]), 0);
        }
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            sum += takers[i].taken;
        }
        assert_int_equal(sum, 60);
        sft_stream_free(s);
    }
    sft_catalog_close(c);
    sft_pool_free(pools[1]);
}

/* ---------------------------------------------------------------- how it is read, and what is
 * asked */

static void test_strategy(void **state) {
    const char *reason;
    sft_stream_item item;
    sft_stream_options o;
    sft_error err;
    (void)state;
    make_flat("m.safetensors", 12, 100000);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    for (unsigned k = 0; k < 3; k++) {
        SFT_INIT(&o);
        o.strategy = k == 0 ? SFT_STRATEGY_READ : SFT_STRATEGY_DIRECT;
        refuse_direct = k == 2;
        sft_stream *s = stream_all(c, &o);
        assert_int_equal(sft_stream_strategy(s, 0, NULL), SFT_STRATEGY_AUTO);
        do {
            ok(sft_stream_next(s, &item, &err), &err);
            if (item.tensor != NULL) {
                assert_item(c, &item);
            }
            sft_stream_release(s, &item);
        } while (item.tensor != NULL);
        const sft_strategy used = sft_stream_strategy(s, 0, &reason);
        assert_true(used == SFT_STRATEGY_READ || k == 1);
        assert_true(k != 2 || strstr(reason, "refused") || strstr(reason, "no direct reads"));
        assert_int_equal(sft_stream_strategy(s, 1, &reason), SFT_STRATEGY_AUTO);
        sft_stream_free(s);
    }
    refuse_direct = 0;
    sft_catalog_close(c);
}

static void test_arguments(void **state) {
    sft_stream_options o;
    sft_read_options read;
    sft_stream_item item;
    sft_stream *s;
    sft_error err;
    uint8_t room[100];
    const int64_t strides[1] = {2};
    const sft_slice wrong = {0, 1, 0, SFT_SLICE_RANGE, 0};
    (void)state;
    make_flat("m.safetensors", 3, 100);
    sft_catalog *c = open_at(in_scratch("m.safetensors"));
    sft_catalog *other = open_at(in_scratch("m.safetensors"));
    assert_int_equal(sft_stream_create(NULL, c, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_stream_create(&s, NULL, NULL, &err), SFT_E_ARG);
    assert_null(s);
    for (unsigned k = 0; k < 6; k++) {
        SFT_INIT(&o);
        o.order = k == 0 ? 3 : 0;
        o.flags = k == 1 ? 16 : 0;
        o.alignment = k == 2 ? 48 : k == 3 ? 8192 : 0;
        o.memory_bytes = k == 4 ? 8191 : 0;
        o.struct_size = k == 5 ? 0 : sizeof o;
        assert_int_equal(sft_stream_create(&s, c, &o, &err), SFT_E_ARG);
        assert_null(s);
    }
    SFT_INIT(&o);
    o.strategy = SFT_STRATEGY_MAP;
    assert_int_equal(sft_stream_create(&s, c, &o, &err), SFT_E_UNSUPPORTED);
    ok(sft_stream_create(&s, c, NULL, &err), &err);
    const sft_tensor *t = sft_catalog_at(c, 1);
    SFT_INIT(&read);
    assert_int_equal(sft_stream_add(s, NULL, NULL, NULL, 0, &err), SFT_E_ARG);
    assert_int_equal(sft_stream_add(s, sft_catalog_at(other, 1), NULL, NULL, 0, &err), SFT_E_ARG);
    assert_int_equal(sft_stream_add(s, t, NULL, room, 99, &err), SFT_E_ARG);
    read.dst_strides = strides;
    assert_int_equal(sft_stream_add(s, t, &read, NULL, 0, &err), SFT_E_ARG);
    assert_int_equal(sft_stream_add(s, t, &read, room, 100, &err), SFT_E_ARG);
    SFT_INIT(&read);
    read.slices = &wrong;
    read.slice_count = 1;
    assert_int_equal(sft_stream_add(s, t, &read, NULL, 0, &err), SFT_E_ARG);
    assert_string_equal(err.tensor, "t1");
    ok(sft_stream_next(s, &item, &err), &err); /* nothing was added */
    assert_null(item.tensor);
    assert_int_equal(sft_stream_add(s, t, NULL, NULL, 0, &err), SFT_E_STATE);
    assert_int_equal(sft_stream_next(s, NULL, &err), SFT_E_ARG);
    sft_stream_free(s);
    sft_stream_free(NULL);
    sft_arena *small;
    ok(sft_arena_create_over(&small, room, sizeof room, NULL, &err), &err);
    SFT_INIT(&o);
    o.arena = small;
    s = stream_all(c, &o);
    assert_int_equal(sft_stream_start(s, &err), SFT_E_NOMEM);
    assert_int_equal(sft_stream_next(s, &item, &err), SFT_E_STATE);
    sft_stream_free(s);
    sft_arena_free(small);
    sft_catalog_close(other);
    sft_catalog_close(c);
}

/* Tensors that do not lie in one packed piece. */
static void test_pieces(void **state) {
    static const uint64_t shape[2] = {6, 500}, start[2] = {3, 0}, half[2] = {3, 500};
    static const int64_t column[2] = {1, 6}; /* column-major */
    static uint8_t bytes[9000];
    sft_stream_item item;
    sft_stream_options o;
    sft_error err;
    sft_builder *b;
    sft_source *source;
    sft_catalog *c;
    (void)state;
    rnd_fill(bytes, sizeof bytes);
    const sft_piece two[2] = {{.offset = 5000, .nbytes = 1500, .count = half},
                              {.offset = 1000, .nbytes = 1500, .start = start, .count = half}};
    const sft_piece strided = {.offset = 6000, .nbytes = 3000, .strides = column};
    const sft_piece plain = {.offset = 77, .nbytes = 3000};
    const sft_piece *pieces[] = {two, &strided, &plain};
    ok(sft_builder_create(&b, NULL, &err), &err);
    ok(sft_source_open_memory(&source, bytes, sizeof bytes, NULL, &err), &err);
    ok(sft_builder_add_source(b, source, NULL, &err), &err);
    const sft_file file = {.path = "f", .size = sizeof bytes, .data_bytes = sizeof bytes};
    ok(sft_builder_add_file(b, &file, NULL, &err), &err);
    for (unsigned i = 0; i < 3; i++) {
        const char *const names[] = {"two", "strided", "plain"};
        sft_tensor t = {.name = names[i], .name_len = strlen(names[i])};
        t.dtype = sft_dtype_find("U8", 2);
        t.shape = shape;
        t.rank = 2;
        t.pieces = pieces[i];
        t.piece_count = i == 0 ? 2 : 1;
        ok(sft_builder_add_tensor(b, &t, &err), &err);
    }
    ok(sft_builder_finish(&c, b, &err), &err);
    sft_builder_free(b);
    for (unsigned k = 0; k < 6; k++) {
        size_t count = 0;
        SFT_INIT(&o);
        o.order = k % 3;
        o.flags = SFT_STREAM_PARTS;
        o.memory_bytes = k < 3 ? 0 : 8192;
        sft_stream *s = stream_all(c, &o);
        for (;; count++) {
            ok(sft_stream_next(s, &item, &err), &err);
            if (item.tensor == NULL) {
                break;
            }
            assert_int_equal(item.size, 3000);
            assert_item(c, &item);
            sft_stream_release(s, &item);
        }
        assert_int_equal(count, 3);
        sft_stream_free(s);
    }
    sft_catalog_close(c);
}

/* One flipped byte is found, whichever way the tensor is read; the others pass. */
static void test_verify(void **state) {
    static uint8_t dst[300000];
    const char *const path = in_scratch("v.out");
    sft_pool *pools[2] = {NULL, NULL};
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pools[1], 3, NULL, &err), &err);
    make_model("m.safetensors", "t", 25, 20000);
    make_flat("n.safetensors", 6, 300000);
    for (unsigned k = 0; k < 96; k++) {
        sft_catalog *c = open_at(in_scratch(k & 1 ? "m.safetensors" : "n.safetensors"));
        sft_save_tensor list[25];
        const size_t count = sft_catalog_count(c);
        size_t damaged = rnd_below(count), good = 0, bad = 0, parts = 0, size;
        sft_write_options write;
        sft_stream_options o;
        sft_stream_item item;
        for (size_t i = 0; i < count; i++) {
            const sft_tensor *t = sft_catalog_at(c, i);
            const void *data;
            ok(sft_tensor_borrow(c, t, &data, &size, &err), &err);
            list[i] = (sft_save_tensor){t->name, t->name_len, t->dtype, t->shape,
                                        t->rank, 0,           data,     t->nbytes};
        }
        SFT_INIT(&write);
        write.digests = SFT_DIGEST_CRC32C;
        write.order = SFT_ORDER_DECLARED;
        write.durability = SFT_DURABLE_NONE;
        ok(sft_save(path, list, count, NULL, 0, &write, &err), &err);
        sft_catalog_close(c);
        c = open_at(path);
        const sft_tensor *t = sft_catalog_at(c, damaged);
        const bool harm = k % 4 != 3 && t->nbytes > 0;
        if (harm) {
            char *bytes = file_get(path, &size);
            bytes[t->pieces[0].offset + rnd_below(t->nbytes)] ^= 0x10;
            file_put(path, bytes, size);
            free(bytes);
        }
        SFT_INIT(&o);
        o.flags = SFT_STREAM_VERIFY | SFT_STREAM_GO_ON | (k & 2 ? SFT_STREAM_PARTS : 0);
        o.order = k / 4 % 3;
        o.pool = pools[k / 12 % 2];
        o.memory_bytes = k % 8 < 4 ? 0 : 1 << 20;
        o.alignment = k % 16 < 8 ? 0 : 64;
        sft_stream *s;
        ok(sft_stream_create(&s, c, &o, &err), &err);
        for (size_t i = 0; i < count; i++) {
            const bool own = i == count - 1;
            ok(sft_stream_add(s, sft_catalog_at(c, i), NULL, own ? dst : NULL, sizeof dst, &err),
               &err);
        }
        bad_from = t->pieces[0].offset; /* and one read fails at first */
        bad_to = bad_from + 1;
        bad_times = k % 5 == 0;
        for (;;) {
            const sft_status status = sft_stream_next(s, &item, &err);
            if (status == SFT_OK && item.tensor == NULL) {
                break;
            }
            if (status != SFT_OK) {
                assert_int_equal(status, SFT_E_MISMATCH);
                assert_ptr_equal(item.tensor, t);
                assert_string_equal(err.tensor, t->name);
                bad++;
            } else if (item.size == item.nbytes) {
                good++;
            } else {
                parts++;
            }
            sft_stream_release(s, &item);
        }
        bad_times = 0;
        assert_int_equal(bad, harm);
        assert_true(parts > 0 || good + bad == count);
        sft_stream_free(s);
        sft_catalog_close(c);
    }
    sft_stream_options o;
    sft_stream *s;
    SFT_INIT(&o);
    o.flags = SFT_STREAM_VERIFY;
    sft_catalog *c = open_at(in_scratch("n.safetensors"));
    s = stream_all(c, &o);
    assert_int_equal(sft_stream_start(s, &err), SFT_E_NOT_FOUND);
    sft_stream_free(s);
    sft_catalog_close(c);
    sft_pool_free(pools[1]);
}

#define T(f) cmocka_unit_test_setup(f, scratch_clear)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_one_bad), T(test_once_bad), T(test_files_move), T(test_control), T(test_no_memory),
        T(test_threads), T(test_strategy), T(test_arguments),  T(test_verify),  T(test_pieces)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_drop);
}
