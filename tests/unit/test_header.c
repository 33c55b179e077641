/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of format/header.h: what a parsed header holds. Verdicts have their own cases in
 * tests/conformance.
 */
#include "unit/cm.h"

#include "base/error.h"
#include "format/header.h"

/* Parses `text` as the header of a file with data_bytes bytes of data. */
static sft_status parse(sft__header *h, const char *text, size_t len, uint64_t data_bytes,
                        const sft_open_options *options, bool canonical, sft_error *err) {
    char *copy = sft__alloc(options != NULL ? options->allocator : NULL, len + SFT__HEADER_SLACK);
    assert_non_null(copy);
    memcpy(copy, text, len);
    memset(copy + len, 'x', SFT__HEADER_SLACK);
    return sft__header_parse_with(h, copy, len, 8 + len + data_bytes, options, canonical, err);
}

static void length_is_checked_in_the_references_order(void **state) {
    (void)state;
    const uint8_t small[8] = {2, 0, 0, 0, 0, 0, 0, 0};
    uint8_t big[8] = {0, 0xe1, 0xf5, 0x05, 0, 0, 0, 0}; /* 100,000,000 */
    uint64_t n = 1;
    sft_error err = {0};
    sft_limits limits;

    assert_int_equal(sft__header_length(small, 7, 7, NULL, &n, &err), SFT_E_TOO_SMALL);
    assert_int_equal(err.offset, 7);
    assert_int_equal(n, 0);
    assert_int_equal(sft__header_length(small, 8, 10, NULL, &n, &err), SFT_OK);
    assert_int_equal(n, 2);
    assert_int_equal(sft__header_length(small, 8, 9, NULL, &n, &err), SFT_E_HEADER_PAST_END);
    assert_int_equal(sft__header_length(big, 8, 100000008, NULL, &n, &err), SFT_OK);
    assert_int_equal(n, 100000000);
    big[0] = 1;
    assert_int_equal(sft__header_length(big, 8, 9, NULL, &n, &err), SFT_E_HEADER_TOO_LARGE);
    SFT_INIT(&limits);
    limits.header_bytes = 200000000;
    assert_int_equal(sft__header_length(big, 8, 100000009, &limits, &n, &err), SFT_OK);
    limits.header_bytes = UINT64_MAX;
    memset(big, 0xff, sizeof big);
    assert_int_equal(sft__header_length(big, 8, UINT64_MAX, &limits, &n, &err),
                     SFT_E_HEADER_TOO_LARGE);
}

static const char two[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"a\\tb\":\"\\u00e9\"},"
    "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\\n\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[24,26]}}   ";

static void facts_of_a_header(void **state) {
    (void)state;
    for (int canonical = 0; canonical < 2; canonical++) {
        sft__header h;
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
        assert_int_equal(h.tensors[0].reserved, 0);
        assert_string_equal(h.tensors[1].name, "b\n");
        assert_int_equal(h.tensors[1].pieces[0].offset, 8 + len + 24);
        assert_int_equal(sft__strmap_find(&h.names, "b\n", 2), 1);
        assert_int_equal(sft__strmap_find(&h.names, "c", 1), SFT__STRMAP_NONE);
        assert_true(h.has_metadata);
        assert_int_equal(h.metadata_count, 2);
        assert_string_equal(h.metadata[0].key, "format");
        assert_string_equal(h.metadata[0].value, "pt");
        assert_string_equal(h.metadata[1].key, "a\tb");
        assert_string_equal(h.metadata[1].value, "\xc3\xa9");
        assert_int_equal(h.metadata_begin, 8 + 16);
        assert_int_equal(two[h.metadata_end - 8 - 1], '}');
        assert_int_equal(two[h.metadata_end - 8], ',');
        sft__header_reset(&h);
        assert_null(h.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_is_checked_in_the_references_order),
        cmocka_unit_test(facts_of_a_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
