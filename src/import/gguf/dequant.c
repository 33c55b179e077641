/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/dequant.c - ggml's quantised blocks to 32-bit floats, with the roundings of its reference:
 * scale times number, less or plus the minimum, each rounded once (built without contraction to
 * fused operations). Inner loops have fixed counts and no branches, for the compiler to vectorise.
 * Source: ggml-quants.c, gguf-py's quants.py. Read first: gguf.h.
 */
#include "import/gguf/gguf.h"

enum { SMALL = 32, SUPER = 256 };

/* A 16-bit float, exactly. */
static float half(const uint8_t *p) {
    const uint32_t h = sft__base_load_le16(p);
    const uint32_t sign = (h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 31;
    const uint32_t mantissa = h & 0x3ff;
    uint32_t bits = sign | (exponent + 112) << 23 | mantissa << 13;
    float f;

    if (exponent == 0) {
        f = (float)mantissa * (1.0f / 16777216.0f);
        return sign != 0 ? -f : f;
    }
    if (exponent == 31) {
        bits = sign | 0x7f800000u | mantissa << 13;
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float single(const uint8_t *p) {
    const uint32_t bits = sft__base_load_le32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* One block, little-endian whatever the host. */
static void out_block(uint8_t *dst, const float *values, size_t count) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        sft__base_store_le32(dst + 4 * i, bits);
    }
#else
    memcpy(dst, values, count * sizeof *values);
#endif
}

/* n small numbers times d; plus m. */
static void scale(float *out, const int8_t *q, size_t n, float d) {
    for (size_t i = 0; i < n; i++) {
        out[i] = d * (float)q[i];
    }
}

static void scale_add(float *out, const int8_t *q, size_t n, float d, float m) {
    for (size_t i = 0; i < n; i++) {
        out[i] = d * (float)q[i] + m;
    }
}

/* `count` bytes: their low four bits, then their high four. */
static void nibbles(int8_t *q, const uint8_t *p, size_t count) {
    for (size_t i = 0; i < count; i++) {
        q[i] = (int8_t)(p[i] & 15);
    }
    for (size_t i = 0; i < count; i++) {
        q[count + i] = (int8_t)(p[i] >> 4);
    }
}

#define BLOCKS(function, in_bytes, elements)                                                       \
    static void function(void *dst, const void *src, size_t blocks, uint32_t argument) {           \
        const uint8_t *in = src;                                                                   \
        uint8_t *to = dst;                                                                         \
        (void)argument;                                                                            \
        for (size_t b = 0; b < blocks; b++) {                                                      \
            float out[elements];                                                                   \
            function##_one(out, in);                                                               \
            out_block(to, out, elements);                                                          \
            in += in_bytes;                                                                        \
            to += sizeof out;                                                                      \
        }                                                                                          \
    }

/* ---------------------------------------------------------------- blocks of 32 */

static void q4_0_one(float *out, const uint8_t *p) {
    int8_t q[SMALL];

    nibbles(q, p + 2, 16);
    for (size_t i = 0; i < SMALL; i++) {
        q[i] = (int8_t)(q[i] - 8);
    }
    scale(out, q, SMALL, half(p));
}
BLOCKS(q4_0, 18, SMALL)

static void q4_1_one(float *out, const uint8_t *p) {
    int8_t q[SMALL];

    nibbles(q, p + 4, 16);
    scale_add(out, q, SMALL, half(p), half(p + 2));
}
BLOCKS(q4_1, 20, SMALL)

/* The fifth bit of each number comes from a word of 32. */
static void fives(int8_t *q, const uint8_t *high, const uint8_t *p) {
    const uint32_t bits = sft__base_load_le32(high);

    nibbles(q, p, 16);
    for (uint32_t i = 0; i < SMALL; i++) {
        q[i] = (int8_t)(q[i] | (int8_t)(((bits >> i) & 1) << 4));
    }
}

static void q5_0_one(float *out, const uint8_t *p) {
    int8_t q[SMALL];

    fives(q, p + 2, p + 6);
    for (size_t i = 0; i < SMALL; i++) {
        q[i] = (int8_t)(q[i] - 16);
    }
    scale(out, q, SMALL, half(p));
}
BLOCKS(q5_0, 22, SMALL)

static void q5_1_one(float *out, const uint8_t *p) {
    int8_t q[SMALL];

    fives(q, p + 4, p + 8);
    scale_add(out, q, SMALL, half(p), half(p + 2));
}
BLOCKS(q5_1, 24, SMALL)

static void q8_0_one(float *out, const uint8_t *p) {
    const float d = half(p);

    for (size_t i = 0; i < SMALL; i++) {
        out[i] = d * (float)(int8_t)p[2 + i];
    }
}
BLOCKS(q8_0, 34, SMALL)

/* ---------------------------------------------------------------- by tables */

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void look_up(int8_t *q, size_t n, const int8_t values[16]) {
    for (size_t i = 0; i < n; i++) {
        q[i] = values[q[i] & 15];
    }
}

static void iq4_nl_one(float *out, const uint8_t *p) {
    int8_t q[SMALL];

    nibbles(q, p + 2, 16);
    look_up(q, SMALL, iq4_values);
    scale(out, q, SMALL, half(p));
}
BLOCKS(iq4_nl, 18, SMALL)

static void iq4_xs_one(float *out, const uint8_t *p) {
    const float d = half(p);
    const uint32_t high = sft__base_load_le16(p + 2);

    for (uint32_t s = 0; s < 8; s++) {
        const uint32_t low = (p[4 + s / 2] >> (4 * (s & 1))) & 15;
        const int32_t sc = (int32_t)(low | ((high >> (2 * s)) & 3) << 4) - 32;
        int8_t q[SMALL];
        nibbles(q, p + 8 + (size_t)16 * s, 16);
        look_up(q, SMALL, iq4_values);
        scale(out + (size_t)SMALL * s, q, SMALL, d * (float)sc);
    }
}
BLOCKS(iq4_xs, 136, SUPER)

/* The scale is a power of two, halved because the table's values are doubled. */
static void mxfp4_one(float *out, const uint8_t *p) {
    const uint32_t e = p[0];
    const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    int8_t q[SMALL];
    float d;

    memcpy(&d, &bits, sizeof d);
    nibbles(q, p + 1, 16);
    look_up(q, SMALL, mxfp4_values);
    scale(out, q, SMALL, d);
}
BLOCKS(mxfp4, 17, SMALL)

/* ---------------------------------------------------------------- blocks of 256 */

static void q2_k_one(float *out, const uint8_t *p) {
    const float d = half(p + 80);
    const float dmin = half(p + 82);

    for (uint32_t g = 0; g < 16; g++) { /* groups of 16: half a run of 32 bytes, one shift */
        const uint8_t *bytes = p + 16 + (size_t)32 * (g / 8) + (size_t)16 * (g & 1);
        const uint32_t shift = 2 * ((g / 2) & 3);
        const float dl = d * (float)(p[g] & 15);
        const float ml = dmin * (float)(p[g] >> 4);
        for (size_t i = 0; i < 16; i++) {
            out[16 * g + i] = dl * (float)((bytes[i] >> shift) & 3) - ml;
        }
    }
}
BLOCKS(q2_k, 84, SUPER)

static void q3_k_one(float *out, const uint8_t *p) {
    const uint8_t *mask = p;
    const uint8_t *qs = p + 32;
    const uint8_t *scales = p + 96;
    const float d = half(p + 108);

    for (uint32_t g = 0; g < 16; g++) {
        const uint32_t low = (scales[g & 7] >> (4 * (g / 8))) & 15;
        const uint32_t high = (scales[8 + (g & 3)] >> (2 * (g / 4))) & 3;
        const float dl = d * (float)((int32_t)(low | high << 4) - 32);
        const size_t half_run = (size_t)16 * (g & 1);
        const uint8_t *bytes = qs + (size_t)32 * (g / 8) + half_run;
        const uint32_t shift = 2 * ((g / 2) & 3);
        const uint32_t bit = g / 2;
        for (size_t i = 0; i < 16; i++) {
            const int32_t lack = 4 - 4 * ((mask[half_run + i] >> bit) & 1);
            out[16 * g + i] = dl * (float)(((bytes[i] >> shift) & 3) - lack);
        }
    }
}
BLOCKS(q3_k, 110, SUPER)

/* Eight scales and minima of six bits in twelve bytes. */
static void six_bits(const uint8_t *s, uint32_t j, uint32_t *sc, uint32_t *m) {
    if (j < 4) {
        *sc = s[j] & 63u;
        *m = s[4 + j] & 63u;
    } else {
        *sc = (s[4 + j] & 15u) | ((s[j - 4] >> 2) & 0x30u);
        *m = ((uint32_t)s[4 + j] >> 4) | ((s[j] >> 2) & 0x30u);
    }
}

static void q4_k_one(float *out, const uint8_t *p) {
    const float d = half(p);
    const float dmin = half(p + 2);

    for (uint32_t j = 0; j < 8; j++) {
        const uint8_t *bytes = p + 16 + (size_t)32 * (j / 2);
        const uint32_t shift = 4 * (j & 1);
        uint32_t sc;
        uint32_t m;
        six_bits(p + 4, j, &sc, &m);
        const float dl = d * (float)sc;
        const float ml = dmin * (float)m;
        for (size_t i = 0; i < 32; i++) {
            out[32 * j + i] = dl * (float)((bytes[i] >> shift) & 15) - ml;
        }
    }
}
BLOCKS(q4_k, 144, SUPER)

static void q5_k_one(float *out, const uint8_t *p) {
    const float d = half(p);
    const float dmin = half(p + 2);
    const uint8_t *high = p + 16;

    for (uint32_t j = 0; j < 8; j++) {
        const uint8_t *bytes = p + 48 + (size_t)32 * (j / 2);
        const uint32_t shift = 4 * (j & 1);
        uint32_t sc;
        uint32_t m;
        six_bits(p + 4, j, &sc, &m);
        const float dl = d * (float)sc;
        const float ml = dmin * (float)m;
        for (size_t i = 0; i < 32; i++) {
            const int32_t q = ((bytes[i] >> shift) & 15) | ((high[i] >> j) & 1) << 4;
            out[32 * j + i] = dl * (float)q - ml;
        }
    }
}
BLOCKS(q5_k, 176, SUPER)

static void q6_k_one(float *out, const uint8_t *p) {
    const float d = half(p + 208);

    for (uint32_t g = 0; g < 16; g++) { /* groups of 16 with a scale each */
        const uint32_t e = 16 * g;      /* the first element */
        const uint8_t *low = p + (size_t)64 * (e / 128) + e % 64;
        const uint8_t *high = p + 128 + (size_t)32 * (e / 128) + e % 32;
        const uint32_t low_shift = 4 * ((e / 64) & 1);
        const uint32_t high_shift = 2 * ((e / 32) & 3);
        const float dl = d * (float)(int8_t)p[192 + g];
        for (size_t i = 0; i < 16; i++) {
            const int32_t q =
                (((low[i] >> low_shift) & 15) | ((high[i] >> high_shift) & 3) << 4) - 32;
            out[e + i] = dl * (float)q;
        }
    }
}
BLOCKS(q6_k, 210, SUPER)

static void q8_k_one(float *out, const uint8_t *p) {
    const float d = single(p);

    for (size_t i = 0; i < SUPER; i++) {
        out[i] = d * (float)(int8_t)p[4 + i];
    }
}
BLOCKS(q8_k, 292, SUPER)

/* ---------------------------------------------------------------- three values */

/* Five numbers of base three in a byte, as a fraction of 256: a power of three brings the wanted
 * digit to the top. */
static void tq1_0_one(float *out, const uint8_t *p) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    static const struct {
        uint32_t at;
        uint32_t bytes;
        uint32_t digits;
    } parts[3] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
    const float d = half(p + 52);

    for (size_t k = 0; k < 3; k++) {
        for (uint32_t n = 0; n < parts[k].digits; n++) {
            for (uint32_t i = 0; i < parts[k].bytes; i++) {
                const uint32_t q = (uint8_t)(p[parts[k].at + i] * powers[n]);
                *out++ = d * (float)((int32_t)((q * 3) >> 8) - 1);
            }
        }
    }
}
BLOCKS(tq1_0, 54, SUPER)

static void tq2_0_one(float *out, const uint8_t *p) {
    const float d = half(p + 64);

    for (uint32_t g = 0; g < 8; g++) {
        const uint8_t *bytes = p + (size_t)32 * (g / 4);
        for (size_t i = 0; i < 32; i++) {
            out[32 * g + i] = d * (float)(((bytes[i] >> (2 * (g & 3))) & 3) - 1);
        }
    }
}
BLOCKS(tq2_0, 66, SUPER)

sft__import_block_fn sft__import_dequant(uint32_t type) {
    static const struct {
        uint32_t type;
        sft__import_block_fn fn;
    } rows[] = {{2, q4_0},    {3, q4_1},   {6, q5_0},   {7, q5_1},  {8, q8_0},  {10, q2_k},
                {11, q3_k},   {12, q4_k},  {13, q5_k},  {14, q6_k}, {15, q8_k}, {20, iq4_nl},
                {23, iq4_xs}, {34, tq1_0}, {35, tq2_0}, {39, mxfp4}};
    size_t i = 0;

    while (i < sizeof rows / sizeof rows[0] && rows[i].type != type) {
        i++;
    }
    return i < sizeof rows / sizeof rows[0] ? rows[i].fn : NULL;
}
