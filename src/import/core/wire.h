/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/wire.h - protobuf and other length-prefixed formats read where they lie: a small window
 * over a source, so that payloads of any size are passed over by their lengths. Knows no schema,
 * does not recurse: a message inside is a pair of offsets. The rules of the wire are those of
 * base/protobuf.h. Also: tensors whose elements lie in several runs of a file. Read first:
 * import.h.
 */
#ifndef SFT_IMPORT_WIRE_H
#define SFT_IMPORT_WIRE_H

#include "base/protobuf.h"
#include "import/core/import.h"

enum {
    SFT__WIRE_WINDOW = 8192,
    SFT__WIRE_RANK = 64,
    SFT__WIRE_SCANNED = 12 << 20 /* fields that each look at a file goes through in a scan */
};

typedef struct sft__import_wire_in {
    const sft_source *source;
    uint64_t base;
    uint64_t fields_left; /* that may still be read; UINT64_MAX, unless a scan has set it */
    size_t len;
    uint8_t window[SFT__WIRE_WINDOW];
} sft__import_wire_in;

/* A message, or what is left of one. */
typedef struct sft__import_wire {
    uint64_t at;
    uint64_t end;
} sft__import_wire;

typedef struct sft__import_wire_field {
    uint32_t number;
    uint32_t wire;  /* SFT__PB_* */
    uint64_t value; /* VARINT, FIXED64, FIXED32 */
    uint64_t at;    /* BYTES: where they begin */
    uint64_t len;
    uint64_t start; /* of the tag */
} sft__import_wire_field;

void sft__import_wire_init(sft__import_wire_in *in, const sft_source *source);
/* n bytes (at most SFT__WIRE_WINDOW) at an offset, inside the source; they stay until the next
 * call. */
sft_status sft__import_wire_bytes(sft__import_wire_in *in, uint64_t at, size_t n,
                                  const uint8_t **bytes, sft_error *err);
/* Any number of bytes at an offset, inside the source, copied; few ones come out of the window. */
sft_status sft__import_wire_copy(sft__import_wire_in *in, uint64_t at, void *dst, size_t n,
                                 sft_error *err);
/* A varint at *at, before end; moves *at behind it. SFT_E_SCHEMA. */
sft_status sft__import_wire_varint(sft__import_wire_in *in, uint64_t *at, uint64_t end,
                                   uint64_t *value, sft_error *err);
/* The next field of a message; *more false at its end. */
sft_status sft__import_wire_next(sft__import_wire_in *in, sft__import_wire *message,
                                 sft__import_wire_field *field, bool *more, sft_error *err);
/* For a loop over the fields of a message: is there another one? *status: of the last step. */
static inline bool sft__import_wire_each(sft__import_wire_in *in, sft__import_wire *message,
                                         sft__import_wire_field *field, sft_status *status,
                                         sft_error *err) {
    bool more;

    *status = sft__import_wire_next(in, message, field, &more, err);
    return *status == SFT_OK && more;
}

static inline sft__import_wire sft__import_wire_inside(const sft__import_wire_field *f) {
    const sft__import_wire m = {f->at, f->at + f->len};
    return m;
}
/* A field's bytes as text in the job's memory, NUL behind; at most `most` bytes, UTF-8 (SFT_E_UTF8,
 * SFT_E_LIMIT). */
sft_status sft__import_wire_text(sft__import_wire_in *in, sft__import *job,
                                 const sft__import_wire_field *f, size_t most, const char **text,
                                 sft_error *err);

/* A shape out of a repeated integer field, packed or not. */
typedef struct sft__import_wire_dims {
    uint64_t at[SFT__WIRE_RANK];
    uint32_t rank;
} sft__import_wire_dims;
sft_status sft__import_wire_dims_add(sft__import_wire_in *in, sft__import_wire_dims *dims,
                                     const sft__import_wire_field *f, sft_error *err);
/* Their product; false: it overflows. */
bool sft__import_wire_elements(const sft__import_wire_dims *dims, uint64_t *elements);

/* Consecutive elements of a tensor, in row-major order, at one place. */
typedef struct sft__import_run {
    uint64_t offset;
    uint64_t nbytes;
    uint32_t source;
} sft__import_run;

/* Adds a tensor (name, dtype, shape, rank are set) whose elements lie in these runs, one after the
 * other. A run that is no box of the tensor becomes several. SFT_E_SIZE: the runs are not the
 * tensor's size. */
sft_status sft__import_runs(sft__import *job, const sft_tensor *tensor, const sft__import_run *runs,
                            size_t count, sft_error *err);

#endif
