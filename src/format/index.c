/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/index.c - the index of a model in several files: {"metadata": {"total_size": n},
 * "weight_map": {tensor: file}}. Strict JSON as for headers; unknown members are skipped but
 * checked. Opens nothing: file names are only looked at as text. Offsets in errors are positions in
 * the index text.
 */
#include "format/index.h"
#include "base/checked.h"
#include "base/text/utf8.h"
#include "format/scan.h"

enum { MAX_SHARD_NAME = 4096 };

typedef struct parser {
    sft__format_scan scan; /* its text is a copy with zeros behind it, in the arena */
    sft__format_index *index;
    size_t capacity;
    bool seen_map;
    uint64_t name_limit;
    uint64_t tensor_limit;
} parser;

/* ---------------------------------------------------------------- weight_map */

static bool make_room(parser *ps) {
    sft__format_index *const x = ps->index;
    const size_t old = ps->capacity;
    if (x->entry_count < old) {
        return true;
    }
    if (!sft__base_grow(x->arena.allocator, &x->entries, &ps->capacity, old + 1,
                        sizeof *x->entries)) {
        return sft__format_scan_no_room(&ps->scan, old * 2 * sizeof *x->entries) != NULL;
    }
    x->entry_capacity = ps->capacity;
    return true;
}

static const char *read_pair(parser *ps, const char *p) {
    sft__format_index *const x = ps->index;
    sft__format_scan *const s = &ps->scan;
    const char *const at = p;
    sft__base_json_str name;
    sft__format_index_entry *e;

    p = sft__format_scan_key(s, p, &name, "expected a tensor name in quotes",
                             "expected ':' behind a tensor name");
    if (p == NULL) {
        return NULL;
    }
    if (x->entry_count >= ps->tensor_limit) {
        return SFT__SCAN_FAIL(s, SFT_E_LIMIT, at, "index: more than %llu tensors",
                              (unsigned long long)ps->tensor_limit);
    }
    if (!make_room(ps)) {
        return NULL;
    }
    e = &x->entries[x->entry_count];
    e->offset = (uint64_t)(at - s->text);
    e->name = sft__format_scan_keep(s, &name, &e->name_len);
    if (e->name == NULL) {
        return NULL;
    }
    if (e->name_len > ps->name_limit) {
        return SFT__SCAN_FAIL(s, SFT_E_LIMIT, at, "index: tensor name of %llu bytes",
                              (unsigned long long)e->name_len);
    }
    if (*p != '"') {
        return sft__format_scan_expected(s, SFT_E_INDEX, p, "file of a tensor must be a string");
    }
    p = sft__format_scan_string(s, p, &e->file, &e->file_len);
    x->entry_count += p != NULL ? 1 : 0;
    return p;
}

/* The members of one object, p at its '{': each is read by `member`, p at its name. */
static SFT_NOINLINE const char *read_object(parser *ps, const char *p,
                                            const char *(*member)(parser *ps, const char *p)) {
    bool more;
    for (p = sft__base_json_first(p, '}', &more); p != NULL && more;) {
        p = sft__format_scan_next(&ps->scan, member(ps, p), '}', "expected ',' or '}'", &more);
    }
    return p;
}

/* ---------------------------------------------------------------- the other members */

/* p at a member's name: the name and the position of the value. */
static const char *read_name(parser *ps, const char *p, sft__base_json_str *name) {
    return sft__format_scan_key(&ps->scan, p, name, "expected a member name in quotes",
                                "expected ':' behind a member name");
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
    if (sft__base_json_is(&name, "total_size", 10) && sft__base_is_digit(*p)) {
        p = sft__base_json_number(&ps->scan.json, p, &number);
        if (p == NULL) {
            return sft__format_scan_json_fault(&ps->scan);
        }
        ps->index->has_total_size = number.is_uint;
        ps->index->total_size = number.is_uint ? number.value : 0;
        return p;
    }
    return sft__format_scan_value(&ps->scan, p, 2);
}

