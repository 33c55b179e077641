/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/types.h - what every other header needs: visibility, version, status, error record,
 * allocator, limits, progress and cancellation.
 *
 * Laws that hold for the whole API:
 *  - A getter returns a borrow tied to its parent. An owned object comes out through the first
 *    `**out` argument, which is NULL on failure. Pairs are open/close, create/free, parse/free,
 *    init/reset.
 *  - `sft_error *err` is always last, may be NULL, belongs to the caller, is written only on failure
 *    and never needs freeing.
 *  - No globals, no thread-locals, no locale, no printing, no signal handlers, no abort.
 *  - Parsed objects are immutable: every function that takes a const pointer may be called from any
 *    number of threads at once on the same object.
 *  - Options structs start with `struct_size` (set it with SFT_INIT); zero in a field means its default;
 *    they grow only at the end.
 *  - Callbacks return: no longjmp and no C++ exception may cross the library.
 *  - File positions are uint64_t, memory sizes size_t. A name is (pointer, length): it may hold NUL.
 */
#ifndef SFT_TYPES_H
#define SFT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(SFT_API) /* how the functions are exported was said before */
#elif defined(SFT_STATIC) || !defined(_WIN32)
#if defined(__GNUC__)
#define SFT_API __attribute__((visibility("default")))
#else
#define SFT_API
#endif
#elif defined(SFT_BUILDING)
#define SFT_API __declspec(dllexport)
#else
#define SFT_API __declspec(dllimport)
#endif

#if defined(__GNUC__)
#define SFT_MUST_CHECK __attribute__((warn_unused_result))
#else
#define SFT_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The home of the version: everything else reads it here (packaging/version.sh). */
#define SFT_VERSION_MAJOR  0
#define SFT_VERSION_MINOR  1
#define SFT_VERSION_PATCH  0
#define SFT_VERSION_STRING "0.1.0"

/* Version of the library at run time, "major.minor.patch". Static storage. */
SFT_API const char *sft_version(void);

/* Sets every byte of a struct to zero and its struct_size; use it on every options struct:
 *     sft_open_options opt; SFT_INIT(&opt);                                                          */
#define SFT_INIT(p) (sft_zero((p), sizeof *(p)), (void)((p)->struct_size = sizeof *(p)))
SFT_API void sft_zero(void *p, size_t size);

/* ---------------------------------------------------------------- status */

