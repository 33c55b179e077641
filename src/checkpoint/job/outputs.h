/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/outputs.h - the files of a job in its staging folder, opened when they are written to,
 * and not too many at once. Read stage.h first.
 */
#ifndef SFT_CHECKPOINT_OUTPUTS_H
#define SFT_CHECKPOINT_OUTPUTS_H

#include "base/thread.h"
#include "checkpoint/job/stage.h"

typedef struct sft__output {
    sft__fs_handle disk;
    uint32_t users;
    bool dirty; /* written to, not flushed */
    bool made;  /* has its size, by this process */
} sft__output;

/* Threads: put and get may be called by many at once. */
typedef struct sft__outputs {
    const sft__stage *stage;
    sft__output *files;
    size_t count;
    size_t open;
    size_t hand; /* where the search for one to close goes on */
    sft__mutex lock;
    bool locked; /* the lock exists */
} sft__outputs;

sft_status sft__outputs_init(sft__outputs *o, const sft__stage *stage, sft_error *err);
void sft__outputs_reset(sft__outputs *o);
/* Creates and reserves every file. */
sft_status sft__outputs_reserve(sft__outputs *o, sft_error *err);
sft_status sft__outputs_write(sft__outputs *o, size_t file, uint64_t offset, const void *data,
                              size_t size, sft_error *err);
/* See sft__fs_copy_cheaply. */
sft_status sft__outputs_copy(sft__outputs *o, size_t file, uint64_t offset, int fd, uint64_t from,
                             uint64_t size, uint64_t *moved, sft_error *err);
sft_status sft__outputs_read(sft__outputs *o, size_t file, uint64_t offset, void *data, size_t size,
                             sft_error *err);
/* A hint that the range will be waited for. */
void sft__outputs_soon(sft__outputs *o, size_t file, uint64_t offset, uint64_t size);
/* Flushes what was written up to this call. One thread at a time. */
sft_status sft__outputs_sync(sft__outputs *o, sft_error *err);
/* Closes all that nobody uses. Flushes nothing. */
void sft__outputs_close(sft__outputs *o);
/* Flushes one file and closes it. */
sft_status sft__outputs_finish(sft__outputs *o, size_t file, bool sync, sft_error *err);

#endif
