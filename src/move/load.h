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

/* A range that lies in the source, in the way chosen. If that is DIRECT, dst equals offset modulo
 * SFT__DIRECT_ALIGN, and its pages belong to this read, odd ends included. */
sft_status sft__load_read(sft__load_source *s, const sft_source *source, uint64_t offset,
                          uint64_t size, uint8_t *dst, sft_error *err);

/* Takes down size and time; whether they differ since (false if not known). */
void sft__load_stamp(sft__load_source *s, const sft_source *source);
bool sft__load_changed(const sft__load_source *s, const sft_source *source);

/* How it is, or was, read, and why; s NULL, or nothing wanted of it: AUTO. reason may be NULL. */
sft_strategy sft__load_told(const sft__load_source *s, const char **reason);

#endif
