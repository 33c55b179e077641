/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/torch_put.c - what a pickle of PyTorch's consists of: numbers, texts, and tensors, which are
 * calls that rebuild them from a storage. Source: torch/_utils.py. Read first: torch_write.h.
 */
#include "import/write/torch_write.h"
#include <stdio.h>

/* What the elements are called: a storage class, or a dtype over an untyped storage. */
typedef struct torch_type {
    uint32_t id;
    const char *storage; /* NULL: there is none */
    const char *dtype;
} torch_type;

static const torch_type types[] = {
    {SFT_F64, "DoubleStorage", "float64"},
    {SFT_F32, "FloatStorage", "float32"},
    {SFT_F16, "HalfStorage", "float16"},
    {SFT_BF16, "BFloat16Storage", "bfloat16"},
    {SFT_I64, "LongStorage", "int64"},
    {SFT_I32, "IntStorage", "int32"},
    {SFT_I16, "ShortStorage", "int16"},
    {SFT_I8, "CharStorage", "int8"},
    {SFT_U8, "ByteStorage", "uint8"},
    {SFT_BOOL, "BoolStorage", "bool"},
    {SFT_C64, "ComplexFloatStorage", "complex64"},
    {SFT__C128, "ComplexDoubleStorage", "complex128"},
    {SFT__C32, NULL, "complex32"},
    {SFT_U16, NULL, "uint16"},
    {SFT_U32, NULL, "uint32"},
    {SFT_U64, NULL, "uint64"},
    {SFT_F8_E5M2, NULL, "float8_e5m2"},
    {SFT_F8_E4M3, NULL, "float8_e4m3fn"},
    {SFT_F8_E8M0, NULL, "float8_e8m0fnu"},
    {SFT_F8_E4M3FNUZ, NULL, "float8_e4m3fnuz"},
    {SFT_F8_E5M2FNUZ, NULL, "float8_e5m2fnuz"},
    {SFT_F4, NULL, "float4_e2m1fn_x2"},
};

static const torch_type *type_of(const sft_dtype *dtype) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].id == dtype->id) {
            return &types[i];
        }
    }
    return NULL;
}

/* float4_e2m1fn_x2 counts pairs. */
static uint64_t per_unit(const sft_import_item *item) {
    return item->dtype->id == SFT_F4 ? 2 : 1;
}

bool sft__import_put_has_type(const sft_dtype *dtype) {
    return type_of(dtype) != NULL;
}

void sft__import_put_byte(sft__base_buf *b, uint8_t op) {
    sft__base_buf_add(b, &op, 1);
}

void sft__import_put_le32(sft__base_buf *b, uint32_t v) {
    uint8_t bytes[4];
    sft__base_store_le32(bytes, v);
    sft__base_buf_add(b, bytes, sizeof bytes);
}

void sft__import_put_text(sft__base_buf *b, const char *text, size_t len) {
    sft__import_put_byte(b, 'X'); /* BINUNICODE */
    sft__import_put_le32(b, (uint32_t)len);
    sft__base_buf_add(b, text, len);
}

void sft__import_put_int(sft__base_buf *b, int64_t v) {
    uint8_t bytes[8];

    if (v >= 0 && v < 256) {
        sft__import_put_byte(b, 'K'); /* BININT1 */
        sft__import_put_byte(b, (uint8_t)v);
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        sft__import_put_byte(b, 'J'); /* BININT */
        sft__import_put_le32(b, (uint32_t)(int32_t)v);
    } else {
        sft__import_put_byte(b, 0x8a); /* LONG1 */
        sft__import_put_byte(b, sizeof bytes);
        sft__base_store_le64(bytes, (uint64_t)v);
        sft__base_buf_add(b, bytes, sizeof bytes);
    }
}

static uint32_t remember(sft__import_torch_writer *t) {
    sft__import_put_byte(&t->pickle, 'r'); /* LONG_BINPUT */
    sft__import_put_le32(&t->pickle, ++t->memo);
    return t->memo;
}

static void recall(sft__import_torch_writer *t, uint32_t memo) {
    sft__import_put_byte(&t->pickle, 'j'); /* LONG_BINGET */
    sft__import_put_le32(&t->pickle, memo);
}

enum { REBUILD_V2 = 0, REBUILD_V3 = 1, ORDERED_DICT = 2, STORAGE = 3, CPU = 4 };

/* One of what every tensor needs: written once, then recalled. */
static void put_kept(sft__import_torch_writer *t, int which) {
    static const char *const words[] = {"ctorch._utils\n_rebuild_tensor_v2\n",
                                        "ctorch._utils\n_rebuild_tensor_v3\n",
                                        "ccollections\nOrderedDict\n", "storage", "cpu"};
    if (t->kept[which] != 0) {
        recall(t, t->kept[which]);
        return;
    }
    if (which < STORAGE) {
        sft__base_buf_text(&t->pickle, words[which]);
    } else {
        sft__import_put_text(&t->pickle, words[which], strlen(words[which]));
    }
    t->kept[which] = remember(t);
}

