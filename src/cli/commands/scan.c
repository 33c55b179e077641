/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/scan.c - what is hostile in a weight file: every name that its pickles refer to, tricks
 * of its container, and a verdict. Nothing of the file is executed. The same parse serves scan and
 * conversion. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/operands/other_format.h"
#include "cli/operands/scan_dir.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
#include <stdlib.h>
#include <string.h>

typedef struct scanning {
    cli *c;
    cli_json json; /* of SARIF: one document */
    bool sarif;
} scanning;

/* What is said of one file: a report, or one finding of the tool's own (a link, say). */
typedef struct result {
    const char *file; /* as it is called in what is printed */
    sft_import_report *report;
    sft_finding own;
    uint32_t verdict;
} result;

static size_t finding_count(const result *r) {
    return r->report != NULL ? sft_import_report_count(r->report) : 1;
}

static const sft_finding *finding_at(const result *r, size_t i) {
    return r->report != NULL ? sft_import_report_at(r->report, i) : &r->own;
}

static uint32_t format_of(const result *r) {
    return r->report != NULL ? sft_import_report_format(r->report) : (uint32_t)SFT_IMPORT_UNKNOWN;
}

static const char *verdict_word(uint32_t verdict) {
    return verdict == SFT_SCAN_DANGEROUS ? "dangerous"
           : verdict == SFT_SCAN_UNKNOWN ? "unknown"
                                         : "harmless";
}

static const char *kind_word(uint32_t kind) {
    static const char *const words[] = {"",         "global", "container", "pickle",
                                        "left_out", "broken", "note",      "content"};
    return kind < sizeof words / sizeof words[0] ? words[kind] : "";
}

/* ---------------------------------------------------------------- three ways to say it */

static void put_text(scanning *s, const result *r) {
    cli *c = s->c;
    const uint32_t verdict = r->verdict;
    const char *color = verdict == SFT_SCAN_DANGEROUS ? CLI_RED
                        : verdict == SFT_SCAN_UNKNOWN ? CLI_YELLOW
                                                      : CLI_GREEN;

    cli_put_name(&c->out, r->file);
    cli_puts(&c->out, ": ");
    cli_puts(&c->out, c->color ? color : "");
    cli_puts(&c->out, verdict_word(verdict));
    cli_puts(&c->out, c->color ? CLI_NORMAL : "");
    if (r->report != NULL) {
        cli_printf(&c->out, " (%s)", sft_import_format_title(format_of(r)));
    } else if (verdict == SFT_SCAN_HARMLESS) {
        cli_printf(&c->out, " (%s)", r->own.message);
    }
    cli_puts(&c->out, "\n");
    for (size_t i = 0; i < finding_count(r); i++) {
        const sft_finding *f = finding_at(r, i);
        const bool quiet = f->kind == SFT_FINDING_NOTE || f->kind == SFT_FINDING_LEFT_OUT ||
                           f->verdict == SFT_SCAN_HARMLESS;
        if (quiet && !c->verbose && f->kind != SFT_FINDING_BROKEN) {
            continue;
        }
        cli_printf(&c->out, "  %-9s  ", verdict_word(f->verdict));
        if (f->subject[0] != '\0') {
            cli_put_escaped(&c->out, f->subject, strlen(f->subject));
            cli_puts(&c->out, ": ");
        }
        cli_puts(&c->out, f->message);
        cli_printf(&c->out, " [%s]", f->rule);
        if (f->offset != SFT_NO_OFFSET) {
            cli_printf(&c->out, " at byte %llu", (unsigned long long)f->offset);
        }
        if (f->count > 1) {
            cli_printf(&c->out, ", %llu times", (unsigned long long)f->count);
        }
        cli_puts(&c->out, "\n");
    }
}

