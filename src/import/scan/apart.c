/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/apart.c - takes a part apart: its members, what it unpacks to, and what else a
 * program would find in its bytes that looks elsewhere than at their beginning: Python's zipfile at
 * their end, PyTorch at absolute places, HDF5 behind a user block, tar behind a tar. Read first:
 * work.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/content/content.h"
#include "import/hdf5/hdf5.h"
#include "import/scan/work.h"
#include <stdio.h>

enum { SHARED_COST = 8 };

/* ---------------------------------------------------------------- containers */

bool sft__import_scan_ends(const char *text, const char *end) {
    const size_t n = strlen(text);
    const size_t k = strlen(end);
    return n >= k && memcmp(text + n - k, end, k) == 0;
}

/* The name within its top directory. */
static const char *below_top(const char *name) {
    const char *slash = strchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

/* What the loader of the container does with a member: flags for its part. */
static uint32_t flags_of(const sft__import_task *t, const char *name) {
    const char *below = below_top(name);

    if (t->format == SFT_IMPORT_TORCH_ZIP) {
        const bool storage =
            strncmp(below, "data/", 5) == 0 || strncmp(below, "constants/", 10) == 0;
        return sft__import_scan_ends(name, ".pkl")                      ? SFT__SCAN_SEEN
               : storage && strchr(strchr(below, '/') + 1, '/') == NULL ? SFT__SCAN_RAW
                                                                        : 0;
    }
    if (t->read && t->format == SFT_IMPORT_TORCH_TAR) {
        return SFT__SCAN_READ;
    }
    if (t->read && t->format == SFT_IMPORT_NPZ && sft__import_scan_ends(name, ".npy")) {
        return SFT__SCAN_READ;
    }
    if (t->read && t->format == SFT_IMPORT_KERAS && sft__import_scan_ends(name, ".weights.h5")) {
        return SFT__SCAN_READ;
    }
    return 0;
}

static void member_notes(sft__import_scan *s, const sft__import_task *t,
                         const sft__import_member *m, const sft__import_scan_part *part) {
    const char *below = below_top(m->name);

    if (m->encrypted) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "zip-encrypted",
                              "encrypted: what it holds cannot be looked into");
    } else if (t->members->kind == SFT__MEMBERS_ZIP && m->method != 0 && m->method != 8 &&
               m->method != 12) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "zip-method",
                              "compressed in a way that is not looked into");
    } else if (t->format == SFT_IMPORT_TORCH_ZIP && m->method != 0 &&
               strncmp(below, "code/", 5) != 0) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "zip-method",
                              "compressed: PyTorch stores its members as they are");
    }
    const bool tar = t->members->kind == SFT__MEMBERS_TAR;
    if ((tar || m->renamed) && sft__import_content_leads_away(m->name)) {
        sft__import_scan_note(
            s->job, part, SFT_SCAN_DANGEROUS, tar ? "tar-name" : "zip-name",
            "a name that leads out of the directory in which the archive is unpacked");
    }
    if (m->renamed && !m->respelt) {
        sft__import_scan_note(
            s->job, part, SFT_SCAN_DANGEROUS, "zip-local",
            "an extra field gives the member another name, which some programs take");
    }
    if (m->link || m->device) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, tar ? "tar-link" : "zip-link",
                              m->link ? "a link to another file" : "a device or a pipe");
    }
    if (m->cut) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "members",
                              "a member that is cut short");
    }
    if (m->again) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "tar-duplicate",
                              "two members of one name, or of names that differ in case alone");
    }
    if (m->behind) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "trailing",
                              "bytes behind the end of a tar archive, or between its members");
    }
}

/* The weights of an exported program are raw bytes, unless one was pickled. */
static uint32_t flags_of_weight(const sft__import_task *t, const sft__import_member *m) {
    const char *below = below_top(m->name);
    uint8_t head[4] = {0};

    if (!t->read || t->format != SFT_IMPORT_PT2 || m->method != 0 || m->size < sizeof head ||
        (strncmp(below, "data/weights/weight_", 20) != 0 &&
         strncmp(below, "data/constants/tensor_", 22) != 0) ||
        sft_source_read(t->part.source, m->offset, head, sizeof head, NULL) != SFT_OK) {
        return 0;
    }
    return sft__base_load_le32(head) != 0x04034b50u && head[0] != 0x80 ? SFT__SCAN_RAW : 0;
}

