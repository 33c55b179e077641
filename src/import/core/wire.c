/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/wire.c - protobuf fields out of a source, by a window; runs of elements as boxes of a
 * tensor. Every length is compared with the message that it is in before it is believed. Read
 * first: wire.h.
 */
#include "import/core/wire.h"
#include "base/checked.h"
#include "base/text/utf8.h"

void sft__import_wire_init(sft__import_wire_in *in, const sft_source *source) {
    in->source = source;
    in->base = 0;
    in->len = 0;
    in->fields_left = UINT64_MAX;
}

sft_status sft__import_wire_bytes(sft__import_wire_in *in, uint64_t at, size_t n,
                                  const uint8_t **bytes, sft_error *err) {
    const uint64_t size = sft_source_size(in->source);

    if (at < in->base || at - in->base > in->len || in->len - (size_t)(at - in->base) < n) {
        if (at > size || n > size - at || n > sizeof in->window) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, at,
                                     "the file ends in the middle of a field");
        }
        const uint64_t left = size - at;
        in->len = 0;
        const size_t take = left < sizeof in->window ? (size_t)left : sizeof in->window;
        SFT_TRY(sft_source_read(in->source, at, in->window, take, err));
        in->base = at;
        in->len = take;
    }
    *bytes = in->window + (at - in->base);
    return SFT_OK;
}

sft_status sft__import_wire_copy(sft__import_wire_in *in, uint64_t at, void *dst, size_t n,
                                 sft_error *err) {
    const uint8_t *bytes = NULL;

    if (n > SFT__WIRE_WINDOW) {
        return sft_source_read(in->source, at, dst, n, err);
    }
    SFT_TRY(sft__import_wire_bytes(in, at, n, &bytes, err));
    memcpy(dst, bytes, n);
    return SFT_OK;
}

sft_status sft__import_wire_varint(sft__import_wire_in *in, uint64_t *at, uint64_t end,
                                   uint64_t *value, sft_error *err) {
    const size_t most = end - *at < 10 ? (size_t)(end - *at) : 10;
    const uint8_t *bytes;

    SFT_TRY(sft__import_wire_bytes(in, *at, most, &bytes, err));
    const uint8_t *p = bytes;
    if (!sft__base_pb_varint(&p, bytes + most, value)) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, *at, "protobuf: bad varint");
    }
    *at += (uint64_t)(p - bytes);
    return SFT_OK;
}

static sft_status cut_short(const sft__import_wire_field *f, sft_error *err) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, f->start,
                             "protobuf: field %u is longer than the message that it is in",
                             (unsigned)f->number);
}

static sft_status read_fixed(sft__import_wire_in *in, sft__import_wire *m,
                             sft__import_wire_field *f, size_t n, sft_error *err) {
    const uint8_t *bytes;

    if (m->end - m->at < n) {
        return cut_short(f, err);
    }
    SFT_TRY(sft__import_wire_bytes(in, m->at, n, &bytes, err));
    f->value = n == 8 ? sft__base_load_le64(bytes) : sft__base_load_le32(bytes);
    m->at += n;
    return SFT_OK;
}

/* A number or a message whose tag and length are one byte each, in the window already: most fields
 * are such. */
static bool short_field(const sft__import_wire_in *in, sft__import_wire *m,
                        sft__import_wire_field *f) {
    if (m->at < in->base || m->at - in->base >= in->len || m->end - m->at < 2 ||
        in->len - (size_t)(m->at - in->base) < 2) {
        return false;
    }
    const uint8_t *p = in->window + (m->at - in->base);
    const uint32_t wire = p[0] & 7;
    if (p[0] < 8 || (p[0] | p[1]) >= 0x80 || (wire != SFT__PB_BYTES && wire != SFT__PB_VARINT) ||
        (wire == SFT__PB_BYTES && p[1] > m->end - m->at - 2)) {
        return false;
    }
    *f = (sft__import_wire_field){.number = p[0] >> 3, .wire = wire, .start = m->at};
    m->at += 2;
    if (wire == SFT__PB_VARINT) {
        f->value = p[1];
    } else {
        f->at = m->at;
        f->len = p[1];
        m->at += p[1];
    }
    return true;
}

