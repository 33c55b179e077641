/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/driver.c - scans a file: a work list of parts, each walked as a pickle, read by the
 * reader of its format, looked at by the rules about content, and taken apart if it is a container.
 * The floor: a part that nothing has shown to be harmless is unknown, whatever was not found in it.
 * Read first: scan.h.
 */
#include "base/checked.h"
#include "import/archive/unpack.h"
#include "import/core/import.h"
#include "import/scan/members.h"
#include "import/walk/walk.h"
#include <stdio.h>

enum {
    DEPTH_MOST = 16,
    WHERE_MOST = 400,
    LIST_MOST = 4096,
    WALK_FLOOR = 16 << 20,
    WALK_MOST = 32 << 20,
    UNPACK_FLOOR = 160 << 20,
    KEEP_MOST = 24 << 20,
    SMALL = 256
};

/* Beside SFT__SCAN_*: the reader of the container has read this member. */
#define READ 0x100u
/* The reader of the container has seen it, whatever came of it. */
#define SEEN 0x200u

typedef enum task_kind { TASK_PART, TASK_PACKED, TASK_MEMBERS, TASK_CLOSE } task_kind;

/* Something to be done. Tasks are done last first: what a container holds before what follows it.
 */
typedef struct task {
    task_kind kind;
    sft__scan_part part; /* PACKED: the compressed bytes; MEMBERS, CLOSE: the container */
    sft__pack pack;
    uint64_t plain; /* PACKED: what is said to come out, UINT64_MAX: not said */
    sft__members *members;
    uint32_t format;    /* MEMBERS: of the container */
    bool read;          /* MEMBERS: its reader found it in order */
    sft_source *source; /* CLOSE */
    uint8_t *bytes;
    char *where; /* CLOSE: freed */
} task;

typedef struct scan {
    sft__import *job;
    task *tasks;
    size_t count;
    size_t room;
    uint64_t unpack_left; /* in bytes that come out of gzip; others cost more */
    uint64_t keep_left;
} scan;

bool sft__scan_is_outside(sft_status status) {
    return status == SFT_E_NOMEM || status == SFT_E_ARG || status == SFT_E_IO ||
           status == SFT_E_TRUNCATED || status == SFT_E_CHANGED || status == SFT_E_CANCELLED ||
           status == SFT_E_INTERNAL || status == SFT_E_STATE || status == SFT_E_HTTP;
}

static void note(sft__import *job, const sft__scan_part *part, uint32_t verdict, const char *rule,
                 const char *message) {
    sft__import_find(job, SFT_FINDING_CONTAINER, verdict, part->where, strlen(part->where), rule,
                     part->base != SFT_NO_OFFSET ? part->base + part->offset : SFT_NO_OFFSET, "%s",
                     message);
}

static sft_status push(scan *s, const task *t, sft_error *err) {
    if (s->count >= LIST_MOST ||
        !sft__grow(s->job->allocator, &s->tasks, &s->room, s->count + 1, sizeof *s->tasks)) {
        return sft__fail_nomem(err, sizeof *t);
    }
    s->tasks[s->count++] = *t;
    return SFT_OK;
}

static void task_reset(scan *s, task *t) {
    if (t->kind == TASK_CLOSE || t->kind == TASK_MEMBERS) {
        sft_source_close(t->source);
        sft__free(s->job->allocator, t->members, sizeof *t->members);
    }
    sft__free(s->job->allocator, t->where, WHERE_MOST);
}

/* "container!member"; NULL: no memory. */
static char *join(scan *s, const char *outer, const char *name) {
    char *where = sft__alloc(s->job->allocator, WHERE_MOST);

    if (where != NULL) {
        (void)snprintf(where, WHERE_MOST, "%s%s%s", outer, outer[0] != '\0' ? "!" : "", name);
    }
    return where;
}

/* ---------------------------------------------------------------- the reader of a part's format */

typedef struct looked {
    uint8_t head[SFT__IMPORT_HEAD];
    size_t head_len;
    uint32_t format; /* by the bytes */
    bool read;       /* its reader found it in order */
    bool chain;      /* of archives */
    bool refused;    /* no reader's, or one that says that it is something else */
    bool long_pickle; /* of more opcodes than its reader follows in a scan */
    char sentence[400];
    uint64_t place;
} looked;

