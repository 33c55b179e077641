/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/cuda/standin.c - see standin.h. Everything under one lock; a call that waits carries out
 * queued work, of streams drawn by chance, until what it waits for is done. The calls are those of
 * NVIDIA's public description; only what the library uses is there.
 */
#include "standin.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, DEPTH = 16 };
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, INVALID_CONTEXT = 201, NOT_READY = 600 };
enum { COPY, RECORD, WAIT, CONSUME, PRODUCE };
#define BASE 0x5f0000000000ull
#define STEP 0x010000000000ull

typedef struct event {
    uint64_t recorded; /* how often */
    uint64_t done;
    bool live;
} event;

typedef struct stream stream;

typedef struct op {
    struct op *next;
    int kind;
    uint64_t address;
    const uint8_t *src;
    uint8_t *dst;
    size_t size;
    uint64_t sum; /* of the source when it was queued */
    event *event;
    uint64_t count;
} op;

struct stream {
    op *first;
    op *last;
    bool live;
};

typedef struct block {
    uint64_t address; /* device: not to be touched; host: as it is */
    uint8_t *memory;
    size_t size;
    int device; /* -1: pinned host memory */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static standin_config config = {1, 1, 1u << 30, 1u << 30, 0, 999, 0, 0};
static standin_report report;
static block blocks[MOST];
static size_t block_count;
static stream *streams[MOST];
static size_t stream_count;
static event *events[MOST * 8];
static size_t event_count;
static stream legacy, per_thread; /* the streams 1 and 2 */
static int contexts[8];           /* their addresses are the contexts */
static int retained[8];
static uint64_t next_address[8];
static uint64_t used[8], pinned;
static uint64_t random_state;
static uint64_t fail_at;
static _Thread_local void *stack[DEPTH];
static _Thread_local int depth;

static uint64_t draw(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

static void fault(const char *text) {
    if (report.faults++ == 0) {
        (void)snprintf(report.first, sizeof report.first, "%s", text);
    }
}

static uint64_t sum_of(const uint8_t *p, size_t n) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 1099511628211u;
    }
    return h;
}

static block *find(uint64_t address, size_t size, bool device) {
    for (size_t i = 0; i < block_count; i++) {
        block *b = &blocks[i];
        if ((b->device >= 0) == device && address >= b->address && size <= b->size &&
            address - b->address <= b->size - size) {
            return b;
        }
    }
    return NULL;
}

static uint8_t *device_memory(uint64_t address, size_t size) {
    const block *b = find(address, size, true);
    return b != NULL ? b->memory + (address - b->address) : NULL;
}

/* ---------------------------------------------------------------- queued work */

static void perform(op *o) {
    uint8_t *device = o->size > 0 ? device_memory(o->address, o->size) : NULL;

    if (o->kind == RECORD) {
        o->event->done = o->count > o->event->done ? o->count : o->event->done;
    } else if (o->kind != WAIT && o->size > 0 && device == NULL) {
        fault("work on device memory that is not allocated");
    } else if (o->kind == COPY) {
        if (find((uint64_t)(uintptr_t)o->src, o->size, false) == NULL) {
            fault("pinned memory freed before its copy was done");
        } else if (sum_of(o->src, o->size) != o->sum) {
            fault("pinned memory written before its copy was done");
        } else {
            memcpy(device, o->src, o->size);
        }
    } else if (o->kind == CONSUME && o->size > 0) {
        memcpy(o->dst, device, o->size);
    } else if (o->kind == PRODUCE && o->size > 0) {
        memset(device, (int)o->count, o->size);
    }
}

/* The first piece of work of a stream, if nothing holds it up. */
static bool step(stream *s) {
    op *o = s->first;
    if (o == NULL || (o->kind == WAIT && o->event->done < o->count)) {
        return false;
    }
    s->first = o->next;
    s->last = s->first == NULL ? NULL : s->last;
    perform(o);
    free(o);
    return true;
}

static stream *by_number(size_t i) {
    return i == 0 ? &legacy : i == 1 ? &per_thread : streams[i - 2];
}

/* One piece of work of any stream; false: there is none that could be done. */
static bool pump(void) {
    const size_t n = stream_count + 2;
    const size_t start = (size_t)draw(n);
    for (size_t i = 0; i < n; i++) {
        if (step(by_number((start + i) % n))) {
            return true;
        }
    }
    return false;
}

