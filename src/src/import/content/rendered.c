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

static bool is_any(const sft__import_jinja_values *v, size_t i, const char *ops) {
    const sft__import_jinja_token *t = sft__import_jinja_at(v, i);
    return t->kind == SFT__JINJA_OP && t->len == 1 && strchr(ops, t->p[0]) != NULL;
}

static bool is_string(const sft__import_jinja_values *v, size_t i) {
    return sft__import_jinja_at(v, i)->kind == SFT__JINJA_STRING;
}

/* A name of an attribute that is written out, the last of its argument; *quotes doubled, as a text
 * of YAML in quotes has them, they are no Jinja. */
static bool is_plain(const sft__import_jinja_values *v, size_t i) {
    const sft__import_jinja_token *t = sft__import_jinja_at(v, i);
    const bool doubled = t->kind == SFT__JINJA_STRING && t->len == 0 &&
                         sft__import_jinja_at(v, i + 1)->kind == SFT__JINJA_NAME;

    if (doubled) {
        i++;
        while (sft__import_jinja_op(v, i + 1, '.') &&
               sft__import_jinja_at(v, i + 2)->kind == SFT__JINJA_NAME) {
            i += 2;
        }
        return is_string(v, i + 1) && sft__import_jinja_at(v, i + 1)->len == 0 &&
               is_any(v, i + 2, ",)");
    }
    return (t->kind == SFT__JINJA_STRING || t->kind == SFT__JINJA_NUMBER) && is_any(v, i + 1, ",)");
}

/* "map", "groupby" ...: i at the name behind "|". */
static uint32_t check_filter(const sft__import_jinja_values *v, size_t i) {
    static const char *const by_name[] = {"selectattr", "rejectattr", "groupby", NULL};
    const sft__import_jinja_token *t = sft__import_jinja_at(v, i);
    const sft__import_jinja_token *first = sft__import_jinja_at(v, i + 2);
    const bool map = sft__import_jinja_is(t, SFT__JINJA_NAME, "map");

    const bool doubled = first->kind == SFT__JINJA_STRING && first->len == 0;
    const bool by_text = map && sft__import_jinja_op(v, i + 1, '(') &&
                         (sft__import_jinja_is(first, SFT__JINJA_STRING, "attr") ||
                          (doubled && sft__import_jinja_is(sft__import_jinja_at(v, i + 3),
                                                           SFT__JINJA_NAME, "attr")));
    if (by_text || sft__import_jinja_is(t, SFT__JINJA_NAME, "attr")) {
        return SFT_SCAN_DANGEROUS;
    }
    if ((!map && !sft__import_jinja_listed(t->p, t->len, by_name)) ||
        !sft__import_jinja_op(v, i + 1, '(')) {
        return SFT_SCAN_HARMLESS;
    }
    const bool keyword = first->kind == SFT__JINJA_NAME && sft__import_jinja_op(v, i + 3, '=');
    return keyword || is_plain(v, i + 2) ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
}

/* i at the bracket of a subscript: are texts put together, or changed, in it? */
static bool is_computed(sft__import_jinja_values *v, size_t i) {
    unsigned depth = 0;
    bool text = false;
    bool changed = false;

    for (; i < v->block.count && sft__import_jinja_allows(v); i++) {
        depth += is_any(v, i, "([{");
        depth -= is_any(v, i, ")]}");
        if (depth == 0) {
            return text && changed;
        }
        const bool named = sft__import_jinja_at(v, i)->kind == SFT__JINJA_NAME;
        text = text || is_string(v, i);
        changed =
            changed || is_any(v, i, "|~+%") || (is_string(v, i) && is_string(v, i + 1)) ||
            (named && sft__import_jinja_op(v, i - 1, '.') && sft__import_jinja_op(v, i + 1, '('));
    }
    return (text && changed) || v->work > SFT__JINJA_WORK;
}

static uint32_t check_block(sft__import_jinja_values *v) {
    uint32_t worst = SFT_SCAN_HARMLESS;
    bool filtered = false;

    for (size_t i = 0; i < v->block.count; i++) {
        const sft__import_jinja_token *t = sft__import_jinja_at(v, i);
        const bool name = t->kind == SFT__JINJA_NAME;
        uint32_t verdict = SFT_SCAN_HARMLESS;
        const bool behind =
            i > 0 && (is_any(v, i - 1, ")]}") || is_string(v, i - 1) ||
                      (sft__import_jinja_at(v, i - 1)->kind == SFT__JINJA_NAME &&
                       !sft__import_jinja_is_keyword(sft__import_jinja_at(v, i - 1))));
        if (name && sft__import_jinja_filter(v, i)) {
            filtered = true;
            verdict = check_filter(v, i);
        } else if (name && filtered && sft__import_jinja_is(t, SFT__JINJA_NAME, "attribute") &&
                   sft__import_jinja_op(v, i + 1, '=') && !sft__import_jinja_op(v, i + 2, '=')) {
            verdict = is_plain(v, i + 2) ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
        } else if (filtered && is_any(v, i, "*") && is_any(v, i - 1, "(,*")) {
            verdict = SFT_SCAN_UNKNOWN; /* arguments out of a list or dictionary */
        } else if (name && sft__import_jinja_is(t, SFT__JINJA_NAME, "self") &&
                   is_any(v, i + 1, "[|")) {
            verdict = SFT_SCAN_DANGEROUS;
        } else if (behind && sft__import_jinja_op(v, i, '[') && is_computed(v, i)) {
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
    sft__import_jinja_values *v = sft__base_alloc(a, sizeof *v);
    sft__import_jinja_token *tokens = sft__base_alloc_array(a, SFT__JINJA_TOKENS, sizeof *tokens);
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
            const bool whole = sft__import_jinja_read(&v->block, &at, end) == SFT__JINJA_BLOCK;
            work += whole ? (size_t)(at - p) : (size_t)(end - p) / 8 + 1024;
            const uint32_t verdict = check_block(v); /* of what is read, if it has no end */
            worst = verdict > worst ? verdict : worst;
            if (worst == SFT_SCAN_DANGEROUS) {
                break;
            }
        }
    }
    sft__base_free(a, tokens, SFT__JINJA_TOKENS * sizeof *tokens);
    sft__base_free(a, v, v != NULL ? sizeof *v : 0);
    return worst;
}
