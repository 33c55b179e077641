/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/save.c - a whole set at once: into a file, a stream, or memory. See sft/write.h. Tensor data
 * goes from the caller's memory straight into the system calls; small tensors are gathered into
 * vectored writes.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "base/thread/meter.h"
#include "move/loop.h"
#include "move/write/publish_set.h"
#include <sft/extend.h>

enum { GATHER = 256 };                            /* tensors per vectored write */
static const uint64_t SHARE = (uint64_t)32 << 20; /* bytes of the file in one block of the loop */
static const uint64_t HASHED_SHARE = (uint64_t)8 << 20; /* the same where SHA-256 takes the time */

/* What a caller wants to be saved. */
typedef struct request {
    const sft_save_tensor *tensors;
    size_t count;
    const sft_metadata_entry *metadata;
    size_t metadata_count;
    const sft_write_options *options;
} request;

/* The SHA-256 of a tensor whose bytes go out in several parts. */
typedef struct hashing {
    sft_sha256 sha;
    uint64_t done; /* bytes that it has seen */
    uint32_t index;
    bool busy; /* a thread is at it */
} hashing;

/* Everything that one call needs. */
typedef struct saver {
    sft__move_set set;
    const sft_save_tensor *tensors;
    sft__fs_publish *publish; /* bytes go to a file, */
    sft__fs_stream *stream;   /* a stream, */
    uint8_t *memory;          /* memory; or nowhere, when digests are wanted before them */
    bool sum;                 /* digests are taken of what goes out */
    uint64_t share; /* bytes of a block; the first ones may be empty if the header is large */
    sft__move_loop loop;
    hashing **hashing; /* by declaration index, under the loop's lock; NULL: no SHA-256 is wanted */
} saver;

/* ---------------------------------------------------------------- what is to be saved */

static sft_status check_tensor(const sft_save_tensor *t, const sft__format_entry *e,
                               sft_error *err) {
    if (t->nbytes != e->nbytes) {
        return sft__base_fail_tensor(err, SFT_E_ARG, SFT_NO_OFFSET, t->name, t->name_len,
                                     "%llu bytes given, dtype %s and shape need %llu",
                                     (unsigned long long)t->nbytes, t->dtype->name,
                                     (unsigned long long)e->nbytes);
    }
    if ((t->data == NULL && t->nbytes > 0) || t->nbytes > SIZE_MAX) {
        return sft__base_fail_tensor(err, SFT_E_ARG, SFT_NO_OFFSET, t->name, t->name_len,
                                     "%llu bytes cannot lie at the address given",
                                     (unsigned long long)t->nbytes);
    }
    return SFT_OK;
}

static sft_status saver_init(saver *s, const request *q, sft_error *err) {
    memset(s, 0, sizeof *s);
    SFT_TRY(sft__move_set_init(&s->set, q->options, err));
    s->tensors = q->tensors;
    if (q->count > UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "more than %lu tensors", (unsigned long)UINT32_MAX);
    }
    if ((q->tensors == NULL && q->count > 0) || (q->metadata == NULL && q->metadata_count > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "a count without an array");
    }
    if (q->count > 0) {
        s->set.entries = sft__base_alloc_array(s->set.allocator, q->count, sizeof *s->set.entries);
        SFT_NEED(s->set.entries != NULL, q->count * sizeof *s->set.entries, err);
    }
    s->set.count = q->count;
    s->set.metadata = q->metadata;
    s->set.metadata_count = q->metadata_count;
    for (size_t i = 0; i < q->count; i++) {
        const sft_save_tensor *t = &q->tensors[i];
        if (t->name == NULL || t->dtype == NULL || (t->shape == NULL && t->rank > 0)) {
            return sft__base_fail(err, SFT_E_ARG, "tensor %llu needs a name, a dtype and a shape",
                                  (unsigned long long)i);
        }
        s->set.entries[i] =
            (sft__format_entry){t->name, t->name_len, t->dtype, t->shape, t->rank, 0, 0, 0};
    }
    return sft__move_set_layout(&s->set, err);
}

