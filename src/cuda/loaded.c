/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/loaded.c - what a load brought, and its tensors as DLPack hands them on. See <sft/cuda.h>.
 */
#include "base/memory/need.h"
#include "cuda/load.h"

size_t sft_cuda_loaded_count(const sft_cuda_loaded *loaded) {
    return loaded != NULL ? loaded->plan.place_count : 0;
}

uint64_t sft_cuda_loaded_bytes(const sft_cuda_loaded *loaded) {
    return loaded != NULL ? loaded->plan.bytes : 0;
}

uint64_t sft_cuda_loaded_memory(const sft_cuda_loaded *loaded, uint64_t *size) {
    if (size != NULL) {
        *size = loaded != NULL ? loaded->slab->size : 0;
    }
    return loaded != NULL ? loaded->slab->address : 0;
}

sft_status sft_cuda_loaded_at(const sft_cuda_loaded *loaded, size_t index, sft_cuda_view *out) {
    if (loaded == NULL || out == NULL) {
        return SFT_E_ARG;
    }
    if (index >= loaded->plan.place_count) {
        return SFT_E_RANGE;
    }
    const sft__cuda_place *p = &loaded->plan.places[index];
    memset(out, 0, sizeof *out);
    out->tensor = p->tensor;
    out->dtype = p->dtype;
    out->shape = p->shape;
    out->rank = p->rank;
    out->nbytes = p->nbytes;
    out->address = loaded->slab->address != 0 ? loaded->slab->address + p->offset : 0;
    out->device = loaded->slab->cuda->ordinal;
    return SFT_OK;
}

void sft_cuda_loaded_stats(const sft_cuda_loaded *loaded, sft_cuda_stats *out) {
    *out = loaded->stats;
}

sft_strategy sft_cuda_loaded_strategy(const sft_cuda_loaded *loaded, size_t file,
                                      const char **reason, int *direct,
                                      const char **direct_reason) {
    const sft__cuda_input *in = NULL;
    if (loaded != NULL && file < loaded->file_count &&
        loaded->file_source[file] < loaded->plan.source_count) {
        in = &loaded->inputs[loaded->file_source[file]];
    }
    if (direct != NULL) {
        *direct = in != NULL && in->by_gds;
    }
    if (direct_reason != NULL) {
        *direct_reason = in != NULL ? in->gds_reason : "there is no such file";
    }
    if (in == NULL) {
        if (reason != NULL) {
            *reason = "there is no such file";
        }
        return SFT_STRATEGY_AUTO;
    }
    return sft__io_reader_told(&in->reader, reason);
}

sft_status sft_cuda_loaded_wait(const sft_cuda_loaded *loaded, uintptr_t stream, sft_error *err) {
    if (loaded == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "loaded is NULL");
    }
    const sft_cuda *cuda = loaded->slab->cuda;
    SFT_TRY(sft__cuda_enter(cuda, err));
    const sft_status status = sft__cuda_slab_wait(loaded->slab, stream, err);
    sft__cuda_leave(cuda);
    return status;
}

void sft_cuda_loaded_free(sft_cuda_loaded *loaded) {
    if (loaded == NULL) {
        return;
    }
    const sft_allocator *allocator = loaded->allocator;
    sft__base_free(allocator, loaded->inputs, loaded->plan.source_count * sizeof *loaded->inputs);
    sft__base_free(allocator, loaded->file_source,
                   loaded->file_count * sizeof *loaded->file_source);
    sft__cuda_plan_reset(&loaded->plan);
    if (loaded->slab != NULL) {
        sft__cuda_slab_drop(loaded->slab);
    }
    sft__base_free(allocator, loaded, sizeof *loaded);
}

/* ---------------------------------------------------------------- DLPack */

/* DLPack's code for a type; by kind, where the bits say the rest. */
static bool dl_code(const sft_dtype *t, uint8_t *code) {
    static const uint8_t kinds[] = {[SFT_KIND_BOOL] = SFT_DL_BOOL,
                                    [SFT_KIND_INT] = SFT_DL_INT,
                                    [SFT_KIND_UINT] = SFT_DL_UINT,
                                    [SFT_KIND_FLOAT] = SFT_DL_FLOAT,
                                    [SFT_KIND_COMPLEX] = SFT_DL_COMPLEX};
    static const uint8_t floats[SFT_DTYPE_COUNT + 1] = {[SFT_F4] = SFT_DL_FLOAT4_E2M1FN,
                                                        [SFT_F6_E2M3] = SFT_DL_FLOAT6_E2M3FN,
                                                        [SFT_F6_E3M2] = SFT_DL_FLOAT6_E3M2FN,
                                                        [SFT_F8_E5M2] = SFT_DL_FLOAT8_E5M2,
                                                        [SFT_F8_E4M3] = SFT_DL_FLOAT8_E4M3FN,
                                                        [SFT_F8_E8M0] = SFT_DL_FLOAT8_E8M0FNU,
                                                        [SFT_F8_E4M3FNUZ] = SFT_DL_FLOAT8_E4M3FNUZ,
                                                        [SFT_F8_E5M2FNUZ] = SFT_DL_FLOAT8_E5M2FNUZ,
                                                        [SFT_BF16] = SFT_DL_BFLOAT};
    if (sft_dtype_get(t->id) == NULL) {
        return false;
    }
    *code = floats[t->id] != 0 ? floats[t->id] : kinds[t->kind];
    return true;
}

