/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_numpy.c - arrays that numpy pickled: _reconstruct with a state, _frombuffer
 * (protocol 5), or joblib's objects. Their bytes stay in the file. Object arrays and records are
 * refused. Read first: torch.h.
 */
#include "base/checked.h"
#include "import/torch/torch.h"

static sft_status bad(sft_error *err, const char *text) {
    return sft__base_fail(err, SFT_E_SCHEMA, "numpy-pickle: %s", text);
}

typedef struct np_type {
    char code[3];
    uint16_t dtype;
} np_type;

static const np_type types[] = {
    {"b1", SFT_BOOL}, {"i1", SFT_I8},  {"u1", SFT_U8},  {"i2", SFT_I16}, {"u2", SFT_U16},
    {"i4", SFT_I32},  {"u4", SFT_U32}, {"i8", SFT_I64}, {"u8", SFT_U64}, {"f2", SFT_F16},
    {"f4", SFT_F32},  {"f8", SFT_F64}, {"c8", SFT_C64},
};

/* dtype('f4', False, True) with the state (version, order, ...). */
static sft_status np_dtype(const sft__import_torch *t, uint32_t id, const sft_dtype **dtype,
                           bool *swap, sft_error *err) {
    const sft__import_pk_node *call = sft__import_pk_at(t->p, id);
    const sft__import_pk_node *code =
        sft__import_pk_at(t->p, sft__import_pk_item(t->p, call->args, 0));
    const sft__import_pk_node *order =
        sft__import_pk_at(t->p, sft__import_pk_item(t->p, call->state, 1));

    *dtype = NULL;
    if (call->type != SFT__PK_CALL || call->known != SFT__G_NP_DTYPE || code->type != SFT__PK_STR) {
        return bad(err, "an array whose type is no dtype");
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (code->count == 2 && memcmp(code->u.text, types[i].code, 2) == 0) {
            *dtype = sft_dtype_get(types[i].dtype);
        }
    }
    if (code->count == 3 && memcmp(code->u.text, "c16", 3) == 0) {
        *dtype = sft__import_dtype(SFT__C128);
    }
    if (*dtype == NULL) {
        return sft__base_fail(
            err, SFT_E_UNSUPPORTED,
            "numpy-pickle: an array of the type %.20s (objects, records and text are "
            "not tensors)",
            code->u.text);
    }
    *swap = order->type == SFT__PK_STR && order->count == 1 && order->u.text[0] == '>';
    return SFT_OK;
}

/* What describes an array: nodes, and the order of its elements. */
typedef struct np_array {
    uint32_t shape;
    uint32_t dtype;
    uint32_t data;
    bool fortran;
} np_array;

/* v->dtype and v->swap are set. */
static sft_status np_place(sft__import_torch *t, const np_array *a, sft__import_view *v,
                           sft_error *err) {
    const sft__import_pk_node *bytes = sft__import_pk_at(t->p, a->data);
    uint64_t size;

    SFT_TRY(sft__import_torch_numbers(t, a->shape, "shape", &v->shape, &v->rank, err));
    SFT_TRY(sft__import_alloc(t->job, &v->strides, v->rank, sizeof *v->strides, err));
    const bool raw = bytes->type == SFT__PK_STR && bytes->known == SFT__PK_RAW;
    if (bytes->type == SFT__PK_BYTES || raw || sft__import_torch_is_no_bytes(t, bytes)) {
        v->data = t->p->source;
        v->source = t->p->source_index;
        v->low = v->first = raw                            ? sft__import_pk_place(bytes)
                            : bytes->type == SFT__PK_BYTES ? bytes->u.at
                                                           : 0;
        v->high = v->low + (raw                            ? bytes->count
                            : bytes->type == SFT__PK_BYTES ? sft__import_pk_bytes(bytes)
                                                           : 0); /* inside the stream */
    } else if ((bytes->type == SFT__PK_CALL && bytes->known == SFT__G_ENCODE) ||
               (bytes->type == SFT__PK_STR && bytes->known == SFT__PK_LATIN1)) {
        SFT_TRY(sft__import_torch_latin1(t, a->data, v, err)); /* how protocols 0 to 2 have bytes */
    } else {
        return sft__base_fail(
            err, SFT_E_UNSUPPORTED,
            "numpy-pickle: the array's data is not stored as bytes (a list of objects)");
    }
    size = v->dtype->block_bytes;
    for (uint32_t k = 0; k < v->rank; k++) {
        const uint32_t d = a->fortran ? k : v->rank - 1 - k;
        if (size > INT64_MAX) {
            return bad(err, "the size of an array overflows");
        }
        v->strides[d] = (int64_t)size;
        if (!sft__base_mul64(size, v->shape[d], &size)) {
            return bad(err, "the size of an array overflows");
        }
    }
    if (size != v->high - v->low) {
        return sft__base_fail_at(err, SFT_E_SIZE, v->low,
                                 "numpy-pickle: an array of %llu bytes has %llu bytes of data",
                                 (unsigned long long)size, (unsigned long long)(v->high - v->low));
    }
    return SFT_OK;
}

