/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/plan_run.c - carrying a plan out: one writer per byte is proven, moves are put in order and
 * divided into jobs for the pool. Everything that goes to one ordered target is one job, in the
 * order of the target; so is everything that comes from one sequential source, in the order of the
 * source. Other moves are in the order of their sources, and large ones are cut; small ones from a
 * source that reads many ranges at once are asked of it together. Read first: plan.h, plan_put.c.
 */
#include "io/source.h"
#include "move/plan.h"
#include "move/read.h"
#include <stdlib.h>

#define RUN_MEMORY      ((uint64_t)64 << 20)
#define RUN_BUFFER_MIN  ((uint64_t)64 << 10)
#define RUN_BUFFER_MAX  ((uint64_t)4 << 20)
#define RUN_JOB         ((uint64_t)16 << 20)
#define RUN_BATCH_RANGE ((uint64_t)8 << 20) /* a larger move is divided by the mover itself */
#define RUN_BATCH_BYTES ((uint64_t)64 << 20)
enum { RUN_CUTS_MAX = 256, RUN_BATCH = 64 };

/* A move in the order of execution; moves of one chain are one job. */
typedef struct run_step {
    size_t move;
    const void *chain; /* ordered target or sequential source, or NULL: a job of its own */
    uint32_t source;
    uint64_t key; /* offset in the target (chains of targets) or in the source */
} run_step;

typedef struct run_job {
    size_t first; /* in steps */
    size_t count;
    sft__cut cut; /* cut.jobs > 1: part `part` of the one step */
    uint64_t part;
    bool batch; /* the steps are ranges of one source into memory, asked for at once */
} run_job;

typedef struct runner {
    const sft_plan *plan;
    run_step *steps;
    run_job *jobs;
    size_t job_count;
    size_t job_room;
    uint64_t buffer; /* bytes of each of the two buffers of a worker */
    sft__watch watch;
} runner;

/* ---------------------------------------------------------------- one writer per byte */

typedef struct run_span {
    uint32_t target;
    uint64_t low;
    uint64_t end;
    size_t move;
} run_span;

static int run_span_order(const void *a, const void *b) {
    const run_span *x = a;
    const run_span *y = b;
    if (x->target != y->target) {
        return x->target < y->target ? -1 : 1;
    }
    return x->low < y->low ? -1 : x->low > y->low;
}

static sft_status run_check_spans(const sft_plan *plan, run_span *spans, size_t count,
                                  sft_error *err) {
    qsort(spans, count, sizeof *spans, run_span_order);
    for (size_t i = 1; i < count; i++) {
        const run_span *a = &spans[i - 1];
        const run_span *b = &spans[i];
        if (a->target == b->target && b->low < a->end) {
            const sft_tensor *t = plan->moves[b->move].tensor;
            return sft__fail_tensor(err, SFT_E_OVERLAP, b->low, t != NULL ? t->name : "",
                                    t != NULL ? t->name_len : 0, "two moves write byte %llu of %s",
                                    (unsigned long long)b->low,
                                    sft_target_name(plan->targets[b->target]));
        }
    }
    return SFT_OK;
}

/* Strided moves are left out: whether two of them meet is a question of number theory. */
static sft_status run_check_writers(const sft_plan *plan, sft_error *err) {
    size_t count = 0;
    run_span *spans = sft__alloc_array(plan->allocator, plan->move_count, sizeof *spans);

    if (spans == NULL) {
        return sft__fail_nomem(err, plan->move_count * sizeof *spans);
    }
    for (size_t i = 0; i < plan->move_count; i++) {
        const sft__plan_extra *e = &plan->extras[i];
        if (e->dst_packed) {
            spans[count++] = (run_span){plan->moves[i].target, e->dst_low, e->dst_end, i};
        }
    }
    const sft_status status = run_check_spans(plan, spans, count, err);
    sft__free(plan->allocator, spans, plan->move_count * sizeof *spans);
    return status;
}

/* ---------------------------------------------------------------- order */

