/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * crc.c - the CRCs of zlib, liblzma and src/move/kernels/digest_crc32c.c in place of theirs, whose tables are a twelfth
 * of what is downloaded, since nothing compresses them. These are made at the first call.
 */
#include "move/kernels/digest_twins.h"
#include <stddef.h>
#include <stdint.h>

typedef uint32_t crc_table[8][256];

static crc_table crc32_table;
static crc_table crc32c_table;
static uint64_t crc64_table[256];

static void make_table(crc_table table, uint32_t polynomial) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t a = i;
        for (int k = 0; k < 8; k++) {
            a = (a >> 1) ^ (polynomial & (0u - (a & 1)));
        }
        table[0][i] = a;
    }
    for (uint32_t t = 1; t < 8; t++) {
        for (uint32_t i = 0; i < 256; i++) {
            const uint32_t before = table[t - 1][i];
            table[t][i] = (before >> 8) ^ table[0][before & 255];
        }
    }
}

static uint32_t load(const uint8_t *p) {
    uint32_t v;
    __builtin_memcpy(&v, p, 4);
    return v;
}

static uint32_t crc_of(crc_table table, uint32_t polynomial, uint32_t crc, const uint8_t *p,
                       size_t size) {
    if (table[0][1] == 0) {
        make_table(table, polynomial);
    }
    for (; size >= 8; size -= 8, p += 8) {
        const uint32_t a = load(p) ^ crc;
        const uint32_t b = load(p + 4);
        crc = table[7][a & 255] ^ table[6][(a >> 8) & 255] ^ table[5][(a >> 16) & 255] ^
              table[4][a >> 24] ^ table[3][b & 255] ^ table[2][(b >> 8) & 255] ^
              table[1][(b >> 16) & 255] ^ table[0][b >> 24];
    }
    for (; size > 0; size--, p++) {
        crc = (crc >> 8) ^ table[0][(crc ^ *p) & 255];
    }
    return crc;
}

uint32_t sft__move_crc32c_portable(uint32_t crc, const void *data, size_t size) {
    return crc_of(crc32c_table, 0x82f63b78u, crc, data, size);
}

uint32_t lzma_crc32(const uint8_t *p, size_t size, uint32_t crc) {
    return ~crc_of(crc32_table, 0xedb88320u, ~crc, p, size);
}

uint64_t lzma_crc64(const uint8_t *p, size_t size, uint64_t crc) {
    if (crc64_table[1] == 0) {
        for (uint32_t i = 0; i < 256; i++) {
            uint64_t b = i;
            for (int k = 0; k < 8; k++) {
                b = (b >> 1) ^ (UINT64_C(0xc96c5795d7870f42) & (UINT64_C(0) - (b & 1)));
            }
            crc64_table[i] = b;
        }
    }
    crc = ~crc;
    for (; size > 0; size--, p++) {
        crc = (crc >> 8) ^ crc64_table[(crc ^ *p) & 255];
    }
    return ~crc;
}

/* zlib's; without bytes it is asked for the first value. */
unsigned long crc32_z(unsigned long crc, const uint8_t *p, size_t size) {
    return p == NULL ? 0 : lzma_crc32(p, size, (uint32_t)crc);
}

unsigned long crc32(unsigned long crc, const uint8_t *p, unsigned size) {
    return crc32_z(crc, p, size);
}
