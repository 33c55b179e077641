/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/wing_posix.c - opening a wing's library where there is dlopen: never from the current folder.
 * Read wing.h first.
 */
#ifndef _WIN32
#include "cli/wing.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Beside the tool (a build), where the libraries are installed, then wherever the system looks. A
 * run path would cost every start of the tool. */
static void *open_library(const char *library) {
    static const char *const places[] = {"$ORIGIN/",
#ifdef SFT_WING_FOLDER
                                         SFT_WING_FOLDER "/",
#endif
                                         ""};
    void *handle = NULL;
    char path[512];

    for (size_t i = 0; handle == NULL && i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", places[i], library);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

cli_wing_getter cli_wing_load(const char *library, const char *symbol, char *text, size_t cap) {
    cli_wing_getter getter = NULL;
    void *handle = open_library(library);

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
