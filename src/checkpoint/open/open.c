/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/open.c - opening a checkpoint of many ranks by its kind, or from catalogs that are open
 * already, joining its ranks, and how it is opened at the one door. The kinds: complete.c, ranks.c,
 * boxes.c. Read checkpoint/open/checkpoint.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/layouts/parallel_facts.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/run/steps.h"

/* A step of a training run that one process saved: all of it, model, optimizer and state. */
static sft_status open_step(sft_checkpoint *c, sft_error *err) {
    sft__checkpoint_run_manifest m;
    sft_open_options o = c->open;
    sft_catalog *catalog;
    o.limits = &c->limits;
    SFT_TRY(sft__checkpoint_run_manifest_read(&m, c->directory, &c->arena, err));
    SFT_TRY(sft__checkpoint_run_open_files(&catalog, c->directory, &m, &o, err));
    return sft__checkpoint_add(c, 0, catalog, err);
}

/* How tensors are sharded, where the caller names a file that says it. */
static sft_status read_layout_file(sft_checkpoint *c, const sft_checkpoint_options *options,
                                   sft_error *err) {
    sft_layout_set_options o;
    sft_error why;

    if (options->layout == NULL || c->layouts != NULL) {
        return SFT_OK;
    }
    SFT_INIT(&o);
    o.ranks = options->layout_ranks;
    o.allocator = c->allocator;
    const sft_status status = sft_layout_set_open(&c->given, options->layout, &o, &why);
    if (status != SFT_OK) {
        return sft_error_from(err, status, &why, "%s: %s", options->layout, why.message);
    }
    c->layouts = c->given;
    return SFT_OK;
}

/* With what numbers need to be bound to ranks. */
static sft_status read_layout(sft_checkpoint *c, const sft_checkpoint_options *options,
                              sft_error *err) {
    SFT_TRY(read_layout_file(c, options, err));
    if (c->layouts != NULL) {
        c->layouts->config = options->config;
        c->layouts->config_size = options->config_size;
        c->layouts->leaves_out = options->leaves_out;
        c->layouts->leaves_out_ctx = options->leaves_out_ctx;
    }
    return SFT_OK;
}

/* Its kind is known. */
static sft_status open_kind(sft_checkpoint *c, const char *path, sft_error *err) {
    if (c->kind == SFT_CHECKPOINT_RANKS && c->two && c->layouts == NULL && c->step == NULL) {
        return sft__base_fail(err, SFT_E_MISMATCH,
                              "%s holds directories of ranks and complete weights, of two models "
                              "perhaps: param_name_map.json in it stands for the latter, and with "
                              "a layout or a step it is the former",
                              path);
    }
    if (c->kind == SFT_CHECKPOINT_RANKS) {
        /* files of two models, perhaps, and the layout of neither */
        SFT_TRY(sft_model_check(c->directory, err));
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

static sft_status options_read(sft_checkpoint_options *out, const sft_checkpoint_options *given,
                               sft_error *err) {
    return sft__base_options_read(out, sizeof *out, given, SFT__UP_TO(sft_checkpoint_options, open),
                                  "options", err);
}

sft_status sft_checkpoint_open(sft_checkpoint **out, const char *path,
                               const sft_checkpoint_options *options, sft_error *err) {
    sft_checkpoint_options o;
    sft_checkpoint *c;
    *out = NULL;
    SFT_TRY(options_read(&o, options, err));
    SFT_TRY(sft__checkpoint_create(&c, &o, err));
    sft_status status = read_layout(c, &o, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_detect(c, path, err);
    }
    if (status == SFT_OK) {
        status = open_kind(c, path, err);
    }
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
    SFT_NEED(sft__base_grow(c->allocator, &c->parts, &c->room, count + 1, sizeof *c->parts) &&
                 sft__base_grow(c->allocator, &c->catalogs, &c->catalog_room, count + 1,
                                sizeof *c->catalogs),
             (count + 1) * sizeof *c->parts, err);
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

sft_status sft_checkpoint_join_ranks(sft_catalog **out, const sft_checkpoint *checkpoint,
                                     const sft_open_options *options, sft_error *err) {
    const sft_checkpoint *const c = checkpoint;
    sft_open_options o;
    const sft__checkpoint_join what = {.parts = c->parts,
                                       .count = c->count,
                                       .find = sft__checkpoint_find_part,
                                       .ctx = (void *)(uintptr_t)c,
                                       .gaps = c->gaps,
                                       .gap_count = c->gap_count,
                                       .skipped = c->skipped,
                                       .unknown = c->unknown,
                                       .partial = c->partial,
                                       .holes = c->holes};
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_open_options, allocator),
                                   "open options", err));
    SFT_TRY(sft__checkpoint_join_parts(out, &what, &o, err));
    const sft_status status = c->layouts != NULL && c->layouts->parallel != NULL
                                  ? sft__checkpoint_parallel_beside(*out, true, err)
                                  : SFT_OK;
    if (status != SFT_OK) {
        sft_catalog_close(*out);
        *out = NULL;
    }
    return status;
}

