/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/stats.c - see stats.h. Mean and deviation: two passes over a block that is in the cache,
 * blocks joined by the update of Chan, Golub and LeVeque (1979), so that errors do not grow with
 * the count.
 */
#include "cli/look/stats.h"
#include <math.h>
#include <sft/extend.h>
#include <string.h>

void cli_stats_init(cli_stats *s) {
    memset(s, 0, sizeof *s);
}

bool cli_stats_exact_integers(const sft_dtype *dtype) {
    return dtype->id == SFT_I64 || dtype->id == SFT_U64;
}

/* ---------------------------------------------------------------- histogram */

/* floor(x / 2^shift) */
static int64_t floor_shift(int64_t x, int shift) {
    if (shift > 62) {
        return x < 0 ? -1 : 0;
    }
    const int64_t width = (int64_t)1 << shift;
    return x >= 0 ? x / width : -((-(x + 1)) / width) - 1;
}

static void widen(cli_histogram *h, int shift) {
    const int64_t base = floor_shift(h->base, shift);
    uint32_t span = 0;

    if (shift <= 0) {
        return;
    }
    for (uint32_t i = 0; i < h->span; i++) {
        /* new position <= old position, so nothing unread is overwritten */
        const uint32_t to = (uint32_t)(floor_shift(h->base + i, shift) - base);
        const uint64_t n = h->counts[i];
        if (to >= span) {
            span = to + 1;
            h->counts[to] = 0;
        }
        h->counts[to] += n;
    }
    memset(h->counts + span, 0, (size_t)(h->span - span) * sizeof h->counts[0]);
    h->base = base;
    h->span = span;
    h->exponent += shift;
}

void cli_histogram_narrow(cli_histogram *h, uint32_t bins) {
    while (h->span > bins && h->span > 1) {
        const int64_t before = h->base;
        const uint32_t span = h->span;
        widen(h, 1);
        if (h->span == span && h->base == before) {
            return; /* -1 and 0 never meet */
        }
    }
}

/* Distance between two bins of one width, at most 2^54 in sum: see choose_width. */
static void merge_histogram(cli_histogram *h, const cli_histogram *more) {
    cli_histogram other;

    if (more->span == 0) {
        return;
    }
    if (h->span == 0) {
        *h = *more;
        return;
    }
    other = *more;
    widen(h, other.exponent - h->exponent);
    widen(&other, h->exponent - other.exponent);
    for (;;) {
        const int64_t low = h->base < other.base ? h->base : other.base;
        const int64_t end_h = h->base + h->span;
        const int64_t end_o = other.base + other.span;
        const int64_t high = end_h > end_o ? end_h : end_o;
        if (high - low <= CLI_BINS) {
            const size_t shift = (size_t)(h->base - low);
            memmove(h->counts + shift, h->counts, h->span * sizeof h->counts[0]);
            memset(h->counts, 0, shift * sizeof h->counts[0]);
            for (uint32_t i = 0; i < other.span; i++) {
                h->counts[(size_t)(other.base - low) + i] += other.counts[i];
            }
            h->base = low;
            h->span = (uint32_t)(high - low);
            return;
        }
        widen(h, 1);
        widen(&other, 1);
    }
}

/* Smallest width that covers min..max with the bins there are, and at which every value is a
 * multiple below 2^53 (so positions are exact in a double, and far from the ends of int64_t). */
static int choose_width(double min, double max, bool integers) {
    const double range = max / 2 - min / 2;
    const double far = fmax(fabs(min), fabs(max));
    int exponent = integers ? 0 : -1000;

    if (range > 0) {
        const int by_range = ilogb(range) + 2 - 10; /* width * 1024 > 2 * range */
        exponent = by_range > exponent ? by_range : exponent;
    }
    if (far > 0) {
        const int by_size = ilogb(far) - 51;
        exponent = by_size > exponent ? by_size : exponent;
    }
    return exponent;
}

