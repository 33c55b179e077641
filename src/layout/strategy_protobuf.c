/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy_protobuf.c - ParallelStrategyMap of MindSpore's node_strategy.proto. Unknown fields are
 * skipped; of a repeated wrapper only the first counts, as in MindSpore itself. Repeated numbers are read
 * packed and unpacked. Read layout/strategy.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "base/protobuf.h"
#include "base/text/utf8.h"
#include "layout/strategy.h"

typedef struct reader {
    sft_ms_strategy *s;
    const uint8_t *base; /* of the whole text: offsets in messages */
    sft_error *err;
    sft__layout_numbers numbers;
    sft__layout_numbers begins;
} reader;

static sft_status fault(const reader *r, const uint8_t *at, const char *what) {
    return sft__base_fail_at(r->err, SFT_E_SCHEMA, (uint64_t)(at - r->base), "strategy: %s", what);
}

/* After a loop over sft__base_pb_next. */
static sft_status ended(const reader *r, const sft__base_pb *pb) {
    return pb->fault == NULL ? SFT_OK : fault(r, pb->at, pb->fault);
}

static sft_status wrong_wire(const reader *r, const sft__base_pb_field *f) {
    return fault(r, f->start, "field of another wire type than it should have");
}

static sft_status take_name(reader *r, const sft__base_pb_field *f, const char **name,
                            size_t *len) {
    if (f->wire != SFT__PB_BYTES) {
        return wrong_wire(r, f);
    }
    if (r->s->limits.name_bytes != 0 && f->len > r->s->limits.name_bytes) {
        return sft__base_fail_at(r->err, SFT_E_LIMIT, (uint64_t)(f->start - r->base),
                                 "strategy: name of %llu bytes", (unsigned long long)f->len);
    }
    if (sft__base_utf8_valid(f->data, f->len) != f->len) {
        return fault(r, f->start, "name is not UTF-8");
    }
    *name = sft__base_arena_copy(&r->s->arena, f->data, f->len);
    *len = f->len;
    return *name != NULL ? SFT_OK : sft__layout_ms_nomem(r->s, f->len, r->err);
}

/* The numbers of a wrapper's field 1 go to the end of r->numbers. */
static sft_status take_numbers(reader *r, const sft__base_pb_field *wrapper) {
    sft__base_pb pb;
    sft__base_pb_field f;
    if (wrapper->wire != SFT__PB_BYTES) {
        return wrong_wire(r, wrapper);
    }
    pb = sft__base_pb_over(wrapper->data, wrapper->len);
    while (sft__base_pb_next(&pb, &f)) {
        const uint8_t *at = NULL;
        const char *bad = NULL;
        uint64_t value;
        if (f.number != 1) {
            continue;
        }
        if (f.wire != SFT__PB_BYTES && f.wire != SFT__PB_VARINT) {
            return wrong_wire(r, &f);
        }
        while (sft__base_pb_each(&f, &at, &value, &bad)) {
            SFT_NEED(sft__layout_numbers_add(&r->numbers, value),
                     r->numbers.count * sizeof(uint64_t), r->err);
        }
        if (bad != NULL) {
            return fault(r, at, bad);
        }
    }
    return ended(r, &pb);
}

static sft_status take_list(reader *r, const sft__base_pb_field *wrapper, const uint64_t **list,
                            size_t *count) {
    r->numbers.count = 0;
    SFT_TRY(take_numbers(r, wrapper));
    *list = sft__layout_numbers_keep(&r->numbers, &r->s->arena);
    *count = r->numbers.count;
    return *list != NULL ? SFT_OK
                         : sft__layout_ms_nomem(r->s, r->numbers.count * sizeof **list, r->err);
}

/* ---------------------------------------------------------------- parameters */

static sft_status take_int(reader *r, const sft__base_pb_field *f, int32_t *out) {
    const int64_t v = (int64_t)f->value;
    if (f->wire != SFT__PB_VARINT) {
        return wrong_wire(r, f);
    }
    if (f->value == UINT32_MAX) {
        *out = -1;
        return SFT_OK;
    }
    if (v < INT32_MIN || v > INT32_MAX) {
        return fault(r, f->start, "number does not fit 32 bits");
    }
    *out = (int32_t)v;
    return SFT_OK;
}

