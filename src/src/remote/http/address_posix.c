/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/address_posix.c - addresses as the system has them. Nothing here asks a resolver or sends
 * a byte. Read first: address.h.
 */
#include "remote/http/address.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static size_t address_bytes(const struct sockaddr *address, uint8_t bytes[16]) {
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        memcpy(bytes, &in.sin_addr, 4);
        return 4;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, address, sizeof in);
        memcpy(bytes, &in.sin6_addr, 16);
        return 16;
    }
    return 0;
}

/* What is sent to an address of one's own is sent from that address: the route says so, and
 * connecting a datagram socket asks for the route alone. */
static bool is_own(const struct sockaddr *address, const uint8_t *bytes, size_t len) {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } to, from;
    uint8_t mine[16] = {0};
    socklen_t size = sizeof from;

    memset(&to, 0, sizeof to);
    memcpy(&to, address, len == 4 ? sizeof to.in : sizeof to.in6);
    if (len == 4) {
        to.in.sin_port = htons(9);
    } else {
        to.in6.sin6_port = htons(9);
    }
    const int fd = sft__remote_socket_open(address->sa_family, SOCK_DGRAM, 0);
    if (fd < 0) {
        return false;
    }
    const bool own =
        connect(fd, &to.any, len == 4 ? (socklen_t)sizeof to.in : (socklen_t)sizeof to.in6) == 0 &&
        getsockname(fd, &from.any, &size) == 0 && address_bytes(&from.any, mine) == len &&
        memcmp(mine, bytes, len) == 0;
    (void)close(fd);
    return own;
}

sft__remote_reach sft__remote_reach_sockaddr(const struct sockaddr *address) {
    uint8_t bytes[16] = {0};
    const size_t len = address_bytes(address, bytes);
    const sft__remote_reach reach = sft__remote_reach_of(bytes, len);

    return reach != SFT__REACH_SELF && is_own(address, bytes, len) ? SFT__REACH_SELF : reach;
}

static bool is_localhost(const char *host, size_t len) {
    static const char name[] = "localhost";
    const size_t n = sizeof name - 1;

    if (len < n || (len > n && host[len - n - 1] != '.')) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if ((host[len - n + i] | 0x20) != name[i]) {
            return false;
        }
    }
    return true;
}

bool sft__remote_reach_literal(const char *host, size_t len, sft__remote_reach *reach) {
    struct addrinfo hints;
    struct addrinfo *found = NULL;
    char text[256];

    while (len > 1 && host[len - 1] == '.') { /* of a name the root: a proxy may look past it */
        len--;
    }
    if (is_localhost(host, len)) {
        *reach = SFT__REACH_SELF;
        return true;
    }
    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
        const char *zone = memchr(host, '%', len); /* says by which interface, not how far */
        len = zone != NULL ? (size_t)(zone - host) : len;
    }
    if (len == 0 || len >= sizeof text) {
        return false;
    }
    memcpy(text, host, len);
    text[len] = '\0';
    memset(&hints, 0, sizeof hints);
    hints.ai_flags = AI_NUMERICHOST;
    if (getaddrinfo(text, NULL, &hints, &found) != 0 || found == NULL) {
        return false;
    }
    *reach = sft__remote_reach_sockaddr(found->ai_addr);
    freeaddrinfo(found);
    return true;
}

int sft__remote_socket_open(int family, int type, int protocol) {
    const int fd = socket(family, type, protocol);
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
}
