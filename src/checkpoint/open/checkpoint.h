/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/checkpoint.h - an open checkpoint: the files of its ranks, and how tensors are cut among
 * them. Read <sft/checkpoint_open.h> first.
 */
#ifndef SFT_CHECKPOINT_OPEN_CHECKPOINT_H
#define SFT_CHECKPOINT_OPEN_CHECKPOINT_H

#include "checkpoint/layouts/layout_set.h"
#include "checkpoint/open/assembly.h"
#include "checkpoint/text.h"
#include <sft/checkpoint_open.h>

/* A tensor that was promised and that no file holds. In the checkpoint's arena. */
typedef struct sft__checkpoint_gap {
    const char *name;
    size_t len;
    const char *why; /* a sentence */
} sft__checkpoint_gap;

struct sft_checkpoint {
    const sft_allocator *allocator;
    sft__base_arena arena;
    sft_open_options open; /* without limits: they are in `limits` */
    sft_limits limits;
    sft_checkpoint_other other;
    void *other_ctx;
    sft_checkpoint_bytes source;
    void *source_ctx;
    const sft_pool *pool; /* of the caller's; NULL: none */
    const char *step;
    uint32_t kind;
    const char *directory;
    bool map_named; /* by the path: its param_name_map.json is meant */
    bool two;       /* RANKS: complete weights lie there, too */
    const char *layout_path;
    sft_layout_set *layouts; /* the caller's, given or own */
    sft_layout_set *given;   /* read from where the caller said */
    sft_layout_set *own;     /* found */
    sft_rank_part *parts;    /* by rank */
    size_t count;
    size_t room;
    sft_catalog **catalogs; /* beside parts, to be closed */
    size_t catalog_room;
    bool partial; /* SFT_CHECKPOINT_PARTIAL */
    bool holes;   /* SFT_CHECKPOINT_HOLES */
    sft__checkpoint_gap *gaps;
    size_t gap_count;
    size_t gap_room;
    const char *absent; /* ranks of the layout without a file, as text */
    const char
        *unknown; /* PARTIAL: a sentence on files that are gone with names nobody tells, or NULL */
    const char *skipped; /* what the names of PyTorch's shards count and is not there, or NULL */
};

/* An empty one. */
sft_status sft__checkpoint_create(sft_checkpoint **out, const sft_checkpoint_options *options,
                                  sft_error *err);

/* A description, within the checkpoint's limits. */
sft_status sft__checkpoint_read(const sft_checkpoint *c, const char *path,
                                sft__checkpoint_text *out, sft_error *err);

/* directory + "/" + name in the arena. */
sft_status sft__checkpoint_path(sft_checkpoint *c, const char *directory, const char *name,
                                const char **out, sft_error *err);
sft_status sft__checkpoint_nomem(const sft_checkpoint *c, size_t size, sft_error *err);

/* Adds a rank's catalog, which is taken over in every case. */
sft_status sft__checkpoint_add(sft_checkpoint *c, uint64_t rank, sft_catalog *catalog,
                               sft_error *err);
/* Opens a file of the directory that a description names, by the catalog's rules for names of shards;
 * *missing: there is none. */
sft_status sft__checkpoint_open_named(sft_checkpoint *c, const char *name, sft_catalog **out,
                                      bool *missing, sft_error *err);
/* Opens a rank's file: safetensors, or what `other` knows. */
sft_status sft__checkpoint_open_file(sft_checkpoint *c, const char *path, sft_catalog **out,
                                     sft_error *err);
/* Every tensor of every rank must be one that the layouts name there. */
sft_status sft__checkpoint_check_named(const sft_checkpoint *c, sft_error *err);

/* open/promise.c: every name that the layouts give to a rank is held by one of its ranks, else
 * SFT_E_HOLE, or gaps where that is asked for. */
sft_status sft__checkpoint_keeps_promise(sft_checkpoint *c, sft_error *err);

/* open/numbers.c: numbers that are the layout of ranks, against what these hold. deduplicated: replicas need
 * not have the same names. SFT_E_MISMATCH, and what reading gives. */
sft_status sft__checkpoint_numbers_fit(const sft_checkpoint *c, bool deduplicated, sft_error *err);
/* open/numbers_values.c: the same of their values. */
sft_status sft__checkpoint_values_fit(const sft_checkpoint *c, sft_error *err);