/* The wrappers of a layout, first of each kind. */
typedef struct wrappers {
    sft__base_pb_field dev_matrix, tensor_map, rows, offsets;
    bool has_dev_matrix, has_tensor_map, has_rows, has_offsets;
} wrappers;

static void first_of(const sft__base_pb_field *f, sft__base_pb_field *to, bool *has) {
    if (!*has) {
        *to = *f;
        *has = true;
    }
}

static sft_status scan_layout(reader *r, const sft__base_pb_field *layouts, wrappers *w,
                              sft__layout_ms_param *p) {
    sft__base_pb_field f;
    sft__base_pb pb = sft__base_pb_over(layouts->data, layouts->len);
    memset(w, 0, sizeof *w);
    while (sft__base_pb_next(&pb, &f)) {
        switch (f.number) {
        case 1:
            first_of(&f, &w->dev_matrix, &w->has_dev_matrix);
            break;
        case 2:
            first_of(&f, &w->tensor_map, &w->has_tensor_map);
            break;
        case 3:
            first_of(&f, &w->rows, &w->has_rows);
            break;
        case 4:
            first_of(&f, &w->offsets, &w->has_offsets);
            break;
        case 5:
            SFT_TRY(take_int(r, &f, &p->field));
            break;
        case 6:
            SFT_TRY(take_int(r, &f, &p->opt_shard_step));
            break;
        case 7:
            SFT_TRY(take_int(r, &f, &p->opt_shard_size));
            break;
        default:
            break;
        }
    }
    return ended(r, &pb);
}

static sft_status take_map(reader *r, const wrappers *w, sft__layout_ms_param *p,
                           const uint8_t *at) {
    size_t dims;
    r->numbers.count = 0;
    r->begins.count = 0;
    if (w->has_tensor_map) {
        SFT_TRY(take_numbers(r, &w->tensor_map));
    }
    dims = r->numbers.count;
    size_t *const begin =
        sft__base_arena_alloc(&r->s->arena, (dims + 1) * sizeof *begin, sizeof *begin);
    if (begin == NULL) {
        return sft__layout_ms_nomem(r->s, (dims + 1) * sizeof *begin, r->err);
    }
    for (size_t i = 0; i <= dims; i++) {
        begin[i] = i; /* one axis per dimension: this form has no nested maps */
    }
    const sft__layout_ms_map from = {r->numbers.list, begin, dims};
    return sft__layout_ms_set_map(r->s, p, &from, (uint64_t)(at - r->base), r->err);
}

static sft_status take_layout(reader *r, const sft__base_pb_field *layouts,
                              sft__layout_ms_param *p) {
    wrappers w;
    size_t count;
    const uint64_t *offsets;
    if (layouts->wire != SFT__PB_BYTES) {
        return wrong_wire(r, layouts);
    }
    SFT_TRY(scan_layout(r, layouts, &w, p));
    if (!w.has_dev_matrix) {
        return fault(r, layouts->start, "parameter without a device matrix");
    }
    SFT_TRY(take_list(r, &w.dev_matrix, &p->dev_matrix, &p->axis_count));
    SFT_TRY(take_map(r, &w, p, layouts->start));
    if (w.has_rows) {
        SFT_TRY(take_list(r, &w.rows, &p->split_rows, &p->split_count));
    }
    if (w.has_offsets && p->split_count != 0) {
        SFT_TRY(take_list(r, &w.offsets, &offsets, &count));
        if (count != p->split_count) {
            return fault(r, w.offsets.start,
                         "param_split_shape and indices_offset differ in length");
        }
        p->split_offsets = (const int64_t *)(const void *)offsets; /* the same bits, signed */
    }
    return SFT_OK;
}

