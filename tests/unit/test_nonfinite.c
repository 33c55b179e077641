/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/test_nonfinite.c - the search for NaN and infinities against sft_convert and isnan,
 * one element at a time: every code of 8 and 16 bits, every position, remainder and misalignment
 * around a block of the search.
 */
#include "unit/cm.h"

#include "move/load/load.h"
#include "unit/move_util.h"
#include <math.h>

enum { BLOCK = 4096, MOST = 2 * BLOCK + 64 };

static const uint32_t types[] = {SFT_F8_E5M2,     SFT_F8_E4M3, SFT_F8_E8M0, SFT_F8_E4M3FNUZ,
                                 SFT_F8_E5M2FNUZ, SFT_F16,     SFT_BF16,    SFT_F32,
                                 SFT_C64,         SFT_F64};
enum { TYPES = sizeof types / sizeof types[0] };

typedef struct counts {
    uint64_t nans;
    uint64_t infinities;
} counts;

/* The type of one number: C64 is two. */
static const sft_dtype *number_of(uint32_t type) {
    return sft_dtype_get(type == SFT_C64 ? SFT_F32 : type);
}

static counts one_by_one(uint32_t type, const uint8_t *data, size_t size) {
    const sft_dtype *t = number_of(type);
    counts c = {0, 0};
    for (size_t i = 0; i + t->block_bytes <= size; i += t->block_bytes) {
        double value;
        sft_error err;
        ok(sft_convert(&value, data + i, 1,
                       &(sft_cast){sft_dtype_get(SFT_F64), t, SFT_CONVERT_HOST_DST}, &err),
           &err);
        c.nans += isnan(value) ? 1 : 0;
        c.infinities += isinf(value) ? 1 : 0;
    }
    return c;
}

static counts searched(uint32_t type, const uint8_t *data, size_t size) {
    counts c = {0, 0};
    sft__move_nonfinite_count(sft_dtype_get(type), data, size, &c.nans, &c.infinities);
    return c;
}

static void same(uint32_t type, const uint8_t *data, size_t size) {
    const counts want = one_by_one(type, data, size);
    const counts got = searched(type, data, size);
    assert_int_equal(got.nans, want.nans);
    assert_int_equal(got.infinities, want.infinities);
}

/* A number's bytes, little-endian. */
static void put_number(uint8_t *p, uint64_t bits, size_t width) {
    for (size_t i = 0; i < width; i++) {
        p[i] = (uint8_t)(bits >> (8 * i));
    }
}

/* Codes right at, below and above what is looked for; the rest of the types' codes are in
 * every_small_code. */
static uint64_t edge(const sft_dtype *t, unsigned k) {
    static const uint64_t f8[] = {0xff, 0x80, 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0xfc, 0xfb, 0x00};
    static const uint64_t f16[] = {0x7c00, 0xfc00, 0x7c01, 0x7bff, 0xfbff,
                                   0x7f80, 0xff80, 0x7f81, 0x7f7f, 0xffff};
    static const uint64_t f32[] = {0x7f800000, 0xff800000, 0x7f800001, 0x7f7fffff, 0xff7fffff,
                                   0x7fc00000, 0xffffffff, 0x00000001, 0x80000000, 0x7fffffff};
    if (t->block_bytes == 1) {
        return f8[k];
    }
    if (t->block_bytes == 2) {
        return f16[k];
    }
    const uint64_t sign = f32[k] >> 31 << 63;
    const uint64_t wide = sign | (f32[k] & 0x7fffffff) << 29 | /* the exponent in F64's place */
                          ((f32[k] & 0x7f800000) == 0x7f800000 ? (uint64_t)0x7ff << 52 : 0);
    return t->block_bytes == 4 ? f32[k] : wide | (f32[k] & 1);
}

static void every_small_code(void **state) {
    uint8_t *data = malloc(65536 * 2);
    (void)state;
    assert_non_null(data);
    for (size_t k = 0; k < 7; k++) {
        const size_t width = number_of(types[k])->block_bytes;
        const size_t codes = (size_t)1 << (8 * width);
        for (size_t i = 0; i < codes; i++) {
            put_number(data + i * width, i, width);
        }
        same(types[k], data, codes * width);
        for (size_t i = 0; i < codes; i++) { /* alone in a block, which decides by itself */
            uint8_t block[BLOCK];
            memset(block, 0, sizeof block);
            put_number(block + (i * width) % BLOCK, i, width);
            if (i % (width == 1 ? 1 : 7) == 0 || (i & 0x7f) == 0 || (i & 0x7f) == 1) {
                same(types[k], block, sizeof block);
            }
        }
    }
    free(data);
}

static void every_position(void **state) {
    uint8_t *room = malloc(MOST + 8);
    (void)state;
    assert_non_null(room);
    for (size_t k = 0; k < TYPES; k++) {
        const sft_dtype *t = number_of(types[k]);
        const size_t width = t->block_bytes;
        for (size_t at = 0; at + width <= 2 * BLOCK; at += width) {
            uint8_t *data = room + at / width % 8;
            memset(data, 0, 2 * BLOCK);
            put_number(data + at, edge(t, (unsigned)(at / width % 10)), width);
            const counts want = one_by_one(types[k], data + at, width);
            const counts zero = one_by_one(types[k], data + (at == 0 ? width : 0), width);
            const counts got = searched(types[k], data, 2 * BLOCK);
            assert_int_equal(zero.nans + zero.infinities, 0);
            assert_int_equal(got.nans, want.nans);
            assert_int_equal(got.infinities, want.infinities);
        }
    }
    free(room);
}

static void every_remainder_and_misalignment(void **state) {
    uint8_t *room = malloc(MOST + 8);
    (void)state;
    assert_non_null(room);
    rnd_state = 31;
    for (size_t k = 0; k < TYPES; k++) {
        const sft_dtype *t = number_of(types[k]);
        const size_t width = t->block_bytes;
        for (size_t size = 0; size <= 80; size++) {
            for (size_t skew = 0; skew < 8; skew++) {
                const size_t whole = size % 3 * BLOCK + size;
                uint8_t *data = room + skew;
                if (whole > MOST) {
                    continue;
                }
                rnd_fill(data, whole);
                for (size_t i = 0; i + width <= whole && size % 2 == 0; i += width) {
                    if (rnd_below(16) == 0) {
                        put_number(data + i, edge(t, (unsigned)rnd_below(10)), width);
                    }
                }
                same(types[k], data, whole);
            }
        }
    }
    free(room);
}

static void types_without_either(void **state) {
    uint8_t data[BLOCK];
    (void)state;
    memset(data, 0xff, sizeof data);
    for (uint32_t id = 1; id <= SFT_DTYPE_COUNT; id++) {
        bool listed = false;
        for (size_t k = 0; k < TYPES; k++) {
            listed |= types[k] == id;
        }
        if (!listed) {
            const counts c = searched(id, data, sizeof data);
            assert_int_equal(c.nans + c.infinities, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_code),
        cmocka_unit_test(every_position),
        cmocka_unit_test(every_remainder_and_misalignment),
        cmocka_unit_test(types_without_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
