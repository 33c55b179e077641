/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/version.c - the version, and the helper behind SFT_INIT.
 */
#include "base/compiler.h"
#include <sft/types.h>

const char *sft_version(void) {
    return SFT_VERSION_STRING;
}

void sft_zero(void *p, size_t size) {
    memset(p, 0, size);
}
