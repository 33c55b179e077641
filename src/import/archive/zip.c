/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/archive/zip.c - see zip.h. The rules, each the name of an error and of a finding:
 *   zip-end        one end record, whose comment ends with the file; nothing before the first member
 *   zip-two-ends   no second end record can be found in the comment
 *   zip-64         the zip64 record and the end record agree
 *   zip-directory  the directory holds exactly the entries and bytes that the end record says, and ends at it
 *   zip-name       UTF-8, relative, no "..", no backslash, no control character, no directory with data
 *   zip-duplicate  no name twice, not even in another case
 *   zip-method     stored or deflated; not encrypted, not patched
 *   zip-local      the local header says what the directory says
 *   zip-overlap    members lie one after the other, without sharing a byte
 *   zip-hidden     nothing between them that the directory does not name
 *   zip-descriptor the data descriptor says what the directory says
 *   zip-crc, zip-ratio, zip-inflate, zip-deflate: of the bytes
 */
#include "import/archive/zip.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/utf8.h"
#include <stdlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MAX = 65535,
    ENTRIES_MAX = 1 << 20,
    FLAG_DESCRIPTOR = 0x0008,
    FLAG_UTF8 = 0x0800,
    FLAG_LEVEL = 0x0006, /* how hard it was compressed: says nothing to a reader */
    METHOD_DEFLATE = 8
};
#define SIG_END     0x06054b50u
#define SIG_END64   0x06064b50u
#define SIG_LOCATOR 0x07064b50u
#define SIG_ENTRY   0x02014b50u
#define SIG_LOCAL   0x04034b50u
#define SIG_DESC    0x08074b50u

/* What the end records say. */
typedef struct zip_end {
    uint64_t at; /* of the end record */
    uint64_t entries;
    uint64_t bytes;     /* of the directory */
    uint64_t directory; /* its offset */
    uint64_t behind;    /* where the directory must end: the first of the end records */
} zip_end;

/* Contradictions that no reader should look past: an error when loading and when scanning. */
static sft_status wrong(sft__import *job, const char *rule, uint64_t offset, sft_error *err,
                        const char *text) {
    if (job->scanning) {
        sft__import_find(job, SFT__RULE(CONTAINER, DANGEROUS, rule), SFT__AT("", 0, offset), "%s",
                         text);
    }
    return sft__base_fail_at(err, SFT_E_SCHEMA, offset, "%s: %s", rule, text);
}

/* ---------------------------------------------------------------- reading here and there */

enum { WINDOW = 32768, GLANCE = 512 };

/* Headers of small members lie close together: then one read serves many. */
typedef struct zip_window {
    const sft_source *source;
    uint64_t at;
    size_t len;
    uint64_t headers; /* bytes of all local headers so far: there are no more than before the
                         directory */
    uint8_t bytes[WINDOW];
} zip_window;

/* n bytes (at most GLANCE) at `offset`, which the file has. */
static sft_status glance(zip_window *w, uint64_t offset, size_t n, const uint8_t **bytes,
                         sft_error *err) {
    if (offset < w->at || offset - w->at > w->len || w->len - (size_t)(offset - w->at) < n) {
        const uint64_t left = sft_source_size(w->source) - offset;
        const bool near = offset >= w->at && offset - w->at < w->len + WINDOW;
        const uint64_t most = near ? WINDOW : GLANCE;
        const size_t len = left < most ? (size_t)left : (size_t)most;
        w->len = 0;
        SFT_TRY(sft_source_read(w->source, offset, w->bytes, len, err));
        w->at = offset;
        w->len = len;
    }
    *bytes = w->bytes + (size_t)(offset - w->at);
    return SFT_OK;
}

/* ---------------------------------------------------------------- the end records */

/* The last end record in the last bytes whose comment ends with the file. *others: how many more a
 * reader could take: in its comment, or before it with a comment that reaches the end too. *loose:
 * without such a comment, the last one. */
