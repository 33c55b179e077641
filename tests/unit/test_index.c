/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of format/index.c: the index of a model in several files, and what its file names may
 * be.
 */
#include "unit/counting.h"

#include "base/text/buf.h"
#include "format/index.h"

static sft_status parse(sft__format_index *x, const char *text, sft_error *err) {
    memset(err, 0, sizeof *err);
    return sft__format_index_parse(x, text, strlen(text), NULL, err);
}

static void facts_of_an_index(void **state) {
    (void)state;
    static const char text[] =
        " {\"metadata\": {\"x\": [1, {\"total_size\": 3}], \"total_size\" : 123},\n"
        "  \"weight_map\": {\"a\": \"m-1.safetensors\", \"\\u00e9\": \"m-2.\\u0073afetensors\", "
        "\"\": \"f\"},"
        "  \"other\": [null, true, false, -1.5e3]}\n ";
    sft__format_index x;
    sft_error err;
    assert_int_equal(parse(&x, text, &err), SFT_OK);
    assert_int_equal(x.entry_count, 3);
    assert_string_equal(x.entries[0].name, "a");
    assert_int_equal(x.entries[0].name_len, 1);
    assert_string_equal(x.entries[0].file, "m-1.safetensors");
    assert_int_equal(x.entries[0].offset, strstr(text, "\"a\"") - text);
    assert_string_equal(x.entries[1].name, "\xc3\xa9");
    assert_string_equal(x.entries[1].file, "m-2.safetensors");
    assert_int_equal(x.entries[1].file_len, 15);
    assert_int_equal(sft__base_strmap_find(&x.names, "\xc3\xa9", 2), 1);
    assert_int_equal(sft__base_strmap_find(&x.names, "", 0), 2);
    assert_int_equal(sft__base_strmap_find(&x.names, "b", 1), SFT__STRMAP_NONE);
    assert_true(x.has_total_size);
    assert_int_equal(x.total_size, 123);
    sft__format_index_reset(&x);
    sft__format_index_reset(&x);
}

static void total_size_counts_only_as_a_plain_integer(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool has;
        uint64_t value;
    } rows[] = {
        {"{\"weight_map\":{}}", false, 0},
        {"{\"weight_map\":{},\"metadata\":null}", false, 0},
        {"{\"weight_map\":{},\"metadata\":{}}", false, 0},
        {"{\"weight_map\":{},\"metadata\":{\"total_size\":18446744073709551615}}", true,
         UINT64_MAX},
        {"{\"weight_map\":{},\"metadata\":{\"total_size\":18446744073709551616}}", false, 0},
        {"{\"weight_map\":{},\"metadata\":{\"total_size\":1.0}}", false, 0},
        {"{\"weight_map\":{},\"metadata\":{\"total_size\":-1}}", false, 0},
        {"{\"weight_map\":{},\"metadata\":{\"total_size\":\"5\"}}", false, 0},
        {"{\"weight_map\":{},\"metadata\":{\"total_size\":{}}}", false, 0},
        {"{\"weight_map\":{},\"total_size\":5}", false, 0},
        {"{\"metadata\":{\"total\\u005fsize\":0},\"weight_map\":{}}", true, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft__format_index x;
        sft_error err;
        assert_int_equal(parse(&x, rows[i].text, &err), SFT_OK);
        assert_int_equal(x.has_total_size, rows[i].has);
        assert_int_equal(x.total_size, rows[i].value);
        assert_int_equal(x.entry_count, 0);
        sft__format_index_reset(&x);
    }
}

static void faults_have_a_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        sft_status status;
        uint64_t offset;
    } rows[] = {
        {"", SFT_E_JSON, 0},
        {"[]", SFT_E_INDEX, 0},
        {"\"x\"", SFT_E_INDEX, 0},
        {"version https", SFT_E_JSON, 0},
        {"{}", SFT_E_INDEX, 0},
        {"{\"weight_map\":[]}", SFT_E_INDEX, 14},
        {"{\"weight_map\":{\"a\":1}}", SFT_E_INDEX, 19},
        {"{\"weight_map\":{\"a\":null}}", SFT_E_INDEX, 19},
        {"{\"weight_map\":{\"a\" \"b\"}}", SFT_E_JSON, 19},
        {"{\"weight_map\":{\"a\":\"b\",}}", SFT_E_JSON, 23},
        {"{\"weight_map\":{\"a\":\"b\" \"c\":\"d\"}}", SFT_E_JSON, 23},
        {"{\"weight_map\":{\"a\":\"b\",\"a\":\"c\"}}", SFT_E_DUPLICATE, 23},
        {"{\"weight_map\":{\"a\":\"b\",\"\\u0061\":\"c\"}}", SFT_E_DUPLICATE, 23},
        {"{\"weight_map\":{},\"weight_map\":{}}", SFT_E_DUPLICATE, 17},
        {"{\"weight_map\":{}} x", SFT_E_JSON, 18},
        {"{\"weight_map\":{}", SFT_E_JSON, 16},
        {"{\"weight_map\":{\"a\":\"b", SFT_E_JSON, 19},
        {"{\"weight_map\":{\"a", SFT_E_JSON, 15},
        {"{\"weight_map\" {}}", SFT_E_JSON, 14},
        {"{weight_map:{}}", SFT_E_JSON, 1},
        {"{\"weight\\x\":{}}", SFT_E_JSON, 8},
        {"{\"x\":1e999,\"weight_map\":{}}", SFT_E_JSON, 5},
        {"{\"metadata\":{\"total_size\":1e999},\"weight_map\":{}}", SFT_E_JSON, 26},
        {"{\"metadata\":{\"total_size\":01},\"weight_map\":{}}", SFT_E_JSON, 26},
        {"{\"metadata\":{\"a\":},\"weight_map\":{}}", SFT_E_JSON, 17},
        {"{\"metadata\":{\"a\"},\"weight_map\":{}}", SFT_E_JSON, 16},
        {"{\"metadata\":{1:2},\"weight_map\":{}}", SFT_E_JSON, 13},
        {"{\"a\":\"\xff\",\"weight_map\":{}}", SFT_E_UTF8, 6},
        {"{\"a\":\"\x01\",\"weight_map\":{}}", SFT_E_JSON, 6},
        {"{\"weight_map\":\x7f", SFT_E_INDEX, 14},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sft__format_index x;
        sft_error err;
        const sft_status status = parse(&x, rows[i].text, &err);
        if (status != rows[i].status || err.offset != rows[i].offset) {
            fail_msg("%s: %s at %llu: %s", rows[i].text, sft_status_name(status),
                     (unsigned long long)err.offset, err.message);
        }
        assert_null(x.entries);
    }
}

