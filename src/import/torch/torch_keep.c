/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_keep.c - the whole tree of a checkpoint as JSON with tagged types (docs/tree.md), as
 * Python's save_tree writes it: dicts, lists, tuples, sets and scalars, tensors by their names.
 * What the form cannot hold is refused, or null with SFT_IMPORT_ALLOW_OPAQUE; nothing is guessed.
 * Walks with an explicit stack; what a memo multiplies is bounded by visits and by the size of the
 * text. Read first: torch_walk.h, docs/tree.md.
 */
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "base/text/utf8.h"
#include "import/core/decimal.h"
#include "import/torch/torch_walk.h"
#include <stdio.h>

/* TEXT_PART: of the memory limit, 32 MiB by default. COST_REAL, COST_WORD: of shortest digits, and
 * of 8 bytes of a large integer, squared. */
enum { DEPTH_MAX = 200, TEXT_PART = 6, COST_REAL = 12, COST_WORD = 8 };

typedef struct frame {
    uint32_t id;
    uint32_t index;
    uint32_t name_len;
    bool dict;  /* items are pairs */
    bool plain; /* a dict whose keys are all text, none of them "$" */
    const char *close;
    sft__import_pk_iter it;
} frame;

typedef struct keeping {
    walk *w;
    sft__import_pickle *p;
    frame frames[DEPTH_MAX + 1];
    size_t depth;
} keeping;

static sft__import_pk_node *node(const keeping *k, uint32_t id) {
    return sft__import_pk_at(k->p, id);
}

static const char *path_of(const keeping *k) {
    return k->w->name != NULL ? k->w->name : "";
}

/* What the form has no node for: an error, or null. */
static sft_status left_out(keeping *k, uint32_t len, sft_error *err, const char *what) {
    SFT_TRY(sft__import_opaque(k->w->t->job, SFT__AT(path_of(k), len, SFT_NO_OFFSET), err,
                               "tree: %.200s cannot be kept", what));
    sft__base_buf_text(&k->w->json, "null");
    return SFT_OK;
}

/* Before `more` bytes are put: what the text may have. */
static sft_status room_for(keeping *k, uint64_t more, sft_error *err) {
    const uint64_t most = k->w->t->job->options.memory_bytes / TEXT_PART;

    return k->w->json.len <= most && more <= most - k->w->json.len
               ? SFT_OK
               : sft__base_fail(
                     err, SFT_E_LIMIT,
                     "pickle-expansion: the tree unfolds to more than %llu bytes of text",
                     (unsigned long long)most);
}

/* ---------------------------------------------------------------- scalars */

static bool is_exact(int64_t v) {
    return v > -(INT64_C(1) << 53) && v < INT64_C(1) << 53;
}

static void put_int(sft__base_buf *b, int64_t v) {
    if (!is_exact(v)) {
        sft__base_buf_text(b, "{\"$\":\"int\",\"v\":\"");
    }
    if (v < 0) {
        sft__base_buf_text(b, "-");
    }
    sft__base_buf_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
    if (!is_exact(v)) {
        sft__base_buf_text(b, "\"}");
    }
}

/* Protocol 0 writes numbers as text. */
static bool real_of(const sft__import_pk_node *n, double *value) {
    if (n->type == SFT__PK_INT) {
        *value = (double)n->u.integer;
        return true;
    }
    *value = n->u.real;
    return n->type == SFT__PK_FLOAT &&
           (n->known == 0 || sft__import_decimal_read(n->u.text, n->count, value));
}

static void put_real(sft__base_buf *b, double value) {
    char text[SFT__DECIMAL_ROOM];
    const size_t len = sft__import_decimal_real(text, value);
    sft__base_buf_text(b, "\"");
    sft__base_buf_add(b, text, len);
    sft__base_buf_text(b, "\"");
}

static void put_base64(sft__base_buf *b, const uint8_t *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < size; i += 3) {
        const size_t n = size - i < 3 ? size - i : 3;
        const uint32_t v = (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                           (n > 2 ? bytes[i + 2] : 0);
        const char text[4] = {digits[v >> 18], digits[v >> 12 & 63],
                              n > 1 ? digits[v >> 6 & 63] : '=', n > 2 ? digits[v & 63] : '='};
        sft__base_buf_add(b, text, sizeof text);
    }
}

