/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * library_posix.c - libraries that are opened at run time. Read core.h first.
 */
#ifndef _WIN32
#include "core.h"

#include <dlfcn.h>
#include <stdio.h>

bool core_library_symbol(const char *library, const char *symbol, void *getter, char *why,
                         size_t size) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *address = handle != NULL ? dlsym(handle, symbol) : NULL;

    if (address == NULL) {
        const char *text = dlerror();
        (void)snprintf(why, size, "%s", text != NULL ? text : "it has no such symbol");
    }
    memcpy(getter, &address, sizeof address); /* ISO C has no such cast */
    return address != NULL;
}
#else
typedef int library_posix_is_empty;
#endif
