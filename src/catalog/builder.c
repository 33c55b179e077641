/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/builder.c - catalogs of other formats, made by whoever reads them. What is added is
 * copied and checked at once, so that a catalog from here keeps the same promises as one from a
 * header: every piece lies inside its source and every box inside its tensor. Read first:
 * <sft/extend.h>, catalog.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/utf8.h"
#include "catalog/catalog.h"
#include "catalog/model.h"

typedef struct metadata_note {
    sft_metadata_entry entry; /* in the arena */
    uint32_t file;
} metadata_note;

struct sft_builder {
    const sft_allocator *allocator;
    sft__catalog_options options; /* options.open.limits points at options.limits */
    sft_catalog *catalog;         /* being filled; NULL once finished */
    sft_tensor *tensors;
    size_t tensor_count;
    size_t tensor_room;
    sft__base_strmap names; /* over tensors, for tensor_room of them */
    sft__catalog_alias *aliases;
    size_t alias_count;
    size_t alias_room;
    sft__base_strmap alias_names;
    metadata_note *notes;
    size_t note_count;
    size_t note_room;
};

sft_status sft_builder_create(sft_builder **out, const sft_open_options *options, sft_error *err) {
    sft__catalog_options o;

    SFT_OUT(out, err);
    SFT_TRY(sft__catalog_open_read(&o, options, err));
    sft_builder *b = sft__base_alloc_zero(o.open.allocator, sizeof *b);
    SFT_NEED(b != NULL, sizeof *b, err);
    b->allocator = sft__base_allocator(o.open.allocator);
    b->options = o;
    b->options.open.limits = &b->options.limits;
    const sft_status status = sft__catalog_new(&b->catalog, &b->options, err);
    if (status != SFT_OK) {
        sft__base_free(b->allocator, b, sizeof *b);
        return status;
    }
    *out = b;
    return SFT_OK;
}

/* Frees what finish does not hand on. */
static void builder_empty(sft_builder *b) {
    if (b->names.slots != NULL) {
        sft__base_strmap_reset(&b->names);
    }
    if (b->alias_names.slots != NULL) {
        sft__base_strmap_reset(&b->alias_names);
    }
    sft__base_free(b->allocator, b->tensors, b->tensor_room * sizeof *b->tensors);
    sft__base_free(b->allocator, b->aliases, b->alias_room * sizeof *b->aliases);
    sft__base_free(b->allocator, b->notes, b->note_room * sizeof *b->notes);
    b->tensors = NULL;
    b->aliases = NULL;
    b->notes = NULL;
    b->tensor_count = b->tensor_room = 0;
    b->alias_count = b->alias_room = 0;
    b->note_count = b->note_room = 0;
}

void sft_builder_free(sft_builder *builder) {
    if (builder != NULL) {
        builder_empty(builder);
        sft_catalog_close(builder->catalog);
        sft__base_free(builder->allocator, builder, sizeof *builder);
    }
}

static sft_status usable(const sft_builder *b, sft_error *err) {
    return b == NULL            ? sft__base_fail(err, SFT_E_ARG, "builder is NULL")
           : b->catalog == NULL ? sft__base_fail(err, SFT_E_STATE, "the builder is finished")
                                : SFT_OK;
}

static sft_status arena_failed(const sft_builder *b, size_t size, sft_error *err) {
    return sft__catalog_arena_failed(&b->catalog->arena, size, err);
}

