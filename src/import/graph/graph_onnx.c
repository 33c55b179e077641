/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/graph_onnx.c - what an ONNX model would make a runtime do: operators that are
 * neither ONNX's nor the runtime's (onnx_ops.c) nor the model's own functions, operators that run
 * Python or what was compiled elsewhere, external data outside of the model's directory. Graphs
 * inside of attributes are kept in a list, not called. Source: onnx.proto. Read first: graph.h.
 */
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "import/graph/graph.h"
#include <stdio.h>
#include <stdlib.h>

enum { WAITING = 65536, FUNCTIONS = 1 << 20 };

typedef struct onnx {
    sft__import_graph *g;
    uint64_t *functions; /* keyed hashes of the model's own, sorted */
    size_t function_count;
    size_t function_room;
    uint64_t key[2];
    sft__import_wire *waiting; /* graphs that are still to be read */
    size_t count;
    size_t room;
} onnx;

/* A graph inside of something else. */
static sft_status wait_for(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                           sft_error *err) {
    onnx *o = of;

    if (o->count == WAITING) {
        sft__import_graph_find(g, SFT_SCAN_UNKNOWN, "onnx-domain", f->at, "",
                               "more graphs inside one another than are looked into");
        return SFT_OK;
    }
    SFT_TRY(SFT_ONE_MORE(g->c->job->allocator, o->waiting, o->room, o->count, err));
    o->waiting[o->count++] = sft__import_wire_inside(f);
    return SFT_OK;
}

/* What a node says. */
typedef struct onnx_node {
    onnx *o;
    char op[SFT__GRAPH_TEXT];
    char domain[SFT__GRAPH_TEXT];
    char context[SFT__GRAPH_TEXT]; /* ep_cache_context */
} onnx_node;

/* DOMAIN/OPERATOR, as onnx_ops.c has it. Returns its length. */
static size_t full_name(char out[2 * SFT__GRAPH_TEXT], const char *domain, const char *op) {
    return (size_t)snprintf(out, 2 * SFT__GRAPH_TEXT, "%s/%s",
                            domain[0] != '\0' ? domain : "ai.onnx", op);
}

