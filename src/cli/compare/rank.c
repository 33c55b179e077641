/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/rank.c - the rank of D = b - a for the matrices that changed most, where it is low: a
 * merged LoRA leaves such a D, plus the noise of rounding b to its type. D is multiplied by a random
 * matrix of signs with k columns (Halko, Martinsson, Tropp 2011, "Finding structure with
 * randomness"): if its rank is below k, as many singular values of the product stand out of the
 * noise, of which the size is known. Few columns are looked at themselves. Of a large matrix some rows
 * and columns are enough, several times as many as the rank that is looked for, if D is spread over all
 * of it. Read diff.h first.
 */
#include "cli/compare/diff.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MATRICES = 16,
    NARROW = 48,      /* columns of the random matrix, for ranks up to half of it */
    WIDE = 288,       /* and three quarters */
    LEAST = 16,       /* rows and columns of a matrix that is looked at */
    MOST_ROWS = 1024, /* that are looked at */
    MOST_COLUMNS = 2048,
    GROUP = 8, /* neighbouring rows that are read at once, of rows up to LONG_ROW bytes */
    LONG_ROW = 1 << 17,
    LONGEST_ROW = 1 << 20, /* values; of longer ones no rank is told */
    UNIT = 16,             /* rows */
    STEP = 256             /* columns that are summed in single precision */
};

/* Changes of rows and columns that are evenly spaced over the matrix, and what came of them. */
typedef struct sketch {
    const cli_diff *d;
    const cli_pair *pair;
    uint64_t all_rows;
    size_t all_columns;
    size_t rows; /* that are looked at */
    size_t columns;
    size_t stride;       /* columns, and zeros up to a multiple of four */
    size_t group;        /* neighbouring rows, read at once */
    const sft_dtype *as; /* what rows are read as: F32, or F64 of a type that is wider */
    double scale;        /* of changes, a power of two; they are summed in single precision */
    float *changes;      /* rows x stride */
    size_t k;
    float *signs; /* stride x k; NULL: the changes themselves are enough, of k columns */
    double *gram; /* k x k, the upper triangle */
} sketch;

/* ---------------------------------------------------------------- eigenvalues */

typedef struct tridiagonal {
    size_t k;
    double diagonal[WIDE];
    double beside2[WIDE]; /* squares of what is beside it; 0: of the first row */
} tridiagonal;

/* v: the reflection that leaves one element of row c behind the diagonal. Half of |v|^2. */
static double reflection(const double *m, size_t k, size_t c, double *v, double *norm2) {
    *norm2 = 0;
    for (size_t i = c + 1; i < k; i++) {
        v[i] = m[c * k + i];
        *norm2 += v[i] * v[i];
    }
    const double norm = sqrt(*norm2);
    const double half = *norm2 + norm * fabs(v[c + 1]);
    v[c + 1] += copysign(norm, v[c + 1]);
    return half;
}

/* A symmetric matrix, whose upper triangle is filled in, by Householder's reflections (Golub, Van Loan,
 * "Matrix Computations", 8.3). m is overwritten. */
static void to_tridiagonal(tridiagonal *t, double *m, size_t k) {
    double v[WIDE];
    double w[WIDE];

    t->k = k;
    t->beside2[0] = 0;
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j < i; j++) {
            m[i * k + j] = m[j * k + i];
        }
    }
    for (size_t c = 0; c + 1 < k; c++) {
        const double half = reflection(m, k, c, v, &t->beside2[c + 1]);
        double vw = 0;
        for (size_t i = c + 1; i < k && half > 0; i++) {
            w[i] = 0;
            for (size_t j = c + 1; j < k; j++) {
                w[i] += m[i * k + j] * v[j];
            }
            w[i] /= half;
            vw += v[i] * w[i];
        }
        for (size_t i = c + 1; i < k && half > 0; i++) {
            w[i] -= vw / (2 * half) * v[i];
        }
        for (size_t i = c + 1; i < k && half > 0; i++) {
            for (size_t j = c + 1; j < k; j++) {
                m[i * k + j] -= v[i] * w[j] + w[i] * v[j];
            }
        }
    }
    for (size_t i = 0; i < k; i++) {
        t->diagonal[i] = m[i * k + i];
    }
}

/* How many eigenvalues are above x: the signs of Sturm's sequence. */
static size_t count_above(const tridiagonal *t, double x) {
    size_t count = 0;
    double q = 1;

    for (size_t i = 0; i < t->k; i++) {
        q = t->diagonal[i] - x - t->beside2[i] / q;
        q = fabs(q) > DBL_MIN ? q : -DBL_MIN;
        count += q > 0;
    }
    return count;
}

