/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/exported.c - what a program exported by torch.export (model.json of a .pt2) keeps
 * as texts that are evaluated or name modules: expressions of sizes (expr_str), guards
 * (guards_code, which ExportedProgram.module() executes) and the specifications of trees (in_spec,
 * out_spec), JSON in texts, whose modules torch.export.load() imports. Read first: content.h.
 */
#include "base/text/buf.h"
#include "import/content/content.h"
#include "import/content/letters.h"

/* ---------------------------------------------------------------- expressions */

/* s0, u12, zuf3: a letter or a few, and a number. */
static bool is_symbol(const char *name, size_t len) {
    size_t n = 0;

    while (n < len && n < 4 && name[n] >= 'a' && name[n] <= 'z') {
        n++;
    }
    for (size_t i = n; i < len; i++) {
        if (!sft__base_is_digit(name[i])) {
            return false;
        }
    }
    return n > 0 && n < len;
}

static bool is_function(const char *name, size_t len) {
    /* clang-format off */
    static const char *const names[] = {
        "FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt",
        "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv",
        "IntTrueDiv", "TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat",
        "Identity", "Min", "Max", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "Pow",
        "Add", "Mul", "Integer", "Float", "Rational", "oo", "int_oo", "True", "False", "floor",
        "ceiling", "Abs", "sqrt", "Symbol", "positive", "nonnegative", "negative", "integer",
        "real", "finite", "nonzero", "zero", "even", "odd", "Piecewise", "true", "false",
        "IsNonOverlappingAndDenseIndicator"};
    /* clang-format on */

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) {
            return true;
        }
    }
    return len > 15 && memcmp(name, "OpaqueUnaryFn_", 14) == 0;
}

uint32_t sft__import_content_expression(const char *text, size_t len) {
    static const char signs[] = " +-*/%(),.<>=!&|~'";
    bool known = true;

    if (sft__import_text_has(text, len, "__")) {
        return SFT_SCAN_DANGEROUS;
    }
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && (is_letter(text[i + n]) || sft__base_is_digit(text[i + n]))) {
            n++;
        }
        if (n == 0) {
            known = known && text[i] != '\0' && strchr(signs, text[i]) != NULL;
            n = 1;
        } else if (!sft__base_is_digit(text[i])) {
            known = known && (is_symbol(text + i, n) || is_function(text + i, n));
        }
        i += n;
    }
    return known ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
}

/* ---------------------------------------------------------------- guards */

/* Where a guard is being read. */
typedef struct guard {
    const char *p;
    const char *end;
    bool input;  /* of an input: L, and what is looked up in it */
    bool dot;    /* the token before was a "." behind a value */
    bool value;  /* the token before ends a value: "(" would call it */
    bool called; /* the token before is a function: "(" may follow */
    bool known;
} guard;

static void guard_name(guard *g, const char *name, size_t n) {
    static const char *const words[] = {"and", "or", "not", "if", "else", "is", "in", NULL};
    static const char *const values[] = {"None", "inf", "nan", "pi", "e", NULL};
    static const char *const functions[] = {
        "size", "stride", "storage_offset", "dim", "numel", "isnan", "isinf", "floor",
        "ceil", "trunc",  "sqrt",           "log", "log2",  "exp",   "pow",   "fabs",
        "int",  "float",  "bool",           "abs", "round", "max",   "min",   "len",
        NULL};
    static const char *const roots[] = {"L", "math", NULL};
    const bool opens = g->p < g->end && *g->p == '(';

    g->called = sft__import_text_is_one(name, n, functions) || (!g->dot && is_function(name, n));
    if (sft__import_text_is_one(name, n, words) && !g->dot) {
        g->value = g->called = g->input = false;
        return;
    }
    if (g->dot) { /* a field of an input, which is not called */
        const bool field = g->input && name[0] != '_' && !opens;
        g->known = g->known && (g->called || sft__import_text_is_one(name, n, values) || field);
    } else {
        g->input = n == 1 && *name == 'L';
        g->known = g->known && (g->called || sft__import_text_is_one(name, n, roots) ||
                                sft__import_text_is_one(name, n, values) || is_symbol(name, n));
    }
    g->value = !g->called;
    g->dot = false;
}

