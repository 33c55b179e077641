/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/output_win.c - as output_posix.c, for Windows. Read first: export.h.
 */
#ifdef _WIN32
#include "base/strmap.h"
#include "import/write/export.h"
#include <stdio.h>
#include <windows.h>

struct sft__output {
    const sft_allocator *allocator;
    HANDLE file;
    bool replace;
    bool named;
    wchar_t path[2048];
    wchar_t temp[2048];
};

static sft_status make_file(sft__output *o, const char *path, uint64_t size, sft_error *err) {
    LARGE_INTEGER end;
    uint64_t key[2];
    char name[4096];

    sft__random_key(key);
    const int n = snprintf(name, sizeof name, "%s.%08x.tmp", path, (unsigned)key[0]);
    if (n < 0 || (size_t)n >= sizeof name ||
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, o->path, 2048) <= 0 ||
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, name, -1, o->temp, 2048) <= 0) {
        return sft__fail(err, SFT_E_PATH, "the path is too long, or not UTF-8");
    }
    if (!o->replace && GetFileAttributesW(o->path) != INVALID_FILE_ATTRIBUTES) {
        return sft__fail_sys(err, SFT_E_EXISTS, ERROR_ALREADY_EXISTS, "cannot create %.200s", path);
    }
    o->file = CreateFileW(o->temp, GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_NEW,
                          FILE_ATTRIBUTE_NORMAL, NULL);
    if (o->file == INVALID_HANDLE_VALUE) {
        return sft__fail_sys(err, SFT_E_IO, (int32_t)GetLastError(), "cannot create %.200s", name);
    }
    o->named = true;
    end.QuadPart = (LONGLONG)size;
    if (size > INT64_MAX || !SetFilePointerEx(o->file, end, NULL, FILE_BEGIN) ||
        !SetEndOfFile(o->file)) {
        return sft__fail_sys(err, SFT_E_IO, (int32_t)GetLastError(),
                             "cannot make room for %llu bytes", (unsigned long long)size);
    }
    return SFT_OK;
}

sft_status sft__output_create(sft__output **out, const char *path, uint64_t size, bool replace,
                              const sft_allocator *allocator, sft_error *err) {
    sft__output *o = sft__alloc_zero(allocator, sizeof *o);

    *out = NULL;
    if (o == NULL) {
        return sft__fail_nomem(err, sizeof *o);
    }
    o->allocator = allocator;
    o->file = INVALID_HANDLE_VALUE;
    o->replace = replace;
    const sft_status status = make_file(o, path, size, err);
    if (status != SFT_OK) {
        sft__output_free(o);
        return status;
    }
    *out = o;
    return SFT_OK;
}

sft_status sft__output_write(sft__output *o, uint64_t offset, const void *data, size_t size,
                             sft_error *err) {
    const char *p = data;

    while (size > 0) {
        OVERLAPPED at = {0};
        DWORD done = 0;
        at.Offset = (DWORD)offset;
        at.OffsetHigh = (DWORD)(offset >> 32);
        if (!WriteFile(o->file, p, size < (1u << 30) ? (DWORD)size : 1u << 30, &done, &at) ||
            done == 0) {
            return sft__fail_sys(err, SFT_E_IO, (int32_t)GetLastError(), "cannot write the output");
        }
        p += done;
        offset += done;
        size -= done;
    }
    return SFT_OK;
}

sft_status sft__output_commit(sft__output *o, bool durable, sft_error *err) {
    bool good = !durable || FlushFileBuffers(o->file);
    good = CloseHandle(o->file) && good;
    o->file = INVALID_HANDLE_VALUE;
    if (!good || !MoveFileExW(o->temp, o->path, o->replace ? MOVEFILE_REPLACE_EXISTING : 0)) {
        const DWORD why = GetLastError();
        return sft__fail_sys(err, why == ERROR_ALREADY_EXISTS ? SFT_E_EXISTS : SFT_E_NOT_COMMITTED,
                             (int32_t)why, "cannot put the output in place");
    }
    o->named = false;
    return SFT_OK;
}

void sft__output_free(sft__output *o) {
    if (o == NULL) {
        return;
    }
    if (o->file != INVALID_HANDLE_VALUE) {
        (void)CloseHandle(o->file);
    }
    if (o->named) {
        (void)DeleteFileW(o->temp);
    }
    sft__free(o->allocator, o, sizeof *o);
}
#endif
