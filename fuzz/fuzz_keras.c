/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_keras.c - weights of Keras in shards: the input is the index up to the first HDF5 file
 * in it; that is the shard m_0.h5, and from the next one on it is m_1.h5. POSIX only: elsewhere
 * there are no files beside, and the input is a file of its own.
 */
#include "import_check.h"

#ifndef _WIN32
#include <fcntl.h>
#include <unistd.h>

enum { FILES = 3 };

static const char *const names[FILES] = {"m.weights.json", "m_0.h5", "m_1.h5"};
static char folder[64];
static char paths[FILES][96];
static int files[FILES];

static void clean(void) {
    for (int i = 0; i < FILES; i++) {
        (void)unlink(paths[i]);
    }
    (void)rmdir(folder);
}

static void prepare(void) {
    if (folder[0] != '\0') {
        return;
    }
    (void)snprintf(folder, sizeof folder, "/dev/shm/sft-fuzz-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        (void)snprintf(folder, sizeof folder, "/tmp/sft-fuzz-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
    }
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
        files[i] = open(paths[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        CHECK(files[i] >= 0);
    }
    CHECK(atexit(clean) == 0);
}

/* Where the next shard begins, from `at` on. */
static size_t next_shard(const uint8_t *data, size_t size, size_t at) {
    static const uint8_t magic[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

    for (; at + sizeof magic <= size; at++) {
        if (memcmp(data + at, magic, sizeof magic) == 0) {
            return at;
        }
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t at = 0;

    prepare();
    for (int i = 0; i < FILES; i++) {
        const size_t end = i + 1 < FILES ? next_shard(data, size, at + (i != 0)) : size;
        CHECK(ftruncate(files[i], 0) == 0);
        if (end > at) {
            CHECK(pwrite(files[i], data + at, end - at, 0) == (ssize_t)(end - at));
        }
        at = end;
    }
    fuzz_path = paths[0];
    check_file(data, size);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_file(data, size);
    return 0;
}
#endif
