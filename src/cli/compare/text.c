/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/text.c - the differences of two models for people: a line each. Read diff.h first.
 */
#include "cli/compare/diff.h"
#include "cli/ui/values.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_mark(const cli_diff *d, char mark) {
    const char *color = mark == '-' ? CLI_RED : mark == '+' ? CLI_GREEN : CLI_YELLOW;
    cli_printf(&d->c->out, "%s%c%s ", d->c->color ? color : "", mark,
               d->c->color ? CLI_NORMAL : "");
}

static void put_facts(const cli_diff *d, const sft_tensor *t) {
    cli_printf(&d->c->out, "%s ", t->dtype->name);
    cli_put_shape(&d->c->out, t->shape, t->rank);
}

/* Row-major index as coordinates. */
static void put_index(const cli_diff *d, const sft_tensor *t, uint64_t index) {
    uint64_t *at = cli_alloc(t->rank, sizeof *at);

    for (uint32_t k = t->rank; k-- > 0;) {
        at[k] = index % t->shape[k]; /* not zero: there is an element */
        index /= t->shape[k];
    }
    cli_put_shape(&d->c->out, at, t->rank);
    free(at);
}

const char *cli_diff_real(char text[48], int digits, double value) {
    (void)snprintf(text, 48, "%s%.*g", isfinite(value) ? "" : "more than ", digits,
                   isfinite(value) ? value : DBL_MAX);
    return text;
}

static void put_values(const cli_diff *d, const cli_pair *p) {
    const cli_difference *x = &p->difference;
    cli_out *o = &d->c->out;
    char text[CLI_ELEMENT_TEXT];
    char other[32];
    char real[48];
    char other_real[48];

    if (!d->details) {
        cli_puts(o, "values differ\n");
        return;
    }
    cli_printf(o, "%s of %s values differ", cli_grouped(text, x->differing),
               cli_grouped(other, cli_elements(p->a)));
    if (x->differing > x->not_finite) {
        cli_printf(o, ", by at most %s (relative %s)", cli_diff_real(real, 6, x->max_abs),
                   cli_diff_real(other_real, 6, x->max_rel));
    }
    if (x->not_finite > 0) {
        cli_printf(o, ", %s of them NaN or infinite", cli_grouped(text, x->not_finite));
    }
    cli_puts(o, "; first at ");
    put_index(d, p->a, x->first);
    cli_printf(o, ": %s", cli_element_text(text, p->a->dtype, x->a));
    cli_printf(o, " and %s\n", cli_element_text(text, p->b->dtype, x->b));
}

/* The histogram of the distances, between the smallest and the largest power of two. */
static void put_bins(cli_out *o, const cli_change *x, bool ascii) {
    static const char *const blocks[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
                                         "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
                                         "\xe2\x96\x87", "\xe2\x96\x88"};
    static const char marks[] = "_.-:=+*#";
    int low = 0;
    int high = CLI_CHANGE_BINS - 1;
    uint64_t top = 1;

    while (low < high && x->bins[low] == 0) {
        low++;
    }
    while (high > low && x->bins[high] == 0) {
        high--;
    }
    for (int i = low; i <= high; i++) {
        top = x->bins[i] > top ? x->bins[i] : top;
    }
    cli_printf(o, "; 2^%d ", low + CLI_CHANGE_LEAST);
    for (int i = low; i <= high; i++) {
        const double share = (double)x->bins[i] / (double)top;
        const int height = x->bins[i] == 0 ? -1 : (int)(share * 7.99);
        if (height < 0) {
            cli_puts(o, " ");
        } else if (ascii) {
            cli_put(o, &marks[height], 1);
        } else {
            cli_puts(o, blocks[height]);
        }
    }
    cli_printf(o, " 2^%d", high + 1 + CLI_CHANGE_LEAST);
}

