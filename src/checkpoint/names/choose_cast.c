/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/choose_cast.c - a source whose bytes are tensors of a catalog as other types: what is read
 * of it is read there, and cast. Read checkpoint/names/names.h first.
 */
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/need.h"
#include "checkpoint/names/names.h"
#include <sft/digest.h>
#include <sft/extend.h>
#include <sft/layout.h>
#include <stdlib.h>
#include <string.h>

/* Elements that are cast at once; a multiple of every block of the format's types. Bytes of them that are
 * read at once, and for one part of a range. */
enum { AT_ONCE = 1 << 17, MARGIN = 8, READ_MOST = 64 << 20, PART_MOST = 8 << 20, WIDEST = 16 };

typedef struct casting {
    const sft_allocator *allocator;
    const sft_catalog *in;
    sft__checkpoint_casts casts; /* owned */
    uint64_t version;
    void *ctx;
    void (*casted)(void *ctx, const sft_tensor *tensor, const sft_dtype *to, const void *before,
                   const void *after, size_t n);
} casting;

/* Elements that begin and end at a byte as both types. */
static uint64_t unit_of(const sft__checkpoint_cast *one) {
    const uint64_t a = one->to->block_elements;
    const uint64_t b = one->tensor->dtype->block_elements;
    return a > b ? a : b; /* blocks are of 1, 2 or 4 elements */
}

static uint64_t bytes_of(const sft_dtype *dtype, uint64_t elements) {
    return elements / dtype->block_elements * dtype->block_bytes;
}

/* What one read works with. room, spare: for the elements of either type that are cast at once. */
typedef struct reading {
    const casting *c;
    uint8_t *room;
    uint8_t *spare;
    const uint8_t *from; /* elements from `first` on, read before; NULL: they are to be read */
    uint64_t first;
} reading;

/* Elements [first, first + n), whole units or up to the end, to `out`. */
static sft_status cast_run(const reading *r, const sft__checkpoint_cast *one, uint64_t first,
                           uint64_t n, void *out, sft_error *err) {
    const casting *const c = r->c;
    const sft_dtype *const from = one->tensor->dtype;
    const sft_cast cast = {one->to, from, 0};
    const uint8_t *src = r->room;
    if (r->from != NULL) {
        src = r->from + (size_t)bytes_of(from, first - r->first);
    } else {
        SFT_TRY(sft_tensor_read_bytes(c->in, one->tensor, bytes_of(from, first), r->room,
                                      (size_t)bytes_of(from, n), err));
    }
    SFT_TRY(sft_convert(out, src, n, &cast, err));
    if (c->casted != NULL) {
        c->casted(c->ctx, one->tensor, one->to, src, out, (size_t)n);
    }
    return SFT_OK;
}

/* Bytes [at, at + size) of the tensor as the other type. */
static sft_status read_one(const reading *r, const sft__checkpoint_cast *one, uint64_t at,
                           uint8_t *dst, size_t size, sft_error *err) {
    const uint64_t unit = unit_of(one);
    const uint64_t unit_bytes = bytes_of(one->to, unit);
    while (size > 0) {
        const uint64_t first = at / unit_bytes * unit;
        const size_t skip = (size_t)(at % unit_bytes);
        const uint64_t units = (skip + (uint64_t)size + unit_bytes - 1) / unit_bytes;
        uint64_t n = one->elements - first;
        n = n < units * unit ? n : units * unit;
        n = n < AT_ONCE ? n : AT_ONCE;
        const size_t made = (size_t)bytes_of(one->to, n) - skip;
        const size_t take = made < size ? made : size;
        const bool whole = skip == 0 && take == made;
        SFT_TRY(cast_run(r, one, first, n, whole ? dst : r->spare, err));
        if (!whole) {
            memcpy(dst, r->spare + skip, take);
        }
        dst += take;
        at += take;
        size -= take;
    }
    return SFT_OK;
}

/* The tensor in which the byte lies. */
static const sft__checkpoint_cast *find(const casting *c, uint64_t offset) {
    size_t low = 0;
    size_t high = c->casts.count;
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;
        *(c->casts.list[mid].begin <= offset ? &low : &high) = mid;
    }
    return &c->casts.list[low];
}

