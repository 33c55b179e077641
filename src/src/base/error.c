/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/error.c - see error.h. The only formatted printing of the library; vsnprintf into a local buffer,
 * then escaped, so that whatever a file holds cannot reach a terminal as a control sequence.
 */
#include "base/error.h"
#include "base/text/buf.h"
#include "base/text/utf8.h"
#include <stdio.h>

#ifdef _WIN32
#include <windows.h>
#endif

enum { MESSAGE_MAX = 1024 };

const char *sft_status_name(int32_t status) {
    switch (status) {
#define NAME_CASE(name, number, text)                                                              \
    case number:                                                                                   \
        return #name;
        SFT_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    default:
        return "SFT_E_?";
    }
}

const char *sft_status_text(int32_t status) {
    switch (status) {
#define TEXT_CASE(name, number, text)                                                              \
    case number:                                                                                   \
        return text;
        SFT_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "unknown status";
    }
}

static size_t escape_one(char out[12], const char *src, size_t len, size_t *used) {
    uint32_t cp;
    const size_t n = sft__base_utf8_decode(src, len, &cp);

    *used = n == 0 ? 1 : n;
    if (n == 0) {
        const uint8_t byte = (uint8_t)src[0];
        const char text[4] = {'\\', 'x', sft__base_hex_digits[byte >> 4],
                              sft__base_hex_digits[byte & 15]};
        memcpy(out, text, 4);
        return 4;
    }
    if (cp == '\\' || cp == '\n' || cp == '\t' || cp == '\r') {
        out[0] = '\\';
        out[1] = cp == '\n' ? 'n' : cp == '\t' ? 't' : cp == '\r' ? 'r' : '\\';
        return 2;
    }
    if (!sft__base_utf8_deceptive(cp)) {
        memcpy(out, src, n);
        return n;
    }
    const size_t digits = cp < 0x100 ? 2 : cp < 0x10000 ? 4 : 8;
    out[0] = '\\';
    out[1] = digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
    for (size_t i = 0; i < digits; i++) {
        out[2 + i] = sft__base_hex_digits[(cp >> (4 * (digits - 1 - i))) & 15];
    }
    return 2 + digits;
}

size_t sft__base_escape(char *dst, size_t cap, const char *src, size_t len) {
    size_t at = 0;
    size_t last_fit = 0; /* where "..." can still be put */

    for (size_t i = 0; i < len;) {
        char text[12];
        size_t used;
        if (src[i] >= 0x20 && src[i] < 0x7f && src[i] != '\\' && cap - at >= 5) {
            dst[at++] = src[i++]; /* nearly every name is made of these */
            last_fit = at;
            continue;
        }
        const size_t n = escape_one(text, src + i, len - i, &used);
        if (at + n + 1 > cap) {
            memcpy(dst + last_fit, "...", 3);
            at = last_fit + 3;
            break;
        }
        memcpy(dst + at, text, n);
        at += n;
        i += used;
        if (at + 4 <= cap) {
            last_fit = at;
        }
    }
    dst[at] = '\0';
    return at;
}

size_t sft_escape(char *dst, size_t cap, const char *src, size_t len) {
    return sft__base_escape(dst, cap, src, len);
}

/* Messages may quote text that was escaped already: backslashes stay single here. */
static void put_message(char *dst, size_t cap, const char *src, size_t len) {
    size_t at = 0;
    for (size_t i = 0; i < len;) {
        char text[12];
        size_t used;
        size_t n = escape_one(text, src + i, len - i, &used);
        if (src[i] == '\\') {
            n = 1;
        }
        if (at + n + 4 > cap) {
            memcpy(dst + at, "...", 3);
            at += 3;
            break;
        }
        memcpy(dst + at, text, n);
        at += n;
        i += used;
    }
    dst[at] = '\0';
}

static SFT_COLD sft_status fail_v(sft_error *err, sft_status status, int32_t sys, uint64_t offset,
                                  const char *tensor, size_t tensor_len, const char *format,
                                  va_list args) {
    char text[MESSAGE_MAX];
    int n;

    if (err == NULL) {
        return status;
    }
    n = vsnprintf(text, sizeof text, format, args);
    if (n < 0) {
        n = 0;
    }
    memset(err, 0, sizeof *err);
    err->status = status;
    err->sys = sys;
    err->offset = offset;
    if (tensor != NULL) {
        (void)sft__base_escape(err->tensor, sizeof err->tensor, tensor, tensor_len);
    }
    put_message(err->message, sizeof err->message, text,
                (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    return status;
}

sft_status sft_error_set(sft_error *err, sft_status status, int32_t sys, uint64_t offset,
                         const char *tensor, size_t tensor_len, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_v(err, status, sys, offset, tensor, tensor_len, format, args);
    va_end(args);
    return status;
}

sft_status sft__base_fail(sft_error *err, sft_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_v(err, status, 0, SFT_NO_OFFSET, NULL, 0, format, args);
    va_end(args);
    return status;
}

sft_status sft__base_fail_at(sft_error *err, sft_status status, uint64_t offset, const char *format,
                             ...) {
    va_list args;
    va_start(args, format);
    fail_v(err, status, 0, offset, NULL, 0, format, args);
    va_end(args);
    return status;
}

sft_status sft__base_fail_tensor(sft_error *err, sft_status status, uint64_t offset,
                                 const char *tensor, size_t tensor_len, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_v(err, status, 0, offset, tensor, tensor_len, format, args);
    va_end(args);
    return status;
}

/* strerror is neither thread-safe everywhere nor free of locale; the common causes are named here. */
static void sys_text(int32_t sys, char *dst, size_t cap) {
#ifdef _WIN32
    const DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL,
                                   (DWORD)sys, 0, dst, (DWORD)cap - 1, NULL);
    dst[n < cap ? n : cap - 1] = '\0';
    for (size_t len = strlen(dst); len > 0 && (dst[len - 1] == '\n' || dst[len - 1] == '\r' ||
                                               dst[len - 1] == '.' || dst[len - 1] == ' ');) {
        dst[--len] = '\0';
    }
    if (dst[0] == '\0') {
        (void)snprintf(dst, cap, "system error %ld", (long)sys);
    }
#else
    const char *text = sft__base_errno_text(sys);
    if (text != NULL) {
        (void)snprintf(dst, cap, "%s", text);
    } else {
        (void)snprintf(dst, cap, "errno %ld", (long)sys);
    }
#endif
}

sft_status sft__base_fail_sys(sft_error *err, sft_status status, int32_t sys, const char *format,
                              ...) {
    char text[MESSAGE_MAX];
    char cause[160];
    va_list args;

    if (err == NULL) {
        return status;
    }
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0) {
        text[0] = '\0';
    }
    va_end(args);
    sys_text(sys, cause, sizeof cause);
    return sft_error_set(err, status, sys, SFT_NO_OFFSET, NULL, 0, "%s: %s", text, cause);
}

sft_status sft__base_fail_nomem(sft_error *err, size_t size) {
    return sft__base_fail(err, SFT_E_NOMEM, "cannot allocate %llu bytes", (unsigned long long)size);
}
