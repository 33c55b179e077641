/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/dedupe/dedupe_compare.c - are the copies that go equal to the one that stays? Each thread
 * takes the next shard; of several differences the first by name is told. Read checkpoint/dedupe/dedupe.h
 * first.
 */
#include "base/error.h"
#include "base/thread/thread.h"
#include "checkpoint/dedupe/dedupe.h"

#define BLOCK ((size_t)1 << 20)

typedef struct comparing {
    const sft_dedupe *d;
    const sft_control *control;
    sft__base_mutex lock; /* of what follows */
    size_t next;
    size_t failed; /* the first shard that failed, SIZE_MAX: none */
    sft_status status;
    sft_error why;
    sft_progress progress;
} comparing;

static bool is_compared(const sft__checkpoint_shard *s) {
    return s->keeper != SFT__KEEP_ALL && s->count > 1;
}

/* False: cancelled. Lock not held. */
static bool go_on(comparing *k, size_t bytes) {
    sft__base_mutex_lock(&k->lock);
    k->progress.bytes_done += bytes;
    const bool stop = k->control != NULL && k->control->poll != NULL &&
                      k->control->poll(k->control->ctx, &k->progress) != 0;
    sft__base_mutex_unlock(&k->lock);
    return !stop;
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
        if (!go_on(k, n)) {
            return sft__base_fail(err, SFT_E_CANCELLED, "cancelled");
        }
    }
    return SFT_OK;
}

static sft_status compare_shard(comparing *k, const sft__checkpoint_shard *s, uint8_t *room,
                                sft_error *err) {
    for (uint64_t at = 0; at < s->bytes; at += BLOCK) {
        const size_t n = s->bytes - at < BLOCK ? (size_t)(s->bytes - at) : BLOCK;
        SFT_TRY(compare_block(k, s, at, n, room, err));
    }
    return SFT_OK;
}

/* Lock not held. False: nothing is left, or nothing before a failure. */
static bool take_next(comparing *k, size_t *which) {
    sft__base_mutex_lock(&k->lock);
    while (k->next < k->d->shard_count && !is_compared(&k->d->shards[k->next])) {
        k->next++;
    }
    *which = k->next;
    const bool any = k->next < k->d->shard_count && k->next < k->failed;
    k->next += any;
    sft__base_mutex_unlock(&k->lock);
    return any;
}

static void fail_at(comparing *k, size_t which, sft_status status, const sft_error *why) {
    sft__base_mutex_lock(&k->lock);
    if (k->failed == SIZE_MAX || which < k->failed) {
        k->failed = which;
        k->status = status;
        k->why = *why;
    }
    sft__base_mutex_unlock(&k->lock);
}

static void work(void *ctx, size_t thread) {
    comparing *const k = ctx;
    const sft_allocator *const a = k->d->allocator;
    uint8_t *const room = sft__base_alloc(a, 2 * BLOCK);
    sft_error err;
    size_t which;
    (void)thread;
    if (room == NULL) {
        sft_status status = sft__base_fail_nomem(&err, 2 * BLOCK);
        fail_at(k, 0, status, &err);
        return;
    }
    while (take_next(k, &which)) {
        const sft_status status = compare_shard(k, &k->d->shards[which], room, &err);
        if (status != SFT_OK) {
            fail_at(k, which, status, &err);
        }
    }
    sft__base_free(a, room, 2 * BLOCK);
}

sft_status sft_dedupe_compare(const sft_dedupe *dedupe, const sft_pool *pool,
                              const sft_control *control, uint64_t *compared, sft_error *err) {
    comparing k;
    memset(&k, 0, sizeof k);
    k.d = dedupe;
    k.control = control;
    k.failed = SIZE_MAX;
    for (size_t i = 0; i < dedupe->shard_count; i++) {
        const sft__checkpoint_shard *const s = &dedupe->shards[i];
        k.progress.bytes_total += is_compared(s) ? s->bytes * (s->count - 1) : 0;
    }
    if (!sft__base_mutex_init(&k.lock)) {
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    sft_pool_run(pool, sft_pool_threads(pool), work, &k);
    sft__base_mutex_reset(&k.lock);
    if (compared != NULL) {
        *compared = k.progress.bytes_done;
    }
    if (k.failed != SIZE_MAX && err != NULL) {
        *err = k.why;
    }
    return k.failed != SIZE_MAX ? k.status : SFT_OK;
}
