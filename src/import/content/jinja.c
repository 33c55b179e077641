/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/jinja.c - see jinja.h. Braces inside an expression are counted, as Jinja's own
 * lexer counts them, so that a dict's end is not taken for the block's.
 */
#include "import/content/jinja.h"
#include "import/content/letters.h"

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

/* Behind the two bytes `mark`, or NULL. */
static const char *behind(const char *p, const char *end, const char *mark) {
    for (; end - p >= 2; p++) {
        if (p[0] == mark[0] && p[1] == mark[1]) {
            return p + 2;
        }
    }
    return NULL;
}

/* The next "{{" or "{%": comments are passed over. NULL: none; *bad: a comment without an end. */
static const char *next_block(const char *p, const char *end, bool *bad) {
    while (end - p >= 2) {
        if (p[0] == '{' && p[1] == '#') {
            p = behind(p + 2, end, "#}");
            if (p == NULL) {
                *bad = true;
                return NULL;
            }
        } else if (p[0] == '{' && (p[1] == '{' || p[1] == '%')) {
            return p;
        } else {
            p++;
        }
    }
    return NULL;
}

/* p at a quote: behind the closing one, or NULL. */
static const char *skip_string(const char *p, const char *end) {
    const char quote = *p;
    for (p++; p < end; p++) {
        if (*p == '\\') {
            p++;
        } else if (*p == quote) {
            return p + 1;
        }
    }
    return NULL;
}

/* One token at p, which is no space; returns the position behind it, or NULL. */
static const char *one_token(jinja_token *t, const char *p, const char *end) {
    const char *q = p + 1;

    t->kind = JINJA_OP;
    if (*p == '\'' || *p == '"') {
        q = skip_string(p, end);
        if (q == NULL) {
            return NULL;
        }
        t->kind = JINJA_STRING;
        t->p = p + 1;
        t->len = (size_t)(q - p) - 2;
        return q;
    }
    if ((is_letter(*p) || sft__base_is_digit(*p))) {
        while (q < end && (is_letter(*q) || sft__base_is_digit(*q))) {
            q++;
        }
        t->kind = sft__base_is_digit(*p) ? JINJA_NUMBER : JINJA_NAME;
    }
    t->p = p;
    t->len = (size_t)(q - p);
    return q;
}

/* Behind "endraw" and its "%}". */
static const char *skip_raw(const char *p, const char *end) {
    while ((p = behind(p, end, "{%")) != NULL) {
        const char *q = p;
        while (q < end && (is_space(*q) || *q == '-' || *q == '+')) {
            q++;
        }
        if (end - q >= 6 && memcmp(q, "endraw", 6) == 0) {
            return behind(q, end, "%}");
        }
    }
    return NULL;
}

/* Tokens up to the end of the block: behind it, or NULL. */
static const char *read_tokens(jinja_block *b, const char *p, const char *end) {
    unsigned depth = 0;

    b->count = 0;
    if (p < end && (*p == '-' || *p == '+')) {
        p++;
    }
    while (p < end) {
        const char close = b->statement ? '%' : '}';
        const bool trimmed =
            (*p == '-' || *p == '+') && end - p >= 3 && p[1] == close && p[2] == '}';
        if (depth == 0 && (trimmed || (end - p >= 2 && p[0] == close && p[1] == '}'))) {
            return p + (trimmed ? 3 : 2);
        }
        if (is_space(*p)) {
            p++;
            continue;
        }
        if (b->count == JINJA_TOKENS) {
            return NULL;
        }
        depth += *p == '{' || *p == '(' || *p == '[';
        depth -= depth > 0 && (*p == '}' || *p == ')' || *p == ']');
        p = one_token(&b->tokens[b->count], p, end);
        if (p == NULL) {
            return NULL;
        }
        b->count++;
    }
    return NULL;
}

jinja_next sft__import_jinja_read(jinja_block *block, const char **at, const char *end) {
    bool bad = false;
    const char *p = next_block(*at, end, &bad);

    if (p == NULL) {
        *at = end;
        return bad ? JINJA_BAD : JINJA_DONE;
    }
    block->statement = p[1] == '%';
    p = read_tokens(block, p + 2, end);
    if (p != NULL && block->statement && block->count == 1 &&
        jinja_is(&block->tokens[0], JINJA_NAME, "raw")) {
        p = skip_raw(p, end);
    }
    *at = p != NULL ? p : end;
    return p != NULL ? JINJA_BLOCK : JINJA_BAD;
}
