/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_text.c - texts to values of GGUF's metadata: integers in their range, real numbers,
 * lists. Read first: gguf_meta.h.
 */
#include "base/checked.h"
#include "base/text/json.h"
#include "import/core/decimal.h"
#include "import/gguf/gguf_meta.h"

enum { DIGITS_MAX = 18, EXPONENT_MAX = 400, POWERS = 22 };

bool sft__import_gguf_type_read(const char *text, size_t len, uint32_t *type, uint32_t *element) {
    const bool list = len > 2 && text[0] == '[' && text[len - 1] == ']';
    const char *name = list ? text + 1 : text;
    const size_t n = list ? len - 2 : len;

    for (uint32_t t = 0; t < SFT__GGUF_VALUES; t++) {
        const char *word = sft__import_gguf_value_name(t);
        if (t != SFT__GGUF_ARRAY && strlen(word) == n && memcmp(word, name, n) == 0) {
            *type = list ? SFT__GGUF_ARRAY : t;
            *element = t;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- numbers */

static bool is_text(const char *text, size_t len, const char *what) {
    return strlen(what) == len && memcmp(text, what, len) == 0;
}

/* A sign and digits. */
static bool integer(const char *text, size_t len, bool *negative, uint64_t *v) {
    size_t at = 0;

    *negative = len > 0 && text[0] == '-';
    at += *negative;
    *v = 0;
    if (at == len) {
        return false;
    }
    for (; at < len; at++) {
        if (text[at] < '0' || text[at] > '9' || !sft__base_mul64(*v, 10, v) ||
            !sft__base_add64(*v, (uint64_t)(text[at] - '0'), v)) {
            return false;
        }
    }
    return true;
}

/* m * 10^e. Exact powers where one step does it: then rounded once, if m is exact, too. */
static double power(double m, int e) {
    static const double tens[POWERS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    while (e > 0 && m != 0) {
        const int step = e < POWERS ? e : POWERS;
        m *= tens[step];
        e -= step;
    }
    while (e < 0 && m != 0) {
        const int step = -e < POWERS ? -e : POWERS;
        m /= tens[step];
        e += step;
    }
    return m;
}

/* 1, -2.5, 1e-05; NaN, Infinity, -Infinity. The nearest double; of more than 40 digits those beyond
 * the 18th are dropped. */
static bool real(const char *text, size_t len, double *v) {
    const bool negative = len > 0 && text[0] == '-';
    size_t at = negative;
    uint64_t m = 0;
    int digits = 0;
    int shift = 0;
    int exponent = 0;
    bool point = false;
    bool any = false;

    if (is_text(text, len, "NaN") || is_text(text + at, len - at, "Infinity")) {
        const uint64_t bits = text[at] == 'N' ? UINT64_C(0x7ff8000000000000)
                              : negative      ? UINT64_C(0xfff0000000000000)
                                              : UINT64_C(0x7ff0000000000000);
        memcpy(v, &bits, sizeof *v);
        return true;
    }
    for (; at < len && (text[at] == '.' ? !point : text[at] >= '0' && text[at] <= '9'); at++) {
        if (text[at] == '.') {
            point = true;
            continue;
        }
        any = true;
        const bool keep = digits < DIGITS_MAX;
        m = keep ? m * 10 + (uint64_t)(text[at] - '0') : m;
        digits += keep && m != 0;
        shift += keep ? -(int)point : (int)!point;
        if (shift > EXPONENT_MAX || shift < -2 * EXPONENT_MAX) {
            return false;
        }
    }
    if (any && at < len && (text[at] == 'e' || text[at] == 'E')) {
        const bool below = at + 1 < len && text[at + 1] == '-';
        const bool above = at + 1 < len && text[at + 1] == '+';
        at += below || above ? 2u : 1u;
        any = at < len;
        for (; at < len && text[at] >= '0' && text[at] <= '9' && exponent <= EXPONENT_MAX; at++) {
            exponent = exponent * 10 + (text[at] - '0');
        }
        exponent = below ? -exponent : exponent;
    }
    if (!any || at != len) {
        return false;
    }
    const int e = exponent + shift;
    const bool once = m <= UINT64_C(1) << 53 && digits < DIGITS_MAX && e >= -POWERS && e <= POWERS;
    if (!once && sft__import_decimal_read(text, len, v)) {
        return true;
    }
    *v = power((double)m, e);
    *v = negative ? -*v : *v;
    return true;
}

static void put(sft__base_buf *out, uint64_t v, uint32_t bytes) {
    uint8_t room[8];
    sft__base_store_le64(room, v);
    sft__base_buf_add(out, room, bytes);
}

static bool add_integer(sft__base_buf *out, const char *text, size_t len, uint32_t type) {
    const uint32_t bytes = sft__import_gguf_value_bytes(type);
    const bool is_signed = type == SFT__GGUF_I8 || type == SFT__GGUF_I16 || type == SFT__GGUF_I32 ||
                           type == SFT__GGUF_I64;
    const uint64_t all = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * bytes)) - 1;
    bool negative;
    uint64_t v;

    if (!integer(text, len, &negative, &v)) {
        return false;
    }
    const uint64_t most = is_signed ? all / 2 + negative : negative ? 0 : all;
    put(out, negative ? 0 - v : v, bytes);
    return v <= most;
}

static bool add_real(sft__base_buf *out, const char *text, size_t len, uint32_t type) {
    uint64_t bits;
    double v;

    if (!real(text, len, &v)) {
        return false;
    }
    memcpy(&bits, &v, sizeof bits);
    if (type == SFT__GGUF_F32) {
        const float f = (float)v;
        uint32_t low;
        memcpy(&low, &f, sizeof low);
        bits = low;
    }
    put(out, bits, sft__import_gguf_value_bytes(type));
    return true;
}

static bool add_scalar(sft__base_buf *out, const char *text, size_t len, uint32_t type) {
    if (type == SFT__GGUF_STRING) {
        put(out, len, 8);
        sft__base_buf_add(out, text, len);
        return true;
    }
    if (type == SFT__GGUF_BOOL) {
        put(out, is_text(text, len, "true"), 1);
        return is_text(text, len, "true") || is_text(text, len, "false");
    }
    return type == SFT__GGUF_F32 || type == SFT__GGUF_F64 ? add_real(out, text, len, type)
                                                          : add_integer(out, text, len, type);
}

/* ---------------------------------------------------------------- lists */

/* The next element from p on, in brackets: a string of JSON, or what stands before a comma or the
 * bracket. Returns behind it; NULL: neither. */
static const char *element_at(const char *p, const char *end, sft__base_json_str *s, bool *quoted) {
    sft__base_json j = {.end = end};

    memset(s, 0, sizeof *s);
    *quoted = *p == '"';
    if (*quoted) {
        return sft__base_json_read(&j, p, s);
    }
    s->raw = p;
    while (p < end && *p != ',' && *p != ']' && *p != ' ' && *p != '"' && *p != '[') {
        p++;
    }
    s->len = (size_t)(p - s->raw);
    return s->len > 0 ? p : NULL;
}

/* Behind an element: the next one (*more), or the end of the list and of the text. */
static const char *element_next(const char *p, const char *end, bool *more) {
    p = sft__base_json_blank(p);
    *more = p < end && *p == ',';
    if (*more) {
        return sft__base_json_blank(p + 1);
    }
    return p < end && *p == ']' && sft__base_json_blank(p + 1) >= end ? p + 1 : NULL;
}

static bool add_element(sft__base_buf *out, const sft__base_json_str *s, bool quoted,
                        uint32_t type) {
    if (quoted != (type == SFT__GGUF_STRING)) {
        return false;
    }
    if (!quoted || !s->escaped) {
        return add_scalar(out, s->raw, s->len, type);
    }
    const size_t at = out->len;
    put(out, 0, 8);
    if (!sft__base_buf_reserve(out, s->len)) {
        return true; /* the buffer has noted it */
    }
    const size_t n = sft__base_json_decode(out->data + out->len, s);
    out->len += n;
    sft__base_store_le64(out->data + at, n);
    return true;
}

static bool add_list(sft__base_buf *out, const char *text, size_t len, uint32_t type,
                     sft__import_gguf_kept kept) {
    const char *end = text + len;
    const size_t start = out->len;
    const char *p = sft__base_json_blank(text);
    uint64_t count = 0;
    bool more = true;

    put(out, type, 4);
    put(out, 0, 8);
    if (p >= end || *p != '[') {
        return false;
    }
    p = sft__base_json_blank(p + 1);
    if (p < end && *p == ']') {
        return sft__base_json_blank(p + 1) >= end;
    }
    while (more) {
        sft__base_json_str s;
        bool quoted;
        const size_t at = out->len;
        p = p < end ? element_at(p, end, &s, &quoted) : NULL;
        if (p == NULL || !add_element(out, &s, quoted, type) ||
            (quoted && !sft__import_gguf_restore_bytes(&kept, count, out, at))) {
            return false;
        }
        count++;
        p = element_next(p, end, &more);
        if (p == NULL) {
            return false;
        }
    }
    if (!out->failed) {
        sft__base_store_le64(out->data + start + 4, count);
    }
    return true;
}

bool sft__import_gguf_value_add(sft__base_buf *out, const char *text, size_t len,
                                const sft__import_gguf_typed *typed) {
    const size_t at = out->len;
    sft__import_gguf_kept kept = typed->kept;

    if (typed->type == SFT__GGUF_ARRAY) {
        return add_list(out, text, len, typed->element, kept);
    }
    return add_scalar(out, text, len, typed->type) &&
           (typed->type != SFT__GGUF_STRING || sft__import_gguf_restore_bytes(&kept, 0, out, at));
}

/* ---------------------------------------------------------------- by their look */

static uint32_t guess_scalar(const char *text, size_t len) {
    bool negative;
    uint64_t v;
    double r;

    if (integer(text, len, &negative, &v)) {
        if (negative) {
            return v <= (UINT64_C(1) << 31) ? SFT__GGUF_I32 : SFT__GGUF_I64;
        }
        return v <= UINT32_MAX ? SFT__GGUF_U32 : SFT__GGUF_U64;
    }
    if (real(text, len, &r)) {
        return SFT__GGUF_F32;
    }
    return is_text(text, len, "true") || is_text(text, len, "false") ? SFT__GGUF_BOOL
                                                                     : SFT__GGUF_STRING;
}

void sft__import_gguf_type_guess(const char *text, size_t len, uint32_t *type, uint32_t *element) {
    static const uint32_t tried[] = {SFT__GGUF_I32, SFT__GGUF_I64, SFT__GGUF_F32, SFT__GGUF_BOOL,
                                     SFT__GGUF_STRING};

    *element = 0;
    *type = len > 0 && text[0] == '[' ? SFT__GGUF_ARRAY : guess_scalar(text, len);
    for (size_t i = 0; i < sizeof tried / sizeof tried[0] && *type == SFT__GGUF_ARRAY; i++) {
        sft__base_buf scratch;
        sft__base_buf_init(&scratch, sft__base_allocator(NULL));
        const sft__import_gguf_kept none = {NULL, NULL};
        const bool good = add_list(&scratch, text, len, tried[i], none) && !scratch.failed;
        sft__base_buf_reset(&scratch);
        if (good) {
            *element = tried[i];
            return;
        }
    }
    *type = *type == SFT__GGUF_ARRAY ? SFT__GGUF_STRING : *type;
}
