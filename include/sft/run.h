/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/run.h - a training run: a directory of complete, verified steps, saved while training goes on. In the
 * library libsafetensors-checkpoint. What lies on the disk is described in docs/run.md.
 *
 *     sft_run_open(&run, "run", &options, &err);
 *     status = sft_run_resume(&point, run, NULL, &err);       SFT_E_NOT_FOUND: a new run
 *     ...
 *     sft_run_begin(&save, run, step, &err);                  every so often
 *     sft_run_add_tensor(save, &tensor, &err);                what is to be saved, by name
 *     sft_run_add_f64(save, "lr", lr, &err);
 *     sft_run_stage(save, NULL, &err);                        copies; from here on memory may change
 *     ...
 *     sft_run_close(run, &err);                               waits for what is being written
 *
 * Caveats first.
 *  - Between staging and the commit a step lies in memory only: a process that is killed then loses that
 *    step, never an older one. sft_run_wait waits for the commit.
 *  - A save that fails does not stop training: its error is the result of the next call of begin, poll,
 *    wait or close, once; whatever that call was to do has not been done then, but for close, which always
 *    frees. All older steps are whole.
 *  - Memory: each arena holds one whole step. With one arena (the default) sft_run_stage waits until the
 *    step before has been written; with two it waits for the one before that.
 *  - The thread that writes is the run's own. It ends in sft_run_close. After fork() a child must not use
 *    the run.
 *  - Where the file system knows no locks, two processes are not kept apart.
 *  - A hard link is made only to a file whose every byte was compared. Programs that write into files of a
 *    step in place change all steps that share the file, and make all of them fail their digests;
 *    sft_edit_metadata does not: it writes a new file.
 *
 * Many processes (options.group): every process makes the same calls of open, begin, stage and resume
 * (with its own tensors, texts and blobs), of sft_run_point_load and sft_run_point_next; these talk, in
 * the calling thread. What happens behind does not: processes leave notes in the directory, which all
 * must see. Rank 0 has the lock, the files, the metrics, the rules.
 *
 * Threads: one thread at a time may use a run and its saves, except that poll and wait may be called from
 * any.
 */
#ifndef SFT_RUN_H
#define SFT_RUN_H

#include <sft/checkpoint_group.h>
#include <sft/extend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- rules: which steps stay */

typedef enum sft_run_mode {
    SFT_RUN_MIN = 0, /* the best is the least */
    SFT_RUN_MAX = 1,
    SFT_RUN_MODE_FORCE_32BIT = 0x7fffffff
} sft_run_mode;

/* A step stays if one of the rules keeps it; with no rule at all every step stays. The newest complete
 * step, the one committed last, and the best one where `best` names a metric, always stay; every complete
 * one does where none has that metric, so that nobody knows the best. Incomplete ones older than the newest
 * complete one go. Steps that sft_run_resume has passed over do not count. */
typedef struct sft_run_rules {
    size_t struct_size;
    uint64_t keep_last;    /* the N newest complete steps */
    uint64_t keep_every;   /* steps whose number is a multiple of this */
    uint64_t keep_best;    /* the M best by `best`; 0 with a `best`: one */
    uint64_t keep_seconds; /* steps younger than this */
    const char *best; /* a metric; NULL: none. A NaN is never the best; of equals the oldest is */
    sft_run_mode best_mode;
    uint32_t reserved;
} sft_run_rules;

/* ---------------------------------------------------------------- open and close */

typedef struct sft_run sft_run;

/* Nothing is written, no lock is taken, and another process may be at work in the run. */
#define SFT_RUN_READ_ONLY 1u
/* Without SFT_DURABLE_FULL's flushes: SFT_DURABLE_NONE. */

typedef struct sft_run_options {
    size_t struct_size;
    const sft_allocator *allocator; /* of the bookkeeping; must outlive the run */
    const sft_run_rules *rules;     /* copied; NULL: every step stays */
    const sft_pool *pool;     /* copies while staging; must outlive the run; NULL: one thread */
    const sft_pool *writers;  /* writes behind; NULL: the run's own thread alone */
    const sft_copier *copier; /* for tensors in device memory; copied; NULL: there are none */
    const sft_group *group;   /* must outlive the run; NULL: this process alone. See below */
    uint64_t shard_bytes;   /* a file of more is sharded, between tensors; default 5,000,000,000 */
    uint64_t reserve_bytes; /* room that each arena has, and that is touched, from the beginning:
                               the first save costs no more than the later ones then */
    uint64_t timeout_ms;    /* of a group: how long a process waits for the others while a step is
                               committed; default 600,000 */
    sft_durability durability;
    uint32_t arenas; /* default 1, at most 16 */
    uint32_t sha256; /* 1: record SHA-256 of tensors and files, too */
    uint32_t flags;  /* SFT_RUN_* */
} sft_run_options;

