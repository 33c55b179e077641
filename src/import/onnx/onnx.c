/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/onnx/onnx.c - the messages of an ONNX model that hold tensors: graphs, their nodes, the
 * graphs inside nodes, functions. A stack of messages under way instead of recursion; what holds no
 * tensor is passed over by its length. Nothing of the graph is interpreted. Read first: onnx.h.
 */
#include "import/onnx/onnx.h"
#include "base/memory/need.h"
#include <stdio.h>

enum { DEPTH = 64, PROBE_FIELDS = 64 };

typedef enum kind { MODEL, TRAINING, FUNCTION, GRAPH, NODE, ATTRIBUTE } kind;

/* A message under way. */
typedef struct frame {
    kind kind;
    sft__import_wire m;
    const char *prefix;            /* of the names in it */
    sft__import_wire_field name;   /* number 0: none. NODE and ATTRIBUTE: their names, ... */
    sft__import_wire_field output; /* ... and the node's first output */
    sft__import_wire_field op;
    bool constant;  /* a node Constant; its attribute "value" */
    uint32_t index; /* of nodes, of training_info */
} frame;

typedef struct walk {
    sft__import_onnx o;
    frame stack[DEPTH];
    size_t depth;
} walk;

static sft_status push(walk *w, const frame *f, sft_error *err) {
    if (w->depth == DEPTH) {
        return sft__base_fail_at(err, SFT_E_LIMIT, f->m.at,
                                 "onnx: graphs in graphs, more than %d messages deep", (int)DEPTH);
    }
    w->stack[w->depth++] = *f;
    return SFT_OK;
}

static sft_status is_text(walk *w, const sft__import_wire_field *f, const char *text, bool *same,
                          sft_error *err) {
    const size_t n = strlen(text);
    const uint8_t *bytes;

    *same = false;
    if (f->wire == SFT__PB_BYTES && f->number != 0 && f->len == n) {
        SFT_TRY(sft__import_wire_bytes(&w->o.in, f->at, n, &bytes, err));
        *same = memcmp(bytes, text, n) == 0;
    }
    return SFT_OK;
}

/* The strings of a message that come into names, wherever in it they are. */
static sft_status look_ahead(walk *w, frame *f, const uint32_t numbers[3], sft_error *err) {
    sft__import_wire m = f->m;
    sft__import_wire_field found;
    sft_status status;

    while (sft__import_wire_each(&w->o.in, &m, &found, &status, err)) {
        if (found.number == numbers[0]) {
            f->name = found;
        } else if (found.number == numbers[1] && f->output.number == 0) {
            f->output = found;
        } else if (found.number == numbers[2]) {
            f->op = found;
        }
    }
    return status;
}

/* "prefix" + name of the field, or other + index where it has none, + "." */
static sft_status prefix_of(walk *w, const frame *f, const char *other, const char **prefix,
                            sft_error *err) {
    const char *name = NULL;
    char number[64];

    if (f->name.number != 0 && f->name.len != 0) {
        SFT_TRY(sft__import_onnx_name(&w->o, &f->name, &name, err));
    } else {
        (void)snprintf(number, sizeof number, "%s_%u", other, (unsigned)f->index);
        name = number;
    }
    return sft__import_onnx_join(&w->o, f->prefix, name, ".", prefix, err);
}

/* What stands before all that is in the node. */
static sft_status prefix_of_node(walk *w, const frame *node, const char **prefix, sft_error *err) {
    const char *output = NULL;

    SFT_TRY(prefix_of(w, node, "node", prefix, err));
    if (node->output.number != 0 && node->output.len != 0) {
        SFT_TRY(sft__import_onnx_name(&w->o, &node->output, &output, err));
    }
    return sft__import_onnx_node(&w->o, node->index, output, prefix, err);
}

