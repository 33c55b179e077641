/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_meta.c - see gguf_meta.h: the catalog's metadata and the caller's, brought together,
 * and the two notes that a reader of GGUF left among them.
 */
#include "import/gguf/gguf_meta.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include <sft/digest.h>

static bool is(const char *key, size_t len, const char *text) {
    return strlen(text) == len && memcmp(key, text, len) == 0;
}

/* A copy in the arena with the zeros behind it that the JSON functions want. */
static sft_status slack(sft__import_export *job, const char *text, size_t len, char **out,
                        sft_error *err) {
    SFT_TRY(sft__import_export_alloc(job, out, len + SFT__JSON_SLACK, 1, err));
    memcpy(*out, text, len);
    return SFT_OK;
}

/* ---------------------------------------------------------------- the notes */

/* The next "key": of an object, decoded; p behind '{' or ','. Returns where the value begins. */
static const char *next_key(sft__import_gguf_meta *m, sft__base_json *j, const char *p,
                            const char **name, size_t *len) {
    sft__base_json_str s;

    p = sft__base_json_key(j, sft__base_json_blank(p), &s, "a key in quotes is needed",
                           "a colon is needed");
    char *copy = p != NULL ? sft__base_arena_alloc(&m->job->arena, s.len + 1, 1) : NULL;
    if (copy == NULL) {
        return NULL;
    }
    *len = sft__base_json_decode(copy, &s);
    copy[*len] = '\0';
    *name = copy;
    return p;
}

static const char *read_type(sft__base_json *j, const char *p, sft__import_gguf_typed *t) {
    sft__base_json_str s;

    p = p != NULL && *p == '"' ? sft__base_json_read(j, p, &s) : NULL;
    return p != NULL && sft__import_gguf_type_read(s.raw, s.len, &t->type, &t->element) ? p : NULL;
}

/* "[i32]", or {"type": "[string]", "bytes": {...}} in this order, as the reader writes it. */
static const char *read_typed(sft__import_gguf_meta *m, sft__base_json *j, const char *p,
                              sft__import_gguf_typed *t) {
    const char *key;
    size_t len;

    if (*p != '{') {
        return read_type(j, p, t);
    }
    p = next_key(m, j, p + 1, &key, &len);
    p = p != NULL && is(key, len, "type") ? read_type(j, p, t) : NULL;
    p = p != NULL && *sft__base_json_blank(p) == ','
            ? next_key(m, j, sft__base_json_blank(p) + 1, &key, &len)
            : NULL;
    if (p == NULL || !is(key, len, "bytes") || *p != '{') {
        return NULL;
    }
    t->kept = (sft__import_gguf_kept){p + 1, j->end};
    p = sft__base_json_value(j, p, 2);
    p = p != NULL ? sft__base_json_blank(p) : NULL;
    return p != NULL && *p == '}' ? p + 1 : NULL;
}

static const char *read_dims(sft__base_json *j, const char *p, sft__import_gguf_raw *r) {
    uint64_t elements = 1;

    if (*p != '[') {
        return NULL;
    }
    for (p = sft__base_json_blank(p + 1); *p != ']';) {
        sft__base_json_num n;
        p = r->rank < SFT__GGUF_RANK_MAX && *p >= '0' && *p <= '9' ? sft__base_json_number(j, p, &n)
                                                                   : NULL;
        if (p == NULL || !n.is_uint || !sft__base_mul64(elements, n.value, &elements)) {
            return NULL;
        }
        r->shape[r->rank++] = n.value;
        p = sft__base_json_blank(p);
        if (*p == ',') {
            p = sft__base_json_blank(p + 1);
        } else if (*p != ']') {
            return NULL;
        }
    }
    if (r->rank == 0 || r->shape[r->rank - 1] % r->type->elements != 0 ||
        !sft__base_mul64(elements / r->type->elements, r->type->bytes, &r->nbytes)) {
        return NULL;
    }
    return p + 1;
}

