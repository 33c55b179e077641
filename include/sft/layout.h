/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/layout.h - how a global tensor is sharded among ranks. Pure arithmetic: no file is touched here.
 * In the library libsafetensors-checkpoint.
 *
 * A *mesh* is a row-major grid of ranks. A *layout* says, for each dimension of a tensor, which mesh axes
 * shard it (major first) and by which rule; axes that shard nothing replicate. Every scheme of the field
 * comes down to that, or to explicit boxes: MindSpore strategies, DTensor placements, JAX PartitionSpec,
 * Hugging Face tensor-parallel plans, flat ranges of FSDP and ZeRO. A layout knows no shape: the shape comes
 * with the question.
 *
 * Caveats first. What a layout says about a rank is what the rank *should* hold; whether a file does is for
 * whoever opens it. Sizes of a mesh come from input: at most 2^31 ranks, at most 32 axes.
 *
 * Threads: layouts are immutable, and belong to their set; every function may run in many threads at once.
 */
#ifndef SFT_LAYOUT_H
#define SFT_LAYOUT_H

#include <sft/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SFT_LAYOUT_RANK 64u /* dimensions of a tensor with a layout, at most */

typedef struct sft_layout sft_layout;

/* Not by dimensions: all elements, in row-major order, in ranges of equal length (FSDP, ZeRO). */
SFT_API int sft_layout_is_flat(const sft_layout *layout);

/* Ranks that hold a part: how many, and the i-th (device order). at: SFT_E_RANGE past the end. */
SFT_API uint64_t sft_layout_rank_count(const sft_layout *layout);
SFT_API SFT_MUST_CHECK sft_status sft_layout_rank_at(const sft_layout *layout, uint64_t index,
                                                     uint64_t *rank, sft_error *err);
/* Does this global rank hold a part? */
SFT_API int sft_layout_holds(const sft_layout *layout, uint64_t rank);

/* Shape of the rank's own tensor (dims entries; for a flat layout one). A part may be empty. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_local_shape(const sft_layout *layout,
                                                         const uint64_t *shape, size_t dims,
                                                         uint64_t rank, uint64_t *local,
                                                         sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
