/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/convert_load.c - every type of the format into a carrier. Read first: convert.h,
 * convert_float.h.
 */
#include "move/kernels/convert.h"
#include "move/kernels/convert_float.h"

uint32_t sft__move_f32_from_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t e = (h >> 10) & 0x1fu;
    const uint32_t m = h & 0x3ffu;
    uint32_t bits;

    if (e == 0x1f) {
        return sign | 0x7f800000u | (m << 13) | (m != 0 ? 0x400000u : 0);
    }
    if (e != 0) {
        return sign | ((((uint32_t)h & 0x7fffu) << 13) + (112u << 23));
    }
    const float value = (float)(int32_t)m * 0x1p-24f; /* exact */
    memcpy(&bits, &value, sizeof bits);
    return sign | bits;
}

#define LOAD_SMALL(name)                                                                           \
    static void load_##name(sft__move_lane *lane, const uint8_t *src, size_t n) {                  \
        for (size_t i = 0; i < n; i++) {                                                           \
            lane->f[i] = sft__move_float_load(src[i], &sft__move_spec_##name);                     \
        }                                                                                          \
    }
LOAD_SMALL(e5m2)
LOAD_SMALL(e4m3)
LOAD_SMALL(e4m3fnuz)
LOAD_SMALL(e5m2fnuz)

static void load_e8m0(sft__move_lane *lane, const uint8_t *src, size_t n) {
    for (size_t i = 0; i < n; i++) {
        lane->f[i] = src[i] == 0      ? 0x400000u
                     : src[i] == 0xff ? 0x7f800001u
                                      : (uint32_t)src[i] << 23;
    }
}

static void load_e2m1(sft__move_lane *lane, const uint8_t *src, size_t n) {
    uint32_t values[16];

    for (uint32_t c = 0; c < 16; c++) {
        values[c] = sft__move_float_load(c, &sft__move_spec_e2m1);
    }
    for (size_t i = 0; i < n; i += 2) {
        lane->f[i] = values[src[i / 2] & 0xf];
        lane->f[i + 1] = values[src[i / 2] >> 4];
    }
}

static void load_six(sft__move_lane *lane, const uint8_t *src, size_t n,
                     const sft__move_float_spec *spec) {
    uint32_t values[64];

    for (uint32_t c = 0; c < 64; c++) {
        values[c] = sft__move_float_load(c, spec);
    }
    for (size_t i = 0; i < n; i += 4, src += 3) {
        const uint32_t v = (uint32_t)src[0] | (uint32_t)src[1] << 8 | (uint32_t)src[2] << 16;
        lane->f[i] = values[v & 0x3f];
        lane->f[i + 1] = values[v >> 6 & 0x3f];
        lane->f[i + 2] = values[v >> 12 & 0x3f];
        lane->f[i + 3] = values[v >> 18];
    }
}

static void load_e2m3(sft__move_lane *lane, const uint8_t *src, size_t n) {
    load_six(lane, src, n, &sft__move_spec_e2m3);
}

static void load_e3m2(sft__move_lane *lane, const uint8_t *src, size_t n) {
    load_six(lane, src, n, &sft__move_spec_e3m2);
}

static void load_f16(sft__move_lane *lane, const uint8_t *src, size_t n) {
    for (size_t i = 0; i < n; i++) {
        lane->f[i] = sft__move_f32_from_f16(sft__base_load_le16(src + 2 * i));
    }
}

static void load_bf16(sft__move_lane *lane, const uint8_t *src, size_t n) {
    for (size_t i = 0; i < n; i++) {
        lane->f[i] = (uint32_t)sft__base_load_le16(src + 2 * i) << 16;
    }
}

static void load_f32(sft__move_lane *lane, const uint8_t *src, size_t n) {
    memcpy(lane->f, src, 4 * n);
    for (size_t i = 0; SFT_BIG_ENDIAN && i < n; i++) {
        lane->f[i] = sft__base_load_le32(src + 4 * i);
    }
}

static void load_c64(sft__move_lane *lane, const uint8_t *src, size_t n) {
    for (size_t i = 0; i < n; i++) {
        lane->f[i] = sft__base_load_le32(src + 8 * i);
    }
}

static void load_64(sft__move_lane *lane, const uint8_t *src, size_t n) {
    memcpy(lane->u, src, 8 * n);
    for (size_t i = 0; SFT_BIG_ENDIAN && i < n; i++) {
        lane->u[i] = sft__base_load_le64(src + 8 * i);
    }
}

#define LOAD_INT(name, size, expression)                                                           \
    static void load_##name(sft__move_lane *lane, const uint8_t *src, size_t n) {                  \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint8_t *p = src + (size) * i;                                                   \
            lane->u[i] = (uint64_t)(int64_t)(expression);                                          \
        }                                                                                          \
    }
LOAD_INT(bool, 1, *p != 0)
LOAD_INT(u8, 1, *p)
LOAD_INT(i8, 1, (int8_t)*p)
LOAD_INT(u16, 2, sft__base_load_le16(p))
LOAD_INT(i16, 2, (int16_t)sft__base_load_le16(p))
LOAD_INT(u32, 4, sft__base_load_le32(p))
LOAD_INT(i32, 4, (int32_t)sft__base_load_le32(p))

/* Indexed by sft_dtype_id. */
static const struct load_row {
    sft__move_load_fn *load;
    sft__move_carrier carrier;
} load_rows[SFT_DTYPE_COUNT + 1] = {
    [SFT_BOOL] = {load_bool, SFT__CARRY_INT},
    [SFT_F4] = {load_e2m1, SFT__CARRY_F32},
    [SFT_F6_E2M3] = {load_e2m3, SFT__CARRY_F32},
    [SFT_F6_E3M2] = {load_e3m2, SFT__CARRY_F32},
    [SFT_U8] = {load_u8, SFT__CARRY_INT},
    [SFT_I8] = {load_i8, SFT__CARRY_INT},
    [SFT_F8_E5M2] = {load_e5m2, SFT__CARRY_F32},
    [SFT_F8_E4M3] = {load_e4m3, SFT__CARRY_F32},
    [SFT_F8_E8M0] = {load_e8m0, SFT__CARRY_F32},
    [SFT_F8_E4M3FNUZ] = {load_e4m3fnuz, SFT__CARRY_F32},
    [SFT_F8_E5M2FNUZ] = {load_e5m2fnuz, SFT__CARRY_F32},
    [SFT_I16] = {load_i16, SFT__CARRY_INT},
    [SFT_U16] = {load_u16, SFT__CARRY_INT},
    [SFT_F16] = {load_f16, SFT__CARRY_F32},
    [SFT_BF16] = {load_bf16, SFT__CARRY_F32},
    [SFT_I32] = {load_i32, SFT__CARRY_INT},
    [SFT_U32] = {load_u32, SFT__CARRY_INT},
    [SFT_F32] = {load_f32, SFT__CARRY_F32},
    [SFT_C64] = {load_c64, SFT__CARRY_F32},
    [SFT_F64] = {load_64, SFT__CARRY_F64},
    [SFT_I64] = {load_64, SFT__CARRY_INT},
    [SFT_U64] = {load_64, SFT__CARRY_U64},
};

sft__move_carrier sft__move_load_carrier(uint32_t id) {
    return load_rows[id].carrier;
}

sft__move_load_fn *sft__move_load_for(uint32_t id) {
    return load_rows[id].load;
}
