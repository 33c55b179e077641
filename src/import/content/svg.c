/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/svg.c - SVG that only draws: elements and attributes on a list, references to
 * itself and to images in base64 alone, no entities but XML's five, no declarations. Everything
 * else may run a script in some browser, and makes the file unknown. Read first: content.h.
 */
#include "base/text/buf.h"
#include "import/content/content.h"
#include "import/content/letters.h"

enum { NAME_MOST = 64 };

typedef struct svg_in {
    const sft__import_content *c;
    const char *p;
    const char *end;
    const char *why;
    const char *at;
    bool style; /* within <style> */
} svg_in;

/* Elements that draw, by their names without a prefix, and those of descriptions. */
/* clang-format off */
static const char *const elements[] = {
    "svg", "a", "g", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text",
    "tspan", "textPath", "defs", "use", "symbol", "clipPath", "mask", "pattern", "linearGradient",
    "radialGradient", "stop", "title", "desc", "metadata", "image", "marker", "filter", "style",
    "switch", "view", "feBlend", "feColorMatrix", "feComponentTransfer", "feComposite",
    "feConvolveMatrix", "feDiffuseLighting", "feDisplacementMap", "feDistantLight", "feDropShadow",
    "feFlood", "feFuncA", "feFuncB", "feFuncG", "feFuncR", "feGaussianBlur", "feMerge",
    "feMergeNode", "feMorphology", "feOffset", "fePointLight", "feSpecularLighting", "feSpotLight",
    "feTile", "feTurbulence", "RDF", "Work", "format", "type", "date", "creator", "Agent",
    "publisher", "license", "License", "permits", "requires", "prohibits", "rights", "Bag", "Seq",
    "li", "subject", "description", "language", "namedview", "grid", "page", "path-effect",
    "perspective", "source", "identifier", "coverage", "contributor", NULL};
/* clang-format on */

static bool fail(svg_in *s, const char *at, const char *why) {
    s->why = why;
    s->at = at;
    return false;
}

static bool is_name(char c) {
    return is_word(c) || c == '-' || c == '.' || c == ':';
}

/* A name of XML in letters of ASCII; *local: behind its prefix. */
static size_t take_name(svg_in *s, const char **local, size_t *len) {
    const char *from = s->p;

    while (s->p < s->end && is_name(*s->p)) {
        s->p++;
    }
    *local = from;
    for (const char *p = from; p < s->p; p++) {
        *local = *p == ':' ? p + 1 : *local;
    }
    *len = (size_t)(s->p - *local);
    return (size_t)(s->p - from);
}

static bool begins(const svg_in *s, const char *word) {
    return sft__import_text_starts(s->p, (size_t)(s->end - s->p), word);
}

/* CSS and attributes: nothing but colours, lengths and references to the image itself. */
static bool check_value(svg_in *s, const char *p, const char *end) {
    static const char *const bad[] = {"script",       "@import", "expression", "behavior",
                                      "-moz-binding", "\\",      "image-set(", "src("};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (sft__import_text_find(p, end, bad[i]) != NULL) {
            return fail(s, p, "a style or an attribute that can become a script");
        }
    }
    for (const char *q = sft__import_text_find(p, end, "url("); q != NULL;
         q = sft__import_text_find(q + 4, end, "url(")) {
        const char *v = q + 4;
        while (v < end && (is_blank(*v) || *v == '"' || *v == '\'')) {
            v++;
        }
        if (v == end || *v != '#') {
            return fail(s, q, "refers to something outside of the image");
        }
    }
    return true;
}

/* "&#117;", "&#x75;": a letter, or a sign that addresses and styles have, that had no need of it.
 */
