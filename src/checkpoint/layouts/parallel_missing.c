/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/parallel_missing.c - what a model's names show to be missing where a few numbers are its
 * layout: layers and experts between others, and experts whose ranks have no files. Read
 * checkpoint/layouts/parallel_facts.h first.
 */
#include "base/error.h"
#include "checkpoint/layouts/parallel_facts.h"
#include <string.h>

#define MOST_NUMBERS UINT64_C(1048576)

bool sft__checkpoint_is_stack(sft__checkpoint_cut cut) {
    return cut == SFT__CUT_STACK_IN || cut == SFT__CUT_STACK_OUT || cut == SFT__CUT_STACK_EXPERT;
}

static void note_numbers(const sft_catalog *catalog, bool experts, uint8_t *bits, uint64_t count) {
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *const t = sft_catalog_at(catalog, i);
        sft__checkpoint_role role;
        if (!sft__checkpoint_role_of(t->name, t->name_len, &role)) {
            continue;
        }
        const uint64_t at = experts                          ? role.expert
                            : role.place == SFT__PLACE_LAYER ? role.layer
                                                             : UINT64_MAX;
        if (at < count) {
            bits[at / 8] |= (uint8_t)(1u << at % 8);
        }
    }
}

/* A model that begins and ends has all layers between, and all experts. */
static sft_status check_gaps(const sft__checkpoint_given *g, bool experts, sft_error *err) {
    const uint64_t seen = experts ? g->facts->seen_experts : g->facts->seen_layers;
    const uint64_t said = experts && seen != 0 ? g->facts->experts : seen;
    const uint64_t all = said > seen ? said : seen;
    const uint64_t most = all < MOST_NUMBERS ? all : MOST_NUMBERS;
    const char *const what = experts ? "expert" : "layer";
    uint8_t *bits;
    if (experts && said < seen) {
        return sft__base_fail(
            err, SFT_E_MISMATCH,
            "there are tensors of expert %llu, and config.json or the router has %llu",
            (unsigned long long)seen - 1, (unsigned long long)said);
    }
    SFT_TRY(sft__checkpoint_lset_take(g->set, &bits, (size_t)(most / 8 + 1), 1, err));
    for (size_t i = 0; i < g->count; i++) {
        note_numbers(g->parts[i].catalog, experts, bits, most);
    }
    for (uint64_t i = 0; i < most; i++) {
        if ((bits[i / 8] >> i % 8 & 1u) == 0) {
            return sft__base_fail(err, SFT_E_HOLE, "no tensor of %s %llu is there, of %llu %ss",
                                  what, (unsigned long long)i, (unsigned long long)all, what);
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_parallel_no_gaps(const sft__checkpoint_given *g, bool ranks,
                                            sft_error *err) {
    SFT_TRY(check_gaps(g, false, err));
    return ranks ? check_gaps(g, true, err) : SFT_OK;
}

static bool has_experts(const sft_catalog *catalog) {
    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *const t = sft_catalog_at(catalog, i);
        sft__checkpoint_role role;
        if (sft__checkpoint_role_of(t->name, t->name_len, &role) &&
            (role.expert != UINT64_MAX || sft__checkpoint_is_stack(role.cut))) {
            return true;
        }
    }
    return false;
}

static sft_status tell_group(const sft__checkpoint_given *g, uint64_t stage, uint64_t group,
                             sft_error *err) {
    const sft__checkpoint_parallel *const p = g->set->parallel;
    sft_error why;
    (void)sft__base_fail(&why, SFT_E_HOLE,
                         "rank %llu, and each %llu-th after it in stage %llu, has no file "
                         "with experts: nobody stands in for theirs (ep=%llu)",
                         (unsigned long long)(stage * p->dp * p->cp * p->tp + group),
                         (unsigned long long)p->ep, (unsigned long long)stage,
                         (unsigned long long)p->ep);
    if (g->set->lacking) {
        return sft__checkpoint_lset_copy(g->set, &g->set->unknown, why.message,
                                         strlen(why.message) + 1, err);
    }
    return sft_error_from(err, SFT_E_HOLE, &why, "%s", why.message);
}

sft_status sft__checkpoint_parallel_no_group_lacks(const sft__checkpoint_given *g, sft_error *err) {
    const sft__checkpoint_parallel *const p = g->set->parallel;
    const uint64_t ep = p->ep;
    const uint64_t devices = p->dp * p->cp * p->tp;
    uint8_t *there; /* for each group of each stage */
    if (ep == 1) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_lset_take(g->set, &there, (size_t)(p->pp * ep), 1, err));
    for (size_t i = 0; i < g->count; i++) {
        const uint64_t group = g->parts[i].rank / devices * ep + g->parts[i].rank % devices % ep;
        there[group] = there[group] || has_experts(g->parts[i].catalog);
    }
    for (uint64_t stage = 0; stage < p->pp; stage++) {
        const uint8_t *const one = memchr(there + stage * ep, 1, (size_t)ep);
        const uint8_t *const none = memchr(there + stage * ep, 0, (size_t)ep);
        if (one != NULL && none != NULL) {
            return tell_group(g, stage, (uint64_t)(none - there) % ep, err);
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- where files may lack */

/* "model.layers." of the first parameter of a layer; 0: there is none. */
static size_t prefix_of(const sft__checkpoint_given *g, const char **prefix) {
    for (size_t i = 0; i < g->count; i++) {
        for (size_t k = 0; k < sft_catalog_count(g->parts[i].catalog); k++) {
            const sft_tensor *const t = sft_catalog_at(g->parts[i].catalog, k);
            uint64_t layer;
            size_t end = sft__checkpoint_layer_end(t->name, t->name_len, &layer);
            while (end > 0 && t->name[end - 1] != '.') {
                end--;
            }
            *prefix = t->name;
            if (end != 0) {
                return end;
            }
        }
    }
    return 0;
}

static sft_status add_lost(sft_layout_set *set, const char *prefix, size_t len, uint64_t layer,
                           sft_error *err) {
    sft__base_buf b;
    sft__base_buf_init(&b, set->allocator);
    sft__base_buf_add(&b, prefix, len);
    sft__base_buf_u64(&b, layer);
    sft__base_buf_add(&b, ".*", 3);
    sft__checkpoint_lset_lost *const lost = &set->lost[set->lost_count];
    const sft_status status = b.failed
                                  ? sft__base_fail_nomem(err, b.len)
                                  : sft__checkpoint_lset_copy(set, &lost->name, b.data, b.len, err);
    lost->layer = layer;
    set->lost_count += status == SFT_OK;
    sft__base_buf_reset(&b);
    return status;
}

sft_status sft__checkpoint_parallel_note_lost(const sft__checkpoint_given *g, sft_error *err) {
    sft_layout_set *const set = g->set;
    const uint64_t layers = g->facts->own_layers ? g->facts->layers : 0; /* at most 2^20 */
    const char *prefix = "";
    const size_t len = prefix_of(g, &prefix);
    uint8_t *bits;
    set->layers = layers;
    if (!set->lacking || layers == 0 || len == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_lset_take(set, &bits, (size_t)(layers / 8 + 1), 1, err));
    SFT_TRY(sft__checkpoint_lset_take(set, &set->lost, (size_t)layers, sizeof *set->lost, err));
    for (size_t i = 0; i < g->count; i++) {
        note_numbers(g->parts[i].catalog, false, bits, layers);
    }
    for (uint64_t i = 0; i < layers; i++) {
        if ((bits[i / 8] >> i % 8 & 1u) == 0) {
            SFT_TRY(add_lost(set, prefix, len, i, err));
        }
    }
    return SFT_OK;
}
