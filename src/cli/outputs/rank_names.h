/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/rank_names.h - what the files of ranks are called, by a pattern and by the names that the
 * source's files have, and the meta.json beside them. Read batch.h first.
 */
#ifndef SFT_CLI_RANK_NAMES_H
#define SFT_CLI_RANK_NAMES_H

#include "cli/outputs/batch.h"

/* Of PREFIX_rank_RANK_TASK-EPOCH_STEP, as MindSpore calls its files. Owned; NULL: the source's do not say. */
typedef struct cli_rank_names {
    const char *pattern;
    char *prefix;
    char *task;
    char *epoch;
    char *step;
} cli_rank_names;

/* source: as it was opened. False: a placeholder that is none, or that the source says nothing for, or
 * {rank} is missing; reported. cli_rank_names_reset() in any case. */
bool cli_rank_names_init(cli_rank_names *n, cli *c, const char *pattern, const sft_catalog *source,
                         uint64_t ranks);
void cli_rank_names_reset(cli_rank_names *n);
char *cli_rank_name(const cli_rank_names *n, uint64_t rank); /* free() it */
/* Are files of these names found by readers, as one model? */
bool cli_rank_names_open(const char *pattern);
/* NAME-EPOCH_STEP.ckpt: is it a step's, as MindSpore calls it? */
bool cli_rank_has_step(const char *name);

enum { CLI_RANK_META_MOST = 1 << 16 }; /* bytes of a meta.json that is looked at */
/* For a file of the batch, rank_3/NAME-1_20.safetensors: the text rank_3/meta.json, which names it as the
 * rank's last one. Nothing where the name has no step. */
void cli_rank_meta(cli_batch *b, const char *name);
/* The same where the source has rank_3/meta.json: as it is, if it names this file. */
void cli_rank_meta_carry(cli_batch *b, const char *name);
/* Does the text of a meta.json name the file? */
bool cli_rank_meta_names(const char *text, const char *base);

#endif