/* A text: no quote that would end the sentence that PyTorch writes the guard into, no escape. */
static void guard_text(guard *g) {
    const char *q = memchr(g->p, '\'', (size_t)(g->end - g->p));
    const size_t n = q != NULL ? (size_t)(q - g->p) : 0;

    g->known = g->known && q != NULL && memchr(g->p, '"', n) == NULL &&
               memchr(g->p, '\\', n) == NULL && memchr(g->p, '\n', n) == NULL;
    g->p = q != NULL ? q + 1 : g->end;
    g->value = true;
    g->called = g->dot = false;
}

static void guard_sign(guard *g, char c) {
    static const char signs[] = "+-*/%(),.<>=!&|~[]";

    g->known = g->known && c != '\0' && strchr(signs, c) != NULL &&
               !(c == '(' && g->value && !g->called); /* a call of what was looked up */
    g->dot = c == '.';
    g->input = g->input && (c == '.' || c == '[' || c == ']' || c == '(' || c == ')');
    g->value = c == ')' || c == ']';
    g->called = false;
}

uint32_t sft__import_content_guard(const char *text, size_t len) {
    guard g = {.p = text, .end = text + len, .known = true};

    if (sft__import_text_has(text, len, "__")) {
        return SFT_SCAN_DANGEROUS;
    }
    while (g.p < g.end && g.known) {
        const char *p = g.p;
        const char c = *g.p++;
        if (c == ' ') {
            continue;
        }
        if (c == '\'') {
            guard_text(&g);
            continue;
        }
        if (!is_letter(c) && !sft__base_is_digit(c)) {
            guard_sign(&g, c);
            continue;
        }
        while (g.p < g.end && (is_letter(*g.p) || sft__base_is_digit(*g.p) ||
                               (sft__base_is_digit(c) && *g.p == '.'))) {
            g.p++;
        }
        if (is_letter(c)) {
            guard_name(&g, p, (size_t)(g.p - p));
        } else {
            g.value = true; /* a number, or no Python at all */
            g.called = g.dot = false;
        }
    }
    return g.known ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
}

/* ---------------------------------------------------------------- specifications of trees */

enum { TEXTS_MOST = 16 /* within one another */ };

/* The byte that \uXXXX at p (behind the backslash) stands for; -1: none, or no ASCII. */
static int ascii_of(const char *p, const char *end) {
    int v = 0;

    if (end - p < 5 || *p != 'u') {
        return -1;
    }
    for (int i = 1; i < 5; i++) {
        const int h = sft__base_hex_value(p[i]);
        if (h < 0) {
            return -1;
        }
        v = v * 16 + h;
    }
    return v < 0x80 ? v : -1;
}

/* Takes one level of escapes away, in place; *any: there were some. */
static size_t unescape(char *text, size_t len, bool *any) {
    const char *end = text + len;
    char *out = text;

    *any = false;
    for (const char *p = text; p < end;) {
        if (*p != '\\' || p + 1 == end) {
            *out++ = *p++;
            continue;
        }
        const int ascii = ascii_of(++p, end);
        *any = true;
        if (ascii >= 0) {
            *out++ = (char)ascii;
            p += 5;
        } else {
            *out++ = memchr("nrtbf", *p, 5) != NULL ? ' ' : *p;
            p++;
        }
    }
    return (size_t)(out - text);
}

