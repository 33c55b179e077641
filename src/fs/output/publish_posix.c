/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/publish_posix.c - atomic publication on POSIX systems. Where the system offers it the file has
 * no name at all while it is written (O_TMPFILE), so that a killed process leaves nothing behind;
 * elsewhere it is called .NAME.tmp.<random>. All steps are relative to one open descriptor of the
 * directory.
 */
#ifndef _WIN32
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "base/text/strmap.h"
#include "fs/direct_posix.h"
#include "fs/output/entry.h"
#include "fs/output/keep_posix.h"
#include "fs/output/publish.h"
#include "fs/stream_posix.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINK_MAX_DEPTH = 40,
    TEMP_TRIES = 16,
    NAME_LIMIT = 255,       /* bytes of one file name on every common file system */
    TEMP_EXTRA = 1 + 5 + 16 /* "." NAME ".tmp." and 16 hex digits */
};

struct sft__fs_publish {
    sft__fs_publish_options options;
    sft__base_arena arena;
    const char *path; /* as given */
    const char *base; /* name in the directory, links followed */
    int directory;
    int file;
    bool exists;     /* the target did when we looked */
    bool named;      /* temp is a name in the directory that must go */
    struct stat was; /* if it did */
    char temp[NAME_LIMIT + 1];
    sft__fs_direct *direct; /* for large parts of a large durable file; or NULL */
};

/* ---------------------------------------------------------------- finding the target */

/* Splits cur into its directory (opened) and its last component (p->base). */
static sft_status open_directory(sft__fs_publish *p, const char *cur, size_t *directory_len,
                                 sft_error *err) {
    const char *slash = strrchr(cur, '/');
    const char *base = slash == NULL ? cur : slash + 1;
    const char *directory;

    if (base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR, "\"%s\" names a directory, not a file",
                              p->path);
    }
    *directory_len = (size_t)(base - cur);
    directory = *directory_len == 0 ? "." : sft__base_arena_copy(&p->arena, cur, *directory_len);
    SFT_NEED(directory != NULL, *directory_len, err);
    p->base = base;
    p->directory = sft__fs_open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (p->directory < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot open the directory of \"%s\"",
                                  p->path);
    }
    return SFT_OK;
}

/* What a symbolic link says, made a path of its own. NULL: errno tells why. */
static char *read_link(sft__fs_publish *p, const char *cur, size_t directory_len,
                       size_t size_hint) {
    const size_t cap = (size_hint == 0 ? 4096 : size_hint) + 1;
    char *text = sft__base_arena_alloc(&p->arena, directory_len + cap, 1);
    ssize_t n;

    if (text == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    n = readlinkat(p->directory, p->base, text + directory_len, cap);
    if (n < 0) {
        return NULL;
    }
    if ((size_t)n >= cap) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    text[directory_len + (size_t)n] = '\0';
    if (text[directory_len] == '/') {
        return text + directory_len;
    }
    memcpy(text, cur, directory_len);
    return text;
}

static sft_status check_target(sft__fs_publish *p, const struct stat *st, sft_error *err) {
    if (!S_ISREG(st->st_mode)) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR, "\"%s\" is %s, not a regular file", p->path,
                              S_ISDIR(st->st_mode)    ? "a directory"
                              : S_ISFIFO(st->st_mode) ? "a FIFO"
                              : S_ISSOCK(st->st_mode) ? "a socket"
                                                      : "a device");
    }
    p->exists = true;
    p->was = *st;
    if (p->options.new_only) {
        return sft__base_fail(err, SFT_E_EXISTS, "\"%s\" exists already", p->path);
    }
    return SFT_OK;
}

