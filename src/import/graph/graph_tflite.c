/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/graph_tflite.c - what a TFLite model would make its interpreter do: operators that
 * somebody else's library brings along, and those of TensorFlow (Flex...), whose node, a message of
 * its own within the operator's options, is judged as in a SavedModel. The interpreter's own
 * operators compute. Sources: schema.fbs (TFL3); tensorflow/lite/delegates/flex/kernel.cc;
 * flexbuffers.h. Read first: graph.h, core/flatbuf.h.
 */
#include "base/memory/need.h"
#include "import/core/flatbuf.h"
#include "import/graph/graph.h"

enum {
    CODES = 1,
    SUBGRAPHS = 2,
    BUFFERS = 4,
    METADATA = 6,
    SIGNATURES = 7, /* of a model */
    TENSORS = 0,
    OPERATORS = 3, /* of a subgraph */
    BUILTIN_CUSTOM = 32,
    BUILTIN_DELEGATE = 51,
    BUILTIN_PLACEHOLDER = 127,
    BUILTIN_CUSTOM_CALL = 173, /* of StableHLO */
    BUILTIN_LAST = 209,        /* of TensorFlow 2.21 */
    CODES_MOST = 65536,
    REST = 4096,      /* zeros behind the model */
    SLACK = 64,       /* of options that are not looked into */
    FLEX_VECTOR = 10, /* types of FlexBuffers */
    FLEX_STRING = 5
};

typedef struct lite {
    sft__import_graph *g;
    sft__import_fb fb;
    uint8_t *flex; /* for each code: is it an operator of TensorFlow? */
    uint64_t codes;
} lite;

