/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Unit tests of sft_edit_metadata: which way an edit goes, and that nothing
 * else changes.
 */
#include "unit/files.h"

#include <stdbool.h>

#include <sft/digest.h>
#include <sft/edit.h>
#include <sft/extend.h>
#include <sft/read.h>

static const uint64_t dim4[] = {4};

static sft_metadata_entry entry(const char *key, const char *value) {
    sft_metadata_entry e = {key, strlen(key), value, value == NULL ? 0 : strlen(value)};
    return e;
}

/* Header text as given (padded to 8 + pad blanks), then data. */
static void put_raw(const char *path, const char *text, size_t pad, const char *data,
                    size_t data_len) {
    char bytes[20000];
    size_t n = strlen(text);
    memcpy(bytes + 8, text, n);
    memset(bytes + 8 + n, ' ', pad);
    n += pad;
    for (int i = 0; i < 8; i++) {
        bytes[i] = (char)(uint8_t)((uint64_t)n >> (8 * i));
    }
    memcpy(bytes + 8 + n, data, data_len);
    file_put(path, bytes, 8 + n + data_len);
}

static sft_edit_way edit(const char *path, const sft_metadata_entry *m, size_t count,
                         uint32_t flags) {
    sft_edit_options o;
    sft_edit_way way = (sft_edit_way)77;
    sft_error err;
    SFT_INIT(&o);
    o.flags = flags;
    const sft_status st = sft_edit_metadata(path, m, count, &o, &way, &err);
    if (st != SFT_OK) {
        print_message("%s\n", err.message);
    }
    assert_int_equal(st, SFT_OK);
    return way;
}

/* The header text of a file without blanks at its end, runs of three blanks and more shown as one
 * ~; data behind it must be `data`. */
static const char *header_of(const char *path, const char *data, size_t data_len) {
    static char text[20000];
    size_t size;
    char *bytes = file_get(path, &size);
    assert_non_null(bytes);
    size_t n = 0;
    for (int i = 0; i < 8; i++) {
        n |= (size_t)(uint8_t)bytes[i] << (8 * i);
    }
    assert_int_equal(size, 8 + n + data_len);
    assert_memory_equal(bytes + 8 + n, data, data_len);
    while (n > 0 && bytes[8 + n - 1] == ' ') {
        n--;
    }
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        size_t blanks = 0;
        while (bytes[8 + i + blanks] == ' ') {
            blanks++;
        }
        text[len++] = blanks >= 3 ? '~' : bytes[8 + i];
        i += blanks >= 3 ? blanks : 1;
    }
    text[len] = '\0';
    free(bytes);
    return text;
}

#define T_A "\"a\":{\"dtype\":\"U8\",\"x\":[1,{}],\"shape\":[4],\"data_offsets\":[0,4]}"

static ino_t inode_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static void in_place_when_it_fits(void **state) {
    (void)state;
    const char *path = in_scratch("f");
    put_raw(path, "{\"__metadata__\":{\"k\": \"old\",\"\\u0061b\":\"\\u00e9\"      }," T_A "}", 3,
            "1234", 4);
    const ino_t inode = inode_of(path);
    /* the same length, shorter, longer: blanks in the object take it */
    sft_metadata_entry e = entry("k", "new");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4),
                        "{\"__metadata__\":{\"k\": \"new\",\"\\u0061b\":\"\\u00e9\"~}," T_A "}");
    e = entry("k", "");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4),
                        "{\"__metadata__\":{\"k\": \"\",\"\\u0061b\":\"\\u00e9\"~}," T_A "}");
    e = entry("k", "012345678");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4),
                        "{\"__metadata__\":{\"k\": \"012345678\",\"\\u0061b\":\"\\u00e9\"}," T_A
                        "}");
    /* three more: those at the end of the header */
    e = entry("k", "012345678\xc3\xa9"
                   "9");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4), "{\"__metadata__\":{\"k\": \"012345678\xc3\xa9"
                                                    "9\",\"\\u0061b\":\"\\u00e9\"}," T_A "}");
    assert_int_equal(inode_of(path), inode);
    /* a key that was written with escapes is found; deleting leaves blanks */
    const sft_metadata_entry two[] = {entry("ab", NULL), entry("none", NULL)};
    assert_int_equal(edit(path, two, 2, 0), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4), "{\"__metadata__\":{\"k\": \"012345678\xc3\xa9"
                                                    "9\"~}," T_A "}");
    e = entry("k", NULL);
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4), "{\"__metadata__\":{~}," T_A "}");
    assert_int_equal(edit(path, NULL, 0, SFT_EDIT_CLEAR), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4), "{~" T_A "}");
    assert_int_equal(edit(path, NULL, 0, SFT_EDIT_CLEAR), SFT_EDITED_NOTHING);
    /* what was cleared is room for what comes */
    e = entry("k", "012345678");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4),
                        "{\"__metadata__\":{\"k\":\"012345678\"~}," T_A "}");
    assert_int_equal(inode_of(path), inode);
    assert_int_equal(scratch_list(0), 1);
}

