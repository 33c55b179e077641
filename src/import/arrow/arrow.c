/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/arrow/arrow.c - tensors of Apache Arrow: messages of its IPC format, one after the other,
 * each a length, a FlatBuffer (type, shape, strides) and a body. Dense tensors are read, of any
 * strides; sparse ones are named. Columns (files, streams) are refused: there is no convention for
 * weights in them. Source: arrow.apache.org/docs/format/Columnar.html, format/Tensor.fbs,
 * Message.fbs. Read first: flatbuf.h.
 */
#include "import/arrow/arrow.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "base/text/json.h"
#include "import/core/flatbuf.h"
#include <stdio.h>

enum { MESSAGE_TYPE = 1, MESSAGE_HEADER = 2, MESSAGE_BODY = 3 };
enum { TENSOR_TYPE = 0, TENSOR_TYPE_TABLE = 1, TENSOR_SHAPE = 2, TENSOR_STRIDES = 3 };
enum { TENSOR_DATA = 4 };
enum { HEADER_TENSOR = 4, HEADER_SPARSE = 5 };
enum { TYPE_INT = 2, TYPE_FLOAT = 3 };
enum { PADDING_MOST = 63, NAME_MOST = 4096 };

typedef struct arrow {
    sft__import *job;
    sft__import_fb fb;
    sft__base_buf json;
    uint64_t count; /* of messages */
} arrow;

/* A message: its FlatBuffer and its body. */
typedef struct message {
    uint64_t begin;
    uint64_t meta;
    uint64_t body;
    uint64_t end;
    sft__import_fb_table table;
    uint64_t kind;
} message;

static sft_status bad(uint64_t at, sft_error *err, const char *text) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "arrow: %s", text);
}

/* ---------------------------------------------------------------- messages */

/* Bytes of zero between messages, to a multiple of up to 64. */
static sft_status skip_padding(const arrow *a, uint64_t *at, sft_error *err) {
    const uint64_t size = sft_source_size(a->job->file);
    uint8_t bytes[PADDING_MOST];
    const uint64_t left = size - *at;
    const size_t n = left < sizeof bytes ? (size_t)left : sizeof bytes;

    if (n != 0) {
        SFT_TRY(sft_source_read(a->job->file, *at, bytes, n, err));
    }
    size_t k = 0;
    while (k < n && bytes[k] == 0) {
        k++;
    }
    *at += k;
    return SFT_OK;
}

/* The message at *at; moves *at behind it. */
static sft_status next_message(arrow *a, uint64_t *at, message *m, sft_error *err) {
    const uint64_t size = sft_source_size(a->job->file);
    const uint64_t budget = a->fb.budget;
    uint8_t head[8] = {0};
    uint64_t body;

    if (size - *at < sizeof head) {
        return bad(*at, err, "a message cut short");
    }
    SFT_TRY(sft_source_read(a->job->file, *at, head, sizeof head, err));
    const bool marked = sft__base_load_le32(head) == UINT32_MAX; /* since 0.15 */
    const uint64_t length = sft__base_load_le32(head + (marked ? 4 : 0));
    m->begin = *at;
    m->meta = *at + (marked ? 8 : 4);
    if (length > size - m->meta) {
        return bad(*at, err, "a message cut short");
    }
    m->body = m->meta + length;
    sft__import_fb_init(&a->fb, a->job, "arrow", m->meta, m->body);
    a->fb.budget = budget;
    SFT_TRY(sft__import_fb_root(&a->fb, &m->table, err));
    SFT_TRY(sft__import_fb_number(&a->fb, &m->table, MESSAGE_TYPE, 1, &m->kind, err));
    SFT_TRY(sft__import_fb_number(&a->fb, &m->table, MESSAGE_BODY, 8, &body, err));
    if (body > size - m->body) {
        return bad(*at, err, "a message cut short");
    }
    m->end = *at = m->body + body;
    return SFT_OK;
}

/* ---------------------------------------------------------------- a tensor */

static sft_status type_of(arrow *a, const sft__import_fb_table *t, const sft_dtype **dtype,
                          sft_error *err) {
    static const uint16_t ints[2][4] = {{SFT_U8, SFT_U16, SFT_U32, SFT_U64},
                                        {SFT_I8, SFT_I16, SFT_I32, SFT_I64}};
    static const uint16_t floats[3] = {SFT_F16, SFT_F32, SFT_F64};
    sft__import_fb_table type;
    uint64_t kind;
    uint64_t first;
    uint64_t is_signed;
    bool there;

    *dtype = NULL;
    SFT_TRY(sft__import_fb_number(&a->fb, t, TENSOR_TYPE, 1, &kind, err));
    SFT_TRY(sft__import_fb_inner(&a->fb, t, TENSOR_TYPE_TABLE, &type, &there, err));
    if (kind == TYPE_INT && there) {
        SFT_TRY(sft__import_fb_number(&a->fb, &type, 0, 4, &first, err));
        SFT_TRY(sft__import_fb_number(&a->fb, &type, 1, 1, &is_signed, err));
        for (uint32_t i = 0; i < 4; i++) {
            *dtype = first == 8u << i ? sft_dtype_get(ints[is_signed != 0][i]) : *dtype;
        }
    } else if (kind == TYPE_FLOAT && there) {
        SFT_TRY(sft__import_fb_number(&a->fb, &type, 0, 2, &first, err));
        *dtype = first < 3 ? sft_dtype_get(floats[first]) : NULL;
    }
    return SFT_OK;
}

