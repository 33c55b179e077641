/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/letters.h - the kinds of letters that the rules for texts tell apart.
 */
#ifndef SFT_IMPORT_LETTERS_H
#define SFT_IMPORT_LETTERS_H

#include "base/text/utf8.h"
#include <stdbool.h>

static inline bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static inline bool is_small(char c) {
    return c >= 'a' && c <= 'z';
}

static inline bool is_big(char c) {
    return c >= 'A' && c <= 'Z';
}

static inline char lower(char c) {
    return is_big(c) ? (char)(c | 0x20) : c;
}

/* Names of Python begin so. */
static inline bool is_letter(char c) {
    return is_small(c) || is_big(c) || c == '_' || (c & 0x80) != 0;
}

/* Of a word in ASCII. */
static inline bool is_word(char c) {
    return is_small(c) || is_big(c) || sft__base_is_digit(c) || c == '_';
}

#endif
