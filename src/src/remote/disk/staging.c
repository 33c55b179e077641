/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/disk/staging.c - see staging.h.
 *
 * Journal: 64 bytes of head (mark, identity, size, block size), then 8 bytes per block: CRC32C,
 * mark. A block is written before its entry; nothing is flushed until the end, for the sums tell
 * what a crash left.
 */
#include "remote/disk/staging.h"
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

/* folder/dir/.NAME + suffix */
static char *staged_path(const char *folder, const char *name, const char *dot, const char *suffix,
                         size_t *size, const sft_allocator *a) {
    const char *base = strrchr(name, '/');
    const int dir = base != NULL ? (int)(base - name) + 1 : 0;
    *size = strlen(folder) + strlen(name) + strlen(dot) + strlen(suffix) + 2;
    char *path = sft__base_alloc(a, *size);
    if (path != NULL) {
        (void)snprintf(path, *size, "%s/%.*s%s%s%s", folder, dir, name, dot, name + dir, suffix);
    }
    return path;
}

static sft_status make_folders(char *path, size_t from, sft_error *err) {
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
    sft_status status = buffer != NULL ? SFT_OK : sft__remote_no_memory(err, READ_CHUNK);

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
        return sft_error_set(err, SFT_E_IO, EWOULDBLOCK, SFT_NO_OFFSET, NULL, 0,
                             "another process is fetching %.200s", s->path);
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

sft_status sft__remote_staging_open(sft__remote_staging *s, const char *folder, const char *name,
                                    uint64_t size, const uint8_t identity[32],
                                    const sft_allocator *allocator, sft_error *err) {
    memset(s, 0, sizeof *s);
    s->allocator = allocator;
    s->file = SFT__FS_NO_HANDLE;
    s->journal_file = SFT__FS_NO_HANDLE;
    s->size = size;
    s->blocks = size / SFT__STAGE_BLOCK + (size % SFT__STAGE_BLOCK != 0 ? 1 : 0);
    s->path = staged_path(folder, name, "", "", &s->path_size, allocator);
    s->part = staged_path(folder, name, ".", ".part", &s->part_size, allocator);
    s->journal = staged_path(folder, name, ".", ".part.journal", &s->journal_size, allocator);
    s->missing = s->blocks < SIZE_MAX / sizeof *s->missing
                     ? sft__base_alloc(allocator, (size_t)s->blocks * sizeof *s->missing)
                     : NULL;
    if (s->path == NULL || s->part == NULL || s->journal == NULL ||
        (s->missing == NULL && s->blocks > 0)) {
        sft__remote_staging_close(s);
        return sft__remote_no_memory(err, (size_t)s->blocks * sizeof *s->missing);
    }
    for (uint64_t b = 0; b < s->blocks; b++) {
        s->missing[b] = block_bytes(s, b);
    }
    sft_status status = make_folders(s->path, 0, err);
    if (status == SFT_OK) {
        status = begin_files(s, identity, err);
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
            return sft_error_set(err, SFT_E_INTERNAL, 0, offset, NULL, 0,
                                 "bytes of %.200s came twice", s->path);
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

static sft_status file_sha256(sft__fs_handle file, uint64_t size, const char *path,
                              uint8_t digest[32], const sft_control *control,
                              const sft_allocator *a, sft_error *err) {
    static const sft_progress nothing = {0, 0};
    uint8_t *buffer = sft__base_alloc(a, READ_CHUNK);
    sft_status status = buffer != NULL ? SFT_OK : sft__remote_no_memory(err, READ_CHUNK);
    sft_sha256 sha;

    sft_sha256_init(&sha);
    for (uint64_t at = 0; at < size && status == SFT_OK;) {
        const size_t n = size - at < READ_CHUNK ? (size_t)(size - at) : READ_CHUNK;
        status = sft__fs_read_at(file, path, at, buffer, n, err);
        if (status == SFT_OK) {
            sft_sha256_update(&sha, buffer, n);
        }
        at += n;
        if (status == SFT_OK && control != NULL && control->poll(control->ctx, &nothing) != 0) {
            status = sft_error_set(err, SFT_E_CANCELLED, 0, SFT_NO_OFFSET, NULL, 0, "cancelled");
        }
    }
    sft_sha256_final(&sha, digest);
    sft__base_free(a, buffer, READ_CHUNK);
    return status;
}

sft_status sft__remote_staging_sha256(const sft__remote_staging *s, uint8_t digest[32],
                                      const sft_control *control, sft_error *err) {
    return file_sha256(s->file, s->size, s->part, digest, control, s->allocator, err);
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
        return sft_error_set(
            err, status == SFT_E_EXISTS ? status : SFT_E_IO, why.sys, SFT_NO_OFFSET, NULL, 0,
            status == SFT_E_EXISTS ? "%.200s exists" : "cannot publish %.200s", s->path);
    }
    (void)sft__fs_remove(s->part, NULL); /* a first name that was left */
    (void)sft__fs_remove(s->journal, NULL);
    return sft__fs_sync_parent(s->path, &why) == SFT_OK
               ? SFT_OK
               : sft_error_set(err, SFT_E_DURABILITY, why.sys, SFT_NO_OFFSET, NULL, 0,
                               "%.200s is in place, but its folder could not be flushed", s->path);
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

sft_status sft__remote_existing(const char *folder, const char *name, uint64_t *size,
                                uint8_t digest[32], const sft_allocator *allocator,
                                sft_error *err) {
    size_t path_size;
    sft__fs_handle file;
    sft__fs_stat st;
    sft_error why;
    char *path = staged_path(folder, name, "", "", &path_size, allocator);
    sft_status status;

    if (path == NULL) {
        return sft__remote_no_memory(err, path_size);
    }
    memset(&why, 0, sizeof why);
    status = sft__fs_open(path, &file, &st, &why);
    if (status == SFT_E_IO && (why.sys == ENOENT || why.sys == ENOTDIR)) {
        status = SFT_E_NOT_FOUND;
    } else if (status != SFT_OK) {
        status = sft_error_set(err, SFT_E_EXISTS, 0, SFT_NO_OFFSET, NULL, 0,
                               "%.200s exists and is no file", path);
    } else {
        *size = st.size;
        status = file_sha256(file, *size, path, digest, NULL, allocator, err);
        sft__fs_close(file);
    }
    sft__base_free(allocator, path, path_size);
    return status;
}
