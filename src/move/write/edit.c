/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/edit.c - changing the metadata of a file that exists. See sft/edit.h.
 *
 * In place means one positioned write that stays within one block of 4,096 bytes: the kernel
 * carries that out or not at all, whenever the process is killed. Everything else becomes a new
 * file.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "fs/copy.h"
#include "fs/output/publish.h"
#include "fs/output/rewrite.h"
#include "io/source.h"
#include "move/write/edit_sidecar.h"
#include "move/write/edit_text.h"
#include "move/write/set.h"

enum { BLOCK = 4096, RESERVE_DEFAULT = 1024, SMALL_UNIT = 64 };
static const uint64_t SMALL_DATA = (uint64_t)1
                                   << 20; /* below it a file does not grow by whole blocks */

/* A file being edited: open for reading, its header as text and as facts. */
typedef struct editor {
    sft_edit_options options;
    sft_limits limits; /* options.limits points here */
    const sft_allocator *allocator;
    const char *path;
    sft__fs_handle file;
    sft__fs_stat stat;
    char *text; /* as in the file, followed by zeros */
    size_t size;
    bool parsed;
    sft__format_header header;
    sft__move_edit_sidecar sidecar;
    sft__move_edit_sidecar beyond; /* beside what the links of the path lead to */
} editor;

/* A range of bytes that is to be different. */
typedef struct span {
    uint64_t offset;
    const void *data;
    size_t size;
} span;

/* ---------------------------------------------------------------- reading what is there */

static void editor_reset(editor *e) {
    if (e->parsed) {
        sft__format_header_reset(&e->header);
    }
    if (e->text != NULL) {
        sft__base_free(e->allocator, e->text, e->size + SFT__HEADER_SLACK);
    }
    sft__move_edit_sidecar_reset(&e->sidecar);
    sft__move_edit_sidecar_reset(&e->beyond);
    sft__fs_close(e->file);
}

/* Parses a copy: parsing writes into its text. */
static sft_status parse_copy(const editor *e, sft__format_header *out, const char *text,
                             size_t size, uint64_t file_size, sft_error *err) {
    sft_open_options options;
    char *copy =
        sft__base_alloc(e->allocator, size + SFT__HEADER_SLACK); /* fits: text has as many */

    SFT_NEED(copy != NULL, size + SFT__HEADER_SLACK, err);
    memcpy(copy, text, size);
    memset(copy + size, 0, SFT__HEADER_SLACK);
    SFT_INIT(&options);
    options.allocator = e->allocator;
    options.limits = e->options.limits;
    return sft__format_header_parse(out, copy, size, file_size, &options, err);
}

static sft_status read_header(editor *e, sft_error *err) {
    uint8_t first[8] = {0};
    uint64_t bytes;
    const size_t have = e->stat.size < 8 ? (size_t)e->stat.size : 8;

    SFT_TRY(sft__fs_read_at(e->file, e->path, 0, first, have, err));
    SFT_TRY(sft__format_header_length(first, have, e->stat.size, e->options.limits, &bytes, err));
    if (bytes > SIZE_MAX - SFT__HEADER_SLACK) {
        return sft__base_fail_nomem(err, SIZE_MAX);
    }
    e->size = (size_t)bytes;
    e->text = sft__base_alloc(e->allocator, e->size + SFT__HEADER_SLACK);
    SFT_NEED(e->text != NULL, e->size + SFT__HEADER_SLACK, err);
    memset(e->text + e->size, 0, SFT__HEADER_SLACK);
    SFT_TRY(sft__fs_read_at(e->file, e->path, 8, e->text, e->size, err));
    SFT_TRY(parse_copy(e, &e->header, e->text, e->size, e->stat.size, err));
    e->parsed = true;
    return SFT_OK;
}

static bool asked_to_stop(void *ctx) {
    const sft_control *control = ctx;
    const sft_progress nothing = {0, 0};
    return control != NULL && control->poll != NULL && control->poll(control->ctx, &nothing) != 0;
}

/* Opens the file and keeps other editors out. Whoever had the lock may have put another file in its
 * place: then that one is opened. */
