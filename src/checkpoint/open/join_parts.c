/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/join_parts.c - the pieces of one cut tensor: of each part's holder, of another
 * stage where a group lacks a part, and which box nobody has. Read checkpoint/open/join.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/open/join.h"
#include "checkpoint/open/tiling.h"
#include "layout/layout.h"

/* ---------------------------------------------------------------- what nobody has */

static bool has_file(const sft__checkpoint_joining *j, uint64_t rank) {
    for (size_t i = 0; i < j->count; i++) {
        if (j->parts[i].rank == rank) {
            return true;
        }
    }
    return false;
}

/* Is the part empty? Then nobody needs to have it. Otherwise says which box is missing. */
static sft_status missing(const sft__checkpoint_joining *j, const sft__checkpoint_join_subject *s,
                          uint64_t rank) {
    uint64_t start[SFT_LAYOUT_RANK], count[SFT_LAYOUT_RANK], local[SFT_LAYOUT_RANK];
    const sft__layout_shard shard = {start, count, local};
    const sft__layout_local held = {s->layout, s->shape, s->dims, rank};
    uint64_t shards = 0;
    char box[160];
    SFT_TRY(sft__layout_shard_count(&held, &shards, j->err));
    if (shards == 0) {
        return SFT_OK;
    }
    SFT_TRY(sft__layout_shard_at(&held, 0, &shard, j->err));
    sft__checkpoint_box_describe(box, sizeof box, start, count, s->dims);
    return sft__base_fail_tensor(
        j->err, SFT_E_HOLE, SFT_NO_OFFSET, s->like->name, s->like->name_len,
        "no file holds the box %s, which is rank %llu's%s", box, (unsigned long long)rank,
        has_file(j, rank) ? "" : " (it has no file)");
}

sft_status sft__checkpoint_join_boxes(const sft__checkpoint_joining *j,
                                      const sft__checkpoint_join_subject *s) {
    const size_t parts = (size_t)sft__layout_part_count(s->layout);
    const size_t numbers = 2 * s->dims + 1;
    uint64_t *const room = sft__base_alloc_array(j->allocator, parts * numbers, sizeof *room);
    sft__checkpoint_box *const boxes = sft__base_alloc_array(j->allocator, parts, sizeof *boxes);
    uint64_t local[SFT_LAYOUT_RANK];
    size_t n = 0;
    sft_status status = SFT_OK;
    if (room == NULL || boxes == NULL) {
        status = sft__base_fail_nomem(j->err, parts * sizeof *boxes);
    }
    for (size_t i = 0; i < parts && status == SFT_OK; i++) {
        uint64_t shards = 0;
        const sft__layout_shard shard = {room + n * numbers, room + n * numbers + s->dims, local};
        if (j->holder[s->base + i] == 0) {
            continue;
        }
        const uint64_t rank = j->parts[j->holder[s->base + i] - 1].rank;
        const sft__layout_local held = {s->layout, s->shape, s->dims, rank};
        status = sft__layout_shard_count(&held, &shards, j->err);
        if (status == SFT_OK && shards != 0) {
            status = sft__layout_shard_at(&held, 0, &shard, j->err);
            boxes[n].start = shard.start;
            boxes[n++].count = shard.count;
        }
    }
    if (status == SFT_OK) {
        const sft__checkpoint_tiling tiling = {j->allocator, s->like, s->shape, s->dims, j->err};
        status = sft__checkpoint_tiling_check(&tiling, boxes, n);
    }
    sft__base_free(j->allocator, room, parts * numbers * sizeof *room);
    sft__base_free(j->allocator, boxes, parts * sizeof *boxes);
    return status;
}

/* ---------------------------------------------------------------- pieces */

sft_status sft__checkpoint_join_part(sft__checkpoint_joining *j,
                                     const sft__checkpoint_join_subject *s, size_t which) {
    uint64_t start[SFT_LAYOUT_RANK], count[SFT_LAYOUT_RANK], local[SFT_LAYOUT_RANK];
    const sft__layout_shard shard = {start, count, local};
    const uint64_t rank = j->parts[which].rank;
    const sft__layout_local held = {s->layout, s->shape, s->dims, rank};
    const sft_tensor *const t = j->found[which];
    uint64_t shards = 0;
    j->cut = j->cut || t->rank != s->dims ||
             (t->rank != 0 && memcmp(t->shape, s->shape, t->rank * sizeof *t->shape) != 0);
    SFT_TRY(sft__layout_shard_count(&held, &shards, j->err));
    for (uint64_t i = 0; i < shards; i++) {
        SFT_TRY(sft__layout_shard_at(&held, i, &shard, j->err));
        if (sft_layout_is_flat(s->layout)) {
            SFT_TRY(
                sft__checkpoint_assembly_run(&j->assembly, which, t, &shard, (uint32_t)s->dims));
        } else {
            SFT_TRY(sft__checkpoint_assembly_box(&j->assembly, which, t, local, count, start));
        }
    }
    j->load[which] += t->nbytes;
    return SFT_OK;
}

/* ---------------------------------------------------------------- a box from another stage */

