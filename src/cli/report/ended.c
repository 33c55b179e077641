/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/ended.c - what follows from values that were counted: moments of narrow types, bins,
 * percentiles. Read stats.h and tally.h first.
 */
#include "cli/cmd.h"
#include "cli/report/tally.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The k-th pattern in the order of values. */
static uint32_t pattern_at(const sft_dtype *dtype, uint32_t half, uint32_t k) {
    if (dtype->kind == SFT_KIND_INT) {
        return (k + half) & (2 * half - 1);
    }
    if (dtype->kind == SFT_KIND_FLOAT && dtype->id != SFT_F8_E8M0) {
        return k < half ? 2 * half - 1 - k : k - half;
    }
    return k;
}

/* What a row's patterns mean. */
static void values_of_row(const sft_dtype *dtype, uint32_t row, double values[256]) {
    unsigned char patterns[512];

    for (uint32_t i = 0; i < 256; i++) {
        patterns[i * dtype->block_bytes] = (unsigned char)i;
        patterns[i * dtype->block_bytes + dtype->block_bytes - 1] =
            (unsigned char)(dtype->block_bytes == 1 ? i : row);
    }
    (void)!sft_convert(values, patterns, 256,
                       &(sft_cast){sft_dtype_get(SFT_F64), dtype, SFT_CONVERT_HOST_DST}, NULL);
}

/* Values of narrow types in their order, and how many there are of each, into t->values and t->found;
 * what is not finite is counted. */
static size_t list_values(cli_tally *t) {
    const uint32_t half = t->dtype->block_bytes == 1 ? 128 : CLI_CELLS / 2;
    cli_stats *s = &t->stats;
    double row[256];
    size_t listed = 0;

    for (uint32_t k = 0; k < 2 * half; k++) {
        const uint32_t pattern = pattern_at(t->dtype, half, k);
        if (k % 256 == 0 && !t->rows[pattern >> 8]) {
            k += 255;
            continue;
        }
        if (k % 256 == 0) {
            values_of_row(t->dtype, pattern >> 8, row);
        }
        const double v = row[pattern & 255];
        const uint64_t n = t->cells[pattern];
        s->nan += isnan(v) ? n : 0;
        s->positive_inf += isinf(v) && v > 0 ? n : 0;
        s->negative_inf += isinf(v) && v < 0 ? n : 0;
        s->zero += v >= 0 && v <= 0 ? n : 0;
        s->negative += isfinite(v) && v < 0 ? n : 0;
        if (n > 0 && isfinite(v)) {
            t->values[listed] = v;
            t->found[listed++] = n;
        }
    }
    return listed;
}

/* Adds; what rounding leaves out is kept in rest (Neumaier 1974). */
static void add_exactly(double *sum, double *rest, double v) {
    const double all = *sum + v;

    *rest += fabs(*sum) >= fabs(v) ? (*sum - all) + v : (v - all) + *sum;
    *sum = all;
}

static void weigh(const cli_tally *t, size_t listed, double about, double sums[2]) {
    double rests[2] = {0, 0};

    sums[0] = sums[1] = 0;
    for (size_t i = 0; i < listed; i++) {
        const double d = t->values[i] - about;
        add_exactly(&sums[0], &rests[0], d * (double)t->found[i]);
        add_exactly(&sums[1], &rests[1], d * d * (double)t->found[i]);
    }
    sums[0] += rests[0];
    sums[1] += rests[1];
}

static void end_narrow(cli_tally *t, size_t listed) {
    cli_stats *s = &t->stats;
    double sums[2];

    if (listed == 0) {
        return;
    }
    cli_moments m = {.min = t->values[0], .max = t->values[listed - 1]};
    for (size_t i = 0; i < listed; i++) {
        m.n += t->found[i];
    }
    weigh(t, listed, 0, sums);
    const double about = sums[0] / (double)m.n;
    weigh(t, listed, about, sums);
    cli_set_mean(&m, about, sums);
    cli_add_moments(s, &m);
    s->histogram =
        cli_histogram_of(m.min, m.max, cli_histogram_width(m.min, m.max, cli_is_integer(t->dtype)));
    const double scale = ldexp(1.0, -s->histogram.exponent);
    for (size_t i = 0; i < listed; i++) {
        s->histogram.counts[(int64_t)floor(t->values[i] * scale) - s->histogram.base] +=
            t->found[i];
    }
}

