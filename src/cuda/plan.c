/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/plan.c - see plan.h. Items are laid into the slab in the order of their bytes in the files,
 * each on its alignment. What is one run of bytes in a file joins its neighbours: a job reads a
 * window of the file, gaps of up to 64 KiB included, and copies the wanted parts out of it. Strided
 * slices are cut into boxes.
 */
#include "cuda/plan.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include <stdlib.h>

#define GAP        ((uint64_t)64 << 10)
#define GAP_REMOTE ((uint64_t)1 << 20)
#define PAGE_MASK  ((uint64_t)4095)

static sft_status too_much(sft_error *err) {
    return sft__base_fail(err, SFT_E_OVERFLOW, "the tensors' bytes together overflow 64 bits");
}

/* ---------------------------------------------------------------- items */

/* Whether the box is one run of the packed tensor; *first: its first element. */
static bool one_run(const sft_tensor *t, const sft_dim *dims, uint64_t *first) {
    bool whole = true; /* everything behind this dimension is taken whole */
    uint64_t stride = 1;

    *first = 0;
    for (uint32_t d = t->rank; d-- > 0;) {
        if (dims[d].count != 1 && (!whole || dims[d].step != 1)) {
            return false;
        }
        whole = whole && dims[d].count == t->shape[d];
        *first += dims[d].start * stride; /* below the tensor's elements: cannot overflow */
        stride *= t->shape[d];
    }
    return true;
}

static bool is_plain(const sft_tensor *t) {
    return t->piece_count == 1 && t->pieces->strides == NULL && t->pieces->nbytes == t->nbytes;
}

static sft_status resolve(sft__cuda_plan *p, sft__cuda_place *place, const sft_cuda_item *item,
                          sft_error *err) {
    const sft_tensor *t = item->tensor;
    sft_dim *dims = sft__base_arena_alloc(&p->arena, (t->rank + 1u) * sizeof *dims, 8);
    sft_slice all = {.start = 0, .stop = 0, .step = 1, .kind = SFT_SLICE_ELLIPSIS};
    uint64_t first;

    SFT_NEED(dims != NULL, (t->rank + 1u) * sizeof *dims, err);
    SFT_TRY(sft_slice_resolve(item->slice_count > 0 ? item->slices : &all,
                              item->slice_count > 0 ? item->slice_count : 1, t->shape, t->rank,
                              dims, err));
    place->dims = dims;
    place->kind = SFT__CUDA_BOX;
    if (place->nbytes > 0 && is_plain(t) && one_run(t, dims, &first) &&
        first % t->dtype->block_elements == 0) {
        place->kind = SFT__CUDA_RANGE;
        place->from = t->pieces->offset + first / t->dtype->block_elements * t->dtype->block_bytes;
    }
    return SFT_OK;
}

static sft_status add_item(sft__cuda_plan *p, sft__cuda_place *place, const sft_cuda_item *item,
                           sft_error *err) {
    const sft_tensor *t = item->tensor;
    sft_read_options how;
    uint64_t *shape;

    if (t == NULL || (item->slices == NULL && item->slice_count > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "an item without a tensor, or without its slices");
    }
    shape = sft__base_arena_alloc(&p->arena, (t->rank + 1u) * sizeof *shape, 8);
    SFT_NEED(shape != NULL, (t->rank + 1u) * sizeof *shape, err);
    SFT_INIT(&how);
    how.slices = item->slices;
    how.slice_count = item->slice_count;
    SFT_TRY(sft_tensor_result(t, &how, shape, &place->rank, &place->nbytes, err));
    place->tensor = t;
    place->dtype = t->dtype;
    place->shape = shape;
    place->source = t->piece_count > 0 ? t->pieces->source : 0;
    place->from = t->piece_count > 0 ? t->pieces->offset : 0;
    if (item->slices != NULL) {
        SFT_TRY(resolve(p, place, item, err));
    } else {
        place->kind = is_plain(t) ? SFT__CUDA_RANGE : SFT__CUDA_BYTES;
    }
    if (!sft__base_add64(p->bytes, place->nbytes, &p->bytes)) {
        return too_much(err);
    }
    if (place->source < p->source_count) {
        p->wanted[place->source] += place->nbytes; /* at most p->bytes */
    }
    return SFT_OK;
}

