/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of sft_save, sft_save_stream and sft_save_memory: exact bytes, digests, refusals, big
 * files by several workers.
 */
#include "unit/files.h"

#include "format/header.h"
#include <sft/digest.h>
#include <sft/extend.h>
#include <sft/read.h>

static const uint64_t dim2[] = {2};
static const uint64_t dim3[] = {3};
static const uint64_t dim0[] = {0, 5};

static sft_save_tensor tensor(const char *name, uint32_t dtype, const uint64_t *shape,
                              uint32_t rank, const void *data, uint64_t nbytes) {
    sft_save_tensor t = {name, strlen(name), sft_dtype_get(dtype), shape, rank, 0, data, nbytes};
    return t;
}

static sft_metadata_entry meta(const char *key, const char *value) {
    sft_metadata_entry e = {key, strlen(key), value, strlen(value)};
    return e;
}

/* Length bytes, text padded so that data begins at a multiple of `align`, data; returns the size.
 */
static size_t expect_at(size_t align, char *out, const char *text, const char *data,
                        size_t data_len) {
    const size_t len = strlen(text);
    size_t n = len;
    memcpy(out + 8, text, len);
    while ((8 + n) % align != 0) {
        out[8 + n++] = ' ';
    }
    for (int i = 0; i < 8; i++) {
        out[i] = (char)(uint8_t)((uint64_t)n >> (8 * i));
    }
    memcpy(out + 8 + n, data, data_len);
    return 8 + n + data_len;
}

static size_t expect(char *out, const char *text, const char *data, size_t data_len) {
    return expect_at(8, out, text, data, data_len);
}

/* All three ways must give the same bytes. */
static void assert_saved(const sft_save_tensor *t, size_t count, const sft_metadata_entry *m,
                         size_t m_count, const sft_write_options *o, const char *want,
                         size_t want_len) {
    size_t size = 0;
    char buffer[4096];
    int fds[2];
    assert_int_equal(sft_save(in_scratch("f"), t, count, m, m_count, o, NULL), SFT_OK);
    assert_file(in_scratch("f"), want, want_len);
    assert_int_equal(sft_save_memory(NULL, 0, &size, t, count, m, m_count, o, NULL), SFT_OK);
    assert_int_equal(size, want_len);
    assert_int_equal(sft_save_memory(buffer, size - 1, &size, t, count, m, m_count, o, NULL),
                     SFT_E_ARG);
    assert_int_equal(size, want_len);
    assert_int_equal(sft_save_memory(buffer, size, &size, t, count, m, m_count, o, NULL), SFT_OK);
    assert_memory_equal(buffer, want, want_len);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sft_save_stream(fds[1], t, count, m, m_count, o, NULL), SFT_OK);
    assert_int_equal(read(fds[0], buffer, sizeof buffer), want_len);
    assert_memory_equal(buffer, want, want_len);
    close(fds[0]);
    close(fds[1]);
}

static void the_reference_s_bytes(void **state) {
    (void)state;
    char want[512];
    const sft_save_tensor t[] = {tensor("u", SFT_U8, dim3, 1, "xyz", 3),
                                 tensor("f", SFT_F32, dim2, 1, "12345678", 8),
                                 tensor("none", SFT_F32, dim0, 2, NULL, 0)};
    const sft_metadata_entry m[] = {meta("z", "1"), meta("a", "\n\"")};
    size_t n = expect(want,
                      "{\"__metadata__\":{\"a\":\"\\n\\\"\",\"z\":\"1\"},"
                      "\"f\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                      "\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[8,8]},"
                      "\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}",
                      "12345678xyz", 11);
    assert_saved(t, 3, m, 2, NULL, want, n);
    n = expect(want, "{}", "", 0);
    assert_saved(NULL, 0, NULL, 0, NULL, want, n);
    n = expect(want, "{\"__metadata__\":{}}", "", 0);
    assert_saved(NULL, 0, m, 0, NULL, want, n);
}

