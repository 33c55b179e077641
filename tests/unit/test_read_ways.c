/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of how bytes are fetched: few reads, upwards, in batches from afar; cancelling; files
 * cut short.
 */
#include "unit/cm.h"

#include "unit/move_util.h"

/* Small gaps are read over; a source that cannot go back is read upwards only. */
static void reads_are_few_and_ascending(void **state) {
    (void)state;
    const uint64_t shape[2] = {2000, 100};
    const sft_slice slices[2] = {{SFT_OMIT, SFT_OMIT, -1, SFT_SLICE_RANGE, 0},
                                 {10, 20, 1, SFT_SLICE_RANGE, 0}};
    sft_error err;
    size_t size;
    own_source own;
    rnd_state = 16;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_F32), shape, 2, 800000, 0, &size);
    sft_catalog *catalog = own_open(&own, file, size, SFT_SOURCE_SEQUENTIAL);
    sft_read_options o;
    uint8_t *got = malloc(2000 * 40);
    assert_non_null(got);
    SFT_INIT(&o);
    o.slices = slices;
    o.slice_count = 2;
    ok(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o, got, 2000 * 40, &err), &err);
    for (uint64_t i = 0; i < 2000; i++) {
        assert_memory_equal(got + i * 40, file + size - 800000 + (1999 - i) * 400 + 40, 40);
    }
    assert_true(own.reads <= 4);
    assert_false(own.went_back);
    assert_true(own.bytes <= 800000);
    free(got);
    sft_catalog_close(catalog);
    free(file);
}

/* A remote source is asked for many ranges at once, none of them huge. */
typedef struct remote_source {
    const uint8_t *data;
    size_t calls;
    size_t ranges;
    size_t singles;
    size_t largest;
    uint64_t fail_from;
} remote_source;

static sft_status remote_read_at(void *self, uint64_t offset, void *dst, size_t size,
                                 sft_error *err) {
    remote_source *r = self;
    r->singles++;
    if (offset >= r->fail_from) {
        return sft_error_at(err, SFT_E_IO, offset, NULL, 0, "lost");
    }
    memcpy(dst, r->data + offset, size);
    return SFT_OK;
}

static sft_status remote_read_many(void *self, const sft_io_batch *batch, sft_error *err) {
    const sft_io_range *ranges = batch->ranges;
    remote_source *r = self;
    sft_status status = SFT_OK;
    r->calls++;
    r->ranges += batch->count;
    for (size_t i = batch->count; i-- > 0;) {
        r->largest = ranges[i].size > r->largest ? ranges[i].size : r->largest;
        if (ranges[i].offset >= r->fail_from) {
            status = sft_error_at(err, SFT_E_IO, ranges[i].offset, NULL, 0, "lost");
            batch->done(batch->done_ctx, i, status, err);
        } else {
            memcpy(ranges[i].data, r->data + ranges[i].offset, ranges[i].size);
            batch->done(batch->done_ctx, i, SFT_OK, NULL);
        }
    }
    return status;
}

static void remote_sources_get_batches(void **state) {
    (void)state;
    const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = remote_read_at, .read_many = remote_read_many};
    const uint64_t shape[2] = {8, 5 << 20};
    const sft_slice rows[2] = {{SFT_OMIT, SFT_OMIT, -1, SFT_SLICE_RANGE, 0},
                               {0, 100, 1, SFT_SLICE_RANGE, 0}};
    remote_source own;
    sft_source *source;
    sft_catalog *catalog;
    sft_read_options o;
    sft_error err;
    size_t size;
    rnd_state = 20;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_U8), shape, 2, 40 << 20, 0, &size);
    uint8_t *got = malloc(40 << 20);
    assert_non_null(got);
    memset(&own, 0, sizeof own);
    own.data = file;
    own.fail_from = UINT64_MAX;
    ok(sft_source_create(&source, &vtable, &own,
                         &(sft_source_info){size, SFT_SOURCE_REMOTE, "far", NULL}, &err),
       &err);
    ok(sft_catalog_open_source(&catalog, source, NULL, &err), &err);
    own.singles = own.calls = own.ranges = 0;
    ok(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), NULL, got, 40 << 20, &err), &err);
    assert_memory_equal(got, file + size - (40 << 20), 40 << 20);
    assert_int_equal(own.calls, 1);
    assert_int_equal(own.ranges, 5);
    assert_int_equal(own.largest, 8 << 20);
    assert_int_equal(own.singles, 0);
    SFT_INIT(&o);
    o.slices = rows;
    o.slice_count = 2;
    ok(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o, got, 800, &err), &err);
    for (size_t i = 0; i < 8; i++) {
        assert_memory_equal(got + i * 100, file + size - (40 << 20) + (7 - i) * (5 << 20), 100);
    }
    assert_int_equal(own.calls, 2);
    assert_int_equal(own.ranges, 13);
    assert_int_equal(own.singles, 0);
    sft_catalog_close(catalog);
    free(got);
    free(file);
}

