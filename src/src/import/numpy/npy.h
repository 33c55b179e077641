/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/numpy/npy.h - what the readers and the writer of numpy's formats share. Read first: import.h.
 */
#ifndef SFT_IMPORT_NPY_H
#define SFT_IMPORT_NPY_H

#include "import/core/import.h"

#define SFT__NPY_RANK_MAX 64 /* of numpy 2 */

/* Adds the array that lies, header first, at [offset, offset + size) of `bytes`, which is source
 * `source` of the builder. */
sft_status sft__import_npy_add(sft__import *job, const sft_source *bytes, uint32_t source,
                               uint64_t offset, uint64_t size, const char *name, size_t name_len,
                               sft_error *err);

#endif
