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

/* Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt (the same in 14.0 and 17.0), which
 * fonts show as nothing; controls; separators of lines and paragraphs; annotations; and the Braille
 * pattern that is blank. First and last, in their order. */
static const uint32_t deceptive[][2] = {
    {0x0000, 0x001f}, {0x007f, 0x009f}, {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c},
    {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x2800, 0x2800}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
    {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

bool sft__base_utf8_deceptive(uint32_t cp) {
    size_t low = 0;
    size_t high = sizeof deceptive / sizeof deceptive[0];

    while (low < high) { /* the first range that does not end below it */
        const size_t middle = (low + high) / 2;
        if (deceptive[middle][1] < cp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < sizeof deceptive / sizeof deceptive[0] && deceptive[low][0] <= cp;
}
