/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of format/header.h: what a parsed header holds. Verdicts have their own cases in
 * tests/conformance.
 */
#include "unit/counting.h"

#include "base/error.h"
#include "base/text/buf.h"
#include "format/header.h"
#include "format/unique.h"

/* Parses `text` as the header of a file with data_bytes bytes of data. */
static sft_status parse(sft__format_header *h, const char *text, size_t len, uint64_t data_bytes,
                        const sft_open_options *options, bool canonical, sft_error *err) {
    char *copy =
        sft__base_alloc(options != NULL ? options->allocator : NULL, len + SFT__HEADER_SLACK);
    assert_non_null(copy);
    memcpy(copy, text, len);
    memset(copy + len, 'x', SFT__HEADER_SLACK);
    return sft__format_header_parse_as(h, (sft__format_text){copy, len, 8 + len + data_bytes},
                                       options, canonical, err);
}

static void length_is_checked_in_the_references_order(void **state) {
    (void)state;
    const uint8_t small[8] = {2, 0, 0, 0, 0, 0, 0, 0};
    uint8_t big[8] = {0, 0xe1, 0xf5, 0x05, 0, 0, 0, 0}; /* 100,000,000 */
    uint64_t n = 1;
    sft_error err = {0};
    sft_limits limits;

    assert_int_equal(sft__format_header_length(small, 7, 7, NULL, &n, &err), SFT_E_TOO_SMALL);
    assert_int_equal(err.offset, 7);
    assert_int_equal(n, 0);
    assert_int_equal(sft__format_header_length(small, 8, 10, NULL, &n, &err), SFT_OK);
    assert_int_equal(n, 2);
    assert_int_equal(sft__format_header_length(small, 8, 9, NULL, &n, &err), SFT_E_HEADER_PAST_END);
    assert_int_equal(sft__format_header_length(big, 8, 100000008, NULL, &n, &err), SFT_OK);
    assert_int_equal(n, 100000000);
    big[0] = 1;
    assert_int_equal(sft__format_header_length(big, 8, 9, NULL, &n, &err), SFT_E_HEADER_TOO_LARGE);
    SFT_INIT(&limits);
    limits.header_bytes = 200000000;
    assert_int_equal(sft__format_header_length(big, 8, 100000009, &limits, &n, &err), SFT_OK);
    limits.header_bytes = UINT64_MAX;
    memset(big, 0xff, sizeof big);
    assert_int_equal(sft__format_header_length(big, 8, UINT64_MAX, &limits, &n, &err),
                     SFT_E_HEADER_TOO_LARGE);
}

static const char two[] = "{\"__metadata__\":{\"format\":\"pt\",\"a\\tb\":\"\\u00e9\"},"
                          "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                          "\"b\\n\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[24,26]}}   ";

static void facts_of_a_header(void **state) {
    (void)state;
    for (int canonical = 0; canonical < 2; canonical++) {
        sft__format_header h;
        sft_error err = {0};
        const size_t len = sizeof two - 1;
        assert_int_equal(parse(&h, two, len, 26, NULL, canonical, &err), SFT_OK);
        assert_int_equal(h.tensor_count, 2);
        assert_string_equal(h.tensors[0].name, "w");
        assert_int_equal(h.tensors[0].dtype->id, SFT_F32);
        assert_int_equal(h.tensors[0].rank, 2);
        assert_int_equal(h.tensors[0].shape[0], 2);
        assert_int_equal(h.tensors[0].shape[1], 3);
        assert_int_equal(h.tensors[0].nbytes, 24);
        assert_int_equal(h.tensors[0].piece_count, 1);
        assert_int_equal(h.tensors[0].pieces[0].offset, 8 + len);
        assert_int_equal(h.tensors[0].pieces[0].nbytes, 24);
        assert_int_equal(h.tensors[0].flags, 0);
        assert_string_equal(h.tensors[1].name, "b\n");
        assert_int_equal(h.tensors[1].pieces[0].offset, 8 + len + 24);
        assert_int_equal(sft__base_strmap_find(&h.names, "b\n", 2), 1);
        assert_int_equal(sft__base_strmap_find(&h.names, "c", 1), SFT__STRMAP_NONE);
        assert_true(h.has_metadata);
        assert_int_equal(h.metadata_count, 2);
        assert_string_equal(h.metadata[0].key, "format");
        assert_string_equal(h.metadata[0].value, "pt");
        assert_string_equal(h.metadata[1].key, "a\tb");
        assert_string_equal(h.metadata[1].value, "\xc3\xa9");
        assert_int_equal(h.metadata_begin, 8 + 16);
        assert_int_equal(two[h.metadata_end - 8 - 1], '}');
        assert_int_equal(two[h.metadata_end - 8], ',');
        sft__format_header_reset(&h);
        assert_null(h.text);
    }
}

