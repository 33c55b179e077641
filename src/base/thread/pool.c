/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/pool.c - the caller's set of worker threads. A batch is a counter of indexes; idle workers
 * and the calling thread take the next index until none is left. Several batches may be in the list at
 * once: those that a caller waits for come first, those in the background (base/thread/pool.h) last.
 */
#include "base/thread/pool.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "base/thread/thread.h"
#include <sft/extend.h>

enum { POOL_MAX_THREADS = 1024, POOL_DEFAULT_MAX = 64 };

struct sft_pool {
    const sft_allocator *allocator;
    sft__base_mutex lock;
    sft__base_cond changed;   /* a batch was added or finished, or the pool stops */
    sft__base_batch *batches; /* those with indexes left to take; in the background ones last */
    sft__base_thread *threads;
    size_t thread_count; /* beside the caller */
    size_t thread_capacity;
    bool stopping;
    uint32_t without; /* features of the processor */
};

/* Takes and runs one index of b, which has some left. Called and returns with the lock held. */
static void work_on(sft_pool *pool, sft__base_batch *b) {
    const size_t index = b->taken++;
    if (b->taken == b->count) {
        for (sft__base_batch **link = &pool->batches; *link != NULL; link = &(*link)->next) {
            if (*link == b) {
                *link = b->next;
                break;
            }
        }
    }
    sft__base_mutex_unlock(&pool->lock);
    b->fn(b->ctx, index);
    sft__base_mutex_lock(&pool->lock);
    if (++b->finished == b->count) {
        sft__base_cond_broadcast(
            &pool->changed); /* from here on b belongs to whoever waits for it */
    }
}

static void worker(void *arg) {
    sft_pool *pool = arg;
    sft__base_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        if (pool->batches != NULL) {
            work_on(pool, pool->batches);
        } else {
            sft__base_cond_wait(&pool->changed, &pool->lock);
        }
    }
    sft__base_mutex_unlock(&pool->lock);
}

static bool make_locks(sft_pool *pool) {
    if (!sft__base_mutex_init(&pool->lock)) {
        return false;
    }
    if (!sft__base_cond_init(&pool->changed)) {
        sft__base_mutex_reset(&pool->lock);
        return false;
    }
    return true;
}

static void pool_release(sft_pool *pool) {
    sft__base_free(pool->allocator, pool->threads, pool->thread_capacity * sizeof *pool->threads);
    sft__base_free(pool->allocator, pool, sizeof *pool);
}

sft_status sft_pool_create(sft_pool **out, uint32_t threads, const sft_allocator *allocator,
                           sft_error *err) {
    sft_pool *pool;

    *out = NULL;
    if (threads == 0) {
        threads = sft__base_cpu_count();
        threads = threads < POOL_DEFAULT_MAX ? threads : POOL_DEFAULT_MAX;
    }
    if (threads > POOL_MAX_THREADS) {
        return sft__base_fail(err, SFT_E_ARG, "%lu threads asked for, at most %d are served",
                              (unsigned long)threads, POOL_MAX_THREADS);
    }
    pool = sft__base_alloc_zero(allocator, sizeof *pool);
    SFT_NEED(pool != NULL, sizeof *pool, err);
    pool->allocator = sft__base_allocator(allocator);
    pool->thread_capacity = threads - 1;
    if (!make_locks(pool)) {
        pool_release(pool);
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    pool->threads = sft__base_alloc_array(allocator, pool->thread_capacity, sizeof *pool->threads);
    if (pool->threads == NULL && threads > 1) {
        pool->thread_capacity = 0;
        sft_pool_free(pool);
        return sft__base_fail_nomem(err, (threads - 1) * sizeof *pool->threads);
    }
    while (pool->thread_count < pool->thread_capacity &&
           sft__base_thread_start(&pool->threads[pool->thread_count], worker, pool)) {
        pool->thread_count++;
    }
    if (pool->thread_count < pool->thread_capacity) {
        const size_t started = pool->thread_count;
        sft_pool_free(pool);
        return sft__base_fail(err, SFT_E_NOMEM, "the system started only %llu of %lu threads",
                              (unsigned long long)started + 1, (unsigned long)threads);
    }
    *out = pool;
    return SFT_OK;
}

uint32_t sft_pool_threads(const sft_pool *pool) {
    return pool == NULL ? 1 : (uint32_t)pool->thread_count + 1;
}

sft_status sft_pool_set_cpu(sft_pool *pool, const char *text, sft_error *err) {
    return sft__base_cpu_parse(text, &pool->without, err);
}

uint32_t sft_pool_without(const sft_pool *pool) {
    return pool == NULL ? 0 : pool->without;
}

uint32_t sft__base_pool_cpu(const sft_pool *pool) {
    return sft__base_cpu_features() & ~sft_pool_without(pool);
}

void sft_pool_free(sft_pool *pool) {
    if (pool == NULL) {
        return;
    }
    sft__base_mutex_lock(&pool->lock);
    pool->stopping = true;
    sft__base_cond_broadcast(&pool->changed);
    sft__base_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->thread_count; i++) {
        sft__base_thread_join(&pool->threads[i]);
    }
    sft__base_cond_reset(&pool->changed);
    sft__base_mutex_reset(&pool->lock);
    pool_release(pool);
}

/* The pool is const for callers, who cannot change what it is; its queue is its own business. */
static sft_pool *mutable_pool(const sft_pool *pool) {
    sft_pool *p;
    memcpy(&p, &pool, sizeof p);
    return p;
}

static void finish(sft_pool *p, sft__base_batch *b) {
    while (b->taken < b->count) {
        work_on(p, b);
    }
    while (b->finished < b->count) {
        sft__base_cond_wait(&p->changed, &p->lock);
    }
}

void sft_pool_run(const sft_pool *pool, size_t count, void (*fn)(void *ctx, size_t index),
                  void *ctx) {
    sft_pool *p = mutable_pool(pool);
    sft__base_batch b = {NULL, fn, ctx, count, 0, 0};

    if (p == NULL || p->thread_count == 0 || count < 2) {
        for (size_t i = 0; i < count; i++) {
            fn(ctx, i);
        }
        return;
    }
    sft__base_mutex_lock(&p->lock);
    b.next = p->batches;
    p->batches = &b;
    sft__base_cond_broadcast(&p->changed);
    finish(p, &b);
    sft__base_mutex_unlock(&p->lock);
}

void sft__base_pool_add(const sft_pool *pool, sft__base_batch *b, size_t more) {
    sft_pool *p = mutable_pool(pool);

    if (p == NULL || p->thread_count == 0 || more == 0) {
        return;
    }
    sft__base_mutex_lock(&p->lock);
    if (b->taken == b->count) {
        sft__base_batch **link = &p->batches;
        while (*link != NULL) {
            link = &(*link)->next;
        }
        *link = b;
        b->next = NULL;
    }
    b->count += more;
    sft__base_cond_broadcast(&p->changed);
    sft__base_mutex_unlock(&p->lock);
}

void sft__base_pool_wait(const sft_pool *pool, sft__base_batch *b) {
    sft_pool *p = mutable_pool(pool);

    if (p != NULL && p->thread_count > 0) {
        sft__base_mutex_lock(&p->lock);
        finish(p, b);
        sft__base_mutex_unlock(&p->lock);
    }
}
