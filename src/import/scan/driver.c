/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/driver.c - scans a file: a work list of parts, each walked as a pickle, read by the
 * reader of its format, looked at by the rules about content, and taken apart if it is a container.
 * The floor: a part that nothing has shown to be harmless is unknown, whatever was not found in it.
 * Read first: scan.h, work.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/scan/work.h"
#include "import/walk/walk.h"
#include <stdio.h>

enum {
    LIST_MOST = 20000,
    WALK_FLOOR = 16 << 20,
    WALK_MOST = 32 << 20,
    UNPACK_FLOOR = 160 << 20,
    RUNS_MOST = 256 << 20,
    MARKS_MOST = 128 << 20,
    HEADS_MOST = 1 << 20,
    LOOK_FLOOR = 384 << 20,
    LOOK_MOST = 1536 << 20,
    MEMBERS_FLOOR = 65536,
    MEMBER_BYTES = 4096,
    PACKED_COST =
        3, /* members that a member which is a compressed file counts for, beside itself */
    SMALL = 256
};

bool sft__import_scan_is_outside(sft_status status) {
    return status == SFT_E_NOMEM || status == SFT_E_ARG || status == SFT_E_IO ||
           status == SFT_E_TRUNCATED || status == SFT_E_CHANGED || status == SFT_E_CANCELLED ||
           status == SFT_E_INTERNAL || status == SFT_E_STATE || status == SFT_E_HTTP;
}

void sft__import_scan_note(sft__import *job, const sft__import_scan_part *part, uint32_t verdict,
                           const char *rule, const char *message) {
    sft__import_find(job, (sft__import_rule){SFT_FINDING_CONTAINER, verdict, rule},
                     sft__import_text_at(part->where, part->base != SFT_NO_OFFSET
                                                          ? part->base + part->offset
                                                          : SFT_NO_OFFSET),
                     "%s", message);
}

sft_status sft__import_scan_push(sft__import_scan *s, const sft__import_task *t, sft_error *err) {
    if (s->count >= LIST_MOST ||
        !sft__base_grow(s->job->allocator, &s->tasks, &s->room, s->count + 1, sizeof *s->tasks)) {
        return sft__base_fail_nomem(err, sizeof *t);
    }
    s->tasks[s->count++] = *t;
    return SFT_OK;
}

/* A source that is closed: another one may come to lie at its address. */
static void forget(sft__import_scan *s, const sft_source *source) {
    size_t kept = 0;

    s->closed += source != NULL;
    for (size_t i = 0; i < s->place_count && source != NULL; i++) {
        if (s->places[i].source != source) {
            s->places[kept++] = s->places[i];
        }
    }
    s->place_count = source != NULL ? kept : s->place_count;
}

void sft__import_task_reset(sft__import_scan *s, sft__import_task *t) {
    if (t->kind == SFT__TASK_CLOSE || t->kind == SFT__TASK_MEMBERS) {
        forget(s, t->source);
        sft_source_close(t->source);
        sft__base_free(s->job->allocator, t->bytes, t->size);
        s->string_bytes -= t->bytes != NULL ? t->size : 0;
        if (t->members != NULL) {
            sft__import_members_reset(t->members);
        }
        sft__base_free(s->job->allocator, t->members, sizeof *t->members);
    }
    sft__base_free(s->job->allocator, t->where, SFT__SCAN_WHERE);
}

/* "container!member"; NULL: no memory. */
char *sft__import_scan_join(sft__import_scan *s, const char *outer, const char *name) {
    char *where = sft__base_alloc(s->job->allocator, SFT__SCAN_WHERE);

    if (where != NULL) {
        (void)snprintf(where, SFT__SCAN_WHERE, "%s%s%s", outer, outer[0] != '\0' ? "!" : "", name);
    }
    return where;
}

/* ---------------------------------------------------------------- the reader of a part's format */

static void share(sft__import *to, const sft__import *from) {
    to->opcodes = from->opcodes;
    to->pickle_bytes = from->pickle_bytes;
}

/* Is it the file itself that cannot be read, rather than one that it names? */
static bool is_unreadable(const sft__import_scan_part *part) {
    uint8_t byte;

    return part->size != 0 &&
           (sft_source_read(part->source, part->offset, &byte, 1, NULL) != SFT_OK ||
            sft_source_read(part->source, part->offset + part->size - 1, &byte, 1, NULL) != SFT_OK);
}