/* Dimensions, and their names as a JSON list, empty without any. */
static sft_status shape_of(arrow *a, const sft__import_fb_table *t, uint64_t *shape, uint32_t *rank,
                           sft_error *err) {
    sft__import_fb_vector v;
    bool any = false;

    SFT_TRY(sft__import_fb_vector_of(&a->fb, t, TENSOR_SHAPE, 4, &v, err));
    if (v.count > SFT__FB_RANK) {
        return sft__base_fail_at(err, SFT_E_LIMIT, t->at, "arrow: more than %d dimensions",
                                 (int)SFT__FB_RANK);
    }
    *rank = (uint32_t)v.count;
    a->json.len = 0;
    for (uint32_t d = 0; d < *rank; d++) {
        const char *name;
        sft__import_fb_table dim;
        SFT_TRY(sft__import_fb_item_table(&a->fb, &v, d, &dim, err));
        SFT_TRY(sft__import_fb_number(&a->fb, &dim, 0, 8, &shape[d], err));
        SFT_TRY(sft__import_fb_text(&a->fb, &dim, 1, NAME_MOST, &name, err));
        if (shape[d] > INT64_MAX) {
            return bad(dim.at, err, "a negative dimension");
        }
        any = any || name[0] != '\0';
        sft__base_buf_text(&a->json, d == 0 ? "[" : ", ");
        sft__base_json_string(&a->json, name, strlen(name));
    }
    sft__base_buf_text(&a->json, "]");
    a->json.len = any ? a->json.len : 0;
    return a->json.failed ? sft__base_fail_nomem(err, a->json.len) : SFT_OK;
}

/* Strides in bytes, those that rows need if none are given; the bytes from first to last element.
 */
static sft_status strides_of(arrow *a, const sft__import_fb_table *t, const sft_tensor *out,
                             int64_t *strides, uint64_t *extent, sft_error *err) {
    uint64_t row = out->dtype->block_bytes;
    sft__import_fb_vector v;
    bool empty = false;

    SFT_TRY(sft__import_fb_vector_of(&a->fb, t, TENSOR_STRIDES, 8, &v, err));
    if (v.count != 0 && v.count != out->rank) {
        return bad(t->at, err, "strides of another number of dimensions");
    }
    *extent = row;
    for (uint32_t d = out->rank; d-- > 0;) {
        uint64_t stride = row;
        uint64_t more;
        if (v.count != 0) {
            SFT_TRY(sft__import_fb_item(&a->fb, &v, d, &stride, err));
        }
        empty = empty || out->shape[d] == 0;
        if (stride > INT64_MAX) {
            return bad(t->at, err, "a negative stride");
        }
        strides[d] = (int64_t)stride;
        if (empty) {
            continue;
        }
        if (!sft__base_mul64(stride, out->shape[d] - 1, &more) ||
            !sft__base_add64(*extent, more, extent) || !sft__base_mul64(row, out->shape[d], &row)) {
            return sft__base_fail_at(err, SFT_E_OVERFLOW, t->at,
                                     "arrow: the strides overflow 64 bits");
        }
    }
    *extent = empty ? 0 : *extent;
    return SFT_OK;
}

static bool is_packed(const sft_tensor *out, const int64_t *strides) {
    int64_t row = out->dtype->block_bytes;

    for (uint32_t d = out->rank; d-- > 0;) {
        if (out->shape[d] > 1 && strides[d] != row) {
            return false;
        }
        row *= (int64_t)out->shape[d]; /* fits: compared with bytes that are there */
    }
    return true;
}

static sft_status add_dims(arrow *a, const char *name, sft_error *err) {
    char key[64];

    const int n = snprintf(key, sizeof key, "arrow.dim_names:%s", name);
    const sft_metadata_entry e = {key, (size_t)n, a->json.data, a->json.len};
    return a->json.len == 0 ? SFT_OK : sft_builder_add_metadata(a->job->builder, 0, &e, err);
}

