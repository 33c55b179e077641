/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/page.c - the differences of two models as a page: the template of report with an object and
 * columns, a row for each pair (docs/report.md). What has no room is left out, the least changed first.
 * Read diff.h and report/parts.h first.
 */
#include "cli/compare/diff.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char element[] = "sft-diff";

enum {
    SENTENCES = 4096, /* bytes that are kept for what was left out */
    FULL = 128,       /* bytes that are too few for a row with a name of its own */
    COUNTS = 1,       /* of a tensor's measures */
    NUMBERS = 2,
    RENAMED = 8, /* beside the verdict */
    MEASURED = 16,
    OTHER_KIND = 32
};

typedef struct ranked {
    double moved;
    size_t pair;
} ranked;

typedef struct page {
    cli_diff *d;
    bool same;
    ranked *order; /* pairs, the most changed first */
    bool *kept;
    bool *detailed; /* with its measures */
    cli_tables tables;
    cli_text_buffer names;
    cli_text_buffer marks;
    cli_text_buffer kinds;
    cli_text_buffer others; /* names of b's tensors that a calls otherwise */
    cli_text_buffer moved;
    cli_text_buffer measures;
    size_t rows;
    cli_room beside; /* of metadata and states */
    cli_room taken;  /* what is left of it behind the object */
    uint64_t *costs; /* of entries of these */
    size_t cost_count;
    cli_strings left_out;
} page;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
leave(page *p, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_strings_take(&p->left_out, cli_copy_of(text));
    cli_warn(p->d->c, NULL, "--report: left out: %s", text);
}

/* ---------------------------------------------------------------- order */

/* Infinite: one has it alone, or has it in another form that cannot be measured. */
static double moved_of(const cli_pair *pair) {
    const cli_change *x = pair->change;

    if (pair->verdict == CLI_SAME || pair->verdict == CLI_OTHER_NAME) {
        return pair->verdict == CLI_SAME ? -2 : -1;
    }
    if (x == NULL) {
        return pair->verdict == CLI_OTHER_VALUES ? 0 : INFINITY;
    }
    const double moved = cli_change_measurable(pair->a->dtype, pair->b->dtype)
                             ? cli_change_relative(x)
                             : 1 - (double)x->equal / (double)x->count;
    return moved >= 0 ? moved : INFINITY; /* NaN: it is not in order */
}

static int by_moved(const void *a, const void *b) {
    const ranked *x = a;
    const ranked *y = b;
    if (x->moved > y->moved || x->moved < y->moved) {
        return x->moved > y->moved ? -1 : 1;
    }
    return (x->pair > y->pair) - (x->pair < y->pair);
}

/* Those that are the same stay as they are, behind all others. */
static void rank_pairs(page *p) {
    size_t changed = 0;
    size_t same = p->d->count;

    p->order = cli_alloc(p->d->count, sizeof *p->order);
    for (size_t i = p->d->count; i-- > 0;) {
        if (p->d->pairs[i].verdict == CLI_SAME) {
            p->order[--same] = (ranked){-2, i};
        }
    }
    for (size_t i = 0; i < p->d->count; i++) {
        if (p->d->pairs[i].verdict != CLI_SAME) {
            p->order[changed++] = (ranked){moved_of(&p->d->pairs[i]), i};
        }
    }
    qsort(p->order, changed, sizeof *p->order, by_moved);
}

/* ---------------------------------------------------------------- rows */

static bool other_kind(const cli_pair *pair) {
    const sft_tensor *a = pair->a;
    const sft_tensor *b = pair->b;

    return a != NULL && b != NULL &&
           (a->dtype->id != b->dtype->id || a->rank != b->rank ||
            (a->rank > 0 && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0));
}

static void put_floats(cli_text_buffer *t, const double *values, size_t count) {
    char bytes[8];

    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (size_t k = 0; k < 8; k++) {
            bytes[k] = (char)(bits >> 8 * k & 255);
        }
        cli_text_add(t, bytes, sizeof bytes);
    }
}

