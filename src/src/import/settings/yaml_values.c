/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/yaml_values.c - the values of YAML and TOML, one by one: plain ones to the end of
 * their line, quoted ones to their quote, blocks to the line that is indented no further, those in
 * brackets to the comma. Not parsed in full: the nearest key is the value's, which for lists within
 * lists is the key that a loader has, too. Read first: settings.h.
 */
#include "import/settings/settings.h"

enum { KEY_MOST = 128 };

typedef struct walking {
    const sft__import_content *c;
    const char *text;
    const char *end;
    const char *p;
    size_t base;
    char sign; /* of a pair: ':' or '=' */
    const char *key;
    size_t key_len;
    unsigned kinds;   /* of the key */
    unsigned aliased; /* kinds of the keys whose values are aliases */
    unsigned through; /* the same, of a walk before this one: of values with an anchor */
    bool anchored;
    unsigned depth; /* of brackets */
    bool listed;
    bool good;
} walking;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_space(char c) {
    return is_blank(c) || c == '\n';
}

static void judge(walking *w, const char *value, size_t len) {
    const unsigned kinds = w->kinds | (w->anchored ? w->through : 0);
    const sft__import_setting s = {kinds, value, len, w->listed || w->depth != 0};
    sft__import_setting_said said = {"", ""};

    uint32_t verdict = sft__import_setting_judge(&s, &said);
    const bool named = w->anchored && (w->through & SFT__KEY_NAMES_CODE) != 0;
    if (verdict == SFT_SCAN_HARMLESS &&
        (w->depth != 0 || named)) { /* find_pairs() does not see these */
        verdict = sft__import_content_target(named ? "cls" : w->key, named ? 3 : w->key_len, value,
                                             len, true, &said.sentence);
        said.rule = "config-target";
    }
    if (verdict != SFT_SCAN_HARMLESS) {
        const size_t shown = len < 160 ? len : 160;
        sft__import_content_find(w->c, verdict, said.rule,
                                 w->base == SIZE_MAX ? 0 : w->base + (size_t)(value - w->text),
                                 value, shown, said.sentence);
        w->good = false;
    }
}

static void take_key(walking *w, const char *key, size_t len) {
    len = len < KEY_MOST ? len : KEY_MOST;
    if (len != w->key_len || memcmp(key, w->key, len) != 0) {
        w->kinds = sft__import_setting_key(key, len);
    }
    w->key = key;
    w->key_len = len;
    w->anchored = false;
}

static const char *line_end(const walking *w, const char *p) {
    const char *q = memchr(p, '\n', (size_t)(w->end - p));
    return q != NULL ? q : w->end;
}

/* p at a quote: its text is judged, unless it is a key. Behind the closing one. */
static const char *take_quoted(walking *w, const char *p) {
    const char quote = *p;
    const bool wide = w->end - p >= 3 && p[1] == quote && p[2] == quote; /* TOML; or nothing */
    const char *begin = p + (wide ? 3 : 1);
    const char *q = begin;

    while (q < w->end) {
        if (*q == '\\' && quote == '"' && q + 1 < w->end) {
            q += 2;
            continue;
        }
        if (*q == quote && (!wide || (w->end - q >= 3 && q[1] == quote && q[2] == quote))) {
            if (wide || quote == '"' || q + 1 == w->end || q[1] != quote) {
                break;
            }
            q++; /* '' stands for one */
        }
        q++;
    }
    const char *stop = q < w->end ? q : w->end;
    q = q < w->end ? q + (wide ? 3 : 1) : w->end;
    const char *r = q;
    while (r < w->end && is_blank(*r)) {
        r++;
    }
    if (r < w->end && *r == w->sign &&
        (r + 1 == w->end || is_space(r[1]) || w->depth != 0 || w->sign == '=')) {
        take_key(w, begin, (size_t)(stop - begin));
        return r + 1;
    }
    judge(w, begin, (size_t)(stop - begin));
    return q;
}

/* Does a pair's sign stand at p? */
static bool is_sign(const walking *w, const char *p) {
    return *p == w->sign &&
           (w->sign == '=' || p + 1 == w->end || is_space(p[1]) ||
            (w->depth != 0 && (p[1] == '"' || p[1] == '\'' || p[1] == '[' || p[1] == '{')));
}

/* A plain word or words: a key, or a value. Behind it. */
static const char *take_plain(walking *w, const char *p) {
    const char *begin = p;

    while (p < w->end && *p != '\n' && !is_sign(w, p) &&
           !(w->depth != 0 && memchr(",[]{}", *p, 5) != NULL) &&
           !(*p == '#' && p > begin && is_blank(p[-1]))) {
        p++;
    }
    const char *stop = p;
    while (stop > begin && is_blank(stop[-1])) {
        stop--;
    }
    const size_t n = (size_t)(stop - begin);
    if (p < w->end && is_sign(w, p)) {
        take_key(w, begin, n);
        return p + 1;
    }
    if (p < w->end && *p == '#') {
        p = line_end(w, p);
    }
    if (n != 0 && *begin == '*' && w->sign == ':') {
        w->aliased |= w->kinds;
    } else {
        judge(w, begin, n);
    }
    return p > begin ? p : begin + 1;
}

