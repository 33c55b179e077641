/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_crc32c_hw.c - CRC32C by what the processor has (x86-64, ARMv8): the crc32 instruction
 * alone, and beside it carry-less multiplication of 16, 32 or 64 bytes at a time. The instruction takes
 * 3 cycles but one can start each cycle, so three stretches run side by side and are joined by a
 * multiplication. Source: Gopal and others, Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction, Intel, 2009. Read first: digest_crc32c.c, digest_crc32c_fold.h.
 */
#include "move/kernels/digest_twins.h"

#if SFT__X86_64
#include <immintrin.h>

/* clang from 15 on counts the crc32 instructions apart from SSE 4.2. */
#if defined(__clang__) && __clang_major__ >= 15
#define CRC_FEATURES "sse4.2,crc32"
#else
#define CRC_FEATURES "sse4.2"
#endif
#define CRC_ALONE  __attribute__((target(CRC_FEATURES)))
#define CRC_CLMUL  __attribute__((target(CRC_FEATURES ",pclmul")))
#define CRC_CLMUL2 __attribute__((target("avx2,vpclmulqdq," CRC_FEATURES ",pclmul")))
#define CRC_CLMUL4 __attribute__((target("avx512f,avx512vl,vpclmulqdq," CRC_FEATURES ",pclmul")))

CRC_ALONE static inline uint64_t crc_tail(uint64_t crc, const uint8_t *p, size_t size) {
    for (; size >= 8; p += 8, size -= 8) {
        crc = _mm_crc32_u64(crc, sft__base_load_le64(p));
    }
    for (; size > 0; p++, size--) {
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    }
    return crc;
}

/* ---------------------------------------------------------------- the instruction alone */

/* Stretches of CRC_LONG bytes, then of CRC_SHORT: x^(8 n) modulo the polynomial, bits reflected, for n =
 * one and two stretches. The multiplication takes about 100 cycles, a long stretch 1,024. */
enum { CRC_LONG = 8192, CRC_SHORT = 1024 };
#define CRC_LONG_1  0x28461564u
#define CRC_LONG_2  0xbf455269u
#define CRC_SHORT_1 0xe4172b16u
#define CRC_SHORT_2 0x0d65762au

CRC_ALONE static inline uint32_t crc_three(uint32_t start, const uint8_t *p, size_t stretch,
                                           uint32_t factor_1, uint32_t factor_2) {
    uint64_t crc = start;
    uint64_t crc_1 = 0;
    uint64_t crc_2 = 0;

    for (const uint8_t *end = p + stretch; p < end; p += 8) {
        crc = _mm_crc32_u64(crc, sft__base_load_le64(p));
        crc_1 = _mm_crc32_u64(crc_1, sft__base_load_le64(p + stretch));
        crc_2 = _mm_crc32_u64(crc_2, sft__base_load_le64(p + 2 * stretch));
    }
    return sft__move_crc32c_multiply((uint32_t)crc, factor_2) ^
           sft__move_crc32c_multiply((uint32_t)crc_1, factor_1) ^ (uint32_t)crc_2;
}

CRC_ALONE uint32_t sft__move_crc32c_x86(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;

    for (; size >= (size_t)3 * CRC_LONG; p += 3 * CRC_LONG, size -= (size_t)3 * CRC_LONG) {
        crc = crc_three(crc, p, CRC_LONG, CRC_LONG_1, CRC_LONG_2);
    }
    for (; size >= (size_t)3 * CRC_SHORT; p += 3 * CRC_SHORT, size -= (size_t)3 * CRC_SHORT) {
        crc = crc_three(crc, p, CRC_SHORT, CRC_SHORT_1, CRC_SHORT_2);
    }
    return (uint32_t)crc_tail(crc, p, size);
}

/* ---------------------------------------------------------------- beside multiplication */

/* Moves a CRC on. The factor is x^(8 n - 33) modulo the polynomial, bits reflected, for n bytes: a 32 by
 * 32 bit product has x^1 in bit 62, and feeding it to the instruction multiplies by x^32. */
