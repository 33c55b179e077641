/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/convert_store.c - carriers into every type of the format. Floats of up to 32 bits and
 * complex are stored from binary32, the rest from binary64 or from integers. Read first: convert.h,
 * convert_float.h.
 */
#include "move/kernels/convert.h"
#include "move/kernels/convert_float.h"

uint16_t sft__move_f16_from_f32(uint32_t f) {
    static const sft__move_float_spec f16 = {10,     15, 0x8000, 0x7bff, 0x7c00,
                                             0x7e00, 0,  0,      false,  false};
    const uint32_t a = f & 0x7fffffffu;
    const uint32_t payload = a > 0x7f800000u ? (a >> 13) & 0x1ffu : 0;
    return (uint16_t)(sft__move_float_store(f, &f16) | payload);
}

uint16_t sft__move_bf16_from_f32(uint32_t f, uint16_t nan) {
    if ((f & 0x7fffffffu) > 0x7f800000u) {
        return nan;
    }
    return (uint16_t)((f + 0x7fffu + ((f >> 16) & 1)) >> 16);
}

/* ---------------------------------------------------------------- from binary32 */

/* Codes of a small float format, one per byte. */
static void store_codes(uint8_t *dst, const sft__move_lane *lane, size_t n,
                        const sft__move_float_spec *spec, uint32_t features) {
    if ((features & SFT__CPU_AVX512) != 0) {
        sft__move_store_codes_wide(dst, lane, n, spec);
    } else if ((features & SFT__CPU_AVX2) != 0) {
        sft__move_store_codes_x86(dst, lane, n, spec);
    } else {
        sft__move_store_codes_portable(dst, lane, n, spec);
    }
}

void sft__move_store_codes_portable(uint8_t *dst, const sft__move_lane *lane, size_t n,
                                    const sft__move_float_spec *spec) {
    for (size_t i = 0; i < n; i++) {
        dst[i] = (uint8_t)sft__move_float_store(lane->f[i], spec);
    }
}

#define STORE_SMALL(name)                                                                          \
    static void store_##name(uint8_t *dst, const sft__move_lane *lane, size_t n,                   \
                             const sft__move_store_rule *rule) {                                   \
        store_codes(dst, lane, n, &sft__move_spec_##name, rule->cpu);                              \
    }
STORE_SMALL(e5m2)
STORE_SMALL(e4m3)
STORE_SMALL(e4m3fnuz)
STORE_SMALL(e5m2fnuz)

/* To the nearest power of two; half way up, but down from half of the smallest; the sign is
 * dropped. */
static void store_e8m0(uint8_t *dst, const sft__move_lane *lane, size_t n,
                       const sft__move_store_rule *rule) {
    (void)rule;
    for (size_t i = 0; i < n; i++) {
        const uint32_t a = lane->f[i] & 0x7fffffffu;
        const uint32_t e = a >> 23;
        const uint32_t m = a & 0x7fffffu;
        const bool up = e != 0xff && (m > 0x400000u || (m == 0x400000u && e > 0));
        dst[i] = (uint8_t)(e + (up ? 1 : 0));
    }
}

static void store_e2m1(uint8_t *dst, const sft__move_lane *lane, size_t n,
                       const sft__move_store_rule *rule) {
    uint8_t codes[SFT__LANE];

    store_codes(codes, lane, n, &sft__move_spec_e2m1, rule->cpu);
    for (size_t i = 0; i < n; i += 2) {
        dst[i / 2] = (uint8_t)(codes[i] | codes[i + 1] << 4);
    }
}

static void store_six(uint8_t *dst, const sft__move_lane *lane, size_t n,
                      const sft__move_float_spec *spec, uint32_t features) {
    uint8_t codes[SFT__LANE];

    store_codes(codes, lane, n, spec, features);
    for (size_t i = 0; i < n; i += 4, dst += 3) {
        const uint32_t v = (uint32_t)codes[i] | (uint32_t)codes[i + 1] << 6 |
                           (uint32_t)codes[i + 2] << 12 | (uint32_t)codes[i + 3] << 18;
        dst[0] = (uint8_t)v;
        dst[1] = (uint8_t)(v >> 8);
        dst[2] = (uint8_t)(v >> 16);
    }
}

static void store_e2m3(uint8_t *dst, const sft__move_lane *lane, size_t n,
                       const sft__move_store_rule *rule) {
    store_six(dst, lane, n, &sft__move_spec_e2m3, rule->cpu);
}

static void store_e3m2(uint8_t *dst, const sft__move_lane *lane, size_t n,
                       const sft__move_store_rule *rule) {
    store_six(dst, lane, n, &sft__move_spec_e3m2, rule->cpu);
}

static void store_f16(uint8_t *dst, const sft__move_lane *lane, size_t n,
                      const sft__move_store_rule *rule) {
    if ((rule->cpu & SFT__CPU_AVX2) != 0) { /* little-endian: lane and loop agree */
        sft__move_pair_x86(SFT_F16, SFT_F32)(dst, (const uint8_t *)lane->f, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        sft__base_store_le16(dst + 2 * i, sft__move_f16_from_f32(lane->f[i]));
    }
}

static void store_bf16(uint8_t *dst, const sft__move_lane *lane, size_t n,
                       const sft__move_store_rule *rule) {
    for (size_t i = 0; i < n; i++) {
        sft__base_store_le16(dst + 2 * i, sft__move_bf16_from_f32(lane->f[i], rule->bf16_nan));
    }
}

static void store_f32(uint8_t *dst, const sft__move_lane *lane, size_t n,
                      const sft__move_store_rule *rule) {
    (void)rule;
    memcpy(dst, lane->f, 4 * n);
    for (size_t i = 0; SFT_BIG_ENDIAN && i < n; i++) {
        sft__base_store_le32(dst + 4 * i, lane->f[i]);
    }
}

static void store_c64(uint8_t *dst, const sft__move_lane *lane, size_t n,
                      const sft__move_store_rule *rule) {
    (void)rule;
    for (size_t i = 0; i < n; i++) {
        sft__base_store_le32(dst + 8 * i, lane->f[i]);
        sft__base_store_le32(dst + 8 * i + 4, 0);
    }
}

static void store_bool_f32(uint8_t *dst, const sft__move_lane *lane, size_t n,
                           const sft__move_store_rule *rule) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t imaginary =
            rule->second != NULL ? sft__base_load_le32(rule->second + 8 * i + 4) : 0;
        dst[i] = ((lane->f[i] | imaginary) & 0x7fffffffu) != 0;
    }
}

