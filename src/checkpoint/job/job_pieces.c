/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job_pieces.c - from the pieces of tensors to runs and moves; proof that every byte of
 * a tensor is written once. Read job.h first.
 */
#include "base/memory/need.h"
#include "checkpoint/job/job.h"
#include <stdlib.h>

enum { RANK = 1024 }; /* dimensions that one pass keeps on the stack */

/* ---------------------------------------------------------------- coverage */

typedef struct slab {
    uint64_t low;
    uint64_t high;
    uint32_t piece;
} slab;

static int by_low(const void *a, const void *b) {
    const slab *const x = a;
    const slab *const y = b;
    return x->low != y->low      ? (x->low < y->low ? -1 : 1)
           : x->piece < y->piece ? -1
                                 : x->piece > y->piece;
}

static uint64_t lower(const sft_piece *p, uint32_t d) {
    return p->start != NULL ? p->start[d] : 0;
}

static uint64_t extent(const sft_tensor *t, const sft_piece *p, uint32_t d) {
    return p->count != NULL ? p->count[d] : t->shape[d];
}

static bool meet(const sft_tensor *t, const sft_piece *a, const sft_piece *b) {
    for (uint32_t d = 0; d < t->rank; d++) {
        if (lower(a, d) + extent(t, a, d) <= lower(b, d) ||
            lower(b, d) + extent(t, b, d) <= lower(a, d)) {
            return false;
        }
    }
    return true;
}

static sft_status check_overlap(const sft_job *job, const sft_tensor *t, sft_error *err) {
    slab *const slabs = sft__base_alloc_array(job->allocator, t->piece_count, sizeof *slabs);
    sft_status status = SFT_OK;
    SFT_NEED(slabs != NULL, t->piece_count * sizeof *slabs, err);
    for (uint32_t i = 0; i < t->piece_count; i++) {
        const sft_piece *const p = &t->pieces[i];
        slabs[i] = (slab){t->rank > 0 ? lower(p, 0) : 0,
                          t->rank > 0 ? lower(p, 0) + extent(t, p, 0) : 1, i};
    }
    qsort(slabs, t->piece_count, sizeof *slabs, by_low);
    for (uint32_t i = 0; i < t->piece_count && status == SFT_OK; i++) {
        for (uint32_t k = i + 1; k < t->piece_count && slabs[k].low < slabs[i].high; k++) {
            if (meet(t, &t->pieces[slabs[i].piece], &t->pieces[slabs[k].piece])) {
                status =
                    sft__base_fail_tensor(err, SFT_E_OVERLAP, t->pieces[slabs[k].piece].offset,
                                          t->name, t->name_len, "two pieces of the tensor overlap");
                break;
            }
        }
    }
    sft__base_free(job->allocator, slabs, t->piece_count * sizeof *slabs);
    return status;
}

/* The pieces lie inside the tensor (the builder saw to that): disjoint, and as large as it, they
 * cover it. */
static sft_status check_cover(const sft_job *job, const sft_tensor *t, sft_error *err) {
    uint64_t have = 0;
    uint64_t all = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        all *= t->shape[d]; /* cannot overflow: the bytes of the tensor do not */
    }
    if (all == 0) {
        return SFT_OK;
    }
    for (uint32_t i = 0; i < t->piece_count; i++) {
        uint64_t volume = 1;
        for (uint32_t d = 0; d < t->rank; d++) {
            volume *= extent(t, &t->pieces[i], d);
        }
        if (!sft__base_add64(have, volume, &have)) {
            have = UINT64_MAX;
        }
    }
    if (t->piece_count > 1 && have >= all) {
        SFT_TRY(check_overlap(job, t, err));
    }
    if (have != all) {
        return sft__base_fail_tensor(err, have < all ? SFT_E_HOLE : SFT_E_OVERLAP, SFT_NO_OFFSET,
                                     t->name, t->name_len, "its pieces hold %llu elements of %llu",
                                     (unsigned long long)have, (unsigned long long)all);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- runs */

static sft_status add_run(sft_job *job, const sft__checkpoint_job_run *run, sft_error *err) {
    if (run->size == 0) {
        return SFT_OK;
    }
    if (job->run_count > 0) {
        sft__checkpoint_job_run *const last = &job->runs[job->run_count - 1];
        if (last->file == run->file && last->source == run->source &&
            last->to + last->size == run->to && last->from + last->size == run->from) {
            last->size += run->size;
            return SFT_OK;
        }
    }
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->runs, &job->run_room, job->run_count + 1,
                                 sizeof *job->runs, err));
    job->runs[job->run_count++] = *run;
    return SFT_OK;
}

/* One piece in numbers of elements (blocks of the dtype) and bytes. */
typedef struct box {
    uint64_t count[RANK];
    uint64_t start[RANK];
    uint64_t from[RANK]; /* strides */
    uint64_t to[RANK];
    uint64_t run;  /* bytes that are contiguous on both sides */
    uint32_t left; /* dimensions before those of the run */
} box;

