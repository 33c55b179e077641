/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/tile.h - turning a plane of elements in memory, tile by tile. Read first: turn.h.
 */
#ifndef SFT_IMPORT_TILE_H
#define SFT_IMPORT_TILE_H

#include "base/compiler.h"

/* A plane of count[0] x count[1] elements of `unit` bytes (1, 2, 4, 8 or 16): element (i, j) lies
 * at src[i * src_stride[0] + j * src_stride[1]] and goes to dst[i * dst_stride[0] + j *
 * dst_stride[1]]. Strides in elements. Fast where the source lies in order along i and the result
 * along j. */
typedef struct sft__import_plane {
    uint64_t count[2];
    uint64_t src_stride[2];
    uint64_t dst_stride[2];
    uint32_t unit;
} sft__import_plane;
void sft__import_plane_turn(uint8_t *dst, const uint8_t *src, const sft__import_plane *p);

#endif
