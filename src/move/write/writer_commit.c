/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/writer_commit.c - the end of a streamed file: every byte is there, digests are complete, the
 * header is written last, the file becomes visible. A sidecar is written beforehand and follows at
 * once.
 */
#include "base/memory/need.h"
#include "move/write/publish_set.h"
#include "move/write/writer.h"

enum { REREAD = 1 << 20 };

static sft_status check_complete(const sft_writer *w, sft_error *err) {
    for (size_t p = 0; p < w->set.count; p++) {
        const uint32_t index = w->set.order[p];
        const sft__format_entry *e = &w->set.entries[index];
        const uint64_t have = sft__move_cover_missing(&w->intakes[index].cover, e->nbytes);
        if (have < e->nbytes) {
            return sft__base_fail_tensor(err, SFT_E_STATE, w->set.data_offset + e->begin + have,
                                         e->name, e->name_len,
                                         "byte %llu of the tensor's %llu was never put",
                                         (unsigned long long)have, (unsigned long long)e->nbytes);
        }
    }
    return SFT_OK;
}

static sft_status check_stream_complete(const sft_writer *w, sft_error *err) {
    uint64_t end = 0;

    if (w->stream_bytes == w->set.data_bytes) {
        return SFT_OK;
    }
    for (size_t p = 0; p < w->set.count; p++) {
        const sft__format_entry *e = &w->set.entries[w->set.order[p]];
        end = e->begin + e->nbytes;
        if (end > w->stream_bytes) {
            return sft__base_fail_tensor(
                err, SFT_E_STATE, w->set.data_offset + w->stream_bytes, e->name, e->name_len,
                "byte %llu of the tensor's %llu was never put",
                (unsigned long long)(w->stream_bytes - e->begin), (unsigned long long)e->nbytes);
        }
    }
    return SFT_OK; /* not reached: some tensor ends at data_bytes */
}

/* What came out of order could not be hashed on its way: it is read back from the file. */
static sft_status finish_sha(sft_writer *w, uint32_t index, uint8_t *buffer, sft_error *err) {
    const sft__format_entry *e = &w->set.entries[index];
    sft__move_intake *in = &w->intakes[index];
    sft_sha256 sha;

    if (in->sha != NULL) {
        sha = *in->sha;
    } else {
        sft_sha256_init(&sha);
    }
    while (in->sha_bytes < e->nbytes) {
        const uint64_t left = e->nbytes - in->sha_bytes;
        const size_t n = left < REREAD ? (size_t)left : REREAD;
        SFT_TRY(sft__fs_read_at(sft__fs_publish_handle(w->publish), w->path,
                                w->set.data_offset + e->begin + in->sha_bytes, buffer, n, err));
        sft__move_sha256_update(w->set.cpu, &sha, buffer, n);
        in->sha_bytes += n;
        SFT_TRY(sft__base_meter_add(&w->meter, 0, err));
    }
    sft__move_sha256_final(w->set.cpu, &sha, w->set.sha[index]);
    return SFT_OK;
}

static sft_status finish_digests(sft_writer *w, sft_error *err) {
    uint8_t *buffer = NULL;
    sft_status st = SFT_OK;

    for (size_t i = 0; i < w->set.count && st == SFT_OK; i++) {
        const sft__move_intake *in = &w->intakes[i];
        if (w->set.crc != NULL) {
            w->set.crc[i] = sft__move_cover_crc(&in->cover);
        }
        if (w->set.sha == NULL ||
            (in->sha_bytes == w->set.entries[i].nbytes && in->sha_bytes > 0)) {
            continue;
        }
        if (buffer == NULL) {
            buffer = sft__base_alloc(w->set.allocator, REREAD);
            SFT_NEED(buffer != NULL, REREAD, err);
        }
        st = finish_sha(w, (uint32_t)i, buffer, err);
    }
    sft__base_free(w->set.allocator, buffer, REREAD);
    return st;
}

static sft_status flush_carry(sft_writer *w, sft_error *err) {
    const sft__fs_span rest = {w->carry, w->carry_len};

    if (w->carry_len == 0) {
        return SFT_OK;
    }
    return sft__fs_publish_write(w->publish, w->carry_end - w->carry_len, &rest, 1, err);
}

static sft_status commit(sft_writer *w, sft_error *err) {
    sft__fs_span header;

    if (w->state == SFT__WRITER_DECLARING) {
        SFT_TRY(sft__move_writer_start(w, err));
    }
    if (w->state != SFT__WRITER_OPEN) {
        return sft__base_fail(err, SFT_E_STATE,
                              "the writer has failed or been committed: only free is left");
    }
    w->state = SFT__WRITER_DONE;
    if (w->path == NULL) {
        return check_stream_complete(w, err);
    }
    SFT_TRY(check_complete(w, err));
    SFT_TRY(flush_carry(w, err));
    SFT_TRY(finish_digests(w, err));
    SFT_TRY(sft__move_set_seal(&w->set, err));
    header = (sft__fs_span){w->set.header.data, w->set.header.len};
    SFT_TRY(sft__fs_publish_write(w->publish, 0, &header, 1, err));
    return sft__move_set_publish(&w->set, w->publish, w->path, err);
}

sft_status sft_writer_commit(sft_writer *writer, sft_error *err) {
    sft_status st;

    sft__base_mutex_lock(&writer->lock);
    st = commit(writer, err);
    sft__base_mutex_unlock(&writer->lock);
    return st;
}