/* Is there work left for it? */
static bool pay_member(sft__import_scan *s, sft__import_members *all, const sft__import_member *m) {
    const bool shared = all->given > all->end - all->offset;
    const uint64_t cost = shared ? SHARED_COST : 1;
    const bool enough = s->members_left >= cost;

    if (!sft__base_add64(all->given, m->size, &all->given)) {
        all->given = UINT64_MAX;
    }
    s->members_left -= enough ? cost : s->members_left;
    return enough;
}

/* The next member of a container: a task for it above the container's own. */
sft_status sft__import_scan_next_member(sft__import_scan *s, sft__import_task *t, sft_error *err) {
    sft__import_member m;
    bool more;

    const sft_status read = sft__import_members_next(t->members, &m, &more, err);
    if (read != SFT_OK) {
        sft__import_task_reset(s, t);
        return read;
    }
    if (more && !pay_member(s, t->members, &m)) {
        sft__import_scan_note(s->job, &t->part, SFT_SCAN_UNKNOWN, "members",
                              "more members than are looked into");
        sft__import_task_reset(s, t);
        return SFT_OK;
    }
    if (!more) {
        if (!t->members->whole) {
            sft__import_scan_note(s->job, &t->part, SFT_SCAN_UNKNOWN, "members",
                                  "what it holds cannot be listed to its end");
        }
        sft__import_task_reset(s, t);
        return SFT_OK;
    }
    sft__import_task next = {.kind = m.method == 0 ? SFT__TASK_PART : SFT__TASK_PACKED,
                             .plain = m.plain};
    next.pack = m.method == 12 ? SFT__PACK_BZIP2 : SFT__PACK_DEFLATE;
    next.where = sft__import_scan_join(s, t->part.where, m.name);
    if (next.where == NULL) {
        sft__import_task_reset(s, t);
        return sft__base_fail_nomem(err, SFT__SCAN_WHERE);
    }
    next.part = (sft__import_scan_part){.source = t->part.source,
                                        .offset = m.offset,
                                        .size = m.size,
                                        .where = next.where,
                                        .base = t->part.base,
                                        .depth = t->part.depth + 1,
                                        .flags = flags_of(t, m.name) | flags_of_weight(t, &m),
                                        .container = t->format};
    if (m.behind) {
        next.part.flags = 0;
        next.part.container = 0;
    } else if (m.about) {
        next.part.flags |= SFT__SCAN_STRING;
    }
    member_notes(s, t, &m, &next.part);
    sft_status status = sft__import_scan_push(s, t, err);
    if (status != SFT_OK) {
        sft__import_task_reset(s, t);
    }
    const bool looked_into = !m.encrypted && (m.method == 0 || m.method == 8 || m.method == 12);
    const bool pushed = status == SFT_OK && looked_into && m.size != 0;
    status = pushed ? sft__import_scan_push(s, &next, err) : status;
    if (!pushed || status != SFT_OK) {
        sft__base_free(s->job->allocator, next.where, SFT__SCAN_WHERE);
    }
    return status;
}

/* ---------------------------------------------------------------- other ways to look at a part */

/* Has a part that begins here been found within another one before? Notes it. */
static bool is_place_known(sft__import_scan *s, const sft_source *source, uint64_t offset) {
    for (size_t i = 0; i < s->place_count; i++) {
        if (s->places[i].source == source && s->places[i].offset == offset) {
            return true;
        }
    }
    s->places[s->place_count] = (sft__import_place){source, offset};
    return false;
}

