/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/writer_put.c - bytes come in: each exactly once, from any number of threads, straight from
 * the caller's memory into the file. The lock is held for bookkeeping only, never while bytes are
 * written to a file.
 */
#include "move/writer.h"

/* One put on its way. */
typedef struct put {
    sft_writer *w;
    uint32_t index;
    uint64_t offset; /* in the tensor */
    const uint8_t *data;
    size_t size;
    bool hash; /* this put feeds the tensor's SHA-256 */
    uint32_t crc;
} put;

static sft_status check_put(const put *p, sft_error *err) {
    const sft__set *set = &p->w->set;
    const sft__entry *e;

    if (p->index >= set->count) {
        return sft__fail(err, SFT_E_RANGE, "tensor %lu of %llu", (unsigned long)p->index,
                         (unsigned long long)set->count);
    }
    e = &set->entries[p->index];
    if (p->offset > e->nbytes || p->size > e->nbytes - p->offset) {
        return sft__fail_tensor(err, SFT_E_RANGE, SFT_NO_OFFSET, e->name, e->name_len,
                                "%llu bytes at %llu do not fit into a tensor of %llu bytes",
                                (unsigned long long)p->size, (unsigned long long)p->offset,
                                (unsigned long long)e->nbytes);
    }
    return SFT_OK;
}

/* Lock held. Claims the range and decides whether this put can go on with the SHA-256. */
static sft_status claim(put *p, sft_error *err) {
    sft_writer *w = p->w;
    const sft__entry *e = &w->set.entries[p->index];
    sft__intake *in = &w->intakes[p->index];
    uint64_t clash = 0;

    if (w->set.sha != NULL && !in->sha_busy && in->sha_bytes == p->offset) {
        if (in->sha == NULL) {
            in->sha = sft__alloc(w->set.allocator, sizeof *in->sha);
            if (in->sha == NULL) {
                return sft__fail_nomem(err, sizeof *in->sha);
            }
            sft_sha256_init(in->sha);
        }
        p->hash = true;
    }
    switch (
        sft__cover_claim(&in->cover, p->offset, p->offset + p->size, w->set.allocator, &clash)) {
    case SFT__CLAIM_OK:
        in->sha_busy = in->sha_busy || p->hash;
        return SFT_OK;
    case SFT__CLAIM_OVERLAP:
        return sft__fail_tensor(err, SFT_E_STATE, w->set.data_offset + e->begin + clash, e->name,
                                e->name_len, "byte %llu of the tensor is put twice",
                                (unsigned long long)clash);
    case SFT__CLAIM_NOMEM:
    default:
        return sft__fail_nomem(err, sizeof(sft__extent));
    }
}

/* Lock held. Books a put that has been written. */
static void settle(const put *p) {
    sft_writer *w = p->w;
    sft__intake *in = &w->intakes[p->index];

    sft__cover_done(&in->cover, p->offset, p->crc);
    if (p->hash) {
        in->sha_bytes += p->size;
        in->sha_busy = false;
        if (in->sha_bytes == w->set.entries[p->index].nbytes) {
            sft_sha256_final(in->sha, w->set.sha[p->index]);
            sft__free(w->set.allocator, in->sha, sizeof *in->sha);
            in->sha = NULL;
        }
    }
}

/* Hashes and writes block by block, so that the second one finds the bytes in the cache. */
static sft_status write_file(put *p, sft_error *err) {
    const bool digests = p->w->set.crc != NULL || p->hash;
    const size_t step = digests ? SFT__DIGEST_BLOCK : SFT__METER_STEP;
    const sft__set *set = &p->w->set;
    uint64_t at = set->data_offset + set->entries[p->index].begin + p->offset;
    const uint8_t *data = p->data;
    size_t left = p->size;

    while (left > 0) {
        const sft__span part = {data, left < step ? left : step};
        if (set->crc != NULL) {
            p->crc = sft_crc32c(p->crc, part.data, part.size);
        }
        if (p->hash) {
            sft_sha256_update(p->w->intakes[p->index].sha, part.data, part.size);
        }
        SFT_TRY(sft__publish_write(p->w->publish, at, &part, 1, err));
        SFT_TRY(sft__meter_add(&p->w->meter, part.size, err));
        data += part.size;
        at += part.size;
        left -= part.size;
    }
    return SFT_OK;
}

/* Lock held throughout: a stream has one place where bytes can go. */
static sft_status write_stream(put *p, sft_error *err) {
    sft_writer *w = p->w;
    const sft__entry *e = &w->set.entries[p->index];
    const uint64_t at = e->begin + p->offset;

    if (at != w->stream_bytes) {
        return sft__fail_tensor(
            err, SFT_E_STATE, w->set.data_offset + w->stream_bytes, e->name, e->name_len,
            "bytes go into a stream in file order: the next is byte %llu of the data "
            "section, not %llu",
            (unsigned long long)w->stream_bytes, (unsigned long long)at);
    }
    while (p->size > 0) {
        const sft__span part = {p->data, p->size < SFT__METER_STEP ? p->size : SFT__METER_STEP};
        sft_status st = sft__stream_write(&w->stream, &part, 1, err);
        if (st == SFT_OK) {
            st = sft__meter_add(&w->meter, part.size, err);
        }
        if (st != SFT_OK) {
            w->state = SFT__WRITER_DONE;
            return st;
        }
        w->stream_bytes += part.size;
        p->data += part.size;
        p->size -= part.size;
    }
    return SFT_OK;
}

/* Lock held: everything before the first byte is written. */
static sft_status begin(put *p, sft_error *err) {
    sft_writer *w = p->w;

    if (w->state == SFT__WRITER_DECLARING) {
        SFT_TRY(sft__writer_start(w, err));
    }
    if (w->state != SFT__WRITER_OPEN) {
        return sft__fail(err, SFT_E_STATE,
                         "the writer has failed or been committed: only free is left");
    }
    SFT_TRY(check_put(p, err));
    if (p->size > 0 && p->data == NULL) {
        return sft__fail(err, SFT_E_ARG, "no data");
    }
    if (w->path == NULL) {
        return write_stream(p, err);
    }
    return p->size > 0 ? claim(p, err) : SFT_OK;
}

sft_status sft_writer_put(sft_writer *writer, uint32_t index, uint64_t offset, const void *data,
                          size_t size, sft_error *err) {
    put p = {writer, index, offset, data, size, false, 0};
    sft_status st;

    sft__mutex_lock(&writer->lock);
    st = begin(&p, err);
    sft__mutex_unlock(&writer->lock);
    if (st != SFT_OK || size == 0 || writer->path == NULL) {
        return st;
    }
    st = write_file(&p, err);
    sft__mutex_lock(&writer->lock);
    if (st == SFT_OK) {
        settle(&p);
    } else {
        writer->state = SFT__WRITER_DONE;
    }
    sft__mutex_unlock(&writer->lock);
    return st;
}
