/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/onnx/onnx_tensor.c - a TensorProto: its shape and type, and where its elements are:
 * raw_data, numbers one by one, or another file. Types that safetensors has not are told in the
 * metadata and kept as bytes. Read first: onnx.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/onnx/onnx.h"
#include <stdio.h>

enum { FLOATS = 4, INT32S = 5, STRINGS = 6, INT64S = 7, RAW = 9, DOUBLES = 10, UINT64S = 11 };

/* bits 0: as the dtype has it; otherwise the elements are bytes to us, 8 / bits to each. */
typedef struct onnx_type {
    const char *name;
    uint16_t dtype;
    uint8_t field;
    uint8_t bits;
} onnx_type;

static const onnx_type types[] = {
    [1] = {"FLOAT", SFT_F32, FLOATS, 0},
    [2] = {"UINT8", SFT_U8, INT32S, 0},
    [3] = {"INT8", SFT_I8, INT32S, 0},
    [4] = {"UINT16", SFT_U16, INT32S, 0},
    [5] = {"INT16", SFT_I16, INT32S, 0},
    [6] = {"INT32", SFT_I32, INT32S, 0},
    [7] = {"INT64", SFT_I64, INT64S, 0},
    [9] = {"BOOL", SFT_BOOL, INT32S, 0},
    [10] = {"FLOAT16", SFT_F16, INT32S, 0},
    [11] = {"DOUBLE", SFT_F64, DOUBLES, 0},
    [12] = {"UINT32", SFT_U32, UINT64S, 0},
    [13] = {"UINT64", SFT_U64, UINT64S, 0},
    [14] = {"COMPLEX64", SFT_C64, FLOATS, 0},
    [15] = {"COMPLEX128", SFT__C128, DOUBLES, 0},
    [16] = {"BFLOAT16", SFT_BF16, INT32S, 0},
    [17] = {"FLOAT8E4M3FN", SFT_F8_E4M3, INT32S, 0},
    [18] = {"FLOAT8E4M3FNUZ", SFT_F8_E4M3FNUZ, INT32S, 0},
    [19] = {"FLOAT8E5M2", SFT_F8_E5M2, INT32S, 0},
    [20] = {"FLOAT8E5M2FNUZ", SFT_F8_E5M2FNUZ, INT32S, 0},
    [21] = {"UINT4", SFT_U8, INT32S, 4},
    [22] = {"INT4", SFT_U8, INT32S, 4},
    [23] = {"FLOAT4E2M1", SFT_F4, INT32S, 4},
    [24] = {"FLOAT8E8M0", SFT_F8_E8M0, INT32S, 0},
    [25] = {"UINT2", SFT_U8, INT32S, 2},
    [26] = {"INT2", SFT_U8, INT32S, 2},
    [27] = {"FLOAT6E2M3", SFT_U8, INT32S, 8},
    [28] = {"FLOAT6E3M2", SFT_U8, INT32S, 8},
};

/* Strings of an external_data entry. */
typedef struct external {
    const char *location;
    uint64_t offset;
    uint64_t length;
    bool has_length;
    bool has_offset;
} external;

typedef struct proto {
    sft__import_wire m;
    sft__import_wire_dims dims;
    uint64_t type;
    const char *name; /* NULL: none */
    sft__import_wire_field raw;
    sft__import_wire_field number; /* the last field of single numbers */
    uint32_t number_fields;        /* bits of their field numbers */
    uint32_t number_count;
    external ext;
    uint64_t entries; /* of external_data */
    uint64_t location;
    const onnx_type *as;    /* its type, */
    const sft_dtype *dtype; /* and what that is to us, */
    uint64_t nbytes;        /* of so many bytes */
} proto;

static sft_status bad(uint64_t at, sft_error *err, const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "onnx: %s", text);
}

