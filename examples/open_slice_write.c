/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Opens a model (file, folder or index), finds a tensor, writes its first two rows to a new file.
 *     open_slice_write MODEL TENSOR OUT.safetensors
 */
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    sft_error err = {0};
    sft_catalog *model = NULL;
    const sft_slice first_two = {.start = 0, .stop = 2, .step = 1};
    uint64_t shape[1024], nbytes = 0;
    uint32_t rank = 0;
    sft_read_options slice;
    SFT_INIT(&slice);
    slice.slices = &first_two;
    slice.slice_count = 1;
    if (argc != 4 || sft_catalog_open(&model, argv[1], NULL, &err)) {
        fprintf(stderr, "%s\n",
                argc == 4 ? err.message : "usage: open_slice_write MODEL TENSOR OUT");
        return 2;
    }
    const sft_tensor *w = sft_catalog_find(model, argv[2], strlen(argv[2]));
    sft_status status =
        w ? sft_tensor_result(w, &slice, shape, &rank, &nbytes, &err) : SFT_E_NOT_FOUND;
    void *rows = malloc(nbytes + 1);
    if (!status && rows && !(status = sft_tensor_read(model, w, &slice, rows, nbytes, &err))) {
        const sft_save_tensor out = {w->name, w->name_len, w->dtype, shape, rank, 0, rows, nbytes};
        status = sft_save(argv[3], &out, 1, NULL, 0, NULL, &err);
    }
    printf("%s: %s\n", argv[2], status ? sft_status_text(status) : "two rows written");
    free(rows);
    sft_catalog_close(model);
    return status != SFT_OK;
}
