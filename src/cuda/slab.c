/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/slab.c - one piece of device memory per load, shared by what is loaded and exported. The
 * events behind its copies belong to it: memory is never freed under a copy, whoever gives it up
 * first.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "cuda/device.h"

#define DRIVER_ALIGN 256u /* what cuMemAlloc promises */

static sft_status reserve(sft_cuda *cuda, uint64_t size, sft_error *err) {
    uint64_t sum = 0;
    sft__base_mutex_lock(&cuda->lock);
    const uint64_t held = cuda->held;
    const bool fits =
        sft__base_add64(held, size, &sum) && (cuda->memory_limit == 0 || sum <= cuda->memory_limit);
    if (fits) {
        cuda->held = sum;
        cuda->peak = sum > cuda->peak ? sum : cuda->peak;
    }
    sft__base_mutex_unlock(&cuda->lock);
    return fits ? SFT_OK
                : sft__base_fail(
                      err, SFT_E_LIMIT,
                      "the tensors take %llu bytes of device memory beside %llu that are held, the "
                      "limit is %llu",
                      (unsigned long long)size, (unsigned long long)held,
                      (unsigned long long)cuda->memory_limit);
}

static void unreserve(sft_cuda *cuda, uint64_t size) {
    sft__base_mutex_lock(&cuda->lock);
    cuda->held -= size;
    sft__base_mutex_unlock(&cuda->lock);
}

/* The driver aligns to 256 bytes; more than that is ours to see to. */
static sft_status allocate(sft__cuda_slab *slab, uint32_t alignment, sft_error *err) {
    const sft__cuda_driver *d = &slab->cuda->driver;
    const uint64_t extra = alignment > DRIVER_ALIGN ? alignment - DRIVER_ALIGN : 0;
    size_t left = 0;
    size_t total = 0;
    size_t size;

    if (!sft__base_add64(slab->size, extra, &slab->reserved)) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "the tensors' bytes together overflow 64 bits");
    }
    SFT_TRY(reserve(slab->cuda, slab->reserved, err));
    int result = SFT__CUDA_OUT_OF_MEMORY;
    if (sft__base_size_from_u64(slab->reserved, &size)) {
        result = d->memory_alloc(&slab->memory, size);
    }
    if (result == SFT__CUDA_OK) {
        slab->address = (slab->memory + extra) & ~((uint64_t)alignment - 1);
        slab->address = extra == 0 ? slab->memory : slab->address;
        return SFT_OK;
    }
    unreserve(slab->cuda, slab->reserved);
    slab->memory = 0;
    if (result == SFT__CUDA_OUT_OF_MEMORY && d->memory_info(&left, &total) == SFT__CUDA_OK) {
        return sft_error_set(err, SFT_E_NOMEM, result,
                             "the tensors take %llu bytes of device memory, %llu of %llu are free",
                             (unsigned long long)slab->reserved, (unsigned long long)left,
                             (unsigned long long)total);
    }
    return sft__cuda_fail(d, err, result, "memory_alloc");
}

/* The caller's memory: on this device, or not known to the driver at all (then the copy will tell).
 */
static sft_status check_memory(const sft__cuda_slab *slab, sft_error *err) {
    int device = slab->cuda->device;
    if (slab->cuda->driver.pointer_attribute(&device, SFT__CUDA_POINTER_DEVICE, slab->address) ==
            SFT__CUDA_OK &&
        device != slab->cuda->device) {
        return sft__base_fail(err, SFT_E_ARG,
                              "the memory is on device %d, the load is for device %d", device,
                              slab->cuda->device);
    }
    return SFT_OK;
}

sft_status sft__cuda_slab_create(sft__cuda_slab **out, sft_cuda *cuda, uint64_t memory,
                                 uint64_t size, uint32_t alignment, sft_error *err) {
    sft__cuda_slab *slab = sft__base_alloc_zero(cuda->allocator, sizeof *slab);
    sft_status status = SFT_OK;

    *out = NULL;
    SFT_NEED(slab != NULL, sizeof *slab, err);
    slab->cuda = cuda;
    slab->size = size;
    slab->address = memory;
    if (memory != 0) {
        status = check_memory(slab, err);
    } else if (size > 0) {
        status = allocate(slab, alignment, err);
    }
    if (status != SFT_OK) {
        sft__base_free(cuda->allocator, slab, sizeof *slab);
        return status;
    }
    atomic_init(&slab->refs, 1);
    (void)atomic_fetch_add(&cuda->refs, 1);
    *out = slab;
    return SFT_OK;
}

static sft_status seal_stream(sft__cuda_slab *slab, void *stream, sft_error *err) {
    const sft__cuda_driver *d = &slab->cuda->driver;
    void *event = NULL;

    SFT__CUDA_TRY(d, err, event_create,
                  (&event, SFT__CUDA_EVENT_BLOCKING_SYNC | SFT__CUDA_EVENT_NO_TIMING));
    const int result = d->event_record(event, stream);
    if (result != SFT__CUDA_OK) {
        (void)d->event_free(event);
        return sft__cuda_fail(d, err, result, "event_record");
    }
    slab->events[slab->event_count++] = event;
    return SFT_OK;
}

sft_status sft__cuda_slab_seal(sft__cuda_slab *slab, sft_error *err) {
    const sft_cuda *cuda = slab->cuda;
    sft_status status = SFT_OK;
    for (uint32_t i = 0; i < cuda->stream_count && status == SFT_OK; i++) {
        status = seal_stream(slab, cuda->streams[i], err);
    }
    for (uint32_t i = 0; i < cuda->stream_count && status != SFT_OK; i++) {
        (void)cuda->driver.stream_sync(cuda->streams[i]);
    }
    return status;
}

sft_status sft__cuda_slab_wait(const sft__cuda_slab *slab, uintptr_t stream, sft_error *err) {
    const sft__cuda_driver *d = &slab->cuda->driver;
    for (uint32_t i = 0; i < slab->event_count; i++) {
        if (stream == 0) {
            SFT__CUDA_TRY(d, err, event_sync, (slab->events[i]));
        } else {
            SFT__CUDA_TRY(d, err, stream_wait, (sft__cuda_stream(stream), slab->events[i], 0));
        }
    }
    return SFT_OK;
}

void sft__cuda_slab_keep(sft__cuda_slab *slab) {
    (void)atomic_fetch_add(&slab->refs, 1);
}

void sft__cuda_slab_drop(sft__cuda_slab *slab) {
    sft_cuda *cuda = slab->cuda;

    if (atomic_fetch_sub(&slab->refs, 1) != 1) {
        return;
    }
    /* In a process that is ending the driver may refuse everything: then there is nothing left to
     * free. */
    const bool entered = sft__cuda_enter(cuda, NULL) == SFT_OK;
    for (uint32_t i = 0; i < slab->event_count && entered; i++) {
        (void)cuda->driver.event_sync(slab->events[i]);
        (void)cuda->driver.event_free(slab->events[i]);
    }
    if (slab->memory != 0) {
        if (entered) {
            (void)cuda->driver.memory_free(slab->memory);
        }
        unreserve(cuda, slab->reserved);
    }
    if (entered) {
        sft__cuda_leave(cuda);
    }
    sft__base_free(cuda->allocator, slab, sizeof *slab);
    sft__cuda_drop(cuda);
}
