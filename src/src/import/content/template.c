/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/template.c - chat templates. They are rendered by Jinja, in a sandbox or not,
 * wherever a model is used, so a template is harmless only if it reaches for nothing but its
 * variables: names with underscores about them, attributes by computed names, functions and filters
 * that are not on a list, other templates, and texts that are put together out of pieces and then
 * used as a name are findings. Read first: values.h.
 */
#include "base/text/buf.h"
#include "import/content/values.h"

enum { NAME_KEPT = 48, FINDINGS = 32 };

typedef struct checking {
    const sft__import_content *c;
    const char *subject;
    size_t subject_len;
    size_t at; /* of the template in the content; it may be escaped there */
    unsigned found;
    sft__import_jinja_values values;
} checking;

/* ---------------------------------------------------------------- lists */

static const char *const statements[] = {
    "if",      "elif",      "else",       "endif",         "for",   "endfor",
    "set",     "endset",    "macro",      "endmacro",      "break", "continue",
    "filter",  "endfilter", "generation", "endgeneration", "raw",   "with",
    "endwith", "do",        "call",       "endcall",       NULL};

static const char *const functions[] = {
    "namespace", "raise_exception", "range", "strftime_now", "caller", "loop", NULL};

static const char *const filters[] = {
    "abs",      "batch",   "capitalize", "center",    "count",     "d",           "default",
    "dictsort", "e",       "escape",     "first",     "float",     "forceescape", "format",
    "groupby",  "indent",  "int",        "items",     "join",      "last",        "length",
    "list",     "lower",   "map",        "max",       "min",       "reject",      "rejectattr",
    "replace",  "reverse", "round",      "safe",      "select",    "selectattr",  "slice",
    "sort",     "string",  "striptags",  "sum",       "title",     "tojson",      "trim",
    "truncate", "unique",  "upper",      "urlencode", "wordcount", "wordwrap",    "from_json",
    "split",    "keys",    "values",     NULL};

static const char *const methods[] = {
    "get",          "split",        "strip",     "lstrip",     "rstrip",  "items",  "endswith",
    "startswith",   "replace",      "pop",       "capitalize", "append",  "upper",  "lower",
    "title",        "keys",         "values",    "join",       "count",   "index",  "find",
    "rfind",        "isdigit",      "isalpha",   "isspace",    "isupper", "rsplit", "splitlines",
    "removeprefix", "removesuffix", "insert",    "extend",     "update",  "cycle",  "partition",
    "rpartition",   "copy",         "isnumeric", NULL};

/* Attributes by which objects of Python lead to their interpreter. */
static const char *const leading_out[] = {
    "mro",         "func_globals", "func_code",  "func_defaults", "func_closure", "gi_frame",
    "gi_code",     "gi_yieldfrom", "cr_frame",   "cr_code",       "ag_frame",     "ag_code",
    "f_globals",   "f_locals",     "f_builtins", "f_back",        "f_code",       "tb_frame",
    "tb_next",     "co_code",      "co_consts",  "im_func",       "im_self",      "im_class",
    "environment", "format_map",   "globals",    "builtins",      "subclasses",   "getattr",
    "popen",       "subprocess",   "eval",       "exec",          "importlib",    "getattribute",
    NULL};

static const char *const openings[] = {
    "lipsum", "cycler", "joiner", "self", "url_for", "get_flashed_messages", NULL};

/* Filters that take the name of an attribute. */
static const char *const by_attribute[] = {"map",  "selectattr", "rejectattr", "groupby",
                                           "sort", "sum",        "unique",     "max",
                                           "min",  "join",       NULL};

/* ---------------------------------------------------------------- findings */

static void find(checking *k, uint32_t verdict, const sft__import_jinja_token *t,
                 const char *sentence) {
    char subject[160];
    const size_t head = k->subject_len < 96 ? k->subject_len : 96;
    const size_t tail = t != NULL && t->len < NAME_KEPT ? t->len : t != NULL ? NAME_KEPT : 0;

    k->found++;
    if (k->found > FINDINGS && verdict != SFT_SCAN_DANGEROUS) {
        return;
    }
    memcpy(subject, k->subject, head);
    const size_t gap = head != 0 && tail != 0 ? 2 : 0;
    memcpy(subject + head, ": ", gap);
    if (tail != 0) {
        memcpy(subject + head + gap, t->p, tail);
    }
    sft__import_content_find(k->c, verdict, "template", k->at, subject, head + gap + tail,
                             sentence);
}