static sft_status cast_read_at(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    const casting *const c = self;
    uint8_t *out = dst;
    /* of half a byte, and a unit at either end */
    const size_t elements = size < AT_ONCE / 2 ? 2 * size + MARGIN : AT_ONCE + MARGIN;
    const size_t bytes = elements * WIDEST;
    uint8_t *const room = sft__base_alloc(c->allocator, 2 * bytes);
    sft_status status = SFT_OK;
    SFT_NEED(room != NULL, 2 * bytes, err);
    const reading r = {c, room, room + bytes, NULL, 0};
    while (size > 0 && status == SFT_OK) {
        const sft__checkpoint_cast *const one = find(c, offset);
        const uint64_t left = one->begin + one->nbytes - offset;
        const size_t n = left < size ? (size_t)left : size;
        status = read_one(&r, one, offset - one->begin, out, n, err);
        out += n;
        offset += n;
        size -= n;
    }
    sft__base_free(c->allocator, room, 2 * bytes);
    return status;
}

/* ---------------------------------------------------------------- many ranges */

/* Of one range what one tensor has of it, at most PART_MOST bytes. */
typedef struct part {
    const sft__checkpoint_cast *one;
    uint64_t at; /* of the tensor as the other type */
    size_t size;
    uint8_t *dst;
    uint64_t first; /* elements that it takes */
    uint64_t count;
    size_t room; /* where they are read to */
} part;

/* Bytes of a source of the catalog. */
typedef struct run {
    uint32_t source;
    sft_io_range range;
} run;

typedef struct gathering {
    const casting *c;
    part *parts;
    size_t part_count;
    size_t part_room;
    size_t bytes; /* that the parts take */
    uint8_t *memory;
    run *runs;
    size_t run_count;
    size_t run_room;
    sft_error *err;
} gathering;

static sft_status add_run(gathering *g, uint32_t source, uint64_t offset, uint8_t *dst,
                          size_t size) {
    run *const last = g->run_count != 0 ? &g->runs[g->run_count - 1] : NULL;
    if (last != NULL && last->source == source && last->range.offset + last->range.size == offset &&
        (uint8_t *)last->range.data + last->range.size == dst) {
        last->range.size += size;
        return SFT_OK;
    }
    SFT_NEED(
        sft__base_grow(g->c->allocator, &g->runs, &g->run_room, g->run_count + 1, sizeof *g->runs),
        (g->run_count + 1) * sizeof *g->runs, g->err);
    g->runs[g->run_count++] = (run){source, {offset, dst, size}};
    return SFT_OK;
}

/* The element's place in the piece's packed order; false: it is not of the piece. */
static bool in_piece(const sft_tensor *t, const sft_piece *p, const uint64_t *at, uint64_t *index) {
    *index = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        const uint64_t start = p->start != NULL ? p->start[d] : 0;
        const uint64_t count = p->count != NULL ? p->count[d] : t->shape[d];
        if (at[d] < start || at[d] - start >= count) {
            return false;
        }
        *index = *index * count + (at[d] - start);
    }
    return true;
}

/* The next element, `n` behind in its row. */
static void advance(const sft_tensor *t, uint64_t *at, uint64_t n) {
    uint32_t d = t->rank - 1;
    at[d] += n;
    while (d > 0 && at[d] == t->shape[d]) {
        at[d--] = 0;
        at[d]++;
    }
}

/* Rows of a tensor whose pieces are boxes, packed. */
static sft_status add_rows(gathering *g, const part *p) {
    const sft_tensor *const t = p->one->tensor;
    const uint32_t last = t->rank - 1;
    uint8_t *dst = g->memory + p->room;
    uint64_t at[SFT_LAYOUT_RANK];
    uint64_t rest = p->first;
    uint32_t hint = 0;
    for (uint32_t d = t->rank; d-- > 0;) {
        at[d] = rest % t->shape[d];
        rest /= t->shape[d];
    }
    for (uint64_t left = p->count; left > 0;) {
        uint64_t index = 0;
        uint32_t tried = 0;
        while (tried < t->piece_count && !in_piece(t, &t->pieces[hint], at, &index)) {
            hint = (hint + 1) % t->piece_count;
            tried++;
        }
        if (tried == t->piece_count) { /* what is not there is an error of reading */
            return sft_tensor_read_bytes(g->c->in, t, bytes_of(t->dtype, p->first),
                                         g->memory + p->room, (size_t)bytes_of(t->dtype, p->count),
                                         g->err);
        }
        const sft_piece *const piece = &t->pieces[hint];
        const uint64_t start = piece->start != NULL ? piece->start[last] : 0;
        const uint64_t count = piece->count != NULL ? piece->count[last] : t->shape[last];
        uint64_t n = start + count - at[last];
        n = n < left ? n : left;
        const size_t size = (size_t)bytes_of(t->dtype, n);
        SFT_TRY(add_run(g, piece->source, piece->offset + bytes_of(t->dtype, index), dst, size));
        dst += size;
        left -= n;
        advance(t, at, n);
    }
    return SFT_OK;
}

