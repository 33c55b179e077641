/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/utf8.c - see utf8.h. ASCII is skipped eight bytes at a time (the compiler makes vectors of the
 * inner loop); everything else goes through one table-free decoder.
 */
#include "base/text/utf8.h"

size_t sft__base_utf8_decode(const void *data, size_t len, uint32_t *code_point) {
    const uint8_t *p = data;
    const uint32_t b0 = p[0];
    uint32_t need;
    uint32_t low;
    uint32_t cp;

    if (b0 < 0x80) {
        *code_point = b0;
        return 1;
    }
    if (b0 < 0xc2) {
        return 0; /* continuation byte, or the overlong leads C0 and C1 */
    }
    if (b0 < 0xe0) {
        need = 2, low = 0x80, cp = b0 & 0x1f;
    } else if (b0 < 0xf0) {
        need = 3, low = 0x800, cp = b0 & 0x0f;
    } else if (b0 < 0xf5) {
        need = 4, low = 0x10000, cp = b0 & 0x07;
    } else {
        return 0;
    }
    if (len < need) {
        return 0;
    }
    for (uint32_t i = 1; i < need; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        cp = (cp << 6) | (p[i] & 0x3fu);
    }
    if (cp < low || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
        return 0;
    }
    *code_point = cp;
    return need;
}

size_t sft__base_utf8_valid(const void *data, size_t len) {
    const uint8_t *p = data;
    size_t at = 0;

    while (at < len) {
        while (len - at >= 32) {
            uint64_t w[4];
            memcpy(w, p + at, sizeof w);
            if (((w[0] | w[1] | w[2] | w[3]) & UINT64_C(0x8080808080808080)) != 0) {
                break;
            }
            at += 32;
        }
        /* Up to 32 bytes one by one, then try whole words again. */
        for (size_t stop = len - at > 32 ? at + 32 : len; at < stop;) {
            uint32_t cp;
            const size_t n = p[at] < 0x80 ? 1 : sft__base_utf8_decode(p + at, len - at, &cp);
            if (n == 0) {
                return at;
            }
            at += n;
        }
    }
    return at;
}

size_t sft__base_utf8_encode(char dst[4], uint32_t cp) {
    if (cp < 0x80) {
        dst[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        dst[0] = (char)(0xc0 | (cp >> 6));
        dst[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        dst[0] = (char)(0xe0 | (cp >> 12));
        dst[1] = (char)(0x80 | ((cp >> 6) & 0x3f));
        dst[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    dst[0] = (char)(0xf0 | (cp >> 18));
    dst[1] = (char)(0x80 | ((cp >> 12) & 0x3f));
    dst[2] = (char)(0x80 | ((cp >> 6) & 0x3f));
    dst[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

bool sft__base_utf8_deceptive(uint32_t cp) {
    return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0xad || cp == 0x61c || cp == 0x180e ||
           (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
           (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff || (cp >= 0xfff9 && cp <= 0xfffb) ||
           (cp >= 0xe0000 && cp <= 0xe007f);
}
