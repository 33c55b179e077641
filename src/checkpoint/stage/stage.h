/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/stage.h - the staging directory of a job, and how it becomes the target. Read job.h
 * first.
 *
 * fresh: the target is not there, or empty: the staging directory lies beside it, and is renamed to
 * it. Otherwise it lies in it, and its files are renamed one by one. Journals lie in the staging
 * directory, too.
 */
#ifndef SFT_CHECKPOINT_STAGE_H
#define SFT_CHECKPOINT_STAGE_H

#include "checkpoint/stage/entries.h"
#include "checkpoint/stage/journal.h"
#include "fs/output/staged.h"

typedef struct sft__checkpoint_stage {
    const sft_job *job;
    const sft_allocator *allocator;
    const char *root;      /* NUL-terminated, without a slash at its end */
    const char *directory; /* staging */
    sft__base_arena arena;
    bool fresh;
    bool durable;
    bool held; /* from opening on: nobody removes the staging directory meanwhile */
    sft__fs_handle hold;
} sft__checkpoint_stage;

/* Looks at the target: nothing is made yet. */
sft_status sft__checkpoint_stage_init(sft__checkpoint_stage *stage, const sft_job *job,
                                      const char *directory, bool durable, sft_error *err);
/* The same for a directory that is no job's (job stays NULL), and must not be there, or be empty. */
sft_status sft__checkpoint_stage_init_set(sft__checkpoint_stage *stage, const char *directory,
                                          bool durable, const sft_allocator *allocator,
                                          sft_error *err);
bool sft__checkpoint_stage_is_there(const sft__checkpoint_stage *stage);
void sft__checkpoint_stage_reset(sft__checkpoint_stage *stage);
/* Makes the directories that are missing. restart: what lies in the staging directory goes. SFT_E_EXISTS:
 * an output would replace what is no file, or (of several) a source; SFT_E_PATH: the staging directory
 * is a link; SFT_E_STATE: restart, and another process is at work in it. */
sft_status sft__checkpoint_stage_open(sft__checkpoint_stage *stage, bool restart, sft_error *err);
/* Nobody else removes the staging directory from here on. */
sft_status sft__checkpoint_stage_hold(sft__checkpoint_stage *stage, sft_error *err);
/* The directories between the staging directory and a file in it. */
sft_status sft__checkpoint_stage_parents(const sft__checkpoint_stage *stage, const char *directory,
                                         const char *name, sft_error *err);
/* Flushes these directories, and so the entries in them. */
sft_status sft__checkpoint_stage_sync_parents(const sft__checkpoint_stage *stage, const char *name,
                                              sft_error *err);
sft_status sft__checkpoint_stage_journal(const sft__checkpoint_stage *stage, uint32_t task,
                                         uint32_t tasks, sft__base_buf *out, sft_error *err);
/* The file that the task holds which publishes; guard_end: after it was closed. */
sft_status sft__checkpoint_stage_guard(const sft__checkpoint_stage *stage, sft__base_buf *out,
                                       sft_error *err);
void sft__checkpoint_stage_guard_end(const char *path);
/* The file by which the processes of a group see how far the others are. */
sft_status sft__checkpoint_stage_board(const sft__checkpoint_stage *stage, sft__base_buf *out,
                                       sft_error *err);
/* What all journals in a directory say; none is fine. */
sft_status sft__checkpoint_stage_read(const sft__checkpoint_stage *stage, const char *directory,
                                      sft__checkpoint_done *done, sft_error *err);
/* False: another process is at work in the staging directory, which was opened. */
bool sft__checkpoint_stage_have_alone(sft__checkpoint_stage *stage);
/* All that the job writes is in the target, of its size: another process has published it. */
bool sft__checkpoint_stage_is_published(const sft__checkpoint_stage *stage);
/* SFT_E_EXISTS if an output is there. */
sft_status sft__checkpoint_stage_check(const sft__checkpoint_stage *stage, sft_error *err);
/* All files are complete, flushed, and closed: gives them their names. Can be done again. */
sft_status sft__checkpoint_stage_commit(const sft__checkpoint_stage *stage, sft_error *err);
/* SFT_E_EXISTS: something lies in the staging directory that no job put there; any_plan: not even one of
 * another plan. */
sft_status sft__checkpoint_stage_ours(const sft__checkpoint_stage *stage, bool any_plan,
                                      sft_error *err);
/* Removes the staging directory with all that is in it, if all is this plan's. */
sft_status sft__checkpoint_stage_drop(const sft__checkpoint_stage *stage, sft_error *err);
/* Removes the journals, those that say "commit" last: a run that is killed meanwhile is known to
 * have done everything. */
sft_status sft__checkpoint_stage_clean(const sft__checkpoint_stage *stage, const char *directory,
                                       sft_error *err);

#endif
