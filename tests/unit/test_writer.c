/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of the streaming writer: any order, several threads, each byte once, digests that do
 * not depend on how the bytes came.
 */
#include "unit/files.h"

#include "base/thread/thread.h"
#include "move/write/cover.h"
#include <sft/digest.h>
#include <sft/extend.h>

enum { SIZE = 3000 };

static const uint64_t dim_big[] = {SIZE};
static const uint64_t dim2[] = {2};
static const uint64_t dim0[] = {0};

static char big[SIZE];

static void fill(void) {
    for (size_t i = 0; i < SIZE; i++) {
        big[i] = (char)(i * 37 + i / 7);
    }
}

/* Declares "u" (U8, SIZE), "f" (F32, 2), "e" (empty). */
static void declare(sft_writer *w) {
    uint32_t index = 9;
    assert_int_equal(sft_writer_metadata(w, "k", 1, "v", 1, NULL), SFT_OK);
    assert_int_equal(sft_writer_declare(w, "u", 1, sft_dtype_get(SFT_U8), dim_big, 1, &index, NULL),
                     SFT_OK);
    assert_int_equal(index, 0);
    assert_int_equal(sft_writer_declare(w, "f", 1, sft_dtype_get(SFT_F32), dim2, 1, &index, NULL),
                     SFT_OK);
    assert_int_equal(index, 1);
    assert_int_equal(sft_writer_declare(w, "e", 1, sft_dtype_get(SFT_I8), dim0, 1, NULL, NULL),
                     SFT_OK);
}

/* The same file by sft_save: what every way of putting must lead to. */
static void save_same(const char *path, const sft_write_options *o) {
    const sft_metadata_entry m = {"k", 1, "v", 1};
    const sft_save_tensor t[] = {{"u", 1, sft_dtype_get(SFT_U8), dim_big, 1, 0, big, SIZE},
                                 {"f", 1, sft_dtype_get(SFT_F32), dim2, 1, 0, "12345678", 8},
                                 {"e", 1, sft_dtype_get(SFT_I8), dim0, 1, 0, NULL, 0}};
    assert_int_equal(sft_save(path, t, 3, &m, 1, o, NULL), SFT_OK);
}

static void assert_same(const char *a, const char *b) {
    size_t size;
    char *bytes = file_get(a, &size);
    assert_non_null(bytes);
    assert_file(b, bytes, size);
    free(bytes);
}

static void any_order_gives_the_same_bytes(void **state) {
    (void)state;
    sft_write_options o;
    uint32_t seed = 1;
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    for (uint32_t digests = 0; digests < 4; digests++) {
        o.digests = digests;
        save_same(in_scratch("want"), &o);
        for (int round = 0; round < 40; round++) {
            /* cut into pieces, shuffled; round 0: whole, in order */
            uint64_t begin[64];
            size_t n = 0;
            sft_writer *w;
            for (uint64_t at = 0; at < SIZE && n < 63;) {
                begin[n++] = at;
                seed = seed * 1664525 + 1013904223;
                at += round == 0 ? SIZE : 1 + (seed >> 8) % 200;
            }
            const uint64_t last = begin[n - 1];
            for (size_t i = n - 1; i > 0 && round > 1; i--) {
                seed = seed * 1664525 + 1013904223;
                const size_t k = (seed >> 8) % (i + 1);
                const uint64_t swap = begin[i];
                begin[i] = begin[k];
                begin[k] = swap;
            }
            assert_int_equal(sft_writer_create(&w, in_scratch("got"), &o, NULL), SFT_OK);
            declare(w);
            for (size_t i = 0; i < n; i++) {
                uint64_t end = SIZE;
                for (size_t k = 0; k < n; k++) {
                    end = begin[k] > begin[i] && begin[k] < end ? begin[k] : end;
                }
                assert_true(end == SIZE || begin[i] != last);
                assert_int_equal(
                    sft_writer_put(w, 0, begin[i], big + begin[i], (size_t)(end - begin[i]), NULL),
                    SFT_OK);
            }
            assert_int_equal(sft_writer_put(w, 1, 4, "5678", 4, NULL), SFT_OK);
            assert_int_equal(sft_writer_put(w, 1, 0, "1234", 4, NULL), SFT_OK);
            assert_int_equal(sft_writer_put(w, 2, 0, NULL, 0, NULL), SFT_OK);
            assert_int_equal(sft_writer_commit(w, NULL), SFT_OK);
            sft_writer_free(w);
            assert_same(in_scratch("want"), in_scratch("got"));
        }
    }
    assert_int_equal(scratch_list(0), 2);
}

