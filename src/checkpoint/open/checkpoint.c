/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/checkpoint.c - an open checkpoint: the object, its ranks and their catalogs, what it tells
 * of itself. It opens nothing: files.c and the kinds fill it. Read checkpoint/open/checkpoint.h first.
 */
#include "checkpoint/open/checkpoint.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory/need.h"
#include "base/options.h"

sft_status sft__checkpoint_nomem(const sft_checkpoint *c, size_t size, sft_error *err) {
    if (c->arena.over_budget) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "checkpoint needs more memory than the limit allows");
    }
    return sft__base_fail_nomem(err, size);
}

sft_status sft__checkpoint_create(sft_checkpoint **out, const sft_checkpoint_options *options,
                                  sft_error *err) {
    sft_checkpoint_options o;
    sft_open_options open;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_checkpoint_options, open),
                                   "options", err));
    SFT_TRY(sft__base_options_read(&open, sizeof open, o.open,
                                   SFT__UP_TO(sft_open_options, allocator), "options of opening",
                                   err));
    const sft_allocator *const a = sft__base_allocator(open.allocator);
    sft_checkpoint *const c = sft__base_alloc_zero(a, sizeof *c);
    SFT_NEED(c != NULL, sizeof *c, err);
    c->allocator = a;
    const sft_status status = sft__base_limits_read(&c->limits, open.limits, err);
    if (status != SFT_OK) {
        sft__base_free(a, c, sizeof *c);
        return status;
    }
    c->open = open;
    c->open.limits = &c->limits;
    c->layout_path = "";
    sft__base_arena_init(&c->arena, a, c->limits.memory_bytes);
    c->layouts = o.layouts;
    c->step = o.step;
    c->other = o.other;
    c->other_ctx = o.other_ctx;
    c->source = o.source;
    c->source_ctx = o.source_ctx;
    c->pool = o.pool;
    c->partial = (o.flags & SFT_CHECKPOINT_PARTIAL) != 0;
    c->holes = c->partial && (o.flags & SFT_CHECKPOINT_HOLES) != 0;
    c->absent = "";
    *out = c;
    return SFT_OK;
}

void sft_checkpoint_close(sft_checkpoint *checkpoint) {
    if (checkpoint == NULL) {
        return;
    }
    const sft_allocator *const a = checkpoint->allocator;
    for (size_t i = 0; i < checkpoint->count; i++) {
        sft_catalog_close(checkpoint->catalogs[i]);
    }
    sft_layout_set_free(checkpoint->given);
    sft_layout_set_free(checkpoint->own);
    sft__base_free(a, checkpoint->parts, checkpoint->room * sizeof *checkpoint->parts);
    sft__base_free(a, checkpoint->catalogs,
                   checkpoint->catalog_room * sizeof *checkpoint->catalogs);
    sft__base_free(a, checkpoint->gaps, checkpoint->gap_room * sizeof *checkpoint->gaps);
    sft__base_arena_free(&checkpoint->arena);
    sft__base_free(a, checkpoint, sizeof *checkpoint);
}

sft_status sft__checkpoint_add(sft_checkpoint *c, uint64_t rank, sft_catalog *catalog,
                               sft_error *err) {
    if (!sft__base_grow(c->allocator, &c->parts, &c->room, c->count + 1, sizeof *c->parts) ||
        !sft__base_grow(c->allocator, &c->catalogs, &c->catalog_room, c->count + 1,
                        sizeof *c->catalogs)) {
        sft_catalog_close(catalog);
        return sft__base_fail_nomem(err, (c->count + 1) * sizeof *c->parts);
    }
    c->parts[c->count].rank = rank;
    c->parts[c->count].catalog = catalog;
    c->catalogs[c->count++] = catalog;
    return SFT_OK;
}

sft_status sft__checkpoint_find_part(void *checkpoint, const sft_tensor *tensor, uint64_t rank,
                                     const sft_layout **layout, uint64_t *shape, size_t *dims,
                                     sft_error *err) {
    const sft_checkpoint *const c = checkpoint;
    *layout = NULL;
    if (c->layouts == NULL) {
        return SFT_OK;
    }
    return sft__checkpoint_lset_find_part(c->layouts, tensor, rank, layout, shape, dims, err);
}

sft_status sft__checkpoint_check_named(const sft_checkpoint *c, sft_error *err) {
    for (size_t i = 0; i < c->count; i++) {
        for (size_t k = 0; k < sft_catalog_count(c->parts[i].catalog); k++) {
            const sft_tensor *const t = sft_catalog_at(c->parts[i].catalog, k);
            const sft_layout *layout;
            uint64_t shape[SFT_LAYOUT_RANK];
            size_t dims;
            const sft_file *const file = sft_catalog_file_at(c->parts[i].catalog, 0);
            const sft_status status = sft__checkpoint_lset_find_part(
                c->layouts, t, c->parts[i].rank, &layout, shape, &dims, err);
            if (status == SFT_OK &&
                (layout == NULL || !sft_layout_holds(layout, c->parts[i].rank))) {
                return sft__base_fail_tensor(
                    err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, t->name, t->name_len,
                    "is in %s, but the description does not say so", file->path);
            }
            SFT_TRY(status);
        }
    }
    return SFT_OK;
}

uint32_t sft_checkpoint_kind_of(const sft_checkpoint *checkpoint) {
    return checkpoint->kind;
}

const sft_rank_part *sft_checkpoint_ranks(const sft_checkpoint *checkpoint, size_t *count) {
    *count = checkpoint->count;
    return checkpoint->parts;
}

const sft_layout_set *sft_checkpoint_layouts(const sft_checkpoint *checkpoint) {
    return checkpoint->layouts;
}

const char *sft_checkpoint_layout_path(const sft_checkpoint *checkpoint) {
    return checkpoint->layout_path;
}

const char *sft_checkpoint_absent(const sft_checkpoint *checkpoint) {
    return checkpoint->absent;
}
