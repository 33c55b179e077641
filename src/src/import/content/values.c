/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/values.c - see values.h. What a name stands for is learnt from every place that
 * gives it a value: set, with, loops, arguments of macros, attributes of namespaces, append(). Read
 * first: values.h.
 */
#include "import/content/values.h"

/* What a name of the template's own may stand for. What is not listed is given to it from outside.
 */
enum {
    K_TEXT = 1,      /* a constant of the template: checked, but letters can be had of it */
    K_MADE = 2,      /* a text that was put together, or picked to pieces */
    K_ATTRIBUTE = 2, /* bits to shift by: the same of an attribute that was given a value */
    K_SPACE = 16,    /* a namespace, or a loop */
    K_GIVEN = 32     /* a function's name that the template gives a value */
};

static const char *const keywords[] = {"if",     "elif",  "else", "for",       "in",    "is",
                                       "not",    "and",   "or",   "set",       "macro", "call",
                                       "filter", "with",  "do",   "true",      "false", "none",
                                       "True",   "False", "None", "recursive", NULL};
/* Filters that make texts. */
static const char *const makers[] = {
    "join",  "string",     "replace", "format",   "lower",       "upper",  "trim",      "reverse",
    "title", "capitalize", "center",  "truncate", "urlencode",   "indent", "striptags", "tojson",
    "e",     "escape",     "safe",    "wordwrap", "forceescape", NULL};

bool sft__import_jinja_is_keyword(const sft__import_jinja_token *t) {
    return t->kind == SFT__JINJA_NAME && sft__import_jinja_listed(t->p, t->len, keywords);
}

sft__import_jinja_macro *sft__import_jinja_macro_of(sft__import_jinja_values *k,
                                                    const sft__import_jinja_token *t) {
    for (size_t i = 0; i < k->macro_count; i++) {
        const sft__import_jinja_word *name = &k->macros[i].name;
        if (name->len == t->len && memcmp(name->p, t->p, t->len) == 0) {
            return &k->macros[i];
        }
    }
    return NULL;
}

bool sft__import_jinja_allows(sft__import_jinja_values *k) {
    k->work++;
    k->all_made = k->all_made || k->work > SFT__JINJA_WORK;
    return k->work <= SFT__JINJA_WORK;
}

static unsigned sum_of(const sft__import_jinja_token *t) {
    return ((unsigned)(uint8_t)t->p[0] * 31 + (uint8_t)t->p[t->len - 1] + (unsigned)t->len * 7) &
           255;
}

static sft__import_jinja_word *value_of(sft__import_jinja_values *k,
                                        const sft__import_jinja_token *t) {
    for (size_t i = 0; k->maybe[sum_of(t)] && i < k->count; i++) {
        if (k->words[i].len == t->len && memcmp(k->words[i].p, t->p, t->len) == 0) {
            return &k->words[i];
        }
    }
    return NULL;
}

bool sft__import_jinja_is_space(sft__import_jinja_values *k, size_t i) {
    const sft__import_jinja_token *t = sft__import_jinja_at(k, i);
    const sft__import_jinja_word *w = t->kind == SFT__JINJA_NAME ? value_of(k, t) : NULL;

    return !sft__import_jinja_attribute(k, i) &&
           (sft__import_jinja_is(t, SFT__JINJA_NAME, "loop") ||
            (w != NULL && (w->kinds & K_SPACE) != 0));
}

bool sft__import_jinja_is_given(sft__import_jinja_values *k, size_t i) {
    const sft__import_jinja_word *w = value_of(k, sft__import_jinja_at(k, i));
    return w != NULL && (w->kinds & K_GIVEN) != 0;
}

static void learn(sft__import_jinja_values *k, const sft__import_jinja_token *t, unsigned kinds) {
    if (t->kind != SFT__JINJA_NAME || kinds == 0) {
        return;
    }
    sft__import_jinja_word *w = value_of(k, t);
    if (w == NULL && k->count == SFT__JINJA_VALUES) {
        k->all_made = true;
        return;
    }
    if (w == NULL) {
        w = &k->words[k->count++];
        *w = (sft__import_jinja_word){t->p, t->len, 0};
        k->maybe[sum_of(t)] = true;
    }
    k->changed = k->changed || (w->kinds | kinds) != w->kinds;
    w->kinds |= kinds;
}

