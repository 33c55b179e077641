/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_crc32c_hw.c - CRC32C by the processor's own instruction (x86-64 SSE4.2, ARMv8). The
 * instruction takes 3 cycles but one can start each cycle, so three stretches run side by side and
 * are joined by a carry-less multiplication. Where the processor multiplies four pairs at once
 * (VPCLMULQDQ on 512 bits), long inputs are folded 256 bytes at a time instead: twice as fast, so
 * that a digest beside a copy costs next to nothing. Read first: digest_crc32c.c.
 */
#include "move/kernels/digest_twins.h"

#if SFT__X86_64
#include <immintrin.h>

/* Stretches of CRC_LONG bytes, then of CRC_SHORT. The factors are x^(8 n - 33) modulo the
 * polynomial, bits reflected, for n = one and two stretches: a 32 by 32 bit product has x^1 in bit
 * 62, and feeding it to the instruction multiplies by x^32. */
enum { CRC_LONG = 2048, CRC_SHORT = 256 };
#define CRC_LONG_1  0xa51b6135
#define CRC_LONG_2  0x82f89c77
#define CRC_SHORT_1 0xb9e02b86
#define CRC_SHORT_2 0xdd7e3b0c

/* clang from 15 on counts the crc32 instructions apart from SSE 4.2. */
#if defined(__clang__) && __clang_major__ >= 15
#define CRC_FEATURES "sse4.2,crc32,pclmul"
#else
#define CRC_FEATURES "sse4.2,pclmul"
#endif

__attribute__((target(CRC_FEATURES))) static inline uint64_t crc_shift(uint64_t crc,
                                                                       int64_t factor) {
    const __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128(factor), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target(CRC_FEATURES))) static inline uint64_t
crc_three(uint64_t crc, const uint8_t *p, size_t stretch, int64_t factor_1, int64_t factor_2) {
    uint64_t crc_1 = 0;
    uint64_t crc_2 = 0;

    for (const uint8_t *end = p + stretch; p < end; p += 8) {
        crc = _mm_crc32_u64(crc, sft__base_load_le64(p));
        crc_1 = _mm_crc32_u64(crc_1, sft__base_load_le64(p + stretch));
        crc_2 = _mm_crc32_u64(crc_2, sft__base_load_le64(p + 2 * stretch));
    }
    return crc_shift(crc, factor_2) ^ crc_shift(crc_1, factor_1) ^ crc_2;
}

__attribute__((target(CRC_FEATURES))) uint32_t sft__move_crc32c_x86(uint32_t start,
                                                                    const void *data, size_t size) {
    const uint8_t *p = data;
    uint64_t crc = start;

    for (; size >= (size_t)3 * CRC_LONG; p += 3 * CRC_LONG, size -= (size_t)3 * CRC_LONG) {
        crc = crc_three(crc, p, CRC_LONG, CRC_LONG_1, CRC_LONG_2);
    }
    for (; size >= (size_t)3 * CRC_SHORT; p += 3 * CRC_SHORT, size -= (size_t)3 * CRC_SHORT) {
        crc = crc_three(crc, p, CRC_SHORT, CRC_SHORT_1, CRC_SHORT_2);
    }
    for (; size >= 8; p += 8, size -= 8) {
        crc = _mm_crc32_u64(crc, sft__base_load_le64(p));
    }
    for (; size > 0; p++, size--) {
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    }
    return (uint32_t)crc;
}
#endif

#if SFT__X86_64_WIDE
/* Folding by D bits multiplies by x^(D + 32) and x^(D - 32) modulo the polynomial (low and high
 * half of a lane; bits reflected, shifted by one), for D = 2048, 512 and 128. See Gopal et al.,
 * "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009. */
#define WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq," CRC_FEATURES)))

WIDE static inline __m512i fold(__m512i x, __m512i factors, __m512i next) {
    const __m512i low = _mm512_clmulepi64_epi128(x, factors, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(x, factors, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* xor of the three */
}

WIDE static inline __m512i factors_of(int64_t low, int64_t high) {
    return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

/* The CRC of what four vectors stand for. */
WIDE static inline uint64_t fold_ended(const __m512i a[4]) {
    const __m512i by_512 = factors_of(0x740eef02, 0x9e4addf8);
    const __m128i by_128 = _mm_set_epi64x(0x14cd00bd6, 0xf20c0dfe);
    const __m512i all = fold(fold(fold(a[0], by_512, a[1]), by_512, a[2]), by_512, a[3]);
    __m128i lane = _mm512_castsi512_si128(all);

    for (int i = 1; i < 4; i++) {
        const __m128i next = i == 1   ? _mm512_extracti32x4_epi32(all, 1)
                             : i == 2 ? _mm512_extracti32x4_epi32(all, 2)
                                      : _mm512_extracti32x4_epi32(all, 3);
        lane = _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(lane, by_128, 0x00),
                                                 _mm_clmulepi64_si128(lane, by_128, 0x11)));
    }
    return _mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane)),
                         (uint64_t)_mm_extract_epi64(lane, 1));
}

