/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/address.h - how far an address reaches, and where a redirect may lead. Names say nothing
 * about that: every address is looked at when it is about to be connected to, and again when a
 * connection is about to be used. address.c is arithmetic on bytes; address_posix.c asks the system
 * which addresses are its own. Ranges: IANA's special-purpose registries for IPv4 and IPv6.
 */
#ifndef SFT_REMOTE_ADDRESS_H
#define SFT_REMOTE_ADDRESS_H

#include "remote/http/url.h"

struct sockaddr;

typedef enum sft__remote_reach {
    SFT__REACH_PUBLIC = 0,
    SFT__REACH_PRIVATE, /* RFC 1918, shared address space, unique local, whatever is reserved */
    SFT__REACH_LINK,    /* link-local: where clouds keep the credentials of a machine */
    SFT__REACH_SELF     /* loopback, unspecified, any address of this machine */
} sft__remote_reach;

/* Of the 4 or 16 bytes of an address. IPv4 inside IPv6 (mapped, compatible, NAT64, 6to4) counts as
 * what it is. */
sft__remote_reach sft__remote_reach_of(const uint8_t *bytes, size_t len);
/* Why a redirect from a server that reaches `from` may not lead to `to`; NULL: it may. */
const char *sft__remote_reach_refusal(sft__remote_reach from, sft__remote_reach to);

/* ---------------------------------------------------------------- address_posix.c */

/* Of an address that is about to be connected to; this machine's own addresses are SELF. One that
 * cannot be read counts as SELF. */
sft__remote_reach sft__remote_reach_sockaddr(const struct sockaddr *address);
/* Of an address as text, in any form that a resolver takes without asking anybody ("0x7f.1", "0",
 * "[::ffff:10.0.0.1]"), or of the name localhost. A zone and a dot at the end are looked past,
 * whether or not this machine has such an interface. False: it is another name. */
bool sft__remote_reach_literal(const char *host, size_t len, sft__remote_reach *reach);
/* A socket as libcurl opens it. -1: none. */
int sft__remote_socket_open(int family, int type, int protocol);

/* ---------------------------------------------------------------- proxy.c */

/* The variables that say which proxy is used for what; NULL: not set. */
typedef struct sft__remote_proxies {
    const char *given; /* the caller's, for everything */
    const char *http;
    const char *https;
    const char *no; /* hosts that are asked directly */
    bool plain;     /* http to other machines is allowed */
} sft__remote_proxies;

/* The proxy for a URL, or NULL: asked directly. no_proxy as libcurl reads it: names with everything
 * below them, addresses, networks (10.0.0.0/8), "*". Unless `plain`, http:// to this machine goes
 * through a proxy of this machine alone. */
const char *sft__remote_proxy_for(const sft__remote_proxies *p, const sft__remote_url *url);

#endif