/* A name that gets a value: noted of functions and macros. */
static void learn_given(sft__import_jinja_values *k, const sft__import_jinja_token *t) {
    static const char *const functions[] = {
        "namespace", "raise_exception", "range", "strftime_now", "caller", "loop", NULL};
    if (t->kind == SFT__JINJA_NAME && (sft__import_jinja_listed(t->p, t->len, functions) ||
                                       sft__import_jinja_macro_of(k, t) != NULL)) {
        learn(k, t, K_GIVEN);
    }
}

/* bos_token, additional_special_tokens: texts that the file or directory of the template has, too.
 */
static bool is_special_token(const sft__import_jinja_token *t) {
    return (t->len > 6 && memcmp(t->p + t->len - 6, "_token", 6) == 0) ||
           (t->len > 7 && memcmp(t->p + t->len - 7, "_tokens", 7) == 0);
}

/* Of the name at i, as far as the template gives it a value; of a macro its text or name. */
static unsigned kinds_of(sft__import_jinja_values *k, size_t i) {
    static const char *const given[] = {"caller", "varargs", "kwargs", NULL};
    const sft__import_jinja_token *t = sft__import_jinja_at(k, i);

    if (t->kind != SFT__JINJA_NAME || sft__import_jinja_is_keyword(t) ||
        sft__import_jinja_filter(k, i)) {
        return 0;
    }
    if (k->all_made || sft__import_jinja_listed(t->p, t->len, given) ||
        (!sft__import_jinja_attribute(k, i) &&
         (sft__import_jinja_macro_of(k, t) != NULL || is_special_token(t)))) {
        return K_MADE;
    }
    const sft__import_jinja_word *w = value_of(k, t);
    const unsigned kinds = w == NULL                           ? 0
                           : sft__import_jinja_attribute(k, i) ? w->kinds >> K_ATTRIBUTE
                                                               : w->kinds;
    return kinds & (K_TEXT | K_MADE);
}

/* The key of a dict that is written out. */
static bool is_key(const sft__import_jinja_values *k, size_t i) {
    const sft__import_jinja_token *t = sft__import_jinja_at(k, i);
    return i > 0 && t->kind == SFT__JINJA_STRING && sft__import_jinja_op(k, i + 1, ':') &&
           (sft__import_jinja_op(k, i - 1, '{') || sft__import_jinja_op(k, i - 1, ',')) &&
           memchr(t->p, '%', t->len) == NULL;
}

static bool is_maker(const sft__import_jinja_values *k, size_t i) {
    static const char *const methods_of[] = {
        "replace",      "join",   "format",     "upper",      "lower",  "title",     "strip",
        "lstrip",       "rstrip", "split",      "capitalize", "rsplit", "partition", "removeprefix",
        "removesuffix", "center", "rpartition", "splitlines", NULL};
    const sft__import_jinja_token *t = sft__import_jinja_at(k, i);

    if (t->kind != SFT__JINJA_NAME) {
        return sft__import_jinja_op(k, i, '~') ||
               (sft__import_jinja_op(k, i, '+') &&
                sft__import_jinja_at(k, i - 1)->kind != SFT__JINJA_NUMBER &&
                sft__import_jinja_at(k, i + 1)->kind != SFT__JINJA_NUMBER);
    }
    return (sft__import_jinja_filter(k, i) && sft__import_jinja_listed(t->p, t->len, makers)) ||
           (sft__import_jinja_attribute(k, i) && sft__import_jinja_op(k, i + 1, '(') &&
            sft__import_jinja_listed(t->p, t->len, methods_of));
}

static bool is_one_op(const sft__import_jinja_token *t, const char *ops) {
    return t->kind == SFT__JINJA_OP && t->len == 1 && strchr(ops, t->p[0]) != NULL;
}

/* Is the text, or the name of one, or the list that ends at i taken apart or put together with
 * another? */
