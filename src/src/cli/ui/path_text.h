/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/path_text.h - names of files as texts: how one ends, and where it lies in a directory.
 */
#ifndef SFT_CLI_PATH_TEXT_H
#define SFT_CLI_PATH_TEXT_H

#include <stdbool.h>

bool cli_ends_with(const char *text, const char *end);
/* DIRECTORY/NAME, with one slash between them; free() it. */
char *cli_path_in(const char *folder, const char *name);

#endif
