/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_facts.c - numbers of a model out of its config.json, and out of its names where
 * that says nothing. Read checkpoint/layouts/parallel_facts.h first.
 */
#include "checkpoint/layouts/parallel_facts.h"
#include "base/error.h"
#include "checkpoint/text.h"
#include "fs/file.h"
#include "layout/jsontree.h"
#include <string.h>

#define MOST UINT64_C(1048576) /* of layers, heads, experts, and the config's bytes */

static sft_status take(const sft__layout_jnode *root, const char *const *names, int least,
                       uint64_t *out, sft_error *err) {
    for (; *names != NULL; names++) {
        const sft__layout_jnode *const n = sft__layout_jtree_get(root, *names);
        int64_t v;
        if (n == NULL || n->type == SFT__J_NULL) {
            continue;
        }
        if (!sft__layout_jtree_int(n, &v) || v < least || (uint64_t)v > MOST) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, n->offset,
                                     "config.json: %s is no number from %d to 1048576", *names,
                                     least);
        }
        *out = (uint64_t)v;
        return SFT_OK;
    }
    return SFT_OK;
}

/* Of numbers that only shapes are compared with: 0 where it is none. */
static uint64_t size_of(const sft__layout_jnode *root, const char *name) {
    const sft__layout_jnode *const n = sft__layout_jtree_get(root, name);
    int64_t v;
    return n != NULL && sft__layout_jtree_int(n, &v) && v > 0 && v <= INT64_C(1) << 30 ? (uint64_t)v
                                                                                       : 0;
}

/* Models whose shapes are what the numbers say: others have gates in their queries, or wider layers. The
 * first ones have heads of hidden_size / num_attention_heads where nothing else is said. */
static const char *const types[] = {"llama",  "mistral", "mixtral",   "qwen2",    "qwen2_moe",
                                    "phi",    "phi3",    "qwen3",     "gemma",    "qwen3_moe",
                                    "gemma2", "glm4",    "telechat2", "glm4_moe", "deepseek_v3"};
enum { TYPES = sizeof types / sizeof types[0], PLAIN = 7 };

/* Is the model one of the first `count` of these, or does the configuration not say what it is? */
static bool is_of(const sft__layout_jnode *root, size_t count) {
    const sft__layout_jnode *const n = sft__layout_jtree_get(root, "model_type");
    if (n == NULL || n->type != SFT__J_STRING) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (n->len == strlen(types[i]) && memcmp(n->text, types[i], n->len) == 0) {
            return true;
        }
    }
    return false;
}

static void take_sizes(sft__checkpoint_facts *f, const sft__layout_jnode *from) {
    f->sized = is_of(from, TYPES);
    f->vocabulary = size_of(from, "vocab_size");
    f->inner = size_of(from, "intermediate_size");
    const sft__layout_jnode *const type = sft__layout_jtree_get(from, "model_type");
    const bool typed = type != NULL && type->type == SFT__J_STRING;
    const bool mixtral = typed && type->len == 7 && memcmp(type->text, "mixtral", 7) == 0;
    f->gate_then_up = typed && type->len == 4 && memcmp(type->text, "glm4", 4) == 0;
    const uint64_t own = mixtral ? 0 : size_of(from, "moe_intermediate_size");
    f->own_inner = own != 0;
    f->shared_inner = own * size_of(from, "n_shared_experts"); /* each at most 2^30 */
    f->expert_inner = own != 0 || (typed && !mixtral) ? own : f->inner;
    f->head_size = size_of(from, "head_dim");
    f->predicting = size_of(from, "num_nextn_predict_layers");
    const bool latent = size_of(from, "kv_lora_rank") != 0;
    if (f->head_size == 0 && is_of(from, PLAIN) && f->heads != 0 && f->hidden % f->heads == 0) {
        f->head_size = f->hidden / f->heads;
    }
    f->head_size = latent ? 0 : f->head_size;
}

