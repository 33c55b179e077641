/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/wing.h - the tool's way to the wings: libraries of their own that are only reached when a
 * command needs one, so that work on local safetensors files starts as if there were none. Read
 * cmd.h first.
 *
 * To add a wing: a line in cli_wing, a row in wing.c, its part in cmake/wings.cmake. A wing offers
 * one function, `const sft_NAME_api *sft_NAME_api_get(void)`, whose table begins with struct_size
 * and version.
 */
#ifndef SFT_CLI_WING_H
#define SFT_CLI_WING_H

#include "cli/cmd.h"

typedef enum cli_wing {
    CLI_WING_IMPORT = 0,
    CLI_WING_REMOTE = 1,
    CLI_WING_CHECKPOINT = 2,
    CLI_WING_COUNT
} cli_wing;

/* A library that is missing is a failure of the system (exit status 3), no verdict on a file. */
#define CLI_WING_MISSING SFT_E_IO

/* The wing's table, loaded on first use; NULL: *err says what is missing, CLI_WING_MISSING. */
const void *cli_wing_get(cli_wing wing, sft_error *err);

/* Whether the wing belongs to this tool, but its library cannot be opened: what it alone could tell
 * must not pass for a verdict then. Not so of a build that never had it. */
bool cli_wing_gone(cli_wing wing, sft_error *err);

/* dlopen and dlsym of `symbol` (wing_posix.c, wing_win.c): its address, or NULL with a sentence in
 * text. */
typedef const void *(*cli_wing_getter)(void);
cli_wing_getter cli_wing_load(const char *library, const char *symbol, char *text, size_t cap);

#endif
