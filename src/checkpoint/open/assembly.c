/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/assembly.c - boxes of tensors, moved: the arithmetic of pieces. Offsets and strides come
 * from catalogs, which have proven that every piece lies in its source; a box inside it cannot leave it.
 */
#include "checkpoint/open/assembly.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"

#define NONE UINT32_MAX

/* ---------------------------------------------------------------- lent sources */

static sft_status lent_read_at(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    return sft_source_read(self, offset, dst, size, err);
}

static sft_status lent_read_many(void *self, const sft_io_batch *batch, sft_error *err) {
    return sft_source_read_many(self, batch, err);
}

static sft_status lent_borrow(void *self, uint64_t offset, size_t size, const void **data,
                              sft_error *err) {
    return sft_source_borrow(self, offset, size, data, err);
}

static void lent_advise(void *self, uint64_t offset, uint64_t size, sft_advice advice) {
    sft_source_advise(self, offset, size, advice);
}

static int lent_descriptor(void *self) {
    return sft_source_descriptor(self);
}

static uint64_t lent_version(void *self) {
    return sft_source_version(self);
}

/* Reads go to the other catalog's source, which stays open as long as that catalog does. */
static sft_status lend(sft__checkpoint_assembly *a, const sft_source *source, uint32_t *index) {
    sft_source_vtable vtable;
    sft_source *lent;
    sft_zero(&vtable, sizeof vtable);
    vtable.struct_size = sizeof vtable;
    vtable.read_at = lent_read_at;
    vtable.read_many = lent_read_many;
    vtable.borrow = lent_borrow;
    vtable.advise = lent_advise;
    vtable.descriptor = lent_descriptor;
    vtable.version = lent_version;
    /* The vtable's self is not const, the functions behind it take a const source again. */
    SFT_TRY(sft_source_create(&lent, &vtable, (void *)(uintptr_t)source,
                              &(sft_source_info){sft_source_size(source), sft_source_flags(source),
                                                 sft_source_name(source), a->allocator},
                              a->err));
    return sft_builder_add_source(a->builder, lent, index, a->err);
}

/* The builder's number of a source; its file has the same number. */
static sft_status source_index(sft__checkpoint_assembly *a, size_t which, uint32_t source,
                               uint32_t *index) {
    uint32_t *const slot = &a->index[a->first[which] + source];
    if (*slot == NONE) {
        const sft_source *const s = sft_catalog_source_at(a->catalogs[which], source);
        uint32_t file_index;
        sft_file file;
        SFT_TRY(lend(a, s, slot));
        sft_zero(&file, sizeof file);
        const size_t files = sft_catalog_file_count(a->catalogs[which]);
        for (size_t i = 0; i < files; i++) { /* most files have the number of their source */
            const sft_file *const f = sft_catalog_file_at(a->catalogs[which], (source + i) % files);
            if (f->source == source) {
                file = *f;
                break;
            }
        }
        file.path = sft_source_name(s);
        file.size = sft_source_size(s);
        file.has_metadata = 0;
        file.source = *slot;
        SFT_TRY(sft_builder_add_file(a->builder, &file, &file_index, a->err));
    }
    *index = *slot;
    return SFT_OK;
}

sft_status sft__checkpoint_assembly_sources(sft__checkpoint_assembly *a, size_t which) {
    const size_t count = sft_catalog_source_count(a->catalogs[which]);
    uint32_t index;
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(source_index(a, which, (uint32_t)i, &index));
    }
    return SFT_OK;
}