sft_status sft__import_onnx_name(sft__import_onnx *o, const sft__import_wire_field *f,
                                 const char **name, sft_error *err) {
    SFT_TRY(sft__import_wire_text(&o->in, o->job, f, SFT__ONNX_NAME, name, err));
    return strlen(*name) == f->len ? SFT_OK : bad(f->at, err, "a name with a NUL");
}

sft_status sft__import_onnx_join(sft__import_onnx *o, const char *prefix, const char *name,
                                 const char *end, const char **text, sft_error *err) {
    const size_t n = strlen(prefix);
    const size_t m = strlen(name);
    const size_t e = strlen(end);
    char *all;

    if (n + m + e > SFT__ONNX_NAME) {
        return sft__base_fail(err, SFT_E_LIMIT, "onnx: a name of more than %d bytes",
                              (int)SFT__ONNX_NAME);
    }
    SFT_TRY(sft__import_alloc(o->job, &all, n + m + e + 1, 1, err));
    memcpy(all, prefix, n);
    memcpy(all + n, name, m);
    memcpy(all + n + m, end, e + 1);
    *text = all;
    return SFT_OK;
}

/* ---------------------------------------------------------------- reading the message */

static sft_status decimal(const char *text, uint64_t at, uint64_t *value, sft_error *err) {
    *value = 0;
    if (*text == '\0') {
        return bad(at, err, "external data: a number is missing");
    }
    for (; *text != '\0'; text++) {
        uint64_t more;
        if (*text < '0' || *text > '9' || !sft__base_mul64(*value, 10, &more) ||
            !sft__base_add64(more, (uint64_t)(*text - '0'), value)) {
            return bad(at, err, "external data: offset or length is no number of 64 bits");
        }
    }
    return SFT_OK;
}

/* One StringStringEntryProto of external_data. */
static sft_status read_entry(sft__import_onnx *o, proto *t, sft__import_wire m, sft_error *err) {
    const char *key = "";
    const char *value = "";
    uint64_t value_len = 0;
    const uint64_t at = m.at;
    sft__import_wire_field f;
    sft_status status;

    while (sft__import_wire_each(&o->in, &m, &f, &status, err)) {
        if (f.number == 1) {
            SFT_TRY(sft__import_wire_text(&o->in, o->job, &f, 4096, &key, err));
        } else if (f.number == 2) {
            SFT_TRY(sft__import_wire_text(&o->in, o->job, &f, 4096, &value, err));
            value_len = f.len;
        }
    }
    SFT_TRY(status);
    if (strcmp(key, "location") == 0) {
        if (strlen(value) != value_len) {
            return bad(at, err, "external data: a location with a NUL");
        }
        t->ext.location = value;
    } else if (strcmp(key, "offset") == 0) {
        t->ext.has_offset = true;
        return decimal(value, at, &t->ext.offset, err);
    } else if (strcmp(key, "length") == 0) {
        t->ext.has_length = true;
        return decimal(value, at, &t->ext.length, err);
    } else if (strcmp(key, "checksum") != 0) {
        sft__import_find(o->job, SFT__RULE(NOTE, HARMLESS, "onnx-external"),
                         sft__import_text_at(key, at),
                         "an entry of external data that is not used");
    }
    return SFT_OK;
}

