/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/graph_onnx.c - what an ONNX model would make a runtime do: operators of domains
 * that are neither ONNX's nor the runtime's nor the model's own functions, operators that run
 * Python, external data outside of the model's directory. Graphs inside of attributes are kept in a
 * list, not called. Source: onnx.proto. Read first: graph.h.
 */
#include "import/content/graph.h"

enum { DOMAINS = 64, WAITING = 65536 };

typedef struct onnx {
    sft__graph *g;
    char domains[DOMAINS][64]; /* of the model's own functions */
    size_t domain_count;
    sft__wire *waiting; /* graphs that are still to be read */
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

static sft_status wait_for(onnx *o, sft__wire graph, sft_error *err) {
    if (o->count == WAITING) {
        sft__graph_find(o->g, SFT_SCAN_UNKNOWN, "onnx-domain", graph.at, "",
                        "more graphs inside one another than are looked into");
        return SFT_OK;
    }
    if (!sft__grow(o->g->c->job->allocator, &o->waiting, &o->room, o->count + 1,
                   sizeof *o->waiting)) {
        return sft__fail_nomem(err, sizeof *o->waiting);
    }
    o->waiting[o->count++] = graph;
    return SFT_OK;
}

static void judge(onnx *o, uint64_t at, const char *domain, const char *op) {
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
                                        NULL};
    static const char *const python[] = {"PyOp",       "PythonOp", "PythonOpGrad",     "PyFunc",
                                         "PyCustomOp", "ATen",     "ExternalFunction", NULL};
    o->g->nodes += op[0] != '\0';
    if (in_list(op, python)) {
        sft__graph_find(o->g, strncmp(op, "Py", 2) == 0 ? SFT_SCAN_DANGEROUS : SFT_SCAN_UNKNOWN,
                        "onnx-operator", at, op, "an operator that runs code from elsewhere");
        return;
    }
    if (in_list(domain, known)) {
        return;
    }
    for (size_t i = 0; i < o->domain_count; i++) {
        if (strcmp(o->domains[i], domain) == 0) {
            return;
        }
    }
    sft__graph_find(o->g, SFT_SCAN_UNKNOWN, "onnx-domain", at, domain,
                    "a domain of operators that a library of its own brings along");
}

/* AttributeProto: g (6), graphs (11). */
static sft_status take_attribute(onnx *o, const sft__wire_field *field, sft_error *err) {
    sft__wire m = sft__wire_inside(field);
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if ((f.number == 6 || f.number == 11) && f.wire == SFT__PB_BYTES) {
            SFT_TRY(wait_for(o, sft__wire_inside(&f), err));
        }
    }
}

/* NodeProto: op_type (4), attribute (5), domain (7). */
static sft_status take_node(onnx *o, const sft__wire_field *field, sft_error *err) {
    char op[SFT__GRAPH_TEXT] = "";
    char domain[SFT__GRAPH_TEXT] = "";
    sft__wire m = sft__wire_inside(field);
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            judge(o, field->start, domain, op);
            return o->g->nodes <= SFT__CONTENT_NODES
                       ? SFT_OK
                       : sft__fail_at(err, SFT_E_LIMIT, field->start, "too many nodes");
        }
        if (f.number == 4) {
            SFT_TRY(sft__graph_text(o->g, &f, op, err));
        } else if (f.number == 7) {
            SFT_TRY(sft__graph_text(o->g, &f, domain, err));
        } else if (f.number == 5 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_attribute(o, &f, err));
        }
    }
}

/* StringStringEntryProto: key (1), value (2). */
static sft_status take_entry(onnx *o, const sft__wire_field *field, sft_error *err) {
    char key[SFT__GRAPH_TEXT] = "";
    char value[SFT__GRAPH_TEXT] = "";
    sft__wire m = sft__wire_inside(field);
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1 || f.number == 2) {
            SFT_TRY(sft__graph_text(o->g, &f, f.number == 1 ? key : value, err));
        }
    }
    if (strcmp(key, "location") == 0 && sft__content_leads_away(value)) {
        sft__graph_find(o->g, SFT_SCAN_DANGEROUS, "onnx-external", field->start, value,
                        "external data outside of the model's directory");
    }
    return SFT_OK;
}

/* TensorProto: external_data (13). */
static sft_status take_tensor(onnx *o, const sft__wire_field *field, sft_error *err) {
    sft__wire m = sft__wire_inside(field);
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 13 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_entry(o, &f, err));
        }
    }
}

/* GraphProto: node (1), initializer (5); FunctionProto: node (7). */
static sft_status take_graph(onnx *o, sft__wire m, uint32_t node, sft_error *err) {
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == node && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_node(o, &f, err));
        } else if (node == 1 && f.number == 5 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_tensor(o, &f, err));
        }
    }
}

/* TrainingInfoProto: initialization (1), algorithm (2). */
static sft_status take_training(onnx *o, const sft__wire_field *field, sft_error *err) {
    sft__wire m = sft__wire_inside(field);
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if ((f.number == 1 || f.number == 2) && f.wire == SFT__PB_BYTES) {
            SFT_TRY(wait_for(o, sft__wire_inside(&f), err));
        }
    }
}

/* FunctionProto: domain (10). */
static sft_status take_domain(onnx *o, const sft__wire_field *field, sft_error *err) {
    char domain[SFT__GRAPH_TEXT];
    sft__wire m = sft__wire_inside(field);
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 10) {
            SFT_TRY(sft__graph_text(o->g, &f, domain, err));
            const size_t n = strlen(domain);
            if (n < sizeof o->domains[0] && o->domain_count < DOMAINS) {
                memcpy(o->domains[o->domain_count++], domain, n + 1);
            }
        }
    }
}

/* ModelProto: graph (7), training_info (20), functions (25). Functions first: nodes call them. */
static sft_status take_model(onnx *o, bool functions, sft_error *err) {
    sft__wire m = o->g->all;
    sft__wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__wire_next(o->g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.wire != SFT__PB_BYTES) {
            continue;
        }
        if (functions) {
            SFT_TRY(f.number == 25 ? take_domain(o, &f, err) : SFT_OK);
        } else if (f.number == 7) {
            SFT_TRY(take_graph(o, sft__wire_inside(&f), 1, err));
        } else if (f.number == 20) {
            SFT_TRY(take_training(o, &f, err));
        } else if (f.number == 25) {
            SFT_TRY(take_graph(o, sft__wire_inside(&f), 7, err));
        }
    }
}

sft_status sft__graph_onnx(sft__graph *g, sft_error *err) {
    const sft_allocator *a = g->c->job->allocator;
    onnx *o = sft__alloc_zero(a, sizeof *o);
    sft_status status;

    if (o == NULL) {
        return sft__fail_nomem(err, sizeof *o);
    }
    o->g = g;
    status = take_model(o, true, err);
    if (status == SFT_OK) {
        status = take_model(o, false, err);
    }
    while (status == SFT_OK && o->count > 0) {
        status = take_graph(o, o->waiting[--o->count], 1, err);
    }
    sft__free(a, o->waiting, o->room * sizeof *o->waiting);
    sft__free(a, o, sizeof *o);
    return status;
}
