/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/stats.h - statistics of element values at about the speed of memory. Values of 8 and 16
 * bits are counted by their bit patterns, from which everything follows exactly; wider ones take one
 * pass over chunks that stay in the cache. Tallies of parts are merged in the order of the values, so
 * that nothing depends on the number of threads. Read cmd.h first.
 */
#ifndef SFT_CLI_REPORT_STATS_H
#define SFT_CLI_REPORT_STATS_H

#include "cli/report/histogram.h"
#include <sft/dtype.h>

enum { CLI_CELLS = 65536, CLI_CHUNK = 4096, CLI_PERCENTILES = 9 };

/* Of complex numbers, the magnitude counts. Extremes, mean, deviation, norm and percentiles are those of
 * finite values. */
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
    double percentiles[CLI_PERCENTILES]; /* at cli_shares, as numpy.percentile */
    cli_histogram histogram;
} cli_stats;

extern const double cli_shares[CLI_PERCENTILES]; /* 0.001, 0.01, ... 0.999 */

/* Ways to count wide types. Bins alone give no percentiles. Cells alone give bins whose counts are as
 * exact, but which are not narrower than the 128th part of the largest magnitude's power of two. */
#define CLI_BY_BINS  1u
#define CLI_BY_CELLS 2u
/* No more than CLI_CHUNK values, of 8 and 16 bits, too: they are kept one by one, which needs no cells. */
#define CLI_FEW 4u

/* Values that were counted. Zeroed before it is first used. */
typedef struct cli_tally {
    const sft_dtype *dtype;
    unsigned ways;
    bool narrow; /* counted by bit patterns */
    cli_stats stats;
    /* Of types of 8 and 16 bits by bit pattern; of wider ones by the upper half of the value as F32: a
     * percentile of more than CLI_CHUNK values, taken from a cell, is off by less than the 128th
     * part of itself. */
    uint64_t cells[CLI_CELLS];
    bool rows[256]; /* of 256 cells: the others are all zero */
    bool all_rows;
    uint32_t tables[2][CLI_CELLS];
    uint32_t bins[4][CLI_BINS];
    double values[CLI_CELLS];
    uint64_t found[CLI_CELLS];
    int32_t places[CLI_CHUNK];
    double few[CLI_CHUNK]; /* of wide types by cells: the finite values, if there are no more */
    size_t few_count;
} cli_tally;

bool cli_stats_known(const sft_dtype *dtype); /* false: there are none of this type */
/* Forgets what was counted, at the cost of that. */
void cli_tally_begin(cli_tally *t, const sft_dtype *dtype, unsigned ways);
/* Counts values, packed little-endian as in a file; below 2^32 of them until they are settled. */
sft_status cli_tally_block(cli_tally *t, const void *data, size_t n, sft_error *err);
void cli_tally_settle(cli_tally *t); /* behind the last block, before it is merged into another */
/* t counts those of both, which are of one type; the order of merging is the order of the values. */
void cli_tally_merge(cli_tally *t, const cli_tally *more);
void cli_tally_end(cli_tally *t); /* t->stats is complete */

double cli_stats_std(const cli_stats *s);              /* of the population, as numpy.std */
double cli_stats_norm(const cli_stats *s);             /* root of the sum of squares */
bool cli_stats_exact_integers(const sft_dtype *dtype); /* min_bits and max_bits hold the extremes */

#endif
