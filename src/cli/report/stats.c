/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/stats.c - see stats.h. Mean and deviation of wide types: distances from what is about the
 * mean, over chunks that are in the cache; chunks are joined by the update of Chan, Golub and LeVeque
 * (1979), so that errors do not grow with the count. Loops over values are such that compilers
 * vectorise them.
 */
#include "cli/cmd.h"
#include "cli/report/tally.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const double cli_shares[CLI_PERCENTILES] = {0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999};

bool cli_stats_known(const sft_dtype *dtype) {
    return dtype->kind != SFT_KIND_OPAQUE &&
           (dtype->kind != SFT_KIND_COMPLEX || dtype->id == SFT_C64);
}

bool cli_is_integer(const sft_dtype *dtype) {
    return dtype->kind == SFT_KIND_INT || dtype->kind == SFT_KIND_UINT ||
           dtype->kind == SFT_KIND_BOOL;
}

/* Is it counted by bit pattern? */
static bool is_narrow(const sft_dtype *dtype) {
    return dtype->block_elements == 1 && dtype->block_bytes <= 2;
}

bool cli_stats_exact_integers(const sft_dtype *dtype) {
    return dtype->id == SFT_I64 || dtype->id == SFT_U64;
}

/* ---------------------------------------------------------------- bins and cells */

enum { MINUS_ZERO = 0x7fff }; /* cell of -0 in the tables of wide types */

/* What was counted into bins since they were last emptied. */
static void empty_bins(cli_tally *t) {
    cli_histogram *h = &t->stats.histogram;

    for (uint32_t i = 0; i < h->span; i++) {
        h->counts[i] += (uint64_t)t->bins[0][i] + t->bins[1][i] + t->bins[2][i] + t->bins[3][i];
    }
    for (size_t k = 0; k < 4; k++) {
        memset(t->bins[k], 0, h->span * sizeof t->bins[k][0]);
    }
}

/* Makes bins for values from min to max, as wide as these need at least. */
static void make_room(cli_tally *t, double min, double max) {
    cli_histogram *h = &t->stats.histogram;
    const int exponent = cli_histogram_width(min, max, cli_is_integer(t->dtype));

    if (exponent <= h->exponent && cli_histogram_has(h, min, max)) {
        return;
    }
    empty_bins(t);
    const cli_histogram wanted = cli_histogram_of(min, max, exponent);
    cli_histogram_merge(h, &wanted);
}

/* Several tables, so that an increment seldom waits for the one before it. */
static void count_bins(cli_tally *t, size_t n) {
    const int32_t *at = t->places;
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        t->bins[0][at[i]]++;
        t->bins[1][at[i + 1]]++;
        t->bins[2][at[i + 2]]++;
        t->bins[3][at[i + 3]]++;
    }
    for (; i < n; i++) {
        t->bins[0][at[i]]++;
    }
}

static void count_16(cli_tally *t, const unsigned char *data, size_t n) {
    size_t i = 0;

    for (; i < n && !t->all_rows; i++) {
        t->rows[data[2 * i + 1]] = true;
    }
    i = 0;
    for (; i + 2 <= n; i += 2) {
        t->tables[0][data[2 * i] | (unsigned)data[2 * i + 1] << 8]++;
        t->tables[1][data[2 * i + 2] | (unsigned)data[2 * i + 3] << 8]++;
    }
    for (; i < n; i++) {
        t->tables[0][data[2 * i] | (unsigned)data[2 * i + 1] << 8]++;
    }
}

/* Eight tables, in the first of those for 16 bits. */
static void count_8(cli_tally *t, const unsigned char *data, size_t n) {
    uint32_t *table = t->tables[0];
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t w;
        memcpy(&w, data + i, sizeof w); /* in which order is the same */
        for (unsigned k = 0; k < 8; k++) {
            table[256 * k + (w >> (8 * k) & 0xff)]++;
        }
    }
    for (; i < n; i++) {
        table[data[i]]++;
    }
    for (size_t k = 256; k < 2048; k++) {
        table[k & 255] += table[k];
        table[k] = 0;
    }
    t->rows[0] = true;
}

