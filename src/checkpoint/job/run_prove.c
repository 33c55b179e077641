/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_prove.c - what an earlier run left, compared with what its journals say: nothing
 * is believed that cannot be read back. Before renames have begun, units that do not prove are
 * written again (run.c); afterwards, the sources of what is gone may be gone too, so here it is
 * said. Read first: run.h, journal.h.
 */
#include "base/memory/need.h"
#include "checkpoint/job/run.h"
#include <sft/digest.h>

/* Files are read where they are: in the staging directory, or where they have been renamed to. */
typedef struct proof {
    const sft__checkpoint_running *r;
    const char *directory; /* the only one, or NULL: staging, then the target */
    sft_source *source;    /* of `file`; the last that was looked at */
    size_t file;
    sft__base_buf path;
    uint8_t *buffer; /* job->room bytes */
    uint8_t *other;  /* sft__base_size.job_block bytes */
    uint32_t crc;
    bool differs;
} proof;

static sft_status damaged(const proof *p, const char *name, sft_error *err) {
    return sft__base_fail(err, SFT_E_MISMATCH,
                          "\"%.120s\" is not what an earlier run wrote to \"%.120s\": restart",
                          name, p->directory != NULL ? p->directory : p->r->stage.directory);
}

/* The source of NAME, wherever it is; NULL: nowhere, or no file. */
static sft_status find_file(proof *p, const char *name, sft_source **out, sft_error *err) {
    const char *const directories[] = {p->directory != NULL ? p->directory : p->r->stage.directory,
                                       p->directory != NULL ? NULL : p->r->stage.root};
    *out = NULL;
    for (size_t i = 0; i < 2 && directories[i] != NULL && *out == NULL; i++) {
        sft__fs_stat fact;
        SFT_TRY(sft__checkpoint_stage_path(&p->path, directories[i], name, err));
        SFT_TRY(sft__fs_look(p->path.data, &fact, err));
        if (fact.exists && fact.regular) {
            SFT_TRY(sft_source_open(out, p->path.data, SFT_ACCESS_READ, p->r->job->allocator, err));
        }
    }
    return SFT_OK;
}

static sft_status open_file(proof *p, size_t file, sft_error *err) {
    const sft__checkpoint_job_file *const f = &p->r->job->files[file];
    if (p->source != NULL && p->file == file) {
        return SFT_OK;
    }
    sft_source_close(p->source);
    p->source = NULL;
    SFT_TRY(find_file(p, f->given.name, &p->source, err));
    if (p->source == NULL || sft_source_size(p->source) != f->size) {
        return damaged(p, f->given.name, err);
    }
    p->file = file;
    return SFT_OK;
}

static sft_status sum_range(void *ctx, sft__checkpoint_range range, sft_error *err) {
    proof *const p = ctx;
    SFT_TRY(open_file(p, range.file, err));
    while (range.size > 0) {
        const uint64_t block = sft__base_size.job_block;
        const size_t n = (size_t)(range.size < block ? range.size : block);
        SFT_TRY(sft_source_read(p->source, range.offset, p->other, n, err));
        p->crc = sft_crc32c(p->crc, p->other, n);
        range.offset += n;
        range.size -= n;
    }
    return SFT_OK;
}

/* What the unit would write now, beside what is there. */
static sft_status compare_bytes(void *ctx, uint32_t file, uint64_t offset, uint8_t *data,
                                size_t size, sft_error *err) {
    proof *const p = ctx;
    SFT_TRY(open_file(p, file, err));
    while (size > 0) {
        const size_t n = size < sft__base_size.job_block ? size : (size_t)sft__base_size.job_block;
        SFT_TRY(sft_source_read(p->source, offset, p->other, n, err));
        p->differs = p->differs || memcmp(p->other, data, n) != 0;
        data += n;
        offset += n;
        size -= n;
    }
    return SFT_OK;
}

static sft_status prove_texts(proof *p, sft_error *err) {
    const sft_job *const job = p->r->job;
    for (size_t i = 0; i < job->text_count; i++) {
        const sft_job_text *const t = &job->texts[i];
        sft_source *source;
        SFT_TRY(find_file(p, t->name, &source, err));
        uint8_t *const text = source != NULL && sft_source_size(source) == t->size
                                  ? sft__base_alloc(job->allocator, t->size + 1)
                                  : NULL;
        const bool same =
            text != NULL &&
            (t->size == 0 || sft_source_read(source, 0, text, t->size, NULL) == SFT_OK) &&
            memcmp(text, t->data, t->size) == 0;
        sft__base_free(job->allocator, text, t->size + 1);
        sft_source_close(source);
        if (!same) {
            return damaged(p, t->name, err);
        }
    }
    return SFT_OK;
}