/* Stable numbers, in groups of ten; never renumbered or reused. X(name, number, text) */
#define SFT_STATUS_MAP(X)                                                                          \
    X(SFT_OK, 0, "ok")                                                                             \
    /* the caller */                                                                               \
    X(SFT_E_ARG, 1, "invalid argument")                                                            \
    X(SFT_E_NOMEM, 2, "out of memory")                                                             \
    X(SFT_E_LIMIT, 3, "limit exceeded")                                                            \
    X(SFT_E_UNSUPPORTED, 4, "not supported")                                                       \
    X(SFT_E_STATE, 5, "call not allowed in this state")                                            \
    X(SFT_E_CANCELLED, 6, "cancelled")                                                             \
    X(SFT_E_INTERNAL, 7, "internal error")                                                         \
    X(SFT_E_TIMEOUT, 8, "not done in time")                                                        \
    /* the world outside */                                                                        \
    X(SFT_E_IO, 10, "input or output error")                                                       \
    X(SFT_E_TRUNCATED, 11, "file shorter than it was")                                             \
    X(SFT_E_CHANGED, 12, "file changed while in use")                                              \
    X(SFT_E_HTTP, 13, "HTTP error")                                                                \
    X(SFT_E_NOT_COMMITTED, 14, "not committed, the old state is intact")                           \
    X(SFT_E_DURABILITY, 15, "committed, but durability is uncertain")                              \
    X(SFT_E_PATH, 16, "path refused")                                                              \
    X(SFT_E_EXISTS, 17, "target exists")                                                           \
    X(SFT_E_NOT_REGULAR, 18, "target is not a regular file")                                       \
    X(SFT_E_FORMAT, 19, "not a file of a known format")                                            \
    /* the header */                                                                               \
    X(SFT_E_TOO_SMALL, 20, "file shorter than 8 bytes")                                            \
    X(SFT_E_HEADER_TOO_LARGE, 21, "header length above the limit")                                 \
    X(SFT_E_HEADER_PAST_END, 22, "header length points past the end of the file")                  \
    X(SFT_E_UTF8, 23, "header is not UTF-8")                                                       \
    X(SFT_E_JSON, 24, "header is not JSON")                                                        \
    X(SFT_E_SCHEMA, 25, "header has the wrong structure")                                          \
    X(SFT_E_DUPLICATE, 26, "name given twice")                                                     \
    X(SFT_E_MISSING_FIELD, 27, "required field missing")                                           \
    /* the tensors */                                                                              \
    X(SFT_E_DTYPE, 30, "unknown element type")                                                     \
    X(SFT_E_SHAPE, 31, "invalid shape")                                                            \
    X(SFT_E_OFFSETS, 32, "invalid data offsets")                                                   \
    X(SFT_E_HOLE, 33, "hole in the data section")                                                  \
    X(SFT_E_OVERLAP, 34, "tensors overlap")                                                        \
    X(SFT_E_SIZE, 35, "data offsets disagree with dtype and shape")                                \
    X(SFT_E_OVERFLOW, 36, "size overflows 64 bits")                                                \
    X(SFT_E_SUBBYTE, 37, "sub-byte tensor does not end on a byte boundary")                        \
    X(SFT_E_COVERAGE, 38, "data section and file size disagree")                                   \
    /* questions whose answer is no */                                                             \
    X(SFT_E_NOT_FOUND, 40, "not found")                                                            \
    X(SFT_E_RANGE, 41, "index out of range")                                                       \
    X(SFT_E_MISMATCH, 42, "content does not match")                                                \
    X(SFT_E_STALE, 43, "recorded digests belong to other tensors")                                 \
    /* models of several files */                                                                  \
    X(SFT_E_INDEX, 50, "invalid index file")                                                       \
    X(SFT_E_SHARD_MISSING, 51, "shard missing")                                                    \
    X(SFT_E_SHARD_DISAGREES, 52, "shard and index disagree")

typedef enum sft_status {
#define SFT_STATUS_ENUM(name, number, text) name = number,
    SFT_STATUS_MAP(SFT_STATUS_ENUM)
#undef SFT_STATUS_ENUM
        SFT_STATUS_FORCE_32BIT = 0x7fffffff
} sft_status;

/* "SFT_E_JSON" and "header is not JSON"; "SFT_E_?" and "unknown status" for other numbers. Static. */
SFT_API const char *sft_status_name(int32_t status);
SFT_API const char *sft_status_text(int32_t status);

/* ---------------------------------------------------------------- error: a place */

#define SFT_NO_OFFSET UINT64_MAX

/* Exactly 512 bytes; may live on the stack; nothing to free. Never grows: it uses its reserve. */
typedef struct sft_error {
    int32_t status;    /* sft_status */
    int32_t sys;       /* errno (GetLastError on Windows); HTTP status for SFT_E_HTTP; else 0 */
    uint64_t offset;   /* absolute byte offset in the file where the fault is, or SFT_NO_OFFSET */
    uint64_t expected; /* bytes the file should have, where it is too short or too long; else 0 */
    uint64_t reserved[3]; /* zero */
    char tensor[112];  /* tensor name, escaped for a terminal, truncated with "..."; "" if none */
    char message[352]; /* one sentence, lower case, no full stop, no newline, safe to print */
} sft_error;

/* ---------------------------------------------------------------- memory for metadata */