/* What the tables hold becomes cells; of wide types -0, 0. */
static void empty_tables(cli_tally *t) {
    for (size_t r = 0; r < 256; r++) {
        if (!t->rows[r]) {
            continue;
        }
        uint64_t *cells = t->cells + 256 * r;
        uint32_t *a = t->tables[0] + 256 * r;
        uint32_t *b = t->tables[1] + 256 * r;
        for (size_t i = 0; i < 256; i++) {
            cells[i] += (uint64_t)a[i] + b[i];
        }
        memset(a, 0, 256 * sizeof *a);
        memset(b, 0, 256 * sizeof *b);
    }
    if (!t->narrow && t->cells[MINUS_ZERO] > 0) {
        t->cells[0] += t->cells[MINUS_ZERO];
        t->cells[MINUS_ZERO] = 0;
        t->rows[0] = true;
    }
}

/* ---------------------------------------------------------------- moments */

void cli_add_moments(cli_stats *s, const cli_moments *more) {
    const double na = (double)s->finite;
    const double nb = (double)more->n;

    if (more->n == 0) {
        return;
    }
    if (s->finite == 0) {
        s->min = more->min;
        s->max = more->max;
        s->mean = more->mean;
        s->mean_rest = more->mean_rest;
        s->m2 = more->m2;
    } else {
        const double d = (more->mean - s->mean) + (more->mean_rest - s->mean_rest);
        const double step = s->mean_rest + d * (nb / (na + nb));
        const double mean = s->mean + step;
        s->mean_rest = step - (mean - s->mean);
        s->mean = mean;
        s->m2 += more->m2 + d * d * (na * (nb / (na + nb)));
        s->min = more->min < s->min ? more->min : s->min;
        s->max = more->max > s->max ? more->max : s->max;
    }
    s->finite += more->n;
}

void cli_set_mean(cli_moments *m, double about, const double sums[2]) {
    const double more = sums[0] / (double)m->n;

    m->mean = about + more;
    m->mean_rest = more - (m->mean - about);
    m->m2 = sums[1] - sums[0] * more;
    if (!isfinite(m->mean)) { /* distances, or their sum, are beyond a double */
        m->mean = m->min / 2 + m->max / 2;
        m->mean_rest = 0;
        m->m2 = INFINITY;
    }
    m->m2 = m->m2 >= 0 ? m->m2 : m->m2 < 0 ? 0 : INFINITY;
}

/* ---------------------------------------------------------------- wide types: chunks of float or
 * double */

/* What one sweep over a chunk finds. */
typedef struct extremes {
    double min;
    double max;
    uint32_t zero;
    uint32_t negative;
    bool finite; /* all of them; otherwise the rest is of no use */
} extremes;

/* The upper half of an F32 is the number of a cell: magnitudes from its end toward zero, of negative
 * values those above it, so that cells end where bins do; -0 becomes what would be NaN. */
static inline uint32_t cell_of_float(uint32_t w) {
    return w >> 16;
}

/* The same of a double as F32: below its normal numbers zero, beyond its range the last. */
static inline uint32_t cell_of_double(uint64_t w) {
    const int32_t at = (int32_t)(w << 1 >> 46) - ((1023 - 127) << 7);
    const int32_t in = at < 0                     ? 0
                       : at <= 0x7f7f             ? at
                       : w << 1 < 0 - (uint64_t)2 ? 0x7f7f
                                                  : MINUS_ZERO;
    return (uint32_t)in | (uint32_t)(w >> 63) << 15;
}

/* sweep: patterns are ordered as integers, once those of negative numbers are turned round. spread: in
 * eight lanes, which do not wait for each other. place: far from zero values and base are of one size, so
 * that their difference is exact; quick: so are all. */
