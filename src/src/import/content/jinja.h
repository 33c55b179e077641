/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/jinja.h - the tokens of a Jinja template (Jinja 3.1, "Template Designer
 * Documentation"): one block, {{ }} or {% %}, at a time. Texts and comments between blocks are
 * passed over, and so is what lies between raw and endraw. Read first: content.h.
 */
#ifndef SFT_IMPORT_JINJA_H
#define SFT_IMPORT_JINJA_H

#include "import/content/content.h"

enum { SFT__JINJA_TOKENS = 8192 /* of one block */ };

typedef enum sft__import_jinja_kind {
    SFT__JINJA_NAME,
    SFT__JINJA_STRING, /* between its quotes, escapes as they are written */
    SFT__JINJA_NUMBER,
    SFT__JINJA_OP /* one character */
} sft__import_jinja_kind;

typedef struct sft__import_jinja_token {
    const char *p;
    size_t len;
    sft__import_jinja_kind kind;
} sft__import_jinja_token;

typedef struct sft__import_jinja_block {
    sft__import_jinja_token *tokens; /* SFT__JINJA_TOKENS */
    size_t count;
    bool statement; /* {% %} */
} sft__import_jinja_block;

typedef enum sft__import_jinja_next {
    SFT__JINJA_DONE,
    SFT__JINJA_BLOCK,
    SFT__JINJA_BAD /* a block or a string without its end, or with too many tokens */
} sft__import_jinja_next;

/* The next block from *at on; moves *at behind it. */
sft__import_jinja_next sft__import_jinja_read(sft__import_jinja_block *block, const char **at,
                                              const char *end);

static inline bool sft__import_jinja_is(const sft__import_jinja_token *t,
                                        sft__import_jinja_kind kind, const char *text) {
    return t->kind == kind && strlen(text) == t->len && memcmp(t->p, text, t->len) == 0;
}

#endif
