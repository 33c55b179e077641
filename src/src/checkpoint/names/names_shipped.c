/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_shipped.c - rules that come with the library. The names are those of
 * transformers 4 and 5 (LlamaForCausalLM, Qwen2ForCausalLM) and of MindFormers 1.x
 * (LlamaForCausalLM, which runs Qwen2 too; fused as with qkv_concat). Read docs/names.md first.
 */
#include "checkpoint/names/names.h"
#include <sft/names.h>
#include <string.h>

#define HEAD "{\"format\":\"safetensors.names/1\",\"formats\":[\"pt\",\"ms\"],"

/* What both forms have in common. */
#define COMMON                                                                                     \
    "{\"drop\":\"{p*}.rotary_emb.inv_freq\"},"                                                     \
    "{\"from\":\"model.embed_tokens.weight\",\"to\":\"model.tok_embeddings.embedding_weight\"},"   \
    "{\"from\":\"model.layers.{i}.self_attn.o_proj.{p*}\","                                        \
    "\"to\":\"model.layers.{i}.attention.wo.{p*}\"},"                                              \
    "{\"from\":\"model.layers.{i}.mlp.down_proj.{p*}\","                                           \
    "\"to\":\"model.layers.{i}.feed_forward.w2.{p*}\"},"                                           \
    "{\"from\":\"model.layers.{i}.input_layernorm.{p*}\","                                         \
    "\"to\":\"model.layers.{i}.attention_norm.{p*}\"},"                                            \
    "{\"from\":\"model.layers.{i}.post_attention_layernorm.{p*}\","                                \
    "\"to\":\"model.layers.{i}.ffn_norm.{p*}\"},"                                                  \
    "{\"from\":\"model.norm.{p*}\",\"to\":\"model.norm_out.{p*}\"},"                               \
    "{\"from\":\"lm_head.{p*}\",\"to\":\"lm_head.{p*}\"}"

#define SIMPLE                                                                                     \
    "{\"from\":\"model.layers.{i}.self_attn.q_proj.{p*}\","                                        \
    "\"to\":\"model.layers.{i}.attention.wq.{p*}\"},"                                              \
    "{\"from\":\"model.layers.{i}.self_attn.k_proj.{p*}\","                                        \
    "\"to\":\"model.layers.{i}.attention.wk.{p*}\"},"                                              \
    "{\"from\":\"model.layers.{i}.self_attn.v_proj.{p*}\","                                        \
    "\"to\":\"model.layers.{i}.attention.wv.{p*}\"},"                                              \
    "{\"from\":\"model.layers.{i}.mlp.gate_proj.{p*}\","                                           \
    "\"to\":\"model.layers.{i}.feed_forward.w1.{p*}\"},"                                           \
    "{\"from\":\"model.layers.{i}.mlp.up_proj.{p*}\","                                             \
    "\"to\":\"model.layers.{i}.feed_forward.w3.{p*}\"},"

/* Heads of queries, keys and values in turn, one group for each head of keys; gate and up row by
 * row. */
#define FUSED                                                                                      \
    "{\"from\":[\"model.layers.{i}.self_attn.q_proj.{p*}\","                                       \
    "\"model.layers.{i}.self_attn.k_proj.{p*}\",\"model.layers.{i}.self_attn.v_proj.{p*}\"],"      \
    "\"to\":\"model.layers.{i}.attention.w_qkv.{p*}\",\"dim\":0,"                                  \
    "\"parts\":[\"num_attention_heads\",\"num_key_value_heads|num_attention_heads\","              \
    "\"num_key_value_heads|num_attention_heads\"],"                                                \
    "\"groups\":\"num_key_value_heads|num_attention_heads\"},"                                     \
    "{\"from\":[\"model.layers.{i}.mlp.gate_proj.{p*}\",\"model.layers.{i}.mlp.up_proj.{p*}\"],"   \
    "\"to\":\"model.layers.{i}.feed_forward.w_gate_hidden.{p*}\",\"dim\":0,"                       \
    "\"groups\":\"intermediate_size\"},"

static const char simple_rules[] =
    HEAD "\"title\":\"Hugging Face to MindFormers\",\"rules\":[" SIMPLE COMMON "]}";
static const char fused_rules[] =
    HEAD "\"title\":\"Hugging Face to MindFormers, fused\",\"rules\":[" FUSED COMMON "]}";

static const struct shipped {
    const char *name;
    const char *title;
    const char *text;
} shipped[] = {
    {"llama-mindformers", "Llama: Hugging Face to MindFormers", simple_rules},
    {"llama-mindformers-fused", "Llama: Hugging Face to MindFormers with qkv_concat", fused_rules},
    {"qwen2-mindformers", "Qwen2: Hugging Face to MindFormers", simple_rules},
    {"qwen2-mindformers-fused", "Qwen2: Hugging Face to MindFormers with qkv_concat", fused_rules},
};

const char *sft__checkpoint_names_shipped(size_t index, const char **title) {
    if (index >= sizeof shipped / sizeof shipped[0]) {
        return NULL;
    }
    if (title != NULL) {
        *title = shipped[index].title;
    }
    return shipped[index].name;
}

const char *sft_names_shipped_text(const char *name) {
    for (size_t i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        if (strcmp(shipped[i].name, name) == 0) {
            return shipped[i].text;
        }
    }
    return NULL;
}
