/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/import_check.h - for the fuzz targets of the import library: any bytes as a file, scanned,
 * opened strictly and with everything allowed, and read. A target that includes this is linked with
 * the library.
 */
#ifndef SFT_FUZZ_IMPORT_CHECK_H
#define SFT_FUZZ_IMPORT_CHECK_H

#include "fuzz.h"
#include <sft/import.h>
#include <sft/read.h>
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { READ_MOST = 1 << 16 };

/* An allocator that counts what is out, so that a leak fails the run that made it, and that keeps
 * large blocks for the next run: to map and unmap them is half of a run's time otherwise. Of those
 * the first 64 KiB are poisoned while nobody has them, and 4 KiB behind their end while somebody
 * has: of blocks of megabytes all of it would be half of the time again. */
enum {
    KEPT_FROM = 1 << 15,
    KEPT_LOG = 24,
    KEPT_MOST = 64,
    POISON_HEAD = 1 << 16,
    POISON_TAIL = 4096
};

static struct {
    void *kept[KEPT_LOG + 1][KEPT_MOST]; /* of 2^k bytes each, and as many behind as are poisoned */
    size_t was[KEPT_LOG + 1][KEPT_MOST]; /* how long it was when it was given back */
    unsigned count[KEPT_LOG + 1];
    size_t out;
} fuzz_memory;

static unsigned kept_log(size_t size) {
    unsigned log = 15;
    while (log <= KEPT_LOG && (size_t)1 << log < size) {
        log++;
    }
    return log;
}

static size_t head_of(size_t size) {
    return size < POISON_HEAD ? size : (size_t)POISON_HEAD;
}

static void *fuzz_alloc(void *ctx, size_t size) {
    const unsigned log = kept_log(size);
    size_t was = 0;
    void *p;

    (void)ctx;
    if (size < KEPT_FROM || log > KEPT_LOG) {
        p = malloc(size != 0 ? size : 1);
    } else {
        if (fuzz_memory.count[log] != 0) {
            const unsigned i = --fuzz_memory.count[log];
            p = fuzz_memory.kept[log][i];
            was = fuzz_memory.was[log][i];
        } else {
            p = malloc(((size_t)1 << log) + POISON_TAIL);
        }
        if (p != NULL) {
            ASAN_UNPOISON_MEMORY_REGION(p, head_of(size > was ? size : was));
            ASAN_UNPOISON_MEMORY_REGION((uint8_t *)p + was, POISON_TAIL);
            ASAN_POISON_MEMORY_REGION((uint8_t *)p + size, POISON_TAIL);
        }
    }
    fuzz_memory.out += p != NULL;
    return p;
}

static void fuzz_free(void *ctx, void *p, size_t size) {
    const unsigned log = kept_log(size);

    (void)ctx;
    if (p == NULL) {
        return;
    }
    fuzz_memory.out--;
    if (size < KEPT_FROM || log > KEPT_LOG || fuzz_memory.count[log] == KEPT_MOST) {
        if (size >= KEPT_FROM && log <= KEPT_LOG) {
            ASAN_UNPOISON_MEMORY_REGION((uint8_t *)p + size, POISON_TAIL);
        }
        free(p);
        return;
    }
    ASAN_POISON_MEMORY_REGION(p, head_of(size));
    fuzz_memory.was[log][fuzz_memory.count[log]] = size;
    fuzz_memory.kept[log][fuzz_memory.count[log]++] = p;
}

static void *fuzz_resize(void *ctx, void *old, size_t old_size, size_t size) {
    void *p = fuzz_alloc(ctx, size);
    if (p != NULL && old != NULL) {
        memcpy(p, old, old_size < size ? old_size : size);
        fuzz_free(ctx, old, old_size);
    }
    return p;
}

static const sft_allocator fuzz_allocator = {fuzz_alloc, fuzz_resize, fuzz_free, NULL};

