/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_tf.c - any bytes as the index of a tensor bundle, beside shards of known bytes. An
 * input with a table's footer is taken as it is, only that its blocks' checksums are made right;
 * any other is one block of entries in a table that is right in everything else. POSIX only:
 * elsewhere there are no shards.
 */
#include "import_check.h"
#include "scratch.h"
#include <sft/digest.h>

#ifndef _WIN32
#include <fcntl.h>
#include <unistd.h>

enum { ROOM = 1 << 16, FOOTER = 48, TRAILER = 5, SHARD = 4096 };

static const uint8_t magic[8] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};
static const char *const shards[] = {"m.data-00000-of-00001", "m.data-00000-of-00002",
                                     "m.data-00001-of-00002"};
static char folder[64];
static char path[96];
static int index_file = -1;

static const char *in_folder(const char *name) {
    static char at[128];
    (void)snprintf(at, sizeof at, "%s/%s", folder, name);
    return at;
}

static void clean(void) {
    for (size_t i = 0; i < 3; i++) {
        (void)unlink(in_folder(shards[i]));
    }
    (void)unlink(path);
    (void)rmdir(folder);
}

static void prepare(void) {
    uint8_t bytes[SHARD];

    if (index_file >= 0) {
        return;
    }
    scratch_make(folder);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    for (size_t i = 0; i < 3; i++) {
        FILE *const f = fopen(in_folder(shards[i]), "wb");
        CHECK(f != NULL && fwrite(bytes, 1, sizeof bytes, f) == sizeof bytes && fclose(f) == 0);
    }
    (void)snprintf(path, sizeof path, "%s/m.index", folder);
    index_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(index_file >= 0 && atexit(clean) == 0);
}

/* ---------------------------------------------------------------- tables */

static size_t put_varint(uint8_t *p, uint64_t value) {
    size_t n = 0;
    for (; value > 0x7f; value >>= 7) {
        p[n++] = (uint8_t)(value | 0x80);
    }
    p[n++] = (uint8_t)value;
    return n;
}

static int get_varint(const uint8_t *p, size_t end, size_t *at, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t b = p[(*at)++];
        *value |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            return 1;
        }
    }
    return 0;
}

/* The checksum behind the block; nothing where that is outside the file. */
static void seal(uint8_t *file, size_t size, uint64_t offset, uint64_t len) {
    if (offset > size || len > size - offset || size - offset - len < TRAILER) {
        return;
    }
    const uint32_t crc = sft_crc32c(0, file + offset, (size_t)len + 1);
    const uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    for (unsigned i = 0; i < 4; i++) {
        file[offset + len + 1 + i] = (uint8_t)(masked >> (8 * i));
    }
}

static void seal_all(uint8_t *file, size_t size) {
    const size_t end = size - 8;
    size_t at = size - FOOTER;
    uint64_t h[4];
    uint64_t own[3];

    for (size_t i = 0; i < 4; i++) {
        if (!get_varint(file, end, &at, &h[i])) {
            return;
        }
    }
    seal(file, size - FOOTER, h[0], h[1]);
    if (h[2] > size - FOOTER || h[3] > size - FOOTER - h[2]) {
        return;
    }
    const size_t last = (size_t)(h[2] + h[3]);
    at = (size_t)h[2];
    for (size_t n = 0; n < 64 && at < last; n++) {
        for (size_t i = 0; i < 3; i++) {
            if (!get_varint(file, last, &at, &own[i])) {
                n = 64;
            }
        }
        if (n >= 64 || own[1] > last - at || own[2] > last - at - own[1]) {
            break;
        }
        at += (size_t)own[1];
        size_t value = at;
        at += (size_t)own[2];
        if (get_varint(file, at, &value, &h[0]) && get_varint(file, at, &value, &h[1])) {
            seal(file, size - FOOTER, h[0], h[1]);
        }
    }
    seal(file, size - FOOTER, h[2], h[3]);
}

static size_t put_block(uint8_t *file, size_t at, const uint8_t *data, size_t size) {
    memcpy(file + at, data, size);
    file[at + size] = 0;
    seal(file, at + size + TRAILER, at, size);
    return at + size + TRAILER;
}

static size_t make_table(uint8_t *file, const uint8_t *data, size_t size) {
    static const uint8_t empty[8] = {0, 0, 0, 0, 1, 0, 0, 0};
    uint8_t listing[64] = {0, 2, 0, 0xff, 0xff};
    size_t n = 5;
    size_t at = put_block(file, 0, data, size);

    n += put_varint(listing + n, 0);
    n += put_varint(listing + n, size);
    listing[2] = (uint8_t)(n - 5);
    memcpy(listing + n, empty, sizeof empty);
    n += sizeof empty;
    const size_t meta = at;
    at = put_block(file, at, empty, sizeof empty);
    const size_t index = at;
    at = put_block(file, at, listing, n);
    memset(file + at, 0, FOOTER);
    size_t f = at;
    f += put_varint(file + f, meta);
    f += put_varint(file + f, sizeof empty);
    f += put_varint(file + f, index);
    (void)put_varint(file + f, n);
    memcpy(file + at + FOOTER - sizeof magic, magic, sizeof magic);
    return at + FOOTER;
}

static void check_index(const uint8_t *data, size_t size) {
    static uint8_t file[ROOM + 256];

    if (size > ROOM) {
        return;
    }
    prepare();
    if (size >= FOOTER && memcmp(data + size - sizeof magic, magic, sizeof magic) == 0) {
        memcpy(file, data, size);
        seal_all(file, size);
    } else {
        size = make_table(file, data, size);
    }
    CHECK(pwrite(index_file, file, size, 0) == (ssize_t)size &&
          ftruncate(index_file, (off_t)size) == 0);
    fuzz_path = path;
    check_file(file, size);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
#ifndef _WIN32
    check_index(data, size);
#else
    check_file(data, size);
#endif
    return 0;
}
