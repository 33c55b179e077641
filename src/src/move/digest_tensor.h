/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/digest_tensor.h - digests of tensors, streamed in bounded blocks, many at once over a pool;
 * and the order in which recorded digests and the content hash take tensors. Read first:
 * <sft/digest.h>.
 */
#ifndef SFT_MOVE_DIGEST_TENSOR_H
#define SFT_MOVE_DIGEST_TENSOR_H

#include "move/loop.h"
#include <sft/digest.h>

/* One stretch of one tensor. `want` is SFT_DIGEST_*; a stretch that is not the whole tensor has
 * CRC32C alone, which can be combined. */
typedef struct sft__move_digest_job {
    const sft_tensor *tensor;
    uint64_t begin;
    uint64_t size;
    uint32_t want;
    uint32_t cpu; /* features that may be used; sft__move_digest_jobs_run sets them */
    sft_status status;
    uint32_t crc;
    uint8_t sha[32];
    sft_error error; /* if status is not SFT_OK */
} sft__move_digest_job;

/* Does one job in the calling thread; buffer: SFT__DIGEST_BUFFER bytes. */
#define SFT__DIGEST_BUFFER ((size_t)256 << 10)
void sft__move_digest_job_run(const sft_catalog *catalog, sft__move_digest_job *job,
                              uint8_t *buffer, sft__move_watch *watch);

/* Does all of them by the loop, which has begun. Fails only if cancelled or out of memory: a tensor that
 * cannot be read fails its job. */
sft_status sft__move_digest_jobs_run(const sft_catalog *catalog, sft__move_digest_job *jobs,
                                     size_t count, sft__move_loop *loop, sft_error *err);

/* Names by bytes, as memcmp; a prefix comes first. */
int sft__move_name_order(const sft_tensor *a, const sft_tensor *b);
/* The description of one tensor, as <sft/digest.h> defines it, in pieces. */
void sft__move_describe(const sft_tensor *tensor,
                        void (*feed)(void *ctx, const void *data, size_t size), void *ctx);
void sft__move_feed_crc(void *ctx, const void *data, size_t size); /* ctx: uint32_t */
void sft__move_feed_sha(void *ctx, const void *data, size_t size); /* ctx: sft_sha256 */

#endif
