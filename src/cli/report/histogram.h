/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/histogram.h - counts of values in bins as wide as a power of two.
 */
#ifndef SFT_CLI_REPORT_HISTOGRAM_H
#define SFT_CLI_REPORT_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

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

/* Widens until at most `bins` are in use. */
void cli_histogram_narrow(cli_histogram *h, uint32_t bins);
/* h counts what both count. */
void cli_histogram_merge(cli_histogram *h, const cli_histogram *more);
/* The exponent of the smallest width that covers min..max with the bins there are, and at which every value
 * is a multiple below 2^53 (so positions are exact in a double, and far from the ends of int64_t). */
int cli_histogram_width(double min, double max, bool integers);
/* Empty bins from min to max, as wide as the exponent says or wider. */
/* Where bin number i <= span begins. */
double cli_histogram_edge(const cli_histogram *h, uint32_t i);
cli_histogram cli_histogram_of(double min, double max, int exponent);
/* Do values from min to max have bins? */
bool cli_histogram_has(const cli_histogram *h, double min, double max);

#endif
