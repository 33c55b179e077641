/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The core on Windows, through the public interface: parse, read beyond 4 GiB, write, rename over, paths
 * longer than 260 characters, names outside the code page. Files are made and looked at with the wide
 * Win32 calls, so that the library's own conversion of paths is what is tested.
 */
#include "unit/cm.h"

#include <sft/sft.h>

#include <wchar.h>
#include <windows.h>

static wchar_t folder_w[600]; /* ends with a backslash */
static char folder[1800];

static void to_utf8(char *out, size_t capacity, const wchar_t *text) {
    assert_true(WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)capacity, NULL, NULL) > 0);
}

static void in_folder(char *out, size_t capacity, const char *name) {
    const int n = snprintf(out, capacity, "%s%s", folder, name);
    assert_true(n > 0 && (size_t)n < capacity);
}

/* Files in the test's folder; a failed or finished save leaves nothing besides its target. */
static unsigned count_files(void) {
    wchar_t pattern[700];
    swprintf(pattern, 700, L"%ls*", folder_w);
    WIN32_FIND_DATAW data;
    unsigned n = 0;
    const HANDLE find = FindFirstFileW(pattern, &data);
    assert_true(find != INVALID_HANDLE_VALUE);
    do {
        n += (data.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
    } while (FindNextFileW(find, &data));
    FindClose(find);
    return n;
}

static void remove_files(void) {
    wchar_t pattern[700];
    swprintf(pattern, 700, L"%ls*", folder_w);
    WIN32_FIND_DATAW data;
    const HANDLE find = FindFirstFileW(pattern, &data);
    assert_true(find != INVALID_HANDLE_VALUE);
    do {
        if ((data.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0) {
            wchar_t path[1000];
            swprintf(path, 1000, L"%ls%ls", folder_w, data.cFileName);
            DeleteFileW(path);
        }
    } while (FindNextFileW(find, &data));
    FindClose(find);
}

static int make_folder(void **state) {
    (void)state;
    wchar_t temp[300];
    assert_true(GetTempPathW(300, temp) > 0);
    swprintf(folder_w, 600, L"%lssft-test-%lu\\", temp, (unsigned long)GetCurrentProcessId());
    assert_true(CreateDirectoryW(folder_w, NULL));
    to_utf8(folder, sizeof folder, folder_w);
    return 0;
}

static int drop_folder(void **state) {
    (void)state;
    remove_files();
    RemoveDirectoryW(folder_w);
    return 0;
}

static void save_floats(const char *path, float first, sft_status want) {
    const float values[4] = {first, 1.0f, -2.0f, 3.5f};
    const uint64_t shape[2] = {2, 2};
    const sft_save_tensor tensor = {"w", 1,      sft_dtype_get(SFT_F32), shape, 2,
                                    0,   values, sizeof values};
    const sft_metadata_entry entry = {"key", 3, "value", 5};
    sft_error err = {0};
    const sft_status status = sft_save(path, &tensor, 1, &entry, 1, NULL, &err);
    if (status != want) {
        fail_msg("saving %s: %s: %s", path, sft_status_name(status), err.message);
    }
}

static float first_float(const char *path, sft_access access) {
    sft_open_options options;
    SFT_INIT(&options);
    options.access = access;
    sft_catalog *model = NULL;
    sft_error err = {0};
    if (sft_catalog_open(&model, path, &options, &err) != SFT_OK) {
        fail_msg("opening %s: %s", path, err.message);
    }
    const sft_tensor *t = sft_catalog_find(model, "w", 1);
    assert_non_null(t);
    float values[4] = {0};
    assert_int_equal(sft_tensor_read(model, t, NULL, values, sizeof values, &err), SFT_OK);
    assert_true(values[3] == 3.5f);
    sft_catalog_close(model);
    return values[0];
}

static void parses_memory_and_says_where_it_fails(void **state) {
    (void)state;
    static const char good[] = "\x40\0\0\0\0\0\0\0"
                               "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"
                               "           \x01\x02";
    _Static_assert(sizeof good == 8 + 64 + 2 + 1, "the header is 64 bytes");
    sft_catalog *model = NULL;
    sft_error err = {0};
    assert_int_equal(sft_catalog_open_memory(&model, good, 8 + 64 + 2, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_count(model), 1);
    sft_catalog_close(model);

    char bad[sizeof good];
    memcpy(bad, good, sizeof good);
    bad[8 + 15] = 'X'; /* inside "U8" */
    assert_int_equal(sft_catalog_open_memory(&model, bad, 8 + 64 + 2, NULL, &err), SFT_E_DTYPE);
    assert_null(model);
    assert_true(err.offset != SFT_NO_OFFSET);
    assert_string_equal(err.tensor, "a");
}

static void writes_reads_and_renames_over(void **state) {
    (void)state;
    char path[2000];
    in_folder(path, sizeof path, "plain.safetensors");
    save_floats(path, 1.5f, SFT_OK);
    assert_true(first_float(path, SFT_ACCESS_READ) == 1.5f);
    assert_true(first_float(path, SFT_ACCESS_MAP) == 1.5f);
    save_floats(path, 2.5f, SFT_OK);
    assert_true(first_float(path, SFT_ACCESS_AUTO) == 2.5f);
    assert_int_equal(count_files(), 1);
    remove_files();
}

static void an_open_reader_keeps_whole_files(void **state) {
    (void)state;
    char path[2000];
    in_folder(path, sizeof path, "held.safetensors");
    save_floats(path, 1.5f, SFT_OK);
    sft_catalog *model = NULL;
    sft_error err = {0};
    sft_open_options options;
    SFT_INIT(&options);
    options.access = SFT_ACCESS_READ;
    assert_int_equal(sft_catalog_open(&model, path, &options, &err), SFT_OK);

    /* Replacing may succeed or be refused; in both cases the file under the name is a whole one, and
     * the open catalog still reads the old bytes. */
    const float values[4] = {2.5f, 0, 0, 3.5f};
    const uint64_t shape[1] = {4};
    const sft_save_tensor tensor = {"w", 1,      sft_dtype_get(SFT_F32), shape, 1,
                                    0,   values, sizeof values};
    const sft_status saved = sft_save(path, &tensor, 1, NULL, 0, NULL, &err);
    float old[4] = {0};
    assert_int_equal(
        sft_tensor_read(model, sft_catalog_find(model, "w", 1), NULL, old, sizeof old, &err),
        SFT_OK);
    assert_true(old[0] == 1.5f);
    sft_catalog_close(model);
    assert_true(first_float(path, SFT_ACCESS_READ) == (saved == SFT_OK ? 2.5f : 1.5f));
    assert_int_equal(count_files(), 1);
    remove_files();
}

static void names_outside_the_code_page(void **state) {
    (void)state;
    /* a with diaeresis, kanji, an emoji outside the basic plane */
    static const wchar_t name_w[] = L"m\x00e4\x65e5\x672c\xd83d\xde00.safetensors";
    wchar_t path_w[700];
    swprintf(path_w, 700, L"%ls%ls", folder_w, name_w);
    char path[2500];
    to_utf8(path, sizeof path, path_w);
    save_floats(path, 4.5f, SFT_OK);
    assert_true(GetFileAttributesW(path_w) != INVALID_FILE_ATTRIBUTES);
    assert_true(first_float(path, SFT_ACCESS_READ) == 4.5f);
    assert_int_equal(count_files(), 1);
    remove_files();
    /* bytes that are no UTF-8 are no path */
    in_folder(path, sizeof path, "bad\xff.safetensors");
    const float one = 1;
    const sft_save_tensor tensor = {"w", 1, sft_dtype_get(SFT_F32), NULL, 0, 0, &one, sizeof one};
    sft_error err = {0};
    assert_true(sft_save(path, &tensor, 1, NULL, 0, NULL, &err) != SFT_OK);
    assert_int_equal(count_files(), 0);
}

static void paths_longer_than_260(void **state) {
    (void)state;
    wchar_t deep[2000];
    wchar_t levels[3][1200];
    swprintf(deep, 2000, L"\\\\?\\%ls", folder_w);
    for (int i = 0; i < 3; i++) {
        wchar_t next[2000];
        swprintf(next, 2000, L"%ls%ls%ls", deep, i == 0 ? L"" : L"\\",
                 L"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhh"
                 L"iiiiiiiiiijjjjjjjjjj");
        wcscpy(deep, next);
        assert_true(wcslen(deep) < 1200);
        wcscpy(levels[i], deep);
        assert_true(CreateDirectoryW(deep, NULL));
    }
    wchar_t file_w[2000];
    swprintf(file_w, 2000, L"%ls\\deep.safetensors", deep);
    assert_true(wcslen(file_w) > 300);
    char path[6000];
    to_utf8(path, sizeof path, file_w + 4); /* without the \\?\ that the caller need not know */
    save_floats(path, 5.5f, SFT_OK);
    assert_true(GetFileAttributesW(file_w) != INVALID_FILE_ATTRIBUTES);
    assert_true(first_float(path, SFT_ACCESS_READ) == 5.5f);
    save_floats(path, 6.5f, SFT_OK);
    assert_true(first_float(path, SFT_ACCESS_MAP) == 6.5f);
    for (char *c = path; *c != '\0'; c++) {
        *c = *c == '\\' ? '/' : *c; /* as many programs write them */
    }
    assert_true(first_float(path, SFT_ACCESS_READ) == 6.5f);
    assert_true(DeleteFileW(file_w));
    for (int i = 3; i-- > 0;) {
        assert_true(RemoveDirectoryW(levels[i]));
    }
}

#define BIG_BYTES 5000000000ull

static void make_big(const wchar_t *path_w) {
    char header[512];
    int n =
        snprintf(header, sizeof header,
                 "{\"big\":{\"dtype\":\"U8\",\"shape\":[5000,1000000],\"data_offsets\":[0,%llu]},"
                 "\"last\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[%llu,%llu]}}",
                 BIG_BYTES, BIG_BYTES, BIG_BYTES + 4);
    while (n % 8 != 0) {
        header[n++] = ' ';
    }
    const HANDLE file = CreateFileW(path_w, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL);
    assert_true(file != INVALID_HANDLE_VALUE);
    DWORD done = 0;
    DeviceIoControl(file, 0x900c4 /* FSCTL_SET_SPARSE */, NULL, 0, NULL, 0, &done, NULL);
    const uint64_t length = (uint64_t)n;
    assert_true(WriteFile(file, &length, 8, &done, NULL) &&
                WriteFile(file, header, (DWORD)n, &done, NULL));
    LARGE_INTEGER at;
    at.QuadPart = 8 + n + (LONGLONG)BIG_BYTES - 3;
    assert_true(SetFilePointerEx(file, at, NULL, FILE_BEGIN));
    assert_true(WriteFile(file, "xyzLAST", 7, &done, NULL) && done == 7);
    CloseHandle(file);
}

static void reads_beyond_4_gib(void **state) {
    (void)state;
    wchar_t path_w[700];
    swprintf(path_w, 700, L"%lsbig.safetensors", folder_w);
    make_big(path_w);
    char path[2000];
    to_utf8(path, sizeof path, path_w);
    for (int pass = 0; pass < 2; pass++) {
        sft_open_options options;
        SFT_INIT(&options);
        options.access = pass == 0 ? SFT_ACCESS_READ : SFT_ACCESS_MAP;
        sft_catalog *model = NULL;
        sft_error err = {0};
        if (sft_catalog_open(&model, path, &options, &err) != SFT_OK) {
            fail_msg("opening %s: %s", path, err.message);
        }
        char bytes[8] = {0};
        const sft_tensor *last = sft_catalog_find(model, "last", 4);
        assert_int_equal(sft_tensor_read(model, last, NULL, bytes, 4, &err), SFT_OK);
        assert_memory_equal(bytes, "LAST", 4);
        const sft_tensor *big = sft_catalog_find(model, "big", 3);
        assert_int_equal(sft_tensor_read_bytes(model, big, BIG_BYTES - 3, bytes, 3, &err), SFT_OK);
        assert_memory_equal(bytes, "xyz", 3);
        /* the last two elements of the last row */
        const sft_slice slices[2] = {{-1, SFT_OMIT, 1, SFT_SLICE_INDEX, 0},
                                     {-2, SFT_OMIT, 1, SFT_SLICE_RANGE, 0}};
        sft_read_options read;
        SFT_INIT(&read);
        read.slices = slices;
        read.slice_count = 2;
        assert_int_equal(sft_tensor_read(model, big, &read, bytes, 2, &err), SFT_OK);
        assert_memory_equal(bytes, "yz", 2);
        if (pass == 1) {
            const void *lent = NULL;
            size_t size = 0;
            assert_int_equal(sft_tensor_borrow(model, last, &lent, &size, &err), SFT_OK);
            assert_int_equal(size, 4);
            assert_memory_equal(lent, "LAST", 4);
        }
        sft_catalog_close(model);
    }
    remove_files();
}

static void edits_metadata(void **state) {
    (void)state;
    char path[2000];
    in_folder(path, sizeof path, "edit.safetensors");
    save_floats(path, 7.5f, SFT_OK);
    const sft_metadata_entry entry = {"added", 5, "later", 5};
    sft_error err = {0};
    sft_edit_way way = SFT_EDITED_NOTHING;
    for (int i = 0; i < 2; i++) {
        if (sft_edit_metadata(path, &entry, 1, NULL, &way, &err) != SFT_OK) {
            fail_msg("edit: %s", err.message);
        }
        assert_true(i == 0 ? way != SFT_EDITED_NOTHING : way == SFT_EDITED_NOTHING);
    }
    assert_true(first_float(path, SFT_ACCESS_READ) == 7.5f);
    sft_catalog *model = NULL;
    assert_int_equal(sft_catalog_open(&model, path, NULL, &err), SFT_OK);
    assert_string_equal(sft_catalog_metadata_find(model, 0, "added", 5, NULL), "later");
    assert_string_equal(sft_catalog_metadata_find(model, 0, "key", 3, NULL), "value");
    sft_catalog_close(model);
    assert_int_equal(count_files(), 1);
    remove_files();
}

static void folders_are_no_targets(void **state) {
    (void)state;
    char path[2000];
    in_folder(path, sizeof path, "");
    const float one = 1;
    const sft_save_tensor tensor = {"w", 1, sft_dtype_get(SFT_F32), NULL, 0, 0, &one, sizeof one};
    sft_error err = {0};
    assert_true(sft_save(path, &tensor, 1, NULL, 0, NULL, &err) != SFT_OK);
    in_folder(path, sizeof path, "no-such-folder\\x.safetensors");
    assert_true(sft_save(path, &tensor, 1, NULL, 0, NULL, &err) != SFT_OK);
    assert_int_equal(count_files(), 0);
}

static void write_text(const char *name, const char *text) {
    char path[2000];
    in_folder(path, sizeof path, name);
    wchar_t path_w[2000];
    assert_true(MultiByteToWideChar(CP_UTF8, 0, path, -1, path_w, 2000) > 0);
    const HANDLE file = CreateFileW(path_w, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    assert_true(file != INVALID_HANDLE_VALUE);
    DWORD done = 0;
    assert_true(WriteFile(file, text, (DWORD)strlen(text), &done, NULL));
    CloseHandle(file);
}

static void an_index_stays_in_its_folder(void **state) {
    (void)state;
    static const char *const outside[] = {"..\\\\w.safetensors",
                                          "../w.safetensors",
                                          "C:\\\\w.safetensors",
                                          "C:w.safetensors",
                                          "\\\\w.safetensors",
                                          "/w.safetensors",
                                          "a\\\\..\\\\..\\\\w.safetensors"};
    char path[2000];
    in_folder(path, sizeof path, "part.safetensors");
    save_floats(path, 8.5f, SFT_OK);
    in_folder(path, sizeof path, "model.safetensors.index.json");
    sft_catalog *model = NULL;
    sft_error err = {0};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, "{\"weight_map\":{\"w\":\"%s\"}}", outside[i]);
        write_text("model.safetensors.index.json", text);
        const sft_status status = sft_catalog_open(&model, path, NULL, &err);
        if (status != SFT_E_PATH) {
            fail_msg("%s: %s", outside[i], sft_status_name(status));
        }
        assert_null(model);
    }
    write_text("model.safetensors.index.json", "{\"weight_map\":{\"w\":\"part.safetensors\"}}");
    assert_int_equal(sft_catalog_open(&model, folder, NULL, &err), SFT_OK);
    assert_int_equal(sft_catalog_count(model), 1);
    sft_catalog_close(model);
    remove_files();
}

typedef struct put_job {
    sft_writer *writer;
    int failed[8];
} put_job;

static DWORD WINAPI put_one(void *arg) {
    put_job *job = ((void **)arg)[0];
    const uint32_t index = (uint32_t)(uintptr_t)((void **)arg)[1];
    unsigned char bytes[1000];
    memset(bytes, (int)index + 1, sizeof bytes);
    for (uint64_t at = 0; at < 100; at++) {
        job->failed[index] |=
            sft_writer_put(job->writer, index, at * 1000, bytes, 1000, NULL) != SFT_OK;
    }
    return 0;
}

static void streams_from_several_threads(void **state) {
    (void)state;
    char path[2000];
    in_folder(path, sizeof path, "stream.safetensors");
    put_job job = {0};
    sft_error err = {0};
    assert_int_equal(sft_writer_create(&job.writer, path, NULL, &err), SFT_OK);
    for (char name = 'a'; name < 'a' + 8; name++) {
        const uint64_t shape[1] = {100000};
        const sft_dtype *u8 = sft_dtype_get(SFT_U8);
        assert_int_equal(sft_writer_declare(job.writer, &name, 1, u8, shape, 1, NULL, &err),
                         SFT_OK);
    }
    assert_int_equal(sft_writer_start(job.writer, &err), SFT_OK);
    HANDLE threads[8];
    void *args[8][2];
    for (uintptr_t i = 0; i < 8; i++) {
        args[i][0] = &job;
        args[i][1] = (void *)i;
        threads[i] = CreateThread(NULL, 0, put_one, args[i], 0, NULL);
        assert_non_null(threads[i]);
    }
    assert_int_equal(WaitForMultipleObjects(8, threads, TRUE, 60000), WAIT_OBJECT_0);
    for (size_t i = 0; i < 8; i++) {
        CloseHandle(threads[i]);
        assert_false(job.failed[i]);
    }
    if (sft_writer_commit(job.writer, &err) != SFT_OK) {
        fail_msg("commit: %s", err.message);
    }
    sft_writer_free(job.writer);

    sft_catalog *model = NULL;
    assert_int_equal(sft_catalog_open(&model, path, NULL, &err), SFT_OK);
    static unsigned char bytes[100000];
    for (size_t i = 0; i < 8; i++) {
        const sft_tensor *t = sft_catalog_at(model, i);
        assert_int_equal(sft_tensor_read(model, t, NULL, bytes, sizeof bytes, &err), SFT_OK);
        for (size_t k = 0; k < sizeof bytes; k++) {
            assert_int_equal(bytes[k], i + 1);
        }
    }
    sft_catalog_close(model);
    assert_int_equal(count_files(), 1);
    remove_files();
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_memory_and_says_where_it_fails),
        cmocka_unit_test(writes_reads_and_renames_over),
        cmocka_unit_test(an_open_reader_keeps_whole_files),
        cmocka_unit_test(names_outside_the_code_page),
        cmocka_unit_test(paths_longer_than_260),
        cmocka_unit_test(reads_beyond_4_gib),
        cmocka_unit_test(edits_metadata),
        cmocka_unit_test(folders_are_no_targets),
        cmocka_unit_test(an_index_stays_in_its_folder),
        cmocka_unit_test(streams_from_several_threads),
    };
    return cmocka_run_group_tests_name("win_core", tests, make_folder, drop_folder);
}
