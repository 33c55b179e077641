/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/graph.c - graphs of TensorFlow: SavedModels with the functions of their libraries,
 * frozen graphs, and the Keras configurations beside them; programs of Paddle. Every node is looked
 * at: an operator that is not on the list of those that compute is a finding. Sources:
 * saved_model.proto, meta_graph.proto, graph.proto, function.proto, node_def.proto,
 * saved_object_graph.proto; Paddle framework.proto. Read first: graph.h.
 */
#include "import/graph/graph.h"

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
    sft__import_content_find(g->c, verdict, rule, (size_t)offset, subject, strlen(subject),
                             sentence);
    g->c->state->found = found;
}

sft_status sft__import_graph_json(sft__import_graph *g, const sft__import_wire_field *f,
                                  sft_error *err) {
    const sft_allocator *a = g->c->job->allocator;
    sft__import_content c = *g->c;
    bool is;

    if (f->wire != SFT__PB_BYTES || f->len == 0) {
        return SFT_OK;
    }
    if (f->len > SFT__CONTENT_STRING) {
        sft__import_graph_find(g, SFT_SCAN_UNKNOWN, "json", f->at, "",
                               "a text too long to be looked through");
        return SFT_OK;
    }
    const size_t room = (size_t)f->len + SFT__JSON_SLACK;
    uint8_t *text = sft__base_alloc_zero(a, room);
    if (text == NULL) {
        return sft__base_fail_nomem(err, room);
    }
    const sft_status status = sft_source_read(g->in->source, f->at, text, (size_t)f->len, err);
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

static bool in_list(const char *text, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- operators of TensorFlow */

static const char *const acting[] = {"ReadFile",
                                     "WriteFile",
                                     "ImmutableConst", /* maps a file */
                                     "MatchingFiles",
                                     "MatchingFilesDataset",
                                     "PyFunc",
                                     "EagerPyFunc",
                                     "PyFuncStateless",
                                     "WholeFileReader",
                                     "WholeFileReaderV2",
                                     "TextLineReader",
                                     "TextLineReaderV2",
                                     "TFRecordReader",
                                     "TFRecordReaderV2",
                                     "FixedLengthRecordReader",
                                     "FixedLengthRecordReaderV2",
                                     "LMDBReader",
                                     "LMDBDataset",
                                     "SqlDataset",
                                     "TextLineDataset",
                                     "TFRecordDataset",
                                     "TFRecordDatasetV2",
                                     "FixedLengthRecordDataset",
                                     "FixedLengthRecordDatasetV2",
                                     "CSVDataset",
                                     "CSVDatasetV2",
                                     "SaveDataset",
                                     "SaveDatasetV2",
                                     "LoadDataset",
                                     "SnapshotDataset",
                                     "SnapshotDatasetV2",
                                     "SnapshotDatasetReader",
                                     "SaveSlices",
                                     "DumpTensor",
                                     "CreateSummaryFileWriter",
                                     "CreateSummaryDbWriter",
                                     "RpcCall",
                                     "RpcClient",
                                     "RpcServer",
                                     "RpcServerStart",
                                     "RpcServerRegister",
                                     "RemoteCall",
                                     "DebugIdentity",
                                     "DebugIdentityV2",
                                     "DebugIdentityV3",
                                     "DebugNanCount",
                                     "DebugNumericSummary",
                                     "DataServiceDataset",
                                     "DataServiceDatasetV2",
                                     "DataServiceDatasetV3",
                                     "DataServiceDatasetV4",
                                     "RegisterDataset",
                                     "RegisterDatasetV2",
                                     "DistributedSave",
                                     "DatasetToTFRecord",
                                     "ExperimentalDatasetToTFRecord",
                                     "ExperimentalLMDBDataset",
                                     "ExperimentalSqlDataset",
                                     "ExperimentalCSVDataset",
                                     "ExperimentalMatchingFilesDataset",
                                     "FileSystemSetConfiguration",
                                     "LoadLibrary",
                                     "ImportEvent",
                                     "CacheDataset",
                                     NULL};

/* What checkpoints are written and read with: of use only to a saver's own functions. */
static const char *const saving[] = {
    "SaveV2", "RestoreV2", "MergeV2Checkpoints", "Save", "Restore", "RestoreSlice", NULL};

static bool computes(const char *op) {
    size_t low = 0;
    size_t high = sft__import_tf_op_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(sft__import_tf_ops[middle], op);
        if (order == 0) {
            return true;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

typedef struct node {
    char name[SFT__GRAPH_TEXT];
    char op[SFT__GRAPH_TEXT];
    uint64_t attr_at; /* of the last stream that Print writes to */
    uint64_t at;
    bool to_file;
} node;

/* attr: key (1), value (2: AttrValue, s = 2). Print's output_stream may be a file. */
static sft_status take_attr(sft__import_graph *g, const sft__import_wire_field *attr, node *n,
                            sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(attr);
    sft__import_wire_field f;
    char key[SFT__GRAPH_TEXT] = "";
    char text[SFT__GRAPH_TEXT] = "";
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            break;
        }
        if (f.number == 1) {
            SFT_TRY(sft__import_graph_text(g, &f, key, err));
        } else if (f.number == 2 && f.wire == SFT__PB_BYTES) {
            sft__import_wire value = sft__import_wire_inside(&f);
            SFT_TRY(sft__import_wire_next(g->in, &value, &f, &more, err));
            if (more && f.number == 2) {
                SFT_TRY(sft__import_graph_text(g, &f, text, err));
            }
        }
    }
    if (strcmp(key, "output_stream") == 0 && strcmp(text, "stderr") != 0 &&
        strcmp(text, "stdout") != 0 && strncmp(text, "log(", 4) != 0) {
        n->to_file = true;
    }
    if (strcmp(key, "descriptor_source") == 0 && text[0] != '\0' &&
        strncmp(text, "local", 5) != 0 && strncmp(text, "bytes:", 6) != 0) {
        n->to_file = true;
    }
    return SFT_OK;
}

static void judge(sft__import_graph *g, const node *n, const char *function) {
    const bool saver = strstr(function, "traced_save") != NULL ||
                       strstr(function, "traced_restore") != NULL ||
                       strncmp(n->name, "save", 4) == 0;
    g->nodes++;
    if (in_list(n->op, acting) || n->to_file) {
        sft__import_graph_find(g, SFT_SCAN_DANGEROUS, "tf-operator", n->at, n->op,
                               "an operator that reads or writes files, or runs Python");
    } else if (in_list(n->op, saving)) {
        if (!saver) {
            sft__import_graph_find(
                g, SFT_SCAN_UNKNOWN, "tf-operator", n->at, n->op,
                "an operator that reads or writes checkpoints, outside of a saver");
        }
    } else if (!computes(n->op)) {
        sft__import_graph_find(g, SFT_SCAN_UNKNOWN, "tf-operator", n->at, n->op,
                               "an operator that is not on the list of those that compute");
    }
}

/* NodeDef: name (1), op (2), attr (5). */
static sft_status take_node(sft__import_graph *g, const sft__import_wire_field *field,
                            const char *function, sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    node n;
    bool more;

    memset(&n, 0, sizeof n);
    n.at = field->start;
    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            judge(g, &n, function);
            return g->nodes <= SFT__CONTENT_NODES
                       ? SFT_OK
                       : sft__base_fail_at(err, SFT_E_LIMIT, n.at, "too many nodes");
        }
        if (f.number == 1) {
            SFT_TRY(sft__import_graph_text(g, &f, n.name, err));
        } else if (f.number == 2) {
            SFT_TRY(sft__import_graph_text(g, &f, n.op, err));
            n.at = f.at;
        } else if (f.number == 5 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_attr(g, &f, &n, err));
        }
    }
}

