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
 * whoever opens it. Sizes of a mesh come from input: at most 2^31 ranks, at most SFT_LAYOUT_AXES axes.
 *
 * Threads: layouts are immutable; every function but free may run in many threads at once.
 */
#ifndef SFT_LAYOUT_H
#define SFT_LAYOUT_H

#include <sft/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SFT_LAYOUT_AXES   32u    /* axes of a mesh, at most */
#define SFT_LAYOUT_RANK   64u    /* dimensions of a tensor with a layout, at most */
#define SFT_LAYOUT_BLOCKS 65536u /* blocks of one dimension, at most */

/* Ranks on a grid. Device d (0 to product of axes - 1) has the coordinates of d written row-major: the last
 * axis varies fastest. */
typedef struct sft_mesh {
    const uint64_t *axes; /* sizes; none: one device */
    size_t axis_count;
    uint64_t first_rank; /* device d is global rank first_rank + d (stage s: s * devices) */
    const uint64_t
        *ranks; /* or: device d is global rank ranks[d], all different. NULL: see above */
} sft_mesh;

typedef enum sft_split {
    SFT_SPLIT_EVEN = 0,     /* sizes must divide, else SFT_E_SHAPE (MindSpore, JAX) */
    SFT_SPLIT_CHUNK = 1,    /* parts of ceil(n / parts), the last smaller or empty (torch.chunk) */
    SFT_SPLIT_BALANCED = 2, /* sizes differ by at most one, the larger ones first */
    SFT_SPLIT_SIZES = 3,    /* the sizes are given, one per part; they must add up */
    SFT_SPLIT_FORCE_32BIT = 0x7fffffff
} sft_split;

/* Cuts by the digit `coordinate / divisor % size` of a mesh axis. */
typedef struct sft_factor {
    uint32_t axis;
    uint32_t reserved;
    uint64_t divisor; /* 0 or 1: from the fastest digit up */
    uint64_t size;    /* parts; 0: all that the divisor leaves of the axis */
} sft_factor;

/* How one dimension is sharded: by its factors one after the other, major first, each splitting what the one
 * before left. No factors: not sharded. */
typedef struct sft_cut {
    const sft_factor *factors;
    size_t factor_count;
    sft_split split;
    uint32_t reserved;
    const uint64_t *sizes; /* SFT_SPLIT_SIZES: of the parts, in the order of the factors' digits */
    size_t size_count;
    const uint64_t
        *blocks; /* lengths of segments, each of them sharded alike (fused qkv: q, k, v); they must
                               add up. NULL: the dimension is one segment */
    size_t block_count;
    uint64_t block_parts; /* instead of lengths: so many equal segments (gate_up: 2); 0: no */
} sft_cut;

/* A box of the global tensor, and where it lies in the rank's own tensor. Arrays of the caller's, one entry
 * per dimension. In a flat layout the local tensor has one dimension: local_start[0] counts elements, and
 * the box lies there packed. */
typedef struct sft_shard {
    uint64_t *start;
    uint64_t *count;
    uint64_t *local_start;
} sft_shard;

typedef struct sft_layout sft_layout;

/* cuts: one per dimension. Everything is copied. SFT_E_ARG for axes that the mesh lacks, a digit used
 * twice, sizes that do not belong; SFT_E_OVERFLOW for a mesh above 2^31 ranks. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_create(sft_layout **out, const sft_mesh *mesh,
                                                    const sft_cut *cuts, size_t dims,
                                                    const sft_allocator *allocator, sft_error *err);

/* Row-major order of all elements cut into equal ranges of ceil(elements / parts), rounded up to a multiple
 * of `align` elements (0: 1); the last ranges shorter or empty (FSDP, ZeRO; padding is not part of the
 * layout). factors: as in a cut. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_create_flat(sft_layout **out, const sft_mesh *mesh,
                                                         const sft_factor *factors, size_t count,
                                                         uint64_t align,
                                                         const sft_allocator *allocator,
                                                         sft_error *err);

/* Explicit boxes: ranks[i] holds the box of 2 * dims numbers at boxes[i * 2 * dims], dims starts, then dims
 * counts. Every rank at most once (SFT_E_DUPLICATE); equal boxes are replicas. Whether the boxes cover a
 * tensor, or overlap, is for the plan that uses them. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_create_boxes(sft_layout **out, const uint64_t *ranks,
                                                          const uint64_t *boxes, size_t count,
                                                          size_t dims,
                                                          const sft_allocator *allocator,
                                                          sft_error *err);
SFT_API void sft_layout_free(sft_layout *layout); /* NULL is fine */

