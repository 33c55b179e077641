/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/yaml.c - YAML: tags that are none of its own, and what hydra and the like import
 * and call by a configuration's word. The text is not parsed: whatever form a key has (quoted, in a
 * flow, explicit, anchored, merged), its letters stand in the text, or in what the escapes of a
 * double-quoted one make of it. Read first: content.h.
 */
#include "import/content/content.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

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

static bool starts(const char *p, size_t len, const char *with) {
    const size_t n = strlen(with);
    return len >= n && memcmp(p, with, n) == 0;
}

static bool is_one_of(const char *p, size_t len, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], p, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool tag_python(const sft__content *c, size_t at, const char *tag, size_t len) {
    static const char *const plain[] = {"tuple", "str",  "unicode", "int",     "bool",
                                        "none",  "list", "dict",    "complex", "float",
                                        "bytes", "long", NULL};
    if (is_one_of(tag, len, plain)) {
        return true;
    }
    sft__content_find(c, SFT_SCAN_DANGEROUS, "yaml-tag", at, tag, len,
                      "a tag of YAML that names an object of Python: loaders make or call it");
    return false;
}

/* tag: behind the "!". True: it is one of YAML's own. */
static bool tag_is_plain(const sft__content *c, size_t at, const char *tag, size_t len) {
    static const char *const core[] = {"str",       "int",   "float", "bool",  "null",
                                       "map",       "seq",   "set",   "omap",  "binary",
                                       "timestamp", "pairs", "merge", "value", NULL};
    static const char *const calls[] = {"new:", "apply:", "name:", "module:", "ref:", NULL};
    static const char uri[] = "<tag:yaml.org,2002:";
    uint32_t verdict = SFT_SCAN_UNKNOWN;

    if (starts(tag, len, "!") || starts(tag, len, uri)) {
        const size_t skip = tag[0] == '!' ? 1 : sizeof uri - 1;
        tag += skip;
        len -= skip;
        if (starts(tag, len, "python/")) {
            return tag_python(c, at, tag + 7, len - 7);
        }
        if (is_one_of(tag, len, core)) {
            return true;
        }
    } else if (starts(tag, len, "python/")) {
        return tag_python(c, at, tag + 7, len - 7);
    }
    for (size_t i = 0; calls[i] != NULL; i++) {
        const size_t n = strlen(calls[i]);
        if (starts(tag, len, calls[i]) && i < 4) {
            verdict = sft__content_dotted(tag + n, len - n);
        }
    }
    sft__content_find(c, verdict, "yaml-tag", at, tag, len,
                      "a tag of YAML that is none of its own: what it makes, the loader decides");
    return false;
}

/* ---------------------------------------------------------------- keys that name code */

/* What loaders import and call if a configuration has the key: hydra, Lightning, torchtune. */
const char *const sft__content_targets[] = {"_target_", "class_path", "_component_", NULL};

/* The longest name of a key, and what stands between it and its value. */
static const char *value_of(const char *p, const char *end) {
    const char *q = p;

    while (q < end && (is_blank(*q) || *q == '"' || *q == '\'')) {
        q++;
    }
    if (q == end || *q != ':') {
        return NULL;
    }
    for (q++; q < end && (*q == ' ' || *q == '\t' || *q == '"' || *q == '\''); q++) {
    }
    return q;
}

static bool is_dotted(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_' || ch == '.' || (ch & 0x80) != 0;
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
            dots && q - p < 256 ? sft__content_dotted(p, (size_t)(q - p)) : SFT_SCAN_UNKNOWN;
        worst = v > worst ? v : worst;
        p = q + 1;
    }
    return worst;
}

/* base: of the text in the content; SIZE_MAX: it was decoded. */
static bool find_keys(const sft__content *c, const char *text, size_t len, size_t base) {
    const char *end = text + len;
    uint32_t worst = 0; /* looked for once */
    bool good = true;

    for (size_t k = 0; sft__content_targets[k] != NULL; k++) {
        const size_t n = strlen(sft__content_targets[k]);
        const char *p = text;
        while ((size_t)(end - p) >= n && !sft__content_is_tired(c)) {
            p = memchr(p, sft__content_targets[k][0], (size_t)(end - p));
            if (p == NULL || !starts(p, (size_t)(end - p), sft__content_targets[k])) {
                p = p != NULL ? p + 1 : end;
                continue;
            }
            const char *q = value_of(p + n, end);
            const size_t word = q != NULL ? word_len(q, end) : 0;
            const char *subject = word != 0 ? q : p;
            const bool plain = word != 0 && *q != '*' && *q != '&' && *q != '!' && *q != '|' &&
                               *q != '>' && memchr(q, '\\', word) == NULL;
            worst = worst == 0 && !plain ? worst_name(text, end) : worst;
            sft__content_find(c, plain ? sft__content_dotted(q, word) : worst, "config-target",
                              base != SIZE_MAX ? base + (size_t)(subject - text) : 0, subject,
                              word != 0 ? word : n,
                              "what hydra, Lightning or torchtune would import and call");
            good = false;
            p += n;
        }
    }
    return good;
}