sft_status sft__import_wire_next(sft__import_wire_in *in, sft__import_wire *m,
                                 sft__import_wire_field *f, bool *more, sft_error *err) {
    uint64_t tag;

    *more = m->at < m->end;
    if (!*more) {
        return SFT_OK;
    }
    if (in->fields_left-- == 0) {
        in->fields_left = 0;
        return sft__base_fail_at(err, SFT_E_LIMIT, m->at,
                                 "protobuf: more fields than are gone through");
    }
    if (short_field(in, m, f)) {
        return SFT_OK;
    }
    memset(f, 0, sizeof *f);
    f->start = m->at;
    SFT_TRY(sft__import_wire_varint(in, &m->at, m->end, &tag, err));
    if (tag > UINT32_MAX || tag >> 3 == 0) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, f->start, "protobuf: bad field tag");
    }
    f->number = (uint32_t)(tag >> 3);
    f->wire = (uint32_t)(tag & 7);
    switch (f->wire) {
    case SFT__PB_VARINT:
        return sft__import_wire_varint(in, &m->at, m->end, &f->value, err);
    case SFT__PB_FIXED64:
        return read_fixed(in, m, f, 8, err);
    case SFT__PB_FIXED32:
        return read_fixed(in, m, f, 4, err);
    case SFT__PB_BYTES:
        SFT_TRY(sft__import_wire_varint(in, &m->at, m->end, &f->len, err));
        if (f->len > m->end - m->at) {
            return cut_short(f, err);
        }
        f->at = m->at;
        m->at += f->len;
        return SFT_OK;
    default:
        return sft__base_fail_at(err, SFT_E_SCHEMA, f->start,
                                 "protobuf: wire type %u, which is not used today",
                                 (unsigned)f->wire);
    }
}

sft_status sft__import_wire_text(sft__import_wire_in *in, sft__import *job,
                                 const sft__import_wire_field *f, size_t most, const char **text,
                                 sft_error *err) {
    char *copy;

    if (f->wire != SFT__PB_BYTES) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, f->start, "protobuf: field %u is no text",
                                 (unsigned)f->number);
    }
    if (f->len > most) {
        return sft__base_fail_at(err, SFT_E_LIMIT, f->at, "a name of %llu bytes, %zu are the limit",
                                 (unsigned long long)f->len, most);
    }
    const size_t len = (size_t)f->len;
    SFT_TRY(sft__import_alloc(job, &copy, len + 1, 1, err));
    SFT_TRY(sft__import_wire_copy(in, f->at, copy, len, err));
    copy[len] = '\0';
    const size_t good = sft__base_utf8_valid(copy, len);
    if (good != len) {
        return sft__base_fail_at(err, SFT_E_UTF8, f->at + good, "a name that is not UTF-8");
    }
    *text = copy;
    return SFT_OK;
}

/* ---------------------------------------------------------------- shapes */

static sft_status dim_add(sft__import_wire_dims *dims, uint64_t value, uint64_t at,
                          sft_error *err) {
    if (value > INT64_MAX) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, at, "a negative dimension");
    }
    if (dims->rank == SFT__WIRE_RANK) {
        return sft__base_fail_at(err, SFT_E_LIMIT, at, "more than %d dimensions",
                                 (int)SFT__WIRE_RANK);
    }
    dims->at[dims->rank++] = value;
    return SFT_OK;
}

sft_status sft__import_wire_dims_add(sft__import_wire_in *in, sft__import_wire_dims *dims,
                                     const sft__import_wire_field *f, sft_error *err) {
    if (f->wire == SFT__PB_VARINT) {
        return dim_add(dims, f->value, f->start, err);
    }
    if (f->wire != SFT__PB_BYTES) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, f->start,
                                 "protobuf: a dimension is no integer");
    }
    uint64_t at = f->at;
    while (at < f->at + f->len) {
        uint64_t value;
        SFT_TRY(sft__import_wire_varint(in, &at, f->at + f->len, &value, err));
        SFT_TRY(dim_add(dims, value, at, err));
    }
    return SFT_OK;
}

bool sft__import_wire_elements(const sft__import_wire_dims *dims, uint64_t *elements) {
    bool zero = false;
    bool fits = true;

    *elements = 1;
    for (uint32_t d = 0; d < dims->rank; d++) {
        zero = zero || dims->at[d] == 0;
        fits = fits && sft__base_mul64(*elements, dims->at[d], elements);
    }
    *elements = zero ? 0 : *elements;
    return fits || zero;
}

/* ---------------------------------------------------------------- runs */

typedef struct boxes {
    sft_piece *pieces;
    uint64_t *numbers; /* 2 * rank for each */
    size_t count;
    const uint64_t *step; /* elements of one row of each dimension */
} boxes;

/* The largest box that begins at element `at` of the tensor and has at most n elements: whole rows
 * of the outermost dimension that fits. Returns its elements. */
static uint64_t box_at(const sft_tensor *t, boxes *b, uint64_t at, uint64_t n) {
    uint64_t *start = b->numbers + b->count * 2 * t->rank;
    uint64_t *extent = start + t->rank;
    uint64_t rest = at;
    uint32_t cut = 0;

    while (cut + 1 < t->rank && (at % b->step[cut] != 0 || n < b->step[cut])) {
        cut++;
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        start[d] = rest / b->step[d];
        rest %= b->step[d];
        extent[d] = d < cut ? 1 : t->shape[d];
    }
    const uint64_t left = t->shape[cut] - start[cut];
    const uint64_t fits = n / b->step[cut];
    extent[cut] = fits < left ? fits : left;
    return extent[cut] * b->step[cut];
}

