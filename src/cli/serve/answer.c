/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/serve/answer.c - what is answered to a request: strict, and about the little that HTTP/1.1 (RFC 9112)
 * asks of a server of a few files. Read serve.h first.
 */
#include "cli/serve/serve.h"
#include <stdio.h>
#include <string.h>

typedef struct span {
    const char *at;
    size_t len;
} span;

bool cli_request_complete(const char *request, size_t size) {
    for (size_t i = 3; i < size; i++) {
        if (memcmp(request + i - 3, "\r\n\r\n", 4) == 0) {
            return true;
        }
    }
    return false;
}

static bool is(span s, const char *text) {
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static char lower(char c) {
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Without regard to case; text: of lower case. */
static bool is_field(span name, const char *text) {
    bool same = name.len == strlen(text);
    for (size_t i = 0; same && i < name.len; i++) {
        same = lower(name.at[i]) == text[i];
    }
    return same;
}

/* The next line without its end; false: none. */
static bool next_line(span *rest, span *line) {
    for (size_t i = 1; i < rest->len; i++) {
        if (rest->at[i - 1] == '\r' && rest->at[i] == '\n') {
            *line = (span){rest->at, i - 1};
            rest->at += i + 1;
            rest->len -= i + 1;
            return true;
        }
    }
    return false;
}

/* Text up to a blank, which is taken away. */
static span word(span *line) {
    const char *blank = memchr(line->at, ' ', line->len);
    const size_t len = blank != NULL ? (size_t)(blank - line->at) : line->len;
    const span s = {line->at, len};

    line->at += len + (blank != NULL);
    line->len -= len + (blank != NULL);
    return s;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static span trimmed(span s) {
    while (s.len > 0 && is_blank(s.at[0])) {
        s.at++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.at[s.len - 1])) {
        s.len--;
    }
    return s;
}

/* Does the path begin with the token? In a time that does not tell how much of it is right. */
static bool is_token(const cli_site *site, span path) {
    const size_t len = strlen(site->token);
    unsigned differ = 0;

    if (path.len < len + 2 || path.at[0] != '/' || path.at[len + 1] != '/') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        differ |= (unsigned char)path.at[i + 1] ^ (unsigned char)site->token[i];
    }
    return differ == 0;
}

/* What follows a question mark is the page's own. */
static const cli_served *served_at(const cli_site *site, span path) {
    const size_t before = strlen(site->token) + 2;
    const char *query = memchr(path.at, '?', path.len);

    path.len = query != NULL ? (size_t)(query - path.at) : path.len;
    for (size_t i = 0; i < site->count && is_token(site, path); i++) {
        if (is((span){path.at + before, path.len - before}, site->files[i].name)) {
            return &site->files[i];
        }
    }
    return NULL;
}

/* "127.0.0.1:PORT" or "localhost:PORT", behind "http://" if `origin`; a port of 80 need not be said. */
static bool is_here(const cli_site *site, span s, bool origin) {
    char text[64];

    for (size_t i = 0; i < 2; i++) {
        const int host = snprintf(text, sizeof text, "%s%s", origin ? "http://" : "",
                                  i == 0 ? "127.0.0.1" : "localhost");
        if (site->port == 80 && is_field(s, text)) {
            return true;
        }
        (void)snprintf(text + host, sizeof text - (size_t)host, ":%u", (unsigned)site->port);
        if (is_field(s, text)) {
            return true;
        }
    }
    return false;
}

static void answer(cli_answer_of *a, const char *status, const cli_served *body) {
    const int n = snprintf(
        a->head, sizeof a->head,
        "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %llu\r\n%s"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        "Content-Security-Policy: frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n"
        "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"
        "Connection: close\r\n\r\n",
        status, body->type, (unsigned long long)body->size,
        strncmp(status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "");

    a->head_size = n > 0 && (size_t)n < sizeof a->head ? (size_t)n : 0;
    a->body = body->data;
    a->body_size = body->size;
}

static void refuse(cli_answer_of *a, const char *status) {
    const size_t size = strlen(status);

    answer(a, status, &(cli_served){NULL, "text/plain; charset=utf-8", NULL, size});
    a->body = status;
}

/* The fields; NULL, or the status with which the request is refused. */
static const char *judge_fields(const cli_site *site, span rest) {
    span line;
    size_t hosts = 0;

    while (next_line(&rest, &line) && line.len > 0) {
        const char *colon = memchr(line.at, ':', line.len);
        if (colon == NULL || colon == line.at || is_blank(line.at[0]) || is_blank(colon[-1])) {
            return "400 Bad Request";
        }
        const span name = {line.at, (size_t)(colon - line.at)};
        const span value = trimmed((span){colon + 1, line.len - name.len - 1});
        if (is_field(name, "host")) {
            hosts++;
            if (!is_here(site, value, false)) {
                return "421 Misdirected Request"; /* a name of somebody's that leads here */
            }
        } else if (is_field(name, "origin") && !is_here(site, value, true)) {
            return "403 Forbidden";
        } else if (is_field(name, "sec-fetch-site") && !is(value, "none") &&
                   !is(value, "same-origin")) {
            return "403 Forbidden";
        } else if (is_field(name, "transfer-encoding") ||
                   (is_field(name, "content-length") && !is(value, "0"))) {
            return "413 Content Too Large";
        }
    }
    return hosts == 1 ? NULL : "400 Bad Request";
}

void cli_answer_request(cli_answer_of *a, const cli_site *site, const char *request, size_t size) {
    span rest = {request, size};
    span line = {request, 0};

    if (!cli_request_complete(request, size)) {
        refuse(a, "431 Request Header Fields Too Large");
        return;
    }
    (void)next_line(&rest, &line);
    const span method = word(&line);
    const span path = word(&line);
    const cli_served *served = served_at(site, path);
    const bool version = is(line, "HTTP/1.1") || is(line, "HTTP/1.0");
    const char *refused = version ? judge_fields(site, rest) : "400 Bad Request";
    if (refused != NULL) {
        refuse(a, refused);
    } else if (!is(method, "GET") && !is(method, "HEAD")) {
        refuse(a, "405 Method Not Allowed");
    } else if (served == NULL) {
        refuse(a, "404 Not Found");
    } else {
        answer(a, "200 OK", served);
    }
    if (is(method, "HEAD")) {
        a->body_size = 0;
    }
}
