/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/yaml.c - YAML: tags that are none of its own, and what hydra and the like import
 * and call by a configuration's word. The text is not parsed: whatever form a key has (quoted, in a
 * flow, explicit, anchored, merged), its letters stand in the text, or in what the escapes of a
 * double-quoted one make of it. Read first: content.h.
 */
#include "base/text/buf.h"
#include "import/content/content.h"
#include "import/content/letters.h"
#include "import/settings/settings.h"

enum { BINARY_MOST = 1 << 20 };

static size_t word_len(const char *p, const char *end) {
    size_t n = 0;

    if (p < end && *p == '<') { /* a tag in full */
        while (p + n < end && p[n] != '>' && p[n] != '\n') {
            n++;
        }
        return n;
    }
    while (p + n < end && !is_blank(p[n]) && p[n] != ',' && p[n] != ']' && p[n] != '}' &&
           p[n] != '"' && p[n] != '\'' && p[n] != '#' && p[n] != '>') {
        n++;
    }
    return n;
}

static bool tag_python(const sft__import_content *c, size_t at, const char *tag, size_t len) {
    static const char *const plain[] = {"tuple", "str",  "unicode", "int",     "bool",
                                        "none",  "list", "dict",    "complex", "float",
                                        "bytes", "long", NULL};
    if (sft__import_text_is_one(tag, len, plain)) {
        return true;
    }
    sft__import_content_find(
        c, SFT_SCAN_DANGEROUS, "yaml-tag", at, (sft__import_span){tag, len},
        "a tag of YAML that names an object of Python: loaders make or call it");
    return false;
}

/* What follows !!binary: letters of base64, whatever stands among them. */
static void take_binary(const sft__import_content *c, const char *p) {
    const char *end = (const char *)c->data + c->len;
    const size_t left = (size_t)(end - p);

    sft__import_scan_string(c->job, c->state->part, p, left < BINARY_MOST ? left : BINARY_MOST,
                            false);
}

/* tag: behind the "!". True: it is one of YAML's own. */
static bool tag_is_plain(const sft__import_content *c, size_t at, const char *tag, size_t len) {
    static const char *const core[] = {"str",       "int",   "float", "bool",  "null",
                                       "map",       "seq",   "set",   "omap",  "binary",
                                       "timestamp", "pairs", "merge", "value", NULL};
    static const char *const calls[] = {"new:", "apply:", "name:", "module:", "ref:", NULL};
    static const char uri[] = "<tag:yaml.org,2002:";
    uint32_t verdict = SFT_SCAN_UNKNOWN;

    if (sft__import_text_starts(tag, len, "!") || sft__import_text_starts(tag, len, uri)) {
        const size_t skip = tag[0] == '!' ? 1 : sizeof uri - 1;
        tag += skip;
        len -= skip;
        if (sft__import_text_starts(tag, len, "python/")) {
            return tag_python(c, at, tag + 7, len - 7);
        }
        if (sft__import_text_is_one(tag, len, core)) {
            if (len == 6 && memcmp(tag, "binary", len) == 0) {
                take_binary(c, tag + len);
            }
            return true;
        }
    } else if (sft__import_text_starts(tag, len, "python/")) {
        return tag_python(c, at, tag + 7, len - 7);
    }
    for (size_t i = 0; calls[i] != NULL; i++) {
        const size_t n = strlen(calls[i]);
        if (sft__import_text_starts(tag, len, calls[i]) && i < 4) {
            verdict = sft__import_content_dotted(tag + n, len - n);
        }
    }
    sft__import_content_find(
        c, verdict, "yaml-tag", at, (sft__import_span){tag, len},
        "a tag of YAML that is none of its own: what it makes, the loader decides");
    return false;
}

/* ---------------------------------------------------------------- keys that name code */

