/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/commands/diff.c - diff: names, types, shapes, values and metadata of two models. Values of all
 * tensors that both have go through one job, so that any number of threads gives the same answer.
 * Read compare.h first.
 */
#include "cli/look/compare.h"
#include "cli/operands/states.h"
#include "cli/ui/text.h"
#include "cli/ui/values.h"
#include "cli/work.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ELEMENTS = 1 << 16 };

typedef enum verdict {
    SAME,
    ONLY_A,
    ONLY_B,
    OTHER_TYPE, /* dtype or shape */
    OTHER_VALUES
} verdict;

typedef struct pair {
    const char *name;
    size_t name_len;
    const sft_tensor *a;
    const sft_tensor *b;
    verdict verdict;
    bool compared; /* values are in `difference` */
    cli_difference difference;
} pair;

typedef struct diff {
    cli *c;
    const char *name_a;
    const char *name_b;
    const sft_catalog *a;
    const sft_catalog *b;
    cli_tolerance tolerance;
    bool details; /* numbers about values, not only that they differ */
    pair *pairs;
    size_t count;
    size_t *common; /* pairs whose values are compared, in the order of the cut */
    cli_cut cut;
    size_t block_bytes; /* room for the bytes of one block */
    uint64_t tally[5];
    uint64_t metadata_changes;
    cli_states states_a; /* of steps of training runs */
    cli_states states_b;
} diff;

/* ---------------------------------------------------------------- names, types, shapes */