sft_status sft_builder_add_source(sft_builder *builder, sft_source *source, uint32_t *index,
                                  sft_error *err) {
    sft_status status = usable(builder, err);

    if (status == SFT_OK && source == NULL) {
        status = sft__base_fail(err, SFT_E_ARG, "source is NULL");
    }
    if (status == SFT_OK) {
        sft_catalog *c = builder->catalog;
        if (c->source_count >= builder->options.limits.shards || c->source_count >= UINT32_MAX) {
            status = sft__base_fail(err, SFT_E_LIMIT, "more than %llu sources, the limit",
                                    (unsigned long long)c->source_count);
        } else if (!sft__base_grow(c->allocator, &c->sources, &c->source_room, c->source_count + 1,
                                   sizeof *c->sources)) {
            status = sft__base_fail_nomem(err, c->source_count * sizeof *c->sources);
        }
    }
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    if (index != NULL) {
        *index = (uint32_t)builder->catalog->source_count;
    }
    builder->catalog->sources[builder->catalog->source_count++] = source;
    return SFT_OK;
}

sft_status sft_builder_add_file(sft_builder *builder, const sft_file *file, uint32_t *index,
                                sft_error *err) {
    SFT_TRY(usable(builder, err));
    sft_catalog *c = builder->catalog;
    if (file == NULL || file->path == NULL || file->source >= c->source_count) {
        return sft__base_fail(err, SFT_E_ARG, "a file needs a path and a source that was added");
    }
    if (c->file_count >= builder->options.limits.shards || c->file_count >= UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "more than %llu files, the limit",
                              (unsigned long long)c->file_count);
    }
    SFT_TRY(SFT_ONE_MORE(c->allocator, c->files, c->file_room, c->file_count, err));
    sft__catalog_file *f = &c->files[c->file_count];
    memset(f, 0, sizeof *f);
    f->info = *file;
    f->info.tensor_count = 0;
    f->info.has_metadata = file->has_metadata != 0;
    f->info.path = sft__base_arena_copy(&c->arena, file->path, strlen(file->path));
    if (f->info.path == NULL) {
        return arena_failed(builder, strlen(file->path), err);
    }
    if (index != NULL) {
        *index = (uint32_t)c->file_count;
    }
    c->file_count++;
    return SFT_OK;
}

sft_status sft_builder_add_metadata(sft_builder *builder, uint32_t file,
                                    const sft_metadata_entry *entry, sft_error *err) {
    SFT_TRY(usable(builder, err));
    sft_catalog *c = builder->catalog;
    if (file >= c->file_count || entry == NULL || (entry->key == NULL && entry->key_len != 0) ||
        (entry->value == NULL && entry->value_len != 0)) {
        return sft__base_fail(err, SFT_E_ARG,
                              "metadata needs a file that was added, a key and a value");
    }
    if (sft__base_utf8_valid(entry->key, entry->key_len) != entry->key_len ||
        sft__base_utf8_valid(entry->value, entry->value_len) != entry->value_len) {
        return sft__base_fail(err, SFT_E_UTF8, "a metadata key or value is not UTF-8");
    }
    SFT_TRY(SFT_ONE_MORE(builder->allocator, builder->notes, builder->note_room,
                         builder->note_count, err));
    metadata_note *note = &builder->notes[builder->note_count];
    note->file = file;
    note->entry = *entry;
    note->entry.key = sft__base_arena_copy(&c->arena, entry->key, entry->key_len);
    note->entry.value = sft__base_arena_copy(&c->arena, entry->value, entry->value_len);
    if (note->entry.key == NULL || note->entry.value == NULL) {
        return arena_failed(builder, entry->key_len + entry->value_len, err);
    }
    builder->note_count++;
    c->files[file].info.has_metadata = 1;
    return SFT_OK;
}

/* ---------------------------------------------------------------- tensors */

/* Room for one more entry in an array that a name table indexes. The table is at most half full. */
static bool named_grow(sft_builder *b, void *array_pointer, size_t *room, size_t count, size_t size,
                       sft__base_strmap *names) {
    sft__base_strmap fresh;
    void *entries;

    if (!sft__base_grow(b->allocator, array_pointer, room, count + 1, size)) {
        return false;
    }
    memcpy(&entries, array_pointer, sizeof entries);
    names->entries = entries; /* the array may have moved */
    if (names->slots != NULL && count < names->slot_count / 2) {
        return true;
    }
    if (!sft__base_strmap_init(&fresh, entries, size, *room, b->allocator)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        (void)sft__base_strmap_add(&fresh, i);
    }
    if (names->slots != NULL) {
        sft__base_strmap_reset(names);
    }
    *names = fresh;
    return true;
}

