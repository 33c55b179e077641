/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/walk/walk_data.h - the opcodes of plain values, and what the other opcodes have of them.
 * Read first: walk.h.
 */
#ifndef SFT_IMPORT_WALK_DATA_H
#define SFT_IMPORT_WALK_DATA_H

#include "import/walk/walk.h"

static inline walk_step walk_push_step(walk *w, walk_value v) {
    return sft__import_walk_push(w, v) ? WALK_GO : WALK_FAIL;
}
static inline walk_step walk_push_kind(walk *w, unsigned kind, uint32_t number) {
    return walk_push_step(w, walk_make(kind, number));
}

/* A line that ends; Python takes one that the end of the file cuts, and fails right after. */
const uint8_t *sft__import_walk_whole_line(walk *w, size_t *len, bool *cut);
/* The length of a literal, of w->arg bytes; false: there is none, or Python refuses it. */
bool sft__import_walk_length(walk *w, bool is_signed, uint64_t *size);

walk_step sft__import_walk_op_binfloat(walk *w);
walk_step sft__import_walk_op_binint(walk *w);
walk_step sft__import_walk_op_binlong(walk *w);
walk_step sft__import_walk_op_bytearray(walk *w);
walk_step sft__import_walk_op_bytes(walk *w);
walk_step sft__import_walk_op_dict(walk *w);
walk_step sft__import_walk_op_empty_tuple(walk *w);
walk_step sft__import_walk_op_float(walk *w);
walk_step sft__import_walk_op_int(walk *w);
walk_step sft__import_walk_op_old_string(walk *w);
walk_step sft__import_walk_op_persid(walk *w);
walk_step sft__import_walk_op_plain(walk *w);
walk_step sft__import_walk_op_scalar(walk *w);
walk_step sft__import_walk_op_string(walk *w);
walk_step sft__import_walk_op_text(walk *w);
walk_step sft__import_walk_op_unicode(walk *w);

#endif
