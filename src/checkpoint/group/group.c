/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group.c - see group.h. Numbers and error records travel as they lie in memory: the
 * processes of a group run the same build.
 */
#include "checkpoint/group/group.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include <stdio.h>

sft_status sft__checkpoint_group_check(const sft_group *g, sft_error *err) {
    if (g == NULL) {
        return SFT_OK;
    }
    if (g->struct_size < SFT__UP_TO(sft_group, ctx)) { /* what the first version had */
        return sft__base_fail(err, SFT_E_ARG, "group without struct_size: use SFT_INIT");
    }
    if (g->size == 0 || g->rank >= g->size || (g->size > 1 && g->allgather == NULL)) {
        return sft__base_fail(err, SFT_E_ARG,
                              "a group of %lu processes without rank %lu, or a function",
                              (unsigned long)g->size, (unsigned long)g->rank);
    }
    return SFT_OK;
}

/* One block; failures always leave a message. */
static sft_status gather_block(const sft_group *g, const void *mine, size_t bytes, void *all,
                               sft_error *err) {
    sft_error why;
    memset(&why, 0, sizeof why);
    why.offset = SFT_NO_OFFSET;
    const sft_status status = g->allgather(g->ctx, mine, bytes, all, &why);
    if (status != SFT_OK && err != NULL) {
        *err = why;
    }
    return status;
}

sft_status sft__checkpoint_group_gather(const sft_group *g, const void *mine, size_t bytes,
                                        void *all, sft_error *err) {
    if (!sft__checkpoint_group_is_many(g)) {
        memcpy(all, mine, bytes);
        return SFT_OK;
    }
    if (bytes <= SFT_GROUP_BLOCK) {
        return gather_block(g, mine, bytes, all, err);
    }
    size_t room;
    SFT_NEED(sft__base_mul_size(g->size, SFT_GROUP_BLOCK, &room), SIZE_MAX, err);
    uint8_t *const blocks = sft__base_alloc(NULL, room);
    SFT_NEED(blocks != NULL, room, err);
    sft_status status = SFT_OK;
    for (size_t at = 0; at < bytes && status == SFT_OK; at += SFT_GROUP_BLOCK) {
        const size_t left = bytes - at;
        const size_t n = left < SFT_GROUP_BLOCK ? left : SFT_GROUP_BLOCK;
        status = gather_block(g, (const uint8_t *)mine + at, n, blocks, err);
        for (size_t k = 0; k < g->size && status == SFT_OK; k++) {
            memcpy((uint8_t *)all + k * bytes + at, blocks + k * n, n);
        }
    }
    sft__base_free(NULL, blocks, room);
    return status;
}

/* ---------------------------------------------------------------- one status */

typedef struct verdict {
    int32_t status;
    uint32_t weak;
    uint64_t number;
} verdict;

/* The rank whose failure is told: SIZE_MAX if there is none. */
static size_t choose(const verdict *all, size_t count) {
    size_t weak = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (all[i].status != SFT_OK && all[i].weak == 0) {
            return i;
        }
        weak = all[i].status != SFT_OK && weak == SIZE_MAX ? i : weak;
    }
    return weak;
}

/* Does it name a rank already: what was agreed on before, or what is told of another one? */
static bool names_rank(const char *message) {
    const char *p = message + 5;
    if (strncmp(message, "rank ", 5) != 0) {
        return false;
    }
    while (*p >= '0' && *p <= '9') {
        p++;
    }
    return p > message + 5 && p[0] == ':' && p[1] == ' ';
}

/* Everybody takes over the record of rank `of`. */
static sft_status share_error(const sft_group *g, size_t of, sft_status status, sft_error *err) {
    sft_error mine;
    sft_error *const all = sft__base_alloc_array(NULL, g->size, sizeof *all);
    memset(&mine, 0, sizeof mine);
    mine.offset = SFT_NO_OFFSET;
    if (err != NULL && g->rank == of) {
        mine = *err;
    }
    SFT_NEED(all != NULL, g->size * sizeof *all, err);
    const sft_status told = sft__checkpoint_group_gather(g, &mine, sizeof mine, all, err);
    if (told == SFT_OK && err != NULL) {
        const sft_error *const why = &all[of];
        *err = *why;
        err->status = status;
        if (!names_rank(why->message)) {
            (void)snprintf(err->message, sizeof err->message, "rank %llu: %.320s",
                           (unsigned long long)of, why->message);
        }
    }
    sft__base_free(NULL, all, g->size * sizeof *all);
    return told == SFT_OK ? status : told;
}

static sft_status settle(const sft_group *g, verdict *mine, sft_error *err) {
    sft_error none;
    if (!sft__checkpoint_group_is_many(g)) {
        return mine->status;
    }
    verdict *const all = sft__base_alloc_array(NULL, g->size, sizeof *all);
    SFT_NEED(all != NULL, g->size * sizeof *all, err);
    sft_status status = sft__checkpoint_group_gather(g, mine, sizeof *mine, all, err);
    if (status == SFT_OK) {
        const size_t of = choose(all, g->size);
        mine->number = all[0].number;
        if (of != SIZE_MAX) {
            status = share_error(g, of, all[of].status, err != NULL ? err : &none);
        }
    }
    sft__base_free(NULL, all, g->size * sizeof *all);
    return status;
}

sft_status sft__checkpoint_group_agree(const sft_group *g, sft_status status, bool weak,
                                       sft_error *err) {
    verdict mine = {status, weak ? 1 : 0, 0};
    return settle(g, &mine, err);
}

sft_status sft__checkpoint_group_agree_on(const sft_group *g, sft_status status, uint64_t *number,
                                          sft_error *err) {
    verdict mine = {status, 0, *number};
    const sft_status result = settle(g, &mine, err);
    *number = mine.number;
    return result;
}

sft_status sft__checkpoint_group_sum(const sft_group *g, uint64_t *numbers, size_t count,
                                     sft_error *err) {
    if (!sft__checkpoint_group_is_many(g)) {
        return SFT_OK;
    }
    uint64_t *const all = sft__base_alloc_array(NULL, g->size, count * sizeof *all);
    SFT_NEED(all != NULL, g->size * count * sizeof *all, err);
    const sft_status status =
        sft__checkpoint_group_gather(g, numbers, count * sizeof *numbers, all, err);
    for (size_t k = 0; k < count && status == SFT_OK; k++) {
        numbers[k] = 0;
        for (size_t i = 0; i < g->size; i++) {
            numbers[k] += all[i * count + k];
        }
    }
    sft__base_free(NULL, all, g->size * count * sizeof *all);
    return status;
}
