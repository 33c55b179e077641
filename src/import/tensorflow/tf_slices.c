/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tensorflow/tf_slices.c - partitioned variables: the entry of the whole names its slices, and each of
 * them lies under a key that encodes name and place, so that it sorts before all names. Slices must
 * cover the variable, each element once. Sources: tensor_slice.proto, saved_tensor_slice_util.cc,
 * lib/strings/ordered_code.cc. Read first: tf.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
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
    SFT_TRY(SFT_ONE_MORE(tf->job->allocator, tf->slices, tf->slice_room, tf->slice_count, err));
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
    SFT_NEED(sft__base_strmap_init(&tf->map, tf->slices, sizeof *tf->slices, tf->slice_count,
                                   tf->job->allocator),
             tf->slice_count * 16, err);
    tf->mapped = true;
    for (size_t i = 0; i < tf->slice_count; i++) {
        (void)sft__base_strmap_add(&tf->map, i); /* keys of a table ascend: none is there twice */
    }
    return SFT_OK;
}

sft_status sft__import_tf_slices_end(sft__import_tf *tf, sft_error *err) {
    for (size_t i = 0; i < tf->slice_count; i++) {
        if (!tf->slices[i].used) {
            return sft__import_trick(tf->job, SFT__RULE(CONTAINER, UNKNOWN, "tf-slice"),
                                     SFT__AT("", 0, tf->slices[i].at), err,
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

/* The box of a slice: start, then count; *elements of it. */
static sft_status box_of(const sft__import_tf_pair *pair, const sft_tensor *t, const slice *s,
                         uint64_t *box, uint64_t *elements, sft_error *err) {
    *elements = 1;
    if (s->rank != t->rank) {
        return bad(pair, err, "a slice of another number of dimensions");
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        const extent *x = &s->at[d];
        if (x->start > t->shape[d] || x->length > t->shape[d] - x->start) {
            return bad(pair, err, "a slice that leaves the variable");
        }
        box[d] = x->start;
        box[t->rank + d] = x->full ? t->shape[d] : x->length;
        *elements *=
            box[t->rank + d]; /* at most the variable's, whose size is known to fit, or 0 */
    }
    return SFT_OK;
}

/* A variable that is put together from its slices. */
typedef struct variable {
    sft__import_tf *tf;
    const sft__import_tf_pair *pair;
    sft_tensor *t;
    sft__base_buf key; /* of a slice */
    sft_piece *pieces;
    uint64_t *numbers; /* 2 * rank of each */
    uint32_t count;
    uint64_t covered; /* elements */
} variable;

static sft_status find_slice(variable *v, const sft_piece *p, uint64_t elements,
                             sft__import_tf_slice **out, sft_error *err) {
    const sft__import_tf_pair *pair = v->pair;
    const sft_tensor *t = v->t;
    uint64_t need = 0;

    SFT_NEED(!v->key.failed, v->key.len, err);
    const size_t i = sft__base_strmap_find(&v->tf->map, v->key.data, v->key.len);
    if (i == SFT__STRMAP_NONE) {
        return bad(pair, err, "a slice that is not in the checkpoint");
    }
    sft__import_tf_slice *s = &v->tf->slices[i];
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
static bool are_rows(const variable *v) {
    uint32_t cut = 0;

    for (uint32_t d = 0; d < v->t->rank; d++) {
        for (uint32_t i = 0; i < v->count; i++) {
            if (v->pieces[i].count[d] != v->t->shape[d]) {
                cut++;
                break;
            }
        }
    }
    return cut <= 1;
}

static sft_status check_boxes(const variable *v, sft_error *err) {
    const sft_tensor *t = v->t;
    const bool rows = are_rows(v);

    if (!rows && v->count > PAIRWISE_MOST) {
        return sft__base_fail_tensor(
            err, SFT_E_LIMIT, v->pair->at, t->name, t->name_len,
            "tf-slice: %u slices cut in several dimensions, %d are the limit", (unsigned)v->count,
            (int)PAIRWISE_MOST);
    }
    for (uint32_t i = 0; i < v->count; i++) { /* sorted: of those behind it, the first ones */
        const uint64_t end =
            t->rank == 0 ? UINT64_MAX : v->pieces[i].start[0] + v->pieces[i].count[0];
        const uint32_t last = rows && i + 2 < v->count ? i + 2 : v->count;
        for (uint32_t k = i + 1; k < last && (t->rank == 0 || v->pieces[k].start[0] < end); k++) {
            if (v->tf->pairs++ == PAIRS_MOST) {
                return sft__base_fail_tensor(err, SFT_E_LIMIT, v->pair->at, t->name, t->name_len,
                                             "tf-slice: too many slices cut in several dimensions");
            }
            if (meet(&v->pieces[i], &v->pieces[k], t->rank)) {
                return bad(v->pair, err, "two slices that share elements");
            }
        }
    }
    return SFT_OK;
}

static sft_status add_slice(variable *v, const slice *s, sft_error *err) {
    const uint32_t rank = v->t->rank;
    uint64_t *box = v->numbers + (size_t)v->count * 2 * rank;
    sft_piece *p = &v->pieces[v->count];
    sft__import_tf_slice *stored = NULL;
    uint64_t elements;

    *p = (sft_piece){.start = box, .count = box + rank};
    SFT_TRY(box_of(v->pair, v->t, s, box, &elements, err));
    put_key(&v->key, v->pair, s);
    SFT_TRY(find_slice(v, p, elements, &stored, err));
    SFT_TRY(sft__import_tf_data(v->tf, v->t, &stored->place, stored->crc, p, err));
    v->count += elements != 0;
    return sft__base_add64(v->covered, elements, &v->covered)
               ? SFT_OK
               : bad(v->pair, err, "slices that share elements");
}

static sft_status add_slices(variable *v, const sft__import_tf_entry *e, sft_error *err) {
    const sft__import_tf_pair *pair = v->pair;
    sft_tensor *t = v->t;
    sft__base_pb m =
        sft__base_pb_over(e->slices, (size_t)(pair->value + pair->value_len - e->slices));
    uint64_t elements = 1;
    sft__base_pb_field f;
    slice s;

    const size_t most = (size_t)e->slice_count; /* each has bytes of a block in memory */
    SFT_TRY(sft__import_alloc(v->tf->job, &v->pieces, most, sizeof *v->pieces, err));
    SFT_TRY(
        sft__import_alloc(v->tf->job, &v->numbers, most, 2 * sizeof *v->numbers * t->rank, err));
    while (sft__base_pb_next(&m, &f)) {
        if (f.number != 7) {
            continue;
        }
        if (!read_slice(&f, &s)) {
            return bad(pair, err, "a slice that cannot be read");
        }
        SFT_TRY(add_slice(v, &s, err));
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        elements *= t->shape[d];
    }
    if (v->covered != elements) {
        return sft__base_fail_tensor(err, SFT_E_HOLE, pair->at, t->name, t->name_len,
                                     "tf-slice: slices of %llu elements, the variable has %llu",
                                     (unsigned long long)v->covered, (unsigned long long)elements);
    }
    if (v->count > 1) {
        qsort(v->pieces, v->count, sizeof *v->pieces, by_start);
    }
    SFT_TRY(check_boxes(v, err));
    if (v->count <= 1) { /* the whole, or nothing at all: then any place will do */
        v->pieces[0].start = NULL;
        v->pieces[0].count = NULL;
        v->count = 1;
    }
    t->pieces = v->pieces;
    t->piece_count = v->count;
    return sft__import_tensor(v->tf->job, t, err);
}

sft_status sft__import_tf_slices(sft__import_tf *tf, const sft__import_tf_pair *pair,
                                 const sft__import_tf_entry *e, sft_tensor *t, sft_error *err) {
    variable v = {.tf = tf, .pair = pair, .t = t};

    SFT_TRY(map_slices(tf, err));
    sft__base_buf_init(&v.key, tf->job->allocator);
    const sft_status status = add_slices(&v, e, err);
    sft__base_buf_reset(&v.key);
    return status;
}
