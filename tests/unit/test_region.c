/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of format/region.c: the text of slices and what they mean.
 */
#include "unit/cm.h"

#include <sft/region.h>

static sft_status parse(const char *text, sft_slice *slices, size_t capacity, size_t *count,
                        sft_error *err) {
    return sft_slice_parse(text, strlen(text), slices, capacity, count, err);
}

static void ranges_mean_what_python_means(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t size;
        uint64_t count;
        uint64_t first;
    } rows[] = {
#include "unit/slice_table.h"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft_slice slice;
        sft_dim dim;
        size_t count;
        assert_int_equal(parse(rows[i].text, &slice, 1, &count, NULL), SFT_OK);
        assert_int_equal(count, 1);
        assert_int_equal(sft_slice_resolve(&slice, 1, &rows[i].size, 1, &dim, NULL), SFT_OK);
        if (dim.count != rows[i].count || dim.start != rows[i].first) {
            fail_msg("%s of %llu: %llu from %llu", rows[i].text, (unsigned long long)rows[i].size,
                     (unsigned long long)dim.count, (unsigned long long)dim.start);
        }
        assert_int_equal(dim.step, slice.step);
        assert_int_equal(dim.dropped, 0);
    }
}

static void items_are_read(void **state) {
    (void)state;
    sft_slice s[8];
    size_t n;
    assert_int_equal(parse(" 0:2 , ::-1,3, ... ,-4:+5:2 ,", s, 8, &n, NULL), SFT_OK);
    assert_int_equal(n, 5);
    assert_int_equal(s[0].start, 0);
    assert_int_equal(s[0].stop, 2);
    assert_int_equal(s[0].step, 1);
    assert_int_equal(s[1].start, SFT_OMIT);
    assert_int_equal(s[1].stop, SFT_OMIT);
    assert_int_equal(s[1].step, -1);
    assert_int_equal(s[2].kind, SFT_SLICE_INDEX);
    assert_int_equal(s[2].start, 3);
    assert_int_equal(s[3].kind, SFT_SLICE_ELLIPSIS);
    assert_int_equal(s[4].start, -4);
    assert_int_equal(s[4].stop, 5);
    assert_int_equal(s[4].step, 2);
    assert_int_equal(parse("", s, 0, &n, NULL), SFT_OK);
    assert_int_equal(n, 0);
    assert_int_equal(parse(" \t", s, 0, &n, NULL), SFT_OK);
    assert_int_equal(n, 0);
    assert_int_equal(parse("99999999999999999999:-99999999999999999999", s, 1, &n, NULL), SFT_OK);
    assert_int_equal(s[0].start, INT64_MAX);
    assert_int_equal(s[0].stop, -INT64_MAX);
    assert_int_equal(parse("9223372036854775807:9223372036854775808", s, 1, &n, NULL), SFT_OK);
    assert_int_equal(s[0].start, INT64_MAX);
    assert_int_equal(s[0].stop, INT64_MAX);
}

static void wrong_text_is_refused_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t offset;
    } rows[] = {
        {",", 0},   {"1,,2", 2},     {"a", 0},    {"1 2", 2},     {"1:2:3:4", 5},   {"-", 1},
        {"1:-", 3}, {"::0", 2},      {"::+0", 2}, {"..", 0},      {"....", 3},      {"...1", 3},
        {"1.5", 1}, {"0x1", 1},      {"1:\n", 2}, {"(1)", 0},     {"1,2,3,4,5", 8}, {"1:: -", 5},
        {"--1", 1}, {"\xc3\xa9", 0}, {"]", 0},    {"::, ::0", 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft_slice s[4];
        size_t n = 7;
        sft_error err = {0};
        if (parse(rows[i].text, s, 4, &n, &err) != SFT_E_ARG || err.offset != rows[i].offset) {
            fail_msg("\"%s\": status %d at %llu: %s", rows[i].text, err.status,
                     (unsigned long long)err.offset, err.message);
        }
        assert_int_equal(n, 0);
    }
    /* the length rules, not a NUL */
    sft_slice s;
    size_t n;
    assert_int_equal(sft_slice_parse("1\0", 2, &s, 1, &n, NULL), SFT_E_ARG);
    assert_int_equal(sft_slice_parse("12", 1, &s, 1, &n, NULL), SFT_OK);
    assert_int_equal(s.start, 1);
}

