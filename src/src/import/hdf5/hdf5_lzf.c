/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/hdf5/hdf5_lzf.c - LZF, which h5py compresses chunks with (filter 32000). A byte below 32 is
 * followed by one literal byte more than it says. Any other says how much of what came out before
 * is repeated: two bytes more than its upper three bits, 7 adds the next byte; the lower five bits
 * and the byte behind are how far back, less one. Source: liblzf's documentation of its format, h5py
 * "LZF filter". Read first: hdf5.h.
 */
#include "import/hdf5/hdf5.h"

enum { LITERALS = 32, LONG = 7, SHORTEST = 2 };

bool sft__import_h5_unlzf(const uint8_t *src, size_t n, uint8_t *dst, size_t room, size_t *out) {
    const uint8_t *end = src + n;
    size_t at = 0;

    while (src < end) {
        const size_t control = *src++;
        if (control < LITERALS) {
            const size_t run = control + 1;
            if (run > (size_t)(end - src) || run > room - at) { /* at <= room */
                return false;
            }
            memcpy(dst + at, src, run);
            src += run;
            at += run;
            continue;
        }
        size_t run = control >> 5;
        if (run == LONG && src < end) {
            run += *src++;
        }
        if (src == end) {
            return false;
        }
        const size_t back = ((control & 31) << 8 | *src++) + 1;
        run += SHORTEST;
        if (back > at || run > room - at) {
            return false;
        }
        for (; run > 0; run--, at++) { /* may repeat what it has just written */
            dst[at] = dst[at - back];
        }
    }
    *out = at;
    return true;
}
