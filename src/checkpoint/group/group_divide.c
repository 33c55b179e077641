/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group_divide.c - all parts of all processes in one table, and one writer for each.
 * Every process makes the same table from the same records, so that nobody has to tell anybody.
 * Read group_parts.h first.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "checkpoint/group/group_parts.h"
#include <stdio.h>
#include <stdlib.h>

static const size_t GATHER = (size_t)64 << 20; /* bytes of all processes at once */

/* What is sent of a part. */
typedef struct record {
    uint8_t name_key[16];
    uint8_t key[16];
    uint64_t check;
    uint64_t bytes;
    uint64_t elements;
    uint64_t global; /* elements of the global tensor */
} record;

typedef struct entry {
    uint8_t key[16]; /* first: a table can index these */
    uint64_t bytes;
    uint64_t elements;
    uint32_t name;
    uint32_t holders;
    uint32_t owner; /* who writes it */
    size_t first;   /* of its holders, in the list */
} entry;

typedef struct name {
    uint8_t key[16];
    uint64_t check;
    uint64_t global; /* elements of the global tensor */
    uint64_t seen;   /* elements of different parts */
} name;

typedef struct holding {
    uint32_t entry;
    uint32_t rank;
} holding;

/* From keys, which are hashes already, to positions. Elements begin with their key. */
typedef struct table {
    uint8_t *items;
    size_t size; /* of one item */
    size_t count;
    size_t room;
    uint32_t *slots; /* position + 1 */
    size_t slot_count;
} table;

typedef struct division {
    sft__checkpoint_gset *set;
    const sft_allocator *allocator;
    table entries;
    table names;
    holding *holdings; /* by rank */
    size_t holding_count;
    size_t holding_room;
    sft_status status; /* what is wrong with the parts: the same on all processes */
    uint8_t wrong[16]; /* the name's key */
    const char *why;
    char text[100]; /* room for it */
} division;

/* ---------------------------------------------------------------- tables */

static size_t slot_of(const table *t, const uint8_t *key) {
    uint64_t h;
    memcpy(&h, key, sizeof h);
    size_t at = (size_t)h & (t->slot_count - 1);
    while (t->slots[at] != 0 && memcmp(t->items + (t->slots[at] - 1) * t->size, key, 16) != 0) {
        at = (at + 1) & (t->slot_count - 1);
    }
    return at;
}

