/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load.c - many tensors into one piece of memory. Tensors that are neighbours in their file
 * become one run, which lies in memory as in the file, at an address that equals the file's
 * position modulo 4,096; so any run can be read directly, in whole pages, odd ends included. Runs
 * are cut where the memory, not the file, crosses a multiple of the job size: a huge page is
 * touched by one worker.
 */
#include "move/load.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "move/arena.h"
#include "move/read.h"

#define PAGE_MASK (SFT__DIRECT_ALIGN - 1)

typedef struct load_slot {
    const uint8_t *data; /* NULL: not wanted */
    uint64_t at;         /* in the arena's run; NOWHERE: data is final */
} load_slot;

#define NOWHERE UINT64_MAX

struct sft_loaded {
    const sft_allocator *allocator;
    const sft_catalog *catalog;
    sft_arena *own;
    load_slot *slots; /* one per tensor */
    sft__load_source *sources;
    size_t slot_count;
    size_t source_count;
    size_t count;
    uint64_t bytes;
};

typedef struct load_job {
    uint64_t offset; /* in the source */
    uint64_t size;
    uint64_t at;              /* in the arena's run */
    const sft_tensor *tensor; /* not NULL: read (or populated) as a tensor, not by offset */
    uint32_t source;          /* if it has no tensor */
} load_job;

typedef struct load_work {
    sft_loaded *loaded;
    const sft_load_options *options;
    load_job *jobs;
    size_t job_count;
    size_t job_capacity;
    uint64_t total; /* bytes of the run so far, a multiple of the page unless tensors are aligned */
    uint8_t *base;
    sft__watch watch;
    /* the run in the making: bytes [begin, end) of a source, begin's page at `total`; end 0: none
     */
    uint64_t begin;
    uint64_t end;
    uint32_t source;
} load_work;

static const uint8_t nothing[64]; /* where tensors of no bytes lie */

/* ---------------------------------------------------------------- planning */

static const sft_source *source_of(const load_work *w, uint32_t index) {
    return sft_catalog_source_at(w->loaded->catalog, index);
}

static sft_status push_job(load_work *w, const load_job *job, sft_error *err) {
    if (!sft__grow(w->loaded->allocator, &w->jobs, &w->job_capacity, w->job_count + 1,
                   sizeof *w->jobs)) {
        return sft__fail_nomem(err, (w->job_count + 1) * sizeof *w->jobs);
    }
    w->jobs[w->job_count++] = *job;
    return SFT_OK;
}

/* A range of a source as jobs. What reads in order only is not cut. */
static sft_status push_range(load_work *w, uint32_t source, uint64_t offset, uint64_t size,
                             uint64_t at, sft_error *err) {
    const bool whole = (sft_source_flags(source_of(w, source)) & SFT_SOURCE_SEQUENTIAL) != 0;

    while (size > 0) {
        const uint64_t step = SFT__LOAD_JOB - at % SFT__LOAD_JOB;
        const uint64_t n = size < step || whole ? size : step;
        const load_job job = {offset, n, at, NULL, source};
        SFT_TRY(push_job(w, &job, err));
        offset += n;
        at += n;
        size -= n;
    }
    return SFT_OK;
}

static sft_status too_much(sft_error *err) {
    return sft__fail(err, SFT_E_OVERFLOW, "the tensors' bytes together overflow 64 bits");
}

static sft_status end_run(load_work *w, sft_error *err) {
    const uint64_t skew = w->begin & PAGE_MASK;
    uint64_t room;

    if (w->end == 0) {
        return SFT_OK;
    }
    SFT_TRY(push_range(w, w->source, w->begin, w->end - w->begin, w->total + skew, err));
    if (!sft__align64(skew + (w->end - w->begin), SFT__DIRECT_ALIGN, &room) ||
        !sft__add64(w->total, room, &w->total)) {
        return too_much(err);
    }
    w->end = 0;
    return SFT_OK;
}