/* Two tensors, put in order, by turns, with pieces below, at and above the chunk that the writer
 * keeps whole; now and then one goes astray and the other takes over. */
static void chunks_meet(void **state) {
    (void)state;
    enum { LONG = 150001, CHUNK = 16384 };
    static char data[2][LONG];
    static const uint64_t shape[] = {LONG};
    static const size_t steps[] = {1,         100,       CHUNK - 1,     CHUNK,
                                   CHUNK + 1, 3 * CHUNK, 3 * CHUNK - 7, 40000};
    const sft_save_tensor t[] = {{"a", 1, sft_dtype_get(SFT_U8), shape, 1, 0, data[0], LONG},
                                 {"b", 1, sft_dtype_get(SFT_U8), shape, 1, 0, data[1], LONG}};
    uint32_t seed = 7;
    sft_write_options o;

    for (size_t i = 0; i < 2 * LONG; i++) {
        data[i / LONG][i % LONG] = (char)(i * 31 + i / 251);
    }
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    for (uint32_t digests = 0; digests < 4; digests++) {
        o.digests = digests;
        assert_int_equal(sft_save(in_scratch("want"), t, 2, NULL, 0, &o, NULL), SFT_OK);
        for (int round = 0; round < 30; round++) {
            size_t at[2] = {0, 0};
            sft_writer *w;
            assert_int_equal(sft_writer_create(&w, in_scratch("got"), &o, NULL), SFT_OK);
            assert_int_equal(sft_writer_declare(w, "a", 1, t[0].dtype, shape, 1, NULL, NULL),
                             SFT_OK);
            assert_int_equal(sft_writer_declare(w, "b", 1, t[1].dtype, shape, 1, NULL, NULL),
                             SFT_OK);
            while (at[0] < LONG || at[1] < LONG) {
                seed = seed * 1664525 + 1013904223;
                const uint32_t turn = (seed >> 9) % (round % 3 == 1 ? 2 : 9);
                uint32_t which = round % 3 == 0 || turn != 0 ? 0 : 1;
                which = at[0] == LONG ? 1 : at[1] == LONG ? 0 : which;
                size_t n = steps[(seed >> 16) % 8];
                n = n < LONG - at[which] ? n : LONG - at[which];
                assert_int_equal(
                    sft_writer_put(w, which, at[which], data[which] + at[which], n, NULL), SFT_OK);
                at[which] += n;
            }
            assert_int_equal(sft_writer_commit(w, NULL), SFT_OK);
            sft_writer_free(w);
            assert_same(in_scratch("want"), in_scratch("got"));
        }
    }
}

static void the_layout_is_told(void **state) {
    (void)state;
    sft_writer *w;
    size_t size;
    assert_int_equal(sft_writer_create(&w, in_scratch("got"), NULL, NULL), SFT_OK);
    declare(w);
    assert_int_equal(sft_writer_start(w, NULL), SFT_OK);
    assert_int_equal(sft_writer_start(w, NULL), SFT_E_STATE);
    assert_int_equal(sft_writer_declare(w, "x", 1, sft_dtype_get(SFT_U8), dim2, 1, NULL, NULL),
                     SFT_E_STATE);
    assert_int_equal(sft_writer_metadata(w, "x", 1, "y", 1, NULL), SFT_E_STATE);
    assert_int_equal(sft_writer_at(w, 0), 1); /* F32 first */
    assert_int_equal(sft_writer_at(w, 1), 2); /* I8 before U8 */
    assert_int_equal(sft_writer_at(w, 2), 0);
    assert_int_equal(sft_writer_nbytes(w, 0), SIZE);
    assert_int_equal(sft_writer_offset(w, 0), sft_writer_offset(w, 1) + 8);
    assert_int_equal(sft_writer_put(w, 0, 0, big, SIZE, NULL), SFT_OK);
    assert_int_equal(sft_writer_put(w, 1, 0, "12345678", 8, NULL), SFT_OK);
    const uint64_t bytes = sft_writer_file_bytes(w);
    assert_int_equal(sft_writer_commit(w, NULL), SFT_OK);
    assert_int_equal(sft_writer_commit(w, NULL), SFT_E_STATE);
    assert_int_equal(sft_writer_put(w, 0, 0, big, 1, NULL), SFT_E_STATE);
    sft_writer_free(w);
    free(file_get(in_scratch("got"), &size));
    assert_int_equal(size, bytes);
}