/* Makes the directory if it is not there (not with READ_ONLY: SFT_E_NOT_FOUND), takes the run's lock, and
 * removes what a killed process has left half written or half removed. SFT_E_STATE: another process has the
 * run (one that is about to end is waited for, two seconds). SFT_E_FORMAT: the directory holds a run.json
 * that is none of ours. options may be NULL. */
SFT_API SFT_MUST_CHECK sft_status sft_run_open(sft_run **out, const char *path,
                                               const sft_run_options *options, sft_error *err);
/* Waits until everything staged is written (or has failed), then frees, whatever it returns: an error that
 * no call has told yet. Its points are to be freed before. NULL is fine. */
SFT_API SFT_MUST_CHECK sft_status sft_run_close(sft_run *run, sft_error *err);

/* ---------------------------------------------------------------- save */

typedef struct sft_run_save sft_run_save;

typedef enum sft_run_part {
    SFT_RUN_MODEL = 0,     /* model*.safetensors: names of parameters */
    SFT_RUN_OPTIMIZER = 1, /* optimizer*.safetensors: optimizer.<state>.<parameter> */
    SFT_RUN_STATE = 2,     /* state*.safetensors: state.<name>, everything else */
    SFT_RUN_PART_FORCE_32BIT = 0x7fffffff
} sft_run_part;

/* Expected not to change from one step to the next (parameters without gradient): lies in files of such
 * tensors alone, which are linked instead of written where they are equal. No promise: what has changed is
 * written. */
#define SFT_RUN_FROZEN 1u

/* Bytes [offset, offset + size) of a packed tensor to dst, at most 8 MiB at a time and in order, in the
 * thread that calls sft_run_stage. */
typedef sft_status (*sft_run_fill)(void *ctx, uint64_t offset, void *dst, size_t size,
                                   sft_error *err);

/* One tensor. Exactly one of data, fill and address is given (none for 0 bytes). Name and shape are copied
 * at once; bytes are read by sft_run_stage. */
typedef struct sft_run_tensor {
    size_t struct_size;
    const char *name; /* UTF-8; unique in the step */
    size_t name_len;
    const sft_dtype *dtype;
    const uint64_t *shape; /* of the global tensor */
    uint32_t rank;         /* sizes of shape, start and count */
    uint32_t part;         /* sft_run_part */
    const void *data;      /* packed, row-major, little-endian; any alignment */
    uint64_t nbytes;       /* of what lies here: checked */
    sft_run_fill fill;
    void *fill_ctx;
    uint64_t address; /* for the copier */
    /* Of a group: the box of the global tensor that lies here; both NULL: all of it (a replica). Without a
     * group both are NULL. */
    const uint64_t *start;
    const uint64_t *count;
    uint32_t flags; /* SFT_RUN_FROZEN */
    uint32_t reserved;
} sft_run_tensor;

/* Replaces a complete step of this number (one that is being written is waited for), and whatever else is
 * there (SFT_RUN_KEPT_OTHER: a step of another run, a link: what it points at stays). Incomplete ones, and
 * those of this run that sft_run_resume passed over, are replaced in any case. */
#define SFT_RUN_REPLACE 1u

/* Begins a step. out: owned, until it is staged or freed. SFT_E_EXISTS: the step is there (flags: REPLACE)
 * or is being written; or, without REPLACE, a newer one is, which the next resume would take:
 * sft_run_rewind. Newer ones that were found to be damaged (sft_run_resume, sft_run_list_make) are no
 * hindrance. SFT_E_STATE: another save is begun and not staged; the run is read-only. */
SFT_API SFT_MUST_CHECK sft_status sft_run_begin(sft_run_save **out, sft_run *run, uint64_t step,
                                                uint32_t flags, sft_error *err);
SFT_API void sft_run_save_free(sft_run_save *save); /* without staging; NULL is fine */

/* SFT_E_ARG (nbytes; a name without its part's beginning), SFT_E_NOMEM. A name that is given twice is
 * found by sft_run_stage. */
SFT_API SFT_MUST_CHECK sft_status sft_run_add_tensor(sft_run_save *save,
                                                     const sft_run_tensor *tensor, sft_error *err);

/* Entries of state.json, by names of their own (UTF-8). Numbers are exact: a float is the shortest decimal
 * that reads back equal, NaN and infinities included. */
