/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/load.h - a load on its way and what it leaves. Read first: device.h, plan.h.
 */
#ifndef SFT_CUDA_LOAD_H
#define SFT_CUDA_LOAD_H

#include "cuda/device.h"
#include "cuda/gds.h"
#include "cuda/plan.h"
#include "io/reader.h"

/* One source of the catalog, and how it is read. */
typedef struct sft__cuda_input {
    sft__io_reader reader;
    const char *gds_reason;
    sft__cuda_gds_file gds;
    bool by_gds;
    atomic_bool gds_refused; /* a read by cuFile did not come through */
} sft__cuda_input;

struct sft_cuda_loaded {
    const sft_allocator *allocator;
    sft__cuda_slab *slab;
    sft__cuda_plan plan; /* places only, once it is loaded */
    sft__cuda_input *inputs;
    uint32_t *file_source; /* per file of the catalog, its source */
    size_t file_count;
    sft_cuda_stats stats;
};

/* ---------------------------------------------------------------- inputs (input.c) */

/* Chooses how each source is read, and opens what that needs. */
void sft__cuda_inputs_open(sft_cuda *cuda, sft_cuda_loaded *loaded, const sft_cuda_load_options *o);
/* Closes; SFT_E_CHANGED if a file is not what it was. With the context current. */
sft_status sft__cuda_inputs_close(sft_cuda *cuda, sft_cuda_loaded *loaded, sft_status status,
                                  sft_error *err);

#endif