static void each_byte_once(void **state) {
    (void)state;
    sft_error err;
    sft_writer *w;
    file_put(in_scratch("got"), "old", 3);
    assert_int_equal(sft_writer_create(&w, in_scratch("got"), NULL, NULL), SFT_OK);
    declare(w);
    assert_int_equal(sft_writer_put(w, 3, 0, big, 1, &err), SFT_E_RANGE);
    assert_int_equal(sft_writer_put(w, 0, SIZE, big, 1, &err), SFT_E_RANGE);
    assert_string_equal(err.tensor, "u");
    assert_int_equal(sft_writer_put(w, 0, UINT64_MAX, big, 1, &err), SFT_E_RANGE);
    assert_int_equal(sft_writer_put(w, 0, 0, NULL, 1, &err), SFT_E_ARG);
    assert_int_equal(sft_writer_put(w, 0, 100, big + 100, 100, &err), SFT_OK);
    assert_int_equal(sft_writer_put(w, 0, 50, big + 50, 51, &err), SFT_E_STATE);
    assert_string_equal(err.tensor, "u");
    assert_int_equal(err.offset, sft_writer_offset(w, 0) + 100);
    assert_int_equal(sft_writer_put(w, 0, 199, big + 199, 51, &err), SFT_E_STATE);
    assert_int_equal(err.offset, sft_writer_offset(w, 0) + 199);
    assert_int_equal(sft_writer_put(w, 0, 0, big, SIZE, &err), SFT_E_STATE);
    assert_int_equal(sft_writer_put(w, 0, 120, big + 120, 10, &err), SFT_E_STATE);
    /* a refused put does no harm */
    assert_int_equal(sft_writer_put(w, 0, 0, big, 100, &err), SFT_OK);
    assert_int_equal(sft_writer_put(w, 0, 200, big + 200, SIZE - 201, &err), SFT_OK);
    const uint64_t at = sft_writer_offset(w, 1);
    assert_int_equal(sft_writer_commit(w, &err), SFT_E_STATE);
    assert_string_equal(err.tensor, "f"); /* first in the file */
    assert_int_equal(err.offset, at);
    sft_writer_free(w);
    assert_file(in_scratch("got"), "old", 3);

    assert_int_equal(sft_writer_create(&w, in_scratch("got"), NULL, NULL), SFT_OK);
    declare(w);
    assert_int_equal(sft_writer_put(w, 1, 0, "12345678", 8, &err), SFT_OK);
    assert_int_equal(sft_writer_put(w, 0, 0, big, SIZE - 1, &err), SFT_OK);
    assert_int_equal(sft_writer_commit(w, &err), SFT_E_STATE);
    assert_string_equal(err.tensor, "u");
    assert_non_null(strstr(err.message, "2999"));
    sft_writer_free(w);
    assert_file(in_scratch("got"), "old", 3);
    assert_int_equal(scratch_list(0), 1);
}

static void empty_files(void **state) {
    (void)state;
    sft_writer *w;
    assert_int_equal(sft_writer_create(&w, in_scratch("none"), NULL, NULL), SFT_OK);
    assert_int_equal(sft_writer_commit(w, NULL), SFT_OK);
    sft_writer_free(w);
    assert_file(in_scratch("none"), "\x08\0\0\0\0\0\0\0{}      ", 16);
    assert_int_equal(sft_writer_create(&w, in_scratch("meta"), NULL, NULL), SFT_OK);
    assert_int_equal(sft_writer_metadata(w, NULL, 0, NULL, 0, NULL), SFT_OK);
    assert_int_equal(sft_writer_metadata(w, "k", 1, NULL, 0, NULL), SFT_E_ARG);
    assert_int_equal(sft_writer_commit(w, NULL), SFT_OK);
    sft_writer_free(w);
    assert_file(in_scratch("meta"), "\x18\0\0\0\0\0\0\0{\"__metadata__\":{}}     ", 32);
    assert_int_equal(sft_writer_create(&w, in_scratch("dropped"), NULL, NULL), SFT_OK);
    sft_writer_free(w);
    sft_writer_free(NULL);
    assert_int_equal(scratch_list(0), 2);
}

