/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/likeness.h - which of many names a message is to call the nearest.
 */
#ifndef SFT_CHECKPOINT_LIKENESS_H
#define SFT_CHECKPOINT_LIKENESS_H

#include <stddef.h>

/* How much two names have in common: bytes at their begins, at their ends, and in a piece of their first
 * 80 bytes. At most three times the shorter one's. */
size_t sft__checkpoint_likeness(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
