/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/below_win.c - opening a file below a directory in a way that no link leads out. The file is opened
 * first and judged by where its handle really lies; nothing is read before that, and nobody can
 * exchange a link in between. Read first: below.h.
 */
#ifdef _WIN32
#include "base/memory/need.h"
#include "fs/below.h"
#include "fs/wide_win.h"
#include <windows.h>

/* If `path` lies in the directory `base` (base_len characters): the part behind it; else NULL. */
static const wchar_t *inside(const sft__fs_wide *path, const wchar_t *base, size_t base_len) {
    if (base_len > 0 && base[base_len - 1] == L'\\') {
        base_len--; /* the root of a drive */
    }
    if (path->len <= base_len + 1 || path->text[base_len] != L'\\' ||
        CompareStringOrdinal(path->text, (int)base_len, base, (int)base_len, TRUE) != CSTR_EQUAL) {
        return NULL;
    }
    return path->text + base_len + 1;
}

/* The links of the Hugging Face cache: from snapshots into blobs of the same repository. */
static bool cache_link(const sft__fs_wide *directory, const sft__fs_wide *file) {
    static const wchar_t blobs[] = L"blobs\\";
    const int bytes = WideCharToMultiByte(CP_UTF8, 0, directory->text, -1, NULL, 0, NULL, NULL);
    char *text = bytes > 0 ? sft__base_alloc(NULL, (size_t)bytes) : NULL;
    const wchar_t *rest = NULL;
    int root = 0;

    if (text == NULL) {
        return false;
    }
    if (WideCharToMultiByte(CP_UTF8, 0, directory->text, -1, text, bytes, NULL, NULL) == bytes) {
        root = (int)sft__fs_cache_root(text);
        root = root == 0 ? 0 : MultiByteToWideChar(CP_UTF8, 0, text, root, NULL, 0);
    }
    sft__base_free(NULL, text, (size_t)bytes);
    rest = root > 0 ? inside(file, directory->text, (size_t)root) : NULL;
    return rest != NULL && wcsncmp(rest, blobs, 6) == 0;
}

static sft_status judge(HANDLE directory, HANDLE file, const char *name, sft_error *err) {
    sft__fs_wide base;
    sft__fs_wide path;
    sft_status status;

    SFT_TRY(sft__fs_wide_final(&base, directory, "the directory", NULL, err));
    status = sft__fs_wide_final(&path, file, name, NULL, err);
    if (status == SFT_OK) {
        if (inside(&path, base.text, base.len) == NULL && !cache_link(&base, &path)) {
            status = sft__base_fail(err, SFT_E_PATH, "%s is a link that leads out of its directory",
                                    name);
        }
        sft__fs_wide_reset(&path, NULL);
    }
    sft__fs_wide_reset(&base, NULL);
    return status;
}

/* directory_path and name with a separator between them; "" is the current directory. */
static char *joined_path(const char *directory_path, const char *name, size_t *size) {
    const size_t directory_len = strlen(directory_path);
    const size_t name_len = strlen(name);
    char *path;

    *size = directory_len + name_len + 2;
    path = sft__base_alloc(NULL, *size);
    if (path != NULL) {
        memcpy(path, directory_path, directory_len);
        path[directory_len] = '/';
        memcpy(path + directory_len + (directory_len > 0 ? 1 : 0), name, name_len + 1);
    }
    return path;
}

sft_status sft__fs_open_below(const sft__fs_root *root, const char *name, sft__fs_handle *out,
                              sft__fs_stat *st, bool *missing, sft_error *err) {
    sft_error record;
    sft_error *where = err != NULL ? err : &record;
    size_t size;
    sft_status status;

    *out = SFT__FS_NO_HANDLE;
    *missing = false;
    if (root->links != SFT__FS_LINKS_INSIDE) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "%s: links are not told apart on Windows",
                              name);
    }
    char *path = joined_path(root->path, name, &size);
    SFT_NEED(path != NULL, size, err);
    status = sft__fs_open(path, out, st, where);
    sft__base_free(NULL, path, size);
    if (status == SFT_E_IO &&
        (where->sys == ERROR_FILE_NOT_FOUND || where->sys == ERROR_PATH_NOT_FOUND)) {
        *missing = true;
        return sft__base_fail_sys(err, SFT_E_SHARD_MISSING, where->sys, "cannot open %s", name);
    }
    if (status == SFT_OK) {
        status = judge((HANDLE)root->directory, (HANDLE)*out, name, err);
        if (status != SFT_OK) {
            sft__fs_close(*out);
            *out = SFT__FS_NO_HANDLE;
        }
    }
    return status;
}
#endif
