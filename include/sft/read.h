/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/read.h - getting at tensor data: borrowed, whole, sliced, strided, cast; one at a time or as a
 * plan of many.
 *
 * Caveats first. Borrowed memory is the file's bytes (little-endian, any alignment) and lives as long as
 * the catalog; see sft/source.h for truncation. Destinations must not overlap each other or the source.
 * On failure the contents of a destination are unspecified.
 *
 * Threads: any number of reads on one catalog at once.
 */
#ifndef SFT_READ_H
#define SFT_READ_H

#include <sft/catalog.h>
#include <sft/region.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the bytes of a file are brought. <sft/load.h> tells what was chosen for a file, and why. */
typedef enum sft_strategy {
    SFT_STRATEGY_AUTO = 0,   /* READ or DIRECT, by file */
    SFT_STRATEGY_MAP = 1,    /* borrow from the source; nothing is copied */
    SFT_STRATEGY_READ = 2,   /* read through the page cache, or however the source reads */
    SFT_STRATEGY_DIRECT = 3, /* past the page cache; READ where the system has no such way */
    SFT_STRATEGY_URING = 4,  /* DIRECT, each thread with up to 16 reads under way by io_uring(7); DIRECT
                                where that is forbidden or missing. sft_load alone */
    SFT_STRATEGY_FORCE_32BIT = 0x7fffffff
} sft_strategy;

/* Bytes stay little-endian as in the file unless this flag is given. */
#define SFT_READ_HOST_ORDER 1u
/* Copy from the source's mapping where it lends one, instead of reading: several times faster for slices of
 * short rows, but with the hazard of sft_tensor_borrow (a file cut short meanwhile is a signal, no error). */
#define SFT_READ_BORROW 2u

typedef struct sft_read_options {
    size_t struct_size;
    const sft_slice *slices; /* NULL: everything */
    size_t slice_count;
    const sft_dtype *dtype;     /* cast to; NULL: the tensor's own */
    const int64_t *dst_strides; /* bytes, one per dimension of the result; NULL: packed row-major.
                                   May be negative (dst points at element 0), not 0 where there are two
                                   or more elements. Types of several elements per block: the last is
                                   block_bytes, the others positive multiples of it */
    const sft_pool *pool;       /* NULL: the calling thread alone */
    const sft_control *control;
    uint32_t flags; /* SFT_READ_* */
    uint32_t reserved;
} sft_read_options;

/* The tensor's bytes where they lie. SFT_E_UNSUPPORTED when it has several pieces, is strided, or its
 * source cannot lend memory; never a hidden copy. size: tensor->nbytes. */
SFT_API SFT_MUST_CHECK sft_status sft_tensor_borrow(const sft_catalog *catalog,
                                                    const sft_tensor *tensor, const void **data,
                                                    size_t *size, sft_error *err);

/* Shape and bytes of what sft_tensor_read with these options would write (packed).
 * shape: room for tensor->rank entries, or NULL; rank, nbytes may be NULL. */
SFT_API SFT_MUST_CHECK sft_status sft_tensor_result(const sft_tensor *tensor,
                                                    const sft_read_options *options, uint64_t *shape,
                                                    uint32_t *rank, uint64_t *nbytes, sft_error *err);

/* Reads the tensor, or the slice that options ask for, into dst. dst_size: bytes of room, counted from
 * dst to the end of the farthest element (strides negative: still the span); SFT_E_ARG if too small.
 * How: through the page cache (from the mapping with SFT_READ_BORROW), whatever the size; runs of bytes that
 * are wanted whole are asked of a remote source many at once. Past the page cache read sft_load, plans and
 * streams, which choose a strategy.
 * Errors: SFT_E_SUBBYTE (a slice of a sub-byte type that cuts a byte), SFT_E_UNSUPPORTED (cast),
 * SFT_E_TRUNCATED, SFT_E_IO, SFT_E_CANCELLED. Cost: the bytes of the slice; small gaps are read over. */
SFT_API SFT_MUST_CHECK sft_status sft_tensor_read(const sft_catalog *catalog, const sft_tensor *tensor,
                                                  const sft_read_options *options, void *dst,
                                                  size_t dst_size, sft_error *err);

/* Packed bytes [offset, offset + size) of the tensor's row-major representation. */
SFT_API SFT_MUST_CHECK sft_status sft_tensor_read_bytes(const sft_catalog *catalog,
                                                        const sft_tensor *tensor, uint64_t offset,
                                                        void *dst, size_t size, sft_error *err);

/* ---------------------------------------------------------------- targets */

/* Where the results of a plan go. */
typedef struct sft_target sft_target;

/* Caller's memory. It must stay until the target is closed. */
SFT_API SFT_MUST_CHECK sft_status sft_target_open_memory(sft_target **out, void *data, size_t size,
                                                         const sft_allocator *allocator,
                                                         sft_error *err);

