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

/* Which kind (sft_checkpoint_kind) is it, if it is one? */
uint32_t cli_ranks_kind(const char *operand);

/* Opens it rank by rank, for those who do not want the one model that cli_open makes of it:
 * sft_checkpoint_close(*out). SFT_E_FORMAT if it is none. */
sft_status cli_ranks_open(cli *c, const char *operand, sft_checkpoint **out, sft_error *err);
/* After sft_open: says which kind of checkpoint the model was made of, and calls cli_ranks_tell. */
void cli_ranks_opened(cli *c, const char *operand, const sft_catalog *catalog);
/* A layout from a file that any option names, for `ranks` ranks where it does not say. Owned. */
sft_status cli_ranks_read_layout(const char *path, uint64_t ranks, sft_layout_set **out,
                                 sft_error *err);
/* Which ranks have no file, and, with the global tensors (may be NULL), what the layouts do not name. */
void cli_ranks_tell(cli *c, const char *operand, const sft_checkpoint *checkpoint,
                    const sft_catalog *global);
/* What no entry fits and what no tensor has, as one sentence; false: nothing. */
bool cli_ranks_unmatched(char *text, size_t cap, const cli *c, const sft_layout_fit *fit);
/* Options for opening a checkpoint: what --step, --partial, and of the source --layout say. */
void cli_ranks_options(cli *c, sft_checkpoint_options *o, const sft_open_options *open);
/* Closes what --names, --select and its like were applied to. */
void cli_ranks_end(cli *c);
/* The catalog as it was opened, before these; `catalog` where none is given. */
const sft_catalog *cli_as_opened(const cli *c, const sft_catalog *catalog);

#endif
