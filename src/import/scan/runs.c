/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/runs.c - texts in base64 wherever they stand in a part: in the metadata of ONNX,
 * TFLite, HDF5, Arrow, GGUF, SavedModels and images, in names of members, in texts. No format is
 * known here: a run of letters is looked for in the bytes, at a stride, and what it decodes to is
 * judged by strings.c. What follows a length may be preceded by one byte that is a letter by
 * accident: a run is read from its first four places on. Read first: work.h.
 */
#include "base/memory/need.h"
#include "import/scan/work.h"

enum {
    WINDOW = 1 << 20,
    RUN_MOST = 16 << 20,
    MARK_HEAD = 4096, /* bytes of a pickle that are skimmed */
    PACKED_HEAD = 18, /* bytes of what is compressed, at the least */
    LINE_HEAD = 12,   /* letters at the beginning of a line that tell */
    STARTS = 4,
    WORD_MOST = 1 << 20 /* bytes behind a word that are decoded with it */
};

typedef struct runs {
    sft__import_scan *s;
    const sft__import_scan_part *part;
    uint8_t *bytes;
    size_t room;
    size_t again; /* last bytes of a window that are the first of the next one */
    bool letter[256];
} runs;

static void letters(runs *r) {
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_";

    for (const char *c = all; *c != '\0'; c++) {
        r->letter[(uint8_t)*c] = true;
    }
}

/* The end of the run at p: letters, with an end of line between them, or a blank where there were
 * many. */
static const uint8_t *run_end(const runs *r, const uint8_t *p, const uint8_t *end) {
    for (;;) {
        const uint8_t *row = p;
        while (p < end && r->letter[*p]) {
            p++;
        }
        const uint8_t *q = p;
        q += q < end && *q == '\r';
        q += q < end && (*q == '\n' || (*q == ' ' && p - row >= SFT__CODED_RUN));
        if (q == p || q >= end || !r->letter[*q]) {
            return p;
        }
        p = q;
    }
}

/* What pickles, gzip, zlib, bzip2, xz, zip, HDF5 and numpy begin with, in base64. */
static bool is_marked(const uint8_t *p, size_t len) {
    static const char *const marks[] = {"gAI",  "gAJ",  "gAK",    "gAM",   "gAN",   "gAO",  "gAP",
                                        "gAQ",  "gAR",  "gAS",    "gAT",   "gAU",   "gAV",  "gAW",
                                        "gAX",  "H4sI", "eJ",     "eN",    "eAE",   "eF4",  "Qlpo",
                                        "/Td6", "_Td6", "UEsDBB", "iUhER", "k05VT", "gASV", NULL};

    for (size_t i = 0; marks[i] != NULL && len >= LINE_HEAD; i++) {
        const char *m = marks[i];
        if (p[0] == (uint8_t)m[0] && memcmp(p, m, strlen(m)) == 0) {
            return true;
        }
    }
    return false;
}

/* Bytes before the run that are no text: a length may have been taken for a letter. */
static bool is_binary(uint8_t before) {
    return before >= 0x80 || (before < 0x20 && before != '\n' && before != '\r' && before != '\t');
}

static void take_run(runs *r, const uint8_t *p, const uint8_t *end, bool binary) {
    for (size_t i = 0; i < STARTS && (i == 0 || binary) && p + i < end; i++) {
        sft__import_scan_text(r->s, r->part, p + i, (size_t)(end - p) - i, i == 0);
    }
    for (const uint8_t *q = p; (q = memchr(q, '\n', (size_t)(end - q))) != NULL;) {
        q++;
        if (is_marked(q, (size_t)(end - q))) {
            sft__import_scan_text(r->s, r->part, q, (size_t)(end - q), false);
        }
    }
}

/* Is it one of a text's words that sft__import_scan_words() is for? Not what is one run of letters, unless
 * asked for; of zlib, whose mark is two letters, only a long row. */
static bool is_word_for(const bool letter[256], const uint8_t *p, const uint8_t *end,
                        bool runs_too) {
    const uint8_t *q = p;

    while (q < end && letter[*q]) {
        q++;
    }
    const bool junk = end - q >= 2 && *q != '=' && *q != '\n' && *q != '\r' && *q != ' ';
    const bool row = q - p >= SFT__CODED_RUN;
    return (p[0] != 'e' || q - p >= LINE_HEAD) && (runs_too || !row || (junk && letter[q[1]]));
}

/* Words of a text that begin as base64 of a pickle, or of something packed, does: in short rows, in
 * the middle of a sentence, behind a colon, other characters among the letters. */
