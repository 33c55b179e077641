/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/disk_posix.c - see disk.h. Locks are flock's: they end with the process that holds
 * them, however it ends.
 */
#ifndef _WIN32
#include "checkpoint/disk.h"
#include <errno.h>
#include <fcntl.h>
#include <sft/extend.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif

sft_status sft__checkpoint_disk_open(const char *path, sft__checkpoint_disk *out, sft_error *err) {
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct stat st;
    *out = SFT__DISK_NONE;
    if (fd < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot create \"%.200s\"", path);
    }
    if (fstat(fd, &st) == 0 &&
        st.st_nlink > 1) { /* a copy made by links, as backups are: not ours to change */
        (void)close(fd);
        return sft__fail(err, SFT_E_EXISTS,
                         "\"%.200s\" has another name, whose file would change with it: restart",
                         path);
    }
    *out = fd;
    return SFT_OK;
}

bool sft__checkpoint_disk_is_at(sft__checkpoint_disk disk, const char *path) {
    struct stat open_one;
    struct stat st;
    return fstat((int)disk, &open_one) == 0 && stat(path, &st) == 0 &&
           open_one.st_dev == st.st_dev && open_one.st_ino == st.st_ino;
}

/* False: another process has it. Where there are no locks, nobody has. */
static bool lock(sft__checkpoint_disk disk, int how) {
    while (flock((int)disk, how) != 0) {
        if (errno != EINTR) {
            return errno != EWOULDBLOCK;
        }
    }
    return true;
}

sft_status sft__checkpoint_disk_open_locked(const char *path, sft__checkpoint_disk *out,
                                            sft_error *err) {
    enum { TRIES = 100 };
    for (unsigned i = 0; i < TRIES; i++) {
        SFT_TRY(sft__checkpoint_disk_open(path, out, err));
        if (!lock(*out, LOCK_EX | LOCK_NB)) {
            break;
        }
        if (sft__checkpoint_disk_is_at(*out, path)) {
            return SFT_OK;
        }
        sft__checkpoint_disk_close(*out); /* who had it before has removed it */
    }
    sft__checkpoint_disk_close(*out);
    *out = SFT__DISK_NONE;
    return sft__fail(err, SFT_E_STATE, "another process is at it: \"%.200s\" is locked", path);
}

sft_status sft__checkpoint_disk_hold_folder(const char *path, sft__checkpoint_disk *out,
                                            sft_error *err) {
    enum { TRIES = 100 };
    *out = SFT__DISK_NONE;
    for (unsigned i = 0; i < TRIES; i++) {
        SFT_TRY(sft__checkpoint_disk_make_folder(path, err));
        const int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
        if (fd < 0 && errno != ENOENT) {
            return sft__fail_sys(err, SFT_E_IO, errno, "cannot open the folder \"%.200s\"", path);
        }
        if (fd >= 0 && lock(fd, LOCK_SH) && sft__checkpoint_disk_is_at(fd, path)) {
            *out = fd;
            return SFT_OK;
        }
        sft__checkpoint_disk_close(fd); /* removed meanwhile: once more */
    }
    return sft__fail(err, SFT_E_STATE, "the folder \"%.200s\" is removed again and again", path);
}

bool sft__checkpoint_disk_hold_alone(sft__checkpoint_disk folder) {
    if (!lock(folder, LOCK_EX | LOCK_NB)) {
        (void)lock(folder, LOCK_SH | LOCK_NB); /* systems give up the one for the other */
        return false;
    }
    return true;
}

void sft__checkpoint_disk_close(sft__checkpoint_disk disk) {
    if (disk != SFT__DISK_NONE) {
        (void)close((int)disk);
    }
}

/* Growing past the limit of the process would not only fail, but raise a signal. */
static bool may_grow(uint64_t size) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           size <= (uint64_t)limit.rlim_cur;
}