/* {"type": "Q4_K", "shape": [1, 2]} in this order, as the reader writes it. */
static const char *read_raw(sft__import_gguf_meta *m, sft__base_json *j, const char *p,
                            sft__import_gguf_raw *r) {
    const char *key;
    size_t len;
    sft__base_json_str s;

    p = *p == '{' ? next_key(m, j, p + 1, &key, &len) : NULL;
    if (p == NULL || !is(key, len, "type") || *p != '"') {
        return NULL;
    }
    p = sft__base_json_read(j, p, &s);
    r->type = p != NULL ? sft__import_gguf_type_find(s.raw, s.len) : NULL;
    if (r->type == NULL || *sft__base_json_blank(p) != ',') {
        return NULL;
    }
    p = next_key(m, j, sft__base_json_blank(p) + 1, &key, &len);
    p = p != NULL && is(key, len, "shape") ? read_dims(j, p, r) : NULL;
    if (p == NULL) {
        return NULL;
    }
    p = sft__base_json_blank(p);
    return *p == '}' ? p + 1 : NULL;
}

/* An object of either kind into an array in the arena. */
static sft_status read_note(sft__import_gguf_meta *m, const char *text, size_t len, bool raws,
                            sft_error *err) {
    const size_t room = len / 7 + 1; /* "":"u8" is the shortest */
    sft__base_json j;
    char *copy;
    const char *p;

    SFT_TRY(slack(m->job, text, len, &copy, err));
    memset(&j, 0, sizeof j);
    j.end = copy + len;
    if (raws) {
        SFT_TRY(sft__import_export_alloc(m->job, &m->raws, len / 24 + 1, sizeof *m->raws, err));
    } else {
        SFT_TRY(sft__import_export_alloc(m->job, &m->types, room, sizeof *m->types, err));
    }
    p = *copy == '{' ? copy : NULL;
    while (p != NULL && *p != '}') {
        const char *name;
        size_t name_len;
        p = next_key(m, &j, p + 1, &name, &name_len);
        if (p != NULL && raws) {
            sft__import_gguf_raw *r = &m->raws[m->raw_count++];
            r->name = name;
            r->name_len = name_len;
            p = read_raw(m, &j, p, r);
        } else if (p != NULL) {
            sft__import_gguf_typed *t = &m->types[m->type_count++];
            t->name = name;
            t->name_len = name_len;
            p = read_typed(m, &j, p, t);
        }
        p = p != NULL ? sft__base_json_blank(p) : NULL;
        p = p != NULL && (*p == ',' || *p == '}') ? p : NULL;
    }
    return p != NULL ? SFT_OK
                     : sft__base_fail(err, SFT_E_SCHEMA,
                                      "the metadata entry %s is not what a GGUF file "
                                      "leaves there",
                                      raws ? SFT__GGUF_KEY_TENSORS : SFT__GGUF_KEY_TYPES);
}

/* What all files of the model say. */
static sft_status read_notes_of(sft__import_gguf_meta *m, const char *key, bool raws,
                                sft_error *err) {
    const sft_catalog *c = m->job->catalog;
    const sft_allocator *a = m->job->c.allocator;
    const sft_import_collection from = {&c, 1, NULL, NULL, a};
    sft_metadata_entry e = {key, strlen(key), NULL, 0};
    char *memory = NULL;
    size_t size = 0;

    if (sft_catalog_file_count(c) > 1) {
        SFT_TRY(sft_import_collect(&e, &memory, &size, &e, &from, err));
    } else {
        e.value = sft_catalog_metadata_find(c, 0, e.key, e.key_len, &e.value_len);
    }
    const sft_status status =
        e.value != NULL ? read_note(m, e.value, e.value_len, raws, err) : SFT_OK;
    sft__base_free(a, memory, size);
    return status;
}

