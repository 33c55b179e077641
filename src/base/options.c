/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/options.c - see options.h: the one reader of structures that callers compiled against another version
 * of the headers hand over.
 */
#include "base/options.h"
#include "base/compiler.h"

sft_status sft__base_options_read(void *out, size_t size, const void *given, size_t least,
                                  const char *what, sft_error *err) {
    size_t have = 0;

    memset(out, 0, size);
    if (given != NULL) {
        memcpy(&have, given, sizeof have);
        if (have < least) {
            return sft__base_fail(err, SFT_E_ARG, "%s without struct_size: use SFT_INIT", what);
        }
        memcpy(out, given, have < size ? have : size);
    }
    memcpy(out, &size, sizeof size);
    return SFT_OK;
}

sft_status sft__base_result_check(const void *result, size_t least, sft_error *err) {
    size_t have = least;

    if (result != NULL) {
        memcpy(&have, result, sizeof have);
    }
    return have >= least
               ? SFT_OK
               : sft__base_fail(err, SFT_E_ARG, "result without struct_size: use SFT_INIT");
}

void sft__base_result_write(void *out, const void *full, size_t size) {
    size_t have = 0;

    memcpy(&have, out, sizeof have);
    if (have > sizeof have) {
        memcpy((char *)out + sizeof have, (const char *)full + sizeof have,
               (have < size ? have : size) - sizeof have);
    }
}
