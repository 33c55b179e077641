/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tflite/tflite_quant.c - what a quantised tensor of TFLite means, as metadata of the
 * catalog: "tflite:NAME" is {"dtype": "INT8", "shape": [...], "scale": [...], "zero_point": [...],
 * "quantized_dimension": 0}. Read first: tflite.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "import/tflite/tflite.h"
#include <stdio.h>

enum { TENSOR_NAME = 3, TENSOR_QUANTIZATION = 4 };
enum { QUANT_DETAILS_TYPE = 4, QUANT_DETAILS = 5, QUANT_DIMENSION = 6 };
enum { BLOCKWISE = 2 };

/* A float in as many digits as tell it from any other. */
static void put_float(sft__base_buf *b, uint32_t bits) {
    char text[48];
    float v;

    memcpy(&v, &bits, sizeof v);
    if (v != v || v - v != 0) {
        sft__base_buf_text(b, v != v ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    const int n = snprintf(text, sizeof text, "%.9g", (double)v);
    for (int i = 0; i < n; i++) { /* whatever the locale's point is */
        const char c = text[i];
        const bool plain = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e';
        text[i] = plain ? c : '.';
    }
    sft__base_buf_add(b, text, (size_t)n);
}

/* Two's complement of 64 bits. */
static void put_signed(sft__base_buf *b, uint64_t v) {
    if (v > INT64_MAX) {
        sft__base_buf_text(b, "-");
        v = 0 - v;
    }
    sft__base_buf_u64(b, v);
}

static void put_key(sft__base_buf *b, const char *key) {
    sft__base_buf_text(b, ", \"");
    sft__base_buf_text(b, key);
    sft__base_buf_text(b, "\": ");
}

static sft_status too_long(const sft__import_tflite *x, uint64_t at, sft_error *err) {
    return sft__base_fail_at(err, SFT_E_LIMIT, at,
                             "memory: quantisation parameters of more than %llu bytes of text",
                             (unsigned long long)(x->job->options.memory_bytes / 6));
}

static sft_status put_list(sft__import_tflite *x, const sft__import_fb_table *q, uint32_t slot,
                           const char *key, sft_error *err) {
    sft__import_fb_vector v;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, q, slot, slot == 3 ? 8 : 4, &v, err));
    if (v.count == 0) {
        return SFT_OK;
    }
    put_key(&x->json, key);
    for (uint64_t i = 0; i < v.count; i++) {
        uint64_t value;
        SFT_TRY(sft__import_fb_item(&x->fb, &v, i, &value, err));
        sft__base_buf_text(&x->json, i == 0 ? "[" : ", ");
        if (slot == 3) {
            put_signed(&x->json, value);
        } else {
            put_float(&x->json, (uint32_t)value);
        }
        if (x->json_bytes + x->json.len > x->job->options.memory_bytes / 6) {
            return too_long(x, v.at, err);
        }
    }
    sft__base_buf_text(&x->json, "]");
    return SFT_OK;
}

/* The name of a tensor of the same subgraph. */
static sft_status put_name(sft__import_tflite *x, const sft__import_fb_vector *tensors,
                           uint64_t index, const char *key, uint64_t at, sft_error *err) {
    const char *name;
    sft__import_fb_table t;

    if (index >= tensors->count) {
        return sft__import_fb_bad(&x->fb, at, err, "quantisation by a tensor that is not there");
    }
    SFT_TRY(sft__import_fb_item_table(&x->fb, tensors, index, &t, err));
    SFT_TRY(sft__import_fb_text(&x->fb, &t, TENSOR_NAME, SFT__TFLITE_NAME, &name, err));
    put_key(&x->json, key);
    sft__base_json_string(&x->json, name, strlen(name));
    return SFT_OK;
}

