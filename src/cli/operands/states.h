/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/states.h - what a step of a training run holds beside tensors: the entries of its state.json.
 * Read cmd.h first.
 */
#ifndef SFT_CLI_STATES_H
#define SFT_CLI_STATES_H

#include "cli/cmd.h"
#include <sft/run.h>

/* Zero-initialised it is of no step. */
typedef struct cli_states {
    sft_run *run;
    sft_run_point *point;
} cli_states;

/* Of a directory RUN/step-N; of anything else it has no point. A step that cannot be read is a warning. */
void cli_states_open(cli *c, const char *operand, cli_states *out);
void cli_states_close(cli_states *states);

/* a, b: JSON, or NULL where the other one has it alone. */
typedef void (*cli_states_fn)(void *ctx, const char *name, const char *a, size_t a_len,
                              const char *b, size_t b_len);
/* Calls it for each entry that differs; NULL: nobody. How many they are; 0 unless both are steps. */
uint64_t cli_states_differ(const cli_states *a, const cli_states *b, cli_states_fn report,
                           void *ctx);

#endif