static sft_status put_bytes(keeping *k, uint32_t id, uint32_t len, sft_error *err) {
    sft__base_buf *b = &k->w->json;
    uint8_t *bytes;
    size_t size;

    SFT_TRY(sft__import_torch_bytes(k->w->t, id, &bytes, &size, err));
    if (bytes == NULL) {
        return left_out(k, len, err, "a byte string of this size or form");
    }
    SFT_TRY(room_for(k, (uint64_t)size / 3 * 4, err));
    sft__base_buf_text(b, "{\"$\":\"bytes\",\"v\":\"");
    put_base64(b, bytes, size);
    sft__base_buf_text(b, "\"}");
    return SFT_OK;
}

/* ---------------------------------------------------------------- scalars of numpy */

typedef struct np_scalar {
    char code[4];
    const char *name;
    uint32_t bytes;
    char kind; /* i, u, f, c; b */
} np_scalar;

static const np_scalar np_scalars[] = {
    {"b1", "bool", 1, 'u'},    {"i1", "int8", 1, 'i'},    {"u1", "uint8", 1, 'u'},
    {"i2", "int16", 2, 'i'},   {"u2", "uint16", 2, 'u'},  {"i4", "int32", 4, 'i'},
    {"u4", "uint32", 4, 'u'},  {"i8", "int64", 8, 'i'},   {"u8", "uint64", 8, 'u'},
    {"f2", "float16", 2, 'f'}, {"f4", "float32", 4, 'f'}, {"f8", "float64", 8, 'f'},
};

static uint64_t np_bits(const uint8_t *bytes, uint32_t size, bool big) {
    uint64_t v = 0;
    for (uint32_t i = 0; i < size; i++) {
        v = v << 8 | bytes[big ? i : size - 1 - i];
    }
    return v;
}

static sft_status np_real(const np_scalar *s, uint64_t bits, double *value, sft_error *err) {
    const sft_dtype *from = sft_dtype_get(s->bytes == 2 ? SFT_F16 : SFT_F32);
    uint8_t in[8];
    uint8_t out[8];

    if (s->bytes == 8) {
        memcpy(value, &bits, sizeof bits);
        return SFT_OK;
    }
    sft__base_store_le64(in, bits);
    SFT_TRY(sft_convert(out, in, 1, &(sft_cast){sft_dtype_get(SFT_F64), from, 0}, err));
    bits = sft__base_load_le64(out);
    memcpy(value, &bits, sizeof bits);
    return SFT_OK;
}

/* scalar(dtype('f8', ...), bytes) */
static sft_status put_numpy(keeping *k, const sft__import_pk_node *n, uint32_t len,
                            sft_error *err) {
    const sft__import_pk_node *dtype = node(k, sft__import_pk_item(k->p, n->args, 0));
    const sft__import_pk_node *code = node(k, sft__import_pk_item(k->p, dtype->args, 0));
    const bool big = sft__import_pk_is_text(k->p, sft__import_pk_item(k->p, dtype->state, 1), ">");
    sft__base_buf *b = &k->w->json;
    const np_scalar *s = NULL;
    uint8_t *bytes;
    size_t size;

    for (size_t i = 0; i < sizeof np_scalars / sizeof np_scalars[0]; i++) {
        if (dtype->type == SFT__PK_CALL && dtype->known == SFT__G_NP_DTYPE &&
            code->type == SFT__PK_STR && code->count == 2 &&
            memcmp(code->u.text, np_scalars[i].code, 2) == 0) {
            s = &np_scalars[i];
        }
    }
    SFT_TRY(sft__import_torch_bytes(k->w->t, sft__import_pk_item(k->p, n->args, 1), &bytes, &size,
                                    err));
    if (s == NULL || bytes == NULL || size != s->bytes) {
        return left_out(k, len, err, "a NumPy scalar of this type");
    }
    uint64_t bits = np_bits(bytes, s->bytes, big);
    sft__base_buf_text(b, "{\"$\":\"numpy\",\"dtype\":\"");
    sft__base_buf_text(b, s->name);
    sft__base_buf_text(b, "\",\"v\":");
    if (s->kind == 'f') {
        double value;
        SFT_TRY(np_real(s, bits, &value, err));
        put_real(b, value);
    } else {
        const bool minus = s->kind == 'i' && (bits >> (8 * s->bytes - 1) & 1) != 0;
        sft__base_buf_text(b, minus ? "\"-" : "\"");
        bits = minus ? (0 - bits) & (UINT64_MAX >> (64 - 8 * s->bytes)) : bits;
        sft__base_buf_u64(b, bits);
        sft__base_buf_text(b, "\"");
    }
    sft__base_buf_text(b, "}");
    return SFT_OK;
}

