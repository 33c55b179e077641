/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/stream.c - a stream's runs, read ahead and handed out. Runs get their blocks in order, as
 * long as the budget lasts; their jobs are taken in that order by the pool's workers and by whoever
 * waits in next, who is the only one where there is no pool. What could not be read is read once
 * more when it is its turn, tensor by tensor, so the error is that of the tensor. Read first:
 * move/load/stream.h.
 */
#include "move/load/stream.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "move/kernels/digest_twins.h"
#include "move/read.h"
#include <sft/extend.h>

#define FLAGS (SFT_STREAM_GO_ON | SFT_STREAM_WAIT | SFT_STREAM_PARTS | SFT_STREAM_VERIFY)

enum { AHEAD = 256 }; /* runs, read or being read, that nobody has asked for yet */

/* ---------------------------------------------------------------- blocks: under the lock */

/* The lowest gap: memory that was in use a moment ago is in the caches. */
static bool take_block(sft_stream *s, sft__move_run *run) {
    sft__move_run **link = &s->blocks;
    uint64_t at = 0;

    if (run->room > s->size - s->used) {
        return false;
    }
    for (; *link != NULL && (*link)->at - at < run->room; link = &(*link)->above) {
        at = (*link)->at + (*link)->room;
    }
    if (s->size - at < run->room) {
        return false;
    }
    run->at = at;
    run->above = *link;
    *link = run;
    s->used += run->room;
    s->peak = s->peak > s->used ? s->peak : s->used;
    return true;
}

static void give_block(sft_stream *s, const sft__move_run *run) {
    for (sft__move_run **link = &s->blocks; *link != NULL; link = &(*link)->above) {
        if (*link == run) {
            *link = run->above;
            s->used -= run->room;
            return;
        }
    }
}

/* ---------------------------------------------------------------- reading */

static const sft_source *source_of(const sft_stream *s, uint32_t index) {
    return sft_catalog_source_at(s->catalog, index);
}

/* Where a want of the run begins in its source; RANGE only. */
static uint64_t place_of(const sft__move_run *run, const sft__move_want *w) {
    return run->count == 1 ? run->begin : w->tensor->pieces[0].offset;
}

static uint64_t bytes_of(const sft__move_run *run, const sft__move_want *w) {
    return run->count == 1 && run->kind == SFT__RUN_RANGE ? run->end - run->begin : w->nbytes;
}

static uint8_t *memory_of(sft_stream *s, const sft__move_run *run, const sft__move_want *w) {
    const uint64_t skew = s->options.alignment == 0 && run->kind == SFT__RUN_RANGE
                              ? run->begin % SFT__FS_DIRECT_ALIGN
                              : 0;

    if (w->dst != NULL || run->room == 0 || w->nbytes == 0) {
        return w->dst != NULL ? w->dst : s->nothing;
    }
    return s->memory + (size_t)(run->at + skew) +
           (run->kind == SFT__RUN_RANGE ? (size_t)(place_of(run, w) - run->begin) : 0);
}

/* ways: the stream's, or NULL: as the sources read. */
static sft_status read_view(const sft_stream *s, const sft__move_want *w, sft__io_reader *ways,
                            uint8_t *dst, sft__move_watch *watch, sft_error *err) {
    sft__move_view v;

    sft_status status = sft__move_view_init(&v, w->tensor, w->read, err);
    if (status == SFT_OK) {
        v.ways = ways;
        status = sft__move_view_read(&v, s->catalog, dst, watch, err);
    }
    for (uint32_t i = 0; i < w->tensor->piece_count && status == SFT_OK; i++) {
        status =
            sft__io_reader_unchanged(&s->sources[w->tensor->pieces[i].source], "streamed", err);
    }
    sft__move_view_reset(&v);
    return status;
}

/* What `size` bytes at `offset` of a want add to its CRC32C: that of parts, each moved to its
 * place, is their XOR. */
static uint32_t share_of(const sft_stream *s, const sft__move_want *w, uint64_t offset,
                         const void *data, uint64_t size) {
    return sft_crc32c_combine(
        sft__move_crc32c(sft__base_pool_cpu(s->options.pool), 0, data, (size_t)size), 0,
        w->nbytes - offset - size);
}

/* Where the run's one want begins in the packed result. */
static uint64_t part_of(const sft__move_run *run, const sft__move_want *w) {
    return run->kind == SFT__RUN_RANGE ? place_of(run, w) - w->tensor->pieces[0].offset : 0;
}