static void nothing_to_do(void **state) {
    (void)state;
    const char *path = in_scratch("f");
    put_raw(path, "{" T_A ",\"__metadata__\":{\"k\":\"v\",\"l\":\"\"}}", 3, "1234", 4);
    const sft_metadata_entry same[] = {entry("l", ""), entry("k", "v"), entry("absent", NULL)};
    assert_int_equal(edit(path, same, 3, 0), SFT_EDITED_NOTHING);
    assert_int_equal(edit(path, same, 3, SFT_EDIT_CLEAR), SFT_EDITED_NOTHING);
    assert_int_equal(edit(path, same, 3, SFT_EDIT_NEW_FILE), SFT_EDITED_NOTHING);
    assert_int_equal(edit(path, NULL, 0, 0), SFT_EDITED_NOTHING);
    assert_int_equal(edit(path, same, 1, SFT_EDIT_CLEAR), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4), "{" T_A ",\"__metadata__\":{\"l\":\"\"~}}");
    assert_int_equal(edit(path, NULL, 0, SFT_EDIT_CLEAR), SFT_EDITED_IN_PLACE);
    assert_string_equal(header_of(path, "1234", 4), "{" T_A "~}");
}

static void a_new_file_when_it_does_not_fit(void **state) {
    (void)state;
    const char *path = in_scratch("real");
    char value[3000];
    assert_int_equal(symlink("real", in_scratch("link")), 0);
    put_raw(path, "{" T_A "}", 1, "1234", 4);
    assert_int_equal(chmod(path, 0640), 0);
    const ino_t inode = inode_of(path);
    sft_metadata_entry e = entry("key\n", "value");
    assert_int_equal(edit(in_scratch("link"), &e, 1, 0), SFT_EDITED_NEW_FILE);
    assert_true(inode_of(path) != inode);
    assert_int_equal(file_mode(path), 0640);
    const char *text = header_of(path, "1234", 4);
    assert_non_null(strstr(text, "{\"__metadata__\":{\"key\\n\":\"value\"~}"));
    /* room for 1,024 bytes is left now */
    memset(value, 'x', sizeof value);
    e.value = value;
    e.value_len = 1000;
    assert_int_equal(edit(in_scratch("link"), &e, 1, 0), SFT_EDITED_IN_PLACE);
    e.value_len = 3000;
    assert_int_equal(edit(in_scratch("link"), &e, 1, 0), SFT_EDITED_NEW_FILE);
    struct stat st;
    assert_int_equal(lstat(in_scratch("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(scratch_list(0), 2);
    (void)header_of(path, "1234", 4);
}

/* What has another name keeps its bytes under that one. */
static void other_names_keep_what_they_have(void **state) {
    (void)state;
    const char *path = in_scratch("real");
    put_raw(path, "{\"__metadata__\":{\"k\":\"value\"}," T_A "}", 1, "1234", 4);
    assert_int_equal(link(path, in_scratch("other")), 0);
    const ino_t inode = inode_of(path);
    const sft_metadata_entry e = entry("k", "fresh");
    sft_edit_options o;
    sft_edit_way way;
    SFT_INIT(&o);
    o.flags = SFT_EDIT_IN_PLACE;
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, &way, NULL), SFT_E_UNSUPPORTED);
    assert_non_null(strstr(header_of(path, "1234", 4), "\"value\""));
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_NEW_FILE);
    assert_true(inode_of(path) != inode);
    assert_true(inode_of(in_scratch("other")) == inode);
    assert_non_null(strstr(header_of(in_scratch("other"), "1234", 4), "\"value\""));
    assert_non_null(strstr(header_of(path, "1234", 4), "\"fresh\""));
    const sft_metadata_entry again = entry("k", "other");
    assert_int_equal(edit(path, &again, 1, 0), SFT_EDITED_IN_PLACE); /* one name now */
}

