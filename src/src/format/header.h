/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/header.h - a header's bytes become facts. Pure: no file is opened, mapped, read or printed
 * here. Read first: the grammar in format/scan.c and the numbered invariants in
 * format/header_check.c.
 */
#ifndef SFT_FORMAT_HEADER_H
#define SFT_FORMAT_HEADER_H

#include "base/memory/alloc.h"
#include "base/text/strmap.h"
#include <sft/catalog.h>
#include <sft/write.h>

/* Bytes that must be readable (and writable) behind the header text given to sft__format_header_parse. */
#define SFT__HEADER_SLACK 64

/* A parsed, validated header. Everything lives in `text` and `arena`. */
typedef struct sft__format_header {
    sft__base_arena arena;
    char *text;          /* owned; strings point into it */
    size_t text_size;    /* as allocated: header bytes + SFT__HEADER_SLACK */
    sft_tensor *tensors; /* file order: by (begin, end), then as in the header; file and source 0;
                            piece offsets absolute in the file */
    size_t tensor_count;
    sft__base_strmap names;
    sft_metadata_entry *metadata; /* header order */
    size_t metadata_count;
    bool has_metadata; /* present and not null */
    uint64_t header_bytes;
    uint64_t file_size;
    uint64_t metadata_begin; /* absolute offsets of the metadata object's `{` and behind its `}`; 0:
                                none */
    uint64_t metadata_end;
} sft__format_header;

/* Checks the first bytes of a file (8, or fewer if the file is shorter) and gives N. Errors:
 * TOO_SMALL, HEADER_TOO_LARGE, HEADER_PAST_END, in the reference's order. */
sft_status sft__format_header_length(const uint8_t *first, size_t first_len, uint64_t file_size,
                                     const sft_limits *limits, uint64_t *header_bytes,
                                     sft_error *err);

/* Parses and validates in one go. text: header_bytes bytes + SFT__HEADER_SLACK bytes of slack,
 * allocated with options->allocator; taken over in every case (freed on failure). It is modified.
 */
sft_status sft__format_header_parse(sft__format_header *out, char *text, uint64_t header_bytes,
                                    uint64_t file_size, const sft_open_options *options,
                                    sft_error *err);
/* The same; canonical false leaves the short way for the reference writer's own form unused. The
 * result must not depend on it: tests and fuzzers compare. */
sft_status sft__format_header_parse_with(sft__format_header *out, char *text, uint64_t header_bytes,
                                         uint64_t file_size, const sft_open_options *options,
                                         bool canonical, sft_error *err);
void sft__format_header_reset(sft__format_header *header);

#endif
