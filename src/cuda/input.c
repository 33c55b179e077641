/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/input.c - how each file is read: through the page cache, past it, or past host memory
 * altogether. The choice between the first two is the core's (sft_strategy_choose), but for memory
 * that processor and GPU share, where the page cache would hold everything twice.
 */
#include "cuda/load.h"

#define DIRECT_WORTH ((uint64_t)64 << 20) /* AUTO: as in loads into host memory */

static void choose(sft_cuda *cuda, sft__cuda_input *in, const sft_catalog *catalog, size_t file,
                   uint64_t wanted, sft_strategy asked) {
    sft_strategy_choice c;

    memset(&c, 0, sizeof c);
    if (sft_strategy_choose(catalog, file, asked, &c, NULL) != SFT_OK) {
        in->reason = "nothing is known of the file";
        return;
    }
    in->reason = c.reason;
    if (asked == SFT_STRATEGY_AUTO && c.strategy == SFT_STRATEGY_DIRECT && wanted < DIRECT_WORTH) {
        in->reason = "too little of the file to be worth going past the page cache";
        return;
    }
    if (asked == SFT_STRATEGY_AUTO && c.strategy == SFT_STRATEGY_READ && cuda->unified != 0 &&
        c.cached < 50 &&
        sft_strategy_choose(catalog, file, SFT_STRATEGY_DIRECT, &c, NULL) == SFT_OK &&
        c.strategy == SFT_STRATEGY_DIRECT) {
        in->reason = "unified memory: the page cache would hold everything a second time";
    }
    in->strategy = c.strategy;
}

static void open_input(sft_cuda *cuda, sft__cuda_input *in, const sft_source *source,
                       const sft_cuda_load_options *o) {
    const int fd = sft_source_descriptor(source);

    if (in->strategy == SFT_STRATEGY_DIRECT) {
        in->direct = sft__fs_open_direct(fd);
        if (in->direct < 0) {
            in->strategy = SFT_STRATEGY_READ;
            in->reason = "the file system has no direct reads";
        }
    }
    in->gds_reason = "it was not asked for";
    if ((o->flags & SFT_CUDA_DIRECT_STORAGE) != 0) {
        in->by_gds = sft__cuda_gds_open_file(cuda, source, &in->gds, &in->gds_reason);
    }
    in->stamped = sft__fs_stamp_fd(fd, &in->stamp);
}

void sft__cuda_inputs_open(sft_cuda *cuda, sft_cuda_loaded *l, const sft_cuda_load_options *o) {
    for (size_t i = 0; i < l->plan.source_count; i++) {
        l->inputs[i].direct = -1;
        l->inputs[i].gds.direct = -1;
        l->inputs[i].reason = "nothing of it was wanted";
        l->inputs[i].gds_reason = l->inputs[i].reason;
        if (l->plan.wanted[i] > 0) {
            l->inputs[i].strategy = SFT_STRATEGY_READ;
            l->inputs[i].reason = "the source reads in its own way";
        }
    }
    for (size_t i = 0; i < l->file_count; i++) {
        const sft_file *file = sft_catalog_file_at(l->plan.catalog, i);
        l->file_source[i] = file->source;
        if (file->source < l->plan.source_count && l->plan.wanted[file->source] > 0) {
            choose(cuda, &l->inputs[file->source], l->plan.catalog, i, l->plan.wanted[file->source],
                   o->strategy);
        }
    }
    for (size_t i = 0; i < l->plan.source_count; i++) {
        if (l->plan.wanted[i] > 0) {
            open_input(cuda, &l->inputs[i], sft_catalog_source_at(l->plan.catalog, i), o);
        }
    }
}

sft_status sft__cuda_inputs_close(sft_cuda *cuda, sft_cuda_loaded *l, sft_status status,
                                  sft_error *err) {
    for (size_t i = 0; i < l->plan.source_count; i++) {
        sft__cuda_input *in = &l->inputs[i];
        const sft_source *source = sft_catalog_source_at(l->plan.catalog, i);
        sft__fs_stamp now;
        if (l->plan.wanted[i] == 0) {
            continue;
        }
        sft__fs_close_direct(in->direct);
        in->direct = -1;
        sft__cuda_gds_close_file(cuda, &in->gds);
        if (atomic_load(&in->refused)) {
            in->strategy = SFT_STRATEGY_READ;
            in->reason = "direct reads were refused, the page cache was used";
        }
        if (atomic_load(&in->gds_refused)) {
            in->by_gds = false;
            in->gds_reason = "a read by cuFile failed, the ring was used";
        }
        if (status == SFT_OK && in->stamped &&
            sft__fs_stamp_fd(sft_source_descriptor(source), &now) &&
            (now.size != in->stamp.size || now.mtime_ns != in->stamp.mtime_ns)) {
            status = sft__base_fail(err, SFT_E_CHANGED, "%s changed while it was loaded",
                                    sft_source_name(source));
        }
    }
    return status;
}

sft_status sft__cuda_input_read(sft__cuda_input *in, const sft_source *source, uint64_t offset,
                                uint8_t *dst, uint64_t size, sft_error *err) {
    const uint64_t mask = SFT__FS_DIRECT_ALIGN - 1;
    const uint64_t file_pages = sft_source_size(source) & ~mask;
    const uint64_t end = offset + size; /* within the source */
    uint64_t from = offset;

    if (in->direct >= 0 && !atomic_load_explicit(&in->refused, memory_order_relaxed)) {
        const uint64_t a = offset & ~mask;
        uint64_t b = (end + mask) & ~mask; /* a file is far from 2^64 long */
        b = b < file_pages ? b : file_pages;
        if (b > a && sft__fs_read_direct(in->direct, a, dst - (offset - a), (size_t)(b - a))) {
            from = b < end ? b : end;
        } else if (b > a) {
            atomic_store_explicit(&in->refused, true, memory_order_relaxed);
        }
    }
    return from == end ? SFT_OK
                       : sft_source_read(source, from, dst + (size_t)(from - offset),
                                         (size_t)(end - from), err);
}
