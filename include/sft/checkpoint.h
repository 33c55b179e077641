/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/checkpoint.h - checkpoints of many ranks: global tensors from their shards, and shards of global
 * tensors. In the library libsafetensors-checkpoint.
 *
 * Nothing is copied: both ways make a catalog whose tensors have pieces in the files that hold them. Reading,
 * saving, comparing and hashing such a catalog moves the bytes, in bounded memory, by the same engine as for
 * any other. From N ranks to M is join, then part for each of the M.
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

/* Says how a tensor is sharded. tensor: as it stands in the catalog asked about: a rank's own tensor for join
 * (`rank` says whose), the global one for part (`rank`: for whom).
 * *layout: NULL (set on entry) means not sharded: every rank holds all of it. Otherwise a layout that
 * outlives the call of join or part. shape: room for SFT_LAYOUT_RANK sizes, *dims of the global tensor; set
 * on entry to those of `tensor`, to be changed by join's caller where a layout is given. A status other
 * than SFT_OK ends the operation with it. */
typedef sft_status (*sft_layout_find)(void *ctx, const sft_tensor *tensor, uint64_t rank,
                                      const sft_layout **layout, uint64_t *shape, size_t *dims,
                                      sft_error *err);

/* What one rank holds. */
typedef struct sft_rank_part {
    const sft_catalog *catalog;
    uint64_t rank;
} sft_rank_part;

/* The global tensors. Every shard of every tensor must be held by some rank, else SFT_E_HOLE names the tensor
 * and says which box no file holds; missing ranks are no fault where replicas stand in. SFT_E_MISMATCH: ranks
 * disagree about dtype or shape. SFT_E_OVERLAP: explicit boxes overlap. A rank given twice is
 * SFT_E_DUPLICATE. Tensors come in the order of the first rank that has them. Metadata: entries that are
 * equal wherever they are given, without those that speak of one file (crc_num, remove_redundancy,
 * DCP_SHARDING_INFO, DCP_VERSION).
 * options: allocator and limits; NULL for defaults. Cost: O(parts * tensors), from headers alone. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_join(sft_catalog **out, const sft_rank_part *parts,
                                                      size_t count, sft_layout_find find, void *ctx,
                                                      const sft_open_options *options,
                                                      sft_error *err);

/* What rank `rank` holds: the local shard of each tensor by its layout, replicated where it has none, left
 * out where its layout does not have the rank. An empty shard stays, with a size of 0. SFT_E_SHAPE names the
 * tensor that cannot be sharded so. */
SFT_API SFT_MUST_CHECK sft_status sft_checkpoint_part(sft_catalog **out, const sft_catalog *whole,
                                                      uint64_t rank, sft_layout_find find,
                                                      void *ctx, const sft_open_options *options,
                                                      sft_error *err);

/* The layouts of a MindSpore strategy, made once: `find` for join and part, with the object as ctx. Names
 * that the strategy does not know (step, learning rate ...) are not sharded. Outlives the strategy's use. */
typedef struct sft_ms_layouts sft_ms_layouts;
SFT_API SFT_MUST_CHECK sft_status sft_ms_layouts_create(sft_ms_layouts **out,
                                                        const sft_ms_strategy *strategy,
                                                        const sft_allocator *allocator,
                                                        sft_error *err);
/* For join: the shape of the global tensor comes from the rank's part. */
SFT_API sft_status sft_ms_layouts_find_part(void *layouts, const sft_tensor *tensor, uint64_t rank,
                                            const sft_layout **layout, uint64_t *shape,
                                            size_t *dims, sft_error *err);
/* For part: the tensor given is the global one. */
SFT_API sft_status sft_ms_layouts_find_whole(void *layouts, const sft_tensor *tensor, uint64_t rank,
                                             const sft_layout **layout, uint64_t *shape,
                                             size_t *dims, sft_error *err);
SFT_API void sft_ms_layouts_free(sft_ms_layouts *layouts); /* NULL is fine */

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