/* Checks that a name is one, allowed and new. */
static sft_status check_name(const sft_builder *b, const char *name, size_t len, sft_error *err) {
    const uint64_t limit = b->options.limits.name_bytes;

    if (name == NULL && len != 0) {
        return sft__base_fail(err, SFT_E_ARG, "name is NULL");
    }
    if (sft__base_utf8_valid(name, len) != len) {
        return sft__base_fail_tensor(err, SFT_E_UTF8, SFT_NO_OFFSET, name, len,
                                     "the name is not UTF-8");
    }
    if (limit != 0 && len > limit) {
        return sft__base_fail_tensor(err, SFT_E_LIMIT, SFT_NO_OFFSET, name, len,
                                     "the name has %llu bytes, the limit is %llu",
                                     (unsigned long long)len, (unsigned long long)limit);
    }
    if (sft__base_strmap_find(&b->names, name, len) != SFT__STRMAP_NONE ||
        sft__base_strmap_find(&b->alias_names, name, len) != SFT__STRMAP_NONE) {
        return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, name, len,
                                     "name given twice");
    }
    return SFT_OK;
}

static sft_status bad_tensor(sft_error *err, sft_status status, const sft_tensor *t,
                             const char *what) {
    return SFT_FAIL_TENSOR(err, status, t, "%s", what);
}

/* Product of `rank` extents; all ones for NULL with rank 0. False: beyond 64 bits. */
static bool elements_of(const uint64_t *extents, uint32_t rank, uint64_t *elements) {
    *elements = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (!sft__base_mul64(*elements, extents[d], elements)) {
            return false;
        }
    }
    return true;
}

static sft_status check_shape(const sft_builder *b, const sft_tensor *t, uint64_t *nbytes,
                              sft_error *err) {
    uint64_t elements;

    if (t->dtype == NULL || t->dtype->block_elements == 0 || t->dtype->block_bytes == 0 ||
        t->dtype->name == NULL) {
        return bad_tensor(err, SFT_E_DTYPE, t, "the dtype has no name or no block size");
    }
    if (t->rank > b->options.limits.rank || (t->shape == NULL && t->rank != 0)) {
        return bad_tensor(err, t->shape == NULL ? SFT_E_ARG : SFT_E_LIMIT, t,
                          t->shape == NULL ? "shape is NULL" : "more dimensions than the limit");
    }
    if (!elements_of(t->shape, t->rank, &elements)) {
        return bad_tensor(err, SFT_E_OVERFLOW, t, "the shape has 2^64 elements or more");
    }
    sft_error why;
    const sft_status status = sft_dtype_bytes(t->dtype, elements, nbytes, &why);
    if (status != SFT_OK) {
        return bad_tensor(err, status, t, why.message);
    }
    if (t->nbytes != 0 && t->nbytes != *nbytes) {
        return SFT_FAIL_TENSOR(err, SFT_E_SIZE, t, "nbytes is %llu, dtype and shape give %llu",
                               (unsigned long long)t->nbytes, (unsigned long long)*nbytes);
    }
    return SFT_OK;
}

/* The box of a piece lies in its tensor; count: its extents. */
static sft_status check_box(const sft_tensor *t, const sft_piece *p, const uint64_t **count,
                            sft_error *err) {
    *count = p->count != NULL ? p->count : t->shape;
    for (uint32_t d = 0; d < t->rank; d++) {
        const uint64_t start = p->start != NULL ? p->start[d] : 0;
        if (start > t->shape[d] || (*count)[d] > t->shape[d] - start) {
            return SFT_FAIL_TENSOR(err, SFT_E_RANGE, t,
                                   "piece reaches %llu + %llu in dimension %u, which has %llu",
                                   (unsigned long long)start, (unsigned long long)(*count)[d],
                                   (unsigned)d, (unsigned long long)t->shape[d]);
        }
    }
    return SFT_OK;
}

