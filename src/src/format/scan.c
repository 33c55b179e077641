/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/scan.c - one tensor entry of a header. Knows the fields of an entry, not what a set of
 * tensors must fulfil (format/header_check.c). The grammar, over JSON as base/text/json.h reads it:
 *
 *   header   = blank* "{" [ member *( "," member ) ] "}" blank*
 *   member   = "__metadata__" ":" ( null | "{" [ string ":" string *( "," string ":" string ) ] "}" )
 *            | name ":" entry              members in any order, blanks anywhere, strings may hold escapes
 *   entry    = "{" field *( "," field ) "}"          each of the first three exactly once
 *   field    = "dtype" ":" string | "shape" ":" "[" [ uint *( "," uint ) ] "]"
 *            | "data_offsets" ":" "[" uint "," uint "]" | other-name ":" any JSON value
 *   uint     = "0" | nonzero-digit *digit            below 2^64
 *
 * Two readers of an entry: the canonical one takes exactly what the reference writes, by comparing
 * whole words; the general one takes everything. What the first accepts, the second reads alike
 * (fuzzed).
 */
#include "format/scan.h"
#include "base/checked.h"

enum { DIMS_CHUNK_MAX = 1 << 17 };

/* ---------------------------------------------------------------- failures */

const char *sft__format_scan_expected(sft__format_scan *s, sft_status status, const char *at,
                                      const char *needed) {
    const uint8_t c = (uint8_t)*at;
    if (at >= s->json.end) {
        return SFT__SCAN_FAIL(s, status, at, "%s, found the end of the header", needed);
    }
    if (c < 0x20 || c >= 0x7f) {
        return SFT__SCAN_FAIL(s, status, at, "%s, found byte %u", needed, c);
    }
    return SFT__SCAN_FAIL(s, status, at, "%s, found '%c'", needed, c);
}

const char *sft__format_scan_json_fault(sft__format_scan *s) {
    if (s->json.fault_expected) {
        return sft__format_scan_expected(s, SFT_E_JSON, s->json.fault_at, s->json.fault);
    }
    return SFT__SCAN_FAIL(s, SFT_E_JSON, s->json.fault_at, "%s", s->json.fault);
}

const char *sft__format_scan_wrong_type(sft__format_scan *s, const char *p, unsigned depth,
                                        sft_status status, const char *needed) {
    return sft__base_json_value(&s->json, p, depth) == NULL
               ? sft__format_scan_json_fault(s)
               : sft__format_scan_expected(s, status, p, needed);
}

const char *sft__format_scan_no_room(sft__format_scan *s, uint64_t size) {
    s->status =
        s->arena->over_budget
            ? sft__base_fail(s->err, SFT_E_LIMIT, "header needs more memory than the limit allows")
            : sft__base_fail_nomem(s->err, (size_t)size);
    return NULL;
}

/* ---------------------------------------------------------------- shapes */

/* Room for one more dimension behind the `rank` ones at *shape, which may have to move. The rest of
 * a long shape is counted first, so that a shape of many millions is allocated once and exactly. */
static SFT_NOINLINE bool more_dims(sft__format_scan *s, const char *p, uint64_t **shape,
                                   size_t rank) {
    size_t need = rank + 1;
    size_t bytes;
    uint64_t *fresh;

    for (; *p != ']' && p < s->json.end; p++) {
        need += *p == ',' ? 1 : 0;
    }
    if (need < s->next_dims) {
        need = s->next_dims;
        s->next_dims = s->next_dims < DIMS_CHUNK_MAX ? s->next_dims * 2 : DIMS_CHUNK_MAX;
    }
    fresh = sft__base_mul_size(need, sizeof *fresh, &bytes)
                ? sft__base_arena_alloc(s->arena, bytes, sizeof *fresh)
                : NULL;
    if (fresh == NULL) {
        (void)sft__format_scan_no_room(s, (uint64_t)need * sizeof *fresh);
        return false;
    }
    if (rank != 0) {
        memcpy(fresh, *shape, rank * sizeof *fresh);
    }
    *shape = fresh;
    s->dims = fresh;
    s->dims_end = fresh + need;
    return true;
}

