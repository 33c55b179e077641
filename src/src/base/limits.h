/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/limits.h - the caller's limits as this version of the library knows them, whatever header he
 * was compiled against. Defaults are filled in by whoever applies a limit.
 */
#ifndef SFT_BASE_LIMITS_H
#define SFT_BASE_LIMITS_H

#include "base/options.h"

/* given NULL: all zero. */
static inline sft_status sft__base_limits_read(sft_limits *out, const sft_limits *given,
                                               sft_error *err) {
    return sft__base_options_read(out, sizeof *out, given, SFT__UP_TO(sft_limits, header_bytes),
                                  "limits", err);
}

#endif
