/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_text.c - the texts of protocol 0: numbers as int() and float() or their C twins
 * take them, byte strings with escapes, raw unicode. What either implementation takes is taken.
 * Read first: walk.h.
 */
#include "import/walk/walk.h"

static bool is_space(uint8_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static unsigned digit_of(uint8_t c) {
    return c >= '0' && c <= '9'                     ? (unsigned)(c - '0')
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (unsigned)((c | 0x20) - 'a' + 10)
                                                    : 99;
}

/* "0x", "0o", "0b" of base 0; C's strtol knows the octal of C, too, whose digits are digits. */
static unsigned base_of(const uint8_t *p, size_t len, size_t *skip) {
    *skip = 0;
    if (len >= 2 && p[0] == '0') {
        const uint8_t c = (uint8_t)(p[1] | 0x20);
        *skip = c == 'x' || c == 'o' || c == 'b' ? 2 : 0;
        return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    }
    return 10;
}

bool sft__import_walk_int(const uint8_t *line, size_t len, int base, uint64_t *value,
                          bool *negative) {
    const uint8_t *nul = len != 0 ? memchr(line, '\0', len) : NULL; /* where C ends it */
    size_t end = nul != NULL ? (size_t)(nul - line) : len;
    size_t at = 0;
    size_t skip = 0;
    bool digits = false;

    *value = 0;
    *negative = false;
    while (at < end && is_space(line[at])) {
        at++;
    }
    while (end > at && is_space(line[end - 1])) {
        end--;
    }
    if (at == end) {
        return nul == line && base == 0; /* strtol makes 0 of nothing before a NUL */
    }
    if (line[at] == '+' || line[at] == '-') {
        *negative = line[at++] == '-';
    }
    const unsigned radix = base == 0 ? base_of(line + at, end - at, &skip) : 10;
    for (at += skip; at < end; at++) {
        const unsigned d = digit_of(line[at]);
        if (line[at] == '_') {
            continue;
        }
        if (d >= radix) {
            return false;
        }
        /* of large ones a number that differs from small ones, equal for equal digits */
        *value = *value >> 58 != 0 ? (*value * 31 + d) | UINT64_C(1) << 63 : *value * radix + d;
        digits = true;
    }
    return digits;
}

static bool is_word(const uint8_t *p, size_t len, const char *word) {
    for (size_t i = 0; i < len; i++) {
        if (word[i] == '\0' || (p[i] | 0x20) != (uint8_t)word[i]) {
            return false;
        }
    }
    return word[len] == '\0';
}

bool sft__import_walk_float(const uint8_t *line, size_t len) {
    const uint8_t *nul = len != 0 ? memchr(line, '\0', len) : NULL;
    size_t end = nul != NULL ? (size_t)(nul - line) : len;
    bool digits = false;
    size_t at = 0;

    while (at < end && is_space(line[at])) {
        at++;
    }
    while (end > at && is_space(line[end - 1])) {
        end--;
    }
    at += at < end && (line[at] == '+' || line[at] == '-');
    if (is_word(line + at, end - at, "inf") || is_word(line + at, end - at, "infinity") ||
        is_word(line + at, end - at, "nan")) {
        return true;
    }
    for (; at < end; at++) {
        const uint8_t c = line[at];
        if (c >= '0' && c <= '9') {
            digits = true;
        } else if (memchr("_.eE+-", c, 6) == NULL) {
            return false;
        }
    }
    return digits;
}

/* ---------------------------------------------------------------- UTF-8 */

static size_t put_utf8(uint8_t *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

/* Bytes of the character that begins with this byte, 0: none does. */
static size_t utf8_bytes(uint8_t first) {
    return first < 0x80                    ? 1
           : first >= 0xc2 && first < 0xe0 ? 2
           : first >= 0xe0 && first < 0xf0 ? 3
           : first >= 0xf0 && first < 0xf5 ? 4
                                           : 0;
}

bool sft__import_walk_utf8(const uint8_t *bytes, size_t len, bool pass, bool cut) {
    for (size_t i = 0; i < len;) {
        const size_t n = utf8_bytes(bytes[i]);
        if (n == 0) {
            return false;
        }
        for (size_t k = 1; k < n; k++) {
            if (i + k >= len) {
                return cut;
            }
            if ((bytes[i + k] & 0xc0) != 0x80) {
                return false;
            }
        }
        const uint8_t second = n > 1 ? bytes[i + 1] : 0;
        const bool longer = (bytes[i] == 0xe0 && second < 0xa0) ||
                            (bytes[i] == 0xf0 && second < 0x90) ||
                            (bytes[i] == 0xf4 && second >= 0x90);
        if (longer || (bytes[i] == 0xed && second >= 0xa0 && !pass)) {
            return false;
        }
        i += n;
    }
    return true;
}

size_t sft__import_walk_latin1(uint8_t *out, const uint8_t *in, size_t len) {
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t c = in[i];
        if (c >= 0x80) {
            if ((c & 0xfe) != 0xc2 || i + 1 >= len || (in[i + 1] & 0xc0) != 0x80) {
                return SIZE_MAX;
            }
            c = (uint8_t)(c << 6 | (in[++i] & 0x3f));
        }
        out[n++] = c;
    }
    return n;
}

size_t sft__import_walk_from_latin1(uint8_t *out, const uint8_t *in, size_t len) {
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        n += put_utf8(out + n, in[i]);
    }
    return n;
}

