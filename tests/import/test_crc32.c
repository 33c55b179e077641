/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/import/test_crc32.c - the library's CRC-32 against zlib's, at every length and alignment that
 * its ways of computing tell apart, and the checksum of a whole from those of its parts.
 */
#include "import/write/export.h"
#include <stdio.h>
#include <zlib.h>

enum { BYTES = 3000 };

static int fails(const char *what, size_t size, size_t at) {
    fprintf(stderr, "FAULT %s, %zu bytes at %zu\n", what, size, at);
    return 1;
}

int main(void) {
    static uint8_t bytes[BYTES + 16];
    uint32_t seed = 1;

    for (size_t i = 0; i < sizeof bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    for (size_t size = 0; size < BYTES; size++) {
        for (size_t at = 0; at < 16; at += 5) {
            const uint32_t first = seed ^ (uint32_t)size;
            if (sft__import_crc32(first, bytes + at, size) !=
                (uint32_t)crc32(first, bytes + at, (uInt)size)) {
                return fails("sft__import_crc32", size, at);
            }
        }
        const uint32_t a = sft__import_crc32(0, bytes, size);
        const uint32_t b = sft__import_crc32(0, bytes + size, BYTES - size);
        if ((sft__import_crc32_shift(a, BYTES - size) ^ b) != sft__import_crc32(0, bytes, BYTES)) {
            return fails("sft__import_crc32_shift", size, 0);
        }
    }
    const uint64_t huge = (UINT64_C(1) << 40) + 12345;
    if (sft__import_crc32_shift(sft__import_crc32_shift(1, huge - 7), 7) !=
        sft__import_crc32_shift(1, huge)) {
        return fails("sft__import_crc32_shift", 0, 0);
    }
    return 0;
}
