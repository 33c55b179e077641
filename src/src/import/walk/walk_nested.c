/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_nested.c - pickles in the strings of pickles. Every literal is skimmed: run
 * through without a stack, as far as its opcodes go. Those that come to an opcode that looks up a
 * name are kept and walked later as parts of their own. A string may also be bytes as Python 2's
 * protocols write them, each a character below 256. What else a string may be, scan/strings.c says.
 * Read first: walk.h.
 */
#include "import/walk/walk.h"

enum {
    NESTED_MOST = 65536,
    DECODED_MOST = 16 << 20,
    LONG_MOST = 16 << 20,
    SKIM_DEPTH = 32,
    LOOK_BYTES = 16, /* of a literal are looked at for the price of an opcode, */
    SKIMMED = 2,     /* opcodes skimmed */
    MARKED_LEAST = 20,
    /* what follows an opcode: so many bytes, or */
    NONE = 0,
    LINE = 10,
    LEN1,
    LEN4,
    LEN8,
    NAME, /* a name is looked up */
    STACK,
    BAD = 255
};

/* Of each opcode, 1 more than it is; 0: BAD. */
static const uint8_t operands[256] = {
    ['('] = 1 + NONE,  [')'] = 1 + NONE,  ['.'] = 1 + NONE,   ['0'] = 1 + NONE,  ['1'] = 1 + NONE,
    ['2'] = 1 + NONE,  ['B'] = 1 + LEN4,  ['C'] = 1 + LEN1,   ['F'] = 1 + LINE,  ['G'] = 1 + 8,
    ['I'] = 1 + LINE,  ['J'] = 1 + 4,     ['K'] = 1 + 1,      ['L'] = 1 + LINE,  ['M'] = 1 + 2,
    ['N'] = 1 + NONE,  ['P'] = 1 + LINE,  ['Q'] = 1 + NONE,   ['R'] = 1 + NONE,  ['S'] = 1 + LINE,
    ['T'] = 1 + LEN4,  ['U'] = 1 + LEN1,  ['V'] = 1 + LINE,   ['X'] = 1 + LEN4,  [']'] = 1 + NONE,
    ['a'] = 1 + NONE,  ['b'] = 1 + NONE,  ['c'] = 1 + NAME,   ['d'] = 1 + NONE,  ['e'] = 1 + NONE,
    ['g'] = 1 + LINE,  ['h'] = 1 + 1,     ['i'] = 1 + NAME,   ['j'] = 1 + 4,     ['l'] = 1 + NONE,
    ['o'] = 1 + NONE,  ['p'] = 1 + LINE,  ['q'] = 1 + 1,      ['r'] = 1 + 4,     ['s'] = 1 + NONE,
    ['t'] = 1 + NONE,  ['u'] = 1 + NONE,  ['}'] = 1 + NONE,   [0x80] = 1 + 1,    [0x81] = 1 + NONE,
    [0x82] = 1 + 1,    [0x83] = 1 + 2,    [0x84] = 1 + 4,     [0x85] = 1 + NONE, [0x86] = 1 + NONE,
    [0x87] = 1 + NONE, [0x88] = 1 + NONE, [0x89] = 1 + NONE,  [0x8a] = 1 + LEN1, [0x8b] = 1 + LEN4,
    [0x8c] = 1 + LEN1, [0x8d] = 1 + LEN8, [0x8e] = 1 + LEN8,  [0x8f] = 1 + NONE, [0x90] = 1 + NONE,
    [0x91] = 1 + NONE, [0x92] = 1 + NONE, [0x93] = 1 + STACK, [0x94] = 1 + NONE, [0x95] = 1 + 8,
    [0x96] = 1 + LEN8, [0x97] = 1 + NONE, [0x98] = 1 + NONE,
};

static inline uint8_t operand_of(uint8_t op) {
    return (uint8_t)(operands[op] - 1);
}

/* Bytes of a literal and its length, at most `left`; SIZE_MAX: it is cut short. */
static size_t literal_bytes(const uint8_t *p, size_t left, uint8_t how) {
    const size_t head = how == LEN1 ? 1 : how == LEN4 ? 4 : 8;

    if (left < head) {
        return SIZE_MAX;
    }
    const uint64_t n = how == LEN1   ? p[0]
                       : how == LEN4 ? sft__base_load_le32(p)
                                     : sft__base_load_le64(p);
    return n <= left - head ? head + (size_t)n : SIZE_MAX;
}

/* What follows an opcode at `i`, which is neither NAME nor STACK: its bytes, or SIZE_MAX where they
 * are not all there. */