/* Bytes [at, at + size) of a range were read to dst. */
static void count_crcs(sft_stream *s, const sft__move_run *run, uint64_t at, const void *dst,
                       uint64_t size, uint32_t *crc) {
    sft__move_want *w = &s->wants[run->first];

    if (s->recorded == NULL) {
        return;
    }
    if (run->count == 1) {
        *crc = share_of(s, w, at - w->tensor->pieces[0].offset, dst, size);
        return;
    }
    for (size_t i = 0; i < run->count; i++, w++) { /* all of them: it is one job */
        w->crc = sft__move_crc32c(sft__base_pool_cpu(s->options.pool), 0, memory_of(s, run, w),
                                  (size_t)w->nbytes);
    }
}

static sft_status read_job(sft_stream *s, const sft__move_run *run, uint32_t job, uint32_t *crc) {
    const sft__move_want *w = &s->wants[run->first];
    uint8_t *dst = memory_of(s, run, w);
    sft__io_reader *source = &s->sources[run->source];
    sft_status status;

    SFT_TRY(sft__move_watch_add(&s->watch, 0, NULL));
    if (run->kind == SFT__RUN_VIEW) {
        SFT_TRY(read_view(s, w, s->sources, dst, &s->watch, NULL));
        *crc = s->recorded != NULL && w->read == NULL ? share_of(s, w, 0, dst, w->nbytes) : 0;
        return SFT_OK;
    }
    const uint64_t first = (run->begin / sft__base_size.load_job + job) * sft__base_size.load_job;
    const uint64_t begin = job == 0 ? run->begin : first;
    const uint64_t end = job + 1 == run->jobs ? run->end : first + sft__base_size.load_job;
    dst += (size_t)(begin - run->begin);
    status = w->dst != NULL ? sft_source_read(source_of(s, run->source), begin, dst,
                                              (size_t)(end - begin), NULL)
                            : sft__io_reader_read(source, begin, end - begin, dst, NULL);
    if (status == SFT_OK) {
        status = sft__io_reader_unchanged(&s->sources[run->source], "streamed", NULL);
    }
    if (status == SFT_OK) {
        count_crcs(s, run, begin, dst, end - begin, crc);
    }
    return status == SFT_OK ? sft__move_watch_add(&s->watch, end - begin, NULL) : status;
}

