/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_pattern.c - patterns of names: parsed, matched, filled in. No backtracking: a
 * placeholder ends where the literal behind it first stands, or where the name ends. Read
 * checkpoint/names/names.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/names/names.h"
#include "layout/jsontree.h"

#define MOST_DIGITS 18u /* of a number in a name: it and what is added fit into 64 bits */

/* ---------------------------------------------------------------- parsing */

typedef struct parser {
    sft__checkpoint_name_part parts[SFT__NAME_PARTS];
    uint32_t count;
    sft__base_arena *arena;
    sft__checkpoint_name_slots *slots;
    uint64_t offset;
    sft_error *err;
} parser;

static sft_status wrong(const parser *p, const char *what) {
    return sft__base_fail_at(p->err, SFT_E_SCHEMA, p->offset, "name rules: %s", what);
}

static bool is_word(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
              (i != 0 && c >= '0' && c <= '9'))) {
            return false;
        }
    }
    return len != 0;
}

static sft_status slot_of(parser *p, const char *name, size_t len, bool any, uint32_t *slot) {
    sft__checkpoint_name_slots *const s = p->slots;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->len[i] == len && memcmp(s->name[i], name, len) == 0) {
            *slot = i;
            return s->any[i] == any ? SFT_OK
                                    : wrong(p, "a placeholder is both a number and a text");
        }
    }
    if (s->count == SFT__NAME_SLOTS) {
        return wrong(p, "more than 8 placeholders in one rule");
    }
    s->name[s->count] = name;
    s->len[s->count] = len;
    s->any[s->count] = any;
    *slot = s->count++;
    return SFT_OK;
}

static bool parse_decimal(const char *text, size_t len, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return len != 0 && len <= MOST_DIGITS && (len == 1 || text[0] != '0');
}

/* The inside of braces: "i", "i+2", "i-first", "p*". */
static sft_status parse_placeholder(parser *p, const char *text, size_t len,
                                    sft__checkpoint_name_part *part) {
    size_t end = 0;
    while (end < len && text[end] != '+' && text[end] != '-' && text[end] != '*') {
        end++;
    }
    part->any = end + 1 == len && text[end] == '*';
    if (!is_word(text, end) || (end != len && text[end] == '*' && !part->any)) {
        return wrong(p, "a placeholder is {word}, {word*}, {word+number} or {word+value}");
    }
    SFT_TRY(slot_of(p, text, end, part->any, &part->slot));
    if (end == len || part->any) {
        return SFT_OK;
    }
    part->minus = text[end] == '-';
    if (!parse_decimal(text + end + 1, len - end - 1, &part->add)) {
        if (!is_word(text + end + 1, len - end - 1)) {
            return wrong(p, "what is added in a placeholder is a number or the name of a value");
        }
        part->text = sft__base_arena_copy(p->arena, text + end + 1, len - end - 1);
        part->len = len - end - 1;
        part->add = 0;
        return part->text == NULL ? sft__base_fail_nomem(p->err, part->len) : SFT_OK;
    }
    return SFT_OK;
}

static sft_status push_part(parser *p, const sft__checkpoint_name_part *part) {
    const bool open = p->count != 0 && p->parts[p->count - 1].slot != SFT__NAME_NONE;
    if (part->slot != SFT__NAME_NONE && open) {
        return wrong(p, "two placeholders without anything between them");
    }
    if (p->count == SFT__NAME_PARTS) {
        return wrong(p, "a pattern of more than 32 parts");
    }
    p->parts[p->count++] = *part;
    return SFT_OK;
}

static sft_status parse_part(parser *p, const char *text, size_t len, size_t *at) {
    sft__checkpoint_name_part part;
    size_t end = *at;
    memset(&part, 0, sizeof part);
    part.slot = SFT__NAME_NONE;
    if (text[*at] == '{') {
        while (end < len && text[end] != '}') {
            end++;
        }
        if (end == len) {
            return wrong(p, "a brace that is not closed");
        }
        SFT_TRY(parse_placeholder(p, text + *at + 1, end - *at - 1, &part));
        end++;
    } else {
        while (end < len && text[end] != '{' && text[end] != '}') {
            end++;
        }
        if (end == *at) {
            return wrong(p, "a closing brace that was not opened");
        }
        part.text = text + *at;
        part.len = end - *at;
    }
    *at = end;
    return push_part(p, &part);
}

