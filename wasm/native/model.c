/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * model.c - what JavaScript calls of safetensors.wasm: models opened and read, headers written. Read first: module.c.
 */
#include "host.h"
#include "module.h"
#include <sft/digest.h>
#include <sft/extend.h>
#include <sft/open.h>
#include <sft/read.h>
#include <sft/write.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

EXPORT(version) const char *w_version(void) {
    return sft_version();
}

EXPORT(dtype) const sft_dtype *w_dtype(uint32_t id) {
    return sft_dtype_get(id);
}

/* ---------------------------------------------------------------- opening */

EXPORT(open) model *w_open(const char *path, options *o) {
    sft_limits limits;
    sft_open_options open;
    sft_import_options import;
    sft_door_options door;
    model *m = calloc(1, sizeof *m);

    if (m == NULL) {
        (void)sft_error_set(&error, SFT_E_NOMEM, 0, "out of memory");
        return NULL;
    }
    set_limits(&limits, o);
    set_import(&import, &limits, o);
    SFT_INIT(&open);
    open.limits = &limits;
    open.flags = o->open_flags;
    const sft_opener_row rows[] = {{sft_catalog_opener(), NULL}, {sft_import_opener(), &import}};
    SFT_INIT(&door);
    door.open = &open;
    door.rows = rows;
    door.row_count = 2;
    if (sft_open(&m->catalog, path, NULL, &door, &error) != SFT_OK) {
        free(m);
        return NULL;
    }
    m->report = sft_import_report_take(m->catalog);
    return m;
}

EXPORT(close) void w_close(model *m) {
    if (m != NULL) {
        sft_import_report_free(m->report);
        sft_catalog_close(m->catalog);
        free(m);
    }
}

/* ---------------------------------------------------------------- what it holds */

EXPORT(count) size_t w_count(const model *m) {
    return sft_catalog_count(m->catalog);
}

EXPORT(file_count) size_t w_file_count(const model *m) {
    return sft_catalog_file_count(m->catalog);
}

EXPORT(file) const sft_file *w_file(const model *m, size_t i) {
    return sft_catalog_file_at(m->catalog, i);
}

EXPORT(metadata_count) size_t w_metadata_count(const model *m, size_t file) {
    return sft_catalog_metadata_count(m->catalog, file);
}

typedef struct text_pair {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
} text_pair;

EXPORT(metadata) int32_t w_metadata(const model *m, size_t file, size_t i, text_pair *out) {
    return sft_catalog_metadata_at(m->catalog, file, i, &out->key, &out->key_len, &out->value,
                                   &out->value_len);
}

EXPORT(problem_count) size_t w_problem_count(const model *m) {
    return sft_catalog_problem_count(m->catalog);
}

EXPORT(problem) const sft_problem *w_problem(const model *m, size_t i) {
    return sft_catalog_problem_at(m->catalog, i);
}

EXPORT(alias_count) size_t w_alias_count(const model *m) {
    return sft_catalog_alias_count(m->catalog);
}

/* out: length of the name, position of the tensor. */
EXPORT(alias) const char *w_alias(const model *m, size_t i, size_t out[2]) {
    return sft_catalog_alias_at(m->catalog, i, &out[0], &out[1]);
}

EXPORT(tensor) const sft_tensor *w_tensor(const model *m, size_t i) {
    return sft_catalog_at(m->catalog, i);
}

EXPORT(find) const sft_tensor *w_find(const model *m, const char *name, size_t len) {
    return sft_catalog_find(m->catalog, name, len);
}

EXPORT(index_of) size_t w_index_of(const model *m, const sft_tensor *t) {
    return sft_catalog_index_of(m->catalog, t);
}

/* ---------------------------------------------------------------- all tensors as columns */

typedef struct sizes {
    size_t count;
    size_t name_bytes; /* of all names */
    size_t dims;       /* of all shapes */
} sizes;

EXPORT(sizes) void w_sizes(const model *m, sizes *out) {
    memset(out, 0, sizeof *out);
    out->count = sft_catalog_count(m->catalog);
    for (size_t i = 0; i < out->count; i++) {
        const sft_tensor *t = sft_catalog_at(m->catalog, i);
        out->name_bytes += t->name_len; /* all names lie in memory: no overflow, nor of their sum */
        out->dims += t->rank;
    }
}

