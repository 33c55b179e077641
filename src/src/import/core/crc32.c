/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/crc32.c - CRC-32 (zlib's) of large blocks by carry-less multiplication where the processor
 * has it (x86-64), several times faster than tables, so that a checksum beside a copy costs little;
 * all else is zlib's, or of a small table where this was built without zlib. Source: Gopal and others,
 * Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction (2009), with its constants
 * for this polynomial. Read first: import.h.
 */
#include "import/core/import.h"
#if SFT_HAVE_ZLIB
#include <zlib.h>
#else
/* By half bytes; as zlib's of this name. */
static uint32_t crc32_z(uint32_t crc, const uint8_t *p, size_t size) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc = table[(crc ^ p[i]) & 15] ^ (crc >> 4);
        crc = table[(crc ^ (p[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define CRC_FOLDS 1
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

enum { FOLD_MIN = 256, KNOWN = 2 };

/* Asked once: the instruction is slow under virtual machines. Threads may race to the one answer.
 */
static bool can_fold(void) {
    static _Atomic uint32_t answer;
    uint32_t now = atomic_load_explicit(&answer, memory_order_relaxed);

    if (now == 0) {
        unsigned a;
        unsigned b;
        unsigned c;
        unsigned d;
        now = KNOWN | (__get_cpuid(1, &a, &b, &c, &d) && (c & (1u << 1)) != 0 ? 1u : 0u);
        atomic_store_explicit(&answer, now, memory_order_relaxed);
    }
    return (now & 1) != 0;
}

__attribute__((target("pclmul"))) static inline __m128i fold(__m128i x, __m128i k, __m128i next) {
    return _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), next);
}

static inline __m128i load(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* size: a multiple of 64, at least 128. Four lanes of 16 bytes, each moved on by 64 bytes a step;
 * then the lanes into one, whose 16 bytes have the checksum of all that went in (less the
 * conditioning, which zlib's initial value of all ones takes back). */
__attribute__((target("pclmul"))) static uint32_t crc_folded(uint32_t crc, const uint8_t *p,
                                                             size_t size) {
    const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    __m128i x0 = _mm_xor_si128(load(p), _mm_cvtsi32_si128((int32_t)~crc));
    __m128i x1 = load(p + 16);
    __m128i x2 = load(p + 32);
    __m128i x3 = load(p + 48);
    uint8_t last[16];

    for (size_t at = 64; at < size; at += 64) {
        x0 = fold(x0, by_64, load(p + at));
        x1 = fold(x1, by_64, load(p + at + 16));
        x2 = fold(x2, by_64, load(p + at + 32));
        x3 = fold(x3, by_64, load(p + at + 48));
    }
    x0 = fold(fold(fold(x0, by_16, x1), by_16, x2), by_16, x3);
    _mm_storeu_si128((__m128i *)(void *)last, x0);
    return (uint32_t)crc32_z(UINT32_C(0xffffffff), last, sizeof last);
}
#else
#define CRC_FOLDS 0
#endif

uint32_t sft__import_crc32(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;

#if CRC_FOLDS
    if (size >= FOLD_MIN && can_fold()) {
        const size_t n = size & ~(size_t)63;
        crc = crc_folded(crc, p, n);
        p += n;
        size -= n;
    }
#endif
    return size == 0 ? crc : (uint32_t)crc32_z(crc, p, size);
}
