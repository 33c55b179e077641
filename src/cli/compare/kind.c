/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/kind.c - what probably made b of a, with the figures that say so. It is a guess for people;
 * what differs is told tensor by tensor. Read diff.h first.
 */
#include "cli/compare/diff.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TYPES = 2048 }; /* ids that are told apart; those of other formats begin at 1,000 */

typedef struct facts {
    uint64_t both;    /* pairs of a type and shape, or of other types and the same values */
    uint64_t changed; /* of them */
    uint64_t values;  /* elements of pairs that were measured and changed */
    uint64_t equal;
    uint64_t zeros_a; /* of those that were pruned */
    uint64_t zeros_b;
    uint64_t cast;     /* one is the other, cast */
    uint64_t ahead;    /* of them: b is a, cast */
    uint64_t back;     /* of them: a is b, cast */
    uint64_t adapters; /* tensors of b alone that belong to a LoRA */
    uint64_t other_types;
    uint64_t quantized; /* tensors of b that are, where a's are floats, or that quantizing adds */
    uint64_t pruned;    /* tensors of which nothing changed but to 0 */
    uint64_t emptied;   /* of them: that are 0 everywhere */
    uint64_t signs;     /* tensors of which nothing changed but the signs of zeros */
    uint64_t unmoved;   /* tensors whose finite numbers are the same */
    uint64_t ranked;
    uint64_t low;
    uint32_t rank; /* the highest of the low ones */
    const sft_dtype *from;
    const sft_dtype *to;
    bool mixed; /* casts between more than one pair of types */
    bool in_a[TYPES];
    cli_change all;
    cli_change casts; /* of floats */
} facts;

/* Ends of names that quantizers add beside, or in place of, a weight. */
static bool is_quantizer_name(const cli_pair *p) {
    static const char *const ends[] = {
        ".qweight",          ".qzeros", ".scales",        ".weight_packed", ".weight_scale",
        ".weight_scale_inv", ".SCB",    ".weight.absmax", "_blocks",        "_scales"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t len = strlen(ends[i]);
        if (p->name_len > len && memcmp(p->name + p->name_len - len, ends[i], len) == 0) {
            return true;
        }
    }
    return false;
}

