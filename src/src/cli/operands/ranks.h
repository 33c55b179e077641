/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/ranks.h - operands that are checkpoints of many ranks. Read cmd.h first.
 */
#ifndef SFT_CLI_RANKS_H
#define SFT_CLI_RANKS_H

#include "cli/cmd.h"
#include <sft/checkpoint_group.h>
#include <sft/dedupe.h>
#include <sft/names.h>

/* May the operand be such a checkpoint, by its name and kind of file? */
bool cli_ranks_possible(const char *operand);

/* Which kind (sft_checkpoint_kind)? */
uint32_t cli_ranks_kind(const char *operand);

/* Opens it if it is one (*ours), as one model that owns everything; --layout and --step are obeyed.
 * Otherwise SFT_OK with *out NULL. */
sft_status cli_ranks_open_whole(cli *c, const char *operand, const sft_open_options *options,
                                sft_catalog **out, bool *ours, sft_error *err);
/* The model of an open checkpoint, which is taken over in every case; says what ranks and layout
 * have not in common. */
sft_status cli_ranks_take(cli *c, const char *operand, sft_checkpoint *checkpoint,
                          const sft_open_options *options, sft_catalog **out, sft_error *err);
/* The same, rank by rank: sft_checkpoint_close(*out). SFT_E_FORMAT if it is none. */
sft_status cli_ranks_open(cli *c, const char *operand, const sft_open_options *options,
                          sft_checkpoint **out, sft_error *err);
/* What --layout says, made anew: the caller frees it. *out NULL if the option is not given. */
sft_status cli_ranks_layout(cli *c, sft_layout_set **out, sft_error *err);
/* The same from a file that any option names, for `ranks` ranks where it does not say. */
sft_status cli_ranks_read_layout(const char *path, uint64_t ranks, sft_layout_set **out,
                                 sft_error *err);
/* After opening, with the layouts that the ranks are cut by (may be NULL): which ranks have no
 * file, and what the layouts do not name. absent: as sft_checkpoint_absent tells. */
void cli_ranks_tell(cli *c, const char *operand, const char *absent, const sft_layout_set *layouts,
                    const sft_catalog *whole);
/* What no entry fits and what no tensor has, as one sentence; false: nothing. */
bool cli_ranks_unmatched(char *text, size_t cap, const cli *c, const sft_layout_fit *fit);
/* Options for opening a checkpoint, layouts left out. */
void cli_ranks_options(cli *c, sft_checkpoint_options *o, const sft_open_options *open);
/* Frees the layouts that catalogs made here still used. */
void cli_ranks_end(cli *c);

#endif
