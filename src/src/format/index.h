/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/index.h - model.safetensors.index.json: {"metadata": {...}, "weight_map": {name: file}}.
 * Pure.
 */
#ifndef SFT_FORMAT_INDEX_H
#define SFT_FORMAT_INDEX_H

#include "base/memory/alloc.h"
#include "base/text/strmap.h"
#include <sft/catalog.h>

typedef struct sft__format_index_entry {
    const char *name; /* name, len first: a sft__base_strmap can index entries */
    size_t name_len;
    const char *file;
    size_t file_len;
    uint64_t offset; /* of the entry in the index text */
} sft__format_index_entry;

typedef struct sft__format_index {
    sft__base_arena arena;
    sft__format_index_entry *entries; /* weight_map in file order */
    size_t entry_count;
    size_t entry_capacity;
    sft__base_strmap names;
    bool has_total_size; /* metadata.total_size was a non-negative integer */
    uint64_t total_size;
} sft__format_index;

/* Any other member is skipped (but must be JSON). Duplicate names: SFT_E_DUPLICATE. */
sft_status sft__format_index_parse(sft__format_index *out, const char *text, size_t len,
                                   const sft_open_options *options, sft_error *err);
void sft__format_index_reset(sft__format_index *index);

/* SFT_OK if `file` is a relative path of plain components that cannot lead out of its directory on any
 * system: not empty, not absolute, no "..", ".", empty component, backslash, NUL, control
 * character, colon, reserved Windows device name, trailing dot or blank; at most 4,096 bytes. Else
 * SFT_E_PATH. */
sft_status sft__format_shard_name_check(const char *file, size_t file_len, sft_error *err);

#endif