static void every_place_of_the_member(void **state) {
    (void)state;
    static const char *const heads[] = {
        "{}",
        "{ }",
        "  {" T_A " } ",
        "{\"__metadata__\":null," T_A "}",
        "{" T_A ",\"__metadata__\" : null}",
        "{\"\\u005f_metadata__\":{}}",
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]} ,"
        "\"__metadata__\": { \"k\" : \"v\" , \"l\":\"w\" } , " T_A "}"};
    static const uint32_t flags[] = {0, SFT_EDIT_NEW_FILE};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const bool data = strstr(heads[i], "\"a\"") != NULL;
        for (size_t pad = 0; pad < 60; pad += 7) {
            for (size_t f = 0; f < 2; f++) {
                sft_catalog *c;
                const char *path = in_scratch("f");
                put_raw(path, heads[i], pad, "1234", data ? 4 : 0);
                const sft_metadata_entry set[] = {entry("k", "\"q\""), entry("n", "")};
                assert_true(edit(path, set, 2, flags[f]) != SFT_EDITED_NOTHING);
                size_t len;
                assert_int_equal(sft_catalog_open(&c, path, NULL, NULL), SFT_OK);
                assert_int_equal(sft_catalog_metadata_count(c, 0), i == 6 ? 3 : 2);
                assert_string_equal(sft_catalog_metadata_find(c, 0, "k", 1, &len), "\"q\"");
                assert_string_equal(sft_catalog_metadata_find(c, 0, "n", 1, &len), "");
                assert_int_equal(sft_catalog_find(c, "a", 1) != NULL, data);
                sft_catalog_close(c);
                assert_int_equal(edit(path, set, 2, flags[f]), SFT_EDITED_NOTHING);
                assert_true(edit(path, NULL, 0, SFT_EDIT_CLEAR | flags[f]) != SFT_EDITED_NOTHING);
                assert_int_equal(sft_catalog_open(&c, path, NULL, NULL), SFT_OK);
                assert_int_equal(sft_catalog_file_at(c, 0)->has_metadata, 0);
                assert_int_equal(sft_catalog_find(c, "a", 1) != NULL, data);
                sft_catalog_close(c);
                (void)header_of(path, "1234", data ? 4 : 0);
            }
        }
    }
}

static void blocks_and_flags(void **state) {
    (void)state;
    const char *path = in_scratch("f");
    static char text[10000];
    static char value[5001];
    sft_error err;
    sft_edit_options o;
    sft_edit_way way;
    memset(value, 'v', 5000);
    (void)snprintf(text, sizeof text,
                   "{\"__metadata__\":{\"a\":\"1\",\"big\":\"%s\",\"z\":\"1\"}," T_A "}", value);
    put_raw(path, text, 2, "1234", 4);
    /* one byte in the second block: still one block */
    sft_metadata_entry e = entry("z", "2");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_IN_PLACE);
    /* a longer first value moves everything: two blocks */
    e = entry("a", "12");
    SFT_INIT(&o);
    o.flags = SFT_EDIT_IN_PLACE | SFT_EDIT_NEW_FILE;
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, &way, &err), SFT_E_ARG);
    const ino_t inode = inode_of(path);
    assert_int_equal(edit(path, &e, 1, SFT_EDIT_IN_PLACE), SFT_EDITED_IN_PLACE);
    assert_int_equal(inode_of(path), inode);
    e = entry("a", "123");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_NEW_FILE);
    e = entry("a", value);
    o.flags = SFT_EDIT_IN_PLACE;
    put_raw(path, text, 2, "1234", 4);
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, &way, &err), SFT_E_UNSUPPORTED);
    assert_int_equal(way, SFT_EDITED_NOTHING);
    const sft_metadata_entry twice[] = {entry("k", "1"), entry("k", NULL)};
    assert_int_equal(sft_edit_metadata(path, twice, 2, NULL, NULL, &err), SFT_E_DUPLICATE);
    e = entry("\xff", "1");
    assert_int_equal(sft_edit_metadata(path, &e, 1, NULL, NULL, &err), SFT_E_ARG);
    e = entry("k", "\xc0\x80");
    assert_int_equal(sft_edit_metadata(path, &e, 1, NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_edit_metadata(path, NULL, 1, NULL, NULL, &err), SFT_E_ARG);
    assert_int_equal(sft_edit_metadata(in_scratch("none"), &e, 1, NULL, NULL, &err), SFT_E_IO);
    file_put(in_scratch("bad"), "\x02\0\0\0\0\0\0\0{]", 10);
    assert_int_equal(sft_edit_metadata(in_scratch("bad"), &e, 1, NULL, NULL, &err), SFT_E_JSON);
    assert_int_equal(sft_edit_metadata(NULL, &e, 1, NULL, NULL, &err), SFT_E_ARG);
    o.struct_size = 0;
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, NULL, &err), SFT_E_ARG);
    sft_limits limits;
    memset(&limits, 0, sizeof limits);
    SFT_INIT(&o);
    o.limits = &limits;
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, NULL, &err), SFT_E_ARG);
    assert_non_null(strstr(err.message, "limits"));
    SFT_INIT(&limits);
    limits.header_bytes = 6000;
    o.limits = &limits;
    e = entry("k", value);
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, NULL, &err), SFT_E_HEADER_TOO_LARGE);
    (void)header_of(path, "1234", 4);
}

/* Files above a mebibyte grow by whole blocks, so that their data can be shared with the old file.
 */