static const sft__import_jinja_token *token(const checking *k, size_t i) {
    return sft__import_jinja_at(&k->values, i);
}

static bool is_op(const checking *k, size_t i, char op) {
    return sft__import_jinja_op(&k->values, i, op);
}

static bool is_filter(const checking *k, size_t i) {
    return sft__import_jinja_filter(&k->values, i);
}

static bool is_attribute(const checking *k, size_t i) {
    return sft__import_jinja_attribute(&k->values, i);
}

/* ---------------------------------------------------------------- texts */

/* The character that a numeric escape at p (behind the backslash) stands for; 0: it is none. */
static uint32_t escaped(const char *p, size_t left) {
    const size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    uint32_t v = 0;

    if (*p == 'N') {
        return '_'; /* by its name: as good as any */
    }
    for (size_t i = 1; i <= digits && i < left; i++) {
        const int h = sft__base_hex_value(p[i]);
        v = h < 0 ? v : v * 16 + (uint32_t)h;
    }
    for (size_t i = 0; digits == 0 && i < 3 && i < left && p[i] >= '0' && p[i] <= '7'; i++) {
        v = v * 8 + (uint32_t)(p[i] - '0');
    }
    return v;
}

static bool is_word(uint32_t ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_';
}

static bool is_shouted(const char *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (p[i] != '_' && !(p[i] >= 'A' && p[i] <= 'Z')) {
            return false;
        }
    }
    return true;
}

/* "__x__" anywhere. One in capitals (__NOT_A_NUMBER__) is none of Python's. */
static bool has_dunder(const char *p, size_t len) {
    for (size_t i = 0; i + 4 < len; i++) {
        if (p[i] == '_' && p[i + 1] == '_' && is_word((uint8_t)p[i + 2]) && p[i + 2] != '_') {
            for (size_t j = i + 3; j + 1 < len && is_word((uint8_t)p[j]); j++) {
                if (p[j] == '_' && p[j + 1] == '_') {
                    if (!is_shouted(p + i, j - i)) {
                        return true;
                    }
                    break;
                }
            }
        }
    }
    return false;
}

static bool has(const char *p, size_t len, const char *what) {
    const size_t n = strlen(what);
    for (size_t i = 0; i + n <= len; i++) {
        if (memcmp(p + i, what, n) == 0) {
            return true;
        }
    }
    return false;
}

static void check_string(checking *k, size_t at) {
    const sft__import_jinja_token *t = token(k, at);
    size_t underscores = 0;

    for (size_t i = 0; i < t->len; i++) {
        if (t->p[i] == '\\' && i + 1 < t->len) {
            i++;
            if (is_word(escaped(t->p + i, t->len - i))) {
                find(k, SFT_SCAN_DANGEROUS, t,
                     "a text with letters written as numbers: a disguise");
                return;
            }
        } else {
            underscores += t->p[i] == '_';
        }
    }
    if (has_dunder(t->p, t->len) || sft__import_jinja_listed(t->p, t->len, leading_out)) {
        find(k, SFT_SCAN_DANGEROUS, t, "a text that names what leads to Python's interpreter");
    } else if (has(t->p, t->len, "__") || (underscores == t->len && underscores > 0)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a text of underscores, of which such names can be made");
    } else if (has(t->p, t->len, "%c") || has(t->p, t->len, ":c}")) {
        find(k, SFT_SCAN_UNKNOWN, t, "a text that letters can be made with by their numbers");
    }
}

/* ---------------------------------------------------------------- names */

