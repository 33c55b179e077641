/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/sizes.c - see sizes.h. Nothing else may be defined here: who brings a table of their own takes this
 * file's place.
 */
#include "base/sizes.h"

#ifndef SFT_OWN_SIZES
const sft__base_sizes sft__base_size = {
    .load_job = UINT64_C(8) << 20,
    .load_direct = UINT64_C(64) << 20,
    .load_file = UINT64_C(1) << 20,
    .load_span = UINT64_C(1) << 20,
    .load_block = UINT64_C(256) << 10,
    .load_bounce = UINT64_C(4) << 20,
    .load_batch = UINT64_C(64) << 20,
    .direct_file = UINT64_C(64) << 20,
    .direct_part = UINT64_C(1) << 20,
    .job_unit = UINT64_C(16) << 20,
    .job_block = UINT64_C(512) << 10,
    .job_band = UINT64_C(2) << 20,
    .job_long = UINT64_C(256) << 10,
    .job_direct = UINT64_C(1) << 20,
};
#endif
