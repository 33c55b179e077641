/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/convert_x86.c - AVX2 and AVX-512 twins of the general way's inner loops. What
 * is left over is done with the rest of the lane, which every lane has room for; only n results
 * count. Read first: convert.h, convert_float.h.
 */
#include "move/kernels/convert.h"
#include "move/kernels/convert_float.h"

#if SFT__X86_64
#include <immintrin.h>

#define LANE_AVX2 __attribute__((target("avx2")))

/* sft__move_float_store of eight. Rounding is written into the instructions, so the caller's mode does not
 * matter. `normal` holds from the smallest normal number up and is less than `small` below it (there it
 * is linear where the codes are, too, and both meet at powers of two); `small` counts the format's
 * smallest steps. */
LANE_AVX2 static inline __m256i lane_store(__m256i f, const sft__move_float_spec *s) {
    const int shift = 23 - (int)s->mantissa;
    const uint32_t lowest = (128 - s->bias) << 23;
    const __m256i half = _mm256_set1_epi32((int)((1u << (shift - 1)) - 1 + (1u << 23) - lowest));
    const __m256 steps =
        _mm256_castsi256_ps(_mm256_set1_epi32((int)((126 + s->bias + s->mantissa) << 23)));
    const __m256i a = _mm256_and_si256(f, _mm256_set1_epi32(0x7fffffff));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(a, shift), _mm256_set1_epi32(1));
    const __m256i normal =
        _mm256_srai_epi32(_mm256_add_epi32(_mm256_add_epi32(a, half), odd), shift);
    const __m256i low = _mm256_min_epi32(a, _mm256_set1_epi32((int)lowest));
    /* subnormals of binary32 become 0 before anything multiplies them */
    const __m256i tame =
        _mm256_and_si256(low, _mm256_cmpgt_epi32(low, _mm256_set1_epi32(0x7fffff)));
    const __m256i small =
        _mm256_cvttps_epi32(_mm256_round_ps(_mm256_mul_ps(_mm256_castsi256_ps(tame), steps),
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    const __m256i is_nan = _mm256_cmpgt_epi32(a, _mm256_set1_epi32(0x7f800000));
    const __m256i over = _mm256_set1_epi32((int)s->over); /* max, or the code behind it */
    const __m256i code = _mm256_min_epi32(_mm256_max_epi32(small, normal), over);
    const __m256i nan = _mm256_and_si256(is_nan, _mm256_set1_epi32((int)s->nan));
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(f, 31 - __builtin_ctz(s->sign)),
                                    _mm256_set1_epi32((int)s->sign));

    if (s->unsigned_zero) {
        sign = _mm256_and_si256(sign, _mm256_cmpgt_epi32(code, _mm256_setzero_si256()));
        sign = _mm256_and_si256(sign, _mm256_cmpgt_epi32(over, code));
    } else if (s->nan_unsigned) {
        sign = _mm256_andnot_si256(is_nan, sign);
    }
    return _mm256_or_si256(_mm256_or_si256(code, nan),
                           sign); /* a NaN's code is over's: its bits are in nan's */
}

/* n: a multiple of 32. src: little-endian binary32, at any address. */
LANE_AVX2 static inline void codes_avx2(uint8_t *dst, const void *src, size_t n,
                                        const sft__move_float_spec *spec) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i *in = src;

    for (size_t i = 0; i < n; i += 32, in += 4) {
        const __m256i low = _mm256_packus_epi32(lane_store(_mm256_loadu_si256(in), spec),
                                                lane_store(_mm256_loadu_si256(in + 1), spec));
        const __m256i high = _mm256_packus_epi32(lane_store(_mm256_loadu_si256(in + 2), spec),
                                                 lane_store(_mm256_loadu_si256(in + 3), spec));
        _mm256_storeu_si256((__m256i *)(void *)(dst + i),
                            _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
    }
}

LANE_AVX2 void sft__move_store_codes_x86(uint8_t *dst, const sft__move_lane *lane, size_t n,
                                         const sft__move_float_spec *spec) {
    const size_t whole = n & ~(size_t)31;
    uint8_t rest[32];

    codes_avx2(dst, lane->f, whole, spec);
    if (whole < n) {
        codes_avx2(rest, lane->f + whole, 32, spec);
        memcpy(dst + whole, rest, n - whole);
    }
}

