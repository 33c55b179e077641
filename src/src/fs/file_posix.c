/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/file_posix.c - files over POSIX. See file.h. Opening below a directory is in
 * below_posix.c.
 */
#ifndef _WIN32
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "base/checked.h"
#include "fs/file.h"
#include "fs/output/entry.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* One read or write call moves at most this much: Linux stops at 2 GiB - 4 KiB, macOS refuses 2
 * GiB. */
#define CALL_MAX ((size_t)1 << 30)

static void stat_convert(const struct stat *s, sft__fs_stat *st) {
    st->exists = true;
    st->size = s->st_size > 0 ? (uint64_t)s->st_size : 0;
    st->stored = s->st_blocks > 0 ? (uint64_t)s->st_blocks * 512 : 0;
    st->device = (uint64_t)s->st_dev;
    st->inode = (uint64_t)s->st_ino;
#if defined(__APPLE__)
    st->mtime_ns = (int64_t)s->st_mtimespec.tv_sec * 1000000000 + (int64_t)s->st_mtimespec.tv_nsec;
#else
    st->mtime_ns = (int64_t)s->st_mtim.tv_sec * 1000000000 + (int64_t)s->st_mtim.tv_nsec;
#endif
    st->mode = (uint32_t)(s->st_mode & 07777u);
    st->names = (uint32_t)s->st_nlink;
    st->regular = S_ISREG(s->st_mode);
    st->folder = S_ISDIR(s->st_mode);
}

static const char *kind_of(const struct stat *s) {
    return S_ISDIR(s->st_mode)    ? "directory"
           : S_ISFIFO(s->st_mode) ? "FIFO"
           : S_ISSOCK(s->st_mode) ? "socket"
           : S_ISCHR(s->st_mode)  ? "character device"
           : S_ISBLK(s->st_mode)  ? "block device"
                                  : "special file";
}

/* Looks at an open descriptor; closes it unless it is what is wanted. */
static sft_status accept_fd(int fd, const char *name, bool folder_too, sft__fs_handle *out,
                            sft__fs_stat *st, sft_error *err) {
    struct stat s;
    sft_status status = SFT_OK;

    if (fstat(fd, &s) != 0) {
        status = sft__base_fail_sys(err, SFT_E_IO, errno, "cannot stat %s", name);
    } else if (!S_ISREG(s.st_mode) && !(folder_too && S_ISDIR(s.st_mode))) {
        status = sft__base_fail(err, SFT_E_NOT_REGULAR, "%s is a %s, not a regular file", name,
                                kind_of(&s));
    }
    if (status != SFT_OK) {
        (void)close(fd);
        return status;
    }
    stat_convert(&s, st);
    *out = fd;
    return SFT_OK;
}

static sft_status open_path(const char *path, bool folder_too, sft__fs_handle *out,
                            sft__fs_stat *st, sft_error *err) {
    int fd;

    *out = SFT__FS_NO_HANDLE;
    do { /* O_NONBLOCK: opening a FIFO returns at once, and is then refused */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == ENXIO) { /* a socket, or a device without a driver */
        return sft__base_fail(err, SFT_E_NOT_REGULAR, "%s is a special file, not a regular file",
                              path);
    }
    if (fd < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot open %s", path);
    }
    return accept_fd(fd, path, folder_too, out, st, err);
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
    int copy;

    *out = SFT__FS_NO_HANDLE;
    do {
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    } while (copy < 0 && errno == EINTR);
    if (copy < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot duplicate %s", name);
    }
    return accept_fd(copy, name, false, out, st, err);
}

void sft__fs_close(sft__fs_handle file) {
    if (file != SFT__FS_NO_HANDLE) {
        (void)close((int)file); /* never repeated: after EINTR the descriptor is gone already */
    }
}

sft_status sft__fs_stat_file(sft__fs_handle file, const char *name, sft__fs_stat *st,
                             sft_error *err) {
    struct stat s;
    if (fstat((int)file, &s) != 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot stat %s", name);
    }
    stat_convert(&s, st);
    return SFT_OK;
}

sft_status sft__fs_stat_fd(int fd, const char *name, sft__fs_stat *st, sft_error *err) {
    return sft__fs_stat_file(fd, name, st, err);
}

