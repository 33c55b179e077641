/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_sha256.c - SHA-256 (FIPS 180-4): the portable twin and the processor's own
 * instructions (x86 SHA extensions). digest.c does the buffering and the padding.
 */
#include "move/kernels/digest_twins.h"

const uint32_t sft__move_sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t sha_ror(uint32_t v, unsigned n) {
    return (v >> n) | (v << (32 - n));
}

static void sha_block(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64];
    uint32_t v[8];

    for (size_t t = 0; t < 16; t++) {
        w[t] = sft__base_bswap32(sft__base_load_le32(block + 4 * t));
    }
    for (size_t t = 16; t < 64; t++) {
        const uint32_t a = w[t - 15];
        const uint32_t b = w[t - 2];
        w[t] = (sha_ror(b, 17) ^ sha_ror(b, 19) ^ (b >> 10)) + w[t - 7] +
               (sha_ror(a, 7) ^ sha_ror(a, 18) ^ (a >> 3)) + w[t - 16];
    }
    memcpy(v, state, sizeof v);
    for (size_t t = 0; t < 64; t++) {
        const uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
        const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        const uint32_t t1 = v[7] + (sha_ror(v[4], 6) ^ sha_ror(v[4], 11) ^ sha_ror(v[4], 25)) +
                            choose + sft__move_sha256_k[t] + w[t];
        const uint32_t t2 = (sha_ror(v[0], 2) ^ sha_ror(v[0], 13) ^ sha_ror(v[0], 22)) + majority;
        v[7] = v[6];
        v[6] = v[5];
        v[5] = v[4];
        v[4] = v[3] + t1;
        v[3] = v[2];
        v[2] = v[1];
        v[1] = v[0];
        v[0] = t1 + t2;
    }
    for (size_t i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void sft__move_sha256_portable(uint32_t state[8], const void *blocks, size_t count) {
    const uint8_t *p = blocks;

    for (; count > 0; count--, p += 64) {
        sha_block(state, p);
    }
}

#if SFT__X86_64
#include <immintrin.h>

/* Four rounds: m holds w[t..t+3]. The instruction keeps the state as (a b e f) and (c d g h). */
#define SHA_ROUNDS(m, t)                                                                           \
    do {                                                                                           \
        const __m128i wk = _mm_add_epi32(                                                          \
            m, _mm_loadu_si128((const __m128i *)(const void *)(sft__move_sha256_k + (t))));        \
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);                                              \
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));                     \
    } while (0)

/* w[t+16..t+19] from the sixteen words before. */
#define SHA_EXPAND(m0, m1, m2, m3)                                                                 \
    _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(m0, m1), _mm_alignr_epi8(m3, m2, 4)),  \
                         m3)

__attribute__((target("sha,sse4.1,ssse3"))) void
sft__move_sha256_x86(uint32_t state[8], const void *blocks, size_t count) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    const uint8_t *p = blocks;
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)state);        /* d c b a */
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(state + 4)); /* h g f e */
    const __m128i cdab = _mm_shuffle_epi32(low, 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(high, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

    for (; count > 0; count--, p += 64) {
        const __m128i abef_before = abef;
        const __m128i cdgh_before = cdgh;
        const __m128i *words = (const __m128i *)(const void *)p;
        __m128i m0 = _mm_shuffle_epi8(_mm_loadu_si128(words), swap);
        __m128i m1 = _mm_shuffle_epi8(_mm_loadu_si128(words + 1), swap);
        __m128i m2 = _mm_shuffle_epi8(_mm_loadu_si128(words + 2), swap);
        __m128i m3 = _mm_shuffle_epi8(_mm_loadu_si128(words + 3), swap);
        for (size_t t = 0; t < 48; t += 16) {
            SHA_ROUNDS(m0, t);
            m0 = SHA_EXPAND(m0, m1, m2, m3);
            SHA_ROUNDS(m1, t + 4);
            m1 = SHA_EXPAND(m1, m2, m3, m0);
            SHA_ROUNDS(m2, t + 8);
            m2 = SHA_EXPAND(m2, m3, m0, m1);
            SHA_ROUNDS(m3, t + 12);
            m3 = SHA_EXPAND(m3, m0, m1, m2);
        }
        SHA_ROUNDS(m0, 48);
        SHA_ROUNDS(m1, 52);
        SHA_ROUNDS(m2, 56);
        SHA_ROUNDS(m3, 60);
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#else
void sft__move_sha256_x86(uint32_t state[8], const void *blocks, size_t count) {
    sft__move_sha256_portable(state, blocks, count);
}
#endif
