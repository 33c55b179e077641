/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/change.c - see change.h. A block is taken in chunks that stay in the nearest cache, with loops
 * that compilers vectorise. Types of at most four bytes go through single precision, in which each of
 * their numbers is exact; distances and sums are double.
 */
#include "cli/compare/change.h"
#include "cli/ui/values.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    CHUNK = 512, /* numbers; a multiple of every block of the format's types */
    LANES = 4,   /* sums that do not wait for each other */
    EXPONENTS = 2048
};

void cli_change_init(cli_change *x) {
    memset(x, 0, sizeof *x);
    x->cast_equal = true;
    x->back_equal = true;
    x->zeroed = true;
}

bool cli_change_measurable(const sft_dtype *a, const sft_dtype *b) {
    return a->kind != SFT_KIND_OPAQUE && b->kind != SFT_KIND_OPAQUE &&
           (a->id == b->id || (a->kind != SFT_KIND_COMPLEX && b->kind != SFT_KIND_COMPLEX));
}

/* ---------------------------------------------------------------- numbers */

typedef union values {
    float f[CHUNK];
    double d[CHUNK];
} values;

typedef struct work {
    const cli_blocks *both;
    const sft_dtype *from_a; /* of complex numbers: of their parts */
    const sft_dtype *from_b;
    size_t parts; /* of an element */
    bool same_type;
    bool count_numbers; /* that are equal; else codes */
    bool wide;          /* through double */
    bool whole;         /* numbers of 64 bits */
    double ulp2;        /* ulp^2 / 12 of a number, less the square of its power of two; 0: none */
    values a;
    values b;
    double d[CHUNK];                        /* distances */
    uint32_t by_exponent[EXPONENTS][LANES]; /* distances, from least_exponent() on */
} work;

/* Two numbers at once, which every processor of 64 bits has instructions for. */
typedef double two __attribute__((vector_size(16)));
typedef int64_t two_bits __attribute__((vector_size(16)));

static inline two two_of_float(const float *v) {
    typedef float halves __attribute__((vector_size(8)));
    halves both;
    memcpy(&both, v, sizeof both);
    return __builtin_convertvector(both, two);
}

static inline two two_of_double(const double *v) {
    two both;
    memcpy(&both, v, sizeof both);
    return both;
}

static inline two keep_bits(two v, uint64_t mask) {
    const two_bits both = {(int64_t)mask, (int64_t)mask};
    return (two)((two_bits)v & both);
}

static inline two power_of(two v) {
    return keep_bits(v, UINT64_C(0x7ff0000000000000));
}

static double sum_of(const two *lanes) {
    return (lanes[0][0] + lanes[0][1]) + (lanes[1][0] + lanes[1][1]);
}

#define finite_float(v)  (fabsf(v) <= FLT_MAX)
#define finite_double(v) (fabs(v) <= DBL_MAX)

/* only_finite: numbers that are not finite on one side count as 0 on both; how many. measure: d gets the
 * distances; n is a multiple of LANES, as for square: there b is a. */
#define MEASURE(real, word)                                                                        \
    static word only_finite_##real(real *a, real *b, size_t n) {                                   \
        word bad = 0;                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            bad += ((word)finite_##real(a[i]) & (word)finite_##real(b[i])) ^ 1u;                   \
        }                                                                                          \
        for (size_t i = 0; i < n && bad > 0; i++) {                                                \
            const bool good = finite_##real(a[i]) && finite_##real(b[i]);                          \
            a[i] = good ? a[i] : 0;                                                                \
            b[i] = good ? b[i] : 0;                                                                \
        }                                                                                          \
        return bad;                                                                                \
    }                                                                                              \
    static void measure_##real(cli_change *x, work *w, const real *a, const real *b, size_t n) {   \
        two a2[2] = {{0}};                                                                         \
        two b2[2] = {{0}};                                                                         \
        two ab[2] = {{0}};                                                                         \
        two d2[2] = {{0}};                                                                         \
        two power2[2] = {{0}};                                                                     \
        for (size_t i = 0; i < n; i += LANES) {                                                    \
            for (size_t l = 0; l < 2; l++) {                                                       \
                const two p = two_of_##real(a + i + 2 * l);                                        \
                const two q = two_of_##real(b + i + 2 * l);                                        \
                const two r = q - p;                                                               \
                const two d = keep_bits(r, INT64_MAX);                                             \
                const two power = power_of(q);                                                     \
                memcpy(w->d + i + 2 * l, &d, sizeof d);                                            \
                a2[l] += p * p;                                                                    \
                b2[l] += q * q;                                                                    \
                ab[l] += p * q;                                                                    \
                d2[l] += r * r;                                                                    \
                power2[l] += power * power;                                                        \
            }                                                                                      \
        }                                                                                          \
        x->a2 += sum_of(a2);                                                                       \
        x->b2 += sum_of(b2);                                                                       \
        x->ab += sum_of(ab);                                                                       \
        x->d2 += sum_of(d2);                                                                       \
        x->rounding += w->ulp2 > 0 ? sum_of(power2) * w->ulp2 : 0;                                 \
    }                                                                                              \
    static void square_##real(cli_change *x, const work *w, const real *a, size_t n) {             \
        two a2[2] = {{0}};                                                                         \
        two power2[2] = {{0}};                                                                     \
        for (size_t i = 0; i < n; i += LANES) {                                                    \
            for (size_t l = 0; l < 2; l++) {                                                       \
                const two p = two_of_##real(a + i + 2 * l);                                        \
                const two power = power_of(p);                                                     \
                a2[l] += p * p;                                                                    \
                power2[l] += power * power;                                                        \
            }                                                                                      \
        }                                                                                          \
        const double sum = sum_of(a2);                                                             \
        x->a2 += sum;                                                                              \
        x->b2 += sum;                                                                              \
        x->ab += sum;                                                                              \
        x->rounding += w->ulp2 > 0 ? sum_of(power2) * w->ulp2 : 0;                                 \
    }