sft_status sft__checkpoint_assembly_lacks(sft__checkpoint_assembly *a, size_t which) {
    const sft_catalog *const from = a->catalogs[which];
    for (size_t i = 0; i < sft_catalog_problem_count(from); i++) {
        const sft_problem *const p = sft_catalog_problem_at(from, i);
        if (p->fatal == 0 &&
            (p->kind == SFT_PROBLEM_MISSING_FILE || p->kind == SFT_PROBLEM_MISSING_TENSOR)) {
            SFT_TRY(sft_builder_add_problem(a->builder, p->kind, p->subject, p->subject_len,
                                            p->message, a->err));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- the object */

sft_status sft__checkpoint_assembly_init(sft__checkpoint_assembly *a,
                                         const sft_catalog *const *catalogs, size_t count,
                                         const sft_open_options *options, sft_error *err) {
    size_t total = 0;
    memset(a, 0, sizeof *a);
    a->allocator = sft__base_allocator(options != NULL ? options->allocator : NULL);
    a->catalogs = catalogs;
    a->catalog_count = count;
    a->err = err;
    SFT_TRY(sft_builder_create(&a->builder, options, err));
    a->first = sft__base_alloc_array(a->allocator, count, sizeof *a->first);
    SFT_NEED(a->first != NULL, count * sizeof *a->first, err);
    for (size_t i = 0; i < count; i++) {
        a->first[i] = total;
        total += sft_catalog_source_count(catalogs[i]);
    }
    a->index = sft__base_alloc_array(a->allocator, total + 1, sizeof *a->index);
    SFT_NEED(a->index != NULL, (total + 1) * sizeof *a->index, err);
    a->index_count = total + 1;
    for (size_t i = 0; i < total; i++) {
        a->index[i] = NONE;
    }
    return SFT_OK;
}

void sft__checkpoint_assembly_reset(sft__checkpoint_assembly *a) {
    sft_builder_free(a->builder);
    sft__base_free(a->allocator, a->first, a->catalog_count * sizeof *a->first);
    sft__base_free(a->allocator, a->index, a->index_count * sizeof *a->index);
    sft__base_free(a->allocator, a->list.pieces, a->list.capacity * sizeof *a->list.pieces);
    sft__base_free(a->allocator, a->list.numbers,
                   a->list.number_capacity * sizeof *a->list.numbers);
    memset(a, 0, sizeof *a);
}

/* One more piece with room for its 3 * rank numbers. */
static sft_status push(sft__checkpoint_assembly *a, size_t rank, sft_piece **piece,
                       uint64_t **numbers) {
    sft__checkpoint_piece_list *const l = &a->list;
    SFT_NEED(
        sft__base_grow(a->allocator, &l->pieces, &l->capacity, l->count + 1, sizeof *l->pieces) &&
            sft__base_grow(a->allocator, &l->numbers, &l->number_capacity,
                           l->number_count + 3 * rank + 1, sizeof *l->numbers),
        (l->count + 1) * sizeof *l->pieces, a->err);
    *piece = &l->pieces[l->count++];
    memset(*piece, 0, sizeof **piece);
    *numbers = l->numbers + l->number_count;
    l->number_count += 3 * rank;
    return SFT_OK;
}

static void unpush(sft__checkpoint_assembly *a, size_t rank) {
    a->list.count--;
    a->list.number_count -= 3 * rank;
}

/* ---------------------------------------------------------------- boxes */

/* The part of a piece that lies in the box: where in the tensor, and how much. False: none. */
static bool intersect(const sft_tensor *t, const sft_piece *p, const uint64_t *from,
                      const uint64_t *count, uint64_t *start, uint64_t *extent) {
    for (uint32_t d = 0; d < t->rank; d++) {
        const uint64_t low = p->start != NULL ? p->start[d] : 0;
        const uint64_t high = low + (p->count != NULL ? p->count[d] : t->shape[d]);
        const uint64_t end = from[d] + count[d] < high ? from[d] + count[d] : high;
        start[d] = from[d] > low ? from[d] : low;
        if (start[d] >= end) {
            return false;
        }
        extent[d] = end - start[d];
    }
    return true;
}

/* Is a box of these extents and element strides contiguous, in row-major order? */
static bool is_packed(const uint64_t *extent, const uint64_t *stride, uint32_t rank) {
    uint64_t expected = 1;
    for (uint32_t d = rank; d-- > 0;) {
        if (extent[d] != 1 && stride[d] != expected) {
            return false;
        }
        expected *= extent[d];
    }
    return true;
}

static sft_status cuts_a_block(const sft__checkpoint_assembly *a, const sft_tensor *t) {
    return sft__base_fail_tensor(
        a->err, SFT_E_SUBBYTE, t->pieces[0].offset, t->name, t->name_len,
        "a cut of %s, whose elements share blocks, goes through a block or is strided",
        t->dtype->name);
}

/* The box of a packed piece: its offset, and strides where it is not packed any more. numbers: start and
 * extent of the box; the strides are put behind them. */
static sft_status place_packed(const sft__checkpoint_assembly *a, const sft_tensor *t,
                               const sft_piece *p, sft_piece *out, uint64_t *numbers) {
    const uint64_t *const start = numbers;
    const uint64_t *const extent = numbers + t->rank;
    uint64_t *const stride = numbers + 2 * (size_t)t->rank;
    uint64_t elements = 1;
    uint64_t at = 0;
    uint64_t step = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        stride[d] = step;
        at += (start[d] - (p->start != NULL ? p->start[d] : 0)) * step;
        step *= p->count != NULL ? p->count[d] : t->shape[d];
        elements *= extent[d];
    }
    const bool packed = is_packed(extent, stride, t->rank);
    const uint32_t block = t->dtype->block_elements;
    if (block != 1 && (!packed || at % block != 0 || elements % block != 0)) {
        return cuts_a_block(a, t);
    }
    out->offset = p->offset + at / block * t->dtype->block_bytes;
    out->strides = packed ? NULL : (const int64_t *)(const void *)stride; /* set for good in add */
    for (uint32_t d = 0; d < t->rank; d++) {
        stride[d] *= t->dtype->block_bytes; /* positive: as int64_t the same bits */
    }
    return SFT_OK;
}

static void place_strided(const sft_tensor *t, const sft_piece *p, const uint64_t *start,
                          sft_piece *out, uint64_t *stride) {
    uint64_t offset = p->offset;
    for (uint32_t d = 0; d < t->rank; d++) {
        const uint64_t steps = start[d] - (p->start != NULL ? p->start[d] : 0);
        offset += steps * (uint64_t)p->strides[d]; /* modulo 2^64, as strides may be negative */
        stride[d] = (uint64_t)p->strides[d];
    }
    out->offset = offset;
    out->strides = (const int64_t *)(const void *)stride;
}

/* Where piece i ends (or begins) along the first dimension. */
static uint64_t row_of(const sft_tensor *t, uint32_t i, bool end) {
    const sft_piece *const p = &t->pieces[i];
    const uint64_t start = p->start != NULL ? p->start[0] : 0;
    return !end ? start : start + (p->count != NULL ? p->count[0] : t->shape[0]);
}

/* The first piece that ends behind (or begins at or behind) `row`, of pieces whose rows ascend. Sought from
 * `guess` on in growing steps: parts that are equal, or neighbours, are found at once. */
static uint32_t seek(const sft_tensor *t, uint64_t row, bool end, uint32_t guess) {
    uint32_t low = 0;
    uint32_t high = t->piece_count;
    uint32_t step = 1;
    while (low < high) {
        const uint32_t at = guess < low ? low : guess >= high ? high - 1 : guess;
        const uint64_t there = row_of(t, at, end);
        const bool reached = end ? there > row : there >= row;
        if (reached) {
            high = at;
            guess = at > step ? at - step : 0;
        } else {
            low = at + 1;
            guess = at < UINT32_MAX - step ? at + step : UINT32_MAX;
        }
        step = step < UINT32_MAX / 2 ? 2 * step : step;
        if (low != 0 && high != t->piece_count) { /* between two that were seen: halve */
            guess = low + (high - low) / 2;
        }
    }
    return low;
}

/* Pieces [*first, *end) are those that can have rows of [from, from + count). */
static void rows_of(sft__checkpoint_assembly *a, const sft_tensor *t, uint64_t from, uint64_t count,
                    uint32_t *first, uint32_t *end) {
    *first = 0;
    *end = t->piece_count;
    if ((t->flags & SFT_TENSOR_ASCENDING) == 0 || t->piece_count < 2) {
        return;
    }
    const double part = t->shape[0] != 0 ? (double)from / (double)t->shape[0] : 0;
    *first = seek(t, from, true, (uint32_t)(part * t->piece_count));
    *end = seek(t, from + count, false, *first);
    a->share = *first < t->piece_count ? (double)*first / t->piece_count : a->share;
}

sft_status sft__checkpoint_assembly_box(sft__checkpoint_assembly *a, size_t which,
                                        const sft_tensor *tensor, const uint64_t *from,
                                        const uint64_t *count, const uint64_t *to) {
    const uint32_t rank = tensor->rank;
    uint32_t first, end;
    rows_of(a, tensor, rank != 0 ? from[0] : 0, rank != 0 ? count[0] : 1, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const sft_piece *const p = &tensor->pieces[i];
        uint64_t *numbers;
        sft_piece *out;
        if (rank > 0) { /* most pieces of many ranks are told apart by their first rows */
            const uint64_t low = p->start != NULL ? p->start[0] : 0;
            const uint64_t high = low + (p->count != NULL ? p->count[0] : tensor->shape[0]);
            if (from[0] >= high || from[0] + count[0] <= low) {
                continue;
            }
        }
        SFT_TRY(push(a, rank, &out, &numbers));
        uint64_t *const start = numbers;
        uint64_t *const extent = numbers + rank;
        uint64_t *const stride = numbers + 2 * (size_t)rank;
        if (!intersect(tensor, p, from, count, start, extent)) {
            unpush(a, rank);
            continue;
        }
        SFT_TRY(source_index(a, which, p->source, &out->source));
        if (p->strides == NULL) {
            SFT_TRY(place_packed(a, tensor, p, out, numbers));
        } else {
            place_strided(tensor, p, start, out, stride);
        }
        for (uint32_t d = 0; d < rank; d++) {
            start[d] = start[d] - from[d] + to[d];
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_assembly_global(sft__checkpoint_assembly *a, size_t which,
                                           const sft_tensor *tensor) {
    const uint32_t rank = tensor->rank;
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        const sft_piece *const p = &tensor->pieces[i];
        uint64_t *numbers;
        sft_piece *out;
        SFT_TRY(push(a, rank, &out, &numbers));
        SFT_TRY(source_index(a, which, p->source, &out->source));
        out->offset = p->offset;
        out->strides = p->strides;
        for (uint32_t d = 0; d < rank; d++) {
            numbers[d] = p->start != NULL ? p->start[d] : 0;
            numbers[rank + d] = p->count != NULL ? p->count[d] : tensor->shape[d];
            numbers[2 * (size_t)rank + d] = p->strides != NULL ? (uint64_t)p->strides[d] : 0;
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_assembly_stack(sft__checkpoint_assembly *a, size_t which,
                                          const sft_tensor *tensor, uint64_t index) {
    const size_t rank = tensor->rank + (size_t)1;
    for (uint32_t i = 0; i < tensor->piece_count; i++) {
        const sft_piece *const p = &tensor->pieces[i];
        uint64_t *numbers;
        sft_piece *out;
        SFT_TRY(push(a, rank, &out, &numbers));
        SFT_TRY(source_index(a, which, p->source, &out->source));
        out->offset = p->offset;
        out->strides = p->strides;
        numbers[0] = index;
        numbers[rank] = 1;
        numbers[2 * rank] = 0; /* one step only: never taken */
        for (uint32_t d = 0; d < tensor->rank; d++) {
            numbers[1 + d] = p->start != NULL ? p->start[d] : 0;
            numbers[rank + 1 + d] = p->count != NULL ? p->count[d] : tensor->shape[d];
            numbers[2 * rank + 1 + d] = p->strides != NULL ? (uint64_t)p->strides[d] : 0;
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_assembly_unstack(sft__checkpoint_assembly *a, size_t which,
                                            const sft_tensor *tensor, uint64_t index) {
    uint64_t from[SFT_LAYOUT_RANK], count[SFT_LAYOUT_RANK], to[SFT_LAYOUT_RANK];
    const size_t rank = tensor->rank;
    const size_t less = rank - 1;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        from[d] = d == 0 ? index : 0;
        count[d] = d == 0 ? 1 : tensor->shape[d];
        to[d] = 0;
    }
    SFT_TRY(sft__checkpoint_assembly_box(a, which, tensor, from, count, to));
    uint64_t *const n = a->list.numbers;
    for (size_t i = 0; i < a->list.count; i++) { /* each row of numbers moves towards the front */
        for (size_t row = 0; row < 3; row++) {
            memmove(n + i * 3 * less + row * less, n + i * 3 * rank + row * rank + 1,
                    less * sizeof *n);
        }
    }
    a->list.number_count = a->list.count * 3 * less;
    return SFT_OK;
}

sft_status sft__checkpoint_assembly_run(sft__checkpoint_assembly *a, size_t which,
                                        const sft_tensor *tensor, const sft__layout_shard *shard,
                                        uint32_t rank) {
    const sft_piece *const p = tensor->pieces;
    const uint32_t block = tensor->dtype->block_elements;
    const uint64_t first = shard->local_start[0];
    uint64_t n = 1;
    uint64_t *numbers;
    sft_piece *out;
    if (tensor->piece_count != 1 || p->strides != NULL || p->nbytes != tensor->nbytes) {
        return sft__base_fail_tensor(a->err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, tensor->name,
                                     tensor->name_len,
                                     "a flat range of a tensor that does not lie in one piece");
    }
    for (uint32_t d = 0; d < rank; d++) {
        n *= shard->count[d];
    }
    if (first % block != 0 || n % block != 0) {
        return cuts_a_block(a, tensor);
    }
    SFT_TRY(push(a, rank, &out, &numbers));
    SFT_TRY(source_index(a, which, p->source, &out->source));
    out->offset = p->offset + first / block * tensor->dtype->block_bytes;
    for (uint32_t d = 0; d < rank; d++) {
        numbers[d] = shard->start[d];
        numbers[rank + d] = shard->count[d];
        numbers[2 * (size_t)rank + d] = 0;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- boxes as vectors */

/* What a piece has of a box, as runs that are contiguous in the tensor and in the piece: dimensions before k
 * count the runs, k and those behind it lie in one. */
typedef struct runs {
    uint64_t start[SFT_LAYOUT_RANK];
    uint64_t extent[SFT_LAYOUT_RANK];
    uint64_t step[SFT_LAYOUT_RANK]; /* of the tensor, in elements */
    uint64_t size;                  /* of one run, in elements */
    uint64_t count;
    uint32_t k;
} runs;

static void measure_runs(const sft_tensor *t, runs *r) {
    uint64_t step = 1;
    r->k = t->rank;
    r->size = 1;
    r->count = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        r->step[d] = step;
        step *= t->shape[d];
        if (r->k == d + 1 && (r->k == t->rank || r->extent[d + 1] == t->shape[d + 1])) {
            r->k = d;
            r->size *= r->extent[d];
        } else {
            r->count *= r->extent[d]; /* at most the elements */
        }
    }
}

/* Run number `i`: where it begins, in the tensor's row-major order and in the piece. */
static void run_at(const sft_tensor *t, const sft_piece *p, const runs *r, uint64_t i,
                   uint64_t *linear, uint64_t *in_piece) {
    uint64_t step = 1;
    *linear = 0;
    *in_piece = 0;
    for (uint32_t d = t->rank; d-- > 0;) {
        uint64_t at = r->start[d];
        if (d < r->k) {
            at += i % r->extent[d];
            i /= r->extent[d];
        }
        *linear += at * r->step[d];
        *in_piece += (at - (p->start != NULL ? p->start[d] : 0)) * step;
        step *= p->count != NULL ? p->count[d] : t->shape[d];
    }
}

static sft_status add_runs(sft__checkpoint_assembly *a, size_t which, const sft_tensor *t,
                           const sft_piece *p, const runs *r, uint64_t base) {
    const uint32_t block = t->dtype->block_elements;
    if (r->count > SFT__RUNS) {
        return sft__base_fail_tensor(a->err, SFT_E_LIMIT, p->offset, t->name, t->name_len,
                                     "a flat range of %llu runs", (unsigned long long)r->count);
    }
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t linear, in_piece;
        uint64_t *numbers;
        sft_piece *out;
        run_at(t, p, r, i, &linear, &in_piece);
        if (in_piece % block != 0 || r->size % block != 0) {
            return cuts_a_block(a, t);
        }
        SFT_TRY(push(a, 1, &out, &numbers));
        SFT_TRY(source_index(a, which, p->source, &out->source));
        out->offset = p->offset + in_piece / block * t->dtype->block_bytes;
        numbers[0] = linear - base;
        numbers[1] = r->size;
        numbers[2] = 0;
    }
    return SFT_OK;
}

sft_status sft__checkpoint_assembly_flat(sft__checkpoint_assembly *a, size_t which,
                                         const sft_tensor *tensor, const uint64_t *from,
                                         const uint64_t *count, uint64_t base) {
    uint32_t first = 0;
    uint32_t end = tensor->piece_count;
    if (tensor->rank != 0) {
        rows_of(a, tensor, from[0], count[0], &first, &end);
    }
    for (uint32_t i = first; i < end; i++) {
        const sft_piece *const p = &tensor->pieces[i];
        runs r;
        if (!intersect(tensor, p, from, count, r.start, r.extent)) {
            continue;
        }
        if (p->strides != NULL) {
            return sft__base_fail_tensor(a->err, SFT_E_UNSUPPORTED, p->offset, tensor->name,
                                         tensor->name_len, "a flat range of a strided tensor");
        }
        measure_runs(tensor, &r);
        SFT_TRY(add_runs(a, which, tensor, p, &r, base));
    }
    return SFT_OK;
}

uint64_t sft__checkpoint_assembly_elements(const sft__checkpoint_assembly *a, size_t rank) {
    uint64_t all = 0;
    for (size_t i = 0; i < a->list.count; i++) {
        const uint64_t *const count = a->list.numbers + i * 3 * rank + rank;
        uint64_t n = 1;
        for (size_t d = 0; d < rank; d++) {
            n *= count[d]; /* with all others at most the elements of the tensor */
        }
        all += n;
    }
    return all;
}

sft_status sft__checkpoint_assembly_add(sft__checkpoint_assembly *a, size_t which,
                                        const sft_tensor *like, const uint64_t *shape,
                                        size_t rank) {
    sft_tensor t;
    for (size_t i = 0; i < a->list.count; i++) {
        sft_piece *const p = &a->list.pieces[i];
        const uint64_t *const numbers = a->list.numbers + i * 3 * rank;
        p->start = numbers;
        p->count = numbers + rank;
        p->strides =
            p->strides != NULL ? (const int64_t *)(const void *)(numbers + 2 * rank) : NULL;
    }
    memset(&t, 0, sizeof t);
    t.name = like->name;
    t.name_len = like->name_len;
    t.dtype = like->dtype;
    t.shape = shape;
    t.rank = (uint32_t)rank; /* at most SFT_LAYOUT_RANK, or the tensor's own */
    t.pieces = a->list.pieces;
    t.piece_count = (uint32_t)a->list.count;
    if (a->list.count > UINT32_MAX) {
        return sft__base_fail_tensor(a->err, SFT_E_LIMIT, SFT_NO_OFFSET, like->name, like->name_len,
                                     "more than 2^32 pieces");
    }
    if (a->list.count != 0) {
        t.file = a->list.pieces[0].source; /* files are added beside sources */
    } else {
        SFT_TRY(source_index(a, which, sft_catalog_file_at(a->catalogs[which], like->file)->source,
                             &t.file));
    }
    a->list.count = 0;
    a->list.number_count = 0;
    return sft_builder_add_tensor(a->builder, &t, a->err);
}
