/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread.h - the few threading primitives in use, over pthread and Windows.
 */
#ifndef SFT_BASE_THREAD_H
#define SFT_BASE_THREAD_H

#include "base/compiler.h"

#ifdef _WIN32
typedef struct sft__mutex { void *impl; } sft__mutex;   /* SRWLOCK */
typedef struct sft__cond { void *impl; } sft__cond;     /* CONDITION_VARIABLE */
typedef struct sft__thread { void *handle; } sft__thread;
#else
#include <pthread.h>
typedef struct sft__mutex { pthread_mutex_t impl; } sft__mutex;
typedef struct sft__cond { pthread_cond_t impl; } sft__cond;
typedef struct sft__thread { pthread_t handle; } sft__thread;
#endif

bool sft__mutex_init(sft__mutex *m);
void sft__mutex_reset(sft__mutex *m);
void sft__mutex_lock(sft__mutex *m);
void sft__mutex_unlock(sft__mutex *m);

bool sft__cond_init(sft__cond *c);
void sft__cond_reset(sft__cond *c);
void sft__cond_wait(sft__cond *c, sft__mutex *m);
void sft__cond_broadcast(sft__cond *c);

/* Starts fn(arg); false if the system refuses. All signals are blocked in the new thread. */
bool sft__thread_start(sft__thread *t, void (*fn)(void *arg), void *arg);
void sft__thread_join(sft__thread *t);
uint32_t sft__cpu_count(void); /* available to this process, at least 1 */

#endif
