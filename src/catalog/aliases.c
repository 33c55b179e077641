/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/aliases.c - other names that the metadata of safetensors files record: "alias": "tensor",
 * as Hugging Face's conversion writes it, and sft.aliases, which also knows parts of tensors
 * (docs/tree.md). They can be asked for; they are none of the catalog's tensors. Metadata are input:
 * what names no tensor that is there is some other text, and a record of sft.aliases that is wrong is
 * a problem, never a fault of the file. Read first: catalog.h.
 */
#include "base/checked.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "catalog/catalog.h"
#include "catalog/model.h"

enum {
    ALIASES_MAX = 1 << 18,
    NAME_MAX_BYTES = 1 << 16, /* a longer value is no name of a tensor */
    RANK_MAX = 64
};

/* ---------------------------------------------------------------- adding */

static bool add_part(sft_catalog *c, const sft__catalog_shown_part *part) {
    const sft_tensor *t = &part->tensor;

    if (!sft__base_grow(c->allocator, &c->aliases, &c->alias_room, c->alias_count + 1,
                        sizeof *c->aliases) ||
        !sft__base_grow(c->allocator, &c->parts, &c->part_room, c->part_count + 1,
                        sizeof *c->parts)) {
        return false;
    }
    c->parts[c->part_count++] = *part;
    c->aliases[c->alias_count++] =
        (sft__catalog_alias){t->name, t->name_len, part->of, c->part_count};
    return true;
}

/* All of a tensor under another name. */
static bool add_whole(sft_catalog *c, const char *name, size_t name_len, size_t of) {
    sft__catalog_shown_part part;

    memset(&part, 0, sizeof part);
    part.of = of;
    part.tensor = c->tensors[of];
    part.tensor.name = name;
    part.tensor.name_len = name_len;
    part.piece = c->tensors[of].pieces[0]; /* of a safetensors file: there is one */
    return add_part(c, &part);
}

void sft__catalog_parts_settle(sft_catalog *catalog) {
    for (size_t i = 0; i < catalog->part_count; i++) {
        catalog->parts[i].tensor.pieces = &catalog->parts[i].piece;
    }
}

/* The table of names; of a name given twice the first counts, those behind it go. */
static bool index_names(sft_catalog *c) {
    const size_t count = c->alias_count;

    if (!sft__base_strmap_init(&c->alias_names, c->aliases, sizeof *c->aliases, count,
                               c->allocator)) {
        return false;
    }
    c->alias_count = 0;
    for (size_t i = 0; i < count; i++) {
        c->aliases[c->alias_count] = c->aliases[i];
        c->alias_count += sft__base_strmap_add(&c->alias_names, c->alias_count) == SFT__STRMAP_NONE;
    }
    sft__catalog_parts_settle(c);
    return true;
}

/* ---------------------------------------------------------------- sft.aliases */

/* One record: what is told of an alias. */
typedef struct record {
    struct reading *reading;
    const char *name;
    size_t name_len;
    const char *of;
    size_t of_len;
    const sft_dtype *dtype;
    uint64_t offset; /* in elements */
    uint32_t rank;
    uint32_t strides;
    unsigned seen; /* bits of members */
    uint64_t shape[RANK_MAX];
    uint64_t stride[RANK_MAX]; /* in elements */
} record;

enum { HAS_OF = 1, HAS_DTYPE = 2, HAS_SHAPE = 4, HAS_STRIDE = 8, HAS_OFFSET = 16, HAS_ALL = 31 };

typedef struct reading {
    sft_catalog *catalog;
    sft__base_json json;
    char *text;        /* a copy of the value with zeros behind it, in the arena */
    sft_status status; /* of what is no fault of the text: memory */
    uint64_t wrong;
    const char *wrong_name;
    size_t wrong_len;
} reading;

/* False: no memory. */
static bool keep(reading *r, const sft__base_json_str *s, const char **text, size_t *len) {
    *text = sft__base_json_keep(&r->catalog->arena, r->text + (s->raw - r->text), s, len);
    r->status = *text != NULL ? r->status : SFT_E_LIMIT;
    return *text != NULL;
}

