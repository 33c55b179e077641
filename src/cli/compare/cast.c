/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/cast.c - is b what a becomes when it is cast? As sft_convert does it (docs/casts.md), which is
 * as PyTorch; where others differ from it, as they do: a NaN may have other bits, and F64 may become a
 * smaller type by one rounding (NumPy's F16) as well as through F32. Read change.h first.
 */
#include "cli/compare/change.h"
#include "cli/work.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 512, LARGEST = 16 /* bytes of a number */ };

static const unsigned char *at(const void *data, const sft_dtype *t, size_t number) {
    return (const unsigned char *)data + number / t->block_elements * t->block_bytes;
}

/* To F32 by rounding to odd: what is rounded from there to fewer bits was rounded once (Boldo, Melquiond
 * 2008, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd"). */
static float rounded_to_odd(double x) {
    float near = (float)x;
    uint32_t bits;

    memcpy(&bits, &near, sizeof bits);
    if (isfinite(x) && (double)near != x && (bits & 1) == 0) {
        bits = fabs((double)near) > fabs(x) ? bits - 1 : bits + 1;
        memcpy(&near, &bits, sizeof near);
    }
    return near;
}

/* `made` is a, cast: is what differs from it in b what other programs make? */
static bool is_as_good(const cli_blocks *both, const unsigned char *made) {
    const sft_dtype *to = both->type_b;
    const size_t size = to->block_bytes;
    const bool twice = both->type_a->id == SFT_F64 && size < sizeof(float);
    unsigned char once[CHUNK * sizeof(double)];
    double a[CHUNK];
    double b[CHUNK];
    float odd[CHUNK];
    const sft_dtype *wide = sft_dtype_get(SFT_F64);
    const sft_cast casts[] = {{wide, both->type_a, SFT_CONVERT_HOST_DST},
                              {wide, to, SFT_CONVERT_HOST_DST},
                              {to, sft_dtype_get(SFT_F32), SFT_CONVERT_HOST_SRC}};
    sft_error err;

    if (both->type_a->kind != SFT_KIND_FLOAT || to->kind != SFT_KIND_FLOAT ||
        to->block_elements != 1 || sft_convert(a, both->a, both->n, &casts[0], &err) != SFT_OK ||
        sft_convert(b, both->b, both->n, &casts[1], &err) != SFT_OK) {
        return false;
    }
    for (size_t i = 0; i < both->n; i++) {
        odd[i] = rounded_to_odd(a[i]);
    }
    if (twice && sft_convert(once, odd, both->n, &casts[2], &err) != SFT_OK) {
        return false;
    }
    for (size_t i = 0; i < both->n; i++) {
        const unsigned char *found = at(both->b, to, i);
        if (memcmp(made + i * size, found, size) != 0 && !(isnan(a[i]) && isnan(b[i])) &&
            !(twice && memcmp(once + i * size, found, size) == 0)) {
            return false;
        }
    }
    return true;
}

bool cli_change_is_cast(const cli_blocks *both) {
    const sft_cast cast = {both->type_b, both->type_a, 0};
    unsigned char made[CHUNK * LARGEST];
    sft_error err;

    for (size_t first = 0; first < both->n; first += CHUNK) {
        const cli_blocks part = cli_blocks_part(both, first, CHUNK);
        const size_t size = (size_t)cli_bytes_of(part.type_b, part.n);
        if (size > sizeof made || sft_convert(made, part.a, part.n, &cast, &err) != SFT_OK ||
            (memcmp(made, part.b, size) != 0 && !is_as_good(&part, made))) {
            return false; /* types that cannot be cast, too */
        }
    }
    return true;
}
