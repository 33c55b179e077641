/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/stream_plan.c - what was added to a stream, as runs: neighbours in the order of reading
 * become one run, which lies in memory as in its file. Read first: move/load/stream.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "move/load/arena.h"
#include "move/load/stream.h"
#include "move/read.h"
#include <stdlib.h>

#define PAGE_MASK   ((uint64_t)SFT__FS_DIRECT_ALIGN - 1)
#define BUDGET      ((uint64_t)64 << 20)
#define NO_BUDGET   (UINT64_MAX & ~PAGE_MASK)
#define BUDGET_RUNS 8 /* a budget holds at least so many runs of neighbours */

/* ---------------------------------------------------------------- adding */

/* The options with everything that they point to, in one piece. */
static sft_status copy_read(const sft_stream *s, const sft__move_view *v, sft_read_options o,
                            sft__move_want *w, sft_error *err) {
    /* Cannot overflow: slices are at most one more than dimensions, and both arrays exist. */
    const size_t slices = o.slice_count * sizeof *o.slices;
    const size_t strides = o.dst_strides != NULL ? v->rank * sizeof *o.dst_strides : 0;

    w->read_size = sizeof o + slices + strides;
    w->read = sft__base_alloc(s->allocator, w->read_size);
    SFT_NEED(w->read != NULL, w->read_size, err);
    uint8_t *behind = (uint8_t *)(w->read + 1);
    if (slices > 0) {
        memcpy(behind, o.slices, slices);
        o.slices = (const void *)behind;
    }
    if (strides > 0) {
        memcpy(behind + slices, o.dst_strides, strides);
        o.dst_strides = (const void *)(behind + slices);
    }
    o.pool = NULL;
    o.control = NULL;
    *w->read = o;
    return SFT_OK;
}

static sft_status check_view(const sft_catalog *catalog, const sft__move_view *v,
                             const sft_read_options *o, const sft__move_want *w, sft_error *err) {
    sft__move_grid g;
    size_t size;
    bool empty;

    if (w->dst == NULL && o->dst_strides != NULL) {
        return sft__base_fail(err, SFT_E_ARG, "dst_strides need a dst");
    }
    if (w->dst != NULL && v->span > w->dst_size) {
        return sft__base_fail(err, SFT_E_ARG, "the result takes %llu bytes, dst has %llu",
                              (unsigned long long)v->span, (unsigned long long)w->dst_size);
    }
    if (!sft__base_size_from_u64(v->nbytes, &size)) {
        return sft__base_fail(err, SFT_E_OVERFLOW,
                              "%llu bytes are more than this process can address",
                              (unsigned long long)v->nbytes);
    }
    for (uint32_t i = 0; i < v->tensor->piece_count && v->elements > 0; i++) {
        SFT_TRY(sft__move_view_grid(v, i, &g, &empty, err));
    }
    return v->kernel == SFT__KERNEL_CONVERT ? sft_catalog_can_cast(catalog, v->tensor, err)
                                            : SFT_OK;
}

static sft_status add(sft_stream *s, const sft_read_options *read, sft__move_want *w,
                      sft_error *err) {
    sft_read_options o;
    sft__move_view v;
    uint64_t bytes = 0;

    SFT_TRY(sft__move_read_options_get(read, &o, err));
    sft_status status = sft__move_view_init(&v, w->tensor, &o, err);
    if (status == SFT_OK) {
        status = check_view(s->catalog, &v, &o, w, err);
    }
    if (status == SFT_OK && !sft__base_add64(s->bytes, v.nbytes, &bytes)) {
        status =
            sft__base_fail(err, SFT_E_OVERFLOW, "the results' bytes together overflow 64 bits");
    }
    if (status == SFT_OK &&
        (v.kernel != SFT__KERNEL_COPY || v.borrow || o.slice_count != 0 || o.dst_strides != NULL)) {
        status = copy_read(s, &v, o, w, err);
    }
    if (status == SFT_OK) {
        w->nbytes = v.nbytes;
        s->bytes = bytes;
    }
    sft__move_view_reset(&v);
    return status;
}

