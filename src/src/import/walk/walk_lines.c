/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_lines.c - pickles that begin behind a line of a text: a program may read a line,
 * or lines, before it unpickles. Opcodes are followed without a stack, from the last line to the
 * first; each byte is met once, for what follows it is known by then. Lines from which a name and
 * then a call or a STOP is met that way, hardly any in words, are walked. Read first: walk.h.
 */
#include "import/walk/walk.h"

enum { LINES_MOST = 64 << 20, PATH_KEPT = 64, LINE_COST = 128 };

/* What is known of the opcode that begins at a byte. */
typedef struct lines {
    const uint8_t *text;
    size_t len;
    uint8_t *known; /* a bit for each byte */
    uint8_t *acts;  /* a call or a STOP is met from there on, */
    uint8_t *names; /* and a name before */
} lines;

static bool bit(const uint8_t *bits, size_t at) {
    return (bits[at / 8] >> at % 8 & 1) != 0;
}

static void bit_set(uint8_t *bits, size_t at, bool value) {
    if (value) {
        bits[at / 8] |= (uint8_t)(1u << at % 8);
    }
}

static bool is_name(uint8_t op) {
    return op == 'c' || op == 'i' || op == 0x93;
}

static bool is_act(uint8_t op) {
    return op == '.' || op == 'R' || op == 'o' || op == 'i' || op == 0x81 || op == 0x92;
}

/* The opcodes from one on, up to where all is known or nothing follows. */
typedef struct way {
    size_t path[PATH_KEPT]; /* the first of them */
    size_t count;
    size_t stop;  /* SIZE_MAX: nothing follows */
    size_t name;  /* behind the last name, 0: none */
    size_t named; /* behind the last name that an act follows */
    size_t act;   /* behind the last act */
} way;

static void follow(const lines *l, size_t from, way *f) {
    f->stop = from;
    f->count = f->name = f->named = f->act = 0;
    while (f->stop < l->len && !bit(l->known, f->stop)) {
        const uint8_t op = l->text[f->stop];
        const size_t next = sft__import_walk_opcode(l->text, f->stop, l->len);
        if (f->count < PATH_KEPT) {
            f->path[f->count] = f->stop;
        }
        f->count++;
        if (next == SIZE_MAX) {
            f->stop = next;
            return;
        }
        f->name = is_name(op) ? f->stop + 1 : f->name;
        f->act = is_act(op) ? f->stop + 1 : f->act;
        f->named = is_act(op) ? f->name : f->named;
        f->stop = next;
    }
    f->stop = f->stop < l->len ? f->stop : SIZE_MAX;
}

/* Notes it of every opcode on the way. */
static void learn(lines *l, size_t from) {
    size_t at = from;
    way f;

    follow(l, from, &f);
    const bool act = f.stop != SIZE_MAX && bit(l->acts, f.stop);
    const bool name = f.stop != SIZE_MAX && bit(l->names, f.stop);

    for (size_t i = 0; i < f.count; i++) {
        at = i < PATH_KEPT ? f.path[i] : sft__import_walk_opcode(l->text, at, l->len);
        bit_set(l->known, at, true);
        bit_set(l->acts, at, act || at < f.act);
        bit_set(l->names, at, name || at < f.named || (at < f.name && act));
    }
}

/* The line that begins at `at` may be a pickle. */
static sft_status walk_line(sft__import *job, const sft__import_scan_part *part, size_t at,
                            sft_error *err) {
    sft__import_scan_part line = *part;

    line.offset += at;
    line.size -= at;
    line.flags |= SFT__SCAN_LINE;
    job->walk_left -= job->walk_left < LINE_COST ? job->walk_left : LINE_COST; /* then it says so */
    return sft__import_scan_walk(job, &line, err);
}

static sft_status walk_all(sft__import *job, const sft__import_scan_part *part, lines *l,
                           sft_error *err) {
    for (size_t at = l->len; at-- > 1;) {
        if (l->text[at - 1] == '\n' && sft__import_walk_ops[l->text[at]] != NULL &&
            !bit(l->known, at)) {
            learn(l, at);
        }
    }
    for (size_t at = 1; at < l->len && job->walk_left != 0; at++) {
        if (at % 8 == 0 && l->names[at / 8] == 0) {
            at += 7;
        } else if (l->text[at - 1] == '\n' && bit(l->names, at)) {
            SFT_TRY(walk_line(job, part, at, err));
        }
    }
    return SFT_OK;
}

sft_status sft__import_scan_walk_lines(sft__import *job, const sft__import_scan_part *part,
                                       sft_error *err) {
    const sft_allocator *a = job->allocator;
    lines l = {.len = (size_t)part->size};
    const size_t bits = l.len / 8 + 1;

    if (part->size < 4 || part->size > LINES_MOST) {
        return SFT_OK;
    }
    uint8_t *text = sft__base_alloc(a, l.len);
    uint8_t *all = text != NULL ? sft__base_alloc_zero(a, 3 * bits) : NULL;
    sft_status status = all != NULL ? sft_source_read(part->source, part->offset, text, l.len, err)
                                    : sft__base_fail_nomem(err, l.len);
    if (status == SFT_OK) {
        l.text = text;
        l.known = all;
        l.acts = all + bits;
        l.names = all + 2 * bits;
        status = walk_all(job, part, &l, err);
    }
    sft__base_free(a, all, 3 * bits);
    sft__base_free(a, text, l.len);
    return status;
}
