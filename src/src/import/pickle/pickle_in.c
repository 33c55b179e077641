/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/pickle_in.c - the bytes of a pickle through a window of fixed size, and the text forms of
 * protocol 0. Read first: pickle.h.
 */
#include "base/text/buf.h"
#include "base/text/utf8.h"
#include "import/pickle/pickle.h"

static sft_status ended(const sft__import_pk_in *in, sft_error *err) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, in->end, "pickle-truncated: the pickle ends early");
}

sft_status sft__import_pk_need(sft__import_pk_in *in, size_t n, const uint8_t **bytes,
                               sft_error *err) {
    if (in->len - in->pos < n) {
        const uint64_t at = in->base + in->pos;
        const uint64_t left = in->end - at;
        const size_t fill = left < SFT__PK_WINDOW ? (size_t)left : SFT__PK_WINDOW;
        if (left < n) {
            return ended(in, err);
        }
        SFT_TRY(sft_source_read(in->source, at, in->window, fill, err));
        in->base = at;
        in->len = fill;
        in->pos = 0;
    }
    *bytes = in->window + in->pos;
    in->pos += n;
    return SFT_OK;
}

sft_status sft__import_pk_skip(sft__import_pk_in *in, uint64_t n, sft_error *err) {
    const uint64_t at = in->base + in->pos;

    if (n > in->end - at) {
        return ended(in, err);
    }
    if (n <= in->len - in->pos) {
        in->pos += (size_t)n;
    } else {
        in->base = at + n;
        in->len = 0;
        in->pos = 0;
    }
    return SFT_OK;
}

sft_status sft__import_pk_line(sft__import_pk_in *in, const char **line, size_t *len,
                               sft_error *err) {
    const uint8_t *p;
    const uint64_t at = in->base + in->pos;

    for (int round = 0; round < 2; round++) {
        const uint8_t *from = in->window + in->pos;
        const uint8_t *stop = memchr(from, '\n', in->len - in->pos);
        if (stop != NULL) {
            *line = (const char *)from;
            *len = (size_t)(stop - from);
            in->pos += *len + 1;
            return SFT_OK;
        }
        if (round == 0) {
            const uint64_t left = in->end - at;
            const size_t fill = left < SFT__PK_WINDOW ? (size_t)left : SFT__PK_WINDOW;
            if (fill == 0) {
                return ended(in, err);
            }
            in->len = in->pos; /* read the window anew from here */
            SFT_TRY(sft__import_pk_need(in, fill, &p, err));
            in->pos = 0;
        }
    }
    return in->end - at < SFT__PK_WINDOW
               ? ended(in, err)
               : sft__base_fail_at(err, SFT_E_LIMIT, at,
                                   "pickle-line: a line of more than %d bytes", SFT__PK_WINDOW);
}

/* Where the line ends that begins at `at` and has no end in the first SFT__PK_WINDOW bytes. The window
 * is used to look. */
static sft_status line_end(sft__import_pk_in *in, uint64_t at, uint64_t *end, sft_error *err) {
    uint64_t from = at;

    *end = at;
    while (from < in->end) {
        const uint64_t left = in->end - from;
        const size_t size = left < SFT__PK_WINDOW ? (size_t)left : SFT__PK_WINDOW;
        SFT_TRY(sft_source_read(in->source, from, in->window, size, err));
        in->base = from;
        in->len = size;
        in->pos = 0;
        const uint8_t *stop = memchr(in->window, '\n', size);
        if (stop != NULL) {
            in->pos = (size_t)(stop - in->window) + 1;
            *end = from + (uint64_t)(stop - in->window);
            return SFT_OK;
        }
        from += size;
    }
    return ended(in, err);
}

sft_status sft__import_pk_line_copy(sft__import_pk_in *in, sft__import *job, char **room,
                                    size_t *len, sft_error *err) {
    const uint64_t at = sft__import_pk_tell(in);
    const char *line;
    sft_error local;
    uint64_t end = 0;

    sft_status status = sft__import_pk_line(in, &line, len, &local);
    if (status == SFT_OK) {
        SFT_TRY(sft__import_alloc(job, room, 2 * *len + SFT__PK_DECODE, 1, err));
        memcpy(*room + *len + SFT__PK_DECODE, line, *len);
        return SFT_OK;
    }
    if (status != SFT_E_LIMIT) {
        if (err != NULL) {
            *err = local;
        }
        return status;
    }
    SFT_TRY(line_end(in, at, &end, err));
    if (end - at > UINT32_MAX / 2 - SFT__PK_DECODE) {
        return sft__base_fail_at(err, SFT_E_LIMIT, at, "pickle-line: a line of %llu bytes",
                                 (unsigned long long)(end - at));
    }
    *len = (size_t)(end - at);
    SFT_TRY(sft__import_alloc(job, room, 2 * *len + SFT__PK_DECODE, 1, err));
    return sft_source_read(in->source, at, *room + *len + SFT__PK_DECODE, *len, err);
}

