/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/change.c - see change.h. Types of at most four bytes go through single precision, in which each
 * of their numbers is exact; sums are double.
 */
#include "cli/compare/change.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 1024 /* numbers; a multiple of every block of the format's types */, LANES = 8 };

void cli_change_init(cli_change *x) {
    memset(x, 0, sizeof *x);
    x->cast_equal = true;
}

static bool is_number(const sft_dtype *t) {
    return t->kind != SFT_KIND_OPAQUE && (t->kind != SFT_KIND_COMPLEX || t->id == SFT_C64);
}

bool cli_change_measurable(const sft_dtype *a, const sft_dtype *b) {
    return is_number(a) && is_number(b) &&
           (a->kind == SFT_KIND_COMPLEX) == (b->kind == SFT_KIND_COMPLEX);
}

/* ---------------------------------------------------------------- numbers */

typedef struct sums {
    double a2[LANES];
    double b2[LANES];
    double d2[LANES];
    double ab[LANES];
    double far[LANES];
    uint64_t not_finite[LANES];
} sums;

/* With the exponent it has: bits that single precision lacks are dropped, not rounded. What is below
 * its normal numbers counts as the least of them. */
static inline float toward_zero(double v) {
    const bool tiny = fabs(v) > 0 && fabs(v) < (double)FLT_MIN;
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    bits &= ~UINT64_C(0x1fffffff);
    memcpy(&v, &bits, sizeof v);
    return tiny ? FLT_MIN : (float)v;
}

/* Of numbers that are not finite on one side the distance becomes 0, and both count as 0. n: a multiple of
 * LANES; a and b are overwritten, d gets the distances. */
#define MEASURE(name, real, top)                                                                   \
    static void name(sums *s, real *a, real *b, float *d, size_t n) {                              \
        for (size_t i = 0; i < n; i += LANES) {                                                    \
            for (size_t l = 0; l < LANES; l++) {                                                   \
                const real x = a[i + l];                                                           \
                const real y = b[i + l];                                                           \
                const bool good = x <= top && x >= -top && y <= top && y >= -top;                  \
                const real u = good ? x : 0;                                                       \
                const real v = good ? y : 0;                                                       \
                const double p = (double)u;                                                        \
                const double q = (double)v;                                                        \
                const double r = q - p;                                                            \
                d[i + l] = toward_zero(r);                                                         \
                b[i + l] = v;                                                                      \
                s->a2[l] += p * p;                                                                 \
                s->b2[l] += q * q;                                                                 \
                s->ab[l] += p * q;                                                                 \
                s->d2[l] += r * r;                                                                 \
                s->far[l] = s->far[l] > r ? s->far[l] : r;                                         \
                s->far[l] = s->far[l] > -r ? s->far[l] : -r;                                       \
                s->not_finite[l] += good ? 0u : 1u;                                                \
            }                                                                                      \
        }                                                                                          \
    }

MEASURE(measure_float, float, FLT_MAX)
MEASURE(measure_double, double, DBL_MAX)

/* Whole numbers of 64 bits, as doubles and as they are. */
typedef struct whole {
    const double *a;
    const double *b;
    const unsigned char *codes_a;
    const unsigned char *codes_b;
    uint64_t top; /* the bit of the sign, if there is one */
} whole;

/* With distances that doubles do not have. */
static void measure_whole(sums *s, const whole *w, float *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t x;
        uint64_t y;
        memcpy(&x, w->codes_a + i * sizeof x, sizeof x);
        memcpy(&y, w->codes_b + i * sizeof y, sizeof y);
        const bool up = (y ^ w->top) >= (x ^ w->top);
        const double r = up ? (double)(y - x) : -(double)(x - y);
        d[i] = toward_zero(r);
        s->a2[0] += w->a[i] * w->a[i];
        s->b2[0] += w->b[i] * w->b[i];
        s->ab[0] += w->a[i] * w->b[i];
        s->d2[0] += r * r;
        s->far[0] = fmax(s->far[0], fabs(r));
    }
}

static void take_sums(cli_change *x, const sums *s) {
    for (size_t l = 0; l < LANES; l++) {
        x->a2 += s->a2[l];
        x->b2 += s->b2[l];
        x->d2 += s->d2[l];
        x->ab += s->ab[l];
        x->max_abs = s->far[l] > x->max_abs ? s->far[l] : x->max_abs;
        x->not_finite += s->not_finite[l];
    }
}

