/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_tell.c - what may be a mistake when rules are applied, in sentences. Read
 * checkpoint/names/names.h first.
 */
#include "base/error.h"
#include "base/text/strmap.h"
#include "checkpoint/likeness.h"
#include "checkpoint/names/names.h"
#include <stdio.h>
#include <string.h>

#define TOLD  20u   /* tensors with a sentence each */
#define KNOWN 1024u /* names without their numbers whose nearest rule is looked for */

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

/* States of an optimizer are called after their parameters. */
static size_t state_of(const char *name, size_t len) {
    static const char *const states[] = {"adam_m.",  "adam_v.",     "moments.", "moment1.",
                                         "moment2.", "accu_grads.", "exp_avg.", "exp_avg_sq."};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        const size_t n = strlen(states[i]);
        if (len > n && memcmp(name, states[i], n) == 0) {
            return n;
        }
    }
    return 0;
}

/* A name in which every number is as patterns have it, without what says that it is a state. */
static void number_free(sft__base_buf *out, const char *name, size_t len) {
    for (size_t i = state_of(name, len); i < len; i++) {
        const bool digit = name[i] >= '0' && name[i] <= '9';
        if (!digit) {
            sft__base_buf_add(out, &name[i], 1);
        } else if (i == 0 || name[i - 1] < '0' || name[i - 1] > '9') {
            sft__base_buf_text(out, "{i}");
        }
    }
}

/* The nearest so far, and how near. */
typedef struct nearness {
    const sft__base_buf *name;
    sft__base_buf *out;
    size_t best;
} nearness;

static void consider(nearness *n, const sft__checkpoint_name_pattern *pattern,
                     sft__base_buf *text) {
    text->len = 0;
    sft__checkpoint_name_text(pattern, text);
    const size_t same =
        text->failed || n->name->failed
            ? 0
            : sft__checkpoint_likeness(n->name->data, n->name->len, text->data, text->len);
    if (same > n->best && same > n->name->len) {
        n->best = same;
        n->out->len = 0;
        sft__base_buf_add(n->out, text->data, text->len);
    }
}

/* The text of the pattern that is most like the name; empty where none is. A name may be of the other side's
 * framework: that one's are looked at last. */
static void find_nearest(const sft_names *names, bool reverse, const sft__base_buf *name,
                         sft__base_buf *out) {
    nearness n = {name, out, 0};
    sft__base_buf text;
    sft__base_buf_init(&text, names->allocator);
    for (int side = 0; side < 2; side++) {
        const bool right = reverse == (side == 0);
        for (size_t i = 0; i < names->rule_count; i++) {
            const sft__checkpoint_name_rule *const rule = &names->rules[i];
            const bool dropped = rule->kind == SFT__NAME_DROP;
            for (uint32_t k = 0; k < rule->from_count && !right && !(reverse && dropped); k++) {
                consider(&n, &rule->from[k], &text);
            }
            if (right && !dropped) {
                consider(&n, &rule->to, &text);
            }
        }
    }
    sft__base_buf_reset(&text);
}

/* ---------------------------------------------------------------- tensors that no rule matches */

/* A name without its numbers and the nearest rule: layers have the same ones. Name and length come first:
 * base/text/strmap.h reads them there. */
typedef struct known {
    const char *name;
    size_t len;
    const char *nearest;
} known;

typedef struct telling {
    const sft_names *names;
    const sft_names_options *o;
    sft__base_arena arena;
    known list[KNOWN];
    size_t count;
    sft__base_strmap map;
} telling;