static void shapes_are_filled_up(void **state) {
    (void)state;
    const uint64_t shape[4] = {4, 5, 6, 7};
    sft_slice s[4];
    sft_dim d[4];
    size_t n;

    assert_int_equal(sft_slice_resolve(NULL, 0, shape, 4, d, NULL), SFT_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(d[i].start, 0);
        assert_int_equal(d[i].count, shape[i]);
        assert_int_equal(d[i].step, 1);
        assert_int_equal(d[i].dropped, 0);
    }
    assert_int_equal(parse("-1,...,1:3", s, 4, &n, NULL), SFT_OK);
    assert_int_equal(sft_slice_resolve(s, n, shape, 4, d, NULL), SFT_OK);
    assert_int_equal(d[0].start, 3);
    assert_int_equal(d[0].count, 1);
    assert_int_equal(d[0].dropped, 1);
    assert_int_equal(d[1].count, 5);
    assert_int_equal(d[2].count, 6);
    assert_int_equal(d[3].start, 1);
    assert_int_equal(d[3].count, 2);
    assert_int_equal(parse("...,0,0,0,0", s, 4, &n, NULL), SFT_E_ARG);
    assert_int_equal(parse("...,0,0", s, 4, &n, NULL), SFT_OK);
    assert_int_equal(sft_slice_resolve(s, n, shape, 2, d, NULL),
                     SFT_OK); /* the ellipsis is empty */
    assert_int_equal(sft_slice_resolve(s, n, shape, 1, d, NULL), SFT_E_ARG);
    assert_int_equal(parse("...", s, 4, &n, NULL), SFT_OK);
    assert_int_equal(sft_slice_resolve(s, n, shape, 0, d, NULL), SFT_OK);
    assert_int_equal(parse("0", s, 4, &n, NULL), SFT_OK);
    assert_int_equal(sft_slice_resolve(s, n, shape, 0, d, NULL), SFT_E_ARG);
    assert_int_equal(parse("...,...", s, 4, &n, NULL), SFT_OK);
    assert_int_equal(sft_slice_resolve(s, n, shape, 4, d, NULL), SFT_E_ARG);
}

static void indexes_must_be_inside(void **state) {
    (void)state;
    static const struct {
        int64_t index;
        uint64_t size;
        sft_status status;
        uint64_t start;
    } rows[] = {
        {0, 1, SFT_OK, 0},
        {4, 5, SFT_OK, 4},
        {5, 5, SFT_E_RANGE, 0},
        {-1, 5, SFT_OK, 4},
        {-5, 5, SFT_OK, 0},
        {-6, 5, SFT_E_RANGE, 0},
        {0, 0, SFT_E_RANGE, 0},
        {-1, 0, SFT_E_RANGE, 0},
        {INT64_MAX, 5, SFT_E_RANGE, 0},
        {-INT64_MAX, 5, SFT_E_RANGE, 0},
        {SFT_OMIT, 5, SFT_E_ARG, 0},
        {INT64_MAX, UINT64_MAX, SFT_OK, INT64_MAX},
        {-1, UINT64_MAX, SFT_OK, UINT64_MAX - 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sft_slice s = {rows[i].index, SFT_OMIT, 1, SFT_SLICE_INDEX, 0};
        sft_dim d;
        assert_int_equal(sft_slice_resolve(&s, 1, &rows[i].size, 1, &d, NULL), rows[i].status);
        if (rows[i].status == SFT_OK) {
            assert_int_equal(d.start, rows[i].start);
            assert_int_equal(d.count, 1);
            assert_int_equal(d.step, 1);
            assert_int_equal(d.dropped, 1);
        }
    }
}

static void structs_made_by_hand_are_checked(void **state) {
    (void)state;
    const uint64_t size = 5;
    const uint64_t huge = UINT64_MAX;
    sft_error err = {0};
    sft_dim d;
    const sft_slice zero = {0, 1, 0, SFT_SLICE_RANGE, 0};
    const sft_slice kind = {0, 1, 1, 9, 0};
    const sft_slice back = {SFT_OMIT, SFT_OMIT, INT64_MIN, SFT_SLICE_RANGE, 0};
    const sft_slice all = {SFT_OMIT, SFT_OMIT, -1, SFT_SLICE_RANGE, 0};

    assert_int_equal(sft_slice_resolve(&zero, 1, &size, 1, &d, &err), SFT_E_ARG);
    assert_int_equal(sft_slice_resolve(&kind, 1, &size, 1, &d, &err), SFT_E_ARG);
    assert_int_equal(sft_slice_resolve(&back, 1, &size, 1, &d, &err), SFT_OK);
    assert_int_equal(d.start, 4);
    assert_int_equal(d.count, 1);
    assert_int_equal(sft_slice_resolve(&back, 1, &huge, 1, &d, &err), SFT_OK);
    assert_int_equal(d.start, UINT64_MAX - 1);
    assert_int_equal(d.count, 2);
    assert_int_equal(sft_slice_resolve(&all, 1, &huge, 1, &d, &err), SFT_OK);
    assert_int_equal(d.count, UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_mean_what_python_means),
        cmocka_unit_test(items_are_read),
        cmocka_unit_test(wrong_text_is_refused_with_its_place),
        cmocka_unit_test(shapes_are_filled_up),
        cmocka_unit_test(indexes_must_be_inside),
        cmocka_unit_test(structs_made_by_hand_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
