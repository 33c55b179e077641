/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/npy.h - the header of numpy's .npy files (numpy.lib.format, version 1.0).
 */
#ifndef SFT_CLI_NPY_H
#define SFT_CLI_NPY_H

#include <sft/dtype.h>
#include <stdbool.h>
#include <stddef.h>

/* Makes the header; *size is its length, a multiple of 64. Owned by the caller (free). NULL if the
 * dtype has no descr. */
char *cli_npy_header(const sft_dtype *dtype, const uint64_t *shape, uint32_t rank, size_t *size);

#endif