/* Both forms must agree; gives the status, and the header if it is wanted. */
static sft_status parse_both(sft__format_header *h, const char *text, size_t len,
                             uint64_t data_bytes, const sft_open_options *options, sft_error *err) {
    sft__format_header other;
    sft_error other_err = {0};
    memset(err, 0, sizeof *err);
    const sft_status status = parse(h, text, len, data_bytes, options, true, err);
    assert_int_equal(parse(&other, text, len, data_bytes, options, false, &other_err), status);
    assert_memory_equal(err, &other_err, sizeof other_err);
    assert_int_equal(h->tensor_count, other.tensor_count);
    for (size_t i = 0; i < h->tensor_count; i++) {
        const sft_tensor *a = &h->tensors[i];
        const sft_tensor *b = &other.tensors[i];
        assert_int_equal(a->name_len, b->name_len);
        assert_memory_equal(a->name, b->name, a->name_len + 1);
        assert_ptr_equal(a->dtype, b->dtype);
        assert_int_equal(a->rank, b->rank);
        assert_non_null(a->shape);
        if (a->rank != 0) {
            assert_memory_equal(a->shape, b->shape, a->rank * sizeof *a->shape);
        }
        assert_int_equal(a->pieces->offset, b->pieces->offset);
        assert_int_equal(a->nbytes, b->nbytes);
    }
    sft__format_header_reset(&other);
    return status;
}

static sft_status verdict(const char *text, uint64_t data_bytes, const sft_open_options *options,
                          sft_error *err) {
    sft__format_header h;
    const sft_status status = parse_both(&h, text, strlen(text), data_bytes, options, err);
    sft__format_header_reset(&h);
    return status;
}

static void a_header_without_tensors(void **state) {
    (void)state;
    sft__format_header h;
    sft_error err;
    assert_int_equal(parse_both(&h, "{}", 2, 0, NULL, &err), SFT_OK);
    assert_int_equal(h.tensor_count, 0);
    assert_false(h.has_metadata);
    assert_int_equal(h.metadata_begin, 0);
    assert_int_equal(sft__base_strmap_find(&h.names, "", 0), SFT__STRMAP_NONE);
    sft__format_header_reset(&h);
    assert_int_equal(parse_both(&h, "{\"__metadata__\":{}}", 19, 0, NULL, &err), SFT_OK);
    assert_true(h.has_metadata);
    assert_int_equal(h.metadata_count, 0);
    assert_int_equal(h.metadata_begin, 8 + 16);
    assert_int_equal(h.metadata_end, 8 + 18);
    sft__format_header_reset(&h);
    assert_int_equal(parse_both(&h, "{\"__metadata__\":null}", 21, 0, NULL, &err), SFT_OK);
    assert_false(h.has_metadata);
    assert_int_equal(h.metadata_begin, 0);
    assert_int_equal(h.metadata_end, 0);
    sft__format_header_reset(&h);
    sft__format_header_reset(&h); /* twice is fine */
}