/* In the interpreter itself, beside those with a number. */
static bool is_own(const char *name) {
    static const char *const own[] = {"AudioSpectrogram", "Mfcc", "NumericVerify",
                                      "TFLite_Detection_PostProcess"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(own[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* OperatorCode: deprecated_builtin_code (0), custom_code (1), builtin_code (3). The larger of the
 * two numbers counts. */
static sft_status take_code(lite *x, const sft__import_fb_table *t, bool *flex, sft_error *err) {
    const char *name;
    uint64_t old;
    uint64_t now;

    SFT_TRY(sft__import_fb_number(&x->fb, t, 0, 1, &old, err));
    SFT_TRY(sft__import_fb_number(&x->fb, t, 3, 4, &now, err));
    SFT_TRY(sft__import_fb_text(&x->fb, t, 1, SFT__GRAPH_TEXT, &name, err));
    old = old > INT8_MAX ? 0 : old; /* below zero */
    now = now > INT32_MAX ? 0 : now;
    now = now > old ? now : old;
    *flex = now == BUILTIN_CUSTOM && strncmp(name, "Flex", 4) == 0;
    if (*flex) {
        sft__import_graph_tf_operator(x->g, t->at, name + 4);
    } else if (now == BUILTIN_CUSTOM && !is_own(name)) {
        sft__import_graph_find(x->g, SFT_SCAN_UNKNOWN, "tflite-operator", t->at, name,
                               "an operator that a library of its own brings along");
    } else if (now > BUILTIN_LAST || now == BUILTIN_DELEGATE || now == BUILTIN_PLACEHOLDER ||
               now == BUILTIN_CUSTOM_CALL) {
        sft__import_graph_find(x->g, SFT_SCAN_UNKNOWN, "tflite-operator", t->at, name,
                               "an operator that the interpreter has not, or that calls others");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- options of Flex operators */

/* A FlexBuffer; what is not as it should be makes it not ok, and numbers 0. */
typedef struct flexbuffer {
    sft__import_wire_in *in;
    uint64_t at;
    uint64_t end;
    bool ok;
} flexbuffer;

typedef struct flex_vector {
    uint64_t at;
    uint64_t count;
    uint32_t width; /* bytes for each item */
} flex_vector;

/* A number of 1, 2, 4 or 8 bytes. */
static sft_status flex_number(flexbuffer *x, uint64_t at, uint32_t width, uint64_t *value,
                              sft_error *err) {
    const uint8_t *p;

    *value = 0;
    x->ok = x->ok && at >= x->at && at <= x->end && width <= x->end - at;
    if (!x->ok) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_wire_bytes(x->in, at, width, &p, err));
    for (uint32_t i = width; i-- > 0;) {
        *value = *value << 8 | p[i];
    }
    return SFT_OK;
}

/* The text that item i of the vector is. */
static sft_status flex_text(flexbuffer *x, const flex_vector *v, uint64_t i, sft__import_wire *text,
                            sft_error *err) {
    const uint64_t place = v->at + i * v->width;
    uint64_t type;
    uint64_t back;
    uint64_t len;

    SFT_TRY(flex_number(x, v->at + v->count * v->width + i, 1, &type, err));
    SFT_TRY(flex_number(x, place, v->width, &back, err));
    const uint32_t size = 1u << (type & 3);
    x->ok =
        x->ok && type >> 2 == FLEX_STRING && back <= place - x->at && place - back >= x->at + size;
    SFT_TRY(flex_number(x, place - back - (x->ok ? size : 0), size, &len, err));
    x->ok = x->ok && len <= x->end - (place - back);
    *text = (sft__import_wire){x->ok ? place - back : x->at, x->ok ? place - back + len : x->at};
    return SFT_OK;
}

/* A vector of two texts at least: the operator, and its NodeDef. */
static sft_status flex_texts(flexbuffer *x, sft__import_wire out[2], sft_error *err) {
    flex_vector v;
    uint64_t root_width;
    uint64_t type;
    uint64_t back;

    x->ok = x->end - x->at >= 3;
    SFT_TRY(flex_number(x, x->end - 1, 1, &root_width, err));
    SFT_TRY(flex_number(x, x->end - 2, 1, &type, err));
    x->ok = x->ok && type >> 2 == FLEX_VECTOR && root_width <= 8 && root_width != 0 &&
            (root_width & (root_width - 1)) == 0 && root_width + 2 <= x->end - x->at;
    const uint64_t root = x->ok ? x->end - 2 - root_width : x->at;
    SFT_TRY(flex_number(x, root, (uint32_t)root_width, &back, err));
    v.width = 1u << (type & 3);
    x->ok = x->ok && back <= root - x->at && root - back >= x->at + v.width;
    v.at = x->ok ? root - back : x->at;
    SFT_TRY(flex_number(x, v.at - (x->ok ? v.width : 0), v.width, &v.count, err));
    x->ok = x->ok && v.count >= 2 && v.count <= (x->end - v.at) / v.width;
    for (uint64_t i = 0; i < 2; i++) {
        SFT_TRY(flex_text(x, &v, i, &out[i], err));
    }
    return SFT_OK;
}

static sft_status take_flex(lite *x, sft__import_wire m, sft_error *err) {
    const char *said = "the options of an operator of TensorFlow cannot be read";
    sft__import_wire text[2];
    char op[SFT__GRAPH_TEXT];
    flexbuffer options = {.in = x->g->in, .at = m.at, .end = m.end};

    SFT_TRY(flex_texts(&options, text, err));
    if (!options.ok) {
        sft__import_graph_find(x->g, SFT_SCAN_UNKNOWN, "tflite-operator", m.at, "Flex", said);
        return SFT_OK;
    }
    const sft__import_wire_field f = {
        .wire = SFT__PB_BYTES, .at = text[0].at, .len = text[0].end - text[0].at};
    SFT_TRY(sft__import_graph_text(x->g, &f, op, err));
    sft__import_graph_tf_operator(x->g, text[0].at, op);
    return sft__import_graph_tf_node(x->g, text[1], err);
}

/* ---------------------------------------------------------------- how far it goes */

typedef struct list {
    uint32_t slot;
    uint32_t width; /* of an item; 0: a table */
} list;

static const list operator_lists[] = {{1, 4}, {2, 4}, {4, 0}, {5, 1}, {7, 1}, {8, 4}, {0, 0}};
static const list tensor_lists[] = {{0, 4}, {3, 1}, {4, 0}, {7, 4}, {0, 0}};
static const list quant_lists[] = {{0, 4}, {1, 4}, {2, 4}, {3, 8}, {0, 0}};
static const list graph_lists[] = {{1, 4}, {2, 4}, {4, 1}, {0, 0}};
static const list metadata_lists[] = {{0, 1}, {0, 0}};
static const list signature_lists[] = {{2, 1}, {3, 1}, {0, 0}};

static sft_status touch_quantisation(lite *x, const sft__import_fb_table *t, sft_error *err) {
    sft__import_fb_vector v;

    for (const list *l = quant_lists; l->width != 0; l++) {
        SFT_TRY(sft__import_fb_vector_of(&x->fb, t, l->slot, l->width, &v, err));
    }
    return SFT_OK;
}

/* What the fields of a table lead to, for the reach of what is read. */
static sft_status touch(lite *x, const sft__import_fb_table *t, const list *lists, sft_error *err) {
    sft__import_fb_vector v;
    sft__import_fb_table inner;
    bool there;

    for (const list *l = lists; l->slot != 0 || l->width != 0; l++) {
        if (l->width == 0) {
            SFT_TRY(sft__import_fb_inner(&x->fb, t, l->slot, &inner, &there, err));
            if (there && lists == tensor_lists) {
                SFT_TRY(touch_quantisation(x, &inner, err));
            }
        } else {
            SFT_TRY(sft__import_fb_vector_of(&x->fb, t, l->slot, l->width, &v, err));
        }
    }
    return SFT_OK;
}

/* All tables of a list, and what they lead to. */
static sft_status touch_all(lite *x, const sft__import_fb_table *t, uint32_t slot,
                            const list *lists, sft_error *err) {
    sft__import_fb_table item;
    sft__import_fb_vector v;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, t, slot, 4, &v, err));
    for (uint64_t i = 0; i < v.count; i++) {
        if (++x->g->nodes > SFT__CONTENT_NODES) {
            return sft__base_fail_at(err, SFT_E_LIMIT, t->at, "too many parts");
        }
        SFT_TRY(sft__import_fb_item_table(&x->fb, &v, i, &item, err));
        SFT_TRY(touch(x, &item, lists, err));
    }
    return SFT_OK;
}

/* What lies in the file without being of the FlatBuffer: models above 2 GB have their data so. */
static void reach_to(lite *x, uint64_t offset, uint64_t size) {
    const uint64_t all = x->g->all.end - x->g->all.at;
    const uint64_t at = x->g->all.at + offset;

    if (offset > 1 && offset <= all && size <= all - offset && at + size > x->fb.reach) {
        x->fb.reach = at + size;
    }
}

/* Operator: opcode_index (0), custom_options (5), or their place in the file (9, 10). */
static sft_status take_operator(lite *x, const sft__import_fb_table *t, sft_error *err) {
    sft__import_fb_vector v;
    uint64_t code;
    uint64_t far;
    uint64_t far_size;

    if (++x->g->nodes > SFT__CONTENT_NODES) {
        return sft__base_fail_at(err, SFT_E_LIMIT, t->at, "too many operators");
    }
    SFT_TRY(sft__import_fb_number(&x->fb, t, 0, 4, &code, err));
    SFT_TRY(touch(x, t, operator_lists, err));
    SFT_TRY(sft__import_fb_number(&x->fb, t, 9, 8, &far, err));
    SFT_TRY(sft__import_fb_number(&x->fb, t, 10, 8, &far_size, err));
    reach_to(x, far, far_size);
    if (code >= x->codes || x->flex[code] == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_fb_vector_of(&x->fb, t, 5, 1, &v, err));
    sft__import_wire m = {v.at, v.at + v.count};
    if (far > 1) { /* 0 and 1: there is none */
        const uint64_t all = x->g->all.end - x->g->all.at;
        const bool inside = far <= all && far_size <= all - far;
        m.at = x->g->all.at + (inside ? far : 0);
        m.end = m.at + (inside ? far_size : 0);
    }
    return take_flex(x, m, err);
}

/* ---------------------------------------------------------------- all of it */

static sft_status take_codes(lite *x, const sft__import_fb_table *model, sft_error *err) {
    sft__import_fb_vector v;
    sft__import_fb_table t;
    bool flex;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, model, CODES, 4, &v, err));
    if (v.count > CODES_MOST) {
        return sft__base_fail_at(err, SFT_E_LIMIT, model->at, "too many operators");
    }
    x->codes = v.count;
    SFT_TRY(sft__import_alloc(x->fb.job, &x->flex, (size_t)v.count + 1, 1, err));
    for (uint64_t i = 0; i < v.count; i++) {
        SFT_TRY(sft__import_fb_item_table(&x->fb, &v, i, &t, err));
        SFT_TRY(take_code(x, &t, &flex, err));
        x->flex[i] = flex;
    }
    return SFT_OK;
}

static sft_status take_graphs(lite *x, const sft__import_fb_table *model, sft_error *err) {
    sft__import_fb_table graph;
    sft__import_fb_table t;
    sft__import_fb_vector graphs;
    sft__import_fb_vector v;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, model, SUBGRAPHS, 4, &graphs, err));
    for (uint64_t i = 0; i < graphs.count; i++) {
        SFT_TRY(sft__import_fb_item_table(&x->fb, &graphs, i, &graph, err));
        SFT_TRY(touch(x, &graph, graph_lists, err));
        SFT_TRY(touch_all(x, &graph, TENSORS, tensor_lists, err));
        SFT_TRY(sft__import_fb_vector_of(&x->fb, &graph, OPERATORS, 4, &v, err));
        for (uint64_t k = 0; k < v.count; k++) {
            SFT_TRY(sft__import_fb_item_table(&x->fb, &v, k, &t, err));
            SFT_TRY(take_operator(x, &t, err));
        }
    }
    return SFT_OK;
}

