/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/buf.c - see buf.h.
 */
#include "base/text/buf.h"
#include "base/checked.h"

void sft__base_buf_init(sft__base_buf *b, const sft_allocator *allocator) {
    memset(b, 0, sizeof *b);
    b->allocator = sft__base_allocator(allocator);
}

void sft__base_buf_reset(sft__base_buf *b) {
    sft__base_free(b->allocator, b->data, b->cap);
    sft__base_buf_init(b, b->allocator);
}

bool sft__base_buf_reserve(sft__base_buf *b, size_t more) {
    size_t need;
    if (b->failed) {
        return false;
    }
    if (!sft__base_add_size(b->len, more, &need) ||
        !sft__base_grow(b->allocator, &b->data, &b->cap, need, 1)) {
        b->failed = true;
    }
    return !b->failed;
}

void sft__base_buf_add(sft__base_buf *b, const void *data, size_t len) {
    if (len != 0 && sft__base_buf_reserve(b, len)) {
        memcpy(b->data + b->len, data, len);
        b->len += len;
    }
}

void sft__base_buf_text(sft__base_buf *b, const char *text) {
    sft__base_buf_add(b, text, strlen(text));
}

void sft__base_buf_fill(sft__base_buf *b, char c, size_t count) {
    if (count != 0 && sft__base_buf_reserve(b, count)) {
        memset(b->data + b->len, c, count);
        b->len += count;
    }
}

void sft__base_buf_u64(sft__base_buf *b, uint64_t v) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    sft__base_buf_add(b, digits + at, sizeof digits - at);
}

const char sft__base_hex_digits[17] = "0123456789abcdef";

void sft__base_hex(char *dst, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        dst[2 * i] = sft__base_hex_digits[bytes[i] >> 4];
        dst[2 * i + 1] = sft__base_hex_digits[bytes[i] & 15];
    }
}

int sft__base_hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool sft__base_hex_read(uint8_t *bytes, const char *digits, size_t count) {
    for (size_t i = 0; i < 2 * count; i++) {
        const int v = sft__base_hex_value(digits[i]);
        if (v < 0 || (digits[i] >= 'A' && digits[i] <= 'F')) {
            return false;
        }
        bytes[i / 2] = (uint8_t)(i % 2 == 0 ? v << 4 : bytes[i / 2] | v);
    }
    return true;
}

void sft__base_hex32(char *dst, uint32_t v) {
    const uint8_t bytes[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
                              (uint8_t)v};
    sft__base_hex(dst, bytes, sizeof bytes);
}

bool sft__base_hex32_read(uint32_t *v, const char *digits) {
    uint8_t b[4];
    if (!sft__base_hex_read(b, digits, sizeof b)) {
        return false;
    }
    *v = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    return true;
}

void sft__base_buf_url(sft__base_buf *b, const char *text, size_t len, bool slashes) {
    static const char hex[] = "0123456789ABCDEF";

    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            c == '-' || c == '.' || c == '_' || c == '~' || (slashes && c == '/')) {
            sft__base_buf_add(b, &text[i], 1);
        } else {
            const char escaped[3] = {'%', hex[c >> 4], hex[c & 15]};
            sft__base_buf_add(b, escaped, 3);
        }
    }
}
