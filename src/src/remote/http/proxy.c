/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/proxy.c - which URL goes through which proxy. libcurl would decide by itself, but would
 * not say how: whoever checks addresses must know whether one is the server's or the proxy's.
 * Source: curl's manual, "PROXIES", and lib/noproxy.c for what no_proxy means. Read first:
 * address.h.
 */
#include "remote/http/address.h"
#include <string.h>

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool same(const char *a, const char *b, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (lower(a[i]) != lower(b[i])) {
            return false;
        }
    }
    return true;
}

/* Dotted decimal alone; 4 bytes. */
static bool plain_4(const char *text, size_t len, uint8_t bytes[4]) {
    size_t part = 0;
    uint32_t value = 0;
    size_t digits = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] >= '0' && text[i] <= '9' && digits < 3) {
            value = value * 10 + (uint32_t)(text[i] - '0');
            digits++;
        } else if ((i == len ? part == 3 : text[i] == '.' && part < 3) && digits > 0 &&
                   value < 256) {
            bytes[part++] = (uint8_t)value;
            value = 0;
            digits = 0;
        } else {
            return false;
        }
    }
    return part == 4;
}

/* "10.0.0.0/8" and an address in it. */
static bool in_network(const char *rule, size_t len, const char *host, size_t host_len) {
    const char *slash = memchr(rule, '/', len);
    uint8_t network[4];
    uint8_t address[4];
    uint32_t bits = 0;

    if (slash == NULL || slash + 1 == rule + len || slash + 3 < rule + len ||
        !plain_4(rule, (size_t)(slash - rule), network) || !plain_4(host, host_len, address)) {
        return false;
    }
    for (const char *p = slash + 1; p < rule + len; p++) {
        if (*p < '0' || *p > '9') {
            return false;
        }
        bits = bits * 10 + (uint32_t)(*p - '0');
    }
    for (uint32_t i = 0; i < bits && i < 32; i++) {
        if (((network[i / 8] ^ address[i / 8]) & (0x80u >> (i % 8))) != 0) {
            return false;
        }
    }
    return bits <= 32;
}

static bool matches(const char *rule, size_t len, const char *host, size_t host_len) {
    while (len > 0 && rule[0] == '.') {
        rule++;
        len--;
    }
    if (len > 0 && rule[len - 1] == '.') {
        len--;
    }
    if (host_len > 0 && host[host_len - 1] == '.') {
        host_len--;
    }
    if (host_len >= 2 && host[0] == '[') {
        host++;
        host_len -= 2;
    }
    if (len == 0 || len > host_len) {
        return in_network(rule, len, host, host_len);
    }
    if (same(host + host_len - len, rule, len) &&
        (len == host_len || host[host_len - len - 1] == '.')) {
        uint8_t address[4]; /* of an address the whole must be equal */
        return len == host_len || !plain_4(host, host_len, address);
    }
    return in_network(rule, len, host, host_len);
}

static bool excepted(const char *no, const sft__remote_url *url) {
    if (no == NULL) {
        return false;
    }
    if (strcmp(no, "*") == 0) {
        return true;
    }
    while (*no != '\0') {
        const size_t skip = strspn(no, ", \t");
        const size_t len = strcspn(no + skip, ", \t");
        if (len > 0 && matches(no + skip, len, url->host, url->host_len)) {
            return true;
        }
        no += skip + len;
    }
    return false;
}

/* [scheme://][user:password@]host[:port][/...]; a name that only a resolver knows is no address. */
static bool is_here(const char *proxy) {
    const char *scheme = strstr(proxy, "://");
    const char *host = scheme != NULL ? scheme + 3 : proxy;
    size_t len = strcspn(host, "/?#");
    sft__remote_reach reach;

    for (size_t i = len; i > 0; i--) {
        if (host[i - 1] == '@') {
            host += i;
            len -= i;
            break;
        }
    }
    const size_t end = len > 0 && host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    return end <= len && sft__remote_reach_literal(host, end, &reach) && reach == SFT__REACH_SELF;
}

const char *sft__remote_proxy_for(const sft__remote_proxies *p, const sft__remote_url *url) {
    const char *proxy = p->given != NULL ? p->given : url->https ? p->https : p->http;

    if (proxy == NULL || proxy[0] == '\0' || excepted(p->no, url)) {
        return NULL;
    }
    /* Unencrypted to this machine is not through another one, which would be asked for its own. */
    return !url->https && !p->plain && sft__remote_url_loopback(url) && !is_here(proxy) ? NULL
                                                                                        : proxy;
}
