/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/show.c - show: facts, statistics and values of tensors; without a tensor, of a file. Read
 * show.h first.
 */
#include "cli/look/show.h"
#include "cli/ui/text.h"
#include "cli/ui/values.h"
#include "cli/work.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_COLUMNS = 12, BLOCK = 1 << 20 }; /* elements */

void cli_show_label(cli_out *o, const char *label) {
    cli_puts(o, label);
    cli_put_blanks(o, strlen(label) < LABEL_COLUMNS ? LABEL_COLUMNS - strlen(label) : 1);
}

typedef struct shown {
    cli *c;
    const char *file;
    const sft_catalog *catalog;
    const cli_pick *pick;
    cli_view view;
    const cli_stats *stats; /* NULL: not wanted */
    uint64_t elements;
    uint64_t absolute; /* offset in the file; UINT64_MAX: lies in several pieces */
    uint64_t relative;
} shown;

/* The largest power of two that divides an offset, at most 4,096. */
static uint64_t alignment_of(uint64_t offset) {
    uint64_t n = 1;
    while (n < 4096 && offset % (2 * n) == 0) {
        n *= 2;
    }
    return n;
}

static void find_place(shown *s) {
    const sft_tensor *t = s->pick->tensor;
    const sft_file *f = sft_catalog_file_at(s->catalog, t->file);

    s->elements = cli_elements(t);
    s->absolute = UINT64_MAX;
    if (t->piece_count == 1 && t->pieces[0].strides == NULL) {
        s->absolute = t->pieces[0].offset;
        s->relative = s->absolute - f->data_offset;
    }
}

/* ---------------------------------------------------------------- text */

static void put_place(const shown *s) {
    const sft_tensor *t = s->pick->tensor;
    cli_out *o = &s->c->out;
    const unsigned long long begin = s->relative;
    const unsigned long long from = s->absolute;

    if (s->absolute == UINT64_MAX) {
        cli_show_label(o, "pieces");
        cli_printf(o, "%u\n", (unsigned)t->piece_count);
        return;
    }
    cli_show_label(o, "offsets");
    cli_printf(o, "%llu to %llu in the data section\n", begin, begin + t->nbytes);
    cli_show_label(o, "");
    cli_printf(o, "%llu to %llu in the file\n", from, from + t->nbytes);
    cli_show_label(o, "alignment");
    cli_printf(o, "%llu%s", (unsigned long long)alignment_of(from),
               alignment_of(from) == 4096 ? " or more" : "");
    if (from % t->dtype->alignment != 0) {
        cli_printf(o, ", less than the %u of its type", (unsigned)t->dtype->alignment);
    }
    cli_put(o, "\n", 1);
}

static void put_facts(const shown *s) {
    const sft_tensor *t = s->pick->tensor;
    cli_out *o = &s->c->out;
    char text[32];
    char exact[32];

    cli_show_label(o, "name");
    cli_puts(o, s->c->color ? CLI_BOLD : "");
    cli_put_escaped(o, t->name, t->name_len);
    cli_puts(o, s->c->color ? CLI_NORMAL "\n" : "\n");
    cli_show_label(o, "dtype");
    cli_printf(o, "%s\n", t->dtype->name);
    cli_show_label(o, "shape");
    cli_put_shape(o, t->shape, t->rank);
    cli_put(o, "\n", 1);
    cli_show_label(o, "elements");
    cli_printf(o, "%s\n", cli_grouped(text, s->elements));
    cli_show_label(o, "bytes");
    cli_printf(o, "%s", cli_grouped(exact, t->nbytes));
    if (t->nbytes >= 1024) {
        cli_printf(o, " (%s)", cli_size(text, t->nbytes, s->c->units));
    }
    cli_put(o, "\n", 1);
    put_place(s);
    if (sft_catalog_file_count(s->catalog) > 1) {
        const char *path = sft_catalog_file_at(s->catalog, t->file)->path;
        cli_show_label(o, "file");
        cli_put_escaped(o, path, strlen(path));
        cli_put(o, "\n", 1);
    }
}

static void put_ranges(const shown *s) {
    cli_out *o = &s->c->out;
    bool any = false;

    cli_show_label(o, "slice");
    cli_put(o, "[", 1);
    cli_put_escaped(o, s->pick->ranges, s->pick->ranges_len);
    cli_puts(o, "], shape [");
    for (uint32_t k = 0; k < s->pick->tensor->rank; k++) {
        if (s->view.dims[k].dropped == 0) {
            cli_printf(o, "%s%llu", any ? ", " : "", (unsigned long long)s->view.dims[k].count);
            any = true;
        }
    }
    cli_puts(o, "]\n");
}

static void show_text(const shown *s) {
    cli *c = s->c;

    put_facts(s);
    if (s->pick->ranges != NULL) {
        put_ranges(s);
    }
    if (s->stats != NULL) {
        cli_show_stats(c, s->pick->tensor->dtype, s->stats);
    }
    if (s->pick->ranges != NULL || cli_flag(c, "all")) {
        cli_puts(&c->out, "\n");
        (void)cli_print_values(c, s->file, &s->view, cli_flag(c, "all"));
    }
}

