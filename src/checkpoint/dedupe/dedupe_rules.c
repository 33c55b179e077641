/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/dedupe/dedupe_rules.c - which of the ranks that hold a part keeps it: MindSpore's round
 * robin, and by bytes. Pure; read checkpoint/dedupe/dedupe.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "checkpoint/dedupe/dedupe.h"
#include <stdlib.h>

/* ---------------------------------------------------------------- round robin */

/* Ranks that hold one part, and how many parameters they have had. The bytes of the list come
 * first, as base/text/strmap.h wants a name. */
typedef struct ring {
    const char *ranks;
    size_t len;
    uint64_t turn;
} ring;

typedef struct robin {
    sft_dedupe *d;
    sft_error *err;
    ring *rings;
    size_t ring_count;
    size_t ring_room;
    sft__base_strmap map;
    uint64_t *ranks; /* of the layout at hand, part after part, in device order */
    size_t rank_room;
    uint64_t *place; /* where each part's ranks end, at last */
    size_t place_room;
} robin;

static sft_status make_room(robin *r) {
    const size_t wanted = r->ring_count < 128 ? 256 : 2 * r->ring_count;
    SFT_TRY(sft__checkpoint_more(r->d->allocator, &r->rings, &r->ring_room, wanted,
                                 sizeof *r->rings, r->err));
    if (r->map.slots != NULL) {
        sft__base_strmap_reset(&r->map);
    }
    SFT_NEED(
        sft__base_strmap_init(&r->map, r->rings, sizeof *r->rings, r->ring_room, r->d->allocator),
        wanted * sizeof(uint64_t), r->err);
    for (size_t i = 0; i < r->ring_count; i++) {
        (void)sft__base_strmap_add(&r->map, i);
    }
    return SFT_OK;
}

/* The turn of these ranks, which passes to the next one. */
static sft_status take_turn(robin *r, const uint64_t *ranks, size_t count, uint64_t *turn) {
    const size_t len = count * sizeof *ranks;
    size_t at = SFT__STRMAP_NONE;
    if (r->map.slots != NULL) {
        at = sft__base_strmap_find(&r->map, (const char *)ranks, len);
    }
    if (at == SFT__STRMAP_NONE) {
        if (r->ring_count == r->ring_room) {
            SFT_TRY(make_room(r));
        }
        ring *const made = &r->rings[r->ring_count];
        made->ranks = sft__base_arena_copy(&r->d->arena, ranks, len);
        made->len = len;
        made->turn = 0;
        SFT_NEED(made->ranks != NULL, len, r->err);
        at = r->ring_count++;
        (void)sft__base_strmap_add(&r->map, at);
    }
    *turn = r->rings[at].turn++ % count;
    return SFT_OK;
}

/* Ranks of a layout by part, a counting sort. */
static sft_status list_ranks(robin *r, const sft_layout *layout, size_t *parts) {
    const uint64_t count = sft_layout_rank_count(layout);
    const uint64_t part_count = sft__layout_part_count(layout);
    const sft_allocator *const a = r->d->allocator;
    if (count > SFT__MOST_PARTS || part_count > SFT__MOST_PARTS) {
        return sft__base_fail(r->err, SFT_E_LIMIT,
                              "a layout of %llu ranks, at most %llu are handled",
                              (unsigned long long)count, (unsigned long long)SFT__MOST_PARTS);
    }
    *parts = (size_t)part_count;
    SFT_TRY(sft__checkpoint_more(a, &r->ranks, &r->rank_room, (size_t)count + 1, sizeof *r->ranks,
                                 r->err));
    SFT_TRY(
        sft__checkpoint_more(a, &r->place, &r->place_room, *parts + 2, sizeof *r->place, r->err));
    memset(r->place, 0, (*parts + 2) * sizeof *r->place);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t rank, part;
            SFT_TRY(sft_layout_rank_at(layout, i, &rank, r->err));
            SFT_TRY(sft__layout_part(layout, rank, &part, r->err));
            if (pass == 0) {
                r->place[part + 2]++;
            } else {
                r->ranks[r->place[part + 1]++] = rank;
            }
        }
        for (size_t i = 1; i <= *parts && pass == 0; i++) {
            r->place[i + 1] += r->place[i];
        }
    }
    return SFT_OK; /* part p: ranks place[p] to place[p + 1] - 1 */
}

