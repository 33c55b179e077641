/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/job.c - what the reading of every file begins with, asks for and ends with: options and
 * their defaults, the first bytes, scratch memory, and tensors, which are counted against what a file of this
 * size may hold. Read first: import.h.
 */
#include "base/checked.h"
#include "base/limits.h"
#include "base/options.h"
#include "import/core/import.h"

enum { MEMORY_DEFAULT = 192 << 20, AMPLIFY = 64, AMPLIFY_FLOOR = 1 << 30 };

sft_status sft__import_job_options(sft__import *job, const sft_import_options *options,
                                   sft_error *err) {
    sft_import_options *o = &job->options;

    SFT_TRY(sft__base_options_read(o, sizeof *o, options, SFT__UP_TO(sft_import_options, limits),
                                   "options", err));
    SFT_TRY(sft__base_limits_read(&job->limits, o->limits, err));
    if ((uint32_t)o->dedup > SFT_DEDUP_ALIAS) {
        return sft__base_fail(err, SFT_E_ARG, "dedup is %u, 3 is the largest", (unsigned)o->dedup);
    }
    if (o->memory_bytes == 0) {
        o->memory_bytes = MEMORY_DEFAULT;
    }
    if (job->limits.memory_bytes == 0 || job->limits.memory_bytes > o->memory_bytes / 2) {
        job->limits.memory_bytes = o->memory_bytes / 2; /* the catalog's half */
    }
    o->limits = &job->limits;
    job->allocator = sft__base_allocator(o->allocator);
    return SFT_OK;
}

void sft__import_job_reset(sft__import *job) {
    sft__base_arena_free(&job->arena);
    sft_builder_free(job->builder);
    sft__import_inflater_drop(job->inflater);
    sft_import_report_free(job->report);
}

sft_status sft__import_probe_read(sft__import_probe *p, uint8_t head[SFT__IMPORT_HEAD],
                                  const sft_source *source, const sft_allocator *allocator,
                                  sft_error *err) {
    memset(head, 0, SFT__IMPORT_HEAD);
    p->head = head;
    p->source = source;
    p->size = sft_source_size(source);
    p->head_len = p->size < SFT__IMPORT_HEAD ? (size_t)p->size : SFT__IMPORT_HEAD;
    p->allocator = allocator;
    return p->head_len == 0 ? SFT_OK : sft_source_read(source, 0, head, p->head_len, err);
}

/* ---------------------------------------------------------------- for readers */

sft_status sft__import_alloc(sft__import *job, void *pointer, size_t count, size_t size,
                             sft_error *err) {
    size_t bytes;
    void *p = NULL;

    if (sft__base_mul_size(count != 0 ? count : 1, size, &bytes)) {
        p = sft__base_arena_alloc(&job->arena, bytes, 8);
    }
    memcpy(pointer, &p, sizeof p);
    if (p != NULL) {
        return SFT_OK;
    }
    if (job->arena.over_budget) {
        return sft__base_fail(
            err, SFT_E_LIMIT,
            "memory: reading this file needs more than half of the limit of %llu bytes",
            (unsigned long long)job->options.memory_bytes);
    }
    return sft__base_fail_nomem(err, count * size);
}

sft_status sft__import_copy(sft__import *job, char **out, const void *data, size_t len,
                            sft_error *err) {
    SFT_TRY(sft__import_alloc(job, out, len + 1, 1, err));
    if (len != 0) {
        memcpy(*out, data, len);
    }
    (*out)[len] = '\0';
    return SFT_OK;
}

/* What the caller says of the elements' type. */
static sft_status view_as(const sft__import *job, sft_tensor *t, sft_error *err) {
    const sft_dtype *now = t->dtype;
    const sft_dtype *then = now;

    if (job->options.view_as == NULL) {
        return SFT_OK;
    }
    SFT_TRY(job->options.view_as(job->options.view_ctx, t, &then, err));
    if (then == NULL || sft_dtype_get(then->id) == NULL || now->block_elements != 1 ||
        then->block_elements != 1 || then->block_bytes != now->block_bytes) {
        return sft__base_fail_tensor(
            err, SFT_E_DTYPE, SFT_NO_OFFSET, t->name, t->name_len,
            "elements of type %s cannot be seen as %s, which are of another size", now->name,
            then != NULL ? then->name : "none");
    }
    t->dtype = then;
    return SFT_OK;
}

sft_status sft__import_tensor(sft__import *job, const sft_tensor *tensor, sft_error *err) {
    uint64_t file_bytes;
    (void)(sft__base_add64(sft_source_size(job->file), job->beside_bytes, &file_bytes) ||
           (file_bytes = UINT64_MAX) != 0);
    uint64_t most = file_bytes > UINT64_MAX / AMPLIFY ? UINT64_MAX : file_bytes * AMPLIFY;
    uint64_t nbytes = 0;
    uint64_t elements = 1;

    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (!sft__base_mul64(elements, tensor->shape[d], &elements)) {
            elements = 0; /* too large, or one dimension is 0: the builder says which */
            break;
        }
    }
    most = most < AMPLIFY_FLOOR ? AMPLIFY_FLOOR : most;
    if (sft_dtype_bytes(tensor->dtype, elements, &nbytes, NULL) == SFT_OK) {
        if (!sft__base_add64(job->total_bytes, nbytes, &job->total_bytes) ||
            job->total_bytes > most) {
            return sft__base_fail_tensor(
                err, SFT_E_LIMIT, SFT_NO_OFFSET, tensor->name, tensor->name_len,
                "amplification: the tensors so far would have more than %llu "
                "bytes, the file has %llu",
                (unsigned long long)most, (unsigned long long)file_bytes);
        }
    }
    sft_tensor t = *tensor;
    t.file = 0;
    SFT_TRY(view_as(job, &t, err));
    job->tensors++;
    return sft_builder_add_tensor(job->builder, &t, err);
}

bool sft__import_more_named(const sft_allocator *a, sft__base_strmap *map, void *list, size_t *room,
                            size_t count, size_t size) {
    void *entries;

    if (count < *room) {
        return true;
    }
    if (map->slots != NULL) {
        sft__base_strmap_reset(map);
    }
    memset(map, 0, sizeof *map);
    if (!sft__base_grow(a, list, room, count + 1, size)) {
        return false;
    }
    memcpy(&entries, list, sizeof entries);
    if (!sft__base_strmap_init(map, entries, size, *room, a)) {
        memset(map, 0, sizeof *map);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        (void)sft__base_strmap_add(map, i);
    }
    return true;
}