static int before(const void *a, const void *b) {
    const sft__cuda_place *x = *(sft__cuda_place *const *)a;
    const sft__cuda_place *y = *(sft__cuda_place *const *)b;
    if (x->source != y->source) {
        return x->source < y->source ? -1 : 1;
    }
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x < y ? -1 : x > y; /* as they were given */
}

static sft_status lay_out(sft__cuda_plan *p, uint64_t alignment, sft_error *err) {
    for (size_t i = 0; i < p->place_count; i++) {
        sft__cuda_place *place = p->order[i];
        if (!sft__base_align64(p->slab, alignment, &place->offset) ||
            !sft__base_add64(place->offset, place->nbytes, &p->slab)) {
            return too_much(err);
        }
    }
    return SFT_OK;
}

sft_status sft__cuda_plan_init(sft__cuda_plan *plan, const sft_catalog *catalog,
                               const sft_cuda_load_options *o, const sft_allocator *allocator,
                               sft_error *err) {
    const size_t count = o->items != NULL ? o->item_count : sft_catalog_count(catalog);

    memset(plan, 0, sizeof *plan);
    plan->allocator = allocator;
    plan->catalog = catalog;
    plan->place_count = count;
    plan->source_count = sft_catalog_source_count(catalog);
    sft__base_arena_init(&plan->arena, allocator, 0);
    if (count > SIZE_MAX / sizeof *plan->places) {
        return sft__base_fail_nomem(err, SIZE_MAX);
    }
    plan->places = sft__base_alloc_zero(allocator, count * sizeof *plan->places);
    plan->order = sft__base_alloc_array(allocator, count, sizeof *plan->order);
    plan->wanted = sft__base_alloc_zero(allocator, plan->source_count * sizeof *plan->wanted);
    if ((count > 0 && (plan->places == NULL || plan->order == NULL)) ||
        (plan->source_count > 0 && plan->wanted == NULL)) {
        return sft__base_fail_nomem(err, count * sizeof *plan->places);
    }
    for (size_t i = 0; i < count; i++) {
        sft_cuda_item item = {sft_catalog_at(catalog, i), NULL, 0};
        item = o->items != NULL ? o->items[i] : item;
        plan->order[i] = &plan->places[i];
        SFT_TRY(add_item(plan, &plan->places[i], &item, err));
    }
    if (count > 1) {
        qsort(plan->order, count, sizeof *plan->order, before);
    }
    return lay_out(plan, o->alignment, err);
}

void sft__cuda_plan_trim(sft__cuda_plan *p) {
    sft__base_free(p->allocator, p->order, p->place_count * sizeof *p->order);
    sft__base_free(p->allocator, p->jobs, p->job_capacity * sizeof *p->jobs);
    sft__base_free(p->allocator, p->copies, p->copy_capacity * sizeof *p->copies);
    p->order = NULL;
    p->jobs = NULL;
    p->copies = NULL;
    p->job_count = p->job_capacity = 0;
    p->copy_count = p->copy_capacity = 0;
}

void sft__cuda_plan_reset(sft__cuda_plan *p) {
    sft__cuda_plan_trim(p);
    sft__base_free(p->allocator, p->places, p->place_count * sizeof *p->places);
    sft__base_free(p->allocator, p->wanted, p->source_count * sizeof *p->wanted);
    sft__base_arena_free(&p->arena);
    memset(p, 0, sizeof *p);
}

/* ---------------------------------------------------------------- jobs */

static sft_status push_job(sft__cuda_plan *p, const sft__cuda_job *job, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(p->allocator, p->jobs, p->job_capacity, p->job_count, err));
    p->jobs[p->job_count] = *job;
    p->jobs[p->job_count++].copy = p->copy_count;
    return SFT_OK;
}