void sft__import_graph_tf_operator(sft__import_graph *g, uint64_t at, const char *op) {
    node n;

    memset(&n, 0, sizeof n);
    n.at = at;
    memcpy(n.op, op, strnlen(op, sizeof n.op - 1));
    judge(g, &n, "");
}

sft_status sft__import_graph_tf_node(sft__import_graph *g, sft__import_wire m, sft_error *err) {
    const sft__import_wire_field f = {.at = m.at, .len = m.end - m.at, .start = m.at};
    return take_node(g, &f, "", err);
}

/* FunctionDef: signature (1: OpDef, name = 1), node_def (3). */
static sft_status take_function(sft__import_graph *g, const sft__import_wire_field *field,
                                sft_error *err) {
    char name[SFT__GRAPH_TEXT] = "";
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 1 && f.wire == SFT__PB_BYTES) {
            sft__import_wire signature = sft__import_wire_inside(&f);
            SFT_TRY(sft__import_wire_next(g->in, &signature, &f, &more, err));
            if (more && f.number == 1) {
                SFT_TRY(sft__import_graph_text(g, &f, name, err));
            }
        } else if (f.number == 3 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_node(g, &f, name, err));
        }
    }
}

/* FunctionDefLibrary: function (1). */
static sft_status take_library(sft__import_graph *g, const sft__import_wire_field *field,
                               sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 1 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_function(g, &f, err));
        }
    }
}

/* GraphDef: node (1), library (2). */
static sft_status take_graph(sft__import_graph *g, sft__import_wire m, sft_error *err) {
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 1 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_node(g, &f, "", err));
        } else if (f.number == 2 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_library(g, &f, err));
        }
    }
}

