/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_add.c - datasets of HDF5 as tensors of the catalog: pieces in the file where
 * bytes lie as they are, sources over it where they must be decoded or turned round, fill values
 * where there is nothing. Read first: hdf5.h.
 */
#include "base/checked.h"
#include "import/hdf5/hdf5.h"
#include <stdlib.h>

typedef struct adding {
    sft__import_h5 *h;
    const sft__import_h5_dataset *d;
    sft__import_h5_chunks chunks;
    sft_piece *pieces;
    uint64_t *numbers;
    size_t count;
    uint32_t fill;                  /* a source */
    uint32_t along;                 /* the last dimension with several chunks */
    bool joins;                     /* bytes of chunks next to each other in it are one box */
    int64_t strides[SFT__H5_RANK];  /* of a chunk */
    int64_t standing[SFT__H5_RANK]; /* zeros */
} adding;

static sft_status add(const adding *a, sft_tensor *t, sft_error *err) {
    t->dtype = a->d->type.dtype;
    t->shape = a->d->shape;
    t->rank = a->d->rank;
    return sft__import_tensor(a->h->job, t, err);
}

static sft_status note_extent(sft__import_h5 *h, uint64_t addr, uint64_t size, sft_error *err) {
    if (size == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_h5_grow(h, &h->extents, &h->extent_room, h->extent_count,
                                sizeof *h->extents, err));
    h->extents[h->extent_count++] = (sft__import_h5_extent){addr, size};
    return SFT_OK;
}

/* ---------------------------------------------------------------- fill values */

/* A source of one element; zeros of all types are the same one. */
static sft_status fill_source(adding *a, sft_error *err) {
    static const uint8_t zeros[16] = {0};
    const sft__import_h5_type *type = &a->d->type;
    const bool zero = memcmp(a->d->fill, zeros, sizeof zeros) == 0;
    sft__import_h5 *h = a->h;
    sft_source *made;
    uint8_t *bytes;

    if (zero && h->zeros != 0) {
        a->fill = h->zeros;
        return SFT_OK;
    }
    SFT_TRY(sft__import_source_own(&made, &bytes, sizeof a->d->fill, sft_source_name(h->source),
                                   h->job->allocator, err));
    memcpy(bytes, a->d->fill, sizeof a->d->fill);
    if (type->unit != 0) {
        sft__import_block_swap(bytes, a->d->fill, type->size / type->unit, type->unit);
    }
    SFT_TRY(sft_builder_add_source(h->job->builder, made, &a->fill, err));
    h->zeros = zero ? a->fill : h->zeros;
    return SFT_OK;
}

static sft_status add_filled(adding *a, sft_tensor *t, sft_error *err) {
    SFT_TRY(fill_source(a, err));
    const sft_piece piece = {.source = a->fill, .strides = a->standing};
    t->pieces = &piece;
    t->piece_count = 1;
    return add(a, t, err);
}

/* ---------------------------------------------------------------- in one place */

/* A source of the same elements, little-endian. */
static sft_status turned(adding *a, const sft_source *inner, uint64_t offset, uint64_t nbytes,
                         uint32_t *source, sft_error *err) {
    const uint32_t unit = a->d->type.unit;
    const sft__import_block_map map = {sft__import_block_swap, unit, unit, unit};
    sft_source *made;

    SFT_TRY(sft__import_source_map(&made, inner, (sft__import_extent){offset, nbytes / unit}, &map,
                                   a->h->job->allocator, err));
    return sft_builder_add_source(a->h->job->builder, made, source, err);
}

