/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/loop.c - see loop.h.
 */
#include "move/loop.h"
#include "base/memory/alloc.h"

/* Behind the pages of a buffer, so that these begin at a page. */
typedef struct loop_buffer {
    struct loop_buffer *next;
    void *memory;
} loop_buffer;

static size_t loop_pages(const sft__move_loop *loop) {
    return (loop->room + SFT__LOOP_PAGE - 1) & ~(SFT__LOOP_PAGE - 1);
}

static size_t loop_size(const sft__move_loop *loop) {
    return loop_pages(loop) + SFT__LOOP_PAGE + sizeof(loop_buffer);
}

static loop_buffer *loop_tail(const sft__move_loop *loop, uint8_t *buffer) {
    return (loop_buffer *)(void *)(buffer + loop_pages(loop));
}

uint8_t *sft__move_loop_take(sft__move_loop *loop, sft_error *err) {
    sft__base_mutex_lock(&loop->watch.lock);
    uint8_t *buffer = loop->idle;
    if (buffer != NULL) {
        loop->idle = loop_tail(loop, buffer)->next;
    }
    sft__base_mutex_unlock(&loop->watch.lock);
    if (buffer != NULL) {
        return buffer;
    }
    uint8_t *const memory = sft__base_alloc(loop->allocator, loop_size(loop));
    if (memory == NULL) {
        (void)sft__base_fail_nomem(err, loop_size(loop));
        return NULL;
    }
    buffer = memory + ((size_t)(0 - (uintptr_t)memory) & (SFT__LOOP_PAGE - 1));
    loop_tail(loop, buffer)->memory = memory;
    return buffer;
}

void sft__move_loop_give(sft__move_loop *loop, uint8_t *buffer) {
    if (buffer != NULL) {
        sft__base_mutex_lock(&loop->watch.lock);
        loop_tail(loop, buffer)->next = loop->idle;
        loop->idle = buffer;
        sft__base_mutex_unlock(&loop->watch.lock);
    }
}

sft_status sft__move_loop_begin(sft__move_loop *loop, const sft_control *control, uint64_t total,
                                sft_error *err) {
    return sft__move_watch_init(&loop->watch, control, total, true, err);
}

sft_status sft__move_loop_add(sft__move_loop *loop, uint64_t bytes, sft_error *err) {
    return sft__move_watch_add(&loop->watch, bytes, err);
}

static void loop_block(void *ctx, size_t index) {
    sft__move_loop *loop = ctx;
    sft_error error;

    memset(&error, 0, sizeof error);
    sft_status status =
        sft__move_watch_add(&loop->watch, 0, &error); /* an end that was asked for */
    if (status == SFT_OK) {
        status = loop->block(loop->ctx, index, &error);
    }
    if (status != SFT_OK) {
        sft__move_watch_fail(&loop->watch, index, status, &error);
    }
}

sft_status sft__move_loop_run(sft__move_loop *loop, size_t count, sft_error *err) {
    sft_pool_run(loop->pool, count, loop_block, loop);
    if (loop->watch.status != SFT_OK && err != NULL) {
        *err = loop->watch.error;
    }
    return loop->watch.status;
}

sft_status sft__move_loop_end(sft__move_loop *loop, sft_error *err) {
    while (loop->idle != NULL) {
        loop_buffer *const tail = loop_tail(loop, loop->idle);
        loop->idle = tail->next;
        sft__base_free(loop->allocator, tail->memory, loop_size(loop));
    }
    return sft__move_watch_end(&loop->watch, err);
}
