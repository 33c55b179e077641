/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/directory.c - a model in several files of another format as one catalog. Each file is
 * opened as it would be alone; the catalog over all of them has sources that pass on to theirs, and
 * keeps them open. Read first: shards.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "import/core/beside.h"
#include "import/core/shards.h"
#include <stdio.h>

static const char storage[] = "sft.storage.";

enum { STORAGE_ROOM = 32 };

/* A catalog with those who need it: closed with the last of its sources. Closing is one thread's.
 */
typedef struct held {
    const sft_allocator *allocator;
    sft_catalog *catalog;
    size_t refs;
} held;

typedef struct passing {
    held *of;
    const sft_source *inner;
} passing;

typedef struct merging {
    const sft_import_options *options;
    const sft_allocator *allocator;
    sft__import_shard_index *index; /* NULL: a set of GGUF */
    sft_builder *builder;
    sft_import_report *report;
    sft_piece *pieces; /* scratch */
    size_t room;
    uint32_t storages;    /* so far; docs/tree.md */
    sft__base_buf blocks; /* of a set of GGUF: what gguf.tensors is in each, without braces */
} merging;

/* ---------------------------------------------------------------- sources that pass on */

static void held_drop(held *h) {
    if (--h->refs == 0) {
        sft_catalog_close(h->catalog);
        sft__base_free(h->allocator, h, sizeof *h);
    }
}

static sft_status pass_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    return sft_source_read(((const passing *)self)->inner, offset, dst, size, err);
}

static sft_status pass_read_many(void *self, const sft_io_batch *batch, sft_error *err) {
    return sft_source_read_many(((const passing *)self)->inner, batch, err);
}

static sft_status pass_borrow(void *self, uint64_t offset, size_t size, const void **data,
                              sft_error *err) {
    return sft_source_borrow(((const passing *)self)->inner, offset, size, data, err);
}

static void pass_advise(void *self, uint64_t offset, uint64_t size, sft_advice advice) {
    sft_source_advise(((const passing *)self)->inner, offset, size, advice);
}

static int pass_descriptor(void *self) {
    return sft_source_descriptor(((const passing *)self)->inner);
}

static void pass_close(void *self) {
    passing *p = self;
    held *h = p->of;

    sft__base_free(h->allocator, p, sizeof *p);
    held_drop(h);
}

static sft_status pass_create(sft_source **out, held *h, const sft_source *inner, sft_error *err) {
    sft_source_vtable vtable;
    passing *p;

    *out = NULL;
    SFT_TRY(sft__base_need(h->allocator, &p, sizeof *p, err));
    p->of = h;
    p->inner = inner;
    SFT_INIT(&vtable);
    vtable.read_at = pass_read;
    vtable.read_many = pass_read_many;
    vtable.borrow = pass_borrow;
    vtable.advise = pass_advise;
    vtable.descriptor = pass_descriptor;
    vtable.close = pass_close;
    h->refs++;
    const sft_status status =
        sft_source_create(out, &vtable, p,
                          &(sft_source_info){sft_source_size(inner), sft_source_flags(inner),
                                             sft_source_name(inner), h->allocator},
                          err);
    if (status != SFT_OK) {
        pass_close(p);
    }
    return status;
}

/* ---------------------------------------------------------------- one file into the whole */

/* A file that is taken in: its first entry in the index; its first source and file in the whole; and of each
 * tensor that is bytes which only other names show its number there, from 1 on, else 0. */
typedef struct shard {
    const sft_catalog *catalog;
    size_t entry;
    uint32_t source;
    uint32_t file;
    uint32_t *numbers;
} shard;

static sft_status add_sources(merging *m, held *h, shard *f, sft_error *err) {
    for (size_t i = 0; i < sft_catalog_source_count(h->catalog); i++) {
        sft_source *source;
        uint32_t at;
        SFT_TRY(pass_create(&source, h, sft_catalog_source_at(h->catalog, i), err));
        SFT_TRY(sft_builder_add_source(m->builder, source, &at, err));
        f->source = i == 0 ? at : f->source;
    }
    return SFT_OK;
}

