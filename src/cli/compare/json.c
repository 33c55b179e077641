/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/json.c - the differences of two models for programs. Read diff.h first.
 */
#include "cli/compare/diff.h"
#include "cli/ui/values.h"
#include <math.h>
#include <string.h>

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

static void json_values(cli_json *j, const cli_pair *p) {
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

size_t cli_diff_bins(const cli_change *x, size_t *first) {
    size_t low = 0;
    size_t end = CLI_CHANGE_BINS;

    while (end > 0 && x->bins[end - 1] == 0) {
        end--;
    }
    while (low < end && x->bins[low] == 0) {
        low++;
    }
    *first = low;
    return end - low;
}

static void json_bins(cli_json *j, const cli_change *x) {
    size_t low;
    const size_t end = cli_diff_bins(x, &low) + low;

    cli_json_field_open(j, "histogram", '{');
    cli_json_key(j, "exponent");
    cli_json_i64(j, (int64_t)low + CLI_CHANGE_LEAST);
    cli_json_field_open(j, "counts", '[');
    for (size_t i = low; i < end; i++) {
        cli_json_u64(j, x->bins[i]);
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}

static void json_change_of(cli_json *j, const cli_change *x, bool numbers) {
    cli_json_field_u64(j, "elements", x->count);
    cli_json_field_u64(j, "equal", x->equal);
    cli_json_field_u64(j, "not_finite", x->not_finite);
    if (numbers) {
        cli_json_field_real(j, "norm_a", cli_change_norm(x->a2, x->scale_a));
        cli_json_field_real(j, "norm_b", cli_change_norm(x->b2, x->scale_b));
        cli_json_field_real(j, "norm_change", cli_change_norm(x->d2, x->scale_d));
        cli_json_field_real(j, "relative", cli_change_relative(x));
        cli_json_field_real(j, "cosine", cli_change_cosine(x));
        cli_json_field_real(j, "max_abs", x->max_abs);
        json_bins(j, x);
    }
    if (!x->no_ulp) {
        cli_json_field_u64(j, "max_ulp", x->max_ulp);
    }
}

static void json_model(cli_json *j, const sft_catalog *catalog) {
    uint64_t elements = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        elements += cli_elements(sft_catalog_at(catalog, i));
        bytes += sft_catalog_at(catalog, i)->nbytes;
    }
    cli_json_open(j, '{');
    cli_json_field_string(j, "format", cli_page_format(catalog));
    cli_json_field_big(j, "files", sft_catalog_file_count(catalog));
    cli_json_field_big(j, "tensors", sft_catalog_count(catalog));
    cli_json_field_big(j, "elements", elements);
    cli_json_field_big(j, "bytes", bytes);
    cli_json_close(j, '}');
}

void cli_diff_put_figures(const cli_diff *d, cli_json *j) {
    uint64_t renamed = 0;

    for (size_t i = 0; i < d->count; i++) {
        renamed += d->pairs[i].renamed;
    }
    cli_json_field_open(j, "models", '[');
    json_model(j, d->a);
    json_model(j, d->b);
    cli_json_close(j, ']');
    cli_json_field_open(j, "tally", '{');
    for (size_t v = 0; v < CLI_VERDICTS; v++) {
        cli_json_field_big(j, cli_diff_verdict_word((cli_verdict)v), d->tally[v]);
    }
    cli_json_close(j, '}');
    cli_json_field_big(j, "renamed", renamed);
    cli_json_field_open(j, "overall", '{');
    cli_json_field_u64(j, "tensors", d->both);
    cli_json_field_u64(j, "moved", d->moved);
    if (d->overall.count > 0) {
        json_change_of(j, &d->overall, true);
    }
    cli_json_close(j, '}');
    if (d->rank > 0) {
        cli_json_field_u64(j, "rank", d->rank);
    }
}

static void json_measures(cli_json *j, const cli_pair *p) {
    const cli_change *x = p->change;

    cli_json_field_open(j, "measures", '{');
    json_change_of(j, x, cli_change_measurable(p->a->dtype, p->b->dtype));
    if (p->a->dtype->id != p->b->dtype->id) {
        cli_json_field_bool(j, "cast", x->cast_equal);
    }
    if (p->ranked) {
        cli_json_key(j, "rank");
        if (p->rank > 0) {
            cli_json_u64(j, p->rank);
        } else {
            cli_json_null(j);
        }
    }
    cli_json_close(j, '}');
}

const char *cli_diff_verdict_word(cli_verdict verdict) {
    static const char *const words[] = {"same", "removed", "added", "type", "values", "name"};
    return words[verdict];
}

static void json_pair(cli_json *j, const cli_pair *p) {
    cli_json_open(j, '{');
    cli_json_field_text(j, "name", p->name, p->name_len);
    cli_json_field_string(j, "change", cli_diff_verdict_word(p->verdict));
    json_facts(j, "a", p->a);
    json_facts(j, "b", p->b);
    if (p->renamed) {
        cli_json_field_text(j, "new_name", p->b->name, p->b->name_len);
    }
    if (p->difference.differing > 0) {
        json_values(j, p);
    }
    if (p->change != NULL) {
        json_measures(j, p);
    }
    cli_json_close(j, '}');
}

static void json_change(cli_diff *d, void *ctx, const cli_metadata_change *x) {
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
    const cli_metadata_change x = {name, strlen(name), a, a_len, b, b_len};

    json_change(NULL, ctx, &x);
}

void cli_diff_json(cli_diff *d, bool same) {
    cli_json j;

    cli_json_begin(&j, &d->c->out);
    cli_json_field_string(&j, "a", d->name_a);
    cli_json_field_string(&j, "b", d->name_b);
    cli_json_field_bool(&j, "same", same);
    cli_json_field_u64(&j, "same_tensors", d->tally[CLI_SAME]);
    if (d->measure) {
        cli_json_field_string(&j, "kind", cli_diff_kind_word(d->kind));
        cli_json_field_string(&j, "reason", d->reason);
        cli_diff_put_figures(d, &j);
    }
    cli_json_field_open(&j, "tensors", '[');
    for (size_t i = 0; i < d->count; i++) {
        if (d->pairs[i].verdict != CLI_SAME) {
            json_pair(&j, &d->pairs[i]);
        }
    }
    cli_json_close(&j, ']');
    cli_json_field_open(&j, "metadata", '[');
    (void)cli_diff_metadata(d, json_change, &j);
    cli_json_close(&j, ']');
    if (d->states_a.point != NULL && d->states_b.point != NULL) {
        cli_json_field_open(&j, "states", '[');
        (void)cli_states_differ(&d->states_a, &d->states_b, json_state, &j);
        cli_json_close(&j, ']');
    }
    cli_json_end(&j);
}
