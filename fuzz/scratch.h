/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/scratch.h - a directory of its own for a target whose input has to lie in a file: in memory,
 * where the system has such a place. Read fuzz.h first.
 */
#ifndef SFT_FUZZ_SCRATCH_H
#define SFT_FUZZ_SCRATCH_H

#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>

/* folder: room for 64 bytes. Removed by the caller. */
static void scratch_make(char folder[64]) {
    (void)snprintf(folder, 64, "/dev/shm/sft-fuzz-XXXXXX"); /* mkdtemp fills the letters in */
    if (mkdtemp(folder) == NULL) {
        (void)snprintf(folder, 64, "/tmp/sft-fuzz-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
    }
}

#endif
