/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/file_win.c - files over Win32. See file.h. Paths go through wide_win.h: UTF-16 and
 * without the limit of 260 characters. Files are opened with every kind of sharing, so that an open
 * catalog disturbs nobody. Opening below a directory is in below_win.c.
 */
#ifdef _WIN32
#include "base/checked.h"
#include "fs/file.h"
#include "fs/wide_win.h"
#include <io.h>
#include <windows.h>

static const size_t CALL_MAX = (size_t)1 << 30;

static HANDLE handle_of(sft__fs_handle file) {
    return (HANDLE)file;
}

static int32_t last_error(void) {
    return (int32_t)GetLastError();
}

static uint64_t join(DWORD high, DWORD low) {
    return ((uint64_t)high << 32) | low;
}

static void stat_convert(const BY_HANDLE_FILE_INFORMATION *info, sft__fs_stat *st) {
    const uint64_t ticks =
        join(info->ftLastWriteTime.dwHighDateTime, info->ftLastWriteTime.dwLowDateTime);
    st->exists = true;
    st->size = join(info->nFileSizeHigh, info->nFileSizeLow);
    st->stored = join(info->nFileSizeHigh, info->nFileSizeLow);
    st->device = info->dwVolumeSerialNumber;
    st->inode = join(info->nFileIndexHigh, info->nFileIndexLow);
    st->mtime_ns = (int64_t)(ticks * 100); /* wraps for ages beyond use; compared only */
    st->mode = 0644;
    st->names = info->nNumberOfLinks;
    st->folder = (info->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    st->regular = !st->folder;
}

sft_status sft__fs_stat_file(sft__fs_handle file, const char *name, sft__fs_stat *st,
                             sft_error *err) {
    BY_HANDLE_FILE_INFORMATION info;

    if (GetFileInformationByHandle(handle_of(file), &info) == 0) {
        return sft__base_fail_sys(err, SFT_E_IO, last_error(), "cannot look at %s", name);
    }
    stat_convert(&info, st);
    return SFT_OK;
}

sft_status sft__fs_stat_fd(int fd, const char *name, sft__fs_stat *st, sft_error *err) {
    return sft__fs_stat_file((sft__fs_handle)_get_osfhandle(fd), name, st, err);
}

/* Looks at an open handle; closes it unless it is what is wanted. */
static sft_status accept_handle(HANDLE h, const char *name, bool folder_too, sft__fs_handle *out,
                                sft__fs_stat *st, sft_error *err) {
    sft_status status = SFT_OK;

    if (GetFileType(h) != FILE_TYPE_DISK) {
        status = sft__base_fail(err, SFT_E_NOT_REGULAR,
                                "%s is a device or pipe, not a regular file", name);
    } else {
        status = sft__fs_stat_file((sft__fs_handle)h, name, st, err);
    }
    if (status == SFT_OK && st->folder && !folder_too) {
        status =
            sft__base_fail(err, SFT_E_NOT_REGULAR, "%s is a directory, not a regular file", name);
    }
    if (status != SFT_OK) {
        (void)CloseHandle(h);
        return status;
    }
    *out = (sft__fs_handle)h;
    return SFT_OK;
}

static sft_status open_path(const char *path, bool folder_too, sft__fs_handle *out,
                            sft__fs_stat *st, sft_error *err) {
    sft__fs_wide wide;
    HANDLE h;

    *out = SFT__FS_NO_HANDLE;
    SFT_TRY(sft__fs_wide_path(&wide, path[0] != '\0' ? path : ".", NULL, err));
    /* backup semantics: needed to open directories */
    h = CreateFileW(wide.text, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                    NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    const int32_t cause = last_error();
    sft__fs_wide_reset(&wide, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        return sft__base_fail_sys(err, SFT_E_IO, cause, "cannot open %s", path);
    }
    return accept_handle(h, path, folder_too, out, st, err);
}

sft_status sft__fs_open_any(const char *path, sft__fs_handle *out, sft__fs_stat *st,
                            sft_error *err) {
    return open_path(path, true, out, st, err);
}

sft_status sft__fs_open(const char *path, sft__fs_handle *out, sft__fs_stat *st, sft_error *err) {
    return open_path(path, false, out, st, err);
}

sft_status sft__fs_open_fd(int fd, const char *name, sft__fs_handle *out, sft__fs_stat *st,
                           sft_error *err) {
    const intptr_t given = _get_osfhandle(fd);
    HANDLE copy = INVALID_HANDLE_VALUE;

    *out = SFT__FS_NO_HANDLE;
    if (given == -1 || given == -2) {
        return sft__base_fail_sys(err, SFT_E_IO, ERROR_INVALID_HANDLE, "descriptor %d", fd);
    }
    if (DuplicateHandle(GetCurrentProcess(), (HANDLE)given, GetCurrentProcess(), &copy, 0, FALSE,
                        DUPLICATE_SAME_ACCESS) == 0) {
        return sft__base_fail_sys(err, SFT_E_IO, last_error(), "cannot duplicate %s", name);
    }
    return accept_handle(copy, name, false, out, st, err);
}

void sft__fs_close(sft__fs_handle file) {
    if (file != SFT__FS_NO_HANDLE) {
        (void)CloseHandle(handle_of(file));
    }
}

sft_status sft__fs_scratch(sft__fs_handle *out, sft_error *err) {
    *out = SFT__FS_NO_HANDLE;
    return sft__base_fail(err, SFT_E_UNSUPPORTED, "no files without names on Windows");
}

bool sft__fs_real(const char *path, sft__base_buf *out) {
    sft__fs_wide wide;
    sft__fs_wide real = {0};

    if (sft__fs_wide_path(&wide, path, NULL, NULL) != SFT_OK) {
        return false;
    }
    const HANDLE h =
        CreateFileW(wide.text, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    sft__fs_wide_reset(&wide, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        return false;
    }
    const bool found = sft__fs_wide_final(&real, h, path, NULL, NULL) == SFT_OK;
    const int n = found ? WideCharToMultiByte(CP_UTF8, 0, real.text, -1, NULL, 0, NULL, NULL) : 0;
    const size_t at = out->len;
    (void)CloseHandle(h);
    if (n > 0 && sft__base_buf_reserve(out, (size_t)n)) {
        (void)WideCharToMultiByte(CP_UTF8, 0, real.text, -1, out->data + at, n, NULL, NULL);
        out->len = at + (size_t)n;
    }
    sft__fs_wide_reset(&real, NULL);
    return n > 0 && !out->failed;
}

sft_status sft__fs_link_target(const char *path, sft__base_buf *out, bool *is, sft_error *err) {
    (void)path;
    (void)out;
    (void)err;
    *is = false;
    return SFT_OK;
}

sft_status sft__fs_stat_path(const char *path, bool *exists, sft__fs_stat *st, sft_error *err) {
    sft__fs_wide wide;
    HANDLE h;
    sft_status status;

    *exists = false;
    SFT_TRY(sft__fs_wide_path(&wide, path, NULL, err));
    h = CreateFileW(wide.text, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    const int32_t cause = last_error();
    sft__fs_wide_reset(&wide, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        /* A name that is longer than names can be is nobody's: what would lie beside a file has one. */
        return cause == ERROR_FILE_NOT_FOUND || cause == ERROR_PATH_NOT_FOUND ||
                       cause == ERROR_FILENAME_EXCED_RANGE
                   ? SFT_OK
                   : sft__base_fail_sys(err, SFT_E_IO, cause, "cannot look at %s", path);
    }
    if (GetFileType(h) == FILE_TYPE_DISK) {
        status = sft__fs_stat_file((sft__fs_handle)h, path, st, err);
    } else {
        memset(st, 0, sizeof *st);
        st->exists = true;
        status = SFT_OK;
    }
    (void)CloseHandle(h);
    *exists = status == SFT_OK;
    return status;
}

/* ---------------------------------------------------------------- directories */

static sft_status visit_found(const WIN32_FIND_DATAW *found, sft__fs_visit visit, void *ctx,
                              sft_error *err) {
    char name[4 * MAX_PATH]; /* at most 3 bytes of UTF-8 for one UTF-16 unit, and a NUL */
    const int n =
        WideCharToMultiByte(CP_UTF8, 0, found->cFileName, -1, name, (int)sizeof name, NULL, NULL);

    if (n <= 1 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return SFT_OK;
    }
    return visit(ctx, name, (size_t)n - 1, err);
}

/* `path` with \* behind it: what FindFirstFile lists. */
static sft_status list_pattern(sft__fs_wide *out, const char *path, sft_error *err) {
    sft__fs_wide folder;
    size_t len;

    SFT_TRY(sft__fs_wide_path(&folder, path[0] != '\0' ? path : ".", NULL, err));
    len = folder.len;
    out->size = (len + 3) * sizeof *out->text; /* len * 2 was allocated before: cannot overflow */
    out->text = sft__base_alloc(NULL, out->size);
    if (out->text == NULL) {
        sft__fs_wide_reset(&folder, NULL);
        return sft__base_fail_nomem(err, out->size);
    }
    memcpy(out->text, folder.text, len * sizeof *out->text);
    sft__fs_wide_reset(&folder, NULL);
    if (len > 0 && out->text[len - 1] != L'\\') {
        out->text[len++] = L'\\';
    }
    out->text[len] = L'*';
    out->text[len + 1] = L'\0';
    out->len = len + 1;
    return SFT_OK;
}

sft_status sft__fs_list(const char *path, sft__fs_visit visit, void *ctx, sft_error *err) {
    sft__fs_wide pattern;
    WIN32_FIND_DATAW found;
    sft_status status = SFT_OK;
    HANDLE find;

    SFT_TRY(list_pattern(&pattern, path, err));
    find = FindFirstFileW(pattern.text, &found);
    const int32_t cause = last_error();
    sft__fs_wide_reset(&pattern, NULL);
    if (find == INVALID_HANDLE_VALUE) {
        return cause == ERROR_FILE_NOT_FOUND
                   ? SFT_OK
                   : sft__base_fail_sys(err, SFT_E_IO, cause, "cannot list %s", path);
    }
    do {
        status = visit_found(&found, visit, ctx, err);
    } while (status == SFT_OK && FindNextFileW(find, &found) != 0);
    if (status == SFT_OK && GetLastError() != ERROR_NO_MORE_FILES) {
        status = sft__base_fail_sys(err, SFT_E_IO, last_error(), "cannot list %s", path);
    }
    (void)FindClose(find);
    return status;
}

int sft__fs_descriptor(sft__fs_handle file) {
    (void)file;
    return -1;
}

const char *sft__fs_base_name(const char *path) {
    const char *base = path;
    for (const char *p = path; *p != '\0'; p++) {
        if (*p == '/' || *p == '\\' || (*p == ':' && p == path + 1)) {
            base = p + 1;
        }
    }
    return base;
}

/* ---------------------------------------------------------------- bytes */

static bool position_fits(uint64_t offset, size_t size) {
    uint64_t end;
    return sft__base_add64(offset, size, &end) && end <= (uint64_t)INT64_MAX;
}

static OVERLAPPED position(uint64_t offset) {
    OVERLAPPED at;
    memset(&at, 0, sizeof at);
    at.Offset = (DWORD)(offset & 0xffffffffu);
    at.OffsetHigh = (DWORD)(offset >> 32);
    return at;
}

static sft_status fail_transfer(const char *verb, const char *name, uint64_t offset, int32_t cause,
                                sft_error *err) {
    (void)sft__base_fail_sys(err, SFT_E_IO, cause, "cannot %s %s at byte %llu", verb, name,
                             (unsigned long long)offset);
    if (err != NULL) {
        err->offset = offset;
    }
    return SFT_E_IO;
}

sft_status sft__fs_read_at(sft__fs_handle file, const char *name, uint64_t offset, void *dst,
                           size_t size, sft_error *err) {
    uint8_t *p = dst;

    if (!position_fits(offset, size)) {
        return sft__base_fail_at(err, SFT_E_ARG, offset, "position %llu is beyond any file",
                                 (unsigned long long)offset);
    }
    while (size > 0) {
        OVERLAPPED at = position(offset);
        DWORD n = 0;
        if (ReadFile(handle_of(file), p, (DWORD)(size < CALL_MAX ? size : CALL_MAX), &n, &at) ==
                0 &&
            GetLastError() != ERROR_HANDLE_EOF) {
            return fail_transfer("read", name, offset, last_error(), err);
        }
        if (n == 0) {
            return sft__base_fail_at(err, SFT_E_TRUNCATED, offset,
                                     "%s ends at byte %llu or before, %llu more bytes were needed",
                                     name, (unsigned long long)offset, (unsigned long long)size);
        }
        p += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

sft_status sft__fs_write_at(sft__fs_handle file, const char *name, uint64_t offset, const void *src,
                            size_t size, sft_error *err) {
    const uint8_t *p = src;

    if (!position_fits(offset, size)) {
        return sft__base_fail_at(err, SFT_E_ARG, offset, "position %llu is beyond any file",
                                 (unsigned long long)offset);
    }
    while (size > 0) {
        OVERLAPPED at = position(offset);
        DWORD n = 0;
        if (WriteFile(handle_of(file), p, (DWORD)(size < CALL_MAX ? size : CALL_MAX), &n, &at) ==
            0) {
            return fail_transfer("write", name, offset, last_error(), err);
        }
        if (n == 0) {
            return fail_transfer("write", name, offset, ERROR_WRITE_FAULT, err);
        }
        p += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

sft_status sft__fs_may_grow(const char *name, uint64_t size, sft_error *err) {
    return size <= (uint64_t)INT64_MAX ? SFT_OK
                                       : sft__base_fail_sys(err, SFT_E_IO, ERROR_DISK_FULL,
                                                            "cannot reserve %llu bytes for \"%s\"",
                                                            (unsigned long long)size, name);
}

sft_status sft__fs_resize(sft__fs_handle file, const char *name, uint64_t size, sft_error *err) {
    FILE_END_OF_FILE_INFO end;

    end.EndOfFile.QuadPart = (LONGLONG)size;
    return SetFileInformationByHandle(handle_of(file), FileEndOfFileInfo, &end, sizeof end) != 0
               ? SFT_OK
               : sft__base_fail_sys(err, SFT_E_IO, last_error(),
                                    "cannot give \"%s\" a size of %llu bytes", name,
                                    (unsigned long long)size);
}

sft_status sft__fs_reserve(sft__fs_handle file, const char *name, uint64_t size, sft_error *err) {
    FILE_ALLOCATION_INFO blocks;

    SFT_TRY(sft__fs_may_grow(name, size, err));
    blocks.AllocationSize.QuadPart = (LONGLONG)size;
    if (SetFileInformationByHandle(handle_of(file), FileAllocationInfo, &blocks, sizeof blocks) ==
            0 &&
        GetLastError() == ERROR_DISK_FULL) {
        return sft__base_fail_sys(err, SFT_E_IO, ERROR_DISK_FULL,
                                  "cannot reserve %llu bytes for \"%s\"", (unsigned long long)size,
                                  name);
    }
    return sft__fs_resize(file, name, size, err);
}

sft_status sft__fs_sync(sft__fs_handle file, const char *name, sft_error *err) {
    return FlushFileBuffers(handle_of(file)) != 0
               ? SFT_OK
               : sft__base_fail_sys(err, SFT_E_IO, last_error(), "cannot flush \"%s\"", name);
}

void sft__fs_sync_soon(sft__fs_handle file, uint64_t offset, uint64_t size) {
    (void)file, (void)offset, (void)size;
}

sft_status sft__fs_stream_read(int fd, void *dst, size_t size, size_t *got, sft_error *err) {
    const intptr_t h = _get_osfhandle(fd);
    DWORD n = 0;

    *got = 0;
    if (h == -1 || h == -2) {
        return sft__base_fail_sys(err, SFT_E_IO, ERROR_INVALID_HANDLE, "descriptor %d", fd);
    }
    if (ReadFile((HANDLE)h, dst, (DWORD)(size < CALL_MAX ? size : CALL_MAX), &n, NULL) == 0) {
        const DWORD cause = GetLastError(); /* the writer's end was closed: the end */
        if (cause != ERROR_BROKEN_PIPE && cause != ERROR_HANDLE_EOF) {
            return sft__base_fail_sys(err, SFT_E_IO, (int32_t)cause, "cannot read the stream");
        }
    }
    *got = n;
    return SFT_OK;
}

/* ---------------------------------------------------------------- mapping */

sft_status sft__fs_map(sft__fs_handle file, const char *name, uint64_t size, const void **map,
                       sft_error *err) {
    size_t bytes;
    HANDLE section;

    *map = NULL;
    if (!sft__base_size_from_u64(size, &bytes) || bytes > PTRDIFF_MAX) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "%s has %llu bytes, too many to map on this system", name,
                              (unsigned long long)size);
    }
    section = CreateFileMappingW(handle_of(file), NULL, PAGE_READONLY, 0, 0, NULL);
    if (section == NULL) {
        return sft__base_fail_sys(err, SFT_E_IO, last_error(), "cannot map %s", name);
    }
    *map = MapViewOfFile(section, FILE_MAP_READ, 0, 0, bytes);
    const int32_t cause = last_error();
    (void)CloseHandle(section); /* the view keeps it */
    if (*map == NULL) {
        return sft__base_fail_sys(err, SFT_E_IO, cause, "cannot map %s", name);
    }
    return SFT_OK;
}

void sft__fs_unmap(const void *map, uint64_t size) {
    (void)size;
    if (map != NULL) {
        (void)UnmapViewOfFile(map);
    }
}

bool sft__fs_resident(sft__fs_handle file, uint64_t offset, uint64_t size) {
    (void)file, (void)offset, (void)size;
    return false;
}

/* Windows takes such advice only when a file is opened. */
void sft__fs_advise(sft__fs_handle file, uint64_t offset, uint64_t size, sft_advice advice) {
    (void)file, (void)offset, (void)size, (void)advice;
}

void sft__fs_map_advise(const void *map, uint64_t map_size, uint64_t offset, uint64_t size,
                        sft_advice advice) {
    (void)map, (void)map_size, (void)offset, (void)size, (void)advice;
}
#else
typedef int sft__fs_file_win_empty;
#endif