/* How far a strided box reaches below and above the offset of its first element, in bytes. */
static sft_status strided_reach(const sft_tensor *t, const sft_piece *p, const uint64_t *count,
                                uint64_t *below, uint64_t *above, sft_error *err) {
    *below = 0;
    *above = t->dtype->block_bytes;
    if (t->dtype->block_elements != 1) {
        return bad_tensor(err, SFT_E_UNSUPPORTED, t,
                          "a strided piece needs elements that are whole bytes");
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        const int64_t stride = p->strides[d];
        const uint64_t size = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
        uint64_t *reach = stride < 0 ? below : above;
        uint64_t bytes;
        if (!sft__base_mul64(count[d] - 1, size, &bytes) ||
            !sft__base_add64(*reach, bytes, reach)) {
            return bad_tensor(err, SFT_E_OVERFLOW, t, "the strides reach beyond 2^64");
        }
    }
    return SFT_OK;
}

/* A piece lies in its source; nbytes: from its offset to the end of its last element. */
static sft_status check_piece(const sft_builder *b, const sft_tensor *t, const sft_piece *p,
                              uint64_t *nbytes, sft_error *err) {
    const uint64_t *count;
    uint64_t elements;
    uint64_t below = 0;

    if (p->source >= b->catalog->source_count) {
        return bad_tensor(err, SFT_E_ARG, t, "a piece names a source that was not added");
    }
    SFT_TRY(check_box(t, p, &count, err));
    if (!elements_of(count, t->rank, &elements)) {
        return bad_tensor(err, SFT_E_OVERFLOW, t, "a piece has 2^64 elements or more");
    }
    if (elements == 0) {
        *nbytes = 0;
    } else if (p->strides != NULL) {
        SFT_TRY(strided_reach(t, p, count, &below, nbytes, err));
    } else {
        sft_error why;
        const sft_status status = sft_dtype_bytes(t->dtype, elements, nbytes, &why);
        if (status != SFT_OK) {
            return bad_tensor(err, status, t, why.message);
        }
    }
    const uint64_t size = sft_source_size(b->catalog->sources[p->source]);
    if (p->offset > size || below > p->offset || *nbytes > size - p->offset) {
        return sft__base_fail_tensor(
            err, SFT_E_OFFSETS, p->offset, t->name, t->name_len,
            "a piece takes %llu bytes before and %llu from byte %llu on, its source "
            "has %llu",
            (unsigned long long)below, (unsigned long long)*nbytes, (unsigned long long)p->offset,
            (unsigned long long)size);
    }
    if (p->nbytes != 0 && p->nbytes != *nbytes) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, p->offset, t->name, t->name_len,
                                     "a piece has nbytes %llu, its box gives %llu",
                                     (unsigned long long)p->nbytes, (unsigned long long)*nbytes);
    }
    return SFT_OK;
}

/* Copies `count` 8-byte numbers into the arena; an array that is there is never NULL. */
static bool copy_numbers(sft__base_arena *arena, const void *numbers, uint32_t count,
                         const void **out) {
    void *copy =
        sft__base_arena_alloc(arena, count != 0 ? count * sizeof(uint64_t) : 1, sizeof(uint64_t));
    if (copy != NULL && count != 0) {
        memcpy(copy, numbers, count * sizeof(uint64_t));
    }
    *out = copy;
    return copy != NULL;
}

