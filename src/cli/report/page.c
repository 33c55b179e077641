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

static const char marker[] = "<!-- sft:data -->";
static const char head_summary[] = "<script type=\"application/json\" id=\"sft-summary\">";
static const char head_columns[] = "<script type=\"application/octet-stream\" id=\"sft-columns\">";
static const char tail[] = "</script>\n";

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

/* In the page: `<` is six bytes. */
static uint64_t size_in_page(const cli_text_buffer *json) {
    uint64_t size = json->size;

    for (size_t i = 0; i < json->size; i++) {
        size += json->data[i] == '<' ? 5 : 0;
    }
    return size;
}

static uint64_t in_base64(uint64_t bytes) {
    return (bytes + 2) / 3 * 4;
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

/* ---------------------------------------------------------------- writing */

static void put_summary(const cli_text_buffer *json, cli_out *out) {
    size_t begin = 0;

    cli_puts(out, head_summary);
    for (size_t i = 0; i < json->size; i++) {
        if (json->data[i] == '<') { /* in a string: nothing can end the element */
            cli_put(out, json->data + begin, i - begin);
            cli_puts(out, "\\u003c");
            begin = i + 1;
        }
    }
    cli_put(out, json->data + begin, json->size - begin);
    cli_puts(out, tail);
}

typedef struct base64 {
    cli_out *out;
    unsigned char rest[3];
    size_t held;
} base64;

static void put_three(base64 *b) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t v = (uint32_t)b->rest[0] << 16 | (uint32_t)b->rest[1] << 8 | b->rest[2];
    const char text[4] = {digits[v >> 18], digits[v >> 12 & 63],
                          b->held > 1 ? digits[v >> 6 & 63] : '=',
                          b->held > 2 ? digits[v & 63] : '='};

    cli_put(b->out, text, sizeof text);
    b->held = 0;
    memset(b->rest, 0, sizeof b->rest);
}

static void put_bytes(base64 *b, const cli_text_buffer *bytes) {
    for (size_t i = 0; i < bytes->size; i++) {
        b->rest[b->held++] = (unsigned char)bytes->data[i];
        if (b->held == 3) {
            put_three(b);
        }
    }
}

/* Where the template has its marker: the page cannot be without. */
static size_t marker_at(void) {
    const char *text = (const char *)cli_report_template;
    size_t at = 0;

    while (at + sizeof marker - 1 <= cli_report_template_size &&
           memcmp(text + at, marker, sizeof marker - 1) != 0) {
        at++;
    }
    return at;
}

static void put_page(const cli_text_buffer *json, const cli_text_buffer *const parts[5],
                     cli_out *out) {
    const size_t at = marker_at();
    const size_t behind = at + sizeof marker - 1;
    base64 b = {.out = out};

    cli_put(out, cli_report_template, at);
    put_summary(json, out);
    cli_puts(out, head_columns);
    for (size_t i = 0; i < 5; i++) {
        put_bytes(&b, parts[i]);
    }
    if (b.held > 0) {
        put_three(&b);
    }
    cli_puts(out, tail);
    cli_put(out, cli_report_template + behind, cli_report_template_size - behind);
}

/* ---------------------------------------------------------------- the page */

/* Bytes that are left for metadata and statistics; 0: not even the rest fits, which was told. */
static uint64_t room_beside(cli_report *r, const cli_columns *k) {
    const cli_section none[] = {{NULL, 0}};
    cli_text_buffer json = summary_of(r, k, none, 0);
    const uint64_t columns = k->names.size + k->kind_ids.size + k->places.size;
    const uint64_t taken = cli_report_template_size + sizeof head_summary + sizeof head_columns +
                           2 * sizeof tail + size_in_page(&json) + in_base64(columns) + SENTENCES;

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
    if (r->config != NULL && !cli_report_has_room(r->config, r->config_size, room)) {
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
    const uint64_t metadata = size_in_page(&json) - size_in_page(&without);
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
    const cli_text_buffer *const parts[] = {&k->names, &k->kind_ids, &k->places, &stats, &heat};
    json = summary_of(r, k, sections, beside);
    put_page(&json, parts, out);
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
