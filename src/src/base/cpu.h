/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/cpu.h - what this processor can do beyond the portable code. Every fast twin asks here
 * before it runs; a build for another architecture gets 0.
 */
#ifndef SFT_BASE_CPU_H
#define SFT_BASE_CPU_H

#include "base/compiler.h"
#include <sft/types.h>

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

/* One bit each; a vector feature counts only if the system saves its registers. A kernel needs every bit
 * that its comment names: leaving one out leaves out all kernels that need it. */
#define SFT__CPU_CRC32   1u  /* the crc32 instructions */
#define SFT__CPU_CLMUL   2u  /* carry-less multiplication, 128 bits */
#define SFT__CPU_SHA     4u  /* SHA-256 instructions */
#define SFT__CPU_AVX2    8u  /* AVX2 and F16C */
#define SFT__CPU_VPCLMUL 16u /* carry-less multiplication of whole vectors */
#define SFT__CPU_AVX512  32u /* AVX-512 F and VL */
#define SFT__CPU_ALL     63u

/* Thread-safe. Cost: one load after the first call. */
uint32_t sft__base_cpu_features(void);

/* The features that a text leaves out: a comma list whose items are a level ("portable", "sse4.2", "avx2",
 * "avx512": what is above it is left out) or a feature with a minus sign ("-crc32", "-clmul", "-sha",
 * "-avx2", "-vpclmul", "-avx512"). NULL and "" leave out nothing. SFT_E_ARG names an item that is neither. */
sft_status sft__base_cpu_parse(const char *text, uint32_t *without, sft_error *err);

#endif
