/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/template.c - chat templates. They are rendered by Jinja, in a sandbox or not,
 * wherever a model is used, so a template is harmless only if it reaches for nothing but its
 * variables: names with underscores about them, attributes by computed names, functions and filters
 * that are not on a list, other templates, and texts that are put together out of pieces and then
 * used as a name are findings. Read first: jinja.h.
 */
#include "import/content/jinja.h"

enum { TAINTED = 128, MACROS = 128, NAME_KEPT = 48, FINDINGS = 32, WORK = 4 << 20 };

typedef struct word {
    const char *p;
    size_t len;
} word;

typedef struct checking {
    const sft__content *c;
    const char *subject;
    size_t subject_len;
    size_t at; /* of the template in the content; it may be escaped there */
    sft__jinja_block block;
    word tainted[TAINTED]; /* names whose values are texts put together */
    size_t tainted_count;
    word macros[MACROS];
    size_t macro_count;
    unsigned found;
    unsigned work;    /* tokens that were looked at again */
    bool all_tainted; /* there were more names, or more work */
} checking;

/* ---------------------------------------------------------------- lists */

static bool listed(const char *p, size_t len, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], p, len) == 0) {
            return true;
        }
    }
    return false;
}

static const char *const statements[] = {
    "if",      "elif",      "else",       "endif",         "for",   "endfor",
    "set",     "endset",    "macro",      "endmacro",      "break", "continue",
    "filter",  "endfilter", "generation", "endgeneration", "raw",   "with",
    "endwith", "do",        "call",       "endcall",       NULL};

static const char *const keywords[] = {"if",     "elif",  "else", "for",       "in",    "is",
                                       "not",    "and",   "or",   "set",       "macro", "call",
                                       "filter", "with",  "do",   "true",      "false", "none",
                                       "True",   "False", "None", "recursive", NULL};

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

/* Filters that make texts. */
static const char *const makers[] = {
    "join",  "string",     "replace", "format",   "lower",     "upper",  "trim",      "reverse",
    "title", "capitalize", "center",  "truncate", "urlencode", "indent", "striptags", NULL};

/* ---------------------------------------------------------------- findings */

static void find(checking *k, uint32_t verdict, const sft__jinja_token *t, const char *sentence) {
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
    sft__content_find(k->c, verdict, "template", k->at, subject, head + gap + tail, sentence);
}

static const sft__jinja_token *token(const checking *k, size_t i) {
    static const sft__jinja_token none = {"", 0, SFT__JINJA_OP};
    return i < k->block.count ? &k->block.tokens[i] : &none;
}

static bool is_op(const checking *k, size_t i, char op) {
    const sft__jinja_token *t = token(k, i);
    return t->kind == SFT__JINJA_OP && t->len == 1 && t->p[0] == op;
}

/* A filter: behind one "|". */
static bool is_filter(const checking *k, size_t i) {
    return token(k, i)->kind == SFT__JINJA_NAME && i > 0 && is_op(k, i - 1, '|');
}

static bool is_attribute(const checking *k, size_t i) {
    return i > 0 && is_op(k, i - 1, '.');
}

static bool is_keyword(const sft__jinja_token *t) {
    return t->kind == SFT__JINJA_NAME && listed(t->p, t->len, keywords);
}

/* ---------------------------------------------------------------- texts */

