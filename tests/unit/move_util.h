/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/move_util.h - what the tests of src/move share: a generator of numbers, files of one
 * tensor in memory, on disk and behind a source of one's own, and a slow, obvious reference of
 * slicing.
 */
#ifndef SFT_TESTS_MOVE_UTIL_H
#define SFT_TESTS_MOVE_UTIL_H

#include "unit/cm.h"

#include <stdbool.h>
#include <unistd.h>

#include <sft/extend.h>

/* A file name of this process: tests run side by side in one folder. */
static inline const char *tmp_path(const char *suffix) {
    static char paths[4][96];
    static unsigned next;
    char *p = paths[next++ % 4];
    (void)snprintf(p, sizeof paths[0], "move-%ld.%s", (long)getpid(), suffix);
    return p;
}

static uint64_t rnd_state = 1;

static inline uint64_t rnd(void) { /* xorshift64* */
    rnd_state ^= rnd_state >> 12;
    rnd_state ^= rnd_state << 25;
    rnd_state ^= rnd_state >> 27;
    return rnd_state * 2685821657736338717u;
}

static inline uint64_t rnd_below(uint64_t n) {
    return rnd() % n;
}

static inline void rnd_fill(uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(rnd() >> 40);
    }
}

static inline void ok(sft_status status, const sft_error *err) {
    if (status != SFT_OK) {
        fail_msg("%s: %s", sft_status_name((int32_t)status), err->message);
    }
}

/* A whole safetensors file of one tensor "t". malloc'ed. pad: blanks that shift the data section.
 */
static inline uint8_t *one_tensor_file(const sft_dtype *dtype, const uint64_t *shape, uint32_t rank,
                                       uint64_t nbytes, size_t pad, size_t *size) {
    char head[2048];
    size_t n =
        (size_t)snprintf(head, sizeof head, "{\"t\":{\"dtype\":\"%s\",\"shape\":[", dtype->name);
    for (uint32_t d = 0; d < rank; d++) {
        n += (size_t)snprintf(head + n, sizeof head - n, "%s%llu", d ? "," : "",
                              (unsigned long long)shape[d]);
    }
    n += (size_t)snprintf(head + n, sizeof head - n, "],\"data_offsets\":[0,%llu]}}%*s",
                          (unsigned long long)nbytes, (int)pad, "");
    *size = 8 + n + (size_t)nbytes;
    uint8_t *file = malloc(*size);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    memcpy(file + 8, head, n);
    rnd_fill(file + 8 + n, (size_t)nbytes);
    return file;
}

/* A source of one's own over memory: reads only, and counts them. */
typedef struct own_source {
    const uint8_t *data;
    uint64_t size;
    uint64_t reads;
    uint64_t bytes;
    uint64_t last;      /* end of the last read */
    bool went_back;     /* a read began before the last one ended */
    uint64_t fail_from; /* offsets from here on fail */
} own_source;

static inline sft_status own_read_at(void *self, uint64_t offset, void *dst, size_t size,
                                     sft_error *err) {
    own_source *o = self;
    if (offset + size > o->fail_from) {
        return sft_error_at(err, SFT_E_TRUNCATED, o->fail_from, NULL, 0, "the source has shrunk");
    }
    __atomic_add_fetch(&o->reads, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&o->bytes, size, __ATOMIC_RELAXED);
    if (offset < __atomic_exchange_n(&o->last, offset + size, __ATOMIC_RELAXED)) {
        __atomic_store_n(&o->went_back, true, __ATOMIC_RELAXED);
    }
    memcpy(dst, o->data + offset, size);
    return SFT_OK;
}

static inline sft_catalog *own_open(own_source *o, const uint8_t *data, size_t size,
                                    uint32_t flags) {
    const sft_source_vtable vtable = {.struct_size = sizeof vtable, .read_at = own_read_at};
    sft_source *source;
    sft_catalog *catalog;
    sft_error err;
    memset(o, 0, sizeof *o);
    o->data = data;
    o->size = size;
    o->fail_from = UINT64_MAX;
    ok(sft_source_create(&source, &vtable, o, &(sft_source_info){size, flags, "own", NULL}, &err),
       &err);
    ok(sft_catalog_open_source(&catalog, source, NULL, &err), &err);
    o->reads = o->bytes = o->last = 0;
    o->went_back = false;
    return catalog;
}

/* A file on disk that is removed when the catalog closes it (the caller closes). */
static inline sft_catalog *file_open(const uint8_t *data, size_t size, sft_access access) {
    const char *path = tmp_path("safetensors");
    FILE *f = fopen(path, "wb");
    sft_catalog *catalog;
    sft_open_options o;
    sft_error err;
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    SFT_INIT(&o);
    o.access = access;
    ok(sft_catalog_open(&catalog, path, &o, &err), &err);
    return catalog;
}

static inline uint64_t get_bits(const uint8_t *p, uint64_t at, uint32_t n) {
    uint64_t v = 0;
    for (uint32_t i = 0; i < n; i++) {
        v |= (uint64_t)(p[(at + i) / 8] >> ((at + i) % 8) & 1) << i;
    }
    return v;
}

static inline void put_bits(uint8_t *p, uint64_t at, uint32_t n, uint64_t v) {
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t b = at + i;
        p[b / 8] = (uint8_t)((p[b / 8] & ~(1u << (b % 8))) | ((v >> i & 1) << (b % 8)));
    }
}

#endif