void sft__import_scan_words(sft__import_scan *s, const sft__import_scan_part *part,
                            const uint8_t *text, size_t len, bool runs_too) {
    const uint8_t *end = text + len;
    bool first[256] = {false};
    bool letter[256];

    for (unsigned c = 0; c < 256; c++) {
        letter[c] = s->letters[SFT__BASE64][c] != 255;
    }
    for (const char *c = "gHeQ/_Uik"; *c != '\0'; c++) {
        first[(uint8_t)*c] = true;
    }
    for (const uint8_t *p = text; (size_t)(end - p) >= SFT__CODED_LEAST && !s->tired; p++) {
        if (first[*p] && (p == text || !letter[p[-1]]) && is_marked(p, (size_t)(end - p)) &&
            is_word_for(letter, p, end, runs_too)) {
            const size_t left = (size_t)(end - p);
            sft__import_scan_text(s, part, p, left < WORD_MOST ? left : WORD_MOST, false);
        }
    }
}

/* The first letter of the first run of SFT__BASE64_LEAST letters that begins before `end`; NULL:
 * none. A byte in so many is looked at. */
static const uint8_t *find_run(const runs *r, const uint8_t *p, const uint8_t *end) {
    const size_t step = SFT__CODED_RUN;

    while ((size_t)(end - p) >= step) {
        const uint8_t *q = p + step - 1;
        while (q >= p && r->letter[*q]) {
            q--;
        }
        if (q < p) {
            return p;
        }
        p = q + 1;
    }
    return NULL;
}

/* More room, up to RUN_MOST. */
static bool grow(runs *r) {
    return r->room < RUN_MOST &&
           sft__base_grow(r->s->job->allocator, &r->bytes, &r->room, r->room * 2, 1);
}

static void push_mark(runs *r, uint64_t at) {
    sft__import_scan_part inner = *r->part;

    inner.offset += at;
    inner.size -= at;
    sft__import_scan_marked(r->s, r->part, inner);
}

/* Pickles that say so by their first bytes, wherever they begin, in a format that is read in order:
 * tensors of bytes, attributes and fields that programs unpickle. Random bytes look up nothing. */
static void take_marks(runs *r, uint64_t at, size_t len) {
    const uint8_t *end = r->bytes + len;
    const uint8_t *p = r->bytes;

    for (; !r->s->tired && (p = memchr(p, 0x80, (size_t)(end - p))) != NULL; p++) {
        const size_t left = (size_t)(end - p) < MARK_HEAD ? (size_t)(end - p) : MARK_HEAD;
        if (left >= LINE_HEAD && p[1] >= 2 && p[1] <= 5 &&
            sft__import_scan_skims(r->s, r->part, p, left,
                                   r->part->size - at - (uint64_t)(p - r->bytes))) {
            push_mark(r, at + (uint64_t)(p - r->bytes));
        }
    }
    sft__import_scan_lookups(r->s, r->part, at, r->bytes, len);
}

/* The same of gzip and bzip2, whose marks are long; zlib's is not, it counts where a tensor begins.
 */
static void take_packed(runs *r, uint64_t at, size_t len) {
    const uint8_t *end = r->bytes + len;
    const uint8_t *p = r->bytes;

    for (; !r->s->tired && (p = memchr(p, 0x1f, (size_t)(end - p))) != NULL; p++) {
        if ((size_t)(end - p) >= PACKED_HEAD && p[1] == 0x8b && p[2] == 8 && (p[3] & 0xe0) == 0) {
            push_mark(r, at + (uint64_t)(p - r->bytes));
        }
    }
    for (p = r->bytes; !r->s->tired && (p = memchr(p, 'B', (size_t)(end - p))) != NULL; p++) {
        if ((size_t)(end - p) >= PACKED_HEAD && p[1] == 'Z' && p[2] == 'h' &&
            memcmp(p + 4, "1AY&SY", 6) == 0) {
            push_mark(r, at + (uint64_t)(p - r->bytes));
        }
    }
}

/* Where a tensor's bytes begin in the part, if they lie in one place: what they are called does not
 * matter to a program that takes them as bytes. */
static bool begins_at(const sft_tensor *t, uint64_t *at) {
    if (t->nbytes < LINE_HEAD || t->piece_count != 1 || t->pieces[0].source != 0 ||
        t->pieces[0].strides != NULL) {
        return false;
    }
    *at = t->pieces[0].offset;
    return true;
}

