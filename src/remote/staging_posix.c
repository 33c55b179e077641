/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/staging_posix.c - see staging.h.
 *
 * Journal: 64 bytes of head (mark, identity, size, block size), then 8 bytes per block: CRC32C,
 * mark. A block is written before its entry; nothing is flushed until the end, for the sums tell
 * what a crash left.
 */
#include "remote/staging.h"
#include <errno.h>
#include <fcntl.h>
#include <sft/digest.h>
#include <sft/extend.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

static sft_status sys_fail(sft_error *err, const char *what, const char *path) {
    const int sys = errno;
    return sft_error_set(err, SFT_E_IO, sys, SFT_NO_OFFSET, NULL, 0, "cannot %s %.200s (errno %d)",
                         what, path, sys);
}

/* folder/dir/.NAME + suffix */
static char *staged_path(const char *folder, const char *name, const char *dot, const char *suffix,
                         size_t *size, const sft_allocator *a) {
    const char *base = strrchr(name, '/');
    const int dir = base != NULL ? (int)(base - name) + 1 : 0;
    *size = strlen(folder) + strlen(name) + strlen(dot) + strlen(suffix) + 2;
    char *path = sft__alloc(a, *size);
    if (path != NULL) {
        (void)snprintf(path, *size, "%s/%.*s%s%s%s", folder, dir, name, dot, name + dir, suffix);
    }
    return path;
}

static sft_status make_folders(char *path, size_t from, sft_error *err) {
    for (size_t i = from; path[i] != '\0'; i++) {
        if (path[i] == '/' && i > 0) {
            path[i] = '\0';
            const int made = mkdir(path, 0777);
            const int sys = errno;
            path[i] = '/';
            if (made != 0 && sys != EEXIST) {
                errno = sys;
                return sys_fail(err, "make the folder of", path);
            }
        }
    }
    return SFT_OK;
}

