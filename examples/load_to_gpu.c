/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Loads a model (file, folder or index) into the memory of GPU 0 with four readers and says where
 * it lies. load_to_gpu MODEL [LIBRARY OF THE DRIVER]
 */
#include <sft/cuda.h>
#include <sft/sft.h>
#include <stdio.h>

int main(int argc, char **argv) {
    sft_error err = {0};
    sft_catalog *model = NULL;
    sft_cuda *gpu = NULL;
    sft_cuda_loaded *weights = NULL;
    sft_pool *readers = NULL;
    sft_cuda_view w;
    sft_cuda_options which;
    sft_cuda_load_options how;
    const char *reason;
    uint64_t needed = 0, slab = 0;
    uint32_t devices = 0;
    SFT_INIT(&which);
    SFT_INIT(&how);
    which.driver_path = argc > 2 ? argv[2] : NULL;
    if (argc < 2 || sft_catalog_open(&model, argv[1], NULL, &err) ||
        sft_pool_create(&readers, 4, NULL, &err) ||
        sft_cuda_available(&devices, which.driver_path, &err) ||
        sft_cuda_open(&gpu, &which, &err) || sft_cuda_load_size(&needed, model, &how, &err) ||
        (how.pool = readers, sft_cuda_load(&weights, gpu, model, &how, &err)) ||
        sft_cuda_loaded_wait(weights, 0,
                             &err)) { /* with a stream of one's own: not before work on it */
        fprintf(stderr, "%s\n", argc < 2 ? "usage: load_to_gpu MODEL" : err.message);
    }
    for (size_t i = 0; sft_cuda_loaded_at(weights, i, &w) == SFT_OK; i++) {
        printf("%s: %llu bytes at 0x%llx\n", w.tensor->name, (unsigned long long)w.nbytes,
               (unsigned long long)w.address);
    }
    if (weights != NULL) {
        (void)sft_cuda_loaded_strategy(weights, 0, &reason, NULL, NULL);
        (void)sft_cuda_loaded_memory(weights, &slab);
        printf("GPU 0 of %u, a slab of %llu bytes, %llu needed; straight from storage: %s\n",
               devices, (unsigned long long)slab, (unsigned long long)needed,
               sft_cuda_direct_probe(gpu, model, 0, &err) == SFT_OK ? "yes" : err.message);
        printf("%zu tensors, %llu bytes (%s)\n", sft_cuda_loaded_count(weights),
               (unsigned long long)sft_cuda_loaded_bytes(weights), reason);
    }
    sft_cuda_copies *copies = NULL; /* what a run (<sft/run.h>) stages its tensors with */
    if (weights != NULL && sft_cuda_loaded_at(weights, 0, &w) == SFT_OK &&
        sft_cuda_copies_create(&copies, gpu, 0, &err) == SFT_OK) {
        const sft_copier *c = sft_cuda_copies_copier(copies);
        void *back = c->alloc(c->ctx, (size_t)w.nbytes);
        if (back != NULL && c->copy(c->ctx, back, w.address, (size_t)w.nbytes, &err) == SFT_OK) {
            printf("back again: CRC32C %08lx\n",
                   (unsigned long)sft_crc32c(0, back, (size_t)w.nbytes));
        }
        if (back != NULL) {
            c->free(c->ctx, back, (size_t)w.nbytes);
        }
    }
    sft_cuda_copies_free(copies);
    const int failed = weights == NULL;
    sft_cuda_loaded_free(weights);
    sft_cuda_close(gpu);
    sft_pool_free(readers);
    sft_catalog_close(model);
    return failed;
}
