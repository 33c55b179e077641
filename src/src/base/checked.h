/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/checked.h - arithmetic on numbers that input can influence. Every function returns true when the
 * result fits and is stored. The one conversion from file positions to memory sizes is here.
 */
#ifndef SFT_BASE_CHECKED_H
#define SFT_BASE_CHECKED_H

#include "base/compiler.h"

static inline bool sft__base_add64(uint64_t a, uint64_t b, uint64_t *out) {
    *out = a + b;
    return *out >= a;
}

static inline bool sft__base_mul64(uint64_t a, uint64_t b, uint64_t *out) {
#if defined(__GNUC__)
    return !__builtin_mul_overflow(a, b, out);
#else
    *out = a * b;
    return a == 0 || *out / a == b;
#endif
}

static inline bool sft__base_add_size(size_t a, size_t b, size_t *out) {
    *out = a + b;
    return *out >= a;
}

static inline bool sft__base_mul_size(size_t a, size_t b, size_t *out) {
#if defined(__GNUC__)
    return !__builtin_mul_overflow(a, b, out);
#else
    *out = a * b;
    return a == 0 || *out / a == b;
#endif
}

/* a * b for strides: signed, either may be negative. */
static inline bool sft__base_mul_i64(int64_t a, int64_t b, int64_t *out) {
#if defined(__GNUC__)
    return !__builtin_mul_overflow(a, b, out);
#else
    if (a != 0 && b != 0) {
        const bool negative = (a < 0) != (b < 0);
        const uint64_t ua = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
        const uint64_t ub = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
        uint64_t u;
        if (!sft__base_mul64(ua, ub, &u) || u > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) {
            return false;
        }
        *out = negative ? (int64_t)(0 - u) : (int64_t)u;
        return true;
    }
    *out = 0;
    return true;
#endif
}

/* Rounds up to a multiple of `alignment`, a power of two. */
static inline bool sft__base_align64(uint64_t v, uint64_t alignment, uint64_t *out) {
    if (!sft__base_add64(v, alignment - 1, out)) {
        return false;
    }
    *out &= ~(alignment - 1);
    return true;
}

/* The one place where a file position becomes a memory size. */
static inline bool sft__base_size_from_u64(uint64_t v, size_t *out) {
    *out = (size_t)v;
    return (uint64_t)*out == v;
}

/* Narrowing for numbers that are known to be small: asserts, never sees input. */
static inline uint32_t sft__base_u32(uint64_t v) {
    return (uint32_t)v;
}

#endif
