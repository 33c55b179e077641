/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/load_run.c - one job of a load: bytes are read, digests and counts are taken of them while
 * they are in the processor's cache, and kernels bring them to their places. Read first: load.h.
 */
#include "base/memory/alloc.h"
#include "base/memory/pages.h"
#include "base/thread/pool.h"
#include "move/kernels/digest_twins.h"
#include "move/load/load.h"
#include "move/read.h"

#define PAGE_MASK (SFT__FS_DIRECT_ALIGN - 1)
enum { RUN_VECTOR = 64 };

/* ---------------------------------------------------------------- facts and kernels */

uint64_t sft__move_load_made(const sft_tensor *t, const sft_dtype *dtype, uint64_t bytes) {
    const sft_dtype *from = t->dtype;
    if (dtype->id == from->id) {
        return bytes;
    }
    /* of the size that read_types found to fit */
    return bytes / from->block_bytes * from->block_elements / dtype->block_elements *
           dtype->block_bytes;
}

uint64_t sft__move_load_unit(const sft__move_load *w, size_t slot) {
    const sft_tensor *t = sft_catalog_at(w->loaded->catalog, slot);
    const sft__move_load_slot *s = &w->loaded->slots[slot];
    const bool scan =
        w->loaded->facts != NULL && (w->loaded->facts[slot].want & SFT__FACT_SCAN) != 0;

    switch (sft__move_load_kernel(w->options, t, s->dtype)) {
    case SFT__KERNEL_CONVERT: /* 4 elements: whole blocks of every type of the format */
        return (uint64_t)4 / t->dtype->block_elements * t->dtype->block_bytes;
    case SFT__KERNEL_SWAP:
        return t->dtype->block_bytes;
    default:
        return scan ? t->dtype->block_bytes : 1;
    }
}

/* What one job keeps between its blocks. */
typedef struct run_cursor {
    sft__move_load *w;
    const sft__move_load_job *job;
    size_t part; /* of the job */
    sft_sha256 sha;
} run_cursor;

static uint8_t *slot_data(const sft__move_load *w, size_t slot) {
    const sft__move_load_slot *s = &w->loaded->slots[slot];
    return s->at == SFT__LOAD_FINAL ? s->data : w->base + (size_t)s->at;
}

/* Whole elements of packed bytes [begin, begin + size). `data` lies in memory as all of the tensor
 * between `from` and `begin` does, which were seen before: an element that ends here is taken. */
static void run_scan(const run_cursor *c, sft__move_load_part *p, const uint8_t *data,
                     uint64_t begin, uint64_t size) {
    const sft_tensor *t = sft_catalog_at(c->w->loaded->catalog, p->slot);
    const uint64_t unit = t->dtype->block_bytes;
    const uint64_t first = (p->begin + unit - 1) / unit * unit;
    uint64_t from = begin - begin % unit;
    const uint64_t end = (begin + size) - (begin + size) % unit;

    from = from > first ? from : first;
    if (end > from) {
        sft__move_nonfinite_count(t->dtype, data + ((ptrdiff_t)from - (ptrdiff_t)begin),
                                  (size_t)(end - from), &p->nans, &p->infinities);
    }
}

/* Packed bytes of a part's tensor from `begin` on, which lie at `data`. */
static sft_status run_use(run_cursor *c, sft__move_load_part *p, uint64_t begin,
                          const uint8_t *data, uint64_t size, sft_error *err) {
    const sft_loaded *l = c->w->loaded;
    const sft_tensor *t = sft_catalog_at(l->catalog, p->slot);
    const uint32_t cpu = sft__base_pool_cpu(c->w->options->pool);
    const uint32_t wanted = l->facts != NULL ? l->facts[p->slot].want : 0;
    const sft_dtype *to = l->slots[p->slot].dtype;
    const bool host = SFT_BIG_ENDIAN && (c->w->options->flags & SFT_LOAD_HOST_ORDER) != 0;
    const sft__move_mover m = {.src_dtype = t->dtype,
                               .dst_dtype = to,
                               .kernel = sft__move_load_kernel(c->w->options, t, to),
                               .convert_flags =
                                   (host ? SFT_CONVERT_HOST_DST : 0) |
                                   SFT_CONVERT_WITHOUT(sft_pool_without(c->w->options->pool))};
    const bool buffered = c->job->kind == SFT__LOAD_THROUGH ||
                          (c->job->kind == SFT__LOAD_TENSOR && m.kernel != SFT__KERNEL_COPY);
    uint8_t *dst = slot_data(c->w, p->slot) + (size_t)sft__move_load_made(t, to, begin);

    for (uint64_t n; size > 0; data += n, begin += n, size -= n) {
        n = size < sft__base_size.load_block
                ? size
                : sft__base_size.load_block / 96 * 96; /* whole elements */
        if ((wanted & SFT_DIGEST_CRC32C) != 0) {
            p->crc = sft__move_crc32c(cpu, p->crc, data, (size_t)n);
        }
        if ((wanted & SFT_DIGEST_SHA256) != 0) {
            sft__move_sha256_update(cpu, &c->sha, data, (size_t)n);
        }
        if ((wanted & SFT__FACT_SCAN) != 0) {
            run_scan(c, p, data, begin, n);
        }
        if (buffered) {
            SFT_TRY(sft__move_kernel_apply(&m, dst, data, n, err));
            dst += (size_t)sft__move_load_made(t, to, n);
        }
    }
    return SFT_OK;
}

