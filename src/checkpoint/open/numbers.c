/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/numbers.c - do ranks that are there bear numbers (dp=2,tp=2,pp=2) out that somebody gives
 * as their layout? Replicas have the same names, and a layer is of one stage; the values are
 * numbers_values.c's. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "checkpoint/layouts/parallel.h"
#include "checkpoint/open/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>

#define MOST UINT64_C(1024) /* replicas of a stage that are looked for */

typedef struct fitting {
    const sft_checkpoint *c;
    const sft__checkpoint_parallel *p;
    uint64_t devices; /* of a stage */
    sft_error *err;
} fitting;

static bool same_name(const sft_tensor *a, const sft_tensor *b) {
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

/* ---------------------------------------------------------------- names */

/* Is it a tensor that every replica has? Experts are of every ep-th rank, and what is no parameter of the
 * model, of some rank alone, perhaps. */
static bool is_shared(const fitting *f, const sft_tensor *t, sft__checkpoint_role *role) {
    return sft__checkpoint_role_of(t->name, t->name_len, role) && role->place != SFT__PLACE_ALL &&
           (f->p->ep == 1 ||
            (role->expert == UINT64_MAX && role->cut != SFT__CUT_STACK_IN &&
             role->cut != SFT__CUT_STACK_OUT && role->cut != SFT__CUT_STACK_EXPERT));
}

/* How many stages the names speak of: ranks up to the first that has other ones. 0: not so. */
static uint64_t stages_of(const fitting *f, uint64_t lower, uint64_t higher) {
    const uint64_t ranks = f->devices * f->p->pp;
    const uint64_t each = higher - lower / f->devices * f->devices;
    return each != 0 && ranks % each == 0 ? ranks / each : 0;
}

static sft_status not_shared(const fitting *f, const sft_tensor *t, size_t has, size_t lacks) {
    const uint64_t a = f->c->parts[has].rank;
    const uint64_t b = f->c->parts[lacks].rank;
    const uint64_t stages = stages_of(f, a < b ? a : b, a < b ? b : a);
    char more[64] = "";
    if (stages > f->p->pp) {
        (void)snprintf(more, sizeof more, ", pp=%llu more probably", (unsigned long long)stages);
    }
    return SFT_FAIL_TENSOR(
        f->err, SFT_E_MISMATCH, t,
        "rank %llu has it and rank %llu does not, and the numbers (dp=%llu) make "
        "them replicas: they are of several pipeline stages%s, or the numbers of "
        "another model",
        (unsigned long long)a, (unsigned long long)b, (unsigned long long)f->p->dp, more);
}

/* What part `has` has, part `lacks` must have. */
static sft_status check_has(const fitting *f, size_t has, size_t lacks) {
    const sft_catalog *const x = f->c->parts[has].catalog;
    const sft_catalog *const y = f->c->parts[lacks].catalog;
    for (size_t i = 0; i < sft_catalog_count(x); i++) {
        const sft_tensor *const t = sft_catalog_at(x, i);
        const sft_tensor *const u = sft_catalog_at(y, i);
        sft__checkpoint_role role;
        if ((u != NULL && same_name(t, u)) || sft_catalog_find(y, t->name, t->name_len) != NULL ||
            !is_shared(f, t, &role)) {
            continue;
        }
        return not_shared(f, t, has, lacks);
    }
    return SFT_OK;
}

static int by_rank(const void *key, const void *part) {
    const uint64_t a = *(const uint64_t *)key;
    const uint64_t b = ((const sft_rank_part *)part)->rank;
    return a < b ? -1 : a > b;
}

/* The next lower replica that has a file; NULL: none. */
static const sft_rank_part *replica_below(const fitting *f, uint64_t rank) {
    const sft_checkpoint *const c = f->c;
    const sft_rank_part *found = NULL;
    uint64_t at = rank % f->devices;
    for (size_t i = 0; at >= f->p->tp && i < MOST && found == NULL; i++) {
        at -= f->p->tp;
        const uint64_t key = rank / f->devices * f->devices + at;
        found = bsearch(&key, c->parts, c->count, sizeof *c->parts, by_rank);
    }
    return found;
}

static sft_status check_replicas(const fitting *f) {
    for (size_t i = 0; i < f->c->count; i++) {
        const sft_rank_part *const other = replica_below(f, f->c->parts[i].rank);
        if (other != NULL) {
            const size_t at = (size_t)(other - f->c->parts);
            SFT_TRY(check_has(f, at, i));
            SFT_TRY(check_has(f, i, at));
        }
    }
    return SFT_OK;
}

/* The first part of every stage: its layers are of no other stage. */
static sft_status check_stage(const fitting *f, size_t at, size_t other) {
    const sft_catalog *const x = f->c->parts[at].catalog;
    for (size_t i = 0; i < sft_catalog_count(x); i++) {
        const sft_tensor *const t = sft_catalog_at(x, i);
        sft__checkpoint_role role;
        if (sft_catalog_find(f->c->parts[other].catalog, t->name, t->name_len) == NULL ||
            !sft__checkpoint_role_of(t->name, t->name_len, &role) ||
            role.place != SFT__PLACE_LAYER) {
            continue;
        }
        return SFT_FAIL_TENSOR(
            f->err, SFT_E_MISMATCH, t,
            "ranks %llu and %llu have it, and the numbers (pp=%llu) make them of "
            "different pipeline stages: a layer is of one",
            (unsigned long long)f->c->parts[other].rank, (unsigned long long)f->c->parts[at].rank,
            (unsigned long long)f->p->pp);
    }
    return SFT_OK;
}

/* Neighbours are enough: numbers that are wrong make every stage so. */
static sft_status check_stages(const fitting *f) {
    size_t before = 0;
    for (size_t i = 1; i < f->c->count; i++) {
        if (f->c->parts[i].rank / f->devices != f->c->parts[before].rank / f->devices) {
            SFT_TRY(check_stage(f, i, before));
            before = i;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all of it */

sft_status sft__checkpoint_numbers_fit(const sft_checkpoint *c, bool deduplicated, sft_error *err) {
    fitting f = {c, c->layouts->parallel, 0, err};
    if (f.p == NULL || c->count < 2) {
        return SFT_OK;
    }
    f.devices = f.p->dp * f.p->cp * f.p->tp;
    SFT_TRY(check_stages(&f));
    if (!deduplicated) {
        SFT_TRY(check_replicas(&f));
    }
    return c->directory != NULL ? sft__checkpoint_values_fit(c, err) : SFT_OK;
}
