/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert_index.c - the index of a sharded output, and whole folders as Hugging Face lays
 * them out: pytorch_model.bin, or pytorch_model-0000x-of-0000y.bin with
 * pytorch_model.bin.index.json. Read first: convert.h.
 */
#include "base/json.h"
#include "base/strmap.h"
#include "base/utf8.h"
#include "import/convert.h"
#include <stdlib.h>

enum { INDEX_MAX = 64 << 20 };

/* ---------------------------------------------------------------- writing */

static void put_string(sft__buf *b, const char *text, size_t len) {
    static const char hex[] = "0123456789abcdef";

    sft__buf_text(b, "\"");
    for (size_t i = 0; i < len; i++) {
        const uint8_t ch = (uint8_t)text[i];
        if (ch == '"' || ch == '\\') {
            sft__buf_text(b, "\\");
            sft__buf_add(b, &text[i], 1);
        } else if (ch < 0x20) {
            const char escape[6] = {'\\', 'u', '0', '0', hex[ch >> 4], hex[ch & 15]};
            sft__buf_add(b, escape, sizeof escape);
        } else {
            sft__buf_add(b, &text[i], 1);
        }
    }
    sft__buf_text(b, "\"");
}

void sft__index_begin(sft__buf *b) {
    sft__buf_text(b, "{\n  \"weight_map\": {");
}

void sft__index_add(sft__buf *b, const char *name, size_t name_len, const char *file) {
    sft__buf_text(b, b->len > 0 && b->data[b->len - 1] != '{' ? ",\n    " : "\n    ");
    put_string(b, name, name_len);
    sft__buf_text(b, ": ");
    put_string(b, file, strlen(file));
}

