/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/jinja.h - the tokens of a Jinja template (Jinja 3.1, "Template Designer
 * Documentation"): one block, {{ }} or {% %}, at a time. Texts and comments between blocks are
 * passed over, and so is what lies between raw and endraw. Read first: content.h.
 */
#ifndef SFT_IMPORT_JINJA_H
#define SFT_IMPORT_JINJA_H

#include "import/content/content.h"

enum { JINJA_TOKENS = 8192 /* of one block */ };

typedef enum jinja_kind {
    JINJA_NAME,
    JINJA_STRING, /* between its quotes, escapes as they are written */
    JINJA_NUMBER,
    JINJA_OP /* one character */
} jinja_kind;

typedef struct jinja_token {
    const char *p;
    size_t len;
    jinja_kind kind;
} jinja_token;

typedef struct jinja_block {
    jinja_token *tokens; /* JINJA_TOKENS */
    size_t count;
    bool statement; /* {% %} */
} jinja_block;

typedef enum jinja_next {
    JINJA_DONE,
    JINJA_BLOCK,
    JINJA_BAD /* a block or a string without its end, or with too many tokens */
} jinja_next;

/* The next block from *at on; moves *at behind it. */
jinja_next sft__import_jinja_read(jinja_block *block, const char **at, const char *end);

static inline bool jinja_is(const jinja_token *t, jinja_kind kind, const char *text) {
    return t->kind == kind && strlen(text) == t->len && memcmp(t->p, text, t->len) == 0;
}

#endif