static void count_bins(cli_change *x, const float *d, size_t n) {
    uint32_t by_exponent[2][256] = {{0}};

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &d[i], sizeof bits);
        by_exponent[i & 1][bits >> 23 & 0xff] += bits << 1 != 0;
    }
    for (int e = 0; e < 256; e++) {
        const int bin = e - 127 - CLI_CHANGE_LEAST;
        const int at = bin < 0 ? 0 : bin < CLI_CHANGE_BINS ? bin : CLI_CHANGE_BINS - 1;
        x->bins[at] += by_exponent[0][e] + (uint64_t)by_exponent[1][e];
    }
}

/* Bits of the significand behind the point; -1: not a type of which rounding is modelled. */
static int precision_of(const sft_dtype *t) {
    switch (t->id) {
    case SFT_F64:
        return 52;
    case SFT_F32:
        return 23;
    case SFT_F16:
        return 10;
    case SFT_BF16:
        return 7;
    default:
        return -1;
    }
}

/* ulp(b)^2 / 12 of a number with exponent e is 4^(e - precision) / 12: counted by exponents. */
static double rounding_of(const float *b, size_t n, int precision) {
    uint32_t by_exponent[2][256] = {{0}};
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &b[i], sizeof bits);
        by_exponent[i & 1][bits >> 23 & 0xff]++;
    }
    for (int e = 1; e < 256; e++) {
        const uint32_t count = by_exponent[0][e] + by_exponent[1][e];
        sum += count == 0 ? 0 : count * ldexp(1.0 / 12, 2 * (e - 127 - precision));
    }
    return sum;
}

/* ---------------------------------------------------------------- codes */

/* Codes as whole numbers in the order of the values they stand for: the distance of two of them is the number
 * of steps between their values. `top`: the code of infinity. */
#define STEPS(name, code, wide, sign)                                                              \
    static uint64_t name(const unsigned char *a, const unsigned char *b, size_t n, code top) {     \
        wide far = 0;                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            code x;                                                                                \
            code y;                                                                                \
            memcpy(&x, a + i * sizeof x, sizeof x);                                                \
            memcpy(&y, b + i * sizeof y, sizeof y);                                                \
            const code p = (code)(x & (code)~sign);                                                \
            const code q = (code)(y & (code)~sign);                                                \
            const wide apart = p > q ? (wide)(p - q) : (wide)(q - p);                              \
            const wide step = ((x ^ y) & sign) != 0 ? (wide)((wide)p + q) : apart;                 \
            const wide counted = p < top && q < top ? step : 0;                                    \
            far = far > counted ? far : counted;                                                   \
        }                                                                                          \
        return far;                                                                                \
    }

STEPS(steps16, uint16_t, uint32_t, UINT16_C(0x8000))
STEPS(steps32, uint32_t, uint32_t, UINT32_C(0x80000000))
STEPS(steps64, uint64_t, uint64_t, UINT64_C(0x8000000000000000))

static bool count_steps(cli_change *x, const sft_dtype *t, const void *a, const void *b, size_t n) {
    switch (t->id) {
    case SFT_BF16:
        x->max_ulp = steps16(a, b, n, 0x7f80);
        return true;
    case SFT_F16:
        x->max_ulp = steps16(a, b, n, 0x7c00);
        return true;
    case SFT_F32:
        x->max_ulp = steps32(a, b, n, UINT32_C(0x7f800000));
        return true;
    case SFT_F64:
        x->max_ulp = steps64(a, b, n, UINT64_C(0x7ff0000000000000));
        return true;
    default:
        return false;
    }
}

#define EQUAL(name, code)                                                                          \
    static size_t name(const unsigned char *a, const unsigned char *b, size_t n) {                 \
        size_t equal = 0;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            code x;                                                                                \
            code y;                                                                                \
            memcpy(&x, a + i * sizeof x, sizeof x);                                                \
            memcpy(&y, b + i * sizeof y, sizeof y);                                                \
            equal += x == y;                                                                       \
        }                                                                                          \
        return equal;                                                                              \
    }