/* ---------------------------------------------------------------- floats to integers */

/* What x86 processors do, spelled out: toward zero; outside the range, and for NaN, the smallest.
 */
static int64_t store_trunc64(double d) {
    return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN;
}

static int32_t store_trunc32(double d) {
    return d > -0x1p31 - 1.0 && d < 0x1p31 ? (int32_t)d : INT32_MIN;
}

static uint64_t store_truncu64(double d) {
    if (d >= 0x1p63) {
        return (uint64_t)store_trunc64(d - 0x1p63) ^ ((uint64_t)1 << 63);
    }
    return (uint64_t)store_trunc64(d);
}

static uint32_t store_truncu32(double d, uint32_t low) {
    if (d >= 0x1p31) {
        return (uint32_t)store_trunc32(d - 0x1p31) ^ 0x80000000u;
    }
    return d > -0x1p31 - 1.0 ? (uint32_t)(int32_t)d : low;
}

static double store_double(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static bool store_nan_zero(const sft__move_store_rule *rule, double d) {
    return rule->nan_is_zero && d != d;
}

#define STORE_FROM_F64(name, size, expression)                                                     \
    static void store_##name##_f64(uint8_t *dst, const sft__move_lane *lane, size_t n,             \
                                   const sft__move_store_rule *rule) {                             \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double d = store_double(lane->u[i]);                                             \
            const uint64_t v = store_nan_zero(rule, d) ? 0 : (uint64_t)(expression);               \
            uint8_t le[8];                                                                         \
            sft__base_store_le64(le, v);                                                           \
            memcpy(dst + (size) * i, le, (size));                                                  \
        }                                                                                          \
    }
STORE_FROM_F64(i8, 1, store_trunc32(d))
STORE_FROM_F64(u8, 1, store_trunc64(d)) /* torch takes the long way for this one type */
STORE_FROM_F64(i16, 2, store_trunc32(d))
STORE_FROM_F64(i32, 4, store_trunc32(d))
STORE_FROM_F64(i64, 8, store_trunc64(d))
STORE_FROM_F64(u32, 4, store_truncu32(d, rule->u32_low))
STORE_FROM_F64(u64, 8, store_truncu64(d))

static void store_bool_f64(uint8_t *dst, const sft__move_lane *lane, size_t n,
                           const sft__move_store_rule *rule) {
    (void)rule;
    for (size_t i = 0; i < n; i++) {
        dst[i] = lane->u[i] << 1 != 0;
    }
}