static bool is_operated(const sft__import_jinja_values *k, size_t i) {
    const sft__import_jinja_token *next = sft__import_jinja_at(k, i + 1);
    const sft__import_jinja_token *last = sft__import_jinja_at(k, i - 1);

    return is_one_op(next, ".[|+*%~") ||
           (!is_one_op(sft__import_jinja_at(k, i), ")]}") &&
            (next->kind == SFT__JINJA_STRING || last->kind == SFT__JINJA_STRING ||
             is_one_op(last, "+*%~")));
}

/* A number is made of it, whatever it is. */
static bool is_counted(const sft__import_jinja_values *k, size_t i) {
    const sft__import_jinja_token *t = sft__import_jinja_at(k, i + 2);
    return sft__import_jinja_op(k, i + 1, '|') &&
           (sft__import_jinja_is(t, SFT__JINJA_NAME, "length") ||
            sft__import_jinja_is(t, SFT__JINJA_NAME, "count"));
}

/* What the expression from i on is, to the end of the block, or of its brackets if it is `inside`
 * such. looped: texts as they stand, in a list that a loop goes through, are whole. */
static unsigned kinds_from(sft__import_jinja_values *k, size_t i, bool inside, bool looped) {
    unsigned depth = 0;
    unsigned all = 0;
    unsigned bracket = 0; /* depth of a slice's bracket */
    bool made = false;

    if (looped && sft__import_jinja_is(sft__import_jinja_at(k, i), SFT__JINJA_NAME, "range")) {
        return 0;
    }
    for (size_t n = 0; i < k->block.count && sft__import_jinja_allows(k); i++, n++) {
        const sft__import_jinja_token *t = sft__import_jinja_at(k, i);
        const char op = t->kind == SFT__JINJA_OP ? t->p[0] : '\0';
        unsigned kinds = t->kind == SFT__JINJA_STRING && !is_key(k, i) ? K_TEXT : kinds_of(k, i);
        if (depth == 0 && ((inside && (op == ',' || op == ')')) ||
                           (looped && sft__import_jinja_is(t, SFT__JINJA_NAME, "if")))) {
            break;
        }
        depth += op == '(' || op == '[' || op == '{';
        bracket = op == '[' ? depth : bracket;
        kinds = is_counted(k, i) ? 0 : kinds;
        made = made || is_maker(k, i) || (op == ':' && bracket == depth && depth != 0) ||
               ((kinds & K_TEXT) != 0 && (is_operated(k, i) || (looped && n == 0)));
        bracket = bracket == depth && (op == ')' || op == ']' || op == '}') ? 0 : bracket;
        depth -= depth > 0 && (op == ')' || op == ']' || op == '}');
        made = made ||
               ((op == ')' || op == ']' || op == '}') && (all & K_TEXT) != 0 && is_operated(k, i));
        all |= kinds;
    }
    return made ? K_MADE : all;
}

/* NAME = EXPRESSION, A, B = EXPRESSION, NAMESPACE.NAME = EXPRESSION: i at the sign. */
static void note_assignment(sft__import_jinja_values *k, size_t i, bool inside) {
    const bool space =
        sft__import_jinja_is(sft__import_jinja_at(k, i + 1), SFT__JINJA_NAME, "namespace");
    const bool alone =
        i + 2 == k->block.count ||
        (inside && (sft__import_jinja_op(k, i + 2, ',') || sft__import_jinja_op(k, i + 2, ')')));
    const unsigned kinds = space || (alone && sft__import_jinja_is_space(k, i + 1))
                               ? K_SPACE
                               : kinds_from(k, i + 1, inside, false);
    const bool argument = inside && sft__import_jinja_is(sft__import_jinja_at(k, 0),
                                                         SFT__JINJA_NAME, "macro") == false;

    for (size_t b = i; b-- > 0 && sft__import_jinja_at(k, b)->kind == SFT__JINJA_NAME;) {
        const bool attribute = sft__import_jinja_attribute(k, b);
        learn(k, sft__import_jinja_at(k, b),
              (attribute || argument) && kinds != K_SPACE ? kinds << K_ATTRIBUTE : kinds);
        if (argument) {
            learn(k, sft__import_jinja_at(k, b), kinds); /* of a macro's parameter */
        }
        if (!attribute && !argument) {
            learn_given(k, sft__import_jinja_at(k, b));
        }
        b -= attribute ? 2 : b > 0 && !inside && sft__import_jinja_op(k, b - 1, ',') ? 1 : 0;
        if (attribute) {
            break;
        }
    }
}

