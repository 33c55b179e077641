/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/serve/sockets_win.c - sockets of a loopback server, random numbers and the browser on Windows.
 * Read serve.h first.
 */
#ifdef _WIN32

#define _CRT_RAND_S
#include <stdlib.h>
/* winsock2.h comes before windows.h, and shellapi.h behind it. */
#include <winsock2.h>

#include <windows.h>

#include "cli/serve/serve.h"
#include <shellapi.h>
#include <string.h>

int cli_socket_start(void) {
    WSADATA data;
    return WSAStartup(MAKEWORD(2, 2), &data);
}

static bool set_up(SOCKET s) {
    u_long on = 1;
    return ioctlsocket(s, (long)FIONBIO, &on) == 0;
}

int cli_socket_listen(cli_socket *out, uint16_t *port) {
    struct sockaddr_in address;
    int size = (int)sizeof address;
    const BOOL alone = TRUE;
    const SOCKET s = socket(AF_INET, SOCK_STREAM, 0);

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(*port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (s == INVALID_SOCKET || !set_up(s) ||
        setsockopt(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&alone, (int)sizeof alone) !=
            0 ||
        bind(s, (const struct sockaddr *)&address, size) != 0 || listen(s, 16) != 0 ||
        getsockname(s, (struct sockaddr *)&address, &size) != 0) {
        const int error = WSAGetLastError();
        if (s != INVALID_SOCKET) {
            (void)closesocket(s);
        }
        return error;
    }
    *port = ntohs(address.sin_port);
    *out = (cli_socket)s;
    return 0;
}

cli_socket cli_socket_accept(cli_socket listening) {
    const SOCKET s = accept((SOCKET)listening, NULL, NULL);

    if (s == INVALID_SOCKET) {
        const int error = WSAGetLastError();
        return error == WSAEMFILE || error == WSAENOBUFS ? CLI_SOCKET_GONE : CLI_SOCKET_AGAIN;
    }
    if (!set_up(s)) {
        (void)closesocket(s);
        return CLI_SOCKET_AGAIN;
    }
    return (cli_socket)s;
}

void cli_socket_close(cli_socket s) {
    (void)closesocket((SOCKET)s);
}

static ptrdiff_t result(int n) {
    return n >= 0 ? n : WSAGetLastError() == WSAEWOULDBLOCK ? CLI_SOCKET_AGAIN : CLI_SOCKET_GONE;
}

ptrdiff_t cli_socket_read(cli_socket s, void *to, size_t size) {
    return result(recv((SOCKET)s, to, size < INT_MAX ? (int)size : INT_MAX, 0));
}

ptrdiff_t cli_socket_write(cli_socket s, const void *from, size_t size) {
    return result(send((SOCKET)s, from, size < INT_MAX ? (int)size : INT_MAX, 0));
}

void cli_socket_wait(const cli_socket *s, const bool *write, size_t count, int ms) {
    WSAPOLLFD polled[64];
    const size_t n = count < 64 ? count : 64;

    for (size_t i = 0; i < n; i++) {
        polled[i] =
            (WSAPOLLFD){.fd = (SOCKET)s[i], .events = (SHORT)(write[i] ? POLLWRNORM : POLLRDNORM)};
    }
    (void)WSAPoll(polled, (ULONG)n, ms);
}

int cli_random(void *to, size_t size) {
    unsigned char *at = to;

    for (size_t i = 0; i < size; i++) {
        unsigned value;
        const int error = rand_s(&value);
        if (error != 0) {
            return error;
        }
        at[i] = (unsigned char)value;
    }
    return 0;
}

bool cli_browse(const char *url) {
    return (INT_PTR)ShellExecuteA(NULL, "open", url, NULL, NULL, SW_SHOWNORMAL) > 32;
}

#endif
