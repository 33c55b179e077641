/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/reader_check.h - for the fuzz targets of one reader: bytes that it takes for its own are
 * opened and read, and nothing else is done to them. That is five times as fast as check_file,
 * which scans them, too, and asks all readers; one of them in 256 goes that way, and of a replay
 * every second input. Read first: import_check.h.
 */
#ifndef SFT_FUZZ_READER_CHECK_H
#define SFT_FUZZ_READER_CHECK_H

#include "import/core/import.h"
#include "import_check.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { REPLAY = 0, WHOLE_WAYS = 256 };
#else
enum { REPLAY = 1, WHOLE_WAYS = 2 };
#endif

static bool is_of(const sft__import_reader *reader, const uint8_t *data, size_t size) {
    static uint8_t head[SFT__IMPORT_HEAD];
    static size_t filled;
    sft_source *source;
    sft_error err;
    const size_t n = size < sizeof head ? size : sizeof head;

    if (filled > n) {
        memset(head + n, 0, filled - n);
    }
    memcpy(head, data, n);
    filled = n;
    CHECK(sft_source_open_memory(&source, data, size, &fuzz_allocator, &err) == SFT_OK);
    const sft__import_probe probe = {head, n, size, source, &fuzz_allocator};
    const bool is = reader->probe(&probe);
    sft_source_close(source);
    return is;
}

/* As sft_import_open does it, or the scanner, of bytes that lie under fuzz_path. */
static void check_job(const uint8_t *data, size_t size, uint32_t flags, bool scanning) {
    sft_import_options options;
    sft_catalog *catalog = NULL;
    sft_source *source;
    sft__import job;
    sft_error err;

    SFT_INIT(&options);
    options.flags = flags;
    options.memory_bytes = 32 << 20;
    options.allocator = &fuzz_allocator;
    memset(&job, 0, sizeof job);
    memset(&err, 0, sizeof err);
    job.path = fuzz_path;
    job.scanning = scanning;
    job.walk_left = 1 << 20;
    CHECK(sft_source_open_memory(&source, data, size, &fuzz_allocator, &err) == SFT_OK);
    CHECK(sft__import_job_options(&job, &options, &err) == SFT_OK);
    const sft_status status = sft__import_job_read(&job, &catalog, source, &err);
    if (status == SFT_OK) {
        check_tensors(catalog);
        sft_catalog_close(catalog);
    } else {
        CHECK(err.status == (int32_t)status && err.message[0] != '\0' && catalog == NULL);
        CHECK(status != SFT_E_INTERNAL && status != SFT_E_STATE && status != SFT_E_ARG);
    }
    sft__import_job_reset(&job);
}

/* Of an input with this hash: is it scanned, too, and shown to all readers? */
static inline bool is_whole_way(uint32_t hash) {
    return (hash >> 7 & (WHOLE_WAYS - 1)) == 0;
}

/* Strictly, with everything allowed, or as a scan does: which, the hash of the input says. reader
 * NULL: whichever takes it. */
static inline void check_reader(const sft__import_reader *reader, uint32_t hash,
                                const uint8_t *data, size_t size) {
    const size_t before = fuzz_memory.out;
    const bool is = reader == NULL || is_of(reader, data, size);
    const uint32_t way = hash >> 15 & 7;

    if (is_whole_way(hash) && (is || REPLAY)) {
        check_file(data, size);
    } else if (is) {
        check_job(data, size,
                  way < 2 ? 0 : SFT_IMPORT_ALLOW_OPAQUE | SFT_IMPORT_NO_CRC | SFT_IMPORT_DEQUANTIZE,
                  way >= 6);
    }
    CHECK(fuzz_memory.out == before); /* everything was given back */
}

#endif