static void put_change_of(const cli_diff *d, const cli_pair *p) {
    const cli_change *x = p->change;
    cli_out *o = &d->c->out;
    char text[32];
    char real[48];

    cli_printf(o, "%.3g%% of %s values changed", 100 - 100 * (double)x->equal / (double)x->count,
               cli_grouped(text, x->count));
    if (x->d2 > 0) {
        const double cosine = cli_change_cosine(x);
        if (isfinite(cosine)) {
            cli_printf(o, ", by %s of the norm, cosine %.9g",
                       cli_diff_real(real, 3, cli_change_relative(x)), cosine);
        } else {
            cli_puts(o, x->a2 > 0 ? ", to zero" : ", from zero");
        }
        cli_printf(o, ", at most %s", cli_diff_real(real, 3, x->max_abs));
        if (!x->no_ulp) {
            cli_printf(o, " or %s ulp", cli_grouped(text, x->max_ulp));
        }
        put_bins(o, x, cli_flag(d->c, "ascii"));
    }
    if (x->not_finite > 0) {
        cli_printf(o, "; %s not finite", cli_grouped(text, x->not_finite));
    }
    if (p->rank > 0) {
        cli_printf(o, "; rank %u", (unsigned)p->rank);
    }
    cli_puts(o, "\n");
}

static void put_pair(const cli_diff *d, const cli_pair *p) {
    const sft_tensor *t = p->a != NULL ? p->a : p->b;
    cli_out *o = &d->c->out;

    put_mark(d, p->verdict == CLI_ONLY_A ? '-' : p->verdict == CLI_ONLY_B ? '+' : '~');
    cli_put_escaped(o, p->name, p->name_len);
    if (p->renamed) {
        cli_puts(o, " is now ");
        cli_put_escaped(o, p->b->name, p->b->name_len);
    }
    if (p->verdict == CLI_OTHER_VALUES) {
        cli_puts(o, ": ");
        if (p->change != NULL && !d->details) {
            put_change_of(d, p);
        } else {
            put_values(d, p);
        }
        return;
    }
    if (p->verdict != CLI_OTHER_NAME) {
        cli_puts(o, ": ");
        put_facts(d, t);
    }
    if (p->verdict == CLI_OTHER_TYPE) {
        cli_puts(o, " became ");
        put_facts(d, p->b);
    }
    if (p->verdict == CLI_OTHER_TYPE && p->change != NULL) {
        cli_puts(o, p->change->cast_equal ? ", cast" : ", ");
        if (!p->change->cast_equal) {
            put_change_of(d, p);
            return;
        }
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

static void put_change(cli_diff *d, const char *what, const cli_metadata_change *x) {
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

static void put_metadata(cli_diff *d, void *ctx, const cli_metadata_change *x) {
    (void)ctx;
    put_change(d, "metadata", x);
}

static void put_state(void *ctx, const char *name, const char *a, size_t a_len, const char *b,
                      size_t b_len) {
    const cli_metadata_change x = {name, strlen(name), a, a_len, b, b_len};

    put_change(ctx, "state", &x);
}

void cli_diff_text(cli_diff *d, bool same) {
    static const cli_verdict order[] = {CLI_ONLY_A, CLI_ONLY_B, CLI_OTHER_NAME, CLI_OTHER_TYPE,
                                        CLI_OTHER_VALUES};
    const bool metadata = cli_flag(d->c, "metadata");

    for (size_t v = 0; v < sizeof order / sizeof order[0]; v++) {
        for (size_t i = 0; i < d->count && !cli_stopped(d->c); i++) {
            if (d->pairs[i].verdict == order[v]) {
                put_pair(d, &d->pairs[i]);
            }
        }
    }
    if (metadata) {
        (void)cli_diff_metadata(d, put_metadata, NULL);
    }
    (void)cli_states_differ(&d->states_a, &d->states_b, put_state, d);
    if (same && !d->measure) {
        return; /* as diff(1): nothing to say */
    }
    cli_printf(&d->c->out, "%llu same, %llu removed, %llu added, ",
               (unsigned long long)d->tally[CLI_SAME], (unsigned long long)d->tally[CLI_ONLY_A],
               (unsigned long long)d->tally[CLI_ONLY_B]);
    cli_printf(&d->c->out, "%llu of other type or shape, %llu of other values",
               (unsigned long long)d->tally[CLI_OTHER_TYPE],
               (unsigned long long)d->tally[CLI_OTHER_VALUES]);
    if (d->measure) {
        cli_printf(&d->c->out, ", %llu renamed\n%s: %s",
                   (unsigned long long)d->tally[CLI_OTHER_NAME], cli_diff_kind_word(d->kind),
                   d->reason);
    }
    cli_puts(&d->c->out, "\n");
}
