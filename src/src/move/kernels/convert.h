/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/convert.h - the parts of sft_convert: every type is loaded into one of three carriers and
 * stored from them, 256 elements at a time; frequent pairs have loops of their own. docs/casts.md
 * has the rules.
 */
#ifndef SFT_MOVE_CONVERT_H
#define SFT_MOVE_CONVERT_H

#include "base/cpu.h"
#include <sft/dtype.h>

enum { SFT__LANE = 256 };

typedef enum sft__move_carrier {
    SFT__CARRY_F32 = 0, /* bits of binary32: floats up to 32 bits, the real part of complex */
    SFT__CARRY_F64 = 1, /* bits of binary64 */
    SFT__CARRY_INT = 2, /* two's complement, sign-extended; unsigned types zero-extended */
    SFT__CARRY_U64 = 3  /* 64 unsigned bits */
} sft__move_carrier;

typedef union sft__move_lane {
    uint32_t f[SFT__LANE];
    uint64_t u[SFT__LANE];
} sft__move_lane;

/* What a store must know of the source, because torch's results for NaN depend on it. */
typedef struct sft__move_store_rule {
    uint16_t bf16_nan;     /* 0xffff from F32 and F64, 0x7fc0 from others */
    uint32_t u32_low;      /* F -> U32 below the range and NaN */
    bool nan_is_zero;      /* F -> integer: NaN becomes 0 instead of the smallest integer */
    uint32_t cpu;          /* features that may be used */
    const uint8_t *second; /* C64 -> BOOL: the source, for the imaginary parts */
} sft__move_store_rule;

typedef void sft__move_load_fn(sft__move_lane *lane, const uint8_t *src, size_t n);
typedef void sft__move_store_fn(uint8_t *dst, const sft__move_lane *lane, size_t n,
                                const sft__move_store_rule *rule);

/* For types of the format. n: a multiple of the type's block elements, at most SFT__LANE. */
sft__move_carrier sft__move_load_carrier(uint32_t id);
sft__move_load_fn *sft__move_load_for(uint32_t id);
sft__move_store_fn *sft__move_store_for(uint32_t id, sft__move_carrier carrier);
sft__move_store_rule sft__move_store_rule_for(uint32_t src_id);

/* Frequent pairs: `count` elements, little-endian on both sides; src may be dst when sizes are
 * equal. NULL where there is no loop for the pair. sft__move_pair_for chooses the twin. */
typedef void sft__move_pair_fn(uint8_t *dst, const uint8_t *src, size_t count);
sft__move_pair_fn *sft__move_pair_portable(uint32_t dst_id, uint32_t src_id);
sft__move_pair_fn *sft__move_pair_x86(uint32_t dst_id, uint32_t src_id); /* needs SFT__CPU_AVX2 */
sft__move_pair_fn *sft__move_pair_wide(uint32_t dst_id,
                                       uint32_t src_id); /* needs SFT__CPU_AVX512 */
sft__move_pair_fn *sft__move_pair_for(uint32_t cpu, uint32_t dst_id, uint32_t src_id);
void sft__move_pair_e4m3_f32_x86(uint8_t *dst, const uint8_t *src, size_t count);
void sft__move_pair_e5m2_f32_x86(uint8_t *dst, const uint8_t *src, size_t count);
void sft__move_pair_f32_e4m3_x86(uint8_t *dst, const uint8_t *src, size_t count);
void sft__move_pair_f32_e5m2_x86(uint8_t *dst, const uint8_t *src, size_t count);

/* Inner loops of the general way, in twins. codes: of a small float format, one per byte. */
struct sft__move_float_spec;
void sft__move_store_codes_portable(uint8_t *dst, const sft__move_lane *lane, size_t n,
                                    const struct sft__move_float_spec *spec);
void sft__move_store_codes_x86(uint8_t *dst, const sft__move_lane *lane, size_t n,
                               const struct sft__move_float_spec *spec);
void sft__move_store_codes_wide(
    uint8_t *dst, const sft__move_lane *lane, size_t n,
    const struct sft__move_float_spec *spec); /* needs SFT__CPU_AVX512 */
void sft__move_carry_f64_portable(sft__move_lane *to, const sft__move_lane *from,
                                  size_t n); /* from binary32 */
void sft__move_carry_f64_x86(sft__move_lane *to, const sft__move_lane *from, size_t n);
void sft__move_carry_f32_portable(sft__move_lane *to, const sft__move_lane *from,
                                  size_t n); /* from binary64 */
void sft__move_carry_f32_x86(sft__move_lane *to, const sft__move_lane *from, size_t n);

/* Two types and the features that a conversion between them may use. */
typedef struct sft__move_cast {
    const sft_dtype *to;
    const sft_dtype *from;
    uint32_t cpu;
} sft__move_cast;

/* With either side in the byte order that is not little-endian. */
void sft__move_convert_swapped(const sft__move_cast *cast, uint8_t *dst, const uint8_t *src,
                               size_t count, bool swap_dst, bool swap_src);

/* One element, for tails and tables. */
uint32_t sft__move_f32_from_f16(uint16_t h);
uint16_t sft__move_f16_from_f32(uint32_t f);
uint16_t sft__move_bf16_from_f32(uint32_t f, uint16_t nan);

#endif
