/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/convert.c - sft_convert: checks, the choice of a way, and the way that serves every pair of
 * types, 256 elements at a time through a carrier. Read first: convert.h and docs/casts.md.
 */
#include "move/kernels/convert.h"
#include "base/checked.h"
#include "base/error.h"

/* ---------------------------------------------------------------- between carriers */

/* Exact; a NaN becomes quiet and keeps its payload, as the hardware of most machines does it. */
void sft__move_carry_f64_portable(sft__move_lane *to, const sft__move_lane *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t f = from->f[i];
        if ((f & 0x7fffffffu) > 0x7f800000u) {
            to->u[i] = (uint64_t)(f & 0x80000000u) << 32 | 0x7ff8000000000000u |
                       (uint64_t)(f & 0x7fffffu) << 29;
        } else {
            float value;
            double wide;
            memcpy(&value, &f, sizeof value);
            wide = (double)value;
            memcpy(&to->u[i], &wide, sizeof wide);
        }
    }
}

void sft__move_carry_f32_portable(sft__move_lane *to, const sft__move_lane *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t u = from->u[i];
        if ((u & INT64_MAX) > 0x7ff0000000000000u) {
            to->f[i] =
                (uint32_t)(u >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(u >> 29 & 0x3fffffu);
        } else {
            double wide;
            float value;
            memcpy(&wide, &u, sizeof wide);
            value = (float)wide;
            memcpy(&to->f[i], &value, sizeof value);
        }
    }
}

static void carry_f32_from_int(sft__move_lane *to, const sft__move_lane *from, size_t n,
                               bool is_unsigned) {
    for (size_t i = 0; i < n; i++) {
        const float value = is_unsigned ? (float)from->u[i] : (float)(int64_t)from->u[i];
        memcpy(&to->f[i], &value, sizeof value);
    }
}

static void carry_f64_from_int(sft__move_lane *to, const sft__move_lane *from, size_t n,
                               bool is_unsigned) {
    for (size_t i = 0; i < n; i++) {
        const double value = is_unsigned ? (double)from->u[i] : (double)(int64_t)from->u[i];
        memcpy(&to->u[i], &value, sizeof value);
    }
}

/* ---------------------------------------------------------------- the general way */

typedef struct convert_way {
    sft__move_load_fn *load;
    sft__move_pair_fn *load_fast; /* into a lane of binary32, as load does; or NULL */
    sft__move_store_fn *store;
    sft__move_carrier from;
    sft__move_carrier to;
    sft__move_store_rule rule;
    bool imaginary; /* the store needs the source's imaginary parts */
} convert_way;

static void convert_way_find(convert_way *way, const sft__move_cast *cast) {
    const uint32_t dst = cast->to->id;
    const uint32_t src = cast->from->id;

    way->load = sft__move_load_for(src);
    way->from = sft__move_load_carrier(src);
    way->to = way->from;
    way->store = sft__move_store_for(dst, way->from);
    if (way->store == NULL) {
        /* floats up to 32 bits are stored from binary32 alone, F64 and integers from binary64 */
        way->to =
            sft__move_store_for(dst, SFT__CARRY_F32) != NULL ? SFT__CARRY_F32 : SFT__CARRY_F64;
        way->store = sft__move_store_for(dst, way->to);
    }
    way->load_fast = !SFT_BIG_ENDIAN && way->from == SFT__CARRY_F32 && src != SFT_F32
                         ? sft__move_pair_for(cast->cpu, SFT_F32, src)
                         : NULL;
    way->rule = sft__move_store_rule_for(src);
    way->rule.cpu = cast->cpu;
    way->imaginary = src == SFT_C64 && dst == SFT_BOOL;
}

static void carry_f64_from_f32(uint32_t cpu, sft__move_lane *to, const sft__move_lane *from,
                               size_t n) {
    if ((cpu & SFT__CPU_AVX2) != 0) {
        sft__move_carry_f64_x86(to, from, n);
    } else {
        sft__move_carry_f64_portable(to, from, n);
    }
}

