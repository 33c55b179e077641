/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/staged.h - files and directories that outlive the process that writes them, and who may write
 * them: locks end with the process that holds them, however it ends. Where the file system knows no locks
 * nobody is kept out. staged.c, staged_posix.c, staged_win.c.
 */
#ifndef SFT_FS_STAGED_H
#define SFT_FS_STAGED_H

#include "fs/output/entry.h"

/* sft__fs_create of a file that has one name only: with another one its file would change. SFT_E_EXISTS. */
sft_status sft__fs_staged_open(const char *path, sft__fs_handle *out, sft_error *err);
/* The same, held by this process alone until closed: SFT_E_STATE if another one has it. */
sft_status sft__fs_staged_open_alone(const char *path, sft__fs_handle *out, sft_error *err);
/* The same of a file that is a lock and nothing else: no bytes, so that it may have other names. */
sft_status sft__fs_staged_lock_alone(const char *path, sft__fs_handle *out, sft_error *err);
/* Makes a directory if it is not there, and holds it, as many may at once: waits for one that has it
 * alone. */
sft_status sft__fs_hold_directory(const char *path, sft__fs_handle *out, sft_error *err);
/* Holds a directory that is there, with others (shared) or alone, without waiting. False: *busy says whether
 * another process holds it; else there are no such locks here. */
bool sft__fs_try_hold(const char *path, bool shared, sft__fs_handle *out, bool *busy);
/* Has a directory that is held alone from now on. False: another process holds it, too. */
bool sft__fs_hold_alone(sft__fs_handle directory);

#endif
