/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/dedupe/dedupe.h - a directory of ranks as *shards*, each with its *copies*. dedupe.c: from
 * headers to shards, and from kept copies to files; dedupe_rules.c: who keeps what;
 * dedupe_compare.c: are copies equal; expand.c: the way back. Read <sft/dedupe.h> first.
 */
#ifndef SFT_CHECKPOINT_DEDUPE_H
#define SFT_CHECKPOINT_DEDUPE_H

#include "base/text/buf.h"
#include "checkpoint/more.h"
#include "checkpoint/open/checkpoint.h"
#include <sft/dedupe.h>

#define SFT__KEEP_ALL      SIZE_MAX
#define SFT__DEDUPE_RECORD "dedupe.json"

/* A tensor of a rank. */
typedef struct sft__checkpoint_copy {
    uint32_t part;   /* position among the checkpoint's ranks */
    uint32_t tensor; /* position in that one's catalog */
} sft__checkpoint_copy;

/* One part of one tensor, and who has it. Sorted by name; those of one name and layout stand
 * together, by their number. */
typedef struct sft__checkpoint_shard {
    const char *name;
    size_t len;
    const sft_layout *layout; /* NULL: no layout names it */
    uint64_t number;          /* of the part in the layout */
    uint64_t bytes;
    size_t first;  /* copies, by rank */
    size_t count;  /* at least 1 */
    size_t keeper; /* among them; SFT__KEEP_ALL */
} sft__checkpoint_shard;

struct sft_dedupe {
    const sft_allocator *allocator;
    sft__base_arena arena;
    const sft_checkpoint *checkpoint;
    sft_dedupe_options options;
    sft_order order;
    size_t *base;       /* of each rank's tensors in ids, and where the last ones end */
    uint32_t *ids;      /* of each tensor: its name, by number in the order of bytes */
    size_t total;       /* tensors of all ranks */
    const char **names; /* in that order */
    size_t *name_lens;
    size_t name_count;
    sft__checkpoint_copy *copies;
    sft__checkpoint_shard *shards;
    size_t shard_count;
    size_t shard_room;
    sft_job_file *files;
    size_t file_count;
    size_t file_room;
    sft_job_text texts[2];
    size_t text_count;
    sft__base_buf layout_text;
    sft__base_buf record;
    sft_catalog **catalogs; /* owned, in the order of making */
    size_t catalog_count;
    size_t catalog_room;
    uint64_t changed_tensors;
    uint64_t changed_bytes;
};

/* An empty one for this checkpoint, with layout.json. */
sft_status sft__checkpoint_dedupe_begin(sft_dedupe **out, const sft_checkpoint *checkpoint,
                                        const sft_dedupe_options *options, sft_error *err);
static inline const sft_tensor *sft__checkpoint_dedupe_tensor(const sft_dedupe *d, size_t copy) {
    const sft__checkpoint_copy *const c = &d->copies[copy];
    return sft_catalog_at(d->checkpoint->parts[c->part].catalog, c->tensor);
}
/* A file's name relative to the directory, always with .safetensors. NULL: no memory. */
const char *sft__checkpoint_dedupe_name(sft_dedupe *d, const sft_catalog *rank);
/* Metadata of a rank's file without `drop` (may be NULL) and with this remove_redundancy in place
 * of its own; put: also where it has none. */
typedef struct sft__checkpoint_dedupe_metadata {
    const char *drop;
    const char *redundancy;
    bool put;
} sft__checkpoint_dedupe_metadata;
sft_status sft__checkpoint_dedupe_describe(sft_dedupe *d, sft_job_file *file,
                                           const sft_catalog *rank,
                                           const sft__checkpoint_dedupe_metadata *change,
                                           sft_error *err);
/* Room for one more, all zero. */
sft_status sft__checkpoint_dedupe_add_file(sft_dedupe *d, sft_job_file **out, sft_error *err);

/* The rules: set every shard's keeper. */
sft_status sft__checkpoint_dedupe_round_robin(sft_dedupe *d, sft_error *err);
sft_status sft__checkpoint_dedupe_balance(sft_dedupe *d, sft_error *err);

#endif
