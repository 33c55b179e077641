/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/describe.c - metadata that say something about a tensor by its name: what becomes of
 * them where tensors get other names, or do not go on. Entries whose key ends in the name
 * ("onnx:NAME"), and GGUF's types of blocks, an object with a member for each tensor. Read first:
 * <sft/import.h>.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "base/text/json.h"
#include "import/convert/convert.h"
#include <string.h>

typedef struct naming {
    sft_import_namer namer;
    void *ctx;
} naming;

static bool is_text(const char *text, size_t len, const char *want) {
    return len == strlen(want) && memcmp(text, want, len) == 0;
}

/* ---------------------------------------------------------------- "PREFIX:NAME" */

/* Length of the part before the name; 0: it is no such key. */
static size_t prefix_of(const sft_metadata_entry *e) {
    static const char *const rows[] = {"onnx:", "tflite:", "flax:", "arrow.dim_names:"};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t n = strlen(rows[i]);
        if (e->key_len > n && memcmp(e->key, rows[i], n) == 0) {
            return n;
        }
    }
    return 0;
}

static sft_status rename_key(const naming *k, const sft_metadata_entry *e, size_t prefix,
                             sft__base_buf *b, sft_metadata_entry *out, sft_error *err) {
    const char *now = NULL;
    size_t len = 0;
    const sft_import_named named =
        k->namer(k->ctx, e->key + prefix, e->key_len - prefix, &now, &len);

    *out = *e;
    if (named == SFT_IMPORT_NAME_GONE) {
        *out = (sft_metadata_entry){NULL, 0, NULL, 0};
    } else if (named == SFT_IMPORT_NAME_HERE) {
        sft__base_buf_add(b, e->key, prefix);
        sft__base_buf_add(b, now, len);
        SFT_NEED(!b->failed, b->len, err);
        out->key = b->data;
        out->key_len = b->len;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- {NAME: ...} */

typedef struct renaming {
    const naming *k;
    sft__base_buf name; /* of the member, decoded */
    sft__base_buf *out;
} renaming;

/* What of a member goes into out. */
static const char *rename_member(void *ctx, sft__base_json *j, const sft__base_json_str *s,
                                 const char *value) {
    renaming *r = ctx;
    const char *now = NULL;
    size_t len = 0;

    r->name.len = 0;
    sft__base_buf_add(&r->name, s->raw, s->len); /* room for what it is decoded to */
    if (r->name.failed) {
        return NULL;
    }
    const size_t n = s->len != 0 ? sft__base_json_decode(r->name.data, s) : 0;
    const char *const name = n != 0 ? r->name.data : "";
    const sft_import_named named = r->k->namer(r->k->ctx, name, n, &now, &len);
    const char *p = sft__base_json_value(j, value, 1);
    if (p != NULL && named != SFT_IMPORT_NAME_GONE) {
        sft__base_buf_text(r->out, r->out->len > 1 ? "," : "");
        sft__base_json_string(r->out, named == SFT_IMPORT_NAME_HERE ? now : name,
                              named == SFT_IMPORT_NAME_HERE ? len : n);
        sft__base_buf_text(r->out, ":");
        sft__base_buf_add(r->out, value, (size_t)(p - value));
    }
    return p;
}

/* What becomes of the members of an object, behind what b has, which begins with a brace. *is_object: it is
 * one; else b is what it was. */
static sft_status add_members(const naming *k, const sft_metadata_entry *e,
                              const sft_allocator *allocator, sft__base_buf *b, bool *is_object,
                              sft_error *err) {
    static const char zeros[SFT__JSON_SLACK];
    const size_t before = b->len;
    sft_status status = SFT_OK;
    renaming r = {.k = k, .out = b};
    sft__base_buf text;

    sft__base_buf_init(&text, allocator);
    sft__base_buf_init(&r.name, allocator);
    sft__base_buf_add(&text, e->value, e->value_len);
    sft__base_buf_add(&text, zeros, sizeof zeros);
    *is_object = false;
    if (!text.failed) {
        sft__base_json j = {.end = text.data + e->value_len};
        const char *p =
            sft__base_json_members(&j, sft__base_json_blank(text.data), rename_member, &r);
        *is_object = p != NULL && sft__base_json_blank(p) == j.end;
    }
    b->len = *is_object || b->failed ? b->len : before;
    if (text.failed || r.name.failed || b->failed) {
        status = sft__base_fail_nomem(err, e->value_len);
    }
    sft__base_buf_reset(&r.name);
    sft__base_buf_reset(&text);
    return status;
}

static sft_status rename_value(const naming *k, const sft_metadata_entry *e,
                               const sft_allocator *allocator, sft__base_buf *b,
                               sft_metadata_entry *out, sft_error *err) {
    bool is_object;

    *out = *e;
    sft__base_buf_text(b, "{");
    SFT_TRY(add_members(k, e, allocator, b, &is_object, err));
    sft__base_buf_text(b, "}");
    SFT_NEED(!b->failed, b->len, err);
    if (is_object && b->len == 2) {
        *out = (sft_metadata_entry){NULL, 0, NULL, 0};
    } else if (is_object) {
        out->value = b->data;
        out->value_len = b->len;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- of several files */

typedef struct collecting {
    const sft_import_collection *from;
    const sft_metadata_entry *like;
    bool *told;   /* of the tensors of all catalogs: it is said what they are */
    size_t input; /* the catalog, its file, and where its tensors begin in `told` */
    size_t file;
    size_t first;
    bool own; /* only of tensors that are in the file itself */
} collecting;

static sft_import_named name_block(void *ctx, const char *name, size_t len, const char **now,
                                   size_t *now_len) {
    collecting *k = ctx;
    const sft_catalog *catalog = k->from->catalogs[k->input];
    const sft_tensor *t = sft_catalog_find(catalog, name, len);

    if (t == NULL || (t->file == k->file) != k->own) {
        return SFT_IMPORT_NAME_GONE;
    }
    const size_t i = sft_catalog_index_of(catalog, t);
    const bool other = t != sft_catalog_at(catalog, i);
    if (k->told[k->first + i] && !(other && k->own)) {
        return SFT_IMPORT_NAME_GONE;
    }
    k->told[k->first + i] = k->told[k->first + i] || !other;
    return k->from->namer != NULL ? k->from->namer(k->from->ctx, catalog, t, now, now_len)
                                  : SFT_IMPORT_NAME_UNKNOWN;
}

/* Of an entry of the metadata that several files have, the first file's counts. */
static sft_import_named name_entry(void *ctx, const char *name, size_t len, const char **now,
                                   size_t *now_len) {
    const collecting *k = ctx;

    (void)now;
    (void)now_len;
    if (!k->own ||
        sft_catalog_metadata_find(k->from->catalogs[k->input], k->file, name, len, NULL) == NULL) {
        return SFT_IMPORT_NAME_GONE;
    }
    for (size_t i = 0; i <= k->input; i++) {
        const sft_catalog *catalog = k->from->catalogs[i];
        const size_t files = i < k->input ? sft_catalog_file_count(catalog) : k->file;
        for (size_t f = 0; f < files; f++) {
            if (sft_catalog_metadata_find(catalog, f, name, len, NULL) != NULL) {
                return SFT_IMPORT_NAME_GONE;
            }
        }
    }
    return SFT_IMPORT_NAME_UNKNOWN;
}

/* What the files of one catalog say. */
static sft_status collect_catalog(collecting *k, sft__base_buf *b, sft_error *err) {
    const sft_catalog *catalog = k->from->catalogs[k->input];
    const bool blocks = is_text(k->like->key, k->like->key_len, "gguf.tensors");
    const naming names = {blocks ? name_block : name_entry, k};

    for (k->file = 0; k->file < sft_catalog_file_count(catalog); k->file++) {
        sft_metadata_entry e = *k->like;
        bool is_object = true;
        e.value = sft_catalog_metadata_find(catalog, k->file, e.key, e.key_len, &e.value_len);
        if (e.value != NULL) {
            SFT_TRY(add_members(&names, &e, sft__base_allocator(k->from->allocator), b, &is_object,
                                err));
        }
        if (!is_object) {
            return sft__base_fail(err, SFT_E_SCHEMA,
                                  "metadata of several files, one of them no object");
        }
    }
    return SFT_OK;
}

/* First what each file says of its own tensors, then what it says of others'. */
static sft_status collect_all(collecting *k, sft__base_buf *b, sft_error *err) {
    sft__base_buf_text(b, "{");
    for (unsigned pass = 0; pass < 2; pass++) {
        k->own = pass == 0;
        k->first = 0;
        for (k->input = 0; k->input < k->from->count; k->input++) {
            SFT_TRY(collect_catalog(k, b, err));
            k->first += sft_catalog_count(k->from->catalogs[k->input]);
        }
    }
    sft__base_buf_text(b, "}");
    return b->failed ? sft__base_fail_nomem(err, b->len) : SFT_OK;
}

/* ---------------------------------------------------------------- public */

int sft_import_describes(const sft_metadata_entry *entry) {
    return prefix_of(entry) != 0 || is_text(entry->key, entry->key_len, "gguf.tensors");
}

sft_status sft_import_describe(sft_metadata_entry *out, char **memory, size_t *memory_size,
                               const sft_metadata_entry *entry, sft_import_namer namer, void *ctx,
                               const sft_allocator *allocator, sft_error *err) {
    const naming k = {namer, ctx};
    const size_t prefix = prefix_of(entry);
    sft_status status = SFT_OK;
    sft__base_buf b;

    *memory = NULL;
    *memory_size = 0;
    *out = *entry;
    if (!sft_import_describes(entry)) {
        return SFT_OK;
    }
    sft__base_buf_init(&b, sft__base_allocator(allocator));
    status = prefix != 0 ? rename_key(&k, entry, prefix, &b, out, err)
                         : rename_value(&k, entry, sft__base_allocator(allocator), &b, out, err);
    if (status == SFT_OK && (out->key == b.data || out->value == b.data) && b.data != NULL) {
        *memory = b.data;
        *memory_size = b.cap;
    } else {
        sft__base_buf_reset(&b);
    }
    return status;
}

int sft_import_collects(const sft_metadata_entry *entry) {
    return is_text(entry->key, entry->key_len, "gguf.tensors") ||
           is_text(entry->key, entry->key_len, "gguf.types");
}

sft_status sft_import_collect(sft_metadata_entry *out, char **memory, size_t *memory_size,
                              const sft_metadata_entry *like, const sft_import_collection *from,
                              sft_error *err) {
    const sft_allocator *allocator = sft__base_allocator(from->allocator);
    const sft_metadata_entry asked = *like; /* which may be *out */
    collecting k = {.from = from, .like = &asked};
    size_t tensors = 1;
    sft__base_buf b;

    *memory = NULL;
    *memory_size = 0;
    *out = (sft_metadata_entry){NULL, 0, NULL, 0};
    for (size_t i = 0; i < from->count; i++) {
        tensors += sft_catalog_count(from->catalogs[i]);
    }
    k.told = sft__base_alloc_array(allocator, tensors, sizeof *k.told);
    SFT_NEED(k.told != NULL, tensors, err);
    memset(k.told, 0, tensors * sizeof *k.told);
    sft__base_buf_init(&b, allocator);
    const sft_status status = collect_all(&k, &b, err);
    sft__base_free(allocator, k.told, tensors * sizeof *k.told);
    if (status == SFT_OK && b.len > 2) {
        *out = (sft_metadata_entry){asked.key, asked.key_len, b.data, b.len};
        *memory = b.data;
        *memory_size = b.cap;
    } else {
        sft__base_buf_reset(&b);
    }
    return status;
}
