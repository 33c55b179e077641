/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/tile.c - see tile.h. Tiles of one cache line of the source by two of the result stay in
 * the nearest cache, so that each line is read once and written whole; in them squares of 16 bytes
 * a side are turned in registers where the machine has SSE2. Read first: tile.h.
 */
#include "import/convert/tile.h"
#include <string.h>

/* Bytes of a tile along the source's run and along the result's; of a row of a staged one. */
enum { TILE_READ = 64, TILE_WRITTEN = 128, LINE = 64, APART = TILE_WRITTEN + LINE };

typedef struct pair16 {
    uint64_t low;
    uint64_t high;
} pair16;

#define TILE_COPY(type)                                                                            \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        for (uint64_t j = 0; j < m; j++) {                                                         \
            type value;                                                                            \
            memcpy(&value, src + (i * si + j * sj) * sizeof value, sizeof value);                  \
            memcpy(dst + (i * di + j * dj) * sizeof value, &value, sizeof value);                  \
        }                                                                                          \
    }

/* n x m elements, one by one. */
static void each(uint8_t *dst, const uint8_t *src, const sft__import_plane *p, uint64_t n,
                 uint64_t m) {
    const uint64_t si = p->src_stride[0];
    const uint64_t sj = p->src_stride[1];
    const uint64_t di = p->dst_stride[0];
    const uint64_t dj = p->dst_stride[1];

    switch (p->unit) {
    case 1:
        TILE_COPY(uint8_t)
        break;
    case 2:
        TILE_COPY(uint16_t)
        break;
    case 4:
        TILE_COPY(uint32_t)
        break;
    case 8:
        TILE_COPY(uint64_t)
        break;
    default: /* 16: the largest element */
        TILE_COPY(pair16)
        break;
    }
}