/* The one that n others are above; most: no one is. */
static double eigenvalue(const tridiagonal *t, size_t n, double most) {
    double low = 0;
    double high = most;

    for (int i = 0; i < 60; i++) {
        const double middle = low + (high - low) / 2;
        if (count_above(t, middle) > n) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---------------------------------------------------------------- the changes */

static size_t stride_of(size_t columns) {
    return (columns + 3) / 4 * 4;
}

#define CHANGES(real)                                                                              \
    static void changes_##real(const sketch *s, const real *a, const real *b, float *d) {          \
        const real scale = (real)s->scale;                                                         \
        for (size_t j = 0; j < s->columns; j++) {                                                  \
            const size_t column = j * s->all_columns / s->columns;                                 \
            const real change = b[column] - a[column];                                             \
            d[j] = isfinite(change) ? (float)(change * scale) : 0;                                 \
        }                                                                                          \
    }

CHANGES(float)
CHANGES(double)

/* Number row of those looked at: groups are evenly spaced. */
static uint64_t place_of(const sketch *s, size_t row) {
    const size_t groups = s->rows / s->group; /* without a rest, or all rows are looked at */
    return s->rows == s->all_rows ? row : row / s->group * s->all_rows / groups + row % s->group;
}

static size_t rows_of_group(const sketch *s, size_t from) {
    return s->rows - from < s->group ? s->rows - from : s->group;
}

/* to: the group's values, read as bytes first. */
static sft_status read_rows(const sketch *s, bool of_b, size_t from, void *to, void *bytes,
                            sft_error *err) {
    const sft_tensor *t = of_b ? s->pair->b : s->pair->a;
    const uint64_t values = (uint64_t)rows_of_group(s, from) * s->all_columns;
    const uint64_t place = cli_bytes_of(t->dtype, place_of(s, from) * s->all_columns);
    const sft_status status = sft_tensor_read_bytes(of_b ? s->d->b : s->d->a, t, place, bytes,
                                                    (size_t)cli_bytes_of(t->dtype, values), err);

    return status != SFT_OK ? status
                            : sft_convert(to, bytes, values,
                                          &(sft_cast){s->as, t->dtype, SFT_CONVERT_HOST_DST}, err);
}

/* In a slot's room: a group of each as numbers, and as bytes. */
static sft_status read_group(void *ctx, uint64_t unit, cli_slot *slot) {
    const sketch *s = ctx;
    const size_t from = (size_t)unit * s->group;
    const size_t row_bytes = s->all_columns * s->as->block_bytes;
    char *a = slot->room;
    char *b = a + s->group * row_bytes;
    char *bytes = b + s->group * row_bytes;
    sft_status status = read_rows(s, false, from, a, bytes, &slot->err);

    if (status == SFT_OK) {
        status = read_rows(s, true, from, b, bytes, &slot->err);
    }
    for (size_t r = 0; r < rows_of_group(s, from) && status == SFT_OK; r++) {
        float *d = s->changes + (from + r) * s->stride;
        const void *of_a = a + r * row_bytes;
        const void *of_b = b + r * row_bytes;
        if (s->as->id == SFT_F64) {
            changes_double(s, of_a, of_b, d);
        } else {
            changes_float(s, of_a, of_b, d);
        }
    }
    return status;
}

static sft_status count_read(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    const sketch *s = ctx;
    (void)unit;
    (void)slot;
    *bytes = s->group * (uint64_t)s->all_columns; /* only drawn */
    return SFT_OK;
}

static sft_status read_changes(sketch *s, sft_error *err) {
    const cli_job job = {.label = "estimating ranks",
                         .count = (s->rows + s->group - 1) / s->group,
                         .total_bytes = s->rows * (uint64_t)s->all_columns,
                         .room_bytes = s->group * s->all_columns * (2 * s->as->block_bytes + 8),
                         .reads = true,
                         .work = read_group,
                         .merge = count_read,
                         .ctx = s};
    return cli_run_job(s->d->c, &job, err);
}

/* ---------------------------------------------------------------- the product */

static void fill_signs(sketch *s) {
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15); /* always the same: so is the answer */
    for (size_t i = 0; i < s->columns * s->k; i++) {
        state ^= state << 13; /* Marsaglia 2003, xorshift64 */
        state ^= state >> 7;
        state ^= state << 17;
        s->signs[i] = (state >> 40 & 1) != 0 ? 1.0f : -1.0f;
    }
}

