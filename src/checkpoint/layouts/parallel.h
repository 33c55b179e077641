/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel.h - a layout out of a few numbers ("dp=2,tp=4,pp=2") and the names of a model:
 * what the numbers are, and what a parameter's name says. Read docs/layout.md, "From three numbers", and
 * checkpoint/layouts/layout_set.h first.
 */
#ifndef SFT_CHECKPOINT_PARALLEL_H
#define SFT_CHECKPOINT_PARALLEL_H

#include "checkpoint/layouts/layout_set.h"

typedef enum sft__checkpoint_choice {
    SFT__CHOICE_OPEN = 0, /* as the framework of the names does it */
    SFT__CHOICE_NO = 1,
    SFT__CHOICE_YES = 2
} sft__checkpoint_choice;

/* Ranks of one stage: dp * cp * tp, the last fastest. Stage s begins at s times these. */
typedef struct sft__checkpoint_parallel {
    uint64_t dp;
    uint64_t cp;
    uint64_t tp;
    uint64_t pp;
    uint64_t ep;
    uint64_t vpp;          /* runs of layers in each stage (virtual stages) */
    const int64_t *offset; /* layers more than the others of a run: pp of them, or vpp * pp */
    size_t offset_count;   /* 0: none */
    bool optimizer;        /* dimension 0 is cut once more, by all ranks that would be replicas */
    uint64_t threshold;    /* optimizer: of tensors of at least so many bytes */
    uint64_t layers;       /* of a configuration, which must be the model's; 0: it does not say */
    uint64_t predicting;   /* layers behind these that predict more tokens */
    uint64_t heads;
    uint64_t key_heads;
    sft__checkpoint_choice vocab; /* embeddings and output are cut */
} sft__checkpoint_parallel;

/* Does the text begin as such numbers do? */
bool sft__checkpoint_parallel_is(const char *text, size_t len);
/* Fills set->parallel and set->ranks. SFT_E_SCHEMA with the offset of what is not understood. */
sft_status sft__checkpoint_parallel_parse(sft_layout_set *set, const char *text, size_t len,
                                          sft_error *err);
/* Is the text a configuration of MindFormers, in YAML; and its numbers. SFT_E_SCHEMA with the line of what
 * is not understood, SFT_E_UNSUPPORTED. */
bool sft__checkpoint_parallel_is_yaml(const char *text, size_t len);
sft_status sft__checkpoint_parallel_yaml(sft_layout_set *set, const char *text, size_t len,
                                         sft_error *err);
/* Numbers of one rank, in the set's arena; and the set's numbers, after they are checked. */
sft_status sft__checkpoint_parallel_new(sft_layout_set *set, sft__checkpoint_parallel **out,
                                        sft_error *err);
sft_status sft__checkpoint_parallel_ready(sft_layout_set *set, sft__checkpoint_parallel *p,
                                          sft_error *err);
/* Entries for all tensors of a model; or, for ranks that are there, for what they hold. */
sft_status sft__checkpoint_parallel_bind_parts(sft_layout_set *set, const sft_rank_part *parts,
                                               size_t count, sft_error *err);

/* The stage that has layer `layer` of so many. SFT_E_SHAPE with the numbers. */
sft_status sft__checkpoint_parallel_stage(const sft__checkpoint_parallel *p, uint64_t layers,
                                          uint64_t layer, uint64_t *stage, sft_error *err);

/* ---------------------------------------------------------------- names */

typedef enum sft__checkpoint_cut {
    SFT__CUT_WHOLE,
    SFT__CUT_COLUMN,      /* rows of the weight, all of the bias */
    SFT__CUT_LATENT,      /* the same; says that the model's queries and keys are compressed */
    SFT__CUT_TURNS,       /* the same, heads in turn; whole if they are compressed */
    SFT__CUT_ROW,         /* columns of the weight; the bias is whole */
    SFT__CUT_QKV,         /* rows: queries, then keys, then values, each by heads */
    SFT__CUT_GATE_UP,     /* rows: gate, then up */
    SFT__CUT_FC1,         /* rows of gate and up take turns; gate, then up in GLM-4 */
    SFT__CUT_VOCABULARY,  /* rows, unless the vocabulary must not be cut */
    SFT__CUT_STACK_IN,    /* experts in one tensor, [experts, 2 * inner, hidden] */
    SFT__CUT_STACK_OUT,   /* [experts, hidden, inner] */
    SFT__CUT_STACK_EXPERT /* [experts * x, y]: by experts alone */
} sft__checkpoint_cut;

typedef enum sft__checkpoint_heads {
    SFT__HEADS_NONE,
    SFT__HEADS_QUERY,
    SFT__HEADS_KEY
} sft__checkpoint_heads;

/* What config.json says of the dimension that a role cuts, or would cut. */
typedef enum sft__checkpoint_size {
    SFT__SIZE_OPEN,  /* nothing */
    SFT__SIZE_QUERY, /* heads of queries, times the size of a head */
    SFT__SIZE_KEY,   /* heads of keys, likewise; SIZE_KEYS: of keys and values together */
    SFT__SIZE_KEYS,
    SFT__SIZE_QKV,
    SFT__SIZE_INNER, /* intermediate_size; SIZE_INNERS: gate and up together */
    SFT__SIZE_INNERS,
    SFT__SIZE_EXPERT, /* moe_intermediate_size, or intermediate_size; SIZE_SHARED: of shared ones */
    SFT__SIZE_SHARED,
    SFT__SIZE_VOCABULARY,
    SFT__SIZE_ROUTER, /* a row for each expert; not cut */
    SFT__SIZE_HIDDEN  /* hidden_size: of norms; not cut */
} sft__checkpoint_size;

typedef enum sft__checkpoint_place {
    SFT__PLACE_ALL,   /* every stage */
    SFT__PLACE_FIRST, /* and the last one, where the output uses it too */
    SFT__PLACE_LAST,
    SFT__PLACE_LAYER
} sft__checkpoint_place;

typedef enum sft__checkpoint_family {
    SFT__FAMILY_HF,
    SFT__FAMILY_MINDFORMERS1,
    SFT__FAMILY_MINDFORMERS2
} sft__checkpoint_family;

typedef struct sft__checkpoint_role {
    sft__checkpoint_cut cut;
    sft__checkpoint_heads heads;
    sft__checkpoint_size size;
    sft__checkpoint_place place;
    sft__checkpoint_family family;
    const char *module; /* the rule that fits: the same pointer, layer and expert apart */
    uint64_t layer;     /* PLACE_LAYER */
    uint64_t expert;    /* UINT64_MAX: of none alone */
    bool is_bias;
    bool is_state; /* an optimizer's, of the parameter */
} sft__checkpoint_role;

/* What the name says; false: nothing that is known. States of an optimizer (adam_m.NAME) go as their
 * parameters. */
bool sft__checkpoint_role_of(const char *name, size_t len, sft__checkpoint_role *role);
/* Of an optimizer's state: how long "adam_m." before its parameter's name is; 0: it is none. */
size_t sft__checkpoint_state_of(const char *name, size_t len);
/* How long "model.layers.12" at the begin of a parameter's name is, and the layer; 0: of no layer. */
size_t sft__checkpoint_layer_end(const char *name, size_t len, uint64_t *layer);

#endif
