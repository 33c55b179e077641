/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/tensorflow/tf_data.c - the shards beside an index, and where the bytes of its tensors lie in them.
 * Read first: tf.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/core/beside.h"
#include "import/tensorflow/tf.h"
#include <sft/digest.h>
#include <stdio.h>
#include <stdlib.h>

enum { SUM_BLOCK = 1 << 20 };

static sft_status open_shard(sft__import_tf *tf, uint64_t number, sft__import_tf_shard **out,
                             sft_error *err) {
    char location[SFT__TF_PATH];
    sft__import_tf_shard *s = &tf->shards[number];
    sft_source *source;
    sft_error why;

    *out = s;
    memset(&why, 0, sizeof why);
    if (s->source != NULL) {
        return SFT_OK;
    }
    const int n = snprintf(location, sizeof location, "%s.data-%05u-of-%05u", tf->stem,
                           (unsigned)number, (unsigned)tf->shard_count);
    if (n < 0 || (size_t)n >= sizeof location) {
        return sft__base_fail(err, SFT_E_PATH, "the path is too long");
    }
    const sft_status status =
        sft__import_beside_open(&source, tf->job, location, number < SFT__BESIDE_OPEN, &why);
    if (status == SFT_E_IO) {
        return sft__base_fail(err, SFT_E_SHARD_MISSING, "tf-bundle: %s: %s", location, why.message);
    }
    if (status != SFT_OK) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    s->size = sft_source_size(source);
    if (!sft__base_add64(tf->job->beside_bytes, s->size, &tf->job->beside_bytes)) {
        tf->job->beside_bytes = UINT64_MAX;
    }
    SFT_TRY(sft_builder_add_source(tf->job->builder, source, &s->index, err));
    s->source = source;
    return SFT_OK;
}

/* Keeps the place, for check_places. */
sft_status sft__import_tf_keep_place(sft__import_tf *tf, const sft__import_tf_place *p,
                                     sft_error *err) {
    if (p->size == 0) {
        return SFT_OK;
    }
    SFT_TRY(SFT_ONE_MORE(tf->job->allocator, tf->places, tf->place_room, tf->place_count, err));
    if (tf->place_room * sizeof *tf->places > tf->job->options.memory_bytes / 4) {
        return sft__base_fail(err, SFT_E_LIMIT, "memory: %zu tensors in one checkpoint",
                              tf->place_count);
    }
    tf->places[tf->place_count++] = *p;
    return SFT_OK;
}

static sft_status check_sum(sft__import_tf *tf, const sft_source *source, const sft_tensor *t,
                            const sft__import_tf_place *p, uint32_t want, sft_error *err) {
    const size_t room = p->size < SUM_BLOCK ? (size_t)p->size : SUM_BLOCK;
    uint32_t crc = 0;

    if ((tf->job->options.flags & SFT_IMPORT_CHECKSUMS) == 0 || p->size == 0) {
        return SFT_OK;
    }
    uint8_t *buffer;
    SFT_TRY(sft__base_need(tf->job->allocator, &buffer, room, err));
    sft_status status = SFT_OK;
    for (uint64_t at = 0; at < p->size && status == SFT_OK;) {
        const size_t n = p->size - at < room ? (size_t)(p->size - at) : room;
        status = sft_source_read(source, p->offset + at, buffer, n, err);
        crc = status == SFT_OK ? sft_crc32c(crc, buffer, n) : crc;
        at += n;
    }
    sft__base_free(tf->job->allocator, buffer, room);
    const uint32_t have = sft__import_tf_masked(crc);
    if (status != SFT_OK || have == want) {
        return status;
    }
    if (tf->job->scanning) {
        sft__import_find(tf->job, SFT__RULE(CONTAINER, UNKNOWN, "crc-mismatch"),
                         SFT__NAMED(t, p->offset),
                         "the masked CRC32C of its bytes is %08x, the index says %08x",
                         (unsigned)have, (unsigned)want);
        return SFT_OK;
    }
    return sft__base_fail_tensor(
        err, SFT_E_MISMATCH, p->offset, t->name, t->name_len,
        "crc-mismatch: the masked CRC32C of its bytes is %08x, the index says "
        "%08x",
        (unsigned)have, (unsigned)want);
}