/* Every tensor lies inside its sources: it can be read, or the inflater says what is wrong. */
static void check_tensors(const sft_catalog *catalog) {
    static uint8_t room[READ_MOST];
    sft_error err;

    for (size_t i = 0; i < sft_catalog_count(catalog) && i < 64; i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        CHECK(sft_catalog_find(catalog, t->name, t->name_len) == t);
        memset(&err, 0, sizeof err);
        if (t->nbytes <= READ_MOST && t->nbytes > 0) {
            const sft_status status =
                sft_tensor_read_bytes(catalog, t, 0, room, (size_t)t->nbytes, &err);
            CHECK(status == SFT_OK || (err.status == (int32_t)status && err.message[0] != '\0'));
            CHECK(status == SFT_OK || status == SFT_E_SCHEMA || status == SFT_E_MISMATCH ||
                  status == SFT_E_HOLE);
        }
    }
}

/* A file that holds the input, for formats whose data lies beside it; NULL: the bytes alone. */
static const char *fuzz_path;

static void check_open(const uint8_t *data, size_t size, uint32_t flags, int *taken) {
    sft_import_options options;
    sft_catalog *catalog;
    sft_source *source;
    sft_error err;

    SFT_INIT(&options);
    options.flags = flags;
    options.memory_bytes = 32 << 20;
    options.allocator = &fuzz_allocator;
    memset(&err, 0, sizeof err);
    sft_status status;
    if (fuzz_path != NULL) {
        status = sft_import_open(&catalog, fuzz_path, &options, NULL, &err);
    } else {
        CHECK(sft_source_open_memory(&source, data, size, &fuzz_allocator, &err) == SFT_OK);
        status = sft_import_open_source(&catalog, source, &options, NULL, &err);
    }
    *taken = status == SFT_OK;
    if (status == SFT_OK) {
        check_tensors(catalog);
        sft_catalog_close(catalog);
    } else {
        CHECK(err.status == (int32_t)status && err.message[0] != '\0' && catalog == NULL);
        CHECK(status != SFT_E_INTERNAL && status != SFT_E_STATE && status != SFT_E_ARG);
    }
}

/* Scanned like a loader reads it: what loads is never broken to the scanner. */
static void check_scan(const uint8_t *data, size_t size, int strict) {
    sft_import_options options;
    sft_import_report *report;
    sft_source *source;
    sft_error err;

    SFT_INIT(&options);
    options.memory_bytes = 32 << 20;
    options.flags = SFT_IMPORT_CHECKSUMS;
    options.allocator = &fuzz_allocator;
    memset(&err, 0, sizeof err);
    if (fuzz_path != NULL) {
        const sft_status status = sft_scan(&report, fuzz_path, &options, &err);
        if (status == SFT_E_IO && !strict) {
            return; /* names a file that is not there */
        }
        CHECK(status == SFT_OK);
    } else {
        CHECK(sft_source_open_memory(&source, data, size, &fuzz_allocator, &err) == SFT_OK);
        CHECK(sft_scan_source(&report, source, &options, &err) == SFT_OK);
    }
    int broken = 0;
    uint32_t worst = SFT_SCAN_HARMLESS;
    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        broken |= f->kind == SFT_FINDING_BROKEN && f->subject[0] == '\0'; /* not of a member */
        worst = f->verdict > worst ? f->verdict : worst;
        CHECK(f->message[0] != '\0' && (f->count >= 1 || f->kind == SFT_FINDING_LEFT_OUT));
    }
    CHECK(sft_import_report_verdict(report) >= worst);
    CHECK(!strict || !broken);
    sft_import_report_free(report);
}

static uint32_t hash_of(const uint8_t *data, size_t size) {
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ data[i]) * 16777619u;
    }
    return hash;
}

/* All three ways for one input in four, one of them for the others: which, the bytes say. */
static inline void check_file(const uint8_t *data, size_t size) {
    const uint32_t way = hash_of(data, size) >> 13 & 3;
    int strict = 0;
    int opaque = 1;

    const size_t before = fuzz_memory.out;
    if (way == 0 || way == 1) {
        check_open(data, size, 0, &strict);
    }
    if (way == 0 || way == 2) {
        check_open(data, size, SFT_IMPORT_ALLOW_OPAQUE | SFT_IMPORT_NO_CRC | SFT_IMPORT_DEQUANTIZE,
                   &opaque);
    }
    CHECK(!strict || opaque);
    if (way == 0 || way == 3) {
        check_scan(data, size, strict);
    }
    CHECK(fuzz_memory.out == before); /* everything was given back */
}

#endif