static void put_float(cli_text_buffer *t, double value) {
    const float v = value > 3.4e38 ? INFINITY : (float)value;
    char bytes[4];
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    for (size_t k = 0; k < 4; k++) {
        bytes[k] = (char)(bits >> 8 * k & 255);
    }
    cli_text_add(t, bytes, sizeof bytes);
}

static void put_byte(cli_text_buffer *t, unsigned value) {
    const char byte = (char)value;
    cli_text_add(t, &byte, 1);
}

/* Everything but measures. */
static void put_row(page *p, const cli_pair *pair) {
    const bool other = other_kind(pair);

    cli_tables_name(&p->tables, pair->name, pair->name_len, &p->names);
    put_byte(&p->marks, (unsigned)pair->verdict | (pair->renamed ? RENAMED : 0u) |
                            (pair->change != NULL ? MEASURED : 0u) | (other ? OTHER_KIND : 0u));
    cli_tables_kind(&p->tables, pair->a != NULL ? pair->a : pair->b, &p->kinds);
    if (other) {
        cli_tables_kind(&p->tables, pair->b, &p->kinds);
    }
    if (pair->renamed) {
        cli_tables_name(&p->tables, pair->b->name, pair->b->name_len, &p->others);
    }
    if (pair->change != NULL) {
        put_float(&p->moved, moved_of(pair) >= 0 ? moved_of(pair) : 0);
    }
}

static void put_measures(cli_text_buffer *t, const cli_pair *pair) {
    const cli_change *x = pair->change;
    const bool numbers = cli_change_measurable(pair->a->dtype, pair->b->dtype);
    size_t first;

    put_byte(t, numbers ? NUMBERS : COUNTS);
    cli_put_leb(t, x->equal);
    cli_put_leb(t, x->not_finite);
    put_byte(t, x->no_ulp ? 0 : 1);
    cli_put_leb(t, x->no_ulp ? 0 : x->max_ulp);
    put_byte(t, pair->a->dtype->id == pair->b->dtype->id ? 0 : x->cast_equal ? 2 : 1);
    cli_put_leb(t, pair->ranked ? (uint64_t)pair->rank + 1 : 0);
    if (!numbers) {
        return;
    }
    const double values[] = {cli_change_norm(x->a2, x->scale_a),
                             cli_change_norm(x->b2, x->scale_b),
                             cli_change_norm(x->d2, x->scale_d),
                             cli_change_relative(x),
                             cli_change_cosine(x),
                             x->max_abs};
    put_floats(t, values, sizeof values / sizeof values[0]);
    const size_t bins = cli_diff_bins(x, &first);
    put_byte(t, (unsigned)first);
    put_byte(t, (unsigned)bins);
    for (size_t i = 0; i < bins; i++) {
        cli_put_leb(t, x->bins[first + i]);
    }
}

/* ---------------------------------------------------------------- what has room */

static size_t columns_size(const page *p) {
    return p->names.size + p->marks.size + p->kinds.size + p->others.size + p->moved.size +
           p->measures.size;
}

