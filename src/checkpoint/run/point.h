/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/point.h - a step to resume from, open. resume.c chooses it, point.c says what it holds.
 * Read run.h first.
 */
#ifndef SFT_CHECKPOINT_RUN_POINT_H
#define SFT_CHECKPOINT_RUN_POINT_H

#include "base/text/strmap.h"
#include "checkpoint/group/group.h"
#include "checkpoint/run/run.h"

struct sft_run_point {
    sft_run *run;
    sft_run_resume_options options;
    sft_run_list *list;
    unsigned rounds;                 /* how often the steps were listed */
    size_t seen;                     /* how many of the list were looked at */
    bool moved;                      /* some came or went while they were looked at */
    size_t left;                     /* steps of the list that were not looked at: those before */
    sft__checkpoint_run_found *step; /* NULL: none */
    sft__base_arena arena;           /* of what follows */
    const char *path;
    sft_catalog *catalog;
    bool verified; /* all digests were compared */
    sft__checkpoint_run_words entries;
    sft__base_strmap names; /* of the entries */
};

/* Catalog and entries of the step at point->path; close: the point has none any more. */
sft_status sft__checkpoint_run_point_open(sft_run_point *point, const sft__checkpoint_run_found *s,
                                          sft_error *err);
void sft__checkpoint_run_point_close(sft_run_point *point);

#endif
