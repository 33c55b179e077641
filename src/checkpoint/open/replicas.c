/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/replicas.c - are replicas equal? For each tensor and each part of it, every holder's
 * bytes against the first one's. Read checkpoint/open/checkpoint.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "base/memory/need.h"
#include "checkpoint/open/assembly.h"
#include "checkpoint/open/checkpoint.h"

#define BLOCK (UINT64_C(1) << 20)

typedef struct comparing {
    const sft_checkpoint *c;
    const sft_control *control;
    sft_error *err;
    uint8_t *room; /* two blocks */
    size_t *first; /* holder of each part of the tensor at hand: position + 1 */
    size_t first_room;
    sft_progress progress;
} comparing;

static const sft_tensor *tensor_of(const comparing *k, size_t i, const sft_tensor *like) {
    return sft_catalog_find(k->c->parts[i].catalog, like->name, like->name_len);
}

/* The tensors of two ranks, block by block. */
static sft_status compare(comparing *k, const sft_tensor *like, size_t a, size_t b) {
    const sft_tensor *const x = tensor_of(k, a, like);
    const sft_tensor *const y = tensor_of(k, b, like);
    const unsigned long long rank_a = k->c->parts[a].rank;
    const unsigned long long rank_b = k->c->parts[b].rank;
    if (x->dtype->id != y->dtype->id || x->nbytes != y->nbytes) {
        return sft__base_fail_tensor(
            k->err, SFT_E_MISMATCH, SFT_NO_OFFSET, x->name, x->name_len,
            "ranks %llu and %llu have other dtypes or shapes of the same part", rank_a, rank_b);
    }
    for (uint64_t at = 0; at < x->nbytes; at += BLOCK) {
        const size_t n = (size_t)(x->nbytes - at < BLOCK ? x->nbytes - at : BLOCK);
        uint8_t *const p = k->room;
        uint8_t *const q = k->room + BLOCK;
        SFT_TRY(sft_tensor_read_bytes(k->c->parts[a].catalog, x, at, p, n, k->err));
        SFT_TRY(sft_tensor_read_bytes(k->c->parts[b].catalog, y, at, q, n, k->err));
        if (memcmp(p, q, n) != 0) {
            size_t i = 0;
            while (p[i] == q[i]) {
                i++;
            }
            return sft__base_fail_tensor(
                k->err, SFT_E_MISMATCH, SFT_NO_OFFSET, x->name, x->name_len,
                "replicas of ranks %llu and %llu differ at byte %llu of the part", rank_a, rank_b,
                (unsigned long long)(at + i));
        }
        k->progress.bytes_done += n;
        if (k->control != NULL && k->control->poll != NULL &&
            k->control->poll(k->control->ctx, &k->progress) != 0) {
            return sft__base_fail(k->err, SFT_E_CANCELLED, "cancelled");
        }
    }
    return SFT_OK;
}

/* Ranks of one layout that hold the same part. `from`: the first rank whose layout it is. */
static sft_status compare_parts(comparing *k, const sft_tensor *like, const sft_layout *layout,
                                size_t from) {
    const uint64_t n = sft__layout_part_count(layout);
    const size_t parts = (size_t)n;
    if (n > SFT__MOST_PARTS) {
        return sft__base_fail_tensor(k->err, SFT_E_LIMIT, SFT_NO_OFFSET, like->name, like->name_len,
                                     "a tensor in %llu parts, at most %llu are compared",
                                     (unsigned long long)n, (unsigned long long)SFT__MOST_PARTS);
    }
    SFT_NEED(sft__base_grow(k->c->allocator, &k->first, &k->first_room, parts, sizeof *k->first),
             (size_t)-1, k->err);
    memset(k->first, 0, parts * sizeof *k->first);
    for (size_t i = from; i < k->c->count; i++) {
        uint64_t part;
        if (!sft_layout_holds(layout, k->c->parts[i].rank) || tensor_of(k, i, like) == NULL) {
            continue;
        }
        SFT_TRY(sft__layout_part(layout, k->c->parts[i].rank, &part, k->err));
        if (k->first[part] == 0) {
            k->first[part] = i + 1;
        } else {
            SFT_TRY(compare(k, like, k->first[part] - 1, i));
        }
    }
    return SFT_OK;
}

static sft_status compare_global(comparing *k, const sft_tensor *like, size_t from) {
    for (size_t i = from + 1; i < k->c->count; i++) {
        if (tensor_of(k, i, like) != NULL) {
            SFT_TRY(compare(k, like, from, i));
        }
    }
    return SFT_OK;
}

/* Is rank number i the first that has the tensor under this layout? Another one has done the work
 * otherwise. */
static sft_status compare_name(comparing *k, const sft_tensor *t, size_t i) {
    uint64_t shape[SFT_LAYOUT_RANK];
    const sft_layout *layout;
    size_t dims = t->rank;
    for (size_t d = 0; d < dims && d < SFT_LAYOUT_RANK; d++) {
        shape[d] = t->shape[d];
    }
    SFT_TRY(sft__checkpoint_find_part((void *)(uintptr_t)k->c, t, k->c->parts[i].rank, &layout,
                                      shape, &dims, k->err));
    for (size_t earlier = 0; earlier < i; earlier++) {
        if (tensor_of(k, earlier, t) != NULL &&
            (layout == NULL || sft_layout_holds(layout, k->c->parts[earlier].rank))) {
            return SFT_OK;
        }
    }
    return layout == NULL ? compare_global(k, t, i) : compare_parts(k, t, layout, i);
}

sft_status sft_checkpoint_verify(const sft_checkpoint *checkpoint, const sft_control *control,
                                 uint64_t *compared, sft_error *err) {
    comparing k;
    sft_catalog *global;
    /* What is missing has no replicas to differ. */
    sft_status status = sft_checkpoint_join_ranks(&global, checkpoint, &checkpoint->open, err);
    sft_catalog_close(global);
    SFT_TRY(status);
    memset(&k, 0, sizeof k);
    k.c = checkpoint;
    k.control = control;
    k.err = err;
    k.room = sft__base_alloc(checkpoint->allocator, 2 * (size_t)BLOCK);
    SFT_NEED(k.room != NULL, 2 * (size_t)BLOCK, err);
    for (size_t i = 0; i < checkpoint->count && status == SFT_OK; i++) {
        const sft_catalog *const c = checkpoint->parts[i].catalog;
        for (size_t t = 0; t < sft_catalog_count(c) && status == SFT_OK; t++) {
            status = compare_name(&k, sft_catalog_at(c, t), i);
        }
    }
    if (compared != NULL) {
        *compared = k.progress.bytes_done;
    }
    sft__base_free(checkpoint->allocator, k.room, 2 * (size_t)BLOCK);
    sft__base_free(checkpoint->allocator, k.first, k.first_room * sizeof *k.first);
    return status;
}
