/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/url.c - see url.h.
 */
#include "remote/http/url.h"
#include "base/text/buf.h"
#include <string.h>

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool starts_with(const char *text, const char *start) {
    for (; *start != '\0'; text++, start++) {
        if (lower(*text) != *start) {
            return false;
        }
    }
    return true;
}

/* Printable ASCII without blanks, and nothing that some client would read as another delimiter. */
static bool plain(const char *text) {
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c <= 0x20 || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' || c == '#') {
            return false;
        }
    }
    return true;
}

static bool parse_port(const char *p, const char *end, uint32_t *port) {
    uint32_t value = 0;
    if (p == end) {
        return false;
    }
    for (; p < end; p++) {
        if (*p < '0' || *p > '9' || value > 65535) {
            return false;
        }
        value = value * 10 + (uint32_t)(*p - '0');
    }
    *port = value;
    return value > 0 && value <= 65535;
}

/* host[:port] */
static bool parse_authority(sft__remote_url *u, const char *p, const char *end) {
    const char *host_end = p;

    if (p < end && *p == '[') {
        while (host_end < end && *host_end != ']') {
            host_end++;
        }
        if (host_end == end) {
            return false;
        }
        host_end++;
    } else {
        while (host_end < end && *host_end != ':') {
            host_end++;
        }
    }
    u->host = p;
    u->host_len = (size_t)(host_end - p);
    u->port = u->https ? 443 : 80;
    if (u->host_len == 0 || u->host_len > 255) {
        return false;
    }
    return host_end == end || (*host_end == ':' && parse_port(host_end + 1, end, &u->port));
}

bool sft__remote_url_parse(sft__remote_url *out, const char *text) {
    const char *p = text;

    memset(out, 0, sizeof *out);
    out->https = starts_with(text, "https://");
    if ((!out->https && !starts_with(text, "http://")) || !plain(text)) {
        return false;
    }
    p += out->https ? 8 : 7;
    const size_t authority = strcspn(p, "/?");
    if (memchr(p, '@', authority) != NULL || !parse_authority(out, p, p + authority)) {
        return false;
    }
    out->path = p + authority;
    out->path_len = strcspn(out->path, "?");
    out->query = out->path + out->path_len;
    out->query_len = strlen(out->query);
    return true;
}

bool sft__remote_url_same_origin(const sft__remote_url *a, const sft__remote_url *b) {
    if (a->https != b->https || a->port != b->port || a->host_len != b->host_len) {
        return false;
    }
    for (size_t i = 0; i < a->host_len; i++) {
        if (lower(a->host[i]) != lower(b->host[i])) {
            return false;
        }
    }
    return true;
}

/* 127.a.b.c and nothing else: "127.0.0.1.example.org" is somewhere else. */
static bool is_127(const char *host, size_t len) {
    size_t dots = 0;
    size_t digits = 0;

    if (len < 9 || memcmp(host, "127.", 4) != 0) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (host[i] == '.') {
            dots++;
            digits = 0;
        } else if (host[i] < '0' || host[i] > '9' || ++digits > 3) {
            return false;
        }
    }
    return dots == 3 && digits > 0;
}

bool sft__remote_url_loopback(const sft__remote_url *u) {
    return (u->host_len == 9 && starts_with(u->host, "localhost")) ||
           (u->host_len == 5 && memcmp(u->host, "[::1]", 5) == 0) || is_127(u->host, u->host_len);
}

/* How much stands before the host, "://" included; skip: of "user:password@" behind that. In
 * hf://REPO@REVISION there is none, but who writes a login before the first slash means one. */
static size_t before_host(const char *url, size_t *skip) {
    const bool hub = starts_with(url, "hf://");
    const size_t slash = strcspn(url, "/?#"); /* a "://" behind it is the query's, or a path's */
    const bool host =
        (hub || starts_with(url, "http")) && slash > 0 && strncmp(url + slash - 1, "://", 3) == 0;
    const size_t scheme = host ? slash + 2 : 0;
    const size_t authority = host ? strcspn(url + scheme, "/?#") : 0;

    bool colon = !hub;
    *skip = 0;
    for (size_t i = 0; i < authority; i++) {
        colon = colon || url[scheme + i] == ':';
        *skip = url[scheme + i] == '@' && colon ? i + 1 : *skip;
    }
    return scheme;
}

