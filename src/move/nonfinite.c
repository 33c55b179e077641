/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/nonfinite.c - counts NaN and infinities. A block is first searched for its largest exponent,
 * which needs no branch; only a block that has something is counted. Read first: load.h.
 */
#include "move/load.h"

/* v = (bits ^ turn) & mask: NaN above `nan`, infinity where equal to `inf` (none if above all). */
typedef struct nonfinite_row {
    uint64_t turn;
    uint64_t mask;
    uint64_t nan;
    uint64_t inf;
    uint8_t id;
    uint8_t width;
} nonfinite_row;

#define NO_INF UINT64_MAX
static const nonfinite_row nonfinite_rows[] = {
    {0, 0x7f, 0x7c, 0x7c, SFT_F8_E5M2, 1},
    {0, 0x7f, 0x7e, NO_INF, SFT_F8_E4M3, 1},
    {0, 0xff, 0xfe, NO_INF, SFT_F8_E8M0, 1},
    {0x7f, 0xff, 0xfe, NO_INF, SFT_F8_E4M3FNUZ, 1}, /* 0x80 alone */
    {0x7f, 0xff, 0xfe, NO_INF, SFT_F8_E5M2FNUZ, 1},
    {0, 0x7fff, 0x7c00, 0x7c00, SFT_F16, 2},
    {0, 0x7fff, 0x7f80, 0x7f80, SFT_BF16, 2},
    {0, 0x7fffffff, 0x7f800000, 0x7f800000, SFT_F32, 4},
    {0, 0x7fffffff, 0x7f800000, 0x7f800000, SFT_C64, 4},
    {0, 0x7fffffffffffffff, 0x7ff0000000000000, 0x7ff0000000000000, SFT_F64, 8},
};

enum { NONFINITE_BLOCK = 4096 };

static uint64_t nonfinite_at(const uint8_t *p, unsigned width) {
    uint64_t v = 0;
    for (unsigned i = width; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

/* The largest v of a block, in host order where that is little-endian; else by bytes. */
#define NONFINITE_MOST(type, name)                                                                 \
    static uint64_t name(const uint8_t *p, const nonfinite_row *r) {                               \
        const type turn = (type)r->turn, mask = (type)r->mask;                                     \
        type most = 0;                                                                             \
        for (size_t i = 0; i < NONFINITE_BLOCK / sizeof(type); i++) {                              \
            type v;                                                                                \
            memcpy(&v, p + i * sizeof v, sizeof v);                                                \
            v = (type)((v ^ turn) & mask);                                                         \
            most = v > most ? v : most;                                                            \
        }                                                                                          \
        return most;                                                                               \
    }

NONFINITE_MOST(uint8_t, most_8)
NONFINITE_MOST(uint16_t, most_16)
NONFINITE_MOST(uint32_t, most_32)
NONFINITE_MOST(uint64_t, most_64)

static bool nonfinite_none(const uint8_t *p, const nonfinite_row *r) {
    const uint64_t least = r->inf < r->nan ? r->inf : r->nan;
    uint64_t most;

    if (SFT_BIG_ENDIAN && r->width > 1) {
        return false;
    }
    switch (r->width) {
    case 1:
        most = most_8(p, r);
        break;
    case 2:
        most = most_16(p, r);
        break;
    case 4:
        most = most_32(p, r);
        break;
    default:
        most = most_64(p, r);
        break;
    }
    return most < least;
}

void sft__nonfinite_count(const sft_dtype *dtype, const void *data, size_t size, uint64_t *nans,
                          uint64_t *infinities) {
    const uint8_t *p = data;
    const nonfinite_row *r = NULL;

    for (size_t i = 0; i < sizeof nonfinite_rows / sizeof nonfinite_rows[0]; i++) {
        r = nonfinite_rows[i].id == dtype->id ? &nonfinite_rows[i] : r;
    }
    while (r != NULL && size >= r->width) {
        const size_t n = size < NONFINITE_BLOCK ? size - size % r->width : (size_t)NONFINITE_BLOCK;
        if (n < NONFINITE_BLOCK || !nonfinite_none(p, r)) {
            for (size_t i = 0; i < n; i += r->width) {
                const uint64_t v = (nonfinite_at(p + i, r->width) ^ r->turn) & r->mask;
                *nans += v > r->nan;
                *infinities += v == r->inf;
            }
        }
        p += n;
        size -= n;
    }
}
