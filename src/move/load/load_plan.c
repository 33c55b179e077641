/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/load_plan.c - the jobs of a load. Tensors that are neighbours in their file and stay as they
 * are become one run, which lies in memory as in the file, at an address that equals the file's
 * position modulo 4,096; so any run can be read directly, in whole pages, odd ends included. Runs
 * are cut where the memory, not the file, crosses a multiple of the job size: a huge page is
 * touched by one worker. Tensors that go to places of their own, or through a kernel, are parts of
 * jobs that are cut between elements. Read first: load.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "io/source.h"
#include "move/load/load.h"
#include "move/read.h"

#define PAGE_MASK (SFT__FS_DIRECT_ALIGN - 1)
enum { PLAN_PARTS = 1024, PLAN_RANGES = 64 };

/* The plan in the making. */
typedef struct planner {
    sft__move_load *w;
    /* bytes [begin, end) of a source, begin's page at `total`; end 0: none */
    uint64_t begin;
    uint64_t end;
    uint32_t source;
    size_t first_slot;
    bool open; /* parts may join the last job */
} planner;

/* ---------------------------------------------------------------- jobs and parts */

static sft_status push_job(sft__move_load *w, const sft__move_load_job *job, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(w->loaded->allocator, w->jobs, w->job_room, w->job_count, err));
    w->jobs[w->job_count++] = *job;
    return SFT_OK;
}

static sft_status push_part(sft__move_load *w, sft__move_load_job *job, size_t slot, uint64_t begin,
                            uint64_t size, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(w->loaded->allocator, w->parts, w->part_room, w->part_count, err));
    if (job->part_count == 0) {
        job->part = w->part_count;
    }
    job->part_count++;
    w->parts[w->part_count++] = (sft__move_load_part){slot, begin, size, 0, 0, 0};
    return SFT_OK;
}

static bool in_order(const sft__move_load *w, uint32_t source) {
    return (sft_source_flags(sft__move_load_source_of(w, source)) & SFT_SOURCE_SEQUENTIAL) != 0;
}

/* A range of a source as jobs. What reads in order only is not cut. */
static sft_status push_range(sft__move_load *w, uint32_t source, uint64_t offset, uint64_t size,
                             uint64_t at, sft_error *err) {
    const bool whole = in_order(w, source);

    while (size > 0) {
        const uint64_t step = sft__base_size.load_job - at % sft__base_size.load_job;
        const uint64_t n = size < step || whole ? size : step;
        const sft__move_load_job job = {NULL, offset, n, at, 0, 0, source, SFT__LOAD_BULK, 1};
        SFT_TRY(push_job(w, &job, err));
        offset += n;
        at += n;
        size -= n;
    }
    return SFT_OK;
}

static sft_status too_much(sft_error *err) {
    return sft__base_fail(err, SFT_E_OVERFLOW, "the tensors' bytes together overflow 64 bits");
}

/* ---------------------------------------------------------------- runs */

/* Gives the jobs from `first` on their shares of the tensors [first_slot, end_slot). */
static sft_status run_parts(planner *p, size_t first, size_t end_slot, sft_error *err) {
    sft__move_load *w = p->w;
    size_t j = first;

    for (size_t i = p->first_slot; i < end_slot; i++) {
        const sft_tensor *t = sft_catalog_at(w->loaded->catalog, i);
        if (w->loaded->slots[i].data == NULL || t->nbytes == 0) {
            continue;
        }
        const uint64_t begin = t->pieces[0].offset;
        const uint64_t end = begin + t->nbytes;
        while (w->jobs[j].offset + w->jobs[j].size <= begin) {
            j++;
        }
        for (size_t k = j; k < w->job_count && w->jobs[k].offset < end; k++) {
            sft__move_load_job *job = &w->jobs[k];
            const uint64_t a = job->offset > begin ? job->offset : begin;
            const uint64_t b = job->offset + job->size < end ? job->offset + job->size : end;
            SFT_TRY(push_part(w, job, i, a - begin, b - a, err));
        }
    }
    return SFT_OK;
}

static sft_status end_run(planner *p, size_t end_slot, sft_error *err) {
    sft__move_load *w = p->w;
    const uint64_t skew = p->begin & PAGE_MASK;
    const size_t first = w->job_count;
    uint64_t room;

    p->open = false;
    if (p->end == 0) {
        return SFT_OK;
    }
    SFT_TRY(push_range(w, p->source, p->begin, p->end - p->begin, w->total + skew, err));
    if (!sft__base_align64(skew + (p->end - p->begin), SFT__FS_DIRECT_ALIGN, &room) ||
        !sft__base_add64(w->total, room, &w->total)) {
        return too_much(err);
    }
    p->end = 0;
    return w->loaded->facts != NULL ? run_parts(p, first, end_slot, err) : SFT_OK;
}

