/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/arena.c - see arena.h. A list of blocks; only the first one still gives. Blocks of 1 MiB and
 * more come from the system and are rounded to huge pages, so small arenas do not pay for one.
 */
#include "move/load/arena.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/memory/pages.h"

typedef struct arena_block {
    struct arena_block *next;
    void *memory; /* as it was given to us */
    size_t memory_size;
    uint8_t *base; /* aligned */
    size_t size;
    size_t used;
} arena_block;

struct sft_arena {
    const sft_allocator *allocator;
    arena_block *blocks;
    bool borrowed; /* the caller's memory */
};

static bool block_large(const arena_block *b) {
    return b->memory_size >= SFT__PAGES_MIN;
}

static void block_free(sft_arena *arena, arena_block *b) {
    if (b->memory != NULL && !arena->borrowed) {
        if (block_large(b)) {
            sft__base_pages_free(b->memory, b->memory_size);
        } else {
            sft__base_free(arena->allocator, b->memory, b->memory_size);
        }
    }
    sft__base_free(arena->allocator, b, sizeof *b);
}

/* Adds a block over `memory`, or over new memory if that is NULL. */
static sft_status block_add(sft_arena *arena, void *memory, size_t size, sft_error *err) {
    arena_block *b = sft__base_alloc_zero(arena->allocator, sizeof *b);
    size_t skew;

    SFT_NEED(b != NULL, sizeof *b, err);
    b->memory = memory;
    b->memory_size = size;
    if (memory == NULL) {
        if (!sft__base_add_size(size, SFT__ARENA_ALIGN, &b->memory_size)) {
            b->memory_size = SIZE_MAX; /* more than any system gives */
        }
        b->memory = block_large(b) ? sft__base_pages_alloc(b->memory_size)
                                   : sft__base_alloc(arena->allocator, b->memory_size);
    }
    if (b->memory == NULL) {
        block_free(arena, b);
        return sft__base_fail_nomem(err, size);
    }
    skew = (size_t)(0 - (uintptr_t)b->memory) & (SFT__ARENA_ALIGN - 1);
    skew = skew < b->memory_size ? skew : b->memory_size;
    b->base = (uint8_t *)b->memory + skew;
    b->size = b->memory_size - skew;
    b->next = arena->blocks;
    arena->blocks = b;
    return SFT_OK;
}

static sft_status arena_new(sft_arena **out, const sft_allocator *allocator, sft_error *err) {
    allocator = sft__base_allocator(allocator);
    *out = sft__base_alloc_zero(allocator, sizeof **out);
    SFT_NEED(*out != NULL, sizeof **out, err);
    (*out)->allocator = allocator;
    return SFT_OK;
}

/* The first block of a new arena; frees the arena if there is none to be had. */
static sft_status arena_begin(sft_arena **out, void *memory, size_t size, sft_error *err) {
    const sft_status status = block_add(*out, memory, size, err);
    if (status != SFT_OK) {
        sft_arena_free(*out);
        *out = NULL;
    }
    return status;
}

sft_status sft_arena_create(sft_arena **out, size_t bytes, uint32_t flags,
                            const sft_allocator *allocator, sft_error *err) {
    SFT_OUT(out, err);
    if (flags != 0) {
        return sft__base_fail(err, SFT_E_ARG, "flags are unknown");
    }
    SFT_TRY(arena_new(out, allocator, err));
    return bytes == 0 ? SFT_OK : arena_begin(out, NULL, bytes, err);
}

sft_status sft_arena_create_over(sft_arena **out, void *memory, size_t size,
                                 const sft_allocator *allocator, sft_error *err) {
    SFT_OUT(out, err);
    if (memory == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "memory is NULL");
    }
    SFT_TRY(arena_new(out, allocator, err));
    (*out)->borrowed = true;
    return arena_begin(out, memory, size, err);
}

sft_status sft__move_data_arena_take(sft_arena *arena, uint64_t size, uint8_t **out,
                                     sft_error *err) {
    arena_block *b = arena->blocks;
    uint64_t room;
    size_t bytes;

    *out = NULL;
    if (!sft__base_align64(size, SFT__ARENA_ALIGN, &room) ||
        !sft__base_size_from_u64(room, &bytes)) {
        return sft__base_fail(err, SFT_E_NOMEM, "%llu bytes are more than this process can address",
                              (unsigned long long)size);
    }
    if (b == NULL || bytes > b->size - b->used) {
        if (arena->borrowed) {
            return sft__base_fail(
                err, SFT_E_NOMEM, "the arena has %llu bytes left, %llu are needed",
                (unsigned long long)(b->size - b->used), (unsigned long long)bytes);
        }
        if (b != NULL && b->used == 0) { /* too small for anybody: not kept beside the new one */
            arena->blocks = b->next;
            block_free(arena, b);
        }
        SFT_TRY(block_add(arena, NULL, bytes, err));
        b = arena->blocks;
    }
    *out = b->base + b->used;
    b->used += bytes;
    return SFT_OK;
}

void sft_arena_reset(sft_arena *arena) {
    arena_block *largest = arena->blocks;

    for (arena_block *b = arena->blocks; b != NULL; b = b->next) {
        largest = b->size > largest->size ? b : largest;
    }
    for (arena_block *b = arena->blocks, *next; b != NULL; b = next) {
        next = b->next;
        if (b != largest) {
            block_free(arena, b);
        }
    }
    arena->blocks = largest;
    if (largest != NULL) {
        largest->next = NULL;
        largest->used = 0;
    }
}

void sft_arena_free(sft_arena *arena) {
    if (arena != NULL) {
        sft_arena_reset(arena);
        if (arena->blocks != NULL) {
            block_free(arena, arena->blocks);
        }
        sft__base_free(arena->allocator, arena, sizeof *arena);
    }
}

size_t sft_arena_size(const sft_arena *arena) {
    size_t size = 0;
    for (const arena_block *b = arena->blocks; b != NULL; b = b->next) {
        size += b->size;
    }
    return size;
}
