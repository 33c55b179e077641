/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_index.c - any bytes as an index file. Every name is read and found again; every file name is
 * checked, and one that passes has nothing in it that leads elsewhere.
 */
#include "fuzz.h"

#include "format/index.h"

static void check_file(const char *file, size_t len) {
    if (sft__format_shard_name_check(file, len, NULL) != SFT_OK) {
        return;
    }
    CHECK(len != 0 && file[0] != '/' && file[len - 1] != '/' && strlen(file) == len);
    CHECK(strchr(file, '\\') == NULL && strchr(file, ':') == NULL && strstr(file, "//") == NULL);
    CHECK(strcmp(file, "..") != 0 && strncmp(file, "../", 3) != 0 && strstr(file, "/../") == NULL);
    CHECK(len < 3 || strcmp(file + len - 3, "/..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sft__format_index x;
    sft_error err;

    memset(&err, 0, sizeof err);
    const sft_status status = sft__format_index_parse(&x, (const char *)data, size, NULL, &err);
    CHECK(err.status == (int32_t)status);
    if (status != SFT_OK) {
        CHECK(x.entries == NULL && err.message[0] != '\0');
        CHECK(err.offset <= size);
        return 0;
    }
    for (size_t i = 0; i < x.entry_count; i++) {
        const sft__format_index_entry *e = &x.entries[i];
        CHECK(e->name[e->name_len] == '\0' && e->file[e->file_len] == '\0');
        CHECK(e->offset < size && data[e->offset] == '"');
        CHECK(sft__base_strmap_find(&x.names, e->name, e->name_len) == i);
        check_file(e->file, e->file_len);
    }
    sft__format_index_reset(&x);
    return 0;
}