/* Escaped, in the arena; "" where none is near, or there is no memory: it is a message. */
static const char *nearest_of(telling *k, const sft_tensor *t) {
    char shown[SFT__NAME_ROOM] = "";
    sft__base_buf name;
    sft__base_buf nearest;
    sft__base_buf_init(&name, k->names->allocator);
    sft__base_buf_init(&nearest, k->names->allocator);
    number_free(&name, t->name, t->name_len);
    size_t at = name.failed || k->map.slots == NULL
                    ? SFT__STRMAP_NONE
                    : sft__base_strmap_find(&k->map, name.data, name.len);
    if (at == SFT__STRMAP_NONE && !name.failed && k->map.slots != NULL && k->count < KNOWN) {
        find_nearest(k->names, k->o->reverse != 0, &name, &nearest);
        if (!nearest.failed && nearest.len > 0) {
            (void)sft_escape(shown, sizeof shown, nearest.data, nearest.len);
        }
        known *const one = &k->list[k->count];
        one->len = name.len;
        one->name = sft__base_arena_copy(&k->arena, name.data, name.len);
        one->nearest = sft__base_arena_copy(&k->arena, shown, strlen(shown));
        if (one->name != NULL && one->nearest != NULL) {
            at = k->count++;
            (void)sft__base_strmap_add(&k->map, at);
        }
    }
    sft__base_buf_reset(&name);
    sft__base_buf_reset(&nearest);
    return at == SFT__STRMAP_NONE ? "" : k->list[at].nearest;
}

static void tell_one(telling *k, const sft__checkpoint_name_kept *one, const char *nearest) {
    char text[3 * SFT__NAME_ROOM + 160];
    char shown[SFT__NAME_ROOM];
    (void)sft_escape(shown, sizeof shown, one->tensor->name, one->tensor->name_len);
    (void)snprintf(text, sizeof text, "no rule matches \"%s\"%s%s%s: kept as it is%s", shown,
                   nearest[0] != '\0' ? " (the nearest is for \"" : "", nearest,
                   nearest[0] != '\0' ? "\")" : "",
                   one->one_way ? ", and the way back would change it: that way does not give the "
                                  "same names"
                                : "");
    k->o->warn(k->o->warn_ctx, text);
}

/* Few enough to read with a sentence each; all of them to who asks. */
static void tell_kept(telling *k, const sft__checkpoint_name_notes *notes) {
    char text[160];
    for (size_t i = 0; i < notes->kept_count; i++) {
        const sft__checkpoint_name_kept *const one = &notes->kept[i];
        if (i >= TOLD && k->o->unmatched == NULL) {
            break;
        }
        const char *const nearest = nearest_of(k, one->tensor);
        if (i < TOLD) {
            tell_one(k, one, nearest);
        }
        if (k->o->unmatched != NULL) {
            k->o->unmatched(k->o->warn_ctx, one->tensor, nearest);
        }
    }
    if (notes->kept_count > TOLD) {
        const unsigned long long more = notes->kept_count - TOLD;
        (void)snprintf(text, sizeof text, "no rule matches %llu more tensor%s: kept as %s", more,
                       more == 1 ? "" : "s", more == 1 ? "it is" : "they are");
        k->o->warn(k->o->warn_ctx, text);
    }
}

static void tell_all_kept(const sft__checkpoint_name_notes *notes, const sft_names *names,
                          const sft_names_options *o) {
    telling *const k = sft__base_alloc_zero(names->allocator, sizeof *k);
    if (k == NULL) {
        return;
    }
    k->names = names;
    k->o = o;
    sft__base_arena_init(&k->arena, names->allocator, UINT64_C(1) << 24);
    if (!sft__base_strmap_init(&k->map, k->list, sizeof *k->list, KNOWN, names->allocator)) {
        k->map.slots = NULL;
    }
    tell_kept(k, notes);
    if (k->map.slots != NULL) {
        sft__base_strmap_reset(&k->map);
    }
    sft__base_arena_free(&k->arena);
    sft__base_free(names->allocator, k, sizeof *k);
}

void sft__checkpoint_name_tell(const sft__checkpoint_name_notes *notes, const sft_names *names,
                               const sft_names_options *o) {
    char text[SFT__NAME_ROOM + 160];
    for (size_t i = 0; i < names->rule_count; i++) {
        if (notes->heights[i].others != 0) {
            tell_heights(&notes->heights[i], o);
        }
    }
    if (notes->dropped.count != 0) {
        (void)snprintf(text, sizeof text, "the rules leave out %llu tensor%s, \"%s\"%s",
                       (unsigned long long)notes->dropped.count,
                       notes->dropped.count > 1 ? "s" : "", notes->dropped.name,
                       notes->dropped.count > 1 ? " first" : "");
        o->warn(o->warn_ctx, text);
    }
    if (notes->kept_count != 0) {
        tell_all_kept(notes, names, o);
    }
}
