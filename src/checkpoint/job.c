/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job.c - the public face of jobs. Read <sft/job.h> first.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/disk.h"
#include <sft/digest.h>
#include <sft/extend.h>
#include <sft/job.h>

struct sft_job {
    sft__arena arena;
    sft_job_file *files;
    size_t count;
    sft_job_text *texts;
    size_t text_count;
    sft_order order;
    uint64_t data_alignment;
};

sft_status sft_job_create(sft_job **out, const sft_job_file *files, size_t count,
                          const sft_job_text *texts, size_t text_count,
                          const sft_job_options *options, sft_error *err) {
    const sft_allocator *const a = sft__allocator(options != NULL ? options->allocator : NULL);
    sft_job *const job = sft__alloc_zero(a, sizeof *job);
    *out = NULL;
    if (job == NULL) {
        return sft__fail_nomem(err, sizeof *job);
    }
    sft__arena_init(&job->arena, a, 0);
    job->count = count;
    job->text_count = text_count;
    job->order = options != NULL ? options->order : SFT_ORDER_REFERENCE;
    job->data_alignment = options != NULL ? options->data_alignment : 0;
    job->files = sft__arena_alloc(&job->arena, (count + 1) * sizeof *files, 8);
    job->texts = sft__arena_alloc(&job->arena, (text_count + 1) * sizeof *texts, 8);
    for (size_t i = 0; i < count; i++) {
        job->files[i] = files[i];
        job->files[i].name = sft__arena_copy(&job->arena, files[i].name, strlen(files[i].name));
    }
    for (size_t i = 0; i < text_count; i++) {
        job->texts[i] = texts[i];
        job->texts[i].name = sft__arena_copy(&job->arena, texts[i].name, strlen(texts[i].name));
        job->texts[i].data = sft__arena_copy(&job->arena, texts[i].data, texts[i].size);
    }
    *out = job;
    return SFT_OK;
}

void sft_job_free(sft_job *job) {
    if (job != NULL) {
        const sft_allocator *const a = job->arena.allocator;
        sft__arena_free(&job->arena);
        sft__free(a, job, sizeof *job);
    }
}

static void cost_of(const sft_job *job, size_t i, sft_job_cost *cost) {
    const sft_job_file *const f = &job->files[i];
    sft_zero(cost, sizeof *cost);
    cost->name = f->name;
    cost->tensors = f->tensors != NULL ? f->tensor_count : sft_catalog_count(f->catalog);
    for (size_t t = 0; t < cost->tensors; t++) {
        const sft_tensor *const tensor =
            sft_catalog_at(f->catalog, f->tensors != NULL ? f->tensors[t] : t);
        cost->bytes += tensor->nbytes;
        cost->runs += tensor->piece_count;
    }
    cost->bytes_read = cost->bytes;
    cost->cost = cost->bytes_read + cost->bytes + 4096 * cost->runs;
}

sft_status sft_job_plan(const sft_job *job, sft_job_visit visit, void *ctx, sft_error *err) {
    for (size_t i = 0; i < job->count; i++) {
        sft_job_cost cost;
        cost_of(job, i, &cost);
        SFT_TRY(visit(ctx, &cost, err));
    }
    return SFT_OK;
}

void sft_job_total(const sft_job *job, sft_job_cost *cost) {
    sft_zero(cost, sizeof *cost);
    for (size_t i = 0; i < job->count; i++) {
        sft_job_cost one;
        cost_of(job, i, &one);
        cost->bytes += one.bytes;
        cost->tensors += one.tensors;
        cost->runs += one.runs;
        cost->bytes_read += one.bytes_read;
        cost->cost += one.cost;
    }
}

void sft_job_key(const sft_job *job, uint8_t key[32]) {
    sft_sha256 sha;
    sft_sha256_init(&sha);
    for (size_t i = 0; i < job->count; i++) {
        sft_sha256_update(&sha, job->files[i].name, strlen(job->files[i].name) + 1);
    }
    sft_sha256_final(&sha, key);
}

static sft_status write_text(const sft_job *job, const sft_job_text *text, const char *directory,
                             sft_error *err) {
    sft__disk disk = SFT__DISK_NONE;
    sft__buf path;
    sft__buf_init(&path, job->arena.allocator);
    sft__buf_text(&path, directory);
    sft__buf_text(&path, "/");
    sft__buf_text(&path, text->name);
    sft__buf_add(&path, "", 1);
    sft_status status = sft__disk_open(path.data, &disk, err);
    if (status == SFT_OK) {
        status = sft__disk_cut(disk, path.data, 0, err);
    }
    if (status == SFT_OK) {
        status = sft__disk_write(disk, path.data, 0, text->data, text->size, err);
    }
    sft__disk_close(disk);
    sft__buf_reset(&path);
    return status;
}

static sft_status write_file(const sft_job *job, const sft_job_file *f, const char *directory,
                             const sft_job_run_options *run, sft_error *err) {
    const size_t count = f->tensors != NULL ? f->tensor_count : sft_catalog_count(f->catalog);
    const sft_tensor **const tensors =
        sft__alloc_array(job->arena.allocator, count + 1, sizeof *tensors);
    sft_write_options options;
    sft_writer *writer = NULL;
    sft__buf path;
    sft__buf_init(&path, job->arena.allocator);
    sft__buf_text(&path, directory);
    sft__buf_text(&path, "/");
    sft__buf_text(&path, f->name);
    sft__buf_add(&path, "", 1);
    SFT_INIT(&options);
    options.order = job->order;
    options.data_alignment = job->data_alignment;
    options.pool = run != NULL ? run->pool : NULL;
    options.durability = run != NULL ? run->durability : SFT_DURABLE_FULL;
    options.flags = run != NULL && (run->flags & SFT_JOB_REPLACE) != 0 ? 0 : SFT_WRITE_NEW_ONLY;
    sft_status status = sft_writer_create(&writer, path.data, &options, err);
    for (size_t i = 0; status == SFT_OK && i < f->metadata_count; i++) {
        const sft_metadata_entry *const e = &f->metadata[i];
        status = sft_writer_metadata(writer, e->key, e->key_len, e->value, e->value_len, err);
    }
    for (size_t i = 0; status == SFT_OK && i < count; i++) {
        const sft_tensor *const t =
            sft_catalog_at(f->catalog, f->tensors != NULL ? f->tensors[i] : i);
        tensors[i] = t;
        status = sft_writer_declare(writer, t->name, t->name_len, t->dtype, t->shape, t->rank, NULL,
                                    err);
    }
    if (status == SFT_OK) {
        status = sft_writer_copy(writer, f->catalog, tensors, err);
    }
    if (status == SFT_OK) {
        status = sft_writer_commit(writer, err);
    }
    sft_writer_free(writer);
    sft__buf_reset(&path);
    sft__free(job->arena.allocator, tensors, (count + 1) * sizeof *tensors);
    return status;
}

sft_status sft_job_run(const sft_job *job, const char *directory,
                       const sft_job_run_options *options, sft_job_result *result, sft_error *err) {
    SFT_TRY(sft__disk_make_folder(directory, err));
    for (size_t i = 0; i < job->count; i++) {
        SFT_TRY(write_file(job, &job->files[i], directory, options, err));
    }
    for (size_t i = 0; i < job->text_count; i++) {
        SFT_TRY(write_text(job, &job->texts[i], directory, err));
    }
    if (result != NULL) {
        result->published = 1;
    }
    return SFT_OK;
}
