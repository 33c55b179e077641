/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/disk/staging.h - a file on its way: .NAME.part beside its place, and .NAME.part.journal that
 * says which blocks of it are whole, each with its CRC32C. A block counts only if its bytes still
 * have that sum, so a journal that is ahead of its file after a crash does no harm. One process at
 * a time works on it.
 */
#ifndef SFT_REMOTE_STAGING_H
#define SFT_REMOTE_STAGING_H

#include "fs/file.h"
#include "remote/room.h"

enum { SFT__STAGE_BLOCK = 4 << 20 };

typedef struct sft__remote_staging {
    const sft_allocator *allocator;
    char *path; /* of the target; the others are made from it */
    char *part;
    char *journal;
    size_t path_size;
    size_t part_size;
    size_t journal_size;
    sft__fs_handle file; /* SFT__FS_NO_HANDLE: not open */
    sft__fs_handle journal_file;
    uint64_t size;
    uint64_t blocks;
    uint32_t *missing; /* per block: bytes that are still to come */
    uint64_t resumed;  /* bytes that were there */
} sft__remote_staging;

/* Makes the folders of `name` below `folder`, and takes up what an earlier try left if it was for
 * the same `identity` (a digest of what is fetched). SFT_E_IO: another process is at it. */
sft_status sft__remote_staging_open(sft__remote_staging *s, const char *folder, const char *name,
                                    uint64_t size, const uint8_t identity[32],
                                    const sft_allocator *allocator, sft_error *err);
/* Bytes, in any order, each once. */
sft_status sft__remote_staging_put(sft__remote_staging *s, uint64_t offset, const uint8_t *data,
                                   size_t size, sft_error *err);
bool sft__remote_staging_has(const sft__remote_staging *s, uint64_t block);
bool sft__remote_staging_whole(const sft__remote_staging *s);
sft_status sft__remote_staging_sha256(const sft__remote_staging *s, uint8_t digest[32],
                                      const sft_control *control, sft_error *err);
/* To disk; then published under its name. replace: false is SFT_E_EXISTS if something is there. */
sft_status sft__remote_staging_flush(const sft__remote_staging *s, sft_error *err);
sft_status sft__remote_staging_publish(sft__remote_staging *s, bool replace, sft_error *err);
/* Of an index: all files that it names are ready, and about to appear (sft_model_begin). */
sft_status sft__remote_staging_begin_set(const sft__remote_staging *s, sft_error *err);
void sft__remote_staging_drop(
    sft__remote_staging *s); /* removes both files: what is in them is wrong */
void sft__remote_staging_close(sft__remote_staging *s);

/* A file that is there already: its size and digest. SFT_E_NOT_FOUND: none. */
sft_status sft__remote_existing(const char *folder, const char *name, uint64_t *size,
                                uint8_t digest[32], const sft_allocator *allocator, sft_error *err);

#endif
