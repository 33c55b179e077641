/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/api.c - the table of <sft/cuda.h> for programs that open this library at run time.
 */
#include <sft/cuda.h>

const sft_cuda_api *sft_cuda_api_get(void) {
    static const sft_cuda_api api = {
        .struct_size = sizeof api,
        .version = SFT_VERSION_STRING,
        .available = sft_cuda_available,
        .open = sft_cuda_open,
        .close = sft_cuda_close,
        .info_get = sft_cuda_info_get,
        .direct_probe = sft_cuda_direct_probe,
        .load_size = sft_cuda_load_size,
        .load = sft_cuda_load,
        .loaded_count = sft_cuda_loaded_count,
        .loaded_at = sft_cuda_loaded_at,
        .loaded_bytes = sft_cuda_loaded_bytes,
        .loaded_memory = sft_cuda_loaded_memory,
        .loaded_stats = sft_cuda_loaded_stats,
        .loaded_strategy = sft_cuda_loaded_strategy,
        .loaded_wait = sft_cuda_loaded_wait,
        .loaded_free = sft_cuda_loaded_free,
        .loaded_dlpack = sft_cuda_loaded_dlpack,
        .loaded_dlpack_old = sft_cuda_loaded_dlpack_old,
        .copies_create = sft_cuda_copies_create,
        .copies_copier = sft_cuda_copies_copier,
        .copies_free = sft_cuda_copies_free,
        .copies_stream = sft_cuda_copies_stream,
    };
    return &api;
}