/* CRC32C of all headers, one behind the other. */
static sft_status sum_headers(proof *p, uint32_t *crc, sft_error *err) {
    const sft_job *const job = p->r->job;
    p->crc = 0;
    for (size_t i = 0; i < job->count; i++) {
        SFT_TRY(sum_range(p, (sft__checkpoint_range){(uint32_t)i, 0, job->files[i].header}, err));
    }
    *crc = p->crc;
    return SFT_OK;
}

static void begin(proof *p, sft__checkpoint_running *r, const char *directory, uint8_t *buffer) {
    memset(p, 0, sizeof *p);
    p->r = r;
    p->directory = directory;
    p->other = buffer;
    p->buffer = buffer + sft__base_size.job_block;
    sft__base_buf_init(&p->path, r->job->allocator);
}

static void end(proof *p) {
    sft_source_close(p->source);
    sft__base_buf_reset(&p->path);
}

sft_status sft__checkpoint_running_sum_headers(sft__checkpoint_running *r, uint32_t *crc,
                                               sft_error *err) {
    const size_t room = (size_t)sft__base_size.job_block;
    uint8_t *const buffer = sft__base_alloc(r->job->allocator, room);
    proof p;
    SFT_NEED(buffer != NULL, room, err);
    begin(&p, r, r->stage.directory, buffer);
    const sft_status status = sum_headers(&p, crc, err);
    end(&p);
    sft__base_free(r->job->allocator, buffer, room);
    return status;
}

/* What is proven: the headers and texts are one block, each unit is another. */
typedef struct proving {
    sft__checkpoint_running *r;
    const sft__checkpoint_done *done;
    const char *directory;
} proving;

static sft_status prove_ends(proof *p, uint32_t headers, sft_error *err) {
    const sft_job *const job = p->r->job;
    uint32_t crc = 0;
    SFT_TRY(sum_headers(p, &crc, err));
    return crc == headers ? prove_texts(p, err)
                          : damaged(p, job->count > 0 ? job->files[0].given.name : "", err);
}

/* A CRC32C is what a journal has; where it is not known, the sources are asked. Journals go after the
 * renames, one by one. */
static sft_status prove_unit(proof *p, const sft__checkpoint_done *done, size_t unit,
                             sft_error *err) {
    const sft_job *const job = p->r->job;
    const uint64_t known = done->units[unit] != 0 ? done->crcs[unit] : SFT__CRC_UNKNOWN;
    sft__checkpoint_job_sink sink = {p, compare_bytes, NULL, 0};
    SFT_TRY(known != SFT__CRC_UNKNOWN
                ? sft__checkpoint_job_ranges(job, &job->units[unit], sum_range, p, err)
                : sft__checkpoint_job_copy(job, &job->units[unit], p->buffer, &sink, err));
    p->differs = p->differs || (known != SFT__CRC_UNKNOWN && p->crc != known);
    return p->differs ? damaged(p, job->files[p->file].given.name, err) : SFT_OK;
}

static sft_status prove_block(void *ctx, size_t index, sft_error *err) {
    const proving *const v = ctx;
    uint8_t *const buffer = sft__move_loop_take(&v->r->loop, err);
    proof p;
    if (buffer == NULL) {
        return SFT_E_NOMEM;
    }
    begin(&p, v->r, v->directory, buffer);
    const sft_status status = index == 0 ? prove_ends(&p, v->done->headers, err)
                                         : prove_unit(&p, v->done, index - 1, err);
    end(&p);
    sft__move_loop_give(&v->r->loop, buffer);
    return status;
}

sft_status sft__checkpoint_running_prove_committed(sft__checkpoint_running *r,
                                                   const sft__checkpoint_done *done,
                                                   const char *directory, sft_error *err) {
    const uint64_t wanted = sft__base_size.job_block + r->job->room;
    proving v = {r, done, directory};
    size_t room;
    SFT_NEED(sft__base_size_from_u64(wanted, &room), SIZE_MAX, err);
    return sft__checkpoint_running_loop(r, prove_block, &v, r->job->unit_count + 1, room, err);
}
