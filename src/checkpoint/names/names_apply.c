/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/names_apply.c - rules applied to a catalog: each tensor meets the first rule that
 * matches its name, and the rule says of which boxes of which tensors the new ones are made. Read
 * checkpoint/names/names.h and checkpoint/open/assembly.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/names/names.h"
#include "checkpoint/open/assembly.h"
#include "layout/jsontree.h"

#define CONFIG_BUDGET (UINT64_C(64) << 20)
#define MOST_BOXES    (UINT64_C(1) << 20) /* of one tensor */

typedef struct applying {
    sft__checkpoint_assembly assembly;
    const sft_catalog *in;
    const sft_names *names;
    sft__checkpoint_name_values values;
    bool reverse;
    sft__base_buf name;
    sft__base_arena arena; /* of the configuration */
    sft_names_result result;
    sft__checkpoint_name_notes notes;
    sft_error *err;
} applying;

/* ---------------------------------------------------------------- fusing */

/* How one dimension is shared among the members of a fused tensor. */
typedef struct sharing {
    uint64_t size[SFT__NAME_MEMBERS]; /* of the dimension, in each member */
    uint32_t count;
    uint64_t groups;
} sharing;

static sft_status bad_shape(const applying *a, const sft_tensor *t, const char *what) {
    return sft__base_fail_tensor(a->err, SFT_E_SHAPE, SFT_NO_OFFSET, t->name, t->name_len, "%s",
                                 what);
}

static sft_status about(const applying *a, const sft_tensor *t, sft_status status,
                        const sft_error *why) {
    return sft__base_fail_tensor(a->err, status, SFT_NO_OFFSET, t->name, t->name_len, "%s",
                                 why->message);
}

static sft_status groups_of(const applying *a, const sft__checkpoint_name_rule *rule,
                            const sft_tensor *t, uint64_t *groups) {
    sft_error why;
    *groups = 1;
    if (rule->has_groups != 0) {
        const sft_status status =
            sft__checkpoint_name_number_value(&rule->groups, &a->values, groups, &why);
        if (status != SFT_OK) {
            return about(a, t, status, &why);
        }
    }
    return *groups != 0 && *groups <= MOST_BOXES / rule->from_count
               ? SFT_OK
               : sft__base_fail_tensor(a->err, SFT_E_LIMIT, SFT_NO_OFFSET, t->name, t->name_len,
                                       "%llu groups of %u parts", (unsigned long long)*groups,
                                       rule->from_count);
}

/* Shares `total` in the rule's proportions. */
static sft_status share(const applying *a, const sft__checkpoint_name_rule *rule,
                        const sft_tensor *t, uint64_t total, sharing *s) {
    uint64_t parts[SFT__NAME_MEMBERS];
    uint64_t sum = 0;
    sft_error why;
    s->count = rule->from_count;
    for (uint32_t i = 0; i < s->count; i++) {
        parts[i] = 1;
        if (rule->part_count != 0) {
            const sft_status status =
                sft__checkpoint_name_number_value(&rule->parts[i], &a->values, &parts[i], &why);
            if (status != SFT_OK) {
                return about(a, t, status, &why);
            }
        }
        if (parts[i] > UINT32_MAX) {
            return bad_shape(a, t, "a proportion above 2^32");
        }
        sum += parts[i]; /* at most 16 * 2^32 */
    }
    if (sum == 0 || total % sum != 0) {
        return sft__base_fail_tensor(a->err, SFT_E_SHAPE, SFT_NO_OFFSET, t->name, t->name_len,
                                     "dimension %u of %llu does not divide into %llu parts",
                                     rule->dim, (unsigned long long)total, (unsigned long long)sum);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        s->size[i] = total / sum * parts[i];
        if (s->size[i] % s->groups != 0) {
            return sft__base_fail_tensor(a->err, SFT_E_SHAPE, SFT_NO_OFFSET, t->name, t->name_len,
                                         "a part of %llu does not divide into %llu groups",
                                         (unsigned long long)s->size[i],
                                         (unsigned long long)s->groups);
        }
    }
    return SFT_OK;
}

static sft_status check_rank(const applying *a, const sft__checkpoint_name_rule *rule,
                             const sft_tensor *t) {
    if (t->rank > SFT_LAYOUT_RANK - 1) {
        return bad_shape(a, t, "more dimensions than rules can move");
    }
    return rule->dim < t->rank ? SFT_OK
                               : bad_shape(a, t, "it lacks the dimension that is fused along");
}