static size_t operand_bytes(const uint8_t *bytes, size_t i, size_t end, uint8_t how) {
    if (how == LINE) {
        const uint8_t *lf = i < end ? memchr(bytes + i, '\n', end - i) : NULL;
        return lf != NULL ? (size_t)(lf - (bytes + i)) + 1 : SIZE_MAX;
    }
    return how >= LEN1 ? literal_bytes(bytes + i, end - i, how) : how;
}

size_t sft__import_walk_opcode(const uint8_t *bytes, size_t i, size_t end) {
    const uint8_t how = operand_of(bytes[i]);
    size_t at = i + 1;

    if (how == BAD || how == STACK) {
        return how == BAD ? SIZE_MAX : at;
    }
    const size_t n = operand_bytes(bytes, at, end, how == NAME ? LINE : how);
    if (n == SIZE_MAX || n > end - at || how != NAME) {
        return n == SIZE_MAX || n > end - at ? SIZE_MAX : at + n;
    }
    at += n;
    const size_t more = operand_bytes(bytes, at, end, LINE);
    return more == SIZE_MAX ? end : at + more; /* Python's own code takes a line that is cut */
}

/* The opcode at `i` does not end in the bytes: could it in all that follow them? */
static bool goes_on(const uint8_t *bytes, size_t i, size_t len, uint64_t all) {
    const uint8_t how = i < len ? operand_of(bytes[i]) : NONE;
    const size_t head = how == LEN1 ? 2 : how == LEN4 ? 5 : 9;

    if (all <= len || how == BAD || how < LEN1 || how > LEN8 || len - i < head) {
        return all > len && how != BAD;
    }
    const uint8_t *p = bytes + i + 1;
    const uint64_t n = how == LEN1   ? p[0]
                       : how == LEN4 ? sft__base_load_le32(p)
                                     : sft__base_load_le64(p);
    return n <= all - i - head;
}

typedef struct skimmed {
    size_t stop; /* where the opcodes end that are no literal's */
    bool framed;
} skimmed;

/* Literals within literals are run through, too: what is behind one goes on when that has ended. */
static bool skim(const uint8_t *bytes, size_t len, uint64_t *opcodes, skimmed *s) {
    size_t ends[SKIM_DEPTH] = {len};
    size_t depth = 0;
    size_t texts = 0;

    for (*s = (skimmed){0}; s->stop <= len; ++*opcodes) {
        const size_t i = s->stop;
        const size_t end = ends[depth];
        const uint8_t op = i < end ? bytes[i] : 0;
        const uint8_t how = operand_of(op);
        const size_t at = i + 1;
        if ((how == NAME && memchr(bytes + at, '\n', end - at) != NULL) ||
            (how == STACK && texts != 0)) {
            return true;
        }
        const size_t n = how == STACK                ? 0
                         : how == BAD || how == NAME ? SIZE_MAX
                                                     : operand_bytes(bytes, at, end, how);
        if (i >= end || n == SIZE_MAX || n > end - at) {
            if (depth == 0) {
                return false;
            }
            s->stop = ends[depth--];
            continue;
        }
        s->framed = s->framed || op == 0x95;
        texts += op == 'S' || op == 'V' || op == 'U' || op == 'T' || op == 'X' || op == 0x8c ||
                 op == 0x8d;
        s->stop = at + n;
        if (how >= LEN1 && how <= LEN8 && n >= 8 && op != 0x8a && op != 0x8b) {
            if (depth + 1 == SKIM_DEPTH) {
                return true; /* too deep for a look: walked */
            }
            ends[++depth] = s->stop;
            s->stop = at + (how == LEN1 ? 1 : how == LEN4 ? 4 : 8);
        }
    }
    return false;
}

bool sft__import_walk_skims(const uint8_t *bytes, size_t len, uint64_t *opcodes) {
    skimmed s;
    return skim(bytes, len, opcodes, &s);
}

bool sft__import_walk_marked(const uint8_t *bytes, size_t len, uint64_t all, uint64_t *opcodes) {
    skimmed s;

    return len >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 &&
           (skim(bytes, len, opcodes, &s) || s.framed || goes_on(bytes, s.stop, len, all));
}

static bool walk_skims(walk *w, const uint8_t *bytes, size_t len) {
    uint64_t opcodes = 0;
    const bool met = sft__import_walk_skims(bytes, len, &opcodes);

    walk_pay(w, opcodes / SKIMMED);
    return met;
}

/* A pickle that says so, with room for a string that is looked into for its own sake. */
static bool is_marked(const uint8_t *bytes, size_t len) {
    return len >= MARKED_LEAST && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 &&
           bytes[len - 1] == '.';
}