/* y += d * signs: the changes of a row, four at a time. */
static void add_row(const sketch *s, const float *d, double *y) {
    for (size_t from = 0; from < s->stride; from += STEP) {
        const size_t end = s->stride - from < STEP ? s->stride : from + STEP;
        float part[WIDE] = {0};
        for (size_t j = from; j < end; j += 4) {
            const float *row = s->signs + j * s->k;
            for (size_t i = 0; i < s->k; i++) {
                part[i] += (d[j] * row[i] + d[j + 1] * row[i + s->k]) +
                           (d[j + 2] * row[i + 2 * s->k] + d[j + 3] * row[i + 3 * s->k]);
            }
        }
        for (size_t i = 0; i < s->k; i++) {
            y[i] += (double)part[i];
        }
    }
}

/* In a slot's room: the Gram matrix of a unit's rows. */
static sft_status sketch_rows(void *ctx, uint64_t unit, cli_slot *slot) {
    const sketch *s = ctx;
    double *gram = slot->room;

    memset(gram, 0, s->k * s->k * sizeof *gram);
    for (size_t r = (size_t)unit * UNIT; r < s->rows && r < (unit + 1) * UNIT; r++) {
        const float *d = s->changes + r * s->stride;
        double y[WIDE] = {0};
        if (s->signs != NULL) {
            add_row(s, d, y);
        }
        for (size_t i = 0; s->signs == NULL && i < s->k; i++) {
            y[i] = (double)d[i];
        }
        for (size_t i = 0; i < s->k; i++) {
            const double one = y[i];
            double *of_row = gram + i * s->k;
            for (size_t j = i; j < s->k; j++) {
                of_row[j] += one * y[j];
            }
        }
    }
    return SFT_OK;
}

static sft_status add_gram(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    sketch *s = ctx;
    const double *gram = slot->room;

    (void)unit;
    for (size_t i = 0; i < s->k * s->k; i++) {
        s->gram[i] += gram[i];
    }
    *bytes = UNIT; /* only drawn */
    return SFT_OK;
}

/* ---------------------------------------------------------------- a matrix */

/* How many values, squares of singular values, stand out of the noise, and clearly so; 0: none or more
 * than `most`. */
static uint32_t rank_of(const sketch *s, size_t most) {
    const double wider = 1 + sqrt((double)s->k / (double)s->rows);
    const double share =
        (double)s->rows / (double)s->all_rows * ((double)s->columns / (double)s->all_columns);
    const double columns = s->signs != NULL ? 1 : (double)s->k; /* each sign is of all of them */
    const double noise =
        s->pair->change->rounding * s->scale * s->scale * share / columns * wider * wider;
    double all = 0;
    tridiagonal t;

    for (size_t i = 0; i < s->k; i++) {
        all += s->gram[i * s->k + i];
    }
    to_tridiagonal(&t, s->gram, s->k);
    const size_t rank = count_above(&t, 5 * noise + all * 1e-11);
    if (rank == 0 || rank > most) {
        return 0;
    }
    const double next = eigenvalue(&t, rank, all);
    /* of few signs; else more may be there */
    const bool clear = s->k > NARROW || next <= 2.5 * noise + all * 1e-11;
    return clear && eigenvalue(&t, rank - 1, all) > 2 * next ? (uint32_t)rank : 0;
}

/* Are there rows or columns that did not change? Then others than those that were looked at may have. */
static bool is_scattered(const sketch *s) {
    bool changed[MOST_COLUMNS] = {false};
    size_t rows = 0;
    size_t columns = 0;

    for (size_t r = 0; r < s->rows; r++) {
        const float *d = s->changes + r * s->stride;
        bool any = false;
        for (size_t j = 0; j < s->columns; j++) {
            changed[j] = changed[j] || d[j] != 0;
            any = any || d[j] != 0;
        }
        rows += any;
    }
    for (size_t j = 0; j < s->columns; j++) {
        columns += changed[j];
    }
    return 20 * rows < 19 * s->rows || 20 * columns < 19 * s->columns;
}

/* There are no more columns than rows. */
static void lay_upright(sketch *s) {
    const size_t rows = s->rows;
    const size_t stride = stride_of(rows);

    if (rows >= s->columns) {
        return;
    }
    float *upright = cli_alloc(s->columns * stride, sizeof *upright);
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < s->columns; j++) {
            upright[j * stride + r] = s->changes[r * s->stride + j];
        }
    }
    free(s->changes);
    s->changes = upright;
    s->stride = stride;
    s->rows = s->columns;
    s->columns = rows;
}

