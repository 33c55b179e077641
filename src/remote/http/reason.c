/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/reason.c - see reason.h. The texts are for a person to read: nothing depends on them, so
 * what is not found is left out, and nothing here is an error. Sources: AWS, "S3 error responses"
 * (<Error><Code>..</Code><Message>..</Message>); huggingface_hub, utils/_http.py.
 */
#include "remote/http/reason.h"
#include "base/text/buf.h"
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

void sft__remote_reason(char *dst, size_t cap, const char *body, size_t len) {
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

/* ---------------------------------------------------------------- secrets in other words */

static unsigned char lower(unsigned char c) {
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 'a' - 'A') : c;
}

/* Digits of a number up to its end; its last byte, and how many bytes of text it took. 0: none. */
static size_t number(const char *text, size_t left, size_t most, int base, unsigned char *byte) {
    unsigned value = 0;
    size_t n = 0;
    while (n < left && n < most && sft__base_hex_value(text[n]) >= 0 &&
           sft__base_hex_value(text[n]) < base) {
        value = (value * (unsigned)base + (unsigned)sft__base_hex_value(text[n++])) & 0xFFFFu;
    }
    *byte = value < 0x80 ? (unsigned char)value : '?';
    return n;
}

/* &#83; and &#x53; */
static size_t entity(const char *text, size_t left, unsigned char *byte) {
    const bool hex = left > 2 && (text[2] == 'x' || text[2] == 'X');
    const size_t at = hex ? 3 : 2;
    if (left <= at || text[0] != '&' || text[1] != '#') {
        return 0;
    }
    const size_t n = number(text + at, left - at, 8, hex ? 16 : 10, byte);
    return n == 0 ? 0 : at + n + (at + n < left && text[at + n] == ';' ? 1 : 0);
}

/* One byte of text without its escape (percent, JSON, entity), and how many bytes it takes. */
static size_t plain_byte(const char *text, size_t left, unsigned char *byte) {
    size_t n = 0;
    if (left >= 3 && text[0] == '%' && sft__base_hex_value(text[1]) >= 0 &&
        sft__base_hex_value(text[2]) >= 0) {
        *byte = (unsigned char)(sft__base_hex_value(text[1]) * 16 + sft__base_hex_value(text[2]));
        return 3;
    }
    if (left >= 2 && text[0] == '\\') {
        const size_t digits = text[1] == 'u' ? 4 : text[1] == 'x' ? 2 : 0;
        n = number(text + 2, left - 2, digits, 16, byte);
        if (n == digits && n != 0) {
            return 2 + n;
        }
        *byte = (unsigned char)text[1];
        return 2;
    }
    n = entity(text, left, byte);
    if (n == 0) {
        *byte = (unsigned char)text[0];
        n = 1;
    }
    return n;
}

/* Text without escapes and in small letters; what does not fit is left out. */
static size_t plain(unsigned char *dst, size_t cap, const char *text, size_t len) {
    size_t n = 0;
    while (len > 0 && n < cap) {
        const size_t used = plain_byte(text, len, &dst[n]);
        dst[n] = lower(dst[n]);
        n++;
        text += used;
        len -= used;
    }
    return n;
}

/* Have both so many bytes in common, in one piece? */
static bool share(const unsigned char *a, size_t a_len, const unsigned char *b, size_t b_len,
                  size_t piece) {
    for (size_t i = 0; piece <= a_len && i <= a_len - piece; i++) {
        for (size_t k = 0; piece <= b_len && k <= b_len - piece; k++) {
            if (a[i] == b[k] && memcmp(a + i, b + k, piece) == 0) {
                return true;
            }
        }
    }
    return false;
}

static int sixbits(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

/* What the letters of base64 at the beginning of text stand for, in small letters. */
static size_t unpack(unsigned char *dst, size_t cap, const char *text, size_t len) {
    unsigned bits = 0;
    unsigned have = 0;
    size_t n = 0;
    for (size_t i = 0; i < len && n < cap && sixbits(text[i]) >= 0; i++) {
        bits = (bits << 6 | (unsigned)sixbits(text[i])) & 0xFFFu;
        have += 6;
        if (have >= 8) {
            have -= 8;
            dst[n++] = lower((unsigned char)(bits >> have));
        }
    }
    return n;
}

bool sft__remote_mentions(const char *text, const char *secret, size_t len) {
    unsigned char hidden[SFT__REASON_SECRET];
    unsigned char shown[SFT__REASON_MAX];
    const size_t n = strlen(text);
    const size_t hidden_len = plain(hidden, sizeof hidden, secret, len);
    const size_t half = (hidden_len + 1) / 2;
    const size_t piece = half < 6 ? 6 : half > 16 ? 16 : half;
    if (hidden_len < 6) {
        return false;
    }
    if (share(shown, plain(shown, sizeof shown, text, n), hidden, hidden_len, piece)) {
        return true;
    }
    for (size_t i = 0; i < n;) {
        size_t run = 0;
        while (i + run < n && sixbits(text[i + run]) >= 0) {
            run++;
        }
        for (size_t skip = 0; skip < 4 && skip < run; skip++) { /* four letters are three bytes */
            const size_t bytes = unpack(shown, sizeof shown, text + i + skip, run - skip);
            if (share(shown, bytes, hidden, hidden_len, piece)) {
                return true;
            }
        }
        i += run + 1;
    }
    return false;
}

bool sft__remote_mentions_query(const char *text, const char *url) {
    const char *p = strchr(url, '?');
    const char *host = strstr(url, "://");

    if (host != NULL) {
        const size_t authority = strcspn(host + 3, "/?#");
        const char *at = memchr(host + 3, '@', authority);
        if (at != NULL && sft__remote_mentions(text, host + 3, (size_t)(at - host - 3))) {
            return true;
        }
    }
    while (p != NULL && *p != '\0') {
        const size_t skip = strcspn(p, "=&");
        const char *value = p + skip + (p[skip] == '=' ? 1 : 0);
        const size_t len = strcspn(value, "&");
        if (sft__remote_mentions(text, value, len)) {
            return true;
        }
        p = value[len] == '&' ? value + len + 1 : NULL;
    }
    return false;
}