/* Follows links to the directory that really holds the target; afterwards directory and base name it. */
static sft_status find_target(sft__fs_publish *p, sft_error *err) {
    const char *cur = p->path;
    struct stat followed;
    struct stat st;
    bool linked = false;

    memset(&followed, 0, sizeof followed);
    for (int depth = 0; depth <= LINK_MAX_DEPTH; depth++) {
        size_t directory_len = 0;
        SFT_TRY(open_directory(p, cur, &directory_len, err));
        if (fstatat(p->directory, p->base, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno != ENOENT || (linked && followed.st_mode != 0)) {
                return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot look at \"%s\"", p->path);
            }
            return SFT_OK; /* nothing there yet */
        }
        if (!S_ISLNK(st.st_mode)) {
            SFT_TRY(check_target(p, &st, err));
            /* a magic link (/proc/self/fd/1) does not lead where its text says */
            if (linked && (st.st_dev != followed.st_dev || st.st_ino != followed.st_ino)) {
                return sft__base_fail(err, SFT_E_NOT_REGULAR,
                                      "\"%s\" does not lead to a file by name", p->path);
            }
            return SFT_OK;
        }
        if (!linked && fstatat(p->directory, p->base, &followed, 0) == 0) {
            SFT_TRY(check_target(p, &followed, err));
        } else if (!linked && errno != ENOENT) {
            return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot follow \"%s\"", p->path);
        }
        linked = true;
        cur = read_link(p, cur, directory_len, st.st_size > 0 ? (size_t)st.st_size : 0);
        if (cur == NULL) {
            return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot read the link \"%s\"", p->path);
        }
        (void)close(p->directory); /* read-only: nothing can be lost */
        p->directory = -1;
    }
    return sft__base_fail_sys(err, SFT_E_IO, ELOOP, "cannot follow \"%s\"", p->path);
}

/* ---------------------------------------------------------------- the file to be written */

/* .NAME.tmp.<16 hex>, NAME cut at a character so that the whole fits; without NAME if `bare`. */
static void make_temp_name(sft__fs_publish *p, bool bare) {
    size_t keep = bare ? 0 : strlen(p->base);
    uint64_t key[2];
    char *at = p->temp;

    if (keep > NAME_LIMIT - TEMP_EXTRA) {
        keep = NAME_LIMIT - TEMP_EXTRA;
        while (keep > 0 && ((uint8_t)p->base[keep] & 0xc0) == 0x80) {
            keep--;
        }
    }
    sft__base_random_key(key);
    *at++ = '.';
    memcpy(at, p->base, keep);
    at += keep;
    memcpy(at, ".tmp.", 5);
    at += 5;
    for (int i = 0; i < 16; i++) {
        *at++ = sft__base_hex_digits[(key[0] >> (4 * i)) & 15];
    }
    *at = '\0';
}

/* 0666: the umask (or a default ACL) rules. Where the final mode is known, nobody else until it is
 * set. */
static mode_t create_mode(const sft__fs_publish *p) {
    return p->exists || (p->options.mode & SFT_MODE_SET) != 0 ? 0600 : 0666;
}

#ifdef O_TMPFILE
static void proc_path(char out[40], int fd) {
    (void)snprintf(out, 40, "/proc/self/fd/%d", fd);
}

