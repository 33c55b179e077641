/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/header_parse.c - the members of a header one after the other: `__metadata__` and tensor
 * entries become arrays; header_check.c then looks at the set. Verdicts equal the reference's
 * (safetensors 0.8) but for the hazards that docs/format.md lists: duplicate tensor names and
 * metadata keys, an entry given as an array, a dtype given as an object, a rank above the limit.
 * What the reference rejects is never accepted.
 *
 * Strings without escapes stay where they are in the text and get a NUL over their closing quote;
 * others are decoded into the arena, so that the text between quotes never changes.
 *
 * SFT_OPEN_STRICT also refuses, as SFT_E_SCHEMA unless said otherwise:
 *   - a header that does not start with `{`, or ends with anything but `}` and blanks (0x20)
 *   - fields of an entry other than dtype, shape and data_offsets
 *   - control, bidirectional, zero-width and other invisible characters in tensor names
 *   - entries that are not in the order of their data (SFT_E_OFFSETS)
 *   - a data section that does not start at a multiple of 8
 */
#include "base/checked.h"
#include "base/memory/pages.h"
#include "base/text/utf8.h"
#include "format/header_check.h"
#include "format/unique.h"

enum {
    MIN_ENTRY = 50, /* "":{"dtype":"F4","shape":[],"data_offsets":[0,0]}, */
    SPARE_DIMS = 16,
    SMALL_CHUNK = 1000,
    MUCH = 1 << 16, /* bytes from which C libraries give freed memory back */
    FIRST_DIMS = 256,
    FIRST_METADATA = 16,
    SURE_DUPLICATE = 200000,
    FIRST_CHECK = 1 << 20,
    COUNT_METADATA = 1024 /* entries after which the rest is counted and allocated exactly */
};

#define DEFAULT_HEADER_BYTES UINT64_C(100000000)
#define MAX_HEADER_BYTES     UINT64_C(4294967295)
#define DEFAULT_RANK         UINT64_C(1024)
#define MAX_TENSORS          UINT64_C(4294967295)

typedef struct parser {
    sft__format_scan scan;
    sft__format_header *header;
    sft_piece *pieces;
    uint64_t *slots; /* for the name index of tensor_capacity names */
    size_t tensor_capacity;
    size_t metadata_capacity;
    size_t next_check; /* entries at which duplicates are looked for already while reading */
    uint64_t tensor_limit;
    uint64_t name_limit;
    bool canonical; /* try the canonical form first */
} parser;

/* ---------------------------------------------------------------- the first eight bytes */

static uint64_t header_limit(const sft_limits *limits) {
    const uint64_t wanted = limits != NULL ? limits->header_bytes : 0;
    return wanted == 0                 ? DEFAULT_HEADER_BYTES
           : wanted > MAX_HEADER_BYTES ? MAX_HEADER_BYTES
                                       : wanted;
}

sft_status sft__format_header_length(const uint8_t *first, size_t first_len, uint64_t file_size,
                                     const sft_limits *limits, uint64_t *header_bytes,
                                     sft_error *err) {
    const uint64_t limit = header_limit(limits);
    uint64_t n;

    *header_bytes = 0;
    if (first_len < 8 || file_size < 8) {
        return sft__base_fail_at(err, SFT_E_TOO_SMALL, file_size,
                                 "file has %llu bytes, needed at least 8",
                                 (unsigned long long)file_size);
    }
    n = sft__base_load_le64(first);
    if (n > limit) {
        (void)sft__base_fail_at(err, SFT_E_HEADER_TOO_LARGE, 0,
                                "header length is %llu, the limit is %llu", (unsigned long long)n,
                                (unsigned long long)limit);
        if (err != NULL && n <= MAX_HEADER_BYTES) {
            err->expected = 8 + n; /* a larger limit would admit it */
        }
        return SFT_E_HEADER_TOO_LARGE;
    }
    if (n > file_size - 8) {
        (void)sft__base_fail_at(err, SFT_E_HEADER_PAST_END, 0,
                                "header length is %llu, but only %llu bytes follow it",
                                (unsigned long long)n, (unsigned long long)(file_size - 8));
        if (err != NULL) {
            err->expected = 8 + n; /* at least; n <= limit < 2^32 */
        }
        return SFT_E_HEADER_PAST_END;
    }
    *header_bytes = n;
    return SFT_OK;
}