static bool copy_pieces(sft__base_arena *arena, const sft_tensor *t, sft_piece *pieces) {
    for (uint32_t i = 0; i < t->piece_count; i++) {
        sft_piece *p = &pieces[i];
        const void *copy;
        p->reserved = 0;
        if (p->start != NULL) {
            if (!copy_numbers(arena, p->start, t->rank, &copy)) {
                return false;
            }
            p->start = copy;
        }
        if (p->count != NULL) {
            if (!copy_numbers(arena, p->count, t->rank, &copy)) {
                return false;
            }
            p->count = copy;
        }
        if (p->strides != NULL) {
            if (!copy_numbers(arena, p->strides, t->rank, &copy)) {
                return false;
            }
            p->strides = copy;
        }
    }
    return true;
}

/* See SFT_TENSOR_ASCENDING. The boxes were checked: nothing overflows. */
static bool ascend(const sft_tensor *t) {
    uint64_t low = 0;
    uint64_t high = 0;

    for (uint32_t i = 0; t->rank != 0 && i < t->piece_count; i++) {
        const sft_piece *p = &t->pieces[i];
        const uint64_t start = p->start != NULL ? p->start[0] : 0;
        const uint64_t end = start + (p->count != NULL ? p->count[0] : t->shape[0]);
        if (start < low || end < high) {
            return false;
        }
        low = start;
        high = end;
    }
    return t->rank != 0 && t->piece_count > 1;
}

/* Checks all pieces and copies them into the arena. */
static sft_status take_pieces(sft_builder *b, const sft_tensor *t, uint64_t nbytes,
                              sft_tensor *copy, sft_error *err) {
    sft__base_arena *arena = &b->catalog->arena;
    sft_piece *pieces;

    if (t->piece_count == 0 && nbytes != 0) {
        return bad_tensor(err, SFT_E_ARG, t, "a tensor that is not empty needs a piece");
    }
    if (t->pieces == NULL && t->piece_count != 0) {
        return bad_tensor(err, SFT_E_ARG, t, "pieces is NULL");
    }
    /* cannot overflow on 64 bits: piece_count < 2^32; on 32 bits the caller's array fits in memory
     */
    pieces = sft__base_arena_alloc(arena, t->piece_count != 0 ? t->piece_count * sizeof *pieces : 1,
                                   sizeof(uint64_t));
    if (pieces == NULL) {
        return arena_failed(b, t->piece_count * sizeof *pieces, err);
    }
    for (uint32_t i = 0; i < t->piece_count; i++) {
        uint64_t piece_bytes;
        SFT_TRY(check_piece(b, t, &t->pieces[i], &piece_bytes, err));
        pieces[i] = t->pieces[i];
        pieces[i].nbytes = piece_bytes;
    }
    if (!copy_pieces(arena, t, pieces)) {
        return arena_failed(b, t->rank * sizeof(uint64_t), err);
    }
    copy->pieces = pieces;
    copy->flags = ascend(copy) ? SFT_TENSOR_ASCENDING : 0;
    return SFT_OK;
}

sft_status sft_builder_add_tensor(sft_builder *builder, const sft_tensor *tensor, sft_error *err) {
    uint64_t nbytes = 0;
    const void *shape;

    SFT_TRY(usable(builder, err));
    sft_catalog *c = builder->catalog;
    if (tensor == NULL || tensor->file >= c->file_count) {
        return sft__base_fail(err, SFT_E_ARG, "a tensor needs a file that was added");
    }
    SFT_TRY(check_name(builder, tensor->name, tensor->name_len, err));
    if (builder->tensor_count >= builder->options.limits.tensors ||
        builder->tensor_count >= UINT32_MAX / 4) {
        return bad_tensor(err, SFT_E_LIMIT, tensor, "more tensors than the limit");
    }
    SFT_TRY(check_shape(builder, tensor, &nbytes, err));
    SFT_NEED(named_grow(builder, &builder->tensors, &builder->tensor_room, builder->tensor_count,
                        sizeof *builder->tensors, &builder->names),
             builder->tensor_count * sizeof *builder->tensors, err);
    sft_tensor copy = *tensor;
    copy.nbytes = nbytes;
    copy.name = sft__base_arena_copy(&c->arena, tensor->name, tensor->name_len);
    if (copy.name == NULL || !copy_numbers(&c->arena, tensor->shape, tensor->rank, &shape)) {
        return arena_failed(builder, tensor->name_len + tensor->rank * sizeof(uint64_t), err);
    }
    copy.shape = shape;
    SFT_TRY(take_pieces(builder, tensor, nbytes, &copy, err));
    builder->tensors[builder->tensor_count] = copy;
    (void)sft__base_strmap_add(&builder->names, builder->tensor_count);
    builder->tensor_count++;
    c->files[tensor->file].info.tensor_count++;
    return SFT_OK;
}

