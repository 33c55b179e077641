/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/writer_put.c - bytes come in: each exactly once, from any number of threads, straight from
 * the caller's memory into the file. The lock is held for bookkeeping only, never while bytes are
 * written to a file.
 */
#include "base/memory/need.h"
#include "move/write/writer.h"

/* One put on its way. */
typedef struct put {
    sft_writer *w;
    uint32_t index;
    uint64_t offset; /* in the tensor */
    const uint8_t *data;
    size_t size;
    bool hash; /* this put feeds the tensor's SHA-256 */
    uint32_t crc;
    bool carries;    /* this put holds the writer's carry */
    size_t head_len; /* bytes of the carry that go in front of this put's */
} put;

static uint64_t file_offset(const put *p) {
    return p->w->set.data_offset + p->w->set.entries[p->index].begin + p->offset;
}

static sft_status check_put(const put *p, sft_error *err) {
    const sft__move_set *set = &p->w->set;
    const sft__format_entry *e;

    if (p->index >= set->count) {
        return sft__base_fail(err, SFT_E_RANGE, "tensor %lu of %llu", (unsigned long)p->index,
                              (unsigned long long)set->count);
    }
    e = &set->entries[p->index];
    if (p->offset > e->nbytes || p->size > e->nbytes - p->offset) {
        return sft__base_fail_tensor(err, SFT_E_RANGE, SFT_NO_OFFSET, e->name, e->name_len,
                                     "%llu bytes at %llu do not fit into a tensor of %llu bytes",
                                     (unsigned long long)p->size, (unsigned long long)p->offset,
                                     (unsigned long long)e->nbytes);
    }
    return SFT_OK;
}

/* Lock held. Claims the range and decides whether this put can go on with the SHA-256. */
static sft_status claim(put *p, sft_error *err) {
    sft_writer *w = p->w;
    const sft__format_entry *e = &w->set.entries[p->index];
    sft__move_intake *in = &w->intakes[p->index];
    uint64_t clash = 0;

    if (w->set.sha != NULL && !in->sha_busy && in->sha_bytes == p->offset) {
        if (in->sha == NULL) {
            in->sha = sft__base_alloc(w->set.allocator, sizeof *in->sha);
            SFT_NEED(in->sha != NULL, sizeof *in->sha, err);
            sft_sha256_init(in->sha);
        }
        p->hash = true;
    }
    switch (sft__move_cover_claim(&in->cover, p->offset, p->offset + p->size, w->set.allocator,
                                  &clash)) {
    case SFT__CLAIM_OK:
        in->sha_busy = in->sha_busy || p->hash;
        return SFT_OK;
    case SFT__CLAIM_OVERLAP:
        return sft__base_fail_tensor(err, SFT_E_STATE, w->set.data_offset + e->begin + clash,
                                     e->name, e->name_len, "byte %llu of the tensor is put twice",
                                     (unsigned long long)clash);
    case SFT__CLAIM_NOMEM:
    default:
        return sft__base_fail_nomem(err, sizeof(sft__move_extent));
    }
}

/* Lock held. A put that goes on where the carry ends takes it; any put may leave one if there is
 * none. */
static void take_carry(put *p) {
    sft_writer *w = p->w;

    p->carries = !w->carry_held && (w->carry_len == 0 || w->carry_end == file_offset(p));
    if (p->carries) {
        w->carry_held = true;
        p->head_len = w->carry_len;
    }
}

/* Lock held. Books a put that has been written. */
static void settle(const put *p) {
    sft_writer *w = p->w;
    sft__move_intake *in = &w->intakes[p->index];

    w->carry_held = w->carry_held && !p->carries;
    sft__move_cover_done(&in->cover, p->offset, p->crc);
    if (p->hash) {
        in->sha_bytes += p->size;
        in->sha_busy = false;
        if (in->sha_bytes == w->set.entries[p->index].nbytes) {
            sft__move_sha256_final(w->set.cpu, in->sha, w->set.sha[p->index]);
            sft__base_free(w->set.allocator, in->sha, sizeof *in->sha);
            in->sha = NULL;
        }
    }
}

