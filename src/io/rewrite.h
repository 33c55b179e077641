/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/rewrite.h - writing into a file that exists. For edits in place only; everything else
 * publishes.
 */
#ifndef SFT_IO_REWRITE_H
#define SFT_IO_REWRITE_H

#include "io/platform.h"

/* Opens for reading and writing. *refused (with a failure): this file may be read, but not written
 * to. */
sft_status sft__rewrite_open(const char *path, sft__handle *out, sft__stat *st, bool *refused,
                             sft_error *err);
/* Waits until this process alone edits the file behind the handle, until it is closed. Where the file
 * system knows no locks nobody waits. SFT_E_CANCELLED: `stop` said so, which is asked now and then;
 * it may be NULL. */
sft_status sft__rewrite_lock(sft__handle file, const char *path, bool (*stop)(void *), void *ctx,
                             sft_error *err);
/* Closes; with `durable` after the bytes reached the disk. SFT_E_DURABILITY if they perhaps did
 * not. */
sft_status sft__rewrite_close(sft__handle file, const char *path, bool durable, sft_error *err);

#endif