/* A header of n tensors of one byte, in the order of their data or not. */
static void many(sft__base_buf *b, size_t n, size_t step, const char *shape) {
    sft__base_buf_text(b, "{");
    for (size_t i = 0; i < n; i++) {
        const uint64_t at = (uint64_t)i * step % n;
        sft__base_buf_text(b, i != 0 ? ",\"layer." : "\"layer.");
        sft__base_buf_u64(b, at);
        sft__base_buf_text(b, "\":{\"dtype\":\"U8\",\"shape\":[");
        sft__base_buf_text(b, shape);
        sft__base_buf_text(b, "],\"data_offsets\":[");
        sft__base_buf_u64(b, at);
        sft__base_buf_text(b, ",");
        sft__base_buf_u64(b, at + 1);
        sft__base_buf_text(b, "]}");
    }
    sft__base_buf_text(b, "}");
}

static void entries_are_sorted_by_offset(void **state) {
    (void)state;
    static const size_t counts[] = {1, 2, 3, 5, 17, 100, 5003};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const size_t n = counts[k];
        for (size_t step = 1; step < n && step < 4000; step = step * 3 + 1) {
            sft__format_header h;
            sft_error err;
            sft__base_buf b;
            if (step != 1 && n % step == 0) {
                continue; /* would not reach every tensor */
            }
            sft__base_buf_init(&b, NULL);
            many(&b, n, step, step % 2 == 0 ? "1,1" : "");
            const sft_status status = parse_both(&h, b.data, b.len, n, NULL, &err);
            if (status != SFT_OK) {
                assert_int_equal(status, SFT_E_DUPLICATE); /* step and n share a factor */
            }
            assert_int_equal(h.tensor_count, status == SFT_OK ? n : 0);
            for (size_t i = 0; i < h.tensor_count; i++) {
                char name[40];
                (void)snprintf(name, sizeof name, "layer.%llu", (unsigned long long)i);
                assert_string_equal(h.tensors[i].name, name);
                assert_int_equal(h.tensors[i].pieces[0].offset, 8 + b.len + i);
                assert_ptr_equal(h.tensors[i].pieces, &h.tensors[0].pieces[i]);
                assert_int_equal(sft__base_strmap_find(&h.names, name, strlen(name)), i);
            }
            sft__format_header_reset(&h);
            sft__base_buf_reset(&b);
        }
    }
}

/* Empty tensors come before the one that begins where they lie, in the order of the header. */
static void empty_tensors_keep_their_order(void **state) {
    (void)state;
    static const char text[] = "{\"full\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                               "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
                               "\"c\":{\"dtype\":\"I64\",\"shape\":[0,9],\"data_offsets\":[0,0]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                               "\"a\":{\"dtype\":\"F4\",\"shape\":[3,0],\"data_offsets\":[4,4]}}";
    static const char *const order[] = {"c", "b", "full", "z", "a"};
    sft__format_header h;
    sft_error err;
    assert_int_equal(parse_both(&h, text, sizeof text - 1, 4, NULL, &err), SFT_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(h.tensors[i].name, order[i]);
    }
    sft__format_header_reset(&h);
}

static void long_shapes(void **state) {
    (void)state;
    static const size_t ranks[] = {7, 8, 9, 15, 16, 17, 18, 255, 256, 257, 1024, 1025, 70000};
    for (size_t k = 0; k < sizeof ranks / sizeof ranks[0]; k++) {
        sft_limits limits;
        sft_open_options options;
        sft__format_header h;
        sft_error err;
        sft__base_buf b;
        SFT_INIT(&limits);
        SFT_INIT(&options);
        options.limits = &limits;
        sft__base_buf_init(&b, NULL);
        sft__base_buf_text(&b, "{\"w\":{\"dtype\":\"U8\",\"shape\":[");
        for (size_t i = 0; i < ranks[k]; i++) {
            sft__base_buf_text(&b, i != 0 ? ",1" : "1");
        }
        const size_t second = b.len;
        sft__base_buf_text(&b, "],\"data_offsets\":[0,1]},"
                               "\"v\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[1,7]}}");
        const sft_status status = parse_both(&h, b.data, b.len, 7, &options, &err);
        if (ranks[k] > 1024) {
            assert_int_equal(status, SFT_E_LIMIT);
            assert_string_equal(err.tensor, "w");
            assert_int_equal(err.offset, 8 + second - 2 * (ranks[k] - 1025) - 1);
            limits.rank = 100000;
            assert_int_equal(parse_both(&h, b.data, b.len, 7, &options, &err), SFT_OK);
        } else {
            assert_int_equal(status, SFT_OK);
        }
        assert_int_equal(h.tensors[0].rank, ranks[k]);
        for (size_t i = 0; i < ranks[k]; i++) {
            assert_int_equal(h.tensors[0].shape[i], 1);
        }
        assert_int_equal(h.tensors[1].shape[1], 3);
        sft__format_header_reset(&h);
        sft__base_buf_reset(&b);
    }
}

