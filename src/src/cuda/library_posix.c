/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/library_posix.c - shared libraries opened at run time: the driver's and cuFile's. See
 * driver.h.
 */
#ifndef _WIN32
#include "cuda/driver.h"
#include <dlfcn.h>
#include <sft/extend.h>

void *sft__cuda_library_open(const char *path, char *why, size_t cap) {
    int how = RTLD_NOW | RTLD_LOCAL;
#ifdef RTLD_NODELETE
    how |= RTLD_NODELETE; /* its threads and handlers at exit need its code */
#endif
    void *library = dlopen(path, how);
    if (library == NULL) {
        const char *text = dlerror();
        text = text != NULL ? text : "unknown reason";
        (void)sft_escape(why, cap, text, strlen(text));
    }
    return library;
}

void sft__cuda_library_close(void *library) {
    if (library != NULL) {
        (void)dlclose(library);
    }
}

bool sft__cuda_library_find(void *library, const char *symbol, void *function) {
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address); /* POSIX: both kinds of pointer have one size */
    return address != NULL;
}
#else
typedef int sft__cuda_library_posix_empty;
#endif