/* The members of a fused tensor, of which the name of the first is known. */
static sft_status find_members(applying *a, const sft__checkpoint_name_rule *rule,
                               const sft__checkpoint_name_bound *bound, const sft_tensor *asked,
                               const sft_tensor **members) {
    for (uint32_t i = 0; i < rule->from_count; i++) {
        SFT_TRY(sft__checkpoint_name_expand(&rule->from[i], &a->values, bound, &a->name, a->err));
        members[i] = sft_catalog_find(a->in, a->name.data, a->name.len);
        if (members[i] == NULL) {
            return sft__base_fail_tensor(
                a->err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, asked->name, asked->name_len,
                "the tensor that it is fused with is missing: %s", a->name.data);
        }
    }
    return SFT_OK;
}

static sft_status check_members(const applying *a, const sft__checkpoint_name_rule *rule,
                                const sft_tensor *const *members, uint64_t *total) {
    const sft_tensor *const first = members[0];
    *total = 0;
    SFT_TRY(check_rank(a, rule, first));
    for (uint32_t i = 0; i < rule->from_count; i++) {
        const sft_tensor *const m = members[i];
        if (m->dtype != first->dtype) {
            return sft__base_fail_tensor(a->err, SFT_E_DTYPE, SFT_NO_OFFSET, m->name, m->name_len,
                                         "%s cannot be fused with %s of %s", m->dtype->name,
                                         first->dtype->name, first->name);
        }
        for (uint32_t d = 0; d < first->rank; d++) {
            if (m->rank != first->rank || (d != rule->dim && m->shape[d] != first->shape[d])) {
                return sft__base_fail_tensor(a->err, SFT_E_SHAPE, SFT_NO_OFFSET, m->name,
                                             m->name_len, "its shape does not go with that of %s",
                                             first->name);
            }
        }
        if (!sft__base_add64(*total, m->shape[rule->dim], total)) {
            return bad_shape(a, m, "the fused dimension overflows");
        }
    }
    return SFT_OK;
}

static sft_status move_box(applying *a, const sft_tensor *t, uint32_t dim, uint64_t from,
                           uint64_t count, uint64_t to) {
    uint64_t start[SFT_LAYOUT_RANK], extent[SFT_LAYOUT_RANK], target[SFT_LAYOUT_RANK];
    for (uint32_t d = 0; d < t->rank; d++) {
        start[d] = d == dim ? from : 0;
        extent[d] = d == dim ? count : t->shape[d];
        target[d] = d == dim ? to : 0;
    }
    return count == 0 ? SFT_OK
                      : sft__checkpoint_assembly_box(&a->assembly, 0, t, start, extent, target);
}

/* Where member i begins in group 0, and how far groups are apart, in the fused tensor. */
static uint64_t member_offset(const sharing *s, uint32_t member, uint64_t *step) {
    uint64_t offset = 0;
    *step = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        offset += i < member ? s->size[i] / s->groups : 0;
        *step += s->size[i] / s->groups;
    }
    return offset;
}

static sft_status add_as(applying *a, const sft_tensor *like, const uint64_t *shape,
                         uint32_t rank) {
    sft_tensor renamed = *like;
    renamed.name = a->name.data;
    renamed.name_len = a->name.len;
    return sft__checkpoint_assembly_add(&a->assembly, 0, &renamed, shape, rank);
}

static sft_status fuse(applying *a, const sft__checkpoint_name_rule *rule,
                       const sft__checkpoint_name_bound *bound, const sft_tensor *asked) {
    const sft_tensor *members[SFT__NAME_MEMBERS];
    uint64_t shape[SFT_LAYOUT_RANK];
    uint64_t total, step;
    sharing s;
    SFT_TRY(find_members(a, rule, bound, asked, members));
    if (asked != members[0]) {
        return SFT_OK; /* comes with the first */
    }
    SFT_TRY(check_members(a, rule, members, &total));
    SFT_TRY(groups_of(a, rule, asked, &s.groups));
    if (rule->part_count != 0 || s.groups != 1) {
        sharing wanted = {.groups = s.groups};
        if (rule->part_count != 0) {
            SFT_TRY(share(a, rule, asked, total, &wanted));
        }
        for (uint32_t i = 0; i < rule->from_count; i++) {
            if (members[i]->shape[rule->dim] % s.groups != 0 ||
                (rule->part_count != 0 && members[i]->shape[rule->dim] != wanted.size[i])) {
                return bad_shape(a, members[i],
                                 "its size is not in the proportion that the rule says");
            }
        }
    }
    s.count = rule->from_count;
    for (uint32_t i = 0; i < s.count; i++) {
        s.size[i] = members[i]->shape[rule->dim];
    }
    for (uint64_t g = 0; g < s.groups; g++) {
        for (uint32_t i = 0; i < s.count; i++) {
            const uint64_t chunk = s.size[i] / s.groups;
            const uint64_t offset = member_offset(&s, i, &step);
            SFT_TRY(move_box(a, members[i], rule->dim, g * chunk, chunk, g * step + offset));
        }
    }
    for (uint32_t d = 0; d < asked->rank; d++) {
        shape[d] = d == rule->dim ? total : asked->shape[d];
    }
    a->result.fused += s.count;
    SFT_TRY(sft__checkpoint_name_expand(&rule->to, &a->values, bound, &a->name, a->err));
    return add_as(a, asked, shape, asked->rank);
}

