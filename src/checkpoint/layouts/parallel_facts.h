/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_facts.h - what config.json and the names of a model say of its heads, layers
 * and experts. Read checkpoint/layouts/parallel.h first.
 */
#ifndef SFT_CHECKPOINT_PARALLEL_FACTS_H
#define SFT_CHECKPOINT_PARALLEL_FACTS_H

#include "checkpoint/layouts/parallel.h"

typedef struct sft__checkpoint_facts {
    uint64_t layers; /* 0: not known, as below; none is above 2^20 */
    uint64_t heads;
    uint64_t key_heads;
    uint64_t hidden;
    uint64_t experts;
    uint64_t vocabulary; /* these only where it is not above 2^30 */
    uint64_t inner;
    uint64_t expert_inner; /* of experts */
    bool own_inner;        /* it was said, and is not that of the others */
    uint64_t shared_inner; /* of the shared experts together */
    uint64_t head_size;
    uint64_t predicting; /* layers behind the others that predict more tokens */
    bool config;         /* there is a config.json */
    bool sized;          /* of a family of which the sizes above say the shapes */
    bool own_keys;       /* key_heads was said, and not concluded; so the next two */
    bool own_layers;
    bool own_experts;
    uint32_t borne_out; /* bit 1 << role.size: what the numbers put together has config.json's */
    bool filled;        /* the embeddings have more rows than it says */
    bool untied;        /* config.json says so */
    bool says_tied;     /* or that they are tied */
    bool legacy;        /* names of MindFormers 1.x */
    bool latent;        /* its attention's compressed parts are fused (2.x, mla_qkv_concat) */
    bool gate_then_up;  /* it is GLM-4, by its config.json or by norms that no other model has */
    uint64_t seen_layers;
    uint64_t seen_experts;
    uint64_t routed; /* experts that the first router has rows for */
    uint64_t
        seen_head; /* rows of a head of queries or keys, of the first tensor that tells; its name */
    const char *seen_name;
    size_t seen_len;
    uint64_t out; /* rows of the first projection that is added to the layer's input; its name */
    const char *out_name;
    size_t out_len;
} sft__checkpoint_facts;

/* The text of a config.json. SFT_E_JSON; SFT_E_SCHEMA for numbers that are none. */
sft_status sft__checkpoint_facts_read(sft__checkpoint_facts *f, sft_layout_set *set,
                                      const char *text, size_t size, sft_error *err);
/* config.json in the directory of the model's first file, or above it; nothing if there is none. */
sft_status sft__checkpoint_facts_beside(sft__checkpoint_facts *f, sft_layout_set *set,
                                        const sft_catalog *model, sft_error *err);
/* t: NULL for a tensor that is not there. */
void sft__checkpoint_facts_note(sft__checkpoint_facts *f, const sft__checkpoint_role *role,
                                const sft_tensor *t);
/* After all names: what the config did not say. ends: the model has its first and its last tensors, so that
 * layers that are not there are missing. SFT_E_MISMATCH: the numbers are of another model's
 * configuration. */
sft_status sft__checkpoint_facts_settle(sft__checkpoint_facts *f, const sft__checkpoint_parallel *p,
                                        bool ends, sft_error *err);
/* Is this the shape that the configuration gives the global tensor? cut: so many ranks' parts were put
 * together for it; 1: a rank's is the whole; 0: it is a model's own, of which heads alone are compared.
 * SFT_E_MISMATCH with both shapes. parallel_sizes.c. */
sft_status sft__checkpoint_facts_shape(sft__checkpoint_facts *f, const sft__checkpoint_role *role,
                                       const sft_tensor *t, const uint64_t *shape, uint64_t cut,
                                       sft_error *err);

/* Tensors of one model against each other: an optimizer's state has its parameter's shape, a bias as many
 * numbers as its weight rows. Of what is not there nothing is said. ranks: it was put together by numbers.
 * SFT_E_MISMATCH with both names and shapes. parallel_beside.c. */
sft_status sft__checkpoint_parallel_beside(const sft_catalog *model, bool ranks, sft_error *err);

/* Packed weights have other shapes under the same names. */
bool sft__checkpoint_is_packed(const sft_dtype *dtype);

/* "[2, 3]", for sentences; what has no room is left away. */
void sft__checkpoint_tell_shape(char *out, size_t size, uint32_t rank, const uint64_t *shape);
/* Experts in one tensor? */
bool sft__checkpoint_is_stack(sft__checkpoint_cut cut);

/* parallel_missing.c. The parts of ranks, or a whole model as one. */
typedef struct sft__checkpoint_given {
    sft_layout_set *set;
    const sft__checkpoint_facts *facts;
    const sft_rank_part *parts;
    size_t count;
} sft__checkpoint_given;

/* SFT_E_HOLE: a layer between others has no tensor, or, of ranks, an expert. */
sft_status sft__checkpoint_parallel_no_gaps(const sft__checkpoint_given *g, bool ranks,
                                            sft_error *err);
/* SFT_E_HOLE: with ep, ranks that alone have some experts of their stage have no files; where files may lack
 * it is the set's `unknown`. */
sft_status sft__checkpoint_parallel_no_group_lacks(const sft__checkpoint_given *g, sft_error *err);
/* Where files may lack and the number of layers is known: which layers no part has anything of, into the
 * set. */
sft_status sft__checkpoint_parallel_note_lost(const sft__checkpoint_given *g, sft_error *err);

#endif