static sft_status open_alone(editor *e, sft_error *err) {
    enum { TRIES = 10000 };

    for (unsigned i = 0; i < TRIES; i++) {
        sft__fs_stat now;
        bool exists;
        SFT_TRY(sft__fs_open(e->path, &e->file, &e->stat, err));
        SFT_TRY(sft__fs_rewrite_lock(e->file, e->path, asked_to_stop,
                                     (void *)(uintptr_t)e->options.control, err));
        SFT_TRY(sft__fs_stat_path(e->path, &exists, &now, err));
        SFT_TRY(sft__fs_stat_file(e->file, e->path, &e->stat, err)); /* as the one before left it */
        if (exists && now.device == e->stat.device && now.inode == e->stat.inode) {
            return SFT_OK;
        }
        sft__fs_close(e->file);
        e->file = SFT__FS_NO_HANDLE;
    }
    return sft__base_fail(err, SFT_E_CHANGED, "\"%s\" is replaced again and again", e->path);
}

static bool same_file(const sft__fs_stat *a, const sft__fs_stat *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns;
}

static sft_status check_made_of(const editor *e, sft_error *err) {
    const sft_catalog *c = e->options.made_of;
    const sft_source *source = c != NULL ? sft_catalog_source_at(c, 0) : NULL;
    sft__fs_stat then;

    if (source != NULL && sft__io_source_stamp(source, &then) && !same_file(&then, &e->stat)) {
        return sft__base_fail(err, SFT_E_CHANGED, "\"%s\" was changed or replaced by somebody else",
                              e->path);
    }
    return SFT_OK;
}

static sft_status editor_open(editor *e, const char *path, const sft_edit_options *options,
                              sft_error *err) {
    memset(e, 0, sizeof *e);
    e->file = SFT__FS_NO_HANDLE;
    SFT_TRY(sft__base_options_read(&e->options, sizeof e->options, options,
                                   SFT__UP_TO(sft_edit_options, allocator), "edit options", err));
    if (path == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "path is NULL");
    }
    SFT_TRY(sft__base_limits_read(&e->limits, e->options.limits, err));
    e->options.limits = &e->limits;
    e->allocator = e->options.allocator;
    e->path = path;
    if ((e->options.flags & SFT_EDIT_IN_PLACE) != 0 &&
        (e->options.flags & SFT_EDIT_NEW_FILE) != 0) {
        return sft__base_fail(err, SFT_E_ARG,
                              "SFT_EDIT_IN_PLACE and SFT_EDIT_NEW_FILE exclude each other");
    }
    SFT_TRY(open_alone(e, err));
    SFT_TRY(check_made_of(e, err));
    return read_header(e, err);
}

/* ---------------------------------------------------------------- in place */

/* *refused: the file may not be written to; nothing was done. */
static sft_status write_in_place(const editor *e, const span *spans, size_t count, bool *refused,
                                 sft_error *err) {
    const bool durable = e->options.durability == SFT_DURABLE_FULL;
    sft__fs_handle file;
    sft__fs_stat now;
    sft_status st = SFT_OK;

    SFT_TRY(sft__fs_rewrite_open(e->path, &file, &now, refused, err));
    if (!same_file(&e->stat, &now)) {
        st = sft__base_fail(err, SFT_E_CHANGED, "\"%s\" was changed by somebody else", e->path);
    }
    for (size_t i = 0; i < count && st == SFT_OK; i++) {
        st = sft__fs_write_at(file, e->path, spans[i].offset, spans[i].data, spans[i].size, err);
    }
    if (st != SFT_OK) {
        (void)sft__fs_rewrite_close(file, e->path, false,
                                    NULL); /* the first failure is the one to tell */
        return st;
    }
    return sft__fs_rewrite_close(file, e->path, durable, err);
}

/* ---------------------------------------------------------------- by a new file */

static sft__fs_publish_options publish_options(const editor *e) {
    const sft__fs_publish_options o = {e->allocator, e->options.durability, 0, false, NULL};
    return o;
}

/* Old bytes first, then what differs on top. */
static sft_status fill_new_file(const editor *e, sft__fs_copy *copy, sft__fs_publish *p,
                                const span *spans, size_t count, sft_error *err) {
    sft__fs_stat now;

    copy->dst = sft__fs_publish_handle(p);
    SFT_TRY(sft__fs_may_grow(sft__fs_publish_name(p), copy->dst_offset + copy->size, err));
    SFT_TRY(sft__fs_copy_range(copy, err));
    for (size_t i = 0; i < count; i++) {
        const sft__fs_span part = {spans[i].data, spans[i].size};
        SFT_TRY(sft__fs_publish_write(p, spans[i].offset, &part, 1, err));
    }
    SFT_TRY(sft__fs_stat_file(e->file, e->path, &now, err));
    if (!same_file(&e->stat, &now)) {
        return sft__base_fail(err, SFT_E_CHANGED, "\"%s\" was changed while it was copied",
                              e->path);
    }
    return SFT_OK;
}