CRC_CLMUL static inline uint64_t crc_shift(uint64_t crc, int64_t factor) {
    const __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128(factor), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Steps of the mixed loop, and what is not worth folding. Folding by D bits multiplies by x^(D + 32) and
 * x^(D - 32) modulo the polynomial (low and high half of a lane; bits reflected, shifted by one). */
enum { FOLD_STEPS = 64, FOLD_MIN = 512 };

#define FOLD                       crc_fold16
#define FOLD_TARGET                CRC_CLMUL
#define FOLD_V                     __m128i
#define FOLD_ZERO                  _mm_setzero_si128()
#define FOLD_START(crc)            _mm_cvtsi64_si128((int64_t)(crc))
#define FOLD_LOAD(p)               _mm_loadu_si128((const __m128i *)(const void *)(p))
#define FOLD_STORE(p, v)           _mm_storeu_si128((__m128i *)(void *)(p), v)
#define FOLD_XOR(a, b)             _mm_xor_si128(a, b)
#define FOLD_XOR3(a, b, c)         _mm_xor_si128(_mm_xor_si128(a, b), c)
#define FOLD_MUL(x, factors, half) _mm_clmulepi64_si128(x, factors, half)
#define FOLD_SPREAD(pair)          FOLD_SPREAD_(pair)
#define FOLD_SPREAD_(low, high)    _mm_set_epi64x(high, low)
#define FOLD_BY_1                  0xf20c0dfe, 0x14cd00bd6
#define FOLD_BY_4                  0x740eef02, 0x9e4addf8
#define FOLD_TWINS                 4
#define FOLD_MIX_1                 0xa51b6135
#define FOLD_MIX_2                 0x82f89c77
#define FOLD_MIX_3                 0xb9d68d49
#include "move/kernels/digest_crc32c_fold.h"

#define FOLD                       crc_fold32
#define FOLD_TARGET                CRC_CLMUL2
#define FOLD_V                     __m256i
#define FOLD_ZERO                  _mm256_setzero_si256()
#define FOLD_START(crc)            _mm256_zextsi128_si256(_mm_cvtsi64_si128((int64_t)(crc)))
#define FOLD_LOAD(p)               _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define FOLD_STORE(p, v)           _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define FOLD_XOR(a, b)             _mm256_xor_si256(a, b)
#define FOLD_XOR3(a, b, c)         _mm256_xor_si256(_mm256_xor_si256(a, b), c)
#define FOLD_MUL(x, factors, half) _mm256_clmulepi64_epi128(x, factors, half)
#define FOLD_SPREAD(pair)          FOLD_SPREAD_(pair)
#define FOLD_SPREAD_(low, high)    _mm256_set_epi64x(high, low, high, low)
#define FOLD_BY_1                  0x1384aa63a, 0xba4fc28e
#define FOLD_BY_4                  0x6992cea2, 0xd3b6092
#define FOLD_TWINS                 5
#define FOLD_MIX_1                 0x22c3799f
#define FOLD_MIX_2                 0xca110698
#define FOLD_MIX_3                 0xf7ac8f1f
#include "move/kernels/digest_crc32c_fold.h"

#if SFT__X86_64_WIDE
#define FOLD                       crc_fold64
#define FOLD_TARGET                CRC_CLMUL4
#define FOLD_V                     __m512i
#define FOLD_ZERO                  _mm512_setzero_si512()
#define FOLD_START(crc)            _mm512_zextsi128_si512(_mm_cvtsi64_si128((int64_t)(crc)))
#define FOLD_LOAD(p)               _mm512_loadu_si512((p))
#define FOLD_STORE(p, v)           _mm512_storeu_si512((p), v)
#define FOLD_XOR(a, b)             _mm512_xor_si512(a, b)
#define FOLD_XOR3(a, b, c)         _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define FOLD_MUL(x, factors, half) _mm512_clmulepi64_epi128(x, factors, half)
#define FOLD_SPREAD(pair)          FOLD_SPREAD_(pair)
#define FOLD_SPREAD_(low, high)    _mm512_set_epi64(high, low, high, low, high, low, high, low)
#define FOLD_BY_1                  0x740eef02, 0x9e4addf8
#define FOLD_BY_4                  0xdcb17aa4, 0xb9e02b86
#define FOLD_TWINS                 5
#define FOLD_MIX_1                 0x22c3799f
#define FOLD_MIX_2                 0xca110698
#define FOLD_MIX_3                 0xf7ac8f1f
#include "move/kernels/digest_crc32c_fold.h"
#endif

uint32_t sft__move_crc32c_clmul(uint32_t crc, const void *data, size_t size) {
    return crc_fold16_crc32c(crc, data, size);
}

uint32_t sft__move_crc32c_clmul_256(uint32_t crc, const void *data, size_t size) {
    return crc_fold32_crc32c(crc, data, size);
}

uint32_t sft__move_crc32c_clmul_512(uint32_t crc, const void *data, size_t size) {
#if SFT__X86_64_WIDE
    return crc_fold64_crc32c(crc, data, size);
#else
    return crc_fold32_crc32c(crc, data, size);
#endif
}
#else
uint32_t sft__move_crc32c_x86(uint32_t crc, const void *data, size_t size) {
    return sft__move_crc32c_portable(crc, data, size);
}

uint32_t sft__move_crc32c_clmul(uint32_t crc, const void *data, size_t size) {
    return sft__move_crc32c_portable(crc, data, size);
}

uint32_t sft__move_crc32c_clmul_256(uint32_t crc, const void *data, size_t size) {
    return sft__move_crc32c_portable(crc, data, size);
}

uint32_t sft__move_crc32c_clmul_512(uint32_t crc, const void *data, size_t size) {
    return sft__move_crc32c_portable(crc, data, size);
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
