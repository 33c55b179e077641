/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/source.c - configurations that are Python and are executed as such: the cfg of
 * mmengine's checkpoints. Assignments of values do nothing: names, texts, numbers, operators, and
 * calls of the few types that such values are made by, whose names stand for nothing else. Read
 * first: settings.h.
 */
#include "import/content/letters.h"
#include "import/settings/settings.h"

typedef struct reading {
    const char *p;
    const char *end;
    const char *name; /* the token before, if it is a name that could be called */
    size_t name_len;
    bool value;      /* the token before is a value */
    char sign;       /* the token before, if it is a sign */
    const char *key; /* "key=", "'key':" */
    size_t key_len;
    uint32_t verdict;
} reading;

static void worse(reading *r, uint32_t verdict) {
    r->verdict = verdict > r->verdict ? verdict : r->verdict;
}

/* The end of a text that begins with its quote, and *text, *len within; NULL: it has none. */
static const char *text_end(const char *p, const char *end, const char **text, size_t *len) {
    const bool three = end - p >= 3 && p[1] == p[0] && p[2] == p[0];
    const size_t n = three ? 3 : 1;

    for (const char *q = p + n; q < end; q++) {
        if (*q == '\\') {
            q++;
        } else if (*q == '\n' && !three) {
            return NULL;
        } else if (*q == *p && (!three || (end - q >= 3 && q[1] == *p && q[2] == *p))) {
            *text = p + n;
            *len = (size_t)(q - *text);
            return q + n;
        }
    }
    return NULL;
}

/* Behind "key=" or "'key':" the text is a value of it. */
static bool take_text(reading *r) {
    const char *sentence;
    const char *text;
    size_t len;
    const char *next = text_end(r->p, r->end, &text, &len);

    if (next == NULL) {
        return false;
    }
    if (r->key != NULL && (r->sign == '=' || r->sign == ':')) {
        worse(r, sft__import_content_target(r->key, r->key_len, text, len, false, &sentence));
    } else {
        r->key = text;
        r->key_len = len;
    }
    r->p = next;
    r->name = NULL;
    r->value = true;
    r->sign = '\0';
    return true;
}

static bool take_name(reading *r) {
    static const char *const types[] = {"dict", "list", "tuple", "set",   "int",
                                        "str",  "bool", "float", "range", NULL};
    static const char *const plain[] = {"in", "if", "else", "and", "or", "not", "is", NULL};
    static const char *const acts[] = {
        "import", "from",     "lambda", "def",   "class",          "with",   "while", "del",
        "for",    "global",   "assert", "raise", "async",          "await",  "yield", "try",
        "match",  "nonlocal", "return", "exec",  "custom_imports", "_base_", "print", NULL};
    const char *p = r->p;

    while (r->p < r->end && (is_letter(*r->p) || sft__base_is_digit(*r->p))) {
        r->p++;
    }
    const size_t len = (size_t)(r->p - p);
    if (r->p < r->end && (*r->p == '\'' || *r->p == '"')) { /* r'...' */
        return len <= 2 && memchr(p, 'f', len) == NULL && memchr(p, 'F', len) == NULL &&
               memchr(p, 't', len) == NULL && memchr(p, 'T', len) == NULL;
    }
    const char *q = r->p;
    while (q < r->end && (*q == ' ' || *q == '\t')) {
        q++;
    }
    const bool type = sft__import_text_is_one(p, len, types);
    if (sft__import_text_is_one(p, len, acts) || sft__import_text_starts(p, len, "__") ||
        (type && (q == r->end || *q != '(' || r->sign == '.'))) {
        return false;
    }
    const bool word = sft__import_text_is_one(p, len, plain);
    r->name = type ? p : NULL;
    r->name_len = len;
    r->value = !word;
    r->key = word ? r->key : p;
    r->key_len = word ? r->key_len : len;
    r->sign = '\0';
    return true;
}

static bool take_sign(reading *r) {
    const char c = *r->p++;

    if (c == '(' && r->value && r->name == NULL) {
        return false; /* a call */
    }
    if (c == '#') {
        while (r->p < r->end && *r->p != '\n') {
            r->p++;
        }
        return true;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\\') {
        return true;
    }
    if (c == '\n' && r->sign != '(') {
        r->value = false; /* or within brackets, where a "(" would call what stands before */
        return r->p == r->end || *r->p != '(';
    }
    r->key = c == '=' || c == ':' ? r->key : NULL;
    r->name = NULL;
    r->value = c == ')' || c == ']' || c == '}';
    r->sign = c;
    return c == '\n' || strchr("()[]{},=:.+-*/%<>!|&~^;", c) != NULL;
}

uint32_t sft__import_setting_source(const char *text, size_t len) {
    reading r = {.p = text, .end = text + len, .verdict = SFT_SCAN_HARMLESS};

    while (r.p < r.end) {
        const char c = *r.p;
        const bool good = c == '\'' || c == '"'                   ? take_text(&r)
                          : is_letter(c) || sft__base_is_digit(c) ? take_name(&r)
                                                                  : c != '\0' && take_sign(&r);
        if (!good) {
            return sft__import_setting_is_wild(text, len, true) ? SFT_SCAN_DANGEROUS
                                                                : SFT_SCAN_UNKNOWN;
        }
    }
    return r.verdict;
}
