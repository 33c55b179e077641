/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/memory/pages_win.c - see pages.h. Large pages need a privilege on Windows, so plain ones are used.
 */
#ifdef _WIN32
#include "base/memory/pages.h"
#include <windows.h>

void *sft__base_pages_alloc(size_t size) {
    return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void sft__base_pages_free(void *ptr, size_t size) {
    (void)size;
    (void)VirtualFree(ptr, 0, MEM_RELEASE);
}

void sft__base_pages_touch(void *ptr, size_t size) {
    (void)ptr, (void)size;
}
#else
typedef int sft__base_pages_win_empty;
#endif
