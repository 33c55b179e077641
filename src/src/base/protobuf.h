/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/protobuf.h - a scanner of the protobuf wire format (protobuf.dev, "Encoding"): fields one after the
 * other, out of memory. Knows no schema, allocates nothing, does not recurse: a message inside is scanned
 * by another scanner over its bytes. Groups (wire types 3 and 4) are faults.
 */
#ifndef SFT_BASE_PROTOBUF_H
#define SFT_BASE_PROTOBUF_H

#include "base/compiler.h"

enum { SFT__PB_VARINT = 0, SFT__PB_FIXED64 = 1, SFT__PB_BYTES = 2, SFT__PB_FIXED32 = 5 };

typedef struct sft__base_pb {
    const uint8_t *at;
    const uint8_t *end;
    const char *fault; /* static sentence; NULL: none so far. `at` then stands at the fault */
} sft__base_pb;

typedef struct sft__base_pb_field {
    uint32_t number;
    uint32_t wire;
    uint64_t value;      /* VARINT, FIXED64, FIXED32 */
    const uint8_t *data; /* BYTES: inside the scanned memory */
    size_t len;
    const uint8_t *start; /* of the tag */
} sft__base_pb_field;

static inline sft__base_pb sft__base_pb_over(const void *data, size_t len) {
    sft__base_pb r;
    r.at = (const uint8_t *)data;
    r.end = r.at + len;
    r.fault = NULL;
    return r;
}

/* At most ten bytes; false: they run past `end`, or the value past 64 bits. Moves *at behind it. */
static inline bool sft__base_pb_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    const uint8_t *p = *at;
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && p < end; shift += 7) {
        const uint8_t b = *p++;
        if (shift == 63 && b > 1) {
            return false;
        }
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *at = p;
            *value = v;
            return true;
        }
    }
    return false;
}

static inline bool sft__base_pb_fault(sft__base_pb *r, const uint8_t *at, const char *sentence) {
    r->at = at;
    r->fault = sentence;
    return false;
}

/* The next field; false at the end, or at a fault (r->fault is set). */
static inline bool sft__base_pb_next(sft__base_pb *r, sft__base_pb_field *f) {
    uint64_t tag;
    uint64_t len;
    const uint8_t *p = r->at;
    if (p == r->end || r->fault != NULL) {
        return false;
    }
    f->start = p;
    f->data = NULL;
    f->len = 0;
    f->value = 0;
    if (!sft__base_pb_varint(&p, r->end, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
        return sft__base_pb_fault(r, f->start, "bad field tag");
    }
    f->number = (uint32_t)(tag >> 3);
    f->wire = (uint32_t)(tag & 7);
    switch (f->wire) {
    case SFT__PB_VARINT:
        if (!sft__base_pb_varint(&p, r->end, &f->value)) {
            return sft__base_pb_fault(r, p, "bad varint");
        }
        break;
    case SFT__PB_FIXED64:
        if (r->end - p < 8) {
            return sft__base_pb_fault(r, p, "field cut short");
        }
        f->value = sft__base_load_le64(p);
        p += 8;
        break;
    case SFT__PB_FIXED32:
        if (r->end - p < 4) {
            return sft__base_pb_fault(r, p, "field cut short");
        }
        f->value = sft__base_load_le32(p);
        p += 4;
        break;
    case SFT__PB_BYTES:
        if (!sft__base_pb_varint(&p, r->end, &len) || len > (uint64_t)(r->end - p)) {
            return sft__base_pb_fault(r, p, "length past the end of the message");
        }
        f->data = p;
        f->len = (size_t)len;
        p += len;
        break;
    default:
        return sft__base_pb_fault(r, f->start, "field of a wire type that is not used today");
    }
    r->at = p;
    return true;
}

/* Numbers of a repeated integer field, packed or not: call for every field of that number with `at` NULL at
 * first; true for each value. A packed field that ends inside a varint sets *fault. */
static inline bool sft__base_pb_each(const sft__base_pb_field *f, const uint8_t **at,
                                     uint64_t *value, const char **fault) {
    if (f->wire != SFT__PB_BYTES) {
        const bool first = *at == NULL;
        *at = f->start;
        *value = f->value;
        return first;
    }
    if (*at == NULL) {
        *at = f->data;
    }
    if (f->len == 0 || *at == f->data + f->len) {
        return false;
    }
    if (!sft__base_pb_varint(at, f->data + f->len, value)) {
        *fault = "bad varint in a packed field";
        return false;
    }
    return true;
}

#endif