/* All three functions, or a NULL pointer to the struct for the C library's. Sizes are given back on
 * resize and free, so an arena needs no headers. alloc(ctx, n) must return memory aligned for any C
 * object. Must be safe to call from several threads when objects are used from several threads. */
typedef struct sft_allocator {
    void *(*alloc)(void *ctx, size_t size);
    void *(*resize)(void *ctx, void *ptr, size_t old_size, size_t new_size);
    void (*free)(void *ctx, void *ptr, size_t size);
    void *ctx;
} sft_allocator;

/* ---------------------------------------------------------------- limits */

/* Budgets for input. 0 in a field means its default. */
typedef struct sft_limits {
    size_t struct_size;
    uint64_t header_bytes; /* default 100,000,000 as the reference; at most 4,294,967,295 */
    uint64_t tensors;      /* default 2^32 - 1, the structural maximum: the header limit rules */
    uint64_t rank;         /* dimensions of one tensor; default 1,024 */
    uint64_t name_bytes;   /* decoded bytes of one name; default: no limit beyond the header's */
    uint64_t memory_bytes; /* heap held for one catalog; default: no limit beyond the others */
    uint64_t shards;       /* files of one model; default 65,536 */
} sft_limits;

/* ---------------------------------------------------------------- progress and cancellation */

typedef struct sft_progress {
    uint64_t bytes_done;
    uint64_t bytes_total; /* 0 if not known */
} sft_progress;

/* Given to long operations. poll is called now and then, from any worker thread but never from two at
 * once; a result other than 0 cancels the operation, which then fails with SFT_E_CANCELLED and leaves
 * nothing half-written. */
typedef struct sft_control {
    size_t struct_size;
    int (*poll)(void *ctx, const sft_progress *progress);
    void *ctx;
} sft_control;

/* ---------------------------------------------------------------- worker threads */

/* A set of worker threads, made by the caller and passed in options. There is no hidden pool.
 * create: `threads` workers in total, the calling thread included (0: one per available processor, at
 * most 64). free: NULL is fine; no operation may be using it. A pool may serve several operations at
 * once. Do not use a pool in a child after fork(): make a new one. */
typedef struct sft_pool sft_pool;
SFT_API SFT_MUST_CHECK sft_status sft_pool_create(sft_pool **out, uint32_t threads,
                                                  const sft_allocator *allocator, sft_error *err);
SFT_API uint32_t sft_pool_threads(const sft_pool *pool); /* 1 for NULL */
SFT_API void sft_pool_free(sft_pool *pool);

/* Leaves features of the processor unused in all that runs with this pool. text: a comma-separated list of a
 * level ("portable", "sse4.2", "avx2", "avx512": what is above it goes) and of "-crc32", "-clmul", "-sha",
 * "-avx2", "-vpclmul", "-avx512"; NULL or "": nothing. Results are the same. Call it before the pool is used.
 * Errors: SFT_E_ARG for a word that is none of these. */
SFT_API SFT_MUST_CHECK sft_status sft_pool_set_cpu(sft_pool *pool, const char *text,
                                                   sft_error *err);
/* What is left out, as bits for SFT_CONVERT_WITHOUT; 0 for NULL. */
SFT_API uint32_t sft_pool_without(const sft_pool *pool);

/* ---------------------------------------------------------------- names */

/* 1 if the pattern fits the whole name: * any characters, ? one, [a-z] one of a set, [!a-z] or [^a-z] one
 * that is not in it, \x the character x itself. A [ that is never closed is itself. Characters are those of
 * UTF-8; a byte that is none counts as one. At most name_len * pattern_len steps. */
SFT_API int sft_glob_match(const char *pattern, size_t pattern_len, const char *name,
                           size_t name_len);
/* Below, at or above 0 as a stands before, with or behind b where runs of digits count as numbers: a.9 before
 * a.10. Everything else is ordered by bytes. */
SFT_API int sft_natural_compare(const char *a, size_t a_len, const char *b, size_t b_len);

#ifdef __cplusplus
}
#endif
#endif
