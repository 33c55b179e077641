/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/checkpoint_open.h - directories that hold the checkpoint of a whole training job, opened as one
 * model. In the library libsafetensors-checkpoint.
 *
 * Caveats first.
 *  - In directories of ranks no file says how tensors are sharded: that takes a layout set. It is looked
 *    for where the frameworks leave it (layout.json or strategy/ in the directory, strategy/ beside it).
 *    Without one a directory of more than one rank is refused, because equal shapes may be replicas or
 *    halves.
 *  - Replicas are assumed to be equal; only sft_checkpoint_verify compares them.
 *  - PyTorch's shards do not record global shapes: a tensor ends where its last shard does, and a shard
 *    missing at its very end goes unnoticed.
 *  - PyTorch's .metadata and MindSpore's next generation keep their layout in pickles, which are not read.
 *
 * Threads: as for catalogs; an open checkpoint is immutable.
 */
#ifndef SFT_CHECKPOINT_OPEN_H
#define SFT_CHECKPOINT_OPEN_H

#include <sft/layout_set.h>
#include <sft/open.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Stable numbers. X(name, number, short name, title) */
#define SFT_CHECKPOINT_KIND_MAP(X)                                                                 \
    X(SFT_CHECKPOINT_NONE, 0, "none", "no checkpoint of many ranks")                               \
    X(SFT_CHECKPOINT_COMPLETE, 1, "mindspore-complete", "MindSpore complete weights")              \
    X(SFT_CHECKPOINT_RANKS, 2, "rank-folders", "one directory for each rank")                      \
    X(SFT_CHECKPOINT_DCP, 3, "dcp-safetensors", "PyTorch distributed checkpoint in safetensors")   \
    X(SFT_CHECKPOINT_MINDFORMERS, 4, "mindformers", "MindFormers checkpoint 2.0")                  \
    X(SFT_CHECKPOINT_TOPOLOGY, 5, "topology", "files that a topology.json describes")              \
    X(SFT_CHECKPOINT_STEPS, 6, "steps", "a file for each step")                                    \
    X(SFT_CHECKPOINT_STEP, 7, "run-step", "a step of a training run")

typedef enum sft_checkpoint_kind {
#define SFT_CHECKPOINT_ENUM(name, number, word, title) name = number,
    SFT_CHECKPOINT_KIND_MAP(SFT_CHECKPOINT_ENUM)
#undef SFT_CHECKPOINT_ENUM
        SFT_CHECKPOINT_FORCE_32BIT = 0x7fffffff
} sft_checkpoint_kind;

SFT_API const char *sft_checkpoint_kind_title(uint32_t kind);

/* What the directory is (or a param_name_map.json, metadata.json or topology.json in one). NONE is no
 * error: plain models, also Hugging Face's with an index, are for sft_catalog_open. Cost: a
 * listing, and at most two headers.
 */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_detect(const char *path, uint32_t *kind,
                                                        sft_error *err);

/* Opens a file that is no safetensors (a rank's .ckpt). */
typedef sft_status (*sft_checkpoint_other)(void *ctx, const char *path,
                                           const sft_open_options *options, sft_catalog **out,
                                           sft_error *err);

/* Opens what is behind a URL. SFT_E_NOT_FOUND, or SFT_E_HTTP with 404 in err->sys: nothing is. */
typedef sft_status (*sft_checkpoint_bytes)(void *ctx, const char *url, sft_source **out,
                                           sft_error *err);

