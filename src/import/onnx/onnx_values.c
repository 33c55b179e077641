/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/onnx/onnx_values.c - numbers that a TensorProto keeps one by one (float_data, int32_data
 * ...), packed or not, as a source of little-endian elements. One pass counts them and notes every
 * 1,024th place; a read decodes from the note before it, so any thread may read anywhere. Read
 * first: onnx.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/onnx/onnx.h"

enum { STRIDE = 1024, SOURCE_COST = 512 };

/* Where a number is: in a packed field that ends at `end`, or (at >= end) in a field that comes
 * next. */
typedef struct place {
    uint64_t at;
    uint64_t end;
} place;

typedef struct values {
    const sft_allocator *allocator;
    const sft_source *file;
    sft__import_onnx_values v;
    place *notes;
    size_t count;
    size_t room;
} values;

static sft_status no_number(uint64_t at, sft_error *err) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, at, "onnx: a number in a field of another kind");
}

/* The next number at or behind *p; *more false: there is none. */
static sft_status next_number(sft__import_wire_in *in, const sft__import_onnx_values *v, place *p,
                              uint64_t *value, bool *more, sft_error *err) {
    const size_t width = v->fixed;
    const uint8_t *bytes;

    *more = true;
    while (p->at >= p->end) {
        sft__import_wire m = {p->at, v->m.end};
        sft__import_wire_field f;
        SFT_TRY(sft__import_wire_next(in, &m, &f, more, err));
        if (!*more) {
            return SFT_OK;
        }
        p->at = m.at;
        p->end = 0;
        if (f.number != v->field) {
            continue;
        }
        if (f.wire == SFT__PB_BYTES) {
            p->at = f.at;
            p->end = f.at + f.len;
            continue;
        }
        if (f.wire != (width == 4   ? SFT__PB_FIXED32
                       : width == 8 ? SFT__PB_FIXED64
                                    : SFT__PB_VARINT)) {
            return no_number(f.start, err);
        }
        *value = f.value;
        return SFT_OK;
    }
    if (width == 0) {
        return sft__import_wire_varint(in, &p->at, p->end, value, err);
    }
    if (p->end - p->at < width) {
        return no_number(p->at, err);
    }
    SFT_TRY(sft__import_wire_bytes(in, p->at, width, &bytes, err));
    *value = width == 8 ? sft__base_load_le64(bytes) : sft__base_load_le32(bytes);
    p->at += width;
    return SFT_OK;
}

static sft_status values_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const values *s = self;
    const uint32_t width = s->v.width;
    uint64_t entry = offset / width / STRIDE * STRIDE;
    uint64_t skip = offset - entry * width;
    place p = s->notes[entry / STRIDE];
    sft__import_wire_in in;
    uint8_t *to = dst;

    sft__import_wire_init(&in, s->file);
    while (size > 0) {
        uint64_t value = 0;
        uint8_t raw[8];
        bool more;
        SFT_TRY(next_number(&in, &s->v, &p, &value, &more, err));
        if (!more) {
            return sft__base_fail_at(err, SFT_E_CHANGED, p.at, "the numbers end too soon");
        }
        if (skip >= width) {
            skip -= width;
            continue;
        }
        for (uint32_t i = 0; i < sizeof raw; i++) {
            raw[i] = (uint8_t)(value >> 8 * i);
        }
        const size_t have = (size_t)(width - skip);
        const size_t n = have < size ? have : size;
        memcpy(to, raw + skip, n);
        skip = 0;
        to += n;
        size -= n;
    }
    return SFT_OK;
}

static void values_close(void *self) {
    values *s = self;
    sft__base_free(s->allocator, s->notes, s->room * sizeof *s->notes);
    sft__base_free(s->allocator, s, sizeof *s);
}

static sft_status wrong_count(const values *s, uint64_t count, sft_error *err) {
    return sft__base_fail_at(err, SFT_E_SIZE, s->v.m.at,
                             "onnx: %s %llu numbers, shape and type need %llu",
                             count > s->v.entries ? "at least" : "only", (unsigned long long)count,
                             (unsigned long long)s->v.entries);
}

static sft_status count_numbers(sft__import_onnx *o, values *s, sft_error *err) {
    place p = {s->v.m.at, 0};
    uint64_t count = 0;

    for (;;) {
        const place before = p;
        uint64_t value;
        bool more;
        SFT_TRY(next_number(&o->in, &s->v, &p, &value, &more, err));
        if (!more) {
            break;
        }
        if (count == s->v.entries) {
            return wrong_count(s, count + 1, err);
        }
        if (count++ % STRIDE != 0) {
            continue;
        }
        SFT_TRY(SFT_ONE_MORE(s->allocator, s->notes, s->room, s->count, err));
        s->notes[s->count++] = before;
        if (s->room * sizeof *s->notes > o->job->options.memory_bytes / 4) {
            return sft__base_fail_at(err, SFT_E_LIMIT, p.at,
                                     "memory: too many numbers stored one by one");
        }
    }
    return count == s->v.entries ? SFT_OK : wrong_count(s, count, err);
}

sft_status sft__import_onnx_values_source(sft__import_onnx *o, const sft__import_onnx_values *v,
                                          uint32_t *source, sft_error *err) {
    sft__import *job = o->job;
    sft_source_vtable vtable;
    sft_source *made;
    values *s;

    SFT_TRY(sft__base_need_zero(job->allocator, &s, sizeof *s, err));
    s->allocator = job->allocator;
    s->file = job->file;
    s->v = *v;
    sft_status status = count_numbers(o, s, err);
    o->value_bytes += SOURCE_COST + s->room * sizeof *s->notes;
    if (status == SFT_OK && o->value_bytes > job->options.memory_bytes / 4) {
        status = sft__base_fail_at(err, SFT_E_LIMIT, v->m.at,
                                   "memory: too many tensors whose numbers are stored one by one");
    }
    SFT_INIT(&vtable);
    vtable.read_at = values_read;
    vtable.close = values_close;
    SFT_THEN(status,
             sft_source_create(&made, &vtable, s,
                               &(sft_source_info){v->entries * v->width, 0,
                                                  sft_source_name(job->file), job->allocator},
                               err));
    if (status != SFT_OK) {
        values_close(s);
        return status;
    }
    return sft_builder_add_source(job->builder, made, source, err);
}
