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
    bool untied; /* config.json says so */
    bool legacy; /* names of MindFormers 1.x */
    bool latent; /* its attention's compressed parts are fused (2.x, mla_qkv_concat) */
    uint64_t seen_layers;
    uint64_t seen_experts;
} sft__checkpoint_facts;

/* The text of a config.json. SFT_E_JSON; SFT_E_SCHEMA for numbers that are none. */
sft_status sft__checkpoint_facts_read(sft__checkpoint_facts *f, sft_layout_set *set,
                                      const char *text, size_t size, sft_error *err);
/* config.json in the directory of the model's first file, or above it; nothing if there is none. */
sft_status sft__checkpoint_facts_beside(sft__checkpoint_facts *f, sft_layout_set *set,
                                        const sft_catalog *model, sft_error *err);
void sft__checkpoint_facts_note(sft__checkpoint_facts *f, const sft__checkpoint_role *role);
/* After all names: what the config did not say. SFT_E_MISMATCH: the numbers are of another model's
 * configuration. */
sft_status sft__checkpoint_facts_settle(sft__checkpoint_facts *f, const sft__checkpoint_parallel *p,
                                        sft_error *err);

#endif
