/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/writer.c - the streaming writer up to the point where bytes come: options, metadata,
 * declarations, layout. See sft/write.h and writer.h.
 */
#include "move/write/writer.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "move/write/publish_set.h"

/* Copies what the options point to, if the caller may drop it. */
static sft_status keep_options(sft_writer *w, sft_error *err) {
    sft_write_options *o = &w->set.options;

    if (o->order_list != NULL && o->order_count > 0) {
        const size_t size = o->order_count * sizeof *o->order_list; /* fits: it is in memory */
        uint32_t *list = sft__base_arena_alloc(&w->arena, size, sizeof *list);
        SFT_NEED(list != NULL, size, err);
        memcpy(list, o->order_list, size);
        o->order_list = list;
    }
    return SFT_OK;
}

static sft_status create(sft_writer **out, const char *path, const sft__fs_stream *stream,
                         const sft_write_options *options, sft_error *err) {
    const sft_allocator *allocator;
    sft__move_set checked;
    sft_writer *w;
    sft_status st = SFT_OK;

    SFT_TRY(sft__move_set_init(&checked, options, err));
    if (stream != NULL && checked.options.digests != 0) {
        return sft__base_fail(
            err, SFT_E_UNSUPPORTED,
            "digests stand in the header, which goes into a stream before the bytes that they "
            "are of; use sft_save_stream or a file");
    }
    allocator = checked.allocator;
    w = sft__base_alloc_zero(allocator, sizeof *w);
    SFT_NEED(w != NULL, sizeof *w, err);
    (void)sft__move_set_init(&w->set, options, NULL); /* as before */
    sft__base_arena_init(&w->arena, allocator, 0);
    if (!sft__base_mutex_init(&w->lock)) {
        sft__base_free(allocator, w, sizeof *w);
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    if (path != NULL) {
        w->path = sft__base_arena_copy(&w->arena, path, strlen(path));
        st = w->path == NULL ? sft__base_fail_nomem(err, strlen(path) + 1) : SFT_OK;
    } else {
        w->stream = *stream;
    }
    if (st == SFT_OK) {
        st = keep_options(w, err);
    }
    if (st != SFT_OK) {
        sft_writer_free(w);
        return st;
    }
    *out = w;
    return SFT_OK;
}

sft_status sft_writer_create(sft_writer **out, const char *path, const sft_write_options *options,
                             sft_error *err) {
    SFT_OUT(out, err);
    if (path == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "path is NULL");
    }
    return create(out, path, NULL, options, err);
}

sft_status sft_writer_create_stream(sft_writer **out, int fd, const sft_write_options *options,
                                    sft_error *err) {
    sft__fs_stream stream;

    SFT_OUT(out, err);
    SFT_TRY(sft__fs_stream_init(&stream, fd, err));
    return create(out, NULL, &stream, options, err);
}

static sft_status check_declaring(const sft_writer *w, sft_error *err) {
    if (w->state != SFT__WRITER_DECLARING) {
        return sft__base_fail(err, SFT_E_STATE,
                              "the writer has been started: nothing can be declared any more");
    }
    return SFT_OK;
}

sft_status sft_writer_metadata(sft_writer *writer, const char *key, size_t key_len,
                               const char *value, size_t value_len, sft_error *err) {
    sft__move_set *set = &writer->set;
    sft_metadata_entry e = {NULL, key_len, NULL, value_len};

    SFT_TRY(check_declaring(writer, err));
    if (key == NULL) {
        writer->has_metadata = true;
        return SFT_OK;
    }
    if (value == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "metadata key without a value");
    }
    e.key = sft__base_arena_copy(&writer->arena, key, key_len);
    e.value = sft__base_arena_copy(&writer->arena, value, value_len);
    SFT_NEED(e.key != NULL && e.value != NULL &&
                 sft__base_grow(set->allocator, &writer->metadata, &writer->metadata_cap,
                                set->metadata_count + 1, sizeof *writer->metadata),
             key_len + value_len, err);
    writer->metadata[set->metadata_count++] = e;
    writer->has_metadata = true;
    return SFT_OK;
}

const char *sft_writer_metadata_find(const sft_writer *writer, const char *key, size_t key_len,
                                     size_t *value_len) {
    for (size_t i = 0; i < writer->set.metadata_count; i++) {
        const sft_metadata_entry *e = &writer->metadata[i];
        if (e->key_len == key_len && memcmp(e->key, key, key_len) == 0) {
            *value_len = e->value_len;
            return e->value;
        }
    }
    return NULL;
}