typedef struct sft_checkpoint_options {
    size_t struct_size;
    /* allocator (must outlive the checkpoint), limits, access, flags */
    const sft_open_options *open;
    /* borrowed, learnt from, must outlive the checkpoint; NULL: looked for */
    sft_layout_set *layouts;
    const char *step; /* of several files of a rank, those whose names end in this ("3_2"); NULL:
                         the newest, which must be of one step on all ranks */
    sft_checkpoint_other other; /* NULL: ranks in .ckpt files are SFT_E_UNSUPPORTED, and files that
                                   PyTorch's .metadata names are not looked at by sft_resume_find */
    void *other_ctx;
    uint32_t flags; /* SFT_CHECKPOINT_* */
    uint32_t reserved;
    /* With layouts NULL: the file or directory that says how tensors are sharded, as for
     * sft_layout_set_open; NULL: it is looked for. */
    const char *layout;
    uint64_t layout_ranks; /* of a layout that does not say how many there are; else 0 */
    /* NULL: no URLs. Else sft_checkpoint_opener takes those with "{rank}" in them, and with a layout or a
     * step every URL, as ranks: "{rank}" is each rank's number; without it URL/rank_N holds the file that
     * URL/rank_N/meta.json names, or model.safetensors, and URL/layout.json the layout, unless it is
     * given. A rank of the layout with no file there has none. */
    sft_checkpoint_bytes source;
    void *source_ctx;
    /* Of ranks behind URLs so many are asked at once as it has threads; `source` and the allocator are
     * then called by all of them, the first time before they are. NULL: one after the other. Used while
     * opening. */
    const sft_pool *pool;
    /* With numbers ("dp=2,tp=4") as the layout, borrowed while opening: the text of the model's config.json,
     * NULL for what lies beside the ranks; and which tensors the caller will leave out, whose names need not
     * be known (NULL: none). */
    const char *config;
    size_t config_size;
    int (*leaves_out)(void *ctx, const char *name, size_t name_len);
    void *leaves_out_ctx;
} sft_checkpoint_options;

/* Tensors that no files hold in full are left out, and are problems of the catalog
 * (SFT_PROBLEM_MISSING_TENSOR, not fatal), instead of being SFT_E_HOLE. */
#define SFT_CHECKPOINT_PARTIAL 1u
/* With PARTIAL: a tensor that is not whole stays, with the pieces of it that are there. Such a catalog is
 * for sft_checkpoint_part alone, behind sft_names_apply and sft_choose or not: who reads it otherwise gets
 * nothing where nothing is there. */
#define SFT_CHECKPOINT_HOLES 4u
/* For sft_checkpoint_opener: what is no checkpoint of many ranks is an error, and not for the openers
 * behind it. */
#define SFT_CHECKPOINT_NOTHING_ELSE 2u

typedef struct sft_checkpoint sft_checkpoint;

/* Opens every rank's file. SFT_E_FORMAT: nothing of the above. SFT_E_HOLE: a tensor that the layout
 * or the description names and that none of the ranks it gives it to holds. SFT_E_MISMATCH: ranks
 * of different steps; a rank that the layout does not have; a layout none of whose entries fits a
 * tensor. SFT_E_PATH: a description names a file outside its directory. SFT_E_SHARD_MISSING,
 * SFT_E_SHARD_DISAGREES: description and files disagree; a file that is missing altogether is no
 * fault where replicas stand in. Names that begin with accu_grads are not asked for: MindSpore
 * leaves them out of its checkpoints. Cost: one read of each header. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_open(sft_checkpoint **out, const char *path,
                                                      const sft_checkpoint_options *options,
                                                      sft_error *err);
SFT_API void sft_checkpoint_close(sft_checkpoint *checkpoint); /* NULL is fine */

SFT_API uint32_t sft_checkpoint_kind_of(const sft_checkpoint *checkpoint);
/* Ranks that are there, ascending. Where files are no ranks (all kinds but RANKS) their number in
 * the description stands for it. COMPLETE: one, the model itself. */
SFT_API const sft_rank_part *sft_checkpoint_ranks(const sft_checkpoint *checkpoint, size_t *count);
/* All layouts, or NULL (COMPLETE; one rank without any). Borrowed. */
SFT_API const sft_layout_set *sft_checkpoint_layouts(const sft_checkpoint *checkpoint);
/* Where the layout came from: a path, or "" (the files themselves say it, or it was given). */
SFT_API const char *sft_checkpoint_layout_path(const sft_checkpoint *checkpoint);

