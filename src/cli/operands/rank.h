/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/rank.h - what one rank of a layout gets of a whole model: for mem and fetch. Read ranks.h
 * first.
 */
#ifndef SFT_CLI_RANK_H
#define SFT_CLI_RANK_H

#include "cli/operands/ranks.h"

/* --layout FILE and --rank K or K/N, counted from 0. N is for layouts that do not say. */
typedef struct cli_rank {
    sft_layout_set *set; /* NULL: neither option is given */
    uint64_t count;      /* ranks of the layout */
    uint64_t rank;       /* UINT64_MAX: --rank is not given */
} cli_rank;

/* False: reported. */
bool cli_rank_init(cli_rank *r, cli *c);
void cli_rank_reset(cli_rank *r);
/* A layout of numbers alone is made for the operand at hand, anew for each. False: reported. */
bool cli_rank_bind(cli_rank *r, cli *c, const char *operand, const sft_catalog *whole);
/* The part of one rank, which lives on the whole. */
sft_status cli_rank_cut(const cli_rank *r, const sft_catalog *whole, uint64_t rank,
                        sft_catalog **part, sft_error *err);

#define CLI_RANK_OPTIONS                                                                           \
    CLI_OPT_ARG(CLI_TEXT, "rank", 'k', "K[/N]", "only what rank K (of N, from 0) gets"),           \
        CLI_OPT_ARG(CLI_FILE, "layout", 0, "FILE",                                                 \
                    "how the model is cut: a layout, strategy or tensor-parallel plan")

#endif
