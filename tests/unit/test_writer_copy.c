/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/test_writer_copy.c - sft_writer_copy: the file is, byte for byte, what sft_save makes
 * of the same tensors in memory, however they lie in the sources, whoever puts the rest, with and
 * without digests; and what happens when reading, writing or memory fails.
 */
#include "unit/counting.h"
#include "unit/files.h"
#include "unit/move_util.h"
#include "unit/stream_util.h"

#include <sft/sft.h>

enum { MOST = 64 };

typedef struct set {
    sft_catalog *catalog;
    sft_save_tensor list[MOST]; /* in the order of declaration */
    const sft_tensor *tensors[MOST];
    size_t count;
} set;

/* Some of the catalog's tensors, in any order, in memory, too. */
static void choose(set *s, sft_catalog *c, bool all_in_order) {
    bool used[MOST] = {false};
    const size_t count = sft_catalog_count(c);
    sft_error err;
    assert_true(count <= MOST);
    s->catalog = c;
    s->count = all_in_order ? count : 1 + rnd_below(count);
    for (size_t i = 0; i < s->count; i++) {
        size_t k = all_in_order ? i : rnd_below(count);
        while (used[k]) {
            k = (k + 1) % count;
        }
        used[k] = true;
        const sft_tensor *t = sft_catalog_at(c, k);
        uint8_t *data = malloc((size_t)t->nbytes + 1);
        assert_non_null(data);
        ok(sft_tensor_read(c, t, NULL, data, (size_t)t->nbytes, &err), &err);
        s->tensors[i] = t;
        s->list[i] = (sft_save_tensor){t->name, t->name_len, t->dtype, t->shape,
                                       t->rank, 0,           data,     t->nbytes};
    }
}

static void forget(set *s) {
    for (size_t i = 0; i < s->count; i++) {
        free((void *)(uintptr_t)s->list[i].data);
    }
}

static sft_writer *declare(const set *s, const char *path, const sft_write_options *o) {
    sft_writer *w;
    sft_error err;
    ok(sft_writer_create(&w, path, o, &err), &err);
    for (size_t i = 0; i < s->count; i++) {
        const sft_save_tensor *t = &s->list[i];
        ok(sft_writer_declare(w, t->name, t->name_len, t->dtype, t->shape, t->rank, NULL, &err),
           &err);
    }
    return w;
}

static void make_folder(unsigned round) {
    make_model("model-1.safetensors", "a", 12, 1 << 10);
    make_model("model-2.safetensors", "b", 10, (size_t)1 << (10 + round % 11));
    make_model("model-3.safetensors", "c", 6, 400 << 10);
}

static void test_equal(void **state) {
    sft_pool *pools[2] = {NULL, NULL};
    sft_error err;
    (void)state;
    ok(sft_pool_create(&pools[1], 3, NULL, &err), &err);
    for (unsigned round = 0; round < 120; round++) {
        const char *const wanted = in_scratch("wanted.out");
        const char *const copied = in_scratch("copied.out");
        sft_write_options o;
        sft_catalog *c;
        set s;
        size_t size;
        if (round % 10 == 0) {
            (void)scratch_list(1);
            make_folder(round / 10);
        }
        ok(sft_catalog_open(&c, scratch, NULL, &err), &err);
        choose(&s, c, round % 3 == 0);
        SFT_INIT(&o);
        o.order = round & 1 ? SFT_ORDER_DECLARED : SFT_ORDER_REFERENCE;
        o.pool = pools[round >> 1 & 1];
        o.digests = (uint32_t)rnd_below(4);
        o.durability = round % 5 == 0 ? SFT_DURABLE_FULL : SFT_DURABLE_NONE;
        o.data_alignment = rnd_below(3) == 0 ? 4096 : 0;
        ok(sft_save(wanted, s.list, s.count, NULL, 0, &o, &err), &err);
        sft_writer *w = declare(&s, copied, &o);
        for (size_t i = 0; i < s.count && round % 4 == 3; i++) { /* the rest is put */
            if (rnd_below(3) == 0) {
                s.tensors[i] = NULL;
                ok(sft_writer_put(w, (uint32_t)i, 0, s.list[i].data, (size_t)s.list[i].nbytes,
                                  &err),
                   &err);
            }
        }
        ok(sft_writer_copy(w, c, s.tensors, &err), &err);
        ok(sft_writer_commit(w, &err), &err);
        sft_writer_free(w);
        char *bytes = file_get(wanted, &size);
        assert_file(copied, bytes, size);
        free(bytes);
        assert_int_equal(unlink(wanted), 0);
        assert_int_equal(unlink(copied), 0);
        forget(&s);
        sft_catalog_close(c);
    }
    sft_pool_free(pools[1]);
}

