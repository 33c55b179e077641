/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * pages_win.c - mappings and pages on Windows: copy-on-write views of a file, and committed pages.
 */
#if defined(_WIN32)
#include "core.h"

#include <errno.h>
#include <io.h>
#include <windows.h>

void *core_pages_map(int fd, size_t size, int *shorter) {
    HANDLE file = (HANDLE)_get_osfhandle(fd);
    LARGE_INTEGER now;
    HANDLE mapping;
    void *base;

    if (file == INVALID_HANDLE_VALUE || !GetFileSizeEx(file, &now)) {
        errno = EBADF;
        return NULL;
    }
    if ((uint64_t)now.QuadPart < size) {
        *shorter = 1;
        return NULL;
    }
    mapping = CreateFileMappingW(file, NULL, PAGE_WRITECOPY, 0, 0, NULL);
    if (mapping == NULL) {
        errno = ENODEV;
        return NULL;
    }
    base = MapViewOfFile(mapping, FILE_MAP_COPY, 0, 0, size);
    CloseHandle(mapping);
    if (base == NULL) {
        errno = ENOMEM;
    }
    return base;
}

bool core_stamp_of(int fd, core_stamp *out) {
    (void)fd;
    out->known = false; /* sources have no descriptors here */
    return false;
}

void core_descriptors_add(size_t count) {
    (void)count;
}

void core_descriptors_drop(size_t count) {
    (void)count;
}

int core_gather(const core_runs *runs, void *dst, size_t size) {
    (void)runs, (void)dst, (void)size;
    return 0; /* a file that is mapped cannot be cut short here */
}

void core_park(core_state *state, sft_catalog **catalog, core_memory **map) {
    (void)state, (void)catalog;
    *map = NULL; /* handles are not scarce here */
}

void core_pages_unmap(void *base, size_t size) {
    (void)size;
    UnmapViewOfFile(base);
}

void *core_pages_new(size_t size) {
    void *base = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (base == NULL) {
        errno = ENOMEM;
    }
    return base;
}

void core_pages_free(void *base, size_t size) {
    (void)size;
    VirtualFree(base, 0, MEM_RELEASE);
}

void core_pages_idle(void *base, size_t size) {
    (void)VirtualAlloc(base, size, MEM_RESET, PAGE_READWRITE);
}

void core_pages_huge(void *base, size_t size) {
    (void)base;
    (void)size;
}

long core_process(void) {
    return (long)GetCurrentProcessId();
}
#else
typedef int core_pages_win_unused;
#endif