static sft_status read_notes(sft__import_gguf_meta *m, sft_error *err) {
    const sft_allocator *a = m->job->c.allocator;

    SFT_TRY(read_notes_of(m, SFT__GGUF_KEY_TYPES, false, err));
    SFT_TRY(read_notes_of(m, SFT__GGUF_KEY_TENSORS, true, err));
    SFT_NEED(sft__base_strmap_init(&m->type_names, m->types, sizeof *m->types, m->type_count, a) &&
                 sft__base_strmap_init(&m->raw_names, m->raws, sizeof *m->raws, m->raw_count, a),
             (m->type_count + m->raw_count) * 16, err);
    for (size_t i = 0; i < m->type_count; i++) {
        (void)sft__base_strmap_add(&m->type_names, i);
    }
    for (size_t i = 0; i < m->raw_count; i++) {
        (void)sft__base_strmap_add(&m->raw_names, i);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- values */

static sft_status add_value(sft__import_gguf_meta *m, const sft_metadata_entry *e,
                            const sft__import_gguf_typed *typed, sft_error *err) {
    const uint32_t type = typed->type;
    uint8_t number[8];
    char *text;

    if (e->key_len == 0 || e->key_len > SFT__GGUF_KEY_MAX) {
        return sft__base_fail(err, SFT_E_ARG, "a key of GGUF has 1 to %d bytes",
                              (int)SFT__GGUF_KEY_MAX);
    }
    SFT_TRY(slack(m->job, e->value, e->value_len, &text, err));
    sft__base_store_le64(number, e->key_len);
    sft__base_buf_add(&m->text, number, 8);
    sft__base_buf_add(&m->text, e->key, e->key_len);
    sft__base_store_le32(number, type);
    sft__base_buf_add(&m->text, number, 4);
    if (!sft__import_gguf_value_add(&m->text, text, e->value_len, typed)) {
        return sft__base_fail(
            err, typed->name != NULL ? SFT_E_SCHEMA : SFT_E_ARG,
            "metadata %.*s: \"%.60s\" is no %s%s", (int)(e->key_len < 100 ? e->key_len : 100),
            e->key, text, type == SFT__GGUF_ARRAY ? "list of " : "",
            sft__import_gguf_value_name(type == SFT__GGUF_ARRAY ? typed->element : type));
    }
    m->count++;
    return m->text.failed ? sft__base_fail_nomem(err, m->text.len) : SFT_OK;
}

/* "a.b:u32": the key ends before its type. */
static bool split_key(sft_metadata_entry *e, uint32_t *type, uint32_t *element) {
    for (size_t i = e->key_len; i-- > 1;) {
        if (e->key[i] == ':') {
            if (!sft__import_gguf_type_read(e->key + i + 1, e->key_len - i - 1, type, element)) {
                return false;
            }
            e->key_len = i;
            return true;
        }
    }
    return false;
}

static sft_metadata_entry given(const sft__import_gguf_meta *m, size_t i, uint32_t *type,
                                uint32_t *element, bool *typed) {
    sft_metadata_entry e = m->job->options.metadata[i];
    *typed = split_key(&e, type, element);
    return e;
}

static bool is_given(const sft__import_gguf_meta *m, const char *key, size_t len) {
    for (size_t i = 0; i < m->job->options.metadata_count; i++) {
        uint32_t type;
        uint32_t element;
        bool typed;
        const sft_metadata_entry e = given(m, i, &type, &element, &typed);
        if (e.key_len == len && memcmp(e.key, key, len) == 0) {
            return true;
        }
    }
    return false;
}

/* What other formats, and this library, keep for themselves; and the alignment, which is ours. */
static bool is_private(const sft_metadata_entry *e) {
    return sft__import_names_framework(e) || is(e->key, e->key_len, "general.alignment") ||
           is(e->key, e->key_len, SFT__GGUF_KEY_TYPES) ||
           is(e->key, e->key_len, SFT__GGUF_KEY_TENSORS);
}

static sft_status add_catalog(sft__import_gguf_meta *m, sft_error *err) {
    const sft_catalog *c = m->job->catalog;

    for (size_t i = 0; i < sft_catalog_metadata_count(c, 0); i++) {
        sft_metadata_entry e;
        sft__import_gguf_typed typed = {.type = SFT__GGUF_STRING};
        (void)sft_catalog_metadata_at(c, 0, i, &e.key, &e.key_len, &e.value, &e.value_len);
        if (is_private(&e) || sft_digest_is_key(e.key, e.key_len) ||
            sft__import_convert_is_record(c, &e) || is_given(m, e.key, e.key_len)) {
            continue;
        }
        const size_t k = sft__base_strmap_find(&m->type_names, e.key, e.key_len);
        if (k != SFT__STRMAP_NONE) {
            typed = m->types[k];
        }
        SFT_TRY(add_value(m, &e, &typed, err));
    }
    return SFT_OK;
}

/* general.name and its like are texts, even if they look like numbers. */
static bool is_general_text(const char *key, size_t len) {
    return len > 8 && memcmp(key, "general.", 8) == 0 && !is(key, len, "general.file_type") &&
           !is(key, len, "general.quantization_version");
}

static sft_status add_given(sft__import_gguf_meta *m, sft_error *err) {
    for (size_t i = 0; i < m->job->options.metadata_count; i++) {
        uint32_t type = SFT__GGUF_STRING;
        uint32_t element = 0;
        bool typed;
        const sft_metadata_entry e = given(m, i, &type, &element, &typed);
        if (!typed && !is_general_text(e.key, e.key_len)) {
            char *text;
            SFT_TRY(slack(m->job, e.value, e.value_len, &text, err));
            sft__import_gguf_type_guess(text, e.value_len, &type, &element);
        }
        for (size_t k = 0; k < i; k++) {
            uint32_t other;
            const sft_metadata_entry f = given(m, k, &other, &other, &typed);
            if (f.key_len == e.key_len && memcmp(f.key, e.key, e.key_len) == 0) {
                return sft__base_fail(err, SFT_E_DUPLICATE, "metadata %.*s is given twice",
                                      (int)(e.key_len < 100 ? e.key_len : 100), e.key);
            }
        }
        if (is(e.key, e.key_len, "general.alignment")) {
            return sft__base_fail(err, SFT_E_UNSUPPORTED, "general.alignment is always 32 here");
        }
        SFT_TRY(add_value(m, &e, &(sft__import_gguf_typed){.type = type, .element = element}, err));
    }
    return SFT_OK;
}

sft_status sft__import_gguf_meta_init(sft__import_gguf_meta *m, sft__import_export *job,
                                      sft_error *err) {
    static const char architecture[] = "general.architecture";

    memset(m, 0, sizeof *m);
    m->job = job;
    sft__base_buf_init(&m->text, job->c.allocator);
    if (!is_given(m, architecture, sizeof architecture - 1) &&
        sft_catalog_metadata_find(job->catalog, 0, architecture, sizeof architecture - 1, NULL) ==
            NULL) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "a GGUF file needs to say its %s: give it as metadata "
                              "(--metadata %s=llama)",
                              architecture, architecture);
    }
    SFT_TRY(read_notes(m, err));
    SFT_TRY(add_catalog(m, err));
    return add_given(m, err);
}

void sft__import_gguf_meta_reset(sft__import_gguf_meta *m) {
    sft__base_buf_reset(&m->text);
    if (m->type_names.slots != NULL) {
        sft__base_strmap_reset(&m->type_names);
    }
    if (m->raw_names.slots != NULL) {
        sft__base_strmap_reset(&m->raw_names);
    }
}

const sft__import_gguf_raw *sft__import_gguf_meta_raw(const sft__import_gguf_meta *m,
                                                      const char *name, size_t name_len) {
    const size_t i =
        m->raw_count > 0 ? sft__base_strmap_find(&m->raw_names, name, name_len) : SFT__STRMAP_NONE;
    return i != SFT__STRMAP_NONE ? &m->raws[i] : NULL;
}
