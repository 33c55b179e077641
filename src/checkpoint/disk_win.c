/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/disk_win.c - see disk.h. A file that is opened to be held is shared with nobody.
 */
#ifdef _WIN32
#include "checkpoint/disk.h"
#include <io.h>
#include <windows.h>

enum { ROOM = 4096 };

static sft_status widen(const char *path, wchar_t out[ROOM], sft_error *err) {
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, ROOM) <= 0) {
        return sft__fail(err, SFT_E_PATH, "path is no UTF-8, or too long: \"%.200s\"", path);
    }
    return SFT_OK;
}

static sft_status fail(sft_error *err, sft_status status, const char *what, const char *path) {
    return sft__fail_sys(err, status, (int32_t)GetLastError(), "cannot %s \"%.200s\"", what, path);
}

static sft_status open_shared(const char *path, DWORD share, sft__checkpoint_disk *out,
                              sft_error *err) {
    BY_HANDLE_FILE_INFORMATION info;
    wchar_t wide[ROOM];
    *out = SFT__DISK_NONE;
    SFT_TRY(widen(path, wide, err));
    const HANDLE h = CreateFileW(wide, GENERIC_READ | GENERIC_WRITE, share, NULL, OPEN_ALWAYS,
                                 FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        return GetLastError() == ERROR_SHARING_VIOLATION
                   ? sft__fail(err, SFT_E_STATE, "another process is at it: \"%.200s\" is locked",
                               path)
                   : fail(err, SFT_E_IO, "create", path);
    }
    if (GetFileInformationByHandle(h, &info) && info.nNumberOfLinks > 1) { /* not ours to change */
        (void)CloseHandle(h);
        return sft__fail(err, SFT_E_EXISTS,
                         "\"%.200s\" has another name, whose file would change with it: restart",
                         path);
    }
    *out = (sft__checkpoint_disk)h;
    return SFT_OK;
}

sft_status sft__checkpoint_disk_open(const char *path, sft__checkpoint_disk *out, sft_error *err) {
    return open_shared(path, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, out, err);
}

sft_status sft__checkpoint_disk_open_locked(const char *path, sft__checkpoint_disk *out,
                                            sft_error *err) {
    return open_shared(path, FILE_SHARE_READ, out, err);
}

/* Here nothing that is open and locked is removed, so folders with journals in use stay. */
sft_status sft__checkpoint_disk_hold_folder(const char *path, sft__checkpoint_disk *out,
                                            sft_error *err) {
    *out = SFT__DISK_NONE;
    return sft__checkpoint_disk_make_folder(path, err);
}

bool sft__checkpoint_disk_hold_alone(sft__checkpoint_disk folder) {
    (void)folder;
    return true;
}

bool sft__checkpoint_disk_is_at(sft__checkpoint_disk disk, const char *path) {
    (void)disk;
    (void)path;
    return true;
}

void sft__checkpoint_disk_close(sft__checkpoint_disk disk) {
    if (disk != SFT__DISK_NONE) {
        (void)CloseHandle((HANDLE)disk);
    }
}

sft_status sft__checkpoint_disk_reserve(sft__checkpoint_disk disk, const char *path, uint64_t size,
                                        sft_error *err) {
    return sft__checkpoint_disk_cut(disk, path, size, err);
}

sft_status sft__checkpoint_disk_cut(sft__checkpoint_disk disk, const char *path, uint64_t size,
                                    sft_error *err) {
    LARGE_INTEGER now;
    LARGE_INTEGER at;
    at.QuadPart = (LONGLONG)size;
    if (GetFileSizeEx((HANDLE)disk, &now) && now.QuadPart == at.QuadPart) {
        return SFT_OK;
    }
    if (!SetFilePointerEx((HANDLE)disk, at, NULL, FILE_BEGIN) || !SetEndOfFile((HANDLE)disk)) {
        return fail(err, SFT_E_IO, "set the size of", path);
    }
    return SFT_OK;
}

static OVERLAPPED at_offset(uint64_t offset) {
    OVERLAPPED o;
    memset(&o, 0, sizeof o);
    o.Offset = (DWORD)offset;
    o.OffsetHigh = (DWORD)(offset >> 32);
    return o;
}

