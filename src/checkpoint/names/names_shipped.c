/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_shipped.c - rules that come with the library. The names are those of
 * transformers 4 and 5, of MindFormers 1.x (LlamaForCausalLM, which runs Qwen2 too; fused as with
 * qkv_concat), and of MindFormers 2.x (the weight_mapping of its models; fused as their
 * weight_converters do it). tests/checkpoint/mindformers_peer.py compares them. Read docs/names.md first.
 */
#include "checkpoint/likeness.h"
#include "checkpoint/names/names.h"
#include <sft/names.h>
#include <string.h>

#define HEAD           "{\"format\":\"safetensors.names/1\",\"formats\":[\"pt\",\"ms\"],"
#define RULE(from, to) "{\"from\":\"" from "\",\"to\":\"" to "\"},"
#define DROP(name)     "{\"drop\":\"" name "\"},"

/* ---------------------------------------------------------------- MindFormers 1.x */

#define LAYER(from, to) RULE("model.layers.{i}." from, "model.layers.{i}." to)

/* What both forms have in common. */
#define COMMON                                                                                     \
    DROP("{p*}.rotary_emb.inv_freq")                                                               \
    RULE("model.embed_tokens.weight", "model.tok_embeddings.embedding_weight")                     \
    LAYER("self_attn.o_proj.{p*}", "attention.wo.{p*}")                                            \
    LAYER("mlp.down_proj.{p*}", "feed_forward.w2.{p*}")                                            \
    LAYER("input_layernorm.{p*}", "attention_norm.{p*}")                                           \
    LAYER("post_attention_layernorm.{p*}", "ffn_norm.{p*}")                                        \
    RULE("model.norm.{p*}", "model.norm_out.{p*}")                                                 \
    "{\"from\":\"lm_head.{p*}\",\"to\":\"lm_head.{p*}\"}"

#define SIMPLE                                                                                     \
    LAYER("self_attn.q_proj.{p*}", "attention.wq.{p*}")                                            \
    LAYER("self_attn.k_proj.{p*}", "attention.wk.{p*}")                                            \
    LAYER("self_attn.v_proj.{p*}", "attention.wv.{p*}")                                            \
    LAYER("mlp.gate_proj.{p*}", "feed_forward.w1.{p*}")                                            \
    LAYER("mlp.up_proj.{p*}", "feed_forward.w3.{p*}")

/* Heads of queries, keys and values in turn, one group for each head of keys; gate and up row by
 * row. */
#define QKV(to)                                                                                    \
    "{\"from\":[\"model.layers.{i}.self_attn.q_proj.{p*}\","                                       \
    "\"model.layers.{i}.self_attn.k_proj.{p*}\",\"model.layers.{i}.self_attn.v_proj.{p*}\"],"      \
    "\"to\":\"" to "\",\"dim\":0,"                                                                 \
    "\"parts\":[\"num_attention_heads\",\"num_key_value_heads|num_attention_heads\","              \
    "\"num_key_value_heads|num_attention_heads\"],"                                                \
    "\"groups\":\"num_key_value_heads|num_attention_heads\"},"
#define GATE_UP(to)                                                                                \
    "{\"from\":[\"model.layers.{i}.mlp.gate_proj.{p*}\",\"model.layers.{i}.mlp.up_proj.{p*}\"],"   \
    "\"to\":\"" to "\",\"dim\":0,\"groups\":\"intermediate_size\"},"

static const char simple_rules[] =
    HEAD "\"title\":\"Hugging Face to MindFormers\",\"rules\":[" SIMPLE COMMON "]}";
static const char fused_rules[] =
    HEAD "\"title\":\"Hugging Face to MindFormers, fused\",\"rules\":[" QKV(
        "model.layers.{i}.attention.w_qkv.{p*}")
        GATE_UP("model.layers.{i}.feed_forward.w_gate_hidden.{p*}") COMMON "]}";

/* ---------------------------------------------------------------- MindFormers 2.x */

