/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/together.h - a step that many processes save: divided among them when it is staged, with
 * calls of the group; finished behind by notes in the staging directory, without any. Read run.h and
 * docs/run.md first.
 */
#ifndef SFT_CHECKPOINT_RUN_TOGETHER_H
#define SFT_CHECKPOINT_RUN_TOGETHER_H

#include "checkpoint/group/group.h"
#include "checkpoint/run/run.h"

/* What one process wrote of a step, and where. */
typedef struct sft__checkpoint_run_share {
    sft_run *run;
    const sft_run_save *save;
    const char *directory;
    sft__checkpoint_run_fact *facts; /* of this process; of all after gather */
    size_t count;
    size_t room;
} sft__checkpoint_run_share;

void sft__checkpoint_run_state_name(char out[64], uint32_t rank);
sft_status sft__checkpoint_run_add_fact(sft__checkpoint_run_share *share,
                                        const sft__checkpoint_run_fact *fact, sft_error *err);
/* Leaves the note of this process: its files, or (status not SFT_OK) why there are none. */
sft_status sft__checkpoint_run_note(const sft__checkpoint_run_share *share, sft_status status,
                                    const sft_error *failure, sft_error *err);
/* Rank 0: waits for the notes of all, takes their files over, writes topology.json. SFT_E_TIMEOUT names
 * the ranks that are missing; a rank's failure begins with "rank K: ". texts: of names. */
sft_status sft__checkpoint_run_gather(sft__checkpoint_run_share *share, sft__base_arena *texts,
                                      sft_error *err);
/* Others: wait until rank 0 has committed the step, or failed. */
sft_status sft__checkpoint_run_await(const sft__checkpoint_run_share *share, sft_error *err);

/* Collective: which tensors this process writes, and into which files. */
sft_status sft__checkpoint_run_divide_group(sft_run_save *save, sft_error *err);

static inline const sft_group *sft__checkpoint_run_group(const sft_run *run) {
    return sft__checkpoint_group_is_many(run->options.group) ? run->options.group : NULL;
}

static inline uint32_t sft__checkpoint_run_rank(const sft_run *run) {
    return run->options.group != NULL ? run->options.group->rank : 0;
}

#endif
