/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/json.c - see json.h. What is accepted equals serde_json with its default features, down to
 * the numbers that it calls out of range and the depth at which it stops.
 */
#include "base/text/json.h"
#include "base/text/utf8.h"

const char *sft__base_json_fail(sft__base_json *j, const char *at, const char *sentence) {
    j->fault_at = at < j->end ? at : j->end;
    j->fault = sentence;
    j->fault_expected = false;
    return NULL;
}

const char *sft__base_json_expected(sft__base_json *j, const char *at, const char *needed) {
    (void)sft__base_json_fail(j, at, needed);
    j->fault_expected = true;
    return NULL;
}

/* ---------------------------------------------------------------- strings */

/* Four hexadecimal digits; -1 if they are not. */
static int32_t hex4(const char *p) {
    int32_t v = 0;
    for (unsigned i = 0; i < 4; i++) {
        const int digit = sft__base_hex_value(p[i]);
        if (digit < 0) {
            return -1;
        }
        v = v * 16 + digit;
    }
    return v;
}

/* p at a backslash: the code point that the escape stands for and the position behind it. */
static const char *read_escape(sft__base_json *j, const char *p, uint32_t *cp) {
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    int32_t unit;

    for (unsigned i = 0; from[i] != '\0'; i++) {
        if (p[1] == from[i]) {
            *cp = (uint8_t)to[i];
            return p + 2;
        }
    }
    if (p[1] != 'u') {
        return sft__base_json_fail(j, p, "unknown escape in a string");
    }
    unit = hex4(p + 2);
    if (unit < 0) {
        return sft__base_json_fail(j, p, "\\u needs four hexadecimal digits");
    }
    *cp = (uint32_t)unit;
    if (unit < 0xd800 || unit > 0xdfff) {
        return p + 6;
    }
    const int32_t second = p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
    if (unit > 0xdbff || second < 0xdc00 || second > 0xdfff) {
        return sft__base_json_fail(j, p, "surrogate escape without its other half");
    }
    *cp = 0x10000 + ((*cp - 0xd800) << 10) + ((uint32_t)second - 0xdc00);
    return p + 12;
}

const char *sft__base_json_read(sft__base_json *j, const char *p, sft__base_json_str *out) {
    const char *q = sft__base_json_plain_end(p + 1);

    out->raw = p + 1;
    out->escaped = false;
    while (*q != '"') {
        uint32_t cp;
        if (q >= j->end) {
            return sft__base_json_fail(j, p, "string without a closing quote");
        }
        if (*q != '\\') {
            return sft__base_json_fail(j, q, "control character in a string must be escaped");
        }
        out->escaped = true;
        q = read_escape(j, q, &cp);
        if (q == NULL) {
            return NULL;
        }
        q = sft__base_json_plain_end(q);
    }
    out->len = (size_t)(q - out->raw);
    return q + 1;
}

/* The next decoded character of a checked string as 1 to 4 bytes. */
static size_t next_char(const char **at, char bytes[4]) {
    sft__base_json unused;
    uint32_t cp = 0;
    if (**at != '\\') {
        bytes[0] = *(*at)++;
        return 1;
    }
    *at = read_escape(&unused, *at, &cp);
    return sft__base_utf8_encode(bytes, cp);
}

size_t sft__base_json_decode(char *dst, const sft__base_json_str *s) {
    const char *p = s->raw;
    const char *const end = p + s->len;
    char *d = dst;

    while (p < end) {
        const char *q = memchr(p, '\\', (size_t)(end - p));
        const size_t plain = (size_t)((q == NULL ? end : q) - p);
        memmove(d, p, plain);
        d += plain;
        p += plain;
        if (p < end) {
            char bytes[4];
            const size_t n = next_char(&p, bytes);
            memcpy(d, bytes, n);
            d += n;
        }
    }
    return (size_t)(d - dst);
}

bool sft__base_json_is(const sft__base_json_str *s, const char *text, size_t len) {
    const char *p = s->raw;
    const char *const end = p + s->len;
    size_t at = 0;

    if (!s->escaped) {
        return s->len == len && memcmp(p, text, len) == 0;
    }
    while (p < end) {
        char bytes[4];
        const size_t n = next_char(&p, bytes);
        if (n > len - at || memcmp(bytes, text + at, n) != 0) {
            return false;
        }
        at += n;
    }
    return at == len;
}

