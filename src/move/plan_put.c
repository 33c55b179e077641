/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/plan_put.c - one grid to one target. A target that lends memory is filled in place. Between
 * two descriptors a packed copy stays inside the kernel. Everything else goes through a buffer, in
 * the order of the destination. Read first: plan.h, mover.h.
 */
#include "io/target.h"
#include "move/plan.h"

enum { PUT_STEP = 64 << 20 }; /* bytes copied inside the kernel between two looks at the watch */

static sft_status put_in_memory(const sft__plan_extra *extra, sft_target *target,
                                const sft__mover *m, sft__grid *g, bool *done, sft_error *err) {
    const uint64_t size = extra->dst_end - extra->dst_low;
    void *data;

    *done = size <= SIZE_MAX &&
            sft_target_borrow(target, extra->dst_low, (size_t)size, &data, NULL) == SFT_OK;
    if (!*done) {
        return SFT_OK;
    }
    g->dst -= extra->dst_low;
    return sft__mover_run(m, g, data, err);
}

static sft_status put_in_kernel(sft_target *target, const sft__mover *m, const sft__grid *g,
                                bool *done, sft_error *err) {
    const int fd = sft_source_descriptor(m->source);

    *done = false;
    if (fd < 0 || m->kernel != SFT_KERNEL_COPY || g->rank != 0) {
        return SFT_OK;
    }
    for (uint64_t at = 0; at < g->src_block;) {
        const uint64_t left = g->src_block - at;
        const uint64_t n = left < PUT_STEP ? left : PUT_STEP;
        const sft_status status = sft__target_copy(
            target, g->dst + at, fd, sft_source_name(m->source), g->src + at, n, NULL, err);
        if (status == SFT_E_UNSUPPORTED && at == 0) {
            return SFT_OK;
        }
        *done = true;
        SFT_TRY(status);
        SFT_TRY(sft__watch_add(m->watch, n, err));
        at += n;
    }
    *done = true;
    return SFT_OK;
}

/* A part that fits the buffer: brought there packed, then written run by run. */
static sft_status put_part(sft_target *target, const sft__mover *m, const sft__grid *part,
                           uint8_t *buffer, sft_error *err) {
    sft__grid packed = *part;
    uint32_t d = part->rank;
    uint64_t run = part->dst_block;
    sft__parts runs;
    sft__grid at;
    const uint8_t *from = buffer;

    sft__grid_pack_dst(&packed);
    SFT_TRY(sft__mover_run(m, &packed, buffer, err));
    while (d > 0 && (uint64_t)part->dst_stride[d - 1] == run) {
        run *= part->count[--d];
    }
    if (d == 0) {
        return sft_target_write(target, part->dst, buffer, (size_t)run, err);
    }
    for (sft__parts_begin_at(&runs, part, d - 1, 1); sft__parts_next(&runs, part, &at);) {
        SFT_TRY(sft_target_write(target, at.dst, from, (size_t)run, err));
        from += (size_t)run;
    }
    return SFT_OK;
}

/* A block larger than the buffer, in steps of whole blocks of both types. */
static sft_status put_block(sft_target *target, const sft__mover *m, const sft__grid *part,
                            uint8_t *buffer, uint64_t size, sft_error *err) {
    const sft_dtype *from = m->src_dtype;
    const sft_dtype *to = m->dst_dtype;
    uint64_t elements =
        size / 8 / 4096 * 4096; /* a multiple of every block of the format's types */
    sft__grid step = *part;

    if (m->kernel != SFT_KERNEL_CONVERT) { /* bytes on both sides; whole numbers for a swap */
        from = to = sft_dtype_get(SFT_U8);
        elements = size / 16 * 16;
    }
    const uint64_t src_step = elements / from->block_elements * from->block_bytes;
    const uint64_t dst_step = elements / to->block_elements * to->block_bytes;
    uint64_t src_left = part->src_block;
    uint64_t dst_left = part->dst_block;
    while (src_left > 0) {
        const bool last = src_left <= src_step;
        step.src_block = last ? src_left : src_step;
        step.dst_block = last ? dst_left : dst_step;
        SFT_TRY(put_part(target, m, &step, buffer, err));
        src_left -= step.src_block;
        dst_left -= step.dst_block;
        step.src += step.src_block;
        step.dst += step.dst_block;
    }
    return SFT_OK;
}

static sft_status put_through(sft_target *target, const sft__mover *m, sft__grid *g,
                              uint8_t *buffer, uint64_t size, sft_error *err) {
    sft__parts parts;
    sft__grid part;
    const uint64_t most = size / g->dst_block;

    for (sft__parts_begin(&parts, g, most > 0 ? most : 1); sft__parts_next(&parts, g, &part);) {
        if (part.dst_block > size) {
            SFT_TRY(put_block(target, m, &part, buffer, size, err));
        } else {
            SFT_TRY(put_part(target, m, &part, buffer, err));
        }
    }
    return SFT_OK;
}

sft_status sft__plan_put(const sft_plan *plan, size_t index, const sft__mover *m, sft__grid *g,
                         uint64_t buffer_size, sft_error *err) {
    sft_target *target = plan->targets[plan->moves[index].target];
    bool done;

    SFT_TRY(put_in_memory(&plan->extras[index], target, m, g, &done, err));
    if (done) {
        return SFT_OK;
    }
    sft__grid_dst_ascending(g);
    sft__grid_sort_dst(g);
    sft__grid_coalesce(g);
    SFT_TRY(put_in_kernel(target, m, g, &done, err));
    if (done) {
        return SFT_OK;
    }
    const uint64_t need = sft__grid_blocks(g) * g->dst_block;
    const size_t size = (size_t)(need < buffer_size ? need : buffer_size);
    uint8_t *buffer = sft__alloc(plan->allocator, size);
    if (buffer == NULL) {
        return sft__fail_nomem(err, size);
    }
    const sft_status status = put_through(target, m, g, buffer, size, err);
    sft__free(plan->allocator, buffer, size);
    return status;
}
