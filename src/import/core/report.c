/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/report.c - what was found in a file, beside its tensors: names that pickles refer to,
 * tricks, things left out. Bounded: after FINDINGS_MAX further findings only raise the verdict.
 * Read first: import.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "import/core/import.h"
#include <stdio.h>

enum {
    FINDINGS_MAX = 65536,
    SUBJECT_MAX = 512,
    MESSAGE_MAX = 400,
    KEY_HEAD = 64,
    REPORT_BUDGET = 32 << 20
};

typedef struct noted {
    const char *key; /* kind, rule, subject: name, len first for the strmap */
    size_t key_len;
    sft_finding finding;
} noted;

struct sft_import_report {
    const sft_allocator *allocator;
    sft__base_arena arena;
    noted *list;
    size_t count;
    size_t room;
    sft__base_strmap map;
    uint64_t unused_bytes;
    uint64_t covered_bytes;
    uint32_t format;
    uint32_t verdict;
    bool full; /* nothing is added any more */
};

sft_status sft__import_report_create(sft_import_report **out, const sft_allocator *allocator,
                                     sft_error *err) {
    sft_import_report *r = sft__base_alloc_zero(allocator, sizeof *r);

    *out = r;
    SFT_NEED(r != NULL, sizeof *r, err);
    r->allocator = allocator;
    sft__base_arena_init(&r->arena, allocator, REPORT_BUDGET);
    return SFT_OK;
}

void sft_import_report_free(sft_import_report *report) {
    if (report != NULL) {
        sft__base_strmap_reset(&report->map);
        sft__base_arena_free(&report->arena);
        sft__base_free(report->allocator, report->list, report->room * sizeof *report->list);
        sft__base_free(report->allocator, report, sizeof *report);
    }
}

void sft__import_report_format(sft_import_report *report, uint32_t format) {
    report->format = format;
}

void sft__import_report_unused(sft_import_report *report, uint64_t bytes) {
    report->unused_bytes += bytes;
}

void sft__import_report_covered(sft_import_report *report, uint64_t bytes) {
    report->covered_bytes += bytes;
}

uint64_t sft__import_report_covered_bytes(const sft_import_report *report) {
    return report != NULL ? report->covered_bytes : 0;
}

/* Room for one more, the names found again afterwards. */
static bool report_grow(sft_import_report *r) {
    const size_t before = r->room;

    if (r->count < r->room) {
        return true;
    }
    if (!sft__base_grow(r->allocator, &r->list, &r->room, r->count + 1, sizeof *r->list)) {
        return false;
    }
    if (before != 0) {
        sft__base_strmap_reset(&r->map);
    }
    if (!sft__base_strmap_init(&r->map, r->list, sizeof *r->list, r->room, r->allocator)) {
        memset(&r->map, 0, sizeof r->map);
        r->full = true;
        return false;
    }
    for (size_t i = 0; i < r->count; i++) {
        (void)sft__base_strmap_add(&r->map, i);
    }
    return true;
}

/* Kind, rule, subject; returns its length. */
static size_t key_of(char key[SUBJECT_MAX + KEY_HEAD], const sft_finding *finding, size_t cut) {
    const size_t rule = strlen(finding->rule);
    const size_t n = rule < KEY_HEAD - 2 ? rule : KEY_HEAD - 2;

    key[0] = (char)finding->kind; /* below 128 */
    memcpy(key + 1, finding->rule, n);
    key[1 + n] = '/';
    memcpy(key + 2 + n, finding->subject, cut);
    return 2 + n + cut;
}

/* Counts a finding that is there, or that there is no room for: a file may have millions of them,
 * and their sentences need not be made. */
