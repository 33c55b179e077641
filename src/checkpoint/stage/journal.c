/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/stage/journal.c - see journal.h.
 */
#include "checkpoint/stage/journal.h"
#include "base/text/buf.h"
#include <sft/digest.h>

enum { MAGIC_LEN = 10, KEY_DIGITS = 64, CRC_LEN = 10 };
/* Before 6 the sources of ranks that are one model had one more, which held the checkpoint. */
static const char magic[] = "sft-job 6 ";
static const char unknown[] = "--------";

/* ---------------------------------------------------------------- writing */

void sft__checkpoint_journal_hex(sft__base_buf *out, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char pair[2];
        sft__base_hex(pair, &bytes[i], 1);
        sft__base_buf_add(out, pair, 2);
    }
}

void sft__checkpoint_journal_crc(sft__base_buf *out, uint32_t crc) {
    char digits[8];
    sft__base_hex32(digits, crc);
    sft__base_buf_add(out, digits, sizeof digits);
}

static void end_line(sft__base_buf *out, size_t begun) {
    const uint32_t crc = out->failed ? 0 : sft_crc32c(0, out->data + begun, out->len - begun);
    sft__base_buf_text(out, " #");
    sft__checkpoint_journal_crc(out, crc);
    sft__base_buf_text(out, "\n");
}

/* Models of one kind have the same shapes, and often the same times: the name tells them apart.
 * What is behind a URL's question mark may be a key that is new every day. */
static uint32_t name_crc(const sft__checkpoint_job_source *s) {
    const char *const name = sft_source_name(s->source);
    const bool remote = (sft_source_flags(s->source) & SFT_SOURCE_REMOTE) != 0;
    return sft_crc32c(0, name, remote ? strcspn(name, "?#") : strlen(name));
}

void sft__checkpoint_journal_begin(const sft_job *job, sft__base_buf *out) {
    size_t begun = out->len;
    sft__base_buf_text(out, magic);
    sft__checkpoint_journal_hex(out, job->plan_key, sizeof job->plan_key);
    end_line(out, begun);
    for (size_t i = 0; i < job->source_count; i++) {
        begun = out->len;
        sft__base_buf_text(out, "source ");
        sft__base_buf_u64(out, i);
        sft__base_buf_text(out, " ");
        sft__base_buf_u64(out, job->sources[i].size);
        sft__base_buf_text(out, " ");
        sft__base_buf_u64(out, (uint64_t)job->sources[i].mtime_ns);
        sft__base_buf_text(out, " ");
        sft__base_buf_u64(out, job->sources[i].number);
        sft__base_buf_text(out, " ");
        sft__checkpoint_journal_crc(out, name_crc(&job->sources[i]));
        end_line(out, begun);
    }
}

void sft__checkpoint_journal_unit(sft__base_buf *out, size_t unit, uint64_t crc) {
    const size_t begun = out->len;
    sft__base_buf_text(out, "unit ");
    sft__base_buf_u64(out, unit);
    sft__base_buf_text(out, " ");
    if (crc == SFT__CRC_UNKNOWN) {
        sft__base_buf_text(out, unknown);
    } else {
        sft__checkpoint_journal_crc(out, (uint32_t)crc);
    }
    end_line(out, begun);
}

void sft__checkpoint_journal_commit(sft__base_buf *out, uint32_t headers) {
    const size_t begun = out->len;
    sft__base_buf_text(out, "commit ");
    sft__checkpoint_journal_crc(out, headers);
    end_line(out, begun);
}

/* ---------------------------------------------------------------- reading */

typedef struct line {
    const char *text; /* without the CRC */
    size_t len;
} line;

static bool number(line *l, uint64_t *value) {
    size_t n = 0;
    *value = 0;
    while (n < l->len && l->text[n] >= '0' && l->text[n] <= '9') {
        if (!sft__base_mul64(*value, 10, value) ||
            !sft__base_add64(*value, (uint64_t)(l->text[n] - '0'), value)) {
            return false;
        }
        n++;
    }
    l->text += n;
    l->len -= n;
    return n > 0;
}

