/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/work.h - long work in blocks of bounded size: rounds of units on the worker pool, each with a
 * room of its own; results are merged in order, so that they do not depend on the number of
 * threads. Read cmd.h first.
 */
#ifndef SFT_CLI_WORK_H
#define SFT_CLI_WORK_H

#include "cli/cmd.h"

/* What one unit of a round works with. */
typedef struct cli_slot {
    void *room; /* room_bytes, aligned for any type; zeroed once */
    sft_status status;
    sft_error err;
} cli_slot;

typedef struct cli_job {
    const char *label;    /* of the progress line */
    uint64_t count;       /* units */
    uint64_t total_bytes; /* for progress: all units together */
    size_t room_bytes;    /* per slot; one thread has one slot, more have four each, at most 64 */
    bool reads;           /* by an sft_reader: more threads than processors, if -j does not say */
    /* In any thread; errors go to slot->err. */
    sft_status (*work)(void *ctx, uint64_t unit, cli_slot *slot);
    /* In the calling thread, in the order of units; sets slot->err on failure. bytes: what the unit
     * adds to progress. NULL for cli_run_free. */
    sft_status (*merge)(void *ctx, uint64_t unit, cli_slot *slot, uint64_t *bytes);
    void *ctx;
} cli_job;

/* The first failure in unit order ends the job. SFT_E_CANCELLED after Ctrl-C or a closed output. */
sft_status cli_run_job(cli *c, const cli_job *job, sft_error *err);

/* The same without rounds, for work that says everything by itself: a thread goes from one unit to
 * the next and waits for no other; no merge, and progress is the work's to draw. */
sft_status cli_run_free(cli *c, const cli_job *job, sft_error *err);

/* Items of given sizes cut into blocks: unit number <-> (item, offset, size). */
typedef struct cli_cut {
    uint64_t *first; /* first unit of each item, and one more */
    uint64_t *sizes;
    size_t items;
    size_t room;
    size_t block;
    uint64_t total_bytes;
} cli_cut;

/* block: a multiple of 24, so that every type of the format is cut between elements. */
void cli_cut_init(cli_cut *cut, size_t block);
void cli_cut_add(cli_cut *cut, uint64_t size);
uint64_t cli_cut_units(const cli_cut *cut);
void cli_cut_find(const cli_cut *cut, uint64_t unit, size_t *item, uint64_t *offset, size_t *size);
void cli_cut_reset(cli_cut *cut);

enum { CLI_BLOCK_BYTES = 24 * 32768 }; /* 768 KiB */

/* Of so many elements, which fill whole blocks of the type. */
uint64_t cli_bytes_of(const sft_dtype *dtype, uint64_t elements);
/* "00ff...", size * 2 characters and a terminator. Returns text. */
const char *cli_hex(char *text, const uint8_t *bytes, size_t size);
/* "[2, 3]", all of it. */
void cli_put_shape(cli_out *o, const uint64_t *shape, size_t rank);
/* Compares names by bytes. */
int cli_compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
