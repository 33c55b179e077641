/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/layout.h - what a layout is made of. One allocation: the struct and all its arrays. Read
 * <sft/layout.h> first.
 */
#ifndef SFT_LAYOUT_LAYOUT_H
#define SFT_LAYOUT_LAYOUT_H

#include "base/memory/alloc.h"
#include <sft/layout.h>

#define SFT__LAYOUT_AXES   32u    /* axes of a mesh, at most */
#define SFT__LAYOUT_BLOCKS 65536u /* blocks of one dimension, at most */

/* Ranks on a grid. Device d (0 to product of axes - 1) has the coordinates of d written row-major: the last
 * axis varies fastest. */
typedef struct sft__layout_mesh {
    const uint64_t *axes; /* sizes; none: one device */
    size_t axis_count;
    uint64_t first_rank; /* device d is global rank first_rank + d (stage s: s * devices) */
    /* or: device d is global rank ranks[d], all different. NULL: see above */
    const uint64_t *ranks;
    const char *const *axis_names; /* one per axis; NULL where nothing speaks of them by name */
} sft__layout_mesh;

typedef enum sft__layout_split {
    SFT__SPLIT_EVEN = 0,     /* sizes must divide, else SFT_E_SHAPE (MindSpore, JAX) */
    SFT__SPLIT_CHUNK = 1,    /* parts of ceil(n / parts), the last smaller or empty (torch.chunk) */
    SFT__SPLIT_BALANCED = 2, /* sizes differ by at most one, the larger ones first */
    SFT__SPLIT_SIZES = 3,    /* the sizes are given, one per part; they must add up */
    SFT__SPLIT_FORCE_32BIT = 0x7fffffff
} sft__layout_split;

/* Cuts by the digit `coordinate / divisor % size` of a mesh axis. */
typedef struct sft__layout_factor {
    uint32_t axis;
    uint32_t reserved;
    uint64_t divisor; /* 0 or 1: from the fastest digit up */
    uint64_t size;    /* parts; 0: all that the divisor leaves of the axis */
} sft__layout_factor;

/* How one dimension is cut: by its factors one after the other, major first, each cutting what the one
 * before left. No factors: whole on every rank. */
typedef struct sft__layout_cut {
    const sft__layout_factor *factors;
    size_t factor_count;
    sft__layout_split split;
    uint32_t reserved;
    const uint64_t *sizes; /* SFT__SPLIT_SIZES: of the parts, in the order of the factors' digits */
    size_t size_count;
    /* lengths of segments, each of them cut alike (fused qkv: q, k, v); they must add up. NULL:
     * the dimension is one segment */
    const uint64_t *blocks;
    size_t block_count;
    uint64_t block_parts; /* instead of lengths: so many equal segments (gate_up: 2); 0: no */
} sft__layout_cut;

/* A box of the global tensor, and where it lies in the rank's own tensor. Arrays of the caller's, one entry
 * per dimension. In a flat layout the local tensor has one dimension: local_start[0] counts elements, and
 * the box lies there packed. */
typedef struct sft__layout_shard {
    uint64_t *start;
    uint64_t *count;
    uint64_t *local_start;
} sft__layout_shard;

typedef enum sft__layout_kind {
    SFT__LAYOUT_CUT = 0,
    SFT__LAYOUT_FLAT = 1,
    SFT__LAYOUT_BOXES = 2
} sft__layout_kind;

/* One digit of a device number: device / divisor % size. */
typedef struct sft__layout_digit {
    uint64_t divisor;
    uint64_t size;
} sft__layout_digit;

typedef struct sft__layout_dim_cut {
    const sft__layout_digit *digits; /* major first */
    size_t digit_count;
    uint64_t parts; /* product of the digits' sizes */
    sft__layout_split split;
    const uint64_t *sizes; /* SFT__SPLIT_SIZES: `parts` of them */
    const uint64_t *blocks;
    size_t block_count; /* with blocks NULL: equal segments; 1: one segment */
} sft__layout_dim_cut;

struct sft_layout {
    const sft_allocator *allocator;
    size_t size; /* of this allocation */
    sft__layout_kind kind;
    size_t dims;
    uint64_t devices;
    uint64_t first_rank;
    const uint64_t *ranks;     /* of the devices, or NULL */
    const uint64_t *by_rank;   /* devices in the order of their ranks, where `ranks` is given */
    sft__layout_dim_cut *cuts; /* dims of them; FLAT: one */
    uint64_t parts;
    uint64_t align;          /* FLAT */
    const uint64_t *boxes;   /* BOXES: 2 * dims numbers per device */
    const uint64_t *part_of; /* BOXES: part of each device */
};

/* Device of a global rank; false: not of this mesh. */
bool sft__layout_device(const sft_layout *layout, uint64_t rank, uint64_t *device);

/* cuts: one per dimension. Everything is copied. SFT_E_ARG for axes that the mesh lacks, a digit used
 * twice, sizes that do not belong; SFT_E_OVERFLOW for a mesh above 2^31 ranks. */
