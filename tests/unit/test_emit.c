/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of format/build.h: the order of tensors, the text of headers, and that what is built
 * parses.
 */
#include "unit/counting.h"

#include "base/text/json.h"
#include "format/build.h"
#include "format/header.h"

static sft_status build(sft__base_buf *out, sft__format_contents contents,
                        const sft_write_options *options, sft_error *err) {
    return sft__format_header_build(out, &contents, options, err);
}

static sft__format_entry entry(const char *name, sft_dtype_id dtype, const uint64_t *shape,
                               uint32_t rank) {
    sft__format_entry e;
    memset(&e, 0, sizeof e);
    e.name = name;
    e.name_len = strlen(name);
    e.dtype = sft_dtype_get(dtype);
    e.shape = shape;
    e.rank = rank;
    return e;
}

static const uint64_t s23[] = {2, 3};
static const uint64_t s4[] = {4};
static const uint64_t s0[] = {0};

/* Lays out and builds; the text must be `expected` and its padding. */
static void assert_header(sft__format_entry *entries, size_t count,
                          const sft_metadata_entry *metadata, size_t metadata_count,
                          const sft_write_options *options, size_t alignment,
                          const char *expected) {
    uint32_t order[16];
    uint64_t bytes;
    sft_error err = {0};
    sft__base_buf b;
    sft__base_buf_init(&b, NULL);
    assert_int_equal(sft__format_layout(entries, count, options, order, &bytes, &err), SFT_OK);
    assert_int_equal(build(&b,
                           (sft__format_contents){entries, order, count, metadata, metadata_count},
                           options, &err),
                     SFT_OK);
    const size_t len = strlen(expected);
    assert_true(b.len >= 8 + len);
    assert_memory_equal(b.data + 8, expected, len);
    assert_int_equal(b.len % alignment, 0);
    assert_true(b.len - 8 - len < alignment);
    for (size_t i = 8 + len; i < b.len; i++) {
        assert_int_equal(b.data[i], ' ');
    }
    assert_int_equal(b.len - 8,
                     (uint8_t)b.data[0] + 256u * (uint8_t)b.data[1] + 65536u * (uint8_t)b.data[2]);

    sft__format_header h;
    char *text = sft__base_alloc(NULL, b.len - 8 + SFT__HEADER_SLACK);
    memcpy(text, b.data + 8, b.len - 8);
    assert_int_equal(sft__format_header_parse(&h, text, b.len - 8, b.len + bytes, NULL, &err),
                     SFT_OK);
    assert_int_equal(h.tensor_count, count);
    assert_int_equal(h.metadata_count, metadata_count);
    for (size_t p = 0; p < count; p++) {
        const sft__format_entry *e = &entries[order[p]];
        assert_int_equal(e->position, p);
        assert_int_equal(h.tensors[p].name_len, e->name_len);
        assert_memory_equal(h.tensors[p].name, e->name, e->name_len);
        assert_int_equal(h.tensors[p].pieces[0].offset, b.len + e->begin);
        assert_int_equal(h.tensors[p].nbytes, e->nbytes);
    }
    sft__format_header_reset(&h);
    sft__base_buf_reset(&b);
}

static void strings_are_escaped_as_serde_json_does(void **state) {
    (void)state;
    static const char in[] = "\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\xe2\x80\xa8 \0z";
    static const char out[] =
        "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\xe2\x80\xa8 \\u0000z\"";
    sft__base_buf b;
    sft__base_buf_init(&b, NULL);
    sft__base_json_string(&b, in, sizeof in - 1);
    assert_int_equal(b.len, sizeof out - 1);
    assert_memory_equal(b.data, out, sizeof out - 1);
    sft__base_buf_reset(&b);
}

static void headers_are_the_references(void **state) {
    (void)state;
    sft__format_entry e[3];
    const sft_metadata_entry m[] = {{"z", 1, "1", 1}, {"a\n", 2, "\"\\/\x01\x7f", 5}};

    assert_header(NULL, 0, NULL, 0, NULL, 8, "{}");
    assert_header(NULL, 0, m, 0, NULL, 8, "{\"__metadata__\":{}}");
    assert_header(NULL, 0, m, 1, NULL, 8, "{\"__metadata__\":{\"z\":\"1\"}}");
    e[0] = entry("b", SFT_U8, s4, 1);
    e[1] = entry("a\t\xc3\xa9", SFT_F32, s23, 2);
    e[2] = entry("", SFT_F4, s4, 1);
    assert_header(e, 3, m, 2, NULL, 8,
                  "{\"__metadata__\":{\"a\\n\":\"\\\"\\\\/\\u0001\x7f\",\"z\":\"1\"},"
                  "\"a\\t\xc3\xa9\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                  "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[24,28]},"
                  "\"\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[28,30]}}");
    e[0] = entry("s", SFT_I64, NULL, 0);
    assert_header(e, 1, NULL, 0, NULL, 8,
                  "{\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}");
}

