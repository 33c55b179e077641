/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/unpack_step.h - one decompressor of any kind, a step at a time. Read first:
 * unpack.h.
 */
#ifndef SFT_IMPORT_UNPACK_STEP_H
#define SFT_IMPORT_UNPACK_STEP_H

#include "import/archive/unpack.h"

typedef enum sft__step_result {
    SFT__STEP_GO = 0,
    SFT__STEP_END,
    SFT__STEP_BAD,
    SFT__STEP_NOMEM
} sft__step_result;

typedef struct sft__stepper sft__stepper;

sft__stepper *sft__step_create(sft__pack pack,
                               const sft_allocator *allocator); /* NULL: no memory */
void sft__step_free(sft__stepper *s);
/* Begins another stream of the same kind; false: no memory. */
bool sft__step_restart(sft__stepper *s);
/* From in[0, *used = in_len) to out[0, *got = room): both are set to what was used and made. END:
 * the stream is over; what lies behind it was not used. last: no input follows. */
sft__step_result sft__step(sft__stepper *s, const uint8_t *in, size_t in_len, size_t *used,
                           uint8_t *out, size_t room, size_t *got, bool last);

#endif