/* Everything that the reader says becomes a finding, but why it stopped, which is weighed later. */
static sft_status read_part(sft__import_scan *s, const sft__import_scan_part *part,
                            sft__import_looked *l, sft_error *err) {
    sft__import *job = s->job;
    sft_catalog *catalog = NULL;
    sft_source *source;
    sft__import sub;
    sft_error why;

    memset(&sub, 0, sizeof sub);
    memset(&why, 0, sizeof why);
    SFT_TRY(sft__import_source_part(&source, part->source,
                                    (sft__import_extent){part->offset, part->size},
                                    sft_source_name(part->source), job->allocator, err));
    sft_status status = sft__import_job_options(&sub, &job->options, err);
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
    status = sft__import_job_read(&sub, &catalog, source, &why);
    if (status == SFT_OK) {
        status = sft__import_scan_metadata(job, part, catalog, &why);
    }
    share(job, &sub);
    if (status == SFT_OK) {
        status = sft__import_scan_heads(s, part, catalog, &why);
    }
    if (status == SFT_OK && (sub.format == SFT_IMPORT_HDF5 || sub.format == SFT_IMPORT_KERAS)) {
        sft__import_scan_part seen = *part;
        seen.format = sub.format;
        status = sft__import_scan_decoded(s, &seen, catalog, &why);
    } else {
        sft_catalog_close(catalog);
    }
    sub.report = NULL;
    sft__import_job_reset(&sub);
    if (status != SFT_OK && sft__import_scan_is_outside(status) &&
        (status != SFT_E_IO || is_unreadable(part))) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    if (status == SFT_E_IO) { /* a file beside it */
        sft__import_find(job, SFT__RULE(BROKEN, UNKNOWN, "not-read"),
                         sft__import_text_at(part->where, SFT_NO_OFFSET), "%.300s", why.message);
    }
    l->read = status == SFT_OK;
    l->refused = status == SFT_E_FORMAT;
    l->long_pickle = status == SFT_E_LIMIT && sub.format == SFT_IMPORT_PICKLE;
    l->format = l->refused && sub.format == SFT_IMPORT_TORCH_ZIP ? SFT_IMPORT_OTHER : sub.format;
    if (part->depth == 0) {
        sft__import_report_format(job->report, sub.format);
    }
    l->place = why.offset;
    (void)snprintf(l->sentence, sizeof l->sentence, "%.300s%s%.64s", why.message,
                   why.tensor[0] != '\0' ? ": " : "", why.tensor);
    return SFT_OK;
}

/* ---------------------------------------------------------------- what is compressed */

/* A part that begins like something compressed. *known: it is such, and has been dealt with. */
static sft_status unpack_part(sft__import_scan *s, const sft__import_scan_part *part,
                              const sft__import_looked *l, bool *known, sft_error *err) {
    const sft__import_pack pack = sft__import_pack_of(l->head, l->head_len);
    const bool guess = pack == SFT__PACK_ZLIB || (pack == SFT__PACK_LZMA && l->head[0] != 0xfd);
    sft__import_task t = {
        .kind = SFT__TASK_PACKED, .part = *part, .pack = pack, .plain = UINT64_MAX};
    char text[160];

    *known = pack != SFT__PACK_NONE;
    if (!*known) {
        return SFT_OK;
    }
    if (!sft__import_pack_is_read(pack)) {
        *known = !guess;
        if (*known) {
            (void)snprintf(text, sizeof text, "compressed with %s: it is not looked into",
                           sft__import_pack_name(pack));
            sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "compressed", text);
        }
        return SFT_OK;
    }
    if (part->depth >= SFT__SCAN_DEPTH) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "unpack-limit",
                              "compressed too many times");
        return SFT_OK;
    }
    if (part->depth != 0 && s->members_left < PACKED_COST) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "unpack-limit",
                              "more members that are compressed files than are looked into");
        return SFT_OK;
    }
    s->members_left -= part->depth != 0 ? PACKED_COST : 0;
    return sft__import_scan_unpack(s, &t, known, err);
}

/* ---------------------------------------------------------------- one part */

/* The numbers of numpy's array lie raw behind its header, its objects as a pickle. */
static sft_status npy_part(const sft__import_looked *l, const sft__import_scan_part *part,
                           sft__import_scan_part *data, bool *is) {
    const uint8_t *h = l->head;
    const bool one = h[6] == 1;

    *is = l->head_len >= 12 && memcmp(h, "\x93NUMPY", 6) == 0;
    if (!*is) {
        return SFT_OK;
    }
    const uint64_t len = one ? sft__base_load_le16(h + 8) : sft__base_load_le32(h + 8);
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
static bool is_short_text(const sft__import_looked *l, const sft__import_scan_part *part) {
    static const char *const names[] = {
        "/version",          "/byteorder",      "/.format_version", "/.storage_alignment",
        "/serialization_id", "/archive_format", "/archive_version"};
    bool named = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        named = named || sft__import_scan_ends(part->where, names[i]);
    }
    for (size_t i = 0; i < l->head_len; i++) {
        named = named && (l->head[i] == '\n' || (l->head[i] >= ' ' && l->head[i] < 0x7f));
    }
    return named && part->size <= SMALL;
}