static bool grow_slots(table *t, const sft_allocator *a) {
    const size_t count = t->slot_count == 0 ? 1024 : t->slot_count * 2;
    uint32_t *const slots = sft__base_alloc_zero(a, count * sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    sft__base_free(a, t->slots, t->slot_count * sizeof *t->slots);
    t->slots = slots;
    t->slot_count = count;
    for (size_t i = 0; i < t->count; i++) {
        t->slots[slot_of(t, t->items + i * t->size)] = (uint32_t)i + 1;
    }
    return true;
}

/* The item with this key, made if there is none (*made). NULL: no memory. */
static void *find_or_make(table *t, const uint8_t *key, bool *made, const sft_allocator *a) {
    *made = false;
    if (2 * t->count >= t->slot_count && !grow_slots(t, a)) {
        return NULL;
    }
    const size_t at = slot_of(t, key);
    if (t->slots[at] != 0) {
        return t->items + (t->slots[at] - 1) * t->size;
    }
    if (t->count >= UINT32_MAX - 1 ||
        !sft__base_grow(a, &t->items, &t->room, t->count + 1, t->size)) {
        return NULL;
    }
    uint8_t *const item = t->items + t->count * t->size;
    memset(item, 0, t->size);
    memcpy(item, key, 16);
    t->slots[at] = (uint32_t)++t->count;
    *made = true;
    return item;
}

static void table_reset(table *t, const sft_allocator *a) {
    sft__base_free(a, t->items, t->room * t->size);
    sft__base_free(a, t->slots, t->slot_count * sizeof *t->slots);
}

/* ---------------------------------------------------------------- all records */

/* The first fault counts: records come in the same order everywhere. */
static void blame(division *d, sft_status status, const uint8_t *key, const char *why) {
    if (d->status == SFT_OK) {
        d->status = status;
        d->why = why;
        memcpy(d->wrong, key, 16);
    }
}

static sft_status take_record(division *d, const record *r, uint32_t rank, sft_error *err) {
    bool made;
    bool new_name;
    name *const n = find_or_make(&d->names, r->name_key, &new_name, d->allocator);
    SFT_NEED(n != NULL, d->names.count * sizeof *n, err);
    if (new_name) {
        n->check = r->check;
        n->global = r->global;
    } else if (n->check != r->check) {
        if (d->status == SFT_OK) {
            (void)snprintf(
                d->text, sizeof d->text,
                "rank %lu: processes disagree about its dtype or shape, which are others "
                "there",
                (unsigned long)rank);
        }
        blame(d, SFT_E_MISMATCH, r->name_key, d->text);
        return SFT_OK;
    }
    const size_t name_at = (size_t)((uint8_t *)n - d->names.items) / d->names.size;
    entry *const e = find_or_make(&d->entries, r->key, &made, d->allocator);
    SFT_NEED(e != NULL && sft__base_grow(d->allocator, &d->holdings, &d->holding_room,
                                         d->holding_count + 1, sizeof *d->holdings),
             d->entries.count * sizeof *e, err);
    if (made) {
        e->bytes = r->bytes;
        e->elements = r->elements;
        e->name = (uint32_t)name_at;
        n->seen += r->elements < UINT64_MAX - n->seen ? r->elements : UINT64_MAX - n->seen;
    }
    e->holders++;
    d->holdings[d->holding_count++] =
        (holding){(uint32_t)((size_t)((uint8_t *)e - d->entries.items) / d->entries.size), rank};
    return SFT_OK;
}

static void fill(const sft__checkpoint_gset *s, record *out, size_t first, size_t count) {
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i < count && first + i < s->count; i++) {
        const sft__checkpoint_gpart *const p = &s->parts[first + i];
        memcpy(out[i].name_key, p->name_key, 16);
        memcpy(out[i].key, p->key, 16);
        out[i].check = p->check;
        out[i].bytes = p->tensor->nbytes;
        out[i].elements = p->elements;
        out[i].global = p->global;
    }
}

/* Everybody's records, `each` of every process at a time. */
typedef struct rounds {
    const uint64_t *counts; /* of each process */
    uint64_t most;          /* of them */
    record *mine;           /* each */
    record *all;            /* each of every process */
    size_t each;
} rounds;

static sft_status take_rounds(division *d, const rounds *r, sft_error *err) {
    const size_t size = d->set->group != NULL ? d->set->group->size : 1;
    for (uint64_t first = 0; first < r->most; first += r->each) {
        fill(d->set, r->mine, (size_t)first, r->each);
        SFT_TRY(sft__checkpoint_group_gather(d->set->group, r->mine, r->each * sizeof *r->mine,
                                             r->all, err));
        for (size_t k = 0; k < size; k++) {
            for (size_t i = 0; i < r->each && first + i < r->counts[k]; i++) {
                SFT_TRY(take_record(d, &r->all[k * r->each + i], (uint32_t)k, err));
            }
        }
    }
    return SFT_OK;
}

