/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/npy.h - the header of numpy's .npy files (numpy.lib.format, version 1.0).
 */
#ifndef SFT_CLI_NPY_H
#define SFT_CLI_NPY_H

#include <sft/dtype.h>
#include <stdbool.h>
#include <stddef.h>

/* numpy's name for a dtype: "<f4", "|b1"; "|V2" for BF16 and "|V1" for the 8-bit floats, which
 * numpy alone does not know (view them as ml_dtypes' types). NULL for types that do not fill bytes.
 */
const char *cli_npy_descr(const sft_dtype *dtype);

/* Makes the header; *size is its length, a multiple of 64. Owned by the caller (free). NULL if the
 * dtype has no descr. */
char *cli_npy_header(const sft_dtype *dtype, const uint64_t *shape, uint32_t rank, size_t *size);

#endif