/* Every dtype against every other, and names that are prefixes of each other. */
static void the_order_is_dtype_then_name(void **state) {
    (void)state;
    static const char *const names[] = {"a10", "a9", "a", "A", "", "\xc3\xa9", "b", "a\x01", "ab"};
    static const size_t sorted[] = {4, 3, 2, 7, 0, 1, 8, 6, 5};
    sft__format_entry e[SFT_DTYPE_COUNT + 9];
    uint32_t order[SFT_DTYPE_COUNT + 9];
    uint64_t bytes;
    size_t n = 0;
    char own[SFT_DTYPE_COUNT][4];

    for (size_t i = 0; i < 9; i++) {
        e[n++] = entry(names[i], SFT_F16, s4, 1);
    }
    for (uint32_t id = 1; id <= SFT_DTYPE_COUNT; id++) {
        (void)snprintf(own[id - 1], sizeof own[0], "~%u", (id * 7) % 23);
        if (id != SFT_F16) {
            e[n++] = entry(own[id - 1], (sft_dtype_id)id, s4, 1);
        }
    }
    assert_int_equal(sft__format_layout(e, n, NULL, order, &bytes, NULL), SFT_OK);
    uint64_t at = 0;
    size_t k = 0;
    for (size_t p = 0; p < n; p++) {
        const sft__format_entry *x = &e[order[p]];
        assert_int_equal(x->begin, at);
        at += x->nbytes;
        if (p != 0) {
            assert_true(e[order[p - 1]].dtype->id >= x->dtype->id);
        }
        if (x->dtype->id == SFT_F16) {
            assert_int_equal(order[p], sorted[k++]);
        }
    }
    assert_int_equal(k, 9);
    assert_int_equal(bytes, at);
}

static void other_orders(void **state) {
    (void)state;
    sft__format_entry e[3];
    sft_write_options o;
    uint32_t list[] = {2, 0, 1};
    uint32_t order[3];
    uint64_t bytes;
    sft_error err;

    SFT_INIT(&o);
    e[0] = entry("x", SFT_U8, s4, 1);
    e[1] = entry("y", SFT_F64, s0, 1);
    e[2] = entry("z", SFT_F32, s4, 1);
    o.order = SFT_ORDER_DECLARED;
    assert_header(e, 3, NULL, 0, &o, 8,
                  "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                  "\"y\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[4,4]},"
                  "\"z\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}");
    o.order = SFT_ORDER_LIST;
    o.order_list = list;
    o.order_count = 3;
    assert_header(e, 3, NULL, 0, &o, 8,
                  "{\"z\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                  "\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[16,20]},"
                  "\"y\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[20,20]}}");
    o.order_count = 2;
    assert_int_equal(sft__format_layout(e, 3, &o, order, &bytes, &err), SFT_E_ARG);
    o.order_count = 3;
    list[0] = 3;
    assert_int_equal(sft__format_layout(e, 3, &o, order, &bytes, &err), SFT_E_ARG);
    list[0] = 0;
    assert_int_equal(sft__format_layout(e, 3, &o, order, &bytes, &err), SFT_E_ARG);
    o.order_list = NULL;
    assert_int_equal(sft__format_layout(e, 3, &o, order, &bytes, &err), SFT_E_ARG);
    o.order = (sft_order)7;
    assert_int_equal(sft__format_layout(e, 3, &o, order, &bytes, &err), SFT_E_ARG);
}

