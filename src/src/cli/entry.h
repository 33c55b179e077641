/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/entry.h - the way into the tool: of one process, or of many that do one command together.
 */
#ifndef SFT_CLI_ENTRY_H
#define SFT_CLI_ENTRY_H

#include <sft/checkpoint_group.h>

/* The processes of a command that many do (safetensors-mpi). */
typedef struct cli_team {
    const sft_group *group;
    uint32_t threads; /* of each, if --jobs does not say */
} cli_team;

/* team: NULL for one process. The result is the exit status, the same for all processes. */
int cli_main(int argc, char **argv, const cli_team *team);

#endif
