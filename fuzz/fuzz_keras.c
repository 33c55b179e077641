/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_keras.c - weights of Keras in shards: the input is the index up to the first HDF5 file
 * in it; that is the shard m_0.h5, and from the next one on it is m_1.h5. POSIX only: elsewhere
 * there are no files beside, and the input is a file of its own.
 */
#include "import_check.h"
#include "reader_check.h"
#include "scratch.h"

#ifndef _WIN32
#include <fcntl.h>
#include <unistd.h>

enum { FILES = 3, KEPT = 8192 };

static const char *const names[FILES] = {"m.weights.json", "m_0.h5", "m_1.h5"};
static char folder[64];
static char paths[FILES][96];
static int files[FILES];
static uint8_t was[FILES][KEPT]; /* what lies in them, if it is that short */
static size_t was_size[FILES];

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
    scratch_make(folder);
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

/* Most mutations change one of the three. */
static void put(int i, const uint8_t *data, size_t size) {
    if (size <= KEPT && size == was_size[i] && memcmp(was[i], data, size) == 0) {
        return;
    }
    if (size < was_size[i]) {
        CHECK(ftruncate(files[i], (off_t)size) == 0);
    }
    CHECK(size == 0 || pwrite(files[i], data, size, 0) == (ssize_t)size);
    was_size[i] = size;
    if (size <= KEPT) {
        memcpy(was[i], data, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint32_t hash = hash_of(data, size);
    const size_t before = fuzz_memory.out;
    size_t at = 0;
    int taken;

    prepare();
    for (int i = 0; i < FILES; i++) {
        const size_t end = i + 1 < FILES ? next_shard(data, size, at + (i != 0)) : size;
        put(i, data + at, end > at ? end - at : 0);
        at = end;
    }
    fuzz_path = paths[0];
    if (is_whole_way(hash)) {
        check_file(data, size);
    } else {
        check_open(data, size, (hash >> 15 & 3) == 0 ? 0 : SFT_IMPORT_ALLOW_OPAQUE, &taken);
    }
    CHECK(fuzz_memory.out == before);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_file(data, size);
    return 0;
}
#endif
