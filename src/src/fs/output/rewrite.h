/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/rewrite.h - writing into a file that exists. For edits in place only; everything else
 * publishes.
 */
#ifndef SFT_FS_REWRITE_H
#define SFT_FS_REWRITE_H

#include "fs/file.h"

/* Opens for reading and writing. *refused (with a failure): this file may be read, but not written
 * to. */
sft_status sft__fs_rewrite_open(const char *path, sft__fs_handle *out, sft__fs_stat *st,
                                bool *refused, sft_error *err);
/* Waits until this process alone edits the file behind the handle, until it is closed. Where the file
 * system knows no locks nobody waits. SFT_E_CANCELLED: `stop` said so, which is asked now and then;
 * it may be NULL. */
sft_status sft__fs_rewrite_lock(sft__fs_handle file, const char *path, bool (*stop)(void *),
                                void *ctx, sft_error *err);
/* Closes; with `durable` after the bytes reached the disk. SFT_E_DURABILITY if they perhaps did
 * not. */
sft_status sft__fs_rewrite_close(sft__fs_handle file, const char *path, bool durable,
                                 sft_error *err);

#endif