/* ---------------------------------------------------------------- JSON */

static void json_place(const shown *s, cli_json *j) {
    const sft_tensor *t = s->pick->tensor;

    cli_json_key(j, "data_offsets");
    if (s->absolute == UINT64_MAX) {
        cli_json_null(j);
        return;
    }
    cli_json_open(j, '[');
    cli_json_u64(j, s->relative);
    cli_json_u64(j, s->relative + t->nbytes);
    cli_json_close(j, ']');
    cli_json_field_range(j, "file_offsets", s->absolute, s->absolute + t->nbytes);
    cli_json_field_bool(j, "aligned", s->absolute % t->dtype->alignment == 0);
}

static void json_slice(const shown *s, cli_json *j) {
    cli_json_field_open(j, "slice", '{');
    cli_json_field_text(j, "ranges", s->pick->ranges != NULL ? s->pick->ranges : "",
                        s->pick->ranges_len);
    cli_json_field_open(j, "shape", '[');
    for (uint32_t k = 0; k < s->pick->tensor->rank; k++) {
        if (s->view.dims[k].dropped == 0) {
            cli_json_u64(j, s->view.dims[k].count);
        }
    }
    cli_json_close(j, ']');
    cli_json_key(j, "values");
    (void)cli_json_values(s->c, s->file, j, &s->view);
    cli_json_close(j, '}');
}

static void show_json(const shown *s, cli_json *j) {
    const sft_tensor *t = s->pick->tensor;
    const uint64_t bins = cli_number(s->c, "bins", 64);

    cli_json_open(j, '{');
    cli_json_fields_of(j, t);
    cli_json_field_u64(j, "elements", s->elements);
    cli_json_field_u64(j, "nbytes", t->nbytes);
    cli_json_field_string(j, "file", sft_catalog_file_at(s->catalog, t->file)->path);
    json_place(s, j);
    cli_json_key(j, "statistics");
    if (s->stats != NULL) {
        cli_show_stats_json(j, t->dtype, s->stats, bins > CLI_BINS ? CLI_BINS : (uint32_t)bins);
    } else {
        cli_json_null(j);
    }
    if (s->pick->ranges != NULL || cli_flag(s->c, "all")) {
        json_slice(s, j);
    }
    cli_json_close(j, '}');
}

/* ---------------------------------------------------------------- command */

/* j NULL: as text. */
static void show_pick(shown s, cli_tally *tally, cli_json *j) {
    const sft_tensor *t = s.pick->tensor;
    sft_error err;

    find_place(&s);
    if (cli_view_init(&s.view, s.catalog, t, s.pick, BLOCK, &err) != SFT_OK) {
        cli_fail(s.c, s.file, &err);
        return;
    }
    bool good = true;
    if (!cli_flag(s.c, "no-stats") && cli_stats_known(t->dtype)) {
        good = cli_show_compute(s.c, s.file, &s.view, tally);
        s.stats = &tally->stats;
    }
    if (good && j != NULL) {
        show_json(&s, j);
    } else if (good) {
        show_text(&s);
    }
    cli_view_reset(&s.view);
}

static void show_picks(cli *c, const char *file, const sft_catalog *catalog,
                       const cli_picks *picks) {
    cli_tally *tally = cli_alloc(1, sizeof *tally);
    cli_json j;

    cli_json_init(&j, &c->out);
    if (c->json) {
        cli_json_open(&j, '{');
        cli_json_field_u64(&j, "schema", 1);
        cli_json_field_string(&j, "file", file);
        cli_json_field_open(&j, "tensors", '[');
    }
    for (size_t i = 0; i < picks->count && !cli_stopped(c); i++) {
        cli_puts(&c->out, i > 0 && !c->json ? "\n" : "");
        show_pick((shown){.c = c, .file = file, .catalog = catalog, .pick = &picks->items[i]},
                  tally, c->json ? &j : NULL);
    }
    free(tally);
    if (c->json) {
        cli_json_close(&j, ']');
        cli_json_end(&j);
    }
}

static void put_pick_name(cli_table *t, const cli_pick *pick) {
    cli_text_buffer name = {NULL, 0, 0};

    cli_text_add(&name, pick->tensor->name, pick->tensor->name_len);
    if (pick->ranges != NULL) {
        cli_text_put(&name, "[");
        cli_text_add(&name, pick->ranges, pick->ranges_len);
        cli_text_put(&name, "]");
    }
    cli_table_text(t, name.data, name.size);
    free(name.data);
}