/* An array of at most RANK_MAX numbers; what is none makes *good false. */
static const char *read_numbers(sft__base_json *j, const char *p, uint64_t *list, uint32_t *count,
                                bool *good) {
    sft__base_json_num n;

    *count = 0;
    p = sft__base_json_blank(p + 1);
    while (*p != ']') {
        if (*p != '-' && !sft__base_is_digit(*p)) {
            return NULL;
        }
        p = sft__base_json_number(j, p, &n);
        if (p == NULL) {
            return NULL;
        }
        *good = *good && n.is_uint && *count < RANK_MAX;
        if (*good) {
            list[(*count)++] = n.value;
        }
        p = sft__base_json_blank(p);
        if (*p != ',' && *p != ']') {
            return NULL;
        }
        p = *p == ',' ? sft__base_json_blank(p + 1) : p;
    }
    return p + 1;
}

static bool is_key(const char *key, size_t len, const char *name) {
    return len == strlen(name) && memcmp(key, name, len) == 0;
}

/* A member of a record; one that is not of the form leaves its bit unset. */
static const char *read_member(void *ctx, sft__base_json *j, const sft__base_json_str *key,
                               const char *p) {
    record *a = ctx;
    sft__base_json_str s;
    const char *text;
    size_t len;
    bool good = true;

    if (sft__base_json_is(key, "of", 2) && *p == '"') {
        p = sft__base_json_read(j, p, &s);
        a->seen |= HAS_OF;
        return p != NULL && keep(a->reading, &s, &a->of, &a->of_len) ? p : NULL;
    }
    if (sft__base_json_is(key, "dtype", 5) && *p == '"') {
        p = sft__base_json_read(j, p, &s);
        if (p == NULL || !keep(a->reading, &s, &text, &len)) {
            return NULL;
        }
        a->dtype = sft_dtype_find(text, len);
        a->seen |= a->dtype != NULL ? HAS_DTYPE : 0;
        return p;
    }
    if (sft__base_json_is(key, "shape", 5) && *p == '[') {
        p = read_numbers(j, p, a->shape, &a->rank, &good);
        a->seen |= good ? HAS_SHAPE : 0;
        return p;
    }
    if (sft__base_json_is(key, "stride", 6) && *p == '[') {
        p = read_numbers(j, p, a->stride, &a->strides, &good);
        a->seen |= good ? HAS_STRIDE : 0;
        return p;
    }
    if (sft__base_json_is(key, "offset", 6) && sft__base_is_digit(*p)) {
        sft__base_json_num v;
        p = sft__base_json_number(j, p, &v);
        a->offset = v.value;
        a->seen |= p != NULL && v.is_uint ? HAS_OFFSET : 0;
        return p;
    }
    return sft__base_json_value(j, p, 2);
}

/* ---------------------------------------------------------------- a record as part of a tensor */

/* Are the elements in order, one behind the other? */
static bool is_packed(const record *a) {
    uint64_t inner = 1;

    for (uint32_t d = a->rank; d-- > 0;) {
        if (a->shape[d] != 1 && a->stride[d] != inner) {
            return false;
        }
        inner *= a->shape[d]; /* of a view that lies in its tensor, or that is empty */
    }
    return true;
}

/* Does the part lie in the tensor? bytes: from its first element to behind its last; elements: all. */
static bool fits(const record *a, const sft_tensor *of, uint64_t *bytes, uint64_t *elements) {
    uint64_t last = a->offset;
    uint64_t reach;
    uint64_t step;

    *elements = 1;
    *bytes = 0;
    for (uint32_t d = 0; d < a->rank; d++) {
        if (a->shape[d] == 0) {
            *elements = 0;
        }
    }
    for (uint32_t d = 0; d < a->rank && *elements != 0; d++) {
        if (!sft__base_mul64(a->shape[d] - 1, a->stride[d], &step) ||
            !sft__base_add64(last, step, &last) ||
            !sft__base_mul64(*elements, a->shape[d], elements)) {
            return false;
        }
    }
    if (*elements == 0) {
        return true;
    }
    if (!sft__base_add64(last, 1, &last) || !sft__base_mul64(last, a->dtype->block_bytes, &reach) ||
        reach > of->nbytes) {
        return false;
    }
    *bytes = reach - a->offset * a->dtype->block_bytes;
    return true;
}

