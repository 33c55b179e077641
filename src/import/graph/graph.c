/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/graph.c - graphs of TensorFlow: SavedModels with the functions of their libraries,
 * frozen graphs, and the Keras configurations beside them; programs of Paddle. Every node is looked
 * at: an operator that is not on the list of those that compute is a finding. Sources:
 * saved_model.proto, meta_graph.proto, graph.proto, function.proto, node_def.proto,
 * saved_object_graph.proto; Paddle framework.proto. Read first: graph.h.
 */
#include "import/graph/graph.h"
#include "base/memory/need.h"

/* ---------------------------------------------------------------- pieces */

sft_status sft__import_graph_text(sft__import_graph *g, const sft__import_wire_field *f,
                                  char text[SFT__GRAPH_TEXT], sft_error *err) {
    const size_t n = f->len < SFT__GRAPH_TEXT - 1 ? (size_t)f->len : SFT__GRAPH_TEXT - 1;
    const uint8_t *bytes;

    text[0] = '\0';
    if (f->wire == SFT__PB_BYTES && n != 0) {
        SFT_TRY(sft__import_wire_bytes(g->in, f->at, n, &bytes, err));
        memcpy(text, bytes, n);
        text[n] = '\0';
    }
    return SFT_OK;
}

void sft__import_graph_find(sft__import_graph *g, uint32_t verdict, const char *rule, uint64_t at,
                            const char *subject, const char *sentence) {
    const uint64_t offset = at - g->all.at;
    const unsigned found = g->c->state->found; /* nodes are counted, not findings */
    sft__import_content_find(g->c, verdict, rule, (size_t)offset, sft__import_span_of(subject),
                             sentence);
    g->c->state->found = found;
}

/* A text that is JSON: its rules. */
static sft_status take_json(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                            sft_error *err) {
    const sft_allocator *a = g->c->job->allocator;
    sft__import_content c = *g->c;
    bool is;

    (void)of;
    if (f->len == 0) {
        return SFT_OK;
    }
    if (f->len > SFT__CONTENT_STRING) {
        sft__import_graph_find(g, SFT_SCAN_UNKNOWN, "json", f->at, "",
                               "a text too long to be looked through");
        return SFT_OK;
    }
    const size_t room = (size_t)f->len + SFT__JSON_SLACK;
    uint8_t *text = sft__base_alloc_zero(a, room);
    SFT_NEED(text != NULL, room, err);
    const sft_status status = sft__import_wire_copy(g->in, f->at, text, (size_t)f->len, err);
    if (status == SFT_OK) {
        c.data = text;
        c.len = (size_t)f->len;
        c.at = g->c->at == SFT_NO_OFFSET ? SFT_NO_OFFSET : g->c->at + (f->at - g->all.at);
        c.name = "metadata";
        (void)sft__import_content_json(&c, &is);
    }
    sft__base_free(a, text, room);
    return status;
}

static sft_status take_field(sft__import_graph *g, const sft__import_wire_field *f,
                             const sft__import_graph_rule *rule, void *of, sft_error *err) {
    if (rule->fn == NULL && rule->inside == NULL) {
        return sft__import_graph_text(g, f, (char *)of + rule->text, err);
    }
    if (f->wire != SFT__PB_BYTES && !rule->any) {
        return SFT_OK;
    }
    return rule->fn != NULL
               ? rule->fn(g, f, of, err)
               : sft__import_graph_fields(g, sft__import_wire_inside(f), rule->inside, of, err);
}

sft_status sft__import_graph_fields(sft__import_graph *g, sft__import_wire m,
                                    const sft__import_graph_rule *rules, void *of, sft_error *err) {
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        const sft__import_graph_rule *rule = rules;
        while (rule->number != 0 && rule->number != f.number) {
            rule++;
        }
        if (rule->number != 0) {
            SFT_TRY(take_field(g, &f, rule, of, err));
        }
    }
}

/* The text of a message's first field, if that has this number. */
static sft_status first_text(sft__import_graph *g, const sft__import_wire_field *field,
                             uint32_t number, char text[SFT__GRAPH_TEXT], sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
    return more && f.number == number ? sft__import_graph_text(g, &f, text, err) : SFT_OK;
}

