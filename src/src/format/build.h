/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/build.h - from tensors to header bytes: order, offsets, JSON text, padding. Pure.
 */
#ifndef SFT_FORMAT_BUILD_H
#define SFT_FORMAT_BUILD_H

#include "base/text/buf.h"
#include <sft/write.h>

/* One tensor to lay out. The caller fills the first five fields, sft__format_layout the rest. */
typedef struct sft__format_entry {
    const char *name; /* name and len first: a sft__base_strmap can index entries */
    size_t name_len;
    const sft_dtype *dtype;
    const uint64_t *shape;
    uint32_t rank;
    uint32_t position; /* in file order */
    uint64_t nbytes;
    uint64_t begin; /* relative to the data section */
} sft__format_entry;

/* Validates every entry (UTF-8, not `__metadata__`, no duplicates, dtype of the format, size fits,
 * rank limit), computes nbytes, orders, and assigns position and begin. order_out[p] = index of the
 * entry at file position p; room for count. Errors name the tensor. */
sft_status sft__format_layout(sft__format_entry *entries, size_t count,
                              const sft_write_options *options, uint32_t *order_out,
                              uint64_t *data_bytes, sft_error *err);

/* Appends the 8 length bytes and the header text to out, exactly as the reference writes it
 * (metadata keys sorted by bytes; duplicates are SFT_E_DUPLICATE). metadata NULL: none. With
 * options->reserve_bytes that many blanks stand before the `}` of __metadata__ (which is then
 * written even if empty). Padding: blanks at the end so that 8 + N is a multiple of
 * options->data_alignment (at least 8). */
sft_status sft__format_header_build(sft__base_buf *out, const sft__format_entry *entries,
                                    const uint32_t *order, size_t count,
                                    const sft_metadata_entry *metadata, size_t metadata_count,
                                    const sft_write_options *options, sft_error *err);

/* The text of a __metadata__ object, `{"k":"v",...}` with `blanks` spaces before its `}`. Keys
 * sorted. */
sft_status sft__format_metadata_build(sft__base_buf *out, const sft_metadata_entry *metadata,
                                      size_t count, uint64_t blanks, sft_error *err);

#endif
