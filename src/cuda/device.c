/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/device.c - opening a device and its primary context, and what is told about it. The handle
 * is counted: its driver and context stay for the slabs that outlive it; ring and streams go with
 * close.
 */
#include "cuda/device.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "cuda/gds.h"

#define DEFAULT_CHUNK ((uint64_t)8 << 20)
#define DEFAULT_RING  ((uint64_t)128 << 20)
#define MAX_CHUNK     ((uint64_t)1 << 30)

sft_status sft__cuda_enter(const sft_cuda *cuda, sft_error *err) {
    SFT__CUDA_TRY(&cuda->driver, err, context_push, (cuda->context));
    return SFT_OK;
}

void sft__cuda_leave(const sft_cuda *cuda) {
    void *context;
    (void)cuda->driver.context_pop(&context);
}

void sft__cuda_drop(sft_cuda *cuda) {
    if (atomic_fetch_sub(&cuda->refs, 1) != 1) {
        return;
    }
    if (cuda->context != NULL) {
        (void)cuda->driver.context_release(cuda->device);
    }
    sft__cuda_driver_close(&cuda->driver);
    sft__base_cond_reset(&cuda->freed);
    sft__base_mutex_reset(&cuda->lock);
    sft__base_free(cuda->allocator, cuda, sizeof *cuda);
}

static sft_status devices_of(const sft__cuda_driver *d, uint32_t *devices, sft_error *err) {
    int count = 0;
    SFT__CUDA_TRY(d, err, device_count, (&count));
    if (count <= 0) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "the CUDA driver has no device");
    }
    *devices = (uint32_t)count;
    return SFT_OK;
}

sft_status sft_cuda_available(uint32_t *devices, const char *driver_path, sft_error *err) {
    sft__cuda_driver driver;
    uint32_t count = 0;

    if (devices != NULL) {
        *devices = 0;
    }
    SFT_TRY(sft__cuda_driver_open(&driver, driver_path, err));
    const sft_status status = devices_of(&driver, &count, err);
    sft__cuda_driver_close(&driver);
    if (status == SFT_OK && devices != NULL) {
        *devices = count;
    }
    return status;
}

/* ---------------------------------------------------------------- open */

static sft_status read_options(const sft_cuda_options *options, sft_cuda_options *o,
                               sft_error *err) {
    SFT_TRY(sft__base_options_read(o, sizeof *o, options, SFT__UP_TO(sft_cuda_options, struct_size),
                                   "options", err));
    o->chunk_bytes = o->chunk_bytes == 0 ? DEFAULT_CHUNK : o->chunk_bytes;
    o->ring_bytes = o->ring_bytes == 0 ? DEFAULT_RING : o->ring_bytes;
    o->streams = o->streams == 0 ? 4 : o->streams;
    if (o->chunk_bytes > MAX_CHUNK || o->streams > SFT__CUDA_STREAMS) {
        return sft__base_fail(err, SFT_E_ARG,
                              "chunks of %llu bytes on %u streams, at most %llu on %u",
                              (unsigned long long)o->chunk_bytes, o->streams,
                              (unsigned long long)MAX_CHUNK, SFT__CUDA_STREAMS);
    }
    (void)sft__base_align64(o->chunk_bytes, SFT__CUDA_PAGE, &o->chunk_bytes);
    return SFT_OK;
}

static sft_status open_streams(sft_cuda *cuda, uint32_t count, sft_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        SFT__CUDA_TRY(&cuda->driver, err, stream_create,
                      (&cuda->streams[i], SFT__CUDA_STREAM_NON_BLOCKING));
        cuda->stream_count = i + 1;
    }
    return SFT_OK;
}

static sft_status open_device(sft_cuda *cuda, const sft_cuda_options *o, sft_error *err) {
    const sft__cuda_driver *d = &cuda->driver;
    uint32_t devices = 0;
    int integrated = 0;
    void *context = NULL;

    SFT_TRY(sft__cuda_driver_open(&cuda->driver, o->driver_path, err));
    SFT_TRY(devices_of(d, &devices, err));
    if (o->device >= devices) {
        return sft__base_fail(err, SFT_E_RANGE, "device %u was asked for, there are %u", o->device,
                              devices);
    }
    SFT__CUDA_TRY(d, err, device_get, (&cuda->device, (int)o->device));
    SFT__CUDA_TRY(d, err, device_attribute, (&integrated, SFT__CUDA_INTEGRATED, cuda->device));
    cuda->unified = integrated != 0;
    SFT__CUDA_TRY(d, err, context_retain, (&context, cuda->device));
    cuda->context = context;
    SFT_TRY(sft__cuda_enter(cuda, err));
    const sft_status status = open_streams(cuda, o->streams, err);
    sft__cuda_leave(cuda);
    return status;
}

