/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tensorflow/tf_slices.c - partitioned variables: the entry of the whole names its slices, and each of
 * them lies under a key that encodes name and place, so that it sorts before all names. Slices must
 * cover the variable, each element once. Sources: tensor_slice.proto, saved_tensor_slice_util.cc,
 * lib/strings/ordered_code.cc. Read first: tf.h.
 */
#include "base/checked.h"
#include "base/text/buf.h"
#include "import/tensorflow/tf.h"
#include <stdlib.h>

/* Of one variable; pairs of slices compared in all of the file. */
enum { PAIRWISE_MOST = 4096, PAIRS_MOST = 1 << 25 };

/* A slice as the whole's entry has it: full: from 0 to the end, where nothing is written. */
typedef struct extent {
    uint64_t start;
    uint64_t length;
    bool full;
} extent;

typedef struct slice {
    extent at[SFT__WIRE_RANK];
    uint32_t rank;
} slice;

static sft_status bad(const sft__import_tf_pair *pair, sft_error *err, const char *text) {
    return sft__base_fail_tensor(err, SFT_E_SCHEMA, pair->at, (const char *)pair->key,
                                 pair->key_len, "tf-slice: %s", text);
}

/* ---------------------------------------------------------------- slices that are stored */

sft_status sft__import_tf_slice_keep(sft__import_tf *tf, const sft__import_tf_pair *pair,
                                     const sft__import_tf_entry *e, sft_error *err) {
    uint64_t *dims;
    char *key;

    if (tf->mapped || e->slices != NULL) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, pair->at, "tf-slice: a slice of slices");
    }
    if (!sft__base_grow(tf->job->allocator, &tf->slices, &tf->slice_room, tf->slice_count + 1,
                        sizeof *tf->slices)) {
        return sft__base_fail_nomem(err, tf->slice_count * sizeof *tf->slices);
    }
    if (tf->slice_room * sizeof *tf->slices > tf->job->options.memory_bytes / 4) {
        return sft__base_fail(err, SFT_E_LIMIT, "memory: %zu slices in one checkpoint",
                              tf->slice_count);
    }
    SFT_TRY(sft__import_copy(tf->job, &key, pair->key, pair->key_len, err));
    SFT_TRY(sft__import_alloc(tf->job, &dims, e->dims.rank, sizeof *dims, err));
    memcpy(dims, e->dims.at, e->dims.rank * sizeof *dims);
    tf->slices[tf->slice_count++] = (sft__import_tf_slice){.key = key,
                                                           .key_len = pair->key_len,
                                                           .dims = dims,
                                                           .dtype = e->dtype,
                                                           .place = e->place,
                                                           .at = e->at,
                                                           .crc = e->crc,
                                                           .rank = e->dims.rank};
    return SFT_OK;
}

/* Their keys begin with 0 and so come before all names: now all are known. */
static sft_status map_slices(sft__import_tf *tf, sft_error *err) {
    if (tf->mapped) {
        return SFT_OK;
    }
    if (!sft__base_strmap_init(&tf->map, tf->slices, sizeof *tf->slices, tf->slice_count,
                               tf->job->allocator)) {
        return sft__base_fail_nomem(err, tf->slice_count * 16);
    }
    tf->mapped = true;
    for (size_t i = 0; i < tf->slice_count; i++) {
        (void)sft__base_strmap_add(&tf->map, i); /* keys of a table ascend: none is there twice */
    }
    return SFT_OK;
}

