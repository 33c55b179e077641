/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/digest_crc32c_hw.c - CRC32C by the processor's own instruction (x86-64 SSE4.2, ARMv8). The
 * instruction takes 3 cycles but one can start each cycle, so three stretches run side by side and
 * are joined by a carry-less multiplication. Read first: digest_crc32c.c.
 */
#include "move/digest_twins.h"

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

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t crc_shift(uint64_t crc,
                                                                          int64_t factor) {
    const __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128(factor), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t
crc_three(uint64_t crc, const uint8_t *p, size_t stretch, int64_t factor_1, int64_t factor_2) {
    uint64_t crc_1 = 0;
    uint64_t crc_2 = 0;

    for (const uint8_t *end = p + stretch; p < end; p += 8) {
        crc = _mm_crc32_u64(crc, sft__load_le64(p));
        crc_1 = _mm_crc32_u64(crc_1, sft__load_le64(p + stretch));
        crc_2 = _mm_crc32_u64(crc_2, sft__load_le64(p + 2 * stretch));
    }
    return crc_shift(crc, factor_2) ^ crc_shift(crc_1, factor_1) ^ crc_2;
}

__attribute__((target("sse4.2,pclmul"))) uint32_t sft__crc32c_x86(uint32_t start, const void *data,
                                                                  size_t size) {
    const uint8_t *p = data;
    uint64_t crc = start;

    for (; size >= (size_t)3 * CRC_LONG; p += 3 * CRC_LONG, size -= (size_t)3 * CRC_LONG) {
        crc = crc_three(crc, p, CRC_LONG, CRC_LONG_1, CRC_LONG_2);
    }
    for (; size >= (size_t)3 * CRC_SHORT; p += 3 * CRC_SHORT, size -= (size_t)3 * CRC_SHORT) {
        crc = crc_three(crc, p, CRC_SHORT, CRC_SHORT_1, CRC_SHORT_2);
    }
    for (; size >= 8; p += 8, size -= 8) {
        crc = _mm_crc32_u64(crc, sft__load_le64(p));
    }
    for (; size > 0; p++, size--) {
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    }
    return (uint32_t)crc;
}
#else
uint32_t sft__crc32c_x86(uint32_t start, const void *data, size_t size) {
    return sft__crc32c_portable(start, data, size);
}
#endif

#if SFT__ARM_CRC
#include <arm_acle.h>

uint32_t sft__crc32c_arm(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;

    for (; size >= 8; p += 8, size -= 8) {
        crc = __crc32cd(crc, sft__load_le64(p));
    }
    for (; size > 0; p++, size--) {
        crc = __crc32cb(crc, *p);
    }
    return crc;
}
#else
uint32_t sft__crc32c_arm(uint32_t crc, const void *data, size_t size) {
    return sft__crc32c_portable(crc, data, size);
}
#endif