/* ---------------------------------------------------------------- leaves */

static sft_status put_text(keeping *k, const sft__import_pk_node *n, uint32_t len, sft_error *err) {
    if (sft__base_utf8_valid(n->u.text, n->count) != n->count) {
        return left_out(k, len, err, "text with a lone surrogate");
    }
    uint64_t size = n->count;
    for (uint32_t i = 0; i < n->count; i++) { /* at most six for one */
        const uint8_t c = (uint8_t)n->u.text[i];
        size += c < 0x20 ? 5 : c == '"' || c == '\\';
    }
    SFT_TRY(room_for(k, size, err));
    sft__base_json_string(&k->w->json, n->u.text, n->count);
    return SFT_OK;
}

static sft_status put_record(keeping *k, uint32_t id, uint32_t len, sft_error *err) {
    const sft__import_pk_node *n = node(k, id);
    const sft__import_pk_node *class = node(k, n->callable);
    const char *name = class->type == SFT__PK_GLOBAL ? class->u.text : "something called";
    sft__base_buf *b = &k->w->json;
    double re;
    double im;

    if (n->known == SFT__G_ENCODE || sft__import_torch_is_no_bytes(k->w->t, n)) {
        return put_bytes(k, id, len, err);
    }
    SFT_TRY(
        sft__import_tree_visit(k->w, (uint64_t)2 * COST_REAL, err)); /* a complex number has two */
    if (n->known == SFT__G_NP_SCALAR) {
        return put_numpy(k, n, len, err);
    }
    if (strcmp(name, "torch.torch_version.TorchVersion") == 0 &&
        node(k, sft__import_pk_item(k->p, n->args, 0))->type ==
            SFT__PK_STR) { /* a text, but by its class */
        return put_text(k, node(k, sft__import_pk_item(k->p, n->args, 0)), len, err);
    }
    if ((strcmp(name, "builtins.complex") == 0 || strcmp(name, "__builtin__.complex") == 0) &&
        real_of(node(k, sft__import_pk_item(k->p, n->args, 0)), &re) &&
        real_of(node(k, sft__import_pk_item(k->p, n->args, 1)), &im)) {
        sft__base_buf_text(b, "{\"$\":\"complex\",\"v\":[");
        put_real(b, re);
        sft__base_buf_text(b, ",");
        put_real(b, im);
        sft__base_buf_text(b, "]}");
        return SFT_OK;
    }
    return left_out(k, len, err, name);
}

/* Counts a look at a value, and what it takes to write it; of text, to find that it is none. */
static sft_status visit(keeping *k, const sft__import_pk_node *n, sft_error *err) {
    const bool big = n->type == SFT__PK_BIG && n->count <= SFT__DECIMAL_BYTES; /* else refused */
    const uint64_t words = big ? n->count / COST_WORD : 0;
    const uint64_t cost = n->type == SFT__PK_FLOAT ? COST_REAL
                          : n->type == SFT__PK_STR ? n->count / SFT__TREE_TEXT
                                                   : words * words;

    SFT_TRY(sft__import_tree_visit(k->w, cost, err));
    return room_for(k, 0, err);
}

