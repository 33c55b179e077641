/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/input.c - how each file is read: by the core's reader (io/reader.h), or past host memory altogether.
 * The reader's choice stands, but for memory that processor and GPU share, where the page cache would hold
 * everything twice.
 */
#include "cuda/load.h"

static void open_input(sft_cuda *cuda, sft__cuda_input *in, const sft_cuda_load_options *o) {
    sft__io_reader *r = &in->reader;

    sft__io_reader_open(r, o->strategy, false);
    if (o->strategy == SFT_STRATEGY_AUTO && r->choice.strategy == SFT_STRATEGY_READ &&
        cuda->unified != 0 && r->choice.cached < 50) {
        const char *const reason = r->choice.reason;
        sft__io_reader_open(r, SFT_STRATEGY_DIRECT, false);
        r->choice.reason =
            r->choice.strategy == SFT_STRATEGY_DIRECT
                ? "unified memory: the page cache would hold everything a second time"
                : reason;
    }
    in->gds_reason = "it was not asked for";
    if ((o->flags & SFT_CUDA_DIRECT_STORAGE) != 0) {
        in->by_gds = sft__cuda_gds_open_file(cuda, r->source, &in->gds, &in->gds_reason);
    }
}

void sft__cuda_inputs_open(sft_cuda *cuda, sft_cuda_loaded *l, const sft_cuda_load_options *o) {
    for (size_t i = 0; i < l->file_count; i++) {
        l->file_source[i] = sft_catalog_file_at(l->plan.catalog, i)->source;
    }
    for (size_t i = 0; i < l->plan.source_count; i++) {
        sft__cuda_input *in = &l->inputs[i];
        in->reader.source = sft_catalog_source_at(l->plan.catalog, i);
        in->reader.wanted = l->plan.wanted[i];
        in->reader.total = l->plan.bytes;
        in->reader.direct = -1;
        in->gds.direct = -1;
        in->gds_reason = "nothing of it was wanted";
        if (in->reader.wanted > 0) {
            open_input(cuda, in, o);
        }
    }
}

sft_status sft__cuda_inputs_close(sft_cuda *cuda, sft_cuda_loaded *l, sft_status status,
                                  sft_error *err) {
    for (size_t i = 0; i < l->plan.source_count; i++) {
        sft__cuda_input *in = &l->inputs[i];
        sft__io_reader_close(&in->reader);
        sft__cuda_gds_close_file(cuda, &in->gds);
        if (atomic_load(&in->gds_refused)) {
            in->by_gds = false;
            in->gds_reason = "a read by cuFile failed, the ring was used";
        }
        if (status == SFT_OK) {
            status = sft__io_reader_unchanged(&in->reader, "loaded", err);
        }
    }
    return status;
}