static sft_status read_field(sft__import_onnx *o, proto *t, const sft__import_wire_field *f,
                             sft_error *err) {
    switch (f->number) {
    case 1:
        return sft__import_wire_dims_add(&o->in, &t->dims, f, err);
    case 2:
        t->type = f->value;
        return f->wire == SFT__PB_VARINT ? SFT_OK : bad(f->start, err, "data_type is no number");
    case 3:
        return sft__base_fail_at(err, SFT_E_UNSUPPORTED, f->start, "onnx: a segment of a tensor");
    case FLOATS:
    case INT32S:
    case STRINGS:
    case INT64S:
    case DOUBLES:
    case UINT64S:
        t->number = *f;
        t->number_fields |= 1u << f->number;
        t->number_count += t->number_count < UINT32_MAX;
        return SFT_OK;
    case 8:
        return sft__import_onnx_name(o, f, &t->name, err);
    case RAW:
        if (t->raw.number != 0 || f->wire != SFT__PB_BYTES) {
            return bad(f->start, err, "raw_data twice, or no bytes");
        }
        t->raw = *f;
        return SFT_OK;
    case 13:
        t->entries++;
        return f->wire == SFT__PB_BYTES ? read_entry(o, t, sft__import_wire_inside(f), err)
                                        : bad(f->start, err, "external_data is no message");
    case 14:
        t->location = f->value;
        return f->wire == SFT__PB_VARINT && f->value <= 1
                   ? SFT_OK
                   : bad(f->start, err, "data_location is neither default nor external");
    case 16:
        if (!o->job->scanning) {
            sft__import_left(o->job, "metadata_props", 14, 0,
                             "texts of tensors: outputs hold their elements");
        }
        return SFT_OK;
    default:
        return SFT_OK; /* doc_string, and what is yet to come */
    }
}

static sft_status read_proto(sft__import_onnx *o, proto *t, sft__import_wire m, sft_error *err) {
    sft__import_wire_field f;
    sft_status status;

    memset(t, 0, sizeof *t);
    t->m = m;
    while (sft__import_wire_each(&o->in, &m, &f, &status, err)) {
        SFT_TRY(read_field(o, t, &f, err));
    }
    return status;
}

/* ---------------------------------------------------------------- where the elements are */

static sft_status find_file(sft__import_onnx *o, const char *location,
                            const sft__import_onnx_file **file, sft_error *err) {
    sft_source *source;
    uint64_t size;

    for (size_t i = o->file_count; i-- > 0;) {
        if (strcmp(o->files[i].location, location) == 0) {
            *file = &o->files[i];
            return SFT_OK;
        }
        if (o->file_count - i > 64 && i > 4) {
            i = 4; /* the last ones and the first ones: a file opened twice does no harm */
        }
    }
    SFT_TRY(SFT_ONE_MORE(o->job->allocator, o->files, o->file_room, o->file_count, err));
    SFT_TRY(
        sft__import_beside_open(&source, o->job, location, o->file_count < SFT__BESIDE_OPEN, err));
    size = sft_source_size(source);
    if (!sft__base_add64(o->job->beside_bytes, size, &o->job->beside_bytes)) {
        o->job->beside_bytes = UINT64_MAX;
    }
    sft__import_onnx_file *new = &o->files[o->file_count];
    *new = (sft__import_onnx_file){location, size, 0};
    SFT_TRY(sft_builder_add_source(o->job->builder, source, &new->source, err));
    o->file_count++;
    *file = new;
    return SFT_OK;
}

static sft_status place_external(sft__import_onnx *o, const proto *t, sft__import_run *run,
                                 sft_error *err) {
    const sft__import_onnx_file *file = NULL;
    const external *e = &t->ext;

    if (e->location == NULL) {
        return bad(t->m.at, err, "external data without a location");
    }
    if (e->has_length && e->length != t->nbytes) {
        return sft__base_fail_at(err, SFT_E_SIZE, t->m.at,
                                 "onnx: %llu bytes of external data, shape and type need %llu",
                                 (unsigned long long)e->length, (unsigned long long)t->nbytes);
    }
    SFT_TRY(find_file(o, e->location, &file, err));
    if (e->offset > file->size || t->nbytes > file->size - e->offset) {
        return sft__base_fail_at(err, SFT_E_SIZE, t->m.at,
                                 "onnx: external data at %llu of %llu bytes, the file has %llu",
                                 (unsigned long long)e->offset, (unsigned long long)t->nbytes,
                                 (unsigned long long)file->size);
    }
    *run = (sft__import_run){e->offset, t->nbytes, file->source};
    return SFT_OK;
}

