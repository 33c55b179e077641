/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/gds.h - GPUDirect Storage by libcufile, found at run time, and the probe that tells whether
 * it is real. A file counts as reachable only when all of it holds: the library and its driver
 * open, a kernel path is there, silent fall-back is off, the file's handle is accepted, a small
 * read compares equal.
 */
#ifndef SFT_CUDA_GDS_H
#define SFT_CUDA_GDS_H

#include "cuda/device.h"

/* path: NULL for the system's; copied. Nothing is opened before the first file. */
sft_status sft__cuda_gds_create(sft__cuda_gds **out, const char *path,
                                const sft_allocator *allocator, sft_error *err);
void sft__cuda_gds_free(sft__cuda_gds *gds, const sft_allocator *allocator); /* NULL is fine */

/* A file whose probe said yes. */
typedef struct sft__cuda_gds_file {
    void *handle;
    int direct; /* the descriptor behind it */
} sft__cuda_gds_file;

/* With the context current. False: *reason says why not, and there is nothing to close. */
bool sft__cuda_gds_open_file(sft_cuda *cuda, const sft_source *source, sft__cuda_gds_file *out,
                             const char **reason);
/* `size` bytes at `offset` of the file to base + at. False: not all came; nothing is said of what
 * did. */
bool sft__cuda_gds_read(const sft_cuda *cuda, const sft__cuda_gds_file *file, uint64_t base,
                        uint64_t at, uint64_t offset, uint64_t size);
void sft__cuda_gds_close_file(const sft_cuda *cuda, sft__cuda_gds_file *file);

#endif