/* Lengths of the last dimension become blocks. False: a boundary inside one, or a stride that is not
 * positive. */
static bool measure(const sft_tensor *t, const sft_piece *p, box *b) {
    const uint32_t block = t->dtype->block_elements;
    uint64_t to = t->dtype->block_bytes;
    uint64_t from = to;
    for (uint32_t d = t->rank; d-- > 0;) {
        uint64_t whole = t->shape[d];
        b->count[d] = extent(t, p, d);
        b->start[d] = lower(p, d);
        if (d + 1 == t->rank && block > 1) {
            if (whole % block != 0 || b->count[d] % block != 0 || b->start[d] % block != 0) {
                return false;
            }
            whole /= block;
            b->count[d] /= block;
            b->start[d] /= block;
        }
        if (p->strides != NULL && p->strides[d] <= 0 && b->count[d] > 1) {
            return false;
        }
        b->from[d] = p->strides != NULL ? (uint64_t)p->strides[d] : from;
        b->to[d] = to;
        from *= b->count[d];
        to *= whole;
    }
    b->run = t->dtype->block_bytes;
    b->left = t->rank;
    while (b->left > 0) {
        const uint32_t d = b->left - 1;
        if (b->count[d] != 1 && (b->from[d] != b->run || b->to[d] != b->run)) {
            break;
        }
        b->run *= b->count[d];
        b->left--;
    }
    return true;
}

/* Do strides shrink inwards, each a whole row of what lies inside? */
static bool is_nested(const box *b, uint32_t rank) {
    for (uint32_t d = 0; d + 1 < rank; d++) {
        if (b->from[d] < b->from[d + 1] || b->from[d + 1] == 0 ||
            b->from[d] % b->from[d + 1] != 0) {
            return false;
        }
    }
    return true;
}

/* Runs that are long, one by one. */
static sft_status add_runs(sft_job *job, const sft_piece *p, const box *b,
                           sft__checkpoint_job_run run, sft_error *err) {
    uint64_t at[RANK];
    const uint64_t to = run.to;
    memset(at, 0, b->left * sizeof *at);
    for (;;) {
        uint32_t d = b->left;
        run.from = p->offset;
        run.to = to;
        for (uint32_t i = 0; i < b->left; i++) {
            run.from += at[i] * b->from[i];
            run.to += at[i] * b->to[i];
        }
        SFT_TRY(add_run(job, &run, err));
        while (d > 0 && ++at[d - 1] == b->count[d - 1]) {
            at[--d] = 0;
        }
        if (d == 0) {
            return SFT_OK;
        }
    }
}

/* ---------------------------------------------------------------- moves */

static uint64_t *keep(sft_job *job, const uint64_t *numbers, uint32_t count) {
    uint64_t *const copy =
        sft__base_arena_alloc(&job->arena, (count + (size_t)1) * sizeof *copy, sizeof *copy);
    if (copy != NULL && numbers != NULL) {
        memcpy(copy, numbers, count * sizeof *copy);
    } else if (copy != NULL) {
        memset(copy, 0, count * sizeof *copy);
    }
    return copy;
}

sft_status sft__checkpoint_job_add_node(sft_job *job, const sft__checkpoint_job_node *node,
                                        sft_error *err) {
    if (job->node_count >= UINT32_MAX) {
        return sft__base_fail_nomem(err, SIZE_MAX);
    }
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->nodes, &job->node_room, job->node_count + 1,
                                 sizeof *job->nodes, err));
    sft__checkpoint_job_node *const n = &job->nodes[job->node_count];
    *n = *node;
    n->count = keep(job, NULL, n->rank);
    n->at = (int64_t *)(void *)keep(job, NULL, n->rank);
    SFT_NEED(n->stride != NULL && n->count != NULL && n->at != NULL, 3 * n->rank * sizeof *n->at,
             err);
    n->next = (uint32_t)job->node_count++;
    return SFT_OK;
}

static sft_status add_target(sft_job *job, uint32_t file, size_t tensor, const box *b,
                             sft_error *err) {
    const sft__checkpoint_job_file *const f = &job->files[file];
    const sft_tensor *const t = sft__checkpoint_job_tensor(f, tensor);
    const sft__checkpoint_job_node n = {.base = f->offsets[tensor],
                                        .end = f->offsets[tensor] + t->nbytes,
                                        .stride = keep(job, b->to, t->rank),
                                        .where = file,
                                        .rank = t->rank,
                                        .element = t->dtype->block_bytes,
                                        .tensor = (uint32_t)tensor,
                                        .target = true};
    SFT_TRY(sft__checkpoint_job_add_node(job, &n, err));
    if (t->rank > 0) {
        uint64_t *const count = job->nodes[job->node_count - 1].count;
        memcpy(count, t->shape, t->rank * sizeof *count);
        count[t->rank - 1] /= t->dtype->block_elements;
    }
    return SFT_OK;
}