/* ---------------------------------------------------------------- operators of TensorFlow */

/* ImmutableConst maps a file. */
/* clang-format off */
static const char *const acting[] = {
    "ReadFile", "WriteFile", "ImmutableConst", "MatchingFiles", "MatchingFilesDataset", "PyFunc",
    "EagerPyFunc", "PyFuncStateless", "WholeFileReader", "WholeFileReaderV2", "TextLineReader",
    "TextLineReaderV2", "TFRecordReader", "TFRecordReaderV2", "FixedLengthRecordReader",
    "FixedLengthRecordReaderV2", "LMDBReader", "LMDBDataset", "SqlDataset", "TextLineDataset",
    "TFRecordDataset", "TFRecordDatasetV2", "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2", "CSVDataset", "CSVDatasetV2", "SaveDataset", "SaveDatasetV2",
    "LoadDataset", "SnapshotDataset", "SnapshotDatasetV2", "SnapshotDatasetReader", "SaveSlices",
    "DumpTensor", "CreateSummaryFileWriter", "CreateSummaryDbWriter", "RpcCall", "RpcClient",
    "RpcServer", "RpcServerStart", "RpcServerRegister", "RemoteCall", "DebugIdentity",
    "DebugIdentityV2", "DebugIdentityV3", "DebugNanCount", "DebugNumericSummary",
    "DataServiceDataset", "DataServiceDatasetV2", "DataServiceDatasetV3", "DataServiceDatasetV4",
    "RegisterDataset", "RegisterDatasetV2", "DistributedSave", "DatasetToTFRecord",
    "ExperimentalDatasetToTFRecord", "ExperimentalLMDBDataset", "ExperimentalSqlDataset",
    "ExperimentalCSVDataset", "ExperimentalMatchingFilesDataset", "FileSystemSetConfiguration",
    "LoadLibrary", "ImportEvent", "CacheDataset", NULL};
/* clang-format on */

/* What checkpoints are written and read with: of use only to a saver's own functions. */
static const char *const saving[] = {
    "SaveV2", "RestoreV2", "MergeV2Checkpoints", "Save", "Restore", "RestoreSlice", NULL};

typedef struct node {
    char name[SFT__GRAPH_TEXT];
    char op[SFT__GRAPH_TEXT];
    uint64_t at;
    bool to_file;
} node;

typedef struct attribute {
    char key[SFT__GRAPH_TEXT];
    char text[SFT__GRAPH_TEXT];
} attribute;

/* AttrValue: s (2). */
static sft_status take_value(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                             sft_error *err) {
    return first_text(g, f, 2, ((attribute *)of)->text, err);
}

/* Print's output_stream may be a file. */
static sft_status take_attr(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                            sft_error *err) {
    static const sft__import_graph_rule rules[] = {
        {1, .text = offsetof(attribute, key)}, {2, .fn = take_value}, {0}};
    static const char *const console[] = {"stderr", "stdout", NULL};
    attribute a = {"", ""};
    node *n = of;

    SFT_TRY(sft__import_graph_fields(g, sft__import_wire_inside(f), rules, &a, err));
    if (strcmp(a.key, "output_stream") == 0 && !sft__import_text_is_listed(a.text, console) &&
        strncmp(a.text, "log(", 4) != 0) {
        n->to_file = true;
    }
    if (strcmp(a.key, "descriptor_source") == 0 && a.text[0] != '\0' &&
        strncmp(a.text, "local", 5) != 0 && strncmp(a.text, "bytes:", 6) != 0) {
        n->to_file = true;
    }
    return SFT_OK;
}

static sft_status take_op(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                          sft_error *err) {
    node *n = of;

    n->at = f->at;
    return sft__import_graph_text(g, f, n->op, err);
}