/* The arguments of a call, i at its bracket: a macro's parameters get them. Returns them all. */
static unsigned note_arguments(sft__import_jinja_values *k, size_t i,
                               const sft__import_jinja_macro *m) {
    unsigned all = 0;
    unsigned depth = 0;
    size_t n = 0;

    for (size_t at = i; at < k->block.count && sft__import_jinja_allows(k); at++) {
        if (depth == 1 && (at == i + 1 || sft__import_jinja_op(k, at - 1, ',')) &&
            !sft__import_jinja_op(k, at, ')')) {
            const bool space =
                sft__import_jinja_is_space(k, at) &&
                (sft__import_jinja_op(k, at + 1, ',') || sft__import_jinja_op(k, at + 1, ')'));
            const unsigned kinds = space ? K_SPACE : kinds_from(k, at, true, false);
            if (m != NULL && n < m->count) {
                learn(k, &m->parameters[n], kinds);
            }
            all |= kinds & ~(unsigned)K_SPACE;
            n++;
        }
        depth += sft__import_jinja_op(k, at, '(') || sft__import_jinja_op(k, at, '[') ||
                 sft__import_jinja_op(k, at, '{');
        depth -=
            depth > 0 && (sft__import_jinja_op(k, at, ')') || sft__import_jinja_op(k, at, ']') ||
                          sft__import_jinja_op(k, at, '}'));
        if (depth == 0) {
            break;
        }
    }
    return all;
}

/* A call of a macro gives its parameters values; append() and its like give them to a list. */
static void note_call(sft__import_jinja_values *k, size_t i) {
    static const char *const storing[] = {"append", "insert", "extend", "update", NULL};
    const sft__import_jinja_token *t = sft__import_jinja_at(k, i);
    const sft__import_jinja_macro *m =
        sft__import_jinja_attribute(k, i) ? NULL : sft__import_jinja_macro_of(k, t);

    if (m != NULL) {
        (void)note_arguments(k, i + 1, m);
    } else if (sft__import_jinja_attribute(k, i) &&
               sft__import_jinja_listed(t->p, t->len, storing)) {
        const unsigned kinds = note_arguments(k, i + 1, NULL);
        for (size_t b = i - 1; b > 0 && sft__import_jinja_op(k, b, '.'); b -= b > 1 ? 2 : 1) {
            learn(k, sft__import_jinja_at(k, b - 1),
                  sft__import_jinja_attribute(k, b - 1) ? kinds << K_ATTRIBUTE : kinds);
        }
    }
}

/* {% macro NAME(SFT__JINJA_PARAMETERS) %} */
static void note_macro(sft__import_jinja_values *k) {
    if (sft__import_jinja_macro_of(k, sft__import_jinja_at(k, 1)) != NULL) {
        return;
    }
    if (k->macro_count == SFT__JINJA_MACROS) {
        k->all_made = true;
        return;
    }
    sft__import_jinja_macro *m = &k->macros[k->macro_count++];
    m->name =
        (sft__import_jinja_word){sft__import_jinja_at(k, 1)->p, sft__import_jinja_at(k, 1)->len, 0};
    k->changed = true;
    for (size_t i = 3; i < k->block.count && !sft__import_jinja_op(k, i, ')'); i++) {
        if ((sft__import_jinja_op(k, i - 1, '(') || sft__import_jinja_op(k, i - 1, ',')) &&
            m->count < SFT__JINJA_PARAMETERS) {
            m->parameters[m->count++] = *sft__import_jinja_at(k, i);
            learn_given(k, sft__import_jinja_at(k, i));
        }
    }
}

