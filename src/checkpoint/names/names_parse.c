/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_parse.c - the JSON form of rules. Read checkpoint/names/names.h and docs/names.md
 * first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/names/names.h"
#include "layout/jsontree.h"

#define MOST_BYTES (1u << 20)
#define MOST_RULES 4096u
#define BUDGET     (UINT64_C(64) << 20)

typedef struct parse {
    sft_names *names;
    sft_error *err;
} parse;

static sft_status wrong(const parse *p, const sft__layout_jnode *at, const char *what) {
    return sft__base_fail_at(p->err, SFT_E_SCHEMA, at->offset, "name rules: %s", what);
}

static sft_status no_memory(const parse *p, size_t size) {
    return p->names->arena.over_budget
               ? sft__base_fail(p->err, SFT_E_LIMIT,
                                "name rules need more memory than the limit allows")
               : sft__base_fail_nomem(p->err, size);
}

static sft_status room(const parse *p, void *pointer, size_t count, size_t size) {
    void *const at = sft__base_arena_alloc(&p->names->arena, count * size + 1, sizeof(uint64_t));
    if (at == NULL) {
        return no_memory(p, count * size);
    }
    memset(at, 0, count * size);
    memcpy(pointer, &at, sizeof at);
    return SFT_OK;
}

static sft_status only(const parse *p, const sft__layout_jnode *object, const char *const *keys) {
    for (const sft__layout_jnode *m = object->first; m != NULL; m = m->next) {
        size_t i = 0;
        while (keys[i] != NULL && strcmp(keys[i], m->key) != 0) {
            i++;
        }
        if (keys[i] == NULL) {
            return wrong(p, m, "a key that no rule has");
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- one rule */

static sft_status parse_number(const parse *p, const sft__layout_jnode *n,
                               sft__checkpoint_name_number *out) {
    int64_t value;
    if (n->type == SFT__J_STRING && n->len != 0 && strlen(n->text) == n->len) {
        out->text = n->text;
        return SFT_OK;
    }
    if (!sft__layout_jtree_int(n, &value) || value < 1 || value > INT32_MAX) {
        return wrong(p, n, "a number from 1 to 2^31 - 1, or the name of a value, was needed");
    }
    out->value = (uint64_t)value;
    return SFT_OK;
}

static sft_status parse_name(const parse *p, const sft__layout_jnode *n,
                             sft__checkpoint_name_slots *slots, sft__checkpoint_name_pattern *out) {
    if (n == NULL || n->type != SFT__J_STRING) {
        return wrong(p, n, "a name was needed");
    }
    return sft__checkpoint_name_pattern_parse(out, &p->names->arena, slots, n, p->err);
}

static sft_status parse_from(const parse *p, const sft__layout_jnode *from,
                             sft__checkpoint_name_slots *slots, sft__checkpoint_name_rule *rule) {
    const bool many = from->type == SFT__J_ARRAY;
    const sft__layout_jnode *at = many ? from->first : from;
    if (many && (from->len == 0 || from->len > SFT__NAME_MEMBERS)) {
        return wrong(p, from, "from 1 to 16 tensors can be fused");
    }
    rule->from_count = many ? (uint32_t)from->len : 1;
    SFT_TRY(room(p, &rule->from, rule->from_count, sizeof *rule->from));
    for (uint32_t i = 0; i < rule->from_count; i++) {
        SFT_TRY(parse_name(p, at, slots, &rule->from[i]));
        at = at->next;
    }
    return SFT_OK;
}

static sft_status parse_fusing(const parse *p, const sft__layout_jnode *n,
                               sft__checkpoint_name_rule *rule) {
    const sft__layout_jnode *const dim = sft__layout_jtree_get(n, "dim");
    const sft__layout_jnode *const parts = sft__layout_jtree_get(n, "parts");
    const sft__layout_jnode *const groups = sft__layout_jtree_get(n, "groups");
    int64_t value = 0;
    if (dim != NULL && (!sft__layout_jtree_int(dim, &value) || value < 0 || value > 63)) {
        return wrong(p, dim, "\"dim\" is a number from 0 to 63");
    }
    rule->dim = (uint32_t)value;
    if (parts != NULL) {
        const sft__layout_jnode *at = parts->first;
        if (parts->type != SFT__J_ARRAY || parts->len != rule->from_count) {
            return wrong(p, parts, "\"parts\" has one entry for each name in \"from\"");
        }
        rule->part_count = rule->from_count;
        SFT_TRY(room(p, &rule->parts, rule->part_count, sizeof *rule->parts));
        for (uint32_t i = 0; i < rule->part_count; i++, at = at->next) {
            SFT_TRY(parse_number(p, at, &rule->parts[i]));
        }
    }
    rule->has_groups = groups != NULL;
    return groups != NULL ? parse_number(p, groups, &rule->groups) : SFT_OK;
}

/* Both sides must have the same placeholders, or one could not be made from the other. */
static sft_status check_slots(const parse *p, const sft__layout_jnode *n,
                              const sft__checkpoint_name_rule *rule) {
    uint32_t to = rule->to.slots;
    if (rule->kind == SFT__NAME_STACK) {
        if ((to & (1u << rule->stack_slot)) != 0 || rule->from_count != 1 ||
            rule->part_count != 0 || rule->has_groups != 0) {
            return wrong(p, n, "a stack has one \"from\", whose number to count is not in \"to\"");
        }
        to |= 1u << rule->stack_slot;
    }
    for (uint32_t i = 0; i < rule->from_count; i++) {
        if (rule->from[i].slots != to) {
            return wrong(p, n, "\"from\" and \"to\" have different placeholders");
        }
    }
    return SFT_OK;
}

static sft_status parse_stack(const parse *p, const sft__layout_jnode *over,
                              const sft__checkpoint_name_slots *slots,
                              sft__checkpoint_name_rule *rule) {
    rule->kind = SFT__NAME_STACK;
    for (uint32_t i = 0; i < slots->count; i++) {
        if (over->type == SFT__J_STRING && !slots->any[i] && slots->len[i] == over->len &&
            memcmp(slots->name[i], over->text, over->len) == 0) {
            rule->stack_slot = i;
            return SFT_OK;
        }
    }
    return wrong(p, over, "\"stack\" names a number in \"from\"");
}

static sft_status parse_rule(const parse *p, const sft__layout_jnode *n,
                             sft__checkpoint_name_rule *rule) {
    static const char *const keys[] = {"from",   "to",    "dim",  "parts",
                                       "groups", "stack", "drop", NULL};
    sft__checkpoint_name_slots slots;
    memset(&slots, 0, sizeof slots);
    if (n->type != SFT__J_OBJECT) {
        return wrong(p, n, "a rule is an object");
    }
    SFT_TRY(only(p, n, keys));
    rule->offset = n->offset;
    const sft__layout_jnode *const drop = sft__layout_jtree_get(n, "drop");
    const sft__layout_jnode *const from = sft__layout_jtree_get(n, "from");
    const sft__layout_jnode *const to = sft__layout_jtree_get(n, "to");
    const sft__layout_jnode *const stack = sft__layout_jtree_get(n, "stack");
    if (drop != NULL) {
        if (n->len != 1) {
            return wrong(p, n, "\"drop\" stands alone");
        }
        rule->kind = SFT__NAME_DROP;
        return parse_from(p, drop, &slots, rule);
    }
    if (from == NULL || to == NULL) {
        return wrong(p, n, "a rule has \"from\" and \"to\", or \"drop\"");
    }
    SFT_TRY(parse_from(p, from, &slots, rule));
    SFT_TRY(parse_name(p, to, &slots, &rule->to));
    SFT_TRY(parse_fusing(p, n, rule));
    if (stack != NULL) {
        SFT_TRY(parse_stack(p, stack, &slots, rule));
    }
    return check_slots(p, n, rule);
}

/* ---------------------------------------------------------------- the whole */

static sft_status parse_formats(const parse *p, const sft__layout_jnode *n) {
    if (n->type != SFT__J_ARRAY || n->len != 2 || n->first->type != SFT__J_STRING ||
        n->first->next->type != SFT__J_STRING) {
        return wrong(p, n, "\"formats\" is two texts: of the left side and of the right side");
    }
    p->names->formats[0] = n->first->text;
    p->names->formats[1] = n->first->next->text;
    return SFT_OK;
}

static sft_status parse_rest(const parse *p, const sft__layout_jnode *n) {
    static const char *const words[] = {"keep", "drop", "error"};
    for (uint32_t i = 0; i < 3; i++) {
        if (n->type == SFT__J_STRING && strcmp(n->text, words[i]) == 0) {
            p->names->rest = (sft__checkpoint_name_rest)i;
            p->names->rest_given = true;
            return SFT_OK;
        }
    }
    return wrong(p, n, "\"otherwise\" is \"keep\", \"drop\" or \"error\"");
}

static sft_status parse_all(const parse *p, const sft__layout_jnode *root) {
    static const char *const keys[] = {"format", "title", "formats", "otherwise", "rules", NULL};
    if (root->type != SFT__J_OBJECT) {
        return wrong(p, root, "an object was needed");
    }
    SFT_TRY(only(p, root, keys));
    const sft__layout_jnode *const format = sft__layout_jtree_get(root, "format");
    const sft__layout_jnode *const formats = sft__layout_jtree_get(root, "formats");
    const sft__layout_jnode *const rest = sft__layout_jtree_get(root, "otherwise");
    const sft__layout_jnode *const rules = sft__layout_jtree_get(root, "rules");
    if (format == NULL || format->type != SFT__J_STRING ||
        strcmp(format->text, "safetensors.names/1") != 0) {
        return wrong(p, root, "\"format\": \"safetensors.names/1\" was needed");
    }
    if (rules == NULL || rules->type != SFT__J_ARRAY) {
        return wrong(p, root, "\"rules\", an array, was needed");
    }
    if (rules->len > MOST_RULES) {
        return sft__base_fail_at(p->err, SFT_E_LIMIT, rules->offset,
                                 "name rules: more than 4096 rules");
    }
    if (formats != NULL) {
        SFT_TRY(parse_formats(p, formats));
    }
    if (rest != NULL) {
        SFT_TRY(parse_rest(p, rest));
    }
    SFT_TRY(room(p, &p->names->rules, rules->len, sizeof *p->names->rules));
    for (const sft__layout_jnode *n = rules->first; n != NULL; n = n->next) {
        SFT_TRY(parse_rule(p, n, &p->names->rules[p->names->rule_count++]));
    }
    return SFT_OK;
}

sft_status sft_names_parse(sft_names **out, const char *text, size_t size,
                           const sft_allocator *allocator, sft_error *err) {
    const sft_allocator *const a = sft__base_allocator(allocator);
    sft__layout_jnode *root;
    parse p;
    *out = NULL;
    if (size > MOST_BYTES) {
        return sft__base_fail(err, SFT_E_LIMIT, "name rules of more than 1 MiB");
    }
    sft_names *const names = sft__base_alloc_zero(a, sizeof *names);
    SFT_NEED(names != NULL, sizeof *names, err);
    names->allocator = a;
    sft__base_arena_init(&names->arena, a, BUDGET);
    p.names = names;
    p.err = err;
    sft_status status =
        sft__layout_jtree_parse(&root, &names->arena, text, size, "name rules", err);
    if (status == SFT_OK) {
        status = parse_all(&p, root);
    }
    if (status != SFT_OK) {
        sft_names_free(names);
        return status;
    }
    *out = names;
    return SFT_OK;
}

void sft_names_free(sft_names *names) {
    if (names != NULL) {
        const sft_allocator *const a = names->allocator;
        sft__base_arena_free(&names->arena);
        sft__base_free(a, names, sizeof *names);
    }
}
