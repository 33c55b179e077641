/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/flax/flax_types.h - element types by the names that numpy and ml_dtypes give them. Read
 * first: wire.h.
 */
#ifndef SFT_IMPORT_FLAX_TYPES_H
#define SFT_IMPORT_FLAX_TYPES_H

#include "import/core/wire.h"

/* How elements of less than a byte, which ml_dtypes keeps one to a byte, are given. */
enum { SFT__FLAX_PLAIN, SFT__FLAX_SIGNED, SFT__FLAX_PAIRS, SFT__FLAX_BYTES };

typedef struct sft__import_flax_type {
    const char *name;
    uint16_t dtype;
    uint8_t form; /* SFT__FLAX_*: as it is; I8 of `bits`; two to a byte; bytes with a note */
    uint8_t bits;
} sft__import_flax_type;

/* NULL: no such type. */
const sft__import_flax_type *sft__import_flax_type_get(const char *name);
/* The type that a tensor of these runs has in the catalog; the runs become those of it. What is not
 * the type itself is a note and metadata "flax:NAME". */
sft_status sft__import_flax_take(sft__import *job, const sft__import_flax_type *type, sft_tensor *t,
                                 sft__import_run *runs, size_t count, sft_error *err);

#endif