static sft_status split(applying *a, const sft__checkpoint_name_rule *rule,
                        const sft__checkpoint_name_bound *bound, const sft_tensor *t) {
    uint64_t shape[SFT_LAYOUT_RANK];
    uint64_t step;
    sharing s;
    SFT_TRY(check_rank(a, rule, t));
    SFT_TRY(groups_of(a, rule, t, &s.groups));
    SFT_TRY(share(a, rule, t, t->shape[rule->dim], &s));
    for (uint32_t i = 0; i < s.count; i++) {
        const uint64_t chunk = s.size[i] / s.groups;
        const uint64_t offset = member_offset(&s, i, &step);
        for (uint64_t g = 0; g < s.groups; g++) {
            SFT_TRY(move_box(a, t, rule->dim, g * step + offset, chunk, g * chunk));
        }
        for (uint32_t d = 0; d < t->rank; d++) {
            shape[d] = d == rule->dim ? s.size[i] : t->shape[d];
        }
        SFT_TRY(sft__checkpoint_name_expand(&rule->from[i], &a->values, bound, &a->name, a->err));
        SFT_TRY(add_as(a, t, shape, t->rank));
    }
    a->result.split++;
    return SFT_OK;
}

/* ---------------------------------------------------------------- stacking */

/* A stack of this name (in a->name) and number of tensors. */
static void note_height(applying *a, const sft__checkpoint_name_rule *rule, uint64_t number) {
    sft__checkpoint_name_height *const h =
        a->notes.heights != NULL ? &a->notes.heights[rule - a->names->rules] : NULL;
    if (h == NULL || h->first == number) {
        return;
    }
    if (h->first == 0) { /* no stack is of none */
        h->first = number;
        (void)sft_escape(h->name, sizeof h->name, a->name.data, strlen(a->name.data));
        return;
    }
    if (h->others++ == 0) {
        h->other = number;
        (void)sft_escape(h->other_name, sizeof h->other_name, a->name.data, strlen(a->name.data));
    }
}

static sft_status stack(applying *a, const sft__checkpoint_name_rule *rule,
                        const sft__checkpoint_name_bound *first, const sft_tensor *t) {
    sft__checkpoint_name_bound bound = *first;
    uint64_t shape[SFT_LAYOUT_RANK];
    uint64_t *const number = &bound.number[rule->stack_slot];
    const sft_tensor *at = t;
    if (t->rank > SFT_LAYOUT_RANK - 1) {
        return bad_shape(a, t, "more dimensions than rules can move");
    }
    if (*number != 0) { /* comes with number 0; each must follow on another */
        *number -= 1;
        SFT_TRY(sft__checkpoint_name_expand(&rule->from[0], &a->values, &bound, &a->name, a->err));
        return sft_catalog_find(a->in, a->name.data, a->name.len) != NULL
                   ? SFT_OK
                   : sft__base_fail_tensor(
                         a->err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, t->name, t->name_len,
                         "the tensor before it in the stack is missing: %s", a->name.data);
    }
    for (; at != NULL; *number += 1) {
        if (at->dtype != t->dtype || at->rank != t->rank ||
            memcmp(at->shape, t->shape, t->rank * sizeof *t->shape) != 0) {
            return bad_shape(a, at, "its type or shape is not that of the first in the stack");
        }
        SFT_TRY(sft__checkpoint_assembly_stack(&a->assembly, 0, at, *number));
        bound.number[rule->stack_slot]++;
        SFT_TRY(sft__checkpoint_name_expand(&rule->from[0], &a->values, &bound, &a->name, a->err));
        bound.number[rule->stack_slot]--;
        at = sft_catalog_find(a->in, a->name.data, a->name.len);
        a->result.fused++;
    }
    shape[0] = *number;
    for (uint32_t d = 0; d < t->rank; d++) {
        shape[d + 1] = t->shape[d];
    }
    SFT_TRY(sft__checkpoint_name_expand(&rule->to, &a->values, &bound, &a->name, a->err));
    note_height(a, rule, *number);
    return add_as(a, t, shape, t->rank + 1);
}

