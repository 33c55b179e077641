/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/probe.h - what the system tells about an open file before much of it is read, and the way past
 * its page cache. Descriptors are the C library's; where there are none (Windows) nothing is known
 * and nothing is direct, and all callers have another way.
 */
#ifndef SFT_FS_PROBE_H
#define SFT_FS_PROBE_H

#include "base/compiler.h"
#include <sft/source.h>

typedef enum sft__fs_kind {
    SFT__FS_UNKNOWN = 0,
    SFT__FS_LOCAL,   /* a disk of this machine */
    SFT__FS_MEMORY,  /* tmpfs and its like */
    SFT__FS_NETWORK, /* NFS, Lustre, CIFS, 9p, Ceph ... */
    SFT__FS_FUSE     /* a program: anything may be behind it */
} sft__fs_kind;

/* Offsets, sizes and addresses of direct reads are multiples of this. */
#define SFT__FS_DIRECT_ALIGN ((size_t)4096)

/* The kind of file system and its name ("unknown" if it has none here). */
sft__fs_kind sft__fs_system(int fd, const char **name);
/* Is a copy from file to file on it best left to the kernel: a server does it, or blocks are shared?
 * aligned: the offsets differ by whole blocks. False where that is not known. */
bool sft__fs_copies_well(int fd, bool aligned);
/* Percent of `size` bytes that are in the page cache, from samples; -1: the system does not tell.
 */
int sft__fs_cached(int fd, uint64_t size);
/* A second descriptor of the file, for direct reads; -1: there is no such way. */
int sft__fs_open_direct(int fd);
void sft__fs_close_direct(int direct); /* -1 is fine */
/* All of it, or false: the caller then reads through the cache, which also finds the error. */
bool sft__fs_read_direct(int direct, uint64_t offset, void *dst, size_t size);
/* Ranges that follow each other in the file, in one call; false if they did not all come so: the
 * caller then reads one by one, which also finds the error. */
bool sft__fs_read_vector(int fd, const sft_io_range *ranges, size_t count);
/* Size and time of last change, to be compared; false if not known. */
typedef struct sft__fs_stamp {
    uint64_t size;
    int64_t mtime_ns;
} sft__fs_stamp;
bool sft__fs_stamp_fd(int fd, sft__fs_stamp *out);
/* Brings the pages of mapped memory in. False: some could not be read, the file may have shrunk.
 * True where the system has no such call. */
bool sft__fs_map_populate(const void *map, size_t size);

#endif
