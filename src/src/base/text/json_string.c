/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/json_string.c - a string as JSON text, escaped as serde_json does it. Declared in
 * base/text/json.h.
 */
#include "base/text/buf.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

/* The letter behind the backslash; 'u' for those that need four digits; 0 for bytes that stay. */
static char escape_letter(uint8_t c) {
    switch (c) {
    case '"':
        return '"';
    case '\\':
        return '\\';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return c < 0x20 ? 'u' : '\0';
    }
}

void sft__base_json_string(sft__base_buf *out, const char *s, size_t len) {
    size_t done = 0;

    sft__base_buf_add(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        const uint8_t c = (uint8_t)s[i];
        const char letter = escape_letter(c);
        if (letter != '\0') {
            const char text[6] = {
                '\\', letter, '0', '0', sft__base_hex_digits[c >> 4], sft__base_hex_digits[c & 15]};
            sft__base_buf_add(out, s + done, i - done);
            sft__base_buf_add(out, text, letter == 'u' ? 6 : 2);
            done = i + 1;
        }
    }
    sft__base_buf_add(out, s + done, len - done);
    sft__base_buf_add(out, "\"", 1);
}

static void put_unit(sft__base_buf *out, uint32_t unit) {
    const char text[6] = {'\\',
                          'u',
                          sft__base_hex_digits[unit >> 12 & 15],
                          sft__base_hex_digits[unit >> 8 & 15],
                          sft__base_hex_digits[unit >> 4 & 15],
                          sft__base_hex_digits[unit & 15]};
    sft__base_buf_add(out, text, sizeof text);
}

void sft__base_json_string_plain(sft__base_buf *out, const char *s, size_t len) {
    sft__base_buf quoted;
    size_t done = 0;
    uint32_t cp = 0;

    sft__base_buf_init(&quoted, out->allocator);
    sft__base_json_string(&quoted, s, len);
    for (size_t i = 0, n; i < quoted.len; i += n) {
        n = sft__base_utf8_decode(quoted.data + i, quoted.len - i, &cp);
        if (n == 0 || !sft__base_utf8_deceptive(cp)) {
            n = n == 0 ? 1 : n;
            continue;
        }
        sft__base_buf_add(out, quoted.data + done, i - done);
        if (cp >= 0x10000) {
            put_unit(out, 0xd800 + ((cp - 0x10000) >> 10));
        }
        put_unit(out, cp < 0x10000 ? cp : 0xdc00 + ((cp - 0x10000) & 0x3ff));
        done = i + n;
    }
    sft__base_buf_add(out, quoted.data + done, quoted.len - done);
    out->failed = out->failed || quoted.failed;
    sft__base_buf_reset(&quoted);
}
