/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/beside.h - what lies beside the weights of a model: configuration and tokenizer files, which travel
 * into the directory of an output. Read cmd.h first.
 */
#ifndef SFT_CLI_BESIDE_H
#define SFT_CLI_BESIDE_H

#include "cmd.h"

#define CLI_BESIDE_OPTION                                                                          \
    CLI_OPT_FLAG("no-config", 0,                                                                   \
                 "leave configuration, tokenizer, README and licence files where they are")

/* After an output was written: copies, byte for byte, what belongs to the model at `source` (a
 * directory, the index or file of a model in one, a URL) into the directory of `target` (a directory,
 * or a model's file in one), never over a file that is there. Python programs, pickles and links that
 * lead out of the directory are named and not copied. Not with --no-config; not if either is a single
 * file of another name. */
void cli_beside_carry(cli *c, const char *source, const char *target);

#endif