sft_status sft__fs_scratch(sft__fs_handle *out, sft_error *err) {
    FILE *f = tmpfile();
    const int fd = f != NULL ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 0) : -1;
    const int cause = errno;

    if (f != NULL) {
        (void)fclose(f);
    }
    *out = fd >= 0 ? fd : SFT__FS_NO_HANDLE;
    return fd >= 0 ? SFT_OK
                   : sft__base_fail_sys(err, SFT_E_IO, cause, "cannot make a temporary file");
}

bool sft__fs_real(const char *path, sft__base_buf *out) {
    char *real = realpath(path, NULL);
    const bool good = real != NULL;

    if (good) {
        sft__base_buf_add(out, real, strlen(real) + 1);
    }
    free(real);
    return good && !out->failed;
}

sft_status sft__fs_link_target(const char *path, sft__base_buf *out, bool *is, sft_error *err) {
    struct stat s;

    *is = false;
    if (lstat(path, &s) != 0 || !S_ISLNK(s.st_mode)) {
        return SFT_OK;
    }
    *is = sft__fs_real(path, out);
    return *is               ? SFT_OK
           : out->failed     ? sft__base_fail_nomem(err, strlen(path))
           : errno == ENOENT ? SFT_OK
                             : sft__base_fail_sys(err, SFT_E_IO, errno,
                                                  "cannot tell where the link %s leads", path);
}

sft_status sft__fs_stat_path(const char *path, bool *exists, sft__fs_stat *st, sft_error *err) {
    struct stat s;

    *exists = false;
    if (stat(path, &s) != 0) {
        /* A name that is longer than names can be is nobody's: what would lie beside a file has one. */
        return errno == ENOENT || errno == ENAMETOOLONG
                   ? SFT_OK
                   : sft__base_fail_sys(err, SFT_E_IO, errno, "cannot stat %s", path);
    }
    stat_convert(&s, st);
    *exists = true;
    return SFT_OK;
}

sft_status sft__fs_list(const char *path, sft__fs_visit visit, void *ctx, sft_error *err) {
    DIR *dir = opendir(path[0] != '\0' ? path : ".");
    sft_status status = SFT_OK;

    if (dir == NULL) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot list %s",
                                  path[0] != '\0' ? path : ".");
    }
    while (status == SFT_OK) {
        errno = 0;
        const struct dirent *entry = readdir(dir); /* safe: the stream is ours alone */
        if (entry == NULL) {
            if (errno != 0) {
                status = sft__base_fail_sys(err, SFT_E_IO, errno, "cannot list %s", path);
            }
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            status = visit(ctx, entry->d_name, strlen(entry->d_name), err);
        }
    }
    (void)closedir(dir);
    return status;
}

int sft__fs_descriptor(sft__fs_handle file) {
    return (int)file;
}

const char *sft__fs_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Positions are off_t: 64 bits with _FILE_OFFSET_BITS, so only the sign bit is missing. */
static bool position_fits(uint64_t offset, size_t size) {
    uint64_t end;
    return sft__base_add64(offset, size, &end) && end <= (uint64_t)INT64_MAX;
}