static void judge(sft__import_graph *g, const node *n, const char *function) {
    const bool saver = strstr(function, "traced_save") != NULL ||
                       strstr(function, "traced_restore") != NULL ||
                       strncmp(n->name, "save", 4) == 0;
    g->nodes++;
    if (sft__import_text_is_listed(n->op, acting) || n->to_file) {
        sft__import_graph_find(g, SFT_SCAN_DANGEROUS, "tf-operator", n->at, n->op,
                               "an operator that reads or writes files, or runs Python");
    } else if (sft__import_text_is_listed(n->op, saving)) {
        if (!saver) {
            sft__import_graph_find(
                g, SFT_SCAN_UNKNOWN, "tf-operator", n->at, n->op,
                "an operator that reads or writes checkpoints, outside of a saver");
        }
    } else if (!sft__import_text_is_among(n->op, sft__import_tf_ops, sft__import_tf_op_count)) {
        sft__import_graph_find(g, SFT_SCAN_UNKNOWN, "tf-operator", n->at, n->op,
                               "an operator that is not on the list of those that compute");
    }
}

/* NodeDef; of: the name of the function that it is in, or NULL. */
static sft_status take_node(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                            sft_error *err) {
    static const sft__import_graph_rule rules[] = {{1, .text = offsetof(node, name)},
                                                   {2, .fn = take_op, .any = true},
                                                   {5, .fn = take_attr},
                                                   {0}};
    node n = {.at = f->start};

    SFT_TRY(sft__import_graph_fields(g, sft__import_wire_inside(f), rules, &n, err));
    judge(g, &n, of != NULL ? of : "");
    return g->nodes <= SFT__CONTENT_NODES
               ? SFT_OK
               : sft__base_fail_at(err, SFT_E_LIMIT, n.at, "too many nodes");
}

void sft__import_graph_tf_operator(sft__import_graph *g, uint64_t at, const char *op) {
    node n = {.at = at};

    memcpy(n.op, op, strnlen(op, sizeof n.op - 1));
    judge(g, &n, "");
}

sft_status sft__import_graph_tf_node(sft__import_graph *g, sft__import_wire m, sft_error *err) {
    const sft__import_wire_field f = {.at = m.at, .len = m.end - m.at, .start = m.at};
    return take_node(g, &f, NULL, err);
}

/* OpDef: name (1). */
static sft_status take_signature(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                                 sft_error *err) {
    return first_text(g, f, 1, of, err);
}

/* FunctionDef: signature (1), node_def (3). */
static sft_status take_function(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                                sft_error *err) {
    static const sft__import_graph_rule rules[] = {
        {1, .fn = take_signature}, {3, .fn = take_node}, {0}};
    char name[SFT__GRAPH_TEXT] = "";

    (void)of;
    return sft__import_graph_fields(g, sft__import_wire_inside(f), rules, name, err);
}

/* FunctionDefLibrary: function (1). GraphDef: node (1), library (2). */
static const sft__import_graph_rule library[] = {{1, .fn = take_function}, {0}};
static const sft__import_graph_rule graph[] = {{1, .fn = take_node}, {2, .inside = library}, {0}};

sft_status sft__import_graph_frozen(sft__import_graph *g, sft_error *err) {
    return sft__import_graph_fields(g, g->all, graph, NULL, err);
}

/* ---------------------------------------------------------------- SavedModel */

/* The name of an asset's file, joined to the directory of the model. */
static sft_status take_filename(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                                sft_error *err) {
    char name[SFT__GRAPH_TEXT];

    (void)of;
    SFT_TRY(sft__import_graph_text(g, f, name, err));
    if (sft__import_content_leads_away(name)) {
        sft__import_graph_find(g, SFT_SCAN_DANGEROUS, "tf-asset", f->at, name,
                               "an asset that lies outside of the model's directory");
    }
    return SFT_OK;
}

/* SavedUserObject: metadata (3), a Keras configuration. SavedObject: user_object (4).
 * SavedObjectGraph: nodes (1). AssetFileDef: filename (2). MetaGraphDef: graph_def (2),
 * asset_file_def (6), object_graph_def (7). */
