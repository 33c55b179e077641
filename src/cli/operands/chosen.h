/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/chosen.h - --select, --drop, --rename and --cast of commands that write a model anew: split,
 * join, reshard, slice, convert of ranks. Read choice.h first.
 */
#ifndef SFT_CLI_CHOSEN_H
#define SFT_CLI_CHOSEN_H

#include "cli/cmd.h"

typedef struct cli_chosen cli_chosen;

/* Of --select and --drop alone, for other rooms: ctx is a cli. */
int cli_leaves_out(void *ctx, const char *name, size_t name_len);

/* Where any of the options is given, *catalog becomes one with what they ask for, which owns the old one.
 * *chosen: NULL, or to be ended. False: reported, and *catalog closed. */
bool cli_chosen_use(cli *c, const char *operand, sft_catalog **catalog, cli_chosen **chosen);
/* The same in steps, for many operands. *chosen NULL: none of the options is given. False: reported. */
bool cli_chosen_begin(cli *c, cli_chosen **chosen);
bool cli_chosen_make(cli_chosen *chosen, const char *operand, sft_catalog **catalog);
/* Warns of patterns that nothing matched. False: no tensor is left of all of them; reported. */
bool cli_chosen_any(cli_chosen *chosen, const char *operand);
/* The tensor that one of the catalog was, in the catalog that it was in; NULL: it was cast. Of a catalog
 * that nothing was chosen of the tensor itself. */
const sft_tensor *cli_chosen_origin(const sft_catalog **catalog, const sft_tensor *tensor);
/* What a catalog was made of, and where each of its tensors is there, ascending; NULL: of nothing else. */
const sft_catalog *cli_chosen_from(const sft_catalog *catalog, const uint32_t **index);
/* What a tensor of this name is called from now on; NULL: it is left out. */
const char *cli_chosen_name(cli_chosen *chosen, const char *name, size_t name_len, size_t *new_len);
/* After the job: what casts could not keep. */
void cli_chosen_tell(cli_chosen *chosen, const char *target);
void cli_chosen_end(cli_chosen *chosen); /* NULL is fine */

#define CLI_CHOSEN_OPTIONS                                                                         \
    CLI_CHOOSE_OPTIONS, CLI_OPT_ARG(CLI_LIST, "rename", 0, "OLD=NEW", "rename, as in cp"),         \
        CLI_OPT_ARG(CLI_LIST, "cast", 'c', "[PATTERN=]DTYPE",                                      \
                    "change the element type, as in cp; all of these see the names in SRC, "       \
                    "before --names")

#endif