static void saver_reset(saver *s) {
    for (size_t i = 0; s->hashing != NULL && i < s->set.count; i++) {
        sft__base_free(s->set.allocator, s->hashing[i], sizeof **s->hashing);
    }
    sft__base_free(s->set.allocator, s->hashing, s->set.count * sizeof *s->hashing);
    sft__fs_publish_free(s->publish);
    sft__base_free(s->set.allocator, s->set.entries, s->set.count * sizeof *s->set.entries);
    sft__move_set_reset(&s->set);
}

/* ---------------------------------------------------------------- digests of what is in the cache
 */

static void hash_all(const saver *s, size_t index) {
    sft_sha256 sha;
    sft_sha256_init(&sha);
    sft__move_sha256_update(s->set.cpu, &sha, s->tensors[index].data,
                            (size_t)s->tensors[index].nbytes);
    sft__move_sha256_final(s->set.cpu, &sha, s->set.sha[index]);
}

/* The SHA-256 goes on to the byte `end` of the tensor, unless another thread is at it: what is left out
 * then, whoever comes next takes along, or hash_rest. */
static sft_status hash_up_to(saver *s, uint32_t index, uint64_t end, sft_error *err) {
    sft__base_mutex_lock(&s->loop.watch.lock);
    hashing *h = s->hashing[index];
    if (h == NULL) {
        h = s->hashing[index] = sft__base_alloc_zero(s->set.allocator, sizeof *h);
        if (h != NULL) {
            sft_sha256_init(&h->sha);
            h->index = index;
        }
    }
    const bool ours = h != NULL && !h->busy && h->done < end;
    if (ours) {
        h->busy = true;
    }
    sft__base_mutex_unlock(&s->loop.watch.lock);
    if (ours) {
        const uint8_t *const data = (const uint8_t *)s->tensors[index].data + h->done;
        sft__move_sha256_update(s->set.cpu, &h->sha, data, (size_t)(end - h->done));
        sft__base_mutex_lock(&s->loop.watch.lock);
        h->done = end;
        h->busy = false;
        sft__base_mutex_unlock(&s->loop.watch.lock);
    }
    return h != NULL ? SFT_OK : sft__base_fail_nomem(err, sizeof *h);
}

static sft_status hash_rest(void *ctx, size_t index, sft_error *err) {
    saver *s = ctx;
    hashing *h = s->hashing[index];
    (void)err;
    sft__move_sha256_update(s->set.cpu, &h->sha,
                            (const uint8_t *)s->tensors[h->index].data + h->done,
                            (size_t)(s->tensors[h->index].nbytes - h->done));
    sft__move_sha256_final(s->set.cpu, &h->sha, s->set.sha[h->index]);
    return SFT_OK;
}