static void share(sft__import *to, const sft__import *from) {
    to->opcodes = from->opcodes;
    to->pickle_bytes = from->pickle_bytes;
}

/* Everything that the reader says becomes a finding, but why it stopped, which is weighed later. */
static sft_status read_part(scan *s, const sft__scan_part *part, looked *l, sft_error *err) {
    sft__import *job = s->job;
    sft_catalog *catalog = NULL;
    sft_source *source;
    sft__import sub;
    sft_error why;

    memset(&sub, 0, sizeof sub);
    memset(&why, 0, sizeof why);
    SFT_TRY(sft__source_part(&source, part->source, part->offset, part->size,
                             sft_source_name(part->source), job->allocator, err));
    sft_status status = sft__job_options(&sub, &job->options, err);
    if (status != SFT_OK) {
        sft_source_close(source);
        return status;
    }
    sub.path = part->depth == 0 ? job->path : NULL;
    sub.scanning = true;
    sub.named = true;
    sub.where = part->where;
    sub.base = part->base != SFT_NO_OFFSET ? part->base + part->offset : SFT_NO_OFFSET;
    sub.report = job->report;
    share(&sub, job);
    status = sft__job_read(&sub, &catalog, source, &why);
    if (status == SFT_OK) {
        status = sft__scan_metadata(job, part, catalog, &why);
    }
    sft_catalog_close(catalog);
    share(job, &sub);
    sub.report = NULL;
    sft__job_reset(&sub);
    if (status != SFT_OK && sft__scan_is_outside(status)) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    l->read = status == SFT_OK;
    l->refused = status == SFT_E_FORMAT;
    l->long_pickle = status == SFT_E_LIMIT && sub.format == SFT_IMPORT_PICKLE;
    l->format = l->refused && sub.format == SFT_IMPORT_TORCH_ZIP ? SFT_IMPORT_OTHER : sub.format;
    if (part->depth == 0) {
        sft__report_format(job->report, sub.format);
    }
    l->place = why.offset;
    (void)snprintf(l->sentence, sizeof l->sentence, "%.300s%s%.64s", why.message,
                   why.tensor[0] != '\0' ? ": " : "", why.tensor);
    return SFT_OK;
}

/* ---------------------------------------------------------------- containers */

