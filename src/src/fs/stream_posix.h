/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/stream_posix.h - what copy_posix.c shares with stream_posix.c: waiting for room, and keeping
 * SIGPIPE away from the process. Only for the POSIX implementations.
 */
#ifndef SFT_FS_STREAM_POSIX_H
#define SFT_FS_STREAM_POSIX_H

#ifndef _WIN32
#include "fs/stream.h"
#include <signal.h>

typedef struct sft__fs_sigpipe {
    sigset_t set;
    sigset_t old;
    bool was_pending;
    bool held;
} sft__fs_sigpipe;

void sft__fs_sigpipe_hold(sft__fs_sigpipe *s);
/* raised: a write failed with EPIPE in between. */
void sft__fs_sigpipe_release(sft__fs_sigpipe *s, bool raised);

/* Waits until a non-blocking descriptor takes bytes again. 0, or -1 with errno. */
int sft__fs_stream_wait(int fd);
#endif

#endif