/* prefix + the output of the node that the attribute `f` is of, or else the node's name or place. */
static sft_status name_of_node(walk *w, const frame *f, const frame *node, const char **name,
                               sft_error *err) {
    if (f->output.number != 0 && f->output.len != 0) {
        SFT_TRY(sft__import_onnx_name(&w->o, &f->output, name, err));
        return sft__import_onnx_join(&w->o, f->prefix, *name, "", name, err);
    }
    SFT_TRY(prefix_of_node(w, node, name, err));
    const size_t len = strlen(*name) - 1; /* without the dot behind it */
    char *copy;
    SFT_TRY(sft__import_copy(w->o.job, &copy, *name, len, err));
    *name = copy;
    return SFT_OK;
}

static sft_status enter_node(walk *w, frame *f, sft_error *err) {
    static const uint32_t numbers[3] = {3, 2, 4};

    SFT_TRY(look_ahead(w, f, numbers, err));
    SFT_TRY(is_text(w, &f->op, "Constant", &f->constant, err));
    return push(w, f, err);
}

/* The entries of a repeated number, one by one or packed. */
static sft_status count_numbers(walk *w, sft__import_onnx_values *v, sft_error *err) {
    sft__import_wire m = v->m;
    sft__import_wire_field f;
    sft_status status;

    while (sft__import_wire_each(&w->o.in, &m, &f, &status, err)) {
        if (f.number != v->field) {
            continue;
        }
        if (f.wire != SFT__PB_BYTES || v->fixed != 0) {
            v->entries += f.wire == SFT__PB_BYTES ? f.len / 4 : 1;
            continue;
        }
        for (uint64_t at = f.at; at < f.at + f.len; v->entries++) {
            uint64_t value;
            SFT_TRY(sft__import_wire_varint(&w->o.in, &at, f.at + f.len, &value, err));
        }
    }
    return status;
}

/* Numbers that a Constant has in its attribute itself: value_float, value_ints ... As a tensor of
 * the node's output; texts are named. */
static sft_status plain_constant(walk *w, const frame *f, sft_error *err) {
    static const struct {
        const char *name;
        uint32_t field;
        uint32_t fixed;
    } rows[] = {{"value_float", 2, 4}, {"value_floats", 7, 4}, {"value_int", 3, 0},
                {"value_ints", 8, 0},  {"value_string", 0, 0}, {"value_strings", 0, 0}};
    const char *name;
    bool same = false;
    size_t i = 0;

    for (; i < sizeof rows / sizeof rows[0] && !same; i++) {
        SFT_TRY(is_text(w, &f->name, rows[i].name, &same, err));
    }
    if (!same) {
        return SFT_OK;
    }
    i--;
    SFT_TRY(name_of_node(w, f, &w->stack[w->depth - 1], &name, err));
    if (rows[i].field == 0) {
        sft__import_find(w->o.job, SFT__RULE(LEFT_OUT, HARMLESS, "onnx-text"),
                         sft__import_text_at(name, f->m.at), "a constant of texts");
        return SFT_OK;
    }
    sft__import_onnx_values v = {f->m, rows[i].field, rows[i].fixed != 0 ? 4 : 8, rows[i].fixed, 0};
    SFT_TRY(count_numbers(w, &v, err));
    const bool scalar = rows[i].field < 4;
    return scalar && v.entries != 1 ? sft__base_fail_at(err, SFT_E_SCHEMA, f->m.at,
                                                        "onnx: a constant without its number")
                                    : sft__import_onnx_numbers(&w->o, &v, name, scalar, err);
}

static sft_status enter_attribute(walk *w, frame *f, sft_error *err) {
    static const uint32_t numbers[3] = {1, 0, 0};
    bool value = false;
    bool sparse = false;

    memset(&f->name, 0, sizeof f->name); /* the node's */
    SFT_TRY(look_ahead(w, f, numbers, err));
    SFT_TRY(is_text(w, &f->name, "value", &value, err));
    SFT_TRY(is_text(w, &f->name, "sparse_value", &sparse, err));
    if (f->constant) {
        SFT_TRY(plain_constant(w, f, err));
    }
    f->constant = f->constant && (value || sparse);
    return push(w, f, err);
}

