/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/onnx/onnx.h - inside the ONNX reader: onnx.c walks models, graphs and nodes, onnx_tensor.c
 * turns a TensorProto into a tensor of the catalog, onnx_values.c reads numbers that are stored one
 * by one. Source: onnx/onnx.proto. Read first: wire.h.
 */
#ifndef SFT_IMPORT_ONNX_H
#define SFT_IMPORT_ONNX_H

#include "base/text/strmap.h"
#include "import/core/beside.h"
#include "import/core/wire.h"

enum { SFT__ONNX_NAME = 65536 };

/* A file that tensors lie in. */
typedef struct sft__import_onnx_file {
    const char *location;
    uint64_t size;
    uint32_t source;
} sft__import_onnx_file;

typedef struct sft__import_onnx {
    sft__import *job;
    sft__import_wire_in in;
    sft__import_onnx_file *files;
    size_t file_count;
    size_t file_room;
    uint64_t value_bytes; /* memory of all sources of single numbers */
    struct sft__import_onnx_named *functions;
    size_t function_count;
    size_t function_room;
    sft__base_strmap function_names;
    struct sft__import_onnx_place *nodes; /* what names of nodes stand before */
    size_t node_count;
    size_t node_room;
    sft__base_strmap node_names;
} sft__import_onnx;

/* Adds the TensorProto `m`. name: NULL: its own, behind prefix. */
sft_status sft__import_onnx_tensor(sft__import_onnx *o, sft__import_wire m, const char *prefix,
                                   const char *name, sft_error *err);
/* prefix + the TensorProto's own name. */
sft_status sft__import_onnx_own_name(sft__import_onnx *o, sft__import_wire m, const char *prefix,
                                     const char **name, sft_error *err);
/* The text of a field that is a name. */
sft_status sft__import_onnx_name(sft__import_onnx *o, const sft__import_wire_field *f,
                                 const char **name, sft_error *err);
/* prefix, name and end in one text. */
sft_status sft__import_onnx_join(sft__import_onnx *o, const char *prefix, const char *name,
                                 const char *end, const char **text, sft_error *err);

/* A source of `entries` numbers of `width` bytes each: those of a repeated field, one by one or
 * packed, of the message `m`. SFT_E_SIZE: there are more or fewer. Takes a pass over them. */
typedef struct sft__import_onnx_values {
    sft__import_wire m;
    uint32_t field;
    uint32_t width;
    uint32_t fixed; /* bytes of each on the wire, 4 or 8; 0: varints */
    uint64_t entries;
} sft__import_onnx_values;
sft_status sft__import_onnx_values_source(sft__import_onnx *o,
                                          const sft__import_onnx_values *values, uint32_t *source,
                                          sft_error *err);

/* onnx_function.c: functions differ by name, domain and overload. The first pass finds the names that
 * several have; their prefix then has all three. */
sft_status sft__import_onnx_functions(sft__import_onnx *o, sft_error *err);
sft_status sft__import_onnx_function(sft__import_onnx *o, sft__import_wire m, const char **prefix,
                                     sft_error *err);
void sft__import_onnx_functions_reset(sft__import_onnx *o);

/* onnx_node.c: names of nodes need not differ. *prefix, which ends with a dot, is that of the node with
 * this index in its graph; if an earlier one has it, *prefix becomes NODE@OUTPUT, or NODE@INDEX. output:
 * NULL: it has none. */
sft_status sft__import_onnx_node(sft__import_onnx *o, uint32_t index, const char *output,
                                 const char **prefix, sft_error *err);
void sft__import_onnx_nodes_reset(sft__import_onnx *o);

/* The numbers of an attribute as a tensor of one dimension, or none. */
sft_status sft__import_onnx_numbers(sft__import_onnx *o, const sft__import_onnx_values *values,
                                    const char *name, bool scalar, sft_error *err);

#endif
