/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/checkpoint.h - checkpoints of many ranks: global tensors from their shards, and shards of global
 * tensors. In the library libsafetensors-checkpoint.
 *
 * Nothing is copied: both ways make a catalog whose tensors have pieces in the files that hold them. Reading,
 * saving, comparing and hashing such a catalog moves the bytes, in bounded memory, by the same engine as for
 * any other. From N ranks to M: sft_checkpoint_join_ranks, then sft_checkpoint_part for each of the M.
 *
 * Caveats first. The catalogs given must outlive the one that comes out. Replicas are assumed to be equal:
 * one holder of each part is chosen (the one with the fewest bytes so far, then the lowest rank).
 *
 * Threads: like any catalog, the result may be shared.
 */
#ifndef SFT_CHECKPOINT_H
#define SFT_CHECKPOINT_H

#include <sft/catalog.h>
#include <sft/layout.h>
#include <sft/mindspore.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Says how a global tensor is sharded for rank `rank`.
 * *layout: NULL (set on entry) means that it is not: every rank holds all of it. Otherwise a layout that
 * outlives the call. shape: room for SFT_LAYOUT_RANK sizes, *dims of the global tensor; set on entry to those
 * of `tensor`. A status other than SFT_OK ends the operation with it. */
typedef sft_status (*sft_layout_find)(void *ctx, const sft_tensor *tensor, uint64_t rank,
                                      const sft_layout **layout, uint64_t *shape, size_t *dims,
                                      sft_error *err);

/* What one rank holds. */
typedef struct sft_rank_part {
    const sft_catalog *catalog;
    uint64_t rank;
} sft_rank_part;

/* What rank `rank` holds: the local shard of each tensor by its layout, replicated where it has none, left
 * out where its layout does not have the rank. An empty shard stays, with a size of 0. SFT_E_SHAPE names the
 * tensor that cannot be sharded so. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_part(sft_catalog **out, const sft_catalog *global,
                                                      uint64_t rank, sft_layout_find find,
                                                      void *ctx, const sft_open_options *options,
                                                      sft_error *err);

/* The number that MindSpore's save_checkpoint(crc_check=True) records as "crc_num" in the metadata
 * of a file (its position in the catalog), and load_checkpoint(crc_check=True) compares: a decimal
 * number there. Reads all tensors of the file, in the order of their names. Errors: of reading;
 * SFT_E_CANCELLED. Memory: 1 MiB, and a pointer for each tensor. */
SFT_API SFT_MUST_CHECK sft_status sft_ms_crc_num(const sft_catalog *catalog, size_t file,
                                                 const sft_control *control, uint32_t *out,
                                                 sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