/* What a program finds at another place than the first byte: a part of its own. */
static sft_status push_inside(sft__import_scan *s, const sft__import_scan_part *part,
                              uint64_t offset, uint64_t end, sft_error *err) {
    sft__import_task t = {.kind = SFT__TASK_PART, .part = *part};
    char name[32];

    if (s->place_count == SFT__SCAN_PLACES) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "members",
                              "more files within files than are looked into");
        return SFT_OK;
    }
    if (is_place_known(s, part->source, offset)) {
        return SFT_OK;
    }
    s->place_count++;
    (void)snprintf(name, sizeof name, "@%llu", (unsigned long long)(offset - part->offset));
    t.where = sft__import_scan_join(s, part->where, name);
    SFT_NEED(t.where != NULL, SFT__SCAN_WHERE, err);
    t.part.where = t.where;
    t.part.offset = offset;
    t.part.size = end - offset;
    t.part.depth++;
    t.part.flags = 0;
    t.part.format = 0;
    t.part.container = 0;
    const sft_status status = sft__import_scan_push(s, &t, err);
    if (status != SFT_OK) {
        sft__import_task_reset(s, &t);
    }
    return status;
}

/* HDF5 looks for its superblock at 0, 512, 1024, 2048 ...: the first counts. Of what was unpacked
 * only what stays in memory is gone through: its reader has done the rest. */
static sft_status find_hdf5(sft__import_scan *s, const sft__import_scan_part *part,
                            const sft__import_looked *l, sft_error *err) {
    static const uint8_t magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    const bool memory = part->base == SFT_NO_OFFSET && part->depth != 0;
    const uint64_t most = memory && part->size > SFT__SCAN_KEEP ? SFT__SCAN_KEEP : part->size;
    uint8_t head[sizeof magic];

    if (l->format == SFT_IMPORT_HDF5 ||
        (l->head_len >= sizeof magic && memcmp(l->head, magic, sizeof magic) == 0)) {
        return SFT_OK;
    }
    for (uint64_t at = 512; at < most && most - at >= 48; at *= 2) { /* ends: at <= most < 2^63 */
        SFT_TRY(sft_source_read(part->source, part->offset + at, head, sizeof head, err));
        if (memcmp(head, magic, sizeof magic) == 0) {
            return push_inside(s, part, part->offset + at, part->offset + part->size, err);
        }
    }
    return SFT_OK;
}

/* A container of members, whose task is pushed. */
static sft_status push_members(sft__import_scan *s, const sft__import_scan_part *part,
                               const sft__import_looked *l, const sft__import_members *m,
                               sft_error *err) {
    const bool tar = l->format == SFT_IMPORT_TORCH_TAR;
    sft__import_task t = {.kind = SFT__TASK_MEMBERS, .part = *part};

    if (tar == (m->kind == SFT__MEMBERS_TAR)) { /* else its reader has seen another container */
        t.format = l->format;
        t.read = l->read;
    }
    t.members = sft__base_alloc(s->job->allocator, sizeof *t.members);
    t.where = sft__import_scan_join(s, part->where, "");
    sft_status status =
        t.members != NULL && t.where != NULL ? SFT_OK : sft__base_fail_nomem(err, SFT__SCAN_WHERE);
    if (status == SFT_OK) {
        *t.members = *m;
        if (t.where[0] != '\0') {
            t.where[strlen(t.where) - 1] = '\0';
        }
        t.part.where = t.where;
        t.part.flags = 0;
        status = sft__import_scan_push(s, &t, err);
    }
    if (status != SFT_OK) {
        sft__import_task_reset(s, &t);
    }
    return status;
}

/* Does the reader of this format find its archive whatever stands before it? */
static bool is_zip_format(uint32_t format) {
    return format == SFT_IMPORT_TORCH_ZIP || format == SFT_IMPORT_NPZ ||
           format == SFT_IMPORT_KERAS || format == SFT_IMPORT_DCP || format == SFT_IMPORT_PT2;
}

/* Is the archive all of the part? What stands before an archive is for no member to answer. */
static bool is_all(const sft__import_members *m, const sft__import_looked *l) {
    const uint32_t head = l->head_len >= 4 ? sft__base_load_le32(l->head) : 0;

    return m->kind != SFT__MEMBERS_ZIP || head == 0x04034b50u || head == 0x06054b50u;
}

