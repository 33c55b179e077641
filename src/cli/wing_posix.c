/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/wing_posix.c - opening a wing's library where there is dlopen. By bare name: the loader looks
 * where the tool's own run path says, then in the system's folders, never in the current one. Read
 * wing.h first.
 */
#ifndef _WIN32
#include "wing.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

cli_wing_getter cli_wing_load(const char *library, const char *symbol, char *text, size_t cap) {
    cli_wing_getter getter = NULL;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (handle != NULL) {
        void *address = dlsym(handle, symbol);
        memcpy(&getter, &address, sizeof getter); /* ISO C has no such cast */
    }
    if (getter == NULL) {
        const char *why = dlerror();
        (void)snprintf(text, cap, "%s", why != NULL ? why : "it cannot be opened");
    }
    return getter;
}
#endif
