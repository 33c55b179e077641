/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/curl_posix.c - libcurl, opened when the first sft_remote is made: what never reads a URL
 * does not wait for its thirty libraries, and needs none of them. Read first: curl.h.
 */
#ifndef _WIN32
#include "base/error.h"
#include "remote/http/curl.h"
#include <dlfcn.h>
#include <sft/extend.h>
#include <stdio.h>
#include <string.h>

enum { WANTED = 0x075500 };

/* Never closed: its threads and handlers at exit need its code. */
static void *open_library(char *why, size_t cap) {
#ifdef __APPLE__
    static const char *const names[] = {"libcurl.4.dylib", "/usr/lib/libcurl.4.dylib"};
#else
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
#endif
    void *library = NULL;

    for (size_t i = 0; library == NULL && i < sizeof names / sizeof names[0]; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL && i == 0) {
            const char *text = dlerror();
            text = text != NULL ? text : "unknown reason";
            (void)sft_escape(why, cap, text, strlen(text));
        }
    }
    return library;
}

sft_status sft__remote_curl_find(sft__remote_curl *out, sft_error *err) {
    char why[256] = "";
    void *library = open_library(why, sizeof why);

    memset(out, 0, sizeof *out);
#define FIND(name, result, arguments)                                                              \
    if (library != NULL && why[0] == '\0') {                                                       \
        void *address = dlsym(library, "curl_" #name);                                             \
        memcpy(&out->name, &address, sizeof address); /* POSIX: both kinds have one size */        \
        if (address == NULL) {                                                                     \
            (void)snprintf(why, sizeof why, "it has no curl_" #name);                              \
        }                                                                                          \
    }
    if (library != NULL) {
        why[0] = '\0';
    }
    SFT__REMOTE_CURL_CALLS(FIND)
#undef FIND
    if (library != NULL && why[0] == '\0') {
        const curl_version_info_data *is = out->version_info(CURLVERSION_FIRST);
        if (is->version_num >= WANTED) {
            return SFT_OK;
        }
        (void)snprintf(why, sizeof why, "this is %.40s", is->version);
    }
    return sft__base_fail(
        err, SFT_E_UNSUPPORTED,
        "reading from a URL needs libcurl 7.85 or later (install libcurl4, libcurl or curl, as "
        "your system names it): %s",
        why);
}
#endif
