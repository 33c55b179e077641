/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/read.h - reading one view of a tensor into memory; what digests and streams share with read.c.
 */
#ifndef SFT_MOVE_READ_H
#define SFT_MOVE_READ_H

#include "move/mover.h"
#include "move/view.h"

/* Carries out the view with the calling thread alone: dst is the place of element 0. */
sft_status sft__move_view_read(const sft__move_view *view, const sft_catalog *catalog, uint8_t *dst,
                               sft__move_watch *watch, sft_error *err);

/* What moves the bytes of one piece: its source and kernel. */
sft_status sft__move_mover_for(sft__move_mover *m, const sft__move_view *view,
                               const sft_catalog *catalog, uint32_t piece, sft__move_watch *watch,
                               sft_error *err);

/* sft_tensor_read, the long way: any options, any tensor, every error. */
sft_status sft__move_read_any(const sft_catalog *catalog, const sft_tensor *tensor,
                              const sft_read_options *options, void *dst, size_t dst_size,
                              sft_error *err);

/* Packed bytes, as sft_tensor_read_bytes, watched. */
sft_status sft__move_tensor_bytes(const sft_catalog *catalog, const sft_tensor *tensor,
                                  uint64_t offset, uint8_t *dst, size_t size,
                                  sft__move_watch *watch, sft_error *err);

/* Adds the tensor's name to an error that has none. Returns status. */
sft_status sft__move_name_tensor(sft_error *err, const sft_tensor *tensor, sft_status status);

#endif