/* One tensor of a run, or the part that the run is, in the calling thread. */
static sft_status read_again(sft_stream *s, sft__move_run *run, sft__move_want *w, sft_error *err) {
    sft__move_watch watch;
    uint8_t *dst = memory_of(s, run, w);
    const uint64_t size = bytes_of(run, w);

    if (run->kind == SFT__RUN_TOO_LARGE) {
        return sft__base_fail(err, SFT_E_LIMIT, "%llu bytes do not fit into the budget of %llu",
                              (unsigned long long)w->nbytes,
                              (unsigned long long)s->options.memory_bytes);
    }
    if (run->kind == SFT__RUN_VIEW) {
        SFT_TRY(sft__move_watch_init(&watch, NULL, 0, false, err));
        SFT_TRY(read_view(s, w, NULL, dst, &watch, err));
    } else {
        SFT_TRY(
            sft_source_read(source_of(s, run->source), place_of(run, w), dst, (size_t)size, err));
        SFT_TRY(sft__io_reader_unchanged(&s->sources[run->source], "streamed", err));
    }
    if (s->recorded != NULL && w->read == NULL) {
        const uint32_t crc = share_of(s, w, part_of(run, w), dst, size);
        *(run->count == 1 ? &run->crc : &w->crc) = crc;
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- jobs: under the lock */

static void arrive(sft_stream *s, sft__move_run *run) {
    if (s->options.order == SFT_STREAM_ANY) {
        run->next = NULL;
        *s->arrived_end = run;
        s->arrived_end = &run->next;
    }
    sft__base_cond_broadcast(&s->changed);
}

static bool ahead_enough(const sft_stream *s) {
    return s->admitted - s->delivered >=
           (sft_pool_threads(s->options.pool) > 1 ? (size_t)AHEAD : 1);
}

/* Gives blocks to runs, as long as there are some. */
static void admit(sft_stream *s) {
    size_t jobs = 0;

    while (s->admitted < s->run_count && !s->ended && !s->stopped && !ahead_enough(s)) {
        sft__move_run *run = &s->runs[s->admitted];
        if (run->room > 0 && !take_block(s, run)) {
            break;
        }
        s->admitted++;
        jobs += run->jobs;
        if (run->jobs == 0) {
            arrive(s, run);
        }
    }
    sft__base_pool_add(s->options.pool, &s->batch, jobs);
}

static bool has_job(sft_stream *s) {
    while (s->job_run < s->admitted && s->job == s->runs[s->job_run].jobs) {
        s->job_run++;
        s->job = 0;
    }
    return s->job_run < s->admitted && !s->ended && !s->stopped && !(s->serial && s->running > 0);
}

/* Takes one job, if there is one, and does it, without the lock meanwhile. */
static void do_job(sft_stream *s) {
    if (!has_job(s)) {
        return;
    }
    sft__move_run *run = &s->runs[s->job_run];
    const uint32_t job = s->job++;
    s->running++;
    sft__base_mutex_unlock(&s->lock);
    uint32_t crc = 0;
    const sft_status status = read_job(s, run, job, &crc);
    sft__base_mutex_lock(&s->lock);
    run->crc ^= crc;
    s->running--;
    s->stopped = s->stopped || status == SFT_E_CANCELLED;
    run->failed = run->failed || status != SFT_OK;
    if (--run->jobs_left == 0) {
        arrive(s, run);
    }
    if (s->serial && has_job(s)) { /* nobody could take it so far */
        sft__base_pool_add(s->options.pool, &s->batch, 1);
    }
    sft__base_cond_broadcast(&s->changed);
}

static void background(void *ctx, size_t index) {
    sft_stream *s = ctx;
    (void)index;
    sft__base_mutex_lock(&s->lock);
    do_job(s);
    sft__base_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------- handing out: under the lock */

/* A run that is there and has something left to hand out, or NULL. */
static sft__move_run *ready(const sft_stream *s) {
    if (s->options.order == SFT_STREAM_ANY) {
        return s->arrived;
    }
    if (s->delivered == s->admitted) {
        return NULL;
    }
    sft__move_run *run = &s->runs[s->delivered];
    return run->jobs_left == 0 ? run : NULL;
}

static sft__move_want *take_want(sft_stream *s, sft__move_run *run) {
    sft__move_want *w = &s->wants[run->first + run->given];
    if (++run->given == run->count) {
        s->delivered++;
        if (s->options.order == SFT_STREAM_ANY) {
            s->arrived = run->next;
            s->arrived_end = s->arrived == NULL ? &s->arrived : s->arrived_end;
        }
        sft__base_cond_broadcast(&s->changed);
    }
    return w;
}

static void let_go(sft_stream *s, sft__move_run *run) {
    if (--run->held == 0 && run->room > 0) {
        give_block(s, run);
        admit(s);
    }
    sft__base_cond_broadcast(&s->changed);
}

/* When all of the tensor is there, and its CRC32C is recorded. */
static sft_status verify(const sft_stream *s, const sft__move_run *run, sft__move_want *w,
                         sft_error *err) {
    const size_t at = sft_catalog_index_of(s->catalog, w->tensor);

    if (s->recorded == NULL || w->read != NULL || s->recorded[at].have == 0 ||
        w->tensor != sft_catalog_at(s->catalog, at)) { /* of an alias's part nothing is recorded */
        return SFT_OK;
    }
    w->crc ^= run->count == 1 ? run->crc : 0;
    w->checked += bytes_of(run, w);
    return w->checked == w->nbytes && w->crc != s->recorded[at].crc
               ? sft__move_recorded_differs(s->catalog, w->tensor, "CRC32C", err)
               : SFT_OK;
}

static sft_status fill(sft_stream *s, sft__move_run *run, sft_stream_item *item, sft_error *err) {
    sft__move_want *w = take_want(s, run);
    sft_status status = SFT_OK;

    item->tensor = w->tensor;
    item->index = w->index;
    item->nbytes = w->nbytes;
    if (run->failed || run->kind == SFT__RUN_TOO_LARGE) {
        s->running++;
        sft__base_mutex_unlock(&s->lock);
        status = sft__move_name_tensor(err, w->tensor,
                                       w->nbytes == 0 ? SFT_OK : read_again(s, run, w, err));
        sft__base_mutex_lock(&s->lock);
        s->running--;
    }
    if (status == SFT_OK) {
        status = verify(s, run, w, err);
    }
    if (status != SFT_OK) {
        s->ended = s->ended || (s->options.flags & SFT_STREAM_GO_ON) == 0;
        let_go(s, run);
        return status;
    }
    item->data = memory_of(s, run, w);
    item->size = (size_t)bytes_of(run, w);
    item->offset = run->count == 1 ? part_of(run, w) : 0;
    if (run->room == 0 || w->nbytes == 0) {
        let_go(s, run);
    } else {
        item->run = run;
    }
    return SFT_OK;
}

/* Until there is a run to hand out from, or nothing left (*out is NULL). */
static sft_status wait_for_run(sft_stream *s, sft__move_run **out, sft_error *err) {
    for (;;) {
        admit(s);
        *out = NULL;
        if (s->stopped) {
            return SFT_E_CANCELLED;
        }
        if (s->ended) {
            return sft__base_fail(err, SFT_E_STATE, "the stream ended with a failure");
        }
        *out = ready(s);
        if (*out != NULL || s->delivered == s->run_count) {
            return SFT_OK;
        }
        if (has_job(s)) {
            do_job(s);
        } else if (s->running > 0 || (s->options.flags & SFT_STREAM_WAIT) != 0) {
            sft__base_cond_wait(&s->changed, &s->lock);
        } else {
            return sft__base_fail(
                err, SFT_E_LIMIT,
                "%llu of the budget's %llu bytes are handed out and not released, "
                "the next tensors need %llu in one piece",
                (unsigned long long)s->used, (unsigned long long)s->size,
                (unsigned long long)s->runs[s->admitted].room);
        }
    }
}

/* ---------------------------------------------------------------- public */

sft_status sft_stream_start(sft_stream *stream, sft_error *err) {
    if (stream == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "stream is NULL");
    }
    sft__base_mutex_lock(&stream->lock);
    sft_status status = SFT_OK;
    if (!stream->started) {
        stream->started = true;
        stream->watch.progress.bytes_total = stream->bytes;
        status = sft__move_stream_plan(stream, err);
        stream->ended = status != SFT_OK;
        admit(stream);
    }
    sft__base_mutex_unlock(&stream->lock);
    return status;
}

sft_status sft_stream_next(sft_stream *stream, sft_stream_item *item, sft_error *err) {
    sft__move_run *run;

    if (stream == NULL || item == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "stream or item is NULL");
    }
    memset(item, 0, sizeof *item);
    SFT_TRY(sft_stream_start(stream, err));
    SFT_TRY(sft__move_watch_add(&stream->watch, 0, err));
    sft__base_mutex_lock(&stream->lock);
    sft_status status = wait_for_run(stream, &run, err);
    if (status == SFT_OK && run != NULL) {
        status = fill(stream, run, item, err);
    }
    sft__base_mutex_unlock(&stream->lock);
    if (status == SFT_E_CANCELLED) {
        (void)sft__move_watch_add(&stream->watch, 0, err); /* says how far it came */
    }
    return status;
}

void sft_stream_release(sft_stream *stream, sft_stream_item *item) {
    sft__move_run *run = item->run;

    item->data = NULL;
    item->run = NULL;
    if (run != NULL) {
        sft__base_mutex_lock(&stream->lock);
        let_go(stream, run);
        sft__base_mutex_unlock(&stream->lock);
    }
}

void sft_stream_cancel(sft_stream *stream) {
    sft_error error;

    memset(&error, 0, sizeof error);
    sft__move_watch_fail(&stream->watch, 0,
                         sft__base_fail(&error, SFT_E_CANCELLED, "the stream was cancelled"),
                         &error);
    sft__base_mutex_lock(&stream->lock);
    stream->stopped = true;
    sft__base_cond_broadcast(&stream->changed);
    sft__base_mutex_unlock(&stream->lock);
}

uint64_t sft_stream_memory(sft_stream *stream, uint64_t *peak) {
    sft__base_mutex_lock(&stream->lock);
    const uint64_t used = stream->used;
    if (peak != NULL) {
        *peak = stream->peak;
    }
    sft__base_mutex_unlock(&stream->lock);
    return used;
}

sft_strategy sft_stream_strategy(sft_stream *stream, size_t file, const char **reason) {
    const sft_file *f = sft_catalog_file_at(stream->catalog, file);
    return sft__io_reader_told(f != NULL ? &stream->sources[f->source] : NULL, reason);
}

/* ---------------------------------------------------------------- open and close */

static sft_status read_options(const sft_stream_options *options, sft_stream_options *o,
                               sft_error *err) {
    SFT_TRY(sft__base_options_read(o, sizeof *o, options, SFT__UP_TO(sft_stream_options, allocator),
                                   "stream options", err));
    if (o->strategy == SFT_STRATEGY_MAP) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "a mapping has nothing to stream");
    }
    if (o->memory_bytes != 0 && o->memory_bytes < 2 * SFT__FS_DIRECT_ALIGN) {
        return sft__base_fail(err, SFT_E_ARG, "a budget of %llu bytes is less than two pages",
                              (unsigned long long)o->memory_bytes);
    }
    SFT_TRY(sft__io_strategy_check(o->strategy, err));
    if (o->order > SFT_STREAM_ANY || (o->flags & ~FLAGS) != 0 ||
        o->alignment > SFT__FS_DIRECT_ALIGN || (o->alignment & (o->alignment - 1)) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "order, flags or alignment are not among the known");
    }
    return SFT_OK;
}

