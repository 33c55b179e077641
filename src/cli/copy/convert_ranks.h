/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/convert_ranks.h - convert of a directory of a training job: every rank's files, one by one, with
 * their names. Read cmd.h first.
 */
#ifndef SFT_CLI_CONVERT_RANKS_H
#define SFT_CLI_CONVERT_RANKS_H

#include "cli/cmd.h"

/* Has the directory rank_N directories with weights, or files of steps alone? Then convert does not put them
 * together, which would take a layout. */
bool cli_convert_is_ranks(const char *directory);
/* Each file of weights, of every rank and step, becomes one of the same tensors, in the directory -o; what
 * says how they are cut and which is the last step goes along, other files are named. */
void cli_convert_ranks(cli *c);

#endif