static sft_status add_tensor(arrow *a, const message *m, const char *name, sft_error *err) {
    uint64_t shape[SFT__FB_RANK];
    int64_t strides[SFT__FB_RANK];
    sft_tensor out = {.name = name, .name_len = strlen(name), .shape = shape};
    uint64_t data[2];
    uint64_t extent = 0;
    sft__import_fb_table t;
    bool there;

    SFT_TRY(sft__import_fb_inner(&a->fb, &m->table, MESSAGE_HEADER, &t, &there, err));
    SFT_TRY(type_of(a, &t, &out.dtype, err));
    if (!there || out.dtype == NULL) {
        return sft__import_opaque(a->job, SFT__AT(name, out.name_len, m->begin), err,
                                  "arrow: %s has an element type that no tensor has", name);
    }
    SFT_TRY(shape_of(a, &t, shape, &out.rank, err));
    SFT_TRY(strides_of(a, &t, &out, strides, &extent, err));
    SFT_TRY(sft__import_fb_pair(&a->fb, &t, TENSOR_DATA, data, &there, err));
    if (!there || data[0] > m->end - m->body || data[1] > m->end - m->body - data[0] ||
        extent > data[1]) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, m->body, name, out.name_len,
                                     "arrow: %llu bytes of data, shape and strides need %llu",
                                     (unsigned long long)(there ? data[1] : 0),
                                     (unsigned long long)extent);
    }
    SFT_TRY(add_dims(a, name, err));
    const bool packed = extent == 0 || is_packed(&out, strides);
    const sft_piece piece = {.offset = m->body + data[0], .strides = packed ? NULL : strides};
    out.pieces = &piece;
    out.piece_count = 1;
    return sft__import_tensor(a->job, &out, err);
}

/* ---------------------------------------------------------------- the file */

static sft_status add_message(arrow *a, const message *m, uint64_t index, sft_error *err) {
    char name[40] = "tensor";

    if (a->count > 1) {
        (void)snprintf(name, sizeof name, "tensor_%llu", (unsigned long long)index);
    }
    if (m->kind == HEADER_TENSOR) {
        return add_tensor(a, m, name, err);
    }
    return sft__import_opaque(
        a->job, sft__import_text_at(name, m->begin), err, "arrow: %s is %s", name,
        m->kind == HEADER_SPARSE ? "a sparse tensor" : "a message that is no tensor");
}

static sft_status walk(arrow *a, bool adding, sft_error *err) {
    const uint64_t size = sft_source_size(a->job->file);
    uint64_t index = 0;

    for (uint64_t at = 0; at < size; index++) {
        message m;
        SFT_TRY(next_message(a, &at, &m, err));
        if (adding) {
            SFT_TRY(add_message(a, &m, index, err));
        }
        SFT_TRY(skip_padding(a, &at, err));
    }
    a->count = index;
    return SFT_OK;
}

static sft_status open_arrow(sft__import *job, sft_error *err) {
    arrow *a;

    SFT_TRY(sft__base_need_zero(job->allocator, &a, sizeof *a, err));
    a->job = job;
    sft__base_buf_init(&a->json, job->allocator);
    sft__import_fb_init(&a->fb, job, "arrow", 0, sft_source_size(job->file));
    sft_status status = walk(a, false, err);
    SFT_THEN(status, walk(a, true, err));
    sft__base_buf_reset(&a->json);
    sft__base_free(job->allocator, a, sizeof *a);
    return status;
}

uint32_t sft__import_arrow_kind(const sft__import_probe *p) {
    const uint8_t *h = p->head;
    const bool marked = p->head_len >= 16 && sft__base_load_le32(h) == UINT32_MAX;
    const size_t meta = marked ? 8 : 4;

    if (p->head_len < 32) {
        return 0;
    }
    const uint64_t length = sft__base_load_le32(h + meta - 4);
    const uint64_t root = sft__base_load_le32(h + meta);
    const size_t most = p->head_len - meta < length ? p->head_len - meta : (size_t)length;
    if (length % 4 != 0 || length > p->size - meta || root < 4 || root > most || most - root < 8) {
        return 0;
    }
    const uint64_t back = sft__base_load_le32(h + meta + root);
    if (back > root || root - back + 8 > most) {
        return 0;
    }
    const uint8_t *vtable = h + meta + (root - back);
    const uint32_t size = sft__base_load_le16(vtable);
    const uint32_t at =
        size >= 10 && root - back + size <= most ? sft__base_load_le16(vtable + 6) : 0;
    /* a version of at most 4 (V5), a kind, a header */
    const uint32_t version_at = at != 0 ? sft__base_load_le16(vtable + 4) : 0;
    if (at < 4 || root + at >= most || sft__base_load_le16(vtable + 8) == 0 ||
        (version_at != 0 &&
         (root + version_at + 2 > most || sft__base_load_le16(h + meta + root + version_at) > 4))) {
        return 0;
    }
    const uint8_t kind = h[meta + root + at];
    return kind <= HEADER_SPARSE ? kind : 0;
}

static bool probe(const sft__import_probe *p) {
    const uint32_t kind = sft__import_arrow_kind(p);
    return kind == HEADER_TENSOR || kind == HEADER_SPARSE;
}

const sft__import_reader sft__import_reader_arrow = {SFT_IMPORT_ARROW, probe, open_arrow};
