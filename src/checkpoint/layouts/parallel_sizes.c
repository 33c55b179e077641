/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_sizes.c - the shapes that a configuration gives to a model's parameters,
 * against those that the parts of ranks, put together by a few numbers, would have. What the configuration
 * does not say is not asked. Read checkpoint/layouts/parallel_facts.h first.
 */
#include "base/error.h"
#include "checkpoint/layouts/parallel_facts.h"
#include <stdio.h>
#include <string.h>

/* What the configuration makes of the dimension that is cut; 0: it does not say. */
static uint64_t wanted(const sft__checkpoint_facts *f, sft__checkpoint_size size,
                       const char **what) {
    const uint64_t keys = f->own_keys ? f->key_heads : 0;
    *what = "num_attention_heads";
    switch (size) {
    case SFT__SIZE_QUERY:
        return f->heads * f->head_size; /* each at most 2^30 */
    case SFT__SIZE_KEY:
        *what = "num_key_value_heads";
        return keys * f->head_size;
    case SFT__SIZE_KEYS:
        *what = "num_key_value_heads";
        return 2 * keys * f->head_size;
    case SFT__SIZE_QKV:
        return f->heads != 0 && keys != 0 ? (f->heads + 2 * keys) * f->head_size : 0;
    case SFT__SIZE_INNER:
        *what = "intermediate_size";
        return f->inner;
    case SFT__SIZE_INNERS:
        *what = "intermediate_size";
        return 2 * f->inner;
    case SFT__SIZE_EXPERT:
        *what = f->own_inner ? "moe_intermediate_size" : "intermediate_size";
        return f->expert_inner;
    case SFT__SIZE_SHARED:
        *what = "moe_intermediate_size, n_shared_experts";
        return f->shared_inner;
    case SFT__SIZE_VOCABULARY:
        *what = "vocab_size";
        return f->vocabulary;
    default: /* HIDDEN: check_hidden */
        return 0;
    }
}

/* Embeddings may have rows behind the vocabulary, so that they divide among ranks, each in rows of 128; not
 * another vocabulary for each rank. */
static bool fits(sft__checkpoint_size size, uint64_t has, uint64_t want, uint64_t cut) {
    if (size != SFT__SIZE_VOCABULARY) {
        return has == want;
    }
    const uint64_t spare = want > 128 * cut ? want : 128 * cut;
    const uint64_t filled = (want + 128 * cut - 1) / (128 * cut) * (128 * cut);
    return has == filled ||
           (has >= want && has < want + spare && (has == want || cut <= 1 || has % want != 0));
}

void sft__checkpoint_tell_shape(char *out, size_t size, uint32_t rank, const uint64_t *shape) {
    size_t n = (size_t)snprintf(out, size, "[");
    for (uint32_t d = 0; d < rank && n + 24 < size; d++) {
        n += (size_t)snprintf(out + n, size - n, "%s%llu", d == 0 ? "" : ", ",
                              (unsigned long long)shape[d]);
    }
    (void)snprintf(out + n, size - n, "]");
}

bool sft__checkpoint_is_packed(const sft_dtype *d) {
    return d->id == SFT_U8 || d->id == SFT_I8 || d->block_elements > 1;
}

/* Queries and keys have heads of one size: compared where no configuration says it. */
static sft_status check_heads(sft__checkpoint_facts *f, const sft__checkpoint_role *role,
                              const sft_tensor *t, uint64_t rows, sft_error *err) {
    const bool key = role->size == SFT__SIZE_KEY;
    const uint64_t heads = key ? (f->own_keys ? f->key_heads : 0) : f->heads;
    const char *const what = key ? "num_key_value_heads" : "num_attention_heads";
    char other[160];
    if (heads == 0 || (role->size != SFT__SIZE_QUERY && !key) || role->is_bias) {
        return SFT_OK;
    }
    if (rows % heads != 0) {
        return SFT_FAIL_TENSOR(err, SFT_E_MISMATCH, t, "%llu rows are no %llu whole heads (%s)",
                               (unsigned long long)rows, (unsigned long long)heads, what);
    }
    if (f->seen_head == 0) {
        f->seen_head = rows / heads;
        f->seen_name = t->name;
        f->seen_len = t->name_len;
    }
    if (f->sized && !f->latent && f->seen_head != rows / heads) {
        (void)sft_escape(other, sizeof other, f->seen_name, f->seen_len);
        return SFT_FAIL_TENSOR(
            err, SFT_E_MISMATCH, t,
            "%llu rows are %llu heads (%s) of %llu, and those of \"%s\" have %llu",
            (unsigned long long)rows, (unsigned long long)heads, what,
            (unsigned long long)(rows / heads), other, (unsigned long long)f->seen_head);
    }
    return SFT_OK;
}