/* ---------------------------------------------------------------- __metadata__ */

/* Strings from p to the end of the metadata object; the text may be broken, then too few or too
 * many. */
static size_t count_strings(const parser *ps, const char *p) {
    size_t n = 0;
    while (*p != '}' && p < ps->scan.json.end) {
        if (*p++ == '"') {
            n++;
            for (p = sft__base_json_plain_end(p); *p != '"' && p < ps->scan.json.end;) {
                p = sft__base_json_plain_end(p + (*p == '\\' ? 2 : 1));
            }
            p++;
        }
    }
    return n;
}

/* Different keys need four bytes each once the shorter ones, about a million, are used up, so that
 * a pair takes ten bytes. If there are more pairs than that, some key must come twice: then looking
 * for it now and then keeps the memory for pairs in bounds. */
static bool more_metadata(parser *ps, const char *p) {
    sft__format_header *const h = ps->header;
    size_t capacity = ps->metadata_capacity == 0 ? FIRST_METADATA : 2 * ps->metadata_capacity;
    sft_metadata_entry *fresh;
    size_t bytes;

    if (ps->metadata_capacity >= COUNT_METADATA) {
        const size_t rest = count_strings(ps, p) / 2 + 1;
        capacity = rest <= capacity - h->metadata_count ? capacity : h->metadata_count + rest;
        if (capacity > SURE_DUPLICATE + h->header_bytes / 10) {
            ps->next_check = FIRST_CHECK;
        }
    }
    fresh = sft__base_mul_size(capacity, sizeof *fresh, &bytes)
                ? sft__base_arena_alloc(&h->arena, bytes, sizeof(void *))
                : NULL;
    if (fresh == NULL) {
        (void)sft__format_scan_no_room(&ps->scan, (uint64_t)capacity * sizeof *fresh);
        return false;
    }
    if (h->metadata_count != 0) {
        memcpy(fresh, h->metadata, h->metadata_count * sizeof *fresh);
    }
    h->metadata = fresh;
    ps->metadata_capacity = capacity;
    return true;
}

/* Behind the string at the quote p, which was kept as `kept` of len bytes. */
static const char *behind_string(parser *ps, const char *p, const char *kept, size_t len) {
    sft__base_json_str s;
    return kept == p + 1 ? kept + len + 1 : sft__base_json_read(&ps->scan.json, p, &s);
}

/* The place of a metadata key; the object was read and is fine. */
static const char *key_place(parser *ps, size_t index) {
    const sft_metadata_entry *const m = ps->header->metadata;
    const char *p = ps->scan.text + (ps->header->metadata_begin - 8);
    for (size_t i = 0; i < index; i++) {
        p = sft__base_json_blank(p + 1);
        p = behind_string(ps, p, m[i].key, m[i].key_len);
        p = sft__base_json_blank(sft__base_json_blank(p) + 1);
        p = sft__base_json_blank(behind_string(ps, p, m[i].value, m[i].value_len));
    }
    return sft__base_json_blank(p + 1);
}

static bool unique_keys(parser *ps) {
    sft__format_header *const h = ps->header;
    sft__format_scan *const s = &ps->scan;
    const uint64_t left = h->arena.budget != 0 ? h->arena.budget - h->arena.total : UINT64_MAX;
    size_t index;

    s->status =
        sft__format_unique_keys(h->metadata, h->metadata_count, left, h->arena.allocator, &index);
    if (s->status == SFT_E_DUPLICATE) {
        char shown[80];
        (void)sft__base_escape(shown, sizeof shown, h->metadata[index].key,
                               h->metadata[index].key_len);
        (void)SFT__SCAN_FAIL(s, SFT_E_DUPLICATE, key_place(ps, index),
                             "metadata key \"%s\" given twice", shown);
    } else if (s->status == SFT_E_LIMIT) {
        (void)sft__base_fail(s->err, SFT_E_LIMIT,
                             "metadata of %llu entries is above the memory limit",
                             (unsigned long long)h->metadata_count);
    } else if (s->status == SFT_E_NOMEM) {
        (void)sft__base_fail_nomem(s->err, h->metadata_count * sizeof(uint64_t));
    }
    return s->status == SFT_OK;
}