static void room_and_alignment(void **state) {
    (void)state;
    static const size_t alignments[] = {8, 16, 64, 4096, 1 << 20};
    const sft_metadata_entry m[] = {{"k", 1, "v", 1}};
    sft_write_options o;
    sft__format_entry e[1];
    sft__base_buf b;
    sft_error err = {0};
    uint32_t order[1] = {0};

    e[0] = entry("x", SFT_U8, s4, 1);
    SFT_INIT(&o);
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        o.data_alignment = alignments[i];
        assert_header(e, 1, NULL, 0, &o, alignments[i],
                      "{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}");
    }
    o.data_alignment = 0;
    o.reserve_bytes = 3;
    assert_header(
        e, 1, NULL, 0, &o, 8,
        "{\"__metadata__\":{   },\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}");
    assert_header(NULL, 0, m, 1, &o, 8, "{\"__metadata__\":{\"k\":\"v\"   }}");
    sft__base_buf_init(&b, NULL);
    static const uint64_t wrong[] = {1, 4, 12, 24, (1 << 20) + 1, 1 << 21, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        o.data_alignment = wrong[i];
        assert_int_equal(build(&b, (sft__format_contents){e, order, 1, NULL, 0}, &o, &err),
                         SFT_E_ARG);
    }
    o.data_alignment = 8;
    o.reserve_bytes = UINT64_MAX;
    assert_int_equal(build(&b, (sft__format_contents){e, order, 1, NULL, 0}, &o, &err),
                     SFT_E_HEADER_TOO_LARGE);
    assert_int_equal(b.len, 0);
    assert_int_equal(sft__format_metadata_build(&b, m, 1, UINT64_MAX, &err), SFT_E_LIMIT);
    sft__base_buf_reset(&b);
}

static void faults_name_the_tensor(void **state) {
    (void)state;
    static const uint64_t wrap[] = {UINT64_C(1) << 32, UINT64_C(1) << 32, 0};
    static const uint64_t big[] = {UINT64_C(1) << 61};
    static const uint64_t s3[] = {3};
    static const sft_dtype foreign = {1000, SFT_KIND_OPAQUE, 32, 18, 1, 0, "Q4_0"};
    sft_limits limits;
    sft_write_options o;
    sft__format_entry e[2];
    uint32_t order[2];
    uint64_t bytes;
    sft_error err;

    SFT_INIT(&limits);
    SFT_INIT(&o);
    o.limits = &limits;
#define ASSERT_FAULT(first, wanted)                                                                \
    do {                                                                                           \
        e[0] = entry("fine", SFT_U8, s4, 1);                                                       \
        e[1] = first;                                                                              \
        memset(&err, 0, sizeof err);                                                               \
        assert_int_equal(sft__format_layout(e, 2, &o, order, &bytes, &err), wanted);               \
        assert_int_equal(err.status, wanted);                                                      \
        assert_int_equal(bytes, 0);                                                                \
        assert_int_equal(sft__format_layout(e, 2, &o, order, &bytes, NULL), wanted);               \
    } while (0)
    ASSERT_FAULT(entry("__metadata__", SFT_U8, s4, 1), SFT_E_ARG);
    assert_string_equal(err.tensor, "__metadata__");
    ASSERT_FAULT(entry("a\xff", SFT_U8, s4, 1), SFT_E_ARG);
    assert_string_equal(err.tensor, "a\\xff");
    ASSERT_FAULT(entry("fine", SFT_F64, s4, 1), SFT_E_DUPLICATE);
    ASSERT_FAULT(entry("w", SFT_U8, wrap, 3), SFT_E_OVERFLOW);
    ASSERT_FAULT(entry("w", SFT_U8, big, 1), SFT_E_OVERFLOW);
    ASSERT_FAULT(entry("w", SFT_F4, s3, 1), SFT_E_SUBBYTE);
    assert_string_equal(err.tensor, "w");
    ASSERT_FAULT(entry("w", SFT_U8, NULL, 1), SFT_E_ARG);
    ASSERT_FAULT(entry("w", (sft_dtype_id)0, s4, 1), SFT_E_ARG);
    limits.rank = 1;
    ASSERT_FAULT(entry("w", SFT_U8, s23, 2), SFT_E_LIMIT);
    limits.rank = 0;
    limits.name_bytes = 4;
    ASSERT_FAULT(entry("wwwww", SFT_U8, s4, 1), SFT_E_LIMIT);
    limits.name_bytes = 0;
    limits.tensors = 1;
    ASSERT_FAULT(entry("w", SFT_U8, s4, 1), SFT_E_LIMIT);
    limits.tensors = 0;
    e[1] = entry("w", SFT_U8, s4, 1);
    e[1].dtype = &foreign;
    assert_int_equal(sft__format_layout(e, 2, &o, order, &bytes, &err), SFT_E_UNSUPPORTED);
    e[1] = entry("w", SFT_U8, s4, 1);
    e[1].name = NULL;
    assert_int_equal(sft__format_layout(e, 2, &o, order, &bytes, &err), SFT_E_ARG);

    /* nine tensors of 2^61 - 1 bytes are beyond 2^64 */
    static const uint64_t most[] = {(UINT64_C(1) << 61) - 1};
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
    sft__format_entry nine[9];
    uint32_t nine_order[9];
    for (size_t i = 0; i < 9; i++) {
        nine[i] = entry(names[i], SFT_U8, most, 1);
    }
    assert_int_equal(sft__format_layout(nine, 8, NULL, nine_order, &bytes, &err), SFT_OK);
    assert_int_equal(sft__format_layout(nine, 9, NULL, nine_order, &bytes, &err), SFT_E_OVERFLOW);
    assert_string_equal(err.tensor, "8");
}