static sft_status write_new_file(editor *e, uint64_t grown, const span *spans, size_t count,
                                 sft_error *err) {
    sft__fs_publish_options o = publish_options(e);
    const uint64_t data = 8 + (uint64_t)e->size;
    /* From a block on where blocks can be shared: what comes along of the header is overwritten. */
    const uint64_t begin = grown == 0 ? 0 : grown % BLOCK == 0 ? data - data % BLOCK : data;
    sft__fs_copy copy;
    sft__fs_publish *p;
    sft__base_meter meter;
    sft_status st;

    memset(&copy, 0, sizeof copy);
    copy.src = e->file;
    copy.src_name = e->path;
    copy.src_offset = begin;
    copy.dst_name = e->path;
    copy.dst_offset = begin + grown;
    copy.size = e->stat.size - begin;
    copy.allocator = e->allocator;
    copy.meter = &meter;
    o.expected = &e->stat;
    SFT_TRY(sft__base_meter_init(&meter, e->options.control, copy.size, err));
    st = sft__fs_publish_open(&p, e->path, &o, err);
    if (st == SFT_OK) {
        st = fill_new_file(e, &copy, p, spans, count, err);
        if (sft__fs_descriptor(e->file) < 0) { /* Windows replaces no file that is open */
            sft__fs_close(e->file);
            e->file = SFT__FS_NO_HANDLE;
        }
        if (st == SFT_OK) {
            st = sft__fs_publish_commit(p, err);
        }
        sft__fs_publish_free(p);
    }
    sft__base_meter_reset(&meter);
    return st;
}

/* ---------------------------------------------------------------- metadata */

/* The bytes of the file between the first and the last difference of two texts of one size. */
static span difference(const char *old, const char *fresh, size_t size) {
    size_t begin = 0;
    size_t end = size;
    while (begin < size && old[begin] == fresh[begin]) {
        begin++;
    }
    while (end > begin && old[end - 1] == fresh[end - 1]) {
        end--;
    }
    return (span){8 + (uint64_t)begin, fresh + begin, end - begin};
}

static bool within_one_block(const span *s) {
    return s->size > 0 && s->offset / BLOCK == (s->offset + s->size - 1) / BLOCK;
}

/* What was made must be a valid header of the same tensors. */
static sft_status check_text(const editor *e, const sft__base_buf *text, sft_error *err) {
    uint8_t first[8];
    uint64_t bytes;
    uint64_t file_size;
    sft__format_header header;
    sft_status st = SFT_OK;

    sft__base_store_le64(first, text->len);
    file_size = e->stat.size - e->size + text->len; /* cannot overflow: both below 2^63 */
    SFT_TRY(sft__format_header_length(first, 8, file_size, e->options.limits, &bytes, err));
    SFT_TRY(parse_copy(e, &header, text->data, text->len, file_size, err));
    if (header.tensor_count != e->header.tensor_count) {
        st = sft__base_fail(err, SFT_E_INTERNAL, "the edited header has other tensors");
    }
    sft__format_header_reset(&header);
    return st;
}

/* The edited header goes to its place. */
static sft_status apply_text(editor *e, const sft__base_buf *text, sft_edit_way *way,
                             sft_error *err) {
    const bool forced = (e->options.flags & SFT_EDIT_IN_PLACE) != 0;
    const bool fits = text->len == e->size;
    const bool shared = e->stat.names > 1; /* other names must keep what they have */
    uint8_t length[8];
    span spans[2];
    bool refused = false;
    sft_status st;

    if (forced && shared) {
        return sft__base_fail(
            err, SFT_E_UNSUPPORTED,
            "\"%s\" has %lu names (hard links), all of which would change: in place "
            "only what has one name",
            e->path, (unsigned long)e->stat.names);
    }
    if (fits) {
        spans[0] = difference(e->text, text->data, e->size);
        if (forced || (within_one_block(&spans[0]) && !shared &&
                       (e->options.flags & SFT_EDIT_NEW_FILE) == 0)) {
            st = write_in_place(e, spans, 1, &refused, err);
            *way = SFT_EDITED_IN_PLACE;
            if (!refused || forced) {
                return st;
            }
        }
    } else if (forced) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "the header has no room: %llu bytes instead of %llu would be needed",
                              (unsigned long long)text->len, (unsigned long long)e->size);
    }
    sft__base_store_le64(length, text->len);
    spans[0] = (span){0, length, 8};
    spans[1] = (span){8, text->data, text->len};
    *way = SFT_EDITED_NEW_FILE;
    return write_new_file(e, text->len - e->size, spans, 2, err);
}