static sft_status add_whole(adding *a, sft_tensor *t, sft_error *err) {
    const sft__import_h5_dataset *d = a->d;
    sft__import_h5 *h = a->h;
    sft_piece piece = {.source = h->index};

    if (d->data_size != d->nbytes) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, h->base + d->addr, t->name, t->name_len,
                                     "hdf5: %llu bytes of data, shape and type need %llu",
                                     (unsigned long long)d->data_size,
                                     (unsigned long long)d->nbytes);
    }
    if (d->data == SFT__H5_UNDEF) {
        return add_filled(a, t, err);
    }
    if (d->data > h->end || d->nbytes > h->end - d->data) {
        return sft__base_fail_tensor(err, SFT_E_SCHEMA, h->base + h->end, t->name, t->name_len,
                                     "hdf5: %llu bytes at the address %llu, the file ends at %llu",
                                     (unsigned long long)d->nbytes, (unsigned long long)d->data,
                                     (unsigned long long)h->end);
    }
    SFT_TRY(note_extent(h, d->data, d->nbytes, err));
    piece.offset = h->base + d->data;
    if (d->type.unit != 0) {
        SFT_TRY(turned(a, h->source, piece.offset, d->nbytes, &piece.source, err));
        piece.offset = 0;
    }
    t->pieces = &piece;
    t->piece_count = 1;
    return add(a, t, err);
}

/* ---------------------------------------------------------------- in chunks */

/* The box of the grid's place, at this offset of a source; SFT_NO_OFFSET: fill values. */
static void put_piece(adding *a, uint64_t place, uint64_t offset, uint32_t source) {
    const sft__import_h5_dataset *d = a->d;
    uint64_t *start = a->numbers + a->count * 2 * d->rank;
    uint64_t *extent = start + d->rank;
    bool cut = false;

    for (uint32_t i = d->rank; i-- > 0;) {
        start[i] = place % a->chunks.grid[i] * d->chunk[i];
        place /= a->chunks.grid[i];
        const uint64_t left = d->shape[i] - start[i];
        extent[i] = left < d->chunk[i] ? left : d->chunk[i];
        cut = cut || (i > 0 && extent[i] != d->chunk[i]);
    }
    const bool filled = offset == SFT_NO_OFFSET;
    a->pieces[a->count++] = (sft_piece){.offset = filled ? 0 : offset,
                                        .start = start,
                                        .count = extent,
                                        .strides = filled ? a->standing : (cut ? a->strides : NULL),
                                        .source = filled ? a->fill : source};
}

/* The dimension in which the chunk behind a chunk lies, mostly. */
static void find_along(adding *a) {
    const sft__import_h5_dataset *d = a->d;

    for (uint32_t i = 0; i < d->rank; i++) {
        a->along = a->chunks.grid[i] > 1 ? i : a->along;
    }
    a->joins = true;
    for (uint32_t i = 0; i < d->rank; i++) {
        a->joins = a->joins && (i == a->along || d->chunk[i] == (i < a->along ? 1 : d->shape[i]));
    }
}

/* Puts the last piece and the one before it together, if they are one box and one stretch. */
static void join(adding *a) {
    const uint32_t rank = a->d->rank;

    if (a->count < 2) {
        return;
    }
    const sft_piece *p = &a->pieces[a->count - 1];
    const sft_piece *before = &a->pieces[a->count - 2];
    uint64_t *extent = a->numbers + (a->count - 2) * 2 * rank + rank;
    const bool filled = p->strides == a->standing;
    uint64_t bytes = a->d->type.size;
    for (uint32_t i = 0; i < rank; i++) {
        const uint64_t end = before->start[i] + (i == a->along ? extent[i] : 0);
        if (p->start[i] != end) {
            return;
        }
        bytes *= extent[i]; /* of the tensor's */
    }
    if (p->source != before->source || p->strides != before->strides ||
        (!filled && (!a->joins || p->strides != NULL || p->offset != before->offset + bytes))) {
        return;
    }
    extent[a->along] += p->count[a->along];
    a->count--;
}