static size_t end_search(const uint8_t *tail, size_t len, size_t *others, size_t *loose) {
    size_t found = SIZE_MAX;

    *others = 0;
    *loose = SIZE_MAX;
    for (size_t i = len >= END_BYTES ? len - END_BYTES + 1 : 0; i-- > 0;) {
        if (sft__base_load_le32(tail + i) != SIG_END) {
            continue;
        }
        const bool reaches = i + END_BYTES + sft__base_load_le16(tail + i + 20) == len;
        *loose = *loose == SIZE_MAX ? i : *loose;
        if (found == SIZE_MAX && reaches) {
            found = i;
        } else if (found == SIZE_MAX || reaches) {
            (*others)++;
        }
    }
    return found;
}

static sft_status end64_read(sft__import *job, const uint8_t *end, zip_end *e, sft_error *err) {
    uint8_t record[END64_BYTES];
    uint8_t locator[LOCATOR_BYTES];

    if (e->at < LOCATOR_BYTES + END64_BYTES) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read(job->file, e->at - LOCATOR_BYTES, locator, sizeof locator, err));
    if (sft__base_load_le32(locator) != SIG_LOCATOR) {
        return SFT_OK;
    }
    const uint64_t at = sft__base_load_le64(locator + 8);
    if (sft__base_load_le32(locator + 4) != 0 || sft__base_load_le32(locator + 16) > 1 ||
        at != e->at - LOCATOR_BYTES - END64_BYTES) {
        return wrong(job, "zip-64", e->at - LOCATOR_BYTES, err,
                     "the locator does not point at a zip64 record right before it");
    }
    SFT_TRY(sft_source_read(job->file, at, record, sizeof record, err));
    if (sft__base_load_le32(record) != SIG_END64 ||
        sft__base_load_le64(record + 4) != END64_BYTES - 12 ||
        sft__base_load_le32(record + 16) != 0 || sft__base_load_le32(record + 20) != 0 ||
        sft__base_load_le64(record + 24) != sft__base_load_le64(record + 32)) {
        return wrong(job, "zip-64", at, err, "the zip64 end record is damaged");
    }
    const uint64_t entries = sft__base_load_le64(record + 32);
    const uint64_t bytes = sft__base_load_le64(record + 40);
    const uint64_t directory = sft__base_load_le64(record + 48);
    const uint32_t entries16 = sft__base_load_le16(end + 10);
    const uint32_t bytes32 = sft__base_load_le32(end + 12);
    const uint32_t directory32 = sft__base_load_le32(end + 16);
    if ((entries16 != 0xffff && entries16 != entries) ||
        (bytes32 != 0xffffffffu && bytes32 != bytes) ||
        (directory32 != 0xffffffffu && directory32 != directory)) {
        return wrong(job, "zip-64", at, err, "the zip64 record and the end record disagree");
    }
    e->entries = entries;
    e->bytes = bytes;
    e->directory = directory;
    e->behind = at;
    return SFT_OK;
}

static sft_status end_parse(sft__import *job, const uint8_t *end, zip_end *e, sft_error *err) {
    if (sft__base_load_le16(end + 4) != 0 || sft__base_load_le16(end + 6) != 0 ||
        sft__base_load_le16(end + 8) != sft__base_load_le16(end + 10)) {
        return wrong(job, "zip-end", e->at, err, "the archive is said to span several disks");
    }
    e->entries = sft__base_load_le16(end + 10);
    e->bytes = sft__base_load_le32(end + 12);
    e->directory = sft__base_load_le32(end + 16);
    e->behind = e->at;
    SFT_TRY(end64_read(job, end, e, err));
    uint64_t stop;
    if (!sft__base_add64(e->directory, e->bytes, &stop) || stop != e->behind) {
        return wrong(job, "zip-directory", e->at, err,
                     "the directory does not lie where the end record says, right before it");
    }
    if (e->entries > ENTRIES_MAX || e->entries * ENTRY_BYTES > e->bytes) {
        return wrong(job, "zip-directory", e->at, err,
                     "the end record counts more entries than the directory can hold");
    }
    return SFT_OK;
}