static sft_status take_buffers(lite *x, const sft__import_fb_table *model, sft_error *err) {
    sft__import_fb_vector v;
    sft__import_fb_vector data;
    sft__import_fb_table t;
    uint64_t offset;
    uint64_t size;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, model, BUFFERS, 4, &v, err));
    for (uint64_t i = 0; i < v.count; i++) {
        if (++x->g->nodes > SFT__CONTENT_NODES) {
            return sft__base_fail_at(err, SFT_E_LIMIT, model->at, "too many buffers");
        }
        SFT_TRY(sft__import_fb_item_table(&x->fb, &v, i, &t, err));
        SFT_TRY(sft__import_fb_vector_of(&x->fb, &t, 0, 1, &data, err));
        SFT_TRY(sft__import_fb_number(&x->fb, &t, 1, 8, &offset, err));
        SFT_TRY(sft__import_fb_number(&x->fb, &t, 2, 8, &size, err));
        reach_to(x, offset, size);
    }
    return SFT_OK;
}

/* Bytes behind the last thing that the model leads to, which are none of an archive's: its members
 * are parts of their own (files that belong to the metadata). Buffers may lie behind it, too. */
static sft_status take_rest(lite *x, sft_error *err) {
    const uint64_t left = x->g->all.end - x->fb.reach;
    const uint8_t *p;
    bool zeros = true;

    if (left <= SLACK) {
        return SFT_OK;
    }
    SFT_TRY(
        sft__import_wire_bytes(x->g->in, x->fb.reach, left < REST ? (size_t)left : REST, &p, err));
    if (left >= 4 && sft__base_load_le32(p) == 0x04034b50u) {
        return SFT_OK;
    }
    for (size_t i = 0; i < left && i < REST; i++) {
        zeros = zeros && p[i] == 0;
    }
    if (left > REST || !zeros) {
        sft__import_graph_find(x->g, SFT_SCAN_UNKNOWN, "trailing", x->fb.reach, "",
                               "bytes that belong to no part of the format, and are no padding");
    }
    return SFT_OK;
}

