/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pickle/globals_std.h - see globals_std.c. Read first: globals.h.
 */
#ifndef SFT_IMPORT_GLOBALS_STD_H
#define SFT_IMPORT_GLOBALS_STD_H

#include <stddef.h>

extern const char *const sft__import_std_modules[];
extern const size_t sft__import_std_module_count;
extern const char *const sft__import_root_modules[];
extern const size_t sft__import_root_module_count;
extern const char *const sft__import_dangerous[];
extern const size_t sft__import_dangerous_count;

#endif
