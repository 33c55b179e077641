/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/write.h - writing safetensors files: whole sets at once, or streamed piece by piece.
 *
 * The result appears atomically: until commit succeeds the old file (or none) is there, whatever happens.
 * Bytes equal the reference's for the same tensors and metadata (metadata keys sorted), unless options say
 * otherwise. Two failures are distinguished: SFT_E_NOT_COMMITTED and every other error mean that the old
 * state is intact; SFT_E_DURABILITY means that the new file is in place but the last fsync failed.
 *
 * Caveats first. A hard link to the old file keeps the old bytes; a symbolic link is written through (the
 * file that it names is replaced). Devices, directories and FIFOs are refused as path targets
 * (SFT_E_NOT_REGULAR): use a stream. On network file systems rename may be less than atomic.
 * Saving over a file that is mapped is safe on POSIX; Windows refuses it (SFT_E_NOT_COMMITTED).
 */
#ifndef SFT_WRITE_H
#define SFT_WRITE_H

#include <sft/catalog.h>
#include <sft/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sft_order {
    SFT_ORDER_REFERENCE = 0, /* dtype descending by the reference's rank, then name by bytes */
    SFT_ORDER_DECLARED = 1,
    SFT_ORDER_LIST = 2 /* options->order_list */
} sft_order;

typedef enum sft_durability {
    SFT_DURABLE_FULL =
        0, /* fsync the file before the rename and the directory after it; files of 64 MiB and
                             more go past the page cache where the system can */
    SFT_DURABLE_NONE = 1 /* leave it to the operating system; still atomic against kill */
} sft_durability;

/* Per-tensor digests; see sft/digest.h for where and how they are recorded. */
#define SFT_DIGEST_CRC32C 1u
#define SFT_DIGEST_SHA256 2u

#define SFT_WRITE_NEW_ONLY        1u /* SFT_E_EXISTS if the target exists */
#define SFT_WRITE_DIGESTS_SIDECAR 2u /* digests into PATH.digests.json instead of __metadata__ */

typedef struct sft_write_options {
    size_t struct_size;
    const sft_allocator *allocator;
    const sft_limits *limits;
    sft_order order;
    sft_durability durability;
    /* declaration indexes in wanted file order; all of them, once each */
    const uint32_t *order_list;
    size_t order_count;
    /* data section starts at a multiple of it: power of two, 8 (default) to 2^20 */
    uint64_t data_alignment;
    uint64_t reserve_bytes; /* room for later metadata edits, as blanks inside __metadata__ */
    uint32_t mode; /* POSIX permission bits | SFT_MODE_SET; 0: the old file's, or 0666 & ~umask */
    uint32_t digests; /* SFT_DIGEST_* */
    uint32_t flags;   /* SFT_WRITE_* */
    uint32_t reserved;
    const sft_pool *pool;
    const sft_control *control;
} sft_write_options;
#define SFT_MODE_SET 0x80000000u

/* ---------------------------------------------------------------- all at once */

/* One tensor to save. data: nbytes packed row-major little-endian bytes, read during the call only. */
typedef struct sft_save_tensor {
    const char *name;
    size_t name_len;
    const sft_dtype *dtype;
    const uint64_t *shape;
    uint32_t rank;
    uint32_t reserved;
    const void *data;
    uint64_t nbytes;
} sft_save_tensor;

typedef struct sft_metadata_entry {
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
} sft_metadata_entry;

/* metadata: NULL with count 0 means no `__metadata__`; non-NULL with count 0 an empty one (as the
 * reference tells None from {}).
 * Errors: SFT_E_DUPLICATE, SFT_E_ARG (a tensor called `__metadata__`, nbytes that disagree, names that
 * are not UTF-8), SFT_E_HEADER_TOO_LARGE, SFT_E_PATH, SFT_E_NOT_REGULAR, SFT_E_IO, ...
 * Cost: one write of each byte, no copy of tensor data (one copy where a durable file goes past the cache and
 * the data is not aligned for that). With a pool, hashing, copying and writing overlap. */
SFT_API SFT_MUST_CHECK sft_status sft_save(const char *path, const sft_save_tensor *tensors,
                                           size_t count, const sft_metadata_entry *metadata,
                                           size_t metadata_count, const sft_write_options *options,
                                           sft_error *err);

/* The same into an open descriptor as a stream (pipe, socket, terminal or file at its position). */
SFT_API SFT_MUST_CHECK sft_status sft_save_stream(int fd, const sft_save_tensor *tensors,
                                                  size_t count, const sft_metadata_entry *metadata,
                                                  size_t metadata_count,
                                                  const sft_write_options *options, sft_error *err);

/* The same into memory. Call with buffer NULL to learn *size; SFT_E_ARG if capacity is too small. */
SFT_API SFT_MUST_CHECK sft_status sft_save_memory(void *buffer, size_t capacity, size_t *size,
                                                  const sft_save_tensor *tensors, size_t count,
                                                  const sft_metadata_entry *metadata,
                                                  size_t metadata_count,
                                                  const sft_write_options *options, sft_error *err);

