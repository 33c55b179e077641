/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/operands/other_format.h - files of other formats. Read cmd.h first.
 */
#ifndef SFT_CLI_OTHER_FORMAT_H
#define SFT_CLI_OTHER_FORMAT_H

#include "cli/cmd.h"
#include <sft/import.h>

/* What --key, --dedup, --view-as, --allow-opaque and --no-crc say. limits: filled in, pointed at. */
void cli_import_options(cli *c, sft_import_options *options, sft_limits *limits);

/* After sft_open: notes which other format it was and what was left out of it, and keeps the report. */
void cli_import_opened(cli *c, const char *operand, sft_catalog *catalog);

/* Of one of many ranks: what one before it left out as well is not said again. Keeps the report. */
void cli_import_opened_rank(cli *c, const char *path, sft_import_report *report);

/* Is its first file of another format than safetensors? */
bool cli_is_other_format(const sft_catalog *catalog);

/* Warns of everything in a report that was left out. */
void cli_warn_report(cli *c, const char *operand, const sft_import_report *report);

#endif
