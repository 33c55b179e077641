/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/lost.h - what an output does not hold of its inputs, and outputs whose names promise another
 * format. Read cmd.h first.
 */
#ifndef SFT_CLI_LOST_H
#define SFT_CLI_LOST_H

#include "cli/cmd.h"
#include <sft/import.h>

/* The report about an operand that is open: taken over, kept until the end. */
void cli_lost_keep(cli *c, sft_import_report *report);
void cli_lost_end(cli *c);
/* At the end: warns of every --view-as that no tensor met. */
void cli_lost_views(cli *c);
/* Warns that something called `subject` stays behind (format: printf), which "left_out_parts" lists, too. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void cli_lost_tell(cli *c, const char *operand, const char *subject, const char *format, ...);
/* "left_out_parts" alone, for what a warning of its own has told. */
void cli_lost_note(cli *c, const char *subject, size_t len, const char *message);
bool cli_lost_is_told(const cli *c, const char *subject);
/* Warns that an entry of metadata stays behind, and why; "left_out_parts" lists it, too. */
void cli_lost_metadata(cli *c, const char *operand, const char *key, size_t len, const char *why);
/* Of a model's files: is it the first that has the key? How many have it, and do these say the same? */
bool cli_lost_is_first(const sft_catalog *catalog, size_t file, const sft_metadata_entry *e);
size_t cli_lost_agree(const sft_catalog *catalog, const sft_metadata_entry *e, bool *same);
/* Warns of metadata that have one text in several files, and are of several types there. */
void cli_lost_retyped(cli *c, const char *operand, const sft_catalog *catalog);
/* The same of recorded digests (SFT_DIGEST_*; 0: of parts of tensors), which do not fit `what`; option:
 * what records new ones. */
void cli_lost_digests(cli *c, const char *operand, uint32_t kinds, const char *what,
                      const char *option);
/* A tensor that no rule of --names matches, for "names_unmatched". */
void cli_lost_unmatched(cli *c, const sft_tensor *t, const char *nearest);
/* Notes what the catalog could not have (problems that are told already); returns how many tensors that
 * are. */
uint64_t cli_lost_problems(cli *c, const sft_catalog *catalog);
/* Tensors and objects that were left out while operands were read. */
uint64_t cli_lost_count_all(const cli *c);
/* What every command that writes a model tells of it: "aliases", "left_out", and "left_out_parts", which
 * lists everything that stayed behind. */
void cli_lost_json(const cli *c, cli_json *j, uint64_t aliases, uint64_t left_out);
/* The same of what is good to know of the inputs: "notes". */
void cli_notes_json(const cli *c, cli_json *j);

/* Is OUT's extension that of another format than safetensors, which would be written? Then a usage error.
 * convert: by convert, which writes some of them; otherwise by what keeps the format. */
bool cli_lost_ending(cli *c, const char *output, bool convert);

#endif
