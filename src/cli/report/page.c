/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/page.c - the page: its template with the summary and the columns put in, and what there is
 * room for in it. Read report.h first.
 */
#include "cli/report/report.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char element[] = "sft-summary";

enum {
    SENTENCES = 4096,                   /* bytes that are kept for what was left out */
    LEAST_STATS = 1 + 6 + 40 + 36 + 17, /* bytes of an entry at least */
    MOST_QUANTISED = 256                /* and of a quantised module about */
};

void cli_report_leave(cli_report *r, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_strings_take(&r->left_out, cli_copy_of(text));
    cli_warn(r->c, r->operand, "left out: %s", text);
}

/* ---------------------------------------------------------------- what has room */

static cli_text_buffer summary_of(const cli_report *r, const cli_columns *k, const cli_section *s,
                                  uint64_t room) {
    cli_text_buffer text = {NULL, 0, 0};
    cli_out *out = cli_alloc(1, sizeof *out);

    out->text = &text;
    cli_report_summary(r, k, s, room, out);
    cli_flush(out);
    free(out);
    return text;
}

typedef struct ranked {
    uint64_t bytes;
    size_t index;
} ranked;

static int by_size(const void *a, const void *b) {
    const ranked *x = a;
    const ranked *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1)
                                : (x->index > y->index) - (x->index < y->index);
}

/* Tensors, the largest first. */
static size_t *rank_tensors(const cli_report *r) {
    ranked *all = cli_alloc(r->count, sizeof *all);
    size_t *order = cli_alloc(r->count, sizeof *order);

    for (size_t i = 0; i < r->count; i++) {
        all[i] = (ranked){sft_catalog_at(r->catalog, i)->nbytes, i};
    }
    qsort(all, r->count, sizeof *all, by_size);
    for (size_t i = 0; i < r->count; i++) {
        order[i] = all[i].index;
    }
    free(all);
    return order;
}

/* Before the pass: what cannot have room is not computed. */
static void want(cli_report *r, const size_t *order, uint64_t room) {
    uint64_t taken = r->count;
    uint32_t rows;
    uint32_t columns;

    r->wanted = cli_alloc(r->count, sizeof *r->wanted);
    r->drawn = cli_alloc(r->count, sizeof *r->drawn);
    for (size_t i = 0; i < r->count && taken + LEAST_STATS <= room; i++) {
        r->wanted[order[i]] = true;
        taken += LEAST_STATS;
    }
    for (size_t i = 0; i < r->count; i++) {
        const size_t size = cli_report_grid(sft_catalog_at(r->catalog, order[i]), &rows, &columns);
        if (!r->wanted[order[i]] || taken + size > room) {
            break;
        }
        r->drawn[order[i]] = true;
        taken += size;
    }
}

/* After it: a section of the entries that fit, those of the largest tensors first. kept: of how many. */
static cli_text_buffer section_of(const cli_report *r, cli_entries *e, const size_t *order,
                                  uint64_t *room, size_t *kept) {
    cli_text_buffer section = {NULL, 0, 0};
    uint64_t taken = r->count;
    const char *at = e->bytes.data;
    bool *fits = cli_alloc(r->count, sizeof *fits);

    *kept = 0;
    for (size_t i = 0; i < r->count && taken + e->sizes[order[i]] <= *room + 1; i++) {
        const uint32_t size = e->sizes[order[i]];
        fits[order[i]] = size > 0;
        taken += size > 0 ? size - 1 : 0;
        *kept += size > 0;
    }
    for (size_t i = 0; i < r->count && *kept > 0; at += e->sizes[i++]) {
        cli_text_add(&section, fits[i] ? at : "\0", fits[i] ? e->sizes[i] : 1);
    }
    *room -= section.size;
    free(fits);
    return section;
}

static size_t statistics_of(const cli_report *r) {
    size_t n = 0;

    for (size_t i = 0; i < r->count; i++) {
        n += cli_stats_known(sft_catalog_at(r->catalog, i)->dtype);
    }
    return n;
}

static size_t grids_of(const cli_report *r) {
    uint32_t rows;
    uint32_t columns;
    size_t n = 0;

    for (size_t i = 0; i < r->count; i++) {
        n += cli_report_grid(sft_catalog_at(r->catalog, i), &rows, &columns) > 1;
    }
    return n;
}

/* ---------------------------------------------------------------- the page */

