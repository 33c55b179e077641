/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fuzz/fuzz_layout.c - any bytes as a description of layouts: MindSpore strategies in protobuf and
 * JSON, our own form, topologies, tensor-parallel plans. What is read can be written in our form
 * and read again, and every rank's part lies inside its tensor.
 */
#include "fuzz.h"
#include "layout/layout.h"

#include <sft/layout_set.h>

static sft_status parse(sft_layout_set **set, const void *data, size_t size, sft_error *err) {
    sft_layout_set_options options;
    sft_limits limits;
    SFT_INIT(&options);
    SFT_INIT(&limits);
    limits.memory_bytes = 64u << 20;
    options.limits = &limits;
    options.ranks = 4;
    return sft_layout_set_parse(set, data, size, "fuzz", &options, err);
}

static void check_parts(const sft_layout_entry *e) {
    const uint64_t ranks = sft_layout_rank_count(e->layout);
    uint64_t local[SFT_LAYOUT_RANK], start[SFT_LAYOUT_RANK], count[SFT_LAYOUT_RANK],
        at[SFT_LAYOUT_RANK];
    const sft__layout_shard shard = {start, count, at};
    for (uint64_t i = 0; i < ranks && i < 8; i++) {
        uint64_t rank, part;
        uint64_t shards = 0;
        CHECK(sft_layout_rank_at(e->layout, i, &rank, NULL) == SFT_OK);
        CHECK(sft_layout_holds(e->layout, rank));
        CHECK(sft__layout_part(e->layout, rank, &part, NULL) == SFT_OK);
        CHECK(part < sft__layout_part_count(e->layout));
        if (sft_layout_local_shape(e->layout, e->shape, e->dims, rank, local, NULL) != SFT_OK ||
            sft__layout_shard_count(&(sft__layout_local){e->layout, e->shape, e->dims, rank},
                                    &shards, NULL) != SFT_OK) {
            continue;
        }
        for (uint64_t k = 0; k < shards && k < 4; k++) {
            CHECK(sft__layout_shard_at(&(sft__layout_local){e->layout, e->shape, e->dims, rank}, k,
                                       &shard, NULL) == SFT_OK);
            for (size_t d = 0; d < e->dims; d++) {
                CHECK(count[d] != 0 && start[d] <= e->shape[d] &&
                      count[d] <= e->shape[d] - start[d]);
            }
        }
    }
}

/* Our own form of it says the same. */
static void check_written(const sft_layout_set *set) {
    sft_layout_set *again;
    sft_error err;
    size_t size, second;
    CHECK(sft_layout_set_write(set, NULL, 0, &size, NULL) == SFT_OK);
    char *const text = malloc(size);
    CHECK(text != NULL && sft_layout_set_write(set, text, size, &size, NULL) == SFT_OK);
    if (parse(&again, text, size, &err) == SFT_OK) {
        CHECK(sft_layout_set_count(again) == sft_layout_set_count(set));
        /* a topology may list files that hold nothing */
        CHECK(sft_layout_set_ranks(again) <= sft_layout_set_ranks(set));

        CHECK(sft_layout_set_write(again, NULL, 0, &second, NULL) == SFT_OK && second == size);
        sft_layout_set_free(again);
    } else {
        CHECK(err.status == SFT_E_LIMIT); /* the written form is longer */
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sft_layout_set *set;
    sft_error err;
    memset(&err, 0, sizeof err);
    const sft_status status = parse(&set, data, size, &err);
    CHECK(err.status == (int32_t)status);
    if (status != SFT_OK) {
        CHECK(set == NULL && err.message[0] != '\0');
        return 0;
    }
    for (size_t i = 0; i < sft_layout_set_count(set); i++) {
        sft_layout_entry e;
        SFT_INIT(&e);
        CHECK(sft_layout_set_at(set, i, &e, NULL) == SFT_OK);
        CHECK(e.name[e.name_len] == '\0' && e.cut != NULL && e.mesh != NULL);
        if (e.layout != NULL && e.has_shape) {
            check_parts(&e);
        }
    }
    check_written(set);
    sft_layout_set_free(set);
    return 0;
}