/* Where a tensor's bytes begin in its file, if they lie there packed and in one piece; else -1. */
static double begin_of(const sft_tensor *t) {
    return t->piece_count == 1 && t->pieces[0].strides == NULL && t->pieces[0].count == NULL
               ? (double)t->pieces[0].offset
               : -1;
}

static double elements_of(const sft_tensor *t) {
    double n = 1;

    for (uint32_t d = 0; d < t->rank; d++) {
        n *= (double)t->shape[d];
    }
    return n;
}

/* Names, one behind the other, and where each begins: count + 1. Room as w_sizes says. */
EXPORT(name_columns) void w_name_columns(const model *m, char *names, uint32_t *starts) {
    const size_t count = sft_catalog_count(m->catalog);
    uint32_t at = 0;

    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(m->catalog, i);
        starts[i] = at;
        memcpy(names + at, t->name, t->name_len);
        at += (uint32_t)t->name_len;
    }
    starts[count] = at;
}

/* All else: arrays of `count`, but `dims`, one shape behind the other, and `dim_starts`: count + 1. */
typedef struct columns {
    uint64_t *dims;
    double *nbytes;
    double *begins;
    double *elements;
    uint32_t *dim_starts;
    uint32_t *files;
    uint16_t *dtypes;
} columns;

EXPORT(columns) void w_columns(const model *m, const columns *to) {
    const size_t count = sft_catalog_count(m->catalog);
    uint32_t at = 0;

    for (size_t i = 0; i < count; i++) {
        const sft_tensor *t = sft_catalog_at(m->catalog, i);
        to->dtypes[i] = (uint16_t)t->dtype->id;
        to->nbytes[i] = (double)t->nbytes;
        to->begins[i] = begin_of(t);
        to->elements[i] = elements_of(t);
        to->files[i] = t->file;
        to->dim_starts[i] = at;
        memcpy(to->dims + at, t->shape, t->rank * sizeof *to->dims);
        at += t->rank;
    }
    to->dim_starts[count] = at;
}

/* ---------------------------------------------------------------- reading */

EXPORT(slice_parse)
int32_t w_slice_parse(const char *text, size_t len, sft_slice *slices, size_t capacity) {
    size_t count;
    const sft_status status = sft_slice_parse(text, len, slices, capacity, &count, &error);
    return status == SFT_OK ? (int32_t)count : -1;
}

static void set_read(sft_read_options *o, const sft_slice *slices, size_t count, uint32_t dtype) {
    SFT_INIT(o);
    o->slices = count > 0 ? slices : NULL;
    o->slice_count = count;
    o->dtype = dtype != 0 ? sft_dtype_get(dtype) : NULL;
}

/* What a read gives. shape: room for the tensor's rank. */
typedef struct result {
    double nbytes;
    uint32_t rank;
    uint32_t reserved;
    uint64_t shape[];
} result;

EXPORT(result)
int32_t w_result(const sft_tensor *t, const sft_slice *slices, size_t count, uint32_t dtype,
                 result *out) {
    sft_read_options o;
    uint64_t nbytes;

    set_read(&o, slices, count, dtype);
    const sft_status status = sft_tensor_result(t, &o, out->shape, &out->rank, &nbytes, &error);
    out->nbytes = status == SFT_OK ? (double)nbytes : 0;
    return status;
}

EXPORT(read)
int32_t w_read(const model *m, const sft_tensor *t, const sft_slice *slices, size_t count,
               uint32_t dtype, void *dst, size_t size) {
    sft_read_options o;

    set_read(&o, slices, count, dtype);
    return sft_tensor_read(m->catalog, t, &o, dst, size, &error);
}

/* `slices` as one for each dimension, all with a start, a stop and a step: dims has room for the rank. */
EXPORT(resolve)
int32_t w_resolve(const sft_tensor *t, const sft_slice *slices, size_t count, sft_dim *dims) {
    return sft_slice_resolve(slices, count, t->shape, t->rank, dims, &error);
}