/* One allocation: the managed tensor in either form, then shape and strides. */
typedef struct exported {
    union {
        sft_dl_managed now;
        sft_dl_managed_old old;
    } managed;
    const sft_allocator *allocator;
    sft__cuda_slab *slab;
    size_t size; /* of this allocation */
    int64_t numbers[];
} exported;

static void export_free(exported *e) {
    sft__cuda_slab *slab = e->slab;
    sft__base_free(e->allocator, e, e->size);
    sft__cuda_slab_drop(slab);
}

static void delete_now(sft_dl_managed *self) {
    export_free(self->manager_ctx);
}

static void delete_old(sft_dl_managed_old *self) {
    export_free(self->manager_ctx);
}

static sft_status find_type(sft_dl_type *out, const sft__cuda_place *p, uint32_t flags,
                            sft_error *err) {
    *out = (sft_dl_type){SFT_DL_UINT, 8, 1};
    if ((flags & SFT_CUDA_DL_BYTES) != 0) {
        return SFT_OK;
    }
    if (dl_code(p->dtype, &out->code)) {
        out->bits = (uint8_t)sft_dtype_bits(p->dtype);
        return SFT_OK;
    }
    return SFT_FAIL_TENSOR(err, SFT_E_UNSUPPORTED, p->tensor,
                           "DLPack has no code for type %s, ask for bytes", p->dtype->name);
}

/* Shape and strides in elements, row-major; numbers: 2 * rank entries. */
static bool fill_shape(int64_t *numbers, const uint64_t *shape, uint32_t rank) {
    uint64_t stride = 1;
    for (uint32_t d = rank; d-- > 0;) {
        if (shape[d] > (uint64_t)INT64_MAX || stride > (uint64_t)INT64_MAX) {
            return false;
        }
        numbers[d] = (int64_t)shape[d];
        numbers[rank + d] = (int64_t)stride;
        stride = shape[d] == 0                    ? stride
                 : stride > UINT64_MAX / shape[d] ? UINT64_MAX
                                                  : stride * shape[d];
    }
    return true;
}

static sft_status export_item(exported **out, sft_dl_tensor *t, const sft_cuda_loaded *loaded,
                              size_t index, uint32_t flags, sft_error *err) {
    exported *e;

    if (loaded == NULL || (flags & ~SFT_CUDA_DL_BYTES) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "loaded is NULL, or flags are not among the known");
    }
    if (index >= loaded->plan.place_count) {
        return sft__base_fail(err, SFT_E_RANGE, "item %llu was asked for, there are %llu",
                              (unsigned long long)index,
                              (unsigned long long)loaded->plan.place_count);
    }
    const sft__cuda_place *p = &loaded->plan.places[index];
    const bool bytes = (flags & SFT_CUDA_DL_BYTES) != 0;
    const uint32_t rank = bytes ? 1 : p->rank;
    const size_t size = sizeof *e + 2u * rank * sizeof e->numbers[0];
    memset(t, 0, sizeof *t);
    SFT_TRY(find_type(&t->dtype, p, flags, err));
    e = sft__base_alloc_zero(loaded->allocator, size);
    SFT_NEED(e != NULL, size, err);
    if (!fill_shape(e->numbers, bytes ? &p->nbytes : p->shape, rank)) {
        sft__base_free(loaded->allocator, e, size);
        return sft__base_fail(err, SFT_E_SHAPE, "the shape is beyond the 63 bits of DLPack");
    }
    e->allocator = loaded->allocator;
    e->slab = loaded->slab;
    e->size = size;
    sft__cuda_slab_keep(e->slab);
    t->data = p->nbytes > 0 ? (void *)(uintptr_t)(loaded->slab->address + p->offset) : NULL;
    t->device = (sft_dl_device){SFT_DL_CUDA, (int32_t)loaded->slab->cuda->ordinal};
    t->ndim = (int32_t)rank;
    t->shape = e->numbers;
    t->strides = e->numbers + rank;
    *out = e;
    return SFT_OK;
}

sft_status sft_cuda_loaded_dlpack(sft_dl_managed **out, const sft_cuda_loaded *loaded, size_t index,
                                  uint32_t flags, sft_error *err) {
    exported *e = NULL;
    sft_dl_tensor t;

    SFT_OUT(out, err);
    SFT_TRY(export_item(&e, &t, loaded, index, flags, err));
    e->managed.now = (sft_dl_managed){{SFT_DL_MAJOR, SFT_DL_MINOR}, e, delete_now, 0, t};
    *out = &e->managed.now;
    return SFT_OK;
}

sft_status sft_cuda_loaded_dlpack_old(sft_dl_managed_old **out, const sft_cuda_loaded *loaded,
                                      size_t index, uint32_t flags, sft_error *err) {
    exported *e = NULL;
    sft_dl_tensor t;

    SFT_OUT(out, err);
    SFT_TRY(export_item(&e, &t, loaded, index, flags, err));
    e->managed.old = (sft_dl_managed_old){t, e, delete_old};
    *out = &e->managed.old;
    return SFT_OK;
}
