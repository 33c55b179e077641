/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/paddle/paddle_static.c - tensors of Paddle's static graphs: .pdiparams (__params__), all
 * parameters of a model one after the other in the order of their names, which only the model has;
 * and files of one tensor. Each is a version, levels of detail, a version, a TensorDesc and its
 * bytes. Source: paddle/phi/core/framework/dense_tensor_serialize.cc, dense_tensor_tostream.cc.
 * Read first: paddle_static.h.
 */
#include "import/paddle/paddle_static.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include <stdio.h>

enum { HEAD = 20, DESC_MOST = 2048, LEVELS_MOST = 16 };

static const struct {
    uint8_t number;
    uint16_t dtype;
} types[] = {
    {0, SFT_BOOL},  {1, SFT_I16},  {2, SFT_I32},    {3, SFT_I64},      {4, SFT_F16},
    {5, SFT_F32},   {6, SFT_F64},  {19, SFT_U64},   {20, SFT_U8},      {21, SFT_I8},
    {22, SFT_BF16}, {23, SFT_C64}, {24, SFT__C128}, {32, SFT_F8_E4M3}, {33, SFT_F8_E5M2},
    {36, SFT_U16},  {37, SFT_U32}, {38, SFT_U64},
};

typedef struct one {
    uint64_t begin;
    uint64_t levels;
    uint64_t type;
    sft__import_wire_dims dims;
    uint64_t data;
    uint64_t end;
    const sft_dtype *dtype;
} one;

static sft_status bad(uint64_t at, sft_error *err, const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "paddle: %s", text);
}

/* A little-endian number of the file; moves *at behind it. */
static sft_status number(sft__import_wire_in *in, uint64_t *at, size_t width, uint64_t *value,
                         sft_error *err) {
    const uint8_t *p;

    SFT_TRY(sft__import_wire_bytes(in, *at, width, &p, err));
    *value = width == 8 ? sft__base_load_le64(p) : sft__base_load_le32(p);
    *at += width;
    return SFT_OK;
}

/* Levels of detail say how rows belong together: they are no values. */
static sft_status skip_levels(sft__import_wire_in *in, uint64_t *at, one *t, sft_error *err) {
    const uint64_t size = sft_source_size(in->source);
    const uint64_t begin = *at;

    SFT_TRY(number(in, at, 8, &t->levels, err));
    if (t->levels > LEVELS_MOST) {
        return bad(begin, err, "more than 16 levels of detail");
    }
    for (uint64_t i = 0; i < t->levels; i++) {
        uint64_t bytes;
        SFT_TRY(number(in, at, 8, &bytes, err));
        if (bytes > size - *at) {
            return bad(begin, err, "levels of detail longer than the file");
        }
        *at += bytes;
    }
    return SFT_OK;
}

static sft_status read_desc(sft__import_wire_in *in, one *t, uint64_t at, uint64_t len,
                            sft_error *err) {
    sft__import_wire m = {at, at + len};
    bool typed = false;
    sft__import_wire_field f;
    sft_status status;

    while (sft__import_wire_each(in, &m, &f, &status, err)) {
        if (f.number == 1 && f.wire == SFT__PB_VARINT) {
            t->type = f.value;
            typed = true;
        } else if (f.number == 2) {
            SFT_TRY(sft__import_wire_dims_add(in, &t->dims, &f, err));
        } else {
            return bad(f.start, err, "a description with another field than type and dimensions");
        }
    }
    SFT_TRY(status);
    return typed ? SFT_OK : bad(at, err, "a tensor without a type");
}

/* The tensor at *at; moves *at behind it. */
static sft_status read_one(sft__import *job, sft__import_wire_in *in, uint64_t *at, one *t,
                           sft_error *err) {
    const uint64_t size = sft_source_size(job->file);
    uint64_t value;
    uint64_t elements;
    uint64_t bytes;

    memset(t, 0, sizeof *t);
    t->begin = *at;
    SFT_TRY(number(in, at, 4, &value, err));
    if (value != 0) {
        return bad(t->begin, err, "a tensor of another version than 0");
    }
    SFT_TRY(skip_levels(in, at, t, err));
    SFT_TRY(number(in, at, 4, &value, err));
    uint64_t desc;
    SFT_TRY(number(in, at, 4, &desc, err));
    if (value != 0 || desc > DESC_MOST || desc > size - *at) {
        return bad(t->begin, err, "a tensor of another version, or a description of no size");
    }
    SFT_TRY(read_desc(in, t, *at, desc, err));
    t->data = *at + desc;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        t->dtype = types[i].number == t->type ? sft__import_dtype(types[i].dtype) : t->dtype;
    }
    if (t->dtype == NULL) { /* where the next one begins nobody knows */
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, t->begin,
                                 "paddle: a tensor of the type %llu, which is not known",
                                 (unsigned long long)t->type);
    }
    if (!sft__import_wire_elements(&t->dims, &elements) ||
        sft_dtype_bytes(t->dtype, elements, &bytes, NULL) != SFT_OK) {
        return sft__base_fail_at(err, SFT_E_OVERFLOW, t->begin,
                                 "paddle: the size of a tensor's shape overflows");
    }
    if (bytes > size - t->data) {
        return sft__base_fail_at(err, SFT_E_SIZE, t->begin,
                                 "paddle: a tensor of %llu bytes, the file has %llu more",
                                 (unsigned long long)bytes, (unsigned long long)(size - t->data));
    }
    *at = t->end = t->data + bytes;
    return SFT_OK;
}

