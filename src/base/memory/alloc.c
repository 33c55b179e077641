/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/memory/alloc.c - see alloc.h. The default allocator is malloc, except that blocks of 1 MiB and more
 * are aligned to 2 MiB and offered to the kernel as huge pages: first touch of fresh 4 KiB pages costs more
 * than parsing the header that fills them.
 */
#include "base/memory/alloc.h"
#include "base/checked.h"
#include "base/memory/pages.h"
#include <stdlib.h>

enum { ARENA_FIRST_CHUNK = 4096, ARENA_MAX_CHUNK = 8 << 20 };

static void *default_alloc(void *ctx, size_t size) {
    (void)ctx;
    return size >= SFT__PAGES_MIN ? sft__base_pages_alloc(size) : malloc(size);
}

static void default_free(void *ctx, void *ptr, size_t size) {
    (void)ctx;
    if (size >= SFT__PAGES_MIN) {
        sft__base_pages_free(ptr, size);
    } else {
        free(ptr);
    }
}

static void *default_resize(void *ctx, void *ptr, size_t old_size, size_t new_size) {
    if (old_size < SFT__PAGES_MIN && new_size < SFT__PAGES_MIN) {
        return realloc(ptr, new_size);
    }
    void *fresh = default_alloc(ctx, new_size);
    if (fresh == NULL) {
        return NULL;
    }
    memcpy(fresh, ptr, old_size < new_size ? old_size : new_size);
    default_free(ctx, ptr, old_size);
    return fresh;
}

static const sft_allocator default_allocator = {default_alloc, default_resize, default_free, NULL};

const sft_allocator *sft__base_allocator(const sft_allocator *a) {
    return a != NULL ? a : &default_allocator;
}

void *sft__base_alloc(const sft_allocator *a, size_t size) {
    a = sft__base_allocator(a);
    return size == 0 ? NULL : a->alloc(a->ctx, size);
}

void *sft__base_alloc_zero(const sft_allocator *a, size_t size) {
    void *p = sft__base_alloc(a, size);
    if (p != NULL) {
        memset(p, 0, size);
    }
    return p;
}

void *sft__base_alloc_array(const sft_allocator *a, size_t count, size_t size) {
    size_t bytes;
    return sft__base_mul_size(count, size, &bytes) ? sft__base_alloc(a, bytes) : NULL;
}

void *sft__base_resize(const sft_allocator *a, void *ptr, size_t old_size, size_t new_size) {
    a = sft__base_allocator(a);
    if (ptr == NULL) {
        return sft__base_alloc(a, new_size);
    }
    return a->resize(a->ctx, ptr, old_size, new_size);
}

void sft__base_free(const sft_allocator *a, void *ptr, size_t size) {
    a = sft__base_allocator(a);
    if (ptr != NULL) {
        a->free(a->ctx, ptr, size);
    }
}

bool sft__base_grow(const sft_allocator *a, void *array_pointer, size_t *capacity, size_t need,
                    size_t size) {
    void **array = array_pointer;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    size_t old_bytes;
    size_t new_bytes;
    void *p;

    if (need <= *capacity) {
        return true;
    }
    while (wanted < need) {
        if (!sft__base_mul_size(wanted, 2, &wanted)) {
            return false;
        }
    }
    if (!sft__base_mul_size(*capacity, size, &old_bytes) ||
        !sft__base_mul_size(wanted, size, &new_bytes)) {
        return false;
    }
    memcpy(&p, array, sizeof p);
    p = sft__base_resize(a, p, old_bytes, new_bytes);
    if (p == NULL) {
        return false;
    }
    memcpy(array, &p, sizeof p);
    *capacity = wanted;
    return true;
}

struct sft__base_arena_chunk {
    sft__base_arena_chunk *next;
    size_t size;
};

void sft__base_arena_init(sft__base_arena *arena, const sft_allocator *allocator, uint64_t budget) {
    memset(arena, 0, sizeof *arena);
    arena->allocator = sft__base_allocator(allocator);
    arena->budget = budget;
    arena->next_chunk = ARENA_FIRST_CHUNK;
}

