/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/strings.c - what a program could make of a string: of a pickle, of JSON, of metadata,
 * of what such strings decode to. One that is compressed, an archive, HDF5, an array, or a pickle
 * becomes a part of the work list; base64 (either alphabet, with or without padding, other
 * characters among its letters, as Python takes it) and hex are decoded first. Most strings are
 * none of these: their first bytes say so. Read first: work.h.
 */
#include "base/memory/need.h"
#include "base/text/buf.h"
#include "base/text/strmap.h"
#include "import/archive/unpack_step.h"
#include "import/scan/work.h"
#include "import/walk/walk.h"

enum {
    LEAST = 12,              /* bytes of a string that holds anything */
    SOME = 64,               /* letters that are decoded first */
    TRIAL = 512,             /* bytes that are unpacked on trial */
    TRIAL_LEAST = 8,         /* bytes that come out of what is compressed */
    TRIAL_PRICE = 128,       /* of opcodes */
    ZIP_LEAST = 98,          /* bytes of an archive with a member */
    ZIP_TAIL = 65557,        /* in which its end record lies */
    TAR_BLOCK = 512,         /* of bytes */
    CODE_PRICE = 10,         /* of opcodes: for a first look */
    TAIL_BYTES = 32,         /* of an end that are gone through for the price of one */
    CODE_BYTES = 4,          /* that are decoded for the price of an opcode */
    STRING_MOST = 16 << 20,  /* bytes of a text that are decoded */
    WAITING_MOST = 48 << 20, /* bytes of copies */
    STRINGS_MOST = 8192,
    ALPHABET = 1024 /* letters of a part of a text that tell which alphabet it has */
};

/* Work is paid for with opcodes of the walk: one budget bounds the time of all. */
void sft__import_scan_pay(const sft__import_scan *s, uint64_t work) {
    s->job->walk_left -= work < s->job->walk_left ? work : s->job->walk_left;
}

/* ---------------------------------------------------------------- what bytes are */

/* Does something come out? Of text that begins like zlib mostly nothing does. cut: more follows. */
static bool unpacks(const sft__import_scan *s, sft__import_pack pack, const uint8_t *bytes,
                    size_t len, bool cut) {
    uint8_t out[TRIAL];
    sft__import_step_bytes b = {bytes, len < TRIAL ? len : TRIAL, out, sizeof out, false};

    if (pack != SFT__PACK_ZLIB) {
        return true; /* its mark is long enough, or is looked at by its own library */
    }
    sft__import_scan_pay(s, TRIAL_PRICE);
    sft__import_stepper *step = sft__import_step_create(pack, s->job->allocator);
    if (step == NULL) {
        return true;
    }
    const sft__import_step_result result = sft__import_step(step, &b);
    sft__import_step_free(step);
    return result == SFT__STEP_END || b.got >= TRIAL_LEAST || (cut && result == SFT__STEP_GO);
}

static bool is_packed(const sft__import_scan *s, const uint8_t *bytes, size_t len, bool cut) {
    const sft__import_pack pack = sft__import_pack_of(bytes, len);

    if (pack == SFT__PACK_NONE || !sft__import_pack_is_read(pack) ||
        (pack == SFT__PACK_GZIP && (len < 18 || bytes[2] != 8)) ||
        (pack == SFT__PACK_BZIP2 && (len < 14 || memcmp(bytes + 4, "1AY&SY", 6) != 0))) {
        return false;
    }
    return unpacks(s, pack, bytes, len, cut);
}

bool sft__import_scan_is_packed(const sft__import_scan *s, const uint8_t *bytes, size_t len) {
    return len >= LEAST && is_packed(s, bytes, len, true);
}

/* A file that programs read as such, by its first bytes. */
bool sft__import_scan_is_file(const uint8_t *head, size_t len) {
    return (len >= 30 && memcmp(head, "PK\3\4", 4) == 0) ||
           (len >= 48 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0) ||
           (len >= 10 && memcmp(head, "\x93NUMPY", 6) == 0) ||
           (len >= TAR_BLOCK && memcmp(head + 257, "ustar", 5) == 0);
}

