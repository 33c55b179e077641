/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of sft_reader: every stretch is what sft_tensor_read_bytes brings, past the page cache and
 * through it, in room at any address, and nothing outside of room is touched; files that change or end early.
 */
#include "unit/cm.h"

#include "unit/counting.h"
#include "unit/move_util.h"

#include <errno.h>
#include <sft/load.h>

enum { BYTES = 300000, GUARD = 64 };

typedef struct room {
    uint8_t *all;
    uint8_t *at;
    size_t size;
} room;

static room make_room(size_t bytes, size_t skew) {
    room r = {.size = SFT_READER_ROOM(bytes)};
    r.all = malloc(r.size + skew + 2 * GUARD);
    assert_non_null(r.all);
    memset(r.all, 0x5a, r.size + skew + 2 * GUARD);
    r.at = r.all + GUARD + skew;
    return r;
}

static void check_guards(const room *r) {
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(r->at[r->size + i], 0x5a);
        assert_int_equal(*(r->at - 1 - i), 0x5a);
    }
}

/* Data sections begin at odd places, too. */
static void stretches_are_the_tensor(void **state) {
    (void)state;
    static const sft_strategy ways[] = {SFT_STRATEGY_AUTO, SFT_STRATEGY_READ, SFT_STRATEGY_DIRECT};
    const uint64_t shape[1] = {BYTES};
    unsigned direct = 0;
    sft_error err;
    rnd_state = 71;

    for (size_t pad = 0; pad < 1900; pad += 1 + rnd_below(80)) {
        size_t size;
        uint8_t *file = one_tensor_file(sft_dtype_get(SFT_U8), shape, 1, BYTES, pad, &size);
        sft_catalog *catalog = file_open(file, size, SFT_ACCESS_READ);
        const sft_tensor *t = sft_catalog_at(catalog, 0);
        for (size_t w = 0; w < 3; w++) {
            sft_reader *r;
            sft_strategy_choice choice;
            ok(sft_reader_create(&r, catalog, ways[w], NULL, &err), &err);
            for (int i = 0; i < 20; i++) {
                const uint64_t from = i == 0 ? 0 : rnd_below(BYTES + 1);
                const size_t n = (size_t)(i == 0 ? BYTES : rnd_below(BYTES - from + 1));
                room m = make_room(n, (size_t)rnd_below(5000));
                void *data = m.at;
                ok(sft_reader_read(r, t, from, n, &data, &err), &err);
                assert_int_equal((uintptr_t)data % 16, 0);
                assert_true((uint8_t *)data >= m.at && (uint8_t *)data + n <= m.at + m.size);
                assert_memory_equal(data, file + size - BYTES + from, n);
                check_guards(&m);
                free(m.all);
            }
            ok(sft_strategy_choose(catalog, 0, ways[w], &choice, &err), &err);
            direct += choice.strategy == SFT_STRATEGY_DIRECT;
            sft_reader_free(r);
        }
        (void)remove(sft_catalog_file_at(catalog, 0)->path);
        sft_catalog_close(catalog);
        free(file);
    }
    printf("%u files were read past the page cache\n", direct);
}

