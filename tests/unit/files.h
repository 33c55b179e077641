/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/files.h - a scratch folder per test program, whole files in and out. POSIX only.
 */
#ifndef SFT_TESTS_FILES_H
#define SFT_TESTS_FILES_H

#include "unit/cm.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef SFT_FILES_SHARED /* the program has several files and defines it in one */
extern char scratch[256];
#else
static char scratch[256];
#endif

/* A path in the scratch folder, in one of eight rotating buffers. */
static inline const char *in_scratch(const char *name) {
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

static inline int scratch_make_in(const char *folder) {
    (void)snprintf(scratch, sizeof scratch, "%s/sft-test-XXXXXX", folder);
    return mkdtemp(scratch) == NULL ? -1 : 0;
}

static inline int scratch_make(void **state) {
    (void)state;
    return scratch_make_in("/tmp");
}

/* Entries of the scratch folder; removes them if asked to. */
static inline int scratch_list(int remove_them) {
    int count = 0;
    DIR *dir = opendir(scratch);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        count++;
        if (remove_them && unlinkat(dirfd(dir), e->d_name, 0) != 0) {
            assert_int_equal(unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR), 0);
        }
    }
    closedir(dir);
    return count;
}

static inline int scratch_clear(void **state) {
    (void)state;
    (void)scratch_list(1);
    return 0;
}

static inline int scratch_drop(void **state) {
    (void)scratch_clear(state);
    return rmdir(scratch);
}

static inline void file_put(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* The whole file, malloc'ed; NULL if there is none. */
static inline char *file_get(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    char *data;
    long len;
    if (f == NULL) {
        return NULL;
    }
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    len = ftell(f);
    assert_true(len >= 0);
    rewind(f);
    data = malloc((size_t)len + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)len, f), (size_t)len);
    data[len] = '\0';
    assert_int_equal(fclose(f), 0);
    *size = (size_t)len;
    return data;
}

static inline void assert_file(const char *path, const void *data, size_t size) {
    size_t have;
    char *bytes = file_get(path, &have);
    assert_non_null(bytes);
    assert_int_equal(have, size);
    assert_memory_equal(bytes, data, size);
    free(bytes);
}

static inline unsigned file_mode(const char *path) {
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return (unsigned)st.st_mode & 07777u;
}

#endif
