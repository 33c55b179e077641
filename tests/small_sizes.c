/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/small_sizes.c - in the place of src/base/sizes.c: pieces so small that the tests' files take every
 * way.
 */
#include "base/sizes.h"

const sft__base_sizes sft__base_size = {
    .load_job = UINT64_C(64) << 10,
    .load_direct = UINT64_C(128) << 10,
    .load_file = UINT64_C(96) << 10,
    .load_span = UINT64_C(32) << 10,
    .load_block = UINT64_C(12) << 10,
    .load_bounce = UINT64_C(20) << 10,
    .load_batch = UINT64_C(256) << 10,
    .direct_file = UINT64_C(128) << 10,
    .direct_part = UINT64_C(64) << 10,
    .job_unit = UINT64_C(200) << 10,
    .job_block = UINT64_C(48) << 10,
    .job_band = UINT64_C(64) << 10,
    .job_long = UINT64_C(16) << 10,
    .job_direct = UINT64_C(100) << 10,
};