/* Scales of blocks are tensors of their own. */
static sft_status put_blocks(sft__import_tflite *x, const sft__import_fb_table *q,
                             const sft__import_fb_vector *tensors, sft_error *err) {
    sft__import_fb_table t;
    uint64_t scales;
    uint64_t zeros;
    uint64_t size;
    bool there;

    SFT_TRY(sft__import_fb_inner(&x->fb, q, QUANT_DETAILS, &t, &there, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &t, 0, 4, &scales, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &t, 1, 4, &zeros, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &t, 2, 4, &size, err));
    put_key(&x->json, "block_size");
    sft__base_buf_u64(&x->json, size);
    SFT_TRY(put_name(x, tensors, scales, "scales", t.at, err));
    return zeros != 0 && zeros <= INT32_MAX /* not 0 or -1: none */
               ? put_name(x, tensors, zeros, "zero_points", t.at, err)
               : SFT_OK;
}

static sft_status put_quantisation(sft__import_tflite *x, const sft__import_fb_table *q,
                                   const sft__import_fb_vector *tensors,
                                   const sft__import_tflite_row *row, bool *any, sft_error *err) {
    static const char *const keys[4] = {"min", "max", "scale", "zero_point"};
    const size_t before = x->json.len;
    uint64_t details;
    uint64_t dimension;

    for (uint32_t slot = 0; slot < 4; slot++) {
        SFT_TRY(put_list(x, q, slot, keys[slot], err));
    }
    SFT_TRY(sft__import_fb_number(&x->fb, q, QUANT_DETAILS_TYPE, 1, &details, err));
    SFT_TRY(sft__import_fb_number(&x->fb, q, QUANT_DIMENSION, 4, &dimension, err));
    *any = x->json.len != before || details != 0;
    if (*any) {
        put_key(&x->json, "quantized_dimension");
        put_signed(&x->json, (dimension ^ 0x80000000u) - 0x80000000u); /* of 32 bits */
    }
    if (details == BLOCKWISE) {
        return put_blocks(x, q, tensors, err);
    }
    if (details != 0) {
        sft__import_find(x->job, SFT__RULE(LEFT_OUT, HARMLESS, "tflite-quantised"),
                         SFT__AT(row->name, row->len, q->at),
                         "details of its quantisation of kind %llu, which are not known",
                         (unsigned long long)details);
    }
    return SFT_OK;
}

sft_status sft__import_tflite_describe(sft__import_tflite *x, const sft__import_tflite_tensor *t,
                                       const sft__import_tflite_row *row, sft_error *err) {
    sft__import_fb_table q;
    bool there;
    bool any = false;
    char *key;

    x->json.len = 0;
    sft__base_buf_text(&x->json, "{\"dtype\": \"");
    sft__base_buf_text(&x->json, t->type->name);
    sft__base_buf_text(&x->json, "\", \"shape\": [");
    for (uint32_t d = 0; d < t->rank; d++) {
        sft__base_buf_text(&x->json, d != 0 ? ", " : "");
        sft__base_buf_u64(&x->json, t->shape[d]);
    }
    sft__base_buf_text(&x->json, "]");
    SFT_TRY(sft__import_fb_inner(&x->fb, &t->table, TENSOR_QUANTIZATION, &q, &there, err));
    if (there) {
        SFT_TRY(put_quantisation(x, &q, t->all, row, &any, err));
    }
    if (!any && t->type->bits >= 8) {
        return SFT_OK;
    }
    sft__base_buf_text(&x->json, "}");
    SFT_NEED(!x->json.failed, x->json.len, err);
    x->json_bytes += x->json.len;
    if (x->json_bytes > x->job->options.memory_bytes / 6) {
        return too_long(x, t->table.at, err);
    }
    SFT_TRY(sft__import_alloc(x->job, &key, row->len + 8, 1, err));
    memcpy(key, "tflite:", 7);
    memcpy(key + 7, row->name, row->len + 1);
    const sft_metadata_entry e = {key, row->len + 7, x->json.data, x->json.len};
    return sft_builder_add_metadata(x->job->builder, 0, &e, err);
}
