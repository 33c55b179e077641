/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/explain.h - what --explain prints. Read cmd.h first.
 */
#ifndef SFT_CLI_EXPLAIN_H
#define SFT_CLI_EXPLAIN_H

#include "cli/cmd.h"

/* One line per file of the catalog, on standard error. */
void cli_explain(const sft_catalog *catalog);

#endif
