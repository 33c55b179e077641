/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/shards.c - the index of a model in several files, as Hugging Face writes it: an object
 * with weight_map, which gives each tensor's file. Read first: shards.h.
 */
#include "import/core/shards.h"
#include "base/json.h"
#include "base/utf8.h"
#include <stdlib.h>

/* The largest models have a few hundred thousand tensors. */
enum { INDEX_MAX = 64 << 20, NAMES_MOST = 64 << 20, TENSORS_MOST = 1 << 20 };

/* One component, of this folder. */
static bool is_plain_name(const char *file, size_t len) {
    return len != 0 && file[0] != '.' && strlen(file) == len && strpbrk(file, "/\\:") == NULL &&
           sft__utf8_valid(file, len) == len;
}

static sft_status json_bad(const sft__json *j, const char *text, sft_error *err) {
    const uint64_t at = j->fault_at != NULL ? (uint64_t)(j->fault_at - text) : 0;
    return sft__fail_at(err, SFT_E_INDEX, at, "the index: %s",
                        j->fault != NULL ? j->fault : "no object of file names");
}

/* p behind the '{' of weight_map. */
static const char *map_read(sft__shard_index *x, sft__json *j, const char *p, sft_error *err) {
    for (p = sft__json_blank(p); p != NULL && *p == '"';) {
        sft__json_str name;
        sft__json_str file;
        sft__shard_entry e = {NULL, 0, NULL};
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
        char *raw = sft__arena_copy(&x->arena, name.raw, name.len);
        char *raw_file = sft__arena_copy(&x->arena, file.raw, file.len);
        if (x->count == TENSORS_MOST || x->arena.over_budget) {
            (void)sft__fail(err, SFT_E_LIMIT,
                            "the index: more than %d tensors, or %d bytes of names",
                            (int)TENSORS_MOST, (int)NAMES_MOST);
            return NULL;
        }
        if (raw == NULL || raw_file == NULL ||
            !sft__grow(x->allocator, &x->entries, &x->room, x->count + 1, sizeof *x->entries)) {
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
        x->entries[x->count++] = e;
        p = sft__json_blank(p);
        p = *p == ',' ? sft__json_blank(p + 1) : p;
    }
    return p != NULL && *p == '}' ? p + 1 : NULL;
}

static sft_status index_parse(sft__shard_index *x, const char *text, size_t len, sft_error *err) {
    sft__json j = {.end = text + len};
    bool found = false;
    sft_error local;
    sft_error *e = err != NULL ? err : &local;

    e->status = SFT_OK;
    if (sft__utf8_valid(text, len) != len) {
        return sft__fail(e, SFT_E_UTF8, "the index is not UTF-8");
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
            p = map_read(x, &j, p + 1, e);
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

static sft_status read_all(sft__shard_index *x, const sft_source *source, sft_error *err) {
    const uint64_t size = sft_source_size(source);
    sft_status status;

    if (size > INDEX_MAX) {
        return sft__fail(err, SFT_E_LIMIT, "the index has %llu bytes, %d is the limit",
                         (unsigned long long)size, (int)INDEX_MAX);
    }
    const size_t room = (size_t)size + SFT__JSON_SLACK;
    char *text = sft__alloc_zero(x->allocator, room);
    if (text == NULL) {
        return sft__fail_nomem(err, room);
    }
    status = size == 0 ? SFT_OK : sft_source_read(source, 0, text, (size_t)size, err);
    if (status == SFT_OK) {
        status = index_parse(x, text, (size_t)size, err);
    }
    sft__free(x->allocator, text, room);
    return status;
}

static int by_file(const void *a, const void *b) {
    const sft__shard_entry *x = a;
    const sft__shard_entry *y = b;
    return strcmp(x->file, y->file);
}

sft_status sft__shard_index_read(sft__shard_index *index, const sft_source *source,
                                 const sft_allocator *allocator, sft_error *err) {
    sft__shard_index *x = index;

    x->allocator = allocator;
    sft__arena_init(&x->arena, allocator, NAMES_MOST);
    SFT_TRY(read_all(x, source, err));
    if (x->count == 0) {
        return sft__fail(err, SFT_E_INDEX, "the index names no tensor");
    }
    qsort(x->entries, x->count, sizeof *x->entries, by_file);
    if (!sft__strmap_init(&x->names, x->entries, sizeof *x->entries, x->count, allocator)) {
        return sft__fail_nomem(err, x->count * sizeof *x->entries);
    }
    for (size_t i = 0; i < x->count; i++) {
        if (sft__strmap_add(&x->names, i) != SFT__STRMAP_NONE) {
            return sft__fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, x->entries[i].name,
                                    x->entries[i].len, "the index names it twice");
        }
    }
    return SFT_OK;
}

void sft__shard_index_reset(sft__shard_index *index) {
    if (index->names.slots != NULL) {
        sft__strmap_reset(&index->names);
    }
    if (index->allocator != NULL) {
        sft__free(index->allocator, index->entries, index->room * sizeof *index->entries);
        sft__arena_free(&index->arena);
    }
    memset(index, 0, sizeof *index);
}

sft_status sft__shard_index_holds(const sft__shard_index *index, size_t first,
                                  const sft_catalog *catalog, sft_error *err) {
    const char *file = index->entries[first].file;

    for (size_t i = first; i < index->count; i++) {
        const sft__shard_entry *e = &index->entries[i];
        if (strcmp(e->file, file) != 0) {
            break;
        }
        if (sft_catalog_find(catalog, e->name, e->len) == NULL) {
            return sft__fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, e->name, e->len,
                                    "the index says that it is in %.200s", file);
        }
    }
    return SFT_OK;
}

sft_status sft__shard_index_places(const sft__shard_index *index, const char *file,
                                   const sft_tensor *tensor, sft_error *err) {
    const size_t at = sft__strmap_find(&index->names, tensor->name, tensor->name_len);

    if (at != SFT__STRMAP_NONE && strcmp(index->entries[at].file, file) == 0) {
        return SFT_OK;
    }
    return sft__fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, tensor->name,
                            tensor->name_len, "it is in %.200s, the index says %.200s", file,
                            at == SFT__STRMAP_NONE ? "nothing of it" : index->entries[at].file);
}

bool sft__shard_index_likely(const uint8_t *head, size_t len) {
    static const char key[] = "\"weight_map\"";
    const size_t n = sizeof key - 1;
    size_t at = 0;

    while (at < len &&
           (head[at] == ' ' || head[at] == '\t' || head[at] == '\n' || head[at] == '\r')) {
        at++;
    }
    if (at == len || head[at] != '{') {
        return false;
    }
    for (; at + n <= len; at++) {
        if (memcmp(head + at, key, n) == 0) {
            return true;
        }
    }
    return false;
}