/* What the file is, if no reader has said it. */
void sft__import_scan_names(sft__import *job, uint32_t format) {
    const uint32_t said = sft_import_report_format(job->report);

    if (said == SFT_IMPORT_UNKNOWN || (said == SFT_IMPORT_OTHER && format >= SFT_IMPORT_IMAGE) ||
        (said == SFT_IMPORT_TORCH_TAR && format == SFT_IMPORT_ARCHIVE)) {
        sft__import_report_format(job->report, format);
    }
}

/* Why nothing shows that the part is harmless. */
static void floor_note(sft__import_scan *s, const sft__import_scan_part *part,
                       const sft__import_looked *l) {
    const char *why = l->sentence[0] != '\0' ? l->sentence
                                             : "no known format, and nothing shows that no loader "
                                               "runs it";
    sft__import_find(
        s->job, SFT__RULE(BROKEN, UNKNOWN, "broken"),
        sft__import_text_at(part->where, l->place != SFT_NO_OFFSET && part->base != SFT_NO_OFFSET
                                             ? part->base + part->offset + l->place
                                             : SFT_NO_OFFSET),
        "%s", why);
}

/* Whether the reader's failure counts: not where the walker has seen the whole of it as pickles, or
 * where its members have verdicts of their own. */
static bool is_excused(const sft__import_looked *l, bool complete, bool members) {
    return (complete && (l->refused || l->long_pickle)) ||
           (members && (l->refused || l->format == SFT_IMPORT_TORCH_TAR));
}

static sft_status walk_part(sft__import_scan *s, const sft__import_scan_part *part,
                            const sft__import_looked *l, bool *complete, sft_error *err) {
    sft__import_scan_part data;
    sft__import_scan_walked walked;
    bool is_npy;

    sft__import_scan_part how = *part;
    if (sft__import_scan_is_plain(s->job, part, l->head, l->head_len)) {
        how.flags |= SFT__SCAN_RAW;
    }
    SFT_TRY(sft__import_scan_walk_part(s->job, &how, &walked, err));
    *complete = walked.pickles != 0 && walked.complete_to == part->size && !walked.limited;
    if (sft__import_scan_is_text(l->head, l->head_len, part->size)) {
        SFT_TRY(sft__import_scan_walk_lines(s->job, part, err));
    }
    SFT_TRY(npy_part(l, part, &data, &is_npy));
    return is_npy ? sft__import_scan_walk_part(s->job, &data, &walked, err) : SFT_OK;
}

/* Is a reader asked? Not for members that the container's has seen, nor for pickles in containers:
 * the walk says all about them. */
static bool is_for_reader(const sft__import_scan_part *part, const sft__import_looked *l,
                          const sft_allocator *a) {
    const sft__import_probe probe = {l->head, l->head_len, part->size, part->source, a};

    if ((part->flags & (SFT__SCAN_RAW | SFT__SCAN_READ | SFT__SCAN_SEEN)) != 0) {
        return false;
    }
    if (part->depth == 0) {
        return true;
    }
    return l->head_len >= 2 && !(l->head[0] == 0x80 && l->head[1] <= 5) &&
           (part->offset != 0 || !sft__import_reader_pickle.probe(&probe));
}

/* Read in order by a format that is no pickle: then only what a pickle would end with counts. */
static bool is_other(const sft__import_looked *l) {
    return l->read && l->format != SFT_IMPORT_PICKLE && l->format != SFT_IMPORT_TORCH_LEGACY &&
           l->format != SFT_IMPORT_TORCH_TAR && l->format != SFT_IMPORT_UNKNOWN;
}

/* Its members are parts of their own. */
static bool is_archive(const sft__import_looked *l) {
    return l->head_len >= 4 && sft__base_load_le32(l->head) == 0x04034b50u;
}

/* Readers of archives look through the last 64 KiB of each: members may share these. */
static bool pay_archive(sft__import_scan *s, const sft__import_scan_part *part,
                        const sft__import_looked *l) {
    const uint64_t tail = part->size < SFT__MEMBERS_TAIL ? part->size : SFT__MEMBERS_TAIL;

    if (!is_archive(l)) {
        return true;
    }
    const bool enough = s->look_left >= tail;
    s->look_left -= enough ? tail : s->look_left;
    return enough;
}

