/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy_merge.c - the strategies of pipeline stages as one; two files of one stage must say the
 * same. Read layout/strategy.h first.
 */
#include "base/error.h"
#include "layout/strategy.h"

static bool same_numbers(const void *a, const void *b, size_t count, size_t size) {
    return (a == NULL) == (b == NULL) &&
           (a == NULL || count == 0 || memcmp(a, b, count * size) == 0);
}

static bool same_param(const sft__layout_ms_param *a, const sft__layout_ms_param *b) {
    return a->axis_count == b->axis_count && a->dims == b->dims &&
           a->split_count == b->split_count && a->field == b->field &&
           a->opt_shard_step == b->opt_shard_step && a->opt_shard_size == b->opt_shard_size &&
           same_numbers(a->dev_matrix, b->dev_matrix, a->axis_count, sizeof *a->dev_matrix) &&
           same_numbers(a->map_at, b->map_at, a->dims + 1, sizeof *a->map_at) &&
           same_numbers(a->map, b->map, a->map_at[a->dims], sizeof *a->map) &&
           same_numbers(a->shape, b->shape, a->dims, sizeof *a->shape) &&
           same_numbers(a->split_rows, b->split_rows, a->split_count, sizeof *a->split_rows) &&
           same_numbers(a->split_offsets, b->split_offsets, a->split_count,
                        sizeof *a->split_offsets);
}

/* Two files of one stage must say the same. */
static sft_status same_stage(const sft_ms_strategy *a, const sft_ms_strategy *b, sft_error *err) {
    for (size_t i = 0; i < b->count; i++) {
        const sft__layout_ms_param *const p = &b->entries[i].param;
        const sft__layout_ms_param *const q =
            sft__layout_ms_find(a, p->name, p->name_len, p->stage);
        if (q == NULL || !same_param(p, q)) {
            return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, p->name, p->name_len,
                                         "two strategies of stage %u disagree", p->stage);
        }
    }
    if (a->count != b->count) {
        return sft__base_fail(err, SFT_E_MISMATCH,
                              "two strategies of stage %u disagree: %llu and %llu parameters",
                              a->stage, (unsigned long long)a->count, (unsigned long long)b->count);
    }
    return SFT_OK;
}

static void *copy_of(sft_ms_strategy *s, const void *from, size_t count, size_t size, bool *ok) {
    void *to;
    if (from == NULL || !*ok) {
        return NULL;
    }
    to = sft__base_arena_alloc(&s->arena, count * size + 1, sizeof(uint64_t));
    if (to == NULL) {
        *ok = false;
        return NULL;
    }
    memcpy(to, from, count * size);
    return to;
}

static sft_status copy_param(sft_ms_strategy *s, const sft__layout_ms_entry *from, sft_error *err) {
    sft__layout_ms_entry *e;
    bool ok = true;
    SFT_TRY(sft__layout_ms_add(s, &e, err));
    const sft__layout_ms_param *const p = &from->param;
    e->param = *p;
    e->param.name = copy_of(s, from->key, from->key_len + 1, 1, &ok); /* "STAGE-name" again */
    e->param.name_len = from->key_len;
    e->param.dev_matrix = copy_of(s, p->dev_matrix, p->axis_count, sizeof *p->dev_matrix, &ok);
    e->param.map = copy_of(s, p->map, p->map_at[p->dims], sizeof *p->map, &ok);
    e->param.map_at = copy_of(s, p->map_at, p->dims + 1, sizeof *p->map_at, &ok);
    e->param.shape = copy_of(s, p->shape, p->dims, sizeof *p->shape, &ok);
    e->param.split_rows = copy_of(s, p->split_rows, p->split_count, sizeof *p->split_rows, &ok);
    e->param.split_offsets =
        copy_of(s, p->split_offsets, p->split_count, sizeof *p->split_offsets, &ok);
    return ok ? SFT_OK : sft__layout_ms_nomem(s, p->name_len, err);
}

static sft_status copy_node(sft_ms_strategy *s, const sft__layout_ms_node *from, sft_error *err) {
    sft__layout_ms_node *n;
    bool ok = true;
    SFT_TRY(sft__layout_ms_add_node(s, &n, err));
    *n = *from;
    n->name = copy_of(s, from->name, from->name_len + 1, 1, &ok);
    n->numbers = copy_of(s, from->numbers, from->begin[from->count], sizeof *from->numbers, &ok);
    n->begin = copy_of(s, from->begin, from->count + 1, sizeof *from->begin, &ok);
    return ok ? SFT_OK : sft__layout_ms_nomem(s, from->name_len, err);
}

static sft_status take_stage(sft_ms_strategy *s, const sft_ms_strategy *from, sft_error *err) {
    for (size_t i = 0; i < from->count; i++) {
        SFT_TRY(copy_param(s, &from->entries[i], err));
    }
    for (size_t i = 0; i < from->node_count; i++) {
        SFT_TRY(copy_node(s, &from->nodes[i], err));
    }
    return SFT_OK;
}

static sft_status merge_into(sft_ms_strategy *s, const sft_ms_strategy *const *strategies,
                             size_t count, sft_error *err) {
    size_t done = 0;
    for (uint32_t stage = 0; done < count; stage++) {
        const sft_ms_strategy *first = NULL;
        for (size_t i = 0; i < count; i++) {
            if (strategies[i]->stage != stage) {
                continue;
            }
            if (first == NULL) {
                first = strategies[i];
                SFT_TRY(take_stage(s, first, err));
            } else {
                SFT_TRY(same_stage(first, strategies[i], err));
            }
            done++;
        }
        if (first == NULL) {
            return sft__base_fail(err, SFT_E_NOT_FOUND, "no strategy of pipeline stage %u", stage);
        }
    }
    s->merged = true;
    return sft__layout_ms_finish(s, err);
}

sft_status sft__layout_ms_merge(sft_ms_strategy **out, const sft_ms_strategy *const *strategies,
                                size_t count, const sft_allocator *allocator, sft_error *err) {
    sft_ms_strategy *s;
    *out = NULL;
    if (count == 0) {
        return sft__base_fail(err, SFT_E_ARG, "no strategies to merge");
    }
    for (size_t i = 0; i < count; i++) {
        if (strategies[i]->merged) {
            return sft__base_fail(err, SFT_E_ARG, "strategy %llu is a merged one already",
                                  (unsigned long long)i);
        }
    }
    SFT_TRY(sft__layout_ms_create(&s, NULL, NULL, allocator, err));
    s->form = strategies[0]->form;
    s->current_stage = 1; /* as MindSpore writes it */
    const sft_status status = merge_into(s, strategies, count, err);
    if (status != SFT_OK) {
        sft__layout_ms_free(s);
        return status;
    }
    *out = s;
    return SFT_OK;
}
