/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_twins.h - the digests' inner loops: one signature each, a portable twin and hardware
 * twins that give the same result. digest.c chooses. A twin may only be called where move/cpu.h
 * allows it.
 */
#ifndef SFT_MOVE_DIGEST_TWINS_H
#define SFT_MOVE_DIGEST_TWINS_H

#include "move/kernels/cpu.h"

#define SFT__CRC_WIDE_MIN ((size_t)512) /* shorter inputs gain nothing from wide folding */

/* Register form: no complement before or after. */
uint32_t sft__move_crc32c_portable(uint32_t crc, const void *data, size_t size);
uint32_t sft__move_crc32c_x86(uint32_t crc, const void *data, size_t size);
uint32_t sft__move_crc32c_wide(uint32_t crc, const void *data, size_t size); /* SFT__CPU_CLMUL512 */
uint32_t sft__move_crc32c_arm(uint32_t crc, const void *data, size_t size);

/* `count` blocks of 64 bytes. */
void sft__move_sha256_portable(uint32_t state[8], const void *blocks, size_t count);
void sft__move_sha256_x86(uint32_t state[8], const void *blocks, size_t count);

extern const uint32_t sft__move_sha256_k[64];

#endif
