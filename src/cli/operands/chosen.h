/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/chosen.h - --select, --drop, --rename and --cast of commands that write a model anew: split,
 * join, reshard, slice. Read choice.h first.
 */
#ifndef SFT_CLI_CHOSEN_H
#define SFT_CLI_CHOSEN_H

#include "cli/cmd.h"

typedef struct cli_chosen cli_chosen;

/* Where any of the options is given, *catalog becomes one with what they ask for; the old one is kept until
 * the tool ends. *chosen: NULL, or to be ended. False: reported, and *catalog closed. */
bool cli_chosen_use(cli *c, const char *operand, sft_catalog **catalog, cli_chosen **chosen);
/* After the job: what casts could not keep. */
void cli_chosen_tell(cli_chosen *chosen, const char *target);
void cli_chosen_end(cli_chosen *chosen); /* NULL is fine */

#define CLI_CHOSEN_OPTIONS                                                                         \
    CLI_CHOOSE_OPTIONS, CLI_OPT_ARG(CLI_LIST, "rename", 0, "OLD=NEW", "rename, as in cp"),         \
        CLI_OPT_ARG(CLI_LIST, "cast", 'c', "[PATTERN=]DTYPE",                                      \
                    "change the element type, as in cp; all of these see the names in SRC, "       \
                    "before --names")

#endif