static const char *find_word(const char *p, const char *end, const char *word) {
    const size_t n = strlen(word);

    while ((size_t)(end - p) >= n) {
        p = memchr(p, word[0], (size_t)(end - p) - n + 1);
        if (p == NULL || memcmp(p, word, n) == 0) {
            return p;
        }
        p++;
    }
    return NULL;
}

/* "target: os.system", as latent diffusion's loaders read it: an everyday word, so that only names count that
 * no configuration has for another reason. */
static bool find_targets(const sft__content *c) {
    const char *const text = (const char *)c->data;
    const char *const end = text + c->len;
    bool good = true;

    for (const char *p = text; (p = find_word(p, end, "target")) != NULL && !sft__content_is_tired(c);) {
        p += sizeof "target" - 1;
        const char *q = value_of(p, end);
        const char *stop = q != NULL && end - q > 256 ? q + 256 : end; /* names are shorter */
        const size_t word = q != NULL ? word_len(q, stop) : 0;
        if (word != 0 && sft__content_dotted(q, word) == SFT_SCAN_DANGEROUS) {
            sft__content_find(c, SFT_SCAN_DANGEROUS, "config-target", (size_t)(q - text), q, word,
                              "what latent diffusion's loaders would import and call");
            good = false;
        }
    }
    return good;
}

/* ---------------------------------------------------------------- double-quoted escapes */

static unsigned hex_of(char c) {
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
           : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                  : 16;
}

/* What \xHH, \uHHHH and \UHHHHHHHH stand for, below 128; 0: none of those. */
static char escaped(const char *p, const char *end, size_t *used) {
    const size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    uint64_t value = 0;

    if (digits == 0 || (size_t)(end - p) <= digits) {
        return 0;
    }
    for (size_t i = 1; i <= digits; i++) {
        if (hex_of(p[i]) == 16) {
            return 0;
        }
        value = value << 4 | hex_of(p[i]);
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
        }
    }
    return n;
}

static bool escaped_keys(const sft__content *c) {
    const char *text = (const char *)c->data;
    bool any = false;

    if (c->len == 0 || memchr(text, '\\', c->len) == NULL) {
        return true;
    }
    char *out = sft__alloc(c->job->allocator, c->len);
    if (out == NULL) {
        c->state->status = sft__fail_nomem(c->state->err, c->len);
        return false;
    }
    const size_t n = unescape(out, text, text + c->len, &any);
    const bool good = find_keys(c, out, n, SIZE_MAX);
    sft__free(c->job->allocator, out, c->len);
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
static bool tags(const sft__content *c) {
    const char *text = (const char *)c->data;
    const char *end = text + c->len;
    bool good = true;

    for (const char *p = text; p < end && !sft__content_is_tired(c); p++) {
        if (*p == '!' && p + 1 < end && !is_blank(p[1]) && p[1] != '=' && begins_behind(text, p)) {
            const size_t n = word_len(p + 1, end);
            good = (n == 0 || tag_is_plain(c, (size_t)(p - text), p + 1, n)) && good;
        }
        if (*p == '%' && begins_behind(text, p) && starts(p, (size_t)(end - p), "%TAG")) {
            sft__content_find(c, SFT_SCAN_UNKNOWN, "yaml-tag", (size_t)(p - text), "%TAG", 4,
                              "gives tags of YAML other names");
            good = false;
        }
    }
    return good;
}

/* A template among the values that reaches into the interpreter. Which program renders it is not known, so it
 * is not read as chat templates are. */
static bool templates(const sft__content *c) {
    static const char *const words[] = {"__globals__", "__subclasses__", "__import__",
                                        "__builtins__", "__mro__", "__class__"};
    const char *text = (const char *)c->data;
    const char *end = text + c->len;

    if (find_word(text, end, "{{") == NULL && find_word(text, end, "{%") == NULL) {
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *at = find_word(text, end, words[i]);
        if (at != NULL) {
            sft__content_find(c, SFT_SCAN_DANGEROUS, "template", (size_t)(at - text), at,
                              strlen(words[i]), "a template that reaches into the interpreter");
            return false;
        }
    }
    return true;
}

bool sft__content_yaml(const sft__content *c) {
    const bool plain = tags(c);
    const bool named = find_keys(c, (const char *)c->data, c->len, 0);
    const bool aimed = find_targets(c);
    const bool quiet = templates(c);
    return escaped_keys(c) && plain && named && aimed && quiet;
}
