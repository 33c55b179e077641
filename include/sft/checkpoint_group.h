/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/checkpoint_group.h - what many processes of one job do together: carry out a job, save the
 * parts that each of them holds, load the parts that each of them wants. In the library
 * libsafetensors-checkpoint, which knows no message passing: the caller lends two functions,
 * whatever they are made of (MPI: sft/mpi.h; torch.distributed; threads).
 *
 * Tensor bytes never go through these functions: every process writes and reads files of a file
 * system that all of them see. What is exchanged is a few bytes for each tensor, in blocks of at
 * most SFT_GROUP_BLOCK bytes.
 *
 * Caveats first.
 *  - Every process of the group must make the same calls in the same order, with the same path and
 *    the same options. A process that fails before it calls must call all the same, with tensors
 *    NULL and count SFT_GROUP_FAILED: the others would wait for it forever.
 *  - All processes get the same status: if one fails all fail, and the message of the lowest rank
 *    that failed begins with "rank K: " everywhere. Nothing has appeared then.
 *  - A process that dies in the middle leaves the others to what the lent functions do about that
 *    (MPI ends them all). Nothing has appeared then either; the next run clears up.
 *
 * Threads: the lent functions are called from the thread that makes the call, and from no other.
 * The pool's threads only read and write files.
 */
#ifndef SFT_CHECKPOINT_GROUP_H
#define SFT_CHECKPOINT_GROUP_H

#include <sft/checkpoint_open.h>
#include <sft/job.h>
#include <sft/load.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SFT_GROUP_BLOCK ((size_t)1 << 20) /* bytes of one process in one allgather, at most */

/* The processes, and how they talk. Borrowed for the call. */
typedef struct sft_group {
    size_t struct_size; /* SFT_INIT */
    uint32_t rank;      /* of this process, 0 to size - 1 */
    uint32_t size;
    /* Everybody's `bytes` bytes at `mine`, in the order of ranks, to `all` (size * bytes) of
     * everybody. bytes is the same for all, more than 0, at most SFT_GROUP_BLOCK; the buffers do
     * not overlap. A failure (err, never NULL, filled with sft_error_set) ends the call here, and
     * is expected to end it for the others. */
    sft_status (*allgather)(void *ctx, const void *mine, size_t bytes, void *all, sft_error *err);
    /* Returns when all have called it. NULL: an allgather of one byte does it. */
    sft_status (*barrier)(void *ctx, sft_error *err);
    void *ctx;
} sft_group;

/* ---------------------------------------------------------------- jobs */

/* sft_job_run by all processes together: the job must be the same one for all (the keys are
 * compared: SFT_E_MISMATCH says what is different, and where). Each does a share of the bytes that
 * are still to be done, contiguous in the files as far as can be; what an earlier run of any number
 * of processes has finished is kept. Rank 0 makes the staging directory, and publishes when all have
 * succeeded. options->task and tasks must be 0, FINISH and NO_FINISH unset; memory_bytes is of each
 * process. options->control: rank 0's hears of the bytes of all; a process that is cancelled
 * cancels all. job NULL: this process has failed already, err says how; all fail with it. result:
 * of all processes together; the same for all. group NULL, or of size 1: as sft_job_run. Errors:
 * those of sft_job_run. */
SFT_API SFT_MUST_CHECK sft_status sft_job_run_group(const sft_job *job, const char *directory,
                                                    const sft_job_run_options *options,
                                                    const sft_group *group, sft_job_result *result,
                                                    sft_error *err);

/* ---------------------------------------------------------------- tensors of one process */

/* A part of a tensor in memory of the caller's. */
typedef struct sft_group_tensor {
    const char *name; /* of the global tensor, UTF-8 */
    size_t name_len;
    const sft_dtype *dtype;
    const uint64_t *shape; /* of the global tensor, `dims` sizes */
    uint32_t dims;
    uint32_t reserved; /* 0 */
    /* The box of the global tensor that lies here: dims starts, dims sizes. Both NULL: what the
     * layouts in the options give to this process; without layouts all of it. A size may be 0: an
     * empty part. */
    const uint64_t *start;
    const uint64_t *count;
    void *data; /* the part, packed, row-major, little-endian; any alignment. Save only reads it */
    uint64_t nbytes; /* of the part: checked */
} sft_group_tensor;
/* As count: this process has failed already, err says how. */
#define SFT_GROUP_FAILED ((size_t)-1)

/* ---------------------------------------------------------------- save */

