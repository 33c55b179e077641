/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread_win.c - see thread.h.
 */
#ifdef _WIN32
#include "base/alloc.h"
#include "base/thread.h"
#include <windows.h>

bool sft__mutex_init(sft__mutex *m) {
    InitializeSRWLock((PSRWLOCK)&m->impl);
    return true;
}

void sft__mutex_reset(sft__mutex *m) {
    (void)m;
}

void sft__mutex_lock(sft__mutex *m) {
    AcquireSRWLockExclusive((PSRWLOCK)&m->impl);
}

void sft__mutex_unlock(sft__mutex *m) {
    ReleaseSRWLockExclusive((PSRWLOCK)&m->impl);
}

bool sft__cond_init(sft__cond *c) {
    InitializeConditionVariable((PCONDITION_VARIABLE)&c->impl);
    return true;
}

void sft__cond_reset(sft__cond *c) {
    (void)c;
}

void sft__cond_wait(sft__cond *c, sft__mutex *m) {
    (void)SleepConditionVariableSRW((PCONDITION_VARIABLE)&c->impl, (PSRWLOCK)&m->impl, INFINITE, 0);
}

void sft__cond_broadcast(sft__cond *c) {
    WakeAllConditionVariable((PCONDITION_VARIABLE)&c->impl);
}

typedef struct start_args {
    void (*fn)(void *arg);
    void *arg;
} start_args;

static DWORD WINAPI trampoline(void *p) {
    const start_args args = *(const start_args *)p;
    sft__free(NULL, p, sizeof args);
    args.fn(args.arg);
    return 0;
}

bool sft__thread_start(sft__thread *t, void (*fn)(void *arg), void *arg) {
    start_args *args = sft__alloc(NULL, sizeof *args);
    if (args == NULL) {
        return false;
    }
    args->fn = fn;
    args->arg = arg;
    t->handle = CreateThread(NULL, 0, trampoline, args, 0, NULL);
    if (t->handle == NULL) {
        sft__free(NULL, args, sizeof *args);
    }
    return t->handle != NULL;
}

void sft__thread_join(sft__thread *t) {
    (void)WaitForSingleObject(t->handle, INFINITE);
    (void)CloseHandle(t->handle);
}

uint32_t sft__cpu_count(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwNumberOfProcessors > 0 ? (uint32_t)info.dwNumberOfProcessors : 1;
}
#else
typedef int sft__thread_win_empty;
#endif