/* The same number by two names. */
static sft_status check_layers(const sft__layout_jnode *root, const char *const *names,
                               uint64_t layers, sft_error *err) {
    for (; *names != NULL; names++) {
        const uint64_t other = size_of(root, *names);
        if (other != 0 && other != layers) {
            return sft__base_fail(err, SFT_E_MISMATCH,
                                  "config.json: num_hidden_layers is %llu, and %s %llu",
                                  (unsigned long long)layers, *names, (unsigned long long)other);
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_facts_read(sft__checkpoint_facts *f, sft_layout_set *set,
                                      const char *text, size_t size, sft_error *err) {
    static const char *const layers[] = {"num_hidden_layers", "n_layer", "num_layers", NULL};
    static const char *const heads[] = {"num_attention_heads", "n_head", "num_heads", NULL};
    static const char *const keys[] = {"num_key_value_heads", "n_kv_heads", NULL};
    static const char *const hidden[] = {"hidden_size", NULL};
    static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                          NULL};
    sft__layout_jnode *root;
    SFT_TRY(sft__layout_jtree_config(&root, &set->arena, text, size, err));
    const sft__layout_jnode *const inner = sft__layout_jtree_get(root, "text_config");
    const sft__layout_jnode *const tie = sft__layout_jtree_get(root, "tie_word_embeddings");
    const sft__layout_jnode *const from =
        sft__layout_jtree_get(root, layers[0]) == NULL && inner != NULL ? inner : root;
    SFT_TRY(take(from, layers, 1, &f->layers, err));
    SFT_TRY(take(from, heads, 1, &f->heads, err));
    SFT_TRY(take(from, keys, 1, &f->key_heads, err));
    SFT_TRY(take(from, hidden, 1, &f->hidden, err));
    SFT_TRY(take(from, experts, 0, &f->experts, err)); /* 0: a dense model */
    if (sft__layout_jtree_get(from, layers[0]) != NULL) {
        SFT_TRY(check_layers(from, layers + 1, f->layers, err));
    }
    take_sizes(f, from);
    f->config = true;
    f->untied = tie != NULL && tie->type == SFT__J_BOOL && tie->value == 0;
    f->says_tied = tie != NULL && tie->type == SFT__J_BOOL && tie->value != 0;
    return SFT_OK;
}

static sft_status read_file(sft__checkpoint_facts *f, sft_layout_set *set, const char *path,
                            bool *found, sft_error *err) {
    sft__checkpoint_text text;
    sft__fs_stat st;
    *found = false;
    SFT_TRY(sft__fs_stat_path(path, found, &st, err));
    if (!*found) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_text_read(&text, path, MOST, "config.json", set->allocator, err));
    const sft_status status = sft__checkpoint_facts_read(f, set, text.data, text.size, err);
    sft__checkpoint_text_reset(&text);
    return status;
}

sft_status sft__checkpoint_facts_beside(sft__checkpoint_facts *f, sft_layout_set *set,
                                        const sft_catalog *model, sft_error *err) {
    static const char *const places[] = {"config.json", "../config.json"};
    const sft_file *const file = sft_catalog_file_at(model, 0);
    const char *const path = file != NULL ? file->path : "";
    const size_t directory = (size_t)(sft__fs_base_name(path) - path);
    sft_status status = SFT_OK;
    bool found = strstr(path, "://") != NULL; /* not to be had from here */
    for (size_t i = 0; i < 2 && !found && status == SFT_OK; i++) {
        sft__base_buf b;
        sft__base_buf_init(&b, set->allocator);
        sft__base_buf_add(&b, path, directory);
        sft__base_buf_text(&b, places[i]);
        sft__base_buf_add(&b, "", 1);
        status =
            b.failed ? sft__base_fail_nomem(err, b.len) : read_file(f, set, b.data, &found, err);
        sft__base_buf_reset(&b);
    }
    return status;
}

static bool is_norm_of_glm4(const sft_tensor *t) {
    static const char end[] = ".post_self_attn_layernorm.weight";
    const size_t n = sizeof end - 1;
    return t->name_len > n && memcmp(t->name + t->name_len - n, end, n) == 0;
}

void sft__checkpoint_facts_note(sft__checkpoint_facts *f, const sft__checkpoint_role *role,
                                const sft_tensor *t) {
    if (role->size == SFT__SIZE_ROUTER && t != NULL && t->rank == 2 && !role->is_state &&
        f->routed == 0 && t->shape[0] <= MOST) {
        f->routed = t->shape[0];
    }
    if (role->cut == SFT__CUT_ROW && t != NULL && t->rank == 2 && !role->is_state &&
        role->expert == UINT64_MAX && f->out == 0 && !sft__checkpoint_is_packed(t->dtype)) {
        f->out = t->shape[0];
        f->out_name = t->name;
        f->out_len = t->name_len;
    }
    if (role->place == SFT__PLACE_LAYER && role->layer >= f->seen_layers) {
        f->seen_layers = role->layer + 1;
    }
    if (role->expert != UINT64_MAX && role->expert >= f->seen_experts) {
        f->seen_experts = role->expert + 1;
    }
    f->latent = f->latent || role->cut == SFT__CUT_LATENT;
    f->gate_then_up = f->gate_then_up || (t != NULL && is_norm_of_glm4(t));
    f->legacy = f->legacy || role->family == SFT__FAMILY_MINDFORMERS1;
}

static sft_status agree(uint64_t *fact, uint64_t given, const char *what, sft_error *err) {
    if (*fact != 0 && given != 0 && *fact != given) {
        return sft__base_fail(err, SFT_E_MISMATCH,
                              "%s is %llu in the parallel configuration, and %llu in the model",
                              what, (unsigned long long)given, (unsigned long long)*fact);
    }
    *fact = *fact != 0 ? *fact : given;
    return SFT_OK;
}

/* The layers of a configuration against those that tensors are named after. */
static sft_status check_seen(const sft__checkpoint_facts *f, const char *whose, bool ends,
                             sft_error *err) {
    const unsigned long long said = f->layers;
    const unsigned long long seen = f->seen_layers;
    if (said == 0 || seen == 0) {
        return SFT_OK;
    }
    if (seen > f->layers + f->predicting) {
        return sft__base_fail(
            err, SFT_E_MISMATCH,
            "num_hidden_layers is %llu in %s, and the model's tensors are of %llu "
            "layers%s",
            said, whose, seen,
            f->predicting == 0 && seen <= said + 4
                ? ": those behind, if they predict more tokens, are to be said by "
                  "num_nextn_predict_layers"
                : "");
    }
    if (seen < f->layers && ends) {
        return sft__base_fail(
            err, SFT_E_MISMATCH,
            "num_hidden_layers is %llu in %s, and the model's tensors are of %llu "
            "layers",
            said, whose, seen);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_facts_settle(sft__checkpoint_facts *f, const sft__checkpoint_parallel *p,
                                        bool ends, sft_error *err) {
    const bool own = f->layers == 0; /* the parallel configuration's number, if any */
    SFT_TRY(agree(&f->layers, p->layers, "num_hidden_layers", err));
    SFT_TRY(agree(&f->heads, p->heads, "num_attention_heads", err));
    SFT_TRY(agree(&f->key_heads, p->key_heads, "num_key_value_heads", err));
    SFT_TRY(agree(&f->predicting, p->predicting, "num_nextn_predict_layers", err));
    SFT_TRY(check_seen(f, own ? "the parallel configuration" : "config.json", ends, err));
    f->sized = f->sized || !f->config;
    f->own_keys = f->key_heads != 0;
    f->own_layers = f->layers != 0;
    f->own_experts = f->experts != 0 || f->routed != 0;
    f->layers = f->layers != 0 ? f->layers : f->seen_layers;
    f->experts = f->experts != 0 ? f->experts : f->routed;
    f->experts = f->experts != 0 ? f->experts : f->seen_experts;
    f->key_heads = f->key_heads != 0 ? f->key_heads : f->heads;
    return SFT_OK;
}