/* NAME.values, NAME.indices, NAME.size. name: NULL: that of its values. */
static sft_status sparse(walk *w, const char *prefix, const char *name, sft__import_wire m,
                         sft_error *err) {
    sft__import_onnx_values size = {m, 3, 8, 0, 0};
    sft__import_wire parts[2] = {{0, 0}, {0, 0}};
    static const char *const ends[2] = {".values", ".indices"};
    const char *part;
    sft__import_wire_field f;
    bool more = true;

    while (more) {
        SFT_TRY(sft__import_wire_next(&w->o.in, &m, &f, &more, err));
        if (more && f.wire == SFT__PB_BYTES && (f.number == 1 || f.number == 2)) {
            parts[f.number - 1] = sft__import_wire_inside(&f);
        }
    }
    if (parts[0].at == 0 || parts[1].at == 0) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, size.m.at,
                                 "onnx: a sparse tensor without its values or indices");
    }
    if (name == NULL) {
        SFT_TRY(sft__import_onnx_own_name(&w->o, parts[0], prefix, &name, err));
    }
    for (size_t i = 0; i < 2; i++) {
        SFT_TRY(sft__import_onnx_join(&w->o, name, ends[i], "", &part, err));
        SFT_TRY(sft__import_onnx_tensor(&w->o, parts[i], "", part, err));
    }
    SFT_TRY(count_numbers(w, &size, err));
    SFT_TRY(sft__import_onnx_join(&w->o, name, ".size", "", &part, err));
    return sft__import_onnx_numbers(&w->o, &size, part, false, err);
}

/* What the tensors of an attribute are called: a Constant's as the node's output, others OUTPUT.ATTRIBUTE,
 * those of a list with their places behind; defaults of functions FUNCTION.attribute_proto.ATTRIBUTE. */
static sft_status name_in(walk *w, frame *at, bool listed, const char **name, sft_error *err) {
    const frame *node = &w->stack[w->depth - 2];
    const char *attribute = "attribute";
    char number[32] = "";

    if (at->name.number != 0 && at->name.len != 0) {
        SFT_TRY(sft__import_onnx_name(&w->o, &at->name, &attribute, err));
    }
    if (node->kind == FUNCTION) {
        SFT_TRY(sft__import_onnx_join(&w->o, at->prefix, "attribute_proto", "", name, err));
    } else {
        SFT_TRY(name_of_node(w, at, node, name, err));
    }
    if (!at->constant) {
        SFT_TRY(sft__import_onnx_join(&w->o, *name, ".", attribute, name, err));
    }
    if (listed) {
        (void)snprintf(number, sizeof number, ".%u", (unsigned)at->index++);
    }
    return sft__import_onnx_join(&w->o, *name, number, "", name, err);
}

/* ---------------------------------------------------------------- one field of each kind of
 * message */

/* An entry of metadata_props: a text beside the tensors, which conversions name. */
static sft_status tell_text(walk *w, frame *child, sft_error *err) {
    static const uint32_t numbers[3] = {1, 0, 0};
    char subject[256] = "metadata_props.";
    size_t n = strlen(subject);
    const uint8_t *key;
    sft_error ignored; /* an entry that is none has no key */

    if (w->o.job->scanning) {
        return SFT_OK;
    }
    memset(&child->name, 0, sizeof child->name);
    if (look_ahead(w, child, numbers, &ignored) == SFT_OK && child->name.number != 0 &&
        child->name.wire == SFT__PB_BYTES) {
        const size_t room = sizeof subject - n;
        const size_t len = child->name.len < room ? (size_t)child->name.len : room;
        SFT_TRY(sft__import_wire_bytes(&w->o.in, child->name.at, len, &key, err));
        memcpy(subject + n, key, len);
        n += len;
    }
    sft__import_left(w->o.job, subject, n, 0, "a text of the model: outputs hold its tensors");
    return SFT_OK;
}

static sft_status in_model(walk *w, frame *at, const sft__import_wire_field *f, frame *child,
                           sft_error *err) {
    if (f->number == 7) {
        child->kind = GRAPH;
    } else if (f->number == 14) {
        return tell_text(w, child, err);
    } else if (f->number == 20) {
        char number[64];
        child->kind = TRAINING;
        (void)snprintf(number, sizeof number, "training_info.%u.", (unsigned)at->index++);
        SFT_TRY(sft__import_onnx_join(&w->o, number, "", "", &child->prefix, err));
    } else if (f->number == 25) {
        static const uint32_t numbers[3] = {1, 0, 0};
        child->kind = FUNCTION;
        child->index = at->index++;
        SFT_TRY(look_ahead(w, child, numbers, err));
        SFT_TRY(prefix_of(w, child, "function", &child->prefix, err));
        SFT_TRY(sft__import_onnx_function(&w->o, child->m, &child->prefix, err));
    } else {
        return SFT_OK;
    }
    child->index = 0;
    return push(w, child, err);
}