static bool word(line *l, const char *w) {
    const size_t n = strlen(w);
    if (l->len < n || memcmp(l->text, w, n) != 0) {
        return false;
    }
    l->text += n;
    l->len -= n;
    return true;
}

/* The next whole line with a good CRC. False: the end, or torn. */
static bool next_line(const char *text, size_t size, size_t *at, line *l) {
    const char *const begin = text + *at;
    const char *const end = size > *at ? memchr(begin, '\n', size - *at) : NULL;
    uint32_t crc;
    if (end == NULL || end - begin < CRC_LEN || end[-CRC_LEN] != ' ' || end[1 - CRC_LEN] != '#' ||
        !sft__base_hex32_read(&crc, end - 8)) {
        return false;
    }
    l->text = begin;
    l->len = (size_t)(end - begin) - CRC_LEN;
    if (sft_crc32c(0, l->text, l->len) != crc) {
        return false;
    }
    *at += (size_t)(end - begin) + 1;
    return true;
}

static sft_status other_plan(const char *path, sft_error *err) {
    return sft__base_fail(
        err, SFT_E_MISMATCH,
        "\"%.200s\" is the journal of another job: restart, or remove its directory", path);
}

/* The rest of a source's line: which one, and what it was. */
typedef struct was {
    uint64_t index;
    uint64_t size;
    uint64_t mtime;
    uint64_t number;
    uint32_t name;
} was;

static bool source_line(const sft_job *job, line *l, was *w) {
    return number(l, &w->index) && word(l, " ") && number(l, &w->size) && word(l, " ") &&
           number(l, &w->mtime) && word(l, " ") && number(l, &w->number) && word(l, " ") &&
           l->len == 8 && sft__base_hex32_read(&w->name, l->text) && w->index < job->source_count;
}

static sft_status same_stamp(const sft__checkpoint_job_source *s, const was *w, sft_error *err) {
    const bool same = s->size == w->size && (uint64_t)s->mtime_ns == w->mtime;
    const bool blind = (sft_source_flags(s->source) & SFT_SOURCE_REMOTE) != 0 && s->number == 0;
    if (same && !blind && s->number == w->number) { /* devices are numbered by each machine */
        return SFT_OK;
    }
    const char *const why =
        blind && same
            ? "tells no version: it may be another than in an earlier run, whose results are kept: "
              "restart"
        : same && s->timed
            ? "is another file than the one that an earlier run, whose results are kept, has read, "
              "though of the same size and time: restart"
            : "has changed since an earlier run, whose results are kept: restart";
    return sft__base_fail(err, SFT_E_CHANGED, "\"%.200s\" %s", sft_source_name(s->source), why);
}

static sft_status take_source(const sft_job *job, line *l, const char *path, sft_error *err) {
    was w;
    if (!source_line(job, l, &w)) {
        return other_plan(path, err);
    }
    const sft__checkpoint_job_source *const s = &job->sources[w.index];
    if (w.name != name_crc(s)) {
        return sft__base_fail(err, SFT_E_MISMATCH,
                              "an earlier run, whose results are kept, read something else than "
                              "\"%.200s\": restart",
                              sft_source_name(s->source));
    }
    return same_stamp(s, &w, err);
}

/* A journal as it was read. */
typedef struct journal {
    const sft_job *job;
    const char *path;
    const char *text;
    size_t size;
} journal;

/* Of the journal of another plan, from its second line on: a source whose tensors are others makes
 * another plan too, and then it is the source that has changed. */
static sft_status why_other(const journal *j, size_t at, sft_error *err) {
    const size_t begin = sizeof "sft-job " - 1;
    line l;
    was w;
    if (memcmp(j->text, magic, begin) == 0 && memcmp(j->text, magic, sizeof magic - 1) != 0) {
        return sft__base_fail(err, SFT_E_MISMATCH,
                              "\"%.200s\" is the journal of another version of this program: "
                              "restart, or remove its directory",
                              j->path);
    }
    while (next_line(j->text, j->size, &at, &l) && word(&l, "source ") &&
           source_line(j->job, &l, &w)) {
        const sft__checkpoint_job_source *const s = &j->job->sources[w.index];
        if (w.name == name_crc(s)) {
            SFT_TRY(same_stamp(s, &w, err));
        }
    }
    return other_plan(j->path, err);
}

