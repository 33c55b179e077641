/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tflite/tflite.c - TensorFlow Lite models (LiteRT): the tensors of all subgraphs that have
 * data, in the FlatBuffer, behind it (models above 2 GB), or in a file beside it. Nothing of the
 * graph is interpreted. Read first: tflite.h.
 */
#include "import/tflite/tflite.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/core/beside.h"
#include <stdio.h>
#include <stdlib.h>

/* Fields of the tables, by their slots. */
enum { MODEL_VERSION = 0, MODEL_SUBGRAPHS = 2, MODEL_BUFFERS = 4, MODEL_METADATA = 6 };
enum { MODEL_GROUPS = 8, MODEL_EXTERNALS = 9 };
enum { SUBGRAPH_TENSORS = 0, SUBGRAPH_NAME = 4 };
enum { TENSOR_SHAPE = 0, TENSOR_TYPE = 1, TENSOR_BUFFER = 2, TENSOR_NAME = 3 };
enum { TENSOR_SPARSITY = 6, TENSOR_EXTERNAL = 10 };
enum { BUFFER_DATA = 0, BUFFER_OFFSET = 1, BUFFER_SIZE = 2 };

static const sft__import_tflite_type types[] = {
    {"FLOAT32", SFT_F32, 32},
    {"FLOAT16", SFT_F16, 16},
    {"INT32", SFT_I32, 32},
    {"UINT8", SFT_U8, 8},
    {"INT64", SFT_I64, 64},
    {"texts", 0, 0},
    {"BOOL", SFT_BOOL, 8},
    {"INT16", SFT_I16, 16},
    {"COMPLEX64", SFT_C64, 64},
    {"INT8", SFT_I8, 8},
    {"FLOAT64", SFT_F64, 64},
    {"COMPLEX128", SFT__C128, 128},
    {"UINT64", SFT_U64, 64},
    {"a resource", 0, 0},
    {"a variant", 0, 0},
    {"UINT32", SFT_U32, 32},
    {"UINT16", SFT_U16, 16},
    {"INT4", SFT_U8, 4},
    {"BFLOAT16", SFT_BF16, 16},
    {"INT2", SFT_U8, 2},
    {"UINT4", SFT_U8, 4},
    {"FLOAT8_E4M3FN", SFT_F8_E4M3, 8},
    {"FLOAT8_E5M2", SFT_F8_E5M2, 8},
};

/* Where the data of a tensor lies. */
enum { BUFFERS_MAX = 1000000 };

typedef struct place {
    uint64_t offset;
    uint64_t size;
    uint32_t source;
    bool there;
} place;

/* ---------------------------------------------------------------- data in other files */

static int by_id(const void *a, const void *b) {
    const sft__import_tflite_external *x = a;
    const sft__import_tflite_external *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static sft_status read_externals(sft__import_tflite *x, const sft__import_fb_table *model,
                                 sft_error *err) {
    sft__import_fb_vector v;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, model, MODEL_GROUPS, 4, &x->group_tables, err));
    SFT_TRY(sft__import_fb_vector_of(&x->fb, model, MODEL_EXTERNALS, 4, &v, err));
    SFT_TRY(sft__import_alloc(x->job, &x->groups, (size_t)x->group_tables.count, sizeof *x->groups,
                              err));
    SFT_TRY(sft__import_alloc(x->job, &x->externals, (size_t)v.count, sizeof *x->externals, err));
    memset(x->groups, 0, (size_t)x->group_tables.count * sizeof *x->groups);
    for (uint64_t i = 0; i < v.count; i++) {
        sft__import_tflite_external *e = &x->externals[i];
        sft__import_fb_vector packing;
        sft__import_fb_table t;
        uint64_t id;
        uint64_t group;
        SFT_TRY(sft__import_fb_item_table(&x->fb, &v, i, &t, err));
        SFT_TRY(sft__import_fb_number(&x->fb, &t, 0, 4, &id, err));
        SFT_TRY(sft__import_fb_number(&x->fb, &t, 1, 4, &group, err));
        SFT_TRY(sft__import_fb_number(&x->fb, &t, 2, 8, &e->offset, err));
        SFT_TRY(sft__import_fb_number(&x->fb, &t, 3, 8, &e->length, err));
        SFT_TRY(sft__import_fb_vector_of(&x->fb, &t, 4, 1, &packing, err));
        e->at = t.at;
        e->id = (uint32_t)id;
        e->group = (uint32_t)group;
        e->packed = packing.count != 0;
    }
    x->external_count = (size_t)v.count;
    if (v.count > 1) {
        qsort(x->externals, (size_t)v.count, sizeof *x->externals, by_id);
    }
    for (uint64_t i = 1; i < v.count; i++) {
        if (x->externals[i].id == x->externals[i - 1].id) {
            return sft__import_fb_bad(&x->fb, x->externals[i].at, err,
                                      "an external buffer given twice");
        }
    }
    return SFT_OK;
}

