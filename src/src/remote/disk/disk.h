/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/disk/disk.h - blocks that were read, on disk, for those who ask for it. Per version of a file
 * two files: NAME.blocks, sparse, blocks where they lie in the original, and NAME.table with the
 * CRC32C of each block that is there. NAME is the SHA-256 of URL, version and size. A block whose
 * sum does not fit is not there: so nothing needs to be flushed or locked, whoever else writes, and
 * whatever a crash leaves.
 */
#ifndef SFT_REMOTE_DISK_H
#define SFT_REMOTE_DISK_H

#include "remote/room.h"

/* folder: made if missing. bytes: limit for all files in it. */
sft_status sft__remote_disk_open(sft__remote_disk **out, const char *folder, uint64_t bytes,
                                 const sft_allocator *allocator, sft_error *err);
void sft__remote_disk_close(sft__remote_disk *disk); /* NULL is fine */
bool sft__remote_disk_get(sft__remote_disk *disk, const sft__remote_object *object, uint64_t index,
                          uint8_t *dst, size_t size);
void sft__remote_disk_put(sft__remote_disk *disk, const sft__remote_object *object, uint64_t index,
                          const uint8_t *data, size_t size);

#endif