/* An archive whose end record lies in these last bytes, or HDF5 behind a user block. */
static bool is_shell(const uint8_t *bytes, size_t len) {
    for (uint64_t at = 512; at + 48 <= len; at *= 2) {
        if (memcmp(bytes + at, "\x89HDF\r\n\x1a\n", 8) == 0) {
            return true;
        }
    }
    if (len < ZIP_LEAST) {
        return false;
    }
    const size_t tail = len < ZIP_TAIL ? len : ZIP_TAIL;
    const uint8_t *p = bytes + len - tail;
    const uint8_t *end = bytes + len - 21;
    while ((p = memchr(p, 'P', (size_t)(end - p))) != NULL) {
        if (sft__base_load_le32(p) == 0x06054b50u) {
            return true;
        }
        p++;
    }
    return false;
}

/* ---------------------------------------------------------------- letters */

static uint8_t digit64(uint8_t c) {
    return (uint8_t)(c >= 'A' && c <= 'Z'   ? c - 'A'
                     : c >= 'a' && c <= 'z' ? c - 'a' + 26
                     : c >= '0' && c <= '9' ? c - '0' + 52
                     : c == '+' || c == '-' ? 62
                     : c == '/' || c == '_' ? 63
                                            : 255);
}

static uint8_t digit16(uint8_t c) {
    const int digit = sft__base_hex_value((char)c);
    return digit < 0 ? 255 : (uint8_t)digit;
}

/* How one reads the letters: 255 are passed over, as Python does; '=' ends base64. */
void sft__import_scan_letters(sft__import_scan *s) {
    for (unsigned c = 0; c < 256; c++) {
        const bool other = c == '-' || c == '_';
        s->letters[SFT__BASE64][c] = digit64((uint8_t)c);
        s->letters[SFT__BASE64_STANDARD][c] = other ? 255 : digit64((uint8_t)c);
        s->letters[SFT__HEX][c] = digit16((uint8_t)c);
    }
}

/* The bytes that the letters stand for, at most `room` of them. */
static size_t decode(uint8_t *out, size_t room, const uint8_t *in, size_t len,
                     const uint8_t table[256], unsigned bits) {
    uint32_t held = 0;
    unsigned have = 0;
    size_t n = 0;

    for (size_t i = 0; i < len && n < room; i++) {
        while (bits == 6 && have == 0 && len - i >= 4 && room - n >= 3) { /* four letters at once */
            const uint32_t a = table[in[i]];
            const uint32_t b = table[in[i + 1]];
            const uint32_t c = table[in[i + 2]];
            const uint32_t d = table[in[i + 3]];
            if ((a | b | c | d) > 63) {
                break;
            }
            const uint32_t three = a << 18 | b << 12 | c << 6 | d;
            out[n] = (uint8_t)(three >> 16);
            out[n + 1] = (uint8_t)(three >> 8);
            out[n + 2] = (uint8_t)three;
            n += 3;
            i += 4;
        }
        if (i == len) {
            break;
        }
        const uint8_t v = table[in[i]];
        if (v == 255) {
            if (in[i] == '=' && bits == 6 && (have == 4 || have == 2)) {
                break;
            }
            continue;
        }
        held = held << bits | v;
        have += bits;
        if (have >= 8) {
            have -= 8;
            out[n++] = (uint8_t)(held >> have);
        }
    }
    return n;
}

/* Nothing but letters of base64, ends of lines, and blanks that are far apart, among the first
 * ones?
 */
static bool is_letters(const uint8_t *text, size_t len) {
    const size_t n = len < SOME ? len : SOME;
    size_t row = SFT__CODED_RUN;
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (digit64(text[i]) != 255) {
            row++;
            count++;
        } else if (text[i] == ' ' || text[i] == '\t') {
            if (row < SFT__CODED_RUN) {
                return false;
            }
            row = count == 0 ? row : 0;
        } else if (text[i] != '\n' && text[i] != '\r' && !(text[i] == '=' && i + 4 >= n)) {
            return false;
        }
    }
    return count >= SFT__CODED_LEAST;
}

/* ---------------------------------------------------------------- a part of its own */

static void too_much(sft__import_scan *s, const sft__import_scan_part *part) {
    s->tired = s->tired || s->job->walk_left == 0;
    sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "strings",
                          "more strings, or larger ones, than are decoded");
}

/* What it costs to look into a part, in opcodes: its reader or decompressor has to be set up. */
static uint64_t price_of(const uint8_t *head, size_t len) {
    const sft__import_pack pack = sft__import_pack_of(head, len);

    return len >= 4 && memcmp(head, "\x89HDF", 4) == 0 ? 100000
           : pack == SFT__PACK_BZIP2                   ? 60000
           : pack == SFT__PACK_LZMA                    ? 30000
           : sft__import_scan_is_file(head, len)       ? 10000
                                                       : 2000;
}

