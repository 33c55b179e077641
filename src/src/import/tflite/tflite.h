/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tflite/tflite.h - inside the TFLite reader: tflite.c walks the model's subgraphs and finds
 * the data of their tensors, tflite_quant.c says how they are quantised, tflite_add.c puts them
 * into the catalog. Source: tensorflow/compiler/mlir/lite/schema/schema.fbs (TFL3). Read first:
 * flatbuf.h.
 */
#ifndef SFT_IMPORT_TFLITE_H
#define SFT_IMPORT_TFLITE_H

#include "base/text/buf.h"
#include "import/core/flatbuf.h"

enum { SFT__TFLITE_NAME = 65536 };

/* bits: of an element; below 8 they are given as bytes. dtype 0: cannot be a tensor, `name` says
 * why. */
typedef struct sft__import_tflite_type {
    const char *name;
    uint16_t dtype;
    uint8_t bits;
} sft__import_tflite_type;

/* A tensor with data. name, len first: a strmap. */
typedef struct sft__import_tflite_row {
    const char *name;
    size_t len;
    const sft_dtype *dtype;
    const uint64_t *shape; /* in the job's memory */
    uint64_t offset;       /* of the source */
    uint64_t nbytes;
    uint64_t order;
    uint32_t source;
    uint32_t rank;
} sft__import_tflite_row;

/* What the model says of it. */
typedef struct sft__import_tflite_tensor {
    sft__import_fb_table table;
    const sft__import_fb_vector *all; /* tensors of its subgraph */
    const sft__import_tflite_type *type;
    uint64_t *shape; /* in the job's memory */
    uint64_t elements;
    uint32_t rank;
} sft__import_tflite_tensor;

typedef struct sft__import_tflite_external {
    uint64_t offset;
    uint64_t length;
    uint64_t at; /* of its table */
    uint32_t id;
    uint32_t group;
    bool packed;
} sft__import_tflite_external;

typedef struct sft__import_tflite_group {
    uint64_t size;
    uint32_t source; /* 0: not opened yet */
} sft__import_tflite_group;

typedef struct sft__import_tflite {
    sft__import *job;
    sft__import_fb fb;
    sft__import_fb_vector buffers;
    uint8_t *named; /* for each buffer: a tensor or the metadata name it */
    sft__import_fb_vector group_tables;
    sft__import_tflite_group *groups;
    sft__import_tflite_external *externals; /* sorted by id */
    size_t external_count;
    sft__import_tflite_row *rows;
    size_t count;
    size_t room;
    sft__base_buf json;
    uint64_t json_bytes; /* of all metadata so far */
} sft__import_tflite;

/* Metadata "tflite:NAME": type, shape and quantisation, if the type or that needs to be said. */
sft_status sft__import_tflite_describe(sft__import_tflite *x, const sft__import_tflite_tensor *t,
                                       const sft__import_tflite_row *row, sft_error *err);
/* All rows into the catalog: names that are given twice are made different, tensors of the same
 * bytes are one, with aliases. */
sft_status sft__import_tflite_add(sft__import_tflite *x, sft_error *err);

#endif
