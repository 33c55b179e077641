/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/memory/alloc.h - metadata memory: the caller's allocator with the C library's as default, checked
 * array sizes, and a bump arena that is freed as a whole.
 */
#ifndef SFT_BASE_ALLOC_H
#define SFT_BASE_ALLOC_H

#include "base/compiler.h"
#include <sft/types.h>

/* The allocator to use for `a` (NULL: the default, which backs large blocks with huge pages where the
 * system offers them). Never NULL. */
const sft_allocator *sft__base_allocator(const sft_allocator *a);

void *sft__base_alloc(const sft_allocator *a,
                      size_t size); /* size 0 gives NULL; contents undefined */
void *sft__base_alloc_zero(const sft_allocator *a, size_t size);
void *sft__base_alloc_array(const sft_allocator *a, size_t count,
                            size_t size); /* NULL on overflow */
void *sft__base_resize(const sft_allocator *a, void *ptr, size_t old_size, size_t new_size);
void sft__base_free(const sft_allocator *a, void *ptr, size_t size); /* ptr NULL is fine */

/* Grows *array (element size `size`) so that it has room for `need` elements; doubles. */
bool sft__base_grow(const sft_allocator *a, void *array_pointer, size_t *capacity, size_t need,
                    size_t size);

typedef struct sft__base_arena_chunk sft__base_arena_chunk;

/* Under AddressSanitizer each request of an arena with a budget is a block of its own: its ends are seen. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SFT__ARENA_EXACT 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(SFT__ARENA_EXACT)
#define SFT__ARENA_EXACT 1
#endif
#ifndef SFT__ARENA_EXACT
#define SFT__ARENA_EXACT 0
#endif

/* Bump allocator. Zero-initialise, then set allocator (and budget: 0 means none). Chunks are counted whole
 * against the budget: of it up to a third (2 MiB at most) may lie unused when it is said to be spent. */
typedef struct sft__base_arena {
    const sft_allocator *allocator;
    sft__base_arena_chunk *chunks;
    uint8_t *at;
    uint8_t *end;
    size_t next_chunk; /* size of the next chunk */
    uint64_t total;    /* bytes taken from the allocator */
    uint64_t charged;  /* bytes of the requests, each with what a block of its own would take */
    uint64_t budget;   /* ceiling for both, 0: none */
    bool over_budget;  /* why the last failed allocation failed; false: no memory */
} sft__base_arena;

void sft__base_arena_init(sft__base_arena *arena, const sft_allocator *allocator, uint64_t budget);
void *sft__base_arena_alloc(sft__base_arena *arena, size_t size,
                            size_t alignment); /* NULL: no memory or budget */
/* Copies len bytes and adds a NUL. */
char *sft__base_arena_copy(sft__base_arena *arena, const void *src, size_t len);
/* Frees what was taken since `mark`, a copy of the arena as it was; what was taken before stays. */
void sft__base_arena_rewind(sft__base_arena *arena, const sft__base_arena *mark);
void sft__base_arena_free(sft__base_arena *arena); /* all of it; the arena may be used again */

#endif