enum { FAR = 1 << 30 };
#define WIDE_KERNELS(real, word, integer, bits, infinity)                                          \
    static extremes sweep_##real(const void *values, size_t n) {                                   \
        const real *x = values;                                                                    \
        integer low = (integer)(~(word)0 >> 1);                                                    \
        integer high = -low - 1;                                                                   \
        uint32_t zero = 0;                                                                         \
        uint32_t negative = 0;                                                                     \
        real ends[2];                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            word w;                                                                                \
            memcpy(&w, x + i, sizeof w);                                                           \
            const integer key = (integer)(w ^ ((word)((integer)w >> (bits - 1)) >> 1));            \
            low = key < low ? key : low;                                                           \
            high = key > high ? key : high;                                                        \
            zero += (word)(w << 1) == 0;                                                           \
            negative += (uint32_t)(w > (word)1 << (bits - 1));                                     \
        }                                                                                          \
        const bool finite = high < (integer)(infinity) && low > -(integer)(infinity) - 1;          \
        const word back[2] = {(word)low ^ ((word)(low >> (bits - 1)) >> 1),                        \
                              (word)high ^ ((word)(high >> (bits - 1)) >> 1)};                     \
        memcpy(ends, back, sizeof ends);                                                           \
        return (extremes){(double)ends[0], (double)ends[1], zero, negative, finite};               \
    }                                                                                              \
    static void spread_##real(const void *values, size_t n, double about, double sums[2]) {        \
        const real *x = values;                                                                    \
        double a[8] = {0};                                                                         \
        double b[8] = {0};                                                                         \
        size_t i = 0;                                                                              \
        for (; i + 8 <= n; i += 8) {                                                               \
            for (size_t k = 0; k < 8; k++) {                                                       \
                const double d = (double)x[i + k] - about;                                         \
                a[k] += d;                                                                         \
                b[k] += d * d;                                                                     \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            const double d = (double)x[i] - about;                                                 \
            a[i % 8] += d;                                                                         \
            b[i % 8] += d * d;                                                                     \
        }                                                                                          \
        sums[0] = ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));               \
        sums[1] = ((b[0] + b[1]) + (b[2] + b[3])) + ((b[4] + b[5]) + (b[6] + b[7]));               \
    }                                                                                              \
    static void place_##real(const void *values, size_t n, const cli_histogram *h, bool quick,     \
                             int32_t *places) {                                                    \
        const real *x = values;                                                                    \
        const double scale = ldexp(1.0, -h->exponent);                                             \
        const bool far = h->base > FAR || h->base < -FAR;                                          \
        const double from = far ? (double)-h->base : 0;                                            \
        const double base = (double)h->base;                                                       \
        const double near = far ? 0 : base;                                                        \
        if (quick) {                                                                               \
            for (size_t i = 0; i < n; i++) {                                                       \
                places[i] = (int32_t)((double)x[i] * scale - base);                                \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double v = (double)x[i] * scale + from;                                          \
            const double toward_zero = (double)(int32_t)v;                                         \
            const double rest = v - toward_zero;                                                   \
            uint64_t sign;                                                                         \
            memcpy(&sign, &rest, sizeof sign);                                                     \
            places[i] = (int32_t)(toward_zero - near) - (int32_t)(sign >> 63);                     \
        }                                                                                          \
    }                                                                                              \
    static double near_##real(const void *values, size_t n) {                                      \
        const real *x = values;                                                                    \
        integer near = (integer)(~(word)0 >> 1);                                                   \
        real end;                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                           \
            integer s;                                                                             \
            memcpy(&s, x + i, sizeof s);                                                           \
            near = s < near ? s : near;                                                            \
        }                                                                                          \
        memcpy(&end, &near, sizeof end);                                                           \
        return (double)end;                                                                        \
    }                                                                                              \
    static inline uint32_t pattern_##real(real v) {                                                \
        word w;                                                                                    \
        memcpy(&w, &v, sizeof w);                                                                  \
        return cell_of_##real(w - (w >> (bits - 1)));                                              \
    }                                                                                              \
    static void count_##real(cli_tally *t, const void *values, size_t n) {                         \
        const real *x = values;                                                                    \
        size_t i = 0;                                                                              \
        for (; i < n && !t->all_rows; i++) {                                                       \
            t->rows[pattern_##real(x[i]) >> 8] = true;                                             \
        }                                                                                          \
        for (i = 0; i + 2 <= n; i += 2) {                                                          \
            t->tables[0][pattern_##real(x[i])]++;                                                  \
            t->tables[1][pattern_##real(x[i + 1])]++;                                              \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            t->tables[0][pattern_##real(x[i])]++;                                                  \
        }                                                                                          \
    }                                                                                              \
    static size_t keep_finite_##real(cli_stats *s, const void *values, size_t n, void *to) {       \
        const real *x = values;                                                                    \
        real *finite = to; /* may be values */                                                     \
        size_t kept = 0;                                                                           \
        for (size_t i = 0; i < n; i++) {                                                           \
            if (isfinite(x[i])) {                                                                  \
                finite[kept++] = x[i];                                                             \
            } else {                                                                               \
                s->nan += isnan(x[i]) ? 1u : 0u;                                                   \
                s->positive_inf += x[i] > 0;                                                       \
                s->negative_inf += x[i] < 0;                                                       \
            }                                                                                      \
        }                                                                                          \
        return kept;                                                                               \
    }                                                                                              \
    static const kernels of_##real = {sweep_##real, spread_##real, near_##real,                    \
                                      place_##real, count_##real,  keep_finite_##real};

typedef struct kernels {
    extremes (*sweep)(const void *values, size_t n);
    void (*spread)(const void *values, size_t n, double about, double sums[2]);
    double (*near)(const void *values, size_t n);
    void (*place)(const void *values, size_t n, const cli_histogram *h, bool quick,
                  int32_t *places);
    void (*count)(cli_tally *t, const void *values, size_t n);
    size_t (*keep_finite)(cli_stats *s, const void *values, size_t n, void *to);
} kernels;

WIDE_KERNELS(float, uint32_t, int32_t, 32, 0x7f800000)
WIDE_KERNELS(double, uint64_t, int64_t, 64, 0x7ff0000000000000)

static cli_moments measure(const cli_stats *s, const kernels *k, size_t n, const extremes *e,
                           const void *values) {
    cli_moments m = {.n = n, .min = e->min, .max = e->max};
    double about = s->finite > 0 ? s->mean : e->min / 2 + e->max / 2;
    double sums[2];

    k->spread(values, n, about, sums);
    /* far from the mean, the squares drown what they differ by */
    const double more = sums[0] / (double)n;
    if (isfinite(about + more) && (sums[1] - sums[0] * more) * 1024 < sums[1]) {
        about += more;
        k->spread(values, n, about, sums);
    }
    cli_set_mean(&m, about, sums);
    return m;
}

/* As long as there are few, they are kept as they are. */
static void keep_few(cli_tally *t, const kernels *k, const void *values, size_t n) {
    if (t->stats.finite > CLI_CHUNK) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        t->few[t->few_count++] =
            k == &of_float ? (double)((const float *)values)[i] : ((const double *)values)[i];
    }
}