sft_status sft__import_pk_text(sft__import_pk_in *in, sft__import *job, uint64_t n,
                               const char **text, sft_error *err) {
    const uint8_t *p;
    char *copy;

    if (n > in->end - sft__import_pk_tell(in)) {
        return ended(in, err);
    }
    if (n <= SFT__PK_WINDOW) {
        SFT_TRY(sft__import_pk_need(in, (size_t)n, &p, err));
        SFT_TRY(sft__import_copy(job, &copy, p, (size_t)n, err));
    } else {
        if (n >= UINT32_MAX) {
            return sft__base_fail_at(err, SFT_E_LIMIT, sft__import_pk_tell(in),
                                     "pickle-string: a string of %llu bytes",
                                     (unsigned long long)n);
        }
        SFT_TRY(sft__import_alloc(job, &copy, (size_t)n + 1, 1, err));
        SFT_TRY(sft_source_read(in->source, sft__import_pk_tell(in), copy, (size_t)n, err));
        copy[n] = '\0';
        SFT_TRY(sft__import_pk_skip(in, n, err));
    }
    *text = copy;
    return SFT_OK;
}

bool sft__import_pk_decimal(const char *text, size_t len, int64_t *value) {
    const bool negative = len > 0 && text[0] == '-';
    uint64_t v = 0;
    size_t i = negative || (len > 0 && text[0] == '+') ? 1 : 0;

    if (i == len || len > 19) {
        return false; /* 18 digits cannot overflow */
    }
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        v = v * 10 + (uint64_t)(text[i] - '0');
    }
    if (v > INT64_MAX) {
        return false;
    }
    *value = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

/* n hexadecimal digits. */
static bool hex_read(const char *src, size_t left, size_t n, uint32_t *value) {
    *value = 0;
    if (left < n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const int d = sft__base_hex_value(src[i]);
        if (d < 0) {
            return false;
        }
        *value = *value << 4 | (uint32_t)d;
    }
    return true;
}

/* Lone surrogates become three bytes as Python's surrogatepass has them: no UTF-8, so no name. */
static size_t put_char(char *dst, uint32_t c) {
    if (c >= 0xd800 && c <= 0xdfff) {
        dst[0] = (char)(0xe0 | c >> 12);
        dst[1] = (char)(0x80 | (c >> 6 & 0x3f));
        dst[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    return sft__base_utf8_encode(dst, c);
}

size_t sft__import_pk_repr(char *dst, const char *src, size_t len) {
    static const char from[] = "\\'\"abfnrtv";
    static const char to[] = "\\'\"\a\b\f\n\r\t\v";
    size_t n = 0;

    if (len < 2 || (src[0] != '\'' && src[0] != '"') || src[len - 1] != src[0]) {
        return SIZE_MAX;
    }
    for (size_t i = 1; i + 1 < len; i++) {
        uint32_t c = (uint8_t)src[i];
        if (c == '\\') {
            const char e = i + 2 < len ? src[++i] : '\0';
            const char *known = e != '\0' ? strchr(from, e) : NULL;
            if (known != NULL) {
                c = (uint8_t)to[known - from];
            } else if (e == 'x' && hex_read(src + i + 1, len - 2 - i, 2, &c)) {
                i += 2;
            } else {
                return SIZE_MAX;
            }
        }
        n += put_char(dst + n, c);
    }
    return n;
}

size_t sft__import_pk_raw_unicode(char *dst, const char *src, size_t len) {
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        uint32_t c = (uint8_t)src[i];
        if (c == '\\' && i + 1 < len && (src[i + 1] == 'u' || src[i + 1] == 'U')) {
            const size_t digits = src[i + 1] == 'u' ? 4 : 8;
            if (!hex_read(src + i + 2, len - i - 2, digits, &c) || c > 0x10ffff) {
                return SIZE_MAX;
            }
            i += 1 + digits;
        }
        n += put_char(dst + n, c);
    }
    return n;
}