/* All work of a stream; false: it waits for something that nobody will do. */
static bool drain(const stream *s) {
    while (s->first != NULL) {
        if (!pump()) {
            fault("streams wait for each other");
            return false;
        }
    }
    return true;
}

static op *enqueue(stream *s, int kind) {
    op *o = calloc(1, sizeof *o);
    if (o == NULL) {
        abort();
    }
    o->kind = kind;
    if (s->last != NULL) {
        s->last->next = o;
    } else {
        s->first = o;
    }
    s->last = o;
    return o;
}

static stream *stream_of(void *handle) {
    if (handle == (void *)1 || handle == NULL) {
        return &legacy;
    }
    if (handle == (void *)2) {
        return &per_thread;
    }
    for (size_t i = 0; i < stream_count; i++) {
        if (streams[i] == handle && streams[i]->live) {
            return streams[i];
        }
    }
    fault("a stream that is none");
    return NULL;
}

static event *event_of(void *handle) {
    for (size_t i = event_count; i-- > 0;) {
        if (events[i] == handle && events[i]->live) {
            return events[i];
        }
    }
    fault("an event that is none");
    return NULL;
}

/* Whether queued copies read from, or write to, a block. */
static bool busy(const block *b) {
    for (size_t i = 0; i < stream_count + 2; i++) {
        for (const op *o = by_number(i)->first; o != NULL; o = o->next) {
            const void *const host = o->src != NULL ? o->src : o->dst;
            const uint64_t at = b->device >= 0 ? o->address : (uint64_t)(uintptr_t)host;
            if (o->size > 0 && at >= b->address && at - b->address < b->size) {
                return true;
            }
        }
    }
    return false;
}

/* ---------------------------------------------------------------- entering a call */

/* Takes the lock. True: this call is the one that shall fail. */
static bool begin(const char *name, bool needs_context) {
    (void)pthread_mutex_lock(&lock);
    report.calls++;
    if (needs_context && depth == 0) {
        fault("no context is current");
    }
    if (config.lazy == 0) {
        for (uint64_t n = draw(3); n > 0; n--) {
            (void)pump();
        }
    }
    if (fail_at != 0 && --fail_at == 0) {
        (void)snprintf(report.failed, sizeof report.failed, "%s", name);
        return true;
    }
    return false;
}

static int end(int result) {
    (void)pthread_mutex_unlock(&lock);
    return result;
}

#define CALL(name, context)                                                                        \
    if (begin(name, context)) {                                                                    \
        return end(config.fail_result);                                                            \
    }
/* Calls that release or wait do their work even when they tell of a failure, which is then an older
 * one. */
#define CALL_ANYWAY(name, context) const int told = begin(name, context) ? config.fail_result : OK

/* ---------------------------------------------------------------- the driver's calls */

int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    CALL("cuInit", false)
    return end(flags == 0 ? OK : INVALID);
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    CALL("cuDriverGetVersion", false)
    *version = 12040;
    return end(OK);
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
    CALL("cuDeviceGetCount", false)
    *count = (int)config.devices;
    return end(OK);
}

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) {
    CALL("cuDeviceGet", false)
    *device = ordinal;
    return end(ordinal >= 0 && ordinal < (int)config.devices ? OK : 101);
}

int cuDeviceGetName(char *name, int size, int device);
int cuDeviceGetName(char *name, int size, int device) {
    CALL("cuDeviceGetName", false)
    (void)snprintf(name, (size_t)size, "stand-in %d", device);
    return end(OK);
}

int cuDeviceGetUuid(void *uuid, int device);
int cuDeviceGetUuid(void *uuid, int device) {
    CALL("cuDeviceGetUuid", false)
    memset(uuid, device + 1, 16);
    return end(OK);
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL("cuDeviceGetAttribute", false)
    (void)device;
    *value = attribute == 18 ? config.integrated : attribute == 75 ? 9 : 0;
    return end(OK);
}

int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) {
    CALL("cuDevicePrimaryCtxRetain", false)
    retained[device]++;
    report.contexts_live++;
    *context = &contexts[device];
    return end(OK);
}

