/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/diff.c - diff: names, types, shapes, values and metadata of two models. Values of all
 * tensors that both have go through one job, so that any number of threads gives the same answer.
 * Read diff.h first.
 */
#include "cli/compare/diff.h"
#include "cli/outputs/single.h"
#include <stdlib.h>
#include <string.h>

enum {
    UNIT_ELEMENTS = 1 << 22,
    BLOCK_ELEMENTS = 1 << 16, /* stay in the cache */
    READ_BYTES = 2 << 20,     /* of each of the two */
    MAX_SIZE = 20000000
};

/* ---------------------------------------------------------------- names, types, shapes */

static bool same_shape(const sft_tensor *a, const sft_tensor *b) {
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static void compare_later(cli_diff *d, cli_pair *p) {
    p->compared = true;
    d->common[d->cut.items] = (size_t)(p - d->pairs);
    cli_cut_add(&d->cut, cli_elements(p->a));
}

/* What both have under a name; b NULL: one has it alone. */
static void add_pair(cli_diff *d, const char *name, size_t len, const sft_tensor *a,
                     const sft_tensor *b) {
    cli_pair *p = &d->pairs[d->count];
    const bool types =
        b != NULL && (a->dtype->id == b->dtype->id || cli_flag(d->c, "ignore-dtype"));
    const bool measured =
        d->measure && b != NULL && same_shape(a, b) && cli_change_measurable(a->dtype, b->dtype);

    p->name = name;
    p->name_len = len;
    p->a = a;
    p->b = b;
    cli_difference_init(&p->difference);
    p->verdict = b == NULL ? CLI_ONLY_A : types && same_shape(a, b) ? CLI_SAME : CLI_OTHER_TYPE;
    d->count++;
    if (!cli_flag(d->c, "no-values") && (p->verdict == CLI_SAME || measured)) {
        compare_later(d, p);
    }
}

/* The tensor that has the name; NULL: it is another name, or none. */
static const sft_tensor *own(const sft_catalog *catalog, const char *name, size_t len) {
    const sft_tensor *t = sft_catalog_find(catalog, name, len);
    const bool is_own = t != NULL && t->name_len == len && memcmp(t->name, name, len) == 0 &&
                        sft_catalog_at(catalog, sft_catalog_index_of(catalog, t)) == t;
    return is_own ? t : NULL;
}

/* Does the other name show the same of the same tensor in both? Then it is compared there. */
static bool shows_same(const cli_diff *d, const char *name, size_t len) {
    const sft_tensor *a = sft_catalog_find(d->a, name, len);
    const sft_tensor *b = sft_catalog_find(d->b, name, len);
    const sft_tensor *of_a = sft_catalog_at(d->a, sft_catalog_index_of(d->a, a));
    const sft_tensor *of_b = sft_catalog_at(d->b, sft_catalog_index_of(d->b, b));

    return of_a->name_len == of_b->name_len &&
           memcmp(of_a->name, of_b->name, of_a->name_len) == 0 && same_shape(a, of_a) &&
           same_shape(b, of_b) && a->dtype->id == of_a->dtype->id &&
           b->dtype->id == of_b->dtype->id && a->piece_count == 1 && b->piece_count == 1 &&
           a->pieces[0].strides == of_a->pieces[0].strides &&
           b->pieces[0].strides == of_b->pieces[0].strides;
}

/* Other names that only one has are no difference of tensors, and are told. */
static void match_others(cli_diff *d) {
    const sft_catalog *const both[2] = {d->a, d->b};
    const char *const names[2] = {d->name_a, d->name_b};

    for (size_t side = 0; side < 2; side++) {
        const size_t count = sft_catalog_alias_count(both[side]);
        const char *first = NULL;
        size_t first_len = 0;
        uint64_t alone = 0;
        for (size_t i = 0; i < count; i++) {
            size_t len;
            const char *name = sft_catalog_alias_at(both[side], i, &len, NULL);
            const sft_tensor *there = sft_catalog_find(both[1 - side], name, len);
            if (there == NULL) {
                first_len = first == NULL ? len : first_len;
                first = first == NULL ? name : first;
                alone++;
            } else if (side == 0 && (own(d->b, name, len) != NULL || !shows_same(d, name, len))) {
                add_pair(d, name, len, sft_catalog_find(d->a, name, len), there);
            }
        }
        if (alone != 0) {
            char text[200];
            (void)sft_escape(text, sizeof text, first, first_len < 60 ? first_len : 60);
            cli_warn(d->c, names[side],
                     "%llu other %s of tensors, \"%s\" first, %s in the other model",
                     (unsigned long long)alone, alone == 1 ? "name" : "names", text,
                     alone == 1 ? "is not" : "are not");
        }
    }
}

static void match_tensors(cli_diff *d) {
    const size_t count_a = sft_catalog_count(d->a);
    const size_t count_b = sft_catalog_count(d->b);
    const size_t others = sft_catalog_alias_count(d->a);

    d->pairs = cli_alloc(count_a + count_b + others, sizeof *d->pairs); /* they fit already */
    d->common = cli_alloc(count_a + others, sizeof *d->common);         /* pairs that have an a */
    cli_cut_init(&d->cut, UNIT_ELEMENTS);
    for (size_t i = 0; i < count_a; i++) {
        const sft_tensor *a = sft_catalog_at(d->a, i);
        add_pair(d, a->name, a->name_len, a, sft_catalog_find(d->b, a->name, a->name_len));
    }
    match_others(d);
    for (size_t i = 0; i < count_b; i++) {
        const sft_tensor *b = sft_catalog_at(d->b, i);
        if (sft_catalog_find(d->a, b->name, b->name_len) == NULL) {
            cli_pair *p = &d->pairs[d->count++];
            p->b = b;
            p->name = b->name;
            p->name_len = b->name_len;
            p->verdict = CLI_ONLY_B;
        }
    }
}

/* ---------------------------------------------------------------- values */

/* In a slot's room: the results of a unit, and what is read of each. */
typedef struct result {
    cli_difference difference;
    cli_change change;
    unsigned char bytes[];
} result;

static sft_status compare_block(const cli_diff *d, result *r, const cli_blocks *both,
                                sft_error *err) {
    cli_difference difference;
    cli_change change;
    sft_status status = SFT_OK;

    if (d->compare) {
        status = cli_compare_block(&difference, &d->tolerance, both, err);
        cli_difference_merge(&r->difference, &difference);
    }
    if (status == SFT_OK && d->measure) {
        status = cli_change_block(&change, both, err);
        cli_change_merge(&r->change, &change);
    }
    return status;
}

/* Elements that are read at a time, of both: enough of either, not too much of the wider. */
static size_t read_elements(const cli_pair *p) {
    size_t n = BLOCK_ELEMENTS;
    for (; n < UNIT_ELEMENTS; n *= 2) {
        const uint64_t a = cli_bytes_of(p->a->dtype, n);
        const uint64_t b = cli_bytes_of(p->b->dtype, n);
        if ((a >= READ_BYTES && b >= READ_BYTES) || a >= 2 * READ_BYTES || b >= 2 * READ_BYTES) {
            break;
        }
    }
    return n;
}

/* What was read of both, a block at a time. */
static sft_status compare_blocks(const cli_diff *d, cli_pair *p, result *r, const cli_blocks *both,
                                 sft_error *err) {
    sft_status status = SFT_OK;

    for (size_t at = 0; at < both->n && status == SFT_OK; at += BLOCK_ELEMENTS) {
        const cli_blocks block = cli_blocks_part(both, at, BLOCK_ELEMENTS);
        status = compare_block(d, r, &block, err);
        if (d->tolerance.any && r->difference.differing > 0) {
            atomic_store_explicit(&p->enough, true, memory_order_relaxed);
            break;
        }
    }
    return status;
}

static sft_status read_both(const cli_diff *d, const cli_pair *p, result *r, cli_blocks *both,
                            sft_error *err) {
    void *a = r->bytes;
    void *b = r->bytes + d->read_bytes;
    sft_status status = sft_reader_read(d->reader_a, p->a, cli_bytes_of(both->type_a, both->first),
                                        (size_t)cli_bytes_of(both->type_a, both->n), &a, err);
    if (status == SFT_OK) {
        status = sft_reader_read(d->reader_b, p->b, cli_bytes_of(both->type_b, both->first),
                                 (size_t)cli_bytes_of(both->type_b, both->n), &b, err);
    }
    both->a = a;
    both->b = b;
    return status;
}

static sft_status compare_unit(void *ctx, uint64_t unit, cli_slot *slot) {
    const cli_diff *d = ctx;
    result *r = slot->room;
    size_t item;
    uint64_t first;
    size_t left;
    sft_status status = SFT_OK;

    cli_difference_init(&r->difference);
    cli_change_init(&r->change);
    cli_cut_find(&d->cut, unit, &item, &first, &left);
    cli_pair *p = &d->pairs[d->common[item]];
    const size_t most = read_elements(p);
    cli_blocks both = {.type_a = p->a->dtype, .type_b = p->b->dtype};
    for (; left > 0 && status == SFT_OK; first += both.n, left -= both.n) {
        if (atomic_load_explicit(&p->enough, memory_order_relaxed)) {
            break;
        }
        both.first = first;
        both.n = left < most ? left : most;
        status = read_both(d, p, r, &both, &slot->err);
        if (status == SFT_OK) {
            status = compare_blocks(d, p, r, &both, &slot->err);
        }
    }
    return status;
}

/* Blocks of one pair come one after the other. */
static void merge_change(cli_diff *d, cli_pair *p, uint64_t first, const cli_change *part) {
    cli_change *x = &d->running;

    if (first == 0) {
        cli_change_init(x);
    }
    cli_change_merge(x, part);
    if (x->count < cli_elements(p->a)) {
        return;
    }
    if (x->equal < x->count || p->a->dtype->id != p->b->dtype->id) {
        p->change = cli_alloc(1, sizeof *p->change);
        *p->change = *x;
    }
    if (!d->compare && p->verdict != CLI_OTHER_TYPE && x->equal < x->count) {
        p->verdict = CLI_OTHER_VALUES;
    }
}

static sft_status merge_block(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    cli_diff *d = ctx;
    const result *r = slot->room;
    size_t item;
    uint64_t first;
    size_t n;

    cli_cut_find(&d->cut, unit, &item, &first, &n);
    cli_pair *p = &d->pairs[d->common[item]];
    if (d->compare) {
        cli_difference_merge(&p->difference, &r->difference);
        if (r->difference.differing > 0 && p->verdict != CLI_OTHER_TYPE) {
            p->verdict = CLI_OTHER_VALUES;
            if (d->c->quiet && d->report == NULL) { /* one is enough */
                return CLI_ERROR(&slot->err, SFT_E_MISMATCH, "differs");
            }
        }
    }
    if (d->measure) {
        merge_change(d, p, first, &r->change);
    }
    *bytes = cli_bytes_of(p->a->dtype, n);
    return SFT_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static bool find_renamed(cli_diff *d) {
    const size_t before = d->count;

    if (!d->measure) {
        return true;
    }
    if (!cli_diff_find_renamed(d)) {
        return false;
    }
    for (size_t i = 0; i < d->count && before > d->count; i++) {
        if (d->pairs[i].renamed) {
            compare_later(d, &d->pairs[i]);
        }
    }
    return true;
}

static sft_status run_job(cli_diff *d, const cli_job *job, sft_error *err) {
    sft_status status = sft_reader_create(&d->reader_a, d->a, SFT_STRATEGY_AUTO, NULL, err);
    if (status == SFT_OK) {
        status = sft_reader_create(&d->reader_b, d->b, SFT_STRATEGY_AUTO, NULL, err);
    }
    if (status == SFT_OK) {
        status = cli_run_job(d->c, job, err);
    }
    sft_reader_free(d->reader_a);
    sft_reader_free(d->reader_b);
    return status;
}

static bool compare_values(cli_diff *d) {
    sft_error err;
    uint64_t total = 0;
    uint64_t widest = 0;

    for (size_t i = 0; i < d->cut.items; i++) {
        const cli_pair *p = &d->pairs[d->common[i]];
        total += p->a->nbytes;
        widest = larger(widest, cli_bytes_of(p->a->dtype, read_elements(p)));
        widest = larger(widest, cli_bytes_of(p->b->dtype, read_elements(p)));
    }
    d->read_bytes = SFT_READER_ROOM(widest);
    const cli_job job = {.label = "comparing",
                         .count = cli_cut_units(&d->cut),
                         .total_bytes = total,
                         .room_bytes = sizeof(result) + 2 * d->read_bytes,
                         .reads = true,
                         .work = compare_unit,
                         .merge = merge_block,
                         .ctx = d};
    const sft_status status = run_job(d, &job, &err);
    if (status != SFT_OK && status != SFT_E_MISMATCH) {
        cli_fail(d->c, NULL, &err);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- command */

/* Names that were found to be others' are pairs by now. */
static void settle_names(cli_diff *d) {
    for (size_t i = 0; i < d->count; i++) {
        cli_pair *p = &d->pairs[i];
        if (p->renamed && p->verdict == CLI_SAME) {
            p->verdict = CLI_OTHER_NAME;
        }
    }
}

/* What is to be written before anything is told of it. */
static bool put_page(cli_diff *d, bool same, cli_single *file) {
    const uint64_t max_size = cli_number(d->c, "max-size", MAX_SIZE);

    return d->report == NULL ||
           cli_diff_page(d, same, max_size, file->out != NULL ? file->out : &d->c->out);
}

static bool finish(cli_diff *d, cli_single *file) {
    const bool metadata = cli_flag(d->c, "metadata");

    settle_names(d);
    for (size_t i = 0; i < d->count; i++) {
        d->tally[d->pairs[i].verdict]++;
    }
    d->metadata_changes = cli_diff_metadata(d, NULL, NULL);
    const uint64_t states = cli_states_differ(&d->states_a, &d->states_b, NULL, NULL);
    const bool same =
        d->tally[CLI_SAME] == d->count && (!metadata || d->metadata_changes == 0) && states == 0;
    if (!same) {
        cli_answer(d->c, CLI_NO);
    }
    if (d->measure) {
        cli_diff_find_kind(d);
    }
    if (!put_page(d, same, file)) {
        return false;
    }
    if (d->report != NULL && file->out == NULL) {
        return true; /* standard output has the page */
    }
    if (d->c->json) {
        cli_diff_json(d, same);
    } else if (!d->c->quiet) {
        cli_diff_text(d, same);
        if (!metadata && d->metadata_changes > 0) {
            cli_note(d->c, NULL, "metadata differ too; --metadata shows how");
        }
    }
    return true;
}

/* What was read at different times is of one state of the files. */
static bool is_unchanged(const cli_diff *d) {
    sft_error err;
    const bool a = sft_catalog_unchanged(d->a, &err) == SFT_OK;

    if (a && sft_catalog_unchanged(d->b, &err) == SFT_OK) {
        return true;
    }
    cli_fail(d->c, a ? d->name_b : d->name_a, &err);
    return false;
}

static bool compare(cli_diff *d, cli_single *file) {
    match_tensors(d);
    return find_renamed(d) && compare_values(d) && (!d->measure || cli_diff_find_ranks(d)) &&
           is_unchanged(d) && finish(d, file);
}

/* The file of --report is made first, and is there when all of it is. */
static void compare_into(cli_diff *d) {
    cli_single file = {.c = d->c,
                       .operand = d->name_a,
                       .catalog = d->a,
                       .other_operand = d->name_b,
                       .other = d->b,
                       .output = d->report};
    sft_error err;

    if (d->report == NULL || strcmp(d->report, "-") == 0) {
        (void)compare(d, &file);
        return;
    }
    if (!cli_single_begin_of_two(&file)) {
        return;
    }
    if (!compare(d, &file)) {
        cli_single_drop(&file);
    } else {
        (void)cli_single_end(&file, SFT_OK, &err);
    }
}

static bool is_sensible(const cli_diff *d) {
    cli *c = d->c;
    const char *measures = cli_flag(c, "stat") ? "--stat" : d->report != NULL ? "--report" : NULL;

    if (strcmp(d->name_a, "-") == 0 && strcmp(d->name_b, "-") == 0) {
        cli_usage(c, "only one of the two can be standard input");
    } else if (measures != NULL && cli_flag(c, "no-values")) {
        cli_usage(c, "%s measures values, which --no-values leaves out", measures);
    } else if (d->report == NULL && (c->force || cli_text(c, "max-size") != NULL)) {
        cli_usage(c, "%s is for --report", c->force ? "--force" : "--max-size");
    } else if (d->report != NULL && strcmp(d->report, "-") == 0 && c->json) {
        cli_usage(c, "--json and --report - both write to standard output");
    } else {
        return true;
    }
    return false;
}

static void run(cli *c) {
    cli_diff d = {.c = c,
                  .name_a = c->operands[0],
                  .name_b = c->operands[1],
                  .report = cli_text(c, "report")};
    sft_catalog *a;
    sft_catalog *b;

    if (!is_sensible(&d)) {
        return;
    }
    if (!cli_open(c, d.name_a, 0, &a)) {
        return;
    }
    if (!cli_open(c, d.name_b, 0, &b)) {
        cli_close(c, a);
        return;
    }
    cli_warn_problems(c, a, d.name_a);
    cli_warn_problems(c, b, d.name_b);
    d.a = a;
    d.b = b;
    d.tolerance.numeric = cli_text(c, "atol") != NULL || cli_text(c, "rtol") != NULL;
    d.tolerance.atol = cli_real(c, "atol", 0);
    d.tolerance.rtol = cli_real(c, "rtol", 0);
    d.tolerance.nan_differs = cli_flag(c, "nan-differs");
    d.details = cli_flag(c, "values") || d.tolerance.numeric || d.tolerance.nan_differs;
    d.measure = d.report != NULL || (cli_flag(c, "stat") && !(c->quiet && !c->json));
    d.compare = d.details || !d.measure;
    d.tolerance.any = !d.details && !d.measure && !c->json;
    cli_states_open(c, d.name_a, &d.states_a);
    cli_states_open(c, d.name_b, &d.states_b);
    compare_into(&d);
    for (size_t i = 0; i < d.count; i++) {
        free(d.pairs[i].change);
    }
    free(d.pairs);
    free(d.common);
    cli_cut_reset(&d.cut);
    cli_states_close(&d.states_a);
    cli_states_close(&d.states_b);
    cli_close(c, a);
    cli_close(c, b);
}

static const cli_opt options[] = {
    CLI_OPT_FLAG("values", 0, "say how values differ: how many, by how much, where first"),
    CLI_OPT_ARG(CLI_REAL, "atol", 0, "X", "values are the same if |a - b| <= X + rtol * |b|"),
    CLI_OPT_ARG(CLI_REAL, "rtol", 0, "X", "values are the same if |a - b| <= atol + X * |b|"),
    CLI_OPT_FLAG("nan-differs", 0, "two NaN in the same place differ"),
    CLI_OPT_FLAG("no-values", 0, "compare names, types and shapes only; no data is read"),
    CLI_OPT_FLAG("ignore-dtype", 0, "other element types are no difference; numbers are compared"),
    CLI_OPT_FLAG("metadata", 'm', "compare metadata too"),
    CLI_OPT_FLAG("stat", 0,
                 "measure how far values moved, find renamed tensors, say what probably happened"),
    CLI_OPT_FLAG("ascii", 0, "draw with ASCII characters only"),
    CLI_OPT_ARG(CLI_FILE, "report", 0, "FILE",
                "write all that --stat finds as one page for the browser; - is standard output"),
    CLI_OPT_ARG(CLI_BYTES, "max-size", 0, "SIZE",
                "at most so large a page (default 20 MB): what changed least is left out"),
    CLI_OPT_END,
};

const cli_command cli_cmd_diff = {
    .name = "diff",
    .operands = "A B",
    .summary = "what differs between two files or models",
    .description =
        "Tensors are matched by name, whatever their order and however they are spread over files. "
        "Values are compared by their bytes; with --atol or --rtol as numbers, where NaN in the "
        "same place is the same. Nothing is printed if nothing differs; else a line for each "
        "difference: - only in A, + only in B, ~ in both, but other type, shape or values. -q "
        "prints nothing and stops at the first.\n\n"
        "Metadata is compared only with --metadata, and then counts. Of two steps of training runs "
        "the entries of state.json (numbers, texts, random states) are compared, too.\n\n"
        "The exit status is 0 if A and B are the same, 1 if they differ, or if one of them is not "
        "valid or lacks a part, which standard error says; 3 if one cannot be read.\n\n"
        "--stat measures each tensor whose values changed: the share of them, the norm of b - a "
        "relative to that of a, the cosine of a and b, the largest distance, in units in the last "
        "place, too, and how many values moved by which power of two. Tensors that only one of the "
        "two has are matched by type, shape and a sample of their values: one that is called "
        "otherwise is no longer removed and added. Of the sixteen matrices that changed most the "
        "rank of b - a is told if it is low, as a merged LoRA leaves it: of larger ones that of "
        "1,024 rows and 2,048 columns, if b - a is spread over all of the matrix. The last line "
        "says what "
        "probably happened: metadata, renamed, zero-signs (nothing changed but the signs of "
        "zeros), cast, quantized, pruned (of floats all that changed is 0 now), merged-lora, "
        "fine-tuned or other.\n\n"
        "--report writes one HTML file that needs nothing else, no network either, beside what "
        "--stat prints: a sentence on what happened, the tensors by layer and module, coloured by "
        "how far they moved, a table of them, the measures and the histogram of each, and the "
        "metadata that differ. What --max-size leaves out is said in the page and on standard "
        "error. The file appears when it is complete; an older one is replaced only with --force. "
        "With --report - standard output has the page alone.\n\n"
        "--json writes schema, a, b, same, same_tensors, tensors (name, change: removed, added, "
        "name, type or values; a and b: dtype and shape; values: elements, differing, not_finite, "
        "max_abs, max_rel, first, first_values), metadata (key, a, b) and, of two steps, states "
        "(key, a, b). With --stat kind and reason, too, models (format, files, tensors, elements, "
        "bytes), tally (tensors by change), renamed (with the same values or others), overall "
        "(tensors that both have, those that moved, and "
        "the measures of all of them that are floats), rank of a merged LoRA, and of tensors "
        "new_name and measures: "
        "elements, equal, not_finite, norm_a, norm_b, norm_change, relative, cosine, max_abs, "
        "histogram (counts of |b - a| from 2^exponent on, each bin twice as wide as the one "
        "before), "
        "max_ulp, cast, rank; values then only with --values or a tolerance. Of these null is what "
        "is not defined, or more than a double can be.",
    .examples = "safetensors diff model/ merged.safetensors # the same weights?\n"
                "safetensors diff a.safetensors b.safetensors --rtol 1e-3 --atol 1e-6\n"
                "safetensors diff f32.safetensors bf16.safetensors --ignore-dtype --rtol 0.01\n"
                "safetensors diff --stat base/ tuned/ # how far did each tensor move?\n"
                "safetensors diff base/ tuned/ --report diff.html # the same as a page\n"
                "safetensors diff -q a.safetensors b.safetensors && echo same",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_FORCE | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS |
              CLI_WITH_EXPLAIN | CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
