/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy.h - a MindSpore strategy while it is read, merged and written. Everything lies in one
 * arena. Read <sft/mindspore.h> first.
 */
#ifndef SFT_LAYOUT_STRATEGY_H
#define SFT_LAYOUT_STRATEGY_H

#include "base/text/strmap.h"
#include "layout/layout.h"
#include <sft/mindspore.h>

/* One parameter, as it stands in the file. Lives as long as its strategy. */
typedef struct sft__layout_ms_param {
    const char *name; /* without the stage prefix; UTF-8, also NUL-terminated */
    size_t name_len;
    /* sizes of the mesh axes; the product is the devices of one stage */
    const uint64_t *dev_matrix;
    size_t axis_count;
    /* Dimension i is cut by the entries map[map_at[i]] to map[map_at[i + 1] - 1], major first: entry m is
     * axis axis_count - 1 - m. No entries: not cut (-1 in the file). */
    const uint32_t *map;
    const size_t *map_at; /* dims + 1 entries */
    size_t dims;
    const uint64_t *shape; /* of the global tensor, dims entries; NULL: the file does not say */
    const uint64_t *split_rows;   /* rows of dimension 0 by slice, where they are given by hand */
    const int64_t *split_offsets; /* index offsets beside them */
    size_t split_count;           /* 0: cut evenly */
    int32_t field;
    int32_t opt_shard_step; /* distance of the ranks of one optimizer group */
    int32_t opt_shard_size; /* 0: no optimizer sharding; -1: over all ranks that are left */
    uint32_t stage;
    uint32_t reserved;
} sft__layout_ms_param;

/* An operator of the network: kept because a merged file must list them. */
typedef struct sft__layout_ms_node {
    const char *name;
    size_t name_len;
    const uint64_t *numbers; /* of all its strategies, one after the other */
    const size_t *begin;     /* count + 1 positions in numbers */
    size_t count;
    uint32_t stage;
} sft__layout_ms_node;

/* A parameter behind the key that finds it: "STAGE-name", made by us whether or not the file has it. */
typedef struct sft__layout_ms_entry {
    const char *key;
    size_t key_len;
    sft__layout_ms_param param;
} sft__layout_ms_entry;

typedef struct sft_ms_strategy sft_ms_strategy;
struct sft_ms_strategy {
    sft__base_arena arena;
    sft__layout_ms_entry *entries;
    size_t count;
    size_t capacity;
    sft__layout_ms_node *nodes;
    size_t node_count;
    size_t node_capacity;
    sft__base_strmap map;
    uint64_t current_stage;
    uint32_t stages;
    uint32_t stage;
    sft_ms_form form;
    bool merged;
    sft_limits limits;
    const char *name; /* of the file */
};

/* A growing list of numbers while one entry is read. */
typedef struct sft__layout_numbers {
    const sft_allocator *allocator;
    uint64_t *list;
    size_t count;
    size_t capacity;
} sft__layout_numbers;

bool sft__layout_numbers_add(sft__layout_numbers *n, uint64_t value);
void sft__layout_numbers_reset(sft__layout_numbers *n);
/* A copy in the arena; NULL: no memory. */
uint64_t *sft__layout_numbers_keep(const sft__layout_numbers *n, sft__base_arena *arena);

typedef struct sft__layout_ms_options {
    const char *name;         /* of the file, for messages */
    const sft_limits *limits; /* tensors, rank, name_bytes, memory_bytes; NULL for defaults */
    const sft_allocator *allocator;
} sft__layout_ms_options;

/* An empty strategy. */
sft_status sft__layout_ms_create(sft_ms_strategy **out, const sft__layout_ms_options *options,
                                 sft_error *err);
/* Room for one more parameter or operator, at the end of the list, all zero. */
sft_status sft__layout_ms_add(sft_ms_strategy *s, sft__layout_ms_entry **out, sft_error *err);
sft_status sft__layout_ms_add_node(sft_ms_strategy *s, sft__layout_ms_node **out, sft_error *err);
sft_status sft__layout_ms_nomem(const sft_ms_strategy *s, size_t size, sft_error *err);
/* A tensor map as it stands in files: the entries of all dimensions, -1 for none; begin: dims + 1 positions
 * among them. */
