/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy.c - the object behind a MindSpore strategy file: its lists and its names. It is filled by
 * strategy_read.c, and by strategy_merge.c from the files of pipeline stages. Read layout/strategy.h first.
 */
#include "layout/strategy.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory/need.h"

#define MAX_STAGES 65536u

/* ---------------------------------------------------------------- numbers */

bool sft__layout_numbers_add(sft__layout_numbers *n, uint64_t value) {
    if (n->count == n->capacity &&
        !sft__base_grow(n->allocator, &n->list, &n->capacity, n->count + 1, sizeof *n->list)) {
        return false;
    }
    n->list[n->count++] = value;
    return true;
}

void sft__layout_numbers_reset(sft__layout_numbers *n) {
    sft__base_free(n->allocator, n->list, n->capacity * sizeof *n->list);
    n->list = NULL;
    n->count = 0;
    n->capacity = 0;
}

uint64_t *sft__layout_numbers_keep(const sft__layout_numbers *n, sft__base_arena *arena) {
    uint64_t *const to =
        sft__base_arena_alloc(arena, (n->count + 1) * sizeof *to, sizeof *to); /* never of size 0 */
    if (to != NULL && n->count != 0) {
        memcpy(to, n->list, n->count * sizeof *to);
    }
    return to;
}

/* ---------------------------------------------------------------- the object */

sft_status sft__layout_ms_create(sft_ms_strategy **out, const sft__layout_ms_options *options,
                                 sft_error *err) {
    const sft_allocator *const a = sft__base_allocator(options->allocator);
    sft_ms_strategy *const s = sft__base_alloc_zero(a, sizeof *s);
    *out = NULL;
    SFT_NEED(s != NULL, sizeof *s, err);
    const sft_status status = sft__base_limits_read(&s->limits, options->limits, err);
    if (status != SFT_OK) {
        sft__base_free(a, s, sizeof *s);
        return status;
    }
    sft__base_arena_init(&s->arena, a, s->limits.memory_bytes);
    s->name = options->name;
    s->stages = 1;
    *out = s;
    return SFT_OK;
}

void sft__layout_ms_free(sft_ms_strategy *strategy) {
    if (strategy == NULL) {
        return;
    }
    const sft_allocator *const a = strategy->arena.allocator;
    sft__base_strmap_reset(&strategy->map);
    sft__base_free(a, strategy->entries, strategy->capacity * sizeof *strategy->entries);
    sft__base_free(a, strategy->nodes, strategy->node_capacity * sizeof *strategy->nodes);
    sft__base_arena_free(&strategy->arena);
    sft__base_free(a, strategy, sizeof *strategy);
}

sft_status sft__layout_ms_nomem(const sft_ms_strategy *s, size_t size, sft_error *err) {
    if (s->arena.over_budget) {
        return sft__base_fail(err, SFT_E_LIMIT, "strategy needs more memory than the limit allows");
    }
    return sft__base_fail_nomem(err, size);
}

sft_status sft__layout_ms_add(sft_ms_strategy *s, sft__layout_ms_entry **out, sft_error *err) {
    const uint64_t most = s->limits.tensors != 0 ? s->limits.tensors : UINT64_C(1) << 24;
    if (s->count >= most) {
        return sft__base_fail(err, SFT_E_LIMIT, "strategy: more than %llu parameters",
                              (unsigned long long)most);
    }
    SFT_NEED(sft__base_grow(s->arena.allocator, &s->entries, &s->capacity, s->count + 1,
                            sizeof *s->entries),
             s->capacity * 2 * sizeof *s->entries, err);
    *out = &s->entries[s->count++];
    memset(*out, 0, sizeof **out);
    return SFT_OK;
}

sft_status sft__layout_ms_add_node(sft_ms_strategy *s, sft__layout_ms_node **out, sft_error *err) {
    SFT_NEED(sft__base_grow(s->arena.allocator, &s->nodes, &s->node_capacity, s->node_count + 1,
                            sizeof *s->nodes),
             s->node_capacity * 2 * sizeof *s->nodes, err);
    *out = &s->nodes[s->node_count++];
    memset(*out, 0, sizeof **out);
    return SFT_OK;
}

