/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/report.c - report: a model as one page that shows all of it, offline; or its summary as
 * JSON. Read report/report.h first.
 */
#include "cli/report/report.h"
#include "cli/outputs/single.h"
#include <string.h>

enum { SAMPLE = 65536, MAX_SIZE = 20000000 };

static void put_json(cli_report *r) {
    cli_columns columns;
    sft_error err;

    if (r->mode != CLI_STATS_NONE && cli_report_pass(r, &err) != SFT_OK) {
        cli_fail(r->c, r->operand, &err);
        return;
    }
    cli_columns_make(&columns, r->catalog);
    cli_report_give_room(r, UINT64_MAX);
    cli_report_summary(r, &columns, NULL, &r->c->out);
    cli_columns_reset(&columns);
}

static void put_file(cli_report *r, const char *output) {
    cli_single single;
    sft_error err;

    if (!cli_single_begin(&single, r->c, r->operand, r->catalog, output)) {
        return;
    }
    if (!cli_report_look(r) || !cli_report_page(r, single.out)) {
        cli_single_drop(&single);
    } else {
        (void)cli_single_end(&single, SFT_OK, &err);
    }
}

static void run(cli *c) {
    const char *output = cli_text(c, "output");
    const char *mode = cli_text(c, "stats");
    cli_report r = {.mode = mode == NULL || strcmp(mode, "full") == 0 ? CLI_STATS_FULL
                            : strcmp(mode, "sample") == 0             ? CLI_STATS_SAMPLE
                                                                      : CLI_STATS_NONE,
                    .sample = cli_number(c, "sample", SAMPLE),
                    .max_size = cli_number(c, "max-size", MAX_SIZE)};

    if (output == NULL && !c->json) {
        cli_usage(c, "where to? -o FILE.html, -o - for standard output, or --json");
        return;
    }
    if (output != NULL && c->json) {
        cli_usage(c, "--json writes to standard output, without -o");
        return;
    }
    if (mode != NULL && strcmp(mode, "sample") != 0 && cli_number(c, "sample", 0) > 0) {
        cli_usage(c, "--sample is for --stats sample");
        return;
    }
    if (mode == NULL && cli_number(c, "sample", 0) > 0) {
        r.mode = CLI_STATS_SAMPLE;
    }
    r.sample = r.sample > (uint64_t)1 << 40 ? (uint64_t)1 << 40 : r.sample;
    if (!cli_report_open(&r, c, c->operands[0])) {
        return;
    }
    if (output != NULL && strcmp(output, "-") != 0) {
        put_file(&r, output);
    } else if (cli_report_look(&r)) {
        sft_error err;
        if (c->json) {
            put_json(&r);
        } else {
            (void)cli_report_page(&r, &c->out);
        }
        if (sft_catalog_unchanged(r.catalog, &err) != SFT_OK) {
            cli_fail(c, c->operands[0], &err);
        }
    }
    cli_report_close(&r);
}

static const cli_opt options[] = {
    CLI_OPT_CHOICE("stats", 0, "HOW", "full|sample|none",
                   "statistics of all values (the default), of a sample of each tensor, or none"),
    CLI_OPT_ARG(CLI_NUMBER, "sample", 0, "N",
                "--stats sample with about N values of each tensor (default 65536)"),
    CLI_OPT_ARG(CLI_BYTES, "max-size", 0, "SIZE",
                "at most so large a page (default 20 MB): thumbnails and then statistics of the "
                "smallest tensors are left out, then metadata"),
    CLI_OPT_END,
};

const cli_command cli_cmd_report = {
    .name = "report",
    .operands = "MODEL",
    .summary = "a model as one page for the browser: tensors, statistics, findings",
    .description =
        "Writes one HTML file that needs nothing else, no network either: what the model consists "
        "of, its tensors with statistics (extremes, mean, deviation, norm, zeros, NaN, infinities, "
        "percentiles, a histogram of at most 64 bins) and thumbnails of their magnitudes, its "
        "metadata and config.json, the real shapes of quantised weights (GPTQ, AWQ, bitsandbytes, "
        "MXFP4, NVFP4, compressed-tensors, torchao, GGUF), and what check and scan find. Data are "
        "read once for statistics, and up to 256 MiB of each file for scan; --stats none reads "
        "headers alone, --sample N some values of each tensor, both without scan (but that of a "
        "sampled file of another format).\n\n"
        "Statistics of types of 8 and 16 bits are exact. Those of wider ones are, too (of F64 "
        "between 1e-150 and 1e150), but "
        "percentiles of more than 4,096 values, which are off by less than the 128th part of "
        "themselves; and of tensors above 256 KiB of these types no bin of the histogram is "
        "narrower "
        "than the 128th part of the largest magnitude's power of two.\n\n"
        "What --max-size leaves out is said in the page and on standard error. The file appears "
        "when it is complete. An existing one is replaced only with --force.\n\n"
        "--json writes one object, and no page: schema, kind, tool, name, format, files, metadata, "
        "totals, config, license, dtypes, kinds, templates, statistics, percentiles (which), "
        "quantised, findings, left_out, aliases, tensors (name, dtype, shape, statistics: null, or "
        "exact, count, nan, positive_inf, negative_inf, zero, negative, min, max, mean, std, norm, "
        "percentiles, histogram with start, width and counts).",
    .examples = "safetensors report model.safetensors -o report.html\n"
                "safetensors report model/ -o report.html --stats none # headers alone\n"
                "safetensors report model/ -o report.html --sample 10000 # of terabytes\n"
                "safetensors report --json model.gguf # statistics for a script",
    .options = options,
    .common = CLI_WITH_OUTPUT | CLI_WITH_FORCE | CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE |
              CLI_WITH_JOBS | CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
