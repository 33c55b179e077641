/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/cpu.c - see cpu.h. The answer is kept in one atomic word that only ever goes from "unknown"
 * to its one final value: any number of threads may race to fill it in. (The instruction that asks
 * is slow under virtual machines, so asking every time would cost more than a small digest.)
 */
#include "base/cpu.h"
#include "base/error.h"

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

    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return 0;
    }
    const bool sse42 = (c & (1u << 20)) != 0 && (c & (1u << 19)) != 0 && (c & (1u << 9)) != 0;
    const bool f16c = (c & (1u << 29)) != 0;
    const bool xsave = (c & (1u << 27)) != 0;
    const bool ymm = xsave && (c & (1u << 28)) != 0 && cpu_saves(6);
    found |= sse42 ? SFT__CPU_CRC32 : 0;
    found |= sse42 && (c & (1u << 1)) != 0 ? SFT__CPU_CLMUL : 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return found;
    }
    found |= sse42 && (b & (1u << 29)) != 0 ? SFT__CPU_SHA : 0;
    found |= ymm && f16c && (b & (1u << 5)) != 0 ? SFT__CPU_AVX2 : 0;
    found |= ymm && (c & (1u << 10)) != 0 ? SFT__CPU_VPCLMUL : 0;
    if (SFT__X86_64_WIDE && xsave && cpu_saves(0xe6) && (b & (1u << 16)) != 0 &&
        (b & (1u << 31)) != 0) {
        found |= SFT__CPU_AVX512;
    }
    return found;
}

uint32_t sft__base_cpu_features(void) {
    static atomic_uint known;
    unsigned v = atomic_load_explicit(&known, memory_order_relaxed);
    if (v == 0) {
        v = cpu_ask() | CPU_KNOWN;
        atomic_store_explicit(&known, v, memory_order_relaxed);
    }
    return v & ~CPU_KNOWN;
}
#else
uint32_t sft__base_cpu_features(void) {
    return SFT__ARM_CRC ? SFT__CPU_CRC32 : 0;
}
#endif

/* ---------------------------------------------------------------- what is left out on request */

static const struct cpu_word {
    const char *word;
    uint32_t without;
} cpu_words[] = {
    {"portable", SFT__CPU_ALL},     {"sse4.2", SFT__CPU_AVX2 | SFT__CPU_VPCLMUL | SFT__CPU_AVX512},
    {"avx2", SFT__CPU_AVX512},      {"avx512", 0},
    {"-crc32", SFT__CPU_CRC32},     {"-clmul", SFT__CPU_CLMUL},
    {"-sha", SFT__CPU_SHA},         {"-avx2", SFT__CPU_AVX2},
    {"-vpclmul", SFT__CPU_VPCLMUL}, {"-avx512", SFT__CPU_AVX512},
};

sft_status sft__base_cpu_parse(const char *text, uint32_t *without, sft_error *err) {
    *without = 0;
    for (const char *at = text; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, ",");
        const struct cpu_word *w = cpu_words;
        const struct cpu_word *end = w + sizeof cpu_words / sizeof *w;
        while (w < end && (strlen(w->word) != n || memcmp(w->word, at, n) != 0)) {
            w++;
        }
        if (w == end) {
            *without = 0;
            return sft__base_fail(
                err, SFT_E_ARG,
                "\"%.*s\" is neither a level (portable, sse4.2, avx2, avx512) nor -FEATURE",
                (int)(n < 40 ? n : 40), at);
        }
        *without |= w->without;
        at += n + (at[n] == ',' ? 1 : 0);
    }
    return SFT_OK;
}