/* Of a set of GGUF: what says which file it is, is not true of all of them together; what says
 * which blocks its tensors have is put together. */
static bool is_of_set(merging *m, const sft_metadata_entry *e) {
    static const char notes[] = "gguf.tensors";

    if (e->key_len == sizeof notes - 1 && memcmp(e->key, notes, e->key_len) == 0 &&
        e->value_len > 2) {
        sft__base_buf_text(&m->blocks, m->blocks.len == 0 ? "{" : ", ");
        sft__base_buf_add(&m->blocks, e->value + 1, e->value_len - 2);
        return true;
    }
    return e->key_len > 6 && memcmp(e->key, "split.", 6) == 0;
}

static sft_status add_files(merging *m, shard *f, sft_error *err) {
    const sft_catalog *catalog = f->catalog;

    for (size_t i = 0; i < sft_catalog_file_count(catalog); i++) {
        sft_file file = *sft_catalog_file_at(catalog, i);
        sft_metadata_entry e;
        uint32_t at;
        file.source += f->source;
        SFT_TRY(sft_builder_add_file(m->builder, &file, &at, err));
        f->file = i == 0 ? at : f->file;
        for (size_t k = 0; k < sft_catalog_metadata_count(catalog, i); k++) {
            SFT_TRY(
                sft_catalog_metadata_at(catalog, i, k, &e.key, &e.key_len, &e.value, &e.value_len));
            if (m->index == NULL && is_of_set(m, &e)) {
                continue;
            }
            SFT_TRY(sft_builder_add_metadata(m->builder, at, &e, err));
        }
    }
    return SFT_OK;
}

static sft_status add_tensor(merging *m, const sft_tensor *tensor, const shard *f, sft_error *err) {
    sft_tensor t = *tensor;

    SFT_TRY(sft__base_need_room(m->allocator, &m->pieces, &m->room, t.piece_count,
                                sizeof *m->pieces, err));
    for (uint32_t i = 0; i < t.piece_count; i++) {
        m->pieces[i] = t.pieces[i];
        m->pieces[i].source += f->source;
    }
    t.pieces = m->pieces;
    t.file += f->file;
    return sft_builder_add_tensor(m->builder, &t, err);
}

/* Bytes that only other names show (docs/tree.md): their name was made when the file was read. No index has
 * it, and those of each file begin with 0. */
static bool is_storage(const merging *m, const sft_tensor *t) {
    const size_t n = sizeof storage - 1;

    return m->index != NULL && t->name_len > n && memcmp(t->name, storage, n) == 0 &&
           sft__base_strmap_find(&m->index->names, t->name, t->name_len) == SFT__STRMAP_NONE;
}

static void number_storages(merging *m, const shard *f) {
    const sft_catalog *catalog = f->catalog;

    for (size_t i = 0; i < sft_catalog_alias_count(catalog); i++) {
        size_t len;
        size_t of;
        const char *alias = sft_catalog_alias_at(catalog, i, &len, &of);
        const sft_tensor *t = sft_catalog_at(catalog, of);
        if (is_storage(m, t) && sft_catalog_find(catalog, alias, len) != t && f->numbers[of] == 0) {
            f->numbers[of] = ++m->storages;
        }
    }
}

/* The tensor's name in the whole. room: for a storage's. */
static const char *name_in_whole(const sft_tensor *t, uint32_t number, char *room, size_t *len) {
    if (number == 0) {
        *len = t->name_len;
        return t->name;
    }
    *len = (size_t)snprintf(room, STORAGE_ROOM, "%s%u", storage, (unsigned)number - 1);
    return room;
}

