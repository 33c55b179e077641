/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/stream.h - a stream on its way: stream_plan.c turns what was added into runs, stream.c reads
 * them ahead and hands them out. A run is read as a whole into a block of the budget, and its block
 * comes free as a whole. Read first: <sft/stream.h>, move/load/load.h.
 */
#ifndef SFT_MOVE_STREAM_H
#define SFT_MOVE_STREAM_H

#include "base/thread/pool.h"
#include "move/load/load.h"
#include "move/load/recorded.h"
#include "move/watch.h"
#include <sft/stream.h>

/* What was added. */
typedef struct sft__move_want {
    const sft_tensor *tensor;
    sft_read_options *read; /* a copy with its arrays behind it; NULL: all of it as it is */
    size_t read_size;
    void *dst; /* NULL: the stream's memory */
    size_t dst_size;
    uint64_t nbytes;  /* of the result, packed */
    size_t index;     /* in the order of adding */
    uint64_t checked; /* bytes handed out that crc counts, if it is to be compared */
    uint32_t crc;
} sft__move_want;

typedef enum sft__move_run_kind {
    SFT__RUN_EMPTY = 0, /* tensors of no bytes */
    SFT__RUN_RANGE, /* bytes [begin, end) of a source: neighbours, one tensor, or a part of one */
    SFT__RUN_VIEW,  /* one tensor that takes more than copying a range */
    SFT__RUN_TOO_LARGE /* for the budget */
} sft__move_run_kind;

typedef struct sft__move_run {
    uint64_t begin;
    uint64_t end;
    uint64_t room;               /* bytes of the budget */
    uint64_t at;                 /* of its block */
    struct sft__move_run *above; /* the next block by address, while it has one */
    struct sft__move_run *next;  /* among those that arrived */
    size_t first;                /* of its wants */
    size_t count;                /* of them, at least 1 */
    size_t given;                /* of those, how many were asked for */
    size_t held;                 /* items that keep its block */
    uint32_t source;
    uint32_t jobs;      /* in all */
    uint32_t jobs_left; /* not done */
    uint32_t crc;       /* of its one want: its share, to be added by XOR */
    uint8_t kind;       /* sft__move_run_kind */
    bool failed;        /* some of it could not be read */
} sft__move_run;

struct sft_stream {
    const sft_allocator *allocator;
    const sft_catalog *catalog;
    sft_stream_options options;
    sft__move_want *wants; /* from the start on in the order of reading */
    size_t want_count;
    size_t want_capacity;
    sft__move_run *runs;
    size_t run_count;
    size_t run_capacity;
    sft__io_reader *sources;
    size_t source_count;
    sft__move_recorded *recorded; /* per tensor of the catalog; NULL: nothing to compare */
    uint64_t bytes;               /* of all results */
    uint64_t cap; /* bytes up to which neighbours are read together, and of a part */
    sft_arena *own;
    uint8_t *memory;
    uint64_t size; /* of memory: the budget, or all that is wanted if that is less */
    bool serial;   /* a source reads in order only: one job at a time */
    bool started;
    _Alignas(16) uint8_t nothing[16]; /* where tensors of no bytes lie */
    sft__move_watch watch;
    sft__base_batch batch;
    /* the rest under the lock */
    sft__base_mutex lock;
    sft__base_cond changed;
    sft__move_run *blocks;  /* by address */
    sft__move_run *arrived; /* ANY: read, not yet handed out, first come first */
    sft__move_run **arrived_end;
    uint64_t used;
    uint64_t peak;
    size_t admitted;  /* runs that have their block */
    size_t delivered; /* runs that were handed out; ordered: the first ones */
    size_t job_run;   /* the next job to be taken */
    uint32_t job;
    size_t running; /* jobs, and second attempts */
    bool stopped;   /* cancelled */
    bool ended;     /* by a failure, or closing */
};

/* Wants to runs, memory, sources. */
sft_status sft__move_stream_plan(sft_stream *s, sft_error *err);
/* Packed as it is in one place: a range of a source. */
bool sft__move_want_plain(const sft__move_want *w);

#endif
