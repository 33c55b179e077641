/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/publish.h - a file that becomes visible all at once, or not at all. The bytes are gathered in
 * a file without a name (or with a random one) in the directory of the target; commit gives it the
 * target's name. Until then, and after any failure but SFT_E_DURABILITY, the old state is intact.
 * One implementation for POSIX (publish_posix.c) and one for Windows (publish_win.c).
 */
#ifndef SFT_FS_PUBLISH_H
#define SFT_FS_PUBLISH_H

#include "fs/file.h"
#include "fs/stream.h"
#include <sft/write.h>

typedef struct sft__fs_publish sft__fs_publish;

typedef struct sft__fs_publish_options {
    const sft_allocator *allocator;
    sft_durability durability;
    uint32_t mode; /* as in sft_write_options */
    bool new_only; /* SFT_E_EXISTS if the target exists */
    /* NULL, or what is to be replaced: SFT_E_CHANGED, and the target stays what it is, if it is another
     * file by then, or was written to. The two are exchanged where the system can, so that nothing
     * that came at the last moment is lost; elsewhere it is looked at just before. */
    const sft__fs_stat *expected;
} sft__fs_publish_options;

/* Checks the target (a regular file or nothing; a symbolic link is followed to what it names), and
 * creates the file to be written in its directory. Errors: PATH, NOT_REGULAR, EXISTS, IO, NOMEM. */
sft_status sft__fs_publish_open(sft__fs_publish **out, const char *path,
                                const sft__fs_publish_options *options, sft_error *err);

/* The file being written: open for reading and writing. */
sft__fs_handle sft__fs_publish_handle(const sft__fs_publish *publish);
const char *
sft__fs_publish_name(const sft__fs_publish *publish); /* the path as given, for messages */

/* SFT_E_IO with EFBIG in err->sys if this process may not make a file of this size: growing past
 * its limit would not only fail, but raise a signal. sft__fs_publish_reserve asks this itself. */
sft_status sft__fs_publish_may_grow(const sft__fs_publish *publish, uint64_t size, sft_error *err);

/* Gives the file its size and its blocks where the file system can: no space is told here, with
 * ENOSPC in err->sys, before any data is written. */
sft_status sft__fs_publish_reserve(sft__fs_publish *publish, uint64_t size, sft_error *err);

/* Writes the parts one behind the other at `offset`. Any number of threads, on ranges that do not
 * overlap. With SFT_DURABLE_FULL large parts of large files go past the cache where the system can:
 * cheapest from offsets that are multiples of SFT__FS_PUBLISH_ALIGN. */
#define SFT__FS_PUBLISH_ALIGN ((uint64_t)4 << 20)
sft_status sft__fs_publish_write(sft__fs_publish *publish, uint64_t offset,
                                 const sft__fs_span *parts, size_t count, sft_error *err);

/* Makes it visible. SFT_E_NOT_COMMITTED (cause in err->sys), SFT_E_EXISTS: the old state is intact.
 * SFT_E_DURABILITY: the new file is in place, but is perhaps not on the disk yet. Call once; then
 * free. */
sft_status sft__fs_publish_commit(sft__fs_publish *publish, sft_error *err);

/* Without a commit: removes what was written. NULL is fine. */
void sft__fs_publish_free(sft__fs_publish *publish);

#endif
