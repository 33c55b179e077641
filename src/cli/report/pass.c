/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/pass.c - one pass over the data of a model: statistics and thumbnails. A unit of work is a
 * part of one large tensor, or many small tensors; what a tensor's parts say is joined in their order.
 * Read report.h first.
 */
#include "cli/report/report.h"
#include "cli/work.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 24 << 13, /* counted while it is in the cache: 192 KiB */
    READ_BYTES = 8 * PIECE_BYTES,
    UNIT_BYTES = 16 * PIECE_BYTES,
    UNIT_TENSORS = 1024,
    SMALL_BYTES = 1 << 18, /* of tensors whose bins are exact */
    FEW = 512,             /* elements */
    SIDE = 32,             /* cells of a thumbnail */
    PER_CELL = 16,         /* elements that are looked at */
    RUNS = 16,             /* of a sample */
    BATCH = 512            /* elements */
};

/* ---------------------------------------------------------------- thumbnails */

typedef struct grid {
    uint32_t rows;
    uint32_t columns;
    uint64_t across; /* elements of a row of the tensor */
    uint64_t down;
    uint64_t step;
    double sums[SIDE * SIDE];
    uint32_t counts[SIDE * SIDE];
} grid;

/* The tensor as a matrix: its first dimension and the rest; a vector is a row. */
static uint64_t rows_of(const sft_tensor *t) {
    return t->rank > 1 ? t->shape[0] : 1;
}

size_t cli_report_grid(const sft_tensor *t, uint32_t *rows, uint32_t *columns) {
    const uint64_t n = cli_stats_known(t->dtype) ? cli_elements(t) : 0;
    const uint64_t down = rows_of(t);

    *rows = n == 0 ? 0 : (uint32_t)(down < SIDE ? down : SIDE);
    *columns = n == 0 ? 0 : (uint32_t)(n / down < SIDE ? n / down : SIDE);
    return n == 0 ? 1 : 7 + (size_t)*rows * *columns;
}

static bool have_factor(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a > 1;
}

/* elements: that are read. */
static void grid_begin(grid *g, const sft_tensor *t, uint64_t elements) {
    memset(g, 0, sizeof *g);
    if (cli_report_grid(t, &g->rows, &g->columns) == 1) {
        return;
    }
    g->down = rows_of(t);
    g->across = cli_elements(t) / g->down;
    g->step = elements / ((uint64_t)PER_CELL * g->rows * g->columns);
    g->step = g->step > 0 ? g->step : 1;
    while (g->step > 1 && have_factor(g->step, g->across)) {
        g->step++; /* or columns would be passed over */
    }
}

/* a * b / c for a < c: at most b. */
static uint32_t share(uint64_t a, uint32_t b, uint64_t c) {
    if (a <= UINT64_MAX / SIDE) {
        return (uint32_t)(a * b / c);
    }
    const uint64_t part = a / (c / b); /* c is large */
    return (uint32_t)(part < b ? part : b - 1);
}

static void add_batch(grid *g, const double *values, const uint64_t *at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = share(at[i] / g->across, g->rows, g->down);
        const uint32_t column = share(at[i] % g->across, g->columns, g->across);
        const double v = fabs(values[i]);
        if (isfinite(v)) {
            g->sums[row * g->columns + column] += v;
            g->counts[row * g->columns + column]++;
        }
    }
}

/* Every step-th element of those that begin with number `first`; whole blocks. */
static sft_status look(grid *g, const sft_dtype *dtype, const unsigned char *data, uint64_t first,
                       size_t n) {
    const bool complex = dtype->kind == SFT_KIND_COMPLEX;
    const uint32_t block = complex ? 2 : dtype->block_elements;
    const uint32_t size = dtype->block_bytes;
    const sft_cast cast = {sft_dtype_get(SFT_F64), complex ? sft_dtype_get(SFT_F32) : dtype,
                           SFT_CONVERT_HOST_DST};
    unsigned char raw[BATCH * 8];
    double values[BATCH * 4];
    uint64_t at[BATCH];

    if (g->rows == 0) {
        return SFT_OK;
    }
    for (uint64_t i = (g->step - first % g->step) % g->step; i < n;) {
        size_t some = 0;
        for (; some < BATCH && i < n; i += g->step) {
            memcpy(raw + some * size, data + i / dtype->block_elements * size, size);
            at[some++] = first + i;
        }
        const sft_status status = sft_convert(values, raw, some * block, &cast, NULL);
        if (status != SFT_OK) {
            return status;
        }
        for (size_t k = 0; k < some; k++) {
            values[k] = complex ? hypot(values[2 * k], values[2 * k + 1])
                                : values[k * block + (at[k] - first) % block];
        }
        add_batch(g, values, at, some);
    }
    return SFT_OK;
}

