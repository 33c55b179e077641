/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group_load.c - parts of a saved model into memory of the caller's: a catalog of exactly
 * these parts is made of the pieces that the files hold, and loaded into place. Read group_parts.h
 * and assembly.h first.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/group/group_parts.h"
#include "checkpoint/open/assembly.h"
#include <sft/load.h>
#include <stdio.h>

typedef struct loading {
    sft_group_load_options options; /* options.source points at `source`, or nowhere */
    sft_checkpoint_options source;
    const sft_allocator *allocator;
    sft__checkpoint_gset set;
    sft_catalog *global;
    bool borrowed; /* it was open already */
    sft__checkpoint_assembly assembly;
    sft_catalog *parts;
    size_t *select; /* beside places: position in parts */
    sft_load_place *places;
    const sft_dtype **dtypes;
    size_t wanted;
    sft__base_buf name;
    sft_error *err;
} loading;

/* ---------------------------------------------------------------- the model */

static sft_status open_global(loading *l, const char *path, sft_error *err) {
    const sft_checkpoint_options *const given = l->options.source;
    const sft_open_options *const open = given != NULL ? given->open : NULL;
    sft_checkpoint *checkpoint;
    uint32_t kind;
    const bool told = given != NULL && (given->layouts != NULL || given->step != NULL);
    if (!told) {
        SFT_TRY(sft_checkpoint_detect(path, &kind, err));
        if (kind == SFT_CHECKPOINT_NONE) {
            return sft_catalog_open(&l->global, path, open, err);
        }
    }
    SFT_TRY(sft_checkpoint_open(&checkpoint, path, given, err));
    return sft_checkpoint_take_global(&l->global, checkpoint, open, err);
}

/* ---------------------------------------------------------------- parts */

static sft_status check(const loading *l, const sft_group_tensor *want, const sft_tensor *have,
                        sft_error *err) {
    bool same = want->dims == have->rank;
    for (uint32_t d = 0; d < want->dims && same; d++) {
        same = want->shape[d] == have->shape[d];
    }
    if (!same) {
        return sft__base_fail_tensor(err, SFT_E_SHAPE, SFT_NO_OFFSET, want->name, want->name_len,
                                     "has another shape in the checkpoint than is asked for");
    }
    if (want->dtype->id != have->dtype->id && (l->options.flags & SFT_GROUP_CAST) == 0) {
        return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, want->name, want->name_len,
                                     "is %s in the checkpoint, and %s is asked for",
                                     have->dtype->name, want->dtype->name);
    }
    return SFT_OK;
}

static sft_status take_boxes(loading *l, const sft__checkpoint_gpart *p, const sft_tensor *t) {
    uint64_t zeros[SFT_LAYOUT_RANK] = {0};
    if (t->rank > SFT_LAYOUT_RANK) {
        return sft__base_fail_tensor(l->err, SFT_E_LIMIT, SFT_NO_OFFSET, t->name, t->name_len,
                                     "too many dimensions to be sharded");
    }
    return sft__checkpoint_assembly_box(&l->assembly, 0, t, p->start, p->local, zeros);
}

/* Names are unique in a catalog; a process may want several boxes of one tensor. */
static sft_status add(loading *l, const sft__checkpoint_gpart *p, const sft_tensor *t,
                      size_t index) {
    sft_tensor like = *t;
    if (p->file > 0) {
        char text[32];
        l->name.len = 0;
        (void)snprintf(text, sizeof text, "\n%llu", (unsigned long long)index);
        sft__base_buf_add(&l->name, t->name, t->name_len);
        sft__base_buf_text(&l->name, text);
        SFT_NEED(!l->name.failed, l->name.len, l->err);
        like.name = l->name.data;
        like.name_len = l->name.len;
    }
    l->places[l->wanted].data = p->tensor->data;
    l->places[l->wanted].size = (size_t)p->tensor->nbytes; /* memory of the caller's */
    l->dtypes[l->wanted] = p->tensor->dtype->id != t->dtype->id ? p->tensor->dtype : NULL;
    l->select[l->wanted] = l->wanted;
    l->wanted++;
    return sft__checkpoint_assembly_add(&l->assembly, 0, &like, p->local, p->local_dims);
}

static sft_status take_part(loading *l, const sft__checkpoint_gpart *p, size_t index) {
    const sft_group_tensor *const want = p->tensor;
    const sft_tensor *const have = sft_catalog_find(l->global, want->name, want->name_len);
    const uint64_t rank = l->set.group != NULL ? l->set.group->rank : 0;
    if (have == NULL) {
        return (l->options.flags & SFT_GROUP_MISSING) != 0
                   ? SFT_OK
                   : sft__base_fail_tensor(l->err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, want->name,
                                           want->name_len, "is not in the checkpoint");
    }
    SFT_TRY(check(l, want, have, l->err));
    if (want->nbytes == 0) {
        return SFT_OK; /* nothing to be read */
    }
    if (p->layout != NULL) {
        SFT_TRY(sft__checkpoint_part_take(&l->assembly, have, p->layout, rank, l->err));
    } else if (p->start == NULL || p->elements == p->global) {
        SFT_TRY(sft__checkpoint_assembly_global(&l->assembly, 0, have));
    } else {
        SFT_TRY(take_boxes(l, p, have));
    }
    return add(l, p, have, index);
}