MEASURE(float, uint32_t)
MEASURE(double, uint64_t)

/* Of whole numbers of 64 bits, with distances that doubles do not have. */
static void measure_whole(cli_change *x, work *w, const unsigned char *a, const unsigned char *b,
                          size_t n) {
    const uint64_t top = w->from_a->kind == SFT_KIND_INT ? UINT64_C(1) << 63 : 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t p;
        uint64_t q;
        memcpy(&p, a + i * sizeof p, sizeof p);
        memcpy(&q, b + i * sizeof q, sizeof q);
        const bool up = (q ^ top) >= (p ^ top);
        w->d[i] = up ? (double)(q - p) : (double)(p - q);
        x->a2 += w->a.d[i] * w->a.d[i];
        x->b2 += w->b.d[i] * w->b.d[i];
        x->ab += w->a.d[i] * w->b.d[i];
        x->d2 += w->d[i] * w->d[i];
    }
}

static void find_largest(cli_change *x, const double *d, size_t n) {
    double top[LANES] = {0};

    for (size_t i = 0; i < n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            top[l] = d[i + l] > top[l] ? d[i + l] : top[l];
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        x->max_abs = top[l] > x->max_abs ? top[l] : x->max_abs;
    }
}

/* n: a multiple of LANES, each of which has a table, so that increments seldom wait for each other. */
static void count_exponents(work *w, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            uint64_t bits;
            memcpy(&bits, &w->d[i + l], sizeof bits);
            w->by_exponent[bits >> 52][l]++;
        }
    }
}

/* Exponents that distances can have, as doubles have them; 0 is that of 0. */
static int least_exponent(const work *w) {
    return w->wide ? 1 : 1023 - 149;
}

static int most_exponent(const work *w) {
    return w->wide ? EXPONENTS - 1 : 1023 + 128;
}