#define PAIR_CODES_AVX2(name)                                                                      \
    LANE_AVX2 void sft__move_pair_##name##_f32_x86(uint8_t *dst, const uint8_t *src,               \
                                                   size_t count) {                                 \
        const size_t whole = count & ~(size_t)31;                                                  \
        codes_avx2(dst, src, whole, &sft__move_spec_##name);                                       \
        for (size_t i = whole; i < count; i++) {                                                   \
            dst[i] = (uint8_t)sft__move_float_store(sft__base_load_le32(src + 4 * i),              \
                                                    &sft__move_spec_##name);                       \
        }                                                                                          \
    }
PAIR_CODES_AVX2(e4m3)
PAIR_CODES_AVX2(e5m2)

/* binary16 has room for both: E5M2 is its upper byte, E4M3 its value divided by 2^8 but for the NaN. */
__attribute__((target("avx2,f16c"))) static inline __m256i load_codes(__m128i codes, bool e4m3) {
    if (!e4m3) {
        return _mm256_castps_si256(_mm256_cvtph_ps(_mm_slli_epi16(codes, 8)));
    }
    const __m128i value = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x7f)), 7);
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x80)), 8);
    const __m256i f = _mm256_castps_si256(
        _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(value, sign)), _mm256_set1_ps(256.0f)));
    const __m256i a = _mm256_and_si256(f, _mm256_set1_epi32(0x7fffffff));
    const __m256i nan = _mm256_cmpeq_epi32(a, _mm256_set1_epi32(0x43f00000)); /* 480 */
    return _mm256_or_si256(f, _mm256_and_si256(nan, _mm256_set1_epi32(0x7f800000)));
}

#define PAIR_LOAD_AVX2(name, e4m3)                                                                 \
    __attribute__((target("avx2,f16c"))) void sft__move_pair_f32_##name##_x86(                     \
        uint8_t *dst, const uint8_t *src, size_t count) {                                          \
        for (; count >= 8; count -= 8, dst += 32, src += 8) {                                      \
            const __m128i codes =                                                                  \
                _mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t)sft__base_load_le64(src)));           \
            _mm256_storeu_si256((__m256i *)(void *)dst, load_codes(codes, e4m3));                  \
        }                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            sft__base_store_le32(dst + 4 * i,                                                      \
                                 sft__move_float_load(src[i], &sft__move_spec_##name));            \
        }                                                                                          \
    }
PAIR_LOAD_AVX2(e4m3, true)
PAIR_LOAD_AVX2(e5m2, false)

#if SFT__X86_64_WIDE
#define LANE_WIDE __attribute__((target("avx512f")))

/* Sixteen at a time. Below the smallest normal number, adding 2^23 of the format's smallest steps
 * leaves the code in the sum's low bits, rounded; the instruction carries its rounding mode. */
LANE_WIDE static inline __m512i lane_store_wide(__m512i f, const sft__move_float_spec *s) {
    const uint32_t shift = 23 - s->mantissa;
    const uint32_t lowest = (128 - s->bias) << 23;
    const __m512i magic = _mm512_set1_epi32((int)((24 + 127 - s->bias - s->mantissa) << 23));
    const __m128i down = _mm_cvtsi32_si128((int)shift);
    const __m512i a = _mm512_and_si512(f, _mm512_set1_epi32(0x7fffffff));
    const __m512i odd =
        _mm512_and_si512(_mm512_srl_epi32(a, down), _mm512_set1_epi32(1)); /* as without lowest */
    const __m512i half = _mm512_set1_epi32((int)((1u << (shift - 1)) - 1 + (1u << 23) - lowest));
    const __m512i normal = _mm512_srl_epi32(_mm512_add_epi32(_mm512_add_epi32(a, half), odd), down);
    const __m512i sum =
        _mm512_castps_si512(_mm512_add_round_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(magic),
                                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    const __mmask16 small = _mm512_cmplt_epu32_mask(a, _mm512_set1_epi32((int)lowest));
    const __m512i code = _mm512_mask_sub_epi32(normal, small, sum, magic);
    const __mmask16 over = _mm512_cmpgt_epu32_mask(code, _mm512_set1_epi32((int)s->max));
    const __mmask16 nan = _mm512_cmpgt_epu32_mask(a, _mm512_set1_epi32(0x7f800000));
    const __mmask16 zero = _mm512_testn_epi32_mask(code, code);
    const __m512i sign =
        _mm512_and_si512(_mm512_srl_epi32(f, _mm_cvtsi32_si128(31 - __builtin_ctz(s->sign))),
                         _mm512_set1_epi32((int)s->sign));
    const __mmask16 plain = s->unsigned_zero  ? (__mmask16)(zero | over | nan)
                            : s->nan_unsigned ? nan
                                              : (__mmask16)0;
    __m512i out = _mm512_mask_mov_epi32(code, over, _mm512_set1_epi32((int)s->over));

    out = _mm512_mask_mov_epi32(out, nan, _mm512_set1_epi32((int)s->nan));
    return _mm512_mask_or_epi32(out, (__mmask16)~plain, out, sign);
}

/* n: a multiple of 16. src: little-endian binary32, at any address. */
LANE_WIDE static inline void codes_wide(uint8_t *dst, const void *src, size_t n,
                                        const sft__move_float_spec *spec) {
    const uint8_t *in = src;
    for (size_t i = 0; i < n; i += 16) {
        _mm_storeu_si128((__m128i *)(void *)(dst + i), _mm512_cvtepi32_epi8(lane_store_wide(
                                                           _mm512_loadu_si512(in + 4 * i), spec)));
    }
}

LANE_WIDE void sft__move_store_codes_wide(uint8_t *dst, const sft__move_lane *lane, size_t n,
                                          const sft__move_float_spec *spec) {
    const size_t whole = n & ~(size_t)15;
    uint8_t rest[16];

    codes_wide(dst, lane->f, whole, spec);
    if (whole < n) {
        codes_wide(rest, lane->f + whole, 16, spec);
        memcpy(dst + whole, rest, n - whole);
    }
}

#define PAIR_CODES_WIDE(name)                                                                      \
    LANE_WIDE static void pair_##name##_f32_wide(uint8_t *dst, const uint8_t *src, size_t count) { \
        const size_t whole = count & ~(size_t)15;                                                  \
        codes_wide(dst, src, whole, &sft__move_spec_##name);                                       \
        for (size_t i = whole; i < count; i++) {                                                   \
            dst[i] = (uint8_t)sft__move_float_store(sft__base_load_le32(src + 4 * i),              \
                                                    &sft__move_spec_##name);                       \
        }                                                                                          \
    }
PAIR_CODES_WIDE(e4m3)
PAIR_CODES_WIDE(e5m2)

LANE_WIDE static void pair_bf16_f32_wide(uint8_t *dst, const uint8_t *src, size_t count) {
    for (; count >= 16; count -= 16, dst += 32, src += 64) {
        const __m512i f = _mm512_loadu_si512(src);
        const __m512i a = _mm512_and_si512(f, _mm512_set1_epi32(0x7fffffff));
        const __mmask16 nan = _mm512_cmpgt_epi32_mask(a, _mm512_set1_epi32(0x7f800000));
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(f, 16), _mm512_set1_epi32(1));
        const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(f, _mm512_set1_epi32(0x7fff)), odd);
        const __m512i code =
            _mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), nan, _mm512_set1_epi32(0xffff));
        _mm256_storeu_si256((__m256i *)(void *)dst, _mm512_cvtepi32_epi16(code));
    }
    sft__move_pair_x86(SFT_BF16, SFT_F32)(dst, src, count);
}