sft_status sft__fs_read_at(sft__fs_handle file, const char *name, uint64_t offset, void *dst,
                           size_t size, sft_error *err) {
    uint8_t *p = dst;

    if (!position_fits(offset, size)) {
        return sft__base_fail_at(err, SFT_E_ARG, offset, "position %llu is beyond any file",
                                 (unsigned long long)offset);
    }
    while (size > 0) {
        const ssize_t n = pread((int)file, p, size < CALL_MAX ? size : CALL_MAX, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            const int sys = errno;
            (void)sft__base_fail_sys(err, SFT_E_IO, sys, "cannot read %s at byte %llu", name,
                                     (unsigned long long)offset);
            if (err != NULL) {
                err->offset = offset;
            }
            return SFT_E_IO;
        }
        if (n == 0) {
            return sft__base_fail_at(err, SFT_E_TRUNCATED, offset,
                                     "%s ends at byte %llu or before, %llu more bytes were needed",
                                     name, (unsigned long long)offset, (unsigned long long)size);
        }
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
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
        const ssize_t n = pwrite((int)file, p, size < CALL_MAX ? size : CALL_MAX, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) { /* 0 for a count above 0 does not happen on regular files; never loop on it */
            const int sys = n < 0 ? errno : EIO;
            (void)sft__base_fail_sys(err, SFT_E_IO, sys, "cannot write %s at byte %llu", name,
                                     (unsigned long long)offset);
            if (err != NULL) {
                err->offset = offset;
            }
            return SFT_E_IO;
        }
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SFT_OK;
}

sft_status sft__fs_may_grow(const char *name, uint64_t size, sft_error *err) {
    struct rlimit limit;

    if ((off_t)size < 0 || (uint64_t)(off_t)size != size) {
        return sft__base_fail_sys(err, SFT_E_IO, EFBIG, "cannot create \"%s\" with %llu bytes",
                                  name, (unsigned long long)size);
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        size > limit.rlim_cur) {
        return sft__base_fail_sys(
            err, SFT_E_IO, EFBIG, "\"%s\" needs %llu bytes, this process may write files of %llu",
            name, (unsigned long long)size, (unsigned long long)limit.rlim_cur);
    }
    return SFT_OK;
}

static int give_size(int fd, off_t size) {
    int rc;
    do {
        rc = ftruncate(fd, size);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

/* Blocks for the whole file in one go; it does not become shorter. 0, or -1 with errno; where the system
 * cannot, a mere size. */
static int give_blocks(int fd, off_t size) {
#if defined(__linux__)
    int rc;
    do {
        rc = fallocate(fd, 0, 0, size);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) {
        return rc;
    }
#elif defined(__APPLE__)
    fstore_t store = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, size, 0};
    if (fcntl(fd, F_PREALLOCATE, &store) != 0 && errno == ENOSPC) {
        return -1;
    }
#endif
    return give_size(fd, size);
}

sft_status sft__fs_resize(sft__fs_handle file, const char *name, uint64_t size, sft_error *err) {
    return give_size((int)file, (off_t)size) == 0
               ? SFT_OK
               : sft__base_fail_sys(err, SFT_E_IO, errno, "cannot make \"%s\" %llu bytes long",
                                    name, (unsigned long long)size);
}

sft_status sft__fs_reserve(sft__fs_handle file, const char *name, uint64_t size, sft_error *err) {
    sft__fs_stat st;

    if (sft__fs_may_grow(name, size, NULL) != SFT_OK) {
        return sft__base_fail_sys(err, SFT_E_IO, EFBIG, "cannot make \"%s\" %llu bytes long", name,
                                  (unsigned long long)size);
    }
    if (size > 0 && give_blocks((int)file, (off_t)size) != 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot reserve %llu bytes for \"%s\"",
                                  (unsigned long long)size, name);
    }
    SFT_TRY(sft__fs_stat_file(file, name, &st, err));
    return st.size == size ? SFT_OK : sft__fs_resize(file, name, size, err);
}

int sft__fs_sync_descriptor(int fd) {
#if defined(__APPLE__) && defined(F_FULLFSYNC)
    if (fcntl(fd, F_FULLFSYNC) == 0) {
        return 0;
    }
    if (errno != ENOTSUP && errno != EINVAL) {
        return -1;
    }
#endif
    return fsync(fd);
}

sft_status sft__fs_sync(sft__fs_handle file, const char *name, sft_error *err) {
    return sft__fs_sync_descriptor((int)file) == 0
               ? SFT_OK
               : sft__base_fail_sys(err, SFT_E_IO, errno, "cannot flush \"%s\"", name);
}

void sft__fs_sync_soon(sft__fs_handle file, uint64_t offset, uint64_t size) {
#ifdef __linux__
    (void)sync_file_range((int)file, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
#else
    (void)file, (void)offset, (void)size;
#endif
}

sft_status sft__fs_stream_read(int fd, void *dst, size_t size, size_t *got, sft_error *err) {
    *got = 0;
    for (;;) {
        const ssize_t n = read(fd, dst, size < CALL_MAX ? size : CALL_MAX);
        if (n >= 0) {
            *got = (size_t)n;
            return SFT_OK;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) { /* the caller's descriptor does not block */
            struct pollfd wait = {.fd = fd, .events = POLLIN};
            if (poll(&wait, 1, -1) >= 0 || errno == EINTR) {
                continue;
            }
        }
        if (errno != EINTR) {
            return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot read the stream");
        }
    }
}

sft_status sft__fs_map(sft__fs_handle file, const char *name, uint64_t size, const void **map,
                       sft_error *err) {
    size_t bytes;
    void *p;

    *map = NULL;
    if (!sft__base_size_from_u64(size, &bytes) || bytes > PTRDIFF_MAX) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "%s has %llu bytes, too many to map on this system", name,
                              (unsigned long long)size);
    }
    p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, (int)file, 0);
    if (p == MAP_FAILED) {
        const int sys = errno;
        return sft__base_fail_sys(err, sys == ENODEV ? SFT_E_UNSUPPORTED : SFT_E_IO, sys,
                                  "cannot map %s", name);
    }
    *map = p;
    return SFT_OK;
}

