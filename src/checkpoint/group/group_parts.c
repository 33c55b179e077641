/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group_parts.c - the parts of one process: where they lie in their tensors, what they
 * are called by. Read group_parts.h first; group_divide.c: who writes which.
 */
#include "checkpoint/group/group_parts.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "layout/layout.h"
#include <sft/digest.h>
#include <stdlib.h>

static sft_status about(const sft_group_tensor *t, sft_status status, const char *what,
                        sft_error *err) {
    return sft__base_fail_tensor(err, status, SFT_NO_OFFSET, t->name, t->name_len, "%s", what);
}

static sft_status product(const sft_group_tensor *t, const uint64_t *shape, size_t dims,
                          uint64_t *out, sft_error *err) {
    *out = 1;
    for (size_t d = 0; d < dims; d++) {
        if (!sft__base_mul64(*out, shape[d], out)) {
            return about(t, SFT_E_OVERFLOW, "more than 2^64 elements", err);
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- where it lies */

/* A tensor without elements lies whole where it lies: its boxes would not tell its shape. */
static bool is_empty(const sft_group_tensor *t) {
    for (uint32_t d = 0; d < t->dims; d++) {
        if (t->shape[d] == 0) {
            return true;
        }
    }
    return false;
}

static sft_status take_box(sft__checkpoint_gset *s, sft__checkpoint_gpart *p, sft_error *err) {
    const sft_group_tensor *const t = p->tensor;
    if (t->start == NULL || is_empty(t)) {
        uint64_t *const zeros = sft__base_arena_alloc(&s->arena, (t->dims + 1) * sizeof *zeros, 8);
        SFT_NEED(zeros != NULL, t->dims * sizeof *zeros, err);
        memset(zeros, 0, t->dims * sizeof *zeros);
        p->start = zeros;
        p->local = t->shape;
    } else {
        p->start = t->start;
        p->local = t->count;
    }
    p->local_dims = t->dims;
    for (uint32_t d = 0; d < t->dims; d++) {
        if (p->start[d] > t->shape[d] || p->local[d] > t->shape[d] - p->start[d]) {
            return about(t, SFT_E_RANGE, "the box reaches out of the tensor", err);
        }
    }
    return SFT_OK;
}

static sft_status take_layout(sft__checkpoint_gset *s, sft__checkpoint_gpart *p,
                              sft_layout_set *layouts, sft_error *err) {
    const sft_group_tensor *const t = p->tensor;
    const uint64_t rank = s->group != NULL ? s->group->rank : 0;
    uint64_t shape[SFT_LAYOUT_RANK];
    size_t dims = t->dims;
    sft_tensor like;
    if (t->dims > SFT_LAYOUT_RANK) {
        return about(t, SFT_E_LIMIT, "more dimensions than a layout has", err);
    }
    memset(&like, 0, sizeof like);
    like.name = t->name;
    like.name_len = t->name_len;
    like.dtype = t->dtype;
    like.shape = t->shape;
    like.rank = t->dims;
    SFT_TRY(sft_layout_set_find_global(layouts, &like, rank, &p->layout, shape, &dims, err));
    if (p->layout == NULL) {
        p->local = t->shape;
        p->local_dims = t->dims;
        return SFT_OK;
    }
    uint64_t *const local = sft__base_arena_alloc(&s->arena, (t->dims + 1) * sizeof *local, 8);
    sft_error why;
    SFT_NEED(local != NULL, (t->dims + 1) * sizeof *local, err);
    sft_status status = sft_layout_local_shape(p->layout, t->shape, t->dims, rank, local, &why);
    if (status == SFT_OK) {
        status = sft__layout_part(p->layout, rank, &p->part, &why);
    }
    if (status != SFT_OK) {
        return about(t, status, why.message, err);
    }
    p->local = local;
    p->local_dims = sft_layout_is_flat(p->layout) ? 1 : t->dims;
    return SFT_OK;
}

/* ---------------------------------------------------------------- what it is called by */

static void add_numbers(sft_sha256 *h, const uint64_t *numbers, size_t count) {
    uint8_t text[8];
    for (size_t i = 0; i < count; i++) {
        for (unsigned k = 0; k < 8; k++) {
            text[k] = (uint8_t)(numbers[i] >> 8 * k);
        }
        sft_sha256_update(h, text, 8);
    }
}

static void make_keys(const sft__checkpoint_gset *s, sft__checkpoint_gpart *p) {
    const sft_group_tensor *const t = p->tensor;
    const uint64_t dims = t->dims;
    const uint64_t len = t->name_len;
    uint8_t digest[32];
    sft_sha256 h;
    sft_sha256_init(&h);
    sft_sha256_update(&h, t->name, t->name_len);
    sft_sha256_final(&h, digest);
    memcpy(p->name_key, digest, 16);
    sft_sha256_init(&h);
    add_numbers(&h, &len, 1);
    sft_sha256_update(&h, t->name, t->name_len);
    sft_sha256_update(&h, t->dtype->name, strlen(t->dtype->name) + 1);
    add_numbers(&h, &dims, 1);
    add_numbers(&h, t->shape, t->dims);
    sft_sha256_final(&h, digest);
    memcpy(&p->check, digest, sizeof p->check);
    sft_sha256_init(&h);
    sft_sha256_update(&h, digest, sizeof digest);
    if (s->boxes) {
        add_numbers(&h, p->start, t->dims);
        add_numbers(&h, p->local, t->dims);
    } else {
        add_numbers(&h, &p->part, 1);
    }
    sft_sha256_final(&h, digest);
    memcpy(p->key, digest, 16);
}

static sft_status take_part(sft__checkpoint_gset *s, sft__checkpoint_gpart *p,
                            sft_layout_set *layouts, sft_error *err) {
    const sft_group_tensor *const t = p->tensor;
    uint64_t bytes;
    if (t->dtype == NULL || (t->name == NULL && t->name_len > 0) ||
        (t->shape == NULL && t->dims > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "a tensor without a name, dtype or shape");
    }
    if ((t->start == NULL) != (t->count == NULL) || (t->start != NULL && layouts != NULL)) {
        return about(t, SFT_E_ARG,
                     layouts != NULL
                         ? "a box, and layouts: one of them says how tensors are sharded"
                         : "a start without a count, or the other way round",
                     err);
    }
    SFT_TRY(layouts != NULL ? take_layout(s, p, layouts, err) : take_box(s, p, err));
    SFT_TRY(product(t, t->shape, t->dims, &p->global, err));
    SFT_TRY(product(t, p->local, p->local_dims, &p->elements, err));
    sft_error why;
    const sft_status status = sft_dtype_bytes(t->dtype, p->elements, &bytes, &why);
    if (status != SFT_OK) {
        return about(t, status, why.message, err);
    }
    if (bytes != t->nbytes || (bytes > 0 && t->data == NULL)) {
        return sft__base_fail_tensor(err, SFT_E_ARG, SFT_NO_OFFSET, t->name, t->name_len,
                                     "%llu bytes of memory%s, and its part takes %llu",
                                     (unsigned long long)t->nbytes,
                                     t->data == NULL ? " at NULL" : "", (unsigned long long)bytes);
    }
    make_keys(s, p);
    return SFT_OK;
}

static int by_key(const void *a, const void *b) {
    return memcmp((*(const sft__checkpoint_gpart *const *)a)->key,
                  (*(const sft__checkpoint_gpart *const *)b)->key, 16);
}

static sft_status check_twice(const sft__checkpoint_gset *s, sft_error *err) {
    const sft__checkpoint_gpart **const list =
        sft__base_alloc_array(s->allocator, s->count + 1, sizeof *list);
    sft_status status = SFT_OK;
    SFT_NEED(list != NULL, s->count * sizeof *list, err);
    for (size_t i = 0; i < s->count; i++) {
        list[i] = &s->parts[i];
    }
    if (s->count > 1) {
        qsort(list, s->count, sizeof *list, by_key);
    }
    for (size_t i = 1; i < s->count && status == SFT_OK; i++) {
        if (by_key(&list[i - 1], &list[i]) == 0) {
            status = about(list[i]->tensor, SFT_E_DUPLICATE, "the same part is given twice", err);
        }
    }
    sft__base_free(s->allocator, list, (s->count + 1) * sizeof *list);
    return status;
}

sft_status sft__checkpoint_gset_init(sft__checkpoint_gset *s, const sft_group_tensor *tensors,
                                     size_t count, sft_layout_set *layouts, sft_error *err) {
    s->allocator = sft__base_allocator(s->allocator);
    s->boxes = layouts == NULL;
    sft__base_arena_init(&s->arena, s->allocator, 0);
    if (count >= UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "more than 2^32 parts");
    }
    s->parts = sft__base_alloc_zero(s->allocator, (count + 1) * sizeof *s->parts);
    SFT_NEED(s->parts != NULL, count * sizeof *s->parts, err);
    s->count = count;
    for (size_t i = 0; i < count; i++) {
        s->parts[i].tensor = &tensors[i];
        SFT_TRY(take_part(s, &s->parts[i], layouts, err));
    }
    return check_twice(s, err);
}

void sft__checkpoint_gset_reset(sft__checkpoint_gset *s) {
    if (s->parts != NULL) {
        sft__base_free(s->allocator, s->parts, (s->count + 1) * sizeof *s->parts);
    }
    sft__base_arena_free(&s->arena);
    s->parts = NULL;
}