static int run_step_order(const void *a, const void *b) {
    const run_step *x = a;
    const run_step *y = b;
    if (x->chain != y->chain) {
        return (uintptr_t)x->chain < (uintptr_t)y->chain ? -1 : 1;
    }
    if (x->chain == NULL && x->source != y->source) {
        return x->source < y->source ? -1 : 1;
    }
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->move < y->move ? -1 : x->move > y->move;
}

static void run_order(runner *r) {
    const sft_plan *plan = r->plan;

    for (size_t i = 0; i < plan->move_count; i++) {
        const sft_move *m = &plan->moves[i];
        const sft_target *target = plan->targets[m->target];
        const sft_source *source = plan->sources[m->source];
        run_step *s = &r->steps[i];
        s->move = i;
        s->chain = NULL;
        s->source = m->source;
        s->key = plan->extras[i].src_low;
        if ((sft_target_flags(target) & SFT_TARGET_ORDERED) != 0) {
            s->chain = target;
            s->key = plan->extras[i].dst_low;
        } else if ((sft_source_flags(source) & SFT_SOURCE_SEQUENTIAL) != 0) {
            s->chain = source;
        }
    }
    qsort(r->steps, plan->move_count, sizeof *r->steps, run_step_order);
}

/* ---------------------------------------------------------------- jobs */

static sft_status run_add_job(runner *r, run_job job, sft_error *err) {
    if (!sft__grow(r->plan->allocator, &r->jobs, &r->job_room, r->job_count + 1, sizeof *r->jobs)) {
        return sft__fail_nomem(err, (r->job_count + 1) * sizeof *r->jobs);
    }
    r->jobs[r->job_count++] = job;
    return SFT_OK;
}

static sft_status run_add_alone(runner *r, size_t step, bool cut, sft_error *err) {
    run_job job = {step, 1, {1, 0}, 0, false};
    sft__mover m;
    sft__grid g;

    if (cut) {
        sft__plan_grid(r->plan, r->steps[step].move, &g);
        uint64_t want = sft__grid_blocks(&g) * g.dst_block / RUN_JOB + 1;
        want = want < RUN_CUTS_MAX ? want : RUN_CUTS_MAX;
        if (want > 1) {
            sft__plan_mover(r->plan, r->steps[step].move, &r->watch, 0, &m);
            sft__grid_for_reading(&g);
            job.cut = sft__grid_cut_choose(&g, &m, want);
        }
    }
    for (; job.part < job.cut.jobs; job.part++) {
        SFT_TRY(run_add_job(r, job, err));
    }
    return SFT_OK;
}

/* Bytes of a step that is one range of a source which likes many at once, and one of memory; or 0.
 */
static uint64_t run_range(const runner *r, const run_step *step) {
    const sft_move *m = &r->plan->moves[step->move];
    const sft__plan_extra *e = &r->plan->extras[step->move];
    const uint64_t size = e->src_end - e->src_low;
    sft__grid g;
    void *data;

    if (step->chain != NULL || m->kernel != SFT_KERNEL_COPY || size > RUN_BATCH_RANGE ||
        !sft__source_batches(r->plan->sources[m->source])) {
        return 0;
    }
    sft__plan_grid(r->plan, step->move, &g);
    sft__grid_for_reading(&g);
    const bool whole = g.rank == 0 && g.src_block == size && e->dst_end - e->dst_low == size;
    return whole && sft_target_borrow(r->plan->targets[m->target], e->dst_low, (size_t)size, &data,
                                      NULL) == SFT_OK
               ? size
               : 0;
}

/* How many steps from `first` on can be asked for at once. */
static size_t run_batch_count(const runner *r, size_t first) {
    uint64_t bytes = 0;
    size_t n = 0;

    while (n < RUN_BATCH && first + n < r->plan->move_count &&
           r->steps[first + n].source == r->steps[first].source) {
        const uint64_t size = run_range(r, &r->steps[first + n]);
        bytes += size;
        if (size == 0 || bytes > RUN_BATCH_BYTES) {
            break;
        }
        n++;
    }
    return n;
}