/* The longest name of a key, and what stands between it and its value. */
static const char *value_of(const char *p, const char *end) {
    const char *q = p;

    while (q < end && (is_blank(*q) || *q == '"' || *q == '\'')) {
        q++;
    }
    if (q == end || (*q != ':' && *q != '=')) {
        return NULL;
    }
    for (q++; q < end && (*q == ' ' || *q == '\t' || *q == '"' || *q == '\''); q++) {
    }
    return q;
}

static bool is_dotted(char ch) {
    return is_letter(ch) || sft__base_is_digit(ch) || ch == '.';
}

enum { NAMES_MOST = 1 << 18 };

/* The worst of all dotted names of the text: where the key's value is not beside it. */
static uint32_t worst_name(const char *p, const char *end) {
    uint32_t worst = SFT_SCAN_UNKNOWN;
    size_t looked = 0;

    while (p < end && worst != SFT_SCAN_DANGEROUS && looked < NAMES_MOST) {
        const char *q = p;
        bool dots = false;
        while (q < end && is_dotted(*q)) {
            dots = dots || *q == '.';
            q++;
        }
        looked += dots;
        const uint32_t v =
            dots && q - p < 256 ? sft__import_content_dotted(p, (size_t)(q - p)) : SFT_SCAN_UNKNOWN;
        worst = v > worst ? v : worst;
        p = q + 1;
    }
    return worst;
}

/* Does nothing of its line stand before the key at p but marks, an anchor or a tag? */
static bool begins_key(const char *text, const char *p) {
    while (p > text && (p[-1] == ' ' || p[-1] == '\t' || p[-1] == '"' || p[-1] == '\'')) {
        p--;
    }
    if (p == text || memchr("\n\r{,?-.[]}", p[-1], 10) != NULL) {
        return true;
    }
    while (p > text && !is_blank(p[-1]) && p[-1] != '{' && p[-1] != ',') {
        p--;
    }
    return *p == '&' || *p == '!';
}

/* base: of the text in the content; SIZE_MAX: it was decoded. */
static bool find_keys(const sft__import_content *c, const char *text, size_t len, size_t base) {
    const char *end = text + len;
    uint32_t worst = 0; /* looked for once */
    bool good = true;

    for (size_t k = 0; sft__import_content_targets[k] != NULL; k++) {
        const size_t n = strlen(sft__import_content_targets[k]);
        const char *p = text;
        while ((size_t)(end - p) >= n && !sft__import_content_is_tired(c)) {
            p = memchr(p, sft__import_content_targets[k][0], (size_t)(end - p));
            if (p == NULL ||
                !sft__import_text_starts(p, (size_t)(end - p), sft__import_content_targets[k])) {
                p = p != NULL ? p + 1 : end;
                continue;
            }
            if ((p > text && is_dotted(p[-1])) || (p + n < end && is_dotted(p[n]))) {
                p++; /* within a longer word */
                continue;
            }
            const char *q = value_of(p + n, end);
            if (*p == '(' && (q == NULL || !begins_key(text, p))) {
                p++; /* "f ()" in a text */
                continue;
            }
            const size_t word = q != NULL ? word_len(q, end) : 0;
            const char *subject = word != 0 ? q : p;
            const bool plain = word != 0 && *q != '*' && *q != '&' && *q != '!' && *q != '|' &&
                               *q != '>' && memchr(q, '\\', word) == NULL;
            const char *sentence = "what a loader would import and call";
            worst = worst == 0 && !plain ? worst_name(text, end) : worst;
            const uint32_t verdict =
                plain ? sft__import_content_target(sft__import_content_targets[k], n, q, word,
                                                   false, &sentence)
                      : worst;
            if (verdict != SFT_SCAN_HARMLESS) {
                sft__import_content_find(c, verdict, "config-target",
                                         base != SIZE_MAX ? base + (size_t)(subject - text) : 0,
                                         (sft__import_span){subject, word != 0 ? word : n},
                                         sentence);
                good = false;
            }
            p += n;
        }
    }
    return good;
}

/* ---------------------------------------------------------------- keys and their values */

enum { KEY_MOST = 64, VALUE_MOST = 200, LINE_MOST = 1024 };

