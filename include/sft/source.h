/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/source.h - where bytes come from.
 *
 * Caveats first.
 *  - A mapping is only as good as its file: if another process truncates the file, touching borrowed
 *    memory past the new end raises SIGBUS; on network file systems contents may change under you.
 *    Reads never have that problem: sft_source_read on a mapped file uses pread, so truncation is
 *    the error SFT_E_TRUNCATED, never a signal.
 *  - No alignment is promised for borrowed memory beyond what the file has.
 *  - A path is opened once; replacing the file by rename (as this library's writers do) does not disturb
 *    an open source.
 *
 * Threads: any number of threads may read, borrow and advise on one source at once.
 */
#ifndef SFT_SOURCE_H
#define SFT_SOURCE_H

#include <sft/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sft_source sft_source;

/* How a path is accessed. AUTO: the library chooses (today READ; borrow then maps on first use). */
typedef enum sft_access {
    SFT_ACCESS_AUTO = 0,
    SFT_ACCESS_READ = 1, /* pread only; borrow is SFT_E_UNSUPPORTED */
    SFT_ACCESS_MAP = 2   /* mapped when opened; fails where the file system cannot map */
} sft_access;

/* One part of a batched transfer. */
typedef struct sft_io_range {
    uint64_t offset; /* in the source or target */
    void *data;      /* memory read into, or written from */
    size_t size;
} sft_io_range;

/* Called once per range of a batch when it has ended, from any thread, in any order, possibly before
 * the batch call returns and never after. err is NULL on success and valid only during the call. */
typedef void (*sft_io_done)(void *ctx, size_t index, sft_status status, const sft_error *err);

/* Opens a regular file (no FIFO, device or directory: SFT_E_NOT_REGULAR). UTF-8 path on every system.
 * out: owned, close it (or give it to a catalog, which then closes it). Cost: open + fstat. */
SFT_API SFT_MUST_CHECK sft_status sft_source_open(sft_source **out, const char *path,
                                                  sft_access access, const sft_allocator *allocator,
                                                  sft_error *err);

/* The same over a descriptor of a regular file; it is duplicated, the caller keeps its own. */
SFT_API SFT_MUST_CHECK sft_status sft_source_open_fd(sft_source **out, int fd, sft_access access,
                                                     const sft_allocator *allocator,
                                                     sft_error *err);

/* Bytes in memory, not copied: they must stay unchanged until the source is closed. */
SFT_API SFT_MUST_CHECK sft_status sft_source_open_memory(sft_source **out, const void *data,
                                                         size_t size,
                                                         const sft_allocator *allocator,
                                                         sft_error *err);

/* Reads a stream (pipe, socket, terminal: anything read() serves) to its end into memory, at most
 * max_bytes (0: 1 TiB), else SFT_E_LIMIT. The descriptor is neither closed nor kept. */
SFT_API SFT_MUST_CHECK sft_status sft_source_open_stream(sft_source **out, int fd,
                                                         uint64_t max_bytes,
                                                         const sft_allocator *allocator,
                                                         sft_error *err);

SFT_API void sft_source_close(sft_source *source); /* NULL is fine */

SFT_API uint64_t sft_source_size(const sft_source *source); /* bytes, fixed at opening */
SFT_API const char *
sft_source_name(const sft_source *source); /* path, URL or "memory"; for messages */

/* Reads exactly `size` bytes at `offset`, or fails. SFT_E_TRUNCATED if the source ends before. */
SFT_API SFT_MUST_CHECK sft_status sft_source_read(const sft_source *source, uint64_t offset,
                                                  void *dst, size_t size, sft_error *err);

/* Ranges that are wanted together, and who is told of each. */
typedef struct sft_io_batch {
    const sft_io_range *ranges;
    size_t count;
    sft_io_done done; /* may be NULL */
    void *done_ctx;
    const sft_control *control; /* may be NULL */
} sft_io_batch;

/* Reads many ranges, in whatever order and parallelism the source likes best. Returns when all have
 * ended; the first failure is returned, the rest may or may not have been read. */
SFT_API SFT_MUST_CHECK sft_status sft_source_read_many(const sft_source *source,
                                                       const sft_io_batch *batch, sft_error *err);

/* Memory that holds the range, valid until the source is closed; never a hidden copy.
 * SFT_E_UNSUPPORTED where the source cannot. Read-only. */
SFT_API SFT_MUST_CHECK sft_status sft_source_borrow(const sft_source *source, uint64_t offset,
                                                    size_t size, const void **data, sft_error *err);

/* SFT_E_CHANGED if the file behind the source has another size or time than when the source was opened: what
 * was read of it may be a mixture of what it was and what it is. SFT_OK where there is no file (memory, a
 * stream, a URL: which look at every answer). Another file under the same name is no change: the one that
 * was opened is read on. POSIX and Windows; as fine as the file system's clock. */
SFT_API SFT_MUST_CHECK sft_status sft_source_unchanged(const sft_source *source, sft_error *err);

typedef enum sft_advice {
    SFT_ADVICE_WILL_NEED = 1,
    SFT_ADVICE_SEQUENTIAL = 2,
    SFT_ADVICE_RANDOM = 3,
    SFT_ADVICE_DONT_NEED = 4, /* the system need not keep it in memory */
    SFT_ADVICE_UNMAP = 5      /* it need not stay mapped; touching it maps it again */
} sft_advice;

/* A hint; never fails. */
SFT_API void sft_source_advise(const sft_source *source, uint64_t offset, uint64_t size,
                               sft_advice advice);

#ifdef __cplusplus
}
#endif
#endif
