/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/file.h - files of the operating system, as much of them as the library uses. One
 * implementation for POSIX and one for Windows. Paths are UTF-8. Every call loops over EINTR and
 * short counts.
 */
#ifndef SFT_FS_FILE_H
#define SFT_FS_FILE_H

#include "base/error.h"
#include "base/text/buf.h"
#include <sft/source.h>

/* A handle of an open file: descriptor on POSIX, HANDLE on Windows. */
typedef intptr_t sft__fs_handle;
#define SFT__FS_NO_HANDLE ((sft__fs_handle) - 1)

typedef struct sft__fs_stat {
    bool exists; /* else all is zero */
    uint64_t size;
    uint64_t stored; /* bytes of it on the disk, where known; else size */
    uint64_t device;
    uint64_t inode;
    int64_t mtime_ns;
    uint32_t mode;  /* POSIX permission bits; 0644 on Windows */
    uint32_t names; /* hard links */
    bool regular;
    bool folder;
} sft__fs_stat;

/* ---------------------------------------------------------------- opening */

/* Opens a regular file or a folder for reading (st says which); anything else is SFT_E_NOT_REGULAR,
 * and nothing blocks (a FIFO without a writer). *out is SFT__FS_NO_HANDLE on failure, here and below.
 */
sft_status sft__fs_open_any(const char *path, sft__fs_handle *out, sft__fs_stat *st,
                            sft_error *err);
/* Opens for reading; refuses everything but regular files. */
sft_status sft__fs_open(const char *path, sft__fs_handle *out, sft__fs_stat *st, sft_error *err);
/* A handle of its own for a C library descriptor of a regular file. name: for messages. */
sft_status sft__fs_open_fd(int fd, const char *name, sft__fs_handle *out, sft__fs_stat *st,
                           sft_error *err);
void sft__fs_close(sft__fs_handle file); /* SFT__FS_NO_HANDLE is fine */

/* ---------------------------------------------------------------- facts */

sft_status sft__fs_stat_file(sft__fs_handle file, const char *name, sft__fs_stat *st,
                             sft_error *err);
/* Of a descriptor of the C library. */
sft_status sft__fs_stat_fd(int fd, const char *name, sft__fs_stat *st, sft_error *err);
/* exists false (and SFT_OK) if there is nothing. Follows symbolic links. */
sft_status sft__fs_stat_path(const char *path, bool *exists, sft__fs_stat *st, sft_error *err);
/* The same, and what would lie below a file is not there either: st->exists says so. */
sft_status sft__fs_look(const char *path, sft__fs_stat *st, sft_error *err);
bool sft__fs_is_directory(const char *path);
/* Is what is open still what the path leads to? */
bool sft__fs_is_at(sft__fs_handle file, const char *path);
/* Do both paths lead to one file that is there? */
bool sft__fs_is_same(const char *a, const char *b);
/* Appends where a path that is a symbolic link leads in the end, with its NUL. *is: it is one, and leads to
 * something. */
sft_status sft__fs_link_target(const char *path, sft__base_buf *out, bool *is, sft_error *err);
/* Appends the absolute path without links that `path` leads to, with its NUL.
 * False: nothing is there, or no memory. */
bool sft__fs_real(const char *path, sft__base_buf *out);

/* A file without a name, open for reading and writing, gone when it is closed. Windows: SFT_E_UNSUPPORTED. */
sft_status sft__fs_scratch(sft__fs_handle *out, sft_error *err);

/* Calls visit for every name in the folder but "." and "..", in no particular order, until one call
 * does not return SFT_OK; that status is returned. */
typedef sft_status (*sft__fs_visit)(void *ctx, const char *name, size_t name_len, sft_error *err);
sft_status sft__fs_list(const char *path, sft__fs_visit visit, void *ctx, sft_error *err);
/* The C library descriptor behind a handle, or -1 where there is none (Windows). Borrowed. */
int sft__fs_descriptor(sft__fs_handle file);
/* The part of a path behind its last separator. */
const char *sft__fs_base_name(const char *path);

/* ---------------------------------------------------------------- bytes */

/* All `size` bytes or SFT_E_TRUNCATED (offset in err) / SFT_E_IO. */
sft_status sft__fs_read_at(sft__fs_handle file, const char *name, uint64_t offset, void *dst,
                           size_t size, sft_error *err);
/* All of it or an error; positioned. */
sft_status sft__fs_write_at(sft__fs_handle file, const char *name, uint64_t offset, const void *src,
                            size_t size, sft_error *err);
/* SFT_E_IO with EFBIG in err->sys if this process may not make a file of this size: growing past its limit
 * would not only fail, but raise a signal. */
sft_status sft__fs_may_grow(const char *name, uint64_t size, sft_error *err);
/* Gives an open file its size, and blocks for all of it where the file system can: no space is told here.
 * May be called again. */
sft_status sft__fs_reserve(sft__fs_handle file, const char *name, uint64_t size, sft_error *err);
sft_status sft__fs_resize(sft__fs_handle file, const char *name, uint64_t size, sft_error *err);
/* To the disk. One that failed is never tried again: the system may have dropped the pages, a second one
 * would lie. */
sft_status sft__fs_sync(sft__fs_handle file, const char *name, sft_error *err);
/* Starts writing to the disk what was written to the range; a hint. */
void sft__fs_sync_soon(sft__fs_handle file, uint64_t offset, uint64_t size);
/* Some bytes from the position of any C library descriptor, waiting if need be; *got 0: the end. */
sft_status sft__fs_stream_read(int fd, void *dst, size_t size, size_t *got, sft_error *err);
/* Whole-file read-only mapping. size > 0. SFT_E_UNSUPPORTED where the file or its size cannot be
 * mapped. */
sft_status sft__fs_map(sft__fs_handle file, const char *name, uint64_t size, const void **map,
                       sft_error *err);
void sft__fs_unmap(const void *map, uint64_t size);
/* Whether the range is probably in memory already, judged by its ends and its middle; false where the
 * system cannot tell. */
bool sft__fs_resident(sft__fs_handle file, uint64_t offset, uint64_t size);
void sft__fs_advise(sft__fs_handle file, uint64_t offset, uint64_t size, sft_advice advice);
void sft__fs_map_advise(const void *map, uint64_t map_size, uint64_t offset, uint64_t size,
                        sft_advice advice);

#endif