typedef struct sft_group_save_options {
    size_t struct_size;
    const sft_allocator *allocator;
    const sft_limits *limits;
    /* How tensors without a box are sharded; borrowed. With layouts no tensor may have a box. NULL: by
     * boxes. */
    sft_layout_set *layouts;
    const sft_metadata_entry *metadata; /* of every file; the same on all */
    size_t metadata_count;
    const char *name; /* "model": middle part of the files' names; NULL: that */
    sft_durability durability;
    uint32_t digests; /* SFT_DIGEST_* to record in the files' __metadata__; 0: none */
    uint32_t flags;   /* 0 */
    uint32_t reserved;
    const sft_pool *pool; /* of this process; NULL: the calling thread alone */
    const sft_control *control;
} sft_group_save_options;

typedef struct sft_group_result {
    size_t struct_size;
    uint64_t bytes;       /* of tensors, by this process: written, or read */
    uint64_t tensors;     /* parts that this process wrote, or asked for */
    uint64_t total_bytes; /* save: of all files; load: of all processes' parts */
    uint64_t total_files; /* save: of tensors; load: 0 */
} sft_group_result;

/* Saves what the processes hold as the directory `path`, which must not be there, or be empty
 * (SFT_E_EXISTS). Parts that several processes hold are written by one of them: those with the
 * fewest holders first, then the largest, to the one with the fewest bytes so far. Every process
 * writes files of its own into a staging directory beside the target (".NAME.sft-part"), flushed; rank
 * 0 then proves from the files that nothing is missing, writes the description and the marker, and
 * renames the directory: it is there with everything, or not at all. A staging directory of a save that
 * was killed is removed by the next one.
 *
 * What is in the directory:
 *  - without layouts: shard-SSSSS-NAME-KKKKK-of-MMMMM.safetensors as PyTorch's
 *    HuggingFaceStorageWriter names and describes them (DCP_SHARDING_INFO), so that PyTorch reads
 *    the directory; K above 1 where a process holds several boxes of one tensor; and topology.json,
 *    which has all shapes and boxes
 *  - with layouts: rank_N/NAME.safetensors, and layout.json
 *  - sft-checkpoint.json: the marker, written last: how many files there are, and each one's size
 * The directory opens as a checkpoint (sft/checkpoint_open.h), with all commands of the tool.
 *
 * A tensor of no bytes that several processes hold is written by the lowest rank. Errors, beside
 * those of writing: SFT_E_ARG, SFT_E_DUPLICATE (a part given twice by one process),
 * SFT_E_MISMATCH (processes disagree about dtype or shape), SFT_E_HOLE and SFT_E_OVERLAP (parts
 * that leave something out, or overlap without being equal), SFT_E_SHAPE (a layout that does not
 * fit). What replicas hold is assumed to be equal. Memory: 64 bytes for each different part of
 * the job and each of its holders, and 64 MiB. result may be NULL. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_save_group(
    const sft_group *group, const char *path, const sft_group_tensor *tensors, size_t count,
    const sft_group_save_options *options, sft_group_result *result, sft_error *err);

/* ---------------------------------------------------------------- load */

typedef struct sft_group_load_options {
    size_t struct_size;
    /* how the checkpoint is opened; NULL: as it says itself */
    const sft_checkpoint_options *source;
    /* how tensors without a box are sharded here; borrowed; NULL: not at all */
    sft_layout_set *layouts;
    const sft_pool *pool;
    const sft_control *control;
    sft_strategy strategy;
    uint32_t flags; /* SFT_GROUP_* */
} sft_group_load_options;
#define SFT_GROUP_CAST    1u /* dtypes may differ: converted as by sft_load */
#define SFT_GROUP_MISSING 2u /* tensors that the checkpoint does not have are left as they are */

/* Loads parts of a saved model into the caller's memory: any checkpoint that sft_checkpoint_open
 * knows, of any number of ranks and sharded in any way, or any model that sft_catalog_open knows. Each
 * process reads what it asks for, once, neighbours together, straight into place where the bytes
 * lie so. It may ask for nothing (count 0). group NULL: this process alone. Processes need not ask
 * for the same tensors.
 * Errors: SFT_E_NOT_FOUND (a tensor is not there), SFT_E_SHAPE, SFT_E_MISMATCH (dtype), SFT_E_ARG
 * (nbytes), and those of opening and of sft_load. After a failure the memory holds anything.
 * result may be NULL. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_load_group(
    const sft_group *group, const char *path, const sft_group_tensor *tensors, size_t count,
    const sft_group_load_options *options, sft_group_result *result, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
