/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/real.c - see real.h. Reading divides big numbers: D * 10^e is a fraction of two integers,
 * whose quotient of 64 bits and remainder say how it is rounded. Numbers are few; nothing here is fast.
 */
#include "base/text/real.h"
#include <stdio.h>

/* ---------------------------------------------------------------- big numbers */

/* 10^1200 has 3,987 bits; 64 more are shifted in. */
enum { LIMBS = 160, DIGITS_MAX = 800, EXPONENT_MAX = 400 };

typedef struct big {
    uint32_t limb[LIMBS]; /* lowest first */
    size_t count;         /* without zeros at the top */
} big;

static void big_trim(big *b) {
    while (b->count > 0 && b->limb[b->count - 1] == 0) {
        b->count--;
    }
}

/* b * factor + add; the caller knows that it fits. */
static void big_step(big *b, uint32_t factor, uint32_t add) {
    uint64_t carry = add;
    for (size_t i = 0; i < b->count; i++) {
        carry += (uint64_t)b->limb[i] * factor;
        b->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0) {
        b->limb[b->count++] = (uint32_t)carry;
    }
}

static unsigned big_bits(const big *b) {
    unsigned n = 0;
    for (uint32_t top = b->count > 0 ? b->limb[b->count - 1] : 0; top != 0; top >>= 1) {
        n++;
    }
    return b->count > 0 ? (unsigned)(b->count - 1) * 32 + n : 0;
}

static void big_shift(big *b, unsigned bits) {
    const size_t limbs = bits / 32;
    const unsigned rest = bits % 32;
    if (b->count == 0) {
        return;
    }
    b->limb[b->count] = 0;
    for (size_t i = b->count + 1; i-- > 0;) {
        const uint64_t pair =
            (uint64_t)b->limb[i] << 32 | (i > 0 ? b->limb[i - 1] : 0); /* i <= count */
        b->limb[i + limbs] = (uint32_t)(pair << rest >> 32);
    }
    memset(b->limb, 0, limbs * sizeof *b->limb);
    b->count += limbs + 1;
    big_trim(b);
}

static void big_halve(big *b) {
    for (size_t i = 0; i < b->count; i++) {
        b->limb[i] = b->limb[i] >> 1 | (i + 1 < b->count ? b->limb[i + 1] << 31 : 0);
    }
    big_trim(b);
}

/* a -= b if that is not below zero. */
static bool big_take(big *a, const big *b) {
    if (a->count < b->count) {
        return false;
    }
    for (size_t i = a->count; i-- > 0;) {
        const uint32_t y = i < b->count ? b->limb[i] : 0;
        if (a->limb[i] < y) {
            return false;
        }
        if (a->limb[i] > y) {
            break;
        }
    }
    uint64_t borrow = 0;
    for (size_t i = 0; i < a->count; i++) {
        const uint64_t d = (uint64_t)a->limb[i] - (i < b->count ? b->limb[i] : 0) - borrow;
        a->limb[i] = (uint32_t)d;
        borrow = d >> 63;
    }
    big_trim(a);
    return true;
}

/* ---------------------------------------------------------------- reading */

/* digits * 10^exponent. */
typedef struct decimal {
    big digits;
    size_t digit_count; /* without zeros in front */
    int32_t exponent;
    bool negative;
} decimal;

static bool take_exponent(const char *p, const char *end, int32_t *exponent) {
    const bool negative = p < end && *p == '-';
    int32_t e = 0;
    p += p < end && (*p == '-' || *p == '+');
    if (p == end) {
        return false;
    }
    for (; p < end; p++) {
        if (*p < '0' || *p > '9') {
            return false;
        }
        e = e < 100000 ? e * 10 + (*p - '0') : e;
    }
    *exponent += negative ? -e : e;
    return true;
}

static bool take_decimal(const char *p, const char *end, decimal *d) {
    bool any = false;
    bool point = false;
    memset(d, 0, sizeof *d);
    d->negative = p < end && *p == '-';
    p += d->negative;
    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9' || d->digit_count == DIGITS_MAX) {
            return false;
        }
        any = true;
        d->digit_count += d->digit_count > 0 || *p != '0';
        big_step(&d->digits, 10, (uint32_t)(*p - '0'));
        d->exponent -= point;
    }
    return any && (p == end || take_exponent(p + 1, end, &d->exponent));
}