EQUAL(equal8, uint8_t)
EQUAL(equal16, uint16_t)
EQUAL(equal32, uint32_t)
EQUAL(equal64, uint64_t)

static size_t equal_blocks(const unsigned char *a, const unsigned char *b, size_t n, size_t size) {
    size_t equal = 0;
    for (size_t i = 0; i < n; i++) {
        equal += memcmp(a + i * size, b + i * size, size) == 0;
    }
    return equal;
}

static bool equal_codes(cli_change *x, const cli_blocks *both) {
    const sft_dtype *t = both->type_a;

    if (t->id != both->type_b->id || t->block_elements != 1) {
        return false;
    }
    switch (t->block_bytes) {
    case 1:
        x->equal = equal8(both->a, both->b, both->n);
        break;
    case 2:
        x->equal = equal16(both->a, both->b, both->n);
        break;
    case 4:
        x->equal = equal32(both->a, both->b, both->n);
        break;
    case 8:
        x->equal = equal64(both->a, both->b, both->n);
        break;
    default:
        x->equal = equal_blocks(both->a, both->b, both->n, t->block_bytes);
        break;
    }
    return true;
}

/* ---------------------------------------------------------------- a block */

typedef struct work {
    const cli_blocks *both;
    const sft_dtype *from_a; /* of complex numbers: of their parts */
    const sft_dtype *from_b;
    bool same_type;
    bool wide;  /* through double */
    bool whole; /* numbers of 64 bits */
    int precision;
    bool count_equal; /* by numbers */
} work;

static bool fits_float(const sft_dtype *t) {
    return t->kind == SFT_KIND_FLOAT ? t->block_bytes <= 4
                                     : t->kind != SFT_KIND_COMPLEX && t->block_bytes <= 2;
}

static const unsigned char *at(const void *data, const sft_dtype *t, size_t number) {
    return (const unsigned char *)data + number / t->block_elements * t->block_bytes;
}

#define EQUAL_NUMBERS(a, b, n, equal)                                                              \
    for (size_t i = 0; i < (n); i++) {                                                             \
        (equal) += (a)[i] == (b)[i] || (isnan((a)[i]) && isnan((b)[i])) ? 1u : 0u;                 \
    }

/* Numbers first .. first + n of the block; n is at most CHUNK. */
static sft_status measure_chunk(cli_change *x, sums *s, const work *w, size_t first, size_t n,
                                sft_error *err) {
    const void *a = at(w->both->a, w->from_a, first);
    const void *b = at(w->both->b, w->from_b, first);
    const size_t padded = (n + LANES - 1) / LANES * LANES;
    float d[CHUNK] = {0};
    float shown[CHUNK];
    sft_status status;

    if (w->wide) {
        double va[CHUNK] = {0};
        double vb[CHUNK] = {0};
        const sft_dtype *to = sft_dtype_get(SFT_F64);
        status = sft_convert(va, a, n, &(sft_cast){to, w->from_a, SFT_CONVERT_HOST_DST}, err);
        if (status == SFT_OK) {
            status = sft_convert(vb, b, n, &(sft_cast){to, w->from_b, SFT_CONVERT_HOST_DST}, err);
        }
        if (status != SFT_OK) {
            return status;
        }
        if (w->count_equal) {
            EQUAL_NUMBERS(va, vb, n, x->equal)
        }
        if (w->whole) {
            measure_whole(
                s, &(whole){va, vb, a, b, w->from_a->kind == SFT_KIND_INT ? UINT64_C(1) << 63 : 0},
                d, n);
        } else {
            measure_double(s, va, vb, d, padded);
        }
        for (size_t i = 0; i < n; i++) {
            shown[i] = toward_zero(vb[i]);
        }
    } else {
        float va[CHUNK] = {0};
        const sft_dtype *to = sft_dtype_get(SFT_F32);
        memset(shown, 0, sizeof shown);
        status = sft_convert(va, a, n, &(sft_cast){to, w->from_a, SFT_CONVERT_HOST_DST}, err);
        if (status == SFT_OK) {
            status =
                sft_convert(shown, b, n, &(sft_cast){to, w->from_b, SFT_CONVERT_HOST_DST}, err);
        }
        if (status != SFT_OK) {
            return status;
        }
        if (w->count_equal) {
            EQUAL_NUMBERS(va, shown, n, x->equal)
        }
        measure_float(s, va, shown, d, padded);
    }
    count_bins(x, d, n);
    if (w->precision >= 0) {
        x->rounding += rounding_of(shown, n, w->precision);
    }
    return SFT_OK;
}