static const char *read_pair(parser *ps, const char *p) {
    sft__format_scan *const s = &ps->scan;
    sft__format_header *const h = ps->header;
    sft__base_json_str key;
    sft_metadata_entry *entry;

    if (h->metadata_count == ps->metadata_capacity && !more_metadata(ps, p)) {
        return NULL;
    }
    if (h->metadata_count == ps->next_check) {
        ps->next_check *= 3;
        if (!unique_keys(ps)) {
            return NULL;
        }
    }
    entry = &h->metadata[h->metadata_count];
    p = sft__format_scan_key(s, p, &key, "expected a metadata key in quotes",
                             "expected ':' behind a metadata key");
    entry->key = p != NULL ? sft__format_scan_keep(s, &key, &entry->key_len) : NULL;
    if (entry->key == NULL) {
        return NULL;
    }
    if (*p != '"') {
        return sft__format_scan_wrong_type(s, p, 2, SFT_E_SCHEMA,
                                           "metadata value must be a string");
    }
    p = sft__format_scan_string(s, p, &entry->value, &entry->value_len);
    h->metadata_count += p != NULL ? 1 : 0;
    return p;
}

/* p at the value of `__metadata__`. */
static const char *read_metadata(parser *ps, const char *p) {
    sft__format_scan *const s = &ps->scan;
    sft__format_header *const h = ps->header;
    bool more;

    if (memcmp(p, "null", 4) == 0) {
        h->metadata_begin = UINT64_MAX; /* seen; cleared at the end */
        return p + 4;
    }
    if (*p != '{') {
        return sft__format_scan_wrong_type(s, p, 1, SFT_E_SCHEMA,
                                           "__metadata__ must be an object of strings");
    }
    h->metadata_begin = 8 + (uint64_t)(p - s->text);
    for (p = sft__base_json_first(p, '}', &more); p != NULL && more;) {
        p = sft__format_scan_next(s, read_pair(ps, p), '}', "expected ',' or '}' in __metadata__",
                                  &more);
    }
    h->has_metadata = true;
    h->metadata_end = p != NULL ? 8 + (uint64_t)(p - s->text) : 0;
    return p;
}

/* ---------------------------------------------------------------- tensors */

static const char *strict_name(parser *ps, const char *at, const char *name, size_t len) {
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        if ((unsigned char)(name[i] - 0x20) < 0x5f) {
            i++; /* plain ASCII */
            continue;
        }
        i += sft__base_utf8_decode(name + i, len - i, &cp); /* valid: at least 1 */
        if (sft__base_utf8_deceptive(cp)) {
            return SFT__SCAN_FAIL(&ps->scan, SFT_E_SCHEMA, at,
                                  "strict: tensor name holds the invisible character U+%04X",
                                  (unsigned)cp);
        }
    }
    return at;
}

/* Of bytes that cannot be part of an invisible character. */
static bool is_ascii(const char *name, size_t len) {
    unsigned char all = 0;
    for (size_t i = 0; i < len; i++) {
        all |= (unsigned char)(name[i] + 1); /* 0x7f is a control */
    }
    return all < 0x80;
}

static const char *check_name(parser *ps, const char *at, const char *name, size_t len) {
    ps->scan.name = name;
    ps->scan.name_len = len;
    if (ps->header->tensor_count >= ps->tensor_limit) {
        return SFT__SCAN_FAIL(&ps->scan, SFT_E_LIMIT, at, "more than %llu tensors",
                              (unsigned long long)ps->tensor_limit);
    }
    if (len > ps->name_limit) {
        return SFT__SCAN_FAIL(&ps->scan, SFT_E_LIMIT, at,
                              "tensor name of %llu bytes, the limit is %llu",
                              (unsigned long long)len, (unsigned long long)ps->name_limit);
    }
    return ps->scan.strict ? strict_name(ps, at, name, len) : at;
}

