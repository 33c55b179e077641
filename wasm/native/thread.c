/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * thread.c - one thread: locks are free, nobody is waited for. Also what else the base room asks of a system:
 * the clock, random bytes, pages.
 * Read first: src/base/thread/thread.h, src/base/memory/pages.h.
 */
#include "base/thread/thread.h"
#include "base/memory/pages.h"
#include "base/text/strmap.h"
#include "host.h"
#include "module.h"
#include <stdlib.h>

bool sft__base_mutex_init(sft__base_mutex *m) {
    (void)m;
    return true;
}

void sft__base_mutex_reset(sft__base_mutex *m) {
    (void)m;
}

void sft__base_mutex_lock(sft__base_mutex *m) {
    (void)m;
}

void sft__base_mutex_unlock(sft__base_mutex *m) {
    (void)m;
}

bool sft__base_cond_init(sft__base_cond *c) {
    (void)c;
    return true;
}

void sft__base_cond_reset(sft__base_cond *c) {
    (void)c;
}

void sft__base_cond_wait(sft__base_cond *c, sft__base_mutex *m) {
    (void)c, (void)m;
}

void sft__base_cond_wait_ms(sft__base_cond *c, sft__base_mutex *m, uint64_t ms) {
    (void)c, (void)m, (void)ms;
}

void sft__base_cond_broadcast(sft__base_cond *c) {
    (void)c;
}

bool sft__base_thread_start(sft__base_thread *t, void (*fn)(void *arg), void *arg) {
    (void)t, (void)fn, (void)arg;
    return false;
}

void sft__base_thread_join(sft__base_thread *t) {
    (void)t;
}

uint32_t sft__base_cpu_count(void) {
    return 1;
}

uint64_t sft__base_now_ms(void) {
    return (uint64_t)host_now();
}

int64_t sft__base_now_seconds(void) {
    return (int64_t)(host_now() / 1000);
}

void sft__base_sleep_ms(uint64_t ms) {
    (void)ms;
}

void sft__base_random_key(uint64_t key[2]) {
    host_random(key, 16);
}

/* Room that JavaScript has filled before it is asked for: the next block of exactly that size. */
static void *kept;
static size_t kept_size;

void *keep_pages(size_t size) {
    free(kept);
    kept = size > 0 ? malloc(size) : NULL;
    kept_size = size;
    return kept;
}

/* Not zeroed as elsewhere: nobody here asks for more than he asks of malloc (src/base/memory/alloc.c), and a header would be
 * written over 132 MB of zeros. */
void *sft__base_pages_alloc(size_t size) {
    if (kept != NULL && size == kept_size) {
        void *const taken = kept;
        kept = NULL;
        return taken;
    }
    return malloc(size);
}

void sft__base_pages_free(void *ptr, size_t size) {
    (void)size;
    free(ptr);
}

void sft__base_pages_touch(void *ptr, size_t size) {
    (void)ptr, (void)size;
}