/* A pickle that is a tensor begins where the tensor does (TransformerEngine's _extra_state): looked
 * at where the file is larger than what is looked through; what is compressed, in any. */
sft_status sft__import_scan_heads(sft__import_scan *s, const sft__import_scan_part *part,
                                  const sft_catalog *catalog, sft_error *err) {
    uint8_t head[MARK_HEAD];
    runs r = {.s = s, .part = part, .bytes = head, .room = sizeof head};
    uint64_t at;

    for (size_t i = 0; i < sft_catalog_count(catalog); i++) {
        const sft_tensor *t = sft_catalog_at(catalog, i);
        if (s->tired || !begins_at(t, &at) || at >= part->size) {
            continue;
        }
        if (s->heads_left == 0) {
            sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "walk-limit",
                                  "more tensors of bytes than are looked at");
            break;
        }
        s->heads_left--;
        const uint64_t left = t->nbytes < part->size - at ? t->nbytes : part->size - at;
        const size_t n = left < sizeof head ? (size_t)left : sizeof head;
        SFT_TRY(sft_source_read(part->source, part->offset + at, head, n, err));
        const bool octets = t->dtype->id == SFT_U8 || t->dtype->id == SFT_I8;
        if ((octets && sft__import_scan_is_packed(s, head, n)) ||
            sft__import_scan_skims(s, part, head, n, left)) {
            push_mark(&r, at);
        } else if (part->size > s->marks_left) {
            take_marks(&r, at, n);
        }
    }
    return SFT_OK;
}

/* A tensor that was decoded: a pickle there may have no mark. */
static bool begins_tensor(const sft__import_scan_part *part) {
    return part->base == SFT_NO_OFFSET &&
           (part->container == SFT_IMPORT_HDF5 || part->container == SFT_IMPORT_KERAS);
}

/* The runs of a window; *used: bytes that are done with. */
static void take_window(runs *r, size_t len, bool last, size_t *used) {
    const uint8_t *end = r->bytes + len;
    const uint8_t *p = r->bytes;

    *used = len;
    while (!r->s->tired && (p = find_run(r, p, end)) != NULL) {
        while (p > r->bytes && r->letter[p[-1]]) {
            p--;
        }
        const uint8_t *stop = run_end(r, p, end);
        if (stop + 2 >= end && !last && p != r->bytes) { /* goes on behind the window */
            *used = (size_t)(p - r->bytes);
            return;
        }
        if (stop + 2 >= end && !last && grow(r)) {
            *used = 0;
            return;
        }
        take_run(r, p, stop, p > r->bytes ? is_binary(p[-1]) : true);
        p = stop;
    }
    if (!last && len > r->again) { /* a run, or a pickle, may begin in the last bytes */
        *used = len - r->again;
    }
}

sft_status sft__import_scan_runs(sft__import_scan *s, const sft__import_scan_part *part, bool marks,
                                 sft_error *err) {
    const uint64_t most = part->size < s->runs_left ? part->size : s->runs_left;
    runs r = {.s = s, .part = part, .again = marks ? MARK_HEAD : SFT__CODED_RUN};
    sft_status status = SFT_OK;
    bool text = false;

    if (most < SFT__CODED_RUN) {
        return SFT_OK;
    }
    s->runs_left -= most;
    letters(&r);
    SFT_TRY(sft__base_need_room(s->job->allocator, &r.bytes, &r.room,
                                most < WINDOW ? (size_t)most : WINDOW, 1, err));
    for (uint64_t at = 0; at < most && status == SFT_OK && !s->tired;) {
        const uint64_t left = most - at;
        const size_t n = left < r.room ? (size_t)left : r.room;
        size_t used;
        status = sft_source_read(part->source, part->offset + at, r.bytes, n, err);
        if (status == SFT_OK) {
            if (marks && at == 0 && begins_tensor(part) &&
                sft__import_scan_skims(s, part, r.bytes, n < MARK_HEAD ? n : MARK_HEAD,
                                       part->size)) {
                push_mark(&r, 0);
            }
            if (marks && s->marks_left >= n) {
                s->marks_left -= n;
                take_marks(&r, at, n);
                take_packed(&r, at, n);
            }
            text = at != 0 ? text : sft__import_scan_is_text(r.bytes, n, part->size);
            if (text) {
                sft__import_scan_words(s, part, r.bytes, n, false);
            }
            take_window(&r, n, n == left, &used);
            at += used;
        }
    }
    sft__base_free(s->job->allocator, r.bytes, r.room);
    return status;
}
