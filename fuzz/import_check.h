/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/import_check.h - for the fuzz targets of the import wing: any bytes as a file, scanned,
 * opened strictly and with everything allowed, and read. A target that includes this is linked with
 * the wing.
 */
#ifndef SFT_FUZZ_IMPORT_CHECK_H
#define SFT_FUZZ_IMPORT_CHECK_H

#include "fuzz.h"
#include <sft/import.h>
#include <sft/read.h>

enum { READ_MOST = 1 << 16 };

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

static void check_open(const uint8_t *data, size_t size, uint32_t flags, int *taken) {
    sft_import_options options;
    sft_catalog *catalog;
    sft_source *source;
    sft_error err;

    SFT_INIT(&options);
    options.flags = flags;
    options.memory_bytes = 32 << 20;
    memset(&err, 0, sizeof err);
    CHECK(sft_source_open_memory(&source, data, size, NULL, &err) == SFT_OK);
    const sft_status status = sft_import_open_source(&catalog, source, &options, NULL, &err);
    *taken = status == SFT_OK;
    if (status == SFT_OK) {
        check_tensors(catalog);
        sft_catalog_close(catalog);
    } else {
        CHECK(err.status == (int32_t)status && err.message[0] != '\0' && catalog == NULL);
        CHECK(status != SFT_E_INTERNAL && status != SFT_E_STATE && status != SFT_E_ARG);
    }
}

static void check_file(const uint8_t *data, size_t size) {
    sft_import_options options;
    sft_import_report *report;
    sft_source *source;
    sft_error err;
    int strict;
    int opaque;

    check_open(data, size, 0, &strict);
    check_open(data, size, SFT_IMPORT_ALLOW_OPAQUE | SFT_IMPORT_NO_CRC | SFT_IMPORT_DEQUANTIZE,
               &opaque);
    CHECK(!strict || opaque);
    SFT_INIT(&options);
    options.memory_bytes = 32 << 20;
    options.flags = SFT_IMPORT_CHECKSUMS;
    memset(&err, 0, sizeof err);
    CHECK(sft_source_open_memory(&source, data, size, NULL, &err) == SFT_OK);
    CHECK(sft_scan_source(&report, source, &options, &err) == SFT_OK);
    int broken = 0;
    uint32_t worst = SFT_SCAN_HARMLESS;
    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        broken |= f->kind == SFT_FINDING_BROKEN;
        worst = f->verdict > worst ? f->verdict : worst;
        CHECK(f->message[0] != '\0' && f->count >= 1);
    }
    CHECK(sft_import_report_verdict(report) >= worst);
    CHECK(!strict || !broken); /* what loads is never broken to the scanner */
    sft_import_report_free(report);
}

#endif
