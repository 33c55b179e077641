/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/cpu.h - what this processor can do beyond the portable code. Every fast twin asks here
 * before it runs; a build for another architecture gets 0.
 */
#ifndef SFT_MOVE_CPU_H
#define SFT_MOVE_CPU_H

#include "base/compiler.h"

/* Architectures whose twins are compiled in. */
#if defined(__GNUC__) && defined(__x86_64__)
#define SFT__X86_64 1
#else
#define SFT__X86_64 0
#endif
/* 64-byte registers: not on Windows, where gcc cannot align them on the stack. */
#if SFT__X86_64 && !defined(_WIN32)
#define SFT__X86_64_WIDE 1
#else
#define SFT__X86_64_WIDE 0
#endif
#if defined(__GNUC__) && defined(__aarch64__) && defined(__ARM_FEATURE_CRC32) && !SFT_BIG_ENDIAN
#define SFT__ARM_CRC 1 /* the compiler was told that every target has it */
#else
#define SFT__ARM_CRC 0
#endif

#define SFT__CPU_CRC32C   1u /* crc32 instructions and carry-less multiplication */
#define SFT__CPU_SHA      2u
#define SFT__CPU_AVX2     4u  /* AVX2 and F16C, and the system saves their registers */
#define SFT__CPU_CLMUL512 8u  /* VPCLMULQDQ on 512 bits, and the system saves those registers */
#define SFT__CPU_AVX512   16u /* AVX-512 F, and the system saves its registers */

/* Thread-safe. Cost: one load after the first call. */
uint32_t sft__move_cpu_features(void);

#endif