static uint64_t part_offset(const run_cursor *c, const sft__move_load_part *p) {
    if (c->job->kind >= SFT__LOAD_TENSOR) {
        return p->begin;
    }
    return sft_catalog_at(c->w->loaded->catalog, p->slot)->pieces[0].offset + p->begin;
}

static void part_end(run_cursor *c, const sft__move_load_part *p) {
    sft__move_load_fact *facts = c->w->loaded->facts;
    if (facts != NULL && (facts[p->slot].want & SFT_DIGEST_SHA256) != 0) {
        sft_sha256_final(&c->sha, facts[p->slot].sha);
        sft_sha256_init(&c->sha);
    }
    c->part++;
}

/* Bytes [low, high) of the job's source lie at `image`: every part takes its own. */
static sft_status run_feed(run_cursor *c, uint64_t low, uint64_t high, const uint8_t *image,
                           sft_error *err) {
    while (c->part < c->job->part_count) {
        sft__move_load_part *p = &c->w->parts[c->job->part + c->part];
        const uint64_t start = part_offset(c, p);
        const uint64_t stop = start + p->size;
        const uint64_t a = start > low ? start : low;
        const uint64_t b = stop < high ? stop : high;
        if (start >= high) {
            break;
        }
        const sft_status status =
            run_use(c, p, a - start + p->begin, image + (size_t)(a - low), b - a, err);
        if (status != SFT_OK) {
            return sft__move_name_tensor(err, sft_catalog_at(c->w->loaded->catalog, p->slot),
                                         status);
        }
        if (stop > high) {
            break;
        }
        part_end(c, p);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- buffers */

/* What is read directly, from page to page. */
size_t sft__move_load_buffer_size(void) {
    return (size_t)sft__base_size.load_bounce + 2 * SFT__FS_DIRECT_ALIGN;
}

/* ---------------------------------------------------------------- reading */

/* What lies around dst is margin up to the page: of a run only the first and last job have odd
 * ends. */
static sft_status read_range(sft__move_load *w, uint32_t index, uint64_t offset, uint64_t size,
                             uint8_t *dst, sft_error *err) {
    return sft__io_reader_read(&w->loaded->sources[index], offset, size, dst, err);
}

/* Past the page cache the system provides (and clears) the pages of a read before it asks the disk,
 * which rests meanwhile, all threads alike: they wait for it together and come back together. So
 * the first one here, if it is not alone, has the pages of the whole run provided, which goes
 * several times as fast as disks do, while the others read. */
static void run_touch(sft__move_load *w, const sft__move_load_job *job) {
    if (w->loaded->sources[job->source].direct < 0 || sft_pool_threads(w->options->pool) < 2 ||
        atomic_flag_test_and_set(&w->touched)) {
        return;
    }
    for (uint64_t at = job->at + job->size; at < w->total; at += sft__base_size.load_job) {
        const uint64_t left = w->total - at;
        if (sft__move_loop_add(&w->loop, 0, NULL) != SFT_OK) {
            return; /* seen again where it is told */
        }
        sft__base_pages_touch(
            w->base + (size_t)at,
            (size_t)(left < sft__base_size.load_job ? left : sft__base_size.load_job));
    }
}

/* Of jobs that were read and not looked at yet. A thread looks only while another one reads: all
 * that wait for one disk come back together, and if all of them looked then, the disk would rest.
 * The thread that reads alone while the run is touched leaves everything to that other one. */
static void run_unseen(sft__move_load *w, bool last) {
    sft_status status = SFT_OK;

    sft__base_mutex_lock(&w->lock);
    while (w->unseen != NULL && (last || w->reading != 0) && status == SFT_OK) {
        const sft__move_load_job *job = w->unseen;
        run_cursor c = {.w = w, .job = job};
        w->unseen = job->next;
        sft__base_mutex_unlock(&w->lock);
        /* no kernel, so nothing can fail */
        (void)run_feed(&c, job->offset, job->offset + job->size, w->base + (size_t)job->at, NULL);
        status = sft__move_loop_add(&w->loop, job->size, NULL); /* seen again where it is told */
        sft__base_mutex_lock(&w->lock);
    }
    w->reading += !last;
    sft__base_mutex_unlock(&w->lock);
}

sft_status sft__move_load_unseen_run(void *ctx, size_t index, sft_error *err) {
    (void)index, (void)err;
    run_unseen(ctx, true);
    return SFT_OK;
}

/* A job whose bytes are looked at later, maybe by another thread. */
static sft_status run_later(sft__move_load *w, sft__move_load_job *job, sft_error *err) {
    run_unseen(w, false);
    const sft_status status =
        read_range(w, job->source, job->offset, job->size, w->base + (size_t)job->at, err);
    sft__base_mutex_lock(&w->lock);
    w->reading--;
    if (status == SFT_OK) {
        job->next = w->unseen;
        w->unseen = job;
    }
    sft__base_mutex_unlock(&w->lock);
    return status;
}

static sft_status run_bulk(run_cursor *c, sft_error *err) {
    sft__move_load *w = c->w;
    const sft__move_load_job *job = c->job;
    const sft__io_reader *s = &w->loaded->sources[job->source];
    const bool blocks = job->part_count != 0 && s->direct < 0;

    run_touch(w, job);
    if (job->part_count != 0 && !blocks && sft_pool_threads(w->options->pool) > 1) {
        return run_later(w, &w->jobs[job - w->jobs], err);
    }
    for (uint64_t at = 0; at < job->size;) {
        const uint64_t left = job->size - at;
        const uint64_t n =
            blocks && left > sft__base_size.load_block ? sft__base_size.load_block : left;
        uint8_t *dst = w->base + (size_t)(job->at + at);
        SFT_TRY(read_range(w, job->source, job->offset + at, n, dst, err));
        if (job->part_count != 0) {
            SFT_TRY(run_feed(c, job->offset + at, job->offset + at + n, dst, err));
        }
        SFT_TRY(sft__move_loop_add(&w->loop, n, err));
        at += n;
    }
    return SFT_OK;
}

/* The end of a block that would end at `end`: before an element that goes on behind it. */
static uint64_t block_end(const run_cursor *c, uint64_t end) {
    for (size_t k = c->part; k < c->job->part_count; k++) {
        const sft__move_load_part *p = &c->w->parts[c->job->part + k];
        const uint64_t start = part_offset(c, p);
        if (start >= end) {
            break;
        }
        if (start + p->size > end) {
            return end - (end - start) % sft__move_load_unit(c->w, p->slot);
        }
    }
    return end;
}

static sft_status run_through(run_cursor *c, uint8_t *pages, sft_error *err) {
    sft__move_load *w = c->w;
    const sft__move_load_job *job = c->job;
    const uint64_t end = job->offset + job->size;
    const uint64_t most = w->loaded->sources[job->source].direct >= 0 ? sft__base_size.load_bounce
                                                                      : sft__base_size.load_block;

    for (uint64_t at = job->offset; at < end;) {
        const uint64_t page = at & PAGE_MASK;
        const uint64_t stop = end - at > most - page ? block_end(c, at + most - page) : end;
        SFT_TRY(read_range(w, job->source, at, stop - at, pages + page, err));
        SFT_TRY(run_feed(c, at, stop, pages + page, err));
        SFT_TRY(sft__move_loop_add(&w->loop, stop - at, err));
        at = stop;
    }
    return SFT_OK;
}

static sft_status run_scatter(run_cursor *c, sft_error *err) {
    sft__move_load *w = c->w;
    const sft__move_load_job *job = c->job;
    const uint64_t most = w->loaded->facts != NULL ? sft__base_size.load_block : job->size;
    sft_io_range r[RUN_VECTOR];

    for (uint64_t at = job->offset; at < job->offset + job->size;) {
        const uint64_t end = job->offset + job->size;
        const uint64_t stop = end - at > most ? block_end(c, at + most) : end;
        const size_t first = c->part;
        uint64_t next = at;
        size_t n = 0;
        for (size_t k = first; n < RUN_VECTOR && next < stop; k++, n++) {
            const sft__move_load_part *p = &w->parts[job->part + k];
            const uint64_t start = part_offset(c, p);
            const uint64_t size = (start + p->size < stop ? start + p->size : stop) - next;
            r[n] = (sft_io_range){next, slot_data(w, p->slot) + (size_t)(next - start + p->begin),
                                  (size_t)size};
            next += size;
        }
        SFT_TRY(sft__io_reader_read_ranges(&w->loaded->sources[job->source], r, n, err));
        for (size_t i = 0; i < n; i++) {
            SFT_TRY(run_feed(c, r[i].offset, r[i].offset + r[i].size, r[i].data, err));
        }
        SFT_TRY(sft__move_loop_add(&w->loop, next - at, err));
        at = next;
    }
    return SFT_OK;
}

static sft_status run_tensor(run_cursor *c, uint8_t *buffer, sft_error *err) {
    sft__move_load *w = c->w;
    const sft__move_load_job *job = c->job;
    const sft__move_load_part *p = &w->parts[job->part];
    const sft_tensor *t = sft_catalog_at(w->loaded->catalog, p->slot);
    const bool facts = w->loaded->facts != NULL;
    const uint64_t end = job->offset + job->size;

    for (uint64_t at = job->offset; at < end;) {
        const uint64_t stop = (facts || buffer != NULL) && end - at > sft__base_size.load_block
                                  ? block_end(c, at + sft__base_size.load_block)
                                  : end;
        uint8_t *dst = buffer != NULL ? buffer : slot_data(w, p->slot) + (size_t)at;
        const sft__move_stretch stretch = {t, at, (size_t)(stop - at), NULL};
        const sft_status status =
            sft__move_tensor_bytes(w->loaded->catalog, &stretch, dst, &w->loop.watch, err);
        if (status != SFT_OK) {
            return sft__move_name_tensor(err, t, status);
        }
        SFT_TRY(run_feed(c, at, stop, dst, err));
        at = stop;
    }
    return SFT_OK;
}

static sft_status run_mapped(run_cursor *c, sft_error *err) {
    sft__move_load *w = c->w;
    const sft__move_load_job *job = c->job;
    const sft__move_load_part *p = &w->parts[job->part];
    const sft_tensor *t = sft_catalog_at(w->loaded->catalog, p->slot);
    const uint8_t *data = slot_data(w, p->slot) + (size_t)job->offset;

    if (!sft__fs_map_populate(data, (size_t)job->size)) {
        return sft__base_fail_tensor(err, SFT_E_TRUNCATED, t->pieces[0].offset, t->name,
                                     t->name_len,
                                     "mapped pages cannot be read, the file may have shrunk");
    }
    SFT_TRY(run_feed(c, job->offset, job->offset + job->size, data, err));
    return sft__move_loop_add(&w->loop, job->size, err);
}

/* ---------------------------------------------------------------- batches */

typedef struct run_many {
    sft__move_watch *watch;
    const sft_io_range *ranges;
} run_many;

static void batch_done(void *ctx, size_t index, sft_status status, const sft_error *err) {
    const run_many *b = ctx;
    (void)err;
    if (status == SFT_OK) {
        (void)sft__move_watch_add(b->watch, b->ranges[index].size,
                                  NULL); /* an end is seen by poll */
    }
}

static int batch_poll(void *ctx, const sft_progress *progress) {
    const run_many *b = ctx;
    (void)progress;
    return sft__move_watch_add(b->watch, 0, NULL) != SFT_OK;
}

/* The ranges of `count` jobs; buffers: room for what goes through a kernel. Returns how many. */
static size_t batch_ranges(const sft__move_load *w, const sft__move_load_job *jobs, size_t count,
                           uint8_t *buffers, sft_io_range *r) {
    size_t n = 0;

    for (size_t j = 0; j < count; j++) {
        const sft__move_load_job *job = &jobs[j];
        if (job->kind != SFT__LOAD_SCATTER) {
            uint8_t *dst = buffers;
            if (job->kind == SFT__LOAD_BULK) {
                dst = w->base + (size_t)job->at;
            } else {
                buffers += (size_t)job->size;
            }
            r[n++] = (sft_io_range){job->offset, dst, (size_t)job->size};
            continue;
        }
        for (size_t k = 0; k < job->part_count; k++) {
            const sft__move_load_part *p = &w->parts[job->part + k];
            const sft_tensor *t = sft_catalog_at(w->loaded->catalog, p->slot);
            r[n++] = (sft_io_range){t->pieces[0].offset + p->begin,
                                    slot_data(w, p->slot) + (size_t)p->begin, (size_t)p->size};
        }
    }
    return n;
}

static sft_status batch_feed(sft__move_load *w, const sft__move_load_job *job,
                             const sft_io_range *r, sft_error *err) {
    run_cursor c = {.w = w, .job = job};
    const uint64_t end = job->offset + job->size;

    sft_sha256_init(&c.sha);
    for (uint64_t at = job->offset; at < end && job->part_count != 0; r++) {
        SFT_TRY(run_feed(&c, at, at + r->size, r->data, err));
        at += r->size;
    }
    return SFT_OK;
}

static sft_status run_batch(sft__move_load *w, const sft__move_load_job *jobs, sft_error *err) {
    const size_t count = jobs[0].batch;
    uint64_t buffers = 0;
    size_t ranges = 0;

    for (size_t j = 0; j < count; j++) {
        buffers += jobs[j].kind == SFT__LOAD_THROUGH ? jobs[j].size : 0;
        ranges += jobs[j].kind == SFT__LOAD_SCATTER ? jobs[j].part_count : 1;
    }
    if (buffers > SIZE_MAX) {
        return sft__base_fail_nomem(err, SIZE_MAX);
    }
    sft_io_range *r = sft__base_alloc_array(w->loaded->allocator, ranges, sizeof *r);
    uint8_t *buffer = sft__base_alloc(w->loaded->allocator, (size_t)buffers);
    run_many many = {&w->loop.watch, r};
    const sft_control control = {sizeof control, batch_poll, &many};
    sft_status status = SFT_OK;
    if (r == NULL || (buffer == NULL && buffers != 0)) {
        status = sft__base_fail_nomem(err, (size_t)buffers + ranges * sizeof *r);
    } else {
        (void)batch_ranges(w, jobs, count, buffer, r);
        status = sft_source_read_many(sft__move_load_source_of(w, jobs[0].source),
                                      &(sft_io_batch){r, ranges, batch_done, &many, &control}, err);
    }
    for (size_t j = 0, at = 0; j < count && status == SFT_OK; j++) {
        status = batch_feed(w, &jobs[j], r + at, err);
        at += jobs[j].kind == SFT__LOAD_SCATTER ? jobs[j].part_count : 1;
    }
    sft__base_free(w->loaded->allocator, r, ranges * sizeof *r);
    sft__base_free(w->loaded->allocator, buffer, (size_t)buffers);
    return status;
}

/* ---------------------------------------------------------------- one job */

static sft_status run_one(sft__move_load *w, const sft__move_load_job *job, sft_error *err) {
    run_cursor c = {.w = w, .job = job};
    uint8_t *buffer = NULL;
    sft_status status;

    sft_sha256_init(&c.sha);
    if (job->kind == SFT__LOAD_THROUGH || job->kind == SFT__LOAD_TENSOR) {
        const size_t slot = w->parts[job->part].slot;
        const sft_tensor *t = sft_catalog_at(w->loaded->catalog, slot);
        if (job->kind == SFT__LOAD_THROUGH ||
            sft__move_load_kernel(w->options, t, w->loaded->slots[slot].dtype) !=
                SFT__KERNEL_COPY) {
            buffer = sft__move_loop_take(&w->loop, err);
            if (buffer == NULL) {
                return SFT_E_NOMEM;
            }
        }
    }
    switch (job->kind) {
    case SFT__LOAD_BULK:
        status = run_bulk(&c, err);
        break;
    case SFT__LOAD_SCATTER:
        status = run_scatter(&c, err);
        break;
    case SFT__LOAD_THROUGH:
        status = run_through(&c, buffer, err);
        break;
    case SFT__LOAD_TENSOR:
        status = run_tensor(&c, buffer, err);
        break;
    default:
        status = run_mapped(&c, err);
        break;
    }
    sft__move_loop_give(&w->loop, buffer);
    return status;
}

sft_status sft__move_load_job_run(void *ctx, size_t index, sft_error *err) {
    sft__move_load *w = ctx;
    const sft__move_load_job *job = &w->jobs[index];
    const bool batched = job->kind < SFT__LOAD_TENSOR && w->loaded->sources[job->source].batches &&
                         (job->kind != SFT__LOAD_THROUGH || job->size <= sft__base_size.load_batch);

    if (job->batch == 0) {
        return SFT_OK; /* done with one before */
    }
    return batched ? run_batch(w, job, err) : run_one(w, job, err);
}
