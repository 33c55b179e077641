/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Callers that were compiled against an older header: their structures are shorter, what they lack
 * counts as zero, and nothing behind them is read or written. The bytes behind are 0xee here, which
 * no option survives. POSIX only.
 */
#include "unit/cm.h"

#include "checkpoint/names/names.h"
#include "unit/counting.h"
#include "unit/folder.h"
#include <sft/checkpoint_group.h>
#include <sft/dedupe.h>
#include <sft/names.h>
#include <sft/write.h>

static char base[64];

static const char layout_text[] =
    "{\"format\": \"safetensors-layout\", \"version\": 1, \"mesh\": {\"axes\": {\"x\": 2}}, "
    "\"tensors\": [{\"name\": \"w\", \"cuts\": [\"x\", null]}]}";

static int make_ranks(void **state) {
    static const uint64_t shape[] = {2, 3};
    (void)state;
    folder_make(base);
    for (uint32_t r = 0; r < 2; r++) {
        static const char *const folders[] = {"rank_0", "rank_1"};
        static const char *const files[] = {"rank_0/n-1_2.safetensors", "rank_1/n-1_2.safetensors"};
        const uint32_t values[6] = {6 * r, 6 * r + 1, 6 * r + 2, 6 * r + 3, 6 * r + 4, 6 * r + 5};
        uint8_t bytes[1024];
        sft_save_tensor t;
        size_t size;
        memset(&t, 0, sizeof t);
        t.name = "w";
        t.name_len = 1;
        t.dtype = sft_dtype_get(SFT_U32);
        t.shape = shape;
        t.rank = 2;
        t.data = values;
        t.nbytes = sizeof values;
        assert_int_equal(mkdir(in_folder(base, folders[r]), 0700), 0);
        assert_int_equal(sft_save_memory(bytes, sizeof bytes, &size, &t, 1, NULL, 0, NULL, NULL),
                         SFT_OK);
        write_file(in_folder(base, files[r]), bytes, size);
    }
    write_file(in_folder(base, "layout.json"), layout_text, sizeof layout_text - 1);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    folder_remove(base);
    return 0;
}

/* The structure as a caller has it who knows `size` bytes of it. */
static void shorten(void *options, size_t full, size_t size) {
    memset((char *)options + size, 0xee, full - size);
    memcpy(options, &size, sizeof size);
}
#define SHORTEN(p, member)                                                                         \
    shorten((p), sizeof *(p), offsetof(__typeof__(*(p)), member) + sizeof(p)->member)
#define NO_SIZE(p) shorten((p), sizeof *(p), sizeof(size_t))

static sft_checkpoint *open_ranks(void) {
    sft_checkpoint *c;
    sft_error err;
    assert_int_equal(sft_checkpoint_open(&c, base, NULL, &err), SFT_OK);
    return c;
}

static void opening(void **state) {
    sft_checkpoint_options o;
    sft_open_options open;
    sft_checkpoint *c;
    sft_resume *resume;
    sft_error err;
    (void)state;
    SFT_INIT(&open);
    SHORTEN(&open, allocator);
    SFT_INIT(&o);
    SHORTEN(&o, open);
    o.open = &open;
    assert_int_equal(sft_checkpoint_open(&c, base, &o, &err), SFT_OK);
    sft_checkpoint_close(c);
    assert_int_equal(sft_resume_find(&resume, base, &o, &err), SFT_OK);
    assert_string_equal(sft_resume_chosen(resume)->name, "-1_2");
    sft_resume_free(resume);
    c = open_ranks();
    sft_catalog *whole;
    sft_catalog *part;
    assert_int_equal(sft_checkpoint_join_ranks(&whole, c, &open, &err), SFT_OK);
    assert_int_equal(sft_checkpoint_part(&part, whole, 0, sft_layout_set_find_global,
                                         (void *)(uintptr_t)sft_checkpoint_layouts(c), &open, &err),
                     SFT_OK);
    sft_catalog_close(part);
    NO_SIZE(&open);
    assert_int_equal(sft_checkpoint_join_ranks(&part, c, &open, &err), SFT_E_ARG);
    assert_int_equal(sft_checkpoint_part(&part, whole, 0, sft_layout_set_find_global,
                                         (void *)(uintptr_t)sft_checkpoint_layouts(c), &open, &err),
                     SFT_E_ARG);
    sft_catalog_close(whole);
    sft_checkpoint_close(c);
    SFT_INIT(&open);
    SHORTEN(&open, allocator);
    NO_SIZE(&o);
    assert_int_equal(sft_checkpoint_open(&c, base, &o, &err), SFT_E_ARG);
    SFT_INIT(&o);
    o.open = &open;
    NO_SIZE(&open);
    assert_int_equal(sft_checkpoint_open(&c, base, &o, &err), SFT_E_ARG);
}

