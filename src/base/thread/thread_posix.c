/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/thread_posix.c - see thread.h.
 */
#ifndef _WIN32
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "base/memory/alloc.h"
#include "base/thread/thread.h"
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

bool sft__base_mutex_init(sft__base_mutex *m) {
    return pthread_mutex_init(&m->impl, NULL) == 0;
}

void sft__base_mutex_reset(sft__base_mutex *m) {
    (void)pthread_mutex_destroy(&m->impl);
}

void sft__base_mutex_lock(sft__base_mutex *m) {
    (void)pthread_mutex_lock(&m->impl); /* fails only on misuse */
}

void sft__base_mutex_unlock(sft__base_mutex *m) {
    (void)pthread_mutex_unlock(&m->impl);
}

bool sft__base_cond_init(sft__base_cond *c) {
    return pthread_cond_init(&c->impl, NULL) == 0;
}

void sft__base_cond_reset(sft__base_cond *c) {
    (void)pthread_cond_destroy(&c->impl);
}

void sft__base_cond_wait(sft__base_cond *c, sft__base_mutex *m) {
    (void)pthread_cond_wait(&c->impl, &m->impl);
}

/* By the clock that may be set: every system has it here. A jump makes one wait shorter or longer. */
void sft__base_cond_wait_ms(sft__base_cond *c, sft__base_mutex *m, uint64_t ms) {
    struct timespec t;
    ms = ms < 1000000 ? ms : 1000000;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)(ms / 1000);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&c->impl, &m->impl, &t);
}

void sft__base_cond_broadcast(sft__base_cond *c) {
    (void)pthread_cond_broadcast(&c->impl);
}

typedef struct start_args {
    void (*fn)(void *arg);
    void *arg;
} start_args;

static void *trampoline(void *p) {
    const start_args args = *(const start_args *)p;
    sft__base_free(NULL, p, sizeof args);
    args.fn(args.arg);
    return NULL;
}

bool sft__base_thread_start(sft__base_thread *t, void (*fn)(void *arg), void *arg) {
    start_args *args = sft__base_alloc(NULL, sizeof *args);
    sigset_t all;
    sigset_t old;
    int rc;

    if (args == NULL) {
        return false;
    }
    args->fn = fn;
    args->arg = arg;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&t->handle, NULL, trampoline, args);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        sft__base_free(NULL, args, sizeof *args);
    }
    return rc == 0;
}

void sft__base_thread_join(sft__base_thread *t) {
    (void)pthread_join(t->handle, NULL);
}

uint64_t sft__base_now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int64_t sft__base_now_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec;
}

void sft__base_sleep_ms(uint64_t ms) {
    const struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

uint32_t sft__base_cpu_count(void) {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        const int n = CPU_COUNT(&set);
        return n > 0 ? (uint32_t)n : 1;
    }
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}
#endif