sft_status sft_builder_add_alias(sft_builder *builder, const char *name, size_t name_len,
                                 const char *of, size_t of_len, sft_error *err) {
    SFT_TRY(usable(builder, err));
    SFT_TRY(check_name(builder, name, name_len, err));
    const size_t tensor = sft__base_strmap_find(&builder->names, of != NULL ? of : "", of_len);
    if (tensor == SFT__STRMAP_NONE) {
        return sft__base_fail_tensor(err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, of, of_len,
                                     "an alias names a tensor that was not added");
    }
    if (builder->alias_count >= builder->options.limits.tensors ||
        builder->alias_count >= UINT32_MAX / 4) {
        return sft__base_fail(err, SFT_E_LIMIT, "more aliases than the limit for tensors");
    }
    SFT_NEED(named_grow(builder, &builder->aliases, &builder->alias_room, builder->alias_count,
                        sizeof *builder->aliases, &builder->alias_names),
             builder->alias_count * sizeof *builder->aliases, err);
    sft__catalog_alias *alias = &builder->aliases[builder->alias_count];
    alias->name = sft__base_arena_copy(&builder->catalog->arena, name, name_len);
    alias->name_len = name_len;
    alias->tensor = tensor;
    alias->shows = 0;
    if (alias->name == NULL) {
        return arena_failed(builder, name_len, err);
    }
    (void)sft__base_strmap_add(&builder->alias_names, builder->alias_count);
    builder->alias_count++;
    return SFT_OK;
}

/* Does the part lie in the bytes of the tensor, at whole elements? */
static bool lies_in(const sft_tensor *of, const sft_piece *p, uint32_t unit) {
    const sft_piece *whole = of->piece_count == 1 ? &of->pieces[0] : NULL;

    return whole != NULL && whole->strides == NULL && p->source == whole->source &&
           p->offset >= whole->offset && (p->offset - whole->offset) % unit == 0 &&
           p->nbytes <= of->nbytes && p->offset - whole->offset <= of->nbytes - p->nbytes;
}

sft_status sft_builder_add_part(sft_builder *builder, const sft_tensor *part, const char *of,
                                size_t of_len, sft_error *err) {
    sft__catalog_shown_part made;
    uint64_t nbytes = 0;
    const void *shape;

    if (part == NULL || part->piece_count != 1 || part->pieces == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "a part of a tensor has one piece");
    }
    SFT_TRY(sft_builder_add_alias(builder, part->name, part->name_len, of, of_len, err));
    sft_catalog *c = builder->catalog;
    sft__catalog_alias *alias = &builder->aliases[builder->alias_count - 1];
    const sft_tensor *whole = &builder->tensors[alias->tensor];
    SFT_TRY(check_shape(builder, part, &nbytes, err));
    memset(&made, 0, sizeof made);
    made.of = alias->tensor;
    made.tensor = *part;
    made.tensor.file = whole->file;
    made.tensor.name = alias->name;
    made.tensor.nbytes = nbytes;
    SFT_TRY(take_pieces(builder, part, nbytes, &made.tensor, err));
    made.piece = made.tensor.pieces[0];
    if (!lies_in(whole, &made.piece, part->dtype->block_bytes)) {
        return bad_tensor(err, SFT_E_RANGE, part,
                          "it is no part of the tensor that it is said to be");
    }
    if (!copy_numbers(&c->arena, part->shape, part->rank, &shape) ||
        !sft__base_grow(c->allocator, &c->parts, &c->part_room, c->part_count + 1,
                        sizeof *c->parts)) {
        return arena_failed(builder, part->rank * sizeof(uint64_t), err);
    }
    made.tensor.shape = shape;
    c->parts[c->part_count++] = made;
    alias->shows = c->part_count;
    return SFT_OK;
}

