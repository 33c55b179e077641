/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Every options structure of <sft/import.h> at every size that an older or a newer header may have given it.
 */
#include "unit/counting.h"
#include "unit/older.h"

#include <sft/import.h>
#include <sft/sft.h>
#include <stdio.h>
#include <unistd.h>

static sft_catalog *model; /* one tensor, in memory */
static char npz[64];       /* the same as numpy's archive */
static char out[64];

static sft_status opening(const void *options, sft_error *err) {
    sft_catalog *c;
    const sft_status status = sft_import_open(&c, npz, options, NULL, err);
    assert_true(status != SFT_OK || sft_catalog_count(c) == 1);
    sft_catalog_close(c);
    return status;
}

static sft_status scanning(const void *options, sft_error *err) {
    sft_import_report *report;
    const sft_status status = sft_scan(&report, npz, options, err);
    sft_import_report_free(report);
    return status;
}

static sft_status converting(const void *options, sft_error *err) {
    const char *const inputs[] = {npz};
    const sft_status status = sft_import_convert(inputs, 1, out, options, NULL, NULL, err);
    (void)unlink(out);
    return status;
}

static sft_status converting_read(const void *options, sft_error *err) {
    sft_import_convert_options o;
    SFT_INIT(&o);
    o.read = options;
    return converting(&o, err);
}

static sft_status converting_write(const void *options, sft_error *err) {
    sft_import_convert_options o;
    SFT_INIT(&o);
    o.write = options;
    return converting(&o, err);
}

/* At the one door, where nobody else knows the file. */
static sft_status opening_at_door(const void *options, sft_error *err) {
    const sft_opener_row rows[] = {{sft_catalog_opener(), NULL}, {sft_import_opener(), options}};
    const sft_opener *taken_by;
    sft_door_options door;
    sft_catalog *c;
    SFT_INIT(&door);
    door.rows = rows;
    door.row_count = 2;
    door.taken_by = &taken_by;
    const sft_status status = sft_open(&c, npz, NULL, &door, err);
    assert_ptr_equal(taken_by, sft_import_opener());
    if (status == SFT_OK) {
        sft_import_report *report = sft_import_report_take(c);
        assert_int_equal(sft_import_report_format(report), SFT_IMPORT_NPZ);
        assert_null(sft_import_report_take(c));
        sft_import_report_free(report);
    }
    sft_catalog_close(c);
    return status;
}

/* The same with memory that runs out at the n-th call, for every n. */
static void starved(void) {
    for (size_t n = 1;; n++) {
        const sft_opener_row rows[] = {{sft_catalog_opener(), NULL}, {sft_import_opener(), NULL}};
        sft_door_options door;
        sft_open_options open;
        sft_catalog *c;
        counting memory;
        counting_init(&memory);
        memory.fail_from = n;
        SFT_INIT(&door);
        SFT_INIT(&open);
        open.allocator = &memory.allocator;
        door.open = &open;
        door.rows = rows;
        door.row_count = 2;
        const sft_status status = sft_open(&c, npz, NULL, &door, NULL);
        sft_catalog_close(c);
        assert_all_given_back(&memory);
        if (memory.calls < n) {
            assert_int_equal(status, SFT_OK);
            return;
        }
    }
}

static sft_status exporting(const void *options, sft_error *err) {
    const sft_status status = sft_import_export(model, SFT_IMPORT_NPZ, out, options, NULL, err);
    (void)unlink(out);
    return status;
}

static void other_sizes(void **state) {
    static const older_row rows[] = {
        OLDER_ROW(sft_import_options, limits, opening),
        OLDER_ROW(sft_import_options, limits, opening_at_door),
        OLDER_ROW(sft_import_options, limits, scanning),
        OLDER_ROW(sft_import_convert_options, read, converting),
        OLDER_ROW(sft_import_options, limits, converting_read),
        OLDER_ROW(sft_write_options, allocator, converting_write),
        {"sft_export_options", sizeof(sft_export_options), offsetof(sft_export_options, pool),
         exporting},
    };
    static const uint64_t shape[] = {4};
    static uint8_t file[1024];
    const sft_save_tensor t = {"t", 1, sft_dtype_get(SFT_U8), shape, 1, 0, "1234", 4};
    size_t size;
    sft_error err;
    (void)state;
    (void)snprintf(npz, sizeof npz, "options-%ld.npz", (long)getpid());
    (void)snprintf(out, sizeof out, "options-%ld.out", (long)getpid());
    assert_int_equal(sft_save_memory(file, sizeof file, &size, &t, 1, NULL, 0, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_open_memory(&model, file, size, NULL, &err), SFT_OK);
    assert_int_equal(sft_import_export(model, SFT_IMPORT_NPZ, npz, NULL, NULL, &err), SFT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        older_check(&rows[i]);
    }
    starved();
    sft_catalog_close(model);
    (void)unlink(npz);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