/* ---------------------------------------------------------------- SavedModel */

/* SavedObject: user_object (4: SavedUserObject, metadata = 3, a Keras configuration). */
static sft_status take_object(sft__import_graph *g, const sft__import_wire_field *field,
                              uint32_t user, uint32_t metadata, sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (user == 0 && f.number == metadata) {
            SFT_TRY(sft__import_graph_json(g, &f, err));
        } else if (user != 0 && f.number == user && f.wire == SFT__PB_BYTES) {
            const sft__import_wire_field inner = f;
            sft__import_wire u = sft__import_wire_inside(&inner);
            for (;;) {
                SFT_TRY(sft__import_wire_next(g->in, &u, &f, &more, err));
                if (!more) {
                    break;
                }
                if (f.number == metadata) {
                    SFT_TRY(sft__import_graph_json(g, &f, err));
                }
            }
        }
    }
}

/* Repeated objects, field 1. */
static sft_status take_objects(sft__import_graph *g, sft__import_wire m, uint32_t user,
                               uint32_t metadata, sft_error *err) {
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 1 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_object(g, &f, user, metadata, err));
        }
    }
}

/* AssetFileDef: filename (2), joined to the directory of the model. */
static sft_status take_asset(sft__import_graph *g, const sft__import_wire_field *field,
                             sft_error *err) {
    char name[SFT__GRAPH_TEXT];
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 2) {
            SFT_TRY(sft__import_graph_text(g, &f, name, err));
            if (sft__import_content_leads_away(name)) {
                sft__import_graph_find(g, SFT_SCAN_DANGEROUS, "tf-asset", f.at, name,
                                       "an asset that lies outside of the model's directory");
            }
        }
    }
}

/* MetaGraphDef: graph_def (2), asset_file_def (6), object_graph_def (7). */
static sft_status take_meta_graph(sft__import_graph *g, const sft__import_wire_field *field,
                                  sft_error *err) {
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.wire != SFT__PB_BYTES) {
            continue;
        }
        if (f.number == 2) {
            SFT_TRY(take_graph(g, sft__import_wire_inside(&f), err));
        } else if (f.number == 6) {
            SFT_TRY(take_asset(g, &f, err));
        } else if (f.number == 7) {
            SFT_TRY(take_objects(g, sft__import_wire_inside(&f), 4, 3, err));
        }
    }
}

sft_status sft__import_graph_saved_model(sft__import_graph *g, sft_error *err) {
    sft__import_wire m = g->all;
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 2 && f.wire == SFT__PB_BYTES) {
            SFT_TRY(take_meta_graph(g, &f, err));
        }
    }
}

/* keras_metadata.pb: nodes (1), metadata (5). */
sft_status sft__import_graph_keras_metadata(sft__import_graph *g, sft_error *err) {
    return take_objects(g, g->all, 0, 5, err);
}

sft_status sft__import_graph_frozen(sft__import_graph *g, sft_error *err) {
    return take_graph(g, g->all, err);
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
    return in_list(name, paddle_acts) ? SFT_SCAN_DANGEROUS
           : own                      ? SFT_SCAN_HARMLESS
                                      : SFT_SCAN_UNKNOWN;
}

/* OpDesc: type (3). */
static sft_status take_op(sft__import_graph *g, const sft__import_wire_field *field,
                          sft_error *err) {
    char type[SFT__GRAPH_TEXT];
    sft__import_wire m = sft__import_wire_inside(field);
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &f, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (f.number == 3) {
            g->nodes++;
            SFT_TRY(sft__import_graph_text(g, &f, type, err));
            if (in_list(type, paddle_acts)) {
                sft__import_graph_find(g, SFT_SCAN_DANGEROUS, "paddle-operator", f.at, type,
                                       "an operator that runs Python, or reads or writes files");
            }
        }
    }
}

/* ProgramDesc: blocks (1); BlockDesc: ops (4). */
sft_status sft__import_graph_paddle(sft__import_graph *g, sft_error *err) {
    sft__import_wire m = g->all;
    sft__import_wire_field block;
    sft__import_wire_field f;
    bool more;

    for (;;) {
        SFT_TRY(sft__import_wire_next(g->in, &m, &block, &more, err));
        if (!more) {
            return SFT_OK;
        }
        if (block.number != 1 || block.wire != SFT__PB_BYTES) {
            continue;
        }
        sft__import_wire inside = sft__import_wire_inside(&block);
        for (;;) {
            SFT_TRY(sft__import_wire_next(g->in, &inside, &f, &more, err));
            if (!more) {
                break;
            }
            if (f.number == 4 && f.wire == SFT__PB_BYTES) {
                SFT_TRY(take_op(g, &f, err));
            }
        }
    }
}