/* A descriptor that the caller keeps open and positions are absolute in (a regular file). */
SFT_API SFT_MUST_CHECK sft_status sft_target_open_fd(sft_target **out, int fd,
                                                     const sft_allocator *allocator, sft_error *err);

/* A pipe, socket or terminal: bytes must arrive in ascending order without gaps. */
SFT_API SFT_MUST_CHECK sft_status sft_target_open_stream(sft_target **out, int fd,
                                                         const sft_allocator *allocator,
                                                         sft_error *err);
SFT_API void sft_target_close(sft_target *target); /* NULL is fine */

/* ---------------------------------------------------------------- plans */

/* Which bytes of which source go where, through which kernel. O(rank) memory per move. */
typedef struct sft_plan sft_plan;

typedef enum sft_kernel {
    SFT_KERNEL_COPY = 0,
    SFT_KERNEL_CONVERT = 1, /* src_dtype to dst_dtype */
    SFT_KERNEL_SWAP = 2     /* byte order within elements */
} sft_kernel;

/* An N-dimensional strided iterator. For each index of count[]: one block of src_block bytes at
 * src_offset + sum(i * src_stride) becomes dst_block bytes at dst_offset + sum(i * dst_stride).
 * Dimensions are coalesced: rank is 0 for one contiguous run, and never above 63. */
typedef struct sft_move {
    uint64_t src_offset;
    uint64_t dst_offset;
    uint64_t src_block;
    uint64_t dst_block;
    const uint64_t *count;
    const int64_t *src_stride;
    const int64_t *dst_stride;
    const sft_dtype *src_dtype;
    const sft_dtype *dst_dtype;
    const sft_tensor *tensor; /* whose bytes they are; NULL for others */
    uint32_t rank;
    uint32_t kernel; /* sft_kernel */
    uint32_t source; /* index in the plan's sources */
    uint32_t target; /* index in the plan's targets */
} sft_move;

typedef struct sft_plan_cost {
    uint64_t moves;
    uint64_t runs; /* contiguous pieces read */
    uint64_t bytes_read;
    uint64_t bytes_written;
} sft_plan_cost;

typedef struct sft_run_options {
    size_t struct_size;
    const sft_pool *pool;
    const sft_control *control;
    uint64_t memory_bytes; /* bounce buffers in all; default 64 MiB */
    sft_strategy strategy; /* AUTO, READ or DIRECT, which is for moves that span 1 MiB of their file or more:
                              cold columns are read as whole spans then. MAP and URING: SFT_E_ARG
                              (SFT_READ_BORROW is said when a tensor is added) */
    uint32_t reserved;
} sft_run_options;

SFT_API SFT_MUST_CHECK sft_status sft_plan_create(sft_plan **out, const sft_allocator *allocator,
                                                  sft_error *err);
/* Sources and targets are borrowed and must outlive the plan. */
SFT_API SFT_MUST_CHECK sft_status sft_plan_add_source(sft_plan *plan, const sft_source *source,
                                                      uint32_t *index, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_plan_add_target(sft_plan *plan, sft_target *target,
                                                      uint32_t *index, sft_error *err);
/* Adds the moves that bring a tensor (or the slice and cast in options; pool and control are not used) to
 * dst_offset of a target, where element 0 of the result goes. SFT_E_RANGE if it does not fit there. */
SFT_API SFT_MUST_CHECK sft_status sft_plan_add_tensor(sft_plan *plan, const sft_catalog *catalog,
                                                      const sft_tensor *tensor,
                                                      const sft_read_options *options, uint32_t target,
                                                      uint64_t dst_offset, sft_error *err);
/* Adds one move of your own; its arrays are copied. */
SFT_API SFT_MUST_CHECK sft_status sft_plan_add_move(sft_plan *plan, const sft_move *move,
                                                    sft_error *err);
SFT_API size_t sft_plan_count(const sft_plan *plan);
/* Valid until the next move is added; NULL past the end. */
SFT_API const sft_move *sft_plan_at(const sft_plan *plan, size_t index);
SFT_API void sft_plan_cost_get(const sft_plan *plan, sft_plan_cost *cost);
/* Carries the plan out. May be run again. On failure, what targets hold is unspecified. A source that has
 * read_many gets its ranges in batches of up to 64.
 * SFT_E_OVERLAP if two moves that write without gaps meet; strided moves that interleave are the caller's
 * to keep apart. What goes to one ordered target is done in the order of the target, what comes from one
 * sequential source in the order of the source. */
SFT_API SFT_MUST_CHECK sft_status sft_plan_run(sft_plan *plan, const sft_run_options *options,
                                               sft_error *err);
/* How source `index` of the plan was read by its last run, and why: a static sentence (reason may be NULL).
 * AUTO: not run, or nothing of it was wanted. */
SFT_API sft_strategy sft_plan_strategy(const sft_plan *plan, uint32_t index, const char **reason);
SFT_API void sft_plan_free(sft_plan *plan); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
