/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/shards.c - the index of a model in several files, as Hugging Face writes it: an
 * object with weight_map, which gives each tensor's file. Read first: shards.h.
 */
#include "import/core/shards.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include <stdlib.h>

/* The largest models have a few hundred thousand tensors. */
enum { INDEX_MAX = 64 << 20, NAMES_MOST = 64 << 20, TENSORS_MOST = 1 << 20 };

enum { PART_DOTS = 4 }; /* a part's name has fewer behind its tensor's */

/* One component, of this directory. */
static bool is_plain_name(const char *file, size_t len) {
    return len != 0 && file[0] != '.' && strlen(file) == len && strpbrk(file, "/\\:") == NULL &&
           sft__base_utf8_valid(file, len) == len;
}

static const char needed[] = "no object of file names";

static sft_status json_bad(const sft__base_json *j, const char *text, sft_error *err) {
    const uint64_t at = j->fault_at != NULL ? (uint64_t)(j->fault_at - text) : 0;
    return sft__base_fail_at(err, SFT_E_INDEX, at, "the index: %s",
                             j->fault != NULL ? j->fault : needed);
}

/* Flax's names are paths in the index ("layer/kernel") and trees in its files, where keys are joined with
 * dots. */
static void name_path(char *name, size_t len, const char *file, size_t file_len) {
    static const char ending[] = ".msgpack";
    const size_t n = sizeof ending - 1;

    if (file_len < n || memcmp(file + file_len - n, ending, n) != 0) {
        return;
    }
    for (size_t i = 0; i < len; i++) {
        name[i] = (char)(name[i] == '/' ? '.' : name[i]);
    }
}

/* One file of a tensor, or of a group of Keras's. name: in the arena. */
static bool put_entry(sft__import_shard_index *x, char *name, size_t len,
                      const sft__base_json_str *file, sft_error *err) {
    char *raw = sft__base_arena_copy(&x->arena, file->raw, file->len);

    if (x->count == TENSORS_MOST || x->arena.over_budget) {
        (void)sft__base_fail(err, SFT_E_LIMIT,
                             "the index: more than %d tensors, or %d bytes of names",
                             (int)TENSORS_MOST, (int)NAMES_MOST);
        return false;
    }
    if (raw == NULL ||
        !sft__base_grow(x->allocator, &x->entries, &x->room, x->count + 1, sizeof *x->entries)) {
        (void)sft__base_fail_nomem(err, file->len);
        return false;
    }
    const size_t file_len = file->escaped ? sft__base_json_decode(raw, file) : file->len;
    raw[file_len] = '\0';
    if (!is_plain_name(raw, file_len)) {
        (void)sft__base_fail_tensor(
            err, SFT_E_PATH, SFT_NO_OFFSET, name, len,
            "the index names a file outside its directory, or by a path, not its name");
        return false;
    }
    name_path(name, len, raw, file_len);
    x->entries[x->count++] = (sft__import_shard_entry){name, len, raw, false};
    return true;
}

static const char *name_of(sft__base_json *j, const char *p, sft__base_json_str *name) {
    return sft__base_json_key(j, p, name, needed, needed);
}

/* "FILE", or ["FILE", ...] as Keras has it. p behind it. */
static const char *files_read(sft__import_shard_index *x, sft__base_json *j, const char *p,
                              const sft__base_json_str *name, sft_error *err) {
    sft__base_json_str file;
    bool more = true;

    char *raw = sft__base_arena_copy(&x->arena, name->raw, name->len);
    if (raw == NULL) {
        (void)(x->arena.over_budget
                   ? sft__base_fail(err, SFT_E_LIMIT, "the index: more than %d bytes of names",
                                    (int)NAMES_MOST)
                   : sft__base_fail_nomem(err, name->len));
        return NULL;
    }
    const size_t len = name->escaped ? sft__base_json_decode(raw, name) : name->len;
    raw[len] = '\0';
    const bool list = *p == '[';
    p = list ? sft__base_json_first(p, ']', &more) : p;
    while (p != NULL && more) {
        p = *p == '"' ? sft__base_json_read(j, p, &file) : NULL;
        p = p != NULL && put_entry(x, raw, len, &file, err) ? p : NULL;
        more = false;
        p = list ? sft__base_json_next(j, p, ']', needed, &more) : p;
    }
    return p;
}

/* p at the value of weight_map. */
static const char *map_read(sft__import_shard_index *x, sft__base_json *j, const char *p,
                            sft_error *err) {
    bool more = true;

    for (p = *p == '{' ? sft__base_json_first(p, '}', &more) : NULL; p != NULL && more;) {
        sft__base_json_str name;
        p = name_of(j, p, &name);
        p = p != NULL ? files_read(x, j, p, &name, err) : NULL;
        p = sft__base_json_next(j, p, '}', needed, &more);
    }
    return p;
}

