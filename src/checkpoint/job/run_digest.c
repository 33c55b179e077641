/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_digest.c - the end of files: digests of their tensors, if they are wanted, then their
 * headers. Read run.h and <sft/digest.h> first.
 *
 * Digests are of what lies in the staging directory, read again when all of it is there: so it does not
 * matter who wrote it, in which order, or in how many runs. Headers are planned with zeros in their
 * places. Many tensors are looked at side by side, and large ones in parts, whose CRC32C are combined.
 */
#include "base/memory/need.h"
#include "checkpoint/job/run.h"
#include <sft/digest.h>
#include <stdlib.h>

typedef sft__checkpoint_running running;

/* ---------------------------------------------------------------- digests of parts */

/* A stretch of one tensor; all of it if its SHA-256 is wanted, too. */
typedef struct part {
    uint64_t at; /* in the file */
    uint64_t size;
    uint32_t file;
    uint32_t tensor;
    uint32_t crc;
} part;

/* Files that are ended together. */
typedef struct window {
    running *r;
    part *parts; /* by file, then by tensor, then by place */
    size_t part_count;
    size_t part_room;
    uint8_t (*shas)[32]; /* by part, if wanted */
    size_t *files;       /* their numbers */
    size_t *first;       /* their first parts; one more */
    size_t file_count;
} window;

static sft_status add_parts(window *w, size_t file, sft_error *err) {
    const sft_job *const job = w->r->job;
    const sft__checkpoint_job_file *const f = &job->files[file];
    const bool divide = (job->digests & SFT_DIGEST_SHA256) == 0;
    uint64_t *const offsets = sft__base_alloc_array(job->allocator, f->count + 1, sizeof *offsets);
    sft__base_buf header;
    SFT_NEED(offsets != NULL, (f->count + 1) * sizeof *offsets, err);
    sft__base_buf_init(&header, job->allocator);
    sft_status status = sft__checkpoint_job_header(job, f, &header, offsets, err);
    sft__base_buf_reset(&header);
    for (size_t i = 0; i < f->count && status == SFT_OK; i++) {
        const uint64_t size = sft__checkpoint_job_tensor(f, i)->nbytes;
        uint64_t at = 0;
        do {
            const uint64_t left = size - at;
            const uint64_t n =
                divide && left > sft__base_size.job_unit ? sft__base_size.job_unit : left;
            status = sft__checkpoint_more(job->allocator, &w->parts, &w->part_room,
                                          w->part_count + 1, sizeof *w->parts, err);
            if (status != SFT_OK) {
                break;
            }
            w->parts[w->part_count++] = (part){offsets[i] + at, n, (uint32_t)file, (uint32_t)i, 0};
            at += n;
        } while (at < size);
    }
    sft__base_free(job->allocator, offsets, (f->count + 1) * sizeof *offsets);
    return status;
}