static bool is_known(sft_import_report *report, const sft_finding *finding, size_t subject_len) {
    char key[SUBJECT_MAX + KEY_HEAD];
    const size_t cut = subject_len < SUBJECT_MAX ? subject_len : SUBJECT_MAX;
    const size_t key_len = key_of(key, finding, cut);

    report->verdict = finding->verdict > report->verdict ? finding->verdict : report->verdict;
    if (report->full && finding->kind == SFT_FINDING_GLOBAL) {
        return true; /* a file may name millions: not even counted */
    }
    const size_t old =
        report->room != 0 ? sft__base_strmap_find(&report->map, key, key_len) : SFT__STRMAP_NONE;
    if (old != SFT__STRMAP_NONE) {
        report->list[old].finding.count += finding->count;
    }
    return old != SFT__STRMAP_NONE || report->full;
}

void sft__import_report_add(sft_import_report *report, const sft_finding *finding,
                            size_t subject_len) {
    char key[SUBJECT_MAX + KEY_HEAD];
    const size_t cut = subject_len < SUBJECT_MAX ? subject_len : SUBJECT_MAX;
    const size_t key_len = key_of(key, finding, cut);

    if (is_known(report, finding, subject_len) || !report_grow(report)) {
        return;
    }
    noted *n = &report->list[report->count];
    n->key = sft__base_arena_copy(&report->arena, key, key_len);
    n->key_len = key_len;
    n->finding = *finding;
    n->finding.subject = sft__base_arena_copy(&report->arena, finding->subject, cut);
    n->finding.message =
        sft__base_arena_copy(&report->arena, finding->message, strlen(finding->message));
    if (n->key != NULL && n->finding.subject != NULL && n->finding.message != NULL) {
        (void)sft__base_strmap_add(&report->map, report->count);
        report->count++;
    }
    report->full = report->full || report->count >= FINDINGS_MAX || n->finding.message == NULL;
    if (report->count == FINDINGS_MAX - 1 && !report->full) {
        const sft_finding more = {
            SFT_FINDING_BROKEN,
            report->verdict,
            "",
            "too-many",
            "more is found than is listed: what is behind counts for the verdict alone",
            SFT_NO_OFFSET,
            1};
        sft__import_report_add(report, &more, 0);
    }
}

static void find_list(sft__import *job, sft_finding f, size_t subject_len, const char *format,
                      va_list args) {
    char raw[MESSAGE_MAX];
    char message[MESSAGE_MAX];

    f.subject = f.subject != NULL ? f.subject : "";
    if (is_known(job->report, &f, subject_len)) {
        return;
    }
    if (f.offset != SFT_NO_OFFSET) {
        f.offset = job->base != SFT_NO_OFFSET ? job->base + f.offset : SFT_NO_OFFSET;
    }
    const int n = vsnprintf(raw, sizeof raw, format, args);
    if (job->where != NULL && job->where[0] != '\0' && n >= 0 && (size_t)n < sizeof raw - 8) {
        (void)snprintf(raw + n, sizeof raw - (size_t)n, " (in %.160s)", job->where);
    }
    (void)sft_escape(message, sizeof message, raw, strlen(raw));
    f.message = message;
    sft__import_report_add(job->report, &f, subject_len);
}

static sft_finding finding_of(sft__import_rule rule, sft__import_subject subject, uint64_t count) {
    return (sft_finding){rule.kind, rule.verdict,   subject.text, rule.name,
                         NULL,      subject.offset, count};
}

void sft__import_find(sft__import *job, sft__import_rule rule, sft__import_subject subject,
                      const char *format, ...) {
    va_list args;

    va_start(args, format);
    find_list(job, finding_of(rule, subject, 1), subject.len, format, args);
    va_end(args);
}

void sft__import_left(sft__import *job, const char *subject, size_t subject_len, uint64_t count,
                      const char *format, ...) {
    const sft__import_subject about = {subject, subject_len, SFT_NO_OFFSET};
    va_list args;

    va_start(args, format);
    find_list(job, finding_of(SFT__RULE(LEFT_OUT, HARMLESS, "left-out"), about, count), subject_len,
              format, args);
    va_end(args);
}

