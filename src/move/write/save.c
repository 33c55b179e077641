/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/save.c - a whole set at once: into a file, a stream, or memory. See sft/write.h. Tensor data
 * goes from the caller's memory straight into the system calls; small tensors are gathered into
 * vectored writes.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "base/thread/meter.h"
#include "move/write/publish_set.h"
#include <sft/extend.h>

enum { GATHER = 256 };                                /* tensors per vectored write */
static const uint64_t JOB_BYTES = (uint64_t)32 << 20; /* one worker's share at a time */

/* Bytes of a tensor whose other bytes belong to other jobs. */
typedef struct portion {
    uint64_t size; /* 0: none */
    uint32_t index;
    uint32_t crc;
} portion;

/* Everything that one call needs. */
typedef struct saver {
    sft__move_set set;
    const sft_save_tensor *tensors;
    sft__fs_publish *publish; /* of a file */
    sft__fs_stream *stream;   /* or of a stream */
    sft__base_meter meter;
    bool fuse; /* CRC32C is computed while writing */
    size_t jobs;
    portion (*portions)[2]; /* per job: its first and its last tensor, where they are cut */
    sft__base_mutex lock;   /* of the two below */
    sft_status status;
    sft_error *err;
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

static sft_status saver_init(saver *s, const sft_save_tensor *tensors, size_t count,
                             const sft_metadata_entry *metadata, size_t metadata_count,
                             const sft_write_options *options, sft_error *err) {
    memset(s, 0, sizeof *s);
    SFT_TRY(sft__move_set_init(&s->set, options, err));
    s->tensors = tensors;
    s->err = err;
    if (count > UINT32_MAX) {
        return sft__base_fail(err, SFT_E_LIMIT, "more than %lu tensors", (unsigned long)UINT32_MAX);
    }
    if ((tensors == NULL && count > 0) || (metadata == NULL && metadata_count > 0)) {
        return sft__base_fail(err, SFT_E_ARG, "a count without an array");
    }
    if (count > 0) {
        s->set.entries = sft__base_alloc_array(s->set.allocator, count, sizeof *s->set.entries);
        if (s->set.entries == NULL) {
            return sft__base_fail_nomem(err, count * sizeof *s->set.entries);
        }
    }
    s->set.count = count;
    s->set.metadata = metadata;
    s->set.metadata_count = metadata_count;
    for (size_t i = 0; i < count; i++) {
        const sft_save_tensor *t = &tensors[i];
        if (t->name == NULL || t->dtype == NULL || (t->shape == NULL && t->rank > 0)) {
            return sft__base_fail(err, SFT_E_ARG, "tensor %llu needs a name, a dtype and a shape",
                                  (unsigned long long)i);
        }
        s->set.entries[i] =
            (sft__format_entry){t->name, t->name_len, t->dtype, t->shape, t->rank, 0, 0, 0};
    }
    return sft__move_set_layout(&s->set, err);
}

static sft_status saver_check(const saver *s, sft_error *err) {
    for (size_t i = 0; i < s->set.count; i++) {
        SFT_TRY(check_tensor(&s->tensors[i], &s->set.entries[i], err));
    }
    return SFT_OK;
}

static void saver_reset(saver *s) {
    sft__fs_publish_free(s->publish);
    sft__base_meter_reset(&s->meter);
    sft__base_free(s->set.allocator, s->portions, s->jobs * sizeof *s->portions);
    sft__base_free(s->set.allocator, s->set.entries, s->set.count * sizeof *s->set.entries);
    sft__move_set_reset(&s->set);
}

static const sft__format_entry *entry_at(const saver *s, size_t position) {
    return &s->set.entries[s->set.order[position]];
}

/* First position whose tensor ends behind `offset` of the data section. */
static size_t position_of(const saver *s, uint64_t offset) {
    size_t low = 0;
    size_t high = s->set.count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const sft__format_entry *e = entry_at(s, mid);
        if (e->begin + e->nbytes > offset) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

/* ---------------------------------------------------------------- digests of what lies in memory
 */

static void hash_sha(void *ctx, size_t index) {
    saver *s = ctx;
    sft_sha256 sha;
    sft_sha256_init(&sha);
    sft__move_sha256_update(s->set.cpu, &sha, s->tensors[index].data,
                            (size_t)s->tensors[index].nbytes);
    sft__move_sha256_final(s->set.cpu, &sha, s->set.sha[index]);
}

static void hash_crc(void *ctx, size_t index) {
    saver *s = ctx;
    s->set.crc[index] =
        sft__move_crc32c(s->set.cpu, 0, s->tensors[index].data, (size_t)s->tensors[index].nbytes);
}

static void hash_ahead(saver *s, bool crc_too) {
    if (s->set.sha != NULL) {
        sft_pool_run(s->set.options.pool, s->set.count, hash_sha, s);
    }
    if (s->set.crc != NULL && crc_too) {
        sft_pool_run(s->set.options.pool, s->set.count, hash_crc, s);
    }
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
    uint32_t *crcs[GATHER]; /* where each span is counted in; NULL: nowhere */
} gather;

static sft_status flush(gather *g, sft_error *err) {
    if (g->count == 0) {
        return SFT_OK;
    }
    if (g->s->stream != NULL) {
        SFT_TRY(sft__fs_stream_write(g->s->stream, g->spans, g->count, err));
    } else {
        SFT_TRY(sft__fs_publish_write(g->s->publish, g->offset, g->spans, g->count, err));
    }
    for (size_t i = 0; i < g->count; i++) { /* now, as writing has brought them into the cache */
        if (g->crcs[i] != NULL) {
            *g->crcs[i] =
                sft__move_crc32c(g->s->set.cpu, *g->crcs[i], g->spans[i].data, g->spans[i].size);
        }
    }
    SFT_TRY(sft__base_meter_add(&g->s->meter, g->bytes, err));
    g->offset += g->bytes;
    g->bytes = 0;
    g->count = 0;
    return SFT_OK;
}

/* crc: counts the bytes in, by the next flush at the latest; or NULL. */
static sft_status add(gather *g, const void *data, uint64_t size, uint32_t *crc, sft_error *err) {
    const uint8_t *at = data;

    while (size > 0) {
        /* up to the next multiple of step in the file: see SFT__FS_PUBLISH_ALIGN */
        const size_t room = g->step - (size_t)((g->offset + g->bytes) % g->step);
        const size_t n = size < room ? (size_t)size : room;
        g->spans[g->count] = (sft__fs_span){at, n};
        g->crcs[g->count++] = crc;
        g->bytes += n;
        at += n;
        size -= n;
        if (n == room || g->count == GATHER) {
            SFT_TRY(flush(g, err));
        }
    }
    return SFT_OK;
}

/* Bytes [begin, end) of the data section; the first range takes the header along if nothing in it
 * is open. */
static sft_status write_range(saver *s, uint64_t begin, uint64_t end, bool first, portion cut[2],
                              sft_error *err) {
    gather g;

    memset(&g, 0, offsetof(gather, spans));
    g.s = s;
    g.offset = s->set.data_offset + begin;
    g.step = s->fuse ? sft__move_set_digest_block(&s->set) : SFT__METER_STEP;
    if (first && (s->stream != NULL || !sft__move_set_digests_inside(&s->set))) {
        g.offset = 0;
        SFT_TRY(add(&g, s->set.header.data, s->set.header.len, NULL, err));
    }
    for (size_t p = position_of(s, begin); p < s->set.count && begin < end; p++) {
        const uint32_t index = s->set.order[p];
        const sft__format_entry *e = &s->set.entries[index];
        const uint64_t from = begin - e->begin;
        const uint64_t left = e->nbytes - from;
        const uint64_t size = left < end - begin ? left : end - begin;
        uint32_t *crc = NULL;
        if (size == 0) {
            continue; /* its CRC32C is 0, as set */
        }
        if (s->fuse && size == e->nbytes) {
            crc = &s->set.crc[index];
        } else if (s->fuse) {
            cut[from > 0 ? 0 : 1] = (portion){size, index, 0};
            crc = &cut[from > 0 ? 0 : 1].crc;
        }
        SFT_TRY(add(&g, (const uint8_t *)s->tensors[index].data + from, size, crc, err));
        begin += size;
    }
    return flush(&g, err);
}

/* Jobs end at multiples of their size in the file; the first ones may be empty if the header is
 * large. */
static uint64_t job_begin(const saver *s, size_t job) {
    const uint64_t at = job * JOB_BYTES; /* cannot overflow: inside the file */
    if (job >= s->jobs) {
        return s->set.data_bytes;
    }
    return at <= s->set.data_offset ? 0 : at - s->set.data_offset;
}

static void run_job(void *ctx, size_t job) {
    saver *s = ctx;
    const uint64_t begin = job_begin(s, job);
    const uint64_t end = job_begin(s, job + 1);
    portion none[2];
    sft_error err;
    sft_status st;

    sft__base_mutex_lock(&s->lock);
    st = s->status;
    sft__base_mutex_unlock(&s->lock);
    if (st != SFT_OK) {
        return;
    }
    st = write_range(s, begin, end, job == 0, s->portions != NULL ? s->portions[job] : none, &err);
    if (st != SFT_OK) {
        sft__base_mutex_lock(&s->lock);
        if (s->status == SFT_OK) {
            s->status = st;
            if (s->err != NULL) {
                *s->err = err;
            }
        }
        sft__base_mutex_unlock(&s->lock);
    }
}

/* Tensors that were cut by the border of a job get their CRC32C from their portions. */
static void join_portions(saver *s) {
    for (size_t job = 0; s->portions != NULL && job < s->jobs; job++) {
        for (size_t k = 0; k < 2; k++) {
            const portion *p = &s->portions[job][k];
            if (p->size > 0) {
                s->set.crc[p->index] = sft_crc32c_combine(s->set.crc[p->index], p->crc, p->size);
            }
        }
    }
}

/* All data, by the pool if there is one and enough to do. */
static sft_status write_data(saver *s, sft_error *err) {
    const bool parallel =
        sft_pool_threads(s->set.options.pool) > 1 && s->set.data_bytes > 2 * JOB_BYTES;

    s->jobs =
        parallel ? (size_t)((sft__move_set_file_bytes(&s->set) + JOB_BYTES - 1) / JOB_BYTES) : 1;
    s->fuse = s->set.crc != NULL;
    if (parallel && s->fuse) {
        s->portions = sft__base_alloc_array(s->set.allocator, s->jobs, sizeof *s->portions);
        if (s->portions == NULL) {
            return sft__base_fail_nomem(err, s->jobs * sizeof *s->portions);
        }
        memset(s->portions, 0, s->jobs * sizeof *s->portions);
    }
    if (!sft__base_mutex_init(&s->lock)) {
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    sft_pool_run(parallel ? s->set.options.pool : NULL, s->jobs, run_job, s);
    sft__base_mutex_reset(&s->lock);
    if (s->status == SFT_OK) {
        join_portions(s);
    }
    return s->status;
}

static sft_status save_file(saver *s, const char *path, sft_error *err) {
    sft__fs_span header;

    SFT_TRY(saver_check(s, err));
    SFT_TRY(sft__base_meter_init(&s->meter, s->set.options.control,
                                 sft__move_set_file_bytes(&s->set), err));
    SFT_TRY(sft__move_set_create(&s->publish, &s->set, path, err));
    hash_ahead(s, false);
    SFT_TRY(write_data(s, err));
    if (sft__move_set_digests_inside(&s->set)) {
        SFT_TRY(sft__move_set_seal(&s->set, err));
        header = (sft__fs_span){s->set.header.data, s->set.header.len};
        SFT_TRY(sft__fs_publish_write(s->publish, 0, &header, 1, err));
        SFT_TRY(sft__base_meter_add(&s->meter, header.size, err));
    }
    return sft__move_set_publish(&s->set, s->publish, path, err);
}

sft_status sft_save(const char *path, const sft_save_tensor *tensors, size_t count,
                    const sft_metadata_entry *metadata, size_t metadata_count,
                    const sft_write_options *options, sft_error *err) {
    saver s;
    sft_status st;

    if (path == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "path is NULL");
    }
    st = saver_init(&s, tensors, count, metadata, metadata_count, options, err);
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
    portion none[2];

    SFT_TRY(saver_check(s, err));
    SFT_TRY(refuse_sidecar(s, err));
    SFT_TRY(sft__fs_stream_init(&stream, fd, err));
    SFT_TRY(sft__base_meter_init(&s->meter, s->set.options.control,
                                 sft__move_set_file_bytes(&s->set), err));
    hash_ahead(s, true);
    SFT_TRY(sft__move_set_seal(&s->set, err));
    s->stream = &stream;
    return write_range(s, 0, s->set.data_bytes, true, none, err);
}

sft_status sft_save_stream(int fd, const sft_save_tensor *tensors, size_t count,
                           const sft_metadata_entry *metadata, size_t metadata_count,
                           const sft_write_options *options, sft_error *err) {
    saver s;
    sft_status st = saver_init(&s, tensors, count, metadata, metadata_count, options, err);
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
    hash_ahead(s, true);
    SFT_TRY(sft__move_set_seal(&s->set, err));
    memcpy(buffer, s->set.header.data, s->set.header.len);
    buffer += s->set.header.len;
    for (size_t i = 0; i < s->set.count; i++) {
        const sft__format_entry *e = &s->set.entries[i];
        if (e->nbytes > 0) {
            memcpy(buffer + (size_t)e->begin, s->tensors[i].data, (size_t)e->nbytes);
        }
    }
    return SFT_OK;
}

sft_status sft_save_memory(void *buffer, size_t capacity, size_t *size,
                           const sft_save_tensor *tensors, size_t count,
                           const sft_metadata_entry *metadata, size_t metadata_count,
                           const sft_write_options *options, sft_error *err) {
    saver s;
    sft_status st;

    if (size == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "size is NULL");
    }
    *size = 0;
    st = saver_init(&s, tensors, count, metadata, metadata_count, options, err);
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
    saver s;

    *size = 0;
    SFT_TRY(sft__base_options_read(&plain, sizeof plain, options,
                                   SFT__UP_TO(sft_write_options, allocator), "write options", err));
    plain.digests = 0;
    sft_status st = saver_init(&s, tensors, count, metadata, metadata_count, &plain, err);
    if (st == SFT_OK) {
        st = save_header(&s, buffer, capacity, size, offsets, err);
    }
    saver_reset(&s);
    return st;
}