static sft_status put_scalar(keeping *k, uint32_t id, uint32_t len, sft_error *err) {
    const sft__import_pk_node *n = node(k, id);
    sft__base_buf *b = &k->w->json;
    double value;

    SFT_TRY(visit(k, n, err));

    switch (n->type) {
    case SFT__PK_NONE:
        sft__base_buf_text(b, "null");
        return SFT_OK;
    case SFT__PK_BOOL:
        sft__base_buf_text(b, n->u.integer != 0 ? "true" : "false");
        return SFT_OK;
    case SFT__PK_INT:
        put_int(b, n->u.integer);
        return SFT_OK;
    case SFT__PK_BIG:
        sft__base_buf_text(b, "{\"$\":\"int\",\"v\":\"");
        if (!sft__import_decimal_big(b, (const uint8_t *)n->u.text, n->count)) {
            return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, path_of(k), len,
                                         "tree: an integer of more than %d digits",
                                         SFT__DECIMAL_DIGITS);
        }
        sft__base_buf_text(b, "\"}");
        return SFT_OK;
    case SFT__PK_FLOAT:
        if (!real_of(n, &value)) {
            return left_out(k, len, err, "a number written like this");
        }
        sft__base_buf_text(b, "{\"$\":\"float\",\"v\":");
        put_real(b, value);
        sft__base_buf_text(b, "}");
        return SFT_OK;
    case SFT__PK_STR:
        return put_text(k, n, len, err);
    case SFT__PK_BYTES:
        return put_bytes(k, id, len, err);
    case SFT__PK_GLOBAL:
        if (n->known == SFT__G_DTYPE && n->count > 6 && memcmp(n->u.text, "torch.", 6) == 0) {
            sft__base_buf_text(b, "{\"$\":\"torch.dtype\",\"v\":");
            sft__base_json_string(b, n->u.text + 6, n->count - 6);
            sft__base_buf_text(b, "}");
            return SFT_OK;
        }
        return left_out(k, len, err, n->u.text);
    default:
        return put_record(k, id, len, err);
    }
}

/* A parameter, or a tensor that remembers that it needs a gradient, is a plain tensor in the form. */
static void tell_gradient(keeping *k, uint32_t id) {
    const sft__import_pk_node *n = node(k, id);
    const bool v2 = n->type == SFT__PK_CALL && n->known == SFT__G_REBUILD_TENSOR_V2;
    const sft__import_pk_node *needs = v2 ? node(k, sft__import_pk_item(k->p, n->args, 4)) : NULL;

    if ((n->type == SFT__PK_CALL && n->known == SFT__G_REBUILD_PARAMETER) ||
        (needs != NULL && needs->type == SFT__PK_BOOL && needs->u.integer != 0)) {
        sft__import_find(k->w->t->job, SFT__RULE(NOTE, HARMLESS, "tree-gradient"),
                         SFT__AT("", 0, SFT_NO_OFFSET),
                         "parameters, and tensors that need a gradient, become plain tensors");
    }
}

/* Types that safetensors has not. */
static bool is_unknown(const leaf *l) {
    return sft_dtype_get(l->view.dtype->id) == NULL;
}

/* {"$":"tensor","v":NAME}, the name when all are known. */
static sft_status put_tensor(keeping *k, uint32_t id, uint32_t len, sft_error *err) {
    walk *w = k->w;
    const size_t first = w->leaf_count;

    if (sft__import_torch_is_storage(w->t, id)) {
        sft__import_torch_mark(w->t, id, SFT__TORCH_TOLD);
        SFT_TRY(left_out(k, len, err, "a storage that is no tensor"));
        return sft__import_tree_outside(w, id, err);
    }
    if (k->depth == 0) { /* the file is a tensor */
        SFT_TRY(sft__import_tree_name(w, 0, "tensor", 6, err));
        len = 6;
    }
    SFT_TRY(sft__import_tree_tensor(w, id, len, err));
    if (w->leaf_count == first) {
        sft__base_buf_text(&w->json, "null"); /* left out, and told */
        return SFT_OK;
    }
    const uint32_t attributes = sft__import_torch_attributes(w->t, id);
    if (attributes != SFT__PK_NO && node(k, attributes)->holds_tensor) {
        SFT_TRY(left_out(k, len, err, "what a tensor has as attributes"));
        w->json.len -= 4; /* its "null" */
    }
    if (w->leaf_count != first + 1) {
        return left_out(k, len, err, "a tensor of several parts (quantised, sparse)");
    }
    if (is_unknown(&w->leaves[first])) {
        char what[64];
        (void)snprintf(what, sizeof what, "a tensor of type %s, which safetensors has not,",
                       w->leaves[first].view.dtype->name);
        w->leaf_count = first;
        return left_out(k, len, err, what);
    }
    tell_gradient(k, id);
    SFT_TRY(
        SFT_ONE_MORE(w->t->job->allocator, w->mentions, w->mention_room, w->mention_count, err));
    sft__base_buf_text(&w->json, "{\"$\":\"tensor\",\"v\":");
    w->mentions[w->mention_count++] = (sft__import_mention){w->json.len, first};
    sft__base_buf_text(&w->json, "}");
    return SFT_OK;
}