static bool is_hidden(const char *p, const char *stop) {
    const bool hex = p < stop && (*p | 0x20) == 'x';
    uint32_t value = 0;

    for (p += hex; p < stop && value < 0x80; p++) {
        const int digit = sft__base_hex_value(*p);
        if (digit < 0) {
            break; /* where some readers stop as well */
        }
        value = value * (hex ? 16 : 10) + (uint32_t)digit;
    }
    return (value >= '0' && value <= ':') || (value >= 'A' && value <= 'Z') ||
           (value >= 'a' && value <= 'z') || value == '(' || value == ')' || value == '/' ||
           value == '\\';
}

/* Only XML's own entities, and none where a reference is. */
static bool check_entities(svg_in *s, const char *p, const char *end, bool value) {
    static const char *const own[] = {"amp", "lt", "gt", "quot", "apos", NULL};

    for (const char *q = memchr(p, '&', (size_t)(end - p)); q != NULL;
         q = memchr(q + 1, '&', (size_t)(end - q - 1))) {
        const char *stop = memchr(q, ';', (size_t)(end - q));
        if (stop == NULL ||
            (q[1] != '#' && !sft__import_text_is_one(q + 1, (size_t)(stop - q - 1), own))) {
            return fail(s, q, "an entity that is none of XML's own");
        }
        if (value && q[1] == '#' && is_hidden(q + 2, stop)) {
            return fail(s, q, "letters that are written as numbers");
        }
    }
    return true;
}

/* "#part", or an image of pixels in base64. */
static bool check_reference(svg_in *s, const char *p, const char *end) {
    static const char *const images[] = {"data:image/png;base64,",  "data:image/jpeg;base64,",
                                         "data:image/jpg;base64,",  "data:image/gif;base64,",
                                         "data:image/webp;base64,", NULL};

    if (memchr(p, '&', (size_t)(end - p)) != NULL) {
        return fail(s, p, "a reference in other letters");
    }
    if (p == end || *p == '#') {
        return true;
    }
    if (sft__import_text_starts_one(p, (size_t)(end - p), images)) {
        return true;
    }
    return fail(s, p, "refers to something outside of the image");
}

static bool take_attribute(svg_in *s) {
    const char *from = s->p;
    const char *local;
    size_t len;

    if (take_name(s, &local, &len) == 0) {
        return fail(s, from, "no XML");
    }
    while (s->p < s->end && is_blank(*s->p)) {
        s->p++;
    }
    if (s->p == s->end || *s->p != '=') {
        return fail(s, from, "no XML");
    }
    for (s->p++; s->p < s->end && is_blank(*s->p); s->p++) {
    }
    const char quote = s->p < s->end ? *s->p : 0;
    const char *value = s->p + 1;
    const char *stop =
        quote == '"' || quote == '\'' ? memchr(value, quote, (size_t)(s->end - value)) : NULL;
    if (stop == NULL || memchr(value, '<', (size_t)(stop - value)) != NULL) {
        return fail(s, from, "no XML");
    }
    s->p = stop + 1;
    if (len >= 2 && (local[0] | 0x20) == 'o' && (local[1] | 0x20) == 'n') {
        return fail(s, from, "an attribute that is a script");
    }
    if (len == 4 && (memcmp(local, "href", 4) == 0 || memcmp(local, "base", 4) == 0)) {
        return check_reference(s, value, stop);
    }
    if (len == 5 && memcmp(local, "style", 5) == 0 &&
        memchr(value, '&', (size_t)(stop - value)) != NULL) {
        return fail(s, from, "a style in other letters");
    }
    return check_entities(s, value, stop, true) && check_value(s, value, stop);
}

