/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/fault/wrap.c - see wrap.h. Calls have two names where files may pass 2 GiB; both are
 * caught.
 */
#include "wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    bool armed;
    size_t calls;
    size_t fail_at;
    wrap_kind kind;
    int error;
    unsigned missing;
    const char *names[WRAP_LOG];
} state;

void wrap_arm(size_t fail_at, wrap_kind kind, int error, unsigned missing) {
    state.calls = 0;
    state.fail_at = fail_at;
    state.kind = kind;
    state.error = error;
    state.missing = missing;
    state.armed = true;
}

size_t wrap_disarm(void) {
    state.armed = false;
    return state.calls;
}

const char *wrap_call(size_t call) {
    return call >= 1 && call <= WRAP_LOG ? state.names[call - 1] : "?";
}

/* Threads may call at once. */
static bool hit(const char *name) {
    if (!state.armed) {
        return false;
    }
    const size_t call = __atomic_add_fetch(&state.calls, 1, __ATOMIC_SEQ_CST);
    if (call <= WRAP_LOG) {
        state.names[call - 1] = name;
    }
    if (call == state.fail_at && state.kind == WRAP_KILL) {
        (void)kill(getpid(), SIGKILL);
    }
    return call == state.fail_at;
}

bool wrap_hit(const char *name, int *error) {
    *error = state.error;
    return hit(name);
}

static bool lacks(unsigned what) {
    return state.armed && (state.missing & what) != 0;
}

static int fail(int error) {
    errno = error;
    return -1;
}

/* Calls that do something or do not: type, name, parameters, arguments. */
#define WHOLE_CALL(type, name, params, args)                                                       \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params {                                                                    \
        if (hit(#name)) {                                                                          \
            return (type)fail(state.error);                                                        \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }

/* Calls that move bytes: `size` is the parameter that may be cut. */
#define MOVING_CALL(name, params, args, cut)                                                       \
    ssize_t __real_##name params;                                                                  \
    ssize_t __wrap_##name params;                                                                  \
    ssize_t __wrap_##name params {                                                                 \
        if (hit(#name)) {                                                                          \
            if (state.kind == WRAP_ERRNO) {                                                        \
                return fail(state.error);                                                          \
            }                                                                                      \
            if (state.kind == WRAP_NONE) {                                                         \
                return 0;                                                                          \
            }                                                                                      \
            cut;                                                                                   \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }

#define CUT_SIZE size = state.kind == WRAP_ONE || size == 0 ? (size < 1 ? size : 1) : size - 1

MOVING_CALL(pread, (int fd, void *p, size_t size, off_t at), (fd, p, size, at), CUT_SIZE)
MOVING_CALL(pread64, (int fd, void *p, size_t size, off_t at), (fd, p, size, at), CUT_SIZE)
MOVING_CALL(pwrite, (int fd, const void *p, size_t size, off_t at), (fd, p, size, at), CUT_SIZE)
MOVING_CALL(pwrite64, (int fd, const void *p, size_t size, off_t at), (fd, p, size, at), CUT_SIZE)
MOVING_CALL(read, (int fd, void *p, size_t size), (fd, p, size), CUT_SIZE)
MOVING_CALL(write, (int fd, const void *p, size_t size), (fd, p, size), CUT_SIZE)
MOVING_CALL(sendfile, (int to, int fd, off_t *at, size_t size), (to, fd, at, size), CUT_SIZE)
MOVING_CALL(sendfile64, (int to, int fd, off_t *at, size_t size), (to, fd, at, size), CUT_SIZE)

ssize_t __real_copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t size,
                               unsigned flags);
ssize_t __wrap_copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t size,
                               unsigned flags);
ssize_t __wrap_copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t size,
                               unsigned flags) {
    if (lacks(WRAP_NO_KERNEL_COPY)) {
        return fail(ENOSYS);
    }
    if (hit("copy_file_range")) {
        if (state.kind == WRAP_ERRNO) {
            return fail(state.error);
        }
        if (state.kind == WRAP_NONE) {
            return 0;
        }
        CUT_SIZE;
    }
    return __real_copy_file_range(from, at, to, to_at, size, flags);
}

