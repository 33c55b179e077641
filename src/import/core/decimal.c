/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/decimal.c - see decimal.h. Plain arithmetic on natural numbers of 2,048 bits: the
 * largest that occur are 40 digits times 10^350 and a double's 2^53 times 10^324, both below
 * 2^1,400.
 */
#include "import/core/decimal.h"
#include "base/text/utf8.h"

enum { LIMBS = 64, DIGITS_MAX = 40 };

typedef struct nat {
    uint32_t limb[LIMBS];
    size_t used;
} nat;

/* ---------------------------------------------------------------- natural numbers */

static void nat_set(nat *n, uint64_t v) {
    memset(n, 0, sizeof *n);
    n->limb[0] = (uint32_t)v;
    n->limb[1] = (uint32_t)(v >> 32);
    n->used = n->limb[1] != 0 ? 2 : n->limb[0] != 0;
}

static void nat_mul(nat *n, uint32_t by) {
    uint64_t carry = 0;
    for (size_t i = 0; i < n->used; i++) {
        carry += (uint64_t)n->limb[i] * by;
        n->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0 && n->used < LIMBS) {
        n->limb[n->used++] = (uint32_t)carry;
    }
}

static void nat_mul10(nat *n, unsigned times) {
    for (; times >= 9; times -= 9) {
        nat_mul(n, 1000000000);
    }
    for (; times > 0; times--) {
        nat_mul(n, 10);
    }
}

static void nat_mul5(nat *n, unsigned times) {
    for (; times >= 13; times -= 13) {
        nat_mul(n, 1220703125);
    }
    for (; times > 0; times--) {
        nat_mul(n, 5);
    }
}

static void nat_shift(nat *n, unsigned bits) {
    const size_t limbs = bits / 32;
    const unsigned left = bits % 32;

    if (n->used == 0) {
        return;
    }
    nat_mul(n, (uint32_t)1 << left);
    if (limbs != 0 && n->used + limbs <= LIMBS) {
        memmove(n->limb + limbs, n->limb, n->used * sizeof n->limb[0]);
        memset(n->limb, 0, limbs * sizeof n->limb[0]);
        n->used += limbs;
    }
}

static int nat_compare(const nat *a, const nat *b) {
    if (a->used != b->used) {
        return a->used > b->used ? 1 : -1;
    }
    for (size_t i = a->used; i-- > 0;) {
        if (a->limb[i] != b->limb[i]) {
            return a->limb[i] > b->limb[i] ? 1 : -1;
        }
    }
    return 0;
}

/* a >= b */
static void nat_subtract(nat *a, const nat *b) {
    int64_t borrow = 0;
    for (size_t i = 0; i < a->used; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->used ? (int64_t)b->limb[i] : 0);
        a->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    while (a->used > 0 && a->limb[a->used - 1] == 0) {
        a->used--;
    }
}

static void nat_add(nat *a, const nat *b) {
    uint64_t carry = 0;
    for (size_t i = 0; i < LIMBS && (i < a->used || i < b->used || carry != 0); i++) {
        carry += (uint64_t)a->limb[i] + b->limb[i];
        a->limb[i] = (uint32_t)carry;
        carry >>= 32;
        a->used = i + 1 > a->used ? i + 1 : a->used;
    }
}

static unsigned nat_bits(const nat *n) {
    unsigned bits = 0;
    if (n->used != 0) {
        for (uint32_t top = n->limb[n->used - 1]; top != 0; top >>= 1) {
            bits++;
        }
        bits += 32 * (unsigned)(n->used - 1);
    }
    return bits;
}

/* a + b against c */
static int nat_compare_sum(const nat *a, const nat *b, const nat *c) {
    nat sum = *a;
    nat_add(&sum, b);
    return nat_compare(&sum, c);
}

/* ---------------------------------------------------------------- double to text */

typedef struct digits {
    char text[24];
    int count;
    int point; /* the value is 0.DIGITS times 10^point */
} decimal_digits;

/* The paper's r, s, m+ and m-: the value is r / s, half the gaps to its neighbours m / s. */
typedef struct state {
    nat r;
    nat s;
    nat plus;
    nat minus;
    bool even;
} state;