static sft_status open_group(sft__import_tflite *x, uint32_t group, sft_error *err) {
    sft__import_tflite_group *g = &x->groups[group];
    const char *location;
    sft__import_fb_table t;
    sft_source *source;

    if (g->source != 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_fb_item_table(&x->fb, &x->group_tables, group, &t, err));
    SFT_TRY(sft__import_fb_text(&x->fb, &t, 0, SFT__BESIDE_PATH - 1, &location, err));
    SFT_TRY(sft__import_beside_open(&source, x->job, location, group < SFT__BESIDE_OPEN, err));
    g->size = sft_source_size(source);
    if (!sft__base_add64(x->job->beside_bytes, g->size, &x->job->beside_bytes)) {
        x->job->beside_bytes = UINT64_MAX;
    }
    return sft_builder_add_source(x->job->builder, source, &g->source, err);
}

static sft_status place_external(sft__import_tflite *x, uint32_t id, const sft__import_fb_table *t,
                                 place *p, sft_error *err) {
    const sft__import_tflite_external key = {.id = id};
    const sft__import_tflite_external *e =
        x->external_count == 0 ? NULL
                               : bsearch(&key, x->externals, x->external_count, sizeof key, by_id);

    if (e == NULL || e->group >= x->group_tables.count) {
        return sft__import_fb_bad(&x->fb, t->at, err, "an external buffer that is not listed");
    }
    if (e->packed) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, e->at,
                                 "tflite: an external buffer in a packing of its own");
    }
    SFT_TRY(open_group(x, e->group, err));
    const sft__import_tflite_group *g = &x->groups[e->group];
    if (e->offset > g->size || e->length > g->size - e->offset) {
        return sft__base_fail_at(err, SFT_E_SIZE, e->at,
                                 "tflite: external data at %llu of %llu bytes, the file has %llu",
                                 (unsigned long long)e->offset, (unsigned long long)e->length,
                                 (unsigned long long)g->size);
    }
    *p = (place){e->offset, e->length, g->source, true};
    return SFT_OK;
}

/* ---------------------------------------------------------------- data in the model */

/* Data in the buffer's list of bytes, or behind the FlatBuffer at an offset of the file. */
static sft_status place_buffer(sft__import_tflite *x, uint64_t index, const sft__import_fb_table *t,
                               place *p, sft_error *err) {
    const uint64_t size = sft_source_size(x->job->file);
    sft__import_fb_table buffer;
    sft__import_fb_vector data;

    memset(p, 0, sizeof *p);
    if (index == 0 && x->buffers.count == 0) {
        return SFT_OK;
    }
    if (index >= x->buffers.count) {
        return sft__import_fb_bad(&x->fb, t->at, err, "a buffer that is not there");
    }
    x->named[index] = 1;
    SFT_TRY(sft__import_fb_item_table(&x->fb, &x->buffers, index, &buffer, err));
    SFT_TRY(sft__import_fb_vector_of(&x->fb, &buffer, BUFFER_DATA, 1, &data, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &buffer, BUFFER_OFFSET, 8, &p->offset, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &buffer, BUFFER_SIZE, 8, &p->size, err));
    if (p->offset > 1) { /* 1: room for a number that was never filled in */
        if (data.count != 0) {
            return sft__import_fb_bad(&x->fb, buffer.at, err, "a buffer's data in two places");
        }
        if (p->offset > size || p->size > size - p->offset) {
            return sft__base_fail_at(err, SFT_E_SIZE, buffer.at,
                                     "tflite: data at %llu of %llu bytes, the file has %llu",
                                     (unsigned long long)p->offset, (unsigned long long)p->size,
                                     (unsigned long long)size);
        }
        p->there = true;
        return SFT_OK;
    }
    *p = (place){data.at, data.count, 0, index != 0 && data.at != 0};
    return SFT_OK;
}