sft_status sft__checkpoint_disk_reserve(sft__checkpoint_disk disk, const char *path, uint64_t size,
                                        sft_error *err) {
    struct stat st;
    if (!may_grow(size)) {
        return sft__fail_sys(err, SFT_E_IO, EFBIG, "cannot make \"%.200s\" %llu bytes long", path,
                             (unsigned long long)size);
    }
    if (size == 0) {
        return sft__checkpoint_disk_cut(disk, path, 0, err);
    }
#ifdef __linux__
    while (fallocate((int)disk, 0, 0, (off_t)size) != 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) {
            break;
        }
        if (errno != EINTR) {
            return sft__fail_sys(err, SFT_E_IO, errno, "cannot reserve %llu bytes for \"%.200s\"",
                                 (unsigned long long)size, path);
        }
    }
#endif
    if (fstat((int)disk, &st) != 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot read the size of \"%.200s\"", path);
    }
    return (uint64_t)st.st_size == size ? SFT_OK : sft__checkpoint_disk_cut(disk, path, size, err);
}

sft_status sft__checkpoint_disk_cut(sft__checkpoint_disk disk, const char *path, uint64_t size,
                                    sft_error *err) {
    while (ftruncate((int)disk, (off_t)size) != 0) {
        if (errno != EINTR) {
            return sft__fail_sys(err, SFT_E_IO, errno, "cannot make \"%.200s\" %llu bytes long",
                                 path, (unsigned long long)size);
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_disk_write(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                      const void *data, size_t size, sft_error *err) {
    const uint8_t *at = data;
    while (size > 0) {
        const ssize_t n = pwrite((int)disk, at, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return sft__fail_sys(err, SFT_E_IO, n < 0 ? errno : EIO, "cannot write \"%.200s\"",
                                 path);
        }
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SFT_OK;
}

sft_status sft__checkpoint_disk_read(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                     void *data, size_t size, sft_error *err) {
    uint8_t *at = data;
    while (size > 0) {
        const ssize_t n = pread((int)disk, at, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? sft__fail_sys(err, SFT_E_IO, errno, "cannot read \"%.200s\"", path)
                         : sft__fail_at(err, SFT_E_TRUNCATED, offset, "\"%.200s\" ends too early",
                                        path);
        }
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SFT_OK;
}

#ifdef __linux__
/* "This way is not open", as opposed to "it went wrong". */
static bool is_refusal(int cause) {
    return cause == EXDEV || cause == EINVAL || cause == ENOSYS || cause == EOPNOTSUPP ||
           cause == EPERM || cause == EBADF || cause == ETXTBSY || cause == EACCES;
}

/* Inside the kernel pages are copied one by one, at half the speed of reading and writing blocks
 * that stay in the processor's cache: worth while only where a server does the copying, or where
 * blocks of a file system are shared. Numbers from statfs(2) and the kernel's magic.h. */
static bool kernel_is_better(int fd, uint64_t from, uint64_t to) {
    struct statfs s;
    if (fstatfs(fd, &s) != 0) {
        return false;
    }
    switch ((uint32_t)s.f_type) {
    case 0x6969:     /* nfs */
    case 0xFF534D42: /* cifs */
    case 0xFE534D42: /* smb2 */
    case 0x00C36400: /* ceph */
    case 0x65735546: /* fuse */
    case 0x5346414F: /* afs */
        return true;
    case 0x9123683E: /* btrfs */
    case 0x58465342: /* xfs */
    case 0xCA451A4E: /* bcachefs */
    case 0x2FC12FC1: /* zfs */
    case 0x7461636F: /* ocfs2 */
        return (from - to) % 4096 == 0;
    default:
        return false;
    }
}
#endif

sft_status sft__checkpoint_disk_copy(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                     int fd, uint64_t from, uint64_t size, uint64_t *moved,
                                     sft_error *err) {
    *moved = 0;
#ifdef __linux__
    while (*moved < size && kernel_is_better((int)disk, from, offset)) {
        off_t src = (off_t)(from + *moved);
        off_t dst = (off_t)(offset + *moved);
        const ssize_t n = copy_file_range(fd, &src, (int)disk, &dst, (size_t)(size - *moved), 0);
        if (n == 0 || (n < 0 && is_refusal(errno))) {
            return SFT_OK;
        }
        if (n < 0 && errno != EINTR) {
            return sft__fail_sys(err, SFT_E_IO, errno, "cannot copy to \"%.200s\"", path);
        }
        *moved += n > 0 ? (uint64_t)n : 0;
    }
#else
    (void)disk;
    (void)path;
    (void)offset;
    (void)fd;
    (void)from;
    (void)size;
    (void)err;
#endif
    return SFT_OK;
}

sft_status sft__checkpoint_disk_sync(sft__checkpoint_disk disk, const char *path, sft_error *err) {
    while (fsync((int)disk) != 0) {
        if (errno != EINTR) {
            return sft__fail_sys(err, SFT_E_IO, errno, "cannot flush \"%.200s\"", path);
        }
    }
    return SFT_OK;
}

void sft__checkpoint_disk_flush_soon(sft__checkpoint_disk disk, uint64_t offset, uint64_t size) {
#ifdef __linux__
    (void)sync_file_range((int)disk, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
#else
    (void)disk;
    (void)offset;
    (void)size;
#endif
}

static void tell(const struct stat *st, sft__checkpoint_disk_fact *fact) {
    fact->exists = true;
    fact->folder = S_ISDIR(st->st_mode);
    fact->regular = S_ISREG(st->st_mode);
    fact->size = (uint64_t)st->st_size;
#ifdef __APPLE__
    fact->mtime_ns = (int64_t)st->st_mtimespec.tv_sec * 1000000000 + st->st_mtimespec.tv_nsec;
#else
    fact->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
#endif
    fact->device = (uint64_t)st->st_dev;
    fact->number = (uint64_t)st->st_ino;
}

sft_status sft__checkpoint_disk_stat(const char *path, sft__checkpoint_disk_fact *fact,
                                     sft_error *err) {
    struct stat st;
    memset(fact, 0, sizeof *fact);
    if (stat(path, &st) != 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? SFT_OK
                   : sft__fail_sys(err, SFT_E_IO, errno, "cannot look at \"%.200s\"", path);
    }
    tell(&st, fact);
    return SFT_OK;
}

sft_status sft__checkpoint_disk_stat_fd(int fd, const char *path, sft__checkpoint_disk_fact *fact,
                                        sft_error *err) {
    struct stat st;
    memset(fact, 0, sizeof *fact);
    if (fstat(fd, &st) != 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot look at \"%.200s\"", path);
    }
    tell(&st, fact);
    return SFT_OK;
}

sft_status sft__checkpoint_disk_make_folder(const char *path, sft_error *err) {
    sft__checkpoint_disk_fact fact;
    if (mkdir(path, 0777) == 0) {
        return SFT_OK;
    }
    const int cause = errno;
    if (cause == EEXIST) {
        SFT_TRY(sft__checkpoint_disk_stat(path, &fact, err));
        if (fact.folder) {
            return SFT_OK;
        }
    }
    return sft__fail_sys(err, SFT_E_IO, cause, "cannot make the folder \"%.200s\"", path);
}

sft_status sft__checkpoint_disk_rename(const char *from, const char *to, sft_error *err) {
    if (rename(from, to) != 0) {
        return sft__fail_sys(err, SFT_E_NOT_COMMITTED, errno, "cannot put \"%.200s\" in place", to);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_disk_keep(const char *from, const char *to, sft_error *err) {
    const int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot open \"%.200s\"", from);
    }
    const sft_status status = sft_file_keep(fd, to, err);
    (void)close(fd); /* read-only */
    return status;
}

sft_status sft__checkpoint_disk_remove(const char *path, sft_error *err) {
    if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot remove \"%.200s\"", path);
    }
    return SFT_OK;
}

bool sft__checkpoint_disk_is_link(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

bool sft__checkpoint_disk_remove_folder(const char *path) {
    return rmdir(path) == 0;
}

sft_status sft__checkpoint_disk_sync_folder(const char *path, sft_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot open the folder \"%.200s\"", path);
    }
    const bool bad =
        fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP; /* some file systems cannot */
    const int cause = errno;
    (void)close(fd);
    return bad ? sft__fail_sys(err, SFT_E_IO, cause, "cannot flush the folder \"%.200s\"", path)
               : SFT_OK;
}
#endif
