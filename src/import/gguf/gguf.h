/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf.h - what the reader, the writer and the dequantiser of GGUF share. Source: ggml's
 * docs/gguf.md, ggml-common.h. Read first: import.h.
 */
#ifndef SFT_IMPORT_GGUF_H
#define SFT_IMPORT_GGUF_H

#include "base/text/buf.h"
#include "import/core/import.h"

enum {
    SFT__GGUF_RANK_MAX = 4,
    SFT__GGUF_ALIGNMENT = 32,
    SFT__GGUF_ALIGNMENT_MAX = 1 << 20,
    SFT__GGUF_NAME_MAX = 63, /* of a tensor, for llama.cpp */
    SFT__GGUF_KEY_MAX = 65535
};

/* Types of metadata values. */
enum {
    SFT__GGUF_U8 = 0,
    SFT__GGUF_I8 = 1,
    SFT__GGUF_U16 = 2,
    SFT__GGUF_I16 = 3,
    SFT__GGUF_U32 = 4,
    SFT__GGUF_I32 = 5,
    SFT__GGUF_F32 = 6,
    SFT__GGUF_BOOL = 7,
    SFT__GGUF_STRING = 8,
    SFT__GGUF_ARRAY = 9,
    SFT__GGUF_U64 = 10,
    SFT__GGUF_I64 = 11,
    SFT__GGUF_F64 = 12,
    SFT__GGUF_VALUES = 13
};
const char *sft__import_gguf_value_name(uint32_t type); /* "u32" ...; NULL: no such type */
uint32_t sft__import_gguf_value_bytes(uint32_t type);   /* 0: strings and arrays */

/* One type of tensors: a plain element, or a block of many. */
typedef struct sft__import_gguf_type {
    uint32_t number;
    uint32_t elements; /* of a block */
    uint32_t bytes;    /* of a block */
    uint32_t dtype;    /* sft_dtype_id of plain ones; 0: blocks */
    const char *name;
} sft__import_gguf_type;
const sft__import_gguf_type *sft__import_gguf_type_get(uint32_t number);
const sft__import_gguf_type *sft__import_gguf_type_find(const char *name, size_t name_len);
const sft__import_gguf_type *
sft__import_gguf_type_of(uint32_t dtype); /* the plain one for an element type */

/* Keys of the catalog's metadata beside the file's own: which types the values had, and what the
 * tensors were that are given as raw blocks. Objects of JSON. */
#define SFT__GGUF_KEY_TYPES   "gguf.types"
#define SFT__GGUF_KEY_TENSORS "gguf.tensors"

/* dequant.c: blocks of a type to 32-bit floats, the argument is not used; NULL: there is no such function. */
sft__import_block_fn sft__import_dequant(uint32_t type);

#endif
