/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/members.c - see members.h. Source: APPNOTE.TXT 6.3, Lib/zipfile.py (_EndRecData,
 * _RealGetContents), POSIX ustar, Lib/tarfile.py.
 */
#include "import/scan/members.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include <stdio.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    ENDS = 64, /* end records that are looked at: the last ones */
    BLOCK = 512,
    UNICODE_NAME = 0x7075,
    UNICODE_HEAD = 5 /* version, CRC of the other name */
};
#define SIG_END     0x06054b50u
#define SIG_END64   0x06064b50u
#define SIG_LOCATOR 0x07064b50u
#define SIG_ENTRY   0x02014b50u
#define SIG_LOCAL   0x04034b50u

/* ---------------------------------------------------------------- zip */

typedef struct zip_end {
    uint64_t at;    /* the first of the end records */
    uint64_t begin; /* of the archive: what its offsets are counted from */
    uint64_t directory;
    uint64_t bytes; /* of the directory */
    uint64_t said;  /* where the record says that it lies */
    bool cut;       /* it would begin before the part */
    bool understood;
} zip_end;

/* What the end record at `at` says; understood: a directory can lie where it says. */
static sft_status end_read(const sft_source *source, uint64_t from, uint64_t at, const uint8_t *end,
                           zip_end *e, sft_error *err) {
    uint64_t bytes = sft__base_load_le32(end + 12);
    uint64_t directory = sft__base_load_le32(end + 16);
    uint8_t locator[LOCATOR_BYTES];
    uint8_t record[END64_BYTES];

    e->at = at;
    e->understood = false;
    if (at - from >= LOCATOR_BYTES + END64_BYTES) {
        SFT_TRY(sft_source_read(source, at - LOCATOR_BYTES, locator, sizeof locator, err));
        if (sft__base_load_le32(locator) == SIG_LOCATOR) {
            const uint64_t at64 = at - LOCATOR_BYTES - END64_BYTES;
            SFT_TRY(sft_source_read(source, at64, record, sizeof record, err));
            if (sft__base_load_le32(record) == SIG_END64) {
                bytes = sft__base_load_le64(record + 40);
                directory = sft__base_load_le64(record + 48);
                e->at = at64;
            }
        }
    }
    if (bytes > e->at - from) {
        return SFT_OK;
    }
    e->understood = true;
    e->bytes = bytes;
    e->said = directory;
    e->directory = e->at - bytes;
    e->begin = e->directory - directory; /* modulo 2^64: Python takes one whose front is cut off */
    e->cut = directory > e->directory - from;
    return SFT_OK;
}

/* Does an entry of a directory stand there? */
static bool is_entry(const sft__import_scan_part *part, uint64_t at, sft_status *status,
                     sft_error *err) {
    const uint64_t end = part->offset + part->size;
    uint8_t record[4];

    if (*status != SFT_OK || at < part->offset || at > end || end - at < ENTRY_BYTES) {
        return false;
    }
    *status = sft_source_read(part->source, at, record, sizeof record, err);
    return *status == SFT_OK && sft__base_load_le32(record) == SIG_ENTRY;
}

/* The sizes and the place of an entry, where 32 bits are not enough. */
static void entry64(const uint8_t *extra, size_t len, uint64_t value[3]) {
    for (size_t at = 0; at + 4 <= len;) {
        const size_t size = sft__base_load_le16(extra + at + 2);
        if (size > len - at - 4) {
            return;
        }
        if (sft__base_load_le16(extra + at) == 1) {
            size_t k = at + 4;
            for (size_t i = 0; i < 3; i++) {
                if (value[i] == 0xffffffffu && k + 8 <= at + 4 + size) {
                    value[i] = sft__base_load_le64(extra + k);
                    k += 8;
                }
            }
            return;
        }
        at += 4 + size;
    }
}

