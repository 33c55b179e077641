/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/reason.c - see reason.h. The texts are for a person to read: nothing depends on them, so
 * what is not found is left out, and nothing here is an error. Sources: AWS, "S3 error responses"
 * (<Error><Code>..</Code><Message>..</Message>); huggingface_hub, utils/_http.py.
 */
#include "remote/reason.h"
#include <stdint.h>
#include <string.h>

static const char *find(const char *body, size_t len, const char *what) {
    const size_t n = strlen(what);
    for (size_t i = 0; n <= len && i <= len - n; i++) {
        if (memcmp(body + i, what, n) == 0) {
            return body + i + n;
        }
    }
    return NULL;
}

/* Adds text, cut at the end of dst; what would end the line becomes a blank. */
static void add(char *dst, size_t cap, const char *text, size_t len) {
    size_t at = strlen(dst);
    for (size_t i = 0; i < len && at + 1 < cap; i++) {
        const unsigned char c = (unsigned char)text[i];
        dst[at++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    dst[at] = '\0';
}

/* The text of the first element of that name, entities as they stand. */
static void add_element(char *dst, size_t cap, const char *body, size_t len, const char *name) {
    char open[32] = "<";

    add(open, sizeof open - 1, name, strlen(name));
    add(open, sizeof open, ">", 1);
    const char *text = find(body, len, open);
    const char *end = text != NULL ? memchr(text, '<', len - (size_t)(text - body)) : NULL;
    if (end != NULL && end > text) {
        add(dst, cap, dst[0] != '\0' ? ": " : "", dst[0] != '\0' ? 2 : 0);
        add(dst, cap, text, (size_t)(end - text));
    }
}

/* The string behind "name": wherever the object has it. */
static bool add_member(char *dst, size_t cap, const char *body, size_t len, const char *name) {
    char quoted[32] = "\"";

    add(quoted, sizeof quoted - 1, name, strlen(name));
    add(quoted, sizeof quoted, "\"", 1);
    const char *end = body + len;
    const char *p = find(body, len, quoted);
    while (p != NULL && p < end && (*p == ' ' || *p == ':' || *p == '\n' || *p == '\t')) {
        p++;
    }
    if (p == NULL || p == end || *p != '"') {
        return false;
    }
    const char *text = ++p;
    while (p < end && *p != '"') {
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    }
    add(dst, cap, text, (size_t)((p < end ? p : end) - text));
    return p > text;
}

void sft__reason(char *dst, size_t cap, const char *body, size_t len) {
    static const char *const members[] = {"message", "error", "error_description", "detail"};

    dst[0] = '\0';
    while (len > 0 && (*body == ' ' || *body == '\r' || *body == '\n' || *body == '\t')) {
        body++;
        len--;
    }
    if (len > 0 && *body == '<' && find(body, len, "<Error>") != NULL) {
        add_element(dst, cap, body, len, "Code");
        add_element(dst, cap, body, len, "Message");
        return;
    }
    for (size_t i = 0; len > 0 && *body == '{' && i < sizeof members / sizeof members[0]; i++) {
        if (add_member(dst, cap, body, len, members[i])) {
            return;
        }
    }
}

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One byte of text with percent-escapes, and how many bytes it takes. */
static size_t plain_byte(const char *text, size_t left, char *byte) {
    if (left >= 3 && text[0] == '%' && digit(text[1]) >= 0 && digit(text[2]) >= 0) {
        *byte = (char)(digit(text[1]) * 16 + digit(text[2]));
        return 3;
    }
    *byte = text[0];
    return 1;
}

/* Does the secret stand at the beginning of text, both with their escapes undone? */
static bool begins_plain(const char *text, size_t left, const char *secret, size_t len) {
    while (len > 0) {
        char a;
        char b;
        if (left == 0) {
            return false;
        }
        const size_t n = plain_byte(text, left, &a);
        const size_t m = plain_byte(secret, len, &b);
        if (a != b) {
            return false;
        }
        text += n;
        left -= n;
        secret += m;
        len -= m;
    }
    return true;
}

bool sft__mentions(const char *text, const char *secret, size_t len) {
    const size_t n = strlen(text);
    for (size_t i = 0; len >= 6 && i < n; i++) {
        if (begins_plain(text + i, n - i, secret, len)) {
            return true;
        }
    }
    return false;
}

bool sft__mentions_query(const char *text, const char *url) {
    const char *p = strchr(url, '?');
    const char *host = strstr(url, "://");

    if (host != NULL) {
        const size_t authority = strcspn(host + 3, "/?#");
        const char *at = memchr(host + 3, '@', authority);
        if (at != NULL && sft__mentions(text, host + 3, (size_t)(at - host - 3))) {
            return true;
        }
    }
    while (p != NULL && *p != '\0') {
        const size_t skip = strcspn(p, "=&");
        const char *value = p + skip + (p[skip] == '=' ? 1 : 0);
        const size_t len = strcspn(value, "&");
        if (sft__mentions(text, value, len)) {
            return true;
        }
        p = value[len] == '&' ? value + len + 1 : NULL;
    }
    return false;
}