static void own_sources_read_in_their_way(void **state) {
    (void)state;
    const uint64_t shape[2] = {100, 1000};
    sft_error err;
    own_source own;
    sft_reader *r;
    size_t size;
    rnd_state = 72;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_F16), shape, 2, 200000, 1, &size);
    sft_catalog *catalog = own_open(&own, file, size, 0);
    room m = make_room(200000, 3);
    void *data = m.at;

    ok(sft_reader_create(&r, catalog, SFT_STRATEGY_DIRECT, NULL, &err), &err);
    ok(sft_reader_read(r, sft_catalog_at(catalog, 0), 0, 200000, &data, &err), &err);
    assert_memory_equal(data, file + size - 200000, 200000);
    assert_int_equal(own.reads, 1);
    assert_int_equal(own.bytes, 200000);
    own.fail_from = size - 10;
    assert_int_equal(sft_reader_read(r, sft_catalog_at(catalog, 0), 199980, 20, &data, &err),
                     SFT_E_TRUNCATED);
    assert_string_equal(err.tensor, "t");
    check_guards(&m);
    sft_reader_free(r);
    sft_catalog_close(catalog);
    free(m.all);
    free(file);
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    const uint64_t shape[1] = {100};
    sft_error err;
    sft_reader *r;
    size_t size;
    rnd_state = 73;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_U8), shape, 1, 100, 0, &size);
    sft_catalog *catalog = file_open(file, size, SFT_ACCESS_READ);
    const sft_tensor *t = sft_catalog_at(catalog, 0);
    room m = make_room(200, 0);
    void *data = m.at;
    void *none = NULL;

    counting memory;
    counting_init(&memory);
    memory.fail_from = 1;
    assert_int_equal(sft_reader_create(&r, catalog, SFT_STRATEGY_AUTO, &memory.allocator, &err),
                     SFT_E_NOMEM);
    assert_null(r);
    ok(sft_reader_create(&r, catalog, SFT_STRATEGY_AUTO, &memory.allocator, &err), &err);
    assert_true(memory.blocks == 1 && memory.held < 1000);
    sft_reader_free(r);
    assert_all_given_back(&memory);
    assert_int_equal(sft_reader_create(&r, NULL, SFT_STRATEGY_AUTO, NULL, &err), SFT_E_ARG);
    assert_null(r);
    assert_int_equal(sft_reader_create(&r, catalog, SFT_STRATEGY_MAP, NULL, &err),
                     SFT_E_UNSUPPORTED);
    assert_int_equal(sft_reader_create(&r, catalog, SFT_STRATEGY_URING, NULL, &err),
                     SFT_E_UNSUPPORTED);
    assert_int_equal(sft_reader_create(&r, catalog, (sft_strategy)99, NULL, &err), SFT_E_ARG);
    ok(sft_reader_create(&r, catalog, SFT_STRATEGY_AUTO, NULL, &err), &err);
    assert_int_equal(sft_reader_read(r, t, 101, 0, &data, &err), SFT_E_RANGE);
    assert_int_equal(sft_reader_read(r, t, 1, 100, &data, &err), SFT_E_RANGE);
    assert_int_equal(sft_reader_read(r, t, UINT64_MAX, 2, &data, &err), SFT_E_RANGE);
    assert_int_equal(sft_reader_read(r, t, 0, 1, &none, &err), SFT_E_ARG);
    assert_int_equal(sft_reader_read(r, NULL, 0, 1, &data, &err), SFT_E_ARG);
    ok(sft_reader_read(r, t, 100, 0, &data, &err), &err);
    sft_piece other = t->pieces[0];
    sft_tensor stranger = *t;
    other.source = 1;
    stranger.pieces = &other;
    assert_int_equal(sft_reader_read(r, &stranger, 0, 1, &data, &err), SFT_E_ARG);
    sft_reader_free(r);
    sft_reader_free(NULL);
    (void)remove(sft_catalog_file_at(catalog, 0)->path);
    sft_catalog_close(catalog);
    free(m.all);
    free(file);
}

static void changed_files_are_found(void **state) {
    (void)state;
    const uint64_t shape[1] = {BYTES};
    sft_error err;
    sft_reader *r;
    size_t size;
    rnd_state = 74;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_U8), shape, 1, BYTES, 0, &size);
    sft_catalog *catalog = file_open(file, size, SFT_ACCESS_READ);
    const char *path = sft_catalog_file_at(catalog, 0)->path;
    room m = make_room(BYTES, 1);
    void *data = m.at;

    ok(sft_reader_create(&r, catalog, SFT_STRATEGY_AUTO, NULL, &err), &err);
    ok(sft_reader_read(r, sft_catalog_at(catalog, 0), 0, BYTES, &data, &err), &err);
    data = m.at;
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    assert_int_equal(fwrite("more", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(sft_reader_read(r, sft_catalog_at(catalog, 0), 0, BYTES, &data, &err),
                     SFT_E_CHANGED);
    assert_int_equal(truncate(path, (off_t)(size - 5)), 0);
    assert_int_equal(sft_reader_read(r, sft_catalog_at(catalog, 0), 0, BYTES, &data, &err),
                     SFT_E_TRUNCATED);
    check_guards(&m);
    sft_reader_free(r);
    (void)remove(path);
    sft_catalog_close(catalog);
    free(m.all);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stretches_are_the_tensor),
        cmocka_unit_test(own_sources_read_in_their_way),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(changed_files_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