static bool ends_with(const char *text, const char *end) {
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
static uint32_t flags_of(const task *t, const char *name) {
    const char *below = below_top(name);

    if (t->format == SFT_IMPORT_TORCH_ZIP) {
        const bool storage =
            strncmp(below, "data/", 5) == 0 || strncmp(below, "constants/", 10) == 0;
        return ends_with(name, ".pkl")                                  ? SEEN
               : storage && strchr(strchr(below, '/') + 1, '/') == NULL ? SFT__SCAN_RAW
                                                                        : 0;
    }
    if (t->read && t->format == SFT_IMPORT_TORCH_TAR) {
        return READ;
    }
    if (t->read && t->format == SFT_IMPORT_NPZ && ends_with(name, ".npy")) {
        return READ;
    }
    if (t->read && t->format == SFT_IMPORT_KERAS && ends_with(name, ".weights.h5")) {
        return READ;
    }
    return 0;
}

static void member_notes(scan *s, const task *t, const sft__member *m, const sft__scan_part *part) {
    const char *below = below_top(m->name);

    if (m->encrypted) {
        note(s->job, part, SFT_SCAN_UNKNOWN, "zip-encrypted",
             "encrypted: what it holds cannot be looked into");
    } else if (t->members->kind == SFT__MEMBERS_ZIP && m->method != 0 && m->method != 8 &&
               m->method != 12) {
        note(s->job, part, SFT_SCAN_UNKNOWN, "zip-method",
             "compressed in a way that is not looked into");
    } else if (t->format == SFT_IMPORT_TORCH_ZIP && m->method != 0 &&
               strncmp(below, "code/", 5) != 0) {
        note(s->job, part, SFT_SCAN_UNKNOWN, "zip-method",
             "compressed: PyTorch stores its members as they are");
    }
    if (m->link) {
        note(s->job, part, SFT_SCAN_UNKNOWN, "tar-link", "a link to another file");
    }
}

/* The weights of an exported program are raw bytes, unless one was pickled. */
static uint32_t flags_of_weight(const task *t, const sft__member *m) {
    const char *below = below_top(m->name);
    uint8_t head[4] = {0};

    if (!t->read || t->format != SFT_IMPORT_PT2 || m->method != 0 || m->size < sizeof head ||
        (strncmp(below, "data/weights/weight_", 20) != 0 &&
         strncmp(below, "data/constants/tensor_", 22) != 0) ||
        sft_source_read(t->part.source, m->offset, head, sizeof head, NULL) != SFT_OK) {
        return 0;
    }
    return sft__load_le32(head) != 0x04034b50u && head[0] != 0x80 ? SFT__SCAN_RAW : 0;
}

/* The next member of a container: a task for it above the container's own. */
static sft_status next_member(scan *s, task *t, sft_error *err) {
    sft__member m;
    bool more;

    SFT_TRY(sft__members_next(t->members, &m, &more, err));
    if (!more) {
        if (!t->members->whole) {
            note(s->job, &t->part, SFT_SCAN_UNKNOWN, "members",
                 "what it holds cannot be listed to its end");
        }
        task_reset(s, t);
        return SFT_OK;
    }
    task next = {.kind = m.method == 0 ? TASK_PART : TASK_PACKED, .plain = m.plain};
    next.pack = m.method == 12 ? SFT__PACK_BZIP2 : SFT__PACK_DEFLATE;
    next.where = join(s, t->part.where, m.name);
    if (next.where == NULL) {
        task_reset(s, t);
        return sft__fail_nomem(err, WHERE_MOST);
    }
    next.part = (sft__scan_part){.source = t->part.source,
                                 .offset = m.offset,
                                 .size = m.size,
                                 .where = next.where,
                                 .base = t->part.base,
                                 .depth = t->part.depth + 1,
                                 .flags = flags_of(t, m.name) | flags_of_weight(t, &m),
                                 .container = t->format};
    member_notes(s, t, &m, &next.part);
    sft_status status = push(s, t, err);
    const bool looked_into = !m.encrypted && (m.method == 0 || m.method == 8 || m.method == 12);
    if (status == SFT_OK && looked_into && m.size != 0) {
        status = push(s, &next, err);
    } else {
        sft__free(s->job->allocator, next.where, WHERE_MOST);
    }
    return status;
}

/* *is: it is a container of members, whose task is pushed. */
static sft_status take_apart(scan *s, const sft__scan_part *part, const looked *l, bool *is,
                             sft_error *err) {
    task t = {.kind = TASK_MEMBERS, .part = *part, .format = l->format, .read = l->read};

    *is = false;
    t.members = sft__alloc_zero(s->job->allocator, sizeof *t.members);
    t.where = join(s, part->where, "");
    if (t.where != NULL && t.where[0] != '\0') {
        t.where[strlen(t.where) - 1] = '\0';
    }
    sft_status status = t.members != NULL && t.where != NULL
                            ? sft__members_open(t.members, part, err)
                            : sft__fail_nomem(err, WHERE_MOST);
    t.part.where = t.where;
    if (status == SFT_OK && t.members->kind != SFT__MEMBERS_NONE) {
        *is = true;
        status = push(s, &t, err);
    }
    if (status != SFT_OK || !*is) {
        task_reset(s, &t);
    }
    return status;
}

/* ---------------------------------------------------------------- what is compressed */

static uint64_t cost_of(sft__pack pack) {
    return pack == SFT__PACK_BZIP2 ? 6 : pack == SFT__PACK_LZMA ? 3 : 1;
}

/* Unpacks, and puts what comes out before everything else. *is: false if it is not compressed at
 * all. */
static sft_status unpack(scan *s, const task *t, bool *is, sft_error *err) {
    const uint64_t cost = cost_of(t->pack);
    sft__unpack how = {t->pack, t->part.offset, t->part.size, s->unpack_left / cost, 0};
    sft__unpacked got;
    task inner = {.kind = TASK_PART, .part = t->part};
    task close = {.kind = TASK_CLOSE};

    how.most = t->plain < how.most ? t->plain : how.most;
    how.keep = s->keep_left < KEEP_MOST ? s->keep_left : KEEP_MOST;
    SFT_TRY(sft__source_unpack(&close.source, t->part.source, &how, &got, s->job->allocator, err));
    *is = got.size != 0 || !got.damaged;
    if (!*is) {
        sft_source_close(close.source);
        return SFT_OK;
    }
    s->unpack_left -= got.size * cost;
    if (got.damaged || (got.limited && t->plain > how.most)) {
        note(s->job, &t->part, SFT_SCAN_UNKNOWN, got.damaged ? "unpack-damaged" : "unpack-limit",
             got.damaged
                 ? "what is compressed ends early or in nonsense: loaders use what comes before"
                 : "more is compressed than is looked into");
    }
    if (got.trailing && t->pack != SFT__PACK_DEFLATE) {
        note(s->job, &t->part, SFT_SCAN_UNKNOWN, "unpack-trailing",
             "bytes follow what is compressed");
    }
    inner.where =
        join(s, t->part.where, t->pack == SFT__PACK_DEFLATE ? "" : sft__pack_name(t->pack));
    if (inner.where == NULL) {
        sft_source_close(close.source);
        return sft__fail_nomem(err, WHERE_MOST);
    }
    if (t->pack == SFT__PACK_DEFLATE && inner.where[0] != '\0') {
        inner.where[strlen(inner.where) - 1] = '\0';
    }
    inner.part = (sft__scan_part){.source = close.source,
                                  .size = got.size,
                                  .where = inner.where,
                                  .base = SFT_NO_OFFSET,
                                  .depth = t->part.depth + 1,
                                  .flags = t->part.flags,
                                  .container = t->part.container};
    sft_status status = push(s, &close, err);
    if (status == SFT_OK) {
        status = push(s, &inner, err);
    }
    return status;
}

/* A part that begins like something compressed. *known: it is such, and has been dealt with. */
static sft_status unpack_part(scan *s, const sft__scan_part *part, const looked *l, bool *known,
                              sft_error *err) {
    const sft__pack pack = sft__pack_of(l->head, l->head_len);
    const bool guess = pack == SFT__PACK_ZLIB || (pack == SFT__PACK_LZMA && l->head[0] != 0xfd);
    task t = {.kind = TASK_PACKED, .part = *part, .pack = pack, .plain = UINT64_MAX};
    char text[160];

    *known = pack != SFT__PACK_NONE;
    if (!*known) {
        return SFT_OK;
    }
    if (!sft__pack_is_read(pack)) {
        *known = !guess;
        if (*known) {
            (void)snprintf(text, sizeof text, "compressed with %s: it is not looked into",
                           sft__pack_name(pack));
            note(s->job, part, SFT_SCAN_UNKNOWN, "compressed", text);
        }
        return SFT_OK;
    }
    if (part->depth >= DEPTH_MOST) {
        note(s->job, part, SFT_SCAN_UNKNOWN, "unpack-limit", "compressed too many times");
        return SFT_OK;
    }
    return unpack(s, &t, known, err);
}

/* ---------------------------------------------------------------- one part */

/* The numbers of numpy's array lie raw behind its header, its objects as a pickle. */
static sft_status npy_part(const looked *l, const sft__scan_part *part, sft__scan_part *data,
                           bool *is) {
    const uint8_t *h = l->head;
    const bool one = h[6] == 1;

    *is = l->head_len >= 12 && memcmp(h, "\x93NUMPY", 6) == 0;
    if (!*is) {
        return SFT_OK;
    }
    const uint64_t len = one ? sft__load_le16(h + 8) : sft__load_le32(h + 8);
    const uint64_t begin = len + (one ? 10 : 12);
    *is = begin < part->size;
    const size_t seen = begin < l->head_len ? (size_t)begin : l->head_len;
    bool objects = begin > l->head_len;
    for (size_t i = 10; i + 1 < seen; i++) {
        objects = objects || (h[i] == 'O' && (h[i + 1] == '\'' || h[i + 1] == '"'));
    }
    *data = *part;
    data->offset += begin;
    data->size -= *is ? begin : 0;
    data->flags |= objects ? 0 : SFT__SCAN_RAW;
    return SFT_OK;
}

/* Short texts that PyTorch keeps beside its tensors: version, byteorder, alignment, id. */
static bool is_short_text(const looked *l, const sft__scan_part *part) {
    static const char *const names[] = {
        "/version",          "/byteorder",      "/.format_version", "/.storage_alignment",
        "/serialization_id", "/archive_format", "/archive_version"};
    bool named = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        named = named || ends_with(part->where, names[i]);
    }
    for (size_t i = 0; i < l->head_len; i++) {
        named = named && (l->head[i] == '\n' || (l->head[i] >= ' ' && l->head[i] < 0x7f));
    }
    return named && part->size <= SMALL;
}