void sft__checkpoint_join_select(const sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                                 size_t which) {
    s->layout = j->groups[which].layout;
    s->base = j->groups[which].base;
}

static uint64_t volume(const uint64_t *count, size_t dims) {
    uint64_t n = 1;
    for (size_t d = 0; d < dims; d++) {
        n *= count[d]; /* at most the elements of the tensor */
    }
    return n;
}

/* What part `which` of a group's holder has of the box: added as pieces where `take`, its elements
 * counted. */
static sft_status from_part(sft__checkpoint_joining *j, const sft__checkpoint_join_subject *s,
                            size_t which, const uint64_t *box, bool take, uint64_t *elements) {
    uint64_t start[SFT_LAYOUT_RANK], count[SFT_LAYOUT_RANK], local[SFT_LAYOUT_RANK];
    const sft__layout_shard shard = {start, count, local};
    const sft_tensor *const t = j->found[which];
    const uint64_t rank = j->parts[which].rank;
    const sft__layout_local held = {s->layout, s->shape, s->dims, rank};
    uint64_t shards = 0;
    SFT_TRY(sft__layout_shard_count(&held, &shards, j->err));
    for (uint64_t i = 0; i < shards; i++) {
        bool apart = false;
        SFT_TRY(sft__layout_shard_at(&held, i, &shard, j->err));
        for (size_t d = 0; d < s->dims; d++) {
            const uint64_t low = start[d] > box[d] ? start[d] : box[d];
            const uint64_t end = start[d] + count[d];
            const uint64_t box_end = box[d] + box[s->dims + d];
            const uint64_t high = end < box_end ? end : box_end;
            apart = apart || low >= high;
            local[d] += low - start[d];
            start[d] = low;
            count[d] = high - low;
        }
        if (apart) {
            continue;
        }
        *elements += volume(count, s->dims);
        if (take) {
            SFT_TRY(sft__checkpoint_assembly_box(&j->assembly, which, t, local, count, start));
        }
    }
    return SFT_OK;
}

/* All that the group holds of the box. */
static sft_status from_group(sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                             const uint64_t *box, bool take, uint64_t *elements) {
    const size_t parts = (size_t)sft__layout_part_count(s->layout);
    *elements = 0;
    for (size_t i = 0; i < parts; i++) {
        const size_t holder = j->holder[s->base + i];
        if (holder != 0) {
            SFT_TRY(from_part(j, s, holder - 1, box, take, elements));
        }
    }
    return SFT_OK;
}

/* Each box of a part that nobody of its group has, out of one other group that has all of it. */
static sft_status borrow_part(sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                              size_t own, uint64_t rank) {
    uint64_t box[2 * SFT_LAYOUT_RANK], local[SFT_LAYOUT_RANK];
    const sft__layout_shard shard = {box, box + s->dims, local};
    const sft__layout_local held = {s->layout, s->shape, s->dims, rank};
    uint64_t shards = 0;
    SFT_TRY(sft__layout_shard_count(&held, &shards, j->err));
    for (uint64_t i = 0; i < shards; i++) {
        bool found = false;
        sft__checkpoint_join_select(j, s, own);
        SFT_TRY(sft__layout_shard_at(&held, i, &shard, j->err));
        for (size_t g = 0; g < j->group_count && !found; g++) {
            uint64_t elements;
            if (g == own) {
                continue;
            }
            sft__checkpoint_join_select(j, s, g);
            SFT_TRY(from_group(j, s, box, false, &elements));
            if (elements == volume(box + s->dims, s->dims)) {
                SFT_TRY(from_group(j, s, box, true, &elements));
                found = true;
            }
        }
        sft__checkpoint_join_select(j, s, own);
        if (!found) {
            return missing(j, s, rank);
        }
    }
    return SFT_OK;
}

/* The parts of the group at hand that have boxes and no holder: the first is counted, or all are
 * borrowed. */
sft_status sft__checkpoint_join_missing(sft__checkpoint_joining *j, sft__checkpoint_join_subject *s,
                                        size_t own, bool borrow, uint64_t *count) {
    *count = 0;
    for (uint64_t i = 0; i < sft_layout_rank_count(s->layout); i++) {
        uint64_t rank, part;
        uint64_t shards = 0;
        SFT_TRY(sft_layout_rank_at(s->layout, i, &rank, j->err));
        SFT_TRY(sft__layout_part(s->layout, rank, &part, j->err));
        if (j->holder[s->base + part] != 0) {
            continue;
        }
        const sft__layout_local held = {s->layout, s->shape, s->dims, rank};
        SFT_TRY(sft__layout_shard_count(&held, &shards, j->err));
        *count += shards != 0;
        if (!borrow && shards != 0) {
            return SFT_OK; /* one is enough to know */
        }
        if (shards != 0) {
            const sft_status status = borrow_part(j, s, own, rank);
            if (status != SFT_OK && (status != SFT_E_HOLE || !j->what->holes)) {
                return status;
            }
            j->holder[s->base + part] = SFT__BORROWED; /* replicas of it are not missing any more */
        }
    }
    return SFT_OK;
}
