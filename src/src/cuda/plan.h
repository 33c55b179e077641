/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/plan.h - from a list of tensors and slices to places in a slab, and jobs that each fit one
 * chunk of the ring. Pure: reads nothing, knows no driver.
 */
#ifndef SFT_CUDA_PLAN_H
#define SFT_CUDA_PLAN_H

#include "base/error.h"
#include "base/memory/alloc.h"
#include <sft/cuda.h>
#include <sft/extend.h>

/* Where one item comes to lie. */
typedef struct sft__cuda_place {
    const sft_tensor *tensor;
    const sft_dtype *dtype; /* of the tensor, which may be gone when this is read */
    const sft_dim *dims;    /* of its slice, tensor->rank entries; NULL: whole */
    const uint64_t *shape;
    uint64_t offset; /* in the slab */
    uint64_t nbytes;
    uint64_t from; /* RANGE: in the source */
    uint32_t rank;
    uint32_t source; /* of its first piece */
    uint32_t kind;   /* sft__cuda_kind */
    uint32_t split;  /* BOX: the dimension that is cut */
} sft__cuda_place;

typedef enum sft__cuda_kind {
    SFT__CUDA_RANGE = 0, /* bytes of a source as they lie there */
    SFT__CUDA_BYTES = 1, /* packed bytes of a tensor that lies in pieces or strided */
    SFT__CUDA_BOX = 2    /* a strided slice */
} sft__cuda_kind;

/* One chunk: read it, then copy `copy_count` parts of it to the slab. */
typedef struct sft__cuda_job {
    uint64_t offset; /* RANGE: in the source; BYTES: in the packed tensor; BOX: index over the
                        dimensions before the split */
    uint64_t size;   /* bytes in the ring */
    uint64_t start;  /* BOX: first index in the split dimension */
    uint64_t count;  /* BOX: indices there */
    size_t place;    /* BYTES, BOX */
    size_t copy;
    size_t copy_count;
    uint32_t source;
    uint32_t kind;
} sft__cuda_job;

typedef struct sft__cuda_copy {
    uint64_t skew; /* in the chunk */
    uint64_t at;   /* in the slab */
    uint64_t size;
} sft__cuda_copy;

typedef struct sft__cuda_plan {
    const sft_allocator *allocator;
    const sft_catalog *catalog;
    sft__cuda_place *places; /* in the order of the items */
    size_t place_count;
    size_t *order; /* by source and offset */
    sft__cuda_job *jobs;
    size_t job_count;
    size_t job_capacity;
    sft__cuda_copy *copies;
    size_t copy_count;
    size_t copy_capacity;
    uint64_t *wanted; /* bytes per source */
    size_t source_count;
    uint64_t slab;         /* bytes */
    uint64_t bytes;        /* of the items */
    sft__base_arena arena; /* of shapes and dims */
} sft__cuda_plan;

/* Places. o: as read, with no field unknown and no default open. */
sft_status sft__cuda_plan_init(sft__cuda_plan *plan, const sft_catalog *catalog,
                               const sft_cuda_load_options *o, const sft_allocator *allocator,
                               sft_error *err);
/* Jobs of at most `chunk` bytes, a multiple of 4,096; those of one source in ascending order. */
sft_status sft__cuda_plan_jobs(sft__cuda_plan *plan, uint64_t chunk, sft_error *err);
/* The slices that read the box of `job`; slices: tensor->rank entries. */
void sft__cuda_plan_slices(const sft__cuda_place *place, const sft__cuda_job *job,
                           sft_slice *slices);
void sft__cuda_plan_trim(sft__cuda_plan *plan); /* gives up everything but the places */
void sft__cuda_plan_reset(sft__cuda_plan *plan);

#endif
