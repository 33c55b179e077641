/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/part.c - what one rank holds of a catalog of global tensors. Read first:
 * checkpoint/open/assembly.h.
 */
#include "base/error.h"
#include "base/options.h"
#include "checkpoint/open/assembly.h"
#include "layout/layout.h"
#include <stdio.h>

typedef struct parting {
    sft__checkpoint_assembly assembly;
    const sft_catalog *global;
    uint64_t rank;
    sft_layout_find find;
    void *ctx;
    sft_error *err;
    bool any; /* tensors were taken: only then there is a file for metadata */
} parting;

/* An error of the layout's arithmetic, with the tensor it is about. */
static sft_status about(const sft_tensor *t, sft_status status, const sft_error *why,
                        sft_error *err) {
    return sft__base_fail_tensor(err, status, SFT_NO_OFFSET, t->name, t->name_len, "%s",
                                 why->message);
}

/* One shard of a flat layout: a box of the global tensor that is contiguous in it. */
static sft_status take_run(sft__checkpoint_assembly *a, const sft_tensor *t,
                           const sft__layout_shard *s) {
    uint64_t first = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        first = first * t->shape[d] + s->start[d];
    }
    return sft__checkpoint_assembly_flat(a, 0, t, s->start, s->count, first - s->local_start[0]);
}

sft_status sft__checkpoint_part_take(sft__checkpoint_assembly *a, const sft_tensor *t,
                                     const sft_layout *layout, uint64_t rank, sft_error *err) {
    uint64_t start[SFT_LAYOUT_RANK], extent[SFT_LAYOUT_RANK], local_start[SFT_LAYOUT_RANK];
    const sft__layout_shard shard = {start, extent, local_start};
    const sft__layout_local held = {layout, t->shape, t->rank, rank};
    const bool flat = sft_layout_is_flat(layout) != 0;
    uint64_t shards = 0;
    sft_error why;
    sft_status status = sft__layout_shard_count(&held, &shards, &why);
    for (uint64_t i = 0; i < shards && status == SFT_OK; i++) {
        status = sft__layout_shard_at(&held, i, &shard, &why);
        if (status == SFT_OK) {
            SFT_TRY(flat ? take_run(a, t, &shard)
                         : sft__checkpoint_assembly_box(a, 0, t, start, extent, local_start));
        }
    }
    return status == SFT_OK ? SFT_OK : about(t, status, &why, err);
}

/* The collected pieces as a tensor; not of a model that is only partly there (SFT_CHECKPOINT_HOLES) where
 * some are missing, which is a problem of the result. */
static sft_status add_whole(parting *p, const sft_tensor *t, const uint64_t *shape, size_t rank) {
    sft__checkpoint_assembly *const a = &p->assembly;
    const uint64_t there = sft__checkpoint_assembly_elements(a, rank);
    uint64_t wanted = 1;
    char name[160];
    char text[600];
    for (size_t d = 0; d < rank; d++) {
        wanted *= shape[d]; /* at most the elements of the global tensor */
    }
    if (there == wanted) {
        return sft__checkpoint_assembly_add(a, 0, t, shape, rank);
    }
    a->list.count = 0;
    a->list.number_count = 0;
    (void)sft_escape(name, sizeof name, t->name, t->name_len < 64 ? t->name_len : 64);
    (void)snprintf(text, sizeof text,
                   "tensor \"%s%s\" is left out: the files hold %llu of the %llu elements that are "
                   "rank %llu's",
                   name, t->name_len < 64 ? "" : "...", (unsigned long long)there,
                   (unsigned long long)wanted, (unsigned long long)p->rank);
    return sft_builder_add_problem(a->builder, SFT_PROBLEM_MISSING_TENSOR, t->name, t->name_len,
                                   text, p->err);
}

