/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/digest_tensor.c - see digest_tensor.h; sft_tensor_digest and the content hash.
 */
#include "move/digest_tensor.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/thread/pool.h"
#include "format/emit.h"
#include "move/kernels/digest_twins.h"
#include "move/read.h"
#include <sft/extend.h>
#include <stdlib.h>

/* Memory that the tensor lies in, if its source owns such; else NULL. */
static const uint8_t *digest_lent(const sft_catalog *catalog, const sft__move_digest_job *job) {
    const sft_tensor *t = job->tensor;
    const sft_piece *piece = t->pieces;
    const void *data = NULL;

    const sft_source *source =
        sft__move_packed(t) ? sft_catalog_source_at(catalog, piece->source) : NULL;
    if (source == NULL || (sft_source_flags(source) & SFT_SOURCE_MEMORY) == 0 ||
        job->size > SIZE_MAX ||
        sft_source_borrow(source, piece->offset + job->begin, (size_t)job->size, &data, NULL) !=
            SFT_OK) {
        return NULL;
    }
    return data;
}

static sft_status digest_blocks(const sft_catalog *catalog, sft__move_digest_job *job,
                                sft_sha256 *sha, uint8_t *buffer, sft__move_watch *watch) {
    const uint8_t *lent = digest_lent(catalog, job);

    for (uint64_t at = 0; at < job->size;) {
        const uint64_t left = job->size - at;
        const size_t n = left < SFT__DIGEST_BUFFER ? (size_t)left : SFT__DIGEST_BUFFER;
        const uint8_t *block = buffer;
        if (lent != NULL) {
            block = lent + (size_t)at;
            SFT_TRY(sft__move_watch_add(watch, n, &job->error));
        } else {
            const sft__move_stretch stretch = {job->tensor, job->begin + at, n, NULL};
            SFT_TRY(sft__move_tensor_bytes(catalog, &stretch, buffer, watch, &job->error));
        }
        if ((job->want & SFT_DIGEST_CRC32C) != 0) {
            job->crc = sft__move_crc32c(job->cpu, job->crc, block, n);
        }
        if ((job->want & SFT_DIGEST_SHA256) != 0) {
            sft__move_sha256_update(job->cpu, sha, block, n);
        }
        at += n;
    }
    return SFT_OK;
}

void sft__move_digest_job_run(const sft_catalog *catalog, sft__move_digest_job *job,
                              uint8_t *buffer, sft__move_watch *watch) {
    sft_sha256 sha;

    job->crc = 0;
    sft_sha256_init(&sha);
    job->status = digest_blocks(catalog, job, &sha, buffer, watch);
    (void)sft__move_name_tensor(&job->error, job->tensor, job->status);
    if (job->status == SFT_OK && (job->want & SFT_DIGEST_SHA256) != 0) {
        sft__move_sha256_final(job->cpu, &sha, job->sha);
    }
}

/* ---------------------------------------------------------------- many */

typedef struct digest_batch {
    const sft_catalog *catalog;
    sft__move_digest_job *jobs;
    sft__move_loop *loop;
    uint32_t cpu;
} digest_batch;

/* What cannot be read is the job's failure alone. */
static sft_status digest_block(void *ctx, size_t index, sft_error *err) {
    const digest_batch *b = ctx;
    sft__move_digest_job *job = &b->jobs[index];
    uint8_t *buffer = sft__move_loop_take(b->loop, err);

    if (buffer == NULL) {
        return SFT_E_NOMEM;
    }
    memset(&job->error, 0, sizeof job->error);
    job->cpu = b->cpu;
    sft__move_digest_job_run(b->catalog, job, buffer, &b->loop->watch);
    sft__move_loop_give(b->loop, buffer);
    if (job->status == SFT_E_CANCELLED || job->status == SFT_E_NOMEM) {
        *err = job->error;
        return job->status;
    }
    return SFT_OK;
}

sft_status sft__move_digest_jobs_run(const sft_catalog *catalog, sft__move_digest_job *jobs,
                                     size_t count, sft__move_loop *loop, sft_error *err) {
    digest_batch batch = {catalog, jobs, loop, sft__base_pool_cpu(loop->pool)};

    loop->room = SFT__DIGEST_BUFFER;
    loop->block = digest_block;
    loop->ctx = &batch;
    const sft_status status = sft__move_loop_run(loop, count, err);
    loop->ctx = NULL;
    return status;
}

/* ---------------------------------------------------------------- order and description */

int sft__move_name_order(const sft_tensor *a, const sft_tensor *b) {
    return sft__format_name_compare(a->name, a->name_len, b->name, b->name_len);
}

static void describe_u64(uint64_t v, void (*feed)(void *ctx, const void *data, size_t size),
                         void *ctx) {
    uint8_t bytes[8];
    sft__base_store_le64(bytes, v);
    feed(ctx, bytes, sizeof bytes);
}

void sft__move_describe(const sft_tensor *t, void (*feed)(void *ctx, const void *data, size_t size),
                        void *ctx) {
    describe_u64(t->name_len, feed, ctx);
    feed(ctx, t->name, t->name_len);
    feed(ctx, t->dtype->name, strlen(t->dtype->name) + 1);
    describe_u64(t->rank, feed, ctx);
    for (uint32_t d = 0; d < t->rank; d++) {
        describe_u64(t->shape[d], feed, ctx);
    }
}

