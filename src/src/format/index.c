/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/index.c - the index of a model in several files: {"metadata": {"total_size": n},
 * "weight_map": {tensor: file}}. Strict JSON as for headers; unknown members are skipped but
 * checked. Opens nothing: file names are only looked at as text. Offsets in errors are positions in
 * the index text.
 */
#include "format/index.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

enum { MAX_SHARD_NAME = 4096 };

typedef struct parser {
    sft__base_json json;
    char *text; /* a copy with zeros behind it, in the arena */
    sft__format_index *index;
    sft_error *err;
    sft_status status;
    size_t capacity;
    bool seen_map;
    uint64_t name_limit;
    uint64_t tensor_limit;
} parser;

/* ---------------------------------------------------------------- failures */

#define FAIL(ps, code, at, ...)                                                                    \
    ((ps)->status =                                                                                \
         sft__base_fail_at((ps)->err, (code), (uint64_t)((at) - (ps)->text), __VA_ARGS__),         \
     (const char *)NULL)

static const char *expected(parser *ps, sft_status status, const char *at, const char *needed) {
    const uint8_t c = (uint8_t)*at;
    if (at >= ps->json.end) {
        return FAIL(ps, status, at, "index: %s, found the end of the text", needed);
    }
    if (c < 0x20 || c >= 0x7f) {
        return FAIL(ps, status, at, "index: %s, found byte %u", needed, c);
    }
    return FAIL(ps, status, at, "index: %s, found '%c'", needed, c);
}

static const char *json_fault(parser *ps) {
    if (ps->json.fault_expected) {
        return expected(ps, SFT_E_JSON, ps->json.fault_at, ps->json.fault);
    }
    return FAIL(ps, SFT_E_JSON, ps->json.fault_at, "index: %s", ps->json.fault);
}

static bool no_room(parser *ps, size_t size) {
    ps->status =
        ps->index->arena.over_budget
            ? sft__base_fail(ps->err, SFT_E_LIMIT, "index needs more memory than the limit allows")
            : sft__base_fail_nomem(ps->err, size);
    return false;
}

/* ---------------------------------------------------------------- weight_map */

static const char *take_string(parser *ps, const char *p, const char **text, size_t *len) {
    sft__base_json_str s;
    p = sft__base_json_read(&ps->json, p, &s);
    if (p == NULL) {
        return json_fault(ps);
    }
    *text = sft__base_json_keep(&ps->index->arena, ps->text + (s.raw - ps->text), &s, len);
    if (*text == NULL) {
        (void)no_room(ps, s.len + 1);
        return NULL;
    }
    return p;
}

static bool make_room(parser *ps) {
    sft__format_index *const x = ps->index;
    const size_t old = ps->capacity;
    if (x->entry_count < old) {
        return true;
    }
    if (!sft__base_grow(x->arena.allocator, &x->entries, &ps->capacity, old + 1,
                        sizeof *x->entries)) {
        return no_room(ps, old * 2 * sizeof *x->entries);
    }
    x->entry_capacity = ps->capacity;
    return true;
}

static const char *read_pair(parser *ps, const char *p) {
    sft__format_index *const x = ps->index;
    sft__format_index_entry *e;

    if (*p != '"') {
        return expected(ps, SFT_E_JSON, p, "expected a tensor name in quotes");
    }
    if (x->entry_count >= ps->tensor_limit) {
        return FAIL(ps, SFT_E_LIMIT, p, "index: more than %llu tensors",
                    (unsigned long long)ps->tensor_limit);
    }
    if (!make_room(ps)) {
        return NULL;
    }
    e = &x->entries[x->entry_count];
    e->offset = (uint64_t)(p - ps->text);
    p = take_string(ps, p, &e->name, &e->name_len);
    if (p == NULL) {
        return NULL;
    }
    if (e->name_len > ps->name_limit) {
        return FAIL(ps, SFT_E_LIMIT, ps->text + e->offset, "index: tensor name of %llu bytes",
                    (unsigned long long)e->name_len);
    }
    p = sft__base_json_blank(p);
    if (*p != ':') {
        return expected(ps, SFT_E_JSON, p, "expected ':' behind a tensor name");
    }
    p = sft__base_json_blank(p + 1);
    if (*p != '"') {
        return expected(ps, SFT_E_INDEX, p, "file of a tensor must be a string");
    }
    p = take_string(ps, p, &e->file, &e->file_len);
    x->entry_count += p != NULL ? 1 : 0;
    return p;
}

