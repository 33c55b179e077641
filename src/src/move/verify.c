/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/verify.c - sft_catalog_verify: the bytes of every tensor against the digests recorded for
 * it. Works through windows of tensors in file order: a window's stretches go over the pool, then
 * its tensors are reported. Read first: recorded.h, digest_tensor.h.
 */
#include "base/checked.h"
#include "base/memory/alloc.h"
#include "base/options.h"
#include "move/digest_tensor.h"
#include "move/load/recorded.h"

enum { VERIFY_JOBS = 512 };
#define VERIFY_STRETCH ((uint64_t)64 << 20) /* a larger tensor with a CRC alone is cut at these */

typedef struct verifier {
    const sft_catalog *catalog;
    sft_verify_options o;
    sft__move_recorded *recorded;
    sft__move_digest_job *jobs;
    size_t job_count;
    sft__move_loop loop;
    sft_verify_result result;
    sft_status status; /* of the first tensor that is not as it should be */
    sft_error error;
} verifier;

static sft_status verify_options(sft_verify_options *o, const sft_verify_options *given,
                                 sft_error *err) {
    SFT_TRY(sft__base_options_read(o, sizeof *o, given, SFT__UP_TO(sft_verify_options, struct_size),
                                   "verify options", err));
    if ((o->digests & ~(SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256)) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "unknown digests %lu", (unsigned long)o->digests);
    }
    if ((o->flags & ~(uint32_t)SFT_VERIFY_SKIP_STALE) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "unknown flags %lu", (unsigned long)o->flags);
    }
    if (o->digests == 0) {
        o->digests = SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- one tensor's result */

static void verify_keep(verifier *v, sft_status status, const sft_error *error) {
    if (v->status == SFT_OK) {
        v->status = status;
        v->error = *error;
    }
}

static void verify_report(verifier *v, const sft_tensor *t, sft_status status,
                          const char *message) {
    if (v->o.report != NULL) {
        v->o.report(v->o.report_ctx, t, status, message);
    }
}

/* Absolute bytes of a tensor that lies in one place. */
static uint64_t verify_begin(const sft_tensor *t) {
    return t->piece_count > 0 ? t->pieces[0].offset : SFT_NO_OFFSET;
}

sft_status sft__move_recorded_differs(const sft_catalog *catalog, const sft_tensor *t,
                                      const char *kind, sft_error *err) {
    const sft_file *file = sft_catalog_file_at(catalog, t->file);
    const uint64_t begin = verify_begin(t);
    return sft__base_fail_tensor(
        err, SFT_E_MISMATCH, begin, t->name, t->name_len,
        "%s differs from the recorded one: damage in bytes [%llu, %llu) of %s", kind,
        (unsigned long long)begin, (unsigned long long)(begin + t->nbytes),
        file != NULL ? file->path : "the file");
}

static void verify_mismatch(verifier *v, const sft_tensor *t, const char *kind) {
    sft_error e;

    memset(&e, 0, sizeof e);
    (void)sft__move_recorded_differs(v->catalog, t, kind, &e);
    v->result.damaged++;
    verify_keep(v, SFT_E_MISMATCH, &e);
    verify_report(v, t, SFT_E_MISMATCH, e.message);
}

/* The jobs [first, end) are all of tensor `index`. */
static void verify_tensor(verifier *v, size_t index, size_t first, size_t end) {
    const sft_tensor *t = sft_catalog_at(v->catalog, index);
    const sft__move_recorded *r = &v->recorded[index];
    uint32_t crc = 0;

    for (size_t i = first; i < end; i++) {
        const sft__move_digest_job *job = &v->jobs[i];
        if (job->status != SFT_OK) {
            verify_keep(v, job->status, &job->error);
            verify_report(v, t, job->status, job->error.message);
            return;
        }
        crc = sft_crc32c_combine(crc, job->crc, job->size);
    }
    v->result.checked++;
    if ((r->have & SFT_DIGEST_CRC32C) != 0 && crc != r->crc) {
        verify_mismatch(v, t, "CRC32C");
    } else if ((r->have & SFT_DIGEST_SHA256) != 0 && memcmp(v->jobs[first].sha, r->sha, 32) != 0) {
        verify_mismatch(v, t, "SHA-256");
    } else {
        verify_report(v, t, SFT_OK, "ok");
    }
}

/* ---------------------------------------------------------------- windows */

static uint64_t verify_stretches(const sft_tensor *t, uint32_t have) {
    if ((have & SFT_DIGEST_SHA256) != 0 || t->nbytes <= VERIFY_STRETCH) {
        return 1;
    }
    return (t->nbytes - 1) / VERIFY_STRETCH + 1;
}

static void verify_add_job(verifier *v, const sft_tensor *t, uint32_t have, uint64_t begin,
                           uint64_t size) {
    sft__move_digest_job *job = &v->jobs[v->job_count++];
    memset(job, 0, sizeof *job);
    job->tensor = t;
    job->begin = begin;
    job->size = size;
    job->want = have;
}

static bool is_chosen(const verifier *v, size_t index) {
    return v->o.chosen == NULL || v->o.chosen[index] != 0;
}

/* Runs the jobs that are waiting; they are of the tensors [*first, end). */
static sft_status verify_flush(verifier *v, size_t *first, size_t end, sft_error *err) {
    size_t at = 0;

    SFT_TRY(sft__move_digest_jobs_run(v->catalog, v->jobs, v->job_count, &v->loop, err));
    for (size_t i = *first; i < end; i++) {
        const sft_tensor *t = sft_catalog_at(v->catalog, i);
        const size_t from = at;
        if (v->recorded[i].have == 0) {
            v->result.unlisted += is_chosen(v, i);
            continue;
        }
        while (at < v->job_count && v->jobs[at].tensor == t) {
            at++;
        }
        verify_tensor(v, i, from, at);
    }
    *first = end;
    v->job_count = 0;
    return SFT_OK;
}

/* A tensor of more stretches than a window holds is done in several rounds, its CRC kept in one
 * job. */
static sft_status verify_huge(verifier *v, size_t index, sft_error *err) {
    const sft_tensor *t = sft_catalog_at(v->catalog, index);
    sft__move_digest_job sum;

    memset(&sum, 0, sizeof sum);
    sum.tensor = t;
    for (uint64_t at = 0; at < t->nbytes && sum.status == SFT_OK;) {
        v->job_count = 0;
        while (v->job_count < VERIFY_JOBS && at < t->nbytes) {
            const uint64_t left = t->nbytes - at;
            const uint64_t n = left < VERIFY_STRETCH ? left : VERIFY_STRETCH;
            verify_add_job(v, t, v->recorded[index].have, at, n);
            at += n;
        }
        SFT_TRY(sft__move_digest_jobs_run(v->catalog, v->jobs, v->job_count, &v->loop, err));
        for (size_t i = 0; i < v->job_count && sum.status == SFT_OK; i++) {
            sum.status = v->jobs[i].status;
            sum.error = v->jobs[i].error;
            sum.crc = sft_crc32c_combine(sum.crc, v->jobs[i].crc, v->jobs[i].size);
        }
    }
    v->jobs[0] = sum; /* size 0 and crc: combining it with nothing before gives crc */
    v->job_count = 0;
    verify_tensor(v, index, 0, 1);
    return SFT_OK;
}

static sft_status verify_all(verifier *v, sft_error *err) {
    const size_t end = v->o.first + v->o.count;
    size_t first = v->o.first;

    for (size_t i = first; i < end; i++) {
        const sft_tensor *t = sft_catalog_at(v->catalog, i);
        const uint32_t have = v->recorded[i].have;
        const uint64_t n = have == 0 ? 0 : verify_stretches(t, have);
        if (n > VERIFY_JOBS - v->job_count || i - first >= VERIFY_JOBS) {
            SFT_TRY(verify_flush(v, &first, i, err));
        }
        if (n > VERIFY_JOBS) {
            SFT_TRY(verify_huge(v, i, err));
            first = i + 1;
            continue;
        }
        for (uint64_t k = 0; k < n; k++) {
            const uint64_t begin = k * VERIFY_STRETCH;
            const uint64_t left = t->nbytes - begin;
            verify_add_job(v, t, have, begin,
                           n == 1 || left < VERIFY_STRETCH ? left : VERIFY_STRETCH);
        }
    }
    return verify_flush(v, &first, end, err);
}

/* ---------------------------------------------------------------- public */

static sft_status verify_run(verifier *v, sft_error *err) {
    uint64_t total = 0;
    bool found;

    const uint32_t want =
        v->o.digests | ((v->o.flags & SFT_VERIFY_SKIP_STALE) != 0 ? SFT__RECORDED_FITTING : 0);
    SFT_TRY(sft__move_recorded_load(v->catalog, want, v->o.allocator, v->recorded, &found, err));
    if (!found) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "no digests are recorded in the file%s",
                              sft_catalog_file_count(v->catalog) == 1 ? "" : "s");
    }
    for (size_t i = v->o.first; i < v->o.first + v->o.count; i++) {
        v->recorded[i].have = is_chosen(v, i) ? v->recorded[i].have : 0;
        if (v->recorded[i].have != 0) { /* for progress alone */
            (void)sft__base_add64(total, sft_catalog_at(v->catalog, i)->nbytes, &total);
        }
    }
    v->loop = (sft__move_loop){.pool = v->o.pool, .allocator = v->o.allocator};
    SFT_TRY(sft__move_loop_begin(&v->loop, v->o.control, total, err));
    sft_status status = sft__move_loop_add(&v->loop, 0, err);
    if (status == SFT_OK) {
        status = verify_all(v, err);
    }
    (void)sft__move_loop_end(&v->loop, NULL);
    if (status == SFT_OK && v->status != SFT_OK && err != NULL) {
        *err = v->error;
    }
    return status == SFT_OK ? v->status : status;
}