static void carry_f32_from_f64(uint32_t cpu, sft__move_lane *to, const sft__move_lane *from,
                               size_t n) {
    if ((cpu & SFT__CPU_AVX2) != 0) {
        sft__move_carry_f32_x86(to, from, n);
    } else {
        sft__move_carry_f32_portable(to, from, n);
    }
}

static void convert_lane(const convert_way *way, uint8_t *dst, const uint8_t *src, size_t n) {
    sft__move_store_rule rule = way->rule;
    sft__move_lane loaded;
    sft__move_lane carried;
    const sft__move_lane *lane = &carried;

    if (way->load_fast != NULL) {
        way->load_fast((uint8_t *)loaded.f, src, n);
    } else {
        way->load(&loaded, src, n);
    }
    if (way->to == way->from) {
        lane = &loaded;
    } else if (way->from == SFT__CARRY_F32) {
        carry_f64_from_f32(rule.cpu, &carried, &loaded, n);
    } else if (way->from == SFT__CARRY_F64) {
        carry_f32_from_f64(rule.cpu, &carried, &loaded, n);
    } else if (way->to == SFT__CARRY_F32) {
        carry_f32_from_int(&carried, &loaded, n, way->from == SFT__CARRY_U64);
    } else {
        carry_f64_from_int(&carried, &loaded, n, way->from == SFT__CARRY_U64);
    }
    rule.second = way->imaginary ? src : NULL;
    way->store(dst, lane, n, &rule);
}

static size_t convert_bytes(const sft_dtype *t, size_t elements) {
    return elements / t->block_elements * t->block_bytes;
}

/* In place too: a lane is loaded before it is stored, and both begin at the same byte if sizes are
 * equal. */
static void convert_general(const sft__move_cast *cast, uint8_t *dst, const uint8_t *src,
                            size_t count) {
    convert_way way;

    convert_way_find(&way, cast);
    while (count > 0) {
        const size_t n = count < SFT__LANE ? count : SFT__LANE;
        convert_lane(&way, dst, src, n);
        dst += convert_bytes(cast->to, n);
        src += convert_bytes(cast->from, n);
        count -= n;
    }
}

/* ---------------------------------------------------------------- sources of one byte, by table */

/* Every source byte's result is made once; pays from a few hundred elements on. */
static void convert_by_table(const sft__move_cast *cast, uint8_t *dst, const uint8_t *src,
                             size_t count) {
    uint8_t every[256];
    uint8_t table[256 * 8];

    for (size_t i = 0; i < 256; i++) {
        every[i] = (uint8_t)i;
    }
    convert_general(cast, table, every, 256);
    switch (cast->to->block_bytes) {
    case 1:
        for (size_t i = 0; i < count; i++) {
            dst[i] = table[src[i]];
        }
        break;
    case 2:
        for (size_t i = 0; i < count; i++) {
            memcpy(dst + 2 * i, table + 2 * (size_t)src[i], 2);
        }
        break;
    case 4:
        for (size_t i = 0; i < count; i++) {
            memcpy(dst + 4 * i, table + 4 * (size_t)src[i], 4);
        }
        break;
    default:
        for (size_t i = 0; i < count; i++) {
            memcpy(dst + 8 * i, table + 8 * (size_t)src[i], 8);
        }
        break;
    }
}

enum { CONVERT_TABLE_FROM = 1024 };

static void convert_little(const sft__move_cast *cast, uint8_t *dst, const uint8_t *src,
                           size_t count) {
    const sft_dtype *to = cast->to;
    const sft_dtype *from = cast->from;
    sft__move_pair_fn *pair = sft__move_pair_for(cast->cpu, to->id, from->id);

    if (to->id == from->id) {
        memmove(dst, src, convert_bytes(to, count));
    } else if (pair != NULL) {
        pair(dst, src, count);
    } else if (from->block_bytes == 1 && from->block_elements == 1 && to->block_elements == 1 &&
               count >= CONVERT_TABLE_FROM) {
        convert_by_table(cast, dst, src, count);
    } else {
        convert_general(cast, dst, src, count);
    }
}

