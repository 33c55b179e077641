/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/plan.c - building plans: every move is checked against its source and its target when it is
 * added, so that running needs no checks of bounds. Read first: plan.h.
 */
#include "move/plan.h"
#include "base/checked.h"
#include "move/read.h"

sft_status sft_plan_create(sft_plan **out, const sft_allocator *allocator, sft_error *err) {
    sft_plan *plan;

    if (out == NULL) {
        return sft__fail(err, SFT_E_ARG, "out is NULL");
    }
    *out = NULL;
    plan = sft__alloc_zero(allocator, sizeof *plan);
    if (plan == NULL) {
        return sft__fail_nomem(err, sizeof *plan);
    }
    plan->allocator = allocator;
    sft__arena_init(&plan->arena, allocator, 0);
    *out = plan;
    return SFT_OK;
}

void sft_plan_free(sft_plan *plan) {
    if (plan == NULL) {
        return;
    }
    const sft_allocator *a = plan->allocator;
    sft__free(a, plan->sources, plan->source_room * sizeof *plan->sources);
    sft__free(a, plan->targets, plan->target_room * sizeof *plan->targets);
    sft__free(a, plan->moves, plan->move_room * sizeof *plan->moves);
    sft__free(a, plan->extras, plan->extra_room * sizeof *plan->extras);
    sft__free(a, plan->ways, plan->way_count * sizeof *plan->ways);
    sft__arena_free(&plan->arena);
    sft__free(a, plan, sizeof *plan);
}

sft_status sft_plan_add_source(sft_plan *plan, const sft_source *source, uint32_t *index,
                               sft_error *err) {
    if (plan == NULL || source == NULL) {
        return sft__fail(err, SFT_E_ARG, "plan or source is NULL");
    }
    size_t i = plan->source_count;
    while (i > 0 && plan->sources[i - 1] != source) { /* from the end: it is usually the last one */
        i--;
    }
    if (i == 0) {
        if (plan->source_count >= UINT32_MAX ||
            !sft__grow(plan->allocator, &plan->sources, &plan->source_room, plan->source_count + 1,
                       sizeof *plan->sources)) {
            return sft__fail_nomem(err, (plan->source_count + 1) * sizeof *plan->sources);
        }
        plan->sources[plan->source_count++] = source;
        i = plan->source_count;
    }
    if (index != NULL) {
        *index = sft__u32(i - 1);
    }
    return SFT_OK;
}