/* owned: freed when the part is done. */
static void push_string(sft__import_scan *s, const sft__import_scan_part *outer,
                        sft__import_scan_part inner, uint8_t *owned, size_t room,
                        const char *name) {
    const sft_allocator *a = s->job->allocator;
    const bool coded = strcmp(name, "base64") == 0 || strcmp(name, "hex") == 0;
    sft__import_task close = {.kind = SFT__TASK_CLOSE, .bytes = owned, .size = room};
    sft__import_task t = {.kind = SFT__TASK_PART};

    if (s->strings >= STRINGS_MOST || s->job->walk_left == 0 || outer->depth >= SFT__SCAN_DEPTH ||
        s->string_bytes + room > WAITING_MOST) {
        too_much(s, outer);
        sft__base_free(a, owned, room);
        return;
    }
    t.where = sft__import_scan_join(s, outer->where, name);
    sft_status status = t.where != NULL ? SFT_OK : SFT_E_NOMEM;
    if (status == SFT_OK && owned != NULL) {
        status = sft_source_open_memory(&close.source, owned, (size_t)inner.size, a, NULL);
        inner.source = close.source;
    }
    t.part = inner;
    t.part.where = t.where;
    t.part.depth = outer->depth + 1;
    t.part.flags = SFT__SCAN_STRING | (coded ? SFT__SCAN_CODED : 0);
    if (status == SFT_OK && owned != NULL) {
        status = sft__import_scan_push(s, &close, NULL);
    }
    if (status == SFT_OK) {
        close.bytes = NULL; /* the work list has both now */
        close.source = NULL;
        status = sft__import_scan_push(s, &t, NULL);
    }
    if (status == SFT_OK) {
        s->strings++;
        s->string_bytes += room;
        return;
    }
    sft__base_free(a, t.where, SFT__SCAN_WHERE);
    sft_source_close(close.source);
    sft__base_free(a, close.bytes, room);
    too_much(s, outer);
}

/* Bytes that a program could read; `walked`: but for the pickle that they may be. */
static bool is_something(sft__import_scan *s, const uint8_t *bytes, size_t len, bool walked) {
    uint64_t opcodes = 0;

    if (len < LEAST) {
        return false;
    }
    if (sft__import_scan_is_file(bytes, len) || is_packed(s, bytes, len, len == SOME) ||
        is_shell(bytes, len)) {
        return true;
    }
    if (walked) {
        return false;
    }
    const bool pickle = (bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5) ||
                        sft__import_walk_skims(bytes, len, &opcodes);
    sft__import_scan_pay(s, opcodes / 8);
    return pickle;
}

/* ---------------------------------------------------------------- texts */

/* Has the same text been decoded? A program's strings, and the raw bytes around them, are met more
 * than once. */
static bool is_text_known(sft__import_scan *s, const uint8_t *bytes, size_t len) {
    static const uint64_t key[2] = {0x243f6a8885a308d3u, 0x13198a2e03707344u};
    const uint64_t hash = sft__base_hash(key, bytes, len) | 1;
    uint64_t *slot = &s->known[hash >> 32 & (SFT__SCAN_KNOWN - 1)];
    const bool known = *slot == hash;

    *slot = hash;
    return known;
}

/* The text, read as one code: a part of its own if anything is in it. */
static bool take_code(sft__import_scan *s, const sft__import_scan_part *part, const uint8_t *text,
                      size_t len, sft__import_letters code, bool whole) {
    const unsigned bits = code == SFT__HEX ? 4 : 6;
    const sft_allocator *a = s->job->allocator;
    const bool letters_only = whole && code != SFT__HEX && is_letters(text, len);
    const uint8_t *table = s->letters[code];
    uint8_t some[SOME];

    sft__import_scan_pay(s, CODE_PRICE);
    if (s->job->walk_left == 0) {
        too_much(s, part);
        return false;
    }
    const size_t n = decode(some, sizeof some, text, len, table, bits);
    const bool marked = n >= 2 && some[0] == 0x80 && some[1] >= 2 && some[1] <= 5;
    if (n < LEAST ||
        (!letters_only && !marked && !is_letters(some, n) && !is_something(s, some, n, false))) {
        return false;
    }
    if (len > STRING_MOST) {
        too_much(s, part);
        len = STRING_MOST;
    }
    const size_t room = len / 8 * bits + bits + 1;
    uint8_t *out = sft__base_alloc(a, room);
    if (out == NULL) {
        too_much(s, part);
        return false;
    }
    const size_t size = decode(out, room, text, len, table, bits);
    sft__import_scan_pay(s, size / CODE_BYTES);
    if ((is_something(s, out, size, false) || is_letters(out, size)) &&
        !is_text_known(s, out, size)) {
        const sft__import_scan_part inner = {.size = size, .base = SFT_NO_OFFSET};
        sft__import_scan_pay(s, price_of(out, size));
        push_string(s, part, inner, out, room, code == SFT__HEX ? "hex" : "base64");
        return true;
    }
    sft__base_free(a, out, room);
    return false;
}

