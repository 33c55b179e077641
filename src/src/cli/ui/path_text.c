/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/path_text.c - see path_text.h.
 */
#include "cli/ui/path_text.h"
#include "cli/cmd.h"
#include <stdio.h>
#include <string.h>

bool cli_ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t n = strlen(end);
    return len >= n && memcmp(text + len - n, end, n) == 0;
}

char *cli_path_in(const char *folder, const char *name) {
    const size_t len = strlen(folder);
    const size_t room = len + strlen(name) + 2;
    char *path = cli_alloc(room, 1);

    (void)snprintf(path, room, "%s%s%s", folder, len > 0 && folder[len - 1] == '/' ? "" : "/",
                   name);
    return path;
}
