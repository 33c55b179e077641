/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/staged_win.c - see staged.h. A file that is opened to be held is shared with readers only.
 * Nothing that is open and held so is removed, so directories with such files stay.
 */
#ifdef _WIN32
#include "fs/output/staged.h"
#include "fs/wide_win.h"
#include <windows.h>

sft_status sft__fs_staged_open_alone(const char *path, sft__fs_handle *out, sft_error *err) {
    sft__fs_wide wide;

    SFT_TRY(sft__fs_staged_open(path, out, err)); /* it is there, and has one name */
    sft__fs_close(*out);
    *out = SFT__FS_NO_HANDLE;
    SFT_TRY(sft__fs_wide_path(&wide, path, NULL, err));
    const HANDLE h = CreateFileW(wide.text, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, NULL,
                                 OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    const DWORD cause = GetLastError();
    sft__fs_wide_reset(&wide, NULL);
    if (h == INVALID_HANDLE_VALUE && cause == ERROR_SHARING_VIOLATION) {
        return sft__base_fail(err, SFT_E_STATE, "another process is at it: \"%.200s\" is locked",
                              path);
    }
    if (h == INVALID_HANDLE_VALUE) {
        return sft__base_fail_sys(err, SFT_E_IO, (int32_t)cause, "cannot create \"%.200s\"", path);
    }
    *out = (sft__fs_handle)h;
    return SFT_OK;
}

sft_status sft__fs_hold_directory(const char *path, sft__fs_handle *out, sft_error *err) {
    *out = SFT__FS_NO_HANDLE;
    return sft__fs_make_directory(path, err);
}

bool sft__fs_try_hold(const char *path, bool shared, sft__fs_handle *out, bool *busy) {
    (void)path;
    (void)shared;
    *out = SFT__FS_NO_HANDLE;
    *busy = false; /* directories have no locks here */
    return false;
}

bool sft__fs_hold_alone(sft__fs_handle directory) {
    (void)directory;
    return true;
}
#else
typedef int sft__fs_staged_win_empty;
#endif