static sft_status run_divide(runner *r, bool cut, sft_error *err) {
    const size_t count = r->plan->move_count;

    for (size_t i = 0; i < count;) {
        size_t n = 1;
        const size_t many = run_batch_count(r, i);
        if (many > 1) {
            n = many;
            SFT_TRY(run_add_job(r, (run_job){i, n, {1, 0}, 0, true}, err));
        } else if (r->steps[i].chain == NULL) {
            SFT_TRY(run_add_alone(r, i, cut, err));
        } else {
            while (i + n < count && r->steps[i + n].chain == r->steps[i].chain) {
                n++;
            }
            SFT_TRY(run_add_job(r, (run_job){i, n, {1, 0}, 0, false}, err));
        }
        i += n;
    }
    return SFT_OK;
}

static sft_status run_step_do(runner *r, const run_job *job, size_t step, sft_error *err) {
    const size_t move = r->steps[step].move;
    sft__mover m;
    sft__grid g;

    SFT_TRY(sft__watch_add(&r->watch, 0, err));
    sft__plan_mover(r->plan, move, &r->watch, r->buffer, &m);
    sft__plan_grid(r->plan, move, &g);
    if (job->cut.jobs > 1) {
        sft__grid_for_reading(&g);
        sft__grid_cut_apply(&g, &m, job->cut, job->part);
    }
    const sft_status status = sft__plan_put(r->plan, move, &m, &g, r->buffer, err);
    const sft_tensor *t = r->plan->moves[move].tensor;
    return t != NULL ? sft__name_tensor(err, t, status) : status;
}

/* False: something is wrong, and each is read by itself, so that the failure has its tensor's name.
 */
static bool run_batch_do(runner *r, const run_job *job) {
    const sft_plan *plan = r->plan;
    sft_io_range ranges[RUN_BATCH];
    uint64_t bytes = 0;

    for (size_t i = 0; i < job->count; i++) {
        const size_t move = r->steps[job->first + i].move;
        const sft__plan_extra *e = &plan->extras[move];
        const size_t size = (size_t)(e->src_end - e->src_low);
        void *data = NULL;
        if (sft_target_borrow(plan->targets[plan->moves[move].target], e->dst_low, size, &data,
                              NULL) != SFT_OK) {
            return false;
        }
        ranges[i] = (sft_io_range){e->src_low, data, size};
        bytes += size;
    }
    const sft_source *source = plan->sources[r->steps[job->first].source];
    if (sft__watch_add(&r->watch, 0, NULL) != SFT_OK ||
        sft_source_read_many(source, ranges, job->count, NULL, NULL, NULL, NULL) != SFT_OK) {
        return false;
    }
    (void)sft__watch_add(&r->watch, bytes, NULL); /* an end that is asked for is seen by the next */
    return true;
}

static void run_job_do(void *ctx, size_t index) {
    runner *r = ctx;
    const run_job *job = &r->jobs[index];
    sft_error error;

    memset(&error, 0, sizeof error);
    if (job->batch && run_batch_do(r, job)) {
        return;
    }
    for (size_t i = 0; i < job->count; i++) {
        const sft_status status = run_step_do(r, job, job->first + i, &error);
        if (status != SFT_OK) {
            sft__watch_fail(&r->watch, index, status, &error);
            return;
        }
    }
}

/* ---------------------------------------------------------------- public */

static sft_status run_all(runner *r, const sft_pool *pool, sft_error *err) {
    const bool shared = sft_pool_threads(pool) > 1;

    run_order(r);
    SFT_TRY(run_divide(r, shared, err));
    if (shared) {
        sft_pool_run(pool, r->job_count, run_job_do, r);
    } else {
        for (size_t i = 0; i < r->job_count && r->watch.status == SFT_OK; i++) {
            run_job_do(r, i);
        }
    }
    return SFT_OK;
}