/* Behind '<'. */
static bool take_tag(svg_in *s, bool *root) {
    const char *from = s->p;
    const bool closing = *s->p == '/';
    const char *local;
    size_t len;

    s->p += closing;
    if (take_name(s, &local, &len) == 0 || !sft__import_text_is_one(local, len, elements)) {
        return fail(s, from, "an element that does more than to draw, or that is not known here");
    }
    if (!*root && (closing || len != 3 || memcmp(local, "svg", 3) != 0)) {
        return fail(s, from, "no image");
    }
    *root = true;
    s->style = !closing && len == 5 && memcmp(local, "style", 5) == 0;
    for (;;) {
        while (s->p < s->end && is_blank(*s->p)) {
            s->p++;
        }
        if (s->p < s->end && *s->p == '>') {
            s->p++;
            return true;
        }
        if (begins(s, "/>") && !closing) {
            s->p += 2;
            s->style = false;
            return true;
        }
        if (closing || s->p == s->end || !take_attribute(s)) {
            return s->why != NULL ? false : fail(s, from, "no XML");
        }
    }
}

/* Skips from an opening to its end. */
static bool skip(svg_in *s, const char *close) {
    const char *stop = sft__import_text_find(s->p, s->end, close);

    if (stop == NULL) {
        return fail(s, s->p, "no XML");
    }
    s->p = stop + strlen(close);
    return true;
}

/* <!DOCTYPE svg PUBLIC "..." "..."> without declarations, comments, <?xml ...?>, CDATA in a style.
 */
static bool take_special(svg_in *s) {
    const char *from = s->p;

    if (begins(s, "<!--")) {
        s->p += 4;
        return skip(s, "-->");
    }
    if (begins(s, "<?xml ")) {
        return skip(s, "?>") && (sft__import_text_find(from, s->p, "encoding") == NULL ||
                                 sft__import_text_find(from, s->p, "utf-8") != NULL ||
                                 sft__import_text_find(from, s->p, "ascii") != NULL ||
                                 sft__import_text_find(from, s->p, "iso-8859-1") != NULL ||
                                 fail(s, from, "other letters than those of UTF-8"));
    }
    if (begins(s, "<![CDATA[")) {
        if (!skip(s, "]]>")) {
            return false;
        }
        return check_value(s, from, s->p);
    }
    if (begins(s, "<!DOCTYPE svg")) {
        if (!skip(s, ">")) {
            return false;
        }
        return memchr(from, '[', (size_t)(s->p - from)) == NULL ||
               fail(s, from, "declarations of its own");
    }
    return fail(s, from, "an instruction or a declaration");
}

static bool take_all(svg_in *s) {
    bool root = false;

    while (s->p < s->end) {
        const char *tag = memchr(s->p, '<', (size_t)(s->end - s->p));
        const char *stop = tag != NULL ? tag : s->end;
        if (!check_entities(s, s->p, stop, false) || (s->style && !check_value(s, s->p, stop))) {
            return false;
        }
        if (s->style && memchr(s->p, '&', (size_t)(stop - s->p)) != NULL) {
            return fail(s, s->p, "a style in other letters");
        }
        s->p = stop;
        if (tag == NULL) {
            break;
        }
        if (s->end - s->p >= 2 && (s->p[1] == '!' || s->p[1] == '?')) {
            if (!take_special(s)) {
                return false;
            }
            continue;
        }
        s->p++;
        if (s->p == s->end || !take_tag(s, &root)) {
            return s->why != NULL ? false : fail(s, tag, "no XML");
        }
    }
    return root || fail(s, s->p, "no image");
}

bool sft__import_content_svg(const sft__import_content *c) {
    svg_in s = {.c = c, .p = (const char *)c->data, .end = (const char *)c->data + c->len};

    if (c->len > SFT__CONTENT_SVG) {
        sft__import_content_say(c, SFT_SCAN_UNKNOWN, "svg", "too long to be looked through");
        return false;
    }
    s.p += c->len >= 3 && memcmp(s.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (take_all(&s)) {
        return true;
    }
    const char *text = (const char *)c->data;
    const size_t at = (size_t)(s.at - text);
    size_t n = 0;
    while (at + n < c->len && n < NAME_MOST && !is_blank(s.at[n]) && s.at[n] != '>') {
        n++;
    }
    sft__import_content_find(c, SFT_SCAN_UNKNOWN, "svg", at, (sft__import_span){s.at, n}, s.why);
    return false;
}