static inline void add_tensor(parser *ps, const char *at, const char *name, size_t len,
                              const sft__format_scan_tensor *t) {
    sft__format_header *const h = ps->header;
    const size_t i = h->tensor_count++; /* below tensor_capacity: one for every '{' of the text */
    sft_tensor *const tensor = &h->tensors[i];
    sft_piece *const piece = &ps->pieces[i];

    tensor->name = name;
    tensor->name_len = len;
    tensor->dtype = t->dtype;
    tensor->shape = t->shape;
    tensor->pieces = piece;
    tensor->nbytes = 0;
    tensor->rank = t->rank;
    tensor->piece_count = 1;
    tensor->file = 0;
    tensor->flags = (uint32_t)(at - ps->scan.text); /* header bytes < 2^32 */
    piece->offset = t->begin;
    piece->nbytes = t->end;
    piece->start = NULL;
    piece->count = NULL;
    piece->strides = NULL;
    piece->source = 0;
    piece->reserved = 0;
}

/* p at the opening quote of a member's name; reads the member in any form. */
static const char *read_member(parser *ps, const char *p) {
    sft__format_scan *const s = &ps->scan;
    const char *const at = p;
    sft__base_json_str raw;
    sft__format_scan_tensor tensor;
    const char *name;
    size_t len;

    p = sft__format_scan_key(s, p, &raw, "expected a tensor name in quotes",
                             "expected ':' behind a tensor name");
    if (p == NULL) {
        return NULL;
    }
    if (sft__base_json_is(&raw, "__metadata__", 12)) {
        if (ps->header->metadata_begin != 0) {
            return SFT__SCAN_FAIL(s, SFT_E_DUPLICATE, at, "__metadata__ given twice");
        }
        return read_metadata(ps, p);
    }
    name = sft__format_scan_keep(s, &raw, &len);
    if (name == NULL || check_name(ps, at, name, len) == NULL) {
        return NULL;
    }
    p = sft__format_scan_entry(s, p, &tensor);
    if (p != NULL) {
        add_tensor(ps, at, name, len, &tensor);
        s->name = NULL;
    }
    return p;
}

/* p where a member must start: reads members in the canonical form, as many as there are in a row.
 * Gives the position of the first that is not, or *closed and the position of the header's closing
 * brace. */
static const char *read_canonical(parser *ps, const char *p, bool *closed) {
    sft__format_scan *const s = &ps->scan;
    while (*p == '"') {
        sft__format_scan_tensor tensor;
        const char *const quote = sft__base_json_plain_end(p + 1);
        const size_t len = (size_t)(quote - (p + 1));
        const char *q;

        if (*quote != '"' || (len == 12 && memcmp(p + 1, "__metadata__", 12) == 0) ||
            (s->strict && !is_ascii(p + 1, len))) { /* the general form looks at the name */
            break;
        }
        q = sft__format_scan_canonical(s, quote, &tensor);
        if (q == NULL || (*q != '}' && (q[0] != ',' || q[1] != '"')) || len > ps->name_limit ||
            ps->header->tensor_count >= ps->tensor_limit) {
            break;
        }
        s->text[quote - s->text] = '\0';
        add_tensor(ps, p, p + 1, len, &tensor);
        if (*q == '}') {
            *closed = true;
            return q;
        }
        p = q + 1;
    }
    return p;
}

/* ---------------------------------------------------------------- the whole header */

static const char *read_members(parser *ps, const char *p) {
    sft__format_scan *const s = &ps->scan;
    bool more;

    if (*p != '{') {
        return sft__format_scan_wrong_type(s, p, 0, SFT_E_SCHEMA, "header must be a JSON object");
    }
    for (p = sft__base_json_first(p, '}', &more); p != NULL && more;) {
        if (ps->canonical) {
            bool closed = false;
            p = read_canonical(ps, p, &closed);
            if (closed) {
                return p + 1;
            }
        }
        p = sft__format_scan_next(s, read_member(ps, p), '}', "expected ',' or '}' behind a member",
                                  &more);
    }
    return p;
}

