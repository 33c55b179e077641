/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group_save.h - a set of files that a group writes: group_save.c every process its own,
 * group_describe.c what rank 0 says of all. Read group_parts.h and stage.h first.
 */
#ifndef SFT_CHECKPOINT_GROUP_SAVE_H
#define SFT_CHECKPOINT_GROUP_SAVE_H

#include "checkpoint/group/group_parts.h"
#include "checkpoint/stage/stage.h"

typedef struct sft__checkpoint_gsave {
    sft__checkpoint_gset set;
    sft_group_save_options options;
    const char *name; /* middle part of the files' names */
    sft__checkpoint_stage stage;
    bool unmarked;        /* somebody else says what the files are */
    uint64_t total_bytes; /* of all files of tensors; rank 0 */
    uint64_t total_files;
} sft__checkpoint_gsave;

/* What a file of this process is called, with its NUL, and the DCP_SHARDING_INFO of what lies in it. */
void sft__checkpoint_gset_file_name(const sft__checkpoint_gset *set, const char *name,
                                    uint32_t number, sft__base_buf *out);
void sft__checkpoint_gset_info(const sft__checkpoint_gset *set, uint32_t number,
                               sft__base_buf *out);
/* Rank 0, when all files are written: proves that the set is complete, writes description and marker.
 */
sft_status sft__checkpoint_gsave_describe(sft__checkpoint_gsave *s, sft_error *err);
#endif