sft__move_pair_fn *sft__move_pair_wide(uint32_t dst_id, uint32_t src_id) {
    if (src_id != SFT_F32) {
        return NULL;
    }
    return dst_id == SFT_BF16      ? pair_bf16_f32_wide
           : dst_id == SFT_F8_E4M3 ? pair_e4m3_f32_wide
           : dst_id == SFT_F8_E5M2 ? pair_e5m2_f32_wide
                                   : NULL;
}
#else
void sft__move_store_codes_wide(uint8_t *dst, const sft__move_lane *lane, size_t n,
                                const sft__move_float_spec *spec) {
    sft__move_store_codes_x86(dst, lane, n, spec);
}
#endif

LANE_AVX2 void sft__move_carry_f64_x86(sft__move_lane *to, const sft__move_lane *from, size_t n) {
    for (size_t i = 0; i < n; i += 4) {
        const __m128 f =
            _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)(from->f + i)));
        _mm256_storeu_si256((__m256i *)(void *)(to->u + i),
                            _mm256_castpd_si256(_mm256_cvtps_pd(f)));
    }
}

LANE_AVX2 void sft__move_carry_f32_x86(sft__move_lane *to, const sft__move_lane *from, size_t n) {
    for (size_t i = 0; i < n; i += 4) {
        const __m256d d =
            _mm256_castsi256_pd(_mm256_loadu_si256((const __m256i *)(const void *)(from->u + i)));
        _mm_storeu_si128((__m128i *)(void *)(to->f + i), _mm_castps_si128(_mm256_cvtpd_ps(d)));
    }
}
#else
void sft__move_store_codes_wide(uint8_t *dst, const sft__move_lane *lane, size_t n,
                                const sft__move_float_spec *spec) {
    sft__move_store_codes_portable(dst, lane, n, spec);
}

void sft__move_store_codes_x86(uint8_t *dst, const sft__move_lane *lane, size_t n,
                               const sft__move_float_spec *spec) {
    sft__move_store_codes_portable(dst, lane, n, spec);
}

void sft__move_carry_f64_x86(sft__move_lane *to, const sft__move_lane *from, size_t n) {
    sft__move_carry_f64_portable(to, from, n);
}

void sft__move_carry_f32_x86(sft__move_lane *to, const sft__move_lane *from, size_t n) {
    sft__move_carry_f32_portable(to, from, n);
}
#endif

#if !SFT__X86_64_WIDE
sft__move_pair_fn *sft__move_pair_wide(uint32_t dst_id, uint32_t src_id) {
    (void)dst_id;
    (void)src_id;
    return NULL;
}
#endif
