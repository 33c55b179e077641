/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/compare/compare.h - how the values of two tensors differ: block by block, by bytes or by numbers
 * within a tolerance. The command around it is cmd_diff.c. Read cmd.h first.
 */
#ifndef SFT_CLI_COMPARE_H
#define SFT_CLI_COMPARE_H

#include "cli/cmd.h"

typedef struct cli_tolerance {
    bool numeric; /* compare numbers: |a - b| <= atol + rtol * |b|; else bytes */
    double atol;
    double rtol;
    bool nan_differs; /* two NaN in one place differ; else they are the same */
    bool any;         /* whether any differ is enough: counts and distances may be left out */
} cli_tolerance;

typedef struct cli_difference {
    uint64_t differing;  /* elements */
    uint64_t first;      /* row-major index of the first of them */
    unsigned char a[16]; /* its values: bytes as in the file; of types below a byte a host double */
    unsigned char b[16];
    double max_abs;      /* among differing finite ones; of complex numbers, of their parts */
    double max_rel;      /* |a - b| / |b|, b not zero */
    uint64_t not_finite; /* differing elements with NaN or infinity on one side or both */
} cli_difference;

void cli_difference_init(cli_difference *d);
/* Elements first .. first + n of two tensors. */
typedef struct cli_blocks {
    const sft_dtype *type_a;
    const void *a;
    const sft_dtype *type_b;
    const void *b;
    uint64_t first;
    size_t n;
} cli_blocks;

/* Of whole blocks of both types: at most so many elements, from `from` on. */
cli_blocks cli_blocks_part(const cli_blocks *both, size_t from, size_t most);

/* d is overwritten. Types that are not the same are compared as numbers whatever t says. */
sft_status cli_compare_block(cli_difference *d, const cli_tolerance *t, const cli_blocks *both,
                             sft_error *err);
void cli_difference_merge(cli_difference *d, const cli_difference *more);

#endif