static sft_status add_names(merging *m, const shard *f, sft_error *err) {
    const sft_catalog *catalog = f->catalog;
    char room[STORAGE_ROOM];

    for (size_t i = 0; i < sft_catalog_alias_count(catalog); i++) {
        size_t len;
        size_t of;
        size_t n;
        const char *alias = sft_catalog_alias_at(catalog, i, &len, &of);
        const sft_tensor *t = sft_catalog_at(catalog, of);
        const sft_tensor *shows = sft_catalog_find(catalog, alias, len);
        const char *name = name_in_whole(t, f->numbers[of], room, &n);
        sft_tensor part = *shows;
        if (shows == t) {
            SFT_TRY(sft_builder_add_alias(m->builder, alias, len, name, n, err));
        } else {
            sft_piece piece = shows->pieces[0];
            piece.source += f->source;
            part.pieces = &piece;
            SFT_TRY(sft_builder_add_part(m->builder, &part, name, n, err));
        }
    }
    return SFT_OK;
}

static sft_status add_numbered(merging *m, const shard *f, sft_error *err) {
    char room[STORAGE_ROOM];

    for (size_t i = 0; i < sft_catalog_count(f->catalog); i++) {
        sft_tensor t = *sft_catalog_at(f->catalog, i);
        if (m->index != NULL && f->numbers[i] == 0) {
            const char *file = m->index->entries[f->entry].file;
            SFT_TRY(sft__import_shard_index_places(m->index, file, &t, err));
        }
        t.name = name_in_whole(&t, f->numbers[i], room, &t.name_len);
        SFT_TRY(add_tensor(m, &t, f, err));
    }
    return add_names(m, f, err);
}

static sft_status add_tensors(merging *m, shard *f, sft_error *err) {
    const size_t bytes = (sft_catalog_count(f->catalog) + 1) * sizeof(uint32_t);

    SFT_TRY(sft__base_need_zero(m->allocator, &f->numbers, bytes, err));
    number_storages(m, f);
    const sft_status status = add_numbered(m, f, err);
    sft__base_free(m->allocator, f->numbers, bytes);
    return status;
}

/* The error of one file, told as that of the whole. */
static sft_status in_file(sft_error *err, const sft_error *why, const char *file) {
    char name[160];

    (void)sft_escape(name, sizeof name, file, strlen(file));
    if (why->status == SFT_E_IO || why->status == SFT_E_NOT_REGULAR) {
        return sft__base_fail(err, SFT_E_SHARD_MISSING, "%s, which the index names: %.200s", name,
                              why->message);
    }
    if (err != NULL) {
        *err = *why;
        (void)snprintf(err->message, sizeof err->message, "%.90s: %.250s", name, why->message);
    }
    return (sft_status)why->status;
}

/* entry: the first of the file in the index. */
static sft_status take_shard(merging *m, sft_catalog *catalog, size_t entry, sft_error *err) {
    shard f = {.catalog = catalog, .entry = entry};

    held *h = sft__base_alloc(m->allocator, sizeof *h);
    if (h == NULL) {
        sft_catalog_close(catalog);
        return sft__base_fail_nomem(err, sizeof *h);
    }
    *h = (held){m->allocator, catalog, 1};
    sft_status status =
        m->index != NULL ? sft__import_shard_index_holds(m->index, entry, catalog, err) : SFT_OK;
    SFT_THEN(status, add_sources(m, h, &f, err));
    SFT_THEN(status, add_files(m, &f, err));
    SFT_THEN(status, add_tensors(m, &f, err));
    held_drop(h);
    return status;
}

static sft_status open_shard(merging *m, const char *path, sft_catalog **catalog, sft_error *err) {
    sft_import_report *report = NULL;
    sft_error why;

    /* One file: an index that names an index leads nowhere. */
    const sft_status status = sft__import_open_file(catalog, path, m->options, &report, &why);
    if (status != SFT_OK) {
        const char *slash = strrchr(path, '/');
        return in_file(err, &why, slash != NULL ? slash + 1 : path);
    }
    sft__import_report_merge(m->report, report);
    sft_import_report_free(report);
    return SFT_OK;
}

static sft_status add_shard(merging *m, const char *path, size_t entry, sft_error *err) {
    sft_catalog *catalog;

    SFT_TRY(sft__import_beside_stays(path, m->options->flags, err));
    SFT_TRY(open_shard(m, path, &catalog, err));
    return take_shard(m, catalog, entry, err);
}

/* ---------------------------------------------------------------- the whole */