void sft__index_end(sft__buf *b, uint64_t total_bytes) {
    sft__buf_text(b, "\n  },\n  \"metadata\": {\n    \"total_size\": ");
    sft__buf_u64(b, total_bytes);
    sft__buf_text(b, "\n  }\n}\n");
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static sft_status publish_index(sft__conversion *c, const char *path, const sft__buf *text,
                                sft_error *err) {
    if (text->failed) {
        return sft__fail_nomem(err, text->len);
    }
    return sft__publish(path, text->data, text->len, (c->options.flags & SFT_CONVERT_REPLACE) != 0,
                        c->write.durability == SFT_DURABLE_FULL, err);
}

sft_status sft__convert_index(sft__conversion *c, const char *output, uint32_t files,
                              sft_error *err) {
    sft_status status = SFT_OK;
    uint32_t known = UINT32_MAX;
    sft__buf path;
    sft__buf text;
    sft__buf name;

    sft__buf_init(&path, c->allocator);
    sft__buf_init(&text, c->allocator);
    sft__buf_init(&name, c->allocator);
    sft__index_begin(&text);
    for (size_t i = 0; i < c->item_count && status == SFT_OK; i++) {
        const sft_import_item *item = &c->items[i];
        if (item->file != known) {
            sft__buf_reset(&name);
            status = sft__convert_name(c, &name, output, item->file, files, err);
            known = item->file;
        }
        if (status == SFT_OK) {
            sft__index_add(&text, item->name, item->name_len, base_name(name.data));
        }
    }
    sft__index_end(&text, c->result.data_bytes);
    const size_t len = strlen(output);
    sft__buf_text(&path, output);
    sft__buf_text(&path, len > 12 && strcmp(output + len - 12, ".safetensors") == 0
                             ? ".index.json"
                             : ".safetensors.index.json");
    sft__buf_add(&path, "", 1);
    if (status == SFT_OK) {
        status =
            path.failed ? sft__fail_nomem(err, path.len) : publish_index(c, path.data, &text, err);
    }
    sft__buf_reset(&path);
    sft__buf_reset(&text);
    sft__buf_reset(&name);
    return status;
}

/* ---------------------------------------------------------------- reading an index */

typedef struct entry {
    const char *name; /* name, len first for the table */
    size_t len;
    const char *file;
} entry;

typedef struct folder {
    sft__conversion *c;
    const char *input;
    const char *output;
    sft__arena arena;
    entry *entries;
    size_t count;
    size_t room;
    sft__buf index;
    sft__strmap names; /* over entries */
} folder;

/* One component, of this folder. */
static bool is_plain_name(const char *file, size_t len) {
    return len != 0 && file[0] != '.' && strlen(file) == len && strpbrk(file, "/\\:") == NULL &&
           sft__utf8_valid(file, len) == len;
}

static sft_status json_bad(const sft__json *j, const char *text, sft_error *err) {
    const uint64_t at = j->fault_at != NULL ? (uint64_t)(j->fault_at - text) : 0;
    return sft__fail_at(err, SFT_E_INDEX, at, "pytorch_model.bin.index.json: %s",
                        j->fault != NULL ? j->fault : "no object of file names");
}

/* p behind the '{' of weight_map. */
static const char *map_read(folder *f, sft__json *j, const char *p, sft_error *err) {
    for (p = sft__json_blank(p); p != NULL && *p == '"';) {
        sft__json_str name;
        sft__json_str file;
        entry e = {NULL, 0, NULL};
        size_t file_len = 0;
        p = sft__json_read(j, p, &name);
        p = p != NULL ? sft__json_blank(p) : NULL;
        if (p == NULL || *p != ':') {
            return NULL;
        }
        p = sft__json_blank(p + 1);
        p = *p == '"' ? sft__json_read(j, p, &file) : NULL;
        if (p == NULL) {
            return NULL;
        }
        char *raw = sft__arena_copy(&f->arena, name.raw, name.len);
        char *raw_file = sft__arena_copy(&f->arena, file.raw, file.len);
        if (raw == NULL || raw_file == NULL ||
            !sft__grow(f->c->allocator, &f->entries, &f->room, f->count + 1, sizeof *f->entries)) {
            (void)sft__fail_nomem(err, name.len);
            return NULL;
        }
        e.len = name.escaped ? sft__json_decode(raw, &name) : name.len;
        file_len = file.escaped ? sft__json_decode(raw_file, &file) : file.len;
        raw[e.len] = raw_file[file_len] = '\0';
        e.name = raw;
        e.file = raw_file;
        if (!is_plain_name(raw_file, file_len)) {
            (void)sft__fail_tensor(err, SFT_E_PATH, SFT_NO_OFFSET, raw, e.len,
                                   "the index names a file outside its folder");
            return NULL;
        }
        f->entries[f->count++] = e;
        p = sft__json_blank(p);
        p = *p == ',' ? sft__json_blank(p + 1) : p;
    }
    return p != NULL && *p == '}' ? p + 1 : NULL;
}

static sft_status index_parse(folder *f, const char *text, size_t len, sft_error *err) {
    sft__json j = {.end = text + len};
    bool found = false;
    sft_error local;
    sft_error *e = err != NULL ? err : &local;

    e->status = SFT_OK;
    if (sft__utf8_valid(text, len) != len) {
        return sft__fail(e, SFT_E_UTF8, "pytorch_model.bin.index.json is not UTF-8");
    }
    const char *p = sft__json_blank(text);
    p = *p == '{' ? sft__json_blank(p + 1) : NULL;
    while (p != NULL && *p == '"') {
        sft__json_str key;
        p = sft__json_read(&j, p, &key);
        p = p != NULL ? sft__json_blank(p) : NULL;
        if (p == NULL || *p != ':') {
            return json_bad(&j, text, e);
        }
        p = sft__json_blank(p + 1);
        if (sft__json_is(&key, "weight_map", 10) && *p == '{' && !found) {
            found = true;
            p = map_read(f, &j, p + 1, e);
        } else {
            p = sft__json_value(&j, p, 1);
        }
        p = p != NULL ? sft__json_blank(p) : NULL;
        p = p != NULL && *p == ',' ? sft__json_blank(p + 1) : p;
    }
    if (e->status != SFT_OK) {
        return (sft_status)e->status;
    }
    return p == NULL || *p != '}' || !found ? json_bad(&j, text, e) : SFT_OK;
}

static sft_status read_index(folder *f, sft_source *source, sft_error *err) {
    const uint64_t size = sft_source_size(source);
    sft_status status;

    if (size > INDEX_MAX) {
        return sft__fail(err, SFT_E_LIMIT, "the index has %llu bytes, %d is the limit",
                         (unsigned long long)size, (int)INDEX_MAX);
    }
    const size_t room = (size_t)size + SFT__JSON_SLACK;
    char *text = sft__alloc_zero(f->c->allocator, room);
    if (text == NULL) {
        return sft__fail_nomem(err, room);
    }
    status = size == 0 ? SFT_OK : sft_source_read(source, 0, text, (size_t)size, err);
    if (status == SFT_OK) {
        status = index_parse(f, text, (size_t)size, err);
    }
    sft__free(f->c->allocator, text, room);
    return status;
}

/* ---------------------------------------------------------------- the files of a folder */

static bool join(sft__buf *b, const char *folder_name, const char *file) {
    b->len = 0;
    sft__buf_text(b, folder_name);
    sft__buf_text(b, "/");
    sft__buf_text(b, file);
    sft__buf_add(b, "", 1);
    return !b->failed;
}

/* pytorch_model-00001-of-00002.bin -> model-00001-of-00002.safetensors */
static void output_name(sft__buf *b, const char *file) {
    static const char prefix[] = "pytorch_";
    const size_t skip = strncmp(file, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
    size_t len = strlen(file);

    len -= len > 4 && strcmp(file + len - 4, ".bin") == 0 ? 4 : 0;
    b->len = 0;
    sft__buf_add(b, file + skip, len - skip);
    sft__buf_text(b, ".safetensors");
    sft__buf_add(b, "", 1);
}

/* What the index says of this file must be in it, and no name may come twice. */
static sft_status note_written(folder *f, const char *file, const char *made, sft_error *err) {
    sft__conversion *c = f->c;

    for (size_t i = 0; i < f->count; i++) {
        const entry *e = &f->entries[i];
        if (strcmp(e->file, file) == 0 && c->catalog_count == 1 &&
            sft_catalog_find(c->catalogs[0], e->name, e->len) == NULL) {
            return sft__fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, e->name, e->len,
                                    "the index says that it is in %.200s", file);
        }
    }
    for (size_t i = 0; i < c->item_count; i++) {
        const sft_tensor *t = c->items[i].tensor;
        const size_t at = sft__strmap_find(&f->names, t->name, t->name_len);
        if (at == SFT__STRMAP_NONE || strcmp(f->entries[at].file, file) != 0) {
            return sft__fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, t->name, t->name_len,
                                    "it is in %.200s, the index says %.200s", file,
                                    at == SFT__STRMAP_NONE ? "nothing of it" : f->entries[at].file);
        }
        sft__index_add(&f->index, c->items[i].name, c->items[i].name_len, made);
    }
    return SFT_OK;
}