static sft_status make_locks(sft_stream *s, sft_error *err) {
    SFT_TRY(sft__base_mutex_new(&s->lock, err));
    if (!sft__base_cond_init(&s->changed)) {
        sft__base_mutex_reset(&s->lock);
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a condition variable");
    }
    const sft_status status = sft__move_watch_init(&s->watch, s->options.control, 0, true, err);
    if (status != SFT_OK) {
        sft__base_cond_reset(&s->changed);
        sft__base_mutex_reset(&s->lock);
    }
    return status;
}

static void free_stream(sft_stream *s) {
    const sft_allocator *a = s->allocator;

    for (size_t i = 0; i < s->source_count && s->sources != NULL; i++) {
        sft__io_reader_close(&s->sources[i]);
    }
    for (size_t i = 0; i < s->want_count; i++) {
        sft__base_free(a, s->wants[i].read, s->wants[i].read_size);
    }
    sft_arena_free(s->own);
    sft__base_free(a, s->recorded, (sft_catalog_count(s->catalog) + 1) * sizeof *s->recorded);
    sft__base_free(a, s->runs, s->run_capacity * sizeof *s->runs);
    sft__base_free(a, s->wants, s->want_capacity * sizeof *s->wants);
    sft__base_free(a, s->sources, s->source_count * sizeof *s->sources);
    sft__base_free(a, s, sizeof *s);
}