static sft_status add_move(sft_job *job, const sft_piece *p, uint32_t source, const box *b,
                           uint32_t rank, sft_error *err) {
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->moves, &job->move_room, job->move_count + 1,
                                 sizeof *job->moves, err));
    sft__checkpoint_job_move *const m = &job->moves[job->move_count++];
    memset(m, 0, sizeof *m);
    m->from = p->offset;
    m->count = keep(job, b->count, rank);
    m->from_stride = keep(job, b->from, rank);
    m->start = keep(job, b->start, rank);
    m->target_node = (uint32_t)(job->node_count - 1);
    m->source_node = source;
    m->rank = rank;
    m->element = job->nodes[m->target_node].element;
    return m->count == NULL || m->from_stride == NULL || m->start == NULL
               ? sft__base_fail_nomem(err, 3 * rank * sizeof *m->count)
               : SFT_OK;
}

sft_status sft__checkpoint_job_add_whole(sft_job *job, uint32_t file, size_t tensor,
                                         sft_error *err) {
    const sft__checkpoint_job_file *const f = &job->files[file];
    SFT_TRY(sft__checkpoint_more(job->allocator, &job->wholes, &job->whole_room,
                                 job->whole_count + 1, sizeof *job->wholes, err));
    job->wholes[job->whole_count++] = (sft__checkpoint_job_whole){
        f->given.catalog, sft__checkpoint_job_tensor(f, tensor), f->offsets[tensor], file};
    return SFT_OK;
}

/* ---------------------------------------------------------------- tensors */

typedef enum way { BY_RUNS, BY_MOVES, BY_WHOLE } way;

static way choose(const sft_tensor *t, box *b) {
    way chosen = BY_RUNS;
    bool nested = true;
    if (t->rank > RANK) {
        return BY_WHOLE;
    }
    for (uint32_t i = 0; i < t->piece_count; i++) {
        const sft_piece *const p = &t->pieces[i];
        if (t->piece_count == 1 && p->strides == NULL) {
            return BY_RUNS; /* all of it, packed */
        }
        if (!measure(t, p, b)) {
            return BY_WHOLE;
        }
        if (b->left > 0 && b->run < sft__base_size.job_long) {
            chosen = BY_MOVES;
        }
        nested = nested && is_nested(b, t->rank);
    }
    return chosen == BY_MOVES && (!nested || t->rank > SFT__JOB_RANK) ? BY_WHOLE : chosen;
}

static sft_status take_tensor(sft_job *job, uint32_t file, size_t tensor, box *b, sft_error *err) {
    sft__checkpoint_job_file *const f = &job->files[file];
    const sft_tensor *const t = sft__checkpoint_job_tensor(f, tensor);
    const uint32_t *const index = job->source_index + f->source_table;
    SFT_TRY(check_cover(job, t, err));
    if (t->nbytes == 0) {
        return SFT_OK;
    }
    const way chosen = choose(t, b);
    bool added = false;
    f->pieces += t->piece_count;
    if (chosen == BY_WHOLE) {
        return sft__checkpoint_job_add_whole(job, file, tensor, err);
    }
    if (t->piece_count == 1 && t->pieces->strides == NULL) {
        const sft__checkpoint_job_run run = {t->pieces->offset, f->offsets[tensor], t->nbytes,
                                             index[t->pieces->source], file};
        return add_run(job, &run, err);
    }
    for (uint32_t i = 0; i < t->piece_count; i++) {
        const sft_piece *const p = &t->pieces[i];
        uint64_t runs = 1;
        (void)measure(t, p, b); /* true: choose() has seen it */
        for (uint32_t d = 0; d < b->left; d++) {
            runs *= b->count[d];
        }
        f->pieces += runs - 1;
        if (runs == 0) {
            continue;
        }
        if (chosen == BY_MOVES) {
            if (!added) {
                SFT_TRY(add_target(job, file, tensor, b, err));
                added = true;
            }
            SFT_TRY(add_move(job, p, index[p->source], b, t->rank, err));
        } else {
            sft__checkpoint_job_run run = {0, f->offsets[tensor], b->run, index[p->source], file};
            for (uint32_t d = 0; d < t->rank; d++) {
                run.to += b->start[d] * b->to[d];
            }
            SFT_TRY(add_runs(job, p, b, run, err));
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_job_take_file(sft_job *job, uint32_t file, sft_error *err) {
    box *const b = sft__base_alloc(job->allocator, sizeof *b);
    sft_status status = SFT_OK;
    SFT_NEED(b != NULL, sizeof *b, err);
    for (size_t i = 0; i < job->files[file].count && status == SFT_OK; i++) {
        status = take_tensor(job, file, i, b, err);
    }
    sft__base_free(job->allocator, b, sizeof *b);
    return status;
}
