/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/unpack_step.h - one decompressor of any kind, a step at a time. Read first:
 * unpack.h.
 */
#ifndef SFT_IMPORT_UNPACK_STEP_H
#define SFT_IMPORT_UNPACK_STEP_H

#include "import/archive/unpack.h"

typedef enum sft__import_step_result {
    SFT__STEP_GO = 0,
    SFT__STEP_END,
    SFT__STEP_BAD,
    SFT__STEP_NOMEM
} sft__import_step_result;

typedef struct sft__import_stepper sft__import_stepper;

sft__import_stepper *sft__import_step_create(sft__import_pack pack,
                                             const sft_allocator *allocator); /* NULL: no memory */
void sft__import_step_free(sft__import_stepper *s);
/* Begins another stream of the same kind; false: no memory. */
bool sft__import_step_restart(sft__import_stepper *s);
/* Bytes that go in, and room for those that come out. */
typedef struct sft__import_step_bytes {
    const uint8_t *in;
    size_t used; /* there are so many; after a step: so many were used */
    uint8_t *out;
    size_t got; /* there is room for so many; after a step: so many were made */
    bool last;  /* no input follows */
} sft__import_step_bytes;

/* END: the stream is over; what lies behind it was not used. */
sft__import_step_result sft__import_step(sft__import_stepper *s, sft__import_step_bytes *b);

#endif