/* The digests of the tensor's bytes from `from` on that are in the span. */
static sft_status sum(saver *s, uint32_t index, uint64_t from, sft__fs_span part, sft_error *err) {
    const uint64_t left = s->tensors[index].nbytes - from - part.size;
    const bool all = part.size == s->tensors[index].nbytes;

    if (s->set.crc != NULL) {
        uint32_t crc = sft__move_crc32c(s->set.cpu, 0, part.data, part.size);
        crc = all ? crc : sft_crc32c_combine(crc, 0, left);
        sft__base_mutex_lock(&s->loop.watch.lock);
        s->set.crc[index] ^= crc; /* CRCs of parts, moved to their places, add up in any order */
        sft__base_mutex_unlock(&s->loop.watch.lock);
    }
    if (s->set.sha != NULL && !all) {
        return hash_up_to(s, index, from + part.size, err);
    }
    if (s->set.sha != NULL) {
        hash_all(s, index);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- bytes go out */

/* A run of bytes of the file that is gathered from several tensors before it is written. */
typedef struct gather {
    saver *s;
    uint64_t offset; /* in the file */
    size_t bytes;
    size_t count;
    size_t step; /* written at the latest when so many bytes are there */
    sft__fs_span spans[GATHER];
    uint64_t from[GATHER]; /* of each span, in its tensor */
    uint32_t index[GATHER];
} gather;

static const uint32_t NO_TENSOR = UINT32_MAX;

static sft_status put_out(const gather *g, sft_error *err) {
    uint8_t *to = g->s->memory != NULL ? g->s->memory + (size_t)g->offset : NULL;

    if (g->s->stream != NULL) {
        return sft__fs_stream_write(g->s->stream, g->spans, g->count, err);
    }
    if (g->s->publish != NULL) {
        return sft__fs_publish_write(g->s->publish, g->offset, g->spans, g->count, err);
    }
    for (size_t i = 0; to != NULL && i < g->count; i++) {
        memcpy(to, g->spans[i].data, g->spans[i].size);
        to += g->spans[i].size;
    }
    return SFT_OK;
}

static sft_status flush(gather *g, sft_error *err) {
    saver *const s = g->s;
    const bool nowhere = s->stream == NULL && s->publish == NULL && s->memory == NULL;

    if (g->count == 0) {
        return SFT_OK;
    }
    SFT_TRY(put_out(g, err));
    for (size_t i = 0; s->sum && i < g->count; i++) { /* now, as it is in the cache */
        if (g->index[i] != NO_TENSOR) {
            SFT_TRY(sum(s, g->index[i], g->from[i], g->spans[i], err));
        }
    }
    SFT_TRY(sft__move_loop_add(&s->loop, nowhere ? 0 : g->bytes, err));
    g->offset += g->bytes;
    g->bytes = 0;
    g->count = 0;
    return SFT_OK;
}

/* Bytes of a tensor, from `from` on; or of none. */
static sft_status add(gather *g, uint32_t index, uint64_t from, const void *data, uint64_t size,
                      sft_error *err) {
    const uint8_t *at = data;

    while (size > 0) {
        /* up to the next multiple of step in the file: see SFT__FS_PUBLISH_ALIGN */
        const size_t room = g->step - (size_t)((g->offset + g->bytes) % g->step);
        const size_t n = size < room ? (size_t)size : room;
        g->spans[g->count] = (sft__fs_span){at, n};
        g->from[g->count] = from;
        g->index[g->count++] = index;
        g->bytes += n;
        at += n;
        from += n;
        size -= n;
        if (n == room || g->count == GATHER) {
            SFT_TRY(flush(g, err));
        }
    }
    return SFT_OK;
}

/* Is the header written when all digests are known? A stream cannot go back. */
static bool header_is_last(const saver *s) {
    return s->stream == NULL && sft__move_set_digests_inside(&s->set);
}

/* A block of the loop: the next share of the file, the first one with the header. */
static sft_status write_share(void *ctx, size_t block, sft_error *err) {
    saver *const s = ctx;
    const uint64_t low = block * s->share; /* cannot overflow: inside the file */
    const uint64_t left = sft__move_set_file_bytes(&s->set) - low;
    const uint64_t high = low + (left < s->share ? left : s->share);
    uint64_t begin = low > s->set.data_offset ? low - s->set.data_offset : 0;
    const uint64_t end = high > s->set.data_offset ? high - s->set.data_offset : 0;
    gather g;

    memset(&g, 0, offsetof(gather, spans));
    g.s = s;
    g.offset = s->set.data_offset + begin;
    g.step = s->sum ? sft__move_set_digest_block(&s->set) : SFT__METER_STEP;
    if (block == 0 && !header_is_last(s)) {
        g.offset = 0;
        SFT_TRY(add(&g, NO_TENSOR, 0, s->set.header.data, s->set.header.len, err));
    }
    for (size_t p = sft__move_set_position(&s->set, begin); p < s->set.count && begin < end; p++) {
        const uint32_t index = s->set.order[p];
        const sft__format_entry *e = &s->set.entries[index];
        const uint64_t from = begin - e->begin;
        const uint64_t size = e->nbytes - from < end - begin ? e->nbytes - from : end - begin;
        if (size > 0) { /* else: its digests are set */
            SFT_TRY(
                add(&g, index, from, (const uint8_t *)s->tensors[index].data + from, size, err));
        }
        begin += size;
    }
    return flush(&g, err);
}

/* SHA-256 where it is wanted: of tensors without bytes now, of the others on the way. */
static sft_status hash_begin(saver *s, sft_error *err) {
    if (s->set.sha == NULL) {
        return SFT_OK;
    }
    for (size_t i = 0; i < s->set.count; i++) {
        if (s->set.entries[i].nbytes == 0) {
            hash_all(s, i);
        }
    }
    s->hashing = sft__base_alloc_zero(s->set.allocator, s->set.count * sizeof *s->hashing);
    return s->hashing != NULL ? SFT_OK
                              : sft__base_fail_nomem(err, s->set.count * sizeof *s->hashing);
}

/* What is left of SHA-256 that several threads were at, and their ends. */
static sft_status hash_end(saver *s, sft_error *err) {
    size_t count = 0;

    for (size_t i = 0; s->hashing != NULL && i < s->set.count; i++) {
        hashing *const h = s->hashing[i];
        s->hashing[i] = NULL;
        if (h != NULL) {
            s->hashing[count++] = h;
        }
    }
    s->loop.block = hash_rest;
    return count > 0 ? sft__move_loop_run(&s->loop, count, err) : SFT_OK;
}

/* All shares, by the pool if there is one, the target has places, and there is enough to do. */
static sft_status write_shares(saver *s, sft_error *err) {
    const sft_pool *const pool = s->set.options.pool;
    const uint64_t bytes = sft__move_set_file_bytes(&s->set);
    const uint64_t share = s->sum && s->set.sha != NULL ? HASHED_SHARE : SHARE;
    const bool parallel =
        s->stream == NULL && sft_pool_threads(pool) > 1 && s->set.data_bytes > 2 * share;

    s->share = parallel ? share : bytes;
    s->loop.pool = parallel ? pool : NULL;
    s->loop.block = write_share;
    return sft__move_loop_run(&s->loop, (size_t)((bytes + s->share - 1) / s->share), err);
}

/* The same with digests of what goes out, which end in the header's text. */
static sft_status write_summed(saver *s, sft_error *err) {
    s->sum = s->set.crc != NULL || s->set.sha != NULL;
    SFT_TRY(hash_begin(s, err));
    SFT_TRY(write_shares(s, err));
    SFT_TRY(hash_end(s, err));
    s->sum = false;
    return sft__move_set_seal(&s->set, err);
}

static sft_status write_set(saver *s, sft__fs_stream *stream, sft_error *err) {
    if (stream != NULL) {
        if (s->set.options.digests != 0) { /* to nowhere, for the digests: the header comes first */
            SFT_TRY(write_summed(s, err));
        }
        s->stream = stream;
        return write_shares(s, err);
    }
    SFT_TRY(write_summed(s, err));
    if (header_is_last(s)) {
        gather g;
        memset(&g, 0, offsetof(gather, spans));
        g.s = s;
        g.step = SFT__METER_STEP;
        SFT_TRY(add(&g, NO_TENSOR, 0, s->set.header.data, s->set.header.len, err));
        SFT_TRY(flush(&g, err));
    }
    return SFT_OK;
}

/* stream: NULL, or where all goes; else the saver says it. */
static sft_status run_loop(saver *s, sft__fs_stream *stream, sft_error *err) {
    s->loop.allocator = s->set.allocator;
    s->loop.ctx = s;
    SFT_TRY(sft__move_loop_begin(&s->loop, s->set.options.control,
                                 sft__move_set_file_bytes(&s->set), err));
    const sft_status status = write_set(s, stream, err);
    (void)sft__move_loop_end(&s->loop, status == SFT_OK ? err : NULL);
    return status;
}

/* ---------------------------------------------------------------- the calls */

static sft_status saver_check(const saver *s, sft_error *err) {
    for (size_t i = 0; i < s->set.count; i++) {
        SFT_TRY(check_tensor(&s->tensors[i], &s->set.entries[i], err));
    }
    return SFT_OK;
}

static sft_status save_file(saver *s, const char *path, sft_error *err) {
    SFT_TRY(saver_check(s, err));
    SFT_TRY(sft__move_set_create(&s->publish, &s->set, path, err));
    SFT_TRY(run_loop(s, NULL, err));
    return sft__move_set_publish(&s->set, s->publish, path, err);
}

sft_status sft_save(const char *path, const sft_save_tensor *tensors, size_t count,
                    const sft_metadata_entry *metadata, size_t metadata_count,
                    const sft_write_options *options, sft_error *err) {
    const request q = {tensors, count, metadata, metadata_count, options};
    saver s;
    sft_status st;

    if (path == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "path is NULL");
    }
    st = saver_init(&s, &q, err);
    if (st == SFT_OK) {
        st = save_file(&s, path, err);
    }
    saver_reset(&s);
    return st;
}

/* A sidecar stands beside a file: what has no path has none. */
static sft_status refuse_sidecar(const saver *s, sft_error *err) {
    if (s->set.options.digests != 0 && !sft__move_set_digests_inside(&s->set)) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "digests in a sidecar need a path to put it beside");
    }
    return SFT_OK;
}

