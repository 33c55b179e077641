/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/outputs.h - the files of a job in its staging directory, opened when they are written to,
 * and not too many at once. Read stage.h first.
 */
#ifndef SFT_CHECKPOINT_OUTPUTS_H
#define SFT_CHECKPOINT_OUTPUTS_H

#include "base/thread/thread.h"
#include "checkpoint/stage/stage.h"

typedef struct sft__checkpoint_output {
    sft__fs_handle disk;
    uint32_t users;
    bool dirty; /* written to, not flushed */
    bool made;  /* has its size, by this process */
} sft__checkpoint_output;

/* Threads: put and get may be called by many at once. */
typedef struct sft__checkpoint_outputs {
    const sft__checkpoint_stage *stage;
    sft__checkpoint_output *files;
    size_t count;
    size_t open;
    size_t hand; /* where the search for one to close goes on */
    sft__base_mutex lock;
    bool locked; /* the lock exists */
} sft__checkpoint_outputs;

sft_status sft__checkpoint_outputs_init(sft__checkpoint_outputs *o,
                                        const sft__checkpoint_stage *stage, sft_error *err);
void sft__checkpoint_outputs_reset(sft__checkpoint_outputs *o);
/* Creates and reserves every file. */
sft_status sft__checkpoint_outputs_reserve(sft__checkpoint_outputs *o, sft_error *err);
sft_status sft__checkpoint_outputs_write(sft__checkpoint_outputs *o, size_t file, uint64_t offset,
                                         const void *data, size_t size, sft_error *err);
/* See sft__fs_copy_cheaply. */
sft_status sft__checkpoint_outputs_copy(sft__checkpoint_outputs *o, sft__checkpoint_range to,
                                        int fd, uint64_t from, uint64_t *moved, sft_error *err);
sft_status sft__checkpoint_outputs_read(sft__checkpoint_outputs *o, size_t file, uint64_t offset,
                                        void *data, size_t size, sft_error *err);
/* A hint that the range will be waited for. */
void sft__checkpoint_outputs_soon(sft__checkpoint_outputs *o, size_t file, uint64_t offset,
                                  uint64_t size);
/* Flushes what was written up to this call. One thread at a time. */
sft_status sft__checkpoint_outputs_sync(sft__checkpoint_outputs *o, sft_error *err);
/* Closes all that nobody uses. Flushes nothing. */
void sft__checkpoint_outputs_close(sft__checkpoint_outputs *o);
/* Flushes one file and closes it. */
sft_status sft__checkpoint_outputs_finish(sft__checkpoint_outputs *o, size_t file, bool sync,
                                          sft_error *err);

#endif