static sft_status take_item(reader *r, const sft__base_pb_field *item) {
    sft__layout_ms_entry *e;
    sft__base_pb_field f;
    sft__base_pb pb;
    bool has_layout = false;
    if (item->wire != SFT__PB_BYTES) {
        return wrong_wire(r, item);
    }
    SFT_TRY(sft__layout_ms_add(r->s, &e, r->err));
    pb = sft__base_pb_over(item->data, item->len);
    while (sft__base_pb_next(&pb, &f)) {
        if (f.number == 1) {
            SFT_TRY(take_name(r, &f, &e->param.name, &e->param.name_len));
        } else if (f.number == 2) {
            SFT_TRY(take_layout(r, &f, &e->param));
            has_layout = true;
        }
    }
    SFT_TRY(ended(r, &pb));
    if (e->param.name == NULL || !has_layout) {
        return fault(r, item->start, "parameter without a name or without a layout");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- operators */

static sft_status take_strategies(reader *r, const sft__base_pb_field *list,
                                  sft__layout_ms_node *n) {
    sft__base_pb_field f;
    sft__base_pb pb;
    if (list->wire != SFT__PB_BYTES) {
        return wrong_wire(r, list);
    }
    pb = sft__base_pb_over(list->data, list->len);
    r->numbers.count = 0;
    r->begins.count = 0;
    while (sft__base_pb_next(&pb, &f)) {
        if (f.number == 1) {
            int32_t stage = 0;
            SFT_TRY(take_int(r, &f, &stage));
            if (stage < 0) {
                return fault(r, f.start, "negative stage");
            }
            n->stage = (uint32_t)stage;
        } else if (f.number == 2) {
            SFT_NEED(sft__layout_numbers_add(&r->begins, r->numbers.count),
                     r->begins.count * sizeof(uint64_t), r->err);
            SFT_TRY(take_numbers(r, &f));
        }
    }
    SFT_TRY(ended(r, &pb));
    n->count = r->begins.count;
    n->numbers = sft__layout_numbers_keep(&r->numbers, &r->s->arena);
    size_t *const begin =
        sft__base_arena_alloc(&r->s->arena, (n->count + 1) * sizeof *begin, sizeof *begin);
    if (n->numbers == NULL || begin == NULL) {
        return sft__layout_ms_nomem(r->s, r->numbers.count * sizeof(uint64_t), r->err);
    }
    for (size_t i = 0; i < n->count; i++) {
        begin[i] = (size_t)r->begins.list[i];
    }
    begin[n->count] = r->numbers.count;
    n->begin = begin;
    return SFT_OK;
}

static sft_status take_node(reader *r, const sft__base_pb_field *item) {
    sft__layout_ms_node *n;
    sft__base_pb_field f;
    sft__base_pb pb;
    if (item->wire != SFT__PB_BYTES) {
        return wrong_wire(r, item);
    }
    SFT_TRY(sft__layout_ms_add_node(r->s, &n, r->err));
    pb = sft__base_pb_over(item->data, item->len);
    while (sft__base_pb_next(&pb, &f)) {
        if (f.number == 1) {
            SFT_TRY(take_name(r, &f, &n->name, &n->name_len));
        } else if (f.number == 2) {
            SFT_TRY(take_strategies(r, &f, n));
        }
    }
    SFT_TRY(ended(r, &pb));
    if (n->name == NULL || n->begin == NULL) {
        return fault(r, item->start, "operator without a name or without strategies");
    }
    return SFT_OK;
}

static sft_status read_all(reader *r, const uint8_t *data, size_t size) {
    sft__base_pb_field f;
    sft__base_pb pb = sft__base_pb_over(data, size);
    while (sft__base_pb_next(&pb, &f)) {
        if (f.number == 1 && f.wire == SFT__PB_VARINT) {
            r->s->current_stage = f.value;
        } else if (f.number == 2) {
            SFT_TRY(take_node(r, &f));
        } else if (f.number == 3) {
            SFT_TRY(take_item(r, &f));
        }
    }
    return ended(r, &pb);
}

sft_status sft__layout_ms_read_protobuf(sft_ms_strategy *s, const uint8_t *data, size_t size,
                                        sft_error *err) {
    reader r;
    memset(&r, 0, sizeof r);
    r.s = s;
    r.base = data;
    r.err = err;
    r.numbers.allocator = s->arena.allocator;
    r.begins.allocator = s->arena.allocator;
    const sft_status status = read_all(&r, data, size);
    sft__layout_numbers_reset(&r.numbers);
    sft__layout_numbers_reset(&r.begins);
    return status;
}