static sft_status plan_bulk(planner *p, size_t index, const sft_piece *piece, sft_error *err) {
    sft__move_load *w = p->w;
    /* one that takes many ranges at once has its round trips together: a gap costs its bytes */
    const bool remote =
        (sft_source_flags(sft__move_load_source_of(w, piece->source)) & SFT_SOURCE_REMOTE) != 0 &&
        !w->loaded->sources[piece->source].batches;
    const uint64_t gap = remote ? SFT__LOAD_GAP_REMOTE : SFT__LOAD_GAP;

    if (p->end == 0 || piece->source != p->source || piece->offset < p->end ||
        piece->offset - p->end > gap) {
        SFT_TRY(end_run(p, index, err));
        if (!sft__base_align64(w->total, SFT__FS_DIRECT_ALIGN, &w->total)) {
            return too_much(err);
        }
        p->source = piece->source;
        p->begin = piece->offset;
        p->first_slot = index;
    }
    p->end = piece->offset + piece->nbytes; /* within the source: the catalog is checked */
    w->loaded->slots[index].at = w->total + (p->begin & PAGE_MASK) + (piece->offset - p->begin);
    return SFT_OK;
}

/* ---------------------------------------------------------------- parts */

/* The last job, if a part of this kind at this offset may join it; else NULL. */
static sft__move_load_job *open_job(planner *p, uint32_t kind, uint32_t source, uint64_t offset) {
    sft__move_load *w = p->w;
    sft__move_load_job *job = w->job_count > 0 ? &w->jobs[w->job_count - 1] : NULL;

    if (!p->open || job == NULL || job->kind != kind || job->source != source ||
        job->part_count >= PLAN_PARTS || offset < job->offset + job->size) {
        return NULL;
    }
    const uint64_t gap = offset - (job->offset + job->size);
    const uint64_t most = kind == SFT__LOAD_THROUGH ? SFT__LOAD_GAP : 0;
    return gap > most || offset - job->offset >= sft__base_size.load_job ? NULL : job;
}

/* A tensor's packed bytes as parts; cut between elements unless whole. offset: of its first byte in
 * the job's terms. */
static sft_status push_tensor(planner *p, const sft__move_load_job *like, size_t index,
                              uint64_t size, bool whole, sft_error *err) {
    sft__move_load *w = p->w;
    const uint64_t unit = sft__move_load_unit(w, index);

    p->open = p->open && !whole;
    for (uint64_t at = 0; at < size;) {
        const uint64_t offset = like->offset + at;
        sft__move_load_job *job = open_job(p, like->kind, like->source, offset);
        uint64_t n = size - at;
        if (job == NULL) {
            sft__move_load_job fresh = *like;
            fresh.offset = offset;
            SFT_TRY(push_job(w, &fresh, err));
            job = &w->jobs[w->job_count - 1];
        }
        const uint64_t room = sft__base_size.load_job - (offset - job->offset);
        p->open = !whole && like->kind < SFT__LOAD_TENSOR;
        if (n > room && !whole) {
            n = room - room % unit;
            p->open = false;
            if (n == 0) {
                continue; /* in a job of its own */
            }
        }
        SFT_TRY(push_part(w, job, index, at, n, err));
        job->size = offset + n - job->offset;
        at += n;
    }
    return SFT_OK;
}

/* Room in the arena: at the file's position modulo 4,096, or aligned as was asked. */
static sft_status place(planner *p, size_t index, const sft_tensor *t, bool as_in_file,
                        sft_error *err) {
    sft__move_load *w = p->w;
    sft__move_load_slot *slot = &w->loaded->slots[index];
    const uint64_t size = sft__move_load_made(t, slot->dtype, t->nbytes);
    const uint64_t wanted = w->options->alignment;
    uint64_t alignment = wanted > 64 ? wanted : 64;
    uint64_t skew = 0;

    if (as_in_file && wanted == 0) {
        alignment = SFT__FS_DIRECT_ALIGN;
        skew = t->pieces[0].offset & PAGE_MASK;
    }
    if (!sft__base_align64(w->total, alignment, &slot->at) ||
        !sft__base_add64(slot->at, skew, &slot->at) ||
        !sft__base_add64(slot->at, size, &w->total)) {
        return too_much(err);
    }
    return SFT_OK;
}