/* A part of the last job's chunk to the slab; joined to the part before where both go on. */
static sft_status push_copy(sft__cuda_plan *p, uint64_t skew, uint64_t at, uint64_t size,
                            sft_error *err) {
    sft__cuda_job *job = &p->jobs[p->job_count - 1];
    sft__cuda_copy *last = job->copy_count > 0 ? &p->copies[p->copy_count - 1] : NULL;

    if (last != NULL && last->skew + last->size == skew && last->at + last->size == at) {
        last->size += size;
        return SFT_OK;
    }
    SFT_TRY(SFT_ONE_MORE(p->allocator, p->copies, p->copy_capacity, p->copy_count, err));
    p->copies[p->copy_count++] = (sft__cuda_copy){skew, at, size};
    job->copy_count++;
    return SFT_OK;
}

/* Adds a run of a source to the last job if it is near and fits, else to new ones. A chunk holds
 * whole pages of the file, so that any can be read directly: it ends where its first page plus
 * `chunk` is. */
static sft_status add_range(sft__cuda_plan *p, const sft__cuda_place *place, uint64_t chunk,
                            sft_error *err) {
    const sft_source *source = sft_catalog_source_at(p->catalog, place->source);
    const uint64_t gap = (sft_source_flags(source) & SFT_SOURCE_REMOTE) != 0 ? GAP_REMOTE : GAP;
    uint64_t from = place->from;
    uint64_t at = place->offset;
    uint64_t left = place->nbytes;

    while (left > 0) {
        sft__cuda_job *job = p->job_count > 0 ? &p->jobs[p->job_count - 1] : NULL;
        uint64_t limit = job != NULL ? (job->offset & ~PAGE_MASK) + chunk : 0;
        /* Overlapping wishes are read twice. */
        if (job == NULL || job->kind != SFT__CUDA_RANGE || job->source != place->source ||
            from < job->offset + job->size || from - (job->offset + job->size) > gap ||
            from >= limit) {
            const sft__cuda_job fresh = {
                .offset = from, .source = place->source, .kind = SFT__CUDA_RANGE};
            SFT_TRY(push_job(p, &fresh, err));
            job = &p->jobs[p->job_count - 1];
            limit = (from & ~PAGE_MASK) + chunk;
        }
        const uint64_t n = left < limit - from ? left : limit - from;
        const uint64_t skew = from - job->offset;
        job->size = skew + n;
        SFT_TRY(push_copy(p, skew, at, n, err));
        from += n;
        at += n;
        left -= n;
    }
    return SFT_OK;
}

static sft_status add_bytes(sft__cuda_plan *p, size_t index, uint64_t chunk, sft_error *err) {
    const sft__cuda_place *place = &p->places[index];
    for (uint64_t done = 0; done < place->nbytes;) {
        const uint64_t n = place->nbytes - done < chunk ? place->nbytes - done : chunk;
        const sft__cuda_job job = {.offset = done,
                                   .size = n,
                                   .place = index,
                                   .source = place->source,
                                   .kind = SFT__CUDA_BYTES};
        SFT_TRY(push_job(p, &job, err));
        SFT_TRY(push_copy(p, 0, place->offset + done, n, err));
        done += n;
    }
    return SFT_OK;
}

/* How a box is cut: `step` indices of dimension `split` at a time, for each index of those before
 * it. */
typedef struct box_cut {
    uint32_t split;
    uint64_t inner; /* elements of one index of the split dimension */
    uint64_t step;
    uint64_t prefix; /* indices before */
} box_cut;