/* The copy of a rank, or SIZE_MAX. */
static size_t copy_of(const sft_dedupe *d, const sft__checkpoint_shard *s, uint64_t rank) {
    size_t low = 0;
    size_t high = s->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const uint64_t there = d->checkpoint->parts[d->copies[s->first + middle].part].rank;
        if (there == rank) {
            return middle;
        }
        low = there < rank ? middle + 1 : low;
        high = there < rank ? high : middle;
    }
    return SIZE_MAX;
}

/* All parts of one parameter; count shards of it are there, by part number. */
static sft_status deal(robin *r, const sft_layout *layout, sft__checkpoint_shard *shards,
                       size_t count) {
    size_t parts = 0;
    size_t next = 0;
    SFT_TRY(list_ranks(r, layout, &parts));
    for (size_t p = 0; p < parts; p++) {
        const uint64_t *const ranks = r->ranks + r->place[p];
        const size_t n = (size_t)(r->place[p + 1] - r->place[p]);
        uint64_t turn = 0;
        if (n != 0) {
            SFT_TRY(take_turn(r, ranks, n, &turn));
        }
        if (next < count && shards[next].number == p) {
            sft__checkpoint_shard *const s = &shards[next++];
            s->keeper = SIZE_MAX;
            for (size_t i = 0; i < n && s->keeper == SIZE_MAX; i++) {
                s->keeper = copy_of(r->d, s, ranks[(turn + i) % n]);
            }
        }
    }
    return SFT_OK;
}

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len) {
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_entry_name(const void *a, const void *b) {
    const sft_layout_entry *const x = a;
    const sft_layout_entry *const y = b;
    return compare_names(x->name, x->name_len, y->name, y->name_len);
}

/* Layouts with exact names: parameters that no file has take turns too. */
static sft_status list_entries(const sft_dedupe *d, sft_layout_entry **out, size_t *count,
                               size_t *room, sft_error *err) {
    const sft_layout_set *const set = d->checkpoint->layouts;
    const size_t all = sft_layout_set_count(set);
    sft_layout_entry *const list = sft__base_alloc_array(d->allocator, all + 1, sizeof *list);
    *out = list;
    *room = list != NULL ? all + 1 : 0;
    *count = 0;
    SFT_NEED(list != NULL, (all + 1) * sizeof *list, err);
    for (size_t i = 0; i < all; i++) {
        sft_layout_entry *const e = &list[*count];
        SFT_INIT(e);
        SFT_TRY(sft_layout_set_at(set, i, e, err));
        *count += e->match == SFT_LAYOUT_MATCH_NAME && e->layout != NULL;
    }
    qsort(list, *count, sizeof *list, by_entry_name);
    return SFT_OK;
}

/* Is the entry's layout that of one of these shards, which all have its name? */
static sft_status has_layout(const sft_layout_entry *e, const sft__checkpoint_shard *shards,
                             size_t count, bool *found, sft_error *err) {
    uint64_t rank;
    SFT_TRY(sft_layout_rank_at(e->layout, 0, &rank, err));
    *found = false;
    for (size_t i = 0; i < count && !*found; i++) {
        *found = shards[i].layout != NULL && sft_layout_holds(shards[i].layout, rank);
    }
    return SFT_OK;
}

/* All shards of one name: those of each layout together. */
static sft_status deal_name(robin *r, sft__checkpoint_shard *shards, size_t count) {
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && shards[end].layout == shards[i].layout) {
            end++;
        }
        if (shards[i].layout != NULL) {
            SFT_TRY(deal(r, shards[i].layout, shards + i, end - i));
        } else {
            shards[i].keeper = SFT__KEEP_ALL;
        }
        i = end;
    }
    return SFT_OK;
}