static sft_status convert_one(folder *f, const char *file, bool indexed, sft_error *err) {
    sft__buf in;
    sft__buf out;
    sft__buf name;
    sft_status status = SFT_OK;

    sft__buf_init(&in, f->c->allocator);
    sft__buf_init(&out, f->c->allocator);
    sft__buf_init(&name, f->c->allocator);
    output_name(&name, file);
    if (name.failed || !join(&in, f->input, file) || !join(&out, f->output, name.data)) {
        status = sft__fail_nomem(err, in.len + out.len);
    }
    if (status == SFT_OK) {
        const char *path = in.data;
        status = sft__convert_files(f->c, &path, 1, out.data, err);
    }
    if (status == SFT_OK && indexed) {
        status = note_written(f, file, name.data, err);
    }
    sft__convert_clear(f->c);
    sft__buf_reset(&in);
    sft__buf_reset(&out);
    sft__buf_reset(&name);
    return status;
}

static int by_file(const void *a, const void *b) {
    const entry *x = a;
    const entry *y = b;
    return strcmp(x->file, y->file);
}

static sft_status convert_indexed(folder *f, sft_source *source, sft_error *err) {
    sft__buf path;

    SFT_TRY(read_index(f, source, err));
    if (f->count == 0) {
        return sft__fail(err, SFT_E_INDEX, "the index names no tensor");
    }
    qsort(f->entries, f->count, sizeof *f->entries, by_file);
    if (!sft__strmap_init(&f->names, f->entries, sizeof *f->entries, f->count, f->c->allocator)) {
        return sft__fail_nomem(err, f->count * sizeof *f->entries);
    }
    for (size_t i = 0; i < f->count; i++) {
        if (sft__strmap_add(&f->names, i) != SFT__STRMAP_NONE) {
            return sft__fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, f->entries[i].name,
                                    f->entries[i].len, "the index names it twice");
        }
    }
    sft__index_begin(&f->index);
    for (size_t i = 0; i < f->count; i++) {
        if (i == 0 || strcmp(f->entries[i].file, f->entries[i - 1].file) != 0) {
            SFT_TRY(convert_one(f, f->entries[i].file, true, err));
        }
    }
    sft__index_end(&f->index, f->c->result.data_bytes);
    if ((f->c->options.flags & SFT_CONVERT_PLAN) != 0) {
        return SFT_OK;
    }
    sft__buf_init(&path, f->c->allocator);
    sft_status status = join(&path, f->output, "model.safetensors.index.json")
                            ? publish_index(f->c, path.data, &f->index, err)
                            : sft__fail_nomem(err, path.len);
    sft__buf_reset(&path);
    return status;
}

static sft_status try_folder(folder *f, bool *done, sft_error *err) {
    sft_source *source;
    sft__buf path;
    sft_status status = SFT_OK;

    sft__buf_init(&path, f->c->allocator);
    if (!join(&path, f->input, "pytorch_model.bin.index.json")) {
        status = sft__fail_nomem(err, path.len);
    } else if (sft_source_open(&source, path.data, SFT_ACCESS_READ, f->c->allocator, NULL) ==
               SFT_OK) {
        *done = true;
        status = convert_indexed(f, source, err);
        sft_source_close(source);
    } else if (!join(&path, f->input, "pytorch_model.bin")) {
        status = sft__fail_nomem(err, path.len);
    } else if (sft_source_open(&source, path.data, SFT_ACCESS_READ, f->c->allocator, NULL) ==
               SFT_OK) {
        *done = true;
        sft_source_close(source);
        status = convert_one(f, "pytorch_model.bin", false, err);
    }
    sft__buf_reset(&path);
    return status;
}

sft_status sft__convert_folder(sft__conversion *c, const char *input, const char *output,
                               bool *done, sft_error *err) {
    folder f;

    memset(&f, 0, sizeof f);
    f.c = c;
    f.input = input;
    f.output = output;
    *done = false;
    sft__arena_init(&f.arena, c->allocator, 0);
    sft__buf_init(&f.index, c->allocator);
    const sft_status status = try_folder(&f, done, err);
    sft__buf_reset(&f.index);
    if (f.names.slots != NULL) {
        sft__strmap_reset(&f.names);
    }
    sft__free(c->allocator, f.entries, f.room * sizeof *f.entries);
    sft__arena_free(&f.arena);
    return status;
}
