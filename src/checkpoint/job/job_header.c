/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job_header.c - the headers of the files that a job writes, as they are planned: with
 * zeros where digests are put when the bytes are there (run_digest.c). Read job.h first.
 */
#include "base/memory/need.h"
#include "checkpoint/job/job.h"
#include <sft/digest.h>

enum { CRC_DIGITS = 8, SHA_DIGITS = 64, KEY_LEN = sizeof SFT__JOB_CRC_KEY - 1 };

bool sft__checkpoint_job_is_digest(const sft_metadata_entry *e) {
    return e->key_len == KEY_LEN && (memcmp(e->key, SFT__JOB_CRC_KEY, KEY_LEN) == 0 ||
                                     memcmp(e->key, SFT__JOB_SHA_KEY, KEY_LEN) == 0);
}

sft_status sft__checkpoint_job_places(sft_job *job, sft__checkpoint_job_file *f, sft_error *err) {
    const bool crc = (job->digests & SFT_DIGEST_CRC32C) != 0;
    const bool sha = (job->digests & SFT_DIGEST_SHA256) != 0;
    const sft_metadata_entry *const old = f->given.metadata;
    size_t size;
    size_t n = 0;
    if (!crc && !sha) {
        return SFT_OK;
    }
    SFT_NEED(sft__base_mul_size(f->count, sha ? SHA_DIGITS : CRC_DIGITS, &size) &&
                 sft__base_add_size(size, CRC_DIGITS, &size),
             SIZE_MAX, err);
    sft_metadata_entry *const all = sft__base_arena_alloc(
        &job->arena, (f->given.metadata_count + 2) * sizeof *all, sizeof(void *));
    char *const zeros = sft__base_arena_alloc(&job->arena, size, 1);
    SFT_NEED(all != NULL && zeros != NULL, size, err);
    memset(zeros, '0', size);
    for (size_t i = 0; i < f->given.metadata_count; i++) {
        if (!sft__checkpoint_job_is_digest(&old[i])) {
            all[n++] = old[i];
        }
    }
    if (crc) {
        all[n++] = (sft_metadata_entry){SFT__JOB_CRC_KEY, KEY_LEN, zeros,
                                        CRC_DIGITS + CRC_DIGITS * f->count};
    }
    if (sha) {
        all[n++] = (sft_metadata_entry){SFT__JOB_SHA_KEY, KEY_LEN, zeros,
                                        CRC_DIGITS + SHA_DIGITS * f->count};
    }
    f->given.metadata = all;
    f->given.metadata_count = n;
    return SFT_OK;
}

sft_status sft__checkpoint_job_header(const sft_job *job, const sft__checkpoint_job_file *f,
                                      sft__base_buf *out, uint64_t *offsets, sft_error *err) {
    sft_save_tensor *const tensors =
        sft__base_alloc_zero(job->allocator, (f->count + 1) * sizeof *tensors);
    sft_write_options options;
    size_t size = 0;
    sft_status status;
    SFT_NEED(tensors != NULL, (f->count + 1) * sizeof *tensors, err);
    SFT_INIT(&options);
    options.allocator = job->allocator;
    options.limits = job->limits;
    options.order = job->order;
    options.data_alignment = job->data_alignment;
    for (size_t i = 0; i < f->count; i++) {
        const sft_tensor *const t = sft__checkpoint_job_tensor(f, i);
        tensors[i].name = t->name;
        tensors[i].name_len = t->name_len;
        tensors[i].dtype = t->dtype;
        tensors[i].shape = t->shape;
        tensors[i].rank = t->rank;
        tensors[i].nbytes = t->nbytes;
    }
    size_t room = f->header > 0 ? (size_t)f->header : 4096 + f->count * 256;
    do {
        if (size > room) {
            room = size;
        }
        out->len = 0;
        if (!sft__base_buf_reserve(out, room)) {
            status = sft__base_fail_nomem(err, room);
            break;
        }
        status = sft_save_header(out->data, room, &size, offsets, tensors, f->count,
                                 f->given.metadata, f->given.metadata_count, &options, err);
    } while (status == SFT_E_ARG && size > room);
    out->len = status == SFT_OK ? size : 0;
    sft__base_free(job->allocator, tensors, (f->count + 1) * sizeof *tensors);
    return status;
}
