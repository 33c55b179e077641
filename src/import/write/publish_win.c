/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/publish_win.c - as publish_posix.c, for Windows. Read first: convert.h.
 */
#ifdef _WIN32
#include "base/strmap.h"
#include "import/core/convert.h"
#include <stdio.h>
#include <windows.h>

static bool widen(const char *path, wchar_t *wide, int room) {
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, room) > 0;
}

sft_status sft__publish(const char *path, const void *data, size_t size, bool replace, bool durable,
                        sft_error *err) {
    wchar_t target[2048];
    wchar_t temp[2048];
    uint64_t key[2];
    char name[4096];
    DWORD done = 0;

    sft__random_key(key);
    const int n = snprintf(name, sizeof name, "%s.%08x.tmp", path, (unsigned)key[0]);
    if (n < 0 || (size_t)n >= sizeof name || !widen(name, temp, 2048) ||
        !widen(path, target, 2048) || size > MAXDWORD) {
        return sft__fail(err, SFT_E_PATH, "the path is too long, or not UTF-8");
    }
    HANDLE file =
        CreateFileW(temp, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        return sft__fail_sys(err, SFT_E_IO, (int32_t)GetLastError(), "cannot create %.200s", name);
    }
    bool good = WriteFile(file, data, (DWORD)size, &done, NULL) && done == size;
    good = good && (!durable || FlushFileBuffers(file));
    good = CloseHandle(file) && good;
    good = good && MoveFileExW(temp, target, replace ? MOVEFILE_REPLACE_EXISTING : 0);
    if (!good) {
        const DWORD why = GetLastError();
        (void)DeleteFileW(temp);
        return sft__fail_sys(err, why == ERROR_ALREADY_EXISTS ? SFT_E_EXISTS : SFT_E_NOT_COMMITTED,
                             (int32_t)why, "cannot put %.200s in place", path);
    }
    return SFT_OK;
}

static bool look_at(const char *path, BY_HANDLE_FILE_INFORMATION *info) {
    wchar_t wide[2048];

    if (!widen(path, wide, 2048)) {
        return false;
    }
    HANDLE file = CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        return false;
    }
    const bool good = GetFileInformationByHandle(file, info) != 0;
    (void)CloseHandle(file);
    return good;
}

bool sft__same_file(const char *a, const char *b) {
    BY_HANDLE_FILE_INFORMATION x;
    BY_HANDLE_FILE_INFORMATION y;

    return look_at(a, &x) && look_at(b, &y) && x.dwVolumeSerialNumber == y.dwVolumeSerialNumber &&
           x.nFileIndexHigh == y.nFileIndexHigh && x.nFileIndexLow == y.nFileIndexLow;
}
#endif
