/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/graph_onnx.c - what an ONNX model would make a runtime do: operators that are
 * neither ONNX's nor the runtime's (onnx_ops.c) nor the model's own functions, operators that run
 * Python or what was compiled elsewhere, external data outside of the model's directory. Graphs
 * inside of attributes are kept in a list, not called. Source: onnx.proto. Read first: graph.h.
 */
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

static bool in_list(const char *text, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static sft_status wait_for(onnx *o, sft__import_wire graph, sft_error *err) {
    if (o->count == WAITING) {
        sft__import_graph_find(o->g, SFT_SCAN_UNKNOWN, "onnx-domain", graph.at, "",
                               "more graphs inside one another than are looked into");
        return SFT_OK;
    }
    if (!sft__base_grow(o->g->c->job->allocator, &o->waiting, &o->room, o->count + 1,
                        sizeof *o->waiting)) {
        return sft__base_fail_nomem(err, sizeof *o->waiting);
    }
    o->waiting[o->count++] = graph;
    return SFT_OK;
}

/* What a node says. */
typedef struct onnx_node {
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

static int by_text(const void *name, const void *item) {
    return strcmp(name, *(const char *const *)item);
}

/* Does it compute: an operator of the list, or a function of the model's own, which is read, too?
 */
static bool is_known(const onnx *o, const onnx_node *n) {
    char name[2 * SFT__GRAPH_TEXT];
    const size_t len = full_name(name, n->domain, n->op);
    const uint64_t hash = sft__base_hash(o->key, name, len);

    return bsearch(name, sft__import_onnx_ops, sft__import_onnx_op_count,
                   sizeof *sft__import_onnx_ops, by_text) != NULL ||
           (o->function_count != 0 &&
            bsearch(&hash, o->functions, o->function_count, sizeof hash, by_value) != NULL);
}

static void judge(const onnx *o, uint64_t at, const onnx_node *n) {
    static const char *const known[] = {"",
                                        "ai.onnx",
                                        "ai.onnx.ml",
                                        "ai.onnx.preview",
                                        "ai.onnx.preview.training",
                                        "ai.onnx.training",
                                        "com.microsoft",
                                        "com.microsoft.nchwc",
                                        "com.microsoft.experimental",
                                        "com.microsoft.dml",
                                        "com.ms.internal.nhwc",
                                        NULL};
    static const char *const python[] = {"PyOp",       "PythonOp", "PythonOpGrad",     "PyFunc",
                                         "PyCustomOp", "ATen",     "ExternalFunction", NULL};
    o->g->nodes++;
    if (in_list(n->op, python)) {
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
    } else if (in_list(n->domain, known)) {
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
    onnx_node n = {.op = "", .domain = "", .context = ""};

    memcpy(n.op, op, strnlen(op, sizeof n.op - 1));
    memcpy(n.domain, domain, strnlen(domain, sizeof n.domain - 1));
    judge(&o, at, &n);
}

/* AttributeProto: name (1), s (4), g (6), graphs (11). */
static sft_status take_attribute(onnx *o, onnx_node *n, const sft__import_wire_field *field,
                                 sft_error *err) {
    char name[SFT__GRAPH_TEXT] = "";
    char text[SFT__GRAPH_TEXT] = "";
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            break;
        }
        if ((f.number == 6 || f.number == 11) && f.wire == SFT__PB_BYTES) {
            SFT_TRY(wait_for(o, sft__import_wire_inside(&f), err));
        } else if (f.number == 1 || f.number == 4) {
            SFT_TRY(sft__import_graph_text(o->g, &f, f.number == 1 ? name : text, err));
        }
    }
    if (strcmp(name, "ep_cache_context") == 0) {
        memcpy(n->context, text, sizeof text);
    }
    return SFT_OK;
}

/* NodeProto: op_type (4), attribute (5), domain (7). */
static sft_status take_node(onnx *o, const sft__import_wire_field *field, sft_error *err) {
    onnx_node n = {.op = "", .domain = "", .context = ""};
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            judge(o, field->start, &n);
            return o->g->nodes <= SFT__CONTENT_NODES
                       ? SFT_OK
                       : sft__base_fail_at(err, SFT_E_LIMIT, field->start, "too many nodes");
        }
        if (f.number == 4) {
            SFT_TRY(sft__import_graph_text(o->g, &f, n.op, err));
        } else if (f.number == 7) {
            SFT_TRY(sft__import_graph_text(o->g, &f, n.domain, err));
        } else if (f.number == 5 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_attribute(o, &n, &f, err));
        }
    }
}

/* StringStringEntryProto: key (1), value (2). */
static sft_status take_entry(onnx *o, const sft__import_wire_field *field, sft_error *err) {
    char key[SFT__GRAPH_TEXT] = "";
    char value[SFT__GRAPH_TEXT] = "";
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1 || f.number == 2) {
            SFT_TRY(sft__import_graph_text(o->g, &f, f.number == 1 ? key : value, err));
        }
    }
    if (strcmp(key, "location") == 0 && sft__import_content_leads_away(value)) {
        sft__import_graph_find(o->g, SFT_SCAN_DANGEROUS, "onnx-external", field->start, value,
                               "external data outside of the model's directory");
    }
    return SFT_OK;
}

/* TensorProto: external_data (13). */
static sft_status take_tensor(onnx *o, const sft__import_wire_field *field, sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 13 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_entry(o, &f, err));
        }
    }
}