/* Writes and hashes block by block, so that the second one finds the bytes in the cache. */
static sft_status write_blocks(put *p, uint64_t at, const uint8_t *data, size_t left,
                               sft_error *err) {
    const bool digests = p->w->set.crc != NULL || p->hash;
    const size_t step = digests ? sft__move_set_digest_block(&p->w->set) : SFT__METER_STEP;
    size_t head = p->head_len;

    while (left > 0) {
        const size_t n = left < step ? left : step;
        const sft__fs_span parts[2] = {{p->w->carry, head}, {data, n}};
        SFT_TRY(sft__fs_publish_write(p->w->publish, at - head, head != 0 ? parts : parts + 1,
                                      head != 0 ? 2 : 1, err));
        if (p->w->set.crc != NULL) {
            p->crc = sft__move_crc32c(p->w->set.cpu, p->crc, data, n);
        }
        if (p->hash) {
            sft__move_sha256_update(p->w->set.cpu, p->w->intakes[p->index].sha, data, n);
        }
        SFT_TRY(sft__base_meter_add(&p->w->meter, n, err));
        head = 0;
        data += n;
        at += n;
        left -= n;
    }
    return SFT_OK;
}

/* What does not fill the last chunk goes into the carry, if this put holds it. */
static sft_status write_file(put *p, sft_error *err) {
    sft_writer *w = p->w;
    const uint64_t at = file_offset(p);
    const uint64_t end = at + p->size;
    const uint64_t whole = end - end % SFT__WRITER_CHUNK;
    const bool fits = whole <= at; /* no chunk ends here: head and all become the carry */
    const size_t tail = !p->carries ? 0 : fits ? p->size : (size_t)(end - whole);
    const uint8_t *last = p->data + (p->size - tail);

    SFT_TRY(write_blocks(p, at, p->data, p->size - tail, err));
    if (p->carries) {
        uint8_t *to = w->carry + (fits ? p->head_len : 0);
        if (w->set.crc != NULL) {
            p->crc = sft__move_crc32c(w->set.cpu, p->crc, last, tail);
        }
        if (p->hash) {
            sft__move_sha256_update(w->set.cpu, w->intakes[p->index].sha, last, tail);
        }
        memcpy(to, last, tail); /* less than a chunk: all in front of `whole` is written */
        w->carry_len = (size_t)(to - w->carry) + tail;
        w->carry_end = end;
        SFT_TRY(sft__base_meter_add(&w->meter, tail, err));
    }
    return SFT_OK;
}

/* Lock held throughout: a stream has one place where bytes can go. */
static sft_status write_stream(put *p, sft_error *err) {
    sft_writer *w = p->w;
    const sft__format_entry *e = &w->set.entries[p->index];
    const uint64_t at = e->begin + p->offset;

    if (at != w->stream_bytes) {
        return sft__base_fail_tensor(
            err, SFT_E_STATE, w->set.data_offset + w->stream_bytes, e->name, e->name_len,
            "bytes go into a stream in file order: the next is byte %llu of the data "
            "section, not %llu",
            (unsigned long long)w->stream_bytes, (unsigned long long)at);
    }
    while (p->size > 0) {
        const sft__fs_span part = {p->data, p->size < SFT__METER_STEP ? p->size : SFT__METER_STEP};
        sft_status st = sft__fs_stream_write(&w->stream, &part, 1, err);
        if (st == SFT_OK) {
            st = sft__base_meter_add(&w->meter, part.size, err);
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
        SFT_TRY(sft__move_writer_start(w, err));
    }
    if (w->state != SFT__WRITER_OPEN) {
        return sft__base_fail(err, SFT_E_STATE,
                              "the writer has failed or been committed: only free is left");
    }
    SFT_TRY(check_put(p, err));
    if (p->size > 0 && p->data == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "no data");
    }
    if (w->path == NULL) {
        return write_stream(p, err);
    }
    if (p->size > 0) {
        SFT_TRY(claim(p, err));
        take_carry(p);
    }
    return SFT_OK;
}

sft_status sft_writer_put(sft_writer *writer, uint32_t index, uint64_t offset, const void *data,
                          size_t size, sft_error *err) {
    put p = {.w = writer, .index = index, .offset = offset, .data = data, .size = size};
    sft_status st;

    sft__base_mutex_lock(&writer->lock);
    st = begin(&p, err);
    sft__base_mutex_unlock(&writer->lock);
    if (st != SFT_OK || size == 0 || writer->path == NULL) {
        return st;
    }
    st = write_file(&p, err);
    sft__base_mutex_lock(&writer->lock);
    if (st == SFT_OK) {
        settle(&p);
    } else {
        writer->state = SFT__WRITER_DONE;
    }
    sft__base_mutex_unlock(&writer->lock);
    return st;
}
