/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/show_stats.c - statistics of a view in one pass over its bytes, and how they are shown:
 * numbers, and a histogram drawn with block characters (or '#' with --ascii). Read show.h first.
 */
#include "cli/look/show.h"
#include "cli/sys.h"
#include "cli/ui/values.h"
#include "cli/work.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- computing */

enum { TALLY = (sizeof(cli_tally) + 15) / 16 * 16 };

typedef struct computation {
    const cli_view *view;
    cli_tally *total;
    size_t scratch; /* bytes; behind them a block of elements */
    size_t data;
} computation;

static void lay_out(computation *k) {
    const sft_dtype *dtype = k->view->tensor->dtype;
    const uint64_t all = k->view->elements;
    const size_t most = all < k->view->block ? (size_t)all : k->view->block;

    k->scratch = (cli_view_scratch(k->view) + 15) / 16 * 16;
    k->data = (most / dtype->block_elements + 1) * dtype->block_bytes;
}

/* room: scratch and data. */
static sft_status count_block(const computation *k, uint64_t unit, cli_tally *tally, char *room,
                              sft_error *err) {
    const cli_view_room data = {room + k->scratch, k->data, room};
    size_t n;
    sft_status status = cli_view_read_block(k->view, unit, &data, &n, err);
    if (status == SFT_OK) {
        cli_tally_begin(tally, k->view->tensor->dtype, CLI_BY_BINS);
        status = cli_tally_block(tally, data.data, n, err);
        cli_tally_settle(tally);
    }
    return status;
}

static sft_status compute_block(void *ctx, uint64_t unit, cli_slot *slot) {
    char *room = slot->room;
    return count_block(ctx, unit, slot->room, room + TALLY, &slot->err);
}

static sft_status merge_block(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    const computation *k = ctx;
    const cli_tally *part = slot->room;

    (void)unit;
    cli_tally_merge(k->total, part);
    *bytes = cli_bytes_of(k->view->tensor->dtype, part->stats.count);
    return SFT_OK;
}

/* A tally has some megabytes: a small tensor, of which there may be many, gets none of its own. */
static sft_status compute_small(const computation *k, sft_error *err) {
    char *room = cli_alloc(1, k->scratch + k->data);
    const sft_status status = k->view->units == 0 ? SFT_OK : count_block(k, 0, k->total, room, err);

    free(room);
    return status;
}

bool cli_show_compute(cli *c, const char *file, const cli_view *view, cli_tally *tally) {
    const sft_dtype *dtype = view->tensor->dtype;
    computation k = {.view = view, .total = tally};
    sft_error err;

    lay_out(&k);
    const cli_job job = {.label = "statistics",
                         .count = view->units,
                         .total_bytes = cli_bytes_of(dtype, view->elements),
                         .room_bytes = TALLY + k.scratch + k.data,
                         .work = compute_block,
                         .merge = merge_block,
                         .ctx = &k};
    cli_tally_begin(tally, dtype, CLI_BY_BINS);
    const sft_status status =
        view->units < 2 ? compute_small(&k, &err) : cli_run_job(c, &job, &err);
    if (status != SFT_OK) {
        cli_fail(c, file, &err);
    }
    cli_tally_end(tally);
    return status == SFT_OK;
}

/* ---------------------------------------------------------------- showing */

static uint32_t bins_wanted(const cli *c) {
    const uint64_t n = cli_number(c, "bins", 20);
    return n < 1 ? 1 : n > CLI_BINS ? CLI_BINS : (uint32_t)n;
}

static const char *extreme(char text[48], const sft_dtype *dtype, double value, uint64_t bits) {
    if (cli_stats_exact_integers(dtype)) {
        if (dtype->id == SFT_U64) {
            (void)snprintf(text, 48, "%llu", (unsigned long long)bits);
        } else {
            const int64_t v = bits >> 63 == 0 ? (int64_t)bits : -(int64_t)~bits - 1;
            (void)snprintf(text, 48, "%lld", (long long)v);
        }
        return text;
    }
    if (dtype->kind == SFT_KIND_FLOAT) {
        return cli_real_text(text, value, dtype);
    }
    (void)snprintf(text, 48, "%.*g", 9, value); /* integers below 2^32, magnitudes */
    if (dtype->kind != SFT_KIND_COMPLEX) {
        (void)snprintf(text, 48, "%.0f", value);
    }
    return text;
}