/* The rank if it is at most `most`, else 0. */
static sft_status try_rank(sketch *s, size_t k, size_t most, uint32_t *rank, sft_error *err) {
    const cli_job job = {.label = "estimating ranks",
                         .count = (s->rows + UNIT - 1) / UNIT,
                         .total_bytes = s->rows,
                         .room_bytes = k * k * sizeof(double),
                         .work = sketch_rows,
                         .merge = add_gram,
                         .ctx = s};
    s->k = k;
    s->gram = cli_alloc(k * k, sizeof *s->gram);
    if (k < s->columns) {
        s->signs = cli_alloc(s->stride * k, sizeof *s->signs); /* zeros behind the last */
        fill_signs(s);
    }
    const sft_status status = cli_run_job(s->d->c, &job, err);
    *rank = status == SFT_OK ? rank_of(s, most) : 0;
    free(s->signs);
    free(s->gram);
    s->signs = NULL;
    return status;
}

static size_t smaller_side(const sft_tensor *t) {
    const uint64_t rows = t->shape[0];
    const uint64_t columns = cli_elements(t) / rows;
    return (size_t)(rows < columns ? rows : columns);
}

/* The rows are read once. Few columns are enough themselves; of more, few signs are tried first, which are
 * enough for most LoRAs. */
static sft_status find_rank(cli_diff *d, cli_pair *p, sft_error *err) {
    sketch s = {.d = d, .pair = p, .all_rows = p->a->shape[0]};
    const size_t low = 3 * smaller_side(p->a) / 8;

    s.as = sft_dtype_get(p->a->dtype->id == SFT_F64 ? SFT_F64 : SFT_F32);
    s.scale = s.as->id == SFT_F64 ? ldexp(1, -ilogb(p->change->max_abs)) : 1;
    s.all_columns = (size_t)(cli_elements(p->a) / s.all_rows);
    s.rows = s.all_rows < MOST_ROWS ? (size_t)s.all_rows : MOST_ROWS;
    s.columns = s.all_columns < MOST_COLUMNS ? s.all_columns : MOST_COLUMNS;
    s.stride = stride_of(s.columns);
    s.group = s.all_columns * s.as->block_bytes <= LONG_ROW ? GROUP : 1;
    s.changes = cli_alloc(s.rows * s.stride, sizeof *s.changes);
    const bool all = s.rows == s.all_rows && s.columns == s.all_columns;
    sft_status status = read_changes(&s, err);
    if (status == SFT_OK) {
        p->scattered = is_scattered(&s);
    }
    if (status == SFT_OK && (all || !p->scattered)) {
        lay_upright(&s);
        if (s.columns > WIDE) {
            status = try_rank(&s, NARROW, NARROW / 2, &p->rank, err);
        }
        if (status == SFT_OK && p->rank == 0) {
            const size_t k = s.columns < WIDE ? s.columns : WIDE;
            status = try_rank(&s, k, low < 3 * k / 4 ? low : 3 * k / 4, &p->rank, err);
        }
    }
    free(s.changes);
    return status;
}

static bool is_matrix(const cli_pair *p) {
    if (p->change == NULL || p->change->d2 <= 0 || p->change->scale_d != 0 || p->change->no_ulp ||
        p->a->rank < 2 || p->a->dtype->kind != SFT_KIND_FLOAT) {
        return false;
    }
    return smaller_side(p->a) >= LEAST && cli_elements(p->a) / p->a->shape[0] <= LONGEST_ROW;
}

static int by_change(const void *a, const void *b) {
    const cli_pair *x = *(cli_pair *const *)a;
    const cli_pair *y = *(cli_pair *const *)b;
    const double p = cli_change_relative(x->change);
    const double q = cli_change_relative(y->change);
    return p > q ? -1 : p < q ? 1 : cli_compare_bytes(x->name, x->name_len, y->name, y->name_len);
}

bool cli_diff_find_ranks(cli_diff *d) {
    cli_pair **matrices = cli_alloc(d->count, sizeof *matrices);
    size_t count = 0;
    sft_status status = SFT_OK;
    sft_error err;

    for (size_t i = 0; i < d->count; i++) {
        if (is_matrix(&d->pairs[i])) {
            matrices[count++] = &d->pairs[i];
        }
    }
    qsort(matrices, count, sizeof *matrices, by_change);
    for (size_t i = 0; i < count && i < MATRICES && status == SFT_OK; i++) {
        matrices[i]->ranked = true;
        status = find_rank(d, matrices[i], &err);
    }
    free(matrices);
    if (status != SFT_OK) {
        cli_fail(d->c, NULL, &err);
    }
    return status == SFT_OK;
}