static void orders_and_reserve(void **state) {
    (void)state;
    char want[512];
    const sft_save_tensor t[] = {tensor("u", SFT_U8, dim2, 1, "xy", 2),
                                 tensor("f", SFT_F16, dim2, 1, "1234", 4)};
    static const uint32_t list[] = {1, 0};
    sft_write_options o;
    SFT_INIT(&o);
    o.order = SFT_ORDER_DECLARED;
    size_t n = expect(want,
                      "{\"u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                      "\"f\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[2,6]}}",
                      "xy1234", 6);
    assert_saved(t, 2, NULL, 0, &o, want, n);
    o.order = SFT_ORDER_LIST;
    o.order_list = list;
    o.order_count = 2;
    o.reserve_bytes = 5;
    o.data_alignment = 64;
    n = expect_at(
        64, want,
        "{\"__metadata__\":{     },\"f\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}",
        "1234xy", 6);
    assert_int_equal((n - 6) % 64, 0);
    assert_saved(t, 2, NULL, 0, &o, want, n);
}

/* Bytes whose CRC32C is known by another way: the digest functions are tested on their own. */
static void digests_in_metadata(void **state) {
    (void)state;
    char want[1024];
    char text[512];
    const sft_save_tensor t[] = {tensor("b", SFT_U8, dim3, 1, "xyz", 3),
                                 tensor("a", SFT_U8, dim2, 1, "12", 2)};
    const sft_metadata_entry m[] = {meta("sft.crc32c", "old"), meta("k", "\"sft.crc32c\":\"")};
    uint8_t description[64];
    size_t at = 0;
    const char *const names[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        memset(description + at, 0, 8);
        description[at] = 1;
        description[at + 8] = (uint8_t)names[i][0];
        memcpy(description + at + 9, "U8", 3);
        memset(description + at + 12, 0, 16);
        description[at + 12] = 1;
        description[at + 20] = (uint8_t)(i == 0 ? 2 : 3);
        at += 28;
    }
    sft_write_options o;
    SFT_INIT(&o);
    o.digests = SFT_DIGEST_CRC32C;
    (void)snprintf(
        text, sizeof text,
        "{\"__metadata__\":{\"k\":\"\\\"sft.crc32c\\\":\\\"\",\"sft.crc32c\":\"%08x%08x%08x\"},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}",
        (unsigned)sft_crc32c(0, description, at), (unsigned)sft_crc32c(0, "12", 2),
        (unsigned)sft_crc32c(0, "xyz", 3));
    size_t n = expect(want, text, "12xyz", 5);
    assert_saved(t, 2, m, 2, &o, want, n);

    o.digests = SFT_DIGEST_SHA256 | SFT_DIGEST_CRC32C;
    size_t size = 0;
    assert_int_equal(sft_save(in_scratch("s"), t, 2, NULL, 0, &o, NULL), SFT_OK);
    char *bytes = file_get(in_scratch("s"), &size);
    /* SHA-256 of "12" and of "xyz" */
    const char *found =
        strstr(bytes + 8, "6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"
                          "3608bca1e44ea6c4d268eb6db02260269892c0b42b86bbf1e77a6fa16c3c9282");
    assert_non_null(found);
    free(bytes);
}

