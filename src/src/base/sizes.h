/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/sizes.h - how large the pieces are in which bytes are read, written and copied, and from which sizes
 * on another way is worth it. One constant table, in a file of its own: a program that links the static
 * library may define it instead. The tests do, with small numbers, so that small files take every way.
 */
#ifndef SFT_BASE_SIZES_H
#define SFT_BASE_SIZES_H

#include "base/compiler.h"

/* All in bytes. */
typedef struct sft__base_sizes {
    /* loads and streams */
    uint64_t load_job;    /* of one job for the pool */
    uint64_t load_direct; /* in all, to be worth a direct read */
    uint64_t load_file;   /* of one file, likewise */
    uint64_t load_span;   /* of one move, likewise */
    uint64_t load_block;  /* stays in a core's cache between two kernels */
    uint64_t load_bounce; /* read directly at a time, where it is not the place */
    uint64_t load_batch;  /* asked of a source at once */
    /* writes past the cache; smaller files and writes go through it */
    uint64_t direct_file;
    uint64_t direct_part;
    /* jobs that write many files */
    uint64_t job_unit;   /* of one share of work */
    uint64_t job_block;  /* of a run copied at once: in a core's cache */
    uint64_t job_band;   /* of a band, sources and targets */
    uint64_t job_long;   /* runs of so many bytes are copied one by one */
    uint64_t job_direct; /* parts of runs that the kernel copies */
} sft__base_sizes;

extern const sft__base_sizes sft__base_size;

#endif
