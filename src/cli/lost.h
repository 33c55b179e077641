/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/lost.h - what an output does not hold of its inputs, and outputs whose names promise another
 * format. Read cmd.h first.
 */
#ifndef SFT_CLI_LOST_H
#define SFT_CLI_LOST_H

#include "cmd.h"
#include <sft/import.h>

/* The report about an operand that is open: taken over, kept until the end. */
void cli_lost_keep(cli *c, const sft_import_api *api, sft_import_report *report);
void cli_lost_end(cli *c);
/* At the end: warns of every --view-as that no tensor met. */
void cli_lost_views(cli *c);
/* Warns that something called `subject` stays behind (format: printf), which "left_out_parts" lists, too. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void cli_lost_tell(cli *c, const char *operand, const char *subject, const char *format, ...);
/* Tensors and objects that were left out while operands were read; "left_out_parts", which lists them. */
uint64_t cli_lost_count_all(const cli *c);
void cli_lost_json(const cli *c, cli_json *j);
/* The same of what is good to know of the inputs: "notes". */
void cli_notes_json(const cli *c, cli_json *j);

/* Is OUT's extension that of another format than safetensors, which would be written? Then a usage error.
 * convert: by convert, which writes some of them; otherwise by what keeps the format. */
bool cli_lost_ending(cli *c, const char *output, bool convert);

#endif