static sft_status read_all(int fd, uint64_t offset, uint8_t *dst, size_t size, const char *path,
                           sft_error *err) {
    while (size > 0) {
        const ssize_t n = pread(fd, dst, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return sys_fail(err, "read", path);
        }
        dst += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SFT_OK;
}

static sft_status write_all(int fd, uint64_t offset, const uint8_t *data, size_t size,
                            const char *path, sft_error *err) {
    while (size > 0) {
        const ssize_t n = pwrite(fd, data, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return sys_fail(err, "write", path);
        }
        data += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SFT_OK;
}

static uint32_t block_bytes(const sft__staging *s, uint64_t block) {
    const uint64_t left = s->size - block * SFT__STAGE_BLOCK;
    return left < SFT__STAGE_BLOCK ? (uint32_t)left : SFT__STAGE_BLOCK;
}

static sft_status block_sum(const sft__staging *s, uint64_t block, uint32_t *sum, sft_error *err) {
    const size_t size = block_bytes(s, block);
    uint8_t *buffer = sft__alloc(s->allocator, READ_CHUNK);
    sft_status status = buffer != NULL ? SFT_OK : sft__no_memory(err, READ_CHUNK);

    *sum = 0;
    for (size_t at = 0; at < size && status == SFT_OK;) {
        const size_t n = size - at < READ_CHUNK ? size - at : READ_CHUNK;
        status = read_all(s->fd, block * SFT__STAGE_BLOCK + at, buffer, n, s->part, err);
        *sum = status == SFT_OK ? sft_crc32c(*sum, buffer, n) : 0;
        at += n;
    }
    sft__free(s->allocator, buffer, READ_CHUNK);
    return status;
}

/* ---------------------------------------------------------------- beginning */

/* What the journal knows and the file proves. */
static sft_status take_up(sft__staging *s, sft_error *err) {
    for (uint64_t b = 0; b < s->blocks; b++) {
        uint32_t entry[2];
        uint32_t sum;
        const off_t at = (off_t)(sizeof(journal_head) + b * sizeof entry);
        if (pread(s->journal_fd, entry, sizeof entry, at) != (ssize_t)sizeof entry ||
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

static sft_status begin_files(sft__staging *s, const uint8_t identity[32], sft_error *err) {
    journal_head head = {.mark = JOURNAL_MARK, .size = s->size, .block = SFT__STAGE_BLOCK};
    journal_head found;
    struct stat st;

    memcpy(head.identity, identity, sizeof head.identity);
    s->journal_fd = open(s->journal, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (s->journal_fd < 0) {
        return sys_fail(err, "open", s->journal);
    }
    if (flock(s->journal_fd, LOCK_EX | LOCK_NB) != 0) {
        return sft_error_set(err, SFT_E_IO, errno, SFT_NO_OFFSET, NULL, 0,
                             "another process is fetching %.200s", s->path);
    }
    s->fd = open(s->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (s->fd < 0) {
        return sys_fail(err, "open", s->part);
    }
    if (fstat(s->fd, &st) == 0 && (uint64_t)st.st_size == s->size &&
        pread(s->journal_fd, &found, sizeof found, 0) == (ssize_t)sizeof found &&
        memcmp(&found, &head, sizeof head) == 0) {
        return take_up(s, err);
    }
    if (ftruncate(s->journal_fd, 0) != 0 || ftruncate(s->fd, 0) != 0 ||
        ftruncate(s->fd, (off_t)s->size) != 0) {
        return sys_fail(err, "resize", s->part);
    }
#ifdef __linux__
    if (s->size > 0 && fallocate(s->fd, 0, 0, (off_t)s->size) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
        return sys_fail(err, "set room aside for", s->part);
    }
#endif
    return write_all(s->journal_fd, 0, (const uint8_t *)&head, sizeof head, s->journal, err);
}

sft_status sft__staging_open(sft__staging *s, const char *folder, const char *name, uint64_t size,
                             const uint8_t identity[32], const sft_allocator *allocator,
                             sft_error *err) {
    memset(s, 0, sizeof *s);
    s->allocator = allocator;
    s->fd = -1;
    s->journal_fd = -1;
    s->size = size;
    s->blocks = size / SFT__STAGE_BLOCK + (size % SFT__STAGE_BLOCK != 0 ? 1 : 0);
    s->path = staged_path(folder, name, "", "", &s->path_size, allocator);
    s->part = staged_path(folder, name, ".", ".part", &s->part_size, allocator);
    s->journal = staged_path(folder, name, ".", ".part.journal", &s->journal_size, allocator);
    s->missing = s->blocks < SIZE_MAX / sizeof *s->missing
                     ? sft__alloc(allocator, (size_t)s->blocks * sizeof *s->missing)
                     : NULL;
    if (s->path == NULL || s->part == NULL || s->journal == NULL ||
        (s->missing == NULL && s->blocks > 0)) {
        sft__staging_close(s);
        return sft__no_memory(err, (size_t)s->blocks * sizeof *s->missing);
    }
    for (uint64_t b = 0; b < s->blocks; b++) {
        s->missing[b] = block_bytes(s, b);
    }
    sft_status status = make_folders(s->path, 0, err);
    if (status == SFT_OK) {
        status = begin_files(s, identity, err);
    }
    if (status != SFT_OK) {
        sft__staging_close(s);
    }
    return status;
}

/* ---------------------------------------------------------------- bytes */

static sft_status block_done(sft__staging *s, uint64_t block, sft_error *err) {
    uint32_t entry[2] = {0, BLOCK_MARK};

    SFT_TRY(block_sum(s, block, &entry[0], err));
    return write_all(s->journal_fd, sizeof(journal_head) + block * sizeof entry,
                     (const uint8_t *)entry, sizeof entry, s->journal, err);
}

sft_status sft__staging_put(sft__staging *s, uint64_t offset, const uint8_t *data, size_t size,
                            sft_error *err) {
    SFT_TRY(write_all(s->fd, offset, data, size, s->part, err));
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

bool sft__staging_has(const sft__staging *s, uint64_t block) {
    return s->missing[block] == 0;
}

bool sft__staging_whole(const sft__staging *s) {
    for (uint64_t b = 0; b < s->blocks; b++) {
        if (s->missing[b] != 0) {
            return false;
        }
    }
    return true;
}

static sft_status file_sha256(int fd, uint64_t size, const char *path, uint8_t digest[32],
                              const sft_control *control, const sft_allocator *a, sft_error *err) {
    static const sft_progress nothing = {0, 0};
    uint8_t *buffer = sft__alloc(a, READ_CHUNK);
    sft_status status = buffer != NULL ? SFT_OK : sft__no_memory(err, READ_CHUNK);
    sft_sha256 sha;

    sft_sha256_init(&sha);
    for (uint64_t at = 0; at < size && status == SFT_OK;) {
        const size_t n = size - at < READ_CHUNK ? (size_t)(size - at) : READ_CHUNK;
        status = read_all(fd, at, buffer, n, path, err);
        if (status == SFT_OK) {
            sft_sha256_update(&sha, buffer, n);
        }
        at += n;
        if (status == SFT_OK && control != NULL && control->poll(control->ctx, &nothing) != 0) {
            status = sft_error_set(err, SFT_E_CANCELLED, 0, SFT_NO_OFFSET, NULL, 0, "cancelled");
        }
    }
    sft_sha256_final(&sha, digest);
    sft__free(a, buffer, READ_CHUNK);
    return status;
}

sft_status sft__staging_sha256(const sft__staging *s, uint8_t digest[32],
                               const sft_control *control, sft_error *err) {
    return file_sha256(s->fd, s->size, s->part, digest, control, s->allocator, err);
}

/* ---------------------------------------------------------------- ends */

static sft_status flush_folder(const char *path, sft_error *err) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    const size_t len = slash != NULL ? (size_t)(slash - path) : 0;

    if (len == 0 || len >= sizeof folder) {
        return SFT_OK;
    }
    memcpy(folder, path, len);
    folder[len] = '\0';
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return good ? SFT_OK
                : sft_error_set(err, SFT_E_DURABILITY, errno, SFT_NO_OFFSET, NULL, 0,
                                "%.200s is in place, but its folder could not be flushed", path);
}

sft_status sft__staging_flush(const sft__staging *s, sft_error *err) {
    return fsync(s->fd) == 0 ? SFT_OK : sys_fail(err, "flush", s->part);
}

sft_status sft__staging_publish(sft__staging *s, bool replace, sft_error *err) {
    if (replace) {
        SFT_TRY(sft_file_keep(s->fd, s->path, err));
    }
    if (!replace) { /* link refuses an existing name, rename does not */
        if (link(s->part, s->path) == 0) {
            (void)unlink(s->part);
        } else if (errno == EEXIST) {
            return sft_error_set(err, SFT_E_EXISTS, EEXIST, SFT_NO_OFFSET, NULL, 0, "%.200s exists",
                                 s->path);
        } else if (access(s->path, F_OK) == 0 || rename(s->part, s->path) != 0) {
            return sys_fail(err, "publish", s->path); /* where there are no links */
        }
    } else if (rename(s->part, s->path) != 0) {
        return sys_fail(err, "publish", s->path);
    }
    (void)unlink(s->journal);
    return flush_folder(s->path, err);
}

sft_status sft__staging_begin_set(const sft__staging *s, sft_error *err) {
    SFT_TRY(sft_file_keep(s->fd, s->path, err)); /* of the one that is about to go */
    return sft_model_begin(s->path, 1, err);
}

void sft__staging_drop(sft__staging *s) {
    if (s->fd >= 0) {
        (void)unlink(s->part);
        (void)unlink(s->journal);
    }
}

void sft__staging_close(sft__staging *s) {
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    if (s->journal_fd >= 0) {
        (void)close(s->journal_fd);
    }
    s->fd = s->journal_fd = -1;
    sft__free(s->allocator, s->path, s->path_size);
    sft__free(s->allocator, s->part, s->part_size);
    sft__free(s->allocator, s->journal, s->journal_size);
    sft__free(s->allocator, s->missing, (size_t)s->blocks * sizeof *s->missing);
    s->path = s->part = s->journal = NULL;
    s->missing = NULL;
}

sft_status sft__existing(const char *folder, const char *name, uint64_t *size, uint8_t digest[32],
                         const sft_allocator *allocator, sft_error *err) {
    size_t path_size;
    struct stat st;
    char *path = staged_path(folder, name, "", "", &path_size, allocator);
    sft_status status;

    if (path == NULL) {
        return sft__no_memory(err, path_size);
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        status = SFT_E_NOT_FOUND;
    } else if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        status = sft_error_set(err, SFT_E_EXISTS, 0, SFT_NO_OFFSET, NULL, 0,
                               "%.200s exists and is no file", path);
    } else {
        *size = (uint64_t)st.st_size;
        status = file_sha256(fd, *size, path, digest, NULL, allocator, err);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    sft__free(allocator, path, path_size);
    return status;
}

/* ---------------------------------------------------------------- scratch */

sft_status sft__scratch_open(int *fd, sft_error *err) {
    FILE *f = tmpfile();

    *fd = f != NULL ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 0) : -1;
    if (f != NULL) {
        (void)fclose(f);
    }
    return *fd >= 0 ? SFT_OK : sys_fail(err, "make", "a temporary file");
}

sft_status sft__scratch_read(int fd, uint8_t *dst, size_t size, sft_error *err) {
    return read_all(fd, 0, dst, size, "a temporary file", err);
}

void sft__scratch_close(int fd) {
    (void)close(fd);
}
