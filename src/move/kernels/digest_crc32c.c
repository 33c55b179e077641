/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_crc32c.c - CRC32C (RFC 3720 appendix B.4; polynomial 0x1EDC6F41, bits
 * reflected): the portable twin, eight bytes at a time through eight tables ("slicing by 8"). In
 * WebAssembly wasm/native/crc.c stands for it.
 */
#include "move/kernels/digest_twins.h"

/* A table entry is linear in its index: the exclusive or of the entries of its one-bit parts. So
 * each table is given by eight numbers and written out by the preprocessor. */
#define CRC_BIT(b, i, v) ((((b) >> (i)) & 1u) != 0 ? (v) : 0u)
#define CRC_ROW(b, v0, v1, v2, v3, v4, v5, v6, v7)                                                 \
    (CRC_BIT(b, 0, v0) ^ CRC_BIT(b, 1, v1) ^ CRC_BIT(b, 2, v2) ^ CRC_BIT(b, 3, v3) ^               \
     CRC_BIT(b, 4, v4) ^ CRC_BIT(b, 5, v5) ^ CRC_BIT(b, 6, v6) ^ CRC_BIT(b, 7, v7))
#define CRC_T0(b)                                                                                  \
    CRC_ROW(b, 0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu,       \
            0x417b1dbcu, 0x82f63b78u)
#define CRC_T1(b)                                                                                  \
    CRC_ROW(b, 0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u,       \
            0xff17c604u, 0xfbc3faf9u)
#define CRC_T2(b)                                                                                  \
    CRC_ROW(b, 0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u,       \
            0xc76580d9u, 0x8b277743u)
#define CRC_T3(b)                                                                                  \
    CRC_ROW(b, 0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu,       \
            0xaba65fe7u, 0x52a0c93fu)
#define CRC_T4(b)                                                                                  \
    CRC_ROW(b, 0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u,       \
            0x37516aaeu, 0x6ea2d55cu)
#define CRC_T5(b)                                                                                  \
    CRC_ROW(b, 0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du,       \
            0x0e045bebu, 0x1c08b7d6u)
#define CRC_T6(b)                                                                                  \
    CRC_ROW(b, 0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu,       \
            0x7ab7077au, 0xf56e0ef4u)
#define CRC_T7(b)                                                                                  \
    CRC_ROW(b, 0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u,       \
            0x1a00cb32u, 0x34019664u)

#define CRC_4(T, b)  T((b) + 0u), T((b) + 1u), T((b) + 2u), T((b) + 3u)
#define CRC_16(T, b) CRC_4(T, b), CRC_4(T, (b) + 4u), CRC_4(T, (b) + 8u), CRC_4(T, (b) + 12u)
#define CRC_64(T, b) CRC_16(T, b), CRC_16(T, (b) + 16u), CRC_16(T, (b) + 32u), CRC_16(T, (b) + 48u)
#define CRC_256(T)   {CRC_64(T, 0u), CRC_64(T, 64u), CRC_64(T, 128u), CRC_64(T, 192u)}

static const uint32_t crc_table[8][256] = {
    CRC_256(CRC_T0), CRC_256(CRC_T1), CRC_256(CRC_T2), CRC_256(CRC_T3),
    CRC_256(CRC_T4), CRC_256(CRC_T5), CRC_256(CRC_T6), CRC_256(CRC_T7),
};

uint32_t sft__move_crc32c_portable(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;

    for (; size >= 8; p += 8, size -= 8) {
        const uint32_t a = crc ^ sft__base_load_le32(p);
        const uint32_t b = sft__base_load_le32(p + 4);
        crc = crc_table[7][a & 0xff] ^ crc_table[6][(a >> 8) & 0xff] ^
              crc_table[5][(a >> 16) & 0xff] ^ crc_table[4][a >> 24] ^ crc_table[3][b & 0xff] ^
              crc_table[2][(b >> 8) & 0xff] ^ crc_table[1][(b >> 16) & 0xff] ^
              crc_table[0][b >> 24];
    }
    for (; size > 0; p++, size--) {
        crc = crc_table[0][(crc ^ *p) & 0xff] ^ (crc >> 8);
    }
    return crc;
}
