/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/decimal.h - numbers as decimal text, exactly and without a locale: what the tree of a
 * checkpoint (docs/tree.md) holds. Read first: docs/tree.md.
 */
#ifndef SFT_IMPORT_DECIMAL_H
#define SFT_IMPORT_DECIMAL_H

#include "base/text/buf.h"

enum {
    SFT__DECIMAL_ROOM = 32,     /* of a floating-point number, with its NUL */
    SFT__DECIMAL_DIGITS = 4000, /* of an integer: as many as readers take */
    SFT__DECIMAL_BYTES = 1664   /* of its two's complement */
};

/* The shortest decimal that reads back as the value: "0.1", "1e-05", "3.0", "nan", "-inf" (the form
 * of Python's repr). Source: Burger and Dybvig, Printing Floating-Point Numbers Quickly and
 * Accurately (1996), free-format. Returns its length. */
size_t sft__import_decimal_real(char dst[SFT__DECIMAL_ROOM], double value);
/* The nearest double, ties to even. false: not such a text, or more than 40 digits. */
bool sft__import_decimal_read(const char *text, size_t len, double *value);

/* Two's complement, little-endian, of at most SFT__DECIMAL_BYTES bytes, appended in decimal. */
bool sft__import_decimal_big(sft__base_buf *out, const uint8_t *bytes, size_t size);
/* The shortest two's complement of a decimal integer; false: no such text, or too long. */
bool sft__import_decimal_unbig(const char *text, size_t len, uint8_t bytes[SFT__DECIMAL_BYTES],
                               size_t *size);

#endif