/* Vectored writes, cut: one write of the first part. */
#define VECTOR_CALL(name, params, args, plain)                                                     \
    ssize_t __real_##name params;                                                                  \
    ssize_t __wrap_##name params;                                                                  \
    ssize_t __wrap_##name params {                                                                 \
        if (hit(#name)) {                                                                          \
            if (state.kind == WRAP_ERRNO) {                                                        \
                return fail(state.error);                                                          \
            }                                                                                      \
            if (state.kind == WRAP_NONE) {                                                         \
                return 0;                                                                          \
            }                                                                                      \
            size_t size = iov[0].iov_len;                                                          \
            CUT_SIZE;                                                                              \
            return plain;                                                                          \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }
VECTOR_CALL(pwritev, (int fd, const struct iovec *iov, int count, off_t at), (fd, iov, count, at),
            __real_pwrite(fd, iov[0].iov_base, size, at))
VECTOR_CALL(pwritev64, (int fd, const struct iovec *iov, int count, off_t at), (fd, iov, count, at),
            __real_pwrite64(fd, iov[0].iov_base, size, at))
VECTOR_CALL(writev, (int fd, const struct iovec *iov, int count), (fd, iov, count),
            __real_write(fd, iov[0].iov_base, size))

WHOLE_CALL(int, fstat, (int fd, struct stat *st), (fd, st))
WHOLE_CALL(int, fstat64, (int fd, struct stat *st), (fd, st))
WHOLE_CALL(int, stat, (const char *path, struct stat *st), (path, st))
WHOLE_CALL(int, stat64, (const char *path, struct stat *st), (path, st))
WHOLE_CALL(int, ftruncate, (int fd, off_t size), (fd, size))
WHOLE_CALL(int, ftruncate64, (int fd, off_t size), (fd, size))
WHOLE_CALL(int, fsync, (int fd), (fd))
WHOLE_CALL(int, renameat, (int d, const char *from, int e, const char *to), (d, from, e, to))
WHOLE_CALL(int, linkat, (int d, const char *from, int e, const char *to, int flags),
           (d, from, e, to, flags))
WHOLE_CALL(int, unlinkat, (int d, const char *name, int flags), (d, name, flags))
WHOLE_CALL(int, fchmod, (int fd, mode_t mode), (fd, mode))
WHOLE_CALL(int, fchown, (int fd, uid_t uid, gid_t gid), (fd, uid, gid))
WHOLE_CALL(int, sync_file_range, (int fd, off_t at, off_t size, unsigned flags),
           (fd, at, size, flags))
WHOLE_CALL(ssize_t, readlinkat, (int d, const char *name, char *p, size_t size), (d, name, p, size))
WHOLE_CALL(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
WHOLE_CALL(int, poll, (struct pollfd * p, nfds_t count, int timeout), (p, count, timeout))
WHOLE_CALL(int, getrlimit, (int what, struct rlimit *limit), (what, limit))
WHOLE_CALL(int, getrlimit64, (int what, struct rlimit *limit), (what, limit))

#define MISSING_CALL(name, params, args, what, code)                                               \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params {                                                                     \
        if (lacks(what)) {                                                                         \
            return fail(code);                                                                     \
        }                                                                                          \
        return hit(#name) ? fail(state.error) : __real_##name args;                                \
    }
MISSING_CALL(fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size),
             WRAP_NO_FALLOCATE, EOPNOTSUPP)
MISSING_CALL(fallocate64, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size),
             WRAP_NO_FALLOCATE, EOPNOTSUPP)
MISSING_CALL(renameat2, (int d, const char *from, int e, const char *to, unsigned flags),
             (d, from, e, to, flags), WRAP_NO_RENAMEAT2, ENOSYS)