/* An unsigned integer of a shape or of offsets. */
static inline const char *scan_uint(sft__format_scan *s, const char *p, sft_status status,
                                    const char *needed, uint64_t *value) {
    sft__base_json_num n;
    const char *q = p;
    if (*p != '-' && (*p < '0' || *p > '9')) {
        return sft__format_scan_wrong_type(s, p, 3, status, needed);
    }
    q = sft__base_json_number(&s->json, p, &n);
    if (q == NULL) {
        return sft__format_scan_json_fault(s);
    }
    if (!n.is_uint) {
        return SFT__SCAN_FAIL(s, status, p, "%s below 2^64, found another number", needed);
    }
    *value = n.value;
    return q;
}

/* p at the value of "shape". */
static const char *scan_shape(sft__format_scan *s, const char *p, sft__format_scan_tensor *out) {
    uint64_t *shape = s->dims;
    size_t rank = 0;
    bool more;

    if (*p != '[') {
        return sft__format_scan_wrong_type(s, p, 2, SFT_E_SCHEMA, "shape must be an array");
    }
    p = sft__base_json_blank(p + 1);
    more = *p != ']';
    while (more) {
        if (rank >= s->rank_limit) {
            return SFT__SCAN_FAIL(s, SFT_E_LIMIT, p, "more than %llu dimensions",
                                  (unsigned long long)s->rank_limit);
        }
        if (shape + rank == s->dims_end && !more_dims(s, p, &shape, rank)) {
            return NULL;
        }
        p = scan_uint(s, p, SFT_E_SHAPE, "dimension must be a non-negative integer", &shape[rank]);
        if (p == NULL) {
            return NULL;
        }
        rank++;
        p = sft__base_json_blank(p);
        more = *p == ',';
        if (more) {
            p = sft__base_json_blank(p + 1);
        } else if (*p != ']') {
            return sft__format_scan_expected(s, SFT_E_JSON, p, "expected ',' or ']' in a shape");
        }
    }
    s->dims = shape + rank;
    out->shape = shape;
    out->rank = sft__base_u32(rank); /* rank < header bytes < 2^32 */
    return p + 1;
}

/* ---------------------------------------------------------------- the general form */

static const char *scan_dtype(sft__format_scan *s, const char *p, sft__format_scan_tensor *out) {
    const char *const at = p;
    sft__base_json_str text;
    char name[SFT__DTYPE_NAME_MAX + 1];

    if (*p != '"') {
        return sft__format_scan_wrong_type(s, p, 2, SFT_E_SCHEMA, "dtype must be a string");
    }
    p = sft__base_json_read(&s->json, p, &text);
    if (p == NULL) {
        return sft__format_scan_json_fault(s);
    }
    out->dtype = NULL;
    if (!text.escaped) {
        out->dtype = sft_dtype_find(text.raw, text.len);
    } else if (text.len <= 6 * SFT__DTYPE_NAME_MAX) { /* an escape is at most six bytes for one */
        char decoded[6 * SFT__DTYPE_NAME_MAX];
        out->dtype = sft_dtype_find(decoded, sft__base_json_decode(decoded, &text));
    }
    if (out->dtype == NULL) {
        const size_t shown = sft__base_escape(name, sizeof name, text.raw, text.len);
        return SFT__SCAN_FAIL(s, SFT_E_DTYPE, at, "unknown dtype \"%.*s\"", (int)shown, name);
    }
    return p;
}