/* Is b what a becomes in b's type? A type that a cannot be cast to is an answer, not a failure. */
static bool is_cast(const cli_blocks *both, size_t numbers) {
    const sft_cast cast = {both->type_b, both->type_a, 0};
    unsigned char made[CHUNK * 16];
    sft_error err;

    for (size_t first = 0; first < numbers; first += CHUNK) {
        const size_t n = numbers - first < CHUNK ? numbers - first : CHUNK;
        const size_t size = n / both->type_b->block_elements * both->type_b->block_bytes;
        if (size > sizeof made ||
            sft_convert(made, at(both->a, both->type_a, first), n, &cast, &err) != SFT_OK ||
            memcmp(made, at(both->b, both->type_b, first), size) != 0) {
            return false;
        }
    }
    return true;
}

sft_status cli_change_block(cli_change *x, const cli_blocks *both, sft_error *err) {
    const bool complex_type = both->type_a->kind == SFT_KIND_COMPLEX;
    const sft_dtype *part = sft_dtype_get(SFT_F32);
    const size_t numbers = complex_type ? 2 * both->n : both->n;
    work w = {.both = both,
              .from_a = complex_type ? part : both->type_a,
              .from_b = complex_type ? part : both->type_b,
              .same_type = both->type_a->id == both->type_b->id};
    sums s;
    sft_status status = SFT_OK;

    cli_change_init(x);
    x->count = both->n;
    const bool counted = equal_codes(x, both);
    if (!cli_change_measurable(both->type_a, both->type_b)) {
        if (!counted &&
            w.same_type) { /* blocks of several elements: all of one are equal, or none */
            const sft_dtype *t = both->type_a;
            x->equal = (uint64_t)t->block_elements *
                       equal_blocks(both->a, both->b, both->n / t->block_elements, t->block_bytes);
        }
        x->no_ulp = true;
        x->cast_equal = w.same_type;
        return SFT_OK;
    }
    w.wide = !complex_type && !(fits_float(w.from_a) && fits_float(w.from_b));
    w.whole = w.same_type && (w.from_a->id == SFT_I64 || w.from_a->id == SFT_U64);
    w.precision = precision_of(w.from_b);
    w.count_equal = !counted;
    memset(&s, 0, sizeof s);
    for (size_t first = 0; first < numbers && status == SFT_OK; first += CHUNK) {
        const size_t n = numbers - first < CHUNK ? numbers - first : CHUNK;
        status = measure_chunk(x, &s, &w, first, n, err);
    }
    take_sums(x, &s);
    x->no_ulp = !w.same_type || !count_steps(x, w.from_a, both->a, both->b, numbers);
    x->cast_equal = w.same_type || is_cast(both, both->n);
    return status;
}

void cli_change_merge(cli_change *x, const cli_change *more) {
    x->count += more->count;
    x->equal += more->equal;
    x->not_finite += more->not_finite;
    x->a2 += more->a2;
    x->b2 += more->b2;
    x->d2 += more->d2;
    x->ab += more->ab;
    x->rounding += more->rounding;
    x->max_abs = more->max_abs > x->max_abs ? more->max_abs : x->max_abs;
    x->max_ulp = more->max_ulp > x->max_ulp ? more->max_ulp : x->max_ulp;
    x->no_ulp = x->no_ulp || more->no_ulp;
    x->cast_equal = x->cast_equal && more->cast_equal;
    for (size_t i = 0; i < CLI_CHANGE_BINS; i++) {
        x->bins[i] += more->bins[i];
    }
}

double cli_change_relative(const cli_change *x) {
    return x->d2 > 0 ? sqrt(x->d2) / sqrt(x->a2) : 0;
}

double cli_change_cosine(const cli_change *x) {
    const double cosine = x->ab / (sqrt(x->a2) * sqrt(x->b2));
    return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}