/* Columns: a source that likes ranges scattered is asked for what is wanted, others for all. */
static void scattered_columns(void **state) {
    enum { ROWS = 300, ROW = 5000, FROM = 100, WIDTH = 70 };
    const sft_source_vtable vtable = {
        .struct_size = sizeof vtable, .read_at = remote_read_at, .read_many = remote_read_many};
    const uint64_t shape[2] = {ROWS, ROW};
    const sft_slice near[2] = {{SFT_OMIT, SFT_OMIT, 1, SFT_SLICE_RANGE, 0},
                               {0, ROW, 7, SFT_SLICE_RANGE, 0}};
    const sft_slice part[2] = {{SFT_OMIT, SFT_OMIT, 1, SFT_SLICE_RANGE, 0},
                               {FROM, FROM + WIDTH, 1, SFT_SLICE_RANGE, 0}};
    static uint8_t got[ROWS * ROW / 7 + ROWS];
    sft_read_options o;
    sft_error err;
    size_t size;
    (void)state;
    rnd_state = 22;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_U8), shape, 2, ROWS * ROW, 0, &size);
    const uint8_t *data = file + size - ROWS * ROW;
    for (uint32_t k = 0; k < 2; k++) {
        remote_source own = {0};
        sft_source *source;
        sft_catalog *catalog;
        own.data = file;
        own.fail_from = UINT64_MAX;
        ok(sft_source_create(
               &source, &vtable, &own,
               &(sft_source_info){size, SFT_SOURCE_REMOTE | (k == 0 ? SFT_SOURCE_SCATTERED : 0),
                                  "far", NULL},
               &err),
           &err);
        ok(sft_catalog_open_source(&catalog, source, NULL, &err), &err);
        own.singles = own.calls = own.ranges = 0;
        SFT_INIT(&o);
        o.slices = part;
        o.slice_count = 2;
        ok(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o, got, ROWS * WIDTH, &err), &err);
        for (size_t i = 0; i < ROWS; i++) {
            assert_memory_equal(got + i * WIDTH, data + i * ROW + FROM, WIDTH);
        }
        assert_int_equal(own.calls, k == 0 ? 1 : 0);
        assert_int_equal(own.ranges, k == 0 ? ROWS : 0);
        assert_int_equal(own.singles, k == 0 ? 0 : 1);
        o.slices = near; /* gaps that cost less than a range */
        ok(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o, got, ROWS * ((ROW + 6) / 7),
                           &err),
           &err);
        assert_int_equal(got[1], data[7]);
        assert_int_equal(own.ranges, k == 0 ? ROWS : 0);
        sft_catalog_close(catalog);
    }
    free(file);
}

static int poll_after(void *ctx, const sft_progress *p) {
    int *left = ctx;
    assert_true(p->bytes_done <= p->bytes_total);
    return (*left)-- <= 0;
}