static void options_may_go_away(void **state) {
    (void)state;
    sft_writer *w;
    {
        uint32_t list[] = {0, 1, 2};
        sft_limits limits;
        sft_write_options o;
        SFT_INIT(&limits);
        limits.rank = 1;
        SFT_INIT(&o);
        o.limits = &limits;
        o.order = SFT_ORDER_LIST;
        o.order_list = list;
        o.order_count = 3;
        assert_int_equal(sft_writer_create(&w, in_scratch("got"), &o, NULL), SFT_OK);
        memset(list, 0xff, sizeof list);
        memset(&limits, 0xff, sizeof limits);
        memset(&o, 0xff, sizeof o);
    }
    declare(w);
    assert_int_equal(sft_writer_start(w, NULL), SFT_OK);
    assert_int_equal(sft_writer_at(w, 0), 0);
    assert_int_equal(sft_writer_at(w, 2), 2);
    sft_writer_free(w);
}

static void streams_take_bytes_in_file_order(void **state) {
    (void)state;
    sft_error err;
    sft_writer *w;
    sft_write_options o;
    char bytes[8192];
    size_t size;
    int fds[2];
    fill();
    save_same(in_scratch("want"), NULL);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sft_writer_create_stream(&w, fds[1], NULL, &err), SFT_OK);
    declare(w);
    assert_int_equal(sft_writer_put(w, 0, 0, big, SIZE, &err), SFT_E_STATE);
    assert_int_equal(sft_writer_put(w, 1, 0, "1234", 4, &err), SFT_OK);
    assert_int_equal(sft_writer_put(w, 1, 0, "1234", 4, &err), SFT_E_STATE);
    assert_int_equal(sft_writer_put(w, 1, 4, "5678", 4, &err), SFT_OK);
    for (size_t at = 0; at < SIZE; at += 500) {
        assert_int_equal(sft_writer_put(w, 0, at, big + at, 500, &err), SFT_OK);
    }
    assert_int_equal(sft_writer_commit(w, &err), SFT_OK);
    sft_writer_free(w);
    char *want = file_get(in_scratch("want"), &size);
    assert_int_equal(read(fds[0], bytes, sizeof bytes), size);
    assert_memory_equal(bytes, want, size);
    free(want);

    assert_int_equal(sft_writer_create_stream(&w, fds[1], NULL, &err), SFT_OK);
    declare(w);
    assert_int_equal(sft_writer_put(w, 1, 0, "12345678", 8, &err), SFT_OK);
    assert_int_equal(sft_writer_put(w, 0, 0, big, 10, &err), SFT_OK);
    assert_int_equal(sft_writer_commit(w, &err), SFT_E_STATE);
    assert_string_equal(err.tensor, "u");
    sft_writer_free(w);
    close(fds[0]);
    assert_int_equal(sft_writer_create_stream(&w, fds[1], NULL, &err), SFT_OK);
    declare(w);
    assert_int_equal(sft_writer_start(w, &err), SFT_E_IO);
    assert_int_equal(err.sys, EPIPE);
    assert_int_equal(sft_writer_put(w, 1, 0, "12345678", 8, &err), SFT_E_STATE);
    sft_writer_free(w);
    close(fds[1]);
    SFT_INIT(&o);
    o.digests = SFT_DIGEST_CRC32C;
    assert_int_equal(sft_writer_create_stream(&w, 1, &o, &err), SFT_E_UNSUPPORTED);
    assert_null(w);
}

/* ---------------------------------------------------------------- threads */

enum { THREADS = 8, PIECES = 4000, PIECE = 100 };

typedef struct putter {
    sft_writer *w;
    const uint8_t *data;
    size_t from;
    int failures;
} putter;