static sft_status piece_memory(adding *a, sft_error *err) {
    const size_t per = sizeof *a->pieces + 2 * a->d->rank * sizeof *a->numbers;
    const sft_allocator *allocator = a->h->job->allocator;

    if (a->chunks.total > a->h->job->options.memory_bytes / 4 / per ||
        a->chunks.total > UINT32_MAX) {
        return sft__base_fail_tensor(
            err, SFT_E_LIMIT, a->h->base + a->d->addr, a->d->name, a->d->name_len,
            "memory: %llu chunks are too many for the limit", (unsigned long long)a->chunks.total);
    }
    const size_t n = (size_t)a->chunks.total;
    a->pieces = sft__base_alloc_array(allocator, n, sizeof *a->pieces);
    a->numbers = sft__base_alloc_array(allocator, n * 2 * a->d->rank, sizeof *a->numbers);
    return a->pieces != NULL && a->numbers != NULL ? SFT_OK : sft__base_fail_nomem(err, n * per);
}

/* Chunks at the edge that are kept without filters say so nowhere else. They have their whole size,
 * whatever the index says. */
static sft_status unmask_edges(adding *a, sft_error *err) {
    const sft__import_h5_dataset *d = a->d;

    for (size_t i = 0; i < a->chunks.count && d->partial_plain; i++) {
        uint64_t place = a->chunks.at[i].place;
        bool edge = false;
        for (uint32_t k = d->rank; k-- > 0;) {
            const uint64_t start = place % a->chunks.grid[k] * d->chunk[k];
            place /= a->chunks.grid[k];
            edge = edge || d->shape[k] - start < d->chunk[k];
        }
        if (edge) {
            a->chunks.at[i].mask = UINT32_MAX;
            a->chunks.at[i].size = d->chunk_bytes;
            SFT_TRY(sft__import_h5_chunk_inside(a->h, d, &a->chunks.at[i], err));
        }
    }
    return SFT_OK;
}

/* Decodes all chunks: to read is to compare. In a scan what is wrong is a finding. */
static sft_status read_all(adding *a, const sft_source *chunks, sft_error *err) {
    sft__import_h5 *h = a->h;
    sft_error why;
    uint32_t sum; /* of no use */

    memset(&why, 0, sizeof why);
    const sft_status status =
        sft__import_source_crc32(chunks, 0, sft_source_size(chunks), &sum, h->job->allocator, &why);
    if (h->job->scanning && (status == SFT_E_SCHEMA || status == SFT_E_MISMATCH)) {
        sft__import_find(h->job, SFT__RULE(CONTAINER, UNKNOWN, "hdf5-chunk"),
                         SFT__NAMED(a->d, why.offset), "%s", why.message);
        return SFT_OK;
    }
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

/* Where the chunks lie: in the file itself, or decoded and turned round in a source of their own.
 */
static sft_status chunk_place(adding *a, uint32_t *source, bool *decoded, sft_error *err) {
    const sft__import_h5_dataset *d = a->d;
    sft__import_h5 *h = a->h;
    sft_source *made;

    *source = h->index;
    *decoded = a->chunks.count != 0 && (d->filter_count != 0 || d->type.unit != 0);
    if (!*decoded) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_h5_chunk_source(&made, h, d, &a->chunks, err));
    SFT_TRY(sft_builder_add_source(h->job->builder, made, source, err));
    if (d->filter_count != 0 && (h->job->options.flags & SFT_IMPORT_CHECKSUMS) != 0) {
        SFT_TRY(read_all(a, made, err));
    }
    return d->type.unit == 0 ? SFT_OK
                             : turned(a, made, 0, a->chunks.count * d->chunk_bytes, source, err);
}