/* ---------------------------------------------------------------- one tensor */

static sft_status name_of(sft__import_tflite *x, const sft__import_fb_table *t, const char *prefix,
                          uint64_t index, sft__import_tflite_row *row, sft_error *err) {
    const char *name;
    char number[40];
    char *all;

    SFT_TRY(sft__import_fb_text(&x->fb, t, TENSOR_NAME, SFT__TFLITE_NAME, &name, err));
    if (name[0] == '\0') {
        (void)snprintf(number, sizeof number, "tensor_%llu", (unsigned long long)index);
        name = number;
    }
    const size_t before = strlen(prefix);
    const size_t len = strlen(name);
    if (before + len > SFT__TFLITE_NAME) {
        return sft__base_fail_at(err, SFT_E_LIMIT, t->at, "tflite: a name of more than %d bytes",
                                 (int)SFT__TFLITE_NAME);
    }
    SFT_TRY(sft__import_alloc(x->job, &all, before + len + 1, 1, err));
    memcpy(all, prefix, before);
    memcpy(all + before, name, len + 1);
    row->name = all;
    row->len = before + len;
    return SFT_OK;
}

/* Dimensions and their product. */
static sft_status shape_of(sft__import_tflite *x, sft__import_tflite_tensor *t, sft_error *err) {
    const uint64_t at = t->table.at;
    sft__import_fb_vector v;
    bool none = false;
    bool fits = true;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, &t->table, TENSOR_SHAPE, 4, &v, err));
    if (v.count > SFT__FB_RANK) {
        return sft__base_fail_at(err, SFT_E_LIMIT, at, "tflite: more than %d dimensions",
                                 (int)SFT__FB_RANK);
    }
    t->rank = (uint32_t)v.count;
    t->elements = 1;
    SFT_TRY(sft__import_alloc(x->job, &t->shape, t->rank, sizeof *t->shape, err));
    for (uint32_t d = 0; d < t->rank; d++) {
        SFT_TRY(sft__import_fb_item(&x->fb, &v, d, &t->shape[d], err));
        if (t->shape[d] > INT32_MAX) {
            return sft__import_fb_bad(&x->fb, at, err, "a negative dimension");
        }
        none = none || t->shape[d] == 0;
        fits = fits && sft__base_mul64(t->elements, t->shape[d], &t->elements);
    }
    if (!fits && !none) {
        return sft__base_fail_at(err, SFT_E_OVERFLOW, at,
                                 "tflite: the size of its shape overflows");
    }
    t->elements = none ? 0 : t->elements;
    return SFT_OK;
}

/* Elements of less than a byte become bytes: as many as they fill, in one dimension. */
static sft_status size_of(sft__import_tflite *x, const sft__import_tflite_tensor *t,
                          sft__import_tflite_row *row, sft_error *err) {
    uint64_t need;

    row->dtype = sft__import_dtype(t->type->dtype);
    row->shape = t->shape;
    row->rank = t->rank;
    if (t->type->bits < 8) {
        const uint64_t per = 8u / t->type->bits;
        uint64_t *bytes;
        SFT_TRY(sft__import_alloc(x->job, &bytes, 1, sizeof *bytes, err));
        need = t->elements / per + (t->elements % per != 0);
        *bytes = need;
        row->shape = bytes;
        row->rank = 1;
    } else {
        SFT_TRY(sft_dtype_bytes(row->dtype, t->elements, &need, err));
    }
    if (need != row->nbytes) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, row->offset, row->name, row->len,
                                     "tflite: %llu bytes of data, shape and type need %llu",
                                     (unsigned long long)row->nbytes, (unsigned long long)need);
    }
    return SFT_OK;
}

