/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cast_lost.c - counts the finite values that a cast to another type could not keep: those that
 * became infinite, NaN, or the largest value of a type that has no infinity, whole numbers out of
 * range, imaginary parts. Nearly every block of a cast to a narrower float has none, which is seen
 * from the codes of its results, or, where elements share bytes, from the magnitudes of its source.
 * Read cast_lost.h first.
 */
#include "cli/copy/cast_lost.h"
#include "cli/outputs/lost.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 512 /* elements; a multiple of every block of the format's types */ };

/* How values are found that a type could not keep. */
typedef struct lost_rule {
    const sft_dtype *from;
    const sft_dtype *to;
    double top; /* what `to` makes of a number that is too large: its largest value, or infinity */
    double low; /* of whole numbers: the least, and one above the largest */
    double high;
    /* results whose magnitude is below `least`, and which are not `alone`, are kept */
    bool by_code;
    uint16_t least; /* codes of `to`, of 1 or 2 bytes, little-endian */
    uint16_t alone;
    bool by_bits;    /* magnitudes up to `safe`, a number of type `from`, are certainly kept */
    uint8_t safe[8]; /* little-endian */
} lost_rule;

typedef struct lost_tensor {
    struct lost_tensor *next;
    const sft_dtype *from;
    const sft_dtype *to;
    uint64_t count;
    size_t len;
    char name[];
} lost_tensor;

struct cli_cast_lost {
    atomic_flag lock;
    lost_rule rules[SFT_DTYPE_COUNT + 1][SFT_DTYPE_COUNT + 1];
    lost_tensor *tensors;
};

static uint64_t bytes_of(const sft_dtype *dtype, uint64_t elements) {
    return elements / dtype->block_elements * dtype->block_bytes;
}

static bool is_whole(const sft_dtype *dtype) {
    return dtype->kind == SFT_KIND_INT || dtype->kind == SFT_KIND_UINT;
}

static uint32_t bits_of(const sft_dtype *dtype) {
    return 8 * dtype->block_bytes / dtype->block_elements;
}

/* Has the type every value of the other? Not asked of floats. */
static bool contains(const sft_dtype *to, const sft_dtype *from) {
    return from->kind == SFT_KIND_BOOL ||
           (from->kind == to->kind && bits_of(to) >= bits_of(from)) ||
           (from->kind == SFT_KIND_UINT && to->kind == SFT_KIND_INT && bits_of(to) > bits_of(from));
}

static bool is_imaginary(const sft_dtype *from, const sft_dtype *to) {
    return from->kind == SFT_KIND_COMPLEX && to->kind != SFT_KIND_COMPLEX;
}

/* Types that cannot hold what the other ones can. */
static bool is_lossy(const sft_dtype *from, const sft_dtype *to) {
    const bool narrow = to->kind == SFT_KIND_FLOAT && to->block_bytes < 4 && to->id != SFT_BF16;

    return from->id != to->id &&
           (narrow || is_imaginary(from, to) || (is_whole(to) && !contains(to, from)));
}

/* What `x` becomes in the type and back. */
static double there_and_back(const sft_dtype *dtype, double x) {
    unsigned char bits[8 * 3];
    double values[8] = {x, x, x, x, x, x, x, x}; /* whole bytes of every type */
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);

    if (sft_convert(bits, values, 8, &(sft_cast){dtype, f64, SFT_CONVERT_HOST_SRC}, NULL) !=
            SFT_OK ||
        sft_convert(values, bits, 8, &(sft_cast){f64, dtype, SFT_CONVERT_HOST_DST}, NULL) !=
            SFT_OK) {
        return INFINITY;
    }
    return values[0];
}

/* Is there one result that may not have been kept and is not of the two kinds? NaN is not below. */
static bool is_odd_code(const lost_rule *rule, const sft_dtype *to, unsigned mask) {
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);

    for (unsigned code = 0; code <= 2 * mask + 1; code++) {
        const uint8_t bytes[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
        double value;
        if (sft_convert(&value, bytes, 1, &(sft_cast){f64, to, SFT_CONVERT_HOST_DST}, NULL) !=
                SFT_OK ||
            (!(fabs(value) < rule->top) && (code & mask) < rule->least && code != rule->alone)) {
            return true;
        }
    }
    return false;
}

/* The code of what is too large, and all above; of types whose only NaN is minus zero's code, that
 * one alone. */