static void put_json(scanning *s, const result *r) {
    cli_json j;

    cli_json_begin(&j, &s->c->out);
    cli_json_field_string(&j, "file", r->file);
    cli_json_field_string(&j, "format", sft_import_format_name(format_of(r)));
    cli_json_field_string(&j, "verdict", verdict_word(r->verdict));
    cli_json_field_open(&j, "findings", '[');
    for (size_t i = 0; i < finding_count(r); i++) {
        const sft_finding *f = finding_at(r, i);
        cli_json_open(&j, '{');
        cli_json_field_string(&j, "kind", kind_word(f->kind));
        cli_json_field_string(&j, "verdict", verdict_word(f->verdict));
        cli_json_field_string(&j, "rule", f->rule);
        cli_json_field_text(&j, "subject", f->subject, strlen(f->subject));
        cli_json_field_string(&j, "message", f->message);
        cli_json_field_offset(&j, "offset", f->offset);
        cli_json_field_u64(&j, "count", f->count);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_end(&j);
}

/* SARIF 2.1.0 (OASIS): results of one run over all files. */
static void sarif_begin(scanning *s) {
    cli_json *j = &s->json;

    cli_json_init(j, &s->c->out);
    cli_json_open(j, '{');
    cli_json_field_string(j, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    cli_json_field_string(j, "version", "2.1.0");
    cli_json_field_open(j, "runs", '[');
    cli_json_open(j, '{');
    cli_json_field_open(j, "tool", '{');
    cli_json_field_open(j, "driver", '{');
    cli_json_field_string(j, "name", "safetensors scan");
    cli_json_field_string(j, "version", sft_version());
    cli_json_close(j, '}');
    cli_json_close(j, '}');
    cli_json_field_open(j, "results", '[');
}

static void sarif_end(scanning *s) {
    cli_json_close(&s->json, ']');
    cli_json_close(&s->json, '}');
    cli_json_close(&s->json, ']');
    cli_json_close(&s->json, '}');
    cli_json_newline(&s->json);
}

static void sarif_message(cli_json *j, const sft_finding *f) {
    char text[1024];
    const size_t n = sft_escape(text, 500, f->subject, strlen(f->subject));

    if (n > 0) {
        memcpy(text + n, ": ", 2);
    }
    const size_t at = n > 0 ? n + 2 : 0;
    const size_t len = strlen(f->message);
    memcpy(text + at, f->message, len + 1); /* messages have at most 400 bytes */
    cli_json_field_open(j, "message", '{');
    cli_json_field_text(j, "text", text, at + len);
    cli_json_close(j, '}');
}

static void sarif_place(cli_json *j, const char *operand, const sft_finding *f) {
    cli_json_field_open(j, "locations", '[');
    cli_json_open(j, '{');
    cli_json_field_open(j, "physicalLocation", '{');
    cli_json_field_open(j, "artifactLocation", '{');
    cli_json_field_string(j, "uri", operand);
    cli_json_close(j, '}');
    if (f->offset != SFT_NO_OFFSET) {
        cli_json_field_open(j, "region", '{');
        cli_json_field_u64(j, "byteOffset", f->offset);
        cli_json_close(j, '}');
    }
    cli_json_close(j, '}');
    cli_json_close(j, '}');
    cli_json_close(j, ']');
}

static void put_sarif(scanning *s, const result *r) {
    cli_json *j = &s->json;

    for (size_t i = 0; i < finding_count(r); i++) {
        const sft_finding *f = finding_at(r, i);
        cli_json_open(j, '{');
        cli_json_field_string(j, "ruleId", f->rule);
        cli_json_field_string(j, "level",
                              f->verdict == SFT_SCAN_DANGEROUS ? "error"
                              : f->verdict == SFT_SCAN_UNKNOWN ? "warning"
                                                               : "note");
        sarif_message(j, f);
        sarif_place(j, r->file, f);
        cli_json_close(j, '}');
    }
}

/* ---------------------------------------------------------------- command */

static sft_status scan(scanning *s, const char *operand, const sft_import_options *options,
                       sft_import_report **report, sft_error *err) {
    sft_source *source;
    sft_status status;

    if (strcmp(operand, "-") == 0) {
        status = cli_stdin_source(s->c, &source, err);
    } else if (cli_is_url(operand)) {
        status = cli_url_source(s->c, operand, &source, err);
    } else {
        return sft_scan(report, operand, options, err);
    }
    return status == SFT_OK ? sft_scan_source(report, source, options, err) : status;
}

static void put(scanning *s, const result *r) {
    if (s->sarif) {
        put_sarif(s, r);
    } else if (s->c->json) {
        put_json(s, r);
    } else {
        put_text(s, r);
    }
    if (r->verdict == SFT_SCAN_DANGEROUS ||
        (r->verdict == SFT_SCAN_UNKNOWN && !cli_flag(s->c, "allow-unknown"))) {
        cli_answer(s->c, CLI_NO);
    }
    sft_import_report_free(r->report);
}

/* What cannot be read is unknown, and said as such where each file has its object. */
static void unread_result(result *r, const char *file, const char *why) {
    memset(r, 0, sizeof *r);
    r->file = file;
    r->verdict = SFT_SCAN_UNKNOWN;
    r->own.kind = SFT_FINDING_BROKEN;
    r->own.verdict = SFT_SCAN_UNKNOWN;
    r->own.subject = "";
    r->own.rule = "not-read";
    r->own.message = why;
    r->own.offset = SFT_NO_OFFSET;
    r->own.count = 1;
}

/* False: the failure was told. */
static bool scan_file(scanning *s, const char *operand, result *r) {
    sft_import_options options;
    sft_limits limits;
    sft_error err;

    memset(r, 0, sizeof *r);
    r->file = operand;
    cli_import_options(s->c, &options, &limits);
    options.flags |=
        SFT_IMPORT_ALLOW_OPAQUE | (cli_flag(s->c, "checksums") ? SFT_IMPORT_CHECKSUMS : 0);
    if (scan(s, operand, &options, &r->report, &err) != SFT_OK) {
        cli_fail_plainly(s->c, operand, &err);
        if ((s->sarif || s->c->json) && err.status != SFT_E_CANCELLED) {
            unread_result(r, operand, err.message);
            put(s, r);
        }
        return false;
    }
    r->verdict = sft_import_report_verdict(r->report);
    return true;
}

/* ---------------------------------------------------------------- directories */

static void own_result(result *r, const cli_scan_file *file) {
    memset(r, 0, sizeof *r);
    r->file = file->path;
    r->verdict = file->harmless ? SFT_SCAN_HARMLESS : SFT_SCAN_UNKNOWN;
    r->own.kind = file->harmless ? SFT_FINDING_NOTE : SFT_FINDING_CONTAINER;
    r->own.verdict = r->verdict;
    r->own.subject = "";
    r->own.rule = file->rule;
    r->own.message = file->why;
    r->own.offset = SFT_NO_OFFSET;
    r->own.count = 1;
}

/* A directory without a file gives no reason to call it harmless. */
static void put_summary(scanning *s, const char *directory, const size_t count[3], size_t failed) {
    cli *c = s->c;
    const size_t all = count[0] + count[1] + count[2] + failed;
    const uint32_t worst = count[SFT_SCAN_DANGEROUS] != 0                ? SFT_SCAN_DANGEROUS
                           : count[SFT_SCAN_HARMLESS] == all && all != 0 ? SFT_SCAN_HARMLESS
                                                                         : SFT_SCAN_UNKNOWN;
    if (all == 0 && (s->sarif || c->json)) {
        result r;
        unread_result(&r, directory, "a directory without a file");
        r.own.rule = "empty";
        put(s, &r);
    } else if (all == 0 && !cli_flag(c, "allow-unknown")) {
        cli_answer(c, CLI_NO);
    }
    if (s->sarif || c->json) {
        return;
    }
    cli_put_escaped(&c->out, directory, strlen(directory));
    cli_printf(&c->out, ": %s: %llu %s: %llu harmless, %llu unknown, %llu dangerous",
               verdict_word(worst), (unsigned long long)all, all == 1 ? "file" : "files",
               (unsigned long long)count[0], (unsigned long long)count[1],
               (unsigned long long)count[2]);
    if (failed != 0) {
        cli_printf(&c->out, ", %llu not read", (unsigned long long)failed);
    }
    cli_puts(&c->out, "\n");
}

/* The harmless ones at once, in the order of their paths; the others behind them, the worst last.
 */
static void scan_directory(scanning *s, const char *directory) {
    size_t count[3] = {0, 0, 0};
    size_t failed = 0;
    size_t held = 0;
    cli_scan_list list;

    if (!cli_scan_list_read(s->c, directory, &list)) {
        cli_scan_list_free(&list);
        return;
    }
    result *results = cli_alloc(list.count != 0 ? list.count : 1, sizeof *results);
    for (size_t i = 0; i < list.count && !cli_stopped(s->c); i++) {
        result r;
        if (list.files[i].why != NULL) {
            own_result(&r, &list.files[i]);
        } else if (!scan_file(s, list.files[i].path, &r)) {
            failed++;
            continue;
        }
        count[r.verdict]++;
        if (r.verdict == SFT_SCAN_HARMLESS) {
            put(s, &r);
        } else {
            results[held++] = r;
        }
    }
    for (uint32_t verdict = SFT_SCAN_UNKNOWN; verdict <= SFT_SCAN_DANGEROUS; verdict++) {
        for (size_t i = 0; i < held; i++) {
            if (results[i].verdict == verdict) {
                put(s, &results[i]);
            }
        }
    }
    put_summary(s, directory, count, failed);
    free(results);
    cli_scan_list_free(&list);
}

static void scan_one(scanning *s, const char *operand) {
    result r;

    if (!cli_is_url(operand) && strcmp(operand, "-") != 0 &&
        cli_sys_kind(operand) == CLI_KIND_DIRECTORY) {
        scan_directory(s, operand);
    } else if (scan_file(s, operand, &r)) {
        put(s, &r);
    }
}

static void run(cli *c) {
    scanning s = {.c = c, .sarif = cli_flag(c, "sarif")};

    if (s.sarif) {
        sarif_begin(&s);
    }
    for (size_t i = 0; i < c->operand_count && !cli_stopped(c); i++) {
        scan_one(&s, c->operands[i]);
    }
    if (s.sarif) {
        sarif_end(&s);
    }
}

static const cli_opt options[] = {
    CLI_OPT_FLAG("sarif", 0, "write SARIF 2.1.0, for code scanning services"),
    CLI_OPT_FLAG("allow-unknown", 0, "exit status 0 also for what is unknown"),
    CLI_OPT_FLAG("strict", 0, "exit status 1 also for what is unknown (the default now)"),
    CLI_OPT_FLAG("checksums", 0, "compare the checksums of tensor data too (reads all of it)"),
    CLI_OPT_END,
};

const cli_command cli_cmd_scan = {
    .name = "scan",
    .operands = "FILE...",
    .summary = "what is hostile in weight files: pickles, archives",
    .description =
        "Reads each file as a loader would, without executing anything, and says for every name "
        "that a pickle refers to whether it is dangerous, unknown or harmless, and why; tricks of "
        "the container (two directories, headers that disagree, hidden pickles, wrong checksums) "
        "likewise. Whatever the file is, it and every member of an archive is walked as a pickle "
        "from its first byte to where Python would stop, through gzip, zlib, bzip2, xz, zip, tar "
        "and the strings of pickles. Harmless is only what there is a reason for: a known format "
        "in order whose names are all vouched for, or bytes that no loader executes; everything "
        "else is unknown. Of a URL only what is looked at is fetched. - is standard input, which "
        "has no name: what programs run because of their names is judged by its bytes alone. Of a "
        "directory every file beneath it is read, hidden ones too, each with a verdict of its own; "
        "links out of it are named and not followed, but for those of Hugging Face's cache. -v "
        "lists the harmless too. Conversion and the other commands read files by the same code, so "
        "nothing looks different to them.\n\n"
        "The exit status is 1 if a file is dangerous or unknown, with --allow-unknown only if one "
        "is dangerous. --json writes one object per file: schema, file, format, verdict, findings "
        "(kind, verdict, rule, subject, message, offset, count).",
    .examples = "safetensors scan pytorch_model.bin # before anything else opens it\n"
                "safetensors scan ./model # every file of a directory\n"
                "safetensors scan --sarif *.pt > scan.sarif",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE,
    .min_operands = 1,
    .max_operands = CLI_MANY,
    .run = run,
};
