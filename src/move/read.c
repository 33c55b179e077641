/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/read.c - the readers of <sft/read.h>: borrow, whole tensors, slices, casts. A view says what
 * is wanted, a mover brings each piece's grid; here they are cut into jobs for a pool. Read first:
 * view.h, mover.h.
 */
#include "move/read.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "move/loop.h"
#include <sft/extend.h>

enum {
    READ_JOB_BYTES = 8 << 20, /* a pool gets jobs of about this size */
    READ_JOBS_MAX = 4096
};

sft_status sft__move_name_tensor(sft_error *err, const sft_tensor *tensor, sft_status status) {
    if (status != SFT_OK && err != NULL && err->tensor[0] == 0) {
        (void)sft__base_escape(err->tensor, sizeof err->tensor, tensor->name, tensor->name_len);
    }
    return status;
}

static sft_status read_args(const sft_catalog *catalog, const sft_tensor *tensor, sft_error *err) {
    if (catalog == NULL || tensor == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog or tensor is NULL");
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- borrow */

sft_status sft_tensor_borrow(const sft_catalog *catalog, const sft_tensor *tensor,
                             const void **data, size_t *size, sft_error *err) {
    static const uint8_t nothing[16];

    if (data != NULL) {
        *data = NULL;
    }
    if (size != NULL) {
        *size = 0;
    }
    if (data == NULL || size == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "data or size is NULL");
    }
    SFT_TRY(read_args(catalog, tensor, err));
    if (tensor->nbytes == 0) {
        *data = nothing;
        return SFT_OK;
    }
    if (!sft__move_packed(tensor)) {
        return SFT_FAIL_TENSOR(err, SFT_E_UNSUPPORTED, tensor,
                               "the tensor does not lie in one piece");
    }
    if (tensor->nbytes > SIZE_MAX) {
        return sft__base_fail_tensor(err, SFT_E_OVERFLOW, tensor->pieces[0].offset, tensor->name,
                                     tensor->name_len,
                                     "%llu bytes are more than this process can address",
                                     (unsigned long long)tensor->nbytes);
    }
    const sft_source *source = sft_catalog_source_at(catalog, tensor->pieces[0].source);
    if (source == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "the tensor is not of this catalog");
    }
    const sft_status status =
        sft_source_borrow(source, tensor->pieces[0].offset, (size_t)tensor->nbytes, data, err);
    *size = status == SFT_OK ? (size_t)tensor->nbytes : 0;
    return sft__move_name_tensor(err, tensor, status);
}

/* ---------------------------------------------------------------- one view */

sft_status sft__move_mover_for(sft__move_mover *m, const sft__move_view *view,
                               const sft_catalog *catalog, uint32_t piece, sft__move_watch *watch,
                               sft_error *err) {
    const sft_piece *p = &view->tensor->pieces[piece];

    m->source = sft_catalog_source_at(catalog, p->source);
    if (m->source == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "the tensor is not of this catalog");
    }
    m->way = view->ways != NULL ? &view->ways[p->source] : NULL;
    m->src_dtype = view->tensor->dtype;
    m->dst_dtype = view->dtype;
    m->kernel = view->kernel;
    m->convert_flags = view->convert_flags;
    m->borrow = view->borrow;
    m->allocator = NULL;
    m->watch = watch;
    return SFT_OK;
}

/* Pieces that overlap count twice, so this finds missing ones only where there is no overlap;
 * catalogs of safetensors files have one piece per tensor, and their reader proved that it is all
 * of it. */
static sft_status read_covered(const sft__move_view *view, uint64_t elements, sft_error *err) {
    if (elements < view->elements) {
        return SFT_FAIL_TENSOR(err, SFT_E_HOLE, view->tensor,
                               "the pieces of the tensor hold %llu of the %llu elements wanted",
                               (unsigned long long)elements, (unsigned long long)view->elements);
    }
    return SFT_OK;
}

sft_status sft__move_view_read(const sft__move_view *view, const sft_catalog *catalog, uint8_t *dst,
                               sft__move_watch *watch, sft_error *err) {
    uint64_t elements = 0;
    sft__move_mover m;
    sft__move_grid g;
    bool empty;

    for (uint32_t i = 0; i < view->tensor->piece_count && view->elements > 0; i++) {
        SFT_TRY(sft__move_view_grid(view, i, &g, &empty, err));
        if (!empty) {
            elements += sft__move_grid_blocks(&g) * sft__move_view_block_elements(view, &g);
            SFT_TRY(sft__move_mover_for(&m, view, catalog, i, watch, err));
            SFT_TRY(sft__move_mover_run(&m, &g, dst, err));
        }
    }
    return read_covered(view, elements, err);
}

/* ---------------------------------------------------------------- with a pool */

typedef struct read_job {
    uint32_t piece;
    sft__move_cut cut;
    uint64_t index;
} read_job;

typedef struct read_jobs {
    const sft__move_view *view;
    const sft_catalog *catalog;
    uint8_t *dst;
    sft__move_loop loop;
    read_job *list;
    size_t count;
    size_t capacity;
} read_jobs;

static sft_status read_one_job(void *ctx, size_t index, sft_error *err) {
    read_jobs *jobs = ctx;
    const read_job *job = &jobs->list[index];
    sft__move_watch *watch = &jobs->loop.watch;
    sft__move_mover m;
    sft__move_grid g;
    bool empty;

    SFT_TRY(sft__move_view_grid(jobs->view, job->piece, &g, &empty, err));
    SFT_TRY(sft__move_mover_for(&m, jobs->view, jobs->catalog, job->piece, watch, err));
    sft__move_grid_for_reading(&g);
    sft__move_grid_cut_apply(&g, &m, job->cut, job->index);
    return sft__move_mover_run(&m, &g, jobs->dst, err);
}

