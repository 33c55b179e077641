/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/load.h - many tensors at once into memory that is your own.
 *
 * Caveats first.
 *  - Loaded memory belongs to the arena: it dies with the arena, or with its next reset. Without an arena
 *    of yours it dies with the sft_loaded.
 *  - SFT_STRATEGY_MAP copies nothing: the bytes are the file's, read-only, and have every hazard of
 *    sft_source_borrow. AUTO never chooses it.
 *  - SFT_STRATEGY_DIRECT leaves the page cache as it is: a second load is as cold as the first.
 *  - Bytes are little-endian as in the file. Addresses keep the file's position modulo 4,096, so a tensor
 *    that is aligned in its file is aligned in memory; others are not, unless `alignment` asks for it.
 *
 * Threads: those of the pool in the options, and the caller's. One arena serves one load at a time.
 */
#ifndef SFT_LOAD_H
#define SFT_LOAD_H

#include <sft/catalog.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- arenas */

/* Memory for tensor data: large blocks, aligned to 2 MiB and with huge pages where the system has them,
 * first touched by the worker that fills them. */
typedef struct sft_arena sft_arena;

/* bytes: room to set aside now (address space; nothing is touched), 0: none until it is needed. Grows when
 * a load needs more. allocator: of the arena's own few bytes, and of blocks under 1 MiB. flags: 0.
 * SFT_E_NOMEM when the system refuses, as under RLIMIT_AS. */
SFT_API SFT_MUST_CHECK sft_status sft_arena_create(sft_arena **out, size_t bytes, uint32_t flags,
                                                   const sft_allocator *allocator, sft_error *err);
/* Over memory of the caller's, of any alignment, which must stay until free. It does not grow: a load that
 * does not fit is SFT_E_NOMEM. Up to 8 KiB per run of tensors go to alignment. */
SFT_API SFT_MUST_CHECK sft_status sft_arena_create_over(sft_arena **out, void *memory, size_t size,
                                                        const sft_allocator *allocator,
                                                        sft_error *err);
/* Everything loaded into it is gone. The largest block stays, touched as it is: the next load into it
 * is spared what fresh pages cost. */
SFT_API void sft_arena_reset(sft_arena *arena);
SFT_API void sft_arena_free(sft_arena *arena); /* NULL is fine */
SFT_API size_t sft_arena_size(const sft_arena *arena); /* bytes of all its blocks */

/* ---------------------------------------------------------------- strategies */

typedef enum sft_strategy {
    SFT_STRATEGY_AUTO = 0,   /* READ or DIRECT, by file */
    SFT_STRATEGY_MAP = 1,    /* borrow from the source; nothing is copied */
    SFT_STRATEGY_READ = 2,   /* read through the page cache, or however the source reads */
    SFT_STRATEGY_DIRECT = 3, /* past the page cache; READ where the system has no such way */
    SFT_STRATEGY_FORCE_32BIT = 0x7fffffff
} sft_strategy;

typedef struct sft_strategy_choice {
    sft_strategy strategy;   /* never AUTO */
    int32_t cached;          /* percent of the file in the page cache, from samples; -1: not known */
    const char *file_system; /* "ext", "xfs", "nfs" ...; "unknown"; "" for sources that are no file. Static */
    const char *reason;      /* one sentence, static */
    uint64_t reserved[4];
} sft_strategy_choice;

/* What a load of the whole file `file` (an index of the catalog) would do, and why. AUTO is DIRECT for a
 * file of at least 64 MiB on a local disk that is mostly not in the page cache and can be opened so, else
 * READ. SFT_E_RANGE: no such file. Cost: some 40 system calls. */
SFT_API SFT_MUST_CHECK sft_status sft_strategy_choose(const sft_catalog *catalog, size_t file,
                                                      sft_strategy wanted, sft_strategy_choice *out,
                                                      sft_error *err);

/* ---------------------------------------------------------------- loads */

#define SFT_LOAD_POPULATE 1u /* MAP: bring the pages in now, with the pool */

typedef struct sft_load_options {
    size_t struct_size;
    const sft_allocator *allocator; /* of the bookkeeping */
    sft_arena *arena;               /* NULL: one of its own */
    const size_t *select;           /* positions of tensors in the catalog, any order; NULL: all */
    size_t select_count;
    const sft_pool *pool; /* NULL: the calling thread alone */
    const sft_control *control;
    uint64_t memory_bytes; /* data memory above this is SFT_E_LIMIT; 0: no limit */
    uint32_t alignment;    /* of each tensor, a power of two up to 4,096: each is read by itself, not
                              DIRECT; 0: as the file has it */
    sft_strategy strategy;
    uint32_t flags; /* SFT_LOAD_* */
    uint32_t reserved;
} sft_load_options;

/* What a load brought. */
typedef struct sft_loaded sft_loaded;

/* Brings all tensors of the catalog, or the selected ones, into memory. Neighbours are read together, gaps
 * of up to 64 KiB included; the work is cut by bytes, not by tensors. The catalog must outlive *out.
 * Errors: SFT_E_TRUNCATED, SFT_E_CHANGED (a file's size or time changed during the load; seen on POSIX),
 * SFT_E_IO, SFT_E_NOMEM, SFT_E_LIMIT, SFT_E_CANCELLED, SFT_E_RANGE (select), SFT_E_UNSUPPORTED (MAP of
 * what cannot be borrowed). After a failure the arena may hold the space until its reset. */
SFT_API SFT_MUST_CHECK sft_status sft_load(sft_loaded **out, const sft_catalog *catalog,
                                           const sft_load_options *options, sft_error *err);
/* The tensor's packed bytes, or NULL if it was not selected; never NULL otherwise, not even for 0 bytes.
 * size may be NULL. Memory from READ and DIRECT may be written to. */
SFT_API const void *sft_loaded_data(const sft_loaded *loaded, const sft_tensor *tensor, size_t *size);
SFT_API size_t sft_loaded_count(const sft_loaded *loaded);   /* tensors */
SFT_API uint64_t sft_loaded_bytes(const sft_loaded *loaded); /* of those tensors */
/* What was done with file `file` of the catalog, and why: a static sentence (reason may be NULL).
 * AUTO: nothing of it was wanted, or there is no such file. */
SFT_API sft_strategy sft_loaded_strategy(const sft_loaded *loaded, size_t file, const char **reason);
SFT_API void sft_loaded_free(sft_loaded *loaded); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
