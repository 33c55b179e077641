/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/options.h - the caller's options as this version of the library knows them, whatever header
 * the caller was compiled against: what an older one does not have is zero, what a newer one adds
 * is not looked at. Limits are read so in base/limits.h.
 */
#ifndef SFT_BASE_OPTIONS_H
#define SFT_BASE_OPTIONS_H

#include "base/error.h"

/* Bytes of an options structure up to the end of a member: the least that any caller has. */
#define SFT__UP_TO(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))

/* given NULL: all zero. Both begin with their struct_size. least: what the first version had. what: for the
 * message. */
sft_status sft__base_options_read(void *out, size_t size, const void *given, size_t least,
                                  const char *what, sft_error *err);

/* The same of a result that the caller hands over to be filled; NULL is fine. */
sft_status sft__base_result_check(const void *result, size_t least, sft_error *err);

/* A result as much of it as the caller's structure has, whose struct_size stays. */
void sft__base_result_write(void *out, const void *full, size_t size);

#endif
