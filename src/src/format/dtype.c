/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/dtype.c - the table of element types and what follows from one row: sizes in bits and
 * bytes, the row of a name. All facts come from SFT_DTYPE_MAP in <sft/dtype.h>. Conversions are in
 * move/.
 */
#include "base/checked.h"
#include "base/error.h"
#include "format/scan.h"

static const sft_dtype rows[SFT_DTYPE_COUNT] = {
#define DTYPE_ROW(id, number, name, kind, elements, bytes, align)                                  \
    {number, kind, elements, bytes, align, 0, name},
    SFT_DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

/* Names with zeros behind them and their length as the last byte: two words tell two names apart.
 */
typedef struct padded_name {
    char text[15];
    uint8_t len;
} padded_name;

static const padded_name names[SFT_DTYPE_COUNT] = {
#define DTYPE_NAME(id, number, name, kind, elements, bytes, align) {name, sizeof(name) - 1},
    SFT_DTYPE_MAP(DTYPE_NAME)
#undef DTYPE_NAME
};

const uint8_t sft__format_dtype_bits_of[SFT_DTYPE_COUNT + 1] = {0,
#define DTYPE_BITS(id, number, name, kind, elements, bytes, align) (bytes) * 8 / (elements),
                                                                SFT_DTYPE_MAP(DTYPE_BITS)
#undef DTYPE_BITS
};

const sft_dtype *sft_dtype_get(uint32_t id) {
    return id >= 1 && id <= SFT_DTYPE_COUNT ? &rows[id - 1] : NULL;
}

/* A multiplicative hash without collisions on the first eight bytes of the 22 names, found by
 * trial; the unit test checks that every name is found. 0: no row, else row + 1. */
const sft_dtype *sft__format_dtype_of_key(uint64_t key, const char *name, size_t len) {
    static const uint8_t slots[32] = {0, 12, 21, 0, 0,  15, 8,  14, 20, 13, 22, 0, 2,  6, 19, 1,
                                      4, 0,  0,  0, 16, 5,  11, 0,  3,  9,  18, 0, 17, 7, 10, 0};
    const unsigned slot = slots[(key * UINT64_C(0x9acf01446821acab)) >> 59];
    const padded_name *const row = &names[slot == 0 ? 0 : slot - 1];
    if (slot == 0 || row->len != len || sft__base_load_le64(row->text) != key ||
        (len > 8 && memcmp(row->text + 8, name + 8, len - 8) != 0)) {
        return NULL;
    }
    return &rows[slot - 1];
}

const sft_dtype *sft_dtype_find(const char *name, size_t name_len) {
    uint8_t first[8] = {0};
    if (name == NULL || name_len == 0 || name_len > SFT__DTYPE_NAME_MAX) {
        return NULL;
    }
    memcpy(first, name, name_len < 8 ? name_len : 8);
    return sft__format_dtype_of_key(sft__base_load_le64(first), name, name_len);
}

uint32_t sft_dtype_bits(const sft_dtype *dtype) {
    const uint64_t bits = (uint64_t)dtype->block_bytes * 8;
    if (dtype->block_elements == 0 || bits % dtype->block_elements != 0) {
        return 0;
    }
    return (uint32_t)(bits / dtype->block_elements);
}

/* The reference multiplies by the bits of one element and checks that product, so a U8 tensor of
 * 2^61 elements overflows although its bytes would fit. Types without a whole number of bits go by
 * blocks. */
sft_status sft_dtype_bytes(const sft_dtype *dtype, uint64_t elements, uint64_t *bytes,
                           sft_error *err) {
    const uint32_t bits = sft_dtype_bits(dtype);
    uint64_t total;

    if (bits == 0) {
        if (dtype->block_elements == 0 || elements % dtype->block_elements != 0) {
            return sft__base_fail(err, SFT_E_SUBBYTE,
                                  "%llu elements of %s are no whole number of blocks of %u",
                                  (unsigned long long)elements, dtype->name, dtype->block_elements);
        }
        if (!sft__base_mul64(elements / dtype->block_elements, dtype->block_bytes, bytes)) {
            return sft__base_fail(err, SFT_E_OVERFLOW,
                                  "%llu elements of %s need more than 2^64 bytes",
                                  (unsigned long long)elements, dtype->name);
        }
        return SFT_OK;
    }
    if (!sft__base_mul64(elements, bits, &total)) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "%llu elements of %s need more than 2^64 bits",
                              (unsigned long long)elements, dtype->name);
    }
    if (total % 8 != 0) {
        return sft__base_fail(err, SFT_E_SUBBYTE,
                              "%llu elements of %s end inside a byte (%llu bits)",
                              (unsigned long long)elements, dtype->name, (unsigned long long)total);
    }
    *bytes = total / 8;
    return SFT_OK;
}