sft_status sft_cuda_open(sft_cuda **out, const sft_cuda_options *options, sft_error *err) {
    sft_cuda_options o;
    sft_cuda *cuda;

    SFT_OUT(out, err);
    SFT_TRY(read_options(options, &o, err));
    const sft_allocator *allocator = sft__base_allocator(o.allocator);
    cuda = sft__base_alloc_zero(allocator, sizeof *cuda);
    SFT_NEED(cuda != NULL, sizeof *cuda, err);
    cuda->allocator = allocator;
    cuda->ordinal = o.device;
    cuda->chunk_bytes = o.chunk_bytes;
    cuda->slots_max = (size_t)(o.ring_bytes / o.chunk_bytes > 1 ? o.ring_bytes / o.chunk_bytes : 1);
    cuda->memory_limit = o.memory_bytes;
    atomic_init(&cuda->refs, 1);
    if (!sft__base_mutex_init(&cuda->lock)) {
        sft__base_free(allocator, cuda, sizeof *cuda);
        return sft__base_fail_nomem(err, sizeof *cuda);
    }
    if (!sft__base_cond_init(&cuda->freed)) {
        sft__base_mutex_reset(&cuda->lock);
        sft__base_free(allocator, cuda, sizeof *cuda);
        return sft__base_fail_nomem(err, sizeof *cuda);
    }
    sft_status status = sft__cuda_gds_create(&cuda->gds, o.cufile_path, allocator, err);
    if (status == SFT_OK) {
        status = open_device(cuda, &o, err);
    }
    if (status != SFT_OK) {
        sft_cuda_close(cuda);
        return status;
    }
    *out = cuda;
    return SFT_OK;
}

void sft_cuda_close(sft_cuda *cuda) {
    if (cuda == NULL) {
        return;
    }
    if (cuda->context != NULL) {
        const bool entered = sft__cuda_enter(cuda, NULL) == SFT_OK;
        sft__cuda_ring_free(cuda, !entered);
        for (uint32_t i = 0; i < cuda->stream_count && entered; i++) {
            (void)cuda->driver.stream_sync(cuda->streams[i]);
            (void)cuda->driver.stream_free(cuda->streams[i]);
        }
        cuda->stream_count = 0;
        if (entered) {
            sft__cuda_leave(cuda);
        }
    }
    sft__cuda_gds_free(cuda->gds, cuda->allocator);
    cuda->gds = NULL;
    sft__cuda_drop(cuda);
}

static sft_status device_info(const sft_cuda *cuda, sft_cuda_info *out, sft_error *err) {
    const sft__cuda_driver *d = &cuda->driver;
    int version = 0;
    int major = 0;
    int minor = 0;
    size_t left = 0;
    size_t total = 0;

    SFT__CUDA_TRY(d, err, driver_version, (&version));
    SFT__CUDA_TRY(d, err, device_name, (out->name, (int)sizeof out->name, cuda->device));
    SFT__CUDA_TRY(d, err, device_uuid, (out->uuid, cuda->device));
    SFT__CUDA_TRY(d, err, device_attribute, (&major, SFT__CUDA_CAPABILITY_MAJOR, cuda->device));
    SFT__CUDA_TRY(d, err, device_attribute, (&minor, SFT__CUDA_CAPABILITY_MINOR, cuda->device));
    SFT__CUDA_TRY(d, err, memory_info, (&left, &total));
    out->name[sizeof out->name - 1] = '\0';
    out->driver_version = (uint32_t)version;
    out->capability_major = (uint32_t)major;
    out->capability_minor = (uint32_t)minor;
    out->free_bytes = left;
    out->total_bytes = total;
    return SFT_OK;
}

sft_status sft_cuda_info_get(const sft_cuda *cuda, sft_cuda_info *out, sft_error *err) {
    if (cuda == NULL || out == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "cuda or out is NULL");
    }
    memset(out, 0, sizeof *out);
    SFT_TRY(sft__cuda_enter(cuda, err));
    const sft_status status = device_info(cuda, out, err);
    sft__cuda_leave(cuda);
    out->device = cuda->ordinal;
    out->unified = cuda->unified;
    sft_cuda *locked;
    memcpy(&locked, &cuda, sizeof locked); /* the lock is the one part that is not const */
    sft__base_mutex_lock(&locked->lock);
    out->held_bytes = cuda->held;
    out->peak_bytes = cuda->peak;
    out->ring_bytes = cuda->slots * (cuda->chunk_bytes + SFT__CUDA_PAGE);
    sft__base_mutex_unlock(&locked->lock);
    return status;
}