/* A file without a name, if the file system has such and a name can be given to it later. */
static bool create_unnamed(sft__fs_publish *p) {
    char proc[40];
    struct stat st;

    p->file = sft__fs_open_at(p->directory, ".", O_TMPFILE | O_RDWR, create_mode(p));
    if (p->file < 0) {
        return false;
    }
    proc_path(proc, p->file);
    if (fstatat(AT_FDCWD, proc, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    (void)close(p->file); /* empty: nothing can be lost */
    p->file = -1;
    return false;
}

static int link_file(const sft__fs_publish *p, const char *name) {
    char proc[40];
    proc_path(proc, p->file);
    return linkat(AT_FDCWD, proc, p->directory, name, AT_SYMLINK_FOLLOW);
}
#else
static bool create_unnamed(sft__fs_publish *p) {
    (void)p;
    return false;
}

static int link_file(const sft__fs_publish *p, const char *name) {
    (void)p, (void)name;
    errno = ENOSYS;
    return -1;
}
#endif

/* Tries random names until `make` does not say EEXIST. Sets p->named on success. */
static int with_temp_name(sft__fs_publish *p, int (*make)(sft__fs_publish *p)) {
    bool bare = false;
    for (int i = 0; i < TEMP_TRIES; i++) {
        make_temp_name(p, bare);
        if (make(p) == 0) {
            p->named = true;
            return 0;
        }
        if (errno == ENAMETOOLONG && !bare) {
            bare = true; /* a file system with shorter names than most */
        } else if (errno != EEXIST) {
            return -1;
        }
    }
    return -1;
}

static int make_named(sft__fs_publish *p) {
    p->file = sft__fs_open_at(p->directory, p->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW,
                              create_mode(p));
    return p->file < 0 ? -1 : 0;
}

static int make_linked(sft__fs_publish *p) {
    return link_file(p, p->temp);
}

/* What the file that is replaced has beside its bytes; or the mode asked for. */
static sft_status take_over(sft__fs_publish *p, sft_error *err) {
    const int old =
        p->exists ? sft__fs_open_at(p->directory, p->base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)
                  : -1;
    const sft_status status = sft__fs_keep(p->file, old, &p->was, p->options.mode, p->path, err);

    if (old >= 0) {
        (void)close(old); /* read-only */
    }
    return status;
}

sft_status sft__fs_publish_open(sft__fs_publish **out, const char *path,
                                const sft__fs_publish_options *options, sft_error *err) {
    sft__fs_publish *p;
    sft_status st;

    *out = NULL;
    if (path[0] == '\0') {
        return sft__base_fail(err, SFT_E_PATH, "the path is empty");
    }
    p = sft__base_alloc_zero(options->allocator, sizeof *p);
    SFT_NEED(p != NULL, sizeof *p, err);
    p->options = *options;
    p->directory = -1;
    p->file = -1;
    sft__base_arena_init(&p->arena, options->allocator, 0);
    p->path = sft__base_arena_copy(&p->arena, path, strlen(path));
    st = p->path == NULL ? sft__base_fail_nomem(err, strlen(path) + 1) : find_target(p, err);
    if (st == SFT_OK && !create_unnamed(p) && with_temp_name(p, make_named) != 0) {
        st = sft__base_fail_sys(err, SFT_E_IO, errno,
                                "cannot create a file in the directory of \"%s\"", p->path);
    }
    if (st == SFT_OK) {
        st = take_over(p, err);
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

/* ---------------------------------------------------------------- writing */

enum { WRITE_PIECE = 512 << 10 };

/* So little that writing it says at once if there is no room: blocks may come when the system writes it to
 * the disk. A rename over another file would make it do so, and wait. */
static bool is_small(const sft__fs_publish *publish, uint64_t size) {
    return !publish->exists && size <= WRITE_PIECE;
}

sft_status sft__fs_publish_reserve(sft__fs_publish *publish, uint64_t size, sft_error *err) {
    SFT_TRY(sft__fs_may_grow(publish->path, size, err));
    if (size > 0) {
        SFT_TRY(is_small(publish, size) ? sft__fs_resize(publish->file, publish->path, size, err)
                                        : sft__fs_reserve(publish->file, publish->path, size, err));
    }
    if (publish->options.durability == SFT_DURABLE_FULL && size >= sft__base_size.direct_file) {
        publish->direct = sft__fs_direct_open(publish->file, publish->options.allocator);
    }
    return SFT_OK;
}

/* One call, of at most WRITE_PIECE bytes and no further than the next multiple of it in the file:
 * the system makes the pages of a larger call in runs as long as the call, and looks for such runs
 * in memory that it has yet to clear, a process' first save of 512 MiB then takes up to eight times
 * as long. */
static ssize_t write_parts(int fd, struct iovec *iov, int count, off_t offset) {
    size_t room = WRITE_PIECE - (size_t)((uint64_t)offset % WRITE_PIECE);
    int n = 0;

    while (n < count && iov[n].iov_len <= room) {
        room -= iov[n++].iov_len;
    }
#if defined(__APPLE__) /* pwritev came late there */
    return pwrite(fd, iov[0].iov_base, n > 0 ? iov[0].iov_len : room, offset);
#else
    if (n < count && room > 0) { /* the rest of this one is left to the next call */
        const size_t len = iov[n].iov_len;
        iov[n].iov_len = room;
        const ssize_t done = pwritev(fd, iov, n + 1, offset);
        iov[n].iov_len = len;
        return done;
    }
    return n == 1 ? pwrite(fd, iov[0].iov_base, iov[0].iov_len, offset)
                  : pwritev(fd, iov, n, offset);
#endif
}

/* Writes iov[0..count) at *offset, however many calls it takes. */
static int write_all(int fd, struct iovec *iov, int count, uint64_t *offset) {
    int at = 0;
    while (at < count) {
        if (iov[at].iov_len == 0) {
            at++;
            continue;
        }
        const ssize_t n = write_parts(fd, iov + at, count - at, (off_t)*offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
        *offset += (uint64_t)n;
        sft__fs_iov_advance(iov, &at, (size_t)n);
    }
    return 0;
}

/* Through the cache: all that is left. 0, or -1 with errno. */
static int write_cached(int fd, sft__fs_span_walk *p) {
    enum { BATCH = 256 }; /* below every IOV_MAX (POSIX promises 16, all in use have 1,024) */

    for (size_t i = 0; i < p->count;) {
        struct iovec iov[BATCH];
        const int n = sft__fs_iov_fill(iov, BATCH, p->parts + i, p->count - i);
        i += (size_t)n;
        if (p->begun > 0) {
            iov[0].iov_base = (char *)iov[0].iov_base + p->begun;
            iov[0].iov_len -= p->begun;
            p->begun = 0;
        }
        if (write_all(fd, iov, n, &p->offset) != 0) {
            return -1;
        }
    }
    return 0;
}

sft_status sft__fs_publish_write(sft__fs_publish *publish, uint64_t offset,
                                 const sft__fs_span *parts, size_t count, sft_error *err) {
    sft__fs_span_walk p = {parts, count, 0, 0, offset};

    for (size_t i = 0; i < count; i++) {
        p.left += parts[i].size; /* cannot overflow: all of it is in memory */
    }
    if ((publish->direct != NULL && p.left >= sft__base_size.direct_part &&
         sft__fs_direct_write(publish->direct, &p) != 0) ||
        write_cached(publish->file, &p) != 0) {
        const int cause = errno;
        (void)sft__base_fail_sys(err, SFT_E_IO, cause, "cannot write \"%s\"", publish->path);
        if (err != NULL) {
            err->offset = p.offset;
        }
        return SFT_E_IO;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- commit */

static int close_file(sft__fs_publish *p) {
    const int fd = p->file;
    p->file = -1;
    return close(fd); /* never twice: the descriptor is gone whatever close says */
}

static int close_direct(sft__fs_publish *p) {
    sft__fs_direct *d = p->direct;
    p->direct = NULL;
    return sft__fs_direct_close(d);
}

/* The temporary name becomes the target's, unless that exists. */
static int rename_new(sft__fs_publish *p) {
    const int rc = sft__fs_rename_new_at(p->directory, p->temp, p->base);
    p->named = rc != 0;
    return rc < 0 ? -1 : 0;
}

static sft_status not_committed(const sft__fs_publish *p, int cause, const char *step,
                                sft_error *err) {
    if (cause == EEXIST && p->options.new_only) {
        return sft__base_fail(err, SFT_E_EXISTS, "\"%s\" exists already", p->path);
    }
    return sft__base_fail_sys(err, SFT_E_NOT_COMMITTED, cause,
                              "\"%s\" stays as it was, cannot %s the new file", p->path, step);
}

/* Gives the file without a name the target's, where nothing has to be replaced. EEXIST: something
 * is there by now. */
static bool publish_by_link(sft__fs_publish *p, int *cause) {
    *cause = EEXIST;
    if (p->exists || p->options.expected != NULL) {
        return false;
    }
    if (link_file(p, p->base) == 0) {
        return true;
    }
    *cause = errno;
    return false;
}

/* Is NAME the file that is to be replaced, as it was? cause: why it cannot be told, or 0. */
static bool is_expected(const sft__fs_publish *p, const char *name, int *cause) {
    const sft__fs_stat *e = p->options.expected;
    struct stat st;

    *cause = 0;
    if (fstatat(p->directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        *cause = errno == ENOENT ? 0 : errno;
        return false;
    }
#ifdef __APPLE__
    const struct timespec *t = &st.st_mtimespec;
#else
    const struct timespec *t = &st.st_mtim;
#endif
    return (uint64_t)st.st_dev == e->device && (uint64_t)st.st_ino == e->inode &&
           (uint64_t)st.st_size == e->size &&
           (int64_t)t->tv_sec * 1000000000 + t->tv_nsec == e->mtime_ns;
}

static sft_status changed(const sft__fs_publish *p, int cause, sft_error *err) {
    if (cause != 0) {
        return not_committed(p, cause, "compare what is there with", err);
    }
    return sft__base_fail(err, SFT_E_CHANGED, "\"%s\" was changed or replaced by somebody else",
                          p->path);
}

#if defined(__linux__) && defined(RENAME_EXCHANGE)
static int exchange(const sft__fs_publish *p) {
    return renameat2(p->directory, p->temp, p->directory, p->base, RENAME_EXCHANGE);
}

/* Ours takes the target's place, and what was there is looked at. If it is another file than the
 * one expected it goes back; whoever replaced ours meanwhile is newer than both, and stays. */
static sft_status publish_by_exchange(sft__fs_publish *p, bool *done, sft_error *err) {
    struct stat ours;
    struct stat out;
    int cause;

    *done = false;
    if (fstatat(p->directory, p->temp, &ours, AT_SYMLINK_NOFOLLOW) != 0) {
        return not_committed(p, errno, "look at", err);
    }
    if (exchange(p) != 0) { /* where the system cannot, there is another way */
        return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP
                   ? SFT_OK
                   : not_committed(p, errno, "rename", err);
    }
    *done = true;
    if (is_expected(p, p->temp, &cause)) {
        return SFT_OK; /* the old file has the temporary name, which goes */
    }
    if (exchange(p) != 0) {
        p->named = false; /* what is under the temporary name is somebody's: it stays */
        return sft__base_fail_sys(
            err, SFT_E_CHANGED, errno,
            "\"%s\" was replaced by somebody else, whose file is called %s now", p->path, p->temp);
    }
    if (fstatat(p->directory, p->temp, &out, AT_SYMLINK_NOFOLLOW) == 0 &&
        (out.st_ino != ours.st_ino || out.st_dev != ours.st_dev) && exchange(p) != 0) {
        p->named = false;
    }
    return changed(p, cause, err);
}
#else
static sft_status publish_by_exchange(sft__fs_publish *p, bool *done, sft_error *err) {
    (void)p, (void)err;
    *done = false;
    return SFT_OK;
}
#endif

static sft_status publish_expected(sft__fs_publish *p, sft_error *err) {
    bool done;
    int cause;

    if (!is_expected(p, p->base, &cause)) {
        return changed(p, cause, err);
    }
    SFT_TRY(publish_by_exchange(p, &done, err));
    if (!done) {
        if (renameat(p->directory, p->temp, p->directory, p->base) != 0) {
            return not_committed(p, errno, "rename", err);
        }
        p->named = false;
    }
    return SFT_OK;
}

static sft_status publish_by_rename(sft__fs_publish *p, sft_error *err) {
    int rc;
    if (!p->named && with_temp_name(p, make_linked) != 0) {
        return not_committed(p, errno, "name", err);
    }
    if (close_file(p) != 0) {
        return not_committed(p, errno, "close", err);
    }
    if (p->options.expected != NULL) {
        return publish_expected(p, err);
    }
    if (p->options.new_only) {
        rc = rename_new(p);
    } else {
        rc = renameat(p->directory, p->temp, p->directory, p->base);
        p->named = rc != 0;
    }
    return rc == 0 ? SFT_OK : not_committed(p, errno, "rename", err);
}

sft_status sft__fs_publish_commit(sft__fs_publish *publish, sft_error *err) {
    const bool durable = publish->options.durability == SFT_DURABLE_FULL;
    int cause = 0;
    bool linked = false;

    if (close_direct(publish) != 0) {
        return not_committed(publish, errno, "close", err);
    }
    if (durable && sft__fs_sync_descriptor(publish->file) != 0) {
        return not_committed(publish, errno, "write to disk", err);
    }
    if (!publish->named) {
        linked = publish_by_link(publish, &cause);
        if (!linked && (cause != EEXIST || publish->options.new_only)) {
            return not_committed(publish, cause, "name", err);
        }
    }
    if (!linked) {
        SFT_TRY(publish_by_rename(publish, err));
    } else if (close_file(publish) != 0) {
        return sft__base_fail_sys(err, SFT_E_DURABILITY, errno,
                                  "\"%s\" is in place, but closing it failed", publish->path);
    }
    if (durable && sft__fs_sync_entries(publish->directory) != 0) {
        return sft__base_fail_sys(
            err, SFT_E_DURABILITY, errno,
            "\"%s\" is in place, but its directory could not be written to disk", publish->path);
    }
    return SFT_OK;
}

void sft__fs_publish_free(sft__fs_publish *publish) {
    if (publish == NULL) {
        return;
    }
    (void)close_direct(publish);
    if (publish->file >= 0) {
        (void)close(publish->file); /* given up, or an error told already */
    }
    if (publish->named) {
        (void)unlinkat(publish->directory, publish->temp, 0);
    }
    if (publish->directory >= 0) {
        (void)close(publish->directory); /* read-only */
    }
    sft__base_arena_free(&publish->arena);
    sft__base_free(publish->options.allocator, publish, sizeof *publish);
}
#endif
