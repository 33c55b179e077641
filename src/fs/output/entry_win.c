/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/entry_win.c - see entry.h. Entries are in the file system's own journal: there is nothing to
 * flush.
 */
#ifdef _WIN32
#include "fs/output/entry.h"
#include "fs/wide_win.h"
#include <windows.h>

static sft_status fail(sft_error *err, sft_status status, DWORD cause, const char *what,
                       const char *path) {
    return sft__base_fail_sys(err, status, (int32_t)cause, "cannot %s \"%.200s\"", what, path);
}

sft_status sft__fs_create_shared(const char *path, uint32_t share, sft__fs_handle *out,
                                 sft_error *err) {
    const sft__fs_wide_open how = {GENERIC_READ | GENERIC_WRITE, share, OPEN_ALWAYS,
                                   FILE_ATTRIBUTE_NORMAL};
    HANDLE h;
    int32_t cause;

    *out = SFT__FS_NO_HANDLE;
    SFT_TRY(sft__fs_wide_create(&h, path, how, &cause, err));
    if (h == NULL) {
        return cause == ERROR_SHARING_VIOLATION
                   ? sft__base_fail(err, SFT_E_STATE,
                                    "another process is at it: \"%.200s\" is locked", path)
                   : fail(err, SFT_E_IO, (DWORD)cause, "create", path);
    }
    *out = (sft__fs_handle)h;
    return SFT_OK;
}

sft_status sft__fs_create(const char *path, sft__fs_handle *out, sft_error *err) {
    return sft__fs_create_shared(path, SFT__FS_SHARE_ALL, out, err);
}

sft_status sft__fs_create_private(const char *path, sft__fs_handle *out, sft_error *err) {
    return sft__fs_create(path, out, err);
}

sft_status sft__fs_make_directory_private(const char *path, sft_error *err) {
    return sft__fs_make_directory(path, err);
}

sft_status sft__fs_make_directory(const char *path, sft_error *err) {
    sft__fs_wide wide;

    SFT_TRY(sft__fs_wide_path(&wide, path, NULL, err));
    const DWORD cause = CreateDirectoryW(wide.text, NULL) ? 0 : GetLastError();
    sft__fs_wide_reset(&wide, NULL);
    return cause == 0 || cause == ERROR_ALREADY_EXISTS
               ? SFT_OK
               : fail(err, SFT_E_IO, cause, "make the directory", path);
}

static sft_status move(const char *from, const char *to, DWORD flags, sft_error *err) {
    sft__fs_wide a;
    sft__fs_wide b;

    SFT_TRY(sft__fs_wide_path(&a, from, NULL, err));
    const sft_status status = sft__fs_wide_path(&b, to, NULL, err);
    if (status != SFT_OK) {
        sft__fs_wide_reset(&a, NULL);
        return status;
    }
    const DWORD attributes = GetFileAttributesW(a.text);
    if (flags != 0 && attributes != INVALID_FILE_ATTRIBUTES &&
        (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0) {
        (void)RemoveDirectoryW(b.text); /* an empty one: a directory does not replace it here */
    }
    const DWORD cause = MoveFileExW(a.text, b.text, flags) ? 0 : GetLastError();
    sft__fs_wide_reset(&a, NULL);
    sft__fs_wide_reset(&b, NULL);
    return cause == 0
               ? SFT_OK
               : fail(err, cause == ERROR_ALREADY_EXISTS ? SFT_E_EXISTS : SFT_E_NOT_COMMITTED,
                      cause, "put in place", to);
}

sft_status sft__fs_rename(const char *from, const char *to, sft_error *err) {
    return move(from, to, MOVEFILE_REPLACE_EXISTING, err);
}

sft_status sft__fs_rename_new(const char *from, const char *to, sft_error *err) {
    return move(from, to, 0, err);
}

sft_status sft__fs_link(const char *from, const char *to, sft_error *err) {
    sft__fs_wide a;
    sft__fs_wide b;

    SFT_TRY(sft__fs_wide_path(&a, from, NULL, err));
    const sft_status status = sft__fs_wide_path(&b, to, NULL, err);
    if (status != SFT_OK) {
        sft__fs_wide_reset(&a, NULL);
        return status;
    }
    const DWORD cause = CreateHardLinkW(b.text, a.text, NULL) ? 0 : GetLastError();
    sft__fs_wide_reset(&a, NULL);
    sft__fs_wide_reset(&b, NULL);
    return cause == 0 ? SFT_OK
                      : fail(err,
                             cause == ERROR_INVALID_FUNCTION || cause == ERROR_NOT_SUPPORTED ||
                                     cause == ERROR_NOT_SAME_DEVICE || cause == ERROR_TOO_MANY_LINKS
                                 ? SFT_E_UNSUPPORTED
                                 : SFT_E_NOT_COMMITTED,
                             cause, "link", to);
}

sft_status sft__fs_remove(const char *path, sft_error *err) {
    sft__fs_wide wide;

    SFT_TRY(sft__fs_wide_path(&wide, path, NULL, err));
    const DWORD cause = DeleteFileW(wide.text) ? 0 : GetLastError();
    sft__fs_wide_reset(&wide, NULL);
    return cause == 0 || cause == ERROR_FILE_NOT_FOUND || cause == ERROR_PATH_NOT_FOUND
               ? SFT_OK
               : fail(err, SFT_E_IO, cause, "remove", path);
}

bool sft__fs_remove_directory(const char *path) {
    sft__fs_wide wide;

    if (sft__fs_wide_path(&wide, path, NULL, NULL) != SFT_OK) {
        return false;
    }
    const bool removed = RemoveDirectoryW(wide.text) != 0;
    sft__fs_wide_reset(&wide, NULL);
    return removed;
}

bool sft__fs_is_link(const char *path) {
    sft__fs_wide wide;

    if (sft__fs_wide_path(&wide, path, NULL, NULL) != SFT_OK) {
        return false;
    }
    const DWORD attributes = GetFileAttributesW(wide.text);
    sft__fs_wide_reset(&wide, NULL);
    return attributes != INVALID_FILE_ATTRIBUTES &&
           (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
}

sft_status sft__fs_sync_directory(const char *path, sft_error *err) {
    (void)path, (void)err;
    return SFT_OK;
}

sft_status sft__fs_sync_parent(const char *path, sft_error *err) {
    (void)path, (void)err;
    return SFT_OK;
}
#endif