static void keep(walk *w, uint8_t *decoded, uint64_t at, uint64_t size) {
    if (w->nested_count >= NESTED_MOST ||
        !sft__base_grow(w->job->allocator, &w->nested, &w->nested_room, w->nested_count + 1,
                        sizeof *w->nested)) {
        sft__base_free(w->job->allocator, decoded, (size_t)(decoded != NULL ? size : 0));
        w->limited = true;
        return;
    }
    w->nested[w->nested_count++] = (walk_nested){
        decoded == NULL ? w->part->source : NULL, decoded, at, size, w->part->depth + 1, 0};
}

static void keep_decoded(walk *w, const uint8_t *bytes, size_t len) {
    if (w->decoded_bytes + len > DECODED_MOST) {
        w->limited = true;
        return;
    }
    uint8_t *copy = sft__base_alloc(w->job->allocator, len);
    if (copy != NULL) {
        memcpy(copy, bytes, len);
        w->decoded_bytes += len;
        keep(w, copy, 0, len);
    } else {
        w->limited = true;
    }
}

void sft__import_walk_decoded(walk *w, uint8_t *bytes, size_t len) {
    if (len < 4) {
        return;
    }
    walk_pay(w, len / LOOK_BYTES);
    sft__import_scan_string(w->job, w->part, bytes, len, true);
    if (walk_skims(w, bytes, len) || is_marked(bytes, len)) {
        keep_decoded(w, bytes, len);
    }
    if (memchr(bytes, 0xc2, len) != NULL || memchr(bytes, 0xc3, len) != NULL) {
        const size_t n = sft__import_walk_latin1(bytes, bytes, len);
        if (n != SIZE_MAX && (walk_skims(w, bytes, n) || is_marked(bytes, n))) {
            keep_decoded(w, bytes, n);
        }
    }
}

/* One that is too long to be skimmed: its first bytes tell. Where it lies in what was decoded here,
 * which is gone after the walk, it is copied. */
static void keep_long(walk *w, const uint8_t *head, size_t head_len, uint64_t at, uint64_t size,
                      bool text) {
    sft__import_scan_part part = *w->part;
    uint8_t some[WALK_TEXT];
    size_t n = head_len < sizeof some ? head_len : sizeof some;

    part.offset = at;
    part.size = size;
    if (operand_of(head[0]) != BAD) {
        keep(w, NULL, at, size);
    }
    while (n > 0 && (head[n - 1] & 0xc0) == 0x80) { /* no half a character */
        n--;
    }
    n -= n > 0 && head[n - 1] >= 0xc0;
    const bool latin = text && (memchr(head, 0xc2, n) != NULL || memchr(head, 0xc3, n) != NULL);
    if (!latin && w->part->source == w->given->source) {
        sft__import_scan_stretch(w->job, &part, head, head_len);
        return;
    }
    n = latin ? sft__import_walk_latin1(some, head, n) : n;
    if (n == SIZE_MAX || size > LONG_MOST) {
        w->limited = w->limited || n != SIZE_MAX;
        return;
    }
    uint8_t *all = sft__base_alloc(w->job->allocator, (size_t)size);
    if (all != NULL && sft_source_read(w->part->source, at, all, (size_t)size, NULL) == SFT_OK) {
        walk_pay(w, size / LOOK_BYTES);
        sft__import_scan_string(w->job, w->part, all, (size_t)size, !latin);
    }
    sft__base_free(w->job->allocator, all, (size_t)size);
}

void sft__import_walk_keep(walk *w, const uint8_t *head, size_t head_len, uint64_t at,
                           uint64_t size, bool text) {
    if (size < 4) {
        return;
    }
    if (head_len < size) {
        keep_long(w, head, head_len, at, size, text);
        return;
    }
    walk_pay(w, head_len / LOOK_BYTES);
    sft__import_scan_string(w->job, w->part, head, head_len, true);
    if (walk_skims(w, head, head_len) || is_marked(head, head_len)) {
        keep(w, NULL, at, size);
    }
    if (text && memchr(head, 0xc2, head_len) != NULL) {
        uint8_t *copy = sft__base_alloc(w->job->allocator, head_len);
        const size_t n = copy != NULL ? sft__import_walk_latin1(copy, head, head_len) : SIZE_MAX;
        if (n != SIZE_MAX && (walk_skims(w, copy, n) || is_marked(copy, n))) {
            keep_decoded(w, copy, n);
        }
        sft__base_free(w->job->allocator, copy, head_len);
    }
}