/* DIRECTORY/FILE with its NUL; `path` without anything behind the last slash if it names a file. */
static bool join(sft__base_buf *b, const char *path, bool is_file, const char *file) {
    const char *slash = strrchr(path, '/');
    const size_t len = !is_file ? strlen(path) : slash != NULL ? (size_t)(slash - path) : 0;

    b->len = 0;
    sft__base_buf_add(b, path, len);
    sft__base_buf_text(b, !is_file || slash != NULL ? "/" : "");
    sft__base_buf_text(b, file);
    sft__base_buf_add(b, "", 1);
    return !b->failed;
}

static sft_status add_all(merging *m, const char *path, sft_error *err) {
    const sft__import_shard_entry *entries = m->index->entries;
    sft_status status = SFT_OK;
    sft__base_buf name;

    sft__base_buf_init(&name, m->allocator);
    for (size_t i = 0; i < m->index->count && status == SFT_OK; i++) {
        if (i != 0 && strcmp(entries[i].file, entries[i - 1].file) == 0) {
            continue;
        }
        status = join(&name, path, true, entries[i].file) ? add_shard(m, name.data, i, err)
                                                          : sft__base_fail_nomem(err, name.len);
    }
    sft__base_buf_reset(&name);
    return status == SFT_OK ? sft__import_shard_index_complete(m->index, err) : status;
}

/* ---------------------------------------------------------------- sets of GGUF */

enum { SET_END = 20 /* -00001-of-00003.gguf */, SET_NUMBER = 5 };

static uint32_t set_number(const char *p) {
    uint32_t v = 0;

    for (int i = 0; i < SET_NUMBER; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return 0;
        }
        v = 10 * v + (uint32_t)(p[i] - '0');
    }
    return v;
}

/* The number of files by the end of the first one's name; 0: it is no such name. */
static uint32_t set_count(const char *path) {
    const size_t len = strlen(path);
    const char *end = len > SET_END ? path + len - SET_END : NULL;

    return end != NULL && end[0] == '-' && set_number(end + 1) == 1 &&
                   memcmp(end + 6, "-of-", 4) == 0 && memcmp(end + 15, ".gguf", 5) == 0
               ? set_number(end + 10)
               : 0;
}

bool sft__import_gguf_set_likely(const char *path, const uint8_t *head, size_t len) {
    return len >= 8 && memcmp(head, "GGUF", 4) == 0 && set_count(path) > 1;
}

static uint64_t set_value(const sft_catalog *catalog, const char *key, uint64_t otherwise) {
    size_t len = 0;
    const char *text = sft_catalog_metadata_find(catalog, 0, key, strlen(key), &len);
    uint64_t v = 0;

    for (size_t i = 0; text != NULL && i < len; i++) {
        v = text[i] >= '0' && text[i] <= '9' && i < 10 ? 10 * v + (uint64_t)(text[i] - '0')
                                                       : UINT64_MAX / 16;
    }
    return text != NULL && len != 0 ? v : otherwise;
}

/* Does the file say that it is this one of so many? */
static sft_status set_check(const sft_catalog *catalog, const char *path, uint32_t number,
                            uint32_t count, sft_error *err) {
    const uint64_t no = set_value(catalog, "split.no", UINT64_MAX);
    const uint64_t of = set_value(catalog, "split.count", UINT64_MAX);

    return no == number && of == count
               ? SFT_OK
               : sft__base_fail(
                     err, SFT_E_SHARD_DISAGREES,
                     "%.200s is by its name shard %u of %u, by split.no and split.count it is not",
                     path, (unsigned)number + 1, (unsigned)count);
}