sft_status sft__layout_create(sft_layout **out, const sft__layout_mesh *mesh,
                              const sft__layout_cut *cuts, size_t dims,
                              const sft_allocator *allocator, sft_error *err);

/* Row-major order of all elements cut into equal ranges of ceil(elements / parts), rounded up to a multiple
 * of `align` elements (0: 1); the last ranges shorter or empty (FSDP, ZeRO; padding is not part of the
 * layout). Of the cut only the factors count. */
sft_status sft__layout_create_flat(sft_layout **out, const sft__layout_mesh *mesh,
                                   const sft__layout_cut *cut, uint64_t align,
                                   const sft_allocator *allocator, sft_error *err);

/* ranks[i] holds the box of 2 * dims numbers at boxes[i * 2 * dims], dims starts, then dims counts. */
typedef struct sft__layout_box_list {
    const uint64_t *ranks;
    const uint64_t *boxes;
    size_t count;
    size_t dims;
} sft__layout_box_list;

/* Explicit boxes. Every rank at most once (SFT_E_DUPLICATE); equal boxes are replicas. Whether the boxes
 * cover a tensor, or overlap, is for the plan that uses them. */
sft_status sft__layout_create_boxes(sft_layout **out, const sft__layout_box_list *list,
                                    const sft_allocator *allocator, sft_error *err);

void sft__layout_free(sft_layout *layout); /* NULL is fine */

size_t sft__layout_dims(const sft_layout *layout); /* 0: scalar, or flat (any rank) */

int sft__layout_is_boxes(const sft_layout *layout); /* explicit ones */

/* Which part a rank holds: ranks with equal numbers hold the same bytes. Numbers run from 0 to
 * sft__layout_part_count - 1. SFT_E_NOT_FOUND: the rank is not of this mesh. */
uint64_t sft__layout_part_count(const sft_layout *layout);

sft_status sft__layout_part(const sft_layout *layout, uint64_t rank, uint64_t *part,
                            sft_error *err);

/* Checks that a tensor of this shape can be cut so, on every rank: SFT_E_SHAPE otherwise. */
sft_status sft__layout_check(const sft_layout *layout, const uint64_t *shape, size_t dims,
                             sft_error *err);

/* What a rank holds of a tensor. */
typedef struct sft__layout_local {
    const sft_layout *layout;
    const uint64_t *shape; /* the global one */
    size_t dims;
    uint64_t rank;
} sft__layout_local;

/* The boxes of the global tensor that the rank holds: one in the common case, one per block where a dimension
 * has blocks, up to 2 * dims in a flat layout. Empty boxes are left out. at: SFT_E_RANGE past the
 * end. Cost: O(dims * factors + index). */
sft_status sft__layout_shard_count(const sft__layout_local *local, uint64_t *count, sft_error *err);

sft_status sft__layout_shard_at(const sft__layout_local *local, uint64_t index,
                                const sft__layout_shard *out, sft_error *err);

/* ---------------------------------------------------------------- notations of others */

/* PyTorch DTensor: one placement per mesh axis, separated by commas, any blanks: "Shard(0)", "S(0)",
 * "Replicate()", "R", "_StridedShard(dim=0, sf=2)". Partial is SFT_E_UNSUPPORTED: it is no layout of
 * weights. Negative dims count from the end. Split by SFT__SPLIT_CHUNK;
 * a dimension that a strided placement cuts must divide, and its split factor must be the product of axes
 * to the right of it that cut the same dimension (as FSDP over TP makes it).
 * (torch.distributed.tensor, 2.13) */
sft_status sft__layout_parse_placements(sft_layout **out, const char *text,
                                        const sft__layout_mesh *mesh, size_t dims,
                                        const sft_allocator *allocator, sft_error *err);

/* JAX: "P('x', None, ('y', 'z'))" or "PartitionSpec(...)"; the mesh has axis_names. Dimensions that the
 * spec leaves out are not cut. Split by SFT__SPLIT_EVEN. (jax.sharding.PartitionSpec, 0.10) */
sft_status sft__layout_parse_spec(sft_layout **out, const char *text, const sft__layout_mesh *mesh,
                                  size_t dims, const sft_allocator *allocator, sft_error *err);

/* Hugging Face tensor-parallel style of one module ("colwise", "rowwise", "packed_colwise" ...) for its
 * weight or its bias. */
typedef struct sft__layout_style {
    const char *name;
    bool is_bias;
} sft__layout_style;

/* On the one-axis mesh. SFT_E_NOT_FOUND: unknown style. Split by SFT__SPLIT_CHUNK.
 * (transformers.integrations.tensor_parallel) */
sft_status sft__layout_from_style(sft_layout **out, const sft__layout_style *style,
                                  const sft__layout_mesh *mesh, size_t dims,
                                  const sft_allocator *allocator, sft_error *err);

#endif
