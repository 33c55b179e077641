/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set.h - what a layout set is made of while it is read, asked and written.
 * Everything but the layouts lies in one arena. Read <sft/layout_set.h> first.
 */
#ifndef SFT_CHECKPOINT_LAYOUT_SET_H
#define SFT_CHECKPOINT_LAYOUT_SET_H

#include "base/text/buf.h"
#include "base/text/strmap.h"
#include "layout/jsontree.h"
#include "layout/strategy.h"
#include <sft/layout_set.h>

/* Layouts that depend on the number of dimensions are made for 0 to so many - 1 at once: finding
 * one then needs no lock. */
#define SFT__LSET_DIMS 9u

typedef struct sft__checkpoint_lset_mesh {
    const char *name; /* name, len first: a sft__base_strmap can index these */
    size_t name_len;
    sft__layout_mesh mesh; /* axis names are NUL-terminated */
    uint64_t devices;
    const char *text; /* "dp 2, tp 4" */
} sft__checkpoint_lset_mesh;

typedef enum sft__checkpoint_lset_kind {
    SFT__LSET_WHOLE,
    SFT__LSET_CUTS,
    SFT__LSET_FLAT,
    SFT__LSET_BOXES,
    SFT__LSET_PLACEMENTS, /* from here on: a text, for any number of dimensions */
    SFT__LSET_SPEC,
    SFT__LSET_STYLE
} sft__checkpoint_lset_kind;

typedef struct sft__checkpoint_lset_entry {
    const char *name; /* name, len first: a sft__base_strmap can index entries */
    size_t name_len;
    size_t next; /* entry of the same exact name; 0: none */
    sft_layout_match match;
    sft__checkpoint_lset_kind kind;
    size_t mesh;                 /* index; unused for boxes and whole */
    const char *text;            /* PLACEMENTS, SPEC, STYLE */
    const sft__layout_cut *cuts; /* CUTS: dims of them */
    sft__layout_cut flat;        /* FLAT: its factors */
    uint64_t align;              /* FLAT */
    const uint64_t *ranks;       /* BOXES */
    const uint64_t *boxes;
    size_t box_count;
    size_t dims;           /* CUTS, BOXES, or of shape */
    const uint64_t *shape; /* of the global tensor; NULL: not known */
    sft_layout **layouts;  /* one, or two sets of SFT__LSET_DIMS for texts (weights, then biases) */
    size_t layout_count;
    const char *cut_text;
    bool trimmed; /* not to be written */
    bool unsure;  /* PARALLEL: nobody knows whether these ranks hold it */
} sft__checkpoint_lset_entry;

/* A layer that the model has and of which no rank that is there holds anything. */
typedef struct sft__checkpoint_lset_lost {
    const char *name; /* "model.layers.2.*" */
    uint64_t layer;
} sft__checkpoint_lset_lost;

/* A global shape that was learnt. */
typedef struct sft__checkpoint_lset_shape {
    const char *name;
    size_t name_len;
    const uint64_t *shape;
    size_t dims;
} sft__checkpoint_lset_shape;

/* The layouts of a MindSpore strategy, made once: `find` for join and part, with the object as ctx. Names
 * that the strategy does not know (step, learning rate ...) are not cut. Outlives the strategy's use. */
typedef struct sft__checkpoint_ms_layouts sft__checkpoint_ms_layouts;
sft_status sft__checkpoint_ms_layouts_create(sft__checkpoint_ms_layouts **out,
                                             const sft_ms_strategy *strategy,
                                             const sft_allocator *allocator, sft_error *err);
/* For join: the shape of the global tensor comes from the rank's part. */
sft_status sft__checkpoint_ms_layouts_find_part(void *layouts, const sft_tensor *tensor,
                                                uint64_t rank, const sft_layout **layout,
                                                uint64_t *shape, size_t *dims, sft_error *err);
/* For part: the tensor given is the global one. */
sft_status sft__checkpoint_ms_layouts_find_global(void *layouts, const sft_tensor *tensor,
                                                  uint64_t rank, const sft_layout **layout,
                                                  uint64_t *shape, size_t *dims, sft_error *err);
void sft__checkpoint_ms_layouts_free(sft__checkpoint_ms_layouts *layouts); /* NULL is fine */

struct sft_layout_set {
    sft__base_arena arena;
    const sft_allocator *allocator;
    sft_limits limits;
    uint64_t plan_ranks; /* of a plan that does not say, by the options */
    sft_layout_form form;
    sft__checkpoint_lset_mesh *meshes;
    size_t mesh_count;
    size_t mesh_room;
    sft__base_strmap mesh_map; /* of an own form's, while it is read */
    sft__checkpoint_lset_entry *entries;
    size_t count;
    size_t room;
    sft__base_strmap map; /* exact names: of their first entry */
    size_t *loose;        /* the other entries */
    size_t loose_count;
    uint64_t ranks;
    /* STRATEGY: find is left to these, entries are for people and for writing */
    sft_ms_strategy *strategy;
    sft__checkpoint_ms_layouts *ms;
    sft__checkpoint_lset_shape *shapes;
    size_t shape_count;
    size_t shape_room;
    sft__base_strmap shape_map;
    struct sft__checkpoint_parallel *parallel; /* PARALLEL: the numbers; in the arena */
    bool bound;                                /* PARALLEL: made for a model */
    bool lacking;                              /* PARALLEL: ranks need not be all there */
    const char *config; /* PARALLEL, while ranks are bound: as sft_checkpoint_options has them */
    size_t config_size;
    int (*leaves_out)(void *ctx, const char *name, size_t name_len);
    void *leaves_out_ctx;
    /* PARALLEL, lacking: layers that are lost; and, as a sentence, which experts nobody knows, or NULL */
    sft__checkpoint_lset_lost *lost;
    size_t lost_count;
    uint64_t layers; /* as the configuration has them; 0: it does not say */
    const char *unknown;
    uint32_t borne_out; /* PARALLEL, bit 1 << role.size: config.json gives what ranks' parts make
                           together its size */
    bool filled;        /* PARALLEL: but for embeddings, which have rows behind the vocabulary */
};

