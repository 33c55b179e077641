/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/entry.h - entries of directories: made, renamed, removed, and brought to the disk.
 * entry_posix.c, entry_win.c.
 */
#ifndef SFT_FS_ENTRY_H
#define SFT_FS_ENTRY_H

#include "fs/file.h"

/* Opens a file for reading and writing, made empty if it is not there; contents stay. Links are refused. */
sft_status sft__fs_create(const char *path, sft__fs_handle *out, sft_error *err);
sft_status sft__fs_make_directory(const char *path, sft_error *err); /* one that is there is fine */
/* The same, for the owner alone if it is made. Windows: for whom the directory above says. */
sft_status sft__fs_create_private(const char *path, sft__fs_handle *out, sft_error *err);
sft_status sft__fs_make_directory_private(const char *path, sft_error *err);
/* Replaces a file, or an empty directory. SFT_E_NOT_COMMITTED. */
sft_status sft__fs_rename(const char *from, const char *to, sft_error *err);
/* SFT_E_EXISTS if something is there; a file system without second names is looked at first. Elsewhere the
 * first name may be left. */
sft_status sft__fs_rename_new(const char *from, const char *to, sft_error *err);
/* Another name for a file that is there; nothing is replaced. SFT_E_UNSUPPORTED: the file system has no
 * second names, or none for this file. Anything else is SFT_E_NOT_COMMITTED. */
sft_status sft__fs_link(const char *from, const char *to, sft_error *err);
sft_status sft__fs_remove(const char *path, sft_error *err); /* a file; none is fine */
bool sft__fs_remove_directory(const char *path);             /* if it is empty */
bool sft__fs_is_link(const char *path);

/* The entries of a directory, or of that of `path`, reach the disk. Some file systems have nothing to sync
 * there. */
sft_status sft__fs_sync_directory(const char *path, sft_error *err);
sft_status sft__fs_sync_parent(const char *path, sft_error *err);

#ifndef _WIN32
/* Of descriptors: a file (file_posix.c), a directory. 0, or -1 with errno. */
int sft__fs_sync_descriptor(int fd);
int sft__fs_sync_entries(int fd);
/* Both names in the open directory. 0; 1: done, but the first name is left; -1 with errno, EEXIST:
 * something is there. */
int sft__fs_rename_new_at(int directory, const char *from, const char *to);
#else
/* share: FILE_SHARE_... SFT_E_STATE: another process has it, and does not share it so. */
sft_status sft__fs_create_shared(const char *path, uint32_t share, sft__fs_handle *out,
                                 sft_error *err);
#endif

#endif