/* Values are finite and lie in min..max. */
static void fill_histogram(cli_histogram *h, const double *values, size_t n, double min, double max,
                           bool integers) {
    int exponent = choose_width(min, max, integers);
    double scale = ldexp(1.0, -exponent);

    while (floor(max * scale) - floor(min * scale) >= CLI_BINS) {
        scale = ldexp(1.0, -++exponent);
    }
    const int64_t base = (int64_t)floor(min * scale);
    memset(h, 0, sizeof *h);
    h->exponent = exponent;
    h->base = base;
    h->span = (uint32_t)((int64_t)floor(max * scale) - base) + 1;
    for (size_t i = 0; i < n; i++) {
        const double x = values[i] * scale; /* below 2^53: see choose_width */
        const int64_t toward_zero = (int64_t)x;
        h->counts[toward_zero - ((double)toward_zero > x) - base]++;
    }
}

/* ---------------------------------------------------------------- one block */

static uint64_t load64(const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static bool below(uint64_t a, uint64_t b, bool is_signed) {
    const uint64_t flip = is_signed ? (uint64_t)1 << 63 : 0;
    return (a ^ flip) < (b ^ flip);
}

static void exact_extremes(cli_stats *s, const unsigned char *data, size_t n, bool is_signed) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t v = load64(data + 8 * i);
        s->min_bits = i == 0 || below(v, s->min_bits, is_signed) ? v : s->min_bits;
        s->max_bits = i == 0 || below(s->max_bits, v, is_signed) ? v : s->max_bits;
    }
}

/* (real, imaginary) pairs become magnitudes; NaN in either part makes NaN, as numpy.isnan says. */
static void to_magnitudes(double *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double re = values[2 * i];
        const double im = values[2 * i + 1];
        values[i] = isnan(re) || isnan(im) ? NAN : hypot(re, im);
    }
}

/* Counts what is not finite and moves the rest together. Returns how many those are. */
static size_t keep_finite(cli_stats *s, double *values, size_t n) {
    double sum = 0;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        sum += values[i] * 0.0; /* 0, or NaN once anything is not finite */
    }
    if (!isnan(sum)) {
        return n;
    }
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i])) {
            values[kept++] = values[i];
        } else {
            s->nan += isnan(values[i]) ? 1u : 0u;
            s->positive_inf += values[i] > 0;
            s->negative_inf += values[i] < 0;
        }
    }
    return kept;
}

/* One of four interleaved runs through a block: sums that do not wait for each other. */
typedef struct lane {
    double min;
    double max;
    double sum;
    double sum2;
} lane;

static lane join_lanes(const lane *a, const lane *b, const lane *c, const lane *d) {
    const lane all = {fmin(fmin(a->min, b->min), fmin(c->min, d->min)),
                      fmax(fmax(a->max, b->max), fmax(c->max, d->max)),
                      (a->sum + b->sum) + (c->sum + d->sum),
                      (a->sum2 + b->sum2) + (c->sum2 + d->sum2)};
    return all;
}

static inline void take_value(lane *l, double v) {
    l->min = v < l->min ? v : l->min;
    l->max = v > l->max ? v : l->max;
    l->sum += v;
}

static inline void take_distance(lane *l, double d) {
    l->sum += d;
    l->sum2 += d * d;
}

static void count_finite(cli_stats *s, const double *values, size_t n) {
    lane a = {values[0], values[0], 0, 0};
    lane b = a;
    lane c = a;
    lane d = a;
    uint64_t zero = 0;
    uint64_t negative = 0;
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        take_value(&a, values[i]);
        take_value(&b, values[i + 1]);
        take_value(&c, values[i + 2]);
        take_value(&d, values[i + 3]);
    }
    for (; i < n; i++) {
        take_value(&a, values[i]);
    }
    for (i = 0; i < n; i++) {
        uint64_t bits; /* no branches: signs are as good as random */
        memcpy(&bits, &values[i], sizeof bits);
        const uint64_t is_zero = bits << 1 == 0;
        zero += is_zero;
        negative += (bits >> 63) & ~is_zero;
    }
    const lane all = join_lanes(&a, &b, &c, &d);
    s->zero = zero;
    s->negative = negative;
    s->min = all.min;
    s->max = all.max;
    s->mean = all.sum / (double)n;
}