int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device) {
    CALL_ANYWAY("cuDevicePrimaryCtxRelease_v2", false);
    if (retained[device] == 0) {
        fault("a context released too often");
        return end(INVALID_CONTEXT);
    }
    report.contexts_live--;
    if (--retained[device] == 0 && report.contexts_live == 0 &&
        (report.device_live != 0 || report.pinned_live != 0 || report.streams_live != 0 ||
         report.events_live != 0)) {
        fault("memory, streams or events left when the last context went");
    }
    return end(told);
}

int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context) {
    CALL("cuCtxPushCurrent_v2", false)
    if (depth == DEPTH || context == NULL) {
        fault("contexts pushed without end, or none");
        return end(INVALID_CONTEXT);
    }
    stack[depth++] = context;
    return end(OK);
}

int cuCtxPopCurrent_v2(void **context);
int cuCtxPopCurrent_v2(void **context) {
    CALL_ANYWAY("cuCtxPopCurrent_v2", true);
    *context = depth > 0 ? stack[--depth] : NULL;
    return end(told);
}

static int current_device(void) {
    for (int i = 0; depth > 0 && i < 8; i++) {
        if (stack[depth - 1] == &contexts[i]) {
            return i;
        }
    }
    return 0;
}

int cuMemGetInfo_v2(size_t *left, size_t *total);
int cuMemGetInfo_v2(size_t *left, size_t *total) {
    CALL("cuMemGetInfo_v2", true)
    *total = (size_t)config.memory_bytes;
    *left = (size_t)(config.memory_bytes - used[current_device()]);
    return end(OK);
}

static int new_block(uint64_t address, size_t size, int device, void *memory) {
    if (block_count == MOST) {
        abort();
    }
    blocks[block_count++] = (block){address, memory, size, device};
    return OK;
}

int cuMemAlloc_v2(uint64_t *address, size_t size);
int cuMemAlloc_v2(uint64_t *address, size_t size) {
    CALL("cuMemAlloc_v2", true)
    const int device = current_device();
    uint8_t *memory;
    if (size == 0) {
        return end(INVALID);
    }
    if (size > config.memory_bytes - used[device] || (memory = malloc(size)) == NULL) {
        return end(NO_MEMORY);
    }
    memset(memory, 0xa5, size);
    if (next_address[device] == 0) {
        next_address[device] = BASE + STEP * (unsigned)device;
    }
    *address = next_address[device];
    next_address[device] +=
        ((size + 0x2ffu) & ~(uint64_t)0xffu) + 256 * draw(40); /* a gap behind */
    used[device] += size;
    report.device_live++;
    return end(new_block(*address, size, device, memory));
}

static void drop_block(block *b) {
    memset(b->memory, 0x5a, b->size);
    free(b->memory);
    *b = blocks[--block_count];
}

int cuMemFree_v2(uint64_t address);
int cuMemFree_v2(uint64_t address) {
    CALL_ANYWAY("cuMemFree_v2", true);
    block *b = find(address, 1, true);
    if (b == NULL || b->address != address) {
        fault("device memory freed that is none");
        return end(INVALID);
    }
    if (busy(b)) {
        fault("device memory freed under a copy");
        while (pump()) {
        }
    }
    used[b->device] -= b->size;
    drop_block(b);
    report.device_live--;
    return end(told);
}

int cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    CALL("cuMemHostAlloc", true)
    (void)flags;
    if (size > config.pinned_bytes - pinned) {
        return end(NO_MEMORY);
    }
    uint8_t *p = malloc(size);
    if (p == NULL) {
        return end(NO_MEMORY);
    }
    pinned += size;
    report.pinned_peak = pinned > report.pinned_peak ? pinned : report.pinned_peak;
    report.pinned_live++;
    *memory = p;
    return end(new_block((uint64_t)(uintptr_t)p, size, -1, p));
}

int cuMemFreeHost(void *memory);
int cuMemFreeHost(void *memory) {
    CALL_ANYWAY("cuMemFreeHost", true);
    block *b = find((uint64_t)(uintptr_t)memory, 1, false);
    if (b == NULL || b->memory != memory) {
        fault("pinned memory freed that is none");
        return end(INVALID);
    }
    if (busy(b)) {
        fault("pinned memory freed under a copy");
        while (pump()) {
        }
    }
    pinned -= b->size;
    drop_block(b);
    report.pinned_live--;
    return end(told);
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t size, void *handle);
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t size, void *handle) {
    CALL("cuMemcpyHtoDAsync_v2", true)
    stream *s = stream_of(handle);
    const block *from = find((uint64_t)(uintptr_t)src, size, false);
    const block *to = find(dst, size, true);
    if (from == NULL) {
        fault("an asynchronous copy from memory that is not pinned");
    }
    if (to == NULL) {
        fault("a copy outside of device memory");
    } else if (to->device != current_device()) {
        fault("a copy to the memory of another device");
    }
    if (s == NULL || from == NULL || to == NULL || size == 0) {
        return end(INVALID);
    }
    op *o = enqueue(s, COPY);
    o->address = dst;
    o->src = src;
    o->size = size;
    o->sum = sum_of(src, size);
    report.copies++;
    return end(OK);
}

