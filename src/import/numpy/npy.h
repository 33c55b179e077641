/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/numpy/npy.h - what the readers and the writer of numpy's formats share. Read first: import.h.
 */
#ifndef SFT_IMPORT_NPY_H
#define SFT_IMPORT_NPY_H

#include "import/core/import.h"

#define SFT__NPY_RANK_MAX 64 /* of numpy 2 */

/* An array, header first, at [offset, end) of `bytes`. */
typedef struct sft__import_npy {
    const sft_source *bytes;
    uint32_t source; /* of the builder */
    uint64_t offset;
    uint64_t end;
    const char *name;
    size_t name_len;
} sft__import_npy;

sft_status sft__import_npy_add(sft__import *job, const sft__import_npy *array, sft_error *err);

#endif