typedef struct sft__layout_ms_map {
    const uint64_t *numbers;
    const size_t *begin;
    size_t dims;
} sft__layout_ms_map;

/* The tensor map of a parameter. offset: for messages. */
sft_status sft__layout_ms_set_map(sft_ms_strategy *s, sft__layout_ms_param *p,
                                  const sft__layout_ms_map *from, uint64_t offset, sft_error *err);
/* After the last entry: prefixes, stages, the table of names. */
sft_status sft__layout_ms_finish(sft_ms_strategy *s, sft_error *err);

/* Is it cut by optimizer sharding alone, and so by the numbers of the devices, not by axes of their
 * matrix? The layout's mesh has one axis then. */
bool sft__layout_ms_ignores_axes(const sft__layout_ms_param *p);

sft_status sft__layout_ms_read_protobuf(sft_ms_strategy *s, const uint8_t *data, size_t size,
                                        sft_error *err);
sft_status sft__layout_ms_read_json(sft_ms_strategy *s, const char *text, size_t size,
                                    sft_error *err);

/* The text of a strategy file of either form, told apart by its first byte. Everything is copied. Errors:
 * SFT_E_FORMAT, SFT_E_JSON, SFT_E_SCHEMA, SFT_E_DUPLICATE, SFT_E_LIMIT, with the offset in the text. Cost:
 * O(size). */
sft_status sft__layout_ms_parse(sft_ms_strategy **out, const void *data, size_t size,
                                const sft__layout_ms_options *options, sft_error *err);

/* The file's text. Writes at most `capacity` bytes to `data` (may be NULL) and its full length to *size. */
sft_status sft__layout_ms_write(const sft_ms_strategy *strategy, sft_ms_form form, void *data,
                                size_t capacity, size_t *size, sft_error *err);

void sft__layout_ms_free(sft_ms_strategy *strategy); /* NULL is fine */

sft_ms_form sft__layout_ms_form(const sft_ms_strategy *strategy);

/* Pipeline stages: 1, or as many as a merged file holds. */
uint32_t sft__layout_ms_stages(const sft_ms_strategy *strategy);

/* The stage of a file that was not merged (as its operators say), 0 otherwise. */
uint32_t sft__layout_ms_stage(const sft_ms_strategy *strategy);

int sft__layout_ms_merged(const sft_ms_strategy *strategy);

/* Parameters in file order; NULL past the end. A parameter of several stages is there once for each. */
size_t sft__layout_ms_count(const sft_ms_strategy *strategy);

const sft__layout_ms_param *sft__layout_ms_at(const sft_ms_strategy *strategy, size_t index);

/* By name and stage, or NULL. O(1). */
const sft__layout_ms_param *sft__layout_ms_find(const sft_ms_strategy *strategy, const char *name,
                                                size_t name_len, uint32_t stage);

/* The stages' files as one: stage i must be given exactly once, or several times with equal contents
 * (SFT_E_MISMATCH says which parameter differs); a gap is SFT_E_NOT_FOUND. Merged files are refused.
 * (mindspore.merge_pipeline_strategys) */
sft_status sft__layout_ms_merge(sft_ms_strategy **out, const sft_ms_strategy *const *strategies,
                                size_t count, const sft_allocator *allocator, sft_error *err);

/* The layout of one parameter among the ranks of its stage: mesh, tensor map, optimizer sharding (which cuts
 * dimension 0 further, by replicated axes from the right). Ranks begin at stage * devices.
 * Errors: SFT_E_SCHEMA with the tensor's name for maps that no mesh can have, SFT_E_UNSUPPORTED for
 * `field`. */
sft_status sft__layout_ms_layout(sft_layout **out, const sft__layout_ms_param *param,
                                 const sft_allocator *allocator, sft_error *err);

/* Shape of the global tensor from that of a rank's part: even cuts multiplied back. full: dims entries.
 * SFT_E_SHAPE: another number of dimensions. SFT_E_OVERFLOW. */
sft_status sft__layout_ms_full_shape(const sft__layout_ms_param *param, const uint64_t *local,
                                     size_t dims, uint64_t *full, sft_error *err);

#endif