/* near: the negative value nearest to zero, -0 where that is one, above zero where there is none. Of
 * values of 24 bits only those next to zero could be rounded to where a bin ends. */
static void count_chunk(cli_tally *t, const kernels *k, const void *values, size_t n) {
    cli_stats *s = &t->stats;
    extremes e = k->sweep(values, n);

    if (!e.finite) {
        n = k->keep_finite(s, values, n, t->values);
        values = t->values;
        e = k->sweep(values, n);
    }
    if (n == 0) {
        return;
    }
    s->zero += e.zero;
    s->negative += e.negative;
    const cli_moments m = measure(s, k, n, &e, values);
    cli_add_moments(s, &m);
    if ((t->ways & CLI_BY_BINS) != 0) {
        make_room(t, e.min, e.max);
        const double near = k->near(values, n) * ldexp(1.0, -s->histogram.exponent);
        k->place(values, n, &s->histogram, k == &of_float && (near > 0 || near < -0x1p-20),
                 t->places);
        count_bins(t, n);
    }
    if ((t->ways & CLI_BY_CELLS) != 0) {
        k->count(t, values, n);
    }
    if ((t->ways & (CLI_BY_CELLS | CLI_FEW)) != 0) {
        keep_few(t, k, values, n);
    }
}

/* (real, imaginary) pairs become magnitudes; NaN in either part makes NaN, as numpy.isnan says. */
static void to_magnitudes(double *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double re = values[2 * i];
        const double im = values[2 * i + 1];
        values[i] = isnan(re) || isnan(im) ? NAN : hypot(re, im);
    }
}

static uint64_t load64(const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | p[i];
    }
    return v;
}

static bool below(uint64_t a, uint64_t b, bool is_signed) {
    const uint64_t flip = is_signed ? (uint64_t)1 << 63 : 0;
    return (a ^ flip) < (b ^ flip);
}

/* Of I64 and U64: all values are finite. */
static void add_exact(cli_stats *s, uint64_t min, uint64_t max, const sft_dtype *dtype) {
    const bool is_signed = dtype->id == SFT_I64;

    s->min_bits = s->finite == 0 || below(min, s->min_bits, is_signed) ? min : s->min_bits;
    s->max_bits = s->finite == 0 || below(s->max_bits, max, is_signed) ? max : s->max_bits;
}

static void exact_extremes(cli_stats *s, const unsigned char *data, size_t n,
                           const sft_dtype *dtype) {
    uint64_t ends[2] = {load64(data), load64(data)};

    for (size_t i = 1; i < n; i++) {
        const uint64_t v = load64(data + 8 * i);
        ends[0] = below(v, ends[0], dtype->id == SFT_I64) ? v : ends[0];
        ends[1] = below(ends[1], v, dtype->id == SFT_I64) ? v : ends[1];
    }
    add_exact(s, ends[0], ends[1], dtype);
}

