/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/platform.h - files of the operating system, as much of them as the library uses. One implementation
 * for POSIX and one for Windows. Paths are UTF-8. Every call loops over EINTR and short counts.
 */
#ifndef SFT_IO_PLATFORM_H
#define SFT_IO_PLATFORM_H

#include "base/error.h"
#include <sft/source.h>

/* A handle of an open file: descriptor on POSIX, HANDLE on Windows. */
typedef intptr_t sft__handle;
#define SFT__NO_HANDLE ((sft__handle)-1)

typedef struct sft__stat {
    uint64_t size;
    uint64_t device;
    uint64_t inode;
    int64_t mtime_ns;
    uint32_t mode; /* POSIX permission bits; 0644 on Windows */
    bool regular;
    bool folder;
} sft__stat;

/* Opens for reading; refuses everything but regular files (without blocking on a FIFO). */
sft_status sft__file_open(const char *path, sft__handle *out, sft__stat *st, sft_error *err);
sft_status sft__file_stat(sft__handle file, const char *name, sft__stat *st, sft_error *err);
/* exists false (and SFT_OK) if there is nothing. Follows symbolic links. */
sft_status sft__path_stat(const char *path, bool *exists, sft__stat *st, sft_error *err);
void sft__file_close(sft__handle file);

/* All `size` bytes or SFT_E_TRUNCATED (offset in err) / SFT_E_IO. */
sft_status sft__file_read_at(sft__handle file, const char *name, uint64_t offset, void *dst, size_t size,
                             sft_error *err);
/* All of it or an error; positioned. */
sft_status sft__file_write_at(sft__handle file, const char *name, uint64_t offset, const void *src,
                              size_t size, sft_error *err);
/* Whole-file read-only mapping. size > 0. */
sft_status sft__file_map(sft__handle file, const char *name, uint64_t size, const void **map,
                         sft_error *err);
void sft__file_unmap(const void *map, uint64_t size);
void sft__file_advise(sft__handle file, uint64_t offset, uint64_t size, sft_advice advice);
void sft__map_advise(const void *map, uint64_t map_size, uint64_t offset, uint64_t size,
                     sft_advice advice);

#endif
