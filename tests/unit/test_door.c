/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of the one door (sft_open): what an operand is, in which order openers see it, whose error is
 * the answer, and who owns what. Other libraries' openers are tested with them. POSIX only.
 */
#include "unit/cm.h"
#include "unit/counting.h"
#include "unit/folder.h"
#include <sft/extend.h>
#include <sft/sft.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static char base[64];
static uint8_t model[512];
static size_t model_size;

static int make(void **state) {
    static const char index[] = "{\"weight_map\": {\"t\": \"model.safetensors\"}}";
    static const uint64_t shape[] = {4};
    const sft_save_tensor t = {"t", 1, sft_dtype_get(SFT_U8), shape, 1, 0, "1234", 4};
    (void)state;
    folder_make(base);
    assert_int_equal(sft_save_memory(model, sizeof model, &model_size, &t, 1, NULL, 0, NULL, NULL),
                     SFT_OK);
    write_file(in_folder(base, "model.safetensors"), model, model_size);
    write_file(in_folder(base, "index.json"), index, sizeof index - 1);
    write_file(in_folder(base, "other.bin"), "\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7fother", 13);
    assert_int_equal(mkdir(in_folder(base, "empty"), 0700), 0);
    return 0;
}

static int drop(void **state) {
    (void)state;
    folder_remove(base);
    return 0;
}

/* ---------------------------------------------------------------- openers of ours */

typedef struct witness {
    uint32_t kind; /* seen */
    int32_t refused;
    bool bytes;
    size_t calls;
    sft_status answer; /* but SFT_OK: "mine, and broken" */
    bool take;         /* makes a catalog of the model in memory */
} witness;

static sft_status look(sft_operand *operand, const void *options, sft_catalog **out,
                       sft_error *err) {
    witness *w = (witness *)(uintptr_t)options;
    assert_null(*out);
    w->kind = operand->kind;
    w->refused = operand->refused.status;
    w->bytes = operand->source != NULL;
    w->calls++;
    if (w->answer != SFT_OK) {
        return sft_error_set(err, w->answer, 0, "mine");
    }
    return w->take ? sft_catalog_open_memory(out, model, model_size, operand->open, err) : SFT_OK;
}

static const sft_opener ours = {sizeof ours, look};

/* A witness before the core's opener, and one behind. */
static sft_status open_between(const char *path, sft_source *source, witness w[2],
                               sft_catalog **out, const sft_opener **taken_by, sft_error *err) {
    const sft_opener_row rows[] = {{&ours, &w[0]}, {sft_catalog_opener(), NULL}, {&ours, &w[1]}};
    sft_door_options door;
    SFT_INIT(&door);
    door.rows = rows;
    door.row_count = 3;
    door.taken_by = taken_by;
    return sft_open(out, path, source, &door, err);
}

static void expect(const char *path, sft_source *source, uint32_t kind, sft_status status) {
    witness w[2] = {{0}, {0}};
    const sft_opener *taken_by;
    sft_catalog *c;
    sft_error err;
    memset(&err, 0, sizeof err);
    assert_int_equal(open_between(path, source, w, &c, &taken_by, &err), status);
    assert_int_equal(w[0].kind, kind);
    assert_int_equal(w[0].refused, SFT_OK);
    assert_int_equal(w[0].bytes, kind == SFT_OPERAND_FILE || kind == SFT_OPERAND_BYTES);
    assert_int_equal(w[1].calls, status != SFT_OK); /* only what the core leaves */
    assert_int_equal(w[1].refused, kind == SFT_OPERAND_URL ? SFT_OK : status);
    assert_ptr_equal(taken_by, status == SFT_OK ? sft_catalog_opener() : NULL);
    if (status == SFT_OK) {
        assert_int_equal(sft_catalog_count(c), 1);
    } else {
        assert_null(c);
        assert_int_equal(err.status, status);
    }
    sft_catalog_close(c);
}

static sft_source *bytes(const void *data, size_t size) {
    sft_source *source;
    assert_int_equal(sft_source_open_memory(&source, data, size, NULL, NULL), SFT_OK);
    return source;
}

/* ---------------------------------------------------------------- tests */

static void kinds_of_operands(void **state) {
    static const char index[] = "{\"weight_map\": {\"t\": \"model.safetensors\"}}";
    (void)state;
    expect(in_folder(base, "model.safetensors"), NULL, SFT_OPERAND_FILE, SFT_OK);
    expect(in_folder(base, "index.json"), NULL, SFT_OPERAND_FILE, SFT_OK);
    expect(base, NULL, SFT_OPERAND_DIRECTORY, SFT_OK);
    expect(in_folder(base, "empty"), NULL, SFT_OPERAND_DIRECTORY, SFT_E_FORMAT);
    expect(in_folder(base, "absent"), NULL, SFT_OPERAND_NOTHING, SFT_E_IO);
    expect(in_folder(base, "other.bin"), NULL, SFT_OPERAND_FILE, SFT_E_HEADER_TOO_LARGE);
    expect(NULL, bytes(model, model_size), SFT_OPERAND_BYTES, SFT_OK);
    expect(NULL, bytes("", 0), SFT_OPERAND_BYTES, SFT_E_TOO_SMALL);
    /* bytes have no directory that shards could lie in */
    expect(NULL, bytes(index, sizeof index - 1), SFT_OPERAND_BYTES, SFT_E_HEADER_TOO_LARGE);
    expect("https://h/model.safetensors", NULL, SFT_OPERAND_URL, SFT_E_UNSUPPORTED);
}

