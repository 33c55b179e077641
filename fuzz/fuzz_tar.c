/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_tar.c - a tar of PyTorch 0.1 whose four members are pieces of the input, parted by its
 * first bytes; or, if the first byte is odd, the input itself with the checksums of its headers
 * made right.
 */
#include "import_check.h"

enum { ROOM = 1 << 16, BLOCK = 512 };

static void fix_checksum(uint8_t *h) {
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++) {
        sum += h[i];
    }
    (void)snprintf((char *)h + 148, 8, "%06o", sum);
}

static size_t add(uint8_t *file, size_t at, const char *name, const uint8_t *data, size_t size) {
    uint8_t *h = file + at;
    memset(h, 0, BLOCK);
    memcpy(h, name, strlen(name));
    (void)snprintf((char *)h + 124, 12, "%011o", (unsigned)size);
    h[156] = '0';
    memcpy(h + 257, "ustar", 5);
    fix_checksum(h);
    memset(h + BLOCK, 0, (size + BLOCK - 1) / BLOCK * BLOCK);
    memcpy(h + BLOCK, data, size);
    return at + BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[4] = {"sys_info", "storages", "tensors", "pickle"};
    static uint8_t file[ROOM + 16 * BLOCK];
    size_t at = 0;

    if (size < 8 || size > ROOM) {
        return 0;
    }
    if ((data[0] & 1) != 0) {
        memcpy(file, data + 1, size - 1);
        for (size_t i = 0; i + BLOCK <= size - 1; i += BLOCK) {
            if (memcmp(file + i + 257, "ustar", 5) == 0) {
                fix_checksum(file + i);
            }
        }
        check_file(file, size - 1);
        return 0;
    }
    const uint8_t *rest = data + 7;
    size_t left = size - 7;
    for (size_t i = 0; i < 4; i++) {
        const size_t want = i < 3 ? (size_t)(data[1 + 2 * i] | data[2 + 2 * i] << 8) : left;
        const size_t n = want < left ? want : left;
        at = add(file, at, names[i], rest, n);
        rest += n;
        left -= n;
    }
    memset(file + at, 0, BLOCK);
    check_file(file, at + BLOCK);
    return 0;
}