/* The checkpoint that these catalogs would be, one for each rank, ascending, if they were the files of
 * a directory of ranks (SFT_CHECKPOINT_RANKS) with this layout: says beforehand whether files that are still
 * to be written will open again. Errors as those of opening such a directory;
 * sft_checkpoint_join_ranks finds the rest. The catalogs and the layouts are borrowed. Cost:
 * O(parts * tensors), nothing is read. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_from_ranks(sft_checkpoint **out,
                                                            const sft_rank_part *parts,
                                                            size_t count, sft_layout_set *layouts,
                                                            sft_error *err);

/* The ranks that the layout names and that have no file, "1, 4-7", or "". With a checkpoint that
 * opens, what they held lies on others, too; or is left out, where that was asked for. */
SFT_API const char *sft_checkpoint_absent(const sft_checkpoint *checkpoint);

/* The global tensors, in the order of the first rank that has them. Every part of each must be held by some
 * rank, else SFT_E_HOLE names the tensor and says which box no file holds; missing ranks are no fault where
 * replicas stand in. SFT_E_MISMATCH: ranks disagree about dtype or shape. SFT_E_OVERLAP: explicit boxes
 * overlap. Metadata: entries that are equal wherever they are given, without those that speak of one file
 * (crc_num, remove_redundancy, DCP_SHARDING_INFO, DCP_VERSION). Borrows from the checkpoint. Cost:
 * O(parts * tensors), from headers alone. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_join_ranks(sft_catalog **out,
                                                            const sft_checkpoint *checkpoint,
                                                            const sft_open_options *options,
                                                            sft_error *err);
/* The same as a catalog of its own, which sft_checkpoint_of finds: closing it closes the checkpoint, which
 * is taken over in every case. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_take_global(sft_catalog **out,
                                                             sft_checkpoint *checkpoint,
                                                             const sft_open_options *options,
                                                             sft_error *err);

/* For sft_open: options are sft_checkpoint_options, whose `open` may be NULL. Takes the directories, and
 * descriptions in them, that sft_checkpoint_detect knows, and with a step every directory; opens them as
 * sft_checkpoint_take_global does. */
SFT_API const sft_opener *sft_checkpoint_opener(void);
/* The checkpoint that a catalog was made of, by the opener or by sft_checkpoint_take_global; else NULL. */
SFT_API const sft_checkpoint *sft_checkpoint_of(const sft_catalog *catalog);

/* Compares every replica with the one that join would take, byte by byte. *compared: bytes that
 * were (may be NULL). SFT_E_MISMATCH names the tensor, the two ranks and the place. Memory: 2 MiB.
 */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_verify(const sft_checkpoint *checkpoint,
                                                        const sft_control *control,
                                                        uint64_t *compared, sft_error *err);

/* ---------------------------------------------------------------- where to resume */

typedef struct sft_resume sft_resume;

/* One step of a training job's directory. Borrowed from its list. */
typedef struct sft_resume_step {
    const char *name; /* "3_2", "checkpoint-500", "iteration_00000012" */
    const char *path; /* what to open: the directory, or that of the ranks (with `name` as step) */
    uint64_t epoch;   /* 0 where steps are counted through */
    uint64_t step;
    uint32_t complete; /* everything is there, by headers */
    uint32_t reserved;
    const char *why; /* not complete: a sentence; complete: what is odd about it (fewer tensors than
                        the step before), or "" */
} sft_resume_step;

/* Looks for the newest step that is complete over all ranks: MindSpore's rank directories
 * (NAME-EPOCH_STEP files, and what meta.json says of each rank's last one) or such files alone,
 * Hugging Face's
 * checkpoint-N, MindFormers' iteration_N with its tracker, and other directories that end in a number
 * (PyTorch DCP). Of steps older than the one found one is opened, to compare. options: as above, without
 * step and flags.
 * SFT_E_FORMAT: nothing of the kind. */
SFT_API SFT_MUST_CHECK sft_status sft_resume_find(sft_resume **out, const char *path,
                                                  const sft_checkpoint_options *options,
                                                  sft_error *err);
/* Newest first: those that were skipped, then the one found, if any; NULL past the end. */
SFT_API const sft_resume_step *sft_resume_at(const sft_resume *resume, size_t index);
/* The one to resume from; NULL: none is complete. */
SFT_API const sft_resume_step *sft_resume_chosen(const sft_resume *resume);
SFT_API void sft_resume_free(sft_resume *resume); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
