/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/folder_win.c - the entries of a folder. Read checkpoint/layout_set.h first.
 */
#ifdef _WIN32
#include "base/error.h"
#include "checkpoint/layout_set.h"
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
#endif
