/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/odd.h - what is allowed in a model, but not as it should be. Read cmd.h first.
 */
#ifndef SFT_CLI_ODD_H
#define SFT_CLI_ODD_H

#include "cli/cmd.h"

/* One such thing; `tensor` is the first that has it. */
typedef struct cli_oddity {
    const char *kind;
    char message[512];
    const sft_tensor *tensor;
    uint64_t offset;
} cli_oddity;

enum { CLI_ODDITIES = 16 };

typedef struct cli_oddities {
    cli_oddity items[CLI_ODDITIES];
    size_t count;
} cli_oddities;

cli_oddity *cli_odd_add(cli_oddities *odd, const char *kind);
/* strict: deviations from the format's letter, unsafe names, misaligned data and large headers, too. Fails
 * where the operand cannot be read once more. */
sft_status cli_odd_find(cli *c, const char *operand, const sft_catalog *catalog, bool strict,
                        cli_oddities *odd, sft_error *err);
/* The word for a problem of an index (sft_problem_kind). */
const char *cli_odd_problem(uint32_t kind);

#endif
