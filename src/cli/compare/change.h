/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/change.h - how far the values of a tensor moved from a to b, in one pass: norms, cosine,
 * units in the last place, and a histogram of the distances by powers of two. Partial results of
 * blocks are merged in order. Read compare.h first.
 */
#ifndef SFT_CLI_CHANGE_H
#define SFT_CLI_CHANGE_H

#include "cli/compare/compare.h"

enum { CLI_CHANGE_BINS = 64, CLI_CHANGE_LEAST = -48 };

typedef struct cli_change {
    uint64_t count; /* elements */
    uint64_t equal; /* of the same bytes; of other types: of the same number */
    uint64_t
        not_finite; /* numbers that are NaN or infinite in a or b; what follows is of the others */
    double a2;      /* sum of squares of a / 2^scale_a */
    double b2;
    double d2;   /* of b - a */
    double ab;   /* sum of products */
    int scale_a; /* 0, unless doubles do not have such squares */
    int scale_b;
    int scale_d;
    double max_abs;
    double
        rounding; /* sum of ulp(b)^2 / 12: what rounding b to its type adds to d2, if it is noise */
    uint64_t max_ulp; /* representable numbers between a and b, at most; 0 if `no_ulp` */
    bool no_ulp;      /* the types differ, or are no floating-point types of whole bytes */
    bool cast_equal;  /* types differ: b is what a becomes when it is cast */
    bool back_equal;  /* types differ: a is what b becomes when it is cast */
    bool zeroed;      /* of one type of floats: what changed is 0 in b; then zeros are counted */
    uint64_t zeros_a;
    uint64_t zeros_b;
    /* bin i: 2^(i + CLI_CHANGE_LEAST) <= |b - a| < twice that; the first and the last take what is
     * beyond them. */
    uint64_t bins[CLI_CHANGE_BINS];
} cli_change;

void cli_change_init(cli_change *x);
/* Can values of these types be compared as numbers? */
bool cli_change_measurable(const sft_dtype *a, const sft_dtype *b);
/* x is overwritten; of types that are not measurable only count and equal are told. */
sft_status cli_change_block(cli_change *x, const cli_blocks *both, sft_error *err);
void cli_change_merge(cli_change *x, const cli_change *more);

/* extreme.c: takes the sums of a block again if squares were beyond doubles. */
sft_status cli_change_extreme(cli_change *x, const cli_blocks *both, size_t numbers,
                              sft_error *err);
void cli_change_add_sums(cli_change *x, const cli_change *more);

/* cast.c: is b what a becomes when it is cast to b's type, which is another one? */
bool cli_change_is_cast(const cli_blocks *both);

/* zeroed.c: fills in the three of zeros. */
void cli_change_zeroed(cli_change *x, const cli_blocks *both);

/* These are infinite where doubles have no such number. */
double cli_change_norm(double squares, int scale);
double
cli_change_relative(const cli_change *x); /* |b - a| / |a|, Euclidean; if only a is 0, infinite */
double cli_change_cosine(const cli_change *x); /* NaN if a or b is 0 */

#endif