/* Why nothing shows that the part is harmless. */
static void floor_note(scan *s, const sft__scan_part *part, const looked *l) {
    const char *why = l->sentence[0] != '\0' ? l->sentence
                                             : "no known format, and nothing shows that no loader "
                                               "runs it";
    sft__import_find(s->job, SFT_FINDING_BROKEN, SFT_SCAN_UNKNOWN, part->where, strlen(part->where),
                     "broken",
                     l->place != SFT_NO_OFFSET && part->base != SFT_NO_OFFSET
                         ? part->base + part->offset + l->place
                         : SFT_NO_OFFSET,
                     "%s", why);
}

/* Whether the reader's failure counts: not where the walker has seen the whole of it as pickles, or
 * where its members have verdicts of their own. */
static bool is_excused(const looked *l, bool complete, bool members) {
    return (complete && (l->refused || l->long_pickle)) ||
           (members && (l->refused || l->format == SFT_IMPORT_TORCH_TAR));
}

static sft_status walk_part(scan *s, const sft__scan_part *part, const looked *l, bool *complete,
                            sft_error *err) {
    sft__scan_part data;
    sft__scan_walked walked;
    bool is_npy;

    sft__scan_part how = *part;
    if (sft__scan_is_plain(s->job, part, l->head, l->head_len)) {
        how.flags |= SFT__SCAN_RAW;
    }
    SFT_TRY(sft__scan_walk_part(s->job, &how, &walked, err));
    *complete = walked.pickles != 0 && walked.complete_to == part->size && !walked.limited;
    SFT_TRY(npy_part(l, part, &data, &is_npy));
    return is_npy ? sft__scan_walk_part(s->job, &data, &walked, err) : SFT_OK;
}

