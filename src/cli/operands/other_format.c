/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/other_format.c - what the command line says of files of other formats, and what is said of
 * them when they are open. Read other_format.h first.
 */
#include "cli/operands/other_format.h"
#include "cli/outputs/lost.h"
#include "cli/ui/path_text.h"
#include <string.h>

static sft_status view_as(void *ctx, const sft_tensor *t, const sft_dtype **dtype, sft_error *err) {
    cli *c = ctx;
    const char *text;

    for (size_t i = 0; (text = cli_list(c, "view-as", i)) != NULL; i++) {
        const char *equals = strrchr(text, '=');
        const size_t len = equals != NULL ? (size_t)(equals - text) : 0;
        char pattern[1024] = "";
        char type[32] = "";
        for (size_t n = 0; equals != NULL && n < sizeof type - 1 && equals[n + 1] != '\0'; n++) {
            const char ch = equals[n + 1];
            type[n] = (char)(ch >= 'a' && ch <= 'z' ? ch - 0x20 : ch);
        }
        const sft_dtype *found = sft_dtype_find(type, strlen(type));
        if (found == NULL || len == 0 || len >= sizeof pattern) {
            return sft_error_set(err, SFT_E_ARG, 0,
                                 "--view-as \"%.200s\": PATTERN=DTYPE is needed, as \"*=BF16\"",
                                 text);
        }
        memcpy(pattern, text, len);
        if (cli_match(pattern, t->name, t->name_len)) {
            *dtype = found;
            c->viewed |= UINT64_C(1) << (i < 64 ? i : 63);
        }
    }
    return SFT_OK;
}

void cli_import_options(cli *c, sft_import_options *options, sft_limits *limits) {
    static const char *const rules[] = {"hf", "first", "keep", "error", "alias"};
    const char *dedup = cli_text(c, "dedup");

    SFT_INIT(options);
    SFT_INIT(limits);
    limits->header_bytes = cli_number(c, "max-header-bytes", 0);
    options->limits = limits;
    options->key = cli_text(c, "key");
    if (cli_list(c, "view-as", 0) != NULL) {
        options->view_as = view_as;
        options->view_ctx = c;
    }
    options->flags = (cli_flag(c, "allow-opaque") ? SFT_IMPORT_ALLOW_OPAQUE : 0) |
                     (cli_flag(c, "no-crc") ? SFT_IMPORT_NO_CRC : 0) |
                     (cli_flag(c, "dequantize") ? SFT_IMPORT_DEQUANTIZE : 0) |
                     (cli_flag(c, "tree") ? SFT_IMPORT_KEEP_TREE : 0) |
                     (cli_flag(c, "verify") ? SFT_IMPORT_CHECKSUMS : 0);
    for (uint32_t i = 0; dedup != NULL && i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(dedup, rules[i]) == 0) {
            options->dedup = (sft_import_dedup)i;
        }
    }
}

static void warn_of(cli *c, const char *operand, const sft_finding *f) {
    char subject[300];

    (void)sft_escape(subject, sizeof subject, f->subject, strlen(f->subject));
    if (f->kind == SFT_FINDING_LEFT_OUT) {
        cli_warn(c, operand, "left out: %s%s%s", subject, subject[0] != '\0' ? ": " : "",
                 f->message);
    } else if (f->kind == SFT_FINDING_NOTE && strcmp(f->rule, "shared") == 0) {
        cli_warn(c, operand, "%s: %s", subject, f->message); /* it costs bytes */
    } else if (f->kind == SFT_FINDING_NOTE) {
        cli_note(c, operand, "%s%s%s", subject, subject[0] != '\0' ? ": " : "", f->message);
    }
}

void cli_warn_report(cli *c, const char *operand, const sft_import_report *report) {
    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        warn_of(c, operand, sft_import_report_at(report, i));
    }
}

/* Has a file before it the same finding, in the same place? */
static bool is_told(const cli *c, size_t at, const sft_finding *f) {
    bool told = false;

    for (size_t i = 0; i < c->report_count && !told; i++) {
        const sft_finding *g = at < sft_import_report_count(c->reports[i])
                                   ? sft_import_report_at(c->reports[i], at)
                                   : NULL;
        told = g != NULL && f->kind == g->kind && strcmp(f->rule, g->rule) == 0 &&
               strcmp(f->subject, g->subject) == 0;
    }
    return told;
}

void cli_import_opened_rank(cli *c, const char *path, sft_import_report *report) {
    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        if (!is_told(c, i, f)) {
            warn_of(c, path, f);
        }
    }
    cli_lost_keep(c, report);
}

bool cli_is_other_format(const sft_catalog *catalog) {
    uint32_t format = SFT_IMPORT_UNKNOWN;

    return sft_catalog_file_count(catalog) > 0 &&
           sft_import_detect(sft_catalog_source_at(catalog, 0), &format, NULL) == SFT_OK &&
           format != SFT_IMPORT_UNKNOWN && format != SFT_IMPORT_SAFETENSORS;
}

void cli_import_opened(cli *c, const char *operand, sft_catalog *catalog) {
    sft_import_report *report = sft_import_report_take(catalog);

    if (report != NULL) {
        cli_note(c, operand, "%s", sft_import_format_title(sft_import_report_format(report)));
        cli_warn_report(c, operand, report);
        cli_lost_keep(c, report);
    }
}