/* PEFT: q_proj.lora_A.weight; kohya: lora_unet_..., with alpha; diffusers: to_q.lora.down.weight. */
static bool is_of_adapter(const cli_pair *p) {
    static const char marks[2][7] = {"lora_", ".lora."};

    for (size_t i = 0; i < p->name_len; i++) {
        for (size_t k = 0; k < 2; k++) {
            const size_t len = strlen(marks[k]);
            if (p->name_len - i >= len && memcmp(p->name + i, marks[k], len) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_wide_float(const sft_dtype *t) {
    return t->kind == SFT_KIND_FLOAT && t->block_elements == 1 && t->block_bytes >= 2;
}

/* A type of at most a byte a value, or of blocks. */
static bool is_quantized(const sft_dtype *t) {
    return t->kind != SFT_KIND_BOOL && (t->block_elements > 1 || t->block_bytes == 1);
}

static bool is_cast(const cli_change *x) {
    return x->cast_equal || x->back_equal;
}

static void take_type(facts *f, const cli_pair *p) {
    f->other_types++;
    if (is_wide_float(p->a->dtype) && is_quantized(p->b->dtype)) {
        f->quantized++;
    }
    if (p->change == NULL ? p->compared : is_cast(p->change)) { /* NULL: it has no values */
        f->cast++;
        f->ahead += p->change == NULL || p->change->cast_equal;
        f->back += p->change == NULL || p->change->back_equal;
        if (p->change != NULL && p->a->dtype->kind == SFT_KIND_FLOAT) {
            cli_change_merge(&f->casts, p->change);
        }
        f->mixed = f->mixed || (f->from != NULL &&
                                (f->from->id != p->a->dtype->id || f->to->id != p->b->dtype->id));
        f->from = p->a->dtype;
        f->to = p->b->dtype;
    }
}

static void take_values(facts *f, const cli_pair *p) {
    f->changed++;
    if (p->change == NULL) {
        return;
    }
    f->values += p->change->count;
    f->equal += p->change->equal;
    if (p->change->zeroed && p->change->zeros_b > p->change->zeros_a) {
        f->pruned++;
        f->emptied += p->change->zeros_b == p->change->count;
        f->zeros_a += p->change->zeros_a;
        f->zeros_b += p->change->zeros_b;
    }
    const uint32_t kind = p->a->dtype->kind;
    if ((kind == SFT_KIND_FLOAT || kind == SFT_KIND_COMPLEX) && p->change->max_abs == 0) {
        f->unmoved++;
        f->signs += p->change->not_finite == 0 ||
                    (p->change->zeroed && p->change->zeros_a == p->change->zeros_b);
    }
    f->ranked += p->ranked;
    if (p->rank > 0 && !p->scattered) {
        f->low++;
        f->rank = p->rank > f->rank ? p->rank : f->rank;
    }
    if (kind == SFT_KIND_FLOAT && p->b->dtype->kind == SFT_KIND_FLOAT) {
        cli_change_merge(&f->all, p->change);
    }
}

static void take_pair(facts *f, const cli_pair *p) {
    if (p->verdict == CLI_ONLY_B) {
        f->quantized += is_quantizer_name(p) ||
                        (p->b->dtype->block_elements > 1 && !f->in_a[p->b->dtype->id % TYPES]);
        f->adapters += is_of_adapter(p);
        return;
    }
    if (p->verdict == CLI_ONLY_A) {
        return;
    }
    f->both++;
    if (p->verdict == CLI_OTHER_TYPE) {
        take_type(f, p);
    }
    if (p->verdict == CLI_OTHER_VALUES || (p->change != NULL && !is_cast(p->change))) {
        take_values(f, p);
    }
}

#define SAY(d, kind_, ...)                                                                         \
    do {                                                                                           \
        (d)->kind = kind_;                                                                         \
        (void)snprintf((d)->reason, sizeof(d)->reason, __VA_ARGS__);                               \
    } while (0)

static void tell_cast(cli_diff *d, const facts *f) {
    const bool back = f->back == f->cast && f->ahead < f->cast;
    const char *from = back ? f->to->name : f->from->name;
    const char *to = back ? f->from->name : f->to->name;
    char cast[32];
    char both[32];

    SAY(d, CLI_CHANGE_CAST,
        "%s of %s tensors were cast%s%s%s%s; every value%s is what casting%s gives",
        cli_grouped(cast, f->cast), cli_grouped(both, f->both), f->mixed ? "" : " from ",
        f->mixed ? "" : from, f->mixed ? "" : " to ", f->mixed ? "" : to,
        f->ahead == f->cast ? ""
        : back              ? " of the first model"
                            : " of one model",
        f->ahead == f->cast ? ""
        : back              ? " the second's"
                            : " the other's");
}

/* Nothing that both have changed. */
static void tell_alone(cli_diff *d, const facts *f) {
    const uint64_t missing = d->tally[CLI_ONLY_A] + d->tally[CLI_ONLY_B];
    char alone[32];
    char other[32];

    if (f->both == 0 && f->adapters > 0 && f->adapters == d->tally[CLI_ONLY_B]) {
        SAY(d, CLI_CHANGE_OTHER,
            "the second model is a LoRA: none of its %s tensors is a weight of the first; merged "
            "into it, it can be compared",
            cli_grouped(other, f->adapters));
        return;
    }
    SAY(d, CLI_CHANGE_OTHER, "%s %s in one model alone, %s %s other types or shapes",
        cli_grouped(alone, missing), missing == 1 ? "tensor is" : "tensors are",
        f->other_types == 0 ? "none" : cli_grouped(other, f->other_types),
        f->other_types == 1 ? "has" : "have");
}

static void tell_pruned(cli_diff *d, const facts *f) {
    char changed[32];
    char both[32];
    char emptied[32];

    SAY(d, CLI_CHANGE_PRUNED,
        "%s of %s tensors changed, and only to 0: %.3g%% of their values are 0, %.3g%% were; %s of "
        "them %s 0 everywhere",
        cli_grouped(changed, f->changed), cli_grouped(both, f->both),
        100 * (double)f->zeros_b / (double)f->values, 100 * (double)f->zeros_a / (double)f->values,
        f->emptied == 0 ? "none" : cli_grouped(emptied, f->emptied),
        f->emptied == 1 ? "is" : "are");
}

/* What is finite in both is the same number in both. */
static void tell_unmoved(cli_diff *d, const facts *f) {
    const bool signs = f->signs == f->changed;
    char values[32];
    char changed[32];
    char both[32];

    SAY(d, signs ? CLI_CHANGE_SIGNS : CLI_CHANGE_OTHER, "%s of %s tensors changed, %s (%s values)",
        cli_grouped(changed, f->changed), cli_grouped(both, f->both),
        signs ? "and only the signs of zeros"
              : "only where numbers are NaN, infinite or zeros of another sign",
        cli_grouped(values, f->values - f->equal));
}

static void tell_tuned(cli_diff *d, const facts *f) {
    const double cosine = cli_change_cosine(&f->all);
    const double share = 100 * (1 - (double)f->equal / (double)(f->values > 0 ? f->values : 1));
    const bool near = cosine >= 0.5;
    char changed[32];
    char both[32];
    char by[48];

    if (f->values == 0) { /* --nan-differs */
        SAY(d, CLI_CHANGE_OTHER, "%s of %s tensors changed, and only where both are NaN",
            cli_grouped(changed, f->changed), cli_grouped(both, f->both));
        return;
    }
    if (!isfinite(cosine)) { /* no floating-point numbers among them, or zeros alone */
        SAY(d, CLI_CHANGE_OTHER, "%s of %s tensors changed, %.3g%% of their values",
            cli_grouped(changed, f->changed), cli_grouped(both, f->both), share);
        return;
    }
    SAY(d, near ? CLI_CHANGE_TUNED : CLI_CHANGE_OTHER,
        "%s of %s tensors changed, %.3g%% of their values, by %s of their norm, cosine %.6g%s",
        cli_grouped(changed, f->changed), cli_grouped(both, f->both), share,
        cli_diff_real(by, 3, cli_change_relative(&f->all)), cosine, near ? "" : ": another model");
}

void cli_diff_find_kind(cli_diff *d) {
    facts f = {.both = 0};
    char cast[32];
    char other[32];

    cli_change_init(&f.all);
    cli_change_init(&f.casts);
    for (size_t i = 0; i < sft_catalog_count(d->a); i++) {
        f.in_a[sft_catalog_at(d->a, i)->dtype->id % TYPES] = true;
    }
    for (size_t i = 0; i < d->count; i++) {
        take_pair(&f, &d->pairs[i]);
    }
    d->both = f.both;
    d->moved = f.changed;
    d->overall = f.changed > 0 ? f.all : f.casts;
    const uint64_t missing = d->tally[CLI_ONLY_A] + d->tally[CLI_ONLY_B];
    if (f.quantized > 0 && f.other_types + d->tally[CLI_ONLY_A] > 0 &&
        2 * f.quantized >= f.other_types && f.cast < f.quantized) {
        SAY(d, CLI_CHANGE_QUANTIZED,
            "%s tensors of the second model are those of quantized weights",
            cli_grouped(cast, f.quantized));
    } else if (f.other_types > 0 && f.cast == f.other_types && f.changed == 0) {
        tell_cast(d, &f);
    } else if (f.pruned > 0 && f.pruned + f.signs == f.changed && f.other_types == 0) {
        tell_pruned(d, &f);
    } else if (f.changed > 0 && f.unmoved == f.changed && f.other_types == 0) {
        tell_unmoved(d, &f);
    } else if (f.ranked > 0 && 10 * f.low >= 9 * f.ranked) {
        d->rank = f.rank;
        SAY(d, CLI_CHANGE_LORA,
            "the changes of %s of the %s most changed matrices have low rank, %u at most",
            cli_grouped(cast, f.low), cli_grouped(other, f.ranked), (unsigned)f.rank);
    } else if (f.changed > 0) {
        tell_tuned(d, &f);
    } else if (f.other_types > 0 || missing > 0) {
        tell_alone(d, &f);
    } else if (d->tally[CLI_OTHER_NAME] > 0) {
        SAY(d, CLI_CHANGE_NAMES, "%s tensors have other names, and the same values",
            cli_grouped(cast, d->tally[CLI_OTHER_NAME]));
    } else if (d->metadata_changes > 0) {
        SAY(d, CLI_CHANGE_METADATA, "only metadata differ");
    } else {
        SAY(d, CLI_CHANGE_NONE, "nothing differs");
    }
}

const char *cli_diff_kind_word(cli_kind_of_change kind) {
    static const char *const words[] = {"none",       "metadata",  "renamed", "zero-signs",
                                        "cast",       "quantized", "pruned",  "merged-lora",
                                        "fine-tuned", "other"};
    return words[kind];
}