static sft_status cut_box(const sft__cuda_place *place, uint64_t chunk, box_cut *cut,
                          sft_error *err) {
    const sft_tensor *t = place->tensor;
    const uint64_t block = t->dtype->block_elements;
    const uint64_t room =
        chunk / t->dtype->block_bytes * block; /* elements of a chunk: far from 2^64 */
    uint64_t inner = 1;
    uint32_t d = t->rank;

    /* The outermost dimension one index of which fits; products stay below the tensor's elements.
     */
    while (d > 0 && inner <= room) {
        cut->split = --d;
        cut->inner = inner;
        inner *= place->dims[d].count;
    }
    cut->step = room / cut->inner;
    cut->prefix = 1;
    for (d = 0; d < cut->split; d++) {
        cut->prefix *= place->dims[d].count;
    }
    const uint64_t count = place->dims[cut->split].count;
    if (cut->step >= count) {
        cut->step = count;
    } else if (cut->inner % block != 0) {
        cut->step -= cut->step % block;
    }
    if (cut->step == 0 || (cut->prefix > 1 && count * cut->inner % block != 0)) {
        return SFT_FAIL_TENSOR(
            err, SFT_E_UNSUPPORTED, t,
            "rows of a slice of %s end inside a byte and do not fit a chunk of %llu bytes",
            t->dtype->name, (unsigned long long)chunk);
    }
    return SFT_OK;
}

static sft_status add_box(sft__cuda_plan *p, size_t index, uint64_t chunk, sft_error *err) {
    sft__cuda_place *place = &p->places[index];
    const sft_dtype *type = place->tensor->dtype;
    box_cut cut = {0, 1, 1, 1};

    if (place->nbytes == 0) {
        return SFT_OK;
    }
    if (place->tensor->rank == 0) { /* one element in pieces of its own */
        place->kind = SFT__CUDA_BYTES;
        return add_bytes(p, index, chunk, err);
    }
    SFT_TRY(cut_box(place, chunk, &cut, err));
    place->split = cut.split;
    const uint64_t count = place->dims[cut.split].count;
    uint64_t at = place->offset;
    for (uint64_t prefix = 0; prefix < cut.prefix; prefix++) {
        for (uint64_t start = 0; start < count; start += cut.step) {
            const uint64_t n = count - start < cut.step ? count - start : cut.step;
            const uint64_t size = n * cut.inner / type->block_elements * type->block_bytes;
            const sft__cuda_job job = {.offset = prefix,
                                       .size = size,
                                       .start = start,
                                       .count = n,
                                       .place = index,
                                       .source = place->source,
                                       .kind = SFT__CUDA_BOX};
            SFT_TRY(push_job(p, &job, err));
            SFT_TRY(push_copy(p, 0, at, size, err));
            at += size;
        }
    }
    return SFT_OK;
}

sft_status sft__cuda_plan_jobs(sft__cuda_plan *p, uint64_t chunk, sft_error *err) {
    for (size_t i = 0; i < p->place_count; i++) {
        sft__cuda_place *place = p->order[i];
        const size_t index = (size_t)(place - p->places);
        if (place->kind == SFT__CUDA_RANGE) {
            SFT_TRY(add_range(p, place, chunk, err));
        } else if (place->kind == SFT__CUDA_BYTES) {
            SFT_TRY(add_bytes(p, index, chunk, err));
        } else {
            SFT_TRY(add_box(p, index, chunk, err));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- boxes as slices */

/* Indices [from, from + count) of a resolved dimension, as a slice that keeps it. */
static sft_slice part_of(const sft_dim *dim, uint64_t from, uint64_t count) {
    const int64_t begin = (int64_t)dim->start + (int64_t)from * dim->step;
    const int64_t last = begin + (int64_t)(count - 1) * dim->step;
    sft_slice s = {.start = begin, .stop = last + 1, .step = dim->step, .kind = SFT_SLICE_RANGE};
    if (dim->step < 0) {
        s.stop = last > 0 ? last - 1 : SFT_OMIT; /* -1 would count from the end */
    }
    return s;
}

void sft__cuda_plan_slices(const sft__cuda_place *place, const sft__cuda_job *job,
                           sft_slice *slices) {
    uint64_t prefix = job->offset;
    for (uint32_t d = place->tensor->rank; d-- > 0;) {
        const sft_dim *dim = &place->dims[d];
        if (d > place->split) {
            slices[d] = part_of(dim, 0, dim->count);
        } else if (d == place->split) {
            slices[d] = part_of(dim, job->start, job->count);
        } else {
            slices[d] = part_of(dim, prefix % dim->count, 1);
            prefix /= dim->count;
        }
    }
}