static void layouts(void **state) {
    sft_layout_set_options o;
    sft_layout_entry e;
    sft_layout_set *set;
    sft_error err;
    (void)state;
    SFT_INIT(&o);
    SHORTEN(&o, allocator);
    assert_int_equal(
        sft_layout_set_parse(&set, layout_text, sizeof layout_text - 1, "text", &o, &err), SFT_OK);
    SFT_INIT(&e);
    SHORTEN(&e, name);
    assert_int_equal(sft_layout_set_at(set, 0, &e, &err), SFT_OK);
    assert_string_equal(e.name, "w");
    assert_int_equal((uint32_t)e.match, 0xeeeeeeeeu); /* not the caller's */
    NO_SIZE(&e);
    assert_int_equal(sft_layout_set_at(set, 0, &e, &err), SFT_E_ARG);
    sft_layout_set_free(set);
    NO_SIZE(&o);
    assert_int_equal(
        sft_layout_set_parse(&set, layout_text, sizeof layout_text - 1, "text", &o, &err),
        SFT_E_ARG);
    SFT_INIT(&o); /* a plan, whose number of ranks the older header could not say */
    SHORTEN(&o, limits);
    static const char plan[] = "{\"tp_plan\": {\"a\": \"colwise\"}}";
    assert_int_equal(sft_layout_set_parse(&set, plan, sizeof plan - 1, "plan", &o, &err),
                     SFT_E_ARG);
}

static void jobs(void **state) {
    sft_checkpoint *const c = open_ranks();
    const sft_job_text text = {"a.txt", "a", 1};
    sft_dedupe_options d;
    sft_job_options o;
    sft_job_run_options run;
    sft_dedupe *dedupe;
    sft_job *job;
    sft_error err;
    (void)state;
    SFT_INIT(&d);
    SHORTEN(&d, allocator);
    assert_int_equal(sft_dedupe_create(&dedupe, c, &d, &err), SFT_OK);
    sft_dedupe_free(dedupe);
    assert_int_equal(sft_dedupe_expand(&dedupe, c, &d, &err), SFT_OK);
    sft_dedupe_free(dedupe);
    NO_SIZE(&d);
    assert_int_equal(sft_dedupe_create(&dedupe, c, &d, &err), SFT_E_ARG);
    SFT_INIT(&o);
    SHORTEN(&o, allocator);
    assert_int_equal(sft_job_create(&job, NULL, 0, &text, 1, &o, &err), SFT_OK);
    SFT_INIT(&run);
    SHORTEN(&run, pool);
    sft_job_result result;
    memset(&result, 0xee, sizeof result);
    SHORTEN(&result, bytes_written);
    assert_int_equal(sft_job_run(job, in_folder(base, "out"), &run, &result, &err), SFT_OK);
    assert_true(result.bytes_written < 0xeeee && result.bytes_read == 0xeeeeeeeeeeeeeeee);
    NO_SIZE(&run);
    assert_int_equal(sft_job_run(job, in_folder(base, "out"), &run, NULL, &err), SFT_E_ARG);
    SFT_INIT(&run);
    NO_SIZE(&result);
    assert_int_equal(sft_job_run(job, in_folder(base, "out"), &run, &result, &err), SFT_E_ARG);
    sft_job_free(job);
    NO_SIZE(&o);
    assert_int_equal(sft_job_create(&job, NULL, 0, &text, 1, &o, &err), SFT_E_ARG);
    assert_int_equal(unlink(in_folder(base, "out/a.txt")), 0);
    sft_checkpoint_close(c);
}