/* Boxes of a run: up to the next row of every dimension and down again. */
static uint64_t boxes_most(const sft_tensor *t, size_t runs) {
    return (uint64_t)runs * (2 * (uint64_t)t->rank);
}

static sft_status cut_runs(sft__import *job, const sft_tensor *t, const sft__import_run *runs,
                           size_t count, boxes *b, sft_error *err) {
    const uint64_t unit = t->dtype->block_bytes;
    const uint64_t per = t->dtype->block_elements;
    uint64_t at = 0;
    uint64_t *step;

    SFT_TRY(sft__import_alloc(job, &step, t->rank, sizeof *step, err));
    uint64_t elements = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        step[d] = elements;
        elements *= t->shape[d]; /* fits: the caller compared it with bytes that are there */
    }
    const uint64_t most = boxes_most(t, count);
    if (most > SIZE_MAX / 16 / t->rank) {
        return sft__base_fail_tensor(err, SFT_E_LIMIT, SFT_NO_OFFSET, t->name, t->name_len,
                                     "%zu pieces are too many", count);
    }
    SFT_TRY(sft__import_alloc(job, &b->pieces, (size_t)most, sizeof *b->pieces, err));
    SFT_TRY(
        sft__import_alloc(job, &b->numbers, (size_t)most * 2 * t->rank, sizeof *b->numbers, err));
    b->step = step;
    for (size_t i = 0; i < count; i++) {
        uint64_t offset = runs[i].offset;
        uint64_t n = runs[i].nbytes / unit * per;
        if (runs[i].nbytes % unit != 0) {
            return sft__base_fail_tensor(err, SFT_E_SIZE, offset, t->name, t->name_len,
                                         "a piece of %llu bytes ends in the middle of an element",
                                         (unsigned long long)runs[i].nbytes);
        }
        while (n > 0) {
            const uint64_t taken = box_at(t, b, at, n);
            uint64_t *start = b->numbers + b->count * 2 * t->rank;
            b->pieces[b->count++] = (sft_piece){.offset = offset,
                                                .start = start,
                                                .count = start + t->rank,
                                                .source = runs[i].source};
            offset += taken / per * unit;
            at += taken;
            n -= taken;
        }
    }
    return SFT_OK;
}

sft_status sft__import_runs(sft__import *job, const sft_tensor *tensor, const sft__import_run *runs,
                            size_t count, sft_error *err) {
    sft_tensor t = *tensor;
    sft__import_wire_dims dims = {.rank = t.rank};
    uint64_t have = 0;
    uint64_t elements;
    uint64_t need = 0;
    size_t first = 0;
    size_t filled = 0;
    boxes b = {NULL, NULL, 0, NULL};

    for (size_t i = 0; i < count; i++) {
        have += runs[i].nbytes; /* each lies in the file, none twice */
        first = runs[first].nbytes != 0 ? first : i;
        filled += runs[i].nbytes != 0;
    }
    for (uint32_t d = 0; d < t.rank; d++) {
        dims.at[d] = t.shape[d];
    }
    if (!sft__import_wire_elements(&dims, &elements) ||
        sft_dtype_bytes(t.dtype, elements, &need, NULL) != SFT_OK) {
        return sft__base_fail_tensor(err, SFT_E_OVERFLOW,
                                     count != 0 ? runs[0].offset : SFT_NO_OFFSET, t.name,
                                     t.name_len, "the size of its shape overflows");
    }
    if (need != have) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, count != 0 ? runs[0].offset : SFT_NO_OFFSET,
                                     t.name, t.name_len,
                                     "%llu bytes of data, shape and type need %llu",
                                     (unsigned long long)have, (unsigned long long)need);
    }
    const sft_piece whole = {.offset = count != 0 ? runs[first].offset : 0,
                             .source = count != 0 ? runs[first].source : 0};
    if (filled <= 1) {
        t.pieces = &whole;
        t.piece_count = 1;
        return sft__import_tensor(job, &t, err);
    }
    if (t.rank == 0) {
        return sft__base_fail_tensor(err, SFT_E_SIZE, runs[first].offset, t.name, t.name_len,
                                     "the bytes of a scalar lie in %zu places", filled);
    }
    SFT_TRY(cut_runs(job, &t, runs, count, &b, err));
    t.pieces = b.pieces;
    t.piece_count = (uint32_t)b.count; /* at most the file's bytes in pieces of 12 bytes or more */
    return sft__import_tensor(job, &t, err);
}
