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
    SFT__JINJA_VALUES = 512,
    SFT__JINJA_MACROS = 128,
    SFT__JINJA_PARAMETERS = 16,
    SFT__JINJA_WORK = 4 << 20, /* tokens that are looked at again */
    SFT__JINJA_PASSES = 8
};

typedef struct sft__import_jinja_word {
    const char *p;
    size_t len;
    unsigned kinds;
} sft__import_jinja_word;

typedef struct sft__import_jinja_macro {
    sft__import_jinja_word name;
    sft__import_jinja_token parameters[SFT__JINJA_PARAMETERS];
    size_t count;
} sft__import_jinja_macro;

typedef struct sft__import_jinja_values {
    sft__import_jinja_block block;                   /* the one at hand */
    sft__import_jinja_word words[SFT__JINJA_VALUES]; /* names that the template gives texts to */
    size_t count;
    bool maybe[256]; /* has a name such a sum of its letters? */
    bool changed;    /* something was learnt in this pass */
    sft__import_jinja_macro macros[SFT__JINJA_MACROS];
    size_t macro_count;
    unsigned work; /* tokens that were looked at again */
    bool all_made; /* there were more names, or more work */
} sft__import_jinja_values;

/* Learns from the block at hand. Again for all blocks until nothing changes: what is defined below
 * is known above. */
void sft__import_jinja_note(sft__import_jinja_values *v);

/* Does the token at i, `depth` brackets within a subscript, make a name out of texts? */
bool sft__import_jinja_computes(sft__import_jinja_values *v, size_t i, unsigned depth);

/* Does the name at i stand for a namespace or a loop? Looked up in such, a name may be any of
 * Python's. */
bool sft__import_jinja_is_space(sft__import_jinja_values *v, size_t i);
/* Does the template give the function's or macro's name at i another value? */
bool sft__import_jinja_is_given(sft__import_jinja_values *v, size_t i);

sft__import_jinja_macro *sft__import_jinja_macro_of(sft__import_jinja_values *v,
                                                    const sft__import_jinja_token *t);
/* Expressions inside one another are looked at again and again: not without end. */
bool sft__import_jinja_allows(sft__import_jinja_values *v);
bool sft__import_jinja_is_keyword(const sft__import_jinja_token *t);

static inline bool sft__import_jinja_listed(const char *p, size_t len, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], p, len) == 0) {
            return true;
        }
    }
    return false;
}

/* The token at i of the block; beyond it, nothing. */
static inline const sft__import_jinja_token *sft__import_jinja_at(const sft__import_jinja_values *v,
                                                                  size_t i) {
    static const sft__import_jinja_token none = {"", 0, SFT__JINJA_OP};
    return i < v->block.count ? &v->block.tokens[i] : &none;
}

static inline bool sft__import_jinja_op(const sft__import_jinja_values *v, size_t i, char op) {
    const sft__import_jinja_token *t = sft__import_jinja_at(v, i);
    return t->kind == SFT__JINJA_OP && t->len == 1 && t->p[0] == op;
}

/* A filter: behind one "|". */
static inline bool sft__import_jinja_filter(const sft__import_jinja_values *v, size_t i) {
    return sft__import_jinja_at(v, i)->kind == SFT__JINJA_NAME && i > 0 &&
           sft__import_jinja_op(v, i - 1, '|');
}

static inline bool sft__import_jinja_attribute(const sft__import_jinja_values *v, size_t i) {
    return i > 0 && sft__import_jinja_op(v, i - 1, '.');
}

#endif
