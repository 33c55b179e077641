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

/* A stretch of a tensor's packed bytes. */
typedef struct sft__move_stretch {
    const sft_tensor *tensor;
    uint64_t offset;
    size_t size;
    sft__io_reader *ways; /* how the catalog's sources are read; NULL: as they read */
} sft__move_stretch;

/* SFT_E_RANGE: the tensor has less. */
sft_status sft__move_stretch_check(const sft__move_stretch *stretch, sft_error *err);

/* As sft_tensor_read_bytes, watched. With ways, dst is as sft__io_reader_read wants it of a packed tensor. */
sft_status sft__move_tensor_bytes(const sft_catalog *catalog, const sft__move_stretch *stretch,
                                  uint8_t *dst, sft__move_watch *watch, sft_error *err);

/* It lies in one piece, as it is. */
static inline bool sft__move_packed(const sft_tensor *t) {
    return t->piece_count == 1 && t->pieces[0].strides == NULL && t->pieces[0].nbytes == t->nbytes;
}

/* sft__move_kernel from a tensor's type to another. */
uint32_t sft__move_kernel_for(const sft_dtype *from, const sft_dtype *to, bool host_order);

/* Adds the tensor's name to an error that has none. Returns status. */
sft_status sft__move_name_tensor(sft_error *err, const sft_tensor *tensor, sft_status status);

#endif