/* The members of one object, p at its '{': each is read by `member`, p at its name. */
static const char *read_object(parser *ps, const char *p,
                               const char *(*member)(parser *ps, const char *p)) {
    bool more;
    p = sft__base_json_blank(p + 1);
    more = *p != '}';
    while (more) {
        p = member(ps, p);
        if (p == NULL) {
            return NULL;
        }
        p = sft__base_json_blank(p);
        more = *p == ',';
        if (more) {
            p = sft__base_json_blank(p + 1);
        } else if (*p != '}') {
            return expected(ps, SFT_E_JSON, p, "expected ',' or '}'");
        }
    }
    return p + 1;
}

/* ---------------------------------------------------------------- the other members */

/* p at a member's name: the name and the position of the value. */
static const char *read_name(parser *ps, const char *p, sft__base_json_str *name) {
    if (*p != '"') {
        return expected(ps, SFT_E_JSON, p, "expected a member name in quotes");
    }
    p = sft__base_json_read(&ps->json, p, name);
    if (p == NULL) {
        return json_fault(ps);
    }
    p = sft__base_json_blank(p);
    if (*p != ':') {
        return expected(ps, SFT_E_JSON, p, "expected ':' behind a member name");
    }
    return sft__base_json_blank(p + 1);
}

static const char *skip_value(parser *ps, const char *p, unsigned depth) {
    p = sft__base_json_value(&ps->json, p, depth);
    return p != NULL ? p : json_fault(ps);
}

/* A member of "metadata". Only a plain integer counts as total_size; some writers put floats there.
 */
static const char *metadata_member(parser *ps, const char *p) {
    sft__base_json_str name;
    sft__base_json_num number;

    p = read_name(ps, p, &name);
    if (p == NULL) {
        return NULL;
    }
    if (sft__base_json_is(&name, "total_size", 10) && *p >= '0' && *p <= '9') {
        p = sft__base_json_number(&ps->json, p, &number);
        if (p == NULL) {
            return json_fault(ps);
        }
        ps->index->has_total_size = number.is_uint;
        ps->index->total_size = number.is_uint ? number.value : 0;
        return p;
    }
    return skip_value(ps, p, 2);
}

static const char *top_member(parser *ps, const char *p) {
    const char *const at = p;
    sft__base_json_str name;

    p = read_name(ps, p, &name);
    if (p == NULL) {
        return NULL;
    }
    if (sft__base_json_is(&name, "weight_map", 10)) {
        if (ps->seen_map) {
            return FAIL(ps, SFT_E_DUPLICATE, at, "index: weight_map given twice");
        }
        ps->seen_map = true;
        return *p == '{' ? read_object(ps, p, read_pair)
                         : expected(ps, SFT_E_INDEX, p, "weight_map must be an object");
    }
    if (sft__base_json_is(&name, "metadata", 8) && *p == '{') {
        return read_object(ps, p, metadata_member);
    }
    return skip_value(ps, p, 1);
}

static bool read_text(parser *ps, size_t len) {
    const size_t valid = sft__base_utf8_valid(ps->text, len);
    const char *p = sft__base_json_blank(ps->text);

    if (valid != len) {
        return FAIL(ps, SFT_E_UTF8, ps->text + valid, "index is not valid UTF-8") != NULL;
    }
    if (*p != '{') {
        return expected(ps, *p == '[' || *p == '"' ? SFT_E_INDEX : SFT_E_JSON, p,
                        "must be a JSON object") != NULL;
    }
    p = read_object(ps, p, top_member);
    if (p == NULL) {
        return false;
    }
    p = sft__base_json_blank(p);
    if (p < ps->json.end) {
        return expected(ps, SFT_E_JSON, p, "expected nothing but blanks behind the object") != NULL;
    }
    if (!ps->seen_map) {
        return FAIL(ps, SFT_E_INDEX, ps->text, "index has no weight_map") != NULL;
    }
    return true;
}

static bool index_names(parser *ps) {
    sft__format_index *const x = ps->index;
    if (!sft__base_strmap_init(&x->names, x->entries, sizeof *x->entries, x->entry_count,
                               x->arena.allocator)) {
        return no_room(ps, x->entry_count * 2 * sizeof *x->names.slots);
    }
    for (size_t i = 0; i < x->entry_count; i++) {
        if (sft__base_strmap_add(&x->names, i) != SFT__STRMAP_NONE) {
            const sft__format_index_entry *const e = &x->entries[i];
            ps->status = sft__base_fail_tensor(ps->err, SFT_E_DUPLICATE, e->offset, e->name,
                                               e->name_len, "index: tensor given twice");
            return false;
        }
    }
    return true;
}