/* Into a stream, here a file at its position: in order, by one. */
static void test_stream(void **state) {
    sft_catalog *c;
    sft_writer *w;
    sft_pool *pool;
    sft_error err;
    size_t size, have;
    (void)state;
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    make_folder(9);
    ok(sft_catalog_open(&c, scratch, NULL, &err), &err);
    set s;
    sft_write_options o;
    choose(&s, c, false);
    SFT_INIT(&o);
    o.pool = pool;
    const char *const path = in_scratch("stream.out");
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    ok(sft_writer_create_stream(&w, fd, &o, &err), &err);
    for (size_t i = 0; i < s.count; i++) {
        const sft_save_tensor *t = &s.list[i];
        ok(sft_writer_declare(w, t->name, t->name_len, t->dtype, t->shape, t->rank, NULL, &err),
           &err);
    }
    ok(sft_writer_copy(w, c, s.tensors, &err), &err);
    ok(sft_writer_commit(w, &err), &err);
    sft_writer_free(w);
    assert_int_equal(close(fd), 0);
    ok(sft_save_memory(NULL, 0, &size, s.list, s.count, NULL, 0, NULL, &err), &err);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    ok(sft_save_memory(bytes, size, &have, s.list, s.count, NULL, 0, NULL, &err), &err);
    assert_file(path, bytes, size);
    free(bytes);
    forget(&s);
    sft_catalog_close(c);
    sft_pool_free(pool);
}

static int cancel_late(void *ctx, const sft_progress *p) {
    (void)ctx;
    return p->bytes_done > 9 << 20;
}

/* Whatever fails, nothing appears, and only free is left. */
static void test_failures(void **state) {
    sft_pool *pool;
    sft_error err;
    size_t size;
    (void)state;
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    make_flat("m.safetensors", 30, 400000);
    uint8_t *data = (uint8_t *)file_get(in_scratch("m.safetensors"), &size);
    const char *const path = in_scratch("out");
    for (unsigned k = 0; k < 12; k++) {
        const sft_control control = {sizeof control, cancel_late, NULL};
        own_source own;
        sft_write_options o;
        sft_catalog *c = own_open(&own, data, size, 0);
        set s;
        sft_status wanted = SFT_E_TRUNCATED;
        choose(&s, c, true);
        SFT_INIT(&o);
        o.durability = SFT_DURABLE_NONE;
        o.order = SFT_ORDER_DECLARED;
        o.pool = k & 1 ? pool : NULL;
        o.digests = k & 4 ? SFT_DIGEST_SHA256 : 0;
        o.control = k % 4 >= 2 && k < 8 ? &control : NULL;
        sft_writer *w = declare(&s, path, &o);
        if (o.control != NULL) {
            wanted = SFT_E_CANCELLED;
        } else if (k < 8) {
            own.fail_from = size - 1000000;
        } else if (k < 10) {
            wanted = SFT_E_STATE; /* put twice */
            ok(sft_writer_put(w, 3, 5, s.list[3].data, 10, &err), &err);
        } else {
            wanted = SFT_E_ARG; /* does not fit */
            s.tensors[4] = sft_catalog_at(c, 5);
            sft_tensor other = *s.tensors[4];
            other.nbytes--;
            s.tensors[4] = &other;
            assert_int_equal(sft_writer_copy(w, c, s.tensors, &err), SFT_E_ARG);
            assert_string_equal(err.tensor, "t4");
            wanted = SFT_OK;
        }
        if (wanted != SFT_OK) {
            assert_int_equal(sft_writer_copy(w, c, s.tensors, &err), wanted);
            assert_int_equal(sft_writer_commit(w, &err), SFT_E_STATE);
        }
        sft_writer_free(w);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(scratch_list(0), 1);
        forget(&s);
        sft_catalog_close(c);
    }
    free(data);
    sft_pool_free(pool);
}

static void test_no_memory(void **state) {
    sft_error err;
    sft_catalog *c;
    set s;
    (void)state;
    make_flat("m.safetensors", 10, 100000);
    ok(sft_catalog_open(&c, in_scratch("m.safetensors"), NULL, &err), &err);
    choose(&s, c, true);
    for (unsigned k = 0; k < 3; k++) {
        size_t at = 1;
        for (sft_status status = SFT_E_NOMEM; status != SFT_OK; at++) {
            counting a;
            sft_write_options o;
            sft_writer *w;
            counting_init(&a);
            a.fail_from = at;
            SFT_INIT(&o);
            o.allocator = &a.allocator;
            o.durability = SFT_DURABLE_NONE;
            o.digests = k;
            status = sft_writer_create(&w, in_scratch("out"), &o, &err);
            for (size_t i = 0; i < s.count && status == SFT_OK; i++) {
                const sft_save_tensor *t = &s.list[i];
                status = sft_writer_declare(w, t->name, t->name_len, t->dtype, t->shape, t->rank,
                                            NULL, &err);
            }
            if (status == SFT_OK) {
                status = sft_writer_copy(w, c, s.tensors, &err);
            }
            if (status == SFT_OK) {
                status = sft_writer_commit(w, &err);
            }
            assert_true(status == SFT_OK || status == SFT_E_NOMEM);
            sft_writer_free(w);
            assert_all_given_back(&a);
        }
        assert_true(at > 6);
    }
    forget(&s);
    sft_catalog_close(c);
}

#define T(f) cmocka_unit_test_setup(f, scratch_clear)

int main(void) {
    const struct CMUnitTest tests[] = {T(test_equal), T(test_stream), T(test_failures),
                                       T(test_no_memory)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_drop);
}
