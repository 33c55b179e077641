/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/json_string.c - a string as JSON text, escaped as serde_json does it. Declared in base/json.h.
 */
#include "base/buf.h"
#include "base/json.h"

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

void sft__json_string(sft__buf *out, const char *s, size_t len) {
    static const char hex[] = "0123456789abcdef";
    size_t done = 0;

    sft__buf_add(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        const uint8_t c = (uint8_t)s[i];
        const char letter = escape_letter(c);
        if (letter != '\0') {
            const char text[6] = {'\\', letter, '0', '0', hex[c >> 4], hex[c & 15]};
            sft__buf_add(out, s + done, i - done);
            sft__buf_add(out, text, letter == 'u' ? 6 : 2);
            done = i + 1;
        }
    }
    sft__buf_add(out, s + done, len - done);
    sft__buf_add(out, "\"", 1);
}
