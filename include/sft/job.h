/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/job.h - writing many files at once from tensors that lie anywhere: split, join, reshard,
 * slice, unify. In the library libsafetensors-checkpoint.
 *
 * A job is a plan made from headers alone: output files, each with the tensors of a catalog (whose
 * pieces lie in any number of source files), and plain texts (an index, a name map) that are written last.
 * Running it copies the bytes in bounded memory: tensors sharded along rows in long stretches, tensors
 * sharded along columns in bands that read every source byte once. The files are exactly those that
 * sft_save would write.
 *
 * Caveats first.
 *  - While a job runs, its bytes lie in a staging directory beside the target, or in it:
 *    ".NAME.sft-part". Nothing appears under its final name before everything is written. A directory
 *    that did not exist, or was empty, appears with all its files at once (one rename). In a directory
 *    that holds other things the files are renamed one after the other, texts last (older files under
 *    those texts' names are removed first); after a kill between two of these renames, running the job
 *    again completes it.
 *  - A staging directory stays behind when a run is killed or fails: the next run resumes from its
 *    journal. To start over, delete it or give SFT_JOB_RESTART.
 *  - A source counts as unchanged if its size and time of last change are what they were when the job
 *    was created.
 *
 * Threads: a job is immutable; sft_job_run may run in many threads and processes at once for
 * different tasks.
 */
#ifndef SFT_JOB_H
#define SFT_JOB_H

#include <sft/catalog.h>
#include <sft/write.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One file to write. */
typedef struct sft_job_file {
    const char *name; /* relative, UTF-8, "/" between directories; no "..", no hidden component */
    const sft_catalog *catalog; /* borrowed: must outlive the job, with all that it borrows from */
    /* positions in the catalog, in the order wanted; NULL: all, in its order */
    const uint32_t *tensors;
    size_t tensor_count;
    const sft_metadata_entry *metadata; /* as for sft_save; NULL with count 0: no __metadata__ */
    size_t metadata_count;
    uint32_t flags; /* SFT_JOB_FILE_* */
    uint32_t reserved;
} sft_job_file;
/* The metadata of the catalog's files, as far as they do not contradict one another, and without
 * recorded digests, which are of those files; then those given, which replace entries of the same key. */
#define SFT_JOB_FILE_METADATA 1u

/* A plain file, written after all others, in the order given. */
typedef struct sft_job_text {
    const char *name;
    const void *data;
    size_t size;
} sft_job_text;

typedef struct sft_job_options {
    size_t struct_size;
    const sft_allocator *allocator; /* must outlive the job */
    const sft_limits *limits;
    sft_order order;         /* REFERENCE or DECLARED */
    uint32_t digests;        /* SFT_DIGEST_* of each tensor, recorded in every file's metadata as
                                <sft/digest.h> describes: computed from what was written, once all of it
                                is there */
    uint64_t data_alignment; /* as in sft_write_options */
} sft_job_options;

typedef struct sft_job sft_job;

/* Makes the plan. Names, metadata and texts are copied. Every tensor must be covered by its pieces:
 * SFT_E_HOLE names the first that is not, SFT_E_OVERLAP where two pieces would write the same
 * bytes. SFT_E_DUPLICATE: two outputs of one name. SFT_E_PATH: a name that leads elsewhere.
 * SFT_E_SUBBYTE: a cut through a block. Cost: O(pieces log pieces), no data is read. */
SFT_API SFT_MUST_CHECK sft_status sft_job_create(sft_job **out, const sft_job_file *files,
                                                 size_t count, const sft_job_text *texts,
                                                 size_t text_count, const sft_job_options *options,
                                                 sft_error *err);
SFT_API void sft_job_free(sft_job *job); /* NULL is fine */

/* What one output costs, or the whole job. */
typedef struct sft_job_cost {
    const char *name;      /* of the file; NULL for the whole job */
    uint64_t bytes;        /* of the file(s), headers included */
    uint64_t header_bytes; /* of these, headers and texts */
    uint64_t tensors;
    uint64_t runs;       /* contiguous pieces that are brought together */
    uint64_t sources;    /* distinct source files */
    uint64_t bytes_read; /* of the source files; in the whole job, what is read once for several
                            files counts once */
    uint64_t cost; /* bytes read and written, and 4 KiB for each contiguous stretch read or written:
                      to compare */
} sft_job_cost;

/* Calls visit for every file, then every text, in the order of creation, until one call does not
 * return SFT_OK; that status is returned. */
typedef sft_status (*sft_job_visit)(void *ctx, const sft_job_cost *cost, sft_error *err);
SFT_API sft_status sft_job_plan(const sft_job *job, sft_job_visit visit, void *ctx, sft_error *err);
SFT_API void sft_job_total(const sft_job *job, sft_job_cost *cost);

/* SHA-256 over all that decides what a run does: names, headers, texts, which bytes of which source
 * go where, and the sources' sizes and times of last change. Equal on every machine that sees the
 * same files. */
SFT_API void sft_job_key(const sft_job *job, uint8_t key[32]);

#define SFT_JOB_REPLACE 1u /* files of these names may exist, and are replaced */
#define SFT_JOB_RESTART                                                                            \
    2u                       /* forget what an earlier run has left; with tasks, of this task only \
                              */
#define SFT_JOB_NO_FINISH 4u /* of a task: never publish, even if it is the last one */
#define SFT_JOB_FINISH                                                                             \
    8u /* publish what tasks have written; SFT_E_STATE says which part is missing */
#define SFT_JOB_VERIFY                                                                             \
    32u /* what is written, or was by an earlier run, is read again and compared with what         \
           was read from the sources: SFT_E_MISMATCH, or written again */

typedef struct sft_job_run_options {
    size_t struct_size;
    const sft_pool *pool; /* NULL: the calling thread alone */
    const sft_control *control;
    uint64_t memory_bytes; /* buffers in all; default 256 MiB, at least 4 MiB */
    /* NONE: nothing is flushed; safe against a kill, not against a power cut */
    sft_durability durability;
    uint32_t flags; /* SFT_JOB_* */
    uint32_t task;  /* 1 to tasks: only this share of the bytes, the same on every machine */
    uint32_t tasks; /* 0: all of it. The last task to end publishes */
    /* Called once by the process that publishes, in its calling thread, when all bytes are written and
     * before digests, headers and names are; what it returns but SFT_OK ends the run. NULL: nothing is
     * called. Not for groups of processes. */
    sft_status (*proof)(void *ctx, sft_error *err);
    void *proof_ctx;
} sft_job_run_options;

typedef struct sft_job_result {
    size_t struct_size;
    uint64_t bytes_written;
    uint64_t bytes_read;
    uint64_t bytes_kept; /* written by an earlier run */
    uint32_t published;  /* 1: everything is in place; 0: other tasks are not done yet */
    uint32_t reserved;
} sft_job_result;

/* Carries the job out below `directory`, which is made if need be (not its parents).
 * result may be NULL. Errors: SFT_E_EXISTS; SFT_E_CHANGED (a source has changed since the job was
 * created, or since an earlier run whose journal is there); SFT_E_MISMATCH (that journal is of
 * another plan or of other sources); SFT_E_STATE
 * (another process runs the same task, is at work where all was to be forgotten, or has removed
 * what this one wrote; or tasks are missing); SFT_E_IO (ENOSPC in err->sys: the
 * disk is full), SFT_E_CANCELLED. After any error but SFT_E_DURABILITY nothing has appeared, and
 * what is finished is kept for the next run. */
SFT_API SFT_MUST_CHECK sft_status sft_job_run(const sft_job *job, const char *directory,
                                              const sft_job_run_options *options,
                                              sft_job_result *result, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