static bool is_whole(const sft_tensor *t) {
    return t->piece_count == 1 && t->pieces[0].strides == NULL && t->pieces[0].nbytes == t->nbytes;
}

/* What cannot be asked for with others is read here. */
static sft_status add_part(gathering *g, const part *p) {
    const sft_tensor *const t = p->one->tensor;
    bool boxes = t->dtype->block_elements == 1 && t->rank > 0 && t->rank <= SFT_LAYOUT_RANK;
    for (uint32_t i = 0; i < t->piece_count; i++) {
        boxes = boxes && t->pieces[i].strides == NULL;
    }
    const uint64_t offset = bytes_of(t->dtype, p->first);
    const size_t size = (size_t)bytes_of(t->dtype, p->count);
    if (is_whole(t)) {
        return add_run(g, t->pieces[0].source, t->pieces[0].offset + offset, g->memory + p->room,
                       size);
    }
    return boxes ? add_rows(g, p)
                 : sft_tensor_read_bytes(g->c->in, t, offset, g->memory + p->room, size, g->err);
}

static int by_source(const void *a, const void *b) {
    const run *const x = a;
    const run *const y = b;
    if (x->source != y->source) {
        return x->source < y->source ? -1 : 1;
    }
    return x->range.offset < y->range.offset ? -1 : x->range.offset > y->range.offset;
}

/* The runs of each source at once. */
static sft_status read_runs(gathering *g) {
    sft_io_range *const ranges =
        sft__base_alloc_array(g->c->allocator, g->run_count + 1, sizeof *ranges);
    sft_status status = SFT_OK;
    SFT_NEED(ranges != NULL, g->run_count * sizeof *ranges, g->err);
    if (g->run_count > 1) {
        qsort(g->runs, g->run_count, sizeof *g->runs, by_source);
    }
    for (size_t i = 0; i < g->run_count && status == SFT_OK;) {
        const uint32_t source = g->runs[i].source;
        size_t n = 0;
        for (; i < g->run_count && g->runs[i].source == source; i++) {
            ranges[n++] = g->runs[i].range;
        }
        status = sft_source_read_many(sft_catalog_source_at(g->c->in, source),
                                      &(sft_io_batch){ranges, n, NULL, NULL, NULL}, g->err);
    }
    sft__base_free(g->c->allocator, ranges, (g->run_count + 1) * sizeof *ranges);
    return status;
}

static sft_status cast_parts(const gathering *g, uint8_t *spare) {
    for (size_t i = 0; i < g->part_count; i++) {
        const part *const p = &g->parts[i];
        const reading r = {g->c, NULL, spare, g->memory + p->room, p->first};
        SFT_TRY(read_one(&r, p->one, p->at, p->dst, p->size, g->err));
    }
    return SFT_OK;
}

/* Reads and casts what was collected. */
static sft_status flush(gathering *g) {
    const size_t spare = (size_t)(AT_ONCE + MARGIN) * WIDEST;
    const size_t all = g->bytes + spare;
    sft_status status = SFT_OK;
    if (g->part_count == 0) {
        return SFT_OK;
    }
    g->memory = sft__base_alloc(g->c->allocator, all);
    SFT_NEED(g->memory != NULL, all, g->err);
    g->run_count = 0;
    for (size_t i = 0; i < g->part_count && status == SFT_OK; i++) {
        status = add_part(g, &g->parts[i]);
    }
    if (status == SFT_OK) {
        status = read_runs(g);
    }
    if (status == SFT_OK) {
        status = cast_parts(g, g->memory + g->bytes);
    }
    sft__base_free(g->c->allocator, g->memory, all);
    g->part_count = 0;
    g->bytes = 0;
    return status;
}

