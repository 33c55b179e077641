/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/beside.c - which names a file may give to others beside it. Read first: beside.h.
 */
#include "import/core/beside.h"

bool sft__beside_is_good(const char *location, size_t len) {
    size_t part = 0;
    bool named = false;

    if (len == 0 || len >= SFT__BESIDE_PATH || location[0] == '/' ||
        (len > 1 && location[1] == ':')) {
        return false;
    }
    for (size_t i = 0; i <= len; i++) {
        if (i < len && (location[i] == '\0' || location[i] == '\\')) {
            return false;
        }
        if (i < len && location[i] != '/') {
            continue;
        }
        const size_t n = i - part;
        if (n == 0 || (n == 2 && location[part] == '.' && location[part + 1] == '.')) {
            return false;
        }
        named = !(n == 1 && location[part] == '.');
        part = i + 1;
    }
    return named;
}