#define CORE(from, to) RULE("model.layers.{i}." from, "decoder.layers.{i}." to)

#define CORE_ENDS                                                                                  \
    DROP("{p*}.rotary_emb.inv_freq")                                                               \
    RULE("model.embed_tokens.{p*}", "embedding.word_embeddings.{p*}")                              \
    CORE("input_layernorm.{p*}", "input_layernorm.{p*}")                                           \
    CORE("post_attention_layernorm.{p*}", "pre_mlp_layernorm.{p*}")                                \
    RULE("model.norm.{p*}", "decoder.final_layernorm.{p*}")                                        \
    "{\"from\":\"lm_head.{p*}\",\"to\":\"output_layer.{p*}\"}"

#define CORE_OUT CORE("self_attn.o_proj.{p*}", "self_attention.linear_proj.{p*}")
#define CORE_ATTENTION                                                                             \
    CORE("self_attn.q_proj.{p*}", "self_attention.linear_q.{p*}")                                  \
    CORE("self_attn.k_proj.{p*}", "self_attention.linear_k.{p*}")                                  \
    CORE("self_attn.v_proj.{p*}", "self_attention.linear_v.{p*}") CORE_OUT
#define CORE_HEAD_NORMS                                                                            \
    CORE("self_attn.q_norm.{p*}", "self_attention.q_layernorm.{p*}")                               \
    CORE("self_attn.k_norm.{p*}", "self_attention.k_layernorm.{p*}")
#define CORE_LATENT                                                                                \
    CORE("self_attn.q_a_proj.{p*}", "self_attention.linear_q_down_proj.{p*}")                      \
    CORE("self_attn.q_a_layernorm.{p*}", "self_attention.q_layernorm.{p*}")                        \
    CORE("self_attn.q_b_proj.{p*}", "self_attention.linear_q_up_proj.{p*}")                        \
    CORE("self_attn.kv_a_proj_with_mqa.{p*}", "self_attention.linear_kv_down_proj.{p*}")           \
    CORE("self_attn.kv_a_layernorm.{p*}", "self_attention.kv_layernorm.{p*}")                      \
    CORE("self_attn.kv_b_proj.{p*}", "self_attention.linear_kv_up_proj.{p*}") CORE_OUT

#define CORE_FFN(where)                                                                            \
    CORE(where ".gate_proj.{p*}", where ".gating.{p*}")                                            \
    CORE(where ".up_proj.{p*}", where ".hidden.{p*}")                                              \
    CORE(where ".down_proj.{p*}", where ".linear_fc2.{p*}")
#define CORE_EXPERTS                                                                               \
    CORE_FFN("mlp.experts.{e}")                                                                    \
    CORE("mlp.gate.weight", "mlp.router.weight")
#define CORE_SHARED_EXPERTS                                                                        \
    CORE("mlp.gate.e_score_correction_bias", "mlp.router.expert_bias")                             \
    CORE_FFN("mlp.shared_experts")

#define CORE_RULES(model, rules)                                                                   \
    HEAD "\"title\":\"" model ": Hugging Face to MindFormers 2.x\",\"rules\":[" rules CORE_ENDS "]}"

static const char dense[] = CORE_RULES("Qwen2", CORE_ATTENTION CORE_FFN("mlp"));
/* TeleChat3, too. */
static const char qwen3[] = CORE_RULES("Qwen3", CORE_ATTENTION CORE_HEAD_NORMS CORE_FFN("mlp"));
static const char qwen3_fused[] = CORE_RULES(
    "Qwen3, fused", QKV("decoder.layers.{i}.self_attention.linear_qkv.{p*}")
                        CORE_OUT CORE_HEAD_NORMS GATE_UP("decoder.layers.{i}.mlp.linear_fc1.{p*}")
                            CORE("mlp.down_proj.{p*}", "mlp.linear_fc2.{p*}"));
static const char qwen3_moe[] =
    CORE_RULES("Qwen3-MoE", CORE_ATTENTION CORE_HEAD_NORMS CORE_EXPERTS CORE_FFN("mlp"));
