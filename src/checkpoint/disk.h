/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/disk.h - the files and folders that a job writes: as much of the operating system as
 * it takes. disk_posix.c, disk_win.c. Paths are UTF-8. Every call loops over EINTR and short
 * counts.
 */
#ifndef SFT_CHECKPOINT_DISK_H
#define SFT_CHECKPOINT_DISK_H

#include "base/error.h"
#include <sft/types.h>

typedef intptr_t sft__checkpoint_disk;
#define SFT__DISK_NONE ((sft__checkpoint_disk)-1)

typedef struct sft__checkpoint_disk_fact {
    bool exists;
    bool folder;
    bool regular;
    uint64_t size;
    int64_t mtime_ns;
    uint64_t device;
    uint64_t number; /* of the file on its device */
} sft__checkpoint_disk_fact;

/* Opens for reading and writing, made empty if it is not there; contents stay. *out: SFT__DISK_NONE
 * on failure. */
sft_status sft__checkpoint_disk_open(const char *path, sft__checkpoint_disk *out, sft_error *err);
/* The same, held by this process alone until closed: SFT_E_STATE if another one has it. Where the
 * file system knows no locks, nobody is kept out. */
sft_status sft__checkpoint_disk_open_locked(const char *path, sft__checkpoint_disk *out,
                                            sft_error *err);
/* Makes a folder if it is not there, and holds it, as many may at once: waits for one that has it
 * alone. Where the file system knows no locks nobody is kept out. */
sft_status sft__checkpoint_disk_hold_folder(const char *path, sft__checkpoint_disk *out,
                                            sft_error *err);
/* Has a folder that is held alone from now on. False: another process holds it, too. */
bool sft__checkpoint_disk_hold_alone(sft__checkpoint_disk folder);
/* Is what is open still what the path leads to? */
bool sft__checkpoint_disk_is_at(sft__checkpoint_disk disk, const char *path);
void sft__checkpoint_disk_close(sft__checkpoint_disk disk); /* SFT__DISK_NONE is fine */
/* Gives the file its size, and its blocks where the file system can. May be called again. */
sft_status sft__checkpoint_disk_reserve(sft__checkpoint_disk disk, const char *path, uint64_t size,
                                        sft_error *err);
sft_status sft__checkpoint_disk_cut(sft__checkpoint_disk disk, const char *path, uint64_t size,
                                    sft_error *err);
sft_status sft__checkpoint_disk_write(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                      const void *data, size_t size, sft_error *err);
sft_status sft__checkpoint_disk_read(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                     void *data, size_t size, sft_error *err);
/* Copies from a descriptor inside the kernel. *moved: bytes that were; fewer where this way is not
 * open, or the source ends: no error, the rest is to be read and written. On local disks only what
 * could be shared instead of copied: the file system can, the positions agree modulo 4096. */
sft_status sft__checkpoint_disk_copy(sft__checkpoint_disk disk, const char *path, uint64_t offset,
                                     int fd, uint64_t from, uint64_t size, uint64_t *moved,
                                     sft_error *err);
sft_status sft__checkpoint_disk_sync(sft__checkpoint_disk disk, const char *path, sft_error *err);
/* Starts writing to the disk what was written to the range; a hint. */
void sft__checkpoint_disk_flush_soon(sft__checkpoint_disk disk, uint64_t offset, uint64_t size);

/* Follows links. Nothing there is no error. */
sft_status sft__checkpoint_disk_stat(const char *path, sft__checkpoint_disk_fact *fact,
                                     sft_error *err);
/* Of a descriptor of the C library. */
sft_status sft__checkpoint_disk_stat_fd(int fd, const char *path, sft__checkpoint_disk_fact *fact,
                                        sft_error *err);

sft_status sft__checkpoint_disk_make_folder(const char *path,
                                            sft_error *err); /* one that is there is fine */
sft_status sft__checkpoint_disk_rename(const char *from, const char *to,
                                       sft_error *err); /* replaces a file, or an empty folder */
/* The file `from`, which is about to replace `to`, gets what that one has beside its bytes. */
sft_status sft__checkpoint_disk_keep(const char *from, const char *to, sft_error *err);
sft_status sft__checkpoint_disk_remove(const char *path, sft_error *err); /* a file; none is fine */
bool sft__checkpoint_disk_is_link(const char *path);
bool sft__checkpoint_disk_remove_folder(const char *path); /* if it is empty */
sft_status sft__checkpoint_disk_sync_folder(const char *path, sft_error *err);

#endif