/* Is a reader asked? Not for members that the container's has seen, nor for pickles in containers:
 * the walk says all about them. */
static bool is_for_reader(const sft__scan_part *part, const looked *l, const sft_allocator *a) {
    const sft__probe probe = {l->head, l->head_len, part->size, part->source, a};

    if ((part->flags & (SFT__SCAN_RAW | READ | SEEN)) != 0) {
        return false;
    }
    if (part->depth == 0) {
        return true;
    }
    return l->head_len >= 2 && !(l->head[0] == 0x80 && l->head[1] <= 5) &&
           (part->offset != 0 || !sft__reader_pickle.probe(&probe));
}

/* Read in order by a format that is no pickle: then only what a pickle would end with counts. */
static bool is_other(const looked *l) {
    return l->read && l->format != SFT_IMPORT_PICKLE && l->format != SFT_IMPORT_TORCH_LEGACY &&
           l->format != SFT_IMPORT_TORCH_TAR && l->format != SFT_IMPORT_UNKNOWN;
}

/* Archives one behind the other, as PyTorch's distributed checkpoints have them: no reader's, but
 * each is. */
static sft_status find_chain(const sft__scan_part *part, looked *l, sft_error *err) {
    sft__members m;

    if (l->head_len < 4 || sft__load_le32(l->head) != 0x04034b50u) {
        return SFT_OK;
    }
    SFT_TRY(sft__members_open(&m, part, err));
    l->chain = m.kind == SFT__MEMBERS_CHAIN;
    l->refused = l->chain;
    return SFT_OK;
}

/* The rules about content. *vouched: no sentence of the floor's is needed, for they have a reason
 * to call it harmless, or have said why it is not. */
static sft_status content_part(scan *s, const sft__scan_part *part, const looked *l, bool *vouched,
                               sft_error *err) {
    const sft_import_report *report = s->job->report;
    const size_t before = sft_import_report_count(report);
    sft__scan_part seen = *part;

    seen.format = l->format;
    SFT_TRY(sft__scan_content(s->job, &seen, vouched, err));
    *vouched = *vouched || (sft_import_report_count(report) != before &&
                            sft_import_report_verdict(report) != SFT_SCAN_HARMLESS);
    return SFT_OK;
}