/* ---------------------------------------------------------------- integers to integers */

#define STORE_FROM_INT(name, expression, store)                                                    \
    static void store_##name##_int(uint8_t *dst, const sft__move_lane *lane, size_t n,             \
                                   const sft__move_store_rule *rule) {                             \
        (void)rule;                                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            store(expression, lane->u[i]);                                                         \
        }                                                                                          \
    }
#define STORE_8(p, v)     (*(p) = (uint8_t)(v))
#define STORE_16(p, v)    sft__base_store_le16(p, (uint16_t)(v))
#define STORE_32(p, v)    sft__base_store_le32(p, (uint32_t)(v))
#define STORE_64(p, v)    sft__base_store_le64(p, v)
#define STORE_TRUTH(p, v) (*(p) = (v) != 0)
STORE_FROM_INT(8, dst + i, STORE_8)
STORE_FROM_INT(16, dst + 2 * i, STORE_16)
STORE_FROM_INT(32, dst + 4 * i, STORE_32)
STORE_FROM_INT(bool, dst + i, STORE_TRUTH)

static void store_64_int(uint8_t *dst, const sft__move_lane *lane, size_t n,
                         const sft__move_store_rule *rule) {
    (void)rule;
    memcpy(dst, lane->u, 8 * n);
    for (size_t i = 0; SFT_BIG_ENDIAN && i < n; i++) {
        sft__base_store_le64(dst + 8 * i, lane->u[i]);
    }
}

/* ---------------------------------------------------------------- which */

/* Indexed by sft_dtype_id. A NULL says: bring it to another carrier first (convert.c). */
static const struct store_row {
    sft__move_store_fn *from_f32;
    sft__move_store_fn *from_f64;
    sft__move_store_fn *from_int; /* U64 too */
} store_rows[SFT_DTYPE_COUNT + 1] = {
    [SFT_BOOL] = {store_bool_f32, store_bool_f64, store_bool_int},
    [SFT_F4] = {store_e2m1, NULL, NULL},
    [SFT_F6_E2M3] = {store_e2m3, NULL, NULL},
    [SFT_F6_E3M2] = {store_e3m2, NULL, NULL},
    [SFT_U8] = {NULL, store_u8_f64, store_8_int},
    [SFT_I8] = {NULL, store_i8_f64, store_8_int},
    [SFT_F8_E5M2] = {store_e5m2, NULL, NULL},
    [SFT_F8_E4M3] = {store_e4m3, NULL, NULL},
    [SFT_F8_E8M0] = {store_e8m0, NULL, NULL},
    [SFT_F8_E4M3FNUZ] = {store_e4m3fnuz, NULL, NULL},
    [SFT_F8_E5M2FNUZ] = {store_e5m2fnuz, NULL, NULL},
    [SFT_I16] = {NULL, store_i16_f64, store_16_int},
    [SFT_U16] = {NULL, store_i16_f64, store_16_int},
    [SFT_F16] = {store_f16, NULL, NULL},
    [SFT_BF16] = {store_bf16, NULL, NULL},
    [SFT_I32] = {NULL, store_i32_f64, store_32_int},
    [SFT_U32] = {NULL, store_u32_f64, store_32_int},
    [SFT_F32] = {store_f32, NULL, NULL},
    [SFT_C64] = {store_c64, NULL, NULL},
    [SFT_F64] = {NULL, store_64_int, NULL},
    [SFT_I64] = {NULL, store_i64_f64, store_64_int},
    [SFT_U64] = {NULL, store_u64_f64, store_64_int},
};

sft__move_store_fn *sft__move_store_for(uint32_t id, sft__move_carrier carrier) {
    switch (carrier) {
    case SFT__CARRY_F32:
        return store_rows[id].from_f32;
    case SFT__CARRY_F64:
        return store_rows[id].from_f64;
    default:
        return store_rows[id].from_int;
    }
}

sft__move_store_rule sft__move_store_rule_for(uint32_t src_id) {
    const bool wide =
        src_id == SFT_BF16 || src_id == SFT_F32 || src_id == SFT_F64 || src_id == SFT_C64;
    const sft__move_store_rule rule = {
        .bf16_nan = src_id == SFT_F32 || src_id == SFT_F64 ? 0xffff : 0x7fc0,
        .u32_low = wide ? 0x80000000u : 0,
        .nan_is_zero =
            src_id == SFT_F8_E8M0 || src_id == SFT_F8_E4M3FNUZ || src_id == SFT_F8_E5M2FNUZ,
        .second = NULL,
    };
    return rule;
}
