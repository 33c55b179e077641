/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/layout_set_learn.c - global shapes of tensors that are cut unevenly: the size of a
 * dimension is the sum of the sizes of its parts, and each part is held by some rank. Read
 * checkpoint/layouts/layout_set.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/layout_set.h"
#include "checkpoint/layouts/parallel.h"
#include "layout/layout.h"

#define MAX_PARTS (UINT64_C(1) << 26) /* of one dimension */
#define UNKNOWN   UINT64_MAX

typedef struct learning {
    sft_layout_set *set;
    const sft_rank_part *parts;
    size_t count;
    uint64_t *sizes; /* of the parts of the dimension at hand */
    size_t room;
    size_t at;     /* of the tensor at hand in its catalog: ranks keep one order */
    bool *settled; /* by the first part's tensors: learnt, or cut evenly */
    size_t settled_count;
    sft_error *err;
} learning;

static bool is_uneven(const sft_layout *layout) {
    for (size_t d = 0; d < layout->dims; d++) {
        const sft__layout_dim_cut *const c = &layout->cuts[d];
        if ((c->split == SFT__SPLIT_CHUNK || c->split == SFT__SPLIT_BALANCED) && c->parts > 1 &&
            c->blocks == NULL) {
            return true;
        }
    }
    return false;
}

static uint64_t part_of_dim(const sft__layout_dim_cut *cut, uint64_t device) {
    uint64_t part = 0;
    for (size_t i = 0; i < cut->digit_count; i++) {
        part = part * cut->digits[i].size + device / cut->digits[i].divisor % cut->digits[i].size;
    }
    return part;
}