static void metadata_is_checked(void **state) {
    (void)state;
    const sft_metadata_entry twice[] = {{"b", 1, "1", 1}, {"a", 1, "2", 1}, {"b", 1, "1", 1}};
    const sft_metadata_entry bad_key[] = {{"\xff", 1, "1", 1}};
    const sft_metadata_entry bad_value[] = {{"a", 1, "\xed\xa0\x80", 3}};
    const sft_metadata_entry no_string[] = {{"a", 1, NULL, 3}};
    const sft_metadata_entry empty[] = {{NULL, 0, NULL, 0}};
    sft_limits limits;
    sft_write_options o;
    sft_error err = {0};
    sft__base_buf b;

    sft__base_buf_init(&b, NULL);
    assert_int_equal(sft__format_metadata_build(&b, twice, 3, 0, &err), SFT_E_DUPLICATE);
    assert_int_equal(sft__format_metadata_build(&b, bad_key, 1, 0, &err), SFT_E_ARG);
    assert_int_equal(sft__format_metadata_build(&b, bad_value, 1, 0, &err), SFT_E_ARG);
    assert_int_equal(sft__format_metadata_build(&b, no_string, 1, 0, &err), SFT_E_ARG);
    b.len = 0;
    assert_int_equal(sft__format_metadata_build(&b, empty, 1, 2, &err), SFT_OK);
    assert_int_equal(b.len, 9);
    assert_memory_equal(b.data, "{\"\":\"\"  }", 9);
    b.len = 0;
    assert_int_equal(build(&b, (sft__format_contents){NULL, NULL, 0, twice, 3}, NULL, &err),
                     SFT_E_DUPLICATE);
    SFT_INIT(&limits);
    SFT_INIT(&o);
    o.limits = &limits;
    limits.header_bytes = 23;
    b.len = 0;
    assert_int_equal(build(&b, (sft__format_contents){NULL, NULL, 0, twice, 0}, &o, &err),
                     SFT_E_HEADER_TOO_LARGE);
    limits.header_bytes = 24;
    b.len = 0;
    assert_int_equal(build(&b, (sft__format_contents){NULL, NULL, 0, twice, 0}, &o, &err), SFT_OK);
    assert_int_equal(b.len, 32);
    sft__base_buf_reset(&b);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    const sft_metadata_entry m[] = {{"k", 1, "v", 1}, {"a", 1, "v", 1}};
    sft_status status = SFT_E_NOMEM;
    sft_write_options o;
    counting c;

    counting_init(&c);
    SFT_INIT(&o);
    o.allocator = &c.allocator;
    o.data_alignment = 4096;
    for (size_t k = 1; status != SFT_OK; k++) {
        sft__format_entry e[2];
        uint32_t order[2];
        uint64_t bytes;
        sft_error err = {0};
        sft__base_buf b;
        e[0] = entry("x", SFT_U8, s4, 1);
        e[1] = entry("y", SFT_F32, s4, 1);
        sft__base_buf_init(&b, &c.allocator);
        c.calls = 0;
        c.fail_from = k;
        status = sft__format_layout(e, 2, &o, order, &bytes, &err);
        if (status == SFT_OK) {
            status = build(&b, (sft__format_contents){e, order, 2, m, 2}, &o, &err);
        }
        assert_true(status == SFT_OK || status == SFT_E_NOMEM);
        assert_int_equal(err.status, status);
        sft__base_buf_reset(&b);
        assert_all_given_back(&c);
        assert_true(k < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped_as_serde_json_does),
        cmocka_unit_test(headers_are_the_references),
        cmocka_unit_test(the_order_is_dtype_then_name),
        cmocka_unit_test(other_orders),
        cmocka_unit_test(room_and_alignment),
        cmocka_unit_test(faults_name_the_tensor),
        cmocka_unit_test(metadata_is_checked),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