sft_status sft_stream_create(sft_stream **out, const sft_catalog *catalog,
                             const sft_stream_options *options, sft_error *err) {
    sft_stream_options o;

    SFT_OUT(out, err);
    if (catalog == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog is NULL");
    }
    SFT_TRY(read_options(options, &o, err));
    sft_stream *s = sft__base_alloc_zero(sft__base_allocator(o.allocator), sizeof *s);
    SFT_NEED(s != NULL, sizeof *s, err);
    s->allocator = sft__base_allocator(o.allocator);
    s->catalog = catalog;
    s->options = o;
    s->batch.fn = background;
    s->batch.ctx = s;
    s->arrived_end = &s->arrived;
    s->source_count = sft_catalog_source_count(catalog);
    /* cannot overflow: the catalog holds an array of that length */
    s->sources = sft__base_alloc_zero(s->allocator, s->source_count * sizeof *s->sources);
    for (size_t i = 0; i < s->source_count && s->sources != NULL; i++) {
        s->sources[i].source = sft_catalog_source_at(catalog, i);
        s->sources[i].direct = -1;
    }
    const sft_status status = s->sources == NULL && s->source_count > 0
                                  ? sft__base_fail_nomem(err, s->source_count * sizeof *s->sources)
                                  : make_locks(s, err);
    if (status != SFT_OK) {
        free_stream(s);
        return status;
    }
    *out = s;
    return SFT_OK;
}

void sft_stream_free(sft_stream *stream) {
    if (stream == NULL) {
        return;
    }
    sft_stream_cancel(stream);
    sft__base_pool_wait(stream->options.pool, &stream->batch);
    (void)sft__move_watch_end(&stream->watch, NULL);
    sft__base_cond_reset(&stream->changed);
    sft__base_mutex_reset(&stream->lock);
    free_stream(stream);
}
