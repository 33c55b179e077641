/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/outputs/kept.h - what a replaced file had beside its bytes. Libraries hand it on to the new file as
 * far as the system lets them; what is missing afterwards is named. Read cmd.h first.
 */
#ifndef SFT_CLI_KEPT_H
#define SFT_CLI_KEPT_H

#include "cli/cmd.h"

/* Before the file at `path` may be replaced (nothing there: nothing is done). */
void cli_kept_watch(cli *c, const char *path);
/* At the end of the command: warns of extended attributes that the file at that path has no more, and
 * of a link that has become a file. */
void cli_kept_end(cli *c);

#endif
