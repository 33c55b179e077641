/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * library_win.c - libraries that are opened at run time: see library_posix.c. None is built for
 * Windows.
 */
#ifdef _WIN32
#include "core.h"

#include <stdio.h>

bool core_library_symbol(const char *library, const char *symbol, void *getter, char *why,
                         size_t size) {
    void *nothing = NULL;

    (void)symbol;
    (void)snprintf(why, size, "%s: there is none for Windows", library);
    memcpy(getter, &nothing, sizeof nothing);
    return false;
}
#else
typedef int library_win_is_empty;
#endif