static void take_exponents(cli_change *x, const work *w) {
    for (int e = least_exponent(w); e <= most_exponent(w); e++) {
        const uint32_t *lanes = w->by_exponent[e];
        const int bin = e - 1023 - CLI_CHANGE_LEAST;
        const int at = bin < 0 ? 0 : bin < CLI_CHANGE_BINS ? bin : CLI_CHANGE_BINS - 1;
        x->bins[at] += (uint64_t)lanes[0] + lanes[1] + lanes[2] + lanes[3];
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

/* ulp^2 / 12 of a number with exponent e is 4^(e - precision) / 12. */
static double ulp2_of(const sft_dtype *t) {
    const int precision = precision_of(t);
    return precision < 0 ? 0 : ldexp(1.0 / 12, -2 * precision);
}

/* ---------------------------------------------------------------- codes */

/* Codes as whole numbers in the order of the values they stand for: the distance of two of them is the number
 * of steps between their values. `top`: the code of infinity. Signed ones are compared, which is what
 * processors have for all widths. */
#define STEPS(name, code, whole, bits)                                                             \
    static code name(const unsigned char *a, const unsigned char *b, size_t n, whole top) {        \
        const code sign = (code)((code)1 << (bits - 1));                                           \
        whole far = (whole)sign;                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            code x;                                                                                \
            code y;                                                                                \
            memcpy(&x, a + i * sizeof x, sizeof x);                                                \
            memcpy(&y, b + i * sizeof y, sizeof y);                                                \
            const whole m = (whole)(x & (code)~sign);                                              \
            const whole k = (whole)(y & (code)~sign);                                              \
            const whole s = (whole)((whole)x >> (bits - 1));                                       \
            const whole t = (whole)((whole)y >> (bits - 1));                                       \
            const whole p = (whole)((m ^ s) - s);                                                  \
            const whole q = (whole)((k ^ t) - t);                                                  \
            const whole high = p > q ? p : q;                                                      \
            const whole low = p > q ? q : p;                                                       \
            const whole finite = (whole)((whole)((m - top) & (k - top)) >> (bits - 1));            \
            const code apart = (code)((code)((code)high - (code)low) & (code)finite);              \
            const whole ordered = (whole)(apart ^ sign);                                           \
            far = far > ordered ? far : ordered;                                                   \
        }                                                                                          \
        return (code)((code)far ^ sign);                                                           \
    }

STEPS(steps16, uint16_t, int16_t, 16)
STEPS(steps32, uint32_t, int32_t, 32)
STEPS(steps64, uint64_t, int64_t, 64)

/* 0, too, of types that have no such steps. */
static uint64_t steps_of(const sft_dtype *t, const void *a, const void *b, size_t n) {
    switch (t->id) {
    case SFT_BF16:
        return steps16(a, b, n, 0x7f80);
    case SFT_F16:
        return steps16(a, b, n, 0x7c00);
    case SFT_F32:
        return steps32(a, b, n, 0x7f800000);
    case SFT_F64:
        return steps64(a, b, n, INT64_C(0x7ff0000000000000));
    default:
        return 0;
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

/* Of n elements of one type; of blocks of several elements all of one are equal, or none. */
static size_t equal_codes(const sft_dtype *t, const void *a, const void *b, size_t n) {
    switch (t->block_elements == 1 ? t->block_bytes : 0) {
    case 1:
        return equal8(a, b, n);
    case 2:
        return equal16(a, b, n);
    case 4:
        return equal32(a, b, n);
    case 8:
        return equal64(a, b, n);
    default:
        return t->block_elements * equal_blocks(a, b, n / t->block_elements, t->block_bytes);
    }
}

/* ---------------------------------------------------------------- a block */

static bool fits_float(const sft_dtype *t) {
    return t->kind == SFT_KIND_FLOAT ? t->block_bytes <= 4
                                     : t->kind != SFT_KIND_COMPLEX && t->block_bytes <= 2;
}

static const unsigned char *at(const void *data, const sft_dtype *t, size_t number) {
    return (const unsigned char *)data + number / t->block_elements * t->block_bytes;
}

#define EQUAL_NUMBERS(a, b, n, equal)                                                              \
    for (size_t i = 0; i < (n); i++) {                                                             \
        (equal) += ((a)[i] == (b)[i]) | (isnan((a)[i]) & isnan((b)[i])) ? 1u : 0u;                 \
    }

static void count_equal(cli_change *x, const work *w, const void *a, const void *b, size_t n) {
    if (w->same_type && w->count_numbers) {
        /* each code is another number, or a zero of another sign */
        for (size_t i = 0; i < n; i++) {
            x->equal += memcmp(&w->a.f[i], &w->b.f[i], sizeof w->a.f[0]) == 0;
        }
    } else if (!w->count_numbers) {
        const uint64_t steps = steps_of(w->from_a, a, b, n);
        x->max_ulp = steps > x->max_ulp ? steps : x->max_ulp;
        x->equal += equal_codes(w->both->type_a, a, b, n / w->parts);
    } else if (w->wide) {
        EQUAL_NUMBERS(w->a.d, w->b.d, n, x->equal)
    } else {
        EQUAL_NUMBERS(w->a.f, w->b.f, n, x->equal)
    }
}

static void measure(cli_change *x, work *w, size_t n) {
    if (w->wide) {
        x->not_finite += only_finite_double(w->a.d, w->b.d, n);
        measure_double(x, w, w->a.d, w->b.d, n);
        for (size_t i = 0; i < n; i++) { /* below the normal numbers */
            x->bins[0] += w->d[i] > 0 && w->d[i] < DBL_MIN;
        }
    } else {
        x->not_finite += only_finite_float(w->a.f, w->b.f, n);
        measure_float(x, w, w->a.f, w->b.f, n);
    }
}

/* The same where b is a. */
static void square(cli_change *x, work *w, size_t n) {
    if (w->wide) {
        x->not_finite += only_finite_double(w->a.d, w->a.d, n);
        square_double(x, w, w->a.d, n);
    } else {
        x->not_finite += only_finite_float(w->a.f, w->a.f, n);
        square_float(x, w, w->a.f, n);
    }
}

/* Numbers first .. first + n of the block; n is at most CHUNK. What fills the last lanes behind them is 0. */
static sft_status measure_chunk(cli_change *x, work *w, size_t first, size_t n, sft_error *err) {
    const sft_dtype *to = sft_dtype_get(w->wide ? SFT_F64 : SFT_F32);
    const void *a = at(w->both->a, w->from_a, first);
    const void *b = at(w->both->b, w->from_b, first);
    const size_t size = n / w->from_a->block_elements * w->from_a->block_bytes;
    const bool same = w->same_type && memcmp(a, b, size) == 0;
    const size_t padded = (n + LANES - 1) / LANES * LANES;

    if (padded > n) {
        memset(&w->a, 0, padded * sizeof w->a.d[0]);
        memset(&w->b, 0, padded * sizeof w->b.d[0]);
        memset(w->d, 0, padded * sizeof w->d[0]);
    }
    sft_status status =
        sft_convert(&w->a, a, n, &(sft_cast){to, w->from_a, SFT_CONVERT_HOST_DST}, err);
    if (status == SFT_OK && !same) {
        status = sft_convert(&w->b, b, n, &(sft_cast){to, w->from_b, SFT_CONVERT_HOST_DST}, err);
    }
    if (status != SFT_OK) {
        return status;
    }
    if (same) {
        x->equal += n / w->parts;
        square(x, w, padded);
    } else {
        count_equal(x, w, a, b, n);
        if (w->whole) {
            measure_whole(x, w, a, b, n);
        } else {
            measure(x, w, padded);
        }
        find_largest(x, w->d, padded);
        count_exponents(w, padded);
    }
    return SFT_OK;
}

sft_status cli_change_block(cli_change *x, const cli_blocks *both, sft_error *err) {
    const sft_dtype *a = both->type_a;
    const sft_dtype *b = both->type_b;
    const size_t parts = a->kind == SFT_KIND_COMPLEX ? 2 : 1;
    const size_t numbers = parts * both->n;
    const bool same_type = a->id == b->id;
    sft_status status = SFT_OK;

    cli_change_init(x);
    x->count = both->n;
    cli_change_zeroed(x, both);
    if (!cli_change_measurable(a, b)) {
        x->equal = same_type ? equal_codes(a, both->a, both->b, both->n) : 0;
        x->no_ulp = true;
        x->cast_equal = x->back_equal = same_type;
        return SFT_OK;
    }
    work w;
    w.both = both;
    w.from_a = cli_number_type(a);
    w.from_b = cli_number_type(b);
    w.parts = parts;
    w.same_type = same_type;
    w.count_numbers = !same_type || a->block_elements != 1;
    w.wide = !(fits_float(w.from_a) && fits_float(w.from_b));
    w.whole = same_type && (a->id == SFT_I64 || a->id == SFT_U64);
    w.ulp2 = ulp2_of(w.from_b);
    memset(w.by_exponent[0], 0, sizeof w.by_exponent[0]);
    memset(w.by_exponent[least_exponent(&w)], 0,
           (size_t)(most_exponent(&w) + 1 - least_exponent(&w)) * sizeof w.by_exponent[0]);
    for (size_t first = 0; first < numbers && status == SFT_OK; first += CHUNK) {
        const size_t n = numbers - first < CHUNK ? numbers - first : CHUNK;
        status = measure_chunk(x, &w, first, n, err);
    }
    take_exponents(x, &w);
    if (status == SFT_OK && w.wide && !w.whole) {
        status = cli_change_extreme(x, both, numbers, err);
    }
    x->no_ulp = !same_type || precision_of(w.from_a) < 0;
    x->cast_equal = same_type || cli_change_is_cast(both);
    const cli_blocks back = {b, both->b, a, both->a, 0, both->n};
    x->back_equal = same_type || cli_change_is_cast(&back);
    return status;
}

void cli_change_merge(cli_change *x, const cli_change *more) {
    x->count += more->count;
    x->equal += more->equal;
    x->not_finite += more->not_finite;
    cli_change_add_sums(x, more);
    x->rounding += more->rounding;
    x->max_abs = more->max_abs > x->max_abs ? more->max_abs : x->max_abs;
    x->max_ulp = more->max_ulp > x->max_ulp ? more->max_ulp : x->max_ulp;
    x->no_ulp = x->no_ulp || more->no_ulp;
    x->cast_equal = x->cast_equal && more->cast_equal;
    x->back_equal = x->back_equal && more->back_equal;
    x->zeroed = x->zeroed && more->zeroed;
    x->zeros_a += more->zeros_a;
    x->zeros_b += more->zeros_b;
    for (size_t i = 0; i < CLI_CHANGE_BINS; i++) {
        x->bins[i] += more->bins[i];
    }
}
