/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/zeroed.c - did nothing change but to zero? Pruning leaves such a tensor. Zeros of both are
 * counted for as long as that is so. Of whole numbers it is not asked: those of quantised weights are codes,
 * whose 0 may be any weight, others are indices. Read change.h first.
 */
#include "cli/compare/change.h"
#include <string.h>

enum { CHUNK = 1024 };

typedef struct found {
    size_t others; /* values that changed, and not to zero */
    size_t zeros_a;
    size_t zeros_b;
} found;

/* `value`: the bits that are all 0 in a zero, which has two signs. */
#define FIND(name, code)                                                                           \
    static found name(const unsigned char *a, const unsigned char *b, size_t n, code value) {      \
        found f = {0, 0, 0};                                                                       \
        for (size_t i = 0; i < n; i++) {                                                           \
            code x;                                                                                \
            code y;                                                                                \
            memcpy(&x, a + i * sizeof x, sizeof x);                                                \
            memcpy(&y, b + i * sizeof y, sizeof y);                                                \
            f.others += x != y && (y & value) != 0;                                                \
            f.zeros_a += (x & value) == 0;                                                         \
            f.zeros_b += (y & value) == 0;                                                         \
        }                                                                                          \
        return f;                                                                                  \
    }

FIND(find8, uint8_t)
FIND(find16, uint16_t)
FIND(find32, uint32_t)
FIND(find64, uint64_t)

static found find(const sft_dtype *t, const unsigned char *a, const unsigned char *b, size_t n) {
    switch (t->block_bytes) {
    case 1: /* 0x80 may be NaN */
        return find8(a, b, n, t->id == SFT_F8_E4M3 || t->id == SFT_F8_E5M2 ? 0x7f : 0xff);
    case 2:
        return find16(a, b, n, 0x7fff);
    case 4:
        return find32(a, b, n, UINT32_MAX >> 1);
    default:
        return find64(a, b, n, UINT64_MAX >> 1);
    }
}

void cli_change_zeroed(cli_change *x, const cli_blocks *both) {
    const sft_dtype *t = both->type_a;
    const size_t size = t->block_bytes;

    x->zeroed = t->id == both->type_b->id && t->block_elements == 1 && size <= 8 &&
                t->kind == SFT_KIND_FLOAT && t->id != SFT_F8_E8M0;
    for (size_t first = 0; first < both->n && x->zeroed; first += CHUNK) {
        const size_t n = both->n - first < CHUNK ? both->n - first : CHUNK;
        const found f = find(t, (const unsigned char *)both->a + first * size,
                             (const unsigned char *)both->b + first * size, n);
        x->zeroed = f.others == 0;
        x->zeros_a += f.zeros_a;
        x->zeros_b += f.zeros_b;
    }
}
