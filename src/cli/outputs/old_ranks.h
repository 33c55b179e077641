/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/old_ranks.h - a directory that a model is written into, in which files of ranks lie: whose
 * they are; and does what was written open again. For older.c, and reshard. Read batch.h first.
 */
#ifndef SFT_CLI_OLD_RANKS_H
#define SFT_CLI_OLD_RANKS_H

#include "cli/outputs/batch.h"

typedef struct cli_old_ranks {
    const char *directory;
    /* of the older model, that the new one does not replace: "rank_3/model.safetensors" */
    cli_strings files;
    uint64_t *stamps;    /* of each when it was found */
    uint64_t records[2]; /* stamps of its dedupe.json and layout.json */
    bool record;  /* its dedupe.json would speak of the new files, which replace all of its own */
    bool journal; /* it says so in .layout.json.sft-older */
} cli_old_ranks;

/* Weights in rank_N of the directory that are none of the planned files are of another model, which
 * readers would take for this one: refused, unless they are proven to be the older model whose layout.json
 * lies there (it opens as a whole), or a journal of a run that was killed names them, and --force is given.
 * False: reported. */
bool cli_old_ranks_find(cli_old_ranks *old, cli *c, const char *directory,
                        const char *const *planned, size_t count);
/* One of them now, relative to the directory; free() it. NULL: there is none. */
char *cli_old_ranks_first(const char *directory, const char *const *planned, size_t count);
/* Before anything is replaced: writes the journal. False: reported. */
bool cli_old_ranks_begin(cli_old_ranks *old, cli *c);
/* done: the new model is in place: removes them, with their recorded digests, directories that are empty
 * then, and what else is not planned of the older model's (layout.json, dedupe.json). The journal last. What
 * another process has put in their place meanwhile stays: exit 3. */
void cli_old_ranks_end(cli_old_ranks *old, cli *c, bool done, const char *const *planned,
                       size_t count);

/* Before anything is written: would these parts, beside the layout.json that the batch holds, open again as
 * the whole that they are of? False: reported. */
bool cli_would_open(cli_batch *b, sft_catalog *const *parts, size_t count,
                    const sft_catalog *global);
/* Opens what was written, and compares names, types and shapes with the whole that it was made of.
 * Reports what differs. */
void cli_read_again(cli_batch *b, const sft_catalog *global);

#endif