static bool is_all(const record *a, const sft_tensor *of) {
    return a->dtype->id == of->dtype->id && a->rank == of->rank && a->offset == 0 && is_packed(a) &&
           (a->rank == 0 || memcmp(a->shape, of->shape, a->rank * sizeof *a->shape) == 0);
}

static const void *numbers(sft_catalog *c, const uint64_t *list, uint32_t count, uint64_t factor) {
    uint64_t *copy = sft__base_arena_alloc(&c->arena, (count + 1) * sizeof *copy, sizeof *copy);

    for (uint32_t d = 0; copy != NULL && d < count; d++) {
        copy[d] =
            list[d] * factor; /* strides: of a view that lies in its tensor; else the factor is 1 */
    }
    return copy;
}

/* False: no memory. */
static bool make_part(sft_catalog *c, const record *a, size_t index, uint64_t bytes,
                      uint64_t elements, sft__catalog_shown_part *part) {
    const sft_tensor *of = &c->tensors[index];
    const uint64_t unit = a->dtype->block_bytes;
    const bool packed = elements == 0 || is_packed(a);

    memset(part, 0, sizeof *part);
    part->of = index;
    part->piece = of->pieces[0];
    part->piece.offset += elements != 0 ? a->offset * unit : 0;
    part->piece.nbytes = bytes;
    part->piece.strides = packed ? NULL : numbers(c, a->stride, a->rank, unit);
    part->tensor = *of;
    part->tensor.name = a->name;
    part->tensor.name_len = a->name_len;
    part->tensor.dtype = a->dtype;
    part->tensor.shape = numbers(c, a->shape, a->rank, 1);
    part->tensor.rank = a->rank;
    part->tensor.nbytes =
        elements * unit; /* checked; may repeat bytes, as an expanded tensor does */
    return part->tensor.shape != NULL && (packed || part->piece.strides != NULL);
}

static void wrong(reading *r, const record *a) {
    if (r->wrong++ == 0) {
        r->wrong_name = a->name;
        r->wrong_len = a->name_len;
    }
}

/* Puts a record into the catalog, or counts it as wrong. */
static bool take_record(reading *r, const record *a) {
    sft_catalog *c = r->catalog;
    const size_t of = (a->seen & HAS_OF) != 0 ? sft__base_strmap_find(c->names, a->of, a->of_len)
                                              : SFT__STRMAP_NONE;
    sft__catalog_shown_part part;
    uint64_t bytes = 0;
    uint64_t elements = 0;
    uint64_t whole;

    if (a->seen != HAS_ALL || a->rank != a->strides || of == SFT__STRMAP_NONE ||
        sft__base_strmap_find(c->names, a->name, a->name_len) != SFT__STRMAP_NONE ||
        c->alias_count >= ALIASES_MAX) {
        wrong(r, a);
        return true;
    }
    const sft_tensor *t = &c->tensors[of];
    if (is_all(a, t)) {
        return add_whole(c, a->name, a->name_len, of);
    }
    if (a->dtype->block_elements != 1 || !fits(a, t, &bytes, &elements) ||
        !sft__base_mul64(elements, a->dtype->block_bytes, &whole)) {
        wrong(r, a);
        return true;
    }
    return make_part(c, a, of, bytes, elements, &part) && add_part(c, &part);
}

/* ---------------------------------------------------------------- the value */

/* A record, or a value that is none. */
static const char *read_record(void *ctx, sft__base_json *j, const sft__base_json_str *name,
                               const char *p) {
    reading *r = ctx;
    record a;

    memset(&a, 0, offsetof(record, shape));
    if (!keep(r, name, &a.name, &a.name_len)) {
        return NULL;
    }
    a.reading = r;
    p = *p == '{' ? sft__base_json_members(j, p, read_member, &a) : sft__base_json_value(j, p, 1);
    if (p != NULL && !take_record(r, &a)) {
        r->status = SFT_E_NOMEM;
        return NULL;
    }
    return p;
}