static sft_status look_at(scan *s, const sft__scan_part *given, looked *l, sft_error *err) {
    sft__scan_part part = *given;
    bool complete = false;
    bool members = false;
    bool packed = false;
    bool vouched = false;

    l->place = SFT_NO_OFFSET;
    l->head_len = part.size < sizeof l->head ? (size_t)part.size : sizeof l->head;
    if (l->head_len != 0) {
        SFT_TRY(sft_source_read(part.source, part.offset, l->head, l->head_len, err));
    }
    l->read = (part.flags & READ) != 0;
    SFT_TRY(find_chain(&part, l, err));
    if (!l->chain && is_for_reader(&part, l, s->job->allocator)) {
        SFT_TRY(read_part(s, &part, l, err));
    }
    part.flags |= is_other(l) ? SFT__SCAN_RAW : 0;
    SFT_TRY(walk_part(s, &part, l, &complete, err));
    if ((given->flags & SFT__SCAN_RAW) != 0) {
        return SFT_OK;
    }
    part.flags = given->flags;
    if (part.depth < DEPTH_MOST) {
        SFT_TRY(take_apart(s, &part, l, &members, err));
    }
    if (!l->read) {
        SFT_TRY(unpack_part(s, &part, l, &packed, err));
    }
    SFT_TRY(content_part(s, &part, l, &vouched, err));
    const bool positive = l->read || is_short_text(l, &part) || complete || packed;
    if (!l->read && !packed && !vouched && !is_excused(l, complete, members) &&
        !(positive && l->format == SFT_IMPORT_UNKNOWN)) {
        floor_note(s, &part, l);
    }
    return SFT_OK;
}

static sft_status one_part(scan *s, const sft__scan_part *part, sft_error *err) {
    looked *l = sft__alloc_zero(s->job->allocator, sizeof *l);

    if (l == NULL) {
        return sft__fail_nomem(err, sizeof *l);
    }
    const sft_status status = look_at(s, part, l, err);
    sft__free(s->job->allocator, l, sizeof *l);
    return status;
}

/* ---------------------------------------------------------------- all of a file */

static sft_status one_task(scan *s, sft_error *err) {
    task t = s->tasks[--s->count];
    sft_status status = SFT_OK;
    bool is;

    if (t.kind == TASK_MEMBERS) {
        return next_member(s, &t, err);
    }
    if (t.kind == TASK_PART) {
        status = one_part(s, &t.part, err);
    } else if (t.kind == TASK_PACKED) {
        if (sft__pack_is_read(t.pack)) {
            status = unpack(s, &t, &is, err);
        } else {
            note(s->job, &t.part, SFT_SCAN_UNKNOWN, "compressed",
                 "compressed in a way that this build does not look into");
        }
    }
    task_reset(s, &t);
    return status;
}

static sft_status scan_all(sft__import *job, const sft_source *source, sft_error *err) {
    const uint64_t size = sft_source_size(source);
    scan s = {.job = job, .keep_left = 2 * KEEP_MOST};
    task first = {.kind = TASK_PART, .part = {.source = source, .size = size, .where = ""}};

    job->walk_left = WALK_FLOOR + (size < WALK_MOST / 4 ? 2 * size : WALK_MOST - WALK_FLOOR);
    s.unpack_left = UNPACK_FLOOR + (size < UINT64_MAX / 4 ? 2 * size : UINT64_MAX / 4);
    sft_status status = push(&s, &first, err);
    while (status == SFT_OK && s.count != 0) {
        status = one_task(&s, err);
    }
    while (s.count != 0) {
        task_reset(&s, &s.tasks[--s.count]);
    }
    sft__free(job->allocator, s.tasks, s.room * sizeof *s.tasks);
    return status;
}

sft_status sft__scan_file(sft_import_report **out, sft_source *source, const char *path,
                          const sft_import_options *options, sft_error *err) {
    uint32_t format = SFT_IMPORT_UNKNOWN;
    sft__import job;

    *out = NULL;
    memset(&job, 0, sizeof job);
    job.path = path;
    job.file = source;
    job.scanning = true;
    sft_status status = sft__job_options(&job, options, err);
    if (status == SFT_OK) {
        job.inflate_left = job.options.inflate_bytes;
        sft__arena_init(&job.arena, job.allocator, job.options.memory_bytes / 4);
        status = sft__report_create(&job.report, job.allocator, err);
    }
    if (status == SFT_OK) {
        status = sft_import_detect(source, &format, err);
    }
    if (status == SFT_OK) {
        sft__report_format(job.report, format);
        status = scan_all(&job, source, err);
    }
    if (status == SFT_OK) {
        *out = job.report;
        job.report = NULL;
    }
    sft__job_reset(&job);
    sft_source_close(source);
    return status;
}