static sft_status plan_bulk(load_work *w, const sft_piece *p, load_slot *slot, sft_error *err) {
    const bool remote = (sft_source_flags(source_of(w, p->source)) & SFT_SOURCE_REMOTE) != 0;
    const uint64_t gap = remote ? SFT__LOAD_GAP_REMOTE : SFT__LOAD_GAP;

    if (w->end == 0 || p->source != w->source || p->offset < w->end || p->offset - w->end > gap) {
        SFT_TRY(end_run(w, err));
        w->source = p->source;
        w->begin = p->offset;
    }
    w->end = p->offset + p->nbytes; /* within the source: the catalog is checked */
    slot->at = w->total + (w->begin & PAGE_MASK) + (p->offset - w->begin);
    return SFT_OK;
}

/* A tensor in a place of its own. */
static sft_status plan_alone(load_work *w, const sft_tensor *t, bool plain, load_slot *slot,
                             sft_error *err) {
    const uint64_t alignment = w->options->alignment > 64 ? w->options->alignment : 64;
    load_job job = {0, t->nbytes, 0, t, 0};

    SFT_TRY(end_run(w, err));
    if (!sft__align64(w->total, alignment, &slot->at) ||
        !sft__add64(slot->at, t->nbytes, &w->total) ||
        !sft__align64(w->total, w->options->alignment != 0 ? 1 : SFT__DIRECT_ALIGN, &w->total)) {
        return too_much(err);
    }
    if (plain) {
        return push_range(w, t->pieces[0].source, t->pieces[0].offset, t->nbytes, slot->at, err);
    }
    job.at = slot->at;
    return push_job(w, &job, err);
}

static sft_status plan_borrow(load_work *w, const sft_tensor *t, load_slot *slot, sft_error *err) {
    const load_job job = {0, t->nbytes, 0, t, 0};
    const void *data;
    size_t size;

    SFT_TRY(sft_tensor_borrow(w->loaded->catalog, t, &data, &size, err));
    slot->data = data;
    return (w->options->flags & SFT_LOAD_POPULATE) != 0 ? push_job(w, &job, err) : SFT_OK;
}

static sft_status plan(load_work *w, sft_error *err) {
    for (size_t i = 0; i < w->loaded->slot_count; i++) {
        const sft_tensor *t = sft_catalog_at(w->loaded->catalog, i);
        load_slot *slot = &w->loaded->slots[i];
        slot->at = NOWHERE;
        if (slot->data == NULL || t->nbytes == 0) {
            continue;
        }
        const sft_piece *p = t->pieces;
        const bool plain = t->piece_count == 1 && p->strides == NULL && p->nbytes == t->nbytes;
        if (w->options->strategy == SFT_STRATEGY_MAP) {
            SFT_TRY(plan_borrow(w, t, slot, err));
        } else if (plain && w->options->alignment == 0) {
            SFT_TRY(plan_bulk(w, p, slot, err));
        } else {
            SFT_TRY(plan_alone(w, t, plain, slot, err));
        }
    }
    return end_run(w, err);
}

/* ---------------------------------------------------------------- running */

static sft_status read_range(load_work *w, const load_job *job, sft_error *err) {
    return sft__load_read(&w->loaded->sources[job->source], source_of(w, job->source), job->offset,
                          job->size, w->base + (size_t)job->at, err);
}

static sft_status run_tensor(load_work *w, const load_job *job, sft_error *err) {
    const sft_tensor *t = job->tensor;
    if (w->options->strategy != SFT_STRATEGY_MAP) {
        return sft__name_tensor(err, t,
                                sft__tensor_bytes(w->loaded->catalog, t, 0,
                                                  w->base + (size_t)job->at, (size_t)job->size,
                                                  &w->watch, err));
    }
    const load_slot *slot = &w->loaded->slots[sft_catalog_index_of(w->loaded->catalog, t)];
    if (!sft__map_populate(slot->data, (size_t)job->size)) {
        return sft__fail_tensor(err, SFT_E_TRUNCATED, t->pieces[0].offset, t->name, t->name_len,
                                "mapped pages cannot be read, the file may have shrunk");
    }
    return sft__watch_add(&w->watch, job->size, err);
}