static void grid_merge(grid *g, const grid *more) {
    for (size_t i = 0; i < (size_t)g->rows * g->columns; i++) {
        g->sums[i] += more->sums[i];
        g->counts[i] += more->counts[i];
    }
}

/* ---------------------------------------------------------------- entries */

static void put_float(cli_text_buffer *t, double value) {
    const float v = (float)(value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value);
    uint32_t bits;
    char bytes[4];

    memcpy(&bits, &v, sizeof bits);
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (char)(bits >> 8 * i & 0xff);
    }
    cli_text_add(t, bytes, sizeof bytes);
}

static void put_double(cli_text_buffer *t, double value) {
    uint64_t bits;
    char bytes[8];

    memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (char)(bits >> 8 * i & 0xff);
    }
    cli_text_add(t, bytes, sizeof bytes);
}

static void put_stats(cli_text_buffer *t, cli_stats *s, bool exact) {
    const uint64_t counts[] = {s->count,        s->nan,  s->positive_inf,
                               s->negative_inf, s->zero, s->negative};
    const double values[] = {s->min, s->max, s->mean, cli_stats_std(s), cli_stats_norm(s)};

    cli_text_add(t, exact ? "\1" : "\2", 1);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        cli_put_leb(t, counts[i]);
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        put_double(t, values[i]);
    }
    for (size_t i = 0; i < CLI_PERCENTILES; i++) {
        put_float(t, s->percentiles[i]);
    }
    cli_histogram_narrow(&s->histogram, 64);
    put_double(t, cli_histogram_edge(&s->histogram, 0));
    put_double(t, ldexp(1.0, s->histogram.exponent));
    const char bins = (char)s->histogram.span;
    cli_text_add(t, &bins, 1);
    for (uint32_t i = 0; i < s->histogram.span; i++) {
        cli_put_leb(t, s->histogram.counts[i]);
    }
}

static void put_heat(cli_text_buffer *t, const grid *g) {
    const size_t cells = (size_t)g->rows * g->columns;
    const char head[3] = {1, (char)g->rows, (char)g->columns};
    double most = 0;
    unsigned char bytes[SIDE * SIDE];

    for (size_t i = 0; i < cells; i++) {
        const double mean = g->counts[i] > 0 ? g->sums[i] / g->counts[i] : 0;
        most = mean > most ? mean : most;
    }
    most = most < FLT_MAX ? most : FLT_MAX; /* an infinite sum, too */
    for (size_t i = 0; i < cells; i++) {
        const double mean = g->counts[i] > 0 ? g->sums[i] / g->counts[i] : 0;
        bytes[i] = (unsigned char)(most > 0 ? (mean < most ? mean / most : 1) * 255 + 0.5 : 0);
    }
    cli_text_add(t, head, sizeof head);
    put_float(t, most);
    cli_text_add(t, (const char *)bytes, cells);
}

/* ---------------------------------------------------------------- the pass */

/* A part of a tensor, or `tensors` whole ones. */
typedef struct unit {
    size_t first;
    size_t tensors;  /* 0: a part */
    uint64_t offset; /* of a part */
    uint64_t bytes;  /* that are read */
} unit;

typedef struct pass {
    cli_report *r;
    size_t first; /* tensors from this one on */
    bool one;     /* that alone, and all of it */
    unit *units;
    size_t count;
    size_t room;
    uint64_t bytes;
    sft_reader *reader;
    cli_tally *tally; /* of the tensor whose parts are joined */
    grid grid;
} pass;

