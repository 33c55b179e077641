/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/limits.h - the caller's limits as this version of the library knows them, whatever header he
 * was compiled against. Defaults are filled in by whoever applies a limit.
 */
#ifndef SFT_BASE_LIMITS_H
#define SFT_BASE_LIMITS_H

#include "base/error.h"

/* given NULL: all zero. */
static inline sft_status sft__base_limits_read(sft_limits *out, const sft_limits *given,
                                               sft_error *err) {
    memset(out, 0, sizeof *out);
    if (given != NULL) {
        if (given->struct_size < offsetof(sft_limits, header_bytes) + sizeof given->header_bytes) {
            return sft__base_fail(err, SFT_E_ARG, "limits without struct_size: use SFT_INIT");
        }
        memcpy(out, given, given->struct_size < sizeof *out ? given->struct_size : sizeof *out);
    }
    out->struct_size = sizeof *out;
    return SFT_OK;
}

#endif
