/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz.h - what every fuzz target includes: its entry point, and CHECK, which ends the program.
 */
#ifndef SFT_FUZZ_H
#define SFT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
