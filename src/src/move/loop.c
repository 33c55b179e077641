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

/* Lock held: whoever waits for a buffer looks again. */
static void loop_wake(sft__move_loop *loop) {
    if (loop->most > 0) {
        sft__base_cond_broadcast(&loop->given);
    }
}

uint8_t *sft__move_loop_take(sft__move_loop *loop, sft_error *err) {
    sft__base_mutex_lock(&loop->watch.lock);
    while (loop->idle == NULL && loop->most > 0 && loop->made == loop->most) {
        sft__base_cond_wait(&loop->given, &loop->watch.lock);
    }
    uint8_t *buffer = loop->idle;
    if (buffer != NULL) {
        loop->idle = loop_tail(loop, buffer)->next;
    } else {
        loop->made++;
    }
    sft__base_mutex_unlock(&loop->watch.lock);
    if (buffer != NULL) {
        return buffer;
    }
    uint8_t *const memory = sft__base_alloc(loop->allocator, loop_size(loop));
    if (memory == NULL) {
        sft__base_mutex_lock(&loop->watch.lock);
        loop->made--;
        loop_wake(loop);
        sft__base_mutex_unlock(&loop->watch.lock);
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
        loop_wake(loop);
        sft__base_mutex_unlock(&loop->watch.lock);
    }
}

sft_status sft__move_loop_begin(sft__move_loop *loop, const sft_control *control, uint64_t total,
                                sft_error *err) {
    SFT_TRY(sft__move_watch_init(&loop->watch, control, total, true, err));
    if (loop->most > 0 && !sft__base_cond_init(&loop->given)) {
        (void)sft__move_watch_end(&loop->watch, NULL);
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    return SFT_OK;
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
    if (loop->most > 0) {
        sft__base_cond_reset(&loop->given);
    }
    return sft__move_watch_end(&loop->watch, err);
}