void sft__move_feed_crc(void *ctx, const void *data, size_t size) {
    uint32_t *crc = ctx;
    *crc = sft_crc32c(*crc, data, size);
}

void sft__move_feed_sha(void *ctx, const void *data, size_t size) {
    sft_sha256_update(ctx, data, size);
}

/* ---------------------------------------------------------------- public */

uint32_t sft_digest_describe(uint32_t crc, const sft_tensor *tensor) {
    sft__move_describe(tensor, sft__move_feed_crc, &crc);
    return crc;
}

sft_status sft_tensor_digest(const sft_catalog *catalog, const sft_tensor *tensor,
                             uint8_t sha256[32], uint32_t *crc32c, const sft_control *control,
                             sft_error *err) {
    sft__move_digest_job job;
    sft__move_watch watch;

    if (catalog == NULL || tensor == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog or tensor is NULL");
    }
    memset(&job, 0, sizeof job);
    job.tensor = tensor;
    job.size = tensor->nbytes;
    job.cpu = sft__base_cpu_features();
    job.want = (sha256 != NULL ? SFT_DIGEST_SHA256 : 0) | (crc32c != NULL ? SFT_DIGEST_CRC32C : 0);
    SFT_TRY(sft__move_watch_init(&watch, control, tensor->nbytes, false, err));
    uint8_t *buffer = sft__base_alloc(NULL, SFT__DIGEST_BUFFER);
    SFT_NEED(buffer != NULL, SFT__DIGEST_BUFFER, err);
    sft__move_digest_job_run(catalog, &job, buffer, &watch);
    sft__base_free(NULL, buffer, SFT__DIGEST_BUFFER);
    (void)sft__move_watch_end(&watch, NULL);
    if (job.status != SFT_OK) {
        if (err != NULL) {
            *err = job.error;
        }
        return job.status;
    }
    if (crc32c != NULL) {
        *crc32c = job.crc;
    }
    if (sha256 != NULL) {
        memcpy(sha256, job.sha, sizeof job.sha);
    }
    return SFT_OK;
}

static int content_order(const void *a, const void *b) {
    return sft__move_name_order(*(const sft_tensor *const *)a, *(const sft_tensor *const *)b);
}

enum { CONTENT_WINDOW = 256 };

/* The content hash in the making. */
typedef struct content {
    const sft_catalog *catalog;
    const sft_tensor **sorted;
    size_t count;
    sft__move_digest_job *jobs;
    sft__move_loop loop;
} content;

static sft_status content_windows(content *c, uint8_t digest[32], sft_error *err) {
    sft__move_digest_job *jobs = c->jobs;
    sft_sha256 sha;

    sft_sha256_init(&sha);
    for (size_t first = 0; first < c->count; first += CONTENT_WINDOW) {
        const size_t n = c->count - first < CONTENT_WINDOW ? c->count - first : CONTENT_WINDOW;
        memset(jobs, 0, n * sizeof *jobs);
        for (size_t i = 0; i < n; i++) {
            jobs[i].tensor = c->sorted[first + i];
            jobs[i].size = jobs[i].tensor->nbytes;
            jobs[i].want = SFT_DIGEST_SHA256;
        }
        SFT_TRY(sft__move_digest_jobs_run(c->catalog, jobs, n, &c->loop, err));
        for (size_t i = 0; i < n; i++) {
            if (jobs[i].status != SFT_OK) {
                if (err != NULL) {
                    *err = jobs[i].error;
                }
                return jobs[i].status;
            }
            sft__move_describe(jobs[i].tensor, sft__move_feed_sha, &sha);
            sft_sha256_update(&sha, jobs[i].sha, sizeof jobs[i].sha);
        }
    }
    sft_sha256_final(&sha, digest);
    return SFT_OK;
}

sft_status sft_catalog_content_hash(const sft_catalog *catalog, uint8_t digest[32],
                                    const sft_pool *pool, const sft_control *control,
                                    sft_error *err) {
    content c = {.catalog = catalog, .loop = {.pool = pool}};
    uint64_t total = 0;
    sft_status status;

    if (catalog == NULL || digest == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog or digest is NULL");
    }
    c.count = sft_catalog_count(catalog);
    const size_t room = c.count > 0 ? c.count : 1;
    for (size_t i = 0; i < c.count; i++) {
        (void)sft__base_add64(total, sft_catalog_at(catalog, i)->nbytes,
                              &total); /* for progress alone */
    }
    SFT_TRY(sft__move_loop_begin(&c.loop, control, total, err));
    c.sorted = sft__base_alloc_array(NULL, room, sizeof *c.sorted);
    c.jobs = sft__base_alloc_array(NULL, CONTENT_WINDOW, sizeof *c.jobs);
    if (c.sorted == NULL || c.jobs == NULL) {
        status =
            sft__base_fail_nomem(err, room * sizeof *c.sorted + CONTENT_WINDOW * sizeof *c.jobs);
    } else {
        for (size_t i = 0; i < c.count; i++) {
            c.sorted[i] = sft_catalog_at(catalog, i);
        }
        qsort(c.sorted, c.count, sizeof *c.sorted, content_order);
        status = content_windows(&c, digest, err);
    }
    sft__base_free(NULL, c.sorted, room * sizeof *c.sorted);
    sft__base_free(NULL, c.jobs, CONTENT_WINDOW * sizeof *c.jobs);
    (void)sft__move_loop_end(&c.loop, NULL);
    return status;
}