void sft__import_put_ordered_dict(sft__import_torch_writer *t) {
    put_kept(t, ORDERED_DICT);
    sft__base_buf_text(&t->pickle, ")R"); /* EMPTY_TUPLE REDUCE */
}

/* ('storage', class, key, 'cpu', elements) as a persistent id */
static void put_storage(sft__import_torch_writer *t, size_t index, const torch_type *type) {
    const sft_import_item *item = &t->job->c.items[index];
    const bool typed = type->storage != NULL && t->untyped[index] == 0;
    sft__base_buf *b = &t->pickle;
    char key[24];
    const int n = snprintf(key, sizeof key, "%zu", index);

    sft__import_put_byte(b, '(');
    put_kept(t, STORAGE);
    if (typed) {
        sft__base_buf_text(b, "ctorch\n");
        sft__base_buf_text(b, type->storage);
        sft__base_buf_text(b, "\n");
    } else {
        sft__base_buf_text(b, "ctorch.storage\nUntypedStorage\n");
    }
    sft__import_put_text(b, key, (size_t)n);
    put_kept(t, CPU);
    sft__import_put_int(b,
                        (int64_t)(typed ? item->nbytes / item->dtype->block_bytes : item->nbytes));
    sft__base_buf_text(b, "tQ"); /* TUPLE BINPERSID */
}

/* Strides and offset, in elements as torch counts them. */
static sft_status place_of(sft__import_torch_writer *t, const sft__import_called *c,
                           uint64_t **strides, uint64_t *offset, sft_error *err) {
    const sft_import_item *item = &t->job->c.items[c->item];
    const sft_tensor *tensor = c->part != NULL ? c->part : item->tensor;
    const sft_piece *piece = c->part != NULL ? &c->part->pieces[0] : NULL;
    const uint64_t pairs = per_unit(item);
    const uint32_t rank = tensor->rank;
    uint64_t stride = 1;

    SFT_TRY(sft__import_export_alloc(t->job, strides, rank, sizeof **strides, err));
    for (uint32_t d = rank; d-- > 0;) { /* no overflow unless empty: then any stride will do */
        (*strides)[d] = stride > INT64_MAX ? 1 : stride;
        stride *= d + 1 == rank ? tensor->shape[d] / pairs : tensor->shape[d];
        stride = stride == 0 ? 1 : stride;
        if (piece != NULL && piece->strides != NULL) {
            (*strides)[d] = (uint64_t)piece->strides[d] / tensor->dtype->block_bytes;
        }
    }
    *offset = piece != NULL && tensor->nbytes != 0
                  ? (piece->offset - item->tensor->pieces[0].offset) / tensor->dtype->block_bytes
                  : 0;
    return SFT_OK;
}

sft_status sft__import_put_tensor(sft__import_torch_writer *t, sft__import_called *c,
                                  sft_error *err) {
    const sft_import_item *item = &t->job->c.items[c->item];
    const sft_tensor *tensor = c->part != NULL ? c->part : item->tensor;
    const torch_type *type = type_of(c->part != NULL ? tensor->dtype : item->dtype);
    const bool typed = type != NULL && type->storage != NULL && t->untyped[c->item] == 0;
    const uint64_t pairs = per_unit(item);
    sft__base_buf *b = &t->pickle;
    uint64_t *strides;
    uint64_t offset;

    if (c->memo != 0) {
        recall(t, c->memo);
        return SFT_OK;
    }
    if (type == NULL) {
        return sft__base_fail_tensor(err, SFT_E_UNSUPPORTED, SFT_NO_OFFSET, c->name, c->len,
                                     "PyTorch has no type %s: leave it out", tensor->dtype->name);
    }
    SFT_TRY(place_of(t, c, &strides, &offset, err));
    put_kept(t, typed ? REBUILD_V2 : REBUILD_V3);
    sft__import_put_byte(b, '(');
    put_storage(t, c->item, type);
    sft__import_put_int(b, (int64_t)offset);
    sft__import_put_byte(b, '(');
    for (uint32_t d = 0; d < tensor->rank; d++) {
        sft__import_put_int(
            b, (int64_t)(d + 1 == tensor->rank ? tensor->shape[d] / pairs : tensor->shape[d]));
    }
    sft__base_buf_text(b, "t(");
    for (uint32_t d = 0; d < tensor->rank; d++) {
        sft__import_put_int(b, (int64_t)strides[d]);
    }
    sft__import_put_byte(b, 't');
    sft__import_put_byte(b, 0x89); /* requires_grad False */
    sft__import_put_ordered_dict(t);
    if (!typed) {
        sft__base_buf_text(b, "ctorch\n");
        sft__base_buf_text(b, type->dtype);
        sft__base_buf_text(b, "\n");
    }
    sft__base_buf_text(b, "tR");
    c->memo = remember(t);
    return SFT_OK;
}