sft_status sft__checkpoint_name_pattern_parse(sft__checkpoint_name_pattern *out,
                                              sft__base_arena *arena,
                                              sft__checkpoint_name_slots *slots,
                                              const sft__layout_jnode *node, sft_error *err) {
    parser p;
    memset(&p, 0, sizeof p);
    p.arena = arena;
    p.slots = slots;
    p.offset = node->offset;
    p.err = err;
    if (node->len == 0) {
        return wrong(&p, "an empty name");
    }
    for (size_t at = 0; at < node->len;) {
        SFT_TRY(parse_part(&p, node->text, node->len, &at));
    }
    const size_t bytes = p.count * sizeof *p.parts;
    out->parts = sft__base_arena_alloc(arena, bytes, sizeof(uint64_t));
    SFT_NEED(out->parts != NULL, bytes, err);
    memcpy(out->parts, p.parts, bytes);
    out->count = p.count;
    for (uint32_t i = 0; i < p.count; i++) {
        if (p.parts[i].slot != SFT__NAME_NONE) {
            out->slots |= 1u << p.parts[i].slot;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- values */

static sft_status value_of(const sft__checkpoint_name_values *values, const char *name, size_t len,
                           uint64_t *value, sft_error *err) {
    for (size_t i = 0; i < values->count; i++) {
        if (strlen(values->values[i].name) == len &&
            memcmp(values->values[i].name, name, len) == 0) {
            *value = values->values[i].value;
            return SFT_OK;
        }
    }
    for (const sft__layout_jnode *n = values->config != NULL ? values->config->first : NULL;
         n != NULL; n = n->next) {
        int64_t number;
        if (n->key != NULL && n->key_len == len && memcmp(n->key, name, len) == 0 &&
            sft__layout_jtree_int(n, &number) && number > 0) {
            *value = (uint64_t)number;
            return SFT_OK;
        }
    }
    return sft__base_fail(err, SFT_E_NOT_FOUND, "the rules need a value for %.*s", (int)len, name);
}

sft_status sft__checkpoint_name_number_value(const sft__checkpoint_name_number *number,
                                             const sft__checkpoint_name_values *values,
                                             uint64_t *value, sft_error *err) {
    const char *at = number->text;
    *value = number->value;
    while (at != NULL) {
        const char *const bar = strchr(at, '|');
        const size_t len = bar != NULL ? (size_t)(bar - at) : strlen(at);
        if (value_of(values, at, len, value, NULL) == SFT_OK) {
            return SFT_OK;
        }
        if (bar == NULL) {
            return sft__base_fail(err, SFT_E_NOT_FOUND, "the rules need a value for %s",
                                  number->text);
        }
        at = bar + 1;
    }
    return SFT_OK;
}

static sft_status added(const sft__checkpoint_name_part *part,
                        const sft__checkpoint_name_values *values, uint64_t *add, sft_error *err) {
    *add = part->add;
    return part->text != NULL ? value_of(values, part->text, part->len, add, err) : SFT_OK;
}

/* ---------------------------------------------------------------- matching */

/* The length of the text that the placeholder `part` stands for, at `at`; 0: none. next: the
 * literal behind it, NULL at the end of the pattern. */
static size_t extent_of(const sft__checkpoint_name_part *part,
                        const sft__checkpoint_name_part *next, bool next_is_last, const char *at,
                        size_t len) {
    if (!part->any) {
        size_t n = 0;
        while (n < len && at[n] >= '0' && at[n] <= '9') {
            n++;
        }
        return n;
    }
    if (next == NULL) {
        return len;
    }
    if (next_is_last) {
        return len > next->len ? len - next->len : 0;
    }
    for (size_t n = 1; n + next->len <= len; n++) {
        if (memcmp(at + n, next->text, next->len) == 0) {
            return n;
        }
    }
    return 0;
}

/* Binds the placeholder to the text; *yes false: it cannot be, or is bound to another. add: what is added to
 * its number. */
static void bind(const sft__checkpoint_name_part *part, uint64_t add, const char *text, size_t len,
                 sft__checkpoint_name_bound *b, bool *yes) {
    const uint32_t bit = 1u << part->slot;
    uint64_t number = 0;
    *yes = true;
    if (!part->any) {
        *yes = parse_decimal(text, len, &number) && (part->minus || number >= add);
        number = part->minus ? number + add : number - add;
    }
    if ((b->set & bit) != 0) {
        *yes = *yes &&
               (part->any ? b->len[part->slot] == len && memcmp(b->text[part->slot], text, len) == 0
                          : b->number[part->slot] == number);
        return;
    }
    b->set |= bit;
    b->text[part->slot] = text;
    b->len[part->slot] = len;
    b->number[part->slot] = number;
}

sft_status sft__checkpoint_name_match(const sft__checkpoint_name_pattern *pattern,
                                      const sft__checkpoint_name_values *values,
                                      const sft_tensor *tensor, sft__checkpoint_name_bound *bound,
                                      bool *yes, sft_error *err) {
    const char *name = tensor->name;
    const size_t len = tensor->name_len;
    size_t at = 0;
    memset(bound, 0, sizeof *bound);
    *yes = true;
    for (uint32_t i = 0; i < pattern->count && *yes; i++) {
        const sft__checkpoint_name_part *const part = &pattern->parts[i];
        const sft__checkpoint_name_part *const next = i + 1 < pattern->count ? part + 1 : NULL;
        size_t n = part->len;
        if (part->slot == SFT__NAME_NONE) {
            *yes = n <= len - at && memcmp(name + at, part->text, n) == 0;
        } else {
            n = extent_of(part, next, i + 2 == pattern->count, name + at, len - at);
            *yes = n != 0;
            if (*yes) {
                uint64_t add = 0;
                SFT_TRY(part->any ? SFT_OK : added(part, values, &add, err));
                bind(part, add, name + at, n, bound, yes);
            }
        }
        at += *yes ? n : 0;
    }
    *yes = *yes && at == len;
    return SFT_OK;
}

/* ---------------------------------------------------------------- filling in */

sft_status sft__checkpoint_name_expand(const sft__checkpoint_name_pattern *pattern,
                                       const sft__checkpoint_name_values *values,
                                       const sft__checkpoint_name_bound *bound, sft__base_buf *out,
                                       sft_error *err) {
    out->len = 0;
    for (uint32_t i = 0; i < pattern->count; i++) {
        const sft__checkpoint_name_part *const part = &pattern->parts[i];
        if (part->slot == SFT__NAME_NONE) {
            sft__base_buf_add(out, part->text, part->len);
        } else if (part->any) {
            sft__base_buf_add(out, bound->text[part->slot], bound->len[part->slot]);
        } else {
            uint64_t n = bound->number[part->slot];
            uint64_t add;
            SFT_TRY(added(part, values, &add, err));
            if (part->minus ? n < add : !sft__base_add64(n, add, &n)) {
                return sft__base_fail(err, SFT_E_RANGE,
                                      "a number in a name that would be below 0, or too large");
            }
            sft__base_buf_u64(out, part->minus ? n - add : n);
        }
    }
    sft__base_buf_add(out, "", 1);
    SFT_NEED(!out->failed, out->len, err);
    out->len--; /* the NUL stays behind it */
    return SFT_OK;
}

void sft__checkpoint_name_text(const sft__checkpoint_name_pattern *pattern, sft__base_buf *out) {
    for (uint32_t i = 0; i < pattern->count; i++) {
        const sft__checkpoint_name_part *const part = &pattern->parts[i];
        if (part->slot == SFT__NAME_NONE) {
            sft__base_buf_add(out, part->text, part->len);
        } else {
            sft__base_buf_text(out, part->any ? "{p*}" : "{i}");
        }
    }
}