SFT_API size_t sft_layout_dims(const sft_layout *layout); /* 0: scalar, or flat (any rank) */
SFT_API int sft_layout_is_flat(const sft_layout *layout);
SFT_API int sft_layout_is_boxes(const sft_layout *layout); /* explicit ones */

/* Ranks that hold a part: how many, and the i-th (device order). at: SFT_E_RANGE past the end. */
SFT_API uint64_t sft_layout_rank_count(const sft_layout *layout);
SFT_API SFT_MUST_CHECK sft_status sft_layout_rank_at(const sft_layout *layout, uint64_t index,
                                                     uint64_t *rank, sft_error *err);
/* Does this global rank hold a part? */
SFT_API int sft_layout_holds(const sft_layout *layout, uint64_t rank);

/* Which part a rank holds: ranks with equal numbers hold the same bytes. Numbers run from 0 to
 * sft_layout_part_count - 1. SFT_E_NOT_FOUND: the rank is not of this mesh. */
SFT_API uint64_t sft_layout_part_count(const sft_layout *layout);
SFT_API SFT_MUST_CHECK sft_status sft_layout_part(const sft_layout *layout, uint64_t rank,
                                                  uint64_t *part, sft_error *err);

/* Checks that a tensor of this shape can be sharded so, on every rank: SFT_E_SHAPE otherwise. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_check(const sft_layout *layout, const uint64_t *shape,
                                                   size_t dims, sft_error *err);

/* Shape of the rank's own tensor (dims entries; for a flat layout one). A part may be empty. */
SFT_API SFT_MUST_CHECK sft_status sft_layout_local_shape(const sft_layout *layout,
                                                         const uint64_t *shape, size_t dims,
                                                         uint64_t rank, uint64_t *local,
                                                         sft_error *err);

/* The boxes of the global tensor that the rank holds: one in the common case, one per block where a dimension
 * has blocks, up to 2 * dims in a flat layout. Empty boxes are left out. at: SFT_E_RANGE past the
 * end. Cost: O(dims * factors + index). */
SFT_API SFT_MUST_CHECK sft_status sft_layout_shard_count(const sft_layout *layout,
                                                         const uint64_t *shape, size_t dims,
                                                         uint64_t rank, uint64_t *count,
                                                         sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_layout_shard_at(const sft_layout *layout,
                                                      const uint64_t *shape, size_t dims,
                                                      uint64_t rank, uint64_t index,
                                                      const sft_shard *out, sft_error *err);

/* ---------------------------------------------------------------- notations of others */

/* PyTorch DTensor: one placement per mesh axis, separated by commas, any blanks: "Shard(0)", "S(0)",
 * "Replicate()", "R", "_StridedShard(dim=0, sf=2)". Partial is SFT_E_UNSUPPORTED: it is no layout of
 * weights. Negative dims count from the end. Split by SFT_SPLIT_CHUNK;
 * a dimension that a strided placement shards must divide, and its split factor must be the product of axes
 * to the right of it that shard the same dimension (as FSDP over TP makes it).
 * (torch.distributed.tensor, 2.13) */
SFT_API SFT_MUST_CHECK sft_status sft_layout_parse_placements(sft_layout **out, const char *text,
                                                              const sft_mesh *mesh, size_t dims,
                                                              const sft_allocator *allocator,
                                                              sft_error *err);

/* JAX: "P('x', None, ('y', 'z'))" or "PartitionSpec(...)"; axis_names: one per mesh axis. Dimensions that the
 * spec leaves out are not sharded. Split by SFT_SPLIT_EVEN. (jax.sharding.PartitionSpec, 0.10) */
SFT_API SFT_MUST_CHECK sft_status sft_layout_parse_spec(sft_layout **out, const char *text,
                                                        const char *const *axis_names,
                                                        const sft_mesh *mesh, size_t dims,
                                                        const sft_allocator *allocator,
                                                        sft_error *err);

/* Hugging Face tensor-parallel style of one module ("colwise", "rowwise", "packed_colwise" ...) for a weight
 * (is_bias 0) or a bias, on the one-axis mesh. SFT_E_NOT_FOUND: unknown style. Split by SFT_SPLIT_CHUNK.
 * (transformers.integrations.tensor_parallel) */
SFT_API SFT_MUST_CHECK sft_status sft_layout_from_style(sft_layout **out, const char *style,
                                                        int is_bias, const sft_mesh *mesh,
                                                        size_t dims, const sft_allocator *allocator,
                                                        sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