static sft_status end_find(sft__import *job, zip_end *e, sft_error *err) {
    const uint64_t size = sft_source_size(job->file);
    const size_t len = size < END_BYTES + COMMENT_MAX ? (size_t)size : END_BYTES + COMMENT_MAX;
    size_t others;
    size_t loose;
    uint8_t *tail;

    SFT_TRY(sft__import_alloc(job, &tail, len, 1, err));
    SFT_TRY(sft_source_read(job->file, size - len, tail, len, err));
    size_t at = end_search(tail, len, &others, &loose);
    if (at == SIZE_MAX && loose != SIZE_MAX) {
        SFT_TRY(sft__import_trick(job, SFT__RULE(CONTAINER, UNKNOWN, "zip-end"),
                                  SFT__AT("", 0, size - len + loose), err,
                                  "bytes follow the end record"));
        at = loose;
    } else if (at == SIZE_MAX) {
        return sft__base_fail_at(
            err, SFT_E_SCHEMA, size,
            "zip-end: there is no end record: the file is cut short, or no zip");
    } else if (others != 0) {
        SFT_TRY(sft__import_trick(job, SFT__RULE(CONTAINER, DANGEROUS, "zip-two-ends"),
                                  SFT__AT("", 0, size - len + at), err,
                                  "there are two end records: readers disagree which one counts"));
    }
    e->at = size - len + at;
    return end_parse(job, tail + at, e, err);
}

/* ---------------------------------------------------------------- one entry */

/* The 64-bit fields of an entry, in the order of the format, each only where the 32-bit one is all
 * ones. Numpy writes the field where it is not needed, too: then it must agree. */
static bool extra64(const uint8_t *extra, size_t len, const uint32_t need[3], uint64_t value[3]) {
    bool seen = false;
    size_t wanted = 0;

    for (size_t i = 0; i < 3; i++) {
        wanted += need[i] == 0xffffffffu;
    }
    for (size_t at = 0; at + 4 <= len;) {
        const size_t size = sft__base_load_le16(extra + at + 2);
        const uint32_t id = sft__base_load_le16(extra + at);
        if (size > len - at - 4) {
            return false;
        }
        if (id == 1) {
            size_t k = at + 4;
            if (seen) {
                return false;
            }
            seen = true;
            for (size_t i = 0; i < 3; i++) {
                if (need[i] == 0xffffffffu) {
                    if (k + 8 > at + 4 + size) {
                        return false;
                    }
                    value[i] = sft__base_load_le64(extra + k);
                    k += 8;
                }
            }
        }
        at += 4 + size;
    }
    return wanted == 0 || seen;
}

bool sft__import_zip_name_is_safe(const char *name, size_t len) {
    if (len == 0 || name[0] == '/' || sft__base_utf8_valid(name, len) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((uint8_t)name[i] < 0x20 || name[i] == '\\' || name[i] == 0x7f) {
            return false;
        }
        const bool first = i == 0 || name[i - 1] == '/';
        if (first && name[i] == '.' && i + 1 < len && name[i + 1] == '.' &&
            (i + 2 == len || name[i + 2] == '/')) {
            return false;
        }
    }
    return len < 2 || name[1] != ':';
}