static void urls(void **state) {
    static const char *const yes[] = {"https://", "http://h", "hf://a/b", "s3://b/k", "HTTPS://H"};
    static const char *const no[] = {
        "", "h", "https:/h", "https:", "file:///x", "./https://", "c:/x"};
    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        assert_true(sft_operand_is_url(yes[i]));
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        assert_false(sft_operand_is_url(no[i]));
    }
}

static void whose_answer_counts(void **state) {
    const sft_opener *taken_by;
    sft_catalog *c;
    sft_error err;
    (void)state;
    witness first[2] = {{.answer = SFT_E_SCHEMA}, {0}}; /* its own: nobody else is asked */
    assert_int_equal(open_between(base, NULL, first, &c, &taken_by, &err), SFT_E_SCHEMA);
    assert_string_equal(err.message, "mine");
    assert_ptr_equal(taken_by, &ours);
    assert_int_equal(first[1].calls, 0);
    assert_null(c);
    witness last[2] = {{0}, {.take = true}};
    assert_int_equal(open_between(in_folder(base, "other.bin"), NULL, last, &c, &taken_by, &err),
                     SFT_OK);
    assert_ptr_equal(taken_by, &ours);
    assert_true(last[1].bytes); /* those that the core has refused, open still */
    assert_int_equal(last[1].refused, SFT_E_HEADER_TOO_LARGE);
    sft_catalog_close(c);
    const sft_opener_row alone = {&ours, &(witness){0}};
    sft_door_options door;
    SFT_INIT(&door);
    door.rows = &alone;
    door.row_count = 1;
    assert_int_equal(sft_open(&c, base, NULL, &door, &err), SFT_E_FORMAT);
    assert_int_equal(sft_open(&c, in_folder(base, "absent"), NULL, &door, &err), SFT_E_IO);
}

static void defaults_and_faults(void **state) {
    sft_door_options door;
    sft_open_options open;
    sft_catalog *c;
    sft_error err;
    (void)state;
    assert_int_equal(sft_open(&c, base, NULL, NULL, &err), SFT_OK); /* the core's opener alone */
    sft_catalog_close(c);
    assert_int_equal(sft_open(&c, NULL, NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_open(NULL, base, NULL, NULL, &err), SFT_E_ARG);
    /* taken over in every case, also where both are given */
    assert_int_equal(sft_open(&c, base, bytes(model, model_size), NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_open(NULL, NULL, bytes(model, model_size), NULL, NULL), SFT_E_ARG);
    SFT_INIT(&door);
    SFT_INIT(&open);
    door.open = &open;
    open.flags = 1u << 31;
    assert_int_equal(sft_open(&c, base, NULL, &door, &err), SFT_E_ARG);
}

static void count_drop(void *object) {
    ++*(size_t *)object;
}

static void what_comes_with_a_catalog(void **state) {
    size_t dropped[3] = {0, 0, 0};
    sft_catalog *c;
    sft_error err;
    (void)state;
    assert_int_equal(sft_open(&c, NULL, bytes(model, model_size), NULL, &err), SFT_OK);
    assert_null(sft_catalog_attached(c, "a"));
    assert_int_equal(sft_catalog_attach(c, "a", &dropped[0], count_drop, &err), SFT_OK);
    assert_int_equal(sft_catalog_attach(c, "b", &dropped[1], count_drop, &err), SFT_OK);
    assert_int_equal(sft_catalog_attach(c, "c", &dropped[2], count_drop, &err), SFT_OK);
    assert_ptr_equal(sft_catalog_attached(c, "a"), &dropped[0]);
    assert_ptr_equal(sft_catalog_detach(c, "b"), &dropped[1]);
    assert_null(sft_catalog_detach(c, "b"));
    sft_catalog_close(c);
    assert_int_equal(dropped[0], 1);
    assert_int_equal(dropped[1], 0);
    assert_int_equal(dropped[2], 1);
}

/* Memory that runs out at the n-th call, for every n. */
static void starved(void **state) {
    static const char *const names[] = {"", "model.safetensors", "index.json", "other.bin",
                                        "empty"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path = names[i][0] != '\0' ? in_folder(base, names[i]) : base;
        for (size_t n = 1;; n++) {
            sft_door_options door;
            sft_open_options open;
            sft_catalog *c;
            sft_error err;
            counting memory;
            counting_init(&memory);
            memory.fail_from = n;
            SFT_INIT(&door);
            SFT_INIT(&open);
            open.allocator = &memory.allocator;
            door.open = &open;
            const sft_status status = sft_open(&c, path, NULL, &door, &err);
            sft_catalog_close(c);
            assert_all_given_back(&memory);
            if (memory.calls < n) {
                assert_int_equal(status == SFT_OK, i < 3);
                break;
            }
            assert_int_not_equal(status, SFT_OK);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kinds_of_operands, make, drop),
        cmocka_unit_test(urls),
        cmocka_unit_test_setup_teardown(whose_answer_counts, make, drop),
        cmocka_unit_test_setup_teardown(defaults_and_faults, make, drop),
        cmocka_unit_test_setup_teardown(what_comes_with_a_catalog, make, drop),
        cmocka_unit_test_setup_teardown(starved, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