static sft_status take_shards(parting *p, const sft_tensor *t, const sft_layout *layout) {
    uint64_t local[SFT_LAYOUT_RANK];
    sft_error why;
    const sft_status status =
        sft_layout_local_shape(layout, t->shape, t->rank, p->rank, local, &why);
    if (status != SFT_OK) {
        return about(t, status, &why, p->err);
    }
    SFT_TRY(sft__checkpoint_part_take(&p->assembly, t, layout, p->rank, p->err));
    return add_whole(p, t, local, sft_layout_is_flat(layout) != 0 ? 1 : t->rank);
}

static sft_status take_tensor(parting *p, const sft_tensor *t) {
    uint64_t shape[SFT_LAYOUT_RANK];
    size_t dims = t->rank;
    const sft_layout *layout = NULL;
    SFT_TRY(p->find(p->ctx, t, p->rank, &layout, shape, &dims, p->err));
    p->any = p->any || layout == NULL || sft_layout_holds(layout, p->rank);
    if (layout == NULL) {
        SFT_TRY(sft__checkpoint_assembly_global(&p->assembly, 0, t));
        return add_whole(p, t, t->shape, t->rank);
    }
    return sft_layout_holds(layout, p->rank) ? take_shards(p, t, layout) : SFT_OK;
}

static sft_status take_metadata(parting *p) {
    const size_t count = sft_catalog_metadata_count(p->global, 0);
    uint32_t file = 0;
    if (sft_catalog_file_count(p->global) == 0) {
        return SFT_OK;
    }
    for (size_t i = 0; i < count; i++) {
        sft_metadata_entry e;
        SFT_TRY(
            sft_catalog_metadata_at(p->global, 0, i, &e.key, &e.key_len, &e.value, &e.value_len));
        if (!sft__checkpoint_speaks_of_one_file(e.key, e.key_len) &&
            !sft__checkpoint_describes_tensors(p->global, &e, false)) {
            SFT_TRY(sft_builder_add_metadata(p->assembly.builder, file, &e, p->err));
        }
    }
    return SFT_OK;
}

/* Of a thousand ranks' pieces each part looks at one, which is far from all others: it probably lies
 * where that of the tensor before did, and is asked for while others are looked at. */
static void look_ahead(const parting *p, size_t i) {
    enum { NEAR = 4, FAR = 8 };
    const sft_tensor *const near = sft_catalog_at(p->global, i + NEAR);
    const sft_tensor *const far = sft_catalog_at(p->global, i + FAR);
    const double share = p->assembly.share;
    if (far != NULL && far->piece_count > 1) {
        SFT_PREFETCH(&far->pieces[(uint32_t)(share * far->piece_count)]);
    }
    if (near != NULL && near->piece_count > 1) {
        const sft_piece *const piece = &near->pieces[(uint32_t)(share * near->piece_count)];
        SFT_PREFETCH(piece->start);
        SFT_PREFETCH(piece->count);
    }
}

static sft_status take_all(parting *p) {
    const size_t count = sft_catalog_count(p->global);
    for (size_t i = 0; i < count; i++) {
        look_ahead(p, i);
        SFT_TRY(take_tensor(p, sft_catalog_at(p->global, i)));
    }
    return p->any ? take_metadata(p) : SFT_OK;
}

sft_status sft_checkpoint_part(sft_catalog **out, const sft_catalog *global, uint64_t rank,
                               sft_layout_find find, void *ctx, const sft_open_options *options,
                               sft_error *err) {
    sft_open_options o;
    parting p;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_open_options, allocator),
                                   "open options", err));
    memset(&p, 0, sizeof p);
    p.global = global;
    p.rank = rank;
    p.find = find;
    p.ctx = ctx;
    p.err = err;
    sft_status status = sft__checkpoint_assembly_init(&p.assembly, &global, 1, &o, err);
    if (status == SFT_OK) {
        status = take_all(&p);
    }
    if (status == SFT_OK) {
        status = sft_builder_finish(out, p.assembly.builder, err);
    }
    sft__checkpoint_assembly_reset(&p.assembly);
    return status;
}
