/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/nonfinite.c - counts NaN and infinities. Blocks are first searched 8 bytes at a time, all
 * lanes of a word at once and without a branch; only a block that has something is counted one by
 * one.
 */
#include "move/kernels/nonfinite.h"
#include "base/compiler.h"

/* v = bits & mask: NaN above `nan`, infinity where equal to `inf` (none if above all). Types whose
 * only NaN is one byte have mask 0: `nan` is that byte. */
typedef struct nonfinite_row {
    uint64_t mask;
    uint64_t nan;
    uint64_t inf;
    uint8_t id;
    uint8_t width;
} nonfinite_row;

#define NO_INF UINT64_MAX
static const nonfinite_row nonfinite_rows[] = {
    {0x7f, 0x7c, 0x7c, SFT_F8_E5M2, 1},
    {0x7f, 0x7e, NO_INF, SFT_F8_E4M3, 1},
    {0, 0xff, NO_INF, SFT_F8_E8M0, 1},
    {0, 0x80, NO_INF, SFT_F8_E4M3FNUZ, 1},
    {0, 0x80, NO_INF, SFT_F8_E5M2FNUZ, 1},
    {0x7fff, 0x7c00, 0x7c00, SFT_F16, 2},
    {0x7fff, 0x7f80, 0x7f80, SFT_BF16, 2},
    {0x7fffffff, 0x7f800000, 0x7f800000, SFT_F32, 4},
    {0x7fffffff, 0x7f800000, 0x7f800000, SFT_C64, 4},
    {0x7fffffffffffffff, 0x7ff0000000000000, 0x7ff0000000000000, SFT_F64, 8},
};

enum { NONFINITE_BLOCK = 4096 };

static uint64_t nonfinite_at(const uint8_t *p, unsigned width) {
    uint64_t v = 0;
    for (unsigned i = width; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

/* The same value in every lane of a word. */
static uint64_t lanes(uint64_t v, unsigned width) {
    for (unsigned n = width; n < 8; n *= 2) {
        v |= v << (8 * n);
    }
    return v;
}

/* True if a block has neither. Words are read in the file's order, so that lanes are numbers. */
static bool nonfinite_none(const uint8_t *p, const nonfinite_row *r) {
    const uint64_t top = lanes((uint64_t)1 << (8 * r->width - 1), r->width);
    uint64_t seen = 0;

    if (r->mask == 0) { /* a lane that is zero after the turn: borrow reaches its top bit */
        const uint64_t turn = lanes(r->nan, 1);
        const uint64_t ones = lanes(1, 1);
        for (size_t i = 0; i < NONFINITE_BLOCK; i += 8) {
            const uint64_t v = sft__base_load_le64(p + i) ^ turn;
            seen |= (v - ones) & ~v;
        }
    } else { /* masked values have no top bit: the sum gets it at `least`, and never a carry */
        const uint64_t least = r->inf < r->nan ? r->inf : r->nan + (r->inf != r->nan);
        const uint64_t mask = lanes(r->mask, r->width);
        const uint64_t add = lanes(((uint64_t)1 << (8 * r->width - 1)) - least, r->width);
        for (size_t i = 0; i < NONFINITE_BLOCK; i += 8) {
            seen |= (sft__base_load_le64(p + i) & mask) + add;
        }
    }
    return (seen & top) == 0;
}

static void nonfinite_each(const uint8_t *p, size_t size, const nonfinite_row *r, uint64_t *nans,
                           uint64_t *infinities) {
    for (size_t i = 0; i < size; i += r->width) {
        const uint64_t bits = nonfinite_at(p + i, r->width);
        const uint64_t v = bits & r->mask;
        *nans += r->mask == 0 ? bits == r->nan : v > r->nan;
        *infinities += v == r->inf;
    }
}

void sft__move_nonfinite_count(const sft_dtype *dtype, const void *data, size_t size,
                               uint64_t *nans, uint64_t *infinities) {
    const uint8_t *p = data;
    const nonfinite_row *r = NULL;

    for (size_t i = 0; i < sizeof nonfinite_rows / sizeof nonfinite_rows[0]; i++) {
        r = nonfinite_rows[i].id == dtype->id ? &nonfinite_rows[i] : r;
    }
    while (r != NULL && size >= r->width) {
        const size_t n = size < NONFINITE_BLOCK ? size - size % r->width : (size_t)NONFINITE_BLOCK;
        if (n < NONFINITE_BLOCK || !nonfinite_none(p, r)) {
            nonfinite_each(p, n, r, nans, infinities);
        }
        p += n;
        size -= n;
    }
}
