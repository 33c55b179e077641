/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/publish_win.c - as publish_posix.c, for Windows, as far as output_win.c does not do it.
 * Read first: convert.h.
 */
#ifdef _WIN32
#include "import/core/convert.h"
#include <windows.h>

static bool widen(const char *path, wchar_t *wide, int room) {
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, room) > 0;
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