sft_status sft_catalog_verify(const sft_catalog *catalog, const sft_verify_options *options,
                              sft_verify_result *result, sft_error *err) {
    verifier v;
    sft_status status;

    memset(&v, 0, sizeof v);
    if (result != NULL) {
        memset(result, 0, sizeof *result);
    }
    if (catalog == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog is NULL");
    }
    SFT_TRY(verify_options(&v.o, options, err));
    v.catalog = catalog;
    const size_t count = sft_catalog_count(catalog) + 1; /* never nothing */
    if (v.o.first == 0 && v.o.count == 0) {
        v.o.count = count - 1;
    }
    if (v.o.first > count - 1 || v.o.count > count - 1 - v.o.first) {
        return sft__base_fail(
            err, SFT_E_RANGE, "tensors %llu to %llu of %llu", (unsigned long long)v.o.first,
            (unsigned long long)v.o.first + v.o.count, (unsigned long long)count - 1);
    }
    v.recorded = sft__base_alloc_array(v.o.allocator, count, sizeof *v.recorded);
    v.jobs = sft__base_alloc_array(v.o.allocator, VERIFY_JOBS, sizeof *v.jobs);
    if (v.recorded == NULL || v.jobs == NULL) {
        status =
            sft__base_fail_nomem(err, count * sizeof *v.recorded + VERIFY_JOBS * sizeof *v.jobs);
    } else {
        memset(v.recorded, 0, count * sizeof *v.recorded);
        status = verify_run(&v, err);
    }
    if (result != NULL) {
        *result = v.result;
    }
    sft__base_free(v.o.allocator, v.recorded, count * sizeof *v.recorded);
    sft__base_free(v.o.allocator, v.jobs, VERIFY_JOBS * sizeof *v.jobs);
    return status;
}