static void check_attribute(checking *k, size_t i) {
    const sft__import_jinja_token *t = token(k, i);
    const bool called = is_op(k, i + 1, '(');

    if (t->p[0] == '_') {
        find(k, t->len > 1 && t->p[1] == '_' ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN, t,
             "an attribute with underscores about it: inner parts of Python's objects");
    } else if (sft__import_jinja_listed(t->p, t->len, leading_out)) {
        find(k, SFT_SCAN_DANGEROUS, t, "an attribute that leads to Python's interpreter");
    } else if (called && sft__import_jinja_is(t, SFT__JINJA_NAME, "format")) {
        const sft__import_jinja_token *of = i >= 2 ? token(k, i - 2) : NULL;
        if (of == NULL || of->kind != SFT__JINJA_STRING || has(of->p, of->len, ".") ||
            has(of->p, of->len, "[")) {
            find(k, SFT_SCAN_UNKNOWN, t, "a format that is not written out, or reaches for parts");
        }
    } else if (called && !sft__import_jinja_listed(t->p, t->len, methods)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a method that templates have no need of");
    }
}

static void check_filter(checking *k, size_t i) {
    const sft__import_jinja_token *t = token(k, i);
    const sft__import_jinja_token *first = token(k, i + 2);

    if (sft__import_jinja_is(t, SFT__JINJA_NAME, "attr")) {
        find(k, SFT_SCAN_DANGEROUS, t, "the filter that gets attributes by computed names");
        return;
    }
    if (!sft__import_jinja_listed(t->p, t->len, filters)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a filter that is none of Jinja's harmless ones");
        return;
    }
    if (!sft__import_jinja_listed(t->p, t->len, by_attribute) || !is_op(k, i + 1, '(')) {
        return;
    }
    const bool join = sft__import_jinja_is(t, SFT__JINJA_NAME, "join");
    const bool map = sft__import_jinja_is(t, SFT__JINJA_NAME, "map");
    if (map && sft__import_jinja_is(first, SFT__JINJA_STRING, "attr")) {
        find(k, SFT_SCAN_DANGEROUS, first, "the filter that gets attributes by computed names");
    } else if (map && first->kind == SFT__JINJA_STRING &&
               !sft__import_jinja_listed(first->p, first->len, filters)) {
        find(k, SFT_SCAN_UNKNOWN, first, "a filter that is none of Jinja's harmless ones");
    }
    const bool keyword = first->kind == SFT__JINJA_NAME && is_op(k, i + 3, '='); /* check_name */
    const bool plain =
        first->kind == SFT__JINJA_STRING && (is_op(k, i + 3, ')') || is_op(k, i + 3, ','));
    if (!join && !keyword && !plain && !is_op(k, i + 2, ')')) {
        find(k, SFT_SCAN_UNKNOWN, first, "an attribute by a computed name");
    }
}

static bool is_any_op(const checking *k, size_t i, const char *ops) {
    const sft__import_jinja_token *t = token(k, i);
    return t->kind == SFT__JINJA_OP && t->len == 1 && strchr(ops, t->p[0]) != NULL;
}

/* A function that is not called but looked into or handed over, or called under a name that the
 * template gives another value. */
static bool is_misused(checking *k, size_t i) {
    const bool loop = sft__import_jinja_is(token(k, i), SFT__JINJA_NAME, "loop");
    const bool first =
        i > 0 && (is_any_op(k, i - 1, "=([,:{") || sft__import_jinja_is_keyword(token(k, i - 1)));
    const bool last = i + 1 >= k->values.block.count || is_any_op(k, i + 1, ",)]}") ||
                      sft__import_jinja_is_keyword(token(k, i + 1));

    if (is_op(k, i + 1, '(')) {
        const bool defined = i == 1 && sft__import_jinja_is(token(k, 0), SFT__JINJA_NAME, "macro");
        return !defined && sft__import_jinja_is_given(&k->values, i);
    }
    if (loop || sft__import_jinja_is(token(k, i + 1), SFT__JINJA_NAME, "is")) {
        return false;
    }
    if (is_op(k, i + 1, '[')) {
        return true;
    }
    const bool asked = (sft__import_jinja_is(token(k, 0), SFT__JINJA_NAME, "if") ||
                        sft__import_jinja_is(token(k, 0), SFT__JINJA_NAME, "elif")) &&
                       !is_any_op(k, i - 1, "=([,:{");
    const bool target =
        (i == 1 && k->values.block.statement && token(k, 0)->kind == SFT__JINJA_NAME) ||
        is_op(k, i + 1, '='); /* set, for, macro */
    return first && last && !asked && !target;
}