/* Are there as many letters of base64 as name something? Digits of hex are among them. */
static bool has_letters(const sft__import_scan *s, const uint8_t *text, size_t len) {
    const uint8_t *table = s->letters[SFT__BASE64];
    size_t at = 0;

    for (size_t count = 0; at < len;
         at += 64) { /* stretches without any byte of ASCII go quickly */
        const size_t n = len - at < 64 ? len - at : 64;
        uint8_t all = 0x80;
        for (size_t i = 0; i < n; i++) {
            all &= text[at + i];
        }
        for (size_t i = 0; i < n && all == 0; i++) {
            count += table[text[at + i]] != 255;
        }
        if (count >= SFT__CODED_LEAST) {
            return true;
        }
    }
    return false;
}

static bool has(const uint8_t *text, size_t len, char a, char b) {
    return memchr(text, a, len) != NULL || memchr(text, b, len) != NULL;
}

void sft__import_scan_text(sft__import_scan *s, const sft__import_scan_part *part,
                           const uint8_t *text, size_t len, bool whole) {
    static const char mark[] = ";base64,";
    const uint8_t *p = text;

    if (len < SFT__CODED_LEAST || s->tired || !has_letters(s, text, len)) {
        return;
    }
    if (len > 5 && memcmp(text, "data:", 5) == 0) { /* data:TYPE;base64,LETTERS */
        const uint8_t *end = text + (len < 256 ? len : 256);
        while ((p = memchr(p, ';', (size_t)(end - p))) != NULL) {
            if ((size_t)(end - p) >= sizeof mark - 1 && memcmp(p, mark, sizeof mark - 1) == 0) {
                p += sizeof mark - 1;
                (void)take_code(s, part, p, len - (size_t)(p - text), SFT__BASE64, true);
                return;
            }
            p++;
        }
    }
    const size_t seen = whole || len < ALPHABET ? len : ALPHABET;
    if (!take_code(s, part, text, len, SFT__BASE64, whole) && has(text, seen, '-', '_')) {
        (void)take_code(s, part, text, len, SFT__BASE64_STANDARD, whole);
    }
    for (size_t i = 0; i < SFT__CODED_LEAST; i++) {
        if (digit16(text[i]) == 255 && text[i] != ' ' && text[i] != '\n') {
            return;
        }
    }
    (void)take_code(s, part, text, len, SFT__HEX, whole);
}

/* ---------------------------------------------------------------- for the walk and the rules */

static void push_copy(sft__import_scan *s, const sft__import_scan_part *part, const uint8_t *bytes,
                      size_t len, size_t room) {
    const sft__import_scan_part inner = {.size = len, .base = SFT_NO_OFFSET};

    if (is_text_known(s, bytes, len)) {
        return;
    }
    uint8_t *copy = len <= STRING_MOST ? sft__base_alloc(s->job->allocator, room) : NULL;
    if (copy == NULL) {
        too_much(s, part);
        return;
    }
    memcpy(copy, bytes, len);
    sft__import_scan_pay(s, price_of(bytes, len));
    push_string(s, part, inner, copy, room, "string");
}

/* Letters below 256, each a character, are bytes that Python's latin1 makes of them. */
void sft__import_scan_string(sft__import *job, const sft__import_scan_part *part, const void *bytes,
                             size_t len, bool walked) {
    sft__import_scan *s = job->work;

    if (s == NULL || len < LEAST || s->tired) {
        return;
    }
    sft__import_scan_text(s, part, bytes, len, true);
    if (walked) { /* what is not a pickle's lies in bytes that are gone through */
        sft__import_scan_words(s, part, bytes, len, true);
    }
    if (is_something(s, bytes, len, walked)) {
        push_copy(s, part, bytes, len, len);
    } else if (memchr(bytes, 0xc2, len) != NULL || memchr(bytes, 0xc3, len) != NULL) {
        uint8_t *latin = sft__base_alloc(job->allocator, len);
        const size_t n = latin != NULL ? sft__import_walk_latin1(latin, bytes, len) : SIZE_MAX;
        if (n != SIZE_MAX && is_something(s, latin, n, walked)) {
            push_copy(s, part, latin, n, len);
        }
        sft__base_free(job->allocator, latin, len);
    }
}