static void large_files_grow_by_blocks(void **state) {
    (void)state;
    const uint64_t shape[] = {(uint64_t)2 << 20};
    uint8_t *data = malloc((size_t)shape[0]);
    sft_catalog *c;
    const char *path = in_scratch("big");
    assert_non_null(data);
    for (size_t i = 0; i < shape[0]; i++) {
        data[i] = (uint8_t)(i ^ (i >> 9));
    }
    const sft_save_tensor t = {"t", 1, sft_dtype_get(SFT_U8), shape, 1, 0, data, shape[0]};
    assert_int_equal(sft_save(path, &t, 1, NULL, 0, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_open(&c, path, NULL, NULL), SFT_OK);
    const uint64_t before = sft_catalog_file_at(c, 0)->data_offset;
    sft_catalog_close(c);
    const sft_metadata_entry e = entry("k", "v");
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_NEW_FILE);
    assert_int_equal(sft_catalog_open(&c, path, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_file_at(c, 0)->data_offset, before + 4096);
    uint8_t *back = malloc((size_t)shape[0]);
    assert_non_null(back);
    assert_int_equal(
        sft_tensor_read_bytes(c, sft_catalog_at(c, 0), 0, back, (size_t)shape[0], NULL), SFT_OK);
    assert_memory_equal(back, data, (size_t)shape[0]);
    sft_catalog_close(c);
    free(back);
    free(data);
}

/* Digests beside the file stay true: they tell the file's size. */
static void the_sidecar_follows(void **state) {
    (void)state;
    sft_save_tensor t[] = {{"b", 1, sft_dtype_get(SFT_U8), dim4, 1, 0, "2222", 4},
                           {"a", 1, sft_dtype_get(SFT_U8), dim4, 1, 0, "3333", 4}};
    const char *path = in_scratch("f");
    const sft_metadata_entry e = {"k", 1, "v", 1};
    sft_write_options w;
    sft_catalog *c;
    sft_verify_result result;
    sft_error err;
    SFT_INIT(&w);
    w.digests = SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256;
    w.flags = SFT_WRITE_DIGESTS_SIDECAR;
    assert_int_equal(sft_save(path, t, 2, NULL, 0, &w, NULL), SFT_OK);
    assert_int_equal(edit(path, &e, 1, 0), SFT_EDITED_NEW_FILE);
    assert_int_equal(sft_catalog_open(&c, path, NULL, NULL), SFT_OK);
    assert_int_equal(sft_catalog_verify(c, NULL, &result, &err), SFT_OK);
    assert_int_equal(result.checked, 2);
    sft_catalog_close(c);
    assert_int_equal(scratch_list(0), 2);
    /* what is no sidecar is left alone */
    file_put(in_scratch("f.digests.json"), "{\"size\":", 8);
    const sft_metadata_entry longer = {"k2", 2, "a text that the blanks have no room for", 39};
    assert_int_equal(edit(path, &longer, 1, SFT_EDIT_NEW_FILE), SFT_EDITED_NEW_FILE);
    assert_file(in_scratch("f.digests.json"), "{\"size\":", 8);
}

static int cancel(void *ctx, const sft_progress *progress) {
    (void)ctx;
    (void)progress;
    return 1;
}

static void cancelled_edits_leave_the_file(void **state) {
    (void)state;
    const char *path = in_scratch("f");
    sft_control control;
    sft_edit_options o;
    SFT_INIT(&control);
    control.poll = cancel;
    SFT_INIT(&o);
    o.control = &control;
    put_raw(path, "{" T_A "}", 1, "1234", 4);
    const sft_metadata_entry e = entry("k", "v");
    assert_int_equal(sft_edit_metadata(path, &e, 1, &o, NULL, NULL), SFT_E_CANCELLED);
    assert_string_equal(header_of(path, "1234", 4), "{" T_A "}");
    assert_int_equal(scratch_list(0), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(in_place_when_it_fits, scratch_clear),
        cmocka_unit_test_teardown(other_names_keep_what_they_have, scratch_clear),
        cmocka_unit_test_teardown(nothing_to_do, scratch_clear),
        cmocka_unit_test_teardown(a_new_file_when_it_does_not_fit, scratch_clear),
        cmocka_unit_test_teardown(every_place_of_the_member, scratch_clear),
        cmocka_unit_test_teardown(blocks_and_flags, scratch_clear),
        cmocka_unit_test_teardown(large_files_grow_by_blocks, scratch_clear),
        cmocka_unit_test_teardown(the_sidecar_follows, scratch_clear),
        cmocka_unit_test_teardown(cancelled_edits_leave_the_file, scratch_clear),
    };
    return cmocka_run_group_tests_name("edit", tests, scratch_make, scratch_drop);
}