static bool read_text(parser *ps) {
    sft__format_scan *const s = &ps->scan;
    const char *const end = s->json.end;
    const char *p = sft__base_json_blank(s->text);
    const char *stop;

    if (s->strict && p != s->text) {
        (void)SFT__SCAN_FAIL(s, SFT_E_SCHEMA, s->text, "strict: header does not start with '{'");
        return false;
    }
    p = read_members(ps, p);
    if (p == NULL) {
        return false;
    }
    stop = p;
    while (stop < end && *stop == ' ') {
        stop++;
    }
    p = sft__base_json_blank(stop);
    if (p < end) {
        (void)sft__format_scan_expected(s, SFT_E_JSON, p,
                                        "expected nothing but blanks behind the header");
        return false;
    }
    if (s->strict && stop < end) {
        (void)SFT__SCAN_FAIL(s, SFT_E_SCHEMA, stop, "strict: padding must be blanks (0x20)");
        return false;
    }
    if (s->strict && ps->header->header_bytes % 8 != 0) {
        (void)SFT__SCAN_FAIL(s, SFT_E_SCHEMA, end,
                             "strict: data does not start at a multiple of 8");
        return false;
    }
    if (ps->header->metadata_begin == UINT64_MAX) {
        ps->header->metadata_begin = 0;
    }
    return unique_keys(ps);
}

/* A small chunk behind the large ones, for strings to come. Freed, it stays in the C library's
 * cache of small blocks: the large ones below it are then not given back to the system, to be asked
 * for, cleared and mapped again by the next header. */
static bool close_heap(sft__base_arena *arena) {
    const size_t next = arena->next_chunk;
    arena->next_chunk = SMALL_CHUNK;
    if (sft__base_arena_alloc(arena, 64, 1) == NULL) { /* more than alignment left over */
        return false;
    }
    arena->next_chunk = next;
    return true;
}

/* Room for tensors, pieces, shapes of the usual rank, and slots of the name index. First use of
 * memory costs more per page than the parser per kilobyte, so above the size from which the
 * allocator has huge pages it is one block; below, several small ones, which C libraries take from
 * memory used before. */
static bool make_room(parser *ps, size_t capacity) {
    sft__format_header *const h = ps->header;
    sft__format_scan *const s = &ps->scan;
    const size_t dims = SPARE_DIMS + 2 * capacity;
    const uint64_t words = (uint64_t)dims + sft__base_strmap_slots(capacity);
    const uint64_t tensors = (uint64_t)capacity * sizeof *h->tensors;
    const uint64_t pieces = (uint64_t)capacity * sizeof *ps->pieces;
    /* none of these overflows: capacity < 2^32 / 50 */
    const uint64_t bytes = tensors + pieces + words * sizeof(uint64_t);
    const bool one = bytes >= SFT__PAGES_MIN;
    const size_t align = sizeof(uint64_t);
    size_t size;

    if (sft__base_size_from_u64(bytes, &size)) {
        h->tensors = sft__base_arena_alloc(&h->arena, one ? size : (size_t)tensors, align);
    }
    if (h->tensors != NULL) {
        ps->pieces = one ? (sft_piece *)(void *)(h->tensors + capacity)
                         : sft__base_arena_alloc(&h->arena, (size_t)pieces, align);
    }
    if (ps->pieces != NULL) {
        s->dims = one ? (uint64_t *)(void *)(ps->pieces + capacity)
                      : sft__base_arena_alloc(&h->arena, (size_t)words * sizeof(uint64_t), align);
    }
    if (s->dims == NULL || (!one && bytes >= MUCH && !close_heap(&h->arena))) {
        (void)sft__format_scan_no_room(s, bytes);
        return false;
    }
    ps->tensor_capacity = capacity;
    s->dims_end = s->dims + dims;
    ps->slots = s->dims_end;
    return true;
}