static sft_status np_fill(sft__import_torch *t, const np_array *a, sft__import_view *v,
                          sft_error *err) {
    SFT_TRY(np_dtype(t, a->dtype, &v->dtype, &v->swap, err));
    if (t->paddle && v->dtype->id == SFT_U16) {
        v->dtype = sft_dtype_get(SFT_BF16); /* Paddle has no other use for it */
    }
    return np_place(t, a, v, err);
}

/* _mareconstruct(MaskedArray, ndarray, (0,), 'b') with state (version, shape, dtype, fortran, data,
 * mask, fill value). Source: numpy/ma/core.py, MaskedArray.__getstate__. */
sft_status sft__import_torch_masked(sft__import_torch *t, const sft__import_pk_node *call,
                                    sft__import_part parts[SFT__TORCH_PARTS], size_t *count,
                                    sft_error *err) {
    const sft__import_pickle *p = t->p;
    const uint32_t state = call->state;
    const sft__import_pk_node *order = sft__import_pk_at(p, sft__import_pk_item(p, state, 3));
    const uint32_t fill = sft__import_pk_item(p, state, 6);
    np_array a = {sft__import_pk_item(p, state, 1), sft__import_pk_item(p, state, 2),
                  sft__import_pk_item(p, state, 4),
                  order->type == SFT__PK_BOOL && order->u.integer != 0};

    if (sft__import_pk_at(p, state)->type != SFT__PK_TUPLE ||
        sft__import_pk_at(p, state)->count != 7) {
        return bad(err, "a masked array without its state");
    }
    memset(parts, 0, SFT__TORCH_PARTS * sizeof *parts);
    parts[0].suffix = ".data";
    SFT_TRY(np_fill(t, &a, &parts[0].view, err));
    parts[1].suffix = ".mask";
    parts[1].view.dtype = sft_dtype_get(SFT_BOOL);
    a.data = sft__import_pk_item(p, state, 5);
    SFT_TRY(np_place(t, &a, &parts[1].view, err));
    *count = 2;
    if (sft__import_torch_is_array(t, sft__import_pk_at(p, fill))) {
        parts[2].suffix = ".fill_value";
        sft__import_torch_meet(t, fill);
        SFT_TRY(sft__import_torch_numpy(t, sft__import_pk_at(p, fill), &parts[2].view, err));
        *count = 3;
    }
    return SFT_OK;
}

/* _reconstruct(ndarray, (0,), b'b') with state (version, shape, dtype, fortran, data);
 * _frombuffer(buffer, dtype, shape, order). */
sft_status sft__import_torch_numpy(sft__import_torch *t, const sft__import_pk_node *call,
                                   sft__import_view *v, sft_error *err) {
    const sft__import_pickle *p = t->p;
    const uint32_t args = call->args;
    const uint32_t state = call->state;
    np_array a;

    memset(v, 0, sizeof *v);
    if (call->known == SFT__G_NP_FROMBUFFER) {
        a = (np_array){sft__import_pk_item(p, args, 2), sft__import_pk_item(p, args, 1),
                       sft__import_pk_item(p, args, 0),
                       sft__import_pk_is_text(p, sft__import_pk_item(p, args, 3), "F")};
        return np_fill(t, &a, v, err);
    }
    if (call->known == SFT__G_JOBLIB_ARRAY) {
        sft__import_pk_iter it = sft__import_pk_begin(call);
        a = (np_array){sft__import_pk_get(p, state, "shape"), sft__import_pk_get(p, state, "dtype"),
                       SFT__PK_NO,
                       sft__import_pk_is_text(p, sft__import_pk_get(p, state, "order"), "F")};
        (void)sft__import_pk_next(&it, &a.data); /* the machine found it behind the object */
        return np_fill(t, &a, v, err);
    }
    const sft__import_pk_node *s = sft__import_pk_at(p, state);
    if (s->type != SFT__PK_TUPLE || (s->count != 5 && s->count != 4)) {
        return bad(err, "an array without its state");
    }
    const uint32_t k = s->count - 4; /* numpy before 1.0 has no version */
    const sft__import_pk_node *order = sft__import_pk_at(p, sft__import_pk_item(p, state, k + 2));
    a = (np_array){sft__import_pk_item(p, state, k), sft__import_pk_item(p, state, k + 1),
                   sft__import_pk_item(p, state, k + 3),
                   (order->type == SFT__PK_BOOL || order->type == SFT__PK_INT) &&
                       order->u.integer != 0};
    return np_fill(t, &a, v, err);
}