/* A key, before the colon at p: the word there, without quotes. */
static size_t key_before(const char *text, const char *p, const char **key) {
    const char *stop = p;

    while (stop > text && (is_blank(stop[-1]) || stop[-1] == '"' || stop[-1] == '\'') &&
           p - stop < KEY_MOST) {
        stop--;
    }
    const char *at = stop;
    while (at > text && stop - at < KEY_MOST && !is_blank(at[-1]) &&
           memchr("\"':={},[]", at[-1], 9) == NULL) {
        at--;
    }
    *key = at;
    return (size_t)(stop - at);
}

/* Behind what may stand before a value: blanks, also on the next lines, anchors, tags, the mark of
 * a block, quotes. NULL: an alias, or nothing. */
static const char *skip_to_value(const char *p, const char *end) {
    const char *stop = (size_t)(end - p) < VALUE_MOST ? end : p + VALUE_MOST;

    while (p < stop) {
        if (is_blank(*p) || *p == '"' || *p == '\'') {
            p++;
        } else if (*p == '&' || *p == '!' || *p == '|' || *p == '>') {
            while (p < stop && !is_blank(*p)) {
                p++;
            }
        } else if (*p == '-' && p + 1 < stop && is_blank(p[1])) {
            p += 2; /* the first of a list */
        } else {
            return *p == '*' ? NULL : p;
        }
    }
    return NULL;
}

/* A word that is all of a value. *dots: it is one with dots. */
static size_t plain_len(const char *p, const char *end, bool *dots) {
    size_t n = 0;

    *dots = false;
    while (p + n < end && n < VALUE_MOST && is_dotted(p[n])) {
        *dots = *dots || p[n] == '.';
        n++;
    }
    const char *q = p + n;
    while (q < end && (*q == ' ' || *q == '\t')) {
        q++;
    }
    return q == end || memchr("\"',]}#\r\n", *q, 8) != NULL ? n : 0;
}

/* One key with its value; where: of the value in the content, or 0. */
static bool check_pair(const sft__import_content *c, const char *key, size_t key_len,
                       const char *value, size_t len, size_t where) {
    const char *sentence;
    const uint32_t verdict =
        sft__import_content_target(key, key_len, value, len, key_len == 0, &sentence);

    if (verdict != SFT_SCAN_HARMLESS) {
        sft__import_content_find(c, verdict, "config-target", where, (sft__import_span){value, len},
                                 sentence);
        return false;
    }
    if (sft__import_content_trusts(key, key_len, value, len)) {
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "remote-code", where,
                                 (sft__import_span){key, key_len},
                                 "asks for code beside the model to be run");
        return false;
    }
    return true;
}

/* Behind the line at p: what follows "- " on the next one, or NULL. */
static const char *next_item(const char *p, const char *end) {
    end = (size_t)(end - p) < LINE_MOST ? end : p + LINE_MOST;
    p = memchr(p, '\n', (size_t)(end - p));
    while (p != NULL && p < end && is_blank(*p)) {
        p++;
    }
    if (p == NULL || end - p < 2 || *p != '-' || !is_blank(p[1])) {
        return NULL;
    }
    const char *line = memchr(p, '\n', (size_t)(end - p));
    if (memchr(p, ':', line != NULL ? (size_t)(line - p) : (size_t)(end - p)) != NULL) {
        return NULL; /* has keys of its own: each item is gone through once */
    }
    return skip_to_value(p + 1, end);
}

/* The values of one key: one, or those of a list. */
static bool check_values(const sft__import_content *c, const char *key, size_t key_len,
                         const char *value, const char *end, const char *base) {
    bool good = true;

    while (value != NULL && !sft__import_content_is_tired(c)) {
        bool dots;
        const size_t n = plain_len(value, end, &dots);
        if (n != 0 && (dots || *key == 't')) {
            good =
                check_pair(c, key, key_len, value, n, base != NULL ? (size_t)(value - base) : 0) &&
                good;
        }
        value = next_item(value + n, end);
    }
    return good;
}

