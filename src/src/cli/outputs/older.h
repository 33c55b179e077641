/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/older.h - a directory that a model is written into: which model lies there already, and which
 * files are its. The one home of this question, for split, join, convert, fetch and cp. Read cmd.h
 * first.
 */
#ifndef SFT_CLI_OLDER_H
#define SFT_CLI_OLDER_H

#include "cli/cmd.h"
#include "cli/outputs/old_ranks.h"

typedef struct cli_older {
    cli *c;
    const char *folder;
    const char *const *planned; /* names in it that will be written */
    size_t planned_count;
    bool whole; /* the output is the directory, which readers read as one model; else one file of
                     many */
    cli_old_ranks ranks; /* of the older model */
    char **files;        /* of the older model, not planned: to be removed. Indexes first */
    uint64_t *stamps;    /* of each when it was found: what has another one by then stays */
    size_t count;
    char *owned_folder;
    char **owned_names;
    char *journal; /* copy of its index while it is replaced */
    bool collides; /* a planned file replaces one that the older index names */
    int turn;      /* a lock on the directory while it is written into, plus 1; 0: none */
    bool shared;   /* a planned file replaces one that another model's index names */
} cli_older;

/* Readers would take files that lie there for the new model's, or see the old one still: refused
 * (exit 1, with what is there) without --force; with it, if nothing proves that they belong to one
 * older model. What does: an index names them, or they are its single file. False: reported. */
bool cli_older_find(cli_older *o, cli *c, const char *folder, const char *const *planned,
                    size_t count, bool whole);
/* Lies there no weight file and no index at all? */
bool cli_older_none(const char *folder);
/* The same for `files` files that are called after `path`: the name of one file, or of a directory,
 * which gets model.safetensors or its shards. */
bool cli_older_find_set(cli_older *o, cli *c, const char *path, uint64_t files);
/* Before anything is replaced: leaves a journal, .NAME.sft-older, so that the same command finds
 * what to remove after a kill. (That nothing reads a mixture of both is the writers' work: see
 * sft_model_begin.) False: reported. */
bool cli_older_begin(cli_older *o);
/* done: the new model is in place: removes the older one's files, its index last, with the digests
 * that are recorded beside them and beside what was replaced; the journal last. A file that another
 * process has put there meanwhile stays, and a last look tells of another model that came meanwhile:
 * exit 3. Not done: only the journal goes, if the old index is still there. */
void cli_older_end(cli_older *o, bool done);

#endif