const char *sft__base_json_keep(sft__base_arena *arena, char *raw, const sft__base_json_str *s,
                                size_t *len) {
    char *copy;
    if (!s->escaped) {
        *len = s->len;
        raw[s->len] = '\0';
        return raw;
    }
    copy = sft__base_arena_alloc(arena, s->len + 1, 1); /* a decoded string is shorter */
    if (copy != NULL) {
        *len = sft__base_json_decode(copy, s);
        copy[*len] = '\0';
    }
    return copy;
}

/* ---------------------------------------------------------------- numbers */

/* serde_json makes a double of every number that is no 64-bit integer: a significand of at most 64
 * bits (further digits only count, or are dropped behind the point) times a power of ten, rounded
 * twice. Which of them become infinite, and so "out of range", is this table: for the exponents 289
 * to 308 the largest significand that stays finite. Below none overflows, above all but 0 do. */
static bool is_finite_decimal(uint64_t significand, int64_t exponent) {
    static const uint64_t largest[20] = {UINT64_C(17976931348623156224),
                                         UINT64_C(1797693134862315648),
                                         UINT64_C(179769313486231599),
                                         UINT64_C(17976931348623157),
                                         UINT64_C(1797693134862315),
                                         UINT64_C(179769313486231),
                                         UINT64_C(17976931348623),
                                         UINT64_C(1797693134862),
                                         UINT64_C(179769313486),
                                         UINT64_C(17976931348),
                                         UINT64_C(1797693134),
                                         UINT64_C(179769313),
                                         UINT64_C(17976931),
                                         UINT64_C(1797693),
                                         UINT64_C(179769),
                                         UINT64_C(17976),
                                         UINT64_C(1797),
                                         UINT64_C(179),
                                         UINT64_C(17),
                                         UINT64_C(1)};
    if (exponent < 289 || significand == 0) {
        return true;
    }
    return exponent <= 308 && significand <= largest[exponent - 289];
}

/* value * 10 + digit, if that fits. */
static inline bool append_digit(uint64_t *value, char c) {
    const uint64_t digit = (uint64_t)(c - '0');
    const uint64_t tenth = UINT64_MAX / 10;
    if (*value > tenth || (*value == tenth && digit > UINT64_MAX % 10)) {
        return false;
    }
    *value = *value * 10 + digit;
    return true;
}

/* p behind the integer digits, at '.', 'e' or 'E': the rest of the number. */
static const char *number_tail(sft__base_json *j, const char *p, uint64_t significand,
                               int64_t exponent) {
    if (*p == '.') {
        bool dropping = false;
        if (!sft__base_is_digit(*++p)) {
            return sft__base_json_expected(j, p, "expected a digit behind the decimal point");
        }
        for (; sft__base_is_digit(*p); p++) {
            dropping = dropping || !append_digit(&significand, *p);
            exponent -= dropping ? 0 : 1;
        }
    }
    if (*p == 'e' || *p == 'E') {
        const bool minus = *++p == '-';
        uint64_t e = 0;
        if (*p == '+' || *p == '-') {
            p++;
        }
        if (!sft__base_is_digit(*p)) {
            return sft__base_json_expected(j, p, "expected a digit in the exponent");
        }
        for (; sft__base_is_digit(*p); p++) {
            if (e <= INT32_MAX) { /* beyond that only its sign and size class matter */
                e = e * 10 + (uint64_t)(*p - '0');
            }
        }
        if (e > INT32_MAX) {
            exponent = minus || significand == 0 ? 0 : INT32_MAX;
            significand = minus ? 0 : significand;
        } else {
            exponent += minus ? -(int64_t)e : (int64_t)e;
        }
    }
    if (!is_finite_decimal(significand, exponent)) {
        return sft__base_json_fail(j, p, "number out of range");
    }
    return p;
}