static sft_status place_numbers(sft__import_onnx *o, const proto *t, sft__import_run *run,
                                sft_error *err) {
    const sft__import_wire_field *f = &t->number;
    const bool fixed = t->as->field == FLOATS || t->as->field == DOUBLES;

    if (t->number_fields != 0 && t->number_fields != 1u << t->as->field) {
        return bad(f->start, err, "numbers in a field that is not the type's");
    }
    if (fixed && t->number_count == 1 && f->wire == SFT__PB_BYTES) {
        *run = (sft__import_run){f->at, f->len, 0};
        return SFT_OK;
    }
    sft__import_onnx_values v = {.m = t->m, .field = t->as->field};
    v.width = t->as->field == FLOATS ? 4 : t->as->field == DOUBLES ? 8 : t->dtype->block_bytes;
    v.fixed = fixed ? v.width : 0; /* the others are varints */
    v.entries = t->nbytes / v.width;
    *run = (sft__import_run){0, t->nbytes, 0};
    return t->nbytes == 0 && t->number_count == 0
               ? SFT_OK
               : sft__import_onnx_values_source(o, &v, &run->source, err);
}

static sft_status place(sft__import_onnx *o, const proto *t, sft__import_run *run, sft_error *err) {
    const bool is_external = t->location == 1;

    if ((t->raw.number != 0) + (t->number_count != 0 ? 1 : 0) + (is_external ? 1 : 0) > 1) {
        return bad(t->m.at, err, "the data of a tensor in two forms");
    }
    if (is_external) {
        return place_external(o, t, run, err);
    }
    if (t->entries != 0) {
        return bad(t->m.at, err, "external data in a tensor that is not external");
    }
    if (t->raw.number != 0) {
        *run = (sft__import_run){t->raw.at, t->raw.len, 0};
        return SFT_OK;
    }
    return place_numbers(o, t, run, err);
}

/* ---------------------------------------------------------------- into the catalog */

/* For elements that are bytes to us: "onnx:NAME" is {"dtype": "INT4", "shape": [3, 5]}. */
static sft_status tell_type(sft__import_onnx *o, const char *name, const onnx_type *type,
                            const sft__import_wire_dims *dims, sft_error *err) {
    char value[SFT__WIRE_RANK * 24 + 64];
    const char *key;
    size_t n =
        (size_t)snprintf(value, sizeof value, "{\"dtype\": \"%s\", \"shape\": [", type->name);

    for (uint32_t d = 0; d < dims->rank; d++) {
        n += (size_t)snprintf(value + n, sizeof value - n, "%s%llu", d != 0 ? ", " : "",
                              (unsigned long long)dims->at[d]);
    }
    n += (size_t)snprintf(value + n, sizeof value - n, "]}");
    SFT_TRY(sft__import_onnx_join(o, "onnx:", name, "", &key, err));
    const sft_metadata_entry e = {key, strlen(key), value, n};
    return sft_builder_add_metadata(o->job->builder, 0, &e, err);
}

/* A tensor without a name is called "". */
static sft_status named(sft__import_onnx *o, const proto *t, const char *prefix, const char **name,
                        sft_error *err) {
    *name = t->name != NULL ? t->name : "";
    return prefix[0] != '\0' ? sft__import_onnx_join(o, prefix, *name, "", name, err) : SFT_OK;
}

/* Fills in the name of the tensor that an error is about. */
static sft_status about(sft_error *err, sft_status status, const char *name) {
    if (status != SFT_OK && err != NULL && err->tensor[0] == '\0') {
        (void)sft_escape(err->tensor, sizeof err->tensor, name, strlen(name));
    }
    return status;
}

