/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/rewrite_win.c - see rewrite.h.
 */
#ifdef _WIN32
#include "fs/output/rewrite.h"
#include "fs/wide_win.h"
#include <windows.h>

sft_status sft__fs_rewrite_open(const char *path, sft__fs_handle *out, sft__fs_stat *st,
                                bool *refused, sft_error *err) {
    sft__fs_wide wide;
    HANDLE h;
    sft_status status;

    *out = SFT__FS_NO_HANDLE;
    *refused = false;
    SFT_TRY(sft__fs_wide_path(&wide, path, NULL, err));
    h = CreateFileW(wide.text, GENERIC_READ | GENERIC_WRITE,
                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                    FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        const DWORD cause = GetLastError();
        sft__fs_wide_reset(&wide, NULL);
        *refused = cause == ERROR_ACCESS_DENIED || cause == ERROR_WRITE_PROTECT;
        return sft__base_fail_sys(err, SFT_E_IO, (int32_t)cause, "cannot open \"%s\" for writing",
                                  path);
    }
    sft__fs_wide_reset(&wide, NULL);
    status = sft__fs_stat_file((sft__fs_handle)h, path, st, err);
    if (status != SFT_OK) {
        (void)CloseHandle(h); /* nothing was written */
        return status;
    }
    *out = (sft__fs_handle)h;
    return SFT_OK;
}

/* A file that is open can neither be replaced nor renamed here: whoever edits at the same time fails
 * with a sharing violation instead of waiting. */
sft_status sft__fs_rewrite_lock(sft__fs_handle file, const char *path, bool (*stop)(void *),
                                void *ctx, sft_error *err) {
    (void)file;
    (void)path;
    (void)stop;
    (void)ctx;
    (void)err;
    return SFT_OK;
}

sft_status sft__fs_rewrite_close(sft__fs_handle file, const char *path, bool durable,
                                 sft_error *err) {
    DWORD cause = 0;

    if (durable && FlushFileBuffers((HANDLE)file) == 0) {
        cause = GetLastError();
    }
    if (CloseHandle((HANDLE)file) == 0 && cause == 0) {
        cause = GetLastError();
    }
    if (cause != 0) {
        return sft__base_fail_sys(err, SFT_E_DURABILITY, (int32_t)cause,
                                  "\"%s\" is changed, but could not be written to disk", path);
    }
    return SFT_OK;
}
#else
typedef int sft__fs_rewrite_win_empty;
#endif