static sft_status index_parse(sft__import_shard_index *x, const char *text, size_t len,
                              sft_error *err) {
    sft__base_json j = {.end = text + len};
    bool found = false;
    bool more = true;
    sft_error local;
    sft_error *e = err != NULL ? err : &local;

    e->status = SFT_OK;
    if (sft__base_utf8_valid(text, len) != len) {
        return sft__base_fail(e, SFT_E_UTF8, "the index is not UTF-8");
    }
    const char *p = sft__base_json_blank(text);
    for (p = *p == '{' ? sft__base_json_first(p, '}', &more) : NULL; p != NULL && more;) {
        sft__base_json_str key;
        p = name_of(&j, p, &key);
        const bool map = p != NULL && sft__base_json_is(&key, "weight_map", 10);
        if (map && found) {
            return sft__base_fail_at(e, SFT_E_INDEX, (uint64_t)(p - text),
                                     "the index: weight_map twice");
        }
        found = found || map;
        p = p == NULL ? NULL : map ? map_read(x, &j, p, e) : sft__base_json_value(&j, p, 1);
        p = sft__base_json_next(&j, p, '}', needed, &more);
    }
    if (e->status != SFT_OK) {
        return (sft_status)e->status;
    }
    p = p != NULL ? sft__base_json_blank(p) : NULL;
    return p == NULL || p != j.end || !found ? json_bad(&j, text, e) : SFT_OK;
}

static sft_status read_all(sft__import_shard_index *x, const sft_source *source, sft_error *err) {
    const uint64_t size = sft_source_size(source);
    sft_status status;

    if (size > INDEX_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "the index has %llu bytes, %d is the limit",
                              (unsigned long long)size, (int)INDEX_MAX);
    }
    const size_t room = (size_t)size + SFT__JSON_SLACK;
    char *text;
    SFT_TRY(sft__base_need_zero(x->allocator, &text, room, err));
    status = size == 0 ? SFT_OK : sft_source_read(source, 0, text, (size_t)size, err);
    SFT_THEN(status, index_parse(x, text, (size_t)size, err));
    sft__base_free(x->allocator, text, room);
    return status;
}

static int by_file(const void *a, const void *b) {
    const sft__import_shard_entry *x = a;
    const sft__import_shard_entry *y = b;
    return strcmp(x->file, y->file);
}

/* Keys that all begin with a slash are groups of HDF5 (Keras): a group may be in several files. */
static sft_status name_groups(sft__import_shard_index *x, sft_error *err) {
    x->groups = true;
    for (size_t i = 0; i < x->count; i++) {
        x->groups = x->groups && x->entries[i].len != 0 && x->entries[i].name[0] == '/';
    }
    for (size_t i = 0; i < x->count && x->groups; i++) {
        sft__import_shard_entry *e = &x->entries[i];
        const size_t file_len = strlen(e->file);
        char *key = sft__base_arena_alloc(&x->arena, e->len + file_len + 2, 1);
        if (key == NULL) {
            return x->arena.over_budget
                       ? sft__base_fail(err, SFT_E_LIMIT, "the index: more than %d bytes of names",
                                        (int)NAMES_MOST)
                       : sft__base_fail_nomem(err, e->len);
        }
        memcpy(key, e->name, e->len);
        key[e->len] = '\n';
        memcpy(key + e->len + 1, e->file, file_len + 1);
        e->name = key;
        e->len += file_len + 1;
    }
    return SFT_OK;
}

sft_status sft__import_shard_index_read(sft__import_shard_index *index, const sft_source *source,
                                        const sft_allocator *allocator, sft_error *err) {
    sft__import_shard_index *x = index;

    x->allocator = allocator;
    sft__base_arena_init(&x->arena, allocator, NAMES_MOST);
    SFT_TRY(read_all(x, source, err));
    if (x->count == 0) {
        return sft__base_fail(err, SFT_E_INDEX, "the index names no tensor");
    }
    SFT_TRY(name_groups(x, err));
    qsort(x->entries, x->count, sizeof *x->entries, by_file);
    SFT_NEED(sft__base_strmap_init(&x->names, x->entries, sizeof *x->entries, x->count, allocator),
             x->count * sizeof *x->entries, err);
    for (size_t i = 0; i < x->count; i++) {
        if (sft__base_strmap_add(&x->names, i) != SFT__STRMAP_NONE) {
            return sft__base_fail_tensor(err, SFT_E_DUPLICATE, SFT_NO_OFFSET, x->entries[i].name,
                                         x->entries[i].len, "the index names it twice");
        }
    }
    return SFT_OK;
}