static sft_status in_training(walk *w, const sft__import_wire_field *f, frame *child,
                              sft_error *err) {
    if (f->number != 1 && f->number != 2) {
        return SFT_OK;
    }
    child->kind = GRAPH;
    child->index = 0;
    SFT_TRY(sft__import_onnx_join(&w->o, child->prefix,
                                  f->number == 1 ? "initialization." : "algorithm.", "",
                                  &child->prefix, err));
    return push(w, child, err);
}

static sft_status in_graph(walk *w, frame *at, const sft__import_wire_field *f, frame *child,
                           sft_error *err) {
    if (f->number == (at->kind == FUNCTION ? 7u : 1u)) {
        child->kind = NODE;
        child->index = at->index++;
        memset(&child->name, 0, sizeof child->name);
        return enter_node(w, child, err);
    }
    if (at->kind == GRAPH && f->number == 5) {
        return sft__import_onnx_tensor(&w->o, child->m, at->prefix, NULL, err);
    }
    if (f->number == (at->kind == FUNCTION ? 14u : 16u)) {
        return tell_text(w, child, err);
    }
    if (at->kind == GRAPH && f->number == 15) {
        return sparse(w, at->prefix, NULL, child->m, err);
    }
    if (at->kind == FUNCTION && f->number == 11) { /* the default of an attribute */
        child->kind = ATTRIBUTE;
        child->constant = false;
        return enter_attribute(w, child, err);
    }
    return SFT_OK;
}

static sft_status in_node(walk *w, const sft__import_wire_field *f, frame *child, sft_error *err) {
    if (f->number != 5) {
        return SFT_OK;
    }
    child->kind = ATTRIBUTE;
    return enter_attribute(w, child, err);
}

/* The graph of an attribute: its names are behind those of the node and the attribute. */
static sft_status graph_in(walk *w, frame *at, bool listed, frame *child, sft_error *err) {
    const frame *node = &w->stack[w->depth - 2];

    if (node->kind == FUNCTION) {
        SFT_TRY(
            sft__import_onnx_join(&w->o, at->prefix, "attribute_proto.", "", &child->prefix, err));
    } else {
        SFT_TRY(prefix_of_node(w, node, &child->prefix, err));
    }
    child->name = at->name;
    SFT_TRY(prefix_of(w, child, "attribute", &child->prefix, err));
    if (listed) {
        char number[32];
        (void)snprintf(number, sizeof number, "%u.", (unsigned)at->index++);
        SFT_TRY(sft__import_onnx_join(&w->o, child->prefix, number, "", &child->prefix, err));
    }
    memset(&child->name, 0, sizeof child->name);
    child->kind = GRAPH;
    child->index = 0;
    return push(w, child, err);
}

/* t, tensors, sparse_tensor, sparse_tensors, g, graphs. */
static sft_status in_attribute(walk *w, frame *at, const sft__import_wire_field *f, frame *child,
                               sft_error *err) {
    const bool is_sparse = f->number == 22 || f->number == 23;
    const char *name;

    if (f->number == 6 || f->number == 11) {
        return graph_in(w, at, f->number == 11, child, err);
    }
    if (f->number != 5 && f->number != 10 && !is_sparse) {
        return SFT_OK;
    }
    SFT_TRY(name_in(w, at, f->number == 10 || f->number == 23, &name, err));
    return is_sparse ? sparse(w, at->prefix, name, child->m, err)
                     : sft__import_onnx_tensor(&w->o, child->m, at->prefix, name, err);
}