static sft_status take_all(division *d, sft_error *err) {
    const sft__checkpoint_gset *const s = d->set;
    const size_t size = s->group != NULL ? s->group->size : 1;
    const uint64_t mine_count = s->count;
    uint64_t most = 0;
    uint64_t *const counts = sft__base_alloc_array(d->allocator, size, sizeof *counts);
    SFT_NEED(counts != NULL, size * sizeof *counts, err);
    sft_status status =
        sft__checkpoint_group_gather(s->group, &mine_count, sizeof mine_count, counts, err);
    for (size_t i = 0; i < size && status == SFT_OK; i++) {
        most = counts[i] > most ? counts[i] : most;
    }
    size_t each = GATHER / sizeof(record) / size;
    each = each > SFT_GROUP_BLOCK / sizeof(record) ? SFT_GROUP_BLOCK / sizeof(record) : each;
    each = each == 0 ? 1 : each > most ? (size_t)most : each;
    record *const mine = sft__base_alloc_array(d->allocator, each, sizeof *mine);
    record *const all = sft__base_alloc_array(d->allocator, each * size, sizeof *all);
    if (status == SFT_OK && most > 0) {
        status = mine == NULL || all == NULL
                     ? sft__base_fail_nomem(err, each * size * sizeof *all)
                     : take_rounds(d, &(rounds){counts, most, mine, all, each}, err);
    }
    sft__base_free(d->allocator, counts, size * sizeof *counts);
    sft__base_free(d->allocator, mine, each * sizeof *mine);
    sft__base_free(d->allocator, all, each * size * sizeof *all);
    return status;
}

/* ---------------------------------------------------------------- one writer each */

static int by_freedom(const void *a, const void *b) {
    const entry *const x = *(const entry *const *)a;
    const entry *const y = *(const entry *const *)b;
    if (x->holders != y->holders) {
        return x->holders < y->holders ? -1 : 1;
    }
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return memcmp(x->key, y->key, 16);
}

/* holders[e->first ...]: the ranks that hold e, ascending. */
static void list_holders(division *d, uint32_t *holders) {
    entry *const entries = (entry *)(void *)d->entries.items;
    size_t at = 0;
    for (size_t i = 0; i < d->entries.count; i++) {
        entries[i].first = at;
        at += entries[i].holders;
        entries[i].holders = 0;
    }
    for (size_t i = 0; i < d->holding_count; i++) { /* by round, ranks ascending in each */
        entry *const e = &entries[d->holdings[i].entry];
        holders[e->first + e->holders++] = d->holdings[i].rank;
    }
}

static void choose(entry *e, const uint32_t *holders, uint64_t *loads) {
    uint32_t best = holders[e->first];
    for (size_t i = 1; i < e->holders; i++) {
        const uint32_t r = holders[e->first + i];
        const bool lighter = e->bytes > 0 && loads[r] < loads[best];
        best = lighter || (loads[r] == loads[best] && r < best) || (e->bytes == 0 && r < best)
                   ? r
                   : best;
    }
    e->owner = best;
    loads[best] += e->bytes;
}

static sft_status choose_all(division *d, sft_error *err) {
    const sft_allocator *const a = d->allocator;
    const size_t size = d->set->group != NULL ? d->set->group->size : 1;
    const size_t count = d->entries.count;
    entry *const entries = (entry *)(void *)d->entries.items;
    entry **const order = sft__base_alloc_array(a, count + 1, sizeof(entry *));
    uint32_t *const holders = sft__base_alloc_array(a, d->holding_count + 1, sizeof *holders);
    uint64_t *const loads = sft__base_alloc_zero(a, size * sizeof *loads);
    sft_status status = SFT_OK;
    if (order == NULL || holders == NULL || loads == NULL) {
        status = sft__base_fail_nomem(err, (count + 1) * sizeof *order);
    } else {
        list_holders(d, holders);
        for (size_t i = 0; i < count; i++) {
            order[i] = &entries[i];
        }
        if (count > 1) {
            qsort(order, count, sizeof *order, by_freedom);
        }
        for (size_t i = 0; i < count; i++) {
            choose(order[i], holders, loads);
        }
    }
    sft__base_free(a, order, (count + 1) * sizeof *order);
    sft__base_free(a, holders, (d->holding_count + 1) * sizeof *holders);
    sft__base_free(a, loads, size * sizeof *loads);
    return status;
}