bool sft__remote_url_has_login(const char *url) {
    size_t skip;
    (void)before_host(url, &skip);
    return skip > 0;
}

/* As far as the query; a "?" that was made part of a path (hf://REPO/FILE?x) begins one too. */
static size_t before_query(const char *text) {
    size_t n = 0;
    while (text[n] != '\0' && text[n] != '?' && text[n] != '#' &&
           (text[n] != '%' || text[n + 1] != '3' || (text[n + 2] | 0x20) != 'f')) {
        n++;
    }
    return n;
}

void sft__remote_url_show(char *dst, size_t cap, const char *url) {
    size_t skip;
    const size_t scheme = before_host(url, &skip);
    const size_t len = before_query(url + scheme + skip) + scheme;
    const size_t room = cap - 1;
    size_t n = len < room ? len : room;

    memcpy(dst, url, scheme < n ? scheme : n);
    if (n > scheme) {
        memcpy(dst + scheme, url + scheme + skip, n - scheme);
    }
    if (len > room) {
        memcpy(dst + room - 3, "...", 3);
    }
    for (size_t i = 0; i < n;
         i++) { /* escaped by whoever prints it; here only what breaks a line */
        dst[i] = (unsigned char)dst[i] < 0x20 || dst[i] == 0x7f ? '_' : dst[i];
    }
    dst[n] = '\0';
}

/* Parameters that sign a URL: AWS, Google, Azure, CloudFront, and tokens by their plain names. */
static bool signs(const char *name, size_t len) {
    static const char *const starts[] = {"x-amz-", "x-goog-", "x-xet-"};
    static const char *const names[] = {"signature",
                                        "expires",
                                        "policy",
                                        "key-pair-id",
                                        "awsaccesskeyid",
                                        "googleaccessid",
                                        "token",
                                        "access_token",
                                        "sv",
                                        "se",
                                        "st",
                                        "sr",
                                        "sp",
                                        "sig",
                                        "spr",
                                        "sip",
                                        "ss",
                                        "srt",
                                        "skoid",
                                        "sktid",
                                        "skt",
                                        "ske",
                                        "sks",
                                        "skv"};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (len >= strlen(starts[i]) && starts_with(name, starts[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (len == strlen(names[i]) && starts_with(name, names[i])) {
            return true;
        }
    }
    return false;
}

bool sft__remote_url_signed(const char *url) {
    for (const char *p = strchr(url, '?'); p != NULL; p = strchr(p + 1, '&')) {
        if (signs(p + 1, strcspn(p + 1, "=&"))) {
            return true;
        }
    }
    return false;
}

void sft__remote_url_stable(sft__base_buf *b, const char *url) {
    const size_t end = strcspn(url, "?");
    const char *p = url + end;
    char mark = '?';

    sft__base_buf_add(b, url, end);
    while (*p != '\0') {
        const char *name = p + 1;
        const size_t len = strcspn(name, "&");
        if (!signs(name, strcspn(name, "=&"))) {
            sft__base_buf_add(b, &mark, 1);
            sft__base_buf_add(b, name, len);
            mark = '&';
        }
        p = name + len;
    }
}

void sft__remote_url_beside(sft__base_buf *b, const char *base, const char *name) {
    const size_t end = strcspn(base, "?#");
    size_t directory = end;

    while (directory > 0 && base[directory - 1] != '/') {
        directory--;
    }
    sft__base_buf_add(b, base, directory);
    sft__base_buf_url(b, name, strlen(name), true);
    sft__base_buf_text(b, base + end);
}

/* Parts between '/', none "." or "..", none empty unless `empty`, no control characters or
 * backslashes. */
static bool parts_are_good(const char *text, size_t len, bool empty) {
    size_t start = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && ((unsigned char)text[i] < 0x20 || text[i] == 0x7f || text[i] == '\\')) {
            return false;
        }
        if (i == len || text[i] == '/') {
            const size_t n = i - start;
            if ((n == 0 && !empty) || (n == 1 && text[start] == '.') ||
                (n == 2 && text[start] == '.' && text[start + 1] == '.')) {
                return false;
            }
            start = i + 1;
        }
    }
    return true;
}