static sft_status collect(gathering *g, const sft_io_range *range) {
    uint64_t offset = range->offset;
    uint8_t *dst = range->data;
    for (size_t left = range->size; left > 0;) {
        const sft__checkpoint_cast *const one = find(g->c, offset);
        const uint64_t unit = unit_of(one);
        const uint64_t unit_bytes = bytes_of(one->to, unit);
        const uint64_t there = one->begin + one->nbytes - offset;
        part p = {.one = one, .at = offset - one->begin, .size = left, .dst = dst};
        p.size = p.size < PART_MOST ? p.size : PART_MOST;
        p.size = p.size < there ? p.size : (size_t)there;
        p.first = p.at / unit_bytes * unit;
        p.count = (p.at + p.size + unit_bytes - 1) / unit_bytes * unit - p.first;
        p.count = p.count < one->elements - p.first ? p.count : one->elements - p.first;
        p.room = g->bytes;
        SFT_NEED(sft__base_grow(g->c->allocator, &g->parts, &g->part_room, g->part_count + 1,
                                sizeof *g->parts),
                 (g->part_count + 1) * sizeof *g->parts, g->err);
        g->parts[g->part_count++] = p;
        g->bytes += ((size_t)bytes_of(one->tensor->dtype, p.count) + 15) & ~(size_t)15;
        offset += p.size;
        dst += p.size;
        left -= p.size;
        if (g->bytes >= READ_MOST) {
            SFT_TRY(flush(g));
        }
    }
    return SFT_OK;
}

/* A slice's rows, or columns: what they take of the sources is asked for at once. */
static sft_status cast_read_many(void *self, const sft_io_batch *batch, sft_error *err) {
    gathering g;
    sft_status status = SFT_OK;
    memset(&g, 0, sizeof g);
    g.c = self;
    g.err = err;
    for (size_t i = 0; i < batch->count && status == SFT_OK; i++) {
        status = collect(&g, &batch->ranges[i]);
    }
    if (status == SFT_OK) {
        status = flush(&g);
    }
    sft__base_free(g.c->allocator, g.parts, g.part_room * sizeof *g.parts);
    sft__base_free(g.c->allocator, g.runs, g.run_room * sizeof *g.runs);
    for (size_t i = 0; i < batch->count; i++) {
        batch->done(batch->done_ctx, i, status, status == SFT_OK ? NULL : err);
    }
    return status;
}

/* Behind URLs as what the tensors lie in. */
static uint32_t flags_of(const sft_catalog *in, const sft__checkpoint_casts *casts) {
    uint32_t remote = 0;
    uint32_t scattered = SFT_SOURCE_SCATTERED;
    for (size_t i = 0; i < casts->count; i++) {
        const sft_tensor *const t = casts->list[i].tensor;
        for (uint32_t k = 0; k < t->piece_count; k++) {
            const uint32_t flags = sft_source_flags(sft_catalog_source_at(in, t->pieces[k].source));
            remote |= flags & SFT_SOURCE_REMOTE;
            scattered &= flags;
        }
    }
    return remote != 0 ? remote | scattered : 0;
}

static uint64_t cast_version(void *self) {
    return ((const casting *)self)->version;
}

static void cast_close(void *self) {
    casting *const c = self;
    sft__base_free(c->allocator, c->casts.list, c->casts.room * sizeof *c->casts.list);
    sft__base_free(c->allocator, c, sizeof *c);
}

/* Of what is cast to what; what the bytes of it are, the sources of the catalog know. */
static uint64_t version_of(const sft__checkpoint_cast *list, size_t count) {
    uint32_t from = 0;
    uint32_t to = 0;
    for (size_t i = 0; i < count; i++) {
        sft_tensor t = *list[i].tensor;
        from = sft_digest_describe(from, &t);
        t.dtype = list[i].to;
        to = sft_digest_describe(to, &t);
    }
    return (uint64_t)to << 32 | from | 1; /* 0 would be: not known */
}

sft_status sft__checkpoint_cast_source(sft_source **out, const sft_catalog *in,
                                       const sft__checkpoint_casts *casts,
                                       const sft_choose_options *options, sft_error *err) {
    const sft_allocator *const a =
        sft__base_allocator(options->open != NULL ? options->open->allocator : NULL);
    const sft__checkpoint_cast *const last = &casts->list[casts->count - 1];
    sft_source_vtable vtable;
    casting *const c = sft__base_alloc_zero(a, sizeof *c);
    SFT_NEED(c != NULL, sizeof *c, err);
    *c = (casting){
        a, in, *casts, version_of(casts->list, casts->count), options->ctx, options->casted};
    memset(&vtable, 0, sizeof vtable);
    vtable.struct_size = sizeof vtable;
    vtable.read_at = cast_read_at;
    vtable.read_many = cast_read_many;
    vtable.close = cast_close;
    vtable.version = cast_version;
    const sft_source_info info = {last->begin + last->nbytes, flags_of(in, casts),
                                  "tensors that are cast", a};
    const sft_status status = sft_source_create(out, &vtable, c, &info, err);
    if (status != SFT_OK) {
        sft__base_free(a, c, sizeof *c);
    }
    return status;
}