static sft_status keep(sft__import_tflite *x, const sft__import_tflite_row *row, sft_error *err) {
    SFT_TRY(SFT_ONE_MORE(x->job->allocator, x->rows, x->room, x->count, err));
    if (x->room * sizeof *x->rows > x->job->options.memory_bytes / 4) {
        return sft__base_fail(err, SFT_E_LIMIT, "memory: too many tensors");
    }
    x->rows[x->count] = *row;
    x->rows[x->count].order = x->count;
    x->count++;
    return SFT_OK;
}

/* No tensor of the catalog: texts, resources, sparse tensors. */
static sft_status left_out(sft__import_tflite *x, const sft__import_tflite_tensor *t,
                           uint64_t number, const sft__import_tflite_row *row, sft_error *err) {
    const char *what = t->type == NULL ? "which is not known" : t->type->name;

    if (t->table.slots[TENSOR_SPARSITY] != 0) {
        what = "a sparse tensor";
    }
    return sft__import_opaque(x->job, SFT__AT(row->name, row->len, t->table.at), err,
                              "tflite: %.100s has the element type %llu (%s)", row->name,
                              (unsigned long long)number, what);
}

static sft_status read_tensor(sft__import_tflite *x, const sft__import_fb_vector *tensors,
                              uint64_t index, const char *prefix, sft_error *err) {
    sft__import_tflite_tensor t = {.all = tensors};
    sft__import_tflite_row row = {.name = NULL};
    uint64_t number;
    uint64_t outside;
    place p = {0, 0, 0, false};

    SFT_TRY(sft__import_fb_item_table(&x->fb, tensors, index, &t.table, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &t.table, TENSOR_BUFFER, 4, &number, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &t.table, TENSOR_EXTERNAL, 4, &outside, err));
    SFT_TRY(outside != 0 ? place_external(x, (uint32_t)outside, &t.table, &p, err)
                         : place_buffer(x, number, &t.table, &p, err));
    if (!p.there) {
        return SFT_OK; /* made when the model runs */
    }
    SFT_TRY(shape_of(x, &t, err));
    if (p.size == 0 && t.elements != 0) {
        return SFT_OK; /* the same */
    }
    SFT_TRY(name_of(x, &t.table, prefix, index, &row, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &t.table, TENSOR_TYPE, 1, &number, err));
    t.type = number < sizeof types / sizeof types[0] ? &types[number] : NULL;
    if (t.table.slots[TENSOR_SPARSITY] != 0 || t.type == NULL || t.type->dtype == 0) {
        return left_out(x, &t, number, &row, err);
    }
    row.offset = p.offset;
    row.nbytes = p.size;
    row.source = p.source;
    SFT_TRY(size_of(x, &t, &row, err));
    SFT_TRY(sft__import_tflite_describe(x, &t, &row, err));
    return keep(x, &row, err);
}

/* ---------------------------------------------------------------- the model */

static sft_status read_subgraph(sft__import_tflite *x, const sft__import_fb_vector *subgraphs,
                                uint64_t index, sft_error *err) {
    sft__import_fb_vector tensors;
    const char *name;
    char *prefix;
    sft__import_fb_table t;

    SFT_TRY(sft__import_fb_item_table(&x->fb, subgraphs, index, &t, err));
    SFT_TRY(sft__import_fb_vector_of(&x->fb, &t, SUBGRAPH_TENSORS, 4, &tensors, err));
    SFT_TRY(sft__import_fb_text(&x->fb, &t, SUBGRAPH_NAME, SFT__TFLITE_NAME / 2, &name, err));
    const size_t room = strlen(name) + 40;
    SFT_TRY(sft__import_alloc(x->job, &prefix, room, 1, err));
    if (subgraphs->count == 1) {
        prefix[0] = '\0';
    } else if (name[0] != '\0') {
        (void)snprintf(prefix, room, "%s.", name);
    } else {
        (void)snprintf(prefix, room, "subgraph_%llu.", (unsigned long long)index);
    }
    for (uint64_t i = 0; i < tensors.count; i++) {
        SFT_TRY(read_tensor(x, &tensors, i, prefix, err));
    }
    return SFT_OK;
}

