/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/fit.c - do a layout set and a model go together? By names alone: what no entry
 * names would be taken for whole and equal on every rank. Read checkpoint/layouts/layout_set.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/layouts/layout_set.h"
#include "checkpoint/likeness.h"
#include "layout/layout.h"

#define LOOKED_AT 4096u /* tensors among which the nearest name is looked for */
#define SHOWN     48u   /* bytes of a name in a message */

typedef struct fitting {
    const sft_layout_set *set;
    const sft_catalog *catalog;
    bool *used; /* by entry */
    sft_layout_fit fit;
} fitting;

/* Marks the entry that a tensor belongs to, with its namesakes of other meshes. */
static void count_tensor(fitting *f, const sft_tensor *t) {
    const sft__checkpoint_lset_entry *const e = sft__checkpoint_lset_entry_of(f->set, t, 0);
    if (e == NULL) {
        f->fit.tensors_unmatched++;
        f->fit.bytes_unmatched += t->nbytes;
        return;
    }
    size_t at = e->match == SFT_LAYOUT_MATCH_NAME
                    ? sft__base_strmap_find(&f->set->map, t->name, t->name_len)
                    : (size_t)(e - f->set->entries);
    do {
        f->used[at] = true;
        at = f->set->entries[at].next;
    } while (at != 0);
}

/* ---------------------------------------------------------------- the nearest name */

static const sft_tensor *nearest(const sft_catalog *catalog, const sft__checkpoint_lset_entry *e) {
    const size_t count = sft_catalog_count(catalog);
    const sft_tensor *best = sft_catalog_at(catalog, 0);
    size_t most = 0;
    for (size_t i = 0; i < count && i < LOOKED_AT; i++) {
        const sft_tensor *const t = sft_catalog_at(catalog, i);
        const size_t like = sft__checkpoint_likeness(e->name, e->name_len, t->name, t->name_len);
        if (like > most) {
            most = like;
            best = t;
        }
    }
    return best;
}

static sft_status fits_nothing(const fitting *f, sft_error *err) {
    const sft__checkpoint_lset_entry *const e = &f->set->entries[0];
    const sft_tensor *const t = nearest(f->catalog, e);
    char entry[2 * SHOWN + 8];
    char tensor[2 * SHOWN + 8];
    (void)sft_escape(entry, sizeof entry, e->name, e->name_len < SHOWN ? e->name_len : SHOWN);
    (void)sft_escape(tensor, sizeof tensor, t->name, t->name_len < SHOWN ? t->name_len : SHOWN);
    return sft__base_fail(err, SFT_E_MISMATCH,
                          "none of the layout's entries (%llu) fits a tensor: it has \"%s\", and "
                          "the nearest name here is \"%s\"",
                          (unsigned long long)f->set->count, entry, tensor);
}

/* ---------------------------------------------------------------- all of it */

sft_status sft_layout_set_fit(const sft_layout_set *set, const sft_catalog *catalog,
                              sft_layout_fit *fit, sft_error *err) {
    fitting f;
    memset(&f, 0, sizeof f);
    SFT_TRY(sft__base_result_check(fit, SFT__UP_TO(sft_layout_fit, entries), err));
    f.set = set;
    f.catalog = catalog;
    f.used = sft__base_alloc_zero(set->allocator, set->count + 1);
    SFT_NEED(f.used != NULL, set->count + 1, err);
    f.fit.entries = set->count;
    f.fit.tensors = sft_catalog_count(catalog);
    for (size_t i = 0; i < f.fit.tensors; i++) {
        count_tensor(&f, sft_catalog_at(catalog, i));
    }
    for (size_t i = 0; i < set->count; i++) {
        f.fit.entries_unmatched += !f.used[i];
    }
    sft__base_free(set->allocator, f.used, set->count + 1);
    if (fit != NULL) {
        sft__base_result_write(fit, &f.fit, sizeof f.fit);
    }
    return set->count != 0 && f.fit.tensors != 0 && f.fit.entries_unmatched == set->count
               ? fits_nothing(&f, err)
               : SFT_OK;
}

void sft_layout_set_trim(sft_layout_set *set, const sft_catalog *catalog) {
    for (size_t i = 0; i < set->count; i++) {
        sft__checkpoint_lset_entry *const e = &set->entries[i];
        e->trimmed = e->match == SFT_LAYOUT_MATCH_NAME &&
                     sft_catalog_find(catalog, e->name, e->name_len) == NULL;
    }
}

/* ---------------------------------------------------------------- ranks, for people */

static const sft_layout *any_layout(const sft__checkpoint_lset_entry *e) {
    for (size_t i = 0; i < e->layout_count; i++) {
        if (e->layouts[i] != NULL) {
            return e->layouts[i];
        }
    }
    return NULL;
}

void sft__checkpoint_lset_runs_add(sft__checkpoint_lset_runs *r, uint64_t rank) {
    if (r->count != 0 && r->last + 1 == rank) {
        r->last = rank;
        return;
    }
    sft__checkpoint_lset_runs_end(r);
    r->first = rank;
    r->last = rank;
    r->count++;
}

void sft__checkpoint_lset_runs_end(sft__checkpoint_lset_runs *r) {
    enum { RUNS = 6 };
    if (r->count == 0 || r->count > RUNS + 1) {
        return;
    }
    sft__base_buf_text(&r->text, r->count == 1 ? "" : ", ");
    if (r->count == RUNS + 1) {
        sft__base_buf_text(&r->text, "...");
        return;
    }
    sft__base_buf_u64(&r->text, r->first);
    if (r->last != r->first) {
        sft__base_buf_text(&r->text, "-");
        sft__base_buf_u64(&r->text, r->last);
    }
}

bool sft__checkpoint_lset_each_rank(const sft_layout_set *set, size_t at,
                                    sft__checkpoint_lset_rank_visit visit, void *ctx) {
    enum { MOST = 4096 }; /* for a sentence */
    size_t seen = 0;
    do {
        const sft_layout *const layout = any_layout(&set->entries[at]);
        const uint64_t count = layout != NULL ? sft_layout_rank_count(layout) : 0;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t rank;
            if (seen++ == MOST || sft_layout_rank_at(layout, i, &rank, NULL) != SFT_OK) {
                return false;
            }
            visit(ctx, rank);
        }
        at = set->entries[at].next;
    } while (at != 0);
    return true;
}

bool sft__checkpoint_lset_gives(const sft_layout_set *set, size_t at, const sft_tensor *t,
                                uint64_t rank) {
    do {
        const sft__checkpoint_lset_entry *const e = &set->entries[at];
        const sft_layout *layout = sft__checkpoint_lset_layout(e, t);
        layout = layout != NULL ? layout : any_layout(e);
        if (e->kind == SFT__LSET_WHOLE || (layout != NULL && sft_layout_holds(layout, rank))) {
            return true;
        }
        at = e->next;
    } while (at != 0);
    return false;
}