const char *sft__base_json_number(sft__base_json *j, const char *p, sft__base_json_num *out) {
    const char *const first = p;
    const bool minus = *p == '-';
    uint64_t value = 0;
    int64_t dropped = 0;

    p += minus ? 1 : 0;
    if (!sft__base_is_digit(*p)) {
        return sft__base_json_expected(j, p, "expected a digit");
    }
    if (*p == '0' && sft__base_is_digit(p[1])) {
        return sft__base_json_fail(j, p, "number with a leading zero");
    }
    for (; sft__base_is_digit(*p); p++) {
        if (dropped != 0 || !append_digit(&value, *p)) {
            dropped++;
        }
    }
    out->value = value;
    out->is_uint = !minus && dropped == 0 && *p != '.' && *p != 'e' && *p != 'E';
    if (out->is_uint) {
        return p;
    }
    p = number_tail(j, p, value, dropped);
    if (p == NULL && !j->fault_expected) {
        j->fault_at = first;
    }
    return p;
}

/* ---------------------------------------------------------------- any value */

static const char *skip_literal(sft__base_json *j, const char *p) {
    static const char *const words[3] = {"true", "false", "null"};
    for (unsigned i = 0; i < 3; i++) {
        const size_t len = strlen(words[i]);
        if (memcmp(p, words[i], len) == 0) {
            return p + len;
        }
    }
    return sft__base_json_expected(j, p, "expected a value");
}

static const char *skip_scalar(sft__base_json *j, const char *p) {
    sft__base_json_str s;
    sft__base_json_num n;
    if (*p == '"') {
        return sft__base_json_read(j, p, &s);
    }
    if (sft__base_is_digit(*p) || *p == '-') {
        return sft__base_json_number(j, p, &n);
    }
    return skip_literal(j, p);
}

const char *sft__base_json_key(sft__base_json *j, const char *p, sft__base_json_str *name,
                               const char *quote, const char *colon) {
    p = *p == '"' ? sft__base_json_read(j, p, name) : sft__base_json_expected(j, p, quote);
    p = p != NULL ? sft__base_json_blank(p) : NULL;
    if (p != NULL && *p != ':') {
        return sft__base_json_expected(j, p, colon);
    }
    return p != NULL ? sft__base_json_blank(p + 1) : NULL;
}

static const char *skip_key(sft__base_json *j, const char *p) {
    sft__base_json_str name;
    return sft__base_json_key(j, p, &name, "expected a member name in quotes",
                              "expected ':' behind a member name");
}

/* The open containers are a stack of bits: 1 is an object. */
typedef struct open_stack {
    uint64_t bits[2];
    unsigned depth;
    unsigned base;
} open_stack;

static inline bool top_is_object(const open_stack *s) {
    const unsigned i = s->depth - 1;
    return (s->bits[i / 64] >> (i % 64)) & 1;
}

/* p behind a value: closes what ends here. Gives the position of the next value, or sets *done. */
static const char *after_value(sft__base_json *j, open_stack *s, const char *p, bool *done) {
    for (; s->depth > s->base; s->depth--) {
        const bool object = top_is_object(s);
        p = sft__base_json_blank(p);
        if (*p == ',') {
            p = sft__base_json_blank(p + 1);
            return object ? skip_key(j, p) : p;
        }
        if (*p != (object ? '}' : ']')) {
            return sft__base_json_expected(j, p,
                                           object ? "expected ',' or '}'" : "expected ',' or ']'");
        }
        p++;
    }
    *done = true;
    return p;
}

const char *sft__base_json_value(sft__base_json *j, const char *p, unsigned depth) {
    open_stack s = {{0, 0}, depth, depth};
    bool done = false;

    while (!done && p != NULL) {
        if (*p == '{' || *p == '[') {
            const bool object = *p == '{';
            const uint64_t bit = UINT64_C(1) << (s.depth % 64);
            if (s.depth >= SFT__JSON_DEPTH) {
                return sft__base_json_fail(j, p, "values nested deeper than 127 levels");
            }
            s.bits[s.depth / 64] = (s.bits[s.depth / 64] & ~bit) | (object ? bit : 0);
            s.depth++;
            p = sft__base_json_blank(p + 1);
            if (*p != (object ? '}' : ']')) {
                p = object ? skip_key(j, p) : p;
                continue;
            }
            s.depth--;
            p++;
        } else {
            p = skip_scalar(j, p);
        }
        if (p != NULL) {
            p = after_value(j, &s, p, &done);
        }
    }
    return p;
}