/* ---------------------------------------------------------------- the end */

/* Puts the notes of each file together, in the order they were added. */
static bool place_metadata(sft_builder *b) {
    sft_catalog *c = b->catalog;
    sft_metadata_entry *entries;
    size_t at = 0;

    if (b->note_count == 0) {
        return true;
    }
    entries = sft__base_arena_alloc(&c->arena, b->note_count * sizeof *entries, sizeof(void *));
    if (entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < b->note_count; i++) {
        c->files[b->notes[i].file].metadata_count++;
    }
    for (size_t f = 0; f < c->file_count; f++) {
        c->files[f].metadata = entries + at;
        at += c->files[f].metadata_count;
        c->files[f].metadata_count = 0;
    }
    for (size_t i = 0; i < b->note_count; i++) {
        sft__catalog_file *f = &c->files[b->notes[i].file];
        entries[(size_t)(f->metadata - entries) + f->metadata_count++] = b->notes[i].entry;
    }
    for (size_t f = 0; f < c->file_count; f++) {
        sft__catalog_file_index(c, &c->files[f]);
    }
    return true;
}

sft_status sft_builder_add_problem(sft_builder *builder, uint32_t kind, const char *subject,
                                   size_t subject_len, const char *message, sft_error *err) {
    SFT_TRY(usable(builder, err));
    if (subject == NULL || message == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "a problem needs a subject and a message");
    }
    const char *const kept = sft__base_arena_copy(&builder->catalog->arena, subject, subject_len);
    if (kept == NULL) {
        return arena_failed(builder, subject_len, err);
    }
    SFT_TRY(sft__catalog_problem_add(builder->catalog, (sft_problem_kind)kind,
                                     (sft__catalog_subject){kept, subject_len}, err, "%s",
                                     message));
    builder->catalog->problems[builder->catalog->problem_count - 1].fatal = 0;
    return SFT_OK;
}

sft_status sft_builder_finish(sft_catalog **out, sft_builder *builder, sft_error *err) {
    SFT_OUT(out, err);
    SFT_TRY(usable(builder, err));
    sft_catalog *c = builder->catalog;
    const size_t tensor_bytes = builder->tensor_count * sizeof *builder->tensors;
    sft_tensor *tensors = sft__base_arena_alloc(&c->arena, tensor_bytes, sizeof(uint64_t));
    if (tensors == NULL || !place_metadata(builder)) {
        return arena_failed(builder, tensor_bytes, err);
    }
    if (tensor_bytes != 0) {
        memcpy(tensors, builder->tensors, tensor_bytes);
    }
    c->tensors = tensors;
    c->tensor_count = builder->tensor_count;
    c->merged_names = builder->names;
    c->merged_names.entries = tensors;
    c->aliases = builder->aliases;
    c->alias_count = builder->alias_count;
    c->alias_room = builder->alias_room;
    c->alias_names = builder->alias_names;
    sft__catalog_parts_settle(c);
    builder->aliases = NULL;
    builder->alias_room = 0;
    memset(&builder->names, 0, sizeof builder->names);
    memset(&builder->alias_names, 0, sizeof builder->alias_names);
    builder->catalog = NULL;
    builder_empty(builder);
    *out = c;
    return SFT_OK;
}
