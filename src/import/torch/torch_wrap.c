/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_wrap.c - tensors of classes that keep other tensors as attributes: quantised ones of
 * torchao, jagged ones, parameters with state. Their tensors become parts, NAME.ATTRIBUTE, and the
 * metadata NAME says what the rest of them was: {"_type", "_data", "_tensor_data_names"}, as torchao
 * flattens its own classes for safetensors (torchao/prototype/safetensors). Those have torchao's
 * names, too: MODULE._NAME_ATTRIBUTE. Read first: torch_walk.h.
 */
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "import/core/decimal.h"
#include "import/torch/torch_walk.h"

enum { NEST_MAX = 16, DEPTH_MAX = 16, TEXT_MAX = 65536, ITEMS_MAX = 4096 };

static const sft__import_pk_node *node(const sft__import_torch *t, uint32_t id) {
    return sft__import_pk_at(t->p, id);
}

/* The call that makes the tensor of a class, seen through parameters; its state on the way. */
static uint32_t resolve(const sft__import_torch *t, uint32_t id, uint32_t *state) {
    *state = SFT__PK_NO;
    for (int depth = 0; depth < NEST_MAX; depth++) {
        const sft__import_pk_node *n = node(t, id);
        if (n->type != SFT__PK_CALL || n->known != SFT__G_REBUILD_PARAMETER) {
            return id;
        }
        if (node(t, sft__import_pk_item(t->p, n->args, 3))->type == SFT__PK_DICT) {
            *state = sft__import_pk_item(t->p, n->args, 3);
        }
        id = sft__import_pk_item(t->p, n->args, 0);
    }
    return SFT__PK_NO;
}

static bool is_jagged(const sft__import_torch *t, const sft__import_pk_node *call) {
    const sft__import_pk_node *func = node(t, sft__import_pk_item(t->p, call->args, 0));
    return func->type == SFT__PK_GLOBAL &&
           strcmp(func->u.text, "torch.nested._internal.nested_tensor._rebuild_njt") == 0;
}

uint32_t sft__import_torch_attributes(const sft__import_torch *t, uint32_t id) {
    uint32_t state;
    const sft__import_pk_node *n = node(t, resolve(t, id, &state));

    if (n->type != SFT__PK_CALL || n->known != SFT__G_REBUILD_FROM_TYPE) {
        return state;
    }
    if (is_jagged(t, n)) {
        return sft__import_pk_item(t->p, sft__import_pk_item(t->p, n->args, 2), 0);
    }
    state = sft__import_pk_item(t->p, n->args, 3);
    if (node(t, state)->type == SFT__PK_TUPLE) { /* (attributes, slots) */
        const uint32_t dict = sft__import_pk_item(t->p, state, 0);
        const bool alone = node(t, sft__import_pk_item(t->p, state, 1))->count == 0;
        return alone && node(t, dict)->type == SFT__PK_DICT ? dict : state;
    }
    return node(t, state)->type == SFT__PK_DICT ? state : SFT__PK_NO;
}

bool sft__import_torch_is_wrapper(const sft__import_torch *t, uint32_t id) {
    uint32_t state;
    const sft__import_pk_node *n = node(t, resolve(t, id, &state));

    if (n->type != SFT__PK_CALL) {
        return false;
    }
    if (n->known != SFT__G_REBUILD_FROM_TYPE) {
        return n->known == SFT__G_REBUILD_WRAPPER;
    }
    const sft__import_pk_node *func = node(t, sft__import_pk_item(t->p, n->args, 0));
    return func->type == SFT__PK_GLOBAL &&
           (func->known == SFT__G_REBUILD_WRAPPER || is_jagged(t, n));
}

/* The class of a wrapper, "module.Name"; NULL: none. */
static const char *class_of(const sft__import_torch *t, uint32_t id) {
    uint32_t state;
    const sft__import_pk_node *n = node(t, resolve(t, id, &state));
    const sft__import_pk_node *class = node(t, sft__import_pk_item(t->p, n->args, 1));

    return n->type == SFT__PK_CALL && n->known == SFT__G_REBUILD_FROM_TYPE &&
                   class->type == SFT__PK_GLOBAL
               ? class->u.text
               : NULL;
}

static bool is_torchao(const char *class) {
    return class != NULL && strncmp(class, "torchao.", 8) == 0;
}

