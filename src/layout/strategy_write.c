/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy_write.c - a strategy as text again: the protobuf that MindSpore's own classes write
 * (numbers unpacked, required fields always there), or its JSON. Read layout/strategy.h first.
 */
#include "base/error.h"
#include "base/text/json.h"
#include "layout/strategy.h"

/* ---------------------------------------------------------------- protobuf */

static void put_varint(sft__base_buf *b, uint64_t v) {
    char bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) {
        bytes[n++] = (char)(uint8_t)(v | 0x80);
    }
    bytes[n++] = (char)(uint8_t)v;
    sft__base_buf_add(b, bytes, n);
}

static void put_number(sft__base_buf *b, unsigned field, uint64_t v) {
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, v);
}

static void put_bytes(sft__base_buf *b, unsigned field, const void *data, size_t len) {
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, len);
    sft__base_buf_add(b, data, len);
}

/* A message that was written to `inner`, which is emptied for the next. */
static void put_message(sft__base_buf *b, unsigned field, sft__base_buf *inner) {
    put_bytes(b, field, inner->data, inner->len);
    b->failed = b->failed || inner->failed;
    inner->len = 0;
}

/* Three levels of messages are open at most. */
typedef struct levels {
    sft__base_buf item, list, numbers;
} levels;

static void put_list(levels *l, unsigned field, const uint64_t *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put_number(&l->numbers, 1, list[i]);
    }
    put_message(&l->list, field, &l->numbers);
}

static void put_map(levels *l, const sft__layout_ms_param *p) {
    for (size_t i = 0; i < p->dims; i++) {
        const size_t at = p->map_at[i];
        put_number(&l->numbers, 1, at == p->map_at[i + 1] ? UINT64_MAX : p->map[at]);
    }
    put_message(&l->list, 2, &l->numbers);
}

static void put_param(levels *l, sft__base_buf *out, const sft__layout_ms_entry *e, bool merged) {
    const sft__layout_ms_param *const p = &e->param;
    put_bytes(&l->item, 1, merged ? e->key : p->name, merged ? e->key_len : p->name_len);
    put_list(l, 1, p->dev_matrix, p->axis_count);
    put_map(l, p);
    put_list(l, 3, p->split_rows, p->split_count);
    put_list(l, 4, (const uint64_t *)(const void *)p->split_offsets,
             p->split_offsets != NULL ? p->split_count : 0);
    put_number(&l->list, 5, (uint64_t)(int64_t)p->field);
    put_number(&l->list, 6, (uint64_t)(int64_t)p->opt_shard_step);
    put_number(&l->list, 7, (uint64_t)(int64_t)p->opt_shard_size);
    put_message(&l->item, 2, &l->list);
    put_message(out, 3, &l->item);
}

static void put_node(levels *l, sft__base_buf *out, const sft__layout_ms_node *n) {
    put_bytes(&l->item, 1, n->name, n->name_len);
    put_number(&l->list, 1, n->stage);
    for (size_t i = 0; i < n->count; i++) {
        put_list(l, 2, n->numbers + n->begin[i], n->begin[i + 1] - n->begin[i]);
    }
    put_message(&l->item, 2, &l->list);
    put_message(out, 2, &l->item);
}

/* The protobuf form has one axis per dimension. */
static sft_status check_plain(const sft_ms_strategy *s, sft_error *err) {
    for (size_t i = 0; i < s->count; i++) {
        const sft__layout_ms_param *const p = &s->entries[i].param;
        for (size_t d = 0; d < p->dims; d++) {
            if (p->map_at[d + 1] - p->map_at[d] > 1) {
                return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, p->name,
                                             p->name_len,
                                             "a nested tensor map can only be written as JSON");
            }
        }
    }
    return SFT_OK;
}

static void write_protobuf(const sft_ms_strategy *s, sft__base_buf *out) {
    levels l;
    sft__base_buf_init(&l.item, s->arena.allocator);
    sft__base_buf_init(&l.list, s->arena.allocator);
    sft__base_buf_init(&l.numbers, s->arena.allocator);
    put_number(out, 1, s->current_stage);
    for (size_t i = 0; i < s->node_count; i++) {
        put_node(&l, out, &s->nodes[i]);
    }
    for (size_t i = 0; i < s->count; i++) {
        put_param(&l, out, &s->entries[i], s->merged);
    }
    out->failed = out->failed || l.item.failed || l.list.failed || l.numbers.failed;
    sft__base_buf_reset(&l.item);
    sft__base_buf_reset(&l.list);
    sft__base_buf_reset(&l.numbers);
}

/* ---------------------------------------------------------------- JSON */

