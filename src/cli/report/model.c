/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/model.c - a model as a report knows it before the pass: what it is, what lies beside it, what
 * check and scan say of it. Read report.h first.
 */
#include "cli/operands/other_format.h"
#include "cli/operands/url.h"
#include "cli/report/report.h"
#include "cli/sys.h"
#include <sft/import.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SCANS = 1000 };

/* What scan says of each file that lies here. */
static void scan_files(cli_report *r) {
    sft_import_options options;
    sft_limits limits;
    sft_error err;
    const size_t count = sft_catalog_file_count(r->catalog);

    cli_import_options(r->c, &options, &limits);
    options.flags |= SFT_IMPORT_ALLOW_OPAQUE;
    r->scans = cli_alloc(count, sizeof(sft_import_report *));
    for (size_t i = 0; i < count && i < MOST_SCANS && !cli_stopped(r->c); i++) {
        const char *path = sft_catalog_file_at(r->catalog, i)->path;
        if (strcmp(r->operand, "-") != 0 && !cli_is_url(path) &&
            cli_sys_kind(path) == CLI_KIND_FILE &&
            sft_scan(&r->scans[r->scan_count], path, &options, &err) == SFT_OK) {
            r->scan_count++;
        }
    }
}

/* What was opened, and what scan and check open again by its path, must be the same. */
static bool is_still_there(cli_report *r) {
    const char *changed = cli_sys_changed(r->paths.items, r->paths.count, r->stamps);

    if (changed != NULL) {
        CLI_FAIL(r->c, changed, SFT_E_CHANGED, "was written to or replaced while it was read");
    }
    return changed == NULL;
}

bool cli_report_look(cli_report *r) {
    sft_error err;

    cli_report_beside(r);
    const bool other = cli_is_other_format(r->catalog);
    if (r->mode == CLI_STATS_FULL || (r->mode == CLI_STATS_SAMPLE && other)) {
        scan_files(r); /* reads up to 256 MiB of each */
    } else {
        r->unscanned = other ? "unknown" : "note";
    }
    cli_warn_problems(r->c, r->catalog, r->operand);
    if (cli_odd_find(r->c, r->operand, r->catalog, true, &r->odd, &err) != SFT_OK) {
        cli_fail(r->c, r->operand, &err);
        return false;
    }
    cli_quantised_find(&r->quantised, r->catalog, r->config, r->config_size);
    return is_still_there(r);
}

void cli_report_close(cli_report *r) {
    for (size_t i = 0; i < r->scan_count; i++) {
        sft_import_report_free(r->scans[i]);
    }
    free(r->scans);
    free(r->wanted);
    free(r->drawn);
    free(r->stats.bytes.data);
    free(r->stats.sizes);
    free(r->heat.bytes.data);
    free(r->heat.sizes);
    free(r->quantised.items);
    free(r->config);
    free(r->license);
    cli_strings_reset(&r->left_out);
    cli_strings_reset(&r->paths);
    free(r->stamps);
    free(r->name);
    cli_close(r->c, r->catalog);
}

bool cli_report_open(cli_report *r, cli *c, const char *operand) {
    sft_catalog *catalog;

    r->c = c;
    r->operand = operand;
    if (!cli_open(c, operand, 0, &catalog)) {
        return false;
    }
    r->name = cli_page_name(operand);
    r->catalog = catalog;
    r->count = sft_catalog_count(catalog);
    for (size_t i = 0; strcmp(operand, "-") != 0 && i < sft_catalog_file_count(catalog); i++) {
        cli_strings_take(&r->paths, cli_copy_of(sft_catalog_file_at(catalog, i)->path));
    }
    r->stamps = cli_sys_stamps(r->paths.items, r->paths.count);
    return true;
}
