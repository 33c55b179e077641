/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/serve/sockets_posix.c - sockets of a loopback server, random numbers and the browser on POSIX
 * systems. Read serve.h first.
 */
#ifndef _WIN32

#include "cli/serve/serve.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int cli_socket_start(void) {
    (void)signal(SIGPIPE, SIG_IGN); /* a browser that ends early is told by the write */
    return 0;
}

static bool set_up(int s) {
    const int flags = fcntl(s, F_GETFL);
    return flags >= 0 && fcntl(s, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(s, F_SETFD, FD_CLOEXEC) == 0;
}

int cli_socket_listen(cli_socket *out, uint16_t *port) {
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(*port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (s < 0 || !set_up(s) || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(s, (const struct sockaddr *)&address, size) != 0 || listen(s, 16) != 0 ||
        getsockname(s, (struct sockaddr *)&address, &size) != 0) {
        const int error = errno;
        if (s >= 0) {
            (void)close(s);
        }
        return error;
    }
    *port = ntohs(address.sin_port);
    *out = s;
    return 0;
}

cli_socket cli_socket_accept(cli_socket listening) {
    const int s = accept((int)listening, NULL, NULL);

    if (s < 0) {
        return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM
                   ? CLI_SOCKET_GONE
                   : CLI_SOCKET_AGAIN;
    }
    if (!set_up(s)) {
        (void)close(s);
        return CLI_SOCKET_AGAIN;
    }
    return s;
}

void cli_socket_close(cli_socket s) {
    (void)close((int)s);
}

static ptrdiff_t result(ssize_t n) {
    return n >= 0                                                      ? n
           : errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? CLI_SOCKET_AGAIN
                                                                       : CLI_SOCKET_GONE;
}

ptrdiff_t cli_socket_read(cli_socket s, void *to, size_t size) {
    return result(recv((int)s, to, size, 0));
}

ptrdiff_t cli_socket_write(cli_socket s, const void *from, size_t size) {
    return result(send((int)s, from, size, 0));
}

void cli_socket_wait(const cli_socket *s, const bool *write, size_t count, int ms) {
    struct pollfd polled[64];
    const size_t n = count < 64 ? count : 64;

    for (size_t i = 0; i < n; i++) {
        polled[i] =
            (struct pollfd){.fd = (int)s[i], .events = (short)(write[i] ? POLLOUT : POLLIN)};
    }
    (void)poll(polled, (nfds_t)n, ms);
}

int cli_random(void *to, size_t size) {
    unsigned char *at = to;
    const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    int error = fd < 0 ? errno : 0;

    while (size > 0 && error == 0) {
        const ssize_t n = read(fd, at, size);
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            error = n == 0 ? EIO : errno;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return error;
}

bool cli_browse(const char *url) {
#ifdef __APPLE__
    static const char program[] = "open";
#else
    static const char program[] = "xdg-open";
    if (getenv("DISPLAY") == NULL && getenv("WAYLAND_DISPLAY") == NULL) {
        return false;
    }
#endif
    int status = 1;
    const pid_t child = fork();

    if (child == 0) { /* its own child, so that nobody waits for the browser */
        const pid_t browser = fork();
        if (browser == 0) {
            const int null = open("/dev/null", O_RDWR);
            if (null >= 0) {
                (void)dup2(null, 0);
                (void)dup2(null, 1);
                (void)dup2(null, 2);
            }
            (void)execlp(program, program, url, (char *)NULL);
            _exit(127);
        }
        _exit(browser < 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

#endif