/* Can values be used as they lie? */
static bool is_here(const sft_dtype *dtype, const unsigned char *data) {
    const uint16_t one = 1;
    unsigned char first;

    memcpy(&first, &one, 1);
    return first == 1 && (dtype->id == SFT_F32 || dtype->id == SFT_F64) &&
           (uintptr_t)data % sizeof(double) == 0;
}

static sft_status count_wide(cli_tally *t, const unsigned char *data, size_t n, sft_error *err) {
    const sft_dtype *dtype = t->dtype;
    const bool complex = dtype->kind == SFT_KIND_COMPLEX;
    const bool small = dtype->kind == SFT_KIND_FLOAT && dtype->block_bytes <= 4;
    const sft_cast cast = {sft_dtype_get(small ? SFT_F32 : SFT_F64),
                           complex ? sft_dtype_get(SFT_F32) : dtype, SFT_CONVERT_HOST_DST};

    for (size_t i = 0; i < n; i += CLI_CHUNK) {
        const size_t some = n - i < CLI_CHUNK ? n - i : CLI_CHUNK;
        const unsigned char *from = data + i / dtype->block_elements * dtype->block_bytes;
        const void *values = is_here(dtype, from) ? (const void *)from : t->values;
        if (values == t->values) {
            const sft_status status =
                sft_convert(t->values, from, complex ? 2 * some : some, &cast, err);
            if (status != SFT_OK) {
                return status;
            }
        }
        if (complex) {
            to_magnitudes(t->values, some);
        }
        if (cli_stats_exact_integers(dtype)) {
            exact_extremes(&t->stats, from, some, dtype);
        }
        count_chunk(t, small ? &of_float : &of_double, values, some);
    }
    return SFT_OK;
}

sft_status cli_tally_block(cli_tally *t, const void *data, size_t n, sft_error *err) {
    if (!cli_stats_known(t->dtype)) {
        return CLI_ERROR(err, SFT_E_UNSUPPORTED, "no statistics for values of type %s",
                         t->dtype->name);
    }
    t->all_rows = t->all_rows || n >= CLI_CELLS / 2; /* of many values all rows are looked at */
    if (t->all_rows && (t->dtype->block_bytes != 1 || !t->narrow)) {
        memset(t->rows, 1, sizeof t->rows);
    }
    t->stats.count += n;
    if (!t->narrow) {
        return count_wide(t, data, n, err);
    }
    if (t->dtype->block_bytes == 1) {
        count_8(t, data, n);
    } else {
        count_16(t, data, n);
    }
    return SFT_OK;
}

void cli_tally_settle(cli_tally *t) {
    empty_bins(t);
    empty_tables(t);
}

void cli_tally_begin(cli_tally *t, const sft_dtype *dtype, unsigned ways) {
    for (size_t r = 0; r < 256; r++) {
        if (t->rows[r]) {
            memset(t->cells + 256 * r, 0, 256 * sizeof t->cells[0]);
        }
    }
    memset(t->rows, 0, sizeof t->rows);
    memset(&t->stats, 0, sizeof t->stats);
    t->dtype = dtype;
    t->ways = ways;
    t->narrow = is_narrow(dtype) && (ways & CLI_FEW) == 0;
    t->few_count = 0;
    t->all_rows = false;
}

void cli_tally_merge(cli_tally *t, const cli_tally *more) {
    const cli_stats *m = &more->stats;
    cli_stats *s = &t->stats;

    for (size_t r = 0; r < 256; r++) {
        t->rows[r] = t->rows[r] || more->rows[r];
        for (size_t i = 256 * r; more->rows[r] && i < 256 * (r + 1); i++) {
            t->cells[i] += more->cells[i];
        }
    }
    if (cli_stats_exact_integers(t->dtype) && m->finite > 0) {
        add_exact(s, m->min_bits, m->max_bits, t->dtype);
    }
    cli_add_moments(s, &(cli_moments){m->finite, m->min, m->max, m->mean, m->mean_rest, m->m2});
    s->count += m->count;
    s->nan += m->nan;
    s->positive_inf += m->positive_inf;
    s->negative_inf += m->negative_inf;
    s->zero += m->zero;
    s->negative += m->negative;
    cli_histogram_merge(&s->histogram, &m->histogram);
}

double cli_stats_std(const cli_stats *s) {
    return s->finite == 0 ? 0 : sqrt(s->m2 / (double)s->finite);
}

double cli_stats_norm(const cli_stats *s) {
    return sqrt(s->m2 + (double)s->finite * s->mean * s->mean);
}