/* open/detect.c: the directory that a path names, and its kind; c->directory stays NULL where there is
 * none. */
sft_status sft__checkpoint_detect(sft_checkpoint *c, const char *path, sft_error *err);

/* The kinds: fill parts and layouts. */
sft_status sft__checkpoint_complete(sft_checkpoint *c, sft_error *err);
sft_status sft__checkpoint_ranks(sft_checkpoint *c, sft_error *err);
sft_status sft__checkpoint_dcp(sft_checkpoint *c, sft_error *err);
sft_status sft__checkpoint_mindformers(sft_checkpoint *c, sft_error *err);
sft_status sft__checkpoint_topology(sft_checkpoint *c, sft_error *err);
sft_status sft__checkpoint_steps(sft_checkpoint *c, sft_error *err);
/* Is the directory, whose weight files all have steps in their names, one file for each step? They
 * share names of tensors then; shards of one model do not. */
sft_status sft__checkpoint_are_steps(sft_checkpoint *c, const char *directory, bool *steps,
                                     sft_error *err);

/* A rank's directory and the file chosen in it; or a directory of steps, with SFT__NO_RANK. */
#define SFT__NO_RANK UINT64_MAX
/* Of a directory whose number has more than 18 digits: a rank, but of no layout. */
#define SFT__RANK_BEYOND UINT64_C(1000000000000000000)
typedef struct sft__checkpoint_rank_directory {
    uint64_t rank;
    const char *directory;
    const char *file; /* NULL: none */
    uint64_t epoch;   /* 0 where there is no step */
    uint64_t step;
    bool stepped;
} sft__checkpoint_rank_directory;

typedef struct sft__checkpoint_directories {
    sft_checkpoint *c;
    sft__checkpoint_rank_directory *list; /* by rank */
    size_t count;
    size_t room;
} sft__checkpoint_directories;
/* open/ranks.c: the files of all ranks are of one job, one step and one format. */
sft_status sft__checkpoint_ranks_compare(const sft__checkpoint_directories *f, sft_error *err);
/* open/url_ranks.c: files of ranks behind URLs. Is the URL to be taken so? */
bool sft__checkpoint_is_url_ranks(const sft_checkpoint *c, const char *url);
sft_status sft__checkpoint_url_ranks(sft_checkpoint *c, const char *url, sft_error *err);

/* "rank_12" -> 12. */
bool sft__checkpoint_rank_of(const char *name, size_t len, uint64_t *rank);
bool sft__checkpoint_ends(const char *name, size_t len, const char *suffix);
/* The file's name without its extension ends in -EPOCH_STEP. */
bool sft__checkpoint_step_of(const char *name, size_t len, uint64_t *epoch, uint64_t *step);

/* A list of names that grows; the names lie in the checkpoint's arena. */
typedef struct sft__checkpoint_names {
    sft_checkpoint *c;
    const char **list;
    size_t count;
    size_t room;
    const char *suffixes[2]; /* kept are names that end so; NULL: all */
} sft__checkpoint_names;
sft_status sft__checkpoint_list(sft__checkpoint_names *names, const char *directory,
                                sft_error *err); /* sorted by bytes */
void sft__checkpoint_names_reset(sft__checkpoint_names *names);

/* open/shard_names.c: how names of PyTorch's shards begin, and what they count: into c->skipped. */
#define SFT__SHARD "shard-"
bool sft__checkpoint_is_shard(const char *name);
sft_status sft__checkpoint_note_shards(sft_checkpoint *c, const sft__checkpoint_names *names,
                                       sft_error *err);

/* A file below a directory, through links only if they stay inside. *missing: not there. */
sft_status sft__checkpoint_open_below(const char *directory, const char *name,
                                      const sft_allocator *allocator, sft_source **out,
                                      bool *missing, sft_error *err);

/* Layout, as sft_layout_find with the checkpoint as ctx: for parts. */
sft_status sft__checkpoint_find_part(void *checkpoint, const sft_tensor *tensor, uint64_t rank,
                                     const sft_layout **layout, uint64_t *shape, size_t *dims,
                                     sft_error *err);

#endif