static sft_status zip_place(sft__import_members *m, uint64_t header, sft__import_member *member,
                            bool *there, sft_error *err) {
    uint8_t h[LOCAL_BYTES];
    uint64_t at;

    at = m->shift + header; /* modulo 2^64 */
    *there = at >= m->offset && at <= m->end && m->end - at >= LOCAL_BYTES;
    if (!*there) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read(m->source, at, h, sizeof h, err));
    const uint64_t begin =
        at + LOCAL_BYTES + sft__base_load_le16(h + 26) + sft__base_load_le16(h + 28);
    *there = sft__base_load_le32(h) == SIG_LOCAL && begin <= m->end;
    member->offset = begin;
    member->size = *there && member->size > m->end - begin ? m->end - begin : member->size;
    return SFT_OK;
}

static void member_name(sft__import_member *member, const uint8_t *name, size_t len) {
    const size_t n = len < SFT__MEMBER_NAME ? len : SFT__MEMBER_NAME - 1;

    for (size_t i = 0; i < n; i++) {
        member->name[i] = (char)(name[i] != 0 ? name[i] : '?');
    }
    member->name[n] = '\0';
    member->directory = len != 0 && name[len - 1] == '/';
}

/* The extension of a name, or its end. */
static const uint8_t *extension(const uint8_t *name, size_t len) {
    for (size_t i = len; i > 0 && name[i - 1] != '/'; i--) {
        if (name[i - 1] == '.') {
            return name + i - 1;
        }
    }
    return name + len;
}

/* Programs that know no UTF-8 wrote other letters for such: then all but the extension may differ.
 */
static bool is_spelling(const uint8_t *name, size_t len, const uint8_t *other, size_t other_len) {
    const uint8_t *a = extension(name, len);
    const uint8_t *b = extension(other, other_len);
    const size_t n = (size_t)(name + len - a);
    bool plain = true;

    for (size_t i = 0; i < len; i++) {
        plain = plain && name[i] < 0x80 && name[i] != '?' && name[i] != '#' && name[i] != '_';
    }
    return !plain && n == (size_t)(other + other_len - b) && memcmp(a, b, n) == 0;
}

/* The Unicode Path: the name by which Python from 3.12 on, unzip and 7z know the member. */
static void take_unicode(sft__import_member *member, const uint8_t *name, size_t name_len,
                         const uint8_t *extra, size_t len) {
    for (size_t at = 0; at + 4 <= len;) {
        const size_t size = sft__base_load_le16(extra + at + 2);
        if (size > len - at - 4) {
            return;
        }
        const uint8_t *other = extra + at + 4 + UNICODE_HEAD;
        const size_t n = size > UNICODE_HEAD ? size - UNICODE_HEAD : 0;
        if (sft__base_load_le16(extra + at) == UNICODE_NAME && n != 0 &&
            (n != name_len || memcmp(name, other, n) != 0)) {
            member->renamed = true;
            member->respelt = is_spelling(name, name_len, other, n);
            member_name(member, other, n);
            return;
        }
        at += 4 + size;
    }
}