/* The value of the next "word": "value" from *at on; moves *at behind it. */
static bool next_value(const char **at, const char *end, const char *word, const char **value,
                       size_t *len) {
    const size_t n = strlen(word);
    const char *p = *at;

    while ((size_t)(end - p) > n && (p = memchr(p, word[0], (size_t)(end - p) - n)) != NULL) {
        const bool here = memcmp(p, word, n) == 0;
        p += here ? n : 1;
        if (!here) {
            continue;
        }
        while (p < end && memchr(" \t\r\n:", *p, 5) != NULL) {
            p++;
        }
        if (p == end || *p != '"') {
            continue;
        }
        const char *q = memchr(p + 1, '"', (size_t)(end - p) - 1);
        *value = p + 1;
        *len = (size_t)((q != NULL ? q : end) - *value);
        *at = q != NULL ? q + 1 : end;
        return true;
    }
    return false;
}

static uint32_t worse(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* What makes the values of a defaultdict. */
uint32_t sft__import_content_factory(const char *text, size_t len, bool module) {
    static const char *const modules[] = {"builtins", "collections", NULL};
    static const char *const names[] = {"list",      "dict",    "set",   "int",       "float",
                                        "str",       "bool",    "tuple", "bytes",     "complex",
                                        "frozenset", "Counter", "deque", "bytearray", "OrderedDict",
                                        "object",    NULL};

    if (sft__import_text_is_one(text, len, module ? modules : names)) {
        return SFT_SCAN_HARMLESS;
    }
    return module ? worse(SFT_SCAN_UNKNOWN, sft__import_content_global(text, len, "x", 1))
                  : SFT_SCAN_UNKNOWN;
}

/* A member of an enumeration: "module:Class". */
static uint32_t enumeration(const char *text, size_t len) {
    const char *colon = memchr(text, ':', len);
    const size_t n = colon != NULL ? (size_t)(colon - text) : len;

    return colon != NULL ? sft__import_content_global(text, n, colon + 1, len - n - 1)
                         : worse(SFT_SCAN_UNKNOWN, sft__import_content_global(text, n, "x", 1));
}

static uint32_t judge_tree(const char *text, size_t len) {
    const char *end = text + len;
    const char *value;
    size_t n;
    uint32_t verdict = SFT_SCAN_HARMLESS;

    for (const char *p = text; next_value(&p, end, "\"default_factory_module\"", &value, &n);) {
        verdict = worse(verdict, sft__import_content_factory(value, n, true));
    }
    for (const char *p = text; next_value(&p, end, "\"default_factory_name\"", &value, &n);) {
        verdict = worse(verdict, sft__import_content_factory(value, n, false));
    }
    if (sft__import_text_has(text, len, "\"__enum__\"")) {
        for (const char *p = text; next_value(&p, end, "\"fqn\"", &value, &n);) {
            verdict = worse(verdict, enumeration(value, n));
        }
    }
    return verdict;
}

uint32_t sft__import_content_tree(const sft_allocator *a, const char *text, size_t len) {
    const char *end = text + len;
    uint32_t verdict = SFT_SCAN_HARMLESS;
    bool any = true;

    while (text < end && memchr(" \t\r\n", *text, 4) != NULL) {
        text++;
    }
    if (end - text < 12 || (*text != '{' && *text != '[')) {
        return verdict;
    }
    len = (size_t)(end - text);
    if (!sft__import_text_has(text, len, "default_factory") &&
        !sft__import_text_has(text, len, "__enum__") && !sft__import_text_has(text, len, "\\u00")) {
        return verdict;
    }
    char *room = sft__base_alloc(a, len);
    if (room == NULL) {
        return SFT_SCAN_UNKNOWN;
    }
    memcpy(room, text, len);
    size_t n = len;
    for (unsigned i = 0; any && i < TEXTS_MOST; i++) {
        n = unescape(room, n, &any);
    }
    verdict = judge_tree(room, n);
    if (any && memchr(room, '\\', n) != NULL) {
        verdict =
            worse(verdict, SFT_SCAN_UNKNOWN); /* texts within texts, deeper than programs write */
    }
    sft__base_free(a, room, len);
    return verdict;
}