static const char glm4[] = CORE_RULES(
    "GLM-4", CORE_ATTENTION CORE("mlp.gate_up_proj.{p*}", "mlp.linear_fc1.{p*}")
                 CORE("mlp.down_proj.{p*}", "mlp.linear_fc2.{p*}")
                     CORE("post_self_attn_layernorm.{p*}", "post_self_attn_layernorm.{p*}")
                         CORE("post_mlp_layernorm.{p*}", "post_mlp_layernorm.{p*}"));
static const char glm4_moe[] =
    CORE_RULES("GLM-4-MoE", CORE_ATTENTION CORE_EXPERTS CORE_SHARED_EXPERTS CORE_FFN("mlp"));
/* The layer of multi-token prediction is a network of its own there. */
static const char deepseek3[] =
    CORE_RULES("DeepSeek-V3", DROP("model.layers.61.{p*}")
                                  CORE_LATENT CORE_EXPERTS CORE_SHARED_EXPERTS CORE_FFN("mlp"));
static const char telechat3_moe[] =
    CORE_RULES("TeleChat3-MoE", DROP("model.layers.46.{p*}")
                                    CORE_LATENT CORE_EXPERTS CORE_SHARED_EXPERTS CORE_FFN("mlp"));

static const struct shipped {
    const char *name;
    const char *title;
    const char *text;
} shipped[] = {
    {"llama-mindformers", "Llama: Hugging Face to MindFormers", simple_rules},
    {"llama-mindformers-fused", "Llama: Hugging Face to MindFormers with qkv_concat", fused_rules},
    {"qwen2-mindformers", "Qwen2: Hugging Face to MindFormers", simple_rules},
    {"qwen2-mindformers-fused", "Qwen2: Hugging Face to MindFormers with qkv_concat", fused_rules},
    {"qwen2-mindformers2", "Qwen2: Hugging Face to MindFormers 2.x", dense},
    {"qwen3-mindformers", "Qwen3: Hugging Face to MindFormers 2.x", qwen3},
    {"qwen3-mindformers-fused", "Qwen3: Hugging Face to MindFormers 2.x in training", qwen3_fused},
    {"qwen3-moe-mindformers", "Qwen3-MoE: Hugging Face to MindFormers 2.x", qwen3_moe},
    {"glm4-mindformers", "GLM-4: Hugging Face to MindFormers 2.x", glm4},
    {"glm4-moe-mindformers", "GLM-4-MoE: Hugging Face to MindFormers 2.x", glm4_moe},
    {"deepseek3-mindformers", "DeepSeek-V3: Hugging Face to MindFormers 2.x", deepseek3},
    {"telechat3-mindformers", "TeleChat3: Hugging Face to MindFormers 2.x", qwen3},
    {"telechat3-moe-mindformers", "TeleChat3-MoE: Hugging Face to MindFormers 2.x", telechat3_moe},
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

const char *sft_names_shipped_at(size_t index) {
    return sft__checkpoint_names_shipped(index, NULL);
}

const char *sft_names_shipped_text(const char *name) {
    for (size_t i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        if (strcmp(shipped[i].name, name) == 0) {
            return shipped[i].text;
        }
    }
    return NULL;
}

/* Names of families are written in small letters. */
static size_t lower(char *out, size_t room, const char *name) {
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < room; n++) {
        out[n] = name[n] >= 'A' && name[n] <= 'Z' ? (char)(name[n] - 'A' + 'a') : name[n];
    }
    return n;
}

const char *sft_names_nearest(const char *given) {
    char name[128];
    const size_t len = lower(name, sizeof name, given);
    const char *nearest = NULL;
    size_t best = 0;
    for (size_t i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        const size_t n = strlen(shipped[i].name);
        const size_t same = sft__checkpoint_likeness(name, len, shipped[i].name, n);
        if (same > best && same >= (len < n ? len : n)) { /* of at most three times as much */
            best = same;
            nearest = shipped[i].name;
        }
    }
    return nearest;
}