static double from_bits(uint64_t bits, bool negative) {
    double value;
    bits |= (uint64_t)negative << 63;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* q * 2^-s, with more bits behind it if `sticky`; q has its highest bit among the two top ones. */
static uint64_t round_bits(uint64_t q, int32_t s, bool sticky) {
    const int32_t bits = q >> 63 != 0 ? 64 : 63;
    const int32_t exponent = bits - 1 - s;
    const int32_t kept = exponent >= -1022 ? 53 : 53 - (-1022 - exponent);
    if (kept < 0) {
        return 0;
    }
    const int32_t shift = bits - kept; /* 10 to 64 */
    const uint64_t half = UINT64_C(1) << (shift - 1);
    const uint64_t rest = q & (half - 1 + half);
    uint64_t m = shift == 64 ? 0 : q >> shift;
    int32_t low = shift - s;
    m += rest > half || (rest == half && (sticky || (m & 1) != 0));
    if (m >> 53 != 0) {
        m >>= 1;
        low++;
    }
    if (m >> 52 == 0) {
        return m; /* low is -1074 */
    }
    return low + 1075 >= 2047 ? UINT64_C(2047) << 52
                              : ((uint64_t)(low + 1075) << 52) + (m - (UINT64_C(1) << 52));
}

static uint64_t to_bits(decimal *d) {
    const int32_t top = (int32_t)d->digit_count + d->exponent; /* below 10^top */
    big divisor = {{1}, 1};
    uint64_t q = 0;
    if (d->digits.count == 0 || top < -EXPONENT_MAX) {
        return 0;
    }
    if (top > EXPONENT_MAX) {
        return UINT64_C(2047) << 52;
    }
    for (int32_t e = d->exponent; e > 0; e--) {
        big_step(&d->digits, 10, 0);
    }
    for (int32_t e = d->exponent; e < 0; e++) {
        big_step(&divisor, 10, 0);
    }
    const int32_t s = 63 - ((int32_t)big_bits(&d->digits) - (int32_t)big_bits(&divisor));
    if (s > 0) {
        big_shift(&d->digits, (unsigned)s);
    } else {
        big_shift(&divisor, (unsigned)-s);
    }
    big_shift(&divisor, 63);
    for (unsigned i = 0; i < 64; i++) {
        q = q << 1 | (big_take(&d->digits, &divisor) ? 1 : 0);
        big_halve(&divisor);
    }
    return round_bits(q, s, d->digits.count > 0);
}

bool sft__base_real_parse(const char *text, size_t len, double *out) {
    decimal d;
    const bool negative = len > 0 && text[0] == '-';
    const char *const word = text + negative;
    const size_t rest = len - negative;
    if (rest == 3 && memcmp(word, "inf", 3) == 0) {
        *out = from_bits(UINT64_C(2047) << 52, negative);
        return true;
    }
    if (rest == 3 && memcmp(word, "nan", 3) == 0) {
        *out = from_bits(UINT64_C(0x7ff8) << 48, negative);
        return true;
    }
    if (!take_decimal(text, text + len, &d)) {
        return false;
    }
    *out = from_bits(to_bits(&d), d.negative);
    return true;
}

/* ---------------------------------------------------------------- writing */

/* Digits and exponent as people write them: between 10^-5 and 10^16 without an exponent. */
static void place_point(char out[SFT__REAL_ROOM], const char *digits, int count, int exponent,
                        bool negative) {
    const char *const sign = negative ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        (void)snprintf(out, SFT__REAL_ROOM, "%s%c%s%.*se%c%02d", sign, digits[0],
                       count > 1 ? "." : "", count - 1, digits + 1, exponent < 0 ? '-' : '+',
                       exponent < 0 ? -exponent : exponent);
    } else if (exponent < 0) {
        (void)snprintf(out, SFT__REAL_ROOM, "%s0.%.*s%.*s", sign, -exponent - 1, "000", count,
                       digits);
    } else if (count <= exponent + 1) {
        (void)snprintf(out, SFT__REAL_ROOM, "%s%.*s%.*s.0", sign, count, digits,
                       exponent + 1 - count, "0000000000000000");
    } else {
        (void)snprintf(out, SFT__REAL_ROOM, "%s%.*s.%.*s", sign, exponent + 1, digits,
                       count - exponent - 1, digits + exponent + 1);
    }
}

void sft__base_real_print(char out[SFT__REAL_ROOM], double value) {
    char text[40];
    char digits[20];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const bool negative = bits >> 63 != 0;
    if ((bits >> 52 & 2047) == 2047) {
        const bool infinite = bits << 12 == 0;
        (void)snprintf(out, SFT__REAL_ROOM, "%s", !infinite ? "nan" : negative ? "-inf" : "inf");
        return;
    }
    for (int more = 0; more <= 16; more++) {
        (void)snprintf(text, sizeof text, "%.*e", more, negative ? -value : value);
        const char *e = text;
        size_t n = 0;
        int exponent = 0;
        double back;
        for (; *e != 'e'; e++) { /* the point is the locale's, perhaps of several bytes */
            if (*e >= '0' && *e <= '9' && n < sizeof digits) {
                digits[n++] = *e;
            }
        }
        for (const char *p = e + 2; *p != '\0'; p++) {
            exponent = exponent * 10 + (*p - '0');
        }
        exponent = e[1] == '-' ? -exponent : exponent;
        place_point(out, digits, (int)n, exponent, negative);
        if (sft__base_real_parse(out, strlen(out), &back) &&
            memcmp(&back, &value, sizeof back) == 0) {
            return;
        }
    }
}