static void cancelling(void **state) {
    (void)state;
    const uint64_t shape[1] = {(uint64_t)48 << 20};
    sft_error err;
    size_t size;
    sft_pool *pool;
    rnd_state = 17;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_U8), shape, 1, shape[0], 0, &size);
    uint8_t *got = malloc((size_t)shape[0]);
    sft_catalog *catalog = file_open(file, size, SFT_ACCESS_READ);
    assert_non_null(got);
    ok(sft_pool_create(&pool, 3, NULL, &err), &err);
    for (int n = 0; n < 4; n++) {
        for (int with = 0; with < 2; with++) {
            int left = n;
            sft_read_options o;
            sft_control control;
            SFT_INIT(&o);
            SFT_INIT(&control);
            control.poll = poll_after;
            control.ctx = &left;
            o.control = &control;
            o.pool = with ? pool : NULL;
            assert_int_equal(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o, got,
                                             (size_t)shape[0], &err),
                             SFT_E_CANCELLED);
            assert_int_equal(err.status, SFT_E_CANCELLED);
            left = 1000;
            ok(sft_tensor_read(catalog, sft_catalog_at(catalog, 0), &o, got, (size_t)shape[0],
                               &err),
               &err);
        }
    }
    assert_memory_equal(got, file + size - shape[0], (size_t)shape[0]);
    sft_pool_free(pool);
    sft_catalog_close(catalog);
    free(got);
    free(file);
}

static void truncated_files_are_errors(void **state) {
    (void)state;
    const uint64_t shape[2] = {1000, 1000};
    const sft_slice column = {5, 9, 1, SFT_SLICE_RANGE, 0};
    const sft_slice slices[2] = {{SFT_OMIT, SFT_OMIT, 1, SFT_SLICE_RANGE, 0}, column};
    sft_error err;
    size_t size;
    rnd_state = 18;
    uint8_t *file = one_tensor_file(sft_dtype_get(SFT_F32), shape, 2, 4000000, 0, &size);
    uint8_t *got = malloc(4000000);
    sft_catalog *catalog = file_open(file, size, SFT_ACCESS_MAP);
    const void *lent;
    size_t lent_size;
    assert_non_null(got);
    ok(sft_tensor_borrow(catalog, sft_catalog_at(catalog, 0), &lent, &lent_size, &err), &err);
    assert_int_equal(lent_size, 4000000);
    assert_memory_equal(lent, file + size - 4000000, 4000000);
    const sft_tensor *t = sft_catalog_at(catalog, 0);
    sft_read_options o;
    SFT_INIT(&o);
#ifdef _WIN32
    /* nobody can cut a mapped file short there */
    assert_int_not_equal(truncate(tmp_path("safetensors"), 1000000), 0);
    ok(sft_tensor_read(catalog, t, &o, got, 4000000, &err), &err);
    assert_memory_equal(got, file + size - 4000000, 4000000);
    o.slices = slices;
    o.slice_count = 2;
    ok(sft_tensor_read(catalog, t, &o, got, 4000000, &err), &err);
#else
    assert_int_equal(truncate(tmp_path("safetensors"), 1000000), 0);
    assert_int_equal(sft_tensor_read(catalog, t, &o, got, 4000000, &err), SFT_E_TRUNCATED);
    assert_int_equal(err.status, SFT_E_TRUNCATED);
    assert_string_equal(err.tensor, "t");
    assert_true(err.offset != SFT_NO_OFFSET);
    o.slices = slices;
    o.slice_count = 2;
    assert_int_equal(sft_tensor_read(catalog, t, &o, got, 4000000, &err), SFT_E_TRUNCATED);
    o.dtype = sft_dtype_get(SFT_F64);
    assert_int_equal(sft_tensor_read(catalog, t, &o, got, 4000000, &err), SFT_E_TRUNCATED);
    assert_int_equal(sft_tensor_read_bytes(catalog, t, 3000000, got, 8, &err), SFT_E_TRUNCATED);
#endif
    sft_catalog_close(catalog);
    free(got);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_few_and_ascending), cmocka_unit_test(remote_sources_get_batches),
        cmocka_unit_test(scattered_columns),           cmocka_unit_test(cancelling),
        cmocka_unit_test(truncated_files_are_errors),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(tmp_path("safetensors"));
    return failed;
}