/* For values below 1, times 10^tens: 5^tens here and 2^tens less in s. The power is made once. */
static void state_scale(state *t, uint64_t f, bool lowest, unsigned tens) {
    nat high;

    nat_set(&t->minus, 1);
    nat_mul5(&t->minus, tens);
    t->plus = t->minus;
    nat_shift(&t->plus, lowest);
    t->r = t->minus;
    nat_mul(&t->r, (uint32_t)f);
    if (f >> 32 != 0) {
        high = t->minus;
        nat_mul(&high, (uint32_t)(f >> 32));
        nat_shift(&high, 32);
        nat_add(&t->r, &high);
    }
    nat_shift(&t->r, 1 + (unsigned)lowest);
}

static void state_init(state *t, uint64_t f, int e, int k) {
    const bool lowest =
        f == UINT64_C(1) << 52 && e > -1074; /* the gap below is half of that above */

    t->even = (f & 1) == 0;
    if (k < 0) { /* and so e below k, too */
        nat_set(&t->s, 2);
        nat_shift(&t->s, (unsigned)(k - e) + lowest);
        state_scale(t, f, lowest, (unsigned)-k);
        return;
    }
    nat_set(&t->r, f);
    nat_set(&t->s, 2);
    nat_set(&t->plus, 1);
    nat_set(&t->minus, 1);
    nat_shift(&t->r, 1 + (e > 0 ? (unsigned)e : 0) + lowest);
    nat_shift(&t->s, (e < 0 ? (unsigned)-e : 0) + lowest);
    nat_shift(&t->plus, (e > 0 ? (unsigned)e : 0) + lowest);
    nat_shift(&t->minus, e > 0 ? (unsigned)e : 0);
    nat_mul10(&t->s, (unsigned)k);
}

static bool is_high(const state *t) {
    const int o = nat_compare_sum(&t->r, &t->plus, &t->s);
    return t->even ? o >= 0 : o > 0;
}

static void next_digit(state *t) {
    nat_mul(&t->r, 10);
    nat_mul(&t->plus, 10);
    nat_mul(&t->minus, 10);
}

static void state_digits(state *t, decimal_digits *d) {
    for (;;) {
        int digit = 0;
        while (nat_compare(&t->r, &t->s) >= 0) {
            nat_subtract(&t->r, &t->s);
            digit++;
        }
        const int o = nat_compare(&t->r, &t->minus);
        const bool low = t->even ? o <= 0 : o < 0;
        const bool high = is_high(t);
        if (low || high) {
            const int half = nat_compare_sum(&t->r, &t->r, &t->s);
            if (high && (!low || half > 0 || (half == 0 && digit % 2 != 0))) {
                digit++; /* never 10: the digits are the shortest */
            }
            d->text[d->count++] = (char)('0' + digit);
            return;
        }
        d->text[d->count++] = (char)('0' + digit);
        next_digit(t);
    }
}

