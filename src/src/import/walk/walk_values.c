/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_values.c - the walker's stack, marks, memo and strings. All are bounded: a
 * string or a place in the memo beyond the bound is forgotten (of strings the last ones are not),
 * which the walk goes on from and which is said only where a name would be made of it. Read first: walk.h.
 */
#include "import/walk/walk.h"

enum {
    STACK_MOST = 8 << 20,  /* values, 32 MiB */
    DENSE_MOST = 4 << 20,  /* places of the memo, 32 MiB */
    SPARSE_MOST = 1 << 19, /* 16 MiB at half */
    SPARSE_COST = 8,       /* in opcodes */
    TEXTS_MOST = 3 << 20,  /* strings, 24 MiB */
    POOL_MOST = 32 << 20
};

/* ---------------------------------------------------------------- stack and marks */

static bool values_push(walk *w, walk_values *s, uint32_t v) {
    if (s->count == s->room &&
        (s->count >= STACK_MOST ||
         !sft__base_grow(w->job->allocator, &s->at, &s->room, s->count + 1, sizeof *s->at))) {
        w->limited = true;
        return false;
    }
    s->at[s->count++] = v;
    return true;
}

bool sft__import_walk_push_more(walk *w, walk_value v) {
    return values_push(w, &w->stack, v);
}

bool sft__import_walk_top(walk *w, walk_value **v) {
    if (w->stack.count <= sft__import_walk_floor(w)) {
        return false;
    }
    *v = &w->stack.at[w->stack.count - 1];
    return true;
}

bool sft__import_walk_mark(walk *w, size_t *first) {
    if (w->marks.count == 0 || (w->inner && w->marks.at[w->marks.count - 1] < w->inner_base)) {
        return false;
    }
    *first = w->marks.at[--w->marks.count];
    return true;
}

/* ---------------------------------------------------------------- tables */

static uint64_t mix(uint64_t key) {
    key ^= key >> 31;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return key ^ key >> 29;
}

static size_t table_at(const walk_table *t, uint64_t key) {
    size_t i = (size_t)mix(key) & (t->used - 1);

    while (t->slots[i].value != 0 && t->slots[i].key != key) {
        i = (i + 1) & (t->used - 1);
    }
    return i;
}

const walk_slot *sft__import_walk_table_find(const walk_table *t, uint64_t key) {
    if (t->count == 0) {
        return NULL;
    }
    const walk_slot *slot = &t->slots[table_at(t, key)];
    return slot->value != 0 ? slot : NULL;
}

/* Twice the slots. */
static bool table_grow(walk_table *t, const sft_allocator *a) {
    const size_t used = t->used != 0 ? t->used * 2 : 16;
    walk_table wider = {NULL, used, used, t->count};

    wider.slots = sft__base_alloc_zero(a, used * sizeof *wider.slots);
    if (wider.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < t->used; i++) {
        if (t->slots[i].value != 0) {
            wider.slots[table_at(&wider, t->slots[i].key)] = t->slots[i];
        }
    }
    sft__base_free(a, t->slots, t->room * sizeof *t->slots);
    *t = wider;
    return true;
}

bool sft__import_walk_table_put(walk_table *t, const sft_allocator *a, uint64_t key, uint32_t value,
                                size_t most) {
    if (t->count * 2 >= t->used && (t->count >= most || !table_grow(t, a))) {
        return false;
    }
    walk_slot *slot = &t->slots[table_at(t, key)];
    t->count += slot->value == 0;
    *slot = (walk_slot){key, value, 0};
    return true;
}

/* What was used is emptied: as much work as filling it was. */
void sft__import_walk_table_clear(walk_table *t) {
    if (t->count != 0) {
        memset(t->slots, 0, t->used * sizeof *t->slots);
        t->count = 0;
        t->used = t->room < 16 ? t->room : 16;
    }
}

/* ---------------------------------------------------------------- the memo */

void sft__import_walk_memo_clear(walk_memo *m) {
    m->epoch++; /* at most one per byte of a part: below 2^32 opcodes */
    m->count = 0;
    m->lost = false;
    sft__import_walk_table_clear(&m->sparse);
}

void sft__import_walk_memo_reset(walk_memo *m, const sft_allocator *a) {
    sft__base_free(a, m->dense, m->room * sizeof *m->dense);
    sft__base_free(a, m->sparse.slots, m->sparse.room * sizeof *m->sparse.slots);
    memset(m, 0, sizeof *m);
}

static uint64_t *dense_at(walk *w, uint64_t key) {
    walk_memo *m = &w->memo;
    const size_t before = m->room;

    if (key >= m->room) {
        if (key >= DENSE_MOST || key > 2 * m->count + 256 ||
            !sft__base_grow(w->job->allocator, &m->dense, &m->room, (size_t)key + 1,
                            sizeof *m->dense)) {
            return NULL;
        }
        memset(m->dense + before, 0, (m->room - before) * sizeof *m->dense);
    }
    return &m->dense[key];
}

