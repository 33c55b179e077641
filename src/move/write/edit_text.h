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

/* Where things lie in a valid header text; positions from its start. */
typedef struct sft__move_header_map {
    size_t open;         /* the outer { */
    size_t close;        /* the outer } */
    bool has_member;     /* any, __metadata__ included */
    bool has_metadata;   /* the member is there, maybe null */
    size_t member_begin; /* the quote of "__metadata__" */
    size_t value_begin;
    size_t value_end;
    size_t comma_before; /* position of the comma, or SIZE_MAX */
    size_t comma_after;
} sft__move_header_map;

/* text: valid, followed by SFT__JSON_SLACK zero bytes. */
sft_status sft__move_header_map_make(sft__move_header_map *map, const char *text, size_t size,
                                     sft_error *err);

/* The raw string (between its quotes) that metadata key `key` has, if it is written without
 * escapes. */
bool sft__move_header_map_value(const sft__move_header_map *map, const char *text, const char *key,
                                size_t *begin, size_t *len);

typedef struct sft__move_edit_change {
    const sft_metadata_entry *entries;
    size_t count;
    bool clear;
    uint64_t reserve; /* blanks wanted if the header must grow */
    uint64_t unit;    /* it grows by a multiple of this */
} sft__move_edit_change;

/* header: parsed from a copy of the text. out: the new text, the same size if it fits, else larger.
 * *changed false: nothing to do, out is empty. */
sft_status sft__move_edit_text(sft__base_buf *out, const char *text, size_t size,
                               const sft__format_header *header,
                               const sft__move_edit_change *change, bool *changed, sft_error *err);

#endif