static sft_status entry_flags(sft__import *job, const sft__import_zip_entry *z, uint64_t at,
                              sft_error *err) {
    const uint32_t known = FLAG_DESCRIPTOR | FLAG_UTF8 | (z->method != 0 ? FLAG_LEVEL : 0);

    if ((z->flags & ~known) != 0) {
        SFT_TRY(sft__import_trick(
            job, SFT__RULE(CONTAINER, DANGEROUS, "zip-flags"), sft__import_text_at(z->name, at),
            err,
            "flag bits that no writer of weights sets (encryption, patches): scanners "
            "stumble over them, loaders do not"));
    }
    if (z->method != 0 && z->method != METHOD_DEFLATE) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, at,
                                 "zip-method: member %s has the method %u, only "
                                 "stored (0) and deflated (8) are read",
                                 z->name, (unsigned)z->method);
    }
    if (z->method == 0 && z->csize != z->usize) {
        return wrong(job, "zip-method", at, err, "a stored member has two sizes");
    }
    return SFT_OK;
}

/* The Unicode Path (0x7075), if it says another name: Python from 3.12 on takes that one. */
static bool is_renamed(const uint8_t *extra, size_t len, const char *name, size_t name_len) {
    for (size_t at = 0; at + 4 <= len;) {
        const size_t size = sft__base_load_le16(extra + at + 2);
        if (size > len - at - 4) {
            return false;
        }
        if (sft__base_load_le16(extra + at) == 0x7075 && size > 5 &&
            (size - 5 != name_len || memcmp(extra + at + 9, name, name_len) != 0)) {
            return true;
        }
        at += 4 + size;
    }
    return false;
}

/* The directory, and how far it was read. */
typedef struct zip_directory {
    const uint8_t *bytes;
    size_t len;
    size_t at;
    uint64_t offset; /* in the file */
} zip_directory;

/* The entry that comes next. */
static sft_status entry_parse(sft__import *job, zip_directory *d, sft__import_zip_entry *z,
                              sft_error *err) {
    const uint8_t *dir = d->bytes + d->at;
    const size_t left = d->len - d->at;
    const uint64_t at = d->offset + d->at;

    if (left < ENTRY_BYTES || sft__base_load_le32(dir) != SIG_ENTRY) {
        return wrong(job, "zip-directory", at, err, "no directory entry where one must be");
    }
    const size_t name_len = sft__base_load_le16(dir + 28);
    const size_t extra_len = sft__base_load_le16(dir + 30);
    const size_t comment_len = sft__base_load_le16(dir + 32);
    const size_t used = ENTRY_BYTES + name_len + extra_len + comment_len;
    if (used > left || sft__base_load_le16(dir + 34) != 0) {
        return wrong(job, "zip-directory", at, err, "a directory entry reaches past the directory");
    }
    d->at += used;
    const uint32_t need[3] = {sft__base_load_le32(dir + 24), sft__base_load_le32(dir + 20),
                              sft__base_load_le32(dir + 42)};
    uint64_t value[3] = {need[0], need[1], need[2]};
    const char *name = (const char *)dir + ENTRY_BYTES;
    if (!extra64(dir + ENTRY_BYTES + name_len, extra_len, need, value)) {
        return wrong(job, "zip-64", at, err, "the 64-bit sizes of an entry are damaged");
    }
    z->usize = value[0];
    z->csize = value[1];
    z->header = value[2];
    z->flags = sft__base_load_le16(dir + 8);
    z->method = sft__base_load_le16(dir + 10);
    z->crc32 = sft__base_load_le32(dir + 16);
    z->name_len = name_len;
    char *copy;
    SFT_TRY(sft__import_copy(job, &copy, name, name_len, err));
    z->name = copy;
    if (!sft__import_zip_name_is_safe(z->name, name_len)) {
        return wrong(job, "zip-name", at, err,
                     "a member's name is empty, absolute, not UTF-8, or leads elsewhere");
    }
    if (is_renamed(dir + ENTRY_BYTES + name_len, extra_len, name, name_len)) {
        SFT_TRY(sft__import_trick(
            job, SFT__RULE(CONTAINER, UNKNOWN, "zip-local"), sft__import_text_at(z->name, at), err,
            "an extra field gives the member another name, which some programs take"));
    }
    return entry_flags(job, z, at, err);
}