static void put_count(cli *c, const char *label, uint64_t n, uint64_t total) {
    char text[32];
    cli_show_label(&c->out, label);
    cli_printf(&c->out, "%s", cli_grouped(text, n));
    if (n > 0 && total > 0) {
        cli_printf(&c->out, " (%.2f %%)", (double)n * 100.0 / (double)total);
    }
    cli_put(&c->out, "\n", 1);
}

/* Eighths of a character cell, or whole cells in ASCII. */
static void put_bar(cli *c, double share, size_t cells) {
    static const char *const parts[] = {"",
                                        "\xe2\x96\x8f",
                                        "\xe2\x96\x8e",
                                        "\xe2\x96\x8d",
                                        "\xe2\x96\x8c",
                                        "\xe2\x96\x8b",
                                        "\xe2\x96\x8a",
                                        "\xe2\x96\x89"};
    const bool ascii = cli_flag(c, "ascii");
    size_t eighths = (size_t)(share * (double)(8 * cells) + 0.5);

    eighths = share > 0 && eighths == 0 ? 1 : eighths;
    for (size_t i = 0; i < eighths / 8; i++) {
        cli_puts(&c->out, ascii ? "#" : "\xe2\x96\x88");
    }
    if (eighths % 8 > 0) {
        const bool some = eighths % 8 >= 4 || eighths < 8;
        cli_puts(&c->out, !ascii ? parts[eighths % 8] : some ? "#" : "");
    }
}

static const char *edge_text(char text[48], const cli_histogram *h, uint32_t i) {
    const double edge = cli_histogram_edge(h, i);
    (void)snprintf(text, 48, "%.10g", edge);
    return text;
}

static void put_histogram(cli *c, cli_histogram *h) {
    enum { BARS_AT_MOST = 60 };
    char text[48];
    char number[32];
    uint64_t most = 1;
    size_t widest = 0;
    size_t widest_count = 0;

    cli_histogram_narrow(h, bins_wanted(c));
    for (uint32_t i = 0; i < h->span; i++) {
        const size_t len = strlen(edge_text(text, h, i));
        const size_t count_len = strlen(cli_grouped(number, h->counts[i]));
        widest = len > widest ? len : widest;
        widest_count = count_len > widest_count ? count_len : widest_count;
        most = h->counts[i] > most ? h->counts[i] : most;
    }
    const size_t columns = cli_sys_columns(1);
    const size_t taken = widest + widest_count + 6;
    size_t cells = columns > taken + 10 ? columns - taken : 10;
    cells = cells > BARS_AT_MOST ? BARS_AT_MOST : cells;
    cli_printf(&c->out, "\nhistogram   bins of %.10g; each begins at the number on its left\n",
               ldexp(1.0, h->exponent));
    for (uint32_t i = 0; i < h->span; i++) {
        edge_text(text, h, i);
        cli_grouped(number, h->counts[i]);
        cli_printf(&c->out, "  %*s  %*s", (int)widest, text, (int)widest_count, number);
        if (h->counts[i] > 0) {
            cli_puts(&c->out, "  ");
            put_bar(c, (double)h->counts[i] / (double)most, cells);
        }
        cli_put(&c->out, "\n", 1);
    }
}

static void put_real(cli *c, const char *label, double value) {
    cli_show_label(&c->out, label);
    if (isfinite(value)) {
        cli_printf(&c->out, "%.9g\n", value);
    } else {
        cli_puts(&c->out, "beyond the range of a double\n");
    }
}

void cli_show_stats(cli *c, const sft_dtype *dtype, const cli_stats *s) {
    const bool magnitude = dtype->kind == SFT_KIND_COMPLEX;
    char text[48];

    if (magnitude) {
        cli_puts(&c->out, "            of the magnitudes:\n");
    }
    if (s->finite > 0) {
        cli_show_label(&c->out, "min");
        cli_printf(&c->out, "%s\n", extreme(text, dtype, s->min, s->min_bits));
        cli_show_label(&c->out, "max");
        cli_printf(&c->out, "%s\n", extreme(text, dtype, s->max, s->max_bits));
        put_real(c, "mean", s->mean);
        put_real(c, "std", cli_stats_std(s));
    }
    put_count(c, "zeros", s->zero, s->count);
    if (dtype->kind == SFT_KIND_FLOAT || magnitude) {
        put_count(c, "nan", s->nan, s->count);
        put_count(c, "inf", s->positive_inf + s->negative_inf, s->count);
    }
    if (s->histogram.span > 0 && !cli_flag(c, "no-histogram")) {
        cli_histogram h = s->histogram;
        put_histogram(c, &h);
    }
}

