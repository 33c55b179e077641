/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/response.c - see response.h. Grammar: RFC 9110, sections 5.6.7 (dates), 8.8.3 (entity
 * tags), 10.2.3 (Retry-After), 14.4 (Content-Range).
 */
#include "remote/http/response.h"
#include "base/checked.h"
#include "base/text/buf.h"
#include <string.h>

void sft__remote_response_init(sft__remote_response *r) {
    memset(r, 0, sizeof *r);
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Decimal digits at *p; false if there are none or they overflow. */
static bool digits(const char **p, const char *end, uint64_t *value) {
    const char *q = *p;
    uint64_t v = 0;

    for (; q < end && *q >= '0' && *q <= '9'; q++) {
        if (!sft__base_mul64(v, 10, &v) || !sft__base_add64(v, (uint64_t)(*q - '0'), &v)) {
            return false;
        }
    }
    *value = v;
    const bool any = q != *p;
    *p = q;
    return any;
}

/* ---------------------------------------------------------------- Content-Range */

bool sft__remote_content_range(const char *text, size_t len, sft__remote_response *r) {
    const char *p = text;
    const char *end = text + len;
    bool range = false;
    bool total = false;
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t size = 0;

    if (len < 8 || lower(p[0]) != 'b' || lower(p[1]) != 'y' || lower(p[2]) != 't' ||
        lower(p[3]) != 'e' || lower(p[4]) != 's' || p[5] != ' ') {
        return false;
    }
    p += 6;
    if (*p == '*') {
        p++;
    } else {
        range = true;
        if (!digits(&p, end, &first) || p == end || *p++ != '-' || !digits(&p, end, &last) ||
            last < first) {
            return false;
        }
    }
    if (p == end || *p++ != '/' || p == end) {
        return false;
    }
    if (*p == '*') {
        p++;
    } else {
        total = true;
        if (!digits(&p, end, &size) || (range && last >= size)) {
            return false;
        }
    }
    if (p != end || (!range && !total)) {
        return false;
    }
    r->has_range = range;
    r->has_total = total;
    r->first = first;
    r->last = last;
    r->total = size;
    return true;
}

/* ---------------------------------------------------------------- dates */

static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                     "jul", "aug", "sep", "oct", "nov", "dec"};

static bool month(const char **p, const char *end, uint64_t *m) {
    if (end - *p < 3) {
        return false;
    }
    for (uint64_t i = 0; i < 12; i++) {
        if (lower((*p)[0]) == months[i][0] && lower((*p)[1]) == months[i][1] &&
            lower((*p)[2]) == months[i][2]) {
            *m = i + 1;
            *p += 3;
            return true;
        }
    }
    return false;
}

static bool one(const char **p, const char *end, char c) {
    if (*p == end || **p != c) {
        return false;
    }
    ++*p;
    return true;
}

static void blanks(const char **p, const char *end) {
    while (*p < end && **p == ' ') {
        ++*p;
    }
}

typedef struct date {
    uint64_t year, month, day, hour, minute, second;
} date;

static bool clock_time(const char **p, const char *end, date *d) {
    return digits(p, end, &d->hour) && one(p, end, ':') && digits(p, end, &d->minute) &&
           one(p, end, ':') && digits(p, end, &d->second);
}

