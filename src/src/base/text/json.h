/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/json.h - pieces of a strict JSON scanner (RFC 8259, as serde_json reads it): blanks, strings,
 * numbers, and skipping a whole value; and strings written. Knows nothing of tensors. Nothing here recurses;
 * only sft__base_json_keep and sft__base_json_string allocate.
 *
 * The text must be valid UTF-8 and followed by SFT__JSON_SLACK zero bytes: a zero byte ends every
 * scan, so that no loop compares with the end. A position at or past `end` means "the text ended
 * here".
 */
#ifndef SFT_BASE_JSON_H
#define SFT_BASE_JSON_H

#include "base/memory/alloc.h"
#include "base/text/buf.h"

#define SFT__JSON_SLACK 64
#define SFT__JSON_DEPTH 127 /* containers inside one another, the outermost included */

/* Where the text ends, and the first fault. A function that fails sets the last three and returns
 * NULL. */
typedef struct sft__base_json {
    const char *end;
    const char *fault_at;
    const char *fault;   /* static sentence */
    bool fault_expected; /* the sentence says what was needed: say also what was found */
} sft__base_json;

/* A string as it stands between its quotes. */
typedef struct sft__base_json_str {
    const char *raw;
    size_t len;
    bool escaped; /* holds at least one backslash: decode before use */
} sft__base_json_str;

/* A number; `value` counts only if it is a plain non-negative integer below 2^64. */
typedef struct sft__base_json_num {
    uint64_t value;
    bool is_uint;
} sft__base_json_num;

/* Sets the fault and returns NULL. */
const char *sft__base_json_fail(sft__base_json *j, const char *at, const char *sentence);
const char *sft__base_json_expected(sft__base_json *j, const char *at, const char *needed);

/* p at the opening quote; returns the position behind the closing one. */
const char *sft__base_json_read(sft__base_json *j, const char *p, sft__base_json_str *out);
/* Writes the decoded bytes (at most s->len of them) and returns their count. dst may be s->raw. */
size_t sft__base_json_decode(char *dst, const sft__base_json_str *s);
/* Is the decoded string equal to these bytes? */
bool sft__base_json_is(const sft__base_json_str *s, const char *text, size_t len);

/* Makes a string usable as C text: terminated in place, over its closing quote (raw is s->raw,
 * writable), or decoded into the arena, raw untouched. NULL: no memory. */
const char *sft__base_json_keep(sft__base_arena *arena, char *raw, const sft__base_json_str *s,
                                size_t *len);

/* p at '-' or a digit. */
const char *sft__base_json_number(sft__base_json *j, const char *p, sft__base_json_num *out);

/* Appends the bytes (UTF-8) as a string in quotes, escaped as serde_json does it. */
void sft__base_json_string(sft__base_buf *out, const char *s, size_t len);
/* The same string for people as well: what deceives a terminal (controls, bidirectional and invisible
 * characters) is escaped too. */
void sft__base_json_string_plain(sft__base_buf *out, const char *s, size_t len);

/* Skips any value, checking all of it. depth: containers that are open around it. */
const char *sft__base_json_value(sft__base_json *j, const char *p, unsigned depth);

/* A member of an object, value where its value begins: the position behind it, or NULL. */
typedef const char *(*sft__base_json_member)(void *ctx, sft__base_json *j,
                                             const sft__base_json_str *name, const char *value);
/* p at an object's brace: calls `visit` for its members in their order. Returns the position behind the
 * object; NULL: it is none, or `visit` said so. */
const char *sft__base_json_members(sft__base_json *j, const char *p, sft__base_json_member visit,
                                   void *ctx);

/* One pass over the text: are all bytes ASCII, and how many are '{'? */
bool sft__base_json_survey(const char *text, size_t len, size_t *braces);
bool sft__base_json_survey_portable(const char *text, size_t len, size_t *braces);

static inline const char *sft__base_json_blank(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') {
        p++;
    }
    return p;
}

/* The first byte from p on that cannot stand unescaped inside a string: quote, backslash or
 * control. The portable form, eight bytes at a time. Each term marks its lowest hit exactly; wrong
 * marks, from borrows, only lie above a right one. */
static inline const char *sft__base_json_plain_end_portable(const char *p) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t high = ones << 7;
    for (;; p += 8) {
        const uint64_t w = sft__base_load_le64(p);
        const uint64_t q = w ^ (ones * '"');
        const uint64_t b = w ^ (ones * '\\');
        const uint64_t hit =
            (((w - ones * 0x20) & ~w) | ((q - ones) & ~q) | ((b - ones) & ~b)) & high;
        if (hit != 0) {
            return p + sft__base_ctz64(hit) / 8;
        }
    }
}

static inline const char *sft__base_json_plain_end(const char *p) {
#if SFT_SSE2
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i back = _mm_set1_epi8('\\');
    const __m128i control = _mm_set1_epi8(0x1f);
    for (;; p += 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        const __m128i hit =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, back)),
                         _mm_cmpeq_epi8(_mm_min_epu8(v, control), v));
        const int mask = _mm_movemask_epi8(hit);
        if (mask != 0) {
            return p + sft__base_ctz64((uint64_t)mask);
        }
    }
#else
    return sft__base_json_plain_end_portable(p);
#endif
}

/* Up to 8 digits at once: their count (0..8) and value. Reads 8 bytes. */
static inline unsigned sft__base_json_digits8(const char *p, uint64_t *value) {
    uint64_t t = sft__base_load_le64(p) ^ UINT64_C(0x3030303030303030);
    const uint64_t other = ((t + UINT64_C(0x7676767676767676)) | t) & UINT64_C(0x8080808080808080);
    const unsigned n = other == 0 ? 8 : sft__base_ctz64(other) / 8;
    if (n == 0) {
        *value = 0;
        return 0;
    }
    t <<= 64 - 8 * n; /* zero digits in front */
    t = (t * 2561) >> 8;
    t = ((t & UINT64_C(0x00ff00ff00ff00ff)) * 6553601) >> 16;
    *value = ((t & UINT64_C(0x0000ffff0000ffff)) * UINT64_C(42949672960001)) >> 32;
    return n;
}

/* A plain non-negative integer of at most 15 digits without leading zero; NULL if there is anything
 * else (what follows the digits is not looked at). Reads at most 16 bytes. */
static inline const char *sft__base_json_uint_short(const char *p, uint64_t *value) {
    static const uint32_t pow10[9] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
    uint64_t v;
    unsigned n = sft__base_json_digits8(p, &v);
    if (SFT_UNLIKELY(n == 0 || (*p == '0' && n > 1))) {
        return NULL;
    }
    p += n;
    if (n == 8) {
        uint64_t low;
        n = sft__base_json_digits8(p, &low);
        if (SFT_UNLIKELY(n == 8)) {
            return NULL;
        }
        v = v * pow10[n] + low;
        p += n;
    }
    *value = v;
    return p;
}

#endif
