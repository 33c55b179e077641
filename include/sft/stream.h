/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/stream.h - tensors one after the other, read ahead while you work on those that came, within a
 * memory budget.
 *
 *     sft_stream *s;                                             // a model through 64 MiB
 *     sft_stream_item item;
 *     if (sft_stream_create(&s, model, &options, &err) || sft_stream_add_all(s, &err)) { ... }
 *     while (sft_stream_next(s, &item, &err) == SFT_OK && item.tensor != NULL) {
 *         ... item.data, item.size ...
 *         sft_stream_release(s, &item);
 *     }
 *     sft_stream_free(s);
 *
 * Caveats first.
 *  - Handed-out memory is the stream's: it dies when released, and all of it with the stream.
 *  - What is not released counts against the budget. Neighbours of a file are read together and their
 *    memory comes free together, when the last of them is released. To keep tensors, read them into memory
 *    of your own (dst) or copy them.
 *  - Reading ahead needs a pool: its workers read while the caller is elsewhere. Without one,
 *    sft_stream_next reads what it hands out, in the calling thread. There are no other threads.
 *  - Bytes are little-endian as in the file (but for SFT_READ_HOST_ORDER). Whole tensors lie in memory as in
 *    their file modulo 4,096, so they are as aligned as there unless `alignment` asks for more; slices and
 *    casts begin at multiples of 64.
 *
 * Threads: next, release, cancel and the getters may be called by any number of threads at once, and each
 * item is handed out once. create, add, start and free must have the stream for themselves. The pool
 * may serve others at the same time, and must outlive the stream.
 */
#ifndef SFT_STREAM_H
#define SFT_STREAM_H

#include <sft/load.h>
#include <sft/read.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sft_stream sft_stream;

typedef enum sft_stream_order {
    SFT_STREAM_FILE = 0,  /* as the bytes lie: by file, then by position */
    SFT_STREAM_GIVEN = 1, /* as added */
    SFT_STREAM_ANY = 2,   /* as they arrive; read in the order of FILE */
    SFT_STREAM_ORDER_FORCE_32BIT = 0x7fffffff
} sft_stream_order;

/* A tensor that cannot be read fails alone, and the stream goes on. Else it ends there. */
#define SFT_STREAM_GO_ON 1u
/* next waits for another thread's release when the budget is used up by items handed out. Else that is
 * SFT_E_LIMIT: whoever is alone would wait forever. */
#define SFT_STREAM_WAIT 2u
/* Whole tensors (no slice, cast or dst) that are larger than 8 MiB, or an eighth of the budget, come in
 * parts of whole elements, one after the other (but for SFT_STREAM_ANY). What does not fit into the budget
 * otherwise fails with SFT_E_LIMIT, alone. */
#define SFT_STREAM_PARTS 4u
/* Compare whole tensors that come as they are (no slice, no cast) with the CRC32C recorded in their files or
 * beside them, while they are read: SFT_E_MISMATCH is a failure of that tensor, of one in parts in place of
 * its last part. Tensors without one are handed out as they are; SFT_E_NOT_FOUND at the start if none has. */
#define SFT_STREAM_VERIFY 8u

typedef struct sft_stream_options {
    size_t struct_size;
    const sft_allocator *allocator; /* of the bookkeeping */
    /* where the budget lies; NULL: one of its own. Not to be reset while the stream is open. Over
     * pinned or other special memory: sft_arena_create_over */
    sft_arena *arena;
    const sft_pool *pool; /* reads ahead; NULL: nothing does */
    /* progress, cancel; polled by the pool's workers, too, until free */
    const sft_control *control;
    uint64_t memory_bytes; /* the budget: bytes read ahead and handed out, in whole pages of 4,096,
                              at least two. Three times the largest result lets one item be held
                              while the next one is asked for, whatever their sizes; 0: that, but at
                              least 64 MiB */
    /* of each tensor, a power of two up to 4,096; each is read by itself then, not DIRECT. 0: as
     * the file has it */
    uint32_t alignment;
    /* AUTO, READ or DIRECT, for whole tensors that come in the stream's memory, and for slices
     * and casts that span 1 MiB or more of their file: cold columns are then read as whole spans.
     * MAP is SFT_E_UNSUPPORTED: it has nothing to read */
    sft_strategy strategy;
    uint32_t order; /* sft_stream_order */
    uint32_t flags; /* SFT_STREAM_* */
} sft_stream_options;

