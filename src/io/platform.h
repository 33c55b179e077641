/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/platform.h - files of the operating system, as much of them as the library uses. One
 * implementation for POSIX and one for Windows. Paths are UTF-8. Every call loops over EINTR and
 * short counts.
 */
#ifndef SFT_IO_PLATFORM_H
#define SFT_IO_PLATFORM_H

#include "base/buf.h"
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

/* ---------------------------------------------------------------- opening */

/* Opens a regular file or a folder for reading (st says which); anything else is SFT_E_NOT_REGULAR,
 * and nothing blocks (a FIFO without a writer). *out is SFT__NO_HANDLE on failure, here and below.
 */
sft_status sft__path_open(const char *path, sft__handle *out, sft__stat *st, sft_error *err);
/* Opens for reading; refuses everything but regular files. */
sft_status sft__file_open(const char *path, sft__handle *out, sft__stat *st, sft_error *err);
/* A handle of its own for a C library descriptor of a regular file. name: for messages. */
sft_status sft__file_open_fd(int fd, const char *name, sft__handle *out, sft__stat *st,
                             sft_error *err);
/* Opens `name`, a relative path that sft__shard_name_check found harmless, below a folder that is
 * open as `folder` and called `folder_path` ("" is the current one). Symbolic links may not lead
 * out of the folder; only those of the Hugging Face cache (REPO/snapshots/... -> REPO/blobs/...)
 * may: else SFT_E_PATH. *missing: there is no such file; the status is SFT_E_SHARD_MISSING then. */
sft_status sft__file_open_below(sft__handle folder, const char *folder_path, const char *name,
                                sft__handle *out, sft__stat *st, bool *missing, sft_error *err);
void sft__file_close(sft__handle file); /* SFT__NO_HANDLE is fine */

/* ---------------------------------------------------------------- facts */

sft_status sft__file_stat(sft__handle file, const char *name, sft__stat *st, sft_error *err);
/* exists false (and SFT_OK) if there is nothing. Follows symbolic links. */
sft_status sft__path_stat(const char *path, bool *exists, sft__stat *st, sft_error *err);
/* Appends where a path that is a symbolic link leads in the end, with its NUL. *is: it is one, and leads to
 * something. */
sft_status sft__path_target(const char *path, sft__buf *out, bool *is, sft_error *err);
/* Calls visit for every name in the folder but "." and "..", in no particular order, until one call
 * does not return SFT_OK; that status is returned. */
typedef sft_status (*sft__folder_visit)(void *ctx, const char *name, size_t name_len,
                                        sft_error *err);
sft_status sft__folder_list(const char *path, sft__folder_visit visit, void *ctx, sft_error *err);
/* The C library descriptor behind a handle, or -1 where there is none (Windows). Borrowed. */
int sft__file_descriptor(sft__handle file);
/* The part of a path behind its last separator. */
const char *sft__path_base(const char *path);

/* ---------------------------------------------------------------- bytes */

/* All `size` bytes or SFT_E_TRUNCATED (offset in err) / SFT_E_IO. */
sft_status sft__file_read_at(sft__handle file, const char *name, uint64_t offset, void *dst,
                             size_t size, sft_error *err);
/* All of it or an error; positioned. */
sft_status sft__file_write_at(sft__handle file, const char *name, uint64_t offset, const void *src,
                              size_t size, sft_error *err);
/* Some bytes from the position of any C library descriptor, waiting if need be; *got 0: the end. */
sft_status sft__stream_read(int fd, void *dst, size_t size, size_t *got, sft_error *err);
/* Whole-file read-only mapping. size > 0. SFT_E_UNSUPPORTED where the file or its size cannot be
 * mapped. */
sft_status sft__file_map(sft__handle file, const char *name, uint64_t size, const void **map,
                         sft_error *err);
void sft__file_unmap(const void *map, uint64_t size);
/* Whether the range is probably in memory already, judged by its ends and its middle; false where the
 * system cannot tell. */
bool sft__file_resident(sft__handle file, uint64_t offset, uint64_t size);
void sft__file_advise(sft__handle file, uint64_t offset, uint64_t size, sft_advice advice);
void sft__map_advise(const void *map, uint64_t map_size, uint64_t offset, uint64_t size,
                     sft_advice advice);

#endif