int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t size);
int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t size) {
    CALL("cuMemcpyDtoH_v2", true)
    const uint8_t *p = device_memory(src, size);
    if (p == NULL) {
        fault("a copy from outside of device memory");
        return end(INVALID);
    }
    memcpy(dst, p, size); /* what is there now: streams that do not block are not waited for */
    return end(OK);
}

int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t size, void *handle);
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t size, void *handle) {
    CALL("cuMemcpyDtoHAsync_v2", true)
    stream *s = stream_of(handle);
    const block *from = find(src, size, true);
    if (from == NULL) {
        fault("a copy from outside of device memory");
    } else if (from->device != current_device()) {
        fault("a copy from the memory of another device");
    }
    if (s == NULL || from == NULL || size == 0) {
        return end(INVALID);
    }
    const bool at_once = find((uint64_t)(uintptr_t)dst, size, false) == NULL;
    op *o = enqueue(s, CONSUME);
    o->address = src;
    o->size = size;
    o->dst = dst;
    report.copies++;
    /* Memory that is not pinned: done when the call returns. */
    return end(at_once && !drain(s) ? INVALID : OK);
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address);
int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    CALL("cuPointerGetAttribute", true)
    const block *b = find(address, 1, true);
    if (attribute != 9 || b == NULL) {
        return end(INVALID);
    }
    memcpy(value, &b->device, sizeof b->device);
    return end(OK);
}

int cuStreamCreate(void **handle, unsigned flags);
int cuStreamCreate(void **handle, unsigned flags) {
    CALL("cuStreamCreate", true)
    stream *s = calloc(1, sizeof *s);
    if (s == NULL || flags != 1 || stream_count == MOST) {
        abort();
    }
    s->live = true;
    streams[stream_count++] = s;
    report.streams_live++;
    *handle = s;
    return end(OK);
}

int cuStreamDestroy_v2(void *handle);
int cuStreamDestroy_v2(void *handle) {
    CALL_ANYWAY("cuStreamDestroy_v2", true);
    stream *s = stream_of(handle);
    if (s == NULL || s == &legacy || s == &per_thread) {
        return end(INVALID);
    }
    s->live = false; /* its work is done all the same */
    report.streams_live--;
    return end(told);
}

int cuStreamWaitEvent(void *handle, void *event_handle, unsigned flags);
int cuStreamWaitEvent(void *handle, void *event_handle, unsigned flags) {
    CALL("cuStreamWaitEvent", true)
    stream *s = stream_of(handle);
    event *e = event_of(event_handle);
    if (s == NULL || e == NULL || flags != 0) {
        return end(INVALID);
    }
    op *o = enqueue(s, WAIT);
    o->event = e;
    o->count = e->recorded;
    return end(OK);
}

int cuStreamSynchronize(void *handle);
int cuStreamSynchronize(void *handle) {
    CALL_ANYWAY("cuStreamSynchronize", true);
    const stream *s = stream_of(handle);
    return end(s != NULL && drain(s) ? told : INVALID);
}

int cuEventCreate(void **handle, unsigned flags);
int cuEventCreate(void **handle, unsigned flags) {
    CALL("cuEventCreate", true)
    event *e = calloc(1, sizeof *e);
    if (e == NULL || (flags & 2u) == 0 || event_count == MOST * 8) {
        abort();
    }
    e->live = true;
    events[event_count++] = e;
    report.events_live++;
    *handle = e;
    return end(OK);
}

int cuEventDestroy_v2(void *handle);
int cuEventDestroy_v2(void *handle) {
    CALL_ANYWAY("cuEventDestroy_v2", true);
    event *e = event_of(handle);
    if (e == NULL) {
        return end(INVALID);
    }
    e->live = false; /* queued work keeps it */
    report.events_live--;
    return end(told);
}