/* Archives one behind the other, as PyTorch's distributed checkpoints have them: no reader's, but
 * each is. */
static sft_status find_chain(const sft__import_scan_part *part, sft__import_looked *l,
                             sft_error *err) {
    sft__import_members list[SFT__MEMBERS_MOST];
    size_t count;

    if (!is_archive(l)) {
        return SFT_OK;
    }
    SFT_TRY(sft__import_members_list(list, &count, part, false, err));
    for (size_t i = 0; i < count; i++) {
        l->chain = l->chain || list[i].kind == SFT__MEMBERS_CHAIN;
    }
    l->refused = l->chain;
    return SFT_OK;
}

/* The rules about content. *vouched: no sentence of the floor's is needed, for they have a reason
 * to call it harmless, or have said why it is not. */
static sft_status content_part(sft__import_scan *s, const sft__import_scan_part *part,
                               const sft__import_looked *l, bool *vouched, sft_error *err) {
    const sft_import_report *report = s->job->report;
    const size_t before = sft_import_report_count(report);
    sft__import_scan_part seen = *part;

    seen.format = l->format;
    SFT_TRY(sft__import_scan_content(s->job, &seen, vouched, err));
    *vouched = *vouched || (sft_import_report_count(report) != before &&
                            sft_import_report_verdict(report) != SFT_SCAN_HARMLESS);
    return SFT_OK;
}

/* A string, or what came out of one: nothing is known of it unless something is found. */
static sft_status look_at_string(sft__import_scan *s, const sft__import_scan_part *part,
                                 sft__import_looked *l, sft_error *err) {
    const size_t before = sft_import_report_count(s->job->report);
    sft__import_scan_part how = *part;
    bool ignored = false;

    how.flags = SFT__SCAN_RAW | SFT__SCAN_NESTED;
    SFT_TRY(sft__import_scan_walk(s->job, &how, err));
    if ((part->flags & SFT__SCAN_CODED) != 0 && sft_import_report_count(s->job->report) != before) {
        sft__import_scan_note(s->job, part, SFT_SCAN_UNKNOWN, "base64",
                              "a pickle in base64 or hex stands in a text");
    }
    if (part->depth < SFT__SCAN_DEPTH) {
        SFT_TRY(sft__import_scan_apart(s, part, l, &ignored, err));
    }
    SFT_TRY(unpack_part(s, part, l, &ignored, err));
    SFT_TRY(sft__import_scan_content(s->job, part, &ignored, err));
    return sft__import_scan_string_part(s, part, l, err);
}

static sft_status look_at(sft__import_scan *s, const sft__import_scan_part *given,
                          sft__import_looked *l, sft_error *err) {
    sft__import_scan_part part = *given;
    bool complete = false;
    bool members = false;
    bool packed = false;
    bool vouched = false;

    l->place = SFT_NO_OFFSET;
    l->head_len = part.size < sizeof l->head ? (size_t)part.size : sizeof l->head;
    if (l->head_len != 0) {
        SFT_TRY(sft_source_read(part.source, part.offset, l->head, l->head_len, err));
    }
    if ((part.flags & SFT__SCAN_STRING) != 0) {
        if (!sft__import_scan_is_file(l->head, l->head_len)) {
            return look_at_string(s, &part, l, err);
        }
        part.flags = 0;
    }
    const uint32_t flags = part.flags;
    l->read = (part.flags & SFT__SCAN_READ) != 0;
    const bool paid = part.depth == 0 || pay_archive(s, &part, l);
    if (paid) {
        SFT_TRY(find_chain(&part, l, err));
    }
    if (paid && !l->chain && is_for_reader(&part, l, s->job->allocator)) {
        SFT_TRY(read_part(s, &part, l, err));
    }
    part.flags |= is_other(l) ? SFT__SCAN_RAW : 0;
    SFT_TRY(walk_part(s, &part, l, &complete, err));
    if (part.depth < SFT__SCAN_DEPTH) {
        SFT_TRY(sft__import_scan_apart(s, &part, l, &members, err));
    }
    part.flags = flags;
    if ((flags & SFT__SCAN_RAW) != 0) {
        return SFT_OK;
    }
    if (!complete) { /* else the walk has seen each string */
        const bool marks = (is_other(l) && !is_archive(l)) ||
                           (!l->read && sft__import_scan_is_image(l->head, l->head_len));
        SFT_TRY(sft__import_scan_runs(s, &part, marks, err));
    }
    if (!l->read) {
        SFT_TRY(unpack_part(s, &part, l, &packed, err));
    }
    SFT_TRY(content_part(s, &part, l, &vouched, err));
    if (part.depth == 0 && !l->read && (members || packed)) {
        sft__import_scan_names(s->job, members ? SFT_IMPORT_ARCHIVE : SFT_IMPORT_PACKED);
    }
    const bool positive = l->read || is_short_text(l, &part) || complete || packed;
    if (!l->read && !packed && !vouched && !is_excused(l, complete, members) &&
        !(positive && l->format == SFT_IMPORT_UNKNOWN)) {
        floor_note(s, &part, l);
    }
    return SFT_OK;
}