static void limits_are_kept(void **state) {
    (void)state;
    static const char text[] = "{\"abc\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[0,1]},"
                               "\"d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    sft_limits limits;
    sft_open_options options;
    sft_error err;
    SFT_INIT(&limits);
    SFT_INIT(&options);
    options.limits = &limits;
    limits.tensors = 2;
    limits.rank = 2;
    limits.name_bytes = 3;
    assert_int_equal(verdict(text, 2, &options, &err), SFT_OK);
    limits.tensors = 1;
    assert_int_equal(verdict(text, 2, &options, &err), SFT_E_LIMIT);
    assert_string_equal(err.tensor, "d");
    assert_int_equal(err.offset, 8 + (strstr(text, "\"d\":") - text));
    limits.tensors = 0;
    limits.rank = 1;
    assert_int_equal(verdict(text, 2, &options, &err), SFT_E_LIMIT);
    assert_int_equal(err.offset, 8 + (strstr(text, "1],") - text));
    limits.rank = 0;
    limits.name_bytes = 2;
    assert_int_equal(verdict(text, 2, &options, &err), SFT_E_LIMIT);
    assert_int_equal(err.offset, 8 + 1);
    assert_string_equal(err.tensor, "abc");
}

/* Some ceiling separates failures from successes, for every kind of memory that a header takes. */
static void memory_limit(const char *text, size_t len, uint64_t data_bytes) {
    counting c;
    sft_limits limits;
    sft_open_options options;
    bool fits = false;
    SFT_INIT(&limits);
    SFT_INIT(&options);
    counting_init(&c);
    options.limits = &limits;
    options.allocator = &c.allocator;
    for (limits.memory_bytes = 1; !fits; limits.memory_bytes += limits.memory_bytes / 50 + 1) {
        sft__format_header h;
        sft_error err = {0};
        const sft_status status = parse(&h, text, len, data_bytes, &options, true, &err);
        assert_true(status == SFT_OK || status == SFT_E_LIMIT);
        assert_int_equal(err.status, status);
        fits = status == SFT_OK;
        if (fits) {
            assert_true(c.held <= limits.memory_bytes);
        }
        sft__format_header_reset(&h);
        assert_all_given_back(&c);
        assert_true(limits.memory_bytes < 1 << 24);
    }
}

