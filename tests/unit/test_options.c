/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Every options structure of the core at every size that an older or a newer header may have given it.
 */
#include "unit/older.h"

#include "unit/move_util.h"
#include <sft/sft.h>

static const uint64_t shape[] = {2, 3};
static const float values[6] = {1, 2, 3, 4, 5, 6};
static const char *path; /* of a file of one tensor */
static sft_catalog *model;

static sft_status save_as(const char *to, const sft_write_options *options, sft_error *err) {
    const sft_save_tensor t = {"t", 1, sft_dtype_get(SFT_F32), shape, 2, 0, values, sizeof values};
    return sft_save(to, &t, 1, NULL, 0, options, err);
}

static sft_status opening(const void *options, sft_error *err) {
    sft_catalog *c;
    const sft_status status = sft_catalog_open(&c, path, options, err);
    sft_catalog_close(c);
    return status;
}

static sft_status limiting(const void *limits, sft_error *err) {
    sft_open_options o;
    SFT_INIT(&o);
    o.limits = limits;
    return opening(&o, err);
}

static sft_status reading(const void *options, sft_error *err) {
    float got[6];
    const sft_status status =
        sft_tensor_read(model, sft_catalog_at(model, 0), options, got, sizeof got, err);
    assert_true(status != SFT_OK || memcmp(got, values, sizeof got) == 0);
    return status;
}

static sft_status loading(const void *options, sft_error *err) {
    sft_loaded *loaded;
    const sft_status status = sft_load(&loaded, model, options, err);
    assert_true(status != SFT_OK || sft_loaded_count(loaded) == 1);
    sft_loaded_free(loaded);
    return status;
}

static sft_status controlling(const void *control, sft_error *err) {
    sft_load_options o;
    SFT_INIT(&o);
    o.control = control;
    return loading(&o, err);
}

static sft_status streaming(const void *options, sft_error *err) {
    sft_stream *stream;
    sft_stream_item item;
    sft_status status = sft_stream_create(&stream, model, options, err);
    if (status == SFT_OK && (status = sft_stream_add_all(stream, err)) == SFT_OK &&
        (status = sft_stream_next(stream, &item, err)) == SFT_OK) {
        assert_memory_equal(item.data, values, sizeof values);
        sft_stream_release(stream, &item);
    }
    sft_stream_free(stream);
    return status;
}

static sft_status verifying(const void *options, sft_error *err) {
    return sft_catalog_verify(model, options, NULL, err);
}

static sft_status writing(const void *options, sft_error *err) {
    const char *to = tmp_path("written");
    sft_status status = save_as(to, options, err);
    (void)unlink(to);
    return status;
}

static sft_status making_a_header(const void *options, sft_error *err) {
    const sft_save_tensor t = {"t", 1, sft_dtype_get(SFT_F32), shape, 2, 0, NULL, sizeof values};
    size_t size = 0;
    return sft_save_header(NULL, 0, &size, NULL, &t, 1, NULL, 0, options, err);
}

static sft_status writing_piece_by_piece(const void *options, sft_error *err) {
    const char *to = tmp_path("pieces");
    sft_writer *writer;
    const sft_status status = sft_writer_create(&writer, to, options, err);
    sft_writer_free(writer);
    return status;
}

static sft_status editing(const void *options, sft_error *err) {
    const sft_metadata_entry absent = {"absent", 6, NULL, 0};
    return sft_edit_metadata(path, &absent, 1, options, NULL, err);
}

static sft_status at_the_door(const void *options, sft_error *err) {
    sft_catalog *c;
    const sft_status status = sft_open(&c, path, NULL, options, err);
    sft_catalog_close(c);
    return status;
}

static sft_status through_the_door(const void *options, sft_error *err) {
    sft_door_options door;
    SFT_INIT(&door);
    door.open = options;
    return at_the_door(&door, err);
}

static void other_sizes(void **state) {
    static const older_row rows[] = {
        OLDER_ROW(sft_open_options, allocator, opening),
        OLDER_ROW(sft_door_options, row_count, at_the_door),
        OLDER_ROW(sft_open_options, allocator, through_the_door),
        OLDER_ROW(sft_limits, header_bytes, limiting),
        OLDER_ROW(sft_read_options, slice_count, reading),
        OLDER_ROW(sft_load_options, select, loading),
        OLDER_ROW(sft_control, ctx, controlling),
        OLDER_ROW(sft_stream_options, allocator, streaming),
        OLDER_ROW(sft_verify_options, struct_size, verifying),
        OLDER_ROW(sft_write_options, allocator, writing),
        OLDER_ROW(sft_write_options, allocator, making_a_header),
        OLDER_ROW(sft_write_options, allocator, writing_piece_by_piece),
        OLDER_ROW(sft_edit_options, allocator, editing),
    };
    sft_write_options o;
    sft_error err;
    char name[96];
    (void)state;
    (void)snprintf(name, sizeof name, "%s", tmp_path("options"));
    path = name;
    SFT_INIT(&o);
    o.digests = SFT_DIGEST_CRC32C;
    ok(save_as(path, &o, &err), &err);
    ok(sft_catalog_open(&model, path, NULL, &err), &err);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        older_check(&rows[i]);
    }
    sft_catalog_close(model);
    (void)unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