/* mmap gave the memory without const; only the type says otherwise. */
static void *map_address(const void *map) {
    void *p;
    memcpy(&p, &map, sizeof p);
    return p;
}

void sft__fs_unmap(const void *map, uint64_t size) {
    if (map != NULL) {
        (void)munmap(map_address(map), (size_t)size);
    }
}

bool sft__fs_resident(sft__fs_handle file, uint64_t offset, uint64_t size) {
#if defined(__linux__) && defined(RWF_NOWAIT)
    for (uint64_t i = 0; i <= 2; i++) {
        const uint64_t at = offset + (size > 0 ? (size - 1) / 2 * i : 0);
        char byte;
        const struct iovec one = {&byte, 1};
        if (at > (uint64_t)INT64_MAX || preadv2((int)file, &one, 1, (off_t)at, RWF_NOWAIT) < 0) {
            return false; /* EAGAIN: not in memory; anything else: not known */
        }
    }
    return true; /* 0 bytes behind the end of the file count as present */
#else
    (void)file, (void)offset, (void)size;
    return false;
#endif
}

void sft__fs_advise(sft__fs_handle file, uint64_t offset, uint64_t size, sft_advice advice) {
#if defined(POSIX_FADV_NORMAL)
    const int how = advice == SFT_ADVICE_WILL_NEED    ? POSIX_FADV_WILLNEED
                    : advice == SFT_ADVICE_SEQUENTIAL ? POSIX_FADV_SEQUENTIAL
                    : advice == SFT_ADVICE_RANDOM     ? POSIX_FADV_RANDOM
                    : advice == SFT_ADVICE_DONT_NEED  ? POSIX_FADV_DONTNEED
                                                      : POSIX_FADV_NORMAL;
    if (offset <= (uint64_t)INT64_MAX && size <= (uint64_t)INT64_MAX - offset) {
        (void)posix_fadvise((int)file, (off_t)offset, (off_t)size, how);
    }
#else
    (void)file, (void)offset, (void)size, (void)advice;
#endif
}

void sft__fs_map_advise(const void *map, uint64_t map_size, uint64_t offset, uint64_t size,
                        sft_advice advice) {
    const int how = advice == SFT_ADVICE_WILL_NEED    ? POSIX_MADV_WILLNEED
                    : advice == SFT_ADVICE_SEQUENTIAL ? POSIX_MADV_SEQUENTIAL
                    : advice == SFT_ADVICE_RANDOM     ? POSIX_MADV_RANDOM
                    : advice == SFT_ADVICE_DONT_NEED  ? POSIX_MADV_DONTNEED
                                                      : POSIX_MADV_NORMAL;
    const long page = sysconf(_SC_PAGESIZE);
    uint64_t begin;

    if (page <= 0 || offset >= map_size || size == 0) {
        return;
    }
    if (size > map_size - offset) {
        size = map_size - offset;
    }
    begin = offset - offset % (uint64_t)page;
    char *at = (char *)map_address(map) + (size_t)begin;
    size = offset + size - begin;
#if defined(__linux__)
    if (advice ==
        SFT_ADVICE_UNMAP) { /* glibc's posix_madvise does nothing where data could be lost */
        (void)madvise(at, (size_t)size, MADV_DONTNEED);
        return;
    }
#endif
    (void)posix_madvise(at, (size_t)size, how);
}
#else
typedef int sft__fs_file_posix_empty;
#endif
