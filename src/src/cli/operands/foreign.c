/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/foreign.c - operands that are no safetensors. sft_import_* is asked only after the core
 * has refused a file, so that a safetensors file never waits for it. Read foreign.h first.
 */
#include "cli/operands/foreign.h"
#include "cli/operands/ranks.h"
#include "cli/operands/url.h"
#include "cli/outputs/lost.h"
#include "cli/sys.h"
#include "cli/ui/path_text.h"
#include <string.h>

enum { FOUND_MAX = 4096 };

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
            return sft_error_set(err, SFT_E_ARG, 0, SFT_NO_OFFSET, NULL, 0,
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

void cli_warn_report(cli *c, const char *operand, const sft_import_report *report) {
    char subject[300];

    for (size_t i = 0; i < sft_import_report_count(report); i++) {
        const sft_finding *f = sft_import_report_at(report, i);
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
}

/* Only what the bytes say can make a file foreign. */
static bool is_about_content(sft_status status) {
    return status >= SFT_E_FORMAT && status < SFT_E_NOT_FOUND;
}

static sft_status open_bytes(cli *c, const char *operand, sft_source **out, sft_error *err) {
    return strcmp(operand, "-") == 0 ? cli_stdin_source(c, out, err)
           : cli_is_url(operand)     ? cli_url_source(c, operand, out, err)
                                     : sft_source_open(out, operand, SFT_ACCESS_READ, NULL, err);
}

/* source: of a URL or standard input; a path is opened by sft_import_open, which may find files beside it. */
static sft_status open_as(const char *operand, sft_source *source,
                          const sft_import_options *options, sft_catalog **out,
                          sft_import_report **report, sft_error *err) {
    if (cli_is_url(operand) || strcmp(operand, "-") == 0) {
        return sft_import_open_source(out, source, options, report, err);
    }
    sft_source_close(source);
    return sft_import_open(out, operand, options, report, err);
}

/* A folder or an index of files of other formats; SFT_E_NOT_FOUND: it is none. */
static sft_status open_several(cli *c, const char *operand, sft_catalog **out, sft_error *err) {
    sft_import_report *report = NULL;
    sft_import_options options;
    sft_limits limits;

    *out = NULL;
    cli_import_options(c, &options, &limits);
    const sft_status status = sft_import_open(out, operand, &options, &report, err);
    if (status == SFT_OK) {
        cli_note(c, operand, "%s", sft_import_format_title(sft_import_report_format(report)));
        cli_warn_report(c, operand, report);
        cli_lost_keep(c, report);
    }
    /* Of a folder with nothing in it; of a file that is no index. */
    return status == SFT_E_NOT_REGULAR || status == SFT_E_IO ||
                   (status == SFT_E_FORMAT && cli_sys_kind(operand) != CLI_KIND_FOLDER)
               ? SFT_E_NOT_FOUND
               : status;
}

/* Refused by the core for this reason: a folder without safetensors, or an index of something else.
 */
static bool may_be_several(const char *operand, sft_status status) {
    if (status == SFT_E_INDEX && cli_ends_with(operand, ".weights.json")) {
        return !cli_is_url(operand); /* of Keras: a list of files for a group */
    }
    if (cli_is_url(operand) || !is_about_content(status)) {
        return false;
    }
    return cli_sys_kind(operand) == CLI_KIND_FOLDER
               ? status == SFT_E_FORMAT
               : cli_ends_with(operand, ".weights.json") ||
                     (cli_ends_with(operand, ".index.json") &&
                      !cli_ends_with(operand, ".safetensors.index.json"));
}

/* A path of no file may be a prefix of TensorFlow's: then the index that it stands for. */
static const char *find_path(const char *operand, sft_status status, char *found, size_t size) {
    if (cli_is_url(operand) || strcmp(operand, "-") == 0 ||
        (status != SFT_E_NOT_FOUND && status != SFT_E_IO)) {
        return NULL;
    }
    return sft_import_locate(found, size, operand, NULL) == SFT_OK ? found : NULL;
}

sft_status cli_open_foreign(cli *c, const char *operand, sft_status status, sft_catalog **out,
                            bool *foreign, sft_error *err) {
    sft_import_report *report = NULL;
    sft_import_options options;
    uint32_t format = SFT_IMPORT_UNKNOWN;
    sft_limits limits;
    char found[FOUND_MAX];
    sft_source *source;
    sft_error why;

    if (may_be_several(operand, status)) {
        const sft_status several = open_several(c, operand, out, &why);
        *foreign = several != SFT_E_NOT_FOUND;
        *err = *foreign ? why : *err;
        return *foreign ? several : status;
    }
    if (!is_about_content(status)) {
        operand = find_path(operand, status, found, sizeof found);
    }
    if (operand == NULL || open_bytes(c, operand, &source, &why) != SFT_OK) {
        return status;
    }
    if (sft_import_detect(source, &format, NULL) != SFT_OK) {
        format = SFT_IMPORT_UNKNOWN;
    }
    if (format == SFT_IMPORT_UNKNOWN || format == SFT_IMPORT_SAFETENSORS) {
        sft_source_close(source);
        return status;
    }
    const sft_status core_status = status;
    const sft_error core_error = *err;
    cli_import_options(c, &options, &limits);
    status = open_as(operand, source, &options, out, &report, err);
    *foreign = true;
    if (status == SFT_E_SCHEMA && format == SFT_IMPORT_PICKLE) {
        /* two bytes said pickle, the rest does not: it is a damaged file of ours as well as of
         * theirs */
        *foreign = false;
        *err = core_error;
        return core_status;
    }
    if (status == SFT_OK) {
        cli_note(c, operand, "%s", sft_import_format_title(format));
        cli_warn_report(c, operand, report);
        cli_lost_keep(c, report);
    }
    return status;
}