/* ---------------------------------------------------------------- containers */

static bool is_container(const sft__import_pk_node *n) {
    return n->type == SFT__PK_LIST || n->type == SFT__PK_TUPLE || n->type == SFT__PK_DICT ||
           n->type == SFT__PK_SET;
}

static bool has_plain_keys(const keeping *k, const sft__import_pk_node *n) {
    sft__import_pk_iter it = sft__import_pk_begin(n);
    uint32_t key;
    uint32_t value;

    while (sft__import_pk_next(&it, &key) && sft__import_pk_next(&it, &value)) {
        const sft__import_pk_node *t = node(k, key);
        if (t->type != SFT__PK_STR || (t->count == 1 && t->u.text[0] == '$')) {
            return false;
        }
    }
    return true;
}

/* The tag of a container; NULL: it needs none. */
static sft_status tag_of(keeping *k, const sft__import_pk_node *n, uint32_t len, const char **tag,
                         sft_error *err) {
    static const struct {
        uint8_t type;
        const char *made_by;
        const char *tag;
    } rows[] = {
        {SFT__PK_DICT, "collections.OrderedDict", "odict"},
        {SFT__PK_DICT, "collections.Counter", "counter"},
        {SFT__PK_TUPLE, "torch.Size", "torch.Size"},
        {SFT__PK_SET, "builtins.frozenset", "frozenset"},
        {SFT__PK_SET, "__builtin__.frozenset", "frozenset"},
    };
    const sft__import_pk_node *by = node(k, n->callable);

    *tag = n->type == SFT__PK_TUPLE ? "tuple" : n->type == SFT__PK_SET ? "set" : NULL;
    if (n->type == SFT__PK_SET && n->known == 1) {
        *tag = "frozenset";
    }
    if (n->type == SFT__PK_DICT && !has_plain_keys(k, n)) {
        *tag = "dict";
    }
    for (size_t i = 0; n->callable != SFT__PK_NO && i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].type == n->type && strcmp(rows[i].made_by, by->u.text) == 0) {
            *tag = rows[i].tag;
        }
    }
    if (n->callable != SFT__PK_NO && by->known == SFT__G_DEFAULTDICT) {
        return sft__import_opaque(k->w->t->job, SFT__AT(path_of(k), len, SFT_NO_OFFSET), err,
                                  "tree: a collections.defaultdict is kept as a dict");
    }
    if (n->callable != SFT__PK_NO && strcmp(by->u.text, "collections.deque") == 0) {
        return sft__import_opaque(k->w->t->job, SFT__AT(path_of(k), len, SFT_NO_OFFSET), err,
                                  "tree: a collections.deque is kept as a list");
    }
    return SFT_OK;
}

static sft_status enter(keeping *k, uint32_t id, uint32_t len, sft_error *err) {
    sft__import_pk_node *n = node(k, id);
    sft__base_buf *b = &k->w->json;
    const char *tag;

    if (n->walked == ON_PATH) {
        return left_out(k, len, err, "a container that holds itself");
    }
    if (k->depth > DEPTH_MAX) {
        return sft__base_fail_tensor(err, SFT_E_LIMIT, SFT_NO_OFFSET, path_of(k), len,
                                     "tree: nested deeper than %d", (int)DEPTH_MAX);
    }
    SFT_TRY(tag_of(k, n, len, &tag, err));
    frame *f = &k->frames[k->depth++];
    *f = (frame){.id = id,
                 .name_len = len,
                 .dict = n->type == SFT__PK_DICT,
                 .plain = n->type == SFT__PK_DICT && tag == NULL,
                 .close = tag != NULL               ? "]}"
                          : n->type == SFT__PK_DICT ? "}"
                                                    : "]",
                 .it = sft__import_pk_begin(n)};
    n->walked = ON_PATH;
    if (tag != NULL) {
        sft__base_buf_text(b, "{\"$\":\"");
        sft__base_buf_text(b, tag);
        sft__base_buf_text(b, "\",\"v\":[");
    } else {
        sft__base_buf_text(b, f->plain ? "{" : "[");
    }
    return SFT_OK;
}