sft_status sft__checkpoint_disk_write(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                      const void *data, size_t size, sft_error *err) {
    const uint8_t *at = data;
    while (size > 0) {
        OVERLAPPED o = at_offset(offset);
        const DWORD want = size > (1u << 30) ? 1u << 30 : (DWORD)size;
        DWORD n = 0;
        if (!WriteFile((HANDLE)disk, at, want, &n, &o) || n == 0) {
            return fail(err, SFT_E_IO, "write", path);
        }
        at += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

sft_status sft__checkpoint_disk_read(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                     void *data, size_t size, sft_error *err) {
    uint8_t *at = data;
    while (size > 0) {
        OVERLAPPED o = at_offset(offset);
        const DWORD want = size > (1u << 30) ? 1u << 30 : (DWORD)size;
        DWORD n = 0;
        if (!ReadFile((HANDLE)disk, at, want, &n, &o) || n == 0) {
            return GetLastError() == ERROR_HANDLE_EOF || n == 0
                       ? sft__fail_at(err, SFT_E_TRUNCATED, offset, "\"%.200s\" ends too early",
                                      path)
                       : fail(err, SFT_E_IO, "read", path);
        }
        at += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

sft_status sft__checkpoint_disk_copy(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                     int fd, uint64_t from, uint64_t size, uint64_t *moved,
                                     sft_error *err) {
    (void)disk;
    (void)path;
    (void)offset;
    (void)fd;
    (void)from;
    (void)size;
    (void)err;
    *moved = 0;
    return SFT_OK;
}

sft_status sft__checkpoint_disk_sync(sft__checkpoint_disk disk, const char *path, sft_error *err) {
    return FlushFileBuffers((HANDLE)disk) ? SFT_OK : fail(err, SFT_E_IO, "flush", path);
}

void sft__checkpoint_disk_flush_soon(sft__checkpoint_disk disk, uint64_t offset, uint64_t size) {
    (void)disk;
    (void)offset;
    (void)size;
}

/* From 1601 in units of 100 ns; only ever compared. */
static void fill_fact(const BY_HANDLE_FILE_INFORMATION *info, sft__checkpoint_disk_fact *fact) {
    fact->exists = true;
    fact->folder = (info->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    fact->regular = !fact->folder;
    fact->size = (uint64_t)info->nFileSizeHigh << 32 | info->nFileSizeLow;
    fact->mtime_ns = (int64_t)((uint64_t)info->ftLastWriteTime.dwHighDateTime << 32 |
                               info->ftLastWriteTime.dwLowDateTime);
    fact->device = info->dwVolumeSerialNumber;
    fact->number = (uint64_t)info->nFileIndexHigh << 32 | info->nFileIndexLow;
}

static sft_status stat_handle(HANDLE h, const char *path, sft__checkpoint_disk_fact *fact,
                              sft_error *err) {
    BY_HANDLE_FILE_INFORMATION info;
    if (!GetFileInformationByHandle(h, &info)) {
        return fail(err, SFT_E_IO, "look at", path);
    }
    fill_fact(&info, fact);
    return SFT_OK;
}

sft_status sft__checkpoint_disk_stat(const char *path, sft__checkpoint_disk_fact *fact,
                                     sft_error *err) {
    wchar_t wide[ROOM];
    memset(fact, 0, sizeof *fact);
    SFT_TRY(widen(path, wide, err));
    const HANDLE h = CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                 NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        const DWORD cause = GetLastError();
        return cause == ERROR_FILE_NOT_FOUND || cause == ERROR_PATH_NOT_FOUND
                   ? SFT_OK
                   : fail(err, SFT_E_IO, "look at", path);
    }
    const sft_status status = stat_handle(h, path, fact, err);
    (void)CloseHandle(h);
    return status;
}

sft_status sft__checkpoint_disk_stat_fd(int fd, const char *path, sft__checkpoint_disk_fact *fact,
                                        sft_error *err) {
    memset(fact, 0, sizeof *fact);
    return stat_handle((HANDLE)_get_osfhandle(fd), path, fact, err);
}

sft_status sft__checkpoint_disk_make_folder(const char *path, sft_error *err) {
    wchar_t wide[ROOM];
    SFT_TRY(widen(path, wide, err));
    if (!CreateDirectoryW(wide, NULL) && GetLastError() != ERROR_ALREADY_EXISTS) {
        return fail(err, SFT_E_IO, "make the folder", path);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_disk_rename(const char *from, const char *to, sft_error *err) {
    wchar_t a[ROOM];
    wchar_t b[ROOM];
    SFT_TRY(widen(from, a, err));
    SFT_TRY(widen(to, b, err));
    if ((GetFileAttributesW(a) & FILE_ATTRIBUTE_DIRECTORY) != 0) {
        (void)RemoveDirectoryW(b); /* an empty one: a folder does not replace it here */
    }
    return MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING)
               ? SFT_OK
               : fail(err, SFT_E_NOT_COMMITTED, "put in place", to);
}

sft_status sft__checkpoint_disk_keep(const char *from, const char *to, sft_error *err) {
    (void)from;
    (void)to;
    (void)err;
    return SFT_OK;
}

sft_status sft__checkpoint_disk_remove(const char *path, sft_error *err) {
    wchar_t wide[ROOM];
    SFT_TRY(widen(path, wide, err));
    if (!DeleteFileW(wide) && GetLastError() != ERROR_FILE_NOT_FOUND &&
        GetLastError() != ERROR_PATH_NOT_FOUND) {
        return fail(err, SFT_E_IO, "remove", path);
    }
    return SFT_OK;
}

bool sft__checkpoint_disk_is_link(const char *path) {
    wchar_t wide[ROOM];
    const DWORD attributes =
        widen(path, wide, NULL) == SFT_OK ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    return attributes != INVALID_FILE_ATTRIBUTES &&
           (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
}

bool sft__checkpoint_disk_remove_folder(const char *path) {
    wchar_t wide[ROOM];
    return widen(path, wide, NULL) == SFT_OK && RemoveDirectoryW(wide);
}

sft_status sft__checkpoint_disk_sync_folder(const char *path, sft_error *err) {
    (void)path;
    (void)err;
    return SFT_OK;
}
#endif
