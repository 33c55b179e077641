/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/wing_win.c - opening a wing's library on Windows: from the folder of the tool alone. Read
 * wing.h first.
 */
#ifdef _WIN32
#include "cli/wing.h"
#include <stdio.h>
#include <string.h>
#include <windows.h>

cli_wing_getter cli_wing_load(const char *library, const char *symbol, char *text, size_t cap) {
    cli_wing_getter getter = NULL;
    HMODULE module = LoadLibraryExA(library, NULL, LOAD_LIBRARY_SEARCH_APPLICATION_DIR);

    if (module != NULL) {
        FARPROC address = GetProcAddress(module, symbol);
        memcpy(&getter, &address, sizeof getter);
    }
    if (getter == NULL) {
        (void)snprintf(text, cap, "error %lu", (unsigned long)GetLastError());
    }
    return getter;
}
#endif