typedef struct worker {
    cli_tally tally;
    grid grid;
    cli_text_buffer stats; /* of whole tensors */
    cli_text_buffer heat;
    cli_text_buffer sizes; /* pairs of uint32_t */
    unsigned char room[SFT_READER_ROOM(READ_BYTES)];
} worker;

static bool is_wanted(const pass *p, size_t i) {
    const sft_tensor *t = sft_catalog_at(p->r->catalog, i);
    return (p->one || p->r->wanted == NULL || p->r->wanted[i]) && cli_stats_known(t->dtype);
}

static bool is_drawn(const pass *p, size_t i) {
    return p->one || (p->r->drawn != NULL && p->r->drawn[i]);
}

static uint64_t sample_bytes(const pass *p, const sft_tensor *t) {
    const uint64_t each = p->r->sample / RUNS / 8 * 8;
    const uint64_t bytes = cli_bytes_of(t->dtype, (each > 8 ? each : 8) * RUNS);
    return p->r->mode == CLI_STATS_FULL || bytes > t->nbytes ? t->nbytes : bytes;
}

static void add_unit(pass *p, unit u) {
    unit *last = p->count > 0 ? &p->units[p->count - 1] : NULL;

    p->bytes += u.bytes; /* of files: cannot overflow */
    if (last != NULL && u.tensors != 0 && last->tensors != 0 && last->tensors < UNIT_TENSORS &&
        last->bytes + u.bytes <= UNIT_BYTES) {
        last->tensors++;
        last->bytes += u.bytes;
        return;
    }
    if (p->count == p->room) {
        p->room = p->room > 0 ? 2 * p->room : 64;
        p->units = cli_resize(p->units, p->room, sizeof *p->units);
    }
    p->units[p->count++] = u;
}

static void cut(pass *p, size_t end) {
    for (size_t i = p->first; i < end; i++) {
        const sft_tensor *t = sft_catalog_at(p->r->catalog, i);
        const uint64_t bytes = is_wanted(p, i) ? sample_bytes(p, t) : 0;
        if (bytes <= UNIT_BYTES || p->r->mode == CLI_STATS_SAMPLE) {
            add_unit(p, (unit){i, 1, 0, bytes});
            continue;
        }
        for (uint64_t at = 0; at < bytes; at += UNIT_BYTES) {
            const uint64_t left = bytes - at;
            add_unit(p, (unit){i, 0, at, left < UNIT_BYTES ? left : UNIT_BYTES});
        }
    }
}

/* What begins with number `first`, a piece at a time. */
static sft_status count_pieces(worker *w, const sft_dtype *dtype, const unsigned char *data,
                               size_t size, uint64_t first, sft_error *err) {
    sft_status status = SFT_OK;

    for (size_t at = 0; at < size && status == SFT_OK; at += PIECE_BYTES) {
        const size_t bytes = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        const size_t n = bytes / dtype->block_bytes * dtype->block_elements;
        status = cli_tally_block(&w->tally, data + at, n, err);
        if (status == SFT_OK) {
            status = look(&w->grid, dtype, data + at,
                          first + at / dtype->block_bytes * dtype->block_elements, n);
        }
    }
    return status;
}

static sft_status count_range(const pass *p, worker *w, const sft_tensor *t, uint64_t offset,
                              uint64_t bytes, sft_error *err) {
    sft_status status = SFT_OK;

    for (uint64_t at = offset; at < offset + bytes && status == SFT_OK; at += READ_BYTES) {
        const uint64_t left = offset + bytes - at;
        const size_t size = left < READ_BYTES ? (size_t)left : READ_BYTES;
        void *data = w->room;
        status = sft_reader_read(p->reader, t, at, size, &data, err);
        if (status == SFT_OK) {
            status = count_pieces(w, t->dtype, data, size,
                                  at / t->dtype->block_bytes * t->dtype->block_elements, err);
        }
    }
    return status;
}