static bool good_parts(const char *text, size_t len) {
    return parts_are_good(text, len, false);
}

static bool plain_name(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
              c == '-' || c == '_' || c == '.' || c == '/')) {
            return false;
        }
    }
    return len > 0;
}

/* "main", "refs/pr/7", a commit: the parts that belong to a revision. */
static size_t revision_length(const char *p) {
    const size_t one = strcspn(p, "/");
    if (one == 4 && memcmp(p, "refs", 4) == 0 && p[one] == '/') {
        const size_t two = strcspn(p + 5, "/");
        if (p[5 + two] == '/') {
            return 5 + two + 1 + strcspn(p + 5 + two + 1, "/");
        }
    }
    return one;
}

size_t sft__remote_url_decode(char *dst, const char *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const bool escape = text[i] == '%' && len - i >= 3 &&
                            sft__base_hex_value(text[i + 1]) >= 0 &&
                            sft__base_hex_value(text[i + 2]) >= 0;
        dst[n++] =
            escape
                ? (char)(sft__base_hex_value(text[i + 1]) * 16 + sft__base_hex_value(text[i + 2]))
                : text[i];
        i += escape ? 2 : 0;
    }
    return n;
}

static bool good_revision(const char *text, size_t len) {
    char plain[SFT__REVISION_MAX];
    return len <= sizeof plain && good_parts(plain, sft__remote_url_decode(plain, text, len));
}

bool sft__remote_hub_url_parse(sft__remote_hub_url *out, const char *text) {
    static const char *const kinds[] = {"models", "datasets", "spaces"};
    const char *p = text;
    size_t kind = 0;

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < 3; i++) {
        const size_t len = strlen(kinds[i]);
        if (strncmp(text, kinds[i], len) == 0 && text[len] == '/') {
            kind = i;
            p = text + len + 1;
        }
    }
    out->kind = kinds[kind];
    out->repo = p;
    p += strcspn(p, "/@");
    if (*p == '/') { /* ORG/REPO; without a slash it is one of the old models that have no ORG */
        p++;
        p += strcspn(p, "/@");
    }
    out->repo_len = (size_t)(p - out->repo);
    out->revision = "main";
    out->revision_len = 4;
    if (*p == '@') {
        out->revision = ++p;
        out->revision_len = revision_length(p);
        p += out->revision_len;
    }
    if (*p == '/' && p[1] != '\0') {
        out->file = p + 1;
    }
    return plain_name(out->repo, out->repo_len) && good_parts(out->repo, out->repo_len) &&
           out->repo_len <= 256 && good_revision(out->revision, out->revision_len) &&
           (out->file == NULL || good_parts(out->file, strlen(out->file)));
}

bool sft__remote_s3_url_parse(const char *text, const char **bucket, size_t *bucket_len,
                              const char **key) {
    *bucket = text;
    *bucket_len = strcspn(text, "/");
    *key = text + *bucket_len + (text[*bucket_len] == '/' ? 1 : 0);
    return plain_name(*bucket, *bucket_len) && *bucket_len <= 255 && **key != '\0' &&
           parts_are_good(*key, strlen(*key), true);
}

void sft__remote_url_base(const char *url, const char **name, size_t *len) {
    const size_t end = strcspn(url, "?#");
    size_t start = end;
    while (start > 0 && url[start - 1] != '/') {
        start--;
    }
    *name = url + start;
    *len = end - start;
}

bool sft__remote_url_is_json(const char *url) {
    const char *name;
    size_t len;
    sft__remote_url_base(url, &name, &len);
    return len > 5 && memcmp(name + len - 5, ".json", 5) == 0;
}