/* Opens the files one after the other; name: room for path. */
static sft_status set_all(merging *m, char *name, uint32_t count, sft_error *err) {
    char *end = name + strlen(name) - SET_END;
    uint64_t want = 0;
    uint64_t have = 0;

    for (uint32_t i = 0; i < count; i++) {
        sft_catalog *catalog;
        char digits[16];
        (void)snprintf(digits, sizeof digits, "%05u", (unsigned)i + 1);
        memcpy(end + 1, digits, SET_NUMBER);
        SFT_TRY(open_shard(m, name, &catalog, err));
        const sft_status status = set_check(catalog, name, i, count, err);
        if (status != SFT_OK) {
            sft_catalog_close(catalog);
            return status;
        }
        want = i == 0 ? set_value(catalog, "split.tensors.count", UINT64_MAX) : want;
        have += sft_catalog_count(catalog) + sft_catalog_alias_count(catalog);
        SFT_TRY(take_shard(m, catalog, 0, err));
    }
    if (want != UINT64_MAX && want != have && (m->options->flags & SFT_IMPORT_ALLOW_OPAQUE) == 0) {
        return sft__base_fail(err, SFT_E_SHARD_DISAGREES,
                              "%u files with %llu tensors, split.tensors.count says %llu",
                              (unsigned)count, (unsigned long long)have, (unsigned long long)want);
    }
    return SFT_OK;
}

static sft_status add_set(merging *m, const char *path, sft_error *err) {
    const size_t room = strlen(path) + 1;
    char *name;

    SFT_TRY(sft__base_need(m->allocator, &name, room, err));
    memcpy(name, path, room);
    sft_status status = set_all(m, name, set_count(path), err);
    sft__base_free(m->allocator, name, room);
    if (status == SFT_OK && m->blocks.len != 0) {
        sft__base_buf_text(&m->blocks, "}");
        const sft_metadata_entry e = {"gguf.tensors", 12, m->blocks.data, m->blocks.len};
        status = m->blocks.failed ? sft__base_fail_nomem(err, m->blocks.len)
                                  : sft_builder_add_metadata(m->builder, 0, &e, err);
    }
    return status;
}

/* Anything that a catalog over files needs, around `index`, or the set whose first file is `path`.
 */
static sft_status merge(sft_catalog **out, const char *path, sft__import_shard_index *index,
                        const sft_import_options *options, sft_import_report **report,
                        sft_error *err) {
    merging m = {
        .options = options, .allocator = sft__base_allocator(options->allocator), .index = index};
    sft_open_options o;

    SFT_INIT(&o);
    o.allocator = options->allocator;
    o.limits = options->limits;
    o.access = options->access;
    sft__base_buf_init(&m.blocks, m.allocator);
    sft_status status = sft__import_report_create(&m.report, m.allocator, err);
    SFT_THEN(status, sft_builder_create(&m.builder, &o, err));
    SFT_THEN(status, index != NULL ? add_all(&m, path, err) : add_set(&m, path, err));
    SFT_THEN(status, sft_builder_finish(out, m.builder, err));
    if (status == SFT_OK && report != NULL) {
        *report = m.report;
        m.report = NULL;
    }
    sft_builder_free(m.builder);
    sft_import_report_free(m.report);
    sft__base_buf_reset(&m.blocks);
    sft__base_free(m.allocator, m.pieces, m.room * sizeof *m.pieces);
    return status;
}

static bool is_safetensors(const char *file) {
    static const char ending[] = ".safetensors";
    const size_t len = strlen(file);
    return len >= sizeof ending && strcmp(file + len - (sizeof ending - 1), ending) == 0;
}

/* The core's own, by its rules. */
static sft_status open_safetensors(sft_catalog **out, const char *path,
                                   const sft_import_options *options, sft_import_report **report,
                                   sft_error *err) {
    sft_import_report *r;
    sft_open_options o;

    SFT_INIT(&o);
    o.allocator = options->allocator;
    o.limits = options->limits;
    o.access = options->access;
    SFT_TRY(sft__import_report_create(&r, sft__base_allocator(options->allocator), err));
    sft__import_report_format(r, SFT_IMPORT_SAFETENSORS);
    const sft_status status = sft_catalog_open(out, path, &o, err);
    if (status == SFT_OK && report != NULL) {
        *report = r;
        r = NULL;
    }
    sft_import_report_free(r);
    return status;
}