static void put_some(void *arg) {
    putter *p = arg;
    for (size_t i = p->from; i < PIECES; i += THREADS) {
        p->failures +=
            sft_writer_put(p->w, 0, i * PIECE, p->data + i * PIECE, PIECE, NULL) != SFT_OK;
    }
}

static void threads_put_at_once(void **state) {
    (void)state;
    static const uint64_t shape[] = {PIECES, PIECE};
    uint8_t *data = malloc(PIECES * PIECE);
    sft__base_thread threads[THREADS];
    putter putters[THREADS];
    sft_write_options o;
    sft_writer *w;
    assert_non_null(data);
    for (size_t i = 0; i < PIECES * PIECE; i++) {
        data[i] = (uint8_t)(i * 13 + i / 999);
    }
    SFT_INIT(&o);
    o.digests = SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256;
    o.durability = SFT_DURABLE_NONE;
    assert_int_equal(sft_writer_create(&w, in_scratch("got"), &o, NULL), SFT_OK);
    assert_int_equal(sft_writer_declare(w, "t", 1, sft_dtype_get(SFT_U8), shape, 2, NULL, NULL),
                     SFT_OK);
    for (size_t i = 0; i < THREADS; i++) {
        putters[i] = (putter){w, data, i, 0};
        assert_true(sft__base_thread_start(&threads[i], put_some, &putters[i]));
    }
    for (size_t i = 0; i < THREADS; i++) {
        sft__base_thread_join(&threads[i]);
        assert_int_equal(putters[i].failures, 0);
    }
    assert_int_equal(sft_writer_commit(w, NULL), SFT_OK);
    sft_writer_free(w);
    const sft_save_tensor t = {"t", 1, sft_dtype_get(SFT_U8), shape, 2, 0, data, PIECES * PIECE};
    assert_int_equal(sft_save(in_scratch("want"), &t, 1, NULL, 0, &o, NULL), SFT_OK);
    assert_same(in_scratch("want"), in_scratch("got"));
    free(data);
}

static void extents_merge(void **state) {
    (void)state;
    sft__move_cover c;
    uint64_t clash = 0;
    memset(&c, 0, sizeof c);
    for (uint64_t i = 0; i < 100; i += 2) { /* every other one: nothing touches */
        assert_int_equal(sft__move_cover_claim(&c, i * 10, i * 10 + 10, NULL, &clash),
                         SFT__CLAIM_OK);
        sft__move_cover_done(&c, i * 10, sft_crc32c(0, big + i * 10, 10));
    }
    assert_int_equal(c.count, 50);
    assert_int_equal(sft__move_cover_missing(&c, 1000), 10);
    assert_int_equal(sft__move_cover_claim(&c, 985, 995, NULL, &clash), SFT__CLAIM_OVERLAP);
    assert_int_equal(clash, 985);
    for (uint64_t i = 99; i < 100; i -= 2) {
        assert_int_equal(sft__move_cover_claim(&c, i * 10, i * 10 + 10, NULL, &clash),
                         SFT__CLAIM_OK);
        assert_int_equal(sft__move_cover_missing(&c, 1000), 10);
        sft__move_cover_done(&c, i * 10, sft_crc32c(0, big + i * 10, 10));
    }
    assert_int_equal(c.count, 1);
    assert_int_equal(sft__move_cover_missing(&c, 1000), 1000);
    assert_int_equal(sft__move_cover_crc(&c), sft_crc32c(0, big, 1000));
    sft__move_cover_reset(&c, NULL);
}

static int fill_group(void **state) {
    fill();
    return scratch_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(any_order_gives_the_same_bytes, scratch_clear),
        cmocka_unit_test_teardown(chunks_meet, scratch_clear),
        cmocka_unit_test_teardown(the_layout_is_told, scratch_clear),
        cmocka_unit_test_teardown(each_byte_once, scratch_clear),
        cmocka_unit_test_teardown(empty_files, scratch_clear),
        cmocka_unit_test_teardown(options_may_go_away, scratch_clear),
        cmocka_unit_test_teardown(streams_take_bytes_in_file_order, scratch_clear),
        cmocka_unit_test_teardown(threads_put_at_once, scratch_clear),
        cmocka_unit_test(extents_merge),
    };
    return cmocka_run_group_tests_name("writer", tests, fill_group, scratch_drop);
}