/* A block of the loop: one part. */
static sft_status digest_part(void *ctx, size_t index, sft_error *err) {
    window *const w = ctx;
    part *const p = &w->parts[index];
    const bool crc = (w->r->job->digests & SFT_DIGEST_CRC32C) != 0;
    sft_sha256 sha;
    sft_sha256_init(&sha);
    SFT_TRY(sft__checkpoint_running_sum(w->r, (sft__checkpoint_range){p->file, p->at, p->size},
                                        crc ? &p->crc : NULL, w->shas != NULL ? &sha : NULL, err));
    if (w->shas != NULL) {
        sft_sha256_final(&sha, w->shas[index]);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- digests as text */

typedef struct named {
    const sft_tensor *tensor;
    size_t part; /* its first one */
    uint32_t crc;
} named;

static int by_name(const void *a, const void *b) {
    const sft_tensor *const x = ((const named *)a)->tensor;
    const sft_tensor *const y = ((const named *)b)->tensor;
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int c = n == 0 ? 0 : memcmp(x->name, y->name, n);
    return c != 0 ? c : x->name_len < y->name_len ? -1 : x->name_len > y->name_len;
}

/* The tensors of a file of the window in byte order of names, each with its CRC32C. */
static void collect(const window *w, size_t k, named *list) {
    const sft__checkpoint_job_file *const f = &w->r->job->files[w->files[k]];
    size_t i = w->first[k];
    for (size_t t = 0; t < f->count; t++) {
        list[t] = (named){sft__checkpoint_job_tensor(f, t), i, w->parts[i].crc};
        for (i++; i < w->first[k + 1] && w->parts[i].tensor == t; i++) {
            list[t].crc = sft_crc32c_combine(list[t].crc, w->parts[i].crc, w->parts[i].size);
        }
    }
    if (f->count > 0) {
        qsort(list, f->count, sizeof *list, by_name);
    }
}

/* The values of both keys, one behind the other; SHA-256 begins at *sha. */
static sft_status make_values(const window *w, size_t k, sft__base_buf *out, size_t *sha,
                              sft_error *err) {
    const sft_job *const job = w->r->job;
    const size_t count = job->files[w->files[k]].count;
    named *const list = sft__base_alloc_array(job->allocator, count + 1, sizeof *list);
    uint32_t description = 0;
    SFT_NEED(list != NULL, (count + 1) * sizeof *list, err);
    collect(w, k, list);
    for (size_t i = 0; i < count; i++) {
        description = sft_digest_describe(description, list[i].tensor);
    }
    sft__checkpoint_journal_crc(out, description);
    for (size_t i = 0; i < count; i++) {
        sft__checkpoint_journal_crc(out, list[i].crc);
    }
    *sha = out->len;
    sft__checkpoint_journal_crc(out, description);
    for (size_t i = 0; i < count && w->shas != NULL; i++) {
        sft__checkpoint_journal_hex(out, w->shas[list[i].part], sizeof w->shas[0]);
    }
    sft__base_free(job->allocator, list, (count + 1) * sizeof *list);
    return out->failed ? sft__base_fail_nomem(err, out->len) : SFT_OK;
}

/* ---------------------------------------------------------------- headers */

/* The header with digests in their places, which it was planned with. */
static sft_status make_header(const window *w, size_t k, sft__base_buf *header, sft_error *err) {
    const sft_job *const job = w->r->job;
    sft__checkpoint_job_file f = job->files[w->files[k]];
    const size_t count = f.given.metadata_count;
    sft_metadata_entry *all = NULL;
    sft_status status = SFT_OK;
    sft__base_buf values;
    size_t sha = 0;
    sft__base_buf_init(&values, job->allocator);
    if (job->digests != 0) {
        all = sft__base_alloc_array(job->allocator, count + 1, sizeof *all);
        status = all == NULL ? sft__base_fail_nomem(err, (count + 1) * sizeof *all)
                             : make_values(w, k, &values, &sha, err);
    }
    for (size_t i = 0; i < count && all != NULL && status == SFT_OK; i++) {
        all[i] = f.given.metadata[i];
        if (sft__checkpoint_job_is_digest(&all[i])) {
            all[i].value =
                values.data + (memcmp(all[i].key, SFT__JOB_SHA_KEY, all[i].key_len) == 0 ? sha : 0);
        }
    }
    f.given.metadata = all != NULL ? all : f.given.metadata;
    if (status == SFT_OK) {
        status = sft__checkpoint_job_header(job, &f, header, NULL, err);
    }
    if (status == SFT_OK && header->len != f.header) {
        status = sft__base_fail(err, SFT_E_INTERNAL, "a header of %llu bytes, not %llu",
                                (unsigned long long)header->len, (unsigned long long)f.header);
    }
    sft__base_free(job->allocator, all, (count + 1) * sizeof *all);
    sft__base_buf_reset(&values);
    return status;
}

/* A block of the loop: the header of one file, then the file is flushed and closed. */
static sft_status finish_file(void *ctx, size_t k, sft_error *err) {
    const window *const w = ctx;
    running *const r = w->r;
    sft__base_buf header;
    sft__base_buf_init(&header, r->job->allocator);
    sft_status status = make_header(w, k, &header, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_outputs_write(&r->outputs, w->files[k], 0, header.data, header.len,
                                               err);
    }
    if (status == SFT_OK) {
        status = sft__checkpoint_outputs_finish(&r->outputs, w->files[k],
                                                r->options.durability == SFT_DURABLE_FULL, err);
    }
    sft__base_buf_reset(&header);
    return status;
}

static sft_status finish_window(window *w, sft_error *err) {
    const sft_job *const job = w->r->job;
    const size_t room = (size_t)sft__base_size.job_block;
    w->first[w->file_count] = w->part_count;
    if ((job->digests & SFT_DIGEST_SHA256) != 0) {
        w->shas = sft__base_alloc_array(job->allocator, w->part_count + 1, sizeof *w->shas);
        SFT_NEED(w->shas != NULL, (w->part_count + 1) * sizeof *w->shas, err);
    }
    sft_status status =
        sft__checkpoint_running_loop(w->r, digest_part, w, w->part_count, room, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_running_loop(w->r, finish_file, w, w->file_count, room, err);
    }
    if (w->shas != NULL) {
        sft__base_free(job->allocator, w->shas, (w->part_count + 1) * sizeof *w->shas);
        w->shas = NULL;
    }
    return status;
}

sft_status sft__checkpoint_running_finish_files(running *r, size_t first, size_t step,
                                                sft_error *err) {
    enum { PARTS = 1 << 14 }; /* so many, or one file */
    const sft_job *const job = r->job;
    window w;
    sft_status status = SFT_OK;
    memset(&w, 0, sizeof w);
    w.r = r;
    w.files = sft__base_alloc_array(job->allocator, job->count + 1, sizeof *w.files);
    w.first = sft__base_alloc_array(job->allocator, job->count + 1, sizeof *w.first);
    if (w.files == NULL || w.first == NULL) {
        status = sft__base_fail_nomem(err, (job->count + 1) * sizeof *w.files);
    }
    for (size_t at = first; at < job->count && status == SFT_OK;) {
        w.file_count = 0;
        w.part_count = 0;
        while (at < job->count && w.part_count < PARTS && status == SFT_OK) {
            w.files[w.file_count] = at;
            w.first[w.file_count++] = w.part_count;
            status = job->digests != 0 ? add_parts(&w, at, err) : SFT_OK;
            at += step;
        }
        if (status == SFT_OK) {
            status = finish_window(&w, err);
        }
    }
    sft__base_free(job->allocator, w.parts, w.part_room * sizeof *w.parts);
    sft__base_free(job->allocator, w.files, (job->count + 1) * sizeof *w.files);
    sft__base_free(job->allocator, w.first, (job->count + 1) * sizeof *w.first);
    return status;
}
