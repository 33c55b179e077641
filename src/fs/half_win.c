/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/half_win.c - see half.h.
 */
#ifdef _WIN32
#include "fs/half.h"
#include "fs/wide_win.h"
#include <windows.h>

sft_status sft__fs_half_make(const char *path, bool durable, sft_error *err) {
    sft__fs_wide wide;

    (void)durable; /* entries are in the file system's own journal */
    SFT_TRY(sft__fs_wide_path(&wide, path, NULL, err));
    const HANDLE h = CreateFileW(wide.text, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
                                 OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    const DWORD cause = h == INVALID_HANDLE_VALUE ? GetLastError() : 0;
    sft__fs_wide_reset(&wide, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        return sft__fail_sys(err, SFT_E_IO, (int32_t)cause, "cannot create %.200s", path);
    }
    (void)CloseHandle(h);
    return SFT_OK;
}

sft_status sft__fs_half_remove(const char *path, sft_error *err) {
    sft__fs_wide wide;

    SFT_TRY(sft__fs_wide_path(&wide, path, NULL, err));
    const DWORD cause = DeleteFileW(wide.text) ? 0 : GetLastError();
    sft__fs_wide_reset(&wide, NULL);
    return cause == 0 || cause == ERROR_FILE_NOT_FOUND
               ? SFT_OK
               : sft__fail_sys(err, SFT_E_IO, (int32_t)cause, "cannot remove %.200s", path);
}
#else
typedef int sft__fs_half_win_empty;
#endif