/* ---------------------------------------------------------------- byte order */

/* Reverses the bytes of every number; C64 is two. */
static void convert_swap(uint8_t *dst, const uint8_t *src, size_t bytes, size_t size) {
    for (size_t i = 0; i < bytes; i += size) {
        uint8_t number[8];
        memcpy(number, src + i, size);
        for (size_t k = 0; k < size; k++) {
            dst[i + k] = number[size - 1 - k];
        }
    }
}

void sft__move_convert_swapped(const sft__move_cast *cast, uint8_t *dst, const uint8_t *src,
                               size_t count, bool swap_dst, bool swap_src) {
    const sft_dtype *to = cast->to;
    const sft_dtype *from = cast->from;
    uint8_t in[SFT__LANE * 8];
    uint8_t out[SFT__LANE * 8];

    while (count > 0) {
        const size_t n = count < SFT__LANE ? count : SFT__LANE;
        const size_t src_bytes = convert_bytes(from, n);
        const size_t dst_bytes = convert_bytes(to, n);
        convert_swap(in, src, src_bytes, swap_src ? from->alignment : 1);
        convert_little(cast, out, in, n);
        convert_swap(dst, out, dst_bytes, swap_dst ? to->alignment : 1);
        dst += dst_bytes;
        src += src_bytes;
        count -= n;
    }
}

/* ---------------------------------------------------------------- public */

static sft_status convert_check(const sft_dtype *t, uint64_t count, sft_error *err) {
    const bool known = t->id >= 1 && t->id <= SFT_DTYPE_COUNT;

    if (!known || t->block_bytes > 8) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "no conversions from or to %s",
                              t->name != NULL ? t->name : "a type without a name");
    }
    if (count % t->block_elements != 0) {
        return sft__base_fail(err, SFT_E_SUBBYTE, "%llu elements of %s end inside a byte",
                              (unsigned long long)count, t->name);
    }
    if (count > SIZE_MAX / 8) {
        return sft__base_fail(err, SFT_E_OVERFLOW,
                              "%llu elements are more than this process can address",
                              (unsigned long long)count);
    }
    return SFT_OK;
}

sft_status sft_convert(void *dst, const sft_dtype *dst_dtype, const void *src,
                       const sft_dtype *src_dtype, uint64_t count, uint32_t flags, sft_error *err) {
    if (dst_dtype == NULL || src_dtype == NULL || (count != 0 && (dst == NULL || src == NULL))) {
        return sft__base_fail(err, SFT_E_ARG, "dst, src or a dtype is NULL");
    }
    if ((flags &
         ~(SFT_CONVERT_HOST_DST | SFT_CONVERT_HOST_SRC | SFT_CONVERT_WITHOUT(SFT__CPU_ALL))) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "unknown convert flags %lu", (unsigned long)flags);
    }
    SFT_TRY(convert_check(src_dtype, count, err));
    SFT_TRY(convert_check(dst_dtype, count, err));
    if (count == 0) {
        return SFT_OK;
    }
    const sft__move_cast cast = {dst_dtype, src_dtype,
                                 sft__base_cpu_features() & ~(flags / SFT_CONVERT_WITHOUT(1u))};
    if (SFT_BIG_ENDIAN && (flags & (SFT_CONVERT_HOST_DST | SFT_CONVERT_HOST_SRC)) != 0) {
        sft__move_convert_swapped(&cast, dst, src, (size_t)count,
                                  (flags & SFT_CONVERT_HOST_DST) != 0,
                                  (flags & SFT_CONVERT_HOST_SRC) != 0);
        return SFT_OK;
    }
    convert_little(&cast, dst, src, (size_t)count);
    return SFT_OK;
}
