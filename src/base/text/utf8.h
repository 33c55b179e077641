/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/utf8.h - UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef SFT_BASE_UTF8_H
#define SFT_BASE_UTF8_H

#include "base/compiler.h"

/* Length of the longest valid prefix; len if all of it is valid. */
size_t sft__base_utf8_valid(const void *data, size_t len);

/* Decodes one character of at most len bytes (len >= 1): its length 1..4 and code point, or 0 if the bytes
 * at the start are not one. */
size_t sft__base_utf8_decode(const void *data, size_t len, uint32_t *code_point);

/* Writes 1 to 4 bytes; code_point must be a scalar value. */
size_t sft__base_utf8_encode(char dst[4], uint32_t code_point);

/* An ASCII digit? */
static inline bool sft__base_is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Characters that change how the rest of a line looks, or cannot be seen at all: controls, bidirectional
 * overrides, zero-width and separator characters, and the others that Unicode calls ignorable. */
bool sft__base_utf8_deceptive(uint32_t code_point);

#endif