static void run_job(void *ctx, size_t index) {
    load_work *w = ctx;
    const load_job *job = &w->jobs[index];
    sft_error error;

    memset(&error, 0, sizeof error);
    sft_status status = sft__watch_add(&w->watch, 0, &error); /* an end that was asked for */
    if (status == SFT_OK && job->tensor != NULL) {
        status = run_tensor(w, job, &error);
    } else if (status == SFT_OK) {
        status = read_range(w, job, &error);
        if (status == SFT_OK) {
            status = sft__watch_add(&w->watch, job->size, &error);
        }
    }
    if (status != SFT_OK) {
        sft__watch_fail(&w->watch, index, status, &error);
    }
}

/* Places of tensors, and jobs' positions, are relative to the run until here. */
static sft_status run(load_work *w, sft_error *err) {
    sft_loaded *l = w->loaded;

    if (w->options->memory_bytes != 0 && w->total > w->options->memory_bytes) {
        return sft__fail(
            err, SFT_E_LIMIT, "the tensors take %llu bytes of memory, the limit is %llu",
            (unsigned long long)w->total, (unsigned long long)w->options->memory_bytes);
    }
    if (w->total > 0) {
        sft_arena *arena = w->options->arena;
        if (arena == NULL) {
            SFT_TRY(sft_arena_create(&l->own, 0, 0, l->allocator, err));
            arena = l->own;
        }
        SFT_TRY(sft__data_arena_take(arena, w->total, &w->base, err));
    }
    SFT_TRY(sft__watch_init(&w->watch, w->options->control, l->bytes, true, err));
    sft_pool_run(w->options->pool, w->job_count, run_job, w);
    SFT_TRY(sft__watch_end(&w->watch, err));
    for (size_t i = 0; i < l->slot_count; i++) {
        if (l->slots[i].at != NOWHERE) {
            l->slots[i].data = w->base + (size_t)l->slots[i].at;
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- sources */

static void open_sources(sft_loaded *l, const sft_load_options *o) {
    for (size_t i = 0; i < l->source_count; i++) {
        sft__load_source *s = &l->sources[i];
        const sft_source *source = sft_catalog_source_at(l->catalog, i);
        s->direct = -1;
        if (s->wanted > 0) {
            sft__load_choose(s, source, o->strategy, o->alignment != 0);
            sft__load_stamp(s, source);
        }
    }
}

/* After the load: what changed meanwhile is not to be trusted. */
static sft_status close_sources(sft_loaded *l, sft_status status, sft_error *err) {
    for (size_t i = 0; i < l->source_count; i++) {
        sft__load_source *s = &l->sources[i];
        const sft_source *source = sft_catalog_source_at(l->catalog, i);
        sft__fd_close_direct(s->direct);
        s->direct = -1;
        if (status == SFT_OK && sft__load_changed(s, source)) {
            status = sft__fail(err, SFT_E_CHANGED, "%s changed while it was loaded",
                               sft_source_name(source));
        }
    }
    return status;
}

/* ---------------------------------------------------------------- selection */

static void want(sft_loaded *l, size_t index) {
    const sft_tensor *t = sft_catalog_at(l->catalog, index);
    if (l->slots[index].data == NULL) {
        l->slots[index].data = nothing;
        l->count++;
        l->bytes += t->nbytes; /* for progress; wraps only where plan() fails */
        for (uint32_t k = 0; k < t->piece_count; k++) {
            l->sources[t->pieces[k].source].wanted += t->pieces[k].nbytes;
        }
    }
}

static sft_status select_tensors(sft_loaded *l, const sft_load_options *o, sft_error *err) {
    const size_t count = o->select != NULL ? o->select_count : l->slot_count;
    for (size_t i = 0; i < count; i++) {
        const size_t index = o->select != NULL ? o->select[i] : i;
        if (index >= l->slot_count) {
            return sft__fail(err, SFT_E_RANGE, "tensor %llu was selected, the catalog has %llu",
                             (unsigned long long)index, (unsigned long long)l->slot_count);
        }
        want(l, index);
    }
    return SFT_OK;
}

static sft_status read_options(const sft_load_options *options, sft_load_options *o,
                               sft_error *err) {
    memset(o, 0, sizeof *o);
    if (options != NULL) {
        memcpy(o, options, options->struct_size < sizeof *o ? options->struct_size : sizeof *o);
    }
    if ((uint32_t)o->strategy > SFT_STRATEGY_DIRECT || (o->flags & ~SFT_LOAD_POPULATE) != 0 ||
        o->alignment > SFT__ARENA_ALIGN || (o->alignment & (o->alignment - 1)) != 0) {
        return sft__fail(err, SFT_E_ARG, "strategy, flags or alignment are not among the known");
    }
    return SFT_OK;
}

static sft_status loaded_new(sft_loaded **out, const sft_catalog *catalog,
                             const sft_allocator *allocator, sft_error *err) {
    sft_loaded *l = sft__alloc_zero(allocator, sizeof *l);
    if (l == NULL) {
        return sft__fail_nomem(err, sizeof *l);
    }
    l->allocator = allocator;
    l->catalog = catalog;
    l->slot_count = sft_catalog_count(catalog);
    l->source_count = sft_catalog_source_count(catalog);
    /* cannot overflow: the catalog holds larger arrays of the same lengths */
    l->slots = sft__alloc_zero(allocator, l->slot_count * sizeof *l->slots);
    l->sources = sft__alloc_zero(allocator, l->source_count * sizeof *l->sources);
    *out = l;
    if ((l->slots == NULL && l->slot_count > 0) || (l->sources == NULL && l->source_count > 0)) {
        return sft__fail_nomem(err, l->slot_count * sizeof *l->slots);
    }
    return SFT_OK;
}

static sft_status load(sft_loaded *l, const sft_load_options *o, sft_error *err) {
    load_work w;

    memset(&w, 0, sizeof w);
    w.loaded = l;
    w.options = o;
    SFT_TRY(select_tensors(l, o, err));
    open_sources(l, o);
    sft_status status = plan(&w, err);
    if (status == SFT_OK) {
        status = run(&w, err);
    }
    sft__free(l->allocator, w.jobs, w.job_capacity * sizeof *w.jobs);
    return close_sources(l, status, err);
}

sft_status sft_load(sft_loaded **out, const sft_catalog *catalog, const sft_load_options *options,
                    sft_error *err) {
    sft_load_options o;

    if (out == NULL) {
        return sft__fail(err, SFT_E_ARG, "out is NULL");
    }
    *out = NULL;
    if (catalog == NULL) {
        return sft__fail(err, SFT_E_ARG, "catalog is NULL");
    }
    SFT_TRY(read_options(options, &o, err));
    sft_status status = loaded_new(out, catalog, sft__allocator(o.allocator), err);
    if (status == SFT_OK) {
        status = load(*out, &o, err);
    }
    if (status != SFT_OK) {
        sft_loaded_free(*out);
        *out = NULL;
    }
    return status;
}

/* ---------------------------------------------------------------- results */

const void *sft_loaded_data(const sft_loaded *loaded, const sft_tensor *tensor, size_t *size) {
    const void *data = loaded->slots[sft_catalog_index_of(loaded->catalog, tensor)].data;
    if (size != NULL) {
        *size = data != NULL ? (size_t)tensor->nbytes : 0;
    }
    return data;
}

size_t sft_loaded_count(const sft_loaded *loaded) {
    return loaded->count;
}

uint64_t sft_loaded_bytes(const sft_loaded *loaded) {
    return loaded->bytes;
}

sft_strategy sft_loaded_strategy(const sft_loaded *loaded, size_t file, const char **reason) {
    const sft_file *f = sft_catalog_file_at(loaded->catalog, file);
    return sft__load_told(f != NULL ? &loaded->sources[f->source] : NULL, reason);
}

void sft_loaded_free(sft_loaded *loaded) {
    if (loaded != NULL) {
        const sft_allocator *a = loaded->allocator;
        sft_arena_free(loaded->own);
        sft__free(a, loaded->slots, loaded->slot_count * sizeof *loaded->slots);
        sft__free(a, loaded->sources, loaded->source_count * sizeof *loaded->sources);
        sft__free(a, loaded, sizeof *loaded);
    }
}
