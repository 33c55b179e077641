/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ranks.h - operands that are checkpoints of many ranks, through the checkpoint wing. Read
 * wing.h first.
 */
#ifndef SFT_CLI_RANKS_H
#define SFT_CLI_RANKS_H

#include "cmd.h"
#include <sft/checkpoint_api.h>

/* The wing; NULL: *err says what is missing. */
const sft_checkpoint_api *cli_ranks_api(sft_error *err);

/* May the operand be such a checkpoint, by its name and kind of file? */
bool cli_ranks_possible(const char *operand);

/* Is it one whose whole can be asked for: it tells its own layout, or --layout or --step was given? */
bool cli_ranks_whole(const cli *c, const char *operand);

/* Opens it if it is one (*ours), as one model that owns everything; --layout and --step are obeyed.
 * Otherwise SFT_OK with *out NULL. */
sft_status cli_ranks_open_whole(cli *c, const char *operand, const sft_open_options *options,
                                sft_catalog **out, bool *ours, sft_error *err);
/* The same, rank by rank: api->checkpoint_close(*out). SFT_E_FORMAT if it is none. */
sft_status cli_ranks_open(cli *c, const char *operand, const sft_open_options *options,
                          sft_checkpoint **out, sft_error *err);
/* What --layout says, made anew: the caller frees it. *out NULL if the option is not given. */
sft_status cli_ranks_layout(cli *c, sft_layout_set **out, sft_error *err);
/* Options for opening a checkpoint, layouts left out. */
void cli_ranks_options(cli *c, sft_checkpoint_options *o, const sft_open_options *open);
/* Frees the layouts that catalogs made here still used. */
void cli_ranks_end(cli *c);

#endif