static sft_status step(walk *w, frame *at, const sft__import_wire_field *f, sft_error *err) {
    if (f->wire != SFT__PB_BYTES) {
        return SFT_OK;
    }
    frame child = {.kind = at->kind, .m = sft__import_wire_inside(f), .prefix = at->prefix};
    child.constant = at->constant;
    child.output = at->output;
    switch (at->kind) {
    case MODEL:
        return in_model(w, at, f, &child, err);
    case TRAINING:
        return in_training(w, f, &child, err);
    case GRAPH:
    case FUNCTION:
        memset(&child.output, 0, sizeof child.output);
        return in_graph(w, at, f, &child, err);
    case NODE:
        return in_node(w, f, &child, err);
    default:
        return in_attribute(w, at, f, &child, err);
    }
}

static sft_status walk_all(walk *w, sft_error *err) {
    const frame model = {.kind = MODEL, .m = {0, sft_source_size(w->o.job->file)}, .prefix = ""};

    SFT_TRY(push(w, &model, err));
    while (w->depth > 0) {
        frame *at = &w->stack[w->depth - 1];
        sft__import_wire_field f;
        bool more;
        SFT_TRY(sft__import_wire_next(&w->o.in, &at->m, &f, &more, err));
        if (!more) {
            w->depth--;
        } else {
            SFT_TRY(step(w, at, &f, err));
        }
    }
    return SFT_OK;
}

static sft_status open_onnx(sft__import *job, sft_error *err) {
    walk *w;

    SFT_TRY(sft__base_need_zero(job->allocator, &w, sizeof *w, err));
    w->o.job = job;
    sft__import_wire_init(&w->o.in, job->file);
    w->o.in.fields_left = job->scanning ? SFT__WIRE_SCANNED : UINT64_MAX;
    sft_status status = sft__import_onnx_functions(&w->o, err);
    SFT_THEN(status, walk_all(w, err));
    sft__import_onnx_functions_reset(&w->o);
    sft__import_onnx_nodes_reset(&w->o);
    sft__base_free(job->allocator, w->o.files, w->o.file_room * sizeof *w->o.files);
    sft__base_free(job->allocator, w, sizeof *w);
    return status;
}

/* ---------------------------------------------------------------- what it is */

/* The wire type of each field of ModelProto: 0 none, 1 varint, 2 bytes. */
static bool is_model_field(const sft__import_wire_field *f) {
    static const uint8_t kinds[27] = {[1] = 1, [2] = 2, [3] = 2,  [4] = 2,  [5] = 1,  [6] = 2,
                                      [7] = 2, [8] = 2, [14] = 2, [20] = 2, [25] = 2, [26] = 2};
    return f->number < sizeof kinds && kinds[f->number] != 0 &&
           f->wire == (kinds[f->number] == 1 ? SFT__PB_VARINT : SFT__PB_BYTES);
}

/* Does a graph begin with one of GraphProto's messages or texts? */
static bool is_graph(sft__import_wire_in *in, uint64_t at) {
    const uint8_t *tag;
    return sft__import_wire_bytes(in, at, 1, &tag, NULL) == SFT_OK && (*tag & 7) == SFT__PB_BYTES &&
           (*tag >> 3 == 1 || *tag >> 3 == 2 || *tag >> 3 == 5 ||
            (*tag >> 3 >= 10 && *tag >> 3 <= 16));
}

/* No magic number: the fields of a model, one of them a graph. The graph may be cut short: opening
 * says so. */
static bool probe(const sft__import_probe *p) {
    sft__import_wire m = {0, p->size};
    sft__import_wire_in in;
    sft__import_wire_field f;
    bool more;
    bool version = false;

    sft__import_wire_init(&in, p->source);
    for (int i = 0; i < PROBE_FIELDS; i++) {
        const sft_status status = sft__import_wire_next(&in, &m, &f, &more, NULL);
        if (!more || !is_model_field(&f)) {
            return false;
        }
        version = version || f.number == 1 || f.number == 8;
        if (f.number == 7) {
            return version && (status != SFT_OK || is_graph(&in, f.at));
        }
        if (status != SFT_OK) {
            return false;
        }
    }
    return false;
}

const sft__import_reader sft__import_reader_onnx = {SFT_IMPORT_ONNX, probe, open_onnx};