static bool same_shape(const sft_tensor *a, const sft_tensor *b) {
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

/* What both have under a name; b NULL: one has it alone. */
static void add_pair(diff *d, const char *name, size_t len, const sft_tensor *a,
                     const sft_tensor *b) {
    pair *p = &d->pairs[d->count];
    const bool types =
        b != NULL && (a->dtype->id == b->dtype->id || cli_flag(d->c, "ignore-dtype"));

    p->name = name;
    p->name_len = len;
    p->a = a;
    p->b = b;
    cli_difference_init(&p->difference);
    p->verdict = b == NULL ? ONLY_A : types && same_shape(a, b) ? SAME : OTHER_TYPE;
    if (!cli_flag(d->c, "no-values") && p->verdict == SAME) {
        p->compared = true;
        d->common[d->cut.items] = d->count;
        cli_cut_add(&d->cut, cli_elements(a));
    }
    d->count++;
}

/* The tensor that has the name; NULL: it is another name, or none. */
static const sft_tensor *own(const sft_catalog *catalog, const char *name, size_t len) {
    const sft_tensor *t = sft_catalog_find(catalog, name, len);
    const bool is_own = t != NULL && t->name_len == len && memcmp(t->name, name, len) == 0 &&
                        sft_catalog_at(catalog, sft_catalog_index_of(catalog, t)) == t;
    return is_own ? t : NULL;
}

/* Does the other name show the same of the same tensor in both? Then it is compared there. */
static bool shows_same(const diff *d, const char *name, size_t len) {
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
static void match_others(diff *d) {
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

static void match_tensors(diff *d) {
    const size_t count_a = sft_catalog_count(d->a);
    const size_t count_b = sft_catalog_count(d->b);
    const size_t others = sft_catalog_alias_count(d->a);

    d->pairs = cli_alloc(count_a + count_b + others, sizeof *d->pairs); /* they fit already */
    d->common = cli_alloc(count_a + others, sizeof *d->common);
    cli_cut_init(&d->cut, BLOCK_ELEMENTS);
    for (size_t i = 0; i < count_a; i++) {
        const sft_tensor *a = sft_catalog_at(d->a, i);
        add_pair(d, a->name, a->name_len, a, sft_catalog_find(d->b, a->name, a->name_len));
    }
    match_others(d);
    for (size_t i = 0; i < count_b; i++) {
        const sft_tensor *b = sft_catalog_at(d->b, i);
        if (sft_catalog_find(d->a, b->name, b->name_len) == NULL) {
            pair *p = &d->pairs[d->count++];
            p->b = b;
            p->name = b->name;
            p->name_len = b->name_len;
            p->verdict = ONLY_B;
        }
    }
}

/* ---------------------------------------------------------------- values */

/* In a slot's room: 4 doubles per element, both blocks of bytes, the result. */
static char *room_a(const cli_slot *slot) {
    return (char *)slot->room + (size_t)BLOCK_ELEMENTS * 4 * sizeof(double);
}

static char *room_b(const diff *d, const cli_slot *slot) {
    return room_a(slot) + d->block_bytes;
}

static cli_difference *room_result(const diff *d, const cli_slot *slot) {
    return (cli_difference *)(void *)(room_b(d, slot) + d->block_bytes);
}

static sft_status compare_block(void *ctx, uint64_t unit, cli_slot *slot) {
    const diff *d = ctx;
    size_t item;
    uint64_t first;
    size_t n;

    cli_cut_find(&d->cut, unit, &item, &first, &n);
    const pair *p = &d->pairs[d->common[item]];
    const sft_dtype *type_a = p->a->dtype;
    const sft_dtype *type_b = p->b->dtype;
    sft_status status = sft_tensor_read_bytes(d->a, p->a, cli_bytes_of(type_a, first), room_a(slot),
                                              (size_t)cli_bytes_of(type_a, n), &slot->err);
    if (status == SFT_OK) {
        status = sft_tensor_read_bytes(d->b, p->b, cli_bytes_of(type_b, first), room_b(d, slot),
                                       (size_t)cli_bytes_of(type_b, n), &slot->err);
    }
    if (status == SFT_OK) {
        const cli_blocks both = {type_a, room_a(slot), type_b, room_b(d, slot), first,
                                 n,      slot->room};
        status = cli_compare_block(room_result(d, slot), &d->tolerance, &both, &slot->err);
    }
    return status;
}

static sft_status merge_block(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes) {
    diff *d = ctx;
    const cli_difference *part = room_result(d, slot);
    size_t item;
    uint64_t first;
    size_t n;

    cli_cut_find(&d->cut, unit, &item, &first, &n);
    pair *p = &d->pairs[d->common[item]];
    cli_difference_merge(&p->difference, part);
    if (part->differing > 0) {
        p->verdict = OTHER_VALUES;
        if (d->c->quiet) { /* one is enough */
            return CLI_ERROR(&slot->err, SFT_E_MISMATCH, "differs");
        }
    }
    *bytes = cli_bytes_of(p->a->dtype, n);
    return SFT_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static bool compare_values(diff *d) {
    sft_error err;
    uint64_t total = 0;
    uint64_t widest = 0;

    for (size_t i = 0; i < d->cut.items; i++) {
        const pair *p = &d->pairs[d->common[i]];
        total += p->a->nbytes;
        widest = larger(widest, cli_bytes_of(p->a->dtype, BLOCK_ELEMENTS));
        widest = larger(widest, cli_bytes_of(p->b->dtype, BLOCK_ELEMENTS));
    }
    d->block_bytes = (size_t)(widest + 63) / 64 * 64;
    const cli_job job = {.label = "comparing",
                         .count = cli_cut_units(&d->cut),
                         .total_bytes = total,
                         .room_bytes =
                             (size_t)BLOCK_ELEMENTS * 4 * sizeof(double) + 2 * d->block_bytes + 128,
                         .work = compare_block,
                         .merge = merge_block,
                         .ctx = d};
    const sft_status status = cli_run_job(d->c, &job, &err);
    if (status != SFT_OK && status != SFT_E_MISMATCH) {
        cli_fail(d->c, NULL, &err);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- metadata */

/* Of a metadata key; NULL: one has it not. */
typedef struct change {
    const char *key;
    size_t key_len;
    const char *a;
    size_t a_len;
    const char *b;
    size_t b_len;
} change;

typedef void (*change_fn)(diff *d, void *ctx, const change *x);

/* The value of a key in the first file that has it. */
static const char *find_metadata(const sft_catalog *catalog, const char *key, size_t len,
                                 size_t *value_len) {
    for (size_t f = 0; f < sft_catalog_file_count(catalog); f++) {
        const char *value = sft_catalog_metadata_find(catalog, f, key, len, value_len);
        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

/* Goes over the keys of one side; from_a: reports changed and removed ones, else added ones. */
static uint64_t walk_metadata(diff *d, bool from_a, change_fn report, void *ctx) {
    const sft_catalog *mine = from_a ? d->a : d->b;
    const sft_catalog *other = from_a ? d->b : d->a;
    uint64_t changes = 0;

    for (size_t f = 0; f < sft_catalog_file_count(mine); f++) {
        for (size_t i = 0; i < sft_catalog_metadata_count(mine, f); i++) {
            const sft_metadata_entry e = cli_metadata_at(mine, f, i);
            size_t other_len = 0;
            size_t first_len;
            if (find_metadata(mine, e.key, e.key_len, &first_len) != e.value) {
                continue; /* an earlier file has it */
            }
            const char *there = find_metadata(other, e.key, e.key_len, &other_len);
            const bool same =
                there != NULL && other_len == e.value_len && memcmp(there, e.value, other_len) == 0;
            if (same || (!from_a && there != NULL)) {
                continue;
            }
            changes++;
            if (report != NULL) {
                const change x = {.key = e.key,
                                  .key_len = e.key_len,
                                  .a = from_a ? e.value : NULL,
                                  .a_len = e.value_len,
                                  .b = from_a ? there : e.value,
                                  .b_len = from_a ? other_len : e.value_len};
                report(d, ctx, &x);
            }
        }
    }
    return changes;
}

/* ---------------------------------------------------------------- text */

static void put_mark(const diff *d, char mark) {
    const char *color = mark == '-' ? CLI_RED : mark == '+' ? CLI_GREEN : CLI_YELLOW;
    cli_printf(&d->c->out, "%s%c%s ", d->c->color ? color : "", mark,
               d->c->color ? CLI_NORMAL : "");
}

static void put_facts(const diff *d, const sft_tensor *t) {
    cli_printf(&d->c->out, "%s ", t->dtype->name);
    cli_put_shape(&d->c->out, t->shape, t->rank);
}

/* Row-major index as coordinates. */
static void put_index(const diff *d, const sft_tensor *t, uint64_t index) {
    uint64_t *at = cli_alloc(t->rank, sizeof *at);

    for (uint32_t k = t->rank; k-- > 0;) {
        at[k] = index % t->shape[k]; /* not zero: there is an element */
        index /= t->shape[k];
    }
    cli_put_shape(&d->c->out, at, t->rank);
    free(at);
}

static void put_values(const diff *d, const pair *p) {
    const cli_difference *x = &p->difference;
    cli_out *o = &d->c->out;
    char text[CLI_ELEMENT_TEXT];
    char other[32];

    if (!d->details) {
        cli_puts(o, "values differ\n");
        return;
    }
    cli_printf(o, "%s of %s values differ", cli_grouped(text, x->differing),
               cli_grouped(other, cli_elements(p->a)));
    if (x->differing > x->not_finite) {
        cli_printf(o, ", by at most %.6g (relative %.6g)", x->max_abs, x->max_rel);
    }
    if (x->not_finite > 0) {
        cli_printf(o, ", %s of them NaN or infinite", cli_grouped(text, x->not_finite));
    }
    cli_puts(o, "; first at ");
    put_index(d, p->a, x->first);
    cli_printf(o, ": %s", cli_element_text(text, p->a->dtype, x->a));
    cli_printf(o, " and %s\n", cli_element_text(text, p->b->dtype, x->b));
}

static void put_pair(const diff *d, const pair *p) {
    const sft_tensor *t = p->a != NULL ? p->a : p->b;
    cli_out *o = &d->c->out;

    put_mark(d, p->verdict == ONLY_A ? '-' : p->verdict == ONLY_B ? '+' : '~');
    cli_put_escaped(o, p->name, p->name_len);
    cli_puts(o, ": ");
    if (p->verdict == OTHER_VALUES) {
        put_values(d, p);
        return;
    }
    put_facts(d, t);
    if (p->verdict == OTHER_TYPE) {
        cli_puts(o, " became ");
        put_facts(d, p->b);
    }
    cli_puts(o, "\n");
}

static void put_text(cli_out *o, const char *text, size_t len) {
    enum { SHOWN = 100 };
    cli_put_escaped(o, text, len < SHOWN ? len : SHOWN);
    if (len > SHOWN) {
        cli_printf(o, "... (%llu bytes)", (unsigned long long)len);
    }
}

static void put_change(diff *d, const char *what, const change *x) {
    cli_out *o = &d->c->out;

    put_mark(d, x->b == NULL ? '-' : x->a == NULL ? '+' : '~');
    cli_printf(o, "%s ", what);
    cli_put_escaped(o, x->key, x->key_len);
    cli_puts(o, ": ");
    if (x->a != NULL) {
        put_text(o, x->a, x->a_len);
    }
    cli_puts(o, x->a != NULL && x->b != NULL ? " became " : "");
    if (x->b != NULL) {
        put_text(o, x->b, x->b_len);
    }
    cli_puts(o, "\n");
}

static void put_metadata(diff *d, void *ctx, const change *x) {
    (void)ctx;
    put_change(d, "metadata", x);
}

static void put_state(void *ctx, const char *name, const char *a, size_t a_len, const char *b,
                      size_t b_len) {
    const change x = {name, strlen(name), a, a_len, b, b_len};

    put_change(ctx, "state", &x);
}

static void print_text(diff *d, bool same) {
    static const verdict order[] = {ONLY_A, ONLY_B, OTHER_TYPE, OTHER_VALUES};
    const bool metadata = cli_flag(d->c, "metadata");

    for (size_t v = 0; v < sizeof order / sizeof order[0]; v++) {
        for (size_t i = 0; i < d->count && !cli_stopped(d->c); i++) {
            if (d->pairs[i].verdict == order[v]) {
                put_pair(d, &d->pairs[i]);
            }
        }
    }
    if (metadata) {
        (void)walk_metadata(d, true, put_metadata, NULL);
        (void)walk_metadata(d, false, put_metadata, NULL);
    }
    (void)cli_states_differ(&d->states_a, &d->states_b, put_state, d);
    if (same) {
        return; /* as diff(1): nothing to say */
    }
    cli_printf(&d->c->out, "%llu same, %llu removed, %llu added, ",
               (unsigned long long)d->tally[SAME], (unsigned long long)d->tally[ONLY_A],
               (unsigned long long)d->tally[ONLY_B]);
    cli_printf(&d->c->out, "%llu of other type or shape, %llu of other values\n",
               (unsigned long long)d->tally[OTHER_TYPE],
               (unsigned long long)d->tally[OTHER_VALUES]);
}

/* ---------------------------------------------------------------- JSON */

static void json_facts(cli_json *j, const char *key, const sft_tensor *t) {
    cli_json_key(j, key);
    if (t == NULL) {
        cli_json_null(j);
        return;
    }
    cli_json_open(j, '{');
    cli_json_field_string(j, "dtype", t->dtype->name);
    cli_json_field_shape(j, "shape", t->shape, t->rank);
    cli_json_close(j, '}');
}

static void json_values(cli_json *j, const pair *p) {
    const cli_difference *x = &p->difference;

    cli_json_field_open(j, "values", '{');
    cli_json_field_u64(j, "elements", cli_elements(p->a));
    cli_json_field_u64(j, "differing", x->differing);
    cli_json_field_u64(j, "not_finite", x->not_finite);
    cli_json_field_real(j, "max_abs", x->max_abs);
    cli_json_field_real(j, "max_rel", x->max_rel);
    cli_json_field_u64(j, "first", x->first);
    cli_json_field_open(j, "first_values", '[');
    cli_json_element(j, p->a->dtype, x->a);
    cli_json_element(j, p->b->dtype, x->b);
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

static void json_pair(cli_json *j, const pair *p) {
    static const char *const words[] = {"same", "removed", "added", "type", "values"};

    cli_json_open(j, '{');
    cli_json_field_text(j, "name", p->name, p->name_len);
    cli_json_field_string(j, "change", words[p->verdict]);
    json_facts(j, "a", p->a);
    json_facts(j, "b", p->b);
    if (p->verdict == OTHER_VALUES) {
        json_values(j, p);
    }
    cli_json_close(j, '}');
}

static void json_change(diff *d, void *ctx, const change *x) {
    cli_json *j = ctx;

    (void)d;
    cli_json_open(j, '{');
    cli_json_field_text(j, "key", x->key, x->key_len);
    cli_json_field_text(j, "a", x->a, x->a_len);
    cli_json_field_text(j, "b", x->b, x->b_len);
    cli_json_close(j, '}');
}

static void json_state(void *ctx, const char *name, const char *a, size_t a_len, const char *b,
                       size_t b_len) {
    const change x = {name, strlen(name), a, a_len, b, b_len};

    json_change(NULL, ctx, &x);
}

static void print_json(diff *d, bool same) {
    cli_json j;

    cli_json_begin(&j, &d->c->out);
    cli_json_field_string(&j, "a", d->name_a);
    cli_json_field_string(&j, "b", d->name_b);
    cli_json_field_bool(&j, "same", same);
    cli_json_field_u64(&j, "same_tensors", d->tally[SAME]);
    cli_json_field_open(&j, "tensors", '[');
    for (size_t i = 0; i < d->count; i++) {
        if (d->pairs[i].verdict != SAME) {
            json_pair(&j, &d->pairs[i]);
        }
    }
    cli_json_close(&j, ']');
    cli_json_field_open(&j, "metadata", '[');
    (void)walk_metadata(d, true, json_change, &j);
    (void)walk_metadata(d, false, json_change, &j);
    cli_json_close(&j, ']');
    if (d->states_a.point != NULL && d->states_b.point != NULL) {
        cli_json_field_open(&j, "states", '[');
        (void)cli_states_differ(&d->states_a, &d->states_b, json_state, &j);
        cli_json_close(&j, ']');
    }
    cli_json_end(&j);
}

/* ---------------------------------------------------------------- command */

static void finish(diff *d) {
    const bool metadata = cli_flag(d->c, "metadata");

    for (size_t i = 0; i < d->count; i++) {
        d->tally[d->pairs[i].verdict]++;
    }
    d->metadata_changes = walk_metadata(d, true, NULL, NULL) + walk_metadata(d, false, NULL, NULL);
    const uint64_t states = cli_states_differ(&d->states_a, &d->states_b, NULL, NULL);
    const bool same =
        d->tally[SAME] == d->count && (!metadata || d->metadata_changes == 0) && states == 0;
    if (!same) {
        cli_answer(d->c, CLI_NO);
    }
    if (d->c->json) {
        print_json(d, same);
    } else if (!d->c->quiet) {
        print_text(d, same);
        if (!metadata && d->metadata_changes > 0) {
            cli_note(d->c, NULL, "metadata differ too; --metadata shows how");
        }
    }
}

static void run(cli *c) {
    diff d = {.c = c, .name_a = c->operands[0], .name_b = c->operands[1]};
    sft_catalog *a;
    sft_catalog *b;

    if (strcmp(d.name_a, "-") == 0 && strcmp(d.name_b, "-") == 0) {
        cli_usage(c, "only one of the two can be standard input");
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
    cli_states_open(c, d.name_a, &d.states_a);
    cli_states_open(c, d.name_b, &d.states_b);
    match_tensors(&d);
    if (compare_values(&d)) {
        finish(&d);
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
        "The exit status is 0 if A and B are the same, 1 if they differ.\n\n"
        "--json writes schema, a, b, same, same_tensors, tensors (name, change: removed, added, "
        "type or values; a and b: dtype and shape; values: elements, differing, not_finite, "
        "max_abs, max_rel, first, first_values), metadata (key, a, b) and, of two steps, states "
        "(key, a, b).",
    .examples = "safetensors diff model/ merged.safetensors # the same weights?\n"
                "safetensors diff a.safetensors b.safetensors --rtol 1e-3 --atol 1e-6\n"
                "safetensors diff f32.safetensors bf16.safetensors --ignore-dtype --rtol 0.01\n"
                "safetensors diff -q a.safetensors b.safetensors && echo same",
    .options = options,
    .common = CLI_WITH_JSON | CLI_WITH_LIMITS | CLI_WITH_REMOTE | CLI_WITH_JOBS | CLI_WITH_EXPLAIN |
              CLI_WITH_IMPORT | CLI_WITH_RANKS,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