static void check_root(checking *k, size_t i) {
    static const char *const elsewhere[] = {"config", "request", "application", "session", NULL};
    const sft__import_jinja_token *t = token(k, i);
    const bool reached = is_op(k, i + 1, '.') || is_op(k, i + 1, '[') || is_op(k, i + 1, '|');

    if (sft__import_jinja_listed(t->p, t->len, openings)) {
        find(k, reached ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN, t,
             "an object of Jinja's own, by which templates get at Python");
    } else if (sft__import_jinja_listed(t->p, t->len, elsewhere) && reached) {
        find(k, SFT_SCAN_UNKNOWN, t, "an object that web servers give to templates");
    } else if (sft__import_jinja_listed(t->p, t->len, functions) ||
               sft__import_jinja_macro_of(&k->values, t) != NULL) {
        if (is_misused(k, i)) {
            find(k, SFT_SCAN_UNKNOWN, t, "a function that is handed over or looked into");
        }
    } else if (is_op(k, i + 1, '(') && !sft__import_jinja_is_keyword(t)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a function that is not one of a chat template's");
    }
}

static void check_name(checking *k, size_t i) {
    const sft__import_jinja_token *t = token(k, i);

    const bool value = is_op(k, i + 1, '=') && !is_op(k, i + 2, '=');

    if (value && sft__import_jinja_is(t, SFT__JINJA_NAME, "attribute") &&
        (token(k, i + 2)->kind != SFT__JINJA_STRING ||
         (!is_op(k, i + 3, ')') && !is_op(k, i + 3, ',')))) {
        find(k, SFT_SCAN_UNKNOWN, token(k, i + 2), "an attribute by a computed name");
    } else if (has_dunder(t->p, t->len)) {
        find(k, SFT_SCAN_DANGEROUS, t, "a name of Python's inner parts");
    } else if (has(t->p, t->len, "__")) {
        find(k, SFT_SCAN_UNKNOWN, t, "a name with two underscores");
    } else if (is_attribute(k, i)) {
        check_attribute(k, i);
    } else if (is_filter(k, i)) {
        check_filter(k, i);
    } else if (!value) {
        check_root(k, i);
    } else if (i > 0 && (is_op(k, i - 1, '(') || is_op(k, i - 1, ',')) && t->p[0] == '_') {
        find(k, SFT_SCAN_UNKNOWN, t, "a name of underscores, of which texts can be made");
    }
}

/* ---------------------------------------------------------------- computed names */

/* Is the bracket at i one of a slice? It looks up no name. */
static bool is_slice(const checking *k, size_t i) {
    unsigned depth = 0;

    for (; i < k->values.block.count; i++) {
        depth += is_op(k, i, '(') || is_op(k, i, '[') || is_op(k, i, '{');
        depth -= is_op(k, i, ')') || is_op(k, i, ']') || is_op(k, i, '}');
        if (depth == 0 || (depth == 1 && is_op(k, i, ':'))) {
            return depth == 1;
        }
    }
    return false;
}

/* i at the bracket of a subscript. */
static void check_subscript(checking *k, size_t i) {
    unsigned depth = 0;

    if (token(k, i - 1)->kind == SFT__JINJA_STRING) {
        find(k, SFT_SCAN_UNKNOWN, token(k, i - 1), "picks letters out of a text");
    }
    if (is_slice(k, i)) {
        return;
    }
    if (sft__import_jinja_is_space(&k->values, i - 1) && token(k, i + 1)->kind == SFT__JINJA_NAME) {
        find(k, SFT_SCAN_UNKNOWN, token(k, i + 1), "a name from outside, looked up in a namespace");
    }
    for (; i < k->values.block.count && sft__import_jinja_allows(&k->values); i++) {
        depth -= is_op(k, i, ')') || is_op(k, i, ']') || is_op(k, i, '}');
        if (depth > 0 && sft__import_jinja_computes(&k->values, i, depth)) {
            find(k, SFT_SCAN_UNKNOWN, token(k, i),
                 "a name that is put together and then looked up");
            return;
        }
        depth += is_op(k, i, '(') || is_op(k, i, '[') || is_op(k, i, '{');
        if (depth == 0) {
            return;
        }
    }
}

