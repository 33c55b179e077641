/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/disk/staging.c - see staging.h.
 *
 * Journal: 64 bytes of head (mark, identity, size, block size), then 8 bytes per block: CRC32C,
 * mark. A block is written before its entry; nothing is flushed until the end, for the sums tell
 * what a crash left.
 */
#include "remote/disk/staging.h"
#include "base/memory/need.h"
#include "fs/output/staged.h"
#include <errno.h>
#include <sft/digest.h>
#include <sft/extend.h>
#include <stdio.h>
#include <string.h>

#define JOURNAL_MARK UINT64_C(0x314c4e524a544653) /* "SFTJRNL1" */
#define BLOCK_MARK   UINT32_C(0x4b4c4253)
enum { READ_CHUNK = 1 << 20 };

typedef struct journal_head {
    uint64_t mark;
    uint8_t identity[32];
    uint64_t size;
    uint64_t block;
    uint64_t reserved;
} journal_head;

/* directory/dir/.NAME + suffix */
static char *staged_path(const char *directory, const char *name, const char *dot,
                         const char *suffix, size_t *size, const sft_allocator *a) {
    const char *base = strrchr(name, '/');
    const int dir = base != NULL ? (int)(base - name) + 1 : 0;
    *size = strlen(directory) + strlen(name) + strlen(dot) + strlen(suffix) + 2;
    char *path = sft__base_alloc(a, *size);
    if (path != NULL) {
        (void)snprintf(path, *size, "%s/%.*s%s%s%s", directory, dir, name, dot, name + dir, suffix);
    }
    return path;
}

static sft_status make_directories(char *path, size_t from, sft_error *err) {
    for (size_t i = from; path[i] != '\0'; i++) {
        if (path[i] == '/' && i > 0) {
            path[i] = '\0';
            const sft_status status = sft__fs_make_directory(path, err);
            path[i] = '/';
            SFT_TRY(status);
        }
    }
    return SFT_OK;
}

static uint32_t block_bytes(const sft__remote_staging *s, uint64_t block) {
    const uint64_t left = s->size - block * SFT__STAGE_BLOCK;
    return left < SFT__STAGE_BLOCK ? (uint32_t)left : SFT__STAGE_BLOCK;
}

static sft_status block_sum(const sft__remote_staging *s, uint64_t block, uint32_t *sum,
                            sft_error *err) {
    const size_t size = block_bytes(s, block);
    uint8_t *buffer = sft__base_alloc(s->allocator, READ_CHUNK);
    sft_status status = buffer != NULL ? SFT_OK : sft__base_fail_nomem(err, READ_CHUNK);

    *sum = 0;
    for (size_t at = 0; at < size && status == SFT_OK;) {
        const size_t n = size - at < READ_CHUNK ? size - at : READ_CHUNK;
        status = sft__fs_read_at(s->file, s->part, block * SFT__STAGE_BLOCK + at, buffer, n, err);
        *sum = status == SFT_OK ? sft_crc32c(*sum, buffer, n) : 0;
        at += n;
    }
    sft__base_free(s->allocator, buffer, READ_CHUNK);
    return status;
}

/* ---------------------------------------------------------------- beginning */

/* What the journal knows and the file proves. */
static sft_status take_up(sft__remote_staging *s, sft_error *err) {
    for (uint64_t b = 0; b < s->blocks; b++) {
        uint32_t entry[2];
        uint32_t sum;
        const uint64_t at = sizeof(journal_head) + b * sizeof entry;
        if (sft__fs_read_at(s->journal_file, s->journal, at, entry, sizeof entry, NULL) != SFT_OK ||
            entry[1] != BLOCK_MARK) {
            continue;
        }
        SFT_TRY(block_sum(s, b, &sum, err));
        if (sum == entry[0]) {
            s->resumed += s->missing[b];
            s->missing[b] = 0;
        }
    }
    return SFT_OK;
}

