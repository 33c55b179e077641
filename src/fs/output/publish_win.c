/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/publish_win.c - atomic publication on Windows: a file .NAME.tmp.<random> beside the target,
 * flushed and moved over it. Links are followed to the file that they name. A file that somebody
 * has open without sharing, or mapped, cannot be replaced: that is SFT_E_NOT_COMMITTED.
 */
#ifdef _WIN32
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "base/text/strmap.h"
#include "fs/output/publish.h"
#include "fs/wide_win.h"
#include <windows.h>

enum { TEMP_TRIES = 16, NAME_LIMIT = 255, TEMP_EXTRA = 1 + 5 + 16 };

struct sft__fs_publish {
    sft__fs_publish_options options;
    char *path; /* as given */
    size_t path_size;
    sft__fs_wide target;
    sft__fs_wide temp; /* text NULL: nothing to remove */
    HANDLE file;
};

/* Where the last component begins. */
static size_t base_of(const sft__fs_wide *w) {
    size_t at = w->len;
    while (at > 0 && w->text[at - 1] != L'\\' && w->text[at - 1] != L'/') {
        at--;
    }
    return at;
}

/* What a handle's path is with all links followed; false: the path stays as it is. */
static bool final_path(sft__fs_publish *p, HANDLE h) {
    sft__fs_wide real;

    if (sft__fs_wide_final(&real, h, p->path, p->options.allocator, NULL) != SFT_OK) {
        return false;
    }
    sft__fs_wide_reset(&p->target, p->options.allocator);
    p->target = real;
    return true;
}

static sft_status find_target(sft__fs_publish *p, sft_error *err) {
    BY_HANDLE_FILE_INFORMATION info;
    HANDLE h;
    bool directory;
    bool disk;

    SFT_TRY(sft__fs_wide_path(&p->target, p->path, p->options.allocator, err));
    if (base_of(&p->target) == p->target.len || wcsncmp(p->target.text, L"\\\\.\\", 4) == 0) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR,
                              "\"%s\" names a directory or a device, not a file", p->path);
    }
    h = CreateFileW(p->target.text, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                    OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        const DWORD cause = GetLastError();
        if (cause == ERROR_FILE_NOT_FOUND) {
            return SFT_OK;
        }
        return sft__base_fail_sys(err, SFT_E_IO, (int32_t)cause, "cannot look at \"%s\"", p->path);
    }
    disk = GetFileType(h) == FILE_TYPE_DISK && GetFileInformationByHandle(h, &info) != 0;
    directory = disk && (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    if (disk && !directory) {
        (void)final_path(p, h);
    }
    (void)CloseHandle(h); /* opened for no access at all */
    if (!disk || directory) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR, "\"%s\" is %s, not a regular file", p->path,
                              directory ? "a directory" : "a device");
    }
    if (p->options.new_only) {
        return sft__base_fail(err, SFT_E_EXISTS, "\"%s\" exists already", p->path);
    }
    return SFT_OK;
}

/* DIRECTORY\.NAME.tmp.<16 hex>, NAME cut so that the whole fits. */
static void make_temp_name(sft__fs_publish *p) {
    const size_t base = base_of(&p->target);
    size_t keep = p->target.len - base;
    wchar_t *at = p->temp.text;
    uint64_t key[2];

    if (keep > NAME_LIMIT - TEMP_EXTRA) {
        keep = NAME_LIMIT - TEMP_EXTRA;
        keep -=
            (p->target.text[base + keep] & 0xfc00) == 0xdc00 ? 1 : 0; /* not between surrogates */
    }
    sft__base_random_key(key);
    memcpy(at, p->target.text, base * sizeof *at);
    at += base;
    *at++ = L'.';
    memcpy(at, p->target.text + base, keep * sizeof *at);
    at += keep;
    memcpy(at, L".tmp.", 5 * sizeof *at);
    at += 5;
    for (int i = 0; i < 16; i++) {
        *at++ = (wchar_t)sft__base_hex_digits[(key[0] >> (4 * i)) & 15];
    }
    *at = L'\0';
}

