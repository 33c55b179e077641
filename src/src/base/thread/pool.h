/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/pool.h - work in the background of a caller's pool: indexes that workers take when nobody
 * waits for theirs. Read first: sft_pool_run in <sft/extend.h>.
 */
#ifndef SFT_BASE_POOL_H
#define SFT_BASE_POOL_H

#include "base/compiler.h"
#include <sft/types.h>

/* Set fn and ctx, zero the rest. fn must not wait for anything that needs the pool. */
typedef struct sft__base_batch {
    struct sft__base_batch *next;
    void (*fn)(void *ctx, size_t index);
    void *ctx;
    size_t count;
    size_t taken;
    size_t finished;
} sft__base_batch;

/* Adds `more` indexes and returns at once; any thread may, also fn itself. Does nothing where the pool has
 * no threads but the caller's (sft_pool_threads is 1). */
void sft__base_pool_add(const sft_pool *pool, sft__base_batch *batch, size_t more);
/* Returns when all indexes are done, taking part in it: then the batch may go. Nobody may add meanwhile. */
void sft__base_pool_wait(const sft_pool *pool, sft__base_batch *batch);

/* SFT__CPU_*: what this processor has, less what the pool leaves out. */
uint32_t sft__base_pool_cpu(const sft_pool *pool);

#endif
