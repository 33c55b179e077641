/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/copier.c - out of device memory, for whoever stages tensors that lie there (sft_copier in
 * <sft/extend.h>). The arenas are pinned, so that the driver copies straight into them. Read device.h
 * first.
 */
#include "base/memory/alloc.h"
#include "cuda/device.h"

struct sft_cuda_copies {
    sft_cuda *cuda;
    uintptr_t stream;
    bool waited; /* for the stream, since the last finish */
    sft_copier copier;
};

static sft_status copy(void *ctx, void *dst, uint64_t address, size_t size, sft_error *err) {
    sft_cuda_copies *const c = ctx;
    const sft__cuda_driver *const driver = &c->cuda->driver;
    SFT_TRY(sft__cuda_enter(c->cuda, err));
    int result = SFT__CUDA_OK;
    if (!c->waited && c->stream != 0) { /* what computes the tensors ends first */
        result = driver->stream_sync(sft__cuda_stream(c->stream));
    }
    c->waited = result == SFT__CUDA_OK;
    if (result == SFT__CUDA_OK) {
        result = driver->copy_back(dst, address, size);
    }
    const sft_status status =
        result == SFT__CUDA_OK ? SFT_OK : sft__cuda_fail(driver, err, result, "copy_back");
    sft__cuda_leave(c->cuda);
    return status;
}

static sft_status finish(void *ctx, sft_error *err) {
    sft_cuda_copies *const c = ctx;
    (void)err;
    c->waited = false; /* each copy has waited for itself */
    return SFT_OK;
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
    const sft_cuda_copies *const c = ctx;
    void *given;
    memcpy(&given, (uint8_t *)ptr + size, sizeof given);
    if (sft__cuda_enter(c->cuda, NULL) == SFT_OK) {
        (void)c->cuda->driver.host_free(given);
        sft__cuda_leave(c->cuda);
    }
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
    *out = c;
    return SFT_OK;
}

const sft_copier *sft_cuda_copies_copier(const sft_cuda_copies *copies) {
    return &copies->copier;
}

void sft_cuda_copies_free(sft_cuda_copies *copies) {
    if (copies != NULL) {
        sft_cuda *const cuda = copies->cuda;
        sft__base_free(cuda->allocator, copies, sizeof *copies);
        sft__cuda_drop(cuda);
    }
}
