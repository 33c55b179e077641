/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/rewrite_win.c - see rewrite.h.
 */
#ifdef _WIN32
#include "io/rewrite.h"
#include "io/wide_win.h"
#include <windows.h>

sft_status sft__rewrite_open(const char *path, sft__handle *out, sft__stat *st, bool *refused,
                             sft_error *err) {
    sft__wide wide;
    HANDLE h;
    sft_status status;

    *out = SFT__NO_HANDLE;
    *refused = false;
    SFT_TRY(sft__wide_path(&wide, path, NULL, err));
    h = CreateFileW(wide.text, GENERIC_READ | GENERIC_WRITE,
                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                    FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        const DWORD cause = GetLastError();
        sft__wide_reset(&wide, NULL);
        *refused = cause == ERROR_ACCESS_DENIED || cause == ERROR_WRITE_PROTECT;
        return sft__fail_sys(err, SFT_E_IO, (int32_t)cause, "cannot open \"%s\" for writing", path);
    }
    sft__wide_reset(&wide, NULL);
    status = sft__file_stat((sft__handle)h, path, st, err);
    if (status != SFT_OK) {
        (void)CloseHandle(h); /* nothing was written */
        return status;
    }
    *out = (sft__handle)h;
    return SFT_OK;
}

/* A file that is open can neither be replaced nor renamed here: whoever edits at the same time fails
 * with a sharing violation instead of waiting. */
sft_status sft__rewrite_lock(sft__handle file, const char *path, bool (*stop)(void *), void *ctx,
                             sft_error *err) {
    (void)file;
    (void)path;
    (void)stop;
    (void)ctx;
    (void)err;
    return SFT_OK;
}

sft_status sft__rewrite_close(sft__handle file, const char *path, bool durable, sft_error *err) {
    DWORD cause = 0;

    if (durable && FlushFileBuffers((HANDLE)file) == 0) {
        cause = GetLastError();
    }
    if (CloseHandle((HANDLE)file) == 0 && cause == 0) {
        cause = GetLastError();
    }
    if (cause != 0) {
        return sft__fail_sys(err, SFT_E_DURABILITY, (int32_t)cause,
                             "\"%s\" is changed, but could not be written to disk", path);
    }
    return SFT_OK;
}
#else
typedef int sft__rewrite_win_empty;
#endif