static void find_codes(lost_rule *rule, const sft_dtype *to) {
    const unsigned mask = to->block_bytes == 1 ? INT8_MAX : INT16_MAX;
    const double large = 1e300;
    uint8_t bytes[2] = {0, 0};

    rule->by_code = false;
    if (to->block_elements != 1 || to->block_bytes > 2 ||
        sft_convert(bytes, &large, 1, &(sft_cast){to, sft_dtype_get(SFT_F64), SFT_CONVERT_HOST_SRC},
                    NULL) != SFT_OK) {
        return;
    }
    rule->alone = (uint16_t)(mask + 1);
    rule->least = (uint16_t)((bytes[0] | (unsigned)bytes[1] << 8) & mask);
    rule->least = rule->least == 0 ? rule->alone : rule->least;
    rule->by_code = !is_odd_code(rule, to, mask);
}

static void rule_find(lost_rule *rule, const sft_dtype *from, const sft_dtype *to) {
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);
    const uint16_t one = 1;
    uint8_t little = 0;
    double safe = 1;

    rule->from = from;
    rule->to = to;
    if (is_imaginary(from, to)) {
        return;
    }
    if (is_whole(to)) {
        const uint32_t bits = bits_of(to);
        rule->low = to->kind == SFT_KIND_INT ? -ldexp(1, (int)bits - 1) : 0;
        rule->high = ldexp(1, (int)(to->kind == SFT_KIND_INT ? bits - 1 : bits));
        return;
    }
    rule->top = there_and_back(to, 1e300);
    rule->top = isfinite(rule->top) ? rule->top : INFINITY;
    while (safe < 0x1p127 && there_and_back(to, 2 * safe) == 2 * safe) {
        safe *= 2; /* every power of two up to the largest value is a value of the type */
    }
    memset(rule->safe, 0, sizeof rule->safe);
    memcpy(&little, &one, 1);
    find_codes(rule, to);
    rule->by_bits = little != 0 && from->kind == SFT_KIND_FLOAT && from->block_elements == 1 &&
                    from->block_bytes >= 2 &&
                    sft_convert(rule->safe, &safe, 1, &(sft_cast){from, f64, SFT_CONVERT_HOST_SRC},
                                NULL) == SFT_OK;
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
static bool odd_8(const uint8_t *out, size_t n, const lost_rule *rule) {
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

static bool odd_16(const uint8_t *out, size_t n, const lost_rule *rule) {
    int16_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const int16_t magnitude = (int16_t)((out[2 * i] | out[2 * i + 1] << 8) & INT16_MAX);
        most = magnitude > most ? magnitude : most;
    }
    return most >= rule->least;
}

/* May one of these not have been kept? */
static bool is_suspect(const lost_rule *rule, const double *now, size_t n) {
    bool suspect = false;

    for (size_t e = 0; e < n; e++) {
        suspect |= !(fabs(now[e]) < rule->top);
    }
    return suspect;
}

static uint64_t count_step(const lost_rule *rule, const char *in, const char *out, size_t n) {
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);
    double before[STEP];
    double now[STEP];
    uint64_t lost = 0;

    if (sft_convert(now, out, n, &(sft_cast){f64, rule->to, SFT_CONVERT_HOST_DST}, NULL) !=
            SFT_OK ||
        !is_suspect(rule, now, n) ||
        sft_convert(before, in, n, &(sft_cast){f64, rule->from, SFT_CONVERT_HOST_DST}, NULL) !=
            SFT_OK) {
        return 0;
    }
    for (size_t e = 0; e < n; e++) {
        lost += isfinite(before[e]) && (!isfinite(now[e]) || fabs(before[e]) > rule->top);
    }
    return lost;
}