static sft_status find_sidecars(editor *e, sft_error *err) {
    sft__base_buf target;
    bool is = false;
    sft_status status = sft__move_edit_sidecar_find(&e->sidecar, e->path, e->allocator, err);

    sft__base_buf_init(&target, e->allocator);
    if (status == SFT_OK) {
        status = sft__fs_link_target(e->path, &target, &is, err);
    }
    if (status == SFT_OK && is) {
        status = sft__move_edit_sidecar_find(&e->beyond, target.data, e->allocator, err);
    }
    sft__base_buf_reset(&target);
    return status;
}

static sft_status make_sidecars(editor *e, uint64_t size, sft_error *err) {
    const sft__fs_publish_options o = publish_options(e);

    SFT_TRY(sft__move_edit_sidecar_make(&e->sidecar, size, &o, err));
    return sft__move_edit_sidecar_make(&e->beyond, size, &o, err);
}

/* After the file: a file that is in place, durable or not, needs its sidecars. */
static sft_status follow(editor *e, sft_status edited, sft_error *err) {
    if (edited == SFT_E_DURABILITY) { /* uncertain anyway, and told so */
        (void)sft__move_edit_sidecar_publish(&e->sidecar, NULL);
        (void)sft__move_edit_sidecar_publish(&e->beyond, NULL);
    }
    if (edited == SFT_OK) {
        edited = sft__move_edit_sidecar_publish(&e->sidecar, err);
        if (edited == SFT_OK) {
            edited = sft__move_edit_sidecar_publish(&e->beyond, err);
        }
    }
    return edited;
}

/* A sidecar tells the file's size: it follows if that changes. */
static sft_status carry_out(editor *e, const sft__base_buf *text, sft_edit_way *way,
                            sft_error *err) {
    SFT_TRY(check_text(e, text, err));
    if (text->len != e->size) {
        SFT_TRY(find_sidecars(e, err));
        SFT_TRY(make_sidecars(e, e->stat.size - e->size + text->len, err));
    }
    return follow(e, apply_text(e, text, way, err), err);
}

static sft_status edit_metadata(editor *e, const sft_metadata_entry *entries, size_t count,
                                sft_edit_way *way, sft_error *err) {
    const uint64_t data_bytes = e->stat.size - 8 - e->size;
    const sft__move_edit_change change = {
        entries,
        count,
        (e->options.flags & SFT_EDIT_CLEAR) != 0,
        e->options.reserve_bytes != 0 ? e->options.reserve_bytes : RESERVE_DEFAULT,
        data_bytes >= SMALL_DATA ? BLOCK : SMALL_UNIT,
    };
    sft__base_buf text;
    bool changed;
    sft_status st;

    sft__base_buf_init(&text, e->allocator);
    const sft__move_edit_old old = {e->text, e->size, &e->header};
    st = sft__move_edit_text(&text, &old, &change, &changed, err);
    if (st == SFT_OK && changed) {
        st = carry_out(e, &text, way, err);
    }
    sft__base_buf_reset(&text);
    return st;
}

sft_status sft_edit_metadata(const char *path, const sft_metadata_entry *entries, size_t count,
                             const sft_edit_options *options, sft_edit_way *way, sft_error *err) {
    sft_edit_way how = SFT_EDITED_NOTHING;
    editor e;
    sft_status st = editor_open(&e, path, options, err);

    if (st == SFT_OK && entries == NULL && count > 0) {
        st = sft__base_fail(err, SFT_E_ARG, "a count without an array");
    }
    if (st == SFT_OK) {
        st = edit_metadata(&e, entries, count, &how, err);
    }
    editor_reset(&e);
    if (way != NULL) {
        *way = st == SFT_OK || st == SFT_E_DURABILITY ? how : SFT_EDITED_NOTHING;
    }
    return st;
}