static const char *bare(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* ---------------------------------------------------------------- attributes as JSON */

typedef struct frame {
    sft__import_pk_iter it;
    const char *close;
    bool dict;
    bool first;
} frame;

typedef struct telling {
    walk *w;
    sft__base_buf *b;
    frame frames[DEPTH_MAX];
    size_t depth;
} telling;

static void put_typed(sft__base_buf *b, const char *type, const char *text, size_t len) {
    sft__base_buf_text(b, "{\"_type\":");
    sft__base_json_string(b, type, strlen(type));
    sft__base_buf_text(b, ",\"_data\":");
    sft__base_json_string(b, text, len);
    sft__base_buf_text(b, "}");
}

static void put_int(sft__base_buf *b, int64_t v) {
    if (v < 0) {
        sft__base_buf_text(b, "-");
    }
    sft__base_buf_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* Members of enumerations are called by their names, which are their values in capitals. */
static void put_member(sft__base_buf *b, const char *class, const sft__import_pk_node *value) {
    char text[64];
    const size_t len = value->count < sizeof text ? value->count : sizeof text;

    for (size_t i = 0; i < len; i++) {
        const char c = value->u.text[i];
        text[i] = (char)(c >= 'a' && c <= 'z' ? c - 0x20 : c);
    }
    put_typed(b, bare(class), text, sft__base_utf8_valid(text, len) == len ? len : 0);
}

static sft_status push(telling *k, const sft__import_pk_node *n, bool dict, const char *close,
                       sft_error *err) {
    if (k->depth == DEPTH_MAX || n->count > ITEMS_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "torch-wrapper: attributes %d deep or %d long",
                              (int)DEPTH_MAX, (int)ITEMS_MAX);
    }
    k->frames[k->depth++] = (frame){sft__import_pk_begin(n), close, dict, true};
    return SFT_OK;
}

/* An object: an enumeration's member, or a record by its fields. */
static sft_status put_record(telling *k, const sft__import_pk_node *n, sft_error *err) {
    const sft__import_pk_node *class = node(k->w->t, n->callable);
    const sft__import_pk_node *value = node(k->w->t, sft__import_pk_item(k->w->t->p, n->args, 0));
    const sft__import_pk_node *state = node(k->w->t, n->state);
    const char *name = class->type == SFT__PK_GLOBAL ? class->u.text : "object";

    if (node(k->w->t, n->args)->count == 1 && value->type == SFT__PK_STR) {
        put_member(k->b, name, value);
        return SFT_OK;
    }
    if (strcmp(bare(name), "MappingType") == 0 && value->type == SFT__PK_INT &&
        value->u.integer >= 1 && value->u.integer <= 3) {
        static const char *const types[] = {"SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"};
        const char *type = types[value->u.integer - 1];
        put_typed(k->b, "MappingType", type, strlen(type));
        return SFT_OK;
    }
    sft__base_buf_text(k->b, "{\"_type\":");
    sft__base_json_string(k->b, bare(name), strlen(bare(name)));
    sft__base_buf_text(k->b, ",\"_data\":");
    if (state->type == SFT__PK_DICT) {
        sft__base_buf_text(k->b, "{");
        return push(k, state, true, "}}", err);
    }
    if (node(k->w->t, n->args)->type == SFT__PK_TUPLE) {
        sft__base_buf_text(k->b, "[");
        return push(k, node(k->w->t, n->args), false, "]}", err);
    }
    sft__base_buf_text(k->b, "null}");
    return SFT_OK;
}

static sft_status put_value(telling *k, uint32_t id, sft_error *err) {
    const sft__import_pk_node *n = node(k->w->t, id);
    const char *text = n->type == SFT__PK_GLOBAL ? n->u.text : "";

    SFT_TRY(
        sft__import_tree_visit(k->w, n->type == SFT__PK_STR ? n->count / SFT__TREE_TEXT : 0, err));
    if (n->type == SFT__PK_BOOL) {
        sft__base_buf_text(k->b, n->u.integer != 0 ? "true" : "false");
    } else if (n->type == SFT__PK_INT) {
        put_int(k->b, n->u.integer);
    } else if (n->type == SFT__PK_FLOAT && n->known == 0 && n->u.real - n->u.real == 0) {
        char digits[SFT__DECIMAL_ROOM];
        sft__base_buf_add(k->b, digits, sft__import_decimal_real(digits, n->u.real));
    } else if (n->type == SFT__PK_STR && n->count <= TEXT_MAX &&
               sft__base_utf8_valid(n->u.text, n->count) == n->count) {
        sft__base_json_string(k->b, n->u.text, n->count);
    } else if (n->type == SFT__PK_GLOBAL && n->known == SFT__G_DTYPE) {
        put_typed(k->b, "torch.dtype", bare(text), strlen(bare(text)));
    } else if (n->type == SFT__PK_LIST || n->type == SFT__PK_TUPLE) {
        sft__base_buf_text(k->b, "[");
        return push(k, n, false, "]", err);
    } else if (n->type == SFT__PK_DICT) {
        sft__base_buf_text(k->b, "{");
        return push(k, n, true, "}", err);
    } else if (n->type == SFT__PK_CALL && !n->holds_tensor) {
        return put_record(k, n, err);
    } else {
        sft__base_buf_text(k->b, "null");
    }
    return SFT_OK;
}

/* Runs until the frames above `floor` are closed. Parts of a dict that hold tensors are no data. */
static sft_status put_all(telling *k, size_t floor, sft_error *err) {
    while (k->depth > floor) {
        frame *f = &k->frames[k->depth - 1];
        uint32_t key = SFT__PK_NO;
        uint32_t value;
        if ((f->dict && !sft__import_pk_next(&f->it, &key)) ||
            !sft__import_pk_next(&f->it, &value)) {
            sft__base_buf_text(k->b, f->close);
            k->depth--;
            continue;
        }
        const sft__import_pk_node *name = node(k->w->t, key);
        if (f->dict && (name->type != SFT__PK_STR || name->count > TEXT_MAX ||
                        sft__base_utf8_valid(name->u.text, name->count) != name->count ||
                        node(k->w->t, value)->holds_tensor)) {
            continue;
        }
        sft__base_buf_text(k->b, f->first ? "" : ",");
        f->first = false;
        if (f->dict) {
            sft__base_json_string(k->b, name->u.text, name->count);
            sft__base_buf_text(k->b, ":");
        }
        SFT_TRY(put_value(k, value, err));
        if (k->b->len > TEXT_MAX) {
            return sft__base_fail(err, SFT_E_LIMIT,
                                  "torch-wrapper: attributes of more than %d bytes", (int)TEXT_MAX);
        }
    }
    return SFT_OK;
}

static sft_status put_names(telling *k, const sft__import_pk_node *attributes, sft_error *err) {
    sft__import_pk_iter it = sft__import_pk_begin(attributes);
    uint32_t key;
    uint32_t value;
    bool first = true;

    while (attributes->type == SFT__PK_DICT && sft__import_pk_next(&it, &key) &&
           sft__import_pk_next(&it, &value)) {
        const sft__import_pk_node *name = node(k->w->t, key);
        SFT_TRY(sft__import_tree_visit(k->w, 0, err));
        if (!node(k->w->t, value)->holds_tensor || name->type != SFT__PK_STR ||
            name->count > TEXT_MAX ||
            sft__base_utf8_valid(name->u.text, name->count) != name->count) {
            continue;
        }
        sft__base_buf_text(k->b, first ? "" : ",");
        sft__base_json_string(k->b, name->u.text, name->count);
        first = false;
    }
    return SFT_OK;
}

/* What the object says of itself that its attributes do not: torchao's classes keep some of it in the
 * tensor, each its own. */
static sft_status put_self(telling *k, uint32_t id, const char *class, sft_error *err) {
    uint32_t state;
    const sft__import_pk_node *n = node(k->w->t, resolve(k->w->t, id, &state));
    const uint32_t args = sft__import_pk_item(k->w->t->p, n->args, 2);
    const bool ao = is_torchao(class);
    const char *name = class != NULL ? bare(class) : "";
    const bool int4 = strncmp(name, "Int4", 4) == 0;
    const bool dtype = strncmp(name, "Int", 3) == 0 || strncmp(name, "Float8", 6) == 0;
    const uint32_t attributes = sft__import_torch_attributes(k->w->t, id);
    const uint32_t type = sft__import_pk_item(k->w->t->p, args, 1);

    if (n->known != SFT__G_REBUILD_FROM_TYPE || is_jagged(k->w->t, n) ||
        node(k->w->t, type)->type != SFT__PK_GLOBAL) {
        return SFT_OK;
    }
    if ((!ao || (dtype && !int4)) &&
        sft__import_pk_get(k->w->t->p, attributes, "dtype") == SFT__PK_NO) {
        sft__base_buf_text(k->b, "\"dtype\":");
        SFT_TRY(put_value(k, type, err));
        sft__base_buf_text(k->b, ",");
    }
    if ((!ao || int4) && sft__import_pk_get(k->w->t->p, attributes, "shape") == SFT__PK_NO) {
        sft__base_buf_text(k->b, "\"shape\":");
        SFT_TRY(put_value(k, sft__import_pk_item(k->w->t->p, args, 2), err));
        SFT_TRY(put_all(k, 0, err));
        sft__base_buf_text(k->b, ",");
    }
    return SFT_OK;
}

static sft_status describe(telling *k, uint32_t id, const char *class, sft_error *err) {
    const sft__import_pk_node *attributes =
        node(k->w->t, sft__import_torch_attributes(k->w->t, id));
    const char *type = class == NULL ? "Parameter" : is_torchao(class) ? bare(class) : class;

    sft__base_buf_text(k->b, "{\"_type\":");
    sft__base_json_string(k->b, type, strlen(type));
    sft__base_buf_text(k->b, ",\"_data\":{");
    SFT_TRY(put_self(k, id, class, err));
    if (attributes->type == SFT__PK_DICT) {
        SFT_TRY(push(k, attributes, true, "", err));
        SFT_TRY(put_all(k, 0, err));
    }
    if (k->b->len != 0 && !k->b->failed && k->b->data[k->b->len - 1] == ',') {
        k->b->len--;
    }
    sft__base_buf_text(k->b, "}");
    sft__base_buf_text(k->b, ",\"_tensor_data_names\":[");
    SFT_TRY(put_names(k, attributes, err));
    sft__base_buf_text(k->b, "]}");
    return SFT_OK;
}

static sft_status add_metadata(walk *w, const char *key, size_t key_len, const sft__base_buf *b,
                               sft_error *err) {
    const sft_metadata_entry entry = {key, key_len, b->data, b->len};

    return b->failed ? sft__base_fail_nomem(err, b->len)
                     : sft_builder_add_metadata(w->t->job->builder, 0, &entry, err);
}

static sft_status add_top(walk *w, const char *name, size_t len, sft_error *err) {
    char *copy;

    SFT_TRY(SFT_ONE_MORE(w->t->job->allocator, w->tops, w->top_room, w->top_count, err));
    SFT_TRY(sft__import_copy(w->t->job, &copy, name, len, err));
    w->tops[w->top_count++] = (sft__import_top){copy, len};
    return SFT_OK;
}

sft_status sft__import_tree_wrapper(walk *w, uint32_t id, uint32_t *len, char *joint,
                                    sft_error *err) {
    const char *class = class_of(w->t, id);
    telling k = {.w = w};
    sft__base_buf b;

    *joint = '.';
    sft__base_buf_init(&b, w->t->job->allocator);
    k.b = &b;
    sft_status status = describe(&k, id, class, err);
    SFT_THEN(status, add_metadata(w, w->name, *len, &b, err));
    sft__base_buf_reset(&b);
    SFT_TRY(status);
    if (!is_torchao(class)) {
        return SFT_OK;
    }
    if (w->inside == 0) {
        SFT_TRY(add_top(w, w->name, *len, err));
    }
    *joint = '_'; /* torchao's names: of "0.weight" the parts are "0._weight_qdata" */
    size_t at = *len;
    while (at > 0 && w->name[at - 1] != '.') {
        at--;
    }
    SFT_TRY(sft__import_tree_name(w, *len, "_", 1, err)); /* room */
    memmove(w->name + at + 1, w->name + at, *len - at);
    w->name[at] = '_';
    (*len)++;
    return SFT_OK;
}

static void put_name(sft__base_buf *list, const char *name, size_t len) {
    sft__base_buf_text(list, list->len == 0 ? "[" : ",");
    sft__base_json_string(list, name, len);
}

/* What torchao's loader asks for: the names of all tensors, and what they are. */
sft_status sft__import_tree_torchao(walk *w, sft_error *err) {
    sft__base_buf list;
    sft__base_buf plain;
    sft_status status = SFT_OK;

    if (w->top_count == 0) {
        return SFT_OK;
    }
    sft__base_buf_init(&list, w->t->job->allocator);
    sft__base_buf_init(&plain, w->t->job->allocator);
    sft__base_buf_text(&plain, "{\"_type\":\"Tensor\"}");
    for (size_t i = 0; i < w->top_count; i++) {
        put_name(&list, w->tops[i].name, w->tops[i].len);
    }
    for (size_t i = 0; i < w->leaf_count && status == SFT_OK; i++) {
        const leaf *l = &w->leaves[i];
        if (!l->part && l->name_len != 0) {
            put_name(&list, l->name, l->name_len);
            status = add_metadata(w, l->name, l->name_len, &plain, err);
        }
    }
    sft__base_buf_text(&list, "]");
    SFT_THEN(status, add_metadata(w, "tensor_names", 12, &list, err));
    sft__base_buf_reset(&list);
    sft__base_buf_reset(&plain);
    return status;
}