/* What is as long as the layer's input and not cut: norms, biases behind the reduction, and the rows that are
 * added to it. Where no configuration says how long, the first of the latter does. */
static sft_status check_hidden(const sft__checkpoint_facts *f, const sft_tensor *t, uint64_t rows,
                               sft_error *err) {
    const bool known = f->config && f->hidden != 0;
    const uint64_t want = known ? f->hidden : f->out;
    char other[160];
    if (!f->sized || want == 0 || rows == want) {
        return SFT_OK;
    }
    if (known) {
        return SFT_FAIL_TENSOR(
            err, SFT_E_MISMATCH, t,
            "[%llu], and config.json makes it [%llu] (hidden_size): it is cut, or "
            "the numbers or config.json are another model's",
            (unsigned long long)rows, (unsigned long long)want);
    }
    (void)sft_escape(other, sizeof other, f->out_name, f->out_len);
    return SFT_FAIL_TENSOR(
        err, SFT_E_MISMATCH, t,
        "%s%llu%s, and \"%s\" has %llu rows: one of them is cut otherwise than by "
        "these numbers",
        t->rank == 1 ? "[" : "", (unsigned long long)rows, t->rank == 1 ? "]" : " rows", other,
        (unsigned long long)want);
}

sft_status sft__checkpoint_facts_shape(sft__checkpoint_facts *f, const sft__checkpoint_role *role,
                                       const sft_tensor *t, const uint64_t *shape, uint64_t cut,
                                       sft_error *err) {
    const bool row = role->cut == SFT__CUT_ROW;
    const size_t at = row && !role->is_bias ? 1 : 0;
    const char *what;
    char has[64], want[64];
    if (role->is_state || sft__checkpoint_is_packed(t->dtype)) {
        return SFT_OK;
    }
    if (cut != 0 && ((t->rank == 1 && (role->size == SFT__SIZE_HIDDEN || (row && role->is_bias))) ||
                     (t->rank == 2 && row && !f->config))) {
        SFT_TRY(check_hidden(f, t, shape[0], err));
    }
    if (t->rank != (role->is_bias ? 1u : 2u) || (row && role->is_bias) ||
        role->size == SFT__SIZE_HIDDEN) {
        return SFT_OK;
    }
    const bool heads = role->size >= SFT__SIZE_QUERY && role->size <= SFT__SIZE_QKV;
    const bool known = f->config && f->sized && (cut != 0 || heads);
    const uint64_t size = known ? wanted(f, role->size, &what) : 0;
    const uint64_t other = known && cut != 0 && !role->is_bias ? f->hidden : 0;
    const bool good = (size == 0 || fits(role->size, shape[at], size, cut)) &&
                      (other == 0 || shape[1 - at] == other);
    f->borne_out |= good && size != 0 && cut > 1 ? UINT32_C(1) << role->size : 0;
    f->filled = f->filled || (role->size == SFT__SIZE_VOCABULARY && size != 0 && shape[at] != size);
    if (good) {
        return at == 0 ? check_heads(f, role, t, shape[0], err) : SFT_OK;
    }
    const uint64_t rows = size != 0 ? size : shape[at];
    const uint64_t columns = other != 0 ? other : role->is_bias ? 0 : shape[1 - at];
    const uint64_t wants[] = {at == 0 ? rows : columns, at == 0 ? columns : rows};
    const uint32_t rank = role->is_bias ? 1 : 2;
    sft__checkpoint_tell_shape(has, sizeof has, rank, shape);
    sft__checkpoint_tell_shape(want, sizeof want, rank, wants);
    return SFT_FAIL_TENSOR(err, SFT_E_MISMATCH, t,
                           "%s%s, and config.json makes it %s (%s): the numbers or config.json are "
                           "another model's",
                           has, cut > 1 ? " by these numbers" : "", want,
                           size != 0 && !fits(role->size, shape[at], size, cut) ? what
                                                                                : "hidden_size");
}