static sft_status take_line(const sft_job *job, line l, const char *path,
                            sft__checkpoint_done *done, sft_error *err) {
    uint64_t unit;
    uint32_t crc = 0;
    if (word(&l, "source ")) {
        return take_source(job, &l, path, err);
    }
    if (word(&l, "unit ") && number(&l, &unit) && unit < job->unit_count && word(&l, " ") &&
        l.len == 8 && (memcmp(l.text, unknown, 8) == 0 || sft__base_hex32_read(&crc, l.text))) {
        done->units[unit] = 1;
        done->crcs[unit] = l.text[0] == '-' ? SFT__CRC_UNKNOWN : crc;
        return SFT_OK;
    }
    if (word(&l, "commit ") && l.len == 8 && sft__base_hex32_read(&crc, l.text)) {
        done->committed = true;
        done->headers = crc;
        return SFT_OK;
    }
    return other_plan(path, err);
}

static sft_status take_lines(const journal *j, sft__checkpoint_done *done, uint64_t *valid,
                             sft_error *err) {
    const sft_job *const job = j->job;
    size_t at = 0;
    size_t lines = 0;
    sft__base_buf begin;
    line l;
    sft__base_buf_init(&begin, job->allocator);
    sft__base_buf_text(&begin, magic);
    sft__checkpoint_journal_hex(&begin, job->plan_key, sizeof job->plan_key);
    sft_status status = begin.failed ? sft__base_fail_nomem(err, MAGIC_LEN + KEY_DIGITS) : SFT_OK;
    while (status == SFT_OK && next_line(j->text, j->size, &at, &l)) {
        if (lines == 0 && (l.len != begin.len || memcmp(l.text, begin.data, l.len) != 0)) {
            status = why_other(j, at, err);
        } else if (lines > 0) {
            status = take_line(job, l, j->path, done, err);
        }
        lines++;
    }
    /* a beginning that was torn tells of no unit */
    *valid = lines > job->source_count ? at : 0;
    sft__base_buf_reset(&begin);
    return status;
}

sft_status sft__checkpoint_journal_read(const sft_job *job, const char *path,
                                        sft__checkpoint_done *done, uint64_t *valid,
                                        sft_error *err) {
    sft__fs_stat fact;
    sft_source *source = NULL;
    *valid = 0;
    SFT_TRY(sft__fs_look(path, &fact, err));
    if (!fact.exists || fact.size == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_open(&source, path, SFT_ACCESS_READ, job->allocator, err));
    const size_t size = (size_t)sft_source_size(source);
    char *const text =
        size == sft_source_size(source) ? sft__base_alloc(job->allocator, size + 1) : NULL;
    sft_status status = text == NULL ? sft__base_fail_nomem(err, size)
                                     : sft_source_read(source, 0, text, size, err);
    if (status == SFT_OK) {
        status = take_lines(&(journal){job, path, text, size}, done, valid, err);
    }
    sft__base_free(job->allocator, text, size + 1);
    sft_source_close(source);
    return status;
}

bool sft__checkpoint_journal_is_committed(const sft_job *job, const char *path) {
    enum { COMMIT_LEN = 7 + 8 + CRC_LEN + 1 }; /* nothing is written behind it */
    sft_source *source = NULL;
    char end[COMMIT_LEN];
    size_t at = 0;
    bool is = false;
    line l;
    if (sft_source_open(&source, path, SFT_ACCESS_READ, job->allocator, NULL) == SFT_OK) {
        const uint64_t size = sft_source_size(source);
        is = size >= sizeof end &&
             sft_source_read(source, size - sizeof end, end, sizeof end, NULL) == SFT_OK &&
             next_line(end, sizeof end, &at, &l) && word(&l, "commit ");
        sft_source_close(source);
    }
    return is;
}
