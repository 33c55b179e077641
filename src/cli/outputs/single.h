/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/single.h - one output file that is written from its first byte to its last, and appears when it
 * is complete. Read cmd.h first.
 */
#ifndef SFT_CLI_SINGLE_H
#define SFT_CLI_SINGLE_H

#include "cli/cmd.h"
#include "cli/sys.h"

typedef struct cli_single {
    cli *c;
    const char *operand;
    const sft_catalog *catalog;
    const char *other_operand; /* of a second model that is read; NULL: there is none */
    const sft_catalog *other;
    const char *output;
    cli_sys_file file;
    cli_out *out; /* where it is written */
} cli_single;

/* output: none of the catalog's files, nor one that an option names to be read; it must not be there, but for
 * --force. False: reported. */
bool cli_single_begin(cli_single *s, cli *c, const char *operand, const sft_catalog *catalog,
                      const char *output);
/* The same of two models; they are in s with the output, and the rest of it is zero. */
bool cli_single_begin_of_two(cli_single *s);
/* status: of the work, with its error. It is there now, unless that failed, writing did, or a file of the
 * catalog was written to meanwhile: false, reported. */
bool cli_single_end(cli_single *s, sft_status status, sft_error *err);
void cli_single_drop(cli_single *s); /* instead: the work failed, and that was reported */

#endif
