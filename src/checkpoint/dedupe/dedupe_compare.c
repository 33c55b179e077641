/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/dedupe/dedupe_compare.c - are the copies that go equal to the one that stays? A block of the
 * common loop is a shard; of several differences the first by name is reported. Read
 * checkpoint/dedupe/dedupe.h first.
 */
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/dedupe/dedupe.h"
#include "move/loop.h"

#define BLOCK ((size_t)1 << 20)

typedef struct comparing {
    const sft_dedupe *d;
    sft__move_loop loop; /* its blocks: shards that have copies; its buffers: two blocks of bytes */
    const sft__checkpoint_shard **shards;
    size_t failed; /* of these the first that differs or cannot be read, under the watch's lock */
    sft_status status;
    sft_error why;
} comparing;

static bool is_compared(const sft__checkpoint_shard *s) {
    return s->keeper != SFT__KEEP_ALL && s->count > 1;
}

static sft_status differ(const sft_dedupe *d, size_t a, size_t b, uint64_t at, sft_error *err) {
    const sft_tensor *const t = sft__checkpoint_dedupe_tensor(d, a);
    const sft_rank_part *const parts = d->checkpoint->parts;
    const unsigned long long rank_a = parts[d->copies[a].part].rank;
    const unsigned long long rank_b = parts[d->copies[b].part].rank;
    return sft__base_fail_tensor(err, SFT_E_MISMATCH, SFT_NO_OFFSET, t->name, t->name_len,
                                 "replicas of ranks %llu and %llu differ at byte %llu of the part",
                                 rank_a < rank_b ? rank_a : rank_b,
                                 rank_a < rank_b ? rank_b : rank_a, (unsigned long long)at);
}

/* One block of the kept copy against the same of all others. */
static sft_status compare_block(comparing *k, const sft__checkpoint_shard *s, uint64_t at, size_t n,
                                uint8_t *room, sft_error *err) {
    const sft_dedupe *const d = k->d;
    const sft_rank_part *const parts = d->checkpoint->parts;
    const size_t kept = s->first + s->keeper;
    uint8_t *const other = room + BLOCK;
    SFT_TRY(sft_tensor_read_bytes(parts[d->copies[kept].part].catalog,
                                  sft__checkpoint_dedupe_tensor(d, kept), at, room, n, err));
    for (size_t i = s->first; i < s->first + s->count; i++) {
        if (i == kept) {
            continue;
        }
        SFT_TRY(sft_tensor_read_bytes(parts[d->copies[i].part].catalog,
                                      sft__checkpoint_dedupe_tensor(d, i), at, other, n, err));
        if (memcmp(room, other, n) != 0) {
            size_t p = 0;
            while (room[p] == other[p]) {
                p++;
            }
            return differ(d, kept, i, at + p, err);
        }
        SFT_TRY(sft__move_loop_add(&k->loop, n, err));
    }
    return SFT_OK;
}

/* Has a shard before this one failed? */
static bool is_decided(comparing *k, size_t index) {
    sft__base_mutex_lock(&k->loop.watch.lock);
    const bool decided = k->failed < index;
    sft__base_mutex_unlock(&k->loop.watch.lock);
    return decided;
}

static void fail_at(comparing *k, size_t index, sft_status status, const sft_error *why) {
    sft__base_mutex_lock(&k->loop.watch.lock);
    if (index < k->failed) {
        k->failed = index;
        k->status = status;
        k->why = *why;
    }
    sft__base_mutex_unlock(&k->loop.watch.lock);
}

/* A failure does not end the loop, for a shard before this one may fail, too: those behind it do nothing. */
static sft_status compare_shard(void *ctx, size_t index, sft_error *err) {
    comparing *const k = ctx;
    const sft__checkpoint_shard *const s = k->shards[index];
    uint8_t *const room = sft__move_loop_take(&k->loop, err);
    sft_status status = room != NULL ? SFT_OK : SFT_E_NOMEM;
    for (uint64_t at = 0; at < s->bytes && status == SFT_OK && !is_decided(k, index); at += BLOCK) {
        const size_t n = s->bytes - at < BLOCK ? (size_t)(s->bytes - at) : BLOCK;
        status = compare_block(k, s, at, n, room, err);
    }
    sft__move_loop_give(&k->loop, room);
    if (status != SFT_OK && status != SFT_E_CANCELLED) {
        fail_at(k, index, status, err);
        return SFT_OK;
    }
    return status;
}

static sft_status compare_all(comparing *k, const sft_control *control, uint64_t *compared,
                              sft_error *err) {
    const sft_dedupe *const d = k->d;
    uint64_t total = 0;
    size_t count = 0;
    for (size_t i = 0; i < d->shard_count; i++) {
        const sft__checkpoint_shard *const s = &d->shards[i];
        if (is_compared(s)) {
            total += s->bytes * (s->count - 1);
            k->shards[count++] = s;
        }
    }
    SFT_TRY(sft__move_loop_begin(&k->loop, control, total, err));
    (void)sft__move_loop_run(&k->loop, count, NULL);
    if (compared != NULL) {
        *compared = k->loop.watch.progress.bytes_done;
    }
    SFT_TRY(sft__move_loop_end(&k->loop, err));
    if (k->status != SFT_OK && err != NULL) {
        *err = k->why;
    }
    return k->status;
}

sft_status sft_dedupe_compare(const sft_dedupe *dedupe, const sft_pool *pool,
                              const sft_control *control, uint64_t *compared, sft_error *err) {
    const size_t room = (dedupe->shard_count + 1) * sizeof(void *);
    comparing k = {.d = dedupe,
                   .loop = {.pool = pool,
                            .allocator = dedupe->allocator,
                            .room = 2 * BLOCK,
                            .block = compare_shard,
                            .ctx = &k},
                   .failed = SIZE_MAX,
                   .shards = sft__base_alloc(dedupe->allocator, room)};
    SFT_NEED(k.shards != NULL, room, err);
    const sft_status status = compare_all(&k, control, compared, err);
    sft__base_free(dedupe->allocator, k.shards, room);
    return status;
}