sft_status sft__format_index_parse(sft__format_index *out, const char *text, size_t len,
                                   const sft_open_options *options, sft_error *err) {
    const sft_limits *const limits = options != NULL ? options->limits : NULL;
    parser ps;
    size_t room;

    memset(out, 0, sizeof *out);
    memset(&ps, 0, sizeof ps);
    sft__base_arena_init(&out->arena, options != NULL ? options->allocator : NULL,
                         limits != NULL ? limits->memory_bytes : 0);
    ps.index = out;
    ps.err = err;
    ps.name_limit = limits != NULL && limits->name_bytes != 0 ? limits->name_bytes : UINT64_MAX;
    ps.tensor_limit = limits != NULL && limits->tensors != 0 ? limits->tensors : UINT32_MAX / 2;
    if (!sft__base_add_size(len, SFT__JSON_SLACK, &room) ||
        (ps.text = sft__base_arena_alloc(&out->arena, room, 1)) == NULL) {
        (void)no_room(&ps, len);
        sft__format_index_reset(out);
        return ps.status;
    }
    if (len != 0) {
        memcpy(ps.text, text, len);
    }
    memset(ps.text + len, 0, SFT__JSON_SLACK);
    ps.json.end = ps.text + len;
    if (!read_text(&ps, len) || !index_names(&ps)) {
        sft__format_index_reset(out);
        return ps.status;
    }
    return SFT_OK;
}

void sft__format_index_reset(sft__format_index *index) {
    const sft_allocator *const allocator = index->arena.allocator;
    if (allocator != NULL) {
        sft__base_free(allocator, index->entries, index->entry_capacity * sizeof *index->entries);
        sft__base_strmap_reset(&index->names);
        sft__base_arena_free(&index->arena);
    }
    memset(index, 0, sizeof *index);
}

/* ---------------------------------------------------------------- file names */

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_word(const char *s, size_t len, const char *word) {
    size_t i = 0;
    while (i < len && word[i] != '\0' && upper(s[i]) == word[i]) {
        i++;
    }
    return i == len && word[i] == '\0';
}

/* CON, NUL, COM1 and so on name devices on Windows, with any extension behind them. */
static bool is_device_name(const char *s, size_t len) {
    static const char *const words[] = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"};
    static const char *const ports[] = {"COM", "LPT"};
    size_t stem = 0;

    while (stem < len && s[stem] != '.') {
        stem++;
    }
    while (stem > 0 && s[stem - 1] == ' ') {
        stem--;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (same_word(s, stem, words[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < 2 && stem >= 4; i++) {
        /* a digit, or one of the superscripts 1, 2 and 3 (two bytes of UTF-8) */
        const bool digit = stem == 4 && s[3] >= '0' && s[3] <= '9';
        const bool super =
            stem == 5 && (uint8_t)s[3] == 0xc2 &&
            ((uint8_t)s[4] == 0xb9 || (uint8_t)s[4] == 0xb2 || (uint8_t)s[4] == 0xb3);
        if ((digit || super) && same_word(s, 3, ports[i])) {
            return true;
        }
    }
    return false;
}

static const char *component_fault(const char *s, size_t len) {
    if (len == 0) {
        return "has an empty component";
    }
    if ((len == 1 && s[0] == '.') || (len == 2 && s[0] == '.' && s[1] == '.')) {
        return "has a component . or ..";
    }
    for (size_t i = 0; i < len; i++) {
        if ((uint8_t)s[i] < 0x20 || s[i] == 0x7f) {
            return "holds a control character";
        }
        if (s[i] == '\\' || s[i] == ':') {
            return "holds a backslash or a colon";
        }
    }
    if (s[len - 1] == '.' || s[len - 1] == ' ') {
        return "has a component that ends in a dot or a blank";
    }
    return is_device_name(s, len) ? "is the name of a device on Windows" : NULL;
}

sft_status sft__format_shard_name_check(const char *file, size_t file_len, sft_error *err) {
    const char *fault = file_len == 0               ? "is empty"
                        : file_len > MAX_SHARD_NAME ? "is longer than 4096 bytes"
                        : file[0] == '/'            ? "is an absolute path"
                                                    : NULL;
    char shown[200];

    for (size_t at = 0; fault == NULL && at <= file_len;) {
        size_t end = at;
        while (end < file_len && file[end] != '/') {
            end++;
        }
        fault = component_fault(file + at, end - at);
        at = end + 1;
    }
    if (fault == NULL) {
        return SFT_OK;
    }
    (void)sft__base_escape(shown, sizeof shown, file, file_len);
    return sft__base_fail(err, SFT_E_PATH, "file name \"%s\" in the index %s", shown, fault);
}
