/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/cp_lost.c - counts the finite values that a cast to a narrower type could not keep: those
 * that became infinite, NaN, or the largest value of a type that has no infinity. Nearly every
 * block has none, which is seen from the codes of its results, or, where elements share bytes, from
 * the magnitudes of its source. Read cp.h first.
 */
#include "cp.h"
#include <math.h>
#include <string.h>

enum { STEP = 512 /* elements; a multiple of every block of the format's types */ };

static uint64_t bytes_of(const sft_dtype *dtype, uint64_t elements) {
    return elements / dtype->block_elements * dtype->block_bytes;
}

/* Types that cannot hold what the wider ones can. */
bool cli_lost_possible(const sft_dtype *from, const sft_dtype *to) {
    return from->id != to->id && to->kind == SFT_KIND_FLOAT && to->block_bytes < 4 &&
           to->id != SFT_BF16;
}

/* What `x` becomes in the type and back. */
static double there_and_back(const sft_dtype *dtype, double x) {
    unsigned char bits[8 * 3];
    double values[8] = {x, x, x, x, x, x, x, x}; /* whole bytes of every type */
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);

    if (sft_convert(bits, dtype, values, f64, 8, SFT_CONVERT_HOST_SRC, NULL) != SFT_OK ||
        sft_convert(values, f64, bits, dtype, 8, SFT_CONVERT_HOST_DST, NULL) != SFT_OK) {
        return INFINITY;
    }
    return values[0];
}

/* Is there one result that may not have been kept and is not of the two kinds? NaN is not below. */
static bool is_odd_code(const cli_lost_rule *rule, const sft_dtype *to, unsigned mask) {
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);

    for (unsigned code = 0; code <= 2 * mask + 1; code++) {
        const uint8_t bytes[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
        double value;
        if (sft_convert(&value, f64, bytes, to, 1, SFT_CONVERT_HOST_DST, NULL) != SFT_OK ||
            (!(fabs(value) < rule->top) && (code & mask) < rule->least && code != rule->alone)) {
            return true;
        }
    }
    return false;
}

/* The code of what is too large, and all above; of types whose only NaN is minus zero's code, that
 * one alone. */
static void find_codes(cli_lost_rule *rule, const sft_dtype *to) {
    const unsigned mask = to->block_bytes == 1 ? INT8_MAX : INT16_MAX;
    const double large = 1e300;
    uint8_t bytes[2] = {0, 0};

    rule->by_code = false;
    if (to->block_elements != 1 || to->block_bytes > 2 ||
        sft_convert(bytes, to, &large, sft_dtype_get(SFT_F64), 1, SFT_CONVERT_HOST_SRC, NULL) !=
            SFT_OK) {
        return;
    }
    rule->alone = (uint16_t)(mask + 1);
    rule->least = (uint16_t)((bytes[0] | (unsigned)bytes[1] << 8) & mask);
    rule->least = rule->least == 0 ? rule->alone : rule->least;
    rule->by_code = !is_odd_code(rule, to, mask);
}

void cli_lost_rule_find(cli_lost_rule *rule, const sft_dtype *from, const sft_dtype *to) {
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);
    const uint16_t one = 1;
    uint8_t little = 0;
    double safe = 1;

    rule->from = from;
    rule->to = to;
    rule->top = there_and_back(to, 1e300);
    rule->top = isfinite(rule->top) ? rule->top : INFINITY;
    while (safe < 0x1p127 && there_and_back(to, 2 * safe) == 2 * safe) {
        safe *= 2; /* every power of two up to the largest value is a value of the type */
    }
    memset(rule->safe, 0, sizeof rule->safe);
    memcpy(&little, &one, 1);
    find_codes(rule, to);
    rule->by_bits =
        little != 0 && from->kind == SFT_KIND_FLOAT && from->block_elements == 1 &&
        from->block_bytes >= 2 &&
        sft_convert(rule->safe, from, &safe, f64, 1, SFT_CONVERT_HOST_SRC, NULL) == SFT_OK;
}

/* Is there a magnitude beyond `safe`? IEEE numbers without their sign order as integers do, NaN
 * last. */
#define BEYOND(name, type, mask)                                                                   \
    static bool name(const char *in, size_t n, const uint8_t *safe) {                              \
        type most;                                                                                 \
        type any = 0;                                                                              \
        memcpy(&most, safe, sizeof most);                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            type v;                                                                                \
            memcpy(&v, in + i * sizeof v, sizeof v);                                               \
            any = (type)(any | ((type)(v & (mask)) > most));                                       \
        }                                                                                          \
        return any != 0;                                                                           \
    }
BEYOND(beyond_16, int16_t, INT16_MAX)
BEYOND(beyond_32, int32_t, INT32_MAX)
BEYOND(beyond_64, int64_t, INT64_MAX)

/* Is there a result of magnitude `least` or more, or `alone`? */
static bool odd_8(const uint8_t *out, size_t n, const cli_lost_rule *rule) {
    const uint8_t alone = (uint8_t)rule->alone;
    uint8_t most = 0;
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t magnitude = out[i] & INT8_MAX;
        most = magnitude > most ? magnitude : most;
        any = out[i] == alone ? 1 : any;
    }
    return most >= rule->least || (any != 0 && rule->least == rule->alone);
}

static bool odd_16(const uint8_t *out, size_t n, const cli_lost_rule *rule) {
    int16_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const int16_t magnitude = (int16_t)((out[2 * i] | out[2 * i + 1] << 8) & INT16_MAX);
        most = magnitude > most ? magnitude : most;
    }
    return most >= rule->least;
}

/* May one of these not have been kept? */
static bool is_suspect(const cli_lost_rule *rule, const double *now, size_t n) {
    bool suspect = false;

    for (size_t e = 0; e < n; e++) {
        suspect |= !(fabs(now[e]) < rule->top);
    }
    return suspect;
}

static uint64_t count_step(const cli_lost_rule *rule, const char *in, const char *out, size_t n) {
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);
    double before[STEP];
    double now[STEP];
    uint64_t lost = 0;

    if (sft_convert(now, f64, out, rule->to, n, SFT_CONVERT_HOST_DST, NULL) != SFT_OK ||
        !is_suspect(rule, now, n) ||
        sft_convert(before, f64, in, rule->from, n, SFT_CONVERT_HOST_DST, NULL) != SFT_OK) {
        return 0;
    }
    for (size_t e = 0; e < n; e++) {
        lost += isfinite(before[e]) && (!isfinite(now[e]) || fabs(before[e]) > rule->top);
    }
    return lost;
}

uint64_t cli_lost_count(const cli_lost_rule *rule, const void *in, const void *out, size_t n) {
    uint64_t lost = 0;

    if (rule->by_code &&
        !(rule->to->block_bytes == 1 ? odd_8(out, n, rule) : odd_16(out, n, rule))) {
        return 0;
    }
    for (size_t i = 0; i < n; i += STEP) {
        const size_t part = n - i < STEP ? n - i : STEP;
        const char *a = (const char *)in + bytes_of(rule->from, i);
        bool look = true;
        if (rule->by_bits) {
            look = rule->from->block_bytes == 2   ? beyond_16(a, part, rule->safe)
                   : rule->from->block_bytes == 4 ? beyond_32(a, part, rule->safe)
                                                  : beyond_64(a, part, rule->safe);
        }
        if (look) {
            lost += count_step(rule, a, (const char *)out + bytes_of(rule->to, i), part);
        }
    }
    return lost;
}
