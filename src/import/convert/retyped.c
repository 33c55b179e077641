/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/retyped.c - metadata of several files that have one text, while gguf.types says that they
 * were not the same: a number of another type, or strings with other bytes than UTF-8 can show. Read
 * first: <sft/import.h>, gguf/gguf_meta.h.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "import/core/import.h"
#include "import/gguf/gguf.h"
#include <string.h>

/* A member of gguf.types; name, len first for the table. */
typedef struct typed {
    const char *name;
    size_t name_len;
    const char *type; /* as it is written */
    size_t type_len;
} typed;

/* A file and what its gguf.types says. */
typedef struct file {
    const sft_catalog *catalog;
    size_t at;
    typed *types;
    size_t count;
    size_t room;
    sft__base_strmap names;
} file;

typedef struct reading {
    sft__base_arena arena;
    const sft_allocator *allocator;
    file *files;
    size_t count;
    file *now;
    char *text; /* of its gguf.types, with zeros behind it */
} reading;

static const char *types_of(const file *f, size_t *len) {
    *len = 0;
    return sft_catalog_metadata_find(f->catalog, f->at, SFT__GGUF_KEY_TYPES,
                                     strlen(SFT__GGUF_KEY_TYPES), len);
}

/* Do the files' gguf.types differ at all? */
static bool differ(const reading *r) {
    size_t len = 0;
    const char *text = r->count != 0 ? types_of(&r->files[0], &len) : NULL;

    for (size_t i = 1; i < r->count; i++) {
        size_t n;
        const char *other = types_of(&r->files[i], &n);
        if (n != len || (other == NULL) != (text == NULL) ||
            (n != 0 && memcmp(text, other, n) != 0)) {
            return true;
        }
    }
    return false;
}

static const char *count_type(void *ctx, sft__base_json *j, const sft__base_json_str *name,
                              const char *value) {
    reading *r = ctx;

    (void)name;
    r->now->room++;
    return sft__base_json_value(j, value, 1);
}

static const char *add_type(void *ctx, sft__base_json *j, const sft__base_json_str *name,
                            const char *value) {
    reading *r = ctx;
    file *f = r->now;
    const char *p = sft__base_json_value(j, value, 1);
    typed *t = &f->types[f->count];

    if (p != NULL) {
        *t = (typed){NULL, 0, value, (size_t)(p - value)};
        t->name =
            sft__base_json_keep(&r->arena, r->text + (name->raw - r->text), name, &t->name_len);
        p = t->name != NULL ? p : NULL;
    }
    if (p != NULL) {
        (void)sft__base_strmap_add(&f->names,
                                   f->count++); /* of a name that comes twice the first counts */
    }
    return p;
}

/* What the file's gguf.types says: nothing, if that is no object. */
static sft_status read_types(reading *r, file *f, sft_error *err) {
    sft__base_json j = {.end = NULL};
    size_t len;
    const char *text = types_of(f, &len);

    r->now = f;
    r->text = text != NULL ? sft__base_arena_alloc(&r->arena, len + SFT__JSON_SLACK, 1) : NULL;
    if (text == NULL) {
        return SFT_OK;
    }
    SFT_NEED(r->text != NULL, len, err);
    memcpy(r->text, text, len);
    memset(r->text + len, 0, SFT__JSON_SLACK);
    j.end = r->text + len;
    if (sft__base_json_members(&j, sft__base_json_blank(r->text), count_type, r) == NULL) {
        f->room = 0;
    }
    if (f->room == 0) {
        return SFT_OK;
    }
    f->types = sft__base_alloc_array(r->allocator, f->room, sizeof *f->types);
    SFT_NEED(
        f->types != NULL &&
            sft__base_strmap_init(&f->names, f->types, sizeof *f->types, f->room, r->allocator) &&
            sft__base_json_members(&j, sft__base_json_blank(r->text), add_type, r) != NULL,
        f->room * sizeof *f->types, err);
    return SFT_OK;
}

static const typed *type_of(const file *f, const sft_metadata_entry *e) {
    const size_t i =
        f->count != 0 ? sft__base_strmap_find(&f->names, e->key, e->key_len) : SFT__STRMAP_NONE;

    return i != SFT__STRMAP_NONE ? &f->types[i] : NULL;
}

static bool is_same_type(const file *f, const file *g, const sft_metadata_entry *e) {
    const typed *a = type_of(f, e);
    const typed *b = type_of(g, e);

    return a == NULL || b == NULL
               ? a == b
               : a->type_len == b->type_len && memcmp(a->type, b->type, a->type_len) == 0;
}

/* Has the file the entry's text under its key? *any: it has the key. */
static bool has_text(const file *f, const sft_metadata_entry *e, bool *any) {
    size_t len = 0;
    const char *value = sft_catalog_metadata_find(f->catalog, f->at, e->key, e->key_len, &len);

    *any = value != NULL;
    return *any && len == e->value_len && memcmp(value, e->value, len) == 0;
}

/* Is the entry the first that has the same text as the first file that has its key, and another type? */
static bool is_retyped(const reading *r, const file *f, const sft_metadata_entry *e) {
    const file *first = r->files;
    bool any = false;
    bool same = false;

    for (; first != f; first++) {
        same = has_text(first, e, &any);
        if (any) {
            break;
        }
    }
    if (!same || is_same_type(first, f, e)) {
        return false;
    }
    for (const file *g = first + 1; g != f; g++) {
        if (has_text(g, e, &any) && !is_same_type(first, g, e)) {
            return false; /* it is told */
        }
    }
    return true;
}

static void tell_all(const reading *r, sft_import_retyped_fn tell, void *ctx) {
    for (const file *f = r->files; f != r->files + r->count; f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(f->catalog, f->at); i++) {
            sft_metadata_entry e;
            (void)sft_catalog_metadata_at(f->catalog, f->at, i, &e.key, &e.key_len, &e.value,
                                          &e.value_len);
            if (is_retyped(r, f, &e)) {
                tell(ctx, &e);
            }
        }
    }
}

sft_status sft_import_retyped(const sft_import_collection *from, sft_import_retyped_fn tell,
                              void *ctx, sft_error *err) {
    reading r = {.allocator = sft__base_allocator(from->allocator)};
    sft_status status = SFT_OK;
    size_t count = 0;

    for (size_t i = 0; i < from->count; i++) {
        count += sft_catalog_file_count(from->catalogs[i]);
    }
    r.files = sft__base_alloc_array(r.allocator, count + 1, sizeof *r.files);
    SFT_NEED(r.files != NULL, count * sizeof *r.files, err);
    for (size_t i = 0; i < from->count; i++) {
        for (size_t k = 0; k < sft_catalog_file_count(from->catalogs[i]); k++) {
            r.files[r.count++] = (file){.catalog = from->catalogs[i], .at = k};
        }
    }
    if (differ(&r)) {
        sft__base_arena_init(&r.arena, r.allocator, 0);
        for (size_t i = 0; i < r.count && status == SFT_OK; i++) {
            status = read_types(&r, &r.files[i], err);
        }
        if (status == SFT_OK) {
            tell_all(&r, tell, ctx);
        }
        sft__base_arena_free(&r.arena);
    }
    for (size_t i = 0; i < r.count; i++) {
        sft__base_strmap_reset(&r.files[i].names);
        sft__base_free(r.allocator, r.files[i].types, r.files[i].room * sizeof *r.files[i].types);
    }
    sft__base_free(r.allocator, r.files, (count + 1) * sizeof *r.files);
    return status;
}
