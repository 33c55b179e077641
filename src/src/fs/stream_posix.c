/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/stream_posix.c - see stream.h. A closed pipe would raise SIGPIPE: the signal is blocked for
 * this thread while we write, and taken out of the queue again if our write put it there. No
 * handler is touched.
 */
#ifndef _WIN32
#include "fs/stream_posix.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

void sft__fs_sigpipe_hold(sft__fs_sigpipe *s) {
    sigset_t pending;
    (void)sigemptyset(&s->set);
    (void)sigaddset(&s->set, SIGPIPE);
    (void)sigemptyset(&pending);
    (void)sigpending(&pending);
    s->was_pending = sigismember(&pending, SIGPIPE) == 1;
    s->held = pthread_sigmask(SIG_BLOCK, &s->set, &s->old) == 0;
}

void sft__fs_sigpipe_release(sft__fs_sigpipe *s, bool raised) {
    if (!s->held) {
        return;
    }
    if (raised && !s->was_pending) {
#if defined(__APPLE__)
        sigset_t pending;
        int which;
        (void)sigemptyset(&pending);
        if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) {
            (void)sigwait(&s->set, &which);
        }
#else
        static const struct timespec none = {0, 0};
        while (sigtimedwait(&s->set, NULL, &none) < 0 && errno == EINTR) {
        }
#endif
    }
    (void)pthread_sigmask(SIG_SETMASK, &s->old, NULL);
}

sft_status sft__fs_stream_init(sft__fs_stream *stream, int fd, sft_error *err) {
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "descriptor %d", fd);
    }
    stream->handle = fd;
    stream->socket = S_ISSOCK(st.st_mode);
    stream->pipe = S_ISFIFO(st.st_mode);
    return SFT_OK;
}

int sft__fs_stream_wait(int fd) {
    struct pollfd p = {fd, POLLOUT, 0};
    while (poll(&p, 1, -1) < 0) {
        if (errno != EINTR && errno != EAGAIN) {
            return -1;
        }
    }
    return 0;
}

/* One system call: bytes taken, or -1 with errno. */
static ssize_t write_some(const sft__fs_stream *stream, struct iovec *iov, int count) {
    const int fd = (int)stream->handle;
    if (stream->socket) {
        struct msghdr msg;
        memset(&msg, 0, sizeof msg);
        msg.msg_iov = iov;
        /* its type differs between systems: size_t, int, socklen_t */
        msg.msg_iovlen = 0;
        for (int i = 0; i < count; i++) {
            msg.msg_iovlen++;
        }
        return sendmsg(fd, &msg, MSG_NOSIGNAL);
    }
#if defined(__APPLE__) /* calls of 2 GiB and more are refused there */
    return write(fd, iov[0].iov_base, iov[0].iov_len < 1u << 30 ? iov[0].iov_len : 1u << 30);
#else
    return count == 1 ? write(fd, iov[0].iov_base, iov[0].iov_len) : writev(fd, iov, count);
#endif
}

static int write_all(const sft__fs_stream *stream, struct iovec *iov, int count) {
    int at = 0;
    while (at < count) {
        if (iov[at].iov_len == 0) {
            at++;
            continue;
        }
        const ssize_t n = write_some(stream, iov + at, count - at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (sft__fs_stream_wait((int)stream->handle) != 0) {
                return -1;
            }
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return -1;
        }
        for (size_t done = (size_t)n; done > 0;) {
            const size_t part = done < iov[at].iov_len ? done : iov[at].iov_len;
            iov[at].iov_base = (char *)iov[at].iov_base + part;
            iov[at].iov_len -= part;
            done -= part;
            at += iov[at].iov_len == 0 ? 1 : 0;
        }
    }
    return 0;
}

sft_status sft__fs_stream_write(const sft__fs_stream *stream, const sft__fs_span *parts,
                                size_t count, sft_error *err) {
    enum { BATCH = 128 };
    sft__fs_sigpipe guard;
    int cause = 0;

    if (stream->pipe) {
        sft__fs_sigpipe_hold(&guard);
    }
    for (size_t i = 0; i < count && cause == 0;) {
        struct iovec iov[BATCH];
        int n = 0;
        for (; i < count && n < BATCH; i++, n++) {
            /* iovec knows no const */
            memcpy(&iov[n].iov_base, &parts[i].data, sizeof iov[n].iov_base);
            iov[n].iov_len = parts[i].size;
        }
        if (write_all(stream, iov, n) != 0) {
            cause = errno;
        }
    }
    if (stream->pipe) {
        sft__fs_sigpipe_release(&guard, cause == EPIPE);
    }
    if (cause != 0) {
        return sft__base_fail_sys(err, SFT_E_IO, cause,
                                  "cannot write to the stream (descriptor %d)",
                                  (int)stream->handle);
    }
    return SFT_OK;
}

sft_status sft__fs_stream_file(int fd, sft__fs_handle *out, sft_error *err) {
    struct stat st;
    const int flags = fcntl(fd, F_GETFL);

    *out = SFT__FS_NO_HANDLE;
    if (flags < 0 || fstat(fd, &st) != 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "descriptor %d", fd);
    }
    if (!S_ISREG(st.st_mode)) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR,
                              "descriptor %d is no regular file: use a stream", fd);
    }
    if ((flags & O_APPEND) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "descriptor %d appends: it cannot write at positions",
                              fd);
    }
    *out = fd;
    return SFT_OK;
}
#else
typedef int sft__fs_stream_posix_empty;
#endif
