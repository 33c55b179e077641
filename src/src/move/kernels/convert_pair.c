/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/convert_pair.c - loops for the frequent pairs (F16, BF16, F32, F64): portable, and AVX2 +
 * F16C on x86-64. Same results bit for bit; the unit tests compare them on every input and
 * remainder. The vector loops leave the last few elements to the portable ones. Read first:
 * convert.h.
 */
#include "move/kernels/convert.h"

static void pair_f32_f16(uint8_t *dst, const uint8_t *src, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sft__base_store_le32(dst + 4 * i, sft__move_f32_from_f16(sft__base_load_le16(src + 2 * i)));
    }
}

static void pair_f16_f32(uint8_t *dst, const uint8_t *src, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sft__base_store_le16(dst + 2 * i, sft__move_f16_from_f32(sft__base_load_le32(src + 4 * i)));
    }
}

static void pair_f32_bf16(uint8_t *dst, const uint8_t *src, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sft__base_store_le32(dst + 4 * i, (uint32_t)sft__base_load_le16(src + 2 * i) << 16);
    }
}

static void pair_bf16_f32(uint8_t *dst, const uint8_t *src, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sft__base_store_le16(dst + 2 * i,
                             sft__move_bf16_from_f32(sft__base_load_le32(src + 4 * i), 0xffff));
    }
}

static void pair_bf16_f16(uint8_t *dst, const uint8_t *src, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t f = sft__move_f32_from_f16(sft__base_load_le16(src + 2 * i));
        sft__base_store_le16(dst + 2 * i, sft__move_bf16_from_f32(f, 0x7fc0));
    }
}

static void pair_f16_bf16(uint8_t *dst, const uint8_t *src, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sft__base_store_le16(
            dst + 2 * i, sft__move_f16_from_f32((uint32_t)sft__base_load_le16(src + 2 * i) << 16));
    }
}

sft__move_pair_fn *sft__move_pair_portable(uint32_t dst_id, uint32_t src_id) {
    switch (dst_id * 32 + src_id) {
    case SFT_F32 * 32 + SFT_F16:
        return pair_f32_f16;
    case SFT_F16 * 32 + SFT_F32:
        return pair_f16_f32;
    case SFT_F32 * 32 + SFT_BF16:
        return pair_f32_bf16;
    case SFT_BF16 * 32 + SFT_F32:
        return pair_bf16_f32;
    case SFT_BF16 * 32 + SFT_F16:
        return pair_bf16_f16;
    case SFT_F16 * 32 + SFT_BF16:
        return pair_f16_bf16;
    default:
        return NULL;
    }
}

#if SFT__X86_64
#include <immintrin.h>

#define PAIR_AVX2 __attribute__((target("avx2,f16c")))