static sft_status unstack(applying *a, const sft__checkpoint_name_rule *rule,
                          const sft__checkpoint_name_bound *found, const sft_tensor *t) {
    sft__checkpoint_name_bound bound = *found;
    if (t->rank == 0 || t->rank > SFT_LAYOUT_RANK) {
        return bad_shape(a, t, "it has no first dimension to take apart");
    }
    if (t->shape[0] > MOST_BOXES) {
        return bad_shape(a, t, "more than 2^20 tensors in one stack");
    }
    for (uint64_t i = 0; i < t->shape[0]; i++) {
        bound.number[rule->stack_slot] = i;
        SFT_TRY(sft__checkpoint_assembly_unstack(&a->assembly, 0, t, i));
        SFT_TRY(sft__checkpoint_name_expand(&rule->from[0], &a->values, &bound, &a->name, a->err));
        SFT_TRY(add_as(a, t, t->shape + 1, t->rank - 1));
    }
    a->result.split++;
    return SFT_OK;
}

/* ---------------------------------------------------------------- one tensor */

static sft_status keep(applying *a, const sft_tensor *t, const sft__checkpoint_name_pattern *as,
                       const sft__checkpoint_name_bound *bound) {
    SFT_TRY(sft__checkpoint_assembly_global(&a->assembly, 0, t));
    if (as == NULL) {
        a->result.kept++;
        return sft__checkpoint_assembly_add(&a->assembly, 0, t, t->shape, t->rank);
    }
    a->result.renamed++;
    SFT_TRY(sft__checkpoint_name_expand(as, &a->values, bound, &a->name, a->err));
    return add_as(a, t, t->shape, t->rank);
}

static sft_status obey(applying *a, const sft__checkpoint_name_rule *rule,
                       const sft__checkpoint_name_bound *bound, const sft_tensor *t) {
    if (rule->kind == SFT__NAME_DROP) {
        sft__checkpoint_name_note_take(&a->notes.dropped, t);
        a->result.dropped++;
        return SFT_OK;
    }
    if (rule->kind == SFT__NAME_STACK) {
        return a->reverse ? unstack(a, rule, bound, t) : stack(a, rule, bound, t);
    }
    if (rule->from_count != 1) {
        return a->reverse ? split(a, rule, bound, t) : fuse(a, rule, bound, t);
    }
    return keep(a, t, a->reverse ? &rule->from[0] : &rule->to, bound);
}

static sft_status matches(const applying *a, const sft__checkpoint_name_rule *rule,
                          const sft_tensor *t, sft__checkpoint_name_bound *bound, bool *yes) {
    *yes = false;
    if (a->reverse) {
        return rule->kind == SFT__NAME_DROP
                   ? SFT_OK
                   : sft__checkpoint_name_match(&rule->to, &a->values, t, bound, yes, a->err);
    }
    for (uint32_t i = 0; i < rule->from_count && !*yes; i++) {
        SFT_TRY(sft__checkpoint_name_match(&rule->from[i], &a->values, t, bound, yes, a->err));
    }
    return SFT_OK;
}

/* A tensor that no rule matches: would one change it on the way back? */
static sft_status note_kept(applying *a, const sft_tensor *t) {
    applying back = *a;
    sft__checkpoint_name_bound bound;
    sft_error unused;
    bool yes = false;
    back.reverse = !a->reverse;
    back.err = &unused;
    for (size_t i = 0; a->notes.heights != NULL && i < a->names->rule_count && !yes; i++) {
        const sft__checkpoint_name_rule *const rule = &a->names->rules[i];
        if (rule->kind == SFT__NAME_DROP || matches(&back, rule, t, &bound, &yes) != SFT_OK) {
            yes = false; /* what is dropped has no way back */
        }
    }
    if (a->notes.heights == NULL || (!yes && a->names->rest_given)) {
        return SFT_OK;
    }
    SFT_NEED(sft__base_grow(a->assembly.allocator, &a->notes.kept, &a->notes.kept_room,
                            a->notes.kept_count + 1, sizeof *a->notes.kept),
             (a->notes.kept_count + 1) * sizeof *a->notes.kept, a->err);
    a->notes.kept[a->notes.kept_count++] = (sft__checkpoint_name_kept){t, yes};
    return SFT_OK;
}

