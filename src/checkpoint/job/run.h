/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run.h - a run of a job while it goes on, in layers that each call those before: state
 * (run_state.c), the board of a group (run_board.c), the journal (run_journal.c); then order, units, proofs
 * and digests (run_lanes.c, run_units.c, run_prove.c, run_digest.c), and what is left behind (run_leave.c);
 * run.c does them one after the other, run_group.c with the other processes of a group between them. Read
 * outputs.h first.
 */
#ifndef SFT_CHECKPOINT_JOB_RUN_H
#define SFT_CHECKPOINT_JOB_RUN_H

#include "checkpoint/group/group.h"
#include "checkpoint/stage/outputs.h"
#include "move/loop.h"
#include <sft/digest.h>

/* What a process of a group knows of the others while all of them work: from a small file in the
 * staging directory, for nothing but files may be used from the pool's threads. */
typedef struct sft__checkpoint_crew {
    const sft_group *group; /* NULL: there is none */
    uint32_t *owner;        /* by unit: who does it */
    /* numbers of 8 bytes: not 0 if somebody has failed; bytes moved, by rank */
    sft__fs_handle board;
    sft__base_buf board_path;
    uint8_t *numbers; /* rank 0: room for the board */
    uint64_t others;  /* bytes moved by the others when last seen; the loop counts them, too */
    uint64_t total;   /* to be moved by all */
    bool stopped;     /* it was another one that failed */
} sft__checkpoint_crew;

typedef struct sft__checkpoint_running {
    const sft_job *job;
    sft_job_run_options options;
    sft__checkpoint_stage stage;
    sft__checkpoint_outputs outputs;
    sft__checkpoint_done done;
    size_t *mine; /* units of this task that are to be done */
    size_t mine_count;
    uint64_t mine_bytes;
    sft__fs_handle journal;
    uint64_t journal_size;
    sft__base_buf journal_path;
    sft__base_mutex journal_lock; /* of the three above; taken before the other */
    sft__base_mutex lock;         /* of the three below */
    bool ready;                   /* the locks exist */
    sft__base_buf pending;        /* lines that wait for a flush */
    uint64_t pending_bytes;
    uint64_t read;
    sft__move_loop loop; /* while blocks are done */
    uint64_t moved;      /* by loops that have ended */
    uint64_t kept;
    sft__checkpoint_crew crew; /* under the loop's lock */
} sft__checkpoint_running;

/* Checks the options, finds the places; nothing on the disk is changed. To be reset after any
 * result. */
sft_status sft__checkpoint_running_prepare(sft__checkpoint_running *r, const sft_job *job,
                                           const char *directory,
                                           const sft_job_run_options *options, sft_error *err);
void sft__checkpoint_running_reset(sft__checkpoint_running *r);
/* Nothing has changed since the job was made. */
sft_status sft__checkpoint_running_check_sources(const sft__checkpoint_running *r, sft_error *err);
/* An earlier run has done it all, and only left its journals behind. */
sft_status sft__checkpoint_running_is_published(sft__checkpoint_running *r, bool *published,
                                                sft_error *err);
sft_status sft__checkpoint_running_open_journal(sft__checkpoint_running *r, sft_error *err);
sft_status sft__checkpoint_running_write_lines(sft__checkpoint_running *r, sft__base_buf *lines,
                                               sft_error *err);
/* What was finished up to now becomes a fact: flushed, and its lines in the journal. */
sft_status sft__checkpoint_running_keep(sft__checkpoint_running *r, sft_error *err);
/* Blocks 0 to count - 1 by the common loop, each with r->loop for buffers of `room` bytes, as many as the
 * options grant memory for, and for what it moves. */
typedef sft_status sft__checkpoint_running_block(void *ctx, size_t index, sft_error *err);
sft_status sft__checkpoint_running_loop(sft__checkpoint_running *r,
                                        sft__checkpoint_running_block *block, void *ctx,
                                        size_t count, size_t room, sft_error *err);
/* Bytes of an output: their CRC32C and SHA-256 (NULL: not wanted) go on. Within a block. */
sft_status sft__checkpoint_running_sum(sft__checkpoint_running *r, sft__checkpoint_range range,
                                       uint32_t *crc, sft_sha256 *sha, sft_error *err);
/* Orders the list of units for many threads. Best effort: without memory the order stays. */
void sft__checkpoint_running_spread(sft__checkpoint_running *r);
/* The units of this process, verified if the options say so. */
sft_status sft__checkpoint_running_units(sft__checkpoint_running *r, sft_error *err);
/* Units that other tasks say they did and nobody here has looked at: proven, or done by this one. */
sft_status sft__checkpoint_running_prove_others(sft__checkpoint_running *r, sft_error *err);
bool sft__checkpoint_running_is_complete(const sft__checkpoint_running *r, size_t *missing);
/* Files `first`, `first + step` and so on: digests of what was written, headers; then they are flushed
 * and closed. */
sft_status sft__checkpoint_running_finish_files(sft__checkpoint_running *r, size_t first,
                                                size_t step, sft_error *err);
/* CRC32C of the headers in the staging directory. */
sft_status sft__checkpoint_running_sum_headers(sft__checkpoint_running *r, uint32_t *crc,
                                               sft_error *err);
/* What journals that say "commit" speak of is all there, byte for byte: in `directory`, or if that is
 * NULL in the staging directory and, renamed, in the target. SFT_E_MISMATCH: it is not. */
sft_status sft__checkpoint_running_prove_committed(sft__checkpoint_running *r,
                                                   const sft__checkpoint_done *done,
                                                   const char *directory, sft_error *err);
/* Texts, "commit", names. */
sft_status sft__checkpoint_running_commit(sft__checkpoint_running *r, sft_error *err);
/* Gives the message of a source that has changed to what reading it said. */
sft_status sft__checkpoint_running_explain(const sft__checkpoint_running *r, sft_status status,
                                           sft_error *err);
/* What was moved, read and kept, as much of it as the caller's result has; result may be NULL. */
void sft__checkpoint_running_tell(const uint64_t sums[3], bool published, sft_job_result *result);
/* A staging directory that is gone was published, as *published says then, not removed: what this
 * process wrote is not lost. SFT_E_STATE: it is. */
sft_status sft__checkpoint_running_check_kept(const sft__checkpoint_running *r, bool *published,
                                              sft_error *err);
/* After a failure: a staging directory that nobody can go on from is not left behind. */
void sft__checkpoint_running_leave(sft__checkpoint_running *r);

/* The board of a group: opened by each process, looked at after a unit (SFT_E_CANCELLED: another process
 * has failed), and after a failure. */
sft_status sft__checkpoint_crew_open(sft__checkpoint_running *r, sft_error *err);
sft_status sft__checkpoint_crew_tick(sft__checkpoint_running *r, sft_error *err);
void sft__checkpoint_crew_stop(sft__checkpoint_running *r);

#endif