/* An empty set. */
sft_status sft__checkpoint_lset_create(sft_layout_set **out, const sft_layout_set_options *options,
                                       sft_error *err);
/* Memory of the arena, zeroed; fails with err. */
sft_status sft__checkpoint_lset_take(sft_layout_set *set, void *out_pointer, size_t count,
                                     size_t size, sft_error *err);
sft_status sft__checkpoint_lset_copy(sft_layout_set *set, const char **out, const char *text,
                                     size_t len, sft_error *err);
/* Room for one more, all zero. Pointers to earlier ones die. */
sft_status sft__checkpoint_lset_add(sft_layout_set *set, sft__checkpoint_lset_entry **out,
                                    sft_error *err);
sft_status sft__checkpoint_lset_add_mesh(sft_layout_set *set, sft__checkpoint_lset_mesh **out,
                                         sft_error *err);
/* Counts the devices and makes the text; `mesh.axes` and names are set. offset: for messages. */
sft_status sft__checkpoint_lset_mesh_done(sft_layout_set *set, sft__checkpoint_lset_mesh *m,
                                          uint64_t offset, sft_error *err);
/* After the last entry: layouts, texts, tables. */
sft_status sft__checkpoint_lset_finish(sft_layout_set *set, sft_error *err);

/* A set of numbers alone says nothing of a tensor before it is bound: SFT_E_ARG. */
sft_status sft__checkpoint_lset_bound(const sft_layout_set *set, sft_error *err);

/* The readers: entries of a parsed text, or of a strategy. */
sft_status sft__checkpoint_lset_read_own(sft_layout_set *set, const sft__layout_jnode *root,
                                         sft_error *err);
sft_status sft__checkpoint_lset_read_topology(sft_layout_set *set, const sft__layout_jnode *root,
                                              sft_error *err);
sft_status sft__checkpoint_lset_read_plan(sft_layout_set *set, const sft__layout_jnode *root,
                                          uint64_t ranks, sft_error *err);
/* Takes the strategy over in every case. */
sft_status sft__checkpoint_lset_take_strategy(sft_layout_set *set, sft_ms_strategy *strategy,
                                              sft_error *err);

/* Non-negative integers of a JSON list. what: for the message. */
sft_status sft__checkpoint_lset_numbers(sft_layout_set *set, const sft__layout_jnode *list,
                                        const uint64_t **out, size_t *count, sft_error *err);

/* The entry that the tensor belongs to on this rank, else one of other ranks; NULL: no entry names
 * it. */
const sft__checkpoint_lset_entry *sft__checkpoint_lset_entry_of(const sft_layout_set *set,
                                                                const sft_tensor *t, uint64_t rank);
/* The entry's layout for this tensor; NULL: none for so many dimensions. */
const sft_layout *sft__checkpoint_lset_layout(const sft__checkpoint_lset_entry *e,
                                              const sft_tensor *t);

/* layouts/fit.c. Entry number `at` of an exact name and its namesakes: do they give the rank a part
 * of the tensor? And all their ranks, mesh by mesh; false: they are too many. */
bool sft__checkpoint_lset_gives(const sft_layout_set *set, size_t at, const sft_tensor *t,
                                uint64_t rank);
typedef void (*sft__checkpoint_lset_rank_visit)(void *ctx, uint64_t rank);
bool sft__checkpoint_lset_each_rank(const sft_layout_set *set, size_t at,
                                    sft__checkpoint_lset_rank_visit visit, void *ctx);
/* "0-3, 8", at most six runs. Begin with zeros and sft__base_buf_init of the text. */
typedef struct sft__checkpoint_lset_runs {
    sft__base_buf text;
    uint64_t first;
    uint64_t last;
    size_t count;
} sft__checkpoint_lset_runs;
void sft__checkpoint_lset_runs_add(sft__checkpoint_lset_runs *r, uint64_t rank);
void sft__checkpoint_lset_runs_end(sft__checkpoint_lset_runs *r);

/* Full shapes of tensors that are cut unevenly, from all that the ranks hold; of tensors whose
 * shape the file tells, nothing is learnt. Call it before join where a set may hold such cuts. What
 * it cannot find out (a part that no rank holds) stays unknown, and sft__checkpoint_lset_find_part says
 * so. */
sft_status sft__checkpoint_lset_learn(sft_layout_set *set, const sft_rank_part *parts, size_t count,
                                      sft_error *err);
/* As sft_layout_find (sft/checkpoint.h), with the set as ctx: for join the first, for part the
 * second. Exact names go before patterns and modules, then the order of the file decides; of
 * several entries with the name, on meshes of different ranks, the one whose mesh has the rank.
 * SFT_E_SHAPE: no layout for so many dimensions, or (part) the global shape is not known. */
sft_status sft__checkpoint_lset_find_part(void *set, const sft_tensor *tensor, uint64_t rank,
                                          const sft_layout **layout, uint64_t *shape, size_t *dims,
                                          sft_error *err);

#endif
