/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/thread.h - the few threading primitives in use, over pthread and Windows.
 */
#ifndef SFT_BASE_THREAD_H
#define SFT_BASE_THREAD_H

#include "base/error.h"

#ifdef _WIN32
typedef struct sft__base_mutex {
    void *impl;
} sft__base_mutex; /* SRWLOCK */
typedef struct sft__base_cond {
    void *impl;
} sft__base_cond; /* CONDITION_VARIABLE */
typedef struct sft__base_thread {
    void *handle;
} sft__base_thread;
#else
#include <pthread.h>
typedef struct sft__base_mutex {
    pthread_mutex_t impl;
} sft__base_mutex;
typedef struct sft__base_cond {
    pthread_cond_t impl;
} sft__base_cond;
typedef struct sft__base_thread {
    pthread_t handle;
} sft__base_thread;
#endif

bool sft__base_mutex_init(sft__base_mutex *m);
/* The same, with SFT_E_NOMEM. */
sft_status sft__base_mutex_new(sft__base_mutex *m, sft_error *err);
void sft__base_mutex_reset(sft__base_mutex *m);
void sft__base_mutex_lock(sft__base_mutex *m);
void sft__base_mutex_unlock(sft__base_mutex *m);

bool sft__base_cond_init(sft__base_cond *c);
void sft__base_cond_reset(sft__base_cond *c);
void sft__base_cond_wait(sft__base_cond *c, sft__base_mutex *m);
/* The same for `ms` milliseconds at most, or a little longer; it may return earlier, too. */
void sft__base_cond_wait_ms(sft__base_cond *c, sft__base_mutex *m, uint64_t ms);
void sft__base_cond_broadcast(sft__base_cond *c);

/* Starts fn(arg); false if the system refuses. All signals are blocked in the new thread. */
bool sft__base_thread_start(sft__base_thread *t, void (*fn)(void *arg), void *arg);
void sft__base_thread_join(sft__base_thread *t);
uint32_t sft__base_cpu_count(void); /* available to this process, at least 1 */

uint64_t sft__base_now_ms(void);     /* milliseconds of a clock that is never set */
int64_t sft__base_now_seconds(void); /* since 1970, UTC */
void sft__base_sleep_ms(uint64_t ms);

#endif