static sft_status begin_files(sft__remote_staging *s, const uint8_t identity[32], sft_error *err) {
    journal_head head = {.mark = JOURNAL_MARK, .size = s->size, .block = SFT__STAGE_BLOCK};
    journal_head found;
    sft__fs_stat st;

    memcpy(head.identity, identity, sizeof head.identity);
    SFT_TRY(sft__fs_create(s->journal, &s->journal_file, err));
    if (!sft__fs_hold_alone(s->journal_file)) {
        return sft_error_set(err, SFT_E_IO, EWOULDBLOCK, "another process is fetching %.200s",
                             s->path);
    }
    SFT_TRY(sft__fs_create(s->part, &s->file, err));
    if (sft__fs_stat_file(s->file, s->part, &st, NULL) == SFT_OK && st.size == s->size &&
        sft__fs_read_at(s->journal_file, s->journal, 0, &found, sizeof found, NULL) == SFT_OK &&
        memcmp(&found, &head, sizeof head) == 0) {
        return take_up(s, err);
    }
    SFT_TRY(sft__fs_resize(s->journal_file, s->journal, 0, err));
    SFT_TRY(sft__fs_resize(s->file, s->part, 0, err));
    SFT_TRY(sft__fs_reserve(s->file, s->part, s->size, err));
    return sft__fs_write_at(s->journal_file, s->journal, 0, &head, sizeof head, err);
}

sft_status sft__remote_staging_open(sft__remote_staging *s, const sft__remote_staged *what,
                                    const sft_allocator *allocator, sft_error *err) {
    const char *directory = what->directory;
    const char *name = what->name;

    memset(s, 0, sizeof *s);
    s->allocator = allocator;
    s->file = SFT__FS_NO_HANDLE;
    s->journal_file = SFT__FS_NO_HANDLE;
    s->size = what->size;
    s->blocks = s->size / SFT__STAGE_BLOCK + (s->size % SFT__STAGE_BLOCK != 0 ? 1 : 0);
    s->path = staged_path(directory, name, "", "", &s->path_size, allocator);
    s->part = staged_path(directory, name, ".", ".part", &s->part_size, allocator);
    s->journal = staged_path(directory, name, ".", ".part.journal", &s->journal_size, allocator);
    s->missing = s->blocks < SIZE_MAX / sizeof *s->missing
                     ? sft__base_alloc(allocator, (size_t)s->blocks * sizeof *s->missing)
                     : NULL;
    if (s->path == NULL || s->part == NULL || s->journal == NULL ||
        (s->missing == NULL && s->blocks > 0)) {
        sft__remote_staging_close(s);
        return sft__base_fail_nomem(err, (size_t)s->blocks * sizeof *s->missing);
    }
    for (uint64_t b = 0; b < s->blocks; b++) {
        s->missing[b] = block_bytes(s, b);
    }
    sft_status status = make_directories(s->path, 0, err);
    if (status == SFT_OK) {
        status = begin_files(s, what->identity, err);
    }
    if (status != SFT_OK) {
        sft__remote_staging_close(s);
    }
    return status;
}

/* ---------------------------------------------------------------- bytes */

static sft_status block_done(sft__remote_staging *s, uint64_t block, sft_error *err) {
    uint32_t entry[2] = {0, BLOCK_MARK};

    SFT_TRY(block_sum(s, block, &entry[0], err));
    return sft__fs_write_at(s->journal_file, s->journal,
                            sizeof(journal_head) + block * sizeof entry, entry, sizeof entry, err);
}