static sft_status put_value(keeping *k, uint32_t id, uint32_t len, sft_error *err) {
    if (sft__import_torch_is_tensor(k->w->t, id)) {
        SFT_TRY(visit(k, node(k, id), err));
        return put_tensor(k, id, len, err);
    }
    if (!is_container(node(k, id))) {
        return put_scalar(k, id, len, err);
    }
    SFT_TRY(visit(k, node(k, id), err));
    return enter(k, id, len, err);
}

/* A key that is no text: number, None, bytes, or a tuple of such. Two levels, no tensors. */
static sft_status put_key(keeping *k, uint32_t id, uint32_t len, sft_error *err) {
    const sft__import_pk_node *n = node(k, id);
    sft__base_buf *b = &k->w->json;
    uint32_t item;

    if (n->type != SFT__PK_TUPLE) {
        const bool bytes = n->known == SFT__G_ENCODE || sft__import_torch_is_no_bytes(k->w->t, n);
        return is_container(n) || (n->type == SFT__PK_CALL && !bytes) || n->type == SFT__PK_PID
                   ? sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, path_of(k), len,
                                           "tree: a key of this type cannot be kept")
                   : put_scalar(k, id, len, err);
    }
    sft__base_buf_text(b, "{\"$\":\"tuple\",\"v\":[");
    bool first = true;
    for (sft__import_pk_iter it = sft__import_pk_begin(n); sft__import_pk_next(&it, &item);
         first = false) {
        if (is_container(node(k, item)) || node(k, item)->type == SFT__PK_CALL) {
            return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, path_of(k), len,
                                         "tree: a key of nested tuples cannot be kept");
        }
        sft__base_buf_text(b, first ? "" : ",");
        SFT_TRY(put_scalar(k, item, len, err));
    }
    sft__base_buf_text(b, "]}");
    return SFT_OK;
}

/* The path of a child: its key as text, or its position. */
static sft_status child_path(keeping *k, const frame *f, uint32_t key, uint32_t *len,
                             sft_error *err) {
    const sft__import_pk_node *n = node(k, key);
    const char *text;
    char number[24];
    size_t size;

    if (f->dict && n->type == SFT__PK_STR) {
        SFT_TRY(sft__import_tree_visit(k->w, n->count / SFT__TREE_TEXT, err));
    }
    if (f->dict && n->type == SFT__PK_STR &&
        sft__base_utf8_valid(n->u.text, n->count) == n->count) {
        text = n->u.text;
        size = n->count;
    } else {
        const long long v =
            f->dict && n->type == SFT__PK_INT ? (long long)n->u.integer : (long long)f->index;
        size = (size_t)snprintf(number, sizeof number, "%lld", v);
        text = number;
    }
    *len = f->name_len;
    if (k->depth > 1) { /* "" is a key like others */
        SFT_TRY(sft__import_tree_name(k->w, *len, ".", 1, err));
        ++*len;
    }
    SFT_TRY(sft__import_tree_name(k->w, *len, text, size, err));
    *len += (uint32_t)size;
    return sft__import_tree_name(k->w, *len, "", 1, err);
}

static sft_status next(keeping *k, sft_error *err) {
    frame *f = &k->frames[k->depth - 1];
    sft__base_buf *b = &k->w->json;
    uint32_t key = SFT__PK_NO;
    uint32_t value;
    uint32_t len;

    if (!sft__import_pk_next(&f->it, &value)) {
        sft__base_buf_text(b, f->close);
        node(k, f->id)->walked = WALKED;
        k->depth--;
        if (k->depth > 0 && k->frames[k->depth - 1].dict && !k->frames[k->depth - 1].plain) {
            sft__base_buf_text(b, "]"); /* of the pair that this was the value of */
        }
        return SFT_OK;
    }
    if (f->dict) {
        key = value;
        if (!sft__import_pk_next(&f->it, &value)) {
            return sft__base_fail(err, SFT_E_INTERNAL, "a dict of an odd number of items");
        }
    }
    SFT_TRY(child_path(k, f, key, &len, err));
    sft__base_buf_text(b, f->index++ > 0 ? "," : "");
    if (f->plain) {
        SFT_TRY(put_text(k, node(k, key), len, err));
        sft__base_buf_text(b, ":");
    } else if (f->dict) {
        sft__base_buf_text(b, "[");
        SFT_TRY(put_key(k, key, len, err));
        sft__base_buf_text(b, ",");
    }
    const size_t depth = k->depth;
    const bool pair = f->dict && !f->plain;
    SFT_TRY(put_value(k, value, len, err));
    if (k->depth == depth && pair) {
        sft__base_buf_text(b, "]");
    }
    return SFT_OK;
}

