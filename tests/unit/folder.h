/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/folder.h - a temporary folder for tests that need real files (POSIX).
 */
#ifndef SFT_TESTS_FOLDER_H
#define SFT_TESTS_FOLDER_H

#include "unit/cm.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* "BASE/NAME" in one of a few rotating buffers: fine for the arguments of one call. */
static inline const char *in_folder(const char *base, const char *name) {
    static char paths[8][4608];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", base, name);
    return path;
}

static inline void folder_make(char path[64]) {
    (void)snprintf(path, 64, "%s", "/tmp/sft-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

/* Removes the folder with everything in it; at most eight deep, and no link is followed. */
static inline void folder_remove(const char *path) {
    DIR *dirs[8];
    char paths[8][4608];
    int depth = 0;
    (void)snprintf(paths[0], sizeof paths[0], "%s", path);
    dirs[0] = opendir(path);
    while (depth >= 0) {
        struct dirent *e = dirs[depth] != NULL ? readdir(dirs[depth]) : NULL;
        struct stat st;
        if (e == NULL) {
            if (dirs[depth] != NULL) {
                (void)closedir(dirs[depth]);
            }
            (void)rmdir(paths[depth]);
            depth--;
            continue;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        const char *child = in_folder(paths[depth], e->d_name);
        if (lstat(child, &st) == 0 && S_ISDIR(st.st_mode) && depth < 7) {
            (void)chmod(child, 0700);
            depth++;
            (void)snprintf(paths[depth], sizeof paths[0], "%s", child);
            dirs[depth] = opendir(child);
        } else {
            (void)unlink(child);
        }
    }
}

static inline void write_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Appends a safetensors file's bytes to `out` (room for 8 + header + data): header text as given.
 */
static inline size_t file_bytes(uint8_t *out, const char *header, size_t data_size) {
    const size_t n = strlen(header);
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)((uint64_t)n >> (8 * i));
    }
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < data_size; i++) {
        out[8 + n + i] = (uint8_t)(i * 7 + 1);
    }
    return 8 + n + data_size;
}

static inline void write_tensors(const char *path, const char *header, size_t data_size) {
    uint8_t *bytes = malloc(8 + strlen(header) + data_size);
    assert_non_null(bytes);
    write_file(path, bytes, file_bytes(bytes, header, data_size));
    free(bytes);
}

#endif
