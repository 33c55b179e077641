/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group_parts.h - what the processes of a group hold together, and who writes which part
 * of it. Read group.h first.
 *
 * A part goes by a hash of all that it is (name, dtype, shape, place): equal hashes are replicas.
 * Names are not exchanged: whoever holds a part can name it.
 */
#ifndef SFT_CHECKPOINT_GROUP_PARTS_H
#define SFT_CHECKPOINT_GROUP_PARTS_H

#include "checkpoint/group/group.h"

/* One part of this process. */
typedef struct sft__checkpoint_gpart {
    const sft_group_tensor *tensor;
    const sft_layout *layout; /* NULL: a box, or the global tensor */
    const uint64_t *start;    /* dims entries; of boxes */
    const uint64_t *local;    /* shape of the part, local_dims sizes */
    uint32_t local_dims;
    uint32_t file;     /* of this process's files the number, from 0: a name comes once in a file */
    uint64_t elements; /* of the part */
    uint64_t global;   /* of the global tensor */
    uint64_t part;     /* with layouts: its number */
    uint8_t name_key[16];
    uint8_t key[16];
    uint64_t check; /* of dtype and shape */
    bool mine;      /* to be written by this process */
} sft__checkpoint_gpart;

typedef struct sft__checkpoint_gset {
    const sft_group *group; /* NULL: this process alone */
    const sft_allocator *allocator;
    sft__base_arena arena;
    sft__checkpoint_gpart *parts;
    size_t count;
    bool boxes;     /* not by layouts */
    uint32_t files; /* of this process: 1 + the greatest `file` of a part that it writes, or 0 */
    uint64_t bytes; /* that it writes */
} sft__checkpoint_gset;

/* Looks at the tensors given: boxes, local shapes, sizes, keys. No call of the group. The set is zero, but
 * for its group and its allocator (NULL: the default). */
sft_status sft__checkpoint_gset_init(sft__checkpoint_gset *set, const sft_group_tensor *tensors,
                                     size_t count, sft_layout_set *layouts, sft_error *err);
/* Together: proves by volume that the parts are everything, and chooses who writes which. All get
 * the same status. */
sft_status sft__checkpoint_gset_divide(sft__checkpoint_gset *set, sft_error *err);
/* Of the parts that are `mine`: the k-th box of a tensor goes into the k-th file. */
sft_status sft__checkpoint_gset_number(sft__checkpoint_gset *set, sft_error *err);
void sft__checkpoint_gset_reset(sft__checkpoint_gset *set);

#endif