static sft_status save_stream(saver *s, int fd, sft_error *err) {
    sft__fs_stream stream;

    SFT_TRY(saver_check(s, err));
    SFT_TRY(refuse_sidecar(s, err));
    SFT_TRY(sft__fs_stream_init(&stream, fd, err));
    return run_loop(s, &stream, err);
}

sft_status sft_save_stream(int fd, const sft_save_tensor *tensors, size_t count,
                           const sft_metadata_entry *metadata, size_t metadata_count,
                           const sft_write_options *options, sft_error *err) {
    const request q = {tensors, count, metadata, metadata_count, options};
    saver s;
    sft_status st = saver_init(&s, &q, err);
    if (st == SFT_OK) {
        st = save_stream(&s, fd, err);
    }
    saver_reset(&s);
    return st;
}

static sft_status save_memory(saver *s, uint8_t *buffer, size_t capacity, size_t *size,
                              sft_error *err) {
    SFT_TRY(saver_check(s, err));
    SFT_TRY(refuse_sidecar(s, err));
    if (!sft__base_size_from_u64(sft__move_set_file_bytes(&s->set), size)) {
        return sft__base_fail(err, SFT_E_LIMIT, "%llu bytes do not fit into memory",
                              (unsigned long long)sft__move_set_file_bytes(&s->set));
    }
    if (buffer == NULL) {
        return SFT_OK;
    }
    if (capacity < *size) {
        return sft__base_fail(err, SFT_E_ARG, "%llu bytes of room, %llu are needed",
                              (unsigned long long)capacity, (unsigned long long)*size);
    }
    s->memory = buffer;
    return run_loop(s, NULL, err);
}

