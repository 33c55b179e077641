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
    SENTENCES = 4096,                  /* bytes that are kept for what was left out */
    LEAST_STATS = 1 + 6 + 40 + 36 + 17 /* bytes of an entry at least */
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

static cli_text_buffer summary_of(const cli_report *r, const cli_columns *k, const cli_section *s) {
    cli_text_buffer text = {NULL, 0, 0};
    cli_out *out = cli_alloc(1, sizeof *out);

    out->text = &text;
    cli_report_summary(r, k, s, out);
    cli_flush(out);
    free(out);
    return text;
}

/* Of the summary, with room for so much. */
static uint64_t size_with(cli_report *r, const cli_columns *k, uint64_t room) {
    const cli_section none[] = {{NULL, 0}};

    cli_report_give_room(r, room);
    cli_text_buffer json = summary_of(r, k, none);
    const uint64_t size = cli_page_json(&json);
    free(json.data);
    return size;
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

/* Before the pass: what cannot have room, even alone, is not computed. */
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

typedef struct page {
    cli_report *r;
    const cli_columns *k;
    size_t *order; /* tensors, the largest first */
    cli_text_buffer stats;
    cli_text_buffer heat;
    size_t with_stats;
    size_t with_heat;
} page;

static uint64_t columns_size(const cli_columns *k) {
    return k->names.size + k->kind_ids.size + k->places.size;
}

static bool too_small(const cli_report *r, uint64_t needed) {
    cli_usage(
        r->c,
        "%s: the names, shapes and places of %llu tensors take %llu bytes, more than the %llu "
        "of the page",
        r->served ? "without MODEL the page opens it" : "--max-size", (unsigned long long)r->count,
        (unsigned long long)needed, (unsigned long long)r->max_size);
    return false;
}

/* Statistics, and if none of these is left out, thumbnails. False: something is. */
static bool choose(page *p, bool drawn, uint64_t room) {
    cli_report *r = p->r;

    if (r->mode == CLI_STATS_NONE) {
        return true;
    }
    free(p->stats.data);
    p->stats = section_of(r, &r->stats, p->order, &room, &p->with_stats);
    if (!drawn || p->with_stats < statistics_of(r)) {
        return false;
    }
    p->heat = section_of(r, &r->heat, p->order, &room, &p->with_heat);
    return p->with_heat == grids_of(r);
}

/* False: it would be larger than that. */
static bool put(const page *p, uint64_t most, cli_out *out) {
    const cli_columns *k = p->k;
    const cli_section sections[] = {{"names", k->names.size},   {"kinds", k->kind_ids.size},
                                    {"places", k->places.size}, {"stats", p->stats.size},
                                    {"heat", p->heat.size},     {NULL, 0}};
    const cli_text_buffer *const parts[] = {&k->names, &k->kind_ids, &k->places,
                                            &p->stats, &p->heat,     NULL};
    cli_text_buffer json = summary_of(p->r, k, sections);
    const uint64_t columns = columns_size(k) + p->stats.size + p->heat.size;
    const bool fits = cli_page_size(element, &json, columns) <= most;

    if (fits) {
        cli_page_put(out, element, &json, parts);
    }
    free(json.data);
    return fits;
}

static void leave_some(cli_report *r, const char *what, size_t kept, size_t all) {
    if (r->mode != CLI_STATS_NONE && kept < all) {
        cli_report_leave(r, "%s of %llu of %llu tensors, the smallest ones", what,
                         (unsigned long long)(all - kept), (unsigned long long)all);
    }
}

/* Thumbnails go first, then statistics, until what is left of these takes a quarter of the room. */
static void put_some(page *p, uint64_t room, uint64_t bare, cli_out *out) {
    cli_report *r = p->r;
    const uint64_t stats = cli_page_base64(p->stats.size);
    const uint64_t most = room - (stats < room / 4 ? stats : room / 4);
    uint64_t beside = size_with(r, p->k, UINT64_MAX) - bare;

    if (beside > most) {
        beside = size_with(r, p->k, most) - bare;
    }
    const bool cut = cli_report_leave_beside(r);
    free(p->heat.data);
    p->heat = (cli_text_buffer){NULL, 0, 0};
    p->with_heat = 0;
    (void)choose(p, !cut, (room - beside) / 4 * 3);
    leave_some(r, "statistics", p->with_stats, statistics_of(r));
    leave_some(r, "thumbnails", p->with_heat, grids_of(r));
    (void)put(p, UINT64_MAX, out);
}

static bool fill(page *p, cli_out *out) {
    cli_report *r = p->r;
    const uint64_t bare = size_with(r, p->k, 0);
    const uint64_t whole = cli_page_bare(element) + bare + cli_page_base64(columns_size(p->k));
    const uint64_t needed = whole + SENTENCES; /* if something is left out */
    const uint64_t room = r->max_size > needed ? r->max_size - needed : 0;
    sft_error err;

    if (whole > r->max_size) {
        return too_small(r, needed);
    }
    p->order = rank_tensors(r);
    if (r->mode != CLI_STATS_NONE) {
        want(r, p->order, room / 4 * 3 + SENTENCES);
        if (cli_report_pass(r, &err) != SFT_OK) {
            cli_fail(r->c, r->operand, &err);
            return false;
        }
    }
    cli_report_give_room(r, UINT64_MAX);
    if (choose(p, true, UINT64_MAX / 2) && put(p, r->max_size, out)) {
        return true;
    }
    if (needed > r->max_size) {
        return too_small(r, needed);
    }
    put_some(p, room, bare, out);
    return true;
}

bool cli_report_page(cli_report *r, cli_out *out) {
    cli_columns columns;

    cli_columns_make(&columns, r->catalog);
    page p = {.r = r, .k = &columns};
    const bool good = fill(&p, out);
    free(p.order);
    free(p.stats.data);
    free(p.heat.data);
    cli_columns_reset(&columns);
    return good;
}
