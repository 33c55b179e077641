/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/dcp/dcp.h - checkpoints of torch.distributed.checkpoint: .metadata, a pickle that says which
 * box of which tensor lies where, and the files that it names, each a row of what torch.save wrote. dcp.c
 * reads .metadata, dcp_items.c what lies in the files. Read first: import/torch/torch.h.
 */
#ifndef SFT_IMPORT_DCP_H
#define SFT_IMPORT_DCP_H

#include "import/torch/torch.h"

/* An entry of storage_data. */
typedef struct sft__import_dcp_item {
    const char *name;
    size_t name_len;
    const uint64_t *at; /* the box's first element; NULL: an object, no tensor */
    uint32_t rank;
    uint32_t file;
    const char *path; /* relative; NUL-terminated */
    uint64_t offset;
    uint64_t length;
    bool named; /* an entry of the state dict has it */
} sft__import_dcp_item;

typedef struct sft__import_dcp_file {
    const char *path;
    const sft_source *source;
    uint32_t index; /* of the builder */
} sft__import_dcp_file;

typedef struct sft__import_dcp {
    sft__import *job;
    sft__import_pickle p;
    sft__import_torch t; /* for the numbers of sizes; no storages */
    sft__import_dcp_item *items;
    size_t item_count;
    sft__import_dcp_file *files;
    size_t file_count;
    sft_piece *pieces;
    size_t piece_room;
} sft__import_dcp;

/* Is `path` a directory with the .metadata of a distributed checkpoint? Its path in `found`. */
bool sft__import_dcp_locate(const char *path, const sft_import_options *options, char *found,
                            size_t size);

/* Sorts the items by name and box; opens the files that they name. No byte belongs to two items. */
sft_status sft__import_dcp_files(sft__import_dcp *d, sft_error *err);
/* The item of a box, or NULL; at NULL: the object of that name. */
sft__import_dcp_item *sft__import_dcp_find(const sft__import_dcp *d, const char *name,
                                           size_t name_len, const uint64_t *at, uint32_t rank);
/* Where the elements of the item lie; it must have the type and shape of `box` (as PyTorch counts it).
 * strides: of its rank; NULL in the piece if the elements are packed. */
sft_status sft__import_dcp_place(sft__import_dcp *d, const sft__import_dcp_item *item,
                                 const sft_tensor *box, sft_piece *piece, int64_t *strides,
                                 sft_error *err);
/* *tensors: does the object hold storages? A scan looks into its pickle. */
sft_status sft__import_dcp_object(sft__import_dcp *d, const sft__import_dcp_item *item,
                                  bool *tensors, sft_error *err);

#endif
