/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/stream_util.h - the models that the tests of streams read.
 */
#ifndef SFT_TESTS_STREAM_UTIL_H
#define SFT_TESTS_STREAM_UTIL_H

#include "unit/files.h"
#include "unit/move_util.h"

/* A file in the scratch folder from the text of its entries, which name `total` bytes of data. */
static inline void put_model(const char *name, const char *entries, size_t total) {
    const size_t len = strlen(entries);
    const size_t pad = rnd_below(64); /* data at any offset */
    const size_t n = len + 2 + pad;
    uint8_t *file = malloc(8 + n + total);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    file[8] = '{';
    memcpy(file + 9, entries, len);
    file[9 + len] = '}';
    memset(file + 10 + len, ' ', pad);
    rnd_fill(file + 8 + n, total);
    file_put(in_scratch(name), file, 8 + n + total);
    free(file);
}

/* `count` tensors PREFIX0, PREFIX1 ... of rank 0 to 3 and of up to about `most` bytes, some empty.
 */
static inline void make_model(const char *name, const char *prefix, unsigned count, size_t most) {
    static const char *const types[] = {"U8", "BF16", "F32", "I16"};
    static const size_t sizes[] = {1, 2, 4, 2};
    static char entries[1 << 14];
    size_t n = 0, total = 0;
    entries[0] = 0;
    for (unsigned i = 0; i < count; i++) {
        const size_t type = rnd_below(4), rank = rnd_below(4);
        size_t left = most / sizes[type], nbytes = sizes[type];
        n += (size_t)snprintf(entries + n, sizeof entries - n,
                              "%s\"%s%u\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", prefix, i,
                              types[type]);
        for (size_t d = 0; d < rank; d++) {
            const size_t last = d + 1 == rank;
            const size_t dim = i % 7 == 6 && d == 0 ? 0 : 1 + rnd_below(last ? left : left / 8 + 1);
            left = dim < left ? left / (dim > 0 ? dim : 1) : 1;
            nbytes *= dim;
            n += (size_t)snprintf(entries + n, sizeof entries - n, "%s%zu", d ? "," : "", dim);
        }
        n += (size_t)snprintf(entries + n, sizeof entries - n, "],\"data_offsets\":[%zu,%zu]}",
                              total, total + nbytes);
        total += nbytes;
    }
    put_model(name, entries, total);
}

/* `count` tensors t0, t1 ... of `size` bytes. */
static inline void make_flat(const char *name, unsigned count, size_t size) {
    static char entries[1 << 14];
    size_t n = 0;
    for (unsigned i = 0; i < count; i++) {
        n += (size_t)snprintf(
            entries + n, sizeof entries - n,
            "%s\"t%u\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
            i, size, i * size, (i + 1) * size);
    }
    put_model(name, entries, count * size);
}

#endif
