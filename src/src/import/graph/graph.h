/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/graph.h - the rules for graphs: TensorFlow's (SavedModel, frozen), ONNX's,
 * Paddle's. Graphs are programs whose operators somebody else wrote: harmless are those that
 * compute. They are read where they lie, by their lengths. Read first: content.h, core/wire.h.
 */
#ifndef SFT_IMPORT_GRAPH_H
#define SFT_IMPORT_GRAPH_H

#include "import/content/content.h"
#include "import/core/wire.h"

typedef struct sft__import_graph {
    const sft__import_content *c; /* without data: positions are those of the source */
    sft__import_wire_in *in;
    sft__import_wire all; /* of the part in the source */
    uint64_t nodes;
    bool whole; /* nothing was passed over */
} sft__import_graph;

enum { SFT__GRAPH_TEXT = 256 };

/* A field's text, cut to SFT__GRAPH_TEXT - 1 bytes, for comparing with lists. */
sft_status sft__import_graph_text(sft__import_graph *g, const sft__import_wire_field *f,
                                  char text[SFT__GRAPH_TEXT], sft_error *err);
/* A finding at a place of the source. */
void sft__import_graph_find(sft__import_graph *g, uint32_t verdict, const char *rule, uint64_t at,
                            const char *subject, const char *sentence);
/* A text of the source that is JSON: its rules. */
sft_status sft__import_graph_json(sft__import_graph *g, const sft__import_wire_field *f,
                                  sft_error *err);

/* Each walks the whole; *is: it is such a graph. SFT_E_SCHEMA: it ends in the middle. */
sft_status sft__import_graph_saved_model(sft__import_graph *g, sft_error *err);
sft_status sft__import_graph_keras_metadata(sft__import_graph *g, sft_error *err);
sft_status sft__import_graph_frozen(sft__import_graph *g, sft_error *err);
sft_status sft__import_graph_onnx(sft__import_graph *g, sft_error *err);
sft_status sft__import_graph_paddle(sft__import_graph *g, sft_error *err);
sft_status sft__import_graph_tflite(sft__import_graph *g, sft_error *err);
/* An operator of TensorFlow by its name; a NodeDef. */
void sft__import_graph_tf_operator(sft__import_graph *g, uint64_t at, const char *op);
sft_status sft__import_graph_tf_node(sft__import_graph *g, sft__import_wire node, sft_error *err);
/* The same of ONNX's, which no function of the model's own stands for. */
void sft__import_graph_onnx_operator(sft__import_graph *g, uint64_t at, const char *op,
                                     const char *domain);
/* A frozen graph, by its first fields. */
bool sft__import_graph_is_frozen(sft__import_graph *g);

/* tf_ops.c, made by scripts/generate_tf_ops.py: operators that compute and nothing else, sorted. */
extern const char *const sft__import_tf_ops[];
extern const size_t sft__import_tf_op_count;
/* onnx_ops.c, made by scripts/generate_onnx_ops.py: the same, as DOMAIN/OPERATOR. */
extern const char *const sft__import_onnx_ops[];
extern const size_t sft__import_onnx_op_count;

#endif
