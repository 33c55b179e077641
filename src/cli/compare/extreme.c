/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/extreme.c - sums of squares of numbers whose squares doubles do not have: those of a block
 * are taken again, of numbers divided by a power of two, of a, of b and of their distances each its own.
 * Read change.h first.
 */
#include "cli/compare/change.h"
#include "cli/ui/values.h"
#include <float.h>
#include <math.h>

enum { CHUNK = 1024 };

/* Beyond the one, squares may be infinite; below the other, what they lost may matter. Both leave room for
 * the sums of all blocks. */
static const double MOST = 1e280;
static const double FEWEST = 1e-260;

typedef struct chunk {
    double a[CHUNK];
    double b[CHUNK];
    size_t n;
} chunk;

typedef struct sums {
    int scales[3]; /* of a, b, d */
    double most[3];
    cli_change *x;
} sums;

/* As measure_double() takes them: what is not finite on one side counts as 0 on both. */
static sft_status read_chunk(chunk *c, const cli_blocks *both, size_t first, size_t n,
                             sft_error *err) {
    const sft_dtype *types[2] = {cli_number_type(both->type_a), cli_number_type(both->type_b)};
    const void *data[2] = {both->a, both->b};
    double *to[2] = {c->a, c->b};

    for (size_t k = 0; k < 2; k++) {
        const unsigned char *from = (const unsigned char *)data[k] +
                                    first / types[k]->block_elements * types[k]->block_bytes;
        const sft_status status =
            sft_convert(to[k], from, n,
                        &(sft_cast){sft_dtype_get(SFT_F64), types[k], SFT_CONVERT_HOST_DST}, err);
        if (status != SFT_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(c->a[i]) || !isfinite(c->b[i])) {
            c->a[i] = c->b[i] = 0;
        }
    }
    c->n = n;
    return SFT_OK;
}

/* (b - a) / 2^scale, also where doubles have no b - a. */
static double distance(double a, double b, int scale) {
    const double d = b - a;
    return isfinite(d) ? ldexp(d, -scale) : ldexp(b / 2 - a / 2, 1 - scale);
}

static void take_most(sums *s, const chunk *c) {
    for (size_t i = 0; i < c->n; i++) {
        s->most[0] = fmax(s->most[0], fabs(c->a[i]));
        s->most[1] = fmax(s->most[1], fabs(c->b[i]));
        s->most[2] = fmax(s->most[2], fmin(fabs(c->b[i] - c->a[i]), DBL_MAX));
    }
}

static void take_sums(sums *s, const chunk *c) {
    for (size_t i = 0; i < c->n; i++) {
        const double p = ldexp(c->a[i], -s->scales[0]);
        const double q = ldexp(c->b[i], -s->scales[1]);
        const double r = distance(c->a[i], c->b[i], s->scales[2]);
        s->x->a2 += p * p;
        s->x->b2 += q * q;
        s->x->d2 += r * r;
        s->x->ab += p * q;
    }
}

static bool is_plain(double squares, bool any) {
    return squares <= MOST && (squares >= FEWEST || !any);
}

/* Goes over the block's numbers. */
static sft_status each_chunk(sums *s, const cli_blocks *both, size_t numbers,
                             void (*take)(sums *, const chunk *), sft_error *err) {
    chunk c;
    sft_status status = SFT_OK;

    for (size_t first = 0; first < numbers && status == SFT_OK; first += CHUNK) {
        status =
            read_chunk(&c, both, first, numbers - first < CHUNK ? numbers - first : CHUNK, err);
        if (status == SFT_OK) {
            take(s, &c);
        }
    }
    return status;
}

sft_status cli_change_extreme(cli_change *x, const cli_blocks *both, size_t numbers,
                              sft_error *err) {
    sums s = {.x = x};

    /* that sums are 0 because all numbers are is not known yet */
    if (is_plain(x->a2, true) && is_plain(x->b2, true) && is_plain(x->d2, x->max_abs > 0)) {
        return SFT_OK;
    }
    const sft_status status = each_chunk(&s, both, numbers, take_most, err);
    if (status != SFT_OK || (is_plain(x->a2, s.most[0] > 0) && is_plain(x->b2, s.most[1] > 0) &&
                             is_plain(x->d2, s.most[2] > 0))) {
        return status;
    }
    for (size_t k = 0; k < 3; k++) {
        (void)frexp(s.most[k], &s.scales[k]);
    }
    x->a2 = x->b2 = x->d2 = x->ab = 0;
    x->scale_a = s.scales[0];
    x->scale_b = s.scales[1];
    x->scale_d = s.scales[2];
    return each_chunk(&s, both, numbers, take_sums, err);
}

/* ---------------------------------------------------------------- results */

static double rescaled(double sum, int by) {
    return by == 0 ? sum : ldexp(sum, by);
}

/* Of a and more, the larger scale that a sum needs. */
static int common_scale(double sum, int scale, double more, int more_scale) {
    return more <= 0 ? scale : sum <= 0 ? more_scale : scale > more_scale ? scale : more_scale;
}

void cli_change_add_sums(cli_change *x, const cli_change *more) {
    const int a = common_scale(x->a2, x->scale_a, more->a2, more->scale_a);
    const int b = common_scale(x->b2, x->scale_b, more->b2, more->scale_b);
    const int d = common_scale(x->d2, x->scale_d, more->d2, more->scale_d);

    x->ab = rescaled(x->ab, x->scale_a + x->scale_b - a - b) +
            rescaled(more->ab, more->scale_a + more->scale_b - a - b);
    x->a2 = rescaled(x->a2, 2 * (x->scale_a - a)) + rescaled(more->a2, 2 * (more->scale_a - a));
    x->b2 = rescaled(x->b2, 2 * (x->scale_b - b)) + rescaled(more->b2, 2 * (more->scale_b - b));
    x->d2 = rescaled(x->d2, 2 * (x->scale_d - d)) + rescaled(more->d2, 2 * (more->scale_d - d));
    x->scale_a = a;
    x->scale_b = b;
    x->scale_d = d;
}

double cli_change_norm(double squares, int scale) {
    return rescaled(sqrt(squares), scale);
}

double cli_change_relative(const cli_change *x) {
    return x->d2 > 0 ? rescaled(sqrt(x->d2) / sqrt(x->a2), x->scale_d - x->scale_a) : 0;
}

double cli_change_cosine(const cli_change *x) {
    const double cosine = x->ab / (sqrt(x->a2) * sqrt(x->b2));
    return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}