/* ---------------------------------------------------------------- local headers */

static sft_status local_sizes(sft__import *job, const sft__import_zip_entry *z, const uint8_t *h,
                              const uint8_t *extra, size_t extra_len, sft_error *err) {
    const uint32_t need[3] = {sft__base_load_le32(h + 22), sft__base_load_le32(h + 18), 0};
    uint64_t value[3] = {need[0], need[1], 0};
    const uint32_t crc = sft__base_load_le32(h + 14);

    if (!extra64(extra, extra_len, need, value)) {
        return wrong(job, "zip-64", z->header, err, "the 64-bit sizes of a member are damaged");
    }
    const bool later = (z->flags & FLAG_DESCRIPTOR) != 0;
    /* each as it is, or not known yet: macOS writes the size alone */
    const bool sizes = (value[0] == z->usize || (later && value[0] == 0)) &&
                       (value[1] == z->csize || (later && value[1] == 0));
    if (!sizes || !(crc == z->crc32 || (later && crc == 0))) {
        SFT_TRY(sft__import_trick(
            job, SFT__RULE(CONTAINER, DANGEROUS, "zip-local"),
            sft__import_text_at(z->name, z->header), err,
            "the local header has other sizes or another CRC than the directory"));
    }
    return SFT_OK;
}

static sft_status local_read(sft__import *job, zip_window *w, sft__import_zip_entry *z,
                             const zip_end *e, uint8_t **room, sft_error *err) {
    const uint8_t *h;
    uint64_t stop;

    if (z->header > e->directory || e->directory - z->header < LOCAL_BYTES) {
        return wrong(job, "zip-local", z->header, err,
                     "a member lies behind the directory that names it");
    }
    const uint64_t most = e->directory - z->header;
    SFT_TRY(glance(w, z->header, LOCAL_BYTES, &h, err));
    const size_t name_len = sft__base_load_le16(h + 26);
    const size_t extra_len = sft__base_load_le16(h + 28);
    const size_t all = LOCAL_BYTES + name_len + extra_len;
    if (sft__base_load_le32(h) != SIG_LOCAL || all > most) {
        return wrong(job, "zip-local", z->header, err, "no local header where the directory says");
    }
    if (all <= GLANCE) {
        SFT_TRY(glance(w, z->header, all, &h, err));
    } else {
        if (*room == NULL) {
            SFT_TRY(sft__import_alloc(job, room, LOCAL_BYTES + 2 * 65536 + 128, 1, err));
        }
        SFT_TRY(sft_source_read(job->file, z->header, *room, all, err));
        h = *room;
    }
    if (name_len != z->name_len || memcmp(h + LOCAL_BYTES, z->name, name_len) != 0) {
        SFT_TRY(sft__import_trick(job, SFT__RULE(CONTAINER, DANGEROUS, "zip-local"),
                                  sft__import_text_at(z->name, z->header), err,
                                  "the local header names another member than the directory"));
    }
    if (sft__base_load_le16(h + 6) != z->flags || sft__base_load_le16(h + 8) != z->method) {
        SFT_TRY(sft__import_trick(
            job, SFT__RULE(CONTAINER, DANGEROUS, "zip-local"),
            sft__import_text_at(z->name, z->header), err,
            "the local header has other flags or another method than the directory"));
    }
    SFT_TRY(local_sizes(job, z, h, h + LOCAL_BYTES + name_len, extra_len, err));
    z->data = z->header + all;
    if (!sft__base_add64(z->data, z->csize, &stop) || stop > e->directory) {
        return wrong(job, "zip-local", z->header, err, "a member reaches into the directory");
    }
    w->headers += all;
    return w->headers <= e->directory
               ? SFT_OK
               : wrong(job, "zip-overlap", z->header, err, "members share their local headers");
}

/* The data descriptor between a member and the next: with or without signature, 32 or 64 bits. Its
 * length goes to *len, 0 if what is there is none. */