/* Each allocation fails in turn: always SFT_E_NOMEM, never a leak. */
static void fail_each(const char *text, size_t len, uint64_t data_bytes) {
    counting c;
    sft_open_options options;
    sft_status status = SFT_E_NOMEM;
    SFT_INIT(&options);
    counting_init(&c);
    options.allocator = &c.allocator;
    for (size_t k = 2; status != SFT_OK; k++) { /* 1 is the text's own */
        sft__format_header h;
        sft_error err = {0};
        c.calls = 0;
        c.fail_from = k;
        status = parse(&h, text, len, data_bytes, &options, k % 2 == 0, &err);
        assert_true(status == SFT_OK || status == SFT_E_NOMEM);
        assert_int_equal(err.status, status);
        assert_true(status == SFT_OK || h.text == NULL);
        sft__format_header_reset(&h);
        assert_all_given_back(&c);
        assert_true(k < 1000);
    }
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    sft__base_buf b;

    sft__base_buf_init(&b, NULL);
    many(&b, 5000, 7, "1,1,1,1,1,1,1,1,1"); /* unsorted, general form, more room for shapes */
    fail_each(b.data, b.len, 5000);
    memory_limit(b.data, b.len, 5000);
    b.len = 0;
    sft__base_buf_text(&b, "{\"__metadata__\":{");
    for (size_t i = 0; i < 3000; i++) {
        sft__base_buf_text(&b, i != 0 ? ",\"\\n" : "\"\\n");
        sft__base_buf_u64(&b, i);
        sft__base_buf_text(&b, "\":\"\\t value\"");
    }
    sft__base_buf_text(&b,
                       "},\"\\u0041\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
    fail_each(b.data, b.len, 1);
    memory_limit(b.data, b.len, 1);
    sft__base_buf_reset(&b);
}

static void file_must_hold_the_header(void **state) {
    (void)state;
    sft__format_header h;
    sft_error err = {0};
    char *text = sft__base_alloc(NULL, 2 + SFT__HEADER_SLACK);
    memcpy(text, "{}", 2);
    assert_int_equal(sft__format_header_parse(&h, text, 2, 9, NULL, &err), SFT_E_HEADER_PAST_END);
    assert_null(h.text);
    text = sft__base_alloc(NULL, 2 + SFT__HEADER_SLACK);
    memcpy(text, "{}", 2);
    assert_int_equal(sft__format_header_parse(&h, text, 2, 7, NULL, NULL), SFT_E_HEADER_PAST_END);
}

static void strict_refuses_more(void **state) {
    (void)state;
    static const struct {
        const char *text;
        sft_status status;
        uint64_t offset;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}   ", SFT_OK, 0},
        {"{ \"a\" : {\"dtype\":\"U8\",\n\"shape\":[2],\"data_offsets\":[0,2]}}       ", SFT_OK, 0},
        {" {\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  ", SFT_E_SCHEMA, 8},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  ", SFT_E_SCHEMA, 8 + 55},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}} \n ", SFT_E_SCHEMA,
         8 + 54},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"x\":1,\"data_offsets\":[0,2]}}  ", SFT_E_SCHEMA,
         8 + 31},
        {"{\"\\u0000\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}      ",
         SFT_E_SCHEMA, 9},
        {"{\"\x7f\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}   ", SFT_E_SCHEMA, 9},
        {"{\"a\xe2\x80\xae\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         SFT_E_SCHEMA, 9},
        {"{\"\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  ", SFT_OK, 0},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}       ",
         SFT_E_OFFSETS, 8 + 98},
    };
    sft_open_options options;
    SFT_INIT(&options);
    options.flags = SFT_OPEN_STRICT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft_error err;
        assert_int_equal(verdict(rows[i].text, 2, NULL, &err), SFT_OK);
        const sft_status status = verdict(rows[i].text, 2, &options, &err);
        if (status != rows[i].status || (status != SFT_OK && err.offset != rows[i].offset)) {
            fail_msg("row %llu: %s at %llu: %s", (unsigned long long)i, sft_status_name(status),
                     (unsigned long long)err.offset, err.message);
        }
    }
}

/* ---------------------------------------------------------------- metadata keys */

/* n entries "k0".."kn", with entry `twice` a copy of entry `of` if twice < n. */
static size_t find_repeat(size_t n, size_t twice, size_t of) {
    sft_metadata_entry *entries = calloc(n, sizeof *entries);
    char(*keys)[24] = calloc(n, sizeof *keys);
    size_t index;
    for (size_t i = 0; i < n; i++) {
        const size_t k = i == twice ? of : i;
        entries[i].key_len =
            (size_t)snprintf(keys[i], sizeof keys[i], "k%llu", (unsigned long long)k);
        entries[i].key = keys[i];
    }
    const sft_status status = sft__format_unique_keys(entries, n, UINT64_MAX, NULL, &index);
    assert_int_equal(status, index == SIZE_MAX ? SFT_OK : SFT_E_DUPLICATE);
    if (n > 12) {
        size_t unused;
        assert_int_equal(sft__format_unique_keys(entries, n, n * 8 - 1, NULL, &unused),
                         SFT_E_LIMIT);
    }
    free(keys);
    free(entries);
    return index;
}