static double of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* The same of the cells of wide types: where each begins. */
static size_t list_cells(cli_tally *t) {
    size_t listed = 0;

    for (uint32_t k = 0; k < CLI_CELLS; k++) {
        const uint32_t pattern = k < CLI_CELLS / 2 ? CLI_CELLS - 1 - k : k - CLI_CELLS / 2;
        if (k % 256 == 0 && !t->rows[pattern >> 8]) {
            k += 255;
        } else if (t->cells[pattern] > 0) {
            t->values[listed] = of_bits((pattern + (pattern >> 15)) << 16);
            t->found[listed++] = t->cells[pattern];
        }
    }
    return listed;
}

/* Bins that are no narrower than the widest cell hold whole cells. */
static void bins_of_cells(cli_tally *t, size_t listed) {
    cli_stats *s = &t->stats;
    const double far = fmax(fabs(s->min), fabs(s->max));
    int exponent = cli_histogram_width(s->min, s->max, cli_is_integer(t->dtype));

    if (far > 0 && ilogb(far) - 7 > exponent) {
        exponent = ilogb(far) - 7;
    }
    s->histogram = cli_histogram_of(s->min, s->max, exponent);
    const double scale = ldexp(1.0, -s->histogram.exponent);
    const double last = (double)(s->histogram.span - 1);
    for (size_t i = 0; i < listed; i++) {
        const double at = floor(t->values[i] * scale) - (double)s->histogram.base;
        s->histogram.counts[(size_t)fmin(fmax(at, 0), last)] += t->found[i];
    }
}

static bool has_few(const cli_tally *t) {
    return t->few_count == t->stats.finite && t->few_count > 0;
}

/* The value of a rank in a list: of a cell, as if those in it were evenly spread. */
typedef struct place {
    size_t at;
    uint64_t before; /* values in front of list[at] */
} place;

static double value_at(const cli_tally *t, place *p, uint64_t rank) {
    while (rank - p->before >= t->found[p->at]) {
        p->before += t->found[p->at++];
    }
    double v = t->values[p->at];
    if (!t->narrow && t->dtype->block_elements == 1 && !has_few(t)) {
        const double inside = ((double)(rank - p->before) + 0.5) / (double)t->found[p->at];
        const float low = (float)v;
        uint32_t bits;
        memcpy(&bits, &low, sizeof bits);
        const double end = of_bits(bits - (v < 0 ? 0x10000u : 0) + (v < 0 ? 0 : 0x10000u));
        if (isfinite(v) && (v < 0 || v > 0)) { /* the cell at the negative end begins at -inf */
            v += (end - v) * inside;
        }
    }
    return v < t->stats.min ? t->stats.min : v > t->stats.max ? t->stats.max : v;
}

static int by_value(const void *a, const void *b) {
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static void end_percentiles(cli_tally *t) {
    place p = {0, 0};

    if (has_few(t)) {
        qsort(t->few, t->few_count, sizeof t->few[0], by_value);
        for (size_t i = 0; i < t->few_count; i++) {
            t->values[i] = t->few[i];
            t->found[i] = 1;
        }
    }

    for (size_t i = 0; i < CLI_PERCENTILES; i++) {
        const double at = cli_shares[i] * (double)(t->stats.finite - 1);
        const double rank = floor(at);
        const double low = value_at(t, &p, (uint64_t)rank);
        place next = p;
        const double high = at > rank ? value_at(t, &next, (uint64_t)rank + 1) : low;
        const double apart = high - low; /* may be beyond doubles */
        t->stats.percentiles[i] = isfinite(apart) ? low + apart * (at - rank)
                                                  : low * (1 - (at - rank)) + high * (at - rank);
    }
}

void cli_tally_end(cli_tally *t) {
    const bool cells = (t->ways & CLI_BY_CELLS) != 0;

    cli_tally_settle(t);
    const size_t listed = t->narrow ? list_values(t) : cells ? list_cells(t) : 0;
    if (t->narrow) {
        end_narrow(t, listed);
    } else if (t->stats.finite > 0 && (t->ways & CLI_BY_BINS) == 0) {
        bins_of_cells(t, listed);
    }
    if (t->stats.finite > 0 && (cells || has_few(t))) {
        end_percentiles(t);
    }
}
