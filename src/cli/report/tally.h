/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/tally.h - what counting (stats.c) and what follows from it (ended.c) share. Read stats.h first.
 */
#ifndef SFT_CLI_REPORT_TALLY_H
#define SFT_CLI_REPORT_TALLY_H

#include "cli/report/stats.h"

/* Of some finite values. */
typedef struct cli_moments {
    uint64_t n;
    double min;
    double max;
    double mean;
    double mean_rest;
    double m2;
} cli_moments;

void cli_add_moments(cli_stats *s, const cli_moments *more);
/* sums: of distances from `about`, and of their squares. */
void cli_set_mean(cli_moments *m, double about, const double sums[2]);
bool cli_is_integer(const sft_dtype *dtype);

#endif
