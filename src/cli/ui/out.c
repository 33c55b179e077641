/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/out.c - the buffered standard output, text widths and sizes. A failure, a closed pipe among
 * them, is remembered and reported once, by main. Read out.h first.
 */
#include "cli/ui/out.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include <sft/extend.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write_out(cli_out *o, const void *data, size_t size) {
    if (o->closed || o->mute || size == 0) {
        return;
    }
    if (o->text != NULL) {
        cli_text_add(o->text, data, size);
        return;
    }
    const int error =
        o->file != NULL ? cli_sys_put(o->file, data, size) : cli_sys_write(o->fd, data, size);
    if (error != 0) {
        o->closed = true;
        o->failed = error;
    }
}

void cli_flush(cli_out *o) {
    write_out(o, o->buffer, o->used);
    o->used = 0;
}

void cli_put(cli_out *o, const void *data, size_t size) {
    if (size > sizeof o->buffer - o->used) {
        cli_flush(o);
        if (size >= sizeof o->buffer) {
            write_out(o, data, size);
            return;
        }
    }
    if (size > 0) { /* data may be NULL if not */
        memcpy(o->buffer + o->used, data, size);
        o->used += size;
    }
}

void cli_puts(cli_out *o, const char *text) {
    cli_put(o, text, strlen(text));
}

void cli_printf(cli_out *o, const char *format, ...) {
    char text[1024];
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0) {
        cli_put(o, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    }
}

void cli_put_blanks(cli_out *o, size_t count) {
    static const char blanks[] = "                                ";
    while (count > 0) {
        const size_t n = count < sizeof blanks - 1 ? count : sizeof blanks - 1;
        cli_put(o, blanks, n);
        count -= n;
    }
}

/* Escaping takes at most 4 bytes for each one of the source ("\x1b"), plus the terminator. */
enum { ESCAPE_STEP = 256, ESCAPE_ROOM = 4 * (ESCAPE_STEP + 4) + 8 };

void cli_put_escaped(cli_out *o, const char *text, size_t len) {
    char room[ESCAPE_ROOM];

    for (size_t i = 0; i < len;) {
        size_t n = len - i < ESCAPE_STEP ? len - i : ESCAPE_STEP;
        /* end between characters: a sequence has at most 3 continuation bytes */
        for (size_t k = 0; k < 3 && i + n < len && ((unsigned char)text[i + n] & 0xc0) == 0x80;
             k++) {
            n++;
        }
        cli_put(o, room, sft_escape(room, sizeof room, text + i, n));
        i += n;
    }
}

void cli_put_name(cli_out *o, const char *operand) {
    const char *name = strcmp(operand, "-") == 0 ? "standard input" : operand;
    cli_put_escaped(o, name, strlen(name));
}

/* ---------------------------------------------------------------- characters */

uint32_t cli_decode(const char *text, size_t len, size_t *used) {
    const unsigned char *s = (const unsigned char *)text;
    const uint32_t first = s[0];
    const size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t cp = n == 1 ? first : n == 2 ? first & 0x1f : n == 3 ? first & 0x0f : first & 0x07;

    *used = 1;
    if (n == 0 || n > len || first > 0xf4) {
        return 0xfffd;
    }
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0xfffd;
        }
        cp = (cp << 6) | (s[i] & 0x3f);
    }
    if ((n == 3 && cp < 0x800) || (n == 4 && (cp < 0x10000 || cp > 0x10ffff)) ||
        (cp >= 0xd800 && cp <= 0xdfff)) {
        return 0xfffd;
    }
    *used = n;
    return cp;
}

size_t cli_whole_characters(const char *text, size_t len) {
    size_t n = len;
    while (n > 0 && len - n < 3 && ((unsigned char)text[n] & 0xc0) == 0x80) {
        n--; /* text[n] begins what follows: a continuation byte belongs to what is before it */
    }
    return n;
}

typedef struct range {
    uint32_t first;
    uint32_t last;
} range;

static bool in_ranges(uint32_t cp, const range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (cp >= ranges[i].first && cp <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

static size_t char_width(uint32_t cp) {
    /* Combining marks and variation selectors. */
    static const range none[] = {
        {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
        {0x64b, 0x65f},   {0x93c, 0x93c},   {0x94d, 0x94d},   {0xe31, 0xe31},
        {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
        {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef}};
    /* East Asian wide and full width, emoji (Unicode Annex 11). */
    static const range wide[] = {
        {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},
        {0x4e00, 0x9fff},   {0xa000, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
        {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
        {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

    if (cp < 0x300) {
        return 1;
    }
    if (in_ranges(cp, none, sizeof none / sizeof none[0])) {
        return 0;
    }
    return in_ranges(cp, wide, sizeof wide / sizeof wide[0]) ? 2 : 1;
}

size_t cli_width(const char *text, size_t len) {
    size_t width = 0;
    for (size_t i = 0; i < len;) {
        if ((unsigned char)text[i] < 0x80) {
            width++;
            i++;
            continue;
        }
        size_t used;
        width += char_width(cli_decode(text + i, len - i, &used));
        i += used;
    }
    return width;
}

/* ---------------------------------------------------------------- sizes */

const char *cli_grouped(char text[32], uint64_t value) {
    char digits[24];
    size_t n = 0;
    size_t at = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0) { /* 20 digits and 6 commas fit in 32 */
        text[at++] = digits[--n];
        if (n > 0 && n % 3 == 0) {
            text[at++] = ',';
        }
    }
    text[at] = '\0';
    return text;
}

/* value / base^k with one decimal and the k-th unit, without the detour through double. */
static const char *scaled(char text[32], uint64_t value, uint64_t base, const char *const *units,
                          size_t unit_count) {
    uint64_t divisor = 1;
    size_t unit = 0;

    while (unit + 1 < unit_count && value / divisor >= base) {
        divisor *= base; /* at most base^6 <= value < 2^64 */
        unit++;
    }
    if (unit == 0) {
        (void)snprintf(text, 32, "%u%s", (unsigned)value, units[0]);
        return text;
    }
    uint64_t whole = value / divisor;
    uint64_t tenth = (uint64_t)((double)(value % divisor) * 10.0 / (double)divisor + 0.5);
    if (tenth >= 10) {
        tenth = 0;
        whole++;
    }
    (void)snprintf(text, 32, "%llu.%u%s", (unsigned long long)whole, (unsigned)tenth, units[unit]);
    return text;
}

const char *cli_size(char text[32], uint64_t bytes, cli_units units) {
    static const char *const iec[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    static const char *const si[] = {" B", " kB", " MB", " GB", " TB", " PB", " EB"};

    if (units == CLI_PLAIN) {
        (void)snprintf(text, 32, "%llu", (unsigned long long)bytes);
        return text;
    }
    return scaled(text, bytes, units == CLI_SI ? 1000 : 1024, units == CLI_SI ? si : iec, 7);
}

const char *cli_count_short(char text[32], uint64_t value) {
    static const char *const units[] = {"", " K", " M", " B", " T"};
    return scaled(text, value, 1000, units, 5);
}
