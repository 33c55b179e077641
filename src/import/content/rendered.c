/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/rendered.c - texts that may be templates, under whatever key: prompts, messages,
 * parts of configurations. Which program renders them is not known and most are no chat templates,
 * so only what no such text has need of counts: attributes by computed names, names that are put
 * together and then looked up, the template's own object. Each block is read from where it begins,
 * whatever stands before it. Read first: template.c, values.h.
 */
#include "import/content/values.h"

enum { WORK_MOST = 32 << 20 /* bytes of blocks that lie in one another */ };

static bool is_string(const jinja_values *v, size_t i) {
    return jinja_at(v, i)->kind == JINJA_STRING;
}

/* A name of an attribute that is written out, the last of its argument; *quotes doubled, as a text
 * of YAML in quotes has them, they are no Jinja. */
static bool is_plain(const jinja_values *v, size_t i) {
    const jinja_token *t = jinja_at(v, i);
    const bool doubled =
        t->kind == JINJA_STRING && t->len == 0 && jinja_at(v, i + 1)->kind == JINJA_NAME;

    if (doubled) {
        i++;
        while (jinja_op(v, i + 1, '.') && jinja_at(v, i + 2)->kind == JINJA_NAME) {
            i += 2;
        }
        return is_string(v, i + 1) && jinja_at(v, i + 1)->len == 0 && jinja_any(v, i + 2, ",)");
    }
    return (t->kind == JINJA_STRING || t->kind == JINJA_NUMBER) && jinja_any(v, i + 1, ",)");
}

/* "map", "groupby" ...: i at the name behind "|". */
static uint32_t check_filter(const jinja_values *v, size_t i) {
    static const char *const by_name[] = {"selectattr", "rejectattr", "groupby", NULL};
    const jinja_token *t = jinja_at(v, i);
    const jinja_token *first = jinja_at(v, i + 2);
    const bool map = jinja_is(t, JINJA_NAME, "map");

    const bool doubled = first->kind == JINJA_STRING && first->len == 0;
    const bool by_text = map && jinja_op(v, i + 1, '(') &&
                         (jinja_is(first, JINJA_STRING, "attr") ||
                          (doubled && jinja_is(jinja_at(v, i + 3), JINJA_NAME, "attr")));
    if (by_text || jinja_is(t, JINJA_NAME, "attr")) {
        return SFT_SCAN_DANGEROUS;
    }
    if ((!map && !sft__import_text_is_one(t->p, t->len, by_name)) || !jinja_op(v, i + 1, '(')) {
        return SFT_SCAN_HARMLESS;
    }
    const bool keyword = first->kind == JINJA_NAME && jinja_op(v, i + 3, '=');
    return keyword || is_plain(v, i + 2) ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
}

/* i at the bracket of a subscript: are texts put together, or changed, in it? */
static bool is_computed(jinja_values *v, size_t i) {
    unsigned depth = 0;
    bool text = false;
    bool changed = false;

    for (; i < v->block.count && sft__import_jinja_allows(v); i++) {
        depth += jinja_any(v, i, "([{");
        depth -= jinja_any(v, i, ")]}");
        if (depth == 0) {
            return text && changed;
        }
        const bool named = jinja_at(v, i)->kind == JINJA_NAME;
        text = text || is_string(v, i);
        changed = changed || jinja_any(v, i, "|~+%") || (is_string(v, i) && is_string(v, i + 1)) ||
                  (named && jinja_op(v, i - 1, '.') && jinja_op(v, i + 1, '('));
    }
    return (text && changed) || v->work > JINJA_WORK;
}

static uint32_t check_block(jinja_values *v) {
    uint32_t worst = SFT_SCAN_HARMLESS;
    bool filtered = false;

    for (size_t i = 0; i < v->block.count; i++) {
        const jinja_token *t = jinja_at(v, i);
        const bool name = t->kind == JINJA_NAME;
        uint32_t verdict = SFT_SCAN_HARMLESS;
        const bool behind = i > 0 && (jinja_any(v, i - 1, ")]}") || is_string(v, i - 1) ||
                                      (jinja_at(v, i - 1)->kind == JINJA_NAME &&
                                       !sft__import_jinja_is_keyword(jinja_at(v, i - 1))));
        if (name && jinja_filter(v, i)) {
            filtered = true;
            verdict = check_filter(v, i);
        } else if (name && filtered && jinja_is(t, JINJA_NAME, "attribute") &&
                   jinja_op(v, i + 1, '=') && !jinja_op(v, i + 2, '=')) {
            verdict = is_plain(v, i + 2) ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
        } else if (filtered && jinja_any(v, i, "*") && jinja_any(v, i - 1, "(,*")) {
            verdict = SFT_SCAN_UNKNOWN; /* arguments out of a list or dictionary */
        } else if (name && jinja_is(t, JINJA_NAME, "self") && jinja_any(v, i + 1, "[|")) {
            verdict = SFT_SCAN_DANGEROUS;
        } else if (behind && jinja_op(v, i, '[') && is_computed(v, i)) {
            verdict = SFT_SCAN_UNKNOWN;
        }
        worst = verdict > worst ? verdict : worst;
    }
    return worst;
}

uint32_t sft__import_content_rendered(const sft_allocator *a, const char *text, size_t len) {
    const char *end = text + len;
    size_t work = 0;
    uint32_t worst = SFT_SCAN_HARMLESS;

    if (sft__import_content_breaks_out(text, len)) {
        return SFT_SCAN_DANGEROUS;
    }
    if (len < 12 ||
        (!sft__import_text_has(text, len, "{{") && !sft__import_text_has(text, len, "{%"))) {
        return worst;
    }
    jinja_values *v = sft__base_alloc(a, sizeof *v);
    jinja_token *tokens = sft__base_alloc_array(a, JINJA_TOKENS, sizeof *tokens);
    if (v == NULL || tokens == NULL) {
        worst = SFT_SCAN_UNKNOWN;
    } else {
        v->block.tokens = tokens; /* of the rest only the work is looked at */
        v->work = 0;
        v->all_made = false;
        for (const char *p = text; (p = memchr(p, '{', (size_t)(end - p))) != NULL; p++) {
            if (end - p < 4 || (p[1] != '{' && p[1] != '%')) {
                continue;
            }
            if (work > WORK_MOST) { /* of what could matter, nothing is passed over */
                const bool may = sft__import_text_has(text, len, "attr") ||
                                 sft__import_text_has(text, len, "self");
                worst = may && worst == SFT_SCAN_HARMLESS ? SFT_SCAN_UNKNOWN : worst;
                break;
            }
            const char *at = p;
            const bool whole = sft__import_jinja_read(&v->block, &at, end) == JINJA_BLOCK;
            work += whole ? (size_t)(at - p) : (size_t)(end - p) / 8 + 1024;
            const uint32_t verdict = check_block(v); /* of what is read, if it has no end */
            worst = verdict > worst ? verdict : worst;
            if (worst == SFT_SCAN_DANGEROUS) {
                break;
            }
        }
    }
    sft__base_free(a, tokens, JINJA_TOKENS * sizeof *tokens);
    sft__base_free(a, v, v != NULL ? sizeof *v : 0);
    return worst;
}