/* Folding keeps one unit of the processor busy and the crc32 instruction has another, so in
 * MIX_WIDE + 3 * MIX_STRETCH bytes both run side by side: MIX_STEPS of 256 bytes folded, and 40
 * bytes of three stretches that lie behind. The factors are those of crc_three. */
enum { MIX_STEPS = 64, MIX_WIDE = 256 * MIX_STEPS, MIX_STRETCH = 40 * MIX_STEPS };
enum { MIX_BYTES = MIX_WIDE + 3 * MIX_STRETCH };
#define MIX_1 0x22c3799f
#define MIX_2 0xca110698
#define MIX_3 0xf7ac8f1f

WIDE static inline void crc_words(uint64_t crc[3], const uint8_t *q) {
    crc[0] = _mm_crc32_u64(crc[0], sft__base_load_le64(q));
    crc[1] = _mm_crc32_u64(crc[1], sft__base_load_le64(q + MIX_STRETCH));
    crc[2] = _mm_crc32_u64(crc[2], sft__base_load_le64(q + 2 * MIX_STRETCH));
}

WIDE static uint64_t crc_mixed(uint64_t start, const uint8_t *p) {
    const __m512i by_2048 = factors_of(0xdcb17aa4, 0xb9e02b86);
    const uint8_t *q = p + MIX_WIDE;
    uint64_t crc[3] = {0, 0, 0};
    __m512i first = _mm512_zextsi128_si512(_mm_cvtsi64_si128((int64_t)start));
    __m512i a0 = _mm512_setzero_si512(); /* zeros fold to zeros */
    __m512i a1 = a0;
    __m512i a2 = a0;
    __m512i a3 = a0;

    for (size_t i = 0; i < MIX_STEPS; i++, p += 256, q += 40) {
        a0 = fold(a0, by_2048, _mm512_xor_si512(_mm512_loadu_si512(p), first));
        crc_words(crc, q);
        a1 = fold(a1, by_2048, _mm512_loadu_si512(p + 64));
        crc_words(crc, q + 8);
        a2 = fold(a2, by_2048, _mm512_loadu_si512(p + 128));
        crc_words(crc, q + 16);
        a3 = fold(a3, by_2048, _mm512_loadu_si512(p + 192));
        crc_words(crc, q + 24);
        crc_words(crc, q + 32);
        first = _mm512_setzero_si512();
    }
    const __m512i a[4] = {a0, a1, a2, a3};
    return crc_shift(fold_ended(a), MIX_3) ^ crc_shift(crc[0], MIX_2) ^ crc_shift(crc[1], MIX_1) ^
           crc[2];
}

WIDE uint32_t sft__move_crc32c_wide(uint32_t start, const void *data, size_t size) {
    const __m512i by_2048 = factors_of(0xdcb17aa4, 0xb9e02b86);
    const uint8_t *p = data;
    uint64_t crc = start;
    __m512i a[4];

    for (; size >= MIX_BYTES; p += MIX_BYTES, size -= MIX_BYTES) {
        crc = crc_mixed(crc, p);
    }
    if (size < SFT__CRC_WIDE_MIN) {
        return sft__move_crc32c_x86((uint32_t)crc, p, size);
    }
    for (size_t i = 0; i < 4; i++) {
        a[i] = _mm512_loadu_si512(p + 64 * i);
    }
    a[0] = _mm512_xor_si512(a[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128((int64_t)crc)));
    for (p += 256, size -= 256; size >= 256; p += 256, size -= 256) {
        a[0] = fold(a[0], by_2048, _mm512_loadu_si512(p));
        a[1] = fold(a[1], by_2048, _mm512_loadu_si512(p + 64));
        a[2] = fold(a[2], by_2048, _mm512_loadu_si512(p + 128));
        a[3] = fold(a[3], by_2048, _mm512_loadu_si512(p + 192));
    }
    return sft__move_crc32c_x86((uint32_t)fold_ended(a), p, size);
}
#else
uint32_t sft__move_crc32c_wide(uint32_t start, const void *data, size_t size) {
    return sft__move_crc32c_x86(start, data, size);
}
#endif

#if !SFT__X86_64
uint32_t sft__move_crc32c_x86(uint32_t start, const void *data, size_t size) {
    return sft__move_crc32c_portable(start, data, size);
}
#endif

#if SFT__ARM_CRC
#include <arm_acle.h>

uint32_t sft__move_crc32c_arm(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;

    for (; size >= 8; p += 8, size -= 8) {
        crc = __crc32cd(crc, sft__base_load_le64(p));
    }
    for (; size > 0; p++, size--) {
        crc = __crc32cb(crc, *p);
    }
    return crc;
}
#else
uint32_t sft__move_crc32c_arm(uint32_t crc, const void *data, size_t size) {
    return sft__move_crc32c_portable(crc, data, size);
}
#endif