/* One result. The struct does not grow: it uses its reserve. */
typedef struct sft_stream_item {
    const sft_tensor *tensor; /* NULL: the end */
    void *data;      /* packed, or dst; never NULL in a success, not even for 0 bytes. The caller
                                 may write to it until he releases it */
    size_t size;     /* bytes at data (dst: of the packed result) */
    uint64_t offset; /* of the part in the packed result; 0 for whole ones */
    uint64_t nbytes; /* of the packed result */
    size_t index;    /* in the order of adding */
    void *run;       /* the stream's own; NULL: nothing to release */
    uint64_t reserved[4];
} sft_stream_item;

/* catalog: must outlive the stream. options: NULL for defaults. out: owned; sft_stream_free. */
SFT_API SFT_MUST_CHECK sft_status sft_stream_create(sft_stream **out, const sft_catalog *catalog,
                                                    const sft_stream_options *options,
                                                    sft_error *err);

/* Adds a tensor, or what the read options make of it: a slice, a cast, another byte order (copied; pool and
 * control are not used). The same tensor may be added again. dst: memory of the caller's for the result,
 * read straight into, outside the budget (dst_size as in sft_tensor_read); NULL: the stream's memory,
 * packed. dst_strides need a dst. Everything is checked here. SFT_E_STATE once it has started. */
SFT_API SFT_MUST_CHECK sft_status sft_stream_add(sft_stream *stream, const sft_tensor *tensor,
                                                 const sft_read_options *read, void *dst,
                                                 size_t dst_size, sft_error *err);
/* Every tensor of the catalog, whole. */
SFT_API SFT_MUST_CHECK sft_status sft_stream_add_all(sft_stream *stream, sft_error *err);

/* Begins to read ahead, so that the first tensors are there when they are asked for; next does it if you
 * do not. SFT_E_NOMEM: the budget is not to be had. */
SFT_API SFT_MUST_CHECK sft_status sft_stream_start(sft_stream *stream, sft_error *err);

/* The next result, when it is there. SFT_OK with item->tensor NULL: that was all.
 * A failure of one tensor names it in item->tensor (data NULL, nothing to release) and in err, after a second
 * attempt to read it: SFT_E_TRUNCATED, SFT_E_CHANGED (size or time of its file are not as at the start;
 * seen on POSIX), SFT_E_IO, SFT_E_LIMIT (larger than the budget) ... With SFT_STREAM_GO_ON the next call goes
 * on; without, every later call is SFT_E_STATE.
 * A failure with item->tensor NULL is the stream's: SFT_E_CANCELLED, for good; SFT_E_LIMIT: release
 * something (or use SFT_STREAM_WAIT), then call again. */
SFT_API SFT_MUST_CHECK sft_status sft_stream_next(sft_stream *stream, sft_stream_item *item,
                                                  sft_error *err);
/* Gives the memory back, in any order of items; sets item->data and item->run to NULL. Harmless for failures,
 * the end, and items that were released. Reading ahead goes on at once. */
SFT_API void sft_stream_release(sft_stream *stream, sft_stream_item *item);

/* Ends reading soon; next is SFT_E_CANCELLED from here on. Items stay valid. */
SFT_API void sft_stream_cancel(sft_stream *stream);

/* Bytes of the budget in use, read ahead and handed out; peak (may be NULL): the most there ever were. */
SFT_API uint64_t sft_stream_memory(sft_stream *stream, uint64_t *peak);
/* How file `file` of the catalog is read, and why, as sft_loaded_strategy; AUTO before the start. */
SFT_API sft_strategy sft_stream_strategy(sft_stream *stream, size_t file, const char **reason);

/* Waits for reads under way, and frees everything, items that were not released included. NULL is fine. */
SFT_API void sft_stream_free(sft_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
