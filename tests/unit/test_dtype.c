/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of format/dtype.c: the table, the lookup by name, sizes.
 */
#include "unit/cm.h"

#include <sft/dtype.h>

static void every_row_is_found_by_id_and_by_name(void **state) {
    (void)state;
    for (uint32_t id = 1; id <= SFT_DTYPE_COUNT; id++) {
        const sft_dtype *row = sft_dtype_get(id);
        assert_non_null(row);
        assert_int_equal(row->id, id);
        assert_ptr_equal(sft_dtype_find(row->name, strlen(row->name)), row);
        for (size_t cut = 0; cut < strlen(row->name); cut++) {
            const sft_dtype *other = sft_dtype_find(row->name, cut);
            assert_true(other == NULL || strlen(other->name) == cut);
        }
    }
    assert_null(sft_dtype_get(0));
    assert_null(sft_dtype_get(SFT_DTYPE_COUNT + 1));
    assert_null(sft_dtype_get(1000));
}

static void other_names_are_not_found(void **state) {
    (void)state;
    static const char *const names[] = {
        "",     "F",         "f32",          "F33",         "F32 ", "BF16X",  "I4", "F8",
        "C128", "F8_E4M3FN", "F8_E4M3FNUZZ", "F8_E5M2FNUY", "\xff", "F4\0\0", "U",  "F8_E4M3FNUZF"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_null(sft_dtype_find(names[i], strlen(names[i]) + (i == 13 ? 2 : 0)));
    }
    assert_null(sft_dtype_find(NULL, 3));
    assert_null(sft_dtype_find("F4\0", 3));
}

/* Every name of one or two bytes and every one-byte change of a real name. */
static void near_misses_are_not_found(void **state) {
    (void)state;
    for (uint32_t id = 1; id <= SFT_DTYPE_COUNT; id++) {
        const sft_dtype *row = sft_dtype_get(id);
        char name[16] = {0};
        const size_t len = strlen(row->name);
        for (size_t at = 0; at < len; at++) {
            for (unsigned c = 0; c < 256; c++) {
                memcpy(name, row->name, len);
                name[at] = (char)c;
                const sft_dtype *found = sft_dtype_find(name, len);
                if (found != NULL) {
                    assert_int_equal(strlen(found->name), len);
                    assert_memory_equal(found->name, name, len);
                }
            }
        }
    }
}

static void bits_are_the_formats(void **state) {
    (void)state;
    static const uint32_t bits[SFT_DTYPE_COUNT] = {8,  4,  6,  6,  8,  8,  8,  8,  8,  8,  8,
                                                   16, 16, 16, 16, 32, 32, 32, 64, 64, 64, 64};
    for (uint32_t id = 1; id <= SFT_DTYPE_COUNT; id++) {
        assert_int_equal(sft_dtype_bits(sft_dtype_get(id)), bits[id - 1]);
    }
    const sft_dtype odd = {1000, SFT_KIND_OPAQUE, 5, 1, 1, 0, "odd"};
    assert_int_equal(sft_dtype_bits(&odd), 0);
}

static void bytes_are_checked(void **state) {
    (void)state;
    const sft_dtype blocks = {1001, SFT_KIND_OPAQUE, 5, 3, 1, 0, "blocks"};
    const struct {
        const sft_dtype *dtype;
        uint64_t elements;
        sft_status status;
        uint64_t bytes;
    } cases[] = {
        {sft_dtype_get(SFT_F32), 3, SFT_OK, 12},
        {sft_dtype_get(SFT_F32), 0, SFT_OK, 0},
        {sft_dtype_get(SFT_U8), UINT64_MAX / 8, SFT_OK, UINT64_MAX / 8},
        {sft_dtype_get(SFT_U8), UINT64_MAX / 8 + 1, SFT_E_OVERFLOW, 0},
        {sft_dtype_get(SFT_F64), UINT64_C(1) << 58, SFT_E_OVERFLOW, 0},
        {sft_dtype_get(SFT_F4), 3, SFT_E_SUBBYTE, 0},
        {sft_dtype_get(SFT_F4), 4, SFT_OK, 2},
        {sft_dtype_get(SFT_F6_E2M3), 4, SFT_OK, 3},
        {sft_dtype_get(SFT_F6_E3M2), 6, SFT_E_SUBBYTE, 0},
        {&blocks, 10, SFT_OK, 6},
        {&blocks, 11, SFT_E_SUBBYTE, 0},
        {&blocks, UINT64_MAX - UINT64_MAX % 5, SFT_OK, (UINT64_MAX / 5) * 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 0;
        sft_error err = {0};
        const sft_status status = sft_dtype_bytes(cases[i].dtype, cases[i].elements, &bytes, &err);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(err.status, cases[i].status);
        assert_int_equal(bytes, cases[i].bytes);
    }
    const sft_dtype wide = {1002, SFT_KIND_OPAQUE, 3, 16, 1, 0, "wide"};
    uint64_t bytes;
    assert_int_equal(sft_dtype_bytes(&wide, UINT64_MAX, &bytes, NULL), SFT_E_OVERFLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found_by_id_and_by_name),
        cmocka_unit_test(other_names_are_not_found),
        cmocka_unit_test(near_misses_are_not_found),
        cmocka_unit_test(bits_are_the_formats),
        cmocka_unit_test(bytes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
