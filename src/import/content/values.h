/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/values.h - what the names of a Jinja template stand for, as far as the template
 * itself gives them values: a text that it holds, or one that it puts together. A name that is
 * looked up must be written out, or come from outside; a text of the template's own that was put
 * together, taken apart or printed (by a macro, a block) could be any. Read first: jinja.h.
 */
#ifndef SFT_IMPORT_VALUES_H
#define SFT_IMPORT_VALUES_H

#include "import/content/jinja.h"

enum {
    JINJA_VALUES = 512,
    JINJA_MACROS = 128,
    JINJA_PARAMETERS = 16,
    JINJA_WORK = 4 << 20, /* tokens that are looked at again */
    JINJA_PASSES = 8
};

typedef struct jinja_word {
    const char *p;
    size_t len;
    unsigned kinds;
} jinja_word;

typedef struct jinja_macro {
    jinja_word name;
    jinja_token parameters[JINJA_PARAMETERS];
    size_t count;
} jinja_macro;

typedef struct jinja_values {
    jinja_block block;              /* the one at hand */
    jinja_word words[JINJA_VALUES]; /* names that the template gives texts to */
    size_t count;
    bool maybe[256]; /* has a name such a sum of its letters? */
    bool changed;    /* something was learnt in this pass */
    jinja_macro macros[JINJA_MACROS];
    size_t macro_count;
    unsigned work; /* tokens that were looked at again */
    bool all_made; /* there were more names, or more work */
} jinja_values;

/* Learns from the block at hand. Again for all blocks until nothing changes: what is defined below
 * is known above. */
void sft__import_jinja_note(jinja_values *v);

/* Does the token at i, `depth` brackets within a subscript, make a name out of texts? */
bool sft__import_jinja_computes(jinja_values *v, size_t i, unsigned depth);

/* Does the name at i stand for a namespace or a loop? Looked up in such, a name may be any of
 * Python's. */
bool sft__import_jinja_is_space(jinja_values *v, size_t i);
/* Does the template give the function's or macro's name at i another value? */
bool sft__import_jinja_is_given(jinja_values *v, size_t i);

jinja_macro *sft__import_jinja_macro_of(jinja_values *v, const jinja_token *t);
/* Expressions inside one another are looked at again and again: not without end. */
bool sft__import_jinja_allows(jinja_values *v);
bool sft__import_jinja_is_keyword(const jinja_token *t);

/* The token at i of the block; beyond it, nothing. */
static inline const jinja_token *jinja_at(const jinja_values *v, size_t i) {
    static const jinja_token none = {"", 0, JINJA_OP};
    return i < v->block.count ? &v->block.tokens[i] : &none;
}

static inline bool jinja_op(const jinja_values *v, size_t i, char op) {
    const jinja_token *t = jinja_at(v, i);
    return t->kind == JINJA_OP && t->len == 1 && t->p[0] == op;
}

static inline bool jinja_opens(const jinja_values *v, size_t i) {
    return jinja_op(v, i, '(') || jinja_op(v, i, '[') || jinja_op(v, i, '{');
}

static inline bool jinja_closes(const jinja_values *v, size_t i) {
    return jinja_op(v, i, ')') || jinja_op(v, i, ']') || jinja_op(v, i, '}');
}

/* Is it one of these operators? */
static inline bool jinja_any(const jinja_values *v, size_t i, const char *ops) {
    const jinja_token *t = jinja_at(v, i);
    return t->kind == JINJA_OP && t->len == 1 && strchr(ops, t->p[0]) != NULL;
}

/* A filter: behind one "|". */
static inline bool jinja_filter(const jinja_values *v, size_t i) {
    return jinja_at(v, i)->kind == JINJA_NAME && i > 0 && jinja_op(v, i - 1, '|');
}

static inline bool jinja_attribute(const jinja_values *v, size_t i) {
    return i > 0 && jinja_op(v, i - 1, '.');
}

#endif
