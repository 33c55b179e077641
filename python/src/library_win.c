/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * library_win.c - libraries that are opened at run time: see library_posix.c. The remote library is not built
 * for Windows.
 */
#ifdef _WIN32
#include "core.h"

#include <stdio.h>

void core_library_symbol(const char *library, const char *symbol, void *getter, char *why, size_t size)
{
    void *nothing = NULL;

    (void)symbol;
    (void)snprintf(why, size, "%s: there is none for Windows", library);
    memcpy(getter, &nothing, sizeof nothing);
}
#else
typedef int library_win_is_empty;
#endif
