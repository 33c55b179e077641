/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy_json.c - the JSON form of MindSpore's strategy file (strategy_checkpoint_info.cc). Unknown
 * members are skipped. Read layout/strategy.h first.
 */
#include "base/error.h"
#include "layout/jsontree.h"
#include "layout/strategy.h"

typedef struct reader {
    sft_ms_strategy *s;
    sft_error *err;
    sft__layout_numbers numbers;
    sft__layout_numbers begins;
} reader;

static sft_status fault(const reader *r, const sft__layout_jnode *at, const char *what) {
    return sft__base_fail_at(r->err, SFT_E_SCHEMA, at->offset, "strategy: %s", what);
}

static sft_status fault_of(const reader *r, const sft__layout_jnode *item, const char *what) {
    return sft__base_fail_tensor(r->err, SFT_E_SCHEMA, item->offset, item->key, item->key_len,
                                 "strategy: %s", what);
}

static sft_status add_number(reader *r, sft__layout_numbers *to, uint64_t value) {
    return sft__layout_numbers_add(to, value)
               ? SFT_OK
               : sft__base_fail_nomem(r->err, to->count * sizeof(uint64_t));
}

/* Integers of a list to the end of r->numbers; a list inside counts as its members where `nested`. */
static sft_status add_list(reader *r, const sft__layout_jnode *list, bool nested) {
    int64_t v;
    if (list->type != SFT__J_ARRAY) {
        return fault(r, list, "expected a list of integers");
    }
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next) {
        if (nested) {
            SFT_TRY(add_number(r, &r->begins, r->numbers.count));
        }
        if (nested && m->type == SFT__J_ARRAY) {
            SFT_TRY(add_list(r, m, false)); /* one level: `nested` is false inside */
        } else if (sft__layout_jtree_int(m, &v)) {
            SFT_TRY(add_number(r, &r->numbers, (uint64_t)v));
        } else {
            return fault(r, m, "expected an integer");
        }
    }
    return SFT_OK;
}

static sft_status keep_list(reader *r, const sft__layout_jnode *list, const uint64_t **out,
                            size_t *count) {
    r->numbers.count = 0;
    SFT_TRY(add_list(r, list, false));
    *out = sft__layout_numbers_keep(&r->numbers, &r->s->arena);
    *count = r->numbers.count;
    return *out != NULL ? SFT_OK : sft__layout_ms_nomem(r->s, *count * sizeof **out, r->err);
}

static sft_status keep_begins(reader *r, const size_t **out) {
    size_t *const begin =
        sft__base_arena_alloc(&r->s->arena, (r->begins.count + 1) * sizeof *begin, sizeof *begin);
    if (begin == NULL) {
        return sft__layout_ms_nomem(r->s, r->begins.count * sizeof *begin, r->err);
    }
    for (size_t i = 0; i < r->begins.count; i++) {
        begin[i] = (size_t)r->begins.list[i];
    }
    begin[r->begins.count] = r->numbers.count;
    *out = begin;
    return SFT_OK;
}

static sft_status take_int(reader *r, const sft__layout_jnode *object, const char *key,
                           int32_t *out) {
    const sft__layout_jnode *const node = sft__layout_jtree_get(object, key);
    int64_t v;
    if (node == NULL || node->type == SFT__J_NULL) {
        return SFT_OK; /* old files lack them */
    }
    if (!sft__layout_jtree_int(node, &v) || v < INT32_MIN || v > INT32_MAX) {
        return fault(r, node, "expected an integer of 32 bits");
    }
    *out = (int32_t)v;
    return SFT_OK;
}

/* ---------------------------------------------------------------- parameters */

static sft_status take_map(reader *r, const sft__layout_jnode *item, sft__layout_ms_param *p) {
    const sft__layout_jnode *const map = sft__layout_jtree_get(item, "tensor_map");
    const size_t *begin = NULL;
    if (map == NULL) {
        return fault_of(r, item, "parameter without a tensor_map");
    }
    r->numbers.count = 0;
    r->begins.count = 0;
    SFT_TRY(add_list(r, map, true));
    SFT_TRY(keep_begins(r, &begin));
    const sft__layout_ms_map from = {r->numbers.list, begin, r->begins.count};
    return sft__layout_ms_set_map(r->s, p, &from, map->offset, r->err);
}

static sft_status take_rows(reader *r, const sft__layout_jnode *item, sft__layout_ms_param *p) {
    const sft__layout_jnode *const rows = sft__layout_jtree_get(item, "param_split_shape");
    const sft__layout_jnode *const offsets = sft__layout_jtree_get(item, "indices_offset");
    const uint64_t *list;
    size_t count;
    if (rows == NULL) {
        return SFT_OK;
    }
    SFT_TRY(keep_list(r, rows, &p->split_rows, &p->split_count));
    if (offsets != NULL && p->split_count != 0) {
        SFT_TRY(keep_list(r, offsets, &list, &count));
        if (count != p->split_count) {
            return fault_of(r, item, "param_split_shape and indices_offset differ in length");
        }
        p->split_offsets = (const int64_t *)(const void *)list; /* the same bits, signed */
    }
    return SFT_OK;
}

