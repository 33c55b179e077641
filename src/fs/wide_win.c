/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/wide_win.c - see wide_win.h.
 */
#ifdef _WIN32
#include "fs/wide_win.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include <io.h>
#include <windows.h>

enum { PREFIX_ROOM = 8 }; /* "\\?\UNC\" takes the place of "\\" */

static sft_status make_room(sft__fs_wide *w, size_t characters, const sft_allocator *allocator,
                            sft_error *err) {
    w->text = NULL;
    w->len = 0;
    SFT_NEED(sft__base_mul_size(characters, sizeof *w->text, &w->size), SIZE_MAX, err);
    w->text = sft__base_alloc(allocator, w->size);
    return w->text == NULL ? sft__base_fail_nomem(err, w->size) : SFT_OK;
}

void sft__fs_wide_reset(sft__fs_wide *w, const sft_allocator *allocator) {
    sft__base_free(allocator, w->text, w->size);
    w->text = NULL;
}

static sft_status from_utf8(sft__fs_wide *out, const char *path, const sft_allocator *allocator,
                            sft_error *err) {
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);

    memset(out, 0, sizeof *out);
    if (n <= 0) {
        return sft__base_fail_sys(err, SFT_E_PATH, (int32_t)GetLastError(),
                                  "the path is not UTF-8");
    }
    SFT_TRY(make_room(out, (size_t)n, allocator, err));
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out->text, n) != n) {
        sft__fs_wide_reset(out, allocator);
        return sft__base_fail(err, SFT_E_PATH, "the path is not UTF-8");
    }
    out->len = (size_t)n - 1;
    return SFT_OK;
}

/* The absolute path, written PREFIX_ROOM characters into *full. */
static sft_status make_absolute(sft__fs_wide *full, const wchar_t *path,
                                const sft_allocator *allocator, sft_error *err) {
    const DWORD need = GetFullPathNameW(path, 0, NULL, NULL);
    DWORD n = 0;

    if (need != 0) {
        SFT_TRY(make_room(full, (size_t)need + PREFIX_ROOM, allocator, err));
        n = GetFullPathNameW(path, need, full->text + PREFIX_ROOM, NULL);
    }
    if (n == 0 || n >= need) {
        const int32_t cause = (int32_t)GetLastError();
        sft__fs_wide_reset(full, allocator);
        return sft__base_fail_sys(err, SFT_E_PATH, cause, "the path cannot be made absolute");
    }
    full->len = n;
    return SFT_OK;
}

/* Puts the prefix before the path and the path to the front. */
static void add_prefix(sft__fs_wide *w) {
    static const wchar_t unc[] = L"\\\\?\\UNC\\";
    static const wchar_t local[] = L"\\\\?\\";
    wchar_t *path = w->text + PREFIX_ROOM;
    const wchar_t *prefix = local;
    size_t prefix_len = 4;

    if (path[0] == L'\\' && path[1] == L'\\' && (path[2] == L'?' || path[2] == L'.')) {
        prefix_len = 0; /* prefixed already, or a device */
    } else if (path[0] == L'\\' && path[1] == L'\\') {
        prefix = unc;
        prefix_len = 8;
        path += 2;
        w->len -= 2;
    }
    memmove(w->text + prefix_len, path, (w->len + 1) * sizeof *path);
    memcpy(w->text, prefix, prefix_len * sizeof *path);
    w->len += prefix_len;
}

sft_status sft__fs_wide_path(sft__fs_wide *out, const char *path, const sft_allocator *allocator,
                             sft_error *err) {
    sft__fs_wide relative;
    sft_status st;

    memset(out, 0, sizeof *out);
    if (path[0] == '\0') {
        return sft__base_fail(err, SFT_E_PATH, "the path is empty");
    }
    SFT_TRY(from_utf8(&relative, path, allocator, err));
    st = make_absolute(out, relative.text, allocator, err);
    if (st == SFT_OK) {
        add_prefix(out);
    }
    sft__fs_wide_reset(&relative, allocator);
    return st;
}

sft_status sft__fs_wide_final(sft__fs_wide *out, void *handle, const char *name,
                              const sft_allocator *allocator, sft_error *err) {
    const DWORD flags = FILE_NAME_NORMALIZED | VOLUME_NAME_DOS;
    const DWORD need = GetFinalPathNameByHandleW(handle, NULL, 0, flags);
    DWORD n = 0;

    memset(out, 0, sizeof *out);
    if (need != 0) {
        SFT_TRY(make_room(out, (size_t)need + 1, allocator, err));
        n = GetFinalPathNameByHandleW(handle, out->text, need + 1, flags);
    }
    if (n == 0 || n > need) {
        const int32_t cause = (int32_t)GetLastError();
        sft__fs_wide_reset(out, allocator);
        return sft__base_fail_sys(err, SFT_E_IO, cause, "cannot tell where %s lies", name);
    }
    out->len = n;
    return SFT_OK;
}

sft_status sft__fs_wide_create(void **out, const char *path, sft__fs_wide_open how, int32_t *cause,
                               sft_error *err) {
    sft__fs_wide wide;

    SFT_TRY(sft__fs_wide_path(&wide, path[0] != '\0' ? path : ".", NULL, err));
    const HANDLE h =
        CreateFileW(wide.text, how.access, how.share, NULL, how.disposition, how.flags, NULL);
    *cause = (int32_t)GetLastError();
    *out = h != INVALID_HANDLE_VALUE ? h : NULL;
    sft__fs_wide_reset(&wide, NULL);
    return SFT_OK;
}

sft_status sft__fs_wide_handle(int fd, void **out, sft_error *err) {
    const intptr_t h = _get_osfhandle(fd);
    *out = (HANDLE)h;
    return h != -1 && h != -2
               ? SFT_OK
               : sft__base_fail_sys(err, SFT_E_IO, ERROR_INVALID_HANDLE, "descriptor %d", fd);
}
#endif