sft_status sft__import_tree_keep(walk *w, uint32_t root, sft_error *err) {
    keeping k;

    memset(&k, 0, sizeof k);
    k.w = w;
    k.p = w->t->p;
    sft__base_buf_text(&w->json, "{\"version\":1,\"tree\":");
    SFT_TRY(put_value(&k, root, 0, err));
    while (k.depth > 0) {
        SFT_TRY(next(&k, err));
    }
    sft__base_buf_text(&w->json, "}");
    return w->json.failed ? sft__base_fail_nomem(err, w->json.len) : SFT_OK;
}

/* ---------------------------------------------------------------- names */

typedef struct named {
    const char *name; /* name, len first for the table */
    size_t len;
} named;

/* Two parts of the tree may give one name (0 and "0"): the later is NAME#2, #3 ... */
static sft_status names_differ(walk *w, named *names, sft__base_strmap *map, sft_error *err) {
    for (size_t i = 0; i < w->leaf_count; i++) {
        leaf *l = &w->leaves[i];
        names[i] = (named){l->name, l->name_len};
        for (unsigned n = 2;
             sft__base_strmap_find(map, names[i].name, names[i].len) != SFT__STRMAP_NONE; n++) {
            char *text;
            SFT_TRY(sft__import_alloc(w->t->job, &text, l->name_len + 16, 1, err));
            names[i].len =
                (size_t)snprintf(text, l->name_len + 16, "%.*s#%u", (int)l->name_len, l->name, n);
            names[i].name = text;
        }
        (void)sft__base_strmap_add(map, i);
    }
    for (size_t i = 0; i < w->leaf_count; i++) {
        w->leaves[i].name = names[i].name;
        w->leaves[i].name_len = (uint32_t)names[i].len;
    }
    return SFT_OK;
}

static sft_status unique(walk *w, sft_error *err) {
    const sft_allocator *a = w->t->job->allocator;
    const size_t room = w->leaf_count + 1;
    named *names = sft__base_alloc_array(a, room, sizeof *names);
    sft__base_strmap map;

    if (names == NULL || !sft__base_strmap_init(&map, names, sizeof *names, room, a)) {
        sft__base_free(a, names, room * sizeof *names);
        return sft__base_fail_nomem(err, room * sizeof *names);
    }
    const sft_status status = names_differ(w, names, &map, err);
    sft__base_strmap_reset(&map);
    sft__base_free(a, names, room * sizeof *names);
    return status;
}

sft_status sft__import_tree_kept(walk *w, sft_error *err) {
    sft__base_buf text;
    size_t at = 0;

    SFT_TRY(unique(w, err));
    sft__base_buf_init(&text, w->t->job->allocator);
    (void)sft__base_buf_reserve(&text, w->json.len);
    for (size_t i = 0; i < w->mention_count; i++) {
        const sft__import_mention *m = &w->mentions[i];
        const leaf *l = &w->leaves[w->leaves[m->leaf].kept];
        sft__base_buf_add(&text, w->json.data + at, m->at - at);
        sft__base_json_string(&text, l->name, l->name_len);
        at = m->at;
    }
    sft__base_buf_add(&text, w->json.data + at, w->json.len - at);
    sft__base_buf_reset(&w->json);
    const sft_metadata_entry entry = {"sft.tree", 8, text.data, text.len};
    const sft_status status = text.failed
                                  ? sft__base_fail_nomem(err, text.len)
                                  : sft_builder_add_metadata(w->t->job->builder, 0, &entry, err);
    sft__base_buf_reset(&text);
    return status;
}