static void json_int(sft__base_buf *b, int64_t v) {
    if (v < 0) {
        sft__base_buf_text(b, "-");
    }
    sft__base_buf_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static void json_list(sft__base_buf *b, const uint64_t *list, size_t count) {
    sft__base_buf_text(b, "[");
    for (size_t i = 0; i < count; i++) {
        sft__base_buf_text(b, i == 0 ? "" : ",");
        json_int(b, (int64_t)list[i]);
    }
    sft__base_buf_text(b, "]");
}

static void json_map(sft__base_buf *b, const sft__layout_ms_param *p) {
    sft__base_buf_text(b, "[");
    for (size_t i = 0; i < p->dims; i++) {
        const size_t entries = p->map_at[i + 1] - p->map_at[i];
        sft__base_buf_text(b, i == 0 ? "" : ",");
        sft__base_buf_text(b, entries > 1 ? "[" : "");
        for (size_t k = 0; k < entries; k++) {
            sft__base_buf_text(b, k == 0 ? "" : ",");
            sft__base_buf_u64(b, p->map[p->map_at[i] + k]);
        }
        sft__base_buf_text(b, entries == 0 ? "-1" : (entries > 1 ? "]" : ""));
    }
    sft__base_buf_text(b, "]");
}

static void json_param(sft__base_buf *b, const sft__layout_ms_entry *e, bool merged) {
    const sft__layout_ms_param *const p = &e->param;
    sft__base_json_string_plain(b, merged ? e->key : p->name, merged ? e->key_len : p->name_len);
    sft__base_buf_text(b, ":{\"dev_matrix\":");
    json_list(b, p->dev_matrix, p->axis_count);
    sft__base_buf_text(b, ",\"field\":");
    json_int(b, p->field);
    sft__base_buf_text(b, ",\"opt_weight_shard_size\":");
    json_int(b, p->opt_shard_size);
    sft__base_buf_text(b, ",\"opt_weight_shard_step\":");
    json_int(b, p->opt_shard_step);
    if (p->split_count != 0) {
        sft__base_buf_text(b, ",\"param_split_shape\":");
        json_list(b, p->split_rows, p->split_count);
    }
    if (p->split_offsets != NULL) {
        sft__base_buf_text(b, ",\"indices_offset\":");
        json_list(b, (const uint64_t *)(const void *)p->split_offsets, p->split_count);
    }
    sft__base_buf_text(b, ",\"tensor_map\":");
    json_map(b, p);
    if (p->shape != NULL) {
        sft__base_buf_text(b, ",\"tensor_shape\":");
        json_list(b, p->shape, p->dims);
    }
    sft__base_buf_text(b, "}");
}

static void json_node(sft__base_buf *b, const sft__layout_ms_node *n) {
    sft__base_json_string_plain(b, n->name, n->name_len);
    sft__base_buf_text(b, ":{\"parallel_strategy\":[");
    for (size_t i = 0; i < n->count; i++) {
        sft__base_buf_text(b, i == 0 ? "" : ",");
        json_list(b, n->numbers + n->begin[i], n->begin[i + 1] - n->begin[i]);
    }
    sft__base_buf_text(b, "],\"stage\":");
    sft__base_buf_u64(b, n->stage);
    sft__base_buf_text(b, "}");
}

static void write_json(const sft_ms_strategy *s, sft__base_buf *b) {
    sft__base_buf_text(b, "{\"current_stage\":");
    sft__base_buf_u64(b, s->current_stage);
    sft__base_buf_text(b, ",\"parallel_layout_item\":{");
    for (size_t i = 0; i < s->count; i++) {
        sft__base_buf_text(b, i == 0 ? "" : ",");
        json_param(b, &s->entries[i], s->merged);
    }
    sft__base_buf_text(b, "},\"parallel_strategy_item\":{");
    for (size_t i = 0; i < s->node_count; i++) {
        sft__base_buf_text(b, i == 0 ? "" : ",");
        json_node(b, &s->nodes[i]);
    }
    sft__base_buf_text(b, "}}");
}

sft_status sft__layout_ms_write(const sft_ms_strategy *strategy, sft_ms_form form, void *data,
                                size_t capacity, size_t *size, sft_error *err) {
    sft__base_buf text;
    *size = 0;
    if (form == SFT_MS_PROTOBUF) {
        SFT_TRY(check_plain(strategy, err));
    }
    sft__base_buf_init(&text, strategy->arena.allocator);
    if (form == SFT_MS_PROTOBUF) {
        write_protobuf(strategy, &text);
    } else {
        write_json(strategy, &text);
    }
    if (text.failed) {
        sft__base_buf_reset(&text);
        return sft__base_fail_nomem(err, text.len);
    }
    if (data != NULL && text.len != 0) {
        memcpy(data, text.data, text.len < capacity ? text.len : capacity);
    }
    *size = text.len;
    sft__base_buf_reset(&text);
    return SFT_OK;
}