sft_status sft__import_onnx_numbers(sft__import_onnx *o, const sft__import_onnx_values *values,
                                    const char *name, bool scalar, sft_error *err) {
    sft__import_run run = {0, values->entries * values->width,
                           0}; /* each takes a byte of the file */
    const sft_tensor t = {.name = name,
                          .name_len = strlen(name),
                          .dtype = sft_dtype_get(values->fixed != 0 ? SFT_F32 : SFT_I64),
                          .shape = &values->entries,
                          .rank = scalar ? 0 : 1};

    if (values->entries != 0) {
        SFT_TRY(sft__import_onnx_values_source(o, values, &run.source, err));
    }
    return about(err, sft__import_runs(o->job, &t, &run, 1, err), name);
}

/* 6-bit floats as onnx 1.23 packs them, four to three bytes; before, and one by one, a byte each.
 */
static bool is_six(const proto *t, const onnx_type *type, uint64_t elements) {
    const bool bytes = t->number_count != 0 || (t->raw.number != 0 && t->raw.len == elements) ||
                       (t->location == 1 && t->ext.has_length && t->ext.length == elements);
    return (type == &types[27] || type == &types[28]) && !bytes;
}

static sft_status add(sft__import_onnx *o, proto *t, const char *name, sft_error *err) {
    const onnx_type *type = t->type < sizeof types / sizeof types[0] ? &types[t->type] : &types[0];
    sft__import_wire_dims shape = t->dims;
    uint64_t elements;
    sft_tensor out;
    sft__import_run run;

    if (type->name == NULL) {
        return sft__import_opaque(o->job, sft__import_text_at(name, t->m.at), err,
                                  "onnx: %.100s has the element type %llu (%s)", name,
                                  (unsigned long long)t->type,
                                  t->type == 8 ? "strings" : "not known");
    }
    memset(&out, 0, sizeof out);
    out.dtype = sft__import_dtype(type->dtype);
    if (!sft__import_wire_elements(&t->dims, &elements)) {
        return sft__base_fail_at(err, SFT_E_OVERFLOW, t->m.at, "the size of its shape overflows");
    }
    const bool six = is_six(t, type, elements);
    const bool packed = type->bits != 0 && !(type->dtype == SFT_F4 && elements % 2 == 0);
    if (six && elements % 4 == 0) {
        out.dtype = sft_dtype_get(type == &types[27] ? SFT_F6_E2M3 : SFT_F6_E3M2);
    } else if (six) {
        out.dtype = sft_dtype_get(SFT_U8);
        SFT_TRY(tell_type(o, name, type, &t->dims, err));
        elements = elements / 4 * 3 + (elements % 4 * 6 + 7) / 8;
        shape.rank = 1;
        shape.at[0] = elements;
    } else if (packed) {
        const uint64_t per = 8 / type->bits;
        out.dtype = sft_dtype_get(SFT_U8);
        SFT_TRY(tell_type(o, name, type, &t->dims, err));
        if (per > 1) {
            shape.rank = 1;
            shape.at[0] = elements / per + (elements % per != 0);
        }
        elements = elements / per + (elements % per != 0);
    }
    t->as = type;
    t->dtype = out.dtype;
    SFT_TRY(sft_dtype_bytes(out.dtype, elements, &t->nbytes, err));
    SFT_TRY(place(o, t, &run, err));
    out.name = name;
    out.name_len = strlen(name);
    out.shape = shape.at;
    out.rank = shape.rank;
    return sft__import_runs(o->job, &out, &run, 1, err);
}

sft_status sft__import_onnx_tensor(sft__import_onnx *o, sft__import_wire m, const char *prefix,
                                   const char *name, sft_error *err) {
    proto t;

    SFT_TRY(read_proto(o, &t, m, err));
    if (name == NULL) {
        SFT_TRY(named(o, &t, prefix, &name, err));
    }
    return about(err, add(o, &t, name, err), name);
}

sft_status sft__import_onnx_own_name(sft__import_onnx *o, sft__import_wire m, const char *prefix,
                                     const char **name, sft_error *err) {
    proto t;

    SFT_TRY(read_proto(o, &t, m, err));
    return named(o, &t, prefix, name, err);
}
