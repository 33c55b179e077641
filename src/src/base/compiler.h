/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/compiler.h - the compiler layer: the only private header with compiler conditionals. Attributes,
 * branch hints, byte-order loads and stores. Knows nothing of tensors. Read first: nothing.
 */
#ifndef SFT_BASE_COMPILER_H
#define SFT_BASE_COMPILER_H

#ifndef SFT_BUILDING
#error "private to libsafetensors"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define SFT_LIKELY(x)   __builtin_expect(!!(x), 1)
#define SFT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#if defined(__MINGW32__)
#define SFT_PRINTF(fmt, first) __attribute__((format(gnu_printf, fmt, first)))
#else
#define SFT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#endif
#define SFT_NOINLINE    __attribute__((noinline))
#define SFT_COLD        __attribute__((cold, noinline))
#define SFT_PREFETCH(p) __builtin_prefetch(p)
#else
#define SFT_LIKELY(x)   (x)
#define SFT_UNLIKELY(x) (x)
#define SFT_PRINTF(fmt, first)
#define SFT_NOINLINE
#define SFT_COLD
#define SFT_PREFETCH(p) ((void)(p))
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SFT_BIG_ENDIAN 1
#else
#define SFT_BIG_ENDIAN 0
#endif

/* SSE2 is part of every x86-64; elsewhere the eight-byte forms are used. */
#if defined(__SSE2__) || defined(_M_X64)
#define SFT_SSE2 1
#include <emmintrin.h>
#else
#define SFT_SSE2 0
#endif

/* Trailing zero bits; v is not 0. */
static inline unsigned sft__base_ctz64(uint64_t v) {
#if defined(__GNUC__)
    return (unsigned)__builtin_ctzll(v);
#else
    unsigned n = 0;
    for (; (v & 1) == 0; v >>= 1) {
        n++;
    }
    return n;
#endif
}

/* Asks for the cache line of `p`; a hint only. */
static inline void sft__base_prefetch(const void *p) {
#if defined(__GNUC__)
    __builtin_prefetch(p);
#else
    (void)p;
#endif
}

static inline uint16_t sft__base_bswap16(uint16_t v) {
    return (uint16_t)((v >> 8) | (v << 8));
}

static inline uint32_t sft__base_bswap32(uint32_t v) {
    return (v >> 24) | ((v >> 8) & 0xff00u) | ((v << 8) & 0xff0000u) | (v << 24);
}

static inline uint64_t sft__base_bswap64(uint64_t v) {
    return ((uint64_t)sft__base_bswap32((uint32_t)v) << 32) |
           sft__base_bswap32((uint32_t)(v >> 32));
}

static inline uint16_t sft__base_load_le16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return SFT_BIG_ENDIAN ? sft__base_bswap16(v) : v;
}

static inline uint32_t sft__base_load_le32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return SFT_BIG_ENDIAN ? sft__base_bswap32(v) : v;
}

static inline uint64_t sft__base_load_le64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return SFT_BIG_ENDIAN ? sft__base_bswap64(v) : v;
}

static inline void sft__base_store_le16(void *p, uint16_t v) {
    v = SFT_BIG_ENDIAN ? sft__base_bswap16(v) : v;
    memcpy(p, &v, sizeof v);
}

static inline void sft__base_store_le32(void *p, uint32_t v) {
    v = SFT_BIG_ENDIAN ? sft__base_bswap32(v) : v;
    memcpy(p, &v, sizeof v);
}

static inline void sft__base_store_le64(void *p, uint64_t v) {
    v = SFT_BIG_ENDIAN ? sft__base_bswap64(v) : v;
    memcpy(p, &v, sizeof v);
}

#endif
