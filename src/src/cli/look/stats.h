/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/stats.h - statistics of element values in one pass: counts, exact extremes, mean, deviation
 * and a histogram whose bins widen as the range does. Partial results of blocks are merged in
 * order. Read cmd.h first.
 */
#ifndef SFT_CLI_STATS_H
#define SFT_CLI_STATS_H

#include <sft/dtype.h>
#include <stdbool.h>

enum { CLI_BINS = 1024 };

/* Bin i counts values in [(base + i) * 2^exponent, (base + i + 1) * 2^exponent). Because edges are
 * multiples of the width and widths powers of two, widening (two bins become one) loses no value:
 * the counts are exact whatever the order in which values came. */
typedef struct cli_histogram {
    int64_t base;
    int exponent;
    uint32_t span; /* bins in use; 0: none */
    uint64_t counts[CLI_BINS];
} cli_histogram;

/* Of complex numbers, the magnitude counts. Extremes, mean and deviation are those of finite
 * values. */
typedef struct cli_stats {
    uint64_t count;
    uint64_t nan;
    uint64_t positive_inf;
    uint64_t negative_inf;
    uint64_t zero;
    uint64_t negative;
    uint64_t finite;
    double min;
    double max;
    double mean;
    double mean_rest;  /* what rounding the mean to a double left out */
    double m2;         /* sum of squared distances from the mean */
    uint64_t min_bits; /* I64 and U64: the extremes themselves */
    uint64_t max_bits;
    cli_histogram histogram;
} cli_stats;

void cli_stats_init(cli_stats *s);
/* Values of one block, packed little-endian as in a file; s is overwritten. values: room for n
 * doubles, twice that for complex types. SFT_E_UNSUPPORTED for opaque types. */
sft_status cli_stats_block(cli_stats *s, const sft_dtype *dtype, const void *data, size_t n,
                           double *values, sft_error *err);
/* s becomes the statistics of both; the order of merging is the order of the values. */
void cli_stats_merge(cli_stats *s, const cli_stats *more, const sft_dtype *dtype);
double cli_stats_std(const cli_stats *s);              /* of the population, as numpy.std */
bool cli_stats_exact_integers(const sft_dtype *dtype); /* min_bits and max_bits hold the extremes */
/* Widens until at most `bins` are in use. */
void cli_histogram_narrow(cli_histogram *h, uint32_t bins);

#endif