static sft_status plan_parts(planner *p, size_t index, const sft_tensor *t, sft_error *err) {
    sft__move_load *w = p->w;
    sft__move_load_slot *slot = &w->loaded->slots[index];
    const bool plain = sft__move_packed(t);
    const bool copy = sft__move_load_kernel(w->options, t, slot->dtype) == SFT__KERNEL_COPY;
    const sft__move_load_fact *fact = w->loaded->facts != NULL ? &w->loaded->facts[index] : NULL;
    bool whole = fact != NULL && (fact->want & SFT_DIGEST_SHA256) != 0;
    sft__move_load_job like = {NULL, 0, 0, 0, 0, 0, t->pieces[0].source, SFT__LOAD_TENSOR, 1};

    if (p->end != 0) {
        SFT_TRY(end_run(p, index, err));
    }
    if (slot->at != SFT__LOAD_FINAL) {
        SFT_TRY(place(p, index, t, plain && copy, err));
    }
    for (uint32_t k = 0; k < t->piece_count; k++) {
        whole = whole || in_order(w, t->pieces[k].source);
    }
    if (plain) {
        like.offset = t->pieces[0].offset;
        like.kind = copy && w->loaded->sources[like.source].direct < 0 ? SFT__LOAD_SCATTER
                                                                       : SFT__LOAD_THROUGH;
    }
    return push_tensor(p, &like, index, t->nbytes, whole, err);
}

static sft_status plan_borrow(planner *p, size_t index, const sft_tensor *t, sft_error *err) {
    sft__move_load *w = p->w;
    sft__move_load_slot *slot = &w->loaded->slots[index];
    const sft__move_load_fact *fact = w->loaded->facts != NULL ? &w->loaded->facts[index] : NULL;
    const sft__move_load_job like = {NULL, 0, 0, 0, 0, 0, 0, SFT__LOAD_MAPPED, 1};
    const void *data;
    size_t size;

    SFT_TRY(sft_tensor_borrow(w->loaded->catalog, t, &data, &size, err));
    memcpy(&slot->data, &data, sizeof slot->data); /* only the type says const */
    slot->at = SFT__LOAD_FINAL;
    if ((w->options->flags & SFT_LOAD_POPULATE) == 0 && (fact == NULL || fact->want == 0)) {
        return SFT_OK;
    }
    return push_tensor(p, &like, index, t->nbytes,
                       fact != NULL && (fact->want & SFT_DIGEST_SHA256) != 0, err);
}

/* Jobs that a source gets together: neighbours, of up to so many bytes and ranges. */
static void plan_batches(sft__move_load *w) {
    sft__move_load_job *head = NULL;
    uint64_t bytes = 0;
    uint64_t ranges = 0;

    for (size_t i = 0; i < w->job_count; i++) {
        sft__move_load_job *job = &w->jobs[i];
        const uint64_t n = job->kind == SFT__LOAD_SCATTER ? job->part_count : 1;
        if (job->kind >= SFT__LOAD_TENSOR || !w->loaded->sources[job->source].batches) {
            head = NULL;
        } else if (head != NULL && head->source == job->source &&
                   bytes + job->size <= sft__base_size.load_batch && ranges + n <= PLAN_RANGES) {
            head->batch++;
            job->batch = 0;
            bytes += job->size;
            ranges += n;
        } else {
            head = job;
            bytes = job->size;
            ranges = n;
        }
    }
}

sft_status sft__move_load_plan(sft__move_load *w, sft_error *err) {
    const sft_load_options *o = w->options;
    planner p = {w, 0, 0, 0, 0, false};

    for (size_t i = 0; i < w->loaded->slot_count; i++) {
        const sft_tensor *t = sft_catalog_at(w->loaded->catalog, i);
        sft__move_load_slot *slot = &w->loaded->slots[i];
        if (slot->data == NULL || t->nbytes == 0) {
            continue;
        }
        const sft__move_load_fact *fact = w->loaded->facts != NULL ? &w->loaded->facts[i] : NULL;
        if (o->strategy == SFT_STRATEGY_MAP) {
            SFT_TRY(plan_borrow(&p, i, t, err));
        } else if (sft__move_packed(t) && o->alignment == 0 && slot->at != SFT__LOAD_FINAL &&
                   sft__move_load_kernel(o, t, slot->dtype) == SFT__KERNEL_COPY &&
                   (fact == NULL || (fact->want & SFT_DIGEST_SHA256) == 0)) {
            SFT_TRY(plan_bulk(&p, i, t->pieces, err));
        } else {
            SFT_TRY(plan_parts(&p, i, t, err));
        }
    }
    SFT_TRY(end_run(&p, w->loaded->slot_count, err));
    plan_batches(w);
    return SFT_OK;
}
