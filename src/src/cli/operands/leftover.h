/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/leftover.h - what runs that were killed have left where a command reads. Read cmd.h first.
 */
#ifndef SFT_CLI_LEFTOVER_H
#define SFT_CLI_LEFTOVER_H

#include "cli/cmd.h"

/* Before a command begins: warns of journals, marks and staging directories of models that were to be
 * written, or replaced, where its operands lie. */
void cli_leftover_tell(cli *c);

#endif
