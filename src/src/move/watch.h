/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/watch.h - what the workers of one operation share: progress, cancellation and the first
 * error. The caller's poll is called under the lock, so never from two threads at once.
 */
#ifndef SFT_MOVE_WATCH_H
#define SFT_MOVE_WATCH_H

#include "base/error.h"
#include "base/thread/thread.h"
#include <sft/types.h>

typedef struct sft__move_watch {
    const sft_control *control; /* NULL: nobody asks */
    sft__base_mutex lock;       /* used only if shared */
    bool shared;
    bool stop;
    sft_progress progress;
    sft_status status; /* of the failed job with the lowest number */
    size_t job;
    sft_error error;
} sft__move_watch;

/* shared: several threads will use it. control may be NULL. */
sft_status sft__move_watch_init(sft__move_watch *w, const sft_control *control,
                                uint64_t bytes_total, bool shared, sft_error *err);
/* Counts bytes and polls. SFT_OK: go on; SFT_E_CANCELLED (err filled) if the caller or another
 * job's failure wants an end. */
sft_status sft__move_watch_add(sft__move_watch *w, uint64_t bytes, sft_error *err);
/* A job failed: keeps the error of the lowest job number, and stops the others. */
void sft__move_watch_fail(sft__move_watch *w, size_t job, sft_status status,
                          const sft_error *error);
/* Frees it; gives the failure, if there was one. */
sft_status sft__move_watch_end(sft__move_watch *w, sft_error *err);

#endif
