/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_combine.c - the CRC32C of bytes from those of their parts: arithmetic of
 * polynomials over GF(2). Read first: digest_crc32c.c.
 */
#include "move/kernels/digest_twins.h"
#include <sft/digest.h>

#define CRC_POLY 0x82f63b78u

uint32_t sft__move_crc32c_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;

    for (; a != 0; a <<= 1) {
        product ^= b & (0u - (a >> 31)); /* no branches: the bits are those of a checksum */
        b = (b >> 1) ^ (CRC_POLY & (0u - (b & 1)));
    }
    return product;
}

/* crc(A B) = crc(A) * x^(8 |B|) + crc(B): the two complements cancel. */
uint32_t sft_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
    uint32_t power = 0x00800000u; /* x^8 */

    for (; size_b != 0; size_b >>= 1) {
        if ((size_b & 1) != 0) {
            crc_a = sft__move_crc32c_multiply(crc_a, power);
        }
        power = sft__move_crc32c_multiply(power, power);
    }
    return crc_a ^ crc_b;
}