static sft_status take_model(lite *x, sft_error *err) {
    static const list model_lists[] = {{3, 1}, {5, 4}, {0, 0}};
    sft__import_fb_table model;

    SFT_TRY(sft__import_fb_root(&x->fb, &model, err));
    SFT_TRY(touch(x, &model, model_lists, err));
    SFT_TRY(take_codes(x, &model, err));
    SFT_TRY(take_graphs(x, &model, err));
    SFT_TRY(take_buffers(x, &model, err));
    SFT_TRY(touch_all(x, &model, METADATA, metadata_lists, err));
    SFT_TRY(touch_all(x, &model, SIGNATURES, signature_lists, err));
    return take_rest(x, err);
}

sft_status sft__import_graph_tflite(sft__import_graph *g, sft_error *err) {
    const sft_allocator *a = g->c->job->allocator;
    lite *x = sft__base_alloc_zero(a, sizeof *x);
    sft__import job;

    SFT_NEED(x != NULL, sizeof *x, err);
    memset(&job, 0, sizeof job); /* one of its own: offsets and memory are its */
    sft_status status = sft__import_job_options(&job, &g->c->job->options, err);
    if (status == SFT_OK) {
        sft__base_arena_init(&job.arena, job.allocator, job.options.memory_bytes / 4);
        job.file = g->in->source;
        x->g = g;
        sft__import_fb_init(&x->fb, &job, "tflite", g->all.at, g->all.end);
        status = take_model(x, err);
    }
    sft__import_job_reset(&job);
    sft__base_free(a, x, sizeof *x);
    return status;
}