/* Bins as heights of one character each; those without a value are blank. */
static void put_spark(cli_table *t, const cli_histogram *of, bool ascii) {
    enum { WIDE = 16 };
    static const char *const heights[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
                                          "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
                                          "\xe2\x96\x87", "\xe2\x96\x88"};
    static const char *const letters[] = {".", ":", "-", "=", "+", "*", "#", "@"};
    cli_histogram h = *of;
    char text[4 * WIDE] = "";
    uint64_t most = 1;
    size_t len = 0;

    cli_histogram_narrow(&h, WIDE);
    for (uint32_t i = 0; i < h.span; i++) {
        most = h.counts[i] > most ? h.counts[i] : most;
    }
    for (uint32_t i = 0; i < h.span && i < WIDE; i++) {
        const size_t height = (size_t)((double)h.counts[i] / (double)most * 7.999);
        const char *bar = h.counts[i] == 0 ? " " : ascii ? letters[height] : heights[height];
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", bar);
    }
    cli_table_cell(t, "%s", text);
}

void cli_show_row(cli_table *t, const sft_dtype *dtype, const cli_stats *s, bool ascii) {
    char text[48];

    if (s == NULL || s->finite == 0) {
        for (size_t i = 0; i < 4; i++) {
            cli_table_cell(t, "-");
        }
    } else {
        cli_table_cell(t, "%s", extreme(text, dtype, s->min, s->min_bits));
        cli_table_cell(t, "%s", extreme(text, dtype, s->max, s->max_bits));
        cli_table_cell(t, "%.4g", s->mean);
        cli_table_cell(t, "%.4g", cli_stats_std(s));
    }
    if (s == NULL) {
        cli_table_cell(t, "-");
        cli_table_cell(t, "-");
        cli_table_cell(t, "%s", "");
        return;
    }
    cli_table_cell(t, "%s", cli_grouped(text, s->zero));
    cli_table_cell(t, "%s", cli_grouped(text, s->nan + s->positive_inf + s->negative_inf));
    put_spark(t, &s->histogram, ascii);
}

static void json_extreme(cli_json *j, const sft_dtype *dtype, double value, uint64_t bits) {
    if (dtype->id == SFT_U64) {
        cli_json_u64(j, bits);
    } else if (dtype->id == SFT_I64) {
        cli_json_i64(j, bits >> 63 == 0 ? (int64_t)bits : -(int64_t)~bits - 1);
    } else if (dtype->kind == SFT_KIND_FLOAT || dtype->kind == SFT_KIND_COMPLEX) {
        cli_json_real(j, value);
    } else {
        cli_json_i64(j, (int64_t)value);
    }
}

void cli_show_stats_json(cli_json *j, const sft_dtype *dtype, const cli_stats *s, uint32_t bins) {
    cli_histogram h = s->histogram;

    cli_json_open(j, '{');
    if (s->finite > 0) {
        cli_json_key(j, "min");
        json_extreme(j, dtype, s->min, s->min_bits);
        cli_json_key(j, "max");
        json_extreme(j, dtype, s->max, s->max_bits);
        cli_json_field_real(j, "mean", s->mean);
        cli_json_field_real(j, "std", cli_stats_std(s));
    }
    cli_json_field_u64(j, "finite", s->finite);
    cli_json_field_u64(j, "zeros", s->zero);
    cli_json_field_u64(j, "negative", s->negative);
    cli_json_field_u64(j, "nan", s->nan);
    cli_json_field_u64(j, "positive_inf", s->positive_inf);
    cli_json_field_u64(j, "negative_inf", s->negative_inf);
    cli_histogram_narrow(&h, bins);
    cli_json_field_open(j, "histogram", '{');
    cli_json_field_real(j, "start", cli_histogram_edge(&h, 0));
    cli_json_field_real(j, "width", ldexp(1.0, h.exponent));
    cli_json_field_open(j, "counts", '[');
    for (uint32_t i = 0; i < h.span; i++) {
        cli_json_u64(j, h.counts[i]);
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
    cli_json_close(j, '}');
}
