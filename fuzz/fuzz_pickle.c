/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_pickle.c - any bytes as data.pkl of a PyTorch zip that is right in everything else,
 * with two storages.
 */
#include "import_check.h"

enum { ROOM = 1 << 16 };

typedef struct zip {
    uint8_t bytes[ROOM + 1024];
    size_t len;
    uint8_t directory[1024];
    size_t directory_len;
    uint32_t count;
} zip;

static void put(uint8_t *p, uint64_t value, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint32_t crc_of(const uint8_t *data, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++) {
            crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static void add(zip *z, const char *name, const uint8_t *data, size_t size) {
    const size_t n = strlen(name);
    const size_t at = z->len;
    const uint32_t crc = crc_of(data, size);
    uint8_t *h = z->bytes + z->len;
    uint8_t *d = z->directory + z->directory_len;

    memset(h, 0, 30);
    put(h, 0x04034b50u, 4);
    put(h + 14, crc, 4);
    put(h + 18, size, 4);
    put(h + 22, size, 4);
    put(h + 26, n, 2);
    memcpy(h + 30, name, n);
    memcpy(h + 30 + n, data, size);
    z->len += 30 + n + size;
    memset(d, 0, 46);
    put(d, 0x02014b50u, 4);
    put(d + 16, crc, 4);
    put(d + 20, size, 4);
    put(d + 24, size, 4);
    put(d + 28, n, 2);
    put(d + 42, at, 4);
    memcpy(d + 46, name, n);
    z->directory_len += 46 + n;
    z->count++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static zip z;
    static const uint8_t zeros[256];

    if (size > ROOM - 4096) {
        return 0;
    }
    z.len = z.directory_len = z.count = 0;
    add(&z, "a/data.pkl", data, size);
    add(&z, "a/data/0", zeros, 64);
    add(&z, "a/data/1", zeros, 256);
    add(&z, "a/version", (const uint8_t *)"3\n", 2);
    const size_t at = z.len;
    memcpy(z.bytes + z.len, z.directory, z.directory_len);
    z.len += z.directory_len;
    uint8_t *e = z.bytes + z.len;
    memset(e, 0, 22);
    put(e, 0x06054b50u, 4);
    put(e + 8, z.count, 2);
    put(e + 10, z.count, 2);
    put(e + 12, z.directory_len, 4);
    put(e + 16, at, 4);
    z.len += 22;
    check_file(z.bytes, z.len);
    return 0;
}
