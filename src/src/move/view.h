/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/view.h - what a caller asked for (a tensor, slices, a cast, strides), resolved and checked,
 * and the grids that bring it about: one for each piece of the tensor. Pure arithmetic.
 */
#ifndef SFT_MOVE_VIEW_H
#define SFT_MOVE_VIEW_H

#include "base/error.h"
#include "io/reader.h"
#include "move/kernels/grid.h"
#include <sft/read.h>

enum { SFT__VIEW_RANK = 16 }; /* tensors of more dimensions take memory from the heap */

typedef struct sft__move_view {
    const sft_tensor *tensor;
    const sft_dtype *dtype; /* of the result */
    sft_dim *dims;          /* tensor->rank entries */
    int64_t *dst_stride;    /* the same, in the result's units: see view.c */
    uint64_t elements;
    uint64_t nbytes; /* of the result, packed */
    uint64_t low;    /* bytes of the result before its element 0 (strides below zero) */
    uint64_t span;   /* bytes from its lowest to its highest */
    uint32_t rank;   /* of the result */
    uint32_t kernel; /* sft__move_kernel */
    uint32_t convert_flags;
    bool borrow;          /* SFT_READ_BORROW */
    sft__io_reader *ways; /* how the catalog's sources are read; NULL: as they read */
    sft_dim dims_room[SFT__VIEW_RANK];
    int64_t stride_room[SFT__VIEW_RANK];
} sft__move_view;

/* options may be NULL. Free with sft__move_view_reset, whatever this returns. */
sft_status sft__move_view_init(sft__move_view *view, const sft_tensor *tensor,
                               const sft_read_options *options, sft_error *err);
void sft__move_view_reset(sft__move_view *view);

/* The grid of piece `index`, coalesced: source offsets absolute, destination offsets relative to
 * element 0 of the result. empty: the piece has no part in the view. SFT_E_SUBBYTE if a run cuts a
 * byte. */
sft_status sft__move_view_grid(const sft__move_view *view, uint32_t index, sft__move_grid *grid,
                               bool *empty, sft_error *err);

/* Elements that one block of the grid holds. */
uint64_t sft__move_view_block_elements(const sft__move_view *view, const sft__move_grid *grid);

/* A copy of caller's options with the fields that his header had; NULL gives the defaults. */
sft_status sft__move_read_options_get(const sft_read_options *options, sft_read_options *out,
                                      sft_error *err);

#endif
