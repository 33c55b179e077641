/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/address.c - see address.h: the ranges, and the rule for redirects.
 */
#include "remote/http/address.h"
#include <string.h>

typedef struct network {
    uint8_t prefix[4];
    uint8_t bits;
    uint8_t reach;
} network;

static const network networks[] = {
    {{0, 0, 0, 0}, 8, SFT__REACH_SELF},        {{127, 0, 0, 0}, 8, SFT__REACH_SELF},
    {{169, 254, 0, 0}, 16, SFT__REACH_LINK},   {{10, 0, 0, 0}, 8, SFT__REACH_PRIVATE},
    {{100, 64, 0, 0}, 10, SFT__REACH_PRIVATE}, {{172, 16, 0, 0}, 12, SFT__REACH_PRIVATE},
    {{192, 0, 0, 0}, 24, SFT__REACH_PRIVATE},  {{192, 168, 0, 0}, 16, SFT__REACH_PRIVATE},
    {{198, 18, 0, 0}, 15, SFT__REACH_PRIVATE}, {{224, 0, 0, 0}, 4, SFT__REACH_PRIVATE},
    {{240, 0, 0, 0}, 4, SFT__REACH_PRIVATE},
};

static bool inside(const uint8_t *bytes, const uint8_t *prefix, unsigned bits) {
    const unsigned whole = bits / 8;
    const unsigned rest = bits % 8;

    return memcmp(bytes, prefix, whole) == 0 &&
           (rest == 0 || (uint8_t)((bytes[whole] ^ prefix[whole]) >> (8 - rest)) == 0);
}

static sft__remote_reach reach_4(const uint8_t *bytes) {
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        if (inside(bytes, networks[i].prefix, networks[i].bits)) {
            return (sft__remote_reach)networks[i].reach;
        }
    }
    return SFT__REACH_PUBLIC;
}

static sft__remote_reach reach_6(const uint8_t *b) {
    static const uint8_t zero[16] = {0};
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t translated[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0};
    static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};

    if (memcmp(b, zero, 15) == 0 && b[15] <= 1) { /* :: and ::1 */
        return SFT__REACH_SELF;
    }
    if (memcmp(b, mapped, 12) == 0 || memcmp(b, zero, 12) == 0 || memcmp(b, nat64, 12) == 0 ||
        memcmp(b, translated, 12) == 0) {
        return reach_4(b + 12);
    }
    if (b[0] == 0x20 && b[1] == 0x02) { /* 6to4 */
        return reach_4(b + 2);
    }
    if (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) {
        return SFT__REACH_LINK;
    }
    /* Everything that is routed begins with 001 or is NAT64; the rest is local, multicast or
     * reserved. */
    return (b[0] & 0xe0) == 0x20 ? SFT__REACH_PUBLIC : SFT__REACH_PRIVATE;
}

sft__remote_reach sft__remote_reach_of(const uint8_t *bytes, size_t len) {
    return len == 4 ? reach_4(bytes) : len == 16 ? reach_6(bytes) : SFT__REACH_SELF;
}

const char *sft__remote_reach_refusal(sft__remote_reach from, sft__remote_reach to) {
    if (from == SFT__REACH_SELF || to == SFT__REACH_PUBLIC) {
        return NULL;
    }
    if (to == SFT__REACH_SELF) {
        return "it leads to this machine";
    }
    if (to == SFT__REACH_LINK && from != SFT__REACH_LINK) {
        return "it leads to a link-local address";
    }
    if (from == SFT__REACH_PUBLIC) {
        return "it leads from a public address to a private one";
    }
    return NULL;
}