/* The first bytes of the file that sft_save would write: its header, without digests (those of options
 * are not used). Data pointers are not looked at. size: the length of the header, where the data section
 * begins. offsets: count entries, where each tensor's bytes begin in the file; may be NULL. Call with
 * buffer NULL to learn *size. */
SFT_API SFT_MUST_CHECK sft_status sft_save_header(void *buffer, size_t capacity, size_t *size,
                                                  uint64_t *offsets, const sft_save_tensor *tensors,
                                                  size_t count, const sft_metadata_entry *metadata,
                                                  size_t metadata_count,
                                                  const sft_write_options *options, sft_error *err);

/* ---------------------------------------------------------------- streaming */

/* Declare every tensor, then put their bytes in any order from several threads, then commit. Memory does
 * not depend on tensor sizes. Threads: put may run in many threads at once; nothing else may. */
typedef struct sft_writer sft_writer;

/* path: the target. Nothing appears there before commit. out: owned. options are copied, but the
 * allocator, pool and control in them must live as long as the writer. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_create(sft_writer **out, const char *path,
                                                    const sft_write_options *options,
                                                    sft_error *err);
/* Into a stream: puts must then come in file order, each byte once. The descriptor stays the caller's. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_create_stream(sft_writer **out, int fd,
                                                           const sft_write_options *options,
                                                           sft_error *err);
/* key and value are copied. An entry with key NULL declares an empty __metadata__. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_metadata(sft_writer *writer, const char *key,
                                                      size_t key_len, const char *value,
                                                      size_t value_len, sft_error *err);
/* The value of a key that was given, or that sft_writer_carry_digests gave; NULL: there is none. A borrow. */
SFT_API const char *sft_writer_metadata_find(const sft_writer *writer, const char *key,
                                             size_t key_len, size_t *value_len);
/* Another name of a tensor of the file. */
typedef struct sft_writer_name {
    const char *name;
    size_t name_len;
    const char *of; /* the tensor's name in the file */
    size_t of_len;
    const sft_dtype *dtype;  /* its type there */
    const sft_tensor *whole; /* the tensor that it is made of, of any catalog */
    /* the part of `whole`, as it lies there, that the name shows; NULL: all */
    const sft_tensor *shows;
} sft_writer_name;
/* Records other names, which sft_catalog_find knows: "name": "of" in the metadata, and in sft.aliases
 * (docs/tree.md) what shows a part, or whose name is an entry already. Call it behind all entries, once. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_names(sft_writer *writer, const sft_writer_name *names,
                                                   size_t count, sft_error *err);
/* index: 0, 1, 2 ... in the order of declaration; may be NULL. name and shape are copied. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_declare(sft_writer *writer, const char *name,
                                                     size_t name_len, const sft_dtype *dtype,
                                                     const uint64_t *shape, uint32_t rank,
                                                     uint32_t *index, sft_error *err);
/* Ends declaring: lays the file out, creates and preallocates it (no space: SFT_E_IO with ENOSPC, before
 * any data). Called by the first put if you do not. Afterwards these say where things will lie. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_start(sft_writer *writer, sft_error *err);
SFT_API uint64_t sft_writer_file_bytes(const sft_writer *writer);
SFT_API uint64_t sft_writer_offset(const sft_writer *writer,
                                   uint32_t index); /* absolute, of its data */
SFT_API uint64_t sft_writer_nbytes(const sft_writer *writer, uint32_t index);
SFT_API uint32_t sft_writer_at(const sft_writer *writer,
                               uint32_t position); /* index at file position */

/* Writes `size` bytes at `offset` of tensor `index`. Every byte must be put exactly once before commit;
 * overlapping puts are SFT_E_STATE at commit or before. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_put(sft_writer *writer, uint32_t index,
                                                 uint64_t offset, const void *data, size_t size,
                                                 sft_error *err);
/* Puts tensors of a catalog as they are: tensors[i], which has as many bytes as declared tensor i, goes
 * there; NULL: not this one, it is put otherwise. One entry per declared tensor. Read and written in blocks
 * of 256 KiB of the new file (4 MiB if it is durable), neighbours together, by the pool of the writer's
 * options; with SHA-256, or into a stream, tensor by tensor. Equal to puts of every byte; puts of other
 * tensors may run beside it. Memory: one block per worker.
 * Errors: those of reading and of put; SFT_E_ARG (bytes that disagree), SFT_E_CANCELLED. After one only
 * free is left. */
struct sft_catalog;
struct sft_tensor;
SFT_API SFT_MUST_CHECK sft_status sft_writer_copy(sft_writer *writer,
                                                  const struct sft_catalog *catalog,
                                                  const struct sft_tensor *const *tensors,
                                                  sft_error *err);
/* Publishes. SFT_E_STATE if bytes are missing (names the tensor). After any result only free is left. */
SFT_API SFT_MUST_CHECK sft_status sft_writer_commit(sft_writer *writer, sft_error *err);
/* Without a successful commit: removes what was written. NULL is fine. */
SFT_API void sft_writer_free(sft_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