static int hex(char c) {
    const char low = (char)(c | 0x20);
    return c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* The character that a numeric escape at p (behind the backslash) stands for; 0: it is none. */
static uint32_t escaped(const char *p, size_t left) {
    const size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    uint32_t v = 0;

    if (*p == 'N') {
        return '_'; /* by its name: as good as any */
    }
    for (size_t i = 1; i <= digits && i < left; i++) {
        const int h = hex(p[i]);
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

/* "__x__" anywhere. */
static bool has_dunder(const char *p, size_t len) {
    for (size_t i = 0; i + 4 < len; i++) {
        if (p[i] == '_' && p[i + 1] == '_' && is_word((uint8_t)p[i + 2]) && p[i + 2] != '_') {
            for (size_t j = i + 3; j + 1 < len && is_word((uint8_t)p[j]); j++) {
                if (p[j] == '_' && p[j + 1] == '_') {
                    return true;
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
    const sft__jinja_token *t = token(k, at);
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
    if (has_dunder(t->p, t->len) || listed(t->p, t->len, leading_out)) {
        find(k, SFT_SCAN_DANGEROUS, t, "a text that names what leads to Python's interpreter");
    } else if (has(t->p, t->len, "__") || (underscores == t->len && underscores > 0)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a text of underscores, of which such names can be made");
    } else if (has(t->p, t->len, "%c") || has(t->p, t->len, ":c}")) {
        find(k, SFT_SCAN_UNKNOWN, t, "a text that letters can be made with by their numbers");
    }
}

/* ---------------------------------------------------------------- names */

static bool known_word(const word *list, size_t count, const sft__jinja_token *t) {
    for (size_t i = 0; i < count; i++) {
        if (list[i].len == t->len && memcmp(list[i].p, t->p, t->len) == 0) {
            return true;
        }
    }
    return false;
}

static void check_attribute(checking *k, size_t i) {
    const sft__jinja_token *t = token(k, i);
    const bool called = is_op(k, i + 1, '(');

    if (t->p[0] == '_') {
        find(k, t->len > 1 && t->p[1] == '_' ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN, t,
             "an attribute with underscores about it: inner parts of Python's objects");
    } else if (listed(t->p, t->len, leading_out)) {
        find(k, SFT_SCAN_DANGEROUS, t, "an attribute that leads to Python's interpreter");
    } else if (called && sft__jinja_is(t, SFT__JINJA_NAME, "format")) {
        const sft__jinja_token *of = i >= 2 ? token(k, i - 2) : NULL;
        if (of == NULL || of->kind != SFT__JINJA_STRING || has(of->p, of->len, ".") ||
            has(of->p, of->len, "[")) {
            find(k, SFT_SCAN_UNKNOWN, t, "a format that is not written out, or reaches for parts");
        }
    } else if (called && !listed(t->p, t->len, methods)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a method that templates have no need of");
    }
}

static void check_filter(checking *k, size_t i) {
    const sft__jinja_token *t = token(k, i);
    const sft__jinja_token *first = token(k, i + 2);

    if (sft__jinja_is(t, SFT__JINJA_NAME, "attr")) {
        find(k, SFT_SCAN_DANGEROUS, t, "the filter that gets attributes by computed names");
        return;
    }
    if (!listed(t->p, t->len, filters)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a filter that is none of Jinja's harmless ones");
        return;
    }
    if (!listed(t->p, t->len, by_attribute) || !is_op(k, i + 1, '(')) {
        return;
    }
    const bool join = sft__jinja_is(t, SFT__JINJA_NAME, "join");
    const bool map = sft__jinja_is(t, SFT__JINJA_NAME, "map");
    if (map && sft__jinja_is(first, SFT__JINJA_STRING, "attr")) {
        find(k, SFT_SCAN_DANGEROUS, first, "the filter that gets attributes by computed names");
    } else if (map && first->kind == SFT__JINJA_STRING && !listed(first->p, first->len, filters)) {
        find(k, SFT_SCAN_UNKNOWN, first, "a filter that is none of Jinja's harmless ones");
    }
    const bool keyword = first->kind == SFT__JINJA_NAME && is_op(k, i + 3, '='); /* check_name */
    const bool plain =
        first->kind == SFT__JINJA_STRING && (is_op(k, i + 3, ')') || is_op(k, i + 3, ','));
    if (!join && !keyword && !plain && !is_op(k, i + 2, ')')) {
        find(k, SFT_SCAN_UNKNOWN, first, "an attribute by a computed name");
    }
}

static void check_root(checking *k, size_t i) {
    static const char *const elsewhere[] = {"config", "request", "application", "session", NULL};
    const sft__jinja_token *t = token(k, i);
    const bool reached = is_op(k, i + 1, '.') || is_op(k, i + 1, '[') || is_op(k, i + 1, '|');

    if (listed(t->p, t->len, openings)) {
        find(k, reached ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN, t,
             "an object of Jinja's own, by which templates get at Python");
    } else if (listed(t->p, t->len, elsewhere) && reached) {
        find(k, SFT_SCAN_UNKNOWN, t, "an object that web servers give to templates");
    } else if (is_op(k, i + 1, '(') && !is_keyword(t) && !listed(t->p, t->len, functions) &&
               !known_word(k->macros, k->macro_count, t)) {
        find(k, SFT_SCAN_UNKNOWN, t, "a function that is not one of a chat template's");
    }
}

static void check_name(checking *k, size_t i) {
    const sft__jinja_token *t = token(k, i);

    const bool value = is_op(k, i + 1, '=') && !is_op(k, i + 2, '=');

    if (value && sft__jinja_is(t, SFT__JINJA_NAME, "attribute") &&
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

/* Expressions inside one another are looked at again and again: not without end. */
static bool is_allowed(checking *k) {
    k->work++;
    k->all_tainted = k->all_tainted || k->work > WORK;
    return k->work <= WORK;
}

/* Is the expression from i on, to the end of the block or of its brackets, a text put together?
 * listed_texts: texts as they stand, in a list that a loop goes through, are none. */
static bool is_made(checking *k, size_t i, bool inside, bool listed_texts) {
    unsigned depth = 0;
    bool string = false;
    bool sum = false;
    bool text = false;
    bool more = false;

    for (size_t n = 0; i < k->block.count && is_allowed(k); i++, n++) {
        const sft__jinja_token *t = token(k, i);
        const char op = t->kind == SFT__JINJA_OP ? t->p[0] : '\0';
        if (inside && depth == 0 && (op == ',' || op == ')')) {
            break;
        }
        depth += op == '(' || op == '[' || op == '{';
        depth -= depth > 0 && (op == ')' || op == ']' || op == '}');
        string = string || t->kind == SFT__JINJA_STRING;
        sum = sum || op == '+' || op == '*' || op == '%';
        text = text || op == '~' || (string && (sum || !listed_texts)) ||
               (is_filter(k, i) && listed(t->p, t->len, makers));
        more = more || n > 0 || op == '~';
    }
    return text && more;
}

static void taint(checking *k, const sft__jinja_token *t) {
    if (t->kind != SFT__JINJA_NAME || known_word(k->tainted, k->tainted_count, t)) {
        return;
    }
    if (k->tainted_count == TAINTED) {
        k->all_tainted = true;
        return;
    }
    const word w = {t->p, t->len};
    k->tainted[k->tainted_count++] = w;
}

/* NAME = EXPRESSION, in a set, a call or a macro's head; what a block set or a loop gives a name.
 */
static void note_values(checking *k) {
    const sft__jinja_token *t = token(k, 0);
    const bool set = k->block.statement && sft__jinja_is(t, SFT__JINJA_NAME, "set");
    bool assigned = false;
    unsigned depth = 0;

    for (size_t i = 0; i < k->block.count; i++) {
        const bool compare =
            is_op(k, i + 1, '=') || (i > 0 && (is_op(k, i - 1, '=') || is_op(k, i - 1, '!') ||
                                               is_op(k, i - 1, '<') || is_op(k, i - 1, '>')));
        depth += is_op(k, i, '(') || is_op(k, i, '[') || is_op(k, i, '{');
        depth -= depth > 0 && (is_op(k, i, ')') || is_op(k, i, ']') || is_op(k, i, '}'));
        if (i > 0 && is_op(k, i, '=') && !compare) {
            assigned = true;
            const bool space = sft__jinja_is(token(k, i + 1), SFT__JINJA_NAME, "namespace");
            if (!space && is_made(k, i + 1, depth > 0, false)) {
                for (size_t b = i; b-- > 0 && token(k, b)->kind == SFT__JINJA_NAME;) {
                    taint(k, token(k, b));
                    b -= b > 0 && (is_op(k, b - 1, ',') || is_op(k, b - 1, '.'));
                }
            }
        }
    }
    if (set && !assigned) {
        taint(k, token(k, 1));
    }
    if (k->block.statement && sft__jinja_is(t, SFT__JINJA_NAME, "for")) {
        size_t in = 1;
        while (in < k->block.count && !sft__jinja_is(token(k, in), SFT__JINJA_NAME, "in")) {
            in++;
        }
        for (size_t i = 1; i < in && is_made(k, in + 1, false, true); i++) {
            taint(k, token(k, i));
        }
    }
}

/* i at the bracket of a subscript. */
static void check_subscript(checking *k, size_t i) {
    unsigned depth = 1;
    bool text = false;
    bool plus = false;

    if (token(k, i - 1)->kind == SFT__JINJA_STRING) {
        find(k, SFT_SCAN_UNKNOWN, token(k, i - 1), "picks letters out of a text");
    }
    for (i++; i < k->block.count && depth > 0 && is_allowed(k); i++) {
        const sft__jinja_token *t = token(k, i);
        const char op = t->kind == SFT__JINJA_OP ? t->p[0] : '\0';
        depth += op == '[' || op == '(' || op == '{';
        depth -= op == ']' || op == ')' || op == '}';
        text = text || t->kind == SFT__JINJA_STRING;
        plus = plus || op == '+' || op == '%' || op == '*';
        const bool tainted = t->kind == SFT__JINJA_NAME && !is_keyword(t) && !is_filter(k, i) &&
                             (k->all_tainted || known_word(k->tainted, k->tainted_count, t));
        if (op == '~' || tainted || (is_filter(k, i) && listed(t->p, t->len, makers))) {
            find(k, SFT_SCAN_UNKNOWN, t, "a name that is put together and then looked up");
            return;
        }
    }
    if (text && plus) {
        find(k, SFT_SCAN_UNKNOWN, NULL, "a name that is put together and then looked up");
    }
}

static bool is_subscript(const checking *k, size_t i) {
    const sft__jinja_token *t = i > 0 ? token(k, i - 1) : NULL;
    return t != NULL && is_op(k, i, '[') &&
           ((t->kind == SFT__JINJA_NAME && !is_keyword(t)) || t->kind == SFT__JINJA_STRING ||
            is_op(k, i - 1, ')') || is_op(k, i - 1, ']') || is_op(k, i - 1, '}'));
}

/* ---------------------------------------------------------------- blocks */

static void check_block(checking *k) {
    const sft__jinja_token *t = token(k, 0);

    if (k->block.statement && k->block.count > 0 &&
        (t->kind != SFT__JINJA_NAME || !listed(t->p, t->len, statements))) {
        find(k, SFT_SCAN_UNKNOWN, t, "a statement that chat templates have no need of");
    }
    note_values(k);
    for (size_t i = 0; i < k->block.count; i++) {
        const sft__jinja_kind kind = token(k, i)->kind;
        const bool head = k->block.statement && i == 0;
        if (kind == SFT__JINJA_STRING) {
            check_string(k, i);
        } else if (kind == SFT__JINJA_NAME && !head) {
            check_name(k, i);
        } else if (is_subscript(k, i)) {
            check_subscript(k, i);
        }
    }
}

/* First the macros and every name's values, then the rest: what is defined below is known above. */
static bool pass(checking *k, const char *text, size_t len, bool first) {
    const char *at = text;
    sft__jinja_next next;

    while ((next = sft__jinja_read(&k->block, &at, text + len)) == SFT__JINJA_BLOCK) {
        const sft__jinja_token *t = token(k, 0);
        if (!first) {
            check_block(k);
            continue;
        }
        note_values(k);
        if (k->block.statement && sft__jinja_is(t, SFT__JINJA_NAME, "macro") &&
            k->macro_count < MACROS) {
            const word w = {token(k, 1)->p, token(k, 1)->len};
            k->macros[k->macro_count++] = w;
        }
    }
    return next == SFT__JINJA_DONE;
}

bool sft__content_template(const sft__content *c, const char *subject, size_t subject_len,
                           size_t at, const char *text, size_t len) {
    const sft_allocator *a = c->job->allocator;
    checking *k = sft__alloc_zero(a, sizeof *k);
    sft__jinja_token *tokens = sft__alloc_array(a, SFT__JINJA_TOKENS, sizeof *tokens);
    bool good = false;

    if (k != NULL && tokens != NULL && len <= SFT__CONTENT_TEMPLATE &&
        c->state->templates++ < SFT__CONTENT_TEMPLATES) {
        k->c = c;
        k->subject = subject;
        k->subject_len = subject_len;
        k->at = at;
        k->block.tokens = tokens;
        if (!pass(k, text, len, true) || !pass(k, text, len, false) || k->work > WORK) {
            find(k, SFT_SCAN_UNKNOWN, NULL, "a template that cannot be read to its end");
        }
        good = k->found == 0;
        if (good) {
            sft__import_find(c->job, SFT_FINDING_NOTE, SFT_SCAN_HARMLESS, subject, subject_len,
                             "template", SFT_NO_OFFSET,
                             "a chat template: it reaches for nothing but its variables");
        }
    } else {
        sft__content_find(c, SFT_SCAN_UNKNOWN, "template", at, subject, subject_len,
                          "templates too long or too many to be looked through");
    }
    sft__free(a, tokens, SFT__JINJA_TOKENS * sizeof *tokens);
    sft__free(a, k, sizeof *k);
    return good;
}