static const sft__import_graph_rule user_object[] = {{3, .fn = take_json}, {0}};
static const sft__import_graph_rule saved_object[] = {{4, .inside = user_object}, {0}};
static const sft__import_graph_rule object_graph[] = {{1, .inside = saved_object}, {0}};
static const sft__import_graph_rule asset[] = {{2, .fn = take_filename}, {0}};
static const sft__import_graph_rule meta_graph[] = {
    {2, .inside = graph}, {6, .inside = asset}, {7, .inside = object_graph}, {0}};

/* SavedModel: meta_graphs (2). */
sft_status sft__import_graph_saved_model(sft__import_graph *g, sft_error *err) {
    static const sft__import_graph_rule rules[] = {{2, .inside = meta_graph}, {0}};
    return sft__import_graph_fields(g, g->all, rules, NULL, err);
}

/* keras_metadata.pb: nodes (1), metadata (5). */
sft_status sft__import_graph_keras_metadata(sft__import_graph *g, sft_error *err) {
    static const sft__import_graph_rule object[] = {{5, .fn = take_json}, {0}};
    static const sft__import_graph_rule rules[] = {{1, .inside = object}, {0}};
    return sft__import_graph_fields(g, g->all, rules, NULL, err);
}

bool sft__import_graph_is_frozen(sft__import_graph *g) {
    sft__import_wire m = g->all;
    sft__import_wire_field f;
    sft_error ignored;
    bool named = false;
    bool more;

    if (sft__import_wire_next(g->in, &m, &f, &more, &ignored) != SFT_OK || !more || f.number != 1 ||
        f.wire != SFT__PB_BYTES) {
        return false;
    }
    m = sft__import_wire_inside(&f);
    while (sft__import_wire_next(g->in, &m, &f, &more, &ignored) == SFT_OK && more) {
        if (f.number > 7 || f.wire != SFT__PB_BYTES) {
            return false;
        }
        named = named || (f.number == 2 && f.len != 0 && f.len < 128);
    }
    return !more && named;
}

/* ---------------------------------------------------------------- Paddle */

static const char *const paddle_acts[] = {"py_func",   "py_layer", "pylayer",      "run_program",
                                          "load",      "save",     "load_combine", "save_combine",
                                          "read_file", NULL};

uint32_t sft__import_content_pir(const char *type, size_t len) {
    const char *dot = memchr(type, '.', len);
    char name[SFT__GRAPH_TEXT];

    if (dot == NULL) { /* a block, a region */
        return SFT_SCAN_HARMLESS;
    }
    size_t n = len - (size_t)(dot - type) - 1;
    if (n >= sizeof name) {
        return SFT_SCAN_UNKNOWN;
    }
    memcpy(name, dot + 1, n);
    n -= n != 0 && name[n - 1] == '_'; /* in place */
    name[n] = '\0';
    const bool own = dot - type == 1 && type[0] >= '0' && type[0] <= '2';
    return sft__import_text_is_listed(name, paddle_acts) ? SFT_SCAN_DANGEROUS
           : own                                         ? SFT_SCAN_HARMLESS
                                                         : SFT_SCAN_UNKNOWN;
}

static sft_status take_type(sft__import_graph *g, const sft__import_wire_field *f, void *of,
                            sft_error *err) {
    char type[SFT__GRAPH_TEXT];

    (void)of;
    g->nodes++;
    SFT_TRY(sft__import_graph_text(g, f, type, err));
    if (sft__import_text_is_listed(type, paddle_acts)) {
        sft__import_graph_find(g, SFT_SCAN_DANGEROUS, "paddle-operator", f->at, type,
                               "an operator that runs Python, or reads or writes files");
    }
    return SFT_OK;
}

/* ProgramDesc: blocks (1); BlockDesc: ops (4); OpDesc: type (3). */
sft_status sft__import_graph_paddle(sft__import_graph *g, sft_error *err) {
    static const sft__import_graph_rule op[] = {{3, .fn = take_type, .any = true}, {0}};
    static const sft__import_graph_rule block[] = {{4, .inside = op}, {0}};
    static const sft__import_graph_rule rules[] = {{1, .inside = block}, {0}};
    return sft__import_graph_fields(g, g->all, rules, NULL, err);
}
