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
 *  - Bytes are little-endian as in the file, unless SFT_LOAD_HOST_ORDER is given. Addresses keep the file's
 *    position modulo 4,096, so a tensor that is aligned in its file is aligned in memory; others are not,
 *    unless `alignment` asks for it. Tensors that are cast lie at multiples of 64 bytes.
 *  - After a failure, memory of the caller's (arena or places) holds anything.
 *
 * Threads: those of the pool in the options, and the caller's. One arena serves one load at a time.
 */
#ifndef SFT_LOAD_H
#define SFT_LOAD_H

#include <sft/catalog.h>
#include <sft/digest.h>
#include <sft/read.h>

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
SFT_API void sft_arena_free(sft_arena *arena);         /* NULL is fine */
SFT_API size_t sft_arena_size(const sft_arena *arena); /* bytes of all its blocks */

/* ---------------------------------------------------------------- strategies (see sft/read.h) */

typedef struct sft_strategy_choice {
    sft_strategy strategy; /* never AUTO */
    int32_t cached;        /* percent of the file in the page cache, from samples; -1: not known */
    const char *
        file_system; /* "ext", "xfs", "nfs" ...; "unknown"; "" for sources that are no file. Static */
    const char *reason; /* one sentence, static */
    uint64_t reserved[4];
} sft_strategy_choice;

/* What a load of the whole file `file` (an index of the catalog) would do, and why. AUTO is DIRECT where at
 * least 64 MiB are wanted in all and 1 MiB of a file on a local disk that is mostly not in the page cache
 * and can be opened so, else READ. SFT_E_RANGE: no such file. Cost: some 40 system calls. */
SFT_API SFT_MUST_CHECK sft_status sft_strategy_choose(const sft_catalog *catalog, size_t file,
                                                      sft_strategy wanted, sft_strategy_choice *out,
                                                      sft_error *err);

/* ---------------------------------------------------------------- selection */

/* A name, a beginning of names, or a pattern: bytes, of any length. */
typedef struct sft_name {
    const char *text;
    size_t len;
} sft_name;

typedef enum sft_match {
    SFT_MATCH_NAME = 0,   /* exactly this name, or an alias of a tensor */
    SFT_MATCH_PREFIX = 1, /* every name that begins so */
    SFT_MATCH_GLOB = 2,   /* sft_glob_match */
    SFT_MATCH_FORCE_32BIT = 0x7fffffff
} sft_match;

/* Tensors that at least one of `names` fits. */
typedef struct sft_selection {
    const sft_name *names;
    size_t count;
    sft_match match;
} sft_selection;

/* Positions, ascending and each once, of the tensors that are selected.
 * positions: room for sft_catalog_count entries; count: how many were written. SFT_E_NOT_FOUND if one of
 * the names fits no tensor (err->tensor names it). Cost: O(1) a name for SFT_MATCH_NAME and one pass over
 * the catalog, else one comparison per name and tensor. */
SFT_API SFT_MUST_CHECK sft_status sft_catalog_select(const sft_catalog *catalog,
                                                     const sft_selection *selection,
                                                     size_t *positions, size_t *count,
                                                     sft_error *err);

/* ---------------------------------------------------------------- loads */

#define SFT_LOAD_POPULATE 1u /* MAP: bring the pages in now, with the pool */
#define SFT_LOAD_HOST_ORDER                                                                        \
    2u /* elements in the host's byte order (not MAP, unless it is little-endian) */
/* Compare with the digests recorded in the files or beside them, while the bytes pass: SFT_E_MISMATCH
 * names the first damaged tensor and its bytes, SFT_E_NOT_FOUND if none of the tensors wanted has one.
 * The CRC32C where it is recorded, else the SHA-256, whose tensors are not divided among threads. */
#define SFT_LOAD_VERIFY 4u
/* Count NaN and infinities of floating-point tensors, in the files' own types. */
#define SFT_LOAD_SCAN 8u

/* Memory of the caller's for one tensor. */
typedef struct sft_load_place {
    void *data;  /* of any alignment; NULL: this one goes into the arena */
    size_t size; /* at least what the tensor takes, after a cast; else SFT_E_ARG */
} sft_load_place;