static void names(void **state) {
    sft_checkpoint *const c = open_ranks();
    sft_names_options o;
    sft_names_result result;
    sft_catalog *whole;
    sft_catalog *renamed;
    sft_names *parsed;
    sft_error err;
    (void)state;
    const char *const text = sft_names_shipped_text(sft__checkpoint_names_shipped(0, NULL));
    assert_non_null(text);
    assert_int_equal(sft_names_parse(&parsed, text, strlen(text), NULL, &err), SFT_OK);
    assert_int_equal(sft_checkpoint_take_global(&whole, c, NULL, &err), SFT_OK);
    SFT_INIT(&o);
    SHORTEN(&o, open);
    SFT_INIT(&result);
    SHORTEN(&result, renamed);
    const sft_status plain = sft_names_apply(&renamed, whole, parsed, NULL, NULL, NULL);
    sft_catalog_close(renamed);
    assert_int_equal(sft_names_apply(&renamed, whole, parsed, &o, &result, &err), plain);
    sft_catalog_close(renamed);
    assert_int_equal(result.renamed, 0);
    assert_true(result.fused == UINT64_C(0xeeeeeeeeeeeeeeee)); /* not the caller's */
    NO_SIZE(&o);
    assert_int_equal(sft_names_apply(&renamed, whole, parsed, &o, NULL, &err), SFT_E_ARG);
    NO_SIZE(&result);
    assert_int_equal(sft_names_apply(&renamed, whole, parsed, NULL, &result, &err), SFT_E_ARG);
    sft_names_free(parsed);
    sft_catalog_close(whole);
}

static void groups(void **state) {
    const uint64_t shape[] = {4, 3};
    uint32_t values[12];
    sft_group_tensor t;
    sft_group_save_options save;
    sft_group_load_options load;
    sft_checkpoint_options source;
    sft_group group;
    sft_error err;
    (void)state;
    memset(&t, 0, sizeof t);
    t.name = "w";
    t.name_len = 1;
    t.dtype = sft_dtype_get(SFT_U32);
    t.shape = shape;
    t.dims = 2;
    t.data = values;
    t.nbytes = sizeof values;
    SFT_INIT(&source);
    SHORTEN(&source, open);
    SFT_INIT(&load);
    SHORTEN(&load, source);
    load.source = &source;
    sft_group_result result;
    memset(&result, 0xee, sizeof result);
    SHORTEN(&result, bytes);
    assert_int_equal(sft_checkpoint_load_group(NULL, base, &t, 1, &load, &result, &err), SFT_OK);
    assert_true(result.bytes == sizeof values && result.tensors == 0xeeeeeeeeeeeeeeee);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(values[i], i);
    }
    NO_SIZE(&result);
    assert_int_equal(sft_checkpoint_load_group(NULL, base, &t, 1, &load, &result, &err), SFT_E_ARG);
    NO_SIZE(&source);
    assert_int_equal(sft_checkpoint_load_group(NULL, base, &t, 1, &load, NULL, &err), SFT_E_ARG);
    NO_SIZE(&load);
    assert_int_equal(sft_checkpoint_load_group(NULL, base, &t, 1, &load, NULL, &err), SFT_E_ARG);
    SFT_INIT(&save);
    SHORTEN(&save, allocator);
    assert_int_equal(
        sft_checkpoint_save_group(NULL, in_folder(base, "saved"), &t, 1, &save, NULL, &err),
        SFT_OK);
    NO_SIZE(&save);
    assert_int_equal(
        sft_checkpoint_save_group(NULL, in_folder(base, "again"), &t, 1, &save, NULL, &err),
        SFT_E_ARG);
    SFT_INIT(&group);
    group.size = 1;
    NO_SIZE(&group);
    assert_int_equal(sft_checkpoint_load_group(&group, base, &t, 1, NULL, NULL, &err), SFT_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(opening, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(layouts, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(jobs, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(names, make_ranks, remove_folder),
        cmocka_unit_test_setup_teardown(groups, make_ranks, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