sft_status sft__import_tf_slices_end(sft__import_tf *tf, sft_error *err) {
    for (size_t i = 0; i < tf->slice_count; i++) {
        if (!tf->slices[i].used) {
            return sft__import_trick(tf->job, SFT_FINDING_CONTAINER, SFT_SCAN_UNKNOWN, "",
                                     "tf-slice", tf->slices[i].at, err,
                                     "a slice that belongs to no variable");
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- their keys */

/* As ordered_code.cc writes unsigned numbers: length, then the bytes, highest first. */
static void put_number(sft__base_buf *b, uint64_t value) {
    uint8_t bytes[9];
    size_t n = 0;

    for (uint64_t v = value; v != 0; v >>= 8) {
        n++;
    }
    bytes[0] = (uint8_t)n;
    for (size_t i = 0; i < n; i++) {
        bytes[1 + i] = (uint8_t)(value >> (8 * (n - 1 - i)));
    }
    sft__base_buf_add(b, bytes, n + 1);
}

/* ... and signed ones that are not negative, or -1: as many leading ones as bytes, a sign bit, the
 * value. */
static void put_signed(sft__base_buf *b, uint64_t value, bool minus_one) {
    uint8_t bytes[10] = {0, 0};
    unsigned len = 1;

    if (minus_one) {
        bytes[0] = 0x7f;
        sft__base_buf_add(b, bytes, 1);
        return;
    }
    while (len < 10 && value >> (7 * len - 1) != 0) {
        len++;
    }
    for (unsigned i = 0; i < 8; i++) {
        bytes[2 + i] = (uint8_t)(value >> (56 - 8 * i));
    }
    uint8_t *begin = bytes + sizeof bytes - len;
    const unsigned header = len < 8 ? 0xff00u >> len & 0xffu : 0xffu;
    begin[0] = (uint8_t)(begin[0] ^ header);
    if (len > 8) {
        begin[1] = (uint8_t)(begin[1] ^ (len == 9 ? 0x80u : 0xc0u));
    }
    sft__base_buf_add(b, begin, len);
}

static void put_name(sft__base_buf *b, const uint8_t *name, size_t len) {
    size_t from = 0;

    for (size_t i = 0; i < len; i++) {
        if (name[i] != 0 && name[i] != 0xff) {
            continue;
        }
        sft__base_buf_add(b, name + from, i - from);
        sft__base_buf_add(b, name[i] == 0 ? "\0\xff" : "\xff\0", 2);
        from = i + 1;
    }
    sft__base_buf_add(b, name + from, len - from);
    sft__base_buf_add(b, "\0\1", 2);
}

static void put_key(sft__base_buf *b, const sft__import_tf_pair *pair, const slice *s) {
    b->len = 0;
    put_number(b, 0);
    put_name(b, pair->key, pair->key_len);
    put_number(b, s->rank);
    for (uint32_t d = 0; d < s->rank; d++) {
        put_signed(b, s->at[d].start, false);
        put_signed(b, s->at[d].length, s->at[d].full);
    }
}

/* ---------------------------------------------------------------- one slice */

/* TensorSliceProto: an extent for each dimension. */
static bool read_slice(const sft__base_pb_field *field, slice *s) {
    sft__base_pb m = sft__base_pb_over(field->data, field->len);
    sft__base_pb_field f;
    sft__base_pb_field e;

    s->rank = 0;
    while (sft__base_pb_next(&m, &f)) {
        if (f.number != 1) {
            continue;
        }
        if (f.wire != SFT__PB_BYTES || s->rank == SFT__WIRE_RANK) {
            return false;
        }
        extent *x = &s->at[s->rank++];
        *x = (extent){0, 0, true};
        sft__base_pb inside = sft__base_pb_over(f.data, f.len);
        while (sft__base_pb_next(&inside, &e)) {
            x->start = e.number == 1 ? e.value : x->start;
            x->length = e.number == 2 ? e.value : x->length;
            x->full = x->full && e.number != 2;
        }
        if (inside.fault != NULL || x->start > INT64_MAX || x->length > INT64_MAX ||
            (x->full && x->start != 0)) {
            return false;
        }
    }
    return m.fault == NULL;
}

/* The box of a slice; *elements of it. */
static sft_status box_of(const sft__import_tf_pair *pair, const sft_tensor *t, const slice *s,
                         uint64_t *start, uint64_t *count, uint64_t *elements, sft_error *err) {
    *elements = 1;
    if (s->rank != t->rank) {
        return bad(pair, err, "a slice of another number of dimensions");
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        const extent *x = &s->at[d];
        if (x->start > t->shape[d] || x->length > t->shape[d] - x->start) {
            return bad(pair, err, "a slice that leaves the variable");
        }
        start[d] = x->start;
        count[d] = x->full ? t->shape[d] : x->length;
        *elements *= count[d]; /* at most the variable's, whose size is known to fit, or 0 */
    }
    return SFT_OK;
}

static sft_status find_slice(sft__import_tf *tf, const sft__import_tf_pair *pair,
                             const sft_tensor *t, sft__base_buf *key, const sft_piece *p,
                             uint64_t elements, sft__import_tf_slice **out, sft_error *err) {
    uint64_t need = 0;

    if (key->failed) {
        return sft__base_fail_nomem(err, key->len);
    }
    const size_t i = sft__base_strmap_find(&tf->map, key->data, key->len);
    if (i == SFT__STRMAP_NONE) {
        return bad(pair, err, "a slice that is not in the checkpoint");
    }
    sft__import_tf_slice *s = &tf->slices[i];
    if (s->used) {
        return bad(pair, err, "a slice that is named twice");
    }
    if (s->dtype != t->dtype || s->rank != t->rank ||
        (t->rank != 0 && memcmp(s->dims, p->count, t->rank * sizeof *s->dims) != 0)) {
        return bad(pair, err, "a slice of another shape or type than it has in the variable");
    }
    if (sft_dtype_bytes(t->dtype, elements, &need, NULL) != SFT_OK || s->place.size != need) {
        return bad(pair, err, "a slice of another size than its shape needs");
    }
    s->used = true;
    *out = s;
    return SFT_OK;
}

/* ---------------------------------------------------------------- all of them */

typedef struct boxes {
    sft_piece *pieces;
    uint64_t *numbers; /* 2 * rank of each */
    uint32_t count;
    uint32_t rank;
} boxes;

/* First by the first dimension's start, then by the next one's. The rank is behind each piece's
 * start and count; qsort has no context. */
static int by_start(const void *a, const void *b) {
    const sft_piece *x = a;
    const sft_piece *y = b;
    const size_t rank = (size_t)(x->count - x->start);

    for (size_t d = 0; d < rank; d++) {
        if (x->start[d] != y->start[d]) {
            return x->start[d] < y->start[d] ? -1 : 1;
        }
    }
    return 0;
}

static bool meet(const sft_piece *x, const sft_piece *y, uint32_t rank) {
    for (uint32_t d = 0; d < rank; d++) {
        if (x->start[d] >= y->start[d] + y->count[d] || y->start[d] >= x->start[d] + x->count[d]) {
            return false;
        }
    }
    return true;
}

/* Boxes that differ in one dimension alone: then sorted neighbours are all that can meet. */
static bool are_rows(const boxes *b, const sft_tensor *t) {
    uint32_t cut = 0;

    for (uint32_t d = 0; d < b->rank; d++) {
        for (uint32_t i = 0; i < b->count; i++) {
            if (b->pieces[i].count[d] != t->shape[d]) {
                cut++;
                break;
            }
        }
    }
    return cut <= 1;
}

static sft_status check_boxes(sft__import_tf *tf, const sft__import_tf_pair *pair, const boxes *b,
                              const sft_tensor *t, sft_error *err) {
    const bool rows = are_rows(b, t);

    if (!rows && b->count > PAIRWISE_MOST) {
        return sft__base_fail_tensor(
            err, SFT_E_LIMIT, pair->at, t->name, t->name_len,
            "tf-slice: %u slices cut in several dimensions, %d are the limit", (unsigned)b->count,
            (int)PAIRWISE_MOST);
    }
    for (uint32_t i = 0; i < b->count; i++) { /* sorted: of those behind it, the first ones */
        const uint64_t end =
            b->rank == 0 ? UINT64_MAX : b->pieces[i].start[0] + b->pieces[i].count[0];
        const uint32_t last = rows && i + 2 < b->count ? i + 2 : b->count;
        for (uint32_t k = i + 1; k < last && (b->rank == 0 || b->pieces[k].start[0] < end); k++) {
            if (tf->pairs++ == PAIRS_MOST) {
                return sft__base_fail_tensor(err, SFT_E_LIMIT, pair->at, t->name, t->name_len,
                                             "tf-slice: too many slices cut in several dimensions");
            }
            if (meet(&b->pieces[i], &b->pieces[k], b->rank)) {
                return bad(pair, err, "two slices that share elements");
            }
        }
    }
    return SFT_OK;
}

static sft_status add_slice(sft__import_tf *tf, const sft__import_tf_pair *pair,
                            const sft_tensor *t, const slice *s, sft__base_buf *key, boxes *b,
                            uint64_t *covered, sft_error *err) {
    uint64_t *start = b->numbers + (size_t)b->count * 2 * b->rank;
    sft_piece *p = &b->pieces[b->count];
    sft__import_tf_slice *stored = NULL;
    uint64_t elements;

    memset(p, 0, sizeof *p);
    p->start = start;
    p->count = start + b->rank;
    SFT_TRY(box_of(pair, t, s, start, start + b->rank, &elements, err));
    put_key(key, pair, s);
    SFT_TRY(find_slice(tf, pair, t, key, p, elements, &stored, err));
    SFT_TRY(sft__import_tf_data(tf, t->dtype, &stored->place, stored->crc, t->name, t->name_len, p,
                                err));
    b->count += elements != 0;
    return sft__base_add64(*covered, elements, covered)
               ? SFT_OK
               : bad(pair, err, "slices that share elements");
}

static sft_status add_slices(sft__import_tf *tf, const sft__import_tf_pair *pair,
                             const sft__import_tf_entry *e, sft_tensor *t, sft__base_buf *key,
                             sft_error *err) {
    sft__base_pb m =
        sft__base_pb_over(e->slices, (size_t)(pair->value + pair->value_len - e->slices));
    boxes b = {NULL, NULL, 0, t->rank};
    uint64_t elements = 1;
    uint64_t covered = 0;
    sft__base_pb_field f;
    slice s;

    const size_t most = (size_t)e->slice_count; /* each has bytes of a block in memory */
    SFT_TRY(sft__import_alloc(tf->job, &b.pieces, most, sizeof *b.pieces, err));
    SFT_TRY(sft__import_alloc(tf->job, &b.numbers, most, 2 * sizeof *b.numbers * t->rank, err));
    while (sft__base_pb_next(&m, &f)) {
        if (f.number != 7) {
            continue;
        }
        if (!read_slice(&f, &s)) {
            return bad(pair, err, "a slice that cannot be read");
        }
        SFT_TRY(add_slice(tf, pair, t, &s, key, &b, &covered, err));
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        elements *= t->shape[d];
    }
    if (covered != elements) {
        return sft__base_fail_tensor(err, SFT_E_HOLE, pair->at, t->name, t->name_len,
                                     "tf-slice: slices of %llu elements, the variable has %llu",
                                     (unsigned long long)covered, (unsigned long long)elements);
    }
    if (b.count > 1) {
        qsort(b.pieces, b.count, sizeof *b.pieces, by_start);
    }
    SFT_TRY(check_boxes(tf, pair, &b, t, err));
    if (b.count <= 1) { /* the whole, or nothing at all: then any place will do */
        b.pieces[0].start = NULL;
        b.pieces[0].count = NULL;
        b.count = 1;
    }
    t->pieces = b.pieces;
    t->piece_count = b.count;
    return sft__import_tensor(tf->job, t, err);
}

sft_status sft__import_tf_slices(sft__import_tf *tf, const sft__import_tf_pair *pair,
                                 const sft__import_tf_entry *e, sft_tensor *t, sft_error *err) {
    sft__base_buf key;

    SFT_TRY(map_slices(tf, err));
    sft__base_buf_init(&key, tf->job->allocator);
    const sft_status status = add_slices(tf, pair, e, t, &key, err);
    sft__base_buf_reset(&key);
    return status;
}
