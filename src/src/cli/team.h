/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/team.h - one command by many processes: each does the same up to its job, which all do
 * together; rank 0 speaks. Read cmd.h and entry.h first.
 *
 * Every process comes to exactly one meeting: in its job, or at its end if it did not come that
 * far. So a process that cannot even open its source fails all, and nobody waits for it.
 */
#ifndef SFT_CLI_TEAM_H
#define SFT_CLI_TEAM_H

#include "cli/cmd.h"
#include "cli/entry.h"

/* The job, by all; errors say which rank's they are. */
sft_status cli_team_run(cli *c, const sft_job *job, const char *folder,
                        const sft_job_run_options *options, sft_job_result *result, sft_error *err);
/* The exit status becomes the worst of all; what ranks have said that nobody before them has said is
 * printed. For one process: nothing. */
void cli_team_end(cli *c);

/* For commands that write nothing, at places that all processes come to. For one process: nothing.
 * agree: the same status for all, SFT_OK or that of the lowest rank that has another, whose message
 * begins with its number. gather: `bytes` (at most SFT_GROUP_BLOCK) of everybody. */
sft_status cli_team_agree(cli *c, sft_status status, sft_error *err);
sft_status cli_team_gather(cli *c, const void *mine, size_t bytes, void *all, sft_error *err);

bool cli_team_first(const cli *c); /* rank 0, or the only process */

/* "rank 3: " for other ranks than 0, else "". */
void cli_team_name(const cli *c, char *text, size_t cap);
/* Keeps a message until the end. False: print it now, this is rank 0 or the only process. */
bool cli_team_keep(cli *c, const char *text, size_t size);
uint64_t cli_team_threads(const cli *c); /* 0: as many as there are processors */

#endif
