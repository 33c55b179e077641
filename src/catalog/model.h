/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * catalog/model.h - a model of several files on its way into one catalog. directory.c finds out which
 * files (from a directory or an index), shards.c reads and merges them, reconcile.c compares with the
 * index.
 */
#ifndef SFT_CATALOG_MODEL_H
#define SFT_CATALOG_MODEL_H

#include "catalog/catalog.h"
#include "format/index.h"

#define SFT__NO_SHARD UINT32_MAX

typedef struct sft__catalog_shard {
    const char *
        name; /* relative to the directory, NUL-terminated; name, len first for a sft__base_strmap */
    size_t name_len;
    uint64_t entries; /* of the index that name it; 0 without an index */
    uint32_t file;    /* of the catalog, or SFT__NO_SHARD: not there */
    uint32_t first;   /* of those entries */
} sft__catalog_shard;

typedef struct sft__catalog_model {
    sft_catalog *catalog;
    const sft__catalog_options *options;
    sft__fs_handle directory;
    const sft_model_files *elsewhere; /* NULL: the shards are in the directory */
    const char *prefix;               /* of the shards' paths: "", or ending in a separator */
    sft__catalog_shard *shards;       /* in byte order of their names */
    size_t shard_count;
    const sft__format_index *index; /* NULL: none */
    const char *index_name;
    uint32_t *shard_of; /* per entry of the index */
    uint64_t memory;    /* held by the headers that were read */
} sft__catalog_model;

/* Opens every shard and reads its header. A missing one is an error, or with SFT_OPEN_INCOMPLETE a
 * problem. */
sft_status sft__catalog_shards_load(sft__catalog_model *model, sft_error *err);
/* Without an index: every tensor of every file; no name may come twice. */
sft_status sft__catalog_shards_merge(sft__catalog_model *model, sft_error *err);
/* Without an index: what the names of the files count is there (counted.c). A missing one is an error,
 * or with SFT_OPEN_INCOMPLETE a problem. */
sft_status sft__catalog_shards_count(sft__catalog_model *model, sft_error *err);
/* With an index: the tensors that it names; disagreements become problems or errors. */
sft_status sft__catalog_shards_reconcile(sft__catalog_model *model, sft_error *err);

/* Room for `count` merged tensors, their pieces and their names. */
sft_status sft__catalog_merge_begin(sft__catalog_model *model, size_t count, sft_tensor **tensors,
                                    sft_piece **pieces, sft_error *err);
/* Puts `tensor` of file `file` at position `at` of the merged ones. False: its name is there
 * already. */
bool sft__catalog_merge_put(sft__catalog_model *model, sft_tensor *tensors, sft_piece *pieces,
                            size_t at, const sft_tensor *tensor, uint32_t file);

/* Notes a disagreement; what is missing is fatal. The subject must live as long as the catalog. Names go
 * into the message through sft__catalog_show: at most three, so that SFT__PROBLEM_MAX always suffices. */
#define SFT__PROBLEM_MAX 600
typedef struct sft__catalog_subject {
    const char *text;
    size_t len;
} sft__catalog_subject;
sft_status sft__catalog_problem_add(sft_catalog *catalog, sft_problem_kind kind,
                                    sft__catalog_subject subject, sft_error *err,
                                    const char *format, ...) SFT_PRINTF(5, 6);

/* Makes the message "name: message" and leaves everything else. */
void sft__catalog_error_prefix(sft_error *err, const char *name);

/* A name as it may stand in a message. */
typedef struct sft__catalog_shown {
    char text[120];
} sft__catalog_shown;
const char *sft__catalog_show(sft__catalog_shown *shown, const char *name, size_t name_len);

#endif