/* ---------------------------------------------------------------- tensor maps */

static sft_status bad_map(const sft__layout_ms_param *p, uint64_t offset, const char *what,
                          sft_error *err) {
    return sft__base_fail_tensor(err, SFT_E_SCHEMA, offset, p->name, p->name_len, "strategy: %s",
                                 what);
}

sft_status sft__layout_ms_set_map(sft_ms_strategy *s, sft__layout_ms_param *p,
                                  const sft__layout_ms_map *from, uint64_t offset, sft_error *err) {
    const size_t dims = from->dims;
    const size_t *begin = from->begin;
    const size_t total = begin[dims];
    uint32_t *const map = sft__base_arena_alloc(&s->arena, (total + 1) * sizeof *map, sizeof *map);
    size_t *const at = sft__base_arena_alloc(&s->arena, (dims + 1) * sizeof *at, sizeof *at);
    size_t n = 0;
    if (map == NULL || at == NULL) {
        return sft__layout_ms_nomem(s, total * sizeof *map, err);
    }
    for (size_t i = 0; i < dims; i++) {
        const size_t entries = begin[i + 1] - begin[i];
        at[i] = n;
        for (size_t k = 0; k < entries; k++) {
            const uint64_t v = from->numbers[begin[i] + k];
            /* -1 is ten bytes of varint, or the lower four alone where a writer was careless */
            const bool none = v == UINT64_MAX || v == UINT32_MAX;
            if (none && entries == 1) {
                break;
            }
            if (none || v >= p->axis_count) {
                return bad_map(p, offset, "tensor map names an axis that the device matrix lacks",
                               err);
            }
            map[n++] = (uint32_t)v;
        }
    }
    at[dims] = n;
    p->map = map;
    p->map_at = at;
    p->dims = dims;
    return SFT_OK;
}

/* ---------------------------------------------------------------- names and stages */

/* "12-" in front of a name: its digits, or 0. */
static size_t prefix_digits(const char *name, size_t len, uint64_t *stage) {
    size_t n = 0;
    *stage = 0;
    while (n < len && n < 6 && name[n] >= '0' && name[n] <= '9') {
        *stage = *stage * 10 + (uint64_t)(name[n] - '0');
        n++;
    }
    return n > 0 && n < len && name[n] == '-' && (n == 1 || name[0] != '0') ? n : 0;
}

/* A file is a merged one if every parameter's name begins with a stage: a single "a-b" proves nothing, and
 * neither does one that begins so by chance. */
static bool all_prefixed(const sft_ms_strategy *s) {
    uint64_t stage;
    for (size_t i = 0; i < s->count; i++) {
        if (prefix_digits(s->entries[i].param.name, s->entries[i].param.name_len, &stage) == 0) {
            return false;
        }
    }
    return s->count != 0;
}

static sft_status make_key(sft_ms_strategy *s, sft__layout_ms_entry *e, sft_error *err) {
    sft__layout_ms_param *const p = &e->param;
    size_t digits;
    uint64_t stage;
    if (s->merged) {
        digits = prefix_digits(p->name, p->name_len, &stage);
        if (stage >= MAX_STAGES) {
            return sft__base_fail(err, SFT_E_LIMIT, "strategy: stage %llu",
                                  (unsigned long long)stage);
        }
        e->key = p->name;
        e->key_len = p->name_len;
        p->name += digits + 1;
        p->name_len -= digits + 1;
        p->stage = (uint32_t)stage;
        return SFT_OK;
    }
    char number[12];
    size_t n = sizeof number;
    for (uint32_t v = p->stage; n == sizeof number || v != 0; v /= 10) {
        number[--n] = (char)('0' + v % 10);
    }
    const size_t width = sizeof number - n;
    char *const key = sft__base_arena_alloc(&s->arena, width + 1 + p->name_len + 1, 1);
    if (key == NULL) {
        return sft__layout_ms_nomem(s, p->name_len, err);
    }
    memcpy(key, number + n, width);
    key[width] = '-';
    memcpy(key + width + 1, p->name, p->name_len + 1);
    e->key = key;
    e->key_len = width + 1 + p->name_len;
    return SFT_OK;
}

