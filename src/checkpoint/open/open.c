/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/open.c - opening a checkpoint of many ranks by its kind, or from catalogs that are open
 * already, and joining its ranks. The kinds: complete.c, ranks.c, boxes.c. Read
 * checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/run/steps.h"

/* A step of a training run that one process saved: all of it, model, optimizer and state. */
static sft_status open_step(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_run_manifest m;
    sft_open_options o = c->open;
    sft_catalog *catalog;
    o.limits = &c->limits;
    SFT_TRY(sft__checkpoint_run_manifest_read(&m, c->folder, &c->arena, err));
    SFT_TRY(sft__checkpoint_run_open_files(&catalog, c->folder, &m, &o, err));
    return sft__checkpoint_add(c, 0, catalog, err);
}

static sft_status open_kind(sft_checkpoint *c, const char *path, sft_error *err) {
    SFT_TRY(sft__checkpoint_detect(c, path, err));
    if (c->kind == SFT_CHECKPOINT_RANKS) {
        /* files of two models, perhaps, and the layout of neither */
        SFT_TRY(sft_model_check(c->folder, err));
    }
    switch (c->kind) {
    case SFT_CHECKPOINT_COMPLETE:
        return sft__checkpoint_complete(c, err);
    case SFT_CHECKPOINT_STEPS:
        return sft__checkpoint_steps(c, err);
    case SFT_CHECKPOINT_STEP:
        return open_step(c, err);
    case SFT_CHECKPOINT_RANKS:
        SFT_TRY(sft__checkpoint_ranks(c, err));
        return sft__checkpoint_keeps_promise(c, err);
    case SFT_CHECKPOINT_DCP:
        return sft__checkpoint_dcp(c, err);
    case SFT_CHECKPOINT_MINDFORMERS:
        SFT_TRY(sft__checkpoint_mindformers(c, err));
        return sft__checkpoint_keeps_promise(c, err);
    case SFT_CHECKPOINT_TOPOLOGY:
        SFT_TRY(sft__checkpoint_topology(c, err));
        return sft__checkpoint_keeps_promise(c, err);
    default:
        return sft__base_fail(err, SFT_E_FORMAT, "%s holds no checkpoint of many ranks", path);
    }
}

sft_status sft_checkpoint_open(sft_checkpoint **out, const char *path,
                               const sft_checkpoint_options *options, sft_error *err) {
    sft_checkpoint *c;
    *out = NULL;
    SFT_TRY(sft__checkpoint_create(&c, options, err));
    const sft_status status = open_kind(c, path, err);
    if (status != SFT_OK) {
        sft_checkpoint_close(c);
        return status;
    }
    *out = c;
    return SFT_OK;
}

/* Slots of catalogs stay empty: they are the caller's. */
static sft_status borrow(sft_checkpoint *c, const sft_rank_part *parts, size_t count,
                         sft_error *err) {
    if (!sft__base_grow(c->allocator, &c->parts, &c->room, count + 1, sizeof *c->parts) ||
        !sft__base_grow(c->allocator, &c->catalogs, &c->catalog_room, count + 1,
                        sizeof *c->catalogs)) {
        return sft__base_fail_nomem(err, (count + 1) * sizeof *c->parts);
    }
    memcpy(c->parts, parts, count * sizeof *parts);
    memset((void *)c->catalogs, 0, count * sizeof *c->catalogs);
    c->count = count;
    return SFT_OK;
}

sft_status sft_checkpoint_from_ranks(sft_checkpoint **out, const sft_rank_part *parts, size_t count,
                                     sft_layout_set *layouts, sft_error *err) {
    sft_checkpoint_options o;
    sft_checkpoint *c;
    SFT_INIT(&o);
    o.layouts = layouts;
    *out = NULL;
    if (count == 0) {
        return sft__base_fail(err, SFT_E_ARG, "no ranks");
    }
    SFT_TRY(sft__checkpoint_create(&c, &o, err));
    c->kind = SFT_CHECKPOINT_RANKS;
    sft_status status = borrow(c, parts, count, err);
    if (status == SFT_OK && layouts != NULL) {
        status = sft__checkpoint_lset_learn(layouts, c->parts, c->count, err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_keeps_promise(c, err);
    }
    if (status != SFT_OK) {
        sft_checkpoint_close(c);
        return status;
    }
    *out = c;
    return SFT_OK;
}

static sft_status join(sft_catalog **out, const sft_checkpoint *c, const sft_open_options *options,
                       sft_source *keeper, sft_error *err) {
    const sft__checkpoint_join what = {c->parts,
                                       c->count,
                                       sft__checkpoint_find_part,
                                       (void *)(uintptr_t)c,
                                       c->gaps,
                                       c->gap_count,
                                       c->skipped,
                                       c->partial};
    return sft__checkpoint_join_keeping(out, &what, options, keeper, err);
}

sft_status sft_checkpoint_join_ranks(sft_catalog **out, const sft_checkpoint *checkpoint,
                                     const sft_open_options *options, sft_error *err) {
    return join(out, checkpoint, options, NULL, err);
}

static sft_status read_nothing(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    (void)self;
    (void)offset;
    (void)dst;
    (void)size;
    return sft__base_fail(err, SFT_E_INTERNAL, "a source without bytes was read");
}

static void close_checkpoint(void *self) {
    sft_checkpoint_close(self);
}

sft_status sft_checkpoint_take_global(sft_catalog **out, sft_checkpoint *checkpoint,
                                      const sft_open_options *options, sft_error *err) {
    sft_source_vtable vtable;
    sft_source *keeper;
    *out = NULL;
    if (checkpoint->kind == SFT_CHECKPOINT_COMPLETE || checkpoint->kind == SFT_CHECKPOINT_STEPS ||
        checkpoint->kind == SFT_CHECKPOINT_STEP) {
        /* one catalog already: it needs no keeper */
        *out = checkpoint->catalogs[0];
        checkpoint->count = 0;
        sft_checkpoint_close(checkpoint);
        return SFT_OK;
    }
    sft_zero(&vtable, sizeof vtable);
    vtable.struct_size = sizeof vtable;
    vtable.read_at = read_nothing;
    vtable.close = close_checkpoint;
    const sft_status status = sft_source_create(&keeper, &vtable, checkpoint, 0, 0,
                                                checkpoint->folder, checkpoint->allocator, err);
    if (status != SFT_OK) {
        sft_checkpoint_close(checkpoint);
        return status;
    }
    return join(out, checkpoint, options, keeper, err);
}