/* Of many elements some runs, as far from each other. */
static sft_status count_sample(const pass *p, worker *w, const sft_tensor *t, uint64_t bytes,
                               sft_error *err) {
    const uint64_t each = bytes / RUNS;
    const uint64_t block = cli_bytes_of(t->dtype, 8);
    const uint64_t gap = (t->nbytes - each) / (RUNS - 1) / block * block;
    sft_status status = SFT_OK;

    for (uint64_t i = 0; i < RUNS && status == SFT_OK; i++) {
        status = count_range(p, w, t, i * gap, each, err);
    }
    return status;
}

static unsigned ways_for(const sft_tensor *t, uint64_t bytes) {
    const bool few = bytes / t->dtype->block_bytes * t->dtype->block_elements <= FEW;
    return few                    ? CLI_BY_BINS | CLI_FEW
           : bytes <= SMALL_BYTES ? CLI_BY_CELLS | CLI_BY_BINS
                                  : CLI_BY_CELLS;
}

static sft_status count_tensor(const pass *p, worker *w, size_t i, sft_error *err) {
    const sft_tensor *t = sft_catalog_at(p->r->catalog, i);
    const uint64_t bytes = sample_bytes(p, t);
    const bool exact = bytes == t->nbytes;
    uint32_t sizes[2] = {(uint32_t)w->stats.size, (uint32_t)w->heat.size};

    if (is_wanted(p, i)) {
        cli_tally_begin(&w->tally, t->dtype, ways_for(t, bytes));
        grid_begin(&w->grid, t, bytes / t->dtype->block_bytes * t->dtype->block_elements);
        const sft_status status =
            exact ? count_range(p, w, t, 0, bytes, err) : count_sample(p, w, t, bytes, err);
        if (status != SFT_OK) {
            return status;
        }
        cli_tally_end(&w->tally);
        put_stats(&w->stats, &w->tally.stats, exact);
        if (is_drawn(p, i) && w->grid.rows > 0) {
            put_heat(&w->heat, &w->grid);
        }
    }
    sizes[0] = (uint32_t)w->stats.size - sizes[0];
    sizes[1] = (uint32_t)w->heat.size - sizes[1];
    cli_text_add(&w->sizes, (const char *)sizes, sizeof sizes);
    return SFT_OK;
}

static sft_status count_unit(void *ctx, uint64_t number, cli_slot *slot) {
    const pass *p = ctx;
    const unit *u = &p->units[number];
    worker *w = slot->room;
    sft_status status = SFT_OK;

    if (u->tensors == 0) {
        const sft_tensor *t = sft_catalog_at(p->r->catalog, u->first);
        cli_tally_begin(&w->tally, t->dtype, CLI_BY_CELLS);
        grid_begin(&w->grid, t, cli_elements(t));
        status = count_range(p, w, t, u->offset, u->bytes, &slot->err);
        cli_tally_settle(&w->tally);
        return status;
    }
    for (size_t i = 0; i < u->tensors && status == SFT_OK; i++) {
        status = count_tensor(p, w, u->first + i, &slot->err);
    }
    return status;
}

static void take(cli_text_buffer *from, cli_text_buffer *to) {
    cli_text_add(to, from->data, from->size);
    free(from->data);
    memset(from, 0, sizeof *from);
}

static void join_part(pass *p, const unit *u, const worker *w) {
    const sft_tensor *t = sft_catalog_at(p->r->catalog, u->first);
    cli_report *r = p->r;

    if (u->offset == 0) {
        cli_tally_begin(p->tally, t->dtype, CLI_BY_CELLS);
        grid_begin(&p->grid, t, cli_elements(t));
    }
    cli_tally_merge(p->tally, &w->tally);
    grid_merge(&p->grid, &w->grid);
    if (u->offset + u->bytes == t->nbytes) {
        const size_t before[2] = {r->stats.bytes.size, r->heat.bytes.size};
        cli_tally_end(p->tally);
        put_stats(&r->stats.bytes, &p->tally->stats, true);
        if (is_drawn(p, u->first) && p->grid.rows > 0) {
            put_heat(&r->heat.bytes, &p->grid);
        }
        r->stats.sizes[u->first - p->first] = (uint32_t)(r->stats.bytes.size - before[0]);
        r->heat.sizes[u->first - p->first] = (uint32_t)(r->heat.bytes.size - before[1]);
    }
}

