/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/loop.h - the one block loop: numbered blocks of work, done by a pool or by the calling thread, with
 * progress, cancellation, the first failure and buffers in common. Loads, reads, copies of a writer,
 * conversions, jobs and uploads to a GPU say what one block is. What is marked SFT_API is for the extension
 * libraries of the same version, and for nobody else. Read first: watch.h.
 */
#ifndef SFT_MOVE_LOOP_H
#define SFT_MOVE_LOOP_H

#include "move/watch.h"
#include <sft/extend.h>

#define SFT__LOOP_PAGE ((size_t)4096)

typedef struct sft__move_loop {
    /* Set these, zero the rest, then begin. */
    const sft_pool *pool; /* NULL: the calling thread alone, in the order of the numbers */
    const sft_allocator *allocator; /* of the buffers */
    size_t room;                    /* bytes of a buffer */
    size_t most; /* buffers at once: who wants another waits, and may hold none; 0: no limit */
    sft_status (*block)(void *ctx, size_t index, sft_error *err);
    void *ctx;
    sft__move_watch watch;
    void *idle; /* buffers, under the watch's lock */
    size_t made;
    sft__base_cond given; /* a buffer is idle again; where there is a limit */
} sft__move_loop;

/* control may be NULL; total: bytes, for progress. End it only if this was SFT_OK. */
SFT_API sft_status sft__move_loop_begin(sft__move_loop *loop, const sft_control *control,
                                        uint64_t total, sft_error *err);
/* Does blocks 0 to count - 1. Once one fails, or the caller wants an end, no other begins; the error is that
 * of the failed block with the lowest number. May be called again with other blocks. */
SFT_API sft_status sft__move_loop_run(sft__move_loop *loop, size_t count, sft_error *err);
/* Counts bytes and asks the caller. SFT_E_CANCELLED: he, or another block's failure, wants an end. */
SFT_API sft_status sft__move_loop_add(sft__move_loop *loop, uint64_t bytes, sft_error *err);
/* A buffer of `room` bytes, at a multiple of SFT__LOOP_PAGE; NULL: SFT_E_NOMEM, said in err. There are never
 * more of them than threads that hold one at once. */
SFT_API uint8_t *sft__move_loop_take(sft__move_loop *loop, sft_error *err);
SFT_API void sft__move_loop_give(sft__move_loop *loop, uint8_t *buffer); /* NULL is fine */
/* Frees everything; gives the failure, if there was one. */
SFT_API sft_status sft__move_loop_end(sft__move_loop *loop, sft_error *err);

#endif