static bool date_seconds(const date *d, uint64_t *seconds) {
    static const uint16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

    if (d->year < 1970 || d->year > 9999 || d->month < 1 || d->month > 12 || d->day < 1 ||
        d->day > 31 || d->hour > 23 || d->minute > 59 || d->second > 60) {
        return false;
    }
    const uint64_t y = d->year - (d->month <= 2 ? 1 : 0); /* leap days up to the last February */
    const uint64_t leaps = y / 4 - y / 100 + y / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    const uint64_t days = (d->year - 1970) * 365 + leaps + before[d->month - 1] + d->day - 1;
    *seconds = ((days * 24 + d->hour) * 60 + d->minute) * 60 + d->second;
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT"; "Sunday, 06-Nov-94 08:49:37 GMT"; "Sun Nov  6 08:49:37 1994" */
bool sft__remote_http_date(const char *text, size_t len, uint64_t *seconds) {
    const char *p = text;
    const char *end = text + len;
    date d;

    memset(&d, 0, sizeof d);
    while (p < end && *p != ',' && *p != ' ') {
        p++;
    }
    if (p == end) {
        return false;
    }
    const bool asctime = *p == ' ';
    p++;
    blanks(&p, end);
    if (asctime) {
        if (!month(&p, end, &d.month)) {
            return false;
        }
        blanks(&p, end);
        if (!digits(&p, end, &d.day) || !one(&p, end, ' ') || !clock_time(&p, end, &d) ||
            !one(&p, end, ' ') || !digits(&p, end, &d.year)) {
            return false;
        }
        return p == end && date_seconds(&d, seconds);
    }
    if (!digits(&p, end, &d.day) || p == end || (*p != ' ' && *p != '-')) {
        return false;
    }
    const bool old = *p++ == '-';
    if (!month(&p, end, &d.month) || !one(&p, end, old ? '-' : ' ') || !digits(&p, end, &d.year) ||
        !one(&p, end, ' ') || !clock_time(&p, end, &d)) {
        return false;
    }
    d.year += old && d.year < 100 ? (d.year < 70 ? 2000 : 1900) : 0;
    return end - p == 4 && memcmp(p, " GMT", 4) == 0 && date_seconds(&d, seconds);
}

uint64_t sft__remote_retry_after_ms(const sft__remote_response *r, uint64_t now) {
    if (!r->has_retry) {
        return 0;
    }
    const uint64_t seconds = !r->retry_is_date ? r->retry : r->retry > now ? r->retry - now : 0;
    return seconds > UINT64_MAX / 1000 ? UINT64_MAX : seconds * 1000;
}

/* ---------------------------------------------------------------- entity tags */

bool sft__remote_etag_strong(const char *etag) {
    const size_t len = strlen(etag);
    return len >= 2 && etag[0] == '"' && etag[len - 1] == '"';
}

bool sft__remote_etag_sha256(const char *etag, uint8_t digest[32]) {
    const char *p = etag;
    size_t len = strlen(etag);

    if (len >= 2 && p[0] == '"' && p[len - 1] == '"') {
        p++;
        len -= 2;
    }
    if (len != 64) {
        return false;
    }
    for (size_t i = 0; i < 32; i++) {
        const int high = sft__base_hex_value(p[2 * i]);
        const int low = sft__base_hex_value(p[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* ---------------------------------------------------------------- lines */

static bool name_is(const char *name, size_t len, const char *wanted) {
    if (strlen(wanted) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (lower(name[i]) != wanted[i]) {
            return false;
        }
    }
    return true;
}

/* Printable ASCII that fits, else nothing. */
static void keep(char *dst, size_t cap, const char *value, size_t len) {
    dst[0] = '\0';
    if (len >= cap) {
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)value[i] < 0x20 || (unsigned char)value[i] >= 0x7f) {
            return;
        }
    }
    memcpy(dst, value, len);
    dst[len] = '\0';
}

static void field_range(sft__remote_response *r, const char *value, size_t len) {
    sft__remote_response given = *r;
    if (!sft__remote_content_range(value, len, &given)) {
        r->fault = "its Content-Range makes no sense";
    } else if ((r->has_range || r->has_total) &&
               (given.first != r->first || given.last != r->last || given.total != r->total)) {
        r->fault = "it has two Content-Range fields that differ";
    } else {
        *r = given;
    }
}

static void field_length(sft__remote_response *r, const char *value, size_t len) {
    const char *p = value;
    uint64_t length;
    if (!digits(&p, value + len, &length) || p != value + len) {
        r->fault = "its Content-Length is no number";
    } else if (r->has_length && length != r->length) {
        r->fault = "it has two Content-Length fields that differ";
    } else {
        r->has_length = true;
        r->length = length;
    }
}

static void field_retry(sft__remote_response *r, const char *value, size_t len) {
    const char *p = value;
    if (digits(&p, value + len, &r->retry) && p == value + len) {
        r->has_retry = true;
        r->retry_is_date = false;
    } else if (sft__remote_http_date(value, len, &r->retry)) {
        r->has_retry = true;
        r->retry_is_date = true;
    } /* anything else is as if nothing had been said */
}

static void field(sft__remote_response *r, const char *name, size_t name_len, const char *value,
                  size_t len) {
    static const char multipart[] = "multipart/byteranges";

    if (name_is(name, name_len, "content-range")) {
        field_range(r, value, len);
    } else if (name_is(name, name_len, "content-length")) {
        field_length(r, value, len);
    } else if (name_is(name, name_len, "content-encoding")) {
        r->encoded = r->encoded || (len != 0 && !name_is(value, len, "identity"));
    } else if (name_is(name, name_len, "content-type")) {
        r->parts = len >= sizeof multipart - 1 && name_is(value, sizeof multipart - 1, multipart);
        (void)sft__remote_multipart_boundary(value, len, r->boundary);
    } else if (name_is(name, name_len, "etag")) {
        keep(r->etag, sizeof r->etag, value, len);
        if (strcmp(r->etag, "\"\"") == 0 || strcmp(r->etag, "W/\"\"") == 0) {
            r->etag[0] = '\0'; /* of a server that has none: the same for all versions */
        }
    } else if (name_is(name, name_len, "last-modified")) {
        keep(r->modified, sizeof r->modified, value, len);
    } else if (name_is(name, name_len, "x-linked-etag")) {
        keep(r->linked_etag, sizeof r->linked_etag, value, len);
    } else if (name_is(name, name_len, "x-repo-commit")) {
        keep(r->commit, sizeof r->commit, value, len);
    } else if (name_is(name, name_len, "x-error-message")) {
        keep(r->problem, sizeof r->problem, value, len);
    } else if (name_is(name, name_len, "retry-after")) {
        field_retry(r, value, len);
    }
}

/* "HTTP/1.1 206 Partial Content", "HTTP/2 206" */
static void status_line(sft__remote_response *r, const char *line, size_t len) {
    const uint64_t head = r->head_bytes;
    const char *end = line + len;
    const char *p = line;
    uint64_t status = 0;

    sft__remote_response_init(r);
    r->head_bytes = head;
    while (p < end && *p != ' ') {
        p++;
    }
    blanks(&p, end);
    if (!digits(&p, end, &status) || status < 100 || status > 999 || (p < end && *p != ' ')) {
        r->fault = "its status line makes no sense";
        return;
    }
    r->status = (int)status;
}

void sft__remote_response_line(sft__remote_response *r, const char *line, size_t len) {
    r->head_bytes += len;
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r')) {
        len--;
    }
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        status_line(r, line, len);
        return;
    }
    if (r->complete) { /* trailers after the body change nothing */
        return;
    }
    if (len == 0) {
        r->complete = true;
        return;
    }
    const char *colon = memchr(line, ':', len);
    if (colon == NULL) {
        return;
    }
    const char *value = colon + 1;
    const char *end = line + len;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    field(r, line, (size_t)(colon - line), value, (size_t)(end - value));
}
