/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/cpu.c - see cpu.h. The answer is kept in one atomic word that only ever goes from "unknown"
 * to its one final value: any number of threads may race to fill it in. (The instruction that asks
 * is slow under virtual machines, so asking every time would cost more than a small digest.)
 */
#include "move/kernels/cpu.h"

#if SFT__X86_64
#include <cpuid.h>
#include <stdatomic.h>

#define CPU_KNOWN 0x80000000u

/* Whether the system saves these parts of the vector registers: 6 for ymm, 0xe6 for zmm as well. */
static bool cpu_saves(uint32_t parts) {
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return (low & parts) == parts;
}

static uint32_t cpu_ask(void) {
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;
    uint32_t found = 0;
    bool xsave;
    bool ymm;

    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return 0;
    }
    const bool sse41 = (c & (1u << 19)) != 0;
    const bool ssse3 = (c & (1u << 9)) != 0;
    const bool f16c = (c & (1u << 29)) != 0;
    if ((c & (1u << 20)) != 0 && (c & (1u << 1)) != 0) {
        found |= SFT__CPU_CRC32C;
    }
    xsave = (c & (1u << 27)) != 0;
    ymm = xsave && (c & (1u << 28)) != 0 && cpu_saves(6);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        if ((b & (1u << 29)) != 0 && sse41 && ssse3) {
            found |= SFT__CPU_SHA;
        }
        if ((b & (1u << 5)) != 0 && f16c && ymm) {
            found |= SFT__CPU_AVX2;
        }
        if (SFT__X86_64_WIDE && (b & (1u << 16)) != 0 && xsave && cpu_saves(0xe6)) {
            found |= SFT__CPU_AVX512;
            if ((b & (1u << 31)) != 0 && (c & (1u << 10)) != 0 && (found & SFT__CPU_CRC32C) != 0) {
                found |= SFT__CPU_CLMUL512;
            }
        }
    }
    return found;
}

uint32_t sft__move_cpu_features(void) {
    static atomic_uint known;
    unsigned v = atomic_load_explicit(&known, memory_order_relaxed);
    if (v == 0) {
        v = cpu_ask() | CPU_KNOWN;
        atomic_store_explicit(&known, v, memory_order_relaxed);
    }
    return v & ~CPU_KNOWN;
}
#else
uint32_t sft__move_cpu_features(void) {
    return SFT__ARM_CRC ? SFT__CPU_CRC32C : 0;
}
#endif
