/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/stream_posix.h - what copy_posix.c shares with stream_posix.c: waiting for room, and keeping
 * SIGPIPE away from the process. Only for the POSIX implementations.
 */
#ifndef SFT_IO_STREAM_POSIX_H
#define SFT_IO_STREAM_POSIX_H

#ifndef _WIN32
#include "io/stream.h"
#include <signal.h>

typedef struct sft__sigpipe {
    sigset_t set;
    sigset_t old;
    bool was_pending;
    bool held;
} sft__sigpipe;

void sft__sigpipe_hold(sft__sigpipe *s);
/* raised: a write failed with EPIPE in between. */
void sft__sigpipe_release(sft__sigpipe *s, bool raised);

/* Waits until a non-blocking descriptor takes bytes again. 0, or -1 with errno. */
int sft__stream_wait(int fd);
#endif

#endif