sft_status sft_plan_add_target(sft_plan *plan, sft_target *target, uint32_t *index,
                               sft_error *err) {
    if (plan == NULL || target == NULL) {
        return sft__fail(err, SFT_E_ARG, "plan or target is NULL");
    }
    size_t i = plan->target_count;
    while (i > 0 && plan->targets[i - 1] != target) {
        i--;
    }
    if (i == 0) {
        if (plan->target_count >= UINT32_MAX ||
            !sft__grow(plan->allocator, &plan->targets, &plan->target_room, plan->target_count + 1,
                       sizeof *plan->targets)) {
            return sft__fail_nomem(err, (plan->target_count + 1) * sizeof *plan->targets);
        }
        plan->targets[plan->target_count++] = target;
        i = plan->target_count;
    }
    if (index != NULL) {
        *index = sft__u32(i - 1);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- checks */

/* First and behind the last byte of one side; false if they leave 64 bits. */
static bool plan_extent(uint64_t offset, uint64_t block, uint32_t rank, const uint64_t *count,
                        const int64_t *stride, uint64_t *low, uint64_t *end) {
    uint64_t down = 0;
    uint64_t up = block;

    for (uint32_t d = 0; d < rank; d++) {
        const uint64_t size = stride[d] < 0 ? 0 - (uint64_t)stride[d] : (uint64_t)stride[d];
        uint64_t *side = stride[d] < 0 ? &down : &up;
        uint64_t reach;
        if (!sft__mul64(count[d] - 1, size, &reach) || !sft__add64(*side, reach, side)) {
            return false;
        }
    }
    *low = offset - down;
    return down <= offset && sft__add64(offset, up, end);
}

static sft_status plan_check_block(const sft_move *m, sft_error *err) {
    const sft_dtype *from = m->src_dtype;
    const sft_dtype *to = m->dst_dtype;
    bool good = m->src_block > 0 && m->dst_block > 0;

    if (m->kernel == SFT_KERNEL_CONVERT) {
        if (from == NULL || to == NULL || sft_dtype_get(from->id) == NULL ||
            sft_dtype_get(to->id) == NULL) {
            return sft__fail(err, SFT_E_UNSUPPORTED,
                             "a converting move needs two types of the format");
        }
        good = good && m->src_block % from->block_bytes == 0 &&
               m->dst_block % to->block_bytes == 0 &&
               m->src_block / from->block_bytes <= UINT64_MAX / 4 &&
               m->dst_block / to->block_bytes <= UINT64_MAX / 4 &&
               m->src_block / from->block_bytes * from->block_elements ==
                   m->dst_block / to->block_bytes * to->block_elements;
    } else {
        good = good && m->src_block == m->dst_block;
    }
    if (m->kernel == SFT_KERNEL_SWAP) {
        good = good && from != NULL && from->block_elements == 1 && from->alignment >= 1 &&
               from->alignment <= 8 && (from->alignment & (from->alignment - 1)) == 0 &&
               from->block_bytes % from->alignment == 0 && from->block_bytes > 0 &&
               m->src_block % from->block_bytes == 0;
    }
    if (!good || m->kernel > SFT_KERNEL_SWAP) {
        return sft__fail(err, SFT_E_ARG,
                         "a block of %llu bytes cannot become %llu bytes by kernel %lu",
                         (unsigned long long)m->src_block, (unsigned long long)m->dst_block,
                         (unsigned long)m->kernel);
    }
    return SFT_OK;
}

/* Runs of the source: dimensions that continue each other there count as one. */
static uint64_t plan_runs(const sft__grid *given) {
    sft__grid g = *given;
    uint64_t run = g.src_block;
    uint64_t runs = 1;

    sft__grid_for_reading(&g);
    run = g.src_block;
    for (uint32_t d = g.rank; d-- > 0;) {
        if (runs == 1 && (uint64_t)g.src_stride[d] == run) {
            run *= g.count[d];
        } else {
            runs *= g.count[d];
        }
    }
    return runs;
}

/* Takes over the coalesced grid. */
static sft_status plan_store(sft_plan *plan, const sft_move *like, const sft__grid *g,
                             const sft__plan_extra *extra, sft_error *err) {
    const size_t bytes = g->rank * sizeof(uint64_t);
    const size_t count = plan->move_count;
    sft_move *m;

    if (!sft__grow(plan->allocator, &plan->moves, &plan->move_room, count + 1,
                   sizeof *plan->moves) ||
        !sft__grow(plan->allocator, &plan->extras, &plan->extra_room, count + 1,
                   sizeof *plan->extras)) {
        return sft__fail_nomem(err, (count + 1) * sizeof *plan->moves);
    }
    uint64_t *arrays = sft__arena_alloc(&plan->arena, 3 * bytes + sizeof *arrays, sizeof *arrays);
    if (arrays == NULL) {
        return sft__fail_nomem(err, 3 * bytes);
    }
    memcpy(arrays, g->count, bytes);
    memcpy(arrays + g->rank, g->src_stride, bytes);
    memcpy(arrays + 2 * (size_t)g->rank, g->dst_stride, bytes);
    m = &plan->moves[count];
    *m = *like;
    m->src_offset = g->src;
    m->dst_offset = g->dst;
    m->src_block = g->src_block;
    m->dst_block = g->dst_block;
    m->rank = g->rank;
    m->count = arrays;
    m->src_stride = (const int64_t *)(const void *)(arrays + g->rank);
    m->dst_stride = (const int64_t *)(const void *)(arrays + 2 * (size_t)g->rank);
    plan->extras[count] = *extra;
    plan->move_count++;
    const uint64_t blocks = sft__grid_blocks(g);
    plan->cost.moves++;
    plan->cost.runs += plan_runs(g);
    plan->cost.bytes_read += blocks * g->src_block;
    plan->cost.bytes_written += blocks * g->dst_block;
    return SFT_OK;
}

/* Bounds of a coalesced grid against source and target, then stored. view: where it comes from, or
 * NULL. */
static sft_status plan_add(sft_plan *plan, const sft_move *like, const sft__grid *g,
                           const sft__view *view, sft_error *err) {
    const uint64_t src_size = sft_source_size(plan->sources[like->source]);
    const uint64_t dst_size = sft_target_size(plan->targets[like->target]);
    sft__plan_extra extra = {0};
    sft__grid dst = *g;

    if (!plan_extent(g->src, g->src_block, g->rank, g->count, g->src_stride, &extra.src_low,
                     &extra.src_end) ||
        extra.src_end > src_size) {
        return sft__fail_at(err, SFT_E_RANGE, g->src, "a move reads beyond the %llu bytes of %s",
                            (unsigned long long)src_size,
                            sft_source_name(plan->sources[like->source]));
    }
    if (!plan_extent(g->dst, g->dst_block, g->rank, g->count, g->dst_stride, &extra.dst_low,
                     &extra.dst_end) ||
        extra.dst_end > dst_size) {
        return sft__fail_at(err, SFT_E_RANGE, g->dst, "a move writes beyond the %llu bytes of %s",
                            (unsigned long long)dst_size,
                            sft_target_name(plan->targets[like->target]));
    }
    sft__grid_dst_ascending(&dst);
    sft__grid_sort_dst(&dst);
    extra.dst_packed = sft__grid_dst_packed(&dst);
    if (view != NULL) {
        extra.convert_flags = view->convert_flags;
        extra.borrow = view->borrow;
    }
    return plan_store(plan, like, g, &extra, err);
}

static sft_status plan_check_target(const sft_plan *plan, uint32_t target, sft_error *err) {
    if (target >= plan->target_count) {
        return sft__fail(err, SFT_E_RANGE, "target %lu of %llu", (unsigned long)target,
                         (unsigned long long)plan->target_count);
    }
    return SFT_OK;
}

sft_status sft_plan_add_move(sft_plan *plan, const sft_move *move, sft_error *err) {
    sft__grid g;

    if (plan == NULL || move == NULL ||
        (move->rank > 0 &&
         (move->count == NULL || move->src_stride == NULL || move->dst_stride == NULL))) {
        return sft__fail(err, SFT_E_ARG, "plan, move or one of its arrays is NULL");
    }
    if (move->rank > SFT__GRID_RANK) {
        return sft__fail(err, SFT_E_ARG, "a move has %lu dimensions, at most 63 are allowed",
                         (unsigned long)move->rank);
    }
    SFT_TRY(plan_check_target(plan, move->target, err));
    if (move->source >= plan->source_count) {
        return sft__fail(err, SFT_E_RANGE, "source %lu of %llu", (unsigned long)move->source,
                         (unsigned long long)plan->source_count);
    }
    SFT_TRY(plan_check_block(move, err));
    uint64_t total = move->src_block > move->dst_block ? move->src_block : move->dst_block;
    for (uint32_t d = 0; d < move->rank; d++) {
        if (move->count[d] == 0) {
            return SFT_OK; /* nothing to do */
        }
        if (move->count[d] > 1 && move->dst_stride[d] == 0) {
            return sft__fail(err, SFT_E_OVERLAP, "dimension %lu of a move writes one place twice",
                             (unsigned long)d);
        }
        if (!sft__mul64(total, move->count[d], &total)) {
            return sft__fail(err, SFT_E_OVERFLOW, "a move of more than 2^64 bytes");
        }
        g.count[d] = move->count[d];
        g.src_stride[d] = move->src_stride[d];
        g.dst_stride[d] = move->dst_stride[d];
    }
    g.rank = move->rank;
    g.src = move->src_offset;
    g.dst = move->dst_offset;
    g.src_block = move->src_block;
    g.dst_block = move->dst_block;
    sft__grid_coalesce(&g);
    return plan_add(plan, move, &g, NULL, err);
}

/* ---------------------------------------------------------------- tensors */

static sft_status plan_add_piece(sft_plan *plan, const sft__view *view, const sft_catalog *catalog,
                                 uint32_t piece, uint32_t target, uint64_t dst_offset,
                                 uint64_t *elements, sft_error *err) {
    sft_move like;
    sft__grid g;
    bool empty;

    SFT_TRY(sft__view_grid(view, piece, &g, &empty, err));
    if (empty) {
        return SFT_OK;
    }
    memset(&like, 0, sizeof like);
    like.src_dtype = view->tensor->dtype;
    like.dst_dtype = view->dtype;
    like.tensor = view->tensor;
    like.kernel = view->kernel;
    like.target = target;
    SFT_TRY(sft_plan_add_source(plan,
                                sft_catalog_source_at(catalog, view->tensor->pieces[piece].source),
                                &like.source, err));
    *elements += sft__grid_blocks(&g) * sft__view_block_elements(view, &g);
    g.dst += dst_offset;
    return plan_add(plan, &like, &g, view, err);
}

static sft_status plan_add_view(sft_plan *plan, const sft__view *view, const sft_catalog *catalog,
                                uint32_t target, uint64_t dst_offset, sft_error *err) {
    uint64_t elements = 0;

    if (dst_offset < view->low) {
        return sft__fail(err, SFT_E_RANGE, "the result begins %llu bytes before its target",
                         (unsigned long long)(view->low - dst_offset));
    }
    for (uint32_t i = 0; i < view->tensor->piece_count && view->elements > 0; i++) {
        SFT_TRY(plan_add_piece(plan, view, catalog, i, target, dst_offset, &elements, err));
    }
    if (elements < view->elements) {
        return sft__fail(err, SFT_E_HOLE,
                         "the pieces of the tensor hold %llu of the %llu elements wanted",
                         (unsigned long long)elements, (unsigned long long)view->elements);
    }
    return SFT_OK;
}

sft_status sft_plan_add_tensor(sft_plan *plan, const sft_catalog *catalog, const sft_tensor *tensor,
                               const sft_read_options *options, uint32_t target,
                               uint64_t dst_offset, sft_error *err) {
    sft__view view;

    if (plan == NULL || catalog == NULL || tensor == NULL) {
        return sft__fail(err, SFT_E_ARG, "plan, catalog or tensor is NULL");
    }
    SFT_TRY(plan_check_target(plan, target, err));
    const size_t moves = plan->move_count;
    const sft_plan_cost cost = plan->cost;
    sft_status status = sft__view_init(&view, tensor, options, err);
    if (status == SFT_OK) {
        status = plan_add_view(plan, &view, catalog, target, dst_offset, err);
    }
    sft__view_reset(&view);
    if (status != SFT_OK) { /* all of its moves or none */
        plan->move_count = moves;
        plan->cost = cost;
    }
    return sft__name_tensor(err, tensor, status);
}

/* ---------------------------------------------------------------- looking at it */

size_t sft_plan_count(const sft_plan *plan) {
    return plan->move_count;
}

const sft_move *sft_plan_at(const sft_plan *plan, size_t index) {
    return index < plan->move_count ? &plan->moves[index] : NULL;
}

void sft_plan_cost_get(const sft_plan *plan, sft_plan_cost *cost) {
    *cost = plan->cost;
}

void sft__plan_grid(const sft_plan *plan, size_t index, sft__grid *g) {
    const sft_move *m = &plan->moves[index];

    g->src = m->src_offset;
    g->dst = m->dst_offset;
    g->src_block = m->src_block;
    g->dst_block = m->dst_block;
    g->rank = m->rank;
    memcpy(g->count, m->count, m->rank * sizeof *m->count);
    memcpy(g->src_stride, m->src_stride, m->rank * sizeof *m->src_stride);
    memcpy(g->dst_stride, m->dst_stride, m->rank * sizeof *m->dst_stride);
}

void sft__plan_mover(const sft_plan *plan, size_t index, sft__watch *watch, uint64_t bounce_max,
                     sft__mover *m) {
    const sft_move *move = &plan->moves[index];
    const sft__plan_extra *extra = &plan->extras[index];

    memset(m, 0, sizeof *m);
    m->source = plan->sources[move->source];
    m->way = move->source < plan->way_count ? &plan->ways[move->source] : NULL;
    m->src_dtype = move->src_dtype;
    m->dst_dtype = move->dst_dtype;
    if (move->kernel == SFT_KERNEL_COPY) { /* bytes: a move of one's own need not have types */
        m->src_dtype = sft_dtype_get(SFT_U8);
    }
    if (move->kernel != SFT_KERNEL_CONVERT) { /* both sides are cut alike */
        m->dst_dtype = m->src_dtype;
    }
    m->kernel = move->kernel;
    m->convert_flags = extra->convert_flags;
    m->borrow = extra->borrow;
    m->bounce_max = bounce_max;
    m->allocator = plan->allocator;
    m->watch = watch;
}