/* Checks UTF-8 and makes room for tensors: every one of them has a '{' and MIN_ENTRY bytes. */
static bool prepare(parser *ps) {
    sft__format_scan *const s = &ps->scan;
    const size_t len = (size_t)(s->json.end - s->text);
    size_t most = len / MIN_ENTRY + 1;
    size_t braces;
    size_t valid = len;

    if (!sft__base_json_survey(s->text, len, &braces)) {
        valid = sft__base_utf8_valid(s->text, len);
    }
    if (valid != len) {
        (void)SFT__SCAN_FAIL(s, SFT_E_UTF8, s->text + valid, "header is not valid UTF-8");
        return false;
    }
    if (most > braces) {
        most = braces;
    }
    return make_room(ps, most);
}

static void apply_limits(parser *ps, const sft_limits *limits) {
    static const sft_limits none;
    if (limits == NULL) {
        limits = &none;
    }
    ps->tensor_limit = limits->tensors != 0 ? limits->tensors : MAX_TENSORS;
    ps->name_limit = limits->name_bytes != 0 ? limits->name_bytes : UINT64_MAX;
    ps->scan.rank_limit = limits->rank != 0 ? limits->rank : DEFAULT_RANK;
}

static sft_status parse(parser *ps) {
    if (!prepare(ps) || !read_text(ps) ||
        !sft__format_header_check(ps->header, ps->pieces, ps->slots, &ps->scan)) {
        return ps->scan.status;
    }
    return SFT_OK;
}

sft_status sft__format_header_parse_as(sft__format_header *out, sft__format_text given,
                                       const sft_open_options *options, bool canonical,
                                       sft_error *err) {
    const sft_allocator *const allocator = options != NULL ? options->allocator : NULL;
    const sft_limits *const limits = options != NULL ? options->limits : NULL;
    const uint64_t memory_limit = limits != NULL ? limits->memory_bytes : 0;
    const size_t len = (size_t)given.header_bytes; /* text was allocated with that many bytes */
    char *const text = given.text;
    parser ps;
    sft_status status;

    memset(out, 0, sizeof *out);
    memset(&ps, 0, sizeof ps);
    out->text = text;
    out->text_size = len + SFT__HEADER_SLACK;
    out->header_bytes = given.header_bytes;
    out->file_size = given.file_size;
    sft__base_arena_init(&out->arena, allocator, 0);
    if (memory_limit != 0) {
        out->arena.budget = memory_limit > out->text_size ? memory_limit - out->text_size : 1;
    }
    memset(text + len, 0, SFT__HEADER_SLACK);
    ps.header = out;
    ps.canonical = canonical;
    ps.next_check = SIZE_MAX;
    ps.scan.text = text;
    ps.scan.noun = "header";
    ps.scan.prefix = "";
    ps.scan.origin = 8;
    ps.scan.json.end = text + len;
    ps.scan.err = err;
    ps.scan.arena = &out->arena;
    ps.scan.next_dims = FIRST_DIMS;
    ps.scan.strict = options != NULL && (options->flags & SFT_OPEN_STRICT) != 0;
    apply_limits(&ps, limits);
    if (given.header_bytes > MAX_HEADER_BYTES || given.file_size < 8 ||
        given.header_bytes > given.file_size - 8) {
        status = sft__base_fail_at(
            err, SFT_E_HEADER_PAST_END, 0, "header length is %llu, the file has %llu",
            (unsigned long long)given.header_bytes, (unsigned long long)given.file_size);
    } else {
        status = parse(&ps);
    }
    if (status != SFT_OK) {
        sft__format_header_reset(out);
    }
    return status;
}

sft_status sft__format_header_parse(sft__format_header *out, char *text, uint64_t header_bytes,
                                    uint64_t file_size, const sft_open_options *options,
                                    sft_error *err) {
    return sft__format_header_parse_as(out, (sft__format_text){text, header_bytes, file_size},
                                       options, true, err);
}

void sft__format_header_reset(sft__format_header *header) {
    if (header->text != NULL) {
        const sft_allocator *const allocator = header->arena.allocator;
        sft__base_free(allocator, header->text, header->text_size);
        sft__base_strmap_reset(&header->names);
        sft__base_arena_free(&header->arena);
    }
    memset(header, 0, sizeof *header);
}
