/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/load.c - tensors into a slab. Each job of the plan is one chunk: a worker takes a free chunk
 * of the ring, reads, puts the copies and an event behind them on the chunk's stream, and goes on;
 * so reading overlaps with the copies of what was read before, and the ring bounds both. Read
 * first: load.h.
 */
#include "cuda/load.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "move/loop.h"

#define GDS_COPY ((uint64_t)64 << 10) /* bytes of a part below which the ring is quicker */

typedef struct load_work {
    sft_cuda *cuda;
    sft_cuda_loaded *loaded;
    const sft_cuda_load_options *o;
    sft__move_loop loop;
    _Atomic(uint64_t) read;
    _Atomic(uint64_t) copied;
    _Atomic(uint64_t) direct;
    _Atomic(uint64_t) waits;
} load_work;

/* ---------------------------------------------------------------- one job */

static sft_status name_tensor(sft_error *err, const sft_tensor *t, sft_status status) {
    if (status != SFT_OK && err->tensor[0] == '\0') {
        (void)sft_escape(err->tensor, sizeof err->tensor, t->name, t->name_len);
    }
    return status;
}

static sft_status read_box(load_work *w, const sft__cuda_job *job, const sft__cuda_place *place,
                           uint8_t *dst, sft_error *err) {
    const sft_allocator *allocator = w->loaded->allocator;
    const size_t rank = place->tensor->rank;
    sft_slice *slices = sft__base_alloc_array(allocator, rank, sizeof *slices);
    sft_read_options how;

    SFT_NEED(slices != NULL, rank * sizeof *slices, err);
    sft__cuda_plan_slices(place, job, slices);
    SFT_INIT(&how);
    how.slices = slices;
    how.slice_count = rank;
    const sft_status status =
        sft_tensor_read(w->loaded->plan.catalog, place->tensor, &how, dst, (size_t)job->size, err);
    sft__base_free(allocator, slices, rank * sizeof *slices);
    return name_tensor(err, place->tensor, status);
}

static sft_status read_chunk(load_work *w, const sft__cuda_job *job, uint8_t *dst, sft_error *err) {
    const sft__cuda_plan *plan = &w->loaded->plan;

    if (job->kind == SFT__CUDA_RANGE) {
        return sft__io_reader_read(&w->loaded->inputs[job->source].reader, job->offset, job->size,
                                   dst, err);
    }
    const sft__cuda_place *place = &plan->places[job->place];
    if (job->kind == SFT__CUDA_BOX) {
        return read_box(w, job, place, dst, err);
    }
    return name_tensor(err, place->tensor,
                       sft_tensor_read_bytes(plan->catalog, place->tensor, job->offset, dst,
                                             (size_t)job->size, err));
}

static sft_status copy_chunk(load_work *w, const sft__cuda_job *job, const sft__cuda_slot *slot,
                             const uint8_t *data, bool *copied, sft_error *err) {
    const uint64_t slab = w->loaded->slab->address;

    for (size_t i = 0; i < job->copy_count; i++) {
        const sft__cuda_copy *c = &w->loaded->plan.copies[job->copy + i];
        SFT__CUDA_TRY(&w->cuda->driver, err, copy,
                      (slab + c->at, data + (size_t)c->skew, (size_t)c->size, slot->stream));
        *copied = true;
    }
    return SFT_OK;
}

static uint64_t kept(const load_work *w, const sft__cuda_job *job) {
    uint64_t sum = 0;
    for (size_t i = 0; i < job->copy_count; i++) {
        sum += w->loaded->plan.copies[job->copy + i].size;
    }
    return sum;
}

static sft_status by_ring(load_work *w, const sft__cuda_job *job, sft_error *err) {
    sft__cuda_slot *slot;
    uint64_t waits = 0;
    bool copied = false;
    sft_error late;

    SFT_TRY(sft__cuda_ring_take(&slot, w->cuda, &waits, err));
    uint8_t *data = slot->base;
    if (job->kind == SFT__CUDA_RANGE) {
        data += (size_t)(job->offset & (SFT__CUDA_PAGE - 1));
    }
    sft_status status = read_chunk(w, job, data, err);
    if (status == SFT_OK) {
        status = copy_chunk(w, job, slot, data, &copied, err);
    }
    const sft_status given = sft__cuda_ring_give(w->cuda, slot, copied, &late);
    if (status == SFT_OK && given != SFT_OK) {
        *err = late;
        status = given;
    }
    w->read += job->size;
    w->copied += kept(w, job);
    w->waits += waits;
    return status;
}

static bool by_gds(load_work *w, const sft__cuda_job *job) {
    sft__cuda_input *in = &w->loaded->inputs[job->source];

    if (job->kind != SFT__CUDA_RANGE || !in->by_gds || job->size / job->copy_count < GDS_COPY ||
        atomic_load_explicit(&in->gds_refused, memory_order_relaxed)) {
        return false;
    }
    for (size_t i = 0; i < job->copy_count; i++) {
        const sft__cuda_copy *c = &w->loaded->plan.copies[job->copy + i];
        if (!sft__cuda_gds_read(w->cuda, &in->gds, w->loaded->slab->address, c->at,
                                job->offset + c->skew, c->size)) {
            atomic_store_explicit(&in->gds_refused, true, memory_order_relaxed);
            return false;
        }
    }
    w->direct += kept(w, job);
    return true;
}

