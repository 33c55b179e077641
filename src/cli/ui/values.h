/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/values.h - numbers and arrays of numbers as text: shortest forms that read back in their own
 * type, arrays as numpy prints them. Read view.h first.
 */
#ifndef SFT_CLI_VALUES_H
#define SFT_CLI_VALUES_H

#include "cli/look/view.h"

/* The type itself; of complex numbers that of their two parts. */
const sft_dtype *cli_number_type(const sft_dtype *t);

/* The shortest decimal that, rounded to the type, is the value again: "0.1", "nan", "-inf", "3.0".
 * dtype NULL: F64. Returns text. */
const char *cli_real_text(char text[48], double value, const sft_dtype *dtype);

/* One element: `data` is packed little-endian of the type; types of less than a byte come as a host
 * double. */
enum { CLI_ELEMENT_TEXT = 104 };
const char *cli_element_text(char text[CLI_ELEMENT_TEXT], const sft_dtype *dtype, const void *data);

/* The values of a view. all: every one; else at most 1,000, or the outermost three of each
 * dimension. False: reported. */
bool cli_print_values(cli *c, const char *file, const cli_view *view, bool all);
/* A flat JSON array of all of them in row-major order; NaN and infinities are strings as in Python.
 */
bool cli_json_values(cli *c, const char *file, cli_json *j, const cli_view *view);
/* One element, as cli_element_text takes it. */
void cli_json_element(cli_json *j, const sft_dtype *dtype, const void *data);

#endif
