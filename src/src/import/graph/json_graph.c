/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/json_graph.c - graphs that are written as JSON: models of ONNX (onnx.load reads
 * *.onnxjson and *.json so), and of TF.js (model.json). Their operators, and places of external
 * data, are judged as those of the binary formats. Read first: graph.h.
 */
#include "import/graph/graph.h"

static bool is_one_of(const char *text, const char *const *words) {
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            return true;
        }
    }
    return false;
}

void sft__import_content_json_node(const sft__import_content *c, size_t at,
                                   const sft__import_json_node *n) {
    static const char *const nodes[] = {"node", "nodeDef", "node_def", NULL};
    static const char *const graphs[] = {"graph", "functions", "trainingInfo", "training_info",
                                         NULL};
    static const char *const fused[] = {"_FusedMatMul", "_FusedConv2D", "Prelu",
                                        "FusedDepthwiseConv2dNative", NULL}; /* TF.js's own */
    static const char *const places[] = {"externalData", "external_data", NULL};
    sft__import_graph g = {.c = c};

    if (n->op_type != NULL && is_one_of(n->list, nodes) && is_one_of(n->root, graphs)) {
        sft__import_graph_onnx_operator(&g, at, n->op_type, n->domain != NULL ? n->domain : "");
    } else if (n->op != NULL && is_one_of(n->list, nodes) &&
               strcmp(n->root, "modelTopology") == 0 && !is_one_of(n->op, fused)) {
        sft__import_graph_tf_operator(&g, at, n->op);
    } else if (n->key != NULL && n->value != NULL && is_one_of(n->list, places) &&
               strcmp(n->key, "location") == 0 && sft__import_content_leads_away(n->value)) {
        sft__import_graph_find(&g, SFT_SCAN_DANGEROUS, "onnx-external", at, n->value,
                               "external data outside of the model's directory");
    }
}