/* A line for each. */
static void show_table(cli *c, const char *file, const sft_catalog *catalog,
                       const cli_picks *picks) {
    static const char *const titles[] = {"name", "dtype", "shape", "min",     "max",
                                         "mean", "std",   "zeros", "nan+inf", "histogram"};
    cli_tally *tally = cli_alloc(1, sizeof *tally);
    cli_table t;
    sft_error err;

    cli_table_init(&t, sizeof titles / sizeof titles[0], titles, 0x1f8); /* numbers */
    for (size_t i = 0; i < picks->count && !cli_stopped(c); i++) {
        const cli_pick *pick = &picks->items[i];
        const sft_dtype *dtype = pick->tensor->dtype;
        char shape[CLI_SHAPE_ROOM];
        cli_view view;
        if (cli_view_init(&view, catalog, pick->tensor, pick, BLOCK, &err) != SFT_OK) {
            cli_fail(c, file, &err);
            continue;
        }
        const bool known = cli_stats_known(dtype) && !cli_flag(c, "no-stats");
        if (!known || cli_show_compute(c, file, &view, tally)) {
            put_pick_name(&t, pick);
            cli_table_cell(&t, "%s", dtype->name);
            cli_table_cell(&t, "%s", cli_shape(shape, pick->tensor->shape, pick->tensor->rank));
            cli_show_row(&t, dtype, known ? &tally->stats : NULL, cli_flag(c, "ascii"));
        }
        cli_view_reset(&view);
    }
    cli_table_print(&t, &c->out, c->color);
    free(tally);
}

static void run(cli *c) {
    const char *file = c->operands[0];
    sft_catalog *catalog;
    cli_picks picks = {NULL, 0, 0};

    if (!cli_open(c, file, 0, &catalog)) {
        return;
    }
    cli_warn_problems(c, catalog, file);
    for (size_t i = 1; i < c->operand_count; i++) {
        (void)cli_pick_operand(c, file, catalog, c->operands[i], &picks);
    }
    if (c->operand_count == 1) {
        cli_show_file(c, file, catalog);
    } else if (cli_flag(c, "table") && !c->json && picks.count > 0) {
        show_table(c, file, catalog, &picks);
    } else if (picks.count > 0 || c->json) {
        show_picks(c, file, catalog, &picks);
    }
    free(picks.items);
    cli_close(c, catalog);
}

static const cli_opt options[] = {
    CLI_OPT_FLAG("all", 'a', "print every value, and metadata to the end"),
    CLI_OPT_FLAG("no-stats", 0,
                 "do not read the data: facts only (and values, if a slice is given)"),
    CLI_OPT_FLAG("table", 't', "a line for each tensor, its histogram as a sparkline"),
    CLI_OPT_FLAG("no-histogram", 0, "statistics without the histogram"),
    CLI_OPT_ARG(
        CLI_NUMBER, "bins", 0, "N",
        "at most N bins in the histogram (default 20; 64 with --json), but two where values "
        "lie on both sides of 0"),
    CLI_OPT_FLAG("ascii", 0, "draw with ASCII characters only"),
    CLI_OPT_END,
};

const cli_command cli_cmd_show = {
    .name = "show",
    .operands = "FILE [TENSOR[RANGES]]...",
    .summary = "facts, statistics and values of tensors, or of a file",
    .description =
        "For each TENSOR: dtype, shape, place in the file, and statistics from one pass over its "
        "data in bounded memory: extremes, mean and standard deviation (of the population) of the "
        "finite values, counts of zeros, NaN and infinities, and a histogram. Bins are as wide as "
        "a power of two and begin at multiples of it, so that their counts are exact. Of complex "
        "numbers, the magnitude counts.\n\n"
        "TENSOR may be a pattern of * ? [a-z]. With RANGES, as in 'w[0:2, ::-1, 3]', statistics "
        "are those of the slice, and its values are printed: all up to 1,000 of them, else the "
        "outermost three of each dimension (--all: every one). Floating-point values are the "
        "shortest decimals that are the value again in their own type, from 1 to 10^15 without an "
        "exponent.\n\n"
        "--table gives a line for each: the shape is that of the whole tensor.\n\n"
        "Without TENSOR: files, sizes, totals and metadata; values that are JSON are set out in "
        "lines.\n\n"
        "--json writes one object. Without TENSOR: schema, file, tensor_count, files (file, bytes, "
        "header_bytes, data_offset, data_bytes, tensor_count, metadata). Else schema, file, "
        "tensors (name, dtype, shape, elements, nbytes, file, data_offsets, file_offsets, aligned, "
        "statistics, and slice with ranges, shape and the flat row-major values, exact as double; "
        "NaN and infinities are strings).",
    .examples = "safetensors show model.safetensors lm_head.weight # facts, statistics, histogram\n"
                "safetensors show model.safetensors 'layers.0.*' --no-histogram\n"
                "safetensors show --table model.safetensors '*norm*' # a line for each tensor\n"
                "safetensors show model.safetensors 'norm.weight[:8]' # the first eight values\n"
                "safetensors show model.safetensors # header and metadata",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS | CLI_WITH_SIZES |
              CLI_WITH_EXPLAIN | CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