static sft_status descriptor(zip_window *w, const sft__import_zip_entry *z, uint64_t room,
                             uint64_t *len, sft_error *err) {
    uint8_t d[24];
    const uint8_t *there;
    const size_t n = room < sizeof d ? (size_t)room : sizeof d;

    *len = 0;
    memset(d, 0, sizeof d);
    if (n >= 12) {
        SFT_TRY(glance(w, z->data + z->csize, n, &there, err));
        memcpy(d, there, n);
    }
    for (size_t signature = 0; signature < 2; signature++) {
        const uint8_t *p = d + 4 * signature;
        if (signature == 1 && sft__base_load_le32(d) != SIG_DESC) {
            continue;
        }
        if (sft__base_load_le32(p) != z->crc32) {
            continue;
        }
        const size_t at = (size_t)(p - d);
        if (n >= at + 20 && sft__base_load_le64(p + 4) == z->csize &&
            sft__base_load_le64(p + 12) == z->usize) {
            *len = at + 20;
        } else if (n >= at + 12 && sft__base_load_le32(p + 4) == z->csize &&
                   sft__base_load_le32(p + 8) == z->usize) {
            *len = at + 12;
        }
    }
    return SFT_OK;
}

static int by_header(const void *a, const void *b) {
    const sft__import_zip_entry *x = *(const sft__import_zip_entry *const *)a;
    const sft__import_zip_entry *y = *(const sft__import_zip_entry *const *)b;
    return x->header < y->header ? -1 : x->header > y->header;
}