static int by_value(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Does it compute: an operator of the list, or a function of the model's own, which is read, too?
 */
static bool is_known(const onnx *o, const onnx_node *n) {
    char name[2 * SFT__GRAPH_TEXT];
    const size_t len = full_name(name, n->domain, n->op);
    const uint64_t hash = sft__base_hash(o->key, name, len);

    return sft__import_text_is_among(name, sft__import_onnx_ops, sft__import_onnx_op_count) ||
           (o->function_count != 0 &&
            bsearch(&hash, o->functions, o->function_count, sizeof hash, by_value) != NULL);
}

static void judge(const onnx *o, uint64_t at, const onnx_node *n) {
    /* clang-format off */
    static const char *const known[] = {
        "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training",
        "ai.onnx.training", "com.microsoft", "com.microsoft.nchwc", "com.microsoft.experimental",
        "com.microsoft.dml", "com.ms.internal.nhwc", NULL};
    /* clang-format on */
    static const char *const python[] = {"PyOp",       "PythonOp", "PythonOpGrad",     "PyFunc",
                                         "PyCustomOp", "ATen",     "ExternalFunction", NULL};
    o->g->nodes++;
    if (sft__import_text_is_listed(n->op, python)) {
        sft__import_graph_find(
            o->g, strncmp(n->op, "Py", 2) == 0 ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN,
            "onnx-operator", at, n->op, "an operator that runs code from elsewhere");
    } else if (strcmp(n->op, "EPContext") == 0) {
        const bool away = sft__import_content_leads_away(n->context);
        sft__import_graph_find(
            o->g, away ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN, "onnx-external", at,
            away ? n->context : n->op,
            away ? "a compiled graph outside of the model's directory"
                 : "a graph that was compiled for a processor, in the node or in a "
                   "file beside the model: nothing here knows what it does");
    } else if (is_known(o, n)) {
        return;
    } else if (n->domain[0] == '\0' || sft__import_text_is_listed(n->domain, known)) {
        sft__import_graph_find(o->g, SFT_SCAN_UNKNOWN, "onnx-operator", at, n->op,
                               "no operator that ONNX or its runtime is known to compute with");
    } else {
        sft__import_graph_find(o->g, SFT_SCAN_UNKNOWN, "onnx-domain", at, n->domain,
                               "a domain of operators that a library of its own brings along");
    }
}

void sft__import_graph_onnx_operator(sft__import_graph *g, uint64_t at, const char *op,
                                     const char *domain) {
    const onnx o = {.g = g};
    onnx_node n = {.op = ""};

    memcpy(n.op, op, strnlen(op, sizeof n.op - 1));
    memcpy(n.domain, domain, strnlen(domain, sizeof n.domain - 1));
    judge(&o, at, &n);
}

typedef struct onnx_attribute {
    onnx *o;
    char name[SFT__GRAPH_TEXT];
    char text[SFT__GRAPH_TEXT];
} onnx_attribute;

static sft_status take_inner(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                             sft_error *err) {
    return wait_for(g, f, ((onnx_attribute *)of)->o, err);
}

/* AttributeProto: name (1), s (4), g (6), graphs (11). */
static sft_status take_attribute(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                                 sft_error *err) {
    static const sft__import_graph_rule rules[] = {{1, .text = offsetof(onnx_attribute, name)},
                                                   {4, .text = offsetof(onnx_attribute, text)},
                                                   {6, .fn = take_inner},
                                                   {11, .fn = take_inner},
                                                   {0}};
    onnx_node *n = of;
    onnx_attribute a = {.o = n->o};

    SFT_TRY(sft__import_graph_fields(g, sft__import_wire_inside(f), rules, &a, err));
    if (strcmp(a.name, "ep_cache_context") == 0) {
        memcpy(n->context, a.text, sizeof a.text);
    }
    return SFT_OK;
}

/* NodeProto: op_type (4), attribute (5), domain (7). */
static sft_status take_node(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                            sft_error *err) {
    static const sft__import_graph_rule rules[] = {{4, .text = offsetof(onnx_node, op)},
                                                   {5, .fn = take_attribute},
                                                   {7, .text = offsetof(onnx_node, domain)},
                                                   {0}};
    onnx_node n = {.o = of};

    SFT_TRY(sft__import_graph_fields(g, sft__import_wire_inside(f), rules, &n, err));
    judge(n.o, f->start, &n);
    return g->nodes <= SFT__CONTENT_NODES
               ? SFT_OK
               : sft__base_fail_at(err, SFT_E_LIMIT, f->start, "too many nodes");
}

typedef struct onnx_entry {
    char key[SFT__GRAPH_TEXT];
    char value[SFT__GRAPH_TEXT];
} onnx_entry;

/* StringStringEntryProto: key (1), value (2). */
static sft_status take_entry(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                             sft_error *err) {
    static const sft__import_graph_rule rules[] = {
        {1, .text = offsetof(onnx_entry, key)}, {2, .text = offsetof(onnx_entry, value)}, {0}};
    onnx_entry e = {"", ""};

    (void)of;
    SFT_TRY(sft__import_graph_fields(g, sft__import_wire_inside(f), rules, &e, err));
    if (strcmp(e.key, "location") == 0 && sft__import_content_leads_away(e.value)) {
        sft__import_graph_find(g, SFT_SCAN_DANGEROUS, "onnx-external", f->start, e.value,
                               "external data outside of the model's directory");
    }
    return SFT_OK;
}

/* The bytes of a text, in memory of their own; NULL and *len 0: there are none. */
static sft_status read_text(const sft__import_graph *g, const sft__import_wire_field *f,
                            char **text, size_t *len, sft_error *err) {
    const sft_allocator *a = g->c->job->allocator;

    *text = NULL;
    *len = f->wire == SFT__PB_BYTES ? (size_t)f->len : 0; /* at most SFT__CONTENT_STRING */
    if (*len == 0) {
        return SFT_OK;
    }
    *text = sft__base_alloc(a, *len);
    SFT_NEED(*text != NULL, *len, err);
    return sft__import_wire_copy(g->in, f->at, *text, *len, err);
}

static sft_status take_half(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                            sft_error *err) {
    (void)g;
    (void)err;
    ((sft__import_wire_field *)of)[f->number - 1] = *f;
    return SFT_OK;
}

/* An entry of metadata_props, StringStringEntryProto: the same rules as for other formats'. */
static sft_status take_property(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                                sft_error *err) {
    static const sft__import_graph_rule rules[] = {
        {1, .fn = take_half, .any = true}, {2, .fn = take_half, .any = true}, {0}};
    const sft_allocator *a = g->c->job->allocator;
    sft__import_wire_field parts[2] = {{.wire = SFT__PB_VARINT}, {.wire = SFT__PB_VARINT}};
    sft__import_content c = *g->c;
    char *texts[2] = {NULL, NULL};
    size_t len[2] = {0, 0};
    sft_status status = SFT_OK;

    (void)of;
    SFT_TRY(sft__import_graph_fields(g, sft__import_wire_inside(f), rules, parts, err));
    if (parts[0].len + parts[1].len > SFT__CONTENT_STRING) { /* each is less than the file */
        sft__import_graph_find(g, SFT_SCAN_UNKNOWN, "strings", f->start, "",
                               "a text of metadata too long to be looked through");
        return SFT_OK;
    }
    for (size_t i = 0; i < 2 && status == SFT_OK; i++) {
        status = read_text(g, &parts[i], &texts[i], &len[i], err);
    }
    if (status == SFT_OK) {
        const sft__import_content_entry e = {len[0] != 0 ? texts[0] : "", len[0],
                                             len[1] != 0 ? texts[1] : "", len[1]};
        c.name = "metadata";
        c.at = SFT_NO_OFFSET;
        status = sft__import_content_metadata(&c, &e, err);
    }
    sft__base_free(a, texts[0], len[0]);
    sft__base_free(a, texts[1], len[1]);
    return status;
}

/* FunctionProto: name (1), domain (10). */
static sft_status note_function(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                                sft_error *err) {
    static const sft__import_graph_rule rules[] = {
        {1, .text = offsetof(onnx_node, op)}, {10, .text = offsetof(onnx_node, domain)}, {0}};
    char full[2 * SFT__GRAPH_TEXT];
    onnx *o = of;
    onnx_node n = {.o = o};

    SFT_TRY(sft__import_graph_fields(g, sft__import_wire_inside(f), rules, &n, err));
    if (o->function_count == FUNCTIONS) {
        return sft__base_fail_at(err, SFT_E_LIMIT, f->start, "too many functions");
    }
    SFT_TRY(
        SFT_ONE_MORE(g->c->job->allocator, o->functions, o->function_room, o->function_count, err));
    const size_t len = full_name(full, n.domain, n.op);
    o->functions[o->function_count++] = sft__base_hash(o->key, full, len);
    return SFT_OK;
}

/* TensorProto: external_data (13). GraphProto: node (1), initializer (5), metadata_props (16).
 * FunctionProto: node (7), metadata_props (14). TrainingInfoProto: initialization (1), algorithm
 * (2). ModelProto: graph (7), metadata_props (14), training_info (20), functions (25). */
static const sft__import_graph_rule tensor[] = {{13, .fn = take_entry}, {0}};
static const sft__import_graph_rule graph[] = {
    {1, .fn = take_node}, {5, .inside = tensor}, {16, .fn = take_property}, {0}};
static const sft__import_graph_rule function[] = {
    {7, .fn = take_node}, {14, .fn = take_property}, {0}};
static const sft__import_graph_rule training[] = {{1, .fn = wait_for}, {2, .fn = wait_for}, {0}};
static const sft__import_graph_rule model[] = {{7, .inside = graph},
                                               {14, .fn = take_property},
                                               {20, .inside = training},
                                               {25, .inside = function},
                                               {0}};

sft_status sft__import_graph_onnx(sft__import_graph *g, sft_error *err) {
    const sft_allocator *a = g->c->job->allocator;
    onnx *o = sft__base_alloc_zero(a, sizeof *o);
    sft_status status;

    SFT_NEED(o != NULL, sizeof *o, err);
    o->g = g;
    sft__base_random_key(o->key);
    /* functions first: nodes call them */
    static const sft__import_graph_rule functions[] = {{25, .fn = note_function}, {0}};
    status = sft__import_graph_fields(g, g->all, functions, o, err);
    if (status == SFT_OK) {
        if (o->function_count != 0) {
            qsort(o->functions, o->function_count, sizeof *o->functions, by_value);
        }
        status = sft__import_graph_fields(g, g->all, model, o, err);
    }
    while (status == SFT_OK && o->count > 0) {
        status = sft__import_graph_fields(g, o->waiting[--o->count], graph, o, err);
    }
    sft__base_free(a, o->functions, o->function_room * sizeof *o->functions);
    sft__base_free(a, o->waiting, o->room * sizeof *o->waiting);
    sft__base_free(a, o, sizeof *o);
    return status;
}