EXPORT(read_bytes)
int32_t w_read_bytes(const model *m, const sft_tensor *t, double offset, void *dst, size_t size) {
    return sft_tensor_read_bytes(m->catalog, t, (uint64_t)offset, dst, size, &error);
}

/* The host's file in which the tensor lies packed and in one piece, from begin_of on; -1: it does not. */
EXPORT(host_file) int32_t w_host_file(const model *m, const sft_tensor *t) {
    return begin_of(t) >= 0
               ? sft_source_descriptor(sft_catalog_source_at(m->catalog, t->pieces[0].source))
               : -1;
}

EXPORT(can_cast) int32_t w_can_cast(const model *m, const sft_tensor *t) {
    return sft_catalog_can_cast(m->catalog, t, &error);
}

typedef struct verified {
    uint32_t damaged;
    uint32_t checked;
    char first[sizeof error.tensor]; /* name of the first that is damaged, escaped */
} verified;

static void on_verified(void *ctx, const sft_tensor *tensor, sft_status status,
                        const char *message) {
    verified *v = ctx;

    (void)message;
    v->checked++;
    if (status != SFT_OK && v->damaged++ == 0) {
        (void)sft_escape(v->first, sizeof v->first, tensor->name, tensor->name_len);
    }
}

EXPORT(verify) int32_t w_verify(const model *m, verified *out) {
    sft_verify_options o;

    memset(out, 0, sizeof *out);
    SFT_INIT(&o);
    o.report = on_verified;
    o.report_ctx = out;
    return sft_catalog_verify(m->catalog, &o, NULL, &error);
}

EXPORT(report) const sft_import_report *w_report(const model *m) {
    return m->report;
}

/* ---------------------------------------------------------------- writing */

typedef struct saving {
    const sft_save_tensor *tensors;
    size_t count;
    const sft_metadata_entry *metadata; /* NULL: none */
    size_t metadata_count;
    uint32_t data_alignment;
    uint32_t declared; /* 1: tensors stay in their order */
} saving;

/* Do the bytes that are given fit the types and shapes? */
static sft_status check_sizes(const saving *s) {
    for (size_t i = 0; i < s->count; i++) {
        const sft_save_tensor *t = &s->tensors[i];
        uint64_t elements = 1;
        uint64_t nbytes;
        bool zero = false;
        for (uint32_t d = 0; d < t->rank; d++) {
            zero = zero || t->shape[d] == 0;
            if (!zero && __builtin_mul_overflow(elements, t->shape[d], &elements)) {
                return sft_error_at(&error, SFT_E_OVERFLOW, SFT_NO_OFFSET, t->name, t->name_len,
                                    "its size overflows 64 bits");
            }
        }
        if (sft_dtype_bytes(t->dtype, zero ? 0 : elements, &nbytes, &error) != SFT_OK) {
            return error.status;
        }
        if (nbytes != t->nbytes) {
            return sft_error_at(&error, SFT_E_ARG, SFT_NO_OFFSET, t->name, t->name_len,
                                "%llu bytes are given, dtype and shape need %llu",
                                (unsigned long long)t->nbytes, (unsigned long long)nbytes);
        }
    }
    return SFT_OK;
}

/* The header of the file, or NULL: owned by the caller. offsets: where each tensor's bytes begin. */
EXPORT(header) void *w_header(const saving *s, uint64_t *offsets, size_t *size) {
    sft_write_options o;

    SFT_INIT(&o);
    o.data_alignment = s->data_alignment;
    o.order = s->declared ? SFT_ORDER_DECLARED : SFT_ORDER_REFERENCE;
    if (check_sizes(s) != SFT_OK ||
        sft_save_header(NULL, 0, size, offsets, s->tensors, s->count, s->metadata,
                        s->metadata_count, &o, &error) != SFT_OK) {
        return NULL;
    }
    void *header = malloc(*size);
    if (header == NULL) {
        (void)sft_error_set(&error, SFT_E_NOMEM, 0, "out of memory");
        return NULL;
    }
    if (sft_save_header(header, *size, size, offsets, s->tensors, s->count, s->metadata,
                        s->metadata_count, &o, &error) != SFT_OK) {
        free(header);
        return NULL;
    }
    return header;
}