static sft_status one_part(sft__import_scan *s, const sft__import_scan_part *part, sft_error *err) {
    sft__import_looked *l = sft__base_alloc_zero(s->job->allocator, sizeof *l);

    SFT_NEED(l != NULL, sizeof *l, err);
    const sft_status status = look_at(s, part, l, err);
    sft__base_free(s->job->allocator, l, sizeof *l);
    return status;
}

/* ---------------------------------------------------------------- all of a file */

static sft_status one_task(sft__import_scan *s, sft_error *err) {
    sft__import_task t = s->tasks[--s->count];
    sft_status status = SFT_OK;
    bool is;

    if (t.kind == SFT__TASK_MEMBERS) {
        return sft__import_scan_next_member(s, &t, err);
    }
    if (t.kind == SFT__TASK_PART) {
        status = one_part(s, &t.part, err);
    } else if (t.kind == SFT__TASK_PACKED) {
        if (sft__import_pack_is_read(t.pack)) {
            status = sft__import_scan_unpack(s, &t, &is, err);
        } else {
            sft__import_scan_note(s->job, &t.part, SFT_SCAN_UNKNOWN, "compressed",
                                  "compressed in a way that this build does not look into");
        }
    }
    sft__import_task_reset(s, &t);
    return status;
}

static sft_status scan_all(sft__import *job, const sft_source *source, sft_error *err) {
    const uint64_t size = sft_source_size(source);
    const sft__import_task first = {.kind = SFT__TASK_PART,
                                    .part = {.source = source, .size = size, .where = ""}};
    sft__import_scan *s = sft__base_alloc_zero(job->allocator, sizeof *s);

    SFT_NEED(s != NULL, sizeof *s, err);
    s->job = job;
    s->keep_left = 2 * SFT__SCAN_KEEP;
    s->runs_left = RUNS_MOST;
    s->marks_left = MARKS_MOST;
    s->heads_left = HEADS_MOST;
    s->look_left = LOOK_FLOOR + (size / 2 < LOOK_MOST ? size / 2 : LOOK_MOST);
    s->members_left = MEMBERS_FLOOR + size / MEMBER_BYTES;
    sft__import_scan_letters(s);
    s->unpack_left = UNPACK_FLOOR + (size < UINT64_MAX / 4 ? 2 * size : UINT64_MAX / 4);
    job->walk_left = WALK_FLOOR + (size < WALK_MOST / 4 ? 2 * size : WALK_MOST - WALK_FLOOR);
    job->work = s;
    sft_status status = sft__import_scan_push(s, &first, err);
    while (status == SFT_OK && s->count != 0) {
        status = one_task(s, err);
    }
    while (s->count != 0) {
        sft__import_task_reset(s, &s->tasks[--s->count]);
    }
    job->work = NULL;
    sft__base_free(job->allocator, s->tasks, s->room * sizeof *s->tasks);
    sft__base_free(job->allocator, s, sizeof *s);
    return status;
}

sft_status sft__import_scan_file(sft_import_report **out, sft_source *source, const char *path,
                                 const sft_import_options *options, sft_error *err) {
    uint32_t format = SFT_IMPORT_UNKNOWN;
    sft__import job;

    *out = NULL;
    memset(&job, 0, sizeof job);
    job.path = path;
    job.file = source;
    job.scanning = true;
    sft_status status = sft__import_job_options(&job, options, err);
    if (status == SFT_OK) {
        job.inflate_left = job.options.inflate_bytes;
        sft__base_arena_init(&job.arena, job.allocator, job.options.memory_bytes / 4);
        status = sft__import_report_create(&job.report, job.allocator, err);
    }
    if (status == SFT_OK) {
        status = sft_import_detect(source, &format, err);
    }
    if (status == SFT_OK) {
        sft__import_report_format(job.report, format);
        status = scan_all(&job, source, err);
    }
    if (status == SFT_OK) {
        status = sft_source_unchanged(source, err);
    }
    if (status == SFT_OK) {
        *out = job.report;
        job.report = NULL;
    }
    sft__import_job_reset(&job);
    sft_source_close(source);
    return status;
}