typedef struct sft_load_options {
    size_t struct_size;
    const sft_allocator *allocator; /* of the bookkeeping */
    sft_arena *arena;               /* NULL: one of its own */
    const size_t *select;           /* positions of tensors in the catalog, any order; NULL: all */
    size_t select_count;
    const sft_pool *pool; /* NULL: the calling thread alone */
    const sft_control *control;
    uint64_t memory_bytes; /* data memory above this is SFT_E_LIMIT; 0: no limit */
    uint32_t alignment;    /* of each tensor, a power of two up to 4,096; 0: as the file has it */
    sft_strategy strategy;
    uint32_t flags; /* SFT_LOAD_* */
    /* SFT_DIGEST_* to compute while loading, of the bytes as they are in the file */
    uint32_t digests;
    /* Types to cast to. float_dtype: of all F16, BF16, F32 and F64 tensors. dtypes: beside `select` (or one
     * per tensor of the catalog where that is NULL), NULL entries: nothing said; goes before float_dtype.
     * Casts are those of sft_convert. */
    const sft_dtype *float_dtype;
    const sft_dtype *const *dtypes;
    /* Where tensors go: beside `select`, as dtypes. A tensor selected twice is SFT_E_ARG then. Neighbours in
     * the file are still read together. Not with MAP. */
    const sft_load_place *places;
} sft_load_options;

/* What a load brought. */
typedef struct sft_loaded sft_loaded;

/* Brings all tensors of the catalog, or the selected ones, into memory. Neighbours are read together, gaps
 * of up to 64 KiB included; the work is cut by bytes, not by tensors. A source that has read_many gets
 * its ranges in batches. The catalog must outlive *out.
 * Errors: SFT_E_ARG, SFT_E_SUBBYTE and SFT_E_UNSUPPORTED (casts; MAP with a cast), SFT_E_TRUNCATED,
 * SFT_E_CHANGED (a file's size or time changed during the load; seen on POSIX),
 * SFT_E_IO, SFT_E_NOMEM, SFT_E_LIMIT, SFT_E_CANCELLED, SFT_E_RANGE (select), SFT_E_UNSUPPORTED (MAP of
 * what cannot be borrowed), SFT_E_MISMATCH, SFT_E_NOT_FOUND and SFT_E_STALE (SFT_LOAD_VERIFY).
 * After a failure the arena may hold the space until its reset. */
SFT_API SFT_MUST_CHECK sft_status sft_load(sft_loaded **out, const sft_catalog *catalog,
                                           const sft_load_options *options, sft_error *err);
/* The tensor's packed bytes, or NULL if it was not selected; never NULL otherwise, not even for 0 bytes.
 * Of an alias that shows a part of a tensor: NULL, too, if its elements do not lie in order, or were cast.
 * size may be NULL. Memory from READ and DIRECT may be written to. */
SFT_API const void *sft_loaded_data(const sft_loaded *loaded, const sft_tensor *tensor,
                                    size_t *size);
/* The type of those bytes: the tensor's, or what it was cast to. */
SFT_API const sft_dtype *sft_loaded_dtype(const sft_loaded *loaded, const sft_tensor *tensor);

/* What was learned of a tensor while its bytes passed. */
typedef struct sft_loaded_facts {
    uint32_t digests;  /* SFT_DIGEST_* that were computed */
    uint32_t verified; /* SFT_DIGEST_* that were equal to recorded ones */
    uint32_t scanned;  /* 1: the two counts below are known */
    uint32_t crc32c;
    uint8_t sha256[32];
    uint64_t nans;
    uint64_t infinities;
    uint64_t reserved[4];
} sft_loaded_facts;
/* All zero for a tensor that was not selected, and where the options asked for nothing. */
SFT_API void sft_loaded_facts_get(const sft_loaded *loaded, const sft_tensor *tensor,
                                  sft_loaded_facts *out);
/* Tensors that were compared with recorded digests; the others had none. */
SFT_API size_t sft_loaded_verified(const sft_loaded *loaded);
SFT_API size_t sft_loaded_count(const sft_loaded *loaded);   /* tensors */
SFT_API uint64_t sft_loaded_bytes(const sft_loaded *loaded); /* of those tensors */
/* What was done with file `file` of the catalog, and why: a static sentence (reason may be NULL).
 * AUTO: nothing of it was wanted, or there is no such file. */
SFT_API sft_strategy sft_loaded_strategy(const sft_loaded *loaded, size_t file,
                                         const char **reason);
SFT_API void sft_loaded_free(sft_loaded *loaded); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
