/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/digest_crc32c_fold.h - CRC32C by carry-less multiplication beside the crc32 instruction,
 * for one width of vectors; digest_crc32c_hw.c includes it once per width, so it has no guard. Before
 * that it defines FOLD (prefix of names), FOLD_TARGET, FOLD_V (vector type), FOLD_ZERO, FOLD_START (the
 * register in the lowest bytes), FOLD_LOAD, FOLD_STORE, FOLD_XOR, FOLD_XOR3, FOLD_MUL, FOLD_SPREAD (a
 * pair of factors into every lane), the factors FOLD_BY_1 and FOLD_BY_4 for one and four vectors,
 * FOLD_TWINS (words of a stretch per step, at most 5) and FOLD_MIX_1 to 3, the factors of crc_shift for
 * one to three stretches.
 */
#define FOLD_JOIN(a, b)  FOLD_PASTE(a, b)
#define FOLD_PASTE(a, b) a##b
#define FOLD_(name)      FOLD_JOIN(FOLD, name)

enum {
    FOLD_(_VECTOR) = sizeof(FOLD_V),
    FOLD_(_STRETCH) = FOLD_STEPS * 8 * FOLD_TWINS,
    FOLD_(_LONG) = FOLD_STEPS * 4 * FOLD_(_VECTOR),
    FOLD_(_MIX) = FOLD_(_LONG) + 3 * FOLD_(_STRETCH)
};

FOLD_TARGET static inline FOLD_V FOLD_(_step)(FOLD_V x, FOLD_V factors, FOLD_V next) {
    return FOLD_XOR3(FOLD_MUL(x, factors, 0x00), FOLD_MUL(x, factors, 0x11), next);
}

/* The CRC of what four vectors stand for. */
FOLD_TARGET static inline uint64_t FOLD_(_end)(FOLD_V a0, FOLD_V a1, FOLD_V a2, FOLD_V a3) {
    const FOLD_V by_1 = FOLD_SPREAD(FOLD_BY_1);
    uint8_t last[sizeof(FOLD_V)];
    uint64_t crc = 0;

    FOLD_STORE(last, FOLD_(_step)(FOLD_(_step)(FOLD_(_step)(a0, by_1, a1), by_1, a2), by_1, a3));
    for (size_t i = 0; i < sizeof last; i += 8) {
        crc = _mm_crc32_u64(crc, sft__base_load_le64(last + i));
    }
    return crc;
}

FOLD_TARGET static inline void FOLD_(_words)(uint64_t crc[3], const uint8_t *q) {
    crc[0] = _mm_crc32_u64(crc[0], sft__base_load_le64(q));
    crc[1] = _mm_crc32_u64(crc[1], sft__base_load_le64(q + FOLD_(_STRETCH)));
    crc[2] = _mm_crc32_u64(crc[2], sft__base_load_le64(q + 2 * FOLD_(_STRETCH)));
}

/* Folding keeps one unit of the processor busy and the crc32 instruction has another, so both run side by
 * side: FOLD_STEPS of four vectors folded, and three stretches that lie behind them. */
FOLD_TARGET static uint64_t FOLD_(_mixed)(uint64_t start, const uint8_t *p) {
    const FOLD_V by_4 = FOLD_SPREAD(FOLD_BY_4);
    const uint8_t *q = p + FOLD_(_LONG);
    uint64_t crc[3] = {0, 0, 0};
    FOLD_V first = FOLD_START(start);
    FOLD_V a0 = FOLD_ZERO; /* zeros fold to zeros */
    FOLD_V a1 = a0;
    FOLD_V a2 = a0;
    FOLD_V a3 = a0;

    for (size_t i = 0; i < FOLD_STEPS; i++, p += 4 * sizeof(FOLD_V), q += 8 * FOLD_TWINS) {
        a0 = FOLD_(_step)(a0, by_4, FOLD_XOR(FOLD_LOAD(p), first));
        FOLD_(_words)(crc, q);
        a1 = FOLD_(_step)(a1, by_4, FOLD_LOAD(p + sizeof(FOLD_V)));
        FOLD_(_words)(crc, q + 8);
        a2 = FOLD_(_step)(a2, by_4, FOLD_LOAD(p + 2 * sizeof(FOLD_V)));
        FOLD_(_words)(crc, q + 16);
        a3 = FOLD_(_step)(a3, by_4, FOLD_LOAD(p + 3 * sizeof(FOLD_V)));
        if (FOLD_TWINS > 3) {
            FOLD_(_words)(crc, q + 24);
        }
        if (FOLD_TWINS > 4) {
            FOLD_(_words)(crc, q + 32);
        }
        first = FOLD_ZERO;
    }
    return crc_shift(FOLD_(_end)(a0, a1, a2, a3), FOLD_MIX_3) ^ crc_shift(crc[0], FOLD_MIX_2) ^
           crc_shift(crc[1], FOLD_MIX_1) ^ crc[2];
}

FOLD_TARGET static uint32_t FOLD_(_crc32c)(uint32_t start, const void *data, size_t size) {
    const FOLD_V by_4 = FOLD_SPREAD(FOLD_BY_4);
    const uint8_t *p = data;
    uint64_t crc = start;

    for (; size >= (size_t)FOLD_(_MIX); p += FOLD_(_MIX), size -= FOLD_(_MIX)) {
        crc = FOLD_(_mixed)(crc, p);
    }
    if (size >= (size_t)FOLD_MIN) {
        FOLD_V a0 = FOLD_XOR(FOLD_LOAD(p), FOLD_START(crc));
        FOLD_V a1 = FOLD_LOAD(p + sizeof(FOLD_V));
        FOLD_V a2 = FOLD_LOAD(p + 2 * sizeof(FOLD_V));
        FOLD_V a3 = FOLD_LOAD(p + 3 * sizeof(FOLD_V));
        size_t left = size - 4 * sizeof(FOLD_V);
        for (p += 4 * sizeof(FOLD_V); left >= 4 * sizeof(FOLD_V); left -= 4 * sizeof(FOLD_V)) {
            a0 = FOLD_(_step)(a0, by_4, FOLD_LOAD(p));
            a1 = FOLD_(_step)(a1, by_4, FOLD_LOAD(p + sizeof(FOLD_V)));
            a2 = FOLD_(_step)(a2, by_4, FOLD_LOAD(p + 2 * sizeof(FOLD_V)));
            a3 = FOLD_(_step)(a3, by_4, FOLD_LOAD(p + 3 * sizeof(FOLD_V)));
            p += 4 * sizeof(FOLD_V);
        }
        crc = FOLD_(_end)(a0, a1, a2, a3);
        size = left;
    }
    return (uint32_t)crc_tail(crc, p, size);
}

#undef FOLD
#undef FOLD_TARGET
#undef FOLD_V
#undef FOLD_ZERO
#undef FOLD_START
#undef FOLD_LOAD
#undef FOLD_STORE
#undef FOLD_XOR
#undef FOLD_XOR3
#undef FOLD_MUL
#undef FOLD_SPREAD
#undef FOLD_SPREAD_
#undef FOLD_BY_1
#undef FOLD_BY_4
#undef FOLD_TWINS
#undef FOLD_MIX_1
#undef FOLD_MIX_2
#undef FOLD_MIX_3
#undef FOLD_JOIN
#undef FOLD_PASTE
#undef FOLD_
