/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/copy/cast_lost.h - values that a cast could not keep, counted while they are cast. Read cmd.h
 * first.
 */
#ifndef SFT_CLI_CAST_LOST_H
#define SFT_CLI_CAST_LOST_H

#include "cli/cmd.h"

typedef struct cli_cast_lost cli_cast_lost;

cli_cast_lost *cli_cast_watch(void);
/* n elements of the tensor were cast, in whole blocks, both sides little-endian. Any thread. */
void cli_cast_saw(cli_cast_lost *l, const sft_tensor *tensor, const sft_dtype *to, const void *in,
                  const void *out, size_t n);
/* A warning for each tensor that lost some, which "left_out_parts" has, too. */
void cli_cast_tell(cli_cast_lost *l, cli *c, const char *operand);
void cli_cast_end(cli_cast_lost *l);

#endif
