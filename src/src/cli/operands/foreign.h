/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/foreign.h - files of other formats. Read cmd.h first.
 */
#ifndef SFT_CLI_FOREIGN_H
#define SFT_CLI_FOREIGN_H

#include "cli/cmd.h"
#include <sft/import.h>

/* What --key, --dedup, --view-as, --allow-opaque and --no-crc say. limits: filled in, pointed at. */
void cli_import_options(cli *c, sft_import_options *options, sft_limits *limits);

/* The file could not be opened as safetensors, for the reason in *err: opens it as what it is, if
 * it is a format that is known (*foreign); else leaves *err as it is and returns `status`.
 */
sft_status cli_open_foreign(cli *c, const char *operand, sft_status status, sft_catalog **out,
                            bool *foreign, sft_error *err);

/* Warns of everything in a report that was left out. */
void cli_warn_report(cli *c, const char *operand, const sft_import_report *report);

#endif