/* ---------------------------------------------------------------- names */

/* One tensor alone has the name of its file, as Paddle's own functions write it. */
static sft_status lone_name(sft__import *job, const char **name, sft_error *err) {
    static const char *const ends[] = {".pdtensor", ".pdiparams"};
    const char *base = sft__import_paddle_base(job);
    char *copy;

    if (base == NULL) {
        *name = "tensor";
        return SFT_OK;
    }
    const size_t len = strlen(base);
    SFT_TRY(sft__import_copy(job, &copy, base, len, err));
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t n = strlen(ends[i]);
        if (len > n && strcmp(base + len - n, ends[i]) == 0) {
            copy[len - n] = '\0';
        }
    }
    *name = copy;
    return SFT_OK;
}

/* Is the tensor of the shape that the model has under the name? */
static bool has_shape(const one *t, const sft__import_paddle_name *n) {
    bool same = !n->shaped || n->rank == t->dims.rank;

    for (uint32_t d = 0; same && n->shaped && d < n->rank; d++) {
        same = n->dims[d] == UINT64_MAX || n->dims[d] == t->dims.at[d];
    }
    return same;
}

static sft_status add(sft__import *job, const one *t, const sft__import_paddle_names *names,
                      size_t index, size_t count, sft_error *err) {
    const sft_piece piece = {.offset = t->data};
    const char *name;
    char text[40];

    if (names->model != NULL) {
        name = names->at[index].name;
        if (!has_shape(t, &names->at[index])) {
            return sft__base_fail_tensor(
                err, SFT_E_SHAPE, t->begin, name, names->at[index].len,
                "paddle: it has another shape in %.200s: that is the model of "
                "another file",
                names->model);
        }
    } else if (count == 1) {
        SFT_TRY(lone_name(job, &name, err));
    } else {
        (void)snprintf(text, sizeof text, "tensor_%zu", index);
        name = text;
    }
    if (t->levels != 0) {
        sft__import_find(job, SFT__RULE(LEFT_OUT, HARMLESS, "paddle-levels"),
                         sft__import_text_at(name, t->begin),
                         "the levels of detail of a tensor (LoD)");
    }
    const sft_tensor out = {.name = name,
                            .name_len = strlen(name),
                            .dtype = t->dtype,
                            .shape = t->dims.at,
                            .rank = t->dims.rank,
                            .pieces = &piece,
                            .piece_count = 1};
    return sft__import_tensor(job, &out, err);
}

static sft_status check_names(sft__import *job, const sft__import_paddle_names *names, size_t count,
                              sft_error *err) {
    if (names->model != NULL && names->count != count) {
        return sft__base_fail(
            err, SFT_E_SCHEMA,
            "paddle: %zu tensors, but %.200s beside it names %zu parameters: one of "
            "them is of another model, or cut short",
            count, names->model, names->count);
    }
    if (names->model == NULL && count > 1) {
        sft__import_find(job, SFT__RULE(NOTE, HARMLESS, "paddle-names"),
                         SFT__AT("", 0, SFT_NO_OFFSET),
                         "the names are in the model (.pdmodel or .json), which is not beside it: "
                         "tensors are numbered in the order of their names");
    }
    return SFT_OK;
}

static sft_status read_all(sft__import *job, sft__import_wire_in *in,
                           sft__import_paddle_names *names, sft_error *err) {
    const uint64_t size = sft_source_size(job->file);
    size_t count = 0;
    one t;

    for (uint64_t at = 0; at < size; count++) {
        SFT_TRY(read_one(job, in, &at, &t, err));
    }
    SFT_TRY(sft__import_paddle_names_read(job, names, err));
    SFT_TRY(check_names(job, names, count, err));
    size_t index = 0;
    for (uint64_t at = 0; at < size; index++) {
        SFT_TRY(read_one(job, in, &at, &t, err));
        SFT_TRY(add(job, &t, names, index, count, err));
    }
    return SFT_OK;
}

static sft_status open_static(sft__import *job, sft_error *err) {
    sft__import_paddle_names names = {NULL, 0, 0, NULL};
    sft__import_wire_in *in;

    SFT_TRY(sft__base_need(job->allocator, &in, sizeof *in, err));
    sft__import_wire_init(in, job->file);
    const sft_status status = read_all(job, in, &names, err);
    sft__base_free(job->allocator, names.at, names.room * sizeof *names.at);
    sft__base_free(job->allocator, in, sizeof *in);
    return status;
}

/* Version 0, no levels, version 0, a TensorDesc: a type, dimensions. */
static bool probe(const sft__import_probe *p) {
    if (p->head_len < HEAD + 2) {
        return false;
    }
    const uint32_t desc = sft__base_load_le32(p->head + 16);
    return sft__base_load_le32(p->head) == 0 && sft__base_load_le64(p->head + 4) == 0 &&
           sft__base_load_le32(p->head + 12) == 0 && desc >= 2 && desc < 1024 &&
           p->size - HEAD >= desc && p->head[HEAD] == 0x08 && p->head[HEAD + 1] < 64 &&
           (desc == 2 || p->head[HEAD + 2] == 0x10 || p->head[HEAD + 2] == 0x12);
}

const sft__import_reader sft__import_reader_paddle = {SFT_IMPORT_PADDLE, probe, open_static};
