/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/stream.h - writing to an open descriptor at its position: pipe, socket, terminal or file.
 * Interrupted calls, short counts and full non-blocking descriptors are waited out. A reader that
 * went away is the error SFT_E_IO with EPIPE, never a signal. stream_posix.c and stream_win.c
 * implement it.
 */
#ifndef SFT_FS_STREAM_H
#define SFT_FS_STREAM_H

#include "fs/file.h"

/* A part of a vectored write. */
typedef struct sft__fs_span {
    const void *data;
    size_t size;
} sft__fs_span;

typedef struct sft__fs_stream {
    sft__fs_handle handle;
    bool socket;
    bool pipe;
} sft__fs_stream;

/* The descriptor stays the caller's. */
sft_status sft__fs_stream_init(sft__fs_stream *stream, int fd, sft_error *err);

/* All parts, one behind the other. */
sft_status sft__fs_stream_write(const sft__fs_stream *stream, const sft__fs_span *parts,
                                size_t count, sft_error *err);

/* The handle of a descriptor that positioned writes may go to: a regular file, not opened for
 * appending. */
sft_status sft__fs_stream_file(int fd, sft__fs_handle *out, sft_error *err);

#endif