static uint64_t count_floats(const lost_rule *rule, const void *in, const void *out, size_t n) {
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

/* What is cut off behind the point is no loss of range. */
static uint64_t count_whole(const lost_rule *rule, const void *in, size_t n) {
    const sft_dtype *f64 = sft_dtype_get(SFT_F64);
    const bool by_sign = is_whole(rule->from) && rule->from->block_bytes == 8 &&
                         rule->to->block_bytes == 8; /* a number of 64 bits may be none of F64's */
    const unsigned char *bytes = in;
    double before[STEP];
    uint64_t lost = 0;

    for (size_t i = 0; i < n && by_sign; i++) {
        lost += bytes[8 * i + 7] >> 7;
    }
    for (size_t i = 0; i < n && !by_sign; i += STEP) {
        const size_t part = n - i < STEP ? n - i : STEP;
        if (sft_convert(before, bytes + bytes_of(rule->from, i), part,
                        &(sft_cast){f64, rule->from, SFT_CONVERT_HOST_DST}, NULL) != SFT_OK) {
            return lost;
        }
        for (size_t e = 0; e < part; e++) {
            const double x = trunc(before[e]);
            lost += isfinite(x) && (x < rule->low || x >= rule->high);
        }
    }
    return lost;
}

/* Each is two floats, the imaginary part behind the real one. */
static uint64_t count_imaginary(const sft_dtype *from, const void *in, size_t n) {
    const unsigned char *bytes = in;
    const size_t half = from->block_bytes / 2;
    uint64_t lost = 0;

    for (size_t i = 0; i < n; i++) {
        const unsigned char *part = bytes + i * from->block_bytes + half;
        unsigned any = part[half - 1] & INT8_MAX; /* without the sign */
        for (size_t b = 0; b + 1 < half; b++) {
            any |= part[b];
        }
        lost += any != 0;
    }
    return lost;
}

/* ---------------------------------------------------------------- a command's tensors */

static void hold(cli_cast_lost *l) {
    while (atomic_flag_test_and_set_explicit(&l->lock, memory_order_acquire)) {
    }
}

static void release(cli_cast_lost *l) {
    atomic_flag_clear_explicit(&l->lock, memory_order_release);
}

cli_cast_lost *cli_cast_watch(void) {
    cli_cast_lost *l = cli_alloc(1, sizeof *l);

    atomic_flag_clear(&l->lock);
    return l;
}

static int compare(const lost_tensor *t, const char *name, size_t len) {
    const int order = memcmp(t->name, name, t->len < len ? t->len : len);
    return order != 0 ? order : (t->len > len) - (t->len < len);
}

/* In the order of the names. */
static void add(cli_cast_lost *l, const lost_rule *rule, const sft_tensor *tensor, uint64_t count) {
    const size_t len = tensor->name_len;
    lost_tensor **at = &l->tensors;

    while (*at != NULL && compare(*at, tensor->name, len) < 0) {
        at = &(*at)->next;
    }
    if (*at == NULL || compare(*at, tensor->name, len) != 0) {
        lost_tensor *t = cli_alloc(1, sizeof *t + len);
        t->from = rule->from;
        t->to = rule->to;
        t->len = len;
        memcpy(t->name, tensor->name, len);
        t->next = *at;
        *at = t;
    }
    (*at)->count += count;
}

void cli_cast_saw(cli_cast_lost *l, const sft_tensor *tensor, const sft_dtype *to, const void *in,
                  const void *out, size_t n) {
    const sft_dtype *from = tensor->dtype;

    if (!is_lossy(from, to)) {
        return;
    }
    hold(l);
    lost_rule *rule = &l->rules[from->id][to->id];
    if (rule->to == NULL) {
        rule_find(rule, from, to);
    }
    release(l);
    const uint64_t count = is_imaginary(from, to) ? count_imaginary(from, in, n)
                           : is_whole(to)         ? count_whole(rule, in, n)
                                                  : count_floats(rule, in, out, n);
    if (count != 0) {
        hold(l);
        add(l, rule, tensor, count);
        release(l);
    }
}

void cli_cast_tell(cli_cast_lost *l, cli *c, const char *operand) {
    for (lost_tensor *t = l->tensors; t != NULL; t = t->next) {
        char name[256];
        char text[128];
        if (is_imaginary(t->from, t->to)) {
            (void)snprintf(text, sizeof text, "the imaginary part of %llu values is left out",
                           (unsigned long long)t->count);
        } else {
            (void)snprintf(text, sizeof text, "%llu values are beyond the range of %s",
                           (unsigned long long)t->count, t->to->name);
        }
        (void)sft_escape(name, sizeof name, t->name, t->len);
        cli_warn(c, operand, "tensor \"%s\": %s", name, text);
        cli_lost_note(c, t->name, t->len, text);
    }
}

void cli_cast_end(cli_cast_lost *l) {
    while (l != NULL && l->tensors != NULL) {
        lost_tensor *t = l->tensors;
        l->tensors = t->next;
        free(t);
    }
    free(l);
}