SFT_API SFT_MUST_CHECK sft_status sft_run_add_f64(sft_run_save *save, const char *name,
                                                  double value, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_run_add_i64(sft_run_save *save, const char *name,
                                                  int64_t value, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_run_add_bool(sft_run_save *save, const char *name, int value,
                                                   sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_run_add_text(sft_run_save *save, const char *name,
                                                   const char *text, size_t len, sft_error *err);
/* Bytes (a state of a random generator) as the U8 tensor state.<name>. Copied at once. */
SFT_API SFT_MUST_CHECK sft_status sft_run_add_blob(sft_run_save *save, const char *name,
                                                   const void *data, size_t size, sft_error *err);
/* Anything else: a node in the form of docs/tree.md. Checked to be JSON. Copied. Its tensors are tensors
 * of the step: the reader of the tree checks that. */
SFT_API SFT_MUST_CHECK sft_status sft_run_add_node(sft_run_save *save, const char *name,
                                                   const char *json, size_t len, sft_error *err);
/* A metric of this step, for rules and lists. */
SFT_API SFT_MUST_CHECK sft_status sft_run_add_metric(sft_run_save *save, const char *name,
                                                     double value, sft_error *err);
/* A file beside the weights (config.json, a tokenizer's): a plain name, or DIRECTORY/NAME, none that the step
 * may have itself. Copied. Of a group rank 0's count. */
SFT_API SFT_MUST_CHECK sft_status sft_run_add_file(sft_run_save *save, const char *name,
                                                   const void *data, size_t size, sft_error *err);
/* Once this step is committed, step `other` stays, too, whatever the rules say, until a later save names
 * another one: what the caller calls the best. Of this open run alone; of a group rank 0's counts. A step
 * that is not there when the rules are applied keeps nothing. */
SFT_API void sft_run_keep(sft_run_save *save, uint64_t other);
/* An entry of __metadata__ of the model's files; "format": "pt" is there in any case. Copied. */
SFT_API SFT_MUST_CHECK sft_status sft_run_add_metadata(sft_run_save *save, const char *key,
                                                       size_t key_len, const char *value,
                                                       size_t value_len, sft_error *err);

/* Copies everything into an arena, by all threads of the pool, and returns: from here on the caller may
 * change its memory. Writing goes on behind. The save is freed in every case. ticket: for poll and wait;
 * may be NULL. Waits for a free arena. Errors: SFT_E_DUPLICATE, SFT_E_LIMIT (entries of more than 100,000,000
 * bytes of state.json), those of the fill functions and of the
 * copier, SFT_E_NOMEM. Cost: one copy of the bytes. */
SFT_API SFT_MUST_CHECK sft_status sft_run_stage(sft_run_save *save, uint64_t *ticket,
                                                sft_error *err);
/* In place of sft_run_stage, where this process cannot give what it must: frees the save. The other processes
 * of a group, which wait in sft_run_stage, fail with this sentence. NULL is fine. */
SFT_API void sft_run_give_up(sft_run_save *save, const char *why);

/* ---------------------------------------------------------------- what happens behind */

typedef struct sft_run_progress {
    size_t struct_size;
    uint64_t pending;     /* steps that are staged and not yet committed */
    uint64_t staged;      /* newest step that was staged; SFT_RUN_NONE: none */
    uint64_t committed;   /* newest step that was committed by this run; SFT_RUN_NONE: none */
    uint64_t bytes_done;  /* of the step that is being written */
    uint64_t bytes_total; /* 0: nothing is being written */
    uint64_t linked;      /* bytes in files that were linked instead of written, of all steps */
    uint64_t written;     /* bytes in files that were written, of all steps */
} sft_run_progress;
#define SFT_RUN_NONE UINT64_MAX

/* Never waits. out may be NULL. Errors: that of a save that has failed and that no call has told. */
SFT_API SFT_MUST_CHECK sft_status sft_run_poll(sft_run *run, sft_run_progress *out, sft_error *err);
#define SFT_RUN_ALL     ((uint64_t)0)
#define SFT_RUN_FOREVER UINT64_MAX
/* Waits until the step of this ticket, or every step staged so far (SFT_RUN_ALL), is committed, and what
 * the rules do not keep is removed. SFT_E_TIMEOUT: it is not yet. Otherwise the error of that step,
 * however often it is asked for (of the newest 64 that failed); of SFT_RUN_ALL: one that no call has told.
 * Steps are written in the order in which they were staged, so that a step that is committed has
 * everything older before it. A removal that fails is no failure of the step: the next call tells it. */
SFT_API SFT_MUST_CHECK sft_status sft_run_wait(sft_run *run, uint64_t ticket, uint64_t timeout_ms,
                                               sft_error *err);

/* ---------------------------------------------------------------- resume */

typedef struct sft_run_point sft_run_point;

typedef enum sft_run_check {
    SFT_RUN_CHECK_DIGESTS = 0, /* every byte is read and compared with the manifest */
    SFT_RUN_CHECK_SIZES = 1, /* manifest, sizes and headers; digests are compared while loading, by
                                  sft_run_point_load, or sft_load with SFT_LOAD_VERIFY */
    SFT_RUN_CHECK_FORCE_32BIT = 0x7fffffff
} sft_run_check;

typedef struct sft_run_resume_options {
    size_t struct_size;
    const sft_pool *pool; /* for digests; NULL: the run's, for staging */
    const sft_control *control;
    uint64_t step; /* this one or none, where `exact`; else the newest up to it; 0: the newest */
    uint32_t exact;
    sft_run_check check;
} sft_run_resume_options;

/* The newest step that is complete and verified. *out: owned; NULL on failure. SFT_E_NOT_FOUND: there is
 * none: the message says why the newest was passed over, if there is a step at all. Each newer one that
 * was passed over is told by sft_run_skipped. Of a group: the same step for all, each process checks a
 * part. A read-only run beside a writer lists the steps again where those that it saw were removed or
 * replaced meanwhile; SFT_E_STATE: a hundred times, for a second. */
SFT_API SFT_MUST_CHECK sft_status sft_run_resume(sft_run_point **out, sft_run *run,
                                                 const sft_run_resume_options *options,
                                                 sft_error *err);
/* This one cannot be used after all (`why`: a sentence; its load failed): goes on to the next older one.
 * SFT_E_NOT_FOUND: there is none; the point is to be freed, no more. */
SFT_API SFT_MUST_CHECK sft_status sft_run_point_next(sft_run_point *point, const char *why,
                                                     sft_error *err);
SFT_API void sft_run_point_free(sft_run_point *point); /* NULL is fine */

SFT_API uint64_t sft_run_point_step(const sft_run_point *point);
SFT_API const char *sft_run_point_path(const sft_run_point *point); /* of its directory; a borrow */
/* Every tensor of the step: model, optimizer and state, global where the step was saved by many processes.
 * Borrowed; lives until the point is freed or goes on. */
SFT_API const sft_catalog *sft_run_point_catalog(const sft_run_point *point);

/* Loads into the caller's memory, in place: as sft_run_add_tensor describes it, `data` is written. Of a
 * group any boxes, whatever number of processes saved. Digests of tensors that are read whole are compared
 * on the way, unless the resume compared all of them. Errors: SFT_E_NOT_FOUND and SFT_E_SHAPE name the
 * parameter and both shapes: the step is of another model; SFT_E_MISMATCH: damage, or another dtype;
 * then the memory holds anything, and sft_run_point_next goes on to an older step. fill and address are
 * SFT_E_UNSUPPORTED. flags: SFT_GROUP_CAST, SFT_GROUP_MISSING. */
SFT_API SFT_MUST_CHECK sft_status sft_run_point_load(const sft_run_point *point,
                                                     const sft_run_tensor *tensors, size_t count,
                                                     uint32_t flags, sft_error *err);

/* Entries of state.json: of this process, if as many processes saved as there are now; else rank 0's.
 * SFT_E_NOT_FOUND; SFT_E_MISMATCH: it is of another type. Text and node are borrows. */
SFT_API SFT_MUST_CHECK sft_status sft_run_point_f64(const sft_run_point *point, const char *name,
                                                    double *out, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_run_point_i64(const sft_run_point *point, const char *name,
                                                    int64_t *out, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_run_point_bool(const sft_run_point *point, const char *name,
                                                     int *out, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_run_point_text(const sft_run_point *point, const char *name,
                                                     const char **out, size_t *len, sft_error *err);
/* Reads the blob: call with buffer NULL to learn *size. SFT_E_ARG: capacity is too small. */
SFT_API SFT_MUST_CHECK sft_status sft_run_point_blob(const sft_run_point *point, const char *name,
                                                     void *buffer, size_t capacity, size_t *size,
                                                     sft_error *err);
/* The JSON text of an entry of any type. */
SFT_API SFT_MUST_CHECK sft_status sft_run_point_node(const sft_run_point *point, const char *name,
                                                     const char **json, size_t *len,
                                                     sft_error *err);
/* The name of entry `index`, in the order in which they were added; NULL past the end. */
SFT_API const char *sft_run_point_name(const sft_run_point *point, size_t index);
/* A metric that was saved with it. */
SFT_API SFT_MUST_CHECK sft_status sft_run_point_metric(const sft_run_point *point, const char *name,
                                                       double *out, sft_error *err);

/* For a training that goes on from an older step, at that moment: compares the digests of `step`, and
 * removes every complete step above it, damaged ones, too; SFT_RUN_NONE: every one, to train anew. Waits for
 * what is being written. `latest` names `step` then. Steps of another run, links and incomplete steps stay.
 * A call that is killed or fails has removed none, or all: what is left is for nobody, and goes with the next
 * call, save or open (docs/run.md, "Going back"). *removed: how many; may be NULL. Of a group all
 * processes call it, with the same step: SFT_E_MISMATCH.
 * SFT_E_NOT_FOUND: `step` is not there, or not complete; SFT_E_MISMATCH and the like: it is damaged;
 * SFT_E_IO: a step above cannot be looked at: nothing was removed. SFT_E_STATE: the run is read-only. */
SFT_API SFT_MUST_CHECK sft_status sft_run_rewind(sft_run *run, uint64_t step, uint64_t *removed,
                                                 sft_error *err);

/* ---------------------------------------------------------------- what is there */

/* Why a rule keeps a step: bits. */
#define SFT_RUN_KEPT_LAST  1u
#define SFT_RUN_KEPT_EVERY 2u
#define SFT_RUN_KEPT_BEST  4u
#define SFT_RUN_KEPT_YOUNG 8u
#define SFT_RUN_KEPT_ALL   16u /* there is no rule */
/* Nothing complete is newer; or it is incomplete and newer; or this run has committed it last. */
#define SFT_RUN_KEPT_NEWEST 32u
/* It is of another run, or a link, or the system did not let us look at it. */
#define SFT_RUN_KEPT_OTHER 64u
/* A save of this run has named it: sft_run_keep. */
#define SFT_RUN_KEPT_NAMED 128u

typedef struct sft_run_step {
    const char *name; /* of its directory in the run */
    const char *why;  /* not complete, or not verified: a sentence; else "" */
    uint64_t step;
    int64_t time;       /* when it was saved, seconds since 1970 (UTC); 0: not known */
    uint64_t bytes;     /* of its files, by the manifest */
    uint64_t own_bytes; /* of those that no other step shares: what a removal gives back */
    uint64_t files;
    uint32_t processes;
    uint32_t complete;   /* manifest, and all files with their sizes */
    uint32_t verified;   /* 1: its digests were compared and are equal; 2: and differ */
    uint32_t kept;       /* SFT_RUN_KEPT_*; 0: the rules would prune it */
    uint32_t has_metric; /* the rules' `best`, or the first of the step */
    uint32_t reserved;
    double metric;
    const char *metric_name; /* "" if there is none */
} sft_run_step;

typedef struct sft_run_list sft_run_list;

/* Compare the digests of every complete step. What is damaged is known to this open run from then on. */
#define SFT_RUN_LIST_VERIFY 1u
/* SFT_E_NOT_FOUND where no step has the metric of the rules: what sft_run_prune would say. */
#define SFT_RUN_LIST_RULES 2u
/* The steps of the run, oldest first, as they are now. step: this one alone; SFT_RUN_NONE: all. */
SFT_API SFT_MUST_CHECK sft_status sft_run_list_make(sft_run_list **out, sft_run *run, uint64_t step,
                                                    uint32_t flags, const sft_control *control,
                                                    sft_error *err);
SFT_API size_t sft_run_list_count(const sft_run_list *list);
SFT_API const sft_run_step *sft_run_list_at(const sft_run_list *list, size_t index); /* or NULL */
SFT_API void sft_run_list_free(sft_run_list *list); /* NULL is fine */
/* The newer steps that the last sft_run_resume (or sft_run_point_next) of the run passed over, newest
 * first; NULL past the end. A borrow, until the next of these calls. */
SFT_API const sft_run_step *sft_run_skipped(const sft_run *run, size_t index);

/* Removes the steps that the run's rules do not keep, as is done after each commit; the digests of the
 * newest step are compared before, and of older ones until one is right, so that a good one stays.
 * *removed: how many; may be NULL. A step that is being removed is first renamed: it is there whole, or not
 * at all. SFT_E_NOT_FOUND: no step has the metric `best`; the message names those that are there.
 * SFT_E_STATE: the run is read-only. */
SFT_API SFT_MUST_CHECK sft_status sft_run_prune(sft_run *run, uint64_t *removed, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
