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

static cli_metadata_change entry_at(const cli_report *r, size_t file, size_t i) {
    const sft_metadata_entry e = cli_metadata_at(r->catalog, file, i);

    return (cli_metadata_change){e.key, e.key_len, e.value, e.value_len, NULL, 0};
}

/* j NULL: what has no room is only counted. */
static void put_metadata(const cli_report *r, cli_json *j, cli_room *room) {
    for (size_t f = 0; f < sft_catalog_file_count(r->catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(r->catalog, f); i++) {
            const cli_metadata_change x = entry_at(r, f, i);
            size_t shown[2];
            if (!cli_room_take(room, &x, shown) || j == NULL) {
                continue;
            }
            cli_json_open(j, '{');
            cli_json_field_u64(j, "file", f);
            cli_json_field_text(j, "key", x.key, x.key_len);
            cli_json_field_text(j, "value", x.a, shown[0]);
            if (shown[0] < x.a_len) {
                cli_json_field_u64(j, "cut", x.a_len - shown[0]);
            }
            cli_json_close(j, '}');
        }
    }
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

/* What was left out of a file of another format when it was opened. */
static void put_unread(const cli_report *r, cli_json *j, const sft_import_report *report,
                       size_t *left) {
    for (size_t i = 0; i < sft_import_report_count(report) && *left > 0; i++) {
        const sft_finding *f = sft_import_report_at(report, i);
        if (f->kind == SFT_FINDING_LEFT_OUT) {
            put_finding(j, r->catalog,
                        &(finding){"reader", "warning", f->subject, f->message, f->offset, NULL});
            (*left)--;
        }
    }
}

static void put_findings(const cli_report *r, cli_json *j) {
    size_t left = MOST_FINDINGS;

    cli_json_field_open(j, "findings", '[');
    for (size_t i = 0; i < r->c->report_count; i++) {
        put_unread(r, j, r->c->reports[i], &left);
    }
    if (r->unscanned != NULL) {
        put_finding(j, r->catalog,
                    &(finding){"scan", r->unscanned, NULL,
                               "what loading it would do was not looked at, as that reads data",
                               SFT_NO_OFFSET, NULL});
    }
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

/* ---------------------------------------------------------------- room */

enum { ALIAS = 32, MODULE = 320 }; /* bytes of an entry at most, beside its name */

static uint64_t quantised_cost(const cli_report *r) {
    uint64_t cost = 0;

    for (size_t i = 0; i < r->quantised.count; i++) {
        cost += MODULE + cli_page_cost(r->quantised.items[i].name, r->quantised.items[i].name_len);
    }
    return cost;
}

/* So many of the first ones; what they take goes off. */
static size_t aliases_in(const cli_report *r, uint64_t *room) {
    for (size_t i = 0; i < sft_catalog_alias_count(r->catalog); i++) {
        const cli_other_name a = cli_other_name_at(r->catalog, i);
        const uint64_t cost = ALIAS + cli_page_cost(a.name, a.len);
        if (cost > *room) {
            return i;
        }
        *room -= cost;
    }
    return sft_catalog_alias_count(r->catalog);
}

static cli_room metadata_in(const cli_report *r, uint64_t room) {
    uint64_t *costs;
    size_t count = 0;

    for (size_t f = 0; f < sft_catalog_file_count(r->catalog); f++) {
        count += sft_catalog_metadata_count(r->catalog, f);
    }
    costs = cli_alloc(count, sizeof *costs);
    count = 0;
    for (size_t f = 0; f < sft_catalog_file_count(r->catalog); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(r->catalog, f); i++) {
            const cli_metadata_change x = entry_at(r, f, i);
            costs[count++] = cli_room_cost(&x);
        }
    }
    const cli_room shared = cli_room_of(costs, count, room);
    free(costs);
    return shared;
}

/* Is there half of the room for it? Then it goes off. */
static bool take_half(uint64_t *room, uint64_t cost) {
    const bool fits = cost <= *room / 2;

    *room -= fits ? cost : 0;
    return fits;
}

void cli_report_give_room(cli_report *r, uint64_t bytes) {
    r->beside.config =
        r->config == NULL || take_half(&bytes, cli_page_cost(r->config, r->config_size));
    r->beside.quantised = take_half(&bytes, quantised_cost(r));
    uint64_t half = bytes / 2;
    bytes -= half;
    r->beside.aliases = aliases_in(r, &half);
    r->beside.metadata = metadata_in(r, bytes + half);
}

bool cli_report_leave_beside(cli_report *r) {
    const size_t aliases = sft_catalog_alias_count(r->catalog) - r->beside.aliases;
    cli_room room = r->beside.metadata;

    put_metadata(r, NULL, &room);
    if (!r->beside.quantised) {
        cli_report_leave(r, "the list of %llu quantised modules",
                         (unsigned long long)r->quantised.count);
    }
    if (room.entries_left > 0) {
        cli_report_leave(r, "%llu entries of metadata", (unsigned long long)room.entries_left);
    }
    if (room.values_cut > 0) {
        cli_report_leave(r, "parts of %llu values of metadata",
                         (unsigned long long)room.values_cut);
    }
    if (!r->beside.config) {
        cli_report_leave(r, "config.json, %llu bytes", (unsigned long long)r->config_size);
    }
    if (aliases > 0) {
        cli_report_leave(r, "%llu other names of tensors", (unsigned long long)aliases);
    }
    return room.entries_left + room.values_cut + aliases > 0;
}

/* ---------------------------------------------------------------- the whole */

static void put_aliases(const cli_report *r, cli_json *j) {
    cli_json_field_open(j, "aliases", '[');
    for (size_t i = 0; i < r->beside.aliases; i++) {
        const cli_other_name a = cli_other_name_at(r->catalog, i);
        cli_json_open(j, '[');
        cli_json_u64(j, a.index);
        cli_json_text(j, a.name, a.len);
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
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
                        const cli_section *sections, cli_out *out) {
    static const char *const modes[] = {"none", "sample", "full"};
    cli_room room = r->beside.metadata;
    cli_json j;

    cli_json_begin(&j, out);
    cli_json_field_string(&j, "kind", "report");
    cli_page_tool(&j);
    cli_json_field_string(&j, "name", r->name);
    cli_json_field_string(&j, "format",
                          r->format != NULL ? r->format : cli_page_format(r->catalog));
    put_files(r, &j);
    cli_json_field_open(&j, "metadata", '[');
    put_metadata(r, &j, &room);
    cli_json_close(&j, ']');
    put_totals(r, &j);
    if (r->config != NULL && r->beside.config) {
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
    if (r->quantised.count > 0 && r->beside.quantised) {
        put_quantised(r, &j);
    }
    put_findings(r, &j);
    put_left_out(r, &j);
    put_aliases(r, &j);
    if (sections == NULL) {
        put_tensors(r, &j);
    }
    cli_json_end(&j);
}