#if SFT_SSE2
static __m128i load(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static void store(uint8_t *p, __m128i v) {
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

/* Squares whose side is 16 bytes of elements. from: bytes between rows of the source (along j), to:
 * between rows of the result (along i). A step of interleaving halves the distance of neighbours.
 */
static void square1(uint8_t *dst, uint64_t to, const uint8_t *src, uint64_t from) {
    __m128i a[16];
    __m128i b[16];

    for (size_t k = 0; k < 16; k++) {
        a[k] = load(src + k * from);
    }
    for (int round = 0; round < 2; round++) {
        for (size_t k = 0; k < 8; k++) {
            b[2 * k] = _mm_unpacklo_epi8(a[k], a[k + 8]);
            b[2 * k + 1] = _mm_unpackhi_epi8(a[k], a[k + 8]);
        }
        for (size_t k = 0; k < 8; k++) {
            a[2 * k] = _mm_unpacklo_epi8(b[k], b[k + 8]);
            a[2 * k + 1] = _mm_unpackhi_epi8(b[k], b[k + 8]);
        }
    }
    for (size_t k = 0; k < 16; k++) {
        store(dst + k * to, a[k]);
    }
}

static void square2(uint8_t *dst, uint64_t to, const uint8_t *src, uint64_t from) {
    __m128i a[8];
    __m128i b[8];

    for (size_t k = 0; k < 8; k++) {
        a[k] = load(src + k * from);
    }
    for (size_t k = 0; k < 4; k++) {
        b[2 * k] = _mm_unpacklo_epi16(a[k], a[k + 4]);
        b[2 * k + 1] = _mm_unpackhi_epi16(a[k], a[k + 4]);
    }
    for (size_t k = 0; k < 4; k++) {
        a[2 * k] = _mm_unpacklo_epi16(b[k], b[k + 4]);
        a[2 * k + 1] = _mm_unpackhi_epi16(b[k], b[k + 4]);
    }
    for (size_t k = 0; k < 4; k++) {
        b[2 * k] = _mm_unpacklo_epi16(a[k], a[k + 4]);
        b[2 * k + 1] = _mm_unpackhi_epi16(a[k], a[k + 4]);
    }
    for (size_t k = 0; k < 8; k++) {
        store(dst + k * to, b[k]);
    }
}

static void square4(uint8_t *dst, uint64_t to, const uint8_t *src, uint64_t from) {
    const __m128i r0 = load(src);
    const __m128i r1 = load(src + from);
    const __m128i r2 = load(src + 2 * from);
    const __m128i r3 = load(src + 3 * from);
    const __m128i low0 = _mm_unpacklo_epi32(r0, r1);
    const __m128i low1 = _mm_unpacklo_epi32(r2, r3);
    const __m128i high0 = _mm_unpackhi_epi32(r0, r1);
    const __m128i high1 = _mm_unpackhi_epi32(r2, r3);

    store(dst, _mm_unpacklo_epi64(low0, low1));
    store(dst + to, _mm_unpackhi_epi64(low0, low1));
    store(dst + 2 * to, _mm_unpacklo_epi64(high0, high1));
    store(dst + 3 * to, _mm_unpackhi_epi64(high0, high1));
}

static void square8(uint8_t *dst, uint64_t to, const uint8_t *src, uint64_t from) {
    const __m128i r0 = load(src);
    const __m128i r1 = load(src + from);

    store(dst, _mm_unpacklo_epi64(r0, r1));
    store(dst + to, _mm_unpackhi_epi64(r0, r1));
}

typedef void (*square_fn)(uint8_t *dst, uint64_t to, const uint8_t *src, uint64_t from);

static square_fn square_of(const sft__import_plane *p) {
    if (p->src_stride[0] != 1 || p->dst_stride[1] != 1) {
        return NULL;
    }
    return p->unit == 1   ? square1
           : p->unit == 2 ? square2
           : p->unit == 4 ? square4
           : p->unit == 8 ? square8
                          : NULL;
}

/* The part of n x m that whole squares cover: *n and *m become its extents. */
static void squares(uint8_t *dst, const uint8_t *src, const sft__import_plane *p, square_fn square,
                    uint64_t *n, uint64_t *m) {
    const uint64_t side = 16 / p->unit;
    const uint64_t from = p->src_stride[1] * p->unit;
    const uint64_t to = p->dst_stride[0] * p->unit;

    *n -= *n % side;
    *m -= *m % side;
    for (uint64_t i = 0; i < *n; i += side) {
        for (uint64_t j = 0; j < *m; j += side) {
            square(dst + i * to + j * p->unit, to, src + i * p->unit + j * from, from);
        }
    }
}
#endif

static void tile(uint8_t *dst, const uint8_t *src, const sft__import_plane *p, uint64_t n,
                 uint64_t m) {
#if SFT_SSE2
    const square_fn square = square_of(p);
    uint64_t wide = n;
    uint64_t high = m;

    if (square != NULL) {
        const uint64_t unit = p->unit;
        squares(dst, src, p, square, &wide, &high);
        each(dst + high * unit, src + high * p->src_stride[1] * unit, p, wide, m - high);
        each(dst + wide * p->dst_stride[0] * unit, src + wide * unit, p, n - wide, m);
        return;
    }
#endif
    each(dst, src, p, n, m);
}

/* Rows of the result lie far apart: without this each line waits for memory when it is first
 * written to. */
static void fetch_rows(uint8_t *dst, uint64_t pitch, uint64_t rows, uint64_t bytes) {
#if defined(__GNUC__)
    for (uint64_t i = 0; i < rows; i++) {
        for (uint64_t at = 0; at < bytes; at += LINE) {
            __builtin_prefetch(dst + i * pitch + at, 1);
        }
    }
#else
    (void)dst;
    (void)pitch;
    (void)rows;
    (void)bytes;
#endif
}

/* A tile whose rows in the result share a few lines of the cache: by way of one whose rows do not.
 */
static void tile_apart(uint8_t *dst, const uint8_t *src, const sft__import_plane *p, uint64_t n,
                       uint64_t m) {
    uint8_t staged[TILE_READ * APART];
    const uint64_t pitch = p->dst_stride[0] * p->unit;
    sft__import_plane q = *p;

    q.dst_stride[0] = APART / p->unit;
    tile(staged, src, &q, n, m);
    for (uint64_t i = 0; i < n; i++) {
        memcpy(dst + i * pitch, staged + i * APART, (size_t)(m * p->unit));
    }
}

void sft__import_plane_turn(uint8_t *dst, const uint8_t *src, const sft__import_plane *p) {
    const uint64_t read = TILE_READ / p->unit;
    const uint64_t written = TILE_WRITTEN / p->unit;
    const uint64_t pitch = p->dst_stride[0] * p->unit;
    const bool rows = p->dst_stride[1] == 1 && pitch >= TILE_WRITTEN;
    const bool apart = rows && p->unit <= 2 && pitch % 1024 == 0;

    for (uint64_t i = 0; i < p->count[0]; i += read) {
        const uint64_t left = p->count[0] - i;
        const uint64_t n = left < read ? left : read;
        const uint64_t next = left - n < read ? left - n : read;
        for (uint64_t j = 0; j < p->count[1]; j += written) {
            const uint64_t m = p->count[1] - j < written ? p->count[1] - j : written;
            uint8_t *to = dst + (i * p->dst_stride[0] + j * p->dst_stride[1]) * p->unit;
            const uint8_t *from = src + (i * p->src_stride[0] + j * p->src_stride[1]) * p->unit;
            if (rows) {
                fetch_rows(to + n * pitch, pitch, next, m * p->unit);
            }
            if (apart) {
                tile_apart(to, from, p, n, m);
            } else {
                tile(to, from, p, n, m);
            }
        }
    }
}