void sft__import_shard_index_reset(sft__import_shard_index *index) {
    if (index->names.slots != NULL) {
        sft__base_strmap_reset(&index->names);
    }
    if (index->allocator != NULL) {
        sft__base_free(index->allocator, index->entries, index->room * sizeof *index->entries);
        sft__base_arena_free(&index->arena);
    }
    memset(index, 0, sizeof *index);
}

/* The entry of the file that the tensor is a part of (q of q.scale, which the index does not name; as
 * quantised and sparse tensors have them), or SFT__STRMAP_NONE. */
static size_t find_whole(const sft__import_shard_index *index, const char *file,
                         const sft_tensor *tensor) {
    size_t n = tensor->name_len;

    for (int dots = 0; dots < PART_DOTS; dots++) {
        while (n > 0 && tensor->name[n - 1] != '.') {
            n--;
        }
        if (n < 2) {
            break;
        }
        const size_t at = sft__base_strmap_find(&index->names, tensor->name, --n);
        if (at != SFT__STRMAP_NONE && strcmp(index->entries[at].file, file) == 0) {
            return at;
        }
    }
    return SFT__STRMAP_NONE;
}

static bool is_named(const sft__import_shard_index *index, const sft_tensor *t) {
    return sft__base_strmap_find(&index->names, t->name, t->name_len) != SFT__STRMAP_NONE;
}

sft_status sft__import_shard_index_holds(sft__import_shard_index *index, size_t first,
                                         const sft_catalog *catalog, sft_error *err) {
    const char *file = index->entries[first].file;

    for (size_t i = 0; i < sft_catalog_count(catalog) && !index->groups; i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        const size_t at = is_named(index, t) ? SFT__STRMAP_NONE : find_whole(index, file, t);
        if (at != SFT__STRMAP_NONE) {
            index->entries[at].met = true;
        }
    }
    for (size_t i = first; i < index->count && !index->groups; i++) {
        const sft__import_shard_entry *e = &index->entries[i];
        if (strcmp(e->file, file) != 0) {
            break;
        }
        if (!e->met && sft_catalog_find(catalog, e->name, e->len) == NULL) {
            return sft__base_fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, e->name, e->len,
                                         "the index says that it is in %.200s", file);
        }
    }
    return SFT_OK;
}

/* The entry of the tensor's group and this file. */
static size_t find_group(const sft__import_shard_index *index, const char *file,
                         const sft_tensor *tensor) {
    const size_t file_len = strlen(file);
    size_t n = tensor->name_len;

    while (n > 0 && tensor->name[n - 1] != '/') {
        n--;
    }
    char *key = sft__base_alloc(index->allocator, n + file_len + 2);
    if (key == NULL || n == 0) {
        sft__base_free(index->allocator, key, n + file_len + 2);
        return SFT__STRMAP_NONE;
    }
    key[0] = '/';
    memcpy(key + 1, tensor->name, n - 1);
    key[n] = '\n';
    memcpy(key + n + 1, file, file_len);
    const size_t at = sft__base_strmap_find(&index->names, key, n + file_len + 1);
    sft__base_free(index->allocator, key, n + file_len + 2);
    return at;
}

sft_status sft__import_shard_index_complete(const sft__import_shard_index *index, sft_error *err) {
    for (size_t i = 0; i < index->count && index->groups; i++) {
        const sft__import_shard_entry *e = &index->entries[i];
        if (!e->met) {
            return sft__base_fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, e->name,
                                         e->len - strlen(e->file) - 1,
                                         "the index says that it is in %.200s", e->file);
        }
    }
    return SFT_OK;
}

sft_status sft__import_shard_index_places(sft__import_shard_index *index, const char *file,
                                          const sft_tensor *tensor, sft_error *err) {
    if (index->groups) {
        const size_t group = find_group(index, file, tensor);
        if (group == SFT__STRMAP_NONE) {
            return sft__base_fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, tensor->name,
                                         tensor->name_len,
                                         "it is in %.200s, the index says nothing of it", file);
        }
        index->entries[group].met = true;
        return SFT_OK;
    }
    const size_t at = sft__base_strmap_find(&index->names, tensor->name, tensor->name_len);

    if ((at != SFT__STRMAP_NONE && strcmp(index->entries[at].file, file) == 0) ||
        (at == SFT__STRMAP_NONE && find_whole(index, file, tensor) != SFT__STRMAP_NONE)) {
        return SFT_OK;
    }
    return sft__base_fail_tensor(err, SFT_E_SHARD_DISAGREES, SFT_NO_OFFSET, tensor->name,
                                 tensor->name_len, "it is in %.200s, the index says %.200s", file,
                                 at == SFT__STRMAP_NONE ? "nothing of it"
                                                        : index->entries[at].file);
}

bool sft__import_shard_index_likely(const uint8_t *head, size_t len) {
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
