/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_joblib.c - any bytes as a dump of joblib: as they are or, where the first byte says so,
 * in stored blocks of zlib or gzip, so that what comes out of a compressed one is reached too. The
 * seeds are dumps, plain and compressed by joblib.
 */
#include "import_check.h"
#include "reader_check.h"

enum { BLOCK_MOST = 65535, BLOCK_HEAD = 5 };

/* The stored block of one byte order: final, length, its complement. */
static size_t stored(uint8_t *out, const uint8_t *data, size_t size) {
    size_t len = 0;

    for (size_t at = 0; at == 0 || at < size;) {
        const size_t n = size - at < BLOCK_MOST ? size - at : (size_t)BLOCK_MOST;
        out[len] = at + n == size;
        out[len + 1] = (uint8_t)n;
        out[len + 2] = (uint8_t)(n >> 8);
        out[len + 3] = (uint8_t)~n;
        out[len + 4] = (uint8_t)(~n >> 8);
        if (n != 0) {
            memcpy(out + len + BLOCK_HEAD, data + at, n);
        }
        len += BLOCK_HEAD + n;
        at += n != 0 ? n : 1;
    }
    return len;
}

/* zlib: two bytes before, four behind, of which no reader is told; gzip: ten and eight. */
static void check_packed(const uint8_t *data, size_t size, bool gzip) {
    static const uint8_t zlib_head[] = {0x78, 0x01};
    static const uint8_t gzip_head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    const size_t head = gzip ? sizeof gzip_head : sizeof zlib_head;
    const size_t tail = gzip ? 8 : 4;
    const size_t room = head + size + BLOCK_HEAD * (size / BLOCK_MOST + 1) + tail;
    uint8_t *all = calloc(room, 1);

    CHECK(all != NULL);
    memcpy(all, gzip ? gzip_head : zlib_head, head);
    const size_t len = head + stored(all + head, data, size) + tail;
    CHECK(len <= room);
    check_reader(NULL, hash_of(data, size), all, len);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size != 0 && (data[0] == 'Z' || data[0] == 'G')) {
        check_packed(data + 1, size - 1, data[0] == 'G');
    } else {
        check_reader(NULL, hash_of(data, size), data, size);
    }
    return 0;
}