static void forget_columns(page *p) {
    p->names.size = p->marks.size = p->kinds.size = p->others.size = 0;
    p->moved.size = p->measures.size = 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Bytes of the tables in a page at most, for what a row may add to them. */
static uint64_t most_of(const cli_pair *pair) {
    uint64_t most = cli_tables_name_cost(pair->name, pair->name_len) +
                    cli_tables_kind_cost(pair->a != NULL ? pair->a : pair->b) + 128;

    if (other_kind(pair)) {
        most += cli_tables_kind_cost(pair->b);
    }
    return pair->renamed ? most + cli_tables_name_cost(pair->b->name, pair->b->name_len) : most;
}

/* Of measures, the sizes of all rows. */
static uint64_t measures_size(page *p) {
    uint64_t size = 0;

    for (size_t i = 0; i < p->d->count; i++) {
        p->measures.size = 0;
        if (p->d->pairs[i].change != NULL) {
            put_measures(&p->measures, &p->d->pairs[i]);
        }
        size += p->measures.size;
    }
    return size;
}

/* Rows, the most changed first, as many as fit; what is left. */
static uint64_t choose_rows(page *p, uint64_t room) {
    p->kept = cli_alloc(p->d->count, sizeof *p->kept);
    p->rows = 0;
    for (size_t i = 0; i < p->d->count && room > FULL; i++) {
        const cli_pair *pair = &p->d->pairs[p->order[i].pair];
        const size_t known = p->tables.templates.count + p->tables.kinds.count;
        const uint64_t most = most_of(pair);
        if (most + most / 2 > room) {
            continue;
        }
        forget_columns(p);
        put_row(p, pair);
        const uint64_t taken = cli_page_base64(3 * columns_size(p)) / 3 + 2;
        const bool grown = p->tables.templates.count + p->tables.kinds.count > known;
        room -= taken + (grown ? most : 0);
        p->kept[p->order[i].pair] = true;
        p->rows++;
    }
    forget_columns(p);
    return room;
}

static size_t choose_measures(page *p, uint64_t room) {
    size_t kept = 0;

    p->detailed = cli_alloc(p->d->count, sizeof *p->detailed);
    for (size_t i = 0; i < p->d->count; i++) {
        const size_t at = p->order[i].pair;
        if (!p->kept[at] || p->d->pairs[at].change == NULL) {
            continue;
        }
        p->measures.size = 0;
        put_measures(&p->measures, &p->d->pairs[at]);
        const uint64_t taken = cli_page_base64(3 * p->measures.size) / 3 + 2;
        if (taken > room) {
            break;
        }
        room -= taken;
        p->detailed[at] = true;
        kept++;
    }
    p->measures.size = 0;
    return kept;
}

static void tell_left(page *p, size_t measured) {
    uint64_t changed = 0;
    uint64_t with_change = 0;
    uint64_t rows_changed = 0;

    for (size_t i = 0; i < p->d->count; i++) {
        const bool is_changed = p->d->pairs[i].verdict != CLI_SAME;
        changed += is_changed;
        rows_changed += is_changed && p->kept[i];
        with_change += p->kept[i] && p->d->pairs[i].change != NULL;
    }
    const uint64_t same = p->d->count - changed;
    const uint64_t same_left = same - (p->rows - rows_changed);
    if (same_left > 0) {
        leave(p, "%llu of %llu tensors that did not change", (unsigned long long)same_left,
              (unsigned long long)same);
    }
    if (rows_changed < changed) {
        leave(p, "%llu of %llu tensors that changed, the least changed ones",
              (unsigned long long)(changed - rows_changed), (unsigned long long)changed);
    }
    if (measured < with_change) {
        leave(p, "measures of %llu of %llu tensors, the least changed ones",
              (unsigned long long)(with_change - measured), (unsigned long long)with_change);
    }
}

static void fill_columns(page *p) {
    for (size_t i = 0; i < p->d->count; i++) {
        if (!p->kept[i]) {
            continue;
        }
        put_row(p, &p->d->pairs[i]);
        if (p->detailed[i]) {
            put_measures(&p->measures, &p->d->pairs[i]);
        } else if (p->d->pairs[i].change != NULL) {
            put_byte(&p->measures, 0);
        }
    }
}

/* ---------------------------------------------------------------- the object */

typedef struct writer {
    page *p;
    cli_json *j;
} writer;

static void put_value(cli_json *j, const char *key, const char *cut_key, const char *text,
                      size_t len, size_t shown) {
    cli_json_field_text(j, key, text, shown);
    if (text != NULL && shown < len) {
        cli_json_field_big(j, cut_key, len - shown);
    }
}

static void put_entry(cli_diff *d, void *ctx, const cli_metadata_change *x) {
    const writer *w = ctx;
    size_t shown[2];

    (void)d;
    if (!cli_room_take(&w->p->taken, x, shown)) {
        return;
    }
    cli_json_open(w->j, '{');
    cli_json_field_text(w->j, "key", x->key, x->key_len);
    put_value(w->j, "a", "a_cut", x->a, x->a_len, shown[0]);
    put_value(w->j, "b", "b_cut", x->b, x->b_len, shown[1]);
    cli_json_close(w->j, '}');
}

static void put_state(void *ctx, const char *name, const char *a, size_t a_len, const char *b,
                      size_t b_len) {
    const cli_metadata_change x = {name, strlen(name), a, a_len, b, b_len};

    put_entry(NULL, ctx, &x);
}

/* Names of both, with the directory where they are the same otherwise. */
static void put_names(const cli_diff *d, cli_json *j) {
    char *a = cli_page_name(d->name_a);
    char *b = cli_page_name(d->name_b);

    if (strcmp(a, b) == 0) {
        free(a);
        free(b);
        a = cli_copy_of(d->name_a);
        b = cli_copy_of(d->name_b);
    }
    cli_json_field_string(j, "a", a);
    cli_json_field_string(j, "b", b);
    free(a);
    free(b);
}

static cli_text_buffer object_of(page *p, const cli_section *sections) {
    cli_text_buffer text = {NULL, 0, 0};
    cli_out *out = cli_alloc(1, sizeof *out);
    cli_diff *d = p->d;
    cli_json j;
    writer w = {p, &j};

    p->taken = p->beside;
    out->text = &text;
    cli_json_begin(&j, out);
    cli_json_field_string(&j, "kind", "diff");
    cli_page_tool(&j);
    put_names(d, &j);
    cli_json_field_bool(&j, "same", p->same);
    cli_json_field_string(&j, "change", cli_diff_kind_word(d->kind));
    cli_json_field_string(&j, "reason", d->reason);
    cli_diff_put_figures(d, &j);
    cli_json_field_big(&j, "metadata_changes", d->metadata_changes);
    cli_json_field_open(&j, "metadata", '[');
    (void)cli_diff_metadata(d, put_entry, &w);
    cli_json_close(&j, ']');
    if (d->states_a.point != NULL && d->states_b.point != NULL) {
        cli_json_field_open(&j, "states", '[');
        (void)cli_states_differ(&d->states_a, &d->states_b, put_state, &w);
        cli_json_close(&j, ']');
    }
    cli_tables_put(&p->tables, &j);
    cli_put_sections(&j, p->rows, sections);
    cli_json_field_open(&j, "left_out", '[');
    for (size_t i = 0; i < p->left_out.count; i++) {
        cli_json_string(&j, p->left_out.items[i]);
    }
    cli_json_close(&j, ']');
    cli_json_end(&j);
    cli_flush(out);
    free(out);
    return text;
}

static void take_cost(cli_diff *d, void *ctx, const cli_metadata_change *x) {
    page *p = ctx;

    (void)d;
    if (p->costs != NULL) {
        p->costs[p->cost_count] = cli_room_cost(x);
    }
    p->cost_count++;
}

static void take_cost_of_state(void *ctx, const char *name, const char *a, size_t a_len,
                               const char *b, size_t b_len) {
    const cli_metadata_change x = {name, strlen(name), a, a_len, b, b_len};

    take_cost(NULL, ctx, &x);
}

/* Counts them, then takes them down. */
static void take_costs(page *p) {
    for (int round = 0; round < 2; round++) {
        p->costs = round == 0 ? NULL : cli_alloc(p->cost_count, sizeof *p->costs);
        p->cost_count = 0;
        (void)cli_diff_metadata(p->d, take_cost, p);
        (void)cli_states_differ(&p->d->states_a, &p->d->states_b, take_cost_of_state, p);
    }
}

static void give_room(page *p, uint64_t beside) {
    p->beside = cli_room_of(p->costs, p->cost_count, beside);
}

static uint64_t object_size(page *p, uint64_t beside) {
    const cli_section none[] = {{NULL, 0}};

    give_room(p, beside);
    cli_text_buffer text = object_of(p, none);
    const uint64_t size = cli_page_json(&text);
    free(text.data);
    return size;
}

static void leave_beside(page *p) {
    if (p->taken.entries_left > 0) {
        leave(p, "%llu entries of metadata that differ", (unsigned long long)p->taken.entries_left);
    }
    if (p->taken.values_cut > 0) {
        leave(p, "parts of %llu values of metadata", (unsigned long long)p->taken.values_cut);
    }
}

/* ---------------------------------------------------------------- the page */

/* Its size; it is written if that is not above `most`. */
static uint64_t write_page(page *p, uint64_t most, cli_out *out) {
    const cli_section sections[] = {{"names", p->names.size},
                                    {"marks", p->marks.size},
                                    {"kinds", p->kinds.size},
                                    {"others", p->others.size},
                                    {"moved", p->moved.size},
                                    {"measures", p->measures.size},
                                    {NULL, 0}};
    const cli_text_buffer *const columns[] = {&p->names, &p->marks,    &p->kinds, &p->others,
                                              &p->moved, &p->measures, NULL};
    const cli_text_buffer object = object_of(p, sections);
    const uint64_t size = cli_page_size(element, &object, columns_size(p));

    if (size <= most) {
        cli_page_put(out, element, &object, columns);
    }
    free(object.data);
    return size;
}

/* With all tensors, and metadata whole or in what is left, if that is a quarter of the room: else false, and
 * nothing is kept. */
static bool write_all(page *p, uint64_t max_size, uint64_t quarter, cli_out *out) {
    const size_t count = p->d->count;
    bool fits = true;

    p->kept = cli_alloc(count, sizeof *p->kept);
    p->detailed = cli_alloc(count, sizeof *p->detailed);
    memset(p->kept, true, count * sizeof *p->kept);
    memset(p->detailed, true, count * sizeof *p->detailed);
    p->rows = count;
    for (size_t i = 0; i < count && fits; i++) {
        put_row(p, &p->d->pairs[i]);
        if (p->d->pairs[i].change != NULL) {
            put_measures(&p->measures, &p->d->pairs[i]);
        }
        fits = columns_size(p) < max_size;
    }
    give_room(p, UINT64_MAX);
    if (fits && write_page(p, max_size, out) <= max_size) {
        return true;
    }
    give_room(p, 0);
    const uint64_t bare = fits ? write_page(p, 0, out) + SENTENCES : UINT64_MAX;
    if (bare <= max_size - quarter) {
        give_room(p, max_size - bare);
        (void)write_page(p, 0, out);
        leave_beside(p);
        (void)write_page(p, max_size, out);
        return true;
    }
    forget_columns(p);
    cli_tables_reset(&p->tables);
    free(p->kept);
    free(p->detailed);
    p->kept = p->detailed = NULL;
    return false;
}

static bool fill(page *p, uint64_t max_size, cli_out *out) {
    take_costs(p);
    const uint64_t bare = cli_page_bare(element) + SENTENCES + object_size(p, 0);
    const uint64_t quarter = bare < max_size ? (max_size - bare) / 4 : 0;
    if (write_all(p, max_size, quarter, out)) {
        return true;
    }
    if (bare > max_size) {
        cli_usage(p->d->c, "--max-size: a page without a tensor takes %llu bytes, more than %llu",
                  (unsigned long long)bare, (unsigned long long)max_size);
        return false;
    }
    const uint64_t with = cli_page_bare(element) + SENTENCES + object_size(p, quarter);
    const uint64_t left = max_size > with ? max_size - with : 0;
    const uint64_t measures = cli_page_base64(measures_size(p));
    const uint64_t reserved = least(measures, left / 4);

    leave_beside(p);
    rank_pairs(p);
    tell_left(p, choose_measures(p, choose_rows(p, left - reserved) + reserved));
    fill_columns(p);
    (void)write_page(p, UINT64_MAX, out);
    return true;
}

bool cli_diff_page(cli_diff *d, bool same, uint64_t max_size, cli_out *out) {
    page p = {.d = d, .same = same};
    const bool good = fill(&p, max_size, out);
    const cli_text_buffer *const columns[] = {&p.names,  &p.marks, &p.kinds,
                                              &p.others, &p.moved, &p.measures};

    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        free(columns[i]->data);
    }
    cli_tables_reset(&p.tables);
    cli_strings_reset(&p.left_out);
    free(p.costs);
    free(p.order);
    free(p.kept);
    free(p.detailed);
    return good;
}
