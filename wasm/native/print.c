/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * print.c - snprintf and vsnprintf as far as the library uses them: %s %c %d %u %x %X %% with the lengths l, ll and z,
 * the flag 0, widths and precisions; %e and %g by JavaScript, whose digits are exact. The C library's would bring
 * streams, locales and long doubles along.
 */
#include "host.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct print {
    char *dst;
    size_t room; /* less than what is printed: the rest is only counted */
    size_t len;
} print;

/* One conversion. */
typedef struct spec {
    size_t width;
    int precision; /* -1: none */
    bool zero;
    int longs; /* of l; z is one, as size_t is unsigned long */
} spec;

static void put(print *p, const char *text, size_t len) {
    if (p->len < p->room) {
        const size_t left = p->room - p->len;
        memcpy(p->dst + p->len, text, len < left ? len : left);
    }
    p->len += len;
}

static void fill(print *p, char c, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put(p, &c, 1);
    }
}

static void put_number(print *p, const spec *s, uint64_t v, bool negative, uint32_t base,
                       const char *digits) {
    char text[24];
    size_t at = sizeof text;

    do {
        text[--at] = digits[v % base];
        v /= base;
    } while (v > 0);
    const size_t len = sizeof text - at + negative;
    const size_t pad = s->width > len ? s->width - len : 0;
    fill(p, ' ', s->zero ? 0 : pad);
    fill(p, '-', negative);
    fill(p, '0', s->zero ? pad : 0);
    put(p, text + at, sizeof text - at);
}

static void put_text(print *p, const spec *s, const char *text) {
    const size_t len = s->precision >= 0 ? strnlen(text, (size_t)s->precision) : strlen(text);
    fill(p, ' ', s->width > len ? s->width - len : 0);
    put(p, text, len);
}

/* A number of the format, or the next argument in place of it. */
static const char *read_number(const char *f, int *out, va_list *args) {
    if (*f == '*') {
        *out = va_arg(*args, int);
        return f + 1;
    }
    for (*out = 0; *f >= '0' && *f <= '9'; f++) {
        *out = *out * 10 + (*f - '0');
    }
    return f;
}

static void convert(print *p, const spec *s, char c, va_list *args) {
    char text[128];

    switch (c) {
    case 'd': {
        const int64_t v = s->longs > 1    ? va_arg(*args, long long)
                          : s->longs == 1 ? va_arg(*args, long)
                                          : va_arg(*args, int);
        put_number(p, s, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0, 10, "0123456789");
        break;
    }
    case 'u':
    case 'x':
    case 'X': {
        const uint64_t v = s->longs > 1    ? va_arg(*args, unsigned long long)
                           : s->longs == 1 ? va_arg(*args, unsigned long)
                                           : va_arg(*args, unsigned);
        put_number(p, s, v, false, c == 'u' ? 10 : 16,
                   c == 'X' ? "0123456789ABCDEF" : "0123456789abcdef");
        break;
    }
    case 's':
        put_text(p, s, va_arg(*args, const char *));
        break;
    case 'c':
        text[0] = (char)va_arg(*args, int);
        put(p, text, 1);
        break;
    case 'e':
    case 'g': {
        const double v = va_arg(*args, double);
        put(p, text,
            host_real_text(v, c == 'g', s->precision < 0 ? 6 : (uint32_t)s->precision, text,
                           sizeof text));
        break;
    }
    default:
        put(p, &c, 1);
    }
}

int vsnprintf(char *restrict dst, size_t size, const char *restrict format, va_list given) {
    print p = {dst, size > 0 ? size - 1 : 0, 0};
    va_list args;

    va_copy(args, given);
    for (const char *f = format; *f != '\0';) {
        const char *percent = f;
        while (*percent != '\0' && *percent != '%') {
            percent++;
        }
        put(&p, f, (size_t)(percent - f));
        if (*percent == '\0') {
            break;
        }
        spec s = {0, -1, false, 0};
        int width;
        f = percent + 1;
        for (; *f == '0'; f++) {
            s.zero = true;
        }
        f = read_number(f, &width, &args);
        s.width = width > 0 ? (size_t)width : 0;
        if (*f == '.') {
            f = read_number(f + 1, &s.precision, &args);
        }
        for (; *f == 'l' || *f == 'z'; f++) {
            s.longs++;
        }
        convert(&p, &s, *f, &args);
        f += *f != '\0';
    }
    va_end(args);
    if (size > 0) {
        dst[p.len < p.room ? p.len : p.room] = '\0';
    }
    return (int)p.len;
}

int snprintf(char *restrict dst, size_t size, const char *restrict format, ...) {
    va_list args;

    va_start(args, format);
    const int n = vsnprintf(dst, size, format, args);
    va_end(args);
    return n;
}
