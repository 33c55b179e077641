/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/digest.c - the public digests of bytes: choice of the twin, and SHA-256's buffering and
 * padding. Read first: digest_twins.h.
 */
#include "move/kernels/digest_twins.h"
#include <sft/digest.h>

uint32_t sft_crc32c(uint32_t crc, const void *data, size_t size) {
    const uint32_t cpu = sft__move_cpu_features();

    if ((cpu & SFT__CPU_CLMUL512) != 0) {
        return ~sft__move_crc32c_wide(~crc, data, size);
    }
    if ((cpu & SFT__CPU_CRC32C) == 0) {
        return ~sft__move_crc32c_portable(~crc, data, size);
    }
    return SFT__ARM_CRC ? ~sft__move_crc32c_arm(~crc, data, size)
                        : ~sft__move_crc32c_x86(~crc, data, size);
}

static void sha_blocks(uint32_t state[8], const void *blocks, size_t count) {
    if ((sft__move_cpu_features() & SFT__CPU_SHA) != 0) {
        sft__move_sha256_x86(state, blocks, count);
    } else {
        sft__move_sha256_portable(state, blocks, count);
    }
}

void sft_sha256_init(sft_sha256 *s) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, initial, sizeof initial);
    memset(s->block, 0, sizeof s->block);
    s->bytes = 0;
}

void sft_sha256_update(sft_sha256 *s, const void *data, size_t size) {
    const uint8_t *p = data;
    const size_t held = (size_t)(s->bytes % 64);

    if (size == 0) {
        return;
    }
    s->bytes += size;
    if (held != 0) {
        const size_t room = 64 - held;
        const size_t take = size < room ? size : room;
        memcpy(s->block + held, p, take);
        if (take < room) {
            return;
        }
        sha_blocks(s->state, s->block, 1);
        p += take;
        size -= take;
    }
    sha_blocks(s->state, p, size / 64);
    if (size % 64 != 0) {
        memcpy(s->block, p + (size - size % 64), size % 64);
    }
}

void sft_sha256_final(sft_sha256 *s, uint8_t digest[32]) {
    const uint64_t bits = s->bytes * 8; /* FIPS 180-4 allows 2^64 - 1 bits */
    const size_t held = (size_t)(s->bytes % 64);
    uint8_t tail[128] = {0};
    const size_t tail_size = held < 56 ? 64 : 128;

    memcpy(tail, s->block, held);
    tail[held] = 0x80;
    for (size_t i = 0; i < 8; i++) {
        tail[tail_size - 1 - i] = (uint8_t)(bits >> (8 * i));
    }
    sha_blocks(s->state, tail, tail_size / 64);
    for (size_t i = 0; i < 32; i++) {
        digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}