void sft__import_report_merge(sft_import_report *into, const sft_import_report *from) {
    for (size_t i = 0; i < from->count; i++) {
        const sft_finding *f = &from->list[i].finding;
        sft__import_report_add(into, f, strlen(f->subject));
    }
    into->verdict = from->verdict > into->verdict ? from->verdict : into->verdict;
    into->unused_bytes += from->unused_bytes;
    into->covered_bytes += from->covered_bytes;
    into->format = from->format;
}

uint64_t sft__import_report_left_out(const sft_import_report *report) {
    uint64_t count = 0;

    for (size_t i = 0; report != NULL && i < report->count; i++) {
        const sft_finding *f = &report->list[i].finding;
        if (f->kind == SFT_FINDING_LEFT_OUT && !sft__base_add64(count, f->count, &count)) {
            return UINT64_MAX;
        }
    }
    return count;
}

sft_status sft__import_opaque(sft__import *job, sft__import_subject subject, sft_error *err,
                              const char *format, ...) {
    sft_status status = SFT_OK;
    char text[MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    if (job->scanning || (job->options.flags & SFT_IMPORT_ALLOW_OPAQUE) != 0) {
        find_list(job, finding_of(SFT__RULE(LEFT_OUT, HARMLESS, "left-out"), subject, 1),
                  subject.len, format, args);
    } else {
        /* classes have a place in the file, tensors a name */
        const size_t name_len = subject.offset == SFT_NO_OFFSET ? subject.len : 0;
        (void)vsnprintf(text, sizeof text, format, args);
        status = sft_error_at(err, SFT_E_UNSUPPORTED, subject.offset, subject.text, name_len, "%s",
                              text);
    }
    va_end(args);
    return status;
}

sft_status sft__import_trick(sft__import *job, sft__import_rule rule, sft__import_subject subject,
                             sft_error *err, const char *format, ...) {
    sft_status status = SFT_OK;
    char text[MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    if (job->scanning) {
        find_list(job, finding_of(rule, subject, 1), subject.len, format, args);
    } else {
        (void)vsnprintf(text, sizeof text, format, args);
        status = sft__base_fail_at(err, SFT_E_SCHEMA, subject.offset, "%s: %s", rule.name, text);
    }
    va_end(args);
    return status;
}

sft_status sft__import_unnamed(sft__import *job, const sft_source *source, uint64_t from,
                               uint64_t to, sft_error *err) {
    uint8_t bytes[4096];
    bool zeros = true;

    for (uint64_t at = from; job->scanning && zeros && at < to;) {
        const size_t n = to - at < sizeof bytes ? (size_t)(to - at) : sizeof bytes;
        SFT_TRY(sft_source_read(source, at, bytes, n, err));
        for (size_t i = 0; i < n; i++) {
            zeros = zeros && bytes[i] == 0;
        }
        at += n;
    }
    if (!zeros) {
        sft__import_find(job, SFT__RULE(CONTAINER, UNKNOWN, "trailing"), SFT__AT("", 0, from),
                         "%llu bytes that belong to no part of the format, and are no padding",
                         (unsigned long long)(to - from));
    }
    return SFT_OK;
}

size_t sft_import_report_count(const sft_import_report *report) {
    return report != NULL ? report->count : 0;
}

const sft_finding *sft_import_report_at(const sft_import_report *report, size_t index) {
    return report != NULL && index < report->count ? &report->list[index].finding : NULL;
}

uint32_t sft_import_report_format(const sft_import_report *report) {
    return report != NULL ? report->format : SFT_IMPORT_UNKNOWN;
}

uint32_t sft_import_report_verdict(const sft_import_report *report) {
    return report != NULL ? report->verdict : SFT_SCAN_HARMLESS;
}

uint64_t sft__import_report_unused_bytes(const sft_import_report *report) {
    return report != NULL ? report->unused_bytes : 0;
}