sft_status sft_save_memory(void *buffer, size_t capacity, size_t *size,
                           const sft_save_tensor *tensors, size_t count,
                           const sft_metadata_entry *metadata, size_t metadata_count,
                           const sft_write_options *options, sft_error *err) {
    const request q = {tensors, count, metadata, metadata_count, options};
    saver s;
    sft_status st;

    if (size == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "size is NULL");
    }
    *size = 0;
    st = saver_init(&s, &q, err);
    if (st == SFT_OK) {
        st = save_memory(&s, buffer, capacity, size, err);
    }
    saver_reset(&s);
    return st;
}

/* The header alone has no digests: nobody has seen the bytes. */
static sft_status save_header(saver *s, void *buffer, size_t capacity, size_t *size,
                              uint64_t *offsets, sft_error *err) {
    *size = s->set.header.len;
    for (size_t i = 0; offsets != NULL && i < s->set.count; i++) {
        offsets[i] = s->set.data_offset + s->set.entries[i].begin;
    }
    if (buffer != NULL && capacity < *size) {
        return sft__base_fail(err, SFT_E_ARG, "%llu bytes of room, %llu are needed",
                              (unsigned long long)capacity, (unsigned long long)*size);
    }
    if (buffer != NULL) {
        memcpy(buffer, s->set.header.data, *size);
    }
    return SFT_OK;
}

sft_status sft_save_header(void *buffer, size_t capacity, size_t *size, uint64_t *offsets,
                           const sft_save_tensor *tensors, size_t count,
                           const sft_metadata_entry *metadata, size_t metadata_count,
                           const sft_write_options *options, sft_error *err) {
    sft_write_options plain;
    const request q = {tensors, count, metadata, metadata_count, &plain};
    saver s;

    *size = 0;
    SFT_TRY(sft__base_options_read(&plain, sizeof plain, options,
                                   SFT__UP_TO(sft_write_options, allocator), "write options", err));
    plain.digests = 0;
    sft_status st = saver_init(&s, &q, err);
    if (st == SFT_OK) {
        st = save_header(&s, buffer, capacity, size, offsets, err);
    }
    saver_reset(&s);
    return st;
}
