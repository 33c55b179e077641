/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/replay.c - a main() for fuzz targets without libFuzzer: runs the files that are named, each whole, cut
 * at every length (short files), and with every single byte changed in a few ways (very short files).
 */
#include "fuzz.h"

enum { MAX_SIZE = 1 << 20, CUT_BELOW = 4096, CHANGE_BELOW = 512 };

/* A copy of exactly that size, so that sanitizers and guard pages see a read behind it. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    CHECK(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

int main(int argc, char **argv) {
    static const uint8_t values[] = {0x00, 0x22, 0x2c, 0x5c, 0x30, 0x39, 0x5d, 0x7b, 0x7d, 0xff};
    static uint8_t data[MAX_SIZE];
    unsigned long runs = 0;

    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        CHECK(f != NULL);
        const size_t size = fread(data, 1, sizeof data, f);
        (void)fclose(f);
        run(data, size);
        runs++;
        for (size_t cut = 0; size <= CUT_BELOW && cut < size; cut++, runs++) {
            run(data, cut);
        }
        for (size_t at = 0; size <= CHANGE_BELOW && at < size; at++) {
            const uint8_t old = data[at];
            for (size_t k = 0; k < sizeof values; k++, runs++) {
                data[at] = values[k];
                run(data, size);
            }
            data[at] = old;
        }
    }
    (void)printf("%d files, %lu runs\n", argc - 1, runs);
    return argc > 1 ? 0 : 1;
}