static sft_status read_jobs_make(read_jobs *jobs, sft_error *err) {
    const sft__move_view *view = jobs->view;
    uint64_t elements = 0;
    sft__move_mover m;
    sft__move_grid g;
    bool empty;

    for (uint32_t i = 0; i < view->tensor->piece_count; i++) {
        SFT_TRY(sft__move_view_grid(view, i, &g, &empty, err));
        if (empty) {
            continue;
        }
        SFT_TRY(sft__move_mover_for(&m, view, jobs->catalog, i, &jobs->loop.watch, err));
        sft__move_grid_for_reading(&g);
        const uint64_t blocks = sft__move_grid_blocks(&g);
        uint64_t want = blocks * g.dst_block / READ_JOB_BYTES + 1;
        want = want < READ_JOBS_MAX ? want : READ_JOBS_MAX;
        want = (sft_source_flags(m.source) & SFT_SOURCE_SEQUENTIAL) != 0 ? 1 : want;
        const sft__move_cut cut = sft__move_grid_cut_choose(&g, &m, want);
        elements += blocks * sft__move_view_block_elements(view, &g);
        SFT_TRY(sft__base_need_room(NULL, &jobs->list, &jobs->capacity,
                                    jobs->count + (size_t)cut.jobs, sizeof *jobs->list, err));
        for (uint64_t k = 0; k < cut.jobs; k++) {
            jobs->list[jobs->count++] = (read_job){i, cut, k};
        }
    }
    return read_covered(view, elements, err);
}

static sft_status read_with_pool(const sft__move_view *view, const sft_catalog *catalog,
                                 uint8_t *dst, const sft_read_options *o, sft_error *err) {
    read_jobs jobs = {.view = view, .catalog = catalog, .dst = dst};

    jobs.loop = (sft__move_loop){.pool = o->pool, .block = read_one_job, .ctx = &jobs};
    SFT_TRY(sft__move_loop_begin(&jobs.loop, o->control, view->nbytes, err));
    sft_status status = read_jobs_make(&jobs, err);
    if (status == SFT_OK) {
        status = sft__move_loop_run(&jobs.loop, jobs.count, err);
    }
    sft__base_free(NULL, jobs.list, jobs.capacity * sizeof *jobs.list);
    (void)sft__move_loop_end(&jobs.loop, NULL);
    return status;
}

static sft_status read_alone(const sft__move_view *view, const sft_catalog *catalog, uint8_t *dst,
                             const sft_read_options *o, sft_error *err) {
    sft__move_watch watch;

    SFT_TRY(sft__move_watch_init(&watch, o->control, view->nbytes, false, err));
    sft_status status = sft__move_watch_add(&watch, 0, err); /* one look before the first byte */
    if (status == SFT_OK) {
        status = sft__move_view_read(view, catalog, dst, &watch, err);
    }
    (void)sft__move_watch_end(&watch, NULL);
    return status;
}

/* ---------------------------------------------------------------- public */

sft_status sft_tensor_result(const sft_tensor *tensor, const sft_read_options *options,
                             uint64_t *shape, uint32_t *rank, uint64_t *nbytes, sft_error *err) {
    sft__move_view view;
    sft__move_grid g;
    bool empty;

    if (tensor == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "tensor is NULL");
    }
    sft_status status = sft__move_view_init(&view, tensor, options, err);
    for (uint32_t i = 0; i < tensor->piece_count && status == SFT_OK; i++) {
        status = sft__move_view_grid(&view, i, &g, &empty, err);
    }
    if (status == SFT_OK) {
        uint32_t r = 0;
        for (uint32_t d = 0; d < tensor->rank; d++) {
            if (!view.dims[d].dropped) {
                if (shape != NULL) {
                    shape[r] = view.dims[d].count;
                }
                r++;
            }
        }
        if (rank != NULL) {
            *rank = r;
        }
        if (nbytes != NULL) {
            *nbytes = view.nbytes;
        }
    }
    sft__move_view_reset(&view);
    return sft__move_name_tensor(err, tensor, status);
}

static sft_status read_view(const sft__move_view *view, const sft_catalog *catalog,
                            const sft_read_options *o, void *dst, size_t dst_size, sft_error *err) {
    if (view->span > dst_size) {
        return sft__base_fail(err, SFT_E_ARG, "the result takes %llu bytes, dst has %llu",
                              (unsigned long long)view->span, (unsigned long long)dst_size);
    }
    if (view->kernel == SFT__KERNEL_CONVERT) {
        SFT_TRY(sft_catalog_can_cast(catalog, view->tensor, err));
    }
    if (view->elements == 0) {
        return SFT_OK;
    }
    if (dst == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "dst is NULL");
    }
    if (sft_pool_threads(o->pool) > 1 && view->nbytes > READ_JOB_BYTES) {
        return read_with_pool(view, catalog, dst, o, err);
    }
    return read_alone(view, catalog, dst, o, err);
}

sft_status sft__move_read_any(const sft_catalog *catalog, const sft_tensor *tensor,
                              const sft_read_options *options, void *dst, size_t dst_size,
                              sft_error *err) {
    sft_read_options o;
    sft__move_view view;

    SFT_TRY(read_args(catalog, tensor, err));
    SFT_TRY(sft__move_read_options_get(options, &o, err));
    sft_status status = sft__move_view_init(&view, tensor, options, err);
    if (status == SFT_OK) {
        status = read_view(&view, catalog, &o, dst, dst_size, err);
    }
    sft__move_view_reset(&view);
    return sft__move_name_tensor(err, tensor, status);
}