const char *sft__base_json_members(sft__base_json *j, const char *p, sft__base_json_member visit,
                                   void *ctx) {
    bool more;

    if (*p != '{') {
        return sft__base_json_expected(j, p, "an object is needed");
    }
    for (p = sft__base_json_first(p, '}', &more); p != NULL && more;) {
        sft__base_json_str name;
        p = sft__base_json_key(j, p, &name, "a key in quotes is needed", "a colon is needed");
        p = p != NULL ? visit(ctx, j, &name, p) : NULL;
        p = sft__base_json_next(j, p, '}', "a comma or a closing brace is needed", &more);
    }
    return p;
}

/* ---------------------------------------------------------------- survey */

bool sft__base_json_survey_portable(const char *text, size_t len, size_t *braces) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t low7 = ones * 0x7f;
    uint64_t seen = 0; /* the bits of everything */
    size_t count = 0;
    size_t at = 0;

    while (len - at >= 8) {
        /* each byte of sum counts at most 255 hits before it is emptied */
        const size_t words = (len - at) / 8 < 255 ? (len - at) / 8 : 255;
        uint64_t sum = 0;
        for (size_t i = 0; i < words; i++, at += 8) {
            const uint64_t w = sft__base_load_le64(text + at);
            const uint64_t x = w ^ (ones * '{');
            seen |= w;
            sum += (~(((x & low7) + low7) | x) >> 7) & ones; /* 1 where x is 0, without borrows */
        }
        for (unsigned b = 0; b < 64; b += 8) {
            count += (size_t)((sum >> b) & 0xff);
        }
    }
    for (; at < len; at++) {
        seen |= (uint8_t)text[at];
        count += text[at] == '{' ? 1 : 0;
    }
    *braces = count;
    return (seen & (ones << 7)) == 0;
}

bool sft__base_json_survey(const char *text, size_t len, size_t *braces) {
#if SFT_SSE2
    const __m128i brace = _mm_set1_epi8('{');
    const __m128i zero = _mm_setzero_si128();
    __m128i any = zero;
    size_t count = 0;
    size_t rest;
    size_t at = 0;

    while (len - at >= 64) {
        /* each lane counts at most 4 * 63 = 252 hits before it is emptied */
        const size_t blocks = (len - at) / 64 < 63 ? (len - at) / 64 : 63;
        __m128i sum = zero;
        for (size_t b = 0; b < blocks; b++, at += 64) {
            const __m128i *const p = (const __m128i *)(const void *)(text + at);
            const __m128i v0 = _mm_loadu_si128(p);
            const __m128i v1 = _mm_loadu_si128(p + 1);
            const __m128i v2 = _mm_loadu_si128(p + 2);
            const __m128i v3 = _mm_loadu_si128(p + 3);
            const __m128i e01 = _mm_add_epi8(_mm_cmpeq_epi8(v0, brace), _mm_cmpeq_epi8(v1, brace));
            const __m128i e23 = _mm_add_epi8(_mm_cmpeq_epi8(v2, brace), _mm_cmpeq_epi8(v3, brace));
            any = _mm_or_si128(any, _mm_or_si128(_mm_or_si128(v0, v1), _mm_or_si128(v2, v3)));
            sum = _mm_sub_epi8(sum, _mm_add_epi8(e01, e23));
        }
        const __m128i total = _mm_sad_epu8(sum, zero);
        count += (size_t)_mm_cvtsi128_si32(total) + (size_t)_mm_extract_epi16(total, 4);
    }
    const bool ascii = sft__base_json_survey_portable(text + at, len - at, &rest);
    *braces = count + rest;
    return ascii && _mm_movemask_epi8(any) == 0;
#else
    return sft__base_json_survey_portable(text, len, braces);
#endif
}