/* Members one after the other from byte 0 to the directory, nothing shared and nothing between. */
static sft_status lay_out(sft__import_zip *zip, sft__import *job, zip_window *w, const zip_end *e,
                          sft_error *err) {
    const sft__import_zip_entry **sorted;
    uint64_t at = 0;

    SFT_TRY(sft__import_alloc(job, &sorted, zip->count, sizeof *sorted, err));
    for (size_t i = 0; i < zip->count; i++) {
        sorted[i] = &zip->entries[i];
    }
    qsort(sorted, zip->count, sizeof *sorted, by_header);
    for (size_t i = 0; i <= zip->count; i++) {
        const sft__import_zip_entry *z = i < zip->count ? sorted[i] : NULL;
        const uint64_t next = z != NULL ? z->header : e->directory;
        const char *name = z != NULL ? z->name : "";
        uint64_t len = 0;
        if (next < at) {
            return wrong(job, "zip-overlap", next, err, "two members share bytes");
        }
        const sft__import_zip_entry *before = i > 0 ? sorted[i - 1] : NULL;
        if (before != NULL && (before->flags & FLAG_DESCRIPTOR) != 0) {
            SFT_TRY(descriptor(w, before, next - at, &len, err));
            if (len == 0) {
                SFT_TRY(sft__import_trick(
                    job, SFT__RULE(CONTAINER, UNKNOWN, "zip-descriptor"),
                    sft__import_text_at(before->name, at), err,
                    "the data descriptor is missing or says something else than the "
                    "directory"));
            }
        }
        if (next != at + len) {
            SFT_TRY(sft__import_trick(
                job, SFT__RULE(CONTAINER, UNKNOWN, i == 0 ? "zip-end" : "zip-hidden"),
                sft__import_text_at(name, at), err, "%s",
                i == 0 ? "bytes stand before the first member"
                       : "bytes lie between members that no entry names"));
        }
        at = z != NULL ? z->data + z->csize : at;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- all of it */

/* "./a", "a//b": the place that a program which unpacks would write to. */
static size_t plain_name(char *name, size_t len) {
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        const bool begins = n == 0 || name[n - 1] == '/';
        if (begins && i + 1 < len && name[i] == '.' && name[i + 1] == '/') {
            i += 2;
        } else if (begins && n != 0 && name[i] == '/') {
            i++;
        } else {
            name[n++] = name[i++];
        }
    }
    name[n] = '\0';
    return n;
}

/* Names must differ even for readers that do not mind case, as PyTorch's does not. */
static sft_status names_check(sft__import_zip *zip, sft__import *job, sft_error *err) {
    sft__base_strmap folded;
    sft_status status = SFT_OK;
    sft__import_zip_entry *lower;

    SFT_TRY(sft__import_alloc(job, &lower, zip->count, sizeof *lower, err));
    for (size_t i = 0; i < zip->count; i++) {
        lower[i] = zip->entries[i];
        char *name;
        SFT_TRY(sft__import_copy(job, &name, lower[i].name, lower[i].name_len, err));
        for (size_t k = 0; k < lower[i].name_len; k++) {
            const bool upper = name[k] >= 'A' && name[k] <= 'Z' && !job->exact_names;
            name[k] = (char)(upper ? name[k] + 0x20 : name[k]);
        }
        lower[i].name_len = plain_name(name, lower[i].name_len);
        lower[i].name = name;
    }
    SFT_NEED(sft__base_strmap_init(&folded, lower, sizeof *lower, zip->count, job->allocator),
             zip->count * 16, err);
    for (size_t i = 0; i < zip->count && status == SFT_OK; i++) {
        if (sft__base_strmap_add(&folded, i) != SFT__STRMAP_NONE) {
            status = sft__import_trick(
                job, SFT__RULE(CONTAINER, DANGEROUS, "zip-duplicate"),
                sft__import_text_at(zip->entries[i].name, zip->entries[i].header), err,
                "two members of one name: PyTorch takes the first, Python the last");
        }
    }
    sft__base_strmap_reset(&folded);
    return status;
}

static sft_status entries_read(sft__import_zip *zip, sft__import *job, zip_window *w,
                               const zip_end *e, sft_error *err) {
    zip_directory d = {.offset = e->directory};
    uint8_t *dir;
    uint8_t *room = NULL; /* for long headers, made when one is met */

    if (!sft__base_size_from_u64(e->bytes, &d.len)) {
        return sft__base_fail_at(err, SFT_E_LIMIT, e->directory, "zip-directory: too large");
    }
    SFT_TRY(sft__import_alloc(job, &dir, d.len, 1, err));
    SFT_TRY(sft__import_alloc(job, &zip->entries, (size_t)e->entries, sizeof *zip->entries, err));
    if (d.len != 0) {
        SFT_TRY(sft_source_read(job->file, e->directory, dir, d.len, err));
    }
    d.bytes = dir;
    for (size_t i = 0; i < e->entries; i++) {
        SFT_TRY(entry_parse(job, &d, &zip->entries[i], err));
        zip->count++;
        SFT_TRY(local_read(job, w, &zip->entries[i], e, &room, err));
    }
    if (d.at != d.len) {
        return wrong(job, "zip-directory", e->directory + d.at, err,
                     "the directory holds more than the end record counts");
    }
    return SFT_OK;
}

sft_status sft__import_zip_open(sft__import_zip *zip, sft__import *job, sft_error *err) {
    zip_window *w;
    zip_end e;

    memset(zip, 0, sizeof *zip);
    memset(&e, 0, sizeof e);
    SFT_TRY(end_find(job, &e, err));
    zip->directory = e.directory;
    SFT_TRY(sft__import_alloc(job, &w, 1, sizeof *w, err));
    w->source = job->file;
    w->at = 0;
    w->len = 0;
    w->headers = 0;
    SFT_TRY(entries_read(zip, job, w, &e, err));
    SFT_TRY(names_check(zip, job, err));
    SFT_TRY(lay_out(zip, job, w, &e, err));
    SFT_NEED(sft__base_strmap_init(&zip->names, zip->entries, sizeof *zip->entries, zip->count,
                                   job->allocator),
             zip->count * 16, err);
    for (size_t i = 0; i < zip->count; i++) {
        (void)sft__base_strmap_add(&zip->names, i); /* of two, the first: as PyTorch does */
    }
    return SFT_OK;
}

void sft__import_zip_reset(sft__import_zip *zip) {
    if (zip->names.slots != NULL) {
        sft__base_strmap_reset(&zip->names);
    }
}

const sft__import_zip_entry *sft__import_zip_find(const sft__import_zip *zip, const char *name,
                                                  size_t name_len) {
    const size_t i = sft__base_strmap_find(&zip->names, name, name_len);
    return i != SFT__STRMAP_NONE ? &zip->entries[i] : NULL;
}

bool sft__import_zip_probe(const sft__import_probe *p) {
    return p->head_len >= 4 && sft__base_load_le32(p->head) == SIG_LOCAL;
}

sft_status sft__import_zip_place(sft__import *job, const sft__import_zip_entry *entry,
                                 uint32_t *source, const sft_source **bytes, uint64_t *offset,
                                 sft_error *err) {
    sft_source *made;
    const sft__import_deflated d = {entry->data, entry->csize, entry->usize, entry->crc32,
                                    0,           entry->name};

    if (entry->method == 0) {
        *source = job->file_source;
        *bytes = job->file;
        *offset = entry->data;
        return SFT_OK;
    }
    SFT_TRY(sft__import_source_inflate(&made, job, &d, err));
    *bytes = made;
    *offset = 0;
    return sft_builder_add_source(job->builder, made, source, err);
}

static sft_status crc_verdict(sft__import *job, const sft__import_zip_entry *entry, uint32_t crc,
                              sft_error *err) {
    if (crc == entry->crc32 || (job->options.flags & SFT_IMPORT_NO_CRC) != 0) {
        return SFT_OK;
    }
    if (job->scanning) {
        sft__import_find(job, SFT__RULE(CONTAINER, UNKNOWN, "zip-crc"),
                         SFT__NAMED(entry, entry->data),
                         "the CRC-32 is %08x, the directory says %08x: scanners stop here, PyTorch "
                         "loads it",
                         (unsigned)crc, (unsigned)entry->crc32);
        return SFT_OK;
    }
    return sft__base_fail_at(err, SFT_E_MISMATCH, entry->data,
                             "zip-crc: member %s has the CRC-32 %08x, the directory says %08x",
                             entry->name, (unsigned)crc, (unsigned)entry->crc32);
}

sft_status sft__import_zip_check(sft__import *job, const sft__import_zip_entry *entry,
                                 sft_error *err) {
    uint32_t crc;

    if (entry->method != 0) {
        return SFT_OK; /* the inflater compares it */
    }
    SFT_TRY(
        sft__import_source_crc32(job->file, entry->data, entry->usize, &crc, job->allocator, err));
    return crc_verdict(job, entry, crc, err);
}

sft_status sft__import_zip_read(sft__import *job, const sft__import_zip_entry *entry, uint64_t most,
                                char **text, size_t *size, sft_error *err) {
    const sft_source *bytes;
    uint64_t offset;
    uint32_t source;

    *text = NULL;
    if (entry->usize > most) {
        return sft__base_fail_at(err, SFT_E_LIMIT, entry->data,
                                 "zip-size: member %s has %llu bytes, at most %llu make sense",
                                 entry->name, (unsigned long long)entry->usize,
                                 (unsigned long long)most);
    }
    SFT_TRY(sft__import_zip_place(job, entry, &source, &bytes, &offset, err));
    *size = (size_t)entry->usize;
    SFT_TRY(sft__import_alloc(job, text, *size + 1, 1, err));
    (*text)[*size] = '\0';
    if (*size > 0) {
        SFT_TRY(sft_source_read(bytes, offset, *text, *size, err));
    }
    return entry->method == 0 ? crc_verdict(job, entry, sft__import_crc32(0, *text, *size), err)
                              : SFT_OK;
}
