/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_data.h - the opcodes of plain values, and what the other opcodes have of them.
 * Read first: walk.h.
 */
#ifndef SFT_IMPORT_WALK_DATA_H
#define SFT_IMPORT_WALK_DATA_H

#include "import/walk/walk.h"

static inline walk_step walk_push_kind(walk *w, unsigned kind, uint32_t number) {
    return sft__import_walk_push(w, walk_make(kind, number)) ? WALK_GO : WALK_FAIL;
}

/* A line that ends; Python takes one that the end of the file cuts, and fails right after. */
const uint8_t *sft__import_walk_whole_line(walk *w, size_t *len, bool *cut);
/* The length of a literal, of n bytes; false: there is none, or Python refuses it. */
bool sft__import_walk_length(walk *w, size_t n, bool is_signed, uint64_t *size);

walk_step sft__import_walk_op_binfloat(walk *w);
walk_step sft__import_walk_op_binint(walk *w);
walk_step sft__import_walk_op_binint1(walk *w);
walk_step sft__import_walk_op_binint2(walk *w);
walk_step sft__import_walk_op_bytearray8(walk *w);
walk_step sft__import_walk_op_bytes1(walk *w);
walk_step sft__import_walk_op_bytes4(walk *w);
walk_step sft__import_walk_op_bytes8(walk *w);
walk_step sft__import_walk_op_dict(walk *w);
walk_step sft__import_walk_op_empty_tuple(walk *w);
walk_step sft__import_walk_op_float(walk *w);
walk_step sft__import_walk_op_int(walk *w);
walk_step sft__import_walk_op_list(walk *w);
walk_step sft__import_walk_op_long(walk *w);
walk_step sft__import_walk_op_long1(walk *w);
walk_step sft__import_walk_op_long4(walk *w);
walk_step sft__import_walk_op_none(walk *w);
walk_step sft__import_walk_op_persid(walk *w);
walk_step sft__import_walk_op_scalar(walk *w);
walk_step sft__import_walk_op_set(walk *w);
walk_step sft__import_walk_op_string(walk *w);
walk_step sft__import_walk_op_string1(walk *w);
walk_step sft__import_walk_op_string4(walk *w);
walk_step sft__import_walk_op_text1(walk *w);
walk_step sft__import_walk_op_text4(walk *w);
walk_step sft__import_walk_op_text8(walk *w);
walk_step sft__import_walk_op_unicode(walk *w);

#endif
