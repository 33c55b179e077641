/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/multipart.c - see parts.h. Grammar: RFC 2046, section 5.1.1, of which only what servers
 * send is taken: no preamble but empty lines, each part with a Content-Range, its data exactly as
 * long as that says, a delimiter behind it. What follows the closing delimiter is passed over.
 */
#include "remote/http/multipart.h"
#include "remote/http/response.h"
#include <string.h>

enum { BEFORE = 0, HEAD, DATA, AFTER, DELIMITER, ENDED };

void sft__remote_multipart_init(sft__remote_multipart *p, const char *boundary, uint64_t total,
                                uint64_t stop, size_t most) {
    memset(p, 0, sizeof *p);
    p->boundary = boundary;
    p->boundary_len = strlen(boundary);
    p->total = total;
    p->stop = stop;
    p->most = most;
}

bool sft__remote_multipart_ended(const sft__remote_multipart *p) {
    return p->fault == NULL && p->state == ENDED;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool begins(const char *text, size_t len, const char *wanted) {
    const size_t n = strlen(wanted);
    for (size_t i = 0; i < n; i++) {
        if (i >= len || lower(text[i]) != wanted[i]) {
            return false;
        }
    }
    return true;
}

static void head_line(sft__remote_multipart *p, uint64_t expected) {
    static const char name[] = "content-range:";
    const char *value = p->line + sizeof name - 1;
    sft__remote_response r;

    if (p->line_len == 0) {
        if (!p->ranged) {
            p->fault = "a part has no Content-Range";
        }
        p->left = p->next_end - p->at;
        p->state = DATA;
        return;
    }
    if (!begins(p->line, p->line_len, name)) {
        return;
    }
    size_t len = p->line_len - (sizeof name - 1);
    while (len > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        len--;
    }
    sft__remote_response_init(&r);
    if (p->ranged) {
        p->fault = "a part has two Content-Range fields";
    } else if (!sft__remote_content_range(value, len, &r) || !r.has_range) {
        p->fault = "the Content-Range of a part makes no sense";
    } else if (r.has_total && r.total != p->total) {
        p->fault = "the Content-Range of a part tells another size";
    } else if (r.first != expected || r.last >= p->stop) {
        p->fault = "a part is not the one that was asked for next";
    } else {
        p->ranged = true;
        p->at = r.first;
        p->next_end = r.last + 1; /* at most stop */
    }
}

static void delimiter_line(sft__remote_multipart *p) {
    const size_t n = p->boundary_len;

    if (p->line_len >= n + 2 && memcmp(p->line, "--", 2) == 0 &&
        memcmp(p->line + 2, p->boundary, n) == 0) {
        if (p->line_len == n + 2) {
            p->state = HEAD;
            p->ranged = false;
            p->head_len = 0;
            p->fault = p->most-- == 0 ? "it has more parts than were asked for" : NULL;
            return;
        }
        if (p->line_len == n + 4 && memcmp(p->line + n + 2, "--", 2) == 0) {
            p->state = ENDED;
            return;
        }
    }
    p->fault = "where a part should begin or end there is no boundary";
}

/* A whole line, its end cut off. */
static void one_line(sft__remote_multipart *p, uint64_t expected) {
    switch (p->state) {
    case HEAD:
        head_line(p, expected);
        break;
    case AFTER: /* the line end that belongs to the delimiter */
        p->state = DELIMITER;
        p->fault = p->line_len != 0 ? "a part is longer than its Content-Range" : NULL;
        break;
    case BEFORE:
        if (p->line_len != 0) {
            delimiter_line(p);
        }
        break;
    default:
        delimiter_line(p);
    }
    p->line_len = 0;
}

/* One byte of a line. */
static void line_byte(sft__remote_multipart *p, char c, uint64_t expected) {
    if (++p->head_len > SFT__PART_HEAD) {
        p->fault = "the head of a part is longer than 2 KiB";
    } else if (c != '\n') {
        if (p->line_len == SFT__PART_LINE) {
            p->fault = "a line in the head of a part is longer than 256 bytes";
        } else {
            p->line[p->line_len++] = c;
        }
    } else {
        while (p->line_len > 0 &&
               (p->line[p->line_len - 1] == '\r' || p->line[p->line_len - 1] == ' ')) {
            p->line_len--;
        }
        one_line(p, expected);
    }
}

bool sft__remote_multipart_next(sft__remote_multipart *p, uint64_t expected, const uint8_t **data,
                                size_t *len, sft__remote_slice *out) {
    while (*len > 0 && p->fault == NULL) {
        if (p->state == ENDED) {
            *data += *len;
            *len = 0;
        } else if (p->state == DATA) {
            const size_t n = p->left < *len ? (size_t)p->left : *len;
            *out = (sft__remote_slice){p->at, *data, n};
            *data += n;
            *len -= n;
            p->at += n;
            p->left -= n;
            if (p->left == 0) {
                p->state = AFTER;
                p->head_len = 0;
            }
            return true;
        } else {
            const char c = (char)**data;
            ++*data;
            --*len;
            line_byte(p, c, expected);
        }
    }
    return false;
}

/* ---------------------------------------------------------------- Content-Type */

static bool boundary_char(char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
           (c != '\0' && strchr("'()+_,-./:=?", c) != NULL);
}

bool sft__remote_multipart_boundary(const char *value, size_t len,
                                    char boundary[SFT__BOUNDARY_MAX + 1]) {
    static const char type[] = "multipart/byteranges";
    const char *end = value + len;
    const char *p = value + sizeof type - 1;
    size_t n = 0;

    boundary[0] = '\0';
    if (!begins(value, len, type)) {
        return false;
    }
    for (;;) { /* parameters, none of which but the boundary may be quoted */
        while (p < end && (*p == ' ' || *p == '\t')) {
            p++;
        }
        if (p == end || *p++ != ';') {
            return false;
        }
        while (p < end && (*p == ' ' || *p == '\t')) {
            p++;
        }
        if (begins(p, (size_t)(end - p), "boundary=")) {
            break;
        }
        while (p < end && *p != ';' && *p != '"') {
            p++;
        }
    }
    p += sizeof "boundary=" - 1;
    const bool quoted = p < end && *p == '"';
    p += quoted ? 1 : 0;
    while (p < end && n < SFT__BOUNDARY_MAX && boundary_char(*p)) {
        boundary[n++] = *p++;
    }
    boundary[n] = '\0';
    const bool closed = quoted ? p < end && *p == '"' : p == end || *p == ';' || *p == ' ';
    if (n == 0 || !closed) {
        boundary[0] = '\0';
        return false;
    }
    return true;
}
