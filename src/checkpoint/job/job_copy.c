/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job_copy.c - one unit of a job: runs in blocks, bands, or a tensor that the core
 * reads. Read job.h first.
 */
#include "base/memory/need.h"
#include "checkpoint/job/job.h"

/* ---------------------------------------------------------------- runs */

/* First run of the file that ends behind `offset`. */
static size_t first_run(const sft_job *job, const sft__checkpoint_job_file *f, uint64_t offset) {
    size_t low = f->first_run;
    size_t high = f->first_run + f->run_count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (job->runs[mid].to + job->runs[mid].size > offset) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

/* Calls visit for stretches of at most `most` bytes without a hole in the file, which end at multiples
 * of `most` where they can. */
static sft_status each_stretch(const sft_job *job, const sft__checkpoint_job_unit *unit,
                               uint64_t most,
                               sft_status (*visit)(void *, size_t, uint64_t, uint64_t, sft_error *),
                               void *ctx, sft_error *err) {
    const sft__checkpoint_job_file *const f = &job->files[unit->which];
    const size_t end = f->first_run + f->run_count;
    size_t i = first_run(job, f, unit->first);
    uint64_t at = unit->first;
    while (i < end && at < unit->end && job->runs[i].to < unit->end) {
        at = at > job->runs[i].to ? at : job->runs[i].to;
        const uint64_t limit = at + (most - at % most);
        uint64_t stop = at;
        for (size_t k = i; k < end && job->runs[k].to <= stop && stop < limit; k++) {
            stop = job->runs[k].to + job->runs[k].size;
        }
        stop = stop < limit ? stop : limit;
        stop = stop < unit->end ? stop : unit->end;
        SFT_TRY(visit(ctx, i, at, stop - at, err));
        at = stop;
        while (i < end && job->runs[i].to + job->runs[i].size <= at) {
            i++;
        }
    }
    return SFT_OK;
}

typedef struct copying {
    const sft_job *job;
    const sft__checkpoint_job_unit *unit;
    uint8_t *buffer;
    sft__checkpoint_job_sink *sink;
} copying;

static sft_status read_source(const copying *c, uint32_t source, uint64_t offset, uint8_t *at,
                              uint64_t size, sft_error *err) {
    c->sink->read += size;
    return sft_source_read(c->job->sources[source].source, offset, at, (size_t)size, err);
}

/* Bytes [at, at + size) of the file: parts that are neighbours in their source are read together.
 */
static sft_status copy_stretch(void *ctx, size_t i, uint64_t at, uint64_t size, sft_error *err) {
    const copying *const c = ctx;
    const uint64_t end = at + size;
    uint64_t begun = at; /* read from here on, once it is known how far */
    uint64_t from = 0;
    uint32_t source = UINT32_MAX;
    for (uint64_t to = at; to < end; i++) {
        const sft__checkpoint_job_run *const r = &c->job->runs[i];
        const uint64_t here = r->from + (to - r->to);
        if (source != r->source || here != from + (to - begun)) {
            if (source != UINT32_MAX) {
                SFT_TRY(read_source(c, source, from, c->buffer + (begun - at), to - begun, err));
            }
            source = r->source;
            from = here;
            begun = to;
        }
        to = r->to + r->size < end ? r->to + r->size : end;
        if (to == end) {
            SFT_TRY(read_source(c, source, from, c->buffer + (begun - at), to - begun, err));
        }
    }
    return c->sink->put(c->sink->ctx, c->unit->which, at, c->buffer, (size_t)size, err);
}

/* How far the runs from `at` on reach before one is large enough for the kernel. */
static uint64_t small_end(const copying *c, size_t i, size_t end, uint64_t at) {
    const sft__checkpoint_job_run *r = &c->job->runs[i];
    uint64_t stop = r->to + r->size;
    while (++i < end && c->job->runs[i].size < sft__base_size.job_direct &&
           stop - at < sft__base_size.job_unit) {
        r = &c->job->runs[i];
        stop = r->to + r->size;
    }
    return stop < c->unit->end ? stop : c->unit->end;
}

/* Long parts inside the kernel, what lies between them in blocks. */
static sft_status copy_runs(copying *c, sft_error *err) {
    const sft__checkpoint_job_file *const f = &c->job->files[c->unit->which];
    const size_t end = f->first_run + f->run_count;
    size_t i = first_run(c->job, f, c->unit->first);
    uint64_t at = c->unit->first;
    while (i < end && at < c->unit->end && c->job->runs[i].to < c->unit->end) {
        const sft__checkpoint_job_run *const r = &c->job->runs[i];
        const int fd = sft_source_descriptor(c->job->sources[r->source].source);
        at = at > r->to ? at : r->to;
        const uint64_t stop = r->to + r->size < c->unit->end ? r->to + r->size : c->unit->end;
        uint64_t moved = 0;
        if (c->sink->move != NULL && fd >= 0 && stop - at >= sft__base_size.job_direct) {
            const sft__checkpoint_range to = {c->unit->which, at, stop - at};
            SFT_TRY(c->sink->move(c->sink->ctx, to, fd, r->from + (at - r->to), &moved, err));
            c->sink->read += moved;
            at += moved;
        }
        if (at < stop) {
            const sft__checkpoint_job_unit part = {c->unit->kind, c->unit->which, at,
                                                   small_end(c, i, end, at), 0};
            SFT_TRY(each_stretch(c->job, &part, sft__base_size.job_block, copy_stretch, c, err));
            at = part.end;
        }
        while (i < end && c->job->runs[i].to + c->job->runs[i].size <= at) {
            i++;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- bands */

/* A slice of the grid: rows [low, high) of the level, one index of each dimension before it. */
typedef struct slice {
    const sft__checkpoint_job_cluster *k;
    uint64_t prefix; /* number of the indexes before the level, row-major */
    uint64_t low;
    uint64_t high;
} slice;

static slice slice_at(const sft__checkpoint_job_cluster *k, uint64_t band) {
    const uint64_t per = (k->extent[k->level] + k->rows - 1) / k->rows;
    slice s = {k, band / per, band % per * k->rows, 0};
    s.high = s.low + k->rows < k->extent[k->level] ? s.low + k->rows : k->extent[k->level];
    return s;
}

/* Rows [first, first + rows) of the grid. */
typedef struct stretch {
    uint64_t first;
    uint64_t rows;
    uint64_t before; /* sum of the strides of the dimensions before */
} stretch;

/* The part of a box at [at, at + count) in the slice. False: none. */
static bool find_stretch(const slice *s, const int64_t *at, const uint64_t *start,
                         const uint64_t *count, const uint64_t *stride, stretch *out) {
    const uint32_t level = s->k->level;
    uint64_t number = s->prefix;
    out->before = 0;
    for (uint32_t d = level; d-- > 0;) {
        const uint64_t index = number % s->k->extent[d];
        const uint64_t low = (uint64_t)at[d] + (start != NULL ? start[d] : 0);
        number /= s->k->extent[d];
        if (index < low || index - low >= count[d]) {
            return false;
        }
        out->before += (index - (uint64_t)at[d]) * stride[d];
    }
    const uint64_t low = (uint64_t)at[level] + (start != NULL ? start[level] : 0);
    const uint64_t end = low + count[level] < s->high ? low + count[level] : s->high;
    out->first = low > s->low ? low : s->low;
    out->rows = out->first < end ? end - out->first : 0;
    return out->rows > 0;
}

/* What a node has in the slice. */
typedef struct part {
    uint8_t *data; /* NULL: nothing */
    uint64_t first;
    uint64_t size;
    uint64_t offset;
} part;

static part part_of(const slice *s, const sft__checkpoint_job_node *n) {
    part p = {NULL, 0, 0, 0};
    stretch in = {0, 0, 0};
    const bool any = find_stretch(s, n->at, NULL, n->count, n->stride, &in);
    p.first = in.first;
    if (any) {
        const uint32_t level = s->k->level;
        p.offset = n->base + in.before + (p.first - (uint64_t)n->at[level]) * n->stride[level];
        p.size = in.rows * n->pitch;
    }
    return p;
}

/* What is wanted of each row, all rows at once: a source that costs round trips has them together. */
static sft_status read_rows(const copying *c, const sft__checkpoint_job_node *n, const part *p,
                            uint32_t level, sft_error *err) {
    const sft_allocator *const a = c->job->allocator;
    const size_t count = (size_t)(p->size / n->pitch);
    sft_io_range *const ranges = sft__base_alloc_array(a, count, sizeof *ranges);
    SFT_NEED(ranges != NULL, count * sizeof *ranges, err);
    for (size_t i = 0; i < count; i++) {
        ranges[i] = (sft_io_range){p->offset + i * n->stride[level] + n->low,
                                   p->data + i * n->pitch, (size_t)n->pitch};
    }
    const sft_io_batch batch = {ranges, count, NULL, NULL, NULL};
    const sft_status status = sft_source_read_many(c->job->sources[n->where].source, &batch, err);
    sft__base_free(a, ranges, count * sizeof *ranges);
    c->sink->read += p->size;
    return status;
}

static sft_status read_part(const copying *c, const sft__checkpoint_job_node *n, const part *p,
                            uint32_t level, sft_error *err) {
    if (n->rows) {
        return read_rows(c, n, p, level, err);
    }
    const uint64_t left = n->end - p->offset; /* the last row may end early */
    return read_source(c, n->where, p->offset, p->data, p->size < left ? p->size : left, err);
}

/* Dimensions of one move inside a slice, coalesced: the innermost is a run of bytes. */
typedef struct loop {
    uint64_t count[SFT__JOB_RANK + 1];
    uint64_t from[SFT__JOB_RANK + 1];
    uint64_t to[SFT__JOB_RANK + 1];
    size_t run;
    uint32_t depth;
} loop;

static void add_dimension(loop *l, uint64_t count, uint64_t from, uint64_t to) {
    if (count == 1) {
        return;
    }
    if (l->depth == 0 && from == l->run && to == l->run) {
        l->run *= (size_t)count;
        return;
    }
    if (l->depth > 0 && from == l->from[l->depth - 1] * l->count[l->depth - 1] &&
        to == l->to[l->depth - 1] * l->count[l->depth - 1]) {
        l->count[l->depth - 1] *= count;
        return;
    }
    l->count[l->depth] = count;
    l->from[l->depth] = from;
    l->to[l->depth++] = to;
}

static void copy_rows(uint8_t *to, const uint8_t *from, const loop *l) {
    const size_t run = l->run;
    const uint64_t n = l->depth > 0 ? l->count[0] : 1;
    const uint64_t from_step = l->depth > 0 ? l->from[0] : 0;
    const uint64_t to_step = l->depth > 0 ? l->to[0] : 0;
    if (run == 2) {
        for (uint64_t i = 0; i < n; i++) {
            memcpy(to + i * to_step, from + i * from_step, 2);
        }
    } else if (run == 4) {
        for (uint64_t i = 0; i < n; i++) {
            memcpy(to + i * to_step, from + i * from_step, 4);
        }
    } else {
        for (uint64_t i = 0; i < n; i++) {
            memcpy(to + i * to_step, from + i * from_step, run);
        }
    }
}

static void copy_loop(uint8_t *to, const uint8_t *from, const loop *l) {
    uint64_t at[SFT__JOB_RANK + 1];
    memset(at, 0, sizeof at);
    for (;;) {
        uint32_t d = 1;
        copy_rows(to, from, l);
        while (d < l->depth) {
            to += l->to[d];
            from += l->from[d];
            if (++at[d] < l->count[d]) {
                break;
            }
            to -= l->to[d] * l->count[d];
            from -= l->from[d] * l->count[d];
            at[d++] = 0;
        }
        if (d >= l->depth) {
            return;
        }
    }
}

/* One move's share of the slice, from buffer to buffer. */
static void scatter(const sft_job *job, const slice *s, const sft__checkpoint_job_move *m,
                    const part *parts) {
    const sft__checkpoint_job_node *const from = &job->nodes[m->source_node];
    const sft__checkpoint_job_node *const to = &job->nodes[m->target_node];
    const part *const a = &parts[m->source_node - s->k->first_node];
    const part *const b = &parts[m->target_node - s->k->first_node];
    const uint32_t level = s->k->level;
    stretch in;
    loop l;
    if (!find_stretch(s, to->at, m->start, m->count, to->stride, &in)) {
        return;
    }
    uint64_t src = (in.first - a->first) * from->pitch;
    uint64_t dst = (in.first - b->first) * to->pitch;
    l.run = m->element;
    l.depth = 0;
    for (uint32_t d = m->rank; d-- > level + 1;) {
        src += m->position[d] * from->stride[d];
        dst += m->start[d] * to->stride[d];
        add_dimension(&l, m->count[d], from->stride[d], to->stride[d]);
    }
    add_dimension(&l, in.rows, from->pitch, to->pitch);
    copy_loop(b->data + dst, a->data + (src - from->low), &l);
}

static sft_status copy_band(const copying *c, const sft__checkpoint_job_cluster *k, uint64_t band,
                            sft_error *err) {
    const slice s = slice_at(k, band);
    part *const parts = (part *)(void *)c->buffer;
    uint8_t *at = c->buffer + k->node_count * sizeof *parts;
    for (size_t i = 0; i < k->node_count; i++) {
        const sft__checkpoint_job_node *const n = &c->job->nodes[k->first_node + i];
        parts[i] = part_of(&s, n);
        parts[i].data = at;
        at += (parts[i].size + 63) & ~(uint64_t)63;
        if (!n->target && parts[i].size > 0) {
            SFT_TRY(read_part(c, n, &parts[i], k->level, err));
        }
    }
    for (size_t i = 0; i < k->move_count; i++) {
        scatter(c->job, &s, &c->job->moves[k->first_move + i], parts);
    }
    for (size_t i = 0; i < k->node_count; i++) {
        const sft__checkpoint_job_node *const n = &c->job->nodes[k->first_node + i];
        if (n->target && parts[i].size > 0) {
            SFT_TRY(c->sink->put(c->sink->ctx, n->where, parts[i].offset, parts[i].data,
                                 (size_t)parts[i].size, err));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- any unit */

static sft_status copy_whole(const copying *c, sft_error *err) {
    const sft__checkpoint_job_whole *const w = &c->job->wholes[c->unit->which];
    for (uint64_t at = c->unit->first; at < c->unit->end;) {
        const uint64_t left = c->unit->end - at;
        const size_t n =
            (size_t)(left < sft__base_size.job_block ? left : sft__base_size.job_block);
        SFT_TRY(sft_tensor_read_bytes(w->catalog, w->tensor, at, c->buffer, n, err));
        c->sink->read += n;
        SFT_TRY(c->sink->put(c->sink->ctx, w->file, w->to + at, c->buffer, n, err));
        at += n;
    }
    return SFT_OK;
}

sft_status sft__checkpoint_job_copy(const sft_job *job, const sft__checkpoint_job_unit *unit,
                                    uint8_t *buffer, sft__checkpoint_job_sink *sink,
                                    sft_error *err) {
    copying c = {job, unit, buffer, sink};
    if (unit->kind == SFT__UNIT_RUNS) {
        return copy_runs(&c, err);
    }
    if (unit->kind == SFT__UNIT_WHOLE) {
        return copy_whole(&c, err);
    }
    for (uint64_t band = unit->first; band < unit->end; band++) {
        SFT_TRY(copy_band(&c, &job->clusters[unit->which], band, err));
    }
    return SFT_OK;
}

typedef struct ranging {
    uint32_t file;
    sft__checkpoint_job_visit visit;
    void *ctx;
} ranging;

static sft_status visit_stretch(void *ctx, size_t i, uint64_t at, uint64_t size, sft_error *err) {
    const ranging *const r = ctx;
    (void)i;
    return r->visit(r->ctx, (sft__checkpoint_range){r->file, at, size}, err);
}

sft_status sft__checkpoint_job_ranges(const sft_job *job, const sft__checkpoint_job_unit *unit,
                                      sft__checkpoint_job_visit visit, void *ctx, sft_error *err) {
    if (unit->kind == SFT__UNIT_RUNS) {
        ranging r = {unit->which, visit, ctx};
        return each_stretch(job, unit, sft__base_size.job_block, visit_stretch, &r, err);
    }
    if (unit->kind == SFT__UNIT_WHOLE) {
        const sft__checkpoint_job_whole *const w = &job->wholes[unit->which];
        return visit(ctx,
                     (sft__checkpoint_range){w->file, w->to + unit->first, unit->end - unit->first},
                     err);
    }
    const sft__checkpoint_job_cluster *const k = &job->clusters[unit->which];
    for (uint64_t band = unit->first; band < unit->end; band++) {
        const slice s = slice_at(k, band);
        for (size_t i = 0; i < k->node_count; i++) {
            const sft__checkpoint_job_node *const n = &job->nodes[k->first_node + i];
            const part p = n->target ? part_of(&s, n) : (part){NULL, 0, 0, 0};
            if (p.size > 0) {
                SFT_TRY(visit(ctx, (sft__checkpoint_range){n->where, p.offset, p.size}, err));
            }
        }
    }
    return SFT_OK;
}