void sft__import_walk_memo_put(walk *w, uint64_t key, walk_value v) {
    walk_memo *m = &w->memo;
    const uint64_t mine = (uint64_t)(m->epoch + 1) << 32;
    const uint64_t old_key = key;
    uint64_t *d = dense_at(w, key);

    if (d != NULL) {
        const bool was = (*d & ~UINT64_C(0xffffffff)) == mine;
        /* it may lie among the sparse from before the array reached it */
        m->count += !was && sft__import_walk_table_find(&m->sparse, old_key) == NULL;
        *d = mine | (v + 1);
        return;
    }
    walk_pay(w, SPARSE_COST);
    const bool was = sft__import_walk_table_find(&m->sparse, key) != NULL;
    if (sft__import_walk_table_put(&m->sparse, w->job->allocator, key, v + 1, SPARSE_MOST)) {
        m->count += !was;
    } else {
        m->lost = true;
    }
}

bool sft__import_walk_memo_get(walk *w, uint64_t key, walk_value *v) {
    const walk_memo *m = &w->memo;
    const uint64_t mine = (uint64_t)(m->epoch + 1) << 32;

    if (key < m->room && (m->dense[key] & ~UINT64_C(0xffffffff)) == mine) {
        *v = (walk_value)(m->dense[key] & 0xffffffff) - 1;
        return true;
    }
    const walk_slot *slot = sft__import_walk_table_find(&m->sparse, key);
    if (slot != NULL) {
        *v = slot->value - 1;
        return true;
    }
    *v = walk_make(V_ANY, 0);
    return m->lost;
}

/* ---------------------------------------------------------------- strings */

/* The last texts of a walk that has more than there is room for, each with as much room as any needs:
 * a dictionary is filled soon after its items are read. */
static walk_value recent_string(walk *w, const void *bytes, size_t len, bool more,
                                const walk_far *far) {
    walk_recent *r = &w->recent;
    const sft_allocator *a = w->job->allocator;

    if (r->texts == NULL) {
        r->texts = sft__base_alloc_array(a, WALK_RECENT, sizeof *r->texts);
    }
    if (r->texts == NULL || w->pool == NULL || TEXTS_MOST + r->count >= WALK_NUMBERS) {
        return walk_make(V_STR, 0);
    }
    if (r->count == 0) {
        const size_t all = (size_t)WALK_RECENT * (WALK_TEXT + sizeof *far);
        if (!sft__base_grow(a, &w->pool, &w->pool_room, w->pool_len + all, 1)) {
            return walk_make(V_STR, 0);
        }
        r->at = (uint32_t)w->pool_len; /* at most POOL_MOST */
    }
    const uint32_t slot = r->count % WALK_RECENT;
    const uint32_t at = r->at + slot * (uint32_t)(WALK_TEXT + sizeof *far);
    if (len != 0) {
        memcpy(w->pool + at, bytes, len);
    }
    memcpy(w->pool + at + len, far, sizeof *far);
    r->texts[slot] = (walk_text){at, (uint16_t)len, (uint16_t)more};
    return walk_make(V_STR, TEXTS_MOST + r->count++);
}

const walk_text *sft__import_walk_text(const walk *w, uint32_t number) {
    if (number < TEXTS_MOST) {
        return number != 0 && number < w->text_count ? &w->texts[number] : NULL;
    }
    const walk_recent *r = &w->recent;
    const uint32_t i = number - TEXTS_MOST;
    return i < r->count && r->count - i <= WALK_RECENT ? &r->texts[i % WALK_RECENT] : NULL;
}

void sft__import_walk_texts_clear(walk *w) {
    w->text_count = 0;
    w->pool_len = 0;
    w->recent.count = 0;
}

walk_value sft__import_walk_string(walk *w, const void *bytes, size_t len, bool cut,
                                   const walk_far *far) {
    const bool more = cut || len > WALK_TEXT;
    const size_t n = len < WALK_TEXT ? len : WALK_TEXT;

    if (w->text_count == 0) {
        w->text_count = 1; /* number 0: forgotten */
    }
    if (w->recent.count != 0 || w->text_count >= TEXTS_MOST ||
        w->pool_len + n + sizeof *far > POOL_MOST) {
        return recent_string(w, bytes, n, more, far);
    }
    if (!sft__base_grow(w->job->allocator, &w->texts, &w->text_room, w->text_count + 1,
                        sizeof *w->texts) ||
        !sft__base_grow(w->job->allocator, &w->pool, &w->pool_room, w->pool_len + n + sizeof *far,
                        1)) {
        return walk_make(V_STR, 0);
    }
    if (n != 0) {
        memcpy(w->pool + w->pool_len, bytes, n);
    }
    w->texts[w->text_count] = (walk_text){(uint32_t)w->pool_len, (uint16_t)n, (uint16_t)more};
    w->pool_len += n;
    if (more) {
        memcpy(w->pool + w->pool_len, far, sizeof *far);
        w->pool_len += sizeof *far;
    }
    return walk_make(V_STR, (uint32_t)w->text_count++);
}