/* {% call(SFT__JINJA_PARAMETERS) NAME() %}: what the macro gives them is not followed. */
static void note_block(sft__import_jinja_values *k) {
    for (size_t i = 2;
         sft__import_jinja_op(k, 1, '(') && i < k->block.count && !sft__import_jinja_op(k, i, ')');
         i++) {
        learn(k, sft__import_jinja_at(k, i), K_MADE);
        learn_given(k, sft__import_jinja_at(k, i));
    }
}

static void note_loop(sft__import_jinja_values *k) {
    size_t in = 1;

    while (in < k->block.count &&
           !sft__import_jinja_is(sft__import_jinja_at(k, in), SFT__JINJA_NAME, "in")) {
        in++;
    }
    const unsigned kinds = kinds_from(k, in + 1, false, true);
    for (size_t i = 1; i < in; i++) {
        learn(k, sft__import_jinja_at(k, i), kinds);
        learn_given(k, sft__import_jinja_at(k, i));
    }
}

/* What the block gives values to. */
void sft__import_jinja_note(sft__import_jinja_values *k) {
    const sft__import_jinja_token *t = sft__import_jinja_at(k, 0);
    bool assigned = false;
    unsigned depth = 0;

    for (size_t i = 0; i < k->block.count; i++) {
        const bool compare =
            sft__import_jinja_op(k, i + 1, '=') ||
            (i > 0 && (sft__import_jinja_op(k, i - 1, '=') || sft__import_jinja_op(k, i - 1, '!') ||
                       sft__import_jinja_op(k, i - 1, '<') || sft__import_jinja_op(k, i - 1, '>')));
        depth += sft__import_jinja_op(k, i, '(') || sft__import_jinja_op(k, i, '[') ||
                 sft__import_jinja_op(k, i, '{');
        depth -= depth > 0 && (sft__import_jinja_op(k, i, ')') || sft__import_jinja_op(k, i, ']') ||
                               sft__import_jinja_op(k, i, '}'));
        if (i > 0 && sft__import_jinja_op(k, i, '=') && !compare) {
            assigned = true;
            note_assignment(k, i, depth > 0);
        } else if (sft__import_jinja_op(k, i + 1, '(') &&
                   sft__import_jinja_at(k, i)->kind == SFT__JINJA_NAME) {
            note_call(k, i);
        }
    }
    if (!k->block.statement) {
        return;
    }
    if (sft__import_jinja_is(t, SFT__JINJA_NAME, "set") && !assigned) {
        learn(k, sft__import_jinja_at(k, 1), K_MADE); /* all that is printed up to endset */
        learn(k, sft__import_jinja_at(k, 3), K_MADE << K_ATTRIBUTE);
    } else if (sft__import_jinja_is(t, SFT__JINJA_NAME, "for")) {
        note_loop(k);
    } else if (sft__import_jinja_is(t, SFT__JINJA_NAME, "macro")) {
        note_macro(k);
    } else if (sft__import_jinja_is(t, SFT__JINJA_NAME, "call")) {
        note_block(k);
    }
}

/* Does the token at i of a subscript make a name out of texts? */
bool sft__import_jinja_computes(sft__import_jinja_values *k, size_t i, unsigned depth) {
    const sft__import_jinja_token *t = sft__import_jinja_at(k, i);
    const bool string = t->kind == SFT__JINJA_STRING;
    const bool called = t->kind == SFT__JINJA_NAME && sft__import_jinja_op(k, i + 1, '(') &&
                        !sft__import_jinja_attribute(k, i) && !sft__import_jinja_is_keyword(t) &&
                        !sft__import_jinja_filter(k, i);
    const sft__import_jinja_word *w = string && depth > 1 && t->len != 0 ? value_of(k, t) : NULL;
    const unsigned kinds = w != NULL ? w->kinds >> K_ATTRIBUTE : string ? K_TEXT : kinds_of(k, i);

    return called || is_maker(k, i) || (kinds & K_MADE) != 0 ||
           (depth > 1 && sft__import_jinja_op(k, i, ':')) ||
           ((kinds & K_TEXT) != 0 && is_operated(k, i));
}
