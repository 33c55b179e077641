/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/compare.c - see compare.h. Bytes that are equal are not looked into, unless NaN is to
 * differ from itself.
 */
#include "cli/compare/compare.h"
#include "cli/ui/values.h"
#include "cli/work.h"
#include <math.h>
#include <string.h>

enum { CHUNK = 1024 /* elements; a multiple of every type's blocks */ };

void cli_difference_init(cli_difference *d) {
    memset(d, 0, sizeof *d);
    d->first = UINT64_MAX;
}

void cli_difference_merge(cli_difference *d, const cli_difference *more) {
    if (more->differing == 0) {
        return;
    }
    if (d->differing == 0) {
        d->first = more->first;
        memcpy(d->a, more->a, sizeof d->a);
        memcpy(d->b, more->b, sizeof d->b);
    }
    d->differing += more->differing;
    d->not_finite += more->not_finite;
    d->max_abs = more->max_abs > d->max_abs ? more->max_abs : d->max_abs;
    d->max_rel = more->max_rel > d->max_rel ? more->max_rel : d->max_rel;
}

static uint64_t load64(const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

/* |a - b| of 64-bit integers without the rounding of a double below 2^53. */
static double exact_distance(uint64_t a, uint64_t b, bool is_signed) {
    const uint64_t flip = is_signed ? (uint64_t)1 << 63 : 0;
    const uint64_t x = a ^ flip;
    const uint64_t y = b ^ flip;
    return (double)(x > y ? x - y : y - x);
}

typedef struct operand {
    const sft_dtype *type;
    const unsigned char *data;
    const double *values; /* parts of complex numbers one after the other */
} operand;

static double distance(const operand *a, const operand *b, size_t i) {
    const bool wide =
        a->type->id == b->type->id && (a->type->id == SFT_I64 || a->type->id == SFT_U64);
    return wide ? exact_distance(load64(a->data + 8 * i), load64(b->data + 8 * i),
                                 a->type->id == SFT_I64)
                : fabs(a->values[i] - b->values[i]);
}

/* Do numbers i differ? Equal infinities do not; NaN as t says. */
static bool numbers_differ(const operand *a, const operand *b, const cli_tolerance *t, size_t i) {
    const double x = a->values[i];
    const double y = b->values[i];

    if (isnan(x) || isnan(y)) {
        return !(isnan(x) && isnan(y)) || t->nan_differs;
    }
    if (!t->numeric && a->type->id == b->type->id && signbit(x) != signbit(y)) {
        return true; /* bytes differ, if only in the sign of a zero */
    }
    if (isinf(x) || isinf(y)) {
        return x < y || x > y;
    }
    return distance(a, b, i) > t->atol + t->rtol * fabs(y);
}

static bool bytes_differ(const operand *a, const operand *b, size_t element) {
    const size_t size = a->type->block_bytes;
    return memcmp(a->data + element * size, b->data + element * size, size) != 0;
}

static void measure(cli_difference *d, const operand *a, const operand *b, size_t i) {
    const double x = a->values[i];
    const double y = b->values[i];

    if (!isfinite(x) || !isfinite(y)) {
        return;
    }
    const double abs = distance(a, b, i);
    const double rel = y < 0 || y > 0 ? abs / fabs(y) : 0;
    d->max_abs = abs > d->max_abs ? abs : d->max_abs;
    d->max_rel = rel > d->max_rel ? rel : d->max_rel;
}

static void keep_element(unsigned char *to, const operand *o, size_t element) {
    const size_t size = o->type->block_bytes;

    if (o->type->block_elements != 1) {
        memcpy(to, &o->values[element], sizeof o->values[element]);
    } else if (size <= sizeof((cli_difference *)NULL)->a) {
        memcpy(to, o->data + element * size, size);
    }
}

static void compare_values(cli_difference *d, const cli_tolerance *t, const cli_blocks *both,
                           const operand *a, const operand *b, size_t parts) {
    const bool bytes = !t->numeric && a->type->id == b->type->id && a->type->block_elements == 1;

    for (size_t e = 0; e < both->n; e++) {
        bool differs = bytes && bytes_differ(a, b, e);
        bool finite = true;
        for (size_t p = e * parts; p < (e + 1) * parts; p++) {
            const bool is_nan = isnan(a->values[p]) && isnan(b->values[p]);
            differs =
                differs || (!bytes && numbers_differ(a, b, t, p)) || (is_nan && t->nan_differs);
            finite = finite && isfinite(a->values[p]) && isfinite(b->values[p]);
        }
        if (!differs) {
            continue;
        }
        if (d->differing++ == 0) {
            d->first = both->first + e;
            keep_element(d->a, a, e);
            keep_element(d->b, b, e);
        }
        d->not_finite += !finite;
        for (size_t p = e * parts; p < (e + 1) * parts; p++) {
            measure(d, a, b, p);
        }
    }
}

static sft_status to_values(double *values, const sft_dtype *type, const void *data, size_t n,
                            size_t parts, sft_error *err) {
    const bool complex_type = type->kind == SFT_KIND_COMPLEX;
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);

    if (complex_type || parts == 1) {
        return sft_convert(values, data, n * parts,
                           &(sft_cast){f64, cli_number_type(type), SFT_CONVERT_HOST_DST}, err);
    }
    /* a real tensor beside a complex one: imaginary parts are zero */
    const sft_status status =
        sft_convert(values, data, n, &(sft_cast){f64, type, SFT_CONVERT_HOST_DST}, err);
    for (size_t i = n; status == SFT_OK && i-- > 0;) {
        values[2 * i] = values[i];
        values[2 * i + 1] = 0;
    }
    return status;
}

