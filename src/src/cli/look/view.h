/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/look/view.h - a tensor or a slice of one, read box by box or as a sequence of blocks in row-major
 * order, in bounded memory; and operands of the form TENSOR[RANGES]. Read cmd.h first.
 */
#ifndef SFT_CLI_VIEW_H
#define SFT_CLI_VIEW_H

#include "cli/cmd.h"

/* ---------------------------------------------------------------- TENSOR[RANGES] */

enum { CLI_MOST_SLICES = 1040 };

typedef struct cli_pick {
    const sft_tensor *tensor;
    const char *ranges; /* the text between the brackets, NULL: none given */
    size_t ranges_len;
} cli_pick;

typedef struct cli_picks {
    cli_pick *items;
    size_t count;
    size_t room;
} cli_picks;

/* Adds what an operand names: a tensor of exactly that name, else NAME[RANGES], else every tensor
 * that a pattern matches (which may end in [RANGES] too). False: reported. file: for messages. */
bool cli_pick_operand(cli *c, const char *file, const sft_catalog *catalog, const char *operand,
                      cli_picks *picks);

/* Fails with the name that is most like the one that is not there. */
void cli_fail_no_tensor(cli *c, const char *file, const sft_catalog *catalog, const char *name,
                        size_t len);

/* ---------------------------------------------------------------- views */

typedef struct cli_view {
    const sft_catalog *catalog;
    const sft_tensor *tensor;
    sft_dim *dims;     /* one per dimension of the tensor */
    uint64_t elements; /* of the result */
    bool whole;        /* every element in its order: read as it lies */
    size_t block;      /* elements per block, a multiple of 8 */
    uint32_t axis;     /* the dimension that blocks cut; those before it go one by one */
    uint64_t chunk;    /* of that dimension in one block */
    uint64_t per_axis; /* blocks along it */
    uint64_t units;
} cli_view;

/* slices NULL: the whole tensor. block: elements. */
sft_status cli_view_init(cli_view *view, const sft_catalog *catalog, const sft_tensor *tensor,
                         const cli_pick *pick, size_t block, sft_error *err);
void cli_view_reset(cli_view *view);

/* Bytes of scratch that the two readers need. */
size_t cli_view_scratch(const cli_view *view);

/* Block `unit` of `units`, in the tensor's own type. elements: how many were read. */
sft_status cli_view_read_block(const cli_view *view, uint64_t unit, void *dst, size_t dst_size,
                               void *scratch, size_t *elements, sft_error *err);
/* A box of the result: low and count per dimension of the tensor, relative to the view. */
sft_status cli_view_read_box(const cli_view *view, const uint64_t *low, const uint64_t *count,
                             void *dst, size_t dst_size, void *scratch, sft_error *err);

#endif