sft_status sft__remote_staging_put(sft__remote_staging *s, uint64_t offset, const uint8_t *data,
                                   size_t size, sft_error *err) {
    SFT_TRY(sft__fs_write_at(s->file, s->part, offset, data, size, err));
    while (size > 0) {
        const uint64_t block = offset / SFT__STAGE_BLOCK;
        const uint64_t room = (block + 1) * SFT__STAGE_BLOCK - offset;
        const size_t n = size < room ? size : (size_t)room;
        if (n > s->missing[block]) {
            return sft_error_at(err, SFT_E_INTERNAL, offset, NULL, 0, "bytes of %.200s came twice",
                                s->path);
        }
        s->missing[block] -= (uint32_t)n;
        if (s->missing[block] == 0) {
            SFT_TRY(block_done(s, block, err));
        }
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

bool sft__remote_staging_has(const sft__remote_staging *s, uint64_t block) {
    return s->missing[block] == 0;
}

bool sft__remote_staging_whole(const sft__remote_staging *s) {
    for (uint64_t b = 0; b < s->blocks; b++) {
        if (s->missing[b] != 0) {
            return false;
        }
    }
    return true;
}

/* A file that is open. */
typedef struct readable {
    sft__fs_handle file;
    uint64_t size;
    const char *path;
} readable;

static sft_status file_sha256(const readable *f, uint8_t digest[32], const sft_control *control,
                              const sft_allocator *a, sft_error *err) {
    static const sft_progress nothing = {0, 0};
    uint8_t *buffer = sft__base_alloc(a, READ_CHUNK);
    sft_status status = buffer != NULL ? SFT_OK : sft__base_fail_nomem(err, READ_CHUNK);
    sft_sha256 sha;

    sft_sha256_init(&sha);
    for (uint64_t at = 0; at < f->size && status == SFT_OK;) {
        const size_t n = f->size - at < READ_CHUNK ? (size_t)(f->size - at) : READ_CHUNK;
        status = sft__fs_read_at(f->file, f->path, at, buffer, n, err);
        if (status == SFT_OK) {
            sft_sha256_update(&sha, buffer, n);
        }
        at += n;
        if (status == SFT_OK && control != NULL && control->poll(control->ctx, &nothing) != 0) {
            status = sft__base_fail(err, SFT_E_CANCELLED, "cancelled");
        }
    }
    sft_sha256_final(&sha, digest);
    sft__base_free(a, buffer, READ_CHUNK);
    return status;
}

sft_status sft__remote_staging_sha256(const sft__remote_staging *s, uint8_t digest[32],
                                      const sft_control *control, sft_error *err) {
    const readable part = {s->file, s->size, s->part};
    return file_sha256(&part, digest, control, s->allocator, err);
}

/* ---------------------------------------------------------------- ends */

sft_status sft__remote_staging_flush(const sft__remote_staging *s, sft_error *err) {
    return sft__fs_sync(s->file, s->part, err);
}

sft_status sft__remote_staging_publish(sft__remote_staging *s, bool replace, sft_error *err) {
    sft_error why;

    memset(&why, 0, sizeof why);
    if (replace) {
        SFT_TRY(sft_file_keep(sft__fs_descriptor(s->file), s->path, err));
    }
    const sft_status status = replace ? sft__fs_rename(s->part, s->path, &why)
                                      : sft__fs_rename_new(s->part, s->path, &why);
    if (status != SFT_OK) {
        return sft_error_set(err, status == SFT_E_EXISTS ? status : SFT_E_IO, why.sys,
                             status == SFT_E_EXISTS ? "%.200s exists" : "cannot publish %.200s",
                             s->path);
    }
    (void)sft__fs_remove(s->part, NULL); /* a first name that was left */
    (void)sft__fs_remove(s->journal, NULL);
    return sft__fs_sync_parent(s->path, &why) == SFT_OK
               ? SFT_OK
               : sft_error_set(err, SFT_E_DURABILITY, why.sys,
                               "%.200s is in place, but its directory could not be flushed",
                               s->path);
}

sft_status sft__remote_staging_begin_set(const sft__remote_staging *s, sft_error *err) {
    SFT_TRY(sft_file_keep(sft__fs_descriptor(s->file), s->path,
                          err)); /* of the one that is about to go */
    return sft_model_begin(s->path, 1, err);
}

void sft__remote_staging_drop(sft__remote_staging *s) {
    if (s->file != SFT__FS_NO_HANDLE) {
        (void)sft__fs_remove(s->part, NULL);
        (void)sft__fs_remove(s->journal, NULL);
    }
}

void sft__remote_staging_close(sft__remote_staging *s) {
    sft__fs_close(s->file);
    sft__fs_close(s->journal_file);
    s->file = s->journal_file = SFT__FS_NO_HANDLE;
    sft__base_free(s->allocator, s->path, s->path_size);
    sft__base_free(s->allocator, s->part, s->part_size);
    sft__base_free(s->allocator, s->journal, s->journal_size);
    sft__base_free(s->allocator, s->missing, (size_t)s->blocks * sizeof *s->missing);
    s->path = s->part = s->journal = NULL;
    s->missing = NULL;
}

sft_status sft__remote_existing(const char *directory, const char *name, uint64_t *size,
                                uint8_t digest[32], const sft_allocator *allocator,
                                sft_error *err) {
    size_t path_size;
    sft__fs_handle file;
    sft__fs_stat st;
    sft_error why;
    char *path = staged_path(directory, name, "", "", &path_size, allocator);
    sft_status status;

    SFT_NEED(path != NULL, path_size, err);
    memset(&why, 0, sizeof why);
    status = sft__fs_open(path, &file, &st, &why);
    if (status == SFT_E_IO && (why.sys == ENOENT || why.sys == ENOTDIR)) {
        status = SFT_E_NOT_FOUND;
    } else if (status != SFT_OK) {
        status = sft__base_fail(err, SFT_E_EXISTS, "%.200s exists and is no file", path);
    } else {
        *size = st.size;
        const readable there = {file, *size, path};
        status = file_sha256(&there, digest, NULL, allocator, err);
        sft__fs_close(file);
    }
    sft__base_free(allocator, path, path_size);
    return status;
}
