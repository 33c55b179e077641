/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/alloc.c - see alloc.h. The default allocator is malloc, except that blocks of 1 MiB and more are
 * aligned to 2 MiB and offered to the kernel as huge pages: first touch of fresh 4 KiB pages costs more
 * than parsing the header that fills them.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/pages.h"
#include <stdlib.h>

enum { ARENA_FIRST_CHUNK = 4096, ARENA_MAX_CHUNK = 8 << 20 };

static void *default_alloc(void *ctx, size_t size) {
    (void)ctx;
    return size >= SFT__PAGES_MIN ? sft__pages_alloc(size) : malloc(size);
}

static void default_free(void *ctx, void *ptr, size_t size) {
    (void)ctx;
    if (size >= SFT__PAGES_MIN) {
        sft__pages_free(ptr, size);
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

const sft_allocator *sft__allocator(const sft_allocator *a) {
    return a != NULL ? a : &default_allocator;
}

void *sft__alloc(const sft_allocator *a, size_t size) {
    a = sft__allocator(a);
    return size == 0 ? NULL : a->alloc(a->ctx, size);
}

void *sft__alloc_zero(const sft_allocator *a, size_t size) {
    void *p = sft__alloc(a, size);
    if (p != NULL) {
        memset(p, 0, size);
    }
    return p;
}

void *sft__alloc_array(const sft_allocator *a, size_t count, size_t size) {
    size_t bytes;
    return sft__mul_size(count, size, &bytes) ? sft__alloc(a, bytes) : NULL;
}

void *sft__resize(const sft_allocator *a, void *ptr, size_t old_size, size_t new_size) {
    a = sft__allocator(a);
    if (ptr == NULL) {
        return sft__alloc(a, new_size);
    }
    return a->resize(a->ctx, ptr, old_size, new_size);
}

void sft__free(const sft_allocator *a, void *ptr, size_t size) {
    a = sft__allocator(a);
    if (ptr != NULL) {
        a->free(a->ctx, ptr, size);
    }
}

bool sft__grow(const sft_allocator *a, void *array_pointer, size_t *capacity, size_t need, size_t size) {
    void **array = array_pointer;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    size_t old_bytes;
    size_t new_bytes;
    void *p;

    if (need <= *capacity) {
        return true;
    }
    while (wanted < need) {
        if (!sft__mul_size(wanted, 2, &wanted)) {
            return false;
        }
    }
    if (!sft__mul_size(*capacity, size, &old_bytes) || !sft__mul_size(wanted, size, &new_bytes)) {
        return false;
    }
    memcpy(&p, array, sizeof p);
    p = sft__resize(a, p, old_bytes, new_bytes);
    if (p == NULL) {
        return false;
    }
    memcpy(array, &p, sizeof p);
    *capacity = wanted;
    return true;
}

struct sft__arena_chunk {
    sft__arena_chunk *next;
    size_t size;
};

void sft__arena_init(sft__arena *arena, const sft_allocator *allocator, uint64_t budget) {
    memset(arena, 0, sizeof *arena);
    arena->allocator = sft__allocator(allocator);
    arena->budget = budget;
    arena->next_chunk = ARENA_FIRST_CHUNK;
}

static bool arena_add_chunk(sft__arena *arena, size_t need) {
    size_t size = arena->next_chunk;
    uint64_t total;
    sft__arena_chunk *chunk;

    if (!sft__add_size(need, sizeof *chunk, &need)) {
        return false;
    }
    if (size < need) {
        size = need;
    }
    arena->over_budget = false;
    if (arena->budget != 0) {
        size = need; /* exact: a larger budget never fails where a smaller one is enough */
    }
    if (!sft__add64(arena->total, size, &total) || (arena->budget != 0 && total > arena->budget)) {
        arena->over_budget = arena->budget != 0;
        return false;
    }
    chunk = sft__alloc(arena->allocator, size);
    if (chunk == NULL) {
        return false;
    }
    chunk->next = arena->chunks;
    chunk->size = size;
    arena->chunks = chunk;
    arena->total = total;
    arena->at = (uint8_t *)(chunk + 1);
    arena->end = (uint8_t *)chunk + size;
    if (arena->next_chunk < ARENA_MAX_CHUNK) {
        arena->next_chunk *= 2;
    }
    return true;
}

void *sft__arena_alloc(sft__arena *arena, size_t size, size_t alignment) {
    for (int attempt = 0; attempt < 2; attempt++) {
        const size_t skip = (size_t)(0 - (uintptr_t)arena->at) & (alignment - 1);
        const size_t room = (size_t)(arena->end - arena->at);
        size_t need;
        if (arena->at != NULL && skip <= room && size <= room - skip) {
            uint8_t *p = arena->at + skip;
            arena->at = p + size;
            return p;
        }
        if (!sft__add_size(size, alignment, &need) || !arena_add_chunk(arena, need)) {
            return NULL;
        }
    }
    return NULL;
}

char *sft__arena_copy(sft__arena *arena, const void *src, size_t len) {
    size_t need;
    char *p;
    if (!sft__add_size(len, 1, &need)) {
        return NULL;
    }
    p = sft__arena_alloc(arena, need, 1);
    if (p != NULL) {
        if (len != 0) {
            memcpy(p, src, len);
        }
        p[len] = '\0';
    }
    return p;
}

void sft__arena_free(sft__arena *arena) {
    sft__arena_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        sft__arena_chunk *next = chunk->next;
        sft__free(arena->allocator, chunk, chunk->size);
        chunk = next;
    }
    sft__arena_init(arena, arena->allocator, arena->budget);
}
