/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/summary.c - the summary object of a report, schema 1 (docs/report.md). Read report.h first.
 */
#include "cli/operands/other_name.h"
#include "cli/report/report.h"
#include <sft/import.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FINDINGS = 1000 };

static void put_files(const cli_report *r, cli_json *j) {
    cli_json_field_open(j, "files", '[');
    for (size_t i = 0; i < sft_catalog_file_count(r->catalog); i++) {
        const sft_file *f = sft_catalog_file_at(r->catalog, i);
        cli_json_open(j, '{');
        cli_json_field_string(j, "name", cli_relative(f, r->operand));
        cli_json_field_big(j, "bytes", f->size);
        if (f->data_offset > 0) {
            cli_json_field_big(j, "header_bytes", f->header_bytes);
            cli_json_field_big(j, "data_offset", f->data_offset);
        }
        cli_json_field_big(j, "tensors", f->tensor_count);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

enum { MEMBERS = 64 }; /* bytes that the names of an entry's members take at most */

uint64_t cli_report_metadata(const cli_report *r, cli_json *j, uint64_t room, uint64_t *cut) {
    uint64_t left = 0;

    *cut = 0;
    for (size_t f = 0; f < sft_catalog_file_count(r->catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(r->catalog, f); i++) {
            const sft_metadata_entry e = cli_metadata_at(r->catalog, f, i);
            uint64_t rest = room > MEMBERS ? room - MEMBERS : 0;
            if (rest == 0 || cli_page_fitting(e.key, e.key_len, &rest) < e.key_len) {
                left++;
                continue;
            }
            uint64_t most = rest / 2; /* so that the first does not take it all */
            const uint64_t given = most;
            const size_t shown = cli_page_fitting(e.value, e.value_len, &most);
            room = rest - (given - most);
            *cut += shown < e.value_len;
            if (j == NULL) {
                continue;
            }
            cli_json_open(j, '{');
            cli_json_field_u64(j, "file", f);
            cli_json_field_text(j, "key", e.key, e.key_len);
            cli_json_field_text(j, "value", e.value, shown);
            if (shown < e.value_len) {
                cli_json_field_u64(j, "cut", e.value_len - shown);
            }
            cli_json_close(j, '}');
        }
    }
    return left;
}

static void put_totals(const cli_report *r, cli_json *j) {
    uint64_t parameters = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < r->count; i++) {
        const sft_tensor *t = sft_catalog_at(r->catalog, i);
        parameters += cli_elements(t);
        bytes += t->nbytes;
    }
    cli_json_field_open(j, "totals", '{');
    cli_json_field_big(j, "tensors", r->count);
    cli_json_field_big(j, "parameters", parameters);
    cli_json_field_big(j, "bytes", bytes);
    cli_json_field_big(j, "aliases", sft_catalog_alias_count(r->catalog));
    if (r->quantised.count > 0) {
        cli_json_field_big(j, "logical_parameters", r->quantised.parameters);
    }
    cli_json_close(j, '}');
}

static void put_quantised(const cli_report *r, cli_json *j) {
    cli_json_field_open(j, "quantised", '[');
    for (size_t i = 0; i < r->quantised.count; i++) {
        const cli_quantised *q = &r->quantised.items[i];
        uint64_t n = 1;
        size_t len = q->name_len;
        len -= len > 0 && (q->name[len - 1] == '.' || q->name[len - 1] == '_') ? 1 : 0;
        cli_json_open(j, '{');
        cli_json_field_text(j, "name", q->name, len);
        cli_json_field_string(j, "scheme", q->scheme);
        cli_json_field_open(j, "shape", '[');
        for (uint32_t k = 0; k < q->rank; k++) {
            cli_json_big(j, q->shape[k]);
            n *= q->shape[k];
        }
        cli_json_close(j, ']');
        cli_json_field_big(j, "parameters", n);
        cli_json_field_real(j, "bits", q->bits);
        cli_json_field_open(j, "members", '[');
        for (size_t k = 0; k < q->member_count; k++) {
            cli_json_u64(j, q->members[k]);
        }
        cli_json_close(j, ']');
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

/* ---------------------------------------------------------------- findings */

typedef struct finding {
    const char *from;
    const char *level;
    const char *subject; /* NULL: none */
    const char *text;
    uint64_t offset;
    const sft_tensor *tensor;
} finding;

static void put_finding(cli_json *j, const sft_catalog *catalog, const finding *f) {
    char text[1024];
    size_t n = 0;

    if (f->subject != NULL && f->subject[0] != '\0') {
        n = sft_escape(text, 400, f->subject, strlen(f->subject));
        memcpy(text + n, ": ", 2);
        n += 2;
    }
    const size_t len = strlen(f->text) < 600 ? strlen(f->text) : 600;
    memcpy(text + n, f->text, len);
    cli_json_open(j, '{');
    cli_json_field_string(j, "from", f->from);
    cli_json_field_string(j, "level", f->level);
    if (f->tensor != NULL) {
        cli_json_field_u64(j, "tensor", sft_catalog_index_of(catalog, f->tensor));
    }
    if (f->offset != SFT_NO_OFFSET) {
        cli_json_field_big(j, "offset", f->offset);
    }
    cli_json_field_text(j, "text", text, n + len);
    cli_json_close(j, '}');
}

static void put_scanned(const cli_report *r, cli_json *j, const sft_import_report *report,
                        size_t *left) {
    static const char *const levels[] = {"ok", "unknown", "dangerous"};
    const uint32_t verdict = sft_import_report_verdict(report);
    const finding all = {"scan",
                         levels[verdict < 3 ? verdict : 1],
                         NULL,
                         verdict == SFT_SCAN_HARMLESS  ? "harmless"
                         : verdict == SFT_SCAN_UNKNOWN ? "unknown: nobody vouches for all of it"
                                                       : "dangerous",
                         SFT_NO_OFFSET,
                         NULL};

    put_finding(j, r->catalog, &all);
    for (size_t i = 0; i < sft_import_report_count(report) && *left > 0; i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        const char *level = f->verdict == SFT_SCAN_HARMLESS ? "note" : levels[f->verdict % 3];
        put_finding(j, r->catalog,
                    &(finding){"scan", f->kind == SFT_FINDING_LEFT_OUT ? "warning" : level,
                               f->subject, f->message, f->offset, NULL});
        (*left)--;
    }
}

static void put_findings(const cli_report *r, cli_json *j) {
    size_t left = MOST_FINDINGS;

    cli_json_field_open(j, "findings", '[');
    for (size_t i = 0; i < r->scan_count; i++) {
        put_scanned(r, j, r->scans[i], &left);
    }
    for (size_t i = 0; i < sft_catalog_problem_count(r->catalog) && left > 0; i++, left--) {
        const sft_problem *p = sft_catalog_problem_at(r->catalog, i);
        put_finding(j, r->catalog,
                    &(finding){"index", p->fatal ? "error" : "warning", NULL, p->message,
                               SFT_NO_OFFSET, NULL});
    }
    for (size_t i = 0; i < r->odd.count; i++) {
        const cli_oddity *o = &r->odd.items[i];
        put_finding(j, r->catalog,
                    &(finding){"check", "warning", NULL, o->message, o->offset, o->tensor});
    }
    cli_json_close(j, ']');
}

/* ---------------------------------------------------------------- the whole */

uint64_t cli_report_aliases(const cli_report *r, cli_json *j, uint64_t room) {
    uint64_t left = 0;

    for (size_t i = 0; i < sft_catalog_alias_count(r->catalog); i++) {
        const cli_other_name a = cli_other_name_at(r->catalog, i);
        uint64_t rest = room > MEMBERS ? room - MEMBERS : 0;
        if (rest == 0 || cli_page_fitting(a.name, a.len, &rest) < a.len) {
            left++;
            continue;
        }
        room = rest;
        if (j != NULL) {
            cli_json_open(j, '[');
            cli_json_u64(j, a.index);
            cli_json_text(j, a.name, a.len);
            cli_json_close(j, ']');
        }
    }
    return left;
}

static void put_tensors(const cli_report *r, cli_json *j) {
    const unsigned char *at = (const unsigned char *)r->stats.bytes.data;

    cli_json_field_open(j, "tensors", '[');
    for (size_t i = 0; i < r->count; i++) {
        const size_t size = r->stats.sizes != NULL ? r->stats.sizes[i] : 0;
        cli_json_open(j, '{');
        cli_json_fields_of(j, sft_catalog_at(r->catalog, i));
        cli_json_key(j, "statistics");
        cli_report_json_stats(j, at, size);
        cli_json_close(j, '}');
        at += size;
    }
    cli_json_close(j, ']');
}

static void put_left_out(const cli_report *r, cli_json *j) {
    cli_json_field_open(j, "left_out", '[');
    for (size_t i = 0; i < r->left_out.count; i++) {
        cli_json_string(j, r->left_out.items[i]);
    }
    cli_json_close(j, ']');
}

void cli_report_summary(const cli_report *r, const cli_columns *columns,
                        const cli_section *sections, uint64_t room, cli_out *out) {
    static const char *const modes[] = {"none", "sample", "full"};
    uint64_t cut;
    cli_json j;

    cli_json_begin(&j, out);
    cli_json_field_string(&j, "kind", "report");
    cli_page_tool(&j);
    cli_json_field_string(&j, "name", r->name);
    cli_json_field_string(&j, "format",
                          r->format != NULL ? r->format : cli_page_format(r->catalog));
    put_files(r, &j);
    cli_json_field_open(&j, "metadata", '[');
    (void)cli_report_metadata(r, &j, room, &cut);
    cli_json_close(&j, ']');
    put_totals(r, &j);
    if (r->config != NULL && cli_page_has_room(r->config, r->config_size, room)) {
        cli_json_field_text(&j, "config", r->config, r->config_size);
    }
    if (r->license != NULL) {
        cli_json_field_string(&j, "license", r->license);
    }
    cli_tables_put(&columns->tables, &j);
    if (sections != NULL) {
        cli_put_sections(&j, r->count, sections);
    }
    cli_json_field_string(&j, "statistics", modes[r->mode]);
    cli_json_field_open(&j, "percentiles", '[');
    for (size_t i = 0; i < CLI_PERCENTILES; i++) {
        cli_json_real(&j, cli_shares[i]);
    }
    cli_json_close(&j, ']');
    if (r->quantised.count > 0 && !r->quantised_left) {
        put_quantised(r, &j);
    }
    put_findings(r, &j);
    put_left_out(r, &j);
    cli_json_field_open(&j, "aliases", '[');
    (void)cli_report_aliases(r, &j, room);
    cli_json_close(&j, ']');
    if (sections == NULL) {
        put_tensors(r, &j);
    }
    cli_json_end(&j);
}
