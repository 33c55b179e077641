/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of models whose files lie in no folder (sft_catalog_open_model): here they are in memory, and
 * the opener records what it was asked for.
 */
#include "unit/cm.h"
#include "unit/counting.h"

#include <sft/extend.h>
#include <sft/sft.h>

typedef struct store {
    const char *names[4];
    uint8_t bytes[4][256];
    size_t sizes[4];
    size_t count;
    const sft_allocator *allocator;
    size_t calls;
    size_t asked;
    sft_status fail; /* after all were opened */
    int silently;    /* without filling the record */
    size_t closed;
    size_t opened;
} store;

/* A file with one U8 tensor. */
static void store_put(store *s, const char *file, const char *tensor, size_t size) {
    char header[160];
    uint8_t *to = s->bytes[s->count];
    const int len = snprintf(header, sizeof header,
                             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
                             tensor, size, size);
    memset(to, 0, sizeof s->bytes[0]);
    to[0] = (uint8_t)len;
    memcpy(to + 8, header, (size_t)len);
    s->names[s->count] = file;
    s->sizes[s->count++] = 8 + (size_t)len + size;
}

typedef struct one {
    store *s;
    size_t index;
} one;

static sft_status one_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const one *o = self;
    (void)err;
    memcpy(dst, o->s->bytes[o->index] + offset, size);
    return SFT_OK;
}

static void one_close(void *self) {
    one *o = self;
    o->s->closed++;
    free(o);
}

static sft_status store_open(void *ctx, const char *const *names, size_t count,
                             sft_source **sources, sft_error *err) {
    static const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = one_read, .close = one_close};
    store *s = ctx;

    s->calls++;
    s->asked = count;
    for (size_t i = 0; i < count; i++) {
        assert_null(sources[i]);
        for (size_t k = 0; k < s->count; k++) {
            if (strcmp(names[i], s->names[k]) == 0) {
                one *o = malloc(sizeof *o);
                assert_non_null(o);
                *o = (one){s, k};
                const sft_status status = sft_source_create(
                    &sources[i], &vtable, o,
                    &(sft_source_info){s->sizes[k], 0, names[i], s->allocator}, err);
                if (status != SFT_OK) {
                    free(o);
                    return status;
                }
                s->opened++;
            }
        }
    }
    return s->fail == SFT_OK || s->silently != 0
               ? s->fail
               : sft_error_set(err, s->fail, 7, "the store is closed");
}

static const char two[] = "{\"metadata\":{\"total_size\":12},\"weight_map\":"
                          "{\"a\":\"one.safetensors\",\"b\":\"sub/two.safetensors\"}}";

static void store_init(store *s) {
    memset(s, 0, sizeof *s);
    store_put(s, "sub/two.safetensors", "b", 8);
    store_put(s, "one.safetensors", "a", 4);
}

static sft_status open_index(sft_catalog **out, store *s, const char *index, uint32_t flags,
                             sft_error *err) {
    sft_model_files files;
    sft_open_options o;
    sft_status status;

    SFT_INIT(&files);
    SFT_INIT(&o);
    o.allocator = s->allocator;
    o.flags = flags;
    files.open = store_open;
    files.ctx = s;
    status = sft_source_open_memory(&files.index, index, strlen(index), s->allocator, err);
    if (status == SFT_OK) {
        status = sft_catalog_open_model(out, &files, &o, err);
    } else {
        *out = NULL;
    }
    sft_source_close(files.index);
    return status;
}

static void test_index(void **state) {
    store s;
    sft_error err;
    sft_catalog *c;
    (void)state;

    store_init(&s);
    assert_int_equal(open_index(&c, &s, two, 0, &err), SFT_OK);
    assert_int_equal(s.calls, 1); /* all at once */
    assert_int_equal(s.asked, 2);
    assert_int_equal(sft_catalog_count(c), 2);
    assert_int_equal(sft_catalog_file_count(c), 2);
    assert_int_equal(sft_catalog_problem_count(c), 0);
    assert_string_equal(sft_catalog_file_at(c, 0)->path, "one.safetensors");
    assert_string_equal(sft_catalog_at(c, 1)->name, "b");
    sft_catalog_close(c);
    assert_int_equal(s.closed, 2);
}

