/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/old_ranks.h - a directory of ranks that reshard writes into: what lies there of an older
 * model, and does what was written open again. Read batch.h first.
 */
#ifndef SFT_CLI_OLD_RANKS_H
#define SFT_CLI_OLD_RANKS_H

#include "batch.h"

typedef struct cli_old_ranks {
    char **files; /* of the older model, that the new one does not replace */
    size_t count;
} cli_old_ranks;

/* After the batch's files are known. Weights in the target's rank_N that are none of them are of
 * another model, which readers would take for this one: refused, unless they are proven to be the
 * older model whose layout.json is replaced (it opens as a whole) and --force is given. False:
 * reported. */
bool cli_old_ranks_find(cli_old_ranks *old, cli_batch *b);
/* After the batch is published: removes them, with their recorded digests and directories that are
 * empty then. */
void cli_old_ranks_remove(const cli_old_ranks *old, cli *c);
void cli_old_ranks_reset(cli_old_ranks *old);

/* Opens what was written, and compares names, types and shapes with the whole that it was made of.
 * Reports what differs. */
void cli_read_again(cli_batch *b, const sft_catalog *whole);

#endif
