/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/device.h - an open device: driver, primary context, streams, the ring of pinned memory, and
 * the slabs that tensors lie in. Read first: <sft/cuda.h>, driver.h.
 */
#ifndef SFT_CUDA_DEVICE_H
#define SFT_CUDA_DEVICE_H

#include "base/error.h"
#include "base/thread/thread.h"
#include "cuda/driver.h"
#include <sft/cuda.h>
#include <sft/extend.h>
#include <stdatomic.h>

#define SFT__CUDA_PAGE    ((uint64_t)4096)
#define SFT__CUDA_STREAMS 32u /* at most */

/* A chunk of pinned memory. Free ones stand in a queue, those whose copies began first in front. */
typedef struct sft__cuda_slot {
    struct sft__cuda_slot *next;
    uint8_t *base; /* aligned to a page, chunk bytes */
    void *memory;  /* as the driver gave it */
    void *event;   /* recorded behind the copies from here */
    void *stream;  /* that it copies on */
    bool pending;  /* the event may not have come yet */
} sft__cuda_slot;

typedef struct sft__cuda_gds sft__cuda_gds;

struct sft_cuda {
    const sft_allocator *allocator;
    sft__cuda_driver driver;
    void *context;
    int device;
    uint32_t ordinal;
    uint32_t unified;
    uint32_t stream_count;
    void *streams[SFT__CUDA_STREAMS];
    uint64_t chunk_bytes;
    uint64_t memory_limit; /* 0: none */
    atomic_size_t refs;    /* the handle, and each slab */
    sft__base_mutex lock;  /* of what follows */
    sft__base_cond freed;  /* a slot came back */
    sft__cuda_slot *first;
    sft__cuda_slot *last;
    size_t slots; /* there are, in use or not */
    size_t slots_max;
    uint64_t held;
    uint64_t peak;
    sft__cuda_gds *gds;
};

/* Makes the context current; each enter that succeeds is followed by one leave in the same thread.
 */
sft_status sft__cuda_enter(const sft_cuda *cuda, sft_error *err);
void sft__cuda_leave(const sft_cuda *cuda);
void sft__cuda_drop(sft_cuda *cuda); /* gives up one reference */

/* ---------------------------------------------------------------- slabs (slab.c) */

/* Device memory, and the events behind everything that was copied into it. */
typedef struct sft__cuda_slab {
    sft_cuda *cuda;
    uint64_t address; /* of the tensors, aligned */
    uint64_t size;
    uint64_t memory;   /* as the driver gave it; 0: the caller's, or none */
    uint64_t reserved; /* bytes there */
    atomic_size_t refs;
    uint32_t event_count;
    void *events[SFT__CUDA_STREAMS];
} sft__cuda_slab;

/* All of these with the context current, except take, keep and drop, which see to it. memory 0:
 * allocate. */
sft_status sft__cuda_slab_create(sft__cuda_slab **out, sft_cuda *cuda, uint64_t memory,
                                 uint64_t size, uint32_t alignment, sft_error *err);
/* Records what is on the device's streams now; a failure leaves fewer events and everything waited
 * for. */
sft_status sft__cuda_slab_seal(sft__cuda_slab *slab, sft_error *err);
sft_status sft__cuda_slab_wait(const sft__cuda_slab *slab, uintptr_t stream, sft_error *err);
void sft__cuda_slab_keep(sft__cuda_slab *slab);
void sft__cuda_slab_drop(sft__cuda_slab *slab); /* the last one waits for the copies and frees */

/* ---------------------------------------------------------------- the ring (ring.c) */

/* A slot whose memory is free to be written. The ring grows until it has its size; then this waits
 * for the oldest copy, or for another thread to give a slot back. *waited counts up in these cases.
 */
sft_status sft__cuda_ring_take(sft__cuda_slot **out, sft_cuda *cuda, uint64_t *waited,
                               sft_error *err);
/* Gives it back; `copied`: copies from it have been put on its stream. Any failure is waited out.
 */
sft_status sft__cuda_ring_give(sft_cuda *cuda, sft__cuda_slot *slot, bool copied, sft_error *err);
/* lost: the context cannot be entered any more, and what it held went with it. */
void sft__cuda_ring_free(sft_cuda *cuda, bool lost);

/* The driver's object behind a stream number as DLPack counts. */
static inline void *sft__cuda_stream(uintptr_t stream) {
    return (void *)stream; /* 1 and 2 are the driver's own constants for its default streams */
}

#endif