/* The mean is corrected by the mean of the distances from it; these also give the deviation. */
static void measure_spread(cli_stats *s, const double *values, size_t n) {
    const double about = s->mean;
    lane a = {0, 0, 0, 0};
    lane b = a;
    lane c = a;
    lane d = a;
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        take_distance(&a, values[i] - about);
        take_distance(&b, values[i + 1] - about);
        take_distance(&c, values[i + 2] - about);
        take_distance(&d, values[i + 3] - about);
    }
    for (; i < n; i++) {
        take_distance(&a, values[i] - about);
    }
    const lane all = join_lanes(&a, &b, &c, &d);
    const double more = all.sum / (double)n;
    s->mean = about + more;
    s->mean_rest = more - (s->mean - about);
    s->m2 = all.sum2 - all.sum * all.sum / (double)n;
}

sft_status cli_stats_block(cli_stats *s, const sft_dtype *dtype, const void *data, size_t n,
                           double *values, sft_error *err) {
    const sft_dtype *from = dtype->kind == SFT_KIND_COMPLEX ? sft_dtype_get(SFT_F32) : dtype;
    const size_t numbers = dtype->kind == SFT_KIND_COMPLEX ? 2 * n : n;

    cli_stats_init(s);
    if (dtype->kind == SFT_KIND_OPAQUE ||
        (dtype->kind == SFT_KIND_COMPLEX && dtype->id != SFT_C64)) {
        return sft_error_set(err, SFT_E_UNSUPPORTED, 0, SFT_NO_OFFSET, NULL, 0,
                             "no statistics for values of type %s", dtype->name);
    }
    const sft_status status =
        sft_convert(values, sft_dtype_get(SFT_F64), data, from, numbers, SFT_CONVERT_HOST_DST, err);
    if (status != SFT_OK) {
        return status;
    }
    if (dtype->kind == SFT_KIND_COMPLEX) {
        to_magnitudes(values, n);
    }
    if (cli_stats_exact_integers(dtype)) {
        exact_extremes(s, data, n, dtype->id == SFT_I64);
    }
    const size_t finite = keep_finite(s, values, n);
    s->count = n;
    s->finite = finite;
    if (finite > 0) {
        const bool integers = dtype->kind == SFT_KIND_INT || dtype->kind == SFT_KIND_UINT ||
                              dtype->kind == SFT_KIND_BOOL;
        count_finite(s, values, finite);
        measure_spread(s, values, finite);
        fill_histogram(&s->histogram, values, finite, s->min, s->max, integers);
    }
    return SFT_OK;
}

void cli_stats_merge(cli_stats *s, const cli_stats *more, const sft_dtype *dtype) {
    const bool is_signed = dtype->id == SFT_I64;

    if (more->finite > 0 && s->finite == 0) {
        s->min = more->min;
        s->max = more->max;
        s->mean = more->mean;
        s->mean_rest = more->mean_rest;
        s->m2 = more->m2;
        s->min_bits = more->min_bits;
        s->max_bits = more->max_bits;
    } else if (more->finite > 0) {
        const double na = (double)s->finite;
        const double nb = (double)more->finite;
        const double d = (more->mean - s->mean) + (more->mean_rest - s->mean_rest);
        const double step = s->mean_rest + d * (nb / (na + nb));
        const double mean = s->mean + step;
        s->mean_rest = step - (mean - s->mean);
        s->mean = mean;
        s->m2 += more->m2 + d * d * (na * (nb / (na + nb)));
        s->min = more->min < s->min ? more->min : s->min;
        s->max = more->max > s->max ? more->max : s->max;
        s->min_bits = below(more->min_bits, s->min_bits, is_signed) ? more->min_bits : s->min_bits;
        s->max_bits = below(s->max_bits, more->max_bits, is_signed) ? more->max_bits : s->max_bits;
    }
    s->count += more->count;
    s->nan += more->nan;
    s->positive_inf += more->positive_inf;
    s->negative_inf += more->negative_inf;
    s->zero += more->zero;
    s->negative += more->negative;
    s->finite += more->finite;
    merge_histogram(&s->histogram, &more->histogram);
}

double cli_stats_std(const cli_stats *s) {
    return s->finite == 0 ? 0 : sqrt(fmax(s->m2, 0) / (double)s->finite);
}
