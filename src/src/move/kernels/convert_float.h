/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/convert_float.h - the small float formats as data: one row per format, one routine each way.
 * All in integers, so that neither rounding modes nor flushing of subnormals nor x87 registers
 * matter.
 */
#ifndef SFT_MOVE_CONVERT_FLOAT_H
#define SFT_MOVE_CONVERT_FLOAT_H

#include "base/compiler.h"

typedef struct sft__move_float_spec {
    uint32_t mantissa; /* bits */
    uint32_t bias;
    uint32_t sign;      /* the sign bit */
    uint32_t max;       /* code of the largest finite number */
    uint32_t over;      /* code for what rounds beyond it, infinity included */
    uint32_t nan;       /* code for NaN */
    uint32_t infinity;  /* code of infinity when loading, or 0 */
    uint32_t first_nan; /* codes from here to the sign bit are NaN when loading; 0: none */
    bool unsigned_zero; /* FNUZ: the code of minus zero is the NaN, and `over` and `nan` take no
                           sign */
    bool nan_unsigned;  /* NaN takes no sign */
} sft__move_float_spec;

static const sft__move_float_spec sft__move_spec_e5m2 = {2,    15,   0x80, 0x7b,  0x7c,
                                                         0x7f, 0x7c, 0x7d, false, false};
static const sft__move_float_spec sft__move_spec_e4m3 = {3,    7, 0x80, 0x7e,  0x7e,
                                                         0x7f, 0, 0x7f, false, false};
static const sft__move_float_spec sft__move_spec_e4m3fnuz = {3,    8, 0x80, 0x7f, 0x80,
                                                             0x80, 0, 0,    true, true};
static const sft__move_float_spec sft__move_spec_e5m2fnuz = {2,    16, 0x80, 0x7f, 0x80,
                                                             0x80, 0,  0,    true, true};
static const sft__move_float_spec sft__move_spec_e2m1 = {1,   1, 0x8, 0x7,   0x7,
                                                         0x7, 0, 0,   false, true};
static const sft__move_float_spec sft__move_spec_e2m3 = {3,    1, 0x20, 0x1f,  0x1f,
                                                         0x1f, 0, 0,    false, true};
static const sft__move_float_spec sft__move_spec_e3m2 = {2,    3, 0x20, 0x1f,  0x1f,
                                                         0x1f, 0, 0,    false, true};

/* Rounds binary32 to nearest, ties to even. */
static inline uint32_t sft__move_float_store(uint32_t f, const sft__move_float_spec *s) {
    const uint32_t sign = (f >> 31) != 0 ? s->sign : 0;
    const uint32_t a = f & 0x7fffffffu;
    const uint32_t shift = 23 - s->mantissa;
    const uint32_t lowest = (128 - s->bias) << 23; /* binary32 of the smallest normal number */
    uint32_t code;

    if (a > 0x7f800000u) {
        return s->nan | (s->nan_unsigned ? 0 : sign);
    }
    if (a >= lowest) {
        const uint32_t v = a - lowest + (1u << 23);
        code = (v + ((1u << (shift - 1)) - 1) + ((v >> shift) & 1)) >> shift;
    } else {
        const uint32_t down = shift + 128 - s->bias - (a >> 23);
        const uint32_t m =
            (a & 0x7fffffu) | 0x800000u; /* binary32 subnormals are far below: round to 0 */
        if (down > 25) {
            code = 0;
        } else {
            code = (m + ((1u << (down - 1)) - 1) + ((m >> down) & 1)) >> down;
        }
    }
    if (code > s->max) {
        return s->unsigned_zero ? s->over : s->over | sign;
    }
    return s->unsigned_zero && code == 0 ? 0 : code | sign;
}

/* Exact: every value of these formats is a binary32. */
static inline uint32_t sft__move_float_load(uint32_t c, const sft__move_float_spec *s) {
    const uint32_t sign = (c & s->sign) != 0 ? 0x80000000u : 0;
    const uint32_t a = c & (s->sign - 1);
    const uint32_t shift = 23 - s->mantissa;

    if (s->unsigned_zero && c == s->sign) {
        return 0x7f800001u; /* torch's constant */
    }
    if (s->infinity != 0 && a == s->infinity) {
        return sign | 0x7f800000u;
    }
    if (s->first_nan != 0 && a >= s->first_nan) {
        return sign | 0x7fc00000u | ((a << shift) & 0x7fffffu);
    }
    if ((a >> s->mantissa) != 0) {
        return sign | ((a << shift) + ((127 - s->bias) << 23));
    }
    if (a == 0) {
        return sign;
    }
    uint32_t m = a << shift;
    uint32_t e = 128 - s->bias;
    while ((m & 0x800000u) == 0) { /* at most 3 turns: the mantissa has 3 bits */
        m <<= 1;
        e--;
    }
    return sign | (e << 23) | (m & 0x7fffffu);
}

#endif