/* ---------------------------------------------------------------- as one catalog */

#define ATTACHED "sft.checkpoint"

static void drop_checkpoint(void *self) {
    sft_checkpoint_close(self);
}

sft_status sft_checkpoint_take_global(sft_catalog **out, sft_checkpoint *checkpoint,
                                      const sft_open_options *options, sft_error *err) {
    sft_catalog *catalog = NULL;
    sft_status status = SFT_OK;
    *out = NULL;
    if (checkpoint->kind == SFT_CHECKPOINT_COMPLETE || checkpoint->kind == SFT_CHECKPOINT_STEPS ||
        checkpoint->kind == SFT_CHECKPOINT_STEP) {
        catalog = checkpoint->catalogs[0]; /* one catalog already, which now owns instead */
        checkpoint->catalogs[0] = NULL;
    } else {
        status = sft_checkpoint_join_ranks(&catalog, checkpoint, options, err);
    }
    if (status == SFT_OK) {
        status = sft_catalog_attach(catalog, ATTACHED, checkpoint, drop_checkpoint, err);
    }
    if (status != SFT_OK) {
        sft_catalog_close(catalog); /* first: it borrows */
        sft_checkpoint_close(checkpoint);
        return status;
    }
    *out = catalog;
    return SFT_OK;
}

const sft_checkpoint *sft_checkpoint_of(const sft_catalog *catalog) {
    return sft_catalog_attached(catalog, ATTACHED);
}

/* ---------------------------------------------------------------- at the one door */

/* Only a directory, or a description in one, can be a checkpoint; the rest is for others. */
static sft_status detect(sft_checkpoint *c, const sft_operand *operand, sft_error *err) {
    if (operand->kind == SFT_OPERAND_BYTES) {
        return SFT_OK;
    }
    const sft_status status = sft__checkpoint_detect(c, operand->path, err);
    return status == SFT_E_NOMEM || status == SFT_E_LIMIT ? status : SFT_OK;
}

/* A URL, of ranks or not. */
static sft_status open_url(sft_checkpoint *c, const sft_checkpoint_options *o, const char *url,
                           bool *own, sft_error *err) {
    SFT_TRY(read_layout(c, o, err));
    *own = sft__checkpoint_is_url_ranks(c, url);
    if (!*own) {
        return SFT_OK;
    }
    SFT_TRY(sft__checkpoint_url_ranks(c, url, err));
    return sft__checkpoint_keeps_promise(c, err);
}

static sft_status open_operand(sft_operand *operand, const void *options, sft_catalog **out,
                               sft_error *err) {
    sft_checkpoint_options o;
    sft_checkpoint *c;
    SFT_TRY(options_read(&o, options, err));
    o.open = o.open != NULL ? o.open : operand->open;
    SFT_TRY(sft__checkpoint_create(&c, &o, err));
    if (operand->kind == SFT_OPERAND_URL) {
        bool own = false;
        const sft_status status =
            o.source != NULL ? open_url(c, &o, operand->path, &own, err) : SFT_OK;
        if (status == SFT_OK && own) {
            return sft_checkpoint_take_global(out, c, o.open, err);
        }
        sft_checkpoint_close(c);
        return status;
    }
    sft_status status = detect(c, operand, err);
    const bool own = c->kind != SFT_CHECKPOINT_NONE ||
                     (o.flags & SFT_CHECKPOINT_NOTHING_ELSE) != 0 ||
                     (o.step != NULL && operand->kind == SFT_OPERAND_DIRECTORY);
    if (status == SFT_OK && own) {
        status = read_layout(c, &o, err);
    }
    if (status == SFT_OK && own) {
        status = open_kind(c, operand->path != NULL ? operand->path : "memory", err);
    }
    if (status == SFT_OK && own) {
        return sft_checkpoint_take_global(out, c, o.open, err);
    }
    sft_checkpoint_close(c);
    return status;
}

const sft_opener *sft_checkpoint_opener(void) {
    static const sft_opener opener = {sizeof opener, open_operand};
    return &opener;
}
