/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy.h - a MindSpore strategy while it is read, merged and written. Everything lies in one
 * arena. Read <sft/mindspore.h> first.
 */
#ifndef SFT_LAYOUT_STRATEGY_H
#define SFT_LAYOUT_STRATEGY_H

#include "base/text/strmap.h"
#include <sft/mindspore.h>

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
    sft_ms_param param;
} sft__layout_ms_entry;

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

/* An empty strategy. */
sft_status sft__layout_ms_create(sft_ms_strategy **out, const char *name, const sft_limits *limits,
                                 const sft_allocator *allocator, sft_error *err);
/* Room for one more parameter or operator, at the end of the list, all zero. */
sft_status sft__layout_ms_add(sft_ms_strategy *s, sft__layout_ms_entry **out, sft_error *err);
sft_status sft__layout_ms_add_node(sft_ms_strategy *s, sft__layout_ms_node **out, sft_error *err);
sft_status sft__layout_ms_nomem(const sft_ms_strategy *s, size_t size, sft_error *err);
/* The tensor map of a parameter from numbers as they stand in files: `signed_map` has the entries of all
 * dimensions, -1 for none; begin: dims + 1 positions in it. offset: for messages. */
sft_status sft__layout_ms_set_map(sft_ms_strategy *s, sft_ms_param *p, const uint64_t *signed_map,
                                  const size_t *begin, size_t dims, uint64_t offset,
                                  sft_error *err);
/* After the last entry: prefixes, stages, the table of names. */
sft_status sft__layout_ms_finish(sft_ms_strategy *s, sft_error *err);

/* Is it cut by optimizer sharding alone, and so by the numbers of the devices, not by axes of their
 * matrix? The layout's mesh has one axis then. */
bool sft__layout_ms_ignores_axes(const sft_ms_param *p);

sft_status sft__layout_ms_read_protobuf(sft_ms_strategy *s, const uint8_t *data, size_t size,
                                        sft_error *err);
sft_status sft__layout_ms_read_json(sft_ms_strategy *s, const char *text, size_t size,
                                    sft_error *err);

#endif