static void test_missing(void **state) {
    store s;
    sft_error err;
    sft_catalog *c;
    (void)state;

    store_init(&s);
    s.names[0] = "other.safetensors";
    assert_int_equal(open_index(&c, &s, two, 0, &err), SFT_E_SHARD_MISSING);
    assert_null(c);
    assert_non_null(strstr(err.message, "sub/two.safetensors"));
    assert_int_equal(s.closed, s.opened);
    assert_int_equal(open_index(&c, &s, two, SFT_OPEN_INCOMPLETE, &err), SFT_OK);
    assert_int_equal(sft_catalog_count(c), 1);
    assert_int_equal(sft_catalog_problem_count(c), 1);
    assert_int_equal(sft_catalog_problem_at(c, 0)->kind, SFT_PROBLEM_MISSING_FILE);
    sft_catalog_close(c);
    assert_int_equal(s.closed, s.opened);
}

static void test_refused(void **state) {
    static const char *const bad[] = {"../one.safetensors",      "/etc/one.safetensors",
                                      "a/../one.safetensors",    "http://other/one.safetensors",
                                      "//other/one.safetensors", "a\\\\one.safetensors"};
    store s;
    sft_error err;
    sft_catalog *c;
    (void)state;

    store_init(&s);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char index[200];
        (void)snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", bad[i]);
        assert_int_equal(open_index(&c, &s, index, 0, &err), SFT_E_PATH);
        assert_null(c);
    }
    assert_int_equal(s.calls, 0); /* the opener never saw them */
}

static void test_names(void **state) {
    static const char *const names[] = {"sub/two.safetensors", "one.safetensors"};
    static const char *const outside[] = {"../one.safetensors"};
    static const char *const other[] = {"one.bin"};
    sft_model_files files;
    store s;
    sft_error err;
    sft_catalog *c;
    (void)state;

    store_init(&s);
    SFT_INIT(&files);
    files.open = store_open;
    files.ctx = &s;
    files.names = names;
    files.name_count = 2;
    assert_int_equal(sft_catalog_open_model(&c, &files, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_count(c), 2);
    assert_string_equal(sft_catalog_file_at(c, 1)->path, "sub/two.safetensors");
    sft_catalog_close(c);
    files.names = outside;
    files.name_count = 1;
    assert_int_equal(sft_catalog_open_model(&c, &files, NULL, &err), SFT_E_PATH);
    files.names = other;
    assert_int_equal(sft_catalog_open_model(&c, &files, NULL, &err), SFT_E_ARG);
    files.name_count = 0;
    assert_int_equal(sft_catalog_open_model(&c, &files, NULL, &err), SFT_E_FORMAT);
    files.open = NULL;
    assert_int_equal(sft_catalog_open_model(&c, &files, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_catalog_open_model(&c, NULL, NULL, &err), SFT_E_ARG);
    assert_null(c);
}

static void test_failing_opener(void **state) {
    store s;
    sft_error err;
    sft_catalog *c;
    (void)state;

    store_init(&s);
    s.fail = SFT_E_HTTP;
    assert_int_equal(open_index(&c, &s, two, 0, &err), SFT_E_HTTP);
    assert_string_equal(err.message, "the store is closed");
    assert_int_equal(err.sys, 7);
    assert_int_equal(s.closed, 2);
    s.silently = 1;
    assert_int_equal(open_index(&c, &s, two, 0, &err), SFT_E_HTTP);
    assert_int_equal(err.status, SFT_E_HTTP);
    assert_int_equal(s.closed, 4);
}

static void test_bad_header(void **state) {
    store s;
    sft_error err;
    sft_catalog *c;
    (void)state;

    store_init(&s);
    s.bytes[0][15] = 0x80; /* no UTF-8 */
    assert_int_equal(open_index(&c, &s, two, 0, &err), SFT_E_UTF8);
    assert_non_null(strstr(err.message, "sub/two.safetensors: "));
    assert_int_equal(s.closed, 2);
}

static void test_no_memory(void **state) {
    counting count;
    store s;
    sft_error err;
    sft_catalog *c;
    size_t failed = 0;
    (void)state;

    for (size_t k = 1;; k++) {
        store_init(&s);
        counting_init(&count);
        count.fail_from = k;
        s.allocator = &count.allocator;
        const sft_status status = open_index(&c, &s, two, 0, &err);
        if (status == SFT_OK) {
            sft_catalog_close(c);
            assert_all_given_back(&count);
            break;
        }
        assert_int_equal(status, SFT_E_NOMEM);
        assert_null(c);
        assert_all_given_back(&count);
        assert_int_equal(s.closed, s.opened);
        failed++;
    }
    assert_true(failed > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index),          cmocka_unit_test(test_missing),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_failing_opener), cmocka_unit_test(test_bad_header),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