/* The bytes of a text, in memory of their own; NULL and *len 0: there are none. */
static sft_status read_text(const onnx *o, const sft__import_wire_field *f, char **text,
                            size_t *len, sft_error *err) {
    const sft_allocator *a = o->g->c->job->allocator;

    *text = NULL;
    *len = f->wire == SFT__PB_BYTES ? (size_t)f->len : 0; /* at most SFT__CONTENT_STRING */
    if (*len == 0) {
        return SFT_OK;
    }
    *text = sft__base_alloc(a, *len);
    if (*text == NULL) {
        return sft__base_fail_nomem(err, *len);
    }
    return sft_source_read(o->g->in->source, f->at, *text, *len, err);
}

/* An entry of metadata_props, StringStringEntryProto: the same rules as for other formats'. */
static sft_status take_property(onnx *o, const sft__import_wire_field *field, sft_error *err) {
    const sft_allocator *a = o->g->c->job->allocator;
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field parts[2] = {{.wire = SFT__PB_VARINT}, {.wire = SFT__PB_VARINT}};
    sft__import_content c = *o->g->c;
    char *texts[2] = {NULL, NULL};
    size_t len[2] = {0, 0};
    sft_status status = SFT_OK;
    sft__import_wire_field f;
    bool more = true;

    while (more) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (more && (f.number == 1 || f.number == 2)) {
            parts[f.number - 1] = f;
        }
    }
    if (parts[0].len + parts[1].len > SFT__CONTENT_STRING) { /* each is less than the file */
        sft__import_graph_find(o->g, SFT_SCAN_UNKNOWN, "strings", field->start, "",
                               "a text of metadata too long to be looked through");
        return SFT_OK;
    }
    for (size_t i = 0; i < 2 && status == SFT_OK; i++) {
        status = read_text(o, &parts[i], &texts[i], &len[i], err);
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

/* GraphProto: node (1), initializer (5), metadata_props (16); FunctionProto: node (7),
 * metadata_props (14). */
static sft_status take_graph(onnx *o, sft__import_wire m, uint32_t node, sft_error *err) {
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == node && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_node(o, &f, err));
        } else if (node == 1 && f.number == 5 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_tensor(o, &f, err));
        } else if (f.number == (node == 1 ? 16u : 14u) && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_property(o, &f, err));
        }
    }
}

/* TrainingInfoProto: initialization (1), algorithm (2). */
static sft_status take_training(onnx *o, const sft__import_wire_field *field, sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if ((f.number == 1 || f.number == 2) && f.wire == SFT__PB_BYTES) {
            SFT_TRY(wait_for(o, sft__import_wire_inside(&f), err));
        }
    }
}

/* FunctionProto: name (1), domain (10). */
static sft_status take_function(onnx *o, const sft__import_wire_field *field, sft_error *err) {
    char full[2 * SFT__GRAPH_TEXT];
    onnx_node n = {.op = "", .domain = ""};
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1 || f.number == 10) {
            SFT_TRY(sft__import_graph_text(o->g, &f, f.number == 1 ? n.op : n.domain, err));
        }
    }
    if (o->function_count == FUNCTIONS) {
        return sft__base_fail_at(err, SFT_E_LIMIT, field->start, "too many functions");
    }
    if (!sft__base_grow(o->g->c->job->allocator, &o->functions, &o->function_room,
                        o->function_count + 1, sizeof *o->functions)) {
        return sft__base_fail_nomem(err, sizeof *o->functions);
    }
    const size_t len = full_name(full, n.domain, n.op);
    o->functions[o->function_count++] = sft__base_hash(o->key, full, len);
    return SFT_OK;
}

/* ModelProto: graph (7), metadata_props (14), training_info (20), functions (25). Functions first:
 * nodes call them. */
static sft_status take_model(onnx *o, bool functions, sft_error *err) {
    sft__import_wire m = o->g->all;
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.wire != SFT__PB_BYTES) {
            continue;
        }
        if (functions) {
            SFT_TRY(f.number == 25 ? take_function(o, &f, err) : SFT_OK);
        } else if (f.number == 7) {
            SFT_TRY(take_graph(o, sft__import_wire_inside(&f), 1, err));
        } else if (f.number == 14) {
            SFT_TRY(take_property(o, &f, err));
        } else if (f.number == 20) {
            SFT_TRY(take_training(o, &f, err));
        } else if (f.number == 25) {
            SFT_TRY(take_graph(o, sft__import_wire_inside(&f), 7, err));
        }
    }
}

sft_status sft__import_graph_onnx(sft__import_graph *g, sft_error *err) {
    const sft_allocator *a = g->c->job->allocator;
    onnx *o = sft__base_alloc_zero(a, sizeof *o);
    sft_status status;

    if (o == NULL) {
        return sft__base_fail_nomem(err, sizeof *o);
    }
    o->g = g;
    sft__base_random_key(o->key);
    status = take_model(o, true, err);
    if (status == SFT_OK) {
        if (o->function_count != 0) {
            qsort(o->functions, o->function_count, sizeof *o->functions, by_value);
        }
        status = take_model(o, false, err);
    }
    while (status == SFT_OK && o->count > 0) {
        status = take_graph(o, o->waiting[--o->count], 1, err);
    }
    sft__base_free(a, o->functions, o->function_room * sizeof *o->functions);
    sft__base_free(a, o->waiting, o->room * sizeof *o->waiting);
    sft__base_free(a, o, sizeof *o);
    return status;
}