/* Every "key: value", however quoted; values of the keys of find_keys() were looked at. */
static bool find_pairs(const sft__import_content *c, const char *text, size_t len, char sign,
                       bool in_place) {
    const char *end = text + len;
    bool good = true;

    for (const char *p = text;
         !sft__import_content_is_tired(c) && (p = memchr(p, sign, (size_t)(end - p))) != NULL;
         p++) {
        const char *key;
        const size_t key_len = key_before(text, p, &key);
        const char *value = key_len != 0 ? skip_to_value(p + 1, end) : NULL;
        if (key_len > 3 && sft__import_text_starts(key, key_len, "py/")) {
            bool dots;
            const size_t n = value != NULL ? plain_len(value, end, &dots) : 0;
            sft__import_content_find(
                c, n != 0 ? sft__import_content_dotted(value, n) : SFT_SCAN_UNKNOWN,
                "config-target", in_place ? (size_t)(key - text) : 0,
                (sft__import_span){key, key_len}, "an object that jsonpickle would make");
            good = false;
        } else if (value != NULL &&
                   !sft__import_text_is_one(key, key_len, sft__import_content_targets)) {
            good = check_values(c, key, key_len, value, end, in_place ? text : NULL) && good;
        }
    }
    return good;
}

/* ---------------------------------------------------------------- double-quoted escapes */

/* What \xHH, \uHHHH and \UHHHHHHHH stand for, below 128; 0: none of those. */
static char escaped(const char *p, const char *end, size_t *used) {
    const size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    uint64_t value = 0;

    if (digits == 0 || (size_t)(end - p) <= digits) {
        return 0;
    }
    for (size_t i = 1; i <= digits; i++) {
        const int digit = sft__base_hex_value(p[i]);
        if (digit < 0) {
            return 0;
        }
        value = value << 4 | (unsigned)digit;
    }
    *used = digits + 1;
    return value < 0x80 ? (char)value : 0;
}

/* All of the text as if it were double-quoted: escapes are what they stand for, a backslash joins
 * two lines. Returns its length; *any: there was an escape. */
static size_t unescape(char *out, const char *p, const char *end, bool *any) {
    size_t n = 0;

    while (p < end) {
        size_t used = 0;
        if (*p != '\\' || p + 1 == end) {
            out[n++] = *p++;
            continue;
        }
        *any = true;
        const char ch = escaped(p + 1, end, &used);
        if (ch != 0) {
            out[n++] = ch;
            p += 1 + used;
            continue;
        }
        p++;
        if (*p == '\n' || *p == '\r') {
            while (p < end && is_blank(*p)) {
                p++;
            }
        } else if (*p == 'n' || *p == 'r') { /* ends of lines to Python */
            out[n++] = '\n';
            p++;
        } else if (strchr("tfvbaeNLP_0", *p) != NULL) {
            out[n++] = ' ';
            p++;
        }
    }
    return n;
}

/* Which program renders a template among the values is not known, so it is not read as chat
 * templates are. */
static bool templates(const sft__import_content *c, const char *text, size_t len) {
    const uint32_t verdict = sft__import_content_rendered(c->job->allocator, text, len);

    if (verdict != SFT_SCAN_HARMLESS) {
        sft__import_content_say(c, verdict, "template",
                                verdict == SFT_SCAN_DANGEROUS
                                    ? "a template that reaches into the interpreter"
                                    : "a template with names that are computed");
    }
    return verdict == SFT_SCAN_HARMLESS;
}