/* The stages of a merged file are 0 to n - 1. */
static sft_status check_stages(sft_ms_strategy *s, sft_error *err) {
    uint32_t most = 0;
    for (size_t i = 0; i < s->count; i++) {
        most = s->entries[i].param.stage > most ? s->entries[i].param.stage : most;
    }
    uint8_t *const seen = sft__base_arena_alloc(&s->arena, (size_t)most + 1, 1);
    if (seen == NULL) {
        return sft__layout_ms_nomem(s, (size_t)most + 1, err);
    }
    memset(seen, 0, (size_t)most + 1);
    for (size_t i = 0; i < s->count; i++) {
        seen[s->entries[i].param.stage] = 1;
    }
    for (uint32_t i = 0; i < most; i++) {
        if (!seen[i]) {
            return sft__base_fail(err, SFT_E_NOT_FOUND,
                                  "strategy of %u pipeline stages lacks stage %u", most + 1, i);
        }
    }
    s->stages = most + 1;
    return SFT_OK;
}

sft_status sft__layout_ms_finish(sft_ms_strategy *s, sft_error *err) {
    size_t twice;
    if (s->count == 0) {
        return sft__base_fail(err, SFT_E_SCHEMA, "strategy file holds no parameter");
    }
    s->stage = s->node_count != 0 ? s->nodes[0].stage : 0;
    s->merged = s->merged || all_prefixed(s);
    for (size_t i = 0; i < s->count; i++) {
        s->entries[i].param.stage = s->stage;
        SFT_TRY(make_key(s, &s->entries[i], err));
    }
    if (s->merged) {
        s->stage = 0;
        SFT_TRY(check_stages(s, err));
    }
    SFT_NEED(sft__base_strmap_init(&s->map, s->entries, sizeof *s->entries, s->count,
                                   s->arena.allocator),
             s->count * sizeof(uint64_t), err);
    if (sft__base_strmap_add_all(&s->map, s->count, &twice) != SFT__STRMAP_NONE) {
        const sft__layout_ms_param *const p = &s->entries[twice].param;
        return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, p->name, p->name_len,
                                     "strategy: parameter given twice");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- what it tells */

sft_ms_form sft__layout_ms_form(const sft_ms_strategy *strategy) {
    return strategy->form;
}

uint32_t sft__layout_ms_stages(const sft_ms_strategy *strategy) {
    return strategy->stages;
}

uint32_t sft__layout_ms_stage(const sft_ms_strategy *strategy) {
    return strategy->stage;
}

int sft__layout_ms_merged(const sft_ms_strategy *strategy) {
    return strategy->merged;
}

size_t sft__layout_ms_count(const sft_ms_strategy *strategy) {
    return strategy->count;
}

const sft__layout_ms_param *sft__layout_ms_at(const sft_ms_strategy *strategy, size_t index) {
    return index < strategy->count ? &strategy->entries[index].param : NULL;
}

const sft__layout_ms_param *sft__layout_ms_find(const sft_ms_strategy *strategy, const char *name,
                                                size_t name_len, uint32_t stage) {
    /* The key is built on the stack where it fits; longer names are compared one by one. */
    char key[512];
    size_t n = sizeof key;
    if (name_len <= sizeof key - 12) {
        n -= name_len;
        memcpy(key + n, name, name_len);
        key[--n] = '-';
        for (uint32_t v = stage, first = 1; first || v != 0; v /= 10, first = 0) {
            key[--n] = (char)('0' + v % 10);
        }
        const size_t at = sft__base_strmap_find(&strategy->map, key + n, sizeof key - n);
        return at == SFT__STRMAP_NONE ? NULL : &strategy->entries[at].param;
    }
    for (size_t i = 0; i < strategy->count; i++) {
        const sft__layout_ms_param *const p = &strategy->entries[i].param;
        if (p->stage == stage && p->name_len == name_len && memcmp(p->name, name, name_len) == 0) {
            return p;
        }
    }
    return NULL;
}
