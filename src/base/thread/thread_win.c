/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/thread_win.c - see thread.h.
 */
#ifdef _WIN32
#include "base/memory/alloc.h"
#include "base/thread/thread.h"
#include <windows.h>

bool sft__base_mutex_init(sft__base_mutex *m) {
    InitializeSRWLock((PSRWLOCK)&m->impl);
    return true;
}

void sft__base_mutex_reset(sft__base_mutex *m) {
    (void)m;
}

void sft__base_mutex_lock(sft__base_mutex *m) {
    AcquireSRWLockExclusive((PSRWLOCK)&m->impl);
}

void sft__base_mutex_unlock(sft__base_mutex *m) {
    ReleaseSRWLockExclusive((PSRWLOCK)&m->impl);
}

bool sft__base_cond_init(sft__base_cond *c) {
    InitializeConditionVariable((PCONDITION_VARIABLE)&c->impl);
    return true;
}

void sft__base_cond_reset(sft__base_cond *c) {
    (void)c;
}

void sft__base_cond_wait(sft__base_cond *c, sft__base_mutex *m) {
    (void)SleepConditionVariableSRW((PCONDITION_VARIABLE)&c->impl, (PSRWLOCK)&m->impl, INFINITE, 0);
}

void sft__base_cond_wait_ms(sft__base_cond *c, sft__base_mutex *m, uint64_t ms) {
    (void)SleepConditionVariableSRW((PCONDITION_VARIABLE)&c->impl, (PSRWLOCK)&m->impl,
                                    ms < 1000000 ? (DWORD)ms : 1000000, 0);
}

void sft__base_cond_broadcast(sft__base_cond *c) {
    WakeAllConditionVariable((PCONDITION_VARIABLE)&c->impl);
}

typedef struct start_args {
    void (*fn)(void *arg);
    void *arg;
} start_args;

static DWORD WINAPI trampoline(void *p) {
    const start_args args = *(const start_args *)p;
    sft__base_free(NULL, p, sizeof args);
    args.fn(args.arg);
    return 0;
}

bool sft__base_thread_start(sft__base_thread *t, void (*fn)(void *arg), void *arg) {
    start_args *args = sft__base_alloc(NULL, sizeof *args);
    if (args == NULL) {
        return false;
    }
    args->fn = fn;
    args->arg = arg;
    t->handle = CreateThread(NULL, 0, trampoline, args, 0, NULL);
    if (t->handle == NULL) {
        sft__base_free(NULL, args, sizeof *args);
    }
    return t->handle != NULL;
}

void sft__base_thread_join(sft__base_thread *t) {
    (void)WaitForSingleObject(t->handle, INFINITE);
    (void)CloseHandle(t->handle);
}

uint64_t sft__base_now_ms(void) {
    return GetTickCount64();
}

int64_t sft__base_now_seconds(void) {
    FILETIME t;
    GetSystemTimeAsFileTime(&t);
    const uint64_t ticks = (uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime;
    return (int64_t)(ticks / 10000000) - INT64_C(11644473600); /* since 1601 */
}

void sft__base_sleep_ms(uint64_t ms) {
    Sleep(ms < 1000000 ? (DWORD)ms : 1000000);
}

uint32_t sft__base_cpu_count(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwNumberOfProcessors > 0 ? (uint32_t)info.dwNumberOfProcessors : 1;
}
#endif