static size_t indent_of(const char *p, const char *end) {
    size_t n = 0;
    while (p + n < end && (p[n] == ' ' || p[n] == '\t')) {
        n++;
    }
    return n;
}

/* p behind "|" or ">": the lines that are indented further than `indent`. Behind them. */
static const char *take_block(walking *w, const char *p, size_t indent) {
    p = line_end(w, p);
    const char *begin = p < w->end ? p + 1 : p;
    const char *q = begin;

    while (q < w->end) {
        const char *stop = line_end(w, q);
        const size_t n = indent_of(q, stop);
        if (q + n < stop && q[n] != '\r' && n <= indent) {
            break;
        }
        q = stop < w->end ? stop + 1 : stop;
    }
    judge(w, begin, (size_t)(q - begin));
    return q;
}

/* Is it the mark of a block, with nothing but its signs behind it? */
static bool is_block(const walking *w, const char *p) {
    if (w->depth != 0 || w->sign == '=' || (*p != '|' && *p != '>')) {
        return false;
    }
    for (p++; p < w->end && *p != '\n'; p++) {
        if (*p == '#') {
            return true;
        }
        if (!is_blank(*p) && *p != '-' && *p != '+' && !(*p >= '0' && *p <= '9')) {
            return false;
        }
    }
    return true;
}

static const char *take_bracket(walking *w, const char *p) {
    if (*p == '[' || *p == '{') {
        w->depth++;
    } else {
        w->depth -= w->depth != 0;
    }
    return p + 1;
}

/* [table] of TOML */
static bool is_table(const walking *w, const char *p) {
    return w->sign == '=' && w->depth == 0 && *p == '[' && (p == w->text || p[-1] == '\n');
}

static const char *step(walking *w, const char *p, size_t *indent) {
    if (*p == '\n') {
        p++;
        w->listed = false;
        *indent = indent_of(p, w->end);
        return p + *indent;
    }
    if (is_blank(*p) || (w->depth != 0 && *p == ',')) {
        return p + 1;
    }
    if (*p == '#' || is_table(w, p)) {
        return line_end(w, p);
    }
    if ((*p == '-' || *p == '?') && w->depth == 0 && p + 1 < w->end && is_space(p[1])) {
        w->listed = w->listed || *p == '-';
        return p + 1;
    }
    if (*p == '"' || *p == '\'') {
        return take_quoted(w, p);
    }
    if (memchr("[]{}", *p, 4) != NULL) {
        return take_bracket(w, p);
    }
    if (is_block(w, p)) {
        p = take_block(w, p, *indent);
        *indent = indent_of(p, w->end);
        return p;
    }
    if (*p == '&' || *p == '!') { /* an anchor, a tag */
        w->anchored = w->anchored || *p == '&';
        while (p < w->end && !is_space(*p)) {
            p++;
        }
        return p;
    }
    return take_plain(w, p);
}

static void walk(walking *w) {
    size_t indent = indent_of(w->text, w->end);

    w->p = w->text;
    while (w->p < w->end && !sft__import_content_is_tired(w->c)) {
        w->p = step(w, w->p, &indent);
    }
}

/* What an alias stands for is judged by the alias's key, too. */
static bool walk_all(const sft__import_content *c, const char *text, size_t len, size_t base,
                     char sign) {
    walking w = {.c = c, .text = text, .end = text + len, .base = base, .sign = sign, .key = ""};

    w.good = true;
    walk(&w);
    if (w.aliased != 0) {
        walking again = {
            .c = c, .text = text, .end = text + len, .base = base, .sign = sign, .key = ""};
        again.through = w.aliased;
        again.good = w.good;
        walk(&again);
        return again.good;
    }
    return w.good;
}

/* The line without what stands behind " #". */
static const char *before_comment(const char *p, const char *stop) {
    for (const char *q = p; q < stop; q++) {
        if (*q == '#' && (q == p || is_blank(q[-1]))) {
            return q;
        }
    }
    return stop;
}

/* What lines and quotes do not tell: words that no text but code has, outside of comments. */
static bool find_wild(const sft__import_content *c, const char *text, size_t len, size_t base) {
    const char *end = text + len;

    if (!sft__import_setting_is_wild(text, len, true)) {
        return true;
    }
    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop != NULL ? stop : end;
        const size_t n = (size_t)(before_comment(p, stop) - p);
        if (sft__import_setting_is_wild(p, n, true)) {
            sft__import_content_find(c, SFT_SCAN_UNKNOWN, "config-code",
                                     base == SIZE_MAX ? 0 : base + (size_t)(p - text), p,
                                     n < 160 ? n : 160, "words of Python that runs something");
            return false;
        }
        p = stop < end ? stop + 1 : end;
    }
    return true;
}

bool sft__import_setting_yaml(const sft__import_content *c, const char *text, size_t len,
                              size_t base) {
    const bool toml = sft__import_content_is_toml(c->name);
    return walk_all(c, text, len, base, toml ? '=' : ':') && find_wild(c, text, len, base);
}
