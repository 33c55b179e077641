/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/make_zip.h - an archive of stored members that is right in everything, for the targets whose input is
 * one of them. Read first: import_check.h.
 */
#ifndef SFT_FUZZ_MAKE_ZIP_H
#define SFT_FUZZ_MAKE_ZIP_H

#include "import/core/import.h"
#include "import_check.h"

enum { ROOM = 1 << 16 };

typedef struct zip {
    uint8_t bytes[ROOM + 1024];
    size_t len;
    uint8_t directory[1024];
    size_t directory_len;
    uint32_t count;
} zip;

static void zip_put(uint8_t *p, uint64_t value, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(value >> (8 * i));
    }
}

static void zip_add(zip *z, const char *name, const void *data, size_t size) {
    const size_t n = strlen(name);
    const size_t at = z->len;
    const uint32_t crc = sft__import_crc32(0, data, size);
    uint8_t *h = z->bytes + z->len;
    uint8_t *d = z->directory + z->directory_len;

    memset(h, 0, 30);
    zip_put(h, 0x04034b50u, 4);
    zip_put(h + 14, crc, 4);
    zip_put(h + 18, size, 4);
    zip_put(h + 22, size, 4);
    zip_put(h + 26, n, 2);
    memcpy(h + 30, name, n);
    memcpy(h + 30 + n, data, size);
    z->len += 30 + n + size;
    memset(d, 0, 46);
    zip_put(d, 0x02014b50u, 4);
    zip_put(d + 16, crc, 4);
    zip_put(d + 20, size, 4);
    zip_put(d + 24, size, 4);
    zip_put(d + 28, n, 2);
    zip_put(d + 42, at, 4);
    memcpy(d + 46, name, n);
    z->directory_len += 46 + n;
    z->count++;
}

static void zip_end(zip *z) {
    const size_t at = z->len;

    memcpy(z->bytes + z->len, z->directory, z->directory_len);
    z->len += z->directory_len;
    uint8_t *e = z->bytes + z->len;
    memset(e, 0, 22);
    zip_put(e, 0x06054b50u, 4);
    zip_put(e + 8, z->count, 2);
    zip_put(e + 10, z->count, 2);
    zip_put(e + 12, z->directory_len, 4);
    zip_put(e + 16, at, 4);
    z->len += 22;
}

#endif