static sft_status take_shape(reader *r, const sft__layout_jnode *item, sft__layout_ms_param *p) {
    const sft__layout_jnode *const shape = sft__layout_jtree_get(item, "tensor_shape");
    size_t count;
    if (shape == NULL) {
        return SFT_OK;
    }
    SFT_TRY(keep_list(r, shape, &p->shape, &count));
    if (count != p->dims) {
        return fault_of(r, item, "tensor_shape and tensor_map differ in length");
    }
    for (size_t i = 0; i < count; i++) {
        if (p->shape[i] > (uint64_t)INT64_MAX) {
            return fault_of(r, item, "negative size in tensor_shape");
        }
    }
    return SFT_OK;
}

static sft_status take_item(reader *r, const sft__layout_jnode *item) {
    const sft__layout_jnode *const matrix = sft__layout_jtree_get(item, "dev_matrix");
    sft__layout_ms_entry *e;
    if (item->type != SFT__J_OBJECT || matrix == NULL) {
        return fault_of(r, item, "parameter without a dev_matrix");
    }
    if (r->s->limits.name_bytes != 0 && item->key_len > r->s->limits.name_bytes) {
        return sft__base_fail_at(r->err, SFT_E_LIMIT, item->offset, "strategy: name of %llu bytes",
                                 (unsigned long long)item->key_len);
    }
    SFT_TRY(sft__layout_ms_add(r->s, &e, r->err));
    e->param.name = item->key;
    e->param.name_len = item->key_len;
    SFT_TRY(keep_list(r, matrix, &e->param.dev_matrix, &e->param.axis_count));
    SFT_TRY(take_map(r, item, &e->param));
    SFT_TRY(take_shape(r, item, &e->param));
    SFT_TRY(take_rows(r, item, &e->param));
    SFT_TRY(take_int(r, item, "field", &e->param.field));
    SFT_TRY(take_int(r, item, "opt_weight_shard_step", &e->param.opt_shard_step));
    return take_int(r, item, "opt_weight_shard_size", &e->param.opt_shard_size);
}

/* ---------------------------------------------------------------- operators */

static sft_status take_node(reader *r, const sft__layout_jnode *item) {
    const sft__layout_jnode *const list = sft__layout_jtree_get(item, "parallel_strategy");
    sft__layout_ms_node *n;
    int32_t stage = 0;
    if (list == NULL || list->type != SFT__J_ARRAY) {
        return fault_of(r, item, "operator without parallel_strategy");
    }
    SFT_TRY(take_int(r, item, "stage", &stage));
    if (stage < 0) {
        return fault_of(r, item, "negative stage");
    }
    SFT_TRY(sft__layout_ms_add_node(r->s, &n, r->err));
    n->name = item->key;
    n->name_len = item->key_len;
    n->stage = (uint32_t)stage;
    r->numbers.count = 0;
    r->begins.count = 0;
    for (const sft__layout_jnode *m = list->first; m != NULL; m = m->next) {
        SFT_TRY(add_number(r, &r->begins, r->numbers.count));
        SFT_TRY(add_list(r, m, false));
    }
    n->count = r->begins.count;
    n->numbers = sft__layout_numbers_keep(&r->numbers, &r->s->arena);
    if (n->numbers == NULL) {
        return sft__layout_ms_nomem(r->s, r->numbers.count * sizeof(uint64_t), r->err);
    }
    return keep_begins(r, &n->begin);
}

static sft_status read_all(reader *r, const sft__layout_jnode *root) {
    const sft__layout_jnode *const nodes = sft__layout_jtree_get(root, "parallel_strategy_item");
    const sft__layout_jnode *const items = sft__layout_jtree_get(root, "parallel_layout_item");
    int32_t current = 0;
    SFT_TRY(take_int(r, root, "current_stage", &current));
    r->s->current_stage = (uint64_t)(uint32_t)current;
    if (items == NULL || items->type != SFT__J_OBJECT) {
        return fault(r, root, "no parallel_layout_item");
    }
    if (nodes != NULL && nodes->type == SFT__J_OBJECT) {
        for (const sft__layout_jnode *m = nodes->first; m != NULL; m = m->next) {
            SFT_TRY(take_node(r, m));
        }
    }
    for (const sft__layout_jnode *m = items->first; m != NULL; m = m->next) {
        SFT_TRY(take_item(r, m));
    }
    return SFT_OK;
}

sft_status sft__layout_ms_read_json(sft_ms_strategy *s, const char *text, size_t size,
                                    sft_error *err) {
    reader r;
    sft__layout_jnode *root;
    SFT_TRY(sft__layout_jtree_parse(&root, &s->arena, text, size, "strategy", err));
    memset(&r, 0, sizeof r);
    r.s = s;
    r.err = err;
    r.numbers.allocator = s->arena.allocator;
    r.begins.allocator = s->arena.allocator;
    const sft_status status = read_all(&r, root);
    sft__layout_numbers_reset(&r.numbers);
    sft__layout_numbers_reset(&r.begins);
    return status;
}
