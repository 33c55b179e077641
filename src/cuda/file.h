/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/file.h - a file past the page cache, and what shows that it changed. The core has the same
 * for its own loads, but privately; a wing stands on public headers. Descriptors come from
 * sft_source_descriptor.
 */
#ifndef SFT_CUDA_FILE_H
#define SFT_CUDA_FILE_H

#include "base/compiler.h"

/* Offsets, sizes and addresses of direct reads are multiples of this. */
#define SFT__CUDA_DIRECT_ALIGN ((size_t)4096)

typedef struct sft__cuda_stamp {
    uint64_t size;
    int64_t mtime_ns;
} sft__cuda_stamp;

int sft__cuda_fd_direct(int fd);     /* a second descriptor for direct reads, or -1 */
void sft__cuda_fd_close(int direct); /* -1 is fine */
/* All of it, or false: the caller then reads through the cache, which also finds the error. */
bool sft__cuda_fd_read(int direct, uint64_t offset, void *dst, size_t size);
bool sft__cuda_fd_stamp(int fd, sft__cuda_stamp *out);

#endif