static sft_status make_parts(loading *l, sft_error *err) {
    const sft_catalog *const global = l->global;
    const sft_checkpoint_options *const given = l->options.source;
    const size_t count = l->set.count;
    SFT_TRY(sft__checkpoint_assembly_init(&l->assembly, &global, 1,
                                          given != NULL ? given->open : NULL, err));
    l->select = sft__base_alloc_array(l->allocator, count + 1, sizeof *l->select);
    l->places = sft__base_alloc_zero(l->allocator, (count + 1) * sizeof *l->places);
    l->dtypes = sft__base_alloc_array(l->allocator, count + 1, sizeof(const sft_dtype *));
    SFT_NEED(l->select != NULL && l->places != NULL && l->dtypes != NULL,
             (count + 1) * sizeof *l->places, err);
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(take_part(l, &l->set.parts[i], i));
    }
    return l->wanted > 0 ? sft_builder_finish(&l->parts, l->assembly.builder, err) : SFT_OK;
}

/* ---------------------------------------------------------------- all of it */

static sft_status load(loading *l, const char *path, sft_error *err) {
    sft_load_options o;
    sft_loaded *loaded;
    if (!l->borrowed) {
        SFT_TRY(open_global(l, path, err));
    }
    SFT_TRY(make_parts(l, err));
    if (l->wanted == 0) {
        return SFT_OK;
    }
    SFT_INIT(&o);
    o.allocator = l->allocator;
    o.select = l->select;
    o.select_count = l->wanted;
    o.places = l->places;
    o.dtypes = (l->options.flags & SFT_GROUP_CAST) != 0 ? l->dtypes : NULL;
    o.pool = l->options.pool;
    o.control = l->options.control;
    o.strategy = l->options.strategy;
    SFT_TRY(sft_load(&loaded, l->parts, &o, err));
    sft_loaded_free(loaded);
    return SFT_OK;
}

static void reset(loading *l) {
    const size_t n = l->set.count + 1;
    sft_catalog_close(l->parts);
    sft__checkpoint_assembly_reset(&l->assembly);
    if (!l->borrowed) {
        sft_catalog_close(l->global);
    }
    sft__base_free(l->allocator, l->select, n * sizeof *l->select);
    sft__base_free(l->allocator, l->places, n * sizeof *l->places);
    sft__base_free(l->allocator, l->dtypes, n * sizeof *l->dtypes);
    sft__base_buf_reset(&l->name);
    sft__checkpoint_gset_reset(&l->set);
}

static sft_status prepare(loading *l, const sft_group *group, const sft_group_tensor *tensors,
                          size_t count, const sft_group_load_options *options, sft_error *err) {
    SFT_TRY(sft__base_options_read(&l->options, sizeof l->options, options,
                                   SFT__UP_TO(sft_group_load_options, source), "options", err));
    const sft_checkpoint_options *const given = l->options.source;
    SFT_TRY(sft__base_options_read(&l->source, sizeof l->source, given,
                                   SFT__UP_TO(sft_checkpoint_options, open),
                                   "options of the source", err));
    l->options.source = given != NULL ? &l->source : NULL;
    l->allocator =
        sft__base_allocator(given != NULL && given->open != NULL ? given->open->allocator : NULL);
    sft__base_buf_init(&l->name, l->allocator);
    l->set.group = group;
    l->set.allocator = l->allocator;
    SFT_TRY(sft__checkpoint_gset_init(&l->set, tensors, count, l->options.layouts, err));
    for (size_t i = 0; i < count; i++) {
        l->set.parts[i].mine = true;
        if (l->set.parts[i].tensor->nbytes > SIZE_MAX) {
            return sft__base_fail(err, SFT_E_OVERFLOW, "a part larger than memory");
        }
    }
    return sft__checkpoint_gset_number(&l->set, err);
}

sft_status sft__checkpoint_load_parts(const sft_group *group, sft_catalog *global,
                                      const sft_group_tensor *tensors, size_t count,
                                      const sft_group_load_options *options, sft_error *err) {
    sft_error why;
    loading l;
    memset(&l, 0, sizeof l);
    l.err = err != NULL ? err : &why;
    l.allocator = sft__base_allocator(NULL);
    l.global = global;
    l.borrowed = true;
    sft_status status = prepare(&l, group, tensors, count, options, l.err);
    if (status == SFT_OK) {
        status = load(&l, "", l.err);
    }
    reset(&l);
    return sft__checkpoint_group_agree(group, status, false, err);
}

sft_status sft_checkpoint_load_group(const sft_group *group, const char *path,
                                     const sft_group_tensor *tensors, size_t count,
                                     const sft_group_load_options *options,
                                     sft_group_result *result, sft_error *err) {
    uint64_t sums[1] = {0};
    sft_error why;
    loading l;
    SFT_TRY(sft__checkpoint_group_check(group, err));
    if (count == SFT_GROUP_FAILED) {
        return sft__checkpoint_group_agree(group,
                                           err != NULL && err->status != SFT_OK
                                               ? (sft_status)err->status
                                               : sft__base_fail(err, SFT_E_CANCELLED, "has failed"),
                                           false, err);
    }
    memset(&l, 0, sizeof l);
    l.err = err != NULL ? err : &why;
    l.allocator = sft__base_allocator(NULL);
    sft_status status = prepare(&l, group, tensors, count, options, l.err);
    if (status == SFT_OK) {
        status = sft__base_result_check(result, SFT__UP_TO(sft_group_result, bytes), l.err);
    }
    if (status == SFT_OK) {
        status = load(&l, path, l.err);
    }
    for (size_t i = 0; i < l.wanted; i++) {
        sums[0] += l.places[i].size;
    }
    sft_group_result full = {.struct_size = sizeof full, .bytes = sums[0], .tensors = l.wanted};
    reset(&l);
    status = sft__checkpoint_group_agree(group, status, false, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_group_sum(group, sums, 1, err);
    }
    if (result != NULL) {
        full.total_bytes = sums[0];
        sft__base_result_write(result, &full, sizeof full);
    }
    return status;
}