static sft_status take_tensor(applying *a, const sft_tensor *t) {
    sft__checkpoint_name_bound bound;
    bool yes;
    for (size_t i = 0; i < a->names->rule_count; i++) {
        SFT_TRY(matches(a, &a->names->rules[i], t, &bound, &yes));
        if (yes) {
            return obey(a, &a->names->rules[i], &bound, t);
        }
    }
    if (a->names->rest == SFT__REST_ERROR) {
        return sft__base_fail_tensor(a->err, SFT_E_NOT_FOUND, SFT_NO_OFFSET, t->name, t->name_len,
                                     "no rule matches this name");
    }
    if (a->names->rest == SFT__REST_DROP) {
        sft__checkpoint_name_note_take(&a->notes.dropped, t);
        a->result.dropped++;
        return SFT_OK;
    }
    SFT_TRY(note_kept(a, t));
    return keep(a, t, NULL, NULL);
}

static sft_status take_heights(applying *a) {
    const size_t bytes = (a->names->rule_count + 1) * sizeof *a->notes.heights;
    a->notes.heights = sft__base_arena_alloc(&a->arena, bytes, sizeof(uint64_t));
    SFT_NEED(a->notes.heights != NULL, bytes, a->err);
    memset(a->notes.heights, 0, bytes);
    return SFT_OK;
}

/* ---------------------------------------------------------------- the catalog */

static sft_status take_all(applying *a) {
    const size_t count = sft_catalog_count(a->in);
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(take_tensor(a, sft_catalog_at(a->in, i)));
    }
    SFT_TRY(sft__checkpoint_assembly_lacks(&a->assembly, 0));
    const sft__checkpoint_names_metadata m = {a->names->formats[a->reverse ? 0 : 1],
                                              a->result.kept != count, a->result.renamed != 0};
    return a->result.dropped == count
               ? SFT_OK
               : sft__checkpoint_names_metadata_take(&a->assembly, a->in, &m, a->err);
}

static sft_status take_config(applying *a, const sft_names_options *options) {
    sft__layout_jnode *root;
    SFT_TRY(
        sft__layout_jtree_config(&root, &a->arena, options->config, options->config_size, a->err));
    a->values.config = root;
    return SFT_OK;
}

sft_status sft_names_apply(sft_catalog **out, const sft_catalog *in, const sft_names *names,
                           const sft_names_options *options, sft_names_result *result,
                           sft_error *err) {
    sft_names_options o;
    applying a;
    *out = NULL;
    SFT_TRY(sft__base_options_read(&o, sizeof o, options, SFT__UP_TO(sft_names_options, open),
                                   "options", err));
    SFT_TRY(sft__base_result_check(result, SFT__UP_TO(sft_names_result, renamed), err));
    const sft_open_options *const open = o.open;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.names = names;
    a.err = err;
    a.values.values = o.values;
    a.values.count = o.value_count;
    a.reverse = o.reverse != 0;
    sft__base_buf_init(&a.name, sft__base_allocator(open != NULL ? open->allocator : NULL));
    sft__base_arena_init(&a.arena, sft__base_allocator(open != NULL ? open->allocator : NULL),
                         CONFIG_BUDGET);
    sft_status status = sft__checkpoint_assembly_init(&a.assembly, &in, 1, open, err);
    if (status == SFT_OK && o.config != NULL) {
        status = take_config(&a, &o);
    }
    if (status == SFT_OK && o.warn != NULL) {
        status = take_heights(&a);
    }
    if (status == SFT_OK) {
        status = take_all(&a);
    }
    if (status == SFT_OK && o.warn != NULL) {
        sft__checkpoint_name_tell(&a.notes, names, &o);
    }
    if (status == SFT_OK) {
        status = sft_builder_finish(out, a.assembly.builder, err);
    }
    if (result != NULL) {
        sft__base_result_write(result, &a.result, sizeof a.result);
    }
    sft__base_free(a.assembly.allocator, a.notes.kept, a.notes.kept_room * sizeof *a.notes.kept);
    sft__checkpoint_assembly_reset(&a.assembly);
    sft__base_buf_reset(&a.name);
    sft__base_arena_free(&a.arena);
    return status;
}