sft_status sft_writer_declare(sft_writer *writer, const char *name, size_t name_len,
                              const sft_dtype *dtype, const uint64_t *shape, uint32_t rank,
                              uint32_t *index, sft_error *err) {
    sft__move_set *set = &writer->set;
    const size_t shape_size = rank * sizeof *shape;
    sft__format_entry e;
    uint64_t *dims = NULL;

    SFT_TRY(check_declaring(writer, err));
    if (name == NULL || dtype == NULL || (shape == NULL && rank > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "a tensor needs a name, a dtype and a shape");
    }
    if (set->count >= UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "more than %lu tensors", (unsigned long)UINT32_MAX);
    }
    memset(&e, 0, sizeof e);
    e.name = sft__base_arena_copy(&writer->arena, name, name_len);
    e.name_len = name_len;
    if (rank > 0) {
        dims = sft__base_arena_alloc(&writer->arena, shape_size, sizeof *dims);
    }
    if (e.name == NULL || (rank > 0 && dims == NULL) ||
        !sft__base_grow(set->allocator, &set->entries, &writer->entry_cap, set->count + 1,
                        sizeof *set->entries)) {
        return sft__base_fail_nomem(err, name_len + shape_size);
    }
    if (rank > 0) {
        memcpy(dims, shape, shape_size);
    }
    e.dtype = dtype;
    e.shape = dims;
    e.rank = rank;
    if (index != NULL) {
        *index = (uint32_t)set->count;
    }
    set->entries[set->count++] = e;
    return SFT_OK;
}

/* ---------------------------------------------------------------- start */

sft_status sft__move_writer_start(sft_writer *w, sft_error *err) {
    static const sft_metadata_entry none = {NULL, 0, NULL, 0}; /* present, but empty */
    sft__move_set *set = &w->set;
    sft__fs_span header;

    w->state = SFT__WRITER_DONE; /* unless all goes well */
    set->metadata = !w->has_metadata ? NULL : w->metadata != NULL ? w->metadata : &none;
    SFT_TRY(sft__move_set_layout(set, err));
    if (set->count > 0) {
        w->intakes = sft__base_alloc_array(set->allocator, set->count, sizeof *w->intakes);
        SFT_NEED(w->intakes != NULL, set->count * sizeof *w->intakes, err);
        memset(w->intakes, 0, set->count * sizeof *w->intakes);
    }
    SFT_TRY(
        sft__base_meter_init(&w->meter, set->options.control, sft__move_set_file_bytes(set), err));
    if (w->path != NULL) {
        SFT_TRY(sft__move_set_create(&w->publish, set, w->path, err));
    } else {
        header = (sft__fs_span){set->header.data, set->header.len};
        SFT_TRY(sft__fs_stream_write(&w->stream, &header, 1, err));
    }
    SFT_TRY(sft__base_meter_add(&w->meter, set->header.len, err));
    w->state = SFT__WRITER_OPEN;
    return SFT_OK;
}

sft_status sft_writer_start(sft_writer *writer, sft_error *err) {
    sft_status st;

    sft__base_mutex_lock(&writer->lock);
    st = check_declaring(writer, err);
    if (st == SFT_OK) {
        st = sft__move_writer_start(writer, err);
    }
    sft__base_mutex_unlock(&writer->lock);
    return st;
}

uint64_t sft_writer_file_bytes(const sft_writer *writer) {
    return sft__move_set_file_bytes(&writer->set);
}

uint64_t sft_writer_offset(const sft_writer *writer, uint32_t index) {
    return index < writer->set.count ? writer->set.data_offset + writer->set.entries[index].begin
                                     : 0;
}

uint64_t sft_writer_nbytes(const sft_writer *writer, uint32_t index) {
    return index < writer->set.count ? writer->set.entries[index].nbytes : 0;
}

uint32_t sft_writer_at(const sft_writer *writer, uint32_t position) {
    return position < writer->set.count && writer->set.order != NULL ? writer->set.order[position]
                                                                     : 0;
}

void sft_writer_free(sft_writer *writer) {
    const sft_allocator *allocator;

    if (writer == NULL) {
        return;
    }
    allocator = writer->set.allocator;
    for (size_t i = 0; writer->intakes != NULL && i < writer->set.count; i++) {
        sft__move_cover_reset(&writer->intakes[i].cover, allocator);
        sft__base_free(allocator, writer->intakes[i].sha, sizeof *writer->intakes[i].sha);
    }
    sft__base_free(allocator, writer->intakes, writer->set.count * sizeof *writer->intakes);
    sft__fs_publish_free(writer->publish);
    sft__base_meter_reset(&writer->meter);
    sft__move_set_reset(&writer->set);
    sft__base_free(allocator, writer->set.entries, writer->entry_cap * sizeof *writer->set.entries);
    sft__base_free(allocator, writer->metadata, writer->metadata_cap * sizeof *writer->metadata);
    sft__base_mutex_reset(&writer->lock);
    sft__base_arena_free(&writer->arena);
    sft__base_free(allocator, writer, sizeof *writer);
}