sft_status sft_stream_add(sft_stream *stream, const sft_tensor *tensor,
                          const sft_read_options *read, void *dst, size_t dst_size,
                          sft_error *err) {
    if (stream == NULL || tensor == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "stream or tensor is NULL");
    }
    if (stream->started) {
        return sft__base_fail(err, SFT_E_STATE, "the stream has started");
    }
    if (sft_catalog_at(stream->catalog, sft_catalog_index_of(stream->catalog, tensor)) != tensor &&
        sft_catalog_find(stream->catalog, tensor->name, tensor->name_len) != tensor) {
        return sft__base_fail(err, SFT_E_ARG, "the tensor is not of this catalog");
    }
    SFT_TRY(SFT_ONE_MORE(stream->allocator, stream->wants, stream->want_capacity,
                         stream->want_count, err));
    sft__move_want *w = &stream->wants[stream->want_count];
    *w = (sft__move_want){.tensor = tensor, .dst = dst, .dst_size = dst_size};
    w->index = stream->want_count;
    SFT_TRY(sft__move_name_tensor(err, tensor, add(stream, read, w, err)));
    stream->want_count++;
    return SFT_OK;
}

sft_status sft_stream_add_all(sft_stream *stream, sft_error *err) {
    if (stream == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "stream is NULL");
    }
    const size_t count = sft_catalog_count(stream->catalog);
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(sft_stream_add(stream, sft_catalog_at(stream->catalog, i), NULL, NULL, 0, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- order */

static int compare_places(const void *a, const void *b) {
    const sft__move_want *x = a;
    const sft__move_want *y = b;
    const sft_piece none = {.source = UINT32_MAX};
    const sft_piece *p = x->tensor->piece_count > 0 ? x->tensor->pieces : &none;
    const sft_piece *q = y->tensor->piece_count > 0 ? y->tensor->pieces : &none;

    if (p->source != q->source) {
        return p->source < q->source ? -1 : 1;
    }
    if (p->offset != q->offset) {
        return p->offset < q->offset ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

bool sft__move_want_plain(const sft__move_want *w) {
    return w->read == NULL && sft__move_packed(w->tensor);
}

/* ---------------------------------------------------------------- runs */

static sft_status push(sft_stream *s, const sft__move_run *run, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(s->allocator, s->runs, s->run_capacity, s->run_count, err));
    s->runs[s->run_count++] = *run;
    return SFT_OK;
}

static uint64_t skew_of(const sft_stream *s, uint64_t begin) {
    return s->options.alignment != 0 ? 0 : begin & PAGE_MASK;
}

/* Tensors that lie behind the run's last one, before too large a gap; and those of no bytes. */
static bool joins(const sft_stream *s, const sft__move_run *run, const sft__move_want *w) {
    const sft__move_want *first = &s->wants[run->first];
    const sft_piece *p = w->tensor->pieces;

    if (run->kind == SFT__RUN_RANGE && run->begin != first->tensor->pieces[0].offset) {
        return false; /* a part */
    }
    if (w->nbytes == 0 || run->kind != SFT__RUN_RANGE) {
        return w->nbytes == 0;
    }
    if (!sft__move_want_plain(w) || w->dst != NULL || first->dst != NULL ||
        s->options.alignment != 0 || p->source != run->source || p->offset < run->end ||
        p->offset + w->nbytes - (run->begin & ~PAGE_MASK) > s->cap) {
        return false;
    }
    const uint32_t flags = sft_source_flags(sft_catalog_source_at(s->catalog, p->source));
    const uint64_t gap = (flags & SFT_SOURCE_REMOTE) != 0 ? SFT__LOAD_GAP_REMOTE : SFT__LOAD_GAP;
    return p->offset - run->end <= gap;
}

/* Bytes of a part that begins there: whole blocks that take `cap` in memory, if it can be. */
static uint64_t part_of(const sft_stream *s, const sft__move_want *w, uint64_t begin) {
    const uint64_t room = s->cap - skew_of(s, begin);
    const uint32_t block = w->tensor->dtype->block_bytes;
    return room > block ? room - room % block : block;
}

/* A tensor that is no neighbour of what was before. */
static sft_status plan_alone(sft_stream *s, size_t index, sft_error *err) {
    const sft__move_want *w = &s->wants[index];
    sft__move_run run = {.kind = SFT__RUN_EMPTY, .first = index, .count = 1};

    if (w->nbytes == 0) {
        return push(s, &run, err);
    }
    if (!sft__move_want_plain(w)) {
        run.kind = SFT__RUN_VIEW;
        run.end = w->nbytes;
        return push(s, &run, err);
    }
    run.kind = SFT__RUN_RANGE;
    run.source = w->tensor->pieces[0].source;
    run.begin = w->tensor->pieces[0].offset;
    run.end = run.begin + w->nbytes; /* within the source */
    if ((s->options.flags & SFT_STREAM_PARTS) != 0 && w->dst == NULL) {
        const uint64_t end = run.end;
        uint64_t part = part_of(s, w, run.begin);
        for (; end - run.begin > part; part = part_of(s, w, run.begin)) {
            run.end = run.begin + part;
            SFT_TRY(push(s, &run, err));
            run.begin = run.end;
        }
        run.end = end;
    }
    return push(s, &run, err);
}

/* Bytes of the budget that a run takes, with the margins that direct reads need; too many: more
 * than any budget. */
static uint64_t room_of(const sft_stream *s, const sft__move_run *run) {
    const sft__move_want *w = &s->wants[run->first];
    const uint64_t skew = run->kind == SFT__RUN_RANGE ? skew_of(s, run->begin) : 0;
    uint64_t room;

    if (w->dst != NULL || run->kind == SFT__RUN_EMPTY) {
        return 0;
    }
    /* cannot overflow: below the size of the source, or of memory, and two pages */
    return sft__base_align64(skew + (run->end - run->begin), SFT__FS_DIRECT_ALIGN, &room)
               ? room
               : NO_BUDGET;
}

static sft_status plan_runs(sft_stream *s, sft_error *err) {
    for (size_t i = 0; i < s->want_count; i++) {
        sft__move_run *last = s->run_count > 0 ? &s->runs[s->run_count - 1] : NULL;
        if (last != NULL && last->first + last->count == i && joins(s, last, &s->wants[i])) {
            last->count++;
            last->end = s->wants[i].nbytes > 0
                            ? s->wants[i].tensor->pieces[0].offset + s->wants[i].nbytes
                            : last->end;
        } else {
            SFT_TRY(plan_alone(s, i, err));
        }
    }
    return SFT_OK;
}

static uint32_t jobs_of(const sft_stream *s, const sft__move_run *run) {
    if (run->kind != SFT__RUN_RANGE) {
        return run->kind == SFT__RUN_VIEW ? 1 : 0;
    }
    /* below 2^32: no file system has files of 2^55 bytes, and memory has not */
    return s->serial || (s->recorded != NULL && run->count > 1)
               ? 1
               : (uint32_t)((run->end - 1) / sft__base_size.load_job -
                            run->begin / sft__base_size.load_job + 1);
}

/* The budget; then which runs fit into it. */
static sft_status plan_room(sft_stream *s, sft_error *err) {
    uint64_t budget = s->options.memory_bytes & ~PAGE_MASK;
    uint64_t largest = 0;
    uint64_t total = 0;

    for (size_t i = 0; i < s->run_count; i++) {
        s->runs[i].room = room_of(s, &s->runs[i]);
        largest = s->runs[i].room > largest ? s->runs[i].room : largest;
    }
    if (s->options.memory_bytes == 0) {
        budget = largest > UINT64_MAX / 3 ? NO_BUDGET : largest * 3;
        budget = budget > BUDGET ? budget : BUDGET;
    }
    for (size_t i = 0; i < s->run_count; i++) {
        sft__move_run *run = &s->runs[i];
        if (run->room > budget) {
            run->kind = SFT__RUN_TOO_LARGE;
            run->room = 0;
        }
        run->jobs = run->jobs_left = jobs_of(s, run);
        run->held = run->count;
        if (!sft__base_add64(total, run->room, &total)) {
            total = NO_BUDGET;
        }
    }
    s->size = total < budget ? total : budget;
    if (s->size > 0) {
        sft_arena *arena = s->options.arena;
        if (arena == NULL) {
            SFT_TRY(sft_arena_create(&s->own, 0, 0, s->allocator, err));
            arena = s->own;
        }
        SFT_TRY(sft__move_data_arena_take(arena, s->size, &s->memory, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- sources */

/* What slices and casts span of their sources, gaps included. */
static void add_spans(sft_stream *s, const sft__move_want *w) {
    sft__move_view v;
    sft__move_grid g;
    bool empty;

    if (sft__move_view_init(&v, w->tensor, w->read, NULL) == SFT_OK) { /* as when it was added */
        for (uint32_t k = 0; k < w->tensor->piece_count; k++) {
            if (sft__move_view_grid(&v, k, &g, &empty, NULL) == SFT_OK && !empty) {
                sft__move_grid_for_reading(&g);
                s->sources[w->tensor->pieces[k].source].wanted += sft__move_grid_src_span(&g);
            }
        }
    }
    sft__move_view_reset(&v);
}

static void plan_sources(sft_stream *s) {
    for (size_t i = 0; i < s->want_count; i++) {
        const sft__move_want *w = &s->wants[i];
        if (w->nbytes > 0 && !sft__move_want_plain(w)) {
            add_spans(s, w);
        }
        for (uint32_t k = 0; k < w->tensor->piece_count && w->nbytes > 0; k++) {
            const uint32_t source = w->tensor->pieces[k].source;
            if (sft__move_want_plain(w) && w->dst == NULL) {
                s->sources[source].wanted += w->nbytes;
            }
            if ((sft_source_flags(sft_catalog_source_at(s->catalog, source)) &
                 SFT_SOURCE_SEQUENTIAL) != 0) {
                s->serial = true;
            }
        }
    }
    sft__io_readers_open(s->sources, s->source_count, s->options.strategy,
                         s->options.alignment != 0);
}

static sft_status plan_verify(sft_stream *s, sft_error *err) {
    bool found = false;

    if ((s->options.flags & SFT_STREAM_VERIFY) == 0) {
        return SFT_OK;
    }
    /* cannot overflow: the catalog holds an array of larger entries */
    const size_t size = (sft_catalog_count(s->catalog) + 1) * sizeof *s->recorded;
    s->recorded = sft__base_alloc_zero(s->allocator, size);
    SFT_NEED(s->recorded != NULL, size, err);
    SFT_TRY(sft__move_recorded_load(s->catalog, SFT_DIGEST_CRC32C, s->allocator, s->recorded,
                                    &found, err));
    found = false;
    for (size_t i = 0; i < s->want_count; i++) {
        const size_t at = sft_catalog_index_of(s->catalog, s->wants[i].tensor);
        found = found || (s->wants[i].read == NULL && s->recorded[at].have != 0 &&
                          s->wants[i].tensor == sft_catalog_at(s->catalog, at));
    }
    return found ? SFT_OK
                 : sft__base_fail(err, SFT_E_NOT_FOUND,
                                  "no CRC32C is recorded of the tensors that are to be streamed");
}

sft_status sft__move_stream_plan(sft_stream *s, sft_error *err) {
    const uint64_t budget = s->options.memory_bytes != 0 ? s->options.memory_bytes : BUDGET;

    s->cap = (budget / BUDGET_RUNS) & ~PAGE_MASK;
    s->cap = s->cap < sft__base_size.load_job ? s->cap : sft__base_size.load_job;
    s->cap = s->cap > PAGE_MASK ? s->cap : PAGE_MASK + 1;
    for (size_t i = 1; i < s->want_count && s->options.order != SFT_STREAM_GIVEN; i++) {
        if (compare_places(&s->wants[i - 1], &s->wants[i]) > 0) {
            qsort(s->wants, s->want_count, sizeof *s->wants, compare_places);
            break;
        }
    }
    plan_sources(s);
    SFT_TRY(plan_verify(s, err));
    SFT_TRY(plan_runs(s, err));
    return plan_room(s, err);
}