PAIR_AVX2 static inline __m128i pair_in_8(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

PAIR_AVX2 static inline __m256i pair_in_16(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

PAIR_AVX2 static inline void pair_out_8(uint8_t *p, __m128i v) {
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

PAIR_AVX2 static inline void pair_out_16(uint8_t *p, __m256i v) {
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}

/* Rounds eight binary32 to nearest even bfloat16; every NaN becomes `nan`. */
PAIR_AVX2 static inline __m128i pair_round_bf16(__m256i f, int nan) {
    const __m256i a = _mm256_and_si256(f, _mm256_set1_epi32(0x7fffffff));
    const __m256i is_nan = _mm256_cmpgt_epi32(a, _mm256_set1_epi32(0x7f800000));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(f, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(f, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i rounded = _mm256_srli_epi32(sum, 16);
    const __m256i chosen = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(nan), is_nan);
    const __m256i packed = _mm256_packus_epi32(chosen, chosen);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

PAIR_AVX2 static void pair_f32_f16_avx2(uint8_t *dst, const uint8_t *src, size_t count) {
    for (; count >= 8; count -= 8, dst += 32, src += 16) {
        pair_out_16(dst, _mm256_castps_si256(_mm256_cvtph_ps(pair_in_8(src))));
    }
    pair_f32_f16(dst, src, count);
}

PAIR_AVX2 static void pair_f16_f32_avx2(uint8_t *dst, const uint8_t *src, size_t count) {
    for (; count >= 8; count -= 8, dst += 16, src += 32) {
        pair_out_8(
            dst, _mm256_cvtps_ph(_mm256_castsi256_ps(pair_in_16(src)), _MM_FROUND_TO_NEAREST_INT));
    }
    pair_f16_f32(dst, src, count);
}

PAIR_AVX2 static void pair_f32_bf16_avx2(uint8_t *dst, const uint8_t *src, size_t count) {
    for (; count >= 8; count -= 8, dst += 32, src += 16) {
        pair_out_16(dst, _mm256_slli_epi32(_mm256_cvtepu16_epi32(pair_in_8(src)), 16));
    }
    pair_f32_bf16(dst, src, count);
}

PAIR_AVX2 static void pair_bf16_f32_avx2(uint8_t *dst, const uint8_t *src, size_t count) {
    for (; count >= 8; count -= 8, dst += 16, src += 32) {
        pair_out_8(dst, pair_round_bf16(pair_in_16(src), 0xffff));
    }
    pair_bf16_f32(dst, src, count);
}

PAIR_AVX2 static void pair_bf16_f16_avx2(uint8_t *dst, const uint8_t *src, size_t count) {
    for (; count >= 8; count -= 8, dst += 16, src += 16) {
        pair_out_8(dst,
                   pair_round_bf16(_mm256_castps_si256(_mm256_cvtph_ps(pair_in_8(src))), 0x7fc0));
    }
    pair_bf16_f16(dst, src, count);
}

PAIR_AVX2 static void pair_f16_bf16_avx2(uint8_t *dst, const uint8_t *src, size_t count) {
    for (; count >= 8; count -= 8, dst += 16, src += 16) {
        const __m256i f = _mm256_slli_epi32(_mm256_cvtepu16_epi32(pair_in_8(src)), 16);
        pair_out_8(dst, _mm256_cvtps_ph(_mm256_castsi256_ps(f), _MM_FROUND_TO_NEAREST_INT));
    }
    pair_f16_bf16(dst, src, count);
}

sft__move_pair_fn *sft__move_pair_x86(uint32_t dst_id, uint32_t src_id) {
    switch (dst_id * 32 + src_id) {
    case SFT_F32 * 32 + SFT_F16:
        return pair_f32_f16_avx2;
    case SFT_F16 * 32 + SFT_F32:
        return pair_f16_f32_avx2;
    case SFT_F32 * 32 + SFT_BF16:
        return pair_f32_bf16_avx2;
    case SFT_BF16 * 32 + SFT_F32:
        return pair_bf16_f32_avx2;
    case SFT_BF16 * 32 + SFT_F16:
        return pair_bf16_f16_avx2;
    case SFT_F16 * 32 + SFT_BF16:
        return pair_f16_bf16_avx2;
    case SFT_F8_E4M3 * 32 + SFT_F32:
        return sft__move_pair_e4m3_f32_x86;
    case SFT_F8_E5M2 * 32 + SFT_F32:
        return sft__move_pair_e5m2_f32_x86;
    case SFT_F32 * 32 + SFT_F8_E4M3:
        return sft__move_pair_f32_e4m3_x86;
    case SFT_F32 * 32 + SFT_F8_E5M2:
        return sft__move_pair_f32_e5m2_x86;
    default:
        return NULL;
    }
}
#else
sft__move_pair_fn *sft__move_pair_x86(uint32_t dst_id, uint32_t src_id) {
    (void)dst_id;
    (void)src_id;
    return NULL;
}
#endif

sft__move_pair_fn *sft__move_pair_for(uint32_t features, uint32_t dst_id, uint32_t src_id) {
    sft__move_pair_fn *wide =
        (features & SFT__CPU_AVX512) != 0 ? sft__move_pair_wide(dst_id, src_id) : NULL;

    if (wide != NULL) {
        return wide;
    }
    if ((features & SFT__CPU_AVX2) != 0) {
        return sft__move_pair_x86(dst_id, src_id);
    }
    return sft__move_pair_portable(dst_id, src_id);
}