static void limits_are_kept(void **state) {
    (void)state;
    static const char text[] = "{\"weight_map\":{\"abc\":\"f\",\"d\":\"f\"}}";
    sft_limits limits;
    sft_open_options options;
    sft__format_index x;
    sft_error err = {0};
    SFT_INIT(&limits);
    SFT_INIT(&options);
    options.limits = &limits;
    limits.tensors = 2;
    limits.name_bytes = 3;
    assert_int_equal(sft__format_index_parse(&x, text, sizeof text - 1, &options, &err), SFT_OK);
    sft__format_index_reset(&x);
    limits.tensors = 1;
    assert_int_equal(sft__format_index_parse(&x, text, sizeof text - 1, &options, &err),
                     SFT_E_LIMIT);
    assert_int_equal(err.offset, 25);
    limits.tensors = 0;
    limits.name_bytes = 2;
    assert_int_equal(sft__format_index_parse(&x, text, sizeof text - 1, &options, &err),
                     SFT_E_LIMIT);
    assert_int_equal(err.offset, 15);
    limits.name_bytes = 0;
    limits.memory_bytes = 50;
    assert_int_equal(sft__format_index_parse(&x, text, sizeof text - 1, &options, &err),
                     SFT_E_LIMIT);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    sft_status status = SFT_E_NOMEM;
    sft_open_options options;
    counting c;
    sft__base_buf b;

    SFT_INIT(&options);
    counting_init(&c);
    options.allocator = &c.allocator;
    sft__base_buf_init(&b, NULL);
    sft__base_buf_text(&b, "{\"weight_map\":{");
    for (size_t i = 0; i < 1000; i++) {
        sft__base_buf_text(&b, i != 0 ? ",\"\\n" : "\"\\n");
        sft__base_buf_u64(&b, i);
        sft__base_buf_text(&b, "\":\"\\u0066ile\"");
    }
    sft__base_buf_text(&b, "}}");
    for (size_t k = 1; status != SFT_OK; k++) {
        sft__format_index x;
        sft_error err = {0};
        c.calls = 0;
        c.fail_from = k;
        status = sft__format_index_parse(&x, b.data, b.len, &options, &err);
        assert_true(status == SFT_OK || status == SFT_E_NOMEM);
        assert_int_equal(err.status, status);
        sft__format_index_reset(&x);
        assert_all_given_back(&c);
        assert_true(k < 100);
    }
    sft__base_buf_reset(&b);
}

static void file_names_stay_inside(void **state) {
    (void)state;
    static const char *const good[] = {
        "model.safetensors",
        "a/b/c.safetensors",
        "model-00001-of-00002.safetensors",
        "..a",
        "a..b",
        ".hidden",
        "con1",
        "console",
        "com10",
        "COM",
        "lpt",
        "nul_",
        "a b",
        "\xc3\xa9",
        "aux_file.bin",
        "-",
        "~",
        "COM\xc2\xb4",
        "CONIN",
        "a/.git/b",
    };
    static const char *const bad[] = {
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "a/../b",
        "a/..",
        ".",
        "./a",
        "a/./b",
        "a//b",
        "a/",
        "a\\b",
        "\\\\host\\share",
        "C:x",
        "c:\\x",
        "a:stream",
        "a\nb",
        "\x01",
        "\x7f",
        "con",
        "CON",
        "Con.txt",
        "nul",
        "a/NUL",
        "NUL.tar.gz",
        "aux",
        "prn",
        "com1",
        "COM0",
        "LPT9.x",
        "lpt1 .x",
        "COM\xc2\xb9",
        "LPT\xc2\xb2.a",
        "com\xc2\xb3",
        "CONIN$",
        "conout$",
        "a.",
        "a ",
        "a./b",
        "b/a ",
        " ",
        "con ",
    };
    char longest[4097];
    sft_error err;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (sft__format_shard_name_check(good[i], strlen(good[i]), &err) != SFT_OK) {
            fail_msg("%s: %s", good[i], err.message);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(&err, 0, sizeof err);
        if (sft__format_shard_name_check(bad[i], strlen(bad[i]), &err) != SFT_E_PATH) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_int_equal(err.status, SFT_E_PATH);
    }
    assert_int_equal(sft__format_shard_name_check("a\0b", 3, NULL), SFT_E_PATH);
    memset(longest, 'a', sizeof longest);
    assert_int_equal(sft__format_shard_name_check(longest, 4096, NULL), SFT_OK);
    assert_int_equal(sft__format_shard_name_check(longest, 4097, NULL), SFT_E_PATH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_of_an_index),
        cmocka_unit_test(total_size_counts_only_as_a_plain_integer),
        cmocka_unit_test(faults_have_a_place),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(file_names_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
