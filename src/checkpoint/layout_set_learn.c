/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layout_set_learn.c - full shapes of tensors that are cut unevenly: the size of a
 * dimension is the sum of the sizes of its parts, and each part is held by some rank. Read
 * checkpoint/layout_set.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/layout_set.h"
#include "layout/layout.h"

#define MAX_PARTS (UINT64_C(1) << 26) /* of one dimension */
#define UNKNOWN   UINT64_MAX

typedef struct learning {
    sft_layout_set *set;
    const sft_rank_part *parts;
    size_t count;
    uint64_t *sizes; /* of the parts of the dimension at hand */
    size_t room;
    sft_error *err;
} learning;

static bool is_uneven(const sft_layout *layout) {
    for (size_t d = 0; d < layout->dims; d++) {
        const sft__dim_cut *const c = &layout->cuts[d];
        if ((c->split == SFT_SPLIT_CHUNK || c->split == SFT_SPLIT_BALANCED) && c->parts > 1 &&
            c->blocks == NULL) {
            return true;
        }
    }
    return false;
}

static uint64_t part_of_dim(const sft__dim_cut *cut, uint64_t device) {
    uint64_t part = 0;
    for (size_t i = 0; i < cut->digit_count; i++) {
        part = part * cut->digits[i].size + device / cut->digits[i].divisor % cut->digits[i].size;
    }
    return part;
}

/* *n: the sum, or UNKNOWN. */
static sft_status sum_parts(learning *l, const sft_layout *layout, const sft_tensor *t, size_t d,
                            uint64_t *n) {
    const sft__dim_cut *const cut = &layout->cuts[d];
    *n = UNKNOWN;
    if (cut->parts > MAX_PARTS ||
        cut->parts > l->count) { /* more parts than ranks: some are missing */
        return SFT_OK;
    }
    if (!sft__grow(l->set->allocator, &l->sizes, &l->room, (size_t)cut->parts, sizeof *l->sizes)) {
        return sft__fail_nomem(l->err, (size_t)cut->parts * sizeof *l->sizes);
    }
    for (uint64_t i = 0; i < cut->parts; i++) {
        l->sizes[i] = UNKNOWN;
    }
    for (size_t i = 0; i < l->count; i++) {
        uint64_t device;
        const sft_tensor *const u = sft_catalog_find(l->parts[i].catalog, t->name, t->name_len);
        if (u == NULL || u->rank != layout->dims ||
            !sft__layout_device(layout, l->parts[i].rank, &device)) {
            continue;
        }
        uint64_t *const size = &l->sizes[part_of_dim(cut, device)];
        if (*size != UNKNOWN && *size != u->shape[d]) {
            return sft__fail_tensor(l->err, SFT_E_MISMATCH, SFT_NO_OFFSET, t->name, t->name_len,
                                    "rank %llu has %llu of dimension %u, its replica %llu",
                                    (unsigned long long)l->parts[i].rank,
                                    (unsigned long long)u->shape[d], (unsigned)d,
                                    (unsigned long long)*size);
        }
        *size = u->shape[d];
    }
    uint64_t sum = 0;
    for (uint64_t i = 0; i < cut->parts; i++) {
        if (l->sizes[i] == UNKNOWN) {
            return SFT_OK;
        }
        if (!sft__add64(sum, l->sizes[i], &sum)) {
            return sft__fail_tensor(l->err, SFT_E_OVERFLOW, SFT_NO_OFFSET, t->name, t->name_len,
                                    "size of the full tensor overflows 64 bits");
        }
    }
    *n = sum;
    return SFT_OK;
}

static bool is_learnt(const sft_layout_set *set, const sft_tensor *t) {
    return set->shape_count != 0 &&
           sft__strmap_find(&set->shape_map, t->name, t->name_len) != SFT__STRMAP_NONE;
}

static sft_status keep(learning *l, const sft_tensor *t, const uint64_t *shape, size_t dims) {
    sft_layout_set *const set = l->set;
    sft__lset_shape *const s = &set->shapes[set->shape_count];
    uint64_t *copy;
    SFT_TRY(sft__lset_copy(set, &s->name, t->name, t->name_len, l->err));
    SFT_TRY(sft__lset_take(set, &copy, dims, sizeof *copy, l->err));
    for (size_t d = 0; d < dims; d++) {
        copy[d] = shape[d];
    }
    s->name_len = t->name_len;
    s->shape = copy;
    s->dims = dims;
    (void)sft__strmap_add(&set->shape_map, set->shape_count++);
    return SFT_OK;
}

static sft_status learn(learning *l, const sft_tensor *t, uint64_t rank) {
    uint64_t shape[SFT_LAYOUT_RANK], full[SFT_LAYOUT_RANK];
    const sft_layout *layout = NULL;
    size_t dims = t->rank;
    /* As a whole tensor: then no shape is asked for, and none can be missing. */
    if (is_learnt(l->set, t) || t->rank > SFT_LAYOUT_RANK ||
        sft_layout_set_find_whole(l->set, t, rank, &layout, shape, &dims, NULL) != SFT_OK ||
        layout == NULL || layout->kind != SFT__LAYOUT_CUT || layout->dims != t->rank ||
        !is_uneven(layout)) {
        return SFT_OK;
    }
    for (size_t d = 0; d < layout->dims; d++) {
        SFT_TRY(sum_parts(l, layout, t, d, &full[d]));
        if (full[d] == UNKNOWN) {
            return SFT_OK;
        }
    }
    return keep(l, t, full, layout->dims);
}

/* Room for every name, so that no pointer into the list dies while it grows. */
static sft_status reserve(learning *l) {
    sft_layout_set *const set = l->set;
    size_t total = set->shape_count;
    for (size_t i = 0; i < l->count; i++) {
        total += sft_catalog_count(l->parts[i].catalog);
    }
    if (!sft__grow(set->allocator, &set->shapes, &set->shape_room, total + 1,
                   sizeof *set->shapes)) {
        return sft__fail_nomem(l->err, total * sizeof *set->shapes);
    }
    sft__strmap_reset(&set->shape_map);
    if (!sft__strmap_init(&set->shape_map, set->shapes, sizeof *set->shapes, total + 1,
                          set->allocator)) {
        return sft__fail_nomem(l->err, total * sizeof(uint64_t));
    }
    for (size_t i = 0; i < set->shape_count; i++) {
        (void)sft__strmap_add(&set->shape_map, i);
    }
    return SFT_OK;
}

sft_status sft_layout_set_learn(sft_layout_set *set, const sft_rank_part *parts, size_t count,
                                sft_error *err) {
    learning l = {set, parts, count, NULL, 0, err};
    sft_status status = set->ms != NULL ? SFT_OK : reserve(&l);
    for (size_t i = 0; i < count && status == SFT_OK && set->ms == NULL; i++) {
        const size_t tensors = sft_catalog_count(parts[i].catalog);
        for (size_t k = 0; k < tensors && status == SFT_OK; k++) {
            status = learn(&l, sft_catalog_at(parts[i].catalog, k), parts[i].rank);
        }
    }
    sft__free(set->allocator, l.sizes, l.room * sizeof *l.sizes);
    return status;
}
