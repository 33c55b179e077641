/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/nonfinite.h - counts what is no finite number.
 */
#ifndef SFT_MOVE_KERNELS_NONFINITE_H
#define SFT_MOVE_KERNELS_NONFINITE_H

#include <sft/dtype.h>

/* NaN and infinities among whole elements of a type of the format; adds to both. */
void sft__move_nonfinite_count(const sft_dtype *dtype, const void *data, size_t size,
                               uint64_t *nans, uint64_t *infinities);

#endif