sft_status sft__import_tf_data(sft__import_tf *tf, const sft_tensor *t,
                               const sft__import_tf_place *place, uint32_t crc, sft_piece *piece,
                               sft_error *err) {
    const uint32_t width = t->dtype->id == SFT__C128 ? 8
                           : t->dtype->id == SFT_C64 ? 4
                                                     : t->dtype->block_bytes;
    sft__import_tf_shard *shard;
    sft_source *made;

    if (place->shard >= tf->shard_count) {
        return sft__base_fail_tensor(
            err, SFT_E_SCHEMA, SFT_NO_OFFSET, t->name, t->name_len, "tf-bundle: shard %llu of %llu",
            (unsigned long long)place->shard, (unsigned long long)tf->shard_count);
    }
    SFT_TRY(open_shard(tf, place->shard, &shard, err));
    if (place->offset > shard->size || place->size > shard->size - place->offset) {
        return sft__base_fail_tensor(
            err, SFT_E_SIZE, place->offset, t->name, t->name_len,
            "tf-bundle: %llu bytes at %llu of shard %llu, which has %llu",
            (unsigned long long)place->size, (unsigned long long)place->offset,
            (unsigned long long)place->shard, (unsigned long long)shard->size);
    }
    SFT_TRY(sft__import_tf_keep_place(tf, place, err));
    SFT_TRY(check_sum(tf, shard->source, t, place, crc, err));
    piece->offset = place->offset;
    piece->source = shard->index;
    if (tf->big && width > 1 && place->size != 0) {
        const sft__import_block_map m = {sft__import_block_swap, width, width, width};
        SFT_TRY(sft__import_source_map(&made, shard->source,
                                       (sft__import_extent){place->offset, place->size / width}, &m,
                                       tf->job->allocator, err));
        SFT_TRY(sft_builder_add_source(tf->job->builder, made, &piece->source, err));
        piece->offset = 0;
    }
    return SFT_OK;
}

static int by_place(const void *a, const void *b) {
    const sft__import_tf_place *x = a;
    const sft__import_tf_place *y = b;
    return x->shard != y->shard     ? (x->shard < y->shard ? -1 : 1)
           : x->offset != y->offset ? (x->offset < y->offset ? -1 : 1)
                                    : 0;
}

/* No byte of a shard belongs to two tensors; what belongs to none is told. */
sft_status sft__import_tf_check_places(sft__import_tf *tf, sft_error *err) {
    uint64_t unused = 0;
    uint64_t used = 0;

    if (tf->place_count > 1) {
        qsort(tf->places, tf->place_count, sizeof *tf->places, by_place);
    }
    for (size_t i = 0; i < tf->place_count; i++) {
        const sft__import_tf_place *p = &tf->places[i];
        if (i != 0 && p[-1].shard == p->shard && p[-1].offset + p[-1].size > p->offset) {
            return sft__import_trick(tf->job, SFT__RULE(CONTAINER, UNKNOWN, "tf-overlap"),
                                     SFT__AT("", 0, p->offset), err,
                                     "two tensors share bytes of shard %llu at %llu",
                                     (unsigned long long)p->shard, (unsigned long long)p->offset);
        }
        used = sft__base_add64(used, p->size, &used) ? used : UINT64_MAX;
    }
    for (uint64_t s = 0; s < tf->shard_count; s++) {
        unused += tf->shards[s].source != NULL ? tf->shards[s].size : 0;
    }
    sft__import_report_unused(tf->job->report, unused > used ? unused - used : 0);
    return SFT_OK;
}
