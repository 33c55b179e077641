/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * consumer.c - a program of somebody who got the library from a package manager. It saves a tensor, opens the file and
 * reads a slice; with SFT_CONSUMER_IMPORT it opens an array of NumPy, too. Prints "consumer: N libraries work".
 *     consumer FOLDER
 */
#include <sft/sft.h>
#ifdef SFT_CONSUMER_IMPORT
#include <sft/import.h>
#endif
#include <stdio.h>
#include <string.h>

static char path[4096];

static int fail(const char *what, const sft_error *err) {
    fprintf(stderr, "consumer: %s: %s\n", what, err->message);
    return 1;
}

static int save_and_read(void) {
    const float saved[6] = {0, 1, 2, 3, 4, 5};
    const uint64_t shape[2] = {3, 2};
    const sft_save_tensor out = {"w", 1, sft_dtype_get(SFT_F32), shape, 2, 0, saved, sizeof saved};
    const sft_slice last = {.start = 2, .stop = 3, .step = 1};
    sft_catalog *model = NULL;
    sft_error err = {0};
    float row[2] = {0, 0};
    sft_read_options how;
    SFT_INIT(&how);
    how.slices = &last;
    how.slice_count = 1;
    if (sft_save(path, &out, 1, NULL, 0, NULL, &err)) {
        return fail("save", &err);
    }
    if (sft_catalog_open(&model, path, NULL, &err)) {
        return fail("open", &err);
    }
    const sft_tensor *w = sft_catalog_find(model, "w", 1);
    const int bad = w == NULL || sft_tensor_read(model, w, &how, row, sizeof row, &err) ||
                    row[0] != 4 || row[1] != 5;
    sft_catalog_close(model);
    return bad ? fail("read", &err) : 0;
}

#ifdef SFT_CONSUMER_IMPORT
static int open_numpy(void) {
    static const char header[] =
        "\x93NUMPY\x01\x00\x46\x00"
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }            \n";
    const sft_opener_row rows[] = {{sft_catalog_opener(), NULL}, {sft_import_opener(), NULL}};
    const float one = 1;
    sft_catalog *model = NULL;
    sft_error err = {0};
    sft_door_options door;
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(header, 1, 80, file) != 80 ||
        fwrite(&one, sizeof one, 1, file) != 1 || fclose(file) != 0) {
        return 1;
    }
    SFT_INIT(&door);
    door.rows = rows;
    door.row_count = 2;
    if (sft_open(&model, path, NULL, &door, &err)) {
        return fail("open an array of NumPy", &err);
    }
    const int bad = sft_catalog_count(model) != 1;
    sft_catalog_close(model);
    return bad;
}
#endif

int main(int argc, char **argv) {
    int libraries = 1;
    if (argc != 2 || strlen(argv[1]) > 4000) {
        return 2;
    }
    snprintf(path, sizeof path, "%s/consumer.safetensors", argv[1]);
    if (save_and_read()) {
        return 1;
    }
#ifdef SFT_CONSUMER_IMPORT
    snprintf(path, sizeof path, "%s/consumer.npy", argv[1]);
    if (open_numpy()) {
        return 1;
    }
    libraries++;
#endif
    printf("consumer: %d of our libraries work, version %s\n", libraries, sft_version());
    return 0;
}
