/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_tell.c - what may be a mistake when rules are applied, in sentences. Read
 * checkpoint/names/names.h first.
 */
#include "base/error.h"
#include "checkpoint/likeness.h"
#include "checkpoint/names/names.h"
#include <stdio.h>
#include <string.h>

void sft__checkpoint_name_note_take(sft__checkpoint_name_note *note, const sft_tensor *t) {
    if (note->count++ == 0) {
        (void)sft_escape(note->name, sizeof note->name, t->name, t->name_len);
    }
}

static void tell_heights(const sft__checkpoint_name_height *h, const sft_names_options *o) {
    char text[2 * SFT__NAME_ROOM + 160];
    const int n = snprintf(
        text, sizeof text,
        "stacks of one rule differ in number: \"%s\" has %llu tensors, \"%s\" %llu", h->name,
        (unsigned long long)h->first, h->other_name, (unsigned long long)h->other);
    if (h->others > 1 && n > 0 && (size_t)n < sizeof text) {
        (void)snprintf(text + n, sizeof text - (size_t)n, "; so do %llu more",
                       (unsigned long long)h->others - 1);
    }
    o->warn(o->warn_ctx, text);
}

/* ---------------------------------------------------------------- the nearest rule */

/* A name in which every number is as patterns have it. */
static void number_free(sft__base_buf *out, const char *name, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const bool digit = name[i] >= '0' && name[i] <= '9';
        if (!digit) {
            sft__base_buf_add(out, &name[i], 1);
        } else if (i == 0 || name[i - 1] < '0' || name[i - 1] > '9') {
            sft__base_buf_text(out, "{i}");
        }
    }
}

/* The text of the pattern that is most like the name; empty where none is. */
static void find_nearest(const sft_names *names, bool reverse, const sft_tensor *t,
                         sft__base_buf *out) {
    sft__base_buf name;
    sft__base_buf text;
    size_t best = 0;
    sft__base_buf_init(&name, names->allocator);
    sft__base_buf_init(&text, names->allocator);
    number_free(&name, t->name, t->name_len);
    for (size_t i = 0; i < names->rule_count; i++) {
        const sft__checkpoint_name_rule *const rule = &names->rules[i];
        const uint32_t count = !reverse ? rule->from_count : rule->kind != SFT__NAME_DROP;
        for (uint32_t k = 0; k < count; k++) {
            text.len = 0;
            sft__checkpoint_name_text(reverse ? &rule->to : &rule->from[k], &text);
            const size_t same =
                text.failed || name.failed
                    ? 0
                    : sft__checkpoint_likeness(name.data, name.len, text.data, text.len);
            if (same > best && same > name.len) {
                best = same;
                out->len = 0;
                sft__base_buf_add(out, text.data, text.len);
            }
        }
    }
    sft__base_buf_reset(&name);
    sft__base_buf_reset(&text);
}

static void tell_unknown(const sft__checkpoint_name_notes *notes, const sft_names *names,
                         const sft_names_options *o) {
    char text[3 * SFT__NAME_ROOM + 160];
    char rule[SFT__NAME_ROOM] = "";
    char more[40] = "";
    sft__base_buf nearest;
    sft__base_buf_init(&nearest, names->allocator);
    find_nearest(names, o->reverse != 0, notes->first_unknown, &nearest);
    if (!nearest.failed && nearest.len > 0) {
        (void)sft_escape(rule, sizeof rule, nearest.data, nearest.len);
    }
    if (notes->unknown.count > 1) {
        (void)snprintf(more, sizeof more, " and %llu more",
                       (unsigned long long)notes->unknown.count - 1);
    }
    (void)snprintf(text, sizeof text, "no rule matches \"%s\"%s%s%s%s: kept as %s",
                   notes->unknown.name, more, rule[0] != '\0' ? " (the nearest is for \"" : "",
                   rule, rule[0] != '\0' ? "\")" : "",
                   notes->unknown.count > 1 ? "they are" : "it is");
    o->warn(o->warn_ctx, text);
    sft__base_buf_reset(&nearest);
}

void sft__checkpoint_name_tell(const sft__checkpoint_name_notes *notes, const sft_names *names,
                               const sft_names_options *o) {
    char text[SFT__NAME_ROOM + 160];
    for (size_t i = 0; i < names->rule_count; i++) {
        if (notes->heights[i].others != 0) {
            tell_heights(&notes->heights[i], o);
        }
    }
    if (notes->one_way.count != 0) {
        (void)snprintf(text, sizeof text,
                       "\"%s\"%s no rule matches and the way back would change: that way does not "
                       "give the same names",
                       notes->one_way.name,
                       notes->one_way.count > 1 ? " and others are tensors that"
                                                : " is a tensor that");
        o->warn(o->warn_ctx, text);
    }
    if (notes->dropped.count != 0) {
        (void)snprintf(text, sizeof text, "the rules leave out %llu tensor%s, \"%s\"%s",
                       (unsigned long long)notes->dropped.count,
                       notes->dropped.count > 1 ? "s" : "", notes->dropped.name,
                       notes->dropped.count > 1 ? " first" : "");
        o->warn(o->warn_ctx, text);
    }
    if (notes->unknown.count != 0) {
        tell_unknown(notes, names, o);
    }
}