#define STAT_AT_CALL(name)                                                                         \
    int __real_##name(int d, const char *path, struct stat *st, int flags);                        \
    int __wrap_##name(int d, const char *path, struct stat *st, int flags);                        \
    int __wrap_##name(int d, const char *path, struct stat *st, int flags) {                       \
        if (lacks(WRAP_NO_PROC) && strncmp(path, "/proc/", 6) == 0) {                              \
            return fail(ENOENT);                                                                   \
        }                                                                                          \
        return hit(#name) ? fail(state.error) : __real_##name(d, path, st, flags);                 \
    }
STAT_AT_CALL(fstatat)
STAT_AT_CALL(fstatat64)

/* close closes even when it says that it did not: so does the kernel. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    if (hit("close")) {
        (void)__real_close(fd);
        return fail(state.error);
    }
    return __real_close(fd);
}

#define OPEN_AT_CALL(name)                                                                         \
    int __real_##name(int d, const char *path, int flags, ...);                                    \
    int __wrap_##name(int d, const char *path, int flags, ...);                                    \
    int __wrap_##name(int d, const char *path, int flags, ...) {                                   \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        const mode_t mode = va_arg(args, mode_t);                                                  \
        va_end(args);                                                                              \
        if (lacks(WRAP_NO_TMPFILE) && (flags & O_TMPFILE) == O_TMPFILE) {                          \
            return fail(EOPNOTSUPP);                                                               \
        }                                                                                          \
        return hit(#name) ? fail(state.error) : __real_##name(d, path, flags, mode);               \
    }
OPEN_AT_CALL(openat)
OPEN_AT_CALL(openat64)

#define OPEN_CALL(name)                                                                            \
    int __real_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...) {                                          \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        const mode_t mode = va_arg(args, mode_t);                                                  \
        va_end(args);                                                                              \
        return hit(#name) ? fail(state.error) : __real_##name(path, flags, mode);                  \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

#define POINTER_CALL(name, request_type)                                                           \
    int __real_##name(int fd, request_type request, ...);                                          \
    int __wrap_##name(int fd, request_type request, ...);                                          \
    int __wrap_##name(int fd, request_type request, ...) {                                         \
        va_list args;                                                                              \
        va_start(args, request);                                                                   \
        void *const what = va_arg(args, void *);                                                   \
        va_end(args);                                                                              \
        return hit(#name) ? fail(state.error) : __real_##name(fd, request, what);                  \
    }
POINTER_CALL(fcntl, int)
POINTER_CALL(fcntl64, int)
POINTER_CALL(ioctl, unsigned long)

#define MAP_CALL(name)                                                                             \
    void *__real_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset);   \
    void *__wrap_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset);   \
    void *__wrap_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset) {  \
        if (fd >= 0 && hit(#name)) {                                                               \
            errno = state.error;                                                                   \
            return (void *)-1;                                                                     \
        }                                                                                          \
        return __real_##name(at, size, protection, flags, fd, offset);                             \
    }
MAP_CALL(mmap)
MAP_CALL(mmap64)

/* Calls that no C library has a name for. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
#if defined(SYS_openat2)
    if (number == SYS_openat2 && lacks(WRAP_NO_OPENAT2)) {
        return fail(ENOSYS);
    }
    if (number == SYS_openat2 && hit("openat2")) {
        return fail(state.error);
    }
#endif
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#define NULL_CALL(type, name, params, args)                                                        \
    type *__real_##name params;                                                                    \
    type *__wrap_##name params;                                                                    \
    type *__wrap_##name params {                                                                   \
        if (hit(#name)) {                                                                          \
            errno = state.error;                                                                   \
            return NULL;                                                                           \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }
NULL_CALL(DIR, opendir, (const char *path), (path))
NULL_CALL(struct dirent, readdir, (DIR * dir), (dir))
NULL_CALL(struct dirent, readdir64, (DIR * dir), (dir))
NULL_CALL(char, realpath, (const char *path, char *resolved), (path, resolved))