/* What one name's different parts add up to. */
static void check_volumes(division *d) {
    const name *const names = (const name *)(const void *)d->names.items;
    for (size_t i = 0; i < d->names.count; i++) {
        if (names[i].seen != names[i].global) {
            const bool less = names[i].seen < names[i].global;
            blame(d, less ? SFT_E_HOLE : SFT_E_OVERLAP, names[i].key,
                  less ? "no process holds some part of it"
                       : "parts of it overlap without being equal");
        }
    }
}

/* ---------------------------------------------------------------- what is ours */

static int by_name(const void *a, const void *b) {
    const sft__checkpoint_gpart *const x = *(const sft__checkpoint_gpart *const *)a;
    const sft__checkpoint_gpart *const y = *(const sft__checkpoint_gpart *const *)b;
    const int order = memcmp(x->name_key, y->name_key, 16);
    return order != 0 ? order : x < y ? -1 : x > y;
}

sft_status sft__checkpoint_gset_number(sft__checkpoint_gset *s, sft_error *err) {
    sft__checkpoint_gpart **const list =
        sft__base_alloc_array(s->allocator, s->count + 1, sizeof(sft__checkpoint_gpart *));
    size_t n = 0;
    SFT_NEED(list != NULL, s->count * sizeof *list, err);
    for (size_t i = 0; i < s->count; i++) {
        if (s->parts[i].mine) {
            list[n++] = &s->parts[i];
        }
    }
    if (n > 1) {
        qsort(list, n, sizeof *list, by_name);
    }
    for (size_t i = 0; i < n; i++) {
        const bool again = i > 0 && memcmp(list[i]->name_key, list[i - 1]->name_key, 16) == 0;
        list[i]->file = again ? list[i - 1]->file + 1 : 0;
        s->files = list[i]->file + 1 > s->files ? list[i]->file + 1 : s->files;
    }
    sft__base_free(s->allocator, list, (s->count + 1) * sizeof *list);
    return SFT_OK;
}

static sft_status take_mine(division *d, sft_error *err) {
    sft__checkpoint_gset *const s = d->set;
    const uint32_t rank = s->group != NULL ? s->group->rank : 0;
    const entry *const entries = (const entry *)(const void *)d->entries.items;
    for (size_t i = 0; i < s->count; i++) {
        sft__checkpoint_gpart *const p = &s->parts[i];
        const entry *const e = &entries[d->entries.slots[slot_of(&d->entries, p->key)] - 1];
        p->mine = e->owner == rank && (!s->boxes || p->elements > 0 || p->global == 0);
        s->bytes += p->mine ? p->tensor->nbytes : 0;
    }
    return sft__checkpoint_gset_number(s, err);
}

/* Whoever has a tensor of that name tells it. */
static sft_status tell(const division *d, bool *weak, sft_error *err) {
    for (size_t i = 0; i < d->set->count; i++) {
        const sft__checkpoint_gpart *const p = &d->set->parts[i];
        if (memcmp(p->name_key, d->wrong, 16) == 0) {
            return sft__base_fail_tensor(err, d->status, SFT_NO_OFFSET, p->tensor->name,
                                         p->tensor->name_len, "%s", d->why);
        }
    }
    *weak = true;
    return sft__base_fail(err, d->status, "%s", d->why);
}

sft_status sft__checkpoint_gset_divide(sft__checkpoint_gset *s, sft_error *err) {
    bool weak = false;
    division d;
    memset(&d, 0, sizeof d);
    d.set = s;
    d.allocator = s->allocator;
    d.entries.size = sizeof(entry);
    d.names.size = sizeof(name);
    sft_status status = take_all(&d, err);
    if (status == SFT_OK) {
        check_volumes(&d);
        status = d.status != SFT_OK ? tell(&d, &weak, err) : choose_all(&d, err);
    }
    if (status == SFT_OK && s->count > 0) {
        status = take_mine(&d, err);
    }
    table_reset(&d.entries, d.allocator);
    table_reset(&d.names, d.allocator);
    sft__base_free(d.allocator, d.holdings, d.holding_room * sizeof *d.holdings);
    return sft__checkpoint_group_agree(s->group, status, weak, err);
}