static sft_status zip_next(sft__import_members *m, sft__import_member *member, bool *more,
                           sft_error *err) {
    uint8_t h[ENTRY_BYTES + 2048];
    bool there = false;

    while (!there) {
        const uint64_t left = m->stop - m->at;
        const size_t n = left < sizeof h ? (size_t)left : sizeof h;
        *more = n >= ENTRY_BYTES;
        m->whole = left == 0;
        if (!*more) {
            return SFT_OK;
        }
        SFT_TRY(sft_source_read(m->source, m->at, h, n, err));
        const size_t name_len = sft__base_load_le16(h + 28);
        const size_t extra_len = sft__base_load_le16(h + 30);
        const uint64_t used = ENTRY_BYTES + name_len + extra_len + sft__base_load_le16(h + 32);
        *more = sft__base_load_le32(h) == SIG_ENTRY && used <= left;
        if (!*more) {
            return SFT_OK;
        }
        uint64_t value[3] = {sft__base_load_le32(h + 24), sft__base_load_le32(h + 20),
                             sft__base_load_le32(h + 42)};
        const size_t have = n - ENTRY_BYTES;
        memset(member, 0, sizeof *member);
        member_name(member, h + ENTRY_BYTES, name_len < have ? name_len : have);
        if (name_len < have) {
            const uint8_t *name = h + ENTRY_BYTES;
            const size_t rest = have - name_len < extra_len ? have - name_len : extra_len;
            entry64(name + name_len, rest, value);
            take_unicode(member, name, name_len, name + name_len, rest);
        }
        member->plain = value[0];
        member->size = value[1];
        member->method = sft__base_load_le16(h + 10);
        const uint32_t mode =
            sft__base_load_le32(h + 38) >> 28; /* of Unix: 10 a link, 8 a file, 4 a directory */
        member->link = mode == 10;
        member->device = mode == 1 || mode == 2 || mode == 6;
        member->encrypted = (sft__base_load_le16(h + 8) & 0x2041) != 0;
        m->at += used;
        SFT_TRY(zip_place(m, value[2], member, &there, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- zips one behind the other */

/* The archive that ends at `end`: where it begins, which is no end of another unless *found. */
static sft_status chain_step(const sft__import_members *m, uint64_t end, uint64_t *begin,
                             bool *found, sft_error *err) {
    uint8_t record[END_BYTES];
    zip_end e;

    *found = false;
    if (end - m->offset < END_BYTES) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read(m->source, end - END_BYTES, record, sizeof record, err));
    if (sft__base_load_le32(record) != SIG_END || sft__base_load_le16(record + 20) != 0) {
        return SFT_OK;
    }
    SFT_TRY(end_read(m->source, m->offset, end - END_BYTES, record, &e, err));
    if (!e.understood || e.cut) {
        return SFT_OK;
    }
    *begin = e.begin;
    SFT_TRY(sft_source_read(m->source, e.begin, record, 4, err));
    *found = sft__base_load_le32(record) == SIG_LOCAL;
    return SFT_OK;
}

static sft_status chain_next(sft__import_members *m, sft__import_member *member, bool *more,
                             sft_error *err) {
    uint64_t begin = 0;

    m->whole = m->at == m->offset;
    *more = !m->whole;
    if (!*more) {
        return SFT_OK;
    }
    SFT_TRY(chain_step(m, m->at, &begin, more, err));
    if (*more) {
        memset(member, 0, sizeof *member);
        member->offset = begin;
        member->size = m->at - begin;
        member->plain = member->size;
        (void)snprintf(member->name, sizeof member->name, "@%llu", (unsigned long long)begin);
        m->at = begin;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- which it is */

typedef struct listing {
    sft__import_members *list;
    size_t count;
    const sft__import_scan_part *part;
    bool begins; /* with the header of a member */
    bool zipped;
} listing;

static sft__import_members *put(listing *l, sft__import_members_kind kind) {
    sft__import_members *m =
        &l->list[l->count < SFT__MEMBERS_MOST ? l->count++ : SFT__MEMBERS_MOST - 1];

    *m = (sft__import_members){.kind = kind,
                               .source = l->part->source,
                               .offset = l->part->offset,
                               .end = l->part->offset + l->part->size,
                               .at = l->part->offset};
    return m;
}

static bool is_inside(const listing *l, uint64_t at) {
    for (size_t i = 0; i < l->count; i++) {
        if (at >= l->list[i].offset && at < l->list[i].end) {
            return true;
        }
    }
    return false;
}

/* Archives one behind the other, that fill the part? */
static sft_status is_chain(const listing *l, bool *is, sft_error *err) {
    const sft__import_members m = {.source = l->part->source, .offset = l->part->offset};
    uint64_t begin = l->part->offset + l->part->size;

    *is = l->begins;
    while (*is && begin != m.offset) {
        const uint64_t end = begin;
        SFT_TRY(chain_step(&m, end, &begin, is, err));
    }
    return SFT_OK;
}

/* end: behind the record and its comment. */
static sft_status take_zip(listing *l, const zip_end *e, uint64_t end, sft_error *err) {
    const uint64_t from = l->part->offset;
    const bool last = end == from + l->part->size;
    sft_status status = SFT_OK;
    bool chain = false;

    const bool absolute =
        e->begin != from && is_entry(l->part, from + e->said, &status, err); /* as PyTorch reads */
    const bool there = is_entry(l->part, e->directory, &status, err);
    SFT_TRY(status);
    if (last && e->begin != from && !e->cut) {
        SFT_TRY(is_chain(l, &chain, err));
    }
    if (chain) {
        sft__import_members *m = put(l, SFT__MEMBERS_CHAIN);
        m->at = m->end;
        return SFT_OK;
    }
    if (absolute) {
        sft__import_members *m = put(l, SFT__MEMBERS_ZIP);
        m->at = from + e->said;
        m->stop = e->bytes < m->end - m->at ? m->at + e->bytes : m->end;
        m->shift = from;
    }
    if (e->begin != from && !e->cut && !(last && l->zipped)) {
        if (there) {
            sft__import_members *m = put(l, SFT__MEMBERS_INSIDE);
            m->offset = e->begin;
            m->end = end;
        }
    } else if (there || last) {
        sft__import_members *m = put(l, SFT__MEMBERS_ZIP);
        m->at = e->directory;
        m->stop = e->at;
        m->shift = e->begin;
    }
    return SFT_OK;
}

/* Places of the last ENDS signatures, in a ring; returns how many there were. */
static size_t find_ends(const uint8_t *tail, size_t len, size_t at[ENDS]) {
    const uint8_t *end = tail + len - END_BYTES + 1;
    const uint8_t *p = tail;
    size_t count = 0;

    while (p < end && (p = memchr(p, 'P', (size_t)(end - p))) != NULL) {
        if (sft__base_load_le32(p) == SIG_END) {
            at[count++ % ENDS] = (size_t)(p - tail);
        }
        p++;
    }
    return count;
}

/* Every end record of the last 64 KiB that is not within an archive found before: readers take the
 * last one, but for those that mind the length of its comment. */
static sft_status zip_list(listing *l, sft_error *err) {
    const sft__import_scan_part *part = l->part;
    const size_t len = part->size < SFT__MEMBERS_TAIL ? (size_t)part->size : SFT__MEMBERS_TAIL;
    const uint64_t base = part->offset + part->size - len;
    const sft_allocator *a = sft__base_allocator(NULL);
    size_t at[ENDS];
    sft_status status;
    zip_end e;

    uint8_t *tail = sft__base_alloc(a, len);
    SFT_NEED(tail != NULL, len, err);
    status = sft_source_read(part->source, base, tail, len, err);
    const size_t found = status == SFT_OK ? find_ends(tail, len, at) : 0;
    for (size_t n = 0; n < found && n < ENDS && status == SFT_OK; n++) {
        const size_t i = at[(found - 1 - n) % ENDS];
        if (is_inside(l, base + i) || l->count + 3 > SFT__MEMBERS_MOST) {
            continue;
        }
        status = end_read(part->source, part->offset, base + i, tail + i, &e, err);
        if (status != SFT_OK || !e.understood) {
            continue;
        }
        const size_t comment = sft__base_load_le16(tail + i + 20);
        const size_t room = len - i - END_BYTES;
        status = take_zip(l, &e, base + i + END_BYTES + (comment < room ? comment : room), err);
    }
    sft__base_free(a, tail, len);
    return status;
}

sft_status sft__import_members_list(sft__import_members *list, size_t *count,
                                    const sft__import_scan_part *part, bool zipped,
                                    sft_error *err) {
    listing l = {.list = list, .part = part, .zipped = zipped};
    uint8_t head[BLOCK];

    *count = 0;
    if (part->size < END_BYTES) {
        return SFT_OK;
    }
    memset(head, 0, sizeof head);
    SFT_TRY(sft_source_read(part->source, part->offset, head,
                            part->size < sizeof head ? (size_t)part->size : sizeof head, err));
    l.begins = sft__base_load_le32(head) == SIG_LOCAL;
    SFT_TRY(zip_list(&l, err));
    if (part->size >= BLOCK && sft__import_tar_is_header(head)) {
        (void)put(&l, SFT__MEMBERS_TAR);
    }
    *count = l.count;
    return SFT_OK;
}

sft_status sft__import_members_next(sft__import_members *m, sft__import_member *member, bool *more,
                                    sft_error *err) {
    return m->kind == SFT__MEMBERS_ZIP   ? zip_next(m, member, more, err)
           : m->kind == SFT__MEMBERS_TAR ? sft__import_tar_next(m, member, more, err)
                                         : chain_next(m, member, more, err);
}
