/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/thread/meter.h - progress and cancellation of one long operation, counted from any of its threads.
 */
#ifndef SFT_BASE_METER_H
#define SFT_BASE_METER_H

#include "base/error.h"
#include "base/thread/thread.h"

/* Between two looks at the meter an operation moves at most this many bytes. */
#define SFT__METER_STEP ((size_t)8 << 20)

typedef struct sft__base_meter {
    const sft_control *control; /* NULL: counts nothing */
    sft__base_mutex lock;
    sft_progress progress;
    uint64_t told; /* bytes_done at the last poll */
    bool cancelled;
} sft__base_meter;

/* *out: the caller's control if it wants to be asked, else NULL. SFT_E_ARG without a struct_size. */
sft_status sft__base_control_of(const sft_control *control, const sft_control **out,
                                sft_error *err);

/* SFT_E_NOMEM if the system has no lock to give. */
sft_status sft__base_meter_init(sft__base_meter *meter, const sft_control *control, uint64_t total,
                                sft_error *err);
void sft__base_meter_reset(sft__base_meter *meter);

/* Counts; polls when a step has gathered. SFT_E_CANCELLED from the first poll on that says so. */
sft_status sft__base_meter_add(sft__base_meter *meter, uint64_t bytes, sft_error *err);

#endif