static const char *top_member(parser *ps, const char *p) {
    sft__format_scan *const s = &ps->scan;
    const char *const at = p;
    sft__base_json_str name;

    p = read_name(ps, p, &name);
    if (p == NULL) {
        return NULL;
    }
    if (sft__base_json_is(&name, "weight_map", 10)) {
        if (ps->seen_map) {
            return SFT__SCAN_FAIL(s, SFT_E_DUPLICATE, at, "index: weight_map given twice");
        }
        ps->seen_map = true;
        return *p == '{'
                   ? read_object(ps, p, read_pair)
                   : sft__format_scan_expected(s, SFT_E_INDEX, p, "weight_map must be an object");
    }
    if (sft__base_json_is(&name, "metadata", 8) && *p == '{') {
        return read_object(ps, p, metadata_member);
    }
    return sft__format_scan_value(s, p, 1);
}

static bool read_text(parser *ps, size_t len) {
    sft__format_scan *const s = &ps->scan;
    const size_t valid = sft__base_utf8_valid(s->text, len);
    const char *p = sft__base_json_blank(s->text);

    if (valid != len) {
        (void)SFT__SCAN_FAIL(s, SFT_E_UTF8, s->text + valid, "index is not valid UTF-8");
    } else if (*p != '{') {
        (void)sft__format_scan_expected(s, *p == '[' || *p == '"' ? SFT_E_INDEX : SFT_E_JSON, p,
                                        "must be a JSON object");
    } else if ((p = read_object(ps, p, top_member)) != NULL) {
        p = sft__base_json_blank(p);
        if (p < s->json.end) {
            (void)sft__format_scan_expected(s, SFT_E_JSON, p,
                                            "expected nothing but blanks behind the object");
        } else if (!ps->seen_map) {
            (void)SFT__SCAN_FAIL(s, SFT_E_INDEX, s->text, "index has no weight_map");
        }
    }
    return s->status == SFT_OK;
}

static bool index_names(parser *ps) {
    sft__format_index *const x = ps->index;
    if (!sft__base_strmap_init(&x->names, x->entries, sizeof *x->entries, x->entry_count,
                               x->arena.allocator)) {
        return sft__format_scan_no_room(&ps->scan, x->entry_count * 2 * sizeof *x->names.slots) !=
               NULL;
    }
    for (size_t i = 0; i < x->entry_count; i++) {
        if (sft__base_strmap_add(&x->names, i) != SFT__STRMAP_NONE) {
            const sft__format_index_entry *const e = &x->entries[i];
            ps->scan.name = e->name;
            ps->scan.name_len = e->name_len;
            return SFT__SCAN_FAIL(&ps->scan, SFT_E_DUPLICATE, ps->scan.text + e->offset,
                                  "index: tensor given twice") != NULL;
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
    ps.scan.err = err;
    ps.scan.arena = &out->arena;
    ps.scan.noun = "index";
    ps.scan.prefix = "index: ";
    ps.name_limit = limits != NULL && limits->name_bytes != 0 ? limits->name_bytes : UINT64_MAX;
    ps.tensor_limit = limits != NULL && limits->tensors != 0 ? limits->tensors : UINT32_MAX / 2;
    if (!sft__base_add_size(len, SFT__JSON_SLACK, &room) ||
        (ps.scan.text = sft__base_arena_alloc(&out->arena, room, 1)) == NULL) {
        (void)sft__format_scan_no_room(&ps.scan, len);
        sft__format_index_reset(out);
        return ps.scan.status;
    }
    if (len != 0) {
        memcpy(ps.scan.text, text, len);
    }
    memset(ps.scan.text + len, 0, SFT__JSON_SLACK);
    ps.scan.json.end = ps.scan.text + len;
    if (!read_text(&ps, len) || !index_names(&ps)) {
        sft__format_index_reset(out);
        return ps.scan.status;
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
        const bool digit = stem == 4 && sft__base_is_digit(s[3]);
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
