/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/region.h - N-dimensional slices, with the meaning they have in Python and numpy.
 * All functions are pure and thread-safe.
 */
#ifndef SFT_REGION_H
#define SFT_REGION_H

#include <sft/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SFT_OMIT INT64_MIN /* an omitted start or stop, as in `:5` or `2:` */

typedef enum sft_slice_kind {
    SFT_SLICE_RANGE = 0,   /* start:stop:step; the dimension stays */
    SFT_SLICE_INDEX = 1,   /* start alone; the dimension is dropped */
    SFT_SLICE_ELLIPSIS = 2 /* as many whole dimensions as are missing; at most one */
} sft_slice_kind;

/* One item between commas, as written. Negative start/stop count from the end. A range is clipped to
 * the dimension as Python does; an index outside is an error. step 0 is an error; in a zeroed struct
 * step 0 would be invalid, so set it to 1. */
typedef struct sft_slice {
    int64_t start; /* SFT_OMIT if omitted */
    int64_t stop;  /* SFT_OMIT if omitted */
    int64_t step;
    uint32_t kind; /* sft_slice_kind */
    uint32_t reserved;
} sft_slice;

/* One dimension after resolving: elements start, start+step, ... (count of them). */
typedef struct sft_dim {
    uint64_t start;
    uint64_t count;
    int64_t step;
    uint32_t dropped; /* 1: came from an index, is no dimension of the result (count is 1) */
    uint32_t reserved;
} sft_dim;

/* Parses "0:2, ::-1, 3, ..." (the text between the brackets; blanks allowed; "" gives no slices).
 * count: how many were written to slices[capacity]. SFT_E_ARG with offset = position in text. */
SFT_API SFT_MUST_CHECK sft_status sft_slice_parse(const char *text, size_t text_len,
                                                  sft_slice *slices, size_t capacity, size_t *count,
                                                  sft_error *err);

/* Resolves slices against a shape. dims: `rank` entries, written. Missing slices mean whole dimensions.
 * SFT_E_ARG (too many slices, step 0, two ellipses), SFT_E_RANGE (index outside its dimension). */
SFT_API SFT_MUST_CHECK sft_status sft_slice_resolve(const sft_slice *slices, size_t slice_count,
                                                    const uint64_t *shape, size_t rank,
                                                    sft_dim *dims, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
