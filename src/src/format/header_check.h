/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/header_check.h - what a set of tensors must fulfil, once each of them was read. Private to
 * src/format; the numbered invariants are in header_check.c.
 */
#ifndef SFT_FORMAT_HEADER_CHECK_H
#define SFT_FORMAT_HEADER_CHECK_H

#include "format/header.h"
#include "format/scan.h"

/* Takes the tensors in header order, as header_parse.c leaves them: pieces[i] holds begin and
 * end (relative, in offset and nbytes), tensor.flags the position of the name's opening quote in
 * the text. Leaves them in file order, checked, indexed by name, with absolute offsets and flags
 * zero. slots: room for the index, from the arena. On failure s->status is set. */
bool sft__format_header_check(sft__format_header *header, sft_piece *pieces, uint64_t *slots,
                              sft__format_scan *s);

#endif