/* Buffers that belong to no tensor are named. */
static sft_status note_metadata(sft__import_tflite *x, const sft__import_fb_table *model,
                                sft_error *err) {
    sft__import_fb_vector v;

    SFT_TRY(sft__import_fb_vector_of(&x->fb, model, MODEL_METADATA, 4, &v, err));
    for (uint64_t i = 0; i < v.count; i++) {
        const char *name;
        uint64_t buffer;
        sft__import_fb_table t;
        place p;
        SFT_TRY(sft__import_fb_item_table(&x->fb, &v, i, &t, err));
        SFT_TRY(sft__import_fb_text(&x->fb, &t, 0, SFT__TFLITE_NAME, &name, err));
        SFT_TRY(sft__import_fb_number(&x->fb, &t, 1, 4, &buffer, err));
        SFT_TRY(place_buffer(x, buffer, &t, &p, err));
        sft__import_find(x->job, SFT__RULE(NOTE, HARMLESS, "tflite-metadata"),
                         sft__import_text_at(name, p.offset),
                         "%llu bytes of metadata of the model, no tensor",
                         (unsigned long long)p.size);
    }
    return SFT_OK;
}

/* Data that no tensor and no metadata name. */
static sft_status tell_others(sft__import_tflite *x, const sft__import_fb_table *model,
                              sft_error *err) {
    for (uint64_t i = 1; i < x->buffers.count; i++) {
        char name[40];
        place p;
        if (x->named[i] != 0) {
            continue;
        }
        SFT_TRY(place_buffer(x, i, model, &p, err));
        if (p.there && p.size != 0) {
            (void)snprintf(name, sizeof name, "buffer_%llu", (unsigned long long)i);
            sft__import_left(x->job, name, strlen(name), 1,
                             "%llu bytes of a buffer that no tensor names",
                             (unsigned long long)p.size);
        }
    }
    return SFT_OK;
}

static sft_status read_model(sft__import_tflite *x, sft_error *err) {
    sft__import_fb_vector subgraphs;
    sft__import_fb_table model;
    uint64_t version;

    SFT_TRY(sft__import_fb_root(&x->fb, &model, err));
    SFT_TRY(sft__import_fb_number(&x->fb, &model, MODEL_VERSION, 4, &version, err));
    if (version != 3) {
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, model.at,
                                 "tflite: version %llu of the schema, 3 is known",
                                 (unsigned long long)version);
    }
    SFT_TRY(sft__import_fb_vector_of(&x->fb, &model, MODEL_BUFFERS, 4, &x->buffers, err));
    if (x->buffers.count > BUFFERS_MAX) {
        return sft__base_fail_at(err, SFT_E_LIMIT, model.at, "tflite: more than %d buffers",
                                 (int)BUFFERS_MAX);
    }
    SFT_TRY(sft__import_alloc(x->job, &x->named, (size_t)x->buffers.count + 1, 1, err));
    memset(x->named, 0, (size_t)x->buffers.count + 1);
    SFT_TRY(sft__import_fb_vector_of(&x->fb, &model, MODEL_SUBGRAPHS, 4, &subgraphs, err));
    SFT_TRY(read_externals(x, &model, err));
    for (uint64_t i = 0; i < subgraphs.count; i++) {
        SFT_TRY(read_subgraph(x, &subgraphs, i, err));
    }
    SFT_TRY(note_metadata(x, &model, err));
    SFT_TRY(tell_others(x, &model, err));
    return sft__import_tflite_add(x, err);
}

static sft_status open_tflite(sft__import *job, sft_error *err) {
    sft__import_tflite *x;

    SFT_TRY(sft__base_need_zero(job->allocator, &x, sizeof *x, err));
    x->job = job;
    sft__import_fb_init(&x->fb, job, "tflite", 0, sft_source_size(job->file));
    sft__base_buf_init(&x->json, job->allocator);
    const sft_status status = read_model(x, err);
    sft__base_buf_reset(&x->json);
    sft__base_free(job->allocator, x->rows, x->room * sizeof *x->rows);
    sft__base_free(job->allocator, x, sizeof *x);
    return status;
}

static bool probe(const sft__import_probe *p) {
    return p->head_len >= 8 && memcmp(p->head + 4, "TFL3", 4) == 0;
}

const sft__import_reader sft__import_reader_tflite = {SFT_IMPORT_TFLITE, probe, open_tflite};
