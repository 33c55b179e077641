/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/dtype.h - element types. The 22 of the format are rows of one table; readers of other formats may
 * hand out descriptors of their own (ids from 1,000), readable but not writable as safetensors.
 * All functions are pure and thread-safe. Source: safetensors format, dtype list of the reference 0.8.
 */
#ifndef SFT_DTYPE_H
#define SFT_DTYPE_H

#include <sft/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sft_dtype_kind {
    SFT_KIND_BOOL = 1,
    SFT_KIND_UINT = 2,
    SFT_KIND_INT = 3,
    SFT_KIND_FLOAT = 4,
    SFT_KIND_COMPLEX = 5,
    SFT_KIND_OPAQUE = 6 /* blocks that only their reader understands */
} sft_dtype_kind;

/* X(id, number, name, kind, block elements, block bytes, alignment in bytes of one natural element).
 * Order = the reference's enum order (ascending alignment); its writer sorts by it, descending. */
#define SFT_DTYPE_MAP(X)                                                                           \
    X(SFT_BOOL, 1, "BOOL", SFT_KIND_BOOL, 1, 1, 1)                                                 \
    X(SFT_F4, 2, "F4", SFT_KIND_FLOAT, 2, 1, 1)                                                    \
    X(SFT_F6_E2M3, 3, "F6_E2M3", SFT_KIND_FLOAT, 4, 3, 1)                                          \
    X(SFT_F6_E3M2, 4, "F6_E3M2", SFT_KIND_FLOAT, 4, 3, 1)                                          \
    X(SFT_U8, 5, "U8", SFT_KIND_UINT, 1, 1, 1)                                                     \
    X(SFT_I8, 6, "I8", SFT_KIND_INT, 1, 1, 1)                                                      \
    X(SFT_F8_E5M2, 7, "F8_E5M2", SFT_KIND_FLOAT, 1, 1, 1)                                          \
    X(SFT_F8_E4M3, 8, "F8_E4M3", SFT_KIND_FLOAT, 1, 1, 1)                                          \
    X(SFT_F8_E8M0, 9, "F8_E8M0", SFT_KIND_FLOAT, 1, 1, 1)                                          \
    X(SFT_F8_E4M3FNUZ, 10, "F8_E4M3FNUZ", SFT_KIND_FLOAT, 1, 1, 1)                                 \
    X(SFT_F8_E5M2FNUZ, 11, "F8_E5M2FNUZ", SFT_KIND_FLOAT, 1, 1, 1)                                 \
    X(SFT_I16, 12, "I16", SFT_KIND_INT, 1, 2, 2)                                                   \
    X(SFT_U16, 13, "U16", SFT_KIND_UINT, 1, 2, 2)                                                  \
    X(SFT_F16, 14, "F16", SFT_KIND_FLOAT, 1, 2, 2)                                                 \
    X(SFT_BF16, 15, "BF16", SFT_KIND_FLOAT, 1, 2, 2)                                               \
    X(SFT_I32, 16, "I32", SFT_KIND_INT, 1, 4, 4)                                                   \
    X(SFT_U32, 17, "U32", SFT_KIND_UINT, 1, 4, 4)                                                  \
    X(SFT_F32, 18, "F32", SFT_KIND_FLOAT, 1, 4, 4)                                                 \
    X(SFT_C64, 19, "C64", SFT_KIND_COMPLEX, 1, 8, 4)                                               \
    X(SFT_F64, 20, "F64", SFT_KIND_FLOAT, 1, 8, 8)                                                 \
    X(SFT_I64, 21, "I64", SFT_KIND_INT, 1, 8, 8)                                                   \
    X(SFT_U64, 22, "U64", SFT_KIND_UINT, 1, 8, 8)

typedef enum sft_dtype_id {
#define SFT_DTYPE_ENUM(id, number, name, kind, elements, bytes, align) id = number,
    SFT_DTYPE_MAP(SFT_DTYPE_ENUM)
#undef SFT_DTYPE_ENUM
        SFT_DTYPE_FORCE_32BIT = 0x7fffffff
} sft_dtype_id;
#define SFT_DTYPE_COUNT 22

/* A type whose elements lie in blocks of `block_elements` elements that take `block_bytes` bytes.
 * Elements inside a block are packed from the least significant bit up. Compare descriptors by id. */
typedef struct sft_dtype {
    uint32_t id;             /* sft_dtype_id, or >= 1,000 for types of other formats */
    uint32_t kind;           /* sft_dtype_kind */
    uint32_t block_elements; /* >= 1 */
    uint32_t block_bytes;    /* >= 1 */
    uint32_t alignment;      /* bytes, natural alignment of the C type */
    uint32_t reserved;
    const char *name; /* as in the file, NUL-terminated */
} sft_dtype;

/* The row for an id of the format, or NULL. Static storage. O(1). */
SFT_API const sft_dtype *sft_dtype_get(uint32_t id);

/* The row whose name is exactly these bytes (case matters, as in the format), or NULL. O(1). */
SFT_API const sft_dtype *sft_dtype_find(const char *name, size_t name_len);

/* Bits of one element, 0 if block_bytes * 8 is no multiple of block_elements. */
SFT_API uint32_t sft_dtype_bits(const sft_dtype *dtype);

/* Bytes of `elements` elements packed. SFT_E_OVERFLOW, SFT_E_SUBBYTE if they end inside a byte. */
SFT_API SFT_MUST_CHECK sft_status sft_dtype_bytes(const sft_dtype *dtype, uint64_t elements,
                                                  uint64_t *bytes, sft_error *err);

/* Converts `count` packed elements. src and dst may be equal when sizes are equal, else must not overlap.
 * Conversions follow torch's Tensor.to(): float to float rounds to nearest even; float to integer
 * truncates toward zero; integers wrap; anything to BOOL is "!= 0"; complex to real drops the imaginary
 * part. See docs/casts.md for NaN, overflow and the types without an infinity.
 * Bytes are little-endian on both sides whatever the host (SFT_CONVERT_* flags change that).
 * Errors: SFT_E_UNSUPPORTED for opaque types, SFT_E_SUBBYTE if count ends inside a byte.
 * Cost: one pass; SIMD where the processor has it. */
#define SFT_CONVERT_HOST_DST 1u /* destination in host byte order */
#define SFT_CONVERT_HOST_SRC 2u /* source in host byte order */
/* The features of the processor to leave out: what sft_pool_without gives. */
#define SFT_CONVERT_WITHOUT(features) ((features) << 8)
/* From one type to another. */
typedef struct sft_cast {
    const sft_dtype *to;
    const sft_dtype *from;
    uint32_t flags; /* SFT_CONVERT_... */
} sft_cast;
SFT_API SFT_MUST_CHECK sft_status sft_convert(void *dst, const void *src, uint64_t count,
                                              const sft_cast *cast, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