static bool is_subscript(const checking *k, size_t i) {
    const sft__import_jinja_token *t = i > 0 ? token(k, i - 1) : NULL;
    return t != NULL && is_op(k, i, '[') &&
           ((t->kind == SFT__JINJA_NAME && !sft__import_jinja_is_keyword(t)) ||
            t->kind == SFT__JINJA_STRING || is_op(k, i - 1, ')') || is_op(k, i - 1, ']') ||
            is_op(k, i - 1, '}'));
}

/* ---------------------------------------------------------------- blocks */

static void check_block(checking *k) {
    const sft__import_jinja_token *t = token(k, 0);

    if (k->values.block.statement && k->values.block.count > 0 &&
        (t->kind != SFT__JINJA_NAME || !sft__import_jinja_listed(t->p, t->len, statements))) {
        find(k, SFT_SCAN_UNKNOWN, t, "a statement that chat templates have no need of");
    }
    for (size_t i = 0; i < k->values.block.count; i++) {
        const sft__import_jinja_kind kind = token(k, i)->kind;
        const bool head = k->values.block.statement && i == 0;
        if (kind == SFT__JINJA_STRING) {
            check_string(k, i);
        } else if (kind == SFT__JINJA_NAME && !head) {
            check_name(k, i);
        } else if (is_subscript(k, i)) {
            check_subscript(k, i);
        } else if (is_op(k, i, '(') && i > 0 && (is_op(k, i - 1, ']') || is_op(k, i - 1, ')'))) {
            find(k, SFT_SCAN_UNKNOWN, token(k, i), "a call of what was looked up or computed");
        }
    }
}

/* Every block, once: the macros and what names stand for, or the rules. */
static bool pass(checking *k, const char *text, size_t len, bool first) {
    const char *at = text;
    sft__import_jinja_next next;

    while ((next = sft__import_jinja_read(&k->values.block, &at, text + len)) == SFT__JINJA_BLOCK) {
        if (first) {
            sft__import_jinja_note(&k->values);
        } else {
            check_block(k);
        }
    }
    return next == SFT__JINJA_DONE;
}

/* What is defined below is known above, and what a name stands for may go from one to the next:
 * again until nothing is learnt. */
static bool all_passes(checking *k, const char *text, size_t len) {
    for (unsigned i = 0; i == 0 || (k->values.changed && !k->values.all_made); i++) {
        k->values.changed = false;
        k->values.all_made = k->values.all_made || i == SFT__JINJA_PASSES;
        if (!pass(k, text, len, true)) {
            return false;
        }
    }
    return pass(k, text, len, false) && k->values.work <= SFT__JINJA_WORK;
}

bool sft__import_content_template(const sft__import_content *c, const char *subject,
                                  size_t subject_len, size_t at, const char *text, size_t len) {
    const sft_allocator *a = c->job->allocator;
    checking *k = sft__base_alloc_zero(a, sizeof *k);
    sft__import_jinja_token *tokens = sft__base_alloc_array(a, SFT__JINJA_TOKENS, sizeof *tokens);
    bool good = false;

    if (k != NULL && tokens != NULL && len <= SFT__CONTENT_TEMPLATE &&
        c->state->templates++ < SFT__CONTENT_TEMPLATES &&
        len <= SFT__CONTENT_TEMPLATE_ALL - c->state->template_bytes) {
        c->state->template_bytes += len;
        k->c = c;
        k->subject = subject;
        k->subject_len = subject_len;
        k->at = at;
        k->values.block.tokens = tokens;
        if (!all_passes(k, text, len)) {
            find(k, SFT_SCAN_UNKNOWN, NULL, "a template that cannot be read to its end");
        }
        good = k->found == 0;
        if (good) {
            sft__import_find(c->job, SFT_FINDING_NOTE, SFT_SCAN_HARMLESS, subject, subject_len,
                             "template", SFT_NO_OFFSET,
                             "a chat template: it reaches for nothing but its variables");
        }
    } else {
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "template", at, subject, subject_len,
                                 "templates too long or too many to be looked through");
    }
    sft__base_free(a, tokens, SFT__JINJA_TOKENS * sizeof *tokens);
    sft__base_free(a, k, sizeof *k);
    return good;
}