/* Bytes that are left for metadata and statistics; 0: not even the rest fits, which was told. */
static uint64_t room_beside(cli_report *r, const cli_columns *k) {
    const cli_section none[] = {{NULL, 0}};
    cli_text_buffer json = summary_of(r, k, none, 0);
    const uint64_t columns = k->names.size + k->kind_ids.size + k->places.size;
    const uint64_t taken =
        cli_page_bare(element) + cli_page_json(&json) + cli_page_base64(columns) + SENTENCES;

    free(json.data);
    if (taken >= r->max_size) {
        cli_usage(r->c,
                  "--max-size: the names, shapes and places of %llu tensors take %llu bytes, more "
                  "than the %llu of the page",
                  (unsigned long long)r->count, (unsigned long long)taken,
                  (unsigned long long)r->max_size);
        return 0;
    }
    return r->max_size - taken;
}

static void leave_beside(cli_report *r, uint64_t room) {
    uint64_t cut;
    const uint64_t aliases = cli_report_aliases(r, NULL, room);
    const uint64_t left = cli_report_metadata(r, NULL, room, &cut);

    if (left > 0) {
        cli_report_leave(r, "%llu entries of metadata", (unsigned long long)left);
    }
    if (cut > 0) {
        cli_report_leave(r, "parts of %llu values of metadata", (unsigned long long)cut);
    }
    if (r->config != NULL && !cli_page_has_room(r->config, r->config_size, room)) {
        cli_report_leave(r, "config.json, %llu bytes", (unsigned long long)r->config_size);
    }
    if (aliases > 0) {
        cli_report_leave(r, "%llu other names of tensors", (unsigned long long)aliases);
    }
}

static void leave_some(cli_report *r, const char *what, size_t kept, size_t all) {
    if (kept < all) {
        cli_report_leave(r, "%s of %llu of %llu tensors, the smallest ones", what,
                         (unsigned long long)(all - kept), (unsigned long long)all);
    }
}

static bool fill(cli_report *r, const cli_columns *k, cli_out *out) {
    uint64_t room = room_beside(r, k);
    const uint64_t beside = room / 4;
    const cli_section none[] = {{NULL, 0}};
    cli_text_buffer stats = {NULL, 0, 0};
    cli_text_buffer heat = {NULL, 0, 0};
    sft_error err;
    size_t kept;

    if (room == 0) {
        return false;
    }
    leave_beside(r, beside);
    cli_text_buffer json = summary_of(r, k, none, beside);
    const cli_text_buffer without = summary_of(r, k, none, 0);
    const uint64_t metadata = cli_page_json(&json) - cli_page_json(&without);
    room = room > metadata ? (room - metadata) / 4 * 3 : 0;
    free(json.data);
    free(without.data);
    size_t *order = rank_tensors(r);
    if (r->mode != CLI_STATS_NONE) {
        want(r, order, room);
        if (cli_report_pass(r, &err) != SFT_OK) {
            cli_fail(r->c, r->operand, &err);
            free(order);
            return false;
        }
        stats = section_of(r, &r->stats, order, &room, &kept);
        leave_some(r, "statistics", kept, statistics_of(r));
        heat = section_of(r, &r->heat, order, &room, &kept);
        leave_some(r, "thumbnails", kept, grids_of(r));
    }
    const cli_section sections[] = {{"names", k->names.size},   {"kinds", k->kind_ids.size},
                                    {"places", k->places.size}, {"stats", stats.size},
                                    {"heat", heat.size},        {NULL, 0}};
    const cli_text_buffer *const parts[] = {&k->names, &k->kind_ids, &k->places,
                                            &stats,    &heat,        NULL};
    json = summary_of(r, k, sections, beside);
    cli_page_put(out, element, &json, parts);
    free(json.data);
    free(stats.data);
    free(heat.data);
    free(order);
    return true;
}

bool cli_report_page(cli_report *r, cli_out *out) {
    cli_columns columns;

    if (r->quantised.count > r->max_size / 4 / MOST_QUANTISED) {
        r->quantised_left = true;
        cli_report_leave(r, "the list of %llu quantised modules",
                         (unsigned long long)r->quantised.count);
    }
    cli_columns_make(&columns, r->catalog);
    const bool good = fill(r, &columns, out);
    cli_columns_reset(&columns);
    return good;
}
