/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/layouts/ms_layouts.c - a MindSpore strategy as the answer to "how is this tensor cut".
 * Layouts are made at once: finding one then needs no lock.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/layouts/layout_set.h"
#include "layout/strategy.h"
#include <sft/checkpoint.h>

struct sft__checkpoint_ms_layouts {
    const sft_allocator *allocator;
    const sft_ms_strategy *strategy;
    sft_layout **list; /* beside the strategy's parameters */
    size_t count;
    uint64_t devices; /* of one stage */
};

void sft__checkpoint_ms_layouts_free(sft__checkpoint_ms_layouts *layouts) {
    if (layouts == NULL) {
        return;
    }
    for (size_t i = 0; i < layouts->count; i++) {
        sft__layout_free(layouts->list[i]);
    }
    sft__base_free(layouts->allocator, layouts->list, layouts->count * sizeof *layouts->list);
    sft__base_free(layouts->allocator, layouts, sizeof *layouts);
}

static sft_status fill(sft__checkpoint_ms_layouts *l, sft_error *err) {
    for (size_t i = 0; i < l->count; i++) {
        const sft__layout_ms_param *const p = sft__layout_ms_at(l->strategy, i);
        SFT_TRY(sft__layout_ms_layout(&l->list[i], p, l->allocator, err));
        const uint64_t devices = sft_layout_rank_count(l->list[i]);
        if (i > 0 && devices != l->devices) {
            return sft__base_fail_tensor(err, SFT_E_SCHEMA, SFT_NO_OFFSET, p->name, p->name_len,
                                         "a mesh of %llu devices, others have %llu",
                                         (unsigned long long)devices,
                                         (unsigned long long)l->devices);
        }
        l->devices = devices;
    }
    return SFT_OK;
}

sft_status sft__checkpoint_ms_layouts_create(sft__checkpoint_ms_layouts **out,
                                             const sft_ms_strategy *strategy,
                                             const sft_allocator *allocator, sft_error *err) {
    const sft_allocator *const a = sft__base_allocator(allocator);
    const size_t count = sft__layout_ms_count(strategy);
    *out = NULL;
    sft__checkpoint_ms_layouts *const l = sft__base_alloc_zero(a, sizeof *l);
    SFT_NEED(l != NULL, sizeof *l, err);
    l->allocator = a;
    l->strategy = strategy;
    l->list =
        sft__base_alloc_zero(a, count * sizeof *l->list); /* as many as were read: no overflow */
    l->count = l->list != NULL ? count : 0;
    const sft_status status =
        l->list == NULL ? sft__base_fail_nomem(err, count * sizeof *l->list) : fill(l, err);
    if (status != SFT_OK) {
        sft__checkpoint_ms_layouts_free(l);
        return status;
    }
    *out = l;
    return SFT_OK;
}

/* The parameter of this name in the stage of this rank, and its layout. */
static const sft__layout_ms_param *find(const sft__checkpoint_ms_layouts *l, const sft_tensor *t,
                                        uint64_t rank, const sft_layout **layout) {
    const uint64_t stage =
        sft__layout_ms_merged(l->strategy) ? rank / l->devices : sft__layout_ms_stage(l->strategy);
    const sft__layout_ms_param *const p =
        stage > UINT32_MAX
            ? NULL
            : sft__layout_ms_find(l->strategy, t->name, t->name_len, (uint32_t)stage);
    if (p != NULL) {
        const size_t bytes =
            (size_t)((const char *)p - (const char *)&l->strategy->entries[0].param);
        *layout = l->list[bytes / sizeof l->strategy->entries[0]];
    }
    return p;
}

sft_status sft__checkpoint_ms_layouts_find_part(void *layouts, const sft_tensor *tensor,
                                                uint64_t rank, const sft_layout **layout,
                                                uint64_t *shape, size_t *dims, sft_error *err) {
    const sft__layout_ms_param *const p = find(layouts, tensor, rank, layout);
    if (p == NULL) {
        return SFT_OK;
    }
    *dims = tensor->rank;
    return sft__layout_ms_full_shape(p, tensor->shape, tensor->rank, shape, err);
}

sft_status sft__checkpoint_ms_layouts_find_global(void *layouts, const sft_tensor *tensor,
                                                  uint64_t rank, const sft_layout **layout,
                                                  uint64_t *shape, size_t *dims, sft_error *err) {
    const sft__checkpoint_ms_layouts *const l = layouts;
    (void)shape;
    (void)dims;
    (void)err;
    /* A parameter of other stages alone is not this rank's: a layout without the rank says so. */
    for (uint32_t stage = 0;
         find(l, tensor, rank, layout) == NULL && stage < sft__layout_ms_stages(l->strategy);
         stage++) {
        if (find(l, tensor, stage * l->devices, layout) != NULL) {
            break;
        }
    }
    return SFT_OK;
}