static sft_status add_pieces(adding *a, sft_tensor *t, sft_error *err) {
    const sft__import_h5_dataset *d = a->d;
    sft__import_h5 *h = a->h;
    int64_t step = d->type.size;
    uint32_t source;
    bool decoded;

    for (uint32_t i = d->rank; i-- > 0;) {
        a->strides[i] = step;
        step *= (int64_t)d->chunk[i]; /* the bytes of a chunk: below 2^32 */
    }
    find_along(a);
    SFT_TRY(chunk_place(a, &source, &decoded, err));
    if (a->chunks.count < a->chunks.total) {
        SFT_TRY(fill_source(a, err));
    }
    size_t next = 0;
    for (uint64_t place = 0; place < a->chunks.total; place++) {
        const sft__import_h5_chunk *k = &a->chunks.at[next];
        if (next == a->chunks.count || k->place != place) {
            put_piece(a, place, SFT_NO_OFFSET, 0);
            join(a);
            continue;
        }
        SFT_TRY(note_extent(h, k->addr, k->size, err));
        put_piece(a, place, decoded ? next * d->chunk_bytes : h->base + k->addr, source);
        join(a);
        next++;
    }
    t->pieces = a->pieces;
    t->piece_count = (uint32_t)a->count;
    return add(a, t, err);
}

/* Elements of many bytes become a dimension, in which a chunk has all. */
static void widen(adding *a, sft__import_h5_dataset *wide) {
    const sft__import_h5_dataset *d = a->d;

    *wide = *d;
    wide->shape[d->rank] = d->type.size;
    wide->chunk[d->rank] = d->type.size;
    wide->rank++;
    wide->type.size = 1;
    a->chunks.grid[d->rank] = 1;
    a->d = wide;
}

static sft_status add_chunked(adding *a, sft__import_h5_dataset *wide, sft_tensor *t,
                              sft_error *err) {
    SFT_TRY(sft__import_h5_chunks_read(a->h, a->d, &a->chunks, err));
    if (a->d->bytes) {
        widen(a, wide);
    }
    if (a->chunks.count == 0) {
        return add_filled(a, t, err);
    }
    SFT_TRY(unmask_edges(a, err));
    SFT_TRY(piece_memory(a, err));
    return add_pieces(a, t, err);
}

sft_status sft__import_h5_add(sft__import_h5 *h, const sft__import_h5_dataset *d, const char *name,
                              size_t name_len, sft_error *err) {
    const sft_allocator *allocator = h->job->allocator;
    sft_tensor t = {.name = name, .name_len = name_len};
    sft__import_h5_dataset wide;
    sft_status status;
    adding a;

    memset(&a, 0, sizeof a);
    a.h = h;
    a.d = d;
    if (d->bytes && (d->nbytes == 0 || d->rank == SFT__H5_RANK)) {
        return SFT_OK; /* nothing; or more dimensions than h5py and numpy have */
    }
    if (d->elements == 0) {
        return add(&a, &t, err);
    }
    status = d->layout == 2 ? add_chunked(&a, &wide, &t, err) : add_whole(&a, &t, err);
    sft__base_free(allocator, a.chunks.at, a.chunks.room * sizeof *a.chunks.at);
    sft__base_free(allocator, a.pieces, (size_t)a.chunks.total * sizeof *a.pieces);
    sft__base_free(allocator, a.numbers,
                   (size_t)a.chunks.total * 2 * a.d->rank * sizeof *a.numbers);
    return status;
}

/* ---------------------------------------------------------------- overlaps */

static int by_place(const void *a, const void *b) {
    const sft__import_h5_extent *x = a;
    const sft__import_h5_extent *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* HDF5 gives no byte to two datasets. */
sft_status sft__import_h5_overlaps(sft__import_h5 *h, sft_error *err) {
    uint64_t reach = 0;

    if (h->extent_count > 1) {
        qsort(h->extents, h->extent_count, sizeof *h->extents, by_place);
    }
    for (size_t i = 0; i < h->extent_count; i++) {
        const sft__import_h5_extent *e = &h->extents[i];
        if (e->at < reach) {
            return sft__import_trick(h->job, SFT__RULE(CONTAINER, UNKNOWN, "hdf5-overlap"),
                                     SFT__AT("", 0, h->base + e->at), err,
                                     "hdf5: data of two datasets or chunks share bytes");
        }
        reach = e->at + e->size; /* inside the file */
    }
    return SFT_OK;
}
