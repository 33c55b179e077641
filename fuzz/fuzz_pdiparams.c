/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_pdiparams.c - any bytes as tensors of Paddle's static graphs; or, if they do not begin
 * as such, as the model beside two tensors, which gives their names. POSIX only: elsewhere there is
 * no model.
 */
#include "import_check.h"
#include "reader_check.h"
#include "scratch.h"

#ifndef _WIN32
#include <fcntl.h>
#include <unistd.h>

static char folder[64];
static char path[96];
static char model_path[96];
static int model = -1;

static const uint8_t tensors[] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 8, 5, 16, 1, 1, 2, 3, 4,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 8, 5, 16, 1, 1, 2, 3, 4,
};

static void clean(void) {
    (void)unlink(path);
    (void)unlink(model_path);
    (void)rmdir(folder);
}

static void prepare(void) {
    if (model >= 0) {
        return;
    }
    scratch_make(folder);
    (void)snprintf(path, sizeof path, "%s/m.pdiparams", folder);
    (void)snprintf(model_path, sizeof model_path, "%s/m.json", folder);
    FILE *const f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(tensors, 1, sizeof tensors, f) == sizeof tensors && fclose(f) == 0);
    model = open(model_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(model >= 0 && atexit(clean) == 0);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint32_t hash = hash_of(data, size);

    fuzz_path = NULL;
#ifndef _WIN32
    if (size != 0 && data[0] != 0) {
        prepare();
        CHECK(ftruncate(model, 0) == 0 && pwrite(model, data, size, 0) == (ssize_t)size);
        fuzz_path = path;
        data = tensors;
        size = sizeof tensors;
    }
#endif
    check_reader(&sft__import_reader_paddle, hash, data, size);
    return 0;
}