int cuEventRecord(void *handle, void *stream_handle);
int cuEventRecord(void *handle, void *stream_handle) {
    CALL("cuEventRecord", true)
    event *e = event_of(handle);
    stream *s = stream_of(stream_handle);
    if (e == NULL || s == NULL) {
        return end(INVALID);
    }
    op *o = enqueue(s, RECORD);
    o->event = e;
    o->count = ++e->recorded;
    return end(OK);
}

int cuEventQuery(void *handle);
int cuEventQuery(void *handle) {
    CALL("cuEventQuery", true)
    const event *e = event_of(handle);
    return end(e == NULL ? INVALID : e->done >= e->recorded ? OK : NOT_READY);
}

int cuEventSynchronize(void *handle);
int cuEventSynchronize(void *handle) {
    CALL_ANYWAY("cuEventSynchronize", true);
    const event *e = event_of(handle);
    while (e != NULL && e->done < e->recorded) {
        if (!pump()) {
            fault("streams wait for each other");
            return end(INVALID);
        }
    }
    return end(e != NULL ? told : INVALID);
}

int cuGetErrorName(int result, const char **name);
int cuGetErrorName(int result, const char **name) {
    *name = result == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == 999     ? "CUDA_ERROR_UNKNOWN"
                                : NULL;
    return *name != NULL ? OK : INVALID;
}

int cuGetErrorString(int result, const char **text);
int cuGetErrorString(int result, const char **text) {
    *text = result == NO_MEMORY ? "out of memory" : result == 999 ? "unknown error" : NULL;
    return *text != NULL ? OK : INVALID;
}

/* ---------------------------------------------------------------- for the tests */

void standin_reset(const standin_config *c);
void standin_reset(const standin_config *c) {
    (void)pthread_mutex_lock(&lock);
    while (pump()) {
    }
    for (size_t i = 0; i < stream_count; i++) {
        free(streams[i]);
    }
    for (size_t i = 0; i < event_count; i++) {
        free(events[i]);
    }
    while (block_count > 0) {
        drop_block(&blocks[block_count - 1]);
    }
    stream_count = event_count = 0;
    memset(retained, 0, sizeof retained);
    memset(used, 0, sizeof used);
    pinned = 0;
    memset(&report, 0, sizeof report);
    config = *c;
    random_state = c->seed * 2u + 1u;
    fail_at = c->fail_call;
    (void)pthread_mutex_unlock(&lock);
}

void standin_report_get(standin_report *out);
void standin_report_get(standin_report *out) {
    (void)pthread_mutex_lock(&lock);
    *out = report;
    (void)pthread_mutex_unlock(&lock);
}

int standin_consume(void *handle, uint64_t address, size_t size, void *dst);
int standin_consume(void *handle, uint64_t address, size_t size, void *dst) {
    (void)pthread_mutex_lock(&lock);
    stream *s = stream_of(handle);
    if (s == NULL) {
        return end(INVALID);
    }
    op *o = enqueue(s, CONSUME);
    o->address = address;
    o->size = size;
    o->dst = dst;
    return end(OK);
}

int standin_produce(void *handle, uint64_t address, size_t size, int value);
int standin_produce(void *handle, uint64_t address, size_t size, int value) {
    (void)pthread_mutex_lock(&lock);
    stream *s = stream_of(handle);
    if (s == NULL) {
        return end(INVALID);
    }
    op *o = enqueue(s, PRODUCE);
    o->address = address;
    o->size = size;
    o->count = (uint64_t)value;
    return end(OK);
}

int standin_store(uint64_t address, const void *src, size_t size) {
    (void)pthread_mutex_lock(&lock);
    uint8_t *p = device_memory(address, size);
    if (p == NULL) {
        fault("storage writes outside of device memory");
        return end(0);
    }
    memcpy(p, src, size);
    return end(1);
}

int standin_peek(uint64_t address, size_t size, void *dst);
int standin_peek(uint64_t address, size_t size, void *dst) {
    (void)pthread_mutex_lock(&lock);
    const uint8_t *p = device_memory(address, size);
    if (p == NULL) {
        fault("a look outside of device memory");
        return end(0);
    }
    memcpy(dst, p, size);
    return end(1);
}
