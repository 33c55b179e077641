/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/pt2/pt2.h - what torch.export.save writes (.pt2): an archive of a program, its weights and its
 * constants. pt2.c knows the layouts, pt2_config.c the lists of weights. Read first:
 * import/torch/torch.h, import/archive/zip.h.
 */
#ifndef SFT_IMPORT_PT2_H
#define SFT_IMPORT_PT2_H

#include "import/archive/zip.h"
#include "import/torch/torch.h"

bool sft__import_pt2_is(const sft__import_zip *zip);
/* Adds the weights and constants; names what is left out. */
sft_status sft__import_pt2_read(sft__import *job, const sft__import_zip *zip, sft_error *err);

/* An entry of a list of weights. */
typedef struct sft__import_pt2_entry {
    const char *name;
    size_t name_len;
    const char *path;
    size_t path_len;
    uint64_t dtype; /* of PyTorch's exported schema */
    uint64_t layout;
    uint64_t offset; /* in elements */
    uint64_t *shape;
    uint64_t *strides;
    uint32_t rank;
    uint32_t stride_count;
    bool pickled;
    bool described; /* it has shape and type */
} sft__import_pt2_entry;

/* The entries of {"config": {NAME: {...}}}, in the job's arena. text: a copy with SFT__JSON_SLACK zeros
 * behind it, which is changed. */
sft_status sft__import_pt2_config(sft__import *job, char *text, size_t len,
                                  sft__import_pt2_entry **entries, size_t *count, sft_error *err);

#endif
