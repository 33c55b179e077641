/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/real.h - 64-bit floating-point numbers as text and back, exactly, whatever the locale.
 */
#ifndef SFT_BASE_REAL_H
#define SFT_BASE_REAL_H

#include "base/compiler.h"

/* The shortest decimal that reads back equal ("0.1", "1e-05", "3.0"), "nan", "inf" or "-inf".
 * NUL-terminated. */
#define SFT__REAL_ROOM 32
void sft__base_real_print(char out[SFT__REAL_ROOM], double value);
/* All of the text is one number, rounded to the nearest (to even where two are as near). False: it is
 * none, or has more than 800 digits. */
bool sft__base_real_parse(const char *text, size_t len, double *out);

#endif
