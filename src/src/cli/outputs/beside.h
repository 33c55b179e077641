/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/beside.h - what lies beside the weights of a model: configuration and tokenizer files, which
 * travel into the directory of an output. Read cmd.h first.
 */
#ifndef SFT_CLI_BESIDE_H
#define SFT_CLI_BESIDE_H

#include "cli/cmd.h"

#define CLI_BESIDE_OPTION                                                                          \
    CLI_OPT_FLAG("no-config", 0,                                                                   \
                 "leave configuration, tokenizer, README and licence files where they are")

typedef struct cli_beside_said {
    int kind;
    char *path;
    char *text;
} cli_beside_said;

/* Zeroed by cli_beside_begin; freed by cli_beside_end. */
typedef struct cli_beside {
    cli *c;
    const char *source; /* NULL: nothing travels */
    const char *target;
    size_t from; /* lengths of the directories in both; 0: nothing travels */
    size_t to;
    char **made; /* files that are new in the target */
    size_t made_count;
    cli_beside_said *said; /* what is to be told of them and of others */
    size_t said_count;
} cli_beside;

/* Copies, byte for byte, what belongs to the model at `source` (a
 * directory, the index or file of a model in one, a URL) into the directory of `target` (a directory,
 * or a model's file in one), never over a file that is there. Python programs, pickles and links that
 * lead out of the directory are named and not copied. Not with --no-config; not if either is a single
 * file of another name. */
void cli_beside_begin(cli_beside *b, cli *c, const char *source, const char *target);
/* When the weights are written, and before they get their names: a model that opens has its tokenizer.
 * ctx: cli_beside. A failure says which file. */
sft_status cli_beside_put(void *ctx, sft_error *err);
/* Notes and warnings; what stays behind goes into "left_out_parts", too. */
void cli_beside_tell(cli_beside *b);
/* keep: the weights are in place; else what was copied is removed. */
void cli_beside_end(cli_beside *b, bool keep);
/* All of it, after an output was written. */
void cli_beside_carry(cli *c, const char *source, const char *target);

#endif
