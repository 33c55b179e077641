/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/digest.c - the public digests of bytes: choice of the twin, and SHA-256's buffering and
 * padding. Read first: digest_twins.h.
 */
#include "move/kernels/digest_twins.h"

sft__move_crc32c_fn *sft__move_crc32c_for(uint32_t cpu) {
    const uint32_t clmul = SFT__CPU_CRC32 | SFT__CPU_CLMUL;
    const uint32_t clmul_256 = clmul | SFT__CPU_AVX2 | SFT__CPU_VPCLMUL;

    if ((cpu & SFT__CPU_CRC32) == 0) {
        return sft__move_crc32c_portable;
    }
    if (SFT__ARM_CRC) {
        return sft__move_crc32c_arm;
    }
    if ((cpu & clmul_256) == clmul_256) {
        return (cpu & SFT__CPU_AVX512) != 0 ? sft__move_crc32c_clmul_512
                                            : sft__move_crc32c_clmul_256;
    }
    return (cpu & clmul) == clmul ? sft__move_crc32c_clmul : sft__move_crc32c_x86;
}

uint32_t sft__move_crc32c(uint32_t cpu, uint32_t crc, const void *data, size_t size) {
    return ~sft__move_crc32c_for(cpu)(~crc, data, size);
}

uint32_t sft_crc32c(uint32_t crc, const void *data, size_t size) {
    return sft__move_crc32c(sft__base_cpu_features(), crc, data, size);
}

static void sha_blocks(uint32_t cpu, uint32_t state[8], const void *blocks, size_t count) {
    if ((cpu & SFT__CPU_SHA) != 0) {
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
    s->without = 0;
}

void sft__move_sha256_update(uint32_t cpu, sft_sha256 *s, const void *data, size_t size) {
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
        sha_blocks(cpu, s->state, s->block, 1);
        p += take;
        size -= take;
    }
    sha_blocks(cpu, s->state, p, size / 64);
    if (size % 64 != 0) {
        memcpy(s->block, p + (size - size % 64), size % 64);
    }
}

void sft__move_sha256_final(uint32_t cpu, sft_sha256 *s, uint8_t digest[32]) {
    const uint64_t bits = s->bytes * 8; /* FIPS 180-4 allows 2^64 - 1 bits */
    const size_t held = (size_t)(s->bytes % 64);
    uint8_t tail[128] = {0};
    const size_t tail_size = held < 56 ? 64 : 128;

    memcpy(tail, s->block, held);
    tail[held] = 0x80;
    for (size_t i = 0; i < 8; i++) {
        tail[tail_size - 1 - i] = (uint8_t)(bits >> (8 * i));
    }
    sha_blocks(cpu, s->state, tail, tail_size / 64);
    for (size_t i = 0; i < 32; i++) {
        digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void sft_sha256_update(sft_sha256 *s, const void *data, size_t size) {
    sft__move_sha256_update(sft__base_cpu_features() & ~s->without, s, data, size);
}

void sft_sha256_final(sft_sha256 *s, uint8_t digest[32]) {
    sft__move_sha256_final(sft__base_cpu_features() & ~s->without, s, digest);
}