sft_status sft__import_scan_apart(sft__import_scan *s, const sft__import_scan_part *part,
                                  const sft__import_looked *l, bool *is, sft_error *err) {
    sft__import_members list[SFT__MEMBERS_MOST];
    const uint64_t tail = part->size < SFT__MEMBERS_TAIL ? part->size : SFT__MEMBERS_TAIL;
    size_t count;

    *is = false;
    if (s->look_left < tail) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "members",
                              "more parts than archives are looked for in");
        return SFT_OK;
    }
    s->look_left -= tail;
    SFT_TRY(find_hdf5(s, part, l, err));
    SFT_TRY(sft__import_members_list(list, &count, part, is_zip_format(l->format), err));
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == SFT__MEMBERS_INSIDE) {
            SFT_TRY(push_inside(s, part, list[i].offset, list[i].end, err));
        } else {
            *is = *is || is_all(&list[i], l);
            SFT_TRY(push_members(s, part, l, &list[i], err));
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- what is compressed */

static uint64_t cost_of(sft__import_pack pack) {
    return pack == SFT__PACK_BZIP2 ? 6 : pack == SFT__PACK_LZMA ? 3 : 1;
}

/* Unpacks, and puts what comes out before everything else. *is: false if it is not compressed at
 * all. */
sft_status sft__import_scan_unpack(sft__import_scan *s, const sft__import_task *t, bool *is,
                                   sft_error *err) {
    const uint64_t cost = cost_of(t->pack);
    sft__import_unpack how = {t->pack, t->part.offset, t->part.size, s->unpack_left / cost, 0};
    sft__import_unpacked got;
    sft__import_task inner = {.kind = SFT__TASK_PART, .part = t->part};
    sft__import_task close = {.kind = SFT__TASK_CLOSE};

    how.most = t->plain < how.most ? t->plain : how.most;
    how.keep = s->keep_left < SFT__SCAN_KEEP ? s->keep_left : SFT__SCAN_KEEP;
    SFT_TRY(sft__import_source_unpack(&close.source, t->part.source, &how, &got, s->job->allocator,
                                      err));
    *is = got.size != 0 || !got.damaged;
    if (!*is) {
        sft_source_close(close.source);
        return SFT_OK;
    }
    s->unpack_left -= got.work * cost;
    const bool string = (t->part.flags & SFT__SCAN_STRING) != 0; /* may be anything */
    if ((got.damaged && !string) || (got.limited && (t->plain > how.most || got.size < how.most))) {
        sft__import_scan_note(
            s->job, &t->part, SFT_SCAN_UNKNOWN, got.damaged ? "unpack-damaged" : "unpack-limit",
            got.damaged
                ? "what is compressed ends early or in nonsense: loaders use what comes before"
                : "more is compressed than is looked into");
    }
    if (got.trailing && !string && t->pack != SFT__PACK_DEFLATE) {
        sft__import_scan_note(s->job, &t->part, SFT_SCAN_UNKNOWN, "unpack-trailing",
                              "bytes follow what is compressed");
    }
    inner.where = sft__import_scan_join(
        s, t->part.where, t->pack == SFT__PACK_DEFLATE ? "" : sft__import_pack_name(t->pack));
    if (inner.where == NULL) {
        sft_source_close(close.source);
        return sft__base_fail_nomem(err, SFT__SCAN_WHERE);
    }
    if (t->pack == SFT__PACK_DEFLATE && inner.where[0] != '\0') {
        inner.where[strlen(inner.where) - 1] = '\0';
    }
    inner.part = (sft__import_scan_part){.source = close.source,
                                         .size = got.size,
                                         .where = inner.where,
                                         .base = SFT_NO_OFFSET,
                                         .depth = t->part.depth + 1,
                                         .flags = t->part.flags,
                                         .container = t->part.container};
    sft_status status = sft__import_scan_push(s, &close, err);
    if (status != SFT_OK) {
        sft_source_close(close.source);
    } else {
        status = sft__import_scan_push(s, &inner, err);
    }
    if (status != SFT_OK) {
        sft__base_free(s->job->allocator, inner.where, SFT__SCAN_WHERE);
    }
    return status;
}
