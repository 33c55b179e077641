/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/ring.c - a bounded set of pinned chunks, reused as soon as the copies from them are done. A
 * slot is never written before the event behind its last copy has come; who takes it sees to that.
 * Chunks are pinned when they are first needed: pinning costs about as much time as reading.
 */
#include "base/memory/need.h"
#include "cuda/device.h"

static void free_slot(const sft_cuda *cuda, sft__cuda_slot *slot) {
    if (slot->event != NULL) {
        (void)cuda->driver.event_free(slot->event);
    }
    if (slot->memory != NULL) {
        (void)cuda->driver.host_free(slot->memory);
    }
    sft__base_free(cuda->allocator, slot, sizeof *slot);
}

static sft_status new_slot(sft__cuda_slot **out, const sft_cuda *cuda, size_t number,
                           sft_error *err) {
    const size_t size = (size_t)(cuda->chunk_bytes + SFT__CUDA_PAGE);
    sft__cuda_slot *slot = sft__base_alloc_zero(cuda->allocator, sizeof *slot);
    int result;

    *out = NULL;
    SFT_NEED(slot != NULL, sizeof *slot, err);
    result = cuda->driver.host_alloc(&slot->memory, size, SFT__CUDA_HOST_PORTABLE);
    if (result != SFT__CUDA_OK) {
        slot->memory = NULL;
        free_slot(cuda, slot);
        return sft__cuda_fail(&cuda->driver, err, result, "host_alloc");
    }
    result = cuda->driver.event_create(&slot->event,
                                       SFT__CUDA_EVENT_BLOCKING_SYNC | SFT__CUDA_EVENT_NO_TIMING);
    if (result != SFT__CUDA_OK) {
        slot->event = NULL;
        free_slot(cuda, slot);
        return sft__cuda_fail(&cuda->driver, err, result, "event_create");
    }
    slot->stream = cuda->streams[number % cuda->stream_count];
    slot->base = (uint8_t *)slot->memory +
                 (size_t)((0 - (uintptr_t)slot->memory) & (uintptr_t)(SFT__CUDA_PAGE - 1));
    *out = slot;
    return SFT_OK;
}

static void append(sft_cuda *cuda, sft__cuda_slot *slot) {
    slot->next = NULL;
    if (cuda->last != NULL) {
        cuda->last->next = slot;
    } else {
        cuda->first = slot;
    }
    cuda->last = slot;
}

static sft__cuda_slot *pop(sft_cuda *cuda) {
    sft__cuda_slot *slot = cuda->first;
    cuda->first = slot->next;
    if (cuda->first == NULL) {
        cuda->last = NULL;
    }
    return slot;
}

/* With the lock held, which it gives up meanwhile. *out NULL and SFT_OK: there are other slots,
 * look again. */
static sft_status grow(sft__cuda_slot **out, sft_cuda *cuda, sft_error *err) {
    const size_t number = cuda->slots++;
    sft_error error;

    sft__base_mutex_unlock(&cuda->lock);
    sft_status status = new_slot(out, cuda, number, &error);
    sft__base_mutex_lock(&cuda->lock);
    if (status == SFT_OK) {
        return SFT_OK;
    }
    cuda->slots--;
    sft__base_cond_broadcast(&cuda->freed); /* who waits may have to find out for himself */
    if (cuda->slots > 0) {
        cuda->slots_max = cuda->slots; /* the system gives no more: do with what is there */
        return SFT_OK;
    }
    if (err != NULL) {
        *err = error;
    }
    return status;
}

sft_status sft__cuda_ring_take(sft__cuda_slot **out, sft_cuda *cuda, uint64_t *waited,
                               sft_error *err) {
    sft__cuda_slot *slot = NULL;
    sft_status status = SFT_OK;
    int result = SFT__CUDA_OK;
    bool stalled = false;

    *out = NULL;
    sft__base_mutex_lock(&cuda->lock);
    while (slot == NULL && status == SFT_OK) {
        sft__cuda_slot *front = cuda->first;
        if (front != NULL &&
            (!front->pending || cuda->driver.event_query(front->event) == SFT__CUDA_OK)) {
            slot = pop(cuda);
            slot->pending = false;
        } else if (cuda->slots < cuda->slots_max) {
            status = grow(&slot, cuda, err);
        } else if (front != NULL) {
            slot = pop(cuda);
            stalled = true;
        } else {
            stalled = true;
            sft__base_cond_wait(&cuda->freed, &cuda->lock);
        }
    }
    sft__base_mutex_unlock(&cuda->lock);
    *waited += stalled ? 1 : 0;
    if (status == SFT_OK && slot->pending) {
        result = cuda->driver.event_sync(slot->event);
        slot->pending = result != SFT__CUDA_OK;
    }
    if (result != SFT__CUDA_OK) {
        status = sft__cuda_fail(&cuda->driver, err, result, "event_sync");
        sft__base_mutex_lock(&cuda->lock);
        append(cuda, slot);
        sft__base_cond_broadcast(&cuda->freed);
        sft__base_mutex_unlock(&cuda->lock);
        return status;
    }
    *out = slot;
    return status;
}

sft_status sft__cuda_ring_give(sft_cuda *cuda, sft__cuda_slot *slot, bool copied, sft_error *err) {
    sft_status status = SFT_OK;

    if (copied) {
        const int result = cuda->driver.event_record(slot->event, slot->stream);
        slot->pending = true;
        if (result != SFT__CUDA_OK) {
            status = sft__cuda_fail(&cuda->driver, err, result, "event_record");
            /* If this fails, too, the context is lost, and with it the copies. */
            slot->pending = cuda->driver.stream_sync(slot->stream) != SFT__CUDA_OK;
        }
    }
    sft__base_mutex_lock(&cuda->lock);
    append(cuda, slot);
    sft__base_cond_broadcast(&cuda->freed);
    sft__base_mutex_unlock(&cuda->lock);
    return status;
}

void sft__cuda_ring_free(sft_cuda *cuda, bool lost) {
    while (cuda->first != NULL) {
        sft__cuda_slot *slot = pop(cuda);
        if (lost) {
            slot->event = NULL;
            slot->memory = NULL;
        } else if (slot->pending) {
            (void)cuda->driver.stream_sync(slot->stream);
        }
        free_slot(cuda, slot);
    }
    cuda->slots = 0;
}