/* Bytes of the chunk for a request of `need`. With a budget they follow from the requests alone, never from
 * what is left of the budget: so a larger budget never fails where a smaller one is enough. Up to half as
 * much again is taken ahead, so little of a small budget; from 2 MiB on whole huge pages. */
static size_t arena_chunk_size(const sft__base_arena *arena, size_t need) {
    const uint64_t ahead = arena->total / 2;
    size_t size = arena->next_chunk;

    if (arena->budget != 0) {
        size = SFT__ARENA_EXACT ? 0 : ahead < SFT__PAGES_MIN ? (size_t)ahead : SFT__HUGE_PAGE;
    }
    return size < need ? need : size;
}

static sft__base_arena_chunk *arena_add_chunk(sft__base_arena *arena, size_t need) {
    uint64_t total;
    sft__base_arena_chunk *chunk;

    arena->over_budget = false;
    if (!sft__base_add_size(need, sizeof *chunk, &need)) {
        return NULL;
    }
    const size_t size = arena_chunk_size(arena, need);
    if (!sft__base_add64(arena->total, size, &total) ||
        (arena->budget != 0 && total > arena->budget)) {
        arena->over_budget = arena->budget != 0;
        return NULL;
    }
    chunk = sft__base_alloc(arena->allocator, size);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->next = arena->chunks;
    chunk->size = size;
    arena->chunks = chunk;
    arena->total = total;
    if (arena->next_chunk < ARENA_MAX_CHUNK) {
        arena->next_chunk *= 2;
    }
    return chunk;
}

static size_t skip_to(const uint8_t *at, size_t alignment) {
    return (size_t)(0 - (uintptr_t)at) & (alignment - 1);
}

/* Each request is charged as the block of its own that it would be: what holds the arena's memory together
 * beside it (tables of what lies in it) grows with their number. */
static bool arena_charge(sft__base_arena *arena, size_t need) {
    uint64_t charged;

    if (arena->budget == 0) {
        return true;
    }
    arena->over_budget = !sft__base_add64(arena->charged, need, &charged) ||
                         !sft__base_add64(charged, sizeof(sft__base_arena_chunk), &charged) ||
                         charged > arena->budget;
    if (!arena->over_budget) {
        arena->charged = charged;
    }
    return !arena->over_budget;
}

void *sft__base_arena_alloc(sft__base_arena *arena, size_t size, size_t alignment) {
    const size_t skip = skip_to(arena->at, alignment);
    const size_t room = (size_t)(arena->end - arena->at);
    size_t need;

    if (!sft__base_add_size(size, alignment, &need) || !arena_charge(arena, need)) {
        return NULL;
    }
    if (arena->at != NULL && skip <= room && size <= room - skip) {
        uint8_t *p = arena->at + skip;
        arena->at = p + size;
        return p;
    }
    sft__base_arena_chunk *chunk = arena_add_chunk(arena, need);
    if (chunk == NULL) {
        return NULL;
    }
    uint8_t *first = (uint8_t *)(chunk + 1);
    uint8_t *p = first + skip_to(first, alignment);
    uint8_t *end = (uint8_t *)chunk + chunk->size;
    if ((size_t)(end - p) - size >= room) { /* else it was a large one: go on in the chunk before */
        arena->at = p + size;
        arena->end = end;
    }
    return p;
}

char *sft__base_arena_copy(sft__base_arena *arena, const void *src, size_t len) {
    size_t need;
    char *p;
    if (!sft__base_add_size(len, 1, &need)) {
        return NULL;
    }
    p = sft__base_arena_alloc(arena, need, 1);
    if (p != NULL) {
        if (len != 0) {
            memcpy(p, src, len);
        }
        p[len] = '\0';
    }
    return p;
}

void sft__base_arena_rewind(sft__base_arena *arena, const sft__base_arena *mark) {
    while (arena->chunks != mark->chunks) {
        sft__base_arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        sft__base_free(arena->allocator, chunk, chunk->size);
    }
    *arena = *mark;
}

void sft__base_arena_free(sft__base_arena *arena) {
    sft__base_arena_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        sft__base_arena_chunk *next = chunk->next;
        sft__base_free(arena->allocator, chunk, chunk->size);
        chunk = next;
    }
    sft__base_arena_init(arena, arena->allocator, arena->budget);
}