static void digests_in_a_sidecar(void **state) {
    (void)state;
    char want[512];
    char json[512];
    const sft_save_tensor t[] = {tensor("a\"", SFT_U8, dim2, 1, "12", 2)};
    sft_write_options o;
    sft_error err;
    size_t size = 0;
    SFT_INIT(&o);
    o.digests = SFT_DIGEST_CRC32C;
    o.flags = SFT_WRITE_DIGESTS_SIDECAR;
    assert_int_equal(sft_save(in_scratch("f.st"), t, 1, NULL, 0, &o, NULL), SFT_OK);
    size_t n = expect(want, "{\"a\\\"\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                      "12", 2);
    assert_file(in_scratch("f.st"), want, n);
    (void)snprintf(json, sizeof json,
                   "{\"schema\":1,\"file\":\"f.st\",\"size\":%zu,\"tensors\":{\n\"a\\\"\":{"
                   "\"crc32c\":\"%08x\"}\n}}\n",
                   n, (unsigned)sft_crc32c(0, "12", 2));
    assert_file(in_scratch("f.st.digests.json"), json, strlen(json));
    assert_int_equal(scratch_list(0), 2);
    assert_int_equal(sft_save_stream(1, t, 1, NULL, 0, &o, &err), SFT_E_UNSUPPORTED);
    assert_int_equal(sft_save_memory(NULL, 0, &size, t, 1, NULL, 0, &o, &err), SFT_E_UNSUPPORTED);
}

static void what_is_refused(void **state) {
    (void)state;
    sft_error err;
    sft_save_tensor t[2] = {tensor("a", SFT_U8, dim2, 1, "12", 2),
                            tensor("a", SFT_U8, dim2, 1, "12", 2)};
    file_put(in_scratch("f"), "old", 3);
    assert_int_equal(sft_save(in_scratch("f"), t, 2, NULL, 0, NULL, &err), SFT_E_DUPLICATE);
    assert_string_equal(err.tensor, "a");
    t[1] = tensor("__metadata__", SFT_U8, dim2, 1, "12", 2);
    assert_int_equal(sft_save(in_scratch("f"), t, 2, NULL, 0, NULL, &err), SFT_E_ARG);
    t[1] = tensor("b", SFT_U8, dim2, 1, "12", 3);
    assert_int_equal(sft_save(in_scratch("f"), t, 2, NULL, 0, NULL, &err), SFT_E_ARG);
    assert_string_equal(err.tensor, "b");
    t[1] = tensor("b", SFT_U8, dim2, 1, NULL, 2);
    assert_int_equal(sft_save(in_scratch("f"), t, 2, NULL, 0, NULL, &err), SFT_E_ARG);
    t[1].dtype = NULL;
    assert_int_equal(sft_save(in_scratch("f"), t, 2, NULL, 0, NULL, &err), SFT_E_ARG);
    t[1] = tensor("\xff", SFT_U8, dim2, 1, "12", 2);
    assert_int_equal(sft_save(in_scratch("f"), t, 2, NULL, 0, NULL, &err), SFT_E_ARG);
    const sft_metadata_entry twice[] = {meta("k", "1"), meta("k", "2")};
    assert_int_equal(sft_save(in_scratch("f"), t, 1, twice, 2, NULL, &err), SFT_E_DUPLICATE);
    sft_write_options o;
    SFT_INIT(&o);
    o.digests = 4;
    assert_int_equal(sft_save(in_scratch("f"), t, 1, NULL, 0, &o, &err), SFT_E_ARG);
    o.digests = 0;
    o.flags = SFT_WRITE_NEW_ONLY;
    assert_int_equal(sft_save(in_scratch("f"), t, 1, NULL, 0, &o, &err), SFT_E_EXISTS);
    assert_file(in_scratch("f"), "old", 3);
    assert_int_equal(scratch_list(0), 1);
}

/* Options and limits whose struct_size was never set are refused, not half used. */
static void arguments_that_are_missing(void **state) {
    (void)state;
    const sft_save_tensor t = tensor("a", SFT_U8, dim2, 1, "12", 2);
    const char *path = in_scratch("f");
    sft_write_options o;
    sft_limits limits;
    sft_writer *w = (sft_writer *)&o;
    char room[200];
    size_t size;
    sft_error err;
    assert_int_equal(sft_save(NULL, &t, 1, NULL, 0, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_writer_create(&w, NULL, NULL, &err), SFT_E_ARG);
    assert_null(w);
    assert_int_equal(sft_writer_create(NULL, path, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_writer_create_stream(NULL, 1, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_save_memory(NULL, 0, NULL, &t, 1, NULL, 0, NULL, &err), SFT_E_ARG);
    for (int i = 0; i < 2; i++) {
        SFT_INIT(&o);
        memset(&limits, 0, sizeof limits);
        o.limits = i == 0 ? NULL : &limits;
        o.struct_size = i == 0 ? 0 : o.struct_size;
        assert_int_equal(sft_save(path, &t, 1, NULL, 0, &o, &err), SFT_E_ARG);
        assert_int_equal(sft_save_stream(1, &t, 1, NULL, 0, &o, &err), SFT_E_ARG);
        assert_int_equal(sft_save_memory(room, sizeof room, &size, &t, 1, NULL, 0, &o, &err),
                         SFT_E_ARG);
        assert_int_equal(sft_writer_create(&w, path, &o, &err), SFT_E_ARG);
        assert_null(w);
        assert_int_equal(sft_writer_create_stream(&w, 1, &o, &err), SFT_E_ARG);
        assert_null(w);
        assert_non_null(strstr(err.message, "struct_size"));
    }
    limits.struct_size = offsetof(sft_limits, tensors); /* an older caller's */
    limits.tensors = 1;
    const sft_save_tensor two[2] = {t, tensor("b", SFT_U8, dim2, 1, "12", 2)};
    assert_int_equal(sft_save(path, two, 2, NULL, 0, &o, &err), SFT_OK);
    limits.struct_size = sizeof limits;
    assert_int_equal(sft_save(path, two, 2, NULL, 0, &o, &err), SFT_E_LIMIT);
    assert_int_equal(scratch_list(0), 1);
}

static void saving_over_a_file_that_is_open_and_mapped(void **state) {
    (void)state;
    sft_catalog *c;
    const void *old;
    size_t size = 0;
    const sft_save_tensor one = tensor("a", SFT_U8, dim2, 1, "12", 2);
    const char *path = in_scratch("self");
    sft_open_options open_options;
    SFT_INIT(&open_options);
    open_options.access = SFT_ACCESS_MAP;
    assert_int_equal(sft_save(path, &one, 1, NULL, 0, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_open(&c, path, &open_options, NULL), SFT_OK);
    assert_int_equal(sft_source_borrow(sft_catalog_source_at(c, 0),
                                       sft_catalog_at(c, 0)->pieces[0].offset, 2, &old, NULL),
                     SFT_OK);
    /* the mapped bytes are the input and the file the output */
    const sft_save_tensor t[] = {tensor("twice", SFT_U8, dim2, 1, old, 2),
                                 tensor("a", SFT_U8, dim2, 1, old, 2)};
    assert_int_equal(sft_save(path, t, 2, NULL, 0, NULL, NULL), SFT_OK);
    assert_memory_equal(old, "12", 2);
    sft_catalog_close(c);
    char *bytes = file_get(path, &size);
    assert_memory_equal(bytes + size - 4, "1212", 4);
    free(bytes);
}

static int cancel_at_once(void *ctx, const sft_progress *progress) {
    (void)progress;
    ++*(int *)ctx;
    return 1;
}

/* Many tensors of many sizes, some cut by the borders of jobs: file and digests do not depend on
 * workers. */
static void workers_do_not_show(void **state) {
    (void)state;
    enum { COUNT = 300 };
    const size_t total = (size_t)100 << 20;
    uint8_t *data = malloc(total);
    sft_save_tensor t[COUNT];
    uint64_t shapes[COUNT];
    char names[COUNT][16];
    size_t at = 0;
    sft_write_options o;
    sft_pool *pool;
    assert_non_null(data);
    for (size_t i = 0; i < total; i += 8) {
        const uint64_t v = i * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(data + i, &v, 8);
    }
    for (size_t i = 0; i < COUNT; i++) {
        shapes[i] = i == 7 ? (uint64_t)70 << 20 : i % 5 == 0 ? 0 : i % 3 == 0 ? 250001 : i * 7;
        (void)snprintf(names[i], sizeof names[i], "t%zu", i);
        t[i] = tensor(names[i], SFT_U8, &shapes[i], 1, data + at, shapes[i]);
        at += (size_t)shapes[i];
        assert_true(at <= total);
    }
    SFT_INIT(&o);
    o.durability = SFT_DURABLE_NONE;
    o.digests = SFT_DIGEST_CRC32C;
    assert_int_equal(sft_save(in_scratch("one"), t, COUNT, NULL, 0, &o, NULL), SFT_OK);
    assert_int_equal(sft_pool_create(&pool, 4, NULL, NULL), SFT_OK);
    o.pool = pool;
    assert_int_equal(sft_save(in_scratch("four"), t, COUNT, NULL, 0, &o, NULL), SFT_OK);
    size_t size = 0;
    size_t size2;
    char *one = file_get(in_scratch("one"), &size);
    char *four = file_get(in_scratch("four"), &size2);
    assert_int_equal(size, size2);
    assert_memory_equal(one, four, size);
    /* and memory, whose digests are computed another way */
    assert_int_equal(sft_save_memory(four, size, &size2, t, COUNT, NULL, 0, &o, NULL), SFT_OK);
    assert_memory_equal(one, four, size);
    free(one);
    free(four);

    int polls = 0;
    sft_control control;
    SFT_INIT(&control);
    control.poll = cancel_at_once;
    control.ctx = &polls;
    o.control = &control;
    assert_int_equal(sft_save(in_scratch("never"), t, COUNT, NULL, 0, &o, NULL), SFT_E_CANCELLED);
    assert_int_equal(polls, 1);
    assert_int_equal(access(in_scratch("never"), F_OK), -1);
    sft_pool_free(pool);
    free(data);
}

static void a_control_must_know_its_size(void **state) {
    (void)state;
    static const uint8_t data[] = {1, 2};
    const sft_save_tensor t = tensor("t", SFT_U8, dim2, 1, data, 2);
    const sft_control control = {0, cancel_at_once, NULL};
    sft_write_options w;
    sft_read_options r;
    sft_catalog *catalog;
    uint8_t out[2];
    sft_error err;

    SFT_INIT(&w);
    w.control = &control;
    assert_int_equal(sft_save(in_scratch("f"), &t, 1, NULL, 0, &w, &err), SFT_E_ARG);
    assert_non_null(strstr(err.message, "struct_size"));
    assert_int_equal(access(in_scratch("f"), F_OK), -1);
    assert_int_equal(sft_save(in_scratch("f"), &t, 1, NULL, 0, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_open(&catalog, in_scratch("f"), NULL, &err), SFT_OK);
    SFT_INIT(&r);
    r.control = &control;
    assert_int_equal(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &r, out, 2, &err),
                     SFT_E_ARG);
    assert_non_null(strstr(err.message, "struct_size"));
    sft_catalog_close(catalog);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_reference_s_bytes, scratch_clear),
        cmocka_unit_test_teardown(orders_and_reserve, scratch_clear),
        cmocka_unit_test_teardown(digests_in_metadata, scratch_clear),
        cmocka_unit_test_teardown(digests_in_a_sidecar, scratch_clear),
        cmocka_unit_test_teardown(what_is_refused, scratch_clear),
        cmocka_unit_test_teardown(arguments_that_are_missing, scratch_clear),
        cmocka_unit_test_teardown(saving_over_a_file_that_is_open_and_mapped, scratch_clear),
        cmocka_unit_test_teardown(workers_do_not_show, scratch_clear),
        cmocka_unit_test_teardown(a_control_must_know_its_size, scratch_clear),
    };
    return cmocka_run_group_tests_name("save", tests, scratch_make, scratch_drop);
}
