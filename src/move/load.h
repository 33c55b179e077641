/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load.h - a load on its way: load.c plans and carries it out, load_choose.c finds out how
 * each file is best read. Read first: <sft/load.h>, io/probe.h.
 */
#ifndef SFT_MOVE_LOAD_H
#define SFT_MOVE_LOAD_H

#include "base/error.h"
#include "io/probe.h"
#include <sft/extend.h>
#include <sft/load.h>
#include <stdatomic.h>

/* Small in the tests' build, so that small files come everywhere. */
#ifdef SFT_UNIT
#define SFT__LOAD_JOB    ((uint64_t)64 << 10)
#define SFT__LOAD_DIRECT ((uint64_t)128 << 10)
#else
#define SFT__LOAD_JOB    ((uint64_t)8 << 20) /* bytes of one job for the pool */
#define SFT__LOAD_DIRECT ((uint64_t)64 << 20)
#endif
#define SFT__LOAD_GAP        ((uint64_t)64 << 10)
#define SFT__LOAD_GAP_REMOTE ((uint64_t)1 << 20)

/* One source of the catalog. */
typedef struct sft__load_source {
    sft_strategy_choice choice;
    uint64_t wanted; /* bytes of it */
    sft__stamp stamp;
    bool stamped;
    int direct;          /* descriptor, or -1 */
    atomic_bool refused; /* a direct read did not come through */
} sft__load_source;

/* Fills choice; opens `direct` if that is DIRECT. aligned: tensors are read one by one. */
void sft__load_choose(sft__load_source *s, const sft_source *source, sft_strategy wanted,
                      bool aligned);

#endif