static void repeated_keys_are_found(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 12, 13, 100, 1000, 30000, 300000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const size_t n = counts[i];
        assert_int_equal(find_repeat(n, SIZE_MAX, 0), SIZE_MAX);
        if (n >= 2) {
            assert_int_equal(find_repeat(n, n - 1, 0), n - 1);
            assert_int_equal(find_repeat(n, 1, 0), 1);
            assert_int_equal(find_repeat(n, n / 2, n / 2 - 1), n / 2);
        }
    }
}

/* Runs of equal hashes with different keys cannot be made on purpose: they are written down here.
 */
static void runs_of_equal_hashes(void **state) {
    (void)state;
    static const sft_metadata_entry e[] = {{"a", 1, "", 0}, {"b", 1, "", 0}, {"a", 1, "", 0},
                                           {"c", 1, "", 0}, {"b", 1, "", 0}, {"a", 1, "", 0}};
    static const struct {
        uint32_t run[6];
        size_t n;
        size_t best;
        size_t found;
    } rows[] = {
        {{0}, 1, SIZE_MAX, SIZE_MAX},
        {{0, 1, 3}, 3, SIZE_MAX, SIZE_MAX},
        {{5, 2, 0}, 3, SIZE_MAX, 2},
        {{0, 5}, 2, SIZE_MAX, 5},
        {{5, 4, 3, 2, 1, 0}, 6, SIZE_MAX, 2},
        {{1, 5, 4}, 3, SIZE_MAX, 4},
        {{1, 5, 4}, 3, 3, 3},
        {{3, 0, 1}, 3, 7, 7},
        {{3, 4, 0, 1, 5}, 5, SIZE_MAX, 4},
        {{2, 5, 0}, 3, SIZE_MAX, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft__format_hashed run[6] = {{0, 0}};
        for (size_t k = 0; k < rows[i].n; k++) {
            run[k].index = rows[i].run[k];
        }
        assert_int_equal(sft__format_first_repeat(e, run, rows[i].n, rows[i].best), rows[i].found);
    }
}

/* Far more pairs than different keys could be: found before all of them are stored. */
static void many_equal_keys_end_early(void **state) {
    (void)state;
    counting c;
    sft_open_options options;
    sft__format_header h;
    sft_error err = {0};
    sft__base_buf b;
    const size_t n = 2000000;

    SFT_INIT(&options);
    counting_init(&c);
    options.allocator = &c.allocator;
    sft__base_buf_init(&b, NULL);
    sft__base_buf_text(&b, "{\"__metadata__\":{\"first\":\"\"");
    for (size_t i = 0; i < n; i++) {
        sft__base_buf_add(&b, ",\"\":\"\"", 6);
    }
    sft__base_buf_text(&b, "}}");
    assert_int_equal(parse(&h, b.data, b.len, 0, &options, true, &err), SFT_E_DUPLICATE);
    assert_int_equal(err.offset, 8 + 17 + 10 + 1 + 6);
    assert_all_given_back(&c);
    sft__base_buf_reset(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_is_checked_in_the_references_order),
        cmocka_unit_test(facts_of_a_header),
        cmocka_unit_test(a_header_without_tensors),
        cmocka_unit_test(entries_are_sorted_by_offset),
        cmocka_unit_test(empty_tensors_keep_their_order),
        cmocka_unit_test(long_shapes),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(file_must_hold_the_header),
        cmocka_unit_test(strict_refuses_more),
        cmocka_unit_test(repeated_keys_are_found),
        cmocka_unit_test(runs_of_equal_hashes),
        cmocka_unit_test(many_equal_keys_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
