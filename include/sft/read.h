/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/read.h - getting at tensor data, a tensor at a time: borrowed, whole, sliced, strided, cast, or in
 * stretches of bytes. Many at once: <sft/load.h>, <sft/stream.h>.
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

/* How the bytes of a file are read. <sft/load.h> says what was chosen for a file, and why. */
typedef enum sft_strategy {
    SFT_STRATEGY_AUTO = 0,   /* READ or DIRECT, by file */
    SFT_STRATEGY_MAP = 1,    /* borrow from the source; nothing is copied */
    SFT_STRATEGY_READ = 2,   /* read through the page cache, or however the source reads */
    SFT_STRATEGY_DIRECT = 3, /* past the page cache; READ where the system has no such way */
    SFT_STRATEGY_URING =
        4, /* reserved: reads by io_uring(7), which were never faster. SFT_E_UNSUPPORTED */
    SFT_STRATEGY_FORCE_32BIT = 0x7fffffff
} sft_strategy;

/* Bytes stay little-endian as in the file unless this flag is given. */
#define SFT_READ_HOST_ORDER 1u
/* Copy from the source's mapping where it lends one, instead of reading: several times faster for slices of
 * short rows, but with the hazard of sft_tensor_borrow (a file truncated meanwhile raises a signal instead of
 * an error). */
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
                                                    const sft_read_options *options,
                                                    uint64_t *shape, uint32_t *rank,
                                                    uint64_t *nbytes, sft_error *err);

/* Reads the tensor, or the slice that options ask for, into dst. dst_size: bytes of room, counted from
 * dst to the end of the farthest element (strides negative: still the span); SFT_E_ARG if too small.
 * How: through the page cache (from the mapping with SFT_READ_BORROW), whatever the size; runs of bytes that
 * are wanted whole are asked of a remote source many at once. Past the page cache read sft_load, streams
 * and sft_reader, which choose a strategy.
 * Errors: SFT_E_SUBBYTE (a slice of a sub-byte type that cuts a byte), SFT_E_UNSUPPORTED (cast),
 * SFT_E_TRUNCATED, SFT_E_IO, SFT_E_CANCELLED. Cost: the bytes of the slice; small gaps are read over. */
SFT_API SFT_MUST_CHECK sft_status sft_tensor_read(const sft_catalog *catalog,
                                                  const sft_tensor *tensor,
                                                  const sft_read_options *options, void *dst,
                                                  size_t dst_size, sft_error *err);

/* Packed bytes [offset, offset + size) of the tensor's row-major representation. */
SFT_API SFT_MUST_CHECK sft_status sft_tensor_read_bytes(const sft_catalog *catalog,
                                                        const sft_tensor *tensor, uint64_t offset,
                                                        void *dst, size_t size, sft_error *err);

/* ---------------------------------------------------------------- many stretches */

/* For who goes through much of a catalog in stretches of his own size and order, to compare or to count: each
 * file is read as suits a whole reading of it, past the page cache where that is faster (sft_strategy_choose
 * of sft/load.h tells), as sft_load and streams do; but stretches below 1 MiB go through it. Threads: any
 * number of reads at once. A read waits for the disk: with two threads for each processor, others compute
 * meanwhile. */
typedef struct sft_reader sft_reader;

/* Bytes of memory that a read of so many wants. */
#define SFT_READER_ROOM(size) ((size_t)(size) + 3 * 4096)

/* strategy: AUTO, READ or DIRECT. catalog: must outlive the reader. allocator: of a few hundred bytes for
 * each file; NULL: the default. out: owned; sft_reader_free. */
SFT_API SFT_MUST_CHECK sft_status sft_reader_create(sft_reader **out, const sft_catalog *catalog,
                                                    sft_strategy strategy,
                                                    const sft_allocator *allocator, sft_error *err);
/* What sft_tensor_read_bytes brings. *data: SFT_READER_ROOM(size) bytes of the caller's, at any address, all
 * overwritten; after a success where in them the bytes begin, at a multiple of 16.
 * Also SFT_E_CHANGED: size or time of a file are not as when the reader was made (seen on POSIX). */
SFT_API SFT_MUST_CHECK sft_status sft_reader_read(sft_reader *reader, const sft_tensor *tensor,
                                                  uint64_t offset, size_t size, void **data,
                                                  sft_error *err);
SFT_API void sft_reader_free(sft_reader *reader); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
