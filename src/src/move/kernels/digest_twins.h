/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_twins.h - the digests' inner loops: one signature each, a portable twin and hardware
 * twins that give the same result. digest.c chooses. A twin may only be called where move/cpu.h
 * allows it.
 */
#ifndef SFT_MOVE_DIGEST_TWINS_H
#define SFT_MOVE_DIGEST_TWINS_H

#include "base/cpu.h"
#include <sft/digest.h>

/* CRC32C in register form: no complement before or after. */
uint32_t sft__move_crc32c_portable(uint32_t crc, const void *data, size_t size);
uint32_t sft__move_crc32c_x86(uint32_t crc, const void *data, size_t size);   /* CRC32 */
uint32_t sft__move_crc32c_clmul(uint32_t crc, const void *data, size_t size); /* CRC32, CLMUL */
uint32_t sft__move_crc32c_clmul_256(uint32_t crc, const void *data,
                                    size_t size); /* ... AVX2, VPCLMUL */
uint32_t sft__move_crc32c_clmul_512(uint32_t crc, const void *data, size_t size); /* ... AVX512 */
uint32_t sft__move_crc32c_arm(uint32_t crc, const void *data, size_t size);
/* a * b modulo the polynomial; bit 31 is the coefficient of x^0. */
uint32_t sft__move_crc32c_multiply(uint32_t a, uint32_t b);

/* The best of them for these features (SFT__CPU_*), by what they are allowed to use. */
typedef uint32_t sft__move_crc32c_fn(uint32_t crc, const void *data, size_t size);
sft__move_crc32c_fn *sft__move_crc32c_for(uint32_t cpu);
/* sft_crc32c, sft_sha256_update and sft_sha256_final with these features. */
uint32_t sft__move_crc32c(uint32_t cpu, uint32_t crc, const void *data, size_t size);
void sft__move_sha256_update(uint32_t cpu, sft_sha256 *s, const void *data, size_t size);
void sft__move_sha256_final(uint32_t cpu, sft_sha256 *s, uint8_t digest[32]);

/* `count` blocks of 64 bytes. */
void sft__move_sha256_portable(uint32_t state[8], const void *blocks, size_t count);
void sft__move_sha256_x86(uint32_t state[8], const void *blocks, size_t count);

extern const uint32_t sft__move_sha256_k[64];

#endif