static sft_status read_value(sft_catalog *c, const char *value, size_t len, sft_error *err) {
    static const char key[] = "sft.aliases";
    reading r = {.catalog = c, .status = SFT_OK};
    const size_t before = c->alias_count;
    sft__catalog_shown shown;

    r.text = sft__base_arena_alloc(&c->arena, len + SFT__JSON_SLACK, 1);
    if (r.text == NULL) {
        return sft__catalog_arena_failed(&c->arena, len, err);
    }
    memcpy(r.text, value, len);
    memset(r.text + len, 0, SFT__JSON_SLACK);
    r.json.end = r.text + len;
    const char *p = sft__base_json_members(&r.json, sft__base_json_blank(r.text), read_record, &r);
    if (r.status != SFT_OK) {
        return sft__catalog_arena_failed(&c->arena, len, err);
    }
    if (p == NULL || sft__base_json_blank(p) < r.json.end) {
        c->alias_count = before;
        return sft__catalog_problem_add(
            c, SFT_PROBLEM_ALIAS, (sft__catalog_subject){key, sizeof key - 1}, err,
            "metadata sft.aliases is no record of aliases: none is known");
    }
    return r.wrong == 0
               ? SFT_OK
               : sft__catalog_problem_add(
                     c, SFT_PROBLEM_ALIAS, (sft__catalog_subject){r.wrong_name, r.wrong_len}, err,
                     "metadata sft.aliases: %llu %s no part of a tensor of the file, "
                     "\"%s\" first",
                     (unsigned long long)r.wrong, r.wrong == 1 ? "entry is" : "entries are",
                     sft__catalog_show(&shown, r.wrong_name, r.wrong_len));
}

/* ---------------------------------------------------------------- alias: tensor */

static bool is_reserved(const sft_metadata_entry *e) {
    return e->key_len == 0 || is_key(e->key, e->key_len, "format") ||
           (e->key_len >= 4 && memcmp(e->key, "sft.", 4) == 0);
}

/* Entries of sft.aliases, which are meant to be read. */
static sft_status read_aliases(sft_catalog *c, const sft__catalog_file *file, sft_error *err) {
    for (size_t i = 0; i < file->metadata_count; i++) {
        const sft_metadata_entry *e = &file->metadata[i];
        if (is_key(e->key, e->key_len, "sft.aliases")) {
            SFT_TRY(read_value(c, e->value, e->value_len, err));
        }
    }
    return SFT_OK;
}

static sft_status read_plain(sft_catalog *c, const sft__catalog_file *file, sft_error *err) {
    for (size_t i = 0; i < file->metadata_count; i++) {
        const sft_metadata_entry *e = &file->metadata[i];
        if (is_reserved(e) || e->value_len > NAME_MAX_BYTES || c->alias_count >= ALIASES_MAX) {
            continue;
        }
        const size_t of = sft__base_strmap_find(c->names, e->value, e->value_len);
        if (of != SFT__STRMAP_NONE &&
            sft__base_strmap_find(c->names, e->key, e->key_len) == SFT__STRMAP_NONE &&
            !add_whole(c, e->key, e->key_len, of)) {
            return sft__base_fail_nomem(err, c->alias_count * sizeof *c->aliases);
        }
    }
    return SFT_OK;
}

sft_status sft__catalog_aliases(sft_catalog *catalog, sft_error *err) {
    for (size_t f = 0; f < catalog->file_count; f++) {
        SFT_TRY(read_aliases(catalog, &catalog->files[f], err));
    }
    /* A text that happens to be the name of a tensor counts only for names of which sft.aliases says
     * nothing: of two entries of one name index_names keeps the first. */
    for (size_t f = 0; f < catalog->file_count; f++) {
        SFT_TRY(read_plain(catalog, &catalog->files[f], err));
    }
    return catalog->alias_count == 0 || index_names(catalog)
               ? SFT_OK
               : sft__base_fail_nomem(err, catalog->alias_count * sizeof *catalog->aliases);
}