sft_status sft__import_shards_open(sft_catalog **out, const char *path, const sft_source *index,
                                   const sft_import_options *options, sft_import_report **report,
                                   sft_error *err) {
    sft__import_shard_index x;

    memset(&x, 0, sizeof x);
    sft_status status =
        sft__import_shard_index_read(&x, index, sft__base_allocator(options->allocator), err);
    if (status == SFT_OK && is_safetensors(x.entries[0].file)) {
        status = open_safetensors(out, path, options, report, err);
    } else if (status == SFT_OK) {
        status = merge(out, path, &x, options, report, err);
    }
    sft__import_shard_index_reset(&x);
    return status;
}

sft_status sft__import_gguf_set_open(sft_catalog **out, const char *path,
                                     const sft_import_options *options, sft_import_report **report,
                                     sft_error *err) {
    sft_import_options o = *options;

    o.flags |= SFT__IMPORT_IN_SET;
    return merge(out, path, NULL, &o, report, err);
}

/* Directories of other formats, by a file of theirs: *is, and why they are not read. */
static sft_status refused_directory(const char *path, bool *is, const sft_allocator *allocator,
                                    sft_error *err) {
    static const struct {
        const char *file;
        const char *what;
    } rows[] = {
        {"Data/com.apple.CoreML/model.mlmodel",
         "a CoreML package (.mlpackage), which holds a program and its weights: convert it with "
         "coremltools"},
        {".zgroup", "a Zarr store, which has no convention for weights"},
        {"zarr.json", "a Zarr store, which has no convention for weights"},
        {"_CHECKPOINT_METADATA",
         "a checkpoint of Orbax: restore it with orbax, and save the arrays"},
    };
    sft_status status = SFT_OK;
    sft_source *source;
    sft__base_buf file;

    sft__base_buf_init(&file, allocator);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == SFT_OK; i++) {
        if (!join(&file, path, false, rows[i].file)) {
            status = sft__base_fail_nomem(err, file.len);
        } else if (sft_source_open(&source, file.data, SFT_ACCESS_READ, allocator, NULL) ==
                   SFT_OK) {
            sft_source_close(source);
            *is = true;
            status = sft__base_fail(err, SFT_E_FORMAT, "this is %s", rows[i].what);
        }
    }
    sft__base_buf_reset(&file);
    return status;
}

/* Of another format than safetensors, by the name of a file in it. *is: it was. */
static sft_status named_directory(sft_catalog **out, const char *path, bool *is,
                                  const sft_import_options *options, sft_import_report **report,
                                  sft_error *err) {
    static const char *const names[] = {
        "pytorch_model.bin.index.json",
        "pytorch_model.bin",
        "flax_model.msgpack.index.json",
        "flax_model.msgpack",
    };
    sft_source *source;
    sft__base_buf file;
    sft_status status = SFT_OK;

    sft__base_buf_init(&file, sft__base_allocator(options->allocator));
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !*is && status == SFT_OK; i++) {
        if (!join(&file, path, false, names[i])) {
            status = sft__base_fail_nomem(err, file.len);
        } else if (sft_source_open(&source, file.data, SFT_ACCESS_READ, options->allocator, NULL) ==
                   SFT_OK) {
            *is = true;
            sft_source_close(source);
            status = sft__import_beside_stays(file.data, options->flags, err);
            SFT_THEN(status, sft_import_open(out, file.data, options, report, err));
        }
    }
    sft__base_buf_reset(&file);
    return status;
}

sft_status sft__import_directory_open(sft_catalog **out, const char *path, bool *is,
                                      const sft_import_options *options, sft_import_report **report,
                                      sft_error *err) {
    sft_error why;

    /* Safetensors first, as everywhere: other formats beside them are another model. */
    sft_status status = open_safetensors(out, path, options, report, &why);
    *is = status != SFT_E_FORMAT; /* "no such directory", or none with safetensors */
    if (*is) {
        if (status != SFT_OK && err != NULL) {
            *err = why;
        }
        return status;
    }
    status = named_directory(out, path, is, options, report, err);
    return status == SFT_OK && !*is
               ? refused_directory(path, is, sft__base_allocator(options->allocator), err)
               : status;
}
