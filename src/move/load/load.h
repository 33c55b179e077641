/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/load.h - a load on its way, in the order of its life: load.c reads the options and keeps the
 * results, load_plan.c cuts the work into jobs,
 * load_run.c carries one job out, load_facts.c sums up what was learned. Read first: <sft/load.h>,
 * io/reader.h, mover.h.
 */
#ifndef SFT_MOVE_LOAD_H
#define SFT_MOVE_LOAD_H

#include "base/sizes.h"
#include "io/reader.h"
#include "move/kernels/nonfinite.h"
#include "move/load/recorded.h"
#include "move/loop.h"
#include "move/read.h"

#define SFT__LOAD_GAP        ((uint64_t)64 << 10)
#define SFT__LOAD_GAP_REMOTE ((uint64_t)1 << 20)

/* Where one tensor of the catalog goes, and as what. */
typedef struct sft__move_load_slot {
    uint8_t *data; /* NULL: not wanted */
    uint64_t at;   /* in the arena's run; SFT__LOAD_FINAL: data is final */
    const sft_dtype *dtype;
} sft__move_load_slot;

#define SFT__LOAD_FINAL UINT64_MAX

/* What is to be learned of one tensor, and what was. */
typedef struct sft__move_load_fact {
    uint32_t want; /* SFT_DIGEST_*, SFT__FACT_SCAN */
    uint32_t verified;
    uint32_t crc;
    uint8_t sha[32];
    uint64_t nans;
    uint64_t infinities;
} sft__move_load_fact;

#define SFT__FACT_SCAN 256u

struct sft_loaded {
    const sft_allocator *allocator;
    const sft_catalog *catalog;
    sft_arena *own;
    sft__move_load_slot *slots; /* one per tensor */
    sft__move_load_fact *facts; /* the same, or NULL: nothing is to be learned */
    sft__io_reader *sources;
    size_t slot_count;
    size_t source_count;
    size_t count;
    size_t verified;
    uint64_t bytes;
};

/* The share of one tensor in one job: packed bytes [begin, begin + size) as they are in the file.
 */
typedef struct sft__move_load_part {
    size_t slot;
    uint64_t begin;
    uint64_t size;
    uint64_t nans;
    uint64_t infinities;
    uint32_t crc;
} sft__move_load_part;

typedef enum sft__move_load_kind {
    SFT__LOAD_BULK =
        0, /* lies in memory as in the file, gaps included; parts only if there are facts */
    SFT__LOAD_SCATTER, /* parts that follow each other in the file, each to its place */
    SFT__LOAD_THROUGH, /* through a buffer and a kernel */
    SFT__LOAD_TENSOR,  /* of a tensor that is not in one packed piece; offset is in the tensor */
    SFT__LOAD_MAPPED   /* lies where it is */
} sft__move_load_kind;

typedef struct sft__move_load_job {
    struct sft__move_load_job *next; /* in the list of those unseen */
    uint64_t offset;                 /* in the source */
    uint64_t size;
    uint64_t at; /* BULK: in the arena's run */
    size_t part;
    uint32_t part_count;
    uint32_t source;
    uint32_t kind;
    /* jobs that are done together with this one, itself included; 0: with one before */
    uint32_t batch;
} sft__move_load_job;

typedef struct sft__move_load {
    sft_loaded *loaded;
    const sft_load_options *options;
    sft__move_load_job *jobs;
    size_t job_count;
    size_t job_room;
    sft__move_load_part *parts;
    size_t part_count;
    size_t part_room;
    uint64_t total; /* bytes of the arena's run */
    uint8_t *base;
    sft__move_loop loop;
    atomic_flag touched; /* somebody sees to it that the run has its pages */
    /* under the lock: */
    sft__move_load_job *unseen; /* read, but digests and counts are not taken yet */
    uint32_t reading;           /* threads that do, of such jobs */
    sft__base_mutex lock;
} sft__move_load;

/* The source that a part of the catalog names. */
static inline const sft_source *sft__move_load_source_of(const sft__move_load *w, uint32_t index) {
    return sft_catalog_source_at(w->loaded->catalog, index);
}

/* Bytes of file that belong to whole elements on both sides of the slot's kernel; 1 where it does
 * not matter. */
uint64_t sft__move_load_unit(const sft__move_load *w, size_t slot);
/* sft__move_kernel from the tensor's type to the slot's. */
static inline uint32_t sft__move_load_kernel(const sft_load_options *o, const sft_tensor *t,
                                             const sft_dtype *dtype) {
    return sft__move_kernel_for(t->dtype, dtype, (o->flags & SFT_LOAD_HOST_ORDER) != 0);
}
/* Bytes that `bytes` of the tensor become. */
uint64_t sft__move_load_made(const sft_tensor *t, const sft_dtype *dtype, uint64_t bytes);

/* Fills jobs, parts, total, and the slots' places in the run. */
sft_status sft__move_load_plan(sft__move_load *w, sft_error *err);
/* Job `index` of the sft__move_load ctx: a block of its loop. base is set. */
sft_status sft__move_load_job_run(void *ctx, size_t index, sft_error *err);
/* What jobs left unseen, once all are done; ctx as there. */
sft_status sft__move_load_unseen_run(void *ctx, size_t index, sft_error *err);
/* Bytes of a buffer of the loop. */
size_t sft__move_load_buffer_size(void);

/* Decides what is to be learned; *recorded: one per tensor, the caller's to free, or NULL. */
sft_status sft__move_load_facts_want(sft__move_load *w, sft__move_recorded **recorded,
                                     sft_error *err);
/* Adds the parts up, when all jobs are done and slots are final; compares with what was recorded.
 */
sft_status sft__move_load_facts_sum(sft__move_load *w, const sft__move_recorded *recorded,
                                    sft_error *err);

#endif
