/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set_rename.c - a set for the same ranks' tensors under other names, and without
 * those that are left out: what is written beside files of which some were renamed. Read
 * checkpoint/layouts/layout_set.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/layout_set.h"

/* An entry that speaks of a tensor and does not name it. Name and length come first: base/text/strmap.h reads
 * them there. */
typedef struct spoken {
    const char *name; /* as it was */
    size_t len;
    const char *now; /* in the set's arena */
    size_t now_len;
    size_t entry; /* WHOLE: none */
    size_t next;  /* of the same name, from another entry; 0: none */
} spoken;

#define WHOLE SIZE_MAX

typedef struct renaming {
    sft_layout_set *set;
    spoken *list; /* from 1 on */
    size_t count;
    size_t room;
    sft__base_strmap map;
    sft_layout_new_name name;
    void *ctx;
    sft_error *err;
} renaming;

static sft_status make_room(renaming *r) {
    const size_t wanted = r->count < 512 ? 1024 : 2 * r->count;
    SFT_NEED(sft__base_grow(r->set->allocator, &r->list, &r->room, wanted, sizeof *r->list),
             wanted * sizeof *r->list, r->err);
    if (r->map.slots != NULL) {
        sft__base_strmap_reset(&r->map);
    }
    SFT_NEED(sft__base_strmap_init(&r->map, r->list, sizeof *r->list, r->room, r->set->allocator),
             wanted * sizeof(uint64_t), r->err);
    for (size_t i = 1; i < r->count; i++) {
        (void)sft__base_strmap_add(&r->map, i);
    }
    return SFT_OK;
}

static sft_status speak(renaming *r, size_t entry, const sft_tensor *t, const char *now,
                        size_t now_len) {
    size_t at = sft__base_strmap_find(&r->map, t->name, t->name_len);
    size_t last = 0;
    for (; at != SFT__STRMAP_NONE && at != 0; at = r->list[at].next) {
        if (r->list[at].entry == entry) {
            return SFT_OK;
        }
        last = at;
    }
    if (r->count + 1 >= r->room) {
        SFT_TRY(make_room(r));
    }
    spoken *const s = &r->list[r->count];
    memset(s, 0, sizeof *s);
    SFT_TRY(sft__checkpoint_lset_copy(r->set, &s->now, now, now_len, r->err));
    s->name = t->name;
    s->len = t->name_len;
    s->now_len = now_len;
    s->entry = entry;
    if (last != 0) {
        r->list[last].next = r->count;
    } else {
        (void)sft__base_strmap_add(&r->map, r->count);
    }
    r->count++;
    return SFT_OK;
}

/* A tensor that no entry names. One that none speaks of is whole, and stays so under its new name. */
static sft_status take(renaming *r, const sft_tensor *t, uint64_t rank) {
    const sft_layout_set *const set = r->set;
    size_t len = 0;
    if (sft__base_strmap_find(&set->map, t->name, t->name_len) != SFT__STRMAP_NONE) {
        return SFT_OK;
    }
    const sft__checkpoint_lset_entry *const e = sft__checkpoint_lset_entry_of(set, t, rank);
    const char *const now = r->name(r->ctx, t->name, t->name_len, &len);
    const bool same = now != NULL && len == t->name_len && memcmp(now, t->name, len) == 0;
    if (now == NULL || (e == NULL && same)) {
        return SFT_OK;
    }
    return speak(r, e == NULL ? WHOLE : (size_t)(e - set->entries), t, now, len);
}

static sft_status rename_entry(renaming *r, sft__checkpoint_lset_entry *e) {
    size_t len = 0;
    const char *const now = r->name(r->ctx, e->name, e->name_len, &len);
    e->trimmed = now == NULL;
    e->name_len = now != NULL ? len : e->name_len;
    return now == NULL ? SFT_OK : sft__checkpoint_lset_copy(r->set, &e->name, now, len, r->err);
}

static sft_status add_twin(renaming *r, const spoken *s) {
    sft__checkpoint_lset_entry *twin;
    SFT_TRY(sft__checkpoint_lset_add(r->set, &twin, r->err));
    if (s->entry == WHOLE) {
        twin->kind = SFT__LSET_WHOLE;
    } else {
        *twin = r->set->entries[s->entry];
        twin->layouts = NULL; /* the entry's own, which frees them */
        twin->layout_count = 0;
    }
    twin->match = SFT_LAYOUT_MATCH_NAME;
    twin->name = s->now;
    twin->name_len = s->now_len;
    return SFT_OK;
}

/* Patterns that spoke of something are not written; those of ranks that are not there stay. */
static sft_status apply(renaming *r) {
    const size_t before = r->set->count;
    for (size_t i = 0; i < before; i++) {
        if (r->set->entries[i].match == SFT_LAYOUT_MATCH_NAME) {
            SFT_TRY(rename_entry(r, &r->set->entries[i]));
        }
    }
    for (size_t i = 1; i < r->count; i++) {
        SFT_TRY(add_twin(r, &r->list[i]));
    }
    for (size_t i = 1; i < r->count; i++) {
        if (r->list[i].entry != WHOLE) {
            r->set->entries[r->list[i].entry].trimmed = true;
        }
    }
    return SFT_OK;
}

static sft_status run(renaming *r, const sft_rank_part *parts, size_t count) {
    r->count = 1;
    SFT_TRY(make_room(r));
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sft_catalog_count(parts[i].catalog); k++) {
            SFT_TRY(take(r, sft_catalog_at(parts[i].catalog, k), parts[i].rank));
        }
    }
    return apply(r);
}

sft_status sft_layout_set_rename(sft_layout_set *set, const sft_rank_part *parts, size_t count,
                                 sft_layout_new_name name, void *ctx, sft_error *err) {
    renaming r;
    SFT_TRY(sft__checkpoint_lset_bound(set, err));
    memset(&r, 0, sizeof r);
    r.set = set;
    r.name = name;
    r.ctx = ctx;
    r.err = err;
    const sft_status status = run(&r, parts, count);
    if (r.map.slots != NULL) {
        sft__base_strmap_reset(&r.map);
    }
    sft__base_free(set->allocator, r.list, r.room * sizeof *r.list);
    return status;
}