static sft_status deal_all(robin *r, const sft_layout_entry *entries, size_t entry_count) {
    const sft_dedupe *const d = r->d;
    size_t at = 0;
    size_t e = 0;
    while (at < d->shard_count || e < entry_count) {
        sft__checkpoint_shard *const s = &d->shards[at];
        size_t count = 0;
        const int order = at == d->shard_count ? 1
                          : e == entry_count   ? -1
                                               : compare_names(s->name, s->len, entries[e].name,
                                                               entries[e].name_len);
        while (order <= 0 && at + count < d->shard_count && s[count].name == s->name) {
            count++; /* names are pointers into one list */
        }
        SFT_TRY(deal_name(r, s, count));
        const sft_layout_entry *const first = &entries[e];
        while (order >= 0 && e < entry_count &&
               compare_names(first->name, first->name_len, entries[e].name, entries[e].name_len) ==
                   0) {
            bool found;
            SFT_TRY(has_layout(&entries[e], s, count, &found, r->err));
            if (!found) {
                SFT_TRY(deal(r, entries[e].layout, NULL, 0));
            }
            e++;
        }
        at += count;
    }
    return SFT_OK;
}

sft_status sft__checkpoint_dedupe_round_robin(sft_dedupe *d, sft_error *err) {
    sft_layout_entry *entries;
    size_t count, room;
    robin r;
    memset(&r, 0, sizeof r);
    r.d = d;
    r.err = err;
    sft_status status = list_entries(d, &entries, &count, &room, err);
    if (status == SFT_OK) {
        status = deal_all(&r, entries, count);
    }
    if (r.map.slots != NULL) {
        sft__base_strmap_reset(&r.map);
    }
    sft__base_free(d->allocator, entries, room * sizeof *entries);
    sft__base_free(d->allocator, r.rings, r.ring_room * sizeof *r.rings);
    sft__base_free(d->allocator, r.ranks, r.rank_room * sizeof *r.ranks);
    sft__base_free(d->allocator, r.place, r.place_room * sizeof *r.place);
    return status;
}

/* ---------------------------------------------------------------- by bytes */

static int by_freedom(const void *a, const void *b) {
    const sft__checkpoint_shard *const x = *(sft__checkpoint_shard *const *)a;
    const sft__checkpoint_shard *const y = *(sft__checkpoint_shard *const *)b;
    if (x->count != y->count) {
        return x->count < y->count ? -1 : 1;
    }
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return x < y ? -1 : x > y; /* their order: by name, then part */
}

sft_status sft__checkpoint_dedupe_balance(sft_dedupe *d, sft_error *err) {
    const size_t ranks = d->checkpoint->count;
    sft__checkpoint_shard **const list =
        sft__base_alloc_array(d->allocator, d->shard_count + 1, sizeof *list);
    uint64_t *const load = sft__base_alloc_zero(d->allocator, ranks * sizeof *load);
    if (list == NULL || load == NULL) {
        sft__base_free(d->allocator, list, (d->shard_count + 1) * sizeof *list);
        sft__base_free(d->allocator, load, ranks * sizeof *load);
        return sft__base_fail_nomem(err, d->shard_count * sizeof *list);
    }
    for (size_t i = 0; i < d->shard_count; i++) {
        list[i] = &d->shards[i];
    }
    qsort(list, d->shard_count, sizeof(void *), by_freedom);
    for (size_t i = 0; i < d->shard_count; i++) {
        sft__checkpoint_shard *const s = list[i];
        s->keeper = 0;
        for (size_t k = 1; k < s->count; k++) {
            if (load[d->copies[s->first + k].part] < load[d->copies[s->first + s->keeper].part]) {
                s->keeper = k;
            }
        }
        load[d->copies[s->first + s->keeper].part] += s->bytes;
    }
    sft__base_free(d->allocator, list, (d->shard_count + 1) * sizeof *list);
    sft__base_free(d->allocator, load, ranks * sizeof *load);
    return SFT_OK;
}
