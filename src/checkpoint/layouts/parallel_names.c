/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_names.c - what a parameter's name says of how it is cut among ranks: names of
 * transformers (Llama, Qwen2, Qwen3, Mixtral, DeepSeek-V3, GLM-4, TeleChat, Gemma, Mistral, Phi and those
 * that are called alike) and of MindFormers 1.x and 2.x. It knows no shapes. Read
 * checkpoint/layouts/parallel.h first.
 */
#include "checkpoint/layouts/parallel.h"
#include <string.h>

typedef struct module {
    const char *pattern; /* "#": a number */
    sft__checkpoint_cut cut;
    sft__checkpoint_heads heads;
    sft__checkpoint_size size;
} module;

#define Q    SFT__HEADS_QUERY
#define KV   SFT__HEADS_KEY
#define NO   SFT__HEADS_NONE
#define OPEN SFT__SIZE_OPEN

/* Modules of a layer, and tensors that are none (weight1). */
static const module modules[] = {
    /* transformers */
    {"self_attn.q_proj", SFT__CUT_COLUMN, Q, SFT__SIZE_QUERY},
    {"self_attn.k_proj", SFT__CUT_COLUMN, KV, SFT__SIZE_KEY},
    {"self_attn.v_proj", SFT__CUT_COLUMN, KV, SFT__SIZE_KEY},
    {"self_attn.o_proj", SFT__CUT_ROW, Q, SFT__SIZE_QUERY},
    {"self_attn.dense", SFT__CUT_ROW, Q, SFT__SIZE_QUERY},
    {"self_attn.qkv_proj", SFT__CUT_QKV, KV, SFT__SIZE_QKV},
    {"self_attn.q_norm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.k_norm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.q_layernorm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.k_layernorm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.q_a_proj", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.q_a_layernorm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.q_b_proj", SFT__CUT_COLUMN, Q, OPEN},
    {"self_attn.kv_a_proj_with_mqa", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.kv_a_layernorm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attn.kv_b_proj", SFT__CUT_COLUMN, Q, OPEN},
    {"self_attn.rotary_emb", SFT__CUT_WHOLE, NO, OPEN},
    {"mlp.gate_proj", SFT__CUT_COLUMN, NO, SFT__SIZE_INNER},
    {"mlp.up_proj", SFT__CUT_COLUMN, NO, SFT__SIZE_INNER},
    {"mlp.down_proj", SFT__CUT_ROW, NO, SFT__SIZE_INNER},
    {"mlp.gate_up_proj", SFT__CUT_GATE_UP, NO, SFT__SIZE_INNERS},
    {"mlp.fc1", SFT__CUT_COLUMN, NO, SFT__SIZE_INNER},
    {"mlp.fc2", SFT__CUT_ROW, NO, SFT__SIZE_INNER},
    {"mlp.gate", SFT__CUT_WHOLE, NO, SFT__SIZE_ROUTER},
    {"mlp.experts.#.gate_proj", SFT__CUT_COLUMN, NO, SFT__SIZE_EXPERT},
    {"mlp.experts.#.up_proj", SFT__CUT_COLUMN, NO, SFT__SIZE_EXPERT},
    {"mlp.experts.#.down_proj", SFT__CUT_ROW, NO, SFT__SIZE_EXPERT},
    {"mlp.experts.gate_up_proj", SFT__CUT_STACK_IN, NO, OPEN},
    {"mlp.experts.down_proj", SFT__CUT_STACK_OUT, NO, OPEN},
    {"mlp.shared_experts.gate_proj", SFT__CUT_COLUMN, NO, SFT__SIZE_SHARED},
    {"mlp.shared_experts.up_proj", SFT__CUT_COLUMN, NO, SFT__SIZE_SHARED},
    {"mlp.shared_experts.down_proj", SFT__CUT_ROW, NO, SFT__SIZE_SHARED},
    {"block_sparse_moe.gate", SFT__CUT_WHOLE, NO, SFT__SIZE_ROUTER},
    {"block_sparse_moe.experts.#.w1", SFT__CUT_COLUMN, NO, SFT__SIZE_EXPERT},
    {"block_sparse_moe.experts.#.w3", SFT__CUT_COLUMN, NO, SFT__SIZE_EXPERT},
    {"block_sparse_moe.experts.#.w2", SFT__CUT_ROW, NO, SFT__SIZE_EXPERT},
    {"input_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"post_attention_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"pre_feedforward_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"post_feedforward_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"post_self_attn_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"post_mlp_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    /* DeepSeek's prediction of more tokens, a layer after the last */
    {"eh_proj", SFT__CUT_WHOLE, NO, OPEN},
    {"enorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"hnorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"shared_head.norm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"shared_head.head", SFT__CUT_VOCABULARY, NO, OPEN},
    {"embed_tokens", SFT__CUT_VOCABULARY, NO, OPEN},
    /* TeleChat2: keys and values of a head stand together */
    {"self_attention.query", SFT__CUT_COLUMN, Q, SFT__SIZE_QUERY},
    {"self_attention.key_value", SFT__CUT_COLUMN, KV, SFT__SIZE_KEYS},
    {"self_attention.dense", SFT__CUT_ROW, Q, SFT__SIZE_QUERY},
};

static const module modules1[] = {
    {"attention.wq", SFT__CUT_COLUMN, Q, SFT__SIZE_QUERY},
    {"attention.wk", SFT__CUT_COLUMN, KV, SFT__SIZE_KEY},
    {"attention.wv", SFT__CUT_COLUMN, KV, SFT__SIZE_KEY},
    {"attention.w_qkv", SFT__CUT_COLUMN, KV, SFT__SIZE_QKV}, /* heads take turns */
    {"attention.wo", SFT__CUT_ROW, Q, SFT__SIZE_QUERY},
    {"feed_forward.w1", SFT__CUT_COLUMN, NO, SFT__SIZE_INNER},
    {"feed_forward.w3", SFT__CUT_COLUMN, NO, SFT__SIZE_INNER},
    {"feed_forward.w_gate_hidden", SFT__CUT_COLUMN, NO, SFT__SIZE_INNERS}, /* rows take turns */
    {"feed_forward.w2", SFT__CUT_ROW, NO, SFT__SIZE_INNER},
    {"attention_norm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"ffn_norm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
};

static const module modules2[] = {
    {"self_attention.linear_q", SFT__CUT_COLUMN, Q, SFT__SIZE_QUERY},
    {"self_attention.linear_k", SFT__CUT_COLUMN, KV, SFT__SIZE_KEY},
    {"self_attention.linear_v", SFT__CUT_COLUMN, KV, SFT__SIZE_KEY},
    {"self_attention.linear_qkv", SFT__CUT_TURNS, KV, OPEN},
    {"self_attention.linear_qb", SFT__CUT_LATENT, Q, OPEN},
    {"self_attention.linear_kvb", SFT__CUT_LATENT, Q, OPEN},
    {"self_attention.linear_proj", SFT__CUT_ROW, Q, SFT__SIZE_QUERY},
    {"self_attention.linear_q_proj", SFT__CUT_COLUMN, Q, OPEN},
    {"self_attention.linear_q_down_proj", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attention.linear_q_up_proj", SFT__CUT_COLUMN, Q, OPEN},
    {"self_attention.linear_kv_down_proj", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attention.linear_kv_up_proj", SFT__CUT_COLUMN, Q, OPEN},
    {"self_attention.q_layernorm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attention.k_layernorm", SFT__CUT_WHOLE, NO, OPEN},
    {"self_attention.kv_layernorm", SFT__CUT_WHOLE, NO, OPEN},
    {"input_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"pre_mlp_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"post_self_attn_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"post_mlp_layernorm", SFT__CUT_WHOLE, NO, SFT__SIZE_HIDDEN},
    {"mlp.gating", SFT__CUT_COLUMN, NO, SFT__SIZE_INNER},
    {"mlp.hidden", SFT__CUT_COLUMN, NO, SFT__SIZE_INNER},
    {"mlp.linear_fc1", SFT__CUT_FC1, NO, SFT__SIZE_INNERS},
    {"mlp.linear_fc2", SFT__CUT_ROW, NO, SFT__SIZE_INNER},
    {"mlp.router", SFT__CUT_WHOLE, NO, SFT__SIZE_ROUTER},
    {"mlp.experts.#.gating", SFT__CUT_COLUMN, NO, SFT__SIZE_EXPERT},
    {"mlp.experts.#.hidden", SFT__CUT_COLUMN, NO, SFT__SIZE_EXPERT},
    {"mlp.experts.#.linear_fc2", SFT__CUT_ROW, NO, SFT__SIZE_EXPERT},
    {"mlp.experts.weight1", SFT__CUT_STACK_EXPERT, NO, OPEN},
    {"mlp.experts.weight2", SFT__CUT_STACK_EXPERT, NO, OPEN},
    {"mlp.shared_experts", SFT__CUT_WHOLE, NO,
     OPEN}, /* as MindFormers trains: they share the sequence */
};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct root {
    const char *prefix;
    const module *modules;
    size_t count;
    sft__checkpoint_family family;
} roots[] = {
    {"decoder.layers.", modules2, COUNT(modules2), SFT__FAMILY_MINDFORMERS2},
    {"model.layers.", modules, COUNT(modules), SFT__FAMILY_HF},
    {"model.layers.", modules1, COUNT(modules1), SFT__FAMILY_MINDFORMERS1},
    {"layers.", modules, COUNT(modules), SFT__FAMILY_HF},
    {"transformer.h.", modules, COUNT(modules), SFT__FAMILY_HF},
};

/* Outside of layers. */
static const struct outer {
    const char *pattern;
    sft__checkpoint_cut cut;
    sft__checkpoint_place place;
    sft__checkpoint_family family;
} outers[] = {
    {"model.embed_tokens", SFT__CUT_VOCABULARY, SFT__PLACE_FIRST, SFT__FAMILY_HF},
    {"embed_tokens", SFT__CUT_VOCABULARY, SFT__PLACE_FIRST, SFT__FAMILY_HF},
    {"transformer.word_embeddings", SFT__CUT_VOCABULARY, SFT__PLACE_FIRST, SFT__FAMILY_HF},
    {"model.tok_embeddings", SFT__CUT_VOCABULARY, SFT__PLACE_FIRST, SFT__FAMILY_MINDFORMERS1},
    {"embedding.word_embeddings", SFT__CUT_VOCABULARY, SFT__PLACE_FIRST, SFT__FAMILY_MINDFORMERS2},
    {"model.norm", SFT__CUT_WHOLE, SFT__PLACE_LAST, SFT__FAMILY_HF},
    {"norm", SFT__CUT_WHOLE, SFT__PLACE_LAST, SFT__FAMILY_HF},
    {"model.final_layernorm", SFT__CUT_WHOLE, SFT__PLACE_LAST, SFT__FAMILY_HF},
    {"transformer.ln_f", SFT__CUT_WHOLE, SFT__PLACE_LAST, SFT__FAMILY_HF},
    {"model.norm_out", SFT__CUT_WHOLE, SFT__PLACE_LAST, SFT__FAMILY_MINDFORMERS1},
    {"decoder.final_layernorm", SFT__CUT_WHOLE, SFT__PLACE_LAST, SFT__FAMILY_MINDFORMERS2},
    {"lm_head", SFT__CUT_VOCABULARY, SFT__PLACE_LAST, SFT__FAMILY_HF},
    {"output_layer", SFT__CUT_VOCABULARY, SFT__PLACE_LAST, SFT__FAMILY_MINDFORMERS2},
    {"model.rotary_emb", SFT__CUT_WHOLE, SFT__PLACE_ALL, SFT__FAMILY_HF},
};

/* States of an optimizer have the shapes of their parameters. */
static const char *const states[] = {"adam_m.",         "adam_v.",     "moments.", "moment1.",
                                     "moment2.",        "accu_grads.", "exp_avg.", "exp_avg_sq.",
                                     "max_exp_avg_sq.", "vhat.",       "muon_m.",  "lamb_m.",
                                     "lamb_v.",         "accum.",      "stat."};

typedef struct span {
    const char *at;
    size_t len;
} span;

static bool skip(span *s, const char *prefix) {
    const size_t n = strlen(prefix);
    if (s->len < n || memcmp(s->at, prefix, n) != 0) {
        return false;
    }
    s->at += n;
    s->len -= n;
    return true;
}

/* At most nine digits. */
static bool take_number(span *s, uint64_t *value) {
    size_t n = 0;
    *value = 0;
    while (n < s->len && n < 9 && s->at[n] >= '0' && s->at[n] <= '9') {
        *value = *value * 10 + (uint64_t)(s->at[n++] - '0');
    }
    if (n == 0 || (n > 1 && s->at[0] == '0')) {
        return false;
    }
    s->at += n;
    s->len -= n;
    return true;
}

/* The pattern at the begin, up to a dot or to the end; *rest: what comes after it, with its dot. */
static bool matches(const char *pattern, span s, uint64_t *number, span *rest) {
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '#') {
            if (!take_number(&s, number)) {
                return false;
            }
        } else if (s.len == 0 || *s.at != *pattern) {
            return false;
        } else {
            s.at++;
            s.len--;
        }
    }
    *rest = s;
    return s.len == 0 || *s.at == '.';
}

static bool is(const span *s, const char *text) {
    return s->len == strlen(text) && memcmp(s->at, text, s->len) == 0;
}

/* Of what is cut only parameters are known whose dimensions are: no scales, no adapters. */
static bool take_rest(const span *rest, sft__checkpoint_role *role) {
    role->is_bias = is(rest, ".bias");
    switch (role->cut) {
    case SFT__CUT_WHOLE:
        if (role->size == SFT__SIZE_HIDDEN && !role->is_bias && !is(rest, ".weight")) {
            role->size = SFT__SIZE_OPEN;
        }
        return rest->len != 0;
    case SFT__CUT_STACK_IN:
    case SFT__CUT_STACK_OUT:
    case SFT__CUT_STACK_EXPERT:
        return rest->len == 0;
    case SFT__CUT_VOCABULARY:
        return role->is_bias || is(rest, ".weight") || is(rest, ".embedding_weight");
    default:
        return role->is_bias || is(rest, ".weight");
    }
}

static bool in_layer(const struct root *root, span s, sft__checkpoint_role *role) {
    if (!skip(&s, root->prefix) || !take_number(&s, &role->layer) || !skip(&s, ".")) {
        return false;
    }
    for (size_t i = 0; i < root->count; i++) {
        const module *const m = &root->modules[i];
        span rest;
        role->expert = UINT64_MAX;
        if (matches(m->pattern, s, &role->expert, &rest)) {
            role->module = m->pattern;
            role->cut = m->cut;
            role->heads = m->heads;
            role->size = m->size;
            role->place = SFT__PLACE_LAYER;
            role->family = root->family;
            return take_rest(&rest, role);
        }
    }
    return false;
}

static bool outside(span s, sft__checkpoint_role *role) {
    for (size_t i = 0; i < COUNT(outers); i++) {
        span rest;
        if (matches(outers[i].pattern, s, &role->expert, &rest)) {
            role->module = outers[i].pattern;
            role->cut = outers[i].cut;
            role->size = role->cut == SFT__CUT_VOCABULARY     ? SFT__SIZE_VOCABULARY
                         : outers[i].place == SFT__PLACE_LAST ? SFT__SIZE_HIDDEN
                                                              : SFT__SIZE_OPEN;
            role->place = outers[i].place;
            role->family = outers[i].family;
            return take_rest(&rest, role);
        }
    }
    return false;
}

size_t sft__checkpoint_state_of(const char *name, size_t len) {
    span s = {name, len};
    for (size_t i = 0; i < COUNT(states); i++) {
        if (skip(&s, states[i])) {
            break;
        }
    }
    return len - s.len;
}

bool sft__checkpoint_role_of(const char *name, size_t len, sft__checkpoint_role *role) {
    const size_t state = sft__checkpoint_state_of(name, len);
    const span s = {name + state, len - state};
    const bool is_state = state != 0;
    memset(role, 0, sizeof *role);
    role->is_state = is_state;
    for (size_t i = 0; i < COUNT(roots); i++) {
        if (in_layer(&roots[i], s, role)) {
            return true;
        }
    }
    memset(role, 0, sizeof *role);
    role->is_state = is_state;
    role->expert = UINT64_MAX;
    return outside(s, role);
}

size_t sft__checkpoint_layer_end(const char *name, size_t len, uint64_t *layer) {
    for (size_t i = 0; i < COUNT(roots); i++) {
        span s = {name, len};
        if (skip(&s, roots[i].prefix) && take_number(&s, layer) && s.len != 0 && *s.at == '.') {
            return len - s.len;
        }
    }
    return 0;
}
