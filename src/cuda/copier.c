/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/copier.c - out of device memory, for whoever stages tensors that lie there (sft_copier in
 * <sft/extend.h>). The arenas are pinned, so that the driver copies straight into them, on a stream of
 * its own that waits for the caller's. Into other memory the driver copies, too, before it returns. Read
 * device.h first.
 */
#include "base/memory/alloc.h"
#include "cuda/device.h"

struct sft_cuda_copies {
    sft_cuda *cuda;
    uintptr_t stream; /* of the one that computes the tensors */
    void *side;       /* the copies go on this one */
    void *event;
    bool waits;   /* the side stream does, for that one, since the last finish */
    bool pending; /* copies may be under way */
    sft_copier copier;
};

/* What computes the tensors ends before the first copy begins: the device waits, not this thread. */
static sft_status wait_for_tensors(sft_cuda_copies *c, sft_error *err) {
    const sft__cuda_driver *const driver = &c->cuda->driver;
    if (!c->waits && c->stream != 0) {
        SFT__CUDA_TRY(driver, err, event_record, (c->event, sft__cuda_stream(c->stream)));
        SFT__CUDA_TRY(driver, err, stream_wait, (c->side, c->event, 0));
    }
    c->waits = true;
    return SFT_OK;
}

static sft_status copy(void *ctx, void *dst, uint64_t address, size_t size, sft_error *err) {
    sft_cuda_copies *const c = ctx;
    const sft__cuda_driver *const driver = &c->cuda->driver;
    SFT_TRY(sft__cuda_enter(c->cuda, err));
    sft_status status = wait_for_tensors(c, err);
    if (status == SFT_OK) {
        c->pending = true;
        const int result = driver->copy_out(dst, address, size, c->side);
        status = result == SFT__CUDA_OK ? SFT_OK : sft__cuda_fail(driver, err, result, "copy_out");
    }
    sft__cuda_leave(c->cuda);
    return status;
}

static sft_status finish(void *ctx, sft_error *err) {
    sft_cuda_copies *const c = ctx;
    const sft__cuda_driver *const driver = &c->cuda->driver;
    c->waits = false;
    SFT_TRY(sft__cuda_enter(c->cuda, err));
    const int result = driver->stream_sync(c->side);
    c->pending = result != SFT__CUDA_OK;
    const sft_status status =
        result == SFT__CUDA_OK ? SFT_OK : sft__cuda_fail(driver, err, result, "stream_sync");
    sft__cuda_leave(c->cuda);
    return status;
}

/* With the context current: what a finish that failed has left under way. */
static void settle(sft_cuda_copies *c) {
    if (c->pending) {
        c->pending = c->cuda->driver.stream_sync(c->side) != SFT__CUDA_OK;
    }
}

/* The driver promises no alignment: a page more is taken, and what it gave stands behind the memory. */
static void *alloc(void *ctx, size_t size) {
    const sft_cuda_copies *const c = ctx;
    const size_t page = (size_t)SFT__CUDA_PAGE;
    void *given = NULL;
    uint8_t *memory = NULL;
    if (size > SIZE_MAX - page - sizeof given || sft__cuda_enter(c->cuda, NULL) != SFT_OK) {
        return NULL; /* ordinary memory does it, too */
    }
    if (c->cuda->driver.host_alloc(&given, size + page + sizeof given, SFT__CUDA_HOST_PORTABLE) ==
        SFT__CUDA_OK) {
        memory = (uint8_t *)given + ((size_t)(0 - (uintptr_t)given) & (page - 1));
        memcpy(memory + size, &given, sizeof given);
    }
    sft__cuda_leave(c->cuda);
    return memory;
}

static void release(void *ctx, void *ptr, size_t size) {
    sft_cuda_copies *const c = ctx;
    void *given;
    memcpy(&given, (uint8_t *)ptr + size, sizeof given);
    if (sft__cuda_enter(c->cuda, NULL) == SFT_OK) {
        settle(c);
        (void)c->cuda->driver.host_free(given);
        sft__cuda_leave(c->cuda);
    }
}

static sft_status open_side(sft_cuda_copies *c, sft_error *err) {
    const sft__cuda_driver *const driver = &c->cuda->driver;
    SFT__CUDA_TRY(driver, err, stream_create, (&c->side, SFT__CUDA_STREAM_NON_BLOCKING));
    SFT__CUDA_TRY(driver, err, event_create, (&c->event, SFT__CUDA_EVENT_NO_TIMING));
    return SFT_OK;
}

sft_status sft_cuda_copies_create(sft_cuda_copies **out, sft_cuda *cuda, uintptr_t stream,
                                  sft_error *err) {
    *out = NULL;
    if (cuda == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "no device is open");
    }
    sft_cuda_copies *const c = sft__base_alloc_zero(cuda->allocator, sizeof *c);
    if (c == NULL) {
        return sft__base_fail_nomem(err, sizeof *c);
    }
    c->cuda = cuda;
    c->stream = stream;
    SFT_INIT(&c->copier);
    c->copier.copy = copy;
    c->copier.finish = finish;
    c->copier.alloc = alloc;
    c->copier.free = release;
    c->copier.ctx = c;
    (void)atomic_fetch_add(&cuda->refs, 1);
    sft_status status = sft__cuda_enter(cuda, err);
    if (status == SFT_OK) {
        status = open_side(c, err);
        sft__cuda_leave(cuda);
    }
    if (status != SFT_OK) {
        sft_cuda_copies_free(c);
        return status;
    }
    *out = c;
    return SFT_OK;
}

void sft_cuda_copies_stream(sft_cuda_copies *copies, uintptr_t stream) {
    copies->stream = stream;
}

const sft_copier *sft_cuda_copies_copier(const sft_cuda_copies *copies) {
    return &copies->copier;
}

void sft_cuda_copies_free(sft_cuda_copies *copies) {
    if (copies != NULL) {
        sft_cuda *const cuda = copies->cuda;
        if (copies->side != NULL && sft__cuda_enter(cuda, NULL) == SFT_OK) {
            settle(copies);
            if (copies->event != NULL) {
                (void)cuda->driver.event_free(copies->event);
            }
            (void)cuda->driver.stream_free(copies->side);
            sft__cuda_leave(cuda);
        }
        sft__base_free(cuda->allocator, copies, sizeof *copies);
        sft__cuda_drop(cuda);
    }
}
