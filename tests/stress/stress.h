/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/stress/stress.h - the little that the stress programs share.
 */
#ifndef SFT_TESTS_STRESS_H
#define SFT_TESTS_STRESS_H

#include <sft/extend.h>
#include <sft/sft.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define REQUIRE_OK(call, err)                                                                      \
    do {                                                                                           \
        const sft_status require_st = (call);                                                      \
        if (require_st != SFT_OK) {                                                                \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,                      \
                    sft_status_name(require_st), (err).message);                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A byte that depends on its place, so that a misplaced read shows. */
static inline uint8_t pattern(uint32_t tensor, uint64_t at) {
    const uint64_t v =
        (at + 1) * UINT64_C(0x9e3779b97f4a7c15) + tensor * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint8_t)(v >> 56);
}

#endif