static bool same_bytes(const sft_dtype *type, const void *a, const void *b, size_t n) {
    return memcmp(a, b, n / type->block_elements * type->block_bytes) == 0;
}

cli_blocks cli_blocks_part(const cli_blocks *both, size_t from, size_t most) {
    cli_blocks part = *both;

    part.a = (const char *)both->a + cli_bytes_of(both->type_a, from);
    part.b = (const char *)both->b + cli_bytes_of(both->type_b, from);
    part.first += from;
    part.n = both->n - from < most ? both->n - from : most;
    return part;
}

static sft_status compare_chunk(cli_difference *d, const cli_tolerance *t, const cli_blocks *both,
                                sft_error *err) {
    const bool complex_type =
        both->type_a->kind == SFT_KIND_COMPLEX || both->type_b->kind == SFT_KIND_COMPLEX;
    const size_t parts = complex_type ? 2 : 1;
    double values_a[2 * CHUNK];
    double values_b[2 * CHUNK];
    const operand a = {both->type_a, both->a, values_a};
    const operand b = {both->type_b, both->b, values_b};

    sft_status status = to_values(values_a, both->type_a, both->a, both->n, parts, err);
    if (status == SFT_OK) {
        status = to_values(values_b, both->type_b, both->b, both->n, parts, err);
    }
    if (status == SFT_OK) {
        compare_values(d, t, both, &a, &b, parts);
    }
    return status;
}

sft_status cli_compare_block(cli_difference *d, const cli_tolerance *t, const cli_blocks *both,
                             sft_error *err) {
    const bool same_type = both->type_a->id == both->type_b->id;
    const bool opaque =
        both->type_a->kind == SFT_KIND_OPAQUE || both->type_b->kind == SFT_KIND_OPAQUE;
    sft_status status = SFT_OK;

    cli_difference_init(d);
    const bool same = same_type && same_bytes(both->type_a, both->a, both->b, both->n);
    if (same && !t->nan_differs) {
        return SFT_OK;
    }
    if (opaque || (t->any && same_type)) {
        if (!same) {
            d->differing = both->n; /* which of them is not told */
            d->first = both->first;
        }
        return SFT_OK;
    }
    for (size_t first = 0; first < both->n && status == SFT_OK; first += CHUNK) {
        const cli_blocks chunk = cli_blocks_part(both, first, CHUNK);
        if (!same_type || t->nan_differs || !same_bytes(both->type_a, chunk.a, chunk.b, chunk.n)) {
            status = compare_chunk(d, t, &chunk, err);
        }
    }
    return status;
}
