/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_board.c - how far the other processes of a group are, and whether one has failed: a
 * small file in the staging directory, as the threads of a pool may use nothing but files. Read run.h
 * first.
 */
#include "base/memory/need.h"
#include "checkpoint/job/run.h"

typedef sft__checkpoint_running running;

/* Numbers on the board are little-endian. */
static void put_number(uint8_t *at, uint64_t v) {
    for (unsigned i = 0; i < 8; i++) {
        at[i] = (uint8_t)(v >> 8 * i);
    }
}

static uint64_t get_number(const uint8_t *at) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 8; i++) {
        v |= (uint64_t)at[i] << 8 * i;
    }
    return v;
}

void sft__checkpoint_crew_stop(running *r) {
    uint8_t one[8];
    if (r->crew.group == NULL || r->crew.board == SFT__FS_NO_HANDLE || r->crew.stopped) {
        return;
    }
    put_number(one, 1);
    (void)!sft__fs_write_at(r->crew.board, r->crew.board_path.data, 0, one, 8, NULL);
}

/* Rank 0 adds up what the others have done. */
static void look_around(running *r) {
    const size_t size = r->crew.group->size;
    uint64_t others = 0;
    if (sft__fs_read_at(r->crew.board, r->crew.board_path.data, 8, r->crew.numbers, 8 * size,
                        NULL) != SFT_OK) {
        return;
    }
    for (size_t i = 1; i < size; i++) {
        others += get_number(r->crew.numbers + 8 * i);
    }
    r->loop.watch.progress.bytes_done += others - r->crew.others; /* they only grow */
    r->crew.others = others;
}

/* Best effort: the board is no means of being right, only of ending sooner and of telling more. */
sft_status sft__checkpoint_crew_tick(running *r, sft_error *err) {
    uint8_t number[8];
    if (r->crew.group == NULL || r->crew.board == SFT__FS_NO_HANDLE) {
        return SFT_OK;
    }
    sft__base_mutex_lock(&r->loop.watch.lock);
    put_number(number, r->loop.watch.progress.bytes_done - r->crew.others);
    (void)!sft__fs_write_at(r->crew.board, r->crew.board_path.data,
                            8 + 8 * (uint64_t)r->crew.group->rank, number, 8, NULL);
    if (r->crew.group->rank == 0) {
        look_around(r);
    }
    const bool stop =
        sft__fs_read_at(r->crew.board, r->crew.board_path.data, 0, number, 8, NULL) == SFT_OK &&
        get_number(number) != 0 && r->loop.watch.status == SFT_OK;
    r->crew.stopped = r->crew.stopped || stop;
    sft__base_mutex_unlock(&r->loop.watch.lock);
    return stop ? sft__base_fail(err, SFT_E_CANCELLED, "another process has failed") : SFT_OK;
}

sft_status sft__checkpoint_crew_open(running *r, sft_error *err) {
    const size_t size = 8 * ((size_t)r->crew.group->size + 1);
    const bool first = r->crew.group->rank == 0;
    SFT_TRY(sft__checkpoint_stage_board(&r->stage, &r->crew.board_path, err));
    if (!first) {
        return sft__fs_staged_open(r->crew.board_path.data, &r->crew.board, err);
    }
    /* locked: of two groups at the same target one comes too late */
    SFT_TRY(sft__fs_staged_open_alone(r->crew.board_path.data, &r->crew.board, err));
    r->crew.numbers = sft__base_alloc_zero(r->job->allocator, size);
    SFT_NEED(r->crew.numbers != NULL, size, err);
    SFT_TRY(sft__fs_resize(r->crew.board, r->crew.board_path.data, 0, err));
    return sft__fs_write_at(r->crew.board, r->crew.board_path.data, 0, r->crew.numbers, size, err);
}