static sft_status run_options(sft_run_options *o, const sft_run_options *given, sft_error *err) {
    SFT_INIT(o);
    if (given != NULL) {
        if (given->struct_size < sizeof given->struct_size) {
            return sft__fail(err, SFT_E_ARG, "struct_size of the run options is not set");
        }
        memcpy(o, given, given->struct_size < sizeof *o ? given->struct_size : sizeof *o);
    }
    if ((uint32_t)o->strategy > SFT_STRATEGY_DIRECT || o->strategy == SFT_STRATEGY_MAP) {
        return sft__fail(err, SFT_E_ARG, "a plan is read or read directly");
    }
    if (o->memory_bytes == 0) {
        o->memory_bytes = RUN_MEMORY;
    }
    return SFT_OK;
}

/* How each source is read; what moves span of it counts, gaps included. */
static sft_status run_ways(sft_plan *plan, const sft_run_options *o, sft_error *err) {
    uint64_t total = 0;

    sft__free(plan->allocator, plan->ways, plan->way_count * sizeof *plan->ways);
    plan->way_count = plan->source_count;
    plan->ways = sft__alloc_zero(plan->allocator, plan->way_count * sizeof *plan->ways);
    if (plan->ways == NULL) {
        plan->way_count = 0;
        return sft__fail_nomem(err, plan->source_count * sizeof *plan->ways);
    }
    for (size_t i = 0; i < plan->move_count; i++) {
        const uint64_t span = plan->extras[i].src_end - plan->extras[i].src_low;
        plan->ways[plan->moves[i].source].wanted += span;
        total += span; /* overflow: a worse choice, no more */
    }
    for (size_t i = 0; i < plan->way_count; i++) {
        plan->ways[i].direct = -1;
        if (plan->ways[i].wanted > 0) {
            plan->ways[i].total = total;
            sft__load_choose(&plan->ways[i], plan->sources[i], o->strategy, false);
        }
    }
    return SFT_OK;
}

static void run_ways_close(sft_plan *plan) {
    for (size_t i = 0; i < plan->way_count; i++) {
        sft__fs_close_direct(plan->ways[i].direct);
        plan->ways[i].direct = -1;
    }
}

/* Two buffers per worker share the budget; below the smallest useful size the budget gives way. */
static uint64_t run_buffer(const sft_run_options *o) {
    const uint64_t share = o->memory_bytes / 2 / sft_pool_threads(o->pool);
    const uint64_t size = share < RUN_BUFFER_MAX ? share : RUN_BUFFER_MAX;
    return size > RUN_BUFFER_MIN ? size : RUN_BUFFER_MIN;
}

sft_status sft_plan_run(sft_plan *plan, const sft_run_options *options, sft_error *err) {
    sft_run_options o;
    runner r;
    sft_status status;

    if (plan == NULL) {
        return sft__fail(err, SFT_E_ARG, "plan is NULL");
    }
    SFT_TRY(run_options(&o, options, err));
    if (plan->move_count == 0) {
        return SFT_OK;
    }
    SFT_TRY(run_check_writers(plan, err));
    SFT_TRY(run_ways(plan, &o, err));
    memset(&r, 0, sizeof r);
    r.plan = plan;
    r.buffer = run_buffer(&o);
    status = sft__watch_init(&r.watch, o.control, plan->cost.bytes_written,
                             sft_pool_threads(o.pool) > 1, err);
    if (status != SFT_OK) {
        run_ways_close(plan);
        return status;
    }
    r.steps = sft__alloc_array(plan->allocator, plan->move_count, sizeof *r.steps);
    status = r.steps == NULL ? sft__fail_nomem(err, plan->move_count * sizeof *r.steps)
                             : run_all(&r, o.pool, err);
    sft__free(plan->allocator, r.steps, plan->move_count * sizeof *r.steps);
    sft__free(plan->allocator, r.jobs, r.job_room * sizeof *r.jobs);
    run_ways_close(plan);
    const sft_status ended = sft__watch_end(&r.watch, status == SFT_OK ? err : NULL);
    return status != SFT_OK ? status : ended;
}

sft_strategy sft_plan_strategy(const sft_plan *plan, uint32_t index, const char **reason) {
    return sft__load_told(index < plan->way_count ? &plan->ways[index] : NULL, reason);
}