static bool escaped_keys(const sft__import_content *c, char sign) {
    const char *text = (const char *)c->data;
    bool any = false;

    if (c->len == 0 || memchr(text, '\\', c->len) == NULL) {
        return true;
    }
    char *out = sft__base_alloc(c->job->allocator, c->len);
    if (out == NULL) {
        c->state->status = sft__base_fail_nomem(c->state->err, c->len);
        return false;
    }
    const size_t n = unescape(out, text, text + c->len, &any);
    bool good = find_keys(c, out, n, SIZE_MAX);
    good = find_pairs(c, out, n, sign, false) && good;
    good = sft__import_setting_yaml(c, out, n, SIZE_MAX) && good;
    good = templates(c, out, n) && good;
    good = sft__import_setting_keras(c, out, n, SIZE_MAX) && good;
    sft__import_scan_string(c->job, c->state->part, out, n, true); /* words of base64 among them */
    sft__base_free(c->job->allocator, out, c->len);
    return good;
}

/* ---------------------------------------------------------------- all of it */

/* Does something begin behind this, to a reader of YAML? Line ends of Unicode are line ends. */
static bool begins_behind(const char *text, const char *p) {
    const size_t before = (size_t)(p - text);

    return before == 0 || is_blank(p[-1]) || memchr("[{,:", p[-1], 4) != NULL ||
           (before >= 2 && memcmp(p - 2, "\xc2\x85", 2) == 0) ||
           (before >= 3 &&
            (memcmp(p - 3, "\xe2\x80\xa8", 3) == 0 || memcmp(p - 3, "\xe2\x80\xa9", 3) == 0 ||
             memcmp(p - 3, "\xef\xbb\xbf", 3) == 0));
}

/* Tags begin a word; in quoted or folded text one may be taken for such, which errs to the safe
 * side. */
static bool tags(const sft__import_content *c) {
    const char *text = (const char *)c->data;
    const char *end = text + c->len;
    bool good = true;

    for (const char *p = text; p < end && !sft__import_content_is_tired(c); p++) {
        if (*p == '!' && p + 1 < end && !is_blank(p[1]) && p[1] != '=' && begins_behind(text, p)) {
            const size_t n = word_len(p + 1, end);
            good = (n == 0 || tag_is_plain(c, (size_t)(p - text), p + 1, n)) && good;
        }
        if (*p == '%' && begins_behind(text, p) &&
            sft__import_text_starts(p, (size_t)(end - p), "%TAG")) {
            sft__import_content_find(c, SFT_SCAN_UNKNOWN, "yaml-tag", (size_t)(p - text),
                                     (sft__import_span){"%TAG", 4},
                                     "gives tags of YAML other names");
            good = false;
        }
    }
    return good;
}

static bool is_too_long(const sft__import_content *c) {
    if (c->len > SFT__CONTENT_YAML) {
        sft__import_content_say(c, SFT_SCAN_UNKNOWN, "text",
                                "more YAML or TOML than is looked through");
    }
    return c->len > SFT__CONTENT_YAML;
}

bool sft__import_content_yaml(const sft__import_content *c) {
    if (is_too_long(c)) {
        return false;
    }
    const bool plain = tags(c);
    const bool named = find_keys(c, (const char *)c->data, c->len, 0);
    const bool aimed = find_pairs(c, (const char *)c->data, c->len, ':', true);
    const bool quiet = templates(c, (const char *)c->data, c->len);
    const bool valued = sft__import_setting_yaml(c, (const char *)c->data, c->len, 0);
    const bool layered = sft__import_setting_keras(c, (const char *)c->data, c->len, 0);
    const bool packed =
        !sft__import_setting_is_requirements(c->name) || sft__import_setting_requirements(c);
    return escaped_keys(c, ':') && plain && named && aimed && quiet && valued && layered && packed;
}

/* TOML has no tags. */
bool sft__import_content_toml(const sft__import_content *c) {
    const char *text = (const char *)c->data;

    if (is_too_long(c)) {
        return false;
    }
    const bool named = find_keys(c, text, c->len, 0);
    const bool aimed = find_pairs(c, text, c->len, '=', true);
    const bool quiet = templates(c, (const char *)c->data, c->len);
    return escaped_keys(c, '=') && sft__import_setting_yaml(c, text, c->len, 0) && named && aimed &&
           quiet;
}
