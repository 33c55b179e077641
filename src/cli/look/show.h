/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/show.h - the parts of the command show: the overview of a file, statistics with their
 * histogram, and JSON text inside metadata set out for people. Read cmd.h first.
 */
#ifndef SFT_CLI_SHOW_H
#define SFT_CLI_SHOW_H

#include "cli/look/view.h"
#include "cli/report/stats.h"

/* "label       " in the first column. */
void cli_show_label(cli_out *o, const char *label);

/* show_file.c: what a catalog holds, without a tensor. */
void cli_show_file(cli *c, const char *file, const sft_catalog *catalog);

/* show_stats.c: computes in one pass on the pool; tally: zeroed, or of another tensor. False: reported. */
bool cli_show_compute(cli *c, const char *file, const cli_view *view, cli_tally *tally);
void cli_show_stats(cli *c, const sft_dtype *dtype, const cli_stats *stats);
/* min, max, mean, std, zeros, nan and inf, and the histogram as a sparkline: seven cells; NULL: none
 * known. */
void cli_show_row(cli_table *t, const sft_dtype *dtype, const cli_stats *stats, bool ascii);
void cli_show_stats_json(cli_json *j, const sft_dtype *dtype, const cli_stats *stats,
                         uint32_t bins);

#endif