static sft_status run_job(void *ctx, size_t index, sft_error *err) {
    load_work *w = ctx;
    const sft__cuda_job *job = &w->loaded->plan.jobs[index];

    SFT_TRY(sft__cuda_enter(w->cuda, err));
    const sft_status status = by_gds(w, job) ? SFT_OK : by_ring(w, job, err);
    sft__cuda_leave(w->cuda);
    return status == SFT_OK ? sft__move_loop_add(&w->loop, kept(w, job), err) : status;
}

/* ---------------------------------------------------------------- the whole */

/* What is on the consumer's stream comes first: memory that he gives may still be in use there. */
static sft_status follow(const load_work *w, sft_error *err) {
    const sft__cuda_driver *d = &w->cuda->driver;
    void *event = NULL;
    int result;

    if (w->o->stream == 0) {
        return SFT_OK;
    }
    SFT__CUDA_TRY(d, err, event_create,
                  (&event, SFT__CUDA_EVENT_BLOCKING_SYNC | SFT__CUDA_EVENT_NO_TIMING));
    const char *call = "event_record";
    result = d->event_record(event, sft__cuda_stream(w->o->stream));
    for (uint32_t i = 0; i < w->cuda->stream_count && result == SFT__CUDA_OK; i++) {
        call = "stream_wait";
        result = d->stream_wait(w->cuda->streams[i], event, 0);
    }
    if (result == SFT__CUDA_OK && (w->o->flags & SFT_CUDA_DIRECT_STORAGE) != 0) {
        call = "event_sync"; /* cuFile's reads are on no stream */
        result = d->event_sync(event);
    }
    (void)d->event_free(event); /* the driver keeps it until it has come */
    return result == SFT__CUDA_OK ? SFT_OK : sft__cuda_fail(d, err, result, call);
}

/* Runs the jobs and puts the events behind them. Whatever fails, no copy is under way afterwards.
 */
static sft_status run(load_work *w, sft_error *err) {
    const sft_cuda *cuda = w->cuda;
    sft__cuda_plan *plan = &w->loaded->plan;
    const sft_pool *pool = w->o->pool;

    for (size_t i = 0; i < plan->source_count; i++) {
        if ((sft_source_flags(sft_catalog_source_at(plan->catalog, i)) & SFT_SOURCE_SEQUENTIAL) !=
            0) {
            pool = NULL; /* in order, which is how the jobs are sorted */
        }
    }
    SFT_TRY(follow(w, err));
    w->loop = (sft__move_loop){.pool = pool, .block = run_job, .ctx = w};
    SFT_TRY(sft__move_loop_begin(&w->loop, w->o->control, plan->bytes, err));
    sft_status status = sft__move_loop_add(&w->loop, 0, err);
    if (status == SFT_OK) {
        status = sft__move_loop_run(&w->loop, plan->job_count, err);
    }
    (void)sft__move_loop_end(&w->loop, NULL);
    if (status == SFT_OK) {
        status = sft__cuda_slab_seal(w->loaded->slab, err);
    }
    if (status == SFT_OK) {
        status = sft__cuda_slab_wait(w->loaded->slab, w->o->stream, err);
    }
    for (uint32_t i = 0; i < cuda->stream_count && status != SFT_OK; i++) {
        (void)cuda->driver.stream_sync(cuda->streams[i]);
    }
    return status;
}

static void take_stats(load_work *w) {
    sft_cuda_stats *s = &w->loaded->stats;
    s->bytes_read = w->read;
    s->bytes_copied = w->copied;
    s->bytes_direct = w->direct;
    s->chunks = w->loaded->plan.job_count;
    s->copies = w->loaded->plan.copy_count;
    s->ring_waits = w->waits;
}

/* With the context current. */
static sft_status load(load_work *w, sft_error *err) {
    sft_cuda_loaded *l = w->loaded;
    const sft_cuda_load_options *o = w->o;

    if (o->memory != 0 && l->plan.slab > o->memory_size) {
        return sft__base_fail(err, SFT_E_NOMEM,
                              "the tensors take %llu bytes, the memory given has %llu",
                              (unsigned long long)l->plan.slab, (unsigned long long)o->memory_size);
    }
    if ((o->memory & (o->alignment - 1)) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "the memory given is not aligned to %u",
                              o->alignment);
    }
    SFT_TRY(sft__cuda_plan_jobs(&l->plan, w->cuda->chunk_bytes, err));
    SFT_TRY(sft__cuda_slab_create(&l->slab, w->cuda, o->memory, l->plan.slab, o->alignment, err));
    sft__cuda_inputs_open(w->cuda, l, o);
    const sft_status status = run(w, err);
    take_stats(w);
    sft__cuda_plan_trim(&l->plan);
    return sft__cuda_inputs_close(w->cuda, l, status, err);
}