static const char *scan_offsets(sft__format_scan *s, const char *p, sft__format_scan_tensor *out) {
    const char *const at = p;
    if (*p != '[') {
        return sft__format_scan_wrong_type(s, p, 2, SFT_E_SCHEMA, "data_offsets must be an array");
    }
    p = sft__base_json_blank(p + 1);
    if (*p == ']') {
        return SFT__SCAN_FAIL(s, SFT_E_OFFSETS, at, "data_offsets has no items, needed two");
    }
    p = scan_uint(s, p, SFT_E_OFFSETS, "offset must be a non-negative integer", &out->begin);
    if (p == NULL) {
        return NULL;
    }
    p = sft__base_json_blank(p);
    if (*p == ']') {
        return SFT__SCAN_FAIL(s, SFT_E_OFFSETS, at, "data_offsets has one item, needed two");
    }
    if (*p != ',') {
        return sft__format_scan_expected(s, SFT_E_JSON, p, "expected ',' in data_offsets");
    }
    p = sft__base_json_blank(p + 1);
    p = scan_uint(s, p, SFT_E_OFFSETS, "offset must be a non-negative integer", &out->end);
    if (p == NULL) {
        return NULL;
    }
    p = sft__base_json_blank(p);
    if (*p == ',') {
        return sft__base_json_value(&s->json, sft__base_json_blank(p + 1), 3) == NULL
                   ? sft__format_scan_json_fault(s)
                   : SFT__SCAN_FAIL(s, SFT_E_OFFSETS, at, "data_offsets has more than two items");
    }
    if (*p != ']') {
        return sft__format_scan_expected(s, SFT_E_JSON, p, "expected ']' behind data_offsets");
    }
    return p + 1;
}

enum { FIELD_DTYPE = 0, FIELD_SHAPE = 1, FIELD_OFFSETS = 2, FIELD_OTHER = 3 };
static const char *const field_names[3] = {"dtype", "shape", "data_offsets"};

static unsigned field_of(const sft__base_json_str *key) {
    unsigned i = 0;
    while (i < FIELD_OTHER && !sft__base_json_is(key, field_names[i], strlen(field_names[i]))) {
        i++;
    }
    return i;
}

/* p at a member name of an entry: name, colon and value. */
static const char *scan_field(sft__format_scan *s, const char *p, unsigned *seen,
                              sft__format_scan_tensor *out) {
    const char *const at = p;
    sft__base_json_str key;
    unsigned field;

    if (*p != '"') {
        return sft__format_scan_expected(s, SFT_E_JSON, p, "expected a field name in quotes");
    }
    p = sft__base_json_read(&s->json, p, &key);
    if (p == NULL) {
        return sft__format_scan_json_fault(s);
    }
    p = sft__base_json_blank(p);
    if (*p != ':') {
        return sft__format_scan_expected(s, SFT_E_JSON, p, "expected ':' behind a field name");
    }
    p = sft__base_json_blank(p + 1);
    field = field_of(&key);
    if (field == FIELD_OTHER) {
        if (s->strict) {
            return SFT__SCAN_FAIL(s, SFT_E_SCHEMA, at,
                                  "strict: field that the format does not have");
        }
        p = sft__base_json_value(&s->json, p, 2);
        return p != NULL ? p : sft__format_scan_json_fault(s);
    }
    if ((*seen & (1u << field)) != 0) {
        return SFT__SCAN_FAIL(s, SFT_E_DUPLICATE, at, "field \"%s\" given twice",
                              field_names[field]);
    }
    *seen |= 1u << field;
    return field == FIELD_DTYPE   ? scan_dtype(s, p, out)
           : field == FIELD_SHAPE ? scan_shape(s, p, out)
                                  : scan_offsets(s, p, out);
}