/* ---------------------------------------------------------------- literals */

/* Up to `most` digits; false: none. */
static bool digits(const uint8_t *in, size_t len, unsigned radix, size_t most, uint32_t *value,
                   size_t *used) {
    *value = 0;
    for (*used = 0; *used < most && *used < len && digit_of(in[*used]) < radix; (*used)++) {
        *value = *value * radix + digit_of(in[*used]);
    }
    return *used != 0;
}

size_t sft__import_walk_escaped(uint8_t *out, const uint8_t *in, size_t len) {
    static const char from[] = "\\'\"bfatnrv";
    static const char to[] = "\\'\"\b\f\a\t\n\r\v";
    uint32_t value;
    size_t n = 0;
    size_t used;

    for (size_t i = 0; i < len;) {
        if (in[i] != '\\') {
            n += put_utf8(out + n, in[i++]);
            continue;
        }
        if (++i == len) {
            return SIZE_MAX;
        }
        const char *known = in[i] != '\0' ? strchr(from, in[i]) : NULL;
        if (known != NULL) {
            out[n++] = (uint8_t)to[known - from];
            i++;
        } else if (in[i] == 'x') {
            if (!digits(in + i + 1, len - i - 1, 16, 2, &value, &used) || used != 2) {
                return SIZE_MAX;
            }
            n += put_utf8(out + n, value);
            i += 3;
        } else if (digits(in + i, len - i, 8, 3, &value, &used)) {
            n += put_utf8(out + n, value & 0xff);
            i += used;
        } else { /* stays as it is */
            out[n++] = '\\';
        }
    }
    return n;
}

size_t sft__import_walk_raw_unicode(uint8_t *out, const uint8_t *in, size_t len) {
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        const uint8_t next = in[i] == '\\' && i + 1 < len ? in[i + 1] : 0;
        if (next == 'u' || next == 'U') {
            const size_t most = next == 'u' ? 4 : 8;
            uint32_t value;
            size_t used;
            if (!digits(in + i + 2, len - i - 2, 16, most, &value, &used) || used != most ||
                value > 0x10ffff) {
                return SIZE_MAX;
            }
            n += put_utf8(out + n, value);
            i += 2 + most;
        } else if (next != 0) { /* a backslash and what follows it, even another one */
            out[n++] = '\\';
            n += put_utf8(out + n, next);
            i += 2;
        } else {
            n += put_utf8(out + n, in[i++]);
        }
    }
    return n;
}