static sft_status read_options(const sft_cuda_load_options *options, sft_cuda_load_options *o,
                               sft_error *err) {
    SFT_TRY(sft__base_options_read(o, sizeof *o, options,
                                   SFT__UP_TO(sft_cuda_load_options, struct_size), "options", err));
    o->alignment = o->alignment == 0 ? 256 : o->alignment;
    if (o->alignment > 65536 || (o->alignment & (o->alignment - 1)) != 0 ||
        (o->flags & ~SFT_CUDA_DIRECT_STORAGE) != 0 || (uint32_t)o->strategy > SFT_STRATEGY_DIRECT) {
        return sft__base_fail(err, SFT_E_ARG,
                              "strategy, flags or alignment are not among the known");
    }
    if (o->strategy == SFT_STRATEGY_MAP) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "a mapping is no source for asynchronous copies");
    }
    if (o->control != NULL && o->control->struct_size < sizeof(sft_control)) {
        return sft__base_fail(err, SFT_E_ARG, "control without struct_size, use SFT_INIT");
    }
    return SFT_OK;
}

static sft_status loaded_new(sft_cuda_loaded **out, const sft_catalog *catalog,
                             const sft_cuda_load_options *o, const sft_allocator *allocator,
                             sft_error *err) {
    sft_cuda_loaded *l = sft__base_alloc_zero(allocator, sizeof *l);
    const size_t sources = sft_catalog_source_count(catalog);

    *out = l;
    SFT_NEED(l != NULL, sizeof *l, err);
    l->allocator = allocator;
    SFT_TRY(sft__cuda_plan_init(&l->plan, catalog, o, allocator, err));
    l->file_count = sft_catalog_file_count(catalog);
    /* cannot overflow: the catalog holds larger arrays of the same lengths */
    l->inputs = sft__base_alloc_zero(allocator, sources * sizeof *l->inputs);
    l->file_source = sft__base_alloc_zero(allocator, l->file_count * sizeof *l->file_source);
    if ((sources > 0 && l->inputs == NULL) || (l->file_count > 0 && l->file_source == NULL)) {
        return sft__base_fail_nomem(err, sources * sizeof *l->inputs);
    }
    return SFT_OK;
}

sft_status sft_cuda_load(sft_cuda_loaded **out, sft_cuda *cuda, const sft_catalog *catalog,
                         const sft_cuda_load_options *options, sft_error *err) {
    sft_cuda_load_options o;
    sft_cuda_loaded *l = NULL;
    load_work w;

    if (out == NULL || cuda == NULL || catalog == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "out, cuda or catalog is NULL");
    }
    *out = NULL;
    SFT_TRY(read_options(options, &o, err));
    memset(&w, 0, sizeof w);
    sft_status status = loaded_new(&l, catalog, &o, cuda->allocator, err);
    if (status == SFT_OK) {
        status = sft__cuda_enter(cuda, err);
    }
    if (status == SFT_OK) {
        w.cuda = cuda;
        w.loaded = l;
        w.o = &o;
        status = load(&w, err);
        sft__cuda_leave(cuda);
    }
    if (status != SFT_OK) {
        sft_cuda_loaded_free(l);
        return status;
    }
    *out = l;
    return SFT_OK;
}

sft_status sft_cuda_load_size(uint64_t *bytes, const sft_catalog *catalog,
                              const sft_cuda_load_options *options, sft_error *err) {
    sft_cuda_load_options o;
    sft__cuda_plan plan;

    if (bytes == NULL || catalog == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "bytes or catalog is NULL");
    }
    *bytes = 0;
    SFT_TRY(read_options(options, &o, err));
    const sft_status status =
        sft__cuda_plan_init(&plan, catalog, &o, sft__base_allocator(NULL), err);
    if (status == SFT_OK) {
        *bytes = plan.slab;
    }
    sft__cuda_plan_reset(&plan);
    return status;
}

sft_status sft_cuda_direct_probe(sft_cuda *cuda, const sft_catalog *catalog, size_t file,
                                 sft_error *err) {
    sft__cuda_gds_file gds = {NULL, -1};
    const char *reason = NULL;

    if (cuda == NULL || catalog == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "cuda or catalog is NULL");
    }
    const sft_file *f = sft_catalog_file_at(catalog, file);
    if (f == NULL) {
        return sft__base_fail(err, SFT_E_RANGE, "the catalog has %llu files",
                              (unsigned long long)sft_catalog_file_count(catalog));
    }
    SFT_TRY(sft__cuda_enter(cuda, err));
    const bool real =
        sft__cuda_gds_open_file(cuda, sft_catalog_source_at(catalog, f->source), &gds, &reason);
    if (real) {
        sft__cuda_gds_close_file(cuda, &gds);
    }
    sft__cuda_leave(cuda);
    return real ? SFT_OK
                : sft__base_fail(err, SFT_E_UNSUPPORTED, "no GPUDirect Storage: %s", reason);
}