const char *sft__format_scan_entry(sft__format_scan *s, const char *p,
                                   sft__format_scan_tensor *out) {
    const char *const at = p;
    unsigned seen = 0;
    bool more;

    if (*p != '{') {
        return sft__format_scan_wrong_type(s, p, 1, SFT_E_SCHEMA, "tensor entry must be an object");
    }
    p = sft__base_json_blank(p + 1);
    more = *p != '}';
    while (more) {
        p = scan_field(s, p, &seen, out);
        if (p == NULL) {
            return NULL;
        }
        p = sft__base_json_blank(p);
        more = *p == ',';
        if (more) {
            p = sft__base_json_blank(p + 1);
        } else if (*p != '}') {
            return sft__format_scan_expected(s, SFT_E_JSON, p,
                                             "expected ',' or '}' in a tensor entry");
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        if ((seen & (1u << i)) == 0) {
            return SFT__SCAN_FAIL(s, SFT_E_MISSING_FIELD, at, "field \"%s\" is missing",
                                  field_names[i]);
        }
    }
    return p + 1;
}

const char *sft__format_scan_member(sft__format_scan *s, const char *p, const char *member) {
    sft__base_json_str key;
    for (;;) { /* ends: an entry that was read has all three */
        p = sft__base_json_read(&s->json, sft__base_json_blank(p + 1), &key);
        p = sft__base_json_blank(sft__base_json_blank(p) + 1);
        if (sft__base_json_is(&key, member, strlen(member))) {
            return p;
        }
        p = sft__base_json_blank(sft__base_json_value(&s->json, p, 2));
    }
}

/* ---------------------------------------------------------------- the canonical form */

static inline bool same8(const char *a, const char *b) {
    return memcmp(a, b, 8) == 0;
}

/* `F32"` and the like at p: the row, and *len bytes of it. Neighbours mostly share their type, so
 * the word seen last is compared first. */
static inline const sft_dtype *canonical_dtype(sft__format_scan *s, const char *p, size_t *len) {
    const uint64_t w = sft__base_load_le64(p);
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t q = w ^ (ones * '"');
    const uint64_t hit = (q - ones) & ~q & (ones << 7);

    if (SFT_LIKELY(((w ^ s->last_word) & s->last_mask) == 0 && s->last_mask != 0)) {
        *len = s->last_len;
        return s->last_dtype;
    }
    if (hit != 0) {
        const unsigned n = sft__base_ctz64(hit) / 8; /* 0 to 7 */
        *len = n;
        s->last_dtype =
            n == 0 ? NULL : sft__format_dtype_of_key(w & (UINT64_MAX >> (64 - 8 * n)), p, n);
        s->last_mask = s->last_dtype == NULL ? 0 : UINT64_MAX >> (56 - 8 * n);
        s->last_word = w;
        s->last_len = n;
        return s->last_dtype;
    }
    const char *const end = memchr(p + 8, '"', SFT__DTYPE_NAME_MAX + 1 - 8);
    if (end == NULL) {
        return NULL;
    }
    *len = (size_t)(end - p);
    return sft__format_dtype_of_key(w, p, *len);
}

/* Dimensions up to the ']', at most CANONICAL_RANK of them. */
enum { CANONICAL_RANK = 8 };

static inline const char *canonical_shape(sft__format_scan *s, const char *p,
                                          sft__format_scan_tensor *out) {
    uint64_t *const shape = s->dims;
    uint32_t rank = 0;

    if (SFT_UNLIKELY(s->dims_end - shape < CANONICAL_RANK)) {
        return NULL; /* the general form makes room */
    }
    if (*p != ']') {
        do {
            p = rank < CANONICAL_RANK ? sft__base_json_uint_short(p, &shape[rank]) : NULL;
            if (p == NULL) {
                return NULL;
            }
            rank++;
        } while (*p++ == ',');
        p--;
    }
    out->shape = shape;
    out->rank = rank;
    return p;
}

const char *sft__format_scan_canonical(sft__format_scan *s, const char *p,
                                       sft__format_scan_tensor *out) {
    size_t len;

    /* Every read lies below p + 64: a mismatch, at the latest with the zeros behind the text, comes
     * first. */
    if (!same8(p, "\":{\"dtyp") || memcmp(p + 8, "e\":\"", 4) != 0) {
        return NULL;
    }
    p += 12;
    out->dtype = canonical_dtype(s, p, &len);
    if (out->dtype == NULL) {
        return NULL;
    }
    p += len;
    if (!same8(p, "\",\"shape") || memcmp(p + 8, "\":[", 3) != 0) {
        return NULL;
    }
    p = canonical_shape(s, p + 11, out);
    if (p == NULL || out->rank > s->rank_limit) {
        return NULL;
    }
    if (!same8(p, "],\"data_") || !same8(p + 8, "offsets\"") || memcmp(p + 16, ":[", 2) != 0) {
        return NULL;
    }
    p = sft__base_json_uint_short(p + 18, &out->begin);
    if (p == NULL || *p != ',') {
        return NULL;
    }
    p = sft__base_json_uint_short(p + 1, &out->end);
    if (p == NULL || p[0] != ']' || p[1] != '}') {
        return NULL;
    }
    s->dims += out->rank;
    return p + 2;
}
