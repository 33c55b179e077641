/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/folder_win.c - the entries of a folder, and files below it. Read checkpoint/space.h
 * first.
 */
#ifdef _WIN32
#include "base/error.h"
#include "checkpoint/space.h"
#include <windows.h>

/* UTF-8 as Windows wants it; `room` characters. False: no such text, or too long. */
static bool widen(const char *path, const wchar_t *more, wchar_t *out, int room) {
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, room);
    const size_t extra = wcslen(more);
    if (n <= 0 || (size_t)n + extra > (size_t)room) {
        return false;
    }
    memcpy(out + n - 1, more, (extra + 1) * sizeof *out);
    return true;
}

bool sft__ck_is_folder(const char *path) {
    wchar_t wide[4096];
    if (!widen(path, L"", wide, 4096)) {
        return false;
    }
    const DWORD attributes = GetFileAttributesW(wide);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

sft_status sft__ck_look(const char *path, bool *folder, sft_error *err) {
    *folder = sft__ck_is_folder(path);
    if (!*folder && GetLastError() == ERROR_ACCESS_DENIED) {
        return sft__fail(err, SFT_E_IO, "cannot look at \"%.200s\": access is denied", path);
    }
    return SFT_OK;
}

sft_status sft__ck_list(const char *folder, sft__ck_visit visit, void *ctx, sft_error *err) {
    WIN32_FIND_DATAW found;
    wchar_t wide[4096];
    char name[1024];
    sft_status status = SFT_OK;
    if (!widen(folder, L"\\*", wide, 4096)) {
        return sft__fail(err, SFT_E_PATH, "path is no UTF-8, or too long");
    }
    const HANDLE h = FindFirstFileW(wide, &found);
    if (h == INVALID_HANDLE_VALUE) {
        return sft__fail_sys(err, SFT_E_IO, (int32_t)GetLastError(), "cannot list the folder");
    }
    do {
        const int n = WideCharToMultiByte(CP_UTF8, 0, found.cFileName, -1, name, (int)sizeof name,
                                          NULL, NULL);
        if (n > 1 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            status = visit(ctx, name, (size_t)n - 1, err);
        }
    } while (status == SFT_OK && FindNextFileW(h, &found));
    (void)FindClose(h);
    return status;
}

/* No part of the name may be a link or a junction. */
static sft_status refuse_links(const char *path, bool *missing, sft_error *err) {
    wchar_t wide[4096];
    if (!widen(path, L"", wide, 4096)) {
        return sft__fail(err, SFT_E_PATH, "path is no UTF-8, or too long");
    }
    const DWORD attributes = GetFileAttributesW(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        const DWORD why = GetLastError();
        *missing = why == ERROR_FILE_NOT_FOUND || why == ERROR_PATH_NOT_FOUND;
        return sft__fail_sys(err, *missing ? SFT_E_SHARD_MISSING : SFT_E_IO, (int32_t)why,
                             "cannot open %s", path);
    }
    if ((attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) {
        return sft__fail(err, SFT_E_PATH, "%s is a link", path);
    }
    return SFT_OK;
}

sft_status sft__ck_open_below(const char *folder, const char *name, const sft_allocator *allocator,
                              sft_source **out, bool *missing, sft_error *err) {
    const size_t a = strlen(folder);
    const size_t b = strlen(name);
    *out = NULL;
    *missing = false;
    char *const path = sft__alloc(allocator, a + b + 2);
    if (path == NULL) {
        return sft__fail_nomem(err, a + b + 2);
    }
    memcpy(path, folder, a);
    path[a] = '/';
    memcpy(path + a + 1, name, b + 1);
    sft_status status = SFT_OK;
    for (size_t i = a + 1; i <= a + 1 + b && status == SFT_OK; i++) {
        const char c = path[i];
        if (c == '/' || c == '\0') {
            path[i] = '\0';
            status = refuse_links(path, missing, err);
            path[i] = c;
        }
    }
    if (status == SFT_OK) {
        status = sft_source_open(out, path, SFT_ACCESS_READ, allocator, err);
    }
    sft__free(allocator, path, a + b + 2);
    return status;
}
#endif