bool sft__import_scan_spent(sft__import_scan *s, const sft__import_scan_part *part) {
    if (s->job->walk_left == 0 && !s->tired) {
        too_much(s, part);
    }
    return s->tired;
}

bool sft__import_scan_skims(sft__import_scan *s, const sft__import_scan_part *part,
                            const uint8_t *bytes, size_t len, uint64_t all) {
    const bool marked = len >= 2 && bytes[0] == 0x80;
    uint64_t opcodes = 0;
    const bool met = marked ? sft__import_walk_marked(bytes, len, all, &opcodes)
                            : sft__import_walk_skims(bytes, len, &opcodes);

    sft__import_scan_pay(s, opcodes / 2);
    (void)sft__import_scan_spent(s, part);
    return met;
}

void sft__import_scan_marked(sft__import_scan *s, const sft__import_scan_part *part,
                             sft__import_scan_part inner) {
    const uint64_t place[3] = {(uint64_t)(uintptr_t)inner.source, inner.offset, s->closed};

    if (!is_text_known(s, (const uint8_t *)place, sizeof place)) {
        sft__import_scan_pay(s, 2000);
        push_string(s, part, inner, NULL, 0, "pickle");
    }
}

/* Is anything at the end of a long stretch, or behind a user block? */
static bool is_shell_there(sft__import_scan *s, const sft__import_scan_part *part) {
    const size_t len = part->size < ZIP_TAIL ? (size_t)part->size : ZIP_TAIL;
    uint8_t *tail = sft__base_alloc(s->job->allocator, len);
    bool is =
        tail != NULL &&
        sft_source_read(part->source, part->offset + part->size - len, tail, len, NULL) == SFT_OK &&
        is_shell(tail, len);
    sft__base_free(s->job->allocator, tail, len);
    for (uint64_t at = 512; at < part->size && part->size - at >= 48 && !is; at *= 2) {
        uint8_t head[8];
        is = sft_source_read(part->source, part->offset + at, head, sizeof head, NULL) == SFT_OK &&
             memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0;
    }
    return is;
}

void sft__import_scan_stretch(sft__import *job, const sft__import_scan_part *part,
                              const uint8_t *head, size_t head_len) {
    sft__import_scan *s = job->work;

    if (s == NULL || head_len < LEAST || s->tired) {
        return;
    }
    sft__import_scan_pay(s, (part->size < ZIP_TAIL ? part->size : ZIP_TAIL) / TAIL_BYTES);
    const uint64_t place[4] = {(uint64_t)(uintptr_t)part->source, part->offset, part->size,
                               s->closed};
    if ((sft__import_scan_is_file(head, head_len) || is_packed(s, head, head_len, true) ||
         is_letters(head, head_len) || is_shell_there(s, part)) &&
        !is_text_known(s, (const uint8_t *)place, sizeof place)) {
        sft__import_scan_pay(s, price_of(head, head_len));
        push_string(s, part, *part, NULL, 0, "string");
    }
}

sft_status sft__import_scan_string_part(sft__import_scan *s, const sft__import_scan_part *part,
                                        const sft__import_looked *l, sft_error *err) {
    const sft_allocator *a = s->job->allocator;

    for (size_t i = 0; i < l->head_len && i < SOME; i++) {
        if (l->head[i] >= 0x80 || (l->head[i] < ' ' && l->head[i] != '\n' && l->head[i] != '\r')) {
            return SFT_OK;
        }
    }
    const size_t len = part->size < STRING_MOST ? (size_t)part->size : STRING_MOST;
    if (len == 0) {
        return SFT_OK;
    }
    uint8_t *text = sft__base_alloc(a, len);
    SFT_NEED(text != NULL, len, err);
    const sft_status status = sft_source_read(part->source, part->offset, text, len, err);
    if (status == SFT_OK) {
        sft__import_scan_text(s, part, text, len, true);
    }
    sft__base_free(a, text, len);
    return status;
}