static bool same_name(const sft_tensor *a, const sft_tensor *b) {
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static const sft_tensor *look_up(const learning *l, size_t i, const sft_tensor *t) {
    const sft_tensor *const guess = sft_catalog_at(l->parts[i].catalog, l->at);
    return guess != NULL && same_name(guess, t)
               ? guess
               : sft_catalog_find(l->parts[i].catalog, t->name, t->name_len);
}

/* *n: the sum, or UNKNOWN. */
static sft_status sum_parts(learning *l, const sft_layout *layout, const sft_tensor *t, size_t d,
                            uint64_t *n) {
    const sft__layout_dim_cut *const cut = &layout->cuts[d];
    *n = cut->parts == 1 ? t->shape[d] : UNKNOWN;
    if (cut->parts == 1 || cut->parts > MAX_PARTS ||
        cut->parts > l->count) { /* more parts than ranks: some are missing */
        return SFT_OK;
    }
    SFT_NEED(sft__base_grow(l->set->allocator, &l->sizes, &l->room, (size_t)cut->parts,
                            sizeof *l->sizes),
             (size_t)cut->parts * sizeof *l->sizes, l->err);
    for (uint64_t i = 0; i < cut->parts; i++) {
        l->sizes[i] = UNKNOWN;
    }
    for (size_t i = 0; i < l->count; i++) {
        uint64_t device;
        const sft_tensor *const u = look_up(l, i, t);
        if (u == NULL || u->rank != layout->dims ||
            !sft__layout_device(layout, l->parts[i].rank, &device)) {
            continue;
        }
        uint64_t *const size = &l->sizes[part_of_dim(cut, device)];
        if (*size != UNKNOWN && *size != u->shape[d]) {
            return sft__base_fail_tensor(
                l->err, SFT_E_MISMATCH, SFT_NO_OFFSET, t->name, t->name_len,
                "rank %llu has %llu of dimension %u, its replica %llu",
                (unsigned long long)l->parts[i].rank, (unsigned long long)u->shape[d], (unsigned)d,
                (unsigned long long)*size);
        }
        *size = u->shape[d];
    }
    uint64_t sum = 0;
    for (uint64_t i = 0; i < cut->parts; i++) {
        if (l->sizes[i] == UNKNOWN) {
            return SFT_OK;
        }
        if (!sft__base_add64(sum, l->sizes[i], &sum)) {
            return sft__base_fail_tensor(l->err, SFT_E_OVERFLOW, SFT_NO_OFFSET, t->name,
                                         t->name_len,
                                         "size of the global tensor overflows 64 bits");
        }
    }
    *n = sum;
    return SFT_OK;
}

static bool is_learnt(const sft_layout_set *set, const sft_tensor *t) {
    return set->shape_count != 0 &&
           sft__base_strmap_find(&set->shape_map, t->name, t->name_len) != SFT__STRMAP_NONE;
}

/* The table is made anew when it is full. */
static sft_status make_room(sft_layout_set *set, sft_error *err) {
    const size_t wanted = set->shape_count < 512 ? 1024 : 2 * set->shape_count;
    SFT_NEED(
        sft__base_grow(set->allocator, &set->shapes, &set->shape_room, wanted, sizeof *set->shapes),
        wanted * sizeof *set->shapes, err);
    sft__base_strmap_reset(&set->shape_map);
    SFT_NEED(sft__base_strmap_init(&set->shape_map, set->shapes, sizeof *set->shapes,
                                   set->shape_room, set->allocator),
             wanted * sizeof(uint64_t), err);
    for (size_t i = 0; i < set->shape_count; i++) {
        (void)sft__base_strmap_add(&set->shape_map, i);
    }
    return SFT_OK;
}

static sft_status keep(learning *l, const sft_tensor *t, const uint64_t *shape, size_t dims) {
    sft_layout_set *const set = l->set;
    uint64_t *copy;
    if (set->shape_count == set->shape_room) {
        SFT_TRY(make_room(set, l->err));
    }
    sft__checkpoint_lset_shape *const s = &set->shapes[set->shape_count];
    SFT_TRY(sft__checkpoint_lset_copy(set, &s->name, t->name, t->name_len, l->err));
    SFT_TRY(sft__checkpoint_lset_take(set, &copy, dims, sizeof *copy, l->err));
    for (size_t d = 0; d < dims; d++) {
        copy[d] = shape[d];
    }
    s->name_len = t->name_len;
    s->shape = copy;
    s->dims = dims;
    (void)sft__base_strmap_add(&set->shape_map, set->shape_count++);
    return SFT_OK;
}

/* *settled: nothing is left to find out about it. */
static sft_status learn(learning *l, const sft_tensor *t, uint64_t rank, bool *settled) {
    uint64_t shape[SFT_LAYOUT_RANK], full[SFT_LAYOUT_RANK];
    const sft_layout *layout = NULL;
    size_t dims = t->rank;
    *settled = true;
    /* As a global tensor: then no shape is asked for, and none can be missing. */
    if (is_learnt(l->set, t) || t->rank > SFT_LAYOUT_RANK ||
        sft_layout_set_find_global(l->set, t, rank, &layout, shape, &dims, NULL) != SFT_OK ||
        layout == NULL || layout->kind != SFT__LAYOUT_CUT || layout->dims != t->rank ||
        !is_uneven(layout)) {
        return SFT_OK;
    }
    for (size_t d = 0; d < layout->dims; d++) {
        SFT_TRY(sum_parts(l, layout, t, d, &full[d]));
        if (full[d] == UNKNOWN) {
            *settled = false;
            return SFT_OK;
        }
    }
    return keep(l, t, full, layout->dims);
}

/* All tensors of a part, without those that the first part has in the same place and that are
 * settled. */
static sft_status learn_part(learning *l, size_t i) {
    const sft_catalog *const c = l->parts[i].catalog;
    const size_t tensors = sft_catalog_count(c);
    for (l->at = 0; l->at < tensors; l->at++) {
        const sft_tensor *const t = sft_catalog_at(c, l->at);
        const sft_tensor *const first = sft_catalog_at(l->parts[0].catalog, l->at);
        bool settled;
        if (i > 0 && first != NULL && l->settled[l->at] && same_name(first, t)) {
            continue;
        }
        SFT_TRY(learn(l, t, l->parts[i].rank, &settled));
        if (i == 0) {
            l->settled[l->at] = settled;
        }
    }
    return SFT_OK;
}

static sft_status learn_all(learning *l) {
    l->settled_count = sft_catalog_count(l->parts[0].catalog) + 1;
    l->settled = sft__base_alloc_zero(l->set->allocator, l->settled_count * sizeof *l->settled);
    SFT_NEED(l->settled != NULL, l->settled_count * sizeof *l->settled, l->err);
    for (size_t i = 0; i < l->count; i++) {
        SFT_TRY(learn_part(l, i));
    }
    return SFT_OK;
}

sft_status sft__checkpoint_lset_learn(sft_layout_set *set, const sft_rank_part *parts, size_t count,
                                      sft_error *err) {
    learning l;
    if (set->ms != NULL || count == 0) {
        return SFT_OK;
    }
    if (set->parallel != NULL && !set->bound) {
        SFT_TRY(sft__checkpoint_parallel_bind_parts(set, parts, count, err));
    }
    memset(&l, 0, sizeof l);
    l.set = set;
    l.parts = parts;
    l.count = count;
    l.err = err;
    const sft_status status = learn_all(&l);
    sft__base_free(set->allocator, l.sizes, l.room * sizeof *l.sizes);
    sft__base_free(set->allocator, l.settled, l.settled_count * sizeof *l.settled);
    return status;
}
