/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/edit_text.h - a new header text out of an old one: pure. What is not edited stays as it was
 * written, unknown fields, spelling and order included.
 */
#ifndef SFT_MOVE_EDIT_TEXT_H
#define SFT_MOVE_EDIT_TEXT_H

#include "base/text/buf.h"
#include "format/header.h"
#include <sft/edit.h>

typedef struct sft__move_edit_change {
    const sft_metadata_entry *entries;
    size_t count;
    bool clear;
    uint64_t reserve; /* blanks wanted if the header must grow */
    uint64_t unit;    /* it grows by a multiple of this */
} sft__move_edit_change;

/* The header that is there: its text, and what was parsed from a copy of it. */
typedef struct sft__move_edit_old {
    const char *text;
    size_t size;
    const sft__format_header *header;
} sft__move_edit_old;

/* out: the new text, the same size if it fits, else larger. *changed false: nothing to do, out is empty. */
sft_status sft__move_edit_text(sft__base_buf *out, const sft__move_edit_old *old,
                               const sft__move_edit_change *change, bool *changed, sft_error *err);

#endif