static sft_status join_unit(void *ctx, uint64_t number, cli_slot *slot, uint64_t *bytes) {
    pass *p = ctx;
    const unit *u = &p->units[number];
    worker *w = slot->room;

    *bytes = u->bytes;
    if (u->tensors == 0) {
        join_part(p, u, w);
        return SFT_OK;
    }
    for (size_t i = 0; i < u->tensors; i++) {
        uint32_t sizes[2];
        memcpy(sizes, w->sizes.data + i * sizeof sizes, sizeof sizes);
        p->r->stats.sizes[u->first - p->first + i] = sizes[0];
        p->r->heat.sizes[u->first - p->first + i] = sizes[1];
    }
    take(&w->stats, &p->r->stats.bytes);
    take(&w->heat, &p->r->heat.bytes);
    w->sizes.size = 0;
    free(w->sizes.data);
    memset(&w->sizes, 0, sizeof w->sizes);
    return SFT_OK;
}

static sft_status run_pass(pass *p, size_t count, sft_error *err) {
    cli_report *r = p->r;
    sft_status status = SFT_OK;

    p->tally = cli_alloc(1, sizeof *p->tally);
    r->stats.sizes = cli_alloc(count, sizeof *r->stats.sizes);
    r->heat.sizes = cli_alloc(count, sizeof *r->heat.sizes);
    cut(p, p->first + count);
    const cli_job job = {.label = "statistics",
                         .count = p->count,
                         .total_bytes = p->bytes,
                         .room_bytes = sizeof(worker),
                         .reads = true,
                         .work = count_unit,
                         .merge = join_unit,
                         .ctx = p};
    if (p->count > 0) {
        status = sft_reader_create(&p->reader, r->catalog, SFT_STRATEGY_AUTO, NULL, err);
    }
    if (p->count > 0 && status == SFT_OK) {
        status = cli_run_job(r->c, &job, err);
    }
    sft_reader_free(p->reader);
    free(p->units);
    free(p->tally);
    return status;
}

sft_status cli_report_pass(cli_report *r, sft_error *err) {
    pass p = {.r = r};
    return run_pass(&p, r->count, err);
}

sft_status cli_report_pass_one(cli_report *r, size_t tensor, sft_error *err) {
    pass p = {.r = r, .first = tensor, .one = true};
    return run_pass(&p, 1, err);
}

/* ---------------------------------------------------------------- entries as JSON */

static double get_real(const unsigned char **at, unsigned size) {
    uint64_t bits = 0;
    double value;

    for (unsigned i = size; i-- > 0;) {
        bits = bits << 8 | (*at)[i];
    }
    *at += size;
    if (size == 4) {
        const uint32_t half = (uint32_t)bits;
        float small;
        memcpy(&small, &half, sizeof small);
        return (double)small;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

void cli_report_json_stats(cli_json *j, const unsigned char *at, size_t size) {
    static const char *const counts[] = {"count",        "nan",  "positive_inf",
                                         "negative_inf", "zero", "negative"};
    static const char *const values[] = {"min", "max", "mean", "std", "norm"};
    uint64_t left = 0;

    if (size == 0) {
        cli_json_null(j);
        return;
    }
    cli_json_open(j, '{');
    cli_json_field_bool(j, "exact", *at++ == 1);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t n = cli_get_leb(&at);
        left = i == 0 ? n : i < 4 ? left - n : left;
        cli_json_field_u64(j, counts[i], n);
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const double v = get_real(&at, 8);
        cli_json_field_real(j, values[i], left > 0 ? v : NAN);
    }
    cli_json_field_open(j, "percentiles", '[');
    for (size_t i = 0; i < CLI_PERCENTILES; i++) {
        const double v = get_real(&at, 4);
        cli_json_real(j, left > 0 ? v : NAN);
    }
    cli_json_close(j, ']');
    cli_json_field_open(j, "histogram", '{');
    cli_json_field_real(j, "start", get_real(&at, 8));
    cli_json_field_real(j, "width", get_real(&at, 8));
    cli_json_field_open(j, "counts", '[');
    for (unsigned n = *at++; n > 0; n--) {
        cli_json_u64(j, cli_get_leb(&at));
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
    cli_json_close(j, '}');
}