static sft_status create_temp(sft__fs_publish *p, sft_error *err) {
    DWORD cause = ERROR_FILE_EXISTS;

    p->temp.size =
        (p->target.len + TEMP_EXTRA + 1) * sizeof *p->temp.text; /* fits: target.size did */
    p->temp.text = sft__base_alloc(p->options.allocator, p->temp.size);
    SFT_NEED(p->temp.text != NULL, p->temp.size, err);
    for (int i = 0; i < TEMP_TRIES && cause == ERROR_FILE_EXISTS; i++) {
        make_temp_name(p);
        p->file = CreateFileW(p->temp.text, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, NULL,
                              CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
        if (p->file != INVALID_HANDLE_VALUE) {
            return SFT_OK;
        }
        cause = GetLastError();
    }
    sft__fs_wide_reset(&p->temp, p->options.allocator);
    return sft__base_fail_sys(err, SFT_E_IO, (int32_t)cause,
                              "cannot create a file in the directory of \"%s\"", p->path);
}

sft_status sft__fs_publish_open(sft__fs_publish **out, const char *path,
                                const sft__fs_publish_options *options, sft_error *err) {
    sft__fs_publish *p;
    sft_status st;

    *out = NULL;
    p = sft__base_alloc_zero(options->allocator, sizeof *p);
    SFT_NEED(p != NULL, sizeof *p, err);
    p->options = *options;
    p->file = INVALID_HANDLE_VALUE;
    p->path_size = strlen(path) + 1;
    p->path = sft__base_alloc(options->allocator, p->path_size);
    if (p->path == NULL) {
        st = sft__base_fail_nomem(err, p->path_size);
    } else {
        memcpy(p->path, path, p->path_size);
        st = find_target(p, err);
    }
    if (st == SFT_OK) {
        st = create_temp(p, err);
    }
    if (st != SFT_OK) {
        sft__fs_publish_free(p);
        return st;
    }
    *out = p;
    return SFT_OK;
}

sft__fs_handle sft__fs_publish_handle(const sft__fs_publish *publish) {
    return (sft__fs_handle)publish->file;
}

const char *sft__fs_publish_name(const sft__fs_publish *publish) {
    return publish->path;
}

sft_status sft__fs_publish_reserve(sft__fs_publish *publish, uint64_t size, sft_error *err) {
    return sft__fs_reserve((sft__fs_handle)publish->file, publish->path, size, err);
}

sft_status sft__fs_publish_write(sft__fs_publish *publish, uint64_t offset,
                                 const sft__fs_span *parts, size_t count, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(sft__fs_write_at((sft__fs_handle)publish->file, publish->path, offset,
                                 parts[i].data, parts[i].size, err));
        offset += parts[i].size;
    }
    return SFT_OK;
}

static sft_status not_committed(const sft__fs_publish *p, DWORD cause, const char *step,
                                sft_error *err) {
    if (p->options.new_only && (cause == ERROR_ALREADY_EXISTS || cause == ERROR_FILE_EXISTS)) {
        return sft__base_fail(err, SFT_E_EXISTS, "\"%s\" exists already", p->path);
    }
    return sft__base_fail_sys(err, SFT_E_NOT_COMMITTED, (int32_t)cause,
                              "\"%s\" stays as it was, cannot %s the new file", p->path, step);
}

static sft_status check_expected(const sft__fs_publish *p, sft_error *err) {
    const sft__fs_stat *e = p->options.expected;
    sft__fs_stat now;
    bool exists;

    SFT_TRY(sft__fs_stat_path(p->path, &exists, &now, err));
    return exists && now.device == e->device && now.inode == e->inode && now.size == e->size &&
                   now.mtime_ns == e->mtime_ns
               ? SFT_OK
               : sft__base_fail(err, SFT_E_CHANGED,
                                "\"%s\" was changed or replaced by somebody else", p->path);
}

sft_status sft__fs_publish_commit(sft__fs_publish *publish, sft_error *err) {
    const bool durable = publish->options.durability == SFT_DURABLE_FULL;
    const HANDLE file = publish->file;
    const DWORD flags = (publish->options.new_only ? 0 : MOVEFILE_REPLACE_EXISTING) |
                        (durable ? MOVEFILE_WRITE_THROUGH : 0);

    if (durable && FlushFileBuffers(file) == 0) {
        return not_committed(publish, GetLastError(), "write to disk", err);
    }
    publish->file = INVALID_HANDLE_VALUE;
    if (CloseHandle(file) == 0) {
        return not_committed(publish, GetLastError(), "close", err);
    }
    if (publish->options.expected != NULL) {
        SFT_TRY(check_expected(publish, err));
    }
    if (MoveFileExW(publish->temp.text, publish->target.text, flags) == 0) {
        return not_committed(publish, GetLastError(), "rename", err);
    }
    sft__fs_wide_reset(&publish->temp, publish->options.allocator);
    return SFT_OK;
}

void sft__fs_publish_free(sft__fs_publish *publish) {
    const sft_allocator *allocator;

    if (publish == NULL) {
        return;
    }
    allocator = publish->options.allocator;
    if (publish->file != INVALID_HANDLE_VALUE) {
        (void)CloseHandle(publish->file); /* given up, or an error told already */
    }
    if (publish->temp.text != NULL) {
        (void)DeleteFileW(publish->temp.text);
    }
    sft__fs_wide_reset(&publish->temp, allocator);
    sft__fs_wide_reset(&publish->target, allocator);
    sft__base_free(allocator, publish->path, publish->path_size);
    sft__base_free(allocator, publish, sizeof *publish);
}
#endif