/* value > 0 and finite */
static void shortest(double value, decimal_digits *d) {
    uint64_t bits;
    state t;

    memcpy(&bits, &value, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t f = bits & ((UINT64_C(1) << 52) - 1);
    const int e = exponent != 0 ? exponent - 1075 : -1074;
    f |= exponent != 0 ? UINT64_C(1) << 52 : 0;
    nat size;
    nat_set(&size, f);
    const double log10 = ((double)e + (double)nat_bits(&size) - 1) * 0.30102999566398114;
    int k = (int)(log10 + 400) - 400; /* rounded down: at most two below what is meant */
    state_init(&t, f, e, k);
    while (is_high(&t)) { /* the estimate is too small */
        nat_mul(&t.s, 10);
        k++;
    }
    next_digit(&t);
    d->count = 0;
    d->point = k;
    state_digits(&t, d);
}

static size_t put(char *dst, size_t at, const char *text, size_t len) {
    memcpy(dst + at, text, len);
    return at + len;
}

static size_t put_zeros(char *dst, size_t at, int count) {
    for (int i = 0; i < count; i++) {
        dst[at++] = '0';
    }
    return at;
}

/* Positional between 1e-4 and 1e16, else with an exponent of at least two digits. */
static size_t lay_out(char *dst, size_t at, const decimal_digits *d) {
    const size_t n = (size_t)d->count;
    int exponent = d->point - 1;

    if (d->point > -4 && d->point <= 0) {
        at = put(dst, at, "0.", 2);
        at = put_zeros(dst, at, -d->point);
        return put(dst, at, d->text, n);
    }
    if (d->point > 0 && d->point <= 16) {
        const size_t whole = n < (size_t)d->point ? n : (size_t)d->point;
        at = put(dst, at, d->text, whole);
        at = put_zeros(dst, at, d->point - d->count);
        at = put(dst, at, ".", 1);
        return n > whole ? put(dst, at, d->text + whole, n - whole) : put(dst, at, "0", 1);
    }
    at = put(dst, at, d->text, 1);
    if (n > 1) {
        at = put(dst, at, ".", 1);
        at = put(dst, at, d->text + 1, n - 1);
    }
    at = put(dst, at, exponent < 0 ? "e-" : "e+", 2);
    exponent = exponent < 0 ? -exponent : exponent;
    if (exponent >= 100) {
        dst[at++] = (char)('0' + exponent / 100);
    }
    dst[at++] = (char)('0' + exponent / 10 % 10);
    dst[at++] = (char)('0' + exponent % 10);
    return at;
}

size_t sft__import_decimal_real(char dst[SFT__DECIMAL_ROOM], double value) {
    uint64_t bits;
    size_t at = 0;
    decimal_digits d;

    memcpy(&bits, &value, sizeof bits);
    const bool negative = bits >> 63 != 0;
    const bool special = (bits >> 52 & 0x7ff) == 0x7ff;
    const bool nan = special && (bits & ((UINT64_C(1) << 52) - 1)) != 0;
    if (negative && !nan) {
        dst[at++] = '-';
    }
    if (special) {
        at = put(dst, at, nan ? "nan" : "inf", 3);
    } else if (bits << 1 == 0) {
        at = put(dst, at, "0.0", 3);
    } else {
        shortest(negative ? -value : value, &d);
        at = lay_out(dst, at, &d);
    }
    dst[at] = '\0';
    return at;
}

/* ---------------------------------------------------------------- text to double */

typedef struct decimal {
    nat value;
    int digits;   /* of value */
    int exponent; /* times 10^exponent */
} decimal;

static bool at_digit(const char *p, const char *end) {
    return p < end && sft__base_is_digit(*p);
}

static void take_digits(const char **p, const char *end, decimal *d, int per_digit) {
    nat digit;
    for (; at_digit(*p, end); (*p)++) {
        if (d->digits > 0 || **p != '0') { /* zeros in front count for nothing */
            if (++d->digits > DIGITS_MAX) {
                return;
            }
            nat_mul(&d->value, 10);
            nat_set(&digit, (uint64_t)(**p - '0'));
            nat_add(&d->value, &digit);
        }
        d->exponent += per_digit;
    }
}

static bool take_decimal(const char *p, const char *end, decimal *d) {
    memset(d, 0, sizeof *d);
    const char *start = p;
    take_digits(&p, end, d, 0);
    size_t seen = (size_t)(p - start);
    if (p < end && *p == '.') {
        start = ++p;
        take_digits(&p, end, d, -1);
        seen += (size_t)(p - start);
    }
    if (seen == 0 || d->digits > DIGITS_MAX) {
        return false;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        const bool minus = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        int e = 0;
        if (!at_digit(p, end)) {
            return false;
        }
        for (; at_digit(p, end); p++) {
            e = e < 100000 ? 10 * e + (*p - '0') : e;
        }
        d->exponent += minus ? -e : e;
    }
    return p == end;
}

/* n / m rounded down, below 2^55; the rest stays in n. */
static uint64_t divide(nat *n, const nat *m) {
    uint64_t q = 0;
    for (unsigned i = 55; i-- > 0;) {
        nat part = *m;
        nat_shift(&part, i);
        if (nat_compare(n, &part) >= 0) {
            nat_subtract(n, &part);
            q |= UINT64_C(1) << i;
        }
    }
    return q;
}

/* The double nearest to n / m, both above 0. */
static uint64_t nearest(const nat *n, const nat *m) {
    int e = (int)nat_bits(n) - (int)nat_bits(m) - 53;
    uint64_t q;
    nat rest;
    nat unit;

    for (;; e++) { /* at most twice: 2^52 <= q < 2^54 before */
        e = e < -1074 ? -1074 : e;
        rest = *n;
        unit = *m;
        nat_shift(e < 0 ? &rest : &unit, e < 0 ? (unsigned)-e : (unsigned)e);
        q = divide(&rest, &unit);
        if (q < UINT64_C(1) << 53) {
            break;
        }
    }
    const int half = nat_compare_sum(&rest, &rest, &unit);
    q += half > 0 || (half == 0 && (q & 1) != 0);
    if (q == UINT64_C(1) << 53) {
        q >>= 1;
        e++;
    }
    if (q < UINT64_C(1) << 52) {
        return q; /* subnormal: e is -1074 */
    }
    const uint64_t biased = (uint64_t)(e + 1075);
    return biased >= 0x7ff ? UINT64_C(0x7ff) << 52 : biased << 52 | (q - (UINT64_C(1) << 52));
}

static bool is_word(const char *p, size_t len, const char *word) {
    return len == strlen(word) && memcmp(p, word, len) == 0;
}

bool sft__import_decimal_read(const char *text, size_t len, double *value) {
    const bool negative = len > 0 && text[0] == '-';
    const char *p = text + negative;
    const char *end = text + len;
    uint64_t bits;
    decimal d;
    nat unit;

    if (is_word(p, (size_t)(end - p), "nan")) {
        bits = UINT64_C(0x7ff8) << 48;
    } else if (is_word(p, (size_t)(end - p), "inf")) {
        bits = UINT64_C(0x7ff) << 52;
    } else if (!take_decimal(p, end, &d)) {
        return false;
    } else if (d.digits == 0 || d.digits + d.exponent < -330) {
        bits = 0;
    } else if (d.digits + d.exponent > 310) {
        bits = UINT64_C(0x7ff) << 52;
    } else {
        nat_set(&unit, 1);
        nat_mul10(d.exponent < 0 ? &unit : &d.value,
                  d.exponent < 0 ? (unsigned)-d.exponent : (unsigned)d.exponent);
        bits = nearest(&d.value, &unit);
    }
    bits |= negative ? UINT64_C(1) << 63 : 0;
    memcpy(value, &bits, sizeof bits);
    return true;
}

/* ---------------------------------------------------------------- integers of any size */

bool sft__import_decimal_big(sft__base_buf *out, const uint8_t *bytes, size_t size) {
    enum { WORDS = SFT__DECIMAL_BYTES / 3 };
    uint32_t words[WORDS] = {0}; /* base 10^9, least first: 3 bytes of input need less than one */
    size_t count = 0;
    char digits[9];

    if (size > SFT__DECIMAL_BYTES) {
        return false;
    }
    const bool negative = size > 0 && (bytes[size - 1] & 0x80) != 0;
    for (size_t i = size; i-- > 0;) {
        uint64_t carry = negative ? (uint8_t)~bytes[i] : bytes[i];
        for (size_t k = 0; k < count || carry != 0; k++) {
            if (k == count && count++ == WORDS) {
                return false;
            }
            carry += (uint64_t)words[k] << 8;
            words[k] = (uint32_t)(carry % 1000000000);
            carry /= 1000000000;
        }
    }
    uint64_t one = negative; /* -x is the complement and 1 */
    for (size_t k = 0; one != 0; k++) {
        if (k == count && count++ == WORDS) {
            return false;
        }
        one += words[k];
        words[k] = (uint32_t)(one % 1000000000);
        one /= 1000000000;
    }
    if (9 * count > SFT__DECIMAL_DIGITS) {
        return false;
    }
    if (negative) {
        sft__base_buf_text(out, "-");
    }
    sft__base_buf_u64(out, count != 0 ? words[count - 1] : 0);
    for (size_t k = count > 0 ? count - 1 : 0; k-- > 0;) {
        uint32_t v = words[k];
        for (size_t i = 9; i-- > 0; v /= 10) {
            digits[i] = (char)('0' + v % 10);
        }
        sft__base_buf_add(out, digits, sizeof digits);
    }
    return !out->failed;
}

bool sft__import_decimal_unbig(const char *text, size_t len, uint8_t bytes[SFT__DECIMAL_BYTES],
                               size_t *size) {
    const bool negative = len > 0 && text[0] == '-';
    size_t n = 0;

    if (len == (size_t)negative || len > SFT__DECIMAL_DIGITS) {
        return false;
    }
    for (size_t i = negative; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        uint32_t carry = (uint32_t)(text[i] - '0');
        for (size_t k = 0; k < n || carry != 0; k++) { /* 4,000 digits are 1,661 bytes */
            if (k == n) {
                bytes[n++] = 0;
            }
            carry += (uint32_t)bytes[k] * 10;
            bytes[k] = (uint8_t)carry;
            carry >>= 8;
        }
    }
    bytes[n++] = 0; /* the sign */
    uint32_t one = negative;
    for (size_t k = 0; k < n && negative; k++) {
        one += (uint8_t)~bytes[k];
        bytes[k] = (uint8_t)one;
        one >>= 8;
    }
    while (n > 1 && (bytes[n - 1] == 0 || bytes[n - 1] == 0xff) &&
           (bytes[n - 1] & 0x80) == (bytes[n - 2] & 0x80)) {
        n--;
    }
    *size = n == 1 && bytes[0] == 0 ? 0 : n;
    return true;
}
