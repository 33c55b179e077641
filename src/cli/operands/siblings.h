/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/siblings.h - other weights in the directory of a model. Read cmd.h first.
 */
#ifndef SFT_CLI_SIBLINGS_H
#define SFT_CLI_SIBLINGS_H

#include "cli/cmd.h"
#include <sft/import.h>

/* `operand` was read and goes on into `target`, which lies in another directory. If it is a directory, or
 * the index of a model in one: warns of every file of weights in it that is none of the model's, and of
 * directories in it that hold weights; both are in "left_out_parts", too. catalog: the model; NULL: it is
 * opened again. */
void cli_siblings_tell(cli *c, const char *operand, const char *target, const sft_catalog *catalog);
/* The same of a directory of ranks, whatever its files hold. */
void cli_siblings_tell_ranks(cli *c, const char *directory, const char *target);

#endif
